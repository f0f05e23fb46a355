package handoff_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/service/handoff"
	"github.com/parley-agents/parley/internal/testing/hubtest"
)

// board returns the items of the hub's queue: the free ones in order, then the owners.
func (d *desk) board() string {
	d.t.Helper()
	free, err := d.FreeItems(d.t.Context())
	if err != nil {
		d.t.Fatal(err)
	}
	claims, err := d.ItemClaims(d.t.Context(), "")
	if err != nil {
		d.t.Fatal(err)
	}
	var out []string
	for _, q := range free {
		out = append(out, q.Item)
	}
	for _, c := range claims {
		out = append(out, c.Item+"="+string(c.Owner))
	}
	return strings.Join(out, " ")
}

// add puts items into the queue.
func (d *desk) add(actor hub.Caller, items ...string) {
	d.t.Helper()
	for _, item := range items {
		if _, err := d.AddItem(d.t.Context(), actor, item); err != nil {
			d.t.Fatal(err)
		}
	}
}

// next takes the next item.
func (d *desk) next(actor hub.Caller) string {
	d.t.Helper()
	c, err := d.NextItem(d.t.Context(), actor)
	if err != nil {
		return string(hub.CodeOf(err))
	}
	return c.Item
}

func TestItems(t *testing.T) {
	t.Run("an item that was claimed before it was added comes after the others", func(t *testing.T) {
		d := open(t)
		claimed, err := d.ClaimItem(t.Context(), builder, "x")
		if err != nil {
			t.Fatal(err)
		}
		d.pass(time.Hour)
		d.add(planner, "y", "x", "y")
		same(t, "queue", d.board(), "y x=builder")
		again, err := d.ItemClaims(t.Context(), "builder")
		if err != nil || len(again) != 1 || again[0] != claimed {
			t.Errorf("got %v (%v), want the claim from before it was added: %v", again, err, claimed)
		}
		if _, err := d.ReleaseItem(t.Context(), builder, "x"); err != nil {
			t.Fatal(err)
		}
		same(t, "queue", d.board(), "y x")
		same(t, "next", d.next(tester)+d.next(tester)+d.next(tester), "yxnot_found")
	})
	t.Run("an item that was only claimed leaves the queue when it is released", func(t *testing.T) {
		d := open(t)
		if _, err := d.ClaimItem(t.Context(), builder, "x"); err != nil {
			t.Fatal(err)
		}
		if _, err := d.ReleaseItem(t.Context(), builder, "x"); err != nil {
			t.Fatal(err)
		}
		same(t, "queue", d.board(), "")
		same(t, "next", d.next(tester), "not_found")
		if _, err := d.FinishItem(t.Context(), operator, "x"); hub.CodeOf(err) != hub.CodeNotFound {
			t.Errorf("done: got %v, want %s", err, hub.CodeNotFound)
		}
	})
	t.Run("a released item has its place again", func(t *testing.T) {
		d := open(t)
		d.add(planner, "a", "b")
		same(t, "next", d.next(builder), "a")
		if _, err := d.ReleaseItem(t.Context(), operator, "a"); err != nil {
			t.Fatal(err)
		}
		same(t, "queue", d.board(), "a b")
	})
	t.Run("a free item is taken out by the agent that added it, and can be added again", func(t *testing.T) {
		d := open(t)
		d.add(planner, "a", "b")
		if _, err := d.FinishItem(t.Context(), builder, "a"); hub.CodeOf(err) != hub.CodeOwnership {
			t.Errorf("by another agent: got %v, want %s", err, hub.CodeOwnership)
		}
		c, err := d.FinishItem(t.Context(), planner, "a")
		if want := (hub.ItemClaim{Item: "a"}); err != nil || c != want {
			t.Errorf("got %+v (%v), want %+v", c, err, want)
		}
		d.add(builder, "a")
		same(t, "queue", d.board(), "b a")
	})
	t.Run("a handoff can name a free item, and a task id that looks like the hub's", func(t *testing.T) {
		d := open(t)
		d.add(planner, "a")
		got := d.accept(builder, d.propose(planner, "builder", pkg("T-1", itemOf("a"))).ID)
		same(t, "ownership", got.Ownership, hub.OwnershipTransferred)
		same(t, "queue", d.board(), "a=builder")
	})
	t.Run("the queue has a limit, and items that were only claimed do not count", func(t *testing.T) {
		d := open(t)
		err := d.store.Update(t.Context(), hub.SurvivesKill, func(tx hub.Tx) error {
			for i := range 1010 {
				x := hub.Task{Title: fmt.Sprint("item ", i), State: hub.TaskInProgress, Owner: "tester", UpdatedAt: hub.At(d.clock())}
				if i >= 11 {
					x.State, x.Owner = hub.TaskBacklog, ""
					x.CreatedBy, x.CreatedAt = "planner", x.UpdatedAt
				}
				if _, err := tx.WriteTeamspaces().PutTask(x); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		d.add(planner, "the last")
		if _, err := d.AddItem(t.Context(), planner, "one more"); hub.CodeOf(err) != hub.CodeRateLimited {
			t.Errorf("got %v, want %s", err, hub.CodeRateLimited)
		}
		if _, err := d.ClaimItem(t.Context(), builder, "one more"); err != nil {
			t.Errorf("a claim of an item that was not added: %v", err)
		}
		same(t, "next", d.next(builder), "item 11")
	})
	t.Run("two callers never get the same item", func(t *testing.T) {
		d := open(t)
		const items = 30
		for i := range items {
			d.add(planner, fmt.Sprint("item ", i))
		}
		var mu sync.Mutex
		taken := map[string]int{}
		var wg sync.WaitGroup
		for _, actor := range []hub.Caller{builder, tester, planner, builder, tester, planner} {
			wg.Go(func() {
				for {
					c, err := d.NextItem(context.Background(), actor)
					if err != nil {
						if hub.CodeOf(err) != hub.CodeNotFound {
							t.Error(err)
						}
						return
					}
					mu.Lock()
					taken[c.Item]++
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		for item, n := range taken {
			if n != 1 {
				t.Errorf("%s was given %d times", item, n)
			}
		}
		same(t, "items", len(taken), items)
	})
}

func TestItemsSurviveKills(t *testing.T) {
	steps := []struct {
		name   string
		do     func(d *desk) error
		before string
		after  string
	}{
		{"claim", func(d *desk) error { _, err := d.ClaimItem(t.Context(), builder, "new"); return err }, "free held=planner own=planner", "free held=planner new=builder own=planner"},
		{"next", func(d *desk) error { _, err := d.NextItem(t.Context(), builder); return err }, "free held=planner own=planner", "free=builder held=planner own=planner"},
		{"add of a claimed item", func(d *desk) error { _, err := d.AddItem(t.Context(), builder, "own"); return err }, "free held=planner own=planner", "free held=planner own=planner"},
		{"release", func(d *desk) error { _, err := d.ReleaseItem(t.Context(), planner, "held"); return err }, "free held=planner own=planner", "free held own=planner"},
		{"release of one that was only claimed", func(d *desk) error { _, err := d.ReleaseItem(t.Context(), planner, "own"); return err }, "free held=planner own=planner", "free held=planner"},
		{"done", func(d *desk) error { _, err := d.FinishItem(t.Context(), planner, "held"); return err }, "free held=planner own=planner", "free own=planner"},
	}
	for _, step := range steps {
		t.Run(step.name+" changes all or nothing", func(t *testing.T) {
			d := open(t)
			d.add(planner, "free", "held")
			for _, item := range []string{"held", "own"} {
				if _, err := d.ClaimItem(t.Context(), planner, item); err != nil {
					t.Fatal(err)
				}
			}
			broken := &hubtest.Store{Store: d.store}
			d.Service = handoff.New(broken, d.mail, &handoff.Options{Clock: d.clock})
			for fail := 1; ; fail++ {
				n := 0
				broken.Before = func(string) error {
					if n++; n == fail {
						return errors.New("the hub was killed")
					}
					return nil
				}
				err := step.do(d)
				broken.Before = nil
				if n < fail { // no call was left to fail
					if err != nil || fail < 4 {
						t.Errorf("got %v after %d calls", err, fail)
					}
					break
				}
				if err == nil {
					t.Errorf("call %d failed, and the step did not", fail)
				}
				same(t, "queue", d.board(), step.before)
			}
			same(t, "queue", d.board(), step.after)
		})
	}
	t.Run("an accepted handoff has its item, or it is not accepted", func(t *testing.T) {
		d := open(t)
		if _, err := d.ClaimItem(t.Context(), planner, "a"); err != nil {
			t.Fatal(err)
		}
		h := d.propose(planner, "builder", pkg("task", itemOf("a")))
		broken := &hubtest.Store{Store: d.store, Before: func(call string) error {
			if call == "update commit" {
				return errors.New("the hub was killed")
			}
			return nil
		}}
		d.Service = handoff.New(broken, d.mail, &handoff.Options{Clock: d.clock})
		if _, err := d.Accept(t.Context(), builder, h.ID, ""); err == nil {
			t.Fatal("got no error")
		}
		broken.Before = nil
		got, err := d.Show(t.Context(), builder, h.ID)
		same(t, "handoff", fmt.Sprint(got.Status, " ", err), "proposed <nil>")
		same(t, "queue", d.board(), "a=planner")
		d.accept(builder, h.ID)
		same(t, "queue", d.board(), "a=builder")
	})
}
