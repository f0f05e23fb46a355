package clone_test

import (
	"maps"
	"strings"
	"testing"
)

// Missing tells commits that landed from those that did not, and of these which a change has.
func TestMissing(t *testing.T) {
	r := newRepository(t)
	r.commit("a", "1\n")
	first := r.fetch("HEAD")
	r.commit("a", "2\n")
	target := r.fetch("HEAD")
	one := r.branch(first.ID, "one", "b", "1\n")
	two := r.branch("one", "two", "b", "2\n")
	other := r.branch(first.ID, "other", "c", "1\n")
	gone := strings.Repeat("ab", len(first.ID)/2)

	got, err := r.copy().Missing(t.Context(), target.ID, two.ID, []string{first.ID, target.ID, one.ID, two.ID, other.ID, gone})
	want := map[string]bool{one.ID: true, two.ID: true, other.ID: false}
	if err != nil || !maps.Equal(got, want) {
		t.Errorf("got %v (%v), want %v", got, err, want)
	}
	if got, err = r.copy().Missing(t.Context(), target.ID, first.ID, nil); err != nil || len(got) != 0 {
		t.Errorf("of none: %v (%v)", got, err)
	}
}
