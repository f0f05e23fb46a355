package reservation

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strconv"
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
	Agent    hub.AgentID   `json:"agent,omitempty"` // the holder; the caller if empty. For the operator, and the coordinator of a team for its members
}

// A Grant is the answer to a Request.
type Grant struct {
	Reservations []Reserved `json:"reservations"`
	Overlaps     []Overlap  `json:"overlaps"`
}

// A Reserved is one pattern of a Grant.
type Reserved struct {
	ID      hub.ReservationID    `json:"id"`
	Pattern string               `json:"pattern"`
	Fence   int64                `json:"fence"`
	Until   hub.Time             `json:"until,omitzero"`
	State   hub.ReservationState `json:"state"`
	Behind  []hub.AgentID        `json:"behind,omitempty"` // of one that waits: the agent that has the same pattern, and those that come before the caller
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
	case len(r.Session) > maxSession:
		return Grant{}, hub.Errorf(hub.CodeTooLarge, op, "session must be at most %d bytes, got %d", maxSession, len(r.Session))
	case len(r.Why) > maxWhy:
		return Grant{}, hub.Errorf(hub.CodeTooLarge, op, "why must be at most %d bytes, got %d", maxWhy, len(r.Why))
	}
	if r.Agent == "" {
		r.Agent = actor.ID
	}
	tree, err := s.trees.Tree(ctx, r.Tree)
	if err != nil {
		return Grant{}, fmt.Errorf("reservation: find the working tree: %w", err)
	}
	if r.Patterns, err = s.fromTop(ctx, tree, r.Tree, r.Patterns); err != nil {
		return Grant{}, err
	}
	for _, p := range r.Patterns {
		if err := s.checkPattern(ctx, op, tree, p); err != nil {
			return Grant{}, err
		}
	}
	covered, met, err := s.compareNew(ctx, tree, actor.ID, r.Patterns)
	if err != nil {
		return Grant{}, err
	}

	out := Grant{Reservations: []Reserved{}, Overlaps: []Overlap{}}
	var b *board
	err = s.store.Update(ctx, hub.SurvivesKill, func(tx hub.Tx) error {
		out = Grant{Reservations: []Reserved{}, Overlaps: []Overlap{}}
		var err error
		if b, err = s.load(tx, actor, tree, covered); err != nil {
			return err
		}
		if err := b.mayActFor(op, r.Agent); err != nil {
			return err
		}
		if err := b.mayBeFor(op, r); err != nil {
			return err
		}
		if err := b.settle(facts{}); err != nil { // patterns whose end has come are not renewed
			return err
		}
		for _, p := range r.Patterns {
			if err := b.reserve(&out, r, p, met); err != nil {
				return err
			}
		}
		return covered.check(op)
	})
	if err != nil {
		return Grant{}, err
	}
	b.announce()
	return out, nil
}

// compareNew compares the patterns of a working tree with the files for which agents wait, and its
// reservations with new patterns.
func (s *Service) compareNew(ctx context.Context, tree hub.WorkingTree, agent hub.AgentID, patterns []string) (covered *coverage, met meeting, err error) {
	var all []hub.Reservation
	var names []string
	err = s.store.View(ctx, func(r hub.Reader) error {
		if all, err = reservationsOf(r, tree); err != nil {
			return err
		}
		names, err = namesOf(r, tree, agent)
		return err
	})
	if err != nil {
		return nil, meeting{}, err
	}
	if covered, err = s.prepare(ctx, all, names); err != nil {
		return nil, meeting{}, err
	}
	met, err = s.meet(ctx, all, patterns)
	return covered, met, err
}

// folderIn returns a folder of a tree without links.
func (s *Service) folderIn(ctx context.Context, tree hub.WorkingTree, folder string) (string, error) {
	if filepath.Clean(folder) == tree.Path {
		return tree.Path, nil
	}
	names, err := s.trees.Names(ctx, tree, []string{filepath.Join(folder, "any")})
	if err != nil {
		return "", fmt.Errorf("reservation: find the folder: %w", err)
	}
	return filepath.Join(tree.Path, filepath.FromSlash(path.Dir(names[0]))), nil
}

// fromTop returns patterns that begin in a folder of a tree as patterns that begin at its top.
func (s *Service) fromTop(ctx context.Context, tree hub.WorkingTree, folder string, patterns []string) ([]string, error) {
	folder, err := s.folderIn(ctx, tree, folder)
	if err != nil || folder == tree.Path {
		return patterns, err
	}
	prefix, err := filepath.Rel(tree.Path, folder)
	if err != nil {
		return nil, fmt.Errorf("reservation: find the folder: %w", err)
	}
	out := make([]string, len(patterns))
	for i, p := range patterns {
		out[i] = filepath.ToSlash(prefix) + "/" + p
		if p == "" || p[0] == '/' || p[0] == ':' { // refused later as it is
			out[i] = p
		}
	}
	return out, nil
}

// checkPattern refuses a pattern that leaves the tree, or matches all of it or too many files.
func (s *Service) checkPattern(ctx context.Context, op string, tree hub.WorkingTree, pattern string) error {
	isPath := pattern != "" && len(pattern) <= maxPath && !strings.Contains(pattern, "\x00")
	if !isPath || !isLocalPattern(pattern) {
		return hub.Errorf(hub.CodeInvalid, op, "%.100q is not a pattern of files in the working tree", pattern).
			WithHint("use a path or a git pathspec relative to the tree, such as src/*.go")
	}
	if stars := strings.Count(pattern, "*"); len(pattern) > maxPattern || stars > maxStars {
		return hub.Errorf(hub.CodeTooLarge, op, "the pattern %.100q has %d bytes and %d stars; at most %d bytes and %d stars are allowed", pattern, len(pattern), stars, maxPattern, maxStars).
			WithHint("name the folders that you change")
	}
	if m := s.matchers.of(pattern); m.Matches("/any-file-of-the-tree.txt") && m.Matches("/any/other.bin") {
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

// reserve adds one pattern, which was compared before. A pattern that the caller holds already is
// renewed.
func (b *board) reserve(out *Grant, r Request, pattern string, met meeting) error {
	until := b.now.Add(r.For)
	for i, v := range b.all {
		isOpen := v.State == hub.ReservationHeld || v.State == hub.ReservationWaiting
		isOwn := v.Holder == r.Agent && v.Pattern && v.Path == pattern && isOpen
		if isOwn {
			v.Until, v.Active = until, b.now
			v.Session = r.Session
			v.Shared, v.Why = r.Shared, r.Why
			if err := b.move(i, v, goesOn(v)); err != nil {
				return err
			}
			out.Reservations = append(out.Reservations, b.reserved(v))
			return nil
		}
	}
	next := hub.Reservation{
		Holder: r.Agent, Path: pattern, Pattern: true, Session: r.Session, Shared: r.Shared, Task: r.Task, Handoff: r.Handoff, Why: r.Why, Until: until,
	}
	holder, isSame := b.holderOfSame(next)
	if isSame {
		next.State = hub.ReservationWaiting
	}
	for _, v := range b.all {
		if v.Path == pattern || !binds(v, r.Agent, r.Shared) {
			continue
		}
		mayMeet := met.met[pattern][v.Path]
		if !met.compared[v.Path] { // it was stored meanwhile
			mayMeet = b.covered.mayMeet(v, pattern)
		}
		if mayMeet {
			out.Overlaps = append(out.Overlaps, Overlap{pattern, v.Holder, v.Path})
		}
	}

	if err := b.add(next); err != nil {
		return err
	}
	out.Reservations = append(out.Reservations, b.reserved(b.all[len(b.all)-1]))
	if !isSame {
		return nil
	}
	return b.tellHolder(holder.Holder, r.Agent, pattern)
}

// reserved returns the answer about a reservation, with the agents that come before its holder.
func (b *board) reserved(r hub.Reservation) Reserved {
	out := Reserved{ID: r.ID, Pattern: r.Path, Fence: r.Fence, Until: r.Until, State: r.State}
	if r.State != hub.ReservationWaiting {
		return out
	}
	for _, o := range b.all { // by fences
		isBefore := o.State == hub.ReservationHeld || (o.State == hub.ReservationWaiting && o.Fence < r.Fence)
		isSame := o.Path == r.Path && o.Holder != r.Holder && !(o.Shared && r.Shared)
		if isBefore && isSame {
			out.Behind = append(out.Behind, o.Holder)
		}
	}
	return out
}

// A Release names reservations by their files or by an id.
type Release struct {
	Tree  string            `json:"tree,omitempty"`  // not needed with an id
	Paths []string          `json:"paths,omitempty"` // empty for all of the caller in the tree
	ID    hub.ReservationID `json:"id,omitempty"`
}

// Released counts the reservations that a Release ended.
type Released struct {
	Released int `json:"released"`
}

// Release ends reservations of the caller. The operator ends those of any agent, and the
// coordinator of a team those of its members; the holder is told. It works for a working tree
// that was moved or deleted, too.
func (s *Service) Release(ctx context.Context, actor hub.Caller, r Release) (Released, error) {
	const op = "reservation.Release"
	if len(r.Paths) > maxPaths {
		return Released{}, hub.Errorf(hub.CodeTooLarge, op, "too many paths: %d, limit %d", len(r.Paths), maxPaths)
	}
	tree, names, err := s.released(ctx, op, r)
	if err != nil {
		return Released{}, err
	}
	covered, _, err := s.compareNew(ctx, tree, actor.ID, nil)
	if err != nil {
		return Released{}, err
	}

	var out Released
	var b *board
	err = s.store.Update(ctx, hub.SurvivesKill, func(tx hub.Tx) error {
		out = Released{}
		var err error
		if b, err = s.load(tx, actor, tree, covered); err != nil {
			return err
		}
		if out.Released, err = b.release(op, names, r); err != nil {
			return err
		}
		return b.freed()
	})
	if err != nil {
		return Released{}, err
	}
	b.announce()
	return out, nil
}

// released returns the working tree of a release and the names of its files there.
func (s *Service) released(ctx context.Context, op string, r Release) (hub.WorkingTree, []string, error) {
	var tree hub.WorkingTree
	if r.ID != "" {
		tree, err := s.storedTree(ctx, func(v hub.Reservation) bool { return v.ID == r.ID })
		if err == nil && tree.Path == "" {
			err = hub.Errorf(hub.CodeNotFound, op, "no reservation %.50q", r.ID).WithHint("{reservations} lists them")
		}
		return tree, nil, err
	}

	tree, err := s.trees.Tree(ctx, r.Tree)
	if hub.CodeOf(err) == hub.CodeNotFound {
		gone, findErr := s.storedTree(ctx, func(v hub.Reservation) bool {
			return v.Tree.Machine == s.machine && v.Tree.Path == filepath.Clean(r.Tree)
		})
		if findErr == nil && gone.Path != "" { // its files are named as they were reserved
			return gone, nil, nil
		}
	}
	if err != nil {
		return tree, nil, fmt.Errorf("reservation: find the working tree: %w", err)
	}
	names, err := s.trees.Names(ctx, tree, absolute(r.Tree, r.Paths))
	if err != nil {
		return tree, nil, fmt.Errorf("reservation: find the files: %w", err)
	}
	return tree, names, nil
}

// storedTree returns the working tree of a stored reservation, empty if none matches.
func (s *Service) storedTree(ctx context.Context, match func(hub.Reservation) bool) (hub.WorkingTree, error) {
	return hub.Read(ctx, s.store, func(r hub.Reader) (hub.WorkingTree, error) {
		all, err := r.Reservations().OfAgent("")
		for _, v := range all {
			if match(v) {
				return v.Tree, nil
			}
		}
		return hub.WorkingTree{}, err
	})
}

// release ends the named reservations. It reports CodeDenied for one of another agent.
func (b *board) release(op string, names []string, r Release) (n int, err error) {
	for i, v := range b.all {
		isNamed := v.ID == r.ID || slices.Contains(names, v.Path) || slices.Contains(r.Paths, v.Path)
		isAll := r.ID == "" && len(r.Paths) == 0 && v.Holder == b.actor.ID
		if !isNamed && !isAll {
			continue
		}
		if err := b.mayActFor(op, v.Holder); err != nil {
			return n, err
		}
		why := whyRelease
		if v.Holder != b.actor.ID {
			why = whyOperator
			summary := fmt.Sprintf("%s released %s, which you held", releaser(b.actor), v.Path)
			if err := b.notify(v.Holder, hub.PriorityNormal, summary, "ask again before you change it", v.Path); err != nil {
				return n, err
			}
		}
		if err := b.move(i, v, over(why)); err != nil {
			return n, err
		}
		n++
	}
	if n == 0 && (r.ID != "" || len(r.Paths) > 0) {
		return 0, hub.Errorf(hub.CodeNotFound, op, "no such reservation in %s", b.tree.Path).WithHint("{reservations} lists them")
	}
	return n, nil
}

// releaser names the caller that released a reservation of another agent.
func releaser(c hub.Caller) string {
	if c.IsOperator() {
		return "the operator"
	}
	return string(c.ID)
}

// Done ends the reservations of a task or handoff that is over, inside the transaction of the
// service that ends it. After the commit the caller announces the messages. Agents that wait for a
// file of which it takes long to say whether it is free are told by the next Sweep.
func (s *Service) Done(tx hub.Tx, actor hub.Caller, task hub.TaskID, handoff hub.HandoffID) ([]hub.Message, error) {
	all, err := tx.Reservations().OfAgent("")
	if err != nil {
		return nil, err
	}
	var posted []hub.Message
	done := map[string]bool{}
	for _, v := range all {
		if !isFor(v, task, handoff) || done[keyOf(v.Tree)] {
			continue
		}
		done[keyOf(v.Tree)] = true
		b, err := s.load(tx, actor, v.Tree, s.coverage())
		if err != nil {
			return nil, err
		}
		for i, r := range b.all {
			if isFor(r, task, handoff) {
				if err := b.move(i, r, over(whyDone)); err != nil {
					return nil, err
				}
			}
		}
		if err := b.freed(); err != nil {
			return nil, err
		}
		posted = append(posted, b.posted...)
	}
	return posted, nil
}

// isFor reports whether a file was reserved for a task or a handoff.
func isFor(r hub.Reservation, task hub.TaskID, handoff hub.HandoffID) bool {
	if task != "" && r.Task == task {
		return true
	}
	return handoff != "" && r.Handoff == handoff
}

// A Filter chooses reservations of a list.
type Filter struct {
	Tree   string               `json:"tree,omitempty"`
	Agent  hub.AgentID          `json:"agent,omitempty"`
	State  hub.ReservationState `json:"state,omitempty"`
	Cursor hub.ReservationID    `json:"cursor,omitempty"` // the last one of the page before
	Limit  int                  `json:"limit,omitempty"`  // default and most 1000
}

// A Row is a reservation in a list.
type Row struct {
	ID         hub.ReservationID    `json:"id"`
	Tree       string               `json:"tree"`
	Repository string               `json:"repository"` // empty without git
	Machine    string               `json:"machine,omitempty"`
	Path       string               `json:"path"`
	Pattern    bool                 `json:"pattern,omitempty"`
	Holder     hub.AgentID          `json:"holder"`
	Shared     bool                 `json:"shared"`
	Fence      int64                `json:"fence"`
	Since      hub.Time             `json:"since,omitzero"`
	Active     hub.Time             `json:"last_activity,omitzero"`
	Until      hub.Time             `json:"until,omitzero"`
	Task       hub.TaskID           `json:"task,omitempty"`
	Handoff    hub.HandoffID        `json:"handoff,omitempty"`
	Why        string               `json:"why,omitempty"`
	State      hub.ReservationState `json:"state"`
	Waiting    []hub.AgentID        `json:"waiting"`
	Changed    bool                 `json:"changed"`
	Left       string               `json:"left,omitempty"`  // SHA-256 of the artifact with the changes that an orphan has, or that its holder found when it took one
	Lines      int                  `json:"lines,omitempty"` // of that difference
}

func rowOf(v hub.Reservation) Row {
	return Row{
		ID: v.ID, Tree: v.Tree.Path, Repository: v.Tree.Repository, Machine: v.Tree.Machine, Path: v.Path, Pattern: v.Pattern, Holder: v.Holder, Shared: v.Shared, Fence: v.Fence,
		Since: v.Since, Active: v.Active, Until: v.Until, Task: v.Task, Handoff: v.Handoff, Why: v.Why, State: v.State, Waiting: []hub.AgentID{}, Changed: v.Changed, Left: v.Left, Lines: v.Lines,
	}
}

// A Listing is a list of reservations.
type Listing struct {
	Reservations []Row             `json:"reservations"`
	Overlaps     []TreeClash       `json:"overlaps"`
	Next         hub.ReservationID `json:"next,omitempty"` // the cursor of the next page
}

// A TreeClash is a path that two agents change in two working trees of one repository.
type TreeClash struct {
	Repository string        `json:"repository"`
	Path       string        `json:"path"`
	Agents     []hub.AgentID `json:"agents"`
	Trees      []string      `json:"trees"`
}

// List returns reservations by their fences, with the agents that wait for them.
func (s *Service) List(ctx context.Context, f Filter) (Listing, error) {
	const op = "reservation.List"
	if !slices.Contains([]hub.ReservationState{"", hub.ReservationHeld, hub.ReservationWaiting, hub.ReservationOrphan}, f.State) {
		return Listing{}, hub.Errorf(hub.CodeInvalid, op, "unknown state %.50q: use held, waiting or orphan", f.State)
	}
	if f.Limit < 0 || f.Limit > maxListed {
		return Listing{}, hub.Errorf(hub.CodeInvalid, op, "limit must be between 1 and %d, got %d", maxListed, f.Limit)
	}
	after, ok := fenceOf(f.Cursor)
	if !ok {
		return Listing{}, hub.Errorf(hub.CodeInvalid, op, "%.50q is not a cursor of this list", f.Cursor)
	}
	if f.Tree != "" {
		tree, err := s.trees.Tree(ctx, f.Tree)
		if err != nil {
			return Listing{}, fmt.Errorf("reservation: find the working tree: %w", err)
		}
		f.Tree = keyOf(tree)
	}
	return s.list(ctx, f, after)
}

// Top returns the top of the working tree of a folder.
func (s *Service) Top(ctx context.Context, folder string) (string, error) {
	t, err := s.trees.Tree(ctx, folder)
	return t.Path, err
}

// Who returns the reservations of a working tree that cover one of some files.
func (s *Service) Who(ctx context.Context, folder string, paths []string) (Listing, error) {
	const op = "reservation.Who"
	if len(paths) > maxPaths {
		return Listing{}, hub.Errorf(hub.CodeTooLarge, op, "too many paths: %d, limit %d", len(paths), maxPaths)
	}
	tree, err := s.trees.Tree(ctx, folder)
	if err != nil {
		return Listing{}, fmt.Errorf("reservation: find the working tree: %w", err)
	}
	names, err := s.trees.Names(ctx, tree, absolute(folder, paths))
	if err != nil {
		return Listing{}, fmt.Errorf("reservation: find the files: %w", err)
	}
	all, err := s.list(ctx, Filter{Tree: keyOf(tree)}, 0)
	if err != nil {
		return Listing{}, err
	}
	covered := s.coverage()
	all.Reservations = slices.DeleteFunc(all.Reservations, func(r Row) bool {
		v := hub.Reservation{Path: r.Path, Pattern: r.Pattern}
		return !slices.ContainsFunc(names, func(name string) bool { return covered.covers(v, name) })
	})
	return all, covered.check(op)
}

// fenceOf returns the fence in the id of a reservation, 0 for none.
func fenceOf(id hub.ReservationID) (int64, bool) {
	if id == "" {
		return 0, true
	}
	n, err := strconv.ParseInt(strings.TrimPrefix(string(id), "r"), 10, 64)
	return n, err == nil && n > 0 && hub.NewReservationID(n) == id
}

// list returns the reservations after a fence that a filter chooses.
func (s *Service) list(ctx context.Context, f Filter, after int64) (Listing, error) {
	out := Listing{Reservations: []Row{}, Overlaps: []TreeClash{}}
	var all, chosen []hub.Reservation
	var waits []hub.FileWait
	err := s.store.View(ctx, func(r hub.Reader) (err error) {
		out.Reservations = out.Reservations[:0]
		out.Next = ""
		chosen = nil
		if all, err = r.Reservations().OfAgent(""); err != nil {
			return err
		}
		if waits, err = r.Reservations().Waits(""); err != nil {
			return err
		}
		chosen, err = s.choose(r, &out, all, f, after)
		return err
	})
	if err != nil {
		return out, err
	}

	covered := s.coverage()
	for i, v := range chosen {
		out.Reservations[i].Waiting = covered.waitingFor(v, all, waits)
	}
	out.Overlaps = clashes(all)
	return out, nil
}

// choose adds the reservations after a fence that a filter chooses to a list, and returns them.
func (s *Service) choose(r hub.Reader, out *Listing, all []hub.Reservation, f Filter, after int64) (chosen []hub.Reservation, err error) {
	sessions := s.lives(r)
	for _, v := range all {
		isChosen := (f.Tree == "" || keyOf(v.Tree) == f.Tree) && (f.Agent == "" || v.Holder == f.Agent) && (f.State == "" || v.State == f.State)
		if !isChosen || v.Fence <= after {
			continue
		}
		if len(out.Reservations) == cmp.Or(f.Limit, maxListed) {
			out.Next = out.Reservations[len(out.Reservations)-1].ID
			break
		}

		// The session may show activity that is not stored with the reservation.
		row := rowOf(v)
		life, err := sessions.of(v)
		if err != nil {
			return nil, err
		}
		if life.Seen.After(row.Active.Time) {
			row.Active = life.Seen
		}
		out.Reservations = append(out.Reservations, row)
		chosen = append(chosen, v)
	}
	return chosen, nil
}

// waitingFor returns the other agents that wait for the files of a reservation, without those that
// may change them.
func (c *coverage) waitingFor(v hub.Reservation, all []hub.Reservation, waits []hub.FileWait) []hub.AgentID {
	out := []hub.AgentID{}
	if v.State == hub.ReservationWaiting {
		return out
	}
	add := func(agent hub.AgentID) {
		if agent != v.Holder && !slices.Contains(out, agent) {
			out = append(out, agent)
		}
	}
	for _, w := range waits {
		if w.Tree == keyOf(v.Tree) && c.covers(v, w.Path) {
			add(w.Agent)
		}
	}
	for _, o := range all {
		if o.State == hub.ReservationWaiting && keyOf(o.Tree) == keyOf(v.Tree) && o.Path == v.Path {
			add(o.Holder)
		}
	}
	return out
}

// clashes returns the paths that agents change in several working trees of one repository.
func clashes(all []hub.Reservation) []TreeClash {
	type place struct{ machine, repository, path string }
	byPlace := map[place][]hub.Reservation{}
	out := []TreeClash{}
	for _, b := range all {
		if b.Tree.Repository == "" || b.Pattern || b.State != hub.ReservationHeld {
			continue
		}
		at := place{b.Tree.Machine, b.Tree.Repository, b.Path}
		for _, a := range byPlace[at] {
			if a.Tree.Path != b.Tree.Path && a.Holder != b.Holder {
				out = append(out, TreeClash{b.Tree.Repository, b.Path, []hub.AgentID{a.Holder, b.Holder}, []string{a.Tree.Path, b.Tree.Path}})
			}
		}
		byPlace[at] = append(byPlace[at], b)
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
