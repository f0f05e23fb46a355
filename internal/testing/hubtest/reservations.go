package hubtest

import (
	"reflect"
	"time"

	"github.com/parley-agents/parley/hub"
)

// aReservation returns a reservation whose every member is set.
func aReservation(fence int64, tree string, holder hub.AgentID) hub.Reservation {
	at := epoch.Add(time.Duration(fence) * time.Minute)
	return hub.Reservation{
		ID: hub.NewReservationID(fence), Fence: fence, Tree: hub.WorkingTree{Machine: "desk", Path: tree, Repository: tree + "/.git"},
		Path: "src/*.go", Pattern: true, Holder: holder, Session: "s", Shared: true, Task: "T-1", Handoff: "h", Why: "login",
		State: hub.ReservationHeld, Since: at, Active: at.Add(time.Second), Until: at.Add(time.Hour), Asked: at.Add(2 * time.Second),
		Base: "b", Digest: "d", Object: "o", Found: "f", Head: "h", Changed: true, Left: "l", Lines: 3,
	}
}

var reservationTests = []storeTest{
	{"reservations are read as they were stored, by their fences", func(w *world) {
		first, second := aReservation(1, "/one", "builder"), aReservation(2, "/one", "planner")
		plain := hub.Reservation{ID: "r3", Fence: 3, Tree: hub.WorkingTree{Path: "/two"}, Path: "a", Holder: "builder", State: hub.ReservationHeld, Since: epoch, Active: epoch}
		w.update(func(tx hub.Tx) error {
			for _, r := range []hub.Reservation{second, plain, first} {
				if err := tx.WriteReservations().Put(r, ""); err != nil {
					return err
				}
			}
			return nil
		})
		w.store = w.reopen()
		w.view(func(r hub.Reader) error {
			for _, list := range []struct {
				get  func() ([]hub.Reservation, error)
				want []hub.Reservation
			}{
				{func() ([]hub.Reservation, error) { return r.Reservations().OfTree("/one") }, []hub.Reservation{first, second}},
				{func() ([]hub.Reservation, error) { return r.Reservations().OfAgent("builder") }, []hub.Reservation{first, plain}},
				{func() ([]hub.Reservation, error) { return r.Reservations().OfAgent("") }, []hub.Reservation{first, second, plain}},
			} {
				got, err := list.get()
				if err != nil {
					return err
				}
				if !reflect.DeepEqual(got, list.want) {
					w.Errorf("got %+v, want %+v", got, list.want)
				}
			}
			return nil
		})
	}},
	{"a reservation is moved by one caller, and one that is over is gone", func(w *world) {
		r := aReservation(1, "/one", "builder")
		w.update(func(tx hub.Tx) error { return tx.WriteReservations().Put(r, "") })
		w.refuse(hub.CodeConflict, func(tx hub.Tx) error { return tx.WriteReservations().Put(r, "") })
		r.State = hub.ReservationOrphan
		r.Session, r.Left = "", "other"
		w.update(func(tx hub.Tx) error { return tx.WriteReservations().Put(r, hub.ReservationHeld) })
		w.refuse(hub.CodeConflict, func(tx hub.Tx) error { return tx.WriteReservations().Put(r, hub.ReservationHeld) })
		w.view(func(rd hub.Reader) error {
			got, err := rd.Reservations().OfTree("/one")
			if err == nil && !reflect.DeepEqual(got, []hub.Reservation{r}) {
				w.Errorf("got %+v, want %+v", got, r)
			}
			return err
		})

		over := r
		over.State = hub.ReservationOver
		w.refuse(hub.CodeConflict, func(tx hub.Tx) error { return tx.WriteReservations().Put(over, hub.ReservationHeld) })
		w.update(func(tx hub.Tx) error { return tx.WriteReservations().Put(over, hub.ReservationOrphan) })
		w.view(func(rd hub.Reader) error {
			got, err := rd.Reservations().OfAgent("")
			if len(got) != 0 {
				w.Errorf("got %+v, want none", got)
			}
			return err
		})
	}},
	{"files that agents hold are counted without patterns and orphans", func(w *world) {
		w.update(func(tx hub.Tx) error {
			for fence := range int64(6) {
				r := aReservation(fence+1, "/one", "builder")
				r.Pattern = fence == 0
				if fence == 5 {
					r.Holder = "planner"
				}
				if err := tx.WriteReservations().Put(r, ""); err != nil {
					return err
				}
			}
			left := aReservation(5, "/one", "builder")
			left.Pattern = false
			left.State = hub.ReservationOrphan
			return tx.WriteReservations().Put(left, hub.ReservationHeld)
		})
		w.view(func(r hub.Reader) error {
			got, err := r.Reservations().Counts()
			if want := (map[hub.AgentID]int{"builder": 3, "planner": 1}); !reflect.DeepEqual(got, want) {
				w.Errorf("got %v, want %v", got, want)
			}
			return err
		})
	}},
	{"waiting agents, views and notes are kept apart", func(w *world) {
		early := hub.FileWait{Tree: "/one", Path: "a", Agent: "planner", Since: epoch}
		late := hub.FileWait{Tree: "/one", Path: "a", Agent: "builder", Since: epoch.Add(time.Minute), Told: epoch.Add(time.Hour), Warned: true}
		view := hub.FileView{Tree: "/one", Path: "a", Agent: "builder", Digest: "d", Stale: "s", Wrote: true, At: epoch}
		w.update(func(tx hub.Tx) error {
			to := tx.WriteReservations()
			for _, v := range []hub.FileWait{late, early, {Tree: "/two", Path: "a", Agent: "builder", Since: epoch}} {
				if err := to.PutWait(v); err != nil {
					return err
				}
			}
			for _, n := range []hub.FileNote{{Agent: "builder", Kind: "lapsed", Path: "a", Text: "one"}, {Agent: "builder", Kind: "overlap", Path: "b", Other: "planner", Text: "two"}} {
				if err := to.AddNote(n); err != nil {
					return err
				}
			}
			return to.PutView(view)
		})
		w.view(func(r hub.Reader) error {
			waits, err := r.Reservations().Waits("/one")
			if err != nil {
				return err
			}
			if want := []hub.FileWait{early, late}; !reflect.DeepEqual(waits, want) {
				w.Errorf("waits: got %+v, want %+v", waits, want)
			}
			views, err := r.Reservations().Views("/one", "a")
			if err != nil {
				return err
			}
			if want := []hub.FileView{view}; !reflect.DeepEqual(views, want) {
				w.Errorf("views: got %+v, want %+v", views, want)
			}
			notes, err := r.Reservations().Notes("builder")
			if err == nil && (len(notes) != 2 || notes[0].Text != "one" || notes[1].N != 2 || notes[1].Other != "planner") {
				w.Errorf("notes: got %+v", notes)
			}
			return err
		})

		// Each can be removed.
		w.update(func(tx hub.Tx) error {
			to := tx.WriteReservations()
			if n, err := to.RemoveViews(epoch, 10); err != nil || n != 0 {
				w.Errorf("views before the first: got %d, %v", n, err)
			}
			if n, err := to.RemoveViews(epoch.Add(time.Second), 10); err != nil || n != 1 {
				w.Errorf("old views: got %d, %v, want 1", n, err)
			}
			if err := to.RemoveNotes("builder"); err != nil {
				return err
			}
			return to.RemoveWait("/one", "a", "planner")
		})
		w.view(func(r hub.Reader) error {
			waits, err := r.Reservations().Waits("")
			if len(waits) != 2 {
				w.Errorf("waits: got %+v, want two", waits)
			}
			if notes, _ := r.Reservations().Notes("builder"); len(notes) != 0 {
				w.Errorf("notes: got %+v, want none", notes)
			}
			return err
		})
	}},
}
