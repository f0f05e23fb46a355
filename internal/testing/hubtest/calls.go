package hubtest

import (
	"context"
	"sync"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
	"github.com/parley-agents/parley/hub/coord"
)

// A Store is a store around another one, for tests. It calls Before before every call
// of the store, of its readers and of its transactions, and before the commit of an
// update; an error that Before returns is the result of that call, as if the engine had
// failed there. It remembers the updates that were committed.
type Store struct {
	hub.Store
	Before func(call string) error // nil to let every call pass; its calls are never concurrent

	mu      sync.Mutex // guards updates, and is held while Before runs
	updates []Update
}

// An Update is one call of Update that was committed.
type Update struct {
	Durability hub.Durability
	Actions    []actions.Action // of the entries that it appended
}

// Updates returns the updates since the last call.
func (s *Store) Updates() []Update {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.updates
	s.updates = nil
	return all
}

// A calls lets the calls of a store pass, or fail. In names that they are calls of a
// transaction.
type calls struct {
	s  *Store
	in string
}

func (c calls) pass(name string) error {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	if c.s.Before == nil {
		return nil
	}
	return c.s.Before(c.in + name)
}

// View implements hub.Store.
func (s *Store) View(ctx context.Context, fn func(hub.Reader) error) error {
	c := calls{s, "view "}
	return do0(c, "begin", func() error {
		return s.Store.View(ctx, func(r hub.Reader) error { return fn(callReader{c, r}) })
	})
}

// Update implements hub.Store.
func (s *Store) Update(ctx context.Context, d hub.Durability, fn func(hub.Tx) error) error {
	c := calls{s, "update "}
	u := Update{Durability: d}
	err := do0(c, "begin", func() error {
		return s.Store.Update(ctx, d, func(tx hub.Tx) error {
			u.Actions = nil // it may run again
			if err := fn(callTx{callReader{c, tx}, tx, &u}); err != nil {
				return err
			}
			return c.pass("commit")
		})
	})
	if err == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.updates = append(s.updates, u)
	}
	return err
}

// IndexText implements hub.Store.
func (s *Store) IndexText(ctx context.Context) error {
	return do0(calls{s, ""}, "IndexText", func() error { return s.Store.IndexText(ctx) })
}

// Lease implements hub.Store.
func (s *Store) Lease(ctx context.Context, name string, ttl time.Duration) (hub.Lease, error) {
	return do1(calls{s, ""}, "Lease", func() (hub.Lease, error) { return s.Store.Lease(ctx, name, ttl) })
}

func do0(c calls, name string, call func() error) error {
	if err := c.pass(name); err != nil {
		return err
	}
	return call()
}

func do1[T any](c calls, name string, call func() (T, error)) (out T, err error) {
	if err := c.pass(name); err != nil {
		return out, err
	}
	return call()
}

func do2[T, U any](c calls, name string, call func() (T, U, error)) (first T, second U, err error) {
	if err := c.pass(name); err != nil {
		return first, second, err
	}
	return call()
}

// A callReader and a callTx are a Reader and a Tx whose calls may fail. They embed
// neither, so that a method which is added to the interfaces is missing here.
type callReader struct {
	calls
	r hub.Reader
}

type callTx struct {
	callReader
	tx hub.Tx
	u  *Update
}

var _ hub.Tx = callTx{}

// The parts of a callReader and a callTx are they themselves.

func (s callReader) Teamspaces() hub.TeamReader  { return s }
func (s callReader) Coordination() coord.Reader  { return s }
func (s callTx) WriteTeamspaces() hub.TeamWriter { return s }
func (s callTx) WriteCoordination() coord.Writer { return s }

func (s callTx) AddDelivery(a hub.Delivery) error {
	return do0(s.calls, "AddDelivery", func() error { return s.tx.AddDelivery(a) })
}

func (s callTx) AddDecision(a hub.Decision) error {
	return do0(s.calls, "AddDecision", func() error { return s.tx.AddDecision(a) })
}

func (s callTx) Append(e hub.Entry) (hub.Entry, error) {
	return do1(s.calls, "Append", func() (hub.Entry, error) {
		s.u.Actions = append(s.u.Actions, e.Action)
		return s.tx.Append(e)
	})
}

func (s callReader) Agent(a hub.AgentID) (hub.Agent, error) {
	return do1(s.calls, "Agent", func() (hub.Agent, error) { return s.r.Agent(a) })
}

func (s callReader) Agents() ([]hub.Agent, error) {
	return do1(s.calls, "Agents", func() ([]hub.Agent, error) { return s.r.Agents() })
}

func (s callReader) Archives() ([]hub.Archive, error) {
	return do1(s.calls, "Archives", func() ([]hub.Archive, error) { return s.r.Archives() })
}

func (s callReader) ChangeSpan() (int64, int64, error) {
	return do2(s.calls, "ChangeSpan", func() (int64, int64, error) { return s.r.ChangeSpan() })
}

func (s callReader) Changes(a int64, b int) ([]hub.Change, error) {
	return do1(s.calls, "Changes", func() ([]hub.Change, error) { return s.r.Changes(a, b) })
}

func (s callReader) Contract(a coord.ProjectID, b coord.ContractID) (coord.Contract, error) {
	return do1(s.calls, "Contract", func() (coord.Contract, error) { return s.r.Coordination().Contract(a, b) })
}

func (s callReader) Contracts(a coord.ContractQuery) ([]coord.Contract, error) {
	return do1(s.calls, "Contracts", func() ([]coord.Contract, error) { return s.r.Coordination().Contracts(a) })
}

func (s callReader) CountMessages(a hub.CountFilter) (int, error) {
	return do1(s.calls, "CountMessages", func() (int, error) { return s.r.CountMessages(a) })
}

func (s callReader) Cursor(a string) (int64, error) {
	return do1(s.calls, "Cursor", func() (int64, error) { return s.r.Cursor(a) })
}

func (s callReader) DeadLetters(a coord.AID, b int) ([]hub.DeadLetter, error) {
	return do1(s.calls, "DeadLetters", func() ([]hub.DeadLetter, error) { return s.r.DeadLetters(a, b) })
}

func (s callReader) Decisions(a hub.DecisionQuery) ([]hub.Decision, error) {
	return do1(s.calls, "Decisions", func() ([]hub.Decision, error) { return s.r.Decisions(a) })
}

func (s callReader) Deliberation(a string) (hub.Deliberation, error) {
	return do1(s.calls, "Deliberation", func() (hub.Deliberation, error) { return s.r.Deliberation(a) })
}

func (s callReader) Deliberations(a hub.DeliberationQuery) ([]hub.Deliberation, error) {
	return do1(s.calls, "Deliberations", func() ([]hub.Deliberation, error) { return s.r.Deliberations(a) })
}

func (s callReader) Deliveries(a hub.EnvelopeID) ([]hub.Delivery, error) {
	return do1(s.calls, "Deliveries", func() ([]hub.Delivery, error) { return s.r.Deliveries(a) })
}

func (s callReader) Expired(a hub.Time, b int) ([]hub.EnvelopeID, error) {
	return do1(s.calls, "Expired", func() ([]hub.EnvelopeID, error) { return s.r.Expired(a, b) })
}

func (s callReader) FileRequest(a coord.ProjectID, b string) (coord.FileRequest, error) {
	return do1(s.calls, "FileRequest", func() (coord.FileRequest, error) { return s.r.Coordination().FileRequest(a, b) })
}

func (s callReader) FileRequests(a coord.ProjectID, b int) ([]coord.FileRequest, error) {
	return do1(s.calls, "FileRequests", func() ([]coord.FileRequest, error) { return s.r.Coordination().FileRequests(a, b) })
}

func (s callReader) Verdict(a coord.ProjectID, b coord.ContractID, c string) (coord.StoredVerdict, error) {
	return do1(s.calls, "Verdict", func() (coord.StoredVerdict, error) { return s.r.Coordination().Verdict(a, b, c) })
}

func (s callReader) Results(a coord.ResultQuery) ([]coord.ContractResult, error) {
	return do1(s.calls, "Results", func() ([]coord.ContractResult, error) { return s.r.Coordination().Results(a) })
}

func (s callReader) NewestResults(a coord.ProjectID, b, c coord.ContractID) ([]coord.ContractResult, error) {
	return do1(s.calls, "NewestResults", func() ([]coord.ContractResult, error) { return s.r.Coordination().NewestResults(a, b, c) })
}

func (s callReader) Deployments(a coord.DeploymentQuery) ([]coord.Deployment, error) {
	return do1(s.calls, "Deployments", func() ([]coord.Deployment, error) { return s.r.Coordination().Deployments(a) })
}

func (s callReader) NewestDeployments(a coord.ProjectID, b string) ([]coord.Deployment, error) {
	return do1(s.calls, "NewestDeployments", func() ([]coord.Deployment, error) { return s.r.Coordination().NewestDeployments(a, b) })
}

func (s callTx) PutVerdict(a coord.StoredVerdict) error {
	return do0(s.calls, "PutVerdict", func() error { return s.tx.WriteCoordination().PutVerdict(a) })
}

func (s callTx) AddResult(a coord.ContractResult) (coord.ContractResult, error) {
	return do1(s.calls, "AddResult", func() (coord.ContractResult, error) { return s.tx.WriteCoordination().AddResult(a) })
}

func (s callTx) AddDeployment(a coord.Deployment) (coord.Deployment, error) {
	return do1(s.calls, "AddDeployment", func() (coord.Deployment, error) { return s.tx.WriteCoordination().AddDeployment(a) })
}

func (s callReader) Handoff(a hub.HandoffID) (hub.Handoff, error) {
	return do1(s.calls, "Handoff", func() (hub.Handoff, error) { return s.r.Handoff(a) })
}

func (s callReader) HandoffSteps(a hub.HandoffID) ([]hub.HandoffStep, error) {
	return do1(s.calls, "HandoffSteps", func() ([]hub.HandoffStep, error) { return s.r.HandoffSteps(a) })
}

func (s callReader) Handoffs(a hub.HandoffQuery) ([]hub.Handoff, error) {
	return do1(s.calls, "Handoffs", func() ([]hub.Handoff, error) { return s.r.Handoffs(a) })
}

func (s callReader) Inbox(a hub.AgentID, b hub.InboxFilter) (hub.Page, error) {
	return do1(s.calls, "Inbox", func() (hub.Page, error) { return s.r.Inbox(a, b) })
}

func (s callReader) Invites(a hub.InviteQuery) ([]hub.Invite, error) {
	return do1(s.calls, "Invites", func() ([]hub.Invite, error) { return s.r.Invites(a) })
}

func (s callReader) Journal(a hub.JournalQuery) ([]hub.Entry, error) {
	return do1(s.calls, "Journal", func() ([]hub.Entry, error) { return s.r.Journal(a) })
}

func (s callReader) KeyByHash(a string) (hub.Key, error) {
	return do1(s.calls, "KeyByHash", func() (hub.Key, error) { return s.r.KeyByHash(a) })
}

func (s callReader) Keys(a hub.AgentID) ([]hub.Key, error) {
	return do1(s.calls, "Keys", func() ([]hub.Key, error) { return s.r.Keys(a) })
}

func (s callReader) LongID(a hub.ShortID) (string, error) {
	return do1(s.calls, "LongID", func() (string, error) { return s.r.LongID(a) })
}

func (s callReader) Message(a hub.EnvelopeID) (hub.Message, error) {
	return do1(s.calls, "Message", func() (hub.Message, error) { return s.r.Message(a) })
}

func (s callReader) MessagesBefore(a hub.Time, b hub.EnvelopeID, c int) ([]hub.Message, error) {
	return do1(s.calls, "MessagesBefore", func() ([]hub.Message, error) { return s.r.MessagesBefore(a, b, c) })
}

func (s callReader) Meta(a string) (string, error) {
	return do1(s.calls, "Meta", func() (string, error) { return s.r.Meta(a) })
}

func (s callReader) NamesArtifact(a string) (bool, error) {
	return do1(s.calls, "NamesArtifact", func() (bool, error) { return s.r.NamesArtifact(a) })
}

func (s callReader) Outbox(a coord.AID) (hub.Outbox, error) {
	return do1(s.calls, "Outbox", func() (hub.Outbox, error) { return s.r.Outbox(a) })
}

func (s callReader) Packet(a coord.ProjectID, b coord.PacketID) (coord.Packet, error) {
	return do1(s.calls, "Packet", func() (coord.Packet, error) { return s.r.Coordination().Packet(a, b) })
}

func (s callReader) Sums(a coord.ProjectID) (coord.Sums, error) {
	return do1(s.calls, "Sums", func() (coord.Sums, error) { return s.r.Coordination().Sums(a) })
}

func (s callReader) ContractSums(a coord.ProjectID, b coord.ContractID, c int) ([]coord.ContractSum, error) {
	return do1(s.calls, "ContractSums", func() ([]coord.ContractSum, error) { return s.r.Coordination().ContractSums(a, b, c) })
}

func (s callReader) PacketIDs(a coord.ProjectID, b coord.PacketID, c int) ([]coord.PacketID, error) {
	return do1(s.calls, "PacketIDs", func() ([]coord.PacketID, error) { return s.r.Coordination().PacketIDs(a, b, c) })
}

func (s callReader) Packets(a coord.PacketQuery) (coord.PacketPage, error) {
	return do1(s.calls, "Packets", func() (coord.PacketPage, error) { return s.r.Coordination().Packets(a) })
}

func (s callReader) Parties(a hub.EnvelopeID, b ...hub.AgentID) ([]hub.Party, error) {
	return do1(s.calls, "Parties", func() ([]hub.Party, error) { return s.r.Parties(a, b...) })
}

func (s callReader) Peer(a coord.AID) (hub.Peer, error) {
	return do1(s.calls, "Peer", func() (hub.Peer, error) { return s.r.Peer(a) })
}

func (s callReader) PeerByKey(a string) (hub.Peer, error) {
	return do1(s.calls, "PeerByKey", func() (hub.Peer, error) { return s.r.PeerByKey(a) })
}

func (s callReader) Peers() ([]hub.Peer, error) {
	return do1(s.calls, "Peers", func() ([]hub.Peer, error) { return s.r.Peers() })
}

func (s callReader) Processed(a hub.EnvelopeID, b hub.AgentID) (bool, error) {
	return do1(s.calls, "Processed", func() (bool, error) { return s.r.Processed(a, b) })
}

func (s callReader) Project(a coord.ProjectID) (coord.Project, error) {
	return do1(s.calls, "Project", func() (coord.Project, error) { return s.r.Coordination().Project(a) })
}

func (s callReader) Projects(a coord.ProjectID, b int) ([]coord.Project, error) {
	return do1(s.calls, "Projects", func() ([]coord.Project, error) { return s.r.Coordination().Projects(a, b) })
}

func (s callReader) Query(a hub.Query) (hub.Page, error) {
	return do1(s.calls, "Query", func() (hub.Page, error) { return s.r.Query(a) })
}

func (s callReader) ReadsArtifact(a string, b hub.AgentID) (bool, error) {
	return do1(s.calls, "ReadsArtifact", func() (bool, error) { return s.r.ReadsArtifact(a, b) })
}

func (s callReader) Receipt(a hub.AgentID, b string) (hub.Receipt, error) {
	return do1(s.calls, "Receipt", func() (hub.Receipt, error) { return s.r.Receipt(a, b) })
}

func (s callReader) Wakes() hub.WakeReader { return callWakes{s.calls, s.r.Wakes(), nil} }

func (s callTx) WriteWakes() hub.WakeWriter { return callWakes{s.calls, nil, s.tx.WriteWakes()} }

// A callWakes is the wakes of a callReader, or of a callTx.
type callWakes struct {
	calls
	r hub.WakeReader
	w hub.WakeWriter
}

func (s callWakes) OfAgent(a hub.AgentID) ([]hub.Wake, error) {
	return do1(s.calls, "Wakes.OfAgent", func() ([]hub.Wake, error) { return s.r.OfAgent(a) })
}

func (s callWakes) Put(a hub.Wake, b hub.WakeState) error {
	return do0(s.calls, "Wakes.Put", func() error { return s.w.Put(a, b) })
}

func (s callWakes) Remove(a hub.AgentID, b string) error {
	return do0(s.calls, "Wakes.Remove", func() error { return s.w.Remove(a, b) })
}

func (s callReader) Usage() hub.UsageReader { return callUsage{s.calls, s.r.Usage(), nil} }

func (s callTx) WriteUsage() hub.UsageWriter { return callUsage{s.calls, nil, s.tx.WriteUsage()} }

// A callUsage is the usage of a callReader, or of a callTx.
type callUsage struct {
	calls
	r hub.UsageReader
	w hub.UsageWriter
}

func (s callUsage) Sums(a hub.UsageQuery) ([]hub.UsageSum, error) {
	return do1(s.calls, "Usage.Sums", func() ([]hub.UsageSum, error) { return s.r.Sums(a) })
}

func (s callUsage) Turns(a hub.UsageQuery) (map[string]int64, error) {
	return do1(s.calls, "Usage.Turns", func() (map[string]int64, error) { return s.r.Turns(a) })
}

func (s callUsage) Records(a int64, b int) ([]hub.UsageRecord, error) {
	return do1(s.calls, "Usage.Records", func() ([]hub.UsageRecord, error) { return s.r.Records(a, b) })
}

func (s callUsage) First(a int64) (hub.Usage, error) {
	return do1(s.calls, "Usage.First", func() (hub.Usage, error) { return s.r.First(a) })
}

func (s callUsage) Calls(a string) ([]hub.Usage, error) {
	return do1(s.calls, "Usage.Calls", func() ([]hub.Usage, error) { return s.r.Calls(a) })
}

func (s callUsage) LastRecord() (int64, error) {
	return do1(s.calls, "Usage.LastRecord", func() (int64, error) { return s.r.LastRecord() })
}

func (s callUsage) Budgets() ([]hub.Budget, error) {
	return do1(s.calls, "Usage.Budgets", func() ([]hub.Budget, error) { return s.r.Budgets() })
}

func (s callUsage) Add(a hub.Usage) (bool, error) {
	return do1(s.calls, "Usage.Add", func() (bool, error) { return s.w.Add(a) })
}

func (s callUsage) Replace(a hub.Usage) error {
	return do0(s.calls, "Usage.Replace", func() error { return s.w.Replace(a) })
}

func (s callUsage) PutBudget(a hub.Budget) error {
	return do0(s.calls, "Usage.PutBudget", func() error { return s.w.PutBudget(a) })
}

func (s callUsage) RemoveBudget(a int64) error {
	return do0(s.calls, "Usage.RemoveBudget", func() error { return s.w.RemoveBudget(a) })
}

func (s callReader) Continuations() hub.ContinuationReader {
	return callContinuations{s.calls, s.r.Continuations(), nil}
}

func (s callTx) WriteContinuations() hub.ContinuationWriter {
	return callContinuations{s.calls, nil, s.tx.WriteContinuations()}
}

func (s callReader) Kept() hub.KeptReader { return callKept{s.calls, s.r.Kept(), nil} }

func (s callTx) WriteKept() hub.KeptWriter { return callKept{s.calls, nil, s.tx.WriteKept()} }

func (s callReader) Events() hub.EventReader { return callEvents{s.calls, s.r.Events(), nil} }

func (s callTx) WriteEvents() hub.EventWriter { return callEvents{s.calls, nil, s.tx.WriteEvents()} }

// A callEvents is the events of a callReader, or of a callTx.
type callEvents struct {
	calls
	r hub.EventReader
	w hub.EventWriter
}

func (s callEvents) Source(a string) (hub.EventSource, error) {
	return do1(s.calls, "Source", func() (hub.EventSource, error) { return s.r.Source(a) })
}

func (s callEvents) Sources() ([]hub.EventSource, error) {
	return do1(s.calls, "Sources", func() ([]hub.EventSource, error) { return s.r.Sources() })
}

func (s callEvents) Delivered(a, b string) (bool, error) {
	return do1(s.calls, "Delivered", func() (bool, error) { return s.r.Delivered(a, b) })
}

func (s callEvents) EventCounts(a string) (map[hub.EventOutcome]int64, error) {
	return do1(s.calls, "EventCounts", func() (map[hub.EventOutcome]int64, error) { return s.r.EventCounts(a) })
}

func (s callEvents) Schedule(a hub.ScheduleID) (hub.Schedule, error) {
	return do1(s.calls, "Schedule", func() (hub.Schedule, error) { return s.r.Schedule(a) })
}

func (s callEvents) Schedules() ([]hub.Schedule, error) {
	return do1(s.calls, "Schedules", func() ([]hub.Schedule, error) { return s.r.Schedules() })
}

func (s callEvents) PutSource(a hub.EventSource) error {
	return do0(s.calls, "PutSource", func() error { return s.w.PutSource(a) })
}

func (s callEvents) RemoveSource(a string) error {
	return do0(s.calls, "RemoveSource", func() error { return s.w.RemoveSource(a) })
}

func (s callEvents) AddDelivered(a, b string, c hub.Time) (bool, error) {
	return do1(s.calls, "AddDelivered", func() (bool, error) { return s.w.AddDelivered(a, b, c) })
}

func (s callEvents) DropDelivered(a hub.Time) (int, error) {
	return do1(s.calls, "DropDelivered", func() (int, error) { return s.w.DropDelivered(a) })
}

func (s callEvents) CountEvents(a string, b hub.EventOutcome, n int64) error {
	return do0(s.calls, "CountEvents", func() error { return s.w.CountEvents(a, b, n) })
}

func (s callEvents) PutSchedule(a hub.Schedule) (hub.ScheduleID, error) {
	return do1(s.calls, "PutSchedule", func() (hub.ScheduleID, error) { return s.w.PutSchedule(a) })
}

func (s callEvents) RemoveSchedule(a hub.ScheduleID) error {
	return do0(s.calls, "RemoveSchedule", func() error { return s.w.RemoveSchedule(a) })
}

func (s callReader) Tree() hub.TreeReader { return callTree{s.calls, s.r.Tree(), nil} }

func (s callTx) WriteTree() hub.TreeWriter { return callTree{s.calls, nil, s.tx.WriteTree()} }

// A callTree is the tree over the journal of a callReader, or of a callTx.
type callTree struct {
	calls
	r hub.TreeReader
	w hub.TreeWriter
}

func (s callTree) Tile(a int, b int64) (hub.Tile, error) {
	return do1(s.calls, "Tile", func() (hub.Tile, error) { return s.r.Tile(a, b) })
}

func (s callTree) Checkpoint(a int64) (hub.Checkpoint, error) {
	return do1(s.calls, "Checkpoint", func() (hub.Checkpoint, error) { return s.r.Checkpoint(a) })
}

func (s callTree) Checkpoints(a int64, b bool, c int) ([]hub.Checkpoint, error) {
	return do1(s.calls, "Checkpoints", func() ([]hub.Checkpoint, error) { return s.r.Checkpoints(a, b, c) })
}

func (s callTree) PutTile(a hub.Tile) error {
	return do0(s.calls, "PutTile", func() error { return s.w.PutTile(a) })
}

func (s callTree) PutCheckpoint(a hub.Checkpoint) error {
	return do0(s.calls, "PutCheckpoint", func() error { return s.w.PutCheckpoint(a) })
}

func (s callTree) DropCheckpoint(a int64) error {
	return do0(s.calls, "DropCheckpoint", func() error { return s.w.DropCheckpoint(a) })
}

// A callKept is the kept work of a callReader, or of a callTx.
type callKept struct {
	calls
	r hub.KeptReader
	w hub.KeptWriter
}

func (s callKept) KeptWork(a hub.KeptID) (hub.KeptWork, error) {
	return do1(s.calls, "KeptWork", func() (hub.KeptWork, error) { return s.r.KeptWork(a) })
}

func (s callKept) KeptWorks(a hub.KeptQuery) ([]hub.KeptWork, error) {
	return do1(s.calls, "KeptWorks", func() ([]hub.KeptWork, error) { return s.r.KeptWorks(a) })
}

func (s callKept) PutKeptWork(a hub.KeptWork) (hub.KeptID, error) {
	return do1(s.calls, "PutKeptWork", func() (hub.KeptID, error) { return s.w.PutKeptWork(a) })
}

func (s callKept) RemoveKeptWork(a hub.KeptID) error {
	return do0(s.calls, "RemoveKeptWork", func() error { return s.w.RemoveKeptWork(a) })
}

// A callContinuations is the continuations of a callReader, or of a callTx.
type callContinuations struct {
	calls
	r hub.ContinuationReader
	w hub.ContinuationWriter
}

func (s callContinuations) Continuation(a hub.ContinuationID) (hub.Continuation, error) {
	return do1(s.calls, "Continuation", func() (hub.Continuation, error) { return s.r.Continuation(a) })
}

func (s callContinuations) Continuations(a hub.ContinuationQuery) ([]hub.Continuation, error) {
	return do1(s.calls, "Continuations", func() ([]hub.Continuation, error) { return s.r.Continuations(a) })
}

func (s callContinuations) Rescue(a hub.RescueID) (hub.Rescue, error) {
	return do1(s.calls, "Rescue", func() (hub.Rescue, error) { return s.r.Rescue(a) })
}

func (s callContinuations) Rescues(a int) ([]hub.Rescue, error) {
	return do1(s.calls, "Rescues", func() ([]hub.Rescue, error) { return s.r.Rescues(a) })
}

func (s callContinuations) PutContinuation(a hub.Continuation) (hub.ContinuationID, error) {
	return do1(s.calls, "PutContinuation", func() (hub.ContinuationID, error) { return s.w.PutContinuation(a) })
}

func (s callContinuations) AddRescue(a hub.Rescue) (hub.RescueID, error) {
	return do1(s.calls, "AddRescue", func() (hub.RescueID, error) { return s.w.AddRescue(a) })
}

func (s callContinuations) RemoveRescue(a hub.RescueID) error {
	return do0(s.calls, "RemoveRescue", func() error { return s.w.RemoveRescue(a) })
}

func (s callReader) Reservations() hub.ReservationReader {
	return callReservations{s.calls, s.r.Reservations(), nil}
}

func (s callTx) WriteReservations() hub.ReservationWriter {
	return callReservations{s.calls, nil, s.tx.WriteReservations()}
}

// A callReservations is the reservations of a callReader, or of a callTx.
type callReservations struct {
	calls
	r hub.ReservationReader
	w hub.ReservationWriter
}

func (s callReservations) OfTree(a string) ([]hub.Reservation, error) {
	return do1(s.calls, "Reservations.OfTree", func() ([]hub.Reservation, error) { return s.r.OfTree(a) })
}

func (s callReservations) OfAgent(a hub.AgentID) ([]hub.Reservation, error) {
	return do1(s.calls, "Reservations.OfAgent", func() ([]hub.Reservation, error) { return s.r.OfAgent(a) })
}

func (s callReservations) Counts() (map[hub.AgentID]int, error) {
	return do1(s.calls, "Reservations.Counts", func() (map[hub.AgentID]int, error) { return s.r.Counts() })
}

func (s callReservations) Waits(a string) ([]hub.FileWait, error) {
	return do1(s.calls, "Reservations.Waits", func() ([]hub.FileWait, error) { return s.r.Waits(a) })
}

func (s callReservations) Views(a, b string) ([]hub.FileView, error) {
	return do1(s.calls, "Reservations.Views", func() ([]hub.FileView, error) { return s.r.Views(a, b) })
}

func (s callReservations) Notes(a hub.AgentID) ([]hub.FileNote, error) {
	return do1(s.calls, "Reservations.Notes", func() ([]hub.FileNote, error) { return s.r.Notes(a) })
}

func (s callReservations) Put(a hub.Reservation, b hub.ReservationState) error {
	return do0(s.calls, "Reservations.Put", func() error { return s.w.Put(a, b) })
}

func (s callReservations) PutWait(a hub.FileWait) error {
	return do0(s.calls, "Reservations.PutWait", func() error { return s.w.PutWait(a) })
}

func (s callReservations) RemoveWait(a, b string, c hub.AgentID) error {
	return do0(s.calls, "Reservations.RemoveWait", func() error { return s.w.RemoveWait(a, b, c) })
}

func (s callReservations) PutView(a hub.FileView) error {
	return do0(s.calls, "Reservations.PutView", func() error { return s.w.PutView(a) })
}

func (s callReservations) RemoveViews(a hub.Time, b int) (int, error) {
	return do1(s.calls, "Reservations.RemoveViews", func() (int, error) { return s.w.RemoveViews(a, b) })
}

func (s callReservations) AddNote(a hub.FileNote) error {
	return do0(s.calls, "Reservations.AddNote", func() error { return s.w.AddNote(a) })
}

func (s callReservations) RemoveNotes(a hub.AgentID) error {
	return do0(s.calls, "Reservations.RemoveNotes", func() error { return s.w.RemoveNotes(a) })
}

func (s callReader) Checks() hub.CheckReader { return callChecks{s.calls, s.r.Checks(), nil} }

func (s callTx) WriteChecks() hub.CheckWriter { return callChecks{s.calls, nil, s.tx.WriteChecks()} }

// A callChecks is the checks of a callReader, or of a callTx.
type callChecks struct {
	calls
	r hub.CheckReader
	w hub.CheckWriter
}

func (s callChecks) OfRepository(a hub.Repository) ([]hub.RepositoryCheck, error) {
	return do1(s.calls, "Checks.OfRepository", func() ([]hub.RepositoryCheck, error) { return s.r.OfRepository(a) })
}

func (s callChecks) All() ([]hub.RepositoryCheck, error) {
	return do1(s.calls, "Checks.All", func() ([]hub.RepositoryCheck, error) { return s.r.All() })
}

func (s callChecks) Policy(a hub.Repository) (hub.CheckPolicy, error) {
	return do1(s.calls, "Checks.Policy", func() (hub.CheckPolicy, error) { return s.r.Policy(a) })
}

func (s callChecks) Result(a hub.CheckResultID) (hub.CheckResult, error) {
	return do1(s.calls, "Checks.Result", func() (hub.CheckResult, error) { return s.r.Result(a) })
}

func (s callChecks) Results(q hub.CheckResultQuery) ([]hub.CheckResult, error) {
	return do1(s.calls, "Checks.Results", func() ([]hub.CheckResult, error) { return s.r.Results(q) })
}

func (s callChecks) Tail(a hub.CheckResultID) (string, error) {
	return do1(s.calls, "Checks.Tail", func() (string, error) { return s.r.Tail(a) })
}

func (s callChecks) Progress(a string) (hub.Progress, error) {
	return do1(s.calls, "Checks.Progress", func() (hub.Progress, error) { return s.r.Progress(a) })
}

func (s callChecks) Checking() ([]hub.Progress, error) {
	return do1(s.calls, "Checks.Checking", func() ([]hub.Progress, error) { return s.r.Checking() })
}

func (s callChecks) PutCheck(a hub.RepositoryCheck) error {
	return do0(s.calls, "Checks.PutCheck", func() error { return s.w.PutCheck(a) })
}

func (s callChecks) RemoveCheck(a hub.Repository, b string) error {
	return do0(s.calls, "Checks.RemoveCheck", func() error { return s.w.RemoveCheck(a, b) })
}

func (s callChecks) PutPolicy(a hub.CheckPolicy) error {
	return do0(s.calls, "Checks.PutPolicy", func() error { return s.w.PutPolicy(a) })
}

func (s callChecks) PutResult(a hub.CheckResult, b hub.CheckState) (hub.CheckResultID, error) {
	return do1(s.calls, "Checks.PutResult", func() (hub.CheckResultID, error) { return s.w.PutResult(a, b) })
}

func (s callChecks) PutProgress(a hub.Progress) error {
	return do0(s.calls, "Checks.PutProgress", func() error { return s.w.PutProgress(a) })
}

func (s callReader) Landings() hub.LandingReader {
	return callLandings{s.calls, s.r.Landings(), nil}
}

func (s callTx) WriteLandings() hub.LandingWriter {
	return callLandings{s.calls, nil, s.tx.WriteLandings()}
}

// A callLandings is the landings of a callReader, or of a callTx.
type callLandings struct {
	calls
	r hub.LandingReader
	w hub.LandingWriter
}

func (s callLandings) Policies() ([]hub.LandingPolicy, error) {
	return do1(s.calls, "Policies", func() ([]hub.LandingPolicy, error) { return s.r.Policies() })
}

func (s callLandings) Entry(a hub.LandingID) (hub.LandingEntry, error) {
	return do1(s.calls, "Entry", func() (hub.LandingEntry, error) { return s.r.Entry(a) })
}

func (s callLandings) Entries(a hub.LandingQuery) ([]hub.LandingEntry, error) {
	return do1(s.calls, "Entries", func() ([]hub.LandingEntry, error) { return s.r.Entries(a) })
}

func (s callLandings) Review(a hub.ReviewID) (hub.Review, error) {
	return do1(s.calls, "Review", func() (hub.Review, error) { return s.r.Review(a) })
}

func (s callLandings) Reviews(a hub.ReviewQuery) ([]hub.Review, error) {
	return do1(s.calls, "Reviews", func() ([]hub.Review, error) { return s.r.Reviews(a) })
}

func (s callLandings) PutPolicy(a hub.LandingPolicy) error {
	return do0(s.calls, "PutPolicy", func() error { return s.w.PutPolicy(a) })
}

func (s callLandings) RemovePolicy(a string) error {
	return do0(s.calls, "RemovePolicy", func() error { return s.w.RemovePolicy(a) })
}

func (s callLandings) PutEntry(a hub.LandingEntry) (hub.LandingID, error) {
	return do1(s.calls, "PutEntry", func() (hub.LandingID, error) { return s.w.PutEntry(a) })
}

func (s callLandings) PutReview(a hub.Review) (hub.ReviewID, error) {
	return do1(s.calls, "PutReview", func() (hub.ReviewID, error) { return s.w.PutReview(a) })
}

func (s callReader) Subscriptions(a hub.AgentID) ([]hub.Subscription, error) {
	return do1(s.calls, "Subscriptions", func() ([]hub.Subscription, error) { return s.r.Subscriptions(a) })
}

func (s callReader) Copies(q hub.CopyQuery) ([]hub.Copy, error) {
	return do1(s.calls, "Copies", func() ([]hub.Copy, error) { return s.r.Copies(q) })
}

func (s callReader) Roots() ([]hub.Root, error) {
	return do1(s.calls, "Roots", func() ([]hub.Root, error) { return s.r.Roots() })
}

func (s callReader) Run(a hub.RunID) (hub.Run, error) {
	return do1(s.calls, "Run", func() (hub.Run, error) { return s.r.Run(a) })
}

func (s callReader) Runs(a hub.RunQuery) ([]hub.Run, error) {
	return do1(s.calls, "Runs", func() ([]hub.Run, error) { return s.r.Runs(a) })
}

func (s callReader) Sent(a hub.SentFilter) ([]hub.Sent, error) {
	return do1(s.calls, "Sent", func() ([]hub.Sent, error) { return s.r.Sent(a) })
}

func (s callReader) SessionMark(a hub.AgentID, b string) (hub.SessionMark, error) {
	return do1(s.calls, "SessionMark", func() (hub.SessionMark, error) { return s.r.SessionMark(a, b) })
}

func (s callReader) ShortID(a string) (hub.ShortID, error) {
	return do1(s.calls, "ShortID", func() (hub.ShortID, error) { return s.r.ShortID(a) })
}

func (s callReader) Token(a string) (hub.Token, error) {
	return do1(s.calls, "Token", func() (hub.Token, error) { return s.r.Token(a) })
}

func (s callReader) Tokens(a coord.ProjectID, b int) ([]hub.Token, error) {
	return do1(s.calls, "Tokens", func() ([]hub.Token, error) { return s.r.Tokens(a, b) })
}

func (s callReader) Versions(a coord.ProjectID, b coord.ContractID) ([]coord.ContractVersion, []coord.ContractVersion, error) {
	return do2(s.calls, "Versions", func() ([]coord.ContractVersion, []coord.ContractVersion, error) {
		return s.r.Coordination().Versions(a, b)
	})
}

func (s callTx) AddArchive(a hub.Archive) error {
	return do0(s.calls, "AddArchive", func() error { return s.tx.AddArchive(a) })
}

func (s callTx) AddArtifactReader(a string, b hub.AgentID) error {
	return do0(s.calls, "AddArtifactReader", func() error { return s.tx.AddArtifactReader(a, b) })
}

func (s callTx) AddChange(a hub.Change) error {
	return do0(s.calls, "AddChange", func() error { return s.tx.AddChange(a) })
}

func (s callTx) AddDeadLetter(a hub.DeadLetter) error {
	return do0(s.calls, "AddDeadLetter", func() error { return s.tx.AddDeadLetter(a) })
}

func (s callTx) AddKey(a hub.Key) error {
	return do0(s.calls, "AddKey", func() error { return s.tx.AddKey(a) })
}

func (s callTx) AddMessage(a hub.Message, b []hub.Party) error {
	return do0(s.calls, "AddMessage", func() error { return s.tx.AddMessage(a, b) })
}

func (s callTx) AddReceipt(a hub.Receipt) error {
	return do0(s.calls, "AddReceipt", func() error { return s.tx.AddReceipt(a) })
}

func (s callTx) AddSubscription(a hub.Subscription) error {
	return do0(s.calls, "AddSubscription", func() error { return s.tx.AddSubscription(a) })
}

func (s callTx) RemoveSubscription(a hub.AgentID, id string) error {
	return do0(s.calls, "RemoveSubscription", func() error { return s.tx.RemoveSubscription(a, id) })
}

func (s callTx) AddCopy(c hub.Copy) error {
	return do0(s.calls, "AddCopy", func() error { return s.tx.AddCopy(c) })
}

func (s callTx) PutCopy(a hub.AgentID, message, copied hub.EnvelopeID) error {
	return do0(s.calls, "PutCopy", func() error { return s.tx.PutCopy(a, message, copied) })
}

func (s callTx) AddRoot(a hub.Root) error {
	return do0(s.calls, "AddRoot", func() error { return s.tx.AddRoot(a) })
}

func (s callTx) AddToken(a hub.Token) error {
	return do0(s.calls, "AddToken", func() error { return s.tx.AddToken(a) })
}

func (s callTx) AddVersion(a coord.ProjectID, b coord.ContractID, c coord.ContractVersion) error {
	return do0(s.calls, "AddVersion", func() error { return s.tx.WriteCoordination().AddVersion(a, b, c) })
}

func (s callTx) CheckLease(a hub.Lease) error {
	return do0(s.calls, "CheckLease", func() error { return s.tx.CheckLease(a) })
}

func (s callTx) DropChanges(a int64, b int) (int, error) {
	return do1(s.calls, "DropChanges", func() (int, error) { return s.tx.DropChanges(a, b) })
}

func (s callTx) Forget(a hub.Time, b int) (int, error) {
	return do1(s.calls, "Forget", func() (int, error) { return s.tx.Forget(a, b) })
}

func (s callTx) ForgetText(a hub.EnvelopeID) error {
	return do0(s.calls, "ForgetText", func() error { return s.tx.ForgetText(a) })
}

func (s callTx) MarkProcessed(a hub.EnvelopeID, b hub.AgentID, c hub.Time) (bool, error) {
	return do1(s.calls, "MarkProcessed", func() (bool, error) { return s.tx.MarkProcessed(a, b, c) })
}

func (s callTx) Prune(a int) (int, error) {
	return do1(s.calls, "Prune", func() (int, error) { return s.tx.Prune(a) })
}

func (s callTx) PutAgent(a hub.Agent, b hub.AgentState) error {
	return do0(s.calls, "PutAgent", func() error { return s.tx.PutAgent(a, b) })
}

func (s callTx) PutContract(a coord.Contract, b coord.Contract) error {
	return do0(s.calls, "PutContract", func() error { return s.tx.WriteCoordination().PutContract(a, b) })
}

func (s callTx) PutCursor(a string, b int64) error {
	return do0(s.calls, "PutCursor", func() error { return s.tx.PutCursor(a, b) })
}

func (s callTx) PutDeliberation(a hub.Deliberation) error {
	return do0(s.calls, "PutDeliberation", func() error { return s.tx.PutDeliberation(a) })
}

func (s callTx) PutDelivery(a hub.Delivery) error {
	return do0(s.calls, "PutDelivery", func() error { return s.tx.PutDelivery(a) })
}

func (s callTx) PutFileRequest(a coord.FileRequest) error {
	return do0(s.calls, "PutFileRequest", func() error { return s.tx.WriteCoordination().PutFileRequest(a) })
}

func (s callTx) PutHandoff(a hub.Handoff, b hub.HandoffState, c *hub.HandoffStep) error {
	return do0(s.calls, "PutHandoff", func() error { return s.tx.PutHandoff(a, b, c) })
}

func (s callTx) PutInvite(a hub.Invite) error {
	return do0(s.calls, "PutInvite", func() error { return s.tx.PutInvite(a) })
}

func (s callTx) PutMeta(a string, b string) error {
	return do0(s.calls, "PutMeta", func() error { return s.tx.PutMeta(a, b) })
}

func (s callTx) PutOutbox(a hub.Outbox) error {
	return do0(s.calls, "PutOutbox", func() error { return s.tx.PutOutbox(a) })
}

func (s callTx) PutPacket(a coord.Packet, b coord.Packet) error {
	return do0(s.calls, "PutPacket", func() error { return s.tx.WriteCoordination().PutPacket(a, b) })
}

func (s callTx) PutParty(a hub.EnvelopeID, b hub.AgentID, c hub.PartyState, d hub.PartyState) error {
	return do0(s.calls, "PutParty", func() error { return s.tx.PutParty(a, b, c, d) })
}

func (s callTx) PutPeer(a hub.Peer) error {
	return do0(s.calls, "PutPeer", func() error { return s.tx.PutPeer(a) })
}

func (s callTx) PutProject(a coord.Project, b coord.Project) error {
	return do0(s.calls, "PutProject", func() error { return s.tx.WriteCoordination().PutProject(a, b) })
}

func (s callTx) PutRun(a hub.Run, b hub.RunState) error {
	return do0(s.calls, "PutRun", func() error { return s.tx.PutRun(a, b) })
}

func (s callTx) PutSessionMark(a hub.SessionMark) error {
	return do0(s.calls, "PutSessionMark", func() error { return s.tx.PutSessionMark(a) })
}

func (s callTx) PutStatus(a hub.Envelope, b hub.MessageStatus) error {
	return do0(s.calls, "PutStatus", func() error { return s.tx.PutStatus(a, b) })
}

func (s callTx) PutVersions(a coord.Contract) error {
	return do0(s.calls, "PutVersions", func() error { return s.tx.WriteCoordination().PutVersions(a) })
}

func (s callTx) RemoveArtifactReaders(a string) error {
	return do0(s.calls, "RemoveArtifactReaders", func() error { return s.tx.RemoveArtifactReaders(a) })
}

func (s callTx) RemoveRoot(a string) error {
	return do0(s.calls, "RemoveRoot", func() error { return s.tx.RemoveRoot(a) })
}

func (s callTx) RevokeKeys(a hub.AgentID, b string, c hub.Time) (int, error) {
	return do1(s.calls, "RevokeKeys", func() (int, error) { return s.tx.RevokeKeys(a, b, c) })
}

func (s callTx) RevokeTokens(a coord.AID, b string, c hub.Time) ([]string, error) {
	return do1(s.calls, "RevokeTokens", func() ([]string, error) { return s.tx.RevokeTokens(a, b, c) })
}

func (s callReader) Team(a hub.TeamID) (hub.Team, error) {
	return do1(s.calls, "Team", func() (hub.Team, error) { return s.r.Teamspaces().Team(a) })
}

func (s callReader) Teams(a hub.TeamQuery) ([]hub.Team, error) {
	return do1(s.calls, "Teams", func() ([]hub.Team, error) { return s.r.Teamspaces().Teams(a) })
}

func (s callReader) Members(a hub.MemberQuery) ([]hub.Member, error) {
	return do1(s.calls, "Members", func() ([]hub.Member, error) { return s.r.Teamspaces().Members(a) })
}

func (s callReader) Task(a hub.TaskID) (hub.Task, error) {
	return do1(s.calls, "Task", func() (hub.Task, error) { return s.r.Teamspaces().Task(a) })
}

func (s callReader) Tasks(a hub.TaskQuery) ([]hub.Task, error) {
	return do1(s.calls, "Tasks", func() ([]hub.Task, error) { return s.r.Teamspaces().Tasks(a) })
}

func (s callReader) CountTasks(a hub.TeamID) (map[hub.TaskState]int, error) {
	return do1(s.calls, "CountTasks", func() (map[hub.TaskState]int, error) { return s.r.Teamspaces().CountTasks(a) })
}

func (s callReader) HeldAction(a string) (hub.HeldAction, error) {
	return do1(s.calls, "HeldAction", func() (hub.HeldAction, error) { return s.r.Teamspaces().HeldAction(a) })
}

func (s callReader) HeldActions(a int) ([]hub.HeldAction, error) {
	return do1(s.calls, "HeldActions", func() ([]hub.HeldAction, error) { return s.r.Teamspaces().HeldActions(a) })
}

func (s callTx) PutTeam(a hub.Team) error {
	return do0(s.calls, "PutTeam", func() error { return s.tx.WriteTeamspaces().PutTeam(a) })
}

func (s callTx) PutMember(a hub.Member) error {
	return do0(s.calls, "PutMember", func() error { return s.tx.WriteTeamspaces().PutMember(a) })
}

func (s callTx) PutTask(a hub.Task) (hub.TaskID, error) {
	return do1(s.calls, "PutTask", func() (hub.TaskID, error) { return s.tx.WriteTeamspaces().PutTask(a) })
}

func (s callTx) PutHeldAction(a hub.HeldAction) error {
	return do0(s.calls, "PutHeldAction", func() error { return s.tx.WriteTeamspaces().PutHeldAction(a) })
}

func (s callReader) TeamArtifact(a hub.TeamID, b string) (hub.TeamArtifact, error) {
	return do1(s.calls, "TeamArtifact", func() (hub.TeamArtifact, error) { return s.r.Teamspaces().TeamArtifact(a, b) })
}

func (s callReader) TeamArtifacts(a hub.ArtifactQuery) ([]hub.TeamArtifact, error) {
	return do1(s.calls, "TeamArtifacts", func() ([]hub.TeamArtifact, error) { return s.r.Teamspaces().TeamArtifacts(a) })
}

func (s callReader) ArtifactVersion(a hub.TeamID, b string, c int64) (hub.ArtifactVersion, error) {
	return do1(s.calls, "ArtifactVersion", func() (hub.ArtifactVersion, error) { return s.r.Teamspaces().ArtifactVersion(a, b, c) })
}

func (s callReader) ArtifactVersions(a hub.VersionQuery) ([]hub.ArtifactVersion, error) {
	return do1(s.calls, "ArtifactVersions", func() ([]hub.ArtifactVersion, error) { return s.r.Teamspaces().ArtifactVersions(a) })
}

func (s callReader) Conflicts(a hub.ConflictQuery) ([]hub.Conflict, error) {
	return do1(s.calls, "Conflicts", func() ([]hub.Conflict, error) { return s.r.Teamspaces().Conflicts(a) })
}

func (s callTx) PutTeamArtifact(a hub.TeamArtifact) error {
	return do0(s.calls, "PutTeamArtifact", func() error { return s.tx.WriteTeamspaces().PutTeamArtifact(a) })
}

func (s callTx) AddArtifactVersion(a hub.ArtifactVersion) error {
	return do0(s.calls, "AddArtifactVersion", func() error { return s.tx.WriteTeamspaces().AddArtifactVersion(a) })
}

func (s callTx) PutConflict(a hub.Conflict) error {
	return do0(s.calls, "PutConflict", func() error { return s.tx.WriteTeamspaces().PutConflict(a) })
}
