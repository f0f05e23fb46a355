package client

import (
	"fmt"
	"slices"

	"github.com/parley-agents/parley/protocol/acp/schema"
	"github.com/parley-agents/parley/protocol/comply/rules"
)

// An option is one of the choices of a permission request.
type option struct{ id, name, kind string }

// permissionScenarios are about session/request_permission and session/cancel.
var permissionScenarios = []*Scenario{
	{
		ID: "client.permission.kinds", Title: "permission with options of every kind", Area: "Permission",
		Rules: []string{"CL-PERM-01", "CL-PERM-02"}, Press: "answer every question",
		turn: func(c *conversation, _ *rules.Entry) {
			for i, options := range [][]option{
				{{"go-1", "Allow once", "allow_once"}, {"go-2", "Always allow", "allow_always"}, {"stop-1", "Reject once", "reject_once"}, {"stop-2", "Always reject", "reject_always"}},
				{{"opt 7/ü", "Yes", "allow_once"}, {"opt 8/ü", "No", "reject_once"}},
				{{"only", "Go on", "allow_once"}},
				{{"never", "Do not", "reject_once"}},
			} {
				if !c.permission(fmt.Sprintf("call-%d", i+1), options) {
					return
				}
			}
		},
	},
	{
		ID: "client.permission.unknown-kind", Title: "permission with an option of an unknown kind", Area: "Permission",
		Rules: []string{"CL-PERM-03"}, Press: "answer the question",
		turn: func(c *conversation, _ *rules.Entry) {
			c.meet()
			k := c.askPermission("call-1", []option{{"yes", "Allow", "allow_once"}, {"later", "Ask me later", "_parley_later"}, {"no", "Reject", "reject_once"}})
			c.require("CL-PERM-03", "an answer to a permission request with an unknown kind of option", k)
		},
	},
	{
		ID: "client.permission.two", Title: "two permission requests at once", Area: "Permission",
		Rules: []string{"CL-PERM-04"}, Press: "answer both questions",
		turn: func(c *conversation, _ *rules.Entry) {
			c.meet()
			first := c.askPermission("call-1", []option{{"a-yes", "Allow", "allow_once"}, {"a-no", "Reject", "reject_once"}})
			second := c.askPermission("call-2", []option{{"b-yes", "Allow", "allow_once"}, {"b-no", "Reject", "reject_once"}})
			for _, k := range []*call{first, second} {
				if c.require("CL-PERM-04", "an answer to each of two permission requests", k) == nil {
					return
				}
			}
		},
	},
	{
		ID: "client.permission.slow", Title: "the user thinks about a permission request", Area: "Permission",
		Rules: []string{"CL-PERM-07"}, Press: "wait three seconds, then answer the question", patient: true,
		turn: playSlow,
	},
	{
		ID: "client.permission.other-session", Title: "permission for another session", Area: "Permission",
		Rules: []string{"CL-PERM-06"}, Press: "answer the question if the client shows one",
		turn: func(c *conversation, _ *rules.Entry) {
			c.meet()
			k := c.ask("session/request_permission", c.permissionParams("parley-child", "call-1", []option{{"yes", "Allow", "allow_once"}, {"no", "Reject", "reject_once"}}))
			c.require("CL-PERM-06", "an answer, which may be an error", k)
		},
	},
	{
		ID: "client.permission.withdrawn", Title: "the agent withdraws a permission request", Area: "Permission",
		Rules: []string{"CL-CAN-03"},
		turn: func(c *conversation, _ *rules.Entry) {
			c.meet()
			k := c.askPermission("call-1", []option{{"yes", "Allow", "allow_once"}, {"no", "Reject", "reject_once"}})
			c.send(object{"method": "$/cancel_request", "params": object{"requestId": k.request.ID}})
			c.require("CL-CAN-03", "an answer, which may be the error -32800", k)
		},
	},
	{
		ID: "client.permission.cancel", Title: "the user cancels the turn", Area: "Cancel",
		Rules: []string{"CL-PERM-05", "CL-CAN-01", "CL-CAN-02"},
		Press: "stop the turn while the question is shown",
		turn:  playCancel,
	},
	{
		ID: "client.elicitation.form", Title: "a form for the user", Area: "Elicitation",
		Rules: []string{"CL-CAP-08", "CL-ELI-01", "CL-ELI-02"}, Press: "fill in the form",
		turn: playForm,
	},
}

// askPermission announces a tool call and asks for permission to start it.
func (c *conversation) askPermission(tool string, options []option) *call {
	c.notify(c.toolCall(tool, "Run the tests", "execute", "pending"))
	return c.ask("session/request_permission", c.permissionParams(c.sessionID(), tool, options))
}

// permission asks for permission and judges the outcome.
func (c *conversation) permission(tool string, options []option) bool {
	c.meet()
	k := c.askPermission(tool, options)
	const expected = "the outcome selected with one of the options, or cancelled"
	e := c.require("CL-PERM-01", expected, k)
	if e == nil {
		return false
	}
	outcome, _ := resultOf(e)["outcome"].(object)
	if isError(e) || outcome == nil {
		c.broke("CL-PERM-01", expected, "the answer is "+clipped(string(e.Raw)), k.request, e)
		return true
	}
	if path, bad := rules.Departure(is(c, func() schema.Version { return c.version }), "RequestPermissionOutcome", any(outcome)); bad != "" {
		c.broke("CL-PERM-01", expected, fmt.Sprintf("the outcome does not match the schema at %q: %s", path, bad), k.request, e)
		return true
	}
	id := text(outcome, "optionId")
	offered := slices.ContainsFunc(options, func(o option) bool { return o.id == id })
	if text(outcome, "outcome") == "selected" && !offered {
		c.broke("CL-PERM-02", "the id of an option of the request", "the option is "+shown(id), k.request, e)
	}
	return true
}

// playSlow goes on while a permission request waits: an update, and a request that the client
// can answer without its user. A client that answers by itself has answered both soon.
func playSlow(c *conversation, _ *rules.Entry) {
	c.meet()
	k := c.askPermission("call-1", []option{{"yes", "Allow", "allow_once"}, {"no", "Reject", "reject_once"}})
	c.say("I look around meanwhile.")
	ping := c.ask(pingMethod, object{})
	answered := c.wait(c.limit, func() bool { return len(ping.answers) > 0 })
	open := is(c, func() bool { return len(k.answers) == 0 })
	if !answered && open && !c.mute() {
		c.missing("CL-PERM-07", "an answer to a request beside the permission request", k.request, ping.request)
	}

	// Now the user answers.
	c.update(func() { c.mayAnswer = true })
	c.answer(k)
}

// playCancel has the turn cancelled while a permission request waits. A client that answers by
// itself gets the request after it cancelled.
func playCancel(c *conversation, prompt *rules.Entry) {
	options := []option{{"yes", "Allow", "allow_once"}, {"no", "Reject", "reject_once"}}
	k := c.askPermission("call-1", options)
	waits := c.answerIn(k, settle) == nil
	if !c.interrupted() {
		return
	}
	c.meet()
	if !waits {
		k = c.askPermission("call-2", options)
	}
	e := c.answer(k)
	outcome, _ := resultOf(e)["outcome"].(object)
	switch {
	case e == nil && waits:
		c.missing("CL-PERM-05", "the outcome cancelled", k.request, is(c, func() *rules.Entry { return c.cancel }))
	case e != nil && text(outcome, "outcome") == "selected":
		c.broke("CL-PERM-05", "the outcome cancelled", "the outcome is "+shown(outcome), is(c, func() *rules.Entry { return c.cancel }), k.request, e)
	case e != nil && waits && text(outcome, "outcome") != "cancelled":
		c.broke("CL-PERM-05", "the outcome cancelled", "the answer is "+clipped(string(e.Raw)), is(c, func() *rules.Entry { return c.cancel }), k.request, e)
	}
	last := c.notify(object{"sessionUpdate": "tool_call_update", "toolCallId": "call-1", "status": "failed"})
	c.pause(settle)
	if c.over() {
		c.broke("CL-CAN-02", "the client reads until the prompt is answered", "the client closed the connection", prompt, last)
	}
}

// interrupted has the client interrupted, by a signal or by its user, and reports whether it
// sent session/cancel.
func (c *conversation) interrupted() bool {
	if c.hooks.interrupt != nil {
		if err := c.hooks.interrupt(); err != nil {
			c.skip("the client cannot be interrupted: %v", err)
			return false
		}
	}
	if !c.wait(c.limit, func() bool { return c.cancel != nil || c.badCancel() != nil }) {
		c.skip("the client did not send session/cancel when it was interrupted")
		return false
	}
	return true
}

// badCancel returns a session/cancel that is a request. The state must be locked.
func (c *conversation) badCancel() *rules.Entry {
	for _, e := range c.log {
		if e.Direction == "out" && e.Method == "session/cancel" && e.ID != nil {
			return e.Entry
		}
	}
	return nil
}

// playForm asks for values and judges them.
func playForm(c *conversation, _ *rules.Entry) {
	if !c.can("elicitation.form") {
		c.skip("the client did not announce elicitation.form")
		return
	}
	c.meet()
	k := c.ask("elicitation/create", object{
		"sessionId": c.sessionID(), "mode": "form", "message": "How shall the report look?",
		"requestedSchema": object{
			"type": "object", "required": []any{"title", "pages"},
			"properties": object{
				"title":  object{"type": "string", "title": "Title", "minLength": 1},
				"pages":  object{"type": "integer", "title": "Pages", "minimum": 1, "maximum": 5},
				"draft":  object{"type": "boolean", "title": "Draft", "default": true},
				"colour": object{"type": "string", "title": "Colour", "enum": []any{"red", "blue"}},
			},
		},
	})
	e := c.require("CL-ELI-01", "the action accept, decline or cancel", k)
	action := text(resultOf(e), "action")
	switch {
	case e == nil:
		return
	case codeOf(e) == codeNoMethod:
		c.broke("CL-CAP-08", "elicitation/create works, because the client announced it", "the answer is "+clipped(string(e.Raw)), c.called("initialize"), k.request, e)
		return
	case isError(e) || !slices.Contains([]string{"accept", "decline", "cancel"}, action):
		c.broke("CL-ELI-01", "the action accept, decline or cancel", "the answer is "+clipped(string(e.Raw)), k.request, e)
		return
	case action != "accept":
		return
	}
	content, _ := resultOf(e)["content"].(object)
	if bad := unfit(content); bad != "" {
		c.broke("CL-ELI-02", "values that fit the form", bad, k.request, e)
	}
}

// unfit returns how values depart from the form of playForm.
func unfit(content object) string {
	pages := number(content["pages"])
	title, isText := content["title"].(string)
	draft, hasDraft := content["draft"]
	colour, hasColour := content["colour"]
	_, isBool := draft.(bool)
	switch {
	case !isText || title == "":
		return "title is " + shown(content["title"])
	case pages < 1 || pages > 5 || pages != float64(int(pages)):
		return "pages is " + shown(content["pages"])
	case hasDraft && !isBool:
		return "draft is " + shown(draft)
	case hasColour && colour != "red" && colour != "blue":
		return "colour is " + shown(colour)
	}
	return ""
}
