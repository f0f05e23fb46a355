package model

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
)

// A Script has the steps for each prompt. The first of these decides: the directives of
// the prompt, the first rule that fits, the turn, Otherwise.
// A script does not change while a server uses it.
type Script struct {
	Models    []string `json:"models"` // names in the list of models; any name is served
	Rules     []Rule   `json:"rules"`
	Turns     [][]Step `json:"turns"` // steps for the first prompt of a conversation, the second, ...
	Otherwise []Step   `json:"otherwise"`

	// PlainPrompts makes directives in prompts plain text.
	PlainPrompts bool `json:"-"`
}

// A Rule has the steps for some prompts.
type Rule struct {
	When Condition `json:"when"`
	Do   []Step    `json:"do"`
}

// A Condition selects prompts. All its members must hold; the zero value selects all.
type Condition struct {
	Prompt *regexp.Regexp `json:"prompt"` // found in the prompt; nil for any
	Result *regexp.Regexp `json:"result"` // found in a tool result since the prompt, or in text beside it: the steps begin after it; nil for none needed
	Turn   int            `json:"turn"`   // number of the prompt in the conversation, from 1; 0 for any
}

// DefaultModel is the name of the model in the lists, unless a script has others.
const DefaultModel = "parley-model"

// Default returns the script that obeys directives, and answers other prompts with a few
// words.
func Default() *Script {
	return &Script{
		Models:    []string{DefaultModel},
		Rules:     []Rule{{When: Condition{Prompt: regexp.MustCompile(`(?i)\bslowly\b`)}, Do: []Step{{Do: Slow}}}},
		Otherwise: []Step{{Do: Say, Text: "OK."}},
	}
}

// ParseScript reads a script. Members that it does not have are as in [Default].
// An error names the line of the script. Unknown members are refused, so a
// misspelled one does not go unnoticed.
func ParseScript(text []byte) (*Script, error) {
	var file struct {
		Script
		Directives *bool `json:"directives"`
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&file); err != nil {
		return nil, fmt.Errorf("model: script, line %d: %w", 1+bytes.Count(text[:min(int(offset(decoder, err)), len(text))], []byte("\n")), err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("model: script: unexpected data after the script")
	}
	s, standard := &file.Script, Default()
	if s.Models == nil {
		s.Models = standard.Models
	}
	if s.Rules == nil {
		s.Rules = standard.Rules
	}
	if s.Otherwise == nil {
		s.Otherwise = standard.Otherwise
	}
	s.PlainPrompts = file.Directives != nil && !*file.Directives
	if err := s.check(); err != nil {
		return nil, err
	}
	return s, nil
}

// offset returns the place in a script at which the decoder failed.
func offset(d *json.Decoder, err error) int64 {
	// The decoder itself stands behind the value that it has read ahead.
	if at := (*json.SyntaxError)(nil); errors.As(err, &at) {
		return at.Offset
	}
	if at := (*json.UnmarshalTypeError)(nil); errors.As(err, &at) {
		return at.Offset
	}
	return d.InputOffset()
}

// check returns an error for a script that is too long, or whose rules never fit.
func (s *Script) check() error {
	lists := append([][]Step{s.Otherwise}, s.Turns...)
	for _, r := range s.Rules {
		if r.When.Turn < 0 {
			return fmt.Errorf("model: script: turn must be at least 1")
		}
		lists = append(lists, r.Do)
	}
	for _, steps := range lists {
		if len(steps) > maxSteps {
			return fmt.Errorf("model: script: a list has more than %d steps", maxSteps)
		}
	}
	return nil
}

// A position is the place of a conversation in a script.
type position struct {
	steps   []Step
	results int   // tool results since the first of the steps
	wrong   error // of invalid directives
}

// position returns the place of a conversation in the script.
// A rule with a Result is skipped until a result fits; then its steps begin there,
// and the results before it do not count.
func (s *Script) position(r *request) position {
	p := r.prompt(!s.PlainPrompts)
	at := position{results: len(p.results)}
	if p.directives {
		at.steps, at.wrong = Directives(p.text)
		return at
	}
	for _, rule := range s.Rules {
		when := rule.When
		otherTurn := when.Turn != 0 && when.Turn != p.turn
		if otherTurn || (when.Prompt != nil && !when.Prompt.MatchString(p.text)) {
			continue
		}
		if when.Result == nil {
			at.steps = rule.Do
			return at
		}
		for i, text := range p.results {
			if when.Result.MatchString(text) {
				// The steps begin after the result that made the rule fit.
				return position{steps: rule.Do, results: len(p.results) - i - 1}
			}
		}
	}
	if at.steps = s.Otherwise; p.turn >= 1 && p.turn <= len(s.Turns) {
		at.steps = s.Turns[p.turn-1]
	}
	return at
}
