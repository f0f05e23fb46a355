package keep

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/parley-agents/parley/hub"
)

// Stash returns the commits of the entries of the stash, the newest first.
func (s *Store) Stash(t hub.WorkingTree) (out []string) {
	raw, err := os.ReadFile(filepath.Join(t.Repository, "logs", "refs", "stash"))
	if err != nil {
		return nil
	}
	for line := range strings.Lines(string(raw)) {
		if fields := strings.Fields(line); len(fields) > 1 {
			out = append(out, fields[1])
		}
	}
	slices.Reverse(out)
	return out
}

// Siblings returns the tops of the working trees that the repository of a tree lists.
func (s *Store) Siblings(t hub.WorkingTree) (out []string) {
	if t.Repository == "" {
		return nil
	}
	if filepath.Base(t.Repository) == ".git" {
		out = append(out, filepath.Dir(t.Repository))
	}
	files, _ := filepath.Glob(filepath.Join(t.Repository, "worktrees", "*", "gitdir")) // the pattern is valid
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err == nil {
			out = append(out, filepath.Dir(strings.TrimSpace(string(raw))))
		}
	}
	return out
}
