package clone

import (
	"cmp"
	"context"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// A Reason says why a working tree cannot be brought forward now.
type Reason string

// The reasons.
const (
	Changed   Reason = "changes"     // files that the landing touches were changed and not committed
	Staged    Reason = "staged"      // such changes are staged
	Untracked Reason = "untracked"   // a file that git does not track is in the way
	Ignored   Reason = "ignored"     // a file that git ignores is in the way
	Rebasing  Reason = "rebase"      // a rebase is in progress
	Merging   Reason = "merge"       // a merge is in progress, or the index has conflicts
	Picking   Reason = "cherry-pick" // a cherry-pick is in progress
	Reverting Reason = "revert"      // a revert is in progress
	Bisecting Reason = "bisect"      // a bisection is in progress
	Locked    Reason = "lock"        // another git process works there
	Caseless  Reason = "case"        // the landing has names that are one file here
)

// Waits says that a working tree must be made ready by a person before a branch can move.
type Waits struct {
	Folder string   `json:"folder"`
	Reason Reason   `json:"reason"`
	Paths  []string `json:"paths,omitempty"` // relative to the folder; at most 100
}

// maxPaths bounds the paths of a Waits.
const maxPaths = 100

// reasonTexts complete the sentence "waits for FOLDER: ...".
var reasonTexts = map[Reason]string{
	Changed:   "it has changes in",
	Staged:    "it has staged changes in",
	Untracked: "an untracked file is in the way:",
	Ignored:   "an ignored file is in the way:",
	Rebasing:  "a rebase is in progress",
	Merging:   "a merge is in progress",
	Picking:   "a cherry-pick is in progress",
	Reverting: "a revert is in progress",
	Bisecting: "a bisection is in progress",
	Locked:    "another git process is running there",
	Caseless:  "its file system cannot hold both of",
}

// String returns the wait as a sentence for people.
func (w Waits) String() string {
	const shown = 3
	text := "waits for " + w.Folder + ": " + cmp.Or(reasonTexts[w.Reason], string(w.Reason))
	if w.Reason == Merging || len(w.Paths) == 0 {
		return text
	}
	text += " " + strings.Join(w.Paths[:min(shown, len(w.Paths))], ", ")
	if len(w.Paths) > shown {
		text += ", ..."
	}
	return text
}

// An entry is a path in an index.
type entry struct {
	mode, id string
	hidden   bool // git does not look at the file, by the user's wish
}

// is reports whether an entry of the index is one of a tree. An absent one has modeNone.
func (e entry) is(mode, id string) bool { return e.mode == mode && (mode == modeNone || e.id == id) }

// A plan says how a tree gets from one commit to another.
type plan struct {
	files   *files
	changes []Change
	states  map[string]state // of the changed paths
	index   map[string]entry // of the changed paths; nil if the index does not matter
}

// newPlan compares a tree with a landing, and returns the reasons to wait, if there are any.
// The index counts if indexed is set.
func newPlan(ctx context.Context, f *files, changes []Change, indexed bool) (*plan, []Waits, error) {
	p := &plan{files: f, changes: changes}
	var paths []string
	for _, ch := range changes {
		paths = append(paths, ch.Path)
	}
	var err error
	if p.states, err = f.look(ctx, paths); err != nil {
		return nil, nil, err
	}
	if f.caseless {
		p.freeRenamed()
	}

	var found findings
	if indexed {
		if err := p.readIndex(ctx, &found); err != nil {
			return nil, nil, err
		}
	}
	for _, ch := range changes {
		if err := p.check(ch, &found); err != nil {
			return nil, nil, err
		}
	}
	waits, err := p.waits(ctx, found)
	return p, waits, err
}

// freeRenamed forgets the file at a path that the landing adds, if it is one that the landing
// removes in other case: it makes place first.
func (p *plan) freeRenamed() {
	removed := map[string]bool{}
	for _, ch := range p.changes {
		if ch.Status == Removed {
			removed[strings.ToLower(ch.Path)] = true
		}
	}
	for _, ch := range p.changes {
		if ch.Status == Added && removed[strings.ToLower(ch.Path)] {
			p.states[ch.Path] = state{}
		}
	}
}

// findings are paths that keep a tree from a landing.
type findings struct {
	conflicts, staged, changed, inWay []string
}

// readIndex reads the entries of the changed paths. Entries of other paths count where they
// are in the way of a new one.
func (p *plan) readIndex(ctx context.Context, found *findings) error {
	list, err := output(p.files.git(ctx, p.files.tree.index(), "ls-files", "-z", "-s", "-v"), "read the index", p.files.tree.Folder)
	if err != nil {
		return err
	}
	touched := map[string]Status{}
	added := map[string]bool{}
	for _, ch := range p.changes {
		touched[ch.Path] = ch.Status
		if ch.Status == Added {
			added[ch.Path] = true
		}
	}

	p.index = map[string]entry{}
	all := map[string]bool{}
	for _, line := range strings.Split(list, "\x00") {
		head, name, ok := strings.Cut(line, "\t")
		words := strings.Fields(head)
		if !ok || len(words) != 4 {
			continue
		}
		if words[3] != "0" {
			found.conflicts = append(found.conflicts, name)
		}
		_, isTouched := touched[name]
		if isTouched {
			p.index[name] = entry{mode: words[1], id: words[2], hidden: words[0] != "H"}
		} else if len(added) > 0 && belowAny(added, name) {
			found.staged = append(found.staged, name) // a file where the landing has one of its folder's name
		}
		all[name] = true
	}
	for name := range added {
		for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
			if all[dir] && touched[dir] != Removed {
				found.staged = append(found.staged, dir)
			}
		}
	}
	return nil
}

// belowAny reports whether one of the names is a folder above a path.
func belowAny(names map[string]bool, name string) bool {
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		if names[dir] {
			return true
		}
	}
	return false
}

// check looks for reasons to wait at one path.
func (p *plan) check(ch Change, found *findings) error {
	in, known := p.index[ch.Path]
	if !known {
		in.mode = modeNone
	}
	if p.index != nil && !in.is(ch.oldMode, ch.oldID) {
		if !in.is(ch.newMode, ch.newID) {
			found.staged = append(found.staged, ch.Path)
		}
		return nil // what is staged already is the landing's: the file stays as it is
	}
	if ch.wasFile() {
		p.checkFile(ch, in, found)
		return nil
	}
	return p.checkPlace(ch, found)
}

// wasFile reports whether the path was a file or a link. A submodule is a folder that no
// landing touches.
func (ch Change) wasFile() bool { return ch.oldMode != modeNone && ch.oldMode != modeSubmodule }

// becomesFile reports whether the path is a file or a link afterwards.
func (ch Change) becomesFile() bool { return ch.newMode != modeNone && ch.newMode != modeSubmodule }

// checkFile looks at a file that the landing changes or removes.
func (p *plan) checkFile(ch Change, in entry, found *findings) {
	s := p.states[ch.Path]
	known := p.files.is(s, ch.newMode, ch.newID) || p.files.is(s, ch.oldMode, ch.oldID)
	unwanted := s.absent() && s.parent == "" && in.hidden
	if !known && !unwanted {
		found.changed = append(found.changed, ch.Path)
	}
}

// checkPlace looks at the place of a file or submodule that the landing adds.
func (p *plan) checkPlace(ch Change, found *findings) error {
	s := p.states[ch.Path]
	switch {
	case ch.oldMode == modeSubmodule && !ch.becomesFile():
	case s.parent != "":
		if !p.goes(s.parent) {
			found.inWay = append(found.inWay, s.parent)
		}
	case s.absent() || p.files.is(s, ch.newMode, ch.newID):
	case s.info.IsDir():
		return p.checkFolder(ch, found)
	default:
		found.inWay = append(found.inWay, ch.Path)
	}
	return nil
}

// goes reports whether the landing removes the file at a path.
func (p *plan) goes(name string) bool {
	i := slices.IndexFunc(p.changes, func(ch Change) bool { return ch.Path == name })
	return i >= 0 && p.changes[i].newMode == modeNone && p.files.is(p.states[name], p.changes[i].oldMode, p.changes[i].oldID)
}

// checkFolder looks at a folder where the landing has a file: the files in it must be ones
// that the landing removes.
func (p *plan) checkFolder(ch Change, found *findings) error {
	return fs.WalkDir(p.files.root.FS(), ch.Path, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if !d.IsDir() && !p.goes(name) {
			found.inWay = append(found.inWay, name)
		}
		if len(found.inWay) > maxPaths {
			return fs.SkipAll
		}
		return nil
	})
}

// waits turns findings into reasons to wait.
func (p *plan) waits(ctx context.Context, found findings) ([]Waits, error) {
	changed, err := p.really(ctx, found.changed)
	if err != nil {
		return nil, err
	}
	ignored, untracked, err := p.ignored(ctx, found.inWay)
	if err != nil {
		return nil, err
	}

	var out []Waits
	add := func(reason Reason, paths []string) {
		slices.Sort(paths)
		paths = slices.Compact(paths)
		if len(paths) > 0 {
			out = append(out, Waits{Folder: p.files.tree.Folder, Reason: reason, Paths: paths[:min(len(paths), maxPaths)]})
		}
	}
	add(Merging, found.conflicts)
	add(Staged, found.staged)
	add(Changed, changed)
	add(Untracked, untracked)
	add(Ignored, ignored)
	return out, nil
}

// really returns those of the changed paths that git takes for changed, too. The content of a
// file differs from the stored one, though nobody has changed it, where the repository has a
// filter of its own; then the index says that the file is as git wrote it.
func (p *plan) really(ctx context.Context, changed []string) ([]string, error) {
	if p.index == nil || len(changed) == 0 || len(changed) > maxPaths {
		return changed, nil
	}
	args := append([]string{"--literal-pathspecs", "diff-files", "--name-only", "-z", "--ignore-submodules", "--"}, changed...)
	list, err := output(p.files.git(ctx, p.files.tree.index(), args...), "compare files", p.files.tree.Folder)
	if err != nil {
		return nil, err
	}
	dirty := strings.Split(list, "\x00")
	return slices.DeleteFunc(changed, func(name string) bool {
		s := p.states[name]
		return !s.absent() && !p.index[name].hidden && !slices.Contains(dirty, name)
	}), nil
}

// ignored divides paths into those that git ignores and others.
func (p *plan) ignored(ctx context.Context, paths []string) (ignored, others []string, err error) {
	if len(paths) == 0 {
		return nil, nil, nil
	}
	cmd := p.files.git(ctx, p.files.tree.index(), "check-ignore", "--no-index", "-z", "--stdin")
	cmd.Stdin = strings.NewReader(strings.Join(paths, "\x00") + "\x00")
	var list strings.Builder
	cmd.Stdout = &list
	if err := finish(cmd); err != nil && exitCode(err) != 1 {
		return nil, nil, failed(err, "check-ignore", p.files.tree.Folder)
	}
	said := strings.Split(list.String(), "\x00")
	for _, name := range paths {
		if slices.Contains(said, name) {
			ignored = append(ignored, name)
		} else {
			others = append(others, name)
		}
	}
	return ignored, others, nil
}
