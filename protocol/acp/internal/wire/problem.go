package wire

import (
	"strconv"
	"strings"
)

// A Problem is one fault of a message and its place.
type Problem struct {
	Path   string // JSON pointer to the value, "" for the message itself
	Value  string // the value as JSON, cut short; "" if it says nothing
	Reason string
}

// maxShown is how many bytes of a value appear in a Problem.
const maxShown = 80

// cut returns the beginning of a long text.
func cut(s string) string {
	if len(s) > maxShown {
		return strings.ToValidUTF8(s[:maxShown], "") + "..."
	}
	return s
}

// shown returns a value as it appears in a Problem.
func shown(s string) string { return strconv.Quote(cut(s)) }

var pointer = strings.NewReplacer("~", "~0", "/", "~1")

// within returns path as seen from the object or array that holds it under name.
func within(name, path string) string { return "/" + pointer.Replace(cut(name)) + path }
