package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/ground/text/plaintext"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/operation/rpc"
	"github.com/parley-agents/parley/internal/service/reservation"
)

func (a *app) filesCommand() *cobra.Command {
	return noun("files", "See which agent changes which file; reserve, check, bring back", a.filesListCommand(),
		a.reserveCommand(), a.releaseCommand(), a.reservationShowCommand(), a.guardCheckCommand(), a.filesGuardCommand(),
		a.keptWorkListCommand(), a.bringBackCommand(), a.keptWorkDropCommand())
}

func (a *app) reserveCommand() *cobra.Command {
	var p api.ReserveParams
	cmd := &cobra.Command{
		Use:   "reserve PATTERN...",
		Short: "Reserve files before you change them",
		Long: `Reserve files of a working tree before you change them. Other agents cannot change them
until you release them, your session ends or the time is over. An edit reserves its file
by itself; this command is for work ahead. A pattern is a path, a folder or a pathspec of
git, relative to the working folder. If another agent has the same path or pattern, you are
next. Overlaps with other files of agents are warnings: the first edit has the file.`,
		Example: `  parley files reserve 'src/auth/*.go' --for 2h --why "new login"
  parley files reserve docs --shared`,
		Args: cobra.MinimumNArgs(1),
	}
	cmd.Flags().StringVar(&p.For, "for", "", "time after which the reservation ends (default and most 24h)")
	cmd.Flags().StringVar(&p.Why, "why", "", "reason, which other agents read")
	cmd.Flags().BoolVar(&p.Shared, "shared", false, "share the files with agents that also reserve them as shared")
	cmd.Flags().StringVar((*string)(&p.Task), "task", "", "task that the files are for; its end releases them")
	cmd.Flags().StringVar((*string)(&p.Handoff), "handoff", "", "handoff that the files are for; its end releases them")
	cmd.Flags().StringVar((*string)(&p.Agent), "agent", "", "agent that gets the files (operator, or coordinator of its team)")
	return operation(a, cmd, api.ReserveFiles, &p, writeGrant, treeFlag(cmd, &p.Tree, "."), func(_ context.Context, args []string) error {
		p.Patterns = args
		return nil
	})
}

// treeFlag adds the flag that names a folder of a working tree.
func treeFlag(cmd *cobra.Command, into *string, standard string) preparation {
	value := cmd.Flags().String("tree", standard, "folder in the working tree")
	return func(context.Context, []string) (err error) {
		if *value != "" {
			*into, err = realPath(*value)
		}
		return err
	}
}

func writeGrant(w io.Writer, got reservation.Grant) {
	for _, r := range got.Reservations {
		if r.State == hub.ReservationWaiting {
			fmt.Fprintf(w, "%s (%s)\n", plaintext.Line(reservation.WaitsText(r)), r.ID)
			continue
		}
		fmt.Fprintf(w, "reserved %s until %s (%s)\n", r.Pattern, when(r.Until), r.ID)
	}
	for _, o := range got.Overlaps {
		fmt.Fprintf(w, "%s %s holds %s\n", paint(w, "33", "warning:"), o.Holder, plaintext.Line(o.Other))
	}
}

func (a *app) releaseCommand() *cobra.Command {
	var p reservation.Release
	cmd := &cobra.Command{
		Use:   "release PATH...",
		Short: "Release reserved files",
		Long: `Release reserved files, by their paths, by the patterns with which they were reserved, or
by the id of a reservation. Agents that wait for them are notified. The operator can
release the files of any agent, and the coordinator of a team those of its members; the
agent gets a message.`,
		Example: `  parley files release src/auth/login.go
  parley files release --id r12`,
		Args: func(_ *cobra.Command, args []string) error {
			if (len(args) == 0) == (p.ID == "") {
				return usagef("give paths, or --id")
			}
			return nil
		},
	}
	cmd.Flags().StringVar((*string)(&p.ID), "id", "", "id of a reservation, such as r12")
	return operation(a, cmd, api.ReleaseFiles, &p, func(w io.Writer, got reservation.Released) {
		fmt.Fprintf(w, "released %s\n", counted(got.Released, "reservation"))
	}, treeFlag(cmd, &p.Tree, "."), func(_ context.Context, args []string) error {
		p.Paths = args
		return nil
	})
}

func (a *app) filesListCommand() *cobra.Command {
	var p reservation.Filter
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the files that agents change",
		Long: `List the files that agents change, by working tree. A held file belongs to an agent that
works on it; a waiting one is next for files that another agent holds; an orphan has changes
that are not committed, and its agent is gone.`,
		Example: `  parley files --tree .
  parley files show src/auth/login.go`,
		Args: cobra.NoArgs,
	}
	cmd.Flags().StringVar((*string)(&p.Agent), "agent", "", "only files of this agent")
	cmd.Flags().StringVar((*string)(&p.State), "state", "", "only files in this state: held, waiting or orphan")
	cmd.Flags().StringVar((*string)(&p.Cursor), "cursor", "", "continue after a page of the list")
	return operation(a, cmd, api.ListFiles, &p, writeReservations, treeFlag(cmd, &p.Tree, ""))
}

// writeReservations writes the reservations of each working tree as a table.
func writeReservations(w io.Writer, got reservation.Listing) {
	if len(got.Reservations) == 0 {
		fmt.Fprintln(w, "no reservations")
		return
	}
	var trees []string
	byTree := map[string][]reservation.Row{}
	for _, r := range got.Reservations {
		if byTree[r.Tree] == nil {
			trees = append(trees, r.Tree)
		}
		byTree[r.Tree] = append(byTree[r.Tree], r)
	}

	slices.Sort(trees)
	for i, tree := range trees {
		if i > 0 {
			fmt.Fprintln(w)
		}
		fmt.Fprintln(w, tree)
		writeTable(w, "STATE, PATH, HOLDER, SINCE, WAITING, NOTE", byTree[tree], func(r reservation.Row) []any {
			return []any{state(r.State), r.Path, r.Holder, r.Since, joinedWords(r.Waiting), reservationNote(r)}
		})
	}
	for _, o := range got.Overlaps {
		fmt.Fprintf(w, "%s %s change %s in different working trees: expect a merge conflict\n", paint(w, "33", "note:"), strings.Join(words(o.Agents), " and "), plaintext.Line(o.Path))
	}
	if got.Next != "" {
		fmt.Fprintf(w, "more: --cursor %s\n", got.Next)
	}
}

// reservationNote returns the reason of a reservation and its other facts.
func reservationNote(r reservation.Row) string {
	var parts []string
	if r.Task != "" {
		parts = append(parts, string(r.Task))
	}
	if r.Handoff != "" {
		parts = append(parts, "handoff "+string(r.Handoff))
	}
	if r.Shared {
		parts = append(parts, "shared")
	}
	if !r.Until.IsZero() {
		parts = append(parts, "until "+when(r.Until))
	}
	switch {
	case r.Lines == 0:
	case r.State == hub.ReservationOrphan:
		parts = append(parts, counted(r.Lines, "changed line"))
	default:
		parts = append(parts, "found "+counted(r.Lines, "changed line"))
	}
	if r.Why != "" {
		parts = append(parts, r.Why)
	}
	return strings.Join(parts, "; ")
}

// A reservationDetail is a reservation with the difference that an orphan left.
type reservationDetail struct {
	reservation.Listing
	Difference string `json:"difference,omitempty"` // unified diff
}

func (a *app) reservationShowCommand() *cobra.Command {
	var tree string
	cmd := &cobra.Command{
		Use:   "show PATH",
		Short: "Show who changes a file, and the changes that an agent left in it",
		Long: `Show who changes a file. If its agent is gone and left changes that are not committed,
the difference is printed as the hub kept it, also after another agent changed the file.`,
		Args: cobra.ExactArgs(1),
	}
	readTree := treeFlag(cmd, &tree, ".")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := readTree(cmd.Context(), args); err != nil {
			return err
		}
		c, err := a.client()
		if err != nil {
			return err
		}
		got, err := rpc.Call(cmd.Context(), c, api.Files, api.FilesParams{Action: "who", Tree: tree, Paths: args})
		if err != nil {
			return err
		}
		return a.showReservations(cmd.Context(), c, args[0], *got.Listing)
	}
	return cmd
}

// showReservations prints the reservations of a file, with the difference that one left.
func (a *app) showReservations(ctx context.Context, c *rpc.Client, path string, got reservation.Listing) error {
	if len(got.Reservations) == 0 {
		return hub.Errorf(hub.CodeNotFound, "parley", "no agent has reserved %s", path).WithHint("parley files lists the files that agents change")
	}
	out := reservationDetail{Listing: got}
	for _, r := range got.Reservations {
		if r.Left == "" {
			continue
		}
		var err error
		if out.Difference, err = readArtifact(ctx, c, r.Left); err != nil {
			return err
		}
	}
	return a.print(out, func(w io.Writer) {
		writeReservations(w, got)
		if out.Difference != "" {
			fmt.Fprintf(w, "\n%s", out.Difference)
		}
	})
}

// readArtifact returns stored content as text.
func readArtifact(ctx context.Context, c *rpc.Client, sha256 string) (string, error) {
	res, err := c.Do(ctx, http.MethodGet, "/artifacts/"+sha256, "", nil)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return "", rpc.ReadError(res)
	}
	b, err := io.ReadAll(res.Body)
	return string(b), err
}
