package peer

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/coord"
	"github.com/parley-agents/parley/internal/ground/federation"
)

// Sizes of the pages of a comparison, unless the options have another.
const (
	pageProjects = 500
	pagePackets  = 5000
	pageCopies   = 200
	answerBytes  = 4 << 20 // of copies in one answer
)

// pageOf returns the size of a page.
func (s *Syncer) pageOf(usual int) int { return cmp.Or(s.opts.Page, usual) }

// checkScope reports CodeNotFound unless a peer takes part in a project.
func (s *Syncer) checkScope(ctx context.Context, peer coord.AID, project coord.ProjectID) error {
	ok, err := s.scope.InScope(ctx, peer, project)
	if err == nil && !ok {
		err = hub.Errorf(hub.CodeNotFound, "peer.Compare", "Project %.128s not found", project)
	}
	return err
}

// Summary answers a peer that compares a project with this hub.
func (s *Syncer) Summary(ctx context.Context, peer coord.AID, p federation.SummaryParams) (federation.Summary, error) {
	if err := s.checkScope(ctx, peer, p.Project); err != nil {
		return federation.Summary{}, err
	}
	return s.contracts.Summary(hub.InBackground(ctx), p.Project, p.After)
}

// Projects returns a page of the projects that a peer takes part in, with the sum of
// each.
func (s *Syncer) Projects(ctx context.Context, peer coord.AID, p federation.ProjectsParams) (federation.ProjectsPage, error) {
	ctx = hub.InBackground(ctx)
	out := federation.ProjectsPage{Projects: []coord.ProjectID{}, Sums: map[coord.ProjectID]string{}}
	page, err := hub.Read(ctx, s.store, func(r hub.Reader) ([]coord.Project, error) {
		return r.Coordination().Projects(p.After, s.pageOf(pageProjects))
	})
	if err != nil {
		return out, fmt.Errorf("peer: list projects: %w", err)
	}
	for _, p := range page {
		ok, err := s.scope.InScope(ctx, peer, p.ID)
		if err != nil {
			return out, err
		}
		if !ok {
			continue
		}
		sums, err := hub.Read(ctx, s.store, func(r hub.Reader) (coord.Sums, error) { return r.Coordination().Sums(p.ID) })
		if err != nil {
			return out, fmt.Errorf("peer: read sums: %w", err)
		}
		out.Projects, out.Sums[p.ID] = append(out.Projects, p.ID), sums.Of(p)
	}
	if len(page) == s.pageOf(pageProjects) {
		out.Next = page[len(page)-1].ID
	}
	return out, nil
}

// Packets answers a peer that compares a project with this hub.
func (s *Syncer) Packets(ctx context.Context, peer coord.AID, p federation.PacketsParams) (federation.PacketsPage, error) {
	if err := s.checkScope(ctx, peer, p.Project); err != nil {
		return federation.PacketsPage{}, err
	}
	return s.packets(ctx, p)
}

// packets returns a page of the ids of the packets in some buckets.
func (s *Syncer) packets(ctx context.Context, in federation.PacketsParams) (federation.PacketsPage, error) {
	var wanted [256]bool
	for _, n := range in.Buckets {
		if n >= 0 && n < len(wanted) {
			wanted[n] = true
		}
	}

	var out federation.PacketsPage
	err := s.store.View(hub.InBackground(ctx), func(r hub.Reader) error {
		out = federation.PacketsPage{Packets: []coord.PacketID{}}

		// Pages of the store are read until the answer is full or the project ends.
		for after := in.After; ; {
			page, err := r.Coordination().PacketIDs(in.Project, after, s.pageOf(pagePackets))
			if err != nil {
				return err
			}
			for _, id := range page {
				if wanted[id.Bucket()] {
					out.Packets = append(out.Packets, id)
				}
			}

			if len(page) < s.pageOf(pagePackets) {
				return nil
			}
			after = page[len(page)-1]
			if len(out.Packets) >= s.pageOf(pagePackets) {
				out.Next = after
				return nil
			}
		}
	})
	if err != nil {
		return out, fmt.Errorf("peer: list packets: %w", err)
	}
	return out, nil
}

// Copies returns the requested copies, as far as they fit into one answer.
func (s *Syncer) Copies(ctx context.Context, peer coord.AID, p federation.CopiesParams) (federation.CopiesPage, error) {
	if err := s.checkScope(ctx, peer, p.Project); err != nil {
		return federation.CopiesPage{}, err
	}

	changes := copiesParams(p).changes()
	out := federation.CopiesPage{Copies: []federation.Copy{}}
	if len(changes) > s.pageOf(pageCopies) {
		out.Left += len(changes) - s.pageOf(pageCopies)
		changes = changes[:s.pageOf(pageCopies)]
	}

	size := 0
	for i := range changes { // one at a time: a copy that is not sent is not read
		got, err := s.contracts.Copies(hub.InBackground(ctx), "", changes[i:i+1])
		if err != nil {
			return out, err
		}
		for _, c := range got {
			// A contract that is larger comes with its newest versions; this hub sends the
			// others when it compares.
			if c.Contract != nil {
				c = c.Lacking(p.Have[c.Contract.ID]).Parts(answerBytes / 2)[0]
			}
			raw, err := encode(c)
			if err != nil {
				return out, err
			}
			if size += len(raw); size > answerBytes && len(out.Copies) > 0 {
				out.Left += len(changes) - i
				return out, nil
			}
			out.Copies = append(out.Copies, c)
		}
	}
	return out, nil
}

// Versions answers a peer that is about to send contracts: the versions of them that
// are here need not come again.
func (s *Syncer) Versions(ctx context.Context, peer coord.AID, p federation.VersionsParams) (federation.VersionsPage, error) {
	if err := s.checkScope(ctx, peer, p.Project); err != nil {
		return federation.VersionsPage{}, err
	}
	have, err := s.versions(ctx, p.Project, p.Contracts[:min(len(p.Contracts), s.pageOf(pageCopies))])
	return federation.VersionsPage{Versions: have}, err
}

// versions returns the sums of the versions of some contracts, as far as they are here.
func (s *Syncer) versions(ctx context.Context, project coord.ProjectID, ids []coord.ContractID) (map[coord.ContractID][]string, error) {
	have := map[coord.ContractID][]string{}
	for _, change := range (copiesParams{Project: project, Contracts: ids}).changes() { // one at a time: contents may be large
		got, err := s.contracts.Copies(hub.InBackground(ctx), "", []hub.Change{change})
		if err != nil {
			return nil, err
		}
		for _, c := range got {
			if sums := c.Contract.VersionSums(); len(sums) > 0 {
				have[c.Contract.ID] = sums
			}
		}
	}
	return have, nil
}

// copiesParams name things of a project, to fetch them or to send them.
type copiesParams federation.CopiesParams

// changes returns changes of the requested things.
func (in copiesParams) changes() []hub.Change {
	var out []hub.Change
	if in.Head {
		out = append(out, hub.Change{Project: in.Project, Kind: hub.ChangeProject, Object: string(in.Project)})
	}
	for _, id := range in.Contracts {
		out = append(out, hub.Change{Project: in.Project, Kind: hub.ChangeContract, Object: string(id)})
	}
	for _, id := range in.Packets {
		out = append(out, hub.Change{Project: in.Project, Kind: hub.ChangePacket, Object: string(id)})
	}
	return out
}

func (in copiesParams) empty() bool {
	return !in.Head && len(in.Contracts) == 0 && len(in.Packets) == 0
}

// cutAt returns the first n requested things, and the rest.
func (in copiesParams) cutAt(n int) (first, rest copiesParams) {
	first, rest = copiesParams{Project: in.Project, Head: in.Head, Have: in.Have}, copiesParams{Project: in.Project, Have: in.Have}
	if in.Head {
		n--
	}
	k := min(n, len(in.Contracts))
	first.Contracts, rest.Contracts = in.Contracts[:k], in.Contracts[k:]
	k = min(n-k, len(in.Packets))
	first.Packets, rest.Packets = in.Packets[:k], in.Packets[k:]
	return first, rest
}

// pages reads pages until there is no next one, or until there are most elements. read
// returns the page after a key and the key where the next one begins, empty if it is the
// last page. A page without elements whose key does not grow ends the reading: a peer may
// not loop it. Keys of packets do not grow, because their order is by time.
func pages[T any, K ~string](most int, read func(after K) ([]T, K, error)) ([]T, error) {
	var all []T
	for after := K(""); ; {
		page, next, err := read(after)
		if err != nil {
			return nil, err
		}
		all = append(all, page...)
		isLoop := next == after || (next < after && len(page) == 0)
		if next == "" || isLoop || len(all) > most {
			return all, nil
		}
		after = next
	}
}

// compareAll finds and repairs every difference with the peer. Projects whose sums are
// equal are not looked at.
func (w *worker) compareAll(ctx context.Context) error {
	sums := map[coord.ProjectID]string{}
	ours, err := pages(math.MaxInt, func(after coord.ProjectID) ([]coord.ProjectID, coord.ProjectID, error) {
		page, err := w.Projects(ctx, w.aid, federation.ProjectsParams{After: after})
		maps.Copy(sums, page.Sums)
		return page.Projects, page.Next, err
	})
	if err != nil {
		return err
	}

	theirs, theirSums, err := w.theirProjects(ctx)
	if err != nil {
		return err
	}

	// Projects that only the peer has are compared if they are in its scope.
	slices.Sort(theirs)
	for _, id := range without(slices.Compact(theirs), ours) {
		ok, err := w.scope.InScope(ctx, w.aid, id)
		if err != nil {
			return err
		}
		if ok && id.Valid() {
			ours = append(ours, id)
		}
	}

	for _, id := range ours {
		if sum := sums[id]; sum != "" && sum == theirSums[id] {
			continue
		}
		if err := w.compareProject(ctx, id); err != nil {
			return err
		}
	}
	return nil
}

// maxProjectIDs is the number of projects of a peer that are compared.
const maxProjectIDs = 100_000

// theirProjects returns the ids of every project that the peer has, and their sums if
// the peer has some.
func (w *worker) theirProjects(ctx context.Context) ([]coord.ProjectID, map[coord.ProjectID]string, error) {
	if !w.native {
		var out struct {
			Projects []struct {
				ID coord.ProjectID `json:"projectId"`
			}
		}
		err := w.remote.call(ctx, methodProjectList, struct{}{}, &out)
		var ids []coord.ProjectID
		for _, p := range out.Projects {
			ids = append(ids, p.ID)
		}
		return ids, nil, err
	}
	sums := map[coord.ProjectID]string{}
	ids, err := pages(maxProjectIDs, func(after coord.ProjectID) ([]coord.ProjectID, coord.ProjectID, error) {
		var out federation.ProjectsPage
		err := w.remote.call(ctx, methodSyncProjects, federation.ProjectsParams{After: after}, &out)
		if len(out.Sums) <= len(out.Projects) { // a peer cannot make this hub hold more
			maps.Copy(sums, out.Sums)
		}
		return out.Projects, out.Next, err
	})
	return ids, sums, err
}

// compareProject finds and repairs every difference in one project.
func (w *worker) compareProject(ctx context.Context, id coord.ProjectID) error {
	if !w.native {
		return w.compareReference(ctx, id)
	}
	ours, err := w.summary(ctx, id, w.contracts.Summary)
	if err != nil && hub.CodeOf(err) != hub.CodeNotFound {
		return err
	}
	theirs, err := w.summary(ctx, id, w.theirSummary)
	if r, ok := refused(err); ok && r.missing() {
		err = nil
	}
	if err != nil {
		return err
	}
	pull, push, err := w.differences(ctx, id, ours, theirs)
	if err != nil {
		return err
	}
	if err := w.pull(ctx, pull); err != nil {
		return err
	}
	return w.push(ctx, push)
}

// maxContractSums is the number of sums that a peer can make this hub hold.
const maxContractSums = 200_000

// summary reads a summary to its end.
func (w *worker) summary(ctx context.Context, id coord.ProjectID, read func(context.Context, coord.ProjectID, coord.ContractID) (federation.Summary, error)) (federation.Summary, error) {
	whole, err := read(ctx, id, "")
	for after := whole.Next; err == nil && after != "" && len(whole.Contracts) < maxContractSums; {
		var part federation.Summary
		if part, err = read(ctx, id, after); err != nil || (part.Next != "" && part.Next <= after) {
			break
		}
		whole.Contracts = append(whole.Contracts, part.Contracts...)
		after = part.Next
	}
	return whole, err
}

func (w *worker) theirSummary(ctx context.Context, id coord.ProjectID, after coord.ContractID) (federation.Summary, error) {
	var out federation.Summary
	err := w.remote.call(ctx, methodSyncSummary, federation.SummaryParams{Project: id, After: after}, &out)
	return out, err
}

// differences returns the things to fetch from the peer and those to send to it. A
// thing that both have in different states is in both.
func (w *worker) differences(ctx context.Context, id coord.ProjectID, ours, theirs federation.Summary) (pull, push copiesParams, err error) {
	pull, push = copiesParams{Project: id}, copiesParams{Project: id}
	if ours.Head != theirs.Head {
		pull.Head, push.Head = theirs.Head != "", ours.Head != ""
	}

	// The contracts that stay in sums differ, or the peer lacks them.
	sums := map[coord.ContractID]string{}
	for _, c := range ours.Contracts {
		sums[c.ID] = c.Sum
	}
	for _, c := range theirs.Contracts {
		sum, here := sums[c.ID]
		if here && sum == c.Sum {
			delete(sums, c.ID)
		} else {
			pull.Contracts = append(pull.Contracts, c.ID)
		}
	}
	for _, c := range ours.Contracts {
		if _, differs := sums[c.ID]; differs {
			push.Contracts = append(push.Contracts, c.ID)
		}
	}

	// Packets are listed only for the buckets whose sums differ.
	buckets := map[int]string{}
	for _, b := range ours.Buckets {
		buckets[b.N] = b.Sum
	}
	for _, b := range theirs.Buckets {
		if buckets[b.N] == b.Sum {
			delete(buckets, b.N)
		} else {
			buckets[b.N] = ""
		}
	}

	in := federation.PacketsParams{Project: id, Buckets: slices.Sorted(maps.Keys(buckets))}
	if len(in.Buckets) == 0 {
		return pull, push, nil
	}

	here, err := allPackets(in, func(in federation.PacketsParams) (federation.PacketsPage, error) { return w.packets(ctx, in) })
	if err != nil {
		return pull, push, err
	}
	var there []coord.PacketID
	if theirs.Project != "" {
		there, err = allPackets(in, func(in federation.PacketsParams) (out federation.PacketsPage, err error) {
			err = w.remote.call(ctx, methodSyncPackets, in, &out)
			return out, err
		})
	}

	pull.Packets, push.Packets = without(there, here), without(here, there)
	return pull, push, err
}

// maxPacketIDs is the number of ids that a peer can make this hub hold.
const maxPacketIDs = 1_000_000

// allPackets reads the ids of all packets in the buckets of in.
func allPackets(in federation.PacketsParams, read func(federation.PacketsParams) (federation.PacketsPage, error)) ([]coord.PacketID, error) {
	return pages(maxPacketIDs, func(after coord.PacketID) ([]coord.PacketID, coord.PacketID, error) {
		in.After = after
		out, err := read(in)
		return out.Packets, out.Next, err
	})
}

// without returns the elements of a that are not in b.
func without[T comparable](a, b []T) []T {
	in := make(map[T]bool, len(b))
	for _, v := range b {
		in[v] = true
	}
	return slices.DeleteFunc(slices.Clone(a), func(v T) bool { return in[v] })
}

// pull fetches things from the peer and merges them.
func (w *worker) pull(ctx context.Context, in copiesParams) error {
	for !in.empty() {
		var page copiesParams
		page, in = in.cutAt(w.pageOf(pageCopies))
		var err error
		if page.Have, err = w.versions(ctx, page.Project, page.Contracts); err != nil {
			return err
		}

		// The page is requested again without the copies that came, until the peer has sent all.
		for !page.empty() {
			var out federation.CopiesPage
			if err := w.remote.call(ctx, methodSyncCopies, page, &out); err != nil {
				return err
			}
			if len(out.Copies) > w.pageOf(pageCopies) || out.Left < 0 {
				return garbled(w.endpoint)
			}

			for i := range out.Copies {
				setProject(&out.Copies[i], page.Project)
			}
			if _, err := w.contracts.Sync(ctx, w.aid, true, out.Copies); err != nil {
				return err
			}
			if out.Left == 0 || len(out.Copies) == 0 {
				break
			}
			_, page = page.cutAt(len(out.Copies))
		}
	}
	return nil
}

// setProject sets the project of a copy to the requested one.
func setProject(c *federation.Copy, project coord.ProjectID) {
	c.Project = project
	switch {
	case c.Contract != nil:
		c.Contract.Project = project
	case c.Packet != nil:
		c.Packet.Project = project
	}
}

// push sends things to the peer.
func (w *worker) push(ctx context.Context, out copiesParams) error {
	for !out.empty() {
		var page copiesParams
		page, out = out.cutAt(w.pageOf(pageCopies))
		copies, err := w.contracts.Copies(ctx, "", page.changes())
		if err != nil {
			return err
		}
		if err := w.sendCopies(ctx, copies, false); err != nil {
			return err
		}
	}
	return nil
}
