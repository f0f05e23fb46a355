package sandbox

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// runFolders are folders whose files hold commands that git, an editor or an
// agent runs when it is used in the folder above: a writer there runs a
// command later, without a question.
var runFolders = []string{
	".git", ".githooks", ".husky", ".vscode", ".idea", ".devcontainer", ".zed",
	".claude", ".codex", ".gemini", ".qwen", ".opencode", ".cursor", ".copilot", ".pi",
}

// runFiles are files of the same kind, of git, shells, editors and agents.
var runFiles = []string{
	".gitattributes", ".gitmodules", ".gitconfig",
	".profile", ".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".zshrc", ".zshenv", ".zprofile", ".zlogin", ".zlogout",
	".envrc", ".mise.toml", "mise.toml",
	".vimrc", ".exrc", ".nvimrc", ".nvim.lua", ".lvimrc", ".dir-locals.el", ".emacs",
	".mcp.json",
}

// writeKind returns the kind of an action that changes the file at path, which is
// absolute: KindExecute if a program runs what the file holds as soon as it works
// in that folder, and kind otherwise. Links are followed as far as they exist, and
// case does not count, because it does not on every disk.
func writeKind(kind Kind, path string) Kind {
	for _, p := range []string{filepath.Clean(path), follow(filepath.Clean(path))} {
		parts := strings.Split(strings.ToLower(filepath.ToSlash(inTree(p))), "/")
		for i, part := range parts {
			part = strings.TrimRight(part, ". ") // which Windows does not see
			if slices.Contains(runFolders, part) || strings.HasPrefix(part, "git~") || i == len(parts)-1 && slices.Contains(runFiles, part) {
				return KindExecute
			}
		}
		if inRepository(p) {
			return KindExecute
		}
	}
	return kind
}

// inTree returns the part of path below the innermost working tree of git, or all
// of it: a tree that lies in a folder of runFolders, as agents make them, is one to
// work in.
func inTree(path string) string {
	for dir := filepath.Dir(path); dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if _, err := os.Lstat(filepath.Join(dir, ".git")); err == nil {
			rel, _ := filepath.Rel(dir, path)
			return rel
		}
	}
	return path
}

// inRepository reports whether a folder above path is a repository without a
// working tree, or is one once the file at path exists: git takes a folder with
// these three names for one, and runs commands of its configuration.
func inRepository(path string) bool {
	names := []string{"HEAD", "objects", "refs"}
	for dir := filepath.Dir(path); dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		rel, _ := filepath.Rel(dir, path)
		made, _, _ := strings.Cut(filepath.ToSlash(rel), "/")
		missing := slices.ContainsFunc(names, func(name string) bool {
			_, err := os.Lstat(filepath.Join(dir, name))
			return err != nil && !strings.EqualFold(name, made)
		})
		if !missing {
			return true
		}
	}
	return false
}
