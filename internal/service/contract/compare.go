package contract

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"

	"github.com/parley-agents/parley/compat"
	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/coord"
	"github.com/parley-agents/parley/internal/ground/digest"
)

// No content is read, compared or searched for parts inside of a transaction of the store. An
// operation that needs one verdict reads a question, ends its transaction, asks, and writes
// with a guard on what it read. One that finds out which verdicts it needs while it reads runs
// again with the verdicts that were missing; see withVerdicts.

// maxComparing is the number of comparisons that a hub makes at a time.
const maxComparing = 2

// maxRemembered is the number of bytes of contents whose verdicts are kept in memory.
const maxRemembered = 2 << 20

// A question asks for the verdict on two contents of a contract, for some consumers.
type question struct {
	contract  coord.Contract // its id, type and terms
	base      Base
	content   json.RawMessage
	later     *compat.Document // content as it was read; nil if it was not read yet
	consumers []compat.Consumer
	pair      string
	stored    string // a verdict of the present rules as the store has it, or ""
}

// A judgement is the verdict on two contents of a contract.
type judgement struct {
	base    Base
	was     compat.Format // of the content of the base
	format  compat.Format // of the later content
	later   compat.Document
	pair    string
	verdict compat.Verdict // without consumers
	fresh   bool           // it is not stored yet

	consumers []compat.Consumer
	forThem   compat.Verdict // with the verdicts for the consumers

	refused error // of a content that breaks the format that it claims; see judgeUpdate
}

// pairOf names two contents of a contract together with everything else that their verdict
// depends on.
func pairOf(c coord.Contract, old, new json.RawMessage) string {
	return pairOfHashes(c, coord.ContentHash(old), coord.ContentHash(new))
}

// pairOfHashes is pairOf for the hashes of two contents.
func pairOfHashes(c coord.Contract, old, new string) string {
	d := digest.New("contract pair")
	d.Put(string(c.Type), c.Terms.Format, c.Terms.Direction, old, new)
	return d.Hex()
}

// ask returns the question for the verdict on a content of a contract and its base, with the
// stored verdict if the store has one of the present rules.
func ask(r hub.Reader, c coord.Contract, base Base, content json.RawMessage, consumers []compat.Consumer) (question, error) {
	return askPair(r, c, base, content, consumers, pairOf(c, base.content, content))
}

// askPair is ask for contents whose pair is known.
func askPair(r hub.Reader, c coord.Contract, base Base, content json.RawMessage, consumers []compat.Consumer, pair string) (question, error) {
	q := question{contract: c, base: base, content: content, consumers: consumers, pair: pair}
	stored, err := r.Coordination().Verdict(c.Project, c.ID, pair)
	switch {
	case hub.CodeOf(err) == hub.CodeNotFound:
		err = nil
	case err == nil && stored.Rules == compat.RulesVersion:
		q.stored = stored.Body
	}
	return q, err
}

// A comparer answers questions outside of transactions: maxComparing comparisons at a time for
// the hub, and one for a caller. Equal questions share one comparison, and its verdict is kept
// for those that follow.
type comparer struct {
	compare func(old, new compat.Document, o compat.Options) compat.Verdict
	slots   chan struct{}

	mu         sync.Mutex
	turns      map[hub.AgentID]*turn
	running    map[string]*flight // by pair
	remembered []remembered       // the newest last
}

// A turn lets one question of a caller through at a time.
type turn struct {
	free  chan struct{}
	users int // that have the turn or wait for it; guarded by the comparer's mu
}

// A flight is one comparison with all questions that wait for it. It ends without an answer
// when the last of them is given up.
type flight struct {
	done    chan struct{} // closed when got or err is set
	given   chan struct{} // closed when nothing waits any more
	waiters int           // guarded by the comparer's mu
	got     answer
	err     error // of a comparison that panicked
}

// An answer is a verdict with its documents.
type answer struct {
	was     compat.Format // of the content of the base
	verdict compat.Verdict
	later   compat.Document
	fresh   bool
}

// A remembered is an answer that is kept, with the size of its contents.
type remembered struct {
	pair string
	size int
	got  answer
}

func newComparer() *comparer {
	return &comparer{compare: compat.Compare, slots: make(chan struct{}, maxComparing), turns: map[hub.AgentID]*turn{}, running: map[string]*flight{}}
}

// answer returns the verdict that a caller asks for. It ends with the caller's context.
func (c *comparer) answer(ctx context.Context, caller hub.AgentID, q question) (judgement, error) {
	leave, err := c.enter(ctx, caller)
	if err != nil {
		return judgement{}, err
	}
	defer leave()
	got, err := c.verdict(ctx, q)
	if err != nil {
		return judgement{}, err
	}
	out := judgement{base: q.base, was: got.was, format: got.later.Format(), later: got.later, pair: q.pair, verdict: got.verdict, fresh: got.fresh || q.stored == "", consumers: q.consumers}
	out.forThem = out.verdict.ForConsumers(q.consumers)
	return out, nil
}

// enter waits for the turn of a caller.
func (c *comparer) enter(ctx context.Context, caller hub.AgentID) (leave func(), err error) {
	c.mu.Lock()
	t := c.turns[caller]
	if t == nil {
		t = &turn{free: make(chan struct{}, 1)}
		c.turns[caller] = t
	}
	t.users++
	c.mu.Unlock()

	forget := func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if t.users--; t.users == 0 {
			delete(c.turns, caller)
		}
	}
	select {
	case t.free <- struct{}{}:
		return func() { <-t.free; forget() }, nil
	case <-ctx.Done():
		forget()
		return nil, ctx.Err()
	}
}

// verdict returns the answer to a question: a remembered one, or that of a comparison which
// runs already or begins now.
func (c *comparer) verdict(ctx context.Context, q question) (answer, error) {
	c.mu.Lock()
	if i := slices.IndexFunc(c.remembered, func(r remembered) bool { return r.pair == q.pair }); i >= 0 {
		r := c.remembered[i]
		c.remembered = append(slices.Delete(c.remembered, i, i+1), r)
		c.mu.Unlock()
		return r.got, nil
	}
	f := c.running[q.pair]
	if f == nil {
		f = &flight{done: make(chan struct{}), given: make(chan struct{})}
		c.running[q.pair] = f
		go c.run(f, q)
	}
	f.waiters++
	c.mu.Unlock()

	select {
	case <-f.done:
		return f.got, f.err
	case <-ctx.Done():
		c.mu.Lock()
		defer c.mu.Unlock()
		if f.waiters--; f.waiters == 0 {
			close(f.given)
			if c.running[q.pair] == f {
				delete(c.running, q.pair)
			}
		}
		return answer{}, ctx.Err()
	}
}

// run makes one comparison when a slot is free. One that panics ends its questions with an error, and
// is not remembered: the next question tries again.
func (c *comparer) run(f *flight, q question) {
	select {
	case c.slots <- struct{}{}:
		defer func() { <-c.slots }()
	case <-f.given:
		return
	}
	var got answer
	err := hub.Contain("contract.compare", func() error {
		got = q.compute(c.compare, f.given)
		return nil
	})

	c.mu.Lock()
	defer c.mu.Unlock()
	if f.waiters == 0 {
		return // it may have been stopped
	}
	f.got = got
	f.err = err
	close(f.done)
	if c.running[q.pair] == f {
		delete(c.running, q.pair)
	}
	if err == nil {
		c.remember(q, got)
	}
}

// remember keeps an answer and forgets the oldest ones beyond maxRemembered. c.mu is held.
func (c *comparer) remember(q question, got answer) {
	got.fresh = false // a question to which the store has no verdict stores it
	c.remembered = slices.DeleteFunc(c.remembered, func(r remembered) bool { return r.pair == q.pair })
	c.remembered = append(c.remembered, remembered{q.pair, len(q.base.content) + len(q.content), got})
	size := 0
	for i, r := range slices.Backward(c.remembered) {
		if size += r.size; size > maxRemembered {
			c.remembered = slices.Delete(c.remembered, 0, i+1)
			break
		}
	}
}

// compute reads both contents and compares them, unless the store has their verdict.
func (q question) compute(compare func(old, new compat.Document, o compat.Options) compat.Verdict, stop <-chan struct{}) answer {
	old := document(q.contract, q.base.content)
	if q.later == nil {
		later := document(q.contract, q.content)
		q.later = &later
	}
	later := *q.later
	var v compat.Verdict
	if q.stored != "" && json.Unmarshal([]byte(q.stored), &v) == nil {
		return answer{verdict: v.Between(old, later), was: old.Format(), later: later}
	}
	v = compare(old, later, compat.Options{Direction: compat.Direction(q.contract.Terms.Direction), Stop: stop})
	return answer{verdict: v, was: old.Format(), later: later, fresh: true}
}

// document reads a content of a contract. A content that breaks its format, which a copy of
// another hub may have, is custom: its verdict is unknown.
func document(c coord.Contract, content json.RawMessage) compat.Document {
	d, err := compat.Read(content, &compat.ReadOptions{Format: compat.Format(c.Terms.Format), Type: string(c.Type)})
	if err != nil {
		return custom(content)
	}
	return d
}

// custom reads a content without the rules of a format.
func custom(content json.RawMessage) compat.Document {
	d, _ := compat.Read(content, &compat.ReadOptions{Format: compat.FormatCustom}) // every JSON value is custom
	return d
}

// keep stores a verdict that was computed.
func (j judgement) keep(tx hub.Tx, c coord.Contract) error {
	if !j.fresh {
		return nil
	}
	body, err := json.Marshal(j.verdict)
	if err != nil {
		return err
	}
	return tx.WriteCoordination().PutVerdict(coord.StoredVerdict{Project: c.Project, Contract: c.ID, Pair: j.pair, Rules: j.verdict.RulesVersion, Body: string(body)})
}

// keepLater stores a verdict that a reader computed. Nothing depends on it but the time of the
// next reader.
func (s *Service) keepLater(ctx context.Context, j judgement, c coord.Contract) {
	if !j.fresh {
		return
	}
	err := s.store.Update(ctx, hub.SurvivesKill, func(tx hub.Tx) error { return j.keep(tx, c) })
	if err != nil && ctx.Err() == nil {
		s.o.Log.Warn("cannot store a verdict", "err", err)
	}
}

// verdicts are what an operation knows about contents while it reads, and what it still asks.
type verdicts struct {
	known map[string]judgement // by key
	open  map[string]question
}

// errUndecided gives a transaction up that needs a verdict which is not known yet.
var errUndecided = errors.New("a verdict is missing")

// key identifies a question within an operation.
func (q question) key() string {
	d := digest.New("contract question")
	d.Put(q.pair)
	for _, one := range q.consumers {
		d.Put(one.Repository)
		d.Put(one.Parts...)
	}
	return d.Hex()
}

// of returns the judgement on two contents, by their hashes. While it is not known, the answer
// is unknown for everything: the operation runs again with the true one.
func (v *verdicts) of(r hub.Reader, c coord.Contract, base Base, content json.RawMessage, consumers []compat.Consumer) (judgement, error) {
	return v.ofPair(r, c, base, content, consumers, pairOf(c, base.content, content))
}

// ofPair is of for contents whose pair is known.
func (v *verdicts) ofPair(r hub.Reader, c coord.Contract, base Base, content json.RawMessage, consumers []compat.Consumer, pair string) (judgement, error) {
	key := question{pair: pair, consumers: consumers}.key()
	if j, ok := v.known[key]; ok {
		return j, nil
	}
	q, err := askPair(r, c, base, content, consumers, pair)
	if err == nil {
		v.open[key] = q
	}
	unknown := compat.Verdict{Verdict: compat.Unknown}
	for _, one := range consumers {
		unknown.Consumers = append(unknown.Consumers, compat.ConsumerVerdict{Repository: one.Repository, Verdict: compat.Unknown})
	}
	return judgement{base: base, pair: pair, verdict: unknown, forThem: unknown, consumers: consumers}, err
}

// withVerdicts runs an operation that asks for verdicts inside of its transaction, until it has
// all of them: those that were missing are computed between two runs. A run with open questions
// counts as not made, so fn must not have stored anything then.
func (s *Service) withVerdicts(ctx context.Context, caller hub.AgentID, fn func(v *verdicts) error) error {
	v := &verdicts{known: map[string]judgement{}}
	for {
		v.open = map[string]question{}
		err := fn(v)
		if len(v.open) == 0 {
			return err
		}
		for key, q := range v.open {
			j, err := s.comparer.answer(ctx, caller, q)
			if err != nil {
				return err
			}
			s.keepLater(ctx, j, q.contract)
			v.known[key] = j
		}
	}
}
