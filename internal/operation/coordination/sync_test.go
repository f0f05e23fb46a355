package coordination

import (
	"encoding/json"
	"testing"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/operation/rpc"
)

// FuzzCopy reads what a peer might send. Whatever it is, nothing breaks, and
// what is taken can be sent on.
func FuzzCopy(f *testing.F) {
	methods := []string{"cacp/project/sync", "cacp/repo/sync", "cacp/contract/sync", "cacp/context/sync"}
	for i, seed := range []string{
		`{"project":{"project_id":"p","name":"n","objective":"o","status":"planning","repos":[],"contracts":[],"context_history":[],"created_at":"2026-01-02T03:04:05.123456"},"source_agent":"a"}`,
		`{"projectId":"p","repo":{"repo_id":"r","name":"n","role":"b","language":"go","assigned_agent":null},"sourceAgent":"a"}`,
		`{"project_id":"p","contract":{"contract_id":"c","type":"custom","name":"n","version":1,"status":"proposed","content":{},"proposed_by":"r","implementations":[],"history":[]}}`,
		`{"projectId":"p","packet":{"packet_id":"x","from_repo":"r","from_agent":"a","type":"question","content":{},"related_contracts":[]}}`,
	} {
		f.Add(i, []byte(seed))
	}
	f.Fuzz(func(t *testing.T, method int, raw []byte) {
		name := methods[((method%len(methods))+len(methods))%len(methods)]
		var in Copied
		if rpc.Decode(name, rpc.Tolerant, raw, &in) != nil {
			return
		}
		c, whole, err := readCopy(name, in)
		if err != nil {
			if code := hub.CodeOf(err); code != hub.CodeInvalid && code != hub.CodeTooLarge {
				t.Errorf("%s: got %s (%v), want an error that the sender can put right", name, code, err)
			}
			return
		}
		for _, v := range []any{c, c.Naive(), whole} {
			if _, err := json.Marshal(v); err != nil {
				t.Errorf("%s: what was taken cannot be sent on: %v", name, err)
			}
		}
	})
}
