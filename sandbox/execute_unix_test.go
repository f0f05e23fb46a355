//go:build unix

package sandbox

import (
	"os"
	"path/filepath"
	"testing"
)

func TestWritesThatRun(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{"repo/.git/modules/sub", "repo/src", "repo/nested/.git", "bare/refs", "bare/objects", "half/refs", "half/objects", ".claude/worktrees/one/src"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range []string{"bare/HEAD", ".claude/worktrees/one/.git"} {
		if err := os.WriteFile(filepath.Join(dir, f), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(filepath.Join(dir, "repo/.git"), filepath.Join(dir, "repo/src/link")); err != nil {
		t.Fatal(err)
	}
	write := NewPermissions(PolicyWrite, nil)
	for _, tt := range []struct {
		path string
		ok   bool
	}{
		{"repo/src/main.go", true}, {"repo/README.md", true}, {"repo/.gitignore", true}, {"repo/git/config", true}, {"repo/src/config", true},
		{"half/config", true}, {".claude/worktrees/one/src/a.go", true},

		{"repo/.git/config", false}, {"repo/.git/hooks/pre-commit", false}, {"repo/.GIT/config", false}, {"repo/.git./config", false}, {"repo/git~1/config", false},
		{"repo/.git", false}, {"repo/.gitattributes", false}, {"repo/src/.gitattributes", false}, {"repo/.git/info/attributes", false}, {"repo/.git/modules/sub/config", false},
		{"repo/nested/.git/config", false}, {"repo/src/link/config", false}, {"repo/src/../.git/config", false}, {"repo/new/.git/config", false},
		{"bare/config", false}, {"bare/hooks/post-checkout", false}, {"half/HEAD", false},
		{"repo/.vscode/tasks.json", false}, {"repo/.envrc", false}, {"repo/.bashrc", false}, {"repo/.claude/settings.json", false}, {"repo/.mcp.json", false},
		{".claude/worktrees/one/.git", false}, {".claude/settings.json", false},
	} {
		t.Run(tt.path, func(t *testing.T) {
			path := filepath.Join(dir, tt.path)
			if tt.path == "repo/src/../.git/config" {
				path = dir + "/" + tt.path
			}
			if err := write.Permit(t.Context(), KindEdit, "write "+tt.path, path); (err == nil) != tt.ok {
				t.Errorf("policy write: got %v, want permission %v", err, tt.ok)
			}
			if err := NewPermissions(PolicyYolo, nil).Permit(t.Context(), KindEdit, "write", path); err != nil {
				t.Errorf("policy yolo: got %v", err)
			}
			for _, kind := range []Kind{KindMove, KindDelete} {
				d, err := write.Decide(t.Context(), Request{Kind: kind, Paths: []string{"/x/y", path}, Options: []Option{{ID: "yes", Kind: AllowOnce}, {ID: "no", Kind: RejectOnce}}})
				if want := write.policy.Verdict(kind) == Allow && tt.ok; err != nil || d.Allowed != want {
					t.Errorf("%s: got %v, %v, want %v", kind, d, err, want)
				}
			}
		})
	}
}
