package acpguard

import (
	"os"
	"path/filepath"
	"slices"

	"github.com/parley-agents/parley/internal/service/reservation"
	"github.com/parley-agents/parley/protocol/acp"
)

// questions returns the questions about a change, one for each working tree that it concerns.
// The hub finds the working tree of a question by a folder in it.
func (g *Guard) questions(kind reservation.Kind, c acp.Change) (out []reservation.Question) {
	folder := g.dir
	if c.Dir != "" {
		folder = absolute(g.dir, c.Dir)
	}
	if c.Command != "" {
		out = append(out, reservation.Question{Tree: folder, Paths: []string{}, Kind: kind, Session: g.o.Session, Command: c.Command})
	}

	for _, path := range c.Paths {
		path = withoutLinks(absolute(folder, path))
		tree := g.treeOf(path)
		i := slices.IndexFunc(out, func(q reservation.Question) bool { return q.Command == "" && q.Tree == tree })
		if i < 0 {
			i = len(out)
			out = append(out, reservation.Question{Tree: tree, Kind: kind, Session: g.o.Session})
		}
		if !slices.Contains(out[i].Paths, path) {
			out[i].Paths = append(out[i].Paths, path)
		}
	}
	return out
}

// absolute returns a path of the agent as an absolute one: a relative one begins in a folder.
func absolute(folder, path string) string {
	if !filepath.IsAbs(path) {
		path = filepath.Join(folder, path)
	}
	return filepath.Clean(path)
}

// withoutLinks returns a clean path without links, as far as it exists.
func withoutLinks(path string) string {
	for dir, rest := path, ""; ; {
		if target, err := filepath.EvalSymlinks(dir); err == nil {
			return filepath.Join(target, rest)
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return path
		}
		rest = filepath.Join(filepath.Base(dir), rest)
		dir = parent
	}
}

// treeOf returns a folder in the working tree of a file: the nearest folder above the file that
// has a .git, as a linked working tree or a submodule in the agent's folder has. Without git it
// is the folder of the agent, or for a file outside of that the folder of the file.
func (g *Guard) treeOf(path string) string {
	outside := ""
	for dir := filepath.Dir(path); ; dir = filepath.Dir(dir) {
		if _, err := os.Lstat(filepath.Join(dir, ".git")); err == nil {
			return dir
		}
		if info, err := os.Stat(dir); outside == "" && err == nil && info.IsDir() {
			outside = dir // the nearest folder that exists
		}
		if dir == filepath.Dir(dir) {
			break
		}
	}
	if rel, err := filepath.Rel(g.dir, path); err == nil && filepath.IsLocal(rel) {
		return g.dir
	}
	return outside
}
