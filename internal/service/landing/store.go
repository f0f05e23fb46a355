package landing

import (
	"context"
	"encoding/json"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
	"github.com/parley-agents/parley/internal/ground/text/shorten"
)

// A change is one transaction of the service: its writes, their journal entries and the messages
// that it posts.
type change struct {
	s      *Service
	tx     hub.Tx
	actor  hub.Caller
	now    hub.Time
	posted []hub.Message
}

// update runs fn in one transaction, under a lease if it is not nil, and announces its messages
// after the commit.
func (s *Service) update(ctx context.Context, actor hub.Caller, lease *hub.Lease, fn func(*change) error) error {
	var c *change
	err := s.store.Update(ctx, hub.SurvivesPowerLoss, func(tx hub.Tx) error {
		c = &change{s: s, tx: tx, actor: actor, now: s.clock.Now()}
		if lease != nil {
			if err := tx.CheckLease(*lease); err != nil {
				return err
			}
		}
		return fn(c)
	})
	if err != nil {
		return err
	}
	s.mail.Announce(c.posted...)
	s.publish()
	return nil
}

// entryFacts are the facts of the journal entry about an entry of a queue.
type entryFacts struct {
	Repository string           `json:"repository"`
	Into       string           `json:"into"`
	Commit     string           `json:"commit"`
	Tree       string           `json:"tree,omitempty"`
	Owner      hub.AgentID      `json:"owner"`
	Handoff    hub.HandoffID    `json:"handoff,omitempty"`
	Task       hub.TaskID       `json:"task,omitempty"`
	State      hub.LandingState `json:"state"`
	Waits      hub.LandingWait  `json:"waits_for,omitempty"`
	Check      string           `json:"check,omitempty"`
	Conflicts  int              `json:"conflicts,omitempty"`
	Results    []string         `json:"results,omitempty"`
	Base       string           `json:"base,omitempty"`   // the head of the target before
	Step       string           `json:"step,omitempty"`   // the head that the target is about to have
	Landed     string           `json:"landed,omitempty"` // the merge commit in the target
	Head       string           `json:"head,omitempty"`   // of the target after it
	Digest     string           `json:"sha256"`           // of the entry

	Asked     []hub.GateEvidence `json:"asked,omitempty"`
	NotAsked  []string           `json:"not_asked,omitempty"`
	Without   []hub.Waiver       `json:"without,omitempty"`
	TakesBack string             `json:"takes_back,omitempty"`
	UndoneBy  hub.LandingID      `json:"undone_by,omitempty"`
}

// put stores an entry with its journal entry and returns it as it is stored.
func (c *change) put(e hub.LandingEntry, action actions.Action) (hub.LandingEntry, error) {
	e.Reason = shorten.Bytes(e.Reason, maxReason)
	e = answered(e)
	id, err := c.tx.WriteLandings().PutEntry(e)
	if err != nil {
		return e, err
	}
	e.ID = id
	e.Revision++
	f := entryFacts{
		Repository: e.Repository, Into: e.Into, Commit: e.Commit, Tree: e.Tree, Owner: e.Owner, Handoff: e.Handoff, Task: e.Task, State: e.State, Waits: e.Waits,
		Check: e.Check, Conflicts: len(e.Conflicts), Results: e.Results, Step: e.Step, Landed: e.LandedCommit, Head: e.Head, Digest: e.Digest(),
		Asked: e.Asked, NotAsked: e.NotAsked, Without: e.Without, TakesBack: e.TakesBack, UndoneBy: e.UndoneBy,
	}
	if _, err = c.tx.Append(c.actor.Entry(c.now, action, string(e.ID), f)); err != nil {
		return e, err
	}
	return e, c.progress(e.Subject(), func(p *hub.Progress) {
		p.Landing = landingWords[e.State]
		p.Landed = e.LandedCommit
		if e.State == hub.EntryReturned || e.State == hub.EntryUndone {
			p.Reason = e.Reason
		}
	})
}

// landingWords are the words for the states of entries in the progress of work.
var landingWords = map[hub.LandingState]hub.LandingWord{
	hub.EntryQueued:    hub.LandingQueued,
	hub.EntryTrying:    hub.LandingTrying,
	hub.EntryWaiting:   hub.LandingQueued,
	hub.EntryLanded:    hub.LandingLanded,
	hub.EntryReturned:  hub.LandingReturned,
	hub.EntryCancelled: hub.LandingNone,
	hub.EntryUndone:    hub.LandingReturned,
}

// reviewWords are the words for the states of reviews.
var reviewWords = map[hub.ReviewState]hub.ReviewWord{
	hub.ReviewStateWaiting:  hub.ReviewWaiting,
	hub.ReviewStateApproved: hub.ReviewApproved,
	hub.ReviewStateChanges:  hub.ReviewChanges,
	hub.ReviewStateReplaced: hub.ReviewNone,
}

// progress changes how far the work of a handoff or a task has come.
func (c *change) progress(subject string, set func(*hub.Progress)) error {
	if subject == "" {
		return nil
	}
	p, err := c.tx.Checks().Progress(subject)
	if err != nil {
		return err
	}
	before := p
	set(&p)
	isSame := p.Landing == before.Landing && p.Landed == before.Landed && p.Review == before.Review && p.Reason == before.Reason
	if isSame {
		return nil
	}
	p.UpdatedAt = c.now
	return c.tx.WriteChecks().PutProgress(p)
}

// advance stores an entry in another state. set adds the facts of the new state; it may be nil.
func (c *change) advance(e hub.LandingEntry, next hub.LandingState, action actions.Action, set func(*hub.LandingEntry)) (hub.LandingEntry, error) {
	e, err := e.Advance(next, c.now)
	if err != nil {
		return e, err
	}
	if set != nil {
		set(&e)
	}
	return c.put(e, action)
}

// A notice is a message of the hub about an entry or a review.
type notice struct {
	to        []hub.AgentID
	priority  hub.Priority
	summary   string
	next      string // the next step
	members   map[string]any
	artifacts []hub.ArtifactRef
	thread    string
}

// post writes a message of the hub.
func (c *change) post(n notice) error {
	if len(n.to) == 0 {
		return nil
	}
	payload := map[string]any{"summary": shorten.Bytes(n.summary, 270)}
	if n.next != "" {
		payload["next_step"] = n.next
	}
	for name, value := range n.members {
		payload[name] = value
	}
	raw, err := json.Marshal(payload)
	if err != nil {
		return err
	}
	if len(raw) > hub.MaxPayload { // the end of the output is the longest member
		delete(payload, "output")
		if raw, err = json.Marshal(payload); err != nil {
			return err
		}
	}

	e := hub.Envelope{To: n.to, Type: hub.TypeStatusUpdate, Priority: n.priority, Topic: noticeTopic, Payload: raw, ThreadID: n.thread}
	if len(n.artifacts) > 0 {
		e.Context = &hub.Context{Artifacts: n.artifacts}
	}
	m, err := c.s.mail.Notify(c.tx, e)
	if err == nil && m.ID != "" {
		c.posted = append(c.posted, m)
	}
	return err
}

// tellOperator tells the operator about something that waits for a person.
func (c *change) tellOperator(summary, next string, about hub.NoticeSubject) error {
	return c.post(notice{
		to: []hub.AgentID{hub.Operator}, priority: hub.PriorityHigh, summary: summary, next: next,
		members: map[string]any{hub.NoticeMember: about},
	})
}

// self is the hub as the actor of its own work.
var self = hub.Caller{ID: hub.Self}
