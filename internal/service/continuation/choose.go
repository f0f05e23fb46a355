package continuation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
)

// Self is the successor that is the same agent again.
const Self = "self"

// A Request asks that a task goes on.
type Request struct {
	Handoff hub.HandoffID `json:"handoff,omitempty"`
	Task    hub.TaskID    `json:"task,omitempty"` // of a team, instead of Handoff
	With    string        `json:"with"`           // a CLI, an agent or self

	// Command and Path are the program of a CLI and the PATH under which it was found.
	Command []string `json:"command,omitempty"`
	Path    string   `json:"path,omitempty"`
}

// Continue hands the task of a handoff on, as a person wants it. The owner must not be working on
// it. Only the operator may.
func (s *Service) Continue(ctx context.Context, actor hub.Caller, r Request) (hub.Continuation, error) {
	const op = "continuation.Continue"
	if err := actor.OperatorOnly(op); err != nil {
		return hub.Continuation{}, err
	}
	if r.With == "" {
		return hub.Continuation{}, hub.Errorf(hub.CodeInvalid, op, "with is required: a CLI, an agent or self")
	}
	s.making.Lock()
	defer s.making.Unlock()
	t, err := hub.Read(ctx, s.store, func(rd hub.Reader) (task, error) {
		h, err := ownedWork(rd, op, r.Handoff, r.Task)
		if err != nil {
			return task{}, err
		}
		return loadTask(rd, h)
	})
	if err != nil {
		return hub.Continuation{}, fmt.Errorf("continuation: %w", err)
	}

	h := t.handoff
	if actOn(stateOf(t.open), personAsks) != keepWork {
		return hub.Continuation{}, hub.Errorf(hub.CodeConflict, op, "the task is offered to %s already", t.open.To).WithHint("parley handoff release %s frees it", t.open.Next)
	}
	if s.agents.Working(ctx, h.To) {
		return hub.Continuation{}, hub.Errorf(hub.CodeConflict, op, "%s is working now", h.To).WithHint("parley agent wake %s --off --now ends its turn", h.To)
	}
	kept, _, err := s.agents.Kept(ctx, h.To)
	if err != nil {
		return hub.Continuation{}, err
	}
	cause := Cause{Agent: h.To, Reason: hub.ContinueClosed}
	if t.open != nil {
		cause = Cause{Agent: h.To, Reason: t.open.Reason, Until: t.open.Until}
	}
	c, err := s.make(ctx, t, cause, kept, true) // the folder may have changed since
	if err != nil {
		return c, err
	}
	return s.try(ctx, actor, c, t, Program{CLI: r.With, Command: r.Command, Path: r.Path, Folder: c.Folder}, false)
}

// handOn offers the task of a new continuation to its successors. A person who closed a window may
// open it again: then they are asked after the time of patience, by offerAgain.
func (s *Service) handOn(ctx context.Context, c hub.Continuation, kept Kept, t task) (hub.Continuation, error) {
	successors := successorsOf(c, kept, t)
	switch {
	case s.asksNow(c, successors):
		return s.offer(ctx, c, successors)
	case len(successors) > 0 && s.isShort(c):
		return s.wait(ctx, c, t, fmt.Sprintf("%s can go on at %s", c.Of, c.Until), nil)
	}
	return c, nil
}

// asksNow reports whether the successors of a task are asked as soon as its agent cannot go on.
func (s *Service) asksNow(c hub.Continuation, successors []string) bool {
	return len(successors) > 0 && c.Reason != hub.ContinueClosed && !s.isShort(c)
}

// isShort reports whether a limited agent can go on within the time of patience: then its task waits
// for it.
func (s *Service) isShort(c hub.Continuation) bool {
	return c.Reason.Passes() && !c.Until.IsZero() && c.Until.Sub(c.At.Time) <= s.o.Patience
}

// successorsOf returns the successors of a task: those that its agent names, and then those of its
// team. The agent's own are asked when it cannot go on, not when a person closed it.
func successorsOf(c hub.Continuation, kept Kept, t task) []string {
	if c.Reason == hub.ContinueClosed {
		return t.team
	}
	return slices.Concat(kept.Or, t.team)
}

// HasSuccessor reports whether the team of a task that an agent owns names successors.
func (s *Service) HasSuccessor(ctx context.Context, agent hub.AgentID) (has bool, err error) {
	err = s.store.View(ctx, func(rd hub.Reader) error {
		all, err := owned(rd, agent, maxTasks)
		for _, h := range all {
			names, err := teamSuccessors(rd, h)
			if err != nil {
				return err
			}
			has = has || len(names) > 0
		}
		return err
	})
	return has, err
}

// teamSuccessors returns the members that the policy of a task's team names, without its owner.
func teamSuccessors(rd hub.Reader, h hub.Handoff) (out []string, err error) {
	if h.Team == "" {
		return nil, nil
	}
	t, err := rd.Teamspaces().Team(h.Team)
	if hub.CodeOf(err) == hub.CodeNotFound {
		return nil, nil
	}
	for _, name := range t.Policy.Successors {
		if name != h.To {
			out = append(out, string(name))
		}
	}
	return out, err
}

// offerAgain offers the tasks again that nobody took, when it is time for that.
func (s *Service) offerAgain(ctx context.Context) {
	s.making.Lock()
	defer s.making.Unlock()
	open, err := hub.Read(ctx, s.store, func(rd hub.Reader) ([]hub.Continuation, error) {
		return rd.Continuations().Continuations(hub.ContinuationQuery{States: statesOn(timeComes), Limit: maxPage})
	})
	if err != nil && ctx.Err() == nil {
		s.o.Log.Warn("the tasks that wait cannot be read", "op", "continuation.Run", "err", err)
	}
	maps.DeleteFunc(s.offered, func(id hub.ContinuationID, _ hub.Time) bool {
		return !slices.ContainsFunc(open, func(c hub.Continuation) bool { return c.ID == id })
	})

	now := s.o.Clock.Now()
	for _, c := range open {
		if !s.isDue(c, now) {
			continue
		}
		s.offered[c.ID] = now
		if err := s.offerRest(ctx, c); err != nil && ctx.Err() == nil {
			s.o.Log.Warn("a task that waits was not offered again", "op", "continuation.Run", "continuation", c.ID, "err", err)
		}
	}
}

// recall withdraws the offers that were not answered within the time of patience, so that the next
// successor is asked. An offer that waits for an approval is left alone, and so is one whose receiver
// works.
func (s *Service) recall(ctx context.Context) {
	s.making.Lock()
	defer s.making.Unlock()
	silent, err := hub.Read(ctx, s.store, s.unanswered)
	for _, h := range silent {
		if err == nil && !s.agents.Working(ctx, h.To) {
			err = s.recallOne(ctx, h)
		}
	}
	if err != nil && ctx.Err() == nil {
		s.o.Log.Warn("offers that were not answered are still open", "op", "continuation.recall", "err", err)
	}
}

// unanswered returns the handoffs of continuations that were proposed longer ago than the time of
// patience.
func (s *Service) unanswered(rd hub.Reader) (out []hub.Handoff, err error) {
	open, err := rd.Continuations().Continuations(hub.ContinuationQuery{States: statesOn(noAnswer), Limit: maxPage})
	if err != nil {
		return nil, err
	}
	now := s.o.Clock.Now()
	for _, c := range open {
		if now.Sub(c.MovedAt.Time) < s.o.Patience {
			continue
		}
		h, err := rd.Handoff(c.Next)
		if err != nil {
			return nil, err
		}
		if h.Status == hub.HandoffProposed && !h.WaitsForTeam() && !h.WaitsForOperator() {
			out = append(out, h)
		}
	}
	return out, nil
}

// recallOne withdraws an offer. An agent that was started for it must not hold the folder.
func (s *Service) recallOne(ctx context.Context, h hub.Handoff) error {
	err := s.handoffs.Recall(ctx, h, fmt.Sprintf("%s gave no answer within %s", h.To, s.o.Patience))
	switch {
	case hub.CodeOf(err) == hub.CodeConflict: // it has just been answered
		return nil
	case err != nil:
		return err
	}
	kept, _, err := s.agents.Kept(ctx, h.From)
	if err != nil {
		return err
	}
	for _, name := range kept.Or {
		if made, err := s.agents.StandInName(ctx, h.From, name); err == nil && made == h.To {
			return s.agents.Dismiss(ctx, h.To)
		}
	}
	return nil
}

// isDue reports whether it is time to offer a task again: after the time of patience, or when the
// quota of its agent is full again. One that an agent refused is offered to the next agent at once.
// An agent whose quota is full soon has the time of patience to go on by itself.
func (s *Service) isDue(c hub.Continuation, now hub.Time) bool {
	if s.isShort(c) && c.State == hub.ContinuationWaiting {
		return now.Sub(c.Until.Time) >= s.o.Patience
	}
	last := c.MovedAt
	if c.State == hub.ContinuationRefused {
		last = s.offered[c.ID]
	}
	isFull := c.Until.After(last.Time) && !now.Before(c.Until.Time)
	return isFull || now.Sub(last.Time) >= s.o.Patience
}

// offerRest offers a task to the successors that did not refuse it, unless its agent works on it.
func (s *Service) offerRest(ctx context.Context, c hub.Continuation) error {
	if s.agents.Working(ctx, c.Of) {
		return nil
	}
	var t *task
	err := s.store.View(ctx, func(rd hub.Reader) (err error) {
		t, err = s.waitingTask(rd, c)
		return err
	})
	if err != nil || t == nil {
		return err
	}
	kept, _, err := s.agents.Kept(ctx, c.Of)
	if err != nil {
		return err
	}
	successors := unasked(c, successorsOf(c, kept, *t))
	if len(successors) == 0 {
		return s.lastRefusal(ctx, c, *t)
	}
	_, err = s.offer(ctx, c, successors)
	return err
}

// lastRefusal says once that the last successor refused a task, to the operator and to the agents that
// asked for it.
func (s *Service) lastRefusal(ctx context.Context, c hub.Continuation, t task) error {
	if c.State != hub.ContinuationRefused || c.Told {
		return nil
	}
	return s.update(ctx, hub.Caller{ID: hub.Self}, func(x *change) error {
		stored, err := x.tx.Continuations().Continuation(c.ID)
		if err != nil || stored.Revision != c.Revision {
			return err
		}
		stored.Why += "; there is no other successor"
		stored.Told = true
		if stored, err = x.put(stored); err != nil {
			return err
		}
		return x.tellStop(stored, t)
	})
}

// waitingTask returns the task of a continuation that nobody took; nil if its agent does not own it
// any more or opened its window again, or if a person had the task continued since.
func (s *Service) waitingTask(rd hub.Reader, c hub.Continuation) (*task, error) {
	h, err := ownedWork(rd, "continuation.offer", c.Handoff, hub.TaskID(c.Task))
	isOver := hub.CodeOf(err) == hub.CodeConflict || (err == nil && h.To != c.Of)
	if isOver {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	last, err := newest(rd, h)
	if err != nil || last == nil || last.ID != c.ID {
		return nil, err
	}
	if c.Reason == hub.ContinueClosed {
		_, isClosed, err := s.agents.Closed(rd, c.Of)
		if err != nil || !isClosed {
			return nil, err
		}
	}
	t, err := loadTask(rd, h)
	return &t, err
}

// unasked returns the successors after the one that refused a task. The agent of a CLI has the name
// of the CLI at its end.
func unasked(c hub.Continuation, successors []string) []string {
	if c.State != hub.ContinuationRefused {
		return successors
	}
	i := slices.IndexFunc(successors, func(name string) bool {
		return string(c.To) == name || strings.HasSuffix(string(c.To), "-"+name)
	})
	return successors[i+1:]
}

// offer offers the task of a continuation to the first successor that may have it. If there is
// none, the continuation waits and says why.
func (s *Service) offer(ctx context.Context, c hub.Continuation, successors []string) (hub.Continuation, error) {
	t, err := hub.Read(ctx, s.store, func(rd hub.Reader) (task, error) {
		h, err := ownedWork(rd, "continuation.offer", c.Handoff, hub.TaskID(c.Task))
		if err != nil {
			return task{}, err
		}
		return loadTask(rd, h)
	})
	if err != nil {
		return c, fmt.Errorf("continuation: %w", err)
	}
	kept, _, err := s.agents.Kept(ctx, c.Of)
	if err != nil {
		return c, err
	}
	t.logIn = kept.LogIn
	if why, err := s.holds(ctx, c, t); why != "" || err != nil {
		return s.wait(ctx, c, t, why, err)
	}

	why := ""
	for _, name := range successors {
		got, err := s.try(ctx, hub.Caller{ID: hub.Self}, c, t, Program{CLI: name, Folder: c.Folder}, true)
		if err == nil {
			return got, nil
		}
		s.o.Log.Info("an agent does not continue a task", "op", "continuation.offer", "continuation", c.ID, "successor", name, "err", err)
		why = joined(why, fmt.Sprintf("%s: %v", name, shortError(err)))
	}
	return s.wait(ctx, c, t, "no successor can take it: "+why, nil)
}

// holds returns why a task must not go on without a person; "" if it may.
func (s *Service) holds(ctx context.Context, c hub.Continuation, t task) (string, error) {
	if t.handoff.Restricted {
		return "its package is restricted, so the operator must agree: parley continue", nil
	}
	since := s.o.Clock.Now().Add(-24 * time.Hour)
	earlier, err := hub.Read(ctx, s.store, func(rd hub.Reader) ([]hub.Continuation, error) {
		return rd.Continuations().Continuations(hub.ContinuationQuery{Task: c.Task, Limit: maxPage})
	})
	if err != nil {
		return "", err
	}
	n := 0
	for _, one := range earlier {
		isReopened := one.Reason == hub.ContinueClosed && one.To == one.Of // by a person
		wasHandedOn := one.ID != c.ID && one.To != "" && !isReopened
		if wasHandedOn && one.MovedAt.After(since.Time) {
			n++
		}
	}
	if n >= maxDaily {
		return fmt.Sprintf("it was continued %d times within a day", n), nil
	}
	return "", nil
}

// wait stores why a continuation waits. The first time that no successor could take the task, the
// operator and the agents that asked for it are told.
func (s *Service) wait(ctx context.Context, c hub.Continuation, t task, why string, err error) (hub.Continuation, error) {
	if err != nil {
		return c, err
	}
	err = s.update(ctx, hub.Caller{ID: hub.Self}, func(x *change) error {
		stored, err := x.tx.Continuations().Continuation(c.ID)
		if err != nil || actOn(stored.State, timeComes) != offerTask {
			c = stored
			return err
		}
		isNews := !stored.Told
		stored.Told = true
		stored.Why = cut(why, maxSaid)
		stored.MovedAt = s.o.Clock.Now()
		if c, err = x.put(stored); err != nil || !isNews {
			return err
		}
		return x.tellStop(c, t)
	})
	return c, err
}

// try offers a task to one successor: an agent that the hub knows, the agent of a CLI in the same
// folder, or the same agent again.
// automatic applies the rules for tasks that go on without a person.
func (s *Service) try(ctx context.Context, actor hub.Caller, c hub.Continuation, t task, p Program, automatic bool) (hub.Continuation, error) {
	to := hub.AgentID(p.CLI)
	if p.CLI == Self || to == c.Of {
		return s.resume(ctx, c, t, automatic)
	}
	got := c
	err := s.give(ctx, c, t.handoff.Team, p, automatic, func(to hub.AgentID) (err error) {
		got, err = s.offerTo(ctx, actor, c, t, to)
		return err
	})
	return got, err
}

// give finds the agent that a successor names and calls offer with it: an agent that the hub knows, or the
// agent of a CLI, which begins to work in the folder before. team is that of the task, "" for none.
func (s *Service) give(ctx context.Context, c hub.Continuation, team hub.TeamID, p Program, automatic bool, offer func(to hub.AgentID) error) error {
	to := hub.AgentID(p.CLI)
	known, err := hub.Read(ctx, s.store, func(rd hub.Reader) (bool, error) {
		_, err := rd.Agent(to)
		if hub.CodeOf(err) == hub.CodeNotFound {
			return false, nil
		}
		return err == nil, err
	})
	if err != nil {
		return err
	}
	if !known && team != "" {
		return hub.Errorf(hub.CodePolicy, "continuation.offer", "%s is not a member of team %s", p.CLI, team).WithHint("name a member: parley team show %s", team)
	}
	if !known {
		if to, err = s.agents.StandInName(ctx, c.Of, p.CLI); err != nil {
			return err
		}
	}
	if automatic {
		if err := s.able(ctx, c, to, known); err != nil {
			return err
		}
	}
	if known {
		return offer(to)
	}

	// The agent of a CLI that gets no task must not hold the folder.
	if err := s.agents.StandIn(ctx, c.Of, p); err != nil {
		return err
	}
	if err := offer(to); err != nil {
		return errors.Join(err, s.agents.Dismiss(ctx, to))
	}
	return nil
}

// able refuses an agent that failed for the same reason a short time ago, that cannot begin yet, or
// whose turns a budget stops. One that is named, not made for the task, must not be paused or
// stopped.
func (s *Service) able(ctx context.Context, c hub.Continuation, to hub.AgentID, isNamed bool) error {
	const op = "continuation.offer"
	if why := s.agents.Blocked(ctx, to); why != "" {
		return hub.Errorf(hub.CodeRateLimited, op, "%s", why)
	}
	if isNamed {
		if why := s.agents.Off(ctx, to); why != "" {
			return hub.Errorf(hub.CodeConflict, op, "%s", why)
		}
	}
	kept, _, err := s.agents.Kept(ctx, to)
	if err != nil {
		return err
	}
	if s.o.Clock.Now().Before(kept.Until.Time) {
		return hub.Errorf(hub.CodeConflict, op, "%s rests until %s", to, kept.Until)
	}
	failed, err := hub.Read(ctx, s.store, func(rd hub.Reader) ([]hub.Continuation, error) {
		return rd.Continuations().Continuations(hub.ContinuationQuery{Of: to, Limit: maxTasks})
	})
	if err != nil {
		return err
	}
	now := s.o.Clock.Now()
	for _, f := range failed {
		lasts := now.Sub(f.At.Time) < s.o.Patience || f.Until.After(now.Time)
		if f.ID != c.ID && f.Reason == c.Reason && lasts {
			return hub.Errorf(hub.CodeConflict, op, "%s %s, too", to, f.Reason.Text())
		}
	}
	return nil
}

// offerTo hands the task to an agent by a handoff. One transaction ends the ownership of the first
// agent, proposes the handoff, moves the continuation and stores the text that the next turn of the
// agent begins with: a kill leaves all of it or nothing, and an agent that took its task back in the
// meantime keeps it.
func (s *Service) offerTo(ctx context.Context, actor hub.Caller, c hub.Continuation, t task, to hub.AgentID) (hub.Continuation, error) {
	by := actor
	if !by.IsOperator() {
		by = hub.Caller{ID: hub.Self}
	}
	s.note(to, true) // its hook may come as soon as the handoff is there
	offered := c
	var posted []hub.Message
	err := s.handoffs.Continue(ctx, by, t.handoff, onward(c, t, to), func(tx hub.Tx, next hub.Handoff) (err error) {
		x := &change{s: s, tx: tx, actor: by}
		offered, err = x.offer(c.ID, t, next)
		posted = x.posted
		return err
	})
	if err != nil {
		return c, err
	}
	s.mail.Announce(posted...)
	s.publish()
	return offered, nil
}

// offer moves a continuation to offered, by a handoff, with its journal entry and the text for the
// receiver.
func (x *change) offer(id hub.ContinuationID, t task, next hub.Handoff) (hub.Continuation, error) {
	c, err := x.tx.Continuations().Continuation(id)
	if err != nil {
		return c, err
	}
	if c, err = c.Advance(hub.ContinuationOffered, x.s.o.Clock.Now()); err != nil {
		return c, err
	}
	c.To = next.To
	c.Next = next.ID
	c.Why = ""
	c.Told = false
	if c, err = x.put(c); err != nil {
		return c, err
	}
	if err := x.record(actions.ContinuationMade, string(c.ID), factsOf(c)); err != nil {
		return c, err
	}
	names, err := namesOf(x.tx, c.Handoff, c.Next)
	if err != nil {
		return c, err
	}
	if !x.actor.IsOperator() { // who asked for it by this call
		if err := x.warn(c, offerText(c, t.logIn, names[c.Next])); err != nil {
			return c, err
		}
	}
	return c, addReading(x.tx, c.To, reading{Continuation: c.ID, Text: brief(c, t, names), Short: shortBrief(c, t, names)})
}

// resume gives the task to the same agent again, in a new session.
func (s *Service) resume(ctx context.Context, c hub.Continuation, t task, automatic bool) (hub.Continuation, error) {
	now := s.o.Clock.Now()
	isHandedOn := c.State == hub.ContinuationRefused || t.handoff.Status != hub.HandoffActivated
	if isHandedOn {
		return c, hub.Errorf(hub.CodeConflict, "continuation.offer", "it was offered to another agent, and does not go back to %s", c.Of)
	}
	if automatic {
		if err := s.recovered(ctx, c, now); err != nil {
			return c, err
		}
	}
	if why := s.agents.Blocked(ctx, c.Of); why != "" {
		return c, hub.Errorf(hub.CodeRateLimited, "continuation.offer", "%s", why)
	}
	c.To = c.Of
	names, err := hub.Read(ctx, s.store, func(rd hub.Reader) (handoffNames, error) { return namesOf(rd, c.Handoff) })
	if err != nil {
		return c, err
	}
	if err := s.agents.Resume(ctx, c.Of, brief(c, t, names)); err != nil {
		return c, err
	}
	err = s.update(ctx, hub.Caller{ID: hub.Self}, func(x *change) error {
		stored, err := x.tx.Continuations().Continuation(c.ID)
		if err != nil {
			return err
		}
		if c, err = x.take(stored, c.Of, now); err != nil {
			return err
		}
		return x.tellTaken(c, t.handoff)
	})
	return c, err
}

// recovered refuses an agent that would stop again for the same reason: one that is limited, until the
// time that is known, else for the time of patience; without a login, until a person continues
// the task. An agent that rests begins again by itself.
func (s *Service) recovered(ctx context.Context, c hub.Continuation, now hub.Time) error {
	kept, _, err := s.agents.Kept(ctx, c.Of)
	if err != nil {
		return err
	}
	back := c.At.Add(s.o.Patience)
	if !c.Until.IsZero() {
		back = c.Until
	}
	isLimited := c.Reason.Passes() && now.Before(back.Time)
	if kept.Rests || isLimited || c.Reason == hub.ContinueLogin {
		return hub.Errorf(hub.CodeConflict, "continuation.offer", "it still %s", c.Reason.Text())
	}
	return nil
}

// take moves a continuation to taken, with its journal entry.
func (x *change) take(c hub.Continuation, to hub.AgentID, now hub.Time) (hub.Continuation, error) {
	c, err := c.Advance(hub.ContinuationTaken, now)
	if err != nil {
		return c, err
	}
	c.To = to
	c.Why = ""
	if c, err = x.put(c); err != nil {
		return c, err
	}
	return c, x.record(actions.ContinuationTaken, string(c.ID), factsOf(c))
}

// tellTaken tells the operator which agent goes on with a task. If it is the same one, the agents that
// asked for the task are told, too: from another one they get the acceptance.
func (x *change) tellTaken(c hub.Continuation, h hub.Handoff) error {
	name, err := nameOf(x.tx, h.ID)
	if err != nil {
		return err
	}
	text := takenText(c, cmp.Or(name, c.Task))
	if err := x.inform(c, text); err != nil || c.To != c.Of {
		return err
	}
	return x.tellAskers(c, h, text)
}

// Moved follows the handoff of a continuation inside the transaction that moves it: the next owner
// accepted or refused it, or the first one ended the task itself. The operator is told when the task
// is taken, and when it is done.
func (s *Service) Moved(tx hub.Tx, h hub.Handoff) ([]hub.Message, error) {
	concerns := h.Status == hub.HandoffActivated || h.Status.Ended()
	if !concerns {
		return nil, nil
	}
	x := &change{s: s, tx: tx, actor: hub.Caller{ID: hub.Self}}
	offered, err := tx.Continuations().Continuations(hub.ContinuationQuery{Next: h.ID, Limit: 1})
	if err != nil {
		return nil, err
	}
	for _, c := range offered {
		if _, err := x.follow(c, h); err != nil {
			return nil, err
		}
	}
	if !h.Status.Ended() || h.Ending == hub.EndedHandedOn {
		return x.posted, nil
	}

	// The owner may have ended the task itself, though it was said to be stopped.
	own, err := tx.Continuations().Continuations(hub.ContinuationQuery{Handoff: h.ID, Limit: 1})
	if err != nil {
		return nil, err
	}
	if len(own) > 0 && actOn(own[0].State, ownerEnds) == takeTask {
		if own[0], err = x.take(own[0], h.To, s.o.Clock.Now()); err != nil {
			return nil, err
		}
	}
	if about := append(own, offered...); h.Ending == hub.EndedDone && h.Status == hub.HandoffCompleted && len(about) > 0 {
		err = x.tellDone(about[0], h)
	}
	return x.posted, err
}

// tellDone tells the operator that a task that was continued is done.
func (x *change) tellDone(c hub.Continuation, h hub.Handoff) error {
	name, err := nameOf(x.tx, h.ID)
	if err != nil {
		return err
	}
	return x.inform(c, doneText(c, h.To, name))
}

// follow moves an offered continuation to the state of its handoff.
func (x *change) follow(c hub.Continuation, h hub.Handoff) (hub.Continuation, error) {
	now := x.s.o.Clock.Now()
	on := occasion("")
	switch h.Status {
	case hub.HandoffActivated:
		on = isAccepted
	case hub.HandoffRejected:
		on = isRejected
	}
	switch actOn(c.State, on) {
	case takeTask:
		c, err := x.take(c, h.To, now)
		if err != nil {
			return c, err
		}
		x.s.moveFiles(c)
		x.s.note(c.Of, true) // it is told whose task it is now
		return c, x.tellTaken(c, h)
	case refuseTask:
		c, err := c.Advance(hub.ContinuationRefused, now)
		if err != nil {
			return c, err
		}
		c.Why = cut(fmt.Sprintf("%s did not take it: %s", h.To, h.Notes), maxSaid)
		return x.put(c)
	}
	return c, nil
}

// moveFiles has Run move the reserved files of a continuation to the next owner.
func (s *Service) moveFiles(c hub.Continuation) {
	select {
	case s.taken <- c:
	default: // the guard asks the new owner's edits one by one
	}
}

// Returned notes that an agent works again, which was said to be stopped: its waiting
// continuations are its own. It returns the text that its session begins with, "" without open
// tasks of that kind; about tasks that another agent has by now it says so.
func (s *Service) Returned(ctx context.Context, agent hub.AgentID) (string, error) {
	var text string
	if err := s.endSilence(ctx, agent); err != nil {
		return "", err
	}
	all, err := hub.Read(ctx, s.store, func(rd hub.Reader) ([]hub.Continuation, error) {
		return rd.Continuations().Continuations(hub.ContinuationQuery{Of: agent, Limit: maxTasks})
	})
	if err != nil || len(all) == 0 {
		return "", err
	}
	s.note(agent, false)
	var own []reading
	for _, c := range all {
		switch actOn(c.State, agentReturns) {
		case tellOffered:
			text = joinedLines(text, fmt.Sprintf("[parley] The task %q is offered to %s, because %s %s. Do not work on it unless it comes back to you.", cut(c.Title, 100), c.To, c.Of, c.Reason.Text()))
		case takeBack:
			back, err := s.takeBack(ctx, c)
			if err != nil {
				return text, err
			}
			if back.Text != "" {
				own = append(own, back)
			}
		}
	}
	others, err := s.tellOwners(ctx, all)
	return joinedLines(joinReadings(own), joinedLines(text, others)), err
}

// OtherOwners returns the text for an agent that works again about its tasks that another agent has
// by now, once.
func (s *Service) OtherOwners(ctx context.Context, agent hub.AgentID) (string, error) {
	all, err := hub.Read(ctx, s.store, func(rd hub.Reader) ([]hub.Continuation, error) {
		return rd.Continuations().Continuations(hub.ContinuationQuery{Of: agent, Limit: maxTasks})
	})
	if err != nil {
		return "", err
	}
	return s.tellOwners(ctx, all)
}

// toldTime is the time after which the first owner of a task is not told any more who has it.
const toldTime = 7 * 24 * time.Hour

// tellOwners returns the sentences about the tasks that another agent has by now, once.
func (s *Service) tellOwners(ctx context.Context, all []hub.Continuation) (text string, err error) {
	for _, c := range all {
		isOfOther := actOn(c.State, agentReturns) == tellOwner && c.To != c.Of
		if !isOfOther || s.o.Clock.Now().Sub(c.MovedAt.Time) >= toldTime {
			continue
		}
		line, err := s.tellOwner(ctx, c)
		if err != nil {
			return text, err
		}
		text = joinedLines(text, line)
	}
	return text, nil
}

// takeBack gives a waiting task back to its owner and returns the text about it.
func (s *Service) takeBack(ctx context.Context, c hub.Continuation) (back reading, err error) {
	err = s.update(ctx, hub.Caller{ID: hub.Self}, func(x *change) error {
		stored, err := x.tx.Continuations().Continuation(c.ID)
		if err != nil || actOn(stored.State, agentReturns) != takeBack {
			return err
		}
		back = reading{}
		h, err := ownedWork(x.tx, "continuation.Returned", c.Handoff, hub.TaskID(c.Task))
		isOver := hub.CodeOf(err) == hub.CodeConflict || (err == nil && h.To != c.Of)
		if isOver { // Run settles a task of a team
			return nil
		}
		if err != nil {
			return err
		}
		t, err := loadTask(x.tx, h)
		if err != nil {
			return err
		}
		if stored, err = x.take(stored, c.Of, s.o.Clock.Now()); err != nil {
			return err
		}
		if err := x.tellTaken(stored, h); err != nil {
			return err
		}
		names, err := namesOf(x.tx, c.Handoff)
		back = reading{Text: brief(stored, t, names), Short: shortBrief(stored, t, names)}
		return err
	})
	return back, err
}

// toldKey is where the continuations are stored of which their first owner was told.
func toldKey(agent hub.AgentID) string { return "continuation/told/" + string(agent) }

// tellOwner returns the sentence that a task has another owner now, once.
func (s *Service) tellOwner(ctx context.Context, c hub.Continuation) (text string, err error) {
	err = s.store.Update(ctx, hub.SurvivesKill, func(tx hub.Tx) error {
		text = ""
		told, err := hub.ReadMeta[map[hub.ContinuationID]bool](tx, toldKey(c.Of))
		if err != nil || told[c.ID] {
			return err
		}
		if told == nil || len(told) > maxPage {
			told = map[hub.ContinuationID]bool{}
		}
		told[c.ID] = true
		text = fmt.Sprintf("[parley] %s has the task %q now, because %s %s. Do not work on it: edits of its files are denied.", c.To, c.Title, c.Of, c.Reason.Text())
		return hub.WriteMeta(tx, toldKey(c.Of), told)
	})
	return text, err
}
