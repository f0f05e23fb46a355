package contract

import (
	"cmp"
	"slices"
	"strings"

	"github.com/parley-agents/parley/hub/coord"
	"github.com/parley-agents/parley/internal/ground/federation"
)

// mergeTerms merges the terms of two copies of a contract part by part, as merge.go describes:
// of two writes of one part the later one counts.
func mergeTerms(a, b coord.Terms) coord.Terms {
	if a.IsZero() || b.IsZero() {
		if a.IsZero() {
			return b
		}
		return a
	}

	out := a
	if compareTerms(a, b) < 0 {
		out.Format = b.Format
		out.Direction = b.Direction
		out.Provider = b.Provider
		out.WrittenAt = b.WrittenAt
	}
	out.Uses = mergeUses(a.Uses, b.Uses)
	out.Asks = mergeAsks(a.Asks, b.Asks)
	out.Ends = mergeEnds(a.Ends, b.Ends)
	out.Tests = mergeTests(a.Tests, b.Tests)
	out.Words = mergeWords(a.Words, b.Words)
	out.Handover = a.Handover
	if compareHandovers(a.Handover, b.Handover) < 0 {
		out.Handover = b.Handover
	}
	out.InForce = a.InForce
	if compareForce(a.InForce, b.InForce) < 0 {
		out.InForce = b.InForce
	}
	return out
}

// compareTerms orders two writes of format, direction and provider.
func compareTerms(a, b coord.Terms) int {
	return cmp.Or(a.WrittenAt.Compare(b.WrittenAt), cmp.Compare(a.Provider, b.Provider), cmp.Compare(a.Format, b.Format), cmp.Compare(a.Direction, b.Direction))
}

func mergeUses(a, b []coord.Use) []coord.Use {
	return greatest(a, b, func(u coord.Use) coord.RepoID { return u.Repo }, cmp.Compare[coord.RepoID],
		func(x, y coord.Use) int { return cmp.Or(x.At.Compare(y.At), compareEncoded(x, y)) })
}

func mergeAsks(a, b []coord.Ask) []coord.Ask {
	all := greatest(a, b,
		func(k coord.Ask) agreementKey { return agreementKey{k.Version, k.Repo, k.Content} },
		agreementKey.compare,
		func(x, y coord.Ask) int { return cmp.Or(x.At.Compare(y.At), compareBools(x.Needed, y.Needed)) })
	if n := len(all) - federation.MaxAgreements; n > 0 {
		all = all[n:] // about older versions
	}
	return all
}

func mergeEnds(a, b []coord.Ending) []coord.Ending {
	return greatest(a, b, func(e coord.Ending) string { return e.Part }, strings.Compare,
		func(x, y coord.Ending) int { return cmp.Or(x.At.Compare(y.At), compareEncoded(x, y)) })
}

// testKey names a check of a repository.
type testKey struct {
	repo  coord.RepoID
	check string
}

func mergeTests(a, b []coord.ContractTest) []coord.ContractTest {
	return greatest(a, b, func(t coord.ContractTest) testKey { return testKey{t.Repo, t.Check} },
		func(x, y testKey) int { return cmp.Or(cmp.Compare(x.repo, y.repo), strings.Compare(x.check, y.check)) },
		func(x, y coord.ContractTest) int {
			return cmp.Or(x.At.Compare(y.At), compareBools(x.Removed, y.Removed))
		})
}

func mergeEnvironments(a, b []coord.Environment) []coord.Environment {
	return greatest(a, b, func(e coord.Environment) string { return e.Name }, strings.Compare,
		func(x, y coord.Environment) int {
			return cmp.Or(x.At.Compare(y.At), compareBools(x.Removed, y.Removed))
		})
}

func mergeWords(a, b []coord.Word) []coord.Word {
	return greatest(a, b, func(w coord.Word) coord.RepoID { return w.Repo }, cmp.Compare[coord.RepoID],
		func(x, y coord.Word) int { return cmp.Or(x.At.Compare(y.At), compareEncoded(x, y)) })
}

// compareHandovers orders two wishes for another provider: the later one counts.
func compareHandovers(a, b *coord.Handover) int {
	if a == nil || b == nil {
		return compareBools(a != nil, b != nil)
	}
	return cmp.Or(a.At.Compare(b.At), compareEncoded(a, b))
}

// handOver returns c with the provider and the direction of its handover, if every word that this
// needs is there. Their time is that of the last word, so that every hub derives the same.
func handOver(c coord.Contract) coord.Contract {
	h := c.Terms.Handover
	if h == nil || c.Terms.WrittenAt.Compare(h.At) >= 0 || len(c.MissingWords()) > 0 {
		return c
	}
	at := h.At
	for _, w := range c.Terms.Words {
		if w.To(*h) {
			at = later(at, w.At)
		}
	}
	c.Terms.Provider = h.Provider
	c.Terms.Direction = cmp.Or(h.Direction, c.Terms.Direction)
	c.Terms.WrittenAt = at
	return c
}

// withoutOwnUse returns c without a use of its provider, who was a consumer until a handover. Its
// time is that of the handover or of a later declaration, so that every hub derives the same.
func withoutOwnUse(c coord.Contract) coord.Contract {
	u, uses := c.Terms.Use(c.Terms.Provider)
	if !uses {
		return c
	}
	u.Removed = true
	u.At = later(u.At, c.Terms.WrittenAt)
	c.Terms = withUse(c.Terms, u)
	return c
}

// compareForce orders two versions in force: the later version counts, then the one that was
// agreed later.
func compareForce(a, b *coord.InForce) int {
	if a == nil || b == nil {
		return compareBools(a != nil, b != nil)
	}
	return cmp.Or(cmp.Compare(a.Version, b.Version), a.Since.Compare(b.Since), cmp.Compare(a.Content, b.Content), cmp.Compare(a.Before, b.Before))
}

// sameTerms reports whether the terms of two copies are equal.
func sameTerms(a, b coord.Terms) bool {
	return a.IsZero() == b.IsZero() && (a.IsZero() || compareEncoded(a, b) == 0)
}

// enforce returns c with its version in force, if c has a provider and was agreed.
func enforce(c coord.Contract) coord.Contract {
	if c.Terms.Provider == "" || !c.Status.Reaches(coord.ContractAgreed) {
		return c
	}
	was := c.Terms.InForce
	if was != nil && was.Version > c.Version {
		return c
	}
	now := coord.InForce{Version: c.Version, Content: coord.ContentHash(c.Content), Since: c.UpdatedAt}
	if was != nil {
		if was.Version == now.Version && was.Content == now.Content {
			return c
		}
		now.Before = was.Version
		if was.Version == now.Version {
			now.Before = was.Before
		}
	}
	c.Terms.InForce = &now
	return c
}

// withUse returns terms with the use of one repository replaced.
func withUse(t coord.Terms, u coord.Use) coord.Terms {
	t.Uses = slices.DeleteFunc(slices.Clone(t.Uses), func(x coord.Use) bool { return x.Repo == u.Repo })
	t.Uses = mergeUses(t.Uses, []coord.Use{u})
	return t
}

// withAsks returns a contract whose present content waits for the agreement of repositories.
// An ask of the same content at an earlier time is replaced.
func withAsks(c coord.Contract, at coord.Instant, needed bool, repos ...coord.RepoID) coord.Contract {
	hash := coord.ContentHash(c.Content)
	for _, id := range repos {
		c.Terms.Asks = mergeAsks(c.Terms.Asks, []coord.Ask{{Version: c.Version, Repo: id, Content: hash, Needed: needed, At: at}})
	}
	return c
}
