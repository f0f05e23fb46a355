// Package tokentest counts the tokens of the texts that models read. Only tests import
// it: the table of the tokenizer is larger than all texts together.
package tokentest

import (
	"testing"

	"github.com/tiktoken-go/tokenizer"
)

// Encoding names the tokenizer. Tokenizers differ by a few percent for English and JSON;
// the bounds of this repository are in tokens of this one.
const Encoding = tokenizer.O200kBase

// Count returns the number of tokens of a text.
func Count(t testing.TB, text string) int {
	t.Helper()
	codec, err := tokenizer.Get(Encoding)
	if err != nil {
		t.Fatal(err)
	}
	n, err := codec.Count(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
