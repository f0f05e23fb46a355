package postgres

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/engine/rows"
)

var (
	renewHub = rows.Statement(`INSERT INTO hubs (id, machine, waiting, at) VALUES (?1, ?2, ?3, clock_timestamp())
		ON CONFLICT (id) DO UPDATE SET waiting = excluded.waiting, at = excluded.at`)
	otherHubs = rows.Statement(`SELECT machine, waiting FROM hubs WHERE id <> ?1 AND at > clock_timestamp() - interval '10 seconds'`)
	leaveHubs = rows.Statement(`DELETE FROM hubs WHERE id = ?1 OR at < now() - interval '1 day'`)

	allRoots = rows.Statement(`SELECT path, machine FROM roots ORDER BY path, machine`)

	putInquiry  = rows.Statement(`INSERT INTO inquiries (id, machine, inquiry, at) VALUES (?1, ?2, ?3, now())`)
	takeInquiry = rows.Statement(`UPDATE inquiries SET holder = ?2 WHERE id = (
		SELECT id FROM inquiries WHERE machine = ?1 AND holder IS NULL ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING id, inquiry`)
	putAnswer   = rows.Statement(`UPDATE inquiries SET answer = ?2 WHERE id = ?1`)
	answerTo    = rows.Statement(`SELECT answer FROM inquiries WHERE id = ?1 AND answer IS NOT NULL`)
	dropInquiry = rows.Statement(`DELETE FROM inquiries WHERE id = ?1 OR at < now() - interval '1 hour'`)
)

// others is what the other hubs announced.
type others struct {
	machines map[string]bool
	waiting  map[hub.AgentID]bool
}

// announce tells the other hubs that this one runs, and reads what they announced.
func (s *Store) announce(ctx context.Context) error {
	s.hubsMu.Lock()
	list := s.waiting
	s.hubsMu.Unlock()

	agents := []hub.AgentID{}
	if list != nil {
		agents = append(agents, list()...)
	}
	raw, err := json.Marshal(agents)
	if err != nil {
		return err
	}

	found := others{map[string]bool{}, map[hub.AgentID]bool{}}
	err = s.borrow(ctx, "postgres.announce", func(r *reader) error {
		q := r.Ask(renewHub, s.id, s.machine, string(raw))
		if err := q.Exec(); err != nil {
			return err
		}

		q = r.Ask(otherHubs, s.id)
		for q.Next() {
			found.machines[q.Row().ColumnText(0)] = true
			var there []hub.AgentID
			q.Note(json.Unmarshal(q.Row().ColumnRawText(1), &there))
			for _, a := range there {
				found.waiting[a] = true
			}
		}
		return q.Done()
	})

	if err == nil {
		s.hubsMu.Lock()
		s.others = found
		s.hubsMu.Unlock()
	}
	return err
}

// AnnounceWaiting has the store tell the other hubs every few seconds which agents wait
// for messages at this one, until ctx ends.
func (s *Store) AnnounceWaiting(ctx context.Context, list func() []hub.AgentID) {
	s.setWaiting(list)
	defer s.setWaiting(nil)
	<-ctx.Done()
}

func (s *Store) setWaiting(list func() []hub.AgentID) {
	s.hubsMu.Lock()
	defer s.hubsMu.Unlock()
	s.waiting = list
}

// WaitsElsewhere reports whether an agent waited for messages at another hub a few
// seconds ago.
func (s *Store) WaitsElsewhere(agent hub.AgentID) bool {
	s.hubsMu.Lock()
	defer s.hubsMu.Unlock()
	return s.others.waiting[agent]
}

// Away reports whether no hub runs on a machine: none has announced itself for the time
// of a lease.
func (s *Store) Away(machine string) bool {
	s.hubsMu.Lock()
	defer s.hubsMu.Unlock()
	return machine != s.machine && !s.others.machines[machine]
}

// A MachineRoot is a root of some machine.
type MachineRoot = hub.MachineRoot

// MachineRoots returns the roots of all machines.
func (s *Store) MachineRoots(ctx context.Context) (all []MachineRoot, err error) {
	err = s.borrow(ctx, "postgres.MachineRoots", func(r *reader) error {
		q := r.Ask(allRoots)
		for q.Next() {
			all = append(all, MachineRoot{Path: q.Row().ColumnText(0), Machine: q.Row().ColumnText(1)})
		}
		return q.Done()
	})
	return all, err
}

func machineTopic(machine string) string { return "machine/" + machine }
func answerTopic(id string) string       { return "answer/" + id }

// Ask puts an inquiry to the hubs of another machine and returns the answer. It reports
// CodeUnreachable when no hub runs there.
func (s *Store) Ask(ctx context.Context, machine, inquiry string) (answer string, err error) {
	const op = "postgres.Ask"
	id := string(hub.NewIDs(time.Now).Next())
	hints, unsubscribe := s.bus.Subscribe(answerTopic(id))
	defer unsubscribe()

	change := func(ctx context.Context, stmt rows.StmtID, args ...any) error {
		return s.borrow(ctx, op, func(r *reader) error {
			q := r.Ask(stmt, args...)
			return q.Exec()
		})
	}

	if s.Away(machine) {
		if err := s.announce(ctx); err != nil { // a hub that started a moment ago is not away
			return "", err
		}
	}
	if s.Away(machine) {
		return "", hub.Errorf(hub.CodeUnreachable, op, "machine away: no hub runs on %s", machine)
	}

	// The inquiry is a row that one hub of the other machine takes.
	if err := change(ctx, putInquiry, id, machine, inquiry); err != nil {
		return "", err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeWait)
		defer cancel()
		change(ctx, dropInquiry, id) // else it is dropped after an hour
	}()

	// The other hub writes its answer into the row of the inquiry.
	s.bus.Publish(machineTopic(machine))
	for answered := false; !answered; {
		select {
		case <-hints:
		case <-time.After(time.Second): // a hint may be lost
		case <-ctx.Done():
			return "", ctx.Err()
		}

		err := s.borrow(ctx, op, func(r *reader) error {
			q := r.Ask(answerTo, id)
			if answered = q.Next(); answered {
				answer = q.Row().ColumnText(0)
			}
			return q.Done()
		})

		switch {
		case err != nil:
			return "", err
		case !answered && s.Away(machine):
			return "", hub.Errorf(hub.CodeUnreachable, op, "machine away: the hub on %s ended before it answered", machine)
		}
	}
	return answer, nil
}

// Answer answers the inquiries of other hubs to this machine until ctx ends. An inquiry
// is given to one hub of the machine.
func (s *Store) Answer(ctx context.Context, answer func(ctx context.Context, inquiry string) string) {
	hints, unsubscribe := s.bus.Subscribe(machineTopic(s.machine))
	defer unsubscribe()
	var working sync.WaitGroup
	defer working.Wait()

	for {
		var id, inquiry string
		err := s.borrow(ctx, "postgres.Answer", func(r *reader) error {
			q := r.Ask(takeInquiry, s.machine, s.id)
			if q.Next() {
				id, inquiry = q.Row().ColumnText(0), q.Row().ColumnText(1)
			}
			return q.Done()
		})

		// A slow answer must not delay the next inquiry.
		if err == nil && id != "" {
			working.Go(func() {
				text := answer(ctx, inquiry)
				err := s.borrow(ctx, "postgres.Answer", func(r *reader) error {
					q := r.Ask(putAnswer, id, text)
					return q.Exec()
				})
				if err != nil {
					s.log.Info("an inquiry of another hub stays without an answer", "err", err)
					return
				}
				s.bus.Publish(answerTopic(id))
			})
			continue
		}

		select {
		case <-hints:
		case <-time.After(pollEvery):
		case <-ctx.Done():
			return
		}
	}
}
