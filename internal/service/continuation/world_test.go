package continuation_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/engine/blobs"
	"github.com/parley-agents/parley/internal/service/continuation"
	"github.com/parley-agents/parley/internal/service/handoff"
	"github.com/parley-agents/parley/internal/service/keys"
	"github.com/parley-agents/parley/internal/service/mailroom"
	"github.com/parley-agents/parley/internal/service/team"
	"github.com/parley-agents/parley/internal/testing/storetest"
)

// patience is the time after which a hub of these tests asks again.
const patience = 10 * time.Minute

var operator = hub.Caller{Kind: hub.CallerOperator, ID: hub.Operator, Role: hub.RoleCoordinator, Auditor: true}

// agent is the caller of an agent.
func agent(id hub.AgentID) hub.Caller {
	return hub.Caller{Kind: hub.CallerAgent, ID: id, Role: hub.RoleExecutor}
}

// A world is a hub with agents, a working tree with a changed file, and the services that hand tasks
// on. Its clock moves by a millisecond with each reading, and by pass.
type world struct {
	*testing.T
	ctx   context.Context
	now   time.Time
	store storetest.Store
	keys  *keys.Service
	mail  *mailroom.Mailroom
	teams *team.Service
	hands *handoff.Service
	tree  *tree
	crew  *crew
	*continuation.Service
}

func newWorld(t *testing.T, names ...hub.AgentID) *world {
	t.Helper()
	w := &world{T: t, ctx: t.Context(), now: time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC), tree: &tree{files: []string{"parser.go"}}}
	home := t.TempDir()
	w.store = storetest.Open(t, home)
	clock := w.clock()
	w.keys = keys.New(w.store, &keys.Options{Clock: clock})
	_, err := w.keys.EnsureOperator(w.ctx, "")
	w.must(err)
	for _, name := range append(names, "planner", "builder", "tester") {
		w.enlist(name)
	}
	content, err := blobs.Open(filepath.Join(home, "artifacts"), nil)
	w.must(err)
	w.mail, err = mailroom.New(w.store, w.keys, &mailroom.Options{Clock: clock, Artifacts: content, Limits: mailroom.Limits{Unsafe: true}, Features: hub.Features})
	w.must(err)
	w.teams, err = team.New(w.store, w.mail, &team.Options{Clock: clock, Artifacts: content})
	w.must(err)
	w.crew = &crew{w: w, kept: map[hub.AgentID]continuation.Kept{}, blocked: map[hub.AgentID]string{}, closed: map[hub.AgentID]hub.Time{}}
	w.hands = handoff.New(w.store, w.mail, &handoff.Options{Clock: clock, Board: w.teams, Onward: follower{w}})
	w.Service = continuation.New(w.store, continuation.Parts{Trees: w.tree, Handoffs: w.hands, Agents: w.crew, Mail: w.mail}, &continuation.Options{Clock: clock, Patience: patience})
	return w
}

// clock returns the clock of the world.
func (w *world) clock() hub.Clock {
	return func() time.Time {
		w.now = w.now.Add(time.Millisecond)
		return w.now
	}
}

// follower tells the service, which is made after the handoffs, about handoffs that moved.
type follower struct{ w *world }

func (f follower) Moved(tx hub.Tx, h hub.Handoff) ([]hub.Message, error) {
	return f.w.Service.Moved(tx, h)
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// enlist adds an agent.
func (w *world) enlist(name hub.AgentID) {
	w.Helper()
	_, _, _, err := w.keys.AddAgent(w.ctx, operator, hub.Agent{ID: name, Role: hub.RoleExecutor}, keys.NewKey{})
	w.must(err)
}

// pass lets some time pass, and the service look at what waits.
func (w *world) pass(d time.Duration) {
	w.now = w.now.Add(d)
	w.Look(w.ctx)
}

// give has an agent hand a task over to another one, which accepts it.
func (w *world) give(from, to hub.AgentID, change ...func(m map[string]any)) hub.HandoffID {
	w.Helper()
	id := w.offerTask(from, to, change...)
	w.accept(to, id)
	return id
}

// offerTask has an agent hand a task over to another one.
func (w *world) offerTask(from, to hub.AgentID, change ...func(m map[string]any)) hub.HandoffID {
	w.Helper()
	m := map[string]any{
		"task":       map[string]any{"task_id": "T-1", "title": "write the parser", "objective": "a parser", "success_criteria": []any{"tests pass"}},
		"context":    map[string]any{"summary": "the grammar is frozen"},
		"work_state": map[string]any{"next_step": "write parser.go", "worktree_path": "/src/app"},
		"unproven":   "the folder is not on this machine",
	}
	for _, one := range change {
		one(m)
	}
	raw, err := json.Marshal(m)
	w.must(err)
	caller := agent(from)
	if from == hub.Operator {
		caller = operator
	}
	got, err := w.hands.Initiate(w.ctx, caller, handoff.Proposal{To: to, Package: raw})
	w.must(err)
	return got.ID
}

func (w *world) accept(by hub.AgentID, id hub.HandoffID) {
	w.Helper()
	got, err := w.hands.Accept(w.ctx, agent(by), id, "")
	w.must(err)
	if got.Status != hub.HandoffActivated {
		w.Fatalf("%s accepts %s: got %s %v", by, id, got.Status, got.Claims)
	}
}

func (w *world) reject(by hub.AgentID, id hub.HandoffID) {
	w.Helper()
	_, err := w.hands.Reject(w.ctx, agent(by), id, hub.RejectOther, "no time")
	w.must(err)
}

func (w *world) complete(by hub.AgentID, id hub.HandoffID) {
	w.Helper()
	_, err := w.hands.Complete(w.ctx, agent(by), id, handoff.Completion{Summary: "all tests pass"})
	w.must(err)
}

// stop has an agent stop for a reason. successors are those that it names.
func (w *world) stop(of hub.AgentID, reason hub.ContinuationReason, successors ...string) {
	w.Helper()
	w.crew.kept[of] = continuation.Kept{Folder: "/src/app", CLI: "codex", Or: successors}
	_, err := w.Stop(w.ctx, continuation.Cause{Agent: of, Reason: reason})
	w.must(err)
}

// last returns the newest continuation.
func (w *world) last() hub.Continuation {
	w.Helper()
	got, err := w.List(w.ctx, operator, false)
	w.must(err)
	if len(got.Continuations) == 0 {
		w.Fatal("there is no continuation")
	}
	return got.Continuations[0]
}

// want compares the state of the newest continuation and the agent that it names.
func (w *world) want(state hub.ContinuationState, to hub.AgentID) hub.Continuation {
	w.Helper()
	c := w.last()
	if c.State != state || c.To != to {
		w.Fatalf("got %s to %q (%s), want %s to %q", c.State, c.To, c.Why, state, to)
	}
	return c
}

// hears returns the messages that an agent has not read, each as its type and its text, and marks
// them as read.
func (w *world) hears(by hub.AgentID) (out []string) {
	w.Helper()
	caller := agent(by)
	if by == hub.Operator {
		caller = operator
	}
	var seen []hub.EnvelopeID
	page, err := w.mail.Inbox(w.ctx, caller, mailroom.InboxRequest{NewOnly: true, Limit: 100})
	w.must(err)
	for _, m := range page.Messages {
		var p struct {
			Message string        `json:"message"`
			Summary string        `json:"summary"`
			Detail  string        `json:"detail"`
			Handoff hub.HandoffID `json:"handoff_id"`
		}
		w.must(json.Unmarshal(m.Payload, &p))
		text := cmp.Or(p.Message, p.Summary, p.Detail)
		switch m.Type {
		case hub.TypeHandoffInitiate, hub.TypeHandoffAccept, hub.TypeHandoffReject, hub.TypeHandoffComplete:
			kind := strings.TrimPrefix(string(m.Type), "handoff.")
			text = strings.TrimSuffix(fmt.Sprintf("%s %s of %s: %s", kind, w.short(p.Handoff), m.From, text), ": ")
		}
		out = append(out, text)
		seen = append(seen, m.ID)
	}
	_, err = w.mail.Inbox(w.ctx, caller, mailroom.InboxRequest{Ack: seen, Limit: 1})
	w.must(err)
	return out
}

// short returns the short id of a handoff.
func (w *world) short(id hub.HandoffID) string {
	w.Helper()
	short, err := hub.Read(w.ctx, w.store, func(r hub.Reader) (hub.ShortID, error) { return r.ShortID(string(id)) })
	w.must(err)
	return string(short)
}

// A tree is the working tree of all agents.
type tree struct {
	files []string // that are not committed
	saved int
}

func (t *tree) Save(_ context.Context, _, name, _ string) (continuation.Saved, error) {
	t.saved++
	made := hub.Rescue{Copy: "/copy", Ref: name, Commit: fmt.Sprintf("c%d", len(t.files)), Base: "c0", Files: len(t.files), Insertions: len(t.files), Paths: t.files}
	return continuation.Saved{Rescue: made, Tree: strings.Join(t.files, " "), Clean: len(t.files) == 0}, nil
}

func (t *tree) Drop(context.Context, hub.Rescue) error { return nil }

func (t *tree) Names(context.Context) ([]hub.Rescue, error) { return nil, nil }

func (t *tree) Apply(context.Context, hub.Rescue, string) (continuation.Applied, error) {
	return continuation.Applied{}, nil
}

func (t *tree) Patch(context.Context, hub.Rescue, int) (string, bool, error) { return "", false, nil }

// A crew is the agents that the hub runs.
type crew struct {
	w       *world
	kept    map[hub.AgentID]continuation.Kept
	blocked map[hub.AgentID]string
	off     map[hub.AgentID]string
	closed  map[hub.AgentID]hub.Time // whose terminals are closed
	resumed []hub.AgentID
	dropped []hub.AgentID // that were dismissed
	working hub.AgentID
}

func (c *crew) Kept(_ context.Context, of hub.AgentID) (continuation.Kept, bool, error) {
	k, ok := c.kept[of]
	return k, ok, nil
}

func (c *crew) StandInName(_ context.Context, of hub.AgentID, cli string) (hub.AgentID, error) {
	return of + "-" + hub.AgentID(cli), nil
}

func (c *crew) StandIn(_ context.Context, of hub.AgentID, p continuation.Program) error {
	name := of + "-" + hub.AgentID(p.CLI)
	if _, ok := c.kept[name]; !ok {
		c.w.enlist(name)
	}
	was := c.kept[of]
	c.kept[name] = continuation.Kept{Folder: was.Folder, CLI: p.CLI, Or: was.Or}
	return nil
}

func (c *crew) Dismiss(_ context.Context, name hub.AgentID) error {
	c.dropped = append(c.dropped, name)
	return nil
}

func (c *crew) Resume(_ context.Context, name hub.AgentID, _ string) error {
	c.resumed = append(c.resumed, name)
	return nil
}

func (c *crew) Blocked(_ context.Context, name hub.AgentID) string { return c.blocked[name] }

func (c *crew) Off(_ context.Context, name hub.AgentID) string { return c.off[name] }

func (c *crew) Working(_ context.Context, name hub.AgentID) bool { return name == c.working }

func (c *crew) Closed(_ hub.Reader, name hub.AgentID) (hub.Time, bool, error) {
	at, ok := c.closed[name]
	return at, ok, nil
}
