package proof_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"testing"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
	"github.com/parley-agents/parley/internal/engine/sqlite"
	"github.com/parley-agents/parley/internal/service/proof"
	"github.com/parley-agents/parley/internal/testing/storetest"
)

// The test binary, started again with these in its environment, is a hub that kills itself at a given
// step of the growth of the tree.
const (
	childHome = "PARLEY_TEST_HOME"
	childStep = "PARLEY_TEST_STEP"
)

func TestMain(m *testing.M) {
	if os.Getenv(childHome) != "" {
		if err := child(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// child appends rows to the journal and lets the tree grow over them.
func child() error {
	step, err := strconv.Atoi(os.Getenv(childStep))
	if err != nil {
		return err
	}
	store, err := sqlite.Open(os.Getenv(childHome), nil)
	if err != nil {
		return err
	}
	defer store.Close()
	ctx := context.Background()
	err = store.Update(ctx, hub.SurvivesKill, func(tx hub.Tx) error {
		for range 300 {
			if err := appendRow(tx, hub.Self, actions.HubStarted, "", nil); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return proof.New(&deadlyStore{store, step}, key("hub"), nil).Grow(ctx)
}

// A deadlyStore kills the process after so many steps: one before each call, one inside and one after.
type deadlyStore struct {
	hub.Store
	left int
}

func (s *deadlyStore) step() {
	if s.left--; s.left == 0 {
		if self, err := os.FindProcess(os.Getpid()); err == nil {
			self.Kill()
		}
		select {}
	}
}

func (s *deadlyStore) View(ctx context.Context, fn func(hub.Reader) error) error {
	s.step()
	err := s.Store.View(ctx, fn)
	s.step()
	return err
}

func (s *deadlyStore) Update(ctx context.Context, d hub.Durability, fn func(hub.Tx) error) error {
	s.step()
	err := s.Store.Update(ctx, d, func(tx hub.Tx) error {
		err := fn(tx)
		s.step()
		return err
	})
	s.step()
	return err
}

// TestKills holds that a hub that is killed 50 times while the tree grows has one tree, that of its
// journal, and no checkpoint that contradicts another.
func TestKills(t *testing.T) {
	dir := t.TempDir()
	storetest.Prepare(t, dir)
	kills, step := 0, 1
	for kills < 50 {
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), childHome+"="+dir, childStep+"="+strconv.Itoa(step))
		out, err := cmd.CombinedOutput()
		exit, isExit := errors.AsType[*exec.ExitError](err)
		switch {
		case err == nil: // there are fewer steps
			step = 1
			continue
		case !isExit || exit.ExitCode() == 1:
			t.Fatalf("%v: %s", err, out)
		}
		kills++
		step++
	}
	store, err := sqlite.Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	wantFindings(t, store)
	log := proof.New(store, key("hub"), nil)
	for range 2 {
		if err := log.Grow(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	wantRoot(t, store, log)
	wantFindings(t, store)
}
