package cli

import (
	"bytes"
	"slices"
)

// newline returns how lines end in doc. Its answer does not change when lines
// that end so are added behind others.
func newline(doc []byte) string {
	i := bytes.IndexByte(doc, '\n')
	switch {
	case i > 0 && doc[i-1] == '\r':
		return "\r\n"
	case i < 0 && bytes.IndexByte(doc, '\r') >= 0:
		return "\r"
	}
	return "\n"
}

// appendBlock adds lines at the end of doc, an empty line apart. The block has
// no line end of its own, and stays the last line without one if doc had none:
// so cutBlock can tell from the result alone what doc was.
func appendBlock(doc []byte, block string) []byte {
	nl := newline(doc)
	switch {
	case len(doc) == 0:
		return []byte(block + nl)
	case bytes.HasSuffix(doc, []byte(nl)):
		return slices.Concat(doc, []byte(nl+block+nl))
	}
	return slices.Concat(doc, []byte(nl+nl+block))
}

// cutBlock takes the lines from start to end out of doc, and with them what
// appendBlock put around them.
func cutBlock(doc []byte, start, end int) []byte {
	nl := []byte(newline(doc))
	before, after := doc[:start], doc[end:]
	blank := slices.Concat(nl, nl)
	switch {
	case bytes.HasPrefix(after, nl):
		after = after[len(nl):]
		if bytes.HasSuffix(before, blank) {
			before = before[:len(before)-len(nl)]
		}
	case len(after) == 0:
		before = bytes.TrimSuffix(before, blank)
	}
	return slices.Concat(before, after)
}
