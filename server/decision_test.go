package server_test

import (
	"testing"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/operation/rpc"
	"github.com/parley-agents/parley/server"
)

func TestDecisionSaysWhatItIsAbout(t *testing.T) {
	r := start(t, server.Options{})
	keys := r.add(t, "planner", "builder")
	offered := must(rpc.Call(t.Context(), r.as(keys[0]), api.Handoff, api.HandoffParams{
		Action: "initiate", To: "builder", TaskID: "T-1", Title: "a title", Objective: "an objective", Summary: "a summary",
		NextStep: "the next step", Criteria: api.Criteria{"a criterion"}, NeedsHuman: true,
	}))(t)
	held := must(rpc.Call(t.Context(), r.as(keys[0]), api.Send, api.SendParams{To: api.Recipients{"builder"}, Text: "x", Policy: []byte(`{"human_gate":"required"}`)}))(t)

	t.Run("the decision about a handoff has the state of the handoff", func(t *testing.T) {
		got := must(rpc.Call(t.Context(), r.as(r.operator), api.Deny, api.IDParams{ID: hub.EnvelopeID(offered.Report.ID), Reason: "no"}))(t)
		if got.HandoffStatus != hub.HandoffRejected || got.Status != string(hub.HandoffRejected) || got.MessageStatus != "" || got.ActionVerdict != "" {
			t.Errorf("got %+v, want the state of a handoff that is rejected", got)
		}
	})
	t.Run("the decision about a message has the status of the message", func(t *testing.T) {
		got := must(rpc.Call(t.Context(), r.as(r.operator), api.Approve, api.IDParams{ID: held.ID}))(t)
		if got.MessageStatus == "" || got.Status != string(got.MessageStatus) || got.HandoffStatus != "" || got.ActionVerdict != "" {
			t.Errorf("got %+v, want the status of a message", got)
		}
	})
}
