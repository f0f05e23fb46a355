package compat

import (
	"fmt"
	"slices"
	"strings"
)

// compareLogic compares anyOf, oneOf, not, conditions and unevaluated properties.
func (c *comparer) compareLogic(sub, sup conjunction, ns, np *normal, at position, gapOf gapMaker) {
	at = at.apart(np)
	for _, u := range np.unions {
		kind, by, isRemoved := u.removedKind(sub, ns, at.used)
		if isRemoved || !c.impliesUnion(sub, ns, u, at) {
			g := gapOf(kindUnion, u.at, "the alternatives do not contain all earlier ones")
			if c.direction == Response {
				g.text = "the alternatives allow more than the earlier ones"
			}
			if isRemoved { // a document of that kind shows it
				g.isFinal = true
				g.sub = sub.with(kind)
				listed, _ := listedAt(normalise(g.sub), by.path)
				g.text += fmt.Sprintf("; one of them is %s %s", strings.Join(by.path, "."), shortText(string(rawOf(listed[0]))))
			}
			g.verdict = Unknown
			c.add(g)
		}
	}
	for _, s := range np.nots {
		if !c.impliesNot(ns, s, at) {
			g := gapOf(kindNot, s.pointer, "values that match a schema are excluded")
			g.verdict = Unknown
			c.add(g)
		}
	}
	for _, want := range np.conditions {
		if !c.impliesCondition(sub, ns, want, at) {
			g := gapOf(kindCondition, want.at, "a condition demands more")
			g.verdict = Unknown
			c.add(g)
		}
	}
	for _, s := range np.unevaluated {
		isSame := slices.ContainsFunc(ns.parts, func(have schema) bool { return sameSchema(have, s) })
		if !isSame {
			g := gapOf(kindUnevaluated, s.pointer, "properties or items that no other keyword describes are limited")
			g.verdict = Unknown
			c.add(g)
		}
	}
}

// impliesUnion reports whether each value of sub is one of a branch of u, and of exactly one
// branch if u is oneOf.
func (c *comparer) impliesUnion(sub conjunction, ns *normal, u union, at position) bool {
	for _, have := range ns.unions {
		if (have.one || !u.one) && sameBranches(have.branches, u.branches) {
			return true
		}
	}
	if u.one && u.choiceOf() == nil && !exclusive(u.branches) {
		return c.equivalentBranches(ns, u, at)
	}
	if at.splits >= maxSplits {
		return false
	}

	// One branch takes all of sub, or each alternative of sub is taken by one.
	next := at
	next.splits++
	inOne := func(c *comparer, part conjunction, own *schema) bool {
		return slices.ContainsFunc(u.candidates(part), func(branch schema) bool {
			return c.probe(func(p *comparer) {
				here := next
				if own != nil {
					here.unwatch = true
					p.compareWatched(conjunction{*own}, conjunction{branch}, normalise(conjunction{*own}), normalise(conjunction{branch}), at)
				}
				p.contain(part, conjunction{branch}, here)
			})
		})
	}
	if inOne(c, sub, nil) {
		return true
	}
	for _, have := range ns.unions {
		if slices.Contains(at.used, have.at) {
			continue
		}
		next.used = append(slices.Clip(at.used), have.at)
		each := !slices.ContainsFunc(have.branches, func(branch schema) bool { return !inOne(c, sub.with(branch), &branch) })
		if each {
			return true
		}
	}
	next.used = at.used
	return c.impliesByType(sub, ns, inOne)
}

// impliesByType looks at the types of sub one by one.
func (c *comparer) impliesByType(sub conjunction, ns *normal, inOne func(*comparer, conjunction, *schema) bool) bool {
	var types []string
	for _, name := range typeWords {
		bits := typeBits[name]
		isPart := ns.types&bits == bits && !(name == "integer" && ns.types&number == number)
		if isPart {
			types = append(types, name)
		}
	}
	if len(types) < 2 || len(sub) == 0 {
		return false
	}
	return !slices.ContainsFunc(types, func(name string) bool {
		part := sub.with(sub[0].side.onlyType(typeBits[name], name))
		return !inOne(c, part, nil)
	})
}

// sameBranches reports whether two lists of alternatives are written in the same way, in any
// order.
func sameBranches(a, b []schema) bool {
	if len(a) != len(b) {
		return false
	}
	texts := func(list []schema) []string {
		out := make([]string, len(list))
		for i, s := range list {
			out[i] = s.closure()
		}
		slices.Sort(out)
		return out
	}
	return a[0].side.src.draft7 == b[0].side.src.draft7 && slices.Equal(texts(a), texts(b))
}

// equivalentBranches reports whether sub has oneOf with branches that take the same values as
// those of u, in the same order.
func (c *comparer) equivalentBranches(ns *normal, u union, at position) bool {
	here := at
	here.strict = true
	here.unwatch = true
	return slices.ContainsFunc(ns.unions, func(have union) bool {
		if !have.one || len(have.branches) != len(u.branches) {
			return false
		}
		return c.probe(func(p *comparer) {
			for i := range have.branches {
				p.contain(conjunction{have.branches[i]}, conjunction{u.branches[i]}, here)
				p.contain(conjunction{u.branches[i]}, conjunction{have.branches[i]}, here)
				p.compareWatched(conjunction{have.branches[i]}, conjunction{u.branches[i]},
					normalise(conjunction{have.branches[i]}), normalise(conjunction{u.branches[i]}), at)
			}
		})
	})
}

// exclusive reports whether no value is taken by two of the schemas, as far as types, values
// and required properties with one value show it.
func exclusive(list []schema) bool {
	if len(list) > 0 {
		list[0].side.meter.spend(len(list) * len(list))
	}
	var normals []*normal
	for _, s := range list {
		normals = append(normals, normalise(conjunction{s}))
	}
	for i := range normals {
		for j := range i {
			if !disjoint(normals[i], normals[j]) {
				return false
			}
		}
	}
	return true
}

// disjoint reports whether no value is taken by both. It looks at types and listed values, of
// the values themselves and of the properties that both require.
func disjoint(a, b *normal) bool {
	if excludes(a, b) {
		return true
	}
	if a.types&b.types != isObject {
		return false
	}
	for name := range a.required {
		_, ok := b.required[name]
		if !ok {
			continue
		}
		if excludes(normalise(a.property(name)), normalise(b.property(name))) {
			return true
		}
	}
	return false
}

// excludes reports whether types or listed values show that no value is taken by both.
func excludes(a, b *normal) bool {
	if a.never || b.never {
		return true
	}
	return a.types&b.types == 0 || differentValues(a, b)
}

// differentValues reports whether both take listed values alone, and none in common.
func differentValues(a, b *normal) bool {
	if a.values == nil || b.values == nil {
		return false
	}
	if len(a.parts) > 0 {
		a.parts[0].side.meter.spend(len(a.values) * len(b.values) / 8)
	}
	return !slices.ContainsFunc(a.values, func(v any) bool {
		return slices.ContainsFunc(b.values, func(w any) bool { return equal(v, w) })
	})
}

// impliesNot reports whether no value of sub matches a schema.
func (c *comparer) impliesNot(ns *normal, want schema, at position) bool {
	excluded := normalise(conjunction{want})
	if excluded.never || disjoint(ns, excluded) {
		return true
	}
	here := at
	here.strict = true
	here.unwatch = false
	for _, have := range ns.nots {
		if sameSchema(have, want) || c.probe(func(p *comparer) { p.contain(conjunction{want}, conjunction{have}, here) }) {
			return true
		}
	}

	// An object without a property is not one that must have it. Values of other types need
	// no properties.
	if ns.types&excluded.types != isObject {
		return false
	}
	for name := range excluded.required {
		if isFalse(ns.property(name)) {
			return true
		}
	}
	return false
}

// impliesCondition reports whether sub meets a condition of sup.
func (c *comparer) impliesCondition(sub conjunction, ns *normal, want condition, at position) bool {
	strict := at
	strict.strict = true
	strict.unwatch = false
	for _, have := range ns.conditions {
		if sameCondition(have, want) {
			return true
		}
		sameTest := sameSchema(have.test, want.test) || c.probe(func(p *comparer) {
			p.contain(conjunction{have.test}, conjunction{want.test}, strict)
			p.contain(conjunction{want.test}, conjunction{have.test}, strict)
		})
		if !sameTest {
			continue
		}
		both := c.probe(func(p *comparer) {
			if want.hasThen {
				part := sub.with(want.test)
				if have.hasThen {
					part = part.with(have.then)
				}
				p.containBeside(part, want.then, at)
			}
			if want.hasElse {
				part := sub
				if have.hasElse {
					part = part.with(have.otherwise)
				}
				p.containBeside(part, want.otherwise, at)
			}
		})
		if both {
			return true
		}
	}
	return c.probe(func(p *comparer) {
		if want.hasThen {
			p.containBeside(sub.with(want.test), want.then, at)
		}
		if want.hasElse {
			p.containBeside(sub, want.otherwise, at)
		}
	})
}

// sameCondition reports whether two conditions are written in the same way.
func sameCondition(a, b condition) bool {
	if a.hasThen != b.hasThen || a.hasElse != b.hasElse || !sameSchema(a.test, b.test) {
		return false
	}
	return (!a.hasThen || sameSchema(a.then, b.then)) && (!a.hasElse || sameSchema(a.otherwise, b.otherwise))
}
