package evidence

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/parley-agents/parley/hub"
)

// A Moment is the state of a folder at one time.
type Moment struct {
	Repository bool   `json:"repository"`       // whether it is in a git repository
	Commit     string `json:"commit,omitempty"` // empty if there is none yet
	Branch     string `json:"branch,omitempty"` // empty if HEAD is detached
	Tree       string `json:"tree,omitempty"`   // the files as a git tree; empty if one could not be read
	Dirty      bool   `json:"dirty"`            // whether the files are not byte for byte those of the commit
}

// A Base is what lay in a folder before somebody worked there. It holds
// temporary files until it is closed, and is of no use after that. It is not
// safe for concurrent use.
type Base struct {
	in     *Inspector
	given  string   // the folder as it was named, absolute
	top    string   // the folder that is looked at, without links
	folder string   // where the work is done, relative to top, with slashes
	tree   *os.Root // top
	plain  bool     // top is not in a repository
	format int      // digits of an object's name

	scratch *scratch
	first   *survey
	last    *survey   // of the last Compare, or first
	taken   time.Time // when the first survey was complete, by the clock of the files
}

// Snapshot looks at the whole working tree that dir is in, or at dir alone if it
// is in none or in one that ignores it. The caller closes the base.
//
// Every file that git would not ignore is read and hashed as it is: no filter
// is run and no line ending converted, so in a repository that has such rules
// the tree is not the one git would make. A submodule counts with its files; a
// repository inside the repository that is no submodule counts as one thing,
// with its commit. What was staged is not looked at. Neither the working tree
// nor the repository is changed.
//
// It reports CodeNotFound and CodeConflict for a dir that is no folder,
// CodeTooLarge beyond a million files, and CodeDegraded if the time is over.
// opts may be nil; all but Parallel and OtherOwners counts. A file larger than
// MaxFile is told from what it was by its size and times.
func Snapshot(ctx context.Context, dir string, opts *Options) (*Base, error) {
	given, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("evidence: snapshot: %w", err)
	}
	real, err := filepath.EvalSymlinks(given)
	if err != nil {
		return nil, explain(dir, err)
	}
	var o Options
	if opts != nil {
		o = *opts
	}
	o.OtherOwners = true // the user chose the folder, and nothing in it is run
	in, err := New([]string{filepath.VolumeName(real) + string(filepath.Separator)}, &o)
	if err != nil {
		return nil, err
	}
	ctx, end, err := in.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	b, err := newBase(ctx, in, real)
	if err != nil {
		return nil, in.late(ctx, err)
	}
	b.given = given
	return b, nil
}

// newBase takes a snapshot of the repository around the folder, or of the
// folder.
func newBase(ctx context.Context, in *Inspector, folder string) (*Base, error) {
	top, err := in.around(folder)
	if err != nil {
		return nil, err
	}
	if top != "" {
		b := &Base{in: in, top: top}
		rel, err := filepath.Rel(top, folder)
		if err != nil {
			return nil, err
		}
		b.folder = filepath.ToSlash(rel)
		if err := b.take(ctx); !errors.Is(err, errIgnoredFolder) {
			return b, err
		}
	}
	b := &Base{in: in, top: folder, folder: ".", plain: true}
	return b, b.take(ctx)
}

// around returns the top of the working tree that folder is in, or "".
func (in *Inspector) around(folder string) (string, error) {
	for at := folder; ; at = filepath.Dir(at) {
		if _, err := os.Lstat(filepath.Join(at, ".git")); err == nil {
			repo, err := in.openRepository(at)
			switch {
			case err == nil:
				repo.close()
				return at, nil
			case hub.CodeOf(err) != hub.CodeNotFound:
				return "", err
			}
		}
		if at == filepath.Dir(at) {
			return "", nil
		}
	}
}

// take makes the first survey. It closes the base if that fails.
func (b *Base) take(ctx context.Context) (err error) {
	defer func() {
		if err != nil {
			b.Close()
		}
	}()
	top, _, _, err := find(b.in, b.top, openFolder)
	if err != nil {
		return err
	}
	b.tree = top
	if b.scratch, err = b.in.emptyScratch(); err != nil {
		return err
	}
	if err := b.prepare(ctx); err != nil {
		return err
	}
	if b.first, err = b.newSurvey(ctx, nil, b.keeper()); err != nil {
		return err
	}
	b.last = b.first
	b.taken, err = b.scratch.clock()
	return err
}

// prepare fills the scratch with what is to be known about the repository. The
// rules that are not in the working tree stay as they are now.
func (b *Base) prepare(ctx context.Context) error {
	if b.plain {
		b.format = sha256Digits
		return b.scratch.lay(b.format, map[string][]byte{})
	}
	if b.in.git == "" {
		return hub.Errorf(hub.CodeNotEnabled, "evidence.Snapshot", "git is not installed, and %s is in a repository", show(b.top))
	}
	repo, err := b.in.openRepository(b.top)
	if err != nil {
		return err
	}
	defer repo.close()
	b.format = sha1Digits
	if head, err := repo.resolve("HEAD"); err == nil {
		b.format = len(head.id)
	}
	files, err := repo.rules()
	if err != nil {
		return err
	}
	own, err := userExcludes(ctx, b.in.git)
	if err != nil {
		return err
	}
	files["info/exclude"] = append(append(own, '\n'), files["info/exclude"]...)
	if err := b.scratch.lay(b.format, files); err != nil {
		return err
	}
	return b.scratch.lend(repo)
}

// userExcludes returns the user's own list of what git ignores everywhere:
// agents put their private files there.
func userExcludes(ctx context.Context, git string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, git, "config", "--global", "--type=path", "--get", "core.excludesFile")
	cmd.Dir = os.TempDir()
	cmd.Env = []string{"LC_ALL=C"}
	for _, name := range []string{"HOME", "XDG_CONFIG_HOME", "GIT_CONFIG_GLOBAL"} {
		if value, ok := os.LookupEnv(name); ok {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
	}
	cmd.WaitDelay = killDelay
	leash(cmd)
	out, err := cmd.Output()
	name := strings.TrimSuffix(string(out), "\n")
	if err != nil || name == "" {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		config, err := os.UserConfigDir()
		if err != nil {
			return nil, nil
		}
		name = filepath.Join(config, "git", "ignore")
	}
	folder, err := os.OpenRoot(filepath.Dir(name))
	if err != nil {
		return nil, nil
	}
	defer folder.Close()
	b, err := readSmall(folder, filepath.Base(name), maxInfo)
	if err != nil {
		return nil, nil // as good as none, as for git
	}
	return b, nil
}

func (b *Base) keeper() *keeper { return &keeper{scratch: b.scratch, format: b.format, room: keepRoom} }

// clock returns the time that a file gets that is written now.
func (s *scratch) clock() (time.Time, error) {
	name := filepath.Join(s.dir, "clock")
	if err := os.WriteFile(name, nil, 0o600); err != nil {
		return time.Time{}, err
	}
	info, err := os.Lstat(name)
	if err != nil {
		return time.Time{}, err
	}
	at, _ := changed(info)
	return at, nil
}

// Moment returns what was found.
func (b *Base) Moment() Moment { return b.first.moment }

// Close removes the temporary files.
func (b *Base) Close() error {
	var errs []error
	if b.tree != nil {
		errs = append(errs, b.tree.Close())
	}
	if b.scratch != nil {
		b.scratch.close()
	}
	b.tree, b.scratch = nil, nil
	return errors.Join(errs...)
}

// Compare looks again and says what has changed since the base was taken.
// named are paths as somebody wrote them, absolute or relative to the base's
// folder; each is looked at even if git would ignore it.
func (b *Base) Compare(ctx context.Context, named []string) (Changes, error) {
	ctx, end, err := b.in.begin(ctx)
	if err != nil {
		return Changes{}, err
	}
	defer end()
	keep := b.keeper()
	now, err := b.newSurvey(ctx, b.first, keep)
	if err != nil {
		return Changes{}, b.in.late(ctx, err)
	}
	b.last = now
	c := now.since(b.first)
	c.Top, c.Folder = b.top, b.folder
	c.count(ctx, keep, b.first, now)
	c.Named = make(map[string]Sight, len(named))
	for _, p := range named {
		if _, ok := c.Named[p]; !ok {
			c.Named[p] = b.look(p, now)
		}
	}
	return c, nil
}

// Since looks again and returns the names of what has changed since the last
// Compare, such as what a command changed that ran in between.
func (b *Base) Since(ctx context.Context) ([]string, error) {
	ctx, end, err := b.in.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	now, err := b.newSurvey(ctx, b.last, nil)
	if err != nil {
		return nil, b.in.late(ctx, err)
	}
	return now.since(b.last).names(), nil
}

// look says what lies at a path that somebody wrote.
func (b *Base) look(written string, now *survey) Sight {
	names := b.resolve(written)
	var first Sight
	for i, name := range names {
		s := b.sight(name, now)
		if i == 0 {
			first = s
		}
		if s.Exists || !s.Ignored && s.Name != "" {
			return s
		}
	}
	return first
}

// resolve returns what a path can mean, the likeliest first; nothing if it
// leads out of the tree. From within a folder of a repository many name files
// as seen from its top.
func (b *Base) resolve(written string) []string {
	if written == "" || len(written) > maxPath || strings.ContainsRune(written, 0) {
		return nil
	}
	if filepath.IsAbs(written) {
		clean := filepath.Clean(written)
		if rel, ok := under(b.top, clean); ok {
			return []string{filepath.ToSlash(rel)}
		}
		if rel, ok := under(b.given, clean); ok {
			return []string{path.Join(b.folder, filepath.ToSlash(rel))}
		}
		return nil
	}
	var names []string
	for _, from := range []string{b.folder, "."} {
		name := path.Join(from, filepath.ToSlash(written))
		if !leadsOut(name) {
			names = append(names, name)
		}
	}
	return names
}

// leadsOut reports whether a clean relative name leads out of where it begins.
func leadsOut(name string) bool { return name == ".." || strings.HasPrefix(name, "../") }

// sight says what lies at a name.
func (b *Base) sight(name string, now *survey) Sight {
	_, is := now.files[name]
	_, was := b.first.files[name]
	if is || was {
		return Sight{Name: name, Exists: is, Folder: now.files[name].mode == modeSubmodule}
	}
	info, err := b.tree.Stat(name)
	switch {
	case err == nil:
		at, _ := changed(info)
		return Sight{Name: name, Exists: true, Folder: info.IsDir(), Ignored: true, Touched: !at.Before(b.taken)}
	case hub.CodeOf(explain(name, err)) == hub.CodePolicy:
		return Sight{} // through a link
	}
	return Sight{Name: name, Ignored: true}
}
