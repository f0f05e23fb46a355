package api

import (
	"context"
	"slices"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/reach/wake"
	"github.com/parley-agents/parley/internal/service/handoff"
	"github.com/parley-agents/parley/internal/service/landing"
	"github.com/parley-agents/parley/internal/service/usage"
	"github.com/parley-agents/parley/internal/work/keeper"
)

// An Overview says what happens on the hub now. The page, parley watch and the notices
// to people are made from it.
type Overview struct {
	Agents  []AgentNow       `json:"agents"` // without the operator
	Tasks   []handoff.Report `json:"tasks"`  // handoffs that an agent works on
	Waiting Waiting          `json:"waiting"`
	Landing []landing.Note   `json:"landing,omitempty"` // gates that are open, and the state of each target

	OpenBudgets []usage.BudgetRow `json:"open_budgets,omitempty"` // for which models without a price are free
}

// An AgentNow is an agent with the word for how it stands.
type AgentNow struct {
	AgentProfile
	Word  string        `json:"now"` // working, waiting, idle, stuck, suspended, paused, stopped, away or never seen
	Why   string        `json:"why"` // the reason of the word
	Doing string        `json:"doing,omitempty"`
	Run   hub.RunID     `json:"run_id,omitempty"`     // the run that it does
	Task  hub.HandoffID `json:"handoff_id,omitempty"` // or the task
	Files int           `json:"files,omitempty"`      // that it holds, without patterns
	Kept  *KeptAgent    `json:"kept,omitempty"`       // nil for one that the hub does not run
}

const (
	stuckAfter = 10 * time.Minute // of silence in a turn
	awayAfter  = 15 * time.Minute // without a call or a session
)

// Words lists the words for agents, those first that need a look.
var Words = []string{"stuck", "suspended", "waiting", "working", "idle", "paused", "stopped", "away", "never seen"}

// keptWords are the words for the states of kept agents.
var keptWords = map[keeper.State]struct{ word, why string }{
	keeper.Stopped:  {"stopped", "its mail waits until you restart it"},
	keeper.Sleeping: {"idle", "it sleeps; mail starts it"},
	keeper.Starting: {"working", "it starts"},
	keeper.Working:  {"working", "a turn runs"},
	keeper.Asking:   {"waiting", "it asks you"},
	keeper.Idle:     {"idle", "it waits for mail"},
	keeper.Failing:  {"stuck", "it failed and is started again after a pause"},
	keeper.Away:     {"away", "machine away: no hub runs where it is kept; its mail waits"},
}

// word returns the word for how an agent stands, and its reason.
func (a AgentProfile) word(now hub.Time) (word, why string) {
	switch s := a.Session; {
	case a.Suspended:
		return "suspended", "it repeated itself"
	case a.State == hub.AgentPaused:
		return "paused", "it may read and not send"
	case s != nil && s.State == wake.SessionWorking && now.Sub(s.Seen.Time) > stuckAfter:
		return "stuck", "a turn runs, and nothing was heard of it for long"
	case s != nil && s.State == wake.SessionWorking:
		return "working", "a turn runs"
	case s != nil && s.State == wake.SessionWaiting:
		return "waiting", "it asks the person at its terminal"
	case s != nil:
		return "idle", "its session is open"
	case a.Reach == hub.ReachNow:
		return "idle", "it waits for messages"
	case a.LastSeen.IsZero():
		return "never seen", "it has not called yet"
	case now.Sub(a.LastSeen.Time) > awayAfter:
		return "away", "no session is open"
	}
	return "idle", "no session is open"
}

// overview returns what happens now. Only the operator, auditors and viewers may ask.
func overview(ctx context.Context, s *Services, a hub.Caller, _ None) (Overview, error) {
	out := Overview{Agents: []AgentNow{}, Tasks: []handoff.Report{}}
	list, err := agentList(ctx, s, a, None{})
	if err != nil {
		return out, err
	}

	for _, state := range []hub.HandoffState{hub.HandoffActivated, hub.HandoffAccepted} {
		got, err := handoffs(ctx, s, a, HandoffParams{Action: "list", State: state, Limit: 100})
		if err != nil {
			return out, err
		}
		out.Tasks = append(out.Tasks, got.Listing.Handoffs...)
	}

	runs, err := runList(ctx, s, a, RunListParams{Open: true, Limit: 50})
	if err != nil {
		return out, err
	}
	kept, err := s.Keeper.List(ctx)
	if err != nil {
		return out, err
	}

	held, err := s.Files.Counts(ctx)
	if err != nil {
		return out, err
	}

	// The activity of an agent follows from the runs and tasks above.
	now := s.Clock.Now()
	for _, profile := range list.Agents {
		if profile.ID == hub.Operator {
			continue
		}
		agent := agentNow(profile, now, kept, runs.Runs, out.Tasks)
		agent.Files = held[agent.ID]
		out.Agents = append(out.Agents, agent)
	}
	policies, err := s.Landings.Views(ctx)
	if err != nil {
		return out, err
	}
	for _, v := range policies {
		out.Landing = append(out.Landing, v.Notes()...)
	}
	budgets, err := s.Usage.Budgets(ctx, a)
	if err != nil {
		return out, err
	}
	isClosed := func(b usage.BudgetRow) bool { return b.OpenText() == "" }
	out.OpenBudgets = slices.DeleteFunc(budgets.Budgets, isClosed)
	out.Waiting, err = s.waiting(ctx, a, out, kept)
	return out, err
}

// agentNow returns an agent with the word for how it stands, and what it does: its run, or
// else its task.
func agentNow(profile AgentProfile, now hub.Time, kept []KeptAgent, runs []hub.Run, tasks []handoff.Report) AgentNow {
	p := AgentNow{AgentProfile: profile}
	p.Word, p.Why = profile.word(now)
	if i := slices.IndexFunc(kept, func(k KeptAgent) bool { return k.Agent == p.ID }); i >= 0 {
		p.Kept = &kept[i]
		w, known := keptWords[p.Kept.State]
		if known && p.State == hub.AgentActive && !p.Suspended {
			p.Word, p.Why = w.word, w.why
		}
	}

	if i := slices.IndexFunc(runs, func(r hub.Run) bool { return r.Agent == p.ID }); i >= 0 {
		p.Doing = runs[i].Task
		p.Run = runs[i].ID
		p.Word, p.Why = "working", "in a run"
	}
	if i := slices.IndexFunc(tasks, func(t handoff.Report) bool { return t.To == p.ID }); i >= 0 && p.Doing == "" {
		p.Doing = tasks[i].Title
		p.Task = tasks[i].ID
	}
	return p
}

// Projects knows the projects between repositories, which are of another room.
type Projects interface {
	// Concerns reports whether a project concerns the caller.
	Concerns(ctx context.Context, caller hub.Caller) (bool, error)
}
