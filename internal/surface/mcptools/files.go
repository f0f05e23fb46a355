package mcptools

import (
	"fmt"
	"strings"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/ground/text/plaintext"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/service/reservation"
)

// writeFiles writes who changes which files.
func writeFiles(b *strings.Builder, a api.FilesAnswer) {
	switch {
	case a.Listing != nil:
		for _, r := range a.Listing.Reservations {
			writeReservation(b, r)
		}
		if len(a.Listing.Reservations) == 0 {
			b.WriteString("No other agent changes them: they are free.\n")
		}
		writeNext(b, string(a.Listing.Next))
	case a.Grant != nil:
		for _, r := range a.Grant.Reservations {
			if r.State == hub.ReservationWaiting {
				fmt.Fprintf(b, "%s. You get a message when it is yours.\n", plaintext.Line(reservation.WaitsText(r)))
				continue
			}
			fmt.Fprintf(b, "%s reserved as %s until %s.\n", plaintext.Line(r.Pattern), r.ID, r.Until)
		}
		for _, o := range a.Grant.Overlaps {
			fmt.Fprintf(b, "Note: %s holds %s; the first edit of a file there has it.\n", o.Holder, plaintext.Line(o.Other))
		}
	case a.Back != nil:
		fmt.Fprintf(b, "Brought back from %s: %d.\n", a.Back.ID, len(a.Back.Files))
		for _, name := range a.Back.Files {
			fmt.Fprintf(b, "- %s\n", plaintext.Line(name))
		}
		for _, left := range a.Back.Left {
			fmt.Fprintf(b, "- not %s: %s\n", plaintext.Line(left.Path), plaintext.Line(left.Why))
		}
	case a.Released != nil:
		fmt.Fprintf(b, "Released: %d.\n", a.Released.Released)
	}
}

// writeReservation writes one reservation as a line.
func writeReservation(b *strings.Builder, r reservation.Row) {
	if r.State == hub.ReservationOrphan {
		fmt.Fprintf(b, "%s: free, but %s left changes that are not committed.\n", plaintext.Line(r.Path), r.Holder)
		return
	}
	if r.State == hub.ReservationWaiting {
		fmt.Fprintf(b, "%s: %s waits for it since %s.\n", plaintext.Line(r.Path), r.Holder, r.Since)
		return
	}
	fmt.Fprintf(b, "%s: %s since %s", plaintext.Line(r.Path), r.Holder, r.Since)
	if r.Shared {
		b.WriteString(", shared")
	}
	if r.Why != "" {
		fmt.Fprintf(b, " (%s)", plaintext.Line(r.Why))
	}
	if len(r.Waiting) > 0 {
		fmt.Fprintf(b, "; %d waiting", len(r.Waiting))
	}
	b.WriteString(".\n")
}
