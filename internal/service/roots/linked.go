package roots

import (
	"io"
	"os"
	"path/filepath"
	"strings"
)

// maxLinked is the number of linked working trees of one repository that are read.
const maxLinked = 1000

// linkedTrees returns the linked working trees of the repository at the top of a folder. Each is
// named by the repository, names the repository back, and belongs to the same user. Links in their
// paths are for the caller to refuse.
func linkedTrees(root string) (out []string) {
	folder := filepath.Join(root, ".git", "worktrees")
	if real, err := filepath.EvalSymlinks(folder); err != nil || real != folder {
		return nil // there are none, or they lie behind a link
	}
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil
	}
	for _, e := range entries[:min(len(entries), maxLinked)] {
		own := filepath.Join(folder, e.Name())
		file, ok := pathIn(filepath.Join(own, "gitdir"), own)
		if !ok || filepath.Base(file) != ".git" {
			continue
		}
		tree := filepath.Dir(file)
		text, ok := firstLine(file)
		back, isPointer := strings.CutPrefix(text, "gitdir: ")
		if !ok || !isPointer {
			continue
		}
		if !filepath.IsAbs(back) {
			back = filepath.Join(tree, back)
		}
		if filepath.Clean(back) == own && sameOwner(root, tree) {
			out = append(out, tree)
		}
	}
	return out
}

// pathIn returns the absolute path in a file, which may begin in a folder.
func pathIn(file, folder string) (string, bool) {
	path, ok := firstLine(file)
	if !filepath.IsAbs(path) {
		path = filepath.Join(folder, path)
	}
	return filepath.Clean(path), ok
}

// firstLine returns the content of a regular file of one line.
func firstLine(file string) (string, bool) {
	info, err := os.Lstat(file)
	if err != nil || !info.Mode().IsRegular() {
		return "", false
	}
	f, err := os.Open(file)
	if err != nil {
		return "", false
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxPath+1))
	line := strings.TrimRight(string(b), "\r\n")
	isLine := len(line) > 0 && len(line) <= maxPath && !strings.ContainsAny(line, "\x00\n")
	return line, err == nil && isLine
}

// overlaps reports whether one of two folders lies in the other, or both are one.
func overlaps(a, b string) bool { return within(a, b) || within(b, a) }
