package comply_test

import (
	"strings"
	"testing"

	"github.com/parley-agents/parley/internal/testing/goodagent"
	"github.com/parley-agents/parley/internal/testing/proof"
)

func TestCause(t *testing.T) {
	t.Parallel()
	turn := steps(prompt(2, "resource_link"), `{"rule": "FS-09", "expect": {"messages": [{"response": {"id": 2, "result": {"stopReason": "^end_turn$"}}}]}}`)
	cancelled := steps(`{"send": {"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": "${sessionId}"}}}`,
		prompt(2, "hello"), `{"rule": "CAN-06", "expect": {"messages": [{"response": {"id": 2, "result": {"stopReason": "^end_turn$"}}}]}}`)
	list := steps(`{"send": {"jsonrpc": "2.0", "id": 2, "method": "session/list", "params": {}}}`, `{"rule": "SCLO-07", "expect": {"messages": [{"response": {"id": 2, "result": {"sessions": [{"sessionId": "."}]}}}]}}`)
	for _, c := range []struct{ name, mutant, text, want string }{
		{"a result that is no object is blamed on itself", "PRM-19", turn, "PRM-19"},
		{"a result without a reason is blamed on itself", "PRM-01", turn, "PRM-01"},
		{"a reason that is none is blamed on itself", "PRM-02", turn, "PRM-02"},
		{"a turn that stops short is blamed on itself", "STOP-01", turn, "STOP-01"},
		{"a turn that nobody cancelled is blamed on itself", "STOP-05", turn, "STOP-05"},
		{"a turn that fails is blamed on what it was for", "PRM-04", turn, "FS-09"},
		{"a turn that is cancelled after a cancel is blamed on what it was for", "CAN-06", cancelled, "CAN-06"},
		{"a list that is none is blamed on itself", "SLIST-01", list, "SLIST-01"},
		{"a list that lacks something is blamed on what it was for", "SLIST-11", list, "SCLO-07"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			m := goodagent.Find(c.mutant)
			if m == nil {
				t.Fatalf("there is no mutant %s", c.mutant)
			}
			text := strings.Replace(c.text, `"ledger": false`, `"ledger": true`, 1) // the form of messages counts
			got := playWith(t, proof.Agent(m), text, nil)
			if len(got.Findings) == 0 || got.Findings[0].Rule != c.want {
				t.Errorf("got %+v, want a finding about %s first", got.Findings, c.want)
			}
		})
	}
}
