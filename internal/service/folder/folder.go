// Package folder keeps a folder for every team that a person can read without the
// program: who is in the team, how its tasks stand, what was decided, the lines of what
// has happened, and the artifacts.
//
// The folder is written from the store by a consumer of the journal, and nothing is read
// back from it. The Markdown files and the manifest are written again when they differ
// from what the store says. The JSONL files are appended to; one that was edited is moved
// aside and written anew, and so is the file of an artifact. Files of others stay. No
// link is followed below the folder of a team.
package folder

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
	"github.com/parley-agents/parley/internal/ground/durable"
)

// Cursor is the name of the cursor with which folders follow the journal.
const Cursor = "team-folders"

const (
	journalBatch = 2000
	renderEvery  = 250 * time.Millisecond // the shortest time between two renderings
	leaseTime    = time.Minute
	metaKey      = "team folder " // and the name of the team
	nameTime     = "20060102T150405.000Z"
)

// Artifacts opens stored content by its SHA-256.
type Artifacts interface {
	Open(sha256 string) (*os.File, error)
}

// Options changes how Folders work. The zero value works.
type Options struct {
	Clock hub.Clock    // default time.Now
	Bus   hub.Bus      // says when the journal grows; without one Run looks every five seconds
	Log   *slog.Logger // default silent
}

// Folders are the folders of all teams. Run and Render are not to be called at once.
type Folders struct {
	store     hub.Store
	artifacts Artifacts
	root      string
	clock     hub.Clock
	bus       hub.Bus
	log       *slog.Logger

	first bool                     // render every team once, in case a file was lost or edited
	teams map[hub.TeamID]*teamFile // those that were rendered by this process
}

// New returns the folders under root, which is made when there is a team.
func New(store hub.Store, artifacts Artifacts, root string, opts *Options) *Folders {
	o := Options{}
	if opts != nil {
		o = *opts
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Folders{store: store, artifacts: artifacts, root: root, clock: o.Clock, bus: o.Bus, log: o.Log, first: true, teams: map[hub.TeamID]*teamFile{}}
}

// Run renders until ctx ends. A failure is logged and tried again.
func (f *Folders) Run(ctx context.Context) {
	hub.Follow(ctx, f.store, f.bus, hub.Consumer{
		Name: lease, Lease: leaseTime, Gap: renderEvery,
		Step: func(ctx context.Context, store hub.Store) (time.Duration, error) {
			more, err := f.render(ctx, store)
			return hub.Rest(more), err
		},
		Failed: func(err error) {
			f.log.Warn("cannot update the team folders, they continue at their cursor", "op", lease, "err", err)
		},
	})
}

// lease is the name of the lease under which one process renders.
const lease = "folder.Render"

// Render brings the folders of the teams that changed up to date, each once however many
// entries concern it. It reports whether there was a new entry.
func (f *Folders) Render(ctx context.Context) (more bool, err error) {
	err = hub.Alone(ctx, f.store, lease, leaseTime, func(store hub.Store) (err error) {
		more, err = f.render(ctx, store)
		return err
	})
	return more, err
}

func (f *Folders) render(ctx context.Context, store hub.Store) (more bool, err error) {
	todo := map[hub.TeamID]*work{}
	var from, last int64
	err = store.View(ctx, func(rd hub.Reader) error {
		if from, err = rd.Cursor(Cursor); err != nil {
			return err
		}
		// After a start, every folder is checked: its files may have changed meanwhile.
		if f.first {
			if err := everyTeam(rd, todo); err != nil {
				return err
			}
		}
		last, err = collect(rd, from, journalBatch, todo)
		return err
	})
	if err != nil {
		return false, fmt.Errorf("folder: %w", err)
	}

	states := map[hub.TeamID]state{}
	for id, w := range todo {
		t, err := f.team(ctx, store, id)
		if err != nil {
			return false, fmt.Errorf("folder: %s: %w", id, err)
		}
		if err := f.renderTeam(ctx, store, t, w, last); err != nil {
			delete(f.teams, id) // its files are looked at again
			return false, fmt.Errorf("folder: %s: %w", id, err)
		}
		states[id] = t.state
	}
	f.first = false

	// The cursor moves after the files: a kill makes the next start render them again.
	if last == from {
		return false, nil
	}
	return true, store.Update(ctx, hub.SurvivesKill, func(tx hub.Tx) error {
		for id, s := range states {
			if err := hub.WriteMeta(tx, metaKey+string(id), s); err != nil {
				return err
			}
		}
		return tx.PutCursor(Cursor, last)
	})
}

// everyTeam marks every team that is not archived.
func everyTeam(rd hub.Reader, todo map[hub.TeamID]*work) error {
	var cursor hub.TeamID
	for {
		page, err := rd.Teamspaces().Teams(hub.TeamQuery{Cursor: cursor, Limit: 200})
		if err != nil || len(page) == 0 {
			return err
		}
		for _, t := range page {
			workOf(todo, t.ID).whole = true
			cursor = t.ID
		}
	}
}

// A work is the changes that the new entries of the journal make in the folder of a team.
type work struct {
	lines     map[string][]byte  // to append, by file
	versions  map[string][]int64 // new ones, by artifact
	forgotten map[hub.EnvelopeID][]byte
	decided   bool // there may be a new decision
	whole     bool // look at every file
}

func workOf(todo map[hub.TeamID]*work, id hub.TeamID) *work {
	w := todo[id]
	if w == nil {
		w = &work{lines: map[string][]byte{}, versions: map[string][]int64{}, forgotten: map[hub.EnvelopeID][]byte{}}
		todo[id] = w
	}
	return w
}

// collect reads entries after a number, at most limit of them, into the work of their
// teams. It returns the number of the last one.
func collect(rd hub.Reader, after int64, limit int, todo map[hub.TeamID]*work) (int64, error) {
	entries, err := rd.Journal(hub.JournalQuery{After: after, Limit: limit})
	if err != nil {
		return after, err
	}
	for _, e := range entries {
		if err := note(rd, e, todo); err != nil {
			return after, err
		}
		after = e.Seq
	}
	return after, nil
}

// An event is a line about an entry of the journal.
type event struct {
	Seq    int64           `json:"seq"`
	At     hub.Time        `json:"at,omitzero"`
	By     hub.AgentID     `json:"by"`
	Action actions.Action  `json:"action"`
	ID     string          `json:"id,omitempty"`      // of a handoff
	Task   string          `json:"task_id,omitempty"` // of a handoff
	Title  string          `json:"title,omitempty"`   // of a task, or of the task of a handoff
	Reason string          `json:"reason,omitempty"`  // why the task changes hands
	From   hub.AgentID     `json:"from,omitempty"`
	To     hub.AgentID     `json:"to,omitempty"`
	Facts  json.RawMessage `json:"facts,omitempty"`
}

// A letter is a line about a message of the team.
type letter struct {
	ID       hub.EnvelopeID  `json:"id"`
	At       hub.Time        `json:"at,omitzero"`
	From     hub.AgentID     `json:"from"`
	To       []hub.AgentID   `json:"to"`
	Type     hub.MessageType `json:"type"`
	Topic    string          `json:"topic,omitempty"`
	ThreadID string          `json:"thread_id,omitempty"`
	ReplyTo  hub.EnvelopeID  `json:"reply_to,omitempty"`
	Priority hub.Priority    `json:"priority"`
	Payload  json.RawMessage `json:"payload,omitempty"`
}

// The JSONL files, by the actions that their lines are about.
const (
	messageFile  = "messages/messages.jsonl"
	handoffFile  = "handoffs/handoffs.jsonl"
	roleFile     = "roles/ledger.jsonl"
	decisionFile = "decisions/decisions.jsonl"
	registryFile = "artifacts/registry.jsonl"
	taskFile     = "tasks/tasks.jsonl"
	conflictFile = "conflicts/conflicts.jsonl"
)

var eventFiles = map[actions.Action]string{
	actions.TeamJoined: roleFile, actions.TeamLeft: roleFile, actions.TeamRole: roleFile,
	actions.TeamTask: taskFile, actions.TeamConflict: conflictFile,
}

// note adds the work of one entry.
func note(rd hub.Reader, e hub.Entry, todo map[hub.TeamID]*work) error {
	if id, ok := strings.CutPrefix(e.Subject, "team/"); ok {
		return noteTeam(rd, e, workOf(todo, hub.TeamID(id)))
	}
	switch family, _, _ := strings.Cut(string(e.Action), "."); family {
	case "message":
		return noteMessage(rd, e, todo)
	case "handoff":
		h, err := rd.Handoff(hub.HandoffID(e.Subject))
		if err == nil && h.Team != "" {
			line := event{Seq: e.Seq, At: e.At, By: e.Actor, Action: e.Action, ID: string(h.ID), Task: h.TaskID, Title: h.Title, Reason: h.Reason, From: h.From, To: h.To}
			if h.Restricted {
				line.Title, line.Reason = hub.RestrictedText, hub.RestrictedText
			}
			err = workOf(todo, h.Team).add(handoffFile, line)
		}
		return present(err)
	case "deliberation":
		d, err := rd.Deliberation(strings.TrimPrefix(e.Subject, "deliberation/"))
		if err == nil && d.Team != "" {
			workOf(todo, hub.TeamID(d.Team)).decided = true
		}
		return present(err)
	}
	return nil
}

// present returns err unless it says that something is not in the store any more.
func present(err error) error {
	if hub.CodeOf(err) == hub.CodeNotFound {
		return nil
	}
	return err
}

func noteTeam(rd hub.Reader, e hub.Entry, w *work) error {
	var facts struct {
		Task     hub.TaskID `json:"task_id"`
		Artifact string     `json:"artifact_id"`
		Version  int64      `json:"version"`
	}
	if err := json.Unmarshal(e.Facts, &facts); err != nil && len(e.Facts) > 0 {
		return err
	}

	// The files of the parents change, too: a parent may have been the newest version.
	if e.Action == actions.TeamArtifact {
		v, err := rd.Teamspaces().ArtifactVersion(hub.TeamID(strings.TrimPrefix(e.Subject, "team/")), facts.Artifact, facts.Version)
		if err != nil {
			return err
		}
		w.versions[v.Artifact] = append(append(w.versions[v.Artifact], v.Version, v.Parent), v.Parents...)
		return w.add(registryFile, v)
	}

	w.decided = w.decided || e.Action == actions.TeamDecided
	file, ok := eventFiles[e.Action]
	if !ok {
		return nil
	}

	line := event{Seq: e.Seq, At: e.At, By: e.Actor, Action: e.Action, Facts: e.Facts}
	if facts.Task != "" {
		t, err := rd.Teamspaces().Task(facts.Task)
		if err != nil {
			return err
		}
		line.Title = t.Title
	}
	return w.add(file, line)
}

// noteMessage adds a message that all members may read. Those of others, and the content
// of handoffs, stay out of the folder.
func noteMessage(rd hub.Reader, e hub.Entry, todo map[hub.TeamID]*work) error {
	if e.Action != actions.MessageSent && e.Action != actions.MessageApproved && e.Action != actions.MessageForgotten {
		return nil
	}
	m, err := rd.Message(hub.EnvelopeID(e.Subject))
	if err != nil || m.Team == "" || m.Policy.Visibility != hub.VisibilityTeam {
		return present(err)
	}
	l := letter{ID: m.ID, At: m.CreatedAt, From: m.From, To: m.To, Type: m.Type, Topic: m.Topic, ThreadID: m.ThreadID, ReplyTo: m.ReplyTo, Priority: m.Priority}
	if m.Type.Family() != "handoff" {
		l.Payload = m.Payload
	}
	w := workOf(todo, hub.TeamID(m.Team))
	if e.Action != actions.MessageForgotten {
		return w.add(messageFile, l)
	}
	w.forgotten[m.ID], err = line(l)
	return err
}

// add adds a line to a file.
func (w *work) add(file string, v any) error {
	b, err := line(v)
	w.lines[file] = append(w.lines[file], b...)
	return err
}

// line returns a value as a line of JSON, whose members always have the same order.
func line(v any) ([]byte, error) {
	b, err := json.Marshal(v)
	return append(b, '\n'), err
}

// A state is the content of a team's folder, as the store keeps it beside the cursor.
type state struct {
	Files map[string]mark `json:"files"` // the JSONL files
}

// A mark is the end of a JSONL file.
type mark struct {
	Bytes int64  `json:"bytes"`
	Hash  string `json:"hash"` // a chain: of the hash before the last line, and that line
}

// after returns the mark after more lines.
func (m mark) after(lines []byte) mark {
	for l := range bytes.Lines(lines) {
		sum := sha256.Sum256(append([]byte(m.Hash), l...))
		m.Bytes, m.Hash = m.Bytes+int64(len(l)), hex.EncodeToString(sum[:])
	}
	return m
}

// A stamp tells whether a file was changed since it was written or looked at.
type stamp struct {
	size int64
	at   time.Time
}

// A teamFile is the folder of one team.
type teamFile struct {
	id    hub.TeamID
	dir   string
	state state
	seen  map[string]stamp // by path in the folder
	now   hub.Time         // of this rendering
}

// team returns the folder of a team, as it was left.
func (f *Folders) team(ctx context.Context, store hub.Store, id hub.TeamID) (*teamFile, error) {
	t := f.teams[id]
	if t == nil {
		s, err := hub.Read(ctx, store, func(rd hub.Reader) (state, error) { return hub.ReadMeta[state](rd, metaKey+string(id)) })
		if err != nil {
			return nil, err
		}
		if s.Files == nil {
			s.Files = map[string]mark{}
		}
		t = &teamFile{id: id, dir: filepath.Join(f.root, string(id)), state: s, seen: map[string]stamp{}}
		f.teams[id] = t
	}
	t.now = f.clock.Now()
	return t, nil
}

// renderTeam brings the folder of a team up to the entry last.
func (f *Folders) renderTeam(ctx context.Context, store hub.Store, t *teamFile, w *work, last int64) error {
	if err := os.MkdirAll(f.root, 0o700); err != nil {
		return err
	}
	if err := t.makeDir("."); err != nil {
		return err
	}
	for _, dir := range []string{"artifacts", "snapshots"} {
		if err := t.makeDir(dir); err != nil {
			return err
		}
	}

	v, err := hub.Read(ctx, store, func(rd hub.Reader) (view, error) { return read(rd, t.id) })
	if err != nil {
		return err
	}
	for name, content := range v.files() {
		if err := t.replace(name, content); err != nil {
			return err
		}
	}

	// A closed or archived team has a snapshot, named after the time when it was closed.
	if v.team.ReadOnly() {
		content, err := hub.Read(ctx, store, func(rd hub.Reader) ([]byte, error) { return snapshot(rd, v) })
		if err != nil {
			return err
		}
		if err := t.keep("snapshots/snapshot-"+v.team.ClosedAt.UTC().Format(nameTime)+".json", content); err != nil {
			return err
		}
	}

	for _, name := range []string{messageFile, handoffFile, roleFile, registryFile, taskFile, conflictFile} {
		if err := f.appendLines(ctx, store, t, name, w, last); err != nil {
			return err
		}
	}
	if err := f.renderDecisions(ctx, store, t, w); err != nil {
		return err
	}
	return f.renderArtifacts(ctx, store, t, w)
}

// renderDecisions writes the decisions, which the store keeps for ever.
func (f *Folders) renderDecisions(ctx context.Context, store hub.Store, t *teamFile, w *work) error {
	const page = "DECISIONS.md"
	// Files that were edited or lost are written again, even without a new decision.
	for _, name := range []string{page, decisionFile} {
		untouched, err := t.untouched(name)
		if err != nil {
			return err
		}
		w.decided = w.decided || !untouched
	}
	if !w.decided && !w.whole {
		return nil
	}

	all, err := hub.Read(ctx, store, func(rd hub.Reader) ([]hub.Decision, error) { return decisions(rd, t.id) })
	if err != nil {
		return err
	}
	var lines []byte
	for _, d := range all {
		one, err := line(d)
		if err != nil {
			return err
		}
		lines = append(lines, one...)
	}

	if err := t.keep(decisionFile, lines); err != nil {
		return err
	}
	if err := t.replace(page, decisionPage(t.id, all)); err != nil {
		return err
	}
	return errors.Join(t.look(page), t.look(decisionFile))
}

// appendLines appends the new lines to a JSONL file. A file that is not as it was left is
// moved aside and written anew from the store.
func (f *Folders) appendLines(ctx context.Context, store hub.Store, t *teamFile, name string, w *work, last int64) error {
	known, text := t.state.Files[name], w.lines[name]
	if name == messageFile && len(w.forgotten) > 0 {
		if err := t.forget(&known, w.forgotten); err != nil {
			return err
		}
	}

	untouched, err := t.untouched(name)
	if err != nil {
		return err
	}

	// A file that ends with a part of the new lines was left by a kill; after any other change
	// it is moved aside.
	if !untouched {
		have, err := t.read(name)
		if err != nil {
			return err
		}
		whole := int64(len(have)) >= known.Bytes && mark{}.after(have[:known.Bytes]) == known
		switch {
		case whole && bytes.HasPrefix(text, have[known.Bytes:]): // the rest was written before a kill
			rest := have[known.Bytes:]
			known, text = known.after(rest), text[len(rest):]
		case len(have) == 0 && known.Bytes == 0:
		default:
			if err := t.aside(name); err != nil {
				return err
			}
			if text, err = f.again(ctx, store, t.id, name, last); err != nil {
				return err
			}
			known = mark{}
		}
	}

	if len(text) > 0 {
		if err := t.append(name, text); err != nil {
			return err
		}
	}
	t.state.Files[name] = known.after(text)
	return t.look(name)
}

// again returns all lines of a file up to an entry.
func (f *Folders) again(ctx context.Context, store hub.Store, id hub.TeamID, name string, last int64) ([]byte, error) {
	var text []byte
	for after := int64(0); after < last; {
		todo := map[hub.TeamID]*work{}
		next, err := hub.Read(ctx, store, func(rd hub.Reader) (int64, error) { return collect(rd, after, journalBatch, todo) })
		if err != nil || next == after {
			return text, err
		}
		text = append(text, workOf(todo, id).lines[name]...)
		after = next
	}
	return text, nil
}

// forget replaces the lines of messages whose text was removed.
func (t *teamFile) forget(known *mark, forgotten map[hub.EnvelopeID][]byte) error {
	have, err := t.read(messageFile)
	if err != nil || int64(len(have)) < known.Bytes || (mark{}).after(have[:known.Bytes]) != *known {
		return err // it is written anew, without the text
	}
	var text []byte
	for l := range bytes.Lines(have[:known.Bytes]) {
		var m letter
		if json.Unmarshal(l, &m) == nil && forgotten[m.ID] != nil {
			l = forgotten[m.ID]
		}
		text = append(text, l...)
	}
	tail := have[known.Bytes:]
	*known = mark{}.after(text)
	return t.write(messageFile, append(text, tail...)) // not looked at: the tail is compared
}

// renderArtifacts writes the files of new versions, and of all that were edited or lost.
func (f *Folders) renderArtifacts(ctx context.Context, store hub.Store, t *teamFile, w *work) error {
	// One file that was edited or lost makes the files of all versions due.
	for name := range t.seen {
		if strings.HasPrefix(name, "artifacts/") && name != registryFile && !w.whole {
			untouched, err := t.untouched(name)
			if err != nil {
				return err
			}
			w.whole = !untouched
		}
	}
	if w.whole {
		err := store.View(ctx, func(rd hub.Reader) error { return everyVersion(rd, t.id, w.versions) })
		if err != nil {
			return err
		}
	}

	for id, versions := range w.versions {
		var newest int64
		sums := map[int64]string{}
		err := store.View(ctx, func(rd hub.Reader) error {
			a, err := rd.Teamspaces().TeamArtifact(t.id, id)
			newest = a.Version
			for _, n := range append(versions, newest) {
				if n == 0 || err != nil {
					continue
				}
				var v hub.ArtifactVersion
				v, err = rd.Teamspaces().ArtifactVersion(t.id, id, n)
				sums[n] = v.SHA256
			}
			return err
		})
		if err != nil {
			return err
		}

		// The newest version has the name of the artifact; the others are in a hidden folder.
		for n, sum := range sums {
			name := path.Join("artifacts/.versions", id, strconv.FormatInt(n, 10))
			if n == newest {
				name = path.Join("artifacts", id)
			}
			if err := f.renderArtifact(t, name, sum, slices.Collect(maps.Values(sums))); err != nil {
				return err
			}
		}
	}
	return nil
}

// everyVersion adds all versions of all artifacts of a team.
func everyVersion(rd hub.Reader, id hub.TeamID, into map[string][]int64) error {
	cursor := ""
	for {
		page, err := rd.Teamspaces().TeamArtifacts(hub.ArtifactQuery{Team: id, Cursor: cursor, Limit: 200})
		if err != nil || len(page) == 0 {
			return err
		}
		for _, a := range page {
			for n := int64(1); n <= a.Versions; n++ {
				into[a.ID] = append(into[a.ID], n)
			}
			cursor = a.ID
		}
	}
}

// renderArtifact writes the content of a version into a file. Content that is that of
// no version is moved aside.
func (f *Folders) renderArtifact(t *teamFile, name, sum string, versions []string) error {
	have, err := t.read(name)
	if err != nil {
		return err
	}

	if have != nil {
		got := sha256.Sum256(have)
		was := hex.EncodeToString(got[:])
		if was == sum {
			return t.look(name)
		}
		// Content of another version can be written again; any other content is an edit.
		if !slices.Contains(versions, was) {
			if err := t.aside(name); err != nil {
				return err
			}
		}
	}

	src, err := f.artifacts.Open(sum)
	if err != nil {
		return err
	}
	defer src.Close()
	content, err := io.ReadAll(src)
	if err != nil {
		return err
	}

	if err := t.write(name, content); err != nil {
		return err
	}
	return t.look(name)
}

// path returns the path of a file of the folder.
func (t *teamFile) path(name string) string { return filepath.Join(t.dir, filepath.FromSlash(name)) }

// makeDir makes a folder in the folder of the team, which is "." itself. A link or a file
// in its place is moved aside.
func (t *teamFile) makeDir(name string) error {
	if name != "." {
		if err := t.makeDir(path.Dir(name)); err != nil {
			return err
		}
	}
	info, err := os.Lstat(t.path(name))
	if err == nil && info.IsDir() {
		return nil
	}
	if err == nil {
		err = t.rename(name)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.Mkdir(t.path(name), 0o700)
}

// rename moves a file, a link or a folder out of the way.
func (t *teamFile) rename(name string) error {
	to := t.path(name) + ".edited-" + t.now.UTC().Format(nameTime)
	for i := 2; ; i++ {
		if _, err := os.Lstat(to); errors.Is(err, fs.ErrNotExist) {
			return durable.Rename(t.path(name), to)
		}
		to = fmt.Sprintf("%s-%d", strings.TrimSuffix(to, fmt.Sprintf("-%d", i-1)), i)
	}
}

// aside moves a file out of the way, if there is one.
func (t *teamFile) aside(name string) error {
	err := t.rename(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// read returns the content of a file, nil if there is none. What is no regular file is
// moved aside.
func (t *teamFile) read(name string) ([]byte, error) {
	if there, err := t.prepare(name); err != nil || !there {
		return nil, err
	}
	b, err := os.ReadFile(t.path(name))
	return append([]byte{}, b...), err
}

// prepare makes the folder of a file, moves aside what is no regular file, and reports
// whether the file exists.
func (t *teamFile) prepare(name string) (bool, error) {
	if err := t.makeDir(path.Dir(name)); err != nil {
		return false, err
	}
	info, err := os.Lstat(t.path(name))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err == nil && !info.Mode().IsRegular():
		return false, t.rename(name)
	}
	return err == nil, err
}

// look remembers how a file is now.
func (t *teamFile) look(name string) error {
	info, err := os.Lstat(t.path(name))
	if errors.Is(err, fs.ErrNotExist) {
		delete(t.seen, name)
		return nil
	}
	if err == nil {
		t.seen[name] = stamp{info.Size(), info.ModTime()}
	}
	return err
}

// untouched reports whether a file is as it was when it was last looked at.
func (t *teamFile) untouched(name string) (bool, error) {
	info, err := os.Lstat(t.path(name))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	was, ok := t.seen[name]
	return ok && info.Mode().IsRegular() && was == stamp{info.Size(), info.ModTime()}, nil
}

// replace writes a file unless it has the content already.
func (t *teamFile) replace(name string, content []byte) error {
	have, err := t.read(name)
	if err != nil || (have != nil && bytes.Equal(have, content)) {
		return err
	}
	return t.write(name, content)
}

// keep is replace for a file that grows or stays: one that was edited is moved aside.
func (t *teamFile) keep(name string, content []byte) error {
	have, err := t.read(name)
	switch {
	case err != nil || (have != nil && bytes.Equal(have, content)):
		return err
	case bytes.HasPrefix(content, have) && len(have) > 0:
		return t.append(name, content[len(have):])
	case len(have) > 0:
		if err := t.aside(name); err != nil {
			return err
		}
	}
	return t.write(name, content)
}

// write replaces a file.
func (t *teamFile) write(name string, content []byte) error {
	if _, err := t.prepare(name); err != nil {
		return err
	}
	return durable.WriteFile(t.path(name), content, 0o600)
}

// append appends to a file, and syncs it.
func (t *teamFile) append(name string, text []byte) error {
	if _, err := t.prepare(name); err != nil {
		return err
	}
	out, err := os.OpenFile(t.path(name), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	_, err = out.Write(text)
	return errors.Join(err, out.Sync(), out.Close())
}
