// Package contract keeps projects in which several repositories agree on their
// interfaces, and merges the copies of them that hubs exchange.
//
// Every change is one transaction: the thing, a journal entry, a row in the log of
// changes from which peers are supplied, and a message to the agents of this hub
// whose repositories it concerns. A copy from another hub is merged, never put in
// place of the local one: for any order, repetition and delay of the copies that two
// hubs exchange, both end with the same state; see merge.go.
//
// A surface checks the permission of a call; this package checks what a copy of an
// invited peer changes, because only the merge knows; see authority.go. It calls no
// other hub: package peer reads the log of changes.
package contract

import (
	"cmp"
	"context"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
	"github.com/parley-agents/parley/hub/coord"
)

// A Sender writes the messages about events. The mailroom implements it.
type Sender interface {
	// Post writes a message from actor inside tx. fresh makes the limits of the
	// actor apply.
	Post(tx hub.Tx, actor hub.Caller, e hub.Envelope, fresh bool) (hub.Message, error)
	// Announce wakes the waiters of committed messages.
	Announce(...hub.Message)
}

// InProject is part of every request about one project.
type InProject struct {
	Project coord.ProjectID `json:"projectId"`
}

// In returns the part of a request that names its project.
func In(project coord.ProjectID) InProject { return InProject{project} }

// ProjectID returns the project that a request is about.
func (in InProject) ProjectID() coord.ProjectID { return in.Project }

// As is part of every request that acts for a repository.
type As struct {
	Repo string `json:"repoName,omitempty"` // its name; needed if the caller claimed several

	standsIn bool // for a repository that the caller has not claimed
}

// InContract is part of every request about one contract.
type InContract struct {
	InProject
	Contract coord.ContractID `json:"contractId"`
}

// Of returns the part of a request that names its contract.
func Of(project coord.ProjectID, contract coord.ContractID) InContract {
	return InContract{In(project), contract}
}

// Options changes how a Service works. The zero value works.
type Options struct {
	Clock hub.Clock    // default time.Now
	Log   *slog.Logger // default silent
	Bus   hub.Bus      // gets a hint on hub.TopicChanges after every change; may be nil

	Self     coord.AID // id of this hub across hubs
	Repo     string    // name of this hub's repository
	Endpoint string    // of this hub

	// Sender writes a message to the agents whose repositories an event concerns.
	// Local returns the agent of this hub with an AID. Without both no messages
	// are sent.
	Sender Sender
	Local  func(coord.AID) (hub.AgentID, bool)
	// Taken reports whether an AID is that of this hub or of one of its agents, in
	// whichever version. Default: that of this hub.
	Taken func(coord.AID) bool

	// People tells people outside of the hub of events; may be nil.
	People People

	// Repositories reads repositories of this machine that are repositories of projects. Without it
	// the hub knows of commits only what CI sends.
	Repositories Repositories

	Files  *os.Root // folder of shared files; nil for none
	Limits Limits
	Strict bool // a contract can be updated only while it is negotiating
	Page   int  // things per read where all are needed; default 64 to 1,000
}

// Limits are the limits of the projects of a hub. A zero member has the value of
// DefaultLimits.
type Limits struct {
	Projects  int   // of the hub
	Contracts int   // of one project
	Packets   int   // of one project
	Bytes     int64 // of content in one project, over all contracts with their versions and all packets
	Requests  int   // for files, of one project
	File      int   // bytes of one shared file
	Shared    int64 // bytes of all shared files

	PeerProjects int  // that one peer made
	Rate         Rate // of one peer
}

// DefaultLimits are the limits of a hub without others.
var DefaultLimits = Limits{
	Projects: 1000, Contracts: 10_000, Packets: 50_000, Bytes: 256 << 20, Requests: 1000, File: 10 << 20, Shared: 1 << 30,
	PeerProjects: 100, Rate: Rate{Projects: 20, Things: 1000, Bytes: 64 << 20},
}

func (l Limits) withDefaults() Limits {
	d := DefaultLimits
	return Limits{
		Projects: cmp.Or(l.Projects, d.Projects), Contracts: cmp.Or(l.Contracts, d.Contracts), Packets: cmp.Or(l.Packets, d.Packets),
		Bytes: cmp.Or(l.Bytes, d.Bytes), Requests: cmp.Or(l.Requests, d.Requests), File: cmp.Or(l.File, d.File), Shared: cmp.Or(l.Shared, d.Shared),
		PeerProjects: cmp.Or(l.PeerProjects, d.PeerProjects), Rate: cmp.Or(l.Rate, d.Rate),
	}
}

// A Service is safe for concurrent use.
type Service struct {
	store    hub.Store
	o        Options
	newID    func() string
	comparer *comparer
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
	o.Limits = o.Limits.withDefaults()
	ids := hub.NewIDs(o.Clock)
	return &Service{store: store, o: o, newID: func() string { return string(ids.Next()) }, comparer: newComparer()}
}

// aid returns the id of the caller across hubs.
func (s *Service) aid(caller hub.Caller) coord.AID {
	if caller.AID == "" || caller.Kind == hub.CallerAnyone {
		return s.o.Self
	}
	return caller.AID
}

// isOurs reports whether the caller is this hub or one of its agents.
func (s *Service) isOurs(caller hub.Caller) bool {
	if aid := s.aid(caller); aid == s.o.Self || s.o.Local == nil {
		return aid == s.o.Self
	}
	id, ok := s.o.Local(caller.AID)
	return ok && id == caller.ID // a peer may have the AID of a local agent
}

// speaksFor returns the repository of p that the caller speaks for: the one it has
// claimed, or else the hub's own if the caller is one of its agents and no other agent
// has claimed it. A coordinator and the operator also speak for the hub's own repository
// when another agent of the hub has claimed it. A caller that claimed several names one.
func (s *Service) speaksFor(op string, p coord.Project, caller hub.Caller, as As) (coord.Repo, error) {
	isOurs := p.Owner == "" || p.Owner == s.o.Self
	if r, ok := p.RepoNamed(as.Repo); ok && as.standsIn && isOurs {
		return r, nil
	}
	own := p.ReposOf(s.aid(caller))
	if r, ok := s.ownRepo(p); len(own) == 0 && ok && s.isOurs(caller) {
		_, local := s.local(r.Agent)
		maySpeak := r.Agent == "" || r.Agent == s.o.Self || (local && caller.Coordinates())
		if maySpeak {
			own = []coord.Repo{r}
		}
	}
	i := slices.IndexFunc(own, func(r coord.Repo) bool { return r.Name == as.Repo })
	switch {
	case len(own) == 0:
		return coord.Repo{}, hub.Errorf(hub.CodeConflict, op, "Not a member of project %s", p.ID).
			WithHint("claim a repository of it first: {project.join}")
	case i >= 0:
		return own[i], nil
	case as.Repo != "":
		return coord.Repo{}, hub.Errorf(hub.CodeDenied, op, "repoName: you speak for %s, not for %.200s", names(own, " and "), as.Repo)
	case len(own) > 1:
		return coord.Repo{}, hub.Errorf(hub.CodeInvalid, op, "repoName required: you speak for %s", names(own, " and "))
	}
	return own[0], nil
}

// ownRepo returns the repository of a project that is the hub's own.
func (s *Service) ownRepo(p coord.Project) (coord.Repo, bool) {
	if s.o.Repo == "" {
		return coord.Repo{}, false
	}
	return p.RepoNamed(s.o.Repo)
}

// mayAnswer reports CodeDenied unless the caller may answer for a repository that it
// speaks for: the agent that claimed it, a coordinator, and the operator.
func (s *Service) mayAnswer(op string, caller hub.Caller, r coord.Repo) error {
	if aid := s.aid(caller); aid == r.Agent || aid == s.o.Self || caller.Coordinates() {
		return nil
	}
	return hub.Errorf(hub.CodeDenied, op, "%s is this hub's repository and %s has not claimed it: only a coordinator or the operator can answer for it", r.Name, caller.ID).
		WithHint("ask a coordinator, who can also claim it: {project.join} %s", r.Name)
}

// A session is one transaction of a service.
type session struct {
	s      *Service
	tx     hub.Tx
	caller hub.Caller
	source coord.AID // the peer that a change came from; "" for a change made here
	known  bool      // source has the state after the change
	now    hub.Time

	messages []hub.Message
	changed  bool
	concern  *concern // what the next recorded event means to repositories; nil for nothing

	fetched bool      // this hub fetched the copies itself
	user    coord.AID // the peer of used; see charge
	used    *usage    // nil until it is read
	guestOf []coord.Grant
	charged bool
}

// agent returns the author of the change, across hubs.
func (se *session) agent() coord.AID {
	if se.source != "" {
		return se.source
	}
	return se.s.aid(se.caller)
}

// update runs fn in one transaction and then wakes the waiters.
func (s *Service) update(ctx context.Context, caller hub.Caller, source coord.AID, fn func(*session) error) error {
	var se *session
	err := s.store.Update(ctx, hub.SurvivesKill, func(tx hub.Tx) error {
		se = &session{s: s, tx: tx, caller: caller, source: source, now: s.o.Clock.Now()}
		if err := fn(se); err != nil {
			return err
		}
		return se.putUsage()
	})
	if err != nil {
		return err
	}
	if len(se.messages) > 0 {
		s.o.Sender.Announce(se.messages...)
	}
	if se.changed && s.o.Bus != nil {
		s.o.Bus.Publish(hub.TopicChanges)
		s.o.Bus.Publish(hub.TopicJournal)
	}
	return nil
}

// act runs fn like update for a caller that may act, with a project and the
// repository that the caller speaks for. need is the permission of the operation.
func (s *Service) act(ctx context.Context, op string, caller hub.Caller, id coord.ProjectID, as As, need coord.Permission, fn func(*session, coord.Project, coord.Repo) error) error {
	if err := mayAct(op, caller); err != nil {
		return err
	}
	return s.update(ctx, caller, "", func(se *session) error {
		p, err := project(se.tx, op, id)
		if err != nil {
			return err
		}
		r, err := s.speaksFor(op, p, caller, as)
		if err == nil {
			err = se.mayActAt(op, p, need)
		}
		if err != nil {
			return err
		}
		return fn(se, p, r)
	})
}

// hostOf returns the grant of the peer that invited this hub to a project, if one did.
func (se *session) hostOf(p coord.Project) (coord.Grant, bool, error) {
	if p.Owner == "" || p.Owner == se.s.o.Self {
		return coord.Grant{}, false, nil
	}
	peer, err := se.tx.Peer(p.Owner)
	if err != nil && hub.CodeOf(err) != hub.CodeNotFound {
		return coord.Grant{}, false, err
	}
	g, ok := coord.GrantIn(peer.Grants, p.ID)
	return g, ok && g.Host, nil
}

// mayActAt reports CodeDenied for an operation whose copy the hub that owns the project
// would refuse: this hub was invited with other permissions. Without the check the two
// hubs would stay different.
func (se *session) mayActAt(op string, p coord.Project, need coord.Permission) error {
	g, invited, err := se.hostOf(p)
	isRestricted := invited && len(g.Ours) > 0
	if err == nil && isRestricted && !slices.Contains(g.Ours, need) {
		return hub.Errorf(hub.CodeDenied, op, "%s invited this hub to project %s without %s", p.Owner, p.ID, need).
			WithHint("ask its operator for an invite with that permission")
	}
	return err
}

// mayAct refuses callers that may read but not act.
func mayAct(op string, caller hub.Caller) error {
	if caller.Paused {
		return hub.Errorf(hub.CodeDenied, op, "%s is paused and cannot change a project", caller.ID).
			WithHint("to end the pause, {agent.resume} %s", caller.ID)
	}
	return nil
}

// record writes the row of the log of changes and the journal entry for a
// change of one thing.
func (se *session) record(a actions.Action, c hub.Change, facts any) error {
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
func (se *session) note(a actions.Action, subject string, outcome hub.Outcome, facts any) error {
	by := se.caller
	by.ID = cmp.Or(by.ID, hub.Self)
	e := by.Entry(se.now, a, subject, facts)
	e.Outcome = outcome
	_, err := se.tx.Append(e)
	return err
}

// facts are the facts of a journal entry about a change: never content.
type facts struct {
	Project coord.ProjectID `json:"project_id"`
	Agent   coord.AID       `json:"agent,omitempty"`
	Source  coord.AID       `json:"source,omitempty"` // the peer that it came from
	Repo    coord.RepoID    `json:"repo_id,omitempty"`
	Version int             `json:"version,omitempty"`
	Status  string          `json:"status,omitempty"`
	Action  string          `json:"action,omitempty"`
	Digest  string          `json:"sha256,omitempty"` // of the contract, packet, file or content
	At      coord.Instant   `json:"at,omitzero"`      // of a write that lost

	Replaces int  `json:"replaces,omitempty"` // the version before, if the change brought a new one
	Ends     bool `json:"ends,omitempty"`     // the change announced the end of a part
}

// project returns a project. It reports CodeNotFound if there is none.
func project(r hub.Reader, op string, id coord.ProjectID) (coord.Project, error) {
	if id == "" {
		return coord.Project{}, hub.Errorf(hub.CodeInvalid, op, "projectId required")
	}
	p, err := r.Coordination().Project(id)
	if hub.CodeOf(err) == hub.CodeNotFound {
		return p, hub.Errorf(hub.CodeNotFound, op, "Project %s not found", id).WithHint("{project.list} shows the projects of this hub")
	}
	return p, err
}

// maxNamed is the number of contracts with one name that an error lists.
const maxNamed = 10

// contractNamed returns the only contract of a project with a name, the zero one if there is
// none. It reports CodeConflict if there are several.
func contractNamed(r hub.Reader, op string, project coord.ProjectID, name string) (coord.Contract, error) {
	found, err := r.Coordination().Contracts(coord.ContractQuery{Project: project, Name: name, Limit: maxNamed})
	if err != nil || len(found) == 0 {
		return coord.Contract{}, err
	}
	if len(found) == 1 {
		return found[0], nil
	}
	var ids []string
	for _, c := range found {
		ids = append(ids, string(c.ID))
	}
	return coord.Contract{}, hub.Errorf(hub.CodeConflict, op, "%d contracts are named %.200q: name one by its id: %s", len(found), name, strings.Join(ids, ", "))
}

// contract returns the contract with an id, or else the only one with that name. It reports
// CodeNotFound if there is none.
func contract(r hub.Reader, op string, project coord.ProjectID, id coord.ContractID) (coord.Contract, error) {
	if id == "" {
		return coord.Contract{}, hub.Errorf(hub.CodeInvalid, op, "contractId required")
	}
	c, err := r.Coordination().Contract(project, id)
	if hub.CodeOf(err) == hub.CodeNotFound {
		named, err := contractNamed(r, op, project, string(id))
		if err != nil || named.ID != "" {
			return named, err
		}
		return c, hub.Errorf(hub.CodeNotFound, op, "Contract %s not found", id).WithHint("{contract.list} lists the project's contracts")
	}
	return c, err
}

// liveContract is contract for operations that a withdrawn contract does not take any more.
func liveContract(r hub.Reader, op string, project coord.ProjectID, id coord.ContractID) (coord.Contract, error) {
	c, err := contract(r, op, project, id)
	if err == nil && c.Terms.Withdrawn() {
		err = hub.Errorf(hub.CodeConflict, op, "contract %s was withdrawn", c.Name).WithHint("propose a new contract: {contract.propose}")
	}
	return c, err
}

// withVersions returns c with History and Conflicts.
func withVersions(r hub.Reader, c coord.Contract) (coord.Contract, error) {
	var err error
	c.History, c.Conflicts, err = r.Coordination().Versions(c.Project, c.ID)
	return c, err
}

// readIn returns the result of fn in a snapshot that has the project.
func readIn[T any](ctx context.Context, s *Service, op string, id coord.ProjectID, fn func(hub.Reader, coord.Project) (T, error)) (T, error) {
	return hub.Read(ctx, s.store, func(r hub.Reader) (none T, err error) {
		p, err := project(r, op, id)
		if err != nil {
			return none, err
		}
		return fn(r, p)
	})
}

// required takes names and values in turn and reports CodeInvalid for the first
// that is empty.
func required(op string, pairs ...string) error {
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] == "" {
			return hub.Errorf(hub.CodeInvalid, op, "%s required", pairs[i])
		}
	}
	return nil
}

// page returns a page size between 1 and most.
func page(op string, limit, most int) (int, error) {
	switch {
	case limit == 0:
		return most, nil
	case limit < 0 || limit > most:
		return 0, hub.Errorf(hub.CodeInvalid, op, "limit must be between 1 and %d, got %d", most, limit)
	}
	return limit, nil
}
