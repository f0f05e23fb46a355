package contract

import (
	"cmp"
	"slices"

	"github.com/parley-agents/parley/compat"
	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/coord"
	"github.com/parley-agents/parley/internal/ground/federation"
)

// A guest is a peer that was invited to a project. Its copies are merged only as far
// as its own calls could have changed the project: with the permissions of its invite,
// for agents that it may act for, and for repositories that they claimed. What a copy
// repeats of the local state needs no permission, so a guest may send back what others
// did. A copy is merged as a whole or refused as a whole.
//
// The hub that invited this one, and peers that the operator added without an invite,
// are not bound: they pass on the changes of others.
type guest struct {
	peer  hub.Peer
	grant coord.Grant
	taken func(coord.AID) bool // an agent of this hub, or the hub itself

	r        hub.Reader
	verdicts *verdicts
}

// guest returns the bounds of the source of copies in a project, nil if it has none.
func (m *merger) guest(project coord.ProjectID) (*guest, error) {
	if m.peer == nil {
		p, err := m.tx.Peer(m.source)
		if err != nil && hub.CodeOf(err) != hub.CodeNotFound {
			return nil, err
		}
		m.peer = &p
	}
	g, part := coord.GrantIn(m.peer.Grants, project)
	switch {
	case m.peer.Grants == nil || g.Host:
		return nil, nil
	case !part:
		return nil, hub.Errorf(hub.CodeDenied, "contract.Sync", "%s was not invited to project %s", m.source, project)
	}
	taken := func(aid coord.AID) bool { return aid.Same(m.s.o.Self) }
	if m.s.o.Taken != nil {
		taken = m.s.o.Taken
	}
	return &guest{*m.peer, g, taken, m.tx, m.verdicts}, nil
}

func (g *guest) denied(format string, args ...any) error {
	return hub.Errorf(hub.CodeDenied, "contract.Sync", string(g.peer.AID)+" "+format, args...)
}

// needs reports CodeDenied unless the invite has one of some permissions.
func (g *guest) needs(what string, any ...coord.Permission) error {
	if slices.ContainsFunc(any, g.grant.Permits) {
		return nil
	}
	return g.denied("was not invited to %s: that needs %s", what, any[0])
}

// as reports CodeDenied unless the guest may act for an agent.
func (g *guest) as(aid coord.AID) error {
	if g.peer.MayActFor(aid) && (!g.taken(aid) || slices.Contains(g.peer.ActsFor, aid)) {
		return nil
	}
	return g.denied("may not act for %.100q", aid)
}

// forRepo reports CodeDenied unless an agent that the guest may act for claimed a
// repository, or the guest was invited for it and no agent has claimed it yet.
func (g *guest) forRepo(p coord.Project, id coord.RepoID) error {
	r, ok := p.Repo(id)
	mayClaim := r.Agent == "" && slices.Contains(g.grant.Repos, r.Name)
	if ok && (g.as(r.Agent) == nil || mayClaim) {
		return nil
	}
	return g.denied("does not speak for repository %s", id)
}

// first returns the first error.
func first(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// checkHead reports CodeDenied unless the guest may change a project from was to now.
func (g *guest) checkHead(was, now coord.Project) error {
	if was.ID == "" {
		return g.denied("was not invited to create projects")
	}
	if !sameMembers(was, now) {
		return g.denied("does not own project %s and cannot change its status or policy", was.ID)
	}
	for _, r := range now.Repos {
		known, _ := was.Repo(r.ID)
		if err := g.checkRepo(known, r); err != nil {
			return err
		}
	}
	return nil
}

// checkRepo reports CodeDenied unless the guest may change a repository from was, zero
// if it is new, to now.
func (g *guest) checkRepo(was, now coord.Repo) error {
	if sameRepo(was, now) {
		return nil
	}
	var err error
	switch {
	case was.ID == "":
		err = g.needs("add a repository", coord.PermitWrite)
	case was.Agent != "": // it changes a claim, or the repository under it
		err = g.as(was.Agent)
	case !slices.Contains(g.grant.Repos, was.Name):
		err = g.needs("claim "+was.Name, coord.PermitWrite)
	}
	if err == nil && now.Agent != "" {
		err = g.as(now.Agent)
	}
	return err
}

// checkContract reports CodeDenied unless the guest may change a contract from was,
// zero if it is new, to now. Both have History and Conflicts.
func (g *guest) checkContract(p coord.Project, was, now coord.Contract, native bool) error {
	if sameContract(was, now) {
		return nil
	}

	contents := func(c coord.Contract) []coord.ContractVersion {
		return append(slices.Concat(c.History, c.Conflicts), coord.ContractVersion{Version: c.Version, Content: c.Content, ProposedBy: c.ProposedBy})
	}
	proposes := func(what string, by coord.RepoID) error {
		return first(g.needs(what, coord.PermitPropose), g.forRepo(p, by))
	}

	// A new content, or a known content with another proposer, counts as a proposal of the guest.
	known := contents(was)
	for _, v := range contents(now) {
		i := slices.IndexFunc(known, func(k coord.ContractVersion) bool { return sameContent(k, v) })
		if i < 0 || known[i].ProposedBy != v.ProposedBy {
			if err := proposes("propose a contract", v.ProposedBy); err != nil {
				return err
			}
		}
	}

	isRenamed := was.ID != "" && (was.Type != now.Type || was.Name != now.Name || was.CreatedAt != now.CreatedAt)
	if isRenamed {
		if err := proposes("rename a contract", now.ProposedBy); err != nil {
			return err
		}
	}

	// A new agreement comes from an agent that the guest may act for.
	for _, a := range now.Agreements {
		if slices.Contains(was.Agreements, a) {
			continue
		}
		if err := first(g.needs("agree to a contract", coord.PermitRespond), g.as(a.Agent), g.forRepo(p, a.Repo)); err != nil {
			return err
		}
	}

	for _, i := range now.Implementations {
		if err := g.checkWork(p, was, i); err != nil {
			return err
		}
	}

	if err := g.checkTerms(p, was, now); err != nil {
		return err
	}
	return first(g.checkMoves(was.Stamps, now.Stamps), g.checkStatus(p, was, now, native))
}

// checkTerms reports CodeDenied unless the guest may change the terms of a contract from was to
// now: the uses of repositories that it speaks for, the direction and the end of contracts that
// it provides or proposed, and asks. It cannot take back what another repository is asked.
func (g *guest) checkTerms(p coord.Project, was, now coord.Contract) error {
	if sameTerms(was.Terms, now.Terms) {
		return nil
	}
	if err := g.checkProvider(p, was, now); err != nil {
		return err
	}
	for _, u := range now.Terms.Uses {
		known := slices.ContainsFunc(was.Terms.Uses, func(x coord.Use) bool { return x.Repo == u.Repo && compareEncoded(x, u) == 0 })
		if known {
			continue
		}
		if err := first(g.needs("use a contract", coord.PermitRespond), g.forRepo(p, u.Repo)); err != nil {
			return err
		}
	}
	for _, a := range now.Terms.Asks {
		if slices.Contains(was.Terms.Asks, a) {
			continue
		}
		err := g.needs("ask for an agreement", coord.PermitPropose, coord.PermitRespond)
		if err == nil && !a.Needed {
			err = g.forRepo(p, a.Repo)
		}
		if err != nil {
			return err
		}
	}
	if !slices.Equal(was.Terms.Tests, now.Terms.Tests) {
		return g.denied("does not own project %s and cannot name the tests of contracts", p.ID)
	}
	for _, e := range now.Terms.Ends {
		if slices.Contains(was.Terms.Ends, e) {
			continue
		}
		owner := cmp.Or(was.Terms.Provider, was.ProposedBy)
		if err := first(g.needs("end a contract", coord.PermitPropose), g.forRepo(p, owner)); err != nil {
			return err
		}
	}
	return g.checkForce(was, now)
}

// checkProvider reports CodeDenied for another provider, direction or format of a contract: a guest
// sends its own words to a handover, and every hub derives what follows from them. A contract that
// is new has those that its proposer chose.
func (g *guest) checkProvider(p coord.Project, was, now coord.Contract) error {
	isSame := compareTerms(was.Terms, now.Terms) == 0
	if was.ID == "" && !isSame {
		return first(g.needs("set the provider of a contract", coord.PermitPropose), g.forRepo(p, now.ProposedBy))
	}
	for _, w := range now.Terms.Words {
		if slices.Contains(was.Terms.Words, w) {
			continue
		}
		if err := first(g.needs("answer for a provider", coord.PermitRespond), g.as(w.Agent), g.forRepo(p, w.Repo)); err != nil {
			return err
		}
	}
	if h := now.Terms.Handover; h != nil && compareHandovers(was.Terms.Handover, h) != 0 {
		if err := first(g.needs("ask for another provider", coord.PermitRespond), g.forRepo(p, h.By)); err != nil {
			return err
		}
	}

	derived := was
	derived.Terms.Handover = now.Terms.Handover
	derived.Terms.Words = now.Terms.Words
	if !isSame && compareTerms(handOver(derived).Terms, now.Terms) != 0 {
		return g.denied("changed the provider, the direction or the format of contract %s without the words of those that it concerns", now.ID)
	}
	return nil
}

// checkForce reports CodeDenied for a version in force that the contract does not have as agreed.
func (g *guest) checkForce(was, now coord.Contract) error {
	f := now.Terms.InForce
	if compareForce(was.Terms.InForce, f) == 0 || f == nil {
		return nil
	}
	isHead := f.Version == now.Version && f.Content == coord.ContentHash(now.Content) && now.Status.Reaches(coord.ContractAgreed)
	if !isHead && contentWith(now, f.Version, f.Content) == nil {
		return g.denied("sent a version of contract %s as in force that it does not have", now.ID)
	}
	return g.needs("agree to a contract", coord.PermitRespond, coord.PermitPropose)
}

// checkMoves reports CodeDenied unless the moves of a contract that are new were made
// by hubs that the guest may act for. A guest that knows of more moves of another hub
// than this hub does could make them disappear, and so could one that leaves moves out
// without a move of its own.
func (g *guest) checkMoves(was, now coord.Stamps) error {
	fresh := 0
	for _, w := range now.Writes {
		if !slices.Contains(was.Writes, w) {
			fresh++
			if err := g.as(w.By); err != nil {
				return err
			}
		}
	}
	for by, at := range now.Seen {
		if was.Seen[by] != at {
			if err := g.as(by); err != nil {
				return err
			}
		}
	}
	if fresh == 0 && slices.ContainsFunc(was.Writes, func(w coord.Stamp) bool { return !slices.Contains(now.Writes, w) }) {
		return g.denied("left out moves of a contract")
	}
	return nil
}

// checkWork reports CodeDenied unless the guest may record the work of a repository on
// a contract. An update and a failed verification mark the work of all repositories.
func (g *guest) checkWork(p coord.Project, was coord.Contract, now coord.Implementation) error {
	before, there := was.Implementation(now.Repo)
	marked := before
	marked.Status = coord.ImplNeedsRevision
	switch {
	case there && sameImplementation(before, now):
		return nil
	case there && sameImplementation(marked, now):
		return g.needs("ask for a revision", coord.PermitPropose, coord.PermitImplement)
	}
	return first(g.needs("record work", coord.PermitImplement), g.as(now.Agent), g.forRepo(p, now.Repo))
}

// checkStatus reports CodeDenied unless the guest may move the status of a contract
// from was to now, and the parts of the contract bear the status out.
func (g *guest) checkStatus(p coord.Project, was, now coord.Contract, native bool) error {
	m := statusMove{was: was, now: now}
	m.next = was.ID == "" || now.Version != was.Version

	return first(
		g.checkAgreed(p, m, native),
		g.checkImplemented(p, m),
		g.checkVerified(m),
		g.checkReopened(m),
		g.checkAnswer(m))
}

// A statusMove is the change of a contract's status that a guest sends.
type statusMove struct {
	was, now coord.Contract
	next     bool // now is a new version, which begins as proposed
}

// reached reports whether the move leads to a status or beyond it.
func (m statusMove) reached(s coord.ContractStatus) bool {
	before := !m.next && m.was.Status.Reaches(s)
	return m.now.Status.Reaches(s) && !before
}

// left reports whether the move takes a status of the same version back.
func (m statusMove) left(s coord.ContractStatus) bool {
	return !m.next && m.was.Status.Reaches(s) && !m.now.Status.Reaches(s)
}

// checkAgreed reports CodeDenied unless the guest may make a contract agreed. A native
// guest sends the agreements with it. Another one does not: unless any repository may
// agree, it must not speak for the repository that proposed.
func (g *guest) checkAgreed(p coord.Project, m statusMove, native bool) error {
	if !m.reached(coord.ContractAgreed) {
		return nil
	}
	if native {
		isCompatible, err := g.compatibleUpdate(p, m.now)
		if err != nil {
			return err
		}
		if isCompatible {
			return g.needs("propose a contract", coord.PermitPropose)
		}
	}
	if err := g.needs("agree to a contract", coord.PermitRespond); err != nil {
		return err
	}

	unproven := false
	if native {
		unproven = !agreed(p, m.now)
	} else {
		unproven = p.Policy != coord.AgreeAny && g.forRepo(p, m.now.ProposedBy) == nil
	}
	if unproven {
		return g.denied("sent contract %s as agreed, but the required agreement is missing", m.now.ID)
	}
	return nil
}

// compatibleUpdate reports whether the head of a contract is an update by its provider that
// needs nobody's agreement: it is compatible for the consumers that this hub knows.
func (g *guest) compatibleUpdate(p coord.Project, c coord.Contract) (bool, error) {
	if c.Terms.Provider == "" || c.ProposedBy != c.Terms.Provider {
		return false, nil
	}
	for _, v := range slices.Backward(c.History) {
		if federation.IsFold(v) {
			return false, nil
		}
		j, err := g.verdicts.of(g.r, c, Base{Version: v.Version, content: v.Content}, c.Content, consumersOf(c, p))
		word, _ := effective(j.forThem, p, c.ProposedBy)
		return word == compat.Compatible, err
	}
	return false, nil
}

// checkImplemented reports CodeDenied unless the guest may make a contract implemented and
// every repository has completed it.
func (g *guest) checkImplemented(p coord.Project, m statusMove) error {
	if !m.reached(coord.ContractImplemented) {
		return nil
	}
	if err := g.needs("record work", coord.PermitImplement); err != nil {
		return err
	}
	if len(m.now.Pending(p)) > 0 {
		return g.denied("sent contract %s as implemented, but not every repository has completed it", m.now.ID)
	}
	return nil
}

// checkVerified reports CodeDenied unless the guest may record a verification, whether it
// passed or failed.
func (g *guest) checkVerified(m statusMove) error {
	if m.reached(coord.ContractVerified) || m.left(coord.ContractImplemented) {
		return g.needs("verify a contract", coord.PermitImplement)
	}
	return nil
}

// checkReopened reports CodeDenied unless the guest may bring a contract back to a
// negotiation.
func (g *guest) checkReopened(m statusMove) error {
	reopened := !m.next && m.was.ReopenedAt != m.now.ReopenedAt
	negotiates := !m.next && m.now.Status == coord.ContractNegotiating && m.was.Status != m.now.Status
	if m.left(coord.ContractAgreed) || reopened || negotiates {
		return g.needs("respond to a contract", coord.PermitRespond)
	}
	return nil
}

// checkAnswer reports CodeDenied unless the guest may change a contract whose status stays:
// by a verification that failed in part, or by an answer.
func (g *guest) checkAnswer(m statusMove) error {
	if !m.next && m.was.Status == m.now.Status && m.was.UpdatedAt != m.now.UpdatedAt {
		return g.needs("change a contract", coord.PermitImplement, coord.PermitRespond)
	}
	return nil
}

// agreed reports whether the agreements of a contract are those that the policy of its
// project requires.
func agreed(p coord.Project, c coord.Contract) bool {
	hash := coord.ContentHash(c.Content)
	counts := func(a coord.Agreement) bool {
		return a.Version == c.Version && a.Content == hash && a.At.Compare(c.ReopenedAt) > 0 && (p.Policy == coord.AgreeAny || a.Repo != c.ProposedBy)
	}
	return slices.ContainsFunc(c.Agreements, counts) && len(c.Dissenting(p)) == 0
}

// checkPacket reports CodeDenied unless the guest may share a packet, in place of was
// if that is not the zero value. Comments of answers and of verifications are packets
// about their contract.
func (g *guest) checkPacket(p coord.Project, was, now coord.Packet) error {
	need := []coord.Permission{coord.PermitShare}
	if len(now.Related) > 0 {
		need = append(need, coord.PermitRespond, coord.PermitImplement)
	}
	err := first(g.needs("share context", need...), g.as(now.FromAgent), g.forRepo(p, now.FromRepo))
	if err == nil && was.ID != "" {
		err = g.as(was.FromAgent)
	}
	return err
}
