// Package attention lists what waits for a person: messages and tasks that need a yes,
// questions of agents, escalated discussions, hubs that want to be peers, conflicts, agents
// in trouble, files that agents changed or wait for, late work and mail of the operator. The page, parley watch, the notices to
// people and parley approve ask this one list.
//
// Service.Waiting reads the store in one view, and asks its Sources for the things that are
// not in the store or that another service decides about. Waiting.Items turns the result
// into items of one form; the table in kind.go has a row for each kind. Service.Find says
// what an id names, for those who approve or deny it. The package decides about nothing and
// writes nothing.
//
// It is tested here on a real store, and through a hub by the tests of internal/operation/api,
// internal/surface/web, internal/desk/watch, server and the scripts of cmd/parley.
package attention

import (
	"context"
	"fmt"
	"slices"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/coord"
)

// The most things of each kind that are listed.
const (
	maxPage      = 200 // messages, handoffs, operations of teams and discussions
	maxConflicts = 100 // of contracts, and of artifacts
)

// lowDisk is the number of free bytes below which the disk is nearly full.
const lowDisk = 1 << 30

// A Service lists what waits for a person. It is safe for concurrent use.
type Service struct {
	store    hub.Store
	headline Headline
	page     int // of handoffs that are read at a time; tests make it smaller
}

// A Headline returns the text of a message on one line.
type Headline func(hub.Envelope) string

// New returns a service that reads store and takes the titles of messages from headline.
func New(store hub.Store, headline Headline) *Service {
	return &Service{store: store, headline: headline, page: maxPage}
}

// Sources know the things that wait and are not in the store, or that another service
// decides about. Nothing of a nil source waits. They are asked before the view of the store
// begins, so they may read it themselves.
type Sources struct {
	Keeper Keeper
	Agents Agents
	Files  Files
	Tasks  Tasks
	Mail   Mail
	Disk   Disk
}

// A Keeper knows the questions of the agents that the hub runs.
type Keeper interface {
	Questions(ctx context.Context) ([]Question, error)
}

// Agents knows the agents that are stuck or suspended.
type Agents interface {
	Troubled(ctx context.Context) ([]Trouble, error)
}

// Files knows the agents that have waited for files of others for long.
type Files interface {
	Blocked(ctx context.Context) ([]Blocked, error)
}

// Tasks knows the tasks that were not done in time.
type Tasks interface {
	Late(ctx context.Context) ([]Task, error)
}

// Mail knows the messages that wait for an answer.
type Mail interface {
	// Overdue returns the messages that were not acknowledged in time.
	Overdue(ctx context.Context) ([]Overdue, error)
	// Inbox returns the first page of the operator's inbox, and the number of unread
	// messages after it.
	Inbox(ctx context.Context) (messages []hub.Envelope, more int, err error)
}

// A Disk is the disk of the hub's home.
type Disk interface {
	// Free returns the free bytes; negative if unknown.
	Free() int64
}

// Waiting returns everything that waits for a person. Only the operator and auditors may
// list it; peers, conflicts, the disk and the inbox are for the operator alone, and so are
// texts of high sensitivity and the titles of restricted tasks.
func (s *Service) Waiting(ctx context.Context, actor hub.Caller, from Sources) (Waiting, error) {
	if !actor.Audits() {
		return Waiting{}, hub.Errorf(hub.CodeDenied, "attention.Waiting", "only the operator and auditors can list the items that wait for a person")
	}
	w := Waiting{ShortIDs: map[string]hub.ShortID{}}
	if err := w.ask(ctx, actor, from); err != nil {
		return Waiting{}, fmt.Errorf("attention: %w", err)
	}
	err := s.store.View(ctx, func(r hub.Reader) error { return w.read(r, actor, s.page) })
	if err != nil {
		return Waiting{}, fmt.Errorf("attention: %w", err)
	}
	w.sortMail(s.headline)
	if actor.ReadsAsAuditor() {
		w.withhold(actor)
	}
	return w, nil
}

// withhold takes the texts of high sensitivity and the titles of restricted tasks out of what
// waits, for an actor that reads it as an auditor.
func (w *Waiting) withhold(actor hub.Caller) {
	for i, e := range w.Messages {
		if e.WithheldFrom(actor) {
			w.Messages[i] = e.Withheld()
		}
	}
	for i, h := range w.Handoffs {
		if h.Restricted && !h.Concerns(actor.ID) {
			w.Handoffs[i].Title = hub.RestrictedText
		}
	}
	for i, d := range w.Talks {
		w.Talks[i] = d.For(actor)
	}
	for i, o := range w.Overdue {
		if o.Message.WithheldFrom(actor) {
			w.Overdue[i].Message = o.Message.Withheld()
		}
	}
	for i, t := range w.Late {
		if t.Restricted {
			w.Late[i].Title = hub.RestrictedText
		}
	}
}

// ask fills in the things that the sources know.
func (w *Waiting) ask(ctx context.Context, actor hub.Caller, from Sources) (err error) {
	if from.Keeper != nil {
		if w.Questions, err = from.Keeper.Questions(ctx); err != nil {
			return err
		}
	}
	if from.Agents != nil {
		if w.Troubled, err = from.Agents.Troubled(ctx); err != nil {
			return err
		}
	}
	if from.Files != nil {
		if w.Blocked, err = from.Files.Blocked(ctx); err != nil {
			return err
		}
	}
	if from.Tasks != nil {
		if w.Late, err = from.Tasks.Late(ctx); err != nil {
			return err
		}
	}

	// The free space and the inbox are for the operator alone.
	if from.Disk != nil && actor.IsOperator() {
		if free := from.Disk.Free(); free >= 0 && free < lowDisk {
			w.Free = max(free, 1)
		}
	}
	if from.Mail == nil {
		return nil
	}
	if w.Overdue, err = from.Mail.Overdue(ctx); err != nil || !actor.IsOperator() {
		return err
	}
	w.Inbox, w.More, err = from.Mail.Inbox(ctx)
	return err
}

// read fills in the things that the store has.
func (w *Waiting) read(r hub.Reader, actor hub.Caller, page int) (err error) {
	if w.Messages, err = heldMessages(r); err != nil {
		return err
	}
	if w.Handoffs, err = undecidedHandoffs(r, page); err != nil {
		return err
	}
	if w.Operations, err = r.Teamspaces().HeldActions(maxPage); err != nil {
		return err
	}
	if w.Talks, err = escalatedTalks(r); err != nil {
		return err
	}

	if actor.IsOperator() {
		if w.Peers, err = pendingPeers(r); err != nil {
			return err
		}
		if w.Contracts, err = conflictedContracts(r); err != nil {
			return err
		}
		if w.Merges, err = escalatedMerges(r, actor); err != nil {
			return err
		}
		if err = w.readLandings(r); err != nil {
			return err
		}
	}
	return w.nameAll(r)
}

// readLandings fills in the changes that wait for a yes of the operator, and the reviews that the
// operator was asked for, or was told about.
func (w *Waiting) readLandings(r hub.Reader) error {
	waiting, err := r.Landings().Entries(hub.LandingQuery{States: []hub.LandingState{hub.EntryWaiting}, Limit: maxPage})
	if err != nil {
		return err
	}
	for _, e := range waiting {
		if e.Waits == hub.WaitsForOperator {
			w.Landings = append(w.Landings, e)
		}
	}
	reviews, err := r.Landings().Reviews(hub.ReviewQuery{States: []hub.ReviewState{hub.ReviewStateWaiting}, Limit: maxPage})
	for _, v := range reviews {
		if slices.Contains(v.Asked, hub.Operator) || !v.ToldAt.IsZero() {
			w.Reviews = append(w.Reviews, v)
		}
	}
	return err
}

// heldMessages returns the messages that wait for the operator, oldest first.
func heldMessages(r hub.Reader) (out []hub.Envelope, err error) {
	held, err := r.Query(hub.Query{Audit: true, Held: true, Limit: maxPage})
	for _, m := range held.Messages {
		out = append(out, m.Envelope)
	}
	return out, err
}

// undecidedHandoffs returns the proposed handoffs that need an approval, of the operator or
// of a member of their team, newest first. It reads page after page, since most proposals
// need none.
func undecidedHandoffs(r hub.Reader, page int) (out []hub.Handoff, err error) {
	q := hub.HandoffQuery{States: []hub.HandoffState{hub.HandoffProposed}, Limit: page}
	for {
		found, err := r.Handoffs(q)
		if err != nil {
			return nil, err
		}
		for _, h := range found {
			if !h.WaitsForOperator() && !h.WaitsForTeam() {
				continue
			}
			out = append(out, h)
		}
		if len(found) < q.Limit || len(out) >= maxPage {
			return out, nil
		}
		q.Cursor = found[len(found)-1].ID
	}
}

// escalatedTalks returns the negotiations and disagreements that the operator decides.
func escalatedTalks(r hub.Reader) ([]hub.Deliberation, error) {
	open, err := r.Deliberations(hub.DeliberationQuery{Open: true, Limit: maxPage})
	return slices.DeleteFunc(open, func(d hub.Deliberation) bool {
		return d.State != hub.TalkEscalated || !slices.Contains(d.Deciders, hub.Operator)
	}), err
}

// pendingPeers returns the hubs that want to be peers of this one.
func pendingPeers(r hub.Reader) (out []coord.AID, err error) {
	all, err := r.Peers()
	for _, p := range all {
		if p.State == hub.PeerPending {
			out = append(out, p.AID)
		}
	}
	return out, err
}

// conflictedContracts returns the contracts that are not agreed and have a content of their
// version that lost.
func conflictedContracts(r hub.Reader) (out []Contract, err error) {
	projects, err := r.Coordination().Projects("", maxConflicts)
	if err != nil {
		return nil, err
	}
	for _, p := range projects {
		if len(out) >= maxConflicts {
			break
		}
		found, err := r.Coordination().Contracts(coord.ContractQuery{Project: p.ID, Conflicted: true, Limit: maxConflicts})
		if err != nil {
			return nil, err
		}
		for _, c := range found {
			_, lost, err := r.Coordination().Versions(c.Project, c.ID)
			if err != nil {
				return nil, err
			}
			current := slices.ContainsFunc(lost, func(v coord.ContractVersion) bool { return v.Version == c.Version })
			if current && !c.Status.Reaches(coord.ContractAgreed) {
				out = append(out, Contract{Project: c.Project, ID: c.ID, Name: c.Name, Version: c.Version})
			}
		}
	}
	return out, nil
}

// escalatedMerges returns the conflicts that are escalated in teams that can be changed,
// without merges of the actor: another one signs those.
func escalatedMerges(r hub.Reader, actor hub.Caller) (out []hub.Conflict, err error) {
	all, err := r.Teamspaces().Conflicts(hub.ConflictQuery{Open: true, State: hub.MergeEscalated, Limit: maxConflicts})
	if err != nil {
		return nil, err
	}
	for _, k := range all {
		t, err := r.Teamspaces().Team(k.Team)
		if err != nil {
			return nil, err
		}
		own := k.Result > 0 && k.MergedBy == actor.ID
		if !t.ReadOnly() && !own {
			out = append(out, k)
		}
	}
	return out, nil
}

// nameAll looks up the short ids of messages, handoffs, operations and discussions.
func (w *Waiting) nameAll(r hub.Reader) error {
	var ids []string
	for _, e := range slices.Concat(w.Messages, w.Inbox) {
		ids = append(ids, string(e.ID))
	}
	for _, o := range w.Overdue {
		ids = append(ids, string(o.Message.ID))
	}
	for _, h := range w.Handoffs {
		ids = append(ids, string(h.ID))
	}
	for _, o := range w.Operations {
		ids = append(ids, o.ID)
	}
	for _, d := range w.Talks {
		ids = append(ids, d.ID)
	}

	// An id without a short one is shown whole.
	for _, id := range ids {
		short, err := r.ShortID(id)
		switch hub.CodeOf(err) {
		case "":
			w.ShortIDs[id] = short
		case hub.CodeNotFound: // a thread with a name of its own, or a message in an archive
		default:
			return err
		}
	}
	return nil
}
