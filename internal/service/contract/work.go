package contract

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
	"github.com/parley-agents/parley/hub/coord"
	"github.com/parley-agents/parley/internal/ground/federation"
)

// Work is the work of one repository on a contract.
type Work struct {
	InContract
	As
	Plan         string   `json:"plan,omitempty"`           // for Start
	Estimated    []string `json:"estimatedFiles,omitempty"` // files, for Start
	Files        []string `json:"files"`                    // changed, for Complete
	Notes        string   `json:"notes,omitempty"`          // for Complete
	TestEndpoint string   `json:"testEndpoint,omitempty"`   // for Complete

	Evidence        // for Complete
	Result   string `json:"result,omitempty"` // for Complete with a commit: success, failure or partial; default success
}

// Start records that the caller's repository begins to implement a contract.
func (s *Service) Start(ctx context.Context, caller hub.Caller, w Work) (Result, error) {
	const op = "contract.Start"
	return s.work(ctx, caller, move{op: op, in: w.InContract, as: w.As, need: coord.PermitImplement, move: coord.MoveStart, word: "start implementation of", action: actions.WorkStarted, outcome: "started"}, func(was, c coord.Contract, by coord.Repo) (coord.Implementation, error) {
		impl, _ := was.Implementation(by.ID)
		return coord.Implementation{
			Repo: by.ID, Agent: s.aid(caller), Status: coord.ImplInProgress, Plan: w.Plan, Files: w.Estimated,
			StartedAt: later(c.UpdatedAt, impl.At().After(s.o.Clock)), Version: c.Version,
		}, nil
	})
}

// Complete records that the caller's repository has implemented a contract. When all
// parties have, the contract is implemented.
func (s *Service) Complete(ctx context.Context, caller hub.Caller, w Work) (Result, error) {
	const op = "contract.Complete"
	m := move{op: op, in: w.InContract, as: w.As, need: coord.PermitImplement, move: coord.MoveComplete, word: "complete implementation of", action: actions.WorkCompleted, outcome: "complete"}
	only, err := s.prepare(ctx, caller, &m, w.Evidence, w.Result)
	if err != nil {
		return Result{}, err
	}
	if only {
		return s.recordOnly(ctx, op, caller, w.InContract, w.As, *m.result)
	}
	if w.Files == nil {
		return Result{}, hub.Errorf(hub.CodeInvalid, op, "files required").WithHint("give an empty list if no file changed")
	}
	return s.work(ctx, caller, m, func(was, c coord.Contract, by coord.Repo) (coord.Implementation, error) {
		impl, ok := was.Implementation(by.ID)
		if !ok || impl.Version != was.Version || impl.Status == coord.ImplNeedsRevision {
			return impl, hub.Errorf(hub.CodeConflict, op, "No implementation started by %s for version %d", by.Name, was.Version).
				WithHint("start the implementation first: {impl.start}")
		}
		impl.Agent = s.aid(caller)
		impl.Status = coord.ImplComplete
		impl.Files = w.Files
		impl.Notes = w.Notes
		impl.TestEndpoint = w.TestEndpoint
		impl.CompletedAt = later(c.UpdatedAt, impl.At().After(s.o.Clock))
		return impl, nil
	})
}

// work moves a contract by the work of one repository on it.
func (s *Service) work(ctx context.Context, caller hub.Caller, m move, do func(was, c coord.Contract, by coord.Repo) (coord.Implementation, error)) (Result, error) {
	return s.move(ctx, caller, m, func(_ *session, p coord.Project, by coord.Repo, was, c coord.Contract, out *Result) (coord.Contract, error) {
		impl, err := do(was, c, by)
		if err != nil {
			return c, err
		}
		c = advance(withImplementation(c, impl), p)
		out.Pending = c.Pending(p)
		return c, federation.Check(c)
	})
}

// withImplementation returns c with the work of one repository replaced.
func withImplementation(c coord.Contract, impl coord.Implementation) coord.Contract {
	others := slices.DeleteFunc(slices.Clone(c.Implementations), func(i coord.Implementation) bool { return i.Repo == impl.Repo })
	c.Implementations = mergeImplementations(others, []coord.Implementation{impl})
	return c
}

// The results of a Verification.
const (
	VerifySuccess = "success"
	VerifyFailure = "failure"
	VerifyPartial = "partial"
)

// A Verification is the result of testing the implementations of a contract together.
type Verification struct {
	InContract
	As
	Result   string          `json:"result"`
	Notes    string          `json:"notes,omitempty"`
	Failures json.RawMessage `json:"failureDetails,omitempty"` // nil or any JSON value
	Evidence
}

// verifications are the effects of each result.
var verifications = map[string]struct {
	move    coord.ContractMove
	outcome string
}{
	VerifySuccess: {coord.MoveVerified, "verified"},
	VerifyFailure: {coord.MoveFailed, "failed"},
	VerifyPartial: {coord.MovePartial, "partial"},
}

// Verify records whether the implementations of a contract work together. After a
// failure every implementation needs a revision. Notes are kept as a packet that is
// related to the contract.
func (s *Service) Verify(ctx context.Context, caller hub.Caller, v Verification) (Result, error) {
	const op = "contract.Verify"
	m := move{op: op, in: v.InContract, as: v.As, need: coord.PermitImplement, word: "verify", action: actions.WorkVerified}
	only, err := s.prepareVerify(ctx, caller, &m, &v)
	if err != nil {
		return Result{}, err
	}
	does, ok := verifications[v.Result]
	if !ok {
		return Result{}, hub.Errorf(hub.CodeInvalid, op, "unknown result %q: use %s, %s or %s", v.Result, VerifySuccess, VerifyFailure, VerifyPartial)
	}
	if len(v.Notes) > federation.MaxText {
		return Result{}, hub.Errorf(hub.CodeTooLarge, op, "notes must be at most %d bytes, got %d", federation.MaxText, len(v.Notes))
	}
	if only {
		return s.recordOnly(ctx, op, caller, v.InContract, v.As, *m.result)
	}
	m.move = does.move
	m.outcome = does.outcome
	return s.move(ctx, caller, m, func(se *session, p coord.Project, by coord.Repo, _, c coord.Contract, out *Result) (_ coord.Contract, err error) {
		if v.Result == VerifyFailure {
			c.Implementations = revise(c.Implementations)
		}
		out.Pending = c.Pending(p)
		out.Packet, err = se.verdict(op, p, by, c, v)
		return c, err
	})
}

// prepare adds the result of a report of work to its move, if the report names a commit. only
// says that the result is recorded without the move.
func (s *Service) prepare(ctx context.Context, caller hub.Caller, m *move, e Evidence, result string) (only bool, err error) {
	if err := e.check(m.op); err != nil || !e.HasCommit() {
		return false, err
	}
	if _, ok := verifications[result]; result != "" && !ok {
		return false, hub.Errorf(hub.CodeInvalid, m.op, "unknown result %q: use %s, %s or %s", result, VerifySuccess, VerifyFailure, VerifyPartial)
	}
	repo, err := s.speaks(ctx, m.op, caller, m.in.Project, m.as)
	if err != nil {
		return false, err
	}
	f, err := s.vouch(ctx, m.op, caller, m.in.Project, repo, e, result)
	if err != nil {
		return false, err
	}
	m.result = &f
	moves, err := s.movable(ctx, caller, m.in, m.move, e)
	return !moves, err
}

// prepareVerify prepares a verification. Its result is that of the check, if the hub ran one.
func (s *Service) prepareVerify(ctx context.Context, caller hub.Caller, m *move, v *Verification) (only bool, err error) {
	isUnknown := v.Result == "" && v.Check == ""
	if err := v.Evidence.check(m.op); err != nil || !v.HasCommit() || isUnknown {
		return false, err
	}
	m.move = verifications[cmp.Or(v.Result, VerifySuccess)].move
	if only, err = s.prepare(ctx, caller, m, v.Evidence, v.Result); err != nil {
		return false, err
	}
	if m.result.kind == coord.ResultRun {
		v.Result = m.result.result
	}
	if v.Result == "" {
		return false, hub.Errorf(hub.CodeInvalid, m.op, "this hub ran no check %.100q on commit %s", v.Check, v.Commit).
			WithHint("ask for a run of the check first, or give the result yourself: it counts as said")
	}
	return only, nil
}

// verdict shares the notes of a verification as a packet.
func (se *session) verdict(op string, p coord.Project, by coord.Repo, c coord.Contract, v Verification) (coord.PacketID, error) {
	if v.Failures = given(v.Failures); v.Notes == "" && v.Failures == nil {
		return "", nil
	}
	return se.shareAbout(op, p, by, c, coord.ContextProgress, struct {
		Result   string           `json:"result"`
		Notes    string           `json:"notes"`
		Failures json.RawMessage  `json:"failure_details,omitempty"`
		Contract coord.ContractID `json:"contract_id"`
		Version  int              `json:"contract_version"`
	}{v.Result, v.Notes, v.Failures, c.ID, c.Version})
}

// A Progress is a contract with the repositories that it waits for.
type Progress struct {
	Contract coord.Contract
	Pending  []coord.Repo // those that have not completed the current version
}

// Progress returns the progress of a contract.
func (s *Service) Progress(ctx context.Context, _ hub.Caller, id coord.ProjectID, contractID coord.ContractID) (Progress, error) {
	const op = "contract.Progress"
	return readIn(ctx, s, op, id, func(r hub.Reader, p coord.Project) (Progress, error) {
		c, err := contract(r, op, id, contractID)
		return Progress{c, c.Pending(p)}, err
	})
}
