package contract

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
	"github.com/parley-agents/parley/hub/coord"
	"github.com/parley-agents/parley/internal/ground/federation"
	"github.com/parley-agents/parley/internal/ground/text/shorten"
)

// aheadAfter is the distance of a peer's times into the future from which it is
// journaled. The times are used as they are in any case.
const aheadAfter = 5 * time.Minute

// maxCopies is the number of copies in one transaction: enough to make a commit
// cheap, few enough that other writers do not wait long.
const maxCopies = 64

// Sync merges copies that this hub fetched from a peer, in order. native says that the
// peer keeps the members that Parley adds to the protocol. A copy that cannot be merged
// gets its own status and does not affect the others. Up to maxCopies copies share a
// transaction.
func (s *Service) Sync(ctx context.Context, from coord.AID, native bool, copies []federation.Copy) ([]federation.SyncResult, error) {
	return s.sync(ctx, from, native, true, copies)
}

// Receive merges copies that a peer sent, like Sync. The peer has a rate.
func (s *Service) Receive(ctx context.Context, from coord.AID, native bool, copies []federation.Copy) ([]federation.SyncResult, error) {
	return s.sync(ctx, from, native, false, copies)
}

func (s *Service) sync(ctx context.Context, from coord.AID, native, fetched bool, copies []federation.Copy) ([]federation.SyncResult, error) {
	out := make([]federation.SyncResult, 0, len(copies))

	// Each part is a transaction of its own, so that other writers do not wait long.
	for part := range slices.Chunk(copies, maxCopies) {
		var done []federation.SyncResult
		err := s.withVerdicts(ctx, hub.AgentID(from), func(v *verdicts) error {
			return s.update(ctx, hub.Caller{ID: hub.Self}, from, func(se *session) error {
				se.fetched = fetched
				m := merger{session: se, native: native, received: coord.Instant{}.After(s.o.Clock), verdicts: v}
				var err error
				done, err = m.mergeAll(part)
				return err
			})
		})
		if err != nil {
			return out, err
		}
		out = append(out, done...)
	}
	return out, nil
}

// mergeAll merges a few copies. A refused copy gets its own result and does not stop the copies
// after it. With a verdict that is missing the transaction is given up.
func (m *merger) mergeAll(copies []federation.Copy) ([]federation.SyncResult, error) {
	done := make([]federation.SyncResult, len(copies))
	for i, c := range copies {
		var err error
		m.known = false
		done[i], err = m.merge(c)

		switch hub.CodeOf(err) {
		case "":
		case hub.CodeInvalid, hub.CodeTooLarge, hub.CodeNotFound, hub.CodeDenied, hub.CodeRateLimited:
			if err := m.noteRefused(c, err); err != nil {
				return nil, err
			}
			done[i] = federation.SyncResult{Status: federation.SyncError, Reason: err.Error(), Code: hub.CodeOf(err)}
			var e *hub.Error
			if errors.As(err, &e) {
				done[i].Retry = e.RetryAfter
			}
		default:
			return nil, err
		}
	}
	if len(m.verdicts.open) > 0 {
		return nil, errUndecided
	}
	return done, m.noteClock()
}

// SyncProject merges a whole project that a peer sent. The status is that of the project itself,
// or updated if anything in it was new.
func (s *Service) SyncProject(ctx context.Context, from coord.AID, native bool, p federation.ProjectCopy) (federation.SyncResult, error) {
	p.Status = explicitStatus(p)

	// The project comes first: its contracts and packets cannot be merged without it.
	copies := make([]federation.Copy, 0, 1+len(p.Contracts)+len(p.Packets))
	copies = append(copies, federation.Copy{Project: p.ID, Head: &p.Project})
	for i := range p.Contracts {
		copies = append(copies, federation.Copy{Project: p.ID, Contract: &p.Contracts[i]})
	}
	for i := range p.Packets {
		copies = append(copies, federation.Copy{Project: p.ID, Packet: &p.Packets[i]})
	}

	done, err := s.Receive(ctx, from, native, copies)
	if err != nil {
		return federation.SyncResult{}, err
	}

	// A refused part gives the result its reason. A rate limit also gives it its status.
	out := done[0]
	for _, d := range done[1:] {
		switch {
		case out.Status == federation.SyncError:
		case d.Status == federation.SyncError:
			out.Reason = d.Reason
			out.Code = d.Code
			out.Retry = d.Retry
			if d.Code == hub.CodeRateLimited {
				out.Status = d.Status // the sender tries again
			}
		case d.Status != federation.SyncSkipped && out.Status == federation.SyncSkipped:
			out.Status, out.Reason = federation.SyncUpdated, ""
		}
		out.Behind = out.Behind || d.Behind
	}
	return out, nil
}

// explicitStatus returns the status of a whole project that was set explicitly. The
// status of a copy may be one that follows from its contracts, which each hub derives
// itself.
func explicitStatus(p federation.ProjectCopy) coord.ProjectStatus {
	var derived coord.Project
	for _, c := range p.Contracts {
		derived.Tally.Add(c.Tally())
	}
	if p.Status == derived.Standing() {
		return coord.ProjectPlanning
	}
	return p.Status
}

// A merger merges the copies of one peer in one transaction.
type merger struct {
	*session
	native   bool
	received coord.Instant
	verdicts *verdicts
	peer     *hub.Peer     // the source; nil until it is read
	ahead    coord.Instant // the latest time of a copy that is too far ahead
	denied   bool          // the journal has a row for a copy that the peer may not change
}

// maxAhead is the number of versions that a copy may be ahead of the local one. No
// peer can use up the numbers with one copy, after which there would be no next
// version.
const maxAhead = 100_000

// nothingNew is the reason of a copy that is part of the local state.
const nothingNew = "nothing new"

// merge merges one copy. It writes nothing when it reports an error about the copy.
func (m *merger) merge(c federation.Copy) (federation.SyncResult, error) {
	const op = "contract.Sync"
	if !c.Project.Valid() {
		return federation.SyncResult{}, hub.Errorf(hub.CodeInvalid, op, "projectId %q is not a valid id", c.Project)
	}

	if c.Head != nil {
		if c.Head.ID != c.Project { // the permission was checked for the one only
			return federation.SyncResult{}, hub.Errorf(hub.CodeInvalid, op, "project.project_id %q does not match projectId %q", c.Head.ID, c.Project)
		}
		return m.mergeHead(*c.Head)
	}

	// A repository, a contract and a packet need a project that is stored here.
	p, err := m.tx.Coordination().Project(c.Project)
	if hub.CodeOf(err) == hub.CodeNotFound {
		return federation.SyncResult{}, hub.Errorf(hub.CodeNotFound, op, "Project %s not found", c.Project)
	}
	if err != nil {
		return federation.SyncResult{}, err
	}

	switch {
	case c.Repo != nil:
		return m.mergeRepo(p, *c.Repo)
	case c.Contract != nil:
		in := *c.Contract
		in.Project = p.ID
		return m.mergeContract(p, in, c.Sum)
	case c.Packet != nil:
		in := *c.Packet
		in.Project = p.ID
		return m.mergePacket(p, in)
	}
	return federation.SyncResult{}, hub.Errorf(hub.CodeInvalid, op, "the copy is empty")
}

// seen notes a time that is too far ahead.
func (m *merger) seen(t coord.Instant) {
	if t.Time().Sub(m.received.Time()) > aheadAfter {
		m.ahead = later(m.ahead, t)
	}
}

// noteClock writes a journal entry when times were too far ahead and a copy with
// them was merged.
func (m *merger) noteClock() error {
	if m.ahead.IsZero() || !m.changed {
		return nil
	}
	return m.note(actions.ClockAhead, string(m.source), hub.OutcomeOK, map[string]any{
		"source": m.source, "latest": m.ahead, "seconds_ahead": int(m.ahead.Time().Sub(m.received.Time()).Seconds()),
	})
}

// fillTimes returns the times of a copy and fills in missing ones, so that a copy is
// not new because of them. was is the time of the local copy.
func (m *merger) fillTimes(created, updated, was coord.Instant) (coord.Instant, coord.Instant) {
	if updated.IsZero() {
		updated = later(created, was)
	}
	if updated.IsZero() {
		updated = m.received
	}
	if created.IsZero() {
		created = updated
	}
	return created, updated
}

// mergeHead merges a project's own members and repositories.
func (m *merger) mergeHead(in coord.Project) (federation.SyncResult, error) {
	const op = "contract.Sync"
	if in.Policy == "" && m.native {
		in.Policy = coord.AgreeCounterparty
	}
	if err := federation.Check(in); err != nil {
		return federation.SyncResult{}, err
	}

	was, err := m.tx.Coordination().Project(in.ID)
	created := hub.CodeOf(err) == hub.CodeNotFound
	if err != nil && !created {
		return federation.SyncResult{}, err
	}
	in.CreatedAt, in.UpdatedAt = m.fillTimes(in.CreatedAt, in.UpdatedAt, was.UpdatedAt)
	m.seen(in.UpdatedAt)
	in = m.completeProject(was, in)

	merged := in
	if created {
		err = m.roomForProject(op, m.source)
	} else {
		merged = was
	}
	merged = mergeProject(merged, in) // for a new one: in the order of all hubs

	// The tally is local, and the owner of a new project is the peer that sent it.
	merged.Tally, merged.Owner = was.Tally, was.Owner
	if created {
		merged.Owner = m.source
	}

	// The limits, and the permissions of a guest, apply to the merged project.
	if err == nil {
		err = checkRepos(op, merged)
	}
	g, bound := m.guest(in.ID)
	if err == nil {
		err = bound
	}
	if err == nil && g != nil {
		err = g.checkHead(was, merged)
	}
	if err == nil {
		err = checkStamps(op, merged.Stamps)
	}
	if err != nil {
		return federation.SyncResult{}, err
	}

	out := federation.SyncResult{Status: federation.SyncSkipped, Reason: nothingNew, Behind: !sameProject(merged, mergeProject(in, in))}
	switch {
	case created:
		out.Status = federation.SyncCreated
	case sameProject(merged, was):
		return out, nil
	default:
		out.Status = federation.SyncUpdated
	}
	out.Reason, m.known = "", !out.Behind
	return out, m.putProject(was, merged, actions.ProjectMerged, projectChange(merged))
}

// checkRepos reports CodeTooLarge for a project with too many repositories.
func checkRepos(op string, p coord.Project) error {
	if len(p.Repos) > federation.MaxRepos {
		return hub.Errorf(hub.CodeTooLarge, op, "too many repos: a project can have at most %d", federation.MaxRepos)
	}
	return nil
}

// checkStamps reports CodeTooLarge for more writes, or more hubs that wrote, than
// every hub takes.
func checkStamps(op string, s coord.Stamps) error {
	if max(len(s.Writes), len(s.Seen)) > federation.MaxStamps {
		return hub.Errorf(hub.CodeTooLarge, op, "stamps: more than %d writes or hubs", federation.MaxStamps)
	}
	return nil
}

// putProject stores a project that a copy changed.
func (m *merger) putProject(was, p coord.Project, a actions.Action, c hub.Change) error {
	if err := m.charge("contract.Sync", Rate{Things: 1}); err != nil {
		return err
	}
	if err := m.tx.WriteCoordination().PutProject(p, was); err != nil {
		return err
	}
	if err := m.record(a, c, facts{Project: p.ID, Agent: m.source, Source: m.source}); err != nil {
		return err
	}
	for _, r := range was.Repos {
		if now, _ := p.Repo(r.ID); r.Agent != "" && now.Agent != r.Agent && now.Term == r.Term {
			if err := m.note(actions.RepoLost, string(r.ID), hub.OutcomeOK, facts{Project: p.ID, Repo: r.ID, Agent: r.Agent, Source: m.source}); err != nil {
				return err
			}
		}
	}
	for _, w := range newlyLost(was.Stamps, p.Stamps) {
		if err := m.note(actions.ProjectConflict, string(p.ID), hub.OutcomeOK, m.lostFacts(p.ID, w)); err != nil {
			return err
		}
	}
	m.known = false
	same := func(a, b coord.Repo) bool { return a.ID == b.ID && a.Name == b.Name }
	if was.ID == "" || (p.Policy == was.Policy && slices.EqualFunc(p.Repos, was.Repos, same)) {
		return nil
	}
	return m.advanceAll(p)
}

// lostFacts are the facts of a write that lost.
func (m *merger) lostFacts(project coord.ProjectID, w coord.Stamp) facts {
	return facts{Project: project, Source: m.source, Agent: w.By, Version: w.Version, Action: w.Member, Status: shorten.Bytes(w.Value, federation.MaxName), At: w.At}
}

// completeProject fills in members that a peer that is not native dropped or does not
// know, from the local copy. A copy without a change keeps the local time: such peers
// put a new time on everything.
func (m *merger) completeProject(was, in coord.Project) coord.Project {
	if was.ID == "" {
		in.Policy = cmp.Or(in.Policy, coord.AgreeCounterparty)
	} else if !m.native {
		in.Policy = was.Policy
		in.Breaking = was.Breaking
		in.Environments = was.Environments
		if slices.Index(coord.ProjectStatuses, in.Status) <= slices.Index(coord.ProjectStatuses, was.Standing()) {
			in.Status = was.Status
		}
		if in.Name == was.Name && in.Objective == was.Objective && in.Status == was.Status {
			in.UpdatedAt = was.UpdatedAt
		}
	}
	if in.Stamps.IsZero() && was.ID != "" {
		in.Breaking = was.Breaking // a hub without stamps does not know it
		in = m.stampProject(was, in)
	}
	if m.native {
		return in
	}
	in.Repos = slices.Clone(in.Repos)
	for i, r := range in.Repos {
		known, _ := was.Repo(r.ID)
		in.Repos[i] = m.stampRepo(known, r)
	}
	return in
}

// stampProject gives a copy without stamps those of the local copy. A member that
// differs is a write of the peer if the copy is later than the last known write of
// the member. It stands beside that one, because the peer may not have known it; an
// older one is the member as it was before.
func (m *merger) stampProject(was, in coord.Project) coord.Project {
	in.Stamps = was.Stamps
	for _, member := range coord.ProjectMembers {
		value := in.Member(member)
		if value == was.Member(member) {
			continue
		}
		if last, written := was.Stamps.Newest(member); written && in.UpdatedAt.Compare(last.At) <= 0 {
			in.SetMember(member, last.Value)
		} else if written {
			in.Stamps = in.Stamps.With(coord.Stamp{Member: member, Value: value, At: in.UpdatedAt, By: m.source}, true)
		}
	}
	return in
}

// stampRepo gives a repository from a peer that is not native the times that it
// lacks. known is the local copy.
func (m *merger) stampRepo(known, in coord.Repo) coord.Repo {
	if !in.UpdatedAt.IsZero() {
		return in
	}

	// The local copy supplies the members that the peer leaves out.
	if in.Agent == known.Agent || in.Agent == m.source {
		in.Term = known.Term // any other claim may be one that was given back
	}
	if in.URL == "" {
		in.URL = known.URL
	}
	if len(in.Paths) == 0 {
		in.Paths = known.Paths
	}

	// Under the same claim, only a real change gets a new time.
	if in.Agent == known.Agent {
		in.ClaimedAt = known.ClaimedAt
		if in.Endpoint == "" {
			in.Endpoint = known.Endpoint
		}
		in.UpdatedAt = known.UpdatedAt
		if !known.ID.Valid() || !sameRepo(in, known) {
			in.UpdatedAt = later(m.received, coord.InstantMicro(known.UpdatedAt.Micro()+1))
		}
		return in
	}

	in.UpdatedAt = later(m.received, coord.InstantMicro(known.UpdatedAt.Micro()+1))
	if known.Agent == "" {
		in.ClaimedAt = in.UpdatedAt // a claim against another one has no time, and loses
	}
	return in
}

// mergeRepo merges a repository.
func (m *merger) mergeRepo(p coord.Project, in coord.Repo) (federation.SyncResult, error) {
	const op = "contract.Sync"
	if err := federation.Check(in); err != nil {
		return federation.SyncResult{}, err
	}

	known, there := p.Repo(in.ID)
	in = m.stampRepo(known, in)
	m.seen(in.UpdatedAt)
	merged := p
	merged.Repos = mergeRepos(p.Repos, []coord.Repo{in})
	if err := checkRepos(op, merged); err != nil {
		return federation.SyncResult{}, err
	}

	// A guest needs a permission for the change that the merge makes, not for the copy.
	now, _ := merged.Repo(in.ID)
	if g, err := m.guest(p.ID); err != nil {
		return federation.SyncResult{}, err
	} else if g != nil {
		if err := g.checkRepo(known, now); err != nil {
			return federation.SyncResult{}, err
		}
	}

	out := federation.SyncResult{Status: federation.SyncUpdated, Behind: !sameRepo(now, in)}
	switch {
	case !there:
		out.Status = federation.SyncCreated
	case sameRepo(now, known):
		out.Status, out.Reason = federation.SyncSkipped, nothingNew
		return out, nil
	}
	m.known = !out.Behind
	return out, m.putProject(p, merged, actions.RepoMerged, repoChange(p.ID, in.ID))
}

// maxRefused is the number of refused copies that are recorded for one peer between two
// comparisons with it.
const maxRefused = 100

// noteRefused records a copy that this hub does not take: a dead letter whose change
// came from the peer, and a journal row. A copy that is refused again is recorded once.
// A copy that the peer has no permission to send, or that names nothing, is no change
// that could be missing here: it leaves no dead letter.
func (m *merger) noteRefused(c federation.Copy, fault error) error {
	change := c.Change()
	switch code := hub.CodeOf(fault); {
	case code == hub.CodeNotFound || code == hub.CodeRateLimited:
		return nil // it is sent again
	case code == hub.CodeDenied || !change.Project.Valid() || !coord.ContractID(change.Object).Valid():
		return m.noteDenied(change, fault)
	}

	peer, err := m.tx.Peer(m.source)
	if err != nil || peer.State != hub.PeerApproved {
		if hub.CodeOf(err) == hub.CodeNotFound {
			err = nil
		}
		return err
	}
	if !peer.WorksOnContracts(change.Project) {
		return m.noteDenied(change, fault)
	}

	// A peer has at most maxRefused dead letters here, and one for each change.
	dead, err := federation.LiveDeadLetters(m.tx, peer.AID)
	if err != nil {
		return err
	}
	change.Origin = m.source
	known := 0
	for _, d := range dead {
		if d.Change.Origin != m.source {
			continue
		}
		if known++; d.Change == change || known == maxRefused {
			return nil
		}
	}

	reason := shorten.Bytes(fault.Error(), 300)
	if err := m.tx.AddDeadLetter(hub.DeadLetter{Peer: m.source, Change: change, Fault: reason, At: coord.Instant{}.After(m.s.o.Clock)}); err != nil {
		return err
	}
	return m.noteCopy(change, reason)
}

// noteDenied writes a journal row for a copy that this hub fetched and that the peer has
// no permission to change, one for each transaction. A call of the peer that is refused
// is recorded where it came in.
func (m *merger) noteDenied(change hub.Change, fault error) error {
	if !m.fetched || m.denied {
		return nil
	}
	m.denied = true
	return m.noteCopy(change, shorten.Bytes(fault.Error(), 300))
}

// noteCopy writes the journal row of a copy that was refused.
func (m *merger) noteCopy(change hub.Change, reason string) error {
	return m.note(actions.CopyRefused, string(m.source), hub.OutcomeRefused, map[string]any{
		"project_id": change.Project, "kind": change.Kind, "object": change.Object, "fault": reason,
	})
}

// mergeContract merges a contract with History and Conflicts. sum is that of the whole
// contract if the copy leaves out versions that are here.
func (m *merger) mergeContract(p coord.Project, in coord.Contract, sum string) (federation.SyncResult, error) {
	const op = "contract.Sync"
	if err := federation.Check(in); err != nil {
		return federation.SyncResult{}, err
	}
	was, created, err := m.contractHere(p.ID, in.ID)
	if err != nil {
		return federation.SyncResult{}, err
	}
	if in.Version-was.Version > maxAhead {
		return federation.SyncResult{}, hub.Errorf(hub.CodeInvalid, op, "version %d is more than %d ahead of the version on this hub, %d", in.Version, maxAhead, was.Version)
	}

	// Merge, and see whether the peer may have the result.
	in = m.completeContract(was, in)
	m.seen(in.UpdatedAt)
	merged := was
	event := "merged"
	if created {
		merged = in
		event = "received"
	}
	merged = advance(mergeContract(merged, in), p)
	if err := m.checkGuest(p, was, merged); err != nil {
		return federation.SyncResult{}, err
	}

	out := federation.SyncResult{Status: federation.SyncUpdated, Version: merged.Version, Behind: !sameContract(merged, in)}
	if sum != "" {
		out.Behind = merged.Sum() != sum || !merged.Stamps.Equal(in.Stamps)
	}
	if created {
		out.Status = federation.SyncCreated
	} else if sameContract(merged, was) {
		out.Status = federation.SyncSkipped
		out.Reason = nothingNew
		return out, nil
	}

	if err := m.putMerged(op, p, was, merged, created); err != nil {
		return federation.SyncResult{}, err
	}
	m.known = !out.Behind
	return out, m.recordMerge(p, was, merged, event)
}

// contractHere returns the local copy of a contract with its versions. If there is none, the
// copy is zero and created is true.
func (m *merger) contractHere(project coord.ProjectID, id coord.ContractID) (c coord.Contract, created bool, err error) {
	c, err = m.tx.Coordination().Contract(project, id)
	if err == nil {
		c, err = withVersions(m.tx, c)
	}
	if hub.CodeOf(err) == hub.CodeNotFound {
		return c, true, nil
	}
	return c, false, err
}

// checkGuest reports CodeDenied if the peer is a guest of the project that may not change a
// contract from was to merged.
func (m *merger) checkGuest(p coord.Project, was, merged coord.Contract) error {
	g, err := m.guest(p.ID)
	if err != nil || g == nil {
		return err
	}
	return g.checkContract(p, was, merged, m.native)
}

// putMerged stores a contract that a copy changed or created, if there is room for it, and
// charges the peer with it.
func (m *merger) putMerged(op string, p coord.Project, was, merged coord.Contract, created bool) error {
	if err := m.checkRoom(op, p, was, merged, created); err != nil {
		return err
	}
	if err := m.charge(op, Rate{Things: 1, Bytes: contentBytes(merged) - contentBytes(was)}); err != nil {
		return err
	}
	if err := m.tx.WriteCoordination().PutContract(merged, was); err != nil {
		return err
	}

	kept := sameVersions(merged.History, was.History) && sameVersions(merged.Conflicts, was.Conflicts)
	if created || kept {
		return nil
	}
	return m.tx.WriteCoordination().PutVersions(merged)
}

// checkRoom refuses a merged contract that is too large for the contract or for its project.
func (m *merger) checkRoom(op string, p coord.Project, was, merged coord.Contract, created bool) error {
	if created {
		return m.s.roomForContract(op, p, contentBytes(merged))
	}
	if len(merged.Implementations) > federation.MaxRepos {
		return hub.Errorf(hub.CodeTooLarge, op, "too many implementations: a contract can have at most %d", federation.MaxRepos)
	}
	if err := checkStamps(op, merged.Stamps); err != nil {
		return err
	}
	return m.s.roomForContent(op, p, contentBytes(merged)-contentBytes(was))
}

// recordMerge records a contract that a copy changed, and the contents and moves that
// lost.
func (m *merger) recordMerge(p coord.Project, was, c coord.Contract, event string) error {
	var by coord.Repo
	if own := p.ReposOf(m.source); len(own) > 0 {
		by = own[0]
	}
	if err := m.recordContract(actions.ContractMerged, p, by, was, c, event); err != nil {
		return err
	}
	for _, v := range c.Conflicts {
		if slices.ContainsFunc(was.Conflicts, func(x coord.ContractVersion) bool { return sameContent(x, v) }) {
			continue
		}
		if err := m.note(actions.ContractConflict, string(c.ID), hub.OutcomeOK, facts{
			Project: p.ID, Source: m.source, Repo: v.ProposedBy, Version: v.Version, Digest: coord.ContentHash(v.Content),
		}); err != nil {
			return err
		}
	}
	for _, w := range newlyLost(was.Stamps, c.Stamps) {
		if err := m.note(actions.ContractConflict, string(c.ID), hub.OutcomeOK, m.lostFacts(p.ID, w)); err != nil {
			return err
		}
	}
	return nil
}

func contentBytes(c coord.Contract) int64 {
	n := len(c.Content)
	for _, list := range [...][]coord.ContractVersion{c.History, c.Conflicts} {
		for _, v := range list {
			n += len(v.Content)
		}
	}
	return int64(n)
}

// completeContract fills in members that a peer dropped or does not know, from the
// local copy. was has no id if there is none.
func (m *merger) completeContract(was, in coord.Contract) coord.Contract {
	in.CreatedAt, in.UpdatedAt = m.fillTimes(in.CreatedAt, in.UpdatedAt, was.UpdatedAt)

	in.History = slices.Clone(in.History)
	for i, v := range in.History {
		if v.At.IsZero() {
			in.History[i].At = in.CreatedAt
		}
	}

	// Work without a version belongs to the current one, unless the local copy has the same work.
	in.Implementations = slices.Clone(in.Implementations)
	for i, impl := range in.Implementations {
		if impl.Version != 0 {
			continue
		}
		impl.Version = in.Version
		if known, ok := was.Implementation(impl.Repo); ok && known.At() == impl.At() {
			impl.Version = known.Version
		}
		in.Implementations[i] = impl
	}

	if was.ID == "" {
		return in
	}
	if !m.native {
		in.Conflicts = was.Conflicts
		in.Agreements = was.Agreements
		in.ReopenedAt = was.ReopenedAt
		in.Terms = was.Terms
		if in.Version == was.Version && in.Status == was.Status && coord.ContentHash(in.Content) == coord.ContentHash(was.Content) {
			in.UpdatedAt = was.UpdatedAt
			in.Content = was.Content
			in.ProposedBy = was.ProposedBy
			in.Type = was.Type
			in.Name = was.Name
		}
	}

	if in.Stamps.IsZero() {
		// The peer keeps no stamps. Whether it knew the last move cannot be told; it is
		// taken to have known it.
		if in.Stamps = was.Stamps; !was.Stamps.IsZero() && compareHeads(in, was) > 0 {
			in.Stamps = in.Stamps.With(coord.Stamp{Member: coord.MemberStatus, Value: string(in.Status), Version: in.Version, At: in.UpdatedAt, By: m.source}, false)
		}
	}
	return in
}

// mergePacket merges a packet.
func (m *merger) mergePacket(p coord.Project, in coord.Packet) (federation.SyncResult, error) {
	const op = "contract.Sync"
	if err := federation.Check(in); err != nil {
		return federation.SyncResult{}, err
	}

	// The error of this read is handled below: a packet that is not found is new.
	was, err := m.tx.Coordination().Packet(p.ID, in.ID)
	_, in.At = m.fillTimes(coord.Instant{}, in.At, was.At)
	m.seen(in.At)

	// A guest needs a permission only for a packet that the merge would store.
	g, bound := m.guest(p.ID)
	if bound != nil {
		return federation.SyncResult{}, bound
	}
	created := hub.CodeOf(err) == hub.CodeNotFound
	needsPermission := g != nil && (created || (err == nil && m.native && comparePackets(in, was) > 0))
	if needsPermission {
		if err := g.checkPacket(p, was, in); err != nil {
			return federation.SyncResult{}, err
		}
	}

	switch {
	case created:
		if err := m.s.roomForPacket(op, p, int64(len(in.Content))); err != nil {
			return federation.SyncResult{}, err
		}
		if err := m.charge(op, Rate{Things: 1, Bytes: int64(len(in.Content))}); err != nil {
			return federation.SyncResult{}, err
		}
		if err := m.tx.WriteCoordination().PutPacket(in, coord.Packet{}); err != nil {
			return federation.SyncResult{}, err
		}
		by, _ := p.Repo(in.FromRepo)
		m.known = true
		return federation.SyncResult{Status: federation.SyncCreated}, m.recordPacket(p, in, by.Name)
	case err != nil:
		return federation.SyncResult{}, err
	case !m.native || comparePackets(in, was) <= 0:
		return federation.SyncResult{Status: federation.SyncSkipped, Reason: nothingNew, Behind: comparePackets(in, was) < 0}, nil
	}

	// A native peer sends a newer state of a packet that is already stored.
	if err := m.tx.WriteCoordination().PutPacket(in, was); err != nil {
		return federation.SyncResult{}, err
	}
	m.known = true
	return federation.SyncResult{Status: federation.SyncUpdated}, m.record(actions.ContextReplaced,
		hub.Change{Project: p.ID, Kind: hub.ChangePacket, Object: string(in.ID)},
		facts{Project: p.ID, Agent: in.FromAgent, Source: m.source, Repo: in.FromRepo, Digest: in.Digest()})
}
