package hubtest

import (
	"reflect"
	"time"

	"github.com/parley-agents/parley/hub"
)

// aWake returns a wake whose every member is set.
func aWake(agent hub.AgentID, id string, n int) hub.Wake {
	at := epoch.Add(time.Duration(n) * time.Hour)
	return hub.Wake{
		ID: id, Agent: agent, N: n, Channel: hub.ChannelSession, Mechanism: "monitor", State: hub.WakeTaken, Detail: "given to its waiter", Machine: "desk",
		Sessions: []hub.SessionKey{{CLI: "claude", ID: "s", Process: 7}},
		At:       at, Until: at.Add(time.Minute), Taken: at.Add(time.Second), Handed: at.Add(2 * time.Second), Proven: at.Add(3 * time.Second),
		Messages: []hub.EnvelopeID{"m1", "m2"}, Senders: []hub.AgentID{"ada"}, Roots: []hub.EnvelopeID{"m0"},
		Cost: 2, Interrupt: true, Repeat: true, Probe: true, Hook: true,
	}
}

var wakeTests = []storeTest{
	{"wakes of an agent are read as they were stored, oldest first", func(w *world) {
		older, newer := aWake("builder", "w_2", 1), aWake("builder", "w_1", 2)
		plain := hub.Wake{ID: "w_3", Agent: "builder", Channel: hub.ChannelNotify, N: 3, State: hub.WakeReserved, At: epoch}
		w.update(func(tx hub.Tx) error {
			for _, v := range []hub.Wake{newer, plain, older, aWake("planner", "w_1", 1)} {
				if err := tx.WriteWakes().Put(v, ""); err != nil {
					return err
				}
			}
			return nil
		})
		w.store = w.reopen()
		w.view(func(r hub.Reader) error {
			got, err := r.Wakes().OfAgent("builder")
			if want := []hub.Wake{older, newer, plain}; err == nil && !reflect.DeepEqual(got, want) {
				w.Errorf("got %+v, want %+v", got, want)
			}
			none, err2 := r.Wakes().OfAgent("nobody")
			if err == nil {
				err = err2
			}
			if len(none) != 0 {
				w.Errorf("wakes of an agent without any: got %+v", none)
			}
			return err
		})
	}},
	{"a wake is moved by one caller", func(w *world) {
		v := aWake("builder", "w_1", 1)
		w.update(func(tx hub.Tx) error { return tx.WriteWakes().Put(v, "") })
		w.refuse(hub.CodeConflict, func(tx hub.Tx) error { return tx.WriteWakes().Put(v, "") })

		moved := v
		moved.State = hub.WakeStarted
		moved.Messages = nil
		moved.Detail = ""
		w.update(func(tx hub.Tx) error { return tx.WriteWakes().Put(moved, hub.WakeTaken) })
		w.refuse(hub.CodeConflict, func(tx hub.Tx) error { return tx.WriteWakes().Put(v, hub.WakeTaken) })
		w.view(func(r hub.Reader) error {
			got, err := r.Wakes().OfAgent("builder")
			if err == nil && !reflect.DeepEqual(got, []hub.Wake{moved}) {
				w.Errorf("got %+v, want %+v", got, moved)
			}
			return err
		})
	}},
	{"a wake that is removed is gone, and cannot be removed again", func(w *world) {
		w.update(func(tx hub.Tx) error { return tx.WriteWakes().Put(aWake("builder", "w_1", 1), "") })
		w.update(func(tx hub.Tx) error { return tx.WriteWakes().Remove("builder", "w_1") })
		w.refuse(hub.CodeNotFound, func(tx hub.Tx) error { return tx.WriteWakes().Remove("builder", "w_1") })
		w.view(func(r hub.Reader) error {
			got, err := r.Wakes().OfAgent("builder")
			if len(got) != 0 {
				w.Errorf("got %+v, want none", got)
			}
			return err
		})
	}},
	{"a state that is none is refused", func(w *world) {
		v := aWake("builder", "w_1", 1)
		v.State = "asleep"
		if err := w.store.Update(w.Context(), hub.SurvivesKill, func(tx hub.Tx) error { return tx.WriteWakes().Put(v, "") }); err == nil {
			w.Error("a wake is asleep")
		}
	}},
}
