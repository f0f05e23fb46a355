package coordination

import (
	"context"
	"encoding/json"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/service/contract"
	"github.com/parley-agents/parley/internal/strictjson"
)

// Proposal are the parameters of cacp/contract/propose.
type Proposal struct {
	InProject
	Type    hub.ContractType `json:"type"`
	Name    string           `json:"name"`
	Content json.RawMessage  `json:"content"`
}

// Proposed is the answer to cacp/contract/propose and cacp/contract/update.
type Proposed struct {
	Contract hub.ContractID     `json:"contractId"`
	Version  int                `json:"version"`
	Status   hub.ContractStatus `json:"status"`
	Warnings []string           `json:"warnings,omitempty"` // about the shape of the content
}

func proposed(r contract.Result, err error) (Proposed, error) {
	return Proposed{r.Contract.ID, r.Contract.Version, r.Contract.Status, r.Warnings}, err
}

func propose(ctx context.Context, s *Services, c hub.Caller, p Proposal) (Proposed, error) {
	if err := required("cacp/contract/propose", "type", string(p.Type), "name", p.Name, "content", string(p.Content)); err != nil {
		return Proposed{}, err
	}
	return proposed(s.Contracts.Propose(ctx, c, contract.Proposal{Project: p.Project, Type: p.Type, Name: p.Name, Content: p.Content}))
}

// Response are the parameters of cacp/contract/respond.
type Response struct {
	InContract
	Action  string          `json:"action"`
	Comment string          `json:"comment,omitempty"`
	Change  json.RawMessage `json:"suggestedChange,omitempty"`
	Version int             `json:"version,omitempty"` // that it is about; 0 for the one that is there
}

// Responded is the answer to cacp/contract/respond.
type Responded struct {
	Status          string             `json:"status"` // of the contract, or rejected
	Version         int                `json:"version"`
	ContractID      hub.ContractID     `json:"contractId"`
	ContractVersion int                `json:"contractVersion"`
	ContractStatus  hub.ContractStatus `json:"contractStatus"`
	Outcome         string             `json:"outcome"`                // agreed, change_requested or rejected
	PendingRepos    []string           `json:"pendingRepos,omitempty"` // whose agreement is still needed
	Packet          hub.PacketID       `json:"packetId,omitempty"`     // that holds the comment
}

func respond(ctx context.Context, s *Services, c hub.Caller, p Response) (Responded, error) {
	if err := required("cacp/contract/respond", "contractId", string(p.Contract), "action", p.Action); err != nil {
		return Responded{}, err
	}
	r, err := s.Contracts.Respond(ctx, c, contract.Response{
		Project: p.Project, Contract: p.Contract, Action: p.Action, Comment: p.Comment, Change: some(p.Change), Version: p.Version,
	})
	status := string(r.Contract.Status)
	if p.Action == contract.ActionReject {
		status = r.Outcome
	}
	return Responded{
		status, r.Contract.Version, r.Contract.ID, r.Contract.Version, r.Contract.Status, r.Outcome, names(r.Pending), r.Packet,
	}, err
}

// some returns a value unless it is null.
func some(raw json.RawMessage) json.RawMessage {
	if string(raw) == "null" {
		return nil
	}
	return raw
}

func names(repos []hub.Repo) []string {
	out := make([]string, len(repos))
	for i, r := range repos {
		out[i] = r.Name
	}
	return out
}

// Revision are the parameters of cacp/contract/update. The note has two names.
type Revision struct {
	InContract
	Content json.RawMessage `json:"content"`
	Note    string          `json:"changeNote,omitempty"`
	Notes   string          `json:"changeNotes,omitempty"`
	Version int             `json:"version,omitempty"` // that it replaces; 0 for the one that is there
}

func update(ctx context.Context, s *Services, c hub.Caller, p Revision) (Proposed, error) {
	if err := required("cacp/contract/update", "contractId", string(p.Contract), "content", string(p.Content)); err != nil {
		return Proposed{}, err
	}
	if p.Note == "" {
		p.Note = p.Notes
	}
	return proposed(s.Contracts.Update(ctx, c, contract.Revision{
		Project: p.Project, Contract: p.Contract, Content: p.Content, Note: p.Note, Version: p.Version,
	}))
}

// GetParams are the parameters of cacp/contract/get.
type GetParams struct {
	InContract
	History bool `json:"includeHistory,omitempty"`
}

// A Contract is a contract as it is shown: with the protocol's members, and
// those of its lists.
type Contract struct {
	hub.Contract
	History []hub.ContractVersion // shown if it is not nil
}

// MarshalJSON writes every member of the protocol but a history that is nil,
// and the ids once more under the names that lists have.
func (c Contract) MarshalJSON() ([]byte, error) {
	type plain hub.Contract
	shown := struct {
		plain
		Implementations []hub.Implementation  `json:"implementations"`
		History         []hub.ContractVersion `json:"history,omitzero"`
		ContractID      hub.ContractID        `json:"contractId"`
		ProjectID       hub.ProjectID         `json:"projectId"`
		By              hub.RepoID            `json:"proposedBy"`
	}{plain(c.Contract), c.Implementations, c.History, c.ID, c.Project, c.ProposedBy}
	if shown.Implementations == nil {
		shown.Implementations = []hub.Implementation{}
	}
	return strictjson.Encode(shown)
}

// UnmarshalJSON reads the output of MarshalJSON.
func (c *Contract) UnmarshalJSON(b []byte) error {
	var extra struct {
		ProjectID hub.ProjectID `json:"projectId"`
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
		out.History = []hub.ContractVersion{}
	}
	if !p.History {
		out.History = nil
	}
	return out, err
}

// ListContractsParams are the parameters of cacp/contract/list.
type ListContractsParams struct {
	InProject
	Status hub.ContractStatus `json:"status,omitempty"`
	Type   hub.ContractType   `json:"type,omitempty"`
	After  hub.ContractID     `json:"after,omitempty"`
	Limit  int                `json:"limit,omitempty"` // default and most 200
}

// Contracts is the answer to cacp/contract/list.
type Contracts struct {
	Contracts []Contract     `json:"contracts"`
	Next      hub.ContractID `json:"next,omitempty"` // to ask for as after
}

// contractPage is how many contracts a list has at most.
const contractPage = 200

func listContracts(ctx context.Context, s *Services, c hub.Caller, p ListContractsParams) (Contracts, error) {
	if p.Limit == 0 {
		p.Limit = contractPage
	}
	found, err := s.Contracts.Contracts(ctx, c, hub.ContractQuery{Project: p.Project, Status: p.Status, Type: p.Type, After: p.After, Limit: p.Limit})
	out := Contracts{Contracts: make([]Contract, len(found))}
	for i, c := range found {
		out.Contracts[i].Contract = c
	}
	if len(found) == p.Limit && err == nil {
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

// CheckParams are the parameters of cacp/contract/check.
type CheckParams struct {
	InProject
	Repo    string             `json:"repoName,omitempty"`
	Require hub.ContractStatus `json:"require,omitempty"` // agreed, implemented or verified; default agreed
}

func check(ctx context.Context, s *Services, c hub.Caller, p CheckParams) (contract.Verdict, error) {
	return s.Contracts.Check(ctx, c, contract.Gate{Project: p.Project, Repo: p.Repo, Require: p.Require})
}

// ConflictsParams are the parameters of cacp/contract/conflicts.
type ConflictsParams struct {
	InProject
	After hub.ContractID `json:"after,omitempty"`
	Limit int            `json:"limit,omitempty"`
}

// Conflicts is the answer to cacp/contract/conflicts.
type Conflicts struct {
	Conflicts []contract.Conflict `json:"conflicts"`
}

func conflicts(ctx context.Context, s *Services, c hub.Caller, p ConflictsParams) (Conflicts, error) {
	found, err := s.Contracts.Conflicts(ctx, c, p.Project, p.After, p.Limit)
	return Conflicts{found}, err
}
