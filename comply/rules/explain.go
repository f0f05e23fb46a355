package rules

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
)

//go:embed examples.json
var exampleFile []byte

// An Example has a frame that breaks a rule and the frame of an agent that keeps it, in the
// same place of a conversation. Either may be empty.
type Example struct {
	Bad  string `json:"bad,omitempty"`
	Good string `json:"good,omitempty"`
}

var examples = sync.OnceValue(func() map[string]Example {
	var all map[string]Example
	if err := json.Unmarshal(exampleFile, &all); err != nil {
		panic(fmt.Sprintf("comply: the built-in examples are broken: %v", err)) // a test would have shown
	}
	return all
})

// ExampleOf returns the example of a rule, empty if no single frame shows it.
func ExampleOf(id string) Example { return examples()[id] }

// Since returns the version of the protocol that has the rule.
func (r Rule) Since() string {
	if r.Unstable {
		return "a draft"
	}
	return "version 1"
}

// Group returns the part of the id before its number, which names the page of the rule.
func (r Rule) Group() string {
	group, _, _ := strings.Cut(r.ID, "-")
	return group
}

// Page returns the page of the rule, relative to the folder docs.
func (r Rule) Page() string {
	return "rules/" + strings.ToLower(r.Group()) + ".md#" + strings.ToLower(r.ID)
}

// Markdown returns the explanation of the rule, as a section of a page.
func (r Rule) Markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "## %s\n\n**%s**: %s.\n\n", r.ID, r.Level, r.Text)
	if r.Harm != "" {
		fmt.Fprintf(&b, "What breaks: %s\n\n", r.Harm)
	}
	if r.Fix != "" {
		fmt.Fprintf(&b, "To do: %s.\n\n", r.Fix)
	}
	x := ExampleOf(r.ID)
	for _, part := range []struct{ title, frame string }{{"Breaks the rule", x.Bad}, {"Keeps it", x.Good}} {
		if part.frame != "" {
			fmt.Fprintf(&b, "%s:\n\n```json\n%s\n```\n\n", part.title, strings.ReplaceAll(part.frame, "```", "` ` `"))
		}
	}
	source := ""
	if r.Implied {
		source = ", implied by the schema or by JSON-RPC"
	}
	fmt.Fprintf(&b, "Since %s of the protocol%s. %s\n", r.Since(), source, r.Docs)
	return b.String()
}
