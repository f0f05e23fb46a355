package hub

import "encoding/json"

// A Commit names a commit of a repository and the tree of its files.
type Commit struct{ ID, Tree string }

// A FileConflict is a file that two changes changed in different ways, with its texts. A text is empty
// where there is no file.
type FileConflict struct {
	Path   string
	Base   string
	Ours   string // in the target
	Theirs string // in the change
}

// A CommitMerge is the result of merging a change: a commit, or the conflicts.
type CommitMerge struct {
	Commit    Commit
	Conflicts []FileConflict
}

// A Forwarding is the result of moving a target branch. At most one of Moved, Stale and Waits is
// set.
type Forwarding struct {
	Moved bool
	Stale bool     // the branch was not at the expected commit
	Waits string   // the reason to wait, such as "waits for /src: it has changes in a.go"
	Paths []string // files that are in the way; may be empty
}

// A BranchChange is the difference of a commit from the target branch.
type BranchChange struct {
	Patch   ReviewPatch
	Base    string   // the common ancestor, from which Patch begins
	Authors []string // names of the authors and committers of its commits and in their trailers, as git has them
}

// A ReviewPatch is a unified diff as a reviewer reads it: the files that a diff does not show as they are
// precede it, with their sizes and digests.
type ReviewPatch struct {
	Text  string
	Cut   bool     // Text does not have all of it: only the operator may approve it
	Named []string // sentences about text that a reader does not see, and about links that lead nowhere
}

// A FileChange is a path whose content differs between two commits, with the ids of its contents; ""
// where there is no file.
type FileChange struct{ Path, Before, After string }

// A MergeCommit is a merge commit with its parents.
type MergeCommit struct {
	ID      string
	Parents []string
}

// A SavedTree is the state of a working tree, kept in the hub's copy of its repository.
type SavedTree struct {
	Rescue
	Clean  bool   // nothing is uncommitted, and nothing was kept
	Branch string // "" for a detached head
	Tree   string // of the files
}

// An AppliedRescue is the work of a rescue that was brought into a folder.
type AppliedRescue struct {
	Folder    string   `json:"folder"`
	Paths     []string `json:"paths"`
	Waits     []string `json:"waits,omitempty"`     // changes of a person that are in the way
	Conflicts []string `json:"conflicts,omitempty"` // files that were committed differently since
	Kept      []string `json:"kept,omitempty"`      // where files are that were in the way
}

// A MachineRoot is a root on one of the machines whose hubs share a store.
type MachineRoot struct{ Path, Machine string }

// A KnownCheck is a check that the operator allowed for a repository.
type KnownCheck struct {
	Name     string
	Required bool // for every change
	InPlace  bool // it runs in a working tree, and does not count for landing
}

// A CommitChecks asks for checks of a repository on one commit of its copy.
type CommitChecks struct {
	Repository string
	Names      []string
	Commit     Commit
	Target     bool // the commit is a head of the target branch
	Since      Time // a run that was interrupted is made again, unless two were since then; zero for never
	Repeat     int  // times that a check that failed is run again
	Kept       bool // nothing is run: a check without a kept result is CodeNotFound
}

// A CommitReport is the result of a CommitChecks.
type CommitReport struct {
	Passed  bool
	Failed  string   // the name of the first check that did not pass
	State   string   // of its result, such as failed or timed_out
	Output  string   // the end of its output
	Results []string // ids of the results
	Runs    int      // checks that ran; the others had kept results
	Asked   []GateEvidence

	Tests map[string]TestCount // by the names of the checks that count them
	Fewer string               // such as "tests: 41 before, 12 now", if the target has more; the landing queue compares
}

// A HandoffWork is the work of a handoff as its landing needs it.
type HandoffWork struct {
	From, To    AgentID
	Title       string
	Restricted  bool
	Package     json.RawMessage
	Commit      string   // that has the work; empty if a part is not committed
	Attribution []Credit // agents that may have made a part of it
	Ending      Ending
	Proof       Proof
	ResolvedAt  Time
}

// An AgentVendors says whose programs an agent uses, and whether it can answer now.
type AgentVendors struct {
	Names []string // of the vendors of its CLIs or models; empty if one is not known
	Awake bool     // the hub keeps it, or it has a live session
}

// A KeptAgent is an agent that the hub runs.
type KeptAgent struct {
	Folder string
	CLI    string
	Or     []string // who takes over its tasks: CLIs, agents and self, in this order
	Rests  bool     // it begins again by itself when it can
	Until  Time     // before which it does not begin, if it rests and the time is known

	// Reason is why it rests.
	Reason ContinuationReason
	LogIn  string // the line with which a person gives it a login again, if it is known; also of an agent in a terminal
}

// An AgentProgram is a CLI that the hub can run in a folder.
type AgentProgram struct {
	CLI     string
	Command []string // empty for the one that the kept agent names
	Path    string   // the PATH under which the command was found
	Folder  string   // of the task
}
