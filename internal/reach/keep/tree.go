package keep

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/parley-agents/parley/hub"
)

// Options changes what is kept. The zero value keeps all.
type Options struct {
	NoIgnored bool     // ignored files are left out
	Names     []string // in a folder without git: the files that are kept, relative to its top
}

// A place is a working tree with its folders of git.
type place struct {
	top, gitDir, common string
	wide                bool // objects have the format of SHA-256
}

// placeOf finds the folders of git of a working tree.
func placeOf(ctx context.Context, t hub.WorkingTree) (place, error) {
	p := place{top: t.Path, common: t.Repository}
	at := filepath.Join(t.Path, ".git")
	info, err := os.Lstat(at)
	switch {
	case err != nil:
		return p, hub.Errorf(hub.CodeNotFound, "keep.Keep", "%s is no working tree of git: %w", t.Path, err)
	case info.IsDir():
		p.gitDir = at
	default:
		raw, err := os.ReadFile(at)
		if err != nil {
			return p, err
		}
		p.gitDir = filepath.FromSlash(strings.TrimPrefix(strings.TrimSpace(string(raw)), "gitdir: "))
		if !filepath.IsAbs(p.gitDir) {
			p.gitDir = filepath.Join(t.Path, p.gitDir)
		}
	}
	format, err := list(ctx, t.Path, "rev-parse", "--show-object-format")
	p.wide = strings.TrimSpace(format) == "sha256"
	return p, err
}

// Keep keeps the uncommitted state of a working tree, and reports whether it differs from the state
// of the last look. The files of the tree are only read. One that cannot be read is named, and ends
// nothing.
func (s *Store) Keep(ctx context.Context, t hub.WorkingTree, o Options) (hub.KeptState, error) {
	r, unlock, err := s.open(ctx, t)
	if err != nil {
		return hub.KeptState{}, err
	}
	defer unlock()
	return s.keep(ctx, r, t, o)
}

// keep is Keep for a holder of the lock.
func (s *Store) keep(ctx context.Context, r *repo, t hub.WorkingTree, o Options) (hub.KeptState, error) {
	if t.Repository == "" {
		return s.keepFiles(r, t, o)
	}
	last := r.tables[t.Path]
	if last != nil && last.o.NoIgnored == o.NoIgnored && last.isUnchanged(ctx) {
		return last.state, nil
	}
	if err := ctx.Err(); err != nil {
		return hub.KeptState{}, err
	}
	p, err := placeOf(ctx, t)
	if err != nil {
		return hub.KeptState{}, err
	}
	root, err := os.OpenRoot(t.Path)
	if err != nil {
		return hub.KeptState{}, err
	}
	defer root.Close()

	k := &keeping{r: r, place: p, root: root, o: o, pause: s.pause, at: time.Now(), next: &table{marks: map[string]stamp{}, o: o}, lines: map[string][]byte{}}
	k.next.markFiles(p)
	if last != nil {
		if was, err := r.readState(last.state.ID); err == nil {
			k.last = &was
		}
	}
	if err := k.run(ctx); err != nil {
		return hub.KeptState{}, fmt.Errorf("keep: %s: %w", t.Path, err)
	}
	stored, err := r.writeState(k.out, s.pause)
	if err != nil {
		return hub.KeptState{}, err
	}
	k.next.state = stored.Summary
	r.tables[t.Path] = k.next
	return stored.Summary, nil
}

// A keeping is a working tree that is being kept.
type keeping struct {
	r     *repo
	place place
	root  *os.Root
	o     Options
	pause func(string)
	at    time.Time
	last  *state // of the look before; nil if there was none
	next  *table
	out   state

	skipped []string          // folders with a slash at the end that are not entered
	wanted  []string          // objects of the user's repository that are kept
	lines   map[string][]byte // contents whose lines are counted, by object
	small   []file            // ignored files
}

// run finds what differs and stores it.
func (k *keeping) run(ctx context.Context) error {
	k.out.Tree = k.place.top
	base, err := list(ctx, k.place.top, "rev-parse", "--verify", "--quiet", "HEAD^{commit}")
	if err != nil {
		base = ""
	}
	k.out.Summary.Base = strings.TrimSpace(base)
	if head, err := list(ctx, k.place.top, "symbolic-ref", "--quiet", "--short", "HEAD"); err == nil {
		k.out.Summary.Branch = strings.TrimSpace(head)
	}

	if err := k.tracked(ctx); err != nil {
		return err
	}
	if err := k.others(ctx); err != nil {
		return err
	}
	k.folders()
	if err := k.stash(ctx); err != nil {
		return err
	}
	if err := k.branches(ctx); err != nil {
		return err
	}
	if err := k.count(ctx); err != nil {
		return err
	}
	slices.SortFunc(k.out.Files, func(a, b file) int { return strings.Compare(string(a.Path), string(b.Path)) })
	return nil
}

// tracked compares the files of the index with the tree and with the base.
func (k *keeping) tracked(ctx context.Context) error {
	all, err := list(ctx, k.place.top, "ls-files", "-z", "-v", "--stage", "--debug")
	if err != nil {
		return err
	}
	staged, err := k.staged(ctx)
	if err != nil {
		return err
	}
	index := lookAt(filepath.Join(k.place.gitDir, "index"))
	for len(all) > 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
		var e indexed
		if e, all = nextEntry(all); e.path == "" {
			break
		}
		if e.mode == "160000" {
			k.skip(e.path + "/")
			k.out.Summary.Nested = append(k.out.Summary.Nested, e.path)
			continue
		}
		change := staged[e.path]
		delete(staged, e.path)
		if err := k.compare(e, change, index); err != nil {
			return err
		}
	}
	for path, change := range staged { // removed from the index
		f := file{Path: name(path), Kind: "deleted", Base: change.base, Index: &entry{}}
		if err := k.read(&f, "staged"); err != nil {
			return err
		}
		k.add(f)
	}
	return nil
}

// An indexed is a file in the index with the stamp that git noted.
type indexed struct {
	tag, mode, blob, path string
	stage                 string
	written               int64
	size                  int64
	inode                 uint64
}

// nextEntry reads one file of "git ls-files -z -v --stage --debug" and returns the rest.
func nextEntry(text string) (indexed, string) {
	line, rest, ok := strings.Cut(text, "\x00")
	if !ok {
		return indexed{}, ""
	}
	var e indexed
	var seconds, nanos, device, ignored int64
	head, path, _ := strings.Cut(line, "\t")
	fields := strings.Fields(head)
	if len(fields) != 4 {
		return indexed{}, ""
	}
	e.tag = fields[0]
	e.mode = fields[1]
	e.blob = fields[2]
	e.stage = fields[3]
	e.path = path
	for range 5 {
		var about string
		about, rest, _ = strings.Cut(rest, "\n")
		about = strings.TrimSpace(about)
		switch {
		case strings.HasPrefix(about, "mtime:"):
			fmt.Sscanf(about, "mtime: %d:%d", &seconds, &nanos)
		case strings.HasPrefix(about, "dev:"):
			fmt.Sscanf(about, "dev: %d ino: %d", &device, &e.inode)
		case strings.HasPrefix(about, "size:"):
			fmt.Sscanf(about, "size: %d flags: %x", &e.size, &ignored)
		}
	}
	e.written = seconds*int64(time.Second) + nanos
	return e, rest
}

// A staging is a path whose state in the index differs from the base.
type staging struct {
	base  string
	index entry
}

// staged returns the paths whose state in the index differs from the base.
func (k *keeping) staged(ctx context.Context) (map[string]staging, error) {
	out := map[string]staging{}
	if k.out.Summary.Base == "" { // all of the index is new
		return out, nil
	}
	changes, err := list(ctx, k.place.top, "diff-index", "--cached", "--raw", "-z", "--no-renames", "--no-abbrev", "--ignore-submodules=all", k.out.Summary.Base, "--")
	if err != nil {
		return nil, err
	}
	for _, c := range parseRaw(changes) {
		out[c.path] = staging{base: c.before, index: entry{Mode: c.mode, Blob: c.after}}
	}
	return out, nil
}

// A rawChange is a line of the raw form of a difference.
type rawChange struct{ mode, before, after, path string }

// parseRaw reads the raw form of a difference, with zero bytes. A missing object has no id.
func parseRaw(text string) (out []rawChange) {
	parts := strings.Split(text, "\x00")
	for i := 0; i+1 < len(parts); i += 2 {
		fields := strings.Fields(strings.TrimPrefix(parts[i], ":"))
		if len(fields) != 5 {
			continue
		}
		c := rawChange{mode: fields[1], before: fields[2], after: fields[3], path: parts[i+1]}
		if strings.Trim(c.before, "0") == "" {
			c.before = ""
		}
		if strings.Trim(c.after, "0") == "" {
			c.mode, c.after = "", ""
		}
		out = append(out, c)
	}
	return out
}

// compare notes a file of the index if it differs from the base.
func (k *keeping) compare(e indexed, change staging, index stamp) error {
	at := filepath.Join(k.place.top, filepath.FromSlash(e.path))
	s := lookAt(at)
	k.next.note(at, s)
	k.next.fresh = k.next.fresh || s.isFresh(k.at)
	isNew := k.out.Summary.Base == ""
	isStaged := isNew || change.index != entry{}
	f := file{Path: name(e.path), Kind: "changed", Base: e.blob}
	if isStaged {
		f.Base = change.base
		f.Index = &entry{Mode: e.mode, Blob: e.blob}
		k.wanted = append(k.wanted, e.blob)
	}

	// A stamp that git noted before the index was written proves that the content is that of the
	// index. Files that a conflict of a merge left in the index have stages.
	isOlder := e.stage == "0" && s.written < index.written
	isStamped := s.written == e.written && s.size == e.size && isSameMode(s.mode, e.mode)
	isSameFile := e.inode == 0 || s.inode == 0 || uint32(s.inode) == uint32(e.inode)
	isKnown := isOlder && isStamped && isSameFile
	if isKnown && !isStaged {
		return nil
	}
	isLeftOut := s.missing && (e.tag == "S" || e.tag == "s") // by a sparse checkout
	if isLeftOut {
		return nil
	}
	if e.stage > "1" { // the file in the tree is the same for all stages
		isNoted := len(k.out.Files) > 0 && k.out.Files[len(k.out.Files)-1].Path == f.Path
		if isNoted {
			return nil
		}
	}
	if err := k.read(&f, "changed"); err != nil {
		return err
	}
	isSame := f.Blob == e.blob && isSameMode(s.mode, e.mode) && e.stage == "0"
	if isSame && !isStaged {
		return nil
	}
	if isSame {
		f.Kind = "staged"
	}
	k.add(f)
	return nil
}

// isSameMode reports whether a file has the mode of the index.
func isSameMode(mode fs.FileMode, index string) bool {
	switch index {
	case "120000":
		return mode&fs.ModeSymlink != 0
	case "100755":
		return mode.IsRegular() && mode&0o100 != 0
	}
	return mode.IsRegular() && mode&0o100 == 0
}

// read reads a path of the tree and stores its content. One that is missing is deleted; one that
// is too large or cannot be read is named.
func (k *keeping) read(f *file, kind string) error {
	path := string(f.Path)
	info, err := k.root.Lstat(path)
	switch {
	case err != nil || info.IsDir():
		f.Kind = "deleted"
		return nil
	case info.Size() > maxFile:
		k.out.Summary.NamedOnly = append(k.out.Summary.NamedOnly, path)
		f.Kind = "named"
		return nil
	case !info.Mode().IsRegular() && info.Mode()&fs.ModeSymlink == 0:
		f.Kind = "named" // a pipe or a device
		return nil
	}
	content, err := readFile(k.root, path, info)
	if err != nil || len(content) > maxFile {
		k.out.Summary.Unreadable = append(k.out.Summary.Unreadable, path)
		f.Kind = "named"
		return nil
	}
	f.Kind = kind
	f.Mode = uint32(info.Mode() & (fs.ModePerm | fs.ModeSymlink))
	f.Size = int64(len(content))
	f.Blob = idOf(content, k.place.wide)
	if f.Blob == f.Base && f.Index == nil {
		return nil // only the mode differs, or nothing
	}
	if len(content) <= maxCompared {
		k.lines[f.Blob] = content
	}
	return k.store(f.Blob, content)
}

// store stores an object.
func (k *keeping) store(id string, content []byte) error {
	if err := k.r.hasRoom(int64(len(content))); err != nil {
		return err
	}
	k.pause("object")
	return k.r.writeBlob(id, content)
}

// add adds a file to the state.
func (k *keeping) add(f file) {
	if f.Kind == "named" {
		return
	}
	k.out.Files = append(k.out.Files, f)
	k.out.Summary.Files++
	k.out.Summary.Bytes += f.Size
}

// skip notes a folder that is not entered.
func (k *keeping) skip(folder string) { k.skipped = append(k.skipped, folder) }

// others keeps the files that git does not know, and the small ignored ones.
func (k *keeping) others(ctx context.Context) error {
	fresh, err := list(ctx, k.place.top, "ls-files", "-z", "--others", "--exclude-standard")
	if err != nil {
		return err
	}
	for _, path := range strings.Split(fresh, "\x00") {
		switch {
		case path == "":
			continue
		case strings.HasSuffix(path, "/"): // a repository inside of the tree
			k.skip(path)
			k.out.Summary.Nested = append(k.out.Summary.Nested, strings.TrimSuffix(path, "/"))
			continue
		}
		if err := k.other(path, "new"); err != nil {
			return err
		}
	}

	ignored, err := list(ctx, k.place.top, "ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--directory")
	if err != nil {
		return err
	}
	for _, path := range strings.Split(ignored, "\x00") {
		switch {
		case path == "":
		case strings.HasSuffix(path, "/"):
			k.ignoredFolder(path)
		default:
			k.ignoredFile(path)
		}
	}
	return k.keepIgnored()
}

// other keeps a file that is not in the index.
func (k *keeping) other(path, kind string) error {
	at := filepath.Join(k.place.top, filepath.FromSlash(path))
	s := lookAt(at)
	k.next.note(at, s)
	k.next.fresh = k.next.fresh || s.isFresh(k.at)
	f := file{Path: name(path)}
	if err := k.read(&f, kind); err != nil {
		return err
	}
	if f.Kind != "deleted" { // it was there a moment ago
		k.add(f)
	}
	return nil
}

// madeFolders are the names of ignored folders that builds and package managers make again.
var madeFolders = map[string]bool{
	"node_modules": true, "target": true, ".venv": true, "venv": true, "dist": true, "build": true, "out": true, "__pycache__": true, ".cache": true,
	".gradle": true, ".tox": true, ".next": true, ".nuxt": true, ".terraform": true, ".pytest_cache": true, ".mypy_cache": true, ".ruff_cache": true,
	"Pods": true, "DerivedData": true, "bower_components": true, ".parcel-cache": true, ".turbo": true, "coverage": true, "vendor": true, "_build": true, "deps": true,
}

// ignoredFolder notes the files of a folder that git ignores as a whole. Folders that builds make
// and those with too many entries are not entered.
func (k *keeping) ignoredFolder(folder string) {
	bare := strings.TrimSuffix(folder, "/")
	entries := 0
	var files []string
	err := fs.WalkDir(k.root.FS(), bare, func(at string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil // it is not read
		}
		if entries++; entries > maxEntries {
			return fs.SkipAll
		}
		if !d.IsDir() {
			files = append(files, at)
			return nil
		}
		_, cached := k.root.Lstat(path.Join(at, "CACHEDIR.TAG"))
		_, nested := k.root.Lstat(path.Join(at, ".git"))
		if nested == nil {
			k.out.Summary.Nested = append(k.out.Summary.Nested, at)
		}
		if madeFolders[path.Base(at)] || cached == nil || nested == nil {
			k.skip(at + "/")
			return fs.SkipDir
		}
		return nil
	})
	if err != nil || entries > maxEntries {
		k.skip(folder)
		k.out.Summary.NamedOnly = append(k.out.Summary.NamedOnly, folder)
		return
	}
	for _, at := range files {
		k.ignoredFile(at)
	}
}

// ignoredFile notes a small ignored file.
func (k *keeping) ignoredFile(path string) {
	if k.o.NoIgnored {
		return
	}
	info, err := k.root.Lstat(path)
	isKept := err == nil && (info.Mode().IsRegular() || info.Mode()&fs.ModeSymlink != 0)
	if !isKept {
		return
	}
	if info.Size() > maxIgnored {
		k.out.Summary.NamedOnly = append(k.out.Summary.NamedOnly, path)
		return
	}
	k.small = append(k.small, file{Path: name(path)})
}

// keepIgnored keeps the first ignored files by depth and name.
func (k *keeping) keepIgnored() error {
	slices.SortFunc(k.small, func(a, b file) int {
		depth := strings.Count(string(a.Path), "/") - strings.Count(string(b.Path), "/")
		if depth != 0 {
			return depth
		}
		return strings.Compare(string(a.Path), string(b.Path))
	})
	for _, f := range k.small[:min(len(k.small), maxIgnoredAll)] {
		if err := k.other(string(f.Path), "ignored"); err != nil {
			return err
		}
	}
	if len(k.small) > maxIgnoredAll {
		k.out.Summary.NamedOnly = append(k.out.Summary.NamedOnly, fmt.Sprintf("%d more ignored files", len(k.small)-maxIgnoredAll))
	}
	return nil
}

// folders notes the stamps of all folders, in which files can appear.
func (k *keeping) folders() {
	fs.WalkDir(k.root.FS(), ".", func(at string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return nil
		}
		if at == ".git" || slices.Contains(k.skipped, at+"/") {
			return fs.SkipDir
		}
		full := filepath.Join(k.place.top, filepath.FromSlash(at))
		s := lookAt(full)
		k.next.note(full, s)
		k.next.fresh = k.next.fresh || s.isFresh(k.at)
		return nil
	})
}

// stash keeps the entries of the stash that the last look did not see.
func (k *keeping) stash(ctx context.Context) error {
	raw, err := os.ReadFile(filepath.Join(k.place.common, "logs", "refs", "stash"))
	if err != nil {
		return nil // there is none
	}
	rows := strings.Split(strings.TrimSpace(string(raw)), "\n")
	slices.Reverse(rows) // the newest is first
	for _, row := range rows {
		about, message, _ := strings.Cut(row, "\t")
		fields := strings.Fields(about)
		if len(fields) < 2 {
			continue
		}
		one, err := k.stashed(ctx, fields[1], message)
		if err != nil {
			return err
		}
		k.out.Stash = append(k.out.Stash, one)
	}
	k.out.Summary.Stash = len(k.out.Stash)
	return nil
}

// stashed returns an entry of the stash with its files.
func (k *keeping) stashed(ctx context.Context, commit, message string) (stashed, error) {
	if k.last != nil {
		i := slices.IndexFunc(k.last.Stash, func(s stashed) bool { return s.Commit == commit })
		if i >= 0 {
			return k.last.Stash[i], nil
		}
	}
	out := stashed{Commit: commit, Message: message}
	parents, err := list(ctx, k.place.top, "rev-list", "--parents", "--no-walk", commit)
	if err != nil {
		return out, nil // the entry is damaged: git cannot read it either
	}
	ids := strings.Fields(parents)
	if len(ids) < 3 {
		return out, nil
	}
	out.Parent = ids[1]
	changes, err := list(ctx, k.place.top, "diff-tree", "-r", "--raw", "-z", "--no-renames", "--no-abbrev", ids[1], commit, "--")
	if err != nil {
		return out, err
	}
	if len(ids) > 3 { // the files that git did not know
		more, err := list(ctx, k.place.top, "diff-tree", "-r", "--root", "--no-commit-id", "--raw", "-z", "--no-renames", "--no-abbrev", ids[3], "--")
		if err != nil {
			return out, err
		}
		changes += more
	}
	for _, c := range parseRaw(changes) {
		f := file{Path: name(c.path), Blob: c.after, Base: c.before, Kind: "changed", Mode: uint32(modeOf(c.mode))}
		if c.after == "" {
			f.Kind = "deleted"
		} else {
			k.wanted = append(k.wanted, c.after)
		}
		out.Files = append(out.Files, f)
	}
	return out, nil
}

// modeOf returns the mode of a file in a tree of git.
func modeOf(mode string) fs.FileMode {
	switch mode {
	case "120000":
		return fs.ModeSymlink | 0o777
	case "100755":
		return 0o755
	}
	return 0o644
}

// count stores the wanted objects of the user's repository, and counts the lines that the state
// adds and removes.
func (k *keeping) count(ctx context.Context) error {
	var missing []string
	for _, id := range k.wanted {
		if _, err := os.Lstat(k.r.object(id)); err != nil && !slices.Contains(missing, id) {
			missing = append(missing, id)
		}
	}
	err := userBlobs(ctx, k.place.top, missing, func(id string, content []byte) error { return k.store(id, content) })
	if err != nil {
		return err
	}

	var bases []string
	for _, f := range k.out.Files {
		if f.Base != "" && f.Base != f.Blob {
			bases = append(bases, f.Base)
		}
	}
	before := map[string][]byte{}
	err = userBlobs(ctx, k.place.top, bases, func(id string, content []byte) error {
		if len(content) <= maxCompared {
			before[id] = content
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, f := range k.out.Files {
		if f.Kind == "ignored" || f.Base == f.Blob {
			continue
		}
		added, removed := countLines(before[f.Base], k.lines[f.Blob])
		k.out.Summary.Added += added
		k.out.Summary.Removed += removed
	}
	return nil
}

// countLines returns how many lines the second text has that the first has not, and the reverse.
// Equal lines count as often as they occur; their order does not matter.
func countLines(a, b []byte) (added, removed int) {
	lines := map[string]int{}
	for line := range strings.Lines(string(a)) {
		lines[line]--
	}
	for line := range strings.Lines(string(b)) {
		lines[line]++
	}
	for _, n := range lines {
		added += max(n, 0)
		removed += max(-n, 0)
	}
	return added, removed
}

// keepFiles keeps named files of a folder without git.
func (s *Store) keepFiles(r *repo, t hub.WorkingTree, o Options) (hub.KeptState, error) {
	root, err := os.OpenRoot(t.Path)
	if err != nil {
		return hub.KeptState{}, err
	}
	defer root.Close()
	k := &keeping{r: r, place: place{top: t.Path}, root: root, pause: s.pause, at: time.Now(), next: &table{marks: map[string]stamp{}}, lines: map[string][]byte{}}
	k.out.Tree = t.Path
	names := slices.Clone(o.Names)
	slices.Sort(names)
	for _, one := range slices.Compact(names) {
		info, err := root.Lstat(one)
		if err != nil || info.Size() > maxIgnored {
			continue
		}
		if err := k.other(one, "new"); err != nil {
			return hub.KeptState{}, err
		}
	}
	stored, err := r.writeState(k.out, s.pause)
	return stored.Summary, err
}
