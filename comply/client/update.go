package client

import (
	"encoding/json"
	"fmt"

	"github.com/parley-agents/parley/comply/rules"
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
			for _, u := range knownUpdates {
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
			e := c.notify(object{"sessionUpdate": "agent_message_chunk", "content": object{"type": "_parley_chart", "data": []any{1, 2, 3}}})
			c.alive("CL-UPD-05", "content of an unknown type", e)
		},
	},
	{
		ID: "client.update.other-session", Title: "an update of another session", Area: "Updates",
		Rules: []string{"CL-UPD-03"},
		turn: func(c *conversation, _ *rules.Entry) {
			e := c.send(object{"method": "session/update", "params": object{
				"sessionId": "parley-unknown", "update": object{"sessionUpdate": "agent_message_chunk", "content": object{"type": "text", "text": "hello"}},
			}})
			c.alive("CL-UPD-03", "an update of an unknown session", e)
		},
	},
	{
		ID: "client.update.early", Title: "updates before the answer to session/new", Area: "Updates",
		Rules: []string{"CL-UPD-04"}, reach: "CL-UPD-04",
		early: func(c *conversation) {
			c.notify(object{"sessionUpdate": "available_commands_update", "availableCommands": []any{object{"name": "help", "description": "Show help"}}})
			c.notify(object{"sessionUpdate": "session_info_update", "title": "A new session"})
		},
	},
}

// picture is a PNG of one pixel, in base64.
const picture = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

// knownUpdates has every kind of update of the protocol that needs no capability of the client.
var knownUpdates = []object{
	{"sessionUpdate": "user_message_chunk", "content": object{"type": "text", "text": "hello"}},
	{"sessionUpdate": "agent_thought_chunk", "content": object{"type": "text", "text": "A greeting."}},
	{"sessionUpdate": "agent_message_chunk", "content": object{"type": "image", "mimeType": "image/png", "data": picture}},
	{"sessionUpdate": "agent_message_chunk", "content": object{"type": "audio", "mimeType": "audio/wav", "data": "UklGRg=="}},
	{"sessionUpdate": "agent_message_chunk", "content": object{"type": "resource_link", "uri": "file:///tmp/a.txt", "name": "a.txt"}},
	{"sessionUpdate": "agent_message_chunk", "content": object{"type": "resource", "resource": object{"uri": "file:///tmp/a.txt", "mimeType": "text/plain", "text": "one\n"}}},
	{"sessionUpdate": "tool_call", "toolCallId": "known-1", "title": "Edit a file", "kind": "edit", "status": "pending", "locations": []any{object{"path": "/tmp/a.txt", "line": 1}}},
	{"sessionUpdate": "tool_call_update", "toolCallId": "known-1", "status": "in_progress", "content": []any{object{"type": "content", "content": object{"type": "text", "text": "Editing."}}}},
	{"sessionUpdate": "tool_call_update", "toolCallId": "known-1", "status": "completed", "content": []any{object{"type": "diff", "path": "/tmp/a.txt", "oldText": nil, "newText": "one\n"}}, "rawOutput": object{"ok": true}},
	{"sessionUpdate": "plan", "entries": []any{object{"content": "Look", "priority": "high", "status": "completed"}, object{"content": "Write", "priority": "low", "status": "pending"}}},
	{"sessionUpdate": "plan", "entries": []any{}},
	{"sessionUpdate": "available_commands_update", "availableCommands": []any{object{"name": "web", "description": "Search the web", "input": object{"hint": "words"}}, object{"name": "help", "description": "Show help"}}},
	{"sessionUpdate": "current_mode_update", "currentModeId": "parley"},
	{"sessionUpdate": "config_option_update", "configOptions": modelOption("fast")},
	{"sessionUpdate": "session_info_update", "title": "A greeting", "updatedAt": "2026-01-31T12:00:00Z"},
	{"sessionUpdate": "usage_update", "used": 1200, "size": 200000, "cost": object{"amount": 0.01, "currency": "USD"}},
}

// modelOption returns the options of a session: the model, with a current value, and one with
// a category of no protocol.
func modelOption(current string) []any {
	return []any{
		object{
			"id": "model", "name": "Model", "category": "model", "type": "select", "currentValue": current,
			"options": []any{object{"value": "fast", "name": "Quick thinker"}, object{"value": "deep", "name": "Deep thinker"}},
		},
		object{
			"id": "tone", "name": "Tone", "category": "_parley_tone", "type": "select", "currentValue": "dry",
			"options": []any{object{"value": "dry", "name": "Dry"}, object{"value": "warm", "name": "Warm"}},
		},
		object{
			"id": "place", "name": "Place", "type": "select", "currentValue": "here",
			"options": []any{object{"value": "here", "name": "Here"}},
		},
	}
}

// The words that commands for settings are given.
const (
	wantedMode   = "code"
	wantedOption = "model"
	wantedValue  = "deep"
)

// settingScenarios are about modes and options. The ledger judges the requests.
var settingScenarios = []*Scenario{
	{
		ID: "client.mode.set", Title: "the user changes the mode", Area: "Modes", Need: NeedMode,
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
		options: modelOption("fast"),
		turn: func(c *conversation, _ *rules.Entry) {
			if c.called("session/set_config_option") != nil {
				c.meet()
			}
		},
	},
	{
		ID: "client.option.category", Title: "options with unknown categories", Area: "Options",
		Rules: []string{"CL-CFG-02"}, reach: "CL-CFG-02",
		options: modelOption("fast"),
		turn: func(c *conversation, _ *rules.Entry) {
			e := c.notify(object{"sessionUpdate": "config_option_update", "configOptions": modelOption("deep")})
			c.alive("CL-CFG-02", "options with unknown categories", e)
		},
	},
}
