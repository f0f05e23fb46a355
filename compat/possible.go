package compat

import "slices"

// A proof of containment says nothing against a part that no value can satisfy: all of its
// documents, which are none, are taken. Such a part is almost always a mistake, so a new
// version with one is unknown, unless the old version had it, too.

// maxImpossible is the number of schemas inside one another that are looked at.
const maxImpossible = 3

// impossible reports whether no value can satisfy a conjunction, as far as its own keywords and
// those of the properties that it requires show it.
func impossible(c conjunction, depth int) bool {
	if len(c) == 0 {
		return false
	}
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
		if depth > 0 && !slices.ContainsFunc(u.branches, func(b schema) bool { return !impossible(conjunction{b}, depth-1) }) {
			return true
		}
	}

	// Each type that is left must be impossible by its own keywords.
	left := n.types
	if crosses(n.minLength, n.maxLength) {
		left &^= isString
	}
	if crosses(n.minItems, n.maxItems) {
		left &^= isArray
	}
	if n.min != nil && n.max != nil {
		isPoint := n.min.value.Cmp(n.max.value) == 0
		if isTighter(n.min, n.max, 1) || (isPoint && n.max.exclusive) {
			left &^= number
		}
	}
	if crosses(n.minProps, n.maxProps) || (depth > 0 && requiresImpossible(n, depth-1)) {
		left &^= isObject
	}
	return left == 0
}

// crosses reports whether a lower limit is above an upper one.
func crosses(low, high *limit) bool { return low != nil && high != nil && low.n > high.n }

// requiresImpossible reports whether a property that is required cannot be there.
func requiresImpossible(n *normal, depth int) bool {
	for name := range n.required {
		if property := n.property(name); isFalse(property) || impossible(property, depth) {
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
	if impossible(c, maxImpossible) {
		return c
	}
	for _, u := range normalise(c).unions {
		for _, b := range u.branches {
			if one := (conjunction{b}); !isFalse(one) && impossible(one, maxImpossible) {
				return one
			}
		}
	}
	return nil
}
