package mailroom

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/ground/shape"
	"github.com/parley-agents/parley/internal/ground/strictjson"
	"github.com/parley-agents/parley/internal/ground/text/nearest"
)

// maxSummary is the most characters in the summary of a status.
const maxSummary = 280

// prepare makes an envelope of a draft and runs all checks that do not need the
// store. It returns warnings for the sender, too.
func (m *Mailroom) prepare(op string, actor hub.Caller, d Draft) (hub.Envelope, []string, error) {
	warnings, err := m.checkDraft(op, actor, d)
	if err != nil {
		return hub.Envelope{}, nil, err
	}
	payload, err := payloadOf(op, d)
	if err != nil {
		return hub.Envelope{}, nil, err
	}
	e, warnings, err := m.envelopeOf(op, actor, d, payload, warnings)
	if err != nil {
		return hub.Envelope{}, nil, err
	}
	if err := m.checkEnvelope(op, actor, e, d.wide); err != nil {
		return hub.Envelope{}, nil, err
	}
	return e, warnings, nil
}

// checkDraft refuses a draft that names a sender, and one that the actor may not send at all.
func (m *Mailroom) checkDraft(op string, actor hub.Caller, d Draft) (warnings []string, err error) {
	if d.Claimed != nil {
		if !m.lenient {
			return nil, hub.Errorf(hub.CodeTampering, op, "\"from\" is not allowed: the hub sets the sender").
				WithHint("leave \"from\" out: you are %s", actor.ID)
		}
		warnings = append(warnings, fmt.Sprintf("\"from\" %q was ignored: you are %s", *d.Claimed, actor.ID))
	}
	for name := range strictjson.Members(d.Extra) {
		if claimsSender(name) {
			return nil, hub.Errorf(hub.CodeTampering, op, "%s is not allowed: the hub sets the sender", name).
				WithHint("leave %s out: you are %s; inside payload it is ordinary content", name, actor.ID)
		}
	}

	if actor.Paused {
		return nil, hub.Errorf(hub.CodeDenied, op, "%s is paused and cannot send", actor.ID).
			WithHint("to end the pause, {agent.resume} %s", actor.ID)
	}
	if err := m.sendable(op, d.Type); err != nil {
		return nil, err
	}
	if len(d.IdempotencyKey) > 128 {
		return nil, hub.Errorf(hub.CodeInvalid, op, "idempotency_key must be at most 128 bytes")
	}
	return warnings, nil
}

// payloadOf returns the payload of a draft, or the one that its plain text becomes.
func payloadOf(op string, d Draft) (strictjson.Value, error) {
	switch {
	case d.Text != "" && !d.Payload.IsZero():
		return strictjson.Value{}, hub.Errorf(hub.CodeInvalid, op, "payload and text cannot be combined")
	case d.Text != "":
		members, err := textPayload(op, d)
		if err != nil {
			return strictjson.Value{}, err
		}
		return strictjson.ValueOf(members)
	case d.Payload.IsZero():
		return strictjson.Value{}, hub.Errorf(hub.CodeInvalid, op, "payload is required").WithHint("give a payload object, or text for a plain message")
	}
	return d.Payload, nil
}

// envelopeOf composes the envelope of a draft. It adds warnings about what the hub changed in
// it.
func (m *Mailroom) envelopeOf(op string, actor hub.Caller, d Draft, payload strictjson.Value, warnings []string) (hub.Envelope, []string, error) {
	draft := hub.Envelope{
		Version: d.Version, To: unique(d.To), Team: d.Team, ThreadID: d.ThreadID, ReplyTo: d.ReplyTo, Type: d.Type, Topic: d.Topic, Priority: d.Priority,
		Sequence: d.Sequence, ExpiresAt: d.ExpiresAt, Payload: payload.Compact().Raw(), Policy: hub.DefaultPolicy, Extra: d.Extra,
	}
	if d.Policy != nil {
		draft.Policy = fillPolicy(*d.Policy)
	}
	e := m.compose(actor.ID, draft).Envelope

	if e.Priority == hub.PriorityCritical && e.Policy.Visibility != hub.VisibilityAudit {
		e.Policy.Visibility = hub.VisibilityAudit
		if d.Policy != nil {
			warnings = append(warnings, "visibility was raised to human-audit because the message is critical")
		}
	}
	e.Context, warnings = runtimeContext(actor, d.Context, warnings)
	d.retry.mark(&e)
	if err := setAckBy(op, &e, d.AckBy); err != nil {
		return hub.Envelope{}, nil, err
	}
	if names := memberNames(d.Extra); len(names) > 0 {
		warnings = append(warnings, fmt.Sprintf("members not defined in version %s have no effect: %s", hub.Version, strings.Join(names, ", ")))
	}
	return e, warnings, nil
}

// checkEnvelope checks the form of a message, its payload, and its policy. wide allows more
// recipients than a message may name.
func (m *Mailroom) checkEnvelope(op string, actor hub.Caller, e hub.Envelope, wide bool) error {
	whole := e
	if e.Type.Negotiates() && e.Sequence == nil {
		whole.Sequence = new(int64) // the moderator fills it in
	}
	if err := whole.Validate(); err != nil {
		return err
	}
	if err := shape.CheckPayload(e.Type, e.Payload); err != nil {
		return err
	}
	return m.allowed(op, actor, e, wide)
}

// senderNames are unknown members of an envelope that a reader could take for its
// sender, in lower case, letters only. A name that contains one of senderParts is
// such a name, too.
var (
	senderNames = []string{
		"from", "fromagent", "fromuser", "fromid", "by", "sentby", "writtenby", "createdby", "author", "authoredby", "actor", "principal", "origin", "source",
		"user", "human", "admin", "owner", "system", "onbehalfof", "signature", "identity",
	}
	senderParts = []string{"sender", "operator"}
)

// claimsSender reports whether the name of a member looks like a sender.
func claimsSender(name string) bool {
	folded := strings.Map(func(r rune) rune {
		switch r = unicode.ToLower(r); {
		case r >= 'ａ' && r <= 'ｚ': // full-width letters
			return r - 'ａ' + 'a'
		case r >= 'a' && r <= 'z':
			return r
		}
		return -1
	}, name)
	return slices.Contains(senderNames, folded) || slices.ContainsFunc(senderParts, func(part string) bool { return strings.Contains(folded, part) })
}

// sendable refuses message types that agents may not send.
func (m *Mailroom) sendable(op string, t hub.MessageType) error {
	switch {
	case t == "":
		return hub.Errorf(hub.CodeInvalid, op, "type is required").WithHint("a payload needs a type: %s", hub.JoinWords(m.sendableTypes()))
	case !t.Known():
		err := hub.Errorf(hub.CodeUnknownType, op, "unknown message type %q", t)
		if near := nearest.Name(t, slices.Values(m.sendableTypes())); near != "" {
			return err.WithHint("did you mean %s?", near)
		}
		return err.WithHint("use %s", hub.JoinWords(m.sendableTypes()))
	case t.Family() == "handoff":
		return hub.Errorf(hub.CodeReservedType, op, "only the hub writes %s, when a handoff changes", t).
			WithHint("use {handoff} to hand work over")
	case t.Family() == "system":
		return hub.Errorf(hub.CodeReservedType, op, "only the hub writes %s", t).
			WithHint("to acknowledge a message, use {inbox.ack}")
	case t.Family() == "team":
		return hub.Errorf(hub.CodeReservedType, op, "only the hub writes %s, when a team changes", t).
			WithHint("use status.update or knowledge.push to inform others")
	case t.Family() == hub.FamilyEvent:
		return hub.Errorf(hub.CodeReservedType, op, "only the hub writes %s", t).
			WithHint("use status.update or knowledge.push to inform others")
	case t.Feature() != "" && (!m.features[t.Feature()] || m.moderator == nil):
		return hub.Errorf(hub.CodeReservedType, op, "%s is reserved: %s is off on this hub", t, t.Feature()).
			WithHint("use %s", hub.JoinWords(m.sendableTypes()))
	}
	return nil
}

// sendableTypes returns the types that agents may send on this hub.
func (m *Mailroom) sendableTypes() (out []hub.MessageType) {
	for _, t := range hub.MessageTypes {
		isOn := t.Feature() == "" || (m.features[t.Feature()] && m.moderator != nil)
		if isOn && !slices.Contains(hubFamilies, t.Family()) {
			out = append(out, t)
		}
	}
	return out
}

// hubFamilies are the families of the types that only the hub writes.
var hubFamilies = []string{"handoff", "system", "team", hub.FamilyEvent}

// allowed checks the policy block and the authority to broadcast.
// wide allows more recipients than a message may name: they are a team.
func (m *Mailroom) allowed(op string, actor hub.Caller, e hub.Envelope, wide bool) error {
	if n := m.limits.Recipients; len(e.To) > n && !wide {
		return hub.Errorf(hub.CodePolicy, op, "%d recipients are too many: at most %d are allowed", len(e.To), n).
			WithHint("send to fewer recipients, or to [\"*\"] if all agents must know")
	}
	if e.Broadcast() && !actor.Coordinates() && !e.Priority.Urgent() {
		return hub.Errorf(hub.CodeDenied, op, "only a coordinator can write to everyone with priority %s", e.Priority).
			WithHint("name the recipients, or use priority high if all agents must know now")
	}
	if (e.Policy.Visibility == hub.VisibilityTeam || e.Team != "") && !m.features[hub.FeatureTeamspaces] {
		return hub.Errorf(hub.CodePolicy, op, "teamspaces are off on this hub: a message cannot name a team").
			WithHint("use visibility private or human-audit and leave team out")
	}
	if e.Policy.Visibility == hub.VisibilityTeam && e.Team == "" {
		return hub.Errorf(hub.CodePolicy, op, "visibility team requires a team").WithHint("name your team in team, or use visibility private or human-audit")
	}
	if !e.ExpiresAt.IsZero() && !e.ExpiresAt.After(e.CreatedAt.Time) {
		return hub.Errorf(hub.CodeInvalid, op, "expires_at %s is in the past", e.ExpiresAt).WithHint("it is now %s", e.CreatedAt)
	}
	return nil
}

func fillPolicy(p hub.Policy) hub.Policy {
	if p.Visibility == "" {
		p.Visibility = hub.DefaultPolicy.Visibility
	}
	if p.Sensitivity == "" {
		p.Sensitivity = hub.DefaultPolicy.Sensitivity
	}
	if p.HumanGate == "" {
		p.HumanGate = hub.DefaultPolicy.HumanGate
	}
	return p
}

// runtimeContext returns the context with the session that the runtime knows.
func runtimeContext(actor hub.Caller, c *hub.Context, warnings []string) (*hub.Context, []string) {
	if c == nil && actor.Session == "" {
		return nil, warnings
	}
	out := hub.Context{}
	if c != nil {
		out = *c
	}
	if out.SessionID != "" && out.SessionID != actor.Session {
		warnings = append(warnings, "context.session_id was ignored: the hub sets it")
	}
	if out.CopyOf != nil {
		warnings = append(warnings, "context.copy_of was ignored: the hub sets it")
	}
	if !out.AckBy.IsZero() {
		warnings = append(warnings, "context.ack_by was ignored: set ack_by outside context")
	}
	if out.RetryOf != "" {
		warnings = append(warnings, "context.retry_of was ignored: the hub sets it")
	}
	out.SessionID = actor.Session
	out.CopyOf = nil
	out.AckBy = hub.Time{}
	out.RetryOf = ""
	return &out, warnings
}

// payloadMembers are the members that an author gives for types that plain text cannot
// make. The ids of other messages follow from reply_to.
var payloadMembers = map[hub.MessageType]string{
	hub.TypePositionState:     "topic, position, reasoning, confidence (low, medium or high) and open_to_revision",
	hub.TypePositionChallenge: "counter_position, reasoning and severity (minor, significant or blocking)",
	hub.TypePositionConcede:   "what_changed_mind",
	hub.TypePositionEscalate:  "summary, escalate_to (an agent, or operator) and reason",
}

// textPayload makes a payload of plain text.
func textPayload(op string, d Draft) (map[string]any, error) {
	if !utf8.ValidString(d.Text) {
		return nil, hub.Errorf(hub.CodeInvalid, op, "text is not valid UTF-8")
	}

	p := map[string]any{}
	switch d.Type {
	// A long text is the detail of a status, and its beginning the summary.
	case hub.TypeStatusUpdate, hub.TypeStatusComplete, hub.TypeStatusBlocked:
		summary := d.Text
		if utf8.RuneCountInString(summary) > maxSummary {
			summary = string([]rune(summary)[:maxSummary-1]) + "…"
			p["detail"] = d.Text
		}
		p["summary"] = summary
		if d.Type == hub.TypeStatusBlocked {
			p["reason"] = summary
		}

	case hub.TypeKnowledgeQuery:
		p["question"] = d.Text
	case hub.TypeKnowledgePush:
		if d.Topic == "" {
			return nil, hub.Errorf(hub.CodeInvalid, op, "topic is required").WithHint("give a topic, or a whole payload")
		}
		p["topic"] = d.Topic
		p["summary"] = d.Text
		p["confidence"] = "medium"
	case hub.TypeKnowledgeResponse:
		if d.ReplyTo == "" {
			return nil, hub.Errorf(hub.CodeInvalid, op, "reply_to is required").WithHint("name the question in reply_to, or use {respond}")
		}
		p["query_id"] = d.ReplyTo
		p["answer"] = d.Text
		p["confidence"] = "medium"

	case hub.TypeTaskOffer:
		title, _, _ := strings.Cut(d.Text, "\n")
		if utf8.RuneCountInString(title) > 200 {
			title = string([]rune(title)[:199]) + "…"
		}
		p["title"], p["description"] = title, d.Text
	case hub.TypeTaskAccept:
		p["offer_id"], p["notes"] = d.anchor, d.Text
	case hub.TypeTaskDecline:
		p["offer_id"] = d.anchor
		p["reason"] = "other"
		p["detail"] = d.Text
	case hub.TypeTaskCounter:
		p["offer_id"], p["proposed_changes"] = d.anchor, d.Text

	default:
		return nil, hub.Errorf(hub.CodeInvalid, op, "%s needs a payload, not plain text", d.Type).WithHint("give a payload with %s", payloadMembers[d.Type])
	}
	return p, nil
}

// unique returns the names without repetitions, in their order.
func unique[T comparable](ids []T) []T {
	if len(ids) < 2 {
		return ids
	}
	out := make([]T, 0, len(ids))
	for _, id := range ids {
		if !slices.Contains(out, id) {
			out = append(out, id)
		}
	}
	return out
}

// memberNames returns the names in a JSON object, sorted.
func memberNames(object json.RawMessage) []string {
	var names []string
	for n := range strictjson.Members(object) {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}
