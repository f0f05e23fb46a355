package api

import (
	"context"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/reach/wake"
	"github.com/parley-agents/parley/internal/service/continuation"
)

// ContinueParams are the parameters of parley/continuation/continue.
type ContinueParams = continuation.Request

func continueTask(ctx context.Context, s *Services, a hub.Caller, p ContinueParams) (continuation.Continued, error) {
	const op = "parley/continuation/continue"
	if task := hub.TaskID(p.Handoff); task.Valid() { // people name either in the same place
		p.Handoff = ""
		p.Task = task
	}
	if (p.Handoff == "") == (p.Task == "") {
		return continuation.Continued{}, hub.Errorf(hub.CodeInvalid, op, "handoff or task is required")
	}
	id, err := s.Handoffs.Resolve(ctx, op, a, p.Handoff)
	if err != nil {
		return continuation.Continued{}, err
	}
	p.Handoff = id
	got, err := s.Onward.Continue(ctx, a, p)
	if err != nil {
		return continuation.Continued{}, err
	}
	return s.Onward.Named(ctx, got)
}

// ContinuationListParams choose continuations.
type ContinuationListParams struct {
	Open bool `json:"open,omitempty"` // only those that nobody took
}

func continuationList(ctx context.Context, s *Services, a hub.Caller, p ContinuationListParams) (continuation.Listing, error) {
	if s.Onward == nil { // in a hub without continuations
		return continuation.Listing{Continuations: []hub.Continuation{}}, nil
	}
	return s.Onward.List(ctx, a, p.Open)
}

// A Compaction says whether a text is kept for an agent.
type Compaction struct {
	Kept bool `json:"kept"` // false without open tasks
}

func compacting(ctx context.Context, s *Services, a hub.Caller, _ None) (Compaction, error) {
	kept, err := s.Onward.Compacting(ctx, a.ID)
	return Compaction{kept}, err
}

// RescueParams name kept work.
type RescueParams struct {
	ID     hub.RescueID `json:"id"`
	Folder string       `json:"folder,omitempty"` // for apply; default the one that it is from
}

func rescueList(ctx context.Context, s *Services, a hub.Caller, _ None) (continuation.Rescues, error) {
	return s.Onward.Rescues(ctx, a)
}

func rescueShow(ctx context.Context, s *Services, a hub.Caller, p RescueParams) (continuation.RescuePatch, error) {
	return s.Onward.Show(ctx, a, p.ID)
}

func rescueApply(ctx context.Context, s *Services, a hub.Caller, p RescueParams) (continuation.Applied, error) {
	return s.Onward.Apply(ctx, a, p.ID, p.Folder)
}

func rescueDrop(ctx context.Context, s *Services, a hub.Caller, p RescueParams) (None, error) {
	return None{}, s.Onward.Drop(ctx, a, p.ID)
}

// followSession lets the tasks of an agent in a terminal go on when its session ends or its turn
// fails for good, gives them back when it works again, and adds the text that it reads next.
func (s *Services) followSession(ctx context.Context, a hub.Caller, p wake.Report, out *wake.Advice) error {
	if a.Kind != hub.CallerAgent {
		return nil
	}
	switch {
	case p.Event == wake.EventEnd && !s.hasSession(ctx, a.ID):
		s.Onward.Later(ctx, continuation.Cause{Agent: a.ID, Reason: hub.ContinueClosed})
		return nil
	case p.Reason.Known():
		s.Onward.Later(ctx, continuation.Cause{Agent: a.ID, Reason: p.Reason, Until: p.Until})
		return nil
	case p.Event == wake.EventEnd || p.Event == wake.EventWaiting:
		return nil
	case p.Event != wake.EventStart && !s.Onward.Concerns(a.ID):
		return nil
	}

	text, err := s.Onward.Returned(ctx, a.ID)
	if err == nil && p.Event != wake.EventTurnEnd && !p.Quiet {
		var pending string
		pending, err = s.Onward.Pending(ctx, a.ID)
		out.Notice = lines(lines(pending, text), out.Notice)
	}
	return err
}

// lines joins two texts by an empty line.
func lines(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + "\n\n" + b
}

// hasSession reports whether an agent has a session that has not ended, or is run by the hub.
func (s *Services) hasSession(ctx context.Context, agent hub.AgentID) bool {
	live, err := s.liveSessions(ctx, []hub.AgentID{agent})
	if err != nil || live[agent] != nil {
		return true
	}
	_, isKept, err := s.Keeper.Kept(ctx, agent)
	return err != nil || isKept
}
