package coordination

import (
	"context"
	"encoding/json"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/service/contract"
)

// StartParams are the parameters of cacp/implementation/start.
type StartParams struct {
	InContract
	Plan  string   `json:"plan,omitempty"`
	Files []string `json:"estimatedFiles,omitempty"`
}

// A WorkState is the answer to operations that change an implementation.
type WorkState struct {
	Status         string             `json:"status"` // started, complete, verified, failed or partial
	ContractID     hub.ContractID     `json:"contractId"`
	ContractStatus hub.ContractStatus `json:"contractStatus"`
	Implementation string             `json:"implementationId,omitempty"`
	PendingRepos   []string           `json:"pendingRepos"` // that have not completed the contract
	Packet         hub.PacketID       `json:"packetId,omitempty"`
}

func workState(r contract.Result, err error) (WorkState, error) {
	return WorkState{
		Status: r.Outcome, ContractID: r.Contract.ID, ContractStatus: r.Contract.Status,
		Implementation: string(r.Contract.ID) + ":" + string(r.Repo), PendingRepos: names(r.Pending), Packet: r.Packet,
	}, err
}

func startWork(ctx context.Context, s *Services, c hub.Caller, p StartParams) (WorkState, error) {
	return workState(s.Contracts.Start(ctx, c, contract.Work{Project: p.Project, Contract: p.Contract, Plan: p.Plan, Files: p.Files}))
}

// CompleteParams are the parameters of cacp/implementation/complete.
type CompleteParams struct {
	InContract
	Files        []string `json:"files"`
	Notes        string   `json:"notes,omitempty"`
	TestEndpoint string   `json:"testEndpoint,omitempty"`
}

func completeWork(ctx context.Context, s *Services, c hub.Caller, p CompleteParams) (WorkState, error) {
	return workState(s.Contracts.Complete(ctx, c, contract.Work{
		Project: p.Project, Contract: p.Contract, Files: p.Files, Notes: p.Notes, TestEndpoint: p.TestEndpoint,
	}))
}

// VerifyParams are the parameters of cacp/implementation/verify.
type VerifyParams struct {
	InContract
	Result   string          `json:"result"`
	Notes    string          `json:"notes,omitempty"`
	Failures json.RawMessage `json:"failureDetails,omitempty"`
}

func verifyWork(ctx context.Context, s *Services, c hub.Caller, p VerifyParams) (WorkState, error) {
	return workState(s.Contracts.Verify(ctx, c, contract.Verification{
		Project: p.Project, Contract: p.Contract, Result: p.Result, Notes: p.Notes, Failures: some(p.Failures),
	}))
}

// ContractParams are the parameters of methods that need a contract and no more.
type ContractParams struct{ InContract }

// A Progress is the answer to cacp/implementation/getStatus.
type Progress struct {
	Contract        hub.ContractID     `json:"contractId"`
	Status          hub.ContractStatus `json:"contractStatus"`
	Version         int                `json:"contractVersion"`
	Implementations []RepoProgress     `json:"implementations"`
	PendingRepos    []string           `json:"pendingRepos"`
}

// A RepoProgress says how far one repository is with a contract.
type RepoProgress struct {
	Repo         hub.RepoID               `json:"repoId"`
	Agent        hub.AID                  `json:"agentId"`
	Status       hub.ImplementationStatus `json:"status"`
	Plan         string                   `json:"plan,omitempty"`
	Files        []string                 `json:"files"`
	Notes        string                   `json:"notes"`
	TestEndpoint string                   `json:"testEndpoint,omitempty"`
	StartedAt    hub.Instant              `json:"startedAt"`
	CompletedAt  hub.Instant              `json:"completedAt"`
	Version      int                      `json:"contractVersion,omitempty"`
}

func workStatus(ctx context.Context, s *Services, c hub.Caller, p ContractParams) (Progress, error) {
	got, err := s.Contracts.Progress(ctx, c, p.Project, p.Contract)
	k := got.Contract
	out := Progress{k.ID, k.Status, k.Version, make([]RepoProgress, len(k.Implementations)), names(got.Pending)}
	for i, m := range k.Implementations {
		if m.Files == nil {
			m.Files = []string{}
		}
		out.Implementations[i] = RepoProgress{m.Repo, m.Agent, m.Status, m.Plan, m.Files, m.Notes, m.TestEndpoint, m.StartedAt, m.CompletedAt, m.Version}
	}
	return out, err
}
