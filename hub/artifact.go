package hub

import (
	"slices"
	"strings"

	"github.com/parley-agents/parley/internal/ground/text/pattern"
)

// A MergeState says whether the versions of an artifact of a team agree.
type MergeState string

// The states.
const (
	MergeClean     MergeState = "clean"        // every version was made from the newest one of its time
	MergeDiverged  MergeState = "diverged"     // a version was made from one that is no longer the newest
	MergeAuto      MergeState = "auto_merged"  // the hub merges it
	MergeManual    MergeState = "manual_merge" // it waits for an integrator
	MergeEscalated MergeState = "escalated"    // it waits for a coordinator too, or for the signature of a reviewer
	MergeResolved  MergeState = "resolved"
	MergeAbandoned MergeState = "abandoned" // the team was closed without the merge
)

// conflictNext is the whole state machine of a conflict. A state without an entry is
// final.
var conflictNext = map[MergeState][]MergeState{
	MergeDiverged:  {MergeAuto, MergeManual, MergeEscalated},
	MergeAuto:      {MergeResolved},
	MergeManual:    {MergeResolved, MergeEscalated, MergeAbandoned},
	MergeEscalated: {MergeResolved, MergeAbandoned},
}

// A TeamArtifact is a named content that a team shares, as its newest version is.
type TeamArtifact struct {
	Team        TeamID      `json:"team"`
	ID          string      `json:"artifact_id"`
	Version     int64       `json:"version"`  // the newest
	Versions    int64       `json:"versions"` // how many there are; they are numbered from 1
	SHA256      string      `json:"content_hash"`
	Size        int64       `json:"size_bytes"`
	Author      AgentID     `json:"author"`
	At          Time        `json:"at,omitzero"`
	Sensitivity Sensitivity `json:"sensitivity"` // the hub does not merge versions of a high one
	State       MergeState  `json:"state"`
	Beside      []int64     `json:"beside,omitempty"` // versions whose conflicts are open
	Revision    int64       `json:"-"`                // of the row; 0 for one that is not stored
}

const (
	maxArtifactID    = 200              // bytes
	artifactRegistry = "registry.jsonl" // the list of versions in the folder of a team
)

var artifactPattern = pattern.New(`^[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9][A-Za-z0-9._-]*)*$`)

// ValidArtifactID reports whether id can be the name of a team's artifact: a path inside
// the folder of the artifacts, which leads nowhere else.
func ValidArtifactID(id string) bool {
	first, _, _ := strings.Cut(id, "/")
	return len(id) <= maxArtifactID && artifactPattern().MatchString(id) && !strings.EqualFold(first, artifactRegistry)
}

// An ArtifactVersion is one version of a team's artifact. It never changes.
type ArtifactVersion struct {
	Team     TeamID  `json:"team"`
	Artifact string  `json:"artifact_id"`
	Version  int64   `json:"version"`
	SHA256   string  `json:"content_hash"`
	Size     int64   `json:"size_bytes"`
	Parent   int64   `json:"parent_version"`    // 0 if it was made from none
	Parents  []int64 `json:"parents,omitempty"` // of a merge: the newest version, and the one beside it
	Author   AgentID `json:"author"`
	At       Time    `json:"at,omitzero"`
	Note     string  `json:"note,omitempty"`
}

// A Conflict is a version of an artifact that was made from an earlier version than the
// newest one, and the way to a version that has both.
type Conflict struct {
	Team     TeamID     `json:"team"`
	Artifact string     `json:"artifact_id"`
	Version  int64      `json:"version"`        // the one beside the newest
	Base     int64      `json:"base_version"`   // from which both come; 0 for none
	Newest   int64      `json:"newest_version"` // when it began
	State    MergeState `json:"state"`
	Author   AgentID    `json:"author"`
	Result   int64      `json:"merged_version,omitempty"`
	MergedBy AgentID    `json:"merged_by,omitempty"`
	SignedBy AgentID    `json:"signed_by,omitempty"`
	At       Time       `json:"at,omitzero"`
	DueAt    Time       `json:"due_at,omitzero"` // it is escalated then
	EndedAt  Time       `json:"ended_at,omitzero"`
	Revision int64      `json:"-"` // of the row; 0 for one that is not stored
}

// Advance returns c moved to next at the given time. It reports CodeConflict when the
// state machine has no such move, and then returns c unchanged.
func (c Conflict) Advance(next MergeState, now Time) (Conflict, error) {
	if !slices.Contains(conflictNext[c.State], next) {
		return c, Errorf(CodeConflict, "hub.Advance", "the conflict of version %d of %s is %s and cannot become %s", c.Version, c.Artifact, c.State, next)
	}
	c.State = next
	if c.Over() {
		c.EndedAt = now
	}
	if next != MergeManual {
		c.DueAt = Time{}
	}
	return c, nil
}

// Over reports whether c is resolved or abandoned.
func (c Conflict) Over() bool { return len(conflictNext[c.State]) == 0 }

// An ArtifactQuery chooses artifacts of a team, by their names in lower case. Empty
// members do not restrict.
type ArtifactQuery struct {
	Team   TeamID // must be given
	Under  string // whose names begin with this and a slash
	Cursor string // the last one of the page before
	Limit  int    // how many at most; positive
}

// A VersionQuery chooses versions of an artifact, newest first.
type VersionQuery struct {
	Team     TeamID
	Artifact string
	Before   int64 // numbers less than this; 0 for all
	Limit    int   // how many at most; positive
}

// A ConflictQuery chooses conflicts, oldest first. Empty members do not restrict.
type ConflictQuery struct {
	Team     TeamID
	Artifact string
	Version  int64
	Open     bool
	State    MergeState
	Due      Time // open ones that are to be escalated by then
	Limit    int  // how many at most; positive
}
