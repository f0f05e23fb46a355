package handoff_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/service/handoff"
	"github.com/parley-agents/parley/internal/testing/hubtest"
)

// itemOf makes a package name an item of a queue.
func itemOf(item string) func(map[string]any) {
	return with("task.external_refs", []any{map[string]any{"type": "workq_item", "value": item}})
}

func TestClaims(t *testing.T) {
	d := open(t)
	t.Run("an item has one owner until it is released", func(t *testing.T) {
		if c, err := d.ClaimItem(t.Context(), planner, "app#42"); err != nil || c.Owner != "planner" {
			t.Fatalf("got %+v (%v), want a claim of planner", c, err)
		}
		if _, err := d.ClaimItem(t.Context(), planner, "app#42"); err != nil {
			t.Errorf("again by the owner: %v", err)
		}
		if _, err := d.ClaimItem(t.Context(), builder, "app#42"); hub.CodeOf(err) != hub.CodeOwnership || !strings.Contains(err.Error(), "planner owns") {
			t.Errorf("by another agent: got %v, want %s", err, hub.CodeOwnership)
		}
		if _, err := d.ReleaseItem(t.Context(), builder, "app#42"); hub.CodeOf(err) != hub.CodeOwnership {
			t.Errorf("released by another agent: got %v, want %s", err, hub.CodeOwnership)
		}
		for _, item := range []string{"", " x", strings.Repeat("x", 201)} {
			if _, err := d.ClaimItem(t.Context(), planner, item); hub.CodeOf(err) != hub.CodeInvalid {
				t.Errorf("%.10q: got %v, want %s", item, err, hub.CodeInvalid)
			}
		}
		if _, err := d.ReleaseItem(t.Context(), planner, "free"); hub.CodeOf(err) != hub.CodeNotFound {
			t.Errorf("a free item: got %v, want %s", err, hub.CodeNotFound)
		}
	})
	t.Run("a handoff gives the item to the receiver", func(t *testing.T) {
		got := d.accept(builder, d.propose(planner, "builder", pkg("T-1", itemOf("app#42"))).ID)
		if got.Ownership != hub.OwnershipTransferred || len(got.Warnings) != 0 {
			t.Errorf("got %+v, want it transferred", got)
		}
		all, err := d.Service.ItemClaims(t.Context(), "builder")
		same(t, "claims of the receiver", fmt.Sprint(len(all), err), "1 <nil>")
		shown, err := d.Show(t.Context(), operator, got.ID)
		if err != nil || !strings.Contains(handoff.Render(shown), "ownership in the queue: transferred") || !strings.Contains(handoff.Render(shown), "- verified: claim of app#42, from planner to builder") {
			t.Errorf("got %v %s, want the ownership and its step", err, handoff.Render(shown))
		}
	})
	t.Run("an item of a third agent rejects the handoff", func(t *testing.T) {
		if _, err := d.ClaimItem(t.Context(), tester, "app#43"); err != nil {
			t.Fatal(err)
		}
		h := d.propose(planner, "builder", pkg("T-2", itemOf("app#43")))
		got, err := d.Accept(t.Context(), builder, h.ID, "")
		if err != nil || got.Status != hub.HandoffRejected || got.RejectReason != hub.RejectOwnershipConflict {
			t.Errorf("got %+v (%v), want an ownership conflict", got, err)
		}
	})
	t.Run("a task without an item says that ownership does not apply", func(t *testing.T) {
		got := d.accept(builder, d.propose(planner, "builder", pkg("T-3", nil)).ID)
		same(t, "ownership", got.Ownership, hub.QueueNone)
	})
	t.Run("the operator releases every item", func(t *testing.T) {
		if c, err := d.ReleaseItem(t.Context(), operator, "app#43"); err != nil || c.Owner != "tester" {
			t.Errorf("got %+v (%v), want the claim of tester", c, err)
		}
		all, err := d.Service.ItemClaims(t.Context(), "")
		same(t, "claims", fmt.Sprint(len(all), err), "1 <nil>")
	})
}

// A queue is a queue outside the hub that answers as it is told.
type queue struct {
	owned     hub.Ownership
	conflict  bool
	during    func() // runs in a transfer; may be nil
	transfers []hub.Transfer
}

func (q *queue) Inspect(_ context.Context, t hub.Transfer) hub.Check {
	if q.conflict {
		return hub.Check{What: "queue item " + t.Item, Result: hub.CheckFailed, Reason: hub.RejectOwnershipConflict, Detail: "tester owns it"}
	}
	return hub.Check{What: "queue item " + t.Item, Result: hub.CheckUnverifiable}
}

func (q *queue) Transfer(ctx context.Context, t hub.Transfer) (hub.Ownership, []hub.Check) {
	q.transfers = append(q.transfers, t)
	if q.during != nil {
		q.during()
	}
	if ctx.Err() != nil {
		return hub.OwnershipDegraded, nil
	}
	return q.owned, []hub.Check{{What: "workq.claim", Result: hub.CheckVerified, Detail: "claimed for builder"}}
}

func TestOutsideQueue(t *testing.T) {
	t.Attr("stand-in", "queue of a gateway")
	d := open(t)
	q := &queue{owned: hub.OwnershipTransferred}
	broken := &hubtest.Store{Store: d.store}
	d.Service = handoff.New(broken, d.mail, &handoff.Options{Clock: d.clock, Queue: q})
	t.Run("R3-096 accepting a task moves its item, and the history has the steps", func(t *testing.T) {
		got := d.accept(builder, d.propose(planner, "builder", pkg("T-1", itemOf("1"))).ID)
		same(t, "ownership", got.Ownership, hub.OwnershipTransferred)
		same(t, "transfer", q.transfers, []hub.Transfer{{Item: "1", Handoff: got.ID, From: "planner", To: "builder", Title: got.Title}})
		shown, err := d.Show(t.Context(), planner, got.ID)
		if err != nil || !strings.Contains(handoff.Render(shown), "   - verified: workq.claim, claimed for builder\n") {
			t.Errorf("got %v %s, want the steps of the queue", err, handoff.Render(shown))
		}
	})
	t.Run("R3-097 a transfer that failed is settled by the operator", func(t *testing.T) {
		q.owned = hub.OwnershipDegraded
		got := d.accept(builder, d.propose(planner, "builder", pkg("T-2", itemOf("2"))).ID)
		if got.Ownership != hub.OwnershipDegraded || len(got.Warnings) != 1 || !strings.Contains(got.Warnings[0], "parley handoff workq "+string(got.ID)+" --done") {
			t.Errorf("got %+v, want degraded with the command", got)
		}
		again, err := d.MoveItem(t.Context(), operator, got.ID, false)
		if err != nil || again.Ownership != hub.OwnershipDegraded {
			t.Errorf("tried again: got %+v (%v), want degraded", again, err)
		}
		q.owned = hub.OwnershipTransferred
		if again, err = d.MoveItem(t.Context(), operator, got.ID, false); err != nil || again.Ownership != hub.OwnershipTransferred || len(again.Claims) != 1 {
			t.Errorf("tried again: got %+v (%v), want it transferred, with the steps", again, err)
		}
		if again, err = d.MoveItem(t.Context(), operator, got.ID, true); err != nil || again.Ownership != hub.OwnershipTransferred {
			t.Errorf("settled: got %+v (%v), want no change", again, err)
		}
	})
	t.Run("R3-096 an item of a third agent rejects the handoff and stays where it is", func(t *testing.T) {
		q.conflict = true
		defer func() { q.conflict = false }()
		n := len(q.transfers)
		got, err := d.Accept(t.Context(), builder, d.propose(planner, "builder", pkg("T-3", itemOf("3"))).ID, "")
		if err != nil || got.Status != hub.HandoffRejected || got.RejectReason != hub.RejectOwnershipConflict || len(q.transfers) != n {
			t.Errorf("got %+v (%v), want an ownership conflict and no transfer", got, err)
		}
	})
	t.Run("R3-096 a transfer that the hub did not record is completed by activate", func(t *testing.T) {
		h := d.propose(planner, "builder", pkg("T-4", itemOf("4")))
		updates := 0
		broken.Before = func(call string) error {
			if call == "update commit" {
				if updates++; updates == 2 {
					return errors.New("the hub was killed")
				}
			}
			return nil
		}
		if _, err := d.Accept(t.Context(), builder, h.ID, ""); err == nil {
			t.Fatal("accept: got no error, want one")
		}
		broken.Before = nil
		if got, err := d.Show(t.Context(), builder, h.ID); err != nil || got.Status != hub.HandoffAccepted {
			t.Fatalf("got %+v (%v), want it accepted", got, err)
		}
		got, err := d.Activate(t.Context(), builder, h.ID)
		if err != nil || got.Status != hub.HandoffActivated || got.Ownership != hub.OwnershipTransferred {
			t.Errorf("got %+v (%v), want it activated", got, err)
		}
	})
	t.Run("R3-096 a caller that leaves does not end a transfer", func(t *testing.T) {
		h := d.propose(planner, "builder", pkg("T-5", itemOf("5")))
		ctx, leave := context.WithCancel(t.Context())
		q.during = leave
		defer func() { q.during = nil }()
		d.Accept(ctx, builder, h.ID, "")
		got, err := d.Show(t.Context(), builder, h.ID)
		if err != nil || got.Status != hub.HandoffActivated || got.Ownership != hub.OwnershipTransferred {
			t.Errorf("got %+v (%v), want it activated", got, err)
		}
	})
	t.Run("the hub's own queue is off while another is used", func(t *testing.T) {
		if _, err := d.ClaimItem(t.Context(), builder, "x"); hub.CodeOf(err) != hub.CodeNotEnabled {
			t.Errorf("got %v, want %s", err, hub.CodeNotEnabled)
		}
	})
	t.Run("R3-128 the title of a restricted task does not leave the hub", func(t *testing.T) {
		d.accept(builder, d.propose(planner, "builder", pkg("T-6", func(p map[string]any) {
			itemOf("6")(p)
			with("policy.classification", "restricted")(p)
		})).ID)
		if last := q.transfers[len(q.transfers)-1]; last.Item != "6" || last.Title != "" || last.Worktree != "" {
			t.Errorf("got %+v, want the item alone", last)
		}
	})
}
