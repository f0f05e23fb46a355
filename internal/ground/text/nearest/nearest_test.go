package nearest_test

import (
	"slices"
	"testing"

	"github.com/parley-agents/parley/internal/ground/text/nearest"
)

func TestName(t *testing.T) {
	candidates := []string{"builder", "reviewer", "claude", "to", "text", "type"}
	for name, want := range map[string]string{
		"bilder":         "builder",
		"rewiever":       "reviewer",
		"claud":          "claude",
		"txt":            "text",
		"x":              "", // every name is as far away as one that shares no letter
		"something else": "",
		"":               "",
	} {
		if got := nearest.Name(name, slices.Values(candidates)); got != want {
			t.Errorf("Name(%q) = %q, want %q", name, got, want)
		}
	}
}
