package hubtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/parley-agents/parley/hub"
)

// inbox reads a whole inbox, page by page if the filter has a limit.
func (w *world) inbox(agent hub.AgentID, f hub.InboxFilter) []hub.EnvelopeID {
	w.Helper()
	ids := []hub.EnvelopeID{}
	f.Limit = orDefault(f.Limit, 1000)
	if f.Now.IsZero() {
		f.Now = epoch
	}
	for {
		w.view(func(r hub.Reader) error {
			page, err := r.Inbox(agent, f)
			if len(page.Messages) > f.Limit {
				w.Fatalf("a page of %d with limit %d", len(page.Messages), f.Limit)
			}
			ids = append(ids, idsOf(page.Messages)...)
			f.Cursor = page.Next
			return err
		})
		if f.Cursor == "" {
			return ids
		}
	}
}

func orDefault(n, otherwise int) int {
	if n == 0 {
		return otherwise
	}
	return n
}

// query reads all pages of a query.
func (w *world) query(q hub.Query) []hub.EnvelopeID {
	w.Helper()
	if q.Text != "" || q.Topic != "" {
		w.indexText()
	}
	ids := []hub.EnvelopeID{}
	q.Limit = orDefault(q.Limit, 1000)
	for {
		w.view(func(r hub.Reader) error {
			page, err := r.Query(q)
			if err != nil {
				return err // this may run again: nothing is changed
			}
			if len(page.Messages) > q.Limit {
				w.Fatalf("a page of %d with limit %d", len(page.Messages), q.Limit)
			}
			ids = append(ids, idsOf(page.Messages)...)
			q.Cursor = page.Next
			return err
		})
		if q.Cursor == "" {
			return ids
		}
	}
}

// set moves a recipient.
func (w *world) set(id hub.EnvelopeID, agent hub.AgentID, was hub.PartyState, path ...hub.PartyState) {
	w.Helper()
	w.update(func(tx hub.Tx) error {
		for _, next := range path {
			if err := tx.PutParty(id, agent, next, was); err != nil {
				return err
			}
			was = next
		}
		return nil
	})
}

var inboxTests = []storeTest{
	{"the most pressing comes first and the oldest among equals", func(w *world) {
		byRank := map[int][]hub.EnvelopeID{}
		for i := range 24 {
			m := w.message("ada", "bob")
			m.Priority = hub.Priorities[i*7%len(hub.Priorities)]
			w.add(m)
			if i%3 == 0 {
				w.set(m.ID, "bob", hub.PartyUnread, hub.PartyDelivered)
			}
			byRank[m.Priority.Rank()] = append(byRank[m.Priority.Rank()], m.ID)
		}
		var want []hub.EnvelopeID
		for rank := range hub.Priorities {
			want = append(want, byRank[rank]...)
		}
		w.equal("inbox", w.inbox("bob", hub.InboxFilter{}), want)
		for _, limit := range []int{1, 2, 5, 23, 24, 25} {
			w.equal(fmt.Sprintf("inbox by %d", limit), w.inbox("bob", hub.InboxFilter{Limit: limit}), want)
		}
		w.view(func(r hub.Reader) error {
			all, err := r.Inbox("bob", hub.InboxFilter{Limit: 99, Now: epoch})
			size := all.Messages[0].Size()
			for bytes, n := range map[int]int{1: 1, size: 1, size + 1: 2} {
				page, err2 := r.Inbox("bob", hub.InboxFilter{Limit: 99, Bytes: bytes, Now: epoch})
				w.equal(fmt.Sprintf("messages of a page with %d bytes", bytes), len(page.Messages), n)
				w.equal("there is another page", page.Next != "", true)
				err = errors.Join(err, err2)
			}
			found, err2 := r.Query(hub.Query{Audit: true, Limit: 99, Bytes: 1})
			w.equal("messages of a query's page with 1 byte", len(found.Messages), 1)
			return errors.Join(err, err2)
		})
		w.equal("inbox by bytes", w.inbox("bob", hub.InboxFilter{Limit: 99, Bytes: 1}), want)
	}},
	{"only what is unread or delivered is in it", func(w *world) {
		in := []hub.EnvelopeID{}
		for _, path := range [][]hub.PartyState{
			{}, {hub.PartyDelivered}, {hub.PartyDelivered, hub.PartyRead}, {hub.PartyExpired}, {hub.PartyFailed},
		} {
			m := w.send("ada", "bob")
			w.set(m.ID, "bob", hub.PartyUnread, path...)
			if len(path) == 0 || (len(path) == 1 && path[0] == hub.PartyDelivered) {
				in = append(in, m.ID)
			}
		}
		held := w.message("ada", "bob")
		w.update(func(tx hub.Tx) error { return tx.AddMessage(held, parties(held, hub.PartyHeld)) })
		w.equal("inbox", w.inbox("bob", hub.InboxFilter{}), in)
		w.equal("new", w.inbox("bob", hub.InboxFilter{NewOnly: true}), in[:1])
		w.equal("the sender's", w.inbox("ada", hub.InboxFilter{}), []hub.EnvelopeID{})
		w.view(func(r hub.Reader) error {
			n, err := r.CountMessages(hub.CountFilter{Inbox: "bob", Limit: 99})
			w.equal("count", n, 2)
			n, err2 := r.CountMessages(hub.CountFilter{Inbox: "bob", Limit: 1})
			w.equal("count up to 1", n, 1)
			n, err3 := r.CountMessages(hub.CountFilter{Inbox: "ada", Limit: 99})
			w.equal("the sender's count", n, 0)
			return errors.Join(err, err2, err3)
		})
	}},
	{"what has expired is left out, swept or not", func(w *world) {
		now := epoch.Add(1000 * time.Hour)
		var want []hub.EnvelopeID
		for _, expires := range []hub.Time{{}, now.Add(-time.Second), now, now.Add(time.Second)} {
			m := w.message("ada", "bob")
			m.ExpiresAt = expires
			w.add(m)
			if expires.IsZero() || expires.After(now.Time) {
				want = append(want, m.ID)
			}
		}
		w.equal("inbox", w.inbox("bob", hub.InboxFilter{Now: now, Limit: 1}), want)
	}},
	{"an inbox is its owner's alone", func(w *world) {
		bobs, cleos := w.send("ada", "bob"), w.send("ada", "cleo")
		both := w.send("ada", "bob", "cleo")
		w.set(both.ID, "bob", hub.PartyUnread, hub.PartyDelivered, hub.PartyRead)
		w.equal("bob's", w.inbox("bob", hub.InboxFilter{}), []hub.EnvelopeID{bobs.ID})
		w.equal("cleo's", w.inbox("cleo", hub.InboxFilter{}), []hub.EnvelopeID{cleos.ID, both.ID})
		w.equal("eve's", w.inbox("eve", hub.InboxFilter{}), []hub.EnvelopeID{})
	}},
	{"pages go on where they were though the inbox moves", func(w *world) {
		var all []hub.EnvelopeID
		for range 10 {
			all = append(all, w.send("ada", "bob").ID)
		}
		f := hub.InboxFilter{Limit: 4, Now: epoch}
		var got []hub.EnvelopeID
		for {
			w.view(func(r hub.Reader) error {
				page, err := r.Inbox("bob", f)
				got = append(got, idsOf(page.Messages)...)
				f.Cursor = page.Next
				return err
			})
			if f.Cursor == "" {
				break
			}
			for _, id := range got {
				if p := w.party(id, "bob"); p == hub.PartyUnread {
					w.set(id, "bob", hub.PartyUnread, hub.PartyDelivered, hub.PartyRead)
				}
			}
		}
		w.equal("seen", got, all)
	}},
	{"a cursor or limit that makes no sense is refused", func(w *world) {
		w.send("ada", "bob")
		for _, f := range []hub.InboxFilter{{Limit: 1, Cursor: "nonsense"}, {Limit: 1, Cursor: "é"}, {Limit: 0}, {Limit: -1}} {
			w.miss(hub.CodeInvalid, func(r hub.Reader) error { _, err := r.Inbox("bob", f); return err })
			q := hub.Query{Viewer: "bob", Limit: f.Limit, Cursor: f.Cursor}
			w.miss(hub.CodeInvalid, func(r hub.Reader) error { _, err := r.Query(q); return err })
		}
	}},
}

// party returns one party of a message.
func party(r hub.Reader, id hub.EnvelopeID, agent hub.AgentID) (hub.Party, error) {
	found, err := r.Parties(id, agent)
	if err != nil {
		return hub.Party{}, err
	}
	return found[0], nil
}

// party returns the state of a recipient.
func (w *world) party(id hub.EnvelopeID, agent hub.AgentID) (s hub.PartyState) {
	w.Helper()
	w.view(func(r hub.Reader) error {
		p, err := party(r, id, agent)
		s = p.State
		return err
	})
	return s
}

// crowd stores messages of all kinds between three agents.
func (w *world) crowd() []hub.Message {
	w.Helper()
	agents := []hub.AgentID{"ada", "bob", "cleo"}
	types := []hub.MessageType{hub.TypeStatusUpdate, hub.TypeKnowledgePush, hub.TypeStatusBlocked}
	topics := []string{"", "build", "deploy: now"}
	texts := []string{"green apples", "red apples", "Größe des Apfels"}

	var all []hub.Message
	for i := range 90 {
		m := w.message(agents[i%3], agents[(i+1)%3])
		if i%5 == 0 {
			m.To = append(m.To, agents[(i+2)%3])
		}
		m.Type = types[i/3%3]
		m.Topic = topics[i/2%3]
		m.Payload = summary(texts[i/4%3])
		m.Status = hub.MessageStatuses[i%2]
		m.ThreadID = fmt.Sprintf("thread-%d", i%7)
		m.Hop = i % 2
		all = append(all, m)
	}

	w.update(func(tx hub.Tx) error {
		// Not in the order of their ids.
		for i := range all {
			m := all[i*37%len(all)]
			if err := tx.AddMessage(m, parties(m, hub.PartyUnread)); err != nil {
				return err
			}
		}
		return nil
	})
	return all
}

// concerns reports whether m was sent or received by agent.
func concerns(m hub.Message, agent hub.AgentID) bool {
	return m.From == agent || slices.Contains(m.To, agent)
}

// want filters messages as a query should, newest first.
func want(all []hub.Message, keep func(m hub.Message) bool) []hub.EnvelopeID {
	ids := []hub.EnvelopeID{}
	for _, m := range slices.Backward(all) {
		if keep(m) {
			ids = append(ids, m.ID)
		}
	}
	return ids
}

var queryTests = []storeTest{
	{"every filter, alone and with others, gives what it says and nothing else", func(w *world) {
		all := w.crowd()
		since, until := all[20].CreatedAt, all[70].CreatedAt
		filters := []struct {
			name string
			set  func(q *hub.Query)
			keep func(m hub.Message) bool
		}{
			{"agent", func(q *hub.Query) { q.Agent = "cleo" }, func(m hub.Message) bool { return concerns(m, "cleo") }},
			{"from", func(q *hub.Query) { q.From = "bob" }, func(m hub.Message) bool { return m.From == "bob" }},
			{"to", func(q *hub.Query) { q.To = "cleo" }, func(m hub.Message) bool { return slices.Contains(m.To, "cleo") }},
			{"thread", func(q *hub.Query) { q.Thread = "thread-3" }, func(m hub.Message) bool { return m.ThreadID == "thread-3" }},
			{"type", func(q *hub.Query) { q.Type = hub.TypeKnowledgePush }, func(m hub.Message) bool { return m.Type == hub.TypeKnowledgePush }},
			{"status", func(q *hub.Query) { q.Status = hub.StatusDelivered }, func(m hub.Message) bool { return m.Status == hub.StatusDelivered }},
			{"since", func(q *hub.Query) { q.Since = since }, func(m hub.Message) bool { return !m.CreatedAt.Before(since.Time) }},
			{"until", func(q *hub.Query) { q.Until = until }, func(m hub.Message) bool { return m.CreatedAt.Before(until.Time) }},
			{"topic", func(q *hub.Query) { q.Topic = "deploy: now" }, func(m hub.Message) bool { return m.Topic == "deploy: now" }},
			{"text", func(q *hub.Query) { q.Text = "APPLES, green!" }, func(m hub.Message) bool { return string(m.Payload) == string(summary("green apples")) }},
		}
		const untexted = 8 // so many of them need no word index
		check := func(mask int) {
			for _, audit := range []bool{false, true} {
				q := hub.Query{Viewer: "ada", Audit: audit, Limit: 7}
				name := fmt.Sprintf("audit=%v", audit)
				keep := func(m hub.Message) bool { return audit || concerns(m, "ada") }
				for i, f := range filters {
					if mask>>i&1 == 1 {
						f.set(&q)
						name += " " + f.name
						before := keep
						keep = func(m hub.Message) bool { return before(m) && f.keep(m) }
					}
				}
				w.equal(name, w.query(q), want(all, keep))
			}
		}
		for mask := range 1 << untexted { // before any word is indexed
			check(mask)
		}
		w.indexText()
		for mask := range 1 << len(filters) {
			check(mask)
		}
	}},
	{"a forgotten message keeps its place and loses its text, its words and its references", func(w *world) {
		for _, indexed := range []bool{false, true} {
			m := w.message("ada", "bob")
			sum := fmt.Sprintf("%064d", len(m.ID))
			m.Payload, m.Topic = summary("the password is xyzzy"), "secrets"
			m.Context = &hub.Context{Artifacts: []hub.ArtifactRef{{Type: "file", Path: "/a", SHA256: sum}}}
			w.update(func(tx hub.Tx) error { return tx.AddMessage(m, parties(m, hub.PartyUnread)) })
			if indexed {
				w.indexText()
			}
			names := func() (named bool) {
				w.view(func(r hub.Reader) (err error) {
					named, err = r.NamesArtifact(sum)
					return err
				})
				return named
			}
			w.equal("named before", names(), true)
			w.update(func(tx hub.Tx) error { return tx.ForgetText(m.ID) })
			w.indexText()
			w.equal("named after", names(), false)
			w.view(func(r hub.Reader) error {
				got, err := r.Message(m.ID)
				want := m
				want.Envelope = m.Forgotten()
				w.same("message", got, want)
				return err
			})
			w.equal("by its words", w.query(hub.Query{Viewer: "bob", Text: "xyzzy"}), []hub.EnvelopeID{})
			w.equal("by its topic", w.query(hub.Query{Viewer: "bob", Topic: "secrets"}), []hub.EnvelopeID{})
			w.equal("by the words that stay", w.query(hub.Query{Viewer: "bob", Text: "removed", Since: m.CreatedAt, Limit: 1}), []hub.EnvelopeID{m.ID})
		}
		w.update(func(tx hub.Tx) error { return tx.ForgetText(w.ids.Next()) }) // remains of words only
	}},
	{"R3-013 messages are found by status as it changes", func(w *world) {
		m := w.send("ada", "bob")
		for _, next := range []hub.MessageStatus{hub.StatusDelivered, hub.StatusRead} {
			was := m.Status
			e, err := m.Advance(next, m.CreatedAt.Add(time.Second))
			if err != nil {
				w.Fatal(err)
			}
			m.Envelope = e
			w.update(func(tx hub.Tx) error { return tx.PutStatus(e, was) })
			for _, audit := range []bool{false, true} {
				w.equal("new status", w.query(hub.Query{Viewer: "bob", Audit: audit, Status: next}), []hub.EnvelopeID{m.ID})
				w.equal("old status", w.query(hub.Query{Viewer: "bob", Audit: audit, Status: was}), []hub.EnvelopeID{})
			}
		}
	}},
	{"pages have neither gaps nor repeats while messages arrive", func(w *world) {
		w.crowd()
		for _, q := range []hub.Query{
			{Viewer: "ada"}, {Viewer: "op", Audit: true}, {Viewer: "ada", Type: hub.TypeStatusUpdate}, {Viewer: "ada", Thread: "thread-1"},
			{Viewer: "op", Audit: true, Type: hub.TypeStatusUpdate}, {Viewer: "op", Audit: true, Status: hub.StatusPending},
			{Viewer: "ada", Text: "apples"}, {Viewer: "op", Audit: true, Agent: "bob"}, {Viewer: "ada", Topic: "build"},
		} {
			expect := w.query(q)
			q.Limit = 3
			var got []hub.EnvelopeID
			for {
				w.view(func(r hub.Reader) error {
					page, err := r.Query(q)
					if err != nil {
						return err
					}
					got = append(got, idsOf(page.Messages)...)
					q.Cursor = page.Next
					return nil
				})
				if q.Cursor == "" {
					break
				}
				late := w.message("bob", "ada")
				late.ThreadID = "thread-1"
				late.Topic = "build"
				late.Payload = summary("late apples")
				w.add(late)
			}
			w.equal(fmt.Sprintf("%+v", q), got, expect)
		}
	}},
	{"messages of one instant are paged, too", func(w *world) {
		var all []hub.EnvelopeID
		at := w.ids.Next().Time()
		frozen := hub.NewIDs(func() time.Time { return at.Time })
		for range 30 {
			m := w.message("ada", "bob")
			m.ID = frozen.Next()
			m.CreatedAt = at
			m.ThreadID = "t"
			m.Payload = summary("word")
			all = append(all, w.add(m).ID)
		}
		slices.Reverse(all)
		for _, q := range []hub.Query{
			{Viewer: "bob"}, {Viewer: "bob", Thread: "t"}, {Viewer: "bob", Type: hub.TypeStatusUpdate}, {Viewer: "bob", Text: "word"},
			{Audit: true}, {Audit: true, Type: hub.TypeStatusUpdate}, {Audit: true, Status: hub.StatusPending},
		} {
			q.Limit = 4
			w.equal(fmt.Sprintf("%+v", q), w.query(q), all)
		}
	}},
	{"an agent finds what concerns it and nothing else", func(w *world) {
		m := w.message("ada", "bob")
		m.Payload, m.Topic = summary("a secret word"), "plans"
		w.add(m)
		for _, q := range []hub.Query{
			{}, {Text: "secret"}, {Topic: "plans"}, {Thread: m.ThreadID}, {Type: m.Type}, {Status: m.Status},
			{Agent: "ada"}, {Agent: "bob", Text: "word"}, {Since: epoch}, {Text: "secret", Thread: m.ThreadID},
		} {
			for viewer, found := range map[hub.AgentID]bool{"ada": true, "bob": true, "eve": false, "bo": false, "bobby": false, "": false} {
				q.Viewer = viewer
				if got := len(w.query(q)) == 1; got != found {
					w.Errorf("%+v: found %v, want %v", q, got, found)
				}
			}
			q.Viewer, q.Audit = "eve", true
			if len(w.query(q)) != 1 {
				w.Errorf("%+v: an auditor must find it", q)
			}
		}
	}},
	{"what a human holds back is not found by those it was meant for", func(w *world) {
		states := []struct {
			name  string
			path  []hub.PartyState
			found bool
		}{
			{"held", nil, false},
			{"approved", []hub.PartyState{hub.PartyUnread}, true},
			{"approved and processed", []hub.PartyState{hub.PartyUnread, hub.PartyDelivered, hub.PartyRead}, true},
			{"approved and expired", []hub.PartyState{hub.PartyUnread, hub.PartyExpired}, true},
			{"denied", []hub.PartyState{hub.PartyFailed}, false},
			{"expired while held", []hub.PartyState{hub.PartyExpired}, false},
		}
		for _, s := range states {
			m := w.message("ada", "bob")
			m.Payload, m.Topic = summary("gated"), "t"
			w.update(func(tx hub.Tx) error { return tx.AddMessage(m, parties(m, hub.PartyHeld)) })
			w.set(m.ID, "bob", hub.PartyHeld, s.path...)
			for _, q := range []hub.Query{{}, {Text: "gated"}, {Topic: "t"}, {Type: m.Type}, {Thread: m.ThreadID}, {Status: m.Status}} {
				q.Thread = m.ThreadID
				q.Viewer = "bob"
				if got := len(w.query(q)) == 1; got != s.found {
					w.Errorf("%s, %+v: found %v, want %v", s.name, q, got, s.found)
				}
				q.Viewer = "ada"
				if len(w.query(q)) != 1 {
					w.Errorf("%s, %+v: the sender must find it", s.name, q)
				}
				q.Viewer, q.Audit = "op", true
				if len(w.query(q)) != 1 {
					w.Errorf("%s, %+v: an auditor must find it", s.name, q)
				}
			}
			for _, q := range []hub.Query{{}, {Text: "gated"}, {Topic: "t"}, {Type: m.Type}} {
				q.Viewer = "bob"
				if got := slices.Contains(w.query(q), m.ID); got != s.found {
					w.Errorf("%s, %+v: found %v, want %v", s.name, q, got, s.found)
				}
			}
		}
	}},
	{"words are found whatever their case and script", func(w *world) {
		m := w.message("ada", "bob")
		m.Payload = summary(`The quick-brown Fox's path is /srv/Data_1, naïve Größe ИЗБА 日本語 v1.2.3 "quoted"`)
		w.add(m)
		for text, found := range map[string]bool{
			"fox": true, "QUICK": true, "brown quick": true, "größe": true, "GRÖSSE": false, "изба": true, "日本": true,
			"v1.2.3": true, "data_1": true, `"quoted"`: true, "fo": false, "fox missing": false, "naïve": true,
		} {
			if got := len(w.query(hub.Query{Viewer: "bob", Text: text})) == 1; got != found {
				w.Errorf("%q: found %v, want %v", text, got, found)
			}
		}
	}},
	{"a text to search for is words and never syntax", func(w *world) {
		m := w.message("ada", "bob")
		m.Payload = summary("alpha")
		w.add(m)
		for _, text := range []string{
			`alpha OR beta`, `alpha*`, `alp*`, `NOT alpha beta`, `alpha NEAR(beta)`, `body:alpha`, `alpha" OR "beta`, `{tags body}:alpha`,
			`^alpha beta`, `alpha) OR (beta`, `tags:alpha`, `alpha AND`, `alpha' OR 1=1 --`,
		} {
			for _, viewer := range []hub.AgentID{"bob", "eve"} {
				err := w.store.View(context.Background(), func(r hub.Reader) error {
					page, err := r.Query(hub.Query{Viewer: viewer, Text: text, Limit: 5})
					if n := len(page.Messages); n > 0 && (viewer == "eve" || text != "alpha*") {
						w.Errorf("%q as %s: found %d, want none", text, viewer, n)
					}
					return err
				})
				if err != nil {
					w.Errorf("%q: %v", text, err)
				}
			}
		}
		for _, text := range []string{`"`, `***`, ` `, `-- ;`, "\x00", "\xff"} {
			w.miss(hub.CodeInvalid, func(r hub.Reader) error {
				_, err := r.Query(hub.Query{Viewer: "bob", Text: text, Limit: 5})
				return err
			})
		}
	}},
	{"a transaction finds what it wrote itself", func(w *world) {
		m := w.message("ada", "bob")
		m.Payload = summary("inside")
		w.update(func(tx hub.Tx) error {
			if err := tx.AddMessage(m, parties(m, hub.PartyUnread)); err != nil {
				return err
			}
			for _, q := range []hub.Query{{Viewer: "bob"}, {Viewer: "bob", Text: "inside"}, {Audit: true, Type: m.Type}} {
				q.Limit = 5
				page, err := tx.Query(q)
				if err != nil {
					return err
				}
				w.equal(fmt.Sprintf("%+v", q), idsOf(page.Messages), []hub.EnvelopeID{m.ID})
			}
			page, err := tx.Inbox("bob", hub.InboxFilter{Limit: 5, Now: epoch})
			w.equal("inbox", idsOf(page.Messages), []hub.EnvelopeID{m.ID})
			return err
		})
		w.equal("after", w.query(hub.Query{Viewer: "bob", Text: "inside"}), []hub.EnvelopeID{m.ID})
	}},
}
