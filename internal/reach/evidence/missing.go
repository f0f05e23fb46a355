package evidence

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/parley-agents/parley/hub"
)

// A remnant is the part of a file's change that is still there.
type remnant int

const (
	remnantNone    remnant = iota // the file is as it was before the work, or missing
	remnantChanged                // the file was changed further
	remnantWhole
)

// Missing reports since when the work of a change is not there any more: its folder has none
// of the files like this, nor a good part of their lines, and no branch or tag contains
// them. It returns the zero time if the work is there.
func (in *Inspector) Missing(ctx context.Context, c hub.WorkChange) (hub.Time, error) {
	ctx, end, err := in.begin(ctx)
	defer end()
	if err == nil {
		in, err = in.current(ctx)
	}
	if err != nil {
		return hub.Time{}, err
	}
	since, err := in.missing(ctx, c)
	if err != nil || since.IsZero() {
		return hub.Time{}, in.late(ctx, err)
	}
	return hub.At(since), nil
}

func (in *Inspector) missing(ctx context.Context, c hub.WorkChange) (since time.Time, err error) {
	if len(c.Some) == 0 {
		return since, nil
	}
	folder, _, _, err := find(in, c.Now.Path, openFolder)
	if err == nil {
		defer folder.Close()
	}

	var further []hub.WorkFile
	switch {
	case hub.CodeOf(err) == hub.CodeNotFound: // a worktree that was removed
		since = lastChange(c.Now.Path)
	case err != nil:
		return since, err
	default:
		for _, f := range c.Some {
			left, at := remains(folder, f, len(c.Now.Tree))
			switch {
			case left == remnantWhole:
				return time.Time{}, nil
			case left == remnantChanged:
				further = append(further, f)
			}
			if at.After(since) {
				since = at
			}
		}
	}

	// The work is not missing if a branch or tag has it, or if enough of its lines are left.
	repo, err := in.openRepository(c.Now.Repository)
	switch {
	case hub.CodeOf(err) == hub.CodeNotFound:
		return since, nil
	case err != nil:
		return time.Time{}, err
	}
	defer repo.close()
	s, err := in.newScratch(ctx, repo)
	if err != nil {
		return time.Time{}, err
	}
	defer s.close()
	there, err := in.contained(ctx, s, repo, c)
	if err == nil && !there && len(further) > 0 {
		there, err = in.linesLeft(ctx, s, repo, folder, c, further)
	}
	if there || err != nil {
		return time.Time{}, err
	}
	return since, nil
}

// remains returns what is left of the change of a file, and when the file changed last.
func remains(folder *os.Root, f hub.WorkFile, format int) (remnant, time.Time) {
	info, err := folder.Lstat(f.Path)
	switch {
	case absent(err) && f.Is == "":
		return remnantWhole, time.Time{}
	case absent(err):
		return remnantNone, lastChange(filepath.Join(folder.Name(), filepath.FromSlash(f.Path)))
	case err != nil:
		return remnantWhole, time.Time{} // nothing shows that it is missing
	}

	var content []byte
	switch {
	case info.Mode()&fs.ModeSymlink != 0:
		to, err := folder.Readlink(f.Path)
		if err != nil {
			return remnantWhole, time.Time{}
		}
		content = []byte(to)
	case info.IsDir():
		return remnantWhole, time.Time{} // a submodule is not looked at
	default:
		if content, err = readSmall(folder, f.Path, maxLines); err != nil {
			return remnantWhole, time.Time{}
		}
	}

	switch hashOf(format, "blob", content) {
	case f.Is:
		return remnantWhole, time.Time{}
	case f.Was:
		return remnantNone, changed(info)
	}
	if f.Is == "" { // it was deleted, and there is another now
		return remnantNone, changed(info)
	}
	return remnantChanged, changed(info)
}

// lastChange returns when the nearest folder of a missing file that exists was changed.
func lastChange(name string) time.Time {
	for {
		name = filepath.Dir(name)
		info, err := os.Lstat(name)
		if err == nil {
			return changed(info)
		}
		if !errors.Is(err, fs.ErrNotExist) || name == filepath.Dir(name) {
			return time.Time{}
		}
	}
}

// contained reports whether a branch or tag has the commit of a change, or one of its files
// like this in its history since then.
func (in *Inspector) contained(ctx context.Context, s *scratch, repo *repository, c hub.WorkChange) (bool, error) {
	tips, err := repo.tips(ctx)
	if err != nil {
		return false, err
	}
	if c.Uncommitted == 0 && c.Now.Commit != "" && c.Now.Commit != c.Since.Commit {
		if id, err := s.commit(ctx, c.Now.Commit); err == nil {
			if ok, err := s.reachable(ctx, id, tips); ok || err != nil {
				return ok, err
			}
		}
	}
	var names []string
	is := map[string]string{}
	for _, f := range c.Some {
		names = append(names, f.Path)
		is[f.Path] = f.Is
	}
	commits, err := s.log(ctx, tips, []string{c.Since.Commit}, names)
	for _, commit := range commits {
		for _, v := range commit.files {
			if v.is == is[v.name] {
				return true, nil
			}
		}
	}
	return false, err
}

// linesLeft reports whether files that were changed further still have a quarter of the lines
// that the work added or, if it added none, still lack those that it removed. Contents that
// are not kept any more tell nothing, and then the work counts as there.
func (in *Inspector) linesLeft(ctx context.Context, s *scratch, repo *repository, folder *os.Root, c hub.WorkChange, files []hub.WorkFile) (bool, error) {
	id, _, ok := keptState(c.Now.Kept)
	if !ok || in.kept == "" {
		return true, nil
	}

	// The kept state borrows the objects that the repository has.
	kept := &scratch{git: in.git, dir: filepath.Join(in.kept, keptFolder(repo), string(id)), objects: s.objects}
	if _, err := os.Stat(kept.gitDir()); err != nil {
		return true, nil
	}
	kept.lenders = []string{filepath.Join(s.gitDir(), "objects")}

	var ids []string
	for _, f := range files {
		if f.Was != "" {
			ids = append(ids, f.Was)
		}
		ids = append(ids, f.Is)
	}
	contents, err := kept.contents(ctx, ids)
	if err != nil {
		return false, err
	}

	for _, f := range files {
		now, err := readSmall(folder, f.Path, maxContent)
		is, known := contents[f.Is]
		was, knownBefore := contents[f.Was]
		isComparable := err == nil && known && (f.Was == "" || knownBefore)
		if !isComparable || keepsChange(was, is, now) {
			return true, nil
		}
	}
	return false, nil
}

// keepsChange reports whether a text still has the change from one text to another.
func keepsChange(was, is, now []byte) bool {
	before := lineSet(was)
	after := lineSet(is)
	present := lineSet(now)
	added := 0
	left := 0
	removed := 0
	for line := range after {
		if !before[line] {
			added++
			if present[line] {
				left++
			}
		}
	}
	for line := range before {
		if !after[line] && !present[line] {
			removed++
		}
	}
	if added == 0 {
		return removed > 0
	}
	return left*4 >= added
}

// lineSet returns the lines of a text without whitespace.
func lineSet(text []byte) map[string]bool {
	set := map[string]bool{}
	for line := range bytes.Lines(text) {
		if line = squeeze(line); len(line) > 0 {
			set[string(line)] = true
		}
	}
	return set
}
