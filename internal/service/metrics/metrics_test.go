package metrics_test

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
	"github.com/parley-agents/parley/internal/service/metrics"
	"github.com/parley-agents/parley/internal/testing/storetest"
)

var operator = hub.Caller{Kind: hub.CallerOperator, ID: hub.Operator, Auditor: true}

// A book is a journal with the figures that are computed from it.
type book struct {
	*testing.T
	*metrics.Service
	store hub.Store
	now   time.Time
	ids   *hub.IDs
}

func open(t *testing.T) *book {
	b := &book{T: t, now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
	b.store = storetest.Open(t, t.TempDir())
	clock := func() time.Time { return b.now }
	b.ids = hub.NewIDs(clock)
	b.Service = metrics.New(b.store, &metrics.Options{Clock: clock})
	b.update(func(tx hub.Tx) error {
		return tx.PutAgent(hub.Agent{ID: "bo", Role: hub.RoleExecutor, State: hub.AgentActive, CreatedAt: hub.At(b.now)}, "")
	})
	return b
}

func (b *book) update(fn func(hub.Tx) error) {
	b.Helper()
	if err := b.store.Update(b.Context(), hub.SurvivesKill, fn); err != nil {
		b.Fatal(err)
	}
}

// write appends an entry after a time has passed.
func (b *book) write(after time.Duration, actor hub.AgentID, action actions.Action, subject, facts string) {
	b.Helper()
	b.now = b.now.Add(after)
	b.update(func(tx hub.Tx) error {
		_, err := tx.Append(hub.Entry{At: hub.At(b.now), Actor: actor, Action: action, Subject: subject, Outcome: hub.OutcomeOK, Facts: json.RawMessage(facts)})
		return err
	})
}

func (b *book) show(q metrics.Query) metrics.Report {
	b.Helper()
	r, err := b.Show(b.Context(), operator, q)
	if err != nil {
		b.Fatal(err)
	}
	return r
}

// work writes a morning of work.
func (b *book) work() {
	message := string(b.ids.Next())
	for i, took := range []time.Duration{time.Second, time.Minute, time.Hour} {
		id := fmt.Sprint("h", i)
		b.write(time.Second, "ana", actions.HandoffProposed, id, `{"to":"bo"}`)
		b.write(took, "bo", actions.HandoffAccepted, id, `{"to":"bo"}`)
		b.write(time.Second, "bo", actions.HandoffCompleted, id, fmt.Sprintf(`{"to":"bo","proof":%q}`, []string{"verified", "verified", "unproven"}[i]))
	}
	b.write(time.Second, "ana", actions.HandoffProposed, "h9", `{"to":"bo"}`)
	b.write(time.Second, "bo", actions.HandoffRejected, "h9", `{"to":"bo","reject_reason":"missing_artifact"}`)
	b.write(time.Second, hub.Self, actions.HandoffEscalated, "h1", `{"to":"bo"}`)
	b.write(time.Second, "ana", actions.MessageHeld, message, `{"to":["bo"]}`)
	b.write(10*time.Minute, hub.Operator, actions.MessageApproved, message, `{}`)
	b.write(time.Second, "bo", actions.MessageDelivered, message, ``)
	b.write(time.Second, "bo", actions.Refused, "", `{"code":"forbidden","count":3}`)
	for range 2 { // two messages of one attempt
		b.write(0, hub.Self, actions.DeliveryMoved, message, `{"channel":"wake","recipient":"bo","state":"turn_started","mechanism":"tmux","wake":"w1"}`)
	}
	b.write(time.Second, "ana", actions.RunDone, "r1", `{"agent":"bo","verdict":"contradicted"}`)
	b.write(time.Second, "ana", actions.TeamRole, "team/auth", `{"agent":"bo","status":"changed","reason":"coverage"}`)
	b.write(time.Second, "bo", actions.TeamConflict, "team/auth", `{"artifact_id":"a","version":2,"state":"manual_merge"}`)
	b.write(time.Minute, "ana", actions.TeamConflict, "team/auth", `{"artifact_id":"a","version":2,"state":"resolved"}`)
	b.write(time.Second, "ana", actions.TeamTask, "team/auth", `{"task_id":"T-1","state":"in_progress","class":"normal","owner":"bo"}`)
	b.write(30*time.Minute, "ana", actions.TeamTask, "team/auth", `{"task_id":"T-1","state":"done","class":"normal","owner":"bo"}`)
	b.write(time.Second, "ana", actions.TeamTask, "team/auth", `{"task_id":"T-2","state":"blocked","class":"normal","reason":"access","owner":"bo"}`)
}

func TestFigures(t *testing.T) {
	b := open(t)
	b.work()
	b.now = b.now.Add(time.Minute)
	for _, q := range []metrics.Query{{}, {Agent: "bo"}} {
		got := b.show(q)
		for _, c := range []struct {
			name, labels string
			want         float64
		}{
			{"handoff_acceptance_ratio", "map[]", 0.75}, {"handoffs_total", "map[outcome:accepted]", 3}, {"handoffs_total", "map[outcome:late]", 1},
			{"handoff_rejections_total", "map[reason:missing_artifact]", 1}, {"handoff_acceptance_seconds", "map[]", 60}, {"handoff_proof_ratio", "map[]", 2.0 / 3},
			{"refusals_total", "map[rule:forbidden]", 3}, {"deliveries_total", "map[channel:inbox outcome:delivered]", 1}, {"deliveries_total", "map[channel:wake outcome:turn_started]", 2},
			{"wakes_total", "map[mechanism:tmux outcome:turn_started]", 1}, {"turns_total", "map[]", 1}, {"runs_total", "map[verdict:contradicted]", 1},
			{"role_changes_total", "map[reason:coverage]", 1}, {"task_cycle_seconds", "map[class:normal]", 1800},
			{"blockers", "map[reason:access]", 1}, {"blocker_age_seconds", "map[reason:access]", 60}, {"tasks", "map[state:blocked]", 1},
		} {
			t.Run(fmt.Sprintf("R3-162 %s %s of %q", c.name, c.labels, q.Agent), func(t *testing.T) {
				for _, f := range got.Metrics[c.name] {
					if fmt.Sprint(f.Labels) == c.labels {
						if f.Value < c.want*0.97 || f.Value > c.want*1.03 {
							t.Errorf("got %g, want %g", f.Value, c.want)
						}
						return
					}
				}
				t.Errorf("got %v, want %g", got.Metrics[c.name], c.want)
			})
		}
	}
	t.Run("R3-162 gates belong to the agent that had to wait", func(t *testing.T) {
		wait := b.show(metrics.Query{}).Metrics["gate_wait_seconds"]
		if len(wait) != 1 || wait[0].Value < 580 || wait[0].Value > 620 || len(b.show(metrics.Query{Agent: "bo"}).Metrics["gated_total"]) != 0 {
			t.Errorf("got %v, want 600 s of ana", wait)
		}
		if c := b.show(metrics.Query{}).Metrics["conflict_resolution_seconds"]; len(c) != 1 || c[0].Value < 58 || c[0].Value > 62 {
			t.Errorf("conflicts: got %v, want one of a minute", c)
		}
	})
	t.Run("R3-162 an hour is out of the period when it has passed", func(t *testing.T) {
		b.now = b.now.Add(3 * time.Hour)
		if got := b.show(metrics.Query{Period: time.Hour}).Metrics["handoffs_total"]; len(got) != 0 {
			t.Errorf("got %v, want none", got)
		}
	})
	t.Run("R3-162 bad questions are refused", func(t *testing.T) {
		for q, want := range map[metrics.Query]hub.Code{
			{Period: time.Minute}: hub.CodeInvalid, {Period: 1000 * time.Hour}: hub.CodeInvalid, {Agent: "bo", Team: "x"}: hub.CodeInvalid,
			{Agent: "nobody"}: hub.CodeNotFound, {Team: "nothing"}: hub.CodeNotFound,
		} {
			if _, err := b.Show(t.Context(), operator, q); hub.CodeOf(err) != want {
				t.Errorf("%+v: got %v, want %s", q, err, want)
			}
		}
		if _, err := b.Show(t.Context(), hub.Caller{Kind: hub.CallerAgent, ID: "ana"}, metrics.Query{Agent: "bo"}); hub.CodeOf(err) != hub.CodeDenied {
			t.Errorf("the figures of another agent: got %v, want %s", err, hub.CodeDenied)
		}
	})
}

// value returns the value of a series, 0 if there is none.
func value(f metrics.Figures, name, labels string) float64 {
	for _, f := range f[name] {
		if fmt.Sprint(f.Labels) == labels {
			return f.Value
		}
	}
	return 0
}

func TestTeamFigures(t *testing.T) {
	b := open(t)
	at := hub.At(b.now)
	b.update(func(tx hub.Tx) error {
		if err := tx.WriteTeamspaces().PutTeam(hub.Team{ID: "auth", Name: "auth", Lifecycle: hub.TeamActive, CreatedBy: "ana", CreatedAt: at, UpdatedAt: at}); err != nil {
			return err
		}
		return tx.WriteTeamspaces().PutMember(hub.Member{Team: "auth", Agent: "bo", Role: hub.RoleExecutor, Since: at, By: "ana", Reason: "joined"})
	})
	b.work()
	agent := func(id hub.AgentID) hub.Caller { return hub.Caller{Kind: hub.CallerAgent, ID: id} }
	for _, c := range []struct {
		rule   string
		reader hub.Caller
		want   hub.Code
	}{
		{"a member reads the figures of its team", agent("bo"), ""},
		{"an auditor reads the figures of every team", hub.Caller{Kind: hub.CallerAgent, ID: "ed", Auditor: true}, ""},
		{"another agent does not read them, or learn that the team exists", agent("eve"), hub.CodeNotFound},
	} {
		t.Run(c.rule, func(t *testing.T) {
			got, err := b.Show(t.Context(), c.reader, metrics.Query{Team: "auth"})
			if hub.CodeOf(err) != c.want {
				t.Fatalf("got %v, want %q", err, c.want)
			}
			if n := value(got.Metrics, "conflicts_total", "map[outcome:resolved]"); (n == 1) != (c.want == "") {
				t.Errorf("got %g resolved conflicts", n)
			}
		})
	}
}

func TestCountedOnce(t *testing.T) {
	t.Run("R3-162 two hubs that read the same entries count them once", func(t *testing.T) {
		b := open(t)
		b.work()
		// While one hub counts the first entries, another counts them and those of later hours.
		overtaken := &overtakenStore{Store: b.store, after: func() {
			b.now = b.now.Add(5 * time.Hour)
			b.work()
			b.show(metrics.Query{})
		}}
		late := metrics.New(overtaken, &metrics.Options{Clock: func() time.Time { return b.now }})
		got, err := late.Show(t.Context(), operator, metrics.Query{})
		if err != nil || overtaken.after != nil {
			t.Fatalf("got %v, and whether the other hub was faster: %v", err, overtaken.after == nil)
		}
		if n := value(got.Metrics, "handoffs_total", "map[outcome:accepted]"); n != 6 {
			t.Errorf("got %g accepted handoffs, want 6", n)
		}
	})
	t.Run("R3-162 figures of weeks ago are not among those of today", func(t *testing.T) {
		b := open(t)
		b.work()
		b.show(metrics.Query{})
		b.now = b.now.Add(4 * metrics.MaxPeriod)
		if got := b.show(metrics.Query{Period: metrics.MaxPeriod}).Metrics["handoffs_total"]; len(got) != 0 {
			t.Errorf("got %v, want none", got)
		}
	})
	t.Run("R3-162 a task that was dropped has no cycle time", func(t *testing.T) {
		b := open(t)
		for _, state := range []hub.TaskState{hub.TaskInProgress, hub.TaskDropped} {
			b.write(time.Minute, "ana", actions.TeamTask, "team/auth", fmt.Sprintf(`{"task_id":"T-1","state":%q,"class":"normal","owner":"bo"}`, state))
		}
		got := b.show(metrics.Query{}).Metrics
		if len(got["task_cycle_seconds"]) != 0 || value(got, "task_moves_total", fmt.Sprintf("map[state:%s]", hub.TaskDropped)) != 1 {
			t.Errorf("got %v, want a move and no time", got)
		}
	})
}

// An overtakenStore calls after once, when a View is over.
type overtakenStore struct {
	hub.Store
	after func()
}

func (s *overtakenStore) View(ctx context.Context, fn func(hub.Reader) error) error {
	err := s.Store.View(ctx, fn)
	if after := s.after; after != nil {
		s.after = nil
		after()
	}
	return err
}

func TestReplay(t *testing.T) {
	b := open(t)
	for range 5 { // a piece at a time, as it happens
		b.work()
		b.show(metrics.Query{})
		b.now = b.now.Add(40 * time.Hour) // the first hours leave the week
	}
	before, total := b.show(metrics.Query{Period: metrics.MaxPeriod}), totals(b)
	t.Run("R3-162 the state dropped and the journal replayed, the figures are the same", func(t *testing.T) {
		b.update(func(tx hub.Tx) error {
			for hour := range 7 * 24 {
				if err := tx.PutMeta(fmt.Sprintf("metrics/%03d", hour), "null"); err != nil {
					return err
				}
			}
			if err := tx.PutMeta("metrics", "null"); err != nil {
				return err
			}
			return tx.PutCursor(metrics.Cursor, 0)
		})
		if after := b.show(metrics.Query{Period: metrics.MaxPeriod}); !reflect.DeepEqual(after, before) {
			t.Errorf("got\n%+v\nwant\n%+v", after, before)
		}
		if again := totals(b); !reflect.DeepEqual(again, total) {
			t.Errorf("got\n%+v\nwant\n%+v", again, total)
		}
	})
}

func totals(b *book) metrics.Figures {
	b.Helper()
	f, err := b.Totals(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	return f
}
