package clone_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/parley-agents/parley/internal/reach/clone"
)

// TestLargeFilesAreNotCompared shows changes of files that were made to take the memory of the
// machine. They are named in the patch, which says that it is not the whole one.
func TestLargeFilesAreNotCompared(t *testing.T) {
	r := newRepository(t)
	long := strings.Repeat("\n", 300_000)
	wide := strings.Repeat("x", 17<<20)
	first := r.commit("small.txt", "one\n", "lines.txt", long, "odd\n\"\u202ename.txt", long)
	before := r.fetch(first)
	after := r.branch(first, "more", "small.txt", "two\n", "lines.txt", "x"+long, "odd\n\"\u202ename.txt", "y"+long, "wide.txt", wide)
	patch, cut, err := r.copy().Patch(t.Context(), before.ID, after.ID, 1<<20)
	if err != nil || !cut || strings.Count(patch, "diff --git") != 1 {
		t.Fatalf("cut %t, %v:\n%.2000s", cut, err, patch)
	}
	for _, want := range []string{
		"+two\n",
		"File \"lines.txt\" was modified, and is not compared: a text of 300000 lines with 300001 bytes; at most 100000 lines and 16777216 bytes are, and 1000000 lines of a file that comes or goes\n",
		"File \"odd\\n\\\"\\u202ename.txt\" was modified, and",
		"File \"wide.txt\" was added, and is not compared: a text with 17825792 bytes",
	} {
		if !strings.Contains(patch, want) {
			t.Errorf("the patch lacks %q:\n%.2000s", want, patch)
		}
	}
	if added, removed, err := r.copy().Lines(t.Context(), before.ID, after.ID); err != nil || added != 1 || removed != 1 {
		t.Errorf("got %d lines added and %d removed (%v), want those of small.txt", added, removed, err)
	}

	// A large file that is no text is named, too: a patch shows nothing of it in any case.
	binary := r.branch(first, "binary", "image", "\x00"+wide)
	if patch, cut, err := r.copy().Patch(t.Context(), before.ID, binary.ID, 1<<20); err != nil || cut || !strings.Contains(patch, "no text with 17825793 bytes") {
		t.Errorf("cut %t, %v:\n%.2000s", cut, err, patch)
	}

	if got, err := r.copy().Binaries(t.Context(), before.ID, binary.ID); err != nil || !got["image"] || len(got) != 1 {
		t.Errorf("got the binary files %v (%v)", got, err)
	}

	// The large files of two changes are compared by their content.
	same := r.branch(after.ID, "same")
	other := r.branch(first, "other", "small.txt", "two\n", "lines.txt", "z"+long)
	var ids []string
	for _, c := range []clone.Commit{after, same, other} {
		id, err := r.copy().PatchID(t.Context(), before.ID, c.ID)
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	if ids[0] == "" || ids[0] != ids[1] || ids[0] == ids[2] {
		t.Errorf("got the ids %q", ids)
	}
}

// TestManyLargeFiles compares nothing of a change with hundreds of large files.
func TestManyLargeFiles(t *testing.T) {
	r := newRepository(t)
	before := []string{"a.txt", "one\n"}
	changed := []string{"a.txt", "two\n"}
	for i := range 201 {
		name := fmt.Sprintf("f%d", i)
		before = append(before, name, strings.Repeat("\n", 100_001))
		changed = append(changed, name, strings.Repeat("\n", 100_002))
	}
	first := r.commit(before...)
	after := r.branch(first, "many", changed...)
	patch, cut, err := r.copy().Patch(t.Context(), r.fetch(first).ID, after.ID, 1<<20)
	if err != nil || !cut || strings.Contains(patch, "diff --git") || !strings.Contains(patch, "2 more files are too large to be compared\n") {
		t.Errorf("cut %t, %v:\n%.2000s", cut, err, patch)
	}
}

// TestPatchIsCut shows the beginning of a difference that is longer than its bound.
func TestPatchIsCut(t *testing.T) {
	r := newRepository(t)
	first := r.commit("a.txt", "one\n")
	after := r.branch(first, "long", "a.txt", strings.Repeat("a line\n", 100_000))
	patch, cut, err := r.copy().Patch(t.Context(), r.fetch(first).ID, after.ID, 1000)
	if err != nil || !cut || len(patch) != 1000 {
		t.Errorf("got %d bytes, cut %t (%v)", len(patch), cut, err)
	}
	if _, err := r.copy().Output(t.Context(), 100, "cat-file", "-p", after.ID+":a.txt"); !errors.Is(err, clone.ErrTooLarge) {
		t.Errorf("an output beyond its bound: %v", err)
	}
}
