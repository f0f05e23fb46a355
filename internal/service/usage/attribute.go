package usage

import (
	"context"
	"slices"
	"sync"

	"github.com/parley-agents/parley/hub"
)

const (
	maxWork  = 30 // handoffs, tasks and changes of focus of one agent that are considered
	focusDoc = "focus/"
)

// A focusPoint is a moment at which a tool call of an agent named a handoff or a task.
type focusPoint struct {
	At      hub.Time      `json:"at,omitzero"`
	Handoff hub.HandoffID `json:"handoff,omitempty"`
	Task    hub.TaskID    `json:"task,omitempty"`
}

// A focusCache holds what each agent named last, so that only changes are stored.
type focusCache struct {
	mu   sync.Mutex // guards last
	last map[hub.AgentID]focusPoint
}

// changed notes a point and reports whether it is another work than before.
func (f *focusCache) changed(agent hub.AgentID, p focusPoint) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	was := f.last[agent]
	f.last[agent] = p
	return was.Handoff != p.Handoff || was.Task != p.Task
}

// forget removes what an agent named last, because it was not stored.
func (f *focusCache) forget(agent hub.AgentID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.last, agent)
}

// Focus notes that a tool call of an agent named a handoff or a task: model calls after it are
// for that work, as long as the agent owns it.
func (s *Service) Focus(ctx context.Context, agent hub.AgentID, handoff hub.HandoffID, task hub.TaskID) {
	isAgent := agent != hub.Operator && agent != hub.Self
	p := focusPoint{At: s.o.Clock.Now(), Handoff: handoff, Task: task}
	namesWork := handoff != "" || task != ""
	if !isAgent || !namesWork || !s.focus.changed(agent, p) {
		return
	}
	err := s.store.Update(ctx, hub.SurvivesKill, func(tx hub.Tx) error {
		points, err := hub.ReadMeta[[]focusPoint](tx, focusDoc+string(agent))
		if err != nil {
			return err
		}
		points = append(points, p)
		return hub.WriteMeta(tx, focusDoc+string(agent), points[max(len(points)-maxWork, 0):])
	})
	if err != nil { // the turn is attributed without it
		s.focus.forget(agent)
		s.o.Log.Warn("the work of an agent was not noted", "agent", agent, "err", err)
	}
}

// A work holds what an agent worked on of late: the handoffs and tasks that it owned, the ones
// that its tools named, and the wake whose turn runs.
type work struct {
	run      *hub.Run // nil if the calls are of none, or of a kept agent's turn; zero if they are for no task
	points   []focusPoint
	handoffs []hub.Handoff
	tasks    []hub.Task
	wake     string
	thread   string
	team     hub.TeamID // of the message that woke the agent
}

// loadWork reads what an agent works on.
func (s *Service) loadWork(tx hub.Tx, actor hub.Caller, agent hub.AgentID, r Report) (*work, error) {
	w := &work{}
	if r.Own {
		w.run = &hub.Run{}
		return w, nil
	}
	if r.Run != "" && !r.Kept {
		run, err := tx.Run(r.Run)
		isUnknown := hub.CodeOf(err) == hub.CodeNotFound
		switch {
		case isUnknown && ours(actor): // a run that is recorded in files only
			w.run = &hub.Run{ID: r.Run}
			return w, nil
		case isUnknown:
			return nil, hub.Errorf(hub.CodeDenied, "usage.Record", "no run %s of %s is on this hub", r.Run, agent)
		case err != nil:
			return nil, err
		case run.Agent != agent:
			return nil, hub.Errorf(hub.CodeDenied, "usage.Record", "run %s is one of %s, not of %s", r.Run, run.Agent, agent)
		}
		w.run = &run
		if run.Handoff == "" {
			return w, nil
		}
	}

	var err error
	if w.points, err = hub.ReadMeta[[]focusPoint](tx, focusDoc+string(agent)); err != nil {
		return nil, err
	}
	if w.handoffs, err = tx.Handoffs(hub.HandoffQuery{To: agent, Owned: true, Limit: maxWork}); err != nil {
		return nil, err
	}
	if w.tasks, err = tx.Teamspaces().Tasks(hub.TaskQuery{Owner: agent, States: openTasks, Limit: maxWork}); err != nil {
		return nil, err
	}
	if err := w.loadNamed(tx, agent); err != nil {
		return nil, err
	}
	return w, w.loadWake(tx, agent)
}

// openTasks are the states in which the owner of a task works on it.
var openTasks = []hub.TaskState{hub.TaskInProgress, hub.TaskInReview, hub.TaskRework, hub.TaskBlocked}

// loadNamed adds the tasks that the tools of the agent named and that are done by now.
func (w *work) loadNamed(tx hub.Tx, agent hub.AgentID) error {
	for _, p := range w.points {
		isKnown := slices.ContainsFunc(w.tasks, func(t hub.Task) bool { return t.ID == p.Task })
		if p.Task == "" || isKnown {
			continue
		}
		t, err := tx.Teamspaces().Task(p.Task)
		switch {
		case hub.CodeOf(err) == hub.CodeNotFound:
			continue
		case err != nil:
			return err
		case t.Owner == agent:
			w.tasks = append(w.tasks, t)
		}
	}
	return nil
}

// loadWake finds the wake whose turn runs, and the conversation of its first message.
func (w *work) loadWake(tx hub.Tx, agent hub.AgentID) error {
	wakes, err := tx.Wakes().OfAgent(agent)
	if err != nil {
		return err
	}
	for _, v := range slices.Backward(wakes) {
		if v.State != hub.WakeStarted || len(v.Messages) == 0 {
			continue
		}
		w.wake = v.ID
		m, err := tx.Message(v.Messages[0])
		if hub.CodeOf(err) == hub.CodeNotFound {
			return nil
		}
		w.thread = m.ThreadID
		w.team = hub.TeamID(m.Team)
		return err
	}
	return nil
}

// attribute says what a call was for: the run with its handoff; else the handoff or task that
// the agent owned at the time and that its tools named last; else the conversation that woke
// it, which may be that of a handoff; else its own work.
func (w *work) attribute(u *hub.Usage) {
	u.Wake = w.wake
	if w.run != nil {
		w.takeHandoff(u, func(h hub.Handoff) bool { return w.run.Handoff != "" && h.ID == w.run.Handoff })
		if u.Handoff == "" {
			u.Handoff = w.run.Handoff
		}
		return
	}

	for _, p := range slices.Backward(w.points) {
		if p.At.After(u.At.Time) {
			continue
		}
		isNamed := w.takeHandoff(u, func(h hub.Handoff) bool { return h.ID == p.Handoff && ownsHandoff(h, u.At) }) ||
			w.takeTask(u, func(t hub.Task) bool { return t.ID == p.Task && ownsTask(t, u.At) })
		if isNamed {
			return
		}
	}
	if w.takeNewest(u) {
		return
	}
	u.Thread = w.thread
	u.Team = w.team
	w.takeHandoff(u, func(h hub.Handoff) bool { return u.Thread != "" && h.ThreadID == u.Thread })
}

// takeNewest attributes a call to the handoff or task that its agent accepted last.
func (w *work) takeNewest(u *hub.Usage) bool {
	var newest hub.Time
	var handoff hub.HandoffID
	var task hub.TaskID
	for _, h := range w.handoffs {
		if ownsHandoff(h, u.At) && h.AcceptedAt.After(newest.Time) {
			newest, handoff = h.AcceptedAt, h.ID
		}
	}
	for _, t := range w.tasks {
		if ownsTask(t, u.At) && t.StartedAt.After(newest.Time) {
			newest = t.StartedAt
			handoff = ""
			task = t.ID
		}
	}
	if handoff != "" {
		return w.takeHandoff(u, func(h hub.Handoff) bool { return h.ID == handoff })
	}
	return w.takeTask(u, func(t hub.Task) bool { return task != "" && t.ID == task })
}

// takeHandoff attributes a call to the first handoff that fits, with the task that it brought.
func (w *work) takeHandoff(u *hub.Usage, fits func(hub.Handoff) bool) bool {
	i := slices.IndexFunc(w.handoffs, fits)
	if i < 0 {
		return false
	}
	h := w.handoffs[i]
	u.Handoff = h.ID
	if h.Team != "" {
		u.Team = h.Team
	}
	for _, t := range w.tasks {
		if t.Handoff == h.ID {
			u.Task = t.ID
			u.Team = t.Team
		}
	}
	return true
}

// takeTask attributes a call to the first task that fits, with the handoff that brought it.
func (w *work) takeTask(u *hub.Usage, fits func(hub.Task) bool) bool {
	i := slices.IndexFunc(w.tasks, fits)
	if i < 0 {
		return false
	}
	u.Task = w.tasks[i].ID
	u.Team = w.tasks[i].Team
	u.Handoff = w.tasks[i].Handoff
	return true
}

// ownsHandoff reports whether the receiver of a handoff owned its task at a time.
func ownsHandoff(h hub.Handoff, at hub.Time) bool {
	isAccepted := !h.AcceptedAt.IsZero() && !h.AcceptedAt.After(at.Time)
	return isAccepted && (h.ResolvedAt.IsZero() || !h.ResolvedAt.Before(at.Time))
}

// ownsTask reports whether the owner of a task worked on it at a time.
func ownsTask(t hub.Task, at hub.Time) bool {
	hasBegun := !t.StartedAt.IsZero() && !t.StartedAt.After(at.Time)
	return hasBegun && t.State != hub.TaskDropped && (t.DoneAt.IsZero() || !t.DoneAt.Before(at.Time))
}
