// Package contract keeps projects in which several repositories agree on their
// interfaces, and what hubs exchange about them.
//
// Every change is one transaction: the thing, a journal entry, a row in the log
// of changes that other hubs are told from, and a message to the agents here
// whose repositories it concerns. What comes from another hub is merged, never
// put in place of what is here: whatever the order, the repetition or the delay
// of what two hubs tell each other, they end with the same.
package contract

import (
	"context"
	"encoding/json"
	"io"

	"github.com/parley-agents/parley/hub"
)

// A Caller is who is asking, here and across hubs.
type Caller struct {
	hub.Actor
	AID hub.AID // "" where the actor has none; then it speaks for the hub's own repository
}

// Operations is what a Service does.
type Operations interface {
	// CreateProject makes a project. A repository with the hub's own name is
	// claimed for this hub at once.
	CreateProject(ctx context.Context, caller Caller, p NewProject) (hub.Project, error)
	// JoinProject claims a repository for the caller. Claiming again is a
	// success; what another agent has claimed is CodeConflict.
	JoinProject(ctx context.Context, caller Caller, id hub.ProjectID, repoName, endpoint string) (hub.Project, hub.Repo, error)
	// AddRepo adds a repository to a project.
	AddRepo(ctx context.Context, caller Caller, id hub.ProjectID, r hub.Repo) (hub.Repo, error)
	// SetStatus says how far the project has come; see hub.Project.Standing.
	SetStatus(ctx context.Context, caller Caller, id hub.ProjectID, s hub.ProjectStatus) (hub.Project, error)
	// SetPolicy says whose word makes a contract agreed.
	SetPolicy(ctx context.Context, caller Caller, id hub.ProjectID, p hub.AgreementPolicy) (hub.Project, error)
	// Project returns a project without its contracts and packets; Status is
	// how far it has come, all counted.
	Project(ctx context.Context, caller Caller, id hub.ProjectID) (hub.Project, error)
	// Projects returns projects by id, beginning after one.
	Projects(ctx context.Context, caller Caller, after hub.ProjectID, limit int) ([]hub.Project, error)
	// WriteProject writes a whole project as the protocol has it, reading it
	// page by page. extra, if any, is a JSON object whose members come last.
	// Nothing is written when there is no such project.
	WriteProject(ctx context.Context, caller Caller, id hub.ProjectID, w io.Writer, opts WriteOptions) error

	// Propose makes a contract.
	Propose(ctx context.Context, caller Caller, p Proposal) (Result, error)
	// Respond agrees, asks for a change or rejects. A comment or a suggested
	// change is also kept as a packet.
	Respond(ctx context.Context, caller Caller, r Response) (Result, error)
	// Update gives a contract its next version.
	Update(ctx context.Context, caller Caller, u Revision) (Result, error)
	// Contract returns a contract, with History and Conflicts if asked for.
	Contract(ctx context.Context, caller Caller, project hub.ProjectID, id hub.ContractID, history bool) (hub.Contract, error)
	// Contracts returns contracts by id, without History and Conflicts.
	Contracts(ctx context.Context, caller Caller, q hub.ContractQuery) ([]hub.Contract, error)
	// Diff returns what changed between two versions; 0 stands for the version
	// before the newest, and for the newest.
	Diff(ctx context.Context, caller Caller, project hub.ProjectID, id hub.ContractID, from, to int) (Diff, error)
	// Conflicts returns the contents of a project's contracts that lost, by
	// contract.
	Conflicts(ctx context.Context, caller Caller, project hub.ProjectID, after hub.ContractID, limit int) ([]Conflict, error)

	// Share lets the others of a project know something.
	Share(ctx context.Context, caller Caller, p NewPacket) (hub.Packet, error)
	// Ask shares a question.
	Ask(ctx context.Context, caller Caller, q Question) (hub.Packet, error)
	// Decide shares a decision.
	Decide(ctx context.Context, caller Caller, d Decision) (hub.Packet, error)
	// Packets returns packets by time.
	Packets(ctx context.Context, caller Caller, q hub.PacketQuery) (hub.PacketPage, error)
	// Thread returns a packet, or the one that it answers, with the answers to
	// it, oldest first; deep walks on to the answers to those.
	Thread(ctx context.Context, caller Caller, project hub.ProjectID, id hub.PacketID, deep bool) ([]hub.Packet, error)

	// Start says that the caller's repository begins to implement a contract.
	Start(ctx context.Context, caller Caller, w Work) (Result, error)
	// Complete says that it has. When all have, the contract is implemented.
	Complete(ctx context.Context, caller Caller, w Work) (Result, error)
	// Verify says whether what was implemented works together.
	Verify(ctx context.Context, caller Caller, v Verification) (Result, error)
	// Progress says how far each repository is with a contract.
	Progress(ctx context.Context, caller Caller, project hub.ProjectID, id hub.ContractID) (Progress, error)
	// Check is the gate for CI: whether every contract that a repository takes
	// part in has come far enough.
	Check(ctx context.Context, caller Caller, g Gate) (Verdict, error)

	// ShareFile keeps a file in the project's folder.
	ShareFile(ctx context.Context, caller Caller, f NewFile) (File, error)
	// RequestFile asks the others for a file.
	RequestFile(ctx context.Context, caller Caller, r hub.FileRequest) (hub.FileRequest, error)
	// FileRequests returns requests, newest first.
	FileRequests(ctx context.Context, caller Caller, project hub.ProjectID) ([]hub.FileRequest, error)
	// FulfilRequest keeps the file that was asked for.
	FulfilRequest(ctx context.Context, caller Caller, requestID string, f NewFile) (File, error)

	// Sync merges copies that came from a peer, in one transaction and in
	// order. native says that the peer keeps what Parley adds to the protocol.
	// A copy that cannot be taken gets its own status and does not keep the
	// others from being taken.
	Sync(ctx context.Context, from hub.AID, native bool, copies []hub.Copy) ([]hub.Synced, error)
	// SyncProject merges a whole project.
	SyncProject(ctx context.Context, from hub.AID, native bool, p hub.ProjectCopy) (hub.Synced, error)

	// Changes returns the log of changes after a number.
	Changes(ctx context.Context, after int64, limit int) ([]hub.Change, error)
	// Copies returns what changed as it is now, each thing once, in the order
	// of its last change. Changes that came from the peer "to" are left out.
	Copies(ctx context.Context, to hub.AID, changes []hub.Change) ([]hub.Copy, error)
	// Summary says what a project holds, 1,000 contracts at a time.
	Summary(ctx context.Context, id hub.ProjectID, after hub.ContractID) (hub.Summary, error)
	// Bucket returns the ids of the packets in one bucket of a summary.
	Bucket(ctx context.Context, id hub.ProjectID, n int) ([]hub.PacketID, error)
}

// A NewProject is a project as it is asked for.
type NewProject struct {
	Name      string
	Objective string
	Repos     []hub.Repo          // Name, Role and Language must be given, ids are made here
	Policy    hub.AgreementPolicy // default any
}

// WriteOptions changes how a project is written. The zero value works.
type WriteOptions struct {
	Naive bool            // times for peers that know no zones
	Extra json.RawMessage // an object whose members come after those of the protocol
}

// A Proposal is a contract as it is asked for.
type Proposal struct {
	Project hub.ProjectID
	Type    hub.ContractType
	Name    string
	Content json.RawMessage // an object
}

// The actions of a Response.
const (
	ActionAgree         = "agree"
	ActionRequestChange = "request_change"
	ActionReject        = "reject"
)

// A Response is one repository's answer to a contract.
type Response struct {
	Project  hub.ProjectID
	Contract hub.ContractID
	Action   string
	Comment  string          // may be empty
	Change   json.RawMessage // suggested instead; nil or any JSON value
	Version  int             // that it is about; 0 for the one that is there
}

// A Revision is the next version of a contract.
type Revision struct {
	Project  hub.ProjectID
	Contract hub.ContractID
	Content  json.RawMessage
	Note     string
	Version  int // that it replaces; 0 for the one that is there
}

// A Result is a contract after something was done to it.
type Result struct {
	Contract hub.Contract // without History and Conflicts
	Outcome  string       // agreed, change_requested, rejected, started, complete, verified, failed, partial or ""
	Repo     hub.RepoID   // that the caller spoke for
	Pending  []hub.Repo   // whose agreement or implementation is still needed
	Packet   hub.PacketID // that holds the comment, or ""
	Warnings []string     // about the shape of the content
}

// A NewPacket is a packet as it is asked for.
type NewPacket struct {
	Project hub.ProjectID
	Type    hub.ContextType
	Content json.RawMessage // an object
	Related []hub.ContractID
	ReplyTo hub.PacketID
}

// A Question is what Ask shares.
type Question struct {
	Project  hub.ProjectID
	Question string
	Options  []string // nil if it is open
	Urgent   bool
	Related  []hub.ContractID
	ReplyTo  hub.PacketID
}

// A Decision is what Decide shares.
type Decision struct {
	Project      hub.ProjectID
	Decision     string
	Chosen       string
	Rationale    string
	Implications []string
	Related      []hub.ContractID
	ReplyTo      hub.PacketID
}

// Work is what one repository does about a contract.
type Work struct {
	Project      hub.ProjectID
	Contract     hub.ContractID
	Plan         string   // for Start
	Files        []string // planned by Start, written by Complete
	Notes        string   // for Complete
	TestEndpoint string   // for Complete
}

// The results of a Verification.
const (
	VerifySuccess = "success"
	VerifyFailure = "failure"
	VerifyPartial = "partial"
)

// A Verification says whether the implementations of a contract work together.
type Verification struct {
	Project  hub.ProjectID
	Contract hub.ContractID
	Result   string
	Notes    string
	Failures []string
}

// A Progress says how far each repository is with a contract.
type Progress struct {
	Contract hub.Contract
	Pending  []hub.Repo // those that have not completed the current version
}

// A Gate says what Check asks for.
type Gate struct {
	Project hub.ProjectID
	Repo    string             // name; "" for every contract of the project
	Require hub.ContractStatus // agreed, implemented or verified; default agreed
}

// A Verdict is the answer of Check.
type Verdict struct {
	OK       bool      `json:"ok"`
	Checked  int       `json:"checked"` // contracts that the repository takes part in
	Failures []Failure `json:"failures"`
}

// A Failure is a contract that has not come far enough.
type Failure struct {
	Contract hub.ContractID     `json:"contractId"`
	Name     string             `json:"name"`
	Version  int                `json:"version"`
	Status   hub.ContractStatus `json:"status"`
	Reason   string             `json:"reason"`
}

// A Conflict is a contract with the contents that lost.
type Conflict struct {
	Contract hub.Contract          `json:"contract"`
	Lost     []hub.ContractVersion `json:"lost"` // newest version first
}

// A NewFile is a file as it comes in.
type NewFile struct {
	Project     hub.ProjectID
	Name        string
	ContentType string
	Purpose     string
	Content     string // base64, without blanks
}

// A File is a file that was kept.
type File struct {
	SavedTo string `json:"savedTo"` // below the hub's folder for shared files
	Size    int    `json:"size"`
	SHA256  string `json:"sha256"`
}

// A Diff is what changed between two versions of a contract.
type Diff struct {
	From    int          `json:"from"`
	To      int          `json:"to"`
	Changes []Difference `json:"changes"`
	Cut     bool         `json:"cut,omitempty"` // there are more
}

// A Difference is one value that is not as it was.
type Difference struct {
	Path string          `json:"path"` // a JSON pointer
	Kind string          `json:"kind"` // added, removed or changed
	Old  json.RawMessage `json:"old,omitempty"`
	New  json.RawMessage `json:"new,omitempty"`
}
