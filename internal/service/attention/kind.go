package attention

import (
	"slices"

	"github.com/parley-agents/parley/hub"
)

// A Kind says why something waits for a person.
type Kind string

// The kinds.
const (
	KindQuestion   Kind = hub.NoticeQuestion  // a kept agent asks before it continues
	KindHeld       Kind = "held"              // a message needs approval
	KindApproval   Kind = "approval"          // a task, or an operation of a team, needs approval
	KindEscalation Kind = "escalation"        // a negotiation or disagreement needs a decision
	KindPeer       Kind = "peer"              // a hub asks to become a peer
	KindConflict   Kind = "conflict"          // a content of a contract lost against another, or two versions of an artifact must be merged
	KindStuck      Kind = "stuck"             // nothing is heard of a turn
	KindSuspended  Kind = "suspended"         // an agent repeated itself
	KindViolation  Kind = hub.NoticeViolation // an agent changed a file that another one holds
	KindBlocked    Kind = hub.NoticeBlocked   // an agent has waited for a file of another one for long
	KindLanding    Kind = hub.NoticeLanding   // a change waits for a yes before it lands
	KindReview     Kind = hub.NoticeReview    // a review waits for the operator
	KindLate       Kind = "late"              // a task was not done in time
	KindOverdue    Kind = hub.NoticeOverdue   // a message was not acknowledged in time
	KindDisk       Kind = "disk"              // the disk of the hub is nearly full
	KindMail       Kind = "mail"              // a message to the operator
)

// A kindRow is the row of a kind in the table: the effect of each answer, and how the hub's
// notice about an item is known.
type kindRow struct {
	kind   Kind
	yes    string // what a yes does; "" if it depends on the item, or no yes is taken
	no     string // what a no does
	notice func(Item, hub.Envelope) bool
}

// table has a row for each kind, the most pressing first.
var table = []kindRow{
	{kind: KindDisk},
	{kind: KindQuestion, no: "deny", notice: namesItem},
	{kind: KindHeld, yes: "approve", no: "deny"},
	{kind: KindApproval, yes: "approve", no: "deny", notice: isRequest},
	{kind: KindEscalation, notice: inThread},
	{kind: KindPeer, yes: "approve"},
	{kind: KindStuck},
	{kind: KindSuspended, yes: "lift the suspension"},
	{kind: KindViolation, yes: "mark as read"},
	{kind: KindBlocked, notice: namesItem},
	{kind: KindLanding, yes: "land it", no: "cancel it", notice: namesItem},
	{kind: KindReview, notice: namesItem},
	{kind: KindConflict},
	{kind: KindLate},
	{kind: KindOverdue, notice: namesItem},
	{kind: KindMail, yes: "mark as read"},
}

// Kinds lists the kinds, the most pressing first.
func Kinds() []Kind {
	out := make([]Kind, len(table))
	for i, row := range table {
		out[i] = row.kind
	}
	return out
}

// rank returns the place of a kind in the table.
func (k Kind) rank() int {
	return slices.IndexFunc(table, func(row kindRow) bool { return row.kind == k })
}

// namesItem reports whether a notice names an item as its subject.
func namesItem(i Item, e hub.Envelope) bool {
	about, ok := e.NoticeSubject()
	return ok && about.Kind == string(i.Kind) && about.ID == i.ID
}

// isRequest reports whether a message is the request of a team's operation, which has the
// id of that message.
func isRequest(i Item, e hub.Envelope) bool { return string(e.ID) == i.ID }

// inThread reports whether a message is in the thread of a negotiation or disagreement.
func inThread(i Item, e hub.Envelope) bool { return e.ThreadID == i.ID }
