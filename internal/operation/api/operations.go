package api

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"reflect"
	"slices"
	"strings"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/ground/strictjson"
	"github.com/parley-agents/parley/internal/ground/text/nearest"
	"github.com/parley-agents/parley/internal/operation/rpc"
	"github.com/parley-agents/parley/internal/service/keys"
	"github.com/parley-agents/parley/internal/service/mailroom"
)

// A Recipients list is given as an array of names, or as one name.
type Recipients []hub.AgentID

// UnmarshalJSON reads an array of strings or one string.
func (r *Recipients) UnmarshalJSON(b []byte) error {
	var names []hub.AgentID
	var err error
	if len(b) > 0 && b[0] == '[' {
		err = jsonv2.Unmarshal(b, &names)
	} else {
		names = make([]hub.AgentID, 1)
		err = jsonv2.Unmarshal(b, &names[0])
	}
	if err != nil {
		return errors.New("must be a name or an array of names")
	}
	*r = names
	return nil
}

// SendParams are the members of an envelope that a caller may choose.
type SendParams struct {
	To             Recipients      `json:"to,omitempty"`
	Type           hub.MessageType `json:"type,omitempty"` // default status.update for plain text
	Payload        json.RawMessage `json:"payload,omitzero"`
	Text           string          `json:"text,omitempty"` // plain text in place of payload
	Policy         json.RawMessage `json:"policy,omitzero"`
	Team           string          `json:"team,omitempty"`
	ThreadID       string          `json:"thread_id,omitempty"`
	ReplyTo        hub.EnvelopeID  `json:"reply_to,omitempty"`
	Priority       hub.Priority    `json:"priority,omitempty"`
	Topic          string          `json:"topic,omitempty"`
	ExpiresAt      hub.Time        `json:"expires_at,omitzero"`
	AckBy          string          `json:"ack_by,omitempty"` // a span such as 30m, or a time
	Sequence       *int64          `json:"sequence,omitempty"`
	Context        json.RawMessage `json:"context,omitzero"`
	IdempotencyKey string          `json:"idempotency_key,omitempty"`
	Protocol       string          `json:"protocol,omitempty"`
	Version        string          `json:"version,omitempty"`
	Retry          hub.EnvelopeID  `json:"retry,omitempty"`    // acp/send alone: the undelivered message to send again
	Decision       string          `json:"decision,omitempty"` // acp/respond alone: about the escalated thread of the message

	From    json.RawMessage `json:"from,omitempty"` // refused: the sender is the authenticated caller
	Unknown jsontext.Value  `json:",embed"`
}

// draft checks the parts of p that need more than decoding.
func (p SendParams) draft(op string) (mailroom.Draft, error) {
	d := mailroom.Draft{
		To: p.To, Type: p.Type, Payload: strictjson.Trust(p.Payload), Text: p.Text, Team: p.Team, ThreadID: p.ThreadID, ReplyTo: p.ReplyTo,
		Priority: p.Priority, Topic: p.Topic, ExpiresAt: p.ExpiresAt, AckBy: p.AckBy, Sequence: p.Sequence, IdempotencyKey: p.IdempotencyKey,
		Version: p.Version,
	}

	// Decision and Retry belong to other forms of the call.
	if p.Decision != "" {
		return d, hub.Errorf(hub.CodeInvalid, op, "a decision must be an answer").WithHint("use {respond} with reply_to, decision and text")
	}
	if p.Retry != "" {
		return d, hub.Errorf(hub.CodeInvalid, op, "retry cannot be combined with other members").WithHint("leave the other members out")
	}

	if d.Type == "" && d.Text != "" && op != "acp/respond" {
		d.Type = mailroom.TypeOfText(d.Text)
	}
	if p.Protocol != "" && p.Protocol != hub.Protocol {
		return d, hub.Errorf(hub.CodeInvalid, op, "protocol must be %q, got %q", hub.Protocol, p.Protocol)
	}

	// A sender in the parameters is only a claim: the mailroom refuses or ignores it.
	claimed, extra, err := claimedSender(op, p)
	if err != nil {
		return d, err
	}
	d.Claimed, d.Extra = claimed, extra

	if len(p.Policy) > 0 {
		d.Policy = new(hub.Policy)
		if err := decodePart(op, "policy", p.Policy, d.Policy); err != nil {
			return d, err
		}
	}
	if len(p.Context) > 0 {
		d.Context = new(hub.Context)
		if err := decodePart(op, "context", p.Context, d.Context); err != nil {
			return d, err
		}
	}
	return d, nil
}

// chosen are the members of an envelope that a caller may choose.
var chosen = []string{
	"to", "type", "payload", "text", "policy", "team", "thread_id", "reply_to", "priority", "topic", "expires_at", "ack_by", "sequence", "context", "idempotency_key", "retry",
}

// claimedSender returns the sender that the parameters claim, in any case of its
// name, and the other unknown members.
func claimedSender(op string, p SendParams) (claimed *string, extra json.RawMessage, err error) {
	if p.From != nil {
		s := string(p.From)
		claimed = &s
	}
	if len(p.Unknown) == 0 {
		return claimed, nil, nil
	}

	// A member that the protocol does not define is kept, unless its name is one that the hub fills
	// in or is probably misspelled.
	var members map[string]json.RawMessage
	if err := jsonv2.Unmarshal(p.Unknown, &members); err != nil {
		return nil, nil, hub.Errorf(hub.CodeInvalid, op, "%w", err)
	}
	extra = json.RawMessage(p.Unknown)

	for name, value := range members {
		switch strings.ToLower(name) {
		case "from":
			s := string(value)
			claimed = &s
			delete(members, name)
			if extra = nil; len(members) > 0 {
				extra, err = jsonv2.Marshal(members, jsonv2.Deterministic(true))
			}
		case "id", "status", "created_at", "updated_at":
			return nil, nil, hub.Errorf(hub.CodeInvalid, op, "%s is not allowed: the hub sets it", name)
		default:
			if near := nearest.Member(name, slices.Values(chosen)); near != "" {
				return nil, nil, hub.Errorf(hub.CodeInvalid, op, "%s: did you mean %s?", name, near).
					WithHint("other members are kept, unless their name is close to one of the protocol")
			}
		}
	}
	return claimed, extra, err
}

// decodePart reads an object inside the parameters as strictly as they are.
func decodePart(op, name string, raw json.RawMessage, into any) error {
	if raw[0] != '{' {
		return hub.Errorf(hub.CodeInvalid, op, "%s must be an object", name)
	}
	if err := rpc.Decode(op, rpc.Strict, raw, into); err != nil {
		return hub.Errorf(hub.CodeInvalid, op, "%s: %v", name, err)
	}
	return nil
}

// resolve returns the draft with full ids in place of short ones.
func (s *Services) resolve(ctx context.Context, op string, a hub.Caller, d mailroom.Draft) (_ mailroom.Draft, err error) {
	if d.ReplyTo, err = s.Mail.Resolve(ctx, op, a, d.ReplyTo); err == nil {
		d.ThreadID, err = s.Mail.ResolveThread(ctx, op, a, d.ThreadID)
	}
	return d, err
}

func send(ctx context.Context, s *Services, a hub.Caller, p SendParams) (mailroom.Receipt, error) {
	const op = "acp/send"
	if again := (SendParams{Retry: p.Retry, ExpiresAt: p.ExpiresAt, IdempotencyKey: p.IdempotencyKey}); p.Retry != "" && reflect.DeepEqual(p, again) {
		return retry(ctx, s, a, RetryParams{ID: p.Retry, ExpiresAt: p.ExpiresAt})
	}
	d, err := p.draft(op)
	if err == nil {
		d, err = s.resolve(ctx, op, a, d)
	}
	if err != nil {
		return mailroom.Receipt{}, err
	}
	return s.Mail.Send(ctx, a, d)
}

func respond(ctx context.Context, s *Services, a hub.Caller, p SendParams) (mailroom.Receipt, error) {
	const op = "acp/respond"
	if p.Decision != "" {
		return s.decideAnswer(ctx, a, p)
	}
	d, err := p.draft(op)
	if err == nil {
		d, err = s.resolve(ctx, op, a, d)
	}
	if err != nil {
		return mailroom.Receipt{}, err
	}
	return s.Mail.Respond(ctx, a, d)
}

// QueryParams are the parameters of acp/query. An empty member does not restrict.
type QueryParams struct {
	Agent  hub.AgentID       `json:"agent,omitempty"`
	From   hub.AgentID       `json:"from,omitempty"`
	To     hub.AgentID       `json:"to,omitempty"`
	Thread string            `json:"thread_id,omitempty"`
	Team   string            `json:"team,omitempty"` // messages of a team that the caller may read
	Type   hub.MessageType   `json:"type,omitempty"`
	Status hub.MessageStatus `json:"status,omitempty"`
	Topic  string            `json:"topic,omitempty"`
	Since  hub.Time          `json:"since,omitzero"`
	Until  hub.Time          `json:"until,omitzero"`
	Text   string            `json:"text,omitempty"`
	Limit  strictjson.Count  `json:"limit,omitzero"`
	Cursor string            `json:"cursor,omitempty"`

	Overdue bool `json:"overdue,omitempty"` // alone: messages that were not acknowledged in time

	Negotiation  string `json:"negotiation,omitempty"`  // the id of one, in place of messages
	Disagreement string `json:"disagreement,omitempty"` // the id of one, in place of messages
}

func query(ctx context.Context, s *Services, a hub.Caller, p QueryParams) (QueryAnswer, error) {
	switch {
	case p.Negotiation != "":
		return s.talk(ctx, a, hub.KindNegotiation, p.Negotiation)
	case p.Disagreement != "":
		return s.talk(ctx, a, hub.KindDisagreement, p.Disagreement)
	case p.Overdue:
		return s.overdue(ctx, a, p)
	}
	thread, err := s.Mail.ResolveThread(ctx, "acp/query", a, p.Thread)
	if err != nil {
		return QueryAnswer{}, err
	}
	page, err := s.Mail.Query(ctx, a, hub.Query{
		Agent: p.Agent, From: p.From, To: p.To, Thread: thread, Team: p.Team, Type: p.Type, Status: p.Status, Topic: p.Topic,
		Since: p.Since, Until: p.Until, Text: p.Text, Limit: int(p.Limit), Cursor: p.Cursor,
	})
	return QueryAnswer{Listing: &page}, err
}

// overdue answers a query for the messages that were not acknowledged in time.
func (s *Services) overdue(ctx context.Context, a hub.Caller, p QueryParams) (QueryAnswer, error) {
	if p != (QueryParams{Overdue: true}) {
		return QueryAnswer{}, hub.Errorf(hub.CodeInvalid, "acp/query", "overdue cannot be combined with other members").WithHint("leave the other members out")
	}
	list, err := s.Mail.Overdue(ctx, a)
	if err != nil {
		return QueryAnswer{}, err
	}
	var messages []hub.Envelope
	for _, o := range list {
		messages = append(messages, o.Message)
	}
	page, err := s.Mail.ListingOf(ctx, a, messages)
	return QueryAnswer{Listing: &page}, err
}

// InboxParams are the parameters of acp/inbox.
type InboxParams struct {
	Limit   strictjson.Count `json:"limit,omitzero"`
	Cursor  string           `json:"cursor,omitempty"`
	NewOnly bool             `json:"new_only,omitempty"`
	WaitS   int              `json:"wait_s,omitempty"`
	Ack     AckSet           `json:"ack,omitzero"`
	Peek    bool             `json:"peek,omitempty"`

	// To read one message, and a part of its whole text, from 1.
	ID   hub.EnvelopeID   `json:"id,omitempty"`
	Part strictjson.Count `json:"part,omitzero"`

	Agent hub.AgentID `json:"agent,omitempty"` // the owner of the inbox; for the operator, who changes nothing in it
}

// An AckSet names the messages that the caller has finished: all that this call
// returns, or those with the ids.
type AckSet struct {
	All bool
	IDs []hub.EnvelopeID
}

// MarshalJSON writes true or an array of ids.
func (a AckSet) MarshalJSON() ([]byte, error) {
	if a.All {
		return []byte("true"), nil
	}
	return json.Marshal(a.IDs)
}

// UnmarshalJSON reads true, false or an array of ids.
func (a *AckSet) UnmarshalJSON(b []byte) error {
	if json.Unmarshal(b, &a.All) == nil {
		return nil
	}
	if json.Unmarshal(b, &a.IDs) != nil {
		return errors.New("must be true, false or an array of ids")
	}
	return nil
}

func inbox(ctx context.Context, s *Services, a hub.Caller, p InboxParams) (mailroom.Inbox, error) {
	const op = "acp/inbox"
	if p.WaitS < 0 || p.WaitS > int(mailroom.MaxWait/time.Second) {
		return mailroom.Inbox{}, hub.Errorf(hub.CodeInvalid, op, "wait_s must be between 0 and %d, got %d", int(mailroom.MaxWait/time.Second), p.WaitS).
			WithHint("call again if no message arrives")
	}
	if p.ID != "" {
		id, err := s.Mail.Resolve(ctx, op, a, p.ID)
		if err != nil {
			return mailroom.Inbox{}, err
		}
		return s.Mail.Read(ctx, a, id, int(p.Part))
	}
	if p.Part != 0 {
		return mailroom.Inbox{}, hub.Errorf(hub.CodeInvalid, op, "id is required").WithHint("part needs the id of a message")
	}
	for i, id := range p.Ack.IDs {
		var err error
		if p.Ack.IDs[i], err = s.Mail.Resolve(ctx, op, a, id); err != nil {
			return mailroom.Inbox{}, err
		}
	}
	return s.Mail.Inbox(ctx, a, mailroom.InboxRequest{
		Limit: int(p.Limit), Cursor: p.Cursor, NewOnly: p.NewOnly, Wait: time.Duration(p.WaitS) * time.Second,
		AckAll: p.Ack.All, Ack: p.Ack.IDs, Peek: p.Peek, Agent: p.Agent,
	})
}

// StatusParams are the parameters of acp/status: the state of the caller's work,
// and the members of an envelope that a send may carry.
type StatusParams struct {
	State    string   `json:"state"`
	Summary  string   `json:"summary"`
	Detail   string   `json:"detail,omitempty"`
	Progress *int     `json:"progress_pct,omitempty"`
	Blockers []string `json:"blockers,omitempty"`
	SendParams
}

func status(ctx context.Context, s *Services, a hub.Caller, p StatusParams) (mailroom.Receipt, error) {
	const op = "acp/status"
	if p.Summary == "" {
		p.Summary, p.Text = p.Text, ""
	}
	if p.Type != "" || len(p.Payload) > 0 || p.Text != "" {
		return mailroom.Receipt{}, hub.Errorf(hub.CodeInvalid, op, "type, payload and text are not allowed: the hub makes them from state and summary")
	}
	d, err := p.draft(op)
	if err == nil {
		d, err = s.resolve(ctx, op, a, d)
	}
	if err != nil {
		return mailroom.Receipt{}, err
	}
	return s.Mail.Status(ctx, a, mailroom.Report{State: p.State, Summary: p.Summary, Detail: p.Detail, Progress: p.Progress, Blockers: p.Blockers, Draft: d})
}

// None are the parameters of an operation that has none.
type None struct{}

// An Identity is the caller as the hub identified it.
type Identity struct {
	ID           hub.AgentID        `json:"id"`
	Role         hub.Role           `json:"role"`
	Auditor      bool               `json:"auditor"`
	Contacts     []mailroom.Contact `json:"agents"`      // the other agents of the hub, at most 50
	InTeam       bool               `json:"in_team"`     // it is a member of a team that works, or may make one
	InProject    bool               `json:"in_project"`  // a project concerns it
	SharesTree   bool               `json:"shares_tree"` // another agent works in its working tree
	Capabilities hub.Capabilities   `json:"capabilities"`
	Without      []hub.Feature      `json:"without,omitempty"` // features that this hub has off
}

func whoami(ctx context.Context, s *Services, a hub.Caller, _ None) (Identity, error) {
	contacts, err := s.Mail.Contacts(ctx, a)
	if err != nil {
		return Identity{}, err
	}
	id := Identity{ID: a.ID, Role: a.Role, Auditor: a.Audits(), Contacts: contacts, Capabilities: s.Mail.Capabilities(), Without: s.Without}
	if id.InTeam, err = s.inTeam(ctx, a); err != nil {
		return Identity{}, err
	}
	if s.Projects != nil {
		if id.InProject, err = s.Projects.Concerns(ctx, a); err != nil {
			return Identity{}, err
		}
	}
	id.SharesTree, err = s.sharesTree(ctx, a)
	return id, err
}

// inTeam reports whether the caller is a member of a team that is not closed. A
// coordinator of the hub counts as one, because it makes teams.
func (s *Services) inTeam(ctx context.Context, a hub.Caller) (bool, error) {
	if s.Teams == nil || a.Role == hub.RoleCoordinator {
		return s.Teams != nil, nil
	}
	const most = 200
	teams, err := hub.Read(ctx, s.Store, func(r hub.Reader) ([]hub.Team, error) {
		return r.Teamspaces().Teams(hub.TeamQuery{Member: a.ID, Limit: most})
	})
	return slices.ContainsFunc(teams, func(t hub.Team) bool { return !t.ReadOnly() }), err
}

// IDParams name a message.
type IDParams struct {
	ID     hub.EnvelopeID `json:"id"`
	Reason string         `json:"reason,omitempty"`
}

func trace(ctx context.Context, s *Services, a hub.Caller, p IDParams) (mailroom.Trace, error) {
	id, err := s.Mail.Resolve(ctx, "parley/trace", a, p.ID)
	if err != nil {
		return mailroom.Trace{}, err
	}
	return s.Mail.Trace(ctx, a, id)
}

// An AgentList lists every agent of the hub.
type AgentList struct {
	Agents []AgentProfile `json:"agents"`
}

// An AgentProfile is an agent with its keys and how it stands.
type AgentProfile struct {
	keys.Profile
	mailroom.Presence
	LastSeen hub.Time `json:"last_seen,omitzero"` // its last call since the hub started, else its last recorded step

	// For the operator, auditors and the agent itself.
	Session *Session `json:"session,omitempty"` // the live session that was used last; nil if there is none
}

func agentList(ctx context.Context, s *Services, a hub.Caller, _ None) (AgentList, error) {
	list, err := s.Keys.Agents(ctx, a)
	if err != nil {
		return AgentList{}, err
	}

	var names []hub.AgentID
	for _, p := range list {
		names = append(names, p.ID)
	}
	presences, err := s.Mail.Presences(ctx, a, names)
	if err != nil {
		return AgentList{}, err
	}

	out := AgentList{Agents: []AgentProfile{}}
	live, err := s.liveSessions(ctx, names)
	if err != nil {
		return AgentList{}, err
	}

	// The session and the last use of a key are shown to the agent itself and to auditors.
	for _, p := range list {
		row := AgentProfile{Profile: p, Presence: presences[p.ID]}
		if a.Audits() || a.ID == p.ID {
			row.Session = live[p.ID]
		}
		if row.LastSeen = row.Active; a.Audits() || a.ID == p.ID {
			if seen := s.Keys.Seen(p.ID); seen.After(row.LastSeen.Time) {
				row.LastSeen = seen
			}
		}
		out.Agents = append(out.Agents, row)
	}
	return out, nil
}

// AgentParams are the parameters of operations on one agent.
type AgentParams struct {
	ID       hub.AgentID `json:"id"`
	Role     hub.Role    `json:"role,omitempty"`
	Auditor  bool        `json:"auditor,omitempty"`
	Can      []string    `json:"can,omitempty"` // abilities
	Label    string      `json:"label,omitempty"`
	ExpiresS int64       `json:"expires_s,omitempty"` // seconds from now; 0 for never
}

func (p AgentParams) newKey() (keys.NewKey, error) {
	const century = 100 * 365 * 24 * 3600
	if p.ExpiresS < 0 || p.ExpiresS > century {
		return keys.NewKey{}, hub.Errorf(hub.CodeInvalid, "api.newKey", "expires_s must be between 0 and %d, got %d", century, p.ExpiresS)
	}
	return keys.NewKey{Agent: p.ID, Label: p.Label, Expires: time.Duration(p.ExpiresS) * time.Second}, nil
}

// AgentKey is an agent with a new key. The secret is in it this once.
type AgentKey struct {
	Agent hub.Agent `json:"agent"`
	Key   string    `json:"key"`
	Label string    `json:"label"`
}

func agentAdd(ctx context.Context, s *Services, a hub.Caller, p AgentParams) (AgentKey, error) {
	k, err := p.newKey()
	if err != nil {
		return AgentKey{}, err
	}
	agent, key, secret, err := s.Keys.AddAgent(ctx, a, hub.Agent{ID: p.ID, Role: p.Role, Auditor: p.Auditor, Can: p.Can}, k)
	return AgentKey{Agent: agent, Key: secret, Label: key.Label}, err
}

func agentKey(ctx context.Context, s *Services, a hub.Caller, p AgentParams) (AgentKey, error) {
	k, err := p.newKey()
	if err != nil {
		return AgentKey{}, err
	}
	key, secret, err := s.Keys.MintKey(ctx, a, k)
	return AgentKey{Agent: hub.Agent{ID: key.Agent}, Key: secret, Label: key.Label}, err
}

// Revoked says how many keys were revoked.
type Revoked struct {
	Agent   hub.AgentID `json:"agent"`
	Revoked int         `json:"revoked"`
}

func agentRevoke(ctx context.Context, s *Services, a hub.Caller, p AgentParams) (Revoked, error) {
	var leave []keys.Leaving
	if s.Teams != nil {
		leave = append(leave, s.leaveTeams)
	}
	if s.Files != nil {
		leave = append(leave, s.leaveFiles)
	}
	n, err := s.Keys.RevokeKeys(ctx, a, p.ID, p.Label, leave...)
	return Revoked{p.ID, n}, err
}

// leaveTeams takes an agent without keys out of its teams. It is a keys.Leaving.
func (s *Services) leaveTeams(tx hub.Tx, actor hub.Caller, agent hub.AgentID) (after func(), err error) {
	posted, err := s.Teams.Revoked(tx, actor, agent)
	return func() { s.Mail.Announce(posted...) }, err
}

// leaveFiles frees the files of an agent without keys. It is a keys.Leaving.
func (s *Services) leaveFiles(hub.Tx, hub.Caller, hub.AgentID) (after func(), err error) {
	return s.Files.Hurry, nil
}

// AgentState is an agent after a change.
type AgentState struct {
	Agent hub.Agent `json:"agent"`
}

func agentState(state hub.AgentState) func(context.Context, *Services, hub.Caller, AgentParams) (AgentState, error) {
	return func(ctx context.Context, s *Services, a hub.Caller, p AgentParams) (AgentState, error) {
		agent, err := s.Keys.SetState(ctx, a, p.ID, state)
		return AgentState{agent}, err
	}
}

func agentRole(ctx context.Context, s *Services, a hub.Caller, p AgentParams) (AgentState, error) {
	agent, err := s.Keys.SetRole(ctx, a, p.ID, p.Role)
	return AgentState{agent}, err
}

func agentReset(ctx context.Context, s *Services, a hub.Caller, p AgentParams) (AgentState, error) {
	agent, err := s.Mail.Reset(ctx, a, p.ID)
	return AgentState{agent}, err
}

// HubProcess names the process of a hub.
type HubProcess struct {
	PID int `json:"pid"`
}

func stopHub(_ context.Context, s *Services, _ hub.Caller, _ None) (HubProcess, error) {
	s.Stop()
	return HubProcess{os.Getpid()}, nil
}
