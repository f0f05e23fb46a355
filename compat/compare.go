package compat

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Options are the parameters of Compare. The zero Options compare for a consumer that uses
// everything.
type Options struct {
	// Direction of a document without operations. "" takes the direction of its type: an
	// event is a response, everything else is both. The operations of an API have directions
	// of their own, and it says nothing about them.
	Direction Direction

	// Consumers get a verdict each.
	Consumers []Consumer

	// Stop ends the comparison when it is closed; nil never is. The verdict is unknown then.
	Stop <-chan struct{}
}

// Compare returns whether a new version may replace an old one. It is a pure function: the
// same documents and options give the same verdict, with the same examples, everywhere.
func Compare(old, new Document, options Options) Verdict {
	c := newComparison(old.source(), new.source(), options.Stop)
	switch {
	case equal(c.old.tree.value, c.new.tree.value) && c.old.format == c.new.format:
		// nothing changed
	case c.old.format != c.new.format:
		c.plain("BOTH-format-of-document-changed", "", fmt.Sprintf("the format changed from %s to %s", c.old.format, c.new.format))
	case c.old.format == FormatCustom:
		c.plain("BOTH-custom-content", "", "custom content has no rules")
	default:
		c.documents(directionOf(options.Direction, c.new))
		if len(c.findings) == 0 {
			c.plain("BOTH-same-meaning", "", "the versions mean the same: only words for readers or the arrangement changed")
		}
	}

	v := Verdict{Verdict: Compatible, RulesVersion: RulesVersion, Findings: c.finish(), Consumers: []ConsumerVerdict{}, Steps: c.meter.spent, old: Document{c.old}, new: Document{c.new}}
	for _, f := range v.Findings {
		v.Verdict = worse(v.Verdict, f.Verdict)
	}
	return v.ForConsumers(options.Consumers)
}

// source returns the content of d; that of the zero Document is null.
func (d Document) source() *source {
	if d.s == nil {
		return &source{tree: &tree{lines: map[string]int{}}, format: FormatCustom}
	}
	return d.s
}

// directionOf returns the direction in which a schema is compared.
func directionOf(given Direction, s *source) Direction {
	switch {
	case given != "":
		return given
	case s.kind == typeEvent, s.kind == "" && isEventShape(s):
		return Response
	}
	return Both
}

// isEventShape reports whether a document of the small shape describes an event.
func isEventShape(s *source) bool {
	doc, _ := s.tree.value.(map[string]any)
	return s.format == FormatShape && !isFields(doc) && !isEndpoint(doc)
}

// A comparison collects the findings about two documents.
type comparison struct {
	old, new *source
	sides    map[Direction][2]*side
	findings []Finding
	index    map[string]int // of findings, by rule, pointer and direction
	generate *generator
	searches int            // for examples that are left
	tries    map[string]int // searches by the key of the finding
	meter    *meter
	steps    *int            // of all proofs that are left; shared with trials
	examples int             // steps of all examples that are left
	inUse    map[string]bool // places that operations of the new version lead to; nil until it is needed
}

// maxSearches is the number of examples that are searched for in one comparison, and maxTries
// that for one difference, which several operations may lead to.
const (
	maxSearches = 60
	maxTries    = 3
)

// newComparison returns an empty comparison. Each direction has sides of its own, because a
// property that only responses have is not demanded of requests.
func newComparison(old, new *source, stop <-chan struct{}) *comparison {
	m := &meter{stop: stop}
	steps := MaxSteps
	c := &comparison{
		old: old, new: new, index: map[string]int{}, searches: maxSearches, tries: map[string]int{}, meter: m, steps: &steps, examples: MaxExampleSteps,
		generate: newGenerator(old.tree.value, new.tree.value, m),
	}
	c.sides = map[Direction][2]*side{
		Request:  newLane(newSide("old", old, old.requests, m), newSide("new", new, new.requests, m)),
		Response: newLane(newSide("old", old, old.responses, m), newSide("new", new, new.responses, m)),
	}
	return c
}

// documents compares two documents of one format.
func (c *comparison) documents(d Direction) {
	for _, s := range []*source{c.old, c.new} {
		for _, at := range s.unsupported {
			rule := "BOTH-keyword-unsupported"
			if strings.Contains(at.text, "regular expression") {
				rule = "BOTH-pattern-unsupported"
			}
			c.plain(rule, s.original(at.pointer), at.text)
		}
	}
	switch {
	case len(c.old.operations()) > 0 || c.old.format == FormatOpenAPI || len(c.new.operations()) > 0:
		c.apis()
	case c.old.format == FormatShape:
		c.models(d, modelPointer)
		c.rest(c.old, c.new, "/"+restWord, "/"+restWord, nil)
	default:
		c.models(d, "")
		c.definitions(d)
	}
}

// models compares the schema at a pointer in both documents.
func (c *comparison) models(d Direction, pointer string) {
	at := pointer
	if at == "" {
		at = rootPointer
	}
	contexts := []string{at, ""}
	for _, s := range []*source{c.old, c.new} {
		raw, _ := lookup(s.base, pointer)
		m, _ := raw.(map[string]any)
		if title, ok := m["title"].(string); ok && !slices.Contains(contexts, title) {
			contexts = append(contexts, title)
		}
	}
	c.schemas(d, pointer, pointer, "document", contexts, "")
}

// definitions compares the named schemas of a JSON Schema that its root does not lead to. If the
// root says nothing itself, they are what the document describes.
func (c *comparison) definitions(d Direction) {
	groups := []string{"$defs", "definitions"}
	reached := c.old.reached([]string{""}, groups)
	root, _ := c.old.base.(map[string]any)
	isLibrary := isTrue(conjunction{{raw: without(without(root, groups[0]), groups[1])}})
	for _, group := range groups {
		c.namedSchemas(d, "/"+group, reached, isLibrary)
	}
}

// namedSchemas compares the schemas below a pointer that nothing else leads to. If they are not
// what the document describes, they matter to the consumers alone that declared them.
func (c *comparison) namedSchemas(d Direction, group string, reached map[string]bool, matter bool) {
	olds := c.old.members(group)
	news := c.new.members(group)
	for _, name := range slices.Sorted(maps.Keys(olds)) {
		at := join(group, name)
		switch _, ok := lookup(c.new.base, at); {
		case reached[at]:
		case !matter && (!ok || c.old.closureOf(olds[name]) != c.new.closureOf(news[name])):
			c.add(Finding{Rule: "BOTH-unused-schema-changed", Pointer: at, Direction: Both, Text: "the schema " + name + " changed, and nothing in the document refers to it", Parts: []string{at, name}})
		case !matter:
		case !ok:
			c.add(Finding{Rule: "BOTH-schema-removed", Pointer: at, Direction: Both, Text: "the schema " + name + " is gone", Parts: []string{at, name}})
		default:
			c.schemas(d, at, at, "document of "+name, []string{at, name}, "")
		}
	}
}

// reached returns the places that references lead to from given places, directly or not.
// Members with the names in skip are not looked into at a given place itself.
func (s *source) reached(from, skip []string) map[string]bool {
	out := map[string]bool{}
	var queue []any
	for _, at := range from {
		raw, _ := lookup(s.base, at)
		if m, ok := raw.(map[string]any); ok {
			m = maps.Clone(m)
			for _, name := range skip {
				delete(m, name)
			}
			raw = m
		}
		queue = append(queue, raw)
	}
	for len(queue) > 0 {
		for _, ref := range referencesIn(queue[0], nil) {
			at, ok := s.target(ref)
			if ok && !out[at] {
				out[at] = true
				value, _ := lookup(s.base, at)
				queue = append(queue, value)
			}
		}
		queue = queue[1:]
	}
	return out
}

// referencesIn appends the references in a value at any depth, in order.
func referencesIn(value any, out []string) []string {
	switch v := value.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			if ref, ok := v[name].(string); ok && name == "$ref" {
				out = append(out, ref)
			}
			out = referencesIn(v[name], out)
		}
	case []any:
		for _, item := range v {
			out = referencesIn(item, out)
		}
	}
	return out
}

// schemas compares the schema at a pointer of the old version with one of the new version.
// where is the place of a document; operation is that of the schemas, "" if there is none.
func (c *comparison) schemas(d Direction, oldAt, newAt, where string, contexts []string, operation string) {
	if d == Both {
		c.schemas(Request, oldAt, newAt, where, contexts, operation)
		c.schemas(Response, oldAt, newAt, where, contexts, operation)
		return
	}
	sides := c.sides[d]
	sub := conjunction{sides[0].at(oldAt)}
	sup := conjunction{sides[1].at(newAt)}
	if d == Response {
		sub = conjunction{sides[1].at(newAt)}
		sup = conjunction{sides[0].at(oldAt)}
	}
	if sameSchemas(sub, sup) {
		return
	}
	p := newComparer(d, c.meter)
	isDone := c.meter.within(c.steps, func() { p.contain(sub, sup, position{contexts: contexts}) })
	if !isDone { // gaps that were found on the way might have been taken back
		p = newComparer(d, c.meter)
		p.add(gap{kind: kindBound, verdict: Unknown, sub: sub, sup: sup, at: position{contexts: contexts}, text: boundText()})
	}

	// A proof without a gap is a finding of its own, for people.
	isProved := !p.failed(0)
	if isProved && d == Request {
		isProved = !c.formatsLost(sub[0], sup[0], c.parts(contexts, operation))
	}
	if isProved {
		rule := "REQ-accepts-no-less"
		text := "the new version takes every document that the old one took"
		if d == Response {
			rule = "RES-gives-no-more"
			text = "every document of the new version is one that the old one allowed"
		}
		c.add(Finding{Rule: rule, Pointer: c.new.original(newAt), Direction: d, Text: text, Parts: c.parts(contexts, operation)})
	}
	sub[0].side.lane.keep(p)
	for _, g := range p.gaps {
		c.gap(d, g, sub, sup, where, operation)
	}
}

// formatsLost adds a finding for each format that the old version of a request has and the new
// one has nowhere, as where a whole description of items was dropped. The proof does not see
// them: every document is still taken. It reports whether there is one.
func (c *comparison) formatsLost(old, new schema, parts []string) bool {
	was := old.formats()
	is := new.formats()
	lost := false
	for _, word := range slices.Sorted(maps.Keys(was)) {
		if _, ok := is[word]; !ok {
			c.add(Finding{Rule: "BOTH-format-changed", Pointer: c.old.original(was[word]), Direction: Both, Text: word + " is gone", Parts: parts})
			lost = true
		}
	}
	return lost
}

// gap turns a gap of a proof into a finding, with an example.
func (c *comparison) gap(d Direction, g *gap, sub, sup conjunction, where, operation string) {
	rule, ok := ruleOf(d, g.kind)
	if !ok {
		rule = "BOTH-difference-without-rule"
	}
	f := Finding{Rule: rule, Verdict: g.verdict, Pointer: c.place(g.pointer), Direction: d, Text: g.text, Parts: c.parts(g.at.contexts, operation)}
	if strings.HasPrefix(rule, "BOTH-") {
		f.Direction = Both
	}
	if f.Pointer != "" && !slices.Contains(f.Parts, f.Pointer) {
		f.Parts = append(f.Parts, f.Pointer)
	}
	plain := []kind{kindUndescribed, kindForbidden, kindUnion, kindType}
	isPromise := d == Response && f.Direction == Response && g.verdict != Compatible && !slices.Contains(plain, g.kind)
	if isPromise {
		f.Text = "no longer guaranteed: " + g.text
	}
	if g.kind == kindForbidden {
		if at := strings.TrimPrefix(g.at.contexts[0], rootPointer); strings.HasPrefix(at, "/") {
			f.Pointer = c.place(at)
		}
		f.Text = "the property is no longer allowed"
		if d == Response {
			f.Text = "the property is new, and the old version allowed no other properties"
		}
	}

	// A document makes a breaking finding of one that could not be decided.
	if g.verdict != Compatible && hasExample(g) {
		f.NoExample = NoExampleFound
		if c.searches > 0 && c.tries[f.key()] < maxTries {
			c.searches--
			c.tries[f.key()]++
			c.meter.within(&c.examples, func() { c.show(&f, g, sub, sup, where) })
		}
		if f.Example != nil {
			c.tries[f.key()] = maxTries
		}
	}
	c.add(f)
}

// show searches for the example of a finding.
func (c *comparison) show(f *Finding, g *gap, sub, sup conjunction, where string) {
	value, ok := c.generate.example(sub, sup, g)
	if !ok || isGuess(sub, sup, value) {
		return
	}
	f.Example = &Example{Document: rawOf(value), Where: where, TakenBy: sub[0].side.name, RefusedBy: sup[0].side.name, Reason: refusal(sup, value)}
	f.NoExample = ""
	f.Verdict = Breaking
}

// isGuess reports whether the answers about a value rest on an expression that RE2 does not have.
func isGuess(sub, sup conjunction, value any) bool {
	before := sub[0].side.check.guesses + sup[0].side.check.guesses
	takes(sub, value)
	takes(sup, value)
	return sub[0].side.check.guesses+sup[0].side.check.guesses > before
}

// hasExample reports whether a document can show a gap: differences of keywords that the
// validator does not look at have none.
func hasExample(g *gap) bool {
	switch g.kind {
	case kindUndescribed:
		return g.verdict == Breaking
	case kindFormat:
		return true
	case kindBound:
		return false
	}
	return !isWatched(g.kind)
}

// parts returns the names of a place for consumers.
func (c *comparison) parts(contexts []string, operation string) []string {
	var out []string
	for _, at := range contexts {
		switch {
		case at == "" || at == everything:
			at = everything
		case at == rootPointer:
		case strings.HasPrefix(at, rootPointer):
			at = at[1:]
		}
		if strings.HasPrefix(at, "/") {
			at = c.place(at)
			if at == "" {
				at = rootPointer
			}
		}
		out = append(out, at)
	}
	if operation != "" {
		out = append(out, operation)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// place returns the pointer into a text for a pointer into a rewritten document. A part that
// is in the old version alone has the pointer of that version.
func (c *comparison) place(pointer string) string {
	if _, ok := c.new.origin[pointer]; !ok {
		if at, ok := c.old.origin[pointer]; ok {
			return at
		}
	}
	return c.new.original(pointer)
}

// plain adds a finding about a whole document.
func (c *comparison) plain(rule, pointer, text string) {
	c.add(Finding{Rule: rule, Pointer: pointer, Direction: Both, Text: text, Parts: []string{everything}})
}

// add adds a finding. The same difference that was met in several operations is one finding
// with the parts of all.
func (c *comparison) add(f Finding) {
	if f.Verdict == "" {
		r, _ := RuleByID(f.Rule)
		f.Verdict = r.Verdict
	}
	key := f.key()
	i, ok := c.index[key]
	if !ok {
		c.index[key] = len(c.findings)
		f.Consumers = []string{}
		c.findings = append(c.findings, f)
		return
	}
	known := &c.findings[i]
	known.Verdict = worse(known.Verdict, f.Verdict)
	if known.Example == nil {
		known.Example = f.Example
		known.NoExample = f.NoExample
	}
	known.Parts = append(known.Parts, f.Parts...)
	slices.Sort(known.Parts)
	known.Parts = slices.Compact(known.Parts)
}

// key identifies a difference within a comparison.
func (f Finding) key() string {
	return f.Rule + "\n" + f.Pointer + "\n" + string(f.Direction) + "\n" + f.Text
}

// finish returns the findings, the worst first.
func (c *comparison) finish() []Finding {
	slices.SortStableFunc(c.findings, func(a, b Finding) int { return b.Verdict.rank() - a.Verdict.rank() })
	if c.findings == nil {
		return []Finding{}
	}
	return c.findings
}

// rest compares the members of two objects that have no comparison of their own. handled
// lists the members that have one, or that say nothing.
func (c *comparison) rest(old, new *source, oldAt, newAt string, handled []string) {
	c.restIn(old, new, oldAt, newAt, handled, everything)
}

// restIn is rest for members that belong to one part, such as an operation.
func (c *comparison) restIn(old, new *source, oldAt, newAt string, handled []string, part string) {
	for _, f := range differences(old, new, oldAt, newAt, handled) {
		at := f.Pointer
		f.Pointer = new.original(at)
		if _, ok := lookup(new.base, at); !ok {
			f.Pointer = old.original(at)
		}
		f.Parts = []string{f.Pointer, part}
		c.add(f)
	}
}

// rest compares the members of two objects of the operation that have no comparison of their
// own.
func (x *exchange) rest(oldAt, newAt string, handled []string) {
	for _, f := range differences(x.comparison.old, x.comparison.new, oldAt, newAt, handled) {
		x.add(x.finding(f.Rule, f.Pointer, f.Direction, "%s", f.Text))
	}
}

// differences returns a finding for each member of two objects that differs and is not in
// handled. The pointers lead into base. A member that refers to others is compared with
// everything that it refers to.
func differences(old, new *source, oldAt, newAt string, handled []string) []Finding {
	olds := old.members(oldAt)
	news := new.members(newAt)
	all := maps.Clone(olds)
	if all == nil {
		all = map[string]any{}
	}
	maps.Copy(all, news)
	var out []Finding
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if slices.Contains(handled, name) || old.closureOf(olds[name]) == new.closureOf(news[name]) {
			continue
		}
		_, had := olds[name]
		at := join(newAt, name)
		if _, ok := news[name]; !ok {
			at = join(oldAt, name)
		}
		rule := "BOTH-difference-without-rule"
		switch {
		case isExtension(name) && name != restWord:
			rule = "BOTH-extension-changed"
		case had && old.format == FormatOpenAPI && old.wordlessClosure(olds[name], name) == new.wordlessClosure(news[name], name):
			continue
		}
		out = append(out, Finding{Rule: rule, Pointer: at, Direction: Both, Text: name + " changed"})
	}
	return out
}

// readerWords are members of the objects of OpenAPI that are for readers.
var readerWords = []string{"deprecated", "description", "example", "examples", "externalDocs", "summary", "tags", "title"}

// wordless returns a value of an OpenAPI document without its words for readers. names is true
// for an object whose members have names of their author.
func wordless(value any, names bool) any {
	switch v := value.(type) {
	case []any:
		out := make([]any, len(v))
		for i, item := range v {
			out[i] = wordless(item, false)
		}
		return out
	case map[string]any:
		out := map[string]any{}
		for name, member := range v {
			switch {
			case names:
				out[name] = wordless(member, false)
			case slices.Contains(readerWords, name):
			case name == "schema":
				out[name] = bare(member)
			case isExtension(name) || slices.Contains(dataWords, name):
				out[name] = member
			default:
				out[name] = wordless(member, slices.Contains(nameMaps, name))
			}
		}
		return out
	}
	return value
}

// wordlessClosure is closureOf without words for readers, for a member of an object of OpenAPI.
func (s *source) wordlessClosure(value any, name string) string {
	return s.closureWith(value, func(v any, at string) any {
		switch {
		case strings.HasPrefix(at, "/components/schemas/"):
			return bare(v)
		case at == "":
			return wordless(v, slices.Contains(nameMaps, name))
		}
		return wordless(v, false)
	})
}

// closureOf returns a text that is equal for two values that are written in the same way,
// with everything that they refer to.
func (s *source) closureOf(value any) string {
	return s.closureWith(value, func(v any, _ string) any { return v })
}

// closureWith is closureOf with a function that rewrites each value before it is written. at is
// the place of a value that was referred to, "" for the first one.
func (s *source) closureWith(value any, rewrite func(v any, at string) any) string {
	var b strings.Builder
	b.Write(rawOf(rewrite(value, "")))
	seen := map[string]bool{}
	queue := referencesIn(value, nil)
	for len(queue) > 0 {
		ref := queue[0]
		queue = queue[1:]
		if seen[ref] {
			continue
		}
		seen[ref] = true
		at, _ := s.target(ref)
		target, _ := lookup(s.base, at)
		b.WriteString("\n" + ref + "\n")
		b.Write(rawOf(rewrite(target, at)))
		queue = referencesIn(target, queue)
	}
	return b.String()
}
