package main

import "slices"

// alias marks the definitions of m that are equal to those of the same name in
// the version before, all the way down: they become aliases of its types.
//
// Definitions may refer to each other in circles. So all that have a namesake
// count as equal at first, and a definition loses that when it differs itself or
// refers to one that has lost it, until nothing changes. Each round costs one
// comparison per definition, and there are at most as many rounds as definitions.
func (m *model) alias(before *model) {
	namesakes := map[string]*def{}
	for _, d := range before.defs {
		namesakes[d.goName] = d
	}
	equal := map[string]bool{}
	for _, d := range m.defs {
		equal[d.goName] = namesakes[d.goName] != nil
	}
	for changed := true; changed; {
		changed = false
		for _, d := range m.defs {
			if equal[d.goName] && !sameDef(d, namesakes[d.goName], equal) {
				equal[d.goName] = false
				changed = true
			}
		}
	}
	for _, d := range m.defs {
		d.alias = equal[d.goName]
	}
}

func sameDef(a, b *def, equal map[string]bool) bool {
	return a.shape == b.shape && a.open == b.open && a.method == b.method && a.side == b.side && a.unstable == b.unstable &&
		a.fragment == b.fragment && a.tag == b.tag && a.exclusive == b.exclusive &&
		slices.Equal(a.values, b.values) && slices.Equal(a.needText, b.needText) && slices.Equal(a.needAny, b.needAny) &&
		sameRef(a.scope, b.scope, equal) && sameType(a.typ, b.typ, equal) &&
		slices.EqualFunc(a.fields, b.fields, func(a, b *field) bool {
			return a.name == b.name && a.required == b.required && a.when == b.when && sameType(a.typ, b.typ, equal)
		}) &&
		slices.EqualFunc(a.variants, b.variants, func(a, b *variant) bool {
			return a.tag == b.tag && a.title == b.title && a.goName == b.goName && a.key == b.key &&
				sameRef(a.def, b.def, equal) && sameType(a.typ, b.typ, equal)
		})
}

func sameType(a, b *typ, equal map[string]bool) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.base == b.base && a.bits == b.bits && a.nullable == b.nullable && a.nullDefault == b.nullDefault &&
		a.min == b.min && a.max == b.max && a.minLength == b.minLength &&
		sameRef(a.def, b.def, equal) && sameType(a.elem, b.elem, equal)
}

// sameRef reports whether two references lead to definitions that are equal as
// far as is known.
func sameRef(a, b *def, equal map[string]bool) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.goName == b.goName && equal[a.goName]
}
