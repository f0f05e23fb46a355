package goodagent

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"

	"github.com/parley-agents/parley/protocol/acp/acpv1"
	"github.com/parley-agents/parley/protocol/acp/acpv2"
)

// Tools are the agent's own tools, for `parley:tool name=NAME`.
//
//	show        says something in each kind of content
//	ask         asks the user to fill in a form, if the client can
//	open        asks the user to open a page, if the client can
//	notice      shows a notice, if the client can
//	compact     makes the conversation shorter, if the client can
//	mode        changes the mode by itself
//	commands    changes the commands
//	extension   asks for something that only some clients have
//	permission  asks for permission, with a text of its own
//	look        lists the files of the folder
var Tools = map[string]func(ctx context.Context, c *toolCall, args json.RawMessage) error{
	"show":       show,
	"ask":        askForm,
	"open":       openPage,
	"notice":     notice,
	"compact":    compact,
	"mode":       changeMode,
	"commands":   changeCommands,
	"extension":  extension,
	"permission": askPermission,
	"look":       look,
}

// pixel is a picture of one pixel, and sound a second of nothing.
const (
	pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
	sound = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA="
)

func show(ctx context.Context, c *toolCall, _ json.RawMessage) error {
	uri := "file://" + filepath.ToSlash(filepath.Join(c.t.Dir, "a.txt"))
	annotations := object{"audience": []any{"user"}, "priority": 0.5, "lastModified": "2026-01-02T03:04:05Z"}
	for _, block := range []object{
		{"type": "text", "text": "text", "annotations": annotations},
		{"type": "image", "data": pixel, "mimeType": "image/png"},
		{"type": "audio", "data": sound, "mimeType": "audio/wav"},
		{"type": "resource_link", "uri": uri, "name": "a.txt", "mimeType": "text/plain", "size": 1},
		{"type": "resource", "resource": object{"uri": uri, "text": "a", "mimeType": "text/plain"}},
		{"type": "resource", "resource": object{"uri": uri, "blob": "YQ==", "mimeType": "application/octet-stream"}},
	} {
		if err := c.t.show(ctx, block); err != nil {
			return err
		}
	}
	return nil
}

// asks reports whether the client can put questions of that kind to its user.
func (t *turn) asks(mode string) bool {
	p := t.Client()
	switch {
	case p.V1 != nil && mode == "form":
		return p.V1.Elicitation.Or(acpv1.ElicitationCapabilities{}).Form.IsSet()
	case p.V1 != nil:
		return p.V1.Elicitation.Or(acpv1.ElicitationCapabilities{}).URL.IsSet()
	case p.V2 != nil && mode == "form":
		return p.V2.Elicitation.Or(acpv2.ElicitationCapabilities{}).Form.IsSet()
	case p.V2 != nil:
		return p.V2.Elicitation.Or(acpv2.ElicitationCapabilities{}).URL.IsSet()
	}
	return false
}

// elicit asks the user a question and reports the outcome.
func (c *toolCall) elicit(ctx context.Context, question object) (accepted bool, _ error) {
	t := c.t
	if mode := question["mode"].(string); !t.asks(mode) {
		return false, t.say(ctx, fmt.Sprintf("I cannot ask by %s, so I go on without. ", mode))
	}
	question["sessionId"], question["toolCallId"] = t.ID, c.id
	var r acpv2.CreateElicitationRequest
	if err := r.UnmarshalJSON(encode(question)); err != nil {
		return false, err
	}
	answer, err := t.Elicit(ctx, &r)
	switch {
	case ctx.Err() != nil:
		return false, ctx.Err()
	case err != nil:
		return false, t.say(ctx, "The question failed. ")
	case answer.Decline != nil:
		return false, t.say(ctx, "The user declined. ")
	case answer.Cancel != nil:
		return false, t.say(ctx, "The user closed the question. ")
	case answer.Accept == nil:
		return false, t.say(ctx, "The answer means nothing to me. ")
	}
	return true, t.accepted(ctx, r.Form != nil, answer.Accept)
}

// accepted checks the values that the user has filled in.
func (t *turn) accepted(ctx context.Context, form bool, a *acpv2.ElicitationAcceptAction) error {
	if !form {
		return t.say(ctx, "The user accepted. ")
	}
	content := a.Content.Or(nil)
	name, ok := content.Get("name")
	if !ok {
		return t.say(ctx, "The user accepted without an answer. ")
	}
	raw, err := name.MarshalJSON()
	var text string
	if err != nil || json.Unmarshal(raw, &text) != nil || text == "" {
		return t.say(ctx, "The answer is not valid. ")
	}
	return t.say(ctx, "The user accepted with "+text+". ")
}

func askForm(ctx context.Context, c *toolCall, _ json.RawMessage) error {
	_, err := c.elicit(ctx, object{
		"mode": "form", "message": "What shall it be called?",
		"requestedSchema": object{
			"type": "object", "required": []any{"name"},
			"properties": object{
				"name":   object{"type": "string", "title": "Name", "minLength": 1},
				"count":  object{"type": "integer", "minimum": 1},
				"colour": object{"type": "string", "enum": []any{"red", "green"}},
				"loud":   object{"type": "boolean"},
				"parts":  object{"type": "array", "items": object{"type": "string", "enum": []any{"a", "b"}}},
			},
		},
	})
	return err
}

// askPermission asks for permission with the given text, and does nothing with it.
func askPermission(ctx context.Context, c *toolCall, args json.RawMessage) error {
	var in struct{ Text string }
	if err := json.Unmarshal(args, &in); err != nil {
		return err
	}
	c.title = cmp.Or(in.Text, c.title)
	return c.permitted(ctx)
}

// look lists the files of the folder, which changes nothing and so needs no permission.
func look(ctx context.Context, c *toolCall, _ json.RawMessage) error {
	_, err := c.shell(ctx, "ls")
	return err
}

func openPage(ctx context.Context, c *toolCall, _ json.RawMessage) error {
	accepted, err := c.elicit(ctx, object{"mode": "url", "message": "Please log in there.", "elicitationId": c.id, "url": "https://example.com/login"})
	if err != nil || !accepted {
		return err
	}
	return c.t.CompleteElicitation(ctx, c.id)
}

func notice(ctx context.Context, c *toolCall, _ json.RawMessage) error {
	p := c.t.Client()
	if p.V1 != nil && !p.V1.Session.Or(acpv1.ClientSessionCapabilities{}).Notices.IsSet() {
		return c.t.say(ctx, "There is something to notice. ")
	}
	u := object{"sessionUpdate": "notice", "severity": "info", "title": "Something to notice"}
	return tell(ctx, c.t.AgentSession, u, u)
}

func compact(ctx context.Context, c *toolCall, _ json.RawMessage) error {
	p := c.t.Client()
	if p.V1 != nil && !p.V1.Session.Or(acpv1.ClientSessionCapabilities{}).Compaction.IsSet() {
		return c.t.say(ctx, "I made it shorter. ")
	}
	for _, u := range []object{
		{"sessionUpdate": "compaction_update", "compactionId": c.id, "status": "in_progress"},
		{"sessionUpdate": "compaction_summary_chunk", "compactionId": c.id, "content": object{"type": "text", "text": "Much was said."}},
		{"sessionUpdate": "compaction_update", "compactionId": c.id, "status": "completed"},
	} {
		if err := tell(ctx, c.t.AgentSession, u, u); err != nil {
			return err
		}
	}
	return nil
}

func changeMode(ctx context.Context, c *toolCall, raw json.RawMessage) error {
	mode := arguments(raw).Text
	if mode == "" {
		mode = modePlan
	}
	options, err := c.t.SetOption(ctx, "mode", mode)
	if err != nil || c.t.Client().Version == 1 {
		return err
	}
	return c.t.Update(ctx, acpv2.SessionUpdate{ConfigOptionUpdate: &acpv2.ConfigOptionUpdate{ConfigOptions: options}})
}

func changeCommands(ctx context.Context, c *toolCall, _ json.RawMessage) error {
	list := commands()[:1]
	return c.t.Update(ctx, acpv2.SessionUpdate{AvailableCommandsUpdate: &acpv2.AvailableCommandsUpdate{AvailableCommands: list}})
}

func extension(ctx context.Context, c *toolCall, _ json.RawMessage) error {
	if _, err := c.t.Call(ctx, "_goodagent/hello", object{}); err != nil && ctx.Err() == nil {
		if err := c.t.say(ctx, "The client does not know me. "); err != nil {
			return err
		}
	}
	return c.t.Notify(ctx, "_goodagent/bye", object{})
}
