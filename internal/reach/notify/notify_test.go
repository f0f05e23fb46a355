package notify

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parley-agents/parley/channel"
	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
	"github.com/parley-agents/parley/internal/engine/bus"
	"github.com/parley-agents/parley/internal/engine/sqlite"
	"github.com/parley-agents/parley/internal/testing/hostiletest"
)

// A world is a notifier with a clock that the test sets, and receivers in place of the
// network.
type world struct {
	t       *testing.T
	store   *sqlite.Store
	now     time.Time
	waiting Waiting
	down    map[string]error // by host
	status  map[string]int
	posts   map[string][]post
	moved   []string // outcomes of the delivery channel
	*Worker
}

type post struct {
	header http.Header
	body   string
}

var secret = []byte("sixteen bytes or more")

func newWorld(t *testing.T, targets ...Target) *world {
	t.Helper()
	w := &world{t: t, now: time.Date(2026, 2, 21, 9, 0, 0, 0, time.UTC), down: map[string]error{}, status: map[string]int{}, posts: map[string][]post{}}
	var err error
	if w.store, err = sqlite.Open(t.TempDir(), nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.store.Close() })
	w.restart(targets...)
	// A hub has entries before anything waits.
	w.do(w.store.Update(t.Context(), hub.SurvivesKill, func(tx hub.Tx) error {
		_, err := tx.Append(hub.Caller{ID: hub.Self}.Entry(hub.At(w.now), actions.HubStarted, "", nil))
		return err
	}))
	return w
}

// restart makes a new notifier on the same store.
func (w *world) restart(targets ...Target) {
	w.t.Helper()
	n, err := New(w.store, targets, Options{
		Clock: func() time.Time { return w.now }, Bus: new(bus.Local), Location: time.UTC, Kinds: []string{"held", "late", "mail", "stuck"}, Events: []string{"broken"}, HTTP: w,
	})
	w.do(err)
	w.Worker = n.Work(Hub{
		Waiting:   func(context.Context) (Waiting, error) { return w.waiting, nil },
		EventText: func(_ context.Context, e Wait) (string, error) { return "text of " + e.ID, nil },
		Record: func(_ hub.Tx, agent hub.AgentID, id string, o channel.Outcome) error {
			w.moved = append(w.moved, fmt.Sprintf("%s %s %s", agent, id, o.State))
			return nil
		},
	})
}

func (w *world) do(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func host(url string) string { return strings.Split(strings.TrimPrefix(url, "https://"), "/")[0] }

func (w *world) Post(_ context.Context, url string, header http.Header, body []byte) (int, error) {
	if err := w.down[host(url)]; err != nil {
		return 0, err
	}
	w.posts[host(url)] = append(w.posts[host(url)], post{header, string(body)})
	if s := w.status[host(url)]; s != 0 {
		return s, nil
	}
	return http.StatusOK, nil
}

func (w *world) CheckEndpoint(url string) error {
	if strings.Contains(url, "127.0.0.1") {
		return hub.Errorf(hub.CodePolicy, "test", "loopback")
	}
	return nil
}

// pass lets time pass in steps, as Run does, without waiting.
func (w *world) pass(d time.Duration) {
	w.t.Helper()
	for end := w.now.Add(d); !w.now.After(end); w.now = w.now.Add(max(time.Second, d/30)) {
		w.do(w.Watch(w.t.Context(), w.store))
		for _, t := range w.targets {
			for range 5 {
				next, err := w.Deliver(w.t.Context(), w.store, t.Name)
				w.do(err)
				if next.After(w.now) {
					break
				}
			}
		}
	}
}

func held(ids ...string) (out []Wait) {
	for _, id := range ids {
		out = append(out, Wait{Kind: "held", ID: id, Agent: "planner", Fact: "a message from planner needs your approval", Text: "text of " + id, Command: "parley approve " + id})
	}
	return out
}

// ids returns the things that a target with the template json was told of, in order.
func (w *world) ids(name string) (waits, ended []string) {
	w.t.Helper()
	for _, p := range w.posts[name+".example"] {
		var n notice
		w.do(json.Unmarshal([]byte(p.body), &n))
		for _, i := range n.Waits {
			waits = append(waits, i.ID)
		}
		for _, i := range n.Ended {
			ended = append(ended, i.ID)
		}
	}
	return waits, ended
}

func hook(name string) Target {
	return Target{Name: name, URL: "https://" + name + ".example/hook", Secret: secret}
}

func want(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func TestTargets(t *testing.T) {
	operator := hub.Caller{Kind: hub.CallerOperator, ID: hub.Operator}

	t.Run("a target that is down for an hour delays no other and loses nothing", func(t *testing.T) {
		w := newWorld(t, hook("ops"), hook("desk"))
		w.down["ops.example"] = hub.Errorf(hub.CodeUnreachable, "test", "ops.example cannot be reached")
		var all []string
		for i := range 60 {
			id := fmt.Sprintf("m%02d", i)
			all = append(all, id)
			w.waiting.Items = append(w.waiting.Items, held(id)...)
			if i == 30 { // the hub is started again meanwhile
				w.restart(hook("ops"), hook("desk"))
			}
			w.pass(time.Minute)
			if told, _ := w.ids("desk"); len(told) != i+1 {
				t.Fatalf("minute %d: desk was told of %d things", i, len(told))
			}
		}
		if told, _ := w.ids("ops"); len(told) != 0 {
			t.Fatalf("a target that is down was told: %v", told)
		}
		states, err := w.States(t.Context(), operator)
		if w.do(err); states[0].Waiting != 60 || states[0].Tries < 10 || states[0].Tries > 40 || states[0].Problem == "" || states[1].Waiting != 0 {
			t.Errorf("got %+v", states)
		}
		delete(w.down, "ops.example")
		w.pass(maxRetry + time.Minute)
		for _, name := range []string{"ops", "desk"} {
			told, _ := w.ids(name)
			want(t, name, told, all...)
		}
	})

	t.Run("an event reaches the targets that want it, with its text, and waits for nobody", func(t *testing.T) {
		other := hook("night")
		other.Events = []string{"held"}
		w := newWorld(t, hook("ops"), other)
		happen := func(id string) {
			t.Helper()
			w.do(w.store.Update(t.Context(), hub.SurvivesKill, func(tx hub.Tx) error {
				return w.Tell(tx, Wait{Kind: "broken", ID: id, Fact: "a contract is broken", Command: "parley contract show " + id})
			}))
		}
		happen("c1") // before the targets have looked at the journal
		w.pass(20 * time.Second)
		happen("c2")
		happen("c3")
		w.pass(20 * time.Second)
		if got := w.posts["ops.example"]; len(got) != 2 || len(w.posts["night.example"]) != 0 {
			t.Fatalf("got %d and %d notices", len(got), len(w.posts["night.example"]))
		}
		var one, two notice
		w.do(json.Unmarshal([]byte(w.posts["ops.example"][0].body), &one))
		w.do(json.Unmarshal([]byte(w.posts["ops.example"][1].body), &two))
		if len(one.Waits) != 0 || len(one.Events) != 1 || one.Events[0].Text != "text of c1" || len(two.Events) != 2 {
			t.Errorf("got %+v and %+v", one, two)
		}
		want(t, "text", strings.Split(one.text(), "\n"), "Parley: broken", "- broken: a contract is broken: text of c1 (parley contract show c1)")
		w.restart(other)
		before, err := hub.Read(t.Context(), w.store, func(r hub.Reader) (hub.Head, error) { return hub.HeadOf(r) })
		w.do(err)
		happen("c4")
		after, err := hub.Read(t.Context(), w.store, func(r hub.Reader) (hub.Head, error) { return hub.HeadOf(r) })
		if w.do(err); before.Seq != after.Seq {
			t.Error("an event that no target wants is in the journal")
		}
	})

	t.Run("an answer is seen by the targets that were told of the question", func(t *testing.T) {
		quietly := hook("night")
		quietly.Events = []string{"held"}
		w := newWorld(t, hook("ops"), quietly)
		w.waiting.Items = held("m1", "m2")
		w.pass(20 * time.Second)
		w.waiting.Items = held("m2")
		w.pass(20 * time.Second)
		w.waiting.Items = held("m2", "m3")
		w.pass(2 * time.Second)
		w.waiting.Items = held("m2") // before anybody was told
		w.pass(20 * time.Second)
		told, ended := w.ids("ops")
		want(t, "told", told, "m1", "m2")
		want(t, "ended", ended, "m1", "m3")
		told, ended = w.ids("night")
		want(t, "told without the event ended", told, "m1", "m2")
		want(t, "ended without the event ended", ended, "m3")
		w.pass(20 * time.Minute)
		if n := len(w.posts["ops.example"]); n != 3 {
			t.Errorf("got %d notices, want 3: nothing changed", n)
		}
	})

	t.Run("text of high sensitivity never leaves, and none is stored", func(t *testing.T) {
		w := newWorld(t, hook("ops"), Target{Name: "slack", URL: "https://slack.example/x", Template: TemplateSlack}, Target{Name: "discord", URL: "https://discord.example/x", Template: TemplateDiscord}, Target{Name: "ntfy", URL: "https://ntfy.example/alerts", Template: TemplateNtfy})
		w.waiting.Items = held("m1", "m2")
		w.waiting.Items[0].Text, w.waiting.Items[0].Private = "the password is 1234", true
		w.waiting.Items[1].Text = "@everyone <!channel> drop\nthe table \x1b[2J \u00ad\u202e\U000e0041" + strings.Repeat("long ", 200)
		w.pass(20 * time.Second)
		for name, posts := range w.posts {
			if len(posts) != 1 || strings.Contains(posts[0].body, "password") || !strings.Contains(posts[0].body, "the table") || !strings.Contains(posts[0].body, "parley approve m1") {
				t.Errorf("%s: got %v", name, posts)
			}
			if len(posts[0].body) > 2500 || strings.Contains(posts[0].body, "u001b[2J ") && name != "ops.example" {
				t.Errorf("%s: %d bytes", name, len(posts[0].body))
			}
			if found := hostiletest.Find(posts[0].body); found != "" && name != "ops.example" {
				t.Errorf("%s: %s", name, found)
			}
		}
		if body := w.posts["slack.example"][0].body; strings.Contains(body, "<!channel>") {
			t.Errorf("an agent can call a Slack channel: %s", body)
		}
		if body := w.posts["discord.example"][0].body; !strings.Contains(body, `"allowed_mentions":{"parse":[]}`) {
			t.Errorf("an agent can call everyone on Discord: %s", body)
		}
		if body := w.posts["ntfy.example"][0].body; !strings.Contains(body, `"topic":"alerts"`) {
			t.Errorf("got %s", body)
		}
		entries, err := hub.Read(t.Context(), w.store, func(r hub.Reader) ([]hub.Entry, error) { return r.Journal(hub.JournalQuery{Limit: 100}) })
		w.do(err)
		for _, e := range entries {
			if strings.Contains(string(e.Facts), "table") || strings.Contains(string(e.Facts), "password") {
				t.Errorf("the journal has text: %s", e.Facts)
			}
		}
	})

	t.Run("a webhook is signed", func(t *testing.T) {
		w := newWorld(t, hook("ops"))
		w.waiting.Items = held("m1")
		w.pass(20 * time.Second)
		p := w.posts["ops.example"][0]
		mac := hmac.New(sha256.New, secret)
		fmt.Fprintf(mac, "%s.%s.%s", p.header.Get("Webhook-Id"), p.header.Get("Webhook-Timestamp"), p.body)
		if got, want := p.header.Get("Webhook-Signature"), "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})

	t.Run("a burst is one notice, and a long one several", func(t *testing.T) {
		w := newWorld(t, hook("ops"))
		for i := range 5 {
			w.waiting.Items = append(w.waiting.Items, held(fmt.Sprint("m", i))...)
			w.pass(time.Second)
		}
		w.pass(15 * time.Second)
		if n := len(w.posts["ops.example"]); n != 1 {
			t.Errorf("got %d notices, want 1", n)
		}
		for i := range 50 {
			w.waiting.Items = append(w.waiting.Items, held(fmt.Sprint("n", i))...)
		}
		w.pass(30 * time.Second)
		if told, _ := w.ids("ops"); len(told) != 55 || len(w.posts["ops.example"]) != 4 {
			t.Errorf("got %d things in %d notices", len(told), len(w.posts["ops.example"]))
		}
	})

	t.Run("quiet hours end with one notice", func(t *testing.T) {
		q := hook("ops")
		q.Quiet = "22:00-07:00"
		w := newWorld(t, q)
		w.now = time.Date(2026, 2, 21, 23, 0, 0, 0, time.UTC)
		w.waiting.Items = held("m1")
		w.pass(time.Minute)
		w.now = time.Date(2026, 2, 22, 6, 59, 0, 0, time.UTC)
		w.waiting.Items = held("m1", "m2")
		w.pass(30 * time.Second)
		if n := len(w.posts["ops.example"]); n != 0 {
			t.Fatalf("got %d notices in quiet hours", n)
		}
		w.pass(time.Minute)
		if told, _ := w.ids("ops"); len(told) != 2 || len(w.posts["ops.example"]) != 1 {
			t.Errorf("got %v in %d notices", told, len(w.posts["ops.example"]))
		}
	})

	t.Run("a refused notice is a dead letter, and is sent again", func(t *testing.T) {
		w := newWorld(t, hook("ops"))
		w.status["ops.example"] = http.StatusNotFound
		w.waiting.Items = held("m1", "m2")
		w.pass(20 * time.Second)
		w.waiting.Items = held("m1", "m2", "m3")
		w.pass(20 * time.Second)
		states, err := w.States(t.Context(), operator)
		if w.do(err); states[0].Dead != 3 || states[0].Waiting != 0 || len(w.posts["ops.example"]) != 2 {
			t.Fatalf("got %+v after %d attempts", states[0], len(w.posts["ops.example"]))
		}
		clear(w.status)
		clear(w.posts)
		if n, err := w.Replay(t.Context(), operator, ""); n != 3 || err != nil {
			t.Errorf("got %d, %v", n, err)
		}
		w.pass(5 * time.Second)
		told, _ := w.ids("ops")
		want(t, "told", told, "m1", "m2", "m3")
		if n, _ := w.Replay(t.Context(), operator, "ops"); n != 0 {
			t.Errorf("%d letters are dead still", n)
		}
		if _, err := w.Replay(t.Context(), hub.Caller{Kind: hub.CallerAgent, ID: "mallory"}, ""); hub.CodeOf(err) != hub.CodeDenied {
			t.Errorf("an agent may replay: %v", err)
		}
	})

	t.Run("a notice is given up after its time", func(t *testing.T) {
		g := hook("ops")
		g.GiveUp = time.Hour
		w := newWorld(t, g)
		w.down["ops.example"] = hub.Errorf(hub.CodeUnreachable, "test", "down")
		w.waiting.Items = held("m1")
		w.pass(time.Hour + maxRetry + time.Minute)
		states, err := w.States(t.Context(), operator)
		if w.do(err); states[0].Dead != 1 {
			t.Errorf("got %+v", states[0])
		}
	})

	t.Run("a thing that flaps is told of once", func(t *testing.T) {
		w := newWorld(t, Target{Name: "ops", URL: "https://ops.example/", Secret: secret, Events: []string{"stuck"}})
		for range 5 {
			w.waiting.Items = []Wait{{Kind: "stuck", ID: "builder", Fact: "builder is stuck"}}
			w.pass(30 * time.Second)
			w.waiting.Items = nil
			w.pass(30 * time.Second)
		}
		told, _ := w.ids("ops")
		want(t, "told", told, "builder")
	})

	t.Run("a part of a list ends nothing", func(t *testing.T) {
		w := newWorld(t, hook("ops"))
		w.waiting.Items = []Wait{{Kind: "mail", ID: "m1", Fact: "planner wrote to you"}}
		w.pass(20 * time.Second)
		w.waiting = Waiting{Partial: []string{"mail"}}
		w.pass(20 * time.Second)
		if _, ended := w.ids("ops"); len(ended) != 0 {
			t.Errorf("ended: %v", ended)
		}
		w.waiting.Items = held("m2") // something else begins to wait at the same time
		w.pass(20 * time.Second)
		waits, ended := w.ids("ops")
		want(t, "told", waits, "m1", "m2")
		want(t, "ended", ended)
	})

	t.Run("a new target is told of what waits, and not of the past", func(t *testing.T) {
		w := newWorld(t, hook("ops"))
		w.waiting.Items = held("m1", "m2")
		w.pass(20 * time.Second)
		w.waiting.Items = held("m2")
		w.pass(20 * time.Second)
		w.restart(hook("ops"), hook("late"))
		w.pass(20 * time.Second)
		told, _ := w.ids("late")
		want(t, "told", told, "m2")

		w.waiting.Items = nil
		w.pass(20 * time.Second)
		w.restart(hook("ops"), hook("late"), hook("last"))
		w.pass(20 * time.Second)
		if got := w.posts["last.example"]; len(got) > 0 {
			t.Errorf("nothing waits, and it was told %+v", got)
		}
	})

	t.Run("an answer that may change is tried again", func(t *testing.T) {
		for _, status := range []int{http.StatusInternalServerError, http.StatusServiceUnavailable, http.StatusTooManyRequests, http.StatusRequestTimeout} {
			w := newWorld(t, hook("ops"))
			w.status["ops.example"] = status
			w.waiting.Items = held("m1")
			w.pass(20 * time.Second)
			clear(w.status)
			clear(w.posts)
			w.pass(time.Minute)
			told, _ := w.ids("ops")
			want(t, fmt.Sprint("told after ", status), told, "m1")
			states, err := w.States(t.Context(), operator)
			if w.do(err); states[0].Dead != 0 {
				t.Errorf("%d: got %+v", status, states[0])
			}
		}
	})

	t.Run("words of agents call nobody in Slack or Discord", func(t *testing.T) {
		w := newWorld(t, Target{Name: "slack", URL: "https://slack.example/x", Template: TemplateSlack}, Target{Name: "discord", URL: "https://discord.example/x", Template: TemplateDiscord})
		w.waiting.Items = held("m1")
		w.waiting.Items[0].Text = "<!channel> <@U1> @everyone"
		w.pass(20 * time.Second)
		var slack struct{ Text string }
		w.do(json.Unmarshal([]byte(w.posts["slack.example"][0].body), &slack))
		if strings.ContainsAny(slack.Text, "<>") || !strings.Contains(slack.Text, "&lt;!channel&gt;") {
			t.Errorf("Slack got %q", slack.Text)
		}
		if body := w.posts["discord.example"][0].body; !strings.Contains(body, `"allowed_mentions":{"parse":[]}`) {
			t.Errorf("Discord got %s", body)
		}
	})

	t.Run("a command gets the text, and no shell reads it", func(t *testing.T) {
		out := filepath.Join(t.TempDir(), "out")
		w := newWorld(t, Target{Name: "desk", Command: []string{"/bin/sh", "-c", `cat > "$1"; printf %s "$2" >> "$1"`, "sh", out, "{text}"}})
		w.waiting.Items = held("m1")
		w.waiting.Items[0].Text = "$(touch /tmp/parley-was-here) `id`"
		w.pass(20 * time.Second)
		got, err := os.ReadFile(out)
		w.do(err)
		if strings.Count(string(got), "$(touch /tmp/parley-was-here) `id`") != 2 || !strings.Contains(string(got), "one item is waiting for you") {
			t.Errorf("got %s", got)
		}
		reports, err := w.Test(t.Context(), operator, "desk")
		if w.do(err); len(reports) != 1 || !reports[0].Taken {
			t.Errorf("got %+v", reports)
		}
		w.restart(Target{Name: "desk", Command: []string{"/bin/sh", "-c", "echo no display >&2; exit 3"}})
		reports, err = w.Test(t.Context(), operator, "")
		if w.do(err); reports[0].Taken || !strings.Contains(reports[0].Problem, "no display") {
			t.Errorf("got %+v", reports)
		}
	})
}

// R3-083: the delivery channel of people.
func TestPeopleChannel(t *testing.T) {
	t.Run("R3-083 a batch is queued once, without text, and accepted when a target took it", func(t *testing.T) {
		w := newWorld(t, hook("ops"))
		c := w.Channel()
		b := channel.Batch{ID: "w_1", Recipient: "builder", Messages: []hub.Envelope{{ID: "m1", From: "planner", Topic: "secrets", Type: hub.TypeStatusBlocked, Priority: hub.PriorityCritical}}}
		w.down["ops.example"] = hub.Errorf(hub.CodeUnreachable, "test", "down")
		for range 2 { // after a crash it is delivered again
			if o, err := c.Deliver(t.Context(), b); err != nil || o.State != channel.Waiting || o.Proof < 24*time.Hour {
				t.Fatalf("got %+v, %v", o, err)
			}
		}
		w.pass(time.Minute)
		if len(w.moved) != 0 {
			t.Errorf("the ledger moved while the target was down: %v", w.moved)
		}
		clear(w.down)
		w.pass(2 * time.Minute)
		want(t, "ledger", w.moved, "builder w_1 accepted")
		if n := len(w.posts["ops.example"]); n != 1 {
			t.Fatalf("got %d notices", n)
		}
		body := w.posts["ops.example"][0].body
		if !strings.Contains(body, "messages are waiting for builder: 1 critical status.blocked") || strings.Contains(body, "secrets") {
			t.Errorf("got %s", body)
		}
	})
	t.Run("a batch with a critical message waits for no others, and takes those that wait with it", func(t *testing.T) {
		w := newWorld(t, hook("ops"))
		deliver := func(id string, p hub.Priority) {
			t.Helper()
			_, err := w.Channel().Deliver(t.Context(), channel.Batch{ID: id, Recipient: "builder", Messages: []hub.Envelope{{ID: "m1", Type: hub.TypeStatusBlocked, Priority: p}}})
			w.do(err)
			w.pass(0)
		}
		deliver("w_1", hub.PriorityHigh)
		want(t, "ledger before", w.moved)
		deliver("w_2", hub.PriorityCritical)
		want(t, "ledger", w.moved, "builder w_1 accepted", "builder w_2 accepted")
		if n := len(w.posts["ops.example"]); n != 1 || !strings.Contains(w.posts["ops.example"][0].body, `"urgent":true`) {
			t.Errorf("got %d notices: %+v", n, w.posts)
		}
	})
	t.Run("R3-083 the ledger says that nobody took a batch", func(t *testing.T) {
		w := newWorld(t, hook("ops"))
		w.status["ops.example"] = http.StatusGone
		w.do(func() error {
			_, err := w.Channel().Deliver(t.Context(), channel.Batch{ID: "w_1", Recipient: "builder"})
			return err
		}())
		w.pass(20 * time.Second)
		want(t, "ledger", w.moved, "builder w_1 failed")
	})
	t.Run("a check fails while no target can work", func(t *testing.T) {
		local := hook("ops")
		local.URL = "https://127.0.0.1/x"
		if err := newWorld(t, local).Channel().Check(t.Context()); hub.CodeOf(err) != hub.CodePolicy {
			t.Errorf("got %v", err)
		}
		if err := newWorld(t, local, hook("desk")).Channel().Check(t.Context()); err != nil {
			t.Errorf("got %v", err)
		}
		quiet := hook("ops")
		quiet.Events = []string{"held"}
		if c := newWorld(t, quiet).Channel(); c != nil {
			t.Error("there is a channel without a target that takes messages")
		}
	})
}

func TestTargetsThatAreRefused(t *testing.T) {
	good := hook("ops")
	change := func(f func(*Target)) Target { t := good; f(&t); return t }
	for name, targets := range map[string][]Target{
		"no name":            {change(func(t *Target) { t.Name = "" })},
		"two of a name":      {good, good},
		"neither":            {{Name: "ops"}},
		"both":               {change(func(t *Target) { t.Command = []string{"x"} })},
		"an unknown event":   {change(func(t *Target) { t.Events = []string{"hold"} })},
		"an unknown form":    {change(func(t *Target) { t.Template = "teams" })},
		"an unsigned hook":   {change(func(t *Target) { t.Secret = nil })},
		"odd quiet hours":    {change(func(t *Target) { t.Quiet = "22-7" })},
		"hours that are not": {change(func(t *Target) { t.Quiet = "22:00-27:00" })},
		"a long batch":       {change(func(t *Target) { t.Batch = 2 * time.Hour })},
		"a secret command":   {{Name: "ops", Command: []string{"x"}, Secret: secret}},
	} {
		if _, err := New(nil, targets, Options{Kinds: []string{"held"}}); hub.CodeOf(err) != hub.CodeInvalid {
			t.Errorf("%s: got %v", name, err)
		}
	}
}
