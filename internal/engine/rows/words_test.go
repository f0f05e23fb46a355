package rows

import (
	"slices"
	"strings"
	"testing"

	"github.com/parley-agents/parley/hub"
)

func TestWords(t *testing.T) {
	for text, want := range map[string]string{
		"":                        "",
		"Hello, World!":           "hello world",
		"snake_case-and.dots":     "snake case and dots",
		"über Größe":              "über größe",
		"日本 go":                   "日 本 go",
		"a\x00b\xffc":             "a b c",
		"e\u0301t\u00e9 \u200bok": "e\u0301té ok",
	} {
		if got := strings.Join(wordsOf(text), " "); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

func TestAgentsColumn(t *testing.T) {
	for _, ids := range [][]hub.AgentID{{"a"}, {"a", "b-c.d_e"}, {"*"}, {}, {`quo"te`, `back\slash`, "ümlaut", "a,b"}} {
		text, err := encodeAgents(ids)
		if err != nil {
			t.Fatal(err)
		}
		got, err := decodeAgents([]byte(text))
		if err != nil || !slices.Equal(got, ids) {
			t.Errorf("%q: got %q (%v)", ids, got, err)
		}
	}
	for text, want := range map[string][]hub.AgentID{
		` [ "a" , "b" ] `: {"a", "b"}, `["a"]`: {"a"}, `["\u0061","b"]`: {"a", "b"}, `[]`: {}, `null`: nil,
	} {
		if got, err := decodeAgents([]byte(text)); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: got %q (%v), want %q", text, got, err, want)
		}
	}
	for _, text := range []string{"", `["a"`, `["a",]`, `["a""b"]`, `[1]`, `{}`, `["a]`} {
		if got, err := decodeAgents([]byte(text)); err == nil {
			t.Errorf("%s: got %q, want an error", text, got)
		}
	}
}
