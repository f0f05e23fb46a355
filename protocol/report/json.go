package report

import (
	"bytes"
	"encoding/json"
	"io"
	"slices"
	"strconv"
	"strings"
)

// jsonForm is the JSON form of a report. An absent value is null; an absent list is
// empty. The members and their order are those of report.schema.json.
type jsonForm struct {
	Status        *Status  `json:"status"`
	FilesCreated  []string `json:"files_created"`
	FilesModified []string `json:"files_modified"`
	Tests         *Tests   `json:"tests"`
	Build         *State   `json:"build"`
	Error         *string  `json:"error"`
	Learned       *string  `json:"learned"`
}

// jsonForm returns the report with null in place of absent members, as the schema has it.
func (r Report) jsonForm() jsonForm {
	return jsonForm{
		Status: orNull(r.Status), FilesCreated: orEmpty(r.FilesCreated), FilesModified: orEmpty(r.FilesModified),
		Tests: orNull(r.Tests), Build: orNull(r.Build), Error: orNull(r.Error), Learned: orNull(r.Learned),
	}
}

// orNull and orEmpty return an absent value as JSON has it.
func orNull[T ~string](s T) *T {
	if s == "" {
		return nil
	}
	return &s
}

func orEmpty[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}

// MarshalJSON returns the JSON form, with extra if it is not empty.
func (r Report) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		jsonForm
		Extra []Field `json:"extra,omitempty"`
	}{r.jsonForm(), r.Extra})
}

// UnmarshalJSON reads the JSON form as ParseJSON does in Tolerant mode.
// The limit is lifted because the caller has read the data already.
func (r *Report) UnmarshalJSON(data []byte) error {
	got, err := ParseJSON(data, &Options{MaxBytes: len(data) + 1})
	if err != nil {
		return err
	}
	*r = got.Report
	return nil
}

// MarshalJSON returns the JSON form with the diagnostics. The status is null if the
// text is not a report.
func (r Result) MarshalJSON() ([]byte, error) {
	var count *int
	if n, ok := r.Tests.Count(); ok {
		count = &n
	}
	return json.Marshal(struct {
		jsonForm
		StatusKnown bool         `json:"status_known"`
		TestsCount  *int         `json:"tests_count"`
		Extra       []Field      `json:"extra"`
		Diagnostics []Diagnostic `json:"diagnostics"`
	}{r.Report.jsonForm(), r.Status.Known(), count, orEmpty(r.Extra), orEmpty(r.Diagnostics)})
}

// ParseJSON reads a report in its JSON form. It returns ErrNotReport for anything
// else; the result then has diagnostics only. A text over MaxBytes is not read. opts
// may be nil.
//
// In Reference mode an object with an unknown test or build result is not a report.
// In Tolerant mode such a result is dropped, unknown members are kept as extra
// fields, and of a repeated member the last one counts, of the status the least
// successful one.
// Unlike a long text, a long object is refused as a whole: its end alone is not
// JSON.
func ParseJSON(data []byte, opts *Options) (Result, error) {
	o, err := opts.withDefaults()
	if err != nil {
		return Result{}, err
	}
	var d diagnostics
	if len(data) > o.MaxBytes {
		d.add(CodeTruncated, 0, "the JSON exceeds %d bytes and was not read", o.MaxBytes)
	} else if all, ok := members(data); ok {
		var r Result
		if o.Mode == Reference {
			r = referenceObject(all)
		} else {
			r, d = tolerantObject(all, d)
		}
		if r.Status != "" {
			r.Diagnostics = d.sorted()
			return r, nil
		}
	}
	d.add(CodeNotReport, 0, "the text is not a JSON object with a status")
	return Result{Diagnostics: d.sorted()}, ErrNotReport
}

// A member is a member of a JSON object.
type member struct {
	name  string
	value json.RawMessage
}

// text returns the value if it is a string.
func (m member) text() (s string, ok bool) {
	if len(m.value) == 0 || m.value[0] != '"' {
		return "", false
	}
	err := json.Unmarshal(m.value, &s)
	return s, err == nil
}

func (m member) null() bool { return string(m.value) == "null" }

// items returns the values of an array, trimmed and without empty ones. Values that
// are not strings are written as the protocol's public parser, a Python program,
// writes them; odd reports that there was one.
// That form matters in Reference mode, whose result must equal that parser's.
func (m member) items() (items []string, odd, ok bool) {
	var all []json.RawMessage
	if len(m.value) == 0 || m.value[0] != '[' || json.Unmarshal(m.value, &all) != nil {
		return nil, false, false
	}
	for _, raw := range all {
		item, isText := member{value: raw}.text()
		if !isText {
			odd = true
			switch item = string(raw); item {
			case "null":
				item = "None"
			case "true", "false":
				item = strings.ToUpper(item[:1]) + item[1:]
			}
		}
		if item = trim(item); item != "" {
			items = append(items, item)
		}
	}
	return items, odd, true
}

// maxMembers is the largest number of members of a report.
const maxMembers = 1000

// members returns the members of a JSON object, and false for anything else.
func members(data []byte) (all []member, ok bool) {
	// Member by member, because an object may repeat a name and the order counts.
	dec := json.NewDecoder(bytes.NewReader(data))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return nil, false
	}
	for dec.More() {
		t, err := dec.Token()
		name, ok := t.(string)
		if err != nil || !ok || len(all) == maxMembers {
			return nil, false
		}
		var value json.RawMessage
		if dec.Decode(&value) != nil {
			return nil, false
		}
		all = append(all, member{name, value})
	}
	if _, err := dec.Token(); err != nil {
		return nil, false
	}
	_, err := dec.Token()
	return all, err == io.EOF
}

// referenceObject reads an object as the protocol's public parser does. The
// status is empty if it refuses it.
func referenceObject(all []member) (r Result) {
	m := map[string]member{}
	for _, each := range all {
		m[each.name] = each
	}

	status, _ := m["status"].text()
	if r.Status = Status(lower(trim(status))); !r.Status.Known() {
		return Result{}
	}

	// A word is text; null and an absent member count as empty.
	word := func(name string) (value string, ok bool) {
		if value, ok = m[name].text(); !ok && len(m[name].value) > 0 && !m[name].null() {
			return "", false
		}
		return lower(trim(value)), true
	}

	tests, testsOK := word("tests")
	build, buildOK := word("build")
	if !testsOK || !buildOK || tests != string(referenceTests(tests)) {
		return Result{}
	}
	if s, n, own := readState(build); build != "" && (!own || n != len(build)) {
		return Result{}
	} else {
		r.Build = s
	}
	r.Tests = Tests(tests)

	// A list of files is an array, or text with separators.
	files := func(name string) []string {
		if s, ok := m[name].text(); ok {
			return splitPlain(s)
		}
		items, _, _ := m[name].items()
		return items
	}
	r.FilesCreated, r.FilesModified = files("files_created"), files("files_modified")

	text := func(name string) string {
		s, _ := m[name].text()
		return trim(s)
	}
	r.Error, r.Learned = text("error"), text("learned")
	return r
}

// derived holds the members that only the JSON of a result has. They follow from the
// rest, or belong to another text.
var derived = map[string]bool{"status_known": true, "tests_count": true, "diagnostics": true}

// tolerantObject reads an object in Tolerant mode. The status is empty if there is
// none.
// A report may be embedded in the output of this package, so the members of a
// Result are skipped and its extra fields are read as fields.
func tolerantObject(all []member, d diagnostics) (Result, diagnostics) {
	in := reader{d: d}
	statusAt, least := -1, Status("")
	// The status is found first: which of several counts decides about the others.
	for i, m := range all {
		if s, ok := m.text(); ok && lower(m.name) == "status" {
			s, _, _ := readStatus(trim(s))
			if s != "" && (least == "" || s.rank() < least.rank()) {
				statusAt, least = i, s
			}
		}
	}
	if statusAt < 0 {
		return Result{}, d
	}
	for i, m := range all {
		place := find(reportTerms, m.name)
		switch {
		case place >= 0:
			in.member(m, place, i == statusAt)
		case m.name == "extra":
			in.extra(m)
		case !derived[m.name]:
			in.unknown(m)
		}
	}
	in.count(all)
	return in.finish()
}

// count adds the finding about a tests_count that TESTS does not have.
func (in *reader) count(all []member) {
	i := slices.IndexFunc(all, func(m member) bool { return m.name == "tests_count" && !m.null() })
	if i < 0 {
		return
	}
	value := string(all[i].value)
	if n, ok := in.result.Tests.Count(); !ok || strconv.Itoa(n) != value {
		in.d.add(CodeDropped, 0, "tests_count %s was dropped: a report has the count in tests, as in pass:12", brief(value))
	}
}

// member reads a member that the protocol defines.
func (in *reader) member(m member, place int, status bool) {
	name := reportTerms[place].name
	if m.name != strings.ToLower(name) {
		in.say(&TextField{Name: m.name}, CodeOddName)
	}
	value, ok := m.text()
	if ok {
		in.field(place, &TextField{RawName: m.name, Value: trim(value)}, nil, 0, status)
		return
	}
	f := &TextField{Name: name, Value: string(m.value)}
	in.see(place, f)
	if m.null() {
		return
	}
	items, odd, ok := m.items()
	if !ok || reportTerms[place].shape != aList {
		in.say(f, CodeUnknownValue)
		return
	}
	if odd {
		in.say(f, CodeNormalised)
	}
	in.files(place, items)
}

// extra reads the extra fields that Report.MarshalJSON wrote.
func (in *reader) extra(m member) {
	var fields []Field
	if json.Unmarshal(m.value, &fields) != nil {
		in.unknown(m)
		return
	}
	for _, f := range fields {
		value, _ := json.Marshal(f.Value) // a string can always be encoded
		in.unknown(member{f.Name, value})
	}
}

// unknown keeps a member that the protocol does not define.
func (in *reader) unknown(m member) {
	name := strings.ToUpper(m.name)
	if !extraName(name) || find(reportTerms, name) >= 0 {
		in.d.add(CodeDropped, 0, "%q cannot be the name of a field; it was dropped", brief(m.name))
		return
	}
	value, ok := m.text()
	if !ok {
		var b bytes.Buffer
		_ = json.Compact(&b, m.value) // it was read as JSON before
		value = b.String()
	}
	in.field(-1, &TextField{RawName: name, Value: trim(value)}, nil, 0, false)
}
