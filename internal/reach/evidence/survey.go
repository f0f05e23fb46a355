package evidence

import (
	"context"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/parley-agents/parley/hub"
)

// settled is how long a file must have been left alone before a survey for its
// times to show whether it changed afterwards.
const settled = 2 * time.Second

// A stamp changes when a file is written, so that it need not be read again.
type stamp struct {
	size              int64
	modified, changed time.Time
	permissions       fs.FileMode
}

func newStamp(info fs.FileInfo) stamp {
	at, _ := changed(info)
	return stamp{info.Size(), info.ModTime(), at, info.Mode()}
}

// A sighting is a file as a survey found it.
type sighting struct {
	blob // id is empty if the file could not be read
	stamp
	stored bool // whether git can read the content by its id
}

// differs reports whether s is another file than it was.
func (s sighting) differs(was sighting) bool {
	if s.id == "" || was.id == "" {
		return s.stamp != was.stamp
	}
	return s.blob != was.blob
}

// A survey is everything in a working tree that is not ignored, at one time.
// The files are read here and hashed as git would if it converted nothing.
type survey struct {
	moment     Moment
	began      time.Time
	files      map[string]sighting
	submodules map[string]string // the commits that are checked out there
}

// A surveyor makes a survey.
type surveyor struct {
	ruled
	in       *Inspector
	at       string // absolute path of the tree
	format   int
	plain    bool            // no repository, so nothing is ignored
	tracked  map[string]blob // what is looked at even if a rule says to ignore it
	folders  map[string]bool // that hold such files
	previous *survey         // nil for the first one
	keep     *keeper         // takes what the previous survey, or the commit, does not have; may be nil
	survey   *survey
	visited  map[string]bool // folders
}

// newSurvey looks at the tree. previous is nil for the first survey.
func (b *Base) newSurvey(ctx context.Context, previous *survey, keep *keeper) (*survey, error) {
	if err := b.scratch.clear(); err != nil {
		return nil, err
	}
	s := &surveyor{
		ruled: ruled{scratch: b.scratch, tree: b.tree}, in: b.in, at: b.top, format: b.format, plain: b.plain,
		tracked: map[string]blob{}, folders: map[string]bool{".": true},
		previous: previous, keep: keep, visited: map[string]bool{},
		survey: &survey{began: time.Now(), files: map[string]sighting{}, submodules: map[string]string{}},
	}
	commit, err := s.head(ctx)
	if err != nil {
		return nil, err
	}
	if previous != nil {
		for name, f := range previous.files {
			if f.mode != modeSubmodule {
				s.track(name, f.blob)
			}
		}
	}
	if err := descend(ctx, s.level); err != nil {
		return nil, err
	}
	if !s.visited[b.folder] && previous == nil {
		return nil, errIgnoredFolder
	}
	s.survey.moment.Tree = s.survey.treeHash(b.format)
	s.survey.moment.Dirty = s.survey.moment.Repository && s.survey.moment.Tree != commit
	return s.survey, nil
}

// errIgnoredFolder says that a repository wants nothing to do with the folder.
var errIgnoredFolder = errors.New("the folder is ignored by the repository around it")

// head notes what is checked out, and returns the tree of its commit.
func (s *surveyor) head(ctx context.Context) (tree string, err error) {
	if s.plain && s.previous == nil {
		return "", nil
	}
	repo, err := s.in.openRepository(s.at)
	if err != nil {
		return "", ctx.Err() // there is none, or none any more
	}
	defer repo.close()
	head, err := repo.resolve("HEAD")
	s.survey.moment.Repository = true
	s.survey.moment.Commit = head.id
	s.survey.moment.Branch, _ = strings.CutPrefix(head.name, branchPrefix)
	if head.name == "HEAD" {
		s.survey.moment.Branch = ""
	}
	switch {
	case hub.CodeOf(err) == hub.CodeNotFound:
		return hashOf(s.format, "tree", nil), nil
	case err != nil:
		return "", err
	case s.plain:
		return "", nil
	}
	files, folders, err := s.scratch.files(ctx, head.id)
	if err != nil {
		return "", ctx.Err() // objects that cannot be read make nothing tracked
	}
	s.folders = folders
	for name, b := range files {
		if b.mode != modeSubmodule {
			s.tracked[name] = b
		} else if s.previous == nil {
			s.enter(ctx, name, b.id)
		}
	}
	if s.previous != nil {
		for name, id := range s.previous.submodules {
			s.enter(ctx, name, id)
		}
	}
	tree, _ = treeOf(slices.Sorted(maps.Keys(files)), 0, func(name string) blob { return files[name] }, hashing(s.format))
	return tree, nil
}

// track has a file looked at whatever the rules say.
func (s *surveyor) track(name string, b blob) {
	if _, ok := s.tracked[name]; !ok {
		s.tracked[name] = b
		hold(s.folders, name)
	}
}

// enter has a submodule looked at like any other folder. id is the commit that
// the repository wants there.
func (s *surveyor) enter(ctx context.Context, name, id string) {
	s.survey.submodules[name] = id
	s.folders[name] = true
	hold(s.folders, name)
	if info, err := s.tree.Lstat(path.Join(name, ".git")); err != nil || info.Mode()&fs.ModeSymlink != 0 {
		return // it was not fetched
	}
	repo, err := s.in.openRepository(filepath.Join(s.at, filepath.FromSlash(name)))
	if err != nil {
		return
	}
	defer repo.close()
	head, err := repo.resolve("HEAD")
	if err != nil {
		return
	}
	s.survey.submodules[name] = head.id
	if s.scratch.lend(repo) != nil {
		return
	}
	files, _, err := s.scratch.files(ctx, head.id)
	if err != nil {
		return
	}
	for inner, b := range files {
		if b.mode != modeSubmodule {
			s.track(path.Join(name, inner), b)
		}
	}
}

// level looks at folders of one depth and returns those below.
func (s *surveyor) level(ctx context.Context, folders []string) (below []string, err error) {
	var strangers []stranger
	for _, folder := range folders {
		s.visited[folder] = true
		var found []stranger
		nested := false
		for e, err := range entries(ctx, s.tree, folder) {
			switch {
			case errors.Is(err, fs.ErrNotExist): // by now
				continue
			case err != nil && ctx.Err() != nil:
				return nil, err
			case err != nil: // what is in it cannot be known, only that it is there
				s.survey.files[folder] = sighting{blob: blob{mode: modeFolder}}
				continue
			}
			if err := s.pass(); err != nil {
				return nil, err
			}
			name := path.Join(folder, e.Name())
			_, tracked := s.tracked[name]
			switch {
			case e.Name() == ".git":
				nested = !s.folders[folder]
			case e.IsDir() && s.folders[name]:
				below = append(below, name)
			case e.IsDir():
				found = append(found, stranger{name, true})
			case !e.Type().IsRegular() && e.Type()&fs.ModeSymlink == 0: // git has no pipes and devices
			case tracked:
				if err := s.meet(ctx, name); err != nil {
					return nil, err
				}
			default:
				found = append(found, stranger{name, false})
			}
			if !s.plain {
				if err := s.copyRules(name, e); err != nil {
					return nil, err
				}
			}
		}
		if nested && !s.plain {
			s.survey.files[folder] = sighting{blob: blob{modeSubmodule, s.nested(folder)}}
			continue
		}
		strangers = append(strangers, found...)
	}
	var ignored map[string]bool
	if !s.plain {
		if ignored, err = s.ignored(ctx, strangers); err != nil {
			return nil, err
		}
	}
	for _, stranger := range strangers {
		switch {
		case ignored[stranger.name]:
		case stranger.folder:
			below = append(below, stranger.name)
		default:
			if err := s.meet(ctx, stranger.name); err != nil {
				return nil, err
			}
		}
	}
	return below, nil
}

// nested returns the commit of a repository inside this one that is no
// submodule, and that counts as one thing.
func (s *surveyor) nested(name string) string {
	none := strings.Repeat("0", s.format)
	repo, err := s.in.openRepository(filepath.Join(s.at, filepath.FromSlash(name)))
	if err != nil {
		return none
	}
	defer repo.close()
	head, err := repo.resolve("HEAD")
	if err != nil || len(head.id) != s.format {
		return none
	}
	return head.id
}

// meet notes a file or link. One that is gone by now is passed over.
func (s *surveyor) meet(ctx context.Context, name string) error {
	info, err := s.tree.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return explain(name, err)
	}
	f := sighting{blob: blob{mode: gitMode(info.Mode())}, stamp: newStamp(info)}
	if was, ok := s.before(name, f.stamp); ok {
		f.id, f.stored = was.id, was.stored
	} else if f.id, f.stored, err = s.read(ctx, name, info); err != nil {
		if err := ctx.Err(); err != nil {
			return err
		}
		f.id = ""
	}
	s.survey.files[name] = f
	return nil
}

// before returns what the previous survey found, if the file has not been
// written since.
func (s *surveyor) before(name string, now stamp) (was sighting, ok bool) {
	if s.previous == nil {
		return was, false
	}
	was, ok = s.previous.files[name]
	// Equal times prove nothing for a file that was written while the survey
	// was made.
	quiet := s.previous.began.Add(-settled)
	return was, ok && was.id != "" && was.stamp == now && now.changed.Before(quiet) && now.modified.Before(quiet)
}

// read hashes a file or link, and gives it to the keeper if it is new.
func (s *surveyor) read(ctx context.Context, name string, info fs.FileInfo) (id string, stored bool, err error) {
	var content []byte
	switch {
	case info.Mode()&fs.ModeSymlink != 0:
		to, err := s.tree.Readlink(name)
		if err != nil {
			return "", false, err
		}
		content = []byte(to)
	case info.Size() > maxKept:
		id, err := s.stream(ctx, name)
		return id, s.stored(name, id), err
	default:
		if content, err = readSmall(s.tree, name, maxKept); err != nil {
			return "", false, err
		}
	}
	id = hashOf(s.format, "blob", content)
	stored = s.stored(name, id) || s.keep != nil && s.keep.add(id, content)
	return id, stored, nil
}

// stored reports whether git can read the file as it was before, which is also
// how it is now.
func (s *surveyor) stored(name, id string) bool {
	if s.previous != nil {
		was := s.previous.files[name]
		return was.stored && was.id == id
	}
	return s.tracked[name].id == id
}

// stream hashes a file that is too large to be kept.
func (s *surveyor) stream(ctx context.Context, name string) (string, error) {
	f, err := openRegular(s.tree, name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	if err := s.in.fits("evidence.Snapshot", name, f.info.Size()); err != nil {
		return "", err
	}
	h := objectHash(s.format, "blob", f.info.Size())
	n, err := io.Copy(h, io.LimitReader(untilDone{ctx, f}, f.info.Size()+1))
	if err == nil && n != f.info.Size() {
		err = hub.Errorf(hub.CodeDegraded, "evidence.Snapshot", "%s changes while it is read", show(name))
	}
	return hex.EncodeToString(h.Sum(nil)), err
}

// gitMode returns the mode that a commit has for a file.
func gitMode(m fs.FileMode) string {
	switch {
	case m&fs.ModeSymlink != 0:
		return modeLink
	case m&0o100 != 0:
		return modeExecutable
	}
	return modeRegular
}

// treeHash returns the name of the git tree with these files, empty if one of
// them could not be read. A submodule is in it as its commit.
func (s *survey) treeHash(format int) string {
	names := slices.Collect(maps.Keys(s.submodules))
	for name, f := range s.files {
		if f.id == "" {
			return ""
		}
		if !s.inSubmodule(name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	tree, err := treeOf(names, 0, func(name string) blob {
		if id, ok := s.submodules[name]; ok {
			return blob{modeSubmodule, id}
		}
		return s.files[name].blob
	}, hashing(format))
	if err != nil {
		return ""
	}
	return tree
}

// inSubmodule reports whether a file is in a submodule.
func (s *survey) inSubmodule(name string) bool {
	if len(s.submodules) == 0 {
		return false
	}
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		if _, ok := s.submodules[dir]; ok {
			return true
		}
	}
	return false
}
