package model

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/parley-agents/parley/internal/ground/text/pattern"
)

// directive matches the beginning of a directive.
var directive = pattern.New(`(?:^|[\s>"'` + "`" + `])parley:(\+?)([a-z]+)`)

// memberName matches the beginning of a member. Members stand on the line of their
// action: a name and a sign further on in the text are prose.
var memberName = pattern.New(`^[ \t]+([a-zA-Z]+)=`)

// numeric are the members of a step that are numbers.
var numeric = []string{"chunk", "chunks", "delay", "status", "retryAfter", "times", "done", "input", "cached", "written", "output", "reasoning"}

// Directives returns the steps that a prompt asks for. A directive has the form
//
//	parley:ACTION NAME=VALUE NAME=VALUE
//
// A value is a word, a JSON string, or text in single quotes. {proof:WORD} in a value
// stands for [Proof] of the word. "parley:+ACTION" joins a tool call to the one
// before. Other text in the prompt is ignored.
// An invalid directive is an error for the whole prompt, which the model says in
// place of an answer: a script that runs in part would look like a mistake of the
// agent.
func Directives(prompt string) ([]Step, error) {
	var steps []Step

	// Each round reads one directive and goes on behind its members.
	for {
		at := directive().FindStringSubmatchIndex(prompt)
		if at == nil {
			return steps, nil
		}

		action := prompt[at[4]:at[5]]
		// The step is built as JSON and read like one of a script, so that both are checked
		// by the same rules.
		members := map[string]json.RawMessage{"do": encoded(action)}
		if at[2] != at[3] {
			members["join"] = json.RawMessage("true")
		}

		rest, err := directiveMembers(prompt[at[1]:], members)
		var s Step
		if err == nil {
			err = json.Unmarshal(encoded(members), &s)
		}
		if err != nil {
			return nil, fmt.Errorf("parley:%s: %w", action, err)
		}

		if len(steps) == maxSteps {
			return nil, fmt.Errorf("too many directives (limit %d)", maxSteps)
		}
		steps = append(steps, s)
		prompt = rest
	}
}

// maxSteps is the largest number of steps of a prompt or a rule.
const maxSteps = 1000

// directiveMembers reads the members after the action and returns the rest of the text.
func directiveMembers(text string, members map[string]json.RawMessage) (rest string, _ error) {
	for {
		at := memberName().FindStringSubmatchIndex(text)
		if at == nil {
			return text, nil
		}

		name := text[at[2]:at[3]]
		value, rest, err := directiveValue(text[at[1]:])
		if err != nil {
			return "", fmt.Errorf("%s: %w", name, err)
		}
		if _, ok := members[name]; ok {
			return "", fmt.Errorf("%s appears twice", name)
		}
		value = withProofs(value)

		switch {
		case slices.Contains(numeric, name):
			n, err := strconv.Atoi(value)
			if err != nil {
				return "", fmt.Errorf("%s must be a number", name)
			}
			members[name] = json.RawMessage(strconv.Itoa(n))
		// Arguments are passed on as they are: the tool of the agent decides about them.
		case name == "args":
			if !json.Valid([]byte(value)) {
				return "", fmt.Errorf("args must be a JSON object")
			}
			members[name] = json.RawMessage(value)
		case name == "entries":
			members[name] = encoded(strings.Split(value, ";"))
		default:
			members[name] = encoded(value)
		}

		text = rest
	}
}

// directiveValue reads one value and returns the rest of the text.
// A JSON string may hold any character; text in single quotes is taken as it is and
// cannot hold one.
func directiveValue(text string) (value, rest string, _ error) {
	switch {
	case strings.HasPrefix(text, `"`):
		decoder := json.NewDecoder(strings.NewReader(text))
		if err := decoder.Decode(&value); err != nil {
			return "", "", fmt.Errorf("the quoted text is not a JSON string: %w", err)
		}
		return value, text[decoder.InputOffset():], nil
	case strings.HasPrefix(text, "'"):
		value, rest, ok := strings.Cut(text[1:], "'")
		if !ok {
			return "", "", fmt.Errorf("the closing quote is missing")
		}
		return value, rest, nil
	}
	// A word ends at the next blank; it needs no quotes.
	end := strings.IndexAny(text, " \t\r\n")
	if end < 0 {
		end = len(text)
	}
	return text[:end], text[end:], nil
}
