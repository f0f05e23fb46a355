// Package roots keeps the folders that the hub may read to check the claims of
// handoffs. A root is the operator's choice: it is stored, journaled and effective
// at once. A folder that holds the user's home or the hub's home is never a root, nor
// is a folder that a link leads to, because the target of a link can change after the
// operator agreed.
//
// A root at the top of a repository stands for its linked working trees, too, wherever they
// lie: git's own files name them, and they name the repository back.
package roots

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
)

const (
	maxPath  = 4096 // bytes of a path
	maxRoots = 1000
)

// worktrees is the folder in the hub's home in which runs work. It is the one part
// of the home that can be a root: the rest holds keys.
const worktrees = "worktrees"

// Options changes how a Service works. The zero value works.
type Options struct {
	Clock hub.Clock // default time.Now
	Bus   hub.Bus   // gets a hint after every change; may be nil

	// Secrets are folders with secrets of the user: a linked working tree there is not read.
	Secrets []string
}

// A Service keeps roots in a store. It is safe for concurrent use.
type Service struct {
	store hub.Store
	home  string // the hub's, without links
	clock hub.Clock
	bus   hub.Bus

	secrets []string
}

// New returns a Service of the hub in home. opts may be nil.
func New(store hub.Store, home string, opts *Options) (*Service, error) {
	home, err := filepath.Abs(home)
	if err == nil {
		home, err = filepath.EvalSymlinks(home)
	}
	if err != nil {
		return nil, fmt.Errorf("roots: find the hub's home: %w", err)
	}
	s := &Service{store: store, home: home, clock: time.Now}
	if opts != nil {
		if opts.Clock != nil {
			s.clock = opts.Clock
		}
		s.bus = opts.Bus
		s.secrets = opts.Secrets
	}
	return s, nil
}

// Add makes a folder a root. Only the operator may. A path that is a root already
// stays as it is. It reports CodeInvalid for a path that is not an absolute path of a
// folder, and CodePolicy for a folder that must not be a root.
func (s *Service) Add(ctx context.Context, actor hub.Caller, path string) (hub.Root, error) {
	const op = "roots.Add"
	if err := actor.OperatorOnly(op); err != nil {
		return hub.Root{}, err
	}
	if !filepath.IsAbs(path) || len(path) > maxPath || strings.ContainsRune(path, 0) {
		return hub.Root{}, hub.Errorf(hub.CodeInvalid, op, "%.200q is not an absolute path", path)
	}
	path = filepath.Clean(path)
	if err := s.check(op, path); err != nil {
		return hub.Root{}, err
	}

	var root hub.Root
	err := s.update(ctx, func(tx hub.Tx) error {
		all, err := tx.Roots()
		if err != nil {
			return err
		}
		if i := slices.IndexFunc(all, func(r hub.Root) bool { return r.Path == path }); i >= 0 {
			root = all[i]
			return nil
		}
		if len(all) == maxRoots {
			return hub.Errorf(hub.CodeTooLarge, op, "the limit of %d roots is reached", maxRoots).WithHint("remove one, or add a folder that contains several; {root.list} lists the roots")
		}

		root = hub.Root{Path: path, AddedBy: actor.ID, AddedAt: s.clock.Now()}
		if err := tx.AddRoot(root); err != nil {
			return err
		}
		_, err = tx.Append(actor.Entry(root.AddedAt, actions.RootAdded, root.Path, nil))
		return err
	})
	if err != nil {
		return hub.Root{}, fmt.Errorf("roots: add %s: %w", path, err)
	}
	return root, nil
}

// check refuses a path that must not be a root.
func (s *Service) check(op, path string) error {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return hub.Errorf(hub.CodeInvalid, op, "a root must be an existing folder: %w", err)
	}
	if real != path {
		return hub.Errorf(hub.CodePolicy, op, "%s leads through a symbolic link, which can be changed later", path).
			WithHint("to add the folder it leads to, {root.add} %s", real)
	}
	if info, err := os.Stat(path); err != nil || !info.IsDir() {
		return hub.Errorf(hub.CodeInvalid, op, "%s is not a folder", path)
	}
	if user, err := os.UserHomeDir(); err == nil {
		if user, err = filepath.EvalSymlinks(user); err == nil && within(path, user) {
			return hub.Errorf(hub.CodePolicy, op, "%s contains your home folder and its private files", path).
				WithHint("add the project's folder")
		}
	}
	if Private(s.home, path) {
		return hub.Errorf(hub.CodePolicy, op, "%s contains files of the hub's home %s, where its keys are", path, s.home).
			WithHint("add the project's folder")
	}
	return nil
}

// Private reports whether a folder is the hub's home, holds it, or lies in it outside of
// its worktrees, so that the hub's keys are within reach of a program that reads there.
// Both paths are clean, absolute and without links.
func Private(home, dir string) bool {
	return within(dir, home) || (within(home, dir) && !within(filepath.Join(home, worktrees), dir))
}

// within reports whether path is dir or lies in it. Both are clean and absolute.
func within(dir, path string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}

// Remove makes a folder a root no more and returns the root that it was. Only the
// operator may. It reports CodeNotFound for a path that is no root.
func (s *Service) Remove(ctx context.Context, actor hub.Caller, path string) (hub.Root, error) {
	const op = "roots.Remove"
	if err := actor.OperatorOnly(op); err != nil {
		return hub.Root{}, err
	}
	var root hub.Root
	path = filepath.Clean(path)
	err := s.update(ctx, func(tx hub.Tx) error {
		all, err := tx.Roots()
		if err != nil {
			return err
		}
		i := slices.IndexFunc(all, func(r hub.Root) bool { return r.Path == path })
		if i < 0 {
			return hub.Errorf(hub.CodeNotFound, op, "%.200q is not a root", path).WithHint("{root.list} shows the roots")
		}
		root = all[i]
		if err := tx.RemoveRoot(path); err != nil {
			return err
		}
		_, err = tx.Append(actor.Entry(s.clock.Now(), actions.RootRemoved, path, nil))
		return err
	})
	if err != nil {
		return hub.Root{}, fmt.Errorf("roots: remove %s: %w", path, err)
	}
	return root, nil
}

// update runs a transaction and publishes a hint.
func (s *Service) update(ctx context.Context, change func(hub.Tx) error) error {
	if err := s.store.Update(ctx, hub.SurvivesPowerLoss, change); err != nil {
		return err
	}
	if s.bus != nil {
		s.bus.Publish(hub.TopicJournal)
	}
	return nil
}

// List returns the roots by path.
func (s *Service) List(ctx context.Context) (all []hub.Root, err error) {
	err = s.store.View(ctx, func(r hub.Reader) (err error) {
		all, err = r.Roots()
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("roots: list: %w", err)
	}
	return all, nil
}

// Paths returns the paths of the roots, and of the linked working trees that belong to a
// repository at the top of a root.
func (s *Service) Paths(ctx context.Context) ([]string, error) {
	all, err := s.List(ctx)
	paths := make([]string, len(all))
	for i, r := range all {
		paths[i] = r.Path
	}
	for _, r := range all {
		for _, tree := range linkedTrees(r.Path) {
			isSecret := slices.ContainsFunc(s.secrets, func(folder string) bool { return overlaps(folder, tree) })
			if !isSecret && s.check("roots.Paths", tree) == nil && !slices.Contains(paths, tree) {
				paths = append(paths, tree)
			}
		}
	}
	return paths, err
}
