package report

import (
	"fmt"
	"strings"
)

// Text returns the report in canonical form: names in capitals, no blank behind the
// colon, one field per line, no line for an absent field. Parse reads it back as it
// was, with two exceptions: values are trimmed, and a line end inside a text becomes
// " / ".
//
// A status that is not a word is an error, and so is an extra field whose name is not
// in capitals or belongs to the protocol.
// The checks use the readers of the parser, so Parse reads these three fields back as they were.
func (r Report) Text() (string, error) {
	if s, detail, _ := readStatus(string(r.Status)); s != r.Status || s == "" || detail != "" {
		return "", fmt.Errorf("report: invalid status %q: use a word such as %q", r.Status, StatusOK)
	}
	if t, _, codes := readTests(string(r.Tests)); t != r.Tests || len(codes) > 0 {
		return "", fmt.Errorf("report: invalid TESTS value %q: use pass, fail or skip, with an optional count as in pass:12", r.Tests)
	}
	if b, _, codes := readBuild(string(r.Build)); r.Build != "" && (b != r.Build || len(codes) > 0) {
		return "", fmt.Errorf("report: invalid BUILD value %q: use pass, fail or skip", r.Build)
	}
	var b strings.Builder
	put(&b, "STATUS", string(r.Status))
	put(&b, "FILES_CREATED", joinList(r.FilesCreated))
	put(&b, "FILES_MODIFIED", joinList(r.FilesModified))
	put(&b, "TESTS", string(r.Tests))
	put(&b, "BUILD", string(r.Build))
	put(&b, "ERROR", oneLine(r.Error))
	put(&b, "LEARNED", oneLine(r.Learned))
	if err := putExtra(&b, r.Extra, reportTerms); err != nil {
		return "", err
	}
	return b.String(), nil
}

// put writes a field, unless its value is empty.
func put(b *strings.Builder, name, value string) {
	if value != "" {
		b.WriteString(name)
		b.WriteByte(':')
		b.WriteString(value)
		b.WriteByte('\n')
	}
}

// putExtra writes the extra fields, empty ones too.
func putExtra(b *strings.Builder, extra []Field, terms []term) error {
	for _, f := range extra {
		if !extraName(f.Name) {
			return fmt.Errorf("report: invalid extra field name %q: use 2 to 40 capitals, digits and underscores", f.Name)
		}
		if find(terms, f.Name) >= 0 {
			return fmt.Errorf("report: %s is a field of the protocol and cannot be an extra field", f.Name)
		}
		fmt.Fprintf(b, "%s:%s\n", f.Name, oneLine(f.Value))
	}
	return nil
}
