package acp

import (
	"cmp"
	"encoding/json"
	"strings"

	"github.com/parley-agents/parley/protocol/acp/acpv1"
	"github.com/parley-agents/parley/protocol/acp/acpv2"
)

// A SessionID names a session. The agent chooses it.
type SessionID = acpv2.SessionID

// A StopReason says why a turn ended. An unknown one is never a success.
type StopReason = acpv2.StopReason

// An UpdateKind is the subject of an update, the same in both versions.
type UpdateKind string

// The kinds.
const (
	KindUserMessage  UpdateKind = "user_message"  // a message of the user; Text and Message read it
	KindAgentMessage UpdateKind = "agent_message" // a message of the agent; Text and Message read it
	KindThought      UpdateKind = "agent_thought" // a thought of the agent; Text and Message read it
	KindToolCall     UpdateKind = "tool_call"     // ToolCall reads it
	KindPlan         UpdateKind = "plan"          // Plan reads it
	KindCommands     UpdateKind = "commands"      // the slash commands have changed; see Settings
	KindMode         UpdateKind = "mode"          // the mode has changed; version 1 only; see Settings
	KindConfig       UpdateKind = "config"        // the options have changed; see Settings
	KindInfo         UpdateKind = "info"          // the title has changed; see Settings
	KindUsage        UpdateKind = "usage"         // Usage reads it
	KindNotice       UpdateKind = "notice"        // a notice for the user; Text reads its title
	KindCompaction   UpdateKind = "compaction"    // the agent shortens its context
	KindState        UpdateKind = "state"         // the agent runs, waits or is idle; version 2 only
	KindTerminal     UpdateKind = "terminal"      // a terminal of the agent; version 2 only

	// KindExtension is an update that an implementation defines, KindFuture one
	// that a later version of the protocol may define.
	KindExtension UpdateKind = "extension"
	KindFuture    UpdateKind = "future"
)

// kinds holds the kind of each tag, for both versions.
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

// An Update is one session/update of an agent. Its methods read both versions; the
// message as it came is in V1 or V2, of which exactly one is set. An unknown variant
// is kept there byte for byte.
type Update struct {
	V1 *acpv1.SessionNotification
	V2 *acpv2.UpdateSessionNotification
}

// decodeUpdate reads the params of session/update, which package jsonrpc has validated.
func decodeUpdate(version int, params json.RawMessage) (*Update, error) {
	if version == 1 {
		m := &struct { // one allocation for both: BenchmarkUpdates needs it
			Update
			v1 acpv1.SessionNotification
		}{}
		m.V1 = &m.v1
		return &m.Update, acpv1.UnmarshalValid(params, &m.v1)
	}
	u := &Update{V2: &acpv2.UpdateSessionNotification{}}
	return u, acpv1.UnmarshalValid(params, u.V2)
}

// SessionID returns the session of the update.
func (u *Update) SessionID() SessionID {
	if u.V1 != nil {
		return u.V1.SessionID
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

// Kind returns the subject of the update.
func (u *Update) Kind() UpdateKind {
	if unknown := u.Unknown(); unknown != nil {
		if unknown.IsExtension() {
			return KindExtension
		}
		return KindFuture
	}
	return kinds[u.Tag()]
}

// Unknown returns the variant if the version does not define it, else nil.
func (u *Update) Unknown() *acpv1.Unknown {
	if u.V1 != nil {
		return u.V1.Update.Unknown
	}
	return u.V2.Update.Unknown
}

// chunkV1 returns the piece of a message or thought that an update of version 1 has, nil
// if it has none.
func chunkV1(m *acpv1.SessionUpdate) *acpv1.ContentChunk {
	return cmp.Or(m.AgentMessageChunk, m.AgentThoughtChunk, m.UserMessageChunk)
}

// messageV2 returns the piece of a message or thought that an update of version 2 has, or
// the whole of one. The three types of whole messages have the same members.
func messageV2(m *acpv2.SessionUpdate) (chunk *acpv2.ContentChunk, whole *acpv2.UserMessage) {
	return cmp.Or(m.AgentMessageChunk, m.AgentThoughtChunk, m.UserMessageChunk),
		cmp.Or((*acpv2.UserMessage)(m.AgentMessage), (*acpv2.UserMessage)(m.AgentThought), m.UserMessage)
}

// Text returns the text of a message, a thought or a notice, and "" for all other
// updates. Content that is not text is a placeholder with its type.
func (u *Update) Text() string {
	var notice *acpv1.Notice // the same in both versions
	if u.V1 != nil {
		if chunk := chunkV1(&u.V1.Update); chunk != nil {
			return textV1(&chunk.Content)
		}
		notice = u.V1.Update.Notice
	} else {
		switch chunk, whole := messageV2(&u.V2.Update); {
		case chunk != nil:
			return textV2(chunk.Content)
		case whole != nil:
			return textV2(whole.Content.Or(nil)...)
		}
		notice = u.V2.Update.Notice
	}
	if notice == nil {
		return ""
	}
	return notice.Title
}

// Message returns the id of the message or thought that the update belongs to, ""
// if the agent gave none, and whether Text is the whole message: then it replaces
// the earlier text under that id. Otherwise it is appended to it.
func (u *Update) Message() (id string, whole bool) {
	if u.V1 != nil {
		if chunk := chunkV1(&u.V1.Update); chunk != nil {
			return string(chunk.MessageID.Or("")), false
		}
		return "", false
	}
	switch chunk, all := messageV2(&u.V2.Update); {
	case chunk != nil:
		return string(chunk.MessageID), false
	case all != nil:
		return string(all.MessageID), !all.Content.IsAbsent()
	}
	return "", false
}

// textV1 returns the text of a block, or a placeholder with its type.
func textV1(b *acpv1.ContentBlock) string {
	if b.Text != nil {
		return b.Text.Text
	}
	return "[" + b.Tag() + "]"
}

// textV2 returns the text of the blocks, with a placeholder for each other content.
func textV2(blocks ...acpv2.ContentBlock) string {
	// The usual case costs no copy.
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

// A PlanEntry is one step of a plan.
type PlanEntry struct {
	Content  string // the work, for people
	Priority string // high, medium, low, or one of a later version
	Status   string // pending, in_progress, completed, or one of a later version
}

// Plan returns the steps of a plan, nil if the update has no plan or one of an
// unknown type.
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

// A Usage is the part of its context that an agent has used, and its cost.
type Usage struct {
	Used, Size uint64      // tokens
	Cost       json.Number // "" if the agent did not say
	Currency   string
}

// Usage returns the usage of the update, nil if it has none.
func (u *Update) Usage() *Usage {
	var m *acpv1.UsageUpdate // the same in both versions
	if u.V1 != nil {
		m = u.V1.Update.UsageUpdate
	} else {
		m = u.V2.Update.UsageUpdate
	}
	if m == nil {
		return nil
	}
	cost := m.Cost.Or(acpv1.Cost{})
	return &Usage{m.Used, m.Size, cost.Amount, cost.Currency}
}

// Text returns a content block with text, for a prompt.
func Text(text string) acpv2.ContentBlock { return acpv2.TextBlock(text) }
