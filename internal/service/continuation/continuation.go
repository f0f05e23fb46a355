// Package continuation lets tasks go on whose agent cannot: it is out of quota or context, lost its
// login, crashed, spent its budget or was closed.
//
// [Service.Stop] is told that an agent cannot go on. For each task that the agent owns, the
// uncommitted work of its folder is kept as a rescue, in the hub's own copy of the repository, and
// a continuation is stored. A kept agent may name the agents that take over ([Kept.Or]), and so may
// the policy of a team; choose.go finds the first that may. Else the continuation waits for a
// person, who calls [Service.Continue]. Either way the task is handed on as a handoff of the agent, verified and
// hashed as every other one; the next owner accepts it ([Service.Moved]).
//
// table.go is the machine: what is done with a continuation in each state, on each occasion. The functions named
// there do it, most of them in choose.go, and hub.Continuation.Advance checks each move.
//
// forward.go offers the tasks to a successor that the agent did not accept yet. package.go makes the texts, rescue.go lists, applies and drops rescues, pending.go keeps the text
// that an agent reads next: as a successor, or after its CLI shortened its context.
//
// The package reads no transcript and starts no agent: the keeper, the handoffs and the copies of
// repositories are reached through interfaces.
package continuation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
)

// A Saved is the state of a working tree, kept in the hub's copy of its repository.
type Saved = hub.SavedTree

// Trees keeps the uncommitted work of working trees. It changes no tree, index, branch or ref of a
// user but in Apply.
type Trees interface {
	// Save keeps the uncommitted work of the tree around a folder under a name.
	Save(ctx context.Context, folder, name, message string) (Saved, error)
	// Drop removes a name from the copy with the work of a rescue.
	Drop(ctx context.Context, r hub.Rescue) error
	// Names returns the names under which work is kept, as rescues with copy and ref alone.
	Names(ctx context.Context) ([]hub.Rescue, error)
	// Apply brings the work of a rescue into the tree around a folder, as changes that are not
	// committed.
	Apply(ctx context.Context, r hub.Rescue, folder string) (Applied, error)
	// Patch returns the work of a rescue as a patch, and whether it is cut.
	Patch(ctx context.Context, r hub.Rescue, most int) (string, bool, error)
}

// Handoffs hands tasks on.
type Handoffs interface {
	// Continue hands the task of h on for its owner. offered is called in the transaction that
	// stores the new handoff; its error undoes it. A task of a team that its owner has without a
	// handoff comes as one without an id.
	Continue(ctx context.Context, actor hub.Caller, h hub.Handoff, o hub.Onward, offered func(tx hub.Tx, next hub.Handoff) error) error
	// Recall ends a proposal that its receiver did not answer. It reports CodeConflict if the receiver
	// did in the meantime.
	Recall(ctx context.Context, h hub.Handoff, why string) error
	// Askers returns the agents that asked for the task of a handoff.
	Askers(rd hub.Reader, h hub.Handoff) ([]hub.AgentID, error)
	// Forward offers the task of h, which its receiver did not accept, to another agent. why is for the
	// sender.
	Forward(ctx context.Context, actor hub.Caller, h hub.Handoff, to hub.AgentID, why string) error
}

// A Kept is an agent that the hub runs.
type Kept = hub.KeptAgent

// A Program is a CLI that the hub can run in a folder.
type Program = hub.AgentProgram

// Agents runs agents.
type Agents interface {
	// Kept returns how the hub runs an agent, and whether it does.
	Kept(ctx context.Context, agent hub.AgentID) (Kept, bool, error)
	// StandInName returns the name of the agent of a CLI that works in the folder of a task for its
	// owner. StandIn begins to keep it; Dismiss stops one that got no task.
	StandInName(ctx context.Context, of hub.AgentID, cli string) (hub.AgentID, error)
	StandIn(ctx context.Context, of hub.AgentID, p Program) error
	Dismiss(ctx context.Context, agent hub.AgentID) error
	// Resume begins a turn of an agent that the hub runs, in a new session.
	Resume(ctx context.Context, agent hub.AgentID, text string) error
	// Blocked returns why no turn of an agent may begin; "" if one may.
	Blocked(ctx context.Context, agent hub.AgentID) string
	// Off returns why an agent that is known takes no task: a person paused or stopped it; "" if it
	// may take one.
	Off(ctx context.Context, agent hub.AgentID) string
	// Working reports whether a turn of an agent runs.
	Working(ctx context.Context, agent hub.AgentID) bool
	// Closed reports whether an agent had sessions in terminals and all of them ended, and when the
	// last one did.
	Closed(rd hub.Reader, agent hub.AgentID) (at hub.Time, closed bool, err error)
}

// Files has the files that agents reserved.
type Files interface {
	// MoveFiles gives the files in a folder that an agent reserved to the next owner of its task.
	MoveFiles(ctx context.Context, folder string, from, to hub.AgentID, id hub.HandoffID) error
}

// Mail writes messages of the hub.
type Mail interface {
	// Notify writes a message of the hub inside tx. It is never dropped.
	Notify(tx hub.Tx, e hub.Envelope) (hub.Message, error)
	// TellOperator writes a message of the hub to the operator inside tx.
	TellOperator(tx hub.Tx, payload any) (hub.Message, error)
	// Announce wakes the long polls of the recipients of committed messages.
	Announce(...hub.Message)
}

// Options changes how a Service works. The zero value works.
type Options struct {
	Clock    hub.Clock     // default time.Now
	Bus      hub.Bus       // gets a hint after every change; may be nil
	Log      *slog.Logger  // default silent
	Patience time.Duration // an agent that failed for a reason gets no task for the same one within it; default 10 minutes
	Keep     time.Duration // after which a rescue is dropped; default 14 days
}

// The defaults.
const (
	DefaultPatience = 10 * time.Minute
	DefaultKeep     = 14 * 24 * time.Hour
)

const (
	maxTasks    = 20              // of one agent that are continued at a time
	maxDaily    = 3               // continuations of one task in a day that happen by themselves
	maxPage     = 200             // continuations and rescues of one list
	maxSaid     = 2000            // bytes of the last words of an agent
	maxSaving   = 5 * time.Minute // for the work of a folder to be kept
	noticeTopic = "continuations"
)

// A Service continues the tasks of a hub. It is safe for concurrent use.
type Service struct {
	store    hub.Store
	trees    Trees
	handoffs Handoffs
	agents   Agents
	files    Files
	mail     Mail
	o        Options
	ids      *hub.IDs

	// making is held while continuations are made, so that two causes make one. It guards offered:
	// when the tasks that nobody took were offered again.
	making  sync.Mutex
	offered map[hub.ContinuationID]hub.Time

	taken chan hub.Continuation // whose files move; what does not fit is left to the guard
	stops chan Cause            // that Run handles; a cause that does not fit is handled by its caller

	mu      sync.Mutex           // guards stopped
	stopped map[hub.AgentID]bool // agents with waiting continuations, and with a text that they read next, as far as known
}

// Parts are the services that a Service needs.
type Parts struct {
	Trees    Trees
	Handoffs Handoffs
	Agents   Agents
	Files    Files // may be nil
	Mail     Mail
}

// New returns a Service. opts may be nil. Run makes it drop old rescues.
func New(store hub.Store, p Parts, opts *Options) *Service {
	s := &Service{store: store, trees: p.Trees, handoffs: p.Handoffs, agents: p.Agents, files: p.Files, mail: p.Mail, taken: make(chan hub.Continuation, maxTasks), stops: make(chan Cause, maxTasks), stopped: map[hub.AgentID]bool{}, offered: map[hub.ContinuationID]hub.Time{}}
	if opts != nil {
		s.o = *opts
	}
	if s.o.Clock == nil {
		s.o.Clock = time.Now
	}
	if s.o.Log == nil {
		s.o.Log = slog.New(slog.DiscardHandler)
	}
	if s.o.Patience <= 0 {
		s.o.Patience = DefaultPatience
	}
	if s.o.Keep <= 0 {
		s.o.Keep = DefaultKeep
	}
	s.ids = hub.NewIDs(s.o.Clock)
	return s
}

// A Cause says why an agent cannot go on.
type Cause struct {
	Agent  hub.AgentID
	Reason hub.ContinuationReason
	Until  hub.Time // when it can go on, if that is known
	Said   string   // its last summary or plan, if it sent one
}

// Stop makes a continuation for each task that an agent owns and cannot go on with, and hands it
// on, if the agent or the team of the task names a successor. It returns the continuations; none if
// the agent owns no task. A task that is on its way to another agent is left alone. Tasks that the agent
// was offered and did not accept are offered to a successor.
func (s *Service) Stop(ctx context.Context, c Cause) ([]hub.Continuation, error) {
	if !c.Reason.Known() {
		return nil, hub.Errorf(hub.CodeInvalid, "continuation.Stop", "unknown reason %.30q", c.Reason)
	}
	s.making.Lock()
	defer s.making.Unlock()
	owned, err := s.ownedTasks(ctx, c.Agent)
	if err != nil {
		return nil, err
	}
	kept, _, err := s.agents.Kept(ctx, c.Agent)
	if err != nil {
		return nil, err
	}

	out := []hub.Continuation{}
	var failed []error
	for _, t := range owned {
		if actOn(stateOf(t.open), agentStops) != keepWork {
			continue
		}
		t.logIn = kept.LogIn
		made, err := s.make(ctx, t, c, kept, false)
		if err == nil {
			made, err = s.handOn(ctx, made, kept, t)
		}
		switch {
		case err == nil:
			out = append(out, made)
		case !errors.Is(err, errWentOn):
			failed = append(failed, err) // the other tasks go on nevertheless
		}
	}
	if len(owned) > 0 {
		s.note(c.Agent, true)
	}
	failed = append(failed, s.beginSilence(ctx, c))
	kept.Reason = c.Reason
	kept.Until = c.Until
	s.forward(ctx, c.Agent, kept)
	return out, errors.Join(failed...)
}

// Later is Stop without an answer: Run does it. An agent without tasks is left alone.
func (s *Service) Later(ctx context.Context, c Cause) {
	select {
	case s.stops <- c:
	default:
		s.stop(ctx, c)
	}
}

// stop is Stop with a log entry for a failure.
func (s *Service) stop(ctx context.Context, c Cause) {
	if _, err := s.Stop(ctx, c); err != nil && ctx.Err() == nil {
		s.o.Log.Warn("the tasks of an agent that cannot go on were not continued", "op", "continuation.Stop", "agent", c.Agent, "err", err)
	}
}

// note notes that an agent has waiting continuations, or a text that it reads next.
func (s *Service) note(agent hub.AgentID, has bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if has {
		s.stopped[agent] = true
		return
	}
	delete(s.stopped, agent)
}

// remember notes the agents that open continuations concern, after a start of the hub.
func (s *Service) remember(ctx context.Context) {
	open, err := hub.Read(ctx, s.store, func(rd hub.Reader) ([]hub.Continuation, error) {
		return rd.Continuations().Continuations(hub.ContinuationQuery{States: []hub.ContinuationState{hub.ContinuationWaiting, hub.ContinuationOffered}, Limit: maxPage})
	})
	if err != nil && ctx.Err() == nil {
		s.o.Log.Warn("the tasks that wait cannot be read", "op", "continuation.Run", "err", err)
	}
	for _, c := range open {
		s.note(c.Of, true)
		if c.To != "" {
			s.note(c.To, true)
		}
	}
	silent, err := s.silences(ctx)
	if err != nil && ctx.Err() == nil {
		s.o.Log.Warn("the agents that cannot answer cannot be read", "op", "continuation.Run", "err", err)
	}
	for agent := range silent {
		s.note(agent, true)
	}
}

// Concerns reports whether an agent may have waiting continuations, or a text that it reads next.
// About continuations that were taken before the start of the hub, the next session of the agent
// finds out.
func (s *Service) Concerns(agent hub.AgentID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stopped[agent]
}

// A task is the work that an agent owns, with its package and the open continuation of it.
type task struct {
	handoff hub.Handoff // without an id for a task of a team that came without one
	pkg     contents
	open    *hub.Continuation // nil if there is none
	held    []string          // files that the agent reserved
	asked   []string          // its questions that nobody answered
	said    string            // its last report on the hub
	team    []string          // successors that its team names
	logIn   string            // see Kept
}

// ownedTasks returns the tasks that an agent owns.
func (s *Service) ownedTasks(ctx context.Context, agent hub.AgentID) (out []task, err error) {
	err = s.store.View(ctx, func(r hub.Reader) error {
		out = nil
		owned, err := owned(r, agent, maxTasks)
		if err != nil {
			return err
		}
		for _, h := range owned {
			t, err := loadTask(r, h)
			if err != nil {
				return err
			}
			out = append(out, t)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("continuation: read the tasks of an agent: %w", err)
	}
	return out, nil
}

// errWentOn says that the task of a continuation that is being made went on in the meantime: its
// agent ended it or took it back, or another hub on the same store made the continuation.
var errWentOn = hub.Errorf(hub.CodeConflict, "continuation.Stop", "the task went on in the meantime")

// make keeps the uncommitted work of a task and stores its continuation. Work that cannot be kept
// stays where it is, and the continuation says why. The agents that asked for the task, and the
// operator, are told that it waits, unless a successor is asked at once or by a person.
func (s *Service) make(ctx context.Context, t task, cause Cause, kept Kept, byPerson bool) (hub.Continuation, error) {
	h := t.handoff
	c := hub.Continuation{Handoff: h.ID, Task: h.TaskID, Title: h.Title, Of: h.To, State: hub.ContinuationWaiting}
	if t.open != nil {
		c = *t.open
	}
	c.Reason = cause.Reason
	c.Until = cause.Until
	c.At = s.o.Clock.Now()
	c.MovedAt = c.At
	c.Said = cut(firstOf(cause.Said, t.said, c.Said), maxSaid)
	if h.Restricted {
		c.Title = hub.RestrictedText
		c.Said = ""
	}

	c.Folder = firstOf(t.pkg.Work.Worktree, kept.Folder)
	c.Branch = t.pkg.Work.Branch
	isAsking := s.asksNow(c, successorsOf(c, kept, t))
	c.Told = !isAsking
	switch {
	case isAsking:
		c.Why = askingWhy
	case cause.Reason == hub.ContinueClosed && len(t.team) > 0:
		c.Why = fmt.Sprintf("%s; %s is asked after %s", waitingWhy, t.team[0], s.o.Patience)
	default:
		c.Why = waitingWhy
	}
	saved, problem := s.save(ctx, &c)
	if problem != "" {
		c.Why += "; " + problem
	}

	var stored hub.Continuation
	err := s.update(ctx, hub.Caller{ID: hub.Self}, func(x *change) (err error) {
		if err := checkStopped(x.tx, t); err != nil { // keeping the work took some time
			return err
		}
		stored = c
		if saved != nil {
			if err := x.addRescue(&stored, *saved); err != nil {
				return err
			}
		}
		if stored, err = x.put(stored); err != nil {
			return err
		}
		if err := x.record(actions.ContinuationMade, string(stored.ID), factsOf(stored)); err != nil {
			return err
		}
		isKnown := t.open != nil
		if isKnown || isAsking || byPerson {
			return nil
		}
		return x.tellStop(stored, t)
	})
	if err != nil && saved != nil {
		s.dropRef(ctx, *saved)
	}
	return stored, err
}

// checkStopped reports errWentOn unless a task and its open continuation are as they were read.
func checkStopped(rd hub.Reader, t task) error {
	h, err := ownedWork(rd, "continuation.Stop", t.handoff.ID, hub.TaskID(t.handoff.TaskID))
	isOver := hub.CodeOf(err) == hub.CodeConflict || (err == nil && h.To != t.handoff.To)
	if isOver {
		return errWentOn
	}
	if err != nil {
		return err
	}
	open, err := newest(rd, t.handoff, hub.ContinuationWaiting, hub.ContinuationOffered)
	if err != nil {
		return err
	}
	isSame := open == nil && t.open == nil
	if open != nil && t.open != nil {
		isSame = open.ID == t.open.ID && open.Revision == t.open.Revision
	}
	if !isSame {
		return errWentOn
	}
	return nil
}

// dropRef removes the name of work in the copy that no rescue has.
func (s *Service) dropRef(ctx context.Context, r hub.Rescue) {
	if err := s.trees.Drop(context.WithoutCancel(ctx), r); err != nil {
		s.o.Log.Warn("kept work that is not needed was not dropped", "op", "continuation.save", "ref", r.Ref, "err", err)
	}
}

// addRescue stores the work that was kept for a continuation.
func (x *change) addRescue(c *hub.Continuation, saved hub.Rescue) error {
	id, err := x.tx.WriteContinuations().AddRescue(saved)
	if err != nil {
		return err
	}
	saved.ID = id
	c.Rescue = &saved
	facts := map[string]any{"agent": c.Of, "handoff": c.Handoff, "commit": saved.Commit, "files": saved.Files, "insertions": saved.Insertions, "deletions": saved.Deletions}
	return x.record(actions.RescueMade, string(id), facts)
}

// save keeps the uncommitted work in the folder of a continuation and notes the state of the
// folder. It returns nil if nothing is uncommitted, and why nothing could be kept.
func (s *Service) save(ctx context.Context, c *hub.Continuation) (saved *hub.Rescue, problem string) {
	if c.Folder == "" {
		return nil, "the task names no folder, so no uncommitted work is kept"
	}
	name := "rescue/" + string(c.Of) + "/" + string(s.ids.Next())
	limited, cancel := context.WithTimeout(ctx, maxSaving)
	defer cancel()
	got, err := s.trees.Save(limited, c.Folder, name, fmt.Sprintf("Work of %s on %s\n\nThe agent %s.\n", c.Of, c.Title, c.Reason.Text()))
	if err != nil {
		s.o.Log.Warn("the uncommitted work of an agent was not kept", "op", "continuation.save", "agent", c.Of, "err", err)
		return nil, fmt.Sprintf("the uncommitted work stays in %s and was not kept: %v", c.Folder, shortError(err))
	}
	isKnown := c.Tree == got.Tree && c.Head == got.Base && s.hasRescue(ctx, c.Rescue)
	c.Head = got.Base
	c.Tree = got.Tree
	if got.Branch != "" {
		c.Branch = got.Branch
	}
	switch {
	case got.Clean:
		c.Rescue = nil
		return nil, ""
	case isKnown: // the rescue that is there has the same files
		s.dropRef(ctx, got.Rescue)
		return nil, ""
	}
	got.Agent = c.Of
	got.Handoff = c.Handoff
	got.Folder = c.Folder
	got.At = s.o.Clock.Now()
	got.Until = got.At.Add(s.o.Keep)
	got.Paths = got.Paths[:min(len(got.Paths), hub.MaxRescuePaths)]
	return &got.Rescue, ""
}

// hasRescue reports whether a rescue is still kept: a person may have dropped it.
func (s *Service) hasRescue(ctx context.Context, r *hub.Rescue) bool {
	if r == nil {
		return false
	}
	_, err := hub.Read(ctx, s.store, func(rd hub.Reader) (hub.Rescue, error) { return rd.Continuations().Rescue(r.ID) })
	return err == nil
}

// factsOf are the facts of the journal entries about a continuation.
func factsOf(c hub.Continuation) map[string]any {
	f := map[string]any{"task": c.Task, "of": c.Of, "reason": c.Reason, "state": c.State}
	if c.Handoff != "" {
		f["handoff"] = c.Handoff
	}
	if c.To != "" {
		f["to"] = c.To
	}
	if c.Next != "" {
		f["next"] = c.Next
	}
	if c.Rescue != nil {
		f["rescue"] = c.Rescue.ID
	}
	return f
}

// A change is one transaction of the service: its writes, their journal entries and messages.
type change struct {
	s      *Service
	tx     hub.Tx
	actor  hub.Caller
	posted []hub.Message
}

// update runs fn in one transaction and announces its messages after the commit.
func (s *Service) update(ctx context.Context, actor hub.Caller, fn func(*change) error) error {
	var x *change
	err := s.store.Update(ctx, hub.SurvivesPowerLoss, func(tx hub.Tx) error {
		x = &change{s: s, tx: tx, actor: actor}
		return fn(x)
	})
	if err != nil {
		return fmt.Errorf("continuation: %w", err)
	}
	s.mail.Announce(x.posted...)
	s.publish()
	return nil
}

func (s *Service) publish() {
	if s.o.Bus != nil {
		s.o.Bus.Publish(hub.TopicJournal)
	}
}

// record writes a journal entry.
func (x *change) record(a actions.Action, subject string, facts any) error {
	_, err := x.tx.Append(x.actor.Entry(x.s.o.Clock.Now(), a, subject, facts))
	return err
}

// put stores a continuation and returns it as it is stored.
func (x *change) put(c hub.Continuation) (hub.Continuation, error) {
	id, err := x.tx.WriteContinuations().PutContinuation(c)
	c.ID = id
	c.Revision++
	return c, err
}

// tellStop tells the operator and the agents that asked for a task that it waits for a person.
func (x *change) tellStop(c hub.Continuation, t task) error {
	name, err := nameOf(x.tx, c.Handoff)
	if err != nil {
		return err
	}
	text := stopText(c, t.logIn, cmp.Or(name, c.Task))
	if err := x.warn(c, text); err != nil {
		return err
	}
	return x.tellAskers(c, t.handoff, text)
}

// warn tells the operator about an agent that cannot go on.
func (x *change) warn(c hub.Continuation, text string) error {
	m, err := x.s.mail.TellOperator(x.tx, map[string]any{"code": hub.CodeDegraded, "message": text, "agent": c.Of})
	if err == nil && m.ID != "" {
		x.posted = append(x.posted, m)
	}
	return err
}

// tellAskers tells the agents that asked for a task about its continuation. The operator, who may be
// one of them, is told by warn or inform.
func (x *change) tellAskers(c hub.Continuation, h hub.Handoff, text string) error {
	askers, err := x.s.handoffs.Askers(x.tx, h)
	if err != nil {
		return err
	}
	askers = slices.DeleteFunc(askers, func(id hub.AgentID) bool { return id == hub.Operator || id == hub.Self || id == c.Of })
	return x.notify(c, text, askers)
}

// inform tells the operator that a task goes on, or is done.
func (x *change) inform(c hub.Continuation, text string) error {
	return x.notify(c, text, []hub.AgentID{hub.Operator})
}

// notify writes a message about a continuation.
func (x *change) notify(c hub.Continuation, text string, to []hub.AgentID) error {
	if len(to) == 0 {
		return nil
	}
	payload := map[string]any{"message": text, "continuation": c.ID}
	if c.Handoff != "" {
		payload["handoff_id"] = c.Handoff
	}
	m, err := x.s.mail.Notify(x.tx, notice(to, payload))
	if err == nil {
		x.posted = append(x.posted, m)
	}
	return err
}
