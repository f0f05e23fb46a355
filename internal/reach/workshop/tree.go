package workshop

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/parley-agents/parley/internal/ground/git"
)

// checkout makes a worktree of a commit, without hooks and filters.
func checkout(ctx context.Context, repository, commit, folder string) error {
	return runGit(ctx, repository, "worktree", "add", "--quiet", "--detach", folder, commit)
}

// prune makes a repository forget the worktrees whose folders are gone.
func prune(ctx context.Context, repository string) error {
	return runGit(ctx, repository, "worktree", "prune")
}

// runGit runs git in a repository of the hub.
func runGit(ctx context.Context, repository string, args ...string) error {
	out, err := git.Alone(ctx, "git", repository, args...).CombinedOutput()
	if err != nil {
		text := strings.TrimSpace(string(out))
		return fmt.Errorf("git %s: %s", args[0], cmp.Or(text[:min(len(text), 2000)], err.Error()))
	}
	return nil
}

// treeDigest returns the SHA-256 of the files of a working tree, by path: those that git tracks
// and those that it does not ignore. Without git, all files count.
func treeDigest(ctx context.Context, folder string) (string, error) {
	names, err := treeFiles(ctx, folder)
	if err != nil {
		return "", err
	}
	root, err := os.OpenRoot(folder)
	if err != nil {
		return "", err
	}
	defer root.Close()
	sum := sha256.New()
	for _, name := range names {
		if err := ctx.Err(); err != nil {
			return "", err
		}
		info, err := root.Lstat(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue // git tracks it, and it was removed
		}
		if err != nil {
			return "", err
		}
		fmt.Fprintf(sum, "%d:%s %v\n", len(name), name, info.Mode())
		switch {
		case info.Mode().IsRegular():
			err = hashFile(sum, root, name, info.Size())
		case info.Mode()&fs.ModeSymlink != 0:
			var link string
			link, err = root.Readlink(name)
			fmt.Fprintf(sum, "%d:%s\n", len(link), link)
		}
		if err != nil {
			return "", err
		}
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// hashFile adds the size and the content of a file to a digest.
func hashFile(sum io.Writer, root *os.Root, name string, size int64) error {
	f, err := root.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	fmt.Fprintf(sum, "%d\n", size)
	_, err = io.Copy(sum, f)
	return err
}

// treeFiles returns the names of the files of a working tree, sorted.
func treeFiles(ctx context.Context, folder string) ([]string, error) {
	out, err := git.In(ctx, "git", folder, "ls-files", "--cached", "--others", "--exclude-standard", "-z").Output()
	if err == nil {
		names := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
		slices.Sort(names)
		names = slices.Compact(names) // a conflict has a file several times
		return slices.DeleteFunc(names, func(name string) bool { return name == "" }), nil
	}
	var names []string
	err = filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(folder, path)
		names = append(names, rel)
		return err
	})
	slices.Sort(names)
	return names, err
}
