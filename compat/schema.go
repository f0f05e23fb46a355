package compat

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strconv"
	"strings"
)

// itoa returns a number as a part of a pointer.
func itoa(n int) string { return strconv.Itoa(n) }

// keywords are the keywords of JSON Schema and OpenAPI that the comparer knows: it compares
// them, or they say nothing about documents.
var keywords = slices.Concat(inOne, inList, inMap, assertions, annotations, watched)

// assertions are the keywords without schemas in them that decide about a value.
var assertions = []string{
	"$ref", "const", "dependentRequired", "enum", "exclusiveMaximum", "exclusiveMinimum", "maxContains", "maximum", "maxItems", "maxLength", "maxProperties",
	"minContains", "minimum", "minItems", "minLength", "minProperties", "multipleOf", "pattern", "required", "type", "uniqueItems",
}

// annotations are keywords for readers: a change of one is compatible.
var annotations = []string{"$anchor", "$comment", "$id", "$schema", "deprecated", "description", "example", "examples", "externalDocs", "title"}

// watched are keywords that the validator does not need but programs use: a change is unknown.
var watched = []string{"contentEncoding", "contentMediaType", "contentSchema", "default", "discriminator", "format", "readOnly", "writeOnly", "xml"}

// Keywords that one dialect does not know. A schema may have them, and they decide nothing.
var (
	notDraft7  = []string{"$defs", "contentSchema", "dependentRequired", "dependentSchemas", "maxContains", "minContains", "prefixItems", "unevaluatedItems", "unevaluatedProperties"}
	not2020    = []string{"additionalItems", "definitions", "dependencies"}
	onlyHolder = []string{"$defs", "definitions"} // they hold schemas and apply none
)

// isForeign reports whether a keyword is one of another dialect.
func (s schema) isForeign(name string) bool {
	if s.side.src.draft7 {
		return slices.Contains(notDraft7, name)
	}
	return slices.Contains(not2020, name)
}

// A typeSet is a set of types of JSON. Numbers are two types: integers and the others.
type typeSet uint8

const (
	isNull typeSet = 1 << iota
	isBoolean
	isInteger
	isFraction
	isString
	isArray
	isObject
	anyType = isNull | isBoolean | isInteger | isFraction | isString | isArray | isObject
	number  = isInteger | isFraction
)

var typeBits = map[string]typeSet{
	"null": isNull, "boolean": isBoolean, "integer": isInteger, "number": number, "string": isString, "array": isArray, "object": isObject,
}

// String returns the names of the types.
func (t typeSet) String() string {
	var out []string
	for _, name := range typeWords {
		bits := typeBits[name]
		isNumber := name == "integer" && t&number == number
		if t&bits == bits && !isNumber {
			out = append(out, name)
		}
	}
	if t&number == isFraction {
		out = append(out, "number with a fraction")
	}
	return strings.Join(out, " or ")
}

// typeOfValue returns the type of a JSON value.
func typeOfValue(v any) typeSet {
	switch v := v.(type) {
	case nil:
		return isNull
	case bool:
		return isBoolean
	case string:
		return isString
	case []any:
		return isArray
	case map[string]any:
		return isObject
	case json.Number:
		if rat(v).IsInt() {
			return isInteger
		}
		return isFraction
	}
	return anyType
}

// A schema is one schema of a document, by its place.
type schema struct {
	side    *side
	pointer string
	raw     any // bool or map[string]any
}

// A conjunction is a list of schemas that all apply to one value. The empty one takes
// everything.
type conjunction []schema

// key identifies a conjunction within a comparison.
func (c conjunction) key() string {
	if len(c) == 1 {
		return c[0].side.name + c[0].pointer
	}
	parts := make([]string, 0, len(c))
	for _, s := range c {
		parts = append(parts, s.side.name+s.pointer)
	}
	slices.Sort(parts)
	return strings.Join(slices.Compact(parts), "\n")
}

// with returns c and one more schema.
func (c conjunction) with(more ...schema) conjunction { return slices.Concat(c, more) }

// A side is one of the two documents of a comparison, in one direction.
type side struct {
	name     string // "old" or "new"
	src      *source
	root     any
	check    *checker
	closures map[string]string // by pointer
	bares    map[string]string // texts of schemas without words for readers, by pointer
	listed   map[string]values // by pointer; see valuesOf
	meter    *meter
	lane     *lane // shared with the other side; nil if there is none
}

// A lane is what both sides of one direction share, so that a schema which many operations lead
// to is looked at once.
type lane struct {
	changed map[string]bool    // references that lead to a difference, directly or not
	normals map[string]*normal // by the key of the conjunction
	proved  map[string]bool    // keys of pairs that were compared without a gap
	choices map[string]*choice // by side and place of the union

	impossible map[string]bool // by the key of the conjunction
}

// newLane joins the two sides of a direction.
func newLane(old, new *side) [2]*side {
	l := &lane{normals: map[string]*normal{}, proved: map[string]bool{}, choices: map[string]*choice{}, impossible: map[string]bool{}}
	l.changed = changedReferences(old, new)
	old.lane = l
	new.lane = l
	return [2]*side{old, new}
}

// changedReferences returns the references that do not lead to the same in both versions: their
// targets differ, or refer to one that does.
func changedReferences(old, new *side) map[string]bool {
	from := map[string][]string{} // references in the targets that hold them
	changed := map[string]bool{}
	var queue []string
	all := slices.Concat(referencesIn(old.root, nil), referencesIn(new.root, nil))
	slices.Sort(all)
	for _, ref := range slices.Compact(all) {
		was, ok := old.src.target(ref)
		is, both := new.src.target(ref)
		if !ok || !both || old.bare(was) != new.bare(is) {
			changed[ref] = true
			queue = append(queue, ref)
			continue
		}
		for _, inner := range schemaReferences(old.at(was).raw) {
			from[inner] = append(from[inner], ref)
		}
	}
	for len(queue) > 0 {
		for _, ref := range from[queue[0]] {
			if !changed[ref] {
				changed[ref] = true
				queue = append(queue, ref)
			}
		}
		queue = queue[1:]
	}
	return changed
}

// bare returns the text of the schema at a pointer without words for readers.
func (d *side) bare(pointer string) string {
	text, ok := d.bares[pointer]
	if !ok {
		raw, _ := lookup(d.root, pointer)
		text = string(rawOf(bare(raw)))
		d.bares[pointer] = text
	}
	return text
}

// schemaReferences returns the references of a schema and of the schemas in it.
func schemaReferences(raw any) []string {
	var out []string
	eachSchema(raw, "", func(_ string, m map[string]any) {
		if ref, ok := m["$ref"].(string); ok {
			out = append(out, ref)
		}
	})
	return out
}

// newSide returns a side with a validator for its schemas.
func newSide(name string, src *source, root any, m *meter) *side {
	return &side{
		name: name, src: src, root: root, check: newChecker(root, src.draft7, &src.patterns, m), meter: m,
		closures: map[string]string{}, bares: map[string]string{}, listed: map[string]values{},
	}
}

// at returns the schema at a pointer.
func (d *side) at(pointer string) schema {
	raw, _ := lookup(d.root, pointer)
	return schema{d, pointer, raw}
}

// child returns a schema inside s.
func (s schema) child(names ...string) schema {
	pointer := join(s.pointer, names...)
	raw, _ := lookup(s.side.root, pointer)
	if strings.HasPrefix(s.pointer, madeUp) {
		raw, _ = lookup(s.raw, join("", names...))
	}
	return schema{s.side, pointer, raw}
}

// madeUp begins the pointers of schemas that are in no document.
const madeUp = "made-up:"

// onlyType returns a schema for one type, which is in no document.
func (d *side) onlyType(t typeSet, name string) schema {
	return schema{d, madeUp + name, map[string]any{"type": name}}
}

// closure returns a text that is equal for two schemas that are written in the same way, with
// everything that they refer to.
func (s schema) closure() string {
	if text, ok := s.side.closures[s.pointer]; ok {
		return text
	}
	var b strings.Builder
	seen := map[string]bool{}
	queue := []any{s.raw}
	for len(queue) > 0 {
		raw := queue[0]
		queue = queue[1:]
		text, _ := json.Marshal(bare(raw)) // members are sorted
		b.Write(text)
		b.WriteByte('\n')
		eachSchema(raw, "", func(_ string, m map[string]any) {
			ref, ok := m["$ref"].(string)
			if !ok || seen[ref] {
				return
			}
			seen[ref] = true
			at, _ := s.side.src.target(ref)
			target, _ := lookup(s.side.root, at)
			b.WriteString(ref)
			queue = append(queue, target)
		})
	}
	text := b.String()
	s.side.meter.spend(len(text) / 64)
	s.side.closures[s.pointer] = text
	return text
}

// formats returns the formats and encodings of texts in a schema and everything that it refers
// to, such as "format date", with the place of one of each.
func (s schema) formats() map[string]string {
	out := map[string]string{}
	seen := map[string]bool{s.pointer: true}
	queue := []string{s.pointer}
	for len(queue) > 0 {
		at := queue[0]
		queue = queue[1:]
		raw, _ := lookup(s.side.root, at)
		eachSchema(raw, at, func(pointer string, m map[string]any) {
			for _, name := range []string{"contentEncoding", "contentMediaType", "format"} {
				if text, ok := m[name].(string); ok {
					out[name+" "+text] = join(pointer, name)
				}
			}
			ref, _ := m["$ref"].(string)
			target, ok := s.side.src.target(ref)
			if ok && !seen[target] {
				seen[target] = true
				queue = append(queue, target)
			}
		})
	}
	return out
}

// bare returns a schema without the keywords for readers, at any depth.
func bare(raw any) any {
	m, ok := raw.(map[string]any)
	if !ok {
		return raw
	}
	out := map[string]any{}
	for name, value := range m {
		list, isList := value.([]any)
		members, isMap := value.(map[string]any)
		switch {
		case slices.Contains(annotations, name):
		case slices.Contains(inMap, name) && isMap:
			inner := map[string]any{}
			for key, v := range members {
				inner[key] = bare(v)
			}
			out[name] = inner
		case slices.Contains(inList, name) && isList:
			inner := make([]any, len(list))
			for i, v := range list {
				inner[i] = bare(v)
			}
			out[name] = inner
		case slices.Contains(inOne, name):
			out[name] = bare(value)
		default:
			out[name] = value
		}
	}
	return out
}

// A bound is a limit of numbers.
type bound struct {
	value     *big.Rat
	exclusive bool
	at        string // pointer of the keyword
}

// A limit is a count: of characters, items or properties.
type limit struct {
	n  int
	at string
}

// An objectGroup is properties, patternProperties and additionalProperties of one schema.
type objectGroup struct {
	at       string
	names    map[string]schema
	patterns []namePattern
	rest     *schema // nil takes everything
}

type namePattern struct {
	text string
	expression
	is schema
}

// matches reports whether a name matches. An expression that is not supported matches every
// name: the document is unknown for this reason.
func (p namePattern) matches(name string) bool {
	p.is.side.meter.spend(1 + p.size*len(name)/200)
	return p.re == nil || p.re.MatchString(name)
}

// An arrayGroup is prefixItems and items of one schema.
type arrayGroup struct {
	prefix []schema
	rest   *schema // nil takes everything
}

// A union is anyOf or oneOf of one schema.
type union struct {
	at       string
	branches []schema
	one      bool
}

// A condition is if, then and else of one schema.
type condition struct {
	at               string
	test             schema
	then, otherwise  schema
	hasThen, hasElse bool
	whole            schema
}

// A containment is contains with its counts.
type containment struct {
	at  string
	is  schema
	min int
	max int // -1 has no limit
}

// A normal is a conjunction whose keywords were put together: the tightest bounds, all
// required names, and the keywords that apply to parts as lists.
type normal struct {
	parts conjunction // without references and allOf
	never bool
	types typeSet
	typed string // pointer of the keyword type

	values    []any // of enum and const; nil if there is none
	valuesAt  string
	min, max  *bound
	multiples []bound

	minLength, maxLength *limit
	minItems, maxItems   *limit
	minProps, maxProps   *limit
	unique               string // pointer; "" if items may repeat
	patterns             []place
	required             map[string]string // with the pointer

	objects       []objectGroup
	arrays        []arrayGroup
	propertyNames []schema
	contains      []containment
	unions        []union
	nots          []schema
	conditions    []condition
	dependents    []dependent
	unevaluated   []schema // schemas with unevaluatedProperties or unevaluatedItems
	watched       map[string][]any
	watchedAt     map[string]string
	names         []string // of schemas that were referred to by name
	referred      []string // pointers that references led to
	tooMany       bool
	mentioned     *mentioned // nil until the first question; see mentions
}

// A mentioned has the properties that alternatives and conditions of a schema speak of: all, if
// one of them has a pattern or a rule for the others.
type mentioned struct {
	all   bool
	names map[string]bool
}

// A dependent is what the presence of a property demands.
type dependent struct {
	at       string
	name     string
	required []string
	is       *schema
}

// maxParts is the number of schemas that may apply to one value.
const maxParts = 200

// normalise puts the keywords of a conjunction together. The result is shared and must not be
// changed.
func normalise(c conjunction) *normal {
	if len(c) == 0 || c[0].side.lane == nil {
		return newNormal(c)
	}
	l := c[0].side.lane
	key := c.key()
	if n, ok := l.normals[key]; ok {
		return n
	}
	n := newNormal(c)
	c[0].side.meter.spend(n.weight())
	l.normals[key] = n
	return n
}

// weight returns the steps that it takes to put a conjunction together.
func (n *normal) weight() int {
	w := 4*len(n.parts) + len(n.values) + len(n.required) + len(n.conditions) + len(n.dependents)
	for _, g := range n.objects {
		w += len(g.names) + len(g.patterns)
	}
	for _, u := range n.unions {
		w += len(u.branches)
	}
	return w
}

// newNormal is normalise for a conjunction that was not met before.
func newNormal(c conjunction) *normal {
	n := &normal{types: anyType, required: map[string]string{}, watched: map[string][]any{}, watchedAt: map[string]string{}}
	seen := map[string]bool{}
	for _, s := range c {
		n.flatten(s, seen)
	}
	for _, s := range n.parts {
		n.take(s)
	}
	n.tightenNumbers()

	// Alternatives that list values are one list.
	n.unions = slices.DeleteFunc(n.unions, func(u union) bool {
		listed := u.values()
		if listed.isList {
			n.narrow(listed.list, u.at)
		}
		return listed.isList
	})

	// A union narrows the types, which many comparisons need.
	for _, u := range n.unions {
		var types typeSet
		for _, b := range u.branches {
			types |= shallowTypes(b, 4)
		}
		n.types &= types
	}
	if n.values != nil {
		var types typeSet
		for _, v := range n.values {
			types |= typeOfValue(v)
		}
		n.types &= types
	}
	if n.types == 0 {
		n.never = true
	}
	return n
}

// shallowTypes returns the types that a schema may take, looking through a few references.
func shallowTypes(s schema, hops int) typeSet {
	s.side.meter.spend(1)
	m, ok := s.raw.(map[string]any)
	if !ok {
		if is, _ := s.raw.(bool); is {
			return anyType
		}
		return 0
	}
	types := typesOf(m)
	if ref, ok := m["$ref"].(string); ok && hops > 0 {
		at, _ := s.side.src.target(ref)
		types &= shallowTypes(s.side.at(at), hops-1)
	}
	if all, ok := m["allOf"].([]any); ok && hops > 0 {
		for i := range all {
			types &= shallowTypes(s.child("allOf", itoa(i)), hops-1)
		}
	}
	return types
}

// typesOf returns the types in the keywords type, enum and const.
func typesOf(m map[string]any) typeSet {
	types := anyType
	switch t := m["type"].(type) {
	case string:
		types = typeBits[t]
	case []any:
		types = 0
		for _, name := range t {
			text, _ := name.(string)
			types |= typeBits[text]
		}
	}
	if list, ok := m["enum"].([]any); ok {
		var of typeSet
		for _, v := range list {
			of |= typeOfValue(v)
		}
		types &= of
	}
	if v, ok := m["const"]; ok {
		types &= typeOfValue(v)
	}
	return types
}

// flatten adds s, the schemas in its allOf and those that it refers to.
func (n *normal) flatten(s schema, seen map[string]bool) {
	id := s.side.name + s.pointer
	if seen[id] {
		return
	}
	seen[id] = true
	if len(n.parts) >= maxParts {
		n.tooMany = true
		return
	}
	m, ok := s.raw.(map[string]any)
	if !ok {
		n.parts = append(n.parts, s)
		return
	}
	if ref, ok := m["$ref"].(string); ok {
		at, _ := s.side.src.target(ref)
		n.referred = append(n.referred, at)
		if name := componentName(at); name != "" {
			n.names = append(n.names, name)
		}
		n.flatten(s.side.at(at), seen)
		if s.side.src.draft7 {
			return
		}
	}
	n.parts = append(n.parts, s)
	all, _ := m["allOf"].([]any)
	for i := range all {
		n.flatten(s.child("allOf", itoa(i)), seen)
	}
}

// componentName returns the name of a schema that has one of its own place.
func componentName(pointer string) string {
	for _, prefix := range []string{"/components/schemas/", "/$defs/", "/definitions/"} {
		if name, ok := strings.CutPrefix(pointer, prefix); ok && !strings.Contains(name, "/") {
			return unescape(name)
		}
	}
	return ""
}

// take adds the keywords of one schema.
func (n *normal) take(s schema) {
	m, ok := s.raw.(map[string]any)
	if !ok {
		if is, _ := s.raw.(bool); !is {
			n.never = true
		}
		return
	}
	m = s.ownKeywords(m)
	if types := typesOf(map[string]any{"type": m["type"]}); types != anyType || m["type"] != nil {
		n.types &= types
		n.typed = join(s.pointer, "type")
	}
	n.takeValues(s, m)
	n.takeNumbers(s, m)
	n.takeLimits(s, m)
	n.takeObject(s, m)
	n.takeArray(s, m)
	n.takeLogic(s, m)
	whole, _ := s.raw.(map[string]any)
	n.takeWatched(s, whole)
}

// ownKeywords returns the keywords of the dialect of s.
func (s schema) ownKeywords(m map[string]any) map[string]any {
	own := m
	for name := range m {
		if s.isForeign(name) {
			if len(own) == len(m) {
				own = maps.Clone(m)
			}
			delete(own, name)
		}
	}
	return own
}

// takeValues adds enum and const. Several lists leave the values that are in all of them.
func (n *normal) takeValues(s schema, m map[string]any) {
	if list, ok := m["enum"].([]any); ok {
		n.narrow(list, join(s.pointer, "enum"))
	}
	if v, ok := m["const"]; ok {
		n.narrow([]any{v}, join(s.pointer, "const"))
	}
}

// narrow leaves the values that are in one more list.
func (n *normal) narrow(list []any, at string) {
	if n.values == nil {
		n.values = append([]any{}, list...)
		n.valuesAt = at
	} else {
		allowed := newValues(list)
		n.values = slices.DeleteFunc(n.values, func(v any) bool { return !allowed.keys[keyOf(v)] })
	}
	if len(n.values) == 0 {
		n.never = true
	}
}

// takeNumbers adds the bounds of numbers and keeps the tightest. Every multipleOf is kept: a
// number must be a multiple of each.
func (n *normal) takeNumbers(s schema, m map[string]any) {
	for _, name := range []string{"minimum", "exclusiveMinimum"} {
		if v, ok := m[name].(json.Number); ok {
			b := &bound{rat(v), name != "minimum", join(s.pointer, name)}
			if n.min == nil || isTighter(b, n.min, 1) {
				n.min = b
			}
		}
	}
	for _, name := range []string{"maximum", "exclusiveMaximum"} {
		if v, ok := m[name].(json.Number); ok {
			b := &bound{rat(v), name != "maximum", join(s.pointer, name)}
			if n.max == nil || isTighter(b, n.max, -1) {
				n.max = b
			}
		}
	}
	if v, ok := m["multipleOf"].(json.Number); ok {
		n.multiples = append(n.multiples, bound{value: rat(v), at: join(s.pointer, "multipleOf")})
	}
}

// tightenNumbers makes use of integers: no number with a fraction is a multiple of one, and
// where numbers have no fraction, the bounds are integers that are taken themselves.
func (n *normal) tightenNumbers() {
	if slices.ContainsFunc(n.multiples, func(m bound) bool { return m.value.Sign() > 0 && m.value.IsInt() }) {
		n.types &^= isFraction
	}
	if n.types&number != isInteger {
		return
	}
	one := big.NewRat(1, 1)
	if n.min != nil {
		least := new(big.Rat).SetInt(floor(n.min.value))
		isBelow := least.Cmp(n.min.value) < 0
		if isBelow || n.min.exclusive {
			least.Add(least, one)
		}
		n.min = &bound{least, false, n.min.at}
	}
	if n.max != nil {
		most := new(big.Rat).SetInt(floor(n.max.value))
		isExact := most.Cmp(n.max.value) == 0
		if isExact && n.max.exclusive {
			most.Sub(most, one)
		}
		n.max = &bound{most, false, n.max.at}
	}
}

// floor returns the greatest integer that is not above a number.
func floor(r *big.Rat) *big.Int {
	quotient, rest := new(big.Int).QuoRem(r.Num(), r.Denom(), new(big.Int))
	if rest.Sign() < 0 {
		quotient.Sub(quotient, big.NewInt(1))
	}
	return quotient
}

// isTighter reports whether a excludes more than b. sign is 1 for lower bounds and -1 for
// upper ones.
func isTighter(a, b *bound, sign int) bool {
	order := a.value.Cmp(b.value) * sign
	return order > 0 || (order == 0 && a.exclusive && !b.exclusive)
}

// takeLimits adds the counts of characters, items and properties, the expressions of strings
// and the required names.
func (n *normal) takeLimits(s schema, m map[string]any) {
	limits := []struct {
		name  string
		into  **limit
		lower bool
	}{
		{"minLength", &n.minLength, true},
		{"maxLength", &n.maxLength, false},
		{"minItems", &n.minItems, true},
		{"maxItems", &n.maxItems, false},
		{"minProperties", &n.minProps, true},
		{"maxProperties", &n.maxProps, false},
	}
	for _, l := range limits {
		count, ok := countOf(m[l.name])
		if !ok {
			continue
		}
		was := *l.into
		isTighter := was == nil || (l.lower && count > was.n) || (!l.lower && count < was.n)
		if isTighter {
			*l.into = &limit{count, join(s.pointer, l.name)}
		}
	}
	if is, _ := m["uniqueItems"].(bool); is {
		n.unique = join(s.pointer, "uniqueItems")
	}
	if text, ok := m["pattern"].(string); ok {
		n.patterns = append(n.patterns, place{join(s.pointer, "pattern"), text})
	}
	list, _ := m["required"].([]any)
	for _, name := range list {
		if text, ok := name.(string); ok && n.required[text] == "" {
			n.required[text] = join(s.pointer, "required")
		}
	}
}

// countOf returns a count, at most what an int of 32 bits holds.
func countOf(v any) (int, bool) {
	text, ok := v.(json.Number)
	if !ok {
		return 0, false
	}
	r := rat(text)
	if !r.IsInt() {
		return 0, false
	}
	if !r.Num().IsInt64() || r.Num().Int64() > 1<<31-1 {
		return 1<<31 - 1, true
	}
	return int(r.Num().Int64()), true
}

// takeObject adds the keywords that describe properties. They are kept together for each
// schema, because additionalProperties speaks of the names that its own schema leaves over.
func (n *normal) takeObject(s schema, m map[string]any) {
	properties, hasNames := m["properties"].(map[string]any)
	patterns, hasPatterns := m["patternProperties"].(map[string]any)
	_, hasRest := m["additionalProperties"]

	// unevaluatedProperties is additionalProperties where nothing else looks at properties.
	restName := "additionalProperties"
	if _, ok := m["unevaluatedProperties"]; ok && !hasRest && !hasAny(m, []string{"allOf", "anyOf", "oneOf", "if", "then", "else", "$ref", "dependentSchemas", "not"}) {
		hasRest = true
		restName = "unevaluatedProperties"
	} else if ok {
		n.unevaluated = append(n.unevaluated, s)
	}
	if hasNames || hasPatterns || hasRest {
		g := objectGroup{at: s.pointer, names: map[string]schema{}}
		for name := range properties {
			g.names[name] = s.child("properties", name)
		}
		for _, text := range slices.Sorted(maps.Keys(patterns)) {
			g.patterns = append(g.patterns, namePattern{text, s.side.src.patterns.get(text), s.child("patternProperties", text)})
		}
		if hasRest {
			rest := s.child(restName)
			g.rest = &rest
		}
		n.objects = append(n.objects, g)
	}
	if _, ok := m["propertyNames"]; ok {
		n.propertyNames = append(n.propertyNames, s.child("propertyNames"))
	}
	n.takeDependents(s, m)
}

// takeDependents adds what the presence of a property demands. The keyword of draft-07 holds
// both forms: lists of names, and schemas.
func (n *normal) takeDependents(s schema, m map[string]any) {
	for _, keyword := range []string{"dependentRequired", "dependentSchemas", "dependencies"} {
		members, _ := m[keyword].(map[string]any)
		for _, name := range slices.Sorted(maps.Keys(members)) {
			d := dependent{at: join(s.pointer, keyword, name), name: name}
			if list, ok := members[name].([]any); ok {
				for _, v := range list {
					text, _ := v.(string)
					d.required = append(d.required, text)
				}
			} else {
				is := s.child(keyword, name)
				d.is = &is
			}
			n.dependents = append(n.dependents, d)
		}
	}
}

// takeArray adds the keywords that describe items. The places of the first items have two
// spellings: prefixItems, and a list of items in draft-07.
func (n *normal) takeArray(s schema, m map[string]any) {
	var g arrayGroup
	prefix, hasPrefix := m["prefixItems"].([]any)
	prefixName := "prefixItems"
	restName := "items"
	if list, ok := m["items"].([]any); ok { // draft-07
		prefix = list
		hasPrefix = true
		prefixName = "items"
		restName = "additionalItems"
	}
	for i := range prefix {
		g.prefix = append(g.prefix, s.child(prefixName, itoa(i)))
	}
	_, hasRest := m[restName]
	if _, ok := m["unevaluatedItems"]; ok {
		n.unevaluated = append(n.unevaluated, s)
	}
	if hasRest {
		rest := s.child(restName)
		g.rest = &rest
	}
	if hasPrefix || hasRest {
		n.arrays = append(n.arrays, g)
	}
	if _, ok := m["contains"]; ok {
		c := containment{at: join(s.pointer, "contains"), is: s.child("contains"), min: 1, max: -1}
		if !s.side.src.draft7 {
			if count, ok := countOf(m["minContains"]); ok {
				c.min = count
			}
			if count, ok := countOf(m["maxContains"]); ok {
				c.max = count
			}
		}
		n.contains = append(n.contains, c)
	}
}

// takeLogic adds alternatives, exclusions and conditions. They are not put together: each is
// proved by itself.
func (n *normal) takeLogic(s schema, m map[string]any) {
	for _, name := range []string{"anyOf", "oneOf"} {
		list, ok := m[name].([]any)
		if !ok {
			continue
		}
		u := union{at: join(s.pointer, name), one: name == "oneOf"}
		for i := range list {
			u.branches = append(u.branches, s.child(name, itoa(i)))
		}
		n.unions = append(n.unions, u)
	}
	if _, ok := m["not"]; ok {
		excluded := s.child("not")
		n.nots = append(n.nots, excluded)
		n.never = n.never || isTrue(conjunction{excluded})
	}
	if _, ok := m["if"]; ok && hasAny(m, []string{"then", "else"}) {
		_, hasThen := m["then"]
		_, hasElse := m["else"]
		n.conditions = append(n.conditions, condition{
			at: join(s.pointer, "if"), test: s.child("if"), then: s.child("then"), otherwise: s.child("else"),
			hasThen: hasThen, hasElse: hasElse, whole: s,
		})
	}
}

// takeWatched keeps the values of keywords that no proof covers. Keywords without a rule are
// among them.
func (n *normal) takeWatched(s schema, m map[string]any) {
	for name, value := range m {
		isKnown := slices.Contains(keywords, name) && !slices.Contains(watched, name)
		isForeign := s.isForeign(name) && !slices.Contains(onlyHolder, name)
		if (isKnown && !isForeign) || strings.HasPrefix(s.pointer, madeUp) {
			continue
		}
		if isForeign || name == "contentSchema" {
			value = s.side.src.closureOf(value)
		}
		if !slices.ContainsFunc(n.watched[name], func(v any) bool { return equal(v, value) }) {
			n.watched[name] = append(n.watched[name], value)
			slices.SortFunc(n.watched[name], func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
		}
		n.watchedAt[name] = join(s.pointer, name)
	}
}

// property returns the schemas that apply to a property.
func (n *normal) property(name string) conjunction {
	var out conjunction
	for _, g := range n.objects {
		is, found := g.names[name]
		if found {
			out = append(out, is)
		}
		for _, p := range g.patterns {
			if p.matches(name) {
				out = append(out, p.is)
				found = true
			}
		}
		if !found && g.rest != nil {
			out = append(out, *g.rest)
		}
	}
	return out
}

// rests returns the schemas that apply to a property without a name or pattern of its own.
func (n *normal) rests() conjunction {
	var out conjunction
	for _, g := range n.objects {
		if g.rest != nil {
			out = append(out, *g.rest)
		}
	}
	return out
}

// named reports whether a property is described by name.
func (n *normal) named(name string) bool {
	return slices.ContainsFunc(n.objects, func(g objectGroup) bool {
		_, ok := g.names[name]
		return ok
	})
}

// excludesName reports whether objects with a property are excluded, by a not that demands it
// and nothing else.
func (n *normal) excludesName(name string) bool {
	return slices.ContainsFunc(n.nots, func(s schema) bool {
		m, _ := s.raw.(map[string]any)
		required, _ := m["required"].([]any)
		isAlone := len(required) == 1 && required[0] == any(name)
		return isAlone && isTrue(conjunction{{s.side, madeUp, without(m, "required")}})
	})
}

// item returns the schemas that apply to the item at an index; -1 is one after all prefixes.
func (n *normal) item(i int) conjunction {
	var out conjunction
	for _, g := range n.arrays {
		switch {
		case i >= 0 && i < len(g.prefix):
			out = append(out, g.prefix[i])
		case g.rest != nil:
			out = append(out, *g.rest)
		}
	}
	return out
}

// prefixes returns the largest number of items with a schema of their own.
func (n *normal) prefixes() int {
	most := 0
	for _, g := range n.arrays {
		most = max(most, len(g.prefix))
	}
	return most
}

// propertyNamesOf returns the names of the described properties of both, sorted.
func propertyNamesOf(both ...*normal) []string {
	all := map[string]bool{}
	for _, n := range both {
		for _, g := range n.objects {
			for name := range g.names {
				all[name] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// isFalse reports whether no value can be valid for c, as far as it can be seen at once.
func isFalse(c conjunction) bool {
	return slices.ContainsFunc(c, func(s schema) bool {
		is, isBool := s.raw.(bool)
		return isBool && !is
	})
}

// isTrue reports whether c takes every value, as far as it can be seen at once.
func isTrue(c conjunction) bool {
	return !slices.ContainsFunc(c, func(s schema) bool {
		if is, ok := s.raw.(bool); ok {
			return !is
		}
		m, _ := s.raw.(map[string]any)
		for name := range m {
			if !slices.Contains(annotations, name) {
				return true
			}
		}
		return false
	})
}
