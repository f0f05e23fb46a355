package reservation_test

import (
	"encoding/json"
	"flag"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/service/reservation"
	"github.com/parley-agents/parley/internal/testing/patience"
	"github.com/parley-agents/parley/internal/testing/storetest"
)

var walkSeed = flag.Uint64("walk-seed", 0, "seed of the random steps of the model; 0 for the known ones and a new one")

// walks is the number of random walks of one seed.
func walks() int {
	if patience.Race {
		return 4
	}
	return 20
}

// fresh returns the number of new seeds for n random walks: PARLEY_MODEL_WALKS, as in make model,
// else n.
func fresh(n int) int {
	if v, err := strconv.Atoi(os.Getenv("PARLEY_MODEL_WALKS")); err == nil {
		n = v
	}
	return max(1, n/20)
}

// TestModelWalks makes random steps of the model, more of them than TestModel, and checks the
// answers of the service.
func TestModelWalks(t *testing.T) {
	patience.Random(t, *walkSeed, fresh(2000), func(random *rand.Rand) {
		for range walks() {
			s := newStage()
			for range 100 {
				from := s.w
				s.run(&from, random.IntN(len(steps)))
				if s.broken != "" {
					t.Fatalf("%s\nafter: %s", s.broken, story(s.w.trail))
				}
			}
		}
	})
}

// TestModelOnSQLite makes random steps of the model on a real store with one connection for
// reading, and compares each answer and each message with those of the store in memory.
func TestModelOnSQLite(t *testing.T) {
	patience.Random(t, *walkSeed, fresh(20), func(random *rand.Rand) {
		for range walks() {
			walk(t, random)
		}
	})
}

// walk makes the steps of one walk.
func walk(t *testing.T, random *rand.Rand) {
	t.Helper()
	inMemory, onDisk := newStage(), newStage()
	store := storetest.Open(t, t.TempDir())
	defer store.Close()
	onDisk.store = store
	onDisk.restart()
	for range 100 {
		step := random.IntN(len(steps))
		onDisk.w.store = inMemory.w.store // says which steps are possible
		want := transcript(t, inMemory, step)
		got := transcript(t, onDisk, step)
		trail := story(inMemory.w.trail)
		if !slices.Equal(got, want) {
			t.Fatalf("the stores differ\nin memory: %s\non disk:   %s\nafter: %s", want, got, trail)
		}
		if inMemory.broken != "" || onDisk.broken != "" {
			t.Fatalf("in memory: %s\non disk: %s\nafter: %s", inMemory.broken, onDisk.broken, trail)
		}
	}
}

// transcript makes a step and returns the answers and messages of the service, and its
// reservations after it.
func transcript(t *testing.T, s *stage, step int) (out []string) {
	t.Helper()
	add := func(v any) {
		raw, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, string(raw))
	}
	s.answers = add
	from := s.w
	if !s.run(&from, step) {
		return nil
	}

	err := s.store.View(t.Context(), func(r hub.Reader) error {
		rows, err := r.Reservations().OfAgent("")
		for _, v := range rows {
			add(v)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestCommittedChanges has a person change a file after its holder's changes were committed and
// before the hub looks. The file is free: the commit has what the holder wrote.
func TestCommittedChanges(t *testing.T) {
	s := newStage()
	s.edit(0, first, "")
	s.w.head[first] = s.w.files[first]
	s.w.put(first, person)
	if got := s.ask(1, reservation.Edit, "", first); got.Decision != reservation.Allow {
		t.Errorf("got %+v, want the edit to be allowed", got)
	}
	if s.broken != "" {
		t.Error(s.broken)
	}
}
