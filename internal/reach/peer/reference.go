package peer

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/coord"
	"github.com/parley-agents/parley/internal/ground/federation"
)

// This file is about agents of the reference implementation. They replace whole
// objects, stamp accepted changes with their own clock, forget everything when they
// restart, and compare times only with their like. So the worker reads the agent's
// contract before it sends one: changes that only the agent has are merged here first,
// and the copy that is sent has a later time than the agent's. One fingerprint for
// each contract and agent, the state that both had last, tells an echo with a new
// time from a change. Sending a contract costs two calls, and at most 2*maxRounds.

// maxRounds is the number of attempts to send a contract that the agent changes at
// the same time.
const maxRounds = 4

// sendReference sends one copy to the agent.
func (w *worker) sendReference(ctx context.Context, c federation.Copy) error {
	switch {
	case c.Contract != nil:
		return w.sendContract(ctx, c.Project, c.Contract.ID)
	case c.Packet != nil:
		return w.sendCopy(ctx, c)
	}
	return w.alignRepos(ctx, c.Project)
}

// alignRepos merges the agent's list of repositories and this hub's, and creates the
// project there if there is none.
func (w *worker) alignRepos(ctx context.Context, id coord.ProjectID) error {
	theirs, found, err := w.theirProject(ctx, id)
	if hub.CodeOf(err) == hub.CodeTooLarge {
		found, err = true, nil // it exists, and is too large to be read
	}
	if err != nil {
		return err
	}
	if !found {
		return w.create(ctx, id)
	}
	if err := w.mergeRepos(ctx, id, theirs); err != nil {
		return err
	}
	return w.sendStatus(ctx, id)
}

// maxWhole is the number of contracts and packets of a project that is sent whole.
const maxWhole = 500

// sendStatus sends the status of a project to an agent whose copy is behind. An agent
// knows no method for that but the one that replaces the whole project: the project is
// sent when the agent has nothing that this hub lacks, and is not large. Contracts that
// differ are merged first.
func (w *worker) sendStatus(ctx context.Context, id coord.ProjectID) error {
	for range 2 {
		whole, differing, err := w.behind(ctx, id)
		if err != nil || whole == nil {
			return err
		}
		if len(differing) == 0 {
			return w.replace(ctx, *whole)
		}
		for _, c := range differing {
			if err := w.sendContract(ctx, id, c); err != nil {
				return err
			}
		}
	}
	return nil // the next comparison merges the rest first
}

// behind returns the project as this hub has it if the agent's copy has an earlier
// status, nil if it must not be sent, and the contracts that differ there.
func (w *worker) behind(ctx context.Context, id coord.ProjectID) (whole *federation.ProjectCopy, differing []coord.ContractID, err error) {
	head, err := w.head(ctx, id)
	if err != nil || head == nil {
		return nil, nil, err
	}
	theirs, found, err := w.theirProject(ctx, id)
	if hub.CodeOf(err) == hub.CodeTooLarge {
		return nil, nil, nil
	}
	if err != nil || !found || slices.Index(coord.ProjectStatuses, head.Standing()) <= slices.Index(coord.ProjectStatuses, theirs.Status) {
		return nil, nil, err
	}

	// A large project is not sent whole.
	all, err := w.contents(ctx, id)
	if err != nil || len(all.Contracts)+len(all.Packets) > maxWhole {
		return nil, nil, err
	}
	copies, err := w.contracts.Copies(ctx, "", all.changes())
	if err != nil {
		return nil, nil, err
	}

	whole = &federation.ProjectCopy{Project: *head}
	sums := map[coord.ContractID]string{}
	for _, c := range copies {
		if c.Contract != nil {
			whole.Contracts = append(whole.Contracts, *c.Contract)
			sums[c.Contract.ID] = fingerprint(*c.Contract)
		} else {
			whole.Packets = append(whole.Packets, *c.Packet)
		}
	}

	for _, c := range theirs.Contracts {
		if sums[c.ID] != fingerprint(c) {
			differing = append(differing, c.ID)
		}
	}
	for _, p := range theirs.Packets {
		if !slices.Contains(all.Packets, p.ID) {
			return nil, nil, nil // the next comparison merges it first
		}
	}
	if whole.UpdatedAt.Compare(theirs.UpdatedAt) <= 0 { // it keeps its own otherwise
		whole.UpdatedAt = coord.InstantMicro(theirs.UpdatedAt.Micro() + 1)
	}
	return whole, differing, nil
}

// replace sends a whole project, which replaces the agent's copy.
func (w *worker) replace(ctx context.Context, whole federation.ProjectCopy) error {
	done, err := w.remote.send(ctx, syncCall{method: methodProjectSync, params: wholeProject(whole, w.zoned, w.self)})
	if err == nil && done.Status == federation.SyncError {
		err = w.addDeadLetter(ctx, federation.Copy{Project: whole.ID, Head: &whole.Project}, done.Reason)
	}
	return err
}

func (w *worker) mergeRepos(ctx context.Context, id coord.ProjectID, theirs federation.ProjectCopy) error {
	there := map[coord.RepoID]coord.Repo{}
	var copies []federation.Copy
	for _, r := range theirs.Repos {
		there[r.ID] = r
		copies = append(copies, federation.Copy{Project: id, Repo: &r})
	}
	if len(copies) > 0 {
		if _, err := w.contracts.Sync(ctx, w.aid, false, copies); err != nil {
			return err
		}
	}
	ours, err := w.head(ctx, id)
	if err != nil || ours == nil {
		return err
	}
	for _, r := range ours.Repos {
		if t, ok := there[r.ID]; ok && sameRepo(t, r) {
			continue
		}
		if err := w.sendCopy(ctx, federation.Copy{Project: id, Repo: &r}); err != nil {
			return err
		}
	}
	return nil
}

// sameRepo compares the members of a repository that the agent keeps.
func sameRepo(a, b coord.Repo) bool {
	return a.Name == b.Name && a.Role == b.Role && a.Language == b.Language && a.URL == b.URL && a.Agent == b.Agent && a.Endpoint == b.Endpoint
}

// head returns this hub's project, or nil if it has none.
func (w *worker) head(ctx context.Context, id coord.ProjectID) (*coord.Project, error) {
	copies, err := w.contracts.Copies(ctx, "", copiesParams{Project: id, Head: true}.changes())
	if err != nil || len(copies) == 0 {
		return nil, err
	}
	return copies[0].Head, nil
}

// create makes the project at the agent, empty, and then sends its contracts and
// packets one by one, so that no request becomes large.
func (w *worker) create(ctx context.Context, id coord.ProjectID) error {
	head, err := w.head(ctx, id)
	if err != nil || head == nil {
		return err
	}
	made, err := w.remote.send(ctx, syncCall{method: methodProjectSync, params: wholeProject(federation.ProjectCopy{Project: *head}, w.zoned, w.self)})
	if err != nil {
		return err
	}
	if made.Status == federation.SyncError {
		return w.addDeadLetter(ctx, federation.Copy{Project: id, Head: head}, made.Reason)
	}
	all, err := w.contents(ctx, id)
	if err != nil {
		return err
	}
	w.created = id
	defer func() { w.created = "" }()
	return w.push(ctx, all)
}

// lacks reacts to an agent that lacks the project of a copy: it makes the project
// there. A copy that is refused in a project that was just made is a dead letter.
func (w *worker) lacks(ctx context.Context, c federation.Copy, reason string) error {
	if w.created == c.Project {
		return w.addDeadLetter(ctx, c, reason)
	}
	return w.create(ctx, c.Project)
}

// wholeProject returns the parameters that send a project, with the later of its own
// status and the one that follows from its contracts.
func wholeProject(p federation.ProjectCopy, zoned bool, self coord.AID) json.RawMessage {
	p.Status = p.Standing()
	p.Stamps = coord.Stamps{}
	if !zoned {
		p.Project = federation.Naive(p.Project)
		for i := range p.Contracts {
			p.Contracts[i] = federation.Naive(p.Contracts[i])
		}
		for i := range p.Packets {
			p.Packets[i] = federation.Naive(p.Packets[i])
		}
	}
	raw, _ := encode(struct { // stored as JSON before: cannot fail
		Project federation.ProjectCopy `json:"project"`
		Source  coord.AID              `json:"source_agent"`
	}{p, self})
	return raw
}

// contents returns the contracts and packets in a project.
func (w *worker) contents(ctx context.Context, id coord.ProjectID) (copiesParams, error) {
	size := w.pageOf(1000)
	all := copiesParams{Project: id}

	err := w.store.View(ctx, func(r hub.Reader) (err error) {
		all.Contracts, err = pages(math.MaxInt, func(after coord.ContractID) (ids []coord.ContractID, next coord.ContractID, err error) {
			page, err := r.Coordination().Contracts(coord.ContractQuery{Project: id, After: after, Limit: size})
			for _, c := range page {
				ids = append(ids, c.ID)
			}
			if len(page) == size {
				next = ids[size-1]
			}
			return ids, next, err
		})
		if err != nil {
			return err
		}

		all.Packets, err = pages(math.MaxInt, func(after coord.PacketID) (ids []coord.PacketID, next coord.PacketID, err error) {
			if ids, err = r.Coordination().PacketIDs(id, after, size); len(ids) == size {
				next = ids[size-1]
			}
			return ids, next, err
		})
		return err
	})
	if err != nil {
		return all, fmt.Errorf("peer: list the contents of %s: %w", id, err)
	}
	return all, nil
}

// sendCopy sends a repository or a packet, with the whole project if the agent lacks
// it.
func (w *worker) sendCopy(ctx context.Context, c federation.Copy) error {
	r, err := w.trySend(ctx, c)
	switch {
	case err != nil:
		return err
	case r.Code == hub.CodeNotFound:
		return w.lacks(ctx, c, r.Reason)
	case r.Status == federation.SyncError:
		return w.addDeadLetter(ctx, c, r.Reason)
	}
	return nil
}

func (w *worker) trySend(ctx context.Context, c federation.Copy) (federation.SyncResult, error) {
	if !w.zoned {
		c = c.Naive()
	}
	p, err := pack(c, w.self)
	if err != nil {
		return federation.SyncResult{}, err
	}
	return w.remote.send(ctx, p)
}

// sendContract sends the present state of a contract to the agent.
func (w *worker) sendContract(ctx context.Context, project coord.ProjectID, id coord.ContractID) error {
	for range maxRounds {
		theirs, found, err := w.theirContract(ctx, project, id)
		if err != nil {
			return err
		}
		ours, differs, err := w.reconcile(ctx, project, id, theirs, found)
		if err != nil || !differs {
			return err
		}
		sent := *ours.Contract
		if found && sent.UpdatedAt.Compare(theirs.UpdatedAt) <= 0 {
			// The agent's clock is ahead, and would make it keep its own copy.
			sent.UpdatedAt = coord.InstantMicro(theirs.UpdatedAt.Micro() + 1)
		}
		r, err := w.trySend(ctx, federation.Copy{Project: project, Contract: &sent})
		switch {
		case err != nil:
			return err
		case r.Code == hub.CodeNotFound:
			return w.lacks(ctx, ours, r.Reason)
		case r.Status == federation.SyncError:
			return w.addDeadLetter(ctx, ours, r.Reason)
		case r.Status != federation.SyncSkipped:
			return w.saveBase(ctx, sent)
		}
	}
	return hub.Errorf(hub.CodeUnreachable, "peer.send", "%s keeps its own copy of contract %s instead of a newer one", w.endpoint, id)
}

// reconcile merges the agent's copy of a contract into this hub, unless it is only
// an echo, and returns this hub's copy and whether the agent's differs from it.
func (w *worker) reconcile(ctx context.Context, project coord.ProjectID, id coord.ContractID, theirs coord.Contract, found bool) (ours federation.Copy, differs bool, err error) {
	read := func() (federation.Copy, error) {
		copies, err := w.contracts.Copies(ctx, "", copiesParams{Project: project, Contracts: []coord.ContractID{id}}.changes())
		if err != nil || len(copies) == 0 {
			return federation.Copy{}, err
		}
		return copies[0], nil
	}

	if ours, err = read(); err != nil {
		return ours, false, err
	}
	if !found {
		return ours, ours.Contract != nil, nil
	}

	sum := fingerprint(theirs)
	base, err := w.base(ctx, project, id)
	if err != nil {
		return ours, false, err
	}
	if ours.Contract != nil {
		switch here := fingerprint(*ours.Contract); {
		case here == sum:
			return ours, false, w.saveBase(ctx, theirs)
		case sum == base:
			return ours, true, nil // an echo with a new time
		case here == base && theirs.Version >= ours.Contract.Version && theirs.UpdatedAt.Compare(ours.Contract.UpdatedAt) <= 0:
			// Only the agent changed it, with a clock that is behind.
			theirs.UpdatedAt = coord.InstantMicro(ours.Contract.UpdatedAt.Micro() + 1)
		}
	}

	if _, err = w.contracts.Sync(ctx, w.aid, false, []federation.Copy{{Project: project, Contract: &theirs}}); err != nil {
		return ours, false, err
	}
	if ours, err = read(); err != nil || ours.Contract == nil {
		return ours, false, err
	}
	if fingerprint(*ours.Contract) == sum {
		return ours, false, w.saveBase(ctx, theirs)
	}
	return ours, true, nil
}

// fingerprint is a hash of the members of a contract that the agent keeps, without
// the times that it changes by itself.
func fingerprint(c coord.Contract) string {
	type work struct {
		Repo   coord.RepoID
		Status coord.ImplementationStatus
		Plan   string
		Files  []string
		Notes  string
		Start  int64
		End    int64
	}
	works := map[coord.RepoID]work{}
	for _, i := range c.Implementations {
		works[i.Repo] = work{i.Repo, i.Status, i.Plan, list(i.Files), i.Notes, i.StartedAt.Micro(), i.CompletedAt.Micro()}
	}
	raw, err := json.Marshal(map[string]any{ // sorts the keys
		"type": c.Type, "name": c.Name, "version": c.Version, "status": c.Status, "content": coord.ContentHash(c.Content), "by": c.ProposedBy, "work": works,
	})
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:16])
}

// baseKey is the key of the fingerprint that a contract had when this hub and the
// agent last had the same.
func (w *worker) baseKey(project coord.ProjectID, id coord.ContractID) string {
	return "peer.base/" + string(w.aid) + "/" + string(project) + "/" + string(id)
}

func (w *worker) base(ctx context.Context, project coord.ProjectID, id coord.ContractID) (base string, err error) {
	base, err = hub.Read(ctx, w.store, func(r hub.Reader) (string, error) { return r.Meta(w.baseKey(project, id)) })
	if hub.CodeOf(err) == hub.CodeNotFound {
		return "", nil
	}
	return base, err
}

// saveBase stores the fingerprint of a contract that both sides have.
func (w *worker) saveBase(ctx context.Context, c coord.Contract) error {
	sum := fingerprint(c)
	if known, err := w.base(ctx, c.Project, c.ID); err != nil || known == sum {
		return err
	}
	return w.store.Update(ctx, hub.SurvivesKill, func(tx hub.Tx) error { return tx.PutMeta(w.baseKey(c.Project, c.ID), sum) })
}

// theirContract returns the contract that the agent has.
func (w *worker) theirContract(ctx context.Context, project coord.ProjectID, id coord.ContractID) (c coord.Contract, found bool, err error) {
	var raw json.RawMessage
	err = w.remote.call(ctx, methodContractGet, map[string]any{"projectId": project, "contractId": id, "includeHistory": true}, &raw)
	if r, ok := refused(err); ok && r.missing() {
		return coord.Contract{}, false, nil
	}
	if err != nil {
		return coord.Contract{}, false, err
	}
	if c, err = federation.DecodeContract(project, raw); err != nil || c.ID != id {
		return coord.Contract{}, false, garbled(w.endpoint)
	}
	return c, true, nil
}

// theirProject returns the whole project that the agent has.
func (w *worker) theirProject(ctx context.Context, id coord.ProjectID) (p federation.ProjectCopy, found bool, err error) {
	var raw json.RawMessage
	err = w.remote.call(ctx, methodProjectGet, map[string]any{"projectId": id}, &raw)
	if r, ok := refused(err); ok && r.missing() {
		return federation.ProjectCopy{}, false, nil
	}
	if err != nil {
		return federation.ProjectCopy{}, false, err
	}
	if p, err = federation.DecodeProject(raw); err != nil || p.ID != id {
		return federation.ProjectCopy{}, false, garbled(w.endpoint)
	}
	return p, true, nil
}

// compareReference finds and repairs every difference in one project.
func (w *worker) compareReference(ctx context.Context, id coord.ProjectID) error {
	theirs, found, err := w.theirProject(ctx, id)
	if hub.CodeOf(err) == hub.CodeTooLarge {
		// The contracts are compared one by one. Packets that the agent lost stay
		// lost there.
		ours, err := w.contents(ctx, id)
		if err != nil {
			return err
		}
		return w.push(ctx, copiesParams{Project: id, Contracts: ours.Contracts})
	}
	if err != nil {
		return err
	}
	if !found {
		return w.create(ctx, id)
	}

	if ours, err := w.head(ctx, id); err != nil {
		return err
	} else if ours == nil {
		if _, err := w.contracts.Sync(ctx, w.aid, false, []federation.Copy{{Project: id, Head: &theirs.Project}}); err != nil {
			return err
		}
	}
	if err := w.mergeRepos(ctx, id, theirs); err != nil {
		return err
	}

	ours, err := w.contents(ctx, id)
	if err != nil {
		return err
	}
	var there []coord.ContractID
	for _, c := range theirs.Contracts {
		_, differs, err := w.reconcile(ctx, id, c.ID, c, true)
		if err != nil {
			return err
		}
		if !differs {
			there = append(there, c.ID)
		}
	}

	var copies []federation.Copy
	var known []coord.PacketID
	for _, p := range theirs.Packets {
		copies = append(copies, federation.Copy{Project: id, Packet: &p})
		known = append(known, p.ID)
	}
	for part := range slices.Chunk(copies, pageCopies) {
		if _, err := w.contracts.Sync(ctx, w.aid, false, part); err != nil {
			return err
		}
	}

	if err := w.push(ctx, copiesParams{Project: id, Contracts: without(ours.Contracts, there), Packets: without(ours.Packets, known)}); err != nil {
		return err
	}
	return w.sendStatus(ctx, id)
}
