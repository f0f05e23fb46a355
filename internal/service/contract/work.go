package contract

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
	"github.com/parley-agents/parley/hub/coord"
	"github.com/parley-agents/parley/internal/federation"
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
}

// Start records that the caller's repository begins to implement a contract.
func (s *Service) Start(ctx context.Context, caller hub.Caller, w Work) (Result, error) {
	const op = "contract.Start"
	return s.work(ctx, caller, move{op, w.InContract, w.As, coord.PermitImplement, 0, coord.MoveStart, "start implementation of", actions.WorkStarted, "started", false}, func(was, c coord.Contract, by coord.Repo) (coord.Implementation, error) {
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
	if w.Files == nil {
		return Result{}, hub.Errorf(hub.CodeInvalid, op, "files required").WithHint("give an empty list if no file changed")
	}
	return s.work(ctx, caller, move{op, w.InContract, w.As, coord.PermitImplement, 0, coord.MoveComplete, "complete implementation of", actions.WorkCompleted, "complete", false}, func(was, c coord.Contract, by coord.Repo) (coord.Implementation, error) {
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
	does, ok := verifications[v.Result]
	if !ok {
		return Result{}, hub.Errorf(hub.CodeInvalid, op, "unknown result %q: use %s, %s or %s", v.Result, VerifySuccess, VerifyFailure, VerifyPartial)
	}
	if len(v.Notes) > federation.MaxText {
		return Result{}, hub.Errorf(hub.CodeTooLarge, op, "notes must be at most %d bytes", federation.MaxText)
	}
	m := move{op, v.InContract, v.As, coord.PermitImplement, 0, does.move, "verify", actions.WorkVerified, does.outcome, false}
	return s.move(ctx, caller, m, func(se *session, p coord.Project, by coord.Repo, _, c coord.Contract, out *Result) (_ coord.Contract, err error) {
		if v.Result == VerifyFailure {
			c.Implementations = revise(c.Implementations)
		}
		out.Pending = c.Pending(p)
		out.Packet, err = se.verdict(op, p, by, c, v)
		return c, err
	})
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
