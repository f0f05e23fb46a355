// Package keptwork keeps the uncommitted work of working trees before it can be destroyed, and
// brings it back.
//
// The guard of files calls [Service.Before] before a command or an edit of an agent, and
// [Service.After] when it ended. Before keeps the state of the tree; After compares: content that
// the agent did not write and that is not as it was is a loss, which is recorded, and told once for
// each command with the line that brings it back. back.go lists kept work, brings it back and drops
// it; thin.go removes it when its time is over.
//
// The content is in a store that a [Trees] reads and writes; the rows in the hub's store say which
// states are there, and why. A row is written after its state. Kept work never leaves the machine.
package keptwork

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
	"github.com/parley-agents/parley/internal/ground/text/shorten"
)

const (
	answerWithin = 1200 * time.Millisecond // of a keeping before a command; the guard waits a little longer
	holdsFor     = 60 * time.Second        // for a command that destroys, while its keeping goes on
	keepsFor     = 10 * time.Minute        // for one keeping
	maxCommand   = 200                     // bytes of the text of a command in a row
	maxRunning   = 1000                    // commands whose end is awaited
	maxPage      = 500
	maxAuthors   = 10_000 // files of one tree whose authors are remembered after they are gone
	maxLost      = 100_000
	noticeTopic  = "kept-work"

	// backCommand is the command line that brings kept work back, before its id.
	backCommand = "parley files back "
)

// Options says what is kept of a tree.
type Options struct {
	NoIgnored bool     // ignored files are left out
	Names     []string // in a folder without git: the files that are kept
}

// A Return says which files of a state are brought back.
type Return struct {
	State string
	After string   // the state right after the command
	Paths []string // also files that were changed since
	Into  string   // a new folder, in which all files are written
	Index bool
	Stash bool
	All   bool
}

// Trees is the store of the content of kept work. It changes nothing of a user but in Back.
type Trees interface {
	// Keep keeps the uncommitted state of a tree.
	Keep(ctx context.Context, t hub.WorkingTree, o Options) (hub.KeptState, error)
	// After keeps the state of a tree after a command, and compares it with the one before.
	After(ctx context.Context, t hub.WorkingTree, before string, o Options) (hub.KeptState, hub.KeptLoss, error)
	// Files returns the files of a state, with what they are now if read is set.
	Files(ctx context.Context, t hub.WorkingTree, state, after string, read bool) ([]hub.KeptFile, error)
	// Back brings files of a state back.
	Back(ctx context.Context, t hub.WorkingTree, r Return) (paths []string, left []hub.KeptLeft, err error)
	// Sweep removes all states of the repository of a tree but the live ones.
	Sweep(ctx context.Context, t hub.WorkingTree, live []string) (bytes int64, err error)
	// Stash returns the commits of the entries of the stash, the newest first.
	Stash(t hub.WorkingTree) []string
	// Siblings returns the tops of the working trees of the repository of a tree.
	Siblings(t hub.WorkingTree) []string
}

// Mail writes messages of the hub.
type Mail interface {
	// Notify writes a message of the hub inside tx. It is never dropped.
	Notify(tx hub.Tx, e hub.Envelope) (hub.Message, error)
	// Announce wakes the long polls of the recipients of committed messages.
	Announce(...hub.Message)
}

// Rules are the rules for the kept work of one repository.
type Rules struct {
	Off       bool // nothing is kept
	NoIgnored bool // ignored files are not kept
}

// ServiceOptions changes how a Service works. The zero value works.
type ServiceOptions struct {
	Clock hub.Clock                        // default time.Now
	Log   *slog.Logger                     // default silent
	Rules func(tree hub.WorkingTree) Rules // may be nil
	Now   time.Duration                    // how long a command waits for its keeping; default 1.2 s
}

// A Service keeps work. It is safe for concurrent use.
type Service struct {
	store hub.Store
	trees Trees
	mail  Mail
	o     ServiceOptions

	work  context.Context // of keepings that outlive their callers; Close ends it
	stop  context.CancelFunc
	tasks sync.WaitGroup

	// sweeping is held for reading from the look at a tree until its state has a row, and for
	// writing while content that no row has is removed. It is taken before mu.
	sweeping sync.RWMutex

	mu      sync.Mutex                       // guards what follows
	running map[Act]begun                    // commands that run, with the state before each
	slow    map[string]time.Time             // trees whose keeping goes on, since when
	recent  map[string]hub.WorkingTree       // trees in which something happened since the last look
	authors map[string]map[string]author     // of uncommitted contents, by tree and path
	lost    map[lostKey]hub.AgentID          // the authors of lost files
	acted   map[string]map[hub.AgentID]visit // the last acts, by tree
	stashed map[string]hub.AgentID           // the agents that made entries of the stash, by their commits
	told    map[string]bool                  // repositories that cannot be kept, of which the operator knows
}

// A lostKey names a file of kept work.
type lostKey struct {
	id   hub.KeptID
	path string
}

// An author is the agent that made the content of a file.
type author struct {
	agent  hub.AgentID
	digest string
}

// An Act is a command or an edit of an agent in a tree.
type Act struct {
	Agent   hub.AgentID
	Session string
	Tree    string // its top
	Text    string // of the command, or the paths of the edit
	Edits   bool   // it is an edit of a tool, not a command
}

// A begun is an act that runs.
type begun struct {
	at       time.Time // when it was kept
	state    hub.KeptState
	late     bool
	destroys bool     // its text says so
	stash    []string // the entries of the stash
}

// New returns a Service. opts may be nil.
func New(store hub.Store, trees Trees, mail Mail, opts *ServiceOptions) *Service {
	s := &Service{
		store: store, trees: trees, mail: mail, running: map[Act]begun{}, slow: map[string]time.Time{},
		recent: map[string]hub.WorkingTree{}, authors: map[string]map[string]author{}, lost: map[lostKey]hub.AgentID{}, acted: map[string]map[hub.AgentID]visit{}, stashed: map[string]hub.AgentID{}, told: map[string]bool{},
	}
	if opts != nil {
		s.o = *opts
	}
	if s.o.Clock == nil {
		s.o.Clock = time.Now
	}
	if s.o.Log == nil {
		s.o.Log = slog.New(slog.DiscardHandler)
	}
	if s.o.Now <= 0 {
		s.o.Now = answerWithin
	}
	s.work, s.stop = context.WithCancel(context.Background())
	return s
}

// Close ends the keepings that outlived their callers, and returns when they have ended.
func (s *Service) Close() error {
	s.stop()
	s.tasks.Wait()
	return nil
}

// rules returns the rules of a tree.
func (s *Service) rules(t hub.WorkingTree) Rules {
	if s.o.Rules == nil {
		return Rules{}
	}
	return s.o.Rules(t)
}

// A kept is the result of a keeping.
type kept struct {
	state hub.KeptState
	err   error
}

// keep keeps a tree beside its caller, which waits for a time. It reports false if the keeping goes
// on.
func (s *Service) keep(ctx context.Context, t hub.WorkingTree, o Options, patience time.Duration, then func(hub.KeptState)) (kept, bool) {
	done := make(chan kept, 1)
	s.tasks.Go(func() {
		ctx, cancel := context.WithTimeout(s.work, keepsFor)
		defer cancel()
		s.sweeping.RLock()
		defer s.sweeping.RUnlock()
		state, err := s.trees.Keep(ctx, t, o)
		if err == nil && then != nil {
			then(state)
		}
		done <- kept{state, err}
	})
	wait := time.NewTimer(patience)
	defer wait.Stop()
	select {
	case got := <-done:
		return got, true
	case <-wait.C:
		return kept{}, false
	case <-ctx.Done():
		return kept{}, false
	}
}

// Before keeps a tree before an act of an agent. It returns the reason to refuse the act for now:
// only for one that is known to destroy, while the keeping goes on. An act of a tree that cannot be
// kept goes on, and the operator is told once.
func (s *Service) Before(ctx context.Context, t hub.WorkingTree, act Act, o Options, destroys bool) (refusal string) {
	rules := s.rules(t)
	if rules.Off {
		return ""
	}
	o.NoIgnored = rules.NoIgnored
	s.mu.Lock()
	since, isSlow := s.slow[t.Path]
	s.recent[t.Path] = t
	s.visited(t, act.Agent)
	s.mu.Unlock()

	// A keeping that the caller does not wait for stores its row by itself.
	began := s.o.Clock()
	got, inTime := s.keep(ctx, t, o, s.o.Now, func(state hub.KeptState) {
		s.note(t, act, state, destroys)
		s.mu.Lock()
		delete(s.slow, t.Path)
		s.mu.Unlock()
	})
	switch {
	case inTime && got.err != nil:
		s.cannot(t, got.err)
		return ""
	case inTime:
		return ""
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	if !isSlow {
		since = began
		s.slow[t.Path] = since
	}
	if destroys && began.Sub(since) < holdsFor {
		return fmt.Sprintf("the hub is still keeping %s: try again", t.Path)
	}
	s.running[act] = begun{at: began, late: true, destroys: destroys}
	return ""
}

// note stores the row of a state, unless the newest row of the tree has the same one, and remembers
// the state for the end of the act.
func (s *Service) note(t hub.WorkingTree, act Act, state hub.KeptState, destroys bool) {
	stash := s.trees.Stash(t)
	s.mu.Lock()
	for old := range s.running {
		if len(s.running) < maxRunning {
			break
		}
		delete(s.running, old)
	}
	late := s.running[act].late
	s.running[act] = begun{s.o.Clock(), state, late, destroys, stash}
	s.mu.Unlock()
	why := hub.KeptBeforeCommand
	switch {
	case act.Edits:
		why = hub.KeptEdit
	case act.Agent == "":
		why = hub.KeptInterval
	case act.Text == "":
		why = hub.KeptTurn
	}
	w := hub.KeptWork{Tree: t, Agent: act.Agent, Why: why, Command: shorten.Text(act.Text, maxCommand), State: state, Late: late}
	if _, err := s.add(s.work, w); err != nil && s.work.Err() == nil {
		s.o.Log.Warn("kept work has no row", "op", "keptwork.Before", "err", err)
	}
}

// add stores the row of a state, unless there is nothing in it or the newest row of the tree has the
// same one. It returns the id of the row that has the state.
func (s *Service) add(ctx context.Context, w hub.KeptWork) (id hub.KeptID, err error) {
	if w.State.Files+w.State.Stash == 0 {
		return "", nil
	}
	err = s.store.Update(ctx, hub.SurvivesKill, func(tx hub.Tx) error {
		last, err := tx.Kept().KeptWorks(hub.KeptQuery{Tree: w.Tree.Path, Limit: 1})
		if err != nil {
			return err
		}
		if len(last) > 0 && last[0].State.ID == w.State.ID && last[0].After == "" {
			id = last[0].ID
			return nil
		}
		id, err = s.put(tx, w)
		return err
	})
	return id, err
}

// put stores a new row with its record.
func (s *Service) put(tx hub.Tx, w hub.KeptWork) (hub.KeptID, error) {
	w.At = s.o.Clock.Now()
	id, err := tx.WriteKept().PutKeptWork(w)
	if err != nil {
		return "", err
	}
	actor := hub.Caller{ID: hub.Self}
	_, err = tx.Append(actor.Entry(w.At, actions.WorkKept, string(id), map[string]any{"tree": w.Tree.Path, "agent": w.Agent, "why": w.Why, "state": w.State.ID, "files": w.State.Files}))
	return id, err
}

// cannot tells the operator once that a tree cannot be kept.
func (s *Service) cannot(t hub.WorkingTree, cause error) {
	s.mu.Lock()
	isTold := s.told[t.Path]
	s.told[t.Path] = true
	s.mu.Unlock()
	s.o.Log.Warn("the uncommitted work of a tree is not kept", "op", "keptwork.Before", "err", cause)
	if isTold || s.work.Err() != nil {
		return
	}
	err := s.tell(s.work, func(tx hub.Tx) ([]hub.Message, error) {
		return s.write(tx, hub.Operator, hub.PriorityHigh, fmt.Sprintf("the uncommitted work in %s is not kept: %s", t.Path, shorten.Text(cause.Error(), maxCommand)), "commands of agents there go on without it", t.Path)
	})
	if err != nil {
		s.o.Log.Warn("the operator was not told that work is not kept", "op", "keptwork.Before", "err", err)
	}
}

// A Loss is uncommitted content of others that an act changed or removed.
type Loss struct {
	ID       hub.KeptID // that has it
	Files    []string   // that neither the agent of the act nor a commit nor the stash has
	Of       []hub.AgentID
	Stash    int
	Branches []string
	Line     string // that brings it back

	held    []string               // files of which the guard tells
	authors map[string]hub.AgentID // of the files, as far as they are known
}

// IsEmpty reports whether nothing of others was lost.
func (l Loss) IsEmpty() bool { return len(l.Files)+l.Stash+len(l.Branches) == 0 }

// isTold reports whether the guard tells of all that was lost.
func (l Loss) isTold() bool {
	isOther := func(path string) bool { return !slices.Contains(l.held, path) }
	return l.Stash+len(l.Branches) == 0 && !slices.ContainsFunc(l.Files, isOther)
}

// After keeps the state of a tree after an act, and returns what it destroyed of others. held are
// the files that other agents hold: their agents hear of them from the guard.
func (s *Service) After(ctx context.Context, t hub.WorkingTree, act Act, o Options, held []string) Loss {
	s.mu.Lock()
	before, isKnown := s.running[act]
	delete(s.running, act)
	s.recent[t.Path] = t
	s.visited(t, act.Agent)
	s.mu.Unlock()
	rules := s.rules(t)
	if !isKnown || before.state.ID == "" || rules.Off {
		return Loss{}
	}
	s.noteStash(t, act.Agent, before.stash)
	s.sweeping.RLock()
	defer s.sweeping.RUnlock()
	o.NoIgnored = rules.NoIgnored
	now, loss, err := s.trees.After(ctx, t, before.state.ID, o)
	if err != nil {
		s.o.Log.Warn("the state after a command is not known", "op", "keptwork.After", "err", err)
		return Loss{}
	}
	if now.ID == before.state.ID {
		return Loss{}
	}
	out := s.classify(t, act, before.at, loss)
	out.held = held
	s.attribute(ctx, t, act, before.state, now)
	hasLoss := len(loss.Files)+len(loss.Stash)+len(loss.Branches) > 0
	isOwn := out.IsEmpty() && !before.destroys
	if act.Edits || !hasLoss || isOwn {
		return Loss{}
	}
	out.ID, err = s.destroyed(ctx, t, act, before, now, out)
	if err != nil {
		s.o.Log.Warn("a loss was not recorded", "op", "keptwork.After", "err", err)
	}
	s.mu.Lock()
	for path, agent := range out.authors {
		if len(s.lost) < maxLost { // beyond it a lost file is the operator's to bring back
			s.lost[lostKey{out.ID, path}] = agent
		}
	}
	s.mu.Unlock()
	out.Line = backCommand + string(out.ID)
	return out
}

// classify returns what of a loss is that of others. A file whose author acted in the tree since the
// act began may have been changed by its author, and is left out; so are entries of the stash and
// branches if any other agent acted in the repository.
func (s *Service) classify(t hub.WorkingTree, act Act, began time.Time, loss hub.KeptLoss) (out Loss) {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.authors[t.Path]
	out.authors = map[string]hub.AgentID{}
	for _, f := range loss.Files {
		by, isKnown := known[f.Path]
		isCurrent := isKnown && by.digest == f.Digest
		isOwn := isCurrent && by.agent == act.Agent
		isMere := !isCurrent && !f.Lost                               // a change of content whose author is not known
		isBuilt := !isCurrent && f.State == "ignored" && f.Left != "" // a build writes its products again
		isOfAuthor := isCurrent && s.hasActed(t, by.agent, began)
		isLeftOut := isOwn || isMere || isBuilt
		if f.Stashed || isLeftOut || isOfAuthor {
			continue
		}
		out.Files = append(out.Files, f.Path)
		if isCurrent {
			out.authors[f.Path] = by.agent
		}
		if isCurrent && !slices.Contains(out.Of, by.agent) {
			out.Of = append(out.Of, by.agent)
		}
	}
	if !s.hasOtherActed(t.Repository, act.Agent, began) {
		out.Stash = len(loss.Stash)
		out.Branches = loss.Branches
	}
	return out
}

// attribute notes that the contents that changed during an act are those of its agent.
func (s *Service) attribute(ctx context.Context, t hub.WorkingTree, act Act, before, after hub.KeptState) {
	was, err := s.trees.Files(ctx, t, before.ID, "", false)
	if err != nil {
		return
	}
	now, err := s.trees.Files(ctx, t, after.ID, "", false)
	if err != nil {
		return
	}
	old := map[string]string{}
	for _, f := range was {
		old[f.Path] = f.Digest
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.authors[t.Path]
	next := map[string]author{}
	for _, f := range now {
		if digest, isOld := old[f.Path]; isOld && digest == f.Digest {
			if by, isKnown := known[f.Path]; isKnown {
				next[f.Path] = by
			}
			continue
		}
		next[f.Path] = author{act.Agent, f.Digest}
	}

	// The author of a file that is gone matters to commands that began before.
	for path, by := range known {
		if _, isNewer := next[path]; !isNewer && len(next) < maxAuthors {
			next[path] = by
		}
	}
	s.authors[t.Path] = next
}

// destroyed stores which kept work has the content that an act destroyed, and tells its authors and
// the operator once.
func (s *Service) destroyed(ctx context.Context, t hub.WorkingTree, act Act, before begun, now hub.KeptState, loss Loss) (id hub.KeptID, err error) {
	w := hub.KeptWork{Tree: t, Agent: act.Agent, Why: hub.KeptBeforeCommand, Command: shorten.Text(act.Text, maxCommand), State: before.state, After: now.ID, Lost: len(loss.Files), Late: before.late}
	err = s.tell(context.WithoutCancel(ctx), func(tx hub.Tx) ([]hub.Message, error) {
		last, err := tx.Kept().KeptWorks(hub.KeptQuery{Tree: t.Path, Limit: 1})
		if err != nil {
			return nil, err
		}
		isSame := len(last) > 0 && last[0].State.ID == before.state.ID && last[0].After == ""
		if isSame {
			w.ID = last[0].ID
			w.Revision = last[0].Revision
			w.At = last[0].At
			id, err = tx.WriteKept().PutKeptWork(w)
		} else {
			id, err = s.put(tx, w)
		}
		if err != nil || loss.IsEmpty() {
			return nil, err
		}
		actor := hub.Caller{Kind: hub.CallerAgent, ID: act.Agent}
		facts := map[string]any{"tree": t.Path, "files": len(loss.Files), "command": w.Command}
		if _, err := tx.Append(actor.Entry(s.o.Clock.Now(), actions.WorkDestroyed, string(id), facts)); err != nil {
			return nil, err
		}
		if loss.isTold() {
			return nil, nil
		}
		return s.tellLoss(tx, t, w.Command, act.Agent, id, loss)
	})
	return id, err
}

// tellLoss writes one message to each author of lost content and to the operator.
func (s *Service) tellLoss(tx hub.Tx, t hub.WorkingTree, command string, by hub.AgentID, id hub.KeptID, loss Loss) (out []hub.Message, err error) {
	what := lossText(loss)
	summary := fmt.Sprintf("`%s` of %s changed or removed %s that it did not write; the hub has kept it as %s", command, by, what, id)
	for _, to := range loss.Of {
		m, err := s.write(tx, to, hub.PriorityHigh, summary, "acp_files, action back, id "+string(id)+" brings your files back", t.Path)
		if err != nil {
			return nil, err
		}
		out = append(out, m...)
	}
	m, err := s.write(tx, hub.Operator, hub.PriorityHigh, summary, backCommand+string(id)+" brings it back", t.Path)
	return append(out, m...), err
}

// lossText counts a loss in words.
func lossText(l Loss) string {
	switch {
	case len(l.Files) == 1:
		return l.Files[0]
	case len(l.Files) > 1:
		return fmt.Sprintf("%s and %d more files", l.Files[0], len(l.Files)-1)
	case l.Stash > 0:
		return fmt.Sprintf("%d entries of the stash", l.Stash)
	}
	return "the branch " + l.Branches[0]
}

// write writes a message of the hub about a tree.
func (s *Service) write(tx hub.Tx, to hub.AgentID, p hub.Priority, summary, next, tree string) ([]hub.Message, error) {
	payload, err := json.Marshal(map[string]any{"summary": summary, "next_step": next, "tree": tree})
	if err != nil {
		return nil, err
	}
	m, err := s.mail.Notify(tx, hub.Envelope{To: []hub.AgentID{to}, Type: hub.TypeStatusUpdate, Priority: p, Topic: noticeTopic, Payload: payload})
	return []hub.Message{m}, err
}

// tell runs a transaction that writes messages, and announces them.
func (s *Service) tell(ctx context.Context, write func(tx hub.Tx) ([]hub.Message, error)) error {
	var written []hub.Message
	err := s.store.Update(ctx, hub.SurvivesKill, func(tx hub.Tx) (err error) {
		written, err = write(tx)
		return err
	})
	if err == nil {
		s.mail.Announce(written...)
	}
	return err
}
