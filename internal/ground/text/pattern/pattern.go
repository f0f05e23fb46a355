// Package pattern makes regular expressions that are compiled at their first use. CLIs start the
// program for each tool call of an agent, and compiling a hundred expressions was a fifth of its
// start.
package pattern

import (
	"regexp"
	"sync"
)

// A Pattern returns its compiled regular expression. It is safe for concurrent use.
type Pattern func() *regexp.Regexp

// New returns a Pattern for a text that is known when the program is compiled. A text that is not a
// regular expression panics at the first use; a test of the repository compiles all of them.
func New(text string) Pattern {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(text) })
}
