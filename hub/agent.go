package hub

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/parley-agents/parley/hub/actions"
	"github.com/parley-agents/parley/hub/coord"
)

// An AgentID is the name of an agent on this hub.
type AgentID string

// Names that no agent can take.
const (
	Operator AgentID = "operator" // the person who runs the hub
	Self     AgentID = "hub"      // the hub, when it writes messages of its own
	Everyone AgentID = "*"        // all active agents, as the only recipient
)

// Valid reports whether id has the form of an agent's name:
// [a-z0-9][a-z0-9._-]{0,63}.
func (id AgentID) Valid() bool {
	if len(id) == 0 || len(id) > 64 {
		return false
	}
	for i := range len(id) {
		c := id[i]
		switch {
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9':
		case i > 0 && (c == '.' || c == '_' || c == '-'):
		default:
			return false
		}
	}
	return true
}

// A Role is the kind of work that an agent does. Only RoleCoordinator changes
// what an agent may do.
type Role string

// The roles.
const (
	RoleCoordinator Role = "coordinator"
	RoleResearcher  Role = "researcher"
	RoleExecutor    Role = "executor"
	RoleReviewer    Role = "reviewer"
	RoleIntegrator  Role = "integrator"
)

// Roles lists every role.
var Roles = []Role{RoleCoordinator, RoleResearcher, RoleExecutor, RoleReviewer, RoleIntegrator}

// Known reports whether r is one of Roles.
func (r Role) Known() bool { return slices.Contains(Roles, r) }

// An AgentState says whether an agent may send.
type AgentState string

// The states of an agent.
const (
	AgentActive AgentState = "active"
	AgentPaused AgentState = "paused" // may read and be written to, may not send
)

// An Agent is a program that can send and receive messages on this hub.
type Agent struct {
	ID        AgentID    `json:"id"`
	Role      Role       `json:"role"`
	Auditor   bool       `json:"auditor,omitempty"` // may read what others write, but for what Caller.ReadsAsAuditor names
	State     AgentState `json:"state"`
	CreatedAt Time       `json:"created_at,omitzero"`
	Can       []string   `json:"can,omitempty"` // abilities that the operator names, for agents that choose a recipient
}

// A KeyID names a key; it is not secret.
type KeyID string

// A Key identifies its agent as the caller of a request. The secret itself is
// never stored.
type Key struct {
	ID        KeyID   `json:"id"`
	Agent     AgentID `json:"agent"`
	Label     string  `json:"label"`
	Hash      string  `json:"-"`    // hex SHA-256 of the secret
	Hint      string  `json:"hint"` // the secret's last four characters
	CreatedAt Time    `json:"created_at,omitzero"`
	ExpiresAt Time    `json:"expires_at,omitzero"`
	RevokedAt Time    `json:"revoked_at,omitzero"`
}

// Live reports whether the key is accepted at the given time: neither revoked nor
// expired.
func (k Key) Live(now Time) bool {
	return k.RevokedAt.IsZero() && (k.ExpiresAt.IsZero() || now.Before(k.ExpiresAt.Time))
}

// Lent reports whether the key is lent to an agent for the time of a run.
func (k Key) Lent() bool { return strings.HasPrefix(k.Label, RunKeyLabel) }

// Window reports whether the key is one of a window: a program of a person that shows the
// sessions of a kept agent. It has no rights of the agent itself.
func (k Key) Window() bool { return strings.HasPrefix(k.Label, WindowKeyLabel) }

// WindowKeyLabel begins the label of a window's key. The rest is the name of the window.
const WindowKeyLabel = "window "

// HomeKeyLabel begins the label of the operator's key in the hub's home. The label of
// a key of a further operator is that person's name.
const HomeKeyLabel = "operator "

// HashSecret returns the hash that is stored in place of a key's secret. A secret
// has 256 random bits and cannot be guessed, so that a plain hash without salt is
// safe and can be looked up.
func HashSecret(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}

// A CallerKind is the kind of party behind a request. Operations list the kinds
// that may call them.
type CallerKind string

// The kinds of callers.
const (
	CallerOperator   CallerKind = "operator"      // the person who runs the hub
	CallerAgent      CallerKind = "agent"         // an agent of this hub, with its own key
	CallerRun        CallerKind = "run"           // an agent of this hub, with a key that a run lent it
	CallerPeer       CallerKind = "peer"          // another hub
	CallerLegacyPeer CallerKind = "legacy peer"   // another hub that cannot send a key and is known by its address
	CallerToken      CallerKind = "project token" // the holder of a project token
	CallerAnyone     CallerKind = "anyone"        // an unknown party on a hub that needs no keys; it acts for the hub
	CallerGuest      CallerKind = "guest"         // a party without a valid key
	CallerWindow     CallerKind = "window"        // a person who operates one kept agent, through a program that shows it
	CallerViewer     CallerKind = "viewer"        // a person whom the operator invited to the hub's page; reads as an auditor does
)

// A Caller is the authenticated party behind one request. A surface identifies
// it once; services check it against the thing touched; input never changes it.
type Caller struct {
	Kind    CallerKind // "" for the hub's own work
	ID      AgentID    // of a caller from elsewhere a stand-in for the journal, which no agent can have as its name
	AID     coord.AID  // name across hubs; "" for a caller that has none
	Key     KeyID      // the key of the request; "" if the caller needs none
	Role    Role
	Auditor bool
	Paused  bool
	Session string     // the caller's session, from its runtime; may be empty
	Source  netip.Addr // address that the request came from; zero for a call within the process
	Access  coord.Access
	Native  bool          // a peer that runs this software
	Scope   []coord.Grant // bounds of a project token or of a peer that was invited; nil for callers without bounds
	Token   string        // the id of the project token; "" for a caller without one
}

// Permits reports whether the bounds of c leave it a permission in a project, or in
// some project if that is "".
func (c Caller) Permits(project coord.ProjectID, need coord.Permission) bool {
	return c.Scope == nil || slices.ContainsFunc(c.Scope, func(g coord.Grant) bool {
		return (project == "" || g.Project == project) && g.Permits(need)
	})
}

// Local reports whether c is the operator or an agent of this hub, and showed
// its own key.
func (c Caller) Local() bool {
	return c.Kind == CallerOperator || c.Kind == CallerAgent || c.Kind == CallerRun
}

// IsOperator reports whether c is the person who runs the hub. A project token
// made for the operator does not carry the operator's authority.
func (c Caller) IsOperator() bool { return c.ID == Operator && c.Scope == nil }

// Person returns the name of a further operator; "" for the holder of the key in the
// hub's home, and for every other caller.
func (c Caller) Person() string {
	name, ok := strings.CutPrefix(string(c.Key), string(Operator)+"/")
	if !ok || strings.HasPrefix(name, HomeKeyLabel) || !c.IsOperator() {
		return ""
	}
	return name
}

// OperatorOnly reports CodeDenied unless c is the operator.
func (c Caller) OperatorOnly(op string) error {
	if c.IsOperator() {
		return nil
	}
	return Errorf(CodeDenied, op, "only the operator can do this; you are %s", c.ID).
		WithHint("{as_operator}")
}

// outsidePrefix begins the IDs of callers from other hubs. No agent's name can
// begin so.
const outsidePrefix = "peer:"

// OutsideCaller returns a caller from another hub.
func OutsideCaller(kind CallerKind, aid coord.AID, a coord.Access) Caller {
	return Caller{Kind: kind, ID: AgentID(outsidePrefix + aid), AID: aid, Access: a}
}

// viewerPrefix begins the IDs of viewers. No agent's name can begin so.
const viewerPrefix = "viewer:"

// ViewerCaller returns a viewer of a name as a caller.
func ViewerCaller(name string) Caller {
	return Caller{Kind: CallerViewer, ID: AgentID(viewerPrefix + name), Auditor: true, Paused: true, Access: coord.AccessFull}
}

// windowPrefix begins the IDs of windows. No agent's name can begin so.
const windowPrefix = "window:"

// WindowCaller returns the holder of a window's key as a caller.
func WindowCaller(key Key) Caller {
	return Caller{Kind: CallerWindow, ID: AgentID(windowPrefix + key.Agent), Key: key.ID, Access: coord.AccessFull}
}

// Window returns the kept agent that a window shows and the name of the window. Both are empty
// for other callers.
func (c Caller) Window() (agent AgentID, name string) {
	if c.Kind != CallerWindow {
		return "", ""
	}
	agent = AgentID(strings.TrimPrefix(string(c.ID), windowPrefix))
	return agent, strings.TrimPrefix(string(c.Key), string(agent)+"/"+WindowKeyLabel)
}

// OperatorOf reports CodeDenied unless c is the operator or a window of the agent.
func (c Caller) OperatorOf(op string, agent AgentID) error {
	shown, name := c.Window()
	switch {
	case shown == "":
		return c.OperatorOnly(op)
	case shown != agent:
		return Errorf(CodeDenied, op, "the key of the window %q is for %s, not for %s", name, shown, agent)
	}
	return nil
}

// Outside reports whether c acts for no agent of this hub.
func (c Caller) Outside() bool { return strings.HasPrefix(string(c.ID), outsidePrefix) }

// Entry returns the journal entry about a successful action of c. The facts are a map, or a
// struct, of strings, numbers and bools, or lists of them; nil if there are none.
func (c Caller) Entry(at Time, action actions.Action, subject string, facts any) Entry {
	e := Entry{At: at, Actor: c.ID, Action: action, Subject: subject, Outcome: OutcomeOK}
	raw, _ := json.Marshal(facts) // cannot fail; the keys of a map are sorted
	if string(raw) != "null" {
		e.Facts = raw
	}
	e.Facts = c.Sign(e.Facts)
	return e
}

// Sign adds the name of a further operator, or of a window, to the facts of a journal entry.
// The facts of other callers stay as they are.
func (c Caller) Sign(facts json.RawMessage) json.RawMessage {
	member, name := "operator", c.Person()
	if agent, window := c.Window(); agent != "" {
		member, name = "window", window
	}
	if name == "" {
		return facts
	}
	var members map[string]json.RawMessage
	if json.Unmarshal(facts, &members) != nil || members == nil {
		members = map[string]json.RawMessage{}
	}
	members[member] = json.RawMessage(strconv.Quote(name)) // a name has letters, digits and . - _ alone
	signed, _ := json.Marshal(members)                     // cannot fail; keys are sorted
	return signed
}

// Coordinates reports whether c has a coordinator's authority.
func (c Caller) Coordinates() bool { return c.IsOperator() || c.Role == RoleCoordinator }

// Audits reports whether c may read messages that it neither sent nor received.
func (c Caller) Audits() bool { return c.IsOperator() || c.Auditor }

// ReadsAsAuditor reports whether c reads the work of others as an auditor, and so neither
// messages of high sensitivity nor restricted packages: a viewer, or an agent that is an
// auditor. The operator and the hub itself read everything.
func (c Caller) ReadsAsAuditor() bool { return c.Auditor && c.Kind != "" && !c.IsOperator() }
