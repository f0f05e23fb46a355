package proof_test

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
	"github.com/parley-agents/parley/internal/service/proof"
	"github.com/parley-agents/parley/internal/testing/storetest"
)

var (
	epoch    = hub.At(time.Date(2026, 11, 19, 10, 31, 0, 0, time.UTC))
	operator = hub.Caller{Kind: hub.CallerOperator, ID: hub.Operator}
	builder  = hub.Caller{Kind: hub.CallerAgent, ID: "builder"}
	stranger = hub.Caller{Kind: hub.CallerAgent, ID: "mallory"}
)

const (
	commit = "17920d6e8f5b4c3a2d1e0f9b8a7c6d5e4f3a2b1c"
	merged = "2b1c0d9e8f7a6b5c4d3e2f1a0b9c8d7e6f5a4b3c"
	tree   = "7ee0d9e8f7a6b5c4d3e2f1a0b9c8d7e6f5a4b3c2"
)

// A world is a store with a landing, its handoff, two checks and a review.
type world struct {
	testing.TB
	store   hub.Store
	log     *proof.Log
	now     time.Time
	handoff hub.Handoff
	entry   hub.LandingEntry
}

// key returns the private key with a name.
func key(name string) ed25519.PrivateKey {
	seed := sha256.Sum256([]byte(name))
	return ed25519.NewKeyFromSeed(seed[:])
}

func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{TB: t, store: storetest.Open(t, t.TempDir()), now: epoch.Time}
	w.log = proof.New(w.store, key("hub"), &proof.Options{Clock: func() time.Time { w.now = w.now.Add(time.Second); return w.now }})
	for _, id := range []hub.AgentID{"builder", "planner", "codex"} {
		w.update(func(tx hub.Tx) error {
			return tx.PutAgent(hub.Agent{ID: id, Role: hub.RoleExecutor, State: hub.AgentActive, CreatedAt: epoch}, "")
		})
	}
	w.handOver()
	w.land()
	w.grow()
	return w
}

func (w *world) update(fn func(tx hub.Tx) error) {
	w.Helper()
	if err := w.store.Update(w.Context(), hub.SurvivesKill, fn); err != nil {
		w.Fatal(err)
	}
}

func (w *world) grow() {
	w.Helper()
	if err := w.log.Grow(w.Context()); err != nil {
		w.Fatal(err)
	}
}

// append writes a row of the journal.
func appendRow(tx hub.Tx, actor hub.AgentID, action actions.Action, subject string, facts any) error {
	_, err := tx.Append(hub.Caller{ID: actor}.Entry(epoch, action, subject, facts))
	return err
}

// noise writes rows about nothing.
func (w *world) noise(n int) {
	w.Helper()
	w.update(func(tx hub.Tx) error {
		for range n {
			if err := appendRow(tx, hub.Self, actions.HubStarted, "", map[string]any{"version": "<1> & 2"}); err != nil {
				return err
			}
		}
		return nil
	})
}

// handOver stores a handoff from planner to builder that is completed.
func (w *world) handOver() {
	id := hub.HandoffID(hub.NewIDs(func() time.Time { return epoch.Time }).Next())
	h := hub.Handoff{
		ID: id, ThreadID: string(id), TaskID: "T-1", From: "planner", To: "builder", Title: "Fix <login> & logout", Reason: "requested",
		Package: json.RawMessage(`{"provenance":{"origin_session":"s"},"task":{"x":1},"verification":{}}`), InitiatedAt: epoch, Status: hub.HandoffDraft,
	}
	h.Hash = packageHash(w.TB, h.Package)
	h.Package = json.RawMessage(strings.Replace(string(h.Package), `"verification":{}`, `"verification":{"package_hash":"`+h.Hash+`"}`, 1))
	was := hub.HandoffState("")
	for _, state := range []hub.HandoffState{hub.HandoffDraft, hub.HandoffProposed, hub.HandoffValidating, hub.HandoffAccepted, hub.HandoffActivated, hub.HandoffCompleted, hub.HandoffClosed} {
		actor := h.To
		if state == hub.HandoffDraft || state == hub.HandoffProposed {
			actor = h.From
		}
		h.Status = state
		if state == hub.HandoffCompleted {
			h.Ending = hub.EndedDone
		}
		step := hub.HandoffStep{State: state, At: epoch, Actor: actor}
		facts := map[string]any{"task_id": h.TaskID, "package_hash": h.Hash}
		if state == hub.HandoffDraft {
			facts["sha256"] = h.Digest()
		}
		if state == hub.HandoffCompleted {
			step.Checks = []hub.Check{
				{What: "branch work", Result: hub.CheckUnverifiable, Detail: "the remote was not asked", Kind: hub.CheckKindBranch},
				{What: "the work", Result: hub.CheckVerified, Kind: hub.CheckKindWork, Change: &hub.WorkChange{
					Text: "4 files changed, +120 -8", Files: 4, Insertions: 120, Deletions: 8, Now: hub.WorkState{Commit: commit, Tree: tree}, Notes: []string{"2 files are not committed"},
				}},
			}
			facts["proof"] = hub.ProofVerified
		}
		facts["step_sha256"] = step.Digest()
		w.update(func(tx hub.Tx) error {
			if err := tx.PutHandoff(h, was, &step); err != nil {
				return err
			}
			return appendRow(tx, actor, actions.Action("handoff."+string(state)), string(id), facts)
		})
		was = state
	}
	w.handoff = h
}

// land stores two passed checks, an approval and an entry that landed.
func (w *world) land() {
	var results []string
	for _, name := range []string{"test", "lint"} {
		c := hub.CheckResult{
			Repository: hub.Repository{Machine: "desk", Path: "/src/shop"}, Name: name, Command: []string{"make", name}, Digest: strings.Repeat("d", 64), Commit: commit, Tree: tree,
			State: hub.ResultPassed, Millis: 1200, Confined: true, Level: 2, Not: []string{"priorities"}, Tests: &hub.TestCount{Total: 41},
			Output: hub.CheckOutput{Bytes: 9, SHA256: strings.Repeat("e", 64), Tail: "the end"}, By: "builder", QueuedAt: epoch, StartedAt: epoch, EndedAt: epoch,
		}
		w.update(func(tx hub.Tx) (err error) {
			if c.ID, err = tx.WriteChecks().PutResult(c, ""); err != nil {
				return err
			}
			return appendRow(tx, "builder", actions.CheckRun, string(c.ID), map[string]any{"name": name, "commit": commit, "sha256": c.RecordDigest()})
		})
		results = append(results, string(c.ID))
	}

	w.entry = hub.LandingEntry{
		Machine: "desk", Repository: "/src/shop", Into: "main", Ref: "h1", Branch: "work", Commit: commit, Tree: tree, Owner: "builder", Handoff: w.handoff.ID, Priority: hub.PriorityNormal,
		State: hub.EntryQueued, Results: results, QueuedAt: epoch, MovedAt: epoch,
	}
	w.putEntry(actions.LandingQueued)
	review := hub.Review{
		Handoff: w.handoff.ID, Repository: "/src/shop", Commit: commit, Authors: []hub.AgentID{"builder"}, Reviewer: "codex", Asked: []hub.AgentID{"codex"}, State: hub.ReviewStateApproved,
		Verdict: hub.VerdictApprove, By: "codex", Findings: []hub.ReviewFinding{}, Difference: strings.Repeat("f", 64), AskedAt: epoch, GivenAt: epoch,
	}
	w.update(func(tx hub.Tx) (err error) {
		if review.ID, err = tx.WriteLandings().PutReview(review); err != nil {
			return err
		}
		return appendRow(tx, "codex", actions.ReviewGiven, string(review.ID), map[string]any{"commit": commit, "state": review.State, "sha256": review.Digest()})
	})

	w.entry.State = hub.EntryLanded
	w.entry.LandedCommit = merged
	w.entry.Head = merged
	w.entry.GateAnswer = hub.GateAnswer{
		Answer: hub.AnswerYes, NotAsked: []string{"contracts: none is known here"},
		Asked: []hub.GateEvidence{{What: "check test", Evidence: "c1 passed", Of: commit, By: "builder", At: epoch}, {What: "review", Evidence: "v1 approved", Of: commit, By: "codex", At: epoch}},
	}
	w.putEntry(actions.LandingLanded)
}

func (w *world) putEntry(action actions.Action) {
	w.Helper()
	w.update(func(tx hub.Tx) (err error) {
		id, err := tx.WriteLandings().PutEntry(w.entry)
		if err != nil {
			return err
		}
		e := w.entry
		e.ID = id
		return appendRow(tx, hub.Self, action, string(id), map[string]any{"state": e.State, "sha256": e.Digest()})
	})
	w.entry.ID = "l1"
	w.entry.Revision++
}

// undo takes the landing back by hand.
func (w *world) undo() {
	w.Helper()
	w.entry.State = hub.EntryUndone
	w.entry.Because = "it broke the shop"
	w.putEntry(actions.LandingUndone)
	w.grow()
}

// prove returns the file of a thing.
func (w *world) prove(id string) proof.File {
	w.Helper()
	made, err := w.log.Prove(w.Context(), operator, proof.Request{ID: id})
	if err != nil {
		w.Fatal(err)
	}
	if len(made.LeftOut) > 0 {
		w.Fatalf("left out: %v", made.LeftOut)
	}
	return made.File
}

func bytesOf(t testing.TB, f proof.File) []byte {
	t.Helper()
	raw, err := json.Marshal(f)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}
