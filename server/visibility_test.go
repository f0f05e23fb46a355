package server_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/operation/rpc"
	"github.com/parley-agents/parley/internal/service/team"
)

// TestVisibility sends a message of each visibility, of low and of high sensitivity, and lets
// every kind of reader look for it in every way.
func TestVisibility(t *testing.T) {
	t.Parallel()
	r := start(t, quiet())
	keys := r.team(t, "auth", nil, team.Seat{Agent: "ana", Role: hub.RoleCoordinator}, team.Seat{Agent: "bo", Role: hub.RoleExecutor}, team.Seat{Agent: "cy", Role: hub.RoleExecutor})
	stranger := r.add(t, "stranger")[0]
	audits := func(id hub.AgentID) string {
		return mustCall(t, r.as(r.operator), api.AddAgent, api.AgentParams{ID: id, Auditor: true}).Key
	}
	auditor, member := audits("auditor"), audits("inside")
	r.teamDo(t, r.operator, api.TeamParams{Action: "add", Team: "auth", Agent: "inside", Role: hub.RoleReviewer})

	// reads returns how much a caller sees of a message: its text, the envelope without the text, or nothing.
	reads := func(t *testing.T, key string, id hub.EnvelopeID, word string) string {
		t.Helper()
		trace, err := rpc.Call(t.Context(), r.as(key), api.Trace, api.IDParams{ID: id})
		found := mustCall(t, r.as(key), api.Query, api.QueryParams{Text: word, Team: "auth"}).Listing.Messages
		listed := mustCall(t, r.as(key), api.Query, api.QueryParams{Thread: string(id)}).Listing.Messages
		out := []string{"nothing", "nothing", "nothing"}
		switch {
		case err == nil && strings.Contains(string(trace.Message.Payload), word):
			out[0] = "text"
		case err == nil:
			out[0] = "envelope"
		}
		if len(found) == 1 {
			out[1] = "text"
		}
		if len(listed) == 1 {
			out[2] = "envelope"
			if strings.Contains(string(listed[0].Payload), word) {
				out[2] = "text"
			}
		}
		if out[0] == "envelope" && out[1] == "nothing" {
			out[1] = "envelope" // a search for words does not find it
		}
		if out[0] != out[1] || out[0] != out[2] {
			t.Errorf("the trace shows the %s, a search the %s, the thread the %s", out[0], out[1], out[2])
		}
		return out[0]
	}

	readers := []struct{ name, key string }{
		{"sender", keys["ana"]}, {"recipient", keys["bo"]}, {"member", keys["cy"]}, {"auditor", auditor}, {"auditor in the team", member},
		{"operator", r.operator}, {"stranger", stranger},
	}
	for i, tt := range []struct {
		visibility  hub.Visibility
		sensitivity hub.Sensitivity
		want        []string // for each of readers
	}{
		{hub.VisibilityPrivate, hub.SensitivityLow, []string{"text", "text", "nothing", "text", "text", "text", "nothing"}},
		{hub.VisibilityPrivate, hub.SensitivityHigh, []string{"text", "text", "nothing", "envelope", "envelope", "text", "nothing"}},
		{hub.VisibilityTeam, hub.SensitivityLow, []string{"text", "text", "text", "text", "text", "text", "nothing"}},
		{hub.VisibilityTeam, hub.SensitivityHigh, []string{"text", "text", "text", "envelope", "text", "text", "nothing"}},
		{hub.VisibilityAudit, hub.SensitivityLow, []string{"text", "text", "nothing", "text", "text", "text", "nothing"}},
		{hub.VisibilityAudit, hub.SensitivityHigh, []string{"text", "text", "nothing", "envelope", "envelope", "text", "nothing"}},
	} {
		word := fmt.Sprintf("xyzzy%d", i)
		policy, _ := json.Marshal(hub.Policy{Visibility: tt.visibility, Sensitivity: tt.sensitivity, HumanGate: hub.GateNone})
		id := mustCall(t, r.as(keys["ana"]), api.Send, api.SendParams{To: api.Recipients{"bo"}, Team: "auth", Text: "the word is " + word, Policy: policy}).ID
		for k, reader := range readers {
			t.Run(fmt.Sprintf("R3-121 %s, sensitivity %s: %s", tt.visibility, tt.sensitivity, reader.name), func(t *testing.T) {
				if got := reads(t, reader.key, id, word); got != tt.want[k] {
					t.Errorf("the %s reads: %s, want: %s", reader.name, got, tt.want[k])
				}
			})
		}
	}
}

// An auditor reads neither what a restricted handoff says, nor a disagreement or an artifact of
// high sensitivity; the operator reads all three.
func TestAuditorReadsNothingSensitive(t *testing.T) {
	t.Parallel()
	const secret = "SESAME"
	r := start(t, quiet())
	keys := r.team(t, "auth", nil, team.Seat{Agent: "ana", Role: hub.RoleCoordinator}, team.Seat{Agent: "bo", Role: hub.RoleExecutor})
	auditor := mustCall(t, r.as(r.operator), api.AddAgent, api.AgentParams{ID: "auditor", Auditor: true}).Key

	handoff := mustCall(t, r.as(keys["ana"]), api.Handoff, api.HandoffParams{
		Action: "initiate", To: "bo", TaskID: "T-1", Title: secret, Objective: secret, Summary: secret, NextStep: secret, Criteria: api.Criteria{secret}, Classification: "restricted", NeedsHuman: true,
	}).Report.ID
	high := json.RawMessage(`{"visibility":"private","sensitivity":"high","human_gate":"none"}`)
	payload, _ := json.Marshal(map[string]any{"topic": secret, "position": secret, "reasoning": secret, "confidence": "high", "open_to_revision": true})
	thread := mustCall(t, r.as(keys["ana"]), api.Send, api.SendParams{To: api.Recipients{"bo"}, Type: hub.TypePositionState, Policy: high, Payload: payload}).ID
	parent, text := int64(0), secret
	r.teamDo(t, keys["ana"], api.TeamParams{Action: "artifact", Team: "auth", Artifact: "plan", ParentVersion: &parent, Content: &text, Note: secret, Sensitivity: hub.SensitivityHigh})

	for _, tt := range []struct {
		name string
		read func(key string) any
	}{
		{"R3-065 a restricted handoff", func(key string) any {
			return mustCall(t, r.as(key), api.Handoff, api.HandoffParams{Action: "show", ID: handoff}).Report
		}},
		{"R3-065 the list of handoffs", func(key string) any {
			return mustCall(t, r.as(key), api.Handoff, api.HandoffParams{Action: "list"}).Listing
		}},
		{"R3-065 the approvals that wait", func(key string) any { return mustCall(t, r.as(key), api.ListHeld, api.None{}) }},
		{"R3-121 a disagreement", func(key string) any {
			return mustCall(t, r.as(key), api.Query, api.QueryParams{Disagreement: string(thread)}).Talk
		}},
		{"R3-121 the list of disagreements", func(key string) any {
			return mustCall(t, r.as(key), api.ListTalks, api.TalkListParams{Kind: hub.KindDisagreement})
		}},
		{"R3-161 an artifact", func(key string) any {
			return r.teamDo(t, key, api.TeamParams{Action: "artifact", Team: "auth", Artifact: "plan"})
		}},
		{"R3-161 the versions of an artifact", func(key string) any {
			return r.teamDo(t, key, api.TeamParams{Action: "artifact", Team: "auth", Artifact: "plan", Log: true})
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for key, want := range map[string]bool{auditor: false, r.operator: true} {
				got, err := json.Marshal(tt.read(key))
				if err != nil {
					t.Fatal(err)
				}
				if strings.Contains(string(got), secret) != want {
					t.Errorf("has the text: %v, want %v: %.2000s", !want, want, got)
				}
			}
		})
	}
	t.Run("R3-161 the content of an artifact by its hash", func(t *testing.T) {
		sum := r.teamDo(t, r.operator, api.TeamParams{Action: "artifact", Team: "auth", Artifact: "plan"}).Version.SHA256
		listed, err := json.Marshal(r.teamDo(t, auditor, api.TeamParams{Action: "artifact", Team: "auth"}))
		if err != nil || strings.Contains(string(listed), sum) {
			t.Errorf("an auditor learns the hash: %v %s", err, listed)
		}
	})
}
