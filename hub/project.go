package hub

import (
	"slices"

	"github.com/parley-agents/parley/internal/strictjson"
)

// What a project may hold. These are the same on every hub, because hubs that
// keep one project must be able to keep the same.
const (
	MaxRepos      = 64        // repositories of a project
	MaxContent    = 256 << 10 // bytes of a contract's or packet's content
	MaxVersions   = 256       // versions of one contract
	MaxConflicts  = 32        // contents of one contract that lost; the newest are kept
	MaxAgreements = 512       // that one contract remembers
	MaxRelated    = 64        // contracts that one packet is about
	MaxFiles      = 1000      // files that one implementation names
	MaxName       = 200       // bytes of a name
	MaxText       = 16 << 10  // bytes of a plan, note, comment or objective
)

// safeID reports whether s can stand for a thing in coordination, also in the
// name of a file: [A-Za-z0-9._-]{1,128}, but neither "." nor "..".
func safeID(s string) bool {
	if len(s) == 0 || len(s) > 128 || s == "." || s == ".." {
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

// A ProjectStatus says how far a project has come.
type ProjectStatus string

// The statuses.
const (
	ProjectPlanning     ProjectStatus = "planning"
	ProjectImplementing ProjectStatus = "implementing" // somebody has begun
	ProjectIntegrating  ProjectStatus = "integrating"  // every contract is implemented
	ProjectComplete     ProjectStatus = "complete"     // every contract is verified
)

// ProjectStatuses lists every status in the order of a project's life.
var ProjectStatuses = []ProjectStatus{ProjectPlanning, ProjectImplementing, ProjectIntegrating, ProjectComplete}

// Known reports whether s is one of ProjectStatuses.
func (s ProjectStatus) Known() bool { return slices.Contains(ProjectStatuses, s) }

// An AgreementPolicy says whose word makes a contract agreed.
type AgreementPolicy string

// The policies.
const (
	AgreeAny          AgreementPolicy = "any"          // one repository agrees, whichever
	AgreeCounterparty AgreementPolicy = "counterparty" // one that did not propose this version
	AgreeAll          AgreementPolicy = "all"          // every one that did not propose this version
)

// AgreementPolicies lists every policy.
var AgreementPolicies = []AgreementPolicy{AgreeAny, AgreeCounterparty, AgreeAll}

// Known reports whether p is one of AgreementPolicies.
func (p AgreementPolicy) Known() bool { return slices.Contains(AgreementPolicies, p) }

// A Repo is one repository's part in a project.
type Repo struct {
	ID       RepoID
	Name     string
	Role     string   // backend, frontend, mobile, shared, infra or what people call it
	Language string   // python, go, ...
	Paths    []string // where in it the project happens
	URL      string
	Agent    AID    // who has claimed it; "" for nobody yet
	Endpoint string // where that agent can be called

	// Other implementations know neither. Claims never end: of two, the
	// earlier stands.
	ClaimedAt Instant
	UpdatedAt Instant
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
}

// MarshalJSON writes the agent as agent_id and as assigned_agent.
func (r Repo) MarshalJSON() ([]byte, error) {
	return strictjson.Encode(wireRepo{
		r.ID, r.Name, r.Role, r.Language, listed(r.Paths), r.URL, r.Agent, r.Agent, r.Endpoint, r.ClaimedAt, r.UpdatedAt,
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
	*r = Repo{w.ID, w.Name, w.Role, w.Language, w.Paths, w.URL, w.Assigned, w.Endpoint, w.ClaimedAt, w.UpdatedAt}
	return nil
}

// A Project is something that several repositories build together. Contracts
// and context packets are kept beside it.
type Project struct {
	ID        ProjectID       `json:"project_id"`
	Name      string          `json:"name"`
	Objective string          `json:"objective"`
	Status    ProjectStatus   `json:"status"` // as somebody set it; see Standing
	Policy    AgreementPolicy `json:"agreement_policy,omitempty"`
	Repos     []Repo          `json:"repos"`
	CreatedAt Instant         `json:"created_at"`
	UpdatedAt Instant         `json:"updated_at"` // of name, objective, status and policy

	Tally Tally `json:"-"` // counted by the store
}

// MarshalJSON writes lists that are empty as [].
func (p Project) MarshalJSON() ([]byte, error) {
	type plain Project
	p.Repos = listed(p.Repos)
	return strictjson.Encode(plain(p))
}

// A Tally counts what a project holds.
type Tally struct {
	Contracts   int // all of them
	Started     int // those that somebody has begun to implement
	Implemented int // those that are implemented or verified
	Verified    int
	Packets     int
	Bytes       int64 // of content, over contracts with their versions and packets
}

// Add adds what another tally counts.
func (t *Tally) Add(o Tally) {
	t.Contracts += o.Contracts
	t.Started += o.Started
	t.Implemented += o.Implemented
	t.Verified += o.Verified
	t.Packets += o.Packets
	t.Bytes += o.Bytes
}

// Standing returns how far the project has come: what follows from its
// contracts, or what somebody set if that is further.
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

// RepoOf returns the repository that an agent has claimed.
func (p Project) RepoOf(agent AID) (Repo, bool) {
	i := slices.IndexFunc(p.Repos, func(r Repo) bool { return agent != "" && r.Agent == agent })
	if i < 0 {
		return Repo{}, false
	}
	return p.Repos[i], true
}

// A ProjectCopy is a project with everything in it, as one hub sends it to
// another.
type ProjectCopy struct {
	Project
	Contracts []Contract
	Packets   []Packet
}

// MarshalJSON writes the project as the protocol has it: whole.
func (p ProjectCopy) MarshalJSON() ([]byte, error) {
	type plain Project
	p.Repos = listed(p.Repos)
	return strictjson.Encode(struct {
		plain
		Contracts []Contract `json:"contracts"`
		Packets   []Packet   `json:"context_history"`
	}{plain(p.Project), listed(p.Contracts), listed(p.Packets)})
}

// UnmarshalJSON reads a project with everything in it. The contracts know
// their project afterwards.
func (p *ProjectCopy) UnmarshalJSON(b []byte) error {
	type plain Project
	var in struct {
		plain
		Contracts []Contract `json:"contracts"`
		Packets   []Packet   `json:"context_history"`
	}
	if _, err := strictjson.DecodeOpen(b, &in); err != nil {
		return err
	}
	*p = ProjectCopy{Project(in.plain), in.Contracts, in.Packets}
	for i := range p.Contracts {
		p.Contracts[i].Project = p.ID
	}
	for i := range p.Packets {
		p.Packets[i].Project = p.ID
	}
	return nil
}

// Naive returns p with times for peers that know no zones.
func (p Project) Naive() Project {
	p.CreatedAt, p.UpdatedAt = p.CreatedAt.Naive(), p.UpdatedAt.Naive()
	p.Repos = slices.Clone(p.Repos)
	for i, r := range p.Repos {
		p.Repos[i] = r.Naive()
	}
	return p
}

// Naive returns r with times for peers that know no zones.
func (r Repo) Naive() Repo {
	r.ClaimedAt, r.UpdatedAt = r.ClaimedAt.Naive(), r.UpdatedAt.Naive()
	return r
}

// listed returns a list that is never written as null.
func listed[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}
