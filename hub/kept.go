package hub

import "strconv"

// A KeptID names kept work: s and a number. Rescues have their numbers from the same sequence.
type KeptID string

// NewKeptID returns the id with a number.
func NewKeptID(n int64) KeptID { return KeptID("s" + strconv.FormatInt(n, 10)) }

// Number returns the number of the id; 0 if it has none.
func (id KeptID) Number() int64 { return numberAfter("s", string(id)) }

// A KeptWhy says on which occasion work was kept.
type KeptWhy string

// The occasions.
const (
	KeptBeforeCommand KeptWhy = "before_command"
	KeptEdit          KeptWhy = "edit"     // before a tool of an agent writes a file
	KeptTurn          KeptWhy = "turn"     // a turn of an agent began or ended
	KeptInterval      KeptWhy = "interval" // while a session lives
	KeptSession       KeptWhy = "session"  // the first session of a repository began
	KeptContinuation  KeptWhy = "continuation"
	KeptBeforeBack    KeptWhy = "before_back" // before kept work was brought back
)

// A KeptState is the uncommitted state of a working tree in the hub's store of kept work.
type KeptState struct {
	ID         string   `json:"id"`             // of the state; equal states have equal ids
	Base       string   `json:"base,omitempty"` // the commit that was checked out; empty if there was none
	Branch     string   `json:"branch,omitempty"`
	Files      int      `json:"files"`   // that differ from the base, also deleted and staged ones
	Added      int      `json:"added"`   // lines
	Removed    int      `json:"removed"` // lines
	Bytes      int64    `json:"bytes"`
	Stash      int      `json:"stash"`                // entries of the repository's stash
	NamedOnly  []string `json:"named_only,omitempty"` // files and folders that are too large to be kept
	Unreadable []string `json:"unreadable,omitempty"` // files that could not be read
	Nested     []string `json:"nested,omitempty"`     // repositories inside of the tree, which are trees of their own
}

// A KeptWork is the uncommitted state of one working tree at one moment, with the occasion on which
// it was kept.
type KeptWork struct {
	ID      KeptID      `json:"id"`
	Tree    WorkingTree `json:"tree"`
	Agent   AgentID     `json:"agent,omitempty"` // whose command, edit or turn was the occasion
	Why     KeptWhy     `json:"why"`
	Command string      `json:"command,omitempty"` // the beginning of the command's text
	At      Time        `json:"at,omitzero"`
	State   KeptState   `json:"state"`
	After   string      `json:"after,omitempty"` // the state right after the command
	Lost    int         `json:"lost,omitempty"`  // files whose uncommitted content the command changed or removed, and that the agent had not written
	Late    bool        `json:"late,omitempty"`  // the command began before all was kept

	Revision int64 `json:"-"` // of the stored row; 0 for a new one
}

// A KeptFile is a file of kept work.
type KeptFile struct {
	Path    string `json:"path"`
	State   string `json:"state"`          // changed, new, ignored, deleted or staged
	Bytes   int64  `json:"bytes"`          // 0 if it was deleted
	Now     string `json:"now,omitempty"`  // same, changed or missing: the file in the tree now
	Lost    bool   `json:"lost,omitempty"` // the command in the kept work changed or removed it
	Touched bool   `json:"-"`              // it is not as the command left it
	Digest  string `json:"-"`              // of the content
	Stashed bool   `json:"-"`              // an entry of the stash has the content now
	Left    string `json:"-"`              // the digest right after the command; empty if there was no file
}

// A KeptLoss is the uncommitted content that a command changed or removed.
type KeptLoss struct {
	Files    []KeptFile
	Stash    []string // entries that are not in the stash any more
	Branches []string // that are gone, with their commits
}

// A KeptLeft is a file that was not brought back.
type KeptLeft struct {
	Path string `json:"path"`
	Why  string `json:"why"`
}

// A KeptQuery selects kept work, the newest first. Empty members do not restrict it.
type KeptQuery struct {
	Tree       string // its top
	Repository string
	Agent      AgentID
	Cursor     KeptID // the last one of the page before
	Limit      int    // positive
}

// A KeptReader reads kept work.
type KeptReader interface {
	KeptWork(id KeptID) (KeptWork, error)
	KeptWorks(q KeptQuery) ([]KeptWork, error)
}

// A KeptWriter writes kept work.
type KeptWriter interface {
	// PutKeptWork stores new kept work under the next id, or w provided its revision is still the
	// stored one; otherwise it reports CodeConflict. It returns the id.
	PutKeptWork(w KeptWork) (KeptID, error)
	// RemoveKeptWork removes kept work, and reports CodeNotFound when there is none.
	RemoveKeptWork(id KeptID) error
}
