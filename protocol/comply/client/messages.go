package client

import (
	"encoding/json"
	"fmt"

	"github.com/parley-agents/parley/protocol/comply/rules"
)

// messageScenarios are about JSON-RPC: ids, unknown methods, and messages that the client does
// not expect.
var messageScenarios = []*Scenario{
	{
		ID: "client.rpc.ids", Title: "requests with ids of all kinds", Area: "Messages",
		Rules: []string{"CL-RPC-05", "CL-RPC-11"},
		turn:  playIDs,
	},
	{
		ID: "client.rpc.null-id", Title: "a request with the id null", Area: "Messages",
		Rules: []string{"CL-RPC-12"},
		turn: func(c *conversation, _ *rules.Entry) {
			k := c.askAs(nil, pingMethod, object{})
			c.answerIn(k, settle) // an answer is welcome, but not demanded
			c.alive("CL-RPC-12", "a request with the id null", k.request)
		},
	},
	{
		ID: "client.rpc.together", Title: "many requests at once", Area: "Messages",
		Rules: []string{"CL-RPC-06", "CL-RPC-10"},
		turn:  playTogether,
	},
	{
		ID: "client.rpc.early", Title: "a request before the answer to session/new", Area: "Messages",
		Rules: []string{"CL-RPC-14"},
		early: func(c *conversation) { c.ask(pingMethod, object{"early": true}) },
		turn:  judgeEarly,
	},
	{
		ID: "client.rpc.notification", Title: "a notification that the client does not know", Area: "Messages",
		Rules: []string{"CL-RPC-07", "CL-EXT-02"},
		turn: func(c *conversation, _ *rules.Entry) {
			e := c.send(object{"method": "_parley/note", "params": object{"text": "hello"}})
			c.alive("CL-EXT-02", "an unknown notification", e)
		},
	},
	{
		ID: "client.rpc.stray", Title: "answers that belong to no request", Area: "Messages",
		Rules: []string{"CL-RPC-09"},
		turn: func(c *conversation, _ *rules.Entry) {
			e := c.send(object{"id": json.RawMessage("null"), "error": object{"code": -32600, "message": "invalid request"}})
			if !c.alive("CL-RPC-09", "an error with the id null", e) {
				return
			}
			e = c.send(object{"id": 987654, "result": object{}})
			c.alive("CL-RPC-09", "an answer with an unknown id", e)
		},
	},
	{
		ID: "client.rpc.params", Title: "requests without params", Area: "Messages", Protocol: 1,
		Rules: []string{"CL-RPC-13"},
		turn:  playParams,
	},
	{
		ID: "client.rpc.long", Title: "a message of two megabytes", Area: "Messages",
		Rules: []string{"CL-TRN-04"},
		turn: func(c *conversation, _ *rules.Entry) {
			e := c.say(string(noise(2 << 20)))
			c.alive("CL-TRN-04", "a message of two megabytes", e)
		},
	},
	{
		ID: "client.prompt.error", Title: "a prompt is answered with an error", Area: "Turn",
		Rules: []string{"CL-PRM-02"}, silent: true, refuses: true,
		turn: func(c *conversation, prompt *rules.Entry) {
			c.say("One moment.")
			c.refuse(prompt, -32603, "the model is gone")
			c.meet()
		},
		after: judgeHang("CL-PRM-02", "an error as the answer to a prompt"),
	},
	{
		ID: "client.prompt.reason", Title: "a turn ends because of a limit", Area: "Turn",
		Rules: []string{"CL-PRM-04"}, silent: true,
		turn: func(c *conversation, prompt *rules.Entry) {
			reason := "max_turn_requests"
			if c.v2() {
				reason = "_parley_bedtime" // version 2 is open for other reasons
			}
			c.endTurn(prompt, reason)
			c.meet()
		},
		after: judgeHang("CL-PRM-04", "a turn that ended with max_turn_requests"),
	},
	{
		ID: "client.prompt.slow", Title: "the agent works for three seconds", Area: "Turn",
		Rules: []string{"CL-PRM-03"},
		turn: func(c *conversation, prompt *rules.Entry) {
			c.pause(10 * settle)
			c.alive("CL-PRM-03", "three seconds of work", prompt)
		},
	},
}

// playIDs asks with ids of all kinds, one of them that of the prompt.
func playIDs(c *conversation, prompt *rules.Entry) {
	var own any
	json.Unmarshal(prompt.ID, &own) // the id of the client, as an id of the agent
	for _, id := range []any{"parley", "17", 9007199254740991, 0, own} {
		rule := "CL-RPC-05"
		if fmt.Sprint(id) == fmt.Sprint(own) {
			rule = "CL-RPC-11"
		}
		c.meet()
		k := c.askAs(id, pingMethod, object{})
		if c.answer(k) != nil {
			continue
		}
		if c.mute() {
			return
		}
		c.missing(rule, fmt.Sprintf("an answer with the id %s", shown(id)), k.request)
		return
	}
}

// playTogether asks many questions at once. The pause shows a second answer.
func playTogether(c *conversation, _ *rules.Entry) {
	var calls []*call
	for range 10 {
		calls = append(calls, c.ask(pingMethod, object{}))
	}
	c.meet()
	if c.answer(calls[0]) == nil && c.mute() {
		return
	}
	for _, k := range calls {
		if c.require("CL-RPC-10", "an answer to each of ten requests", k) == nil {
			return
		}
	}
	c.pause(settle)
}

// judgeEarly judges whether the request before the answer to session/new was answered.
func judgeEarly(c *conversation, _ *rules.Entry) {
	var early *call
	c.mu.Lock()
	for _, k := range c.calls {
		if k.request != nil && params(k.request)["early"] == true {
			early = k
		}
	}
	c.mu.Unlock()
	if early == nil || c.mute() {
		return
	}
	c.meet()
	c.require("CL-RPC-14", "an answer to a request that came before the answer to session/new", early)
}

// playParams makes requests that the client announced without their params.
func playParams(c *conversation, _ *rules.Entry) {
	methods := map[string]string{"fs.readTextFile": "fs/read_text_file", "terminal": "terminal/output"}
	for path, method := range methods {
		if !c.can(path) {
			continue
		}
		c.meet()
		k := c.ask(method, object{"sessionId": c.sessionID()})
		e := c.require("CL-RPC-13", "an error with the code -32602", k)
		if e == nil {
			return
		}
		if codeOf(e) != -32602 {
			c.broke("CL-RPC-13", "an error with the code -32602", "the answer is "+clipped(string(e.Raw)), k.request, e)
		}
	}
	if !c.can("fs.readTextFile") && !c.can("terminal") {
		c.skip("the client announced neither files nor terminals")
	}
}

// judgeHang returns the judgement that a client must end, or let its user end it, after an
// event.
func judgeHang(rule, event string) func(*conversation, ending) {
	return func(c *conversation, e ending) {
		if e.hung && is(c, func() bool { return len(c.prompts) > 0 }) {
			f := c.finding(rule, "the client goes on or ends after "+event, "the client did not end", is(c, func() *rules.Entry { return c.log[len(c.log)-1].Entry }))
			f.Timed = true
			c.note(f)
		}
	}
}
