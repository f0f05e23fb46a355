package reservation

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/ground/effects"
)

// A Kind is the event about which the guard asks.
type Kind string

// The kinds of questions.
const (
	Edit   Kind = "edit"   // the agent is about to change files, or to run a command
	Read   Kind = "read"   // the agent has read files
	Commit Kind = "commit" // files are about to be committed
	After  Kind = "after"  // an edit or a command has ended
)

var kinds = []Kind{Edit, Read, Commit, After}

// A Question is what the guard asks about files of one working tree.
type Question struct {
	Tree    string            `json:"tree"` // an absolute path in the working tree; relative paths begin there
	Paths   []string          `json:"paths"`
	Kind    Kind              `json:"kind"`
	Seen    map[string]string `json:"seen,omitempty"` // SHA-256 of files that the agent read, by path; the hub reads the others itself
	Session string            `json:"session,omitempty"`
	Command string            `json:"command,omitempty"` // a shell command, which is judged by its text
}

// The decisions of the guard, and their reasons.
const (
	Allow = "allow"
	Deny  = "deny"

	ReasonFree   = "free"
	ReasonOwn    = "own"
	ReasonShared = "shared"
	ReasonHeld   = "held"
	ReasonStale  = "stale"
	ReasonShell  = "shell"

	ReasonKeeping = "keeping" // the hub still keeps the work that the command would destroy
)

// An Answer is the decision about a question.
type Answer struct {
	Decision string   `json:"decision"`
	Reason   string   `json:"reason"`
	Text     string   `json:"text,omitempty"` // for the model, if it is denied
	Denied   []Denial `json:"denied"`
	Notes    []Note   `json:"notes"`
	Fence    int64    `json:"fence,omitempty"` // of the newest reservation of the files
}

// A Denial is a file that another agent holds.
type Denial struct {
	Path   string      `json:"path"`
	Holder hub.AgentID `json:"holder"`
	Since  hub.Time    `json:"since,omitzero"`
	Task   string      `json:"task,omitempty"` // or handoff
	Fence  int64       `json:"fence"`
}

// A Note is a sentence that the agent should know and that forbids nothing.
type Note struct {
	Kind  string      `json:"kind"`
	Path  string      `json:"path"`
	Agent hub.AgentID `json:"agent,omitempty"`
	Text  string      `json:"text"`
}

// The kinds of notes.
const (
	NoteOverlap   = "overlap"
	NoteOrphan    = "orphan"
	NoteLapsed    = "lapsed"
	NoteViolation = "violation"
	NoteRestored  = "restored" // changes of the agent are gone, and no agent's command ran
	NoteHeld      = "held"     // for a person, who is never refused
)

// Ask answers a question of the guard, and reserves the files of an edit that is allowed. A command
// is judged in every working tree that it reaches, and these are kept before it runs.
func (s *Service) Ask(ctx context.Context, actor hub.Caller, q Question) (Answer, error) {
	const op = "reservation.Ask"
	if err := checkQuestion(op, q); err != nil {
		return Answer{}, err
	}
	own, ownErr := s.trees.Tree(ctx, q.Tree)
	if ownErr == nil {
		s.Active(actor.ID)
		var err error
		if q.Tree, err = s.folderIn(ctx, own, q.Tree); err != nil {
			return Answer{}, err
		}
	}
	var does effects.Effects
	if q.Command != "" {
		does = effects.Read(q.Command, q.Tree)
	}
	acts := does.Acts || does.Destroys() || q.Command == WholeTurn || q.Command == ""
	isAct := (q.Kind == Edit || q.Kind == After) && acts && !actor.IsOperator()

	trees := []reached{{tree: own, dirs: dirsOf(does)}}
	if isAct && q.Command != "" {
		var err error
		if trees, err = s.reach(ctx, own, does); err != nil {
			return Answer{}, err
		}
	}
	if ownErr != nil && (len(trees) == 0 || trees[0].tree.Path == "") {
		return Answer{}, fmt.Errorf("reservation: find the working tree: %w", ownErr)
	}
	trees = slices.DeleteFunc(trees, func(r reached) bool { return s.off != nil && s.off(r.tree) })
	if len(trees) == 0 {
		return allowed(), nil
	}
	return s.askAll(ctx, actor, q, does, trees, isAct)
}

// allowed returns the answer about files that no agent holds.
func allowed() Answer {
	return Answer{Decision: Allow, Reason: ReasonFree, Denied: []Denial{}, Notes: []Note{}}
}

// dirsOf returns the folders in which a command runs git.
func dirsOf(does effects.Effects) (out []string) {
	for _, g := range does.Git {
		out = append(out, g.Dir)
	}
	return out
}

// askAll asks about an act in all trees that it reaches. That of the question is the last one, so
// that a command that is denied in another tree does not count as running.
func (s *Service) askAll(ctx context.Context, actor hub.Caller, q Question, does effects.Effects, trees []reached, isAct bool) (Answer, error) {
	act := Act{Agent: actor.ID, Session: q.Session, Text: q.Command, Edits: q.Command == ""}
	switch q.Command {
	case WholeTurn:
		act.Text = ""
	case "":
		act.Text = strings.Join(q.Paths, ", ")
	}
	keeps := isAct && s.keeper != nil
	if keeps && q.Kind == Edit {
		if text := s.keepBefore(ctx, trees, act, s.relative(trees[0].tree, q, does), does.Destroys()); text != "" {
			out := allowed()
			out.Decision = Deny
			out.Reason = ReasonKeeping
			out.Text = text
			return out, nil
		}
	}
	if keeps && q.Kind == After {
		for i, line := range s.keepAfter(ctx, trees, act, s.relative(trees[0].tree, q, does)) {
			trees[i].line = line
		}
	}

	var out Answer
	for i, one := range slices.Backward(trees) {
		sub := q
		if i > 0 || !isInside(one.tree.Path, q.Tree) {
			sub.Tree = one.tree.Path
			sub.Paths = []string{}
		}
		answer, err := s.askOne(ctx, actor, sub, does, one)
		if err != nil && i == 0 {
			return Answer{}, err
		}
		if err != nil {
			s.log.Warn("a working tree that a command reaches was not judged", "op", "reservation.Ask", "err", err)
			continue
		}
		answer.Notes = append(answer.Notes, out.Notes...)
		out = answer
		if out.Decision == Deny {
			break
		}
	}
	if keeps && out.Decision == Deny {
		for _, one := range trees {
			act.Tree = one.tree.Path
			s.keeper.Denied(act)
		}
	}
	return out, nil
}

// relative returns the files of a question relative to the top of a tree.
func (s *Service) relative(t hub.WorkingTree, q Question, does effects.Effects) (out []string) {
	paths := absolute(q.Tree, q.Paths)
	for _, w := range does.Writes {
		if !w.Glob && !w.Spec {
			paths = append(paths, filepath.FromSlash(w.Path))
		}
	}
	for _, p := range paths {
		if rel, err := filepath.Rel(t.Path, p); err == nil && filepath.IsLocal(rel) {
			out = append(out, filepath.ToSlash(rel))
		}
	}
	return out
}

// isInside reports whether a path is a folder or lies in it.
func isInside(folder, path string) bool {
	rel, err := filepath.Rel(folder, path)
	return err == nil && filepath.IsLocal(rel)
}

// askOne answers a question about one tree.
func (s *Service) askOne(ctx context.Context, actor hub.Caller, q Question, does effects.Effects, in reached) (Answer, error) {
	names, err := s.trees.Names(ctx, in.tree, absolute(q.Tree, q.Paths))
	if err != nil {
		return Answer{}, fmt.Errorf("reservation: find the files: %w", err)
	}

	// Files are read before the transaction: those of the question, and those of reservations
	// that it can end or break.
	x := &question{Question: q, s: s, op: "reservation.Ask", actor: actor, tree: in.tree, names: names, does: does, reached: in}
	if q.Kind == Edit || q.Kind == After {
		x.names = append(x.names, x.writtenByName()...)
	}
	if err := x.gather(ctx); err != nil {
		return Answer{}, err
	}
	return x.decide(ctx)
}

// checkQuestion refuses a question that is not well formed.
func checkQuestion(op string, q Question) error {
	switch {
	case !slices.Contains(kinds, q.Kind):
		return hub.Errorf(hub.CodeInvalid, op, "unknown kind %.50q: use edit, read, commit or after", q.Kind)
	case !filepath.IsAbs(q.Tree) || len(q.Tree) > maxPath:
		return hub.Errorf(hub.CodeInvalid, op, "tree must be an absolute path, got %.200q", q.Tree)
	case len(q.Paths) > MaxQuestion:
		return hub.Errorf(hub.CodeTooLarge, op, "too many paths: %d, at most %d are allowed in one question", len(q.Paths), MaxQuestion).WithHint("ask about them in several questions")
	case len(q.Seen) > MaxQuestion || len(q.Session) > maxSession:
		return hub.Errorf(hub.CodeTooLarge, op, "seen has %d paths and session %d bytes; at most %d and %d are allowed", len(q.Seen), len(q.Session), MaxQuestion, maxSession)
	case len(q.Command) > maxCommand:
		return hub.Errorf(hub.CodeTooLarge, op, "the command is too long: %d bytes, at most %d are allowed", len(q.Command), maxCommand)
	case len(q.Paths) == 0 && q.Command == "":
		return hub.Errorf(hub.CodeInvalid, op, "paths or a command are required")
	}
	for _, p := range q.Paths {
		if p == "" || len(p) > maxPath || strings.Contains(p, "\x00") {
			return hub.Errorf(hub.CodeInvalid, op, "%.100q is not a valid path", p)
		}
	}
	return nil
}

// absolute returns paths that begin in a folder as absolute ones.
func absolute(folder string, paths []string) []string {
	out := make([]string, len(paths))
	for i, p := range paths {
		if !filepath.IsAbs(p) {
			p = filepath.Join(folder, p)
		}
		out[i] = p
	}
	return out
}

// A question is a Question with the facts that decide it.
type question struct {
	Question
	s       *Service
	op      string
	actor   hub.Caller
	tree    hub.WorkingTree
	names   []string        // the paths, relative to the tree
	does    effects.Effects // of the command
	reached reached         // the tree as the command reaches it

	facts         // files of the question and of reservations
	shell []touch // files of others that a command touches
}

// gather reads the files that decide the question.
func (x *question) gather(ctx context.Context) error {
	mayHaveCommitted := x.Kind == After || x.Kind == Commit
	concerned := func(r hub.Reservation) bool {
		isAsked := slices.Contains(x.names, r.Path)
		isOwn := r.Holder == x.actor.ID && (mayHaveCommitted || !r.Asked.IsZero())
		return isAsked || x.Command != "" || isOwn
	}
	compared := append(x.written(), x.s.watched.files(x.call())...)
	var err error
	if x.facts, err = x.s.survey(ctx, x.tree, survey{agent: x.actor.ID, names: x.names, compared: compared, by: x.reported(), concerned: concerned}); err != nil || x.Command == "" {
		return err
	}

	// A command is judged by its text before it runs, and by the files of others after it.
	switch x.Kind {
	case Edit:
		x.shell, err = x.touches(ctx)
	case After:
		x.facts.report.changed = x.s.watched.compare(x.call(), x.files)
	}
	return err
}

// decide answers the question in one transaction.
func (x *question) decide(ctx context.Context) (Answer, error) {
	var b *board
	err := x.s.store.Update(ctx, hub.SurvivesKill, func(tx hub.Tx) error {
		var err error
		if b, err = x.s.load(tx, x.actor, x.tree, x.covered); err != nil {
			return err
		}
		b.line = x.reached.line
		b.answer = Answer{Decision: Allow, Reason: ReasonFree, Denied: []Denial{}, Notes: []Note{}}
		if err := b.settle(x.facts); err != nil {
			return err
		}
		if err := b.renew(); err != nil {
			return err
		}
		switch x.Kind {
		case Edit:
			err = b.edit(x)
		case Read:
			err = b.read(x)
		case Commit:
			err = b.commit(x)
		case After:
			err = b.after(x)
		}
		if err != nil {
			return err
		}
		if err := b.keepCommands(x); err != nil {
			return err
		}
		if err := b.tellChanges(); err != nil {
			return err
		}
		if err := b.deliverNotes(); err != nil {
			return err
		}
		return b.covered.check(x.op)
	})
	if err != nil {
		return Answer{}, err
	}

	b.announce()
	if x.Kind == Edit && x.Command != "" && b.answer.Decision == Allow {
		x.s.watched.begin(x.call(), b.heldByOthers(x.files))
	}
	return b.answer, nil
}

// edit decides about an edit and reserves its files. A person is told who holds them, and
// reserves nothing.
func (b *board) edit(x *question) error {
	if b.actor.IsOperator() {
		b.tellPerson(b.denials(x.names))
		return nil
	}
	if len(x.shell) > 0 {
		if denied := b.deniedTouches(x.shell); len(denied) > 0 {
			return b.deny(ReasonShell, denied, shellText(denied, x.shell, b.now))
		}
	}

	// All files of one edit are reserved, or none.
	if denied := b.denials(x.names); len(denied) > 0 {
		return b.deny(ReasonHeld, denied, heldText(denied, b.now))
	}
	if err := b.claim(x); err != nil {
		return err
	}
	if text, err := b.stale(x); err != nil || text != "" {
		b.answer.Decision = Deny
		b.answer.Reason = ReasonStale
		b.answer.Text = text
		return err
	}

	for _, name := range x.names {
		if err := b.take(name, x.files[name], x.Session); err != nil {
			return err
		}
	}
	return nil
}

// deny refuses the question, and puts the agent on the waiting lists of the files.
func (b *board) deny(reason string, denied []Denial, text string) error {
	b.answer.Decision = Deny
	b.answer.Reason = reason
	b.answer.Denied = denied
	b.answer.Text = shortened(text)
	return b.waitFor(denied)
}

// stale refuses an edit of content that another agent wrote and this one has not seen, once.
func (b *board) stale(x *question) (string, error) {
	text := ""
	for _, name := range x.names {
		views, err := b.tx.Reservations().Views(keyOf(b.tree), name)
		if err != nil {
			return "", err
		}
		digest := x.files[name].Digest
		found, isStale := stale(views, b.actor.ID, digest)
		if !isStale {
			continue
		}
		for _, v := range views {
			if v.Agent == b.actor.ID {
				v.Stale = digest
				if err := b.tx.WriteReservations().PutView(v); err != nil {
					return "", err
				}
			}
		}
		if text == "" {
			text = staleText(name, found, b.now)
		}
	}
	return text, nil
}

// seenOf returns the digest of a file that the agent says it saw. The file is the i-th of the
// question.
func (x *question) seenOf(i int) (string, bool) {
	if i < len(x.Paths) {
		if digest, ok := x.Seen[x.Paths[i]]; ok {
			return digest, true
		}
	}
	digest, ok := x.Seen[x.names[i]]
	return digest, ok
}

// claim notes what an agent says it saw of the files that it is about to edit, unless that is
// known.
func (b *board) claim(x *question) error {
	for i, name := range x.names {
		digest, ok := x.seenOf(i)
		if !ok {
			continue
		}
		views, err := b.tx.Reservations().Views(keyOf(b.tree), name)
		if err != nil {
			return err
		}
		isKnown := slices.ContainsFunc(views, func(v hub.FileView) bool { return v.Agent == b.actor.ID && v.Digest == digest })
		if isKnown {
			continue
		}
		if err := b.see(b.actor.ID, name, digest, false); err != nil {
			return err
		}
	}
	return nil
}

// read notes what an agent saw of files.
func (b *board) read(x *question) error {
	if b.actor.IsOperator() {
		return nil
	}
	for i, name := range x.names {
		digest := x.files[name].Digest
		if seen, ok := x.seenOf(i); ok {
			digest = seen
		}
		if err := b.see(b.actor.ID, name, digest, false); err != nil {
			return err
		}
	}
	return nil
}

// commit refuses an agent that would commit files that others hold. A person is told.
func (b *board) commit(x *question) error {
	denied := b.denials(x.names)
	if b.actor.IsOperator() {
		b.tellPerson(denied)
		return nil
	}
	if len(denied) == 0 {
		return nil
	}
	return b.deny(ReasonHeld, denied, commitText(denied, b.now))
}

// denials returns the files that others hold.
func (b *board) denials(names []string) (out []Denial) {
	for _, name := range names {
		if r, ok := b.holderOf(name); ok {
			out = append(out, b.denial(r, name))
		}
	}
	return out
}

// tellPerson notes who holds files. People are never refused.
func (b *board) tellPerson(denied []Denial) {
	for _, d := range denied[:min(len(denied), maxNotes)] {
		b.note(Note{Kind: NoteHeld, Path: d.Path, Agent: d.Holder, Text: fmt.Sprintf("%s is changing %s", d.Holder, d.Path)})
	}
}

// after notes the end of an edit or a command: its own files, and files of others that changed
// while a command ran.
func (b *board) after(x *question) error {
	if b.actor.IsOperator() {
		return nil
	}
	for _, name := range x.names {
		if err := b.edited(name, x.files[name], x.Session); err != nil {
			return err
		}
	}
	for _, name := range x.report.changed {
		if err := b.wrote(name, x.files[name], true); err != nil {
			return err
		}
	}
	return nil
}
