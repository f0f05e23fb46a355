package hub

import (
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf8"
)

// The bounds of filters.
const (
	maxFilterValues = 20 // in one member of a filter
	maxFilterTopic  = 200
)

// A Filter chooses messages: every member that is not empty must match, by any of its
// values.
type Filter struct {
	From        []AgentID     `json:"from,omitempty"`
	Topics      []string      `json:"topics,omitempty"` // auth/* stands for every topic that begins with auth/
	Teams       []TeamID      `json:"teams,omitempty"`
	Types       []MessageType `json:"types,omitempty"`
	PriorityMin Priority      `json:"priority_min,omitempty"`
}

// Validate reports CodeInvalid when f breaks a rule.
func (f Filter) Validate(op string) error {
	if len(f.From)+len(f.Topics)+len(f.Teams)+len(f.Types) == 0 && f.PriorityMin == "" {
		return Errorf(CodeInvalid, op, "filter is empty").WithHint("give one or more of from, topics, teams, types and priority_min")
	}
	for member, n := range map[string]int{"from": len(f.From), "topics": len(f.Topics), "teams": len(f.Teams), "types": len(f.Types)} {
		if n > maxFilterValues {
			return Errorf(CodeTooLarge, op, "filter.%s has %d values: at most %d are allowed", member, n, maxFilterValues)
		}
	}
	for _, topic := range f.Topics {
		rest := strings.TrimSuffix(topic, "/*")
		isTopic := rest != "" && !strings.Contains(rest, "*") && len(topic) <= maxFilterTopic && utf8.ValidString(topic)
		if !isTopic {
			return Errorf(CodeInvalid, op, "filter.topics: %.40q is not a valid topic", topic).WithHint("a topic has 1 to %d bytes; a final /* matches all topics below it", maxFilterTopic)
		}
	}
	for _, t := range f.Types {
		if !t.Known() || !t.Copied() {
			return Errorf(CodeInvalid, op, "filter.types: messages of type %.40q are not copied", t).
				WithHint("use types of the families status, knowledge, task, position and team")
		}
	}
	if f.PriorityMin != "" && !f.PriorityMin.Known() {
		return Errorf(CodeInvalid, op, "filter.priority_min: %.40q is not one of %s", f.PriorityMin, JoinWords(Priorities))
	}
	return nil
}

// Copied reports whether messages of type t are copied to subscribers. Those of a
// handoff belong to its two agents, those of the hub about a call to its caller, and those about
// an event to its owner.
func (t MessageType) Copied() bool {
	return t.Family() != "handoff" && t.Family() != "system" && t.Family() != FamilyEvent
}

// Matches reports whether f chooses e.
func (f Filter) Matches(e Envelope) bool {
	any := func(n int, found bool) bool { return n == 0 || found }
	topic := e.TopicOf()
	return any(len(f.From), slices.Contains(f.From, e.From)) &&
		any(len(f.Teams), slices.Contains(f.Teams, TeamID(e.Team))) &&
		any(len(f.Types), slices.Contains(f.Types, e.Type)) &&
		any(len(f.Topics), topic != "" && slices.ContainsFunc(f.Topics, func(want string) bool {
			prefix, below := strings.CutSuffix(want, "*")
			return topic == want || (below && strings.HasPrefix(topic, prefix))
		})) &&
		(f.PriorityMin == "" || e.Priority.Rank() <= f.PriorityMin.Rank())
}

// TopicOf returns the topic of e; if it has none, that of its payload.
func (e Envelope) TopicOf() string {
	if e.Topic != "" {
		return e.Topic
	}
	var payload struct {
		Topic string `json:"topic"`
	}
	_ = json.Unmarshal(e.Payload, &payload) // a payload with another kind of topic has none
	return payload.Topic
}

// A Subscription has messages of others copied to the inbox of its agent.
type Subscription struct {
	ID        string  `json:"id"` // such as s3
	Agent     AgentID `json:"agent"`
	Filter    Filter  `json:"filter"`
	CreatedAt Time    `json:"created_at,omitzero"`
}

// The reasons of a copy that no subscription asked for.
const (
	CopyByRole       = "role"
	CopyByCapability = "capability"
	CopyByVisibility = "human-audit" // the message has VisibilityAudit, and the agent is the operator
)

// A CopyMark marks a message of the hub as a copy of another message.
type CopyMark struct {
	Message EnvelopeID `json:"message"`
	From    AgentID    `json:"from"` // the sender of Message
	By      string     `json:"by"`   // a subscription, CopyByRole or CopyByCapability
}

// A Copy is a message that an agent gets a copy of. There is one for an agent and a
// message.
type Copy struct {
	Agent   AgentID
	Message EnvelopeID
	By      string
	Text    string     // hash of sender, type and text of a status; "" for other messages
	At      Time       // when the message matched
	DueAt   Time       // when the copies of its window are made
	Copy    EnvelopeID // the copy; "" while it waits
}

// A CopyQuery chooses copies, by agent and in the order in which they matched. Empty
// members do not restrict.
type CopyQuery struct {
	Agent   AgentID
	Message EnvelopeID
	Text    string
	Since   Time // matched after
	Waiting bool // that are not made
	Due     Time // due by then
	Limit   int  // how many at most; positive
}
