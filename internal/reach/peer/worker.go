package peer

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
	"github.com/parley-agents/parley/hub/coord"
	"github.com/parley-agents/parley/internal/ground/federation"
	"github.com/parley-agents/parley/internal/ground/text/shorten"
)

// A worker keeps one peer in step. One goroutine runs it, so a peer gets changes in
// order.
//
// Its outbox is a cursor over the hub's log of changes: Sent is the last row that the
// peer confirmed. The worker reads the rows after it, loads each changed thing once
// in its present state, sends it, and then moves the cursor. The invariant: every row
// up to Sent was confirmed, was not meant for the peer, or is covered by a comparison
// that is still due (CatchUp). A kill before the cursor moves sends things twice,
// which a receiver that merges takes as once. A change costs one row in the log,
// for any number of peers; a peer that was away for n changes of m things gets
// m copies.
type worker struct {
	*Syncer
	aid      coord.AID
	endpoint string
	cancel   context.CancelFunc
	wake     chan struct{} // holds one: there may be changes
	now      chan struct{} // holds one: a comparison was requested
	done     chan struct{}

	// The following belongs to run.
	store      hub.Store // of the holder of the outbox's lease
	remote     remote
	native     bool
	zoned      bool            // the peer reads time zones
	connected  bool            // since the last failure
	up         bool            // it confirmed everything since the last failure
	fails      int             // in a row
	batch      int             // changes per request: fewer after a failure
	sent       time.Time       // time of the last send
	compared   time.Time       // time of the last full comparison
	every      time.Duration   // until the next full comparison
	queued     bool            // a full comparison waits for others to end
	identified time.Time       // time of the last check of its id
	probed     time.Time       // time at which the agent last knew this hub
	created    coord.ProjectID // at an agent, whose contents are sent now

	mu      sync.Mutex               // guards the following
	all     bool                     // compare everything
	pending map[coord.ProjectID]bool // projects to compare
}

// maxPending is the number of projects that are remembered one by one.
const maxPending = 1000

// signal leaves a hint, unless there is one already.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// compareAllLater asks for a comparison of everything, and ends a pause.
func (w *worker) compareAllLater() {
	w.keepAll()
	signal(w.now)
}

// keepAll has the next step compare everything. A pause goes on.
func (w *worker) keepAll() {
	w.mu.Lock()
	w.all = true
	w.mu.Unlock()
}

func (w *worker) compareLater(project coord.ProjectID) {
	w.mu.Lock()
	if len(w.pending) < maxPending {
		w.pending[project] = true
	} else {
		w.all = true
	}
	w.mu.Unlock()
	signal(w.wake)
}

// takePending returns the projects to compare, and empties the list.
func (w *worker) takePending() (all bool, projects []coord.ProjectID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for id := range w.pending {
		projects = append(projects, id)
	}
	all, w.all = w.all, false
	clear(w.pending)
	return all, projects
}

// leaseTime is the time until another process takes over the outbox of a peer from
// one that died.
const leaseTime = time.Minute

// run works until ctx ends, without a pause while there is work and the peer takes
// it. Each step is under the lease of the outbox: one process at a time sends to a
// peer.
func (w *worker) run(ctx context.Context) {
	for ctx.Err() == nil {
		more := false
		err := hub.Alone(ctx, w.Syncer.store, "peer.outbox/"+string(w.aid), leaseTime, func(store hub.Store) (err error) {
			w.store = store
			if more, err = w.step(ctx); err == nil && !w.up {
				err = w.markUp(ctx)
			}
			if err == nil && !more {
				err = w.identify(ctx)
			}
			return err
		})
		switch {
		case ctx.Err() != nil:
		case hub.Unavailable(err):
			w.log.Warn("peers wait for the store", "peer", w.aid, "err", err)
			w.pause(ctx, w.backoff(1)) // the peer did not fail
		case hub.CodeOf(err) == hub.CodeRateLimited:
			// The peer is well. It took a part of the changes; they are sent again, and
			// it skips those that it has.
			var e *hub.Error
			errors.As(err, &e)
			w.log.Info("a peer takes no more changes for now", "peer", w.aid, "err", err)
			w.pause(ctx, max(e.RetryAfter, w.backoff(1)))
		case err != nil:
			w.pause(ctx, w.failed(ctx, err))

		case !more:
			// A comparison that is queued begins when another one ends.
			var free chan<- struct{}
			if w.queued {
				free = w.comparing
			}
			select {
			case <-ctx.Done():
			case <-w.wake:
			case <-w.now:
			case free <- struct{}{}:
				<-w.comparing
			}

			// One change goes out at once, many go out together.
			if d := w.opts.Linger - w.clock().Sub(w.sent); d > 0 && d <= w.opts.Linger {
				w.pause(ctx, d)
			}
		}
	}
}

// pause waits after a failure. New changes do not end the wait; a request to compare
// this peer does.
func (w *worker) pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	case <-w.now:
	}
}

// failed records a failure and returns the time to wait.
func (w *worker) failed(ctx context.Context, err error) time.Duration {
	w.fails++
	w.connected, w.up = false, false
	w.batch = max(1, w.batch/4) // a slow peer takes fewer before it is out of time
	wait := w.backoff(w.fails)
	if !w.native {
		wait = min(wait, w.opts.Probe)
	}
	fault := shorten.Bytes(err.Error(), 300)
	w.log.Info("a peer does not take changes", "peer", w.aid, "code", hub.CodeOf(err), "err", err)
	note := w.update(ctx, func(tx hub.Tx, p hub.Peer, box hub.Outbox) error {
		p.Fails, p.Fault = w.fails, fault
		if w.fails >= w.opts.Fails && p.Health != hub.HealthDown {
			p.Health = hub.HealthDown
			if err := w.note(tx, actions.PeerDown, map[string]any{"fault": fault}); err != nil {
				return err
			}
		}
		if err := tx.PutPeer(p); err != nil {
			return err
		}
		box.Tries = w.fails
		box.Fault = fault
		box.NextTry = coord.InstantAt(w.clock().Add(wait))
		return w.giveUp(tx, p, box)
	})
	if note != nil && !errors.Is(note, errNotApproved) && ctx.Err() == nil {
		w.log.Warn("the failure of a peer could not be recorded", "peer", w.aid, "err", note)
	}
	return wait
}

// giveUp moves an outbox to the end of the log when its next change is too old. The
// comparison that is due then finds the changes that were skipped.
func (w *worker) giveUp(tx hub.Tx, p hub.Peer, box hub.Outbox) error {
	next, err := tx.Changes(box.Sent, 1)
	if err != nil {
		return err
	}
	if len(next) > 0 && w.clock().Sub(next[0].At.Time) > w.opts.GiveUp {
		_, newest, err := tx.ChangeSpan()
		if err != nil {
			return err
		}
		next[0].Origin = "" // of a copy that came from the peer, which was refused here
		dead := hub.DeadLetter{Peer: w.aid, Change: next[0], Fault: box.Fault, At: coord.InstantAt(w.clock())}
		if err := w.putDeadLetter(tx, dead); err != nil {
			return err
		}
		box.Sent, box.CatchUp = newest, true
	}
	return tx.PutOutbox(box)
}

// errNotApproved ends the work for a peer that is no longer approved.
var errNotApproved = errors.New("peer: no longer approved")

// update changes the records of the peer and its outbox. It reports errNotApproved
// when the peer is no longer approved.
func (w *worker) update(ctx context.Context, fn func(hub.Tx, hub.Peer, hub.Outbox) error) error {
	return w.store.Update(ctx, hub.SurvivesKill, func(tx hub.Tx) error {
		p, err := tx.Peer(w.aid)
		if err != nil {
			return err
		}
		if p.State != hub.PeerApproved {
			return errNotApproved
		}
		box, err := outbox(tx, w.aid)
		if err != nil {
			return err
		}
		return fn(tx, p, box)
	})
}

// outbox returns a peer's outbox. One that has never been written starts at the
// end of the log, with everything before it to be compared.
func outbox(r hub.Reader, aid coord.AID) (hub.Outbox, error) {
	box, err := r.Outbox(aid)
	if hub.CodeOf(err) != hub.CodeNotFound {
		return box, err
	}
	_, newest, err := r.ChangeSpan()
	return hub.Outbox{Peer: aid, Sent: newest, CatchUp: true}, err
}

// step does the next piece of work and reports whether there may be more. An
// error means that the peer should be left alone for a while.
func (w *worker) step(ctx context.Context) (more bool, err error) {
	if !w.connected {
		if err := w.connect(ctx); err != nil {
			return false, err
		}
	}
	if !w.native && w.clock().Sub(w.probed) >= w.opts.Probe {
		if err := w.probe(ctx); err != nil {
			return false, err
		}
	}

	var box hub.Outbox
	var oldest int64
	err = w.store.View(ctx, func(r hub.Reader) (err error) {
		if box, err = outbox(r, w.aid); err != nil {
			return err
		}
		oldest, _, err = r.ChangeSpan()
		return err
	})
	if err != nil {
		return false, fmt.Errorf("peer: read the outbox: %w", err)
	}

	if box.Sent+1 < oldest {
		// Its next rows were removed from the log.
		box.Sent, box.CatchUp = oldest-1, true
		if err := w.put(ctx, func(b *hub.Outbox) { b.Sent, b.CatchUp = max(b.Sent, oldest-1), true }); err != nil {
			return false, err
		}
	}

	if more, err := w.sendChanges(ctx, box); more || err != nil {
		return more, err
	}

	all, projects := w.takePending()
	if all || box.CatchUp || w.clock().Sub(w.compared) >= w.every {
		select {
		case w.comparing <- struct{}{}:
			w.queued = false
			err := w.catchUp(ctx)
			<-w.comparing
			return true, err
		default: // run waits until another comparison ends
			w.queued = true
			w.keepAll()
		}
	}

	for _, id := range projects {
		if err := w.compareProject(ctx, id); err != nil {
			w.compareLater(id)
			return false, err
		}
	}
	return len(projects) > 0, nil
}

// probe checks that an agent of the reference implementation still knows this hub. One
// that restarted has forgotten it, and one that failed to reach it three times never
// calls it again: the hub registers again and compares everything.
func (w *worker) probe(ctx context.Context) error {
	known, err := w.remote.knows(ctx)
	if err != nil {
		return err
	}
	if !known {
		if err := w.remote.register(ctx, w.opts.Repo); err != nil {
			return err
		}
		w.compareAllLater()
	}
	w.probed = w.clock()
	return nil
}

// put changes the outbox.
func (w *worker) put(ctx context.Context, change func(*hub.Outbox)) error {
	err := w.update(ctx, func(tx hub.Tx, _ hub.Peer, box hub.Outbox) error {
		change(&box)
		return tx.PutOutbox(box)
	})
	if err != nil {
		return fmt.Errorf("peer: write the outbox of %s: %w", w.aid, err)
	}
	return nil
}

// connect checks that the peer is up and has the right id, and reads its
// capabilities.
func (w *worker) connect(ctx context.Context) error {
	p, err := hub.Read(ctx, w.store, func(r hub.Reader) (hub.Peer, error) { return r.Peer(w.aid) })
	if err != nil {
		return fmt.Errorf("peer: %w", err)
	}
	key, err := w.secrets.PeerKey(p)
	if err != nil {
		return hub.Errorf(hub.CodeUnreachable, "peer.meet", "%w", err)
	}

	id, err := w.client.Health(ctx, w.endpoint)
	if err != nil {
		return err
	}
	if err := w.check(id); err != nil {
		return err
	}
	card, err := w.client.Card(ctx, w.endpoint)
	if err != nil {
		return err
	}
	if err := w.check(card.Extensions.CACP.AgentID); err != nil {
		return err
	}
	if err := card.Compatible(); err != nil {
		return err
	}

	w.native = card.Extensions.CACP.Sync == SyncBatches
	w.zoned = w.native || card.Extensions.CACP.Timestamps == RFC3339
	w.remote = remote{client: w.client, endpoint: w.endpoint, self: w.self, home: w.home, key: key}
	if !w.native {
		if err := w.remote.register(ctx, w.opts.Repo); err != nil {
			return err
		}
	}

	if p.Health != hub.HealthUp {
		// It may have lost its data meanwhile.
		if err := w.put(ctx, func(b *hub.Outbox) { b.CatchUp = true }); err != nil {
			return err
		}
	}
	w.connected = true
	return nil
}

// check reports CodeTampering when an agent gives another id than that of the peer.
// An agent may give none.
func (w *worker) check(said string) error {
	if said == "" || said == string(w.aid) {
		return nil
	}
	return hub.Errorf(hub.CodeTampering, "peer.connect", "%s has the id %.100q, not %s", w.endpoint, said, w.aid).
		WithHint("if the agent there was replaced, remove the peer and add the new one")
}

// seen returns when the peer last answered at its endpoint, given that it answered now: the
// peer may have moved meanwhile.
func (w *worker) seen(p hub.Peer, now time.Time) coord.Instant {
	if p.Endpoint != w.endpoint {
		return p.Seen
	}
	return coord.InstantAt(now)
}

// markUp records that the peer confirms its deliveries.
func (w *worker) markUp(ctx context.Context) error {
	err := w.update(ctx, func(tx hub.Tx, p hub.Peer, box hub.Outbox) error {
		if p.Health != hub.HealthUp {
			if err := w.note(tx, actions.PeerUp, map[string]any{"endpoint": w.endpoint}); err != nil {
				return err
			}
		}
		p.Health = hub.HealthUp
		p.Fails = 0
		p.Fault = ""
		p.Native = w.native
		p.Seen = w.seen(p, w.clock())
		if err := tx.PutPeer(p); err != nil {
			return err
		}
		box.Tries = 0
		box.Fault = ""
		box.NextTry = coord.Instant{}
		return tx.PutOutbox(box)
	})
	if err != nil {
		return fmt.Errorf("peer: record that %s is up: %w", w.aid, err)
	}
	w.fails, w.up = 0, true
	return nil
}

// maxEach is the number of changes that are sent one by one before the cursor moves.
const maxEach = 50

// sendChanges sends the next changes in the log, and reports whether there are more.
func (w *worker) sendChanges(ctx context.Context, box hub.Outbox) (more bool, err error) {
	limit := w.batch
	if !w.native {
		limit = min(limit, maxEach)
	}
	changes, err := w.contracts.Changes(ctx, box.Sent, limit)
	if err != nil || len(changes) == 0 {
		return false, err
	}
	more = len(changes) == limit
	last := changes[len(changes)-1].Seq
	changes, err = w.inScope(ctx, changes)
	if err != nil {
		return false, err
	}
	copies, err := w.contracts.Copies(ctx, w.aid, changes)
	if err != nil {
		return false, err
	}
	if err := w.sendCopies(ctx, copies, true); err != nil {
		return false, err
	}
	w.batch, w.sent = min(w.opts.Batch, 2*w.batch), w.clock()
	return more, w.put(ctx, func(b *hub.Outbox) { b.Sent = max(b.Sent, last) })
}

// inScope leaves out changes of projects that the peer is not part of.
func (w *worker) inScope(ctx context.Context, changes []hub.Change) ([]hub.Change, error) {
	known := map[coord.ProjectID]bool{}
	out := changes[:0]
	for _, c := range changes {
		in, ok := known[c.Project]
		if !ok {
			var err error
			if in, err = w.scope.InScope(ctx, w.aid, c.Project); err != nil {
				return nil, err
			}
			known[c.Project] = in
		}
		if in {
			out = append(out, c)
		}
	}
	return out, nil
}

// sendCopies sends copies. Each is confirmed, skipped by the peer, or becomes a dead
// letter. With follow, a project is compared later when the peer's answer shows a
// difference.
func (w *worker) sendCopies(ctx context.Context, copies []federation.Copy, follow bool) error {
	if !w.native {
		for _, c := range copies {
			if err := w.sendReference(ctx, c); err != nil {
				return err
			}
		}
		return nil
	}

	copies, err := w.lacking(ctx, copies)
	if err != nil {
		return err
	}
	var parts []federation.Copy
	for _, c := range copies {
		parts = append(parts, c.Parts(partBytes)...)
	}

	for copies = parts; len(copies) > 0; {
		calls, rest, err := w.pack(copies)
		if err != nil {
			return err
		}
		results, err := w.remote.batch(ctx, calls)
		if refusal, ok := refused(err); ok {
			// The request may be too large for the peer, or one copy in it.
			if results, err = w.sendEach(ctx, calls, refusal); err != nil {
				return err
			}
		}
		if err != nil {
			return err
		}

		for i, r := range results {
			if err := w.applyResult(ctx, calls[i].copy, r, follow); err != nil {
				return err
			}
		}
		copies = rest
	}
	return nil
}

// lacking returns copies of which contracts hold no version that the peer has. A hub
// of an older release does not say which it has, and gets all.
func (w *worker) lacking(ctx context.Context, copies []federation.Copy) ([]federation.Copy, error) {
	asked := map[coord.ProjectID][]coord.ContractID{}
	for _, c := range copies {
		if c.Contract != nil && len(c.Contract.History)+len(c.Contract.Conflicts) > 0 {
			asked[c.Project] = append(asked[c.Project], c.Contract.ID)
		}
	}
	out := slices.Clone(copies)
	for project, ids := range asked {
		for part := range slices.Chunk(ids, w.pageOf(pageCopies)) {
			var page federation.VersionsPage
			err := w.remote.call(ctx, methodSyncVersions, federation.VersionsParams{Project: project, Contracts: part}, &page)
			if _, ok := refused(err); ok {
				continue
			}
			if err != nil {
				return nil, err
			}
			for i, c := range out {
				if c.Project == project && c.Contract != nil {
					out[i] = c.Lacking(page.Versions[c.Contract.ID])
				}
			}
		}
	}
	return out, nil
}

// partBytes is the number of bytes of earlier versions in one copy of a contract. A
// peer takes requests of 16 MiB; a contract with all its versions may be larger.
const partBytes = 2 << 20

// sendEach makes calls one at a time that were refused together. A call that is
// refused alone gets the status error.
func (w *worker) sendEach(ctx context.Context, calls []syncCall, refusal *Refusal) ([]federation.SyncResult, error) {
	if len(calls) == 1 {
		return []federation.SyncResult{{Status: federation.SyncError, Reason: refusal.Error()}}, nil
	}
	out := make([]federation.SyncResult, len(calls))
	for i, p := range calls {
		var err error
		if out[i], err = w.remote.send(ctx, p); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// pack returns the calls for as many copies as fit into one request.
func (w *worker) pack(copies []federation.Copy) (calls []syncCall, rest []federation.Copy, err error) {
	size := 0
	for i, c := range copies {
		if !w.zoned {
			c = c.Naive()
		}
		p, err := pack(c, w.self)
		if err != nil {
			return nil, nil, err
		}
		if size += len(p.params) + 100; i > 0 && (size > w.opts.BatchBytes || i >= w.batch) {
			return calls, copies[i:], nil
		}
		calls = append(calls, p)
	}
	return calls, nil, nil
}

// applyResult acts on the result of a Parley hub for a copy.
func (w *worker) applyResult(ctx context.Context, c federation.Copy, r federation.SyncResult, follow bool) error {
	switch {
	case r.Status != federation.SyncError:
		if r.Behind && follow {
			w.compareLater(c.Project) // the peer has something that this hub lacks
		}
		return nil
	case r.Code == hub.CodeNotFound && follow:
		w.compareLater(c.Project) // the peer lacks the project
		return nil
	}
	return w.addDeadLetter(ctx, c, r.Reason)
}

// addDeadLetter records a copy that the peer refuses for good.
func (w *worker) addDeadLetter(ctx context.Context, c federation.Copy, fault string) error {
	w.log.Warn("a peer refuses a change", "peer", w.aid, "project", c.Project, "err", fault)
	err := w.update(ctx, func(tx hub.Tx, _ hub.Peer, _ hub.Outbox) error {
		return w.putDeadLetter(tx, hub.DeadLetter{Peer: w.aid, Change: c.Change(), Fault: shorten.Bytes(fault, 300), At: coord.InstantAt(w.clock())})
	})
	if err != nil {
		return fmt.Errorf("peer: add a dead letter: %w", err)
	}
	return nil
}

// putDeadLetter stores a dead letter and its journal row.
func (w *worker) putDeadLetter(tx hub.Tx, d hub.DeadLetter) error {
	if err := tx.AddDeadLetter(d); err != nil {
		return err
	}
	return w.note(tx, actions.DeadLetter, map[string]any{"project_id": d.Change.Project, "kind": d.Change.Kind, "object": d.Change.Object, "fault": d.Fault})
}

// note writes a journal row about the peer.
func (w *worker) note(tx hub.Tx, a actions.Action, facts map[string]any) error {
	_, err := tx.Append(hub.Caller{ID: hub.Self}.Entry(w.clock.Now(), a, string(w.aid), facts))
	return err
}

// catchUp compares everything. Dead letters that are older than its begin are void:
// it has delivered their subject, or there are newer ones.
func (w *worker) catchUp(ctx context.Context) error {
	begin := coord.InstantAt(w.clock())
	if err := w.compareAll(ctx); err != nil {
		w.keepAll() // the peer is left alone for as long as it asked
		return err
	}
	w.compared = w.clock()
	w.every = w.opts.Compare*9/10 + rand.N(w.opts.Compare/5+1) // peers that were met together do not stay in step
	err := w.update(ctx, func(tx hub.Tx, p hub.Peer, box hub.Outbox) error {
		p.Seen, box.CatchUp = w.seen(p, w.compared), false
		if err := tx.PutMeta(federation.ComparedKey(w.aid), begin.String()); err != nil {
			return err
		}
		if err := tx.PutPeer(p); err != nil {
			return err
		}
		return tx.PutOutbox(box)
	})
	if err != nil {
		return fmt.Errorf("peer: record the comparison with %s: %w", w.aid, err)
	}
	return nil
}
