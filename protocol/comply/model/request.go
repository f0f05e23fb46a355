package model

import (
	"slices"
	"strings"

	"github.com/parley-agents/parley/internal/ground/text/pattern"
)

// A request is the request of an agent to its model, independent of the API. It
// lives for one exchange.
type request struct {
	model  string
	stream bool
	usage  bool   // the stream ends with the number of tokens, where that is a choice
	system string // instructions
	items  []item
	tools  []tool
	// lookups are the arguments of the searches for tools that were answered.
	lookups []string
	forced  string // name of the tool that must be called; "" for any or none
	format  any    // JSON Schema of the answer; nil for plain text
	tokens  int    // at most that many in the answer; 0 for any
	key     string // equal for equal requests, but for the number of a repeated one
	nth     int    // the number of this request among equal ones, from 1
}

// A role is the author of an item.
type role string

const (
	// Instructions are not among the items: they have a place of their own.
	user      role = "user"
	assistant role = "assistant"
	result    role = "result" // of a tool call
	lookup    role = "lookup" // result of a search for tools
)

// An item is a part of a conversation.
type item struct {
	role   role
	blocks []string // of text
	kinds  []string // of content that is no text
	calls  int      // tool calls in it
	of     string   // the id of the call whose result it is
	aside  bool     // it came together with tool results, so the agent itself added it
}

// text returns the blocks, each on a line of its own.
func (i item) text() string { return strings.Join(i.blocks, "\n") }

// A prompt is the text that the model must answer, with the tool results since.
type prompt struct {
	text       string
	directives bool     // there are some in the text
	turn       int      // its number in the conversation, from 1
	kinds      []string // of content besides text
	results    []string // of tool calls since
}

// prompt returns the prompt that the request must answer.
//
// Agents add text of their own to a conversation: reminders, context, notes about a
// cancelled turn. A turn begins with text of the user after an answer without tool calls.
// Within a turn the last block with directives is the prompt, because text that an agent
// adds has none; without directives it is the first text, or the last of several in a
// row, because a cancelled prompt is followed by another. The items are read once, and
// results are counted after the prompt that was found.
func (r *request) prompt(directives bool) prompt {
	p := prompt{turn: 0}

	// found is the item with the prompt; results before it belong to an earlier turn.
	over := true // no turn is open before the current item
	found := -1

	for i, it := range r.items {
		switch {
		case it.role == assistant:
			over = it.calls == 0
		case it.role == result, it.role == lookup:
			over = false
		case over && (i == 0 || r.items[i-1].role != user):
			p = prompt{turn: p.turn + 1, text: it.text(), kinds: it.kinds}
			found = i
		case over && !p.directives: // more text of the same prompt, or the prompt after a cancelled one
			p.text, p.kinds = it.text(), append(slices.Clone(p.kinds), it.kinds...)
			found = i
		}

		if it.role == user && directives {
			for _, block := range it.blocks {
				if directive().MatchString(block) {
					p.text = block
					p.directives = true
					found = i
				}
			}
		}
	}

	// Text of the user that comes with a result is read as a part of it.
	for _, it := range r.items[found+1:] {
		n := len(p.results)
		switch {
		case it.role == result:
			p.results = append(p.results, it.text())
		case it.role == user && n > 0:
			p.results[n-1] += "\n" + it.text()
		}
	}
	return p
}

// answers counts the answers of the model since the last text of the user that was not an
// aside of the agent.
func (r *request) answers() int {
	n := 0
	// From the end: the count is for the current prompt only.
	for _, it := range slices.Backward(r.items) {
		if it.role == user && !it.aside {
			break
		}
		if it.role == assistant {
			n++
		}
	}
	return n
}

// contains reports whether the conversation has the text outside of directives.
func (r *request) contains(text string) bool {
	if strings.Contains(r.system, text) {
		return true
	}
	for _, it := range r.items {
		if strings.Contains(withoutDirectives(it.text()), text) {
			return true
		}
	}
	return false
}

// withoutDirectives removes directives from a text.
// It follows the grammar of Directives, so a text in a value does not count as text
// of the conversation.
func withoutDirectives(text string) string {
	var out strings.Builder
	for {
		at := directive().FindStringIndex(text)
		if at == nil {
			out.WriteString(text)
			return out.String()
		}
		// The members go with their action; a broken value ends them, and is text.
		out.WriteString(text[:at[0]])
		text = text[at[1]:]
		for {
			name := memberName().FindStringIndex(text)
			if name == nil {
				break
			}
			_, rest, err := directiveValue(text[name[1]:])
			if err != nil {
				break
			}
			text = rest
		}
	}
}

// folders match the working folder in the text that an agent sends to its model.
var folders = []pattern.Pattern{
	pattern.New("<cwd>([^<\n]+)</cwd>"),
	pattern.New("(?i)working (?:directory|folder|dir)[^:\n/]{0,60}[:\\s][\\s`'\"*]*(/[^\n<`'\"]*)"),
	pattern.New("(?i)working in the (?:directory|folder):?[\\s`'\"*]*(/[^\n<`'\"]*)"),
	pattern.New("(?i)workspace (?:directory|directories|folder|folders|root)[^:\n/]{0,60}:[\\s`'\"*-]*(/[^\n<`'\"]*)"),
}

// folder returns the working folder of the agent's session, "" if no text names it.
// Some tools want absolute paths, and no API has a member for the folder; agents
// write it into their instructions in words of their own.
func (r *request) folder() string {
	// Instructions are searched first: a prompt may quote any folder.
	if found := lastFolder(r.system); found != "" {
		return found
	}
	for _, it := range slices.Backward(r.items) {
		if it.role != user {
			continue
		}
		if found := lastFolder(it.text()); found != "" {
			return found
		}
	}
	return ""
}

// lastFolder returns the working folder that a text names last: a session that was loaded
// in another folder names the earlier one, too. The root of a workspace counts only if nothing is
// called the working folder: it may be above it.
func lastFolder(text string) string {
	for _, f := range folders {
		all := f().FindAllStringSubmatch(text, -1)
		if len(all) == 0 {
			continue
		}
		found, _, _ := strings.Cut(all[len(all)-1][1], " (") // a remark about the folder
		return strings.TrimRight(found, " \t\r.,;")
	}
	return ""
}
