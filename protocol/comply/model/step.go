package model

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// An Action is the kind of a step.
type Action string

// The actions. Those from [Read] to [Tool] are tool calls.
const (
	Say    Action = "say"    // text
	Think  Action = "think"  // reasoning
	Slow   Action = "slow"   // numbers, one after the other
	Recall Action = "recall" // say whether a text or an image is in the conversation
	Tell   Action = "tell"   // say a text if it is in the conversation
	Read   Action = "read"
	Write  Action = "write"
	Edit   Action = "edit"
	Shell  Action = "shell"
	Plan   Action = "plan"
	MCP    Action = "mcp"
	Tool   Action = "tool"   // one of the agent's tools by its name
	Refuse Action = "refuse" // stop with a refusal
	Length Action = "length" // stop at the token limit
	Error  Action = "error"  // fail with a status of HTTP
	Fail   Action = "fail"   // send a broken answer
	Hang   Action = "hang"   // send nothing until the agent gives up
	Usage  Action = "usage"  // the tokens that each answer to the prompt says it cost
)

// A Step is one action of the model. The fields that an action does not have are zero.
// Scripts and directives have the same members under the same names.
type Step struct {
	Do Action `json:"do"`

	// Join puts a tool call into the same answer as the call before it. Otherwise an answer
	// ends with its first tool call.
	Join bool `json:"join,omitempty"`

	Text    string          `json:"text,omitempty"`
	Path    string          `json:"path,omitempty"`
	Old     string          `json:"old,omitempty"`
	New     string          `json:"new,omitempty"`
	Command string          `json:"command,omitempty"`
	Entries []string        `json:"entries,omitempty"` // of a plan
	Done    int             `json:"done,omitempty"`    // how many of the entries are done
	Server  string          `json:"server,omitempty"`  // of MCP; "" for any
	Name    string          `json:"name,omitempty"`    // of a tool
	Args    json.RawMessage `json:"args,omitempty"`    // of a tool, a JSON object
	Kind    string          `json:"kind,omitempty"`    // of content to recall

	Chunk      int    `json:"chunk,omitempty"`      // characters in a piece of text
	Chunks     int    `json:"chunks,omitempty"`     // how many numbers
	Delay      int    `json:"delay,omitempty"`      // milliseconds before each piece
	Status     int    `json:"status,omitempty"`     // of HTTP
	RetryAfter int    `json:"retryAfter,omitempty"` // seconds
	Times      int    `json:"times,omitempty"`      // how often the same request fails; 0 for always
	How        string `json:"how,omitempty"`        // a way to fail, or the cause of an error

	// Of usage. Input has the cached part; written and input that was cached do not overlap;
	// reasoning is a part of output.
	Input     int `json:"input,omitempty"`
	Cached    int `json:"cached,omitempty"`
	Written   int `json:"written,omitempty"`
	Output    int `json:"output,omitempty"`
	Reasoning int `json:"reasoning,omitempty"`
}

// Bounds of the members of a step.
const (
	maxDelay  = 60_000
	maxChunks = 10_000
	maxTimes  = 1000
	maxCount  = 2_000_000_000 // tokens; more than any model has, for tests of sums
)

// An actionRule has the members that an action needs, and those that it may have.
type actionRule struct{ needs, may []string }

// actions has the members of each action. A member that is not listed is a mistake of
// the author, who would wait in vain for its effect.
var actions = map[Action]actionRule{
	Say:    {[]string{"text"}, []string{"chunk", "delay"}},
	Think:  {[]string{"text"}, []string{"chunk", "delay"}},
	Slow:   {nil, []string{"chunks", "delay"}},
	Recall: {nil, []string{"text", "kind"}},
	Tell:   {[]string{"text"}, nil},
	Read:   {[]string{"path"}, nil},
	Write:  {[]string{"path", "text"}, nil},
	Edit:   {[]string{"path", "old", "new"}, nil},
	Shell:  {[]string{"command"}, nil},
	Plan:   {[]string{"entries"}, []string{"done"}},
	MCP:    {[]string{"name"}, []string{"server", "args"}},
	Tool:   {[]string{"name"}, []string{"args"}},
	Refuse: {nil, []string{"text"}},
	Length: {nil, []string{"text"}},
	Error:  {nil, []string{"status", "text", "retryAfter", "times", "how"}},
	Fail:   {[]string{"how"}, []string{"times"}},
	Hang:   {nil, nil},
	Usage:  {[]string{"input", "output"}, []string{"cached", "written", "reasoning"}},
}

// calls reports whether the step is a tool call.
func (s Step) calls() bool {
	switch s.Do {
	case Read, Write, Edit, Shell, Plan, MCP, Tool:
		return true
	}
	return false
}

// UnmarshalJSON reads a step, and refuses one that is not complete or has members that
// its action does not have.
func (s *Step) UnmarshalJSON(text []byte) error {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(text, &members); err != nil {
		return fmt.Errorf("a step must be an object: %w", err)
	}
	// Without the method, so that the decoder does not call it again.
	type plain Step
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode((*plain)(s)); err != nil {
		return fmt.Errorf("a step: %w", err)
	}
	return s.check(slices.Collect(maps.Keys(members)))
}

// check returns an error if the given members do not fit the action.
// A script is written by hand, so mistakes are refused when it is read and not when
// the step is due.
func (s *Step) check(given []string) error {
	rule, ok := actions[s.Do]
	if !ok {
		return fmt.Errorf("unknown action %q: use one of %s", s.Do, strings.Join(known(), ", "))
	}
	for _, name := range rule.needs {
		if !slices.Contains(given, name) {
			return fmt.Errorf("%s needs %s", s.Do, name)
		}
	}
	// Sorted, so that the same step always has the same error.
	slices.Sort(given)
	for _, name := range given {
		isGeneral := name == "do" || name == "join"
		isOfAction := slices.Contains(rule.needs, name) || slices.Contains(rule.may, name)
		if !isGeneral && !isOfAction {
			return fmt.Errorf("%s has no %s", s.Do, name)
		}
	}
	if s.Join && !s.calls() {
		return fmt.Errorf("%s cannot be joined: it is not a tool call", s.Do)
	}
	var object map[string]json.RawMessage
	if s.Args != nil && (json.Unmarshal(s.Args, &object) != nil || object == nil) {
		return fmt.Errorf("%s: args must be a JSON object", s.Do)
	}
	return s.bounds()
}

// bounds returns an error for a number or a word outside of its range.
// The bounds keep a mistake in a script from blocking a run of tests for hours.
func (s *Step) bounds() error {
	for _, n := range []struct {
		name       string
		value, max int
	}{
		{"chunk", s.Chunk, maxBody}, {"chunks", s.Chunks, maxChunks}, {"delay", s.Delay, maxDelay}, {"times", s.Times, maxTimes},
		{"retryAfter", s.RetryAfter, 3600}, {"done", s.Done, len(s.Entries)},
		{"input", s.Input, maxCount}, {"cached", s.Cached, maxCount}, {"written", s.Written, maxCount}, {"output", s.Output, maxCount}, {"reasoning", s.Reasoning, maxCount},
	} {
		if n.value < 0 || n.value > n.max {
			return fmt.Errorf("%s: %s must be between 0 and %d", s.Do, n.name, n.max)
		}
	}
	if s.Status != 0 && (s.Status < 400 || s.Status > 599) {
		return fmt.Errorf("%s: status must be between 400 and 599", s.Do)
	}
	if s.Do == Fail && !slices.Contains(failures, s.How) {
		return fmt.Errorf("fail: how must be one of %s", strings.Join(failures, ", "))
	}
	if s.Do == Error && s.How != "" && !slices.Contains(causes, s.How) {
		return fmt.Errorf("error: how must be one of %s", strings.Join(causes, ", "))
	}
	if s.Do == Recall && (s.Text == "") == (s.Kind == "") {
		return fmt.Errorf("recall needs text or kind")
	}
	if s.Kind != "" && !slices.Contains(kinds, s.Kind) {
		return fmt.Errorf("recall: kind must be one of %s", strings.Join(kinds, ", "))
	}
	return nil
}

// The ways in which an answer can be broken.
const (
	failJSON  = "json"  // a tool call whose arguments are no JSON
	failSSE   = "sse"   // an event whose data are no JSON
	failCut   = "cut"   // the connection ends in the middle
	failEmpty = "empty" // an answer without anything in it
)

// failures and kinds list the words that a script may use.
var failures = []string{failJSON, failSSE, failCut, failEmpty}

// The kinds of content besides text that a prompt may have.
const (
	kindImage = "image"
	kindAudio = "audio"
	kindFile  = "file"
)

var kinds = []string{kindImage, kindAudio, kindFile}

// known returns the names of all actions.
func known() []string {
	var names []string
	for a := range actions {
		names = append(names, string(a))
	}
	slices.Sort(names)
	return names
}
