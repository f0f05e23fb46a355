package server_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/operation/rpc"
	"github.com/parley-agents/parley/server"
)

// TestRestrictedText ends restricted handoffs in every way, each with a word that must
// stay in the database, and looks for the word in everything that leaves it: messages,
// rendered inboxes, the trail, exports and the journal.
func TestRestrictedText(t *testing.T) {
	const secret = "SESAME"
	r := start(t, server.Options{})
	keys := r.add(t, "planner", "builder")
	do := func(t *testing.T, key string, p api.HandoffParams) hub.HandoffID {
		t.Helper()
		p.Reason, p.Detail = map[bool]string{true: string(hub.RejectOther), false: secret + " reason"}[p.Action == "reject"], secret+" detail"
		raw := must(rpc.Call(t.Context(), r.as(key), api.Handoff, p))(t)
		return raw.Report.ID
	}
	for _, tt := range []struct {
		name string
		end  func(t *testing.T, id hub.HandoffID)
	}{
		{"reject", func(t *testing.T, id hub.HandoffID) { do(t, keys[1], api.HandoffParams{Action: "reject", ID: id}) }},
		{"withdraw", func(t *testing.T, id hub.HandoffID) { do(t, keys[0], api.HandoffParams{Action: "withdraw", ID: id}) }},
		{"deny", func(t *testing.T, id hub.HandoffID) {
			must(rpc.Call(t.Context(), r.as(r.operator), api.Deny, api.IDParams{ID: hub.EnvelopeID(id), Reason: secret + " denied"}))(t)
		}},
		{"release", func(t *testing.T, id hub.HandoffID) {
			must(rpc.Call(t.Context(), r.as(r.operator), api.Approve, api.IDParams{ID: hub.EnvelopeID(id)}))(t)
			do(t, keys[1], api.HandoffParams{Action: "accept", ID: id})
			do(t, r.operator, api.HandoffParams{Action: "release", ID: id})
		}},
		{"complete", func(t *testing.T, id hub.HandoffID) {
			must(rpc.Call(t.Context(), r.as(r.operator), api.Approve, api.IDParams{ID: hub.EnvelopeID(id)}))(t)
			do(t, keys[1], api.HandoffParams{Action: "accept", ID: id})
			do(t, keys[1], api.HandoffParams{Action: "complete", ID: id, Summary: secret + " done", NoChanges: true})
		}},
	} {
		t.Run("R3-065 restricted text does not leave with "+tt.name, func(t *testing.T) {
			id := do(t, keys[0], api.HandoffParams{
				Action: "initiate", To: "builder", TaskID: "T-" + tt.name, Title: secret + " title", Objective: secret + " objective", Summary: secret + " summary",
				NextStep: secret + " next", Criteria: api.Criteria{secret + " criterion"}, Classification: "restricted", NeedsHuman: true,
			})
			tt.end(t, id)
			shown := must(rpc.Call(t.Context(), r.as(keys[1]), api.Handoff, api.HandoffParams{Action: "show", ID: id}))(t)
			if !strings.Contains(string(shown.Report.Package), secret) {
				t.Error("the receiver cannot read the package on the hub")
			}
			for _, key := range []string{keys[0], keys[1], r.operator} {
				for _, m := range must(rpc.Call(t.Context(), r.as(key), api.Inbox, api.InboxParams{Limit: 50}))(t).Messages {
					if strings.Contains(string(m.Payload), secret) {
						t.Errorf("a message of type %s has it: %s", m.Type, m.Payload)
					}
				}
			}
			for _, e := range must(rpc.Call(t.Context(), r.as(r.operator), api.Audit, api.AuditParams{}))(t).Entries {
				if strings.Contains(string(e.Facts), secret) {
					t.Errorf("the journal has it: %s %s", e.Action, e.Facts)
				}
			}
			eventually(t, "the inbox is rendered", func() bool { return holds(r.files(t, "inbox"), "handoff "+string(shown.Report.ShortID)+",") })
			out := filepath.Join(t.TempDir(), "export")
			must(rpc.Call(t.Context(), r.as(r.operator), api.Export, api.CopyParams{Path: out}))(t)
			exported, err := filepath.Glob(filepath.Join(out, "*"))
			if err != nil || len(exported) == 0 {
				t.Fatalf("export: got %v %v, want files", exported, err)
			}
			for _, path := range append(exported, r.files(t, "")...) {
				if !strings.HasPrefix(filepath.Base(path), "hub.db") && holds([]string{path}, secret) {
					t.Errorf("%s has it", filepath.Base(path))
				}
			}
		})
	}
}

// holds reports whether one of the files contains a text.
func holds(files []string, text string) bool {
	for _, path := range files {
		if raw, err := os.ReadFile(path); err == nil && bytes.Contains(raw, []byte(text)) {
			return true
		}
	}
	return false
}
