package attention_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/coord"
	"github.com/parley-agents/parley/internal/service/attention"
	"github.com/parley-agents/parley/internal/service/keys"
	"github.com/parley-agents/parley/internal/service/mailroom"
	"github.com/parley-agents/parley/internal/service/team"
	"github.com/parley-agents/parley/internal/testing/storetest"
)

var (
	operator = hub.Caller{Kind: hub.CallerOperator, ID: hub.Operator, Role: hub.RoleCoordinator, Auditor: true}
	auditor  = hub.Caller{Kind: hub.CallerAgent, ID: "auditor", Role: hub.RoleReviewer, Auditor: true}
	viewer   = hub.Caller{Kind: hub.CallerViewer, ID: "viewer", Auditor: true}
	planner  = hub.Caller{Kind: hub.CallerAgent, ID: "planner", Role: hub.RoleCoordinator}
)

// A desk is the list on a real store, with services that put things on it.
type desk struct {
	*attention.Service
	t     *testing.T
	store hub.Store
	mail  *mailroom.Mailroom
	teams *team.Service
	ids   *hub.IDs

	questions []attention.Question
	blocked   []attention.Blocked
	free      int64
}

func open(t *testing.T) *desk {
	t.Helper()
	now := time.Date(2026, 2, 21, 9, 0, 0, 0, time.UTC)
	clock := hub.Clock(func() time.Time { now = now.Add(time.Millisecond); return now })
	d := &desk{t: t, store: storetest.Open(t, t.TempDir()), ids: hub.NewIDs(clock), free: -1}
	who := keys.New(d.store, &keys.Options{Clock: clock})
	_, err := who.EnsureOperator(t.Context(), "")
	d.must(err)
	for _, a := range []hub.Agent{{ID: "planner", Role: hub.RoleCoordinator}, {ID: "builder", Role: hub.RoleExecutor}, {ID: "auditor", Role: hub.RoleReviewer, Auditor: true}} {
		_, _, _, err := who.AddAgent(t.Context(), operator, a, keys.NewKey{})
		d.must(err)
	}
	d.mail, err = mailroom.New(d.store, who, &mailroom.Options{Clock: clock, Limits: mailroom.Limits{Unsafe: true}, Features: hub.Features})
	d.must(err)
	d.teams, err = team.New(d.store, d.mail, &team.Options{Clock: clock})
	d.must(err)
	d.Service = attention.New(d.store, mailroom.Headline)
	return d
}

func (d *desk) must(err error) {
	d.t.Helper()
	if err != nil {
		d.t.Fatal(err)
	}
}

// Questions, Blocked, Free, Overdue and Inbox are the sources of the desk.
func (d *desk) Questions(context.Context) ([]attention.Question, error) { return d.questions, nil }
func (d *desk) Blocked(context.Context) ([]attention.Blocked, error)    { return d.blocked, nil }
func (d *desk) Free() int64                                             { return d.free }

func (d *desk) Overdue(ctx context.Context) (out []attention.Overdue, err error) {
	list, err := d.mail.Overdue(ctx, operator)
	for _, o := range list {
		out = append(out, attention.Overdue{Message: o.Message, By: o.By, Missing: o.Missing})
	}
	return out, err
}

func (d *desk) Inbox(ctx context.Context) ([]hub.Envelope, int, error) {
	in, err := d.mail.Inbox(ctx, operator, mailroom.InboxRequest{Peek: true})
	return in.Messages, in.Unread - len(in.Messages), err
}

// list returns what waits, as an actor sees it.
func (d *desk) list(actor hub.Caller) (attention.Waiting, []attention.Item) {
	d.t.Helper()
	got, err := d.Waiting(d.t.Context(), actor, attention.Sources{Keeper: d, Files: d, Mail: d, Disk: d})
	d.must(err)
	return got, got.Items(mailroom.Headline)
}

// keysOf returns the names of items.
func keysOf(items []attention.Item) (out []string) {
	for _, i := range items {
		out = append(out, i.Key())
	}
	return out
}

func (d *desk) want(actor hub.Caller, want ...string) {
	d.t.Helper()
	if _, items := d.list(actor); !slices.Equal(keysOf(items), want) {
		d.t.Errorf("%s sees %q, want %q", actor.ID, keysOf(items), want)
	}
}

// hold sends a message that waits for the operator.
func (d *desk) hold(text string) hub.EnvelopeID {
	d.t.Helper()
	r, err := d.mail.Send(d.t.Context(), planner, mailroom.Draft{
		To: []hub.AgentID{"builder"}, Type: hub.TypeStatusUpdate, Text: text, Policy: &hub.Policy{HumanGate: hub.GateRequired},
	})
	d.must(err)
	return r.ID
}

// tell writes a notice about something that waits to the operator.
func (d *desk) tell(text string, about hub.NoticeSubject) hub.EnvelopeID {
	d.t.Helper()
	payload, err := json.Marshal(map[string]any{"summary": text, hub.NoticeMember: about})
	d.must(err)
	var m hub.Message
	d.must(d.store.Update(d.t.Context(), hub.SurvivesKill, func(tx hub.Tx) error {
		m, err = d.mail.Notify(tx, hub.Envelope{To: []hub.AgentID{hub.Operator}, Type: hub.TypeStatusUpdate, Priority: hub.PriorityHigh, Payload: payload})
		return err
	}))
	return m.ID
}

// propose stores a handoff.
func (d *desk) propose(task string, change func(*hub.Handoff)) hub.HandoffID {
	d.t.Helper()
	id := hub.HandoffID(d.ids.Next())
	at := hub.EnvelopeID(id).Time()
	h := hub.Handoff{
		ID: id, ThreadID: string(id), TaskID: task, From: "planner", To: "builder", Title: "Title of " + task, Reason: "requested",
		Package: json.RawMessage(`{"provenance":{"origin_session":"s"},"task":{"x":1},"verification":{"package_hash":"abc"}}`), Hash: "abc", Status: hub.HandoffProposed, InitiatedAt: at, NeedsHuman: true,
	}
	change(&h)
	d.must(d.store.Update(d.t.Context(), hub.SurvivesKill, func(tx hub.Tx) error {
		return tx.PutHandoff(h, "", &hub.HandoffStep{State: h.Status, At: at, Actor: h.From})
	}))
	return id
}

// gate makes a team whose decisions wait for the operator, and asks for one.
func (d *desk) gate() string {
	d.t.Helper()
	_, err := d.teams.Perform(d.t.Context(), planner, "auth", team.Create{Objective: "o", Policy: &team.Policy{HumanGateActions: []string{"decide"}}})
	d.must(err)
	out, err := d.teams.Perform(d.t.Context(), planner, "auth", team.Decide{Decision: "d", Rationale: "r"})
	d.must(err)
	return out.ID
}

func same(*hub.Handoff) {}

func TestWaiting(t *testing.T) {
	t.Run("messages, tasks and operations of teams wait with their short ids", func(t *testing.T) {
		d := open(t)
		message := d.hold("deploy")
		task := d.propose("T-1", same)
		operation := d.gate()
		d.want(operator, "held "+string(message), "approval "+string(task), "approval "+operation)

		got, items := d.list(operator)
		for n, thing := range []attention.Thing{attention.ThingMessage, attention.ThingHandoff, attention.ThingOperation} {
			i := items[n]
			known := i.ShortID != "" && i.ShortID == got.ShortIDs[i.ID]
			if i.Thing != thing || !known || i.Command != "parley approve "+string(i.ShortID) || i.Yes != "approve" || i.No != "deny" || i.Since.IsZero() || i.Agent != "planner" {
				t.Errorf("%s: got %+v", thing, i)
			}
		}
		if items[0].Title != "deploy" || items[1].Title != "Title of T-1" {
			t.Errorf("titles: got %q and %q", items[0].Title, items[1].Title)
		}
	})
	t.Run("a decided thing waits no more", func(t *testing.T) {
		d := open(t)
		message := d.hold("deploy")
		operation := d.gate()
		_, err := d.mail.Approve(t.Context(), operator, message)
		d.must(err)
		_, err = d.teams.Deny(t.Context(), operator, operation, "no")
		d.must(err)
		got, _ := d.list(operator)
		if len(got.Messages)+len(got.Operations) > 0 {
			t.Errorf("got %+v", got)
		}
	})
	t.Run("approvals on later pages are listed", func(t *testing.T) {
		d := open(t)
		d.SetPage(2)
		var want []string
		for n := range 7 {
			needs := n%3 == 0
			id := d.propose(fmt.Sprint("T-", n), func(h *hub.Handoff) { h.NeedsHuman = needs })
			if needs {
				want = append(want, "approval "+string(id))
			}
		}
		slices.Reverse(want)
		d.want(operator, want...)
	})
	t.Run("a question of an agent, a peer and a low disk wait for the operator", func(t *testing.T) {
		d := open(t)
		d.questions = []attention.Question{{Agent: "builder", Number: 2, Text: "rm -r", Once: "once"}, {Agent: "builder", Number: 3, Text: "rm"}}
		d.free = 5 << 20
		peer := hub.Peer{AID: "aid://shop.example/hub@1.0.0", State: hub.PeerPending, Access: coord.AccessNone, Health: hub.HealthUp, Endpoint: "https://shop.example"}
		d.must(d.store.Update(t.Context(), hub.SurvivesKill, func(tx hub.Tx) error { return tx.PutPeer(peer) }))
		d.want(operator, "disk home", "question builder 2", "question builder 3", "peer aid://shop.example/hub@1.0.0")
		d.want(auditor, "question builder 2", "question builder 3")

		_, items := d.list(operator)
		if yes, none := items[1], items[2]; yes.Yes != "allow once" || yes.Answer != (attention.Answer{Question: 2, Choice: "once"}) || none.Yes != "" || none.No != "deny" {
			t.Errorf("got %+v and %+v", yes, none)
		}
	})
	t.Run("an agent that waits for a file, and a violation until it is read", func(t *testing.T) {
		d := open(t)
		d.blocked = []attention.Blocked{{ID: "builder /app/a.go", Agent: "builder", Tree: "/app", Path: "a.go", Holder: "planner", Reservation: "r3"}}
		d.tell("builder has waited for a.go for 30 min", hub.NoticeSubject{Kind: hub.NoticeBlocked, ID: "builder /app/a.go"})
		violated := d.tell("a command of builder changed b.go, which planner holds", hub.NoticeSubject{Kind: hub.NoticeViolation, ID: "r4"})
		d.want(operator, "violation "+string(violated), "blocked builder /app/a.go")
		d.want(auditor, "blocked builder /app/a.go")

		got, items := d.list(operator)
		if about := got.About(items[1]); len(about) != 1 || items[1].Title != "a.go" || items[1].Agent != "builder" {
			t.Errorf("got %+v with the notices %v", items[1], about)
		}
		if v := items[0]; v.Yes != "mark as read" || !strings.Contains(v.Title, "b.go") || strings.Contains(v.Fact, "b.go") {
			t.Errorf("got %+v", v)
		}
		_, err := d.mail.Inbox(t.Context(), operator, mailroom.InboxRequest{Ack: []hub.EnvelopeID{violated}})
		d.must(err)
		d.blocked = nil
		if _, items := d.list(operator); len(items) != 1 || items[0].Kind != attention.KindMail {
			t.Errorf("after both are over: got %v", keysOf(items))
		}
	})
	t.Run("agents list nothing, and auditors and viewers no titles of restricted tasks", func(t *testing.T) {
		d := open(t)
		d.propose("T-1", func(h *hub.Handoff) { h.Restricted = true })
		if _, err := d.Waiting(t.Context(), planner, attention.Sources{}); hub.CodeOf(err) != hub.CodeDenied {
			t.Errorf("an agent: got %v", err)
		}
		for who, want := range map[*hub.Caller]string{&operator: "Title of T-1", &auditor: hub.RestrictedText, &viewer: hub.RestrictedText} {
			if _, items := d.list(*who); len(items) != 1 || items[0].Title != want || !items[0].Private {
				t.Errorf("%s: got %+v", who.ID, items)
			}
		}
	})
	t.Run("the error of a source is that of the list", func(t *testing.T) {
		d := open(t)
		broken := errors.New("broken")
		_, err := d.Waiting(t.Context(), operator, attention.Sources{Keeper: failing{broken}})
		if !errors.Is(err, broken) {
			t.Errorf("got %v", err)
		}
	})
}

// A failing source has no answer.
type failing struct{ err error }

func (f failing) Questions(context.Context) ([]attention.Question, error) { return nil, f.err }

func TestNotices(t *testing.T) {
	ask := func(d *desk, id string) {
		d.must(d.store.Update(d.t.Context(), hub.SurvivesKill, func(tx hub.Tx) error {
			_, err := d.mail.AskOperator(tx, "builder asks: rm; yes or no: parley agent answer "+id, hub.NoticeSubject{Kind: hub.NoticeQuestion, ID: id})
			return err
		}))
	}
	t.Run("a thing and the notice about it are one item", func(t *testing.T) {
		d := open(t)
		d.questions = []attention.Question{{Agent: "builder", Number: 2}}
		ask(d, "builder 2")
		operation := d.gate()
		d.want(operator, "question builder 2", "approval "+operation)
		got, items := d.list(operator)
		if about := got.About(items[0]); len(about) != 1 || len(got.Notices) != 2 || len(got.Inbox) != 0 {
			t.Errorf("got %v of %+v", about, got.Notices)
		}
		if about := got.About(items[1]); !slices.Equal(about, []hub.EnvelopeID{hub.EnvelopeID(operation)}) {
			t.Errorf("got %v, want the request itself", about)
		}
	})
	t.Run("a notice about a thing that waits no more is mail", func(t *testing.T) {
		d := open(t)
		d.questions = []attention.Question{{Agent: "builder", Number: 3}}
		ask(d, "builder 2")
		if got, items := d.list(operator); len(items) != 2 || items[1].Kind != attention.KindMail || len(got.Notices) != 0 {
			t.Errorf("got %+v", items)
		}
	})
	t.Run("a notice of an earlier version, which names nothing, is mail", func(t *testing.T) {
		d := open(t)
		d.questions = []attention.Question{{Agent: "builder", Number: 2}}
		ask(d, "")
		if got, items := d.list(operator); len(items) != 2 || items[1].Kind != attention.KindMail || len(got.Notices) != 0 {
			t.Errorf("got %+v", items)
		}
	})
	t.Run("an agent writes no notice", func(t *testing.T) {
		d := open(t)
		d.questions = []attention.Question{{Agent: "builder", Number: 2}}
		i := attention.Item{Kind: attention.KindQuestion, ID: "builder 2"}
		about := json.RawMessage(`{"question":"?","about":{"kind":"question","id":"builder 2"}}`)
		mark := &hub.Context{CopyOf: &hub.CopyMark{Message: "m", From: "planner"}}
		for name, e := range map[string]hub.Envelope{
			"a message": {From: "planner", Payload: about},
			"a copy":    {From: hub.Self, Payload: about, Context: mark},
			"no object": {From: hub.Self, Payload: json.RawMessage(`{"about":"builder 2"}`)},
		} {
			if i.IsAbout(e) {
				t.Errorf("%s is taken for a notice", name)
			}
		}
		if !i.IsAbout(hub.Envelope{From: hub.Self, Payload: about}) {
			t.Error("the notice is not known")
		}
	})
}

func TestFind(t *testing.T) {
	d := open(t)
	things := map[attention.Thing]string{
		attention.ThingMessage: string(d.hold("deploy")), attention.ThingHandoff: string(d.propose("T-1", same)), attention.ThingOperation: d.gate(),
	}
	got, _ := d.list(operator)
	for thing, id := range things {
		for _, name := range []string{id, string(got.ShortIDs[id])} {
			i, err := d.Find(t.Context(), "op", operator, name)
			if err != nil || i.Thing != thing || i.ID != id || i.ShortID != got.ShortIDs[id] {
				t.Errorf("%s %s: got %+v (%v)", thing, name, i, err)
			}
		}
	}
	t.Run("a thing that was decided about is found", func(t *testing.T) {
		_, err := d.mail.Approve(t.Context(), operator, hub.EnvelopeID(things[attention.ThingMessage]))
		d.must(err)
		if i, err := d.Find(t.Context(), "op", operator, things[attention.ThingMessage]); err != nil || i.Thing != attention.ThingMessage {
			t.Errorf("got %+v (%v)", i, err)
		}
	})
	t.Run("the error about an unknown id says what to do", func(t *testing.T) {
		for _, name := range []string{"m99", "h99", "builder 2", string(d.ids.Next())} {
			_, err := d.Find(t.Context(), "op", operator, name)
			var e *hub.Error
			if !errors.As(err, &e) || e.Code != hub.CodeNotFound || !strings.Contains(e.Hint, "{held}") {
				t.Errorf("%s: got %v", name, err)
			}
		}
	})
	t.Run("agents find nothing", func(t *testing.T) {
		if _, err := d.Find(t.Context(), "op", planner, things[attention.ThingHandoff]); hub.CodeOf(err) != hub.CodeDenied {
			t.Errorf("got %v", err)
		}
	})
}

func TestKinds(t *testing.T) {
	if all := attention.Kinds(); len(all) != 16 || all[0] != attention.KindDisk || all[15] != attention.KindMail {
		t.Errorf("got %v", all)
	}
}
