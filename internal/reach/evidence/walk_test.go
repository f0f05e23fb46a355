package evidence

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

func TestOnlyQuietFilesAreNotReadAgain(t *testing.T) {
	began := time.Now()
	long := began.Add(-time.Hour)
	old := stamp{size: 1, modified: long, changed: long}
	fresh := stamp{size: 1, modified: long, changed: began.Add(-quietTime / 2)}
	for _, tt := range []struct {
		name     string
		id       string
		was, now stamp
		want     bool
	}{
		{"an old file with the same times", "id", old, old, true},
		{"one that changed just before", "id", fresh, fresh, false},
		{"another size", "id", old, stamp{size: 2, modified: long, changed: long}, false},
		{"another time", "id", old, fresh, false},
		{"one that could not be read", "", old, old, false},
	} {
		s := walker{previous: &tree{began: began, files: map[string]file{"x": {blob: blob{id: tt.id}, stamp: tt.was}}}}
		if _, got := s.unchanged("x", tt.now); got != tt.want {
			t.Errorf("%s: got %v, want %v", tt.name, got, tt.want)
		}
		if _, got := s.unchanged("y", tt.now); got {
			t.Errorf("%s: got another file", tt.name)
		}
	}
}

func TestAFolderThatCannotBeReadIsSeen(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "closed"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	s := walker{root: root, plain: true, tree: newTree()}
	// A file cannot be listed, and nor can a folder that was closed.
	if _, err := s.level(t.Context(), []string{"closed", "gone"}); err != nil {
		t.Fatal(err)
	}
	if got, want := s.tree.since(&tree{}).Unread, []string{"closed"}; !slices.Equal(got, want) {
		t.Errorf("not read: got %v, want %v", got, want)
	}
	if id := s.tree.hash(sha1Digits); id != "" {
		t.Errorf("its tree: got %s, want none", id)
	}
}
