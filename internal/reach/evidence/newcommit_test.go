//go:build unix

package evidence_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/reach/evidence"
)

func TestMakeCommit(t *testing.T) {
	begin := func(t *testing.T, initArgs ...string) (in *evidence.Inspector, repo string, ask hub.NewCommit) {
		root := folder(t)
		repo = filepath.Join(root, "repo")
		head := newRepository(t, repo, initArgs...)
		in = inspector(t, nil, root)
		return in, repo, hub.NewCommit{Path: repo, Message: "a change", Author: "builder", Head: head, At: hub.At(time.Now())}
	}
	clean := func(t *testing.T, repo string) {
		t.Helper()
		if got := git(t, repo, "status", "--porcelain"); got != "" {
			t.Errorf("git status: got %q, want nothing", got)
		}
		git(t, repo, "fsck", "--strict")
	}
	edit := func(t *testing.T, repo string) {
		write(t, filepath.Join(repo, "a.txt"), "one\n2\n")
		write(t, filepath.Join(repo, "new", "file.txt"), "new\n")
		remove(t, filepath.Join(repo, "src", "b.txt"))
	}
	all := []string{"a.txt", "new/file.txt", "src/b.txt"}

	for name, args := range map[string][]string{"SHA-1": nil, "SHA-256": {"--object-format=sha256"}} {
		t.Run("files are committed on the branch of a repository with "+name, func(t *testing.T) {
			in, repo, ask := begin(t, args...)
			edit(t, repo)
			ask.Files = all
			id, err := in.MakeCommit(t.Context(), ask)
			if err != nil {
				t.Fatal(err)
			}
			if got := git(t, repo, "rev-parse", "main"); got != id {
				t.Errorf("main: got %s, want %s", got, id)
			}
			if got := git(t, repo, "show", "--format=%an <%ae>", "--name-status", "HEAD"); got != "builder <builder@parley.invalid>\n\nM\ta.txt\nA\tnew/file.txt\nD\tsrc/b.txt" {
				t.Errorf("the commit: got %s", got)
			}
			clean(t, repo)
			if got := git(t, repo, "reflog", "-1", "--format=%gs"); got != "commit: a change" {
				t.Errorf("reflog: got %q", got)
			}
			if again, err := in.MakeCommit(t.Context(), hub.NewCommit{Path: repo, Files: all[:2], Message: "again", Author: "builder", Head: id, At: ask.At}); err != nil || again != id {
				t.Errorf("nothing to commit: got %s (%v), want %s", again, err, id)
			}
		})
	}
	t.Run("other files stay as they are, staged or not", func(t *testing.T) {
		in, repo, ask := begin(t)
		edit(t, repo)
		write(t, filepath.Join(repo, "staged"), "staged\n")
		git(t, repo, "add", "staged")
		ask.Files = []string{"a.txt"}
		if _, err := in.MakeCommit(t.Context(), ask); err != nil {
			t.Fatal(err)
		}
		if got := git(t, repo, "status", "--porcelain"); got != "D src/b.txt\nA  staged\n?? new/" {
			t.Errorf("got %q", got)
		}
	})
	t.Run("in a linked worktree the commit goes to its branch", func(t *testing.T) {
		in, repo, ask := begin(t)
		git(t, repo, "worktree", "add", "-q", "-b", "side", repo+"-side")
		ask.Path = repo + "-side"
		edit(t, ask.Path)
		ask.Files = all
		id, err := in.MakeCommit(t.Context(), ask)
		if err != nil || git(t, repo, "rev-parse", "side") != id || git(t, repo, "rev-parse", "main") != ask.Head {
			t.Errorf("got %s (%v), want it on side alone", id, err)
		}
		clean(t, ask.Path)
		clean(t, repo)
	})
	t.Run("neither hooks nor the configuration of the repository run", func(t *testing.T) {
		in, repo, ask := begin(t)
		marks := folder(t)
		trapped(t, repo, marks)
		ask.Head = git(t, repo, "rev-parse", "HEAD")
		os.RemoveAll(marks)
		os.Mkdir(marks, 0o700)
		write(t, filepath.Join(repo, "plain.txt"), "plain\n")
		ask.Files = []string{"plain.txt"}
		in.MakeCommit(t.Context(), ask) // it may be refused
		if got := sprung(t, marks); len(got) > 0 {
			t.Errorf("ran %v", got)
		}
	})
	for name, tt := range map[string]struct {
		prepare func(t *testing.T, repo string, ask *hub.NewCommit)
		code    hub.Code
	}{
		"a branch that moved": {func(t *testing.T, repo string, _ *hub.NewCommit) {
			git(t, repo, "commit", "-q", "--allow-empty", "-m", "x")
		}, hub.CodeConflict},
		"no branch": {func(t *testing.T, repo string, _ *hub.NewCommit) { git(t, repo, "checkout", "-q", "--detach") }, hub.CodeConflict},
		"a lock of git": {func(t *testing.T, repo string, _ *hub.NewCommit) {
			write(t, filepath.Join(repo, ".git", "index.lock"), "")
		}, hub.CodeConflict},
		"a lock of the branch": {func(t *testing.T, repo string, _ *hub.NewCommit) {
			write(t, filepath.Join(repo, ".git", "refs", "heads", "main.lock"), "")
		}, hub.CodeConflict},
		"a merge that is not finished": {func(t *testing.T, repo string, ask *hub.NewCommit) {
			write(t, filepath.Join(repo, ".git", "MERGE_HEAD"), ask.Head+"\n")
		}, hub.CodeConflict},
		"a file that a filter converts": {func(t *testing.T, repo string, _ *hub.NewCommit) {
			write(t, filepath.Join(repo, ".gitattributes"), "*.txt filter=lfs\n")
		}, hub.CodeNotEnabled},
		"other line ends": {func(t *testing.T, repo string, _ *hub.NewCommit) {
			write(t, filepath.Join(repo, "a.txt"), "one\r\ntwo\r\n")
		}, hub.CodeNotEnabled},
		"a file that is not there": {func(_ *testing.T, _ string, ask *hub.NewCommit) { ask.Files = []string{"none"} }, hub.CodeNotFound},
		"a file outside":           {func(_ *testing.T, _ string, ask *hub.NewCommit) { ask.Files = []string{"../x"} }, hub.CodePolicy},
		"a folder":                 {func(_ *testing.T, _ string, ask *hub.NewCommit) { ask.Files = []string{"src"} }, hub.CodeConflict},
		"another folder":           {func(t *testing.T, _ string, ask *hub.NewCommit) { ask.Path = folder(t) }, hub.CodeDenied},
	} {
		t.Run(name+" is refused, and nothing changes", func(t *testing.T) {
			in, repo, ask := begin(t)
			write(t, filepath.Join(repo, "a.txt"), "one\n2\n")
			ask.Files = []string{"a.txt"}
			tt.prepare(t, repo, &ask)
			before := filesOf(listing(t, repo))
			if id, err := in.MakeCommit(t.Context(), ask); hub.CodeOf(err) != tt.code {
				t.Errorf("got %q, %q (%v), want %s", id, hub.CodeOf(err), err, tt.code)
			}
			if after := filesOf(listing(t, repo)); after != before {
				t.Errorf("the repository changed:\n%s", before+"---\n"+after)
			}
		})
	}
}

// filesOf returns the lines of a listing that are about files: a lock changes the time of
// its folder.
func filesOf(listing string) string {
	var b strings.Builder
	for line := range strings.Lines(listing) {
		if !strings.Contains(line, " drwx") {
			b.WriteString(line)
		}
	}
	return b.String()
}
