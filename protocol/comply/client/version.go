package client

import (
	"fmt"

	"github.com/parley-agents/parley/protocol/acp/schema"
	"github.com/parley-agents/parley/protocol/comply/rules"
)

// The versions of the protocol differ in the shape of most messages. The scenarios are written
// once; the functions here return what the agent sends in the version of a conversation.

// versionOf returns the version that a run wants; 1 unless it says another.
func (o *Options) versionOf() schema.Version {
	if o.Protocol == 0 {
		return schema.V1
	}
	return schema.Version(o.Protocol)
}

// Applicable returns the scenarios that can be played in a version of the protocol.
func Applicable(all []*Scenario, version int) (out []*Scenario) {
	for _, s := range all {
		if s.Protocol == 0 || s.Protocol == version {
			out = append(out, s)
		}
	}
	return out
}

// v2 reports whether version 2 was agreed in the conversation.
func (c *conversation) v2() bool { return is(c, func() bool { return c.version == schema.V2 }) }

// agree chooses the version of the conversation: the one that the run wants, if the client
// offers it. The state must be locked.
func (c *conversation) agree() {
	c.version = schema.V1
	if c.wanted == schema.V2 && c.offer >= int(schema.V2) {
		c.version = schema.V2
	}
}

// agentInfo is the description of the agent in both versions.
func agentInfo() object {
	return object{"name": "parley-scripted-agent", "title": "Parley's scripted agent", "version": "1.0.0"}
}

// initializeResult returns the usual answer to initialize.
func (c *conversation) initializeResult() object {
	if c.v2() {
		return object{"protocolVersion": int(schema.V2), "info": agentInfo(), "capabilities": object{"session": object{}}, "authMethods": []any{}}
	}
	return object{
		"protocolVersion":   int(schema.V1),
		"agentCapabilities": object{"loadSession": false, "promptCapabilities": object{"image": false, "audio": false, "embeddedContext": false}},
		"agentInfo":         agentInfo(),
		"authMethods":       []any{},
	}
}

// leastResult returns an answer to initialize without anything that may be left out. Version 2
// has no sessions without a capability.
func (c *conversation) leastResult() object {
	if c.v2() {
		return object{"protocolVersion": int(schema.V2), "info": object{"name": "a", "version": "1"}, "capabilities": object{"session": object{}}}
	}
	return object{"protocolVersion": int(schema.V1)}
}

// capabilitiesMember returns the name of the member with the capabilities of the agent.
func (c *conversation) capabilitiesMember() string {
	if c.v2() {
		return "capabilities"
	}
	return "agentCapabilities"
}

// loginMethods returns the login methods of the agent.
func (c *conversation) loginMethods() []any {
	if c.v2() {
		return []any{
			object{"type": "agent", "methodId": loginMethod, "name": "Log in to Parley", "description": "A login that always works"},
			object{"type": "agent", "methodId": "parley-token", "name": "Use a token", "description": nil},
		}
	}
	return []any{
		object{"id": loginMethod, "name": "Log in to Parley", "description": "A login that always works"},
		object{"id": "parley-token", "name": "Use a token", "description": nil},
	}
}

// accept answers a prompt of version 2, where the answer is not the end of the turn.
func (c *conversation) accept(prompt *rules.Entry) {
	if !c.v2() {
		return
	}
	id := ""
	c.update(func() {
		c.lastMessage++
		id = fmt.Sprintf("user-%d", c.lastMessage)
	})
	c.reply(prompt, object{"messageId": id})
	c.notify(object{"sessionUpdate": "state_update", "state": "running"})
}

// endTurn ends the turn of a prompt.
func (c *conversation) endTurn(prompt *rules.Entry, reason string) {
	if c.v2() {
		c.notify(object{"sessionUpdate": "state_update", "state": "idle", "stopReason": reason})
		return
	}
	c.reply(prompt, object{"stopReason": reason})
}

// chunk returns an update with a piece of a message.
func (c *conversation) chunk(kind string, content object) object {
	u := object{"sessionUpdate": kind, "content": content}
	if c.v2() {
		u["messageId"] = "parley-" + kind
	}
	return u
}

// toolCall returns an update that announces a tool call.
func (c *conversation) toolCall(id, title, kind, status string) object {
	u := object{"sessionUpdate": "tool_call", "toolCallId": id, "title": title, "kind": kind, "status": status}
	if c.v2() {
		u["sessionUpdate"] = "tool_call_update"
	}
	return u
}

// permissionParams returns the params of a permission request.
func (c *conversation) permissionParams(session, tool string, options []option) object {
	var list []any
	for _, o := range options {
		list = append(list, object{"optionId": o.id, "name": o.name, "kind": o.kind})
	}
	call := object{"toolCallId": tool, "title": "Run the tests", "kind": "execute", "status": "pending", "rawInput": object{"command": "make test"}}
	p := object{"sessionId": session, "options": list}
	if c.v2() {
		p["title"] = "Run the tests"
		p["subject"] = object{"type": "tool_call", "toolCall": call}
	} else {
		p["toolCall"] = call
	}
	return p
}

// commands returns an update with the commands of the agent.
func (c *conversation) commands() object {
	web := object{"name": "web", "description": "Search the web", "input": object{"hint": "words"}}
	help := object{"name": "help", "description": "Show help"}
	if c.v2() {
		web["type"] = "command"
		web["input"] = object{"type": "text", "hint": "words"}
		help["type"] = "command"
	}
	return object{"sessionUpdate": "available_commands_update", "availableCommands": []any{web, help}}
}

// modelOption returns the options of a session: the model, with a current value, and two
// others, one with a category of no protocol and one with none.
func (c *conversation) modelOption(current string) []any {
	id := "id"
	if c.v2() {
		id = "configId"
	}
	return []any{
		object{
			id: wantedOption, "name": "Model", "category": "model", "type": "select", "currentValue": current,
			"options": []any{object{"value": "fast", "name": "Quick thinker"}, object{"value": wantedValue, "name": "Deep thinker"}},
		},
		object{
			id: "tone", "name": "Tone", "category": "_parley_tone", "type": "select", "currentValue": "dry",
			"options": []any{object{"value": "dry", "name": "Dry"}, object{"value": "warm", "name": "Warm"}},
		},
		object{
			id: "place", "name": "Place", "type": "select", "currentValue": "here",
			"options": []any{object{"value": "here", "name": "Here"}},
		},
	}
}

// knownUpdates returns every kind of update of the protocol that needs no capability of the
// client.
func (c *conversation) knownUpdates() []object {
	text := func(s string) object { return object{"type": "text", "text": s} }
	updates := []object{
		c.chunk("user_message_chunk", text("hello")),
		c.chunk("agent_thought_chunk", text("A greeting.")),
		c.chunk("agent_message_chunk", object{"type": "image", "mimeType": "image/png", "data": picture}),
		c.chunk("agent_message_chunk", object{"type": "audio", "mimeType": "audio/wav", "data": "UklGRg=="}),
		c.chunk("agent_message_chunk", object{"type": "resource_link", "uri": "file:///tmp/a.txt", "name": "a.txt"}),
		c.chunk("agent_message_chunk", object{"type": "resource", "resource": object{"uri": "file:///tmp/a.txt", "mimeType": "text/plain", "text": "one\n"}}),
		c.toolCall("known-1", "Edit a file", "edit", "pending"),
		{"sessionUpdate": "tool_call_update", "toolCallId": "known-1", "status": "in_progress", "locations": []any{object{"path": "/tmp/a.txt", "line": 1}}, "content": []any{object{"type": "content", "content": text("Editing.")}}},
		c.commands(),
		{"sessionUpdate": "config_option_update", "configOptions": c.modelOption("fast")},
		{"sessionUpdate": "session_info_update", "title": "A greeting", "updatedAt": "2026-01-31T12:00:00Z"},
		{"sessionUpdate": "usage_update", "used": 1200, "size": 200000, "cost": object{"amount": 0.01, "currency": "USD"}},
	}
	entries := []any{object{"content": "Look", "priority": "high", "status": "completed"}, object{"content": "Write", "priority": "low", "status": "pending"}}
	if c.v2() {
		return append(updates, newUpdates(entries)...)
	}
	return append(updates,
		object{"sessionUpdate": "tool_call_update", "toolCallId": "known-1", "status": "completed", "content": []any{object{"type": "diff", "path": "/tmp/a.txt", "oldText": nil, "newText": "one\n"}}, "rawOutput": object{"ok": true}},
		object{"sessionUpdate": "plan", "entries": entries},
		object{"sessionUpdate": "plan", "entries": []any{}},
		object{"sessionUpdate": "current_mode_update", "currentModeId": "parley"},
	)
}

// newUpdates returns the updates that version 2 alone has.
func newUpdates(entries []any) []object {
	message := []any{object{"type": "text", "text": "Hello."}}
	patch := object{"format": "git_patch", "text": "--- /dev/null\n+++ b/a.txt\n@@ -0,0 +1 @@\n+one\n"}
	return []object{
		{"sessionUpdate": "user_message", "messageId": "known-user", "content": message},
		{"sessionUpdate": "agent_message", "messageId": "known-agent", "content": message},
		{"sessionUpdate": "agent_thought", "messageId": "known-thought", "content": message},
		{"sessionUpdate": "tool_call_content_chunk", "toolCallId": "known-1", "content": object{"type": "content", "content": object{"type": "text", "text": "More."}}},
		{"sessionUpdate": "tool_call_update", "toolCallId": "known-1", "status": "completed", "content": []any{object{"type": "diff", "changes": []any{object{"operation": "add", "path": "/tmp/a.txt"}}, "patch": patch}}},
		{"sessionUpdate": "terminal_update", "terminalId": "known-t", "command": "make", "cwd": "/tmp"},
		{"sessionUpdate": "terminal_output_chunk", "terminalId": "known-t", "data": "b25lCg=="},
		{"sessionUpdate": "plan_update", "plan": object{"type": "items", "planId": "known-p", "entries": entries}},
		{"sessionUpdate": "notice", "severity": "info", "title": "The model changed"},
		{"sessionUpdate": "compaction_update", "compactionId": "known-c", "status": "in_progress"},
		{"sessionUpdate": "compaction_summary_chunk", "compactionId": "known-c", "content": object{"type": "text", "text": "Short."}},
		{"sessionUpdate": "state_update", "state": "requires_action"},
		{"sessionUpdate": "state_update", "state": "running"},
	}
}

// versionScenarios are about what version 2 alone has.
var versionScenarios = []*Scenario{
	{
		ID: "client.initialize.version-1", Title: "the agent answers an offer of version 2 with version 1", Area: "Initialize", Protocol: 2,
		Rules: []string{"CL-INIT-11"}, old: true,
		turn:  func(c *conversation, _ *rules.Entry) { c.meet() },
		after: judgeOldVersion,
	},
	{
		ID: "client.turn.answer", Title: "the answer to a prompt is not the end of the turn", Area: "Turn", Protocol: 2,
		Rules: []string{"CL-TURN-01"},
		turn: func(c *conversation, prompt *rules.Entry) {
			c.pause(settle)
			e := c.say("I work on.")
			c.alive("CL-TURN-01", "the answer to the prompt", prompt, e)
		},
	},
	{
		ID: "client.turn.states", Title: "a state that the client does not know", Area: "Turn", Protocol: 2,
		Rules: []string{"CL-TURN-02"},
		turn: func(c *conversation, _ *rules.Entry) {
			e := c.notify(object{"sessionUpdate": "state_update", "state": "_parley_dreaming"})
			c.pause(settle)
			c.alive("CL-TURN-02", "an unknown state", e)
			c.notify(object{"sessionUpdate": "state_update", "state": "running"})
		},
	},
	{
		ID: "client.permission.subject", Title: "permission for something that the client does not know", Area: "Permission", Protocol: 2,
		Rules: []string{"CL-PERM-08"}, Press: "answer the questions",
		turn: func(c *conversation, _ *rules.Entry) {
			c.meet()
			for _, subject := range []any{nil, object{"type": "_parley_trip", "to": "the moon"}} {
				p := c.permissionParams(c.sessionID(), "call-1", []option{{"yes", "Allow", "allow_once"}, {"no", "Reject", "reject_once"}})
				p["subject"] = subject
				k := c.ask("session/request_permission", p)
				if c.require("CL-PERM-08", "an answer to a permission request with the subject "+shown(subject), k) == nil {
					return
				}
			}
		},
	},
}

// judgeOldVersion judges a client that offered version 2 and got version 1: it may give up, or
// go on in version 1.
func judgeOldVersion(c *conversation, e ending) {
	c.meet()
	opened := c.called("session/new")
	prompted := is(c, func() bool { return len(c.prompts) > 0 })
	switch {
	case opened != nil && !hasList(opened, "mcpServers"):
		c.broke("CL-INIT-11", "session/new as in version 1", "mcpServers is missing", c.called("initialize"), opened)
	case e.hung && prompted:
		f := c.finding("CL-INIT-11", "the turn ends with the answer to the prompt, as in version 1", "the client did not end", c.called("initialize"), c.called("session/prompt"))
		f.Timed = true
		c.note(f)
	}
}

// hasList reports whether a member of the params is a list.
func hasList(e *rules.Entry, name string) bool {
	_, ok := params(e)[name].([]any)
	return ok
}
