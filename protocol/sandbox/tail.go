package sandbox

import (
	"bytes"
	"unicode/utf8"

	"github.com/parley-agents/parley/internal/ground/text/tail"
)

// An outputTail is a writer that keeps the last bytes of an output.
type outputTail struct {
	*tail.Buffer
	limit int
}

func newTail(limit int) *outputTail { return &outputTail{tail.NewBuffer(limit), limit} }

// Text returns the kept bytes as valid UTF-8, at most limit bytes, and whether bytes
// before them were dropped. It begins with a whole character. Unless the output is
// complete, the part of a character at the end is left out until its rest comes.
//
// Texts of two calls fit together as long as nothing was dropped: the second begins with
// the first. Each call copies the kept bytes, so that it costs in proportion to limit.
func (t *outputTail) Text(complete bool) (text string, truncated bool) {
	b, truncated := t.Bytes()
	if truncated {
		b = b[partBefore(b):]
	}
	if !complete {
		b = b[:len(b)-partAfter(b)]
	}
	b = bytes.ToValidUTF8(b, []byte(string(utf8.RuneError)))
	if over := len(b) - t.limit; over > 0 { // an invalid byte became three
		b, truncated = b[over:], true
		b = b[partBefore(b):]
	}
	return string(b), truncated
}

// partBefore returns the number of bytes at the start of b that belong to a character
// before it.
func partBefore(b []byte) int {
	n := 0
	for n < len(b) && n < utf8.UTFMax-1 && !utf8.RuneStart(b[n]) {
		n++
	}
	return n
}

// partAfter returns the number of bytes at the end of b that begin a character which
// is not complete.
func partAfter(b []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(b); n++ {
		if last := b[len(b)-n:]; utf8.RuneStart(last[0]) {
			if utf8.FullRune(last) {
				return 0
			}
			return n
		}
	}
	return 0
}
