package handoff_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/engine/bus"
	"github.com/parley-agents/parley/internal/ground/shape"
	"github.com/parley-agents/parley/internal/reach/evidence"
	"github.com/parley-agents/parley/internal/service/attention"
	"github.com/parley-agents/parley/internal/service/handoff"
	"github.com/parley-agents/parley/internal/service/keys"
	"github.com/parley-agents/parley/internal/service/mailroom"
	"github.com/parley-agents/parley/internal/testing/storetest"
)

// A desk is where tasks change hands: a real store, a real mailroom, a real
// inspector of one folder, and a clock that stands still.
type desk struct {
	*handoff.Service
	t     *testing.T
	store hub.Store
	who   *keys.Service
	mail  *mailroom.Mailroom
	home  *storetest.Home
	dir   string // the folder that is looked at
	kept  string // where states of worktrees are kept

	mu  sync.Mutex // guards now
	now time.Time
}

// waiting returns the handoffs that wait for an approval.
func (d *desk) waiting(ctx context.Context, actor hub.Caller) ([]hub.Handoff, error) {
	got, err := attention.New(d.store, mailroom.Headline).Waiting(ctx, actor, attention.Sources{})
	return got.Handoffs, err
}

var (
	operator = hub.Caller{ID: hub.Operator, Role: hub.RoleCoordinator, Auditor: true}
	planner  = hub.Caller{ID: "planner", Role: hub.RoleCoordinator}
	builder  = hub.Caller{ID: "builder", Role: hub.RoleExecutor}
	tester   = hub.Caller{ID: "tester", Role: hub.RoleReviewer}
	auditor  = hub.Caller{ID: "auditor", Role: hub.RoleReviewer, Auditor: true}
)

func open(t *testing.T) *desk {
	t.Helper()
	d := &desk{t: t, home: storetest.NewHome(t, t.TempDir()), dir: t.TempDir(), kept: t.TempDir(), now: time.Date(2026, 2, 21, 9, 0, 0, 0, time.UTC)}
	d.store = d.home.Open()
	t.Cleanup(func() {
		if err := d.store.Close(); err != nil {
			t.Error(err)
		}
	})
	hints := new(bus.Local)
	d.who = keys.New(d.store, &keys.Options{Clock: d.clock, Bus: hints})
	if _, err := d.who.EnsureOperator(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	for _, a := range []hub.Caller{planner, builder, tester, auditor} {
		if _, _, _, err := d.who.AddAgent(t.Context(), operator, hub.Agent{ID: a.ID, Role: a.Role, Auditor: a.Auditor}, keys.NewKey{}); err != nil {
			t.Fatal(err)
		}
	}
	// Limits are the mailroom's business and have tests there.
	var err error
	if d.mail, err = mailroom.New(d.store, d.who, &mailroom.Options{Clock: d.clock, Bus: hints, Limits: mailroom.Limits{Unsafe: true}}); err != nil {
		t.Fatal(err)
	}
	look, err := evidence.New([]string{d.dir}, &evidence.Options{Kept: d.kept})
	if err != nil {
		t.Fatal(err)
	}
	d.Service = handoff.New(d.store, d.mail, &handoff.Options{Clock: d.clock, Inspector: look})
	return d
}

// on makes the desk report to a subtest until that is over.
func (d *desk) on(t *testing.T) {
	outer := d.t
	d.t = t
	t.Cleanup(func() { d.t = outer })
}

func (d *desk) clock() time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.now
}

func (d *desk) pass(by time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.now = d.now.Add(by)
}

// pkg returns a package with the least that a sender must give, changed.
func pkg(task string, change func(m map[string]any)) json.RawMessage {
	m := map[string]any{
		"task": map[string]any{
			"task_id": task, "title": "Nullable avatar", "objective": "users without a picture load", "success_criteria": []any{"old rows load"},
		},
		"context":    map[string]any{"summary": "the schema is frozen"},
		"work_state": map[string]any{"next_step": "run the migration"},
	}
	if change != nil {
		change(m)
	}
	raw, err := json.Marshal(m)
	if err != nil {
		panic(err)
	}
	return raw
}

// with returns a change that sets one member, named by its path.
func with(path string, value any) func(map[string]any) {
	return func(m map[string]any) {
		names := strings.Split(path, ".")
		for _, n := range names[:len(names)-1] {
			inner, ok := m[n].(map[string]any)
			if !ok {
				inner = map[string]any{}
				m[n] = inner
			}
			m = inner
		}
		if value == nil {
			delete(m, names[len(names)-1])
			return
		}
		m[names[len(names)-1]] = value
	}
}

// propose initiates a handoff that must be taken.
func (d *desk) propose(from hub.Caller, to hub.AgentID, raw json.RawMessage) handoff.Report {
	d.t.Helper()
	r, err := d.Initiate(d.t.Context(), from, handoff.Proposal{To: to, Package: raw})
	if err != nil {
		d.t.Fatalf("%s to %s: initiate: %v", from.ID, to, err)
	}
	return r
}

// accept accepts a handoff that must pass its checks.
func (d *desk) accept(by hub.Caller, id hub.HandoffID) handoff.Report {
	d.t.Helper()
	r, err := d.Accept(d.t.Context(), by, id, "")
	if err != nil || r.Status != hub.HandoffActivated {
		d.t.Fatalf("%s: accept: got %s %v (%v), want activated", by.ID, r.Status, r.Claims, err)
	}
	return r
}

// refused checks that a call was refused with a code and changed nothing.
func (d *desk) refused(want hub.Code, call func() (handoff.Report, error)) *hub.Error {
	d.t.Helper()
	before := d.rows()
	_, err := call()
	if got := hub.CodeOf(err); got != want {
		d.t.Errorf("got %q (%v), want %q", got, err, want)
	}
	if after := d.rows(); before != after {
		d.t.Errorf("a refused call changed the store:\nbefore %s\nafter  %s", before, after)
	}
	var e *hub.Error
	errors.As(err, &e)
	return e
}

// rows sums up what the store holds besides the journal.
func (d *desk) rows() string {
	d.t.Helper()
	var b strings.Builder
	d.view(func(r hub.Reader) error {
		all, err := r.Handoffs(hub.HandoffQuery{Limit: 1000})
		for _, h := range all {
			steps, err := r.HandoffSteps(h.ID)
			if err != nil {
				return err
			}
			fmt.Fprintf(&b, "%s %s %d steps approved %v; ", h.ID, h.Status, len(steps), h.ApprovedAt)
		}
		if err != nil {
			return err
		}
		page, err := r.Query(hub.Query{Audit: true, Limit: 1000})
		fmt.Fprintf(&b, "%d messages", len(page.Messages))
		return err
	})
	return b.String()
}

func (d *desk) view(fn func(hub.Reader) error) {
	d.t.Helper()
	if err := d.store.View(d.t.Context(), fn); err != nil {
		d.t.Fatal(err)
	}
}

// mail returns the types of the messages that lie in an inbox.
func (d *desk) inbox(a hub.Caller) (types []string) {
	d.t.Helper()
	d.view(func(r hub.Reader) error {
		page, err := r.Inbox(a.ID, hub.InboxFilter{Limit: 100, Now: hub.At(d.clock())})
		for _, m := range page.Messages {
			types = append(types, string(m.Type))
		}
		return err
	})
	return types
}

// journal returns what the journal says about a handoff.
func (d *desk) journal(id hub.HandoffID) (actions []string) {
	d.t.Helper()
	d.view(func(r hub.Reader) error {
		entries, err := r.Journal(hub.JournalQuery{Subject: string(id), Limit: 100})
		for _, e := range entries {
			actions = append(actions, fmt.Sprintf("%s %s", e.Actor, e.Action))
		}
		return err
	})
	return actions
}

func (d *desk) file(name, content string) (path, sum string) {
	d.t.Helper()
	path = filepath.Join(d.dir, name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		d.t.Fatal(err)
	}
	h := sha256.Sum256([]byte(content))
	return path, hex.EncodeToString(h[:])
}

func artifact(id string, ref map[string]any) map[string]any {
	return map[string]any{"artifact_id": id, "ref": ref}
}

func same(t *testing.T, what string, got, want any) {
	t.Helper()
	if g, w := fmt.Sprint(got), fmt.Sprint(want); g != w {
		t.Errorf("%s: got %s, want %s", what, g, w)
	}
}

func TestLife(t *testing.T) {
	d := open(t)
	h := d.propose(planner, "builder", pkg("T-1", nil))

	t.Run("R3-050 the hub fills in what it knows", func(t *testing.T) {
		got, err := d.Show(t.Context(), builder, h.ID)
		if err != nil {
			t.Fatal(err)
		}
		p, err := shape.DecodePackage(got.Package)
		if err != nil {
			t.Fatal(err)
		}
		same(t, "protocol", p.Protocol+" "+p.Version, "acp 1.0.0")
		same(t, "id", p.HandoffID, h.ID)
		same(t, "thread", p.ThreadID, h.ThreadID)
		same(t, "chain", p.Provenance.Chain, "[planner]")
		same(t, "origin", p.Provenance.OriginSession, "agent/planner")
		same(t, "policy", p.Policy.Classification+fmt.Sprint(p.Policy.NeedsHuman), "internalfalse")
		same(t, "schema version", p.Verification.SchemaVersion, "1.0.0")
	})
	t.Run("R3-052 the hash is the SHA-256 of the canonical form without itself", func(t *testing.T) {
		got, err := d.Show(t.Context(), planner, h.ID)
		if err != nil {
			t.Fatal(err)
		}
		// Canonicalised here by other means: sorted members, no blanks, and no
		// numbers or escapes in this package that need more.
		var m map[string]any
		if err := json.Unmarshal(got.Package, &m); err != nil {
			t.Fatal(err)
		}
		delete(m["verification"].(map[string]any), "package_hash")
		raw, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(raw)
		same(t, "hash", got.Hash, hex.EncodeToString(sum[:]))
	})
	t.Run("R3-034 the receiver gets a message with the summary in the same transaction", func(t *testing.T) {
		same(t, "inbox", d.inbox(builder), "[handoff.initiate]")
		d.view(func(r hub.Reader) error {
			page, err := r.Inbox("builder", hub.InboxFilter{Limit: 1, Now: hub.At(d.clock())})
			if err != nil {
				return err
			}
			var p map[string]any
			if err := json.Unmarshal(page.Messages[0].Payload, &p); err != nil {
				return err
			}
			same(t, "payload", p, map[string]any{
				"handoff_id": string(h.ID), "task_id": "T-1", "title": "Nullable avatar", "summary": "the schema is frozen",
				"next_step": "run the migration", "success_criteria": []any{"old rows load"}, "package_hash": h.Hash,
			})
			same(t, "sender", page.Messages[0].From, "planner")
			return nil
		})
	})
	t.Run("R3-054 a proposal forces nothing on the receiver", func(t *testing.T) {
		same(t, "status", h.Status, hub.HandoffProposed)
		got, err := d.Show(t.Context(), builder, h.ID)
		if err != nil || got.Status != hub.HandoffProposed || !got.AcceptedAt.IsZero() {
			t.Errorf("got %s accepted at %v (%v), want proposed and not accepted", got.Status, got.AcceptedAt, err)
		}
	})
	t.Run("R3-035 the receiver accepts, and the task is its own", func(t *testing.T) {
		got := d.accept(builder, h.ID)
		same(t, "inbox of the sender", d.inbox(planner), "[handoff.accept]")
		same(t, "due", got.DueAt, hub.At(d.clock().Add(24*time.Hour)))
	})
	t.Run("activating again is a success that changes nothing", func(t *testing.T) {
		before := d.rows()
		got, err := d.Activate(t.Context(), builder, h.ID)
		if err != nil || got.Status != hub.HandoffActivated {
			t.Errorf("got %s (%v), want activated", got.Status, err)
		}
		same(t, "rows", d.rows(), before)
	})
	t.Run("R3-037 completing tells the sender and closes", func(t *testing.T) {
		got, err := d.Complete(t.Context(), builder, h.ID, handoff.Completion{Summary: "it runs"})
		if err != nil || got.Status != hub.HandoffClosed || got.Ending != hub.EndedDone || got.Notes != "it runs" {
			t.Fatalf("got %+v (%v), want closed and done", got, err)
		}
		same(t, "inbox of the sender", d.inbox(planner), "[handoff.accept handoff.complete]")
	})
	t.Run("closing again is a success that changes nothing", func(t *testing.T) {
		before := d.rows()
		got, err := d.Close(t.Context(), planner, h.ID)
		if err != nil || got.Status != hub.HandoffClosed {
			t.Errorf("got %s (%v), want closed", got.Status, err)
		}
		same(t, "rows", d.rows(), before)
	})
	t.Run("R3-061 the history and the journal hold every move", func(t *testing.T) {
		got, err := d.Show(t.Context(), auditor, h.ID)
		if err != nil {
			t.Fatal(err)
		}
		var steps []string
		for _, s := range got.History {
			steps = append(steps, fmt.Sprintf("%s %s", s.Actor, s.State))
		}
		want := "[planner draft planner proposed builder validating builder accepted builder activated builder completed builder closed]"
		same(t, "history", steps, want)
		want = "[planner handoff.draft planner handoff.proposed builder handoff.validating builder handoff.accepted builder handoff.activated builder handoff.completed builder handoff.closed]"
		same(t, "journal", d.journal(h.ID), want)
	})
}

func TestRefusedPackages(t *testing.T) {
	d := open(t)
	long := strings.Repeat("x", shape.MaxPackage)
	for _, tt := range []struct {
		name string
		raw  json.RawMessage
		want hub.Code
		text string
	}{
		{"R3-055 without a summary", pkg("T", with("context.summary", nil)), hub.CodeInvalid, "package.context: summary is required"},
		{"R3-055 with a blank summary", pkg("T", with("context.summary", " ")), hub.CodeInvalid, "package.context.summary: must not be blank"},
		{"R3-055 without a next step", pkg("T", with("work_state.next_step", nil)), hub.CodeInvalid, "package.work_state: next_step is required"},
		{"R3-055 without a criterion", pkg("T", with("task.success_criteria", []any{})), hub.CodeInvalid, "package.task.success_criteria: must have 1 or more entries"},
		{"R3-055 without criteria", pkg("T", with("task.success_criteria", nil)), hub.CodeInvalid, "package.task: success_criteria is required"},
		{"R3-051 more than all is done", pkg("T", with("work_state.percent_complete", 101)), hub.CodeInvalid, "package.work_state.percent_complete: must be at most 100"},
		{"R3-051 less than nothing is done", pkg("T", with("work_state.percent_complete", -1)), hub.CodeInvalid, "package.work_state.percent_complete: must be at least 0"},
		{"R3-052 a hash that is not the package's", pkg("T", with("verification.package_hash", strings.Repeat("0", 64))), hub.CodeHashMismatch, "package_hash"},
		{"R3-060 a chain that is forged", pkg("T", with("provenance.handoff_chain", []any{"tester", "planner"})), hub.CodeOwnership, "the owners of this task were planner"},
		{"R3-060 a chain with somebody else in it", pkg("T", with("provenance.handoff_chain", []any{"builder"})), hub.CodeOwnership, "the owners of this task were planner"},
		{"a classification in another case", pkg("T", with("policy", map[string]any{"Classification": "restricted"})), hub.CodeInvalid, "only in case"},
		{"an approval in another case", pkg("T", with("policy", map[string]any{"Requires_Human_Approval": true})), hub.CodeInvalid, "only in case"},
		{"a path in another case", pkg("T", with("artifacts", []any{artifact("a", map[string]any{"type": "url", "path": "https://x", "Path": "/x"})})), hub.CodeInvalid, "package.artifacts[0].ref.Path"},
		{"a number beyond all readers", pkgRaw(`"x":1e999999,"task":{"task_id":"T"}`), hub.CodeInvalid, "package.x"},
		{"a number with too many digits", pkgRaw(`"x":[12345678901234567890],"task":{"task_id":"T"}`), hub.CodeInvalid, "package.x[0]"},
		{"a number too close to nothing", pkgRaw(`"x":1e-999999,"task":{"task_id":"T"}`), hub.CodeInvalid, "package.x"},
		{"a task with a blank behind it", pkg("T ", nil), hub.CodeInvalid, "task_id"},
		{"a task with something invisible", pkg("T\u200b", nil), hub.CodeInvalid, "task_id"},
		{"R3-055 an invisible summary", pkg("T", with("context.summary", "\u200b")), hub.CodeInvalid, "package.context.summary"},
		{"another agent's origin", pkg("T", with("provenance.origin_session", "agent/tester")), hub.CodeTampering, "origin_session"},
		{"no package", nil, hub.CodeInvalid, "package is required"},
		{"an array", json.RawMessage(`[]`), hub.CodeInvalid, "package"},
		{"a name twice", json.RawMessage(`{"task":{},"task":{}}`), hub.CodeInvalid, "package"},
		{"a name twice in another case", json.RawMessage(`{"task":{},"Task":{}}`), hub.CodeInvalid, "package"},
		{"a name twice inside", pkgRaw(`"task":{"task_id":"a","TASK_ID":"b"}`), hub.CodeInvalid, "package.task"},
		{"no JSON", json.RawMessage(`{"task":`), hub.CodeInvalid, "package"},
		{"invalid UTF-8", json.RawMessage("{\"task\":\"\xff\"}"), hub.CodeInvalid, "package"},
		{"another protocol", pkg("T", with("protocol", "cacp")), hub.CodeInvalid, "package.protocol"},
		{"another major version", pkg("T", with("version", "2.0.0")), hub.CodeInvalid, "package.version"},
		{"an id that is none", pkg("T", with("handoff_id", "x")), hub.CodeInvalid, "package.handoff_id"},
		{"a task without an id", pkg("T", with("task.task_id", nil)), hub.CodeInvalid, "package.task: task_id is required"},
		{"an unknown state of work", pkg("T", with("work_state.status", "fine")), hub.CodeInvalid, "package.work_state.status"},
		{"an artifact without a path", pkg("T", with("artifacts", []any{artifact("a", map[string]any{"type": "file"})})), hub.CodeInvalid, "package.artifacts[0].ref: path is required"},
		{"a relative path", pkg("T", with("artifacts", []any{artifact("a", map[string]any{"type": "file", "path": "a"})})), hub.CodeInvalid, "package.artifacts[0].ref.path"},
		{"more than 256 KiB", pkg("T", with("context.summary", long)), hub.CodeTooLarge, "262144"},
	} {
		t.Run(tt.name+" is refused and stores nothing", func(t *testing.T) {
			d.on(t)
			e := d.refused(tt.want, func() (handoff.Report, error) {
				return d.Initiate(t.Context(), planner, handoff.Proposal{To: "builder", Package: tt.raw})
			})
			if e != nil && !strings.Contains(e.Error(), tt.text) {
				t.Errorf("got %q, want it to say %q", e, tt.text)
			}
		})
	}
	t.Run("an origin session that the package names is kept as the sender's word", func(t *testing.T) {
		d.on(t)
		caller := planner
		caller.Session = "s-of-the-hub"
		r := d.propose(caller, "builder", pkg("T-origin", with("provenance.origin_session", "my-own")))
		got, err := d.Show(t.Context(), planner, r.ID)
		if err != nil || !strings.Contains(string(got.Package), `"origin_session":"my-own"`) {
			t.Errorf("got %s (%v), want the session of the package", got.Package, err)
		}
		if _, err := d.Withdraw(t.Context(), planner, r.ID, ""); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("a hash that the sender computed is taken", func(t *testing.T) {
		d.on(t)
		first := d.propose(planner, "builder", pkg("T", nil))
		got, err := d.Show(t.Context(), planner, first.ID)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := d.Withdraw(t.Context(), planner, first.ID, ""); err != nil {
			t.Fatal(err)
		}
		whole := strings.Replace(string(got.Package), string(first.ID), "0199f000-0000-7000-8000-000000000001", 1)
		hash, err := shape.PackageHash([]byte(whole))
		if err != nil {
			t.Fatal(err)
		}
		whole = strings.Replace(whole, first.Hash, "sha256:"+hash, 1)
		again := d.propose(planner, "builder", json.RawMessage(whole))
		if again.ID != "0199f000-0000-7000-8000-000000000001" || again.Hash != hash {
			t.Errorf("got %s with hash %s, want the sender's own id and hash %s", again.ID, again.Hash, hash)
		}
		d.refused(hub.CodeOwnership, func() (handoff.Report, error) {
			return d.Initiate(t.Context(), planner, handoff.Proposal{To: "builder", Package: json.RawMessage(whole)})
		})
	})
	t.Run("a chain that is empty is no lie while nobody else has owned the task", func(t *testing.T) {
		d.on(t)
		d.propose(planner, "builder", pkg("T-fresh", with("provenance.handoff_chain", []any{})))
	})
	t.Run("an unknown member is kept", func(t *testing.T) {
		d.on(t)
		h := d.propose(planner, "builder", pkg("T-extra", with("x_colour", "blue")))
		got, err := d.Show(t.Context(), planner, h.ID)
		if err != nil || !strings.Contains(string(got.Package), `"x_colour":"blue"`) {
			t.Errorf("got %s (%v), want x_colour in it", got.Package, err)
		}
	})
}

func pkgRaw(task string) json.RawMessage {
	return json.RawMessage(`{` + task + `,"context":{"summary":"s"},"work_state":{"next_step":"n"}}`)
}

func TestWho(t *testing.T) {
	d := open(t)
	for _, tt := range []struct {
		name string
		to   hub.AgentID
		from hub.Caller
		want hub.Code
	}{
		{"a receiver nobody knows", "bilder", planner, hub.CodeUnknownRecipient},
		{"no receiver", "", planner, hub.CodeInvalid},
		{"everyone as receiver", "*", planner, hub.CodeUnknownRecipient},
		{"R3-060 oneself as receiver", "planner", planner, hub.CodeOwnership},
		{"a sender that is paused", "builder", hub.Caller{ID: "planner", Paused: true}, hub.CodeDenied},
	} {
		t.Run(tt.name+" is refused", func(t *testing.T) {
			d.on(t)
			d.refused(tt.want, func() (handoff.Report, error) {
				return d.Initiate(t.Context(), tt.from, handoff.Proposal{To: tt.to, Package: pkg("T", nil)})
			})
		})
	}

	// Who may do what with a handoff in each state it can be found in.
	id := map[hub.HandoffState]hub.HandoffID{}
	id[hub.HandoffProposed] = d.propose(planner, "builder", pkg("P", nil)).ID
	id[hub.HandoffActivated] = d.propose(planner, "builder", pkg("A", nil)).ID
	d.accept(builder, id[hub.HandoffActivated])
	id[hub.HandoffRejected] = d.propose(planner, "builder", pkg("R", nil)).ID
	if _, err := d.Reject(t.Context(), builder, id[hub.HandoffRejected], hub.RejectCapacity, "busy"); err != nil {
		t.Fatal(err)
	}
	id[hub.HandoffClosed] = d.propose(planner, "builder", pkg("C", nil)).ID
	d.accept(builder, id[hub.HandoffClosed])
	if _, err := d.Complete(t.Context(), builder, id[hub.HandoffClosed], handoff.Completion{}); err != nil {
		t.Fatal(err)
	}
	calls := map[string]func(hub.Caller, hub.HandoffID) (handoff.Report, error){
		"accept": func(a hub.Caller, id hub.HandoffID) (handoff.Report, error) { return d.Accept(t.Context(), a, id, "") },
		"reject": func(a hub.Caller, id hub.HandoffID) (handoff.Report, error) {
			return d.Reject(t.Context(), a, id, hub.RejectOther, "no")
		},
		"withdraw": func(a hub.Caller, id hub.HandoffID) (handoff.Report, error) {
			return d.Withdraw(t.Context(), a, id, "")
		},
		"complete": func(a hub.Caller, id hub.HandoffID) (handoff.Report, error) {
			return d.Complete(t.Context(), a, id, handoff.Completion{})
		},
		"activate": func(a hub.Caller, id hub.HandoffID) (handoff.Report, error) { return d.Activate(t.Context(), a, id) },
		"close":    func(a hub.Caller, id hub.HandoffID) (handoff.Report, error) { return d.Close(t.Context(), a, id) },
		"release":  func(a hub.Caller, id hub.HandoffID) (handoff.Report, error) { return d.Release(t.Context(), a, id, "") },
		"approve":  func(a hub.Caller, id hub.HandoffID) (handoff.Report, error) { return d.Approve(t.Context(), a, id) },
		"deny":     func(a hub.Caller, id hub.HandoffID) (handoff.Report, error) { return d.Deny(t.Context(), a, id, "") },
	}
	const (
		no   = hub.CodeDenied
		none = hub.CodeNotFound
		not  = hub.CodeConflict
		ok   = hub.Code("")
	)
	// For each state: from planner (sender), builder (receiver), tester (a
	// stranger), auditor, operator. Only what changes nothing is ok here.
	for _, tt := range []struct {
		call  string
		state hub.HandoffState
		want  [5]hub.Code
	}{
		{"accept", hub.HandoffProposed, [5]hub.Code{no, "-", none, no, no}},
		{"accept", hub.HandoffActivated, [5]hub.Code{no, not, none, no, no}},
		{"accept", hub.HandoffRejected, [5]hub.Code{no, not, none, no, no}},
		{"accept", hub.HandoffClosed, [5]hub.Code{no, not, none, no, no}},
		{"reject", hub.HandoffProposed, [5]hub.Code{no, "-", none, no, no}},
		{"reject", hub.HandoffActivated, [5]hub.Code{no, not, none, no, no}},
		{"reject", hub.HandoffClosed, [5]hub.Code{no, not, none, no, no}},
		{"withdraw", hub.HandoffProposed, [5]hub.Code{"-", no, none, no, no}},
		{"withdraw", hub.HandoffActivated, [5]hub.Code{not, no, none, no, no}},
		{"withdraw", hub.HandoffClosed, [5]hub.Code{not, no, none, no, no}},
		{"complete", hub.HandoffProposed, [5]hub.Code{no, not, none, no, no}},
		{"complete", hub.HandoffActivated, [5]hub.Code{no, "-", none, no, no}},
		{"complete", hub.HandoffRejected, [5]hub.Code{no, not, none, no, no}},
		{"complete", hub.HandoffClosed, [5]hub.Code{no, not, none, no, no}},
		{"activate", hub.HandoffProposed, [5]hub.Code{no, not, none, no, not}},
		{"activate", hub.HandoffActivated, [5]hub.Code{no, ok, none, no, ok}},
		{"activate", hub.HandoffClosed, [5]hub.Code{no, not, none, no, not}},
		{"close", hub.HandoffProposed, [5]hub.Code{not, not, none, no, not}},
		{"close", hub.HandoffActivated, [5]hub.Code{not, not, none, no, not}},
		{"close", hub.HandoffClosed, [5]hub.Code{ok, ok, none, no, ok}},
		{"release", hub.HandoffProposed, [5]hub.Code{no, no, no, no, "-"}},
		{"release", hub.HandoffRejected, [5]hub.Code{no, no, no, no, not}},
		{"release", hub.HandoffClosed, [5]hub.Code{no, no, no, no, not}},
		{"approve", hub.HandoffProposed, [5]hub.Code{no, no, no, no, not}},
		{"approve", hub.HandoffActivated, [5]hub.Code{no, no, no, no, not}},
		{"deny", hub.HandoffProposed, [5]hub.Code{no, no, no, no, not}},
	} {
		t.Run(fmt.Sprintf("R3-063 %s of what is %s", tt.call, tt.state), func(t *testing.T) {
			for i, who := range []hub.Caller{planner, builder, tester, auditor, operator} {
				if tt.want[i] == "-" {
					continue // would move it; see the other tests
				}
				before := d.rows()
				_, err := calls[tt.call](who, id[tt.state])
				if got := hub.CodeOf(err); got != tt.want[i] {
					t.Errorf("%s: got %q (%v), want %q", who.ID, got, err, tt.want[i])
				}
				same(t, string(who.ID)+": rows", d.rows(), before)
			}
		})
	}
}

func TestReject(t *testing.T) {
	d := open(t)
	t.Run("R3-062 there are ten reasons, and each is taken", func(t *testing.T) {
		d.on(t)
		if len(hub.RejectReasons) != 10 {
			t.Errorf("got %d reasons, want 10", len(hub.RejectReasons))
		}
		for _, reason := range hub.RejectReasons {
			h := d.propose(planner, "builder", pkg("T", nil))
			got, err := d.Reject(t.Context(), builder, h.ID, reason, "because")
			if err != nil || got.Status != hub.HandoffRejected || got.RejectReason != reason || got.Notes != string(reason)+": because" {
				t.Errorf("%s: got %+v (%v)", reason, got, err)
			}
		}
	})
	t.Run("R3-036 the sender gets reason and detail", func(t *testing.T) {
		d.on(t)
		d.view(func(r hub.Reader) error {
			page, err := r.Inbox("planner", hub.InboxFilter{Limit: 1, Now: hub.At(d.clock())})
			if err != nil {
				return err
			}
			var p map[string]string
			if err := json.Unmarshal(page.Messages[0].Payload, &p); err != nil {
				return err
			}
			same(t, "payload", p["reason"]+" "+p["detail"], "missing_artifact because")
			return nil
		})
	})
	h := d.propose(planner, "builder", pkg("T", nil))
	for _, tt := range []struct {
		name, detail string
		reason       hub.RejectReason
	}{
		{"no reason", "because", ""}, {"another reason", "because", "lazy"}, {"no detail", "", hub.RejectOther}, {"a blank detail", " \n", hub.RejectOther},
	} {
		t.Run("R3-062 "+tt.name+" is refused", func(t *testing.T) {
			d.on(t)
			d.refused(hub.CodeInvalid, func() (handoff.Report, error) { return d.Reject(t.Context(), builder, h.ID, tt.reason, tt.detail) })
		})
	}
	t.Run("the sender withdraws before it is accepted, and the receiver is told", func(t *testing.T) {
		d.on(t)
		got, err := d.Withdraw(t.Context(), planner, h.ID, "not needed")
		if err != nil || got.Status != hub.HandoffRejected || got.RejectReason != hub.RejectOther || got.Ending != hub.EndedWithdrawn {
			t.Errorf("got %+v (%v), want rejected, other, withdrawn", got, err)
		}
		if got := d.inbox(builder); got[len(got)-1] != "handoff.reject" {
			t.Errorf("inbox of the receiver: got %v, want a handoff.reject", got)
		}
		if got, err = d.Close(t.Context(), builder, h.ID); err != nil || got.Status != hub.HandoffClosed {
			t.Errorf("close: got %s (%v), want closed", got.Status, err)
		}
	})
}

func TestOwnership(t *testing.T) {
	t.Run("R3-056 a second handoff of a task is refused while the first is open", func(t *testing.T) {
		d := open(t)
		d.propose(planner, "builder", pkg("T", nil))
		e := d.refused(hub.CodeOwnership, func() (handoff.Report, error) {
			return d.Initiate(t.Context(), tester, handoff.Proposal{To: "builder", Package: pkg("T", nil)})
		})
		if e == nil || strings.Contains(e.Error(), "planner") || e.Hint == "" {
			t.Errorf("got %v, want what to do, and nothing about others", e)
		}
		e = d.refused(hub.CodeOwnership, func() (handoff.Report, error) {
			return d.Initiate(t.Context(), planner, handoff.Proposal{To: "tester", Package: pkg("T", nil)})
		})
		if e == nil || !strings.Contains(e.Error(), "from planner to builder is proposed") {
			t.Errorf("got %v, want who holds it", e)
		}
	})
	t.Run("R3-056 of fifty who try at once, one gets the task", func(t *testing.T) {
		d := open(t)
		var wg sync.WaitGroup
		results := make(chan error, 50)
		for i := range 50 {
			from := []hub.Caller{planner, tester, auditor, operator}[i%4]
			wg.Go(func() {
				_, err := d.Initiate(t.Context(), from, handoff.Proposal{To: "builder", Package: pkg("T", nil)})
				results <- err
			})
		}
		wg.Wait()
		close(results)
		won, lost := 0, 0
		for err := range results {
			switch hub.CodeOf(err) {
			case "":
				won++
			case hub.CodeOwnership:
				lost++
			default:
				t.Errorf("got %v", err)
			}
		}
		if won != 1 || lost != 49 {
			t.Errorf("got %d winners and %d losers, want 1 and 49", won, lost)
		}
	})
	t.Run("R3-056 of fifty accepts at once, one takes effect", func(t *testing.T) {
		d := open(t)
		h := d.propose(planner, "builder", pkg("T", nil))
		var wg sync.WaitGroup
		results := make(chan error, 50)
		for range 50 {
			wg.Go(func() {
				_, err := d.Accept(t.Context(), builder, h.ID, "")
				results <- err
			})
		}
		wg.Wait()
		close(results)
		won := 0
		for err := range results {
			if err == nil {
				won++
			} else if hub.CodeOf(err) != hub.CodeConflict {
				t.Errorf("got %v", err)
			}
		}
		same(t, "accepted", won, 1)
		same(t, "inbox of the sender", d.inbox(planner), "[handoff.accept]")
	})
	t.Run("the owner hands on: the old one completes and the new one is proposed", func(t *testing.T) {
		d := open(t)
		first := d.propose(planner, "builder", pkg("T", nil))
		d.accept(builder, first.ID)
		second := d.propose(builder, "tester", pkg("T", nil))
		old, err := d.Show(t.Context(), planner, first.ID)
		if err != nil || old.Status != hub.HandoffClosed || old.Ending != hub.EndedHandedOn || !strings.Contains(old.Notes, "handed on to tester") {
			t.Errorf("the old one: got %+v (%v), want closed, handed on", old, err)
		}
		if second.Previous != first.ID || second.Status != hub.HandoffProposed {
			t.Errorf("the new one: got %+v, want proposed after %s", second, first.ID)
		}
		t.Run("R3-060 the chain is computed by the hub", func(t *testing.T) {
			got, err := d.Show(t.Context(), tester, second.ID)
			if err != nil {
				t.Fatal(err)
			}
			p, err := shape.DecodePackage(got.Package)
			same(t, "chain", p.Provenance.Chain, "[planner builder]")
			if err != nil {
				t.Error(err)
			}
		})
		t.Run("R3-064 if nobody takes it, it is still the last owner's", func(t *testing.T) {
			d.on(t)
			if _, err := d.Reject(t.Context(), tester, second.ID, hub.RejectCapacity, "busy"); err != nil {
				t.Fatal(err)
			}
			d.refused(hub.CodeOwnership, func() (handoff.Report, error) {
				return d.Initiate(t.Context(), planner, handoff.Proposal{To: "tester", Package: pkg("T", nil)})
			})
			if got := d.inbox(planner); !slices.Contains(got, "status.blocked") {
				t.Errorf("inbox of the coordinator: got %v, want to be told", got)
			}
			d.propose(builder, "auditor", pkg("T", nil))
		})
	})
	t.Run("R3-060 a task does not go back to an earlier owner, whatever the chain in the package says", func(t *testing.T) {
		d := open(t)
		d.accept(builder, d.propose(planner, "builder", pkg("T", nil)).ID)
		for _, raw := range []json.RawMessage{pkg("T", nil), pkg("T", with("provenance.handoff_chain", []any{})), pkg("T", with("provenance.handoff_chain", []any{"builder"}))} {
			e := d.refused(hub.CodeOwnership, func() (handoff.Report, error) {
				return d.Initiate(t.Context(), builder, handoff.Proposal{To: "planner", Package: raw})
			})
			if e == nil || !strings.Contains(e.Error(), "planner → builder") {
				t.Errorf("got %v, want the chain in it", e)
			}
		}
		d.accept(tester, d.propose(builder, "tester", pkg("T", nil)).ID)
		d.refused(hub.CodeOwnership, func() (handoff.Report, error) {
			return d.Initiate(t.Context(), tester, handoff.Proposal{To: "planner", Package: pkg("T", nil)})
		})
	})
	t.Run("R3-064 somebody who does not own a task cannot hand it on", func(t *testing.T) {
		d := open(t)
		d.accept(builder, d.propose(planner, "builder", pkg("T", nil)).ID)
		d.refused(hub.CodeOwnership, func() (handoff.Report, error) {
			return d.Initiate(t.Context(), planner, handoff.Proposal{To: "tester", Package: pkg("T", nil)})
		})
	})
	t.Run("the operator releases what is stuck, and both sides are told", func(t *testing.T) {
		d := open(t)
		proposed, taken := d.propose(planner, "builder", pkg("P", nil)), d.propose(planner, "builder", pkg("A", nil))
		d.accept(builder, taken.ID)
		for _, h := range []handoff.Report{proposed, taken} {
			got, err := d.Release(t.Context(), operator, h.ID, "stuck")
			if err != nil || got.Ending != hub.EndedReleased || got.Status.Active() || !strings.Contains(got.Notes, "stuck") {
				t.Errorf("got %+v (%v), want released", got, err)
			}
			for _, who := range []hub.Caller{planner, builder} {
				if !slices.ContainsFunc(d.inbox(who), func(s string) bool { return s == "handoff.reject" || s == "handoff.complete" }) {
					t.Errorf("%s: got %v, want to be told", who.ID, d.inbox(who))
				}
			}
		}
		d.propose(tester, "auditor", pkg("A", nil)) // nobody's now
	})
	t.Run("a proposal that is repeated with the same key is the same handoff", func(t *testing.T) {
		d := open(t)
		p := handoff.Proposal{To: "builder", Package: pkg("T", nil), IdempotencyKey: "k"}
		first, err := d.Initiate(t.Context(), planner, p)
		if err != nil {
			t.Fatal(err)
		}
		again, err := d.Initiate(t.Context(), planner, p)
		if err != nil || again.ID != first.ID {
			t.Errorf("got %s (%v), want %s", again.ID, err, first.ID)
		}
		same(t, "inbox", d.inbox(builder), "[handoff.initiate]")
		p.To = "tester"
		d.refused(hub.CodeConflict, func() (handoff.Report, error) { return d.Initiate(t.Context(), planner, p) })
	})
}

func TestProof(t *testing.T) {
	t.Run("R3-058 files with their hashes are verified", func(t *testing.T) {
		d := open(t)
		path, sum := d.file("a.txt", "content")
		h := d.propose(planner, "builder", pkg("T", with("artifacts", []any{
			artifact("a", map[string]any{"type": "file", "path": path, "sha256": sum, "size_bytes": 7, "required": true}),
		})))
		got := d.accept(builder, h.ID)
		for _, c := range got.Claims {
			if c.Result != hub.CheckVerified {
				t.Errorf("got %+v, want verified", c)
			}
		}
		if len(got.Claims) != 2 {
			t.Errorf("got %v, want the package and the file", got.Claims)
		}
	})
	outside := filepath.Join(t.TempDir(), "outside.txt")
	if err := os.WriteFile(outside, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	no, yes := false, true
	for _, tt := range []struct {
		name     string
		ref      func(d *desk) map[string]any
		required *bool
		result   hub.Verdict
		reject   hub.RejectReason // "" if it is accepted
	}{
		{"R3-058 a file that is missing", func(d *desk) map[string]any { return file(filepath.Join(d.dir, "none")) }, nil, hub.CheckFailed, hub.RejectMissingArtifact},
		{"R3-058 a required file that is missing", func(d *desk) map[string]any { return file(filepath.Join(d.dir, "none")) }, &yes, hub.CheckFailed, hub.RejectMissingArtifact},
		{"an optional file that is missing", func(d *desk) map[string]any { return file(filepath.Join(d.dir, "none")) }, &no, hub.CheckUnverifiable, ""},
		{"R3-058 a file with another hash", func(d *desk) map[string]any {
			path, _ := d.file("a", "x")
			return map[string]any{"type": "file", "path": path, "sha256": strings.Repeat("0", 64)}
		}, nil, hub.CheckFailed, hub.RejectHashMismatch},
		{"an optional file with another hash", func(d *desk) map[string]any {
			path, _ := d.file("a", "x")
			return map[string]any{"type": "file", "path": path, "sha256": strings.Repeat("0", 64)}
		}, &no, hub.CheckFailed, hub.RejectHashMismatch},
		{"a file with another size", func(d *desk) map[string]any {
			path, _ := d.file("a", "x")
			return map[string]any{"type": "file", "path": path, "size_bytes": 2}
		}, nil, hub.CheckFailed, hub.RejectHashMismatch},
		{"a folder", func(d *desk) map[string]any { return file(d.dir) }, nil, hub.CheckFailed, hub.RejectMissingArtifact},
		{"a device", func(d *desk) map[string]any { return file("/dev/zero") }, nil, hub.CheckUnverifiable, ""},
		{"a pipe", func(d *desk) map[string]any {
			path := filepath.Join(d.dir, "pipe")
			if out, err := exec.Command("mkfifo", path).CombinedOutput(); err != nil {
				d.t.Fatalf("mkfifo: %v: %s", err, out)
			}
			return file(path)
		}, nil, hub.CheckFailed, hub.RejectMissingArtifact},
		{"a link out of the roots", func(d *desk) map[string]any {
			link := filepath.Join(d.dir, "link")
			if err := os.Symlink(outside, link); err != nil {
				d.t.Fatal(err)
			}
			return file(link)
		}, nil, hub.CheckFailed, hub.RejectPolicyViolation},
		{"a file of 10 GiB that takes no room", func(d *desk) map[string]any {
			path, _ := d.file("sparse", "")
			if err := os.Truncate(path, 10<<30); err != nil {
				d.t.Fatal(err)
			}
			return map[string]any{"type": "file", "path": path, "sha256": strings.Repeat("0", 64)}
		}, nil, hub.CheckFailed, hub.RejectMissingArtifact},
		{"a file outside the roots", func(d *desk) map[string]any { return file(outside) }, nil, hub.CheckUnverifiable, ""},
		{"a required file outside the roots", func(d *desk) map[string]any { return file(outside) }, &yes, hub.CheckFailed, hub.RejectMissingArtifact},
		{"a web page", func(d *desk) map[string]any { return map[string]any{"type": "url", "path": "https://example.com/"} }, nil, hub.CheckUnverifiable, ""},
		{"a branch without a worktree", func(d *desk) map[string]any { return map[string]any{"type": "branch", "path": "main"} }, nil, hub.CheckUnverifiable, ""},
	} {
		t.Run(tt.name+" is "+string(tt.result), func(t *testing.T) {
			d := open(t)
			ref := tt.ref(d)
			if tt.required != nil {
				ref["required"] = *tt.required
			}
			h := d.propose(planner, "builder", pkg("T", func(m map[string]any) {
				with("artifacts", []any{artifact("a", ref)})(m)
				if ref["type"] == "file" && !strings.HasPrefix(ref["path"].(string), d.dir) {
					with("unproven", "it is on another disk")(m)
				}
			}))
			got, err := d.Accept(t.Context(), builder, h.ID, "")
			if err != nil {
				t.Fatal(err)
			}
			c := got.Claims[len(got.Claims)-1]
			if c.Result != tt.result || c.Detail == "" || got.RejectReason != tt.reject {
				t.Errorf("got %+v, rejected for %q; want %s, rejected for %q", c, got.RejectReason, tt.result, tt.reject)
			}
			if want := map[bool]hub.HandoffState{true: hub.HandoffActivated, false: hub.HandoffRejected}[tt.reject == ""]; got.Status != want {
				t.Errorf("got %s, want %s", got.Status, want)
			}
			if tt.reject == "" {
				return
			}
			same(t, "inbox of the sender", d.inbox(planner), "[handoff.reject]")
			shown, err := d.Show(t.Context(), planner, h.ID)
			if err != nil || len(shown.Claims) != len(got.Claims) {
				t.Errorf("the evidence that is kept: got %v (%v), want %v", shown.Claims, err, got.Claims)
			}
		})
	}
	t.Run("R3-052 a package that was changed in the store is rejected", func(t *testing.T) {
		d := open(t)
		h := d.propose(planner, "builder", pkg("T", nil))
		d.home.Exec(`UPDATE handoffs SET package_json = replace(package_json, 'frozen', 'thawed');`)
		got, err := d.Accept(t.Context(), builder, h.ID, "")
		if err != nil || got.Status != hub.HandoffRejected || got.RejectReason != hub.RejectHashMismatch {
			t.Errorf("got %+v (%v), want rejected for hash_mismatch", got, err)
		}
	})
	t.Run("R3-052 a package that was changed in the store together with its own hash is rejected", func(t *testing.T) {
		d := open(t)
		h := d.propose(planner, "builder", pkg("T", nil))
		shown, err := d.Show(t.Context(), builder, h.ID)
		if err != nil {
			t.Fatal(err)
		}
		forged, err := shape.PackageHash([]byte(strings.ReplaceAll(string(shown.Package), "frozen", "thawed")))
		if err != nil {
			t.Fatal(err)
		}
		d.home.Exec(fmt.Sprintf(`UPDATE handoffs SET package_json = replace(replace(package_json, 'frozen', 'thawed'), '%s', '%s');`, h.Hash, forged))
		got, err := d.Accept(t.Context(), builder, h.ID, "")
		if err != nil || got.Status != hub.HandoffRejected || got.RejectReason != hub.RejectHashMismatch {
			t.Errorf("got %+v (%v), want rejected for hash_mismatch", got, err)
		}
	})
}

func file(path string) map[string]any { return map[string]any{"type": "file", "path": path} }
