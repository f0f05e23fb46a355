package reservation

import (
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"sync"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
	"github.com/parley-agents/parley/internal/ground/effects"
)

// A touch is a file of another agent that the text of a command changes, stages or commits.
type touch struct {
	name string
	does string // in words, such as "would stage"
}

// touches returns the files of others that the command touches, by its text.
func (x *question) touches(ctx context.Context) ([]touch, error) {
	var others []hub.Reservation
	for _, r := range x.held {
		if r.State == hub.ReservationHeld && r.Holder != x.actor.ID {
			others = append(others, r)
		}
	}
	if len(others) == 0 {
		return nil, nil
	}

	out, err := x.writes(ctx, others)
	if err != nil {
		return nil, err
	}
	for i, g := range x.does.Git {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		isHere := slices.Contains(x.reached.dirs, g.Dir) || g.Verb == effects.Untree
		if !isHere {
			continue
		}
		if g.Verb == effects.Unstash && x.mayUnstash(g, x.does.Git[:i]) {
			continue
		}
		more, err := x.gitTouches(ctx, g, others)
		if err != nil {
			return nil, err
		}
		out = append(out, more...)
	}
	return out, nil
}

// file returns the absolute path of a file of the tree, with slashes.
func (x *question) file(name string) string {
	return filepath.ToSlash(filepath.Join(x.tree.Path, name))
}

// writes returns the reserved files that the command writes. A pattern is compared with the files
// that the command names one by one. What maxSteps do not suffice for counts as unknown to the
// text: it is compared after the command.
func (x *question) writes(ctx context.Context, others []hub.Reservation) (out []touch, err error) {
	written := effects.Compile(x.does.Writes...)
	steps := 0
	for _, r := range others {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if !r.Pattern && steps <= maxSteps && written.Count(x.file(r.Path), &steps) {
			out = append(out, touch{r.Path, "would change"})
		}
	}
	for _, name := range x.written() {
		isHeld := func(r hub.Reservation) bool { return r.Pattern && x.covered.covers(r, name) }
		if slices.ContainsFunc(others, isHeld) {
			out = append(out, touch{name, "would change"})
		}
	}
	return out, nil
}

// written returns the files of the tree that the command names one by one and writes. Beyond
// MaxQuestion the text is not known.
func (x *question) written() (names []string) {
	for _, w := range x.does.Writes {
		rel, err := filepath.Rel(x.tree.Path, filepath.FromSlash(w.Path))
		isInTree := err == nil && filepath.IsLocal(rel)
		isOne := !w.Glob && !w.Spec
		if isInTree && isOne {
			names = append(names, filepath.ToSlash(rel))
		}
	}
	return names[:min(len(names), MaxQuestion)]
}

// writtenByName returns the files that the command names one by one and writes. Their content is the
// agent's own edit.
func (x *question) writtenByName() []string {
	return slices.DeleteFunc(x.written(), func(name string) bool { return name == "." })
}

// gitTouches returns the reserved files that a git command touches. Files that are as the commit
// has them are not touched, except by a switch to a commit in which they differ.
func (x *question) gitTouches(ctx context.Context, g effects.Git, others []hub.Reservation) ([]touch, error) {
	var dirty, all []string
	touches := g.Compile()
	steps := 0
	for _, r := range others {
		f := x.files[r.Path]
		if r.Pattern {
			continue
		}
		all = append(all, r.Path)
		isTouched := (f.Tracked && g.Tracked) || (!f.Tracked && g.Untracked)
		isCompared := isTouched && steps <= maxSteps
		if !f.Clean && isCompared && touches(x.file(r.Path), &steps) {
			dirty = append(dirty, r.Path)
		}
	}

	switch g.Verb {
	case effects.Untree:
		if effects.Compile(g.Paths...).Matches(filepath.ToSlash(x.tree.Path)) {
			return touched(dirtyOf(x, others), "would remove the working tree of"), nil
		}
		return nil, nil
	case effects.Move:
		return touched(all, "would move to another branch, with"), nil
	case effects.Unstash:
		return touched(all, "would remove an entry of the stash that may be of an agent that changes"), nil
	case effects.Discard:
		return touched(dirty, "would throw away changes in"), nil
	case effects.Stage:
		return touched(dirty, "would stage"), nil
	case effects.Switch:
		if len(dirty) > 0 && len(g.Paths) > 0 {
			return touched(dirty, "would throw away changes in"), nil
		}
		differ, err := x.s.trees.Differs(ctx, x.tree, g.Ref, all)
		if err != nil {
			return nil, nil // no such commit: git refuses it, too
		}
		return touched(differ, "would replace"), nil
	case effects.Commit:
		if !g.NoVerify {
			return nil, nil // the hook of git asks
		}
		staged, err := x.s.trees.Staged(ctx, x.tree)
		if err != nil {
			return nil, fmt.Errorf("reservation: read the index: %w", err)
		}
		return touched(slices.DeleteFunc(staged, func(name string) bool { return !slices.Contains(all, name) }), "would commit"), nil
	}
	return nil, nil
}

// dirtyOf returns the held files of others that are not as their commit has them.
func dirtyOf(x *question, others []hub.Reservation) (names []string) {
	for _, r := range others {
		if !r.Pattern && !x.files[r.Path].Clean {
			names = append(names, r.Path)
		}
	}
	return names
}

// mayUnstash reports whether the agent may remove an entry of the stash. Entries that the same
// command added before are its own.
func (x *question) mayUnstash(g effects.Git, before []effects.Git) bool {
	if x.s.keeper == nil {
		return true
	}
	pushed := 0
	for _, o := range before {
		switch {
		case o.Verb == effects.Restash:
			pushed++
		case o.Verb == effects.Unstash && o.Ref != "clear":
			pushed--
		}
	}
	return x.s.keeper.MayUnstash(x.tree, x.actor.ID, g.Ref == "clear", pushed)
}

func touched(names []string, does string) (out []touch) {
	for _, name := range names {
		out = append(out, touch{name, does})
	}
	return out
}

// deniedTouches returns the touched files that others still hold.
func (b *board) deniedTouches(list []touch) []Denial {
	var out []Denial
	for _, t := range list {
		r, ok := b.holderOf(t.name)
		if ok && !slices.ContainsFunc(out, func(d Denial) bool { return d.Path == t.name }) {
			out = append(out, b.denial(r, t.name))
		}
	}
	return out
}

// A callKey names a command that an agent runs in a working tree. An agent may run several.
type callKey struct {
	agent   hub.AgentID
	session string
	tree    string
	command [sha256.Size]byte // of its text
}

func (x *question) call() callKey {
	return callKey{x.actor.ID, x.Session, x.tree.Path, sha256.Sum256([]byte(x.Command))}
}

// watched has the files of others, with their contents, while commands of agents run. It is kept
// in memory: after a restart of the hub a command that ran meanwhile is not compared.
type watched struct {
	mu    sync.Mutex                    // guards calls
	calls map[callKey]map[string]string // digest by name
}

// maxWatched bounds the commands that are watched at once. Commands whose end is never reported
// give way to new ones.
const maxWatched = 1000

func (w *watched) begin(key callKey, files map[string]string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.calls, key)
	if len(files) == 0 {
		return
	}
	for old := range w.calls {
		if len(w.calls) < maxWatched {
			break
		}
		delete(w.calls, old)
	}
	w.calls[key] = files
}

// files returns the files that are watched for a command.
func (w *watched) files(key callKey) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Collect(maps.Keys(w.calls[key]))
}

// compare returns the files that changed since the command began, and forgets the command.
func (w *watched) compare(key callKey, now map[string]File) (changed []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for name, digest := range w.calls[key] {
		if f, ok := now[name]; ok && f.Digest != digest {
			changed = append(changed, name)
		}
	}
	delete(w.calls, key)
	slices.Sort(changed)
	return changed
}

// heldByOthers returns the files that other agents hold, with their contents.
func (b *board) heldByOthers(files map[string]File) map[string]string {
	out := map[string]string{}
	for _, r := range b.all {
		if f, ok := files[r.Path]; ok && r.State == hub.ReservationHeld && r.Holder != b.actor.ID {
			out[r.Path] = f.Digest
		}
	}
	return out
}

// wrote notes that the caller changed a file of another agent, or that the file changed during a
// command of the caller. An edit of the holder that is under way, or was reported meanwhile,
// explains the change; a violation is noted once.
func (b *board) wrote(name string, f File, during bool) error {
	r, ok := b.holderOf(name)
	isNoted := r.Found != r.Digest && r.Found == f.Digest
	if !ok || isNoted || !r.Asked.IsZero() {
		return nil
	}
	views, err := b.tx.Reservations().Views(keyOf(b.tree), name)
	if err != nil {
		return err
	}
	for _, v := range views {
		isReported := v.Agent == r.Holder || !v.At.Before(r.Since.Time) // the latter is a violation that was noted
		if isReported && v.Wrote && v.Digest == f.Digest {
			return nil
		}
	}
	return b.violated(name, r, f, b.actor.ID, during)
}

// violated records that an agent changed a file of another one. Both and the operator are told
// once of all files of a look.
func (b *board) violated(name string, r hub.Reservation, f File, by hub.AgentID, during bool) error {
	if err := b.see(by, name, f.Digest, true); err != nil {
		return err
	}
	i := slices.IndexFunc(b.violations, func(v violation) bool { return v.by == by && v.holder == r.Holder && v.during == during })
	if i < 0 {
		i = len(b.violations)
		b.violations = append(b.violations, violation{id: r.ID, by: by, holder: r.Holder, during: during})
	}
	b.violations[i].names = append(b.violations[i].names, name)

	facts := map[string]any{"tree": b.tree.Path, "path": name, "holder": r.Holder, "by": by}
	if during {
		facts["during_command"] = true
	}
	_, err := b.tx.Append(b.actor.Entry(b.now, actions.ReservationViolated, string(r.ID), facts))
	return err
}

// A violation is a change of files of one agent by another.
type violation struct {
	id     hub.ReservationID // of the first file
	by     hub.AgentID
	holder hub.AgentID
	names  []string
	during bool
}

// tellChanges tells agents and the operator of violations, and of changes that are gone though no
// agent's command ran.
func (b *board) tellChanges() error {
	for _, v := range b.violations {
		text := violationText(v, b.line)
		for _, agent := range []hub.AgentID{v.by, v.holder} {
			other := v.holder
			if agent == v.holder {
				other = v.by
			}
			n := hub.FileNote{Agent: agent, Kind: NoteViolation, Path: v.names[0], Other: other, Text: text}
			if err := b.tx.WriteReservations().AddNote(n); err != nil {
				return err
			}
		}
		about := hub.NoticeSubject{Kind: hub.NoticeViolation, ID: string(v.id)}
		if err := b.tellOperator(text, "compare the files with their commit", v.names[0], about); err != nil {
			return err
		}
	}

	for _, v := range b.restored {
		n := hub.FileNote{Agent: v.holder, Kind: NoteRestored, Path: v.names[0], Text: restoredText("your", v.names)}
		if err := b.tx.WriteReservations().AddNote(n); err != nil {
			return err
		}
		summary := restoredText(string(v.holder)+"'s", v.names)
		if err := b.notify(hub.Operator, hub.PriorityNormal, summary, "nothing, if that was you; a stash is listed by git stash list", v.names[0]); err != nil {
			return err
		}
	}
	b.violations, b.restored = nil, nil
	return nil
}

// A restoration has the files of a holder that are as their commit again, though no agent's
// command ran.
type restoration struct {
	holder hub.AgentID
	names  []string
}

// restore notes the end of a reservation whose file was restored.
func (b *board) restore(r hub.Reservation) {
	i := slices.IndexFunc(b.restored, func(v restoration) bool { return v.holder == r.Holder })
	if i < 0 {
		i = len(b.restored)
		b.restored = append(b.restored, restoration{holder: r.Holder})
	}
	b.restored[i].names = append(b.restored[i].names, r.Path)
}
