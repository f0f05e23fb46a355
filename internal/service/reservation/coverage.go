package reservation

import (
	"cmp"
	"context"
	"slices"
	"sync"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/ground/effects"
)

const (
	maxSteps     = 50_000_000 // of comparing patterns with files for one question, before its transaction
	maxLateSteps = 1_000_000  // of comparing what was stored meanwhile, inside the transaction
)

// matchers has the patterns that were compiled before.
type matchers struct {
	mu    sync.Mutex // guards known
	known map[string]effects.Matcher
}

// maxMatchers is the number of compiled patterns that are kept.
const maxMatchers = 1024

// of returns the matcher of a pattern.
func (m *matchers) of(pattern string) effects.Matcher {
	m.mu.Lock()
	defer m.mu.Unlock()
	if found, ok := m.known[pattern]; ok {
		return found
	}
	if len(m.known) >= maxMatchers || m.known == nil {
		m.known = map[string]effects.Matcher{}
	}
	m.known[pattern] = effects.Compile(effects.Pathspec(pattern))
	return m.known[pattern]
}

// A coverage tells which patterns cover which files of a working tree. Agents write patterns, and
// comparing them can take long. So prepare compares them before a transaction; inside of it only
// those are compared that were stored meanwhile, with few steps.
type coverage struct {
	matchers *matchers
	prepared map[string]effects.Matcher // by their patterns
	files    map[string]map[string]bool // the prepared patterns that cover a file, by the name of each file that was compared
	steps    int                        // made so far
	most     int                        // that may be made
	isOut    bool                       // more would have been needed: a pattern that is not compared counts as one that covers
}

// coverage returns a coverage that compares when it is asked.
func (s *Service) coverage() *coverage { return &coverage{matchers: &s.matchers, most: maxSteps} }

// prepare compares the patterns of reservations with files. Short names come first, so that a few
// long ones do not keep the others from being compared.
func (s *Service) prepare(ctx context.Context, all []hub.Reservation, names []string) (*coverage, error) {
	c := s.coverage()
	c.prepared = map[string]effects.Matcher{}
	c.files = map[string]map[string]bool{}
	for _, r := range all {
		if _, isKnown := c.prepared[r.Path]; r.Pattern && !isKnown {
			c.prepared[r.Path] = s.matchers.of(r.Path)
		}
	}

	names = slices.Clone(names)
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) })
	for _, name := range slices.Compact(names) {
		covering := map[string]bool{}
		for pattern, m := range c.prepared {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			if c.steps > c.most {
				return c, nil
			}
			if m.Count("/"+name, &c.steps) {
				covering[pattern] = true
			}
		}
		c.files[name] = covering
	}
	return c, nil
}

// begin begins a transaction.
func (c *coverage) begin() {
	c.steps = 0
	c.most = maxLateSteps
	c.isOut = false
}

// covers reports whether a reservation covers a file of its working tree.
func (c *coverage) covers(r hub.Reservation, name string) bool {
	if !r.Pattern {
		return r.Path == name
	}
	_, isPrepared := c.prepared[r.Path]
	covering, isCompared := c.files[name]
	if isPrepared && isCompared {
		return covering[r.Path]
	}
	return c.compareLate(r.Path, name)
}

// compareLate compares a pattern with a file for which that was not done before, while there are
// steps left.
func (c *coverage) compareLate(pattern, name string) bool {
	if c.steps > c.most {
		c.isOut = true
		return true
	}
	return c.matchers.of(pattern).Count("/"+name, &c.steps)
}

// check reports CodeTooLarge if more steps were needed than are made.
func (c *coverage) check(op string) error {
	if !c.isOut {
		return nil
	}
	return hub.Errorf(hub.CodeTooLarge, op, "comparing these paths with the reserved patterns takes more than %d steps", maxSteps).
		WithHint("ask about fewer or shorter paths at once")
}

// A meeting has the reservations that may have files in common with new patterns.
type meeting struct {
	compared map[string]bool            // paths and patterns of the reservations
	met      map[string]map[string]bool // those that a new pattern meets
}

// meet compares new patterns with reservations. What the steps do not suffice for may meet.
func (s *Service) meet(ctx context.Context, all []hub.Reservation, patterns []string) (meeting, error) {
	m := meeting{compared: map[string]bool{}, met: map[string]map[string]bool{}}
	c := s.coverage()
	for _, p := range patterns {
		m.met[p] = map[string]bool{}
		for _, r := range all {
			if err := ctx.Err(); err != nil {
				return m, err
			}
			m.compared[r.Path] = true
			if c.mayMeet(r, p) {
				m.met[p][r.Path] = true
			}
		}
	}
	return m, nil
}

// mayMeet reports whether a reservation and a new pattern may have files in common.
func (c *coverage) mayMeet(r hub.Reservation, pattern string) bool {
	return c.covers(r, pattern) || c.covers(hub.Reservation{Pattern: true, Path: pattern}, r.Path)
}
