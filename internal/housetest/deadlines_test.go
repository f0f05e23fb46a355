package housetest_test

import (
	"slices"
	"testing"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/operation/coordination"
	"github.com/parley-agents/parley/internal/operation/rpc"
)

// longer are the operations that agents, other hubs and tokens may call and that have more than
// ten seconds, with the reason.
var longer = map[string][]string{
	"it waits as long as its caller asks": {
		"acp/inbox", "wake/wait", "cacp/project/changes", "parley/contract/canMerge", "parley/contract/canDeploy", "parley/coordinate",
		"acp/handoff", "parley/check/run", "parley/check/result", "parley/agent/log", "parley/agent/session/events",
	},
	"it asks another hub": {"parley/peer/add", "parley/peer/join", "parley/peer/approve", "cacp/peer/announce", "cacp/invite/redeem"},
	"it sends or takes whole projects and files": {
		"cacp/project/get", "cacp/project/list", "cacp/project/export", "cacp/file/share", "cacp/file/fulfillRequest",
		"cacp/project/sync", "cacp/repo/sync", "cacp/contract/sync", "cacp/context/sync",
		"cacp/sync/projects", "cacp/sync/summary", "cacp/sync/packets", "cacp/sync/versions", "cacp/sync/copies",
	},
	"it compares everything with the journal":         {"parley/audit/verify"},
	"it reads and writes the files of a working tree": {"parley/kept/show", "parley/kept/back"},
}

// TestDeadlines checks that each operation has a deadline in its row, and that one which others
// than the operator may call has ten seconds, or a reason for more.
func TestDeadlines(t *testing.T) {
	known := map[string]bool{}
	for _, methods := range longer {
		for _, m := range methods {
			known[m] = true
		}
	}
	tables := slices.Concat(api.Operations.Bind(&api.Services{}), coordination.Operations.Bind(&coordination.Services{}))
	if len(tables) < 150 {
		t.Fatalf("only %d operations were found", len(tables))
	}
	for _, m := range tables {
		isOperators := !slices.ContainsFunc(m.Callers, func(k hub.CallerKind) bool { return k != hub.CallerOperator && k != hub.CallerWindow })
		switch {
		case m.Deadline <= 0:
			t.Errorf("%s has no deadline", m.Method)
		case m.Deadline > rpc.Soon && !isOperators && !known[m.Method]:
			t.Errorf("%s has a deadline of %s, and no reason for more than %s", m.Method, m.Deadline, rpc.Soon)
		case known[m.Method] && m.Deadline <= rpc.Soon:
			t.Errorf("%s has a reason for more than %s, and does not use it", m.Method, rpc.Soon)
		}
		delete(known, m.Method)
	}
	for m := range known {
		t.Errorf("there is no operation %s", m)
	}
}
