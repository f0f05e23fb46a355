package report

import (
	_ "embed"
	"strings"
)

// The texts of the prompts. Each ends with an example that both modes read without a
// diagnostic.
var (
	//go:embed prompts/system.txt
	systemPrompt string
	//go:embed prompts/closure.txt
	closurePrompt string
	//go:embed prompts/json.txt
	jsonPrompt string
)

//go:embed report.schema.json
var reportSchema string

//go:embed dispatch.schema.json
var dispatchSchema string

//go:embed testdata/vectors.json
var vectors string

// Schema returns the JSON Schema (2020-12) of the JSON form of a report, for models
// with structured output.
func Schema() string { return reportSchema }

// DispatchSchema returns the JSON Schema of the JSON form of a dispatch.
func DispatchSchema() string { return dispatchSchema }

// Vectors returns the test vectors of this package as JSON, for readers in other
// languages. Its member about describes the others.
func Vectors() string { return vectors }

// A Prompt is a text for an agent.
type Prompt struct {
	Name  string `json:"name"`
	Text  string `json:"text"`
	Tools bool   `json:"tools"` // whether the agent should have its tools when it answers
}

// Prompts returns the texts that make an agent answer with a report:
//
//   - system goes into the instructions of the agent.
//   - closure is one more turn after the work, without tools, for an agent that
//     did not answer with a report.
//   - json goes into the instructions of an agent that answers in JSON.
//
// The parser does not depend on them.
func Prompts() []Prompt {
	return []Prompt{{"system", systemPrompt, true}, {"closure", closurePrompt, false}, {"json", jsonPrompt, true}}
}

// Closure returns the prompt of the closing turn for an agent whose answer could not be
// used, with the reasons. The turn offers no tools: only the report is left to do.
func Closure(reasons []Diagnostic) Prompt {
	p := Prompt{Name: "closure", Text: closurePrompt}
	var b strings.Builder
	for _, d := range reasons {
		if d.Code.Severity() != SeverityNote {
			b.WriteString("- " + oneLine(d.Message) + "\n")
		}
	}
	if b.Len() > 0 {
		p.Text = "Your last answer could not be used:\n" + b.String() + "\n" + p.Text
	}
	return p
}
