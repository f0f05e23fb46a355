package contract_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/coord"
	"github.com/parley-agents/parley/internal/ground/federation"
	"github.com/parley-agents/parley/internal/service/contract"
)

// A countedStore knows how many of its transactions are open.
type countedStore struct {
	hub.Store
	open atomic.Int32
}

func (s *countedStore) View(ctx context.Context, fn func(hub.Reader) error) error {
	return s.Store.View(ctx, func(r hub.Reader) error {
		s.open.Add(1)
		defer s.open.Add(-1)
		return fn(r)
	})
}

func (s *countedStore) Update(ctx context.Context, d hub.Durability, fn func(hub.Tx) error) error {
	return s.Store.Update(ctx, d, func(tx hub.Tx) error {
		s.open.Add(1)
		defer s.open.Add(-1)
		return fn(tx)
	})
}

// TestNothingIsComparedInATransaction walks the operations that compare contents. It is red if
// one of them has a transaction open meanwhile, or compares nothing.
func TestNothingIsComparedInATransaction(t *testing.T) {
	k := newCrew(t)
	k.use(k.front, "User.name")
	store := &countedStore{Store: k.store}
	k.Service = contract.New(store, &contract.Options{Clock: k.clock.read, Self: backAID, Repo: "backend-api"})
	compared := 0
	k.OnCompare(func() {
		compared++
		if n := store.open.Load(); n != 0 {
			t.Errorf("%d transactions are open during a comparison", n)
		}
	})
	in := contract.Of(k.project.ID, k.c.ID)

	for _, step := range []struct {
		name string
		do   func() error
	}{
		{"update", func() error { _, err := k.update(userSchema("name")); return err }},
		{"diff", func() error {
			_, err := k.Diff(k.Context(), k.front, contract.DiffQuery{InContract: in, Content: userSchema("avatar")})
			return err
		}},
		{"impact", func() error {
			_, err := k.Impact(k.Context(), k.front, contract.ImpactQuery{InContract: in, Content: userSchema("avatar", "mail")})
			return err
		}},
		{"use", func() error {
			if _, err := k.update(userSchema("mail", "name")); err != nil {
				return err
			}
			k.Service = contract.New(store, &contract.Options{Clock: k.clock.read, Self: backAID, Repo: "backend-api"})
			k.OnCompare(func() {
				compared++
				if n := store.open.Load(); n != 0 {
					t.Errorf("%d transactions are open during a comparison", n)
				}
			})
			_, err := k.Use(k.Context(), k.mobile, contract.Declaration{InContract: in, Parts: []string{"User.avatar"}})
			return err
		}},
		{"another update", func() error { _, err := k.update(userSchema("mail", "name", "phone")); return err }},
		{"matrix", func() error {
			k.run("frontend-app", "c1", contract.VerifySuccess, 1)
			_, err := k.Matrix(k.Context(), k.front, contract.MatrixQuery{InProject: contract.In(k.project.ID)})
			return err
		}},
	} {
		before := compared
		if err := step.do(); err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		if compared == before {
			t.Errorf("%s compared nothing", step.name)
		}
	}
}

// TestSyncComparesOutsideOfItsTransaction has a guest send an update that is agreed because it
// is compatible, which this hub finds out itself.
func TestSyncComparesOutsideOfItsTransaction(t *testing.T) {
	k := newCrewWithoutGates(t, nil)
	_, err := k.update(userSchema("name", "avatar", "mail"))
	k.ok(err)
	changes, err := k.Changes(t.Context(), 0, 1000)
	k.ok(err)
	copies, err := k.Copies(t.Context(), "", changes)
	k.ok(err)

	store := &countedStore{Store: newDesk(t, nil).store}
	host := contract.New(store, &contract.Options{Clock: k.clock.read, Self: "aid://example.com/host@1.0.0"})
	first, err := k.Copies(t.Context(), "", changes[:1])
	k.ok(err)
	_, err = host.Sync(t.Context(), backAID, true, first)
	k.ok(err)
	k.ok(store.Store.Update(t.Context(), hub.SurvivesKill, func(tx hub.Tx) error {
		return tx.PutPeer(hub.Peer{AID: backAID, State: hub.PeerApproved, Access: coord.AccessRead, Grants: []coord.Grant{{
			Project: k.project.ID, Repos: []string{"backend-api", "frontend-app", "mobile-app"}, Permissions: []coord.Permission{coord.PermitPropose, coord.PermitWrite, coord.PermitRespond},
		}}})
	}))
	compared := 0
	host.OnCompare(func() {
		compared++
		if n := store.open.Load(); n != 0 {
			t.Errorf("%d transactions are open during a comparison", n)
		}
	})
	done, err := host.Sync(t.Context(), backAID, true, copies)
	k.ok(err)
	if compared == 0 {
		t.Errorf("nothing was compared: %+v", done)
	}
	for _, d := range done {
		if d.Status == federation.SyncError && d.Code != hub.CodeDenied {
			t.Errorf("a copy was refused: %+v", d)
		}
	}
}

// TestAComparisonThatPanics asks a question whose comparison panics, again and again. Each ends with an
// error, none keeps its slot, and the next comparison answers.
func TestAComparisonThatPanics(t *testing.T) {
	k := newCrew(t)
	isBroken := true
	k.OnCompare(func() {
		if isBroken {
			panic("a content that the comparison does not bear")
		}
	})
	ask := func() error {
		_, err := k.Diff(t.Context(), k.front, contract.DiffQuery{InContract: contract.Of(k.project.ID, k.c.ID), Content: userSchema("name", "panic")})
		return err
	}
	for range 3 { // more than comparisons at a time
		if err := ask(); hub.CodeOf(err) != hub.CodeInternal {
			t.Fatalf("got %v, want %s", err, hub.CodeInternal)
		}
	}
	isBroken = false
	if err := ask(); err != nil {
		t.Errorf("after the panics: %v", err)
	}
}

// TestFewComparisonsAtATime asks many questions at once, and looks at the comparisons that run
// when every goroutine waits.
func TestFewComparisonsAtATime(t *testing.T) {
	k := newCrew(t)
	ask := func(ctx context.Context, who hub.AgentID, name string) error {
		_, err := k.Diff(ctx, hub.Caller{ID: who}, contract.DiffQuery{InContract: contract.Of(k.project.ID, k.c.ID), Content: userSchema("name", name)})
		return err
	}
	var running, most, made int32
	proceed := make(chan struct{}) // comparisons do not end before it is closed
	close(proceed)
	var count sync.Mutex
	started := make(chan struct{}, 100)
	k.OnCompare(func() {
		count.Lock()
		running++
		made++
		most = max(most, running)
		count.Unlock()
		started <- struct{}{}
		<-proceed
		count.Lock()
		running--
		count.Unlock()
	})
	all := func(questions map[hub.AgentID][]string) {
		t.Helper()
		var wait sync.WaitGroup
		for who, names := range questions {
			for _, name := range names {
				wait.Go(func() {
					if err := ask(t.Context(), who, name); err != nil {
						t.Errorf("%s: %v", who, err)
					}
				})
			}
		}
		wait.Wait()
	}

	t.Run("two for the hub", func(t *testing.T) {
		questions := map[hub.AgentID][]string{}
		for i := range 8 {
			questions[hub.AgentID(fmt.Sprintf("a%d", i))] = []string{fmt.Sprintf("field%d", i)}
		}
		most, made = 0, 0
		all(questions)
		if most > 2 || made != 8 {
			t.Errorf("%d comparisons were made, %d at a time; want 8, at most 2 at a time", made, most)
		}
	})
	t.Run("one for a caller", func(t *testing.T) {
		most, made = 0, 0
		all(map[hub.AgentID][]string{"cy": {"c1", "c2", "c3", "c4"}})
		if most != 1 || made != 4 {
			t.Errorf("%d comparisons were made, %d at a time; want 4, one at a time", made, most)
		}
	})
	t.Run("equal questions share one, and its answer is kept", func(t *testing.T) {
		made = 0
		all(map[hub.AgentID][]string{"d1": {"same"}, "d2": {"same"}, "d3": {"same"}, "d4": {"same", "same"}})
		if made != 1 {
			t.Errorf("%d comparisons were made of one question", made)
		}
	})
	t.Run("a caller that goes away does not wait", func(t *testing.T) {
		for len(started) > 0 {
			<-started
		}
		proceed = make(chan struct{})
		ctx, leave := context.WithCancel(t.Context())
		end := make(chan error, 1)
		go func() { end <- ask(ctx, "e1", "slow") }()
		<-started
		leave()
		if err := <-end; !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want the end of its context", err)
		}
		close(proceed)
	})
}
