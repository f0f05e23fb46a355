// Package event turns events from outside of the hub into messages: a push, a result of CI, a
// review or a comment on a code host, or the word of any program that holds a secret.
//
// A source is a place that events come from; sources.go has the operator's changes of them. Its
// events come from a webhook or from questions to the API of a vendor, whose forms are not known
// here: [Service.Receive] takes a hub.Event. In one transaction it compares the event with those of
// the last seven days, chooses the recipients, and writes a message from in:NAME. owner.go finds
// the agent that works on a branch, commit or task.
//
// The words in an event are those of others. They are in the payload of the message, bounded, and in
// nothing else: no notice, no journal entry and no log has them. A message of somebody who is no
// member of the repository has low priority, which never starts a turn.
//
// Requests that are refused are counted in memory and stored as numbers by [Service.Run], so that a
// flood of them grows no table and not the journal.
//
// The package opens no port and checks no signature: surface/intake does.
package event

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/coord"
	"github.com/parley-agents/parley/internal/ground/text/shorten"
)

const (
	keepDeliveries = 7 * 24 * time.Hour
	storeCounts    = 30 * time.Second // between two times that counts are stored
	sweepEvery     = time.Hour        // between two times that old deliveries are dropped
	leaseTime      = time.Minute
)

// Mail writes messages.
type Mail interface {
	// Post writes a message on an actor's behalf inside tx.
	Post(tx hub.Tx, actor hub.Caller, e hub.Envelope, fresh bool) (hub.Message, error)
	// MayWrite reports whether an agent takes messages of a sender.
	MayWrite(rd hub.Reader, from, to hub.AgentID) (bool, error)
	// Announce wakes the long polls of the recipients of committed messages.
	Announce(...hub.Message)
}

// A Vault keeps the secrets of sources.
type Vault interface {
	Seal(secret, place string) string
	Open(sealed, place string) (string, error)
}

// Options changes how a Service works. The zero value works.
type Options struct {
	Clock hub.Clock    // default time.Now
	Bus   hub.Bus      // gets a hint after every change; may be nil
	Log   *slog.Logger // default silent
	Teams bool         // the hub has teams

	// AID returns the name across hubs of an agent of this hub. It may be nil.
	AID func(hub.AgentID) coord.AID
	// Remotes returns the addresses of the remotes of the repository in a folder that are on other
	// machines; none if it is not known. It may be nil.
	Remotes func(ctx context.Context, folder string) []string
	// Changed is called after sources were changed. It may be nil.
	Changed func()
}

// A Service keeps sources in a store. It is safe for concurrent use.
type Service struct {
	store hub.Store
	mail  Mail
	vault Vault
	o     Options

	mu      sync.Mutex // guards the fields below
	counts  map[string]map[hub.EventOutcome]int64
	doors   map[string]Door // sources by name, as they were read last
	read    time.Time       // when doors was read; zero if it must be read again
	changes int             // of sources, by this process
}

// New returns a Service. opts may be nil.
func New(store hub.Store, mail Mail, vault Vault, opts *Options) *Service {
	s := &Service{store: store, mail: mail, vault: vault, counts: map[string]map[hub.EventOutcome]int64{}}
	if opts != nil {
		s.o = *opts
	}
	if s.o.Clock == nil {
		s.o.Clock = time.Now
	}
	if s.o.Log == nil {
		s.o.Log = slog.New(slog.DiscardHandler)
	}
	return s
}

// A Door is a source as a request meets it, with its secret.
type Door struct {
	Name   string
	Vendor hub.EventVendor
	Secret string
	Fields map[string]string
}

// doorAge is how long sources are remembered between requests. Changes by another hub on the same
// database are seen after it.
const doorAge = 5 * time.Second

// Door returns a source by its name. It reports CodeNotFound when there is none. A flood of
// requests reads the store once in a while.
func (s *Service) Door(ctx context.Context, name string) (Door, error) {
	now := s.o.Clock.Now()
	s.mu.Lock()
	doors := s.doors
	isOld := s.read.IsZero() || now.Sub(s.read).Abs() >= doorAge
	s.mu.Unlock()
	if isOld {
		var err error
		if doors, err = s.readDoors(ctx, now.Time); err != nil {
			return Door{}, err
		}
	}
	d, ok := doors[name]
	if !ok {
		return Door{}, hub.Errorf(hub.CodeNotFound, "event.Door", "no event source %s", shorten.Quote(name))
	}
	return d, nil
}

// readDoors reads the sources with their secrets. A source that is changed meanwhile makes the next
// request read them again.
func (s *Service) readDoors(ctx context.Context, now time.Time) (map[string]Door, error) {
	s.mu.Lock()
	changes := s.changes
	s.mu.Unlock()
	all, err := hub.Read(ctx, s.store, func(rd hub.Reader) ([]hub.EventSource, error) { return rd.Events().Sources() })
	if err != nil {
		return nil, fmt.Errorf("event: read sources: %w", err)
	}
	doors := map[string]Door{}
	for _, src := range all {
		secret, err := s.vault.Open(src.Sealed, place(src.Name))
		if err != nil {
			s.o.Log.Warn("the secret of an event source cannot be read, its events are refused", "source", src.Name, "err", err)
			continue
		}
		doors[src.Name] = Door{Name: src.Name, Vendor: src.Vendor, Secret: secret, Fields: src.Fields}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.changes == changes {
		s.doors = doors
		s.read = now
	}
	return doors, nil
}

// place is the context that the sealed secret of a source is bound to.
func place(name string) string { return "event source " + name }

// pollPlace is the context that the sealed token of a poll is bound to.
func pollPlace(name, repository string) string { return "event poll " + name + " " + repository }

// Count counts the outcome of a request that stored nothing. It writes nothing: Run stores the
// counts from time to time.
func (s *Service) Count(source string, outcome hub.EventOutcome) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.counts[source] == nil {
		s.counts[source] = map[hub.EventOutcome]int64{}
	}
	s.counts[source][outcome]++
}

// A Receipt says what became of an event.
type Receipt struct {
	Outcome hub.EventOutcome `json:"outcome"`
	Message hub.EnvelopeID   `json:"message,omitempty"`
	To      []hub.AgentID    `json:"-"`
}

// Receive stores an event of a source as a message, once. The signature of the event was checked.
func (s *Service) Receive(ctx context.Context, source string, e hub.Event) (Receipt, error) {
	e.Source = source
	remotes, err := s.remotes(ctx, e)
	if err != nil {
		return Receipt{}, err
	}
	var out Receipt
	var msg hub.Message
	err = s.store.Update(ctx, hub.SurvivesKill, func(tx hub.Tx) (err error) {
		out = Receipt{} // the store may run a transaction again
		msg = hub.Message{}
		src, err := tx.Events().Source(source)
		if err != nil {
			return err
		}
		repeated, err := s.note(tx, source, e.Deliveries)
		if err != nil {
			return err
		}
		d := decide(src, e)
		switch {
		case repeated:
			out.Outcome = hub.EventRepeated
		case d.ignored:
			out.Outcome = hub.EventIgnored
		default:
			if msg, err = s.post(tx, src, e, d, remotes); err != nil {
				return err
			}
			out = Receipt{Outcome: hub.EventStored, Message: msg.ID, To: msg.To}
			if msg.Priority == hub.PriorityLow {
				out.Outcome = hub.EventQuiet
			}
		}
		return nil
	})
	if err != nil {
		return Receipt{}, fmt.Errorf("event: receive: %w", err)
	}
	s.Count(source, out.Outcome)
	s.mail.Announce(msg)
	return out, nil
}

// note notes the ids of an event, and reports whether one of them came before. A repetition is not
// noted under its other ids: whoever recorded a request could fill the table with it.
func (s *Service) note(tx hub.Tx, source string, ids []string) (repeated bool, err error) {
	if repeated, err = delivered(tx, source, ids); err != nil || repeated {
		return repeated, err
	}
	now := s.o.Clock.Now()
	for _, id := range ids {
		fresh, err := tx.WriteEvents().AddDelivered(source, id, now)
		if err != nil || !fresh { // another hub on the database was faster
			return !fresh, err
		}
	}
	return false, nil
}

// delivered reports whether a source delivered an event under one of its ids before.
func delivered(rd hub.Reader, source string, ids []string) (bool, error) {
	for _, id := range ids {
		known, err := rd.Events().Delivered(source, id)
		if err != nil || known {
			return known, err
		}
	}
	return false, nil
}

// A decision says what becomes of an event by the settings of its source.
type decision struct {
	to      string // the target, if the hub knows no owner
	fixed   bool   // a rule names the target, so that the owner does not matter
	quiet   bool   // it wakes nobody
	member  bool   // its actor may change the repository
	ignored bool   // it is not stored
}

// unfinished are the states of CI that are no result.
var unfinished = []string{
	"queued", "requested", "rerequested", "requested_action", "in_progress", "pending", "running", "waiting", "waiting_for_resource", "waiting_for_callback", "preparing", "created", "scheduled",
	"manual", "canceling",
}

// decide applies the rules of a source to an event: the first rule that matches decides. Tests of
// the vendor and unfinished runs of CI are ignored.
func decide(src hub.EventSource, e hub.Event) decision {
	d := decision{to: src.To}
	d.member = e.Member || slices.ContainsFunc(src.Members, func(m string) bool { return strings.EqualFold(m, e.Actor) })
	isResult := e.Kind == hub.EventCI
	mayWake := isResult || d.member || src.Actors == hub.ActorsAll
	d.quiet = !mayWake
	d.ignored = e.Kind == hub.EventPing || (isResult && slices.Contains(unfinished, e.State))

	i := slices.IndexFunc(src.Rules, func(r hub.EventRule) bool { return r.Matches(e) })
	if i < 0 {
		return d
	}
	rule := src.Rules[i]
	if rule.To != "" {
		d.to = rule.To
		d.fixed = rule.To != hub.ToOwner
	}
	d.quiet = d.quiet || rule.Quiet
	d.ignored = d.ignored || rule.Ignore
	return d
}

// post writes the message about an event to its recipients.
func (s *Service) post(tx hub.Tx, src hub.EventSource, e hub.Event, d decision, remotes map[string][]string) (hub.Message, error) {
	to, isOwn, err := s.recipients(tx, src, e, d, remotes)
	if err != nil {
		return hub.Message{}, err
	}
	payload, err := payloadOf(e)
	if err != nil {
		return hub.Message{}, err
	}
	priority := hub.PriorityNormal
	if d.quiet || isOwn {
		priority = hub.PriorityLow
	}
	return s.mail.Post(tx, hub.Caller{ID: hub.SourceSender(src.Name)}, hub.Envelope{To: to, Type: hub.TypeEventReceived, Priority: priority, Payload: payload}, false)
}

// payloadOf returns an event as a payload. A text whose escapes do not fit is shortened.
func payloadOf(e hub.Event) (json.RawMessage, error) {
	for {
		var b bytes.Buffer
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(false) // six bytes for each angle of a text
		if err := enc.Encode(e); err != nil {
			return nil, err
		}
		raw := bytes.TrimSpace(b.Bytes())
		over := len(raw) - hub.MaxPayload
		if over <= 0 {
			return raw, nil
		}
		if e.Text == "" {
			return nil, hub.Errorf(hub.CodePayloadTooLarge, "event.Receive", "an event without text has %d bytes", len(raw))
		}
		e.Text = shorten.Bytes(e.Text, len(e.Text)-max(over/6, 1)) // a byte has at most six in JSON
	}
}

// recipients returns the agents that get an event: the owner of its branch, commit or task if the
// hub knows one, else the target. An agent whose rule for contact does not admit the source gets
// none; the operator does. isOwn says that the event is the recipient's own push.
func (s *Service) recipients(tx hub.Tx, src hub.EventSource, e hub.Event, d decision, remotes map[string][]string) (to []hub.AgentID, isOwn bool, err error) {
	if !d.fixed {
		owner, err := s.owner(tx, e, d.member, remotes)
		if err != nil {
			return nil, false, err
		}
		if owner.agent != "" {
			to = []hub.AgentID{owner.agent}
			isOwn = e.Kind == hub.EventPush && owner.byCommit
		}
	}
	if to == nil {
		if to, err = s.target(tx, d.to); err != nil {
			return nil, false, err
		}
	}
	admitted, err := s.admitted(tx, hub.SourceSender(src.Name), to)
	if err != nil || len(admitted) > 0 {
		return admitted, isOwn, err
	}
	return []hub.AgentID{hub.Operator}, false, nil
}

// target returns the agents of a target: an agent, the members of a team, or the operator.
func (s *Service) target(tx hub.Tx, to string) ([]hub.AgentID, error) {
	if team, ok := hub.AgentID(to).Team(); ok {
		members, err := tx.Teamspaces().Members(hub.MemberQuery{Team: team, Limit: maxMembers})
		if err != nil {
			return nil, err
		}
		var out []hub.AgentID
		for _, m := range members {
			if !slices.Contains(out, m.Agent) {
				out = append(out, m.Agent)
			}
		}
		return out, nil
	}
	if to == hub.ToOwner || to == "" {
		return []hub.AgentID{hub.Operator}, nil
	}
	_, err := tx.Agent(hub.AgentID(to))
	if hub.CodeOf(err) == hub.CodeNotFound {
		return []hub.AgentID{hub.Operator}, nil
	}
	return []hub.AgentID{hub.AgentID(to)}, err
}

// maxMembers is the most members of a team that get an event.
const maxMembers = 100

// admitted returns the agents that take messages of a source.
func (s *Service) admitted(tx hub.Tx, from hub.AgentID, to []hub.AgentID) (out []hub.AgentID, err error) {
	for _, id := range to {
		ok, err := s.mail.MayWrite(tx, from, id)
		if err != nil {
			return nil, err
		}
		if ok {
			out = append(out, id)
		}
	}
	return out, nil
}

// takeCounts returns the counts that are not stored yet, and forgets them.
func (s *Service) takeCounts() map[string]map[hub.EventOutcome]int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	taken := s.counts
	s.counts = map[string]map[hub.EventOutcome]int64{}
	return taken
}

// StoreCounts stores the counts since the last time.
func (s *Service) StoreCounts(ctx context.Context) error {
	taken := s.takeCounts()
	if len(taken) == 0 {
		return nil
	}
	err := s.store.Update(ctx, hub.SurvivesKill, func(tx hub.Tx) error {
		for _, source := range slices.Sorted(maps.Keys(taken)) {
			_, err := tx.Events().Source(source)
			if hub.CodeOf(err) == hub.CodeNotFound {
				continue // it was removed meanwhile
			}
			if err != nil {
				return err
			}
			for _, outcome := range slices.Sorted(maps.Keys(taken[source])) {
				if err := tx.WriteEvents().CountEvents(source, outcome, taken[source][outcome]); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err == nil {
		return nil
	}

	// They are stored the next time.
	s.mu.Lock()
	defer s.mu.Unlock()
	for source, outcomes := range taken {
		if s.counts[source] == nil {
			s.counts[source] = map[hub.EventOutcome]int64{}
		}
		for outcome, n := range outcomes {
			s.counts[source][outcome] += n
		}
	}
	return fmt.Errorf("event: store counts: %w", err)
}

// Sweep forgets deliveries of more than seven days ago.
func (s *Service) Sweep(ctx context.Context) error {
	return hub.Alone(ctx, s.store, "events.sweep", leaseTime, func(store hub.Store) error {
		return store.Update(ctx, hub.SurvivesKill, func(tx hub.Tx) error {
			_, err := tx.WriteEvents().DropDelivered(s.o.Clock.Now().Add(-keepDeliveries))
			return err
		})
	})
}

// Run stores counts and forgets old deliveries until ctx ends. Then it stores the last counts.
func (s *Service) Run(ctx context.Context) {
	counts := time.NewTicker(storeCounts)
	defer counts.Stop()
	sweeps := time.NewTicker(sweepEvery)
	defer sweeps.Stop()
	report := func(err error) {
		if err != nil && ctx.Err() == nil {
			s.o.Log.Warn("work on event sources failed, it is tried again", "err", err)
		}
	}
	report(s.Sweep(ctx))
	for {
		select {
		case <-counts.C:
			report(s.StoreCounts(ctx))
		case <-sweeps.C:
			report(s.Sweep(ctx))
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
			defer cancel()
			if err := s.StoreCounts(last); err != nil {
				s.o.Log.Warn("the last counts of event sources were not stored", "err", err)
			}
			return
		}
	}
}
