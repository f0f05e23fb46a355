package hubtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
)

var ledgerTests = []storeTest{
	{"deliveries are listed in order and updated in place", func(w *world) {
		m := w.send("ada", "bob", "cleo")
		rows := []hub.Delivery{
			{MessageID: m.ID, Recipient: "bob", Channel: hub.ChannelInbox, Status: hub.DeliveryStored},
			{MessageID: m.ID, Recipient: "cleo", Channel: hub.ChannelInbox, Status: hub.DeliveryHeld},
			{MessageID: m.ID, Recipient: "bob", Channel: hub.ChannelWake, Status: hub.DeliverySkipped, Error: "not verified"},
		}
		w.update(func(tx hub.Tx) error {
			for _, d := range rows {
				if err := tx.AddDelivery(d); err != nil {
					return err
				}
			}
			got, err := tx.Deliveries(m.ID)
			w.equal("rows", len(got), len(rows))
			for i, d := range got {
				w.equal("numbers rise", d.ID > 0 && (i == 0 || d.ID > rows[i-1].ID), true)
				rows[i].ID = d.ID
			}
			return err
		})
		rows[0].Status = hub.DeliveryRead
		rows[0].DeliveredAt = epoch
		rows[0].ReadAt = epoch.Add(time.Second)
		rows[2].Status, rows[2].Error = hub.DeliveryFailed, "refused"
		w.update(func(tx hub.Tx) error {
			return errors.Join(tx.PutDelivery(rows[0]), tx.PutDelivery(rows[2]))
		})
		w.view(func(r hub.Reader) error {
			got, err := r.Deliveries(m.ID)
			w.equal("ledger", got, rows)
			none, err2 := r.Deliveries(w.ids.Next())
			w.equal("of nothing", len(none), 0)
			return errors.Join(err, err2)
		})
		w.refuse(hub.CodeNotFound, func(tx hub.Tx) error {
			return tx.PutDelivery(hub.Delivery{ID: rows[2].ID + 1, Status: hub.DeliveryRead})
		})
		w.refuse(hub.CodeNotFound, func(tx hub.Tx) error {
			return tx.AddDelivery(hub.Delivery{MessageID: w.ids.Next(), Recipient: "bob", Channel: hub.ChannelInbox, Status: hub.DeliveryStored})
		})
	}},
	{"R3-111 each recipient processes a message once", func(w *world) {
		m := w.send("ada", "bob", "cleo")
		for _, step := range []struct {
			agent hub.AgentID
			first bool
		}{{"bob", true}, {"bob", false}, {"cleo", true}, {"bob", false}} {
			w.update(func(tx hub.Tx) error {
				before, err := tx.Processed(m.ID, step.agent)
				first, err2 := tx.MarkProcessed(m.ID, step.agent, epoch)
				after, err3 := tx.Processed(m.ID, step.agent)
				w.equal("before, first, after", []bool{before, first, after}, []bool{!step.first, step.first, true})
				return errors.Join(err, err2, err3)
			})
		}
		w.refuse(hub.CodeNotFound, func(tx hub.Tx) error { _, err := tx.MarkProcessed(w.ids.Next(), "bob", epoch); return err })
	}},
	{"R3-111 of many who process at once one is first", func(w *world) {
		m := w.send("ada", "bob")
		var firsts atomic.Int32
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() {
				var first bool
				err := w.store.Update(context.Background(), hub.SurvivesKill, func(tx hub.Tx) (err error) {
					first, err = tx.MarkProcessed(m.ID, "bob", epoch)
					return err
				})
				if err != nil {
					w.Error(err)
				}
				if first {
					firsts.Add(1)
				}
			})
		}
		wg.Wait()
		w.equal("firsts", firsts.Load(), int32(1))
	}},
	{"a session's mark is replaced", func(w *world) {
		for i := range 3 {
			mark := hub.SessionMark{Agent: "ada", Session: "s", Message: w.ids.Next(), Hop: i, At: epoch.Add(time.Duration(i) * time.Second)}
			w.update(func(tx hub.Tx) error { return tx.PutSessionMark(mark) })
			w.view(func(r hub.Reader) error {
				got, err := r.SessionMark("ada", "s")
				w.equal("mark", got, mark)
				return err
			})
		}
		w.miss(hub.CodeNotFound, func(r hub.Reader) error { _, err := r.SessionMark("bob", "s"); return err })
	}},
	{"an idempotency key is used once per actor", func(w *world) {
		rc := hub.Receipt{Actor: "ada", Key: "k", Request: "hash", Message: w.ids.Next(), At: epoch}
		w.update(func(tx hub.Tx) error { return tx.AddReceipt(rc) })
		again := rc
		again.Request = "other"
		w.refuse(hub.CodeConflict, func(tx hub.Tx) error { return tx.AddReceipt(again) })
		again.Actor = "bob"
		w.update(func(tx hub.Tx) error { return tx.AddReceipt(again) })
		w.view(func(r hub.Reader) error {
			got, err := r.Receipt("ada", "k")
			w.equal("receipt", got, rc)
			return err
		})
	}},
	{"what is old is forgotten, at most so much at a time", func(w *world) {
		w.update(func(tx hub.Tx) error {
			for i := range 10 {
				at := epoch.Add(time.Duration(i) * time.Minute)
				name := fmt.Sprint(i)
				err := errors.Join(
					tx.AddReceipt(hub.Receipt{Actor: "ada", Key: name, Request: "r", Message: "m", At: at}),
					tx.PutSessionMark(hub.SessionMark{Agent: "ada", Session: name, Message: "m", At: at}))
				if err != nil {
					return err
				}
			}
			return nil
		})
		before := epoch.Add(5 * time.Minute)
		for _, n := range []int{6, 4, 0} { // five of each, three at a time
			w.update(func(tx hub.Tx) error {
				got, err := tx.Forget(before, 3)
				w.equal("forgotten", got, n)
				return err
			})
		}
		w.miss(hub.CodeNotFound, func(r hub.Reader) error { _, err := r.Receipt("ada", "4"); return err })
		w.miss(hub.CodeNotFound, func(r hub.Reader) error { _, err := r.SessionMark("ada", "4"); return err })
		w.view(func(r hub.Reader) error {
			_, err := r.Receipt("ada", "5")
			_, err2 := r.SessionMark("ada", "5")
			return errors.Join(err, err2)
		})
	}},
}

// entry returns an entry about a subject.
func entry(actor hub.AgentID, action actions.Action, subject string, at hub.Time) hub.Entry {
	return hub.Entry{At: at, Actor: actor, Action: action, Subject: subject, Outcome: hub.OutcomeOK, Facts: json.RawMessage(`{"n": 1}`)}
}

// chain reads the whole journal and checks its numbers and hashes.
func (w *world) chain() []hub.Entry {
	w.Helper()
	var all []hub.Entry
	var last hub.Entry

	// Small pages show that the journal continues after a page without a gap.
	for {
		var part []hub.Entry
		w.view(func(r hub.Reader) (err error) {
			part, err = r.Journal(hub.JournalQuery{After: last.Seq, Limit: 7})
			return err
		})
		if len(part) == 0 {
			break
		}
		for _, e := range part {
			if e.Seq != last.Seq+1 {
				w.Fatalf("entry %d follows %d", e.Seq, last.Seq)
			}
			if got, want := e.Hash, e.Chain(last.Hash); got != want {
				w.Fatalf("entry %d: hash %s, want %s", e.Seq, got, want)
			}
			last = e
			all = append(all, e)
		}
	}

	// The head of the journal is its last entry.
	w.view(func(r hub.Reader) error {
		head, err := hub.HeadOf(r)
		w.equal("head", head, hub.Head{Seq: last.Seq, Hash: last.Hash, At: last.At})
		return err
	})
	return all
}

var journalTests = []storeTest{
	{"an empty journal has no head", func(w *world) { w.equal("entries", len(w.chain()), 0) }},
	{"R3-120 an entry keeps actor, action, time, outcome and facts", func(w *world) {
		e := entry("ada", actions.MessageSent, "m1", epoch)
		e.Outcome, e.Facts = hub.OutcomeRefused, json.RawMessage(`{"b" : 1, "a":"<é>"}`)
		plain := hub.Entry{At: epoch, Actor: hub.Operator, Action: actions.HubStarted, Outcome: hub.OutcomeOK}
		var stored [2]hub.Entry
		w.update(func(tx hub.Tx) (err error) {
			stored[0], err = tx.Append(e)
			if err == nil {
				stored[1], err = tx.Append(plain)
			}
			return err
		})
		got := w.chain()
		w.equal("entries", got, stored[:])
		e.Seq, e.Hash = got[0].Seq, got[0].Hash
		w.equal("first", got[0], e)
	}},
	{"the chain goes on after a restart", func(w *world) {
		for i := range 3 {
			w.update(func(tx hub.Tx) error {
				_, err := tx.Append(entry("ada", actions.MessageSent, fmt.Sprint(i), epoch))
				return err
			})
			w.store = w.reopen()
		}
		w.equal("entries", len(w.chain()), 3)
	}},
	{"the chain has no trace of what was rolled back", func(w *world) {
		boom := errors.New("boom")
		var wg sync.WaitGroup
		for i := range 60 {
			wg.Go(func() {
				err := w.store.Update(context.Background(), hub.SurvivesKill, func(tx hub.Tx) error {
					for range 2 {
						if _, err := tx.Append(entry("ada", actions.MessageSent, fmt.Sprint(i), epoch)); err != nil {
							return err
						}
					}
					switch i % 3 {
					case 1:
						return boom
					case 2:
						panic("bang")
					}
					return nil
				})
				if (i%3 == 1 && !errors.Is(err, boom)) || (i%3 == 0) != (err == nil) {
					w.Errorf("update %d: %v", i, err)
				}
			})
		}
		wg.Wait()
		w.equal("entries", len(w.chain()), 40)
		w.store = w.reopen()
		w.update(func(tx hub.Tx) error { _, err := tx.Append(entry("ada", actions.MessageSent, "", epoch)); return err })
		w.equal("entries", len(w.chain()), 41)
	}},
	{"entries are found by subject, and by actor, action and time", func(w *world) {
		actions := []actions.Action{actions.BreakerOpen, actions.BreakerReset, actions.MessageSent, actions.KeyMinted}
		w.update(func(tx hub.Tx) error {
			for i := range 24 {
				actor := []hub.AgentID{"ada", "bob"}[i%2]
				if _, err := tx.Append(entry(actor, actions[i/2%4], fmt.Sprintf("s%d", i%3), epoch.Add(time.Duration(i)*time.Minute))); err != nil {
					return err
				}
			}
			return nil
		})
		all := w.chain()
		pick := func(keep func(hub.Entry) bool) (some []hub.Entry) {
			for _, e := range all {
				if keep(e) {
					some = append(some, e)
				}
			}
			return some
		}
		w.view(func(r hub.Reader) error {
			got, err := r.Journal(hub.JournalQuery{Subject: "s1", Limit: 99})
			w.equal("of", got, pick(func(e hub.Entry) bool { return e.Subject == "s1" }))
			got, err2 := r.Journal(hub.JournalQuery{Subject: "s1", Limit: 2})
			w.equal("first two of", len(got), 2)
			got, err3 := r.Journal(hub.JournalQuery{After: 20, Limit: 99})
			w.equal("after", got, all[20:])
			got, err4 := r.Journal(hub.JournalQuery{After: 20, Newest: true, Limit: 3})
			slices.Reverse(got)
			w.equal("the newest three", got, all[len(all)-3:])
			got, err5 := r.Journal(hub.JournalQuery{Subject: "s1", After: all[3].Seq, Newest: true, Limit: 99})
			slices.Reverse(got)
			w.equal("the newest of", got, pick(func(e hub.Entry) bool { return e.Subject == "s1" && e.Seq > all[3].Seq }))
			return errors.Join(err, err2, err3, err4, err5)
		})
	}},
}

// leaseOf is a store that grants one lease, or refuses all if that has no number.
type leaseOf struct {
	hub.Store
	lease hub.Lease
}

func (s leaseOf) Lease(_ context.Context, name string, _ time.Duration) (hub.Lease, error) {
	if s.lease.Number == 0 {
		return s.lease, hub.Errorf(hub.CodeConflict, "hubtest", "another process has the lease of %s", name)
	}
	return s.lease, nil
}

var metaTests = []storeTest{
	{"a lease is renewed under its number, and the next holder gets a greater one", func(w *world) {
		lease := func(name string) hub.Lease {
			l, err := w.store.Lease(context.Background(), name, time.Minute)
			if err != nil {
				w.Fatalf("Lease: %v", err)
			}
			return l
		}
		first, other := lease("sweep"), lease("archive")
		w.equal("renewed", lease("sweep"), first)
		w.equal("name", other.Name, "archive")
		w.store = w.reopen()
		next := lease("sweep")
		if next.Number <= first.Number {
			w.Errorf("number: got %d after %d, want a greater one", next.Number, first.Number)
		}
		w.update(func(tx hub.Tx) error { return errors.Join(tx.CheckLease(next), tx.PutMeta("swept", "by the next")) })
		for _, l := range []hub.Lease{first, {Name: "sweep", Number: next.Number + 1}, {Name: "never asked for", Number: 1}} {
			w.refuse(hub.CodeConflict, func(tx hub.Tx) error {
				if err := tx.CheckLease(l); err != nil {
					return err
				}
				return tx.PutMeta("swept", "by the first")
			})
		}
		w.view(func(r hub.Reader) error {
			got, err := r.Meta("swept")
			w.equal("swept", got, "by the next")
			return err
		})
	}},
	{"work that is done alone stores nothing once its lease has passed on", func(w *world) {
		alone := func(work func(hub.Store) error) {
			if err := hub.Alone(context.Background(), w.store, "sweep", time.Minute, work); err != nil {
				w.Errorf("Alone: %v", err)
			}
		}
		sweep := func(s hub.Store, by string) error {
			return s.Update(context.Background(), hub.SurvivesKill, func(tx hub.Tx) error { return tx.PutMeta("swept", by) })
		}
		alone(func(first hub.Store) error {
			if err := sweep(first, "first"); err != nil {
				return err
			}
			w.update(func(tx hub.Tx) error { return tx.PutMeta("swept", "beside it") }) // other work needs no lease
			return nil
		})
		var late hub.Lease
		alone(func(hub.Store) (err error) {
			late, err = w.store.Lease(context.Background(), "sweep", time.Minute)
			return err
		})
		w.store = w.reopen()
		alone(func(next hub.Store) error { return sweep(next, "next") })
		stale := leaseOf{w.store, late}
		if err := hub.Alone(context.Background(), stale, "sweep", time.Minute, func(s hub.Store) error { return sweep(s, "late") }); hub.CodeOf(err) != hub.CodeConflict {
			w.Errorf("a lease that has passed on: got %v, want %s", err, hub.CodeConflict)
		}
		taken := leaseOf{Store: w.store}
		if err := hub.Alone(context.Background(), taken, "sweep", time.Minute, func(s hub.Store) error { return sweep(s, "other") }); err != nil {
			w.Errorf("a lease that another process has: got %v, want nothing done", err)
		}
		w.view(func(r hub.Reader) error {
			got, err := r.Meta("swept")
			w.equal("swept", got, "next")
			return err
		})
	}},
	{"a consumer's cursor begins at zero and is kept", func(w *world) {
		w.update(func(tx hub.Tx) error {
			n, err := tx.Cursor("delivery")
			w.equal("at first", n, int64(0))
			return errors.Join(err, tx.PutCursor("delivery", 5), tx.PutCursor("peers", 9), tx.PutCursor("delivery", 7))
		})
		w.store = w.reopen()
		w.view(func(r hub.Reader) error {
			n, err := r.Cursor("delivery")
			w.equal("cursor", n, int64(7))
			return err
		})
	}},
	{"a fact is replaced and kept", func(w *world) {
		w.update(func(tx hub.Tx) error { return errors.Join(tx.PutMeta("hub_id", "one"), tx.PutMeta("hub_id", "two")) })
		w.store = w.reopen()
		w.view(func(r hub.Reader) error {
			v, err := r.Meta("hub_id")
			w.equal("fact", v, "two")
			return err
		})
	}},
}
