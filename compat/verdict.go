package compat

import (
	"encoding/json"
	"slices"
	"strings"
)

// A Word is the result of a comparison.
type Word string

// The words, from the best to the worst.
const (
	Compatible Word = "compatible" // a rule explains every difference
	Unknown    Word = "unknown"    // a difference has no rule, or could not be decided
	Breaking   Word = "breaking"   // a consumer that relied on the old version fails with the new one
)

// rank orders the words.
func (w Word) rank() int { return slices.Index([]Word{Compatible, Unknown, Breaking}, w) }

// worse returns the worse of two words.
func worse(a, b Word) Word {
	if b.rank() > a.rank() {
		return b
	}
	return a
}

// A Direction is the way in which documents flow between a provider and its consumers.
type Direction string

// The directions.
const (
	Request  Direction = "request"  // consumers send documents to the provider
	Response Direction = "response" // the provider sends documents to consumers
	Both     Direction = "both"
)

// Directions lists the directions in the order of the documentation.
var Directions = []Direction{Request, Response, Both}

// A Verdict is the result of comparing two versions.
type Verdict struct {
	Verdict      Word              `json:"verdict"`       // for a consumer that uses everything
	RulesVersion int               `json:"rules_version"` // RulesVersion of the program that compared
	Findings     []Finding         `json:"findings"`
	Consumers    []ConsumerVerdict `json:"consumers"` // of Options.Consumers, in their order
	Steps        int               `json:"-"`         // of the comparison, see MaxSteps; 0 in a Verdict that was decoded

	old, new Document // to find declared parts; absent in a Verdict that was decoded
}

// A Finding is one difference, or a group of differences, that a rule explains.
type Finding struct {
	Rule      string    `json:"rule"`    // id in the table of rules
	Verdict   Word      `json:"verdict"` // for a consumer that uses everything
	Pointer   string    `json:"pointer"` // into the new version, or into the old one for a part that is gone
	Direction Direction `json:"direction"`
	Text      string    `json:"text"`
	Parts     []string  `json:"parts"`             // pointers, operations and fields that the difference touches
	Consumers []string  `json:"consumers"`         // that use one of the parts
	Example   *Example  `json:"example,omitempty"` // of a finding that is not compatible

	// NoExample says why there is no example where one is expected.
	NoExample string `json:"no_example,omitempty"`
}

// NoExampleFound is the text of NoExample when the search ended without a document.
const NoExampleFound = "no example found within the bound"

// An Example is a document that one version takes and the other refuses. The validator
// confirmed both.
type Example struct {
	Document  json.RawMessage `json:"document"` // the value of the part at Where
	Where     string          `json:"where"`    // such as "body of POST /users" or "document"
	TakenBy   string          `json:"taken_by"` // old or new
	RefusedBy string          `json:"refused_by"`
	Reason    string          `json:"reason"` // of the refusal
}

// A Consumer is a repository with the parts that it uses. Without parts it uses everything.
type Consumer struct {
	Repository string
	Parts      []string
}

// A ConsumerVerdict is the verdict for one consumer.
type ConsumerVerdict struct {
	Repository string `json:"repository"`
	Verdict    Word   `json:"verdict"`
	Findings   []int  `json:"findings"` // indexes of the findings that touch a declared part

	// Missing lists declared parts that the old version does not have. They match nothing, so
	// the verdict is at least unknown if there is a difference that is not compatible.
	Missing []string `json:"missing,omitempty"`
}

// For returns the verdict for a consumer that uses the given parts; without parts it uses
// everything. A part is a JSON pointer into the old version, an operation such as
// "GET /users/{id}", or a field such as "User.avatar". A consumer of a part also uses
// everything inside it. Several parts are the union of what each names.
//
// For a Verdict that was decoded from JSON the documents are not known: each part counts as
// present.
func (v Verdict) For(parts []string) ConsumerVerdict {
	out := ConsumerVerdict{Verdict: Compatible, Findings: []int{}}
	for _, part := range parts {
		if v.old.s != nil && !v.old.Has(part) && !v.new.Has(part) {
			out.Missing = append(out.Missing, part)
		}
	}
	for i, f := range v.Findings {
		touched := len(parts) == 0 || slices.ContainsFunc(parts, func(part string) bool { return f.Touches(part) })
		if !touched {
			continue
		}
		out.Findings = append(out.Findings, i)
		word := f.Verdict
		if len(parts) > 0 {
			word = f.IfUsed()
		}
		out.Verdict = worse(out.Verdict, word)
	}
	if len(out.Missing) > 0 && v.Verdict != Compatible {
		out.Verdict = worse(out.Verdict, Unknown)
	}
	return out
}

// ForConsumers returns v with the verdicts for consumers in place of those that it has.
func (v Verdict) ForConsumers(consumers []Consumer) Verdict {
	v.Findings = slices.Clone(v.Findings)
	for i := range v.Findings {
		v.Findings[i].Consumers = []string{}
	}
	v.Consumers = []ConsumerVerdict{}
	for _, consumer := range consumers {
		one := v.For(consumer.Parts)
		one.Repository = consumer.Repository
		v.Consumers = append(v.Consumers, one)
		for _, i := range one.Findings {
			v.Findings[i].Consumers = append(v.Findings[i].Consumers, consumer.Repository)
		}
	}
	return v
}

// Between returns v with the two documents that it is about, for a Verdict that was decoded.
// For then tells which declared parts neither of them has.
func (v Verdict) Between(old, new Document) Verdict {
	v.old = old
	v.new = new
	return v
}

// IfUsed returns the verdict of the finding for a consumer that declared a part that it
// touches. It is worse than Verdict for a removed optional property of a response: a consumer
// that reads the property breaks, one that declared nothing may or may not read it.
func (f Finding) IfUsed() Word {
	if r, ok := RuleByID(f.Rule); ok && r.IfUsed {
		return worse(f.Verdict, Breaking)
	}
	return f.Verdict
}

// Touches reports whether a difference concerns a declared part: one is the other, or lies
// inside it.
func (f Finding) Touches(part string) bool {
	part = partKey(part)
	return slices.ContainsFunc(f.Parts, func(p string) bool {
		return p == everything || nested(partKey(p), part) || nested(part, partKey(p))
	})
}

// partKey returns a part in the form in which parts are compared: operations without the
// names of path parameters, fields without marks for items, pointers without the # of
// references.
func partKey(part string) string {
	part = strings.TrimSpace(part)
	if method, path, ok := strings.Cut(part, " "); ok && strings.HasPrefix(strings.TrimSpace(path), "/") {
		return strings.ToUpper(method) + " " + pathKey(strings.TrimSpace(path))
	}
	if strings.HasPrefix(part, "#") {
		return decodePercent(strings.TrimPrefix(part, "#"))
	}
	if strings.HasPrefix(part, "/") {
		return part
	}
	return strings.ReplaceAll(part, "[]", "")
}

// isOperation reports whether the key of a part is that of an operation.
func isOperation(key string) bool {
	method, path, ok := strings.Cut(key, " ")
	return ok && method != "" && strings.HasPrefix(path, "/")
}

// nested reports whether the part inner lies in outer or is the same. A star stands for any
// name.
func nested(inner, outer string) bool {
	if inner == outer {
		return true
	}
	separator := "."
	switch {
	case isOperation(inner) || isOperation(outer):
		return false
	case strings.HasPrefix(inner, "/") && (strings.HasPrefix(outer, "/") || outer == ""):
		separator = "/"
	case strings.HasPrefix(inner, "/") || strings.HasPrefix(outer, "/"):
		return false
	}
	a := strings.Split(inner, separator)
	b := strings.Split(outer, separator)
	if outer == "" {
		return separator == "/"
	}
	if len(b) > len(a) {
		return false
	}
	for i := range b {
		if a[i] != b[i] && a[i] != "*" && b[i] != "*" {
			return false
		}
	}
	return true
}

// Has reports whether a document has a part: a JSON pointer that leads to a value, an
// operation, or a field of a schema.
func (d Document) Has(part string) bool {
	if d.s == nil {
		return false
	}
	key := partKey(part)
	switch {
	case isOperation(key):
		for _, op := range d.s.operations() {
			if op.key == key {
				return true
			}
		}
		return false
	case key == "" || strings.HasPrefix(key, "/"):
		_, ok := lookup(d.s.tree.value, key)
		return ok
	}
	return d.s.hasField(strings.Split(key, "."))
}

// hasField reports whether a schema of the document has a field. The first name is that of a
// schema, or that of a field of a schema without a name.
func (s *source) hasField(names []string) (has bool) {
	m := &meter{}
	budget := maxPartSteps
	m.within(&budget, func() { has = s.findField(newSide("old", s, s.base, m), names) })
	return has
}

// findField is hasField as long as its steps suffice.
func (s *source) findField(side *side, names []string) bool {
	f := fieldFinder{seen: map[string]bool{}}
	for _, prefix := range []string{"/components/schemas", "/$defs", "/definitions"} {
		at := join(prefix, names[0])
		if _, ok := lookup(s.base, at); ok && f.find(conjunction{side.at(at)}, names[1:]) {
			return true
		}
	}
	for _, at := range s.unnamed() {
		c := conjunction{side.at(at)}
		if m, _ := c[0].raw.(map[string]any); m["title"] == names[0] && f.find(c, names[1:]) {
			return true
		}
		if f.find(c, names) {
			return true
		}
	}
	return false
}

// A fieldFinder looks for a field. It looks at each schema once for the same rest of its name.
type fieldFinder struct {
	seen map[string]bool
}

// find reports whether a schema describes a field, in itself, in its alternatives or in its
// items.
func (f fieldFinder) find(c conjunction, names []string) bool {
	if len(names) == 0 {
		return true
	}
	key := itoa(len(names)) + " " + c.key()
	if len(c) == 0 || f.seen[key] {
		return false
	}
	f.seen[key] = true
	n := newNormal(c)
	c[0].side.meter.spend(1 + n.weight())
	if n.named(names[0]) && f.find(n.property(names[0]), names[1:]) {
		return true
	}
	for _, u := range n.unions {
		for _, branch := range u.branches {
			if f.find(conjunction{branch}, names) {
				return true
			}
		}
	}
	return f.find(n.item(-1), names)
}
