package coordination

import (
	"context"
	"encoding/json"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/coord"
	"github.com/parley-agents/parley/internal/service/contract"
	"github.com/parley-agents/parley/internal/strictjson"
)

// Proposed is the answer to cacp/contract/propose and cacp/contract/update.
type Proposed struct {
	Contract coord.ContractID     `json:"contractId"`
	Version  int                  `json:"version"`
	Status   coord.ContractStatus `json:"status"`
	Warnings []string             `json:"warnings,omitempty"` // about the shape of the content
}

func proposed(r contract.Result, err error) (Proposed, error) {
	return Proposed{r.Contract.ID, r.Contract.Version, r.Contract.Status, r.Warnings}, err
}

// Responded is the answer to cacp/contract/respond.
type Responded struct {
	Status          string               `json:"status"` // of the contract, or rejected
	Version         int                  `json:"version"`
	ContractID      coord.ContractID     `json:"contractId"`
	ContractVersion int                  `json:"contractVersion"`
	ContractStatus  coord.ContractStatus `json:"contractStatus"`
	Outcome         string               `json:"outcome"`                // agreed, change_requested or rejected
	PendingRepos    []string             `json:"pendingRepos,omitempty"` // whose agreement is still needed
	Packet          coord.PacketID       `json:"packetId,omitempty"`     // that holds the comment
}

func responded(r contract.Result, err error) (Responded, error) {
	status := string(r.Contract.Status)
	if r.Outcome == contract.OutcomeRejected {
		status = r.Outcome
	}
	return Responded{
		status, r.Contract.Version, r.Contract.ID, r.Contract.Version, r.Contract.Status, r.Outcome, names(r.Pending), r.Packet,
	}, err
}

func names(repos []coord.Repo) []string {
	out := make([]string, len(repos))
	for i, r := range repos {
		out[i] = r.Name
	}
	return out
}

// GetParams are the parameters of cacp/contract/get.
type GetParams struct {
	InContract
	History bool `json:"includeHistory,omitempty"`
}

// A Contract is a contract as it is shown: with the protocol's members, and
// those of its lists.
type Contract struct {
	coord.Contract
	History []coord.ContractVersion // shown if it is not nil
}

// MarshalJSON writes every member of the protocol but a history that is nil,
// and the ids once more under the names that lists have.
func (c Contract) MarshalJSON() ([]byte, error) {
	type plain coord.Contract
	shown := struct {
		plain
		Implementations []coord.Implementation  `json:"implementations"`
		History         []coord.ContractVersion `json:"history,omitzero"`
		ContractID      coord.ContractID        `json:"contractId"`
		ProjectID       coord.ProjectID         `json:"projectId"`
		By              coord.RepoID            `json:"proposedBy"`
	}{plain(c.Contract), c.Implementations, c.History, c.ID, c.Project, c.ProposedBy}
	shown.Stamps = coord.Stamps{} // conflicts are listed by cacp/contract/conflicts
	if shown.Implementations == nil {
		shown.Implementations = []coord.Implementation{}
	}
	return strictjson.Encode(shown)
}

// UnmarshalJSON reads the output of MarshalJSON.
func (c *Contract) UnmarshalJSON(b []byte) error {
	var extra struct {
		ProjectID coord.ProjectID `json:"projectId"`
	}
	err := json.Unmarshal(b, &c.Contract)
	if err == nil {
		err = json.Unmarshal(b, &extra)
	}
	c.History, c.Project = c.Contract.History, extra.ProjectID
	return err
}

func getContract(ctx context.Context, s *Services, c hub.Caller, p GetParams) (Contract, error) {
	got, err := s.Contracts.Contract(ctx, c, p.Project, p.Contract, p.History)
	out := Contract{Contract: got, History: got.History}
	if p.History && out.History == nil {
		out.History = []coord.ContractVersion{}
	}
	if !p.History {
		out.History = nil
	}
	return out, err
}

// ListContractsParams are the parameters of cacp/contract/list.
type ListContractsParams struct {
	InProject
	Status coord.ContractStatus `json:"status,omitempty"`
	Type   coord.ContractType   `json:"type,omitempty"`
	After  coord.ContractID     `json:"after,omitempty"`
	Limit  strictjson.Count     `json:"limit,omitzero"` // default and most 200
}

// Contracts is the answer to cacp/contract/list.
type Contracts struct {
	Contracts []Contract       `json:"contracts"`
	Next      coord.ContractID `json:"next,omitempty"` // to ask for as after
}

// contractPage is how many contracts a list has at most.
const contractPage = 200

func listContracts(ctx context.Context, s *Services, c hub.Caller, p ListContractsParams) (Contracts, error) {
	if p.Limit == 0 {
		p.Limit = contractPage
	}
	found, err := s.Contracts.Contracts(ctx, c, coord.ContractQuery{Project: p.Project, Status: p.Status, Type: p.Type, After: p.After, Limit: int(p.Limit)})
	out := Contracts{Contracts: make([]Contract, len(found))}
	for i, c := range found {
		out.Contracts[i].Contract = c
	}
	if len(found) == int(p.Limit) && err == nil {
		out.Next = found[len(found)-1].ID
	}
	return out, err
}

// DiffParams are the parameters of cacp/contract/diff.
type DiffParams struct {
	InContract
	From int `json:"from,omitempty"` // default the version before To
	To   int `json:"to,omitempty"`   // default the newest
}

func diff(ctx context.Context, s *Services, c hub.Caller, p DiffParams) (contract.Diff, error) {
	return s.Contracts.Diff(ctx, c, p.Project, p.Contract, p.From, p.To)
}

// ConflictsParams are the parameters of cacp/contract/conflicts.
type ConflictsParams struct {
	InProject
	After coord.ContractID `json:"after,omitempty"`
	Limit strictjson.Count `json:"limit,omitzero"`
}

func conflicts(ctx context.Context, s *Services, c hub.Caller, p ConflictsParams) (contract.Conflicts, error) {
	return s.Contracts.Conflicts(ctx, c, p.Project, p.After, int(p.Limit))
}
