package fleet

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/parley-agents/parley/protocol/acp"
	"github.com/parley-agents/parley/protocol/acp/acpv2"
)

// steerMethod is the request of an extension that gives an agent words in the turn that runs.
// The agent announces it in the _meta of its answer to initialize, as steering.supported.
const steerMethod = "_session/steering"

// takesWords reports whether an agent takes words in a turn that runs.
func takesWords(p *acp.Profile) bool {
	var metas []json.RawMessage
	switch {
	case p.V1 != nil:
		capabilities, _ := p.V1.AgentCapabilities.Get()
		metas = append(metas, p.V1.Meta, capabilities.Meta)
	case p.V2 != nil:
		capabilities, _ := p.V2.Capabilities.Get()
		metas = append(metas, p.V2.Meta, capabilities.Meta)
	}
	for _, meta := range metas {
		var has struct {
			Steering struct {
				Supported bool `json:"supported"`
			} `json:"steering"`
		}
		if len(meta) > 0 && json.Unmarshal(meta, &has) == nil && has.Steering.Supported {
			return true
		}
	}
	return false
}

// Steer gives the agent words for its model in the turn that runs. It reports false if the agent
// takes none there, or if its turn is over; the words are lost then. It is safe to call while Prompt
// waits.
func (a *Agent) Steer(ctx context.Context, text string) (bool, error) {
	if !takesWords(a.client.Agent()) {
		return false, nil
	}
	// An agent without a turn must not begin one.
	params := map[string]any{
		"sessionId": a.session.ID, "prompt": []acpv2.ContentBlock{acp.Text(text)},
		"_meta": map[string]any{"steering": map[string]string{"idleBehavior": "promptRequired"}},
	}
	raw, err := a.client.Call(ctx, steerMethod, params)
	if err != nil {
		return false, fmt.Errorf("fleet: give the agent words in its turn: %w", err)
	}
	var answer struct {
		Outcome string `json:"outcome"`
	}
	err = json.Unmarshal(raw, &answer)
	return answer.Outcome == "injected", err
}
