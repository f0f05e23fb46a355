package handoff_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/ground/shape"
	"github.com/parley-agents/parley/internal/service/handoff"
)

// A racingStore calls after once, when a View is over.
type racingStore struct {
	hub.Store
	after func()
}

func (s *racingStore) View(ctx context.Context, fn func(hub.Reader) error) error {
	err := s.Store.View(ctx, fn)
	if after := s.after; after != nil {
		s.after = nil
		after()
	}
	return err
}

func TestSealing(t *testing.T) {
	t.Run("R3-060 a task that changes hands while its package is sealed gets the owners that it has then", func(t *testing.T) {
		d := open(t)
		store := &racingStore{Store: d.store}
		store.after = func() { // another handoff of the task comes and goes
			h := d.accept(tester, d.propose(planner, "tester", pkg("T", nil)).ID)
			if _, err := d.Complete(t.Context(), tester, h.ID, handoff.Completion{}); err != nil {
				t.Fatal(err)
			}
		}
		racing := handoff.New(store, d.mail, &handoff.Options{Clock: d.clock})
		got, err := racing.Initiate(t.Context(), builder, handoff.Proposal{To: "auditor", Package: pkg("T", nil)})
		if err != nil {
			t.Fatal(err)
		}
		if store.after != nil {
			t.Fatal("nothing happened while the package was sealed")
		}
		d.view(func(r hub.Reader) error {
			h, err := r.Handoff(got.ID)
			if err != nil {
				return err
			}
			var p struct {
				Provenance struct {
					Chain []hub.AgentID `json:"handoff_chain"`
				} `json:"provenance"`
			}
			if err := json.Unmarshal(h.Package, &p); err != nil {
				return err
			}
			if got, want := len(p.Provenance.Chain), 3; got != want {
				t.Errorf("chain: got %v, want planner, tester and builder", p.Provenance.Chain)
			}
			hash, err := shape.PackageHash(h.Package)
			if hash != h.Hash {
				t.Errorf("hash: got %s, want %s", h.Hash, hash)
			}
			return err
		})
	})
}

func TestAcceptIsOvertaken(t *testing.T) {
	t.Run("a handoff that its sender withdraws during the checks is not accepted", func(t *testing.T) {
		d := open(t)
		h := d.propose(planner, "builder", pkg("T", nil))
		store := &racingStore{Store: d.store, after: func() {
			if _, err := d.Withdraw(t.Context(), planner, h.ID, "not needed"); err != nil {
				t.Error(err)
			}
		}}
		racing := handoff.New(store, d.mail, &handoff.Options{Clock: d.clock})
		_, err := racing.Accept(t.Context(), builder, h.ID, "")
		if hub.CodeOf(err) != hub.CodeConflict {
			t.Errorf("got %v, want %s", err, hub.CodeConflict)
		}
		if got, err := d.Show(t.Context(), builder, h.ID); err != nil || got.Status != hub.HandoffRejected {
			t.Errorf("got %s (%v), want %s", got.Status, err, hub.HandoffRejected)
		}
	})
	t.Run("an accept whose caller leaves during the checks changes nothing", func(t *testing.T) {
		d := open(t)
		h := d.propose(planner, "builder", pkg("T", nil))
		ctx, leave := context.WithCancel(t.Context())
		racing := handoff.New(&racingStore{Store: d.store, after: leave}, d.mail, &handoff.Options{Clock: d.clock})
		if _, err := racing.Accept(ctx, builder, h.ID, ""); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want %v", err, context.Canceled)
		}
		if got, err := d.Show(t.Context(), builder, h.ID); err != nil || got.Status != hub.HandoffProposed {
			t.Errorf("got %s (%v), want %s", got.Status, err, hub.HandoffProposed)
		}
	})
}
