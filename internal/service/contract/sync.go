package contract

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/federation"
)

// aheadAfter is the distance of a peer's times into the future from which it is
// journaled. The times are used as they are in any case.
const aheadAfter = 5 * time.Minute

// maxCopies is the number of copies in one transaction: enough to make a commit
// cheap, few enough that other writers do not wait long.
const maxCopies = 64

// Sync merges copies from a peer, in order. native says that the peer keeps the
// members that Parley adds to the protocol. A copy that cannot be merged gets its own
// status and does not affect the others. Up to maxCopies copies share a transaction.
func (s *Service) Sync(ctx context.Context, from hub.AID, native bool, copies []federation.Copy) ([]federation.SyncResult, error) {
	out := make([]federation.SyncResult, 0, len(copies))
	for part := range slices.Chunk(copies, maxCopies) {
		done := make([]federation.SyncResult, len(part))
		err := s.update(ctx, hub.Caller{ID: hub.Self}, from, func(se *session) error {
			m := merger{session: se, native: native, received: hub.Instant{}.After(s.o.Clock)}
			for i, c := range part {
				var err error
				m.known = false
				done[i], err = m.merge(c)
				switch hub.CodeOf(err) {
				case "":
				case hub.CodeInvalid, hub.CodeTooLarge, hub.CodeNotFound:
					done[i] = federation.SyncResult{Status: federation.SyncError, Reason: err.Error(), Code: hub.CodeOf(err)}
				default:
					return err
				}
			}
			return m.noteClock()
		})
		if err != nil {
			return out, err
		}
		out = append(out, done...)
	}
	return out, nil
}

// SyncProject merges a whole project. The status is that of the project itself,
// or updated if anything in it was new.
func (s *Service) SyncProject(ctx context.Context, from hub.AID, native bool, p federation.ProjectCopy) (federation.SyncResult, error) {
	p.Status = explicitStatus(p)
	copies := make([]federation.Copy, 0, 1+len(p.Contracts)+len(p.Packets))
	copies = append(copies, federation.Copy{Project: p.ID, Head: &p.Project})
	for i := range p.Contracts {
		copies = append(copies, federation.Copy{Project: p.ID, Contract: &p.Contracts[i]})
	}
	for i := range p.Packets {
		copies = append(copies, federation.Copy{Project: p.ID, Packet: &p.Packets[i]})
	}
	done, err := s.Sync(ctx, from, native, copies)
	if err != nil {
		return federation.SyncResult{}, err
	}
	out := done[0]
	for _, d := range done[1:] {
		switch {
		case out.Status == federation.SyncError:
		case d.Status == federation.SyncError:
			out.Reason, out.Code = d.Reason, d.Code
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
func explicitStatus(p federation.ProjectCopy) hub.ProjectStatus {
	var derived hub.Project
	for _, c := range p.Contracts {
		derived.Tally.Add(c.Tally())
	}
	if p.Status == derived.Standing() {
		return hub.ProjectPlanning
	}
	return p.Status
}

// A merger merges the copies of one peer in one transaction.
type merger struct {
	*session
	native   bool
	received hub.Instant
	ahead    hub.Instant // the latest time of a copy that is too far ahead
}

// nothingNew is the reason of a copy that is part of the local state.
const nothingNew = "nothing new"

// merge merges one copy. It writes nothing when it reports an error about the copy.
func (m *merger) merge(c federation.Copy) (federation.SyncResult, error) {
	const op = "contract.Sync"
	if !c.Project.Valid() {
		return federation.SyncResult{}, hub.Errorf(hub.CodeInvalid, op, "projectId: %q is not an id", c.Project)
	}
	if c.Head != nil {
		if c.Head.ID != c.Project { // the permission was checked for the one only
			return federation.SyncResult{}, hub.Errorf(hub.CodeInvalid, op, "project.project_id: %q is not %q", c.Head.ID, c.Project)
		}
		return m.mergeHead(*c.Head)
	}
	p, err := m.tx.Project(c.Project)
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
		return m.mergeContract(p, in)
	case c.Packet != nil:
		in := *c.Packet
		in.Project = p.ID
		return m.mergePacket(p, in)
	}
	return federation.SyncResult{}, hub.Errorf(hub.CodeInvalid, op, "the copy is empty")
}

// seen notes a time that is too far ahead.
func (m *merger) seen(t hub.Instant) {
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
	return m.note(hub.ActionClockAhead, string(m.source), hub.OutcomeOK, map[string]any{
		"source": m.source, "latest": m.ahead, "seconds_ahead": int(m.ahead.Time().Sub(m.received.Time()).Seconds()),
	})
}

// fillTimes returns the times of a copy and fills in missing ones, so that a copy is
// not new because of them. was is the time of the local copy.
func (m *merger) fillTimes(created, updated, was hub.Instant) (hub.Instant, hub.Instant) {
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
func (m *merger) mergeHead(in hub.Project) (federation.SyncResult, error) {
	const op = "contract.Sync"
	if in.Policy == "" && m.native {
		in.Policy = hub.AgreeAny
	}
	if err := federation.Check(in); err != nil {
		return federation.SyncResult{}, err
	}
	was, err := m.tx.Project(in.ID)
	created := hub.CodeOf(err) == hub.CodeNotFound
	if err != nil && !created {
		return federation.SyncResult{}, err
	}
	in.CreatedAt, in.UpdatedAt = m.fillTimes(in.CreatedAt, in.UpdatedAt, was.UpdatedAt)
	m.seen(in.UpdatedAt)
	in = m.completeProject(was, in)
	merged := in
	if created {
		err = m.s.roomForProject(m.tx, op)
	} else {
		merged = was
	}
	merged = mergeProject(merged, in) // for a new one: in the order of all hubs
	merged.Tally = was.Tally
	if err == nil {
		err = checkRepos(op, merged)
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
	return out, m.putProject(was, merged, hub.ActionProjectMerged, projectChange(merged))
}

// checkRepos reports CodeTooLarge for a project with too many repositories.
func checkRepos(op string, p hub.Project) error {
	if len(p.Repos) > federation.MaxRepos {
		return hub.Errorf(hub.CodeTooLarge, op, "repos: a project has at most %d", federation.MaxRepos)
	}
	return nil
}

// putProject stores a project that a copy changed.
func (m *merger) putProject(was, p hub.Project, a hub.Action, c hub.Change) error {
	if err := m.tx.PutProject(p, was); err != nil {
		return err
	}
	if err := m.record(a, c, facts{Project: p.ID, Agent: m.source, Source: m.source}); err != nil {
		return err
	}
	for _, r := range was.Repos {
		if now, _ := p.Repo(r.ID); r.Agent != "" && now.Agent != r.Agent {
			if err := m.note(hub.ActionRepoLost, string(r.ID), hub.OutcomeOK, facts{Project: p.ID, Repo: r.ID, Agent: r.Agent, Source: m.source}); err != nil {
				return err
			}
		}
	}
	m.known = false
	same := func(a, b hub.Repo) bool { return a.ID == b.ID && a.Name == b.Name }
	if was.ID == "" || p.Policy == was.Policy && slices.EqualFunc(p.Repos, was.Repos, same) {
		return nil
	}
	return m.advanceAll(p)
}

// completeProject fills in members that a peer that is not native dropped or does not
// know, from the local copy. A copy without a change keeps the local time: such peers
// put a new time on everything.
func (m *merger) completeProject(was, in hub.Project) hub.Project {
	if was.ID == "" {
		in.Policy = cmp.Or(in.Policy, hub.AgreeAny)
	} else if m.native {
		return in
	} else {
		in.Policy = was.Policy
		if slices.Index(hub.ProjectStatuses, in.Status) <= slices.Index(hub.ProjectStatuses, was.Standing()) {
			in.Status = was.Status
		}
		if in.Name == was.Name && in.Objective == was.Objective && in.Status == was.Status {
			in.UpdatedAt = was.UpdatedAt
		}
	}
	in.Repos = slices.Clone(in.Repos)
	for i, r := range in.Repos {
		known, _ := was.Repo(r.ID)
		in.Repos[i] = m.stampRepo(known, r)
	}
	return in
}

// stampRepo gives a repository from a peer that is not native the times that it
// lacks. known is the local copy.
func (m *merger) stampRepo(known, in hub.Repo) hub.Repo {
	if !in.UpdatedAt.IsZero() {
		return in
	}
	if in.URL == "" {
		in.URL = known.URL
	}
	if len(in.Paths) == 0 {
		in.Paths = known.Paths
	}
	if in.Agent == known.Agent {
		in.ClaimedAt = known.ClaimedAt
		if in.Endpoint == "" {
			in.Endpoint = known.Endpoint
		}
		in.UpdatedAt = known.UpdatedAt
		if !known.ID.Valid() || !sameRepo(in, known) {
			in.UpdatedAt = later(m.received, hub.InstantMicro(known.UpdatedAt.Micro()+1))
		}
		return in
	}
	in.UpdatedAt = later(m.received, hub.InstantMicro(known.UpdatedAt.Micro()+1))
	if known.Agent == "" {
		in.ClaimedAt = in.UpdatedAt // a claim against another one has no time, and loses
	}
	return in
}

// mergeRepo merges a repository.
func (m *merger) mergeRepo(p hub.Project, in hub.Repo) (federation.SyncResult, error) {
	const op = "contract.Sync"
	if err := federation.Check(in); err != nil {
		return federation.SyncResult{}, err
	}
	known, there := p.Repo(in.ID)
	in = m.stampRepo(known, in)
	m.seen(in.UpdatedAt)
	merged := p
	merged.Repos = mergeRepos(p.Repos, []hub.Repo{in})
	if err := checkRepos(op, merged); err != nil {
		return federation.SyncResult{}, err
	}
	now, _ := merged.Repo(in.ID)
	out := federation.SyncResult{Status: federation.SyncUpdated, Behind: !sameRepo(now, in)}
	switch {
	case !there:
		out.Status = federation.SyncCreated
	case sameRepo(now, known):
		out.Status, out.Reason = federation.SyncSkipped, nothingNew
		return out, nil
	}
	m.known = !out.Behind
	return out, m.putProject(p, merged, hub.ActionRepoMerged, repoChange(p.ID, in.ID))
}

// mergeContract merges a contract with History and Conflicts.
func (m *merger) mergeContract(p hub.Project, in hub.Contract) (federation.SyncResult, error) {
	const op = "contract.Sync"
	if err := federation.Check(in); err != nil {
		return federation.SyncResult{}, err
	}
	was, err := m.tx.Contract(p.ID, in.ID)
	if err == nil {
		was, err = withVersions(m.tx, was)
	}
	created := hub.CodeOf(err) == hub.CodeNotFound
	if err != nil && !created {
		return federation.SyncResult{}, err
	}
	in = m.completeContract(was, in)
	m.seen(in.UpdatedAt)
	merged, event := was, "merged"
	if created {
		merged, event = in, "received"
	}
	merged = advance(mergeContract(merged, in), p)
	out := federation.SyncResult{Status: federation.SyncUpdated, Version: merged.Version, Behind: !sameContract(merged, in)}
	switch {
	case created:
		out.Status = federation.SyncCreated
		err = m.s.roomForContract(op, p, contentBytes(merged))
	case sameContract(merged, was):
		out.Status, out.Reason = federation.SyncSkipped, nothingNew
		return out, nil
	case len(merged.Implementations) > federation.MaxRepos:
		err = hub.Errorf(hub.CodeTooLarge, op, "implementations: a contract has at most %d", federation.MaxRepos)
	default:
		err = m.s.roomForContent(op, p, contentBytes(merged)-contentBytes(was))
	}
	if err == nil {
		err = m.tx.PutContract(merged, was)
	}
	if err == nil && !created && !(sameVersions(merged.History, was.History) && sameVersions(merged.Conflicts, was.Conflicts)) {
		err = m.tx.PutVersions(merged)
	}
	if err != nil {
		return federation.SyncResult{}, err
	}
	m.known = !out.Behind
	return out, m.recordMerge(p, was, merged, event)
}

// recordMerge records a contract that a copy changed, and the contents that lost.
func (m *merger) recordMerge(p hub.Project, was, c hub.Contract, event string) error {
	by, _ := p.RepoOf(m.source)
	if err := m.recordContract(hub.ActionContractMerged, p, by, c, event); err != nil {
		return err
	}
	for _, v := range c.Conflicts {
		if slices.ContainsFunc(was.Conflicts, func(x hub.ContractVersion) bool { return sameContent(x, v) }) {
			continue
		}
		if err := m.note(hub.ActionContractConflict, string(c.ID), hub.OutcomeOK, facts{
			Project: p.ID, Source: m.source, Repo: v.ProposedBy, Version: v.Version, Digest: hub.ContentHash(v.Content),
		}); err != nil {
			return err
		}
	}
	return nil
}

func contentBytes(c hub.Contract) int64 {
	n := len(c.Content)
	for _, list := range [...][]hub.ContractVersion{c.History, c.Conflicts} {
		for _, v := range list {
			n += len(v.Content)
		}
	}
	return int64(n)
}

// completeContract fills in members that a peer dropped or does not know, from the
// local copy. was has no id if there is none.
func (m *merger) completeContract(was, in hub.Contract) hub.Contract {
	in.CreatedAt, in.UpdatedAt = m.fillTimes(in.CreatedAt, in.UpdatedAt, was.UpdatedAt)
	in.History = slices.Clone(in.History)
	for i, v := range in.History {
		if v.At.IsZero() {
			in.History[i].At = in.CreatedAt
		}
	}
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
	if m.native || was.ID == "" {
		return in
	}
	in.Conflicts, in.Agreements, in.ReopenedAt = was.Conflicts, was.Agreements, was.ReopenedAt
	if in.Version == was.Version && in.Status == was.Status && hub.ContentHash(in.Content) == hub.ContentHash(was.Content) {
		in.UpdatedAt, in.Content, in.ProposedBy, in.Type, in.Name = was.UpdatedAt, was.Content, was.ProposedBy, was.Type, was.Name
	}
	return in
}

// mergePacket merges a packet.
func (m *merger) mergePacket(p hub.Project, in hub.Packet) (federation.SyncResult, error) {
	const op = "contract.Sync"
	if err := federation.Check(in); err != nil {
		return federation.SyncResult{}, err
	}
	was, err := m.tx.Packet(p.ID, in.ID)
	_, in.At = m.fillTimes(hub.Instant{}, in.At, was.At)
	m.seen(in.At)
	switch {
	case hub.CodeOf(err) == hub.CodeNotFound:
		if err := m.s.roomForPacket(op, p, int64(len(in.Content))); err != nil {
			return federation.SyncResult{}, err
		}
		if err := m.tx.PutPacket(in, hub.Packet{}); err != nil {
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
	if err := m.tx.PutPacket(in, was); err != nil {
		return federation.SyncResult{}, err
	}
	m.known = true
	return federation.SyncResult{Status: federation.SyncUpdated}, m.record(hub.ActionContextReplaced,
		hub.Change{Project: p.ID, Kind: hub.ChangePacket, Object: string(in.ID)},
		facts{Project: p.ID, Agent: in.FromAgent, Source: m.source, Repo: in.FromRepo, Digest: in.Digest()})
}
