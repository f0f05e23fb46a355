package server_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/operation/rpc"
	"github.com/parley-agents/parley/internal/service/reservation"
)

func TestScopeOfHandoff(t *testing.T) {
	w := newSharedTree(t)
	do := func(agent hub.AgentID, p api.HandoffParams) api.HandoffAnswer {
		t.Helper()
		return must(rpc.Call(t.Context(), w.as(w.keys[agent]), api.Handoff, p))(t)
	}
	offer := func(task string) hub.HandoffID {
		t.Helper()
		return do("mallory", api.HandoffParams{
			Action: "initiate", To: "builder", TaskID: task, Title: "t", Summary: "s", NextStep: "n", Criteria: api.Criteria{"c"}, Worktree: w.repo, Scope: []string{"src"},
		}).Report.ID
	}

	first := offer("A-1")
	if got := do("builder", api.HandoffParams{Action: "accept", ID: first}).Report; strings.Join(got.Reserved, " ") != "src" || strings.Contains(strings.Join(got.Warnings, " "), "holds") {
		t.Errorf("accept: reserved %q, warnings %q; want src, and no holder", got.Reserved, got.Warnings)
	}
	w.wantList("held src builder")

	got := w.ask("tester", reservation.Edit, "src/b.txt")
	if got.Decision != reservation.Deny || len(got.Denied) != 1 || got.Denied[0].Holder != "builder" || got.Denied[0].Task != "A-1" {
		t.Errorf("an edit of another agent: got %+v, want a denial that names builder and the task", got)
	}
	w.edit("builder", "src/b.txt", "two\n")
	w.commit("second")
	w.wantClean()

	// The completion frees the files in its own transaction, and the waiting agent is told.
	do("builder", api.HandoffParams{Action: "complete", ID: first, Summary: "done"})
	w.server.SweepFiles(t)
	w.wantList()
	inbox := must(rpc.Call(t.Context(), w.as(w.keys["tester"]), api.Inbox, api.InboxParams{}))(t)
	raw, err := json.Marshal(inbox.Messages)
	if err != nil || !strings.Contains(string(raw), "src/b.txt is free") {
		t.Errorf("inbox: got %s, %v; want the message about the file", raw, err)
	}

	// A proposal that is withdrawn has reserved nothing, and one whose owner loses it keeps nothing.
	do("mallory", api.HandoffParams{Action: "withdraw", ID: offer("A-2")})
	w.wantList()
	third := offer("A-3")
	do("builder", api.HandoffParams{Action: "accept", ID: third})
	w.wantList("held src builder")
	must(rpc.Call(t.Context(), w.as(w.operator), api.Handoff, api.HandoffParams{Action: "release", ID: third}))(t)
	w.wantList()
	w.wantClean()
}
