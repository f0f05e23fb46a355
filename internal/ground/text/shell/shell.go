// Package shell writes words of command lines that a person copies or that a CLI gives
// to a POSIX shell, and reads the commands of a shell text.
package shell

import (
	"strings"
	"unicode"
)

// Word returns a word as a POSIX shell reads it: as it is if it has only letters, digits
// and signs without a meaning there, and in single quotes otherwise.
func Word(word string) string {
	special := func(r rune) bool {
		return !strings.ContainsRune("/._-+@:,=%", r) && !unicode.IsLetter(r) && !unicode.IsDigit(r)
	}
	if word != "" && !strings.ContainsFunc(word, special) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
