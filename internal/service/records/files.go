package records

import (
	"fmt"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
)

// recordFile applies an entry about the reservation of a file.
func (v *verifier) recordFile(e hub.Entry) {
	var f struct {
		Tree   string      `json:"tree"`
		Path   string      `json:"path"`
		Holder hub.AgentID `json:"holder"`
		Left   string      `json:"left"`
		Waits  bool        `json:"waits"`
	}
	if v.Files == nil { // a verification that an earlier version paused
		v.Files = register[hub.Reservation]{}
	}
	switch e.Action {
	case actions.ReservationTaken:
		if v.decodeFacts(e, &f) {
			want := hub.Reservation{Tree: hub.WorkingTree{Path: f.Tree}, Path: f.Path, Holder: f.Holder, State: hub.ReservationHeld, Since: e.At, Left: f.Left}
			if f.Waits {
				want.State = hub.ReservationWaiting
			}
			v.Files.put(e.Subject, want, e)
		}
	case actions.ReservationOrphaned:
		if r := v.Files[e.Subject]; r != nil && v.decodeFacts(e, &f) {
			r.Want.State = hub.ReservationOrphan
			r.Want.Left = f.Left
		}
	case actions.ReservationReleased:
		delete(v.Files, e.Subject)
	}
}

// checkFiles compares the reservations of files in the store with the journal: those that were
// taken and not released are stored.
func (v *verifier) checkFiles(r hub.Reader) error {
	if !v.Complete {
		v.Out.Unchecked = append(v.Out.Unchecked, "reservations of files: their records in archives were not read")
		return nil
	}
	all, err := r.Reservations().OfAgent("")
	if err != nil {
		return err
	}
	for _, stored := range all {
		v.Out.Reservations++
		v.Files.check(v, "reservation", string(stored.ID), func(want hub.Reservation, row int64) string { return fileDiffers(stored, want, row) })
	}
	v.Files.missing(v, "reservation")
	return nil
}

func fileDiffers(r, want hub.Reservation, row int64) string {
	isSame := r.Tree.Path == want.Tree.Path && r.Path == want.Path && r.Holder == want.Holder && r.Since.Equal(want.Since.Time)
	switch {
	case !isSame:
		return fmt.Sprintf(differsFrom, row)
	case r.State != want.State:
		return fmt.Sprintf("it is %s, but the journal says %s", r.State, want.State)
	}
	return unless(r.Left == want.Left, "the difference that it left is not the one that the journal records for the reservation of row %d", row)
}
