package peer

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/parley-agents/parley/hub"
)

// How much of a comparison goes into one call.
const (
	pageProjects = 500
	pagePackets  = 5000
	pageCopies   = 200
	answerBytes  = 4 << 20 // of copies in one answer
)

// The parameters and answers of the calls with which two Parley hubs find out
// where they differ.
type (
	projectsAsked struct {
		After hub.ProjectID `json:"after,omitempty"`
	}
	projectsAnswer struct {
		Projects []hub.ProjectID `json:"projects"`
		Next     hub.ProjectID   `json:"next,omitempty"`
	}
	summaryAsked struct {
		Project hub.ProjectID  `json:"projectId"`
		After   hub.ContractID `json:"after,omitempty"`
	}
	packetsAsked struct {
		Project hub.ProjectID `json:"projectId"`
		Buckets []int         `json:"buckets"` // of a summary
		After   hub.PacketID  `json:"after,omitempty"`
	}
	packetsAnswer struct {
		Packets []hub.PacketID `json:"packets"` // by id
		Next    hub.PacketID   `json:"next,omitempty"`
	}
	copiesAsked struct {
		Project   hub.ProjectID    `json:"projectId"`
		Head      bool             `json:"head,omitempty"`
		Contracts []hub.ContractID `json:"contracts,omitempty"`
		Packets   []hub.PacketID   `json:"packets,omitempty"`
	}
	copiesAnswer struct {
		Copies []hub.Copy `json:"copies"`
		Left   int        `json:"left"` // that were asked for and did not fit
	}
)

// Answer answers a call with which another Parley hub compares what it has with
// what is here. ok is false when the method is none of those.
func (s *Syncer) Answer(ctx context.Context, from hub.AID, method string, params json.RawMessage) (result any, ok bool, err error) {
	switch method {
	case MethodSyncProjects:
		var in projectsAsked
		if err := decode(method, params, &in); err != nil {
			return nil, true, err
		}
		var out projectsAnswer
		out.Projects, out.Next, err = s.projects(ctx, from, in.After)
		return out, true, err
	case MethodSyncSummary:
		var in summaryAsked
		if err := s.about(ctx, from, method, params, &in, &in.Project); err != nil {
			return nil, true, err
		}
		result, err = s.contracts.Summary(ctx, in.Project, in.After)
	case MethodSyncPackets:
		var in packetsAsked
		if err := s.about(ctx, from, method, params, &in, &in.Project); err != nil {
			return nil, true, err
		}
		result, err = s.packets(ctx, in)
	case MethodSyncCopies:
		var in copiesAsked
		if err := s.about(ctx, from, method, params, &in, &in.Project); err != nil {
			return nil, true, err
		}
		result, err = s.copies(ctx, in)
	default:
		return nil, false, nil
	}
	return result, true, err
}

// about reads the parameters of a call about one project, which the caller must
// take part in.
func (s *Syncer) about(ctx context.Context, from hub.AID, method string, params json.RawMessage, in any, project *hub.ProjectID) error {
	if err := decode(method, params, in); err != nil {
		return err
	}
	ok, err := s.scope.InScope(ctx, from, *project)
	if err == nil && !ok {
		err = hub.Errorf(hub.CodeNotFound, method, "Project %.128s not found", *project)
	}
	return err
}

func decode(method string, params json.RawMessage, into any) error {
	if len(params) == 0 {
		params = json.RawMessage("{}")
	}
	if err := json.Unmarshal(params, into); err != nil {
		return hub.Errorf(hub.CodeInvalid, method, "the parameters cannot be read")
	}
	return nil
}

// projects returns a page of the projects that a peer takes part in.
func (s *Syncer) projects(ctx context.Context, peer hub.AID, after hub.ProjectID) (ids []hub.ProjectID, next hub.ProjectID, err error) {
	var page []hub.Project
	err = s.store.View(ctx, func(r hub.Reader) (err error) {
		page, err = r.Projects(after, pageProjects)
		return err
	})
	if err != nil {
		return nil, "", fmt.Errorf("peer: list projects: %w", err)
	}
	ids = []hub.ProjectID{}
	for _, p := range page {
		ok, err := s.scope.InScope(ctx, peer, p.ID)
		if err != nil {
			return nil, "", err
		}
		if ok {
			ids = append(ids, p.ID)
		}
	}
	if len(page) == pageProjects {
		next = page[len(page)-1].ID
	}
	return ids, next, nil
}

// packets returns a page of the ids of the packets that lie in some buckets.
func (s *Syncer) packets(ctx context.Context, in packetsAsked) (packetsAnswer, error) {
	var wanted [256]bool
	for _, n := range in.Buckets {
		if n >= 0 && n < len(wanted) {
			wanted[n] = true
		}
	}
	var out packetsAnswer
	err := s.store.View(ctx, func(r hub.Reader) error {
		out = packetsAnswer{Packets: []hub.PacketID{}}
		for after := in.After; ; {
			page, err := r.PacketIDs(in.Project, after, pagePackets)
			if err != nil {
				return err
			}
			for _, id := range page {
				if wanted[sha256.Sum256([]byte(id))[0]] {
					out.Packets = append(out.Packets, id)
				}
			}
			if len(page) < pagePackets {
				return nil
			}
			after = page[len(page)-1]
			if len(out.Packets) >= pagePackets {
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

// copies returns what was asked for, as far as it fits into one answer.
func (s *Syncer) copies(ctx context.Context, in copiesAsked) (copiesAnswer, error) {
	changes := in.changes()
	out := copiesAnswer{Copies: []hub.Copy{}}
	if len(changes) > pageCopies {
		out.Left += len(changes) - pageCopies
		changes = changes[:pageCopies]
	}
	size := 0
	for i := range changes { // one at a time: what is not sent is not read
		got, err := s.contracts.Copies(ctx, "", changes[i:i+1])
		if err != nil {
			return out, err
		}
		for _, c := range got {
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

// changes returns changes that lead to what is asked for.
func (in copiesAsked) changes() []hub.Change {
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

func (in copiesAsked) empty() bool { return !in.Head && len(in.Contracts) == 0 && len(in.Packets) == 0 }

// cutAt returns the first n things asked for, and the rest.
func (in copiesAsked) cutAt(n int) (first, rest copiesAsked) {
	first, rest = copiesAsked{Project: in.Project, Head: in.Head}, copiesAsked{Project: in.Project}
	if in.Head {
		n--
	}
	k := min(n, len(in.Contracts))
	first.Contracts, rest.Contracts = in.Contracts[:k], in.Contracts[k:]
	k = min(n-k, len(in.Packets))
	first.Packets, rest.Packets = in.Packets[:k], in.Packets[k:]
	return first, rest
}

// compareAll finds and repairs every difference with the peer.
func (w *worker) compareAll(ctx context.Context) error {
	ids := map[hub.ProjectID]bool{}
	for after, first := hub.ProjectID(""), true; first || after != ""; first = false {
		page, next, err := w.projects(ctx, w.aid, after)
		if err != nil {
			return err
		}
		for _, id := range page {
			ids[id] = true
		}
		after = next
	}
	theirs, err := w.theirProjects(ctx)
	if err != nil {
		return err
	}
	for _, id := range theirs {
		ok, err := w.scope.InScope(ctx, w.aid, id)
		if err != nil {
			return err
		}
		if ok && id.Valid() {
			ids[id] = true
		}
	}
	for id := range ids {
		if err := w.compareProject(ctx, id); err != nil {
			return err
		}
	}
	return nil
}

// maxProjectsSeen bounds how many projects of a peer are looked at.
const maxProjectsSeen = 100_000

// theirProjects returns the ids of every project that the peer has.
func (w *worker) theirProjects(ctx context.Context) ([]hub.ProjectID, error) {
	if !w.native {
		var out struct {
			Projects []struct {
				ID hub.ProjectID `json:"projectId"`
			}
		}
		if err := w.line.call(ctx, methodProjectList, struct{}{}, &out); err != nil {
			return nil, err
		}
		var ids []hub.ProjectID
		for _, p := range out.Projects {
			ids = append(ids, p.ID)
		}
		return ids, nil
	}
	var ids []hub.ProjectID
	var in projectsAsked
	for {
		var out projectsAnswer
		if err := w.line.call(ctx, MethodSyncProjects, in, &out); err != nil {
			return nil, err
		}
		ids = append(ids, out.Projects...)
		if out.Next == "" || out.Next <= in.After || len(ids) > maxProjectsSeen {
			return ids, nil
		}
		in.After = out.Next
	}
}

// compareProject finds and repairs every difference in one project.
func (w *worker) compareProject(ctx context.Context, id hub.ProjectID) error {
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

// maxContractsSeen bounds what a peer can make this hub remember of a project.
const maxContractsSeen = 200_000

// summary reads a summary to its end.
func (w *worker) summary(ctx context.Context, id hub.ProjectID, read func(context.Context, hub.ProjectID, hub.ContractID) (hub.Summary, error)) (hub.Summary, error) {
	whole, err := read(ctx, id, "")
	for after := whole.Next; err == nil && after != "" && len(whole.Contracts) < maxContractsSeen; {
		var part hub.Summary
		if part, err = read(ctx, id, after); err != nil || part.Next != "" && part.Next <= after {
			break
		}
		whole.Contracts = append(whole.Contracts, part.Contracts...)
		after = part.Next
	}
	return whole, err
}

func (w *worker) theirSummary(ctx context.Context, id hub.ProjectID, after hub.ContractID) (hub.Summary, error) {
	var out hub.Summary
	err := w.line.call(ctx, MethodSyncSummary, summaryAsked{id, after}, &out)
	return out, err
}

// differences returns what the peer has and what this hub has that the other
// should see. A thing that both have in different states is in both.
func (w *worker) differences(ctx context.Context, id hub.ProjectID, ours, theirs hub.Summary) (pull, push copiesAsked, err error) {
	pull, push = copiesAsked{Project: id}, copiesAsked{Project: id}
	if ours.Head != theirs.Head {
		pull.Head, push.Head = theirs.Head != "", ours.Head != ""
	}
	sums := map[hub.ContractID]string{}
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
	asked := packetsAsked{Project: id, Buckets: slices.Sorted(maps.Keys(buckets))}
	if len(asked.Buckets) == 0 {
		return pull, push, nil
	}
	here, err := allPackets(asked, func(in packetsAsked) (packetsAnswer, error) { return w.packets(ctx, in) })
	if err != nil {
		return pull, push, err
	}
	var there []hub.PacketID
	if theirs.Project != "" {
		there, err = allPackets(asked, func(in packetsAsked) (out packetsAnswer, err error) {
			err = w.line.call(ctx, MethodSyncPackets, in, &out)
			return out, err
		})
	}
	pull.Packets, push.Packets = without(there, here), without(here, there)
	return pull, push, err
}

// maxPacketsSeen bounds what a peer can make this hub remember of a project.
const maxPacketsSeen = 1_000_000

// allPackets reads pages to their end.
func allPackets(in packetsAsked, read func(packetsAsked) (packetsAnswer, error)) (ids []hub.PacketID, err error) {
	for {
		page, err := read(in)
		if err != nil {
			return nil, err
		}
		ids = append(ids, page.Packets...)
		if page.Next == "" || page.Next <= in.After || len(ids) > maxPacketsSeen {
			return ids, nil
		}
		in.After = page.Next
	}
}

// without returns what is in a and not in b.
func without[T comparable](a, b []T) []T {
	in := make(map[T]bool, len(b))
	for _, v := range b {
		in[v] = true
	}
	return slices.DeleteFunc(slices.Clone(a), func(v T) bool { return in[v] })
}

// pull fetches what the peer has and merges it.
func (w *worker) pull(ctx context.Context, in copiesAsked) error {
	for !in.empty() {
		var page copiesAsked
		page, in = in.cutAt(pageCopies)
		for !page.empty() {
			var out copiesAnswer
			if err := w.line.call(ctx, MethodSyncCopies, page, &out); err != nil {
				return err
			}
			if len(out.Copies) > pageCopies || out.Left < 0 {
				return garbled(w.endpoint)
			}
			for i := range out.Copies {
				own(&out.Copies[i], page.Project)
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

// own makes a copy belong to the project that it was asked for.
func own(c *hub.Copy, project hub.ProjectID) {
	c.Project = project
	switch {
	case c.Contract != nil:
		c.Contract.Project = project
	case c.Packet != nil:
		c.Packet.Project = project
	}
}

// push sends what this hub has.
func (w *worker) push(ctx context.Context, out copiesAsked) error {
	for !out.empty() {
		var page copiesAsked
		page, out = out.cutAt(pageCopies)
		copies, err := w.contracts.Copies(ctx, "", page.changes())
		if err != nil {
			return err
		}
		if err := w.deliver(ctx, copies, false); err != nil {
			return err
		}
	}
	return nil
}
