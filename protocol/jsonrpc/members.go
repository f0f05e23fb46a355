package jsonrpc

import (
	"bytes"
	"iter"

	"github.com/parley-agents/parley/internal/ground/strictjson"
)

// members yields the names, unquoted, and the values of an object in their order. Like
// elements it walks over JSON that the Reader has validated.
func members(object []byte) iter.Seq2[[]byte, []byte] {
	return func(yield func(name, value []byte) bool) {
		for i := strictjson.SkipBlanks(object, 1); i < len(object) && object[i] == '"'; {
			end := strictjson.ValueEnd(object, i)
			name, _ := strictjson.Unquote(object[i:end])
			i = strictjson.SkipBlanks(object, strictjson.SkipBlanks(object, end)+1) // the colon
			end = strictjson.ValueEnd(object, i)
			if i >= end || !yield(name, object[i:end:end]) {
				return
			}
			i = strictjson.SkipBlanks(object, strictjson.SkipBlanks(object, end)+1) // the comma
		}
	}
}

// elements yields the elements of an array.
func elements(array []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for i := strictjson.SkipBlanks(array, 1); i < len(array) && array[i] != ']'; {
			end := strictjson.ValueEnd(array, i)
			if i >= end || !yield(array[i:end:end]) {
				return
			}
			i = strictjson.SkipBlanks(array, strictjson.SkipBlanks(array, end)+1) // the comma
		}
	}
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
