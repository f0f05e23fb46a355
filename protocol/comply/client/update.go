package client

import (
	"encoding/json"
	"fmt"

	"github.com/parley-agents/parley/protocol/comply/rules"
)

// number returns a JSON number; 0 if the value is none.
func number(v any) float64 {
	n, _ := v.(json.Number)
	f, _ := n.Float64()
	return f
}

// updateScenarios are about session/update.
var updateScenarios = []*Scenario{
	{
		ID: "client.update.known", Title: "every kind of update", Area: "Updates",
		Rules: []string{"CL-UPD-02"},
		turn: func(c *conversation, _ *rules.Entry) {
			for _, u := range c.knownUpdates() {
				e := c.notify(u)
				if !c.alive("CL-UPD-02", fmt.Sprintf("the update %s", u["sessionUpdate"]), e) {
					return
				}
			}
		},
	},
	{
		ID: "client.update.unknown", Title: "updates of unknown kinds", Area: "Updates",
		Rules: []string{"CL-UPD-01"},
		turn: func(c *conversation, _ *rules.Entry) {
			for _, u := range []object{
				{"sessionUpdate": "_parley_mood", "mood": "calm"},
				{"sessionUpdate": "future_kind", "content": object{"type": "text", "text": "hello"}, "list": []any{1, nil, object{}}},
			} {
				e := c.notify(u)
				if !c.alive("CL-UPD-01", "an update of an unknown kind", e) {
					return
				}
			}
		},
	},
	{
		ID: "client.update.content", Title: "content of an unknown type", Area: "Updates",
		Rules: []string{"CL-UPD-05"},
		turn: func(c *conversation, _ *rules.Entry) {
			e := c.notify(c.chunk("agent_message_chunk", object{"type": "_parley_chart", "data": []any{1, 2, 3}}))
			c.alive("CL-UPD-05", "content of an unknown type", e)
		},
	},
	{
		ID: "client.update.other-session", Title: "an update of another session", Area: "Updates",
		Rules: []string{"CL-UPD-03"},
		turn: func(c *conversation, _ *rules.Entry) {
			e := c.send(object{"method": "session/update", "params": object{
				"sessionId": "parley-unknown", "update": c.chunk("agent_message_chunk", object{"type": "text", "text": "hello"}),
			}})
			c.alive("CL-UPD-03", "an update of an unknown session", e)
		},
	},
	{
		ID: "client.update.early", Title: "updates before the answer to session/new", Area: "Updates",
		Rules: []string{"CL-UPD-04"}, reach: "CL-UPD-04",
		early: func(c *conversation) {
			c.notify(c.commands())
			c.notify(object{"sessionUpdate": "session_info_update", "title": "A new session"})
		},
	},
}

// picture is a PNG of one pixel, in base64.
const picture = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

// The words that commands for settings are given.
const (
	wantedMode   = "code"
	wantedOption = "model"
	wantedValue  = "deep"
)

// settingScenarios are about modes and options. The ledger judges the requests.
var settingScenarios = []*Scenario{
	{
		ID: "client.mode.set", Title: "the user changes the mode", Area: "Modes", Need: NeedMode, Protocol: 1,
		Rules: []string{"CL-MODE-01"}, Press: "choose the mode named Write code, then send a prompt",
		modes: object{"currentModeId": "ask", "availableModes": []any{
			object{"id": "ask", "name": "Ask first", "description": "Ask before every change"},
			object{"id": wantedMode, "name": "Write code"},
		}},
		turn: func(c *conversation, _ *rules.Entry) {
			if c.called("session/set_mode") != nil {
				c.meet()
			}
		},
	},
	{
		ID: "client.option.set", Title: "the user changes an option", Area: "Options", Need: NeedOption,
		Rules: []string{"CL-CFG-01"}, Press: "set the option Model to Deep thinker, then send a prompt",
		options: true,
		turn: func(c *conversation, _ *rules.Entry) {
			if c.called("session/set_config_option") != nil {
				c.meet()
			}
		},
	},
	{
		ID: "client.option.category", Title: "options with unknown categories", Area: "Options",
		Rules: []string{"CL-CFG-02"}, reach: "CL-CFG-02",
		options: true,
		turn: func(c *conversation, _ *rules.Entry) {
			e := c.notify(object{"sessionUpdate": "config_option_update", "configOptions": c.modelOption(wantedValue)})
			c.alive("CL-CFG-02", "options with unknown categories", e)
		},
	},
}
