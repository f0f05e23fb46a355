package hub

import (
	"slices"
	"strings"
)

// sourcePrefix begins the name under which an event source sends. No agent's name can begin so.
const sourcePrefix = "in:"

// SourceSender returns the sender of the messages about the events of a source.
func SourceSender(name string) AgentID { return AgentID(sourcePrefix + name) }

// Source returns the name of the event source that id is the sender of. It reports false for
// every other name.
func (id AgentID) Source() (name string, ok bool) {
	name, ok = strings.CutPrefix(string(id), sourcePrefix)
	return name, ok && AgentID(name).Valid()
}

// sends reports whether id can be the sender of a message: the name of an agent, or of an event
// source.
func (id AgentID) sends() bool {
	_, isSource := id.Source()
	return isSource || id.Valid()
}

// An EventVendor is the kind of program that sends events, which decides their form and their
// signature.
type EventVendor string

// The vendors.
const (
	VendorGitHub  EventVendor = "github"
	VendorGitLab  EventVendor = "gitlab"
	VendorGitea   EventVendor = "gitea"   // and Forgejo
	VendorGeneric EventVendor = "generic" // any program, in the form of this hub
)

// EventVendors lists the vendors.
var EventVendors = []EventVendor{VendorGitHub, VendorGitLab, VendorGitea, VendorGeneric}

// Known reports whether v is one of EventVendors.
func (v EventVendor) Known() bool { return slices.Contains(EventVendors, v) }

// An EventActors says whose events may wake an agent.
type EventActors string

// The values. Results of CI always may.
const (
	ActorsMembers EventActors = "members" // owners, members and collaborators of the repository
	ActorsAll     EventActors = "all"
)

// Known reports whether a is one of the values.
func (a EventActors) Known() bool { return a == ActorsMembers || a == ActorsAll }

// ToOwner is the target of events that go to the owner of the work alone; the operator gets
// those without a known owner.
const ToOwner = "owner"

// An EventKind is the kind of an event, the same for all vendors.
type EventKind string

// The kinds. A kind that a vendor has beside them is EventOther.
const (
	EventPush    EventKind = "push"
	EventCI      EventKind = "ci"      // a result of a build or a check
	EventChange  EventKind = "change"  // a pull request or merge request
	EventReview  EventKind = "review"  // of a change
	EventComment EventKind = "comment" // on a change, a commit or an issue
	EventIssue   EventKind = "issue"
	EventRelease EventKind = "release" // a release or a tag
	EventPing    EventKind = "ping"    // a test by the vendor
	EventOther   EventKind = "other"
)

// EventKinds lists the kinds.
var EventKinds = []EventKind{EventPush, EventCI, EventChange, EventReview, EventComment, EventIssue, EventRelease, EventPing, EventOther}

// Known reports whether k is one of EventKinds.
func (k EventKind) Known() bool { return slices.Contains(EventKinds, k) }

// MaxEventText is the most bytes of text of an event that are stored.
const MaxEventText = 2000

// An Event is something that happened outside of the hub. Its members come from others, except
// Source, and are data.
type Event struct {
	Source     string    `json:"source"`
	Kind       EventKind `json:"kind"`
	Name       string    `json:"name,omitempty"`  // of the kind, as the vendor has it
	State      string    `json:"state,omitempty"` // such as failure, opened or approved
	Repository string    `json:"repository,omitempty"`
	Branch     string    `json:"branch,omitempty"`
	Commit     string    `json:"commit,omitempty"`
	Task       string    `json:"task,omitempty"` // of this hub, if the sender names one
	Actor      string    `json:"actor,omitempty"`
	Title      string    `json:"title,omitempty"`
	URL        string    `json:"url,omitempty"`
	Text       string    `json:"text,omitempty"` // at most MaxEventText bytes

	// Member says that the actor may change the repository, as far as the vendor tells.
	Member bool `json:"-"`
	// Deliveries are the ids under which the event is known: a second event with one of them is
	// a repetition.
	Deliveries []string `json:"-"`
}

// An EventRule sends matching events to a target. Empty members match everything; a pattern has
// * for any text.
type EventRule struct {
	Kind       EventKind `json:"kind,omitempty"`
	State      string    `json:"state,omitempty"`
	Repository string    `json:"repository,omitempty"` // a pattern
	Branch     string    `json:"branch,omitempty"`     // a pattern
	Actor      string    `json:"actor,omitempty"`
	To         string    `json:"to,omitempty"`     // as EventSource.To
	Quiet      bool      `json:"quiet,omitempty"`  // stored, and wakes nobody
	Ignore     bool      `json:"ignore,omitempty"` // not stored
}

// Matches reports whether the rule is about an event.
func (r EventRule) Matches(e Event) bool {
	same := func(want, got string) bool { return want == "" || want == got }
	return same(string(r.Kind), string(e.Kind)) && same(r.State, e.State) && same(r.Actor, e.Actor) &&
		matchesPattern(r.Repository, e.Repository) && matchesPattern(r.Branch, e.Branch)
}

// matchesPattern reports whether a text matches a pattern in which * stands for any text. The
// empty pattern matches everything.
func matchesPattern(pattern, text string) bool {
	if pattern == "" {
		return true
	}
	parts := strings.Split(pattern, "*")
	if len(parts) == 1 {
		return pattern == text
	}
	rest, ok := strings.CutPrefix(text, parts[0])
	if !ok {
		return false
	}
	last := parts[len(parts)-1]
	for _, part := range parts[1 : len(parts)-1] {
		i := strings.Index(rest, part)
		if i < 0 {
			return false
		}
		rest = rest[i+len(part):]
	}
	return strings.HasSuffix(rest, last)
}

// An EventPoll is a repository whose events the hub asks its vendor for.
type EventPoll struct {
	Repository string `json:"repository"`
	API        string `json:"api"`              // address of the vendor's API
	Seconds    int64  `json:"seconds"`          // between two questions, at least
	Sealed     string `json:"sealed,omitempty"` // the token, encrypted; empty without one
}

// An EventSource is a place outside of the hub whose events become messages.
type EventSource struct {
	Name    string            `json:"name"`
	Vendor  EventVendor       `json:"vendor"`
	To      string            `json:"to"` // an agent, team:NAME or ToOwner, for events whose owner is not known
	Actors  EventActors       `json:"actors"`
	Rules   []EventRule       `json:"rules,omitempty"`   // the first that matches decides
	Members []string          `json:"members,omitempty"` // actors that count as members, beside those that the vendor names
	Fields  map[string]string `json:"fields,omitempty"`  // of generic events: members of an event by their JSON pointers
	Polls   []EventPoll       `json:"polls,omitempty"`
	Sealed  string            `json:"sealed,omitempty"` // the secret of signatures, encrypted
	SetAt   Time              `json:"set_at,omitzero"`
	SetBy   AgentID           `json:"set_by"`

	Revision int64 `json:"-"` // of the row; 0 for one that is not stored
}

// Public returns the source without its secrets.
func (s EventSource) Public() EventSource {
	s.Sealed = ""
	s.Polls = slices.Clone(s.Polls)
	for i := range s.Polls {
		s.Polls[i].Sealed = ""
	}
	return s
}

// Digest returns the SHA-256, in hexadecimal, of everything in s but its revision.
func (s EventSource) Digest() string { return wholeDigest("event source", s) }

// An EventOutcome says what became of a request to the hub that should bring an event.
type EventOutcome string

// The outcomes, as they are counted.
const (
	EventStored     EventOutcome = "stored"     // a message that may wake its recipient
	EventQuiet      EventOutcome = "quiet"      // a message that wakes nobody
	EventRepeated   EventOutcome = "repeated"   // it was stored before
	EventIgnored    EventOutcome = "ignored"    // by a rule, or a test by the vendor
	EventForged     EventOutcome = "forged"     // its signature is wrong, old or missing
	EventTooLarge   EventOutcome = "too_large"  // its body is
	EventTooMany    EventOutcome = "too_many"   // more than the hub takes of a source at a time
	EventUnreadable EventOutcome = "unreadable" // it is signed, and not in the form of its vendor
)

// EventOutcomes lists the outcomes.
var EventOutcomes = []EventOutcome{EventStored, EventQuiet, EventRepeated, EventIgnored, EventForged, EventTooLarge, EventTooMany, EventUnreadable}

// An EventReader reads event sources and schedules.
type EventReader interface {
	Source(name string) (EventSource, error)
	// Sources returns all sources by name.
	Sources() ([]EventSource, error)
	// Delivered reports whether the source delivered an event under this id before.
	Delivered(source, id string) (bool, error)
	// EventCounts returns how often each outcome was counted for a source.
	EventCounts(source string) (map[EventOutcome]int64, error)
	Schedule(id ScheduleID) (Schedule, error)
	// Schedules returns all schedules by number.
	Schedules() ([]Schedule, error)
}

// An EventWriter writes event sources and schedules.
type EventWriter interface {
	// PutSource stores a new source if s.Revision is 0, and reports CodeConflict when its name is
	// taken. Else it stores s provided the stored one still has s.Revision; otherwise it reports
	// CodeConflict.
	PutSource(s EventSource) error
	// RemoveSource removes a source with its deliveries and counts. It reports CodeNotFound when
	// there is none.
	RemoveSource(name string) error
	// AddDelivered notes an id that a source delivered. It reports false when it was noted before.
	AddDelivered(source, id string, at Time) (bool, error)
	// DropDelivered forgets ids that were noted before a time, and returns how many there were.
	DropDelivered(before Time) (int, error)
	// CountEvents adds to the count of an outcome.
	CountEvents(source string, outcome EventOutcome, n int64) error
	// PutSchedule stores a new schedule if s.Revision is 0, and returns its id. Else it stores s
	// provided the stored one still has s.Revision; otherwise it reports CodeConflict.
	PutSchedule(s Schedule) (ScheduleID, error)
	// RemoveSchedule reports CodeNotFound when there is none.
	RemoveSchedule(id ScheduleID) error
}
