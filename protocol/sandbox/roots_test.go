package sandbox_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/parley-agents/parley/protocol/sandbox"
)

// folder returns a new folder by its real name.
func folder(t testing.TB) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func open(t testing.TB, dirs ...string) *sandbox.Roots {
	t.Helper()
	roots, err := sandbox.Open(dirs...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { roots.Close() })
	return roots
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// put writes a file, and the folders that it needs.
func put(t testing.TB, path, text string) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(path), 0o755))
	must(t, os.WriteFile(path, []byte(text), 0o644))
}

func wantCode(t testing.TB, err error, want sandbox.Code) {
	t.Helper()
	if got := sandbox.CodeOf(err); got != want {
		t.Errorf("error: got %q (%v), want %q", got, err, want)
	}
}

func TestOpen(t *testing.T) {
	dir := folder(t)
	put(t, filepath.Join(dir, "file"), "")
	for _, tt := range []struct {
		name string
		dirs []string
		want sandbox.Code
	}{
		{"a folder is a root", []string{dir}, ""},
		{"without a folder there is no sandbox", nil, sandbox.CodeInvalid},
		{"a relative root is refused", []string{"."}, sandbox.CodeInvalid},
		{"a root must exist", []string{dir, filepath.Join(dir, "none")}, sandbox.CodeNotFound},
		{"a file is no root", []string{filepath.Join(dir, "file")}, sandbox.CodeInvalid},
	} {
		t.Run(tt.name, func(t *testing.T) {
			roots, err := sandbox.Open(tt.dirs...)
			wantCode(t, err, tt.want)
			if err == nil {
				must(t, roots.Close())
			}
		})
	}
}
