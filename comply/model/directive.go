package model

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// directive finds the beginning of a directive.
var directive = regexp.MustCompile(`(?:^|[\s>"'` + "`" + `])parley:(\+?)([a-z]+)`)

var memberName = regexp.MustCompile(`^[ \t]+([a-zA-Z]+)=`)

// numeric are the members of a step that are numbers.
var numeric = []string{"chunk", "chunks", "delay", "status", "retryAfter", "times", "done"}

// Directives returns the steps that a prompt asks for. A directive has the form
//
//	parley:ACTION NAME=VALUE NAME=VALUE
//
// A value is a word, a JSON string, or text in single quotes. "parley:+ACTION"
// joins a tool call to the one before. All else in the prompt is ignored.
func Directives(prompt string) ([]Step, error) {
	var steps []Step
	for {
		at := directive.FindStringSubmatchIndex(prompt)
		if at == nil {
			return steps, nil
		}
		members := map[string]json.RawMessage{"do": quote(prompt[at[4]:at[5]])}
		if at[2] != at[3] {
			members["join"] = json.RawMessage("true")
		}
		rest, err := directiveMembers(prompt[at[1]:], members)
		if err != nil {
			return nil, fmt.Errorf("parley:%s: %w", prompt[at[4]:at[5]], err)
		}
		text, err := json.Marshal(members)
		if err != nil {
			return nil, fmt.Errorf("parley:%s: %w", prompt[at[4]:at[5]], err)
		}
		var s Step
		if err := json.Unmarshal(text, &s); err != nil {
			return nil, fmt.Errorf("parley:%s: %w", prompt[at[4]:at[5]], err)
		}
		if len(steps) == maxSteps {
			return nil, fmt.Errorf("there are more than %d directives", maxSteps)
		}
		steps = append(steps, s)
		prompt = rest
	}
}

// maxSteps is how many steps a prompt or a rule may have.
const maxSteps = 1000

// directiveMembers reads what follows the action and returns the rest.
func directiveMembers(text string, members map[string]json.RawMessage) (rest string, _ error) {
	for {
		at := memberName.FindStringSubmatchIndex(text)
		if at == nil {
			return text, nil
		}
		name := text[at[2]:at[3]]
		value, rest, err := directiveValue(text[at[1]:])
		if err != nil {
			return "", fmt.Errorf("%s: %w", name, err)
		}
		if _, ok := members[name]; ok {
			return "", fmt.Errorf("%s is there twice", name)
		}
		switch {
		case slices.Contains(numeric, name):
			n, err := strconv.Atoi(value)
			if err != nil {
				return "", fmt.Errorf("%s must be a number", name)
			}
			members[name] = json.RawMessage(strconv.Itoa(n))
		case name == "args":
			if !json.Valid([]byte(value)) {
				return "", fmt.Errorf("args must be a JSON object")
			}
			members[name] = json.RawMessage(value)
		case name == "entries":
			members[name], _ = json.Marshal(strings.Split(value, ";")) // strings always can be encoded
		default:
			members[name] = quote(value)
		}
		text = rest
	}
}

// directiveValue reads one value and returns the rest.
func directiveValue(text string) (value, rest string, _ error) {
	switch {
	case strings.HasPrefix(text, `"`):
		decoder := json.NewDecoder(strings.NewReader(text))
		if err := decoder.Decode(&value); err != nil {
			return "", "", fmt.Errorf("the quoted text is no JSON string: %w", err)
		}
		return value, text[decoder.InputOffset():], nil
	case strings.HasPrefix(text, "'"):
		value, rest, ok := strings.Cut(text[1:], "'")
		if !ok {
			return "", "", fmt.Errorf("the closing quote is missing")
		}
		return value, rest, nil
	}
	end := strings.IndexAny(text, " \t\r\n")
	if end < 0 {
		end = len(text)
	}
	return text[:end], text[end:], nil
}

func quote(s string) json.RawMessage {
	text, _ := json.Marshal(s) // strings always can be encoded
	return text
}
