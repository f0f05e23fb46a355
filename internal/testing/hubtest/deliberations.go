package hubtest

import (
	"time"

	"github.com/parley-agents/parley/hub"
)

// newTalk returns a negotiation that is ready to be stored.
func (w *world) newTalk(from hub.AgentID, asked ...hub.AgentID) hub.Deliberation {
	id := w.ids.Next()
	return hub.Deliberation{
		ID: string(id), Kind: hub.KindNegotiation, State: hub.TalkOffered, Title: "say \"hello\"", Policy: hub.DefaultPolicy, From: from, Asked: asked, Pairs: []hub.Pair{},
		First: id, DueAt: id.Time().Add(time.Hour), CreatedAt: id.Time(), UpdatedAt: id.Time(),
	}
}

func talkIDs(all []hub.Deliberation) []string {
	ids := []string{}
	for _, d := range all {
		ids = append(ids, d.ID)
	}
	return ids
}

var deliberationTests = []storeTest{
	{"a deliberation is found as it was added", func(w *world) {
		d := w.newTalk("ada", "bob")
		d = d.WithPair(hub.Pair{Agent: "bob", State: hub.TalkCountered, Sequence: 2, Turn: "bob", Last: w.ids.Next(), Rounds: 1, At: epoch, AddressedRead: 2})
		d.Untold = true
		d.Deciders = []hub.AgentID{"cyd"}
		d.Conditions = []string{"c"}
		w.update(func(tx hub.Tx) error { return tx.PutDeliberation(d) })
		w.refuse(hub.CodeConflict, func(tx hub.Tx) error { return tx.PutDeliberation(d) })
		w.store = w.reopen()
		d.Revision = 1
		w.view(func(r hub.Reader) error {
			got, err := r.Deliberation(d.ID)
			w.equal("deliberation", got, d)
			return err
		})
		w.miss(hub.CodeNotFound, func(r hub.Reader) error { _, err := r.Deliberation("nothing"); return err })
	}},
	{"a deliberation changes only as its writer knows it, and not when it is over", func(w *world) {
		d := w.newTalk("ada", "bob")
		w.update(func(tx hub.Tx) error { return tx.PutDeliberation(d) })
		d.Revision = 1
		over, err := d.Advance(hub.TalkAccepted, epoch)
		if err != nil {
			w.Fatal(err)
		}
		w.update(func(tx hub.Tx) error { return tx.PutDeliberation(over) })
		w.refuse(hub.CodeConflict, func(tx hub.Tx) error { return tx.PutDeliberation(over) })
		over.Revision = 2
		w.refuse(hub.CodeInvalid, func(tx hub.Tx) error { return tx.PutDeliberation(over) })
	}},
	{"deliberations are listed newest first, by who is asked for", func(w *world) {
		a := w.newTalk("ada", "bob")
		b := w.newTalk("bob", "cyd")
		c := w.newTalk("ada", "cyd")
		b.Kind = hub.KindDisagreement
		b.State = hub.TalkEscalated
		b.DueAt = hub.Time{}
		b.Team = "core"
		b.Deciders, b.Untold = []hub.AgentID{"eve"}, true
		c.State, c.DueAt = hub.TalkDeclined, hub.Time{}
		for _, d := range []hub.Deliberation{a, b, c} {
			w.update(func(tx hub.Tx) error { return tx.PutDeliberation(d) })
		}
		for _, test := range []struct {
			name string
			q    hub.DeliberationQuery
			want []string
		}{
			{"all", hub.DeliberationQuery{Limit: 9}, []string{c.ID, b.ID, a.ID}},
			{"a page", hub.DeliberationQuery{Limit: 1, Cursor: c.ID}, []string{b.ID}},
			{"those of ada", hub.DeliberationQuery{Limit: 9, Viewer: "ada"}, []string{c.ID, a.ID}},
			{"those that eve decides", hub.DeliberationQuery{Limit: 9, Viewer: "eve"}, []string{b.ID}},
			{"negotiations", hub.DeliberationQuery{Limit: 9, Kind: hub.KindNegotiation}, []string{c.ID, a.ID}},
			{"those of a team", hub.DeliberationQuery{Limit: 9, Team: "core"}, []string{b.ID}},
			{"those that are open", hub.DeliberationQuery{Limit: 9, Open: true}, []string{b.ID, a.ID}},
			{"those that are due", hub.DeliberationQuery{Limit: 9, Due: a.DueAt}, []string{a.ID}},
			{"none is due earlier", hub.DeliberationQuery{Limit: 9, Due: a.CreatedAt}, []string{}},
			{"those to be told", hub.DeliberationQuery{Limit: 9, Untold: true}, []string{b.ID}},
		} {
			w.view(func(r hub.Reader) error {
				got, err := r.Deliberations(test.q)
				w.equal(test.name, talkIDs(got), test.want)
				return err
			})
		}
	}},
	{"decisions are kept and listed newest first", func(w *world) {
		var all []hub.Decision
		for _, team := range []string{"", "core", ""} {
			d := hub.Decision{ID: string(w.ids.Next()), Team: team, Title: "t", Decision: "d", Rationale: "r", Deciders: []hub.AgentID{"ada"}, Status: "decided", Refs: []string{"x"}, At: epoch}
			w.update(func(tx hub.Tx) error { return tx.AddDecision(d) })
			w.refuse(hub.CodeConflict, func(tx hub.Tx) error { return tx.AddDecision(d) })
			all = append(all, d)
		}
		w.store = w.reopen()
		w.view(func(r hub.Reader) error {
			got, err := r.Decisions(hub.DecisionQuery{Limit: 9})
			w.equal("all", got, []hub.Decision{all[2], all[1], all[0]})
			if err == nil {
				got, err = r.Decisions(hub.DecisionQuery{Limit: 9, Team: "core"})
			}
			w.equal("of a team", got, []hub.Decision{all[1]})
			if err == nil {
				got, err = r.Decisions(hub.DecisionQuery{Limit: 1, Cursor: all[2].ID})
			}
			w.equal("a page", got, []hub.Decision{all[1]})
			return err
		})
	}},
}
