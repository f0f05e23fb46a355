package keptwork

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
)

// A Filter selects kept work.
type Filter struct {
	Tree string `json:"tree,omitempty"` // the top of a working tree
	Path string `json:"path,omitempty"` // only work with this file, relative to the top
	All  bool   `json:"all,omitempty"`  // of all trees
}

// A Row is kept work in a list.
type Row struct {
	ID         hub.KeptID  `json:"id"`
	Tree       string      `json:"tree"`
	Repository string      `json:"repository,omitempty"`
	Machine    string      `json:"machine,omitempty"`
	At         hub.Time    `json:"at,omitzero"`
	Why        hub.KeptWhy `json:"why"`
	Command    string      `json:"command,omitempty"`
	Agent      hub.AgentID `json:"agent,omitempty"`
	Files      int         `json:"files"`
	Added      int         `json:"added"`
	Removed    int         `json:"removed"`
	Bytes      int64       `json:"bytes"`
	Stash      int         `json:"stash"`
	Lost       int         `json:"lost,omitempty"` // files that the command changed or removed, of others
	NamedOnly  []string    `json:"named_only"`
	Late       bool        `json:"late"`
}

// A Listing is a list of kept work, the newest first.
type Listing struct {
	Kept []Row `json:"kept"`
}

func rowOf(w hub.KeptWork) Row {
	r := Row{
		ID: w.ID, Tree: w.Tree.Path, Repository: w.Tree.Repository, Machine: w.Tree.Machine, At: w.At, Why: w.Why, Command: w.Command, Agent: w.Agent,
		Files: w.State.Files, Added: w.State.Added, Removed: w.State.Removed, Bytes: w.State.Bytes, Stash: w.State.Stash, Lost: w.Lost, NamedOnly: w.State.NamedOnly, Late: w.Late,
	}
	if r.NamedOnly == nil {
		r.NamedOnly = []string{}
	}
	return r
}

// List returns kept work, the newest first. Only the operator sees that of all; an agent sees what was
// kept for its own acts.
func (s *Service) List(ctx context.Context, actor hub.Caller, f Filter) (Listing, error) {
	q := hub.KeptQuery{Tree: f.Tree, Limit: maxPage}
	if f.All {
		q.Tree = ""
	}
	if !actor.IsOperator() {
		q.Agent = actor.ID
	}
	all, err := hub.Read(ctx, s.store, func(rd hub.Reader) ([]hub.KeptWork, error) { return rd.Kept().KeptWorks(q) })
	if err != nil {
		return Listing{}, fmt.Errorf("keptwork: list: %w", err)
	}
	out := Listing{Kept: []Row{}}
	for _, w := range all {
		if f.Path != "" && !s.hasPath(ctx, w, f.Path) {
			continue
		}
		out.Kept = append(out.Kept, rowOf(w))
	}
	return out, nil
}

// hasPath reports whether kept work has a file.
func (s *Service) hasPath(ctx context.Context, w hub.KeptWork, path string) bool {
	files, err := s.trees.Files(ctx, w.Tree, w.State.ID, "", false)
	return err == nil && slices.ContainsFunc(files, func(f hub.KeptFile) bool { return f.Path == path })
}

// Details are kept work with its files.
type Details struct {
	Row
	Content []hub.KeptFile `json:"content"`
}

// Show returns kept work with its files and what they are in the tree now. An agent sees the files
// that it wrote, and no ignored ones.
func (s *Service) Show(ctx context.Context, actor hub.Caller, id hub.KeptID) (Details, error) {
	w, err := s.find(ctx, "keptwork.Show", actor, id)
	if err != nil {
		return Details{}, err
	}
	files, err := s.trees.Files(ctx, w.Tree, w.State.ID, w.After, true)
	if err != nil {
		return Details{}, err
	}
	out := Details{Row: rowOf(w), Content: []hub.KeptFile{}}
	for _, f := range files {
		if actor.IsOperator() || s.isOf(w, f, actor.ID) {
			out.Content = append(out.Content, f)
		}
	}
	return out, nil
}

// isOf reports whether an agent may see a file of kept work: one that it wrote.
func (s *Service) isOf(w hub.KeptWork, f hub.KeptFile, agent hub.AgentID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	by, isKnown := s.authors[w.Tree.Path][f.Path]
	lost, isLost := s.lost[lostKey{w.ID, f.Path}]
	isAuthor := (isKnown && by.agent == agent) || (isLost && lost == agent)
	return isAuthor && f.State != "ignored"
}

// find returns kept work that a caller may know of.
func (s *Service) find(ctx context.Context, op string, actor hub.Caller, id hub.KeptID) (hub.KeptWork, error) {
	w, err := hub.Read(ctx, s.store, func(rd hub.Reader) (hub.KeptWork, error) { return rd.Kept().KeptWork(id) })
	if hub.CodeOf(err) == hub.CodeNotFound {
		return w, hub.Errorf(hub.CodeNotFound, op, "no kept work %.30q", id).WithHint("parley files kept lists it")
	}
	isAgent := actor.Kind == hub.CallerAgent
	if err == nil && !isAgent && !actor.IsOperator() {
		return w, hub.Errorf(hub.CodeDenied, op, "kept work is for the operator and the agents that wrote it")
	}
	return w, err
}

// A Request asks to bring kept work back.
type Request struct {
	ID    hub.KeptID `json:"id,omitempty"`    // empty for the last destruction in the tree
	Tree  string     `json:"tree,omitempty"`  // without an id
	Paths []string   `json:"paths,omitempty"` // relative to the top; also files that were changed since
	Into  string     `json:"into,omitempty"`  // a new folder, which gets all of it
	Index bool       `json:"index,omitempty"`
	Stash bool       `json:"stash,omitempty"`
	Try   bool       `json:"try,omitempty"` // only say what would be brought back
}

// A Back says what was brought back.
type Back struct {
	ID    hub.KeptID     `json:"id"`
	Files []string       `json:"files"`
	Left  []hub.KeptLeft `json:"left"`
	Into  string         `json:"into"`
	Undo  hub.KeptID     `json:"undo,omitempty"` // the state before it was brought back
	Work  Row            `json:"work"`
}

// Last returns the newest kept work of a tree from before a command that destroyed something.
func (s *Service) Last(ctx context.Context, tree string) (hub.KeptWork, error) {
	all, err := hub.Read(ctx, s.store, func(rd hub.Reader) ([]hub.KeptWork, error) {
		return rd.Kept().KeptWorks(hub.KeptQuery{Tree: tree, Limit: maxPage})
	})
	if err != nil {
		return hub.KeptWork{}, err
	}
	i := slices.IndexFunc(all, func(w hub.KeptWork) bool { return w.After != "" && w.Why == hub.KeptBeforeCommand })
	if i < 0 {
		return hub.KeptWork{}, hub.Errorf(hub.CodeNotFound, "keptwork.Back", "no command destroyed work in %s", tree).WithHint("parley files kept lists the kept work")
	}
	return all[i], nil
}

// Back brings kept work back: into its tree only what the command in it changed, and of that only
// what is as the command left it; the rest is listed. The state of now is kept first. The operator
// may bring back everything, an agent the files that it wrote.
func (s *Service) Back(ctx context.Context, actor hub.Caller, r Request) (Back, error) {
	const op = "keptwork.Back"
	w, err := hub.KeptWork{}, error(nil)
	if r.ID == "" {
		w, err = s.Last(ctx, r.Tree)
	} else {
		w, err = s.find(ctx, op, actor, r.ID)
	}
	if err != nil {
		return Back{}, err
	}
	out := Back{ID: w.ID, Files: []string{}, Left: []hub.KeptLeft{}, Into: w.Tree.Path, Work: rowOf(w)}
	if r.Paths, err = s.allowed(ctx, op, actor, w, r); err != nil {
		return out, err
	}
	hasAim := w.After != "" || len(r.Paths) > 0 || r.Into != "" || r.Stash
	if !hasAim {
		return out, hub.Errorf(hub.CodeInvalid, op, "%s was not kept before a command: name paths, or a new folder", w.ID).WithHint(backCommand+"%s --into DIR", w.ID)
	}
	if r.Into != "" && !filepath.IsAbs(r.Into) {
		return out, hub.Errorf(hub.CodeInvalid, op, "into must be an absolute path, got %.200q", r.Into)
	}
	if r.Try {
		return s.plan(ctx, w, r, out)
	}

	// A tree that is not there any more has no state of now.
	if _, err := os.Lstat(w.Tree.Path); err == nil && r.Into == "" {
		if out.Undo, err = s.Keep(ctx, w.Tree, actor.ID, hub.KeptBeforeBack); err != nil {
			return out, fmt.Errorf("keptwork: keep the state of now: %w", err)
		}
	}
	paths, left, err := s.trees.Back(ctx, w.Tree, Return{State: w.State.ID, After: w.After, Paths: r.Paths, Into: r.Into, Index: r.Index, Stash: r.Stash})
	if err != nil {
		return out, err
	}
	if r.Into == "" {
		s.restoreAuthors(ctx, w, paths)
	}
	out.Files = append(out.Files, paths...)
	out.Left = append(out.Left, left...)
	if r.Into != "" {
		out.Into = r.Into
	}
	err = s.store.Update(ctx, hub.SurvivesKill, func(tx hub.Tx) error {
		_, err := tx.Append(actor.Entry(s.o.Clock.Now(), actions.WorkBack, string(w.ID), map[string]any{"tree": w.Tree.Path, "files": len(paths), "into": out.Into}))
		return err
	})
	return out, err
}

// restoreAuthors notes who wrote files that were brought back.
func (s *Service) restoreAuthors(ctx context.Context, w hub.KeptWork, paths []string) {
	files, err := s.trees.Files(ctx, w.Tree, w.State.ID, "", false)
	if err != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.authors[w.Tree.Path] == nil {
		s.authors[w.Tree.Path] = map[string]author{}
	}
	for _, f := range files {
		by, isKnown := s.lost[lostKey{w.ID, f.Path}]
		if isKnown && slices.Contains(paths, f.Path) {
			s.authors[w.Tree.Path][f.Path] = author{by, f.Digest}
		}
	}
}

// allowed returns the paths that a caller may bring back. An agent brings back files that it wrote,
// into its own tree.
func (s *Service) allowed(ctx context.Context, op string, actor hub.Caller, w hub.KeptWork, r Request) ([]string, error) {
	if actor.IsOperator() {
		return r.Paths, nil
	}
	if r.Into != "" || r.Stash {
		return nil, hub.Errorf(hub.CodeDenied, op, "only the operator brings kept work into a folder, or entries of the stash back")
	}
	files, err := s.trees.Files(ctx, w.Tree, w.State.ID, w.After, true)
	if err != nil {
		return nil, err
	}
	var own []string
	for _, f := range files {
		isUntouched := len(r.Paths) == 0 && f.Lost && !f.Touched
		isWanted := isUntouched || slices.Contains(r.Paths, f.Path)
		if isWanted && s.isOf(w, f, actor.ID) {
			own = append(own, f.Path)
		}
	}
	if len(own) == 0 {
		return nil, hub.Errorf(hub.CodeDenied, op, "%s has no file that you wrote and that was lost", w.ID).WithHint("ask the operator: "+backCommand+"%s", w.ID)
	}
	return own, nil
}

// plan says what would be brought back.
func (s *Service) plan(ctx context.Context, w hub.KeptWork, r Request, out Back) (Back, error) {
	files, err := s.trees.Files(ctx, w.Tree, w.State.ID, w.After, true)
	if err != nil {
		return out, err
	}
	for _, f := range files {
		isNamed := slices.Contains(r.Paths, f.Path)
		switch {
		case f.Now == "same" || (len(r.Paths) > 0 && !isNamed) || (len(r.Paths) == 0 && !f.Lost):
		case !isNamed && f.Touched:
			out.Left = append(out.Left, hub.KeptLeft{Path: f.Path, Why: "changed since; name it to bring it back"})
		default:
			out.Files = append(out.Files, f.Path)
		}
	}
	return out, nil
}

// Drop removes kept work. Its content is gone when Drop returns, but for what other kept work has.
// Only the operator may.
func (s *Service) Drop(ctx context.Context, actor hub.Caller, id hub.KeptID) error {
	const op = "keptwork.Drop"
	if err := actor.OperatorOnly(op); err != nil {
		return err
	}
	w, err := s.find(ctx, op, actor, id)
	if err != nil {
		return err
	}
	s.sweeping.Lock()
	defer s.sweeping.Unlock()
	live, err := s.live(ctx, w.Tree, id)
	if err != nil {
		return err
	}
	if err := s.remove(ctx, actor, w); err != nil {
		return err
	}
	_, err = s.trees.Sweep(ctx, w.Tree, live)
	return err
}

// remove removes the row of kept work.
func (s *Service) remove(ctx context.Context, actor hub.Caller, w hub.KeptWork) error {
	return s.store.Update(ctx, hub.SurvivesKill, func(tx hub.Tx) error {
		if err := tx.WriteKept().RemoveKeptWork(w.ID); err != nil {
			return err
		}
		_, err := tx.Append(actor.Entry(s.o.Clock.Now(), actions.WorkDropped, string(w.ID), map[string]any{"tree": w.Tree.Path}))
		return err
	})
}
