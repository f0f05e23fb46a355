package gateway

import (
	"context"
	"fmt"

	"github.com/parley-agents/parley/hub"
)

// The methods of the queue, which is a plugin of the gateway.
const (
	methodQuery   = "workq.query"
	methodClaim   = "workq.claim"
	methodRelease = "workq.release"
	methodStatus  = "workq.status"
)

// An item is a row of the queue.
type item struct {
	Ref      string   `json:"issueRef"`
	Owner    string   `json:"agentId"`
	Status   string   `json:"status"`
	Title    string   `json:"title,omitempty"`
	Squad    string   `json:"squad,omitempty"`
	Priority string   `json:"priority,omitempty"`
	Branch   string   `json:"branch,omitempty"`
	Worktree string   `json:"worktreePath,omitempty"`
	Files    []string `json:"files,omitempty"`
	Scope    []string `json:"scope,omitempty"`
	Tags     []string `json:"tags,omitempty"`
	Blocked  string   `json:"blockedReason,omitempty"`
}

// unclaimed is the owner of an item that waits for one.
const unclaimed = "system:unclaimed"

// active reports whether the item belongs to an agent now.
func (i item) active() bool {
	return i.Status != "" && i.Status != "done" && i.Status != "dropped" && i.Owner != unclaimed
}

// QueueState returns the queue as a capability.
func (c *Client) QueueState() hub.Capability {
	if !c.o.Workq {
		return hub.Capability{State: hub.Unverified, Detail: "gateway.workq is off"}
	}
	out := c.State()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range []string{methodQuery, methodClaim, methodRelease, methodStatus} {
		if c.link == nil {
			break
		}
		if err := c.link.usable(m, scopeAdmin); err != nil {
			return hub.Capability{State: hub.Failed, Detail: err.Error()}
		}
	}
	return out
}

// name returns the id of an agent of the hub at the gateway.
func (c *Client) name(agent hub.AgentID) string {
	if a, ok := c.o.Agents[agent]; ok {
		return a.ID
	}
	return string(agent)
}

// find returns an item; ok is false if the queue has none of that name.
func (c *Client) find(ctx context.Context, ref string) (found item, ok bool, err error) {
	var page struct {
		Items []item `json:"items"`
	}
	if err := c.call(ctx, methodQuery, map[string]any{"issue_ref": ref, "active_only": false, "limit": 10}, &page); err != nil {
		return item{}, false, err
	}
	for _, i := range page.Items {
		if i.Ref == ref {
			return i, true, nil
		}
	}
	return item{}, false, nil
}

// Inspect compares the owner of an item with the sender of its handoff. An item that
// belongs to a third agent fails the check; a queue that does not answer leaves it
// open.
func (c *Client) Inspect(ctx context.Context, t hub.Transfer) hub.Check {
	out := hub.Check{What: "queue item " + t.Item, Kind: hub.CheckKindQueue, Result: hub.CheckVerified}
	got, _, err := c.find(ctx, t.Item)
	switch owner := got.Owner; {
	case err != nil:
		out.Result, out.Detail = hub.CheckUnverifiable, err.Error()
	case !got.active():
		out.Detail = "no agent owns it in the queue"
	case owner == c.name(t.From), owner == c.name(t.To):
		out.Detail = owner + " owns it in the queue"
	default:
		out.Result = hub.CheckFailed
		out.Reason = hub.RejectOwnershipConflict
		out.Detail = fmt.Sprintf("%s owns it in the queue, not %s", owner, c.name(t.From))
	}
	return out
}

// A transfer collects the steps of one transfer.
type transfer struct {
	*Client
	hub.Transfer
	steps []hub.Check
}

// step records a step of the transfer.
func (t *transfer) step(method string, err error, format string, a ...any) error {
	c := hub.Check{What: method, Kind: hub.CheckKind(method), Result: hub.CheckVerified, Detail: fmt.Sprintf(format, a...)}
	if err != nil {
		c.Result, c.Detail = hub.CheckFailed, err.Error()
	}
	t.steps = append(t.steps, c)
	return err
}

// Transfer moves an item of the queue from the sender to the receiver of a handoff and
// returns the steps with the result: transferred if the queue says that the receiver
// owns it, manual if nothing was changed because the queue cannot be used, and degraded
// if it was changed or may have been and the receiver does not own it.
//
// The queue has no such operation: the item is released and claimed, and another agent
// may claim it in between. After a failure the item is claimed for the sender again.
func (c *Client) Transfer(ctx context.Context, request hub.Transfer) (hub.Ownership, []hub.Check) {
	t := &transfer{Client: c, Transfer: request}
	return t.move(ctx), t.steps
}

func (t *transfer) move(ctx context.Context) hub.Ownership {
	from, to := t.name(t.From), t.name(t.To)
	was, _, err := t.find(ctx, t.Item)
	if t.step(methodQuery, err, "%s", describe(was)) != nil {
		return hub.OwnershipManual
	}
	if was.active() {
		switch was.Owner {
		case to:
			return hub.OwnershipTransferred
		case from:
		default:
			t.step(methodQuery, fmt.Errorf("%s owns the item, so it was not changed", was.Owner), "")
			return hub.OwnershipManual
		}
		err := t.call(ctx, methodRelease, map[string]any{"issue_ref": t.Item, "agent_id": from, "reason": "acp handoff " + string(t.Handoff)}, nil)
		if t.step(methodRelease, err, "released by %s", from) != nil {
			return t.compensate(ctx, was)
		}
	}
	if t.claim(ctx, to, was, true) != nil {
		return t.compensate(ctx, was)
	}
	t.restore(ctx, to, was)
	return hub.OwnershipTransferred
}

// describe returns the state of an item for the history.
func describe(i item) string {
	if i.Status == "" {
		return "it is not in the queue"
	}
	return fmt.Sprintf("%s, %s", i.Owner, i.Status)
}

// claim claims the item for an agent. With a session, the queue releases the item when
// a run of that session ends.
func (t *transfer) claim(ctx context.Context, agent string, was item, receiver bool) error {
	params := map[string]any{"issue_ref": t.Item, "agent_id": agent, "reopen": false}
	for name, value := range map[string]string{
		"title": first(was.Title, t.Title), "squad": was.Squad, "priority": was.Priority, "branch": first(t.Branch, was.Branch), "worktree_path": first(t.Worktree, was.Worktree),
	} {
		if value != "" {
			params[name] = value
		}
	}
	for name, value := range map[string][]string{"files": was.Files, "scope": was.Scope, "tags": was.Tags} {
		if len(value) > 0 {
			params[name] = value
		}
	}

	// The options decide whether the claim names the session of the receiver.
	note := "session_key omitted"
	key := t.o.Agents[t.To].Session
	mayName := t.o.WorkqKeys == KeyAlways || (t.o.WorkqKeys == KeyCaller && t.Session == key)
	if receiver && key != "" && mayName {
		params["session_key"] = key
		note = "session_key " + key
	}

	var got struct {
		Status    string `json:"status"`
		ClaimedBy string `json:"claimedBy"`
	}
	err := t.call(ctx, methodClaim, params, &got)
	switch {
	case err != nil:
	case got.Status == "conflict": // it comes as a success
		err = fmt.Errorf("conflict: %s claimed it first", got.ClaimedBy)
	case got.Status != "claimed" && got.Status != "already_yours":
		err = fmt.Errorf("unknown status %q", got.Status)
	}
	return t.step(methodClaim, err, "%s for %s; %s", got.Status, agent, note)
}

func first(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// replays are the states that a claim loses, with the way to each.
var replays = map[string][]string{
	"in-progress": {"in-progress"},
	"blocked":     {"in-progress", "blocked"},
	"in-review":   {"in-progress", "in-review"},
}

// restore gives the item the state back that it had before it was claimed anew. An item
// whose state cannot be restored belongs to its owner all the same.
func (t *transfer) restore(ctx context.Context, agent string, was item) {
	for _, s := range replays[was.Status] {
		params := map[string]any{"issue_ref": t.Item, "agent_id": agent, "status": s}
		if s == "blocked" {
			params["reason"] = first(was.Blocked, "blocked before the handoff")
		}
		err := t.call(ctx, methodStatus, params, nil)
		if t.step(methodStatus, err, "%s", s) != nil {
			return
		}
	}
}

// compensate brings the item back to the sender after a failed step, as far as it can:
// a step without an answer may have been made.
func (t *transfer) compensate(ctx context.Context, was item) hub.Ownership {
	t.await(ctx)
	now, _, err := t.find(ctx, t.Item)
	if t.step(methodQuery, err, "%s", describe(now)) != nil {
		return hub.OwnershipDegraded
	}
	switch {
	case now.active() && now.Owner == t.name(t.To):
		return hub.OwnershipTransferred
	case !now.active() && was.active() && t.claim(ctx, was.Owner, was, false) == nil:
		t.restore(ctx, was.Owner, was)
	}
	return hub.OwnershipDegraded
}
