package clone

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// A Forwarded is the result of moving a branch. Either Moved or Waits is set.
type Forwarded struct {
	Moved      bool     `json:"moved"`
	Trees      []string `json:"trees,omitempty"`      // the folders whose files were brought forward
	Waits      []Waits  `json:"waits,omitempty"`      // the folders that keep the branch where it is
	Submodules []string `json:"submodules,omitempty"` // paths whose submodule must be updated by a person
	Kept       []string `json:"kept,omitempty"`       // where files are that persons wrote meanwhile, and whose places are taken
}

// finishTime bounds the steps that must be done after the caller's context has ended.
const finishTime = 2 * time.Minute

// Forward moves a branch of the user's repository from one commit to a later one of the
// copy, and brings every working tree forward in which it is checked out. An empty old
// stands for a branch without commits. A tree with a detached head is left alone, and a bare
// repository has none.
//
// Either all of it happens or nothing. Changes of a person in other paths stay, and nothing
// of a person is overwritten: where the landing would do that, Forward changes nothing and
// returns the reasons to wait. The error is [ErrMoved] if the branch is not at old, and
// [ErrNotForward] if new does not contain old. A branch that is at new already is moved.
func (c *Copy) Forward(ctx context.Context, branch, old, new string) (_ Forwarded, err error) {
	defer typed(&err, "move "+branch, c.source.folder)
	unlock, err := c.lock(ctx)
	if err != nil {
		return Forwarded{}, err
	}
	defer unlock()
	return c.forward(ctx, strings.ToLower(rand.Text()), branch, old, new)
}

// forward is Forward as the step of an id.
func (c *Copy) forward(ctx context.Context, id, branch, old, new string) (Forwarded, error) {
	if err := c.checkForward(ctx, branch, old, new); err != nil {
		return Forwarded{}, err
	}
	changes, err := c.changes(ctx, old, new)
	if err != nil {
		return Forwarded{}, err
	}
	out := Forwarded{Submodules: submodules(changes)}
	switch now := c.source.branch(ctx, branch); {
	case now == new:
		out.Moved = true
		return out, nil
	case now != old:
		return Forwarded{}, fail(ErrMoved, "move "+branch, c.source.folder, "it is at "+now)
	}
	trees, waits, err := c.targets(ctx, branch)
	if err != nil || len(waits) > 0 {
		return Forwarded{Waits: waits}, err
	}

	s := c.newStep(id, branch, old, new, trees, changes)
	if err := s.open(ctx, c); err != nil {
		return Forwarded{}, err
	}
	defer s.close()
	if waits, err = s.plan(ctx, true); err != nil || len(waits) > 0 {
		return Forwarded{Waits: waits}, err
	}
	if err := c.send(ctx, old, new); err != nil {
		return Forwarded{}, err
	}
	if waits, err = s.run(ctx, c); err != nil || len(waits) > 0 {
		return Forwarded{Waits: waits, Kept: s.kept}, err
	}

	out.Moved = true
	for _, t := range trees {
		out.Trees = append(out.Trees, t.Folder)
	}
	out.Kept, err = s.finish()
	return out, err
}

// checkForward refuses names and commits that Forward cannot work with.
func (c *Copy) checkForward(ctx context.Context, branch, old, new string) error {
	if _, err := c.run(ctx, "check-ref-format", "refs/heads/"+branch); err != nil {
		return fail(ErrName, "move a branch", c.source.folder, branch)
	}
	if err := c.source.checkObjects(); err != nil {
		return err
	}
	if _, err := c.commit(ctx, new); err != nil || old == "" {
		return err
	}
	if _, err := c.run(ctx, "merge-base", "--is-ancestor", old, new); err != nil {
		return fail(ErrNotForward, "move "+branch, c.source.folder, new)
	}
	return nil
}

// submodules returns the paths of changes that are submodules.
func submodules(changes []Change) (out []string) {
	for _, ch := range changes {
		if ch.Submodule {
			out = append(out, ch.Path)
		}
	}
	return out
}

// branch returns the commit of a branch of the user, "" if there is none.
func (s source) branch(ctx context.Context, name string) string {
	id, err := s.shared().run(ctx, "rev-parse", "--verify", "--quiet", "refs/heads/"+name+"^{commit}")
	if err != nil {
		return ""
	}
	return id
}

// targets returns the working trees in which a branch is checked out, and those in which an
// operation of git is under way that will write to the branch.
func (c *Copy) targets(ctx context.Context, branch string) (out []tree, waits []Waits, err error) {
	all, err := c.source.trees(ctx)
	if err != nil {
		return nil, nil, err
	}
	for _, t := range all {
		checkedOut := t.head(ctx) == "refs/heads/"+branch
		if reason := t.underWay(branch, checkedOut); reason != "" {
			waits = append(waits, Waits{Folder: t.Folder, Reason: reason})
		} else if checkedOut {
			out = append(out, t)
		}
	}
	return out, waits, nil
}

// plan compares all trees of the step with the landing.
func (s *step) plan(ctx context.Context, indexed bool) (waits []Waits, err error) {
	for _, w := range s.works {
		_, err := os.Lstat(w.indexLock())
		if err == nil && indexed && !w.locked {
			waits = append(waits, Waits{Folder: w.files.tree.Folder, Reason: Locked})
			continue
		}

		p, reasons, err := newPlan(ctx, w.files, s.changes, indexed)
		if err != nil {
			return nil, err
		}
		w.plan = p
		waits = append(waits, reasons...)
		if w.files.caseless {
			twins, err := w.copy.twins(ctx, s.New, s.changes)
			if err != nil {
				return nil, err
			}
			if len(twins) > 0 {
				waits = append(waits, Waits{Folder: w.files.tree.Folder, Reason: Caseless, Paths: slices.Concat(twins...)})
			}
		}
	}
	return waits, nil
}

// run does the step, or nothing. It returns the reasons to wait that appeared meanwhile.
func (s *step) run(ctx context.Context, c *Copy) (waits []Waits, err error) {
	if err := s.write(); err != nil {
		return nil, err
	}
	done := false
	defer func() {
		if !done {
			err = errors.Join(err, s.abandon(ctx))
		}
	}()
	for _, w := range s.works {
		free, err := w.lock()
		if err != nil {
			return nil, err
		}
		if !free {
			return []Waits{{Folder: w.files.tree.Folder, Reason: Locked}}, nil
		}
	}
	if waits, err = s.plan(ctx, true); err != nil || len(waits) > 0 {
		return waits, err
	}
	for _, w := range s.works {
		if err := w.stage(ctx, true); err != nil {
			return nil, err
		}
	}

	t, err := c.begin(ctx, "refs/heads/"+s.Branch, s.Old, s.New)
	if err != nil {
		return nil, err
	}
	defer t.abort()
	ctx = context.WithoutCancel(ctx) // what has begun is finished
	for _, w := range s.works {
		err := w.move(ctx)
		if err == nil {
			err = w.installIndex(ctx)
		}
		if waits := w.waitsFor(err); len(waits) > 0 {
			return waits, nil
		}
		if err != nil {
			return nil, err
		}
	}
	err = t.commit()
	done = err == nil || c.source.branch(ctx, s.Branch) == s.New
	if done {
		return nil, nil
	}
	return nil, err
}

// abandon undoes a step that could not be done. A record that stays is for Recover.
func (s *step) abandon(ctx context.Context) error {
	if err := s.giveUp(ctx); err != nil {
		return err
	}
	return s.forget()
}

// waitsFor returns the reason to wait for a file that a person has changed meanwhile.
func (w *work) waitsFor(err error) []Waits {
	var by *touched
	if !errors.As(err, &by) {
		return nil
	}
	return []Waits{{Folder: w.files.tree.Folder, Reason: Changed, Paths: []string{by.path}}}
}

// giveUp brings the trees back to their state before the step, and removes its traces there.
func (s *step) giveUp(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), finishTime)
	defer cancel()
	for _, w := range s.works {
		if err := w.undo(ctx); err != nil {
			return err
		}
		if err := w.releaseAll(ctx); err != nil {
			return err
		}
	}
	return nil
}

// forget removes the record.
func (s *step) forget() error {
	s.home.pause("remove the record")
	err := os.Remove(s.file())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// finish removes the traces of a step that is done.
func (s *step) finish() (kept []string, err error) {
	for _, w := range s.works {
		aside := w.changedAside()
		kept = append(kept, aside...)
		if err := w.release(aside); err != nil {
			return kept, err
		}
	}
	return kept, s.forget()
}

// send packs the commits of the copy that a branch of the user lacks into the user's
// repository. No ref points at them yet.
func (c *Copy) send(ctx context.Context, old, new string) error {
	pack := c.alone(ctx, "pack-objects", "--revs", "--delta-base-offset", "--stdout", "-q")
	revisions := new + "\n"
	if old != "" {
		revisions += "--not\n" + old + "\n"
	}
	pack.Stdin = strings.NewReader(revisions)

	// Few objects become files of their own, as git does it with what it fetches.
	number, err := c.run(ctx, append([]string{"rev-list", "--objects", "--count"}, strings.Fields(revisions)...)...)
	if err != nil {
		return err
	}
	store := []string{"-c", "core.fsync=all", "-c", "core.fsyncMethod=batch", "unpack-objects", "-q"}
	if len(number) > len("100") {
		store = []string{"-c", "core.fsync=all", "index-pack", "--stdin"}
	}
	return c.pipe(pack, c.source.shared().user(ctx, store...))
}

// A transaction holds the lock of one branch of the user, which is at the expected commit.
type transaction struct {
	cmd     *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Reader
	errText strings.Builder
	ended   bool
	pause   func(string)
	folder  string
	stand   string // the folder of git of the working tree that stands in
}

// begin locks a branch and compares it with the old commit. If this process ends, git takes
// the lock away.
//
// Git also locks the head of the tree in which it runs, by an empty file. So it runs for a
// working tree without files that has the head detached: then the lock of the branch is the
// only one, and its content, the new commit, says whose it is.
func (c *Copy) begin(ctx context.Context, ref, old, new string) (*transaction, error) {
	stand, err := os.MkdirTemp(c.home.folder, draftName)
	if err != nil {
		return nil, err
	}
	for name, text := range map[string]string{"HEAD": new, "commondir": c.source.common, "gitdir": filepath.Join(stand, ".git")} {
		if err := os.WriteFile(filepath.Join(stand, name), []byte(text+"\n"), 0o600); err != nil {
			os.RemoveAll(stand)
			return nil, err
		}
	}
	t, err := c.source.shared().begin(ctx, stand, ref, old, new, c.home.pause)
	if err != nil {
		os.RemoveAll(stand)
	}
	return t, err
}

func (s source) begin(ctx context.Context, stand, ref, old, new string, pause func(string)) (*transaction, error) {
	if old == "" {
		old = strings.Repeat("0", len(new))
	}
	cmd := s.user(context.WithoutCancel(ctx), "-c", "core.fsync=all", "-c", "core.filesRefLockTimeout=500", "update-ref", "-m", "parley: landed", "--stdin")
	cmd.Env = append(cmd.Env, append(identity(""), "GIT_DIR="+stand)...)
	t := &transaction{cmd: cmd, pause: pause, folder: s.folder, stand: stand}
	cmd.Stderr = &t.errText
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	t.in = in
	t.out = bufio.NewReader(out)

	pause("lock the branch")
	if err := cmd.Start(); err != nil {
		return nil, failed(err, "lock the branch", s.folder)
	}
	err = t.say("start\nupdate "+ref+" "+new+" "+old+"\nprepare\n", "start: ok", "prepare: ok")
	if err == nil {
		return t, nil
	}
	t.abort()
	kind := ErrGit
	if now, _ := s.run(context.WithoutCancel(ctx), "rev-parse", "--verify", "--quiet", ref); now != "" && now != old {
		kind = ErrMoved
	}
	return nil, fail(kind, "lock the branch", s.folder, strings.TrimSpace(t.errText.String()))
}

// say writes commands and reads the answers.
func (t *transaction) say(commands string, answers ...string) error {
	if _, err := io.WriteString(t.in, commands); err != nil {
		return err
	}
	for _, want := range answers {
		line, err := t.out.ReadString('\n')
		if err != nil {
			return err
		}
		if strings.TrimSpace(line) != want {
			return errors.New("git answers " + strings.TrimSpace(line))
		}
	}
	return nil
}

// commit moves the branch.
func (t *transaction) commit() error {
	t.pause("move the branch")
	err := t.say("commit\n", "commit: ok")
	t.pause("moved the branch")
	t.abort()
	if err != nil {
		return fail(ErrGit, "move the branch", t.folder, strings.TrimSpace(t.errText.String()))
	}
	return nil
}

// abort ends git, which removes the lock. After commit it does nothing.
func (t *transaction) abort() {
	if t.ended {
		return
	}
	t.ended = true
	t.in.Close()
	io.Copy(io.Discard, t.out)
	t.cmd.Wait() // its failure is known from the answers
	os.RemoveAll(t.stand)
}

// lockOfBranch returns the path of the file with which git locks a branch.
func (s source) lockOfBranch(branch string) string {
	return filepath.Join(s.common, "refs", "heads", filepath.FromSlash(branch)+".lock")
}
