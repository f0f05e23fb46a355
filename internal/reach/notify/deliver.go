package notify

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base32"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/parley-agents/parley/channel"
	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
	"github.com/parley-agents/parley/internal/ground/text/plaintext"
)

// state is the stored state of one target, beside its cursor.
type state struct {
	Tries   int      `json:"tries,omitempty"`   // failures in a row
	Problem string   `json:"problem,omitempty"` // of the last one
	Since   hub.Time `json:"since,omitzero"`    // of the first one
	Next    hub.Time `json:"next,omitzero"`     // when it is tried again
	SentAt  hub.Time `json:"sent_at,omitzero"`  // the last notice that was taken
	Sent    int      `json:"sent,omitempty"`    // notices that were taken
	Dead    []letter `json:"dead,omitempty"`    // oldest first
	Replays []letter `json:"replays,omitempty"` // dead letters that go out again, oldest first
}

// A letter is a range of journal entries that a target did not take.
type letter struct {
	First  int64    `json:"first"`
	Last   int64    `json:"last"`
	Count  int      `json:"count"` // of things
	At     hub.Time `json:"at,omitzero"`
	Reason string   `json:"reason,omitempty"`
}

// maxLetters bounds the dead letters of a target; beyond it the two oldest become one.
const maxLetters = 100

func (t Target) key() string { return "notify/" + t.Name }

// bury adds a dead letter.
func (s *state) bury(l letter) {
	if s.Dead = append(s.Dead, l); len(s.Dead) > maxLetters {
		s.Dead[1].First, s.Dead[1].Count = s.Dead[0].First, s.Dead[0].Count+s.Dead[1].Count
		s.Dead = slices.Delete(s.Dead, 0, 1)
	}
}

// A job is the next notice of a target.
type job struct {
	letter
	notice  notice
	replay  bool
	urgent  bool  // it waits for no others
	through int64 // the last entry that it covers, also those that the target is not told of
}

// Deliver sends the next notice of a target if one is due, and returns when to call it
// again.
func (n *Worker) Deliver(ctx context.Context, store hub.Store, name string) (hub.Time, error) {
	i := slices.IndexFunc(n.targets, func(t Target) bool { return t.Name == name })
	if i < 0 {
		return hub.Time{}, hub.Errorf(hub.CodeNotFound, "notify.Deliver", "no target named %.40q", name)
	}
	t := n.targets[i]
	j, next, err := n.next(ctx, store, t)
	if err != nil || j == nil {
		return next, err
	}
	if err := n.fill(ctx, &j.notice); err != nil {
		return next, err
	}
	failure := n.send(ctx, t, j.notice)
	if ctx.Err() != nil {
		return next, ctx.Err() // the next start sends it under the same id
	}
	return n.record(ctx, store, t, j, failure)
}

// later is the time of the next call without an event.
func (n *Notifier) later() hub.Time { return n.o.Clock.Now().Add(watchEvery) }

// A backlog is the stored state of a target with the entries of the journal that it did not get yet.
type backlog struct {
	state   state
	cursor  int64
	head    hub.Head
	waits   common
	entries []hub.Entry
}

// readBacklog reads the backlog of a target: from its cursor or, if something is to be sent
// again, from there.
func readBacklog(ctx context.Context, store hub.Store, t Target) (b backlog, err error) {
	err = store.View(ctx, func(r hub.Reader) (err error) {
		if b.state, err = hub.ReadMeta[state](r, t.key()); err != nil {
			return err
		}
		if b.cursor, err = r.Cursor(t.cursor()); err != nil {
			return err
		}
		if b.head, err = hub.HeadOf(r); err != nil {
			return err
		}
		if b.waits, err = hub.ReadMeta[common](r, waitsKey); err != nil {
			return err
		}

		after := b.cursor
		until := int64(math.MaxInt64)
		if len(b.state.Replays) > 0 {
			after = b.state.Replays[0].First - 1
			until = b.state.Replays[0].Last
		}
		b.entries, err = r.Journal(hub.JournalQuery{After: after, Subject: Subject, Limit: 4 * maxBatch})
		b.entries = slices.DeleteFunc(b.entries, func(e hub.Entry) bool { return e.Seq > until })
		return err
	})
	return b, err
}

// next returns the notice of a target that is due now; nil if none is.
func (n *Worker) next(ctx context.Context, store hub.Store, t Target) (*job, hub.Time, error) {
	b, err := readBacklog(ctx, store, t)
	if err != nil {
		return nil, n.later(), err
	}
	if b.cursor == 0 && b.head.Seq > 0 { // a new target is told of what waits already
		return nil, n.o.Clock.Now(), n.advance(ctx, store, t, b.waits.begin(b.head.Seq))
	}

	// A pause after a failure, and quiet hours, put the notice off.
	now := n.o.Clock.Now()
	if b.state.Next.After(now.Time) {
		return nil, b.state.Next, nil
	}
	if quiet := t.quietUntil(now.In(n.o.Location)); quiet.After(now.Time) {
		return nil, hub.At(quiet), nil
	}

	j, err := t.collect(b)
	switch {
	case err != nil:
		return nil, n.later(), err
	case j.First == 0 && j.replay: // nothing of it is left
		return nil, now, n.update(ctx, store, t, func(_ hub.Tx, st *state) error {
			st.Replays = st.Replays[1:]
			return nil
		})
	case j.First == 0 && j.through > 0:
		return nil, now, n.advance(ctx, store, t, j.through)
	case j.First == 0 && b.head.Seq-b.cursor > 256: // archives wait for this cursor
		return nil, n.later(), n.advance(ctx, store, t, b.head.Seq)
	case j.First == 0:
		return nil, n.later(), nil
	}

	// Things that begin to wait close together share a notice. An urgent one waits for no others.
	isWhole := j.replay || j.urgent || j.Count >= maxBatch
	if due := j.At.Add(t.Batch); !isWhole && now.Before(due.Time) {
		return nil, due, nil
	}

	j.notice.ID = newID(t.Name, fmt.Sprint(j.First), fmt.Sprint(j.Last))
	j.notice.At = now
	return j, now, nil
}

// collect makes one notice of the entries that the target wants, as far as one has room.
func (t Target) collect(b backlog) (*job, error) {
	j := &job{replay: len(b.state.Replays) > 0}
	for _, e := range b.entries {
		var w Wait
		if err := json.Unmarshal(e.Facts, &w); err != nil {
			return nil, fmt.Errorf("notify: entry %d: %w", e.Seq, err)
		}
		if j.notice.size() == maxBatch {
			break
		}
		j.through = e.Seq
		unwantedEnd := e.Action == actions.WaitEnded && !t.wants(EventEnded) && !j.notice.has(w)
		if !t.wants(w.Kind) || unwantedEnd {
			continue
		}
		if j.First == 0 {
			j.First = e.Seq
			j.At = e.At
		}
		j.Last = e.Seq
		j.Count++
		j.urgent = j.urgent || w.Urgent
		j.notice.add(e.Action, w)
	}
	return j, nil
}

func (n *Notifier) advance(ctx context.Context, store hub.Store, t Target, seq int64) error {
	return store.Update(ctx, hub.SurvivesKill, func(tx hub.Tx) error { return tx.PutCursor(t.cursor(), seq) })
}

// fill adds the words of agents to the events, and to the things that still wait. Words of
// high sensitivity stay here.
func (n *Worker) fill(ctx context.Context, notice *notice) error {
	for i, w := range notice.Events {
		text, err := n.hub.EventText(ctx, w)
		if err != nil {
			return fmt.Errorf("notify: the text of an event: %w", err)
		}
		notice.Events[i].Text = text
	}

	now, err := n.hub.Waiting(ctx)
	if err != nil {
		return fmt.Errorf("notify: what waits: %w", err)
	}
	for i, w := range notice.Waits {
		at := slices.IndexFunc(now.Items, func(o Wait) bool { return o.key() == w.key() })
		if at >= 0 && !w.Private && !now.Items[at].Private {
			notice.Waits[i].Text = now.Items[at].Text
		}
	}
	return nil
}

// update changes the state of a target.
func (n *Notifier) update(ctx context.Context, store hub.Store, t Target, change func(hub.Tx, *state) error) error {
	return store.Update(ctx, hub.SurvivesKill, func(tx hub.Tx) error {
		st, err := hub.ReadMeta[state](tx, t.key())
		if err != nil {
			return err
		}
		if err := change(tx, &st); err != nil {
			return err
		}
		return hub.WriteMeta(tx, t.key(), st)
	})
}

// record stores the outcome of a notice: the cursor goes on after one that was taken or
// given up.
func (n *Worker) record(ctx context.Context, store hub.Store, t Target, j *job, failure error) (next hub.Time, err error) {
	var refusal refusalError
	now := n.o.Clock.Now()
	err = n.update(ctx, store, t, func(tx hub.Tx, st *state) error {
		next = now
		facts := map[string]any{"target": t.Name, "notice": j.notice.ID, "count": j.Count}
		action, outcome := actions.PeopleNotified, channel.Outcome{State: channel.Accepted, Mechanism: mechanism, Detail: "accepted by " + t.Name}

		if failure == nil {
			st.Tries = 0
			st.Problem = ""
			st.Since = hub.Time{}
			st.Next = hub.Time{}
			st.SentAt = now
			st.Sent++
		} else {
			st.Tries++
			st.Problem = failure.Error()
			if st.Since.IsZero() {
				st.Since = now
			}

			// A refusal or an old notice is given up. Any other failure is tried again later.
			age := now.Sub(j.At.Time)
			if j.replay {
				age = now.Sub(st.Replays[0].At.Time)
			}
			if !errors.As(failure, &refusal) && age < t.GiveUp {
				st.Next = now.Add(min(maxRetry, firstRetry<<min(st.Tries-1, 20)))
				next = st.Next
				return nil
			}
			action, outcome = actions.NoticeDead, channel.Outcome{State: channel.Failed, Mechanism: mechanism, Detail: fmt.Sprintf("%s: %v", t.Name, failure)}
			facts["reason"] = failure.Error()
			st.bury(letter{First: j.First, Last: j.Last, Count: j.Count, At: now, Reason: failure.Error()})
		}

		e := hub.Caller{ID: hub.Self}.Entry(now, action, t.Name, facts)
		if failure != nil {
			e.Outcome = hub.OutcomeFailed
		}
		if _, err := tx.Append(e); err != nil {
			return err
		}

		// Messages count as failed only if no other target can take them.
		for _, w := range j.notice.Waits {
			if w.Kind == EventMessage && (failure == nil || len(n.takers(EventMessage)) == 1) {
				if err := n.hub.Record(tx, w.Agent, w.ID, outcome); err != nil {
					return err
				}
			}
		}

		// A replay has a position of its own, and the cursor stays where it is.
		if !j.replay {
			return tx.PutCursor(t.cursor(), j.through)
		}
		if st.Replays[0].First = j.through + 1; st.Replays[0].First > st.Replays[0].Last {
			st.Replays = st.Replays[1:]
		}
		return nil
	})
	if err != nil {
		return n.later(), fmt.Errorf("notify: record the outcome for %s: %w", t.Name, err)
	}

	if failure != nil {
		n.o.Log.Warn("a target was not notified", "op", t.cursor(), "err", failure)
	}
	n.o.Bus.Publish(hub.TopicJournal)
	return next, nil
}

// A TargetState says how a target stands.
type TargetState struct {
	Name    string   `json:"name"`
	Way     string   `json:"way"` // command, or the template of the webhook
	Events  []string `json:"events,omitempty"`
	Quiet   string   `json:"quiet,omitempty"`
	Waiting int      `json:"waiting"` // things that it has not been told of, counted up to 1,000
	Sent    int      `json:"sent"`    // notices that it took
	SentAt  hub.Time `json:"sent_at,omitzero"`
	Tries   int      `json:"tries,omitempty"`
	Problem string   `json:"problem,omitempty"`
	Since   hub.Time `json:"since,omitzero"`
	Next    hub.Time `json:"next,omitzero"`
	Dead    int      `json:"dead"` // things in dead letters

	DeadSince  hub.Time `json:"dead_since,omitzero"` // the time of the oldest dead letter
	DeadReason string   `json:"dead_reason,omitempty"`
}

// Trouble says since when a target fails or has dead letters, and why; "" if all is well.
func (s TargetState) Trouble() string {
	switch dead := fmt.Sprintf("%d in dead letters since %s", s.Dead, s.DeadSince); {
	case s.Problem != "" && s.Dead > 0:
		return fmt.Sprintf("failed %d times since %s: %s; %s", s.Tries, s.Since, plaintext.Line(s.Problem), dead)
	case s.Problem != "":
		return fmt.Sprintf("failed %d times since %s: %s", s.Tries, s.Since, plaintext.Line(s.Problem))
	case s.Dead > 0:
		return dead + ": " + plaintext.Line(s.DeadReason)
	}
	return ""
}

// States returns how the targets stand. Only the operator may know.
func (n *Notifier) States(ctx context.Context, actor hub.Caller) ([]TargetState, error) {
	if err := actor.OperatorOnly("notify.States"); err != nil {
		return nil, err
	}
	out := []TargetState{}
	err := n.store.View(ctx, func(r hub.Reader) error {
		for _, t := range n.targets {
			st, err := hub.ReadMeta[state](r, t.key())
			if err != nil {
				return err
			}
			s := TargetState{
				Name: t.Name, Way: cmp.Or(t.Template, "command"), Events: t.Events, Quiet: t.Quiet, Sent: st.Sent, SentAt: st.SentAt,
				Tries: st.Tries, Problem: st.Problem, Since: st.Since, Next: st.Next,
			}

			for i, l := range st.Dead {
				if i == 0 {
					s.DeadSince = l.At
				}
				s.Dead, s.DeadReason = s.Dead+l.Count, l.Reason
			}
			for _, l := range st.Replays {
				s.Waiting += l.Count
			}

			// The entries after the cursor are not sent yet.
			cursor, err := r.Cursor(t.cursor())
			if err != nil {
				return err
			}
			entries, err := r.Journal(hub.JournalQuery{After: cursor, Subject: Subject, Limit: 1000})
			if err != nil {
				return err
			}
			for _, e := range entries {
				var w Wait
				wantsAction := e.Action != actions.WaitEnded || t.wants(EventEnded)
				if json.Unmarshal(e.Facts, &w) == nil && t.wants(w.Kind) && wantsAction {
					s.Waiting++
				}
			}

			out = append(out, s)
		}
		return nil
	})
	return out, err
}

// choose returns the targets with a name, or all.
func (n *Notifier) choose(op, name string) ([]Target, error) {
	var out []Target
	for _, t := range n.targets {
		if name == "" || t.Name == name {
			out = append(out, t)
		}
	}
	if len(out) == 0 {
		text := "no targets are configured"
		if name != "" {
			text = fmt.Sprintf("no target named %.40q", name)
		}
		return nil, hub.Errorf(hub.CodeNotFound, op, "%s", text).WithHint("run \"parley notify list\" to list the configured targets; docs/notify.md explains how to add one")
	}
	return out, nil
}

// A TestReport is the result of a test of one target.
type TestReport struct {
	Name    string `json:"name"`
	Taken   bool   `json:"taken"`
	Problem string `json:"problem,omitempty"`
}

// Test sends a notice about nothing to a target, or to all, at once. Only the operator
// may.
func (n *Notifier) Test(ctx context.Context, actor hub.Caller, name string) ([]TestReport, error) {
	const op = "notify.Test"
	if err := actor.OperatorOnly(op); err != nil {
		return nil, err
	}
	targets, err := n.choose(op, name)
	var out []TestReport
	for _, t := range targets {
		now := n.o.Clock.Now()
		r := TestReport{Name: t.Name, Taken: true}
		if err := n.send(ctx, t, notice{ID: newID(t.Name, "test", now.String()), At: now, Test: true}); err != nil {
			r.Taken, r.Problem = false, err.Error()
		}
		out = append(out, r)
	}
	return out, err
}

// Replay sends the dead letters of a target, or of all, again, and returns how many
// things they are about. Only the operator may.
func (n *Notifier) Replay(ctx context.Context, actor hub.Caller, name string) (int, error) {
	const op = "notify.Replay"
	if err := actor.OperatorOnly(op); err != nil {
		return 0, err
	}
	targets, err := n.choose(op, name)
	if err != nil {
		return 0, err
	}

	total := 0
	err = n.store.Update(ctx, hub.SurvivesKill, func(tx hub.Tx) error {
		total = 0
		now := n.o.Clock.Now()
		for _, t := range targets {
			st, err := hub.ReadMeta[state](tx, t.key())
			if err != nil {
				return err
			}

			// Dead letters become replays, which are due at once.
			count := 0
			for _, l := range st.Dead {
				l.At, l.Reason = now, ""
				count += l.Count
				st.Replays = append(st.Replays, l)
			}

			if count == 0 {
				continue
			}
			total += count
			st.Dead, st.Next = nil, hub.Time{}
			if err := hub.WriteMeta(tx, t.key(), st); err != nil {
				return err
			}
			if _, err := tx.Append(actor.Entry(now, actions.NoticeReplayed, t.Name, map[string]any{"count": count})); err != nil {
				return err
			}
		}
		return nil
	})

	n.o.Bus.Publish(hub.TopicJournal)
	return total, err
}

// newID returns the id of a notice from the things that make it the same notice, so that
// a receiver that gets it twice knows.
func newID(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return "w_" + strings.ToLower(base32.StdEncoding.EncodeToString(sum[:])[:26])
}
