package event_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/coord"
	"github.com/parley-agents/parley/internal/service/event"
	"github.com/parley-agents/parley/internal/service/mailroom"
)

// comment returns a comment of a member of the repository acme/shop.
func comment(change func(*hub.Event)) hub.Event {
	e := hub.Event{Kind: hub.EventComment, State: "created", Repository: "acme/shop", Actor: "mallory", Text: "look at this", Member: true, Deliveries: []string{"d-1"}}
	change(&e)
	return e
}

func TestReceive(t *testing.T) {
	t.Run("an event is one message of its source, with the words of others in the payload alone", func(t *testing.T) {
		w := newWorld(t)
		got := w.receive(comment(func(e *hub.Event) { e.Title = "a title" }))
		if got.Outcome != hub.EventStored || !slices.Equal(got.To, []hub.AgentID{"planner"}) {
			t.Fatalf("got %+v", got)
		}
		all := w.inbox("planner")
		if len(all) != 1 || all[0].ID != got.Message || all[0].From != "in:hooks" || all[0].Type != hub.TypeEventReceived || all[0].Priority != hub.PriorityNormal {
			t.Fatalf("got %+v", all)
		}
		if e := w.eventOf(all[0]); e.Source != "hooks" || e.Text != "look at this" || e.Title != "a title" || e.Actor != "mallory" {
			t.Errorf("got %+v", e)
		}
	})
	t.Run("a repetition under any of its ids stores nothing, for seven days", func(t *testing.T) {
		w := newWorld(t)
		w.receive(comment(func(e *hub.Event) { e.Deliveries = []string{"d-1", "d-2"} }))
		for _, ids := range [][]string{{"d-1"}, {"d-9", "d-2"}} {
			if got := w.receive(comment(func(e *hub.Event) { e.Deliveries = ids })); got.Outcome != hub.EventRepeated || got.Message != "" {
				t.Errorf("%v: got %+v", ids, got)
			}
		}
		if got := w.receive(comment(func(e *hub.Event) { e.Deliveries = []string{"d-9"} })); got.Outcome != hub.EventStored {
			t.Errorf("the other id of a repetition is not noted: got %+v", got)
		}
		w.now = w.now.Add(8 * 24 * time.Hour)
		w.must(w.Sweep(t.Context()))
		if got := w.receive(comment(func(*hub.Event) {})); got.Outcome != hub.EventStored {
			t.Errorf("after eight days: got %+v", got)
		}
	})
	t.Run("ids of one source say nothing about another", func(t *testing.T) {
		w := newWorld(t)
		w.source(func(s *event.Setting) { s.Name = "others" })
		w.receive(comment(func(*hub.Event) {}))
		got, err := w.Receive(t.Context(), "others", comment(func(*hub.Event) {}))
		if err != nil || got.Outcome != hub.EventStored {
			t.Errorf("got %+v, %v", got, err)
		}
	})
	t.Run("who may wake an agent", func(t *testing.T) {
		for name, c := range map[string]struct {
			actors hub.EventActors
			event  hub.Event
			want   hub.EventOutcome
		}{
			"a member":                            {hub.ActorsMembers, comment(func(*hub.Event) {}), hub.EventStored},
			"a stranger":                          {hub.ActorsMembers, comment(func(e *hub.Event) { e.Member = false }), hub.EventQuiet},
			"a stranger where all may":            {hub.ActorsAll, comment(func(e *hub.Event) { e.Member = false }), hub.EventStored},
			"a name that the operator counts":     {hub.ActorsMembers, comment(func(e *hub.Event) { e.Member, e.Actor = false, "Robot" }), hub.EventStored},
			"a result of CI, whoever caused it":   {hub.ActorsMembers, comment(func(e *hub.Event) { e.Kind, e.Member, e.State = hub.EventCI, false, "failure" }), hub.EventStored},
			"a run of CI that has no result":      {hub.ActorsAll, comment(func(e *hub.Event) { e.Kind, e.State = hub.EventCI, "in_progress" }), hub.EventIgnored},
			"a test of the vendor":                {hub.ActorsAll, comment(func(e *hub.Event) { e.Kind = hub.EventPing }), hub.EventIgnored},
			"a comment with a state like CI's is": {hub.ActorsAll, comment(func(e *hub.Event) { e.State = "pending" }), hub.EventStored},
		} {
			t.Run(name, func(t *testing.T) {
				w := newWorld(t)
				w.source(func(s *event.Setting) {
					s.Actors = c.actors
					s.Members = []string{"robot"}
				})
				got := w.receive(c.event)
				if got.Outcome != c.want {
					t.Errorf("got %s, want %s", got.Outcome, c.want)
				}
				all := w.inbox("planner")
				if isStored := c.want != hub.EventIgnored; isStored != (len(all) == 1) {
					t.Fatalf("got %d messages", len(all))
				}
				if c.want == hub.EventQuiet && all[0].Priority != hub.PriorityLow {
					t.Errorf("got priority %s", all[0].Priority)
				}
			})
		}
	})
	t.Run("the first rule that matches decides", func(t *testing.T) {
		rules := []hub.EventRule{
			{Kind: hub.EventComment, Branch: "docs/*", Ignore: true},
			{Kind: hub.EventComment, Actor: "bot", Quiet: true},
			{Kind: hub.EventComment, To: "tester"},
			{To: "builder"},
		}
		for name, c := range map[string]struct {
			event hub.Event
			to    hub.AgentID
			want  hub.EventOutcome
		}{
			"ignored": {comment(func(e *hub.Event) { e.Branch = "docs/typo" }), "", hub.EventIgnored},
			"quiet":   {comment(func(e *hub.Event) { e.Actor = "bot" }), "planner", hub.EventQuiet},
			"to":      {comment(func(e *hub.Event) { e.Branch = "main" }), "tester", hub.EventStored},
			"last":    {comment(func(e *hub.Event) { e.Kind = hub.EventIssue }), "builder", hub.EventStored},
		} {
			t.Run(name, func(t *testing.T) {
				w := newWorld(t)
				w.source(func(s *event.Setting) { s.Rules = rules })
				got := w.receive(c.event)
				isTo := c.to == "" && len(got.To) == 0 || slices.Equal(got.To, []hub.AgentID{c.to})
				if got.Outcome != c.want || !isTo {
					t.Errorf("got %+v, want %s to %s", got, c.want, c.to)
				}
			})
		}
	})
	t.Run("a text that grows beyond a message as JSON is shortened, and anything else is refused", func(t *testing.T) {
		w := newWorld(t)
		got := w.receive(comment(func(e *hub.Event) { e.Text = strings.Repeat("\x01", hub.MaxPayload) }))
		all := w.inbox("planner")
		if got.Outcome != hub.EventStored || len(all) != 1 || len(all[0].Payload) > hub.MaxPayload || len(w.eventOf(all[0]).Text) < hub.MaxPayload/10 {
			t.Errorf("got %+v with %d messages", got, len(all))
		}
		_, err := w.Receive(t.Context(), "hooks", comment(func(e *hub.Event) {
			e.Title = strings.Repeat("x", hub.MaxPayload)
			e.Text = ""
			e.Deliveries = []string{"d-2"}
		}))
		if hub.CodeOf(err) != hub.CodePayloadTooLarge {
			t.Errorf("a title: got %v", err)
		}
		if got := w.receive(comment(func(e *hub.Event) { e.Deliveries = []string{"d-2"} })); got.Outcome != hub.EventStored {
			t.Errorf("an event that failed is not known: got %+v", got)
		}
	})
	t.Run("a source that does not exist receives nothing", func(t *testing.T) {
		w := newWorld(t)
		if _, err := w.Receive(t.Context(), "ghost", comment(func(*hub.Event) {})); hub.CodeOf(err) != hub.CodeNotFound {
			t.Errorf("got %v", err)
		}
	})
}

func TestOwner(t *testing.T) {
	const folder = "/src/shop"
	land := func(w *world, change func(*hub.LandingEntry)) {
		w.write(func(tx hub.Tx) error {
			e := hub.LandingEntry{Repository: folder, Into: "main", Ref: "words", Branch: "words", Commit: "c0ffee", Owner: "builder", Priority: hub.PriorityNormal, State: hub.EntryQueued, QueuedAt: hub.At(w.now)}
			change(&e)
			_, err := tx.WriteLandings().PutEntry(e)
			return err
		})
	}
	for name, c := range map[string]struct {
		prepare func(*world)
		event   hub.Event
		to      hub.AgentID
		quiet   bool
	}{
		"the commit of a landing": {
			prepare: func(w *world) { land(w, func(*hub.LandingEntry) {}) },
			event:   hub.Event{Kind: hub.EventCI, State: "failure", Repository: "acme/shop", Commit: "c0ffee"}, to: "builder",
		},
		"its owner's own push wakes nobody": {
			prepare: func(w *world) { land(w, func(*hub.LandingEntry) {}) },
			event:   hub.Event{Kind: hub.EventPush, Member: true, Repository: "acme/shop", Commit: "c0ffee"}, to: "builder", quiet: true,
		},
		"the branch of a landing": {
			prepare: func(w *world) { land(w, func(*hub.LandingEntry) {}) },
			event:   hub.Event{Kind: hub.EventReview, Member: true, Repository: "acme/shop", Branch: "words"}, to: "builder",
		},
		"a branch of that name in another repository": {
			prepare: func(w *world) {
				w.remotes[folder] = []string{"example.com/acme/docs"}
				land(w, func(*hub.LandingEntry) {})
			},
			event: hub.Event{Kind: hub.EventReview, Member: true, Repository: "acme/shop", Branch: "words"}, to: "planner",
		},
		"a branch on which two agents work": {
			prepare: func(w *world) {
				land(w, func(*hub.LandingEntry) {})
				land(w, func(e *hub.LandingEntry) { e.Owner, e.Commit, e.Ref = "tester", "beef", "words2" })
			},
			event: hub.Event{Kind: hub.EventReview, Member: true, Repository: "acme/shop", Branch: "words"}, to: "planner",
		},
		"work under way comes before work that is over": {
			prepare: func(w *world) {
				land(w, func(e *hub.LandingEntry) { e.Owner, e.Commit, e.State = "tester", "beef", hub.EntryCancelled })
				land(w, func(*hub.LandingEntry) {})
			},
			event: hub.Event{Kind: hub.EventReview, Member: true, Repository: "acme/shop", Branch: "words"}, to: "builder",
		},
		"a rule that names its target": {
			prepare: func(w *world) {
				w.source(func(s *event.Setting) { s.Rules = []hub.EventRule{{Kind: hub.EventReview, To: "tester"}} })
				land(w, func(*hub.LandingEntry) {})
			},
			event: hub.Event{Kind: hub.EventReview, Member: true, Repository: "acme/shop", Branch: "words"}, to: "tester",
		},
		"a commit that the hub does not know": {
			prepare: func(w *world) { land(w, func(*hub.LandingEntry) {}) },
			event:   hub.Event{Kind: hub.EventCI, State: "failure", Repository: "acme/shop", Commit: "dead"}, to: "planner",
		},
		"a repository with a contract": {
			prepare: func(w *world) {
				w.write(func(tx hub.Tx) error {
					return tx.WriteCoordination().PutProject(coord.Project{
						ID: "p-1", Name: "shop", Status: coord.ProjectPlanning, Repos: []coord.Repo{{ID: "r-1", Name: "shop", URL: "https://example.com/acme/shop.git", Agent: w.keys.AID("tester")}},
					}, coord.Project{})
				})
			},
			event: hub.Event{Kind: hub.EventIssue, Member: true, Repository: "acme/shop"}, to: "tester",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			c.prepare(w)
			c.event.Deliveries = []string{"d-1"}
			got := w.receive(c.event)
			if !slices.Equal(got.To, []hub.AgentID{c.to}) || (got.Outcome == hub.EventQuiet) != c.quiet {
				t.Errorf("got %+v, want %s", got, c.to)
			}
		})
	}
}

func TestRecipients(t *testing.T) {
	t.Run("a target that is gone is the operator", func(t *testing.T) {
		w := newWorld(t)
		w.source(func(s *event.Setting) { s.To = "" })
		if got := w.receive(comment(func(*hub.Event) {})); !slices.Equal(got.To, []hub.AgentID{hub.Operator}) {
			t.Errorf("got %+v", got)
		}
	})
	t.Run("an agent that admits no source gets none, and the operator gets it", func(t *testing.T) {
		w := newWorld(t)
		_, err := w.mail.SetContact(t.Context(), operator, mailroom.ContactChange{Agent: "planner", From: []hub.AgentID{"builder"}})
		w.must(err)
		if got := w.receive(comment(func(*hub.Event) {})); !slices.Equal(got.To, []hub.AgentID{hub.Operator}) {
			t.Errorf("got %+v", got)
		}
	})
}
