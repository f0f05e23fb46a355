package hub

import "strconv"

// A ReservationState says whether the holder of a reservation is still there.
type ReservationState string

// The states of a reservation. One that is over is not stored any more.
const (
	ReservationHeld    ReservationState = "held"    // its holder may change the file, other agents may not
	ReservationWaiting ReservationState = "waiting" // another agent holds the same path or pattern; it is held after that one
	ReservationOrphan  ReservationState = "orphan"  // its holder is gone and left changes that are not committed; every agent may change the file
	ReservationOver    ReservationState = "over"
)

// reservationNext is the state machine. A state without an entry is final.
var reservationNext = map[ReservationState][]ReservationState{
	ReservationHeld:    {ReservationHeld, ReservationOrphan, ReservationOver},
	ReservationWaiting: {ReservationWaiting, ReservationHeld, ReservationOver},
	ReservationOrphan:  {ReservationOver},
}

// A ReservationID names a reservation: r and its fence, such as r12.
type ReservationID string

// NewReservationID returns the id of the reservation with a fence.
func NewReservationID(fence int64) ReservationID {
	return ReservationID("r" + strconv.FormatInt(fence, 10))
}

// A WorkingTree is one checkout of a repository on disk.
type WorkingTree struct {
	Machine    string `json:"machine,omitempty"`    // of the hub that can read it
	Path       string `json:"path"`                 // its top, without links
	Repository string `json:"repository,omitempty"` // the folder of its repository, which linked working trees share; empty without git
}

// A TreeFile is a file of a working tree at one moment.
type TreeFile struct {
	Digest  string // SHA-256 of the content; empty if there is no file
	Clean   bool   // it is as the checked-out commit has it; never for ignored files and without git
	Tracked bool   // git knows the file
	Object  string // the content as an object of git; empty if there is no file
	Head    string // the object in the checked-out commit; empty if it is not there
}

// A TreeDifference is the change of a file since the checked-out commit.
type TreeDifference struct {
	Text  string
	Lines int // added and removed
}

// A Reservation is the right of one agent to change a file, or the files of a pattern, in one
// working tree.
type Reservation struct {
	ID      ReservationID `json:"id"`
	Fence   int64         `json:"fence"` // grows with each reservation of the hub
	Tree    WorkingTree   `json:"tree"`
	Path    string        `json:"path"`              // relative to the tree, with slashes
	Pattern bool          `json:"pattern,omitempty"` // Path is a pathspec of git and not one file
	Holder  AgentID       `json:"holder"`
	Session string        `json:"session,omitempty"` // in which the holder took it; empty if it is not known
	Shared  bool          `json:"shared,omitempty"`  // agents that all say so may change the file together
	Task    TaskID        `json:"task,omitempty"`
	Handoff HandoffID     `json:"handoff,omitempty"`
	Why     string        `json:"why,omitempty"` // in the holder's words

	State  ReservationState `json:"state"`
	Since  Time             `json:"since,omitzero"`
	Active Time             `json:"last_activity,omitzero"` // of the holder
	Until  Time             `json:"until,omitzero"`         // when it ends at the latest; zero if only activity decides
	Asked  Time             `json:"-"`                      // of an edit whose end was not reported; zero if there is none

	Base    string `json:"-"`               // SHA-256 of the file when it was reserved; empty if there was none
	Digest  string `json:"-"`               // the same of the content that the hub last saw of the holder
	Object  string `json:"-"`               // that content as an object of git
	Found   string `json:"-"`               // the same of the content that the hub found last; it differs from Digest after another agent changed the file
	Head    string `json:"-"`               // the file in the checked-out commit then, as an object of git
	Changed bool   `json:"changed"`         // the hub saw the file differ from Base
	Left    string `json:"left,omitempty"`  // SHA-256 of the artifact with the changes that an orphan has, or that its holder found when it took one
	Lines   int    `json:"lines,omitempty"` // of that difference
}

// A FileScope has the files that a task or handoff reserves for its owner.
type FileScope struct {
	Owner   AgentID
	Tree    string   // an absolute path in the working tree
	Paths   []string // files, folders or pathspecs of git, relative to Tree
	Task    TaskID
	Handoff HandoffID // the one of Task and Handoff that ends the reservations
}

// Advance returns r in another state. It reports CodeConflict when the state machine has no
// such move, and then returns r unchanged.
func (r Reservation) Advance(next ReservationState, now Time) (Reservation, error) {
	for _, s := range reservationNext[r.State] {
		if s == next {
			r.State = next
			r.Active = now
			return r, nil
		}
	}
	return r, Errorf(CodeConflict, "hub.Reservation", "reservation %s is %s and cannot become %s", r.ID, r.State, next)
}

// A SessionLife is what the hub knows about a session of an agent.
type SessionLife struct {
	Known bool
	Over  bool // the session ended, or its process did
	Busy  bool // a turn runs in a process that lives
	Seen  Time // its last sign of life
}

// A FileWait is an agent that was refused a file and waits for it.
type FileWait struct {
	Tree   string  `json:"tree"` // the path of the working tree
	Path   string  `json:"path"`
	Agent  AgentID `json:"agent"`
	Since  Time    `json:"since,omitzero"`
	Told   Time    `json:"told,omitzero"`    // when it heard that the file is free
	Warned bool    `json:"warned,omitempty"` // the operator was told how long it waits
}

// ID returns a name that no other wait has: the agent and the file.
func (w FileWait) ID() string { return string(w.Agent) + " " + w.Tree + "/" + w.Path }

// A FileView is what one agent last saw of a file.
type FileView struct {
	Tree   string
	Path   string
	Agent  AgentID
	Digest string // SHA-256 of the content; empty if there was no file
	Stale  string // the later content about which the agent was warned; empty if there is none
	Wrote  bool   // Digest is the agent's own edit
	At     Time
}

// A FileNote is a sentence that an agent is told with the next answer of the guard.
type FileNote struct {
	Agent AgentID `json:"-"`
	N     int64   `json:"-"` // orders the notes of an agent
	Kind  string  `json:"kind"`
	Path  string  `json:"path"`
	Other AgentID `json:"agent,omitempty"`
	Text  string  `json:"text"`
}

// A ReservationReader reads who changes which files.
type ReservationReader interface {
	// OfTree returns the reservations of a working tree by their fences.
	OfTree(tree string) ([]Reservation, error)
	// OfAgent returns the reservations of an agent, or of all if it is "", by their fences.
	OfAgent(agent AgentID) ([]Reservation, error)
	// Counts returns how many files each agent holds, without patterns.
	Counts() (map[AgentID]int, error)
	// Waits returns the agents that wait for files of a working tree, or of all if it is "",
	// those that wait longest first.
	Waits(tree string) ([]FileWait, error)
	// Views returns what agents saw of a file of a working tree.
	Views(tree, path string) ([]FileView, error)
	// Notes returns the notes for an agent in order.
	Notes(agent AgentID) ([]FileNote, error)
}

// A ReservationWriter changes who changes which files.
type ReservationWriter interface {
	// Put stores a new reservation if was is empty, else r provided the stored state is still
	// was; otherwise it reports CodeConflict. A reservation that is over is removed.
	Put(r Reservation, was ReservationState) error
	// PutWait stores a wait, new or known.
	PutWait(FileWait) error
	RemoveWait(tree, path string, agent AgentID) error
	// PutView stores what an agent saw, in place of what it saw before.
	PutView(FileView) error
	// RemoveViews forgets what agents saw before a time, at most limit views, and returns how
	// many there were.
	RemoveViews(before Time, limit int) (int, error)
	AddNote(FileNote) error
	// RemoveNotes removes the notes for an agent.
	RemoveNotes(agent AgentID) error
}
