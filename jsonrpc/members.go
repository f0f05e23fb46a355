package jsonrpc

import (
	"bytes"
	"iter"
	"strings"
	"unicode"

	"github.com/go-json-experiment/json/jsontext"
)

// The functions here walk over JSON that is known to be valid, so they look for
// ends and check nothing. On anything else they return something, but do not
// fail.

// members returns the names and values of an object in their order. A name is
// without quotes and escapes.
func members(object []byte) iter.Seq2[[]byte, []byte] {
	return func(yield func(name, value []byte) bool) {
		for i := next(object, 1); i < len(object) && object[i] == '"'; {
			end := valueEnd(object, i)
			name := unquote(object[i:end])
			i = next(object, next(object, end)+1) // the colon
			end = valueEnd(object, i)
			if i >= end || !yield(name, object[i:end:end]) {
				return
			}
			i = next(object, next(object, end)+1) // the comma
		}
	}
}

// elements returns the elements of an array.
func elements(array []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for i := next(array, 1); i < len(array) && array[i] != ']'; {
			end := valueEnd(array, i)
			if i >= end || !yield(array[i:end:end]) {
				return
			}
			i = next(array, next(array, end)+1) // the comma
		}
	}
}

// next returns the place of the first byte from i on that is not blank.
func next(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\t' || b[i] == '\r') {
		i++
	}
	return min(i, len(b))
}

// valueEnd returns where the value ends that starts at i.
func valueEnd(b []byte, i int) int {
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

// stringEnd returns where the string ends that starts at i.
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

// unquote returns what a string says.
func unquote(quoted []byte) []byte {
	if bytes.IndexByte(quoted, '\\') < 0 {
		return quoted[1:max(1, len(quoted)-1)]
	}
	s, _ := jsontext.AppendUnquote(nil, quoted)
	return s
}

// names finds two that differ in case only.
type names struct {
	few    [8][]byte // compared with each other, more go through a map
	n      int
	folded map[string]string
}

// add adds a name and returns the one that it differs from in case only.
func (s *names) add(name []byte) (twin string, found bool) {
	if s.n < len(s.few) {
		for _, other := range s.few[:s.n] {
			if bytes.EqualFold(other, name) {
				return string(other), true
			}
		}
		s.few[s.n] = name
		s.n++
		return "", false
	}
	if s.folded == nil {
		s.folded = make(map[string]string)
		for _, other := range s.few {
			s.folded[fold(other)] = string(other)
		}
	}
	key := fold(name)
	if other, ok := s.folded[key]; ok {
		return other, true
	}
	s.folded[key] = string(name)
	return "", false
}

// fold returns the same text for names that differ in case only.
func fold(name []byte) string {
	return strings.Map(func(r rune) rune {
		least := r
		for f := unicode.SimpleFold(r); f != r; f = unicode.SimpleFold(f) {
			least = min(least, f)
		}
		return least
	}, string(name))
}
