//go:build unix

package evidence_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/parley-agents/parley/hub"
)

func TestDiffIsBounded(t *testing.T) {
	root := folder(t)
	in := inspector(t, nil, root)
	n := 0
	for _, tt := range []struct {
		name string
		fill func(t *testing.T, repo string)
		more int
		has  []string
		not  []string
	}{
		{"without a change", func(*testing.T, string) {}, 0, nil, []string{"diff"}},
		{"a change and a new file", func(t *testing.T, repo string) {
			write(t, filepath.Join(repo, "a.txt"), "edited\n")
			write(t, filepath.Join(repo, "new", "b.txt"), "new\n")
		}, 0, []string{"+edited", "+new", "new file mode"}, nil},
		{"many new files: changes go first, the rest is counted", func(t *testing.T, repo string) {
			write(t, filepath.Join(repo, "a.txt"), "edited\n")
			for i := range 250 {
				write(t, filepath.Join(repo, fmt.Sprintf("A%03d", i)), "new\n")
			}
		}, 51, []string{"+edited", "A000", "A198"}, []string{"A199"}},
		{"a link, a pipe and a large file are counted", func(t *testing.T, repo string) {
			link(t, "a.txt", filepath.Join(repo, "link"))
			write(t, filepath.Join(repo, "large"), strings.Repeat("x\n", 128<<10+1))
			write(t, filepath.Join(repo, "small"), "small\n")
			if err := syscall.Mkfifo(filepath.Join(repo, "pipe"), 0o600); err != nil {
				t.Fatal(err)
			}
		}, 3, []string{"+small"}, []string{"large", "link", "pipe"}},
		{"a patch beyond its size ends before the file that does not fit", func(t *testing.T, repo string) {
			for i := range 12 {
				write(t, filepath.Join(repo, fmt.Sprintf("n%02d", i)), strings.Repeat(fmt.Sprintf("line of %d\n", i), 10_000))
			}
		}, 8, []string{"n00", "n03"}, []string{"n04"}},
		{"a change whose patch alone is too large is counted", func(t *testing.T, repo string) {
			write(t, filepath.Join(repo, "z.txt"), strings.Repeat("x\n", 1<<19))
			commitAll(t, repo, "large")
			write(t, filepath.Join(repo, "z.txt"), "small\n")
			write(t, filepath.Join(repo, "a.txt"), "edited\n")
		}, 1, []string{"+edited"}, []string{"z.txt"}},
		{"a file that is ignored is not counted", func(t *testing.T, repo string) {
			write(t, filepath.Join(repo, ".gitignore"), "*.log\n")
			write(t, filepath.Join(repo, "x.log"), "x")
		}, 0, []string{".gitignore"}, []string{"x.log"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n++
			repo := filepath.Join(root, fmt.Sprint("repo", n))
			newRepository(t, repo)
			tt.fill(t, repo)
			got, err := in.Diff(t.Context(), repo, "")
			if err != nil {
				t.Fatal(err)
			}
			if got.More != tt.more || len(got.Text) > 512<<10 || len(got.Commit) != 40 {
				t.Errorf("%d more files, %d bytes, commit %s; want %d more", got.More, len(got.Text), got.Commit, tt.more)
			}
			for _, want := range tt.has {
				if !strings.Contains(got.Text, want) {
					t.Errorf("the patch has no %q:\n%.800s", want, got.Text)
				}
			}
			for _, bad := range tt.not {
				if strings.Contains(got.Text, bad) {
					t.Errorf("the patch has %q", bad)
				}
			}
		})
	}
	if _, err := in.Diff(t.Context(), filepath.Join(root, "repo1"), "abc"); hub.CodeOf(err) != hub.CodeInvalid {
		t.Errorf("a short name of a commit: got %v, want %s", err, hub.CodeInvalid)
	}
}
