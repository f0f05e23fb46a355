package compat

import (
	"errors"
	"net/url"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// documentURL is the name of a document inside the validator. It is never fetched.
const documentURL = "parley-document:///document"

// errFetch is the answer to every attempt to load another document.
var errFetch = errors.New("references to other documents are never fetched")

// noLoader refuses to load documents.
type noLoader struct{}

// Load returns an error for every address.
func (noLoader) Load(string) (any, error) { return nil, errFetch }

// A looseExpression stands for an expression that RE2 does not have. Documents with one are
// unknown, and a value that it was asked about proves nothing.
type looseExpression struct {
	text    string
	guesses *int // how often it was asked
}

// MatchString takes every text.
func (e looseExpression) MatchString(string) bool {
	*e.guesses++
	return true
}

// String returns the expression as it was written.
func (e looseExpression) String() string { return e.text }

// unsupportedText returns the text of a finding about an expression.
func unsupportedText(pattern string) string {
	return "the regular expression " + shortText(pattern) + " is not one of RE2, or too large, and cannot be compared"
}

// A checker validates values against the schemas of one document. It compiles each schema
// once and is used by one goroutine.
type checker struct {
	compiler *jsonschema.Compiler
	compiled map[string]*jsonschema.Schema // nil for a schema that cannot be compiled
	guesses  int                           // answers of expressions that RE2 does not have
	meter    *meter
	patterns *expressions
}

// expression is the engine of regular expressions of the validator.
func (c *checker) expression(pattern string) (jsonschema.Regexp, error) {
	if e := c.patterns.get(pattern); e.re != nil {
		return meteredExpression{e, c.meter}, nil
	}
	return looseExpression{pattern, &c.guesses}, nil
}

// newChecker returns a checker for the schemas in root, which counts its steps.
func newChecker(root any, draft7 bool, patterns *expressions, m *meter) *checker {
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	if draft7 {
		c.DefaultDraft(jsonschema.Draft7)
	}
	c.AssertFormat()
	c.UseLoader(noLoader{})
	out := &checker{compiler: c, compiled: map[string]*jsonschema.Schema{}, meter: m, patterns: patterns}
	if m != nil {
		c.RegisterVocabulary(metered(m))
		c.AssertVocabs()
	}
	c.UseRegexpEngine(out.expression)
	c.AddResource(documentURL, root) // fails only for a name that is taken
	return out
}

// compile returns the schema at a pointer.
func (c *checker) compile(pointer string) (*jsonschema.Schema, error) {
	if sch, ok := c.compiled[pointer]; ok {
		return sch, nil
	}
	var escaped strings.Builder
	for _, part := range strings.Split(pointer, "/") {
		escaped.WriteString("/" + url.PathEscape(part))
	}
	fragment := strings.TrimPrefix(escaped.String(), "/")
	sch, err := c.compiler.Compile(documentURL + "#" + fragment)
	if err != nil {
		return nil, err
	}
	c.compiled[pointer] = sch
	return sch, nil
}

// validate returns the reason why the schema at a pointer refuses a value, "" if it takes it.
func (c *checker) validate(pointer string, value any) string {
	sch, err := c.compile(pointer)
	if err != nil {
		return ""
	}
	err = sch.Validate(value)
	var refused *jsonschema.ValidationError
	switch {
	case err == nil:
		return ""
	case errors.As(err, &refused):
		return reasonOf(refused)
	}
	return err.Error()
}

// reasonOf returns the first leaf of an error of the validator: the place in the value, and
// the reason.
func reasonOf(err *jsonschema.ValidationError) string {
	leaf := err
	for len(leaf.Causes) > 0 {
		leaf = leaf.Causes[0]
	}
	unit := leaf.BasicOutput()
	text := "it is not valid"
	if unit.Error != nil {
		text = unit.Error.String()
	} else if len(unit.Errors) > 0 && unit.Errors[0].Error != nil {
		text = unit.Errors[0].Error.String()
	}
	if len(leaf.InstanceLocation) > 0 {
		text = join("", leaf.InstanceLocation...) + ": " + text
	}
	return text
}

// compileAll compiles the schemas at the pointers, so that a schema that breaks its own rules
// is refused with its place.
func (s *source) compileAll(pointers []string) error {
	c := newChecker(s.base, s.draft7, &s.patterns, nil)
	for _, pointer := range pointers {
		_, err := c.compile(pointer)
		if err == nil {
			continue
		}
		var invalid *jsonschema.SchemaValidationError
		var refused *jsonschema.ValidationError
		if errors.As(err, &invalid) && errors.As(invalid.Err, &refused) {
			return s.schemaRefusal(invalid.URL, refused)
		}
		return s.tree.refuse(s.original(pointer), "%s", strings.ReplaceAll(err.Error(), documentURL, ""))
	}
	return nil
}

// schemaRefusal returns the deepest place at which a schema breaks the rules of schemas.
func (s *source) schemaRefusal(at string, err *jsonschema.ValidationError) *Refusal {
	_, fragment, _ := strings.Cut(at, "#")
	leaf := err
	for len(leaf.Causes) > 0 {
		next := leaf.Causes[0]
		for _, cause := range leaf.Causes {
			if len(cause.InstanceLocation) > len(next.InstanceLocation) {
				next = cause
			}
		}
		leaf = next
	}
	pointer := decodePercent(fragment) + join("", leaf.InstanceLocation...)
	reason := reasonOf(leaf)
	if _, text, ok := strings.Cut(reason, ": "); ok && strings.HasPrefix(reason, "/") {
		reason = text
	}
	return s.tree.refuse(s.original(pointer), "not a valid schema: %s", reason)
}

// decodePercent returns the fragment of a URL as it was meant.
func decodePercent(fragment string) string {
	if text, err := url.PathUnescape(fragment); err == nil {
		return text
	}
	return fragment
}
