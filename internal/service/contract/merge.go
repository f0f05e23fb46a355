package contract

import (
	"bytes"
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/parley-agents/parley/hub/coord"
	"github.com/parley-agents/parley/internal/ground/federation"
)

// The functions in this file merge two copies of one thing. They are pure.
//
// The invariant: merging is commutative, associative and idempotent, so hubs that saw
// the same copies have the same state, for any order, grouping and repetition. It
// holds because each part of a copy is one of two things: the greater of two by a
// total order (the head of a contract, the work of each repository, each agreement,
// each member of a project, the claim of each repository), or the union of both (the
// contents of a contract, packets, repositories), cut by the same limits on every
// hub. The writes of members and statuses are merged with their causes, so that a
// write that lost against one whose hub did not know it is not forgotten; see
// mergeStamps. A status that follows from several parts is derived after the merge by
// advance, with the time of the last part it needed and never that of a clock, so
// that every hub derives the same.
//
// The cost is linear in the size of both copies, times the logarithm of the number of
// versions for their order; contents are hashed once per merge.

// mergeContract merges two copies of a contract, both with History and Conflicts.
//
// Content and status are those of the copy with the higher version, then with the
// later time, then with the greater hash of its content. The content of the other
// copy is kept in the conflicts unless it is in the history. Implementations are
// merged by repository, agreements by repository and version.
func mergeContract(a, b coord.Contract) coord.Contract {
	won, lost := a, b
	if compareHeads(a, b) < 0 {
		won, lost = b, a
	}
	out := won
	out.CreatedAt = earlier(a.CreatedAt, b.CreatedAt)
	out.ReopenedAt = later(a.ReopenedAt, b.ReopenedAt)
	out.Implementations = mergeImplementations(a.Implementations, b.Implementations)
	out.Agreements = mergeAgreements(a.Agreements, b.Agreements)
	out.History, out.Conflicts = mergeVersions(won, lost)
	out.Stamps = mergeStamps(a.Stamps, b.Stamps)
	out.Terms = mergeTerms(a.Terms, b.Terms)
	return out
}

// mergeStamps merges the writes of two copies. A write stays if each copy has it or
// does not include it; a copy that includes a write without having it has replaced
// it. So a write leaves only with a write whose hub knew it, and of two writes that
// did not know each other both stay, on every hub and for every order of merges: the
// greater one is the value of the member, the other is Lost. The cost is quadratic in
// the number of writes, of which there is one per member but in a conflict.
func mergeStamps(a, b coord.Stamps) coord.Stamps {
	if a.IsZero() || b.IsZero() || a.Equal(b) {
		if a.IsZero() {
			return b
		}
		return a
	}

	type dot struct {
		by     coord.AID
		at     coord.Instant
		member string
	}
	dotOf := func(w coord.Stamp) dot { return dot{w.By, w.At, w.Member} }
	has := func(s coord.Stamps, w coord.Stamp) bool {
		return slices.ContainsFunc(s.Writes, func(x coord.Stamp) bool { return dotOf(x) == dotOf(w) })
	}

	var kept []coord.Stamp
	for _, pair := range [...][2]coord.Stamps{{a, b}, {b, a}} {
		for _, w := range pair[0].Writes {
			if has(pair[1], w) || !pair[1].Covers(w) {
				kept = append(kept, w)
			}
		}
	}

	// One hub does not write twice at one time. If a restored one did, all hubs keep
	// the same of both.
	kept = greatest(kept, nil, dotOf, func(x, y dot) int {
		return cmp.Or(cmp.Compare(x.by, y.by), x.at.Compare(y.at), cmp.Compare(x.member, y.member))
	}, coord.Stamp.Compare)
	slices.SortFunc(kept, coord.Stamp.Compare)

	out := coord.Stamps{Writes: kept, Seen: maps.Clone(a.Seen)}
	for by, at := range b.Seen {
		out.Seen[by] = later(out.Seen[by], at)
	}
	return out
}

// newlyLost returns the writes that are lost now and were not before.
func newlyLost(was, now coord.Stamps) []coord.Stamp {
	before := was.Lost()
	return slices.DeleteFunc(now.Lost(), func(w coord.Stamp) bool { return slices.Contains(before, w) })
}

// compareHeads orders two copies of a contract by their present state.
func compareHeads(a, b coord.Contract) int {
	order := cmp.Or(cmp.Compare(a.Version, b.Version), a.UpdatedAt.Compare(b.UpdatedAt))
	if order == 0 && !bytes.Equal(a.Content, b.Content) {
		order = strings.Compare(coord.ContentHash(a.Content), coord.ContentHash(b.Content))
	}
	// For the content this is the order of mergeVersions, so that it does not
	// matter which copy lost first.
	return cmp.Or(order,
		cmp.Compare(a.ProposedBy, b.ProposedBy), bytes.Compare(a.Content, b.Content),
		cmp.Compare(slices.Index(coord.ContractStatuses, a.Status), slices.Index(coord.ContractStatuses, b.Status)),
		cmp.Compare(a.Type, b.Type), cmp.Compare(a.Name, b.Name))
}

// earlier returns the earlier of two times. A zero time does not count.
func earlier(a, b coord.Instant) coord.Instant {
	if a.IsZero() || (!b.IsZero() && b.Compare(a) < 0) {
		return b
	}
	return a
}

func later(a, b coord.Instant) coord.Instant {
	if a.Compare(b) < 0 {
		return b
	}
	return a
}

// greatest merges two lists by key: of elements with the same key the greatest
// remains. The result is in the order of keys.
func greatest[T any, K comparable](a, b []T, key func(T) K, compareKeys func(K, K) int, compare func(x, y T) int) []T {
	byKey := make(map[K]T, len(a)+len(b))
	for _, list := range [...][]T{a, b} {
		for _, x := range list {
			k := key(x)
			if y, ok := byKey[k]; !ok || compare(x, y) > 0 {
				byKey[k] = x
			}
		}
	}
	if len(byKey) == 0 {
		return nil
	}
	out := make([]T, 0, len(byKey))
	for _, x := range byKey {
		out = append(out, x)
	}
	slices.SortFunc(out, func(x, y T) int { return compareKeys(key(x), key(y)) })
	return out
}

func mergeImplementations(a, b []coord.Implementation) []coord.Implementation {
	return greatest(a, b, func(i coord.Implementation) coord.RepoID { return i.Repo }, cmp.Compare[coord.RepoID], compareImplementations)
}

// compareImplementations orders two copies of one repository's work: by time, then by
// status, then by version, where the lower one wins, because a hub that does not know
// the version may have guessed too high.
func compareImplementations(a, b coord.Implementation) int {
	if sameImplementation(a, b) {
		return 0
	}
	return cmp.Or(
		a.At().Compare(b.At()),
		cmp.Compare(slices.Index(coord.ImplementationStatuses, a.Status), slices.Index(coord.ImplementationStatuses, b.Status)),
		cmp.Compare(b.Version, a.Version),
		compareEncoded(a, b))
}

// compareEncoded orders two values by their JSON.
func compareEncoded(a, b any) int {
	x, _ := json.Marshal(a) // decoded before: cannot fail
	y, _ := json.Marshal(b)
	return bytes.Compare(x, y)
}

type agreementKey struct {
	version int
	repo    coord.RepoID
	content string
}

// compare orders keys by version, then by repository and content.
func (k agreementKey) compare(o agreementKey) int {
	return cmp.Or(cmp.Compare(k.version, o.version), cmp.Compare(k.repo, o.repo), cmp.Compare(k.content, o.content))
}

func mergeAgreements(a, b []coord.Agreement) []coord.Agreement {
	all := greatest(a, b,
		func(g coord.Agreement) agreementKey { return agreementKey{g.Version, g.Repo, g.Content} },
		agreementKey.compare,
		func(x, y coord.Agreement) int { return cmp.Or(x.At.Compare(y.At), cmp.Compare(x.Agent, y.Agent)) })
	if n := len(all) - federation.MaxAgreements; n > 0 {
		all = all[n:] // to older versions
	}
	return all
}

// A variant is a content that a contract had on some hub.
type variant struct {
	coord.ContractVersion
	hash string
}

type variantKey struct {
	version int
	hash    string
}

func (v variant) key() variantKey { return variantKey{v.Version, v.hash} }

// compare orders keys by version, then by hash.
func (k variantKey) compare(other variantKey) int {
	return cmp.Or(cmp.Compare(k.version, other.version), cmp.Compare(k.hash, other.hash))
}

// mergeVersions merges all contents but that of the winning head, and splits them
// into the history, the content of each version that a later one replaced, and the
// conflicts, contents that lost against another one of the same version.
func mergeVersions(won, lost coord.Contract) (history, conflicts []coord.ContractVersion) {
	all := variantsOf(won, lost)
	if len(all) == 0 {
		return nil, nil
	}
	distinct := greatest(all, nil, variant.key, variantKey.compare, compareVariants)

	// The history has one content of each version, the conflicts have the others.
	head := variantKey{won.Version, coord.ContentHash(won.Content)}
	replaced := replacedVersions(distinct, head)
	var losers []variant
	for _, v := range distinct {
		winner, ok := replaced[v.Version]
		switch {
		case v.key() == head:
		case ok && winner.key() == v.key():
			v.Superseded = false // implied in the history
			history = append(history, v.ContractVersion)
		default:
			losers = append(losers, v)
		}
	}
	history = federation.Fold(history)

	slices.SortFunc(losers, func(x, y variant) int {
		return cmp.Or(cmp.Compare(y.Version, x.Version), y.At.Compare(x.At), cmp.Compare(x.hash, y.hash))
	})
	for _, v := range losers[:min(len(losers), federation.MaxConflicts)] {
		conflicts = append(conflicts, v.ContractVersion)
	}
	return history, conflicts
}

// variantsOf returns the contents of two copies of a contract, but that of the winning
// head. The histories of both begin with the later fold.
func variantsOf(won, lost coord.Contract) (all []variant) {
	add := func(v coord.ContractVersion, superseded bool) {
		v.Superseded = v.Superseded || superseded
		all = append(all, variant{v, coord.ContentHash(v.Content)})
	}

	fold := laterFold(won, lost)
	if fold.Version > 0 {
		add(fold, true)
	}
	for _, c := range [...]coord.Contract{won, lost} {
		for _, v := range c.History {
			if v.Version > fold.Version {
				add(v, true)
			}
		}
		for _, v := range c.Conflicts {
			add(v, false)
		}
	}

	if lost.Version != won.Version || !bytes.Equal(lost.Content, won.Content) {
		add(coord.ContractVersion{Version: lost.Version, Content: lost.Content, ProposedBy: lost.ProposedBy, At: lost.UpdatedAt}, false)
	}
	return all
}

// laterFold returns the fold of two copies of a contract, zero if neither has one. Versions
// that one copy has folded are folded in both: of two folds the later counts, then the one
// with the greater digest.
func laterFold(won, lost coord.Contract) (fold coord.ContractVersion) {
	for _, c := range [...]coord.Contract{won, lost} {
		for _, v := range c.History {
			order := cmp.Or(cmp.Compare(v.Version, fold.Version), bytes.Compare(v.Content, fold.Content))
			if federation.IsFold(v) && order > 0 {
				fold = v
			}
		}
	}
	return fold
}

// compareVariants orders two copies of one content of a version.
func compareVariants(x, y variant) int {
	return cmp.Or(
		compareBools(x.Superseded, y.Superseded),
		x.At.Compare(y.At),
		cmp.Compare(x.ChangeNotes, y.ChangeNotes),
		cmp.Compare(x.ProposedBy, y.ProposedBy),
		bytes.Compare(x.Content, y.Content))
}

// replacedVersions returns the content of each version that a later one replaced: of several
// the newest, then the one with the greater hash.
func replacedVersions(distinct []variant, head variantKey) map[int]variant {
	out := map[int]variant{}
	for _, v := range distinct {
		if !v.Superseded || v.key() == head {
			continue
		}
		other, taken := out[v.Version]
		if !taken || cmp.Or(v.At.Compare(other.At), cmp.Compare(v.hash, other.hash)) > 0 {
			out[v.Version] = v
		}
	}
	return out
}

func compareBools(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// mergeProject merges two copies of a project: each of its own members, and its
// repositories. A member has the value of its newest write. One that was never
// written is the same in all copies, unless one is of a hub that keeps no stamps: then
// the value of the copy with the later time counts, or else the greater one.
func mergeProject(a, b coord.Project) coord.Project {
	out := a
	out.Stamps = mergeStamps(a.Stamps, b.Stamps)
	for _, member := range coord.ProjectMembers {
		value := b.Member(member)
		if cmp.Or(a.UpdatedAt.Compare(b.UpdatedAt), cmp.Compare(a.Member(member), value)) > 0 {
			value = a.Member(member)
		}
		if w, ok := out.Stamps.Newest(member); ok {
			value = w.Value
		}
		out.SetMember(member, value)
	}
	out.UpdatedAt = later(a.UpdatedAt, b.UpdatedAt)
	out.CreatedAt = earlier(a.CreatedAt, b.CreatedAt)
	out.Repos = mergeRepos(a.Repos, b.Repos)
	out.Environments = mergeEnvironments(a.Environments, b.Environments)
	return out
}

func mergeRepos(a, b []coord.Repo) []coord.Repo {
	return greatest(a, b, func(r coord.Repo) coord.RepoID { return r.ID }, cmp.Compare[coord.RepoID], compareRepos)
}

// compareRepos orders two copies of a repository: the later term wins, then a claimed
// one, then the earlier claim, then the last change by the claiming agent.
func compareRepos(a, b coord.Repo) int {
	switch {
	case sameRepo(a, b):
		return 0
	case a.Term != b.Term:
		return cmp.Compare(a.Term, b.Term)
	case (a.Agent == "") != (b.Agent == ""):
		return strings.Compare(string(a.Agent), string(b.Agent))
	case !a.ClaimedAt.IsZero() && !b.ClaimedAt.IsZero() && a.ClaimedAt != b.ClaimedAt:
		return b.ClaimedAt.Compare(a.ClaimedAt)
	case a.ClaimedAt.IsZero() != b.ClaimedAt.IsZero():
		return a.ClaimedAt.Compare(b.ClaimedAt) // a claim with a time wins
	}
	return cmp.Or(cmp.Compare(a.Agent, b.Agent), a.UpdatedAt.Compare(b.UpdatedAt), compareEncoded(a, b))
}

// comparePackets orders two packets with one id, which should be the same.
func comparePackets(a, b coord.Packet) int {
	return cmp.Or(a.At.Compare(b.At), compareEncoded(a, b))
}

// advance returns c with the status that follows from its parts: agreed when all
// repositories that the policy requires have agreed, implemented when all parties
// have completed it. Its time is that of the last part that was needed, so that every
// hub derives the same. The version in force follows from the status.
func advance(c coord.Contract, p coord.Project) coord.Contract {
	isOpen := c.Status == coord.ContractProposed || c.Status == coord.ContractNegotiating
	_, asked := c.NeededConsumers()
	waitsForSome := asked || p.Policy == coord.AgreeAll
	if isOpen && waitsForSome && len(c.Dissenting(p)) == 0 {
		counted := false
		for _, a := range c.Agreements {
			if a.Version == c.Version && a.Repo != c.ProposedBy && a.At.Compare(c.ReopenedAt) > 0 {
				c.UpdatedAt, counted = later(c.UpdatedAt, a.At), true
			}
		}
		if counted { // without the agreement of another repository the status does not change
			c.Status = coord.ContractAgreed
		}
	}
	if next, ok := c.Status.After(coord.MoveAllComplete); ok && len(c.Parties(p)) > 0 && len(c.Pending(p)) == 0 {
		c.Status = next
		for _, i := range c.Implementations {
			c.UpdatedAt = later(c.UpdatedAt, i.CompletedAt)
		}
	}
	return enforce(withoutOwnUse(handOver(c)))
}
