package reservation

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/ground/effects"
)

// An Act is a command or an edit of an agent in a working tree.
type Act struct {
	Agent   hub.AgentID
	Session string
	Tree    string // its top
	Text    string // of the command, or the paths of the edit; empty for a whole turn
	Edits   bool   // it is an edit of a tool, not a command
}

// A Keeper keeps the uncommitted work of working trees.
type Keeper interface {
	// Before keeps a tree before an act. names are the files of the act, for a folder without git.
	// It returns the reason to refuse an act that is known to destroy, while the keeping goes on.
	Before(ctx context.Context, t hub.WorkingTree, act Act, names []string, destroys bool) (refusal string)
	// Denied tells that an act in a tree was refused, and does not run.
	Denied(act Act)
	// After compares a tree with its state before the act. It returns the command line that brings
	// back what the act destroyed of others, empty for nothing.
	// The agents that hold files, held, and the operator hear of these from the guard.
	After(ctx context.Context, t hub.WorkingTree, act Act, names, held []string) (line string)
	// Trees returns the tops of the working trees of the repository of a tree, and of trees in which
	// agents were at work of late.
	Trees(ctx context.Context, t hub.WorkingTree) []string
	// MayUnstash reports whether an agent may remove the newest entry of the stash, or all of them.
	// pushed are the entries that the same command adds before that.
	MayUnstash(t hub.WorkingTree, agent hub.AgentID, all bool, pushed int) bool
}

// KeepWork makes a Keeper keep the trees before acts of agents. It is called before the first
// question.
func (s *Service) KeepWork(k Keeper) { s.keeper = k }

// A reached is a working tree that a command reaches.
type reached struct {
	tree hub.WorkingTree
	dirs []string // the folders in which its commands of git run
	line string   // the command line that brings back what the command destroyed; empty for nothing
}

// maxTrees bounds the working trees of one command.
const maxTrees = 32

// reach returns the working trees that a command reaches, and those of the same repository in which
// others hold files. own is first if it is known.
func (s *Service) reach(ctx context.Context, own hub.WorkingTree, does effects.Effects) ([]reached, error) {
	var out []reached
	add := func(t hub.WorkingTree, dir string) {
		i := slices.IndexFunc(out, func(r reached) bool { return r.tree.Path == t.Path })
		if i < 0 && len(out) < maxTrees {
			i = len(out)
			out = append(out, reached{tree: t})
		}
		if i >= 0 && dir != "" {
			out[i].dirs = append(out[i].dirs, dir)
		}
	}
	if own.Path != "" {
		add(own, "")
	}
	for _, g := range does.Git {
		if t, ok := s.treeAbove(ctx, g.Dir); ok {
			add(t, g.Dir)
		}
	}
	for _, at := range does.Reach {
		if t, ok := s.treeAbove(ctx, at); ok && (t.Repository != "" || t.Path == own.Path) {
			add(t, "")
		}
	}

	// A folder above trees reaches all of them.
	below, err := s.known(ctx, own)
	if err != nil {
		return nil, err
	}
	for _, t := range below {
		isNear := own.Repository != "" && t.Repository == own.Repository && t.held
		isBelow := slices.ContainsFunc(does.Reach, func(at string) bool {
			return strings.HasPrefix(t.Path+"/", strings.TrimSuffix(filepath.FromSlash(at), "/")+"/")
		})
		if isNear || isBelow {
			add(t.WorkingTree, "")
		}
	}
	return out, ctx.Err()
}

// treeAbove returns the working tree of a path that need not exist.
func (s *Service) treeAbove(ctx context.Context, at string) (hub.WorkingTree, bool) {
	for at = filepath.FromSlash(at); at != ""; at = filepath.Dir(at) {
		t, err := s.trees.Tree(ctx, at)
		isMissing := hub.CodeOf(err) == hub.CodeNotFound || hub.CodeOf(err) == hub.CodeInvalid
		if err == nil || !isMissing || at == filepath.Dir(at) {
			return t, err == nil
		}
	}
	return hub.WorkingTree{}, false
}

// A knownTree is a working tree of which the hub knows.
type knownTree struct {
	hub.WorkingTree
	held bool // an agent holds a file in it
}

// known returns the working trees in which agents hold files, and those that the keeper knows.
func (s *Service) known(ctx context.Context, own hub.WorkingTree) (out []knownTree, err error) {
	all, err := hub.Read(ctx, s.store, func(r hub.Reader) ([]hub.Reservation, error) { return r.Reservations().OfAgent("") })
	if err != nil {
		return nil, err
	}
	isKnown := func(path string) bool {
		return slices.ContainsFunc(out, func(k knownTree) bool { return k.Path == path })
	}
	for _, r := range all {
		isHere := r.Tree.Machine == s.machine && r.State == hub.ReservationHeld
		if isHere && !isKnown(r.Tree.Path) {
			out = append(out, knownTree{r.Tree, true})
		}
	}
	if s.keeper == nil {
		return out, nil
	}
	for _, top := range s.keeper.Trees(ctx, own) {
		if isKnown(top) {
			continue
		}
		if t, err := s.trees.Tree(ctx, top); err == nil && t.Path == top {
			out = append(out, knownTree{t, false})
		}
	}
	return out, nil
}

// keepBefore keeps the trees of an act, all at the same time. It returns the reason to refuse the act
// for now.
func (s *Service) keepBefore(ctx context.Context, trees []reached, act Act, names []string, destroys bool) string {
	refusals := make([]string, len(trees))
	var all sync.WaitGroup
	for i, one := range trees {
		act := act
		act.Tree = one.tree.Path
		all.Go(func() { refusals[i] = s.keeper.Before(ctx, one.tree, act, names, destroys) })
	}
	all.Wait()
	for _, text := range refusals {
		if text != "" {
			return text
		}
	}
	return ""
}

// heldByOthers returns the files of a tree that other agents hold.
func (s *Service) heldByOthers(ctx context.Context, t hub.WorkingTree, agent hub.AgentID) (out []string, err error) {
	all, err := hub.Read(ctx, s.store, func(r hub.Reader) ([]hub.Reservation, error) { return reservationsOf(r, t) })
	for _, r := range all {
		if r.State == hub.ReservationHeld && r.Holder != agent && !r.Pattern {
			out = append(out, r.Path)
		}
	}
	return out, err
}

// keepAfter compares the trees of an act with their states before it. It returns the lines that bring
// back what the act destroyed.
func (s *Service) keepAfter(ctx context.Context, trees []reached, act Act, names []string) (lines []string) {
	for _, one := range trees {
		act.Tree = one.tree.Path
		held, err := s.heldByOthers(ctx, one.tree, act.Agent)
		if err != nil {
			s.log.Warn("the files that agents hold are not known", "op", "reservation.Ask", "err", err)
		}
		lines = append(lines, s.keeper.After(ctx, one.tree, act, names, held))
	}
	return lines
}
