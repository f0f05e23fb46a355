package api

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/operation/rpc"
)

// An offText is a part of a tool's description or schema that is false when all of the
// features are off.
type offText struct {
	features     []hub.Feature
	tool         string
	old, instead string
}

var (
	negotiation  = []hub.Feature{hub.FeatureNegotiation}
	disagreement = []hub.Feature{hub.FeatureDisagreement}
	talks        = []hub.Feature{hub.FeatureNegotiation, hub.FeatureDisagreement}
	teamspaces   = []hub.Feature{hub.FeatureTeamspaces}
)

var offTexts = []offText{
	{negotiation, "acp_send", ", task.offer|accept|decline|counter", ""},
	{disagreement, "acp_send", ", position.state|challenge|concede|escalate", ""},
	{teamspaces, "acp_send", "agents, team:NAME, @ABILITY, or *", "agents, @ABILITY, or *"},
	{talks, "acp_respond", decisionMember, ""},
	{talks, "acp_query", "; or show how a negotiation or disagreement stands, and what you may do", ""},
	{negotiation, "acp_query", "a negotiation or disagreement", "a disagreement"},
	{disagreement, "acp_query", "a negotiation or disagreement", "a negotiation"},
	{negotiation, "acp_query", negotiationMember, ""},
	{disagreement, "acp_query", disagreementMember, ""},
	{teamspaces, "acp_handoff", teamMember, ""},
}

// Narrow returns the specification of an operation as a hub that has features off
// describes it.
func Narrow(s rpc.Spec, off []hub.Feature) rpc.Spec {
	for _, t := range offTexts {
		isOn := func(f hub.Feature) bool { return !slices.Contains(off, f) }
		if t.tool == s.Tool && !slices.ContainsFunc(t.features, isOn) {
			s.Doc = strings.Replace(s.Doc, t.old, t.instead, 1)
			s.Input = json.RawMessage(strings.Replace(string(s.Input), t.old, t.instead, 1))
		}
	}
	return s
}
