package report

import (
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
)

// A Dispatch is the work that an agent is given.
type Dispatch struct {
	Task       string   // what to do
	Context    string   // where; may have several lines
	Acceptance []string // when it is done
	Scope      []string // beginnings of the paths that may be touched
	Rules      string   // what else holds; may have several lines
	Verify     []string // commands that show that it is done
	Done       string   // how to answer
	Extra      []Field
}

// A DispatchResult is a dispatch as it was found in a text.
type DispatchResult struct {
	Dispatch
	Diagnostics []Diagnostic
}

// ErrNotDispatch is returned for a text that is no dispatch.
var ErrNotDispatch = errors.New("report: the text is not a dispatch: there is no TASK")

// ParseDispatch reads a dispatch in its text form: names as in a report, and a
// value goes on until the next name at the same depth. It returns
// ErrNotDispatch if there is no task; the result then has nothing but
// diagnostics. No parser of the protocol reads dispatches, so the mode does not
// matter. opts may be nil.
func ParseDispatch(text string, opts *Options) (DispatchResult, error) {
	o, err := opts.withDefaults()
	if err != nil {
		return DispatchResult{}, err
	}
	text, skipped, cut := window(text, o)
	in := dispatchReader{open: -1}
	if cut {
		in.d.add(CodeTruncated, 0, "the text is over the limit of %d bytes or %d lines: only what begins at line %d was read", o.MaxBytes, o.MaxLines, skipped+1)
	}
	for all := linesOf(text, skipped); ; {
		l, ok := all.next()
		if !ok {
			break
		}
		in.line(l)
	}
	return in.finish()
}

// looksLikeDispatch reports whether a text is one and says more than its task.
func looksLikeDispatch(text string, o Options) bool {
	r, err := ParseDispatch(text, &o)
	return err == nil && len(r.Acceptance)+len(r.Scope)+len(r.Verify) > 0
}

// A dispatchReader reads a dispatch line by line.
type dispatchReader struct {
	result DispatchResult
	d      diagnostics
	seen   [8]bool // by place among dispatchTerms
	fenced bool    // the dispatch stands in a block of code

	// The field under way.
	open   int // place among dispatchTerms; -1 if it is none of them
	name   string
	indent int
	number int
	values []string // its lines; nil if there is no field yet
}

func (in *dispatchReader) line(l line) {
	i := indent(l.text)
	begun := in.values != nil
	switch {
	case !begun && fence(l.text):
		in.fenced = true
		return
	case begun && in.fenced && i <= in.indent && fence(l.text):
		return
	}
	if !begun || i <= in.indent {
		if h, ok := split(l.text); ok {
			place := find(dispatchTerms, h.name)
			if place >= 0 || begun && h.odd == 0 && extraName(h.name) {
				in.end()
				in.open, in.name, in.indent, in.number, in.values = place, h.name, i, l.number, []string{h.value}
				return
			}
		}
	}
	switch {
	case begun:
		in.values = append(in.values, l.text)
	case trim(l.text) != "":
		in.d.add(CodeProseBefore, l.number, "there is other text before the dispatch")
	}
}

// end reads the field under way.
func (in *dispatchReader) end() {
	if in.values == nil {
		return
	}
	first, more := in.values[0], dedent(in.values[1:])
	text := trim(strings.Join(append([]string{first}, more...), "\n"))
	if in.open < 0 {
		in.d.add(CodeUnknownField, in.number, sayings[CodeUnknownField], in.name)
		in.result.Extra = append(in.result.Extra, Field{Name: in.name, Value: text})
		return
	}
	name := dispatchTerms[in.open].name
	if in.seen[in.open] {
		in.d.add(CodeDuplicate, in.number, sayings[CodeDuplicate], name)
	}
	in.seen[in.open] = true
	if dispatchTerms[in.open].shape == aText {
		if target := in.result.text(name); text != "" {
			*target = text
		}
		return
	}
	target := in.result.list(name)
	*target = append(*target, listItems(name, first, more)...)
}

// finish ends the last field and returns what was read.
func (in *dispatchReader) finish() (DispatchResult, error) {
	in.end()
	if in.result.Task == "" {
		in.d.add(CodeNotDispatch, 0, "no line has a TASK field with a value")
		return DispatchResult{Diagnostics: in.d.sorted()}, ErrNotDispatch
	}
	in.result.Diagnostics = in.d.sorted()
	return in.result, nil
}

// text returns the field of that name which is a text.
func (d *Dispatch) text(name string) *string {
	switch name {
	case "TASK":
		return &d.Task
	case "CONTEXT":
		return &d.Context
	case "RULES":
		return &d.Rules
	}
	return &d.Done
}

// list returns the field of that name which is a list.
func (d *Dispatch) list(name string) *[]string {
	switch name {
	case "ACCEPTANCE":
		return &d.Acceptance
	case "SCOPE":
		return &d.Scope
	}
	return &d.Verify
}

// listItems reads the list that begins on the line of its name and goes on in
// the lines after it, one item each.
func listItems(name, first string, more []string) (items []string) {
	switch name {
	case "ACCEPTANCE":
		items = splitNumbered(first)
	case "SCOPE":
		items, _ = splitList(first)
	default:
		items = append(items, first)
	}
	for _, l := range more {
		l = trim(l)
		l = l[bullet(l):]
		if name == "SCOPE" {
			paths, _ := splitList(l)
			items = append(items, paths...)
			continue
		}
		items = append(items, trim(l))
	}
	return slices.DeleteFunc(items, func(s string) bool { return s == "" })
}

// splitNumbered takes "1. one 2. two" apart. The numbers must count from one
// to at least two; a text with others is one item.
func splitNumbered(s string) (items []string) {
	rest, ok := cutOrdinal(s, 1)
	if !ok {
		return []string{s}
	}
	start := 0
	for i := 1; i < len(rest); i++ {
		if rest[i-1] != ' ' && rest[i-1] != '\t' || !digit(rest[i]) {
			continue
		}
		if next, ok := cutOrdinal(rest[i:], len(items)+2); ok {
			items = append(items, trim(rest[start:i]))
			start = len(rest) - len(next)
			i = start
		}
	}
	if len(items) == 0 {
		return []string{s}
	}
	return append(items, trim(rest[start:]))
}

// cutOrdinal returns what follows the given ordinal at the beginning of s.
func cutOrdinal(s string, n int) (rest string, ok bool) {
	rest, ok = strings.CutPrefix(s, strconv.Itoa(n))
	if !ok || len(rest) < 2 || rest[0] != '.' && rest[0] != ')' || rest[1] != ' ' && rest[1] != '\t' {
		return "", false
	}
	return rest[2:], true
}

// dedent returns the lines without the blanks that all of them begin with, and
// without blanks at their ends.
func dedent(all []string) []string {
	common := -1
	for _, l := range all {
		if i := indent(l); trim(l) != "" && (common < 0 || i < common) {
			common = i
		}
	}
	out := make([]string, len(all))
	for i, l := range all {
		if trim(l) != "" {
			out[i] = strings.TrimRightFunc(l[common:], space)
		}
	}
	return out
}

// Text returns the dispatch in canonical form, as Report.Text does for a
// report. Further lines of a text, and lists that do not fit on a line, are
// indented below their name.
func (d Dispatch) Text() (string, error) {
	if trim(d.Task) == "" {
		return "", ErrNotDispatch
	}
	var b strings.Builder
	put(&b, "TASK", indented(d.Task))
	put(&b, "CONTEXT", indented(d.Context))
	put(&b, "ACCEPTANCE", numbered(d.Acceptance))
	put(&b, "SCOPE", joinList(d.Scope))
	put(&b, "RULES", indented(d.Rules))
	put(&b, "VERIFY", bulletedBelow("VERIFY", d.Verify))
	put(&b, "DONE", indented(d.Done))
	if err := putExtra(&b, d.Extra, dispatchTerms); err != nil {
		return "", err
	}
	return b.String(), nil
}

// indented returns a text whose further lines stand two blanks to the right.
func indented(s string) string {
	var all []string
	for rest := linesOf(trim(s), 0); ; {
		l, ok := rest.next()
		if !ok {
			break
		}
		all = append(all, l.text)
	}
	if len(all) < 2 {
		return trim(s)
	}
	var b strings.Builder
	b.WriteString(trim(all[0]))
	for _, l := range dedent(all[1:]) {
		b.WriteByte('\n')
		if l != "" {
			b.WriteString("  " + l)
		}
	}
	return b.String()
}

// numbered writes criteria on one line if they can be read back from it, else
// one below the other.
func numbered(items []string) string {
	var b strings.Builder
	for i, item := range items {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(strconv.Itoa(i+1) + ". " + oneLine(item))
	}
	if back := splitNumbered(b.String()); len(items) > 1 && slices.Equal(back, items) {
		return b.String()
	}
	return bulletedBelow("ACCEPTANCE", items)
}

// bulletedBelow writes one item on the line of the name, and several, or one
// that would be read in another way there, below it.
func bulletedBelow(name string, items []string) string {
	items = slices.Clone(items)
	for i := range items {
		items[i] = oneLine(items[i])
	}
	items = slices.DeleteFunc(items, func(s string) bool { return s == "" })
	if len(items) == 0 {
		return ""
	}
	if len(items) == 1 && slices.Equal(listItems(name, items[0], nil), items) {
		return items[0]
	}
	return "\n  - " + strings.Join(items, "\n  - ")
}

// dispatchForm is a dispatch in JSON. What is absent is null or an empty list.
type dispatchForm struct {
	Task       *string  `json:"task"`
	Context    *string  `json:"context"`
	Acceptance []string `json:"acceptance"`
	Scope      []string `json:"scope"`
	Rules      *string  `json:"rules"`
	Verify     []string `json:"verify"`
	Done       *string  `json:"done"`
}

func (d Dispatch) jsonForm() dispatchForm {
	return dispatchForm{
		orNull(d.Task), orNull(d.Context), orEmpty(d.Acceptance), orEmpty(d.Scope),
		orNull(d.Rules), orEmpty(d.Verify), orNull(d.Done),
	}
}

// MarshalJSON returns the JSON form. Extra is there if it is not empty.
func (d Dispatch) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		dispatchForm
		Extra []Field `json:"extra,omitempty"`
	}{d.jsonForm(), d.Extra})
}

// MarshalJSON returns the JSON form with what the parser has to say about it.
// The task is null if the text was no dispatch.
func (r DispatchResult) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		dispatchForm
		Extra       []Field      `json:"extra"`
		Diagnostics []Diagnostic `json:"diagnostics"`
	}{r.Dispatch.jsonForm(), orEmpty(r.Extra), orEmpty(r.Diagnostics)})
}

// ParseDispatchJSON reads a dispatch in its JSON form. A list may be an array
// of strings or a string as in the text form. opts may be nil.
func ParseDispatchJSON(data []byte, opts *Options) (DispatchResult, error) {
	o, err := opts.withDefaults()
	if err != nil {
		return DispatchResult{}, err
	}
	in := dispatchReader{open: -1}
	if len(data) > o.MaxBytes {
		in.d.add(CodeTruncated, 0, "the JSON is over the limit of %d bytes and was not read", o.MaxBytes)
		return in.finish()
	}
	all, _ := members(data)
	for _, m := range all {
		in.member(m)
	}
	return in.finish()
}

func (in *dispatchReader) member(m member) {
	place := find(dispatchTerms, m.name)
	if place < 0 {
		if !derived[m.name] && (m.name != "extra" || json.Unmarshal(m.value, &in.result.Extra) != nil) {
			in.d.add(CodeUnknownField, 0, "%q is not a field of the protocol; it was left out", brief(m.name))
		}
		return
	}
	name := dispatchTerms[place].name
	value, isText := m.text()
	items, _, isList := m.items()
	switch {
	case isText:
		in.open, in.name, in.values = place, m.name, []string{trim(value)}
		in.end()
		in.values = nil
	case isList && dispatchTerms[place].shape == aList:
		*in.result.list(name) = items
	case !m.null():
		in.d.add(CodeUnknownValue, 0, sayings[CodeUnknownValue], name, brief(string(m.value)))
	}
}
