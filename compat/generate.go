package compat

import (
	"encoding/json"
	"hash/fnv"
	"maps"
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"
)

// A generator makes values that one schema takes and another may refuse. It has no
// cleverness of its own about keywords: it tries values around the bounds of both schemas
// and lets the validator decide.
//
// The cost is bounded by the number of calls of values, and each call gives at most
// maxValues values. The seed is that of the two documents, and names are walked in order, so
// the same documents give the same values everywhere.
type generator struct {
	rand  *rand.Rand
	left  int // calls of values
	work  int // members and items that may be made for this search
	total int // the same for all searches of a comparison
	known map[string][]any
	meter *meter
}

// spend counts members and items that are made, and reports whether more may be.
func (g *generator) spend(n int) bool {
	g.meter.spend(1 + n/8)
	g.work -= n + 1
	g.total -= n + 1
	return g.work > 0 && g.total > 0
}

const (
	maxCalls     = 2000    // of values, for one finding
	maxWork      = 60_000  // members and items, for one finding
	maxTotal     = 400_000 // members and items, for one comparison
	manyNames    = 40      // properties of an object that are all varied
	maxValues    = 80      // of one schema
	maxBuilt     = 7       // levels of a value
	maxText      = 20_000  // characters of a string
	maxArray     = 1100    // items of an array
	manyItems    = 60      // items of an array whatever their size
	maxBranches  = 6       // alternatives of one union that are tried
	maxExpansion = 2       // unions and conditions, one inside another
)

// newGenerator returns a generator with the seed of two documents.
func newGenerator(old, new any, m *meter) *generator {
	seed := func(v any) uint64 {
		text, _ := json.Marshal(v)
		h := fnv.New64a()
		h.Write(text)
		return h.Sum64()
	}
	return &generator{rand: rand.New(rand.NewPCG(seed(old), seed(new))), total: maxTotal, meter: m}
}

// reset makes the generator ready for another search.
func (g *generator) reset() {
	g.left = maxCalls
	g.work = maxWork
	g.known = map[string][]any{}
}

// values returns values that sub takes, those first that people would write. hint is a
// schema whose bounds are of interest.
func (g *generator) values(sub, hint conjunction, depth int) []any {
	key := sub.key() + "\n" + hint.key()
	if list, ok := g.known[key]; ok {
		return list
	}
	if g.left--; g.left < 0 || depth > maxBuilt || !g.spend(1) {
		return nil
	}
	g.known[key] = nil // a schema inside itself ends here
	all := g.candidates(sub, hint, depth, 0)

	// Each value once, and only those that are taken: half of them refused by the other
	// schema, if there are so many.
	var shared, refused []any
	seen := map[string]bool{}
	for _, v := range all {
		if g.work <= 0 || g.total <= 0 {
			break
		}
		text, err := json.Marshal(v)
		if err != nil || seen[string(text)] || len(text) > 4*maxText {
			continue
		}
		seen[string(text)] = true
		g.spend(len(text) / 8)
		switch {
		case !takes(sub, v):
		case takes(hint, v):
			shared = append(shared, v)
		default:
			refused = append(refused, v)
		}
		if len(shared) >= maxValues/2 && len(refused) >= maxValues/2 {
			break
		}
	}
	out := interleave(shared, refused, maxValues/2)
	if depth < maxBuilt-2 { // deeper ones may have been cut short
		g.known[key] = out
	} else {
		delete(g.known, key)
	}
	return out
}

// interleave returns at most count values of each list, in turns.
func interleave(a, b []any, count int) []any {
	out := []any{}
	for i := range count {
		if i < len(a) {
			out = append(out, a[i])
		}
		if i < len(b) {
			out = append(out, b[i])
		}
	}
	return out
}

// candidates returns values that sub may take. expanded counts the alternatives that were
// chosen on the way.
func (g *generator) candidates(sub, hint conjunction, depth, expanded int) []any {
	n := normalise(sub)
	h := normalise(hint)
	if n.never {
		return nil
	}
	if n.values != nil {
		return n.values
	}
	var out []any
	out = append(out, h.values...)
	if n.types&isString != 0 {
		out = append(out, g.strings(n, h)...)
	}
	if n.types&number != 0 {
		out = append(out, numbers(n, h)...)
	}
	if n.types&isBoolean != 0 {
		out = append(out, true, false)
	}
	if n.types&isObject != 0 {
		out = append(out, g.objects(n, h, depth)...)
	}
	if n.types&isArray != 0 {
		out = append(out, g.arrays(n, h, depth)...)
	}
	if n.types&isNull != 0 {
		out = append(out, nil)
	}
	if expanded < maxExpansion {
		out = append(g.alternatives(sub, hint, n, h, depth, expanded+1), out...)
	}
	return out
}

// alternatives returns values for each branch of the unions and conditions of both schemas.
func (g *generator) alternatives(sub, hint conjunction, n, h *normal, depth, expanded int) []any {
	var out []any
	try := func(more ...schema) {
		g.left--
		if g.left > 0 {
			out = append(out, g.candidates(sub.with(more...), hint, depth, expanded)...)
		}
	}
	for _, u := range slices.Concat(n.unions, h.unions) {
		for i, branch := range u.branches {
			if i < maxBranches {
				try(branch)
			}
		}
	}
	for _, c := range slices.Concat(n.conditions, h.conditions) {
		try(c.test)
		if c.hasThen {
			try(c.test, c.then)
		}
		if c.hasElse {
			try(c.otherwise)
		}
	}
	for _, d := range slices.Concat(n.dependents, h.dependents) {
		if d.is != nil {
			try(*d.is)
		}
	}
	for _, s := range h.nots {
		try(s)
	}
	return out
}

// formatSamples has two texts for each format that the validator knows.
var formatSamples = map[string][]any{
	"date":          {"2024-05-17", "1999-12-31"},
	"date-time":     {"2024-05-17T08:30:00Z", "1999-12-31T23:59:59+01:00"},
	"time":          {"08:30:00Z", "23:59:59Z"},
	"duration":      {"P3D", "PT1H"},
	"email":         {"ann@example.com", "bob@example.org"},
	"hostname":      {"example.com", "localhost"},
	"idn-email":     {"ann@example.com"},
	"idn-hostname":  {"example.com"},
	"ipv4":          {"192.0.2.1", "198.51.100.7"},
	"ipv6":          {"2001:db8::1", "::1"},
	"iri":           {"https://example.com/a"},
	"iri-reference": {"/a"},
	"json-pointer":  {"/a/b", ""},
	"regex":         {"^a+$", "b"},
	"uri":           {"https://example.com/a", "urn:a:b"},
	"uri-reference": {"/a", "https://example.com/a"},
	"uri-template":  {"/a/{id}"},
	"uuid":          {"3f2b1c9e-8d47-4c1a-9b7e-2f6d5a4c3b21", "00000000-0000-4000-8000-000000000000"},
}

// strings returns texts around the bounds of two schemas.
func (g *generator) strings(n, h *normal) []any {
	var out []any
	for _, of := range []*normal{n, h} {
		for _, format := range of.watched["format"] {
			name, _ := format.(string)
			out = append(out, formatSamples[name]...)
		}
	}
	for range 6 {
		for _, p := range slices.Concat(n.patterns, h.patterns) {
			out = append(out, sample(p.text, g.rand))
		}
	}
	for _, p := range n.patterns { // an expression without an anchor takes more around its text
		text := sample(p.text, g.rand)
		out = append(out, "x"+text, text+"x", text+" "+text)
	}
	out = append(out, "text", "a", "", "1")

	lengths := map[int]bool{}
	for _, l := range []*limit{n.minLength, n.maxLength, h.minLength, h.maxLength} {
		if l != nil {
			lengths[l.n-1] = true
			lengths[l.n] = true
			lengths[l.n+1] = true
		}
	}
	for _, length := range slices.Sorted(maps.Keys(lengths)) {
		if length < 0 || length > maxText {
			continue
		}
		out = append(out, strings.Repeat("a", length), strings.Repeat("7", length))
		for _, p := range n.patterns { // a text of the length that matches
			if text := sample(p.text, g.rand); text != "" {
				runes := []rune(text)
				for len(runes) < length {
					runes = append(runes, runes[len(runes)-1])
				}
				out = append(out, string(runes[:length]))
			}
		}
	}
	return append(out, "Ab-9 _", "ä")
}

// numbers returns numbers around the bounds of two schemas.
func numbers(n, h *normal) []any {
	around := []*big.Rat{big.NewRat(1, 1), big.NewRat(0, 1), big.NewRat(-1, 1), big.NewRat(3, 2), big.NewRat(7, 1), big.NewRat(1000000007, 1)}
	for _, b := range []*bound{n.min, n.max, h.min, h.max} {
		if b == nil {
			continue
		}
		for _, step := range []*big.Rat{big.NewRat(0, 1), big.NewRat(1, 1), big.NewRat(-1, 1), big.NewRat(1, 2), big.NewRat(-1, 2), big.NewRat(1, 100), big.NewRat(-1, 100)} {
			around = append(around, new(big.Rat).Add(b.value, step))
		}
	}
	list := around
	for _, m := range slices.Concat(n.multiples, h.multiples) {
		for _, a := range around { // the multiples beside each number
			if m.value.Sign() <= 0 {
				continue
			}
			quotient := new(big.Rat).Quo(a, m.value)
			whole := new(big.Int).Quo(quotient.Num(), quotient.Denom())
			for _, step := range []int64{-1, 0, 1, 2, 3} {
				k := new(big.Rat).SetInt(new(big.Int).Add(whole, big.NewInt(step)))
				list = append(list, k.Mul(k, m.value))
			}
		}
	}
	var out []any
	for _, r := range list {
		out = append(out, numberOf(r))
	}
	return out
}

// numberOf returns a number as JSON writes it.
func numberOf(r *big.Rat) json.Number {
	if r.IsInt() {
		return json.Number(r.Num().String())
	}
	text := strings.TrimRight(r.FloatString(20), "0")
	return json.Number(strings.TrimSuffix(text, "."))
}

// objects returns objects: with the required properties, with all of them, with each value
// of each property, without each property, and with properties that nobody described.
func (g *generator) objects(n, h *normal, depth int) []any {
	names := allNames(n, h)
	varied := variedNames(n, h, names)
	values := map[string][]any{}
	for _, name := range names {
		_, required := n.required[name]
		if required || slices.Contains(varied, name) {
			values[name] = g.values(n.property(name), h.property(name), depth+1)
		}
	}

	// Where nothing is varied, a value that both schemas take is best.
	base, ok := smallest(n, h, values)
	if !ok {
		return nil
	}
	full := maps.Clone(base)
	for _, name := range names {
		if len(values[name]) > 0 && !isFalse(h.property(name)) {
			full[name] = usual(h, name, values[name])
		}
	}
	out := []any{full, base}
	extra := g.extras(n, h, depth)
	out = append(out, padded(base, n, h, extra)...)

	// One property at a time, in a small and in a full object.
	for _, name := range varied {
		if !g.spend(30 * len(full)) {
			break
		}
		if _, ok := full[name]; ok {
			less := maps.Clone(full)
			delete(less, name)
			out = append(out, less)
		}
		if !isAdded(n, h, name) { // values of a property that was not described show nothing
			out = append(out, variants(base, full, name, values[name], len(names) < 30)...)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(extra)) {
		for i, v := range extra[name] {
			if i < 12 {
				out = append(out, member(base, name, v), member(full, name, v))
			}
		}
	}
	return out
}

// allNames returns the names of properties that either schema speaks of, sorted.
func allNames(n, h *normal) []string {
	names := propertyNamesOf(n, h)
	for _, of := range []*normal{n, h} {
		for name := range of.required {
			names = append(names, name)
		}
		for _, d := range of.dependents {
			names = append(append(names, d.name), d.required...)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// variedNames returns the names whose values are tried one by one: all, or of many only
// those that differ between the schemas.
func variedNames(n, h *normal, names []string) []string {
	if len(names) <= manyNames {
		return names
	}
	var out []string
	for _, name := range names {
		_, required := h.required[name]
		differs := required || !sameSchemas(n.property(name), h.property(name))
		if differs && len(out) < manyNames {
			out = append(out, name)
		}
	}
	return out
}

// smallest returns an object with the required properties alone. It reports false if one of
// them has no value.
func smallest(n, h *normal, values map[string][]any) (map[string]any, bool) {
	base := map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(n.required)) {
		if len(values[name]) == 0 {
			return nil, false
		}
		base[name] = usual(h, name, values[name])
	}
	return base, true
}

// usual returns the first value of a property that the other schema takes as well, or the
// first one of all.
func usual(h *normal, name string, values []any) any {
	want := h.property(name)
	for _, v := range values {
		if takes(want, v) {
			return v
		}
	}
	return values[0]
}

// variants returns objects with the first values of one property: in the smallest object,
// and in the full one if that is not too large.
func variants(base, full map[string]any, name string, values []any, isSmall bool) []any {
	var out []any
	for i, v := range values {
		if i >= 24 {
			break
		}
		out = append(out, member(base, name, v))
		if isSmall {
			out = append(out, member(full, name, v))
		}
	}
	return out
}

// isAdded reports whether h describes a property of which n says nothing.
func isAdded(n, h *normal, name string) bool {
	_, required := n.required[name]
	return h.named(name) && !n.named(name) && !required && isTrue(n.property(name)) && !isFalse(h.property(name))
}

// member returns a copy of an object with one more member.
func member(object map[string]any, name string, value any) map[string]any {
	out := maps.Clone(object)
	out[name] = value
	return out
}

// extras returns values of properties that no schema names: one without a pattern, and some
// for each pattern.
func (g *generator) extras(n, h *normal, depth int) map[string][]any {
	names := []string{"extra", "Extra_2", "x-3"}
	for _, of := range []*normal{n, h} {
		for _, group := range of.objects {
			for _, p := range group.patterns {
				names = append(names, sample(p.text, g.rand), sample(p.text, g.rand))
			}
		}
		for _, s := range of.propertyNames {
			for _, v := range g.values(conjunction{s, s.side.onlyType(isString, "string")}, nil, depth+2) {
				text, _ := v.(string)
				if names = append(names, text); len(names) > 8 {
					break
				}
			}
		}
	}
	out := map[string][]any{}
	for _, name := range names {
		if n.named(name) || h.named(name) || len(out) > 8 {
			continue
		}
		out[name] = g.values(n.property(name), h.property(name), depth+1)
	}
	return out
}

// padded returns objects with as many properties as the bounds of two schemas name.
func padded(base map[string]any, n, h *normal, extra map[string][]any) []any {
	var value any = "text"
	for _, name := range slices.Sorted(maps.Keys(extra)) {
		if len(extra[name]) > 0 {
			value = extra[name][0]
		}
	}
	var out []any
	for _, l := range []*limit{n.minProps, n.maxProps, h.minProps, h.maxProps} {
		if l == nil || l.n > maxArray {
			continue
		}
		for _, count := range []int{l.n, l.n + 1} {
			object := maps.Clone(base)
			for i := 1; len(object) < count; i++ {
				object["extra"+itoa(i)] = value
			}
			out = append(out, object)
		}
	}
	return out
}

// arrays returns arrays: empty, with each value, with the numbers of items around the bounds
// of two schemas, and with items that repeat.
func (g *generator) arrays(n, h *normal, depth int) []any {
	prefixes := max(n.prefixes(), h.prefixes())
	at := func(i int) []any { // the values of one place
		if i >= prefixes {
			i = -1
		}
		want := h.item(i)
		for _, c := range h.contains {
			want = want.with(c.is)
		}
		return g.values(n.item(i), want, depth+1)
	}

	// Arrays of each length that a bound names.
	var out []any
	least := max(prefixes, 1)
	for _, count := range lengthsOf(n, h, prefixes) {
		if count > manyItems && count*sizeOf(at(count-1)) > 4*maxText {
			continue
		}
		same := []any{}
		different := []any{}
		for i := range count {
			list := at(i)
			if len(list) == 0 {
				break
			}
			same = append(same, list[0])
			different = append(different, list[i%len(list)])
		}
		if n.minItems == nil || count >= n.minItems.n {
			least = max(1, min(least, count))
			out = append(out, different, same)
		}
	}
	if n.minItems != nil {
		least = max(least, min(n.minItems.n, maxArray))
	}

	// Each value of each place, in an array that is as short as allowed.
	for i := range max(least, prefixes+1) {
		out = append(out, g.arraysWith(i, max(least, i+1), at)...)
	}
	for _, c := range n.contains { // arrays that contain what they must
		inside := g.values(n.item(-1).with(c.is), h.item(-1), depth+1)
		array := []any{}
		for i := 0; i < max(c.min, 1) && len(inside) > 0 && i < maxArray; i++ {
			array = append(array, inside[i%len(inside)])
		}
		out = append(out, array)
	}
	return out
}

// sizeOf returns the length of the text of the first value of a list, with a comma.
func sizeOf(list []any) int {
	if len(list) == 0 {
		return 0
	}
	return len(rawOf(list[0])) + 1
}

// lengthsOf returns the lengths of arrays that are of interest, sorted.
func lengthsOf(n, h *normal, prefixes int) []int {
	counts := map[int]bool{0: true, 1: true, 2: true, prefixes: true, prefixes + 1: true}
	for _, l := range []*limit{n.minItems, n.maxItems, h.minItems, h.maxItems} {
		if l != nil && l.n <= maxArray {
			counts[max(l.n-1, 0)] = true
			counts[l.n] = true
			counts[l.n+1] = true
		}
	}
	return slices.Sorted(maps.Keys(counts))
}

// arraysWith returns arrays of a length, one for each of the first values of the place i.
func (g *generator) arraysWith(i, length int, at func(int) []any) []any {
	var out []any
	for j, v := range at(i) {
		if j >= 24 || !g.spend(length) {
			break
		}
		array := []any{}
		for k := range length {
			list := at(k)
			if len(list) == 0 {
				break
			}
			array = append(array, list[(k+j)%len(list)])
		}
		if i < len(array) {
			array[i] = v
			out = append(out, array)
		}
	}
	return out
}
