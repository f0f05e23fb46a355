package coordination

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/parley-agents/parley/compat"
	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/coord"
	"github.com/parley-agents/parley/internal/ground/strictjson"
	"github.com/parley-agents/parley/internal/service/contract"
)

// Proposed is the answer to cacp/contract/propose and cacp/contract/update.
type Proposed struct {
	Contract coord.ContractID     `json:"contractId"`
	Version  int                  `json:"version"`
	Status   coord.ContractStatus `json:"status"`
	Warnings []string             `json:"warnings,omitempty"` // about the shape of the content, and about policies

	Format   compat.Format  `json:"format,omitempty"`   // of the content
	Provider string         `json:"provider,omitempty"` // name of the repository that provides the interface
	Verdict  compat.Word    `json:"verdict,omitempty"`  // on an update, for its consumers
	Base     *contract.Base `json:"comparedWith,omitempty"`
	Affected []string       `json:"affected,omitempty"` // consumers for which the update is not compatible
	Reasons  []string       `json:"reasons,omitempty"`  // the first findings that are not compatible

	PendingRepos []string `json:"pendingRepos,omitempty"` // whose agreement is needed
}

func proposed(r contract.Result, err error) (Proposed, error) {
	out := Proposed{
		Contract: r.Contract.ID, Version: r.Contract.Version, Status: r.Contract.Status, Warnings: r.Warnings,
		Format: r.Format, Provider: r.Provider, Verdict: r.Verdict, Affected: names(r.Affected), Reasons: r.Reasons, PendingRepos: names(r.Pending),
	}
	if r.Base.Version > 0 {
		out.Base = &r.Base
	}
	return out, err
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

	Names func(coord.RepoID) string // names repositories when it is written; may be nil
	Shown ShownTerms                // of a contract that was read
}

// ShownTerms are the terms of a contract as they are shown, with names of repositories.
type ShownTerms struct {
	Format     string         `json:"format,omitempty"`
	Direction  string         `json:"direction,omitempty"`
	Provider   string         `json:"provider,omitempty"`
	Uses       []ShownUse     `json:"uses,omitempty"`
	InForce    *coord.InForce `json:"in_force,omitempty"`
	Deprecated []coord.Ending `json:"deprecated,omitempty"`
	Withdrawn  []coord.Ending `json:"withdrawn,omitempty"`
}

// A ShownUse is a use of a contract with the name of its consumer.
type ShownUse struct {
	Repository string        `json:"repository"`
	Parts      []string      `json:"parts"`
	Source     string        `json:"source,omitempty"`
	DeclaredAt coord.Instant `json:"declared_at"`
}

// State returns the state of c as people see it: withdrawn, or its status.
func (c Contract) State() string {
	isWithdrawn := slices.ContainsFunc(c.ShownTerms().Withdrawn, func(e coord.Ending) bool { return e.Part == "" })
	if isWithdrawn {
		return coord.StateWithdrawn
	}
	return string(c.Status)
}

// ShownTerms returns the terms of c as they are shown.
func (c Contract) ShownTerms() ShownTerms {
	if c.Terms.IsZero() {
		return c.Shown
	}
	name := func(id coord.RepoID) string {
		if c.Names != nil {
			if n := c.Names(id); n != "" {
				return n
			}
		}
		return string(id)
	}
	t := c.Terms
	out := ShownTerms{Format: t.Format, Direction: t.Direction, Provider: name(t.Provider), InForce: t.InForce}
	for _, u := range t.Consumers() {
		out.Uses = append(out.Uses, ShownUse{name(u.Repo), append([]string{}, u.Parts...), u.Source, u.Declared})
	}
	for _, e := range t.Ends {
		if e.Withdrawn {
			out.Withdrawn = append(out.Withdrawn, e)
		} else {
			out.Deprecated = append(out.Deprecated, e)
		}
	}
	return out
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
		State           string                  `json:"state,omitempty"` // withdrawn, where the status of the protocol does not say it
		ShownTerms
	}{plain(c.Contract), c.Implementations, c.History, c.ID, c.Project, c.ProposedBy, "", c.ShownTerms()}
	if state := c.Contract.State(); state != string(c.Status) {
		shown.State = state
	}
	shown.Stamps = coord.Stamps{} // conflicts are listed by cacp/contract/conflicts
	shown.Terms = coord.Terms{}   // shown with names
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
	if err == nil {
		err = json.Unmarshal(b, &c.Shown)
	}
	c.History, c.Project = c.Contract.History, extra.ProjectID
	return err
}

func getContract(ctx context.Context, s *Services, c hub.Caller, p GetParams) (Contract, error) {
	got, err := s.Contracts.Contract(ctx, c, p.Project, p.Contract, p.History)
	out := Contract{Contract: got, History: got.History, Names: s.repoNames(ctx, c, p.Project)}
	if p.History && out.History == nil {
		out.History = []coord.ContractVersion{}
	}
	if !p.History {
		out.History = nil
	}
	return out, err
}

// repoNames returns a function that names the repositories of a project.
func (s *Services) repoNames(ctx context.Context, c hub.Caller, id coord.ProjectID) func(coord.RepoID) string {
	p, err := s.Contracts.Project(ctx, c, id)
	if err != nil {
		return nil
	}
	return func(id coord.RepoID) string {
		r, _ := p.Repo(id)
		return r.Name
	}
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
	names := s.repoNames(ctx, c, p.Project)
	for i, c := range found {
		out.Contracts[i] = Contract{Contract: c, Names: names}
	}
	if len(found) == int(p.Limit) && err == nil {
		out.Next = found[len(found)-1].ID
	}
	return out, err
}

// DiffParams are the parameters of cacp/contract/diff.
type DiffParams = contract.DiffQuery

// Declared is the answer to parley/contract/use.
type Declared struct {
	Use contract.Used `json:"use"`
}

func declared(u contract.Used, err error) (Declared, error) { return Declared{u}, err }

// A PolicyAnswer is the answer to parley/contract/policy.
type PolicyAnswer struct {
	Policy contract.Policy `json:"policy"`
}

func policyAnswer(p contract.Policy, err error) (PolicyAnswer, error) { return PolicyAnswer{p}, err }

// An EndedContract is the answer to parley/contract/deprecate and parley/contract/withdraw: the
// contract, and the consumers that still use the part.
type EndedContract struct {
	Contract
	Users []string
}

// MarshalJSON writes the members of the contract and still_used_by.
func (e EndedContract) MarshalJSON() ([]byte, error) {
	b, err := e.Contract.MarshalJSON()
	if err != nil {
		return nil, err
	}
	users, err := json.Marshal(append([]string{}, e.Users...))
	return slices.Concat(b[:len(b)-1], []byte(`,"still_used_by":`), users, []byte("}")), err
}

// UnmarshalJSON reads the output of MarshalJSON.
func (e *EndedContract) UnmarshalJSON(b []byte) error {
	var extra struct {
		Users []string `json:"still_used_by"`
	}
	err := e.Contract.UnmarshalJSON(b)
	if err == nil {
		err = json.Unmarshal(b, &extra)
	}
	e.Users = extra.Users
	return err
}

// ends performs Deprecate or Withdraw.
func ends(do func(*contract.Service, context.Context, hub.Caller, contract.Announcement) (contract.Ended, error)) func(context.Context, *Services, hub.Caller, contract.Announcement) (EndedContract, error) {
	return func(ctx context.Context, s *Services, c hub.Caller, p contract.Announcement) (EndedContract, error) {
		got, err := do(s.Contracts, ctx, c, p)
		return EndedContract{Contract{Contract: got.Contract, Names: s.repoNames(ctx, c, p.Project)}, got.Users}, err
	}
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
