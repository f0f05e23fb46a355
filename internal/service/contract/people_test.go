package contract_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/engine/bus"
	"github.com/parley-agents/parley/internal/service/contract"
)

// A crowd hears of all events, or of the kinds that it wants.
type crowd struct {
	heard chan string
	wants []string
}

func newCrowd(wants ...string) *crowd { return &crowd{make(chan string, 100), wants} }

func (c *crowd) Wants(kind string) bool { return len(c.wants) == 0 || slices.Contains(c.wants, kind) }

func (c *crowd) Tell(_ hub.Tx, kind, _, fact, command string) error {
	c.heard <- kind + ": " + fact + " (" + command + ")"
	return nil
}

// next waits for the next event and checks its parts.
func (c *crowd) next(t *testing.T, parts ...string) {
	t.Helper()
	select {
	case got := <-c.heard:
		for _, part := range parts {
			if !strings.Contains(got, part) {
				t.Errorf("%q lacks %q", got, part)
			}
		}
	case <-time.After(time.Minute):
		t.Fatalf("nobody heard of %q", parts)
	}
}

// silent fails if an event was heard.
func (c *crowd) silent(t *testing.T) {
	t.Helper()
	select {
	case got := <-c.heard:
		t.Errorf("heard %q", got)
	default:
	}
}

// listen runs the work of a hub until the test ends. It hears of events from now on.
func listen(t *testing.T, d *desk) {
	t.Helper()
	d.ok(d.store.Update(t.Context(), hub.SurvivesKill, func(tx hub.Tx) error {
		head, err := hub.HeadOf(tx)
		if err != nil {
			return err
		}
		return tx.PutCursor(contract.EventCursor, head.Seq)
	}))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		d.Service.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
}

func TestPeopleHearOfContracts(t *testing.T) {
	people := newCrowd()
	k := newCrewWith(t, func(o *contract.Options) {
		o.Bus = new(bus.Local)
		o.People = people
	})
	far := newCrowd()
	other := newDesk(t, func(o *contract.Options) {
		o.Self = frontAID
		o.Repo = "frontend-app"
		o.Endpoint = "https://front"
		o.Bus = new(bus.Local)
		o.People = far
	})
	k.use(k.front, "User.avatar")
	exchange(t, k.desk, other, backAID, frontAID)
	k.merge("frontend-app", "f1", hub.AnswerNo, "no test was run")
	listen(t, k.desk)
	listen(t, other)

	// A compatible version is no event. The next one is, here and on the other hub.
	_, err := k.update(userSchema("name", "avatar", "mail"))
	k.ok(err)
	_, err = k.update(userSchema("name", "mail"))
	k.ok(err)
	people.next(t, contract.EventBreaking, "version 3 of a contract is breaking for frontend-app", "parley contract diff "+string(k.c.ID), "--from 2")
	exchange(t, k.desk, other, backAID, frontAID)
	far.next(t, contract.EventBreaking, "version 3 of a contract is breaking for frontend-app")

	// An answer that changes is an event, whoever finds it.
	k.run("frontend-app", "f1", contract.VerifySuccess, 0)
	people.next(t, contract.EventCanMerge, "commit "+short(id("f1"))+" of frontend-app can merge now", "--commit "+id("f1"))
	k.merge("frontend-app", "f1", hub.AnswerYes, "")
	k.run("frontend-app", "f1", contract.VerifyFailure, 0)
	people.next(t, contract.EventCanMerge, "commit "+short(id("f1"))+" of frontend-app can no longer merge")

	_, err = k.Deprecate(t.Context(), k.back, contract.Announcement{InContract: contract.Of(k.project.ID, k.c.ID), Part: "User.avatar", Until: "2999-12-31"})
	k.ok(err)
	people.next(t, contract.EventDeprecated, "a part of a contract ends on 2999-12-31; still used by frontend-app")
	exchange(t, k.desk, other, backAID, frontAID)
	far.next(t, contract.EventDeprecated, "ends on 2999-12-31")
	people.silent(t)
	far.silent(t)
}
