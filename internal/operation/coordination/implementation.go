package coordination

import (
	"context"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/coord"
	"github.com/parley-agents/parley/internal/service/contract"
)

// A WorkState is the answer to operations that change an implementation.
type WorkState struct {
	Status         string               `json:"status"` // started, complete, verified, failed or partial
	ContractID     coord.ContractID     `json:"contractId"`
	ContractStatus coord.ContractStatus `json:"contractStatus"`
	Implementation string               `json:"implementationId,omitempty"`
	PendingRepos   []string             `json:"pendingRepos"` // that have not completed the contract
	Packet         coord.PacketID       `json:"packetId,omitempty"`

	Commit  string           `json:"commit,omitempty"`          // of the result that was recorded
	Kind    coord.ResultKind `json:"kind,omitempty"`            // said or run
	Result  string           `json:"result,omitempty"`          // success, failure or partial
	Against int              `json:"contractVersion,omitempty"` // that was tested
}

func workState(r contract.Result, err error) (WorkState, error) {
	out := WorkState{
		Status: r.Outcome, ContractID: r.Contract.ID, ContractStatus: r.Contract.Status,
		Implementation: string(r.Contract.ID) + ":" + string(r.Repo), PendingRepos: names(r.Pending), Packet: r.Packet,
	}
	if x := r.Recorded; x != nil {
		out.Commit = x.Commit
		out.Kind = x.Kind
		out.Result = x.Result
		out.Against = x.Version
	}
	isReport := err == nil && r.Recorded == nil && out.Status != "started"
	if isReport {
		out.Kind = coord.ResultSaid
	}
	return out, err
}

// ContractParams are the parameters of methods that need a contract and no more.
type ContractParams struct{ InContract }

// A Progress is the answer to cacp/implementation/getStatus.
type Progress struct {
	Contract        coord.ContractID     `json:"contractId"`
	Status          coord.ContractStatus `json:"contractStatus"`
	Version         int                  `json:"contractVersion"`
	Implementations []RepoProgress       `json:"implementations"`
	PendingRepos    []string             `json:"pendingRepos"`
}

// A RepoProgress says how far one repository is with a contract.
type RepoProgress struct {
	Repo         coord.RepoID               `json:"repoId"`
	Agent        coord.AID                  `json:"agentId"`
	Status       coord.ImplementationStatus `json:"status"`
	Plan         string                     `json:"plan,omitempty"`
	Files        []string                   `json:"files"`
	Notes        string                     `json:"notes"`
	TestEndpoint string                     `json:"testEndpoint,omitempty"`
	StartedAt    coord.Instant              `json:"startedAt"`
	CompletedAt  coord.Instant              `json:"completedAt"`
	Version      int                        `json:"contractVersion,omitempty"`
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
