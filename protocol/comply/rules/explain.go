package rules

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
)

//go:embed examples.txt
var exampleFile string

// An Example has a conversation in which an agent or a client breaks a rule, and one in which it
// keeps it: a line for each message, those of the client behind "> ", and facts that no message
// shows in parentheses. Both are as short as the rule allows, often one message.
type Example struct {
	Bad  string `json:"bad,omitempty"` // empty if no agent can break the rule; see [Unbreakable]
	Good string `json:"good,omitempty"`
}

// examples reads the files of examples. A line "-- ID bad --" or "-- ID good --" begins each.
// The files are embedded and small; they are read at the first use.
var examples = sync.OnceValue(func() map[string]Example {
	all := map[string]Example{}
	for part := range strings.SplitSeq(strings.TrimPrefix(exampleFile+clientExampleFile, "-- "), "\n-- ") {
		head, text, _ := strings.Cut(part, " --\n")
		id, kind, _ := strings.Cut(head, " ")
		x, text := all[id], strings.TrimSuffix(text, "\n")
		if kind == "bad" {
			x.Bad = text
		} else {
			x.Good = text
		}
		all[id] = x
	}
	return all
})

// ExampleOf returns the example of a rule, empty for a rule that is not in the table.
func ExampleOf(id string) Example { return examples()[id] }

// Since returns the version of the protocol that has the rule.
func (r Rule) Since() string {
	if r.Unstable {
		return "a draft"
	}
	return "version 1"
}

// Group returns the part of the id before its number, which names the page of the rule. All
// rules for clients are on one page.
func (r Rule) Group() string {
	if r.ForClient() {
		return "clients"
	}
	group, _, _ := strings.Cut(r.ID, "-")
	return group
}

// Page returns the page of the rule, relative to the folder docs.
func (r Rule) Page() string {
	return "rules/" + strings.ToLower(r.Group()) + ".md#" + strings.ToLower(r.ID)
}

// Markdown returns the explanation of the rule, as a section of a page.
// The pages in docs/rules consist of these sections; make compliance writes them.
func (r Rule) Markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "## %s\n\n**%s**: %s.\n\n", r.ID, r.Level, r.Text)
	if r.Harm != "" {
		fmt.Fprintf(&b, "What breaks: %s\n\n", r.Harm)
	}
	if r.Fix != "" {
		fmt.Fprintf(&b, "To do: %s.\n\n", r.Fix)
	}

	// The legend is written once, at the first example that has messages of the client.
	x, legend := ExampleOf(r.ID), " (`>` marks the messages of the client)"
	for _, part := range []struct{ title, text string }{{"Breaks the rule", x.Bad}, {"Keeps it", x.Good}} {
		if part.text == "" {
			continue
		}
		language := "json"
		if !json.Valid([]byte(part.text)) {
			language = "text"
		}
		if strings.Contains("\n"+part.text, "\n> ") {
			part.title, legend = part.title+legend, ""
		}
		fmt.Fprintf(&b, "%s:\n\n```%s\n%s\n```\n\n", part.title, language, part.text)
	}

	if reason := Unbreakable(r.ID); x.Bad == "" && reason != "" {
		fmt.Fprintf(&b, "No message breaks the rule: %s.\n\n", reason)
	}

	source := ""
	if r.Implied {
		source = ", implied by the schema or by JSON-RPC"
	}
	fmt.Fprintf(&b, "Since %s of the protocol%s. %s\n", r.Since(), source, r.Docs)
	return b.String()
}
