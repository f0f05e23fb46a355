package hub_test

import (
	"slices"
	"testing"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/ground/shape"
)

func TestRunMoves(t *testing.T) {
	allowed := map[hub.RunState][]hub.RunState{
		hub.RunStarting: {hub.RunRunning, hub.RunFailed, hub.RunInterrupted},
		hub.RunRunning:  {hub.RunChecking, hub.RunFailed, hub.RunInterrupted},
		hub.RunChecking: {hub.RunDone, hub.RunFailed, hub.RunInterrupted},
	}
	now := hub.At(time.Unix(1_800_000_000, 0))
	for _, from := range hub.RunStates {
		for _, to := range hub.RunStates {
			moved, err := hub.Run{ID: "r", State: from}.Advance(to, now)
			want := slices.Contains(allowed[from], to)
			switch {
			case (err == nil) != want:
				t.Errorf("%s to %s: got %v, want allowed: %v", from, to, err, want)
			case err != nil && (hub.CodeOf(err) != hub.CodeConflict || moved.State != from):
				t.Errorf("%s to %s: got %s, %v", from, to, moved.State, err)
			case err == nil && moved.EndedAt.IsZero() == to.Over():
				t.Errorf("%s to %s: ended at %v", from, to, moved.EndedAt)
			}
		}
		if over := allowed[from] == nil; from.Over() != over {
			t.Errorf("%s: over %v, want %v", from, from.Over(), over)
		}
	}
	if hub.RunState("").Over() || hub.RunState("x").Known() || hub.RunVerdict("great").Known() || !hub.RunConfirmed.Known() {
		t.Error("an unknown word counts for something")
	}
}

func TestRunDigest(t *testing.T) {
	base := hub.Run{ID: "r", Agent: "a", State: hub.RunDone, Verdict: hub.RunConfirmed}
	for name, change := range map[string]func(*hub.Run){
		"verdict":        func(r *hub.Run) { r.Verdict = hub.RunUnverified },
		"author":         func(r *hub.Run) { r.VerdictBy = "a" },
		"claim":          func(r *hub.Run) { *r = r.Judged(hub.RunConfirmed, "a") },
		"report":         func(r *hub.Run) { r.Report = []byte(`{}`) },
		"evidence":       func(r *hub.Run) { r.Evidence = []byte(`{}`) },
		"contradictions": func(r *hub.Run) { r.Contradictions = []hub.Contradiction{{Kind: "k"}} },
		"end":            func(r *hub.Run) { r.EndedAt = hub.At(time.Unix(1, 0)) },
		"message":        func(r *hub.Run) { r.Message = "m" },
	} {
		other := base
		change(&other)
		if other.Digest() == base.Digest() {
			t.Errorf("another %s has the same digest", name)
		}
	}
}

func TestAVerdictNamesItsAuthor(t *testing.T) {
	for _, test := range []struct {
		name    string
		began   hub.AgentID
		author  hub.AgentID
		text    string
		checked bool
	}{
		{"the operator's command checked the run that the operator began", hub.Operator, hub.Operator, "confirmed", true},
		{"the hub checked a turn that it gave the agent", "builder", hub.Self, "confirmed", true},
		{"an agent speaks about its own work", "builder", "builder", "claimed (says builder, not checked)", false},
		{"the operator did not execute the run of an agent", "builder", hub.Operator, "claimed (says operator, not checked)", false},
		{"earlier versions let an agent end its own run", "builder", "", "confirmed (by the rules of then)", false},
		{"earlier versions let only the operator end a run of the operator", hub.Operator, "", "confirmed (by the rules of then)", true},
	} {
		r := hub.Run{Agent: "builder", By: test.began, State: hub.RunDone, Verdict: hub.RunConfirmed}
		if test.author != "" {
			r = r.Judged(hub.RunConfirmed, test.author)
		}
		if r.VerdictText() != test.text || r.Checked() != test.checked || r.SentVerdict() != hub.RunConfirmed {
			t.Errorf("%s: got %q, checked %v, sent %s", test.name, r.VerdictText(), r.Checked(), r.SentVerdict())
		}
	}
	if got := (hub.Run{By: "builder"}).VerdictText(); got != "" {
		t.Errorf("a run that is not over: got %q", got)
	}
}

func FuzzDecodeEvidence(f *testing.F) {
	f.Add([]byte(`{"evidence":[{"run_id":"r","after":{"commit":"abc"},"diff":{"created":["a"]}}]}`))
	f.Add([]byte(`{"evidence":"trust me"}`))
	f.Add([]byte(`{}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if _, err := shape.DecodeEvidence(raw); err != nil && hub.CodeOf(err) != hub.CodeInvalid {
			t.Errorf("got %v", err)
		}
	})
}
