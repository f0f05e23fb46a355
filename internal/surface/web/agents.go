package web

import (
	"context"
	"slices"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/keeper"
	"github.com/parley-agents/parley/internal/reach/sessions"
	"github.com/parley-agents/parley/internal/service/handoff"
	"github.com/parley-agents/parley/internal/surface/api"
)

const (
	stuckAfter = 10 * time.Minute // of silence in a turn
	awayAfter  = 15 * time.Minute // without a call or a session
	logLines   = 200              // of a kept agent on its page
)

// A presence is an agent as pages show it.
type presence struct {
	api.AgentProfile
	State string // a word
	Why   string // behind the word
	Doing string
	Link  string // to what it does
	Last  *message
	Full  bool           // as many unread messages as are counted
	Kept  *api.KeptAgent // nil for one that the hub does not run
}

// presences returns the agents of the hub, without the operator, and the handoffs that
// are worked on.
func (v *visit) presences(ctx context.Context) ([]presence, []handoff.Report, error) {
	list, err := perform(ctx, v, api.ListAgents, api.None{})
	if err != nil {
		return nil, nil, err
	}
	tasks, err := v.openTasks(ctx)
	if err != nil {
		return nil, nil, err
	}
	runs, err := perform(ctx, v, api.ListRuns, api.RunListParams{Open: true, Limit: 50})
	if err != nil {
		return nil, nil, err
	}
	kept, err := perform(ctx, v, api.ListKept, api.None{})
	if err != nil {
		return nil, nil, err
	}
	clock := time.Now()
	var out []presence
	for _, a := range list.Agents {
		if a.ID == hub.Operator {
			continue
		}
		p := presence{AgentProfile: a, Full: a.Unread >= 25}
		p.State, p.Why = stateOf(a, clock)
		if i := slices.IndexFunc(kept.Agents, func(k api.KeptAgent) bool { return k.Agent == a.ID }); i >= 0 {
			p.Kept = &kept.Agents[i]
			if w, ok := keptStates[p.Kept.State]; ok && a.State == hub.AgentActive && !a.Suspended {
				p.State, p.Why = w.state, w.why
			}
		}
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
		out = append(out, p)
	}
	return out, tasks, nil
}

// openTasks returns the handoffs that an agent works on.
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
var stateOrder = map[string]int{"stuck": 0, "suspended": 1, "waiting": 2, "working": 3, "idle": 4, "paused": 5, "stopped": 6, "away": 7, "never seen": 8}

// keptStates are the words for the states of kept agents.
var keptStates = map[keeper.State]struct{ state, why string }{
	keeper.Stopped:  {"stopped", "its mail waits until you restart it"},
	keeper.Sleeping: {"idle", "it sleeps; mail starts it"},
	keeper.Starting: {"working", "it starts"},
	keeper.Working:  {"working", "a turn runs"},
	keeper.Asking:   {"waiting", "it asks you"},
	keeper.Idle:     {"idle", "it waits for mail"},
	keeper.Failing:  {"stuck", "it failed and is started again after a pause"},
}

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

// agentData is the page of one agent.
type agentData struct {
	presence
	Here     string
	Tasks    []handoff.Report
	Messages []message // the newest that it sent or received
	Lines    []logLine // of a kept agent, for an operator
}

// A logLine is a line of the log of a kept agent. Text that came in parts is one line.
type logLine struct {
	At   hub.Time
	Kind string
	Text string
}

func oneAgent(ctx context.Context, v *visit) (string, any, error) {
	id := hub.AgentID(v.r.PathValue("id"))
	all, tasks, err := v.presences(ctx)
	if err != nil {
		return "", nil, err
	}
	i := slices.IndexFunc(all, func(p presence) bool { return p.ID == id })
	if i < 0 {
		return "", nil, hub.Errorf(hub.CodeNotFound, "web", "no agent named %.80q on this hub", id)
	}
	d := agentData{presence: all[i], Here: v.r.URL.RequestURI()}
	for _, t := range tasks {
		if t.To == id {
			d.Tasks = append(d.Tasks, t)
		}
	}
	talk, err := perform(ctx, v, api.Query, api.QueryParams{Agent: id, Limit: 20})
	if err != nil {
		return "", nil, err
	}
	for _, e := range talk.Messages {
		d.Messages = append(d.Messages, v.message(e, talk.ShortIDs))
	}
	if d.Kept != nil && v.operator() {
		log, err := perform(ctx, v, api.LogAgent, api.KeptLogParams{Agent: id})
		if err != nil {
			return "", nil, err
		}
		for _, l := range log.Lines {
			if n := len(d.Lines); n > 0 && d.Lines[n-1].Kind == l.Kind && (l.Kind == "text" || l.Kind == "thought") {
				d.Lines[n-1].Text += l.Text
				continue
			}
			d.Lines = append(d.Lines, logLine{hub.At(l.At), l.Kind, l.Text})
		}
		d.Lines = d.Lines[max(0, len(d.Lines)-logLines):]
	}
	return string(id), d, nil
}
