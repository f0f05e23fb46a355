package acpv2

import (
	"bytes"
	"encoding/json"

	"github.com/parley-agents/parley/protocol/acp/acpv1"
)

// toolCall converts a change to a tool call. Version 1 can replace a value but not
// remove it; a list can be emptied.
func (c *converter) toolCall(m *ToolCallUpdate) acpv1.ToolCallUpdate {
	if !m.Capabilities.IsAbsent() {
		c.dropAt("capabilities", "", "are for cancelling one tool call, which version 1 cannot do")
	}
	return acpv1.ToolCallUpdate{
		ToolCallID: m.ToolCallID,
		Name:       kept(c, "name", m.Name, identity),
		Title:      kept(c, "title", m.Title, identity),
		Kind:       kept(c, "kind", m.Kind, c.toolKind),
		Status:     kept(c, "status", m.Status, c.toolStatus),
		Content: emptied(c, "content", m.Content, func(list []ToolCallContent) []acpv1.ToolCallContent {
			return items(c, list, c.toolContent)
		}),
		Locations: emptied(c, "locations", m.Locations, func(list []ToolCallLocation) []acpv1.ToolCallLocation {
			return items(c, list, func(l *ToolCallLocation) (acpv1.ToolCallLocation, bool) {
				return same[acpv1.ToolCallLocation](c, l), true
			})
		}),
		RawInput:  c.keptRaw("rawInput", m.RawInput),
		RawOutput: c.keptRaw("rawOutput", m.RawOutput),
		Meta:      c.keepMeta(m.Meta), Extra: m.Extra,
	}
}

// kept is optional for a member that version 1 cannot remove.
func kept[A, B any](c *converter, name string, in Optional[A], f func(A) B) Optional[B] {
	if in.IsNull() {
		c.loseAt(name, "null", "cannot be removed in version 1")
		return Optional[B]{}
	}
	return optional(c, name, in, f)
}

// keptRaw is kept for raw JSON.
func (c *converter) keptRaw(name string, raw json.RawMessage) json.RawMessage {
	if isNull(raw) {
		c.loseAt(name, "null", "cannot be removed in version 1")
		return nil
	}
	return raw
}

// emptied is optional for a list: null becomes an empty list.
func emptied[A, B any](c *converter, name string, in Optional[[]A], f func([]A) []B) Optional[[]B] {
	if in.IsNull() {
		return Set([]B{})
	}
	return optional(c, name, in, f)
}

// toolKind converts a kind. One of version 2 alone becomes other, which says less.
func (c *converter) toolKind(k ToolKind) acpv1.ToolKind {
	if !k.Known() {
		c.lose(string(k), "is a kind of tool unknown to version 1")
		return acpv1.ToolKindOther
	}
	return acpv1.ToolKind(k)
}

// nearestStatus maps a status that version 1 does not have to the nearest one.
var nearestStatus = map[ToolCallStatus]acpv1.ToolCallStatus{
	ToolCallStatusPaused:    acpv1.ToolCallStatusInProgress,
	ToolCallStatusCancelled: acpv1.ToolCallStatusFailed,
}

// toolStatus converts a status. An unknown one becomes that of a call that has not ended.
func (c *converter) toolStatus(s ToolCallStatus) acpv1.ToolCallStatus {
	out := acpv1.ToolCallStatus(s)
	switch nearest, ok := nearestStatus[s]; {
	case ok:
		c.lose(string(s), "is a status unknown to version 1")
		return nearest
	case !out.Known():
		c.lose(string(s), "is a status unknown to version 1")
		return acpv1.ToolCallStatusInProgress
	}
	return out
}

// toolContent converts a part of the output of a tool. A terminal belongs to the
// agent in version 2 and to the client in version 1, and so has no counterpart.
func (c *converter) toolContent(m *ToolCallContent) (out acpv1.ToolCallContent, ok bool) {
	switch {
	case m.Content != nil:
		out.Content = &acpv1.Content{Content: c.content(&m.Content.Content), Meta: m.Content.Meta, Extra: m.Content.Extra}
		return out, true
	case m.Diff != nil:
		// Version 1 describes a change by the old and the new text, which a patch does not
		// hold.
		c.loseAt("type", m.Tag(), "describes changes in a form unknown to version 1")
		text := placeholder(m.Tag())
		if patch, ok := m.Diff.Patch.Get(); ok {
			text = acpv1.ContentBlock{Text: &acpv1.TextContent{Text: patch.Text}}
		}
		out.Content = &acpv1.Content{Content: text}
		return out, true
	case m.Terminal != nil:
		c.loseAt("type", m.Tag(), "belongs to the agent, but in version 1 terminals belong to the client")
	default:
		c.loseAt("type", m.Tag(), "is a type of content unknown to version 1")
	}
	out.Content = &acpv1.Content{Content: placeholder(m.Tag())}
	return out, true
}

// The members of _meta that carry the title and description of a permission request
// to a client of version 1, which has no members for them.
const (
	metaTitle       = "acp.v2/title"
	metaDescription = "acp.v2/description"
)

// subjectID is the id of the tool call in a question about something else, in lossy mode.
const subjectID = "acp.v2/subject"

// requestPermission converts a question. Its title and description have no members in
// version 1; if the tool call has a title of its own, they go into _meta.
// A client of version 1 shows the title of the tool call, which therefore takes that
// of the request if it has none.
func (c *converter) requestPermission(m *RequestPermissionRequest) acpv1.Message {
	out := &acpv1.RequestPermissionRequest{SessionID: m.SessionID, Meta: m.Meta, Extra: m.Extra}
	subject, _ := m.Subject.Get()
	c.at("subject", func() {
		if subject.ToolCall == nil {
			c.loseAt("type", subject.Tag(), "is not a tool call, the only subject in version 1")
			out.ToolCall.ToolCallID = subjectID
			return
		}
		c.at("toolCall", func() { out.ToolCall = c.toolCall(&subject.ToolCall.ToolCall) })
		c.vanish(subject.ToolCall.Meta, subject.ToolCall.Extra)
	})
	switch title, ok := out.ToolCall.Title.Get(); {
	case !ok:
		out.ToolCall.Title = Set(m.Title)
	case title != m.Title:
		c.at("title", func() { out.Meta = c.addMeta(out.Meta, metaTitle, m.Title) })
	}
	if d, ok := m.Description.Get(); ok {
		c.at("description", func() { out.Meta = c.addMeta(out.Meta, metaDescription, d) })
	}
	out.Options = each(c, "options", m.Options, func(o *PermissionOption) (acpv1.PermissionOption, bool) {
		return same[acpv1.PermissionOption](c, o), true
	})
	return out
}

// addMeta returns meta with one more member before those that are there.
func (c *converter) addMeta(meta json.RawMessage, name, value string) json.RawMessage {
	if !isObject(meta) {
		meta = json.RawMessage("{}")
	}
	if _, taken := (&Unknown{Raw: meta}).Member(name); taken {
		c.fail(value, "does not fit into _meta, which already has a member %q", name)
		return meta
	}
	members, err := json.Marshal(map[string]string{name: value})
	if err != nil {
		c.fail(value, "does not fit into _meta: %v", err)
		return meta
	}
	// The other members stay byte for byte: they belong to the sender.
	rest := bytes.TrimSpace(bytes.TrimPrefix(bytes.TrimSpace(meta), []byte("{")))
	if !bytes.HasPrefix(rest, []byte("}")) {
		rest = append([]byte(","), rest...)
	}
	return append(members[:len(members)-1], rest...)
}
