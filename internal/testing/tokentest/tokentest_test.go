package tokentest_test

import (
	"testing"

	"github.com/parley-agents/parley/internal/testing/tokentest"
)

func TestCount(t *testing.T) {
	t.Run("texts have the tokens that the published tokenizer gives them", func(t *testing.T) {
		for text, want := range map[string]int{
			"":            0,
			"hello world": 2,
			"The quick brown fox jumps over the lazy dog.": 10,
		} {
			if got := tokentest.Count(t, text); got != want {
				t.Errorf("%q: got %d tokens, want %d", text, got, want)
			}
		}
	})
}
