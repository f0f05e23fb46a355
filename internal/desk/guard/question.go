package guard

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/parley-agents/parley/internal/desk/cli"
	"github.com/parley-agents/parley/internal/ground/effects"
	"github.com/parley-agents/parley/internal/service/reservation"
)

// Questions returns the questions about a call of a tool, one for each working tree, and more
// for a call with more paths than one question may have: none for
// a call that failed before it changed a file, and for one in no known folder.
func Questions(use cli.ToolUse) []reservation.Question {
	kind, ok := kindOf(use)
	if !ok || !filepath.IsAbs(use.Dir) {
		return nil
	}
	dir := resolved(use.Dir)

	// Codex edits files by a patch inside of a shell command: they are reserved as in an edit.
	paths := slices.Clone(use.Paths)
	if use.Command != "" {
		paths = append(paths, effects.Read(use.Command, dir).Patched...)
	}

	// A command is judged in its own folder, with the files of the same working tree.
	var out []reservation.Question
	if use.Command != "" {
		out = append(out, reservation.Question{Tree: dir, Paths: []string{}, Kind: kind, Session: use.Session, Command: use.Command})
	}
	for _, path := range paths {
		path = resolved(joined(use.Dir, path))
		top := treeOf(path, dir)
		i := slices.IndexFunc(out, func(q reservation.Question) bool {
			isTree := q.Tree == top || (q.Command != "" && treeOf(dir, dir) == top)
			return isTree && (len(q.Paths) < reservation.MaxQuestion || slices.Contains(q.Paths, path))
		})
		if i < 0 {
			i = len(out)
			out = append(out, reservation.Question{Tree: top, Kind: kind, Session: use.Session})
		}
		if !slices.Contains(out[i].Paths, path) {
			out[i].Paths = append(out[i].Paths, path)
		}
	}
	return out
}

// kindOf returns the kind of the questions about a call. Reads are told when they are over. An
// edit that failed changed nothing; a command that failed may have.
func kindOf(use cli.ToolUse) (reservation.Kind, bool) {
	hasResult := use.Ended && !use.Failed
	switch use.Kind {
	case cli.ReadTool:
		return reservation.Read, hasResult
	case cli.ShellTool:
		if use.Ended {
			return reservation.After, true
		}
		return reservation.Edit, true
	case cli.EditTool:
		if use.Ended {
			return reservation.After, hasResult
		}
		return reservation.Edit, true
	}
	return "", false
}

// resolved returns an absolute path without links, also of a file that does not exist yet.
func resolved(path string) string {
	path = filepath.Clean(path)
	rest := ""
	for known := path; ; known = filepath.Dir(known) {
		if real, err := filepath.EvalSymlinks(known); err == nil {
			return filepath.Join(real, rest)
		}
		if known == filepath.Dir(known) {
			return path
		}
		rest = filepath.Join(filepath.Base(known), rest)
	}
}

// treeOf returns the top of the working tree that a path lies in. Without git it is dir, if the
// path lies there, else the folder of the file.
func treeOf(path, dir string) string {
	for folder := path; ; folder = filepath.Dir(folder) {
		if _, err := os.Lstat(filepath.Join(folder, ".git")); err == nil {
			return folder
		}
		if folder == filepath.Dir(folder) {
			break
		}
	}
	if rel, err := filepath.Rel(dir, path); err == nil && filepath.IsLocal(rel) {
		return dir
	}
	return filepath.Dir(path)
}

// MainTree returns the first working tree of the repository that a folder lies in, and the
// folder itself if that is not a linked one.
func MainTree(dir string) string {
	dir = resolved(dir)
	top := treeOf(dir, dir)
	raw, err := os.ReadFile(filepath.Join(top, ".git"))
	if err != nil {
		return dir // it has the folder of the repository itself, or there is no git
	}
	name, isLink := strings.CutPrefix(strings.TrimSpace(string(raw)), "gitdir: ")
	if !isLink {
		return dir
	}
	own := joined(top, name)
	raw, err = os.ReadFile(filepath.Join(own, "commondir"))
	if err != nil {
		return dir // a submodule
	}
	return filepath.Dir(joined(own, strings.TrimSpace(string(raw))))
}

// joined returns a path that begins in a folder.
func joined(folder, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(folder, path)
}
