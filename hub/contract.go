package hub

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/parley-agents/parley/internal/strictjson"
)

// A ContractID names a contract within its project.
type ContractID string

// Valid reports whether id has the form that ProjectID.Valid wants.
func (id ContractID) Valid() bool { return safeID(string(id)) }

// A ContractType says what a contract is about.
type ContractType string

// The types.
const (
	ContractAPI    ContractType = "api_endpoint"
	ContractEvent  ContractType = "event_schema"
	ContractModel  ContractType = "data_model"
	ContractConfig ContractType = "config_spec"
	ContractRPC    ContractType = "rpc_interface"
	ContractCustom ContractType = "custom"
)

// ContractTypes lists every type.
var ContractTypes = []ContractType{ContractAPI, ContractEvent, ContractModel, ContractConfig, ContractRPC, ContractCustom}

// Known reports whether t is one of ContractTypes.
func (t ContractType) Known() bool { return slices.Contains(ContractTypes, t) }

// A ContractStatus says how far a contract has come.
type ContractStatus string

// The statuses. There are no others: peers refuse what they do not know.
const (
	ContractProposed    ContractStatus = "proposed"
	ContractNegotiating ContractStatus = "negotiating"
	ContractAgreed      ContractStatus = "agreed"
	ContractImplemented ContractStatus = "implemented" // by every repository it concerns
	ContractVerified    ContractStatus = "verified"
)

// ContractStatuses lists every status in the order of a contract's life.
var ContractStatuses = []ContractStatus{ContractProposed, ContractNegotiating, ContractAgreed, ContractImplemented, ContractVerified}

// Known reports whether s is one of ContractStatuses.
func (s ContractStatus) Known() bool { return slices.Contains(ContractStatuses, s) }

// Reaches reports whether s is want or further.
func (s ContractStatus) Reaches(want ContractStatus) bool {
	return slices.Index(ContractStatuses, s) >= slices.Index(ContractStatuses, want)
}

// A ContractMove is something that happens to a contract.
type ContractMove string

// The moves.
const (
	MoveAgree         ContractMove = "agree"
	MoveRequestChange ContractMove = "request_change"
	MoveReject        ContractMove = "reject"
	MoveUpdate        ContractMove = "update"
	MoveStart         ContractMove = "start"
	MoveComplete      ContractMove = "complete"
	MoveAllComplete   ContractMove = "all_complete" // the last implementation was completed
	MoveVerified      ContractMove = "verify_success"
	MoveFailed        ContractMove = "verify_failure"
	MovePartial       ContractMove = "verify_partial"
)

// contractMoves is the whole state machine: what each move makes of each
// status. Where there is no entry, the move cannot be made.
var contractMoves = map[ContractMove]map[ContractStatus]ContractStatus{
	MoveAgree: {
		ContractProposed:    ContractAgreed,
		ContractNegotiating: ContractAgreed,
	},
	MoveRequestChange: {
		ContractProposed:    ContractNegotiating,
		ContractNegotiating: ContractNegotiating,
		ContractAgreed:      ContractNegotiating, // opened again
	},
	MoveReject: {
		ContractProposed:    ContractProposed,
		ContractNegotiating: ContractProposed,
		ContractAgreed:      ContractProposed,
	},
	MoveUpdate: {
		ContractProposed:    ContractProposed,
		ContractNegotiating: ContractProposed,
		ContractAgreed:      ContractProposed,
	},
	MoveStart: {
		ContractAgreed:      ContractAgreed,
		ContractImplemented: ContractAgreed, // somebody works on it again
	},
	MoveComplete: {
		ContractAgreed:      ContractAgreed,
		ContractImplemented: ContractImplemented,
	},
	MoveAllComplete: {ContractAgreed: ContractImplemented},
	MoveVerified:    {ContractImplemented: ContractVerified},
	MoveFailed:      {ContractImplemented: ContractAgreed},
	MovePartial:     {ContractImplemented: ContractImplemented},
}

// After returns what move makes of s, and whether it can be made at all.
func (s ContractStatus) After(move ContractMove) (ContractStatus, bool) {
	next, ok := contractMoves[move][s]
	return next, ok
}

// An ImplementationStatus says how far one repository has come with a contract.
type ImplementationStatus string

// The statuses.
const (
	ImplPending       ImplementationStatus = "pending"
	ImplInProgress    ImplementationStatus = "in_progress"
	ImplComplete      ImplementationStatus = "complete"
	ImplNeedsRevision ImplementationStatus = "needs_revision"
)

// ImplementationStatuses lists every status. Of two reports that are equally
// new the one whose status is later in the list stands.
var ImplementationStatuses = []ImplementationStatus{ImplPending, ImplInProgress, ImplComplete, ImplNeedsRevision}

// Known reports whether s is one of ImplementationStatuses.
func (s ImplementationStatus) Known() bool { return slices.Contains(ImplementationStatuses, s) }

// An Implementation is one repository's work on a contract.
type Implementation struct {
	Repo         RepoID               `json:"repo_id"`
	Agent        AID                  `json:"agent_id"`
	Status       ImplementationStatus `json:"status"`
	Plan         string               `json:"plan,omitempty"`
	Files        []string             `json:"files"`
	Notes        string               `json:"notes"`
	TestEndpoint string               `json:"test_endpoint,omitempty"`
	StartedAt    Instant              `json:"started_at,omitzero"`
	CompletedAt  Instant              `json:"completed_at,omitzero"`

	// Version is the version of the contract that it implements. Other
	// implementations do not tell.
	Version int `json:"contract_version,omitempty"`
}

// At returns when the newest thing happened to i that has a time.
func (i Implementation) At() Instant {
	if i.CompletedAt.Compare(i.StartedAt) > 0 {
		return i.CompletedAt
	}
	return i.StartedAt
}

// MarshalJSON writes lists that are empty as [].
func (i Implementation) MarshalJSON() ([]byte, error) {
	type plain Implementation
	i.Files = listed(i.Files)
	return strictjson.Encode(plain(i))
}

// A ContractVersion is a content that a contract had, or might have had.
type ContractVersion struct {
	Version     int             `json:"version"`
	Content     json.RawMessage `json:"content"`
	ProposedBy  RepoID          `json:"proposed_by"`
	At          Instant         `json:"timestamp"`              // when the contract was last touched while it had this content
	ChangeNotes string          `json:"change_notes,omitempty"` // on what replaced it

	// Superseded marks a content among Conflicts that a later version has
	// replaced on the hub that had it.
	Superseded bool `json:"superseded,omitempty"`
}

// An Agreement is one repository's word on one version.
type Agreement struct {
	Repo    RepoID  `json:"repo_id"`
	Agent   AID     `json:"agent_id"`
	Version int     `json:"version"`
	Content string  `json:"content_sha256"` // of what was agreed to; see ContentHash
	At      Instant `json:"at"`
}

// A Contract is an interface that repositories agree on. Its members on the
// wire are those of the protocol; conflicts and agreements are written only
// when there are any, and other implementations drop them.
type Contract struct {
	Project         ProjectID         `json:"-"`
	ID              ContractID        `json:"contract_id"`
	Type            ContractType      `json:"type"`
	Name            string            `json:"name"`
	Version         int               `json:"version"` // 1, 2, 3
	Status          ContractStatus    `json:"status"`
	Content         json.RawMessage   `json:"content"`     // an object, as received
	ProposedBy      RepoID            `json:"proposed_by"` // of this version
	Implementations []Implementation  `json:"implementations"`
	History         []ContractVersion `json:"history"` // earlier versions, oldest first
	CreatedAt       Instant           `json:"created_at"`
	UpdatedAt       Instant           `json:"updated_at"`

	// Conflicts holds contents that lost against another one of the same
	// version, newest version first.
	Conflicts  []ContractVersion `json:"conflicts,omitempty"`
	Agreements []Agreement       `json:"agreements,omitempty"`
	ReopenedAt Instant           `json:"reopened_at,omitzero"` // agreements up to then do not count
}

// MarshalJSON writes lists that are empty as [].
func (c Contract) MarshalJSON() ([]byte, error) {
	type plain Contract
	c.Implementations, c.History = listed(c.Implementations), listed(c.History)
	return strictjson.Encode(plain(c))
}

// Naive returns c with times for peers that know no zones.
func (c Contract) Naive() Contract {
	c.CreatedAt, c.UpdatedAt, c.ReopenedAt = c.CreatedAt.Naive(), c.UpdatedAt.Naive(), c.ReopenedAt.Naive()
	c.Implementations = slices.Clone(c.Implementations)
	for i, impl := range c.Implementations {
		c.Implementations[i].StartedAt, c.Implementations[i].CompletedAt = impl.StartedAt.Naive(), impl.CompletedAt.Naive()
	}
	for _, versions := range []*[]ContractVersion{&c.History, &c.Conflicts} {
		*versions = slices.Clone(*versions)
		for i := range *versions {
			(*versions)[i].At = (*versions)[i].At.Naive()
		}
	}
	c.Agreements = slices.Clone(c.Agreements)
	for i := range c.Agreements {
		c.Agreements[i].At = c.Agreements[i].At.Naive()
	}
	return c
}

// Implementation returns the work of one repository.
func (c Contract) Implementation(repo RepoID) (Implementation, bool) {
	i := slices.IndexFunc(c.Implementations, func(i Implementation) bool { return i.Repo == repo })
	if i < 0 {
		return Implementation{}, false
	}
	return c.Implementations[i], true
}

// Tally returns what c counts for in its project, without History and Conflicts.
func (c Contract) Tally() Tally {
	t := Tally{Contracts: 1, Bytes: int64(len(c.Content))}
	if len(c.Implementations) > 0 {
		t.Started = 1
	}
	if c.Status.Reaches(ContractImplemented) {
		t.Implemented = 1
	}
	if c.Status == ContractVerified {
		t.Verified = 1
	}
	return t
}

// Parties returns the repositories of p that the contract concerns: those that
// its content names in a member parties, or all.
func (c Contract) Parties(p Project) []Repo {
	var content struct {
		Parties []string `json:"parties"`
	}
	if !bytes.Contains(c.Content, []byte(`"parties"`)) || json.Unmarshal(c.Content, &content) != nil || len(content.Parties) == 0 {
		return p.Repos
	}
	named := slices.DeleteFunc(slices.Clone(p.Repos), func(r Repo) bool {
		return !slices.Contains(content.Parties, r.Name) && !slices.Contains(content.Parties, string(r.ID))
	})
	if len(named) == 0 {
		return p.Repos
	}
	return named
}

// Pending returns the repositories that the contract concerns and that have
// not completed its current version.
func (c Contract) Pending(p Project) []Repo {
	return slices.DeleteFunc(slices.Clone(c.Parties(p)), func(r Repo) bool {
		impl, ok := c.Implementation(r.ID)
		return ok && impl.Status == ImplComplete && impl.Version == c.Version
	})
}

// Dissenting returns the repositories whose agreement to the current version
// the policy of p still waits for.
func (c Contract) Dissenting(p Project) []Repo {
	if p.Policy != AgreeAll {
		return nil
	}
	hash := ContentHash(c.Content)
	return slices.DeleteFunc(slices.Clone(c.Parties(p)), func(r Repo) bool {
		return r.ID == c.ProposedBy || slices.ContainsFunc(c.Agreements, func(a Agreement) bool {
			return a.Repo == r.ID && a.Version == c.Version && a.Content == hash && a.At.Compare(c.ReopenedAt) > 0
		})
	})
}
