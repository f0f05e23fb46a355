package hub

import (
	"fmt"
	"strings"
)

// A WorkState is the state of a working tree at one time. It has every file that git does
// not ignore, committed or not.
type WorkState struct {
	Path       string `json:"path"`                 // of the working tree, without links
	Repository string `json:"repository,omitempty"` // the folder of its repository, which several working trees may share
	Tree       string `json:"tree"`                 // the files, as a git tree
	Commit     string `json:"commit,omitempty"`     // the one that was checked out; empty if there was none yet
	Kept       string `json:"kept,omitempty"`       // the name under which the hub of that machine keeps its objects
}

// A Comparison asks for the change of a working tree since a state.
type Comparison struct {
	Path    string    `json:"path"`
	Since   WorkState `json:"since"`             // whose files it is compared with
	Before  WorkState `json:"before,omitzero"`   // whose commits count as from before; Since if there is none
	Keep    HandoffID `json:"keep"`              // whose completion it is: the state of now is kept under this name
	Named   []string  `json:"named,omitempty"`   // absolute paths of files that must have changed
	Expect  []string  `json:"expect,omitempty"`  // patterns of files that must have changed
	Scope   []string  `json:"scope,omitempty"`   // pathspecs of git: changes of other files are named
	Known   []string  `json:"known,omitempty"`   // commits that count as from before, too
	Merge   bool      `json:"merge,omitempty"`   // commits from before count, too
	Trivial bool      `json:"trivial,omitempty"` // a trivial change touches an expected file, too
	Owner   AgentID   `json:"owner"`
	Others  []AgentID `json:"others,omitempty"` // agents that worked in the tree in the same time

	// Elsewhere are tasks of other agents in other working trees of the repository.
	Elsewhere []OtherTask `json:"elsewhere,omitempty"`
}

// An OtherTask is a task of another agent in another working tree of the repository.
type OtherTask struct {
	Agent  AgentID `json:"agent"`
	Name   string  `json:"name"`             // of its handoff
	Path   string  `json:"path"`             // of its working tree
	Commit string  `json:"commit,omitempty"` // of its completion; empty stands for the one that is checked out there
}

// A WorkChange is the change of a working tree since a state. Files that a commit from
// before has in the same form are counted apart: they are not in the other members.
type WorkChange struct {
	Text  string    `json:"text,omitempty"` // in one line, for people
	Since WorkState `json:"since,omitzero"` // with which it was compared
	Now   WorkState `json:"now,omitzero"`

	Files      int        `json:"files,omitempty"`
	Insertions int        `json:"insertions,omitempty"` // lines
	Deletions  int        `json:"deletions,omitempty"`
	Some       []WorkFile `json:"some,omitempty"`    // at most 50 of the files
	Removed    []string   `json:"removed,omitempty"` // at most 50 files that were deleted or emptied

	Trivial     bool     `json:"trivial,omitempty"`      // only whitespace, line ends, mode, empty files, submodules or ignored files
	TrivialWhy  string   `json:"trivial_why,omitempty"`  // why a trivial change is the task, says its owner; it stands in the first of Notes
	Uncommitted int      `json:"uncommitted,omitempty"`  // files that are not in the commit as they are
	Loose       []string `json:"loose,omitempty"`        // at most 1000 of those; not stored
	Before      int      `json:"before,omitempty"`       // files whose content a commit from before has
	Branches    []string `json:"branches,omitempty"`     // at most 3 other branches that have all of those; of a change without other files
	Known       []string `json:"known,omitempty"`        // those of Comparison.Known, likewise
	Commits     int      `json:"commits,omitempty"`      // since the state, in the history of the one that is checked out
	OldCommits  int      `json:"old_commits,omitempty"`  // of those, the ones that existed before
	Untouched   []string `json:"untouched,omitempty"`    // patterns of Expect that no changed file matches
	Outside     []string `json:"outside,omitempty"`      // at most 50 of the files that Scope does not have
	NotChanged  []string `json:"not_changed,omitempty"`  // files of Named that did not change
	NotCompared string   `json:"not_compared,omitempty"` // why other branches were not compared
	ByOwner     int      `json:"by_owner,omitempty"`     // files that only commits of the owner changed
	Authors     []string `json:"authors,omitempty"`      // names and addresses of the authors of the other files
	ByOthers    []Credit `json:"by_others,omitempty"`    // files that only commits of one of Others changed; they do not count
	Notes       []string `json:"notes,omitempty"`        // qualifications of the proof, for people
	Merged      []Credit `json:"merged,omitempty"`       // tasks of Elsewhere whose commits are among the new ones
	Credits     []Credit `json:"attribution,omitempty"`  // agents that may have made a part of the change
}

// NoWork returns why a change is no work of an agent, in the words of every refusal; "" if it is some. since
// is the time with which the working tree at path was compared, such as "the task was accepted".
func (c WorkChange) NoWork(owner AgentID, path, since string) string {
	switch {
	case c.Files > 0:
		return ""
	case len(c.ByOthers) > 0:
		return fmt.Sprintf("the change in %s is in commits of %s: no work of %s", path, c.ByOthers[0].Agent, owner)
	case len(c.Branches) > 0:
		return fmt.Sprintf("no work of this task in %s: %s: the branch %s has the same change", path, c.Text, strings.Join(c.Branches, " and "))
	case c.Before > 0:
		return fmt.Sprintf("no work of this task in %s: %s", path, c.Text)
	}
	return fmt.Sprintf("nothing has changed in %s since %s", path, since)
}

// OnlyTrivial returns a trivial change in words; "" for another one.
func (c WorkChange) OnlyTrivial() string {
	if !c.Trivial {
		return ""
	}
	return "trivial: " + c.Text
}

// A WorkFile is a file of a change, with its contents as names of git objects.
type WorkFile struct {
	Path string `json:"path"`          // relative to the top of the working tree
	Was  string `json:"was,omitempty"` // empty if it was not there
	Is   string `json:"is,omitempty"`  // empty if it is not there any more
}

// A Credit is the part of another agent in a change.
type Credit struct {
	Agent AgentID `json:"agent"`
	Why   string  `json:"why"`             // a handoff, a run or a commit
	Files int     `json:"files,omitempty"` // that its commits changed
}

// A NewCommit asks for a commit of files of a working tree, on its branch.
type NewCommit struct {
	Path    string   `json:"path"`
	Files   []string `json:"files"` // relative to the top; one that does not exist is deleted
	Message string   `json:"message"`
	Author  AgentID  `json:"author"`
	Head    string   `json:"head,omitempty"` // the commit that must be checked out; empty if there is none yet
	At      Time     `json:"at,omitzero"`
}
