// Package shorten cuts text to a length that people read. It never cuts inside
// a character.
package shorten

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// quoteLength is how many bytes of a value an error message shows.
const quoteLength = 40

// Text returns s if it has at most n bytes, else its first n bytes or a little
// less, and an ellipsis.
func Text(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return Bytes(s, n) + "…"
}

// Characters returns s if it has at most n characters, else its first n-1
// characters and an ellipsis.
func Characters(s string, n int) string {
	if len(s) <= n || utf8.RuneCountInString(s) <= n {
		return s
	}
	end := 0
	for range n - 1 {
		_, size := utf8.DecodeRuneInString(s[end:])
		end += size
	}
	return s[:end] + "…"
}

// Bytes returns the longest start of s that has at most n bytes and ends with a
// whole character.
func Bytes(s string, n int) string {
	n = max(n, 0)
	if len(s) <= n {
		return s
	}
	for end := n; end >= max(n-utf8.UTFMax, 0); end-- {
		if utf8.RuneStart(s[end]) {
			return s[:end]
		}
	}
	return s[:n] // not UTF-8
}

// Quote returns s in quotes, cut to 40 bytes, for an error message.
func Quote(s string) string {
	if len(s) <= quoteLength {
		return strconv.Quote(s)
	}
	return strconv.Quote(Bytes(s, quoteLength)) + "…"
}

// Line returns s as one line: each run of blanks and line ends becomes one
// blank, and a text longer than n bytes is cut as Text cuts it.
func Line(s string, n int) string { return Text(strings.Join(strings.Fields(s), " "), n) }
