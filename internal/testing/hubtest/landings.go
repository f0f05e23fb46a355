package hubtest

import (
	"fmt"
	"reflect"

	"github.com/parley-agents/parley/hub"
)

// aLanding returns an entry of a queue whose every member is set.
func aLanding(into string, owner hub.AgentID, state hub.LandingState) hub.LandingEntry {
	return hub.LandingEntry{
		Machine: "desk", Repository: "/src", Into: into, Ref: "h3", Branch: "work", Commit: "c0ffee", Tree: "7ree", Owner: owner, Handoff: "h-" + hub.HandoffID(owner),
		Priority: hub.PriorityHigh, State: state, Reason: "why", Conflicts: []string{"a.go"}, Check: "test", Results: []string{"k1"}, Tries: 2, Step: "5tep", Merged: "3erge",
		LandedCommit: "1and", Head: "4ead", Output: "0ut", Approved: hub.Operator, Told: "why", QueuedAt: epoch, MovedAt: epoch,
	}
}

// aReview returns a review whose every member is set.
func aReview(handoff hub.HandoffID, entry hub.LandingID) hub.Review {
	return hub.Review{
		Handoff: handoff, Entry: entry, Machine: "desk", Repository: "/src", Commit: "c0ffee", Base: "ba5e", Approved: "0ld", Authors: []hub.AgentID{"builder"},
		Reviewer: "role:reviewer", Asked: []hub.AgentID{"planner"}, State: hub.ReviewStateWaiting, Verdict: "changes", By: "planner",
		Findings: []hub.ReviewFinding{{Path: "a.go", Line: 3, Text: "no"}}, Difference: "d1ff", Note: "passed", AskedAt: epoch, RemindedAt: epoch, ToldAt: epoch, GivenAt: epoch,
	}
}

// addLandings stores entries and returns them with their ids and revisions.
func (w *world) addLandings(entries ...hub.LandingEntry) []hub.LandingEntry {
	w.Helper()
	w.update(func(tx hub.Tx) error {
		for i := range entries {
			id, err := tx.WriteLandings().PutEntry(entries[i])
			if err != nil {
				return err
			}
			entries[i].ID = id
		}
		return nil
	})
	for i := range entries {
		entries[i].Revision = 1
	}
	return entries
}

var landingTests = []storeTest{
	{"policies are stored under their queues, replaced and removed", func(w *world) {
		one := hub.LandingPolicy{Machine: "desk", Repository: "/src", Into: "main", Checks: []string{"test"}, Review: hub.ReviewerNone, By: hub.LandingAuto, Batch: 4, SetAt: epoch}
		other := one
		other.Into = "next"
		w.update(func(tx hub.Tx) error {
			if err := tx.WriteLandings().PutPolicy(other); err != nil {
				return err
			}
			return tx.WriteLandings().PutPolicy(one)
		})
		one.Batch = 8
		w.update(func(tx hub.Tx) error { return tx.WriteLandings().PutPolicy(one) })
		want := []hub.LandingPolicy{one, other}
		check := func(want []hub.LandingPolicy) {
			w.Helper()
			w.view(func(r hub.Reader) error {
				got, err := r.Landings().Policies()
				if err == nil && !reflect.DeepEqual(got, want) {
					err = fmt.Errorf("policies: got %+v, want %+v", got, want)
				}
				return err
			})
		}
		check(want)
		w.update(func(tx hub.Tx) error { return tx.WriteLandings().RemovePolicy(one.ID()) })
		w.refuse(hub.CodeNotFound, func(tx hub.Tx) error { return tx.WriteLandings().RemovePolicy(one.ID()) })
		check(want[1:])
	}},
	{"entries are numbered, and read as they were stored", func(w *world) {
		plain := hub.LandingEntry{Repository: "/two", Into: "main", Owner: "planner", State: hub.EntryQueued}
		all := w.addLandings(aLanding("main", "builder", hub.EntryQueued), aLanding("main", "planner", hub.EntryLanded), aLanding("next", "builder", hub.EntryWaiting), plain)
		for _, c := range []struct {
			q    hub.LandingQuery
			want []hub.LandingEntry
		}{
			{hub.LandingQuery{Limit: 10}, all},
			{hub.LandingQuery{Limit: 2}, all[:2]},
			{hub.LandingQuery{Cursor: "l2", Limit: 10}, all[2:]},
			{hub.LandingQuery{Newest: true, Cursor: "l2", Limit: 10}, all[:1]},
			{hub.LandingQuery{Queue: all[0].Queue(), Limit: 10}, all[:2]},
			{hub.LandingQuery{Queue: all[0].Queue(), States: hub.OpenLandings, Limit: 10}, all[:1]},
			{hub.LandingQuery{Subject: "h-planner", Limit: 10}, all[1:2]},
			{hub.LandingQuery{Owner: "planner", Newest: true, Limit: 1}, all[3:]},
			{hub.LandingQuery{Queue: "elsewhere", Limit: 10}, nil},
		} {
			w.view(func(r hub.Reader) error {
				got, err := r.Landings().Entries(c.q)
				if err == nil && !reflect.DeepEqual(got, c.want) {
					err = fmt.Errorf("%+v: got %+v, want %+v", c.q, got, c.want)
				}
				return err
			})
		}
		w.view(func(r hub.Reader) error {
			got, err := r.Landings().Entry("l3")
			if err == nil && !reflect.DeepEqual(got, all[2]) {
				err = fmt.Errorf("got %+v, want %+v", got, all[2])
			}
			return err
		})
		w.refuse(hub.CodeNotFound, func(tx hub.Tx) error { _, err := tx.Landings().Entry("l9"); return err })
	}},
	{"an entry is moved by one caller; one that landed can be undone, and nothing else", func(w *world) {
		e := w.addLandings(aLanding("main", "builder", hub.EntryQueued))[0]
		put := func(tx hub.Tx) error { _, err := tx.WriteLandings().PutEntry(e); return err }
		e.State = hub.EntryTrying
		w.update(put)
		w.refuse(hub.CodeConflict, put)
		e.Revision = 2
		e.State = hub.EntryLanded
		w.update(put)
		e.Revision = 3
		e.State = hub.EntryQueued
		w.refuse(hub.CodeInvalid, put)
		e.State = hub.EntryUndone
		e.UndoneBy = "l2"
		w.update(put)
		e.Revision = 4
		e.State = hub.EntryQueued
		w.refuse(hub.CodeInvalid, put)
		e.State = hub.EntryLanded // its undo was undone
		w.update(put)
	}},
	{"reviews are numbered, found by their subjects, and answered by one caller", func(w *world) {
		all := []hub.Review{aReview("h1", ""), aReview("h2", ""), aReview("", "l1"), aReview("h1", "")}
		w.update(func(tx hub.Tx) error {
			for i := range all {
				id, err := tx.WriteLandings().PutReview(all[i])
				if err != nil {
					return err
				}
				all[i].ID = id
			}
			return nil
		})
		for i := range all {
			all[i].Revision = 1
		}
		answered := all[0]
		answered.State = hub.ReviewStateApproved
		put := func(tx hub.Tx) error { _, err := tx.WriteLandings().PutReview(answered); return err }
		w.update(put)
		w.refuse(hub.CodeConflict, put)
		answered.Revision = 2
		for _, c := range []struct {
			q    hub.ReviewQuery
			want []hub.Review
		}{
			{hub.ReviewQuery{Handoff: "h1", Limit: 10}, []hub.Review{all[3], answered}},
			{hub.ReviewQuery{Handoff: "h1", Limit: 1}, []hub.Review{all[3]}},
			{hub.ReviewQuery{Entry: "l1", Limit: 10}, []hub.Review{all[2]}},
			{hub.ReviewQuery{States: []hub.ReviewState{hub.ReviewStateWaiting}, Cursor: "v4", Limit: 10}, []hub.Review{all[2], all[1]}},
		} {
			w.view(func(r hub.Reader) error {
				got, err := r.Landings().Reviews(c.q)
				if err == nil && !reflect.DeepEqual(got, c.want) {
					err = fmt.Errorf("%+v: got %+v, want %+v", c.q, got, c.want)
				}
				return err
			})
		}
		w.view(func(r hub.Reader) error { _, err := r.Landings().Review("v2"); return err })
		w.refuse(hub.CodeNotFound, func(tx hub.Tx) error { _, err := tx.Landings().Review("v9"); return err })

		answered.State = hub.ReviewStateReplaced
		w.update(put)
		answered.Revision = 3
		w.refuse(hub.CodeInvalid, put)
	}},
}
