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
	"github.com/parley-agents/parley/internal/ground/shape"
)

// A Proposal is the request of a sender for a handoff.
type Proposal struct {
	To             hub.AgentID
	Package        json.RawMessage // the hub adds the members that it knows
	Reason         string          // why the task changes hands; default "requested"
	IdempotencyKey string
	Team           hub.TeamID // into which it goes, or ""

	cause string // why the hub hands the task on for its owner, for people; "" for a proposal of the sender
	// instead is an offer to another agent, which ends with this one; nil for none.
	instead *forwarded

	// stored is called in the transaction that stores the handoff, and may change it; nil for none.
	stored func(m *mover, h *hub.Handoff) error
}

const (
	defaultReason = "requested"
	maxReason     = 500

	maxIdempotencyKey = 128
)

// Initiate proposes a handoff. An invalid package is refused and stores nothing. An
// owner who hands an active task on ends its own handoff in the same transaction.
func (s *Service) Initiate(ctx context.Context, actor hub.Caller, p Proposal) (Report, error) {
	const op = "handoff.Initiate"
	if err := active(op, actor); err != nil {
		return Report{}, err
	}
	p.Reason = cmp.Or(p.Reason, defaultReason)
	if err := s.checkProposal(ctx, op, actor, p); err != nil {
		return Report{}, err
	}
	draft, pkg, err := s.draft(ctx, op, actor, p)
	if err != nil {
		return Report{}, err
	}

	// Sealing hashes the package and validates it against its schema, which would
	// delay other writers. So it happens before the transaction, with the owners
	// known then. If the owners changed in between, the transaction stores nothing
	// and the package is sealed again.
	x := proposing{s: s, op: op, actor: actor, p: p, draft: draft, pkg: pkg, request: requestHash(p)}
	for err = errOwnersChanged; errors.Is(err, errOwnersChanged); {
		if x.box, err = s.sealFor(ctx, op, actor, p, draft); err == nil {
			err = s.update(ctx, op, actor, x.store)
		}
	}
	if err != nil {
		return Report{}, err
	}

	out := s.answer(x.h, nil)
	out.Warnings = append(out.Warnings, x.warnings()...)
	return out, nil
}

// checkProposal refuses a proposal that is wrong without its package.
func (s *Service) checkProposal(ctx context.Context, op string, actor hub.Caller, p Proposal) error {
	switch {
	case !utf8.ValidString(p.Reason) || len(p.Reason) > maxReason || strings.TrimSpace(p.Reason) == "":
		return hub.Errorf(hub.CodeInvalid, op, "reason must be text of at most %d bytes", maxReason)
	case len(p.IdempotencyKey) > maxIdempotencyKey:
		return hub.Errorf(hub.CodeInvalid, op, "idempotency_key must be at most %d bytes", maxIdempotencyKey)
	case p.To == "":
		return hub.Errorf(hub.CodeInvalid, op, "to is required").WithHint("name the agent that receives the task")
	case p.To == actor.ID:
		return hub.Errorf(hub.CodeOwnership, op, "%s cannot hand a task to itself", actor.ID)
	}
	if _, err := s.sender.Recipient(ctx, p.To); err != nil {
		return fmt.Errorf("handoff: initiate: %w", err)
	}
	return nil
}

// draft returns a package that is valid, whose folders the hub may look into, and whose
// proof is as the hub requires it. It does not read the store: the owners
// of the task are added later.
func (s *Service) draft(ctx context.Context, op string, actor hub.Caller, p Proposal) (*packageBuilder, shape.Package, error) {
	draft, err := s.build(op, actor, p.Package)
	if err != nil {
		return nil, shape.Package{}, err
	}
	raw, pkg, err := draft.seal(nil)
	if err != nil {
		return nil, shape.Package{}, err
	}

	if s.requireProof && pkg.Unproven != "" {
		return nil, shape.Package{}, hub.Errorf(hub.CodePolicy, op, "this hub requires proof: a handoff cannot be declared unproven").
			WithHint("leave unproven out; to add the folder, {root.add} DIR")
	}
	if err := s.checkRoots(ctx, op, raw, pkg, "or declare why it stays unproven: {unproven}"); err != nil {
		return nil, shape.Package{}, err
	}
	if err := s.checkKnown(ctx, op, pkg); err != nil {
		return nil, shape.Package{}, err
	}
	if err := s.checkReviewer(ctx, op, p.To, pkg); err != nil {
		return nil, shape.Package{}, err
	}
	if p.Team != "" && s.board == nil {
		return nil, shape.Package{}, hub.Errorf(hub.CodeNotEnabled, op, "this hub does not have teamspaces")
	}
	return draft, pkg, nil
}

// A proposing is one call of Initiate: the proposal with its sealed package, and the handoff
// that the transaction stored.
type proposing struct {
	s       *Service
	op      string
	actor   hub.Caller
	p       Proposal
	draft   *packageBuilder
	pkg     shape.Package // of the draft, without the owners of the task
	request string        // see requestHash
	box     sealedPackage

	h         hub.Handoff
	short     hub.ShortID
	approvers string // of a handoff into a team
}

// store writes the handoff, its messages and its receipt in one transaction. A proposal that
// repeats an earlier one stores nothing.
func (x *proposing) store(m *mover) (err error) {
	x.h = hub.Handoff{}
	if x.p.IdempotencyKey != "" {
		before, found, err := repeated(m.tx, x.op, x.actor, x.p.IdempotencyKey, x.request)
		if err != nil || found {
			x.h = before
			return err
		}
	}

	if x.p.instead != nil {
		if x.h.Previous, err = x.s.endOffer(m, x.op, *x.p.instead); err != nil {
			return err
		}
	}

	// The package names the owners. If they changed, the caller seals it again.
	chain, old, err := owners(m.tx, x.op, x.actor, x.draft.task, x.p)
	if err != nil {
		return err
	}
	if !slices.Equal(chain, x.box.chain) {
		return errOwnersChanged
	}

	if err := x.fill(m); err != nil {
		return err
	}

	// A task has one active handoff: the old one ends when the new one has its short id.
	if old != nil {
		x.h.Previous = old.ID
	}
	if err := x.put(m); err != nil {
		return err
	}
	if old != nil {
		old.Ending = hub.EndedHandedOn
		old.Notes = fmt.Sprintf("handed on to %s as %s", x.h.To, cmp.Or(string(x.short), string(x.h.ID)))
		if x.p.cause != "" {
			old.Notes += ": " + x.p.cause
		}
		if err := x.s.end(m, x.actor, old); err != nil {
			return err
		}
	}
	if err := x.propose(m); err != nil {
		return err
	}
	if x.p.stored != nil {
		if err := x.p.stored(m, &x.h); err != nil {
			return err
		}
	}
	if err := x.announce(m); err != nil {
		return err
	}

	// The receipt lets a repeated call find this handoff.
	if x.p.IdempotencyKey == "" {
		return nil
	}
	return m.tx.AddReceipt(hub.Receipt{
		Actor: x.actor.ID, Key: x.p.IdempotencyKey, Request: x.request, Message: hub.EnvelopeID(x.h.ID), At: m.now,
	})
}

// fill makes the handoff of the sealed package. One into a team may have to wait for an
// approval.
func (x *proposing) fill(m *mover) error {
	pkg := x.box.pkg
	x.h = hub.Handoff{
		Previous: x.h.Previous,
		ID:       pkg.HandoffID, ThreadID: pkg.ThreadID, TaskID: pkg.Task.TaskID, From: x.actor.ID, To: x.p.To, Title: pkg.Task.Title,
		Reason: x.p.Reason, Package: x.box.raw, Hash: pkg.Verification.Hash, Status: hub.HandoffDraft, InitiatedAt: m.now,
		Restricted: pkg.Policy.Classification == shape.ClassRestricted || len(pkg.Policy.Restrictions) > 0,
		NeedsHuman: pkg.Policy.NeedsHuman, Deadline: pkg.Task.Deadline, Team: x.p.Team,
	}
	if x.h.Team == "" {
		return nil
	}
	waits, err := x.s.board.Handable(m.tx, x.h)
	x.h.NeedsHuman = x.h.NeedsHuman || waits
	return err
}

// put stores the handoff with its first step.
func (x *proposing) put(m *mover) error {
	first := hub.HandoffStep{State: hub.HandoffDraft, At: m.now, Actor: x.actor.ID}
	if err := m.tx.PutHandoff(x.h, "", &first); err != nil {
		return err
	}
	if err := m.record(x.h, first); err != nil {
		return err
	}
	var err error
	x.short, err = m.tx.ShortID(string(x.h.ID))
	return err
}

// propose makes the stored handoff one that its receiver can accept, and lets the receiver read the
// artifacts of the package.
func (x *proposing) propose(m *mover) error {
	if err := m.move(&x.h, hub.HandoffProposed, "", nil); err != nil {
		return err
	}
	refs := make([]hub.ArtifactRef, len(x.box.pkg.Artifacts))
	for i, a := range x.box.pkg.Artifacts {
		refs[i] = a.Ref
	}
	return x.s.sender.Share(m.tx, x.actor, refs, []hub.AgentID{x.h.To})
}

// announce sends the invitation to the receiver, and asks the approvers, if it needs any.
func (x *proposing) announce(m *mover) (err error) {
	if x.h.WaitsForTeam() {
		if x.approvers, err = x.s.approvers(m.tx, x.h); err != nil {
			return err
		}
	}
	text := invitation(x.h, x.box.pkg, x.approvers)
	if err := x.s.post(m, x.actor, x.h, hub.TypeHandoffInitiate, x.box.pkg.Task.Priority, text, true); err != nil {
		return err
	}

	if x.h.NeedsHuman {
		summary := fmt.Sprintf("a handoff of the task %s waits for the operator's approval", x.h.TaskID)
		if _, err := x.s.tell(m, "", x.h, summary, "parley approve "+cmp.Or(string(x.short), string(x.h.ID))+", or parley deny", map[string]any{"blockers": []string{approvalBlocker}}); err != nil {
			return err
		}
	}
	if !x.h.WaitsForTeam() {
		return nil
	}
	posted, err := x.s.board.Ask(m.tx, x.actor, x.h)
	m.posted = append(m.posted, posted...)
	return err
}

// warnings are sentences for the sender: who must approve the handoff first, and what the hub
// will not be able to check.
func (x *proposing) warnings() (out []string) {
	if x.h.WaitsForTeam() {
		out = append(out, fmt.Sprintf("%s cannot accept it before it is approved; asked: %s", x.h.To, x.approvers))
	}
	if x.h.WaitsForOperator() {
		out = append(out, "the receiver cannot accept it before the operator approves it: parley approve "+cmp.Or(string(x.short), string(x.h.ID)))
	}

	namesFile := slices.ContainsFunc(x.pkg.Artifacts, func(a shape.PackageArtifact) bool { return a.Ref.Type == "file" })
	if x.pkg.WorkState.Worktree == "" && !namesFile {
		out = append(out, "it names no worktree and no file, so the hub has nothing to compare the work with")
	}
	return out
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
		return hub.Handoff{}, false, hub.Errorf(hub.CodeConflict, op, "the idempotency key %q was already used for another request: %s", key, r.Message).
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
	owned, err := ownedBefore(tx, op, task, p.Team)
	if err != nil {
		return nil, nil, err
	}
	old, err := handedOn(tx, op, actor, task, owned, p.instead)
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
	add(actor.ID)

	if slices.Contains(chain, p.To) {
		return nil, nil, hub.Errorf(hub.CodeOwnership, op, "%s owned the task %q before: %s", p.To, task, names(chain)).
			WithHint("a task does not go back to an earlier owner; make a new task with an external_ref to this one")
	}
	return chain, old, nil
}

// ownedBefore returns the handoffs by which a task had owners, oldest first. Databases of
// older versions may have a handoff outside of teams and one in a team with the same task
// id: they are two tasks.
func ownedBefore(tx hub.Reader, op, task string, team hub.TeamID) ([]hub.Handoff, error) {
	owned, err := tx.Handoffs(hub.HandoffQuery{Task: task, Owned: true, Limit: math.MaxInt32})
	if err != nil {
		return nil, err
	}
	inTeam := team != ""
	owned = slices.DeleteFunc(owned, func(h hub.Handoff) bool { return (h.Team != "") != inTeam })
	slices.Reverse(owned)

	if !inTeam && len(owned) == 0 {
		_, err := tx.Teamspaces().Task(hub.TaskID(task))
		if err == nil {
			return nil, hub.Errorf(hub.CodeConflict, op, "%s is a task of a team", task).
				WithHint("to hand it over, name the team; for another task, use another id")
		}
		if hub.CodeOf(err) != hub.CodeNotFound {
			return nil, err
		}
	}
	return owned, nil
}

// handedOn returns the active handoff of a task that the actor ends by handing the task on,
// nil if the task has none. It refuses a task that another agent owns, or was offered except by instead.
func handedOn(tx hub.Reader, op string, actor hub.Caller, task string, owned []hub.Handoff, instead *forwarded) (*hub.Handoff, error) {
	claims, err := tx.Handoffs(hub.HandoffQuery{Task: task, States: hub.ActiveHandoffs, Limit: 1})
	if err != nil {
		return nil, err
	}
	isForwarded := len(claims) > 0 && instead != nil && claims[0].ID == instead.id
	if len(claims) > 0 && !isForwarded {
		active := claims[0]
		if active.Status == hub.HandoffActivated && active.To == actor.ID {
			return &active, nil
		}
		return nil, alreadyActive(tx, op, actor, active)
	}

	// A task that was handed on and not accepted belongs to its last owner. A task that was
	// done or released has no owner.
	if len(owned) == 0 {
		return nil, nil
	}
	last := owned[len(owned)-1]
	if last.Ending == hub.EndedHandedOn && last.To != actor.ID && !actor.IsOperator() {
		return nil, hub.Errorf(hub.CodeOwnership, op, "the task %q belongs to %s: only %s can hand it on", task, last.To, last.To)
	}
	return nil, nil
}

// alreadyActive refuses a second handoff of a task. Only its parties and auditors learn who
// has the first.
func alreadyActive(r hub.Reader, op string, actor hub.Caller, active hub.Handoff) error {
	e := hub.Errorf(hub.CodeOwnership, op, "the task %q already has an active handoff", active.TaskID)
	if active.Concerns(actor.ID) || actor.Audits() {
		e = hub.Errorf(hub.CodeOwnership, op, "the task %q already has an active handoff: %s from %s to %s is %s",
			active.TaskID, refOf(r, active.ID), active.From, active.To, active.Status)
	}
	return e.WithHint("wait until it is completed, or ask its sender to withdraw it or the operator to release it")
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
		out.Waits = "the operator's approval; you will be notified"
	case h.WaitsForTeam():
		out.Waits = cut(fmt.Sprintf("the approval of %s", approvers), 300) + "; you will be notified"
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

// isEscaped reports whether JSON holds a character as an escape sequence.
func isEscaped(r rune) bool {
	return r < 0x20 || strings.ContainsRune("\"\\<>&\u2028\u2029", r)
}

// cut shortens a text to about so many bytes as JSON, at a character.
func cut(s string, most int) string {
	n := 0
	for i, r := range s {
		n += utf8.RuneLen(r)
		if isEscaped(r) {
			n += 5
		}
		if n > most {
			return s[:i] + "…"
		}
	}
	return s
}
