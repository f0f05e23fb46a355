package compat

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strings"
)

// A kind is the sort of difference that a proof of containment failed at. The direction and
// the kind give the rule.
type kind string

const (
	kindType         kind = "type"
	kindEnum         kind = "enum"        // a value of a list is not taken
	kindEnumAdded    kind = "enum-added"  // a list where there was none
	kindRange        kind = "range"       // minimum, maximum, multipleOf
	kindLength       kind = "length"      // of strings
	kindPattern      kind = "pattern"     // of strings
	kindItems        kind = "items"       // number of items
	kindUnique       kind = "unique"      // items that repeat
	kindRequired     kind = "required"    // a property must be there
	kindForbidden    kind = "forbidden"   // a described property is no longer taken
	kindUndescribed  kind = "undescribed" // a described property is no longer described
	kindDescribed    kind = "described"   // a property is described now; compatible
	kindAdditional   kind = "additional"  // properties without a description
	kindCount        kind = "count"       // number of properties
	kindNames        kind = "names"       // propertyNames
	kindDependent    kind = "dependent"
	kindUnion        kind = "union"
	kindNot          kind = "not"
	kindCondition    kind = "condition"
	kindUnevaluated  kind = "unevaluated"
	kindContains     kind = "contains"
	kindFormat       kind = "format"
	kindDefault      kind = "default"
	kindReadWrite    kind = "read-write"
	kindDiscriminate kind = "discriminator"
	kindContent      kind = "content"
	kindKeyword      kind = "keyword"    // a keyword without a rule
	kindBound        kind = "bound"      // the comparison was given up
	kindImpossible   kind = "impossible" // no value satisfies a part of the new version
)

// A position is the place that a comparison has come to.
type position struct {
	contexts []string // pointers, and fields such as User.avatar, by which consumers may know the place
	path     []string // names of properties from the compared root; itemStep for an item
	never    kind     // kind of a schema that takes nothing
	unwatch  bool     // keywords that no proof covers were compared before
	strict   bool     // an added property is no exception here
	splits   int      // alternatives that were looked at one by one
	used     []string // unions whose alternatives were chosen for this value
	outer    []string // properties that schemas around sup describe for this value
}

// apart returns the position for a schema that applies to the same value as np and is
// compared apart from it.
func (p position) apart(np *normal) position {
	p.outer = append(slices.Clip(p.outer), propertyNamesOf(np)...)
	return p
}

// itemStep is the step of a path into an item of an array.
const itemStep = "\x00item"

// maxContexts is the number of names of one place. Beyond it a place belongs to everybody.
const maxContexts = 64

// everything is the part that every consumer uses.
const everything = "*"

// property returns the position of a property.
func (p position) property(name string) position {
	next := p.extend("/properties/"+escape(name), "."+name)
	next.path = append(slices.Clip(p.path), name)
	return next
}

// item returns the position of an item. Its fields are those of the array.
func (p position) item() position {
	next := p.extend("/items", "")
	next.path = append(slices.Clip(p.path), itemStep)
	return next
}

// extend returns the position with more text on each context: pointers get one text, fields
// the other.
func (p position) extend(pointer, field string) position {
	next := p
	next.never = kindType
	next.unwatch = false
	next.used = nil
	next.outer = nil
	next.contexts = make([]string, 0, len(p.contexts)+2)
	for _, c := range p.contexts {
		switch {
		case c == everything:
		case isPointer(c):
			c += pointer
		default:
			c = strings.TrimPrefix(c+field, ".")
		}
		next.contexts = append(next.contexts, c)
	}
	return next
}

// rootPointer is the pointer of a whole document among contexts, where "" is the fields of
// a schema without a name.
const rootPointer = "#"

// isPointer reports whether a context is a pointer and not a field.
func isPointer(context string) bool {
	return strings.HasPrefix(context, "/") || strings.HasPrefix(context, rootPointer)
}

// referred returns the position with the names and places that references led to.
func (p position) referred(both ...*normal) position {
	if slices.Contains(p.contexts, everything) {
		return p
	}
	for _, n := range both {
		for _, at := range n.referred {
			if at != "" && !slices.Contains(p.contexts, at) {
				p.contexts = append(slices.Clip(p.contexts), at)
			}
		}
		for _, name := range n.names {
			if !slices.Contains(p.contexts, name) {
				p.contexts = append(slices.Clip(p.contexts), name)
			}
		}
	}
	if len(p.contexts) > maxContexts {
		p.contexts = []string{everything}
	}
	return p
}

// placed returns the position with the places of the schemas themselves: one in a list, in
// allOf or behind a pattern is not found by the names of properties alone.
func (p position) placed(both ...conjunction) position {
	if slices.Contains(p.contexts, everything) {
		return p
	}
	for _, s := range slices.Concat(both...) {
		at := s.pointer
		isKnown := at == "" || isMadeUp(s) || slices.Contains(p.contexts, at) || slices.Contains(p.contexts, rootPointer+at)
		if !isKnown {
			p.contexts = append(slices.Clip(p.contexts), at)
		}
	}
	if len(p.contexts) > maxContexts {
		p.contexts = []string{everything}
	}
	return p
}

// A gap is a step of a proof that failed, or a remark about one that succeeded.
type gap struct {
	kind     kind
	verdict  Word // breaking, unknown or compatible
	pointer  string
	text     string
	at       position
	sub, sup conjunction // sub has documents that sup refuses
	isFinal  bool        // no alternative of sub explains it
}

// A pair is the state of a comparison of two conjunctions. A pair that is met again while it
// is compared counts as contained if the inner comparison speaks of a part of the value that
// the outer one speaks of: the proof is one by induction over the size of values.
type pair struct {
	depth   int // length of the path of the first visit
	done    bool
	bad     bool
	entry   []string // contexts of the first visit
	gaps    []*gap
	aliases [][]string // contexts of visits during the comparison
}

// A comparer proves that one schema contains another, in one direction.
type comparer struct {
	direction Direction
	gaps      []*gap
	pairs     map[string]*pair
	outer     *comparer // of a probe: what it knows counts here
	meter     *meter
	isProbe   bool
}

// newComparer returns a comparer that knows nothing yet.
func newComparer(d Direction, m *meter) *comparer {
	return &comparer{direction: d, pairs: map[string]*pair{}, meter: m}
}

// pairSteps are the steps of a pair of conjunctions besides those of its keywords.
const pairSteps = 10

// keep notes the pairs of a comparer that found no gap at all. If one of them had a gap that
// was taken back, the others may rest on it.
func (l *lane) keep(c *comparer) {
	if len(c.gaps) > 0 {
		return
	}
	for _, known := range c.pairs {
		if known.bad {
			return
		}
	}
	for key := range c.pairs {
		l.proved[key] = true
	}
}

// probe reports whether f finds no gap. What it learns is kept only in that case.
func (c *comparer) probe(f func(*comparer)) bool {
	p := &comparer{direction: c.direction, pairs: map[string]*pair{}, outer: c, meter: c.meter, isProbe: true}
	f(p)
	if p.failed(0) {
		return false
	}
	maps.Copy(c.pairs, p.pairs)
	c.gaps = append(c.gaps, p.gaps...) // remarks
	return true
}

// pair returns what is known about a pair, here or outside of the probe.
func (c *comparer) pair(key string) *pair {
	for ; c != nil; c = c.outer {
		if known := c.pairs[key]; known != nil {
			return known
		}
	}
	return nil
}

// failed reports whether a gap from an index on is more than a remark.
func (c *comparer) failed(from int) bool {
	return slices.ContainsFunc(c.gaps[from:], func(g *gap) bool { return g.verdict != Compatible })
}

// add records a gap.
func (c *comparer) add(g gap) {
	if g.verdict == "" {
		g.verdict = Breaking
	}
	c.gaps = append(c.gaps, &g)
}

// contain looks for values that sub takes and sup refuses. It is sound: if it records no gap,
// there are none, apart from values of properties that were added as optional ones.
func (c *comparer) contain(sub, sup conjunction, at position) {
	c.meter.spend(pairSteps)
	if sameSchemas(sub, sup) {
		return
	}
	if len(sup) == 0 {
		c.checkPossible(sub, sup, at)
		return
	}

	// A pair that was compared before only gets the names of this place.
	key := fmt.Sprintf("%s\n=>\n%s\n%v %v %v %s", sub.key(), sup.key(), at.unwatch, at.strict, len(at.outer) > 0, at.never)
	c.meter.spend(len(key) / 64)
	if sup[0].side.lane.proved[key] {
		return
	}
	if known := c.pair(key); known != nil {
		switch {
		case !known.done && len(at.path) <= known.depth:
			c.add(gap{kind: kindUnion, verdict: Unknown, at: at, sub: sub, sup: sup, pointer: placeOf(sup), text: "the schemas lead back to themselves"})
		case !known.done:
			known.aliases = append(known.aliases, at.contexts)
		case known.bad && c.isProbe:
			c.add(gap{kind: kindUnion, verdict: Unknown, at: at, sub: sub, sup: sup})
		default:
			c.again(known, at.contexts)
		}
		return
	}

	ns := normalise(sub)
	np := normalise(sup)
	at = at.referred(ns, np).placed(sub, sup)
	state := &pair{entry: at.contexts, depth: len(at.path)}
	c.pairs[key] = state
	start := len(c.gaps)
	c.checkPossible(sub, sup, at)
	c.compare(sub, sup, ns, np, at)
	c.splitUnions(sub, sup, ns, at, start)

	state.done = true
	state.bad = c.failed(start)
	state.gaps = slices.Clone(c.gaps[start:])
	for _, contexts := range state.aliases {
		alias(state.gaps, state.entry, contexts)
	}
}

// again records the gaps of a pair that was compared before for one more place. A gap may have
// been taken back meanwhile where alternatives explained it; it counts here.
func (c *comparer) again(known *pair, contexts []string) {
	c.meter.spend(len(known.gaps) * (1 + len(known.entry)*len(contexts)/4))
	alias(known.gaps, known.entry, contexts)
	for _, g := range known.gaps {
		if !slices.Contains(c.gaps, g) {
			c.gaps = append(c.gaps, g)
		}
	}
}

// alias gives gaps that were found below one place the names of another place.
func alias(gaps []*gap, from, to []string) {
	for _, g := range gaps {
		if slices.Contains(g.at.contexts, everything) {
			continue
		}
		for _, known := range slices.Clone(g.at.contexts) {
			for _, prefix := range from {
				rest, ok := strings.CutPrefix(known, prefix)
				if !ok || len(g.at.contexts) > maxContexts {
					continue
				}
				for _, other := range to {
					if isPointer(prefix) == isPointer(other) && !slices.Contains(g.at.contexts, other+rest) {
						g.at.contexts = append(slices.Clip(g.at.contexts), other+rest)
					}
				}
			}
		}
		if len(g.at.contexts) > maxContexts {
			g.at.contexts = []string{everything}
		}
	}
}

// sameSchemas reports whether two conjunctions are written in the same way.
func sameSchemas(a, b conjunction) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !sameSchema(a[i], b[i]) {
			return false
		}
	}
	return true
}

// sameSchema reports whether two schemas are written in the same way, apart from words for
// readers. Schemas of two dialects never are: the same keywords may mean something else.
func sameSchema(a, b schema) bool {
	if a.side == b.side && a.pointer == b.pointer {
		return true
	}
	if a.side.src.draft7 != b.side.src.draft7 || isMadeUp(a) || isMadeUp(b) {
		return false
	}
	if a.side.bare(a.pointer) != b.side.bare(b.pointer) {
		return false
	}
	isSameSide := a.side == b.side
	return isSameSide || !slices.ContainsFunc(schemaReferences(a.raw), func(ref string) bool { return a.side.lane.changed[ref] })
}

// isMadeUp reports whether a schema is in no document.
func isMadeUp(s schema) bool { return strings.HasPrefix(s.pointer, madeUp) }

// maxSplits is the number of alternatives that are looked at one inside another.
const maxSplits = 3

// splitUnions takes back the gaps since start if each alternative of sub is contained in sup.
func (c *comparer) splitUnions(sub, sup conjunction, ns *normal, at position, start int) {
	isFinal := func(g *gap) bool { return g.isFinal && len(g.at.path) == len(at.path) }
	if !c.failed(start) || at.splits >= maxSplits || slices.ContainsFunc(c.gaps[start:], isFinal) {
		return
	}
	for _, u := range ns.unions {
		if slices.Contains(at.used, u.at) {
			continue
		}
		each := c.probe(func(p *comparer) {
			for _, branch := range u.branches {
				if p.failed(0) {
					return
				}
				next := at
				next.splits++
				next.unwatch = true
				next.used = append(slices.Clip(at.used), u.at)
				p.contain(sub.with(branch), sup, next)
			}
		})
		if each {
			kept := slices.Clone(c.gaps[:start])
			for _, g := range c.gaps[start:] {
				if isWatched(g.kind) || g.verdict == Compatible {
					kept = append(kept, g)
				}
			}
			c.gaps = kept
			return
		}
	}
}

// isWatched reports whether a kind is about keywords that no proof covers.
func isWatched(k kind) bool {
	return slices.Contains([]kind{kindFormat, kindDefault, kindReadWrite, kindDiscriminate, kindContent, kindKeyword, kindImpossible}, k)
}

// compare looks at each keyword of sup and records those that sub does not imply.
func (c *comparer) compare(sub, sup conjunction, ns, np *normal, at position) {
	gapOf := func(k kind, pointer, format string, args ...any) gap {
		return gap{kind: k, pointer: pointer, text: fmt.Sprintf(format, args...), at: at, sub: sub, sup: sup}
	}
	if !at.unwatch {
		c.compareWatched(sub, sup, ns, np, at)
		c.compareBranchWords(sub, sup, ns, np, at)
		if isOtherText(ns, np) {
			return // what the texts take is not known
		}
	}
	if ns.tooMany || np.tooMany {
		g := gapOf(kindBound, "", "too many schemas apply to one value")
		g.verdict = Unknown
		c.add(g)
		return
	}
	switch {
	case ns.never:
		return
	case np.never:
		k := at.never
		if k == "" {
			k = kindType
		}
		g := gapOf(k, placeOf(sup), "no value is allowed here")
		if k == kindAdditional {
			g.text = "properties without a description are not allowed"
		}
		c.add(g)
		return
	case ns.values != nil:
		c.compareValues(sub, sup, ns, np, at)
		return
	}

	// Every other keyword speaks of one type of value.
	if missing := ns.types &^ np.types; missing != 0 {
		at := np.typed
		if at == "" {
			at = placeOf(sup)
		}
		if c.direction == Response {
			c.add(gapOf(kindType, at, "%s is possible now, before it was always %s", missing, np.types))
		} else {
			c.add(gapOf(kindType, at, "%s is not allowed, only %s", missing, np.types))
		}
	}
	if np.values != nil {
		c.compareListAdded(sub, sup, ns, np, gapOf)
	}
	if ns.types&np.types&number != 0 {
		c.compareNumbers(ns, np, gapOf)
	}
	if ns.types&np.types&isString != 0 {
		c.compareStrings(ns, np, gapOf)
	}
	if ns.types&np.types&isArray != 0 {
		c.compareArrays(sub, sup, ns, np, at, gapOf)
	}
	if ns.types&np.types&isObject != 0 {
		c.compareObjects(sub, sup, ns, np, at, gapOf)
	}
	c.compareLogic(sub, sup, ns, np, at, gapOf)
}

// A gapMaker makes a gap of the pair that is compared.
type gapMaker func(k kind, pointer, format string, args ...any) gap

// placeOf returns the pointer of a conjunction.
func placeOf(c conjunction) string {
	for _, s := range c {
		if !strings.HasPrefix(s.pointer, madeUp) {
			return s.pointer
		}
	}
	return ""
}

// takes reports whether every schema of c takes a value.
func takes(c conjunction, value any) bool { return refusal(c, value) == "" }

// refusal returns the reason why c refuses a value, "" if it takes it.
func refusal(c conjunction, value any) string {
	for _, s := range c {
		if strings.HasPrefix(s.pointer, madeUp) {
			m, _ := s.raw.(map[string]any)
			if typeOfValue(value)&typesOf(m) == 0 {
				return "it has another type"
			}
			continue
		}
		if listed := s.values(); listed.isList {
			s.side.meter.spend(1)
			if !listed.keys[keyOf(value)] {
				return "value must be one of " + listed.text()
			}
			continue
		}
		if reason := s.side.check.validate(s.pointer, value); reason != "" {
			return reason
		}
	}
	return ""
}

// compareValues looks at a sub that takes a list of values: each is tried.
func (c *comparer) compareValues(sub, sup conjunction, ns, np *normal, at position) {
	for _, value := range ns.values {
		if !takes(sub, value) || takes(sup, value) {
			continue
		}
		text, _ := json.Marshal(value)
		g := gap{kind: kindEnum, at: at, sub: sub, sup: sup, pointer: np.valuesAt, text: fmt.Sprintf("the value %s is not allowed", shortText(string(text)))}
		if g.pointer == "" {
			g.pointer = placeOf(sup)
		}
		if typeOfValue(value)&np.types == 0 {
			g.kind = kindType
		}
		c.add(g)
	}
}

// compareListAdded looks at a sup that takes a list of values, where sub takes more.
func (c *comparer) compareListAdded(sub, sup conjunction, ns, np *normal, gapOf gapMaker) {
	if values, isAll := fewValues(ns); isAll { // each is tried
		for _, value := range values {
			if takes(sub, value) && !takes(sup, value) {
				text, _ := json.Marshal(value)
				c.add(gapOf(kindEnum, np.valuesAt, "the value %s is not allowed", text))
				return
			}
		}
		return
	}
	c.add(gapOf(kindEnumAdded, np.valuesAt, "only %d listed values are allowed", len(np.values)))
}

// maxTried is the number of integers between two bounds that are tried one by one.
const maxTried = 100

// fewValues returns the values that a schema may take, and whether these are all.
func fewValues(n *normal) ([]any, bool) {
	values := []any{nil, true, false}
	if n.types&^(isNull|isBoolean) == 0 {
		return values, true
	}
	isBounded := n.types&^(isNull|isBoolean|isInteger) == 0 && n.min != nil && n.max != nil
	if !isBounded {
		return nil, false
	}
	count := new(big.Rat).Sub(n.max.value, n.min.value)
	if count.Cmp(big.NewRat(maxTried, 1)) > 0 {
		return nil, false
	}
	for v := new(big.Rat).Set(n.min.value); v.Cmp(n.max.value) <= 0; v.Add(v, big.NewRat(1, 1)) {
		values = append(values, numberOf(v))
	}
	return values, true
}

// compareNumbers compares the bounds of numbers. A multiple of 6 is a multiple of 3, and every
// integer is a multiple of 1 and of 0.01; other multiples are not implied.
func (c *comparer) compareNumbers(ns, np *normal, gapOf gapMaker) {
	if np.min != nil && (ns.min == nil || isTighter(np.min, ns.min, 1)) {
		c.add(gapOf(kindRange, np.min.at, "numbers must be %s", limitText(np.min, "at least", "more than")))
	}
	if np.max != nil && (ns.max == nil || isTighter(np.max, ns.max, -1)) {
		c.add(gapOf(kindRange, np.max.at, "numbers must be %s", limitText(np.max, "at most", "less than")))
	}
	for _, m := range np.multiples {
		if m.value.Sign() <= 0 {
			continue
		}
		isPartOfOne := new(big.Rat).Inv(m.value).IsInt()
		implied := (isPartOfOne && ns.types&isFraction == 0) || slices.ContainsFunc(ns.multiples, func(n bound) bool {
			return new(big.Rat).Quo(n.value, m.value).IsInt()
		})
		if !implied {
			c.add(gapOf(kindRange, m.at, "numbers must be multiples of %s", m.value.RatString()))
		}
	}
}

// limitText returns a bound in words.
func limitText(b *bound, plain, exclusive string) string {
	word := plain
	if b.exclusive {
		word = exclusive
	}
	return word + " " + b.value.RatString()
}

// compareStrings compares the lengths and the expressions of strings. The same expression
// implies itself, and one that matches every text; no other one.
func (c *comparer) compareStrings(ns, np *normal, gapOf gapMaker) {
	if isRaised(ns.minLength, np.minLength) {
		c.add(gapOf(kindLength, np.minLength.at, "strings must have at least %s", plural(np.minLength.n, "character")))
	}
	if isLowered(ns.maxLength, np.maxLength) {
		c.add(gapOf(kindLength, np.maxLength.at, "strings must have at most %s", plural(np.maxLength.n, "character")))
	}
	c.meter.spend(20 * len(np.patterns) * (1 + len(ns.patterns)))
	for _, p := range np.patterns {
		isSame := slices.ContainsFunc(ns.patterns, func(q place) bool { return sameExpression(p.text, q.text) })
		if isSame || matchesAll(p.text) {
			continue
		}
		g := gapOf(kindPattern, p.pointer, "strings must match %s", shortText(p.text))
		if len(ns.patterns) > 0 { // two expressions are not compared: only a document proves more
			g.verdict = Unknown
		}
		c.add(g)
	}
}

// isRaised reports whether a lower limit excludes more than another one, which may be absent.
func isRaised(was, is *limit) bool {
	if is == nil || is.n <= 0 {
		return false
	}
	return was == nil || was.n < is.n
}

// isLowered reports whether an upper limit excludes more than another one, which may be
// absent.
func isLowered(was, is *limit) bool {
	return is != nil && (was == nil || was.n > is.n)
}

// plural returns a count with its noun.
func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// shortText returns a text cut for a finding.
func shortText(text string) string {
	runes := []rune(text)
	if len(runes) > 60 {
		return string(runes[:57]) + "..."
	}
	return text
}

// compareArrays compares the number of items, the items themselves and those that an array
// must contain. Items beyond maxItems of sub do not exist, so that their schemas say nothing.
func (c *comparer) compareArrays(sub, sup conjunction, ns, np *normal, at position, gapOf gapMaker) {
	if isRaised(ns.minItems, np.minItems) {
		c.add(gapOf(kindItems, np.minItems.at, "arrays must have at least %s", plural(np.minItems.n, "item")))
	}
	if isLowered(ns.maxItems, np.maxItems) {
		c.add(gapOf(kindItems, np.maxItems.at, "arrays must have at most %s", plural(np.maxItems.n, "item")))
	}
	mayRepeat := ns.unique == "" && (ns.maxItems == nil || ns.maxItems.n > 1)
	if np.unique != "" && mayRepeat {
		c.add(gapOf(kindUnique, np.unique, "items must not repeat"))
	}

	// Items with a schema of their own, then all others.
	prefixes := max(ns.prefixes(), np.prefixes())
	reaches := func(i int) bool { return ns.maxItems == nil || ns.maxItems.n > i }
	for i := range prefixes {
		if reaches(i) {
			c.contain(ns.item(i), np.item(i), at.item())
		}
	}
	if reaches(prefixes) {
		c.contain(ns.item(-1), np.item(-1), at.item())
	}
	for _, want := range np.contains {
		c.compareContains(ns, want, at, gapOf)
	}
}

// compareContains looks at one contains of sup.
func (c *comparer) compareContains(ns *normal, want containment, at position, gapOf gapMaker) {
	hasMin := want.min == 0
	hasMax := want.max < 0
	inside := at.item()
	inside.strict = true
	for _, have := range ns.contains {
		if !hasMin && have.min >= want.min {
			hasMin = c.probe(func(p *comparer) { p.contain(conjunction{have.is}, conjunction{want.is}, inside) })
		}
		if !hasMax && have.max >= 0 && have.max <= want.max {
			hasMax = c.probe(func(p *comparer) { p.contain(conjunction{want.is}, conjunction{have.is}, inside) })
		}
	}
	if !hasMin || !hasMax {
		g := gapOf(kindContains, want.at, "arrays must contain other items")
		g.verdict = Unknown
		c.add(g)
	}
}

// compareObjects compares the properties that have names, the required ones, all others, and
// the keywords that count properties or look at their names.
func (c *comparer) compareObjects(sub, sup conjunction, ns, np *normal, at position, gapOf gapMaker) {
	removed := c.compareProperties(ns, np, at, gapOf)
	for _, name := range slices.Sorted(maps.Keys(np.required)) {
		if _, ok := ns.required[name]; ok || removed[name] {
			continue
		}
		g := gapOf(kindRequired, np.required[name], "the property %s must be present", name)
		g.at = at.property(name)
		g.at.path = at.path
		c.add(g)
	}
	c.compareOthers(ns, np, at)
	c.compareCounts(ns, np, gapOf)

	for _, s := range np.propertyNames {
		c.comparePropertyNames(ns, s, at, gapOf)
	}
	for _, d := range np.dependents {
		c.compareDependent(sub, ns, d, at.apart(np), gapOf)
	}
}

// compareProperties compares the properties that either side describes by name. It returns
// the names that a response no longer has, which are one finding each.
func (c *comparer) compareProperties(ns, np *normal, at position, gapOf gapMaker) map[string]bool {
	removed := map[string]bool{}
	for _, name := range propertyNamesOf(ns, np) {
		have := ns.property(name)
		isExcluded := ns.excludesName(name)
		isNamed := ns.named(name) && np.named(name)
		if isNamed && !isExcluded && sameSchemas(have, np.property(name)) {
			continue
		}
		isAbsent := isFalse(have) || isExcluded
		isRemoved := isAbsent && c.direction == Response && !isFalse(np.property(name)) // it is named to be excluded
		isNew := np.named(name) && (!ns.named(name) || isRemoved)
		if isAbsent && (!isNew || c.direction == Request) {
			continue // no value of sub has it
		}
		if c.isNotSent(have) && c.isNotSent(np.property(name)) {
			continue // no document of this direction has it
		}

		// The rulings about properties that one side does not describe come first.
		here := at.property(name)
		remark := gapOf(kindDescribed, nameOf(np, name), "the property %s is described", name)
		remark.at = here
		remark.at.path = at.path
		remark.verdict = Compatible
		isFree := isNew && !at.strict && (isRemoved || !c.mentions(ns, name))
		isOptional := isTrue(have) && !isFalse(np.property(name))
		if isFree && isOptional && c.direction == Request {
			c.add(remark)
			c.checkPossible(have, np.property(name), here)
			continue
		}
		if isFree && c.direction == Response {
			removed[name] = c.addUndescribed(remark, np, name)
			if isTrue(have) {
				continue
			}
		}

		// Then its values are compared like all others.
		here.never = kindForbidden
		start := len(c.gaps)
		c.contain(have, np.property(name), here)
		isGone := ns.named(name) && !np.named(name)
		if isGone && !at.strict && !c.failed(start) {
			c.addGone(remark, ns, np, name, at)
		}
	}
	return removed
}

// isNotSent reports whether OpenAPI leaves a property out of the direction that is compared:
// one that is readOnly out of requests, one that is writeOnly out of responses.
func (c *comparer) isNotSent(property conjunction) bool {
	mark := "readOnly"
	if c.direction == Response {
		mark = "writeOnly"
	}
	if len(property) == 0 || property[0].side.src.format != FormatOpenAPI {
		return false
	}
	return slices.Contains(normalise(property).watched[mark], any(true))
}

// addUndescribed records that a response no longer describes a property. It reports whether
// the old version promised the property: then it breaks every consumer.
func (c *comparer) addUndescribed(g gap, np *normal, name string) bool {
	_, wasRequired := np.required[name]
	g.kind = kindUndescribed
	g.verdict = Unknown
	if wasRequired {
		g.verdict = Breaking
	}
	g.text = fmt.Sprintf("the property %s is no longer described", name)
	c.add(g)
	return wasRequired
}

// addGone records a property that sub describes and sup does not: in a response the new
// version added it; in a request the new version may ignore it.
func (c *comparer) addGone(g gap, ns, np *normal, name string, at position) {
	g.pointer = nameOf(ns, name)
	switch c.direction {
	case Response:
		g.text = fmt.Sprintf("the property %s is new", name)
		c.add(g)
	case Request:
		isMatched := slices.ContainsFunc(np.objects, func(g objectGroup) bool {
			return slices.ContainsFunc(g.patterns, func(p namePattern) bool { return p.matches(name) })
		})
		if isMatched || c.mentions(np, name) || slices.Contains(at.outer, name) {
			return
		}
		g.kind = kindUndescribed
		g.verdict = Unknown
		g.text = fmt.Sprintf("the property %s is no longer described, and may be ignored", name)
		c.add(g)
	}
}

// nameOf returns the pointer of a described property.
func nameOf(n *normal, name string) string {
	for _, g := range n.objects {
		if s, ok := g.names[name]; ok {
			return s.pointer
		}
	}
	if len(n.objects) > 0 {
		return n.objects[0].at
	}
	return ""
}

// mentions reports whether a schema speaks of a property other than by its description: in
// alternatives, conditions, or in a list of required names.
func (c *comparer) mentions(n *normal, name string) bool {
	if _, ok := n.required[name]; ok {
		return true
	}
	for _, d := range n.dependents {
		if d.name == name || slices.Contains(d.required, name) {
			return true
		}
	}
	if n.mentioned == nil {
		n.mentioned = c.mentionedBeside(n)
	}
	return n.mentioned.all || n.mentioned.names[name]
}

// mentionedBeside collects the properties that the alternatives and conditions of a schema
// speak of, in one walk for all names.
func (c *comparer) mentionedBeside(n *normal) *mentioned {
	out := &mentioned{names: map[string]bool{}}
	seen := map[string]bool{}
	var walk func(s schema, isPart bool)
	walk = func(s schema, isPart bool) {
		c.meter.spend(1)
		if seen[s.pointer] {
			return
		}
		seen[s.pointer] = true
		if m, ok := s.raw.(map[string]any); ok && !isPart {
			out.add(m)
		}
		for _, pointer := range s.side.src.inPlace(s.pointer) {
			walk(s.side.at(pointer), false)
		}
	}
	for _, s := range n.parts {
		if !strings.HasPrefix(s.pointer, madeUp) {
			walk(s, true)
		}
	}
	return out
}

// add notes the properties that one schema speaks of.
func (x *mentioned) add(m map[string]any) {
	_, hasPatterns := m["patternProperties"]
	_, hasRest := m["additionalProperties"]
	x.all = x.all || hasPatterns || hasRest

	for _, word := range []string{"properties", "dependentRequired"} {
		described, _ := m[word].(map[string]any)
		for name := range described {
			x.names[name] = true
		}
	}
	required, _ := m["required"].([]any)
	for _, one := range required {
		if name, ok := one.(string); ok {
			x.names[name] = true
		}
	}
}

// compareOthers compares the properties that neither side describes by name: those that
// match a pattern, and all others.
func (c *comparer) compareOthers(ns, np *normal, at position) {
	hasOthers := slices.ContainsFunc(np.objects, func(g objectGroup) bool { return g.rest != nil || len(g.patterns) > 0 })
	if !hasOthers {
		return
	}
	here := at.property("*")
	here.never = kindAdditional
	for _, g := range np.objects {
		for _, p := range g.patterns {
			c.comparePattern(ns, p, here)
		}
		if g.rest == nil {
			continue
		}
		c.contain(ns.rests(), conjunction{*g.rest}, here)
		for _, group := range ns.objects {
			for _, q := range group.patterns {
				isKnown := slices.ContainsFunc(g.patterns, func(p namePattern) bool { return p.text == q.text })
				if !isKnown {
					c.contain(conjunction{q.is}, conjunction{*g.rest}, here)
				}
			}
		}
	}
}

// comparePattern compares the properties that match a pattern of sup. Those that match the
// same pattern of sub are a case of their own; otherwise a name may match any pattern of sub,
// or none.
func (c *comparer) comparePattern(ns *normal, p namePattern, here position) {
	var same conjunction
	for _, group := range ns.objects {
		for _, q := range group.patterns {
			if q.text == p.text {
				same = append(same, q.is)
			}
		}
	}
	want := conjunction{p.is}
	if len(same) > 0 {
		c.contain(same, want, here)
		return
	}
	c.contain(ns.rests(), want, here)
	for _, group := range ns.objects {
		for _, q := range group.patterns {
			c.contain(conjunction{q.is}, want, here)
		}
	}
}

// compareCounts compares the number of properties. Required properties are counted, and the
// names of a closed object are known.
func (c *comparer) compareCounts(ns, np *normal, gapOf gapMaker) {
	if isRaised(ns.minProps, np.minProps) && np.minProps.n > len(ns.required) {
		c.add(gapOf(kindCount, np.minProps.at, "objects must have at least %s", counted(np.minProps.n)))
	}
	if np.maxProps == nil || (ns.maxProps != nil && ns.maxProps.n <= np.maxProps.n) {
		return
	}
	most, isClosed := closedNames(ns)
	if !isClosed || len(most) > np.maxProps.n {
		c.add(gapOf(kindCount, np.maxProps.at, "objects must have at most %s", counted(np.maxProps.n)))
	}
}

// counted returns a number of properties in words.
func counted(n int) string {
	if n == 1 {
		return "1 property"
	}
	return fmt.Sprintf("%d properties", n)
}

// closedNames returns the names that an object may have, if they are known.
func closedNames(n *normal) ([]string, bool) {
	for _, g := range n.objects {
		if g.rest != nil && isFalse(conjunction{*g.rest}) && len(g.patterns) == 0 {
			return slices.Sorted(maps.Keys(g.names)), true
		}
	}
	return nil, false
}

// comparePropertyNames looks at one propertyNames of sup. The names of a closed object are
// tried one by one; otherwise a propertyNames of sub must imply it.
func (c *comparer) comparePropertyNames(ns *normal, want schema, at position, gapOf gapMaker) {
	if names, isClosed := closedNames(ns); isClosed {
		allowed := !slices.ContainsFunc(names, func(name string) bool { return !takes(conjunction{want}, name) })
		if allowed {
			return
		}
	}
	inside := at
	inside.strict = true
	inside.unwatch = false
	name := want.side.onlyType(isString, "string")
	if c.probe(func(p *comparer) { p.contain(conjunction{name}, conjunction{want}, inside) }) {
		return
	}
	for _, have := range ns.propertyNames {
		have := conjunction{have, name}
		if c.probe(func(p *comparer) { p.contain(have, conjunction{want}, inside) }) {
			return
		}
	}
	c.add(gapOf(kindNames, want.pointer, "the names of properties must match other rules"))
}

// compareDependent looks at one demand that sup makes of objects with a property. Objects of
// sub that cannot have the property meet it.
func (c *comparer) compareDependent(sub conjunction, ns *normal, want dependent, at position, gapOf gapMaker) {
	if isFalse(ns.property(want.name)) {
		return
	}
	if want.is == nil {
		missing := slices.DeleteFunc(slices.Clone(want.required), func(name string) bool {
			_, ok := ns.required[name]
			return ok || slices.ContainsFunc(ns.dependents, func(have dependent) bool {
				return have.name == want.name && slices.Contains(have.required, name)
			})
		})
		if len(missing) > 0 {
			c.add(gapOf(kindDependent, want.at, "an object with the property %s must also have %s", want.name, strings.Join(missing, ", ")))
		}
		return
	}
	for _, have := range ns.dependents {
		if have.name != want.name || have.is == nil {
			continue
		}
		if c.probe(func(p *comparer) { p.containBeside(sub.with(*have.is), *want.is, at) }) {
			return
		}
	}
	if c.probe(func(p *comparer) { p.containBeside(sub, *want.is, at) }) {
		return
	}
	g := gapOf(kindDependent, want.at, "an object with the property %s must match another schema", want.name)
	g.verdict = Unknown
	c.add(g)
}

// containBeside is contain for a schema that applies to a value beside others, as then does:
// watched keywords that sub has in addition are no difference.
func (c *comparer) containBeside(sub conjunction, want schema, at position) {
	ns := normalise(sub)
	sup := conjunction{want}
	np := normalise(sup)
	for _, name := range slices.Sorted(maps.Keys(np.watched)) {
		words := np.watched[name]
		isImplied := isFalseMark(words, nil) || !slices.ContainsFunc(words, func(w any) bool {
			return !slices.ContainsFunc(ns.watched[name], func(v any) bool { return equal(v, w) })
		})
		if !isImplied {
			c.addWatched(gap{pointer: np.watchedAt[name], at: at, sub: sub, sup: sup}, name, ns.watched[name], words)
		}
	}
	at.unwatch = true
	c.contain(sub, sup, at)
}

// watchedKinds are the kinds of keywords that no proof covers.
var watchedKinds = map[string]kind{
	"format": kindFormat, "default": kindDefault, "readOnly": kindReadWrite, "writeOnly": kindReadWrite,
	"discriminator": kindDiscriminate, "contentEncoding": kindContent, "contentMediaType": kindContent, "contentSchema": kindContent, "xml": kindContent,
}

// compareWatched records keywords that no proof covers and that differ.
func (c *comparer) compareWatched(sub, sup conjunction, ns, np *normal, at position) {
	all := map[string]bool{}
	for _, n := range []*normal{ns, np} {
		for name := range n.watched {
			all[name] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		have := ns.watched[name]
		want := np.watched[name]
		switch {
		case len(have) == 0:
			have = ns.sharedWords(name)
		case len(want) == 0:
			want = np.sharedWords(name)
		}
		isSame := slices.EqualFunc(have, want, equal) || isFalseMark(have, want) || (isOfText(name) && ns.types&np.types&(isString|number) == 0)
		if isSame || (name == "discriminator" && choosesSame(sub, have, want)) {
			continue
		}
		pointer := np.watchedAt[name]
		if pointer == "" {
			pointer = ns.watchedAt[name]
		}
		c.addWatched(gap{pointer: pointer, at: at, sub: sub, sup: sup}, name, have, want)
	}
}

// isOfText reports whether a keyword says nothing about values other than texts and numbers.
func isOfText(name string) bool {
	return slices.Contains([]string{"contentEncoding", "contentMediaType", "contentSchema", "format"}, name)
}

// addWatched records that a keyword changed which no proof covers.
func (c *comparer) addWatched(g gap, name string, have, want []any) {
	k, ok := watchedKinds[name]
	if !ok {
		k = kindKeyword
	}
	g.kind = k
	g.verdict = Unknown
	g.text = fmt.Sprintf("%s changed", name)
	if name == textWord {
		g.text = fmt.Sprintf("the text changed: %v and %v", textOf(have), textOf(want))
	}
	c.add(g)
}

// sharedWords returns the values of a watched keyword that all alternatives of a union have,
// apart from null: a date or null is the same as a text or null with the format date.
func (n *normal) sharedWords(name string) []any {
	for _, u := range n.unions {
		var shared []any
		isShared := true
		for _, b := range u.branches {
			branch := normalise(conjunction{b})
			if branch.types == isNull {
				continue
			}
			words := branch.watched[name]
			isShared = isShared && len(words) > 0 && (shared == nil || slices.EqualFunc(shared, words, equal))
			shared = words
		}
		if isShared && len(shared) > 0 {
			return shared
		}
	}
	return nil
}

// compareBranchWords records watched keywords of alternatives in sub if sup has no alternatives
// to compare them with, and not the same keyword itself.
func (c *comparer) compareBranchWords(sub, sup conjunction, ns, np *normal, at position) {
	if len(np.unions) > 0 {
		return
	}
	for _, u := range ns.unions {
		for _, b := range u.branches {
			branch := normalise(conjunction{b})
			for _, name := range slices.Sorted(maps.Keys(branch.watched)) {
				words := branch.watched[name]
				if slices.EqualFunc(words, np.watched[name], equal) || isFalseMark(words, nil) {
					continue
				}
				c.addWatched(gap{pointer: branch.watchedAt[name], at: at, sub: sub, sup: sup}, name, words, np.watched[name])
			}
		}
	}
}

// choosesSame reports whether the discriminator of sup chooses the same schema as that of sub
// for every value that sub knows. It may know more values.
func choosesSame(sub conjunction, have, want []any) bool {
	if len(have) != 1 || len(want) != 1 || len(sub) == 0 {
		return false
	}
	a, _ := have[0].(map[string]any)
	b, _ := want[0].(map[string]any)
	known, _ := a["mapping"].(map[string]any)
	others, _ := b["mapping"].(map[string]any)
	isPlain := a != nil && b != nil && equal(without(a, "mapping"), without(b, "mapping"))
	if !isPlain {
		return false
	}

	// A value that one mapping does not name is the name of a schema.
	for value, ref := range known {
		other, ok := others[value]
		isSame := (ok && equal(ref, other)) || (!ok && ref == any("#/components/schemas/"+value))
		if !isSame {
			return false
		}
	}
	for value, ref := range others {
		_, isKnown := known[value]
		_, isName := lookup(sub[0].side.src.base, join("/components/schemas", value))
		if !isKnown && isName && ref != any("#/components/schemas/"+value) {
			return false
		}
	}
	return true
}

// without returns a copy of an object without one member.
func without(m map[string]any, name string) map[string]any {
	m = maps.Clone(m)
	delete(m, name)
	return m
}

// isOtherText reports whether a field of a shape has a text that is no type in one version and
// something else in the other.
func isOtherText(ns, np *normal) bool {
	return !slices.EqualFunc(ns.watched[textWord], np.watched[textWord], equal)
}

// isFalseMark reports whether one side has the value false and the other nothing, which is
// the same for marks such as readOnly.
func isFalseMark(a, b []any) bool {
	for _, v := range slices.Concat(a, b) {
		if v != false {
			return false
		}
	}
	return true
}

// textOf returns the first of a few values, or none.
func textOf(list []any) string {
	if len(list) == 0 {
		return "none"
	}
	text, _ := json.Marshal(list[0])
	return shortText(string(text))
}
