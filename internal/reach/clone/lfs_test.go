package clone_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/parley-agents/parley/internal/reach/clone"
)

// largeFiles is a program that does for a filter of git what git LFS does: the repository has a
// pointer, and the content is in a store beside it.
const largeFiles = `#!/bin/sh
case $1 in
clean)
  cat > "$STORE/incoming.$$"
  id=$(sha256sum < "$STORE/incoming.$$" | cut -d ' ' -f 1)
  mv "$STORE/incoming.$$" "$STORE/$id"
  printf 'version https://git-lfs.github.com/spec/v1\noid sha256:%s\nsize %d\n' "$id" "$(wc -c < "$STORE/$id")";;
smudge)
  id=$(sed -n 's/^oid sha256://p')
  cat "$STORE/$id";;
esac
`

// newLargeFiles is a landing that changes big.bin, which git keeps as a pointer, and the folder with
// the contents. The filter is the user's own, as git lfs install sets it up.
func newLargeFiles(t *testing.T) (*landing, string) {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("the filter of this test is a program of Unix")
	}
	store := t.TempDir()
	script := filepath.Join(t.TempDir(), "large")
	if err := os.WriteFile(script, []byte(strings.ReplaceAll(largeFiles, "$STORE", store)), 0o755); err != nil {
		t.Fatal(err)
	}
	user := filepath.Join(t.TempDir(), "gitconfig")
	writeFile(t, user, userSettings+fmt.Sprintf("[filter \"lfs\"]\n\tclean = %[1]s clean\n\tsmudge = %[1]s smudge\n\trequired = true\n", script))
	t.Setenv("GIT_CONFIG_GLOBAL", user)
	r := serialRepository(t)
	r.commit(".gitattributes", "*.bin filter=lfs -text\n", "big.bin", "old content\n")
	old := r.fetch("main")
	work := r.branch("main", "work", "big.bin", "new content\n")
	return &landing{repository: r, old: old, new: r.merge(old, work).Commit}, store
}

// Files of git LFS come into the tree with their content; a changed one is in the way.
func TestForwardLargeFiles(t *testing.T) {
	l, _ := newLargeFiles(t)
	l.write("big.bin", "mine\n")
	l.waited(l.forward(), l.dir, clone.Changed, "big.bin")
	if got := read(t, l.dir, "big.bin"); got != "mine\n" {
		t.Errorf("the file of the person is %q", got)
	}

	l.git("checkout", "-q", "big.bin")
	if got := l.forward(); !got.Moved {
		t.Fatalf("got %+v", got)
	}
	if got := read(t, l.dir, "big.bin"); got != "new content\n" || l.git("status", "--porcelain") != "" {
		t.Errorf("the file is %q, the status %q", got, l.git("status", "--porcelain"))
	}
	if got := l.git("show", "main:big.bin"); !strings.HasPrefix(got, "version https://git-lfs.github.com/spec/v1\n") {
		t.Errorf("the commit has %q", got)
	}
	l.noTraces()
}

// If the content of a large file cannot be had, nothing changes.
func TestForwardMissingLargeFile(t *testing.T) {
	l, store := newLargeFiles(t)
	files, err := os.ReadDir(store)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		os.Remove(filepath.Join(store, f.Name()))
	}
	before := l.everything()
	got, err := l.copy().Forward(t.Context(), "main", l.old.ID, l.new.ID)
	if err == nil || got.Moved {
		t.Errorf("got %+v (%v), want an error", got, err)
	}
	if after := l.everything(); after != before {
		t.Errorf("the tree has changed from\n%s\nto\n%s", before, after)
	}
	l.noTraces()
}
