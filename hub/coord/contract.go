package coord

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/parley-agents/parley/internal/ground/strictjson"
)

// A ContractID names a contract within its project.
type ContractID string

// Valid reports whether id has the form that ProjectID.Valid wants.
func (id ContractID) Valid() bool { return safeID(string(id)) }

// A ContractType is the kind of interface that a contract describes.
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

// A ContractStatus is a stage in the life of a contract.
type ContractStatus string

// The statuses. Peers refuse any other.
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

// Reaches reports whether s is want or a later status.
func (s ContractStatus) Reaches(want ContractStatus) bool {
	return slices.Index(ContractStatuses, s) >= slices.Index(ContractStatuses, want)
}

// A ContractMove is an event that may change the status of a contract.
type ContractMove string

// The moves.
const (
	MoveAgree         ContractMove = "agree"
	MoveRequestChange ContractMove = "request_change"
	MoveReject        ContractMove = "reject"
	MoveUpdate        ContractMove = "update"
	MoveReplace       ContractMove = "replace" // an update of a contract with a provider, whose version in force stays
	MoveStart         ContractMove = "start"
	MoveComplete      ContractMove = "complete"
	MoveAllComplete   ContractMove = "all_complete" // the last implementation was completed
	MoveVerified      ContractMove = "verify_success"
	MoveFailed        ContractMove = "verify_failure"
	MovePartial       ContractMove = "verify_partial"
)

// contractMoves is the whole state machine: the next status for each move and
// status. A move without an entry is refused.
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
	MoveReplace: {
		ContractProposed:    ContractProposed,
		ContractNegotiating: ContractProposed,
		ContractAgreed:      ContractProposed,
		ContractImplemented: ContractProposed,
		ContractVerified:    ContractProposed,
	},
	MoveStart: {
		ContractAgreed:      ContractAgreed,
		ContractImplemented: ContractAgreed, // a repository works on it again
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

// After returns the status after a move, and whether the move is allowed in s.
func (s ContractStatus) After(move ContractMove) (ContractStatus, bool) {
	next, ok := contractMoves[move][s]
	return next, ok
}

// An ImplementationStatus is a stage of one repository's work on a contract.
type ImplementationStatus string

// The statuses.
const (
	ImplPending       ImplementationStatus = "pending"
	ImplInProgress    ImplementationStatus = "in_progress"
	ImplComplete      ImplementationStatus = "complete"
	ImplNeedsRevision ImplementationStatus = "needs_revision"
)

// ImplementationStatuses lists every status. Of two reports with the same time
// the one whose status is later in the list wins.
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

	// Version is the version of the contract that it implements; 0 from peers
	// that do not send it.
	Version int `json:"contract_version,omitempty"`
}

// At returns the later of StartedAt and CompletedAt.
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

// A ContractVersion is an earlier content of a contract, or one that lost against
// another content of the same version.
type ContractVersion struct {
	Version     int             `json:"version"`
	Content     json.RawMessage `json:"content"`
	ProposedBy  RepoID          `json:"proposed_by"`
	At          Instant         `json:"timestamp"`              // time of the last change while the contract had this content
	ChangeNotes string          `json:"change_notes,omitempty"` // about the version that replaced it

	// Superseded marks a content among Conflicts that a later version has
	// replaced on the hub that had it.
	Superseded bool `json:"superseded,omitempty"`
}

// An Agreement is the consent of one repository to one version.
type Agreement struct {
	Repo    RepoID  `json:"repo_id"`
	Agent   AID     `json:"agent_id"`
	Version int     `json:"version"`
	Content string  `json:"content_sha256"` // hash of the agreed content; see ContentHash
	At      Instant `json:"at"`
}

// A Contract is an interface that repositories agree on. Its members on the
// wire are those of the protocol; conflicts, agreements and stamps are written
// only when there are any, and so are terms; other implementations drop them.
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
	ReopenedAt Instant           `json:"reopened_at,omitzero"` // agreements up to this time do not count

	// Stamps holds the moves: writes of the status, each with its version.
	Stamps Stamps `json:"stamps,omitzero"`

	Terms Terms `json:"terms,omitzero"`
}

// StateWithdrawn is the state of a contract that was withdrawn, in place of its status. Other
// implementations know no such status, so copies keep the status.
const StateWithdrawn = "withdrawn"

// State returns the state of c as people see it: withdrawn, or its status.
func (c Contract) State() string {
	if c.Terms.Withdrawn() {
		return StateWithdrawn
	}
	return string(c.Status)
}

// MarshalJSON writes lists that are empty as [].
func (c Contract) MarshalJSON() ([]byte, error) {
	type plain Contract
	c.Implementations, c.History = listed(c.Implementations), listed(c.History)
	return strictjson.Encode(plain(c))
}

// Implementation returns the implementation of one repository.
func (c Contract) Implementation(repo RepoID) (Implementation, bool) {
	i := slices.IndexFunc(c.Implementations, func(i Implementation) bool { return i.Repo == repo })
	if i < 0 {
		return Implementation{}, false
	}
	return c.Implementations[i], true
}

// Tally returns the share of c in the tally of its project, without History and
// Conflicts.
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
// is still missing: those that were asked about it, or else, if the policy of p
// is that all must agree, all parties.
func (c Contract) Dissenting(p Project) []Repo {
	needed, asked := c.NeededConsumers()
	parties := c.Parties(p)
	switch {
	case asked:
		parties = slices.DeleteFunc(slices.Clone(p.Repos), func(r Repo) bool { return !slices.Contains(needed, r.ID) })
	case p.Policy != AgreeAll:
		return nil
	}
	hash := ContentHash(c.Content)
	return slices.DeleteFunc(slices.Clone(parties), func(r Repo) bool {
		return r.ID == c.ProposedBy || slices.ContainsFunc(c.Agreements, func(a Agreement) bool {
			return a.Repo == r.ID && a.Version == c.Version && a.Content == hash && a.At.Compare(c.ReopenedAt) > 0
		})
	})
}
