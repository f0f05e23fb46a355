package coord

import (
	"slices"
	"time"
)

// Terms are the members of a contract that document 001 of the protocol does not have: its
// direction, its consumers and what they still have to agree to. Other implementations drop
// them. Each part merges by itself: of two writes of one part the later one counts.
type Terms struct {
	// Format is the format that a proposer chose, Direction the way in which documents flow:
	// the words of package compat, "" to find them out. Provider offers the interface; without
	// one every party is provider and consumer. The three are written together.
	Format    string  `json:"format,omitempty"`
	Direction string  `json:"direction,omitempty"`
	Provider  RepoID  `json:"provider,omitempty"`
	WrittenAt Instant `json:"written_at,omitzero"`

	Uses []Use    `json:"uses,omitempty"` // by repository
	Asks []Ask    `json:"asks,omitempty"` // by version, repository and content
	Ends []Ending `json:"ends,omitempty"` // by part

	Tests []ContractTest `json:"tests,omitempty"` // by repository and check

	// Handover is the wish to change the provider or the direction, and Words are the consents of
	// repositories to it. When all that are needed are there, the wish becomes Provider and Direction.
	Handover *Handover `json:"handover,omitempty"`
	Words    []Word    `json:"words,omitempty"` // by repository

	// InForce is the version that the provider and its consumers rely on. It is set when a
	// version of a contract with a provider is agreed, and stays until the next one is.
	InForce *InForce `json:"in_force,omitempty"`
}

// IsZero reports whether t says nothing.
func (t Terms) IsZero() bool {
	return t.Format == "" && t.Direction == "" && t.Provider == "" && t.WrittenAt.IsZero() && len(t.Uses) == 0 && len(t.Asks) == 0 && len(t.Ends) == 0 &&
		len(t.Tests) == 0 && t.Handover == nil && len(t.Words) == 0 && t.InForce == nil
}

// A ContractTest says that a check of a repository is its test of a contract. Several checks of one
// repository are its test together.
type ContractTest struct {
	Repo    RepoID  `json:"repo_id"`
	Check   string  `json:"check"`
	At      Instant `json:"at"`
	Removed bool    `json:"removed,omitempty"`
}

// A Handover is the wish that a repository provides a contract from now on, in a direction.
type Handover struct {
	Provider  RepoID  `json:"provider"`
	Direction string  `json:"direction,omitempty"` // "" leaves it as it is
	By        RepoID  `json:"by"`                  // the repository that asked
	At        Instant `json:"at"`
}

// A Word is the consent of a repository to a handover.
type Word struct {
	Repo      RepoID  `json:"repo_id"`
	Agent     AID     `json:"agent_id"` // this hub for a repository for which the operator answered
	Provider  RepoID  `json:"provider"`
	Direction string  `json:"direction,omitempty"`
	At        Instant `json:"at"`
}

// To reports whether a word consents to a handover.
func (w Word) To(h Handover) bool {
	return w.Provider == h.Provider && w.Direction == h.Direction && w.At.Compare(h.At) >= 0
}

// HandoverParties returns the repositories whose words a handover of c needs: the new provider, the
// present one and each consumer. In place of a provider, a contract without one needs the
// repositories that proposed it, agreed to it or work on it.
func (c Contract) HandoverParties() (parties []RepoID) {
	if c.Terms.Handover == nil {
		return nil
	}
	add := func(id RepoID) {
		if id != "" && !slices.Contains(parties, id) {
			parties = append(parties, id)
		}
	}
	add(c.Terms.Handover.Provider)
	add(c.Terms.Provider)
	for _, u := range c.Terms.Consumers() {
		add(u.Repo)
	}
	if c.Terms.Provider == "" {
		add(c.ProposedBy)
		for _, a := range c.Agreements {
			add(a.Repo)
		}
		for _, i := range c.Implementations {
			add(i.Repo)
		}
	}
	slices.Sort(parties)
	return parties
}

// MissingWords returns the repositories whose words the handover of c still needs.
func (c Contract) MissingWords() []RepoID {
	return slices.DeleteFunc(c.HandoverParties(), func(id RepoID) bool {
		return slices.ContainsFunc(c.Terms.Words, func(w Word) bool { return w.Repo == id && w.To(*c.Terms.Handover) })
	})
}

// A Use says that a repository is a consumer of a contract.
type Use struct {
	Repo     RepoID   `json:"repo_id"`
	Parts    []string `json:"parts,omitempty"` // JSON pointers, operations, fields; none: everything
	Source   string   `json:"source,omitempty"`
	Declared Instant  `json:"declared_at"` // the first time, or again after it was removed
	At       Instant  `json:"at"`          // of the last change
	Removed  bool     `json:"removed,omitempty"`
}

// An Ask says whether the agreement of a repository to one content of a contract is needed.
type Ask struct {
	Version int     `json:"version"`
	Repo    RepoID  `json:"repo_id"`
	Content string  `json:"content_sha256"`
	Needed  bool    `json:"needed"`
	At      Instant `json:"at"`
}

// An Ending says that a part of a contract, or the whole contract, will end or has ended.
type Ending struct {
	Part      string  `json:"part,omitempty"`  // "" for the whole contract
	Until     string  `json:"until,omitempty"` // the last day, such as 2026-12-31, in UTC
	Withdrawn bool    `json:"withdrawn,omitempty"`
	At        Instant `json:"at"`
}

// InForce is the version of a contract that holds while a later one is negotiated.
type InForce struct {
	Version int     `json:"version"`
	Content string  `json:"content_sha256"` // see ContentHash
	Since   Instant `json:"since"`
	Before  int     `json:"before,omitempty"` // the version that was in force before it; 0 for the first
}

// Use returns the use of a repository that was not removed.
func (t Terms) Use(repo RepoID) (Use, bool) {
	i := slices.IndexFunc(t.Uses, func(u Use) bool { return u.Repo == repo && !u.Removed })
	if i < 0 {
		return Use{}, false
	}
	return t.Uses[i], true
}

// Consumers returns the uses that were not removed.
func (t Terms) Consumers() (all []Use) {
	for _, u := range t.Uses {
		if !u.Removed {
			all = append(all, u)
		}
	}
	return all
}

// Withdrawn reports whether the whole contract was withdrawn.
func (t Terms) Withdrawn() bool {
	return slices.ContainsFunc(t.Ends, func(e Ending) bool { return e.Part == "" && e.Withdrawn })
}

// NeededConsumers returns the repositories whose agreement to the present content of c is needed, and
// whether any repository was ever asked about it. A repository that is neither the provider
// nor a consumer any more is not needed.
func (c Contract) NeededConsumers() (needed []RepoID, asked bool) {
	hash := ""
	for _, a := range c.Terms.Asks {
		if a.Version != c.Version {
			continue
		}
		if hash == "" {
			hash = ContentHash(c.Content)
		}
		if a.Content != hash {
			continue
		}
		asked = true
		_, uses := c.Terms.Use(a.Repo)
		if a.Needed && (uses || a.Repo == c.Terms.Provider) {
			needed = append(needed, a.Repo)
		}
	}
	return needed, asked
}

// A BreakingPolicy says what a project does about updates of contracts that are not
// compatible: forbid, ask, or sunset and a day, such as "sunset 2026-12-31". "" is ask.
type BreakingPolicy string

// The policies. Sunset is followed by a blank and a day.
const (
	BreakingForbid BreakingPolicy = "forbid" // refused
	BreakingAsk    BreakingPolicy = "ask"    // each affected consumer must agree
	BreakingSunset BreakingPolicy = "sunset" // as ask until the end of a day, then allowed
)

// BreakingPolicies lists the policies.
var BreakingPolicies = []BreakingPolicy{BreakingForbid, BreakingAsk, BreakingSunset}

// Split returns the word of a policy and the day of a sunset.
func (p BreakingPolicy) Split() (word BreakingPolicy, day string) {
	if p == "" {
		return BreakingAsk, ""
	}
	sunset := string(BreakingSunset) + " "
	if len(p) > len(sunset) && string(p[:len(sunset)]) == sunset {
		return BreakingSunset, string(p[len(sunset):])
	}
	return p, ""
}

// Known reports whether p is forbid, ask, or sunset with a day.
func (p BreakingPolicy) Known() bool {
	word, day := p.Split()
	if word == BreakingSunset {
		_, ok := EndOfDay(day)
		return ok
	}
	return day == "" && (word == BreakingForbid || word == BreakingAsk)
}

// EndOfDay returns the first moment after a day such as 2026-12-31 in UTC, and whether the
// text is a day.
func EndOfDay(day string) (time.Time, bool) {
	t, err := time.Parse(time.DateOnly, day)
	return t.AddDate(0, 0, 1), err == nil
}
