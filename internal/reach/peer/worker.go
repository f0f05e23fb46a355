package peer

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/parley-agents/parley/hub"
)

// A worker keeps one peer in step. One goroutine runs it, so what a peer gets
// is in order.
type worker struct {
	*Syncer
	aid      hub.AID
	endpoint string
	cancel   context.CancelFunc
	wake     chan struct{} // holds one: there may be changes
	now      chan struct{} // holds one: somebody asks for this peer
	done     chan struct{}

	// What follows belongs to run.
	line     line
	native   bool
	zoned    bool      // the peer reads zones
	met      bool      // since the last failure
	up       bool      // it took what it was sent, or had nothing to be sent, since the last failure
	fails    int       // in a row
	batch    int       // changes that are sent at a time: fewer after a failure
	sent     time.Time // when something was sent last
	compared time.Time // when everything was compared last

	mu    sync.Mutex             // guards what follows
	all   bool                   // everything is to be compared
	again map[hub.ProjectID]bool // projects that are to be compared
}

// maxAgain bounds how many projects are remembered one by one.
const maxAgain = 1000

// signal leaves a hint, unless there is one already.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func (w *worker) request() {
	w.mu.Lock()
	w.all = true
	w.mu.Unlock()
	signal(w.now)
}

func (w *worker) look(project hub.ProjectID) {
	w.mu.Lock()
	if len(w.again) < maxAgain {
		w.again[project] = true
	} else {
		w.all = true
	}
	w.mu.Unlock()
	signal(w.wake)
}

// asked returns what is to be compared, and forgets it.
func (w *worker) asked() (all bool, projects []hub.ProjectID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for id := range w.again {
		projects = append(projects, id)
	}
	all, w.all = w.all, false
	clear(w.again)
	return all, projects
}

// run works until ctx ends: as long as there is something to do and the peer
// takes it, without a pause.
func (w *worker) run(ctx context.Context) {
	for ctx.Err() == nil {
		more, err := w.step(ctx)
		if err == nil && !w.up {
			err = w.well(ctx)
		}
		switch {
		case ctx.Err() != nil:
		case hub.CodeOf(err) == hub.CodeDegraded:
			w.log.Warn("peers wait for the store", "peer", w.aid, "err", err)
			w.pause(ctx, w.backoff(1)) // not the peer's fault
		case err != nil:
			w.pause(ctx, w.failed(ctx, err))
		case !more:
			select {
			case <-ctx.Done():
			case <-w.wake:
			case <-w.now:
			}
			// One change goes out at once, many go out together.
			if d := w.opts.Linger - w.clock().Sub(w.sent); d > 0 && d <= w.opts.Linger {
				w.pause(ctx, d)
			}
		}
	}
}

// pause leaves a peer that fails alone until its time has come, whatever
// changes meanwhile, unless somebody asks for it by name.
func (w *worker) pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	case <-w.now:
	}
}

// failed notes a failure and returns how long to wait.
func (w *worker) failed(ctx context.Context, err error) time.Duration {
	w.fails++
	w.met, w.up = false, false
	w.batch = max(1, w.batch/4) // a slow peer takes fewer before it is out of time
	wait := w.backoff(w.fails)
	fault := cut(err.Error(), 300)
	w.log.Info("a peer does not take what it is sent", "peer", w.aid, "code", hub.CodeOf(err), "err", err)
	note := w.update(ctx, func(tx hub.Tx, p hub.Peer, box hub.Outbox) error {
		p.Fails, p.Fault = w.fails, fault
		if w.fails >= w.opts.Fails {
			p.Health = hub.HealthDown
		}
		if err := tx.PutPeer(p); err != nil {
			return err
		}
		box.Tries, box.Fault, box.NextTry = w.fails, fault, hub.InstantAt(w.clock().Add(wait))
		return w.giveUp(tx, p, box)
	})
	if note != nil && !errors.Is(note, errGone) && ctx.Err() == nil {
		w.log.Warn("a peer's failure cannot be noted", "peer", w.aid, "err", note)
	}
	return wait
}

// giveUp moves an outbox on when the change that it waits with is too old. What
// is left behind is found again when everything is compared.
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
		dead := hub.DeadLetter{Peer: w.aid, Change: next[0], Fault: box.Fault, At: hub.InstantAt(w.clock())}
		if err := tx.AddDeadLetter(dead); err != nil {
			return err
		}
		box.Sent, box.CatchUp = newest, true
	}
	return tx.PutOutbox(box)
}

// errGone ends what a worker does for a peer that is no longer approved.
var errGone = errors.New("peer: no longer approved")

// update changes what is known about the peer and its outbox. It reports
// errGone when the peer is no longer approved.
func (w *worker) update(ctx context.Context, fn func(hub.Tx, hub.Peer, hub.Outbox) error) error {
	return w.store.Update(ctx, hub.SurvivesKill, func(tx hub.Tx) error {
		p, err := tx.Peer(w.aid)
		if err != nil {
			return err
		}
		if p.State != hub.PeerApproved {
			return errGone
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
func outbox(r hub.Reader, aid hub.AID) (hub.Outbox, error) {
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
	if !w.met {
		if err := w.meet(ctx); err != nil {
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
		// What it waits for is no longer in the log.
		box.Sent, box.CatchUp = oldest-1, true
		if err := w.put(ctx, func(b *hub.Outbox) { b.Sent, b.CatchUp = max(b.Sent, oldest-1), true }); err != nil {
			return false, err
		}
	}
	if more, err := w.forward(ctx, box); more || err != nil {
		return more, err
	}
	all, projects := w.asked()
	if all || box.CatchUp || w.clock().Sub(w.compared) >= w.opts.Compare {
		return true, w.catchUp(ctx)
	}
	for _, id := range projects {
		if err := w.compareProject(ctx, id); err != nil {
			w.look(id)
			return false, err
		}
	}
	return len(projects) > 0, nil
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

// meet finds out whether the peer is there, is who it should be, and what it
// can do.
func (w *worker) meet(ctx context.Context) error {
	var p hub.Peer
	err := w.store.View(ctx, func(r hub.Reader) (err error) {
		p, err = r.Peer(w.aid)
		return err
	})
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
	w.line = line{client: w.client, endpoint: w.endpoint, self: w.self, home: w.home, key: key}
	if !w.native {
		if err := w.line.register(ctx, w.opts.Repo); err != nil {
			return err
		}
	}
	if p.Health != hub.HealthUp {
		// It may have forgotten everything meanwhile.
		if err := w.put(ctx, func(b *hub.Outbox) { b.CatchUp = true }); err != nil {
			return err
		}
	}
	w.met = true
	return nil
}

// check reports CodeTampering when an agent says that it is another one than
// the peer. One that says nothing is believed.
func (w *worker) check(said string) error {
	if said == "" || said == string(w.aid) {
		return nil
	}
	return hub.Errorf(hub.CodeTampering, "peer.meet", "%s says that it is %.100q, not %s", w.endpoint, said, w.aid).
		WithHint("if the agent there was replaced, remove the peer and add the new one")
}

// well notes that the peer takes what it is sent.
func (w *worker) well(ctx context.Context) error {
	err := w.update(ctx, func(tx hub.Tx, p hub.Peer, box hub.Outbox) error {
		p.Health, p.Fails, p.Fault, p.Native, p.Seen = hub.HealthUp, 0, "", w.native, hub.InstantAt(w.clock())
		if err := tx.PutPeer(p); err != nil {
			return err
		}
		box.Tries, box.Fault, box.NextTry = 0, "", hub.Instant{}
		return tx.PutOutbox(box)
	})
	if err != nil {
		return fmt.Errorf("peer: note that %s is there: %w", w.aid, err)
	}
	w.fails, w.up = 0, true
	return nil
}

// maxSingly is how many changes are sent one by one before it is noted that
// they were.
const maxSingly = 50

// forward sends the next changes in the log, and reports whether there are
// more.
func (w *worker) forward(ctx context.Context, box hub.Outbox) (more bool, err error) {
	limit := w.batch
	if !w.native {
		limit = min(limit, maxSingly)
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
	copies, err := w.contracts.Copies(ctx, w.aid, claimMixed(changes))
	if err != nil {
		return false, err
	}
	if err := w.deliver(ctx, copies, true); err != nil {
		return false, err
	}
	w.batch, w.sent = min(w.opts.Batch, 2*w.batch), w.clock()
	return more, w.put(ctx, func(b *hub.Outbox) { b.Sent = max(b.Sent, last) })
}

// claimMixed makes changes ours when the same thing was also changed by somebody
// else: a peer has what it sent, but not what that was merged with.
func claimMixed(changes []hub.Change) []hub.Change {
	type thing struct {
		project hub.ProjectID
		kind    hub.ChangeKind
		object  string
	}
	first := map[thing]hub.AID{}
	mixed := map[thing]bool{}
	for _, c := range changes {
		t := thing{c.Project, c.Kind, c.Object}
		if origin, seen := first[t]; !seen {
			first[t] = c.Origin
		} else if origin != c.Origin {
			mixed[t] = true
		}
	}
	for i, c := range changes {
		if mixed[thing{c.Project, c.Kind, c.Object}] {
			changes[i].Origin = ""
		}
	}
	return changes
}

// inScope leaves out changes of projects that the peer takes no part in.
func (w *worker) inScope(ctx context.Context, changes []hub.Change) ([]hub.Change, error) {
	known := map[hub.ProjectID]bool{}
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

// deliver sends copies and sees to it that each has arrived, was not needed, or
// is given up. follow says that a project is to be compared when the peer's
// answers call for it.
func (w *worker) deliver(ctx context.Context, copies []hub.Copy, follow bool) error {
	if !w.native {
		for _, c := range copies {
			if err := w.sendReference(ctx, c); err != nil {
				return err
			}
		}
		return nil
	}
	for len(copies) > 0 {
		parcels, rest, err := w.pack(copies)
		if err != nil {
			return err
		}
		results, err := w.line.batch(ctx, parcels)
		if refusal, ok := refused(err); ok {
			// Perhaps it is too much for the peer, and perhaps only one thing is.
			if results, err = w.singly(ctx, parcels, refusal); err != nil {
				return err
			}
		}
		if err != nil {
			return err
		}
		for i, r := range results {
			if err := w.settle(ctx, parcels[i].copy, r, follow); err != nil {
				return err
			}
		}
		copies = rest
	}
	return nil
}

// singly sends parcels that were refused together one at a time. One that is
// refused alone gets a status that says so.
func (w *worker) singly(ctx context.Context, parcels []parcel, refusal *Refusal) ([]hub.Synced, error) {
	if len(parcels) == 1 {
		return []hub.Synced{{Status: hub.SyncError, Reason: refusal.Error()}}, nil
	}
	out := make([]hub.Synced, len(parcels))
	for i, p := range parcels {
		var err error
		if out[i], err = w.line.send(ctx, p); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// pack takes as many copies as fit into one request.
func (w *worker) pack(copies []hub.Copy) (parcels []parcel, rest []hub.Copy, err error) {
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
			return parcels, copies[i:], nil
		}
		parcels = append(parcels, p)
	}
	return parcels, nil, nil
}

// settle draws the consequences of what a Parley hub did with a copy.
func (w *worker) settle(ctx context.Context, c hub.Copy, r hub.Synced, follow bool) error {
	switch {
	case r.Status != hub.SyncError:
		if r.Behind && follow {
			w.look(c.Project) // there is something that is not here
		}
		return nil
	case r.Code == hub.CodeNotFound && follow:
		w.look(c.Project) // it does not have the project yet, or not any more
		return nil
	}
	return w.bury(ctx, c, r.Reason)
}

// bury gives up a copy that the peer will not take however often it is sent.
func (w *worker) bury(ctx context.Context, c hub.Copy, fault string) error {
	w.log.Warn("a peer refuses a change", "peer", w.aid, "project", c.Project, "err", fault)
	err := w.update(ctx, func(tx hub.Tx, _ hub.Peer, _ hub.Outbox) error {
		return tx.AddDeadLetter(hub.DeadLetter{Peer: w.aid, Change: changeOf(c), Fault: cut(fault, 300), At: hub.InstantAt(w.clock())})
	})
	if err != nil {
		return fmt.Errorf("peer: give up a change: %w", err)
	}
	return nil
}

// changeOf returns the change that leads to a copy.
func changeOf(c hub.Copy) hub.Change {
	out := hub.Change{Project: c.Project}
	switch {
	case c.Head != nil:
		out.Kind, out.Object = hub.ChangeProject, string(c.Project)
	case c.Repo != nil:
		out.Kind, out.Object = hub.ChangeRepo, string(c.Repo.ID)
	case c.Contract != nil:
		out.Kind, out.Object, out.Version = hub.ChangeContract, string(c.Contract.ID), c.Contract.Version
	case c.Packet != nil:
		out.Kind, out.Object = hub.ChangePacket, string(c.Packet.ID)
	}
	return out
}

// catchUp compares everything.
func (w *worker) catchUp(ctx context.Context) error {
	if err := w.compareAll(ctx); err != nil {
		w.request()
		return err
	}
	w.compared = w.clock()
	err := w.update(ctx, func(tx hub.Tx, p hub.Peer, box hub.Outbox) error {
		p.Seen, box.CatchUp = hub.InstantAt(w.compared), false
		if err := tx.PutPeer(p); err != nil {
			return err
		}
		return tx.PutOutbox(box)
	})
	if err != nil {
		return fmt.Errorf("peer: note that %s was compared: %w", w.aid, err)
	}
	return nil
}
