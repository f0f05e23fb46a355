package mailroom_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
	"github.com/parley-agents/parley/internal/ground/strictjson"
	"github.com/parley-agents/parley/internal/service/keys"
	"github.com/parley-agents/parley/internal/service/mailroom"
)

// dba and stranger can do db; dba is a member of the team auth, and stranger of none.
var (
	dba      = hub.Caller{ID: "dba", Role: hub.RoleExecutor}
	stranger = hub.Caller{ID: "stranger", Role: hub.RoleCoordinator}
)

// openTeam returns an office with the team auth: planner coordinates, builder, tester and
// dba work.
func openTeam(t *testing.T) *office {
	t.Helper()
	o := open(t, nil)
	for _, a := range []hub.Caller{dba, stranger} {
		if _, _, _, err := o.keys.AddAgent(t.Context(), operator, hub.Agent{ID: a.ID, Role: a.Role, Can: []string{"db"}}, keys.NewKey{}); err != nil {
			t.Fatal(err)
		}
	}
	o.reopen()
	err := o.store.Update(t.Context(), hub.SurvivesKill, func(tx hub.Tx) error {
		now := hub.At(o.clock())
		if err := tx.WriteTeamspaces().PutTeam(hub.Team{ID: "auth", Lifecycle: hub.TeamActive, Policy: hub.DefaultTeamPolicy, CreatedBy: "planner", CreatedAt: now, UpdatedAt: now}); err != nil {
			return err
		}
		for agent, role := range map[hub.AgentID]hub.Role{"planner": hub.RoleCoordinator, "builder": hub.RoleExecutor, "tester": hub.RoleReviewer, "dba": hub.RoleExecutor} {
			if err := tx.WriteTeamspaces().PutMember(hub.Member{Team: "auth", Agent: agent, Role: role, Since: now, By: "planner", Reason: "joined"}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// reopen restarts the mailroom with teams.
func (o *office) reopen() {
	o.restart(func(opts *mailroom.Options) {
		opts.Features, opts.Limits.Unsafe = hub.Features, true
	})
}

func (o *office) subscribe(who hub.Caller, f hub.Filter) hub.Subscription {
	o.t.Helper()
	s, err := o.Subscribe(o.t.Context(), who, f)
	if err != nil {
		o.t.Fatalf("%s: subscribe: %v", who.ID, err)
	}
	return s
}

// toTeam is a message to tester that the team auth can read.
func toTeam(t hub.MessageType, topic, text string) mailroom.Draft {
	return mailroom.Draft{To: []hub.AgentID{"tester"}, Team: "auth", Type: t, Topic: topic, Text: text}
}

// copies returns the copies in an inbox, as by and text.
func (o *office) copies(who hub.Caller) (out []string) {
	o.t.Helper()
	for _, e := range o.inbox(who, mailroom.InboxRequest{Peek: true}).Messages {
		if c := e.CopyOf(); c != nil {
			var p struct{ Summary string }
			if err := json.Unmarshal(e.Payload, &p); err != nil {
				o.t.Fatal(err)
			}
			out = append(out, c.By+" "+p.Summary)
		}
	}
	return out
}

func (o *office) wantCopies(who hub.Caller, want ...string) {
	o.t.Helper()
	got := o.copies(who)
	if slices.Sort(got); !slices.Equal(got, want) {
		o.t.Errorf("copies of %s: got %q, want %q", who.ID, got, want)
	}
}

func TestCopies(t *testing.T) {
	t.Run("R3-170 a subscriber gets one copy of what it may see, and never a private message", func(t *testing.T) {
		o := openTeam(t)
		o.subscribe(dba, hub.Filter{Topics: []string{"schema/*"}})
		o.subscribe(dba, hub.Filter{From: []hub.AgentID{"builder"}, Types: []hub.MessageType{hub.TypeKnowledgePush}})
		o.subscribe(auditor, hub.Filter{PriorityMin: hub.PriorityLow})
		o.subscribe(stranger, hub.Filter{From: []hub.AgentID{"builder"}})
		o.subscribe(tester, hub.Filter{From: []hub.AgentID{"builder"}})
		first := o.send(builder, toTeam(hub.TypeKnowledgePush, "schema/users", "open"))
		private := toTeam(hub.TypeKnowledgePush, "schema/users", "secret")
		private.Team = ""
		o.send(builder, private)
		held := toTeam(hub.TypeKnowledgePush, "schema/users", "held")
		held.Policy = &hub.Policy{HumanGate: hub.GateRequired}
		waits := o.send(builder, held)
		denied := o.send(builder, held)
		o.elapse(20 * time.Second)
		o.wantCopies(dba, "s1 open")
		o.wantCopies(auditor, "s3 open")
		o.wantCopies(stranger)
		o.wantCopies(tester)
		if _, err := o.Approve(t.Context(), operator, waits.ID); err != nil {
			t.Fatal(err)
		}
		if _, err := o.Deny(t.Context(), operator, denied.ID, ""); err != nil {
			t.Fatal(err)
		}
		o.elapse(20 * time.Second)
		o.wantCopies(dba, "s1 held", "s1 open")

		got := o.inbox(dba, mailroom.InboxRequest{Peek: true}).Messages
		e := got[0]
		if e.From != hub.Self || e.Author() != "builder" || e.CopyOf().Message != first.ID || e.ThreadID != string(e.ID) || e.Policy.Visibility != hub.VisibilityPrivate {
			t.Errorf("copy: got %+v, want a message of the hub that names the first", e)
		}
		if status := o.message(first.ID).Status; status != hub.StatusPending {
			t.Errorf("the first message is %s, want that copies do not move it", status)
		}
		if text := mailroom.RenderMessages(got, nil, "dba"); !strings.Contains(text, "from builder (copy of "+string(first.ID)+" by s1)") {
			t.Errorf("rendered: got %s", text)
		}
		_, err := o.Respond(t.Context(), dba, mailroom.Draft{ReplyTo: e.ID, Text: "thanks"})
		if hub.CodeOf(err) != hub.CodePolicy {
			t.Errorf("an answer to a copy: got %v, want %s", err, hub.CodePolicy)
		}
		forged := say("mine", "dba")
		forged.Context = &hub.Context{CopyOf: e.CopyOf()}
		if r := o.send(builder, forged); len(r.Warnings) < 2 || o.message(r.ID).Context != nil && o.message(r.ID).Context.CopyOf != nil {
			t.Errorf("a sender marked its message as a copy: %+v", o.message(r.ID).Context)
		}
	})
	t.Run("R3-171 coordinators get what is blocked, agents get knowledge about what they can do", func(t *testing.T) {
		o := openTeam(t)
		o.send(builder, toTeam(hub.TypeStatusBlocked, "", "stuck"))
		o.send(builder, toTeam(hub.TypeStatusUpdate, "", "going on"))
		o.send(builder, toTeam(hub.TypeKnowledgePush, "db", "index it"))
		o.send(builder, toTeam(hub.TypeKnowledgePush, "css", "not theirs"))
		private := toTeam(hub.TypeStatusBlocked, "", "stuck in private")
		private.Policy = &hub.Policy{Visibility: hub.VisibilityPrivate}
		o.send(builder, private)
		o.elapse(20 * time.Second)
		o.wantCopies(planner, "role stuck")
		o.wantCopies(dba, "capability index it")
		o.wantCopies(stranger)
		o.wantCopies(hub.Caller{ID: hub.Operator, Auditor: true})
	})
	t.Run("R3-172 copies of a window come together, and a status that is repeated comes once in five minutes", func(t *testing.T) {
		o := openTeam(t)
		o.subscribe(dba, hub.Filter{Teams: []hub.TeamID{"auth"}})
		o.send(builder, toTeam(hub.TypeStatusUpdate, "", "same"))
		o.elapse(6 * time.Second)
		o.send(builder, toTeam(hub.TypeStatusUpdate, "", "same"))
		o.send(builder, toTeam(hub.TypeStatusUpdate, "", "other"))
		o.elapse(3 * time.Second)
		o.wantCopies(dba)
		o.elapse(3 * time.Second)
		o.wantCopies(dba, "s1 other", "s1 same")
		o.elapse(5 * time.Minute)
		o.send(builder, toTeam(hub.TypeStatusUpdate, "", "same"))
		o.elapse(15 * time.Second)
		o.wantCopies(dba, "s1 other", "s1 same", "s1 same")
	})
	t.Run("R3-172 a restart inside a window loses no copy and makes none twice", func(t *testing.T) {
		o := openTeam(t)
		o.subscribe(dba, hub.Filter{Teams: []hub.TeamID{"auth"}})
		for i := range 5 {
			o.send(builder, toTeam(hub.TypeStatusUpdate, "", fmt.Sprint("number ", i)))
			o.elapse(time.Second)
		}
		o.send(builder, toTeam(hub.TypeStatusUpdate, "", "while it was down"))
		o.reopen()
		for range 3 { // the second and the third time there is nothing left to do
			o.elapse(20 * time.Second)
			o.reopen()
		}
		o.wantCopies(dba, "s1 number 0", "s1 number 1", "s1 number 2", "s1 number 3", "s1 number 4", "s1 while it was down")
	})
	t.Run("an agent that leaves the team inside a window gets no copy", func(t *testing.T) {
		o := openTeam(t)
		o.subscribe(dba, hub.Filter{Teams: []hub.TeamID{"auth"}})
		o.send(builder, toTeam(hub.TypeStatusUpdate, "", "for members"))
		o.elapse(5 * time.Second)
		err := o.store.Update(t.Context(), hub.SurvivesKill, func(tx hub.Tx) error {
			m, err := tx.Teamspaces().Members(hub.MemberQuery{Team: "auth", Agent: "dba", Limit: 1})
			if err != nil {
				return err
			}
			m[0].Until, m[0].Ending = hub.At(o.clock()), "left"
			return tx.WriteTeamspaces().PutMember(m[0])
		})
		if err != nil {
			t.Fatal(err)
		}
		o.elapse(20 * time.Second)
		o.wantCopies(dba)
	})
	t.Run("copies do not count among the messages of the hub", func(t *testing.T) {
		o := openTeam(t)
		o.subscribe(dba, hub.Filter{Teams: []hub.TeamID{"auth"}})
		for i := range 70 {
			o.send(builder, toTeam(hub.TypeStatusUpdate, "", fmt.Sprint("number ", i)))
		}
		o.elapse(15 * time.Second)
		if n := len(o.copies(dba)); n != 50 { // a page
			t.Errorf("got %d copies, want a page of 50", n)
		}
		var told hub.Message
		err := o.store.Update(t.Context(), hub.SurvivesKill, func(tx hub.Tx) (err error) {
			told, err = o.Notify(tx, hub.Envelope{To: []hub.AgentID{"dba"}, Type: hub.TypeStatusUpdate, Payload: json.RawMessage(`{"summary":"a notice"}`)})
			return err
		})
		if err != nil || told.ID == "" {
			t.Errorf("a notice after seventy copies: got %v (%v), want a message at once", told, err)
		}
	})
	bubble(t, "the mailroom makes them while it runs", func(t *testing.T) {
		o := openTeam(t)
		defer o.run()()
		o.subscribe(dba, hub.Filter{Teams: []hub.TeamID{"auth"}})
		o.send(builder, toTeam(hub.TypeStatusUpdate, "", "for members"))
		for range 15 {
			o.pass(time.Second)
			<-time.After(time.Second) // in the time of the bubble
		}
		o.wantCopies(dba, "s1 for members")
	})
}

func TestSubscribe(t *testing.T) {
	o := openTeam(t)
	for name, c := range map[string]struct {
		filter hub.Filter
		want   hub.Code
	}{
		"nothing":             {hub.Filter{}, hub.CodeInvalid},
		"an unknown sender":   {hub.Filter{From: []hub.AgentID{"bilder"}}, hub.CodeUnknownRecipient},
		"a team of others":    {hub.Filter{Teams: []hub.TeamID{"other"}}, hub.CodeNotFound},
		"an unknown type":     {hub.Filter{Types: []hub.MessageType{"status.upd"}}, hub.CodeInvalid},
		"handoffs":            {hub.Filter{Types: []hub.MessageType{hub.TypeHandoffInitiate}}, hub.CodeInvalid},
		"a star":              {hub.Filter{Topics: []string{"/*"}}, hub.CodeInvalid},
		"a star in a topic":   {hub.Filter{Topics: []string{"a*b"}}, hub.CodeInvalid},
		"an unknown priority": {hub.Filter{PriorityMin: "urgent"}, hub.CodeInvalid},
		"too many values":     {hub.Filter{Topics: strings.Split(strings.Repeat("a,", 5)+"b,c,d,e,f,g,h,i,j,k,l,m,n,o,p,q,r,s,t,u,v", ",")}, hub.CodeTooLarge},
	} {
		t.Run("R3-170 a filter with "+name+" is refused and nothing changes", func(t *testing.T) {
			before := o.rows()
			if _, err := o.Subscribe(t.Context(), dba, c.filter); hub.CodeOf(err) != c.want {
				t.Errorf("got %v, want %s", err, c.want)
			}
			if o.rows() != before {
				t.Error("something changed")
			}
		})
	}
	t.Run("R3-170 racing agents get subscriptions of their own, at most twenty each", func(t *testing.T) {
		var wg sync.WaitGroup
		for range 25 {
			for _, who := range []hub.Caller{dba, tester} {
				wg.Go(func() {
					if _, err := o.Subscribe(t.Context(), who, hub.Filter{Teams: []hub.TeamID{"auth"}}); err != nil && hub.CodeOf(err) != hub.CodePolicy {
						t.Errorf("%s: %v", who.ID, err)
					}
				})
			}
		}
		wg.Wait()
		ids := map[string]bool{}
		for _, who := range []hub.Caller{dba, tester} {
			mine, err := o.Subscriptions(t.Context(), who)
			if err != nil || len(mine) != mailroom.MaxSubscriptions {
				t.Errorf("%s has %d subscriptions (%v), want %d", who.ID, len(mine), err, mailroom.MaxSubscriptions)
			}
			for _, s := range mine {
				ids[s.ID] = true
			}
		}
		if all, err := o.Subscriptions(t.Context(), auditor); err != nil || len(ids) != 40 || len(all) != 40 {
			t.Errorf("got %d ids and %d for an auditor (%v), want 40", len(ids), len(all), err)
		}
	})
	t.Run("R3-170 an agent removes its own subscription, and the operator any", func(t *testing.T) {
		mine, err := o.Subscriptions(t.Context(), dba)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := o.Unsubscribe(t.Context(), tester, mine[0].ID); hub.CodeOf(err) != hub.CodeNotFound {
			t.Errorf("by another agent: got %v, want %s", err, hub.CodeNotFound)
		}
		if _, err := o.Unsubscribe(t.Context(), dba, mine[0].ID); err != nil {
			t.Error(err)
		}
		if _, err := o.Unsubscribe(t.Context(), operator, mine[1].ID); err != nil {
			t.Error(err)
		}
		if got := o.actions(mine[1].ID); !slices.Equal(got, []actions.Action{actions.Subscribed, actions.Unsubscribed}) {
			t.Errorf("journal: got %v", got)
		}
		if again := o.subscribe(dba, hub.Filter{Teams: []hub.TeamID{"auth"}}); again.ID != "s41" && again.ID <= mine[1].ID {
			t.Errorf("a new subscription has the id %s of a removed one", again.ID)
		}
	})
}

func TestTryBroadcast(t *testing.T) {
	o := open(t, nil)
	try := func(who hub.Caller, d mailroom.Draft, allowed bool, remaining int, reason string) {
		t.Helper()
		before := o.rows()
		got, err := o.TryBroadcast(t.Context(), who, d)
		if err != nil || got.Allowed != allowed || got.Remaining != remaining || !strings.HasPrefix(got.Reason, reason) || len(got.Recipients) != 4 || slices.Contains(got.Recipients, who.ID) {
			t.Errorf("got %+v (%v), want allowed %v, %d remaining, reason %q", got, err, allowed, remaining, reason)
		}
		if o.rows() != before {
			t.Error("a trial changed something")
		}
		if left := got.ResetsAt.Sub(o.clock()); left <= 0 || left > time.Hour {
			t.Errorf("resets in %v with %d remaining", left, remaining)
		}
	}
	news := mailroom.Draft{Type: hub.TypeStatusUpdate, Text: "news"}
	urgent := news
	urgent.Priority = hub.PriorityHigh
	t.Run("R3-173 a trial says who gets it, whether it is allowed and how many are left", func(t *testing.T) {
		try(planner, news, true, 5, "")
		try(builder, news, false, 5, string(hub.CodeDenied))
		try(builder, urgent, true, 5, "")
		for i := range 5 {
			d := urgent
			d.Text = fmt.Sprint("news ", i)
			if _, err := o.Broadcast(t.Context(), builder, d); err != nil {
				t.Fatal(err)
			}
			try(builder, urgent, i < 4, 4-i, map[bool]string{true: string(hub.CodeRateLimited)}[i == 4])
		}
		o.pass(time.Hour)
		try(builder, urgent, true, 5, "")
	})
	t.Run("R3-173 many trials suspend no sender, and bad input is an error", func(t *testing.T) {
		for range 10 {
			try(planner, news, true, 5, "")
		}
		bad := news
		bad.To = []hub.AgentID{"builder"}
		empty := news
		empty.Text, empty.Payload = "", strictjson.Value{}
		for _, d := range []mailroom.Draft{bad, empty} {
			if _, err := o.TryBroadcast(t.Context(), planner, d); hub.CodeOf(err) != hub.CodeInvalid {
				t.Errorf("got %v, want %s", err, hub.CodeInvalid)
			}
			if _, err := o.Broadcast(t.Context(), planner, d); hub.CodeOf(err) != hub.CodeInvalid {
				t.Errorf("got %v, want %s", err, hub.CodeInvalid)
			}
		}
	})
}

// elapse lets time pass, with the work that the mailroom does in every second.
func (o *office) elapse(d time.Duration) {
	o.t.Helper()
	for range d / time.Second {
		o.pass(time.Second)
		if err := o.Second(o.t.Context()); err != nil {
			o.t.Fatal(err)
		}
	}
}
