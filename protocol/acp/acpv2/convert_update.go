package acpv2

import "github.com/parley-agents/parley/protocol/acp/acpv1"

// notification converts an update, or returns nil if version 1 implies it.
func (c *converter) notification(m *UpdateSessionNotification) acpv1.Message {
	var update *acpv1.SessionUpdate
	c.at("update", func() { update = c.update(&m.Update) })
	if update == nil {
		c.vanish(m.Meta, m.Extra)
		return nil
	}
	return &acpv1.SessionNotification{SessionID: m.SessionID, Update: *update, Meta: m.Meta, Extra: m.Extra}
}

// update converts an update that does not depend on earlier ones.
// It returns nil for an update that version 1 implies or cannot express; notes and
// problems tell which.
func (c *converter) update(m *SessionUpdate) *acpv1.SessionUpdate {
	switch {
	case m.UserMessageChunk != nil:
		return &acpv1.SessionUpdate{UserMessageChunk: c.chunk(m.UserMessageChunk)}
	case m.AgentMessageChunk != nil:
		return &acpv1.SessionUpdate{AgentMessageChunk: c.chunk(m.AgentMessageChunk)}
	case m.AgentThoughtChunk != nil:
		return &acpv1.SessionUpdate{AgentThoughtChunk: c.chunk(m.AgentThoughtChunk)}

	case m.StateUpdate != nil:
		c.state(m.StateUpdate)
	case m.ToolCallUpdate != nil:
		return &acpv1.SessionUpdate{ToolCallUpdate: ref(c.toolCall(m.ToolCallUpdate))}
	case m.PlanUpdate != nil:
		return c.plan(m.PlanUpdate)

	case m.AvailableCommandsUpdate != nil:
		u := m.AvailableCommandsUpdate
		return &acpv1.SessionUpdate{AvailableCommandsUpdate: &acpv1.AvailableCommandsUpdate{
			AvailableCommands: each(c, "availableCommands", u.AvailableCommands, c.command), Meta: u.Meta, Extra: u.Extra,
		}}
	case m.ConfigOptionUpdate != nil:
		u := m.ConfigOptionUpdate
		return &acpv1.SessionUpdate{ConfigOptionUpdate: &acpv1.ConfigOptionUpdate{
			ConfigOptions: c.configOptionsIn(u.ConfigOptions), Meta: u.Meta, Extra: u.Extra,
		}}

	case m.SessionInfoUpdate != nil:
		c.keepMeta(m.SessionInfoUpdate.Meta)
		return &acpv1.SessionUpdate{SessionInfoUpdate: m.SessionInfoUpdate}
	case m.UsageUpdate != nil:
		return &acpv1.SessionUpdate{UsageUpdate: m.UsageUpdate}

	// The cases below depend on the client, on earlier updates, or have no counterpart.
	case m.Notice != nil, m.CompactionUpdate != nil, m.CompactionSummaryChunk != nil:
		return c.gated(m)
	case m.UserMessage != nil, m.AgentMessage != nil, m.AgentThought != nil, m.ToolCallContentChunk != nil:
		c.failAt("sessionUpdate", m.Tag(), "depends on earlier updates: use a Bridge")
	case m.TerminalUpdate != nil, m.TerminalOutputChunk != nil:
		c.loseAt("sessionUpdate", m.Tag(), "concerns a terminal of the agent, but in version 1 terminals belong to the client")
	default:
		c.loseAt("sessionUpdate", m.Tag(), "is an update unknown to version 1")
	}
	return nil
}

// gated converts the updates that a client of version 1 gets only with the
// capability for them.
func (c *converter) gated(m *SessionUpdate) *acpv1.SessionUpdate {
	can, known := c.clientSession()
	isSupported := can.Compaction.IsSet()
	if m.Notice != nil {
		isSupported = can.Notices.IsSet()
	}
	// A client whose capabilities are not known gets the update: it may ignore it.
	if known && !isSupported {
		c.dropAt("sessionUpdate", m.Tag(), "is an update the client does not support")
		return nil
	}
	switch {
	case m.Notice != nil:
		return &acpv1.SessionUpdate{Notice: m.Notice}
	case m.CompactionSummaryChunk != nil:
		u := m.CompactionSummaryChunk
		return &acpv1.SessionUpdate{CompactionSummaryChunk: &acpv1.CompactionSummaryChunk{
			CompactionID: u.CompactionID, Content: c.content(&u.Content), Meta: u.Meta, Extra: u.Extra,
		}}
	}
	u := m.CompactionUpdate
	return &acpv1.SessionUpdate{CompactionUpdate: &acpv1.CompactionUpdate{
		CompactionID: u.CompactionID, Status: u.Status,
		Summary: optional(c, "summary", u.Summary, func(list []ContentBlock) []acpv1.ContentBlock { return items(c, list, c.block) }),
		Error:   u.Error, Meta: c.keepMeta(u.Meta), Extra: u.Extra,
	}}
}

// chunk converts a piece of a message. The id is optional in version 1.
func (c *converter) chunk(m *ContentChunk) *acpv1.ContentChunk {
	return &acpv1.ContentChunk{
		Content: c.content(&m.Content), MessageID: Set(m.MessageID), Meta: m.Meta, Extra: m.Extra,
	}
}

// content converts the block in a member of that name.
func (c *converter) content(m *ContentBlock) (out acpv1.ContentBlock) {
	c.at("content", func() { out, _ = c.block(m) })
	return out
}

// isPlainText reports whether a block is a text without any optional member.
func isPlainText(m *ContentBlock) bool {
	t := m.Text
	return t != nil && *m == (ContentBlock{Text: t}) && t.Annotations.IsAbsent() && t.Meta == nil && t.Extra == nil
}

// block converts one part of a message. Version 1 has no icons.
func (c *converter) block(m *ContentBlock) (acpv1.ContentBlock, bool) {
	if isPlainText(m) {
		return acpv1.ContentBlock{Text: &acpv1.TextContent{Text: m.Text.Text}}, true // the usual case, without a round trip through JSON
	}
	if m.ResourceLink != nil && !m.ResourceLink.Icons.IsAbsent() {
		// A copy: the message belongs to the caller.
		link := *m.ResourceLink
		if link.Icons.IsSet() {
			c.loseAt("icons", "", "do not exist in version 1")
		}
		link.Icons = Optional[[]Icon]{}
		m = &ContentBlock{ResourceLink: &link}
	}
	if m.Unknown != nil {
		c.loseAt("type", m.Tag(), "is a type of content unknown to version 1")
		return placeholder(m.Tag()), true
	}
	return same(c, m, c.mendBlock), true
}

// promptBlock converts one part of a prompt, which is not understood in part.
func (c *converter) promptBlock(m *ContentBlock) (acpv1.ContentBlock, bool) {
	if m.Unknown != nil {
		c.failAt("type", m.Tag(), "is a type of content unknown to version 1")
		return acpv1.ContentBlock{}, true
	}
	return c.block(m)
}

// placeholder returns the text that stands for content that version 1 does not have.
func placeholder(kind string) acpv1.ContentBlock {
	return acpv1.ContentBlock{Text: &acpv1.TextContent{Text: "[" + kind + "]"}}
}

// mendBlock leaves out the readers of content that version 1 does not have.
func (c *converter) mendBlock(m *acpv1.ContentBlock) {
	var in *Optional[acpv1.Annotations]
	switch {
	case m.Text != nil:
		in = &m.Text.Annotations
	case m.Image != nil:
		in = &m.Image.Annotations
	case m.Audio != nil:
		in = &m.Audio.Annotations
	case m.ResourceLink != nil:
		in = &m.ResourceLink.Annotations
	case m.Resource != nil:
		in = &m.Resource.Annotations
	default:
		return
	}

	// Annotations are changed only if the content names its readers.
	notes, ok := in.Get()
	if readers, named := notes.Audience.Get(); ok && named {
		c.at("annotations", func() {
			known := each(c, "audience", readers, func(r *acpv1.Role) (acpv1.Role, bool) {
				if !r.Known() {
					c.lose(string(*r), "is an audience unknown to version 1")
				}
				return *r, r.Known()
			})
			notes.Audience = Set(known)
			if len(known) == 0 && len(readers) > 0 {
				notes.Audience = Optional[[]acpv1.Role]{} // without a particular reader
			}
		})
		*in = Set(notes)
	}
}

// state leaves out a state that a client of version 1 infers from its unanswered
// prompt.
func (c *converter) state(m *StateUpdate) {
	switch {
	case m.Running != nil:
		c.dropAt("state", m.Tag(), "is implied by an unanswered prompt in version 1")
		c.background(m.Running.Background)
		c.vanish(m.Running.Meta, m.Running.Extra)
	case m.RequiresAction != nil:
		c.dropAt("state", m.Tag(), "is implied by an unanswered request in version 1")
		c.background(m.RequiresAction.Background)
		c.vanish(m.RequiresAction.Meta, m.RequiresAction.Extra)
	case m.Idle != nil && m.Idle.StopReason.IsSet():
		c.failAt("stopReason", string(m.Idle.StopReason.Or("")), "answers a prompt in version 1: use a Bridge")
	case m.Idle != nil:
		c.idle(m.Idle)
	default:
		c.loseAt("state", m.Tag(), "is a state unknown to version 1")
	}
}

// idle leaves out that the agent is idle.
func (c *converter) idle(m *IdleStateUpdate) {
	c.dropAt("state", "idle", "is implied in version 1 when no prompt waits")
	c.background(m.Background)
	c.vanish(m.Meta, m.Extra)
}

// background leaves out the work that goes on beside the conversation.
func (c *converter) background(list Optional[[]BackgroundWork]) {
	const reason = "is work that version 1 does not report"
	switch {
	case len(list.Or(nil)) == 0:
	case c.Lossy:
		c.loseAt("background", "", reason)
	default:
		c.dropAt("background", "", reason)
	}
}

// plan converts a plan. Version 1 has one per session, without an id.
func (c *converter) plan(m *PlanUpdate) *acpv1.SessionUpdate {
	out := &acpv1.Plan{Meta: m.Meta, Extra: m.Extra}
	c.at("plan", func() {
		plan := m.Plan.Items
		if plan == nil {
			c.loseAt("type", m.Plan.Tag(), "is a type of plan unknown to version 1")
			out.Entries = []acpv1.PlanEntry{{Content: "[plan: " + m.Plan.Tag() + "]", Priority: acpv1.PlanEntryPriorityMedium, Status: acpv1.PlanEntryStatusPending}}
			return
		}
		c.dropAt("planId", string(plan.PlanID), "is not needed in version 1, which has only one plan")
		c.vanish(plan.Meta, plan.Extra)
		out.Entries = each(c, "entries", plan.Entries, func(e *PlanEntry) (acpv1.PlanEntry, bool) { return same(c, e, c.mendEntry), true })
	})
	return &acpv1.SessionUpdate{Plan: out}
}

// mendEntry gives a step of a plan the priority in the middle and the status of a step that
// is not done for those that version 1 does not have.
func (c *converter) mendEntry(e *acpv1.PlanEntry) {
	if !e.Priority.Known() {
		c.loseAt("priority", string(e.Priority), "is a priority unknown to version 1")
		e.Priority = acpv1.PlanEntryPriorityMedium
	}
	if !e.Status.Known() {
		c.loseAt("status", string(e.Status), "is a status unknown to version 1")
		e.Status = acpv1.PlanEntryStatusPending
	}
}
