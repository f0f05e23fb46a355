package keep

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/ground/git"
)

// Files returns the files of a state with what they are in a tree now. after is the state right
// after the command before which the state was kept, empty if there was none. read says whether
// the tree is looked at.
func (s *Store) Files(ctx context.Context, t hub.WorkingTree, id, after string, read bool) ([]hub.KeptFile, error) {
	r, unlock, err := s.open(ctx, t)
	if err != nil {
		return nil, err
	}
	defer unlock()
	return r.files(t, id, after, read)
}

// files is Files for a holder of the lock.
func (r *repo) files(t hub.WorkingTree, id, after string, read bool) ([]hub.KeptFile, error) {
	kept, err := r.readState(id)
	if err != nil {
		return nil, err
	}
	later, err := r.contentsAfter(kept, after)
	if err != nil {
		return nil, err
	}
	var root *os.Root
	if read {
		if root, err = os.OpenRoot(t.Path); errors.Is(err, fs.ErrNotExist) {
			root, read = nil, false // the tree is gone
		} else if err != nil {
			return nil, err
		} else {
			defer root.Close()
		}
	}

	out := make([]hub.KeptFile, 0, len(kept.Files))
	for _, f := range kept.Files {
		one := hub.KeptFile{Path: string(f.Path), State: f.Kind, Bytes: f.Size, Digest: f.Blob, Now: "missing"}
		left, isKnown := later[f.Path]
		one.Lost = isKnown && left != f.Blob
		now := ""
		if read {
			now = contentOf(root, string(f.Path), len(f.Blob) == idLength || len(f.Base) == idLength)
		}
		switch {
		case now == f.Blob:
			one.Now = "same"
		case now != "":
			one.Now = "changed"
		}
		one.Touched = isKnown && now != left
		out = append(out, one)
	}
	return out, nil
}

// contentsAfter returns the objects of the files of a state right after a command.
func (r *repo) contentsAfter(kept state, after string) (map[name]string, error) {
	if after == "" {
		return nil, nil
	}
	later, err := r.readState(after)
	if err != nil {
		return nil, err
	}
	out := map[name]string{}
	for _, f := range kept.Files {
		if blob, isClean := later.Clean[f.Path]; isClean {
			out[f.Path] = blob
		}
	}
	for _, f := range later.Files {
		out[f.Path] = f.Blob
	}
	return out, nil
}

// After keeps the state of a tree right after a command, with what became of the files of the state
// before it. It returns the loss: what was uncommitted before and is not as it was.
func (s *Store) After(ctx context.Context, t hub.WorkingTree, before string, o Options) (hub.KeptState, hub.KeptLoss, error) {
	var loss hub.KeptLoss
	r, unlock, err := s.open(ctx, t)
	if err != nil {
		return hub.KeptState{}, loss, err
	}
	defer unlock()
	kept, err := r.readState(before)
	if err != nil {
		return hub.KeptState{}, loss, err
	}
	later := state{Tree: t.Path}
	if _, err := os.Lstat(t.Path); err == nil {
		now, err := s.keep(ctx, r, t, o)
		if err != nil || now.ID == before {
			return now, loss, err
		}
		if later, err = r.readState(now.ID); err != nil {
			return now, loss, err
		}
	}
	if err := later.look(t, kept); err != nil {
		return later.Summary, loss, err
	}
	if later, err = r.writeState(later, s.pause); err != nil {
		return later.Summary, loss, err
	}
	return later.Summary, r.loss(kept, later), nil
}

// look notes what became of the files of an earlier state that are as the base again, or gone.
func (v *state) look(t hub.WorkingTree, before state) error {
	v.Clean = map[name]string{}
	listed := map[name]bool{}
	for _, f := range v.Files {
		listed[f.Path] = true
	}
	root, err := os.OpenRoot(t.Path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if root != nil {
		defer root.Close()
	}
	for _, f := range before.Files {
		if listed[f.Path] {
			continue
		}
		v.Clean[f.Path] = ""
		if root != nil {
			v.Clean[f.Path] = contentOf(root, string(f.Path), len(f.Blob) == idLength || len(f.Base) == idLength)
		}
	}
	return nil
}

// isMostlyGone reports whether a file is not there any more, is as it was committed again, or has
// lost most of its lines.
func (r *repo) isMostlyGone(f file, now string) bool {
	if now == "" || now == f.Base {
		return true
	}
	was, err := r.readBlob(f.Blob)
	if err != nil {
		return true
	}
	is, err := r.readBlob(now)
	if err != nil {
		return true // it is clean: the content is in a commit alone
	}
	_, removed := countLines(was, is)
	return 2*removed > strings.Count(string(was), "\n")
}

// loss compares two states. Content that is committed, or in an entry of the stash, after the
// command is not lost.
func (r *repo) loss(before, after state) (out hub.KeptLoss) {
	stashed := map[string]bool{}
	kept := map[string]bool{}
	for _, entry := range after.Stash {
		kept[entry.Commit] = true
		for _, f := range entry.Files {
			stashed[string(f.Path)+" "+f.Blob] = true
		}
	}
	left := map[name]string{}
	for _, f := range after.Files {
		left[f.Path] = f.Blob
	}
	for _, f := range before.Files {
		now, isListed := left[f.Path]
		if !isListed {
			now = after.Clean[f.Path]
		}
		if now != f.Blob && f.Blob != "" {
			out.Files = append(out.Files, hub.KeptFile{Path: string(f.Path), State: f.Kind, Bytes: f.Size, Digest: f.Blob, Lost: r.isMostlyGone(f, now), Stashed: stashed[string(f.Path)+" "+f.Blob], Left: now})
		}
	}
	for _, entry := range before.Stash {
		if !kept[entry.Commit] {
			out.Stash = append(out.Stash, entry.Commit)
		}
	}
	branches := map[string]bool{}
	for _, one := range after.Refs {
		branches[one.Name] = true
	}
	for _, one := range before.Refs {
		if !branches[one.Name] {
			out.Branches = append(out.Branches, strings.TrimPrefix(one.Name, "refs/heads/")+" at "+one.Commit)
		}
	}
	return out
}

// contentOf returns the object that the content of a path would be; empty if there is none.
func contentOf(root *os.Root, path string, wide bool) string {
	info, err := root.Lstat(path)
	if err != nil || info.IsDir() || info.Size() > maxFile {
		return ""
	}
	if !info.Mode().IsRegular() && info.Mode()&fs.ModeSymlink == 0 {
		return ""
	}
	content, err := readFile(root, path, info)
	if err != nil {
		return ""
	}
	return idOf(content, wide)
}

// A Return says which files of a state are brought back, and where to.
type Return struct {
	State string
	After string   // the state right after the command, empty if there was none
	Paths []string // also files that were changed since; empty for all that the command changed
	Into  string   // an absolute folder, which is empty or not there; empty for the tree
	Index bool     // the state of the index, too
	Stash bool     // the entries of the stash, too
	All   bool     // in a tree: every file, also one that was changed since
}

// Back writes files of a state into its tree, or all of them into a new folder. It returns the
// paths that were written, and those that were left as they are. Branches, the head and commits
// never move.
func (s *Store) Back(ctx context.Context, t hub.WorkingTree, b Return) (paths []string, left []hub.KeptLeft, err error) {
	r, unlock, err := s.open(ctx, t)
	if err != nil {
		return nil, nil, err
	}
	defer unlock()
	kept, err := r.readState(b.State)
	if err != nil {
		return nil, nil, err
	}
	if b.Into != "" {
		return r.into(kept, b.Into)
	}
	known, err := r.files(t, b.State, b.After, true)
	if err != nil {
		return nil, nil, err
	}
	root, err := os.OpenRoot(t.Path)
	if err != nil {
		return nil, nil, hub.Errorf(hub.CodeNotFound, "keep.Back", "the working tree %s is not there: %w", t.Path, err)
	}
	defer root.Close()

	for i, f := range kept.Files {
		one := known[i]
		isNamed := b.All || slices.ContainsFunc(b.Paths, func(p string) bool { return p == one.Path || strings.HasPrefix(one.Path, p+"/") })
		switch {
		case one.Now == "same" || (len(b.Paths) > 0 && !isNamed):
			continue
		case !isNamed && !one.Lost:
			continue
		case !isNamed && one.Touched:
			left = append(left, hub.KeptLeft{Path: one.Path, Why: "changed since; name it to bring it back"})
			continue
		case f.Kind == "deleted" && one.Now == "missing":
			continue
		}
		if err := r.put(root, f); err != nil {
			left = append(left, hub.KeptLeft{Path: one.Path, Why: err.Error()})
			continue
		}
		paths = append(paths, one.Path)
	}
	delete(r.tables, t.Path)
	if b.Index {
		err = r.restoreIndex(ctx, t, kept, paths)
	}
	if err == nil && b.Stash {
		err = r.restoreStash(ctx, t, kept)
	}
	return paths, left, err
}

// put writes a file below a folder. It appears whole or not at all.
func (r *repo) put(root *os.Root, f file) error {
	at := string(f.Path)
	if f.Blob == "" {
		return root.Remove(at)
	}
	content, err := r.readBlob(f.Blob)
	if err != nil {
		return err
	}
	folder := path.Dir(at)
	if err := root.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	if info, err := root.Lstat(at); err == nil && info.IsDir() {
		return errors.New("a folder has its name")
	}

	mode := fs.FileMode(f.Mode)
	draft := path.Join(folder, ".parley-"+strings.ToLower(rand.Text()))
	if mode&fs.ModeSymlink != 0 {
		err = root.Symlink(string(content), draft)
	} else {
		err = root.WriteFile(draft, content, 0o600)
		if err == nil {
			err = root.Chmod(draft, mode.Perm())
		}
	}
	if err == nil {
		err = root.Rename(draft, at)
	}
	if err != nil {
		root.Remove(draft)
	}
	return err
}

// into writes all files of a state into a folder that is empty or not there, and the entries of
// the stash into folders of it.
func (r *repo) into(kept state, folder string) (paths []string, left []hub.KeptLeft, err error) {
	there, err := os.ReadDir(folder)
	if err == nil && len(there) > 0 {
		return nil, nil, hub.Errorf(hub.CodeConflict, "keep.Back", "%s is not empty", folder).WithHint("name a new folder")
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return nil, nil, err
	}
	write := func(below string, files []file) error {
		at := filepath.Join(folder, below)
		if err := os.MkdirAll(at, 0o755); err != nil {
			return err
		}
		root, err := os.OpenRoot(at)
		if err != nil {
			return err
		}
		defer root.Close()
		for _, f := range files {
			if f.Blob == "" {
				continue
			}
			if err := r.put(root, f); err != nil {
				left = append(left, hub.KeptLeft{Path: path.Join(below, string(f.Path)), Why: err.Error()})
				continue
			}
			paths = append(paths, path.Join(below, string(f.Path)))
		}
		return nil
	}
	if err := write("", kept.Files); err != nil {
		return paths, left, err
	}
	for i, entry := range kept.Stash {
		if err := write("stash-"+strconv.Itoa(i), entry.Files); err != nil {
			return paths, left, err
		}
	}
	return paths, left, nil
}

// restoreIndex writes the kept state of the index for some paths into the user's index.
func (r *repo) restoreIndex(ctx context.Context, t hub.WorkingTree, kept state, paths []string) error {
	var lines strings.Builder
	for _, f := range kept.Files {
		if f.Index == nil || !slices.Contains(paths, string(f.Path)) {
			continue
		}
		if f.Index.Mode == "" {
			fmt.Fprintf(&lines, "0 %s\t%s\x00", strings.Repeat("0", 40), f.Path)
			continue
		}
		if err := r.give(ctx, t, f.Index.Blob); err != nil {
			return err
		}
		fmt.Fprintf(&lines, "%s %s\t%s\x00", f.Index.Mode, f.Index.Blob, f.Path)
	}
	if lines.Len() == 0 {
		return nil
	}
	return feed(ctx, t.Path, lines.String(), "update-index", "-z", "--index-info")
}

// give writes a kept object into the user's repository.
func (r *repo) give(ctx context.Context, t hub.WorkingTree, id string) error {
	content, err := r.readBlob(id)
	if err != nil {
		return err
	}
	return feed(ctx, t.Path, string(content), "hash-object", "-w", "--stdin", "--no-filters")
}

// feed runs a command of git that reads a text.
func feed(ctx context.Context, folder, text string, args ...string) error {
	cmd := git.In(ctx, "git", folder, args...)
	cmd.Stdin = strings.NewReader(text)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("keep: git %s: %w: %s", args[0], err, strings.TrimSpace(string(out)))
	}
	return nil
}

// restoreStash makes the entries of the stash again that are not there, the oldest first. Their
// objects are in the user's repository until git removes them, which takes two weeks; later they
// are brought back into a folder.
func (r *repo) restoreStash(ctx context.Context, t hub.WorkingTree, kept state) error {
	raw, _ := os.ReadFile(filepath.Join(t.Repository, "logs", "refs", "stash")) // there may be none
	for _, entry := range slices.Backward(kept.Stash) {
		if strings.Contains(string(raw), " "+entry.Commit+" ") {
			continue
		}
		if err := feed(ctx, t.Path, "", "stash", "store", "-m", entry.Message, entry.Commit); err != nil {
			return hub.Errorf(hub.CodeNotFound, "keep.Back", "the stash entry %q cannot be made again: %w", entry.Message, err).WithHint("bring it into a folder with --into")
		}
	}
	return nil
}

// Sweep removes the states of the repository of a tree that are not among the live ones, with the
// objects and packs that no other state has. It returns the bytes that are left.
func (s *Store) Sweep(ctx context.Context, t hub.WorkingTree, live []string) (bytes int64, err error) {
	r, unlock, err := s.open(ctx, t)
	if err != nil {
		return 0, err
	}
	defer unlock()
	used := map[string]bool{}
	states, err := os.ReadDir(filepath.Join(r.folder, stateFolder))
	if err != nil {
		return 0, err
	}
	for _, e := range states {
		if !slices.Contains(live, e.Name()) {
			if err := os.Remove(filepath.Join(r.folder, stateFolder, e.Name())); err != nil {
				return 0, err
			}
			continue
		}
		v, err := r.readState(e.Name())
		if err != nil {
			return 0, err
		}
		v.use(used)
	}
	for top, one := range r.tables {
		if !slices.Contains(live, one.state.ID) {
			delete(r.tables, top)
		}
	}

	err = filepath.WalkDir(r.folder, func(at string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(r.folder, at)
		if err != nil {
			return err
		}
		parts := strings.Split(filepath.ToSlash(rel), "/")
		id := strings.Join(parts[1:], "")
		isContent := parts[0] == objectFolder || parts[0] == packFolder
		if isContent && !used[id] {
			return os.Remove(at)
		}
		info, err := d.Info()
		if err == nil {
			bytes += info.Size()
		}
		return err
	})
	return bytes, err
}

// use notes the objects and packs of a state.
func (v state) use(used map[string]bool) {
	note := func(files []file) {
		for _, f := range files {
			used[f.Blob] = true
			if f.Index != nil {
				used[f.Index.Blob] = true
			}
		}
	}
	note(v.Files)
	for _, entry := range v.Stash {
		note(entry.Files)
	}
	for _, pack := range v.Packs {
		used[pack] = true
	}
}

// Check reports what a state needs and the store does not have: nothing for one that is whole.
func (s *Store) Check(ctx context.Context, t hub.WorkingTree, id string) ([]string, error) {
	r, unlock, err := s.open(ctx, t)
	if err != nil {
		return nil, err
	}
	defer unlock()
	v, err := r.readState(id)
	if err != nil {
		return nil, err
	}
	used := map[string]bool{}
	v.use(used)
	delete(used, "")
	var missing []string
	for one := range used {
		if strings.HasSuffix(one, ".pack") {
			if _, err := os.Lstat(filepath.Join(r.folder, packFolder, one)); err != nil {
				missing = append(missing, one)
			}
			continue
		}
		if _, err := r.readBlob(one); err != nil {
			missing = append(missing, one)
		}
	}
	slices.Sort(missing)
	return missing, nil
}
