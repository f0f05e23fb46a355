// Package journal feeds and reads the journal, the append-only chain of a hub's
// actions: it records refused calls without letting a flood of them fill the
// disk, and gives each reader the entries that it may see. The files that follow
// the journal are package records.
package journal

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
)

// Options changes how a Journal works. The zero value works.
type Options struct {
	Clock hub.Clock    // default time.Now
	Bus   hub.Bus      // gets a hint after every entry; may be nil
	Log   *slog.Logger // default silent

	// Slate is the path, without its ending, of the files with the calls that are counted
	// and not yet in the journal; "" if they are in memory alone.
	Slate string
}

// A Journal is safe for concurrent use.
type Journal struct {
	store hub.Store
	clock hub.Clock
	bus   hub.Bus
	log   *slog.Logger

	mu     sync.Mutex // guards the fields below
	counts map[kind]*count
	slate  *slate    // has counts; nil without one
	spare  [2]string // paths of this slate and of the next
}

// New returns a journal over store. opts may be nil.
func New(store hub.Store, opts *Options) *Journal {
	j := &Journal{store: store, clock: time.Now, log: slog.New(slog.DiscardHandler), counts: map[kind]*count{}}
	if opts != nil {
		if opts.Clock != nil {
			j.clock = opts.Clock
		}
		if opts.Log != nil {
			j.log = opts.Log
		}
		j.bus = opts.Bus
		if opts.Slate != "" {
			j.spare = [2]string{opts.Slate + ".0", opts.Slate + ".1"}
			j.slate = &slate{path: j.spare[0]}
		}
	}
	return j
}

// Recover appends the calls that a killed hub had counted. A kill while they are appended
// may count the calls of one kind twice.
func (j *Journal) Recover(ctx context.Context) error {
	if j.slate == nil {
		return nil
	}

	left := map[kind]*count{}
	for _, path := range j.spare {
		if err := readSlate(path, left); err != nil {
			return fmt.Errorf("journal: recover: %w", err)
		}
	}
	if len(left) == 0 {
		return nil
	}

	// Both files become one first, so that a kill during the recovery loses no count.
	whole := &slate{path: j.spare[0] + ".whole"}
	for k, c := range left {
		if err := whole.set(k, c.op, c.n); err != nil {
			return fmt.Errorf("journal: recover: %w", err)
		}
	}
	if err := whole.move(j.spare[0]); err != nil {
		return fmt.Errorf("journal: recover: %w", err)
	}
	if err := os.Remove(j.spare[1]); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("journal: recover: %w", err)
	}

	j.mu.Lock()
	j.counts, j.slate = left, whole
	j.mu.Unlock()
	j.Flush(ctx)
	return nil
}

// keep writes a count to the slate. It is called with mu held.
func (j *Journal) keep(k kind, c *count) {
	if j.slate == nil {
		return
	}
	if err := j.slate.set(k, c.op, c.n); err != nil {
		j.log.Warn("cannot save a count of calls, a kill would lose it", "actor", k.actor, "err", err)
	}
}

// Started records that a hub began to work on the store.
func (j *Journal) Started(ctx context.Context, version string) error {
	return j.append(ctx, hub.Caller{ID: hub.Self}.Entry(j.clock.Now(), actions.HubStarted, "", map[string]any{"version": version}))
}

// append writes an entry.
func (j *Journal) append(ctx context.Context, e hub.Entry) error {
	err := j.store.Update(ctx, hub.SurvivesKill, func(tx hub.Tx) error {
		_, err := tx.Append(e)
		return err
	})
	if err != nil {
		return fmt.Errorf("journal: %s: %w", e.Action, err)
	}
	if j.bus != nil {
		j.bus.Publish(hub.TopicJournal)
	}
	return nil
}

// A kind groups the calls that are counted together: refused calls of one
// actor with one code, and calls of one actor with one project token.
type kind struct {
	action actions.Action
	actor  hub.AgentID
	code   hub.Code // of refused calls
	token  string   // id of the project token, of calls with one
}

// A count is the number of calls of one kind since the last entry about it.
type count struct {
	n  int
	op string // the operation of the newest
}

const (
	gather   = time.Minute // for which calls of one kind are gathered
	maxKinds = 10_000      // that are counted apart within that time
)

// Refused records that a call was refused. The first of its kind is written at
// once; those that follow within a minute become one entry with a count. A
// refusal that cannot be written is counted with those that follow.
func (j *Journal) Refused(ctx context.Context, actor hub.AgentID, op string, code hub.Code) {
	j.count(ctx, kind{action: actions.Refused, actor: actor, code: code}, op)
}

// Used records that a project token was used, in the way of Refused.
func (j *Journal) Used(ctx context.Context, actor hub.AgentID, op, token string) {
	j.count(ctx, kind{action: actions.TokenUsed, actor: actor, token: token}, op)
}

// count writes the first call of its kind, or counts it.
func (j *Journal) count(ctx context.Context, k kind, op string) {
	j.mu.Lock()
	c, seen := j.counts[k]
	switch {
	case seen:
		c.n++
		c.op = op
		j.keep(k, c)
	case len(j.counts) < maxKinds:
		j.counts[k] = &count{op: op}
	default:
		k = kind{action: k.action, code: k.code} // too many kinds to count apart
		if c, seen = j.counts[k]; seen {
			c.n++
			j.keep(k, c)
		} else {
			j.counts[k] = &count{op: op}
		}
	}
	j.mu.Unlock()
	if !seen {
		j.counted(ctx, k, op, 1)
	}
}

// counted appends an entry about n calls, or keeps them for the next Flush. It reports
// whether the entry is in the journal.
func (j *Journal) counted(ctx context.Context, k kind, op string, n int) bool {
	// The call is recorded also when its caller has given up.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()

	facts := map[string]any{"op": op, "count": n}
	if k.action == actions.Refused {
		facts["code"] = k.code
	}
	e := hub.Caller{ID: k.actor}.Entry(j.clock.Now(), k.action, k.token, facts)
	if k.action == actions.Refused {
		e.Outcome = hub.OutcomeRefused
	}

	err := j.append(ctx, e)
	if err == nil {
		return true
	}

	j.log.Warn("cannot record a call yet", "actor", k.actor, "op", op, "code", k.code, "err", err)
	j.mu.Lock()
	defer j.mu.Unlock()
	c, ok := j.counts[k]
	switch {
	case ok:
		c.n += n
	case len(j.counts) < maxKinds:
		c = &count{n: n, op: op}
		j.counts[k] = c
	default:
		return false
	}
	j.keep(k, c)
	return false
}

// Flush appends the calls that were gathered.
func (j *Journal) Flush(ctx context.Context) {
	j.mu.Lock()
	gathered, old := j.counts, j.slate
	j.counts = map[kind]*count{}
	if old != nil {
		j.spare[0], j.spare[1] = j.spare[1], j.spare[0]
		j.slate = &slate{path: j.spare[0]}
	}
	j.mu.Unlock()
	for k, c := range gathered {
		if c.n > 0 && j.counted(ctx, k, c.op, c.n) && old != nil {
			old.set(k, c.op, 0) // the file is removed below
		}
	}
	if old == nil {
		return
	}
	if err := old.remove(); err != nil {
		j.log.Warn("cannot remove a file of counted calls", "err", err)
	}
}

// Run flushes once a minute until ctx ends, and once more then.
func (j *Journal) Run(ctx context.Context) {
	tick := time.NewTicker(gather)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			j.Flush(ctx)
		case <-ctx.Done():
			j.Flush(ctx)
			return
		}
	}
}

// Events reads at most limit entries after seq, and returns those that the actor
// may see and the number of the last one read. An auditor sees every entry; an
// agent sees its own actions, and entries about messages that it sent or
// received and handoffs and runs that it is a party of.
func (j *Journal) Events(ctx context.Context, actor hub.Caller, seq int64, limit int) ([]hub.Entry, int64, error) {
	var out []hub.Entry
	err := j.store.View(ctx, func(r hub.Reader) error {
		out = out[:0]
		entries, err := r.Journal(hub.JournalQuery{After: seq, Limit: limit})
		if err != nil {
			return err
		}
		for _, e := range entries {
			ok, err := maySee(r, actor, e)
			if err != nil {
				return err
			}
			if ok {
				out = append(out, e)
			}
			seq = e.Seq
		}
		return nil
	})
	if err != nil {
		return nil, 0, fmt.Errorf("journal: events: %w", err)
	}
	return out, seq, nil
}

// Head returns the newest entry's number, hash and time.
func (j *Journal) Head(ctx context.Context) (head hub.Head, err error) {
	err = j.store.View(ctx, func(r hub.Reader) (err error) {
		head, err = hub.HeadOf(r)
		return err
	})
	if err != nil {
		return hub.Head{}, fmt.Errorf("journal: head: %w", err)
	}
	return head, nil
}

func maySee(r hub.Reader, actor hub.Caller, e hub.Entry) (bool, error) {
	if actor.Audits() || e.Actor == actor.ID {
		return true, nil
	}
	id := hub.EnvelopeID(e.Subject)
	if !id.Valid() {
		return false, nil
	}
	found, err := r.Parties(id, actor.ID)
	if hub.CodeOf(err) != hub.CodeNotFound {
		return err == nil && !found[0].Hidden, err
	}
	if strings.HasPrefix(string(e.Action), "run.") {
		run, err := r.Run(hub.RunID(e.Subject))
		return run.Concerns(actor.ID), err
	}
	h, err := r.Handoff(hub.HandoffID(e.Subject))
	if hub.CodeOf(err) == hub.CodeNotFound {
		return false, nil
	}
	return h.Concerns(actor.ID), err
}
