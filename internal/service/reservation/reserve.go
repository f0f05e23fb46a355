package reservation

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/parley-agents/parley/hub"
)

// A Request reserves patterns before the work.
type Request struct {
	Tree     string        `json:"tree"`
	Patterns []string      `json:"patterns"` // pathspecs of git, relative to the tree
	For      time.Duration `json:"-"`        // default and most 24 hours
	Why      string        `json:"why,omitempty"`
	Shared   bool          `json:"shared,omitempty"`
	Task     hub.TaskID    `json:"task,omitempty"`
	Handoff  hub.HandoffID `json:"handoff,omitempty"`
	Session  string        `json:"session,omitempty"`
}

// A Grant is the answer to a Request.
type Grant struct {
	Reservations []Reserved `json:"reservations"`
	Overlaps     []Overlap  `json:"overlaps"`
}

// A Reserved is one pattern of a Grant.
type Reserved struct {
	ID      hub.ReservationID `json:"id"`
	Pattern string            `json:"pattern"`
	Fence   int64             `json:"fence"`
	Until   hub.Time          `json:"until,omitzero"`
}

// An Overlap is a pattern of another agent that may match the same files. It is a warning: the
// edit decides.
type Overlap struct {
	Pattern string      `json:"pattern"`
	Holder  hub.AgentID `json:"holder"`
	Other   string      `json:"pattern_of_holder"`
}

// Reserve reserves patterns for the caller.
func (s *Service) Reserve(ctx context.Context, actor hub.Caller, r Request) (Grant, error) {
	const op = "reservation.Reserve"
	if r.For == 0 {
		r.For = longest
	}
	switch {
	case len(r.Patterns) == 0 || len(r.Patterns) > maxPatterns:
		return Grant{}, hub.Errorf(hub.CodeInvalid, op, "1 to %d patterns are required, got %d", maxPatterns, len(r.Patterns))
	case r.For < time.Minute || r.For > longest:
		return Grant{}, hub.Errorf(hub.CodeInvalid, op, "for must be between 1m and %s, got %s", longest, r.For)
	case len(r.Why) > maxWhy:
		return Grant{}, hub.Errorf(hub.CodeTooLarge, op, "why must be at most %d bytes", maxWhy)
	}
	tree, err := s.trees.Tree(ctx, r.Tree)
	if err != nil {
		return Grant{}, fmt.Errorf("reservation: find the working tree: %w", err)
	}
	for _, p := range r.Patterns {
		if err := s.checkPattern(ctx, op, tree, p); err != nil {
			return Grant{}, err
		}
	}

	out := Grant{Reservations: []Reserved{}, Overlaps: []Overlap{}}
	var b *board
	err = s.store.Update(ctx, hub.SurvivesKill, func(tx hub.Tx) error {
		out = Grant{Reservations: []Reserved{}, Overlaps: []Overlap{}}
		var err error
		if b, err = s.load(tx, actor, tree); err != nil {
			return err
		}
		if err := b.settle(facts{}); err != nil { // patterns whose end has come are not renewed
			return err
		}
		for _, p := range r.Patterns {
			if err := b.reserve(&out, r, p); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return Grant{}, err
	}
	b.announce()
	return out, nil
}

// checkPattern refuses a pattern that leaves the tree, or matches all of it or too many files.
func (s *Service) checkPattern(ctx context.Context, op string, tree hub.WorkingTree, pattern string) error {
	if pattern == "" || len(pattern) > maxPath || !isLocalPattern(pattern) {
		return hub.Errorf(hub.CodeInvalid, op, "%.100q is not a pattern of files in the working tree", pattern).
			WithHint("use a path or a git pathspec relative to the tree, such as src/*.go")
	}
	if covers(hub.Reservation{Pattern: true, Path: pattern}, "any-file-of-the-tree.txt") && covers(hub.Reservation{Pattern: true, Path: pattern}, "any/other.bin") {
		return hub.Errorf(hub.CodeInvalid, op, "the pattern %s matches the whole working tree", pattern).WithHint("name the folders that you change")
	}
	n, err := s.trees.Count(ctx, tree, pattern, maxPaths+1)
	if err != nil {
		return fmt.Errorf("reservation: count the files of %s: %w", pattern, err)
	}
	if n > maxPaths {
		return hub.Errorf(hub.CodeTooLarge, op, "the pattern %s matches more than %d files", pattern, maxPaths).WithHint("name the folders that you change")
	}
	return nil
}

// reserve adds one pattern. A pattern that the caller holds already is renewed.
func (b *board) reserve(out *Grant, r Request, pattern string) error {
	until := b.now.Add(r.For)
	for i, v := range b.all {
		isOwn := v.Holder == b.actor.ID && v.Pattern && v.Path == pattern && v.State == hub.ReservationHeld
		if isOwn {
			v.Until, v.Active = until, b.now
			v.Session = r.Session
			v.Shared, v.Why = r.Shared, r.Why
			if err := b.move(i, v, ending{next: v.State}); err != nil {
				return err
			}
			out.Reservations = append(out.Reservations, Reserved{v.ID, pattern, v.Fence, until})
			return nil
		}
	}
	for _, v := range b.all {
		mayMeet := covers(v, pattern) || covers(hub.Reservation{Pattern: true, Path: pattern}, v.Path)
		if mayMeet && binds(v, b.actor.ID, r.Shared) {
			out.Overlaps = append(out.Overlaps, Overlap{pattern, v.Holder, v.Path})
		}
	}

	err := b.add(hub.Reservation{
		Path: pattern, Pattern: true, Session: r.Session, Shared: r.Shared, Task: r.Task, Handoff: r.Handoff, Why: r.Why, Until: until,
	})
	if err != nil {
		return err
	}
	last := b.all[len(b.all)-1]
	out.Reservations = append(out.Reservations, Reserved{last.ID, pattern, last.Fence, until})
	return nil
}

// A Release names reservations by their files or by an id.
type Release struct {
	Tree  string            `json:"tree"`
	Paths []string          `json:"paths,omitempty"` // empty for all of the caller in the tree
	ID    hub.ReservationID `json:"id,omitempty"`
}

// Released counts the reservations that a Release ended.
type Released struct {
	Released int `json:"released"`
}

// Release ends reservations of the caller; the operator ends those of any agent, which is told.
func (s *Service) Release(ctx context.Context, actor hub.Caller, r Release) (Released, error) {
	const op = "reservation.Release"
	tree, err := s.trees.Tree(ctx, r.Tree)
	if err != nil {
		return Released{}, fmt.Errorf("reservation: find the working tree: %w", err)
	}
	names, err := s.trees.Names(ctx, tree, absolute(r.Tree, r.Paths))
	if err != nil {
		return Released{}, fmt.Errorf("reservation: find the files: %w", err)
	}

	var out Released
	var b *board
	err = s.store.Update(ctx, hub.SurvivesKill, func(tx hub.Tx) error {
		out = Released{}
		var err error
		if b, err = s.load(tx, actor, tree); err != nil {
			return err
		}
		if out.Released, err = b.release(op, names, r); err != nil {
			return err
		}
		b.all = slices.DeleteFunc(b.all, func(v hub.Reservation) bool { return v.State == hub.ReservationOver })
		return b.tellWaiting()
	})
	if err != nil {
		return Released{}, err
	}
	b.announce()
	return out, nil
}

// release ends the named reservations. It reports CodeDenied for one of another agent.
func (b *board) release(op string, names []string, r Release) (n int, err error) {
	for i, v := range b.all {
		isNamed := v.ID == r.ID || slices.Contains(names, v.Path) || slices.Contains(r.Paths, v.Path)
		isAll := r.ID == "" && len(r.Paths) == 0 && v.Holder == b.actor.ID
		if !isNamed && !isAll {
			continue
		}
		why := whyRelease
		if v.Holder != b.actor.ID {
			if !b.actor.IsOperator() {
				return n, hub.Errorf(hub.CodeDenied, op, "%s is reserved by %s, not by you", v.Path, v.Holder).WithHint("ask %s to release it", v.Holder)
			}
			why = whyOperator
			if err := b.notify(v.Holder, hub.PriorityNormal, "the operator released "+v.Path, "ask again before you change it", v.Path); err != nil {
				return n, err
			}
		}
		if err := b.move(i, v, ending{hub.ReservationOver, why}); err != nil {
			return n, err
		}
		n++
	}
	if n == 0 && (r.ID != "" || len(r.Paths) > 0) {
		return 0, hub.Errorf(hub.CodeNotFound, op, "no such reservation in %s", b.tree.Path).WithHint("{reservations} lists them")
	}
	return n, nil
}

// Done ends the reservations of a task or handoff that is over, inside the transaction of the
// service that ends it. After the commit the caller announces the messages.
func (s *Service) Done(tx hub.Tx, actor hub.Caller, task hub.TaskID, handoff hub.HandoffID) ([]hub.Message, error) {
	all, err := tx.Reservations().OfAgent("")
	if err != nil {
		return nil, err
	}
	var posted []hub.Message
	done := map[string]bool{}
	for _, v := range all {
		isFor := (task != "" && v.Task == task) || (handoff != "" && v.Handoff == handoff)
		if !isFor || done[v.Tree.Path] {
			continue
		}
		done[v.Tree.Path] = true
		b, err := s.load(tx, actor, v.Tree)
		if err != nil {
			return nil, err
		}
		for i, r := range b.all {
			if (task != "" && r.Task == task) || (handoff != "" && r.Handoff == handoff) {
				if err := b.move(i, r, ending{hub.ReservationOver, whyDone}); err != nil {
					return nil, err
				}
			}
		}
		b.all = slices.DeleteFunc(b.all, func(v hub.Reservation) bool { return v.State == hub.ReservationOver })
		if err := b.tellWaiting(); err != nil {
			return nil, err
		}
		posted = append(posted, b.posted...)
	}
	return posted, nil
}

// A Filter chooses reservations of a list.
type Filter struct {
	Tree  string               `json:"tree,omitempty"`
	Agent hub.AgentID          `json:"agent,omitempty"`
	State hub.ReservationState `json:"state,omitempty"`
}

// A Row is a reservation in a list.
type Row struct {
	hub.Reservation
	Waiting []hub.AgentID `json:"waiting"`
}

// A Listing is a list of reservations.
type Listing struct {
	Reservations []Row       `json:"reservations"`
	Overlaps     []TreeClash `json:"overlaps"`
}

// A TreeClash is a path that two agents change in two working trees of one repository.
type TreeClash struct {
	Repository string        `json:"repository"`
	Path       string        `json:"path"`
	Agents     []hub.AgentID `json:"agents"`
	Trees      []string      `json:"trees"`
}

// List returns reservations by working tree and path, with the agents that wait for them.
func (s *Service) List(ctx context.Context, f Filter) (Listing, error) {
	const op = "reservation.List"
	if f.State != "" && f.State != hub.ReservationHeld && f.State != hub.ReservationOrphan {
		return Listing{}, hub.Errorf(hub.CodeInvalid, op, "unknown state %q: use held or orphan", f.State)
	}
	if f.Tree != "" {
		tree, err := s.trees.Tree(ctx, f.Tree)
		if err != nil {
			return Listing{}, fmt.Errorf("reservation: find the working tree: %w", err)
		}
		f.Tree = tree.Path
	}
	return hub.Read(ctx, s.store, func(r hub.Reader) (Listing, error) { return list(r, f) })
}

func list(r hub.Reader, f Filter) (Listing, error) {
	out := Listing{Reservations: []Row{}, Overlaps: []TreeClash{}}
	all, err := r.Reservations().OfAgent("")
	if err != nil {
		return out, err
	}
	waits, err := r.Reservations().Waits("")
	if err != nil {
		return out, err
	}
	for _, v := range all {
		isChosen := (f.Tree == "" || v.Tree.Path == f.Tree) && (f.Agent == "" || v.Holder == f.Agent) && (f.State == "" || v.State == f.State)
		if !isChosen || len(out.Reservations) == maxListed {
			continue
		}
		row := Row{Reservation: v, Waiting: []hub.AgentID{}}
		for _, w := range waits {
			if w.Tree == v.Tree.Path && covers(v, w.Path) {
				row.Waiting = append(row.Waiting, w.Agent)
			}
		}
		out.Reservations = append(out.Reservations, row)
	}
	out.Overlaps = clashes(all)
	return out, nil
}

// clashes returns the paths that agents change in several working trees of one repository.
func clashes(all []hub.Reservation) []TreeClash {
	out := []TreeClash{}
	for i, a := range all {
		for _, b := range all[i+1:] {
			isClash := a.Tree.Repository != "" && a.Tree.Repository == b.Tree.Repository && a.Tree.Path != b.Tree.Path && !a.Pattern && !b.Pattern && a.Path == b.Path && a.Holder != b.Holder
			if isClash {
				out = append(out, TreeClash{a.Tree.Repository, a.Path, []hub.AgentID{a.Holder, b.Holder}, []string{a.Tree.Path, b.Tree.Path}})
			}
		}
	}
	return out
}

// isLocalPattern reports whether a pathspec stays below the top of its tree.
func isLocalPattern(pattern string) bool {
	if pattern[0] == '/' || pattern[0] == ':' {
		return false
	}
	depth := 0
	for _, part := range strings.Split(pattern, "/") {
		switch part {
		case "..":
			depth--
		case "", ".":
		default:
			depth++
		}
		if depth < 0 {
			return false
		}
	}
	return true
}
