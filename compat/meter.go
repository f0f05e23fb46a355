package compat

import (
	"fmt"
	"regexp"
	"regexp/syntax"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// The work of one comparison is counted, not timed, so that two programs give the same verdict.
// A step is one schema that is looked at for a pair or for a value, one name, one branch or one
// listed value; it takes about a microsecond. Proofs and examples have budgets of their own: a
// proof that is found out to be too long is unknown, an example is left out.
const (
	MaxSteps        = 300_000 // of the proofs of one comparison
	MaxExampleSteps = 180_000 // of all searches for examples of one comparison
	maxPartSteps    = 20_000  // to find one declared part in a document
)

// boundText is the text of a finding about a comparison that was given up.
func boundText() string {
	return fmt.Sprintf("the comparison took more than %d steps, so it was given up: the schemas are too large, or refer to each other too often", MaxSteps)
}

// A meter counts steps. A nil meter counts nothing.
type meter struct {
	left    int             // of the budget
	bounded bool            // within a budget; outside of one nothing ends
	spent   int             // since the beginning, over all budgets
	stop    <-chan struct{} // see Options.Stop
}

// An overrun ends the work of a meter whose budget is spent. It is a panic, because the work is
// deep in the validator or in a proof that is worth nothing then; within takes it.
type overrun struct{}

// spend counts steps, and ends the work if the budget has no more.
func (m *meter) spend(n int) {
	if m == nil {
		return
	}
	m.spent += n
	if !m.bounded {
		return
	}
	if m.left -= n; m.left < 0 {
		panic(overrun{})
	}
	select {
	case <-m.stop:
		m.left = 0
		panic(overrun{})
	default:
	}
}

// within runs f with a budget, from which it takes the steps of f. It reports false if the
// budget did not suffice.
func (m *meter) within(budget *int, f func()) (done bool) {
	m.left = *budget
	m.bounded = true
	defer func() {
		m.bounded = false
		*budget = max(m.left, 0)
		if r := recover(); r != nil {
			if _, ok := r.(overrun); !ok {
				panic(r)
			}
		}
	}()
	if *budget == 0 {
		return false
	}
	f()
	return true
}

// metered is the vocabulary by which the validator counts the schemas that it looks at.
func metered(m *meter) *jsonschema.Vocabulary {
	return &jsonschema.Vocabulary{
		URL: documentURL + "/steps",
		Compile: func(_ *jsonschema.CompilerContext, schema map[string]any) (jsonschema.SchemaExt, error) {
			return weighed{m, weightOf(schema)}, nil
		},
	}
}

// A weighed is the weight of one schema, for the validator.
type weighed struct {
	meter  *meter
	weight int
}

// Validate counts the schema.
func (w weighed) Validate(*jsonschema.ValidatorContext, any) { w.meter.spend(w.weight) }

// weightOf returns the steps of a schema without those of the schemas in it: branches and
// listed values may end before they are counted themselves.
func weightOf(schema map[string]any) int {
	n := 1
	for _, name := range []string{"allOf", "anyOf", "oneOf", "enum", "required"} {
		list, _ := schema[name].([]any)
		n += len(list)
	}
	for _, name := range []string{"properties", "patternProperties"} {
		members, _ := schema[name].(map[string]any)
		n += len(members)
	}
	return n
}

// Bounds of the regular expressions of one document, in instructions of RE2.
const (
	maxExpression  = 10_000
	maxExpressions = 40_000
)

// expressions are the regular expressions of a document. One with more instructions than the
// bounds allow is as unsupported as one that RE2 does not have.
type expressions struct {
	mu    sync.Mutex
	known map[string]expression
	size  int
}

// An expression is a regular expression with its number of instructions; nil if it is not
// supported.
type expression struct {
	re   *regexp.Regexp
	size int
}

// get returns an expression. It is compiled once.
func (e *expressions) get(text string) expression {
	e.mu.Lock()
	defer e.mu.Unlock()
	if known, ok := e.known[text]; ok {
		return known
	}
	var out expression
	if parsed, err := syntax.Parse(text, syntax.Perl); err == nil {
		out.size = instructions(parsed)
		if out.size <= maxExpression && e.size+out.size <= maxExpressions {
			e.size += out.size
			out.re, _ = regexp.Compile(text)
		}
	}
	if e.known == nil {
		e.known = map[string]expression{}
	}
	e.known[text] = out
	return out
}

// instructions returns about the number of instructions of an expression, at most a little
// more than maxExpression.
func instructions(re *syntax.Regexp) int {
	n := 1 + len(re.Rune)/2
	for _, sub := range re.Sub {
		if n += instructions(sub); n > maxExpression {
			return n
		}
	}
	if re.Op == syntax.OpRepeat {
		n *= max(re.Min, re.Max, 1)
	}
	return n
}

// A meteredExpression counts the steps of an expression when it is tried.
type meteredExpression struct {
	expression
	meter *meter
}

// MatchString reports whether a text matches.
func (e meteredExpression) MatchString(text string) bool {
	e.meter.spend(e.size * (len(text) + 1) / 200)
	return e.re.MatchString(text)
}

// String returns the expression as it was written.
func (e meteredExpression) String() string { return e.re.String() }
