package hubtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
)

// writeAll makes one change of every kind.
func (w *world) writeAll(tx hub.Tx, m hub.Message, agent hub.AgentID) error {
	id := m.ID
	if err := tx.AddMessage(m, parties(m, hub.PartyUnread)); err != nil {
		return err
	}
	if err := tx.AddDelivery(hub.Delivery{MessageID: id, Recipient: m.To[0], Channel: hub.ChannelInbox, Status: hub.DeliveryStored}); err != nil {
		return err
	}
	rows, err := tx.Deliveries(id)
	if err != nil || len(rows) != 1 {
		return fmt.Errorf("%d rows in the ledger (%w), want 1", len(rows), err)
	}
	_, err = tx.MarkProcessed(id, m.To[0], epoch)
	_, err2 := tx.Append(entry(m.From, actions.MessageSent, string(id), epoch))
	delivered := m.Envelope
	delivered.Status = hub.StatusDelivered
	return errors.Join(err, err2,
		offer(tx, rows[0].ID),
		tx.PutStatus(delivered, m.Status),
		tx.PutParty(id, m.To[0], hub.PartyDelivered, hub.PartyUnread),
		tx.PutAgent(hub.Agent{ID: agent, Role: hub.RoleExecutor, State: hub.AgentActive, CreatedAt: epoch}, ""),
		tx.AddKey(hub.Key{ID: hub.KeyID("k-" + agent), Agent: agent, Label: "l", Hash: hub.HashSecret(string(agent)), CreatedAt: epoch}),
		tx.AddReceipt(hub.Receipt{Actor: agent, Key: "k", Request: "r", Message: id, At: epoch}),
		tx.PutSessionMark(hub.SessionMark{Agent: agent, Session: "s", Message: id, At: epoch}),
		tx.PutCursor("consumer", 3), tx.PutMeta("fact", "x"))
}

// offer marks a row of the ledger as offered.
func offer(tx hub.Tx, row int64) error {
	return tx.PutDelivery(hub.Delivery{ID: row, Status: hub.DeliveryOffered, DeliveredAt: epoch})
}

// traces returns which of the changes of writeAll can be seen.
func (w *world) traces(m hub.Message, agent hub.AgentID) (found []string) {
	w.Helper()
	w.indexText()
	w.view(func(r hub.Reader) error {
		check := func(what string, there bool, err error) {
			if err != nil && hub.CodeOf(err) != hub.CodeNotFound {
				w.Errorf("%s: %v", what, err)
			}
			if err == nil && there {
				found = append(found, what)
			}
		}

		// The message, its delivery and its text.
		_, err := r.Message(m.ID)
		check("message", true, err)
		_, err = r.Parties(m.ID)
		check("parties", true, err)
		p, err := party(r, m.ID, m.To[0])
		check("party", p.State == hub.PartyDelivered, err)
		rows, err := r.Deliveries(m.ID)
		check("delivery", len(rows) == 1 && rows[0].Status == hub.DeliveryOffered, err)
		done, err := r.Processed(m.ID, m.To[0])
		check("processed", done, err)
		page, err := r.Query(hub.Query{Viewer: m.To[0], Text: hub.SearchText("", m.Payload), Status: hub.StatusDelivered, Limit: 9})
		check("text", len(page.Messages) == 1, err)
		entries, err := r.Journal(hub.JournalQuery{Subject: string(m.ID), Limit: 9})
		check("journal", len(entries) == 1, err)

		// The agent, with the rows that belong to it.
		_, err = r.Agent(agent)
		check("agent", true, err)
		_, err = r.KeyByHash(hub.HashSecret(string(agent)))
		check("key", true, err)
		_, err = r.Receipt(agent, "k")
		check("receipt", true, err)
		_, err = r.SessionMark(agent, "s")
		check("mark", true, err)

		n, err := r.Cursor("consumer")
		check("cursor", n == 3, err)
		_, err = r.Meta("fact")
		check("fact", true, err)
		return nil
	})
	return found
}

// everything is what traces returns when nothing is missing.
var everything = []string{
	"message", "parties", "party", "delivery", "processed", "text", "journal", "agent", "key", "receipt", "mark", "cursor", "fact",
}

var transactionTests = []storeTest{
	{"R3-004 everything is there after a restart", func(w *world) {
		m := w.message("ada", "bob")
		m.Payload = summary("unforgettable")
		w.update(func(tx hub.Tx) error { return w.writeAll(tx, m, "new") })
		w.equal("before", w.traces(m, "new"), everything)
		w.store = w.reopen()
		w.equal("after", w.traces(m, "new"), everything)
	}},
	{"an error leaves nothing and is returned as it is", func(w *world) {
		boom := errors.New("boom")
		m := w.message("ada", "bob")
		m.Payload = summary("gone")
		err := w.store.Update(context.Background(), hub.SurvivesKill, func(tx hub.Tx) error {
			if err := w.writeAll(tx, m, "new"); err != nil {
				return err
			}
			return fmt.Errorf("after all: %w", boom)
		})
		if !errors.Is(err, boom) {
			w.Errorf("got %v, want the error of the function", err)
		}
		w.equal("traces", w.traces(m, "new"), []string(nil))
		w.equal("journal", len(w.chain()), 0)
		err = w.store.View(context.Background(), func(hub.Reader) error { return boom })
		if err != boom {
			w.Errorf("View: got %v, want the error of the function", err)
		}
	}},
	{"a message that is stored by half is not stored", func(w *world) {
		m := w.message("ada", "bob")
		m.Payload = summary("half")
		twice := append(parties(m, hub.PartyUnread), hub.Party{Agent: "bob", State: hub.PartyUnread})
		err := w.store.Update(context.Background(), hub.SurvivesKill, func(tx hub.Tx) error {
			if err := tx.AddMessage(m, twice); err == nil {
				w.Error("a party named twice must be refused")
			}
			return nil // as if nothing had happened
		})
		if err == nil {
			w.Error("Update must fail when a change in it failed by half")
		}
		w.equal("traces", w.traces(m, "new"), []string(nil))
	}},
	{"a panic undoes itself and harms nobody else", func(w *world) {
		var wg sync.WaitGroup
		var all []hub.Message
		for i := range 40 {
			m := w.message("ada", "bob")
			all = append(all, m)
			wg.Go(func() {
				err := w.store.Update(context.Background(), hub.SurvivesKill, func(tx hub.Tx) error {
					if i%8 == 3 {
						panic("before it wrote")
					}
					if err := tx.AddMessage(m, parties(m, hub.PartyUnread)); err != nil {
						return err
					}
					if i%8 == 5 {
						panic("after it wrote")
					}
					return nil
				})
				if bad := i%8 == 3 || i%8 == 5; bad != (hub.CodeOf(err) == hub.CodeInternal) || (!bad && err != nil) {
					w.Errorf("update %d: %v", i, err)
				}
			})
		}
		wg.Wait()
		var expect []hub.EnvelopeID
		for i, m := range all {
			if i%8 != 3 && i%8 != 5 {
				expect = append(expect, m.ID)
			}
		}
		slices.Reverse(expect)
		w.equal("stored", w.query(hub.Query{Viewer: "bob"}), expect)
	}},
	{"a function that runs twice has one effect", func(w *world) {
		boom := errors.New("boom")
		var wg sync.WaitGroup
		for i := range 100 {
			m := w.message("ada", "bob")
			wg.Go(func() {
				err := w.store.Update(context.Background(), hub.SurvivesKill, func(tx hub.Tx) error {
					n, err := tx.Cursor("count")
					if err != nil {
						return err
					}
					err = errors.Join(tx.PutCursor("count", n+1), tx.AddMessage(m, parties(m, hub.PartyUnread)))
					if err == nil && i%10 == 9 {
						err = boom
					}
					return err
				})
				if (i%10 == 9) != errors.Is(err, boom) || (i%10 != 9 && err != nil) {
					w.Errorf("update %d: %v", i, err)
				}
			})
		}
		wg.Wait()
		w.view(func(r hub.Reader) error {
			n, err := r.Cursor("count")
			w.equal("count", n, int64(90))
			return err
		})
		w.equal("messages", len(w.query(hub.Query{Viewer: "bob"})), 90)
	}},
	{"a hundred callers at once lose nothing", func(w *world) {
		const callers, each = 100, 5
		var wg sync.WaitGroup
		for c := range callers {
			wg.Go(func() {
				for i := range each {
					m := w.message("ada", "bob")
					d := hub.SurvivesKill
					if (c+i)%50 == 0 {
						d = hub.SurvivesPowerLoss
					}
					err := w.store.Update(context.Background(), d, func(tx hub.Tx) error {
						if err := tx.AddMessage(m, parties(m, hub.PartyUnread)); err != nil {
							return err
						}
						_, err := tx.Append(entry("ada", actions.MessageSent, string(m.ID), epoch))
						return err
					})
					if err != nil {
						w.Error(err)
						return
					}
					// What was acknowledged can be seen by all.
					err = w.store.View(context.Background(), func(r hub.Reader) error {
						_, err := r.Message(m.ID)
						return err
					})
					if err != nil {
						w.Error(err)
					}
				}
			})
		}
		wg.Wait()
		w.equal("messages", len(w.query(hub.Query{Viewer: "bob", Limit: 64})), callers*each)
		w.equal("entries", len(w.chain()), callers*each)
		w.store = w.reopen()
		w.equal("messages after a restart", len(w.query(hub.Query{Viewer: "bob", Limit: 64})), callers*each)
	}},
	{"a view sees no change made after it began", func(w *world) {
		before := w.send("ada", "bob")
		w.view(func(r hub.Reader) error {
			after := w.send("ada", "bob") // before anything was read
			w.set(before.ID, "bob", hub.PartyUnread, hub.PartyDelivered)
			page, err := r.Inbox("bob", hub.InboxFilter{Limit: 9, Now: epoch})
			w.equal("inbox", idsOf(page.Messages), []hub.EnvelopeID{before.ID})
			_, err2 := r.Message(after.ID)
			w.equal("code", hub.CodeOf(err2), hub.CodeNotFound)
			p, err3 := party(r, before.ID, "bob")
			w.equal("state", p.State, hub.PartyUnread)
			return errors.Join(err, err3)
		})
		w.equal("afterwards", len(w.inbox("bob", hub.InboxFilter{})), 2)
	}},
	{"a view does not see a change that is not finished", func(w *world) {
		m := w.message("ada", "bob")
		w.update(func(tx hub.Tx) error {
			if err := tx.AddMessage(m, parties(m, hub.PartyUnread)); err != nil {
				return err
			}
			return w.store.View(context.Background(), func(r hub.Reader) error {
				if _, err := r.Message(m.ID); hub.CodeOf(err) != hub.CodeNotFound {
					w.Errorf("got %v, want not found", err)
				}
				return nil
			})
		})
	}},
	{"compare-and-set lets one of many win", func(w *world) {
		m := w.send("ada", "bob")
		var won, lost atomic.Int32
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() {
				err := w.store.Update(context.Background(), hub.SurvivesKill, func(tx hub.Tx) error {
					return tx.PutParty(m.ID, "bob", hub.PartyDelivered, hub.PartyUnread)
				})
				switch hub.CodeOf(err) {
				case "":
					won.Add(1)
				case hub.CodeConflict:
					lost.Add(1)
				default:
					w.Error(err)
				}
			})
		}
		wg.Wait()
		w.equal("won and lost", []int32{won.Load(), lost.Load()}, []int32{1, 49})
	}},
	{"a call whose context has ended is not run", func(w *world) {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		ran := false
		err := w.store.Update(ctx, hub.SurvivesKill, func(hub.Tx) error { ran = true; return nil })
		if ran || !errors.Is(err, context.Canceled) {
			w.Errorf("Update: ran %v, got %v, want not run and context.Canceled", ran, err)
		}
		err = w.store.View(ctx, func(r hub.Reader) error { _, err := r.Agents(); return err })
		if !errors.Is(err, context.Canceled) {
			w.Errorf("View: got %v, want context.Canceled", err)
		}
		w.send("ada", "bob") // others go on
	}},
	{"a closed store refuses", func(w *world) {
		if err := w.store.Close(); err != nil {
			w.Fatal(err)
		}
		w.refuse(hub.CodeDegraded, func(hub.Tx) error { return nil })
		w.miss(hub.CodeDegraded, func(hub.Reader) error { return nil })
		if err := w.store.Close(); err != nil {
			w.Errorf("closing again: %v", err)
		}
	}},
}
