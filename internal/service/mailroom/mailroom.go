// Package mailroom accepts messages, enforces policy and limits, and keeps the
// ledger of their deliveries.
//
// A message is checked completely before anything is written. When Send returns
// nil, the message, its ledger rows and its journal entry are stored, all in one
// transaction. "Sent" never means "delivered": the receipt has for each recipient
// the state of the delivery and a forecast of when the recipient will see it.
//
// Every message takes one path, which path.go has from top to bottom: it is composed,
// checked, saved and announced. Send, Post, Notify, Tell and the other writers differ in the
// rules that they are held to, and a table lists those.
//
// The mailroom does not know how agents run. Messages are announced by a Router over
// channels other than the inbox; without one there is the inbox alone.
//
// It is tested here on a real store, in internal/testing/hubtest with a store whose calls fail, and
// through a hub by the tests of server and the scripts of cmd/parley.
package mailroom

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/ground/strictjson"
)

// Options changes how a Mailroom works. The zero value works.
type Options struct {
	Clock    hub.Clock     // default time.Now
	Bus      hub.Bus       // carries hints; without one no long poll is woken
	Log      *slog.Logger  // default silent
	Limits   Limits        // zero members mean the default
	Features []hub.Feature // the features that are on beyond the base protocol
	Router   Router        // announces messages over other channels than the inbox; may be nil

	// Lenient ignores a sender in the input, with a warning, where the call would
	// be refused otherwise.
	Lenient bool

	// Capabilities are further capabilities of the hub, by name, which every answer
	// carries. They are called inside transactions and must not block; may be nil.
	Capabilities map[string]func() hub.Capability

	// WaitsElsewhere reports whether an agent waits for messages at another hub of the
	// store; may be nil.
	WaitsElsewhere func(hub.AgentID) bool

	// Stopping ends every long poll when it is closed; may be nil.
	Stopping <-chan struct{}

	// Artifacts keeps long texts and files; without it a long text is refused.
	Artifacts Artifacts

	// InboxDir is the folder of the Markdown files of inboxes; with "" there are
	// none.
	InboxDir string
}

// A Mailroom handles the messages of a hub. It is safe for concurrent use.
type Mailroom struct {
	store     hub.Store
	directory Directory
	clock     hub.Clock
	ids       *hub.IDs
	bus       hub.Bus
	log       *slog.Logger
	limits    Limits
	features  map[hub.Feature]bool
	router    Router
	lenient   bool
	inboxDir  string
	artifacts Artifacts
	stopping  <-chan struct{}
	elsewhere func(hub.AgentID) bool           // may be nil
	further   map[string]func() hub.Capability // capabilities besides the channels
	moderator Moderator                        // nil if no feature needs one

	mu      sync.Mutex                  // guards the fields below
	waiters map[hub.AgentID]int         // long polls per inbox
	counts  map[hub.AgentID]unreadCount // recent counts, at most one per agent
	forgot  hub.Time                    // when forget last ran
}

// A Moderator keeps the state of negotiations and disagreements.
type Moderator interface {
	// Admit judges a task.* or position.* message to these recipients, inside the
	// transaction that stores it, and sets its sequence and its thread.
	Admit(tx hub.Tx, actor hub.Caller, msg *hub.Message, to []hub.AgentID) (hub.Admission, error)
	// Committed is called after the message was committed.
	Committed(ctx context.Context, d hub.Deliberation)
	// Seen notes that messages were returned to an agent.
	Seen(ctx context.Context, actor hub.Caller, messages []hub.Envelope) error
}

// Moderate gives the messages of negotiations and disagreements to a moderator; call it
// before the mailroom is used. Without one their types are refused.
func (m *Mailroom) Moderate(by Moderator) { m.moderator = by }

// A Directory knows the agents of the hub.
type Directory interface {
	// Lookup returns an agent and whether it can log in. It reports
	// CodeNotFound when there is no such agent.
	Lookup(ctx context.Context, id hub.AgentID) (hub.Agent, bool, error)
	// Keyed reports whether an agent has a key that is valid now, or was a moment ago.
	// It reports CodeNotFound for an unknown name.
	Keyed(ctx context.Context, id hub.AgentID) (bool, error)
	// HasKey reports whether an agent can log in. It is for callers inside a
	// transaction and reads with r.
	HasKey(r hub.Reader, id hub.AgentID) (bool, error)
}

// New returns a mailroom that keeps messages in store and finds agents in
// directory. opts may be nil. It reports CodeInvalid when a limit is looser
// than the protocol allows.
func New(store hub.Store, directory Directory, opts *Options) (*Mailroom, error) {
	o := Options{}
	if opts != nil {
		o = *opts
	}

	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.Bus == nil {
		o.Bus = silentBus{}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}

	limits, err := o.Limits.complete()
	if err != nil {
		return nil, err
	}

	m := &Mailroom{
		store: store, directory: directory, clock: o.Clock, ids: hub.NewIDs(o.Clock), bus: o.Bus, log: o.Log, limits: limits,
		features: map[hub.Feature]bool{}, router: o.Router,
		lenient: o.Lenient, inboxDir: o.InboxDir, artifacts: o.Artifacts, stopping: o.Stopping, elsewhere: o.WaitsElsewhere, further: o.Capabilities,
		waiters: map[hub.AgentID]int{}, counts: map[hub.AgentID]unreadCount{},
	}

	for _, f := range o.Features {
		if !slices.Contains(hub.Features, f) {
			return nil, hub.Errorf(hub.CodeInvalid, "mailroom.New", "unknown feature %q", f).WithHint("the features are %s", hub.JoinWords(hub.Features))
		}
		m.features[f] = true
	}
	return m, nil
}

type silentBus struct{}

func (silentBus) Publish(string) {}
func (silentBus) Subscribe(...string) (<-chan struct{}, func()) {
	return nil, func() {}
}

// A Draft is a message as a caller requests it. Sender, id, times and status are
// not in it: the hub sets them.
type Draft struct {
	To             []hub.AgentID
	Type           hub.MessageType
	Payload        strictjson.Value // checked by the surface
	Text           string           // plain text in place of Payload; kept as an artifact if it is long
	Long           string           // a text to keep as an artifact, beside a payload with its beginning
	Policy         *hub.Policy
	Team           string
	ThreadID       string
	ReplyTo        hub.EnvelopeID
	Priority       hub.Priority
	Topic          string
	ExpiresAt      hub.Time
	AckBy          string // when every recipient is to have acknowledged it: a span from now, or a time
	Sequence       *int64
	Context        *hub.Context
	IdempotencyKey string

	anchor string        // the offer that Text answers; see Mailroom.refer
	whole  bool          // To was a team, and is its members now
	wide   bool          // the team has more members than a message may name
	retry  *retry        // what Text and Payload repeat; see Mailroom.Retry
	closed []hub.AgentID // members that take no messages of the sender, and do not get this one

	Version string          // "" or one with the same major as hub.Version
	Claimed *string         // the sender in the input; nil if there is none
	Extra   json.RawMessage // members that the protocol does not define: kept, with a warning
}

// A Receipt is the answer to a send.
type Receipt struct {
	ID           hub.EnvelopeID    `json:"id"`
	ShortID      hub.ShortID       `json:"short_id,omitempty"`
	Status       hub.MessageStatus `json:"status"`
	ThreadID     string            `json:"thread_id"`
	Deliveries   []Forecast        `json:"deliveries"`
	Warnings     []string          `json:"warnings"`
	Capabilities hub.Capabilities  `json:"capabilities"`
	Unread       int               `json:"unread"`              // in the caller's own inbox, counted up to 25
	Duplicate    bool              `json:"duplicate,omitempty"` // the answer to an earlier send with the same idempotency key

	// Of an acceptance that came after another one: it was not stored, Type is
	// system.ack and Status already_claimed.
	Type      hub.MessageType `json:"type,omitempty"`
	ClaimedBy hub.AgentID     `json:"claimed_by,omitempty"`
	ClaimedAt hub.Time        `json:"claimed_at,omitzero"`

	// Of a decision: Type is system.ack, Status the state of the thread, and this is the
	// result in a sentence. No message was stored for the caller.
	Decided string `json:"decided,omitempty"`
}

// AlreadyClaimed is the status in the answer to an acceptance that came too late.
const AlreadyClaimed hub.MessageStatus = "already_claimed"

// A Forecast is the state of the delivery to one recipient over one channel, and
// when the recipient will see the message.
type Forecast struct {
	Recipient hub.AgentID        `json:"recipient"`
	Channel   hub.Channel        `json:"channel"`
	Status    hub.DeliveryStatus `json:"status"`
	Reach     hub.Reach          `json:"reach"`
	Reason    string             `json:"reason,omitempty"` // the reason of the forecast
	Error     string             `json:"error,omitempty"`  // the reason why the attempt was not made or failed
}

// maxUnread is the highest count of unread messages in an answer.
const maxUnread = 25

// idempotencyFor is the lifetime of an idempotency key.
const idempotencyFor = 24 * time.Hour

// sendError returns the error of a send, and suspends an actor that repeats itself.
func (m *Mailroom) sendError(ctx context.Context, actor hub.Caller, err error) error {
	var repeat *repeatError
	if errors.As(err, &repeat) {
		if err := m.openBreaker(ctx, actor, repeat); err != nil {
			return fmt.Errorf("mailroom: suspend %s: %w", actor.ID, err)
		}
	}
	return fmt.Errorf("mailroom: send: %w", err)
}

// durability returns SurvivesPowerLoss for messages whose loss after the
// acknowledgement does harm: urgent ones, and those with a human gate.
func durability(e hub.Envelope) hub.Durability {
	if e.Priority.Urgent() || e.Policy.HumanGate == hub.GateRequired {
		return hub.SurvivesPowerLoss
	}
	return hub.SurvivesKill
}

// hashDraft identifies a request, to refuse the same idempotency key with another
// request.
func hashDraft(d Draft) string {
	d.IdempotencyKey = ""
	b, err := json.Marshal(d)
	if err != nil {
		return "" // raw members were checked before; an empty hash matches itself
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// repeated returns the result of an earlier send with the same idempotency key.
func (m *Mailroom) repeated(tx hub.Tx, op string, actor hub.Caller, key, request string) (sendResult, error) {
	r, err := tx.Receipt(actor.ID, key)
	switch {
	case hub.CodeOf(err) == hub.CodeNotFound:
		return sendResult{}, nil
	case err != nil:
		return sendResult{}, err
	case r.Request != request:
		return sendResult{}, hub.Errorf(hub.CodeConflict, op, "idempotency key %q was already used for message %s", key, r.Message).
			WithHint("use a new key for a new message")
	}
	out := sendResult{again: true}
	if out.message, err = tx.Message(r.Message); err != nil {
		return sendResult{}, err
	}
	if out.short, err = tx.ShortID(string(r.Message)); err != nil {
		return sendResult{}, err
	}
	out.forecasts, err = m.forecasts(tx, out.message)
	return out, err
}

// forecasts returns the forecast for every row of the ledger of a stored message.
func (m *Mailroom) forecasts(r hub.Reader, msg hub.Message) (out []Forecast, err error) {
	ledger, err := r.Deliveries(msg.ID)
	if err != nil {
		return nil, err
	}
	for _, d := range ledger {
		keyed, err := m.directory.HasKey(r, d.Recipient)
		if err != nil {
			return nil, err
		}
		f, err := m.forecast(r, d, msg, keyed)
		if err != nil {
			return nil, err
		}
		out = append(out, f)
	}
	return out, nil
}

// ForecastOffer returns the forecasts for the newest handoff.initiate of a thread that
// the actor sent.
func (m *Mailroom) ForecastOffer(ctx context.Context, actor hub.Caller, thread string) ([]Forecast, error) {
	return hub.Read(ctx, m.store, func(r hub.Reader) ([]Forecast, error) {
		page, err := r.Query(hub.Query{Viewer: actor.ID, From: actor.ID, Thread: thread, Type: hub.TypeHandoffInitiate, Limit: 1})
		if err != nil || len(page.Messages) == 0 {
			return nil, err
		}
		msg, err := r.Message(page.Messages[0].ID)
		if err != nil {
			return nil, err
		}
		return m.forecasts(r, msg)
	})
}

// An unreadCount is the number of unread messages of an inbox at a time.
type unreadCount struct {
	n  int
	at time.Time
}

// countFor is the lifetime of an unreadCount. It keeps a busy sender from counting
// its inbox with every message.
const countFor = time.Second

// unread counts the unread messages of an inbox, up to maxUnread.
func (m *Mailroom) unread(ctx context.Context, agent hub.AgentID) (int, error) {
	now := m.clock()
	m.mu.Lock()
	t, ok := m.counts[agent]
	m.mu.Unlock()
	if ok && now.Sub(t.at) < countFor {
		return t.n, nil
	}
	err := m.store.View(ctx, func(r hub.Reader) (err error) {
		t.n, err = r.CountMessages(hub.CountFilter{Inbox: agent, Limit: maxUnread})
		return err
	})
	if err != nil {
		return 0, err
	}
	m.mu.Lock()
	m.counts[agent] = unreadCount{t.n, now}
	m.mu.Unlock()
	return t.n, nil
}

// recount makes the next answer to an agent count its inbox again.
func (m *Mailroom) recount(agent hub.AgentID) {
	m.mu.Lock()
	delete(m.counts, agent)
	m.mu.Unlock()
}

// notifyInbox counts a new message in an inbox and wakes its long polls.
func (m *Mailroom) notifyInbox(agent hub.AgentID) {
	m.mu.Lock()
	if t, ok := m.counts[agent]; ok {
		m.counts[agent] = unreadCount{min(t.n+1, maxUnread), t.at}
	}
	m.mu.Unlock()
	m.bus.Publish(hub.TopicInbox(agent))
}

// warn returns the warnings of an answer, with those of the hub added.
func (m *Mailroom) warn(warnings []string) []string {
	if warnings == nil {
		warnings = []string{}
	}
	if m.limits.Unsafe {
		warnings = append(warnings, "this hub runs with --unsafe-limits: rate limits and the circuit breaker are off")
	}
	return warnings
}

func (m *Mailroom) receipt(ctx context.Context, actor hub.Caller, s sendResult, warnings []string) Receipt {
	r := Receipt{
		ID: s.message.ID, ShortID: s.short, Status: s.message.Status, ThreadID: s.message.ThreadID, Deliveries: s.forecasts,
		Warnings: m.warn(warnings), Capabilities: m.Capabilities(), Duplicate: s.again,
	}
	var err error
	if r.Unread, err = m.unread(ctx, actor.ID); err != nil {
		// The message is stored, so the call succeeds.
		r.Warnings = append(r.Warnings, "your unread messages could not be counted")
	}
	return r
}
