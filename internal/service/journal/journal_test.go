package journal_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
	"github.com/parley-agents/parley/internal/engine/bus"
	"github.com/parley-agents/parley/internal/engine/sqlite"
	"github.com/parley-agents/parley/internal/service/journal"
	"github.com/parley-agents/parley/internal/testing/storetest"
)

func open(t *testing.T) hub.Store {
	t.Helper()
	return storetest.Open(t, t.TempDir())
}

// refusals returns what the journal says, as actor code count.
func refusals(t *testing.T, store hub.Store) (out []string) {
	t.Helper()
	err := store.View(t.Context(), func(r hub.Reader) error {
		entries, err := r.Journal(hub.JournalQuery{After: 0, Limit: 100_000})
		for _, e := range entries {
			var facts struct {
				Code  hub.Code `json:"code"`
				Op    string   `json:"op"`
				Count int      `json:"count"`
			}
			if e.Action != actions.Refused || e.Outcome != hub.OutcomeRefused {
				continue
			}
			if err := json.Unmarshal(e.Facts, &facts); err != nil {
				return err
			}
			out = append(out, fmt.Sprintf("%s %s %s %d", e.Actor, facts.Code, facts.Op, facts.Count))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func wantRefusals(t *testing.T, store hub.Store, want ...string) {
	t.Helper()
	if got := refusals(t, store); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("refusals: got %q, want %q", got, want)
	}
}

func TestRefused(t *testing.T) {
	store := open(t)
	j := journal.New(store, nil)
	t.Run("R3-020 the first refusal of its kind is written at once", func(t *testing.T) {
		j.Refused(t.Context(), "alice", "acp/send", hub.CodeInvalid)
		wantRefusals(t, store, "alice schema_invalid acp/send 1")
	})
	t.Run("a thousand more become one entry with a count", func(t *testing.T) {
		for range 1000 {
			j.Refused(t.Context(), "alice", "acp/status", hub.CodeInvalid)
		}
		wantRefusals(t, store, "alice schema_invalid acp/send 1")
		j.Flush(t.Context())
		wantRefusals(t, store, "alice schema_invalid acp/send 1", "alice schema_invalid acp/status 1000")
	})
	t.Run("what was written is not written again", func(t *testing.T) {
		j.Flush(t.Context())
		if got := refusals(t, store); len(got) != 2 {
			t.Errorf("refusals: got %q, want the two from before", got)
		}
	})
	t.Run("other actors and other codes are other kinds", func(t *testing.T) {
		j.Refused(t.Context(), "bob", "acp/send", hub.CodeInvalid)
		j.Refused(t.Context(), "alice", "acp/send", hub.CodeDenied)
		if got := refusals(t, store); len(got) != 4 {
			t.Errorf("refusals: got %q, want four", got)
		}
	})
	t.Run("a refusal is recorded although the caller is gone", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		j.Refused(ctx, "gone", "acp/send", hub.CodeInvalid)
		if got := refusals(t, store); got[len(got)-1] != "gone schema_invalid acp/send 1" {
			t.Errorf("last refusal: got %q, want that of who is gone", got[len(got)-1])
		}
	})
}

func TestRefusedIsBounded(t *testing.T) {
	store := open(t)
	fast := &countingStore{Store: store}
	j := journal.New(fast, nil)
	t.Run("more kinds than are told apart are counted together", func(t *testing.T) {
		for i := range 10_000 {
			j.Refused(t.Context(), hub.AgentID(fmt.Sprintf("a%d", i)), "op", hub.CodeInvalid)
		}
		told := fast.updates
		for i := range 10_000 {
			j.Refused(t.Context(), hub.AgentID(fmt.Sprintf("b%d", i)), "op", hub.CodeInvalid)
		}
		if got := fast.updates - told; got != 1 {
			t.Errorf("entries for 10000 more: got %d, want 1", got)
		}
	})
	t.Run("none of them is lost", func(t *testing.T) {
		fast.pass = true
		j.Flush(t.Context())
		wantRefusals(t, store, " schema_invalid op 9999")
	})
}

// A countingStore counts changes, and passes them on only when it is told to:
// ten thousand synced entries would tell nothing more.
type countingStore struct {
	hub.Store
	updates int
	pass    bool
}

func (s *countingStore) Update(ctx context.Context, d hub.Durability, fn func(hub.Tx) error) error {
	s.updates++
	if !s.pass {
		return nil
	}
	return s.Store.Update(ctx, d, fn)
}

// A brokenStore is a real store that fails while it is told to.
type brokenStore struct {
	hub.Store
	err error
}

func (s *brokenStore) Update(ctx context.Context, d hub.Durability, fn func(hub.Tx) error) error {
	if s.err != nil {
		return s.err
	}
	return s.Store.Update(ctx, d, fn)
}

func TestRefusedWhileDegraded(t *testing.T) {
	t.Run("R3-115 what could not be written is written when the store is back", func(t *testing.T) {
		store := open(t)
		broken := &brokenStore{store, hub.Errorf(hub.CodeDegraded, "test", "the disk is full")}
		j := journal.New(broken, nil)
		for range 3 {
			j.Refused(t.Context(), "alice", "acp/send", hub.CodeInvalid)
		}
		j.Flush(t.Context()) // fails, too
		j.Refused(t.Context(), "alice", "acp/send", hub.CodeInvalid)
		wantRefusals(t, store)
		broken.err = nil
		j.Flush(t.Context())
		wantRefusals(t, store, "alice schema_invalid acp/send 4")
	})
}

func TestRefusedBeforeAKill(t *testing.T) {
	store, opts := open(t), &journal.Options{Slate: filepath.Join(t.TempDir(), "counted")}
	files := func() []string {
		found, err := filepath.Glob(opts.Slate + "*")
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	j := journal.New(store, opts)
	refuse := func(actor hub.AgentID, n int) {
		for range n {
			j.Refused(t.Context(), actor, "op", hub.CodeInvalid)
		}
	}
	refuse("alice", 4)
	j.Flush(t.Context())
	if got := files(); len(got) != 0 {
		t.Errorf("what is in the journal is still in %v", got)
	}
	refuse("alice", 6)
	wantRefusals(t, store, "alice schema_invalid op 1", "alice schema_invalid op 3", "alice schema_invalid op 1")

	j = journal.New(store, opts) // the one before was killed
	if err := j.Recover(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantRefusals(t, store, "alice schema_invalid op 1", "alice schema_invalid op 3", "alice schema_invalid op 1", "alice schema_invalid op 5")
	if got := files(); len(got) != 0 {
		t.Errorf("what is in the journal is still in %v", got)
	}
	refuse("bob", 3)
	j.Flush(t.Context())
	j = journal.New(store, opts)
	if err := j.Recover(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantRefusals(t, store, "alice schema_invalid op 1", "alice schema_invalid op 3", "alice schema_invalid op 1", "alice schema_invalid op 5", "bob schema_invalid op 1", "bob schema_invalid op 2")

	t.Run("a kill while the store is degraded loses none either", func(t *testing.T) {
		broken := &brokenStore{store, hub.Errorf(hub.CodeDegraded, "test", "the disk is full")}
		j = journal.New(broken, opts)
		refuse("carol", 3)
		j.Flush(t.Context())
		refuse("carol", 1)
		j = journal.New(store, opts)
		if err := j.Recover(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := refusals(t, store); got[len(got)-1] != "carol schema_invalid op 4" {
			t.Errorf("last refusal: got %q, want the four of carol", got[len(got)-1])
		}
	})
}

func TestRun(t *testing.T) {
	if storetest.Postgres() {
		t.Skip("no time passes in a bubble while a connection waits")
	}
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		store, err := sqlite.Open(dir, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		j := journal.New(store, nil)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { j.Run(ctx); close(done) }()
		refuse := func() {
			for range 3 {
				j.Refused(t.Context(), "alice", "op", hub.CodeInvalid)
			}
		}
		refuse()
		<-time.After(time.Minute - time.Second) // in the time of the bubble
		synctest.Wait()
		wantRefusals(t, store, "alice schema_invalid op 1")
		<-time.After(2 * time.Second)
		synctest.Wait()
		wantRefusals(t, store, "alice schema_invalid op 1", "alice schema_invalid op 2")
		refuse()
		cancel() // what was gathered is written at the end
		<-done
		wantRefusals(t, store, "alice schema_invalid op 1", "alice schema_invalid op 2", "alice schema_invalid op 1", "alice schema_invalid op 2")
	})
}

func TestEntries(t *testing.T) {
	store := open(t)
	hints := new(bus.Local)
	woken, cancel := hints.Subscribe(hub.TopicJournal)
	defer cancel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	j := journal.New(store, &journal.Options{Bus: hints, Clock: func() time.Time { return now }})
	if err := j.Started(t.Context(), "1.2.3"); err != nil {
		t.Fatal(err)
	}
	if err := store.Update(t.Context(), hub.SurvivesKill, func(tx hub.Tx) error {
		_, err := tx.Append(hub.Entry{At: hub.At(now), Actor: "alice", Action: actions.ArtifactPut, Subject: "abc", Outcome: hub.OutcomeOK, Facts: json.RawMessage(`{"size_bytes":7}`)})
		return err
	}); err != nil {
		t.Fatal(err)
	}
	boss := hub.Caller{ID: hub.Operator}
	entries, last, err := j.Events(t.Context(), boss, 0, 10)
	if err != nil || len(entries) != 2 || last != 2 {
		t.Fatalf("events: got %d up to %d (%v), want 2", len(entries), last, err)
	}
	t.Run("R3-120 an entry has actor, action, time and outcome, and chains to the one before", func(t *testing.T) {
		for i, want := range []hub.Entry{
			{Actor: hub.Self, Action: actions.HubStarted, Facts: json.RawMessage(`{"version":"1.2.3"}`)},
			{Actor: "alice", Action: actions.ArtifactPut, Subject: "abc", Facts: json.RawMessage(`{"size_bytes":7}`)},
		} {
			got := entries[i]
			if got.Seq != int64(i+1) || got.Actor != want.Actor || got.Action != want.Action || got.Subject != want.Subject || string(got.Facts) != string(want.Facts) ||
				got.At != hub.At(now) || got.Outcome != hub.OutcomeOK {
				t.Errorf("entry: got %+v, want %+v", got, want)
			}
			prev := ""
			if i > 0 {
				prev = entries[i-1].Hash
			}
			if got.Hash != got.Chain(prev) {
				t.Errorf("entry %d: its hash does not follow from the one before", got.Seq)
			}
		}
	})
	t.Run("every entry gives a hint", func(t *testing.T) {
		select {
		case <-woken:
		default:
			t.Error("no hint came")
		}
	})
	t.Run("an agent sees its own entries and is told how far it has looked", func(t *testing.T) {
		for _, tt := range []struct {
			actor hub.Caller
			want  int
		}{{hub.Caller{ID: "alice"}, 1}, {hub.Caller{ID: "bob"}, 0}, {hub.Caller{ID: "carol", Auditor: true}, 2}} {
			got, last, err := j.Events(t.Context(), tt.actor, 0, 10)
			if err != nil || len(got) != tt.want || last != 2 {
				t.Errorf("%s: got %d up to %d (%v), want %d up to 2", tt.actor.ID, len(got), last, err, tt.want)
			}
		}
	})
	t.Run("a page ends at its limit and the next goes on there", func(t *testing.T) {
		got, last, err := j.Events(t.Context(), boss, 0, 1)
		if err != nil || len(got) != 1 || last != 1 {
			t.Fatalf("first page: got %d up to %d (%v), want 1 up to 1", len(got), last, err)
		}
		if got, last, err = j.Events(t.Context(), boss, last, 1); err != nil || len(got) != 1 || got[0].Seq != 2 || last != 2 {
			t.Errorf("second page: got %v up to %d (%v), want the second", got, last, err)
		}
		if got, last, err = j.Events(t.Context(), boss, last, 1); err != nil || len(got) != 0 || last != 2 {
			t.Errorf("third page: got %v up to %d (%v), want nothing", got, last, err)
		}
	})
	t.Run("the head is the newest entry", func(t *testing.T) {
		if got, err := j.Head(t.Context()); err != nil || got != (hub.Head{Seq: 2, Hash: entries[1].Hash, At: hub.At(now)}) {
			t.Errorf("head: got %+v (%v), want 2", got, err)
		}
	})
	t.Run("a store that is closed is reported", func(t *testing.T) {
		other := open(t)
		other.Close()
		j := journal.New(other, nil)
		var e *hub.Error
		if err := j.Started(t.Context(), "x"); !errors.As(err, &e) || e.Code != hub.CodeDegraded {
			t.Errorf("started: got %v, want degraded", err)
		}
		if _, err := j.Head(t.Context()); hub.CodeOf(err) != hub.CodeDegraded {
			t.Errorf("head: got %v, want degraded", err)
		}
	})
}
