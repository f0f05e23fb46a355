// Package contract keeps projects in which several repositories agree on their
// interfaces, and what hubs exchange about them.
//
// Every change is one transaction: the thing, a journal entry, a row in the log
// of changes that other hubs are told from, and a message to the agents here
// whose repositories it concerns. What comes from another hub is merged, never
// put in place of what is here: whatever the order, the repetition or the delay
// of what two hubs tell each other, they end with the same.
//
// It does not know who may call what, nor how other hubs are reached: surfaces
// check permissions, and whoever sends reads the log of changes.
package contract

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"time"

	"github.com/parley-agents/parley/hub"
)

// A Sender writes the messages that events make. The mailroom is one.
type Sender interface {
	// Post writes a message from actor inside tx. fresh says that the actor
	// begins something with it, so that its limits count.
	Post(tx hub.Tx, actor hub.Caller, e hub.Envelope, fresh bool) (hub.Message, error)
	// Announce wakes those who wait for messages that are committed now.
	Announce(...hub.Message)
}

// Options changes how a Service works. The zero value works.
type Options struct {
	Clock hub.Clock    // default time.Now
	Log   *slog.Logger // default silent
	Bus   hub.Bus      // gets a hint on hub.TopicChanges after every change; may be nil

	Self     hub.AID // this hub across hubs
	Repo     string  // name of the repository that this hub speaks for
	Endpoint string  // where this hub can be called

	// Sender writes a message to the agents whose repositories an event
	// concerns. Local tells which agent of this hub an AID stands for. Without
	// both nobody is told.
	Sender Sender
	Local  func(hub.AID) (hub.AgentID, bool)

	Files  *os.Root // where shared files are kept; without one there are none
	Limits Limits
	Strict bool // a contract is updated only while it is negotiating
}

// Limits bounds what a hub keeps of projects. Members that are zero have the
// value of DefaultLimits.
type Limits struct {
	Projects  int   // of the hub
	Contracts int   // of one project
	Packets   int   // of one project
	Bytes     int64 // of content in one project, over all contracts with their versions and all packets
	Requests  int   // for files, of one project
	File      int   // bytes of one shared file
	Shared    int64 // bytes of all shared files
}

// DefaultLimits is what a hub keeps unless told otherwise.
var DefaultLimits = Limits{
	Projects: 1000, Contracts: 10_000, Packets: 50_000, Bytes: 256 << 20, Requests: 1000, File: 10 << 20, Shared: 1 << 30,
}

func (l Limits) filled() Limits {
	d := DefaultLimits
	fill(&l.Projects, d.Projects)
	fill(&l.Contracts, d.Contracts)
	fill(&l.Packets, d.Packets)
	fill(&l.Bytes, d.Bytes)
	fill(&l.Requests, d.Requests)
	fill(&l.File, d.File)
	fill(&l.Shared, d.Shared)
	return l
}

func fill[N int | int64](n *N, otherwise N) {
	if *n <= 0 {
		*n = otherwise
	}
}

// A Service is safe for concurrent use.
type Service struct {
	store hub.Store
	o     Options
	newID func() string
}

// New returns a service that keeps projects in store. opts may be nil.
func New(store hub.Store, opts *Options) *Service {
	o := Options{}
	if opts != nil {
		o = *opts
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	o.Limits = o.Limits.filled()
	ids := hub.NewIDs(o.Clock)
	return &Service{store: store, o: o, newID: func() string { return string(ids.Next()) }}
}

// aid returns who the caller is across hubs.
func (s *Service) aid(caller hub.Caller) hub.AID {
	if caller.AID == "" || caller.Kind == hub.CallerGuest { // a guest of an open hub acts for the hub
		return s.o.Self
	}
	return caller.AID
}

// isOurs reports whether the caller is this hub, or an agent of it.
func (s *Service) isOurs(caller hub.Caller) bool {
	if aid := s.aid(caller); aid == s.o.Self || s.o.Local == nil {
		return aid == s.o.Self
	}
	id, ok := s.o.Local(caller.AID)
	return ok && id == caller.ID // a peer may be called as an agent here would be
}

// speaksFor returns the repository of p that the caller speaks for: the one it
// has claimed, or else the hub's own if the caller is one of its agents.
func (s *Service) speaksFor(op string, p hub.Project, caller hub.Caller) (hub.Repo, error) {
	if r, ok := p.RepoOf(s.aid(caller)); ok {
		return r, nil
	}
	if r, ok := p.RepoNamed(s.o.Repo); ok && s.o.Repo != "" && s.isOurs(caller) {
		return r, nil
	}
	return hub.Repo{}, hub.Errorf(hub.CodeConflict, op, "Not a member of project %s", p.ID).
		WithHint("claim a repository of it first: cacp/project/join")
}

// A session is one transaction of a service, and what is to be said about it.
type session struct {
	s      *Service
	tx     hub.Tx
	caller hub.Caller
	source hub.AID // the peer that a change came from; "" for a change made here
	known  bool    // source has the thing that changes as it is after the change
	now    hub.Time

	said    []hub.Message
	changed bool
}

// agent returns who makes the change, across hubs.
func (se *session) agent() hub.AID {
	if se.source != "" {
		return se.source
	}
	return se.s.aid(se.caller)
}

// update runs fn in one transaction and then wakes those who wait.
func (s *Service) update(ctx context.Context, caller hub.Caller, source hub.AID, fn func(*session) error) error {
	var se *session
	err := s.store.Update(ctx, hub.SurvivesKill, func(tx hub.Tx) error {
		se = &session{s: s, tx: tx, caller: caller, source: source, now: s.o.Clock.Now()}
		return fn(se)
	})
	if err != nil {
		return err
	}
	if len(se.said) > 0 {
		s.o.Sender.Announce(se.said...)
	}
	if se.changed && s.o.Bus != nil {
		s.o.Bus.Publish(hub.TopicChanges)
		s.o.Bus.Publish(hub.TopicJournal)
	}
	return nil
}

// act runs fn like update on behalf of a caller who may act, with a project
// and the repository that the caller speaks for.
func (s *Service) act(ctx context.Context, op string, caller hub.Caller, id hub.ProjectID, fn func(*session, hub.Project, hub.Repo) error) error {
	if err := active(op, caller); err != nil {
		return err
	}
	return s.update(ctx, caller, "", func(se *session) error {
		p, err := project(se.tx, op, id)
		if err != nil {
			return err
		}
		r, err := s.speaksFor(op, p, caller)
		if err != nil {
			return err
		}
		return fn(se, p, r)
	})
}

// active refuses callers that may look but not act.
func active(op string, caller hub.Caller) error {
	if caller.Paused {
		return hub.Errorf(hub.CodeDenied, op, "%s is paused and cannot change a project", caller.ID).
			WithHint("the operator can lift this with: parley agent resume %s", caller.ID)
	}
	return nil
}

// record writes the row of the log of changes and the journal entry for a
// change of one thing.
func (se *session) record(a hub.Action, c hub.Change, facts any) error {
	c.At = se.now
	if se.known {
		c.Origin = se.source
	}
	if err := se.tx.AddChange(c); err != nil {
		return err
	}
	se.changed = true
	return se.note(a, c.Object, hub.OutcomeOK, facts)
}

// note writes a journal entry.
func (se *session) note(a hub.Action, subject string, outcome hub.Outcome, facts any) error {
	raw, err := json.Marshal(facts)
	if err != nil {
		return err
	}
	actor := se.caller.ID
	if actor == "" {
		actor = hub.Self
	}
	_, err = se.tx.Append(hub.Entry{At: se.now, Actor: actor, Action: a, Subject: subject, Outcome: outcome, Facts: raw})
	return err
}

// facts is what the journal keeps of a change: never content.
type facts struct {
	Project hub.ProjectID `json:"project_id"`
	Agent   hub.AID       `json:"agent,omitempty"`
	Source  hub.AID       `json:"source,omitempty"` // the peer that it came from
	Repo    hub.RepoID    `json:"repo_id,omitempty"`
	Version int           `json:"version,omitempty"`
	Status  string        `json:"status,omitempty"`
	Action  string        `json:"action,omitempty"`
	Digest  string        `json:"sha256,omitempty"` // of the contract, packet, file or content
}

// project returns a project or says that there is none.
func project(r hub.Reader, op string, id hub.ProjectID) (hub.Project, error) {
	if id == "" {
		return hub.Project{}, hub.Errorf(hub.CodeInvalid, op, "projectId required")
	}
	p, err := r.Project(id)
	if hub.CodeOf(err) == hub.CodeNotFound {
		return p, hub.Errorf(hub.CodeNotFound, op, "Project %s not found", id).WithHint("cacp/project/list shows those that are here")
	}
	return p, err
}

// contract returns a contract or says that there is none.
func contract(r hub.Reader, op string, project hub.ProjectID, id hub.ContractID) (hub.Contract, error) {
	if id == "" {
		return hub.Contract{}, hub.Errorf(hub.CodeInvalid, op, "contractId required")
	}
	c, err := r.Contract(project, id)
	if hub.CodeOf(err) == hub.CodeNotFound {
		return c, hub.Errorf(hub.CodeNotFound, op, "Contract %s not found", id).WithHint("cacp/contract/list shows those of the project")
	}
	return c, err
}

// whole returns a contract with History and Conflicts.
func whole(r hub.Reader, c hub.Contract) (hub.Contract, error) {
	var err error
	c.History, c.Conflicts, err = r.Versions(c.Project, c.ID)
	return c, err
}

// page returns a limit that is between 1 and most.
func page(op string, limit, most int) (int, error) {
	switch {
	case limit == 0:
		return most, nil
	case limit < 0 || limit > most:
		return 0, hub.Errorf(hub.CodeInvalid, op, "limit: %d is not between 1 and %d", limit, most)
	}
	return limit, nil
}
