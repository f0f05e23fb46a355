package hub

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/parley-agents/parley/internal/ground/strictjson"
)

// MaxPayload is the limit of a payload in bytes of compact JSON. Larger content
// is stored as an artifact, and the message names it.
const MaxPayload = 4096

// MaxEnvelope is the limit of an envelope as JSON in bytes, references and
// unknown members included.
const MaxEnvelope = 64 << 10

// An Envelope is one message from one agent to others. It is immutable once
// sent, except for Status and UpdatedAt, which follow the delivery ledger.
type Envelope struct {
	ID        EnvelopeID      `json:"id"`
	Protocol  string          `json:"protocol"`
	Version   string          `json:"version"`
	From      AgentID         `json:"from"` // the authenticated sender; never taken from input
	To        []AgentID       `json:"to"`   // never empty; ["*"] is a broadcast
	Team      string          `json:"team,omitempty"`
	ThreadID  string          `json:"thread_id,omitempty"`
	ReplyTo   EnvelopeID      `json:"reply_to,omitempty"`
	Type      MessageType     `json:"type"`
	Topic     string          `json:"topic,omitempty"`
	Priority  Priority        `json:"priority"`
	Status    MessageStatus   `json:"status"`
	Sequence  *int64          `json:"sequence,omitempty"`
	ExpiresAt Time            `json:"expires_at,omitzero"`
	Payload   json.RawMessage `json:"payload"` // forwarded as received, never re-encoded
	Policy    Policy          `json:"policy"`
	Context   *Context        `json:"context,omitempty"`
	CreatedAt Time            `json:"created_at,omitzero"`
	UpdatedAt Time            `json:"updated_at,omitzero"`

	// Extra is a JSON object of the members that this version does not define, byte
	// for byte; nil if there are none. They are written under this one member, so
	// that no reader takes a name that the sender chose for a fact of the hub.
	Extra json.RawMessage `json:"extra,omitempty"`
}

// MarshalJSON writes the known members without escapes for HTML, and the unknown ones
// as they are.
func (e Envelope) MarshalJSON() ([]byte, error) {
	type plain Envelope // without this method
	extra := e.Extra
	e.Extra = nil
	b, err := strictjson.Encode(plain(e))
	if err != nil || extra == nil {
		return b, err
	}
	b = append(b[:len(b)-1], `,"extra":`...)
	return append(append(b, extra...), '}'), nil
}

// forgottenPayload is the payload of a message whose text the operator removed.
const forgottenPayload = `{"forgotten":"the operator removed the text of this message"}`

// Forgotten returns e without its text: without payload, topic, context and unknown
// members.
func (e Envelope) Forgotten() Envelope { return e.withoutText(forgottenPayload) }

// withheldPayload is the payload of a message of high sensitivity, as an auditor reads it.
const withheldPayload = `{"withheld":"text of high sensitivity: its sender, its recipients and the operator can read it"}`

// Withheld returns e without its text, as Forgotten does, for a reader that may know of the
// message and not read it. It is never stored.
func (e Envelope) Withheld() Envelope { return e.withoutText(withheldPayload) }

// WithheldFrom reports whether c may read e only without its text, by what the envelope says:
// c reads as an auditor, and e has high sensitivity. A member of the team of e may still read it.
func (e Envelope) WithheldFrom(c Caller) bool {
	isParty := e.From == c.ID || e.Broadcast() || slices.Contains(e.To, c.ID)
	return c.ReadsAsAuditor() && e.Policy.Sensitivity == SensitivityHigh && !isParty
}

// withoutText returns e with another payload, and without topic, context and unknown members.
func (e Envelope) withoutText(payload string) Envelope {
	e.Payload = json.RawMessage(payload)
	e.Topic = ""
	e.Context = nil
	e.Extra = nil
	return e
}

// IsForgotten reports whether e has the form of a message whose text was removed.
func (e Envelope) IsForgotten() bool {
	return string(e.Payload) == forgottenPayload && e.Topic == "" && e.Context == nil && e.Extra == nil
}

// Size returns how many bytes e has as JSON.
func (e Envelope) Size() int {
	b, err := e.MarshalJSON()
	if err != nil {
		return MaxEnvelope + 1 // a part that is no JSON fits nowhere
	}
	return len(b)
}

// CopyOf returns the message that e is a copy of, or nil.
func (e Envelope) CopyOf() *CopyMark {
	if e.From != Self || e.Context == nil {
		return nil
	}
	return e.Context.CopyOf
}

// AckBy returns the time by which the sender of e wants it acknowledged; the zero time if
// it asks for none.
func (e Envelope) AckBy() Time {
	if e.Context == nil {
		return Time{}
	}
	return e.Context.AckBy
}

// RetryOf returns the undelivered message that e repeats, or "".
func (e Envelope) RetryOf() EnvelopeID {
	if e.Context == nil {
		return ""
	}
	return e.Context.RetryOf
}

// Author returns the agent that wrote the text of e.
func (e Envelope) Author() AgentID {
	if c := e.CopyOf(); c != nil {
		return c.From
	}
	return e.From
}

// PlainText returns the text of a message whose payload is nothing but text: a status,
// question or answer whose other members have the values that the hub gives to plain
// text. A message with a topic and a copy are none.
func (e Envelope) PlainText() (text string, ok bool) {
	var p map[string]string
	if e.CopyOf() != nil || e.Topic != "" || json.Unmarshal(e.Payload, &p) != nil {
		return "", false
	}
	switch e.Type {
	case TypeStatusUpdate:
		text = p["summary"]
		if detail := p["detail"]; strings.HasPrefix(detail, strings.TrimSuffix(text, "…")) {
			text = detail // the summary is its start
			delete(p, "detail")
		}
		delete(p, "summary")
	case TypeKnowledgeQuery:
		text = p["question"]
		delete(p, "question")
	case TypeKnowledgeResponse:
		text = p["answer"]
		delete(p, "answer")
		delete(p, "confidence")
		delete(p, "query_id")
	}
	return text, text != "" && len(p) == 0
}

// Broadcast reports whether the message went to everyone.
func (e Envelope) Broadcast() bool { return len(e.To) == 1 && e.To[0] == Everyone }

// A Priority decides which channels carry a message.
type Priority string

// The priorities.
const (
	PriorityLow      Priority = "low"
	PriorityNormal   Priority = "normal"
	PriorityHigh     Priority = "high"
	PriorityCritical Priority = "critical"
)

// Priorities lists every priority, least first.
var Priorities = []Priority{PriorityLow, PriorityNormal, PriorityHigh, PriorityCritical}

// Known reports whether p is one of Priorities.
func (p Priority) Known() bool { return slices.Contains(Priorities, p) }

// Rank orders priorities for an inbox: the most pressing has rank 0.
func (p Priority) Rank() int { return len(Priorities) - 1 - slices.Index(Priorities, p) }

// Urgent reports whether p is high or critical: such messages are audited and
// are on disk before the sender is told "yes".
func (p Priority) Urgent() bool { return p == PriorityHigh || p == PriorityCritical }

// A Policy bounds the readers of a message, and may require the operator's
// approval before delivery.
type Policy struct {
	Visibility  Visibility  `json:"visibility"`
	Sensitivity Sensitivity `json:"sensitivity"`
	HumanGate   HumanGate   `json:"human_gate"`
}

// DefaultPolicy is the policy of a message whose sender gave none.
var DefaultPolicy = Policy{VisibilityPrivate, SensitivityLow, GateNone}

// A Visibility names the readers of a message. Its sender, its recipients, the operator and
// auditors read a message of every visibility; auditors do not read one of SensitivityHigh.
type Visibility string

// The visibilities.
const (
	VisibilityPrivate Visibility = "private"     // no further readers
	VisibilityTeam    Visibility = "team"        // also the members of its team
	VisibilityAudit   Visibility = "human-audit" // no further readers; people get a copy
)

// A Sensitivity says how much of the text a notice may carry.
type Sensitivity string

// The sensitivities. Notices about a high one carry no text of the message.
const (
	SensitivityLow      Sensitivity = "low"
	SensitivityModerate Sensitivity = "moderate"
	SensitivityHigh     Sensitivity = "high"
)

// A HumanGate says whether the operator must approve a message first.
type HumanGate string

// The gates.
const (
	GateNone     HumanGate = "none"
	GateRequired HumanGate = "required"
)

// The values of the policy's members.
var (
	Visibilities  = []Visibility{VisibilityPrivate, VisibilityTeam, VisibilityAudit}
	Sensitivities = []Sensitivity{SensitivityLow, SensitivityModerate, SensitivityHigh}
	HumanGates    = []HumanGate{GateNone, GateRequired}
)

// A Context is the origin of a message and the things that it is about.
type Context struct {
	SessionID    string        `json:"session_id,omitempty"` // set by the runtime; never taken from input
	ExternalRefs []ExternalRef `json:"external_refs,omitempty"`
	Artifacts    []ArtifactRef `json:"artifacts,omitempty"`
	CopyOf       *CopyMark     `json:"copy_of,omitempty"`  // set by the hub; never taken from input
	AckBy        Time          `json:"ack_by,omitzero"`    // when the sender wants every recipient to have acknowledged it; set by the hub
	RetryOf      EnvelopeID    `json:"retry_of,omitempty"` // the undelivered message that this one repeats; set by the hub
}

// An ExternalRef points at something outside the hub.
type ExternalRef struct {
	Type        string `json:"type"`
	Value       string `json:"value"`
	Description string `json:"description,omitempty"`
	Version     string `json:"version,omitempty"`
}

// An ArtifactRef points at content that is not in the message itself.
type ArtifactRef struct {
	Type        string `json:"type"`
	Path        string `json:"path"` // absolute path, URL or durable identifier
	SHA256      string `json:"sha256,omitempty"`
	Description string `json:"description,omitempty"`
	Version     string `json:"version,omitempty"`
	SizeBytes   *int64 `json:"size_bytes,omitempty"`
	Required    *bool  `json:"required,omitempty"`
}

// The types of references.
var (
	ExternalRefTypes = []string{"workq_item", "file", "branch", "pr", "url", "session", "ticket", "other"}
	ArtifactRefTypes = []string{"file", "branch", "pr", "url", "session", "workq_item"}
)

// A MessageStatus is the least progress of a message over all its recipients.
type MessageStatus string

// The statuses.
const (
	StatusPending   MessageStatus = "pending"
	StatusDelivered MessageStatus = "delivered" // fetched by, or accepted by the runtime of, every recipient
	StatusRead      MessageStatus = "read"      // processed by every recipient
	StatusExpired   MessageStatus = "expired"
	StatusFailed    MessageStatus = "failed"
)

// MessageStatuses lists every status.
var MessageStatuses = []MessageStatus{StatusPending, StatusDelivered, StatusRead, StatusExpired, StatusFailed}

// messageNext is the whole state machine. A status without an entry is final.
var messageNext = map[MessageStatus][]MessageStatus{
	StatusPending:   {StatusDelivered, StatusFailed, StatusExpired},
	StatusDelivered: {StatusRead, StatusExpired},
}

// Advance returns e moved to next at the given time. It reports CodeConflict
// when the state machine has no such move, and then returns e unchanged.
func (e Envelope) Advance(next MessageStatus, now Time) (Envelope, error) {
	if !slices.Contains(messageNext[e.Status], next) {
		return e, Errorf(CodeConflict, "hub.Advance", "message %s is %s and cannot become %s", e.ID, e.Status, next)
	}
	e.Status, e.UpdatedAt = next, now
	return e, nil
}

// A MessageType names the schema of a payload and the purpose of the message.
type MessageType string

// The types.
const (
	TypeHandoffInitiate MessageType = "handoff.initiate"
	TypeHandoffAccept   MessageType = "handoff.accept"
	TypeHandoffReject   MessageType = "handoff.reject"
	TypeHandoffComplete MessageType = "handoff.complete"

	TypeStatusUpdate   MessageType = "status.update"
	TypeStatusBlocked  MessageType = "status.blocked"
	TypeStatusComplete MessageType = "status.complete"

	TypeKnowledgePush     MessageType = "knowledge.push"
	TypeKnowledgeQuery    MessageType = "knowledge.query"
	TypeKnowledgeResponse MessageType = "knowledge.response"

	TypeSystemAck   MessageType = "system.ack"
	TypeSystemError MessageType = "system.error"

	TypeTaskOffer   MessageType = "task.offer"
	TypeTaskAccept  MessageType = "task.accept"
	TypeTaskDecline MessageType = "task.decline"
	TypeTaskCounter MessageType = "task.counter"

	TypePositionState     MessageType = "position.state"
	TypePositionChallenge MessageType = "position.challenge"
	TypePositionConcede   MessageType = "position.concede"
	TypePositionEscalate  MessageType = "position.escalate"

	TypeTeamJoin           MessageType = "team.join"
	TypeTeamLeave          MessageType = "team.leave"
	TypeTeamRoleChange     MessageType = "team.role_change"
	TypeTeamArtifactUpdate MessageType = "team.artifact_update"

	TypeEventReceived MessageType = "event.received" // from a source outside of the hub
	TypeEventDue      MessageType = "event.due"      // a run of a schedule
)

// MessageTypes lists every type that the protocol names.
var MessageTypes = []MessageType{
	TypeHandoffInitiate, TypeHandoffAccept, TypeHandoffReject, TypeHandoffComplete,
	TypeStatusUpdate, TypeStatusBlocked, TypeStatusComplete,
	TypeKnowledgePush, TypeKnowledgeQuery, TypeKnowledgeResponse,
	TypeSystemAck, TypeSystemError,
	TypeTaskOffer, TypeTaskAccept, TypeTaskDecline, TypeTaskCounter,
	TypePositionState, TypePositionChallenge, TypePositionConcede, TypePositionEscalate,
	TypeTeamJoin, TypeTeamLeave, TypeTeamRoleChange, TypeTeamArtifactUpdate,
	TypeEventReceived, TypeEventDue,
}

// FamilyEvent is the family of the messages about events: from outside of the hub, and of clocks.
const FamilyEvent = "event"

// Known reports whether t is one of MessageTypes.
func (t MessageType) Known() bool { return slices.Contains(MessageTypes, t) }

// Family returns the part of t before the dot.
func (t MessageType) Family() string {
	family, _, _ := strings.Cut(string(t), ".")
	return family
}

// Feature returns the feature that must be on for t, or "" if t is always on.
func (t MessageType) Feature() Feature {
	switch t.Family() {
	case "task":
		return FeatureNegotiation
	case "position":
		return FeatureDisagreement
	case "team":
		return FeatureTeamspaces
	}
	return ""
}

// Negotiates reports whether messages of type t are ordered by Sequence
// within their thread.
func (t MessageType) Negotiates() bool {
	f := t.Feature()
	return f == FeatureNegotiation || f == FeatureDisagreement
}

// A Feature is a part of the protocol that a hub may have off.
type Feature string

// The features. All are off by default.
const (
	FeatureNegotiation  Feature = "negotiation"  // task.* messages
	FeatureDisagreement Feature = "disagreement" // position.* messages
	FeatureTeamspaces   Feature = "teamspaces"   // team.* messages
)

// Features lists every feature.
var Features = []Feature{FeatureNegotiation, FeatureDisagreement, FeatureTeamspaces}

// MayWake reports whether a message may start a turn of its recipient. One of low
// priority, an acknowledgement, the acceptance of a task and a copy never do, nor does a
// message of the hub, except an alarm: one of high priority or above, which asks its
// recipients for an act.
func (e Envelope) MayWake() bool {
	acknowledges := e.Type == TypeSystemAck || e.Type == TypeHandoffAccept
	copied := e.Context != nil && e.Context.CopyOf != nil
	switch {
	case e.Priority == PriorityLow, acknowledges, copied:
		return false
	case e.From == Self:
		return e.Priority == PriorityHigh || e.Priority == PriorityCritical
	}
	return true
}
