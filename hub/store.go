package hub

import (
	"context"
	"encoding/json"
	"time"

	"github.com/parley-agents/parley/hub/coord"
)

// A Durability is the accident that an acknowledged change survives.
type Durability int

// The durabilities. A store may give more than it was asked for, never less.
const (
	SurvivesKill      Durability = iota // the process is killed at any instant
	SurvivesPowerLoss                   // the machine stops at any instant
)

// A Store keeps everything a hub knows.
//
// Every change happens in Update, together with the journal entries that
// record it: all of it is there after Update returned nil, none of it after
// it returned an error. Errors of the engine are reported as CodeDegraded
// (cannot be used now, try later); they never leave a change half done.
type Store interface {
	// View calls fn with a snapshot: fn sees no change made after it began. Calls
	// with a context of InBackground leave some readers to the others.
	View(ctx context.Context, fn func(Reader) error) error

	// Update calls fn and makes its changes permanent. fn may run more than
	// once, with none of its earlier changes visible, and must have no effect
	// but on tx; it must not call Update itself. Changes of two Updates never
	// mix. If fn returns an error, Update returns that error and nothing is
	// changed.
	Update(ctx context.Context, d Durability, fn func(tx Tx) error) error

	// IndexText returns when Query finds every message that was acknowledged
	// before the call by its text and its topic. An engine may index words
	// later than it stores messages, and nothing else later; one that indexes
	// words with the message returns at once.
	IndexText(ctx context.Context) error

	// Lease grants work that must run in one process at a time to this process
	// for ttl, or renews it. It reports CodeConflict while another process has
	// it; then the caller leaves the work to that one and asks again later. A
	// process that was slow may still believe in a lease which has passed on:
	// Updates of the work call CheckLease first. Alone does all of that.
	Lease(ctx context.Context, name string, ttl time.Duration) (Lease, error)

	// Close waits for calls that are under way and releases files and connections.
	Close() error
}

type backgroundKey struct{}

// InBackground returns a context for reading that no caller waits for. A store may
// let such work wait while others read.
func InBackground(ctx context.Context) context.Context {
	return context.WithValue(ctx, backgroundKey{}, true)
}

// Background reports whether ctx is one of InBackground.
func Background(ctx context.Context) bool { return ctx.Value(backgroundKey{}) != nil }

// Read returns the result of fn in a snapshot of the store.
func Read[T any](ctx context.Context, s Store, fn func(Reader) (T, error)) (T, error) {
	var out T
	err := s.View(ctx, func(r Reader) (err error) {
		out, err = fn(r)
		return err
	})
	return out, err
}

// Alone runs work that must run in one process at a time, under the lease of its
// name. It gives work a store whose updates check the lease first, so that nothing
// is stored after the lease has passed on. While another process has the lease,
// Alone does nothing and reports no error: its caller tries again later. A panic of
// work becomes its error.
func Alone(ctx context.Context, s Store, name string, ttl time.Duration, work func(Store) error) error {
	lease, err := s.Lease(ctx, name, ttl)
	if CodeOf(err) == CodeConflict {
		return nil
	}
	if err != nil {
		return err
	}
	return Contain(name, func() error { return work(fencedStore{s, lease}) })
}

// A fencedStore is a store for the holder of a lease.
type fencedStore struct {
	Store
	lease Lease
}

// Update checks the lease before it calls fn.
func (s fencedStore) Update(ctx context.Context, d Durability, fn func(tx Tx) error) error {
	return s.Store.Update(ctx, d, func(tx Tx) error {
		if err := tx.CheckLease(s.lease); err != nil {
			return err
		}
		return fn(tx)
	})
}

// A Reader reads one snapshot. A method that returns one thing reports
// CodeNotFound when it does not exist; a method that returns a list returns an
// empty one.
type Reader interface {
	MessageReader
	RootReader
	JournalReader
	MetaReader

	// Agents and keys.

	Agent(id AgentID) (Agent, error)
	Agents() ([]Agent, error) // by id
	KeyByHash(hash string) (Key, error)
	Keys(agent AgentID) ([]Key, error) // oldest first

	// Handoffs and their history.

	Handoff(id HandoffID) (Handoff, error)
	// Handoffs returns those that match, newest first.
	Handoffs(q HandoffQuery) ([]Handoff, error)
	// HandoffSteps returns the history of a handoff in order.
	HandoffSteps(id HandoffID) ([]HandoffStep, error)

	// Negotiations, disagreements and decisions.

	Deliberation(id string) (Deliberation, error)
	// Deliberations returns those that match, newest first.
	Deliberations(q DeliberationQuery) ([]Deliberation, error)
	// Decisions returns those that match, newest first.
	Decisions(q DecisionQuery) ([]Decision, error)

	// Runs.

	Run(id RunID) (Run, error)
	// Runs returns those that match, newest first.
	Runs(q RunQuery) ([]Run, error)

	// Subscriptions and copies.

	// Subscriptions returns those of an agent, or of all if it is "", in the order of
	// their agents and times.
	Subscriptions(agent AgentID) ([]Subscription, error)
	Copies(q CopyQuery) ([]Copy, error)

	// The log of changes.

	// Changes returns changes whose number is greater than seq, in order.
	Changes(seq int64, limit int) ([]Change, error)
	// ChangeSpan returns the numbers of the oldest and the newest change in the
	// log, or the number of the last one ever twice if the log is empty.
	ChangeSpan() (oldest, newest int64, err error)

	// Other hubs, their outboxes and invites.

	Peer(aid coord.AID) (Peer, error)
	// PeerByKey returns the peer that sends the key with this hash.
	PeerByKey(hash string) (Peer, error)
	Peers() ([]Peer, error) // by AID
	Outbox(peer coord.AID) (Outbox, error)
	// DeadLetters returns changes that could not be sent, newest first.
	DeadLetters(peer coord.AID, limit int) ([]DeadLetter, error)
	// Invites returns matching invites, newest first.
	Invites(q InviteQuery) ([]Invite, error)
	Token(id string) (Token, error)
	// Tokens returns the project tokens of a project, or all if it is "", newest
	// first.
	Tokens(project coord.ProjectID, limit int) ([]Token, error)

	// Short ids. AddMessage gives each message one, PutHandoff each new handoff.

	// ShortID returns the short id of a message or handoff.
	ShortID(id string) (ShortID, error)
	// LongID returns the id of the message or handoff with a short id.
	LongID(s ShortID) (string, error)

	// Which agents may read the content of an artifact.

	ReadsArtifact(sha256 string, agent AgentID) (bool, error)

	// Nouns that few services need come as parts.

	Teamspaces() TeamReader
	Coordination() coord.Reader
	Wakes() WakeReader
	Reservations() ReservationReader
	Checks() CheckReader
	Landings() LandingReader
	Usage() UsageReader
	Continuations() ContinuationReader
	Kept() KeptReader
	Events() EventReader
	Tree() TreeReader
}

// A Tx reads its own changes and writes. Put methods with a parameter was compare
// and set: they store provided the stored state is still was, and report
// CodeConflict otherwise, so that two callers never move one thing twice.
type Tx interface {
	Reader
	RootWriter
	MetaWriter

	// Agents and keys.

	// PutAgent stores a new agent if was is empty, and reports CodeConflict
	// when the name is taken. Else it stores a's State and Role provided the
	// stored state is still was; otherwise it reports CodeConflict.
	PutAgent(a Agent, was AgentState) error
	// AddKey reports CodeConflict when the agent has a live or revoked key of
	// that label, and CodeNotFound when there is no such agent.
	AddKey(Key) error
	// RevokeKeys revokes the keys of an agent that are not revoked yet, all of
	// them or those with the given label, and returns how many there were.
	RevokeKeys(agent AgentID, label string, at Time) (int, error)

	// Messages, their parties and their deliveries.

	// AddMessage stores a message with its sender and recipients, gives it a short
	// id, and makes it findable by all but its words in the same transaction. It reports
	// CodeConflict when the id is taken.
	AddMessage(m Message, parties []Party) error
	// PutStatus stores e's Status and UpdatedAt provided the stored status is
	// still was; otherwise it reports CodeConflict.
	PutStatus(e Envelope, was MessageStatus) error
	// PutParty stores the state of a recipient provided it is still was;
	// otherwise it reports CodeConflict.
	PutParty(id EnvelopeID, agent AgentID, next, was PartyState) error
	// ForgetText stores the Forgotten form of a message in place of the message,
	// and removes its words from the index; an engine overwrites the bytes that
	// held them as far as it can. If there is no such message, remains of its
	// words are removed.
	ForgetText(id EnvelopeID) error
	// AddDelivery appends a row to the ledger; the store gives it its number. It, or
	// the Update, reports CodeNotFound when there is no such message.
	AddDelivery(d Delivery) error
	// PutDelivery stores status, times and error of the row with the number d.ID,
	// and reports CodeNotFound when there is none.
	PutDelivery(d Delivery) error
	// MarkProcessed remembers that the agent processed the message and
	// reports whether this was the first time.
	MarkProcessed(id EnvelopeID, agent AgentID, at Time) (bool, error)
	PutSessionMark(SessionMark) error
	AddReceipt(Receipt) error
	// Forget removes receipts and session marks older than a time and returns
	// how many there were, at most limit of each.
	Forget(before Time, limit int) (int, error)

	// Handoffs. A move and its step in the history are one operation: there is no way
	// to change the one without the other.

	// PutHandoff stores a new handoff with its first step and a short id if was is
	// empty. It reports CodeConflict when the id is taken, and CodeOwnership when
	// another handoff claims the task.
	//
	// Else it stores h with the step that moved it, provided the stored state
	// is still was; otherwise it reports CodeConflict. Package, task, sender
	// and receiver stay as they were. Without a step nothing moves: approval,
	// ownership and the time of escalation are stored.
	PutHandoff(h Handoff, was HandoffState, step *HandoffStep) error

	// Negotiations, disagreements and decisions.

	// PutDeliberation stores a new deliberation if d.Revision is 0, and reports
	// CodeConflict when its id is taken. Else it stores d provided the stored one
	// still has d.Revision; otherwise it reports CodeConflict. A deliberation that is
	// over does not change.
	PutDeliberation(d Deliberation) error
	// AddDecision reports CodeConflict when the id is taken.
	AddDecision(Decision) error

	// Runs.

	// PutRun stores a new run if was is empty. It reports CodeConflict when the
	// id is taken, and CodeNotFound when there is no such agent.
	//
	// Else it stores the progress of r, provided the stored state is still was;
	// otherwise it reports CodeConflict. Agent, task and place stay as they were.
	PutRun(r Run, was RunState) error

	// Subscriptions and copies.

	// AddSubscription reports CodeConflict when the id is taken.
	AddSubscription(Subscription) error
	// RemoveSubscription reports CodeNotFound when the agent has none with the id.
	RemoveSubscription(agent AgentID, id string) error
	// AddCopy notes that an agent is to get a copy. It reports CodeConflict when it
	// does so already.
	AddCopy(Copy) error
	// PutCopy stores that a copy which waits was made, or with "" that it is not to be
	// made: then it is removed. It reports CodeConflict when it does not wait.
	PutCopy(agent AgentID, message, copied EnvelopeID) error

	// The log of changes.

	// AddChange gives c its number and appends it.
	AddChange(c Change) error
	// DropChanges removes changes up to a number, at most limit of them, and
	// returns how many there were.
	DropChanges(upTo int64, limit int) (int, error)

	// Other hubs, their outboxes and invites.

	// PutPeer stores a peer, new or known.
	PutPeer(Peer) error
	// PutOutbox stores how far a peer has come, for the first time or again.
	PutOutbox(Outbox) error
	// AddDeadLetter keeps the newest 1,000 for each peer.
	AddDeadLetter(DeadLetter) error
	// PutInvite stores a new invite, or the redemption or revocation of a known
	// one. It reports CodeConflict when the id or hash of a new invite is taken,
	// or when the invite is redeemed or revoked already.
	PutInvite(i Invite) error
	// AddToken stores a new project token. It removes those that expired before the
	// new one was made: a token that has expired needs no record to be refused.
	AddToken(t Token) error
	// RevokeTokens revokes the live tokens of an agent, or the one with an id if agent
	// is "", and returns their ids.
	RevokeTokens(agent coord.AID, id string, at Time) ([]string, error)

	// Appends to the journal. There is no way to change it; only what an archive holds can be
	// removed.

	// Append gives e its number and hash and stores it.
	Append(e Entry) (Entry, error)
	// AddArchive notes that a file holds a part of the journal. From then on
	// Prune may remove that part.
	AddArchive(Archive) error
	// Prune removes what archives hold, at most limit entries and limit
	// messages, and returns how many of both there were.
	// The readers of an artifact leave with the last message that names it, except
	// those that stored it after the archive.
	Prune(limit int) (int, error)

	// Lets agents read the content of an artifact.

	// AddArtifactReader lets an agent read an artifact. It may do so already.
	AddArtifactReader(sha256 string, agent AgentID) error
	// RemoveArtifactReaders removes all readers of an artifact, whose content was
	// removed.
	RemoveArtifactReaders(sha256 string) error

	WriteTeamspaces() TeamWriter
	WriteCoordination() coord.Writer
	WriteWakes() WakeWriter
	WriteReservations() ReservationWriter
	WriteChecks() CheckWriter
	WriteLandings() LandingWriter
	WriteUsage() UsageWriter
	WriteContinuations() ContinuationWriter
	WriteKept() KeptWriter
	WriteEvents() EventWriter
	WriteTree() TreeWriter
}

// A Message is an envelope as it is stored, with its place in a chain of causes.
type Message struct {
	Envelope
	Hop   int        // how many messages caused this one, one after the other
	Cause EnvelopeID // the message that caused it, or ""
}

// A Page is a part of a longer list.
type Page struct {
	Messages []Message
	Next     string // cursor for the part after this one, or "" at the end
}

// An InboxFilter chooses from an agent's inbox.
type InboxFilter struct {
	NewOnly bool   // leave out messages that were fetched before
	Cursor  string // Next of the page before
	Limit   int    // how many at most; positive
	Bytes   int    // if positive, the page ends with the message that reaches so many as JSON
	Now     Time   // messages that expired by then are left out
}

// A Query chooses messages. Empty members do not restrict.
type Query struct {
	// Viewer restricts to messages that this agent sent or received, unless
	// Audit. A message that is held back from it was not received. A message with
	// visibility team can be read by the members of its team, and by those who were
	// members when it was sent.
	Viewer AgentID
	Audit  bool // the viewer may see everything

	Agent  AgentID // sender or recipient
	From   AgentID // sender
	To     AgentID // recipient
	Thread string
	Team   string // then, and with Thread, a viewer finds what it may read as a member, too
	Type   MessageType
	Status MessageStatus
	Topic  string
	Since  Time   // created at or after
	Until  Time   // created before
	Text   string // words that must all occur
	Held   bool   // waiting for a human; then the oldest come first
	Cursor string
	Limit  int // how many at most; positive
	Bytes  int // if positive, the page ends with the message that reaches so many as JSON
}

// A CountFilter chooses messages to count: those in an agent's inbox, fetched or
// not, or those of a thread.
type CountFilter struct {
	Inbox  AgentID
	Thread string      // if Inbox is empty
	Type   MessageType // of that thread; all if empty
	Limit  int         // the count stops here
}

// A SentFilter chooses among the messages of one sender.
type SentFilter struct {
	From  AgentID
	Since Time // at or after
	Limit int  // how many at most; positive
}

// A Sent is a trace of an earlier send, as much as limits need.
type Sent struct {
	At      Time
	To      []AgentID
	Type    MessageType
	Payload json.RawMessage
}

// A SessionMark is the last message that a session read. Without a session it is the last
// that any session of the agent read.
type SessionMark struct {
	Agent   AgentID
	Session string
	Message EnvelopeID // the fetched message with the most hops
	Hop     int
	At      Time
}

// A Receipt remembers the answer to a send that carried an idempotency key.
type Receipt struct {
	Actor   AgentID
	Key     string
	Request string // hash of the request
	Message EnvelopeID
	At      Time
}

// A MessageReader reads messages, their parties and their deliveries.
type MessageReader interface {
	Message(id EnvelopeID) (Message, error)
	// Parties returns the sender and every recipient, in no order, or those of
	// them that are named. It reports CodeNotFound when there is none.
	Parties(id EnvelopeID, only ...AgentID) ([]Party, error)
	// Inbox returns messages that are unread or delivered, most pressing first
	// and oldest first among equals.
	Inbox(agent AgentID, f InboxFilter) (Page, error)
	// Query returns matching messages, newest first.
	Query(q Query) (Page, error)
	// CountMessages counts matching messages up to the filter's limit.
	CountMessages(f CountFilter) (int, error)
	// Sent returns an agent's own messages of late, newest first, as rate limits
	// need them. Copies are not among them.
	Sent(f SentFilter) ([]Sent, error)
	// Expired returns messages that are pending or delivered though their
	// time has passed.
	Expired(now Time, limit int) ([]EnvelopeID, error)
	// Deliveries returns the ledger of a message in order.
	Deliveries(id EnvelopeID) ([]Delivery, error)
	// Processed reports whether the agent has processed the message.
	Processed(id EnvelopeID, agent AgentID) (bool, error)
	// NamesArtifact reports whether a message, a handoff or a version names the content
	// with this SHA-256.
	NamesArtifact(sha256 string) (bool, error)
	SessionMark(agent AgentID, session string) (SessionMark, error)
	Receipt(actor AgentID, key string) (Receipt, error)
}

// A TeamReader reads teams, their members, tasks and held actions, and the items of the
// hub's queue.
type TeamReader interface {
	Team(id TeamID) (Team, error)
	// Teams returns those that match, by name.
	Teams(q TeamQuery) ([]Team, error)
	// Members returns those that match, in the order of the ledger.
	Members(q MemberQuery) ([]Member, error)
	// Task returns a task of a team.
	Task(id TaskID) (Task, error)
	// Tasks returns the tasks of teams or the items that match.
	Tasks(q TaskQuery) ([]Task, error)
	// CountTasks counts the tasks of a team by state.
	CountTasks(team TeamID) (map[TaskState]int, error)
	HeldAction(id string) (HeldAction, error)
	// HeldActions returns those that wait, oldest first.
	HeldActions(limit int) ([]HeldAction, error)
	// TeamArtifact returns the artifact whose name differs from id at most in case.
	TeamArtifact(team TeamID, id string) (TeamArtifact, error)
	// TeamArtifacts returns those that match, by name.
	TeamArtifacts(q ArtifactQuery) ([]TeamArtifact, error)
	ArtifactVersion(team TeamID, id string, version int64) (ArtifactVersion, error)
	// ArtifactVersions returns those that match, newest first.
	ArtifactVersions(q VersionQuery) ([]ArtifactVersion, error)
	// Conflicts returns those that match, oldest first.
	Conflicts(q ConflictQuery) ([]Conflict, error)
}

// A TeamWriter writes teams, their members, tasks and held actions, and the items of the
// hub's queue.
type TeamWriter interface {
	// PutTeam stores a new team if t.Revision is 0, and reports CodeConflict when its
	// name is taken. Else it stores t provided the stored one still has t.Revision;
	// otherwise it reports CodeConflict. An archived team does not change.
	PutTeam(t Team) error
	// PutMember stores a new member at the end of the ledger if m.N is 0, and reports
	// CodeConflict when the agent has a role in the team now. Else it stores the end
	// of the member, which must not have ended.
	PutMember(m Member) error
	// PutTask stores a new task if t.Revision is 0, and gives it an id that no task and no
	// handoff had before. It reports CodeConflict for an item whose name another item has
	// that is not over. Else it stores t provided the stored one still has t.Revision;
	// otherwise it reports CodeConflict. A task that is over does not change. It returns
	// the id.
	PutTask(t Task) (TaskID, error)
	// PutHeldAction stores a new action, or the verdict about one that waits; it
	// reports CodeConflict when the id is taken, or the action does not wait.
	PutHeldAction(HeldAction) error
	// PutTeamArtifact stores a new artifact if a.Revision is 0, and reports
	// CodeConflict when its name is taken, in upper or lower case. Else it stores a
	// provided the stored one still has a.Revision; otherwise it reports CodeConflict.
	PutTeamArtifact(a TeamArtifact) error
	// AddArtifactVersion reports CodeConflict when the artifact has that version.
	// A version never changes.
	AddArtifactVersion(v ArtifactVersion) error
	// PutConflict stores a new conflict if c.Revision is 0, and reports CodeConflict
	// when its version has one. Else it stores c provided the stored one still has
	// c.Revision; otherwise it reports CodeConflict. A resolved one does not change.
	PutConflict(c Conflict) error
}

// A RootReader reads roots.
type RootReader interface {
	Roots() ([]Root, error) // by path
}

// A RootWriter writes roots.
type RootWriter interface {
	// AddRoot reports CodeConflict when the path is a root already.
	AddRoot(Root) error
	// RemoveRoot reports CodeNotFound when the path is no root.
	RemoveRoot(path string) error
}

// A JournalQuery chooses entries of the journal, in the order of their numbers.
// Empty members do not restrict.
type JournalQuery struct {
	After   int64  // numbers greater than this
	Subject string // about this subject
	Newest  bool   // the newest first, not the oldest
	Limit   int    // how many at most; positive
}

// A JournalReader reads the journal.
type JournalReader interface {
	// Journal returns the entries that match.
	Journal(q JournalQuery) ([]Entry, error)
	// Archives returns the archives, oldest first.
	Archives() ([]Archive, error)
	// MessagesBefore returns messages whose ids were made before a time, in
	// the order of their ids, beginning after an id. Messages about handoffs
	// are not among them: those stay for ever.
	MessagesBefore(t Time, after EnvelopeID, limit int) ([]Message, error)
}

// An Archive is a file with rows that the store no longer holds: the journal
// up to Seq, since the archive before it, and the messages whose ids were
// made before Cutoff.
type Archive struct {
	Seq      int64  `json:"seq"`
	Hash     string `json:"hash"` // of the entry Seq
	Cutoff   Time   `json:"cutoff,omitzero"`
	File     string `json:"file"`
	SHA256   string `json:"sha256"` // of the file
	Entries  int    `json:"entries"`
	Messages int    `json:"messages"`
	At       Time   `json:"at,omitzero"`
}

// A MetaReader reads cursors and other small facts about the hub itself.
type MetaReader interface {
	// Cursor returns how far a consumer of the journal has come; 0 if it has
	// not begun.
	Cursor(consumer string) (int64, error)
	Meta(key string) (string, error)
}

// A Lease is the right of one process to do some work alone.
type Lease struct {
	Name   string
	Number int64 // greater than that of every earlier holder; a fencing token
}

// A MetaWriter writes them.
type MetaWriter interface {
	// CheckLease reports CodeConflict unless l is the newest lease of its name,
	// so that nothing is stored by a process whose lease has passed on.
	CheckLease(l Lease) error
	PutCursor(consumer string, seq int64) error
	PutMeta(key, value string) error
}

// ReadMeta reads a fact that WriteMeta stored; the zero value if there is none.
func ReadMeta[T any](r MetaReader, key string) (T, error) {
	var out T
	raw, err := r.Meta(key)
	if CodeOf(err) == CodeNotFound {
		return out, nil
	}
	if err == nil {
		err = json.Unmarshal([]byte(raw), &out)
	}
	return out, err
}

// WriteMeta stores a small fact as JSON.
func WriteMeta(tx MetaWriter, key string, value any) error {
	raw, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return tx.PutMeta(key, string(raw))
}

// An InviteQuery chooses invites. Empty members do not restrict.
type InviteQuery struct {
	ID      string
	Hash    string // of the secret
	Project coord.ProjectID
	Limit   int // how many at most; positive
}

// A Bus carries hints from goroutines that write to goroutines that wait. It
// never carries truth: a hint may be lost, and its receiver reads the store.
type Bus interface {
	// Publish wakes the subscribers of a topic. It does not wait for them.
	Publish(topic string)
	// Subscribe returns a channel that receives after each Publish to one of
	// the topics, hints that come close together as one. cancel ends it; the
	// channel is never closed.
	Subscribe(topics ...string) (hints <-chan struct{}, cancel func())
}

// TopicJournal is where a hint goes after every change.
const TopicJournal = "journal"

// TopicChanges is where a hint goes after every change in coordination.
const TopicChanges = "changes"

// TopicChecks is where a hint goes after every change of a result of a check.
const TopicChecks = "checks"

// TopicInbox is where a hint goes when something new lies in an inbox.
func TopicInbox(agent AgentID) string { return "inbox/" + string(agent) }
