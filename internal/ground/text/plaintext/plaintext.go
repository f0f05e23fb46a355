// Package plaintext removes the characters that hide text, reorder it or move a cursor
// from text of others. One table says which they are.
//
// A surface applies it where its text leaves, so that no renderer can forget it: to the
// answers of tools, to the output of commands and to pages. A renderer needs Line alone,
// for text of others that must not end its line.
//
// It does not decide whether a text is honest: letters that look alike stay, and so does
// a pile of accents. It is not for JSON, whose values are data: JSON writes such
// characters as escapes and changes no value.
package plaintext

import (
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Hidden reports whether plain text does not have a character, or has it between
// certain others only.
func Hidden(r rune) bool { return rowOf(r) != nil }

// Visible reports whether a character may be in a name: it can be printed, and does not
// hide.
func Visible(r rune) bool { return unicode.IsPrint(r) && !Hidden(r) }

// Text returns s as plain text. Line ends and tabs stay, and bytes that are not UTF-8
// become U+FFFD.
func Text(s string) string {
	var c cleaner
	out, _ := c.clean(nil, s, true)
	if out == nil {
		return s
	}
	return string(out)
}

// Line returns s as plain text on one line: a space stands for each line end.
func Line(s string) string { return strings.ReplaceAll(Text(s), "\n", " ") }

// JSON returns JSON in which the characters of the table are escapes, with the same
// values: such characters occur in strings only.
func JSON(raw []byte) []byte {
	copied := 0 // bytes of raw that are in out
	var out []byte
	for i := 0; i < len(raw); {
		if raw[i] < 0x7f { // controls below are escapes already, or space between values
			i++
			continue
		}
		r, size := utf8.DecodeRune(raw[i:])
		broken := r == utf8.RuneError && size == 1
		if !broken && rowOf(r) == nil {
			i += size
			continue
		}
		out = append(out, raw[copied:i]...)
		for _, unit := range utf16.Encode([]rune{r}) {
			out = fmt.Appendf(out, `\u%04x`, unit)
		}
		i += size
		copied = i
	}
	if out == nil {
		return raw
	}
	return append(out, raw[copied:]...)
}

// A cleaner cleans a text in pieces.
type cleaner struct {
	before rune // the last character that stayed
}

// clean appends s as plain text to dst, and returns how many bytes of s it has read.
// Bytes whose form depends on what follows are not read unless s is the end of the text.
// The result is nil if dst is and all of s stays as it is.
func (c *cleaner) clean(dst []byte, s string, end bool) (out []byte, n int) {
	copied := 0 // bytes of s that are in dst
	i := 0

	for i < len(s) {
		// Most text is ASCII without special characters.
		if s[i] < utf8.RuneSelf && rowOf(rune(s[i])) == nil {
			c.before = rune(s[i])
			i++
			continue
		}

		if !end && !utf8.FullRuneInString(s[i:]) {
			break
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		row := rowOf(r)
		if r == utf8.RuneError && size == 1 {
			row = &Row{to: replacement}
		}

		// Some characters are kept between certain neighbours, so that the next one must be
		// complete.
		if row != nil && row.keep != nil {
			if !end && !utf8.FullRuneInString(s[i+size:]) {
				break
			}
			if after, _ := utf8.DecodeRuneInString(s[i+size:]); row.keep(c.before, after) {
				row = nil
			}
		}

		if row == nil {
			c.before = r
			i += size
			continue
		}

		if dst == nil {
			dst = make([]byte, 0, len(s))
		}
		dst = append(append(dst, s[copied:i]...), row.to...)
		if row.to != "" {
			c.before, _ = utf8.DecodeRuneInString(row.to)
		}
		i += size
		copied = i
	}

	if dst != nil {
		dst = append(dst, s[copied:i]...)
	}
	return dst, i
}

// A Writer writes plain text to another writer. The result does not depend on the pieces
// in which the text comes; half a character at its end is never written. It is not safe
// for concurrent use.
type Writer struct {
	w    io.Writer
	c    cleaner
	rest string // bytes whose form depends on what follows
}

// NewWriter returns a Writer that writes to w.
func NewWriter(w io.Writer) *Writer { return &Writer{w: w} }

// Write writes b as plain text.
func (w *Writer) Write(b []byte) (int, error) {
	text := w.rest + string(b)
	out, n := w.c.clean([]byte{}, text, false)
	w.rest = text[n:]
	if len(out) == 0 {
		return len(b), nil
	}
	if _, err := w.w.Write(out); err != nil {
		return 0, err
	}
	return len(b), nil
}
