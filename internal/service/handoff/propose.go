package handoff

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/shape"
)

// A Proposal is a handoff as its sender asks for it.
type Proposal struct {
	To             hub.AgentID
	Package        json.RawMessage // the hub fills in what it knows better
	Reason         string          // why the task changes hands; default "requested"
	IdempotencyKey string
}

const (
	defaultReason = "requested"
	maxReason     = 500
)

// Initiate proposes a handoff. A package that is wrong in itself is refused and
// stores nothing. An owner who hands an active task on gives up his own handoff
// in the same moment.
func (s *Service) Initiate(ctx context.Context, actor hub.Caller, p Proposal) (Report, error) {
	const op = "handoff.Initiate"
	if err := active(op, actor); err != nil {
		return Report{}, err
	}
	if p.Reason == "" {
		p.Reason = defaultReason
	}
	if !utf8.ValidString(p.Reason) || len(p.Reason) > maxReason || strings.TrimSpace(p.Reason) == "" {
		return Report{}, hub.Errorf(hub.CodeInvalid, op, "reason: text of at most %d bytes", maxReason)
	}
	if len(p.IdempotencyKey) > 128 {
		return Report{}, hub.Errorf(hub.CodeInvalid, op, "idempotency_key: at most 128 bytes")
	}
	if p.To == "" {
		return Report{}, hub.Errorf(hub.CodeInvalid, op, "to: missing").WithHint("name the agent that takes the task over")
	}
	if p.To == actor.ID {
		return Report{}, hub.Errorf(hub.CodeOwnership, op, "%s cannot hand a task to itself", actor.ID)
	}
	if _, err := s.sender.Recipient(ctx, p.To); err != nil {
		return Report{}, fmt.Errorf("handoff: initiate: %w", err)
	}
	draft, err := s.unpack(op, actor, p.Package)
	if err != nil {
		return Report{}, err
	}
	// The package is checked before the store is asked for anything.
	if _, _, err := draft.seal(nil); err != nil {
		return Report{}, err
	}
	request := requestHash(p)

	var h hub.Handoff
	var posted []hub.Message
	again := false
	var box sealed
	store := func(tx hub.Tx) error {
		posted, again = nil, false
		if p.IdempotencyKey != "" {
			before, found, err := repeated(tx, op, actor, p.IdempotencyKey, request)
			if err != nil || found {
				h, again = before, found
				return err
			}
		}
		m := mover{tx, actor.ID, s.clock.Now()}
		chain, old, err := owners(tx, op, actor, draft.task, p.To)
		if err != nil {
			return err
		}
		if !slices.Equal(chain, box.chain) {
			return errOwnersChanged
		}
		raw, pkg := box.raw, box.pkg
		h = hub.Handoff{
			ID: pkg.HandoffID, ThreadID: pkg.ThreadID, TaskID: pkg.Task.TaskID, From: actor.ID, To: p.To, Title: pkg.Task.Title,
			Reason: p.Reason, Package: raw, Hash: pkg.Verification.Hash, Status: hub.HandoffDraft, InitiatedAt: m.now,
			Restricted: pkg.Policy.Classification == hub.ClassRestricted || len(pkg.Policy.Restrictions) > 0,
			NeedsHuman: pkg.Policy.NeedsHuman, Deadline: pkg.Task.Deadline,
		}
		if old != nil {
			h.Previous = old.ID
			old.Ending, old.Notes = hub.EndedHandedOn, fmt.Sprintf("handed on to %s as %s", h.To, h.ID)
			msg, err := s.end(m, actor, old)
			if err != nil {
				return err
			}
			posted = append(posted, msg)
		}
		first := hub.HandoffStep{State: hub.HandoffDraft, At: m.now, Actor: actor.ID}
		if err := tx.AddHandoff(h, first); err != nil {
			return err
		}
		if err := m.record(h, first); err != nil {
			return err
		}
		if err := m.move(&h, hub.HandoffProposed, "", nil); err != nil {
			return err
		}
		msg, err := s.post(tx, actor, h, hub.TypeHandoffInitiate, pkg.Task.Priority, invitation(h, pkg), true)
		if err != nil {
			return err
		}
		posted = append(posted, msg)
		if h.NeedsHuman {
			msg, err := s.sender.Tell(tx, "", hub.TypeStatusBlocked, h.ThreadID, map[string]any{
				"summary": cut(fmt.Sprintf("a handoff of the task %s waits for the operator's approval", h.TaskID), 270),
				"reason":  "parley approve " + string(h.ID) + ", or parley deny", "handoff_id": h.ID,
			})
			if err != nil {
				return err
			}
			if msg.ID != "" {
				posted = append(posted, msg)
			}
		}
		if p.IdempotencyKey == "" {
			return nil
		}
		return tx.AddReceipt(hub.Receipt{Actor: actor.ID, Key: p.IdempotencyKey, Request: request, Message: hub.EnvelopeID(h.ID), At: m.now})
	}
	// Sealing hashes the package and checks it against its schema, which takes
	// long enough to keep other writers waiting. So it happens before the
	// transaction, with the owners known then; should the task change hands in
	// between, the transaction stores nothing and the package is sealed anew.
	for err = errOwnersChanged; errors.Is(err, errOwnersChanged); {
		if box, err = s.sealFor(ctx, op, actor, p, draft); err == nil {
			err = s.store.Update(ctx, hub.SurvivesPowerLoss, store)
		}
	}
	if err != nil {
		return Report{}, fmt.Errorf("handoff: initiate: %w", err)
	}
	if !again {
		s.sender.Announce(posted...)
	}
	out := s.answer(h, nil)
	if h.NeedsHuman && h.ApprovedAt.IsZero() && h.Status == hub.HandoffProposed {
		out.Warnings = append(out.Warnings, "it cannot be accepted before the operator approves it: parley approve "+string(h.ID))
	}
	return out, nil
}

// errOwnersChanged ends a transaction whose package names other owners of the
// task than the store does by now.
var errOwnersChanged = errors.New("the owners of the task have changed")

// A sealed is a complete package and the owners of the task that it names.
type sealed struct {
	chain []hub.AgentID
	raw   json.RawMessage
	pkg   hub.Package
}

// sealFor seals a package for the owners that the task has now. A proposal that
// repeats an earlier one is not sealed: the transaction returns the earlier
// handoff.
func (s *Service) sealFor(ctx context.Context, op string, actor hub.Caller, p Proposal, draft *parcel) (box sealed, err error) {
	repeats := false
	err = s.store.View(ctx, func(r hub.Reader) (err error) {
		if p.IdempotencyKey != "" {
			if _, err := r.Receipt(actor.ID, p.IdempotencyKey); hub.CodeOf(err) != hub.CodeNotFound {
				repeats = err == nil
				return err
			}
		}
		box.chain, _, err = owners(r, op, actor, draft.task, p.To)
		return err
	})
	if err != nil || repeats {
		return box, err
	}
	if err := draft.agrees(op, box.chain); err != nil {
		return box, err
	}
	box.raw, box.pkg, err = draft.seal(box.chain)
	return box, err
}

// requestHash identifies what was asked for.
func requestHash(p Proposal) string {
	h := sha256.New()
	for _, s := range []string{"handoff", string(p.To), p.Reason, string(p.Package)} {
		fmt.Fprintf(h, "%d:%s", len(s), s)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// repeated looks for an earlier proposal with the same idempotency key.
func repeated(tx hub.Tx, op string, actor hub.Caller, key, request string) (hub.Handoff, bool, error) {
	r, err := tx.Receipt(actor.ID, key)
	switch {
	case hub.CodeOf(err) == hub.CodeNotFound:
		return hub.Handoff{}, false, nil
	case err != nil:
		return hub.Handoff{}, false, err
	case r.Request != request:
		return hub.Handoff{}, false, hub.Errorf(hub.CodeConflict, op, "the idempotency key %q was used for something else, %s", key, r.Message).
			WithHint("use a new key for a new handoff")
	}
	h, err := tx.Handoff(hub.HandoffID(r.Message))
	return h, err == nil, err
}

// owners returns everyone who has owned a task, first to last, the actor
// included, and the active handoff that the actor hands on with this, if any.
// It refuses a task that is not the actor's, and a receiver that has had it.
func owners(tx hub.Reader, op string, actor hub.Caller, task string, to hub.AgentID) ([]hub.AgentID, *hub.Handoff, error) {
	owned, err := tx.Owned(task)
	if err != nil {
		return nil, nil, err
	}
	var chain []hub.AgentID
	add := func(id hub.AgentID) {
		if !slices.Contains(chain, id) {
			chain = append(chain, id)
		}
	}
	for _, h := range owned {
		add(h.From)
		add(h.To)
	}
	active, err := tx.ActiveHandoff(task)
	var old *hub.Handoff
	switch {
	case err == nil && active.Status == hub.HandoffActivated && active.To == actor.ID:
		old = &active
	case err == nil:
		e := hub.Errorf(hub.CodeOwnership, op, "the task %q has an active handoff already", task)
		if active.Concerns(actor.ID) || actor.Audits() { // others need not know more
			e = hub.Errorf(hub.CodeOwnership, op, "the task %q has an active handoff already: %s from %s to %s is %s", task, active.ID, active.From, active.To, active.Status)
		}
		return nil, nil, e.WithHint("wait until it is completed, let its sender withdraw it, or ask the operator to release it")
	case hub.CodeOf(err) != hub.CodeNotFound:
		return nil, nil, err
	case len(owned) > 0:
		// A task that was handed on, and that nobody took, is still its last
		// owner's. One that was done or released is nobody's.
		if last := owned[len(owned)-1]; last.Ending == hub.EndedHandedOn && last.To != actor.ID && !actor.IsOperator() {
			return nil, nil, hub.Errorf(hub.CodeOwnership, op, "the task %q is with %s, who alone can hand it on", task, last.To)
		}
	}
	add(actor.ID)
	if slices.Contains(chain, to) {
		return nil, nil, hub.Errorf(hub.CodeOwnership, op, "%s has owned the task %q before: %s", to, task, names(chain)).
			WithHint("a task does not go back to an earlier owner; make a new task with an external_ref to this one")
	}
	return chain, old, nil
}

func names(chain []hub.AgentID) string {
	s := make([]string, len(chain))
	for i, id := range chain {
		s[i] = string(id)
	}
	return strings.Join(s, " → ")
}

// onTheHub stands in messages for what a restricted handoff says.
const onTheHub = "restricted: read it on the hub"

// invitation is the payload of handoff.initiate: what the receiver needs to
// decide whether to look at the package.
func invitation(h hub.Handoff, p hub.Package) any {
	title, summary, next := h.Title, cut(p.Context.Summary, 1500), cut(p.WorkState.NextStep, 800)
	if h.Restricted {
		title, summary, next = "restricted", onTheHub, onTheHub
	}
	return struct {
		ID      hub.HandoffID `json:"handoff_id"`
		TaskID  string        `json:"task_id"`
		Title   string        `json:"title"`
		Summary string        `json:"summary"`
		Next    string        `json:"next_step"`
		Hash    string        `json:"package_hash"`
	}{h.ID, h.TaskID, title, summary, next, h.Hash}
}

// cut shortens a text to about so many bytes as JSON, at a character.
func cut(s string, most int) string {
	n := 0
	for i, r := range s {
		n += utf8.RuneLen(r)
		if r < 0x20 || r == '"' || r == '\\' || r == '<' || r == '>' || r == '&' || r == '\u2028' || r == '\u2029' {
			n += 5
		}
		if n > most {
			return s[:i] + "…"
		}
	}
	return s
}

// checkShape reports CodeInvalid unless raw is a complete package.
func checkShape(raw json.RawMessage) error { return shape.CheckPackage(raw) }
