package contract

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/parley-agents/parley/compat"
	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
	"github.com/parley-agents/parley/hub/coord"
	"github.com/parley-agents/parley/internal/ground/federation"
)

// A Proposal describes a new contract.
type Proposal struct {
	InProject
	As
	Type    coord.ContractType `json:"type"`
	Name    string             `json:"name"`
	Content json.RawMessage    `json:"content"` // an object
	Direction
}

// A Result is a contract after an operation on it.
type Result struct {
	Contract coord.Contract // without History and Conflicts
	Outcome  string         // agreed, change_requested, rejected, updated, started, complete, verified, failed, partial or ""
	Repo     coord.RepoID   // that the caller spoke for
	Pending  []coord.Repo   // repositories whose agreement or implementation is missing
	Packet   coord.PacketID // that holds the comment, or ""
	Warnings []string       // about the shape of the content, and about policies

	Format   compat.Format // of the content; "" if the operation brought none
	Provider string        // name of the providing repository, or ""
	Verdict  compat.Word   // on an update, for its consumers; "" if the operation is none
	Base     Base          // with which the update was compared
	Affected []coord.Repo  // consumers for which the update is not compatible
	Reasons  []string      // the first findings that are not compatible

	Recorded *coord.ContractResult // of a test of a commit; nil if the operation brought none

	atOnce bool // the update was agreed without an agreement
}

// Propose makes a contract.
func (s *Service) Propose(ctx context.Context, caller hub.Caller, p Proposal) (Result, error) {
	const op = "contract.Propose"
	if err := required(op, "type", string(p.Type), "name", p.Name, "content", string(p.Content)); err != nil {
		return Result{}, err
	}
	content, err := federation.CompactContent(op, p.Content)
	if err != nil {
		return Result{}, err
	}

	document, err := checkContent(op, p.Type, p.Format, content)
	if err != nil {
		return Result{}, err
	}

	now := coord.Instant{}.After(s.o.Clock)
	c := coord.Contract{
		Project: p.Project, ID: coord.ContractID(s.newID()), Type: p.Type, Name: p.Name, Version: 1, Status: coord.ContractProposed,
		Content: content, CreatedAt: now, UpdatedAt: now,
	}

	var out Result
	err = s.act(ctx, op, caller, p.Project, p.As, coord.PermitPropose, func(se *session, in coord.Project, r coord.Repo) error {
		c.ProposedBy = r.ID
		if c.Terms, err = p.Direction.by(r).in(op, in, c.Terms, now); err != nil {
			return err
		}
		if err := federation.Check(c); err != nil {
			return err
		}

		if err := s.roomForContract(op, in, int64(len(content))); err != nil {
			return err
		}
		if err := se.charge(op, Rate{Things: 1, Bytes: int64(len(content))}); err != nil {
			return err
		}
		if err := se.tx.WriteCoordination().PutContract(c, coord.Contract{}); err != nil {
			return err
		}
		out = Result{Contract: c, Repo: r.ID, Format: document.Format(), Provider: repoName(in, c.Terms.Provider)}
		return se.recordContract(actions.ContractProposed, in, r, coord.Contract{}, c, "proposed")
	})

	// Unusual content is stored, with a warning.
	out.Warnings = contentWarnings(c.Type, content)
	return out, err
}

// roomForContract refuses a contract more than a project may have.
func (s *Service) roomForContract(op string, p coord.Project, bytes int64) error {
	if p.Tally.Contracts >= s.o.Limits.Contracts {
		return hub.Errorf(hub.CodeTooLarge, op, "the project is full (%d contracts)", p.Tally.Contracts)
	}
	return s.roomForContent(op, p, bytes)
}

// roomForContent refuses content beyond the limit of a project.
func (s *Service) roomForContent(op string, p coord.Project, bytes int64) error {
	if p.Tally.Bytes+bytes > s.o.Limits.Bytes {
		return hub.Errorf(hub.CodeTooLarge, op, "the project is full: %d bytes of content, limit %d", p.Tally.Bytes, s.o.Limits.Bytes)
	}
	return nil
}

// recordContract records the change of a contract from was to c and sends the notices. was is
// zero for a contract that is new here.
func (se *session) recordContract(a actions.Action, p coord.Project, r coord.Repo, was, c coord.Contract, event string) error {
	f := facts{
		Project: p.ID, Agent: se.agent(), Source: se.source, Repo: r.ID, Version: c.Version, Status: string(c.Status), Action: event,
		Digest: c.Digest(),
	}
	if was.Version != c.Version {
		f.Replaces = was.Version
	}
	f.Ends = was.Version > 0 && !slices.Equal(was.Terms.Ends, c.Terms.Ends)
	if err := se.record(a, contractChange(c), f); err != nil {
		return err
	}
	if err := se.recordStanding(p, c); err != nil {
		return err
	}
	return se.tell(p, r.ID, notice{Event: event, Project: p.ID, Contract: c.ID, Name: c.Name, Version: c.Version, Status: c.Status, By: r.Name})
}

// recordStanding records a change of the status of a project that follows from its
// contracts: was is the project before contract c changed. The time of the change is
// that of the contract, which is the same on every hub. Peers that keep the status of a
// project get it, also the peer that sent the contract.
func (se *session) recordStanding(was coord.Project, c coord.Contract) error {
	now, err := se.tx.Coordination().Project(was.ID)
	if err != nil || now.Standing() == was.Standing() || c.UpdatedAt.Compare(now.UpdatedAt) <= 0 {
		return err
	}
	moved := now
	moved.UpdatedAt = c.UpdatedAt
	if err := se.tx.WriteCoordination().PutProject(moved, now); err != nil {
		return err
	}
	known := se.known
	se.known = false
	err = se.record(actions.ProjectChanged, projectChange(moved), facts{Project: moved.ID, Agent: se.agent(), Source: se.source, Action: "derived", Status: string(moved.Standing())})
	se.known = known
	return err
}

func contractChange(c coord.Contract) hub.Change {
	return hub.Change{Project: c.Project, Kind: hub.ChangeContract, Object: string(c.ID), Version: c.Version}
}

// The actions of a Response.
const (
	ActionAgree         = "agree"
	ActionRequestChange = "request_change"
	ActionReject        = "reject"
)

// A Response is one repository's answer to a contract.
type Response struct {
	InContract
	As
	Action  string          `json:"action"`
	Comment string          `json:"comment,omitempty"`
	Change  json.RawMessage `json:"suggestedChange,omitempty"` // suggested content; nil or any JSON value
	Version int             `json:"version,omitempty"`         // of the contract; 0 for the newest
}

// OutcomeRejected is the outcome of a Response with ActionReject.
const OutcomeRejected = "rejected"

// responses are the effects of each action.
var responses = map[string]struct {
	move    coord.ContractMove
	outcome string
	action  actions.Action
	packet  coord.ContextType // that a comment is kept as
}{
	ActionAgree:         {coord.MoveAgree, "agreed", actions.ContractAgreed, coord.ContextDecision},
	ActionRequestChange: {coord.MoveRequestChange, "change_requested", actions.ContractContested, coord.ContextQuestion},
	ActionReject:        {coord.MoveReject, OutcomeRejected, actions.ContractRejected, coord.ContextDecision},
}

// Respond agrees to a contract, requests a change or rejects it. A comment or a
// suggested change is also kept as a packet that is related to the contract.
func (s *Service) Respond(ctx context.Context, caller hub.Caller, r Response) (Result, error) {
	const op = "contract.Respond"
	if err := required(op, "contractId", string(r.Contract), "action", r.Action); err != nil {
		return Result{}, err
	}
	does, ok := responses[r.Action]
	if !ok {
		return Result{}, hub.Errorf(hub.CodeInvalid, op, "unknown action %q: use %s, %s or %s", r.Action, ActionAgree, ActionRequestChange, ActionReject)
	}
	if r.Action == ActionRequestChange && strings.TrimSpace(r.Comment) == "" && len(r.Change) == 0 {
		return Result{}, hub.Errorf(hub.CodeInvalid, op, "comment is required: describe the change that you request").WithHint("give a comment or a suggested change")
	}

	// The word of the operator counts for any repository of a project of this hub, and is recorded as his.
	r.As.standsIn = caller.IsOperator() && r.Action == ActionAgree
	return s.move(ctx, caller, move{op, r.InContract, r.As, coord.PermitRespond, r.Version, does.move, r.Action, does.action, does.outcome, true, nil}, func(se *session, p coord.Project, by coord.Repo, was, c coord.Contract, out *Result) (coord.Contract, error) {
		// A proposer cannot agree with itself unless the policy of the project is any.
		if r.Action == ActionAgree {
			proposer, _ := p.Repo(c.ProposedBy)
			isProposer := by.ID == c.ProposedBy || (by.Agent != "" && by.Agent == proposer.Agent)
			if isProposer && p.Policy != coord.AgreeAny {
				return c, hub.Errorf(hub.CodePolicy, op, "%s proposed version %d itself; another repository must agree", proposer.Name, c.Version).
					WithHint("with the policy any, which the project's owner can set, a proposer can agree alone")
			}
			c.Agreements = mergeAgreements(c.Agreements, []coord.Agreement{{
				Repo: by.ID, Agent: s.aid(caller), Version: c.Version, Content: coord.ContentHash(c.Content), At: c.UpdatedAt,
			}})
			if out.Pending = c.Dissenting(p); len(out.Pending) > 0 {
				c.Status = was.Status // until all have agreed
			}
		} else {
			c.ReopenedAt = c.UpdatedAt
		}

		c = advance(c, p)
		var err error
		out.Packet, err = se.comment(op, p, by, c, r, does.packet)
		return c, err
	})
}

// A move is an operation on a contract that may change its status.
type move struct {
	op      string
	in      InContract
	as      As
	need    coord.Permission
	version int // that the caller saw; 0 for the newest
	move    coord.ContractMove
	word    string // for the operation, in the error of a move that is not allowed
	action  actions.Action
	outcome string
	answers bool      // it decides for the repository; see mayAnswer
	result  *finished // of a test, which is stored with the move; nil if there is none
}

// revisesProposal reports whether a move replaces a proposal that the caller itself made for the same
// repository, and of which no version was agreed. That decides no more than the proposal did.
func (m move) revisesProposal(r hub.Reader, caller hub.Caller, by coord.Repo, was coord.Contract) (bool, error) {
	isOpen := was.Status == coord.ContractProposed || was.Status == coord.ContractNegotiating
	isOwn := was.ProposedBy == by.ID && was.Terms.InForce == nil
	if m.move != coord.MoveUpdate || !isOpen || !isOwn {
		return false, nil
	}
	first, err := r.Journal(hub.JournalQuery{Subject: string(was.ID), Limit: 1})
	return len(first) == 1 && first[0].Action == actions.ContractProposed && first[0].Actor == caller.ID, err
}

// move reads a contract, moves its status, lets do change the rest, and stores and
// records the result.
func (s *Service) move(ctx context.Context, caller hub.Caller, m move, do func(se *session, p coord.Project, by coord.Repo, was, c coord.Contract, out *Result) (coord.Contract, error)) (Result, error) {
	var out Result
	err := s.act(ctx, m.op, caller, m.in.Project, m.as, m.need, func(se *session, p coord.Project, by coord.Repo) error {
		out = Result{Outcome: m.outcome, Repo: by.ID}
		read := contract
		if m.move == coord.MoveUpdate || m.move == coord.MoveStart {
			read = liveContract
		}
		was, err := read(se.tx, m.op, p.ID, m.in.Contract)
		isRevision := false
		if m.answers && err == nil {
			if isRevision, err = m.revisesProposal(se.tx, caller, by, was); err != nil {
				return err
			}
		}
		if m.answers && !isRevision {
			if err := s.mayAnswer(m.op, caller, by); err != nil {
				return err
			}
		}

		switch {
		case err == nil && m.move == coord.MoveAgree:
			err = agreesTo(se.tx, m.op, caller, was, m.version)
		case err == nil:
			err = sameVersion(m.op, was, m.version)
		}
		if err != nil {
			return err
		}

		kind := m.move
		if kind == coord.MoveUpdate && was.Terms.Provider != "" {
			kind = coord.MoveReplace
		}
		c, err := s.step(m.op, p, was, kind, m.word)
		// The value is the status that the move leads to by itself. An agreement that
		// waits for others keeps the status, and yet may undo the move before it.
		write := coord.Stamp{Member: coord.MemberStatus, Value: string(c.Status), At: c.UpdatedAt, By: s.o.Self}
		if err == nil {
			err = se.charge(m.op, Rate{Things: 1})
		}
		if err == nil {
			c, err = do(se, p, by, was, c, &out)
		}
		if err == nil {
			if write.Version = c.Version; len(out.Pending) > 0 && m.move == coord.MoveAgree {
				write.Value = pendingAgreement
			}
			if out.atOnce {
				write.Value = string(coord.ContractAgreed)
			}
			c.Stamps = c.Stamps.With(write, false)
			err = se.tx.WriteCoordination().PutContract(c, was)
		}
		if err != nil {
			return err
		}

		out.Contract = c
		if err := se.recordContract(m.action, p, by, was, c, m.outcome); err != nil || m.result == nil {
			return err
		}
		r, err := se.addResult(m.op, p, by, c, *m.result)
		out.Recorded = &r
		return err
	})
	return out, err
}

// pendingAgreement is the value of the write of an agreement that waits for others.
const pendingAgreement = "agreement pending"

// step moves a contract. word names the operation in its error, which also says what the status
// waits for.
func (s *Service) step(op string, p coord.Project, c coord.Contract, move coord.ContractMove, word string) (coord.Contract, error) {
	next, ok := c.Status.After(move)
	if !ok {
		isWork := slices.Contains([]coord.ContractMove{coord.MoveStart, coord.MoveComplete, coord.MoveVerified, coord.MoveFailed, coord.MovePartial}, move)
		if isWork && c.Status != coord.ContractVerified {
			return c, hub.Errorf(hub.CodeConflict, op, "Cannot %s contract in status %s: it is %s", word, c.Status, waitsFor(c, p))
		}
		return c, hub.Errorf(hub.CodeConflict, op, "Cannot %s contract in status %s", word, c.Status)
	}
	c.Status, c.UpdatedAt = next, later(c.UpdatedAt, c.Stamps.Seen[s.o.Self]).After(s.o.Clock)
	return c, nil
}

// sameVersion refuses an operation on a version that was replaced.
func sameVersion(op string, c coord.Contract, version int) error {
	if version != 0 && version != c.Version {
		return hub.Errorf(hub.CodeConflict, op, "contract %s is now at version %d, not %d", c.ID, c.Version, version).
			WithHint("see the changes with: {contract.diff} %s", c.ID)
	}
	return nil
}

// comment shares the comment of a response as a packet.
func (se *session) comment(op string, p coord.Project, by coord.Repo, c coord.Contract, r Response, t coord.ContextType) (coord.PacketID, error) {
	if r.Change = given(r.Change); r.Comment == "" && r.Change == nil {
		return "", nil
	}
	if len(r.Comment) > federation.MaxText {
		return "", hub.Errorf(hub.CodeTooLarge, op, "comment must be at most %d bytes, got %d", federation.MaxText, len(r.Comment))
	}
	return se.shareAbout(op, p, by, c, t, struct {
		Action   string           `json:"action"`
		Comment  string           `json:"comment"`
		Change   json.RawMessage  `json:"suggested_change,omitempty"`
		Contract coord.ContractID `json:"contract_id"`
		Version  int              `json:"contract_version"`
	}{r.Action, r.Comment, r.Change, c.ID, c.Version})
}

// given returns a JSON value, or nil for null.
func given(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 || string(raw) == "null" {
		return nil
	}
	return raw
}

// shareAbout shares a packet about a contract.
func (se *session) shareAbout(op string, p coord.Project, by coord.Repo, c coord.Contract, t coord.ContextType, content any) (coord.PacketID, error) {
	raw, err := json.Marshal(content)
	if err != nil {
		return "", hub.Errorf(hub.CodeInvalid, op, "cannot encode the comment: %v", err)
	}
	packet, err := se.share(op, p, by, NewPacket{In(p.ID), Relations{Related: []coord.ContractID{c.ID}}, t, raw})
	return packet.ID, err
}

// A Revision is the next version of a contract. Its note has two names on the wire.
type Revision struct {
	InContract
	As
	Content json.RawMessage `json:"content"`
	Note    string          `json:"changeNote,omitempty"`
	Notes   string          `json:"changeNotes,omitempty"`
	Version int             `json:"version,omitempty"` // that it replaces; 0 for the newest
	Direction
}

// Update gives a contract its next version. Every implementation needs a revision
// then.
func (s *Service) Update(ctx context.Context, caller hub.Caller, u Revision) (Result, error) {
	const op = "contract.Update"
	if err := required(op, "contractId", string(u.Contract), "content", string(u.Content)); err != nil {
		return Result{}, err
	}
	content, err := federation.CompactContent(op, u.Content)
	if err != nil {
		return Result{}, err
	}

	u.Note = cmp.Or(u.Note, u.Notes)
	if len(u.Note) > federation.MaxText {
		return Result{}, hub.Errorf(hub.CodeTooLarge, op, "changeNote must be at most %d bytes, got %d", federation.MaxText, len(u.Note))
	}

	// The comparison is made before the transaction, and again if its base has moved.
	var out Result
	for range judgeTries {
		j, err := s.judgeUpdate(ctx, caller, u.InContract, content)
		if err != nil {
			return Result{}, err
		}
		out, err = s.replace(ctx, op, caller, u, content, j)
		if !errors.Is(err, errMoved) {
			out.Warnings = append(contentWarnings(out.Contract.Type, content), out.Warnings...)
			return out, err
		}
	}
	return out, hub.Errorf(hub.CodeConflict, op, "%v", errMoved)
}

// replace stores the next content of a contract, as the policy of its project has it.
func (s *Service) replace(ctx context.Context, op string, caller hub.Caller, u Revision, content json.RawMessage, j judgement) (Result, error) {
	m := move{op, u.InContract, u.As, coord.PermitPropose, u.Version, coord.MoveUpdate, "update", actions.ContractUpdated, "updated", true, nil}
	return s.move(ctx, caller, m, func(se *session, p coord.Project, by coord.Repo, was, c coord.Contract, out *Result) (coord.Contract, error) {
		hasProvider := was.Terms.Provider != ""
		if s.o.Strict && !hasProvider && was.Status != coord.ContractNegotiating {
			return c, hub.Errorf(hub.CodeConflict, op, "Cannot update contract in status %s", was.Status).
				WithHint("request a change first: {contract.reply}")
		}
		if err := s.roomForContent(op, p, int64(len(content))); err != nil {
			return c, err
		}
		if err := se.charge(op, Rate{Bytes: int64(len(content))}); err != nil {
			return c, err
		}

		// The version before stays in the history, with the note about the change.
		c.Version = was.Version + 1
		c.Content = content
		c.ProposedBy = by.ID
		c.Implementations = revise(c.Implementations)
		c, err := s.govern(se, op, p, by, was, c, u.Direction, j, out)
		if err == nil {
			err = federation.Check(c) // a content must not look like folded versions
		}
		if err == nil {
			err = se.tx.WriteCoordination().AddVersion(p.ID, c.ID, coord.ContractVersion{
				Version: was.Version, Content: was.Content, ProposedBy: was.ProposedBy, At: was.UpdatedAt, ChangeNotes: u.Note,
			})
		}
		if err == nil && was.Version >= federation.MaxVersions {
			err = se.fold(c)
		}
		return c, err
	})
}

// govern applies the policy of the project to an update from was to c: it is refused, agreed at
// once, or waits for the consumers that it affects.
func (s *Service) govern(se *session, op string, p coord.Project, by coord.Repo, was, c coord.Contract, d Direction, j judgement, out *Result) (coord.Contract, error) {
	err := d.checkSame(op, p, by, was, j.was)
	if err != nil {
		return c, err
	}
	whole, err := withVersions(se.tx, was)
	if err != nil {
		return c, err
	}
	whole.Terms = judgedTerms(whole.Terms)
	if !j.isOf(whole, p, c.Content) {
		return c, errMoved
	}
	if j.refused != nil {
		return c, j.refused
	}

	decided, err := update{project: p, was: was, by: by, judged: j, today: s.today()}.decide(op)
	if err != nil {
		return c, err
	}
	out.Format = j.format
	out.Verdict = decided.word
	out.Base = j.base
	out.Provider = repoName(p, c.Terms.Provider)
	_, out.Affected = effective(j.forThem, p, by.ID)
	out.Reasons = reasonsOf(j.forThem)
	out.Warnings = decided.notes

	c = withAsks(c, c.UpdatedAt, true, decided.asks...)
	out.Pending = c.Dissenting(p)
	if out.atOnce = decided.agreed; out.atOnce {
		c.Status = coord.ContractAgreed
		c = enforce(c)
	}
	if decided.word != compat.Compatible {
		se.concern = agreementConcern(p, by, c, j, out.Pending)
	} else if decided.agreed {
		se.concern = &concern{others: "; it is compatible, you are not affected"}
	}
	return c, j.keep(se.tx, c)
}

// repoName returns the name of a repository of a project, "" if there is none.
func repoName(p coord.Project, id coord.RepoID) string {
	r, _ := p.Repo(id)
	return r.Name
}

// fold folds the oldest versions of a contract that has too many.
func (se *session) fold(c coord.Contract) error {
	c, err := withVersions(se.tx, c)
	if err != nil || len(c.History) <= federation.MaxVersions {
		return err
	}
	c.History = federation.Fold(c.History)
	return se.tx.WriteCoordination().PutVersions(c)
}

// revise marks implementations as in need of a revision.
func revise(all []coord.Implementation) []coord.Implementation {
	all = slices.Clone(all)
	for i := range all {
		all[i].Status = coord.ImplNeedsRevision
	}
	return all
}
