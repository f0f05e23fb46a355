package coord

import (
	"slices"

	"github.com/parley-agents/parley/internal/ground/strictjson"
)

// safeID reports whether s can stand for a thing in coordination, also in the
// name of a file: [A-Za-z0-9._-]{1,128}, but neither "." nor "..".
func safeID(s string) bool {
	isFolder := s == "." || s == ".."
	if len(s) == 0 || len(s) > 128 || isFolder {
		return false
	}
	for i := range len(s) {
		switch c := s[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '.', c == '_', c == '-':
		default:
			return false
		}
	}
	return true
}

// A ProjectID names a project on every hub that keeps it. This hub makes
// UUIDs; others may make any id that is Valid.
type ProjectID string

// Valid reports whether id is [A-Za-z0-9._-]{1,128} and not "." or "..".
func (id ProjectID) Valid() bool { return safeID(string(id)) }

// A RepoID names a repository within its project.
type RepoID string

// Valid reports whether id has the form that ProjectID.Valid wants.
func (id RepoID) Valid() bool { return safeID(string(id)) }

// A ProjectStatus is a stage in the life of a project.
type ProjectStatus string

// The statuses.
const (
	ProjectPlanning     ProjectStatus = "planning"
	ProjectImplementing ProjectStatus = "implementing" // the first repository has started
	ProjectIntegrating  ProjectStatus = "integrating"  // every contract is implemented
	ProjectComplete     ProjectStatus = "complete"     // every contract is verified
)

// ProjectStatuses lists every status in the order of a project's life.
var ProjectStatuses = []ProjectStatus{ProjectPlanning, ProjectImplementing, ProjectIntegrating, ProjectComplete}

// Known reports whether s is one of ProjectStatuses.
func (s ProjectStatus) Known() bool { return slices.Contains(ProjectStatuses, s) }

// An AgreementPolicy says which repositories must agree to a contract.
type AgreementPolicy string

// The policies.
const (
	AgreeAny          AgreementPolicy = "any"          // one repository, also the proposer; only if it was chosen
	AgreeCounterparty AgreementPolicy = "counterparty" // one repository other than the proposer of this version; the default
	AgreeAll          AgreementPolicy = "all"          // every repository but the proposer of this version
)

// AgreementPolicies lists every policy.
var AgreementPolicies = []AgreementPolicy{AgreeAny, AgreeCounterparty, AgreeAll}

// Known reports whether p is one of AgreementPolicies.
func (p AgreementPolicy) Known() bool { return slices.Contains(AgreementPolicies, p) }

// RepoRoles lists the roles that this hub gives to repositories.
var RepoRoles = []string{"backend", "frontend", "mobile", "shared", "infra"}

// A Repo is one repository's part in a project.
type Repo struct {
	ID       RepoID
	Name     string
	Role     string   // one of RepoRoles; any text if another program added the repository
	Language string   // python, go, ...
	Paths    []string // folders in the repository that belong to the project
	URL      string
	Agent    AID    // the agent that claimed it; "" if none has
	Endpoint string // address of that agent

	// Other implementations send none of these. Of two claims in one term the earlier
	// one wins. An agent that gives the repository back begins the next term.
	ClaimedAt Instant
	UpdatedAt Instant
	Term      int
}

// wireRepo is a Repo as it is sent: its agent has two names on the wire.
type wireRepo struct {
	ID        RepoID   `json:"repo_id"`
	Name      string   `json:"name"`
	Role      string   `json:"role"`
	Language  string   `json:"language"`
	Paths     []string `json:"relevant_paths"`
	URL       string   `json:"url,omitempty"`
	AgentID   AID      `json:"agent_id,omitempty"`
	Assigned  AID      `json:"assigned_agent,omitempty"`
	Endpoint  string   `json:"agent_endpoint,omitempty"`
	ClaimedAt Instant  `json:"claimed_at,omitzero"`
	UpdatedAt Instant  `json:"updated_at,omitzero"`
	Term      int      `json:"claim_term,omitempty"`
}

// MarshalJSON writes the agent as agent_id and as assigned_agent.
func (r Repo) MarshalJSON() ([]byte, error) {
	return strictjson.Encode(wireRepo{
		r.ID, r.Name, r.Role, r.Language, listed(r.Paths), r.URL, r.Agent, r.Agent, r.Endpoint, r.ClaimedAt, r.UpdatedAt, r.Term,
	})
}

// UnmarshalJSON reads the agent from assigned_agent or else from agent_id.
func (r *Repo) UnmarshalJSON(b []byte) error {
	var w wireRepo
	if _, err := strictjson.DecodeOpen(b, &w); err != nil {
		return err
	}
	if w.Assigned == "" {
		w.Assigned = w.AgentID
	}
	*r = Repo{w.ID, w.Name, w.Role, w.Language, w.Paths, w.URL, w.Assigned, w.Endpoint, w.ClaimedAt, w.UpdatedAt, w.Term}
	return nil
}

// A Project is a piece of work that several repositories share. Contracts and
// context packets are stored beside it.
type Project struct {
	ID        ProjectID       `json:"project_id"`
	Name      string          `json:"name"`
	Objective string          `json:"objective"`
	Status    ProjectStatus   `json:"status"` // the explicitly set status; see Standing
	Policy    AgreementPolicy `json:"agreement_policy,omitempty"`
	Breaking  BreakingPolicy  `json:"breaking_policy,omitempty"`
	Repos     []Repo          `json:"repos"`

	Environments []Environment `json:"environments,omitempty"` // to which repositories are deployed, by name

	CreatedAt Instant `json:"created_at"`
	UpdatedAt Instant `json:"updated_at"` // of name, objective, status and policies
	Stamps    Stamps  `json:"stamps,omitzero"`

	// Owner made the project: an agent of this hub, or the peer that it came from.
	// Each hub has its own; "" for a project from before owners were kept.
	Owner AID `json:"-"`

	Tally Tally `json:"-"` // counted by the store
}

// An Environment is a place to which repositories of a project are deployed. Other implementations
// know none.
type Environment struct {
	Name    string  `json:"name"`
	At      Instant `json:"at"` // of the last change
	Removed bool    `json:"removed,omitempty"`
}

// Environment reports whether a project declared an environment. Names compare exactly.
func (p Project) Environment(name string) bool { return slices.Contains(p.EnvironmentNames(), name) }

// EnvironmentNames returns the names of the declared environments.
func (p Project) EnvironmentNames() (all []string) {
	for _, e := range p.Environments {
		if !e.Removed {
			all = append(all, e.Name)
		}
	}
	return all
}

// MarshalJSON writes lists that are empty as [].
func (p Project) MarshalJSON() ([]byte, error) {
	type plain Project
	p.Repos = listed(p.Repos)
	return strictjson.Encode(plain(p))
}

// A Tally counts the contents of a project. The store keeps it, so that no reader
// loads all contracts to count them.
type Tally struct {
	Contracts   int // all of them
	Started     int // with an implementation that was started
	Implemented int // those that are implemented or verified
	Verified    int
	Packets     int
	Bytes       int64 // of content, over contracts with their versions and packets
}

// Add adds the counts of another tally.
func (t *Tally) Add(o Tally) {
	t.Contracts += o.Contracts
	t.Started += o.Started
	t.Implemented += o.Implemented
	t.Verified += o.Verified
	t.Packets += o.Packets
	t.Bytes += o.Bytes
}

// Standing returns the further of two statuses: the one that follows from the
// contracts, and the explicitly set one.
func (p Project) Standing() ProjectStatus {
	derived, t := ProjectPlanning, p.Tally
	switch {
	case t.Contracts > 0 && t.Verified == t.Contracts:
		derived = ProjectComplete
	case t.Contracts > 0 && t.Implemented == t.Contracts:
		derived = ProjectIntegrating
	case t.Started > 0:
		derived = ProjectImplementing
	}
	if slices.Index(ProjectStatuses, p.Status) > slices.Index(ProjectStatuses, derived) {
		return p.Status
	}
	return derived
}

// Repo returns the repository with the given id.
func (p Project) Repo(id RepoID) (Repo, bool) {
	i := slices.IndexFunc(p.Repos, func(r Repo) bool { return r.ID == id })
	if i < 0 {
		return Repo{}, false
	}
	return p.Repos[i], true
}

// RepoNamed returns the repository with the given name.
func (p Project) RepoNamed(name string) (Repo, bool) {
	i := slices.IndexFunc(p.Repos, func(r Repo) bool { return r.Name == name })
	if i < 0 {
		return Repo{}, false
	}
	return p.Repos[i], true
}

// ReposOf returns the repositories that an agent claimed.
func (p Project) ReposOf(agent AID) (claimed []Repo) {
	for _, r := range p.Repos {
		if agent != "" && r.Agent == agent {
			claimed = append(claimed, r)
		}
	}
	return claimed
}

// listed returns a list that is never written as null.
func listed[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}
