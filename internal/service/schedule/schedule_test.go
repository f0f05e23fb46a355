package schedule_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
	"github.com/parley-agents/parley/internal/service/keys"
	"github.com/parley-agents/parley/internal/service/mailroom"
	"github.com/parley-agents/parley/internal/service/schedule"
	"github.com/parley-agents/parley/internal/testing/storetest"
)

var operator = hub.Caller{Kind: hub.CallerOperator, ID: hub.Operator, Role: hub.RoleCoordinator, Auditor: true}

// agent is the caller of an agent.
func agent(id hub.AgentID) hub.Caller { return hub.Caller{Kind: hub.CallerAgent, ID: id} }

// A world is a hub with the agents planner and builder, and schedules. Its clock stands still between the calls
// of pass.
type world struct {
	*testing.T
	now   time.Time
	store storetest.Store
	mail  *mailroom.Mailroom
	*schedule.Service
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{T: t, now: time.Date(2026, 3, 2, 8, 30, 0, 0, time.UTC)} // a Monday
	w.store = storetest.Open(t, t.TempDir())
	clock := func() time.Time { return w.now }
	who := keys.New(w.store, &keys.Options{Clock: clock})
	_, err := who.EnsureOperator(t.Context(), "")
	w.must(err)
	for _, name := range []hub.AgentID{"planner", "builder"} {
		_, _, _, err := who.AddAgent(t.Context(), operator, hub.Agent{ID: name, Role: hub.RoleExecutor}, keys.NewKey{})
		w.must(err)
	}
	w.mail, err = mailroom.New(w.store, who, &mailroom.Options{Clock: clock, Limits: mailroom.Limits{Unsafe: true}})
	w.must(err)
	w.Service = w.again()
	return w
}

// again returns the service of a hub that was started again.
func (w *world) again() *schedule.Service {
	return schedule.New(w.store, w.mail, &schedule.Options{Clock: func() time.Time { return w.now }})
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// add adds a schedule of the operator for builder.
func (w *world) add(every string) hub.Schedule {
	w.Helper()
	one, err := w.Add(w.Context(), operator, schedule.Setting{Every: every, To: "builder", Text: "look at the reviews", Zone: "UTC"})
	w.must(err)
	return one
}

// pass lets time pass, sends what is due then, and returns the time until the next run.
func (w *world) pass(d time.Duration) time.Duration {
	w.Helper()
	w.now = w.now.Add(d)
	rest, err := w.Step(w.Context())
	w.must(err)
	return rest
}

// A run is the payload of the message of a run.
type run struct {
	Schedule hub.ScheduleID `json:"schedule"`
	Every    string         `json:"every"`
	Text     string         `json:"text"`
	Missed   int64          `json:"missed"`
	Skipped  int64          `json:"skipped"`
}

// read acknowledges the inbox of builder, and returns the runs in it.
func (w *world) read() (out []run) {
	w.Helper()
	got, err := w.mail.Inbox(w.Context(), agent("builder"), mailroom.InboxRequest{})
	w.must(err)
	var ids []hub.EnvelopeID
	for _, m := range got.Messages {
		if m.From != hub.Operator || m.Type != hub.TypeEventDue {
			w.Errorf("got a message %s of %s", m.Type, m.From)
		}
		var r run
		w.must(json.Unmarshal(m.Payload, &r))
		out = append(out, r)
		ids = append(ids, m.ID)
	}
	if len(ids) > 0 {
		_, err = w.mail.Inbox(w.Context(), agent("builder"), mailroom.InboxRequest{Ack: ids})
		w.must(err)
	}
	return out
}

// shown returns a schedule as it is stored.
func (w *world) shown(id hub.ScheduleID) hub.Schedule {
	w.Helper()
	all, err := w.List(w.Context(), operator)
	w.must(err)
	i := slices.IndexFunc(all, func(s hub.Schedule) bool { return s.ID == id })
	if i < 0 {
		w.Fatalf("no schedule %s in %+v", id, all)
	}
	return all[i]
}

// entries returns the actions of the journal about a schedule.
func (w *world) entries(id hub.ScheduleID) (out []actions.Action) {
	w.Helper()
	got, err := hub.Read(w.Context(), w.store, func(r hub.Reader) ([]hub.Entry, error) {
		return r.Journal(hub.JournalQuery{Limit: 1000})
	})
	w.must(err)
	for _, e := range got {
		if e.Subject == string(id) {
			out = append(out, e.Action)
		}
	}
	return out
}

func TestRuns(t *testing.T) {
	t.Run("a run is sent at its time and not before, and the next one follows", func(t *testing.T) {
		w := newWorld(t)
		one := w.add("1h")
		if want := w.now.Add(time.Hour); !one.Due.Equal(want) || one.ID != "e1" {
			t.Errorf("got %+v, want the first run at %s", one, want)
		}
		w.pass(time.Hour - time.Second)
		if got := w.read(); len(got) != 0 {
			t.Fatalf("before its time: got %+v", got)
		}
		w.pass(2 * time.Minute) // the jitter of a span of an hour is less
		if got := w.read(); len(got) != 1 || got[0] != (run{Schedule: "e1", Every: "1h", Text: "look at the reviews"}) {
			t.Fatalf("got %+v", got)
		}
		if got := w.shown("e1"); got.Runs != 1 || got.Due != one.Due.Add(time.Hour) || got.Last.IsZero() || got.Message == "" {
			t.Errorf("got %+v", got)
		}
		w.pass(0)
		if got := w.read(); len(got) != 0 {
			t.Errorf("the same run again: got %+v", got)
		}
	})
	t.Run("runs are left out while the last message is unread, and the next one counts them", func(t *testing.T) {
		w := newWorld(t)
		w.add("1h")
		w.pass(62 * time.Minute)
		for want := range int64(3) {
			if got := w.shown("e1"); got.Runs != 1 || got.Skipped != want {
				t.Errorf("got %+v, want %d skipped", got, want)
			}
			w.pass(time.Hour)
		}
		if got := w.read(); len(got) != 1 || got[0].Skipped != 0 {
			t.Fatalf("got %+v", got)
		}
		w.pass(time.Hour)
		if got := w.read(); len(got) != 1 || got[0].Skipped != 3 || got[0].Missed != 0 {
			t.Errorf("got %+v, want one run that counts three", got)
		}
		if got := w.shown("e1"); got.Runs != 2 || got.Skipped != 0 {
			t.Errorf("got %+v", got)
		}
	})
	t.Run("runs that passed while no hub was there are one message with their number", func(t *testing.T) {
		for name, c := range map[string]struct {
			every  string
			away   time.Duration
			missed int64
		}{
			"every day for three days": {"0 9 * * *", 72 * time.Hour, 3},
			"a minute, just late":      {"1m", 4*time.Minute + 5*time.Second, 3},
			"more than are counted":    {"1m", 48 * time.Hour, 1000},
		} {
			t.Run(name, func(t *testing.T) {
				w := newWorld(t)
				w.add(c.every)
				w.Service = w.again()
				w.pass(c.away)
				if got := w.read(); len(got) != 1 || got[0].Missed != c.missed {
					t.Errorf("got %+v, want one run for %d missed ones", got, c.missed)
				}
				if got := w.shown("e1"); got.Runs != 1 || got.Missed != c.missed || !got.Due.After(w.now) {
					t.Errorf("got %+v, want the next run after %s", got, w.now)
				}
			})
		}
	})
	t.Run("a calendar follows its zone over the change of the clocks", func(t *testing.T) {
		w := newWorld(t)
		one, err := w.Add(t.Context(), operator, schedule.Setting{Every: "0 9 * * *", To: "builder", Text: "plan", Zone: "Europe/Berlin"})
		w.must(err)
		if want := time.Date(2026, 3, 3, 8, 0, 0, 0, time.UTC); !one.Due.Equal(want) {
			t.Errorf("winter: got %s, want %s", one.Due, want)
		}
		w.now = time.Date(2026, 3, 29, 12, 0, 0, 0, time.UTC)
		w.pass(0)
		if got, want := w.shown("e1").Due, time.Date(2026, 3, 30, 7, 0, 0, 0, time.UTC); !got.Equal(want) {
			t.Errorf("summer: got %s, want %s", got, want)
		}
	})
	t.Run("the time until the next run is bounded, and short before a run", func(t *testing.T) {
		w := newWorld(t)
		if got := w.pass(0); got != 20*time.Second {
			t.Errorf("without schedules: got %s", got)
		}
		w.add("1m")
		if got := w.pass(59 * time.Second); got <= 0 || got > 20*time.Second {
			t.Errorf("a second before: got %s", got)
		}
	})
	t.Run("one schedule that fails keeps no other from running", func(t *testing.T) {
		w := newWorld(t)
		w.add("1h")
		_, err := w.Add(t.Context(), operator, schedule.Setting{Every: "1h", To: "planner", Text: "plan"})
		w.must(err)
		w.must(w.store.Update(t.Context(), hub.SurvivesKill, func(tx hub.Tx) error {
			one, err := tx.Events().Schedule("e1")
			if err != nil {
				return err
			}
			one.Zone = "Not/AZone" // as on a machine without the zone
			_, err = tx.WriteEvents().PutSchedule(one)
			return err
		}))
		w.pass(62 * time.Minute)
		if got := w.shown("e2"); got.Runs != 1 {
			t.Errorf("got %+v", got)
		}
		if got := w.shown("e1"); got.Runs != 0 {
			t.Errorf("the schedule without a zone: got %+v", got)
		}
	})
}

func TestRunNow(t *testing.T) {
	w := newWorld(t)
	one := w.add("0 9 * * 1-5")
	for range 2 { // also while the first one is unread
		got, err := w.RunNow(t.Context(), operator, one.ID)
		if err != nil || !got.Due.Equal(one.Due.Time) {
			t.Errorf("got %+v, %v, want the next run at %s as before", got, err, one.Due)
		}
	}
	if got := w.read(); len(got) != 2 || got[0].Missed+got[1].Missed != 0 {
		t.Errorf("got %+v", got)
	}
	if _, err := w.RunNow(t.Context(), operator, "e9"); hub.CodeOf(err) != hub.CodeNotFound {
		t.Errorf("a schedule that does not exist: %v", err)
	}
}

func TestSettings(t *testing.T) {
	t.Run("only the operator changes schedules", func(t *testing.T) {
		w := newWorld(t)
		one := w.add("1h")
		for what, do := range map[string]func(hub.Caller) error{
			"add": func(a hub.Caller) error {
				_, err := w.Add(t.Context(), a, schedule.Setting{Every: "1h", To: "builder", Text: "x"})
				return err
			},
			"remove": func(a hub.Caller) error { return w.Remove(t.Context(), a, one.ID) },
			"run": func(a hub.Caller) error {
				_, err := w.RunNow(t.Context(), a, one.ID)
				return err
			},
		} {
			if err := do(agent("builder")); hub.CodeOf(err) != hub.CodeDenied {
				t.Errorf("%s: got %v", what, err)
			}
		}
		if got := w.read(); len(got) != 0 {
			t.Errorf("a refused call sent %+v", got)
		}
	})
	t.Run("what could not run is refused", func(t *testing.T) {
		for name, c := range map[string]struct {
			set  schedule.Setting
			code hub.Code
		}{
			"no time":                 {schedule.Setting{Every: "soon", To: "builder", Text: "x"}, hub.CodeInvalid},
			"no zone":                 {schedule.Setting{Every: "0 9 * * *", Zone: "Berlin", To: "builder", Text: "x"}, hub.CodeInvalid},
			"no text":                 {schedule.Setting{Every: "1h", To: "builder", Text: " \n"}, hub.CodeInvalid},
			"a text that is too long": {schedule.Setting{Every: "1h", To: "builder", Text: strings.Repeat("x", 2001)}, hub.CodeInvalid},
			"a text of escapes":       {schedule.Setting{Every: "1h", To: "builder", Text: strings.Repeat("\x01", 1000)}, hub.CodePayloadTooLarge},
			"an unknown agent":        {schedule.Setting{Every: "1h", To: "ghost", Text: "x"}, hub.CodeUnknownRecipient},
		} {
			t.Run(name, func(t *testing.T) {
				w := newWorld(t)
				if _, err := w.Add(t.Context(), operator, c.set); hub.CodeOf(err) != c.code {
					t.Errorf("got %v, want %s", err, c.code)
				}
				if all, err := w.List(t.Context(), operator); err != nil || len(all) != 0 {
					t.Errorf("got %+v, %v", all, err)
				}
			})
		}
	})
	t.Run("the longest text that is accepted is sent whole", func(t *testing.T) {
		w := newWorld(t)
		one, err := w.Add(t.Context(), operator, schedule.Setting{Every: "1h", To: "builder", Text: strings.Repeat("<", 2000)})
		w.must(err)
		_, err = w.RunNow(t.Context(), operator, one.ID)
		w.must(err)
		if got := w.read(); len(got) != 1 || len(got[0].Text) != 2000 {
			t.Errorf("got %+v", got)
		}
	})
	t.Run("a hub has at most 200 schedules", func(t *testing.T) {
		w := newWorld(t)
		for range 200 {
			w.add("1h")
		}
		_, err := w.Add(t.Context(), operator, schedule.Setting{Every: "1h", To: "builder", Text: "x"})
		if hub.CodeOf(err) != hub.CodeTooLarge {
			t.Errorf("got %v", err)
		}
		w.must(w.Remove(t.Context(), operator, "e7"))
		w.add("1h")
	})
	t.Run("a removed schedule runs no more, and the journal has both", func(t *testing.T) {
		w := newWorld(t)
		one := w.add("1h")
		w.must(w.Remove(t.Context(), operator, one.ID))
		if err := w.Remove(t.Context(), operator, one.ID); hub.CodeOf(err) != hub.CodeNotFound {
			t.Errorf("a second time: %v", err)
		}
		w.pass(2 * time.Hour)
		if got := w.read(); len(got) != 0 {
			t.Errorf("got %+v", got)
		}
		if got := w.entries(one.ID); !slices.Equal(got, []actions.Action{actions.ScheduleAdded, actions.ScheduleRemoved}) {
			t.Errorf("journal: got %v", got)
		}
	})
	t.Run("an agent sees its own schedules, the operator all", func(t *testing.T) {
		w := newWorld(t)
		w.add("1h")
		for who, want := range map[hub.AgentID]int{"builder": 1, "planner": 0} {
			if got, err := w.List(t.Context(), agent(who)); err != nil || len(got) != want {
				t.Errorf("%s: got %+v, %v", who, got, err)
			}
		}
	})
}
