package compat

import (
	"maps"
	"math/big"
	"slices"
)

// A proof of containment says nothing against a part that no value can satisfy: all of its
// documents, which are none, are taken. Such a part is almost always a mistake, so a new
// version with one is unknown, unless the old version had it, too.

// Bounds of one question whether a schema is possible: schemas inside one another, and schemas in
// all. Beyond them a schema counts as possible.
const (
	maxImpossible      = 8
	maxImpossibleSteps = 200
)

// impossible reports whether no value can satisfy a conjunction, as far as its own keywords and
// those of the parts that it demands show it.
func impossible(c conjunction) bool {
	if len(c) == 0 {
		return false
	}
	l := c[0].side.lane
	if l == nil {
		return (&search{inside: map[string]bool{}}).impossible(c)
	}
	key := c.key()
	known, ok := l.impossible[key]
	if !ok {
		known = (&search{inside: map[string]bool{}}).impossible(c)
		l.impossible[key] = known
	}
	return known
}

// A search looks for a finite value of a conjunction. The invariant: a value of least height has
// no value of the same conjunction inside, so a conjunction that is met inside itself has none
// there. The cost is at most maxImpossibleSteps conjunctions.
type search struct {
	inside map[string]bool // keys of the conjunctions around
	steps  int
}

// impossible reports whether no value can satisfy a conjunction inside those of the search.
func (s *search) impossible(c conjunction) bool {
	if len(c) == 0 {
		return false
	}
	key := c.key()
	if s.inside[key] {
		return true
	}
	if s.steps++; s.steps > maxImpossibleSteps || len(s.inside) >= maxImpossible {
		return false
	}
	c[0].side.meter.spend(1)
	s.inside[key] = true
	defer delete(s.inside, key)

	n := normalise(c)
	switch {
	case n.tooMany:
		return false
	case n.never:
		return true
	case n.values != nil:
		return !slices.ContainsFunc(n.values, func(value any) bool { return takes(c, value) })
	}
	for _, u := range n.unions {
		if !slices.ContainsFunc(u.branches, func(b schema) bool { return !s.impossible(conjunction{b}) }) {
			return true
		}
	}

	// Each type that is left must be impossible by its own keywords.
	left := n.types
	for _, excluded := range n.nots {
		left &^= typesAlone(excluded)
	}
	if crosses(n.minLength, n.maxLength) {
		left &^= isString
	}
	if left&isArray != 0 && s.noArray(n) {
		left &^= isArray
	}
	if left&number != 0 && noNumber(n, left) {
		left &^= number
	}
	if left&isObject != 0 && s.noObject(n) {
		left &^= isObject
	}
	return left == 0
}

// crosses reports whether a lower limit is above an upper one.
func crosses(low, high *limit) bool { return low != nil && high != nil && low.n > high.n }

// typesAlone returns the types that a schema takes if it says nothing but its type, else none.
func typesAlone(s schema) typeSet {
	m, ok := s.raw.(map[string]any)
	if !ok || m["type"] == nil {
		return 0
	}
	for name := range m {
		if name != "type" && !slices.Contains(annotations, name) {
			return 0
		}
	}
	return typesOf(m)
}

// noArray reports whether no array satisfies n: its counts exclude each other, an item that must
// be there cannot be, or there are not enough different items.
func (s *search) noArray(n *normal) bool {
	if crosses(n.minItems, n.maxItems) {
		return true
	}
	if n.minItems == nil {
		return false
	}
	most := min(n.minItems.n, n.prefixes())
	for i := range most {
		if item := n.item(i); isFalse(item) || s.impossible(item) {
			return true
		}
	}
	if n.minItems.n == most {
		return false
	}
	rest := n.item(-1)
	if isFalse(rest) || s.impossible(rest) {
		return true
	}
	different, isKnown := differentItems(rest)
	return n.unique != "" && isKnown && n.minItems.n-most > different
}

// differentItems returns the largest number of different values of a conjunction, if it is known.
func differentItems(c conjunction) (int, bool) {
	if len(c) == 0 {
		return 0, false
	}
	n := normalise(c)
	switch {
	case n.values != nil:
		return len(n.values), true
	case n.types&^(isNull|isBoolean) != 0:
		return 0, false
	}
	count := 0
	if n.types&isNull != 0 {
		count++
	}
	if n.types&isBoolean != 0 {
		count += 2
	}
	return count, true
}

// noNumber reports whether no number of some types is between the bounds of n and a multiple of
// each that n names.
func noNumber(n *normal, types typeSet) bool {
	if n.min == nil || n.max == nil {
		return false
	}
	isPoint := n.min.value.Cmp(n.max.value) == 0
	if isTighter(n.min, n.max, 1) || (isPoint && n.max.exclusive) {
		return true
	}
	step := new(big.Rat)
	if types&number == isInteger {
		step.SetInt64(1)
	}
	for _, m := range n.multiples {
		if m.value.Sign() > 0 {
			step = commonMultiple(step, m.value)
		}
	}
	if step.Sign() == 0 {
		return false
	}

	// The least multiple that is not below the minimum is above the maximum.
	least := new(big.Rat).Quo(n.min.value, step)
	times := floor(least)
	isBelow := new(big.Rat).SetInt(times).Cmp(least) < 0
	if isBelow || n.min.exclusive {
		times.Add(times, big.NewInt(1))
	}
	least.Mul(new(big.Rat).SetInt(times), step)
	order := least.Cmp(n.max.value)
	return order > 0 || (order == 0 && n.max.exclusive)
}

// commonMultiple returns the least number that is a multiple of both; of 0 and b it is b.
func commonMultiple(a, b *big.Rat) *big.Rat {
	if a.Sign() == 0 {
		return b
	}
	lcm := new(big.Int).Mul(a.Num(), b.Num())
	lcm.Quo(lcm, new(big.Int).GCD(nil, nil, a.Num(), b.Num()))
	return new(big.Rat).SetFrac(lcm, new(big.Int).GCD(nil, nil, a.Denom(), b.Denom()))
}

// noObject reports whether no object satisfies n: its counts exclude each other, it has not enough
// names, or a property that is required cannot be there.
func (s *search) noObject(n *normal) bool {
	if crosses(n.minProps, n.maxProps) {
		return true
	}
	known, isClosed := closedNames(n)
	hasTooFew := isClosed && n.minProps != nil && n.minProps.n > len(known)
	requiresTooMany := n.maxProps != nil && len(n.required) > n.maxProps.n
	if hasTooFew || requiresTooMany {
		return true
	}
	for _, name := range slices.Sorted(maps.Keys(n.required)) {
		if property := n.property(name); isFalse(property) || s.impossible(property) {
			return true
		}
	}
	return false
}

// checkPossible records that a part of the new version became impossible. A part that is
// written as false says so on purpose. Alternatives that a proof looks at one by one are no
// parts of a document.
func (c *comparer) checkPossible(sub, sup conjunction, at position) {
	was, is := sub, sup
	if c.direction == Response {
		was, is = sup, sub
	}
	isPart := !c.isProbe && at.splits == 0 && !isFalse(is)
	if !isPart {
		return
	}
	culprit := impossiblePart(is)
	if culprit == nil || impossiblePart(was) != nil {
		return
	}
	c.add(gap{
		kind: kindImpossible, verdict: Unknown, at: at, sub: sub, sup: sup, pointer: placeOf(culprit),
		text: "no value can satisfy this part of the new version",
	})
}

// impossiblePart returns the conjunction or the alternative of it that no value can satisfy,
// nil if there is none.
func impossiblePart(c conjunction) conjunction {
	if len(c) == 0 {
		return nil
	}
	if impossible(c) {
		return c
	}
	for _, u := range normalise(c).unions {
		for _, b := range u.branches {
			if one := (conjunction{b}); !isFalse(one) && impossible(one) {
				return one
			}
		}
	}
	return nil
}
