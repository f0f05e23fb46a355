package run_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/engine/bus"
	"github.com/parley-agents/parley/internal/service/keys"
	"github.com/parley-agents/parley/internal/service/mailroom"
	"github.com/parley-agents/parley/internal/service/records"
	"github.com/parley-agents/parley/internal/service/run"
	"github.com/parley-agents/parley/internal/testing/storetest"
)

// A yard is where agents are run: a real store, real keys, a real mailroom, and
// a clock that stands still.
type yard struct {
	*run.Service
	t     *testing.T
	store hub.Store
	who   *keys.Service
	mail  *mailroom.Mailroom
	ids   *hub.IDs

	mu  sync.Mutex // guards now
	now time.Time
}

var (
	operator = hub.Caller{ID: hub.Operator, Role: hub.RoleCoordinator, Auditor: true}
	builder  = hub.Caller{ID: "builder", Role: hub.RoleExecutor, Key: "builder/default"}
	mallory  = hub.Caller{ID: "mallory", Role: hub.RoleExecutor, Key: "mallory/default"}
)

func open(t *testing.T) *yard {
	t.Helper()
	y := &yard{t: t, now: time.Date(2026, 2, 21, 9, 0, 0, 0, time.UTC)}
	y.ids = hub.NewIDs(y.clock)
	y.store = storetest.Open(t, t.TempDir())
	hints := new(bus.Local)
	y.who = keys.New(y.store, &keys.Options{Clock: y.clock, Bus: hints})
	if _, err := y.who.EnsureOperator(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	for _, a := range []hub.Caller{builder, mallory} {
		if _, _, _, err := y.who.AddAgent(t.Context(), operator, hub.Agent{ID: a.ID, Role: a.Role}, keys.NewKey{}); err != nil {
			t.Fatal(err)
		}
	}
	var err error
	if y.mail, err = mailroom.New(y.store, y.who, &mailroom.Options{Clock: y.clock, Bus: hints}); err != nil {
		t.Fatal(err)
	}
	y.Service = run.New(y.store, y.who, y.mail, &run.Options{Clock: y.clock})
	return y
}

func (y *yard) clock() time.Time {
	y.mu.Lock()
	defer y.mu.Unlock()
	return y.now
}

func (y *yard) pass(by time.Duration) {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.now = y.now.Add(by)
}

// begin begins a run of an agent.
func (y *yard) begin(actor hub.Caller, agent hub.AgentID) (hub.Run, string) {
	y.t.Helper()
	r, key, err := y.Begin(y.t.Context(), actor, run.Beginning{ID: hub.RunID(y.ids.Next()), Agent: agent, Task: "say hello", Dir: "/src", TimeoutS: 60})
	if err != nil {
		y.t.Fatal(err)
	}
	return r, key
}

// verify checks that everything is as the journal says.
func (y *yard) verify() {
	y.t.Helper()
	audit, err := records.New(y.store, records.Folders{}, nil).Verify(y.t.Context())
	if err != nil || !audit.Clean() {
		y.t.Errorf("verify: %v, %v", audit.Findings, err)
	}
}

// refused checks that something failed with a code.
func refused(t *testing.T, err error, want hub.Code) {
	t.Helper()
	if hub.CodeOf(err) != want {
		t.Errorf("got %v (%s), want %s", err, hub.CodeOf(err), want)
	}
}

// done is an end with a report of the given status.
func done(status string) run.Ending {
	return run.Ending{
		State: hub.RunDone, StopReason: "end_turn", Report: json.RawMessage(`{"status":"` + status + `","error":"it is stuck"}`), Verdict: hub.RunConfirmed,
		Evidence: json.RawMessage(`{"before":{"tree":"a1"},"after":{"tree":"b2"},"diff":{"files":2,"insertions":5,"created":["secret-name"]},"verify":{"command":"go test","exit_code":0,"output_digest":"sha256:ff","output_tail":"PASS"}}`),
	}
}

func TestBegin(t *testing.T) {
	y := open(t)
	t.Run("the key that a run lends is good for its agent until the run ends", func(t *testing.T) {
		r, key := y.begin(operator, "builder")
		who, err := y.who.Authenticate(t.Context(), key)
		if err != nil || who.ID != "builder" || !strings.Contains(string(who.Key), string(r.ID)) {
			t.Fatalf("got %+v, %v", who, err)
		}
		if _, err := y.Finish(t.Context(), operator, r.ID, done("ok")); err != nil {
			t.Fatal(err)
		}
		_, err = y.who.Authenticate(t.Context(), key)
		refused(t, err, hub.CodeUnauthenticated)
	})
	t.Run("the key dies also when nobody ends the run", func(t *testing.T) {
		_, key := y.begin(operator, "builder")
		y.pass(24 * time.Hour)
		_, err := y.who.Authenticate(t.Context(), key)
		refused(t, err, hub.CodeUnauthenticated)
	})
	t.Run("the operator adds an agent that is not there", func(t *testing.T) {
		y.begin(operator, "newcomer")
		agent, keyed, err := y.who.Lookup(t.Context(), "newcomer")
		if err != nil || agent.Role != hub.RoleExecutor || !keyed {
			t.Errorf("got %+v, %v, %v", agent, keyed, err)
		}
	})
	t.Run("a hundred runs leave an agent its other keys", func(t *testing.T) {
		for range 101 {
			r, _ := y.begin(operator, "mallory")
			if _, err := y.Finish(t.Context(), operator, r.ID, done("ok")); err != nil {
				t.Fatal(err)
			}
		}
		if _, _, err := y.who.MintKey(t.Context(), operator, keys.NewKey{Agent: "mallory", Label: "laptop"}); err != nil {
			t.Error(err)
		}
		_, _, err := y.who.MintKey(t.Context(), operator, keys.NewKey{Agent: "mallory", Label: hub.RunKeyLabel + "x"})
		refused(t, err, hub.CodeInvalid)
		all, err := y.who.Agents(t.Context(), operator)
		i := slices.IndexFunc(all, func(p keys.Profile) bool { return p.ID == "mallory" })
		if err != nil || len(all[i].Keys) != 2 {
			t.Errorf("got %d keys, want the two that are no run's", len(all[i].Keys))
		}
	})
	t.Run("the open runs of an agent are bounded, and its keys with them", func(t *testing.T) {
		y := open(t)
		var all []hub.Run
		for range 8 {
			r, _ := y.begin(mallory, "mallory")
			all = append(all, r)
		}
		_, _, err := y.Begin(t.Context(), mallory, run.Beginning{ID: hub.RunID(y.ids.Next()), Agent: "mallory", Task: "one more", TimeoutS: 60})
		refused(t, err, hub.CodeRateLimited)
		var refusal *hub.Error
		if !errors.As(err, &refusal) || refusal.Hint == "" {
			t.Errorf("got %v without a hint", err)
		}
		y.begin(builder, "builder")  // another agent
		y.begin(operator, "mallory") // the operator's own
		if _, err := y.Finish(t.Context(), mallory, all[0].ID, done("ok")); err != nil {
			t.Fatal(err)
		}
		y.begin(mallory, "mallory")
		y.verify()
	})
	for name, test := range map[string]struct {
		actor  hub.Caller
		change func(*run.Beginning)
		code   hub.Code
	}{
		"an agent may begin one for itself":        {builder, func(b *run.Beginning) {}, ""},
		"an agent may not begin one for others":    {mallory, func(b *run.Beginning) {}, hub.CodeDenied},
		"a run cannot be begun with a lent key":    {hub.Caller{ID: "builder", Key: "builder/run-x"}, func(b *run.Beginning) {}, hub.CodeDenied},
		"a paused agent begins nothing":            {hub.Caller{ID: "builder", Paused: true}, func(b *run.Beginning) {}, hub.CodeDenied},
		"the operator is not run":                  {operator, func(b *run.Beginning) { b.Agent = hub.Operator }, hub.CodeInvalid},
		"a task is needed":                         {operator, func(b *run.Beginning) { b.Task = " \n" }, hub.CodeInvalid},
		"a task has an end":                        {operator, func(b *run.Beginning) { b.Task = strings.Repeat("x", 1<<20) }, hub.CodeTooLarge},
		"an id is a UUIDv7":                        {operator, func(b *run.Beginning) { b.ID = "7" }, hub.CodeInvalid},
		"a run has a time":                         {operator, func(b *run.Beginning) { b.TimeoutS = 0 }, hub.CodeInvalid},
		"a run does not last for ever":             {operator, func(b *run.Beginning) { b.TimeoutS = 1000 * 3600 }, hub.CodeInvalid},
		"a handoff must be there":                  {operator, func(b *run.Beginning) { b.Handoff = hub.HandoffID(y.ids.Next()) }, hub.CodeNotFound},
		"an agent that does not exist is no run's": {hub.Caller{ID: "ghost"}, func(b *run.Beginning) { b.Agent = "ghost" }, hub.CodeNotFound},
	} {
		t.Run(name, func(t *testing.T) {
			b := run.Beginning{ID: hub.RunID(y.ids.Next()), Agent: "builder", Task: "x", TimeoutS: 60}
			test.change(&b)
			_, _, err := y.Begin(t.Context(), test.actor, b)
			refused(t, err, test.code)
		})
	}
	y.verify()
}

func TestFinish(t *testing.T) {
	for _, test := range []struct {
		status string
		want   hub.MessageType
		held   bool
	}{
		{"ok", hub.TypeStatusComplete, false},
		{"no_changes", hub.TypeStatusComplete, false},
		{"fail", hub.TypeStatusBlocked, false},
		{"rejected", hub.TypeStatusBlocked, false},
		{"fixture_gap", hub.TypeStatusBlocked, false},
		{"partial", hub.TypeStatusUpdate, false},
		{"retry", hub.TypeStatusUpdate, false},
		{"needs_decision", hub.TypeStatusBlocked, true},
		{"decomposed", hub.TypeStatusUpdate, false},
		{"something_new", hub.TypeStatusUpdate, false},
	} {
		t.Run("R0-030 "+test.status+" becomes "+string(test.want), func(t *testing.T) {
			t.Parallel()
			y := open(t)
			r, _ := y.begin(operator, "builder")
			if _, err := y.Move(t.Context(), operator, r.ID, hub.RunRunning, "sess-1"); err != nil {
				t.Fatal(err)
			}
			got, err := y.Finish(t.Context(), operator, r.ID, done(test.status))
			if err != nil {
				t.Fatal(err)
			}
			if got.State != hub.RunDone || got.Session != "sess-1" || got.EndedAt.IsZero() {
				t.Errorf("got %+v", got)
			}
			trace, err := y.mail.Trace(t.Context(), operator, got.Message)
			if err != nil {
				t.Fatal(err)
			}
			m := trace.Message
			if m.Type != test.want || m.From != hub.Self || !slices.Equal(m.To, []hub.AgentID{hub.Operator}) || m.ThreadID != string(r.ID) {
				t.Errorf("got %s from %s to %v on %s", m.Type, m.From, m.To, m.ThreadID)
			}
			if held := m.Policy.HumanGate == hub.GateRequired; held != test.held {
				t.Errorf("held: %v, want %v", held, test.held)
			}
			payload := string(m.Payload)
			for _, part := range []string{string(r.ID), `"agent":"builder"`, `"verdict":"confirmed"`, `"tree":"b2"`, `"exit_code":0`, `sha256:ff`} {
				if !strings.Contains(payload, part) {
					t.Errorf("%s is missing in %s", part, payload)
				}
			}
			if strings.Contains(payload, "secret-name") || strings.Contains(payload, "PASS") {
				t.Errorf("the message has more than hashes and figures: %s", payload)
			}
			y.verify()
		})
	}
	t.Run("a run without a report blocks, and says why", func(t *testing.T) {
		y := open(t)
		r, _ := y.begin(operator, "builder")
		got, err := y.Finish(t.Context(), operator, r.ID, run.Ending{State: hub.RunFailed, Reason: hub.RunNoReport, Verdict: hub.RunUnverified})
		if err != nil {
			t.Fatal(err)
		}
		trace, err := y.mail.Trace(t.Context(), operator, got.Message)
		if err != nil || trace.Message.Type != hub.TypeStatusBlocked || !strings.Contains(string(trace.Message.Payload), `"reason":"no_report"`) {
			t.Errorf("got %s, %v", trace.Message.Payload, err)
		}
	})
	t.Run("much evidence and many contradictions fit into the message", func(t *testing.T) {
		y := open(t)
		r, _ := y.begin(operator, "builder")
		e := done("ok")
		e.Verdict = hub.RunContradicted
		for range 500 {
			e.Contradictions = append(e.Contradictions, hub.Contradiction{Kind: "undeclared", Claim: strings.Repeat("c", 900), Found: strings.Repeat("ü", 900)})
		}
		got, err := y.Finish(t.Context(), operator, r.ID, e)
		if err != nil || len(got.Contradictions) != 500 {
			t.Fatalf("got %d contradictions, %v", len(got.Contradictions), err)
		}
		y.verify()
	})
	t.Run("ending again changes nothing", func(t *testing.T) {
		y := open(t)
		r, _ := y.begin(operator, "builder")
		first, err := y.Finish(t.Context(), operator, r.ID, done("ok"))
		if err != nil {
			t.Fatal(err)
		}
		again, err := y.Finish(t.Context(), operator, r.ID, run.Ending{State: hub.RunInterrupted, Verdict: hub.RunUnverified})
		if err != nil || again.Digest() != first.Digest() {
			t.Errorf("got %+v, %v", again, err)
		}
		_, err = y.Move(t.Context(), operator, r.ID, hub.RunRunning, "")
		refused(t, err, hub.CodeConflict)
		y.verify()
	})
	t.Run("nobody says how his own work was judged", func(t *testing.T) {
		y := open(t)
		r, key := y.begin(operator, "builder")
		own, err := y.who.Authenticate(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		for _, actor := range []hub.Caller{own, builder} {
			_, err := y.Finish(t.Context(), actor, r.ID, done("ok"))
			refused(t, err, hub.CodeDenied)
		}
		_, err = y.Finish(t.Context(), mallory, r.ID, done("ok"))
		refused(t, err, hub.CodeNotFound)
		_, err = y.Show(t.Context(), mallory, r.ID)
		refused(t, err, hub.CodeNotFound)
		list, err := y.List(t.Context(), mallory, hub.RunQuery{})
		if err != nil || len(list.Runs) != 0 {
			t.Errorf("mallory sees %v, %v", list.Runs, err)
		}
		self, lent := y.begin(builder, "builder")
		actor, err := y.who.Authenticate(t.Context(), lent)
		if err != nil {
			t.Fatal(err)
		}
		_, err = y.Finish(t.Context(), actor, self.ID, done("ok"))
		refused(t, err, hub.CodeDenied)
		ended, err := y.Finish(t.Context(), builder, self.ID, done("ok"))
		if err != nil {
			t.Fatal(err)
		}
		trace, err := y.mail.Trace(t.Context(), operator, ended.Message)
		if err != nil || trace.Message.From != "builder" {
			t.Errorf("who ends his own run tells of it himself: got %s, %v", trace.Message.From, err)
		}
		if ended.Verdict != hub.RunClaimed || ended.ClaimedVerdict != hub.RunConfirmed || ended.VerdictBy != "builder" {
			t.Errorf("got %s (%s) by %s, want a claimed verdict", ended.Verdict, ended.ClaimedVerdict, ended.VerdictBy)
		}
		payload := string(trace.Message.Payload)
		if !strings.Contains(payload, "says builder, not checked") || strings.Contains(payload, "confirmed") || strings.Contains(payload, "evidence") {
			t.Errorf("the message passes the claim on as a fact: %s", payload)
		}
		y.verify()
	})
	t.Run("the operator makes no fact of the claim of an agent", func(t *testing.T) {
		y := open(t)
		r, _ := y.begin(builder, "builder")
		got, err := y.Finish(t.Context(), operator, r.ID, done("ok"))
		if err != nil || got.Verdict != hub.RunClaimed {
			t.Errorf("got %s, %v", got.Verdict, err)
		}
	})
	t.Run("a run that the hub executed has its verdict, and lends no key", func(t *testing.T) {
		y := open(t)
		id := hub.RunID(y.ids.Next())
		got, err := y.Record(t.Context(), run.Beginning{ID: id, Agent: "builder", Task: "say hello", Dir: "/src"}, done("ok"))
		if err != nil || got.Verdict != hub.RunConfirmed || got.VerdictBy != hub.Self || got.Key != "" {
			t.Fatalf("got %+v, %v", got, err)
		}
		trace, err := y.mail.Trace(t.Context(), operator, got.Message)
		if err != nil || trace.Message.From != hub.Self || !slices.Equal(trace.Message.To, []hub.AgentID{hub.Operator}) {
			t.Errorf("got a message from %s to %v, %v", trace.Message.From, trace.Message.To, err)
		}
		if _, err := y.Record(t.Context(), run.Beginning{ID: id, Agent: "builder", Task: "again"}, done("ok")); hub.CodeOf(err) != hub.CodeConflict {
			t.Errorf("the same run again: got %v", err)
		}
		y.verify()
	})
	for name, test := range map[string]struct {
		change func(*run.Ending)
		code   hub.Code
	}{
		"an end is one":                         {func(e *run.Ending) { e.State = hub.RunRunning }, hub.CodeInvalid},
		"a verdict is known":                    {func(e *run.Ending) { e.Verdict = "great" }, hub.CodeInvalid},
		"what is done has a report":             {func(e *run.Ending) { e.Report = json.RawMessage("null") }, hub.CodeInvalid},
		"a report is an object":                 {func(e *run.Ending) { e.Report = json.RawMessage("7") }, hub.CodeInvalid},
		"what contradicts is named":             {func(e *run.Ending) { e.Verdict = hub.RunContradicted }, hub.CodeInvalid},
		"evidence has an end":                   {func(e *run.Ending) { e.Evidence = make(json.RawMessage, 2<<20) }, hub.CodeTooLarge},
		"a reason has an end":                   {func(e *run.Ending) { e.Reason = strings.Repeat("x", 1<<20) }, hub.CodeTooLarge},
		"the list of contradictions has an end": {func(e *run.Ending) { e.Contradictions = make([]hub.Contradiction, 5000) }, hub.CodeTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			y := open(t)
			r, _ := y.begin(operator, "builder")
			e := done("ok")
			test.change(&e)
			_, err := y.Finish(t.Context(), operator, r.ID, e)
			refused(t, err, test.code)
			if got, err := y.Show(t.Context(), operator, r.ID); err != nil || got.State != hub.RunStarting || len(got.Journal) != 1 {
				t.Errorf("got %+v, %v", got, err)
			}
		})
	}
}

func TestRunGivesUp(t *testing.T) {
	y := open(t)
	lost, _ := y.begin(operator, "builder")
	y.pass(2 * time.Hour)
	fresh, _ := y.begin(operator, "builder")
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { y.Run(ctx) })
	for {
		got, err := y.Show(t.Context(), operator, lost.ID)
		if err != nil {
			t.Fatal(err)
		}
		if got.State.Over() {
			if got.State != hub.RunInterrupted || got.Reason != hub.RunLost {
				t.Errorf("got %s, %s", got.State, got.Reason)
			}
			break
		}
	}
	cancel()
	wg.Wait()
	if got, err := y.Show(t.Context(), operator, fresh.ID); err != nil || got.State != hub.RunStarting {
		t.Errorf("the other one is %s, %v", got.State, err)
	}
	y.verify()
}

func TestVerifySeesRuns(t *testing.T) {
	y := open(t)
	r, _ := y.begin(operator, "builder")
	err := y.store.Update(t.Context(), hub.SurvivesKill, func(tx hub.Tx) error {
		r.State, r.Session = hub.RunRunning, "forged"
		return tx.PutRun(r, hub.RunStarting) // and no journal entry
	})
	if err != nil {
		t.Fatal(err)
	}
	audit, err := records.New(y.store, records.Folders{}, nil).Verify(t.Context())
	if err != nil || len(audit.Findings) != 1 || !strings.Contains(audit.Findings[0].String(), string(r.ID)) || audit.Runs != 1 {
		t.Errorf("got %v, %v", audit.Findings, err)
	}
}
