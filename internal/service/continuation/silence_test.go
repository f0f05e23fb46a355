package continuation_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/service/continuation"
	"github.com/parley-agents/parley/internal/service/mailroom"
)

// send has an agent send plain mail in a thread.
func (w *world) send(from, to hub.AgentID, thread string) {
	w.Helper()
	_, err := w.mail.Send(w.ctx, agent(from), mailroom.Draft{To: []hub.AgentID{to}, Type: hub.TypeKnowledgeQuery, Text: "what is the schema?", ThreadID: thread})
	w.must(err)
}

// TestSilence tells the senders of mail that an agent cannot answer it.
func TestSilence(t *testing.T) {
	isTold := func(w *world, name hub.AgentID) bool {
		return slices.ContainsFunc(w.hears(name), func(text string) bool { return strings.Contains(text, "has not answered your message") })
	}
	for _, cause := range hub.ContinuationReasons {
		t.Run(string(cause)+": the senders of unread mail are told once, after the time of patience", func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, "reviewer")
			w.send("planner", "builder", "")
			w.send("reviewer", "tester", "")
			w.stop("builder", cause)
			w.pass(patience / 2)
			if isTold(w, "planner") {
				t.Error("planner is told at once")
			}
			w.pass(patience)
			all := w.hears("planner")
			want := "builder " + cause.Text() + " and has not answered your message m1; send to another agent what cannot wait"
			hasFailed := cause != hub.ContinueClosed && cause != hub.ContinueBudget
			if slices.Contains(all, want) != hasFailed {
				t.Errorf("planner hears %q", all)
			}
			if isTold(w, "reviewer") {
				t.Error("the sender of other mail is told")
			}
			w.pass(2 * patience)
			if isTold(w, "planner") {
				t.Error("planner is told again")
			}
		})
	}
	t.Run("an agent that failed again does not begin the time anew", func(t *testing.T) {
		w := newWorld(t)
		w.send("planner", "builder", "")
		w.stop("builder", hub.ContinueRate)
		w.pass(patience / 2)
		w.stop("builder", hub.ContinueQuota)
		w.pass(patience/2 + 1)
		if all := w.hears("planner"); len(all) != 1 || !strings.HasPrefix(all[0], "builder is out of quota") {
			t.Errorf("planner hears %q", all)
		}
	})
	t.Run("an agent that works again within the time answers itself", func(t *testing.T) {
		w := newWorld(t)
		w.send("planner", "builder", "")
		w.stop("builder", hub.ContinueRate)
		if !w.Concerns("builder") {
			t.Error("its next hook would not be told")
		}
		_, err := w.Returned(w.ctx, "builder")
		w.must(err)
		w.pass(2 * patience)
		if isTold(w, "planner") {
			t.Error("planner is told")
		}
	})
	t.Run("mail that was read in the turn that failed counts, unless it was answered", func(t *testing.T) {
		w := newWorld(t, "reviewer")
		w.send("planner", "builder", "")
		w.send("reviewer", "builder", "schema")
		w.hears("builder")
		w.send("builder", "reviewer", "schema")
		w.stop("builder", hub.ContinueQuota)
		w.pass(patience + 1)
		if !isTold(w, "planner") {
			t.Error("planner is not told")
		}
		if isTold(w, "reviewer") {
			t.Error("reviewer is told, and has an answer")
		}
	})
	t.Run("a hub that was started again tells them, too, with the time that is known", func(t *testing.T) {
		w := newWorld(t)
		w.send("planner", "builder", "")
		_, err := w.Stop(w.ctx, continuation.Cause{Agent: "builder", Reason: hub.ContinueQuota, Until: hub.At(w.now.Add(5 * patience))})
		w.must(err)
		w.Service = continuation.New(w.store, continuation.Parts{Trees: w.tree, Handoffs: w.hands, Agents: w.crew, Mail: w.mail}, &continuation.Options{Clock: w.clock(), Patience: patience})
		w.pass(patience + 1)
		if all := w.hears("planner"); len(all) != 1 || !strings.Contains(all[0], "is out of quota until 2026-03-01") {
			t.Errorf("planner hears %q", all)
		}
	})
}
