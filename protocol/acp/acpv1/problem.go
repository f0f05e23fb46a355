package acpv1

import (
	"regexp"
	"strings"
)

// A Problem is one fault of a message and its place. Decoding and encoding fail
// with a *Problem. The error of Validate joins one or several: errors.As finds the
// first, Unwrap() []error returns all.
type Problem struct {
	Path   string // JSON pointer to the value, "" for the message itself
	Value  string // the value, cut short; "" if it says nothing
	Reason string
}

// Error returns the path, the value and the reason.
func (p *Problem) Error() string {
	text := p.Reason
	if p.Value != "" {
		text = p.Value + " " + text
	}
	if p.Path != "" {
		text = p.Path + ": " + text
	}
	return "acp: " + text
}

// Kind returns the place, the value if it is a word, and the reason, without the indexes of lists,
// so that problems with the same member and word for the same reason are equal.
func (p *Problem) Kind() string {
	kind := listIndex.ReplaceAllString(p.Path, "/*") + ": " + p.Reason
	isID := strings.HasSuffix(p.Path, "Id") // each one is another
	if !isID && word.MatchString(p.Value) {
		kind = p.Value + " " + kind
	}
	return kind
}

var (
	listIndex = regexp.MustCompile(`/[0-9]+\b`)                   // the index of an item in a JSON pointer
	word      = regexp.MustCompile(`^"[A-Za-z_][\w./:-]{0,63}"$`) // a value of an enum or the tag of a union, quoted
)
