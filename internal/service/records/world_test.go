package records_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
	"github.com/parley-agents/parley/internal/engine/blobs"
	"github.com/parley-agents/parley/internal/engine/bus"
	"github.com/parley-agents/parley/internal/ground/shape"
	"github.com/parley-agents/parley/internal/service/journal"
	"github.com/parley-agents/parley/internal/service/keys"
	"github.com/parley-agents/parley/internal/service/mailroom"
	"github.com/parley-agents/parley/internal/service/records"
	"github.com/parley-agents/parley/internal/testing/storetest"
)

var (
	operator = hub.Caller{ID: hub.Operator, Role: hub.RoleCoordinator, Auditor: true}
	ada      = hub.Caller{ID: "ada", Role: hub.RoleExecutor}
	bob      = hub.Caller{ID: "bob", Role: hub.RoleReviewer}
	eve      = hub.Caller{ID: "eve", Role: hub.RoleExecutor}
)

// A world is a hub with real services over a real store, and a clock that
// stands still.
type world struct {
	t     *testing.T
	home  string
	place *storetest.Home
	store storetest.Store
	facts factStore
	bus   *bus.Local
	now   time.Time
	ids   *hub.IDs

	keys    *keys.Service
	mail    *mailroom.Mailroom
	content *blobs.Store
	records *records.Records
	journal *journal.Journal
}

// newWorld returns a world with an operator and three agents.
func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, home: filepath.Join(t.TempDir(), "home"), bus: new(bus.Local), now: time.Date(2026, 2, 21, 9, 0, 0, 0, time.UTC)}
	w.ids = hub.NewIDs(w.clock)
	w.place = storetest.NewHome(t, w.home)
	w.open()
	t.Cleanup(w.close)
	w.must(w.keys.EnsureOperator(t.Context(), ""))
	for _, a := range []hub.Caller{ada, bob, eve} {
		_, _, _, err := w.keys.AddAgent(t.Context(), operator, hub.Agent{ID: a.ID, Role: a.Role, Auditor: a.Auditor}, keys.NewKey{})
		w.must(nil, err)
	}
	return w
}

// must fails the test on an error.
func (w *world) must(_ any, err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) trail() string    { return filepath.Join(w.home, "trail") }
func (w *world) archives() string { return filepath.Join(w.home, "archives") }
func (w *world) clock() time.Time { return w.now }

// open opens the store and makes services on it, as a start of the hub does.
func (w *world) open() {
	w.t.Helper()
	w.store = w.place.Open()
	w.facts = factStore{w.store}
	w.keys = keys.New(w.facts, &keys.Options{Clock: w.clock, Bus: w.bus})
	var err error
	w.content, err = blobs.Open(filepath.Join(w.home, "artifacts"), nil)
	w.must(nil, err)
	opts := &mailroom.Options{
		Clock: w.clock, Bus: w.bus, Artifacts: w.content,
	}
	w.mail, err = mailroom.New(w.facts, w.keys, opts)
	w.must(nil, err)
	w.journal = journal.New(w.store, &journal.Options{Clock: w.clock, Bus: w.bus})
	w.records = w.recordsWith(w.store, records.Options{})
}

// recordsWith returns the records of the world with other options, on a store
// that may be a wrapped one.
func (w *world) recordsWith(store hub.Store, opts records.Options) *records.Records {
	opts.Clock, opts.Bus, opts.Artifacts = w.clock, w.bus, w.content
	if s, ok := store.(interface{ EmptyLog(context.Context) error }); ok {
		opts.EmptyLog = s.EmptyLog
	}
	return records.New(store, records.Folders{Trail: w.trail(), Archives: w.archives()}, &opts)
}

func (w *world) close() {
	w.t.Helper()
	if w.store == nil {
		return
	}
	if err := w.store.Close(); err != nil {
		w.t.Error(err)
	}
}

func (w *world) pass(d time.Duration) { w.now = w.now.Add(d) }

// send sends a message a second later than what came before.
func (w *world) send(from hub.Caller, d mailroom.Draft) hub.EnvelopeID {
	w.t.Helper()
	w.pass(time.Second)
	if d.Type == "" {
		d.Type = hub.TypeStatusUpdate
	}
	if d.Text == "" && d.Payload.IsZero() {
		d.Text = "message at " + hub.At(w.now).String()
	}
	r, err := w.mail.Send(w.t.Context(), from, d)
	w.must(nil, err)
	return r.ID
}

// fetch empties an inbox; ack says that everything in it was processed.
func (w *world) fetch(who hub.Caller, ack bool) {
	w.t.Helper()
	w.pass(time.Second)
	w.must(w.mail.Inbox(w.t.Context(), who, mailroom.InboxRequest{Limit: 200, AckAll: ack}))
}

func (w *world) update(fn func(hub.Tx) error) {
	w.t.Helper()
	w.must(nil, w.store.Update(w.t.Context(), hub.SurvivesKill, fn))
}

func (w *world) view(fn func(hub.Reader) error) {
	w.t.Helper()
	w.must(nil, w.store.View(w.t.Context(), fn))
}

// entries returns the whole journal.
func (w *world) entries() (all []hub.Entry) {
	w.t.Helper()
	w.view(func(r hub.Reader) (err error) {
		all, err = r.Journal(hub.JournalQuery{Limit: 1_000_000})
		return err
	})
	return all
}

// rowOf returns the number of the n-th entry of an action, counted from 0.
func (w *world) rowOf(a actions.Action, n int) int64 {
	w.t.Helper()
	for _, e := range w.entries() {
		if e.Action == a {
			if n == 0 {
				return e.Seq
			}
			n--
		}
	}
	w.t.Fatalf("no %s", a)
	return 0
}

func (w *world) copy() {
	w.t.Helper()
	w.must(nil, w.records.Copy(w.t.Context()))
}

func (w *world) verify() records.Audit {
	w.t.Helper()
	return w.verifyIn(records.Folders{Trail: w.trail(), Archives: w.archives()})
}

func (w *world) verifyIn(f records.Folders) records.Audit {
	w.t.Helper()
	a, err := records.New(w.store, f, nil).Verify(w.t.Context())
	w.must(nil, err)
	if got := w.verifyInParts(f); !reflect.DeepEqual(got, a) {
		w.t.Errorf("a verification that paused after every page: got %+v, want %+v", got, a)
	}
	return a
}

// verifyInParts verifies a page at a time, each in another process as far as the
// records can tell.
func (w *world) verifyInParts(f records.Folders) (a records.Audit) {
	w.t.Helper()
	f.Position = filepath.Join(w.t.TempDir(), "position")
	for resume := ""; ; resume = a.Progress.ID {
		var err error
		a, err = records.New(w.store, f, nil).VerifyFor(w.t.Context(), 0, resume)
		w.must(nil, err)
		if a.Progress == nil {
			break
		}
	}
	if _, err := os.Stat(f.Position); !errors.Is(err, fs.ErrNotExist) {
		w.t.Errorf("the position: got %v, want that it is removed at the end", err)
	}
	return a
}

// wantClean checks that an audit has found nothing.
func (w *world) wantClean() records.Audit {
	w.t.Helper()
	a := w.verify()
	for _, f := range a.Findings {
		w.t.Errorf("found: %s", f)
	}
	return a
}

// wantFound checks that an audit has found exactly what is said, in any order.
// A "#" stands for any hash.
func (w *world) wantFound(want ...string) {
	w.t.Helper()
	var got []string
	for _, f := range w.verify().Findings {
		got = append(got, hashes.ReplaceAllString(f.String(), "hash is #, but # was recorded"))
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		w.t.Errorf("findings:\ngot  %s\nwant %s", strings.Join(got, "\n     "), strings.Join(want, "\n     "))
	}
}

var hashes = regexp.MustCompile(`hash is \w{12}, but \w{12} was recorded`)

// handoffPackage returns a package with its hash.
func handoffPackage(t *testing.T, text string) (json.RawMessage, string) {
	t.Helper()
	pkg := fmt.Sprintf(`{"task":{"title":%q},"provenance":{"handoff_chain":["ada"]},"verification":{"package_hash":"%%"}}`, text)
	hash, err := shape.PackageHash([]byte(pkg))
	if err != nil {
		t.Fatal(err)
	}
	return json.RawMessage(strings.ReplaceAll(pkg, "%", hash)), hash
}

// propose hands a task from ada to bob.
func (w *world) propose(title string, restricted bool) hub.Handoff {
	w.t.Helper()
	w.pass(time.Second)
	at := hub.At(w.now)
	h := hub.Handoff{
		ID: hub.HandoffID(w.ids.Next()), ThreadID: "thread of " + title, TaskID: "task of " + title, From: "ada", To: "bob", Title: title,
		Reason: "ada leaves", Status: hub.HandoffProposed, Restricted: restricted, NeedsHuman: restricted, InitiatedAt: at,
	}
	h.Package, h.Hash = handoffPackage(w.t, title)
	step := hub.HandoffStep{State: hub.HandoffProposed, At: at, Actor: "ada", Note: "please"}
	w.update(func(tx hub.Tx) error {
		if err := tx.PutHandoff(h, "", &step); err != nil {
			return err
		}
		return w.record(tx, h, step, map[string]any{"sha256": h.Digest()})
	})
	return h
}

// record writes the journal entry of a step.
func (w *world) record(tx hub.Tx, h hub.Handoff, s hub.HandoffStep, more map[string]any) error {
	facts := map[string]any{"task_id": h.TaskID, "from": h.From, "to": h.To, "package_hash": h.Hash, "step_sha256": s.Digest()}
	for k, v := range more {
		facts[k] = v
	}
	raw, err := json.Marshal(facts)
	if err != nil {
		return err
	}
	_, err = tx.Append(hub.Entry{
		At: s.At, Actor: s.Actor, Action: actions.Action("handoff." + s.State), Subject: string(h.ID), Outcome: hub.OutcomeOK, Facts: raw,
	})
	return err
}

// move moves a handoff by one step.
func (w *world) move(h hub.Handoff, next hub.HandoffState) hub.Handoff {
	w.t.Helper()
	w.pass(time.Second)
	at := hub.At(w.now)
	moved, err := h.Advance(next, at)
	w.must(nil, err)
	step := hub.HandoffStep{State: next, At: at, Actor: "bob"}
	if next == hub.HandoffAccepted {
		step.Checks = []hub.Check{{What: "package_hash", Result: hub.CheckVerified, Detail: "it fits"}}
	}
	more := map[string]any{}
	if next == hub.HandoffRejected {
		moved.RejectReason, moved.Ending = hub.RejectOther, hub.EndedRejected
		more["reject_reason"], more["ending"] = moved.RejectReason, moved.Ending
	}
	w.update(func(tx hub.Tx) error {
		if err := tx.PutHandoff(moved, h.Status, &step); err != nil {
			return err
		}
		return w.record(tx, moved, step, more)
	})
	return moved
}

// raw runs statements on the closed database as another program would, with
// nothing that stands against it.
func (w *world) raw(sql string) {
	w.t.Helper()
	w.place.Exec(sql)
}

// export writes an export.
func (w *world) export(dir string) records.Manifest {
	w.t.Helper()
	m, err := w.records.Export(w.t.Context(), dir, func(ctx context.Context, begin func(int) error, emit func(string, []byte) error) error {
		return w.store.Dump(ctx, begin, emit, false)
	})
	w.must(nil, err)
	return m
}

// clone returns a world of its own with the same content.
func (w *world) clone(t *testing.T) *world {
	t.Helper()
	c := w.duplicate(t)
	c.open()
	return c
}

// duplicate returns a world of its own with the same content that is not open.
func (w *world) duplicate(t *testing.T) *world {
	t.Helper()
	c := *w
	c.t, c.home, c.store = t, filepath.Join(t.TempDir(), "home"), nil
	c.place = w.place.Copy(t, c.home)
	c.ids = hub.NewIDs(c.clock)
	t.Cleanup(c.close)
	return &c
}

// edit changes a file.
func (w *world) edit(path string, change func([]byte) []byte) {
	w.t.Helper()
	b, err := os.ReadFile(path)
	w.must(nil, err)
	next := change(slices.Clone(b))
	if slices.Equal(next, b) {
		w.t.Fatalf("%s was not changed", path)
	}
	w.must(nil, os.WriteFile(path, next, 0o600))
}

// reseal changes bytes of a segment that no reader of its lines can see, and seals it
// again.
func (w *world) reseal(path string) {
	w.t.Helper()
	lines := w.lines(path)
	body := strings.Replace(strings.Join(lines[:len(lines)-1], ""), "}\n", "} \n", 1)
	var last struct {
		Seal struct {
			SHA256 string `json:"sha256"`
		} `json:"seal"`
	}
	w.must(nil, json.Unmarshal([]byte(lines[len(lines)-1]), &last))
	seal := strings.Replace(lines[len(lines)-1], last.Seal.SHA256, fmt.Sprintf("%x", sha256.Sum256([]byte(body))), 1)
	w.must(nil, os.WriteFile(path, []byte(body+seal), 0o600))
}

func (w *world) lines(path string) []string {
	w.t.Helper()
	b, err := os.ReadFile(path)
	w.must(nil, err)
	lines := strings.SplitAfter(string(b), "\n")
	return lines[:len(lines)-1]
}

// A factStore adds to entries the digest of what they record.
type factStore struct{ hub.Store }

func (s factStore) Update(ctx context.Context, d hub.Durability, fn func(hub.Tx) error) error {
	return s.Store.Update(ctx, d, func(tx hub.Tx) error { return fn(&factTx{tx, map[string]string{}}) })
}

type factTx struct {
	hub.Tx
	digests map[string]string
}

func (tx *factTx) AddMessage(m hub.Message, parties []hub.Party) error {
	tx.digests[string(m.ID)] = m.Digest()
	return tx.Tx.AddMessage(m, parties)
}

func (tx *factTx) AddKey(k hub.Key) error {
	tx.digests[string(k.ID)] = k.Digest()
	return tx.Tx.AddKey(k)
}

func (tx *factTx) Append(e hub.Entry) (hub.Entry, error) {
	switch e.Action {
	case actions.MessageSent, actions.MessageHeld, actions.KeyMinted:
		facts := map[string]any{}
		if err := json.Unmarshal(e.Facts, &facts); err != nil {
			return e, err
		}
		facts["sha256"] = tx.digests[e.Subject]
		raw, err := json.Marshal(facts)
		if err != nil {
			return e, err
		}
		e.Facts = raw
	}
	return tx.Tx.Append(e)
}
