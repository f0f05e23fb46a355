package clone

import (
	"context"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/parley-agents/parley/internal/ground/git"
)

// A tree is a working tree of the user's repository.
type tree struct {
	Folder string `json:"folder"`  // its top
	GitDir string `json:"git_dir"` // its own folder of git
}

// trees returns the working trees of the repository whose folders are there. A folder that
// the repository lists, but that does not lead back to it, is none.
func (s source) trees(ctx context.Context) ([]tree, error) {
	var out []tree
	main, err := s.mainTree(ctx)
	if err != nil {
		return nil, err
	}
	if main != "" {
		out = append(out, tree{Folder: main, GitDir: s.common})
	}

	entries, err := os.ReadDir(filepath.Join(s.common, "worktrees"))
	if err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	for _, e := range entries {
		dir := filepath.Join(s.common, "worktrees", e.Name())
		file, err := realFrom(dir, strings.TrimSpace(readText(filepath.Join(dir, "gitdir"))))
		if err != nil || !e.IsDir() {
			continue
		}
		if leadsTo(file, dir) {
			out = append(out, tree{Folder: filepath.Dir(file), GitDir: dir})
		}
	}
	return out, nil
}

// leadsTo reports whether a .git is a file that names a folder.
func leadsTo(file, dir string) bool {
	info, err := os.Lstat(file)
	if err != nil || !info.Mode().IsRegular() {
		return false
	}
	to, ok := strings.CutPrefix(strings.TrimSpace(readText(file)), "gitdir: ")
	if !ok {
		return false
	}
	real, err := realFrom(filepath.Dir(file), to)
	return err == nil && real == dir
}

// mainTree returns the top of the main working tree, "" if the repository has none.
func (s source) mainTree(ctx context.Context) (string, error) {
	settings, err := s.settings(ctx)
	if err != nil {
		return "", err
	}
	if slices.Contains([]string{"true", "yes", "on", "1"}, strings.ToLower(settings["core.bare"])) {
		return "", nil
	}
	around := ""
	if filepath.Base(s.common) == ".git" {
		around = filepath.Dir(s.common)
	}

	named := settings["core.worktree"]
	if named == "" {
		return around, nil
	}
	folder, err := realFrom(s.common, named)
	if err != nil {
		return "", nil // the folder is not there
	}
	if folder != around && !leadsTo(filepath.Join(folder, ".git"), s.common) {
		return "", fail(ErrUnsafe, "find working trees", s.folder, "core.worktree names "+folder)
	}
	return folder, nil
}

// settings returns the settings in the files of the repository itself.
func (s source) settings(ctx context.Context) (map[string]string, error) {
	out := map[string]string{}
	for _, name := range []string{"config", "config.worktree"} {
		file := filepath.Join(s.common, name)
		if _, err := os.Lstat(file); err != nil {
			continue
		}
		some, err := git.Settings(ctx, file)
		if err != nil {
			return nil, failed(err, "read the settings", s.folder)
		}
		maps.Copy(out, some)
	}
	return out, nil
}

// head returns the name of the branch that is checked out in a tree, with refs/heads/; "" if
// the head is detached.
func (t tree) head(ctx context.Context) string {
	file := filepath.Join(t.GitDir, "HEAD")
	if info, err := os.Lstat(file); err == nil && info.Mode().IsRegular() {
		ref, symbolic := strings.CutPrefix(strings.TrimSpace(readText(file)), "ref: ")
		if ref != "refs/heads/.invalid" { // which stands for another kind of storage
			if !symbolic {
				return ""
			}
			return ref
		}
	}
	ref, err := output(git.In(ctx, program, t.Folder, "symbolic-ref", "--quiet", "HEAD"), "symbolic-ref", t.Folder)
	if err != nil {
		return ""
	}
	return ref
}

// underWay returns the operation of git that has begun in a tree and will write to a branch:
// one in a tree that has the branch checked out, or one that returns to it. It is "" if there
// is none.
func (t tree) underWay(branch string, checkedOut bool) Reason {
	for _, folder := range []string{"rebase-merge", "rebase-apply"} {
		if !t.has(folder) {
			continue
		}
		of := strings.TrimSpace(readText(filepath.Join(t.GitDir, folder, "head-name")))
		if checkedOut || of == "refs/heads/"+branch {
			return Rebasing
		}
	}

	if t.has("BISECT_LOG") {
		from := strings.TrimSpace(readText(filepath.Join(t.GitDir, "BISECT_START")))
		if checkedOut || from == branch {
			return Bisecting
		}
	}
	if !checkedOut {
		return ""
	}
	for file, reason := range map[string]Reason{"MERGE_HEAD": Merging, "CHERRY_PICK_HEAD": Picking, "REVERT_HEAD": Reverting, "sequencer": Picking} {
		if t.has(file) {
			return reason
		}
	}
	return ""
}

// has reports whether the tree's own folder of git has a file.
func (t tree) has(name string) bool {
	_, err := os.Lstat(filepath.Join(t.GitDir, name))
	return err == nil
}

// isLink reports whether a mode is that of a symbolic link.
func isLink(mode fs.FileMode) bool { return mode&fs.ModeSymlink != 0 }
