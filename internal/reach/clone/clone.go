// Package clone keeps the hub's own copies of the repositories of users, and brings merged
// work from a copy into the user's repository.
//
// A copy is a bare repository in the hub's home, one for each repository of a user. Commits
// are tried there: nothing that runs on them can reach the user's refs, configuration or
// hooks, and no garbage collection of the user loses them.
//
// The walk of a change:
//
//   - [Copies.Of] finds the repository around a folder, and opens or makes its copy.
//   - [Copy.Fetch] resolves a revision in the user's repository and packs its objects into
//     the copy. Git runs with the configuration of the copy while it reads them.
//   - [Copy.Keep] protects a commit in the copy by a ref; [Copy.Drop] removes the ref.
//   - [Copy.Checkout] writes the files of a commit into a folder; [Copy.Remove] removes it.
//   - [Copy.Difference] and [Copy.History] say what the change is, and whose commits it has.
//   - [Copy.Merge] and [Copy.Revert] make the commit that will land, without a working tree.
//   - [Copy.Forward] moves the user's branch to it, together with the working trees in which
//     the branch is checked out, or says what it waits for. After a kill [Copies.Recover]
//     finishes the move or undoes it.
//
// [Copy.Snapshot] keeps the uncommitted work of a working tree in the copy, and [Copy.Apply]
// brings it into another one.
//
// A repository of a user is a folder that others may have written. Its hooks, filters, file
// monitors and helpers are never run, and a repository that leads git to another folder,
// by a link or by borrowed objects, is refused with [ErrUnsafe].
package clone

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/parley-agents/parley/internal/ground/durable"
	"github.com/parley-agents/parley/internal/ground/git"
)

// Copies is the folder of copies in the hub's home. One process uses it at a time.
type Copies struct {
	folder string
	pause  func(before string) // called before each write to a repository of a user; for tests

	diffs chan struct{} // has room for the comparisons of lines that run at a time

	work  context.Context // of fetches, which can outlive their callers; Close ends it
	stop  context.CancelFunc
	tasks sync.WaitGroup // the fetches

	mu    sync.Mutex
	locks map[string]chan struct{} // by purpose and folder of a copy, each with room for one holder; see Copy.lockOf
}

// A Copy is the hub's bare repository for one repository of a user, seen from one folder of
// the latter. Several copies of one repository share their content.
type Copy struct {
	home   *Copies
	bare   string // the folder of the bare repository
	source source // the user's repository
}

// A Commit names a commit and the tree of its files.
type Commit struct {
	ID   string `json:"id"`
	Tree string `json:"tree"`
}

const (
	copySuffix = ".git"        // ends the name of a copy's folder
	originFile = "parley.json" // in the folder of a copy; see origin
	stepFolder = "steps"       // holds the records of steps in repositories of users
	draftName  = "draft-"      // begins the name of a copy that is being made
)

// An origin says in the folder of a copy which repository it copies.
type origin struct {
	Folder string `json:"folder"` // the user's folder for which the copy was made
	Common string `json:"common"` // the folder that the linked working trees share
}

// Open opens the folder of copies, and makes it if there is none. It removes the working
// trees, locks and drafts that a killed process left in the copies.
func Open(folder string) (_ *Copies, err error) {
	defer typed(&err, "open the copies", folder)
	folder, err = filepath.Abs(folder)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Join(folder, stepFolder), 0o700); err != nil {
		return nil, err
	}

	c := &Copies{folder: folder, pause: func(string) {}, diffs: make(chan struct{}, maxDiffs), locks: map[string]chan struct{}{}}
	c.work, c.stop = context.WithCancel(context.Background())
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		path := filepath.Join(folder, e.Name())
		switch {
		case strings.HasPrefix(e.Name(), draftName) || strings.HasPrefix(e.Name(), git.ScratchName):
			err = removeAll(path)
		case strings.HasSuffix(e.Name(), copySuffix) && e.IsDir():
			err = sweep(path)
		}
		if err != nil {
			return nil, err
		}
	}
	return c, nil
}

// Of returns the copy for the repository that contains a folder. Revisions such as HEAD mean
// those of the folder. The error is [ErrNoRepository] if there is no repository, and
// [ErrUnsafe] if it leads to another folder.
func (c *Copies) Of(ctx context.Context, folder string) (_ *Copy, err error) {
	defer typed(&err, "open the copy", folder)
	s, err := locate(ctx, folder)
	if err != nil {
		return nil, err
	}
	key := sha256.Sum256([]byte(s.format + "\x00" + s.common))
	out := &Copy{home: c, bare: filepath.Join(c.folder, hex.EncodeToString(key[:16])+copySuffix), source: s}
	unlock, err := out.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()

	if _, err := os.Stat(out.bare); !errors.Is(err, fs.ErrNotExist) {
		return out, err
	}
	return out, out.create(ctx)
}

// At returns the copy in a folder that [Copy.Folder] returned, for the folder of the user
// for which it was made.
func (c *Copies) At(ctx context.Context, bare string) (*Copy, error) {
	raw, err := os.ReadFile(filepath.Join(bare, originFile))
	if err != nil {
		return nil, fail(ErrNoRepository, "open the copy", bare, err.Error())
	}
	var o origin
	if err := json.Unmarshal(raw, &o); err != nil {
		return nil, fail(ErrNoRepository, "open the copy", bare, err.Error())
	}
	format := formatSHA1
	if strings.Contains(readText(filepath.Join(bare, "config")), formatSHA256) {
		format = formatSHA256
	}
	return &Copy{home: c, bare: filepath.Clean(bare), source: source{folder: o.Folder, common: o.Common, format: format}}, nil
}

// Folder returns the folder of the bare repository.
func (c *Copy) Folder() string { return c.bare }

// Repository returns the real path of the folder that all working trees of the user's
// repository share, such as /home/u/app/.git.
func (c *Copy) Repository() string { return c.source.common }

// create makes the bare repository. It appears whole or not at all.
func (c *Copy) create(ctx context.Context) error {
	draft, err := os.MkdirTemp(c.home.folder, draftName)
	if err != nil {
		return err
	}
	defer os.RemoveAll(draft)
	at := &Copy{home: c.home, bare: draft}
	if _, err := at.run(ctx, "init", "--quiet", "--bare", "--template=", "--object-format="+c.source.format, "--initial-branch=none", draft); err != nil {
		return err
	}
	raw, err := json.Marshal(origin{Folder: c.source.folder, Common: c.source.common})
	if err != nil {
		return err
	}
	if err := durable.WriteFile(filepath.Join(draft, originFile), raw, 0o600); err != nil {
		return err
	}
	return durable.Rename(draft, c.bare)
}

// Close ends the fetches that outlived their callers, and returns when their processes have ended.
func (c *Copies) Close() error {
	c.stop()
	c.tasks.Wait()
	return nil
}

// lock waits until no other call fetches into the copy or moves a branch, and returns the
// function that lets the next one in. The error is [ErrBusy] if ctx ends before that.
func (c *Copy) lock(ctx context.Context) (unlock func(), err error) { return c.lockOf(ctx, "fetch") }

// lockOf is lock for one purpose.
func (c *Copy) lockOf(ctx context.Context, purpose string) (unlock func(), err error) {
	key := purpose + " " + c.bare
	c.home.mu.Lock()
	one := c.home.locks[key]
	if one == nil {
		one = make(chan struct{}, 1)
		c.home.locks[key] = one
	}
	c.home.mu.Unlock()

	select {
	case one <- struct{}{}:
		return func() { <-one }, nil
	case <-ctx.Done():
		return nil, c.busy(ctx)
	}
}

// busy returns the error of a call that ended before the work on the copy did.
func (c *Copy) busy(ctx context.Context) error {
	return &Error{Op: "open the copy", Folder: c.source.folder, Kind: ErrBusy, Detail: "other work on it goes on", Cause: ctx.Err()}
}

// sweep removes the working trees of a copy, its lock files and its unfinished packs. Only
// a process that has ended can have left them.
func sweep(bare string) error {
	trees, _ := filepath.Glob(filepath.Join(bare, "worktrees", "*")) // the pattern is valid
	for _, tree := range trees {
		file := strings.TrimSpace(readText(filepath.Join(tree, "gitdir")))
		back, ok := strings.CutPrefix(strings.TrimSpace(readText(file)), "gitdir: ")
		if ok && filepath.Clean(filepath.FromSlash(back)) == tree {
			if err := removeAll(filepath.Dir(file)); err != nil {
				return err
			}
		}
		if err := os.RemoveAll(tree); err != nil {
			return err
		}
	}

	return filepath.WalkDir(bare, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() && filepath.Base(filepath.Dir(path)) == "objects" && name != "pack" {
			return filepath.SkipDir // finished objects
		}
		unfinished := strings.HasPrefix(name, "tmp_") && strings.Contains(filepath.ToSlash(path), "/objects/")
		if !d.IsDir() && (strings.HasSuffix(name, ".lock") || unfinished) {
			return os.Remove(path)
		}
		return nil
	})
}

// readText returns the beginning of a small file, "" if it cannot be read.
func readText(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	raw := make([]byte, 1<<16)
	n, _ := f.Read(raw)
	return string(raw[:n])
}

// removeAll removes a folder, also one with folders that its owner may not write to.
func removeAll(path string) error {
	err := os.RemoveAll(path)
	if err == nil {
		return nil
	}
	filepath.WalkDir(path, func(name string, d fs.DirEntry, _ error) error {
		if d != nil && d.IsDir() {
			os.Chmod(name, 0o700) // if it fails, the second removal says why
		}
		return nil
	})
	if err := os.RemoveAll(path); err != nil {
		return fmt.Errorf("clone: remove %s: %w", path, err)
	}
	return nil
}
