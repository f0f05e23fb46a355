package clone

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// A Recovered is the outcome of a step that a killed process had begun. At most one of
// Landed, Waits and At is set; none of them means that the step was undone.
type Recovered struct {
	Repository string   `json:"repository"` // as Copy.Repository returns it
	Branch     string   `json:"branch,omitempty"`
	Old        string   `json:"old,omitempty"`
	New        string   `json:"new"`
	Landed     bool     `json:"landed"`            // the branch is at New, and the trees with it
	Waits      []Waits  `json:"waits,omitempty"`   // the trees are in their old state, but for the changes of persons
	At         string   `json:"at,omitempty"`      // the commit to which somebody else has moved the branch
	Kept       []string `json:"kept,omitempty"`    // as in Forwarded
	Failure    string   `json:"failure,omitempty"` // why the step could not be finished; the record stays
}

// Recover finishes the steps that a killed process had begun: files that are as before or
// after the landing are brought to the landing, and the branch with them. Any other content
// stops that: then the files of the step are as before, and a Waits names the others. Locks
// and folders of the step are removed. It is called before anything else is landed.
func (c *Copies) Recover(ctx context.Context) (out []Recovered, err error) {
	defer typed(&err, "recover", c.folder)
	records, err := os.ReadDir(filepath.Join(c.folder, stepFolder))
	if err != nil {
		return nil, err
	}
	for _, record := range records {
		path := filepath.Join(c.folder, stepFolder, record.Name())
		if !strings.HasSuffix(path, ".json") {
			if err := os.Remove(path); err != nil { // a draft of a record: nothing had begun
				return out, err
			}
			continue
		}

		raw, err := os.ReadFile(path)
		if err != nil {
			return out, err
		}
		s := &step{home: c}
		if err := json.Unmarshal(raw, s); err != nil {
			return out, err
		}
		r := Recovered{Repository: s.Common, Branch: s.Branch, Old: s.Old, New: s.New}
		if err := s.recover(ctx, &r); err != nil {
			if ctx.Err() != nil {
				return out, err
			}
			r.Failure = err.Error()
		}
		r.Kept = append(r.Kept, s.kept...)
		out = append(out, r)
	}
	return out, nil
}

// recover finishes or undoes one step.
func (s *step) recover(ctx context.Context, r *Recovered) error {
	source, err := locate(ctx, s.Common)
	if errors.Is(err, ErrNoRepository) {
		return s.forget() // the repository is gone, and its trees with it
	}
	if err != nil {
		return err
	}
	c := &Copy{home: s.home, bare: s.Copy, source: source}
	unlock, err := c.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if s.changes, err = c.changes(ctx, s.Old, s.New); err != nil {
		return err
	}
	s.Trees = present(s.Trees)
	if err := s.open(ctx, c); err != nil {
		return err
	}
	defer s.close()
	for _, w := range s.works {
		w.files.raw = s.Branch == ""
	}

	now := ""
	if s.Branch != "" {
		now = source.branch(ctx, s.Branch)
	}
	switch {
	case s.Branch == "" || now == s.Old:
		return s.again(ctx, c, r)
	case now == s.New:
		r.Landed = true
	default:
		r.At = now
	}
	for _, w := range s.works {
		if r.At != "" {
			w.restoreMissing()
		}
		if err := w.releaseAll(ctx); err != nil {
			return err
		}
	}
	return s.forget()
}

// present returns the trees whose folders are there.
func present(trees []tree) (out []tree) {
	for _, t := range trees {
		_, err := os.Stat(t.Folder)
		if _, err2 := os.Stat(t.GitDir); err == nil && err2 == nil {
			out = append(out, t)
		}
	}
	return out
}

// again brings the trees to their old state, and then does the step from its beginning.
func (s *step) again(ctx context.Context, c *Copy, r *Recovered) error {
	if err := s.giveUp(ctx); err != nil {
		return err
	}
	if s.Branch == "" {
		return s.forget()
	}

	// Git removes its lock when the process that asked for it ends, but not when the machine
	// does.
	lock := c.source.lockOfBranch(s.Branch)
	out, err := c.forward(ctx, s.ID, s.Branch, s.Old, s.New)
	if errors.Is(err, ErrGit) && s.leftLock(ctx, lock) {
		if err := os.Remove(lock); err != nil {
			return err
		}
		out, err = c.forward(ctx, s.ID, s.Branch, s.Old, s.New)
	}
	if err != nil {
		return err
	}
	r.Landed = out.Moved
	r.Waits = out.Waits
	r.Kept = out.Kept
	return s.forget()
}

// emptyLockTime is the time after which a lock without content belongs to no process: git writes
// the new commit into it as soon as it is made.
const emptyLockTime = 2 * time.Second

// leftLock reports whether the step left the lock of a branch behind. The commit in it says so; if
// git was killed before it wrote that, the lock stays empty.
func (s *step) leftLock(ctx context.Context, lock string) bool {
	before, err := os.Stat(lock)
	if err != nil {
		return false
	}
	if text := strings.TrimSpace(readText(lock)); text != "" {
		return text == s.New
	}
	select {
	case <-time.After(emptyLockTime):
	case <-ctx.Done():
		return false
	}
	after, err := os.Stat(lock)
	return err == nil && os.SameFile(before, after) && after.Size() == 0
}

// restoreMissing returns the files that the step set aside to paths at which there is
// nothing. It is for a tree whose branch somebody has moved: all else is theirs.
func (w *work) restoreMissing() {
	for i, ch := range w.step.changes {
		aside := w.at(oldFiles) + "/" + number(i)
		if _, err := w.files.root.Lstat(aside); err == nil {
			w.files.place(aside, ch.Path) // fails if there is a file
		}
	}
}
