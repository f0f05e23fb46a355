package report

import (
	"encoding/json"
	"strings"
)

// An example is a report inside a prompt.
type example struct {
	text string
	line int // of its beginning in the prompt, from 1
}

// LintPrompt finds the examples of reports in a prompt and lints each by itself. The lines
// of the findings are those of the prompt. An example must also be one to the protocol's
// public parser, with the same status: agents write the form that the prompt teaches. opts
// may be nil.
func LintPrompt(text string, opts *LintOptions) ([]Diagnostic, error) {
	examples := append(fieldExamples(text), jsonExamples(text)...)
	var all []Diagnostic
	for _, x := range examples {
		found, err := Lint(x.text, opts)
		if err != nil {
			return nil, err
		}
		for i := range found {
			found[i].Line = x.line + max(found[i].Line, 1) - 1
		}
		all = append(all, found...)
		read := Parse
		if strings.HasPrefix(x.text, "{") {
			read = func(text string, o *Options) (Result, error) { return ParseJSON([]byte(text), o) }
		}
		want, err := ParseAny(x.text, nil)
		if got, other := read(x.text, &Options{Mode: Reference}); err == nil && (other != nil || got.Status != want.Status) {
			all = append(all, Diagnostic{Code: CodeReference, Line: x.line, Message: "the protocol's public parser does not read the status " + brief(string(want.Status)) + " in this example"})
		}
	}
	if len(examples) == 0 {
		all = append(all, Diagnostic{Code: CodeNoExample, Message: "the prompt has no example of a report"})
	}
	return all, nil
}

// fieldExamples returns the blocks of fields. A block with several statuses is several
// examples: the next one begins behind the last empty line before its status, or with it.
// Prompts often list one example per status without a line of prose in between,
// which the parser of answers would read as one block.
func fieldExamples(text string) (out []example) {
	s := blockFinder{text: text}
	s.sort(0)

	var lines []line
	for l := range linesOf(text, 0) {
		lines = append(lines, l)
	}

	for _, b := range s.blocks {
		if b.sentence {
			continue
		}

		first, seen := b.First, 0
		add := func(last int) {
			part := text[lines[first-1].at : lines[last-1].at+len(lines[last-1].text)]
			out = append(out, example{strings.TrimRightFunc(part, space) + "\n", first})
			first = last + 1
		}

		// Each further status begins another example.
		for _, f := range s.fields[b.from:b.to] {
			if f.place != statusPlace {
				continue
			}
			if seen > 0 {
				end := f.Line - 1
				for at := f.Line - 1; at > seen; at-- {
					if trim(lines[at-1].text) == "" {
						end = at
						break
					}
				}
				add(end)
			}
			seen = f.Line
		}

		add(b.Last)
	}
	return out
}

// jsonExamples returns the JSON objects that begin a line and have a status.
func jsonExamples(text string) (out []example) {
	end := 0
	for l := range linesOf(text, 0) {
		if l.at < end || !strings.HasPrefix(trim(l.text), "{") {
			continue
		}
		dec := json.NewDecoder(strings.NewReader(text[l.at:]))
		var object json.RawMessage
		if dec.Decode(&object) != nil {
			continue
		}
		end = l.at + int(dec.InputOffset())
		var members map[string]any
		if json.Unmarshal(object, &members) == nil && members["status"] != nil {
			out = append(out, example{string(object), l.number})
		}
	}
	return out
}
