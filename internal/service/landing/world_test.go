package landing_test

import (
	"context"
	"encoding/json"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/engine/blobs"
	"github.com/parley-agents/parley/internal/service/keys"
	"github.com/parley-agents/parley/internal/service/landing"
	"github.com/parley-agents/parley/internal/service/mailroom"
	"github.com/parley-agents/parley/internal/testing/storetest"
)

var (
	operator = hub.Caller{Kind: hub.CallerOperator, ID: hub.Operator}
	ada      = hub.Caller{Kind: hub.CallerAgent, ID: "ada", Role: hub.RoleExecutor}
	bob      = hub.Caller{Kind: hub.CallerAgent, ID: "bob", Role: hub.RoleExecutor}
	rex      = hub.Caller{Kind: hub.CallerAgent, ID: "rex", Role: hub.RoleReviewer}
)

// testCommand is the operator's check: every module says ok, no pair is complete, and no test was
// deleted.
const testCommand = `
for f in mod/*; do [ -e "$f" ] || continue; grep -qx ok "$f" || { echo "FAIL $f is broken"; exit 1; }; done
for a in pair/*.a; do [ -e "$a" ] || continue; b="${a%.a}.b"; [ -e "$b" ] && { echo "FAIL $a and $b break together"; exit 1; }; done
[ -e tests/one ] || { echo "FAIL tests: 1 before, 0 now"; exit 1; }
echo passed`

// A world is a hub with agents, a repository with a check, and the service.
type world struct {
	*testing.T
	ctx   context.Context
	now   time.Time
	store storetest.Store
	mail  *mailroom.Mailroom
	keys  *keys.Service
	repo  *repository
	check *checker
	work  *works
	*landing.Service
	policy hub.LandingPolicy
	worker landing.Worker
}

func newWorld(t *testing.T, p landing.Setting) *world {
	t.Helper()
	w := &world{T: t, ctx: t.Context(), now: time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC), repo: newRepository(t)}
	w.repo.write(commitOf{branch: "main", files: map[string]string{"tests/one": "1\n", "shared.txt": "one\ntwo\nthree\n", "mod/base": "ok\n"}})
	w.check = newChecker(w.repo, testCommand)
	home := t.TempDir()
	w.store = storetest.Open(t, home)
	clock := w.clock()
	w.keys = keys.New(w.store, &keys.Options{Clock: clock})
	_, err := w.keys.EnsureOperator(w.ctx, "")
	w.must(err)
	for _, a := range []hub.Caller{ada, bob, rex} {
		_, _, _, err = w.keys.AddAgent(w.ctx, operator, hub.Agent{ID: a.ID, Role: a.Role}, keys.NewKey{})
		w.must(err)
	}
	content, err := blobs.Open(filepath.Join(home, "artifacts"), nil)
	w.must(err)
	w.mail, err = mailroom.New(w.store, w.keys, &mailroom.Options{Clock: clock, Artifacts: content, Limits: mailroom.Limits{Unsafe: true}})
	w.must(err)
	w.work = &works{pieces: map[hub.HandoffID]landing.Piece{}}
	w.Service = landing.New(w.store, w.repo, w.check, w.mail, &landing.Options{Clock: clock, Work: w.work})
	p.Folder = w.repo.dir
	p.Into = "main"
	if p.Review == "" && p.By == hub.LandingAuto {
		p.Review = hub.ReviewerNone
	}
	set, _, err := w.Set(w.ctx, operator, p)
	w.must(err)
	w.policy = set.LandingPolicy
	w.work.since = w.policy.SetAt
	w.worker = w.NewWorker(w.policy)
	return w
}

// restart makes the service and the worker anew, as a start of the hub does.
func (w *world) restart() {
	w.Service = landing.New(w.store, w.repo, w.check, w.mail, &landing.Options{Clock: w.clock(), Work: w.work})
	w.worker = w.NewWorker(w.policy)
}

// clock returns a clock whose time is w.now, a millisecond later with each reading.
func (w *world) clock() hub.Clock {
	return func() time.Time {
		w.now = w.now.Add(time.Millisecond)
		return w.now
	}
}

// plain is a policy with the check, in which everything is queued by itself.
var plain = landing.Setting{Checks: []string{"test"}, By: hub.LandingAuto}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// set changes the policy.
func (w *world) set(p landing.Setting) (landing.View, []string) {
	w.Helper()
	p.Folder = w.repo.dir
	p.Into = "main"
	got, changed, err := w.Set(w.ctx, operator, p)
	w.must(err)
	w.policy = got.LandingPolicy
	return got, changed
}

// read lets an agent fetch the whole difference of a review.
func (w *world) read(as hub.Caller, id hub.ReviewID) {
	w.Helper()
	v, err := w.Review(w.ctx, string(id))
	w.must(err)
	for _, part := range append([]string{v.Difference}, v.Parts...) {
		w.must(w.Fetched(w.ctx, as, part))
	}
}

// approve lets an agent fetch and approve the review of an entry or a handoff.
func (w *world) approve(as hub.Caller, id string) hub.Review {
	w.Helper()
	v, err := w.Review(w.ctx, id)
	w.must(err)
	w.read(as, v.ID)
	got, err := w.Give(w.ctx, as, id, approve)
	w.must(err)
	return got
}

// land queues a branch for an agent.
func (w *world) land(as hub.Caller, ref string) hub.LandingEntry {
	w.Helper()
	e, err := w.Land(w.ctx, as, landing.Request{Ref: ref, Folder: w.repo.dir})
	w.must(err)
	return e
}

// commit returns the commit of a branch.
func (w *world) commit(branch string) landing.Commit {
	w.Helper()
	c, err := w.repo.Branch(w.ctx, "", branch)
	w.must(err)
	return c
}

// turn lets the queue work until it has nothing to do.
func (w *world) turn() {
	w.Helper()
	w.must(w.worker.Turn(w.ctx))
}

// entry returns an entry as it is stored.
func (w *world) entry(id hub.LandingID) hub.LandingEntry {
	w.Helper()
	e, err := hub.Read(w.ctx, w.store, func(r hub.Reader) (hub.LandingEntry, error) { return r.Landings().Entry(id) })
	w.must(err)
	return e
}

// want compares the state of an entry, and a part of its reason.
func (w *world) want(id hub.LandingID, state hub.LandingState, reason string) hub.LandingEntry {
	w.Helper()
	e := w.entry(id)
	if e.State != state || !strings.Contains(e.Reason, reason) {
		w.Fatalf("%s (%s): got %s %q, want %s %q", id, e.Ref, e.State, e.Reason, state, reason)
	}
	return e
}

// head returns the commit of the target.
func (w *world) head() string {
	w.Helper()
	c, err := w.repo.Branch(w.ctx, "", "main")
	w.must(err)
	return c.ID
}

// A letter is a message as a recipient gets it.
type letter struct {
	hub.Envelope
	Summary string         `json:"summary"`
	Next    string         `json:"next_step"`
	Members map[string]any `json:"-"`
}

// inbox returns the unread messages of an agent, the oldest first, and marks them as delivered.
func (w *world) inbox(agent hub.Caller) (out []letter) {
	w.Helper()
	page, err := w.mail.Inbox(w.ctx, agent, mailroom.InboxRequest{NewOnly: true, Limit: 100})
	w.must(err)
	for _, m := range page.Messages {
		l := letter{Envelope: m}
		w.must(json.Unmarshal(m.Payload, &l.Members))
		l.Summary, _ = l.Members["summary"].(string)
		l.Next, _ = l.Members["next_step"].(string)
		out = append(out, l)
	}
	return out
}

// artifact returns a text that an agent may read.
func (w *world) artifact(as hub.Caller, sha256 string) string {
	w.Helper()
	f, err := w.mail.OpenArtifact(w.ctx, as, sha256)
	w.must(err)
	defer f.Close()
	text, err := io.ReadAll(f)
	w.must(err)
	return string(text)
}

// works is the work of handoffs.
type works struct {
	pieces   map[hub.HandoffID]landing.Piece
	returned []string // handoffs with reasons
	reviewed []hub.HandoffID
	since    hub.Time // of work whose end is not given
}

func (w *works) Piece(_ context.Context, _ hub.Caller, s landing.Subject) (landing.Piece, error) {
	p, ok := w.pieces[s.Handoff]
	if !ok {
		return p, hub.Errorf(hub.CodeNotFound, "test", "no handoff %s", s)
	}
	return p, nil
}

func (w *works) Completed(context.Context, hub.Time, int) (out []landing.Finished, _ error) {
	for _, p := range w.pieces {
		at := p.Ended
		if at.IsZero() {
			at = w.since
		}
		out = append(out, landing.Finished{Subject: p.Subject, At: at})
	}
	return out, nil
}

func (w *works) Held(context.Context, string, hub.Time, int) (out []landing.Piece, _ error) {
	for _, p := range w.pieces {
		out = append(out, p)
	}
	return out, nil
}

func (w *works) Reviewed(_ hub.Tx, id hub.HandoffID, v *hub.Review) ([]hub.Message, error) {
	if v != nil && v.Answers(w.pieces[id].Review) {
		w.reviewed = append(w.reviewed, id)
	}
	return nil, nil
}

func (w *works) Return(_ hub.Tx, s landing.Subject, reason string) (bool, []hub.Message, error) {
	p, ok := w.pieces[s.Handoff]
	if !ok {
		return false, nil, nil
	}
	w.returned = append(w.returned, s.String()+": "+reason)
	p.Missing = "it is not completed"
	w.pieces[s.Handoff] = p
	return true, nil, nil
}
