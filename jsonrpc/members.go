package jsonrpc

import (
	"bytes"
	"iter"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/parley-agents/parley/internal/strictjson"
)

// The functions in this file walk over JSON that the Reader has validated: they find
// the ends of values in one pass and check nothing. On invalid JSON the results are
// meaningless, but no function panics. A second pass with a validating decoder would
// cost the benchmark BenchmarkUpdates (updates at 0.9 of the speed of a bare loop).

// members yields the names, unquoted, and the values of an object in their order.
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

// elements yields the elements of an array.
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

// next returns the offset of the first byte from i on that is not blank.
func next(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\t' || b[i] == '\r') {
		i++
	}
	return min(i, len(b))
}

// valueEnd returns the end of the value that starts at i.
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

// stringEnd returns the end of the string that starts at i.
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

// unquote returns the value of a JSON string.
func unquote(quoted []byte) []byte {
	if bytes.IndexByte(quoted, '\\') < 0 {
		return quoted[1:max(1, len(quoted)-1)]
	}
	s, _ := jsontext.AppendUnquote(nil, quoted)
	return s
}

// names finds two names that differ in case only. The first eight are compared with
// each other, which needs no memory; more of them go through strictjson.Names, which
// keeps the cost linear.
type names struct {
	few  [8][]byte
	n    int
	many strictjson.Names
}

// add adds a name and returns an earlier one that differs from it in case only.
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
	if s.n == len(s.few) {
		s.n++
		for _, other := range s.few {
			s.many.Add(string(other))
		}
	}
	return s.many.Add(string(name))
}
