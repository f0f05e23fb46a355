package handoff

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"github.com/parley-agents/parley/hub"
)

// Continuations follows the tasks that go on with another owner.
type Continuations interface {
	// Moved is told inside tx that a handoff changed its state. The caller announces the messages
	// after the commit.
	Moved(tx hub.Tx, h hub.Handoff) ([]hub.Message, error)
}

// Continue hands the task of h on for its owner, who cannot go on with it. The owner is the sender
// of the handoff that it makes; the package is that of h with the state of the work now, and says
// in its member continuation that the hub made it. A task of a team that came without a handoff is
// an h without an id. offered is called in the transaction that ends h and stores the new handoff;
// its error undoes both. Only the hub and the operator may.
func (s *Service) Continue(ctx context.Context, actor hub.Caller, h hub.Handoff, o hub.Onward, offered func(tx hub.Tx, next hub.Handoff) error) error {
	const op = "handoff.Continue"
	if !actor.IsOperator() && actor.ID != hub.Self {
		return hub.Errorf(hub.CodeDenied, op, "only the operator can hand on the task of another agent; you are %s", actor.ID)
	}
	pkg, err := s.onwardPackage(ctx, h, o)
	if err != nil {
		return err
	}
	stored := func(m *mover, next *hub.Handoff) error {
		if err := offered(m.tx, *next); err != nil || actor.IsOperator() {
			return err
		}
		return s.approveSuccessor(m, actor, next)
	}
	owner := hub.Caller{Kind: hub.CallerAgent, ID: h.To}
	got, err := s.Initiate(ctx, owner, Proposal{To: o.To, Package: pkg, Reason: string(o.Reason), Team: h.Team, cause: fmt.Sprintf("%s %s", h.To, o.Reason.Text()), stored: stored})
	if err != nil || !actor.IsOperator() {
		return err
	}

	// A person who hands a task on approves of it.
	next, err := hub.Read(ctx, s.store, func(r hub.Reader) (hub.Handoff, error) { return r.Handoff(got.ID) })
	if err == nil && (next.WaitsForTeam() || next.WaitsForOperator()) {
		_, err = s.Approve(ctx, actor, got.ID)
	}
	return err
}

// Recall ends a proposal by which the hub handed a task on, because its receiver did not answer. It
// reports CodeConflict if the receiver did in the meantime.
func (s *Service) Recall(ctx context.Context, h hub.Handoff, why string) error {
	_, err := s.Withdraw(ctx, hub.Caller{Kind: hub.CallerAgent, ID: h.From}, h.ID, why)
	return err
}

// approveSuccessor approves a handoff into a team whose policy names its receiver as a successor:
// naming it was the approval of the team.
func (s *Service) approveSuccessor(m *mover, actor hub.Caller, h *hub.Handoff) error {
	if !h.WaitsForTeam() || s.board == nil {
		return nil
	}
	isNamed, err := s.board.Succeeds(m.tx, *h)
	if err != nil || !isNamed {
		return err
	}
	approver := *m
	approver.actor = actor
	return approver.approveForTeam(h)
}

// A forwarded is an offer that goes to another agent.
type forwarded struct {
	id  hub.HandoffID
	why string // for the sender
}

// Forward offers the task of h, which its receiver cannot answer, to another agent: with the same package,
// from the same sender. The offer to the first receiver ends in the same transaction. why says the reason
// to the sender and to the first receiver. Only the hub may.
func (s *Service) Forward(ctx context.Context, actor hub.Caller, h hub.Handoff, to hub.AgentID, why string) error {
	const op = "handoff.Forward"
	if actor.ID != hub.Self {
		return hub.Errorf(hub.CodeDenied, op, "only the hub can offer the task of another sender; you are %s", actor.ID)
	}
	p := &packageBuilder{}
	dec := json.NewDecoder(bytes.NewReader(h.Package))
	dec.UseNumber()
	if err := dec.Decode(&p.members); err != nil {
		return hub.Errorf(hub.CodeInvalid, op, "the package of task %s cannot be read", h.TaskID)
	}
	for _, name := range []string{"handoff_id", "verification", "provenance"} { // of the first offer
		delete(p.members, name)
	}

	sender := hub.Caller{Kind: hub.CallerAgent, ID: h.From}
	if h.From == hub.Operator {
		sender.Kind = hub.CallerOperator
	}
	stored := func(m *mover, next *hub.Handoff) error { return s.approveSuccessor(m, actor, next) }
	_, err := s.Initiate(ctx, sender, Proposal{To: to, Package: encode(p.members), Reason: h.Reason, Team: h.Team, instead: &forwarded{h.ID, why}, stored: stored})
	return err
}

// endOffer ends an offer that goes to another agent, and returns the handoff that its sender had ended
// for it, if any.
func (s *Service) endOffer(m *mover, op string, offer forwarded) (hub.HandoffID, error) {
	h, err := m.tx.Handoff(offer.id)
	if err != nil {
		return "", err
	}
	if h.Status != hub.HandoffProposed {
		return "", outOfState(m.tx, op, h, "it is not waiting for an answer")
	}
	if err := s.dealtWith(m, hub.Caller{Kind: hub.CallerAgent, ID: h.To}, h); err != nil {
		return "", err
	}
	return h.Previous, s.turnDown(m, hub.Caller{ID: hub.Self}, &h, hub.EndedRejected, hub.RejectCapacity, offer.why, nil)
}

// onwardPackage returns the package with which the task of a handoff goes on.
func (s *Service) onwardPackage(ctx context.Context, h hub.Handoff, o hub.Onward) (json.RawMessage, error) {
	p := &packageBuilder{}
	dec := json.NewDecoder(bytes.NewReader(h.Package))
	dec.UseNumber()
	if err := dec.Decode(&p.members); err != nil {
		return nil, hub.Errorf(hub.CodeInvalid, "handoff.Continue", "the package of task %s cannot be read", h.TaskID)
	}

	// These members are about the first handoff: its id, its hash and the files at that time.
	for _, name := range []string{"handoff_id", "verification", "provenance", "evidence", "artifacts", "continuation"} {
		delete(p.members, name)
	}

	p.object("context")["summary"] = o.Summary
	if len(o.Questions) > 0 {
		p.object("context")["open_questions"] = anyOf(o.Questions)
	}
	work := p.object("work_state")
	work["status"] = "in_progress"
	work["next_step"] = o.NextStep
	for name, text := range map[string]string{"worktree_path": o.Worktree, "branch": o.Branch} {
		delete(work, name)
		if text != "" {
			work[name] = text
		}
	}
	if o.Worktree == "" {
		delete(p.members, "scope")
		delete(p.members, "expect")
	}
	from := map[string]any{"id": o.ID, "by": hub.Self, "reason": o.Reason, "of": h.To, "rescue": o.Rescue}
	if h.ID != "" {
		from["handoff"] = h.ID
	}
	p.members["continuation"] = from

	// The hub can check the commit only in a folder that it may look into.
	if o.Worktree == "" {
		return encode(p.members), nil
	}
	rooted := s.inspector != nil
	if rooted {
		var err error
		if rooted, err = s.inspector.Rooted(ctx, o.Worktree); err != nil {
			return nil, err
		}
	}
	switch {
	case !rooted:
		fill(p.members, "unproven", "the folder is not under a root of this hub")
	case o.Head != "":
		p.members["evidence"] = []any{map[string]any{"worktree_path": o.Worktree, "after": map[string]any{"commit": o.Head}}}
	}
	return encode(p.members), nil
}

func anyOf(texts []string) (out []any) {
	for _, text := range texts {
		out = append(out, text)
	}
	return out
}
