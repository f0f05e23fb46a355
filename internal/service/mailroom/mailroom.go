// Package mailroom takes messages in, decides whether they may pass, and keeps
// the ledger of what became of them.
//
// A message is checked whole before anything is written. Once Send has
// returned nil the message, its ledger rows and its journal entry are kept,
// together or not at all. "Sent" never means "delivered": the answer says for
// each recipient what is known, and a forecast of when it will be seen.
//
// The mailroom does not know how agents run. Ways to them other than the inbox
// come in as a Channel, and stay off until a probe has verified them.
package mailroom

import (
	"cmp"
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
	"github.com/parley-agents/parley/internal/strictjson"
)

// Options changes how a Mailroom works. The zero value works.
type Options struct {
	Clock    hub.Clock     // default time.Now
	Bus      hub.Bus       // where hints go; without one nobody is woken
	Log      *slog.Logger  // default silent
	Limits   Limits        // zero members mean the default
	Features []hub.Feature // what is switched on beyond the base protocol
	Channels []Channel     // ways to recipients besides the inbox

	// Enabled names the channels that the operator has switched on. One that
	// no probe has verified stays off all the same.
	Enabled []hub.Channel

	// Lenient ignores a sender that the input claims, with a warning, in place
	// of refusing the call.
	Lenient bool

	// Stopping ends every wait at an inbox when it is closed; may be nil.
	Stopping <-chan struct{}

	// InboxDir is where inboxes are rendered as Markdown files; "" for nowhere.
	InboxDir string
}

// A Mailroom is safe for concurrent use.
type Mailroom struct {
	store     hub.Store
	directory Directory
	clock     hub.Clock
	ids       *hub.IDs
	bus       hub.Bus
	log       *slog.Logger
	limits    Limits
	features  map[hub.Feature]bool
	channels  map[hub.Channel]Channel
	enabled   map[hub.Channel]bool
	lenient   bool
	inboxDir  string
	stopping  <-chan struct{}

	mu      sync.Mutex // guards what follows
	waiting map[hub.AgentID]int
	probed  map[hub.Channel]hub.Capability
	tallies map[hub.AgentID]tally
	forgot  hub.Time // when forget last ran
}

// A Directory knows who is there.
type Directory interface {
	// Lookup returns an agent and whether it can log in. It reports
	// CodeNotFound when there is no such agent.
	Lookup(ctx context.Context, id hub.AgentID) (hub.Agent, bool, error)
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
		features: map[hub.Feature]bool{}, channels: map[hub.Channel]Channel{}, enabled: map[hub.Channel]bool{},
		lenient: o.Lenient, inboxDir: o.InboxDir, stopping: o.Stopping,
		waiting: map[hub.AgentID]int{}, probed: map[hub.Channel]hub.Capability{}, tallies: map[hub.AgentID]tally{},
	}
	for _, f := range o.Features {
		if !slices.Contains(hub.Features, f) {
			return nil, hub.Errorf(hub.CodeInvalid, "mailroom.New", "%q is not a feature", f).WithHint("the features are %v", hub.Features)
		}
		m.features[f] = true
	}
	for _, c := range o.Channels {
		m.channels[c.Name()] = c
	}
	for _, c := range o.Enabled {
		if !slices.Contains(hub.Channels, c) {
			return nil, hub.Errorf(hub.CodeInvalid, "mailroom.New", "%q is not a channel", c).WithHint("the channels are %v", hub.Channels)
		}
		m.enabled[c] = true
	}
	return m, nil
}

type silentBus struct{}

func (silentBus) Publish(string) {}
func (silentBus) Subscribe(...string) (<-chan struct{}, func()) {
	return nil, func() {}
}

// A Draft is a message as a caller asks for it. What the hub knows better
// (sender, id, times, status) is not in it.
type Draft struct {
	To             []hub.AgentID
	Type           hub.MessageType
	Payload        strictjson.Value // checked where the request came in
	Text           string           // plain text in place of Payload
	Policy         *hub.Policy
	Team           string
	ThreadID       string
	ReplyTo        hub.EnvelopeID
	Priority       hub.Priority
	Topic          string
	ExpiresAt      hub.Time
	Sequence       *int64
	Context        *hub.Context
	IdempotencyKey string

	Version string          // "" or one with the same major as hub.Version
	Claimed *string         // a sender that the input claims; nil if it claims none
	Extra   json.RawMessage // members nobody knows here: kept, with a warning
}

// A Receipt is the answer to a send.
type Receipt struct {
	ID           hub.EnvelopeID    `json:"id"`
	Status       hub.MessageStatus `json:"status"`
	ThreadID     string            `json:"thread_id"`
	Deliveries   []Leg             `json:"deliveries"`
	Warnings     []string          `json:"warnings"`
	Capabilities hub.Capabilities  `json:"capabilities"`
	Unread       int               `json:"unread"`              // in the caller's own inbox, counted up to 25
	Duplicate    bool              `json:"duplicate,omitempty"` // the answer to an earlier send with the same idempotency key
}

// A Leg is what is known about the way to one recipient over one channel.
type Leg struct {
	Recipient hub.AgentID        `json:"recipient"`
	Channel   hub.Channel        `json:"channel"`
	Status    hub.DeliveryStatus `json:"status"`
	Reach     hub.Reach          `json:"reach"`
	Reason    string             `json:"reason,omitempty"` // why this forecast
	Error     string             `json:"error,omitempty"`  // why the attempt was not made or failed
}

// maxUnread is how far unread messages are counted for an answer.
const maxUnread = 25

// idempotencyFor is how long an idempotency key is remembered.
const idempotencyFor = 24 * time.Hour

// sent is everything that writing one message produced.
type sent struct {
	message hub.Message
	legs    []Leg
	again   bool // an earlier message with the same idempotency key
}

// Send takes a message in. See the package comment for what nil means.
func (m *Mailroom) Send(ctx context.Context, actor hub.Caller, d Draft) (Receipt, error) {
	const op = "mailroom.Send"
	e, warnings, err := m.prepare(op, actor, d)
	if err != nil {
		return Receipt{}, err
	}
	// Who is there is looked up beside the writer: agents are never removed.
	to, err := m.recipients(ctx, op, actor, e)
	if err != nil {
		return Receipt{}, fmt.Errorf("mailroom: send: %w", err)
	}
	// What takes time is done beside the writer, too. The journal's facts are
	// those of a message that follows from no other; one that does has to wait.
	first := hub.Message{Envelope: e}
	first.ThreadID = cmp.Or(e.ThreadID, string(e.ID))
	firstFacts, err := factsOf(first, len(to))
	if err != nil {
		return Receipt{}, fmt.Errorf("mailroom: send: %w", err)
	}
	request := ""
	if d.IdempotencyKey != "" {
		request = hashDraft(d)
	}

	var out sent
	err = m.store.Update(ctx, durability(e), func(tx hub.Tx) error {
		out = sent{}
		if d.IdempotencyKey != "" {
			again, err := m.repeated(ctx, tx, op, actor, d.IdempotencyKey, request)
			if err != nil || again.again {
				out = again
				return err
			}
		}
		msg, facts := hub.Message{Envelope: e}, firstFacts // fn may run again
		if err := m.place(tx, op, actor, &msg); err != nil {
			return err
		}
		if err := m.guard(tx, op, actor, &msg); err != nil {
			return err
		}
		var err error
		if msg.ThreadID != first.ThreadID || msg.Cause != "" {
			if facts, err = factsOf(msg, len(to)); err != nil {
				return err
			}
		}
		if out.legs, err = m.write(tx, msg, to, facts); err != nil {
			return err
		}
		if d.Claimed != nil {
			if _, err := tx.Append(hub.Entry{At: e.CreatedAt, Actor: actor.ID, Action: hub.ActionClaimIgnored, Subject: string(e.ID), Outcome: hub.OutcomeOK}); err != nil {
				return err
			}
		}
		if msg.ReplyTo != "" {
			if err := m.answered(tx, actor, msg.ReplyTo); err != nil {
				return err
			}
		}
		if d.IdempotencyKey != "" {
			if err := tx.AddReceipt(hub.Receipt{Actor: actor.ID, Key: d.IdempotencyKey, Request: request, Message: e.ID, At: e.CreatedAt}); err != nil {
				return err
			}
		}
		out.message = msg
		return nil
	})
	var trip *tripped
	if errors.As(err, &trip) {
		if err := m.openBreaker(ctx, actor, trip); err != nil {
			return Receipt{}, fmt.Errorf("mailroom: suspend %s: %w", actor.ID, err)
		}
	}
	if err != nil {
		return Receipt{}, fmt.Errorf("mailroom: send: %w", err)
	}
	if !out.again {
		if out.message.ReplyTo != "" {
			m.recount(actor.ID) // what was answered is out of the inbox
		}
		m.announce(out)
	}
	return m.receipt(ctx, actor, out, warnings), nil
}

// durability asks for a synced commit where somebody may be harmed by the
// loss of a message that was acknowledged.
func durability(e hub.Envelope) hub.Durability {
	if e.Priority.Urgent() || e.Policy.HumanGate == hub.GateRequired {
		return hub.SurvivesPowerLoss
	}
	return hub.SurvivesKill
}

// hashDraft identifies what was asked for, so that the same idempotency key
// with another request can be told apart.
func hashDraft(d Draft) string {
	d.IdempotencyKey = ""
	b, err := json.Marshal(d)
	if err != nil {
		return "" // raw members were checked before; an empty hash matches itself
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// repeated looks for an earlier send with the same idempotency key.
func (m *Mailroom) repeated(ctx context.Context, tx hub.Tx, op string, actor hub.Caller, key, request string) (sent, error) {
	r, err := tx.Receipt(actor.ID, key)
	switch {
	case hub.CodeOf(err) == hub.CodeNotFound:
		return sent{}, nil
	case err != nil:
		return sent{}, err
	case r.Request != request:
		return sent{}, hub.Errorf(hub.CodeConflict, op, "the idempotency key %q was used for another message, %s", key, r.Message).
			WithHint("use a new key for a new message")
	}
	out := sent{again: true}
	if out.message, err = tx.Message(r.Message); err != nil {
		return sent{}, err
	}
	ledger, err := tx.Deliveries(r.Message)
	if err != nil {
		return sent{}, err
	}
	for _, d := range ledger {
		_, keyed, err := m.directory.Lookup(ctx, d.Recipient)
		if err != nil {
			return sent{}, err
		}
		out.legs = append(out.legs, m.leg(d, keyed))
	}
	return out, nil
}

// A tally is how much lay in an inbox at a time.
type tally struct {
	n  int
	at time.Time
}

// tallyFor is how long a tally is believed. It keeps a busy sender from
// counting its inbox with every message.
const tallyFor = time.Second

// unread counts what lies in an inbox, up to maxUnread.
func (m *Mailroom) unread(ctx context.Context, agent hub.AgentID) (int, error) {
	now := m.clock()
	m.mu.Lock()
	t, ok := m.tallies[agent]
	m.mu.Unlock()
	if ok && now.Sub(t.at) < tallyFor {
		return t.n, nil
	}
	err := m.store.View(ctx, func(r hub.Reader) (err error) {
		t.n, err = r.Unread(agent, maxUnread)
		return err
	})
	if err != nil {
		return 0, err
	}
	m.mu.Lock()
	m.tallies[agent] = tally{t.n, now} // as many as there are agents
	m.mu.Unlock()
	return t.n, nil
}

// recount makes the next answer to an agent count its inbox again.
func (m *Mailroom) recount(agent hub.AgentID) {
	m.mu.Lock()
	delete(m.tallies, agent)
	m.mu.Unlock()
}

// arrived notes that something new lies in an inbox, and wakes who waits there.
func (m *Mailroom) arrived(agent hub.AgentID) {
	m.mu.Lock()
	if t, ok := m.tallies[agent]; ok {
		m.tallies[agent] = tally{min(t.n+1, maxUnread), t.at}
	}
	m.mu.Unlock()
	m.bus.Publish(hub.TopicInbox(agent))
}

// announce wakes those who wait for the message.
func (m *Mailroom) announce(s sent) {
	if s.message.Policy.HumanGate != hub.GateRequired {
		for _, l := range s.legs {
			if l.Channel == hub.ChannelInbox {
				m.arrived(l.Recipient)
			}
		}
	}
	m.bus.Publish(hub.TopicJournal)
}

// warn returns the warnings of an answer with those that every answer carries.
func (m *Mailroom) warn(warnings []string) []string {
	if warnings == nil {
		warnings = []string{}
	}
	if m.limits.Unsafe {
		warnings = append(warnings, "this hub runs with --unsafe-limits: rate limits and the circuit breaker are off")
	}
	return warnings
}

func (m *Mailroom) receipt(ctx context.Context, actor hub.Caller, s sent, warnings []string) Receipt {
	r := Receipt{
		ID: s.message.ID, Status: s.message.Status, ThreadID: s.message.ThreadID, Deliveries: s.legs,
		Warnings: m.warn(warnings), Capabilities: m.Capabilities(), Duplicate: s.again,
	}
	var err error
	if r.Unread, err = m.unread(ctx, actor.ID); err != nil {
		// The message is sent; that must be said whatever else fails.
		r.Warnings = append(r.Warnings, "what lies in your inbox could not be counted")
	}
	return r
}
