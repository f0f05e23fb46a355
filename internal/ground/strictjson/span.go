package strictjson

import (
	"bytes"

	"github.com/go-json-experiment/json/jsontext"
)

// The functions in this file find the ends of values in JSON that was validated
// before. They scan each byte once and check nothing: on other text the results are
// meaningless, but no function panics. A validating decoder in their place would read
// each frame of a connection a second time, and cost the rows of "updates" their bar.

// isBlank reports whether c is one of the characters that JSON allows between tokens.
func isBlank(c byte) bool { return c == ' ' || c == '\n' || c == '\t' || c == '\r' }

// SkipBlanks returns the offset of the first byte from i on that is not blank.
func SkipBlanks(b []byte, i int) int {
	for i < len(b) && isBlank(b[i]) {
		i++
	}
	return min(i, len(b))
}

// ValueEnd returns the end of the value that starts at i.
func ValueEnd(b []byte, i int) int {
	depth := 0
	for i < len(b) {
		switch b[i] {
		case '"':
			i = stringEnd(b, i)
		case '{', '[':
			depth++
			i++
		case '}', ']':
			depth--
			i++
		default:
			i++
			if depth == 0 { // a number or a word
				for i < len(b) && !bytes.ContainsRune([]byte(",]} \t\r\n"), rune(b[i])) {
					i++
				}
			}
		}
		if depth == 0 {
			break
		}
	}
	return i
}

// stringEnd returns the end of the string that starts at i. A quote ends it if an even
// number of backslashes is before the quote.
func stringEnd(b []byte, i int) int {
	for i++; i < len(b); i++ {
		quote := bytes.IndexByte(b[i:], '"')
		if quote < 0 {
			return len(b)
		}
		i += quote
		escapes := 0
		for b[i-1-escapes] == '\\' {
			escapes++
		}
		if escapes%2 == 0 {
			return i + 1
		}
	}
	return len(b)
}

// Unquote returns the text of a JSON string. It shares memory with the string if that
// has no escapes. The error is for half of a surrogate pair, which is no text.
func Unquote(quoted []byte) ([]byte, error) {
	if bytes.IndexByte(quoted, '\\') < 0 {
		return quoted[1:max(1, len(quoted)-1)], nil
	}
	return jsontext.AppendUnquote(nil, quoted)
}
