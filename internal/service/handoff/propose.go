package handoff

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/shape"
)

// A Proposal is the request of a sender for a handoff.
type Proposal struct {
	To             hub.AgentID
	Package        json.RawMessage // the hub adds the members that it knows
	Reason         string          // why the task changes hands; default "requested"
	IdempotencyKey string
	Team           hub.TeamID // into which it goes, or ""
}

const (
	defaultReason = "requested"
	maxReason     = 500
)

// Initiate proposes a handoff. An invalid package is refused and stores nothing. An
// owner who hands an active task on ends its own handoff in the same transaction.
func (s *Service) Initiate(ctx context.Context, actor hub.Caller, p Proposal) (Report, error) {
	const op = "handoff.Initiate"
	if err := active(op, actor); err != nil {
		return Report{}, err
	}
	if p.Reason == "" {
		p.Reason = defaultReason
	}
	if !utf8.ValidString(p.Reason) || len(p.Reason) > maxReason || strings.TrimSpace(p.Reason) == "" {
		return Report{}, hub.Errorf(hub.CodeInvalid, op, "reason: must be text of at most %d bytes", maxReason)
	}
	if len(p.IdempotencyKey) > 128 {
		return Report{}, hub.Errorf(hub.CodeInvalid, op, "idempotency_key: at most 128 bytes")
	}
	if p.To == "" {
		return Report{}, hub.Errorf(hub.CodeInvalid, op, "to: missing").WithHint("name the agent that receives the task")
	}
	if p.To == actor.ID {
		return Report{}, hub.Errorf(hub.CodeOwnership, op, "%s cannot hand a task to itself", actor.ID)
	}
	if _, err := s.sender.Recipient(ctx, p.To); err != nil {
		return Report{}, fmt.Errorf("handoff: initiate: %w", err)
	}
	draft, err := s.build(op, actor, p.Package)
	if err != nil {
		return Report{}, err
	}
	// An invalid package is refused before the store is read.
	raw, pkg, err := draft.seal(nil)
	if err != nil {
		return Report{}, err
	}
	if s.requireProof && pkg.Unproven != "" {
		return Report{}, hub.Errorf(hub.CodePolicy, op, "this hub requires proof: a handoff cannot be declared unproven").
			WithHint("leave unproven out; to add the folder, {root.add} DIR")
	}
	if err := s.checkRoots(ctx, op, raw, pkg, "or declare why it stays unproven: {unproven}"); err != nil {
		return Report{}, err
	}
	if p.Team != "" && s.board == nil {
		return Report{}, hub.Errorf(hub.CodeNotEnabled, op, "this hub does not have teamspaces")
	}
	request := requestHash(p)

	var h hub.Handoff
	var box sealedPackage
	approvers := ""       // who can approve a handoff into a team
	var short hub.ShortID // of the handoff
	store := func(m *mover) error {
		if p.IdempotencyKey != "" {
			before, found, err := repeated(m.tx, op, actor, p.IdempotencyKey, request)
			if err != nil || found {
				h = before
				return err
			}
		}
		chain, old, err := owners(m.tx, op, actor, draft.task, p)
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
			Restricted: pkg.Policy.Classification == shape.ClassRestricted || len(pkg.Policy.Restrictions) > 0,
			NeedsHuman: pkg.Policy.NeedsHuman, Deadline: pkg.Task.Deadline, Team: p.Team,
		}
		if h.Team != "" {
			waits, err := s.board.Handable(m.tx, h)
			if err != nil {
				return err
			}
			h.NeedsHuman = h.NeedsHuman || waits
		}
		if old != nil {
			h.Previous = old.ID
			old.Ending, old.Notes = hub.EndedHandedOn, fmt.Sprintf("handed on to %s as %s", h.To, h.ID)
			if err := s.end(m, actor, old); err != nil {
				return err
			}
		}
		first := hub.HandoffStep{State: hub.HandoffDraft, At: m.now, Actor: actor.ID}
		if err := m.tx.PutHandoff(h, "", &first); err != nil {
			return err
		}
		if err := m.record(h, first); err != nil {
			return err
		}
		if err := m.move(&h, hub.HandoffProposed, "", nil); err != nil {
			return err
		}
		refs := make([]hub.ArtifactRef, len(pkg.Artifacts))
		for i, a := range pkg.Artifacts {
			refs[i] = a.Ref
		}
		if err := s.sender.Share(m.tx, actor, refs, []hub.AgentID{h.To}); err != nil {
			return err
		}
		if short, err = m.tx.ShortID(string(h.ID)); err != nil {
			return err
		}
		if h.WaitsForTeam() {
			if approvers, err = s.approvers(m.tx, h); err != nil {
				return err
			}
		}
		if err := s.post(m, actor, h, hub.TypeHandoffInitiate, pkg.Task.Priority, invitation(h, pkg, approvers), true); err != nil {
			return err
		}
		if h.NeedsHuman {
			summary := fmt.Sprintf("a handoff of the task %s waits for the operator's approval", h.TaskID)
			if _, err := s.tell(m, "", h, summary, "parley approve "+string(h.ID)+", or parley deny", nil); err != nil {
				return err
			}
		}
		if h.WaitsForTeam() {
			posted, err := s.board.Ask(m.tx, actor, h)
			if err != nil {
				return err
			}
			m.posted = append(m.posted, posted...)
		}
		if p.IdempotencyKey == "" {
			return nil
		}
		return m.tx.AddReceipt(hub.Receipt{Actor: actor.ID, Key: p.IdempotencyKey, Request: request, Message: hub.EnvelopeID(h.ID), At: m.now})
	}
	// Sealing hashes the package and validates it against its schema, which would
	// delay other writers. So it happens before the transaction, with the owners
	// known then. If the owners changed in between, the transaction stores nothing
	// and the package is sealed again.
	for err = errOwnersChanged; errors.Is(err, errOwnersChanged); {
		if box, err = s.sealFor(ctx, op, actor, p, draft); err == nil {
			err = s.update(ctx, op, actor, store)
		}
	}
	if err != nil {
		return Report{}, err
	}
	out := s.answer(h, nil)
	if h.WaitsForTeam() {
		out.Warnings = append(out.Warnings, fmt.Sprintf("%s cannot accept it before it is approved; asked: %s", h.To, approvers))
	}
	if h.WaitsForOperator() {
		out.Warnings = append(out.Warnings, "the receiver cannot accept it before the operator approves it: parley approve "+cmp.Or(string(short), string(h.ID)))
	}
	if pkg.WorkState.Worktree == "" && !slices.ContainsFunc(pkg.Artifacts, func(a shape.PackageArtifact) bool { return a.Ref.Type == "file" }) {
		out.Warnings = append(out.Warnings, "it names no worktree and no file, so that the hub cannot compare the work with the state of now")
	}
	return out, nil
}

// errOwnersChanged ends a transaction whose package names other owners of the
// task than the store does by now.
var errOwnersChanged = errors.New("the owners of the task have changed")

// A sealedPackage is a complete package with the owners of the task that it names.
type sealedPackage struct {
	chain []hub.AgentID
	raw   json.RawMessage
	pkg   shape.Package
}

// sealFor seals a package for the owners that the task has now. A proposal that
// repeats an earlier one is not sealed: the transaction returns the earlier
// handoff.
func (s *Service) sealFor(ctx context.Context, op string, actor hub.Caller, p Proposal, draft *packageBuilder) (box sealedPackage, err error) {
	repeats := false
	err = s.store.View(ctx, func(r hub.Reader) (err error) {
		if p.IdempotencyKey != "" {
			if _, err := r.Receipt(actor.ID, p.IdempotencyKey); hub.CodeOf(err) != hub.CodeNotFound {
				repeats = err == nil
				return err
			}
		}
		box.chain, _, err = owners(r, op, actor, draft.task, p)
		return err
	})
	if err != nil || repeats {
		return box, err
	}
	if err := draft.checkChain(op, box.chain); err != nil {
		return box, err
	}
	box.raw, box.pkg, err = draft.seal(box.chain)
	return box, err
}

// requestHash identifies a proposal, to recognize its repetition.
func requestHash(p Proposal) string {
	h := sha256.New()
	for _, s := range []string{"handoff", string(p.To), p.Reason, string(p.Package), string(p.Team)} {
		fmt.Fprintf(h, "%d:%s", len(s), s)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// repeated returns the handoff of an earlier proposal with the same idempotency key.
func repeated(tx hub.Tx, op string, actor hub.Caller, key, request string) (hub.Handoff, bool, error) {
	r, err := tx.Receipt(actor.ID, key)
	switch {
	case hub.CodeOf(err) == hub.CodeNotFound:
		return hub.Handoff{}, false, nil
	case err != nil:
		return hub.Handoff{}, false, err
	case r.Request != request:
		return hub.Handoff{}, false, hub.Errorf(hub.CodeConflict, op, "the idempotency key %q was used for another request, %s", key, r.Message).
			WithHint("use a new key for a new handoff")
	}
	h, err := tx.Handoff(hub.HandoffID(r.Message))
	return h, err == nil, err
}

// owners returns all owners of a task, first to last, the actor included, and the
// active handoff that the actor ends with this one, if any. It refuses a task of
// another owner, a receiver that owned the task before, and a new task with the id of a
// task of a team.
func owners(tx hub.Reader, op string, actor hub.Caller, task string, p Proposal) ([]hub.AgentID, *hub.Handoff, error) {
	owned, err := tx.Handoffs(hub.HandoffQuery{Task: task, Owned: true, Limit: math.MaxInt32})
	if err != nil {
		return nil, nil, err
	}
	inTeam := p.Team != ""
	owned = slices.DeleteFunc(owned, func(h hub.Handoff) bool { return (h.Team != "") != inTeam }) // another task with its id, of an older version
	if !inTeam && len(owned) == 0 {
		if _, err := tx.Task(hub.TaskID(task)); hub.CodeOf(err) != hub.CodeNotFound {
			if err == nil {
				err = hub.Errorf(hub.CodeConflict, op, "%s is a task of a team", task).
					WithHint("to hand it over, name the team; for another task, use another id")
			}
			return nil, nil, err
		}
	}
	slices.Reverse(owned) // oldest first
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
	claims, err := tx.Handoffs(hub.HandoffQuery{Task: task, States: hub.ActiveHandoffs, Limit: 1})
	if err != nil {
		return nil, nil, err
	}
	var old *hub.Handoff
	switch {
	case len(claims) > 0 && claims[0].Status == hub.HandoffActivated && claims[0].To == actor.ID:
		old = &claims[0]
	case len(claims) > 0:
		active := claims[0]
		e := hub.Errorf(hub.CodeOwnership, op, "the task %q already has an active handoff", task)
		if active.Concerns(actor.ID) || actor.Audits() { // others do not learn its parties
			e = hub.Errorf(hub.CodeOwnership, op, "the task %q already has an active handoff: %s from %s to %s is %s", task, active.ID, active.From, active.To, active.Status)
		}
		return nil, nil, e.WithHint("wait until it is completed, or ask its sender to withdraw it or the operator to release it")
	case len(owned) > 0:
		// A task that was handed on and not accepted belongs to its last owner. A
		// task that was done or released has no owner.
		if last := owned[len(owned)-1]; last.Ending == hub.EndedHandedOn && last.To != actor.ID && !actor.IsOperator() {
			return nil, nil, hub.Errorf(hub.CodeOwnership, op, "the task %q belongs to %s: only %s can hand it on", task, last.To, last.To)
		}
	}
	add(actor.ID)
	if slices.Contains(chain, p.To) {
		return nil, nil, hub.Errorf(hub.CodeOwnership, op, "%s owned the task %q before: %s", p.To, task, names(chain)).
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

// onTheHub replaces the text of a restricted handoff in messages.
const onTheHub = "restricted: read it on the hub"

// invitation is the payload of handoff.initiate: a summary of the package for the
// receiver. Its texts are cut so that it stays below the limit of a payload. approvers
// names those who can approve a handoff into a team.
func invitation(h hub.Handoff, p shape.Package, approvers string) any {
	out := offer{
		ID:       h.ID,
		TaskID:   h.TaskID,
		Title:    hub.RestrictedText,
		Summary:  onTheHub,
		Next:     onTheHub,
		Criteria: []string{onTheHub},
		Hash:     h.Hash,
	}
	switch {
	case h.WaitsForOperator():
		out.Waits = "the operator's approval; you are told when you can accept it"
	case h.WaitsForTeam():
		out.Waits = cut(fmt.Sprintf("the approval of %s", approvers), 300) + "; you are told when you can accept it"
	}
	if h.Restricted {
		return out
	}
	out.Title = cut(h.Title, 400)
	out.Summary = cut(p.Context.Summary, 1000)
	out.Next = cut(p.WorkState.NextStep, 600)
	out.Criteria = cutAll(p.Task.Criteria, 700)
	out.Worktree = cut(p.WorkState.Worktree, 300)
	out.Branch = cut(p.WorkState.Branch, 100)
	out.Unproven = cut(p.Unproven, 200)
	return out
}

// An offer is the payload of handoff.initiate.
type offer struct {
	ID       hub.HandoffID `json:"handoff_id"`
	TaskID   string        `json:"task_id"`
	Title    string        `json:"title"`
	Summary  string        `json:"summary"`
	Next     string        `json:"next_step"`
	Criteria []string      `json:"success_criteria"`
	Worktree string        `json:"worktree_path,omitempty"`
	Branch   string        `json:"branch,omitempty"`
	Hash     string        `json:"package_hash"`
	Unproven string        `json:"unproven,omitempty"`
	Waits    string        `json:"waits_for,omitempty"`
}

// cutAll shortens texts to about so many bytes together. A last text says that some are
// left out.
func cutAll(texts []string, most int) []string {
	out := []string{}
	for _, text := range texts {
		if most <= 0 {
			return append(out, "…")
		}
		short := cut(text, most)
		out = append(out, short)
		raw, _ := json.Marshal(short) // a string: cannot fail
		most -= len(raw) + len(",")
	}
	return out
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
