package reservation

import (
	"context"
	"crypto/sha256"
	"fmt"
	"path/filepath"
	"slices"
	"sync"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
	"github.com/parley-agents/parley/internal/effects"
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

	found := effects.Read(x.Command, x.Tree)
	var out []touch
	for _, w := range found.Writes {
		for _, r := range others {
			if name, ok := x.writes(w, r); ok {
				out = append(out, touch{name, "would change"})
			}
		}
	}
	for _, g := range found.Git {
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

// writes returns the reserved file that a command writes. A pattern is compared with a target that
// names one file.
func (x *question) writes(w effects.Target, r hub.Reservation) (string, bool) {
	if !r.Pattern {
		return r.Path, w.Matches(x.file(r.Path))
	}
	if w.Glob || w.Spec {
		return "", false
	}
	rel, err := filepath.Rel(x.tree.Path, filepath.FromSlash(w.Path))
	if err != nil || !filepath.IsLocal(rel) {
		return "", false
	}
	name := filepath.ToSlash(rel)
	return name, covers(r, name)
}

// writtenByName returns the files of the tree that the command names one by one and writes. Their
// content is the agent's own edit.
func (x *question) writtenByName() (names []string) {
	if x.Command == "" {
		return nil
	}
	for _, w := range effects.Read(x.Command, x.Tree).Writes {
		rel, err := filepath.Rel(x.tree.Path, filepath.FromSlash(w.Path))
		isFile := err == nil && filepath.IsLocal(rel) && rel != "."
		isOne := !w.Glob && !w.Spec
		if isFile && isOne && len(names) < maxPaths {
			names = append(names, filepath.ToSlash(rel))
		}
	}
	return names
}

// gitTouches returns the reserved files that a git command touches. Files that are as the commit
// has them are not touched, except by a switch to a commit in which they differ.
func (x *question) gitTouches(ctx context.Context, g effects.Git, others []hub.Reservation) ([]touch, error) {
	var dirty, all []string
	for _, r := range others {
		f := x.files[r.Path]
		if r.Pattern {
			continue
		}
		all = append(all, r.Path)
		isTouched := (f.Tracked && g.Tracked) || (!f.Tracked && g.Untracked)
		if !f.Clean && isTouched && g.Touches(x.file(r.Path)) {
			dirty = append(dirty, r.Path)
		}
	}

	switch g.Verb {
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
			out = append(out, denial(r, t.name))
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

// violated notes that the caller changed a file of another agent, or that the file changed during
// a command of the caller. An edit of the holder that is under way, or was reported meanwhile,
// explains the change; a violation is noted once.
func (b *board) violated(name string, f File, during bool) error {
	r, ok := b.holderOf(name)
	if !ok || !r.Asked.IsZero() {
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

	// Both agents and the operator are told.
	text := violationText(b.actor.ID, r.Holder, name, during)
	b.note(Note{Kind: NoteViolation, Path: name, Agent: r.Holder, Text: text})
	if err := b.tx.WriteReservations().AddNote(hub.FileNote{Agent: r.Holder, Kind: NoteViolation, Path: name, Other: b.actor.ID, Text: text}); err != nil {
		return err
	}
	if err := b.see(name, f.Digest, true); err != nil {
		return err
	}
	about := hub.NoticeSubject{Kind: hub.NoticeViolation, ID: string(r.ID)}
	if err := b.tellOperator(text, "compare the file with its commit", name, about); err != nil {
		return err
	}
	facts := map[string]any{"tree": b.tree.Path, "path": name, "holder": r.Holder, "by": b.actor.ID}
	if during {
		facts["during_command"] = true
	}
	_, err = b.tx.Append(b.actor.Entry(b.now, actions.ReservationViolated, string(r.ID), facts))
	return err
}
