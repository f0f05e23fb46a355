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

// Ask answers a question of the guard, and reserves the files of an edit that is allowed.
func (s *Service) Ask(ctx context.Context, actor hub.Caller, q Question) (Answer, error) {
	const op = "reservation.Ask"
	if err := checkQuestion(op, q); err != nil {
		return Answer{}, err
	}
	tree, err := s.trees.Tree(ctx, q.Tree)
	if err != nil {
		return Answer{}, fmt.Errorf("reservation: find the working tree: %w", err)
	}
	if s.off != nil && s.off(tree) {
		return Answer{Decision: Allow, Reason: ReasonFree, Denied: []Denial{}, Notes: []Note{}}, nil
	}
	s.Active(actor.ID)
	if q.Tree, err = s.folderIn(ctx, tree, q.Tree); err != nil {
		return Answer{}, err
	}
	names, err := s.trees.Names(ctx, tree, absolute(q.Tree, q.Paths))
	if err != nil {
		return Answer{}, fmt.Errorf("reservation: find the files: %w", err)
	}

	// Files are read before the transaction: those of the question, and those of reservations
	// that it can end or break.
	x := &question{Question: q, s: s, op: op, actor: actor, tree: tree, names: names}
	if q.Command != "" {
		x.does = effects.Read(q.Command, q.Tree)
	}
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
	s     *Service
	op    string
	actor hub.Caller
	tree  hub.WorkingTree
	names []string        // the paths, relative to the tree
	does  effects.Effects // of the command

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
	for _, d := range denied {
		if err := b.wait(d); err != nil {
			return err
		}
	}
	return nil
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
