// Package schedule sends messages of the operator to agents on a schedule: every hour, or at the
// times of a calendar.
//
// A schedule is a row of the store. [Service.Run] sends the messages that are due, each in one
// transaction with the time of the next run, under a lease, so that of several hubs on one database
// one sends it and a hub that was killed sends none twice. A message is sent a moment after its
// time (hub.Schedule.Jitter), so that many schedules of nine o'clock are not one flood.
//
// A run is left out while the recipient has not read the last message: an agent that is away for a
// day finds one message, not 24. Runs for which no hub was there are made up for by one message that
// says how many there were.
//
// Times are computed by hub.Timetable in the zone of the operator.
package schedule

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
	"github.com/parley-agents/parley/internal/ground/text/shorten"
)

const (
	maxText      = 2000 // bytes
	maxSchedules = 200
	leaseTime    = time.Minute
	maxRest      = 20 * time.Second // the hub's clock may be set, so it is read again
	missedAfter  = 5 * time.Minute  // a run that is later counts as missed
	maxMissed    = 1000             // runs that are counted
)

// Mail writes messages.
type Mail interface {
	// Post writes a message on an actor's behalf inside tx.
	Post(tx hub.Tx, actor hub.Caller, e hub.Envelope, fresh bool) (hub.Message, error)
	// Recipient returns an agent, and reports CodeUnknownRecipient if there is none.
	Recipient(ctx context.Context, id hub.AgentID) (hub.Agent, error)
	// Announce wakes the long polls of the recipients of committed messages.
	Announce(...hub.Message)
}

// Options changes how a Service works. The zero value works.
type Options struct {
	Clock hub.Clock    // default time.Now
	Bus   hub.Bus      // gets a hint after every change; may be nil
	Log   *slog.Logger // default silent
}

// A Service keeps schedules in a store. It is safe for concurrent use.
type Service struct {
	store hub.Store
	mail  Mail
	o     Options
	kick  chan struct{} // receives after a change of schedules
}

// New returns a Service. opts may be nil.
func New(store hub.Store, mail Mail, opts *Options) *Service {
	s := &Service{store: store, mail: mail, kick: make(chan struct{}, 1)}
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

// A Setting is a schedule as the operator adds it.
type Setting struct {
	Every string      `json:"every"`
	To    hub.AgentID `json:"to"`
	Text  string      `json:"text"`
	Zone  string      `json:"zone,omitempty"`
}

// Add stores a schedule. Only the operator may. A span begins now; its first run is after it.
func (s *Service) Add(ctx context.Context, actor hub.Caller, set Setting) (hub.Schedule, error) {
	const op = "schedule.Add"
	if err := actor.OperatorOnly(op); err != nil {
		return hub.Schedule{}, err
	}
	now := s.o.Clock.Now()
	one := hub.Schedule{Every: set.Every, Zone: set.Zone, To: set.To, Text: set.Text, SetAt: now, SetBy: actor.ID}
	times, err := one.Timetable()
	if err != nil {
		return hub.Schedule{}, err
	}
	if err := checkText(op, one); err != nil {
		return hub.Schedule{}, err
	}
	if _, err := s.mail.Recipient(ctx, one.To); err != nil {
		return hub.Schedule{}, err
	}
	one.Due = times.Next(now.Time)

	err = s.update(ctx, "add", func(tx hub.Tx) error {
		all, err := tx.Events().Schedules()
		if err != nil {
			return err
		}
		if len(all) >= maxSchedules {
			return hub.Errorf(hub.CodeTooLarge, op, "the hub has %d schedules, which is the limit", maxSchedules)
		}
		one.ID = ""
		if one.ID, err = tx.WriteEvents().PutSchedule(one); err != nil {
			return err
		}
		facts := map[string]any{"every": one.Every, "zone": one.Zone, "to": one.To, "sha256": one.Digest()}
		_, err = tx.Append(actor.Entry(now, actions.ScheduleAdded, string(one.ID), facts))
		return err
	})
	return one, err
}

// checkText refuses a text that is empty or does not fit into a message, also with the largest
// counts: such a run would fail each time.
func checkText(op string, one hub.Schedule) error {
	if strings.TrimSpace(one.Text) == "" || len(one.Text) > maxText {
		return hub.Errorf(hub.CodeInvalid, op, "the text must have 1 to %d bytes, got %d", maxText, len(one.Text))
	}
	one.ID = hub.NewScheduleID(math.MaxInt64)
	one.Skipped = math.MaxInt64
	raw, err := payloadOf(one, one.SetAt, math.MaxInt64)
	if err != nil {
		return err
	}
	if over := len(raw) - hub.MaxPayload; over > 0 {
		return hub.Errorf(hub.CodePayloadTooLarge, op, "the text is %d bytes too long as JSON, where line ends, quotes and control characters take more than one", over).
			WithHint("use fewer of them, or a shorter text")
	}
	return nil
}

// Remove removes a schedule. Only the operator may.
func (s *Service) Remove(ctx context.Context, actor hub.Caller, id hub.ScheduleID) error {
	const op = "schedule.Remove"
	if err := actor.OperatorOnly(op); err != nil {
		return err
	}
	return s.update(ctx, "remove", func(tx hub.Tx) error {
		if err := tx.WriteEvents().RemoveSchedule(id); err != nil {
			return unknown(op, id, err)
		}
		_, err := tx.Append(actor.Entry(s.o.Clock.Now(), actions.ScheduleRemoved, string(id), nil))
		return err
	})
}

// unknown gives the error about a schedule that does not exist its hint.
func unknown(op string, id hub.ScheduleID, err error) error {
	if hub.CodeOf(err) != hub.CodeNotFound {
		return err
	}
	return hub.Errorf(hub.CodeNotFound, op, "no schedule %s", shorten.Quote(string(id))).WithHint("{every.list} lists the schedules")
}

// List returns the schedules by number: all for the operator and auditors, else those of the
// caller.
func (s *Service) List(ctx context.Context, actor hub.Caller) ([]hub.Schedule, error) {
	all, err := hub.Read(ctx, s.store, func(rd hub.Reader) ([]hub.Schedule, error) { return rd.Events().Schedules() })
	if err != nil {
		return nil, fmt.Errorf("schedule: list: %w", err)
	}
	out := []hub.Schedule{}
	for _, one := range all {
		if actor.Audits() || one.To == actor.ID {
			out = append(out, one)
		}
	}
	return out, nil
}

// RunNow sends the message of a schedule at once, even if the last one is unread. Only the operator
// may. The next run stays when it was.
func (s *Service) RunNow(ctx context.Context, actor hub.Caller, id hub.ScheduleID) (hub.Schedule, error) {
	const op = "schedule.RunNow"
	if err := actor.OperatorOnly(op); err != nil {
		return hub.Schedule{}, err
	}
	var one hub.Schedule
	var msg hub.Message
	err := s.update(ctx, "run", func(tx hub.Tx) (err error) {
		if one, err = tx.Events().Schedule(id); err != nil {
			return unknown(op, id, err)
		}
		now := s.o.Clock.Now()
		msg, err = s.send(tx, actor, &one, now, now, 0)
		return err
	})
	if err != nil {
		return hub.Schedule{}, err
	}
	s.mail.Announce(msg)
	return one, nil
}

// update runs a transaction that changes schedules.
func (s *Service) update(ctx context.Context, what string, change func(hub.Tx) error) error {
	if err := s.store.Update(ctx, hub.SurvivesPowerLoss, change); err != nil {
		return fmt.Errorf("schedule: %s: %w", what, err)
	}
	if s.o.Bus != nil {
		s.o.Bus.Publish(hub.TopicJournal)
	}
	select {
	case s.kick <- struct{}{}:
	default: // it looks anyway
	}
	return nil
}

// A duePayload is the payload of a run.
type duePayload struct {
	Schedule hub.ScheduleID `json:"schedule"`
	Every    string         `json:"every"`
	Due      hub.Time       `json:"due_at,omitzero"`
	Text     string         `json:"text"`
	Missed   int64          `json:"missed,omitempty"`
	Skipped  int64          `json:"skipped,omitempty"`
}

// payloadOf returns the payload of a run of a schedule.
func payloadOf(one hub.Schedule, due hub.Time, missed int64) (json.RawMessage, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false) // six bytes for each angle of a text
	err := enc.Encode(duePayload{one.ID, one.Every, due, one.Text, missed, one.Skipped})
	return bytes.TrimSpace(b.Bytes()), err
}

// send writes the message of a run and stores the schedule with it. missed is the number of runs
// that it stands for because no hub was there at their times.
func (s *Service) send(tx hub.Tx, actor hub.Caller, one *hub.Schedule, due, now hub.Time, missed int64) (hub.Message, error) {
	payload, err := payloadOf(*one, due, missed)
	if err != nil {
		return hub.Message{}, err
	}
	msg, err := s.mail.Post(tx, actor, hub.Envelope{To: []hub.AgentID{one.To}, Type: hub.TypeEventDue, Payload: payload}, false)
	if err != nil {
		return hub.Message{}, err
	}
	one.Last = now
	one.Message = msg.ID
	one.Runs++
	one.Missed += missed
	one.Skipped = 0
	_, err = tx.WriteEvents().PutSchedule(*one)
	return msg, err
}

// Run sends the messages that are due until ctx ends.
func (s *Service) Run(ctx context.Context) {
	for {
		rest, err := s.Step(ctx)
		if err != nil && ctx.Err() == nil {
			s.o.Log.Warn("schedules failed, they are tried again", "err", err)
			rest = maxRest
		}
		select {
		case <-time.After(rest):
		case <-s.kick:
		case <-ctx.Done():
			return
		}
	}
}

// Step sends the messages that are due now, and returns the time until the next one, at most 20
// seconds.
func (s *Service) Step(ctx context.Context) (time.Duration, error) {
	rest := maxRest
	err := hub.Alone(ctx, s.store, "schedules", leaseTime, func(store hub.Store) error {
		all, err := hub.Read(ctx, store, func(rd hub.Reader) ([]hub.Schedule, error) { return rd.Events().Schedules() })
		if err != nil {
			return err
		}
		var failed error // one schedule that fails does not keep the others from running
		for _, one := range all {
			wait, err := s.consider(ctx, store, one)
			if err != nil {
				failed = errors.Join(failed, fmt.Errorf("schedule %s: %w", one.ID, err))
				continue
			}
			rest = min(rest, wait)
		}
		return failed
	})
	return max(rest, 10*time.Millisecond), err
}

// consider runs a schedule if it is due, and returns the time until its next run otherwise.
func (s *Service) consider(ctx context.Context, store hub.Store, one hub.Schedule) (time.Duration, error) {
	times, err := one.Timetable()
	if err != nil { // the zone was known when it was added, and is not on this machine
		s.o.Log.Warn("a schedule cannot run on this machine", "schedule", one.ID, "err", err)
		return maxRest, nil
	}
	at := one.Due.Add(one.Jitter(times.Next(one.Due.Time)))
	if wait := at.Sub(s.o.Clock.Now().Time); wait > 0 {
		return wait, nil
	}

	var msg hub.Message
	err = store.Update(ctx, hub.SurvivesKill, func(tx hub.Tx) (err error) {
		msg, err = s.run(tx, one.ID, times)
		return err
	})
	if err != nil {
		return 0, err
	}
	s.mail.Announce(msg)
	return 0, nil
}

// run makes the newest run that is due; those before it are made up for by it. While the last
// message is unread it only moves on to the next run. It reads the schedule again: it may have been
// removed, or another hub may have run it.
func (s *Service) run(tx hub.Tx, id hub.ScheduleID, times hub.Timetable) (hub.Message, error) {
	one, err := tx.Events().Schedule(id)
	if hub.CodeOf(err) == hub.CodeNotFound {
		return hub.Message{}, nil
	}
	if err != nil {
		return hub.Message{}, err
	}
	now := s.o.Clock.Now()
	if one.Due.After(now.Time) {
		return hub.Message{}, nil
	}
	due, missed := newest(times, &one, now)
	unread, err := s.unread(tx, one)
	if err != nil {
		return hub.Message{}, err
	}
	if unread {
		one.Skipped += max(missed, 1)
		_, err := tx.WriteEvents().PutSchedule(one)
		return hub.Message{}, err
	}
	operator := hub.Caller{Kind: hub.CallerOperator, ID: hub.Operator}
	return s.send(tx, operator, &one, due, now, missed)
}

// newest moves a schedule on to its first run after now. It returns the newest run that is due, and
// how many were missed: those before it, and it, too, if its time passed some minutes ago. Both are
// so because no hub was there.
func newest(times hub.Timetable, one *hub.Schedule, now hub.Time) (due hub.Time, missed int64) {
	for range maxMissed {
		due = one.Due
		one.Due = times.Next(due.Time)
		isNewest := one.Due.After(now.Time)
		if !isNewest || now.Sub(due.Time) > missedAfter {
			missed++
		}
		if isNewest {
			return due, missed
		}
	}
	one.Due = times.Next(now.Time) // more runs than are counted
	return due, missed
}

// unread reports whether the recipient has not read the last message of a schedule. A message that
// was archived or has ended otherwise is not in the way.
func (s *Service) unread(tx hub.Tx, one hub.Schedule) (bool, error) {
	if one.Message == "" {
		return false, nil
	}
	parties, err := tx.Parties(one.Message, one.To)
	if hub.CodeOf(err) == hub.CodeNotFound {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return len(parties) > 0 && parties[0].State == hub.PartyUnread, nil
}
