package web

import (
	"cmp"
	"context"
	"encoding/json"
	"net/url"
	"slices"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/service/reservation"
)

const (
	filePage      = 200  // reservations on the page
	overlapLines  = 50   // overlaps on the page
	violationPage = 20   // violations on the page
	violationScan = 2000 // the newest journal entries that are searched for them
)

// filesData is the page of the files that agents change.
type filesData struct {
	Agent      hub.AgentID // whose files are shown; "" for all
	Here       string
	Trees      []treeView
	Older      string // the address of the next page; "" on the last one
	Overlaps   []reservation.TreeClash
	More       int // overlaps that are not shown
	Violations []violation
	Scanned    int // journal entries in which violations are searched
}

// A treeView is a working tree with the files that agents change in it.
type treeView struct {
	Machine    string
	Path       string
	Repository string
	Files      []reservation.Row
}

// A violation is a file that another agent changed than the one that held it, or that changed
// during a command of another agent.
type violation struct {
	Seq    int64       `json:"-"`
	At     hub.Time    `json:"-"`
	Tree   string      `json:"tree"`
	Path   string      `json:"path"`
	Holder hub.AgentID `json:"holder"`
	By     hub.AgentID `json:"by"`
	During bool        `json:"during_command"`
}

func filesInWork(ctx context.Context, v *visit) (string, any, error) {
	q := v.r.URL.Query()
	d := filesData{Agent: hub.AgentID(q.Get("agent")), Here: v.r.URL.RequestURI(), Scanned: violationScan}
	f := reservation.Filter{Agent: d.Agent, Cursor: hub.ReservationID(q.Get("cursor")), Limit: filePage}
	got, err := perform(ctx, v, api.ListFiles, f)
	if err != nil {
		return "", nil, err
	}
	d.Trees = byTree(got.Reservations)
	if got.Next != "" {
		d.Older = "/files?" + url.Values{"agent": {q.Get("agent")}, "cursor": {string(got.Next)}}.Encode()
	}
	d.Overlaps = got.Overlaps[:min(len(got.Overlaps), overlapLines)]
	d.More = len(got.Overlaps) - len(d.Overlaps)
	d.Violations, err = v.violations(ctx)
	return "Files", d, err
}

// byTree puts reservations under their working trees, both in alphabetical order.
func byTree(all []reservation.Row) (out []treeView) {
	slices.SortStableFunc(all, func(a, b reservation.Row) int {
		return cmp.Or(cmp.Compare(a.Machine, b.Machine), cmp.Compare(a.Tree, b.Tree), cmp.Compare(a.Path, b.Path))
	})
	for i, r := range all {
		if i == 0 || all[i-1].Machine != r.Machine || all[i-1].Tree != r.Tree {
			out = append(out, treeView{Machine: r.Machine, Path: r.Tree, Repository: r.Repository})
		}
		last := &out[len(out)-1]
		last.Files = append(last.Files, r)
	}
	return out
}

// violations returns the newest violations of the journal, the newest first. It reads a bounded
// number of entries: the journal has no index of actions.
func (v *visit) violations(ctx context.Context) (out []violation, err error) {
	head, err := v.Head(ctx)
	if err != nil {
		return nil, err
	}
	got, err := perform(ctx, v, api.Audit, api.AuditParams{
		Action: actions.ReservationViolated, Limit: violationPage, Last: true, After: max(0, head.Seq-violationScan),
	})
	for _, e := range slices.Backward(got.Entries) {
		one := violation{Seq: e.Seq, At: e.At}
		if json.Unmarshal(e.Facts, &one) == nil {
			out = append(out, one)
		}
	}
	return out, err
}

// releaseFile ends the reservation of any agent. The hub tells its holder.
func releaseFile(ctx context.Context, f form) (string, error) {
	_, err := perform(ctx, f.visit, api.ReleaseFiles, reservation.Release{ID: hub.ReservationID(f.Get("id"))})
	return "The file is released, and its holder is notified.", err
}
