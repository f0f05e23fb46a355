package evidence

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
)

// Limits of the files that git obeys.
const (
	maxObeyed     = 200     // hooks
	maxObeyedFile = 1 << 20 // bytes of one
)

// obeyed returns the digests of the files of a repository that decide what git runs: its settings, those
// of the working tree, and its hooks, by the names that people know them under. The samples that git
// itself makes have no effect.
func (r *repository) obeyed() (map[string]string, error) {
	out := map[string]string{}
	add := func(root *os.Root, name string) error {
		b, err := readSmall(root, name, maxObeyedFile)
		switch {
		case absent(err):
			return nil
		case err != nil: // a link, a pipe or a file that is too large: git may obey it, and it cannot be compared
			out[".git/"+name] = err.Error()
			return nil
		}
		info, err := root.Lstat(name)
		if err != nil {
			return nil // removed meanwhile
		}
		sum := sha256.Sum256(b)
		out[".git/"+name] = hex.EncodeToString(sum[:]) + info.Mode().String()
		return nil
	}

	if err := add(r.common, "config"); err != nil {
		return nil, err
	}
	if err := add(r.dir, "config.worktree"); err != nil {
		return nil, err
	}
	hooks, err := fs.ReadDir(r.common.FS(), "hooks")
	if err != nil { // there are none
		return out, nil
	}
	for _, e := range hooks[:min(len(hooks), maxObeyed)] {
		if path.Ext(e.Name()) == ".sample" {
			continue
		}
		if err := add(r.common, path.Join("hooks", e.Name())); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// changedRules returns the files that git obeys and that are not as they were, sorted.
func (b *Base) changedRules() ([]string, error) {
	if b.plain {
		return nil, nil
	}
	repo, err := b.in.openRepository(b.top)
	if err != nil {
		return []string{".git"}, nil // it was there
	}
	defer repo.close()
	now, err := repo.obeyed()
	if err != nil {
		return nil, err
	}
	all := maps.Clone(b.rules)
	maps.Copy(all, now)
	maps.DeleteFunc(all, func(name, _ string) bool { return b.rules[name] == now[name] })
	return slices.Sorted(maps.Keys(all)), nil
}

// trivial returns the reasons for the changes that are no work by themselves.
func (b *Base) trivial(ctx context.Context, c Changes) (map[string]string, error) {
	var ids []string
	for _, name := range slices.Concat(c.Modified, c.Deleted) {
		if was := b.first.files[name]; was.stored && was.id != b.last.files[name].id {
			ids = append(ids, was.id)
		}
	}
	before, err := b.scratch.contents(ctx, ids)
	if err != nil {
		return nil, err
	}

	out := map[string]string{}
	for _, name := range c.names() {
		was, wasThere := b.first.files[name]
		is, isThere := b.last.files[name]
		old, isKnown := before[was.id]
		reason := notTrivial
		switch {
		case was.mode == modeLink || is.mode == modeLink:
		case wasThere && isThere && was.id != "" && was.id == is.id:
			reason = trivialMode
		case !isThere:
			if isKnown && len(squeeze(old)) == 0 {
				reason = trivialEmpty
			}
		case wasThere && !isKnown:
		default:
			if now, err := readSmall(b.root, name, maxContent); err == nil {
				reason, _ = compareText(old, now, !wasThere)
			}
		}
		if reason != notTrivial {
			out[name] = string(reason)
		}
	}
	return out, nil
}
