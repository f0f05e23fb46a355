package hubtest

import (
	"reflect"
	"time"

	"github.com/parley-agents/parley/hub"
)

// aSource returns an event source whose members are set.
func aSource(name string) hub.EventSource {
	return hub.EventSource{
		Name: name, Vendor: hub.VendorGitHub, To: "builder", Actors: hub.ActorsMembers, Rules: []hub.EventRule{{Kind: hub.EventCI, To: "tester"}},
		Members: []string{"ada"}, Fields: map[string]string{"kind": "/type"}, Polls: []hub.EventPoll{{Repository: "acme/shop", API: "https://api.example.com", Seconds: 60, Sealed: "v1.y"}},
		Sealed: "v1.x", SetAt: epoch, SetBy: hub.Operator,
	}
}

var eventTests = []storeTest{
	{"a source keeps its members, changes by compare-and-set and is removed with what it delivered", func(w *world) {
		w.update(func(tx hub.Tx) error {
			if err := tx.WriteEvents().PutSource(aSource("hooks")); err != nil {
				return err
			}
			if err := tx.WriteEvents().PutSource(aSource("builds")); err != nil {
				return err
			}
			if err := tx.WriteEvents().PutSource(aSource("hooks")); hub.CodeOf(err) != hub.CodeConflict {
				w.Errorf("a name that is taken: %v", err)
			}
			return nil
		})
		w.store = w.reopen()

		w.update(func(tx hub.Tx) error {
			all, err := tx.Events().Sources()
			if err != nil {
				return err
			}
			want := aSource("builds")
			want.Revision = 1
			if len(all) != 2 || !reflect.DeepEqual(all[0], want) {
				w.Errorf("got %+v, want %+v and another one", all, want)
			}
			old := all[0]
			changed := old
			changed.To = "owner"
			if err := tx.WriteEvents().PutSource(changed); err != nil {
				return err
			}
			if err := tx.WriteEvents().PutSource(old); hub.CodeOf(err) != hub.CodeConflict {
				w.Errorf("an old revision: %v", err)
			}
			if _, err := tx.WriteEvents().AddDelivered("builds", "d1", epoch); err != nil {
				return err
			}
			if err := tx.WriteEvents().CountEvents("builds", hub.EventForged, 3); err != nil {
				return err
			}
			return tx.WriteEvents().RemoveSource("builds")
		})

		w.view(func(r hub.Reader) error {
			if _, err := r.Events().Source("builds"); hub.CodeOf(err) != hub.CodeNotFound {
				w.Errorf("a removed source: %v", err)
			}
			known, err := r.Events().Delivered("builds", "d1")
			if err != nil || known {
				w.Errorf("a delivery of a removed source: %v, %v", known, err)
			}
			counts, err := r.Events().EventCounts("builds")
			if err != nil || len(counts) > 0 {
				w.Errorf("counts of a removed source: %v, %v", counts, err)
			}
			return nil
		})
		w.update(func(tx hub.Tx) error {
			if err := tx.WriteEvents().RemoveSource("builds"); hub.CodeOf(err) != hub.CodeNotFound {
				w.Errorf("a second time: %v", err)
			}
			return nil
		})
	}},
	{"the id of a delivery is noted once for its source, until it is dropped; outcomes are counted", func(w *world) {
		w.update(func(tx hub.Tx) error {
			for i, c := range []struct {
				source, id string
				at         hub.Time
				want       bool
			}{
				{"a", "1", epoch, true}, {"a", "1", epoch.Add(time.Hour), false}, {"b", "1", epoch.Add(time.Hour), true}, {"a", "2", epoch.Add(2 * time.Hour), true},
			} {
				fresh, err := tx.WriteEvents().AddDelivered(c.source, c.id, c.at)
				if err != nil {
					return err
				}
				if fresh != c.want {
					w.Errorf("delivery %d: got %v, want %v", i, fresh, c.want)
				}
			}
			n, err := tx.WriteEvents().DropDelivered(epoch.Add(time.Hour))
			if err != nil {
				return err
			}
			if n != 1 {
				w.Errorf("%d were dropped, want 1", n)
			}
			for range 2 {
				if err := tx.WriteEvents().CountEvents("a", hub.EventStored, 2); err != nil {
					return err
				}
			}
			return nil
		})
		w.view(func(r hub.Reader) error {
			dropped, err := r.Events().Delivered("a", "1")
			if err != nil {
				return err
			}
			kept, err := r.Events().Delivered("b", "1")
			if err != nil {
				return err
			}
			if dropped || !kept {
				w.Errorf("got %v and %v, want false and true", dropped, kept)
			}
			counts, err := r.Events().EventCounts("a")
			if counts[hub.EventStored] != 4 || len(counts) != 1 {
				w.Errorf("got counts %v", counts)
			}
			return err
		})
	}},
	{"a schedule changes by compare-and-set, and its number is not given again", func(w *world) {
		put := func(s hub.Schedule) (id hub.ScheduleID) {
			w.update(func(tx hub.Tx) (err error) {
				id, err = tx.WriteEvents().PutSchedule(s)
				return err
			})
			return id
		}
		s := hub.Schedule{Every: "1h", Zone: "UTC", To: "builder", Text: "work", SetAt: epoch, SetBy: hub.Operator, Due: epoch}
		first := put(s)
		w.update(func(tx hub.Tx) error {
			got, err := tx.Events().Schedule(first)
			if err != nil {
				return err
			}
			want := s
			want.ID = "e1"
			want.Revision = 1
			if !reflect.DeepEqual(got, want) {
				w.Errorf("got %+v, want %+v", got, want)
			}
			old := got
			got.Runs = 1
			if _, err := tx.WriteEvents().PutSchedule(got); err != nil {
				return err
			}
			if _, err := tx.WriteEvents().PutSchedule(old); hub.CodeOf(err) != hub.CodeConflict {
				w.Errorf("an old revision: %v", err)
			}
			if err := tx.WriteEvents().RemoveSchedule(first); err != nil {
				return err
			}
			if err := tx.WriteEvents().RemoveSchedule(first); hub.CodeOf(err) != hub.CodeNotFound {
				w.Errorf("a second time: %v", err)
			}
			return nil
		})
		second := put(s)
		w.view(func(r hub.Reader) error {
			all, err := r.Events().Schedules()
			if len(all) != 1 || all[0].ID != second || second == first {
				w.Errorf("got %+v after %s", all, first)
			}
			return err
		})
	}},
}
