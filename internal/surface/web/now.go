package web

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/reach/sessions"
	"github.com/parley-agents/parley/internal/service/handoff"
	"github.com/parley-agents/parley/internal/surface/api"
)

const (
	recent     = 200              // messages that the map and last words are made of
	stuckAfter = 10 * time.Minute // of silence in a turn
	awayAfter  = 15 * time.Minute // without a call or a session
)

// A presence is an agent as the Now page shows it.
type presence struct {
	api.AgentProfile
	State string // a word
	Why   string // behind the word
	Doing string
	Link  string // to what it does
	Last  *message
	Full  bool // as many unread messages as are counted
}

// nowData is the Now page.
type nowData struct {
	Agents   []presence
	Held     []message
	Handoffs []handoff.Report // that wait for approval
	Inbox    []message        // to the operator
	More     int              // messages in the inbox that are not shown
	Late     []handoff.Report
	Map      diagram
	Paused   bool // every agent, and wakes
	Viewer   bool
}

func now(ctx context.Context, v *visit) (string, any, error) {
	d := nowData{Viewer: !v.operator()}
	list, err := perform(ctx, v, api.ListAgents, api.None{})
	if err != nil {
		return "", nil, err
	}
	held, err := perform(ctx, v, api.ListHeld, api.None{})
	if err != nil {
		return "", nil, err
	}
	for _, e := range held.Messages {
		d.Held = append(d.Held, v.message(e, held.ShortIDs))
	}
	d.Handoffs = held.Handoffs
	if v.operator() {
		inbox, err := perform(ctx, v, api.Inbox, api.InboxParams{Peek: true, Limit: 20})
		if err != nil {
			return "", nil, err
		}
		for _, e := range inbox.Messages {
			d.Inbox = append(d.Inbox, v.message(e, inbox.ShortIDs))
		}
		d.More = max(0, inbox.Unread-len(d.Inbox))
	}
	talk, err := perform(ctx, v, api.Query, api.QueryParams{Limit: recent})
	if err != nil {
		return "", nil, err
	}
	last := map[hub.AgentID]*message{}
	var names []hub.AgentID
	for _, a := range list.Agents {
		names = append(names, a.ID)
	}
	d.Map = newDiagram(names)
	for _, e := range talk.Messages { // the newest first
		if last[e.From] == nil {
			m := v.message(e, talk.ShortIDs)
			last[e.From] = &m
		}
		d.Map.add(e)
	}
	d.Map.place()
	tasks, err := v.openTasks(ctx)
	if err != nil {
		return "", nil, err
	}
	clock := time.Now()
	for _, t := range tasks {
		if !t.DueAt.IsZero() && t.DueAt.Before(clock) {
			d.Late = append(d.Late, t)
		}
	}
	runs, err := perform(ctx, v, api.ListRuns, api.RunListParams{Open: true, Limit: 50})
	if err != nil {
		return "", nil, err
	}
	active := 0
	for _, a := range list.Agents {
		if a.ID == hub.Operator {
			continue
		}
		p := presence{AgentProfile: a, Last: last[a.ID], Full: a.Unread >= 25}
		p.State, p.Why = stateOf(a, clock)
		for _, r := range runs.Runs {
			if r.Agent == a.ID && p.Doing == "" {
				p.Doing, p.Link, p.State, p.Why = r.Task, "/runs/"+string(r.ID), "working", "in a run"
			}
		}
		for _, t := range tasks {
			if t.To == a.ID && p.Doing == "" {
				p.Doing, p.Link = t.Title, "/handoffs/"+string(t.ID)
			}
		}
		if a.State == hub.AgentActive {
			active++
		}
		d.Agents = append(d.Agents, p)
	}
	d.Paused = active == 0 && len(d.Agents) > 0
	slices.SortStableFunc(d.Agents, func(a, b presence) int {
		return cmp.Or(cmp.Compare(stateOrder[a.State], stateOrder[b.State]), b.LastSeen.Compare(a.LastSeen.Time))
	})
	return "Now", d, nil
}

// openTasks returns the handoffs that somebody works on.
func (v *visit) openTasks(ctx context.Context) ([]handoff.Report, error) {
	var out []handoff.Report
	for _, state := range []hub.HandoffState{hub.HandoffActivated, hub.HandoffAccepted} {
		got, err := perform(ctx, v, api.Handoff, api.HandoffParams{Action: "list", State: state, Limit: 100})
		if err != nil {
			return nil, err
		}
		out = append(out, got.Listing.Handoffs...)
	}
	return out, nil
}

// stateOrder puts those first who need a look.
var stateOrder = map[string]int{"stuck": 0, "suspended": 1, "waiting": 2, "working": 3, "idle": 4, "paused": 5, "away": 6, "never seen": 7}

// stateOf returns the word for how an agent stands, and what is behind it.
func stateOf(a api.AgentProfile, clock time.Time) (state, why string) {
	switch s := a.Session; {
	case a.Suspended:
		return "suspended", "it repeated itself"
	case a.State == hub.AgentPaused:
		return "paused", "it may read and not send"
	case s != nil && s.State == sessions.StateWorking && clock.Sub(s.Seen.Time) > stuckAfter:
		return "stuck", "a turn runs, and nothing was heard of it for long"
	case s != nil && s.State == sessions.StateWorking:
		return "working", "a turn runs"
	case s != nil && s.State == sessions.StateWaiting:
		return "waiting", "it asks the person at its terminal"
	case s != nil:
		return "idle", "its session is open"
	case a.Reach == hub.ReachNow:
		return "idle", "it waits for messages"
	case a.LastSeen.IsZero():
		return "never seen", "it has not called yet"
	case clock.Sub(a.LastSeen.Time) > awayAfter:
		return "away", "no session is open"
	}
	return "idle", "no session is open"
}
