package report

import (
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
)

// A Dispatch gives an agent work. Task is required; Check names the other fields
// that a good dispatch has. Scope and Verify are instructions for the agent and for
// the program that checks its report; this package executes and enforces neither.
type Dispatch struct {
	Task       string   // the work
	Context    string   // may have several lines
	Acceptance []string // the criteria of being done
	Scope      []string // prefixes of the paths that the agent may touch
	Rules      string   // may have several lines
	Verify     []string // commands that show that the work is done
	Done       string   // how to report
	Extra      []Field
}

// A DispatchResult is the dispatch of a text, with its diagnostics.
type DispatchResult struct {
	Dispatch
	Diagnostics []Diagnostic
}

// ErrNotDispatch is the error for a text without a dispatch.
var ErrNotDispatch = errors.New("report: the text is not a dispatch: TASK is missing")

// ParseDispatch reads a dispatch in its text form. Names are as in a report; a value
// continues until the next name at the same depth. It returns ErrNotDispatch if there
// is no task; the result then has diagnostics only. The mode does not matter, because
// the protocol has no parser of dispatches. opts may be nil.
func ParseDispatch(text string, opts *Options) (DispatchResult, error) {
	o, err := opts.withDefaults()
	if err != nil {
		return DispatchResult{}, err
	}
	text, skipped, cut := window(text, o)
	in := dispatchReader{open: -1}
	if cut {
		in.d.add(CodeTruncated, 0, "the text exceeds %d bytes or %d lines; only line %d and later were read", o.MaxBytes, o.MaxLines, skipped+1)
	}
	for l := range linesOf(text, skipped) {
		in.line(l)
	}
	return in.finish()
}

// looksLikeDispatch reports whether a text is a dispatch with more than a task.
// A task alone is not enough: a report may mention one.
func looksLikeDispatch(text string, o Options) bool {
	r, err := ParseDispatch(text, &o)
	return err == nil && len(r.Acceptance)+len(r.Scope)+len(r.Verify) > 0
}

// A dispatchReader reads a dispatch line by line.
//
// The format has no mark for the end of a value. A value ends at the next line that
// is indented no more than its name and begins with the name of a field, known or
// in capitals; everything else belongs to the value, empty lines included.
type dispatchReader struct {
	result DispatchResult
	d      diagnostics
	// A field that comes twice: of a text the last one counts, lists are joined.
	seen   [8]bool // by place among dispatchTerms
	fenced bool    // the dispatch is in a code block

	// The current field.
	open   int // index in dispatchTerms; -1 for an extra field
	name   string
	indent int
	number int
	values []string // its lines; nil before the first field
}

// line begins a field, continues the current one, or records prose before the first.
// Inside a fence around the dispatch the closing fence is skipped.
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
	// A name that is indented more than the current field belongs to its value.
	if !begun || i <= in.indent {
		if h, ok := split(l.text); ok {
			place := find(dispatchTerms, h.name)
			isExtra := begun && h.odd == 0 && extraName(h.name)
			if place >= 0 || isExtra {
				in.end()
				in.open = place
				in.name = h.name
				in.indent = i
				in.number = l.number
				in.values = []string{h.value}
				return
			}
		}
	}
	switch {
	case begun:
		in.values = append(in.values, l.text)
	case trim(l.text) != "":
		in.d.add(CodeProseBefore, l.number, "other text precedes the dispatch")
	}
}

// end stores the current field.
func (in *dispatchReader) end() {
	if in.values == nil {
		return
	}
	first, more := in.values[0], dedent(in.values[1:])
	text := trim(strings.Join(append([]string{first}, more...), "\n"))
	if in.open < 0 {
		in.d.add(CodeUnknownField, in.number, messages[CodeUnknownField], in.name)
		in.result.Extra = append(in.result.Extra, Field{Name: in.name, Value: text})
		return
	}
	name := dispatchTerms[in.open].name
	if in.seen[in.open] {
		in.d.add(CodeDuplicate, in.number, messages[CodeDuplicate], name)
	}
	in.seen[in.open] = true
	target, list := in.result.field(in.open)
	switch {
	case list != nil:
		*list = append(*list, listItems(name, first, more)...)
	case text != "":
		*target = text
	}
}

// finish ends the last field and returns the result.
func (in *dispatchReader) finish() (DispatchResult, error) {
	in.end()
	if in.result.Task == "" {
		in.d.add(CodeNotDispatch, 0, "no TASK field with a value")
		return DispatchResult{Diagnostics: in.d.sorted()}, ErrNotDispatch
	}
	in.result.Diagnostics = in.d.sorted()
	return in.result, nil
}

// field returns the text or the list for the field at an index of dispatchTerms; the
// other one is nil.
func (d *Dispatch) field(place int) (text *string, list *[]string) {
	texts := [...]*string{0: &d.Task, 1: &d.Context, 4: &d.Rules, 6: &d.Done}
	lists := [...]*[]string{2: &d.Acceptance, 3: &d.Scope, 5: &d.Verify, 6: nil}
	return texts[place], lists[place]
}

// listItems reads a list that begins on the line of its name and continues in the
// lines after it, one item each.
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

// splitNumbered splits "1. one 2. two". The numbers must count from one to at least
// two; any other text is one item.
// Each character is looked at once, apart from the digits at a possible number.
func splitNumbered(s string) (items []string) {
	rest, ok := cutOrdinal(s, 1)
	if !ok {
		return []string{s}
	}
	start := 0
	// A number counts only if it is the next one: criteria may have numbers in them.
	for i := 1; i < len(rest); i++ {
		if (rest[i-1] != ' ' && rest[i-1] != '\t') || !digit(rest[i]) {
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

// cutOrdinal returns s without the given ordinal at its beginning.
func cutOrdinal(s string, n int) (rest string, ok bool) {
	rest, ok = strings.CutPrefix(s, strconv.Itoa(n))
	if !ok || len(rest) < 2 {
		return "", false
	}
	isMarked := rest[0] == '.' || rest[0] == ')'
	isSeparated := rest[1] == ' ' || rest[1] == '\t'
	if !isMarked || !isSeparated {
		return "", false
	}
	return rest[2:], true
}

// dedent returns the lines without their common indentation and without blanks at
// their ends.
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

// Text returns the dispatch in canonical form, as Report.Text does for a report. The
// second and later lines of a text, and lists that do not fit on one line, are indented
// below the name.
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

// indented returns a text whose second and later lines are indented by two blanks.
func indented(s string) string {
	var all []string
	for l := range linesOf(trim(s), 0) {
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

// numbered writes criteria on one line if splitNumbered reads them back, else one
// below the other.
// Criteria on one line are the protocol's form; it cannot hold a criterion that
// contains the next number with a dot.
func numbered(items []string) string {
	var b strings.Builder
	for i, item := range items {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(strconv.Itoa(i+1) + ". " + oneLine(item))
	}
	// The form is chosen by trial: text that is not read back as it was is written otherwise.
	if back := splitNumbered(b.String()); len(items) > 1 && slices.Equal(back, items) {
		return b.String()
	}
	return bulletedBelow("ACCEPTANCE", items)
}

// bulletedBelow writes a single item on the line of the name, if it is read back from
// there, and other lists below it.
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

// dispatchForm is the JSON form of a dispatch. An absent value is null or an empty
// list.
type dispatchForm struct {
	Task       *string  `json:"task"`
	Context    *string  `json:"context"`
	Acceptance []string `json:"acceptance"`
	Scope      []string `json:"scope"`
	Rules      *string  `json:"rules"`
	Verify     []string `json:"verify"`
	Done       *string  `json:"done"`
}

// jsonForm returns the dispatch with null and empty lists in place of absent members.
func (d Dispatch) jsonForm() dispatchForm {
	return dispatchForm{
		orNull(d.Task), orNull(d.Context), orEmpty(d.Acceptance), orEmpty(d.Scope),
		orNull(d.Rules), orEmpty(d.Verify), orNull(d.Done),
	}
}

// MarshalJSON returns the JSON form, with extra if it is not empty.
func (d Dispatch) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		dispatchForm
		Extra []Field `json:"extra,omitempty"`
	}{d.jsonForm(), d.Extra})
}

// MarshalJSON returns the JSON form with the diagnostics. The task is null if the text
// is not a dispatch.
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
		in.d.add(CodeTruncated, 0, "the JSON exceeds %d bytes and was not read", o.MaxBytes)
		return in.finish()
	}
	all, _ := members(data)
	for _, m := range all {
		in.member(m)
	}
	return in.finish()
}

// member reads a member of the JSON form. A string is read as in the text form.
func (in *dispatchReader) member(m member) {
	place := find(dispatchTerms, m.name)
	if place < 0 {
		if !derived[m.name] && (m.name != "extra" || json.Unmarshal(m.value, &in.result.Extra) != nil) {
			in.d.add(CodeDropped, 0, "%q is not a field of the protocol; it was dropped", brief(m.name))
		}
		return
	}
	name := dispatchTerms[place].name
	value, isText := m.text()
	items, _, isList := m.items()
	_, list := in.result.field(place)
	switch {
	case isText:
		in.open = place
		in.name = m.name
		in.values = []string{trim(value)}
		in.end()
		in.values = nil
	case isList && list != nil:
		*list = items
	case !m.null():
		in.d.add(CodeUnknownValue, 0, messages[CodeUnknownValue], name, brief(string(m.value)))
	}
}
