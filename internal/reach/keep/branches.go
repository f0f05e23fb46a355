package keep

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/parley-agents/parley/internal/ground/git"
)

// branches keeps the tips of the branches, and a pack with the commits that no remote-tracking
// branch and no earlier kept work of the repository has.
func (k *keeping) branches(ctx context.Context) error {
	text, err := list(ctx, k.place.top, "for-each-ref", "--format=%(objectname) %(refname)", "refs/heads", "refs/remotes")
	if err != nil {
		return err
	}
	var tips, known []string
	for line := range strings.Lines(text) {
		id, full, _ := strings.Cut(strings.TrimSpace(line), " ")
		if strings.HasPrefix(full, "refs/remotes/") {
			known = append(known, id)
			continue
		}
		k.out.Refs = append(k.out.Refs, ref{full, id})
		tips = append(tips, id)
	}
	if k.last != nil { // its packs have its commits
		k.out.Packs = slices.Clone(k.last.Packs)
		for _, old := range k.last.Refs {
			if k.has(ctx, old.Commit) {
				known = append(known, old.Commit)
			}
		}
	}
	tips = slices.DeleteFunc(tips, func(id string) bool { return slices.Contains(known, id) })
	if len(tips) == 0 {
		return nil
	}
	pack, err := k.pack(ctx, tips, known)
	if pack != "" {
		k.out.Packs = append(k.out.Packs, pack)
	}
	return err
}

// has reports whether the user's repository has a commit.
func (k *keeping) has(ctx context.Context, id string) bool {
	_, err := list(ctx, k.place.top, "cat-file", "-e", id+"^{commit}")
	return err == nil
}

// pack stores the objects of commits that others do not have, and returns the name of the file,
// empty if there are none.
func (k *keeping) pack(ctx context.Context, tips, known []string) (string, error) {
	sum := sha256.Sum256([]byte(strings.Join(tips, " ") + "\n" + strings.Join(known, " ")))
	name := hex.EncodeToString(sum[:16]) + ".pack"
	file := filepath.Join(k.r.folder, packFolder, name)
	if _, err := os.Lstat(file); err == nil {
		return name, nil
	}
	draft, err := os.CreateTemp(filepath.Dir(file), draftName)
	if err != nil {
		return "", full(err)
	}
	defer os.Remove(draft.Name())
	cmd := git.In(ctx, "git", k.place.top, "pack-objects", "--revs", "--stdout", "--delta-base-offset", "-q")
	cmd.Env = append(cmd.Env, "GIT_NO_REPLACE_OBJECTS=1")
	cmd.Stdin = strings.NewReader(strings.Join(tips, "\n") + "\n--not\n" + strings.Join(known, "\n") + "\n")
	cmd.Stdout = draft
	k.pause("pack")
	if err := errors.Join(cmd.Run(), draft.Close()); err != nil {
		return "", fmt.Errorf("keep: pack the commits of branches: %w", err)
	}
	return name, os.Rename(draft.Name(), file)
}
