package server_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/operation/rpc"
)

const chaosPairs = 2 // of a giver and a taker

// A promise is how far a task had come when its parties were last told.
type promise struct {
	id    hub.HandoffID
	state hub.HandoffState
}

// rank orders the states in which a handoff can be found between two calls.
func rank(s hub.HandoffState) int {
	return slices.Index([]hub.HandoffState{"", hub.HandoffProposed, hub.HandoffActivated, hub.HandoffRejected, hub.HandoffClosed}, s)
}

// hand gives one task after the other and finishes it. What got no answer is
// asked for again, or found to have happened.
func (c *chaos) hand(ctx context.Context, pair int, rnd *rand.Rand) {
	giver, taker := hub.AgentID(fmt.Sprint("giver", pair)), hub.AgentID(fmt.Sprint("taker", pair))
	for n := 0; ; n++ {
		task := fmt.Sprintf("task-%d-%d", pair, n)
		var id hub.HandoffID
		ok := c.insist(ctx, giver, task, func(ctx context.Context, client *rpc.Client) (api.HandoffAnswer, error) {
			c.mu.Lock()
			over := c.lastSends && id == ""
			c.mu.Unlock()
			if over {
				return api.HandoffAnswer{}, errOver
			}
			return rpc.Call(ctx, client, api.Handoff, api.HandoffParams{
				Action: "initiate", To: taker, TaskID: task, Title: task, Summary: "s", NextStep: "n", Criteria: []string{"c"}, IdempotencyKey: task,
			})

		}, &id)
		if !ok {
			return
		}
		moves := []api.HandoffParams{{Action: "accept"}, {Action: "complete", Summary: "done"}}
		if rnd.IntN(4) == 0 {
			moves = []api.HandoffParams{{Action: "reject", Reason: "other", Detail: "chance"}}
		}
		for _, p := range moves {
			p.ID = id
			if !c.insist(ctx, taker, task, func(ctx context.Context, client *rpc.Client) (api.HandoffAnswer, error) {
				return rpc.Call(ctx, client, api.Handoff, p)
			}, &id) {
				return
			}
		}
	}
}

var errOver = hub.Errorf(hub.CodeNotEnabled, "chaos", "no new tasks")

// insist makes a call until it is known to have happened.
func (c *chaos) insist(ctx context.Context, who hub.AgentID, task string, call func(context.Context, *rpc.Client) (api.HandoffAnswer, error), id *hub.HandoffID) bool {
	for {
		client := c.up(ctx, who)
		if client == nil {
			return false
		}
		got, err := call(ctx, client)
		if err == errOver {
			return false
		}
		if hub.CodeOf(err) == hub.CodeConflict { // it has happened, and the answer was lost
			got, err = rpc.Call(ctx, client, api.Handoff, api.HandoffParams{Action: "show", ID: *id})
		}
		if c.lost(ctx, "handoff", err) {
			if ctx.Err() != nil {
				return false
			}
			continue
		}
		*id = got.Report.ID
		c.mu.Lock()
		c.tasks[task] = promise{got.Report.ID, got.Report.Status}
		c.mu.Unlock()
		return true
	}
}

// verifyTasks checks that every task has come at least as far as its parties
// were told, and that none is held twice.
func (c *chaos) verifyTasks(ctx context.Context, when string) {
	c.t.Helper()
	c.mu.Lock()
	told := map[string]promise{}
	for task, p := range c.tasks {
		told[task] = p
	}
	c.mu.Unlock()
	found := map[string]hub.HandoffID{}
	operator := c.operator()
	for cursor := hub.HandoffID(""); ; {
		got, err := rpc.Call(ctx, operator, api.Handoff, api.HandoffParams{Action: "list", Limit: 200, Cursor: cursor})
		if err != nil {
			c.t.Fatalf("%s: handoffs: %v", when, err)
		}
		for _, h := range got.Listing.Handoffs {
			if other := found[h.TaskID]; other != "" {
				c.t.Errorf("%s: the task %s has two handoffs: %s and %s", when, h.TaskID, other, h.ID)
			}
			found[h.TaskID] = h.ID
			p, ok := told[h.TaskID]
			if ok && (p.id != h.ID || rank(h.Status) < rank(p.state)) {
				c.t.Errorf("%s: %s is %s, but its parties were told that %s is %s", when, h.ID, h.Status, p.id, p.state)
			}
			delete(told, h.TaskID)
		}
		if cursor = hub.HandoffID(got.Listing.Next); cursor == "" {
			break
		}
	}
	for task, p := range told {
		c.t.Errorf("%s: %s is gone, which was %s", when, task, p.state)
	}
}
