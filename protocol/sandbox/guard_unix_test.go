//go:build unix

package sandbox

import (
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// workFolder returns a folder with working trees of git, repositories without one, and
// links.
func workFolder(t *testing.T) string {
	t.Helper()
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(base, ".local", "share", "work") // names above the folder say nothing
	for _, d := range []string{
		"repo/.git/modules/sub", "repo/src", "repo/nested/.git", ".claude/worktrees/one/src",
		"bare/refs", "bare/objects", "half/refs", "half/objects", "shipped/refs", "common",
	} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range []string{"bare/HEAD", "shipped/HEAD", "common/HEAD", "common/commondir", ".claude/worktrees/one/.git"} {
		if err := os.WriteFile(filepath.Join(dir, f), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(filepath.Join(dir, "repo/.git"), filepath.Join(dir, "repo/src/link")); err != nil {
		t.Fatal(err)
	}
	return dir
}

// guardedWrites are paths in a workFolder with the verdict of policy write.
var guardedWrites = map[Verdict][]string{
	Allow: {
		"repo/src/main.go", "repo/README.md", "repo/git/config", "repo/src/config", "repo/objects/a.go", "repo/refs/a.md", "repo/src/header", "repo/HEAD.md",
		"half/config", "shipped/README.md", ".claude/worktrees/one/src/a.go",
		"repo/.gitignore", "repo/.dockerignore", "repo/.gitkeep", "repo/.editorconfig",
	},
	Reject: {
		"repo/.git/config", "repo/.git/hooks/pre-commit", "repo/.GIT/config", "repo/.git./config", "repo/git~1/config", "repo/.g\u200cit/config", "repo/.git::$INDEX_ALLOCATION/config",
		"repo/.git", "repo/.gitattributes", "repo/src/.gitattributes", "repo/.git/info/attributes", "repo/.git/modules/sub/config",
		"repo/nested/.git/config", "repo/src/link/config", "repo/src/../.git/config", "repo/new/.git/config", ".claude/worktrees/one/.git",

		"repo/docs/HEAD", "repo/docs/head", "half/HEAD", "bare/config", "bare/hooks/post-checkout", "bare/sub/a.txt", "common/config",
		"shipped/objects/a", "shipped/refs/a", "shipped/commondir", "shipped/Objects/a",

		"repo/.githooks/pre-commit", "repo/.husky/pre-commit", "repo/lefthook.yml", "repo/lefthook.toml", "repo/lefthook-local.yml", "repo/.pre-commit-config.yaml", "repo/.hg/hgrc",
		"repo/.bashrc", "repo/.bash_profile", "repo/.zshenv", "repo/.envrc", "repo/sub/.envrc",
		"repo/mise.toml", "repo/mise.local.toml", "repo/.mise.toml", "repo/.mise.local.toml", "repo/.config/mise.toml", "repo/.config/mise/config.toml", "repo/.config/mise/conf.d/a.toml",
		"repo/mise/config.toml", "repo/.mise/config.toml", "repo/.tool-versions",
		"repo/.vscode/tasks.json", "repo/.v\u017fcode/tasks.json", "repo/.VSCode/tasks.json", "repo/app.code-workspace", "repo/.idea/workspace.xml", "repo/.devcontainer.json",
		"repo/.exrc", "repo/.dir-locals.el", "repo/.gdbinit", "repo/.lldbinit", "repo/sitecustomize.py", "repo/src/sitecustomize.py", "repo/usercustomize.py",
		"repo/.yarnrc.yml", "repo/.yarn/plugins/a.cjs", "repo/.yarn/releases/yarn.cjs", "repo/.pnpmfile.cjs",
		"repo/.mcp.json", "repo/.github/mcp.json", "repo/.github/hooks/a.json",
		".claude/settings.json", "repo/.claude/settings.json", "repo/.claude.json", "repo/.codex/config.toml", "repo/.gemini/settings.json", "repo/.qwen/settings.json",
		"repo/opencode.json", "repo/opencode.jsonc", "repo/OpenCode.json", "repo/.opencode/plugin/a.js", "repo/crush.json", "repo/.crush.json",
		"repo/.roo/mcp.json", "repo/.kilocode/mcp.json", "repo/.goose/config.yaml", "repo/.amp/settings.json", "repo/.continue/config.yaml", "repo/.windsurf/mcp.json",
	},
	Ask: {
		"repo/CLAUDE.md", "repo/claude.md", "repo/sub/CLAUDE.md", "repo/CLAUDE.local.md", "repo/AGENTS.md", "repo/GEMINI.md", "repo/QWEN.md",
		"repo/.cursorrules", "repo/.github/copilot-instructions.md", "repo/.agent-of-tomorrow/settings.json", "repo/.toolrc", "../elsewhere.txt",
	},
}

func TestWritesThatRun(t *testing.T) {
	dir := workFolder(t)
	options := []Option{{ID: "yes", Kind: AllowOnce}, {ID: "no", Kind: RejectOnce}}
	for want, paths := range guardedWrites {
		for _, path := range paths {
			t.Run(fmt.Sprintf("%s %q", want, path), func(t *testing.T) {
				path := dir + "/" + path // not cleaned
				for _, kind := range []Kind{KindEdit, KindMove, KindDelete} {
					r := Request{Kind: kind, Title: "change", Paths: []string{dir + "/repo/a.txt", path}, Folders: []string{dir}, Options: options}
					asked := 0
					person := func(_ context.Context, r Request) (string, error) {
						asked++
						if want != Allow && r.Warning == "" {
							t.Errorf("%s: the person who is asked gets no warning", kind)
						}
						return "yes", nil
					}
					for _, tt := range []struct {
						policy Policy
						ask    Asker
						want   bool
						asked  int
					}{
						{PolicyWrite, nil, want == Allow, 0},
						{PolicyWrite, person, want != Reject, map[Verdict]int{Ask: 1}[want]},
						{PolicyAsk, person, true, 1},
						{PolicyAsk, nil, false, 0},
						{PolicyRead, person, false, 0},
						{PolicyYolo, nil, true, 0},
					} {
						asked = 0
						d, err := NewPermissions(tt.policy, tt.ask).Decide(t.Context(), r)
						if err != nil || d.Allowed != tt.want || asked != tt.asked {
							t.Errorf("%s under policy %s: got %+v, %v and %d questions, want permission %v and %d", kind, tt.policy, d, err, asked, tt.want, tt.asked)
						}
						if tt.policy == PolicyWrite && !d.Allowed && !strings.Contains(d.Reason, path) {
							t.Errorf("%s: the reason %q does not name the file", kind, d.Reason)
						}
					}
				}
			})
		}
	}
	t.Run("a relative path is in the folder", func(t *testing.T) {
		r := Request{Kind: KindEdit, Paths: []string{"repo/.envrc"}, Folders: []string{dir}, Options: options}
		if d, err := NewPermissions(PolicyWrite, nil).Decide(t.Context(), r); err != nil || d.Allowed {
			t.Errorf("got %+v, %v, want a rejection", d, err)
		}
	})
	t.Run("without folders all names count", func(t *testing.T) {
		r := Request{Kind: KindEdit, Paths: []string{dir + "/a.txt"}, Options: options}
		if d, err := NewPermissions(PolicyWrite, nil).Decide(t.Context(), r); err != nil || d.Allowed {
			t.Errorf("got %+v, %v, want a rejection, because of .local", d, err)
		}
	})
}

// TestGuards holds the table to its own rules.
func TestGuards(t *testing.T) {
	for i, g := range guards {
		for _, p := range g.paths {
			if p != strings.ToLower(p) || strings.HasPrefix(p, "/") {
				t.Errorf("pattern %q is not relative and in lower case", p)
			}
			if _, err := path.Match(p, ""); err != nil {
				t.Errorf("pattern %q: %v", p, err)
			}
		}
		if g.reader == "" || g.verdict == "" {
			t.Errorf("row %d has no reason or no verdict", i)
		}
		if i > 0 && g.verdict == Reject && guards[i-1].verdict != Reject {
			t.Errorf("row %d refuses after a row that does not, which may match first", i)
		}
	}
}

// TestWritesAtOnce has an agent make the parts of a git repository at the same time, so
// that each is checked before the others exist.
func TestWritesAtOnce(t *testing.T) {
	for round := range 8 {
		dir := t.TempDir()
		roots, err := Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		files := NewGuarded(NewFiles(roots), NewPermissions(PolicyWrite, nil))
		var wg sync.WaitGroup
		for name, text := range map[string]string{"HEAD": "ref: refs/heads/main\n", "objects/a": "", "refs/a": "", "config": "[core]\n\tfsmonitor = touch pwned\n"} {
			wg.Go(func() { files.Write(t.Context(), filepath.Join(dir, "docs", name), text) })
		}
		wg.Wait()
		missing := 0
		for _, name := range []string{"HEAD", "objects", "refs", "config"} {
			if _, err := os.Stat(filepath.Join(dir, "docs", name)); err != nil {
				missing++
			}
		}
		if missing == 0 {
			t.Errorf("round %d: the folder is a repository whose configuration names a command", round)
		}
		roots.Close()
	}
}

func TestWriteWaits(t *testing.T) {
	t.Run("a write waits for the one before, and no longer than its context", func(t *testing.T) {
		dir := t.TempDir()
		roots, err := Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer roots.Close()
		asks, answer := make(chan struct{}, 2), make(chan struct{})
		files := NewGuarded(NewFiles(roots), NewPermissions(PolicyAsk, func(ctx context.Context, _ Request) (string, error) {
			asks <- struct{}{}
			select {
			case <-answer:
			case <-ctx.Done():
			}
			return string(AllowOnce), nil
		}))
		first := make(chan error)
		go func() { first <- files.Write(t.Context(), filepath.Join(dir, "a.txt"), "a") }()
		<-asks
		over, cancel := context.WithCancel(t.Context())
		cancel()
		if err := files.Write(over, filepath.Join(dir, "b.txt"), "b"); err == nil || len(asks) > 0 {
			t.Errorf("got %v and %d questions, want that a second write waits while the first is decided", err, len(asks))
		}
		close(answer)
		if err := <-first; err != nil {
			t.Error(err)
		}
	})
}
