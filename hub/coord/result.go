package coord

import (
	"strconv"

	"github.com/parley-agents/parley/internal/ground/digest"
)

// A ResultKind says who vouches for a result.
type ResultKind string

// The kinds.
const (
	ResultSaid ResultKind = "said" // an agent reported it
	ResultRun  ResultKind = "run"  // a check that the hub ran, or a token of CI with the permission evidence
)

// A ResultSource says where the run behind a result was made.
type ResultSource string

// The sources.
const (
	SourceHub ResultSource = "hub" // a check that this hub ran
	SourceCI  ResultSource = "ci"  // CI, with a token that is bound to the repository and the check
)

// ResultSuccess is the result of a test that passed. The other results are those of a
// verification that failed.
const ResultSuccess = "success"

// A ContractResult is the result of testing one repository, at one commit, against one
// version of a contract. It is never changed. Results stay on the hub that recorded them.
type ContractResult struct {
	N        int64      `json:"n"` // numbers results of the hub, from 1
	Project  ProjectID  `json:"project_id"`
	Contract ContractID `json:"contract_id"`
	Repo     RepoID     `json:"repo_id"`
	Version  int        `json:"version"`
	Content  string     `json:"content_sha256"` // of that version; see ContentHash
	Commit   string     `json:"commit"`
	Tree     string     `json:"tree,omitempty"` // of the commit, if it is known
	Branch   string     `json:"branch,omitempty"`
	Build    string     `json:"build,omitempty"` // address of the build
	Check    string     `json:"check,omitempty"` // name of the check
	Kind     ResultKind `json:"kind"`
	Result   string     `json:"result"` // success, failure or partial
	By       string     `json:"by,omitempty"`
	At       Instant    `json:"at"`

	Source ResultSource `json:"source,omitempty"`    // of a run; "" for runs from before it was kept, which count as said
	Run    string       `json:"run,omitempty"`       // id of the run, if this hub made it
	Target bool         `json:"on_target,omitempty"` // CI sent it for the branch that its token is bound to
}

// Digest returns the SHA-256, in hexadecimal, of everything in r.
func (r ContractResult) Digest() string {
	d := digest.New("contract result")
	d.JSON(r)
	return d.Hex()
}

// Name returns the name of a result in the journal.
func (r ContractResult) Name() string { return "result " + strconv.FormatInt(r.N, 10) }

// A Deployment records that a commit of a repository runs in an environment. It is never
// changed: the newest one of an environment counts.
type Deployment struct {
	N       int64     `json:"n"` // numbers deployments of the hub, from 1
	Project ProjectID `json:"project_id"`
	Repo    RepoID    `json:"repo_id"`
	Env     string    `json:"env"`
	Commit  string    `json:"commit"`
	Tree    string    `json:"tree,omitempty"`
	By      string    `json:"by,omitempty"`
	At      Instant   `json:"at"`

	Source   ResultSource `json:"source,omitempty"`   // hub for the operator, ci for a token; "" for deployments from before it was kept
	Verified bool         `json:"verified,omitempty"` // the hub's copy of the repository has the commit
}

// Digest returns the SHA-256, in hexadecimal, of everything in d.
func (d Deployment) Digest() string {
	h := digest.New("deployment")
	h.JSON(d)
	return h.Hex()
}

// Name returns the name of a deployment in the journal.
func (d Deployment) Name() string { return "deployment " + strconv.FormatInt(d.N, 10) }

// A StoredVerdict is the verdict on two contents of a contract, as it was computed.
type StoredVerdict struct {
	Project  ProjectID
	Contract ContractID
	Pair     string // hash of both contents and of everything else that the verdict depends on
	Rules    int    // version of the rules
	Body     string // the verdict as JSON
}

// A ResultQuery chooses results of one project, newest first. Empty members do not restrict.
type ResultQuery struct {
	Project  ProjectID // must be given
	Contract ContractID
	Repo     RepoID
	Commit   string
	Tree     string
	Version  int
	Kind     ResultKind
	Before   int64 // results with lower numbers
	Limit    int   // how many at most; positive
}

// A DeploymentQuery chooses deployments of one project, newest first. Empty members do not
// restrict.
type DeploymentQuery struct {
	Project ProjectID // must be given
	Repo    RepoID
	Env     string
	Before  int64 // deployments with lower numbers
	Limit   int   // how many at most; positive
}
