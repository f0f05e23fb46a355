package acp

import (
	"encoding/json"
	"strings"

	"github.com/parley-agents/parley/acp/acpv1"
	"github.com/parley-agents/parley/acp/acpv2"
)

// A SessionID names a session. The agent makes it up.
type SessionID = acpv2.SessionID

// A StopReason is why a turn ended. An unknown one is never a success.
type StopReason = acpv2.StopReason

// An UpdateKind is what an update is about, whatever the version.
type UpdateKind string

// The kinds.
const (
	KindUserMessage  UpdateKind = "user_message"
	KindAgentMessage UpdateKind = "agent_message"
	KindThought      UpdateKind = "agent_thought"
	KindToolCall     UpdateKind = "tool_call"
	KindPlan         UpdateKind = "plan"
	KindCommands     UpdateKind = "commands"
	KindMode         UpdateKind = "mode"
	KindConfig       UpdateKind = "config"
	KindInfo         UpdateKind = "info"
	KindUsage        UpdateKind = "usage"
	KindNotice       UpdateKind = "notice"
	KindCompaction   UpdateKind = "compaction"
	KindState        UpdateKind = "state"
	KindTerminal     UpdateKind = "terminal"

	// KindExtension is an update that an implementation has added, KindFuture one
	// of a later version of the protocol.
	KindExtension UpdateKind = "extension"
	KindFuture    UpdateKind = "future"
)

// kinds tells what an update is about from its tag, in both versions.
var kinds = map[string]UpdateKind{
	"user_message_chunk": KindUserMessage, "user_message": KindUserMessage,
	"agent_message_chunk": KindAgentMessage, "agent_message": KindAgentMessage,
	"agent_thought_chunk": KindThought, "agent_thought": KindThought,
	"tool_call": KindToolCall, "tool_call_update": KindToolCall, "tool_call_content_chunk": KindToolCall,
	"plan": KindPlan, "plan_update": KindPlan,
	"available_commands_update": KindCommands,
	"current_mode_update":       KindMode,
	"config_option_update":      KindConfig,
	"session_info_update":       KindInfo,
	"usage_update":              KindUsage,
	"notice":                    KindNotice,
	"compaction_update":         KindCompaction, "compaction_summary_chunk": KindCompaction,
	"state_update":    KindState,
	"terminal_update": KindTerminal, "terminal_output_chunk": KindTerminal,
}

// An Update is one thing that an agent tells about a session. Its methods read it
// whatever the version is; the message as it came is in V1 or V2, of which exactly
// one is set. An unknown variant is kept there byte for byte.
type Update struct {
	V1 *acpv1.SessionNotification
	V2 *acpv2.UpdateSessionNotification
}

// decodeUpdate reads the params of session/update.
func decodeUpdate(version int, params json.RawMessage) (*Update, error) {
	if version == 1 {
		both := &struct {
			update Update
			v1     acpv1.SessionNotification
		}{}
		both.update.V1 = &both.v1
		return &both.update, both.v1.UnmarshalJSON(params)
	}
	both := &struct {
		update Update
		v2     acpv2.UpdateSessionNotification
	}{}
	both.update.V2 = &both.v2
	return &both.update, both.v2.UnmarshalJSON(params)
}

// SessionID returns the session that the update is about.
func (u *Update) SessionID() SessionID {
	if u.V1 != nil {
		return SessionID(u.V1.SessionID)
	}
	return u.V2.SessionID
}

// Tag returns the name of the variant as the agent sent it.
func (u *Update) Tag() string {
	if u.V1 != nil {
		return u.V1.Update.Tag()
	}
	return u.V2.Update.Tag()
}

// Kind returns what the update is about.
func (u *Update) Kind() UpdateKind {
	if unknown := u.Unknown(); unknown != nil {
		if unknown.IsExtension() {
			return KindExtension
		}
		return KindFuture
	}
	return kinds[u.Tag()]
}

// Unknown returns the variant if it is one that the version does not define, else
// nil.
func (u *Update) Unknown() *acpv1.Unknown {
	if u.V1 != nil {
		return u.V1.Update.Unknown
	}
	return u.V2.Update.Unknown
}

// Text returns what a message, a thought or a notice says. For content that is no
// text there is a placeholder with its type. It is "" for everything else.
func (u *Update) Text() string {
	if u.V1 != nil {
		m := &u.V1.Update
		switch {
		case m.AgentMessageChunk != nil:
			return textV1(&m.AgentMessageChunk.Content)
		case m.AgentThoughtChunk != nil:
			return textV1(&m.AgentThoughtChunk.Content)
		case m.UserMessageChunk != nil:
			return textV1(&m.UserMessageChunk.Content)
		case m.Notice != nil:
			return m.Notice.Title
		}
		return ""
	}
	m := &u.V2.Update
	switch {
	case m.AgentMessageChunk != nil:
		return textV2(m.AgentMessageChunk.Content)
	case m.AgentThoughtChunk != nil:
		return textV2(m.AgentThoughtChunk.Content)
	case m.UserMessageChunk != nil:
		return textV2(m.UserMessageChunk.Content)
	case m.AgentMessage != nil:
		return textV2(m.AgentMessage.Content.Or(nil)...)
	case m.AgentThought != nil:
		return textV2(m.AgentThought.Content.Or(nil)...)
	case m.UserMessage != nil:
		return textV2(m.UserMessage.Content.Or(nil)...)
	case m.Notice != nil:
		return m.Notice.Title
	}
	return ""
}

// Message returns the id of the message or thought that the update is about, "" if
// the agent gave none, and whether the text is the whole of it: then it replaces
// what was said before under that id. Otherwise it is added to it.
func (u *Update) Message() (id string, whole bool) {
	if u.V1 != nil {
		for _, chunk := range []*acpv1.ContentChunk{u.V1.Update.AgentMessageChunk, u.V1.Update.AgentThoughtChunk, u.V1.Update.UserMessageChunk} {
			if chunk != nil {
				return string(chunk.MessageID.Or("")), false
			}
		}
		return "", false
	}
	m := &u.V2.Update
	for _, chunk := range []*acpv2.ContentChunk{m.AgentMessageChunk, m.AgentThoughtChunk, m.UserMessageChunk} {
		if chunk != nil {
			return string(chunk.MessageID), false
		}
	}
	switch {
	case m.AgentMessage != nil:
		return string(m.AgentMessage.MessageID), !m.AgentMessage.Content.IsAbsent()
	case m.AgentThought != nil:
		return string(m.AgentThought.MessageID), !m.AgentThought.Content.IsAbsent()
	case m.UserMessage != nil:
		return string(m.UserMessage.MessageID), !m.UserMessage.Content.IsAbsent()
	}
	return "", false
}

func textV1(b *acpv1.ContentBlock) string {
	if b.Text != nil {
		return b.Text.Text
	}
	return "[" + b.Tag() + "]"
}

func textV2(blocks ...acpv2.ContentBlock) string {
	if len(blocks) == 1 && blocks[0].Text != nil {
		return blocks[0].Text.Text
	}
	var all strings.Builder
	for i := range blocks {
		if b := &blocks[i]; b.Text != nil {
			all.WriteString(b.Text.Text)
		} else {
			all.WriteString("[" + b.Tag() + "]")
		}
	}
	return all.String()
}

// A ToolCall is what an update says about a tool call. A member that is empty was
// not said, and stays as it was.
type ToolCall struct {
	ID     string
	Title  string
	Kind   string
	Status string
	Text   string // what it has put out, as far as that is text
	Diffs  []Diff // what it changes in files; version 2 has patches in their place
}

// A Diff is a change to a file, as an agent tells it.
type Diff struct {
	Path string
	Old  string // empty if the file is new or the agent does not say
	New  string
}

// ToolCall returns what the update says about a tool call, nil if it is about
// something else.
func (u *Update) ToolCall() *ToolCall {
	if u.V1 != nil {
		m := &u.V1.Update
		switch {
		case m.ToolCall != nil:
			return &ToolCall{
				ID: string(m.ToolCall.ToolCallID), Title: m.ToolCall.Title, Kind: string(m.ToolCall.Kind.Or("")),
				Status: string(m.ToolCall.Status.Or("")), Text: outputV1(m.ToolCall.Content.Or(nil)),
				Diffs: diffsV1(m.ToolCall.Content.Or(nil)),
			}
		case m.ToolCallUpdate != nil:
			return &ToolCall{
				ID: string(m.ToolCallUpdate.ToolCallID), Title: m.ToolCallUpdate.Title.Or(""), Kind: string(m.ToolCallUpdate.Kind.Or("")),
				Status: string(m.ToolCallUpdate.Status.Or("")), Text: outputV1(m.ToolCallUpdate.Content.Or(nil)),
				Diffs: diffsV1(m.ToolCallUpdate.Content.Or(nil)),
			}
		}
		return nil
	}
	m := &u.V2.Update
	switch {
	case m.ToolCallUpdate != nil:
		return &ToolCall{
			ID: string(m.ToolCallUpdate.ToolCallID), Title: m.ToolCallUpdate.Title.Or(""), Kind: string(m.ToolCallUpdate.Kind.Or("")),
			Status: string(m.ToolCallUpdate.Status.Or("")), Text: outputV2(m.ToolCallUpdate.Content.Or(nil)...),
		}
	case m.ToolCallContentChunk != nil:
		return &ToolCall{ID: string(m.ToolCallContentChunk.ToolCallID), Text: outputV2(m.ToolCallContentChunk.Content)}
	}
	return nil
}

func outputV1(list []acpv1.ToolCallContent) string {
	var all strings.Builder
	for i := range list {
		if c := list[i].Content; c != nil {
			all.WriteString(textV1(&c.Content))
		}
	}
	return all.String()
}

func diffsV1(list []acpv1.ToolCallContent) []Diff {
	var all []Diff
	for i := range list {
		if d := list[i].Diff; d != nil {
			all = append(all, Diff{Path: d.Path, Old: d.OldText.Or(""), New: d.NewText})
		}
	}
	return all
}

func outputV2(list ...acpv2.ToolCallContent) string {
	var all strings.Builder
	for i := range list {
		if c := list[i].Content; c != nil {
			all.WriteString(textV2(c.Content))
		}
	}
	return all.String()
}

// A PlanEntry is one step of a plan.
type PlanEntry struct {
	Content  string
	Priority string
	Status   string
}

// Plan returns the steps of a plan, nil if the update is about something else or
// the plan is of an unknown type.
func (u *Update) Plan() []PlanEntry {
	var entries []PlanEntry
	switch {
	case u.V1 != nil && u.V1.Update.Plan != nil:
		for _, e := range u.V1.Update.Plan.Entries {
			entries = append(entries, PlanEntry{e.Content, string(e.Priority), string(e.Status)})
		}
	case u.V2 != nil && u.V2.Update.PlanUpdate != nil && u.V2.Update.PlanUpdate.Plan.Items != nil:
		for _, e := range u.V2.Update.PlanUpdate.Plan.Items.Entries {
			entries = append(entries, PlanEntry{e.Content, string(e.Priority), string(e.Status)})
		}
	}
	return entries
}

// A Usage is how much of its context an agent has used.
type Usage struct {
	Used, Size uint64      // tokens
	Cost       json.Number // "" if the agent did not say
	Currency   string
}

// Usage returns what the update says about usage, nil if it is about something
// else.
func (u *Update) Usage() *Usage {
	switch {
	case u.V1 != nil && u.V1.Update.UsageUpdate != nil:
		m := u.V1.Update.UsageUpdate
		cost := m.Cost.Or(acpv1.Cost{})
		return &Usage{m.Used, m.Size, cost.Amount, cost.Currency}
	case u.V2 != nil && u.V2.Update.UsageUpdate != nil:
		m := u.V2.Update.UsageUpdate
		cost := m.Cost.Or(acpv2.Cost{})
		return &Usage{m.Used, m.Size, cost.Amount, cost.Currency}
	}
	return nil
}

// Text returns a block of text, for a prompt.
func Text(text string) acpv2.ContentBlock { return acpv2.TextBlock(text) }
