package report

import "strings"

// maxNesting is the largest number of JSON envelopes around a report.
const maxNesting = 3

// ParseAny reads a report from any answer of an agent: a JSON object, the result
// envelope of an agent's command line around one, text, or text with a JSON object in
// it. In Reference mode it is Parse. opts may be nil.
// The diagnostics are those of the form in which the report was found. If there is
// none, they are those of the text as a whole.
func ParseAny(text string, opts *Options) (Result, error) {
	o, err := opts.withDefaults()
	if err != nil {
		return Result{}, err
	}
	if o.Mode == Reference {
		return parse(text, o)
	}
	return parseAny(text, o, maxNesting)
}

// parseAny reads a text that may be JSON: first as an object, then as text, then as
// text around an object. The order keeps a report in JSON from being read as prose.
// Each envelope costs one more pass over its content, so nesting bounds the time to
// a constant times the length.
func parseAny(text string, o Options, nesting int) (Result, error) {
	if r, ok := parseObject(text, o, nesting); ok {
		return r, nil
	}
	r, err := parse(text, o)
	if err == nil {
		return r, nil
	}
	part, _, _ := window(text, o)
	for _, object := range []string{fencedObject(part), outerObject(part)} {
		if r, ok := parseObject(object, o, nesting); ok {
			return r, nil
		}
	}
	return r, err
}

// parseObject reads a JSON object that is a report or an envelope around one.
// An envelope is recognized by the member that holds the answer: structured_output
// is preferred to result, which may repeat it as text.
func parseObject(text string, o Options, nesting int) (Result, bool) {
	text = trim(strings.TrimPrefix(text, "\ufeff"))
	if nesting == 0 || !strings.HasPrefix(text, "{") || len(text) > o.MaxBytes {
		return Result{}, false
	}

	all, ok := members([]byte(text))
	if !ok {
		return Result{}, false
	}

	var d diagnostics
	d.add(CodeJSONForm, 0, "the report is in JSON")
	if r, d := tolerantObject(all, d); r.Status != "" {
		r.Diagnostics = d.sorted()
		return r, true
	}

	// An object without a status may be an envelope, with the report as an object or as text.
	for _, name := range [...]string{"structured_output", "result"} {
		for _, m := range all {
			if m.name != name {
				continue
			}
			inner, isText := m.text()
			if !isText {
				if r, ok := parseObject(string(m.value), o, nesting-1); ok {
					return r, true
				}
				continue
			}
			if r, err := parseAny(inner, o, nesting-1); err == nil {
				return r, true
			}
		}
	}
	return Result{}, false
}

// fencedObject returns the last code block of a text that begins with a brace; "" if
// there is none.
func fencedObject(text string) (object string) {
	inside, start := false, 0
	for l := range linesOf(text, 0) {
		if !fence(l.text) {
			continue
		}
		if inside {
			if part := trim(text[start:l.at]); strings.HasPrefix(part, "{") {
				object = part
			}
		}
		inside, start = !inside, l.at+len(l.text)
	}
	return object
}

// outerObject returns the part of a text from the first to the last brace.
func outerObject(text string) string {
	i, j := strings.IndexByte(text, '{'), strings.LastIndexByte(text, '}')
	if i < 0 || j < i {
		return ""
	}
	return text[i : j+1]
}

// ParseAnyDispatch reads a dispatch from a JSON object or from text. opts may
// be nil.
func ParseAnyDispatch(text string, opts *Options) (DispatchResult, error) {
	if strings.HasPrefix(trim(text), "{") {
		return ParseDispatchJSON([]byte(text), opts)
	}
	return ParseDispatch(text, opts)
}
