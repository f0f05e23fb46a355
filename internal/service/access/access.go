// Package access identifies callers: agents with their labelled keys, and the
// operator; and, where hubs work together, peers, the holders of project tokens,
// and those who come with an invite. A key is shown once, when it is made; the
// store holds its hash, or, if it must be sent, holds it under the vault's key.
package access

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/parley-agents/parley/hub"
)

// KeyPrefix starts every secret, so that scanners for leaked secrets know one.
const KeyPrefix = "cacp_sk_live_"

// maxKeys is how many keys an agent may have, revoked ones included. Those that
// runs lend do not count.
const maxKeys = 100

// Options changes how an Access works. The zero value works.
type Options struct {
	Clock hub.Clock // default time.Now
	Bus   hub.Bus   // gets a hint after every change; may be nil

	// The rest concerns other hubs.
	Vault *Vault  // without one there are no keys for peers, no invites and no tokens
	Self  hub.AID // this hub
	Home  string  // where others reach it
	Repo  string  // that it stands for
	Open  bool    // every caller may do everything; for loopback only

	// AIDs names agents of this hub to others. An agent without an entry is
	// called after the hub's own domain.
	AIDs map[hub.AgentID]hub.AID

	// Directory vouches for agents that register themselves; may be nil.
	Directory Directory
}

// Access keeps agents and keys in a store.
type Access struct {
	store     hub.Store
	clock     hub.Clock
	bus       hub.Bus
	vault     *Vault
	self      hub.AID
	home      string
	repo      string
	open      bool
	aids      map[hub.AgentID]hub.AID
	directory Directory
	attempts  attempts

	// known remembers keys that were found good, by hash. A change made here
	// clears it before the caller hears of the change, so a revoked key is
	// refused from then on. One process owns a store, so that no other writer changes it.
	mu       sync.RWMutex
	known    map[string]grant
	listings map[hub.AgentID]listing
	scopes   map[hub.AID][]hub.ProjectID
	absent   map[hub.AgentID]bool // names without an agent
	epoch    int                  // counts clearings; an answer from before one is not remembered
}

// A listing is the public part of an agent.
type listing struct {
	agent hub.Agent
	keys  []hub.Key
}

// A grant is the agent and the bounds of an accepted key.
type grant struct {
	actor   hub.Caller
	expires hub.Time
}

// maxKnown bounds the memory of known keys.
const maxKnown = 10_000

// New returns an Access over store. opts may be nil.
func New(store hub.Store, opts *Options) *Access {
	a := &Access{
		store: store, clock: time.Now, known: map[string]grant{}, listings: map[hub.AgentID]listing{},
		scopes: map[hub.AID][]hub.ProjectID{}, absent: map[hub.AgentID]bool{},
	}
	if opts != nil {
		if opts.Clock != nil {
			a.clock = opts.Clock
		}
		a.bus, a.vault, a.self, a.home, a.repo, a.open = opts.Bus, opts.Vault, opts.Self, opts.Home, opts.Repo, opts.Open
		a.aids, a.directory = maps.Clone(opts.AIDs), opts.Directory
	}
	return a
}

// Authenticate returns the caller that holds the secret. It reports CodeUnauthenticated
// for one that is unknown, expired or revoked.
func (a *Access) Authenticate(ctx context.Context, secret string) (hub.Caller, error) {
	const op = "access.Authenticate"
	if secret == "" {
		return hub.Caller{}, hub.Errorf(hub.CodeUnauthenticated, op, "no key was given").
			WithHint("send the agent's key as a bearer token; with the command line set PARLEY_KEY or use --key-file")
	}
	if !strings.HasPrefix(secret, KeyPrefix) {
		return hub.Caller{}, unknownKey(op)
	}
	hash, now := hub.HashSecret(secret), a.clock.Now()
	a.mu.RLock()
	g, ok := a.known[hash]
	epoch := a.epoch
	a.mu.RUnlock()
	if ok && (g.expires.IsZero() || now.Before(g.expires.Time)) {
		return g.actor, nil
	}

	var key hub.Key
	var agent hub.Agent
	err := a.store.View(ctx, func(r hub.Reader) (err error) {
		if key, err = r.KeyByHash(hash); err != nil {
			return err
		}
		agent, err = r.Agent(key.Agent)
		return err
	})
	switch {
	case hub.CodeOf(err) == hub.CodeNotFound:
		return hub.Caller{}, unknownKey(op)
	case err != nil:
		return hub.Caller{}, fmt.Errorf("access: authenticate: %w", err)
	case !key.RevokedAt.IsZero():
		return hub.Caller{}, hub.Errorf(hub.CodeUnauthenticated, op, "the key %q of %s was revoked", key.Label, key.Agent).
			WithHint("ask the operator for a new one: parley agent key %s --label NAME", key.Agent)
	case !key.Live(now):
		return hub.Caller{}, hub.Errorf(hub.CodeUnauthenticated, op, "the key %q of %s expired on %s", key.Label, key.Agent, key.ExpiresAt).
			WithHint("ask the operator for a new one: parley agent key %s --label NAME", key.Agent)
	}
	g = grant{expires: key.ExpiresAt, actor: a.local(agent, key)}
	a.mu.Lock()
	if a.epoch == epoch {
		if len(a.known) >= maxKnown {
			clear(a.known)
		}
		a.known[hash] = g
	}
	a.mu.Unlock()
	return g.actor, nil
}

func unknownKey(op string) error {
	return hub.Errorf(hub.CodeUnauthenticated, op, "nobody on this hub has this key").
		WithHint("check that the key belongs to this hub; the operator makes one with: parley agent add NAME")
}

// Lookup returns an agent and whether it has a key that is good now. It
// reports CodeNotFound when there is no such agent.
func (a *Access) Lookup(ctx context.Context, id hub.AgentID) (hub.Agent, bool, error) {
	a.mu.RLock()
	l, ok := a.listings[id]
	epoch := a.epoch
	a.mu.RUnlock()
	if !ok {
		err := a.store.View(ctx, func(r hub.Reader) (err error) {
			if l.agent, err = r.Agent(id); err != nil {
				return err
			}
			l.keys, err = r.Keys(id)
			return err
		})
		if err != nil {
			return hub.Agent{}, false, fmt.Errorf("access: look up %s: %w", id, err)
		}
		a.mu.Lock()
		if a.epoch == epoch {
			a.listings[id] = l // as many as there are agents
		}
		a.mu.Unlock()
	}
	now := a.clock.Now()
	return l.agent, slices.ContainsFunc(l.keys, func(k hub.Key) bool { return k.Live(now) }), nil
}

// forget makes the next use of every key look it up again.
func (a *Access) forget() {
	a.mu.Lock()
	clear(a.known)
	clear(a.listings)
	clear(a.absent)
	a.epoch++
	a.mu.Unlock()
	if a.bus != nil {
		a.bus.Publish(hub.TopicJournal)
	}
}

// A NewKey says which key to make.
type NewKey struct {
	Agent   hub.AgentID
	Label   string        // default "default"
	Expires time.Duration // from now; zero for never
}

// AddAgent adds an agent with its first key and returns both. Only the
// operator may.
func (a *Access) AddAgent(ctx context.Context, actor hub.Caller, agent hub.Agent, k NewKey) (hub.Agent, hub.Key, string, error) {
	const op = "access.AddAgent"
	if err := operatorOnly(op, actor); err != nil {
		return hub.Agent{}, hub.Key{}, "", err
	}
	if !agent.ID.Valid() {
		return hub.Agent{}, hub.Key{}, "", hub.Errorf(hub.CodeInvalid, op, "%q is not a name for an agent", agent.ID).
			WithHint("use 1 to 64 of a-z, 0-9, dot, dash and underscore, beginning with a letter or digit")
	}
	if agent.ID == hub.Operator || agent.ID == hub.Self {
		return hub.Agent{}, hub.Key{}, "", hub.Errorf(hub.CodeConflict, op, "the name %q is taken by the hub itself", agent.ID)
	}
	if agent.Role == "" {
		agent.Role = hub.RoleExecutor
	}
	if !agent.Role.Known() {
		return hub.Agent{}, hub.Key{}, "", hub.Errorf(hub.CodeInvalid, op, "%q is not a role", agent.Role).
			WithHint("the roles are %s", join(hub.Roles))
	}
	return a.add(ctx, actor, agent, k)
}

func (a *Access) add(ctx context.Context, actor hub.Caller, agent hub.Agent, k NewKey) (hub.Agent, hub.Key, string, error) {
	agent.State, agent.CreatedAt = hub.AgentActive, a.clock.Now()
	k.Agent = agent.ID
	key, secret, err := a.makeKey(k)
	if err != nil {
		return hub.Agent{}, hub.Key{}, "", err
	}
	err = a.store.Update(ctx, hub.SurvivesPowerLoss, func(tx hub.Tx) error {
		if err := tx.PutAgent(agent, ""); err != nil {
			return err
		}
		if _, err := tx.Append(added(actor, agent)); err != nil {
			return err
		}
		return addKey(tx, actor, key)
	})
	if err != nil {
		return hub.Agent{}, hub.Key{}, "", fmt.Errorf("access: add %s: %w", agent.ID, err)
	}
	a.forget()
	return agent, key, secret, nil
}

// added is the journal entry about a new agent.
func added(actor hub.Caller, agent hub.Agent) hub.Entry {
	return entry(agent.CreatedAt, actor, hub.ActionAgentAdded, string(agent.ID), map[string]any{"role": agent.Role, "auditor": agent.Auditor})
}

// MintKey makes another key for an agent. Only the operator may.
func (a *Access) MintKey(ctx context.Context, actor hub.Caller, k NewKey) (hub.Key, string, error) {
	const op = "access.MintKey"
	if err := operatorOnly(op, actor); err != nil {
		return hub.Key{}, "", err
	}
	if k.Agent == hub.Operator {
		return hub.Key{}, "", hub.Errorf(hub.CodeDenied, op, "the operator has one key, in the hub's home").
			WithHint("to change it, stop the hub, remove operator.key and start it again")
	}
	if strings.HasPrefix(k.Label, hub.RunKeyLabel) {
		return hub.Key{}, "", hub.Errorf(hub.CodeInvalid, op, "a label that begins with %q is for the keys of runs", hub.RunKeyLabel)
	}
	key, secret, err := a.makeKey(k)
	if err != nil {
		return hub.Key{}, "", err
	}
	err = a.store.Update(ctx, hub.SurvivesPowerLoss, func(tx hub.Tx) error {
		have, err := tx.Keys(key.Agent)
		if err != nil {
			return err
		}
		if len(slices.DeleteFunc(have, hub.Key.Lent)) >= maxKeys {
			return hub.Errorf(hub.CodeConflict, op, "%s has %d keys already", key.Agent, len(have))
		}
		return addKey(tx, actor, key)
	})
	if err != nil {
		return hub.Key{}, "", fmt.Errorf("access: key for %s: %w", k.Agent, err)
	}
	a.forget()
	return key, secret, nil
}

func (a *Access) makeKey(k NewKey) (hub.Key, string, error) {
	if k.Label == "" {
		k.Label = "default"
	}
	if len(k.Label) > 64 || !utf8.ValidString(k.Label) || strings.ContainsFunc(k.Label, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return hub.Key{}, "", hub.Errorf(hub.CodeInvalid, "access.makeKey", "a key's label is one line of at most 64 bytes that can be shown")
	}
	if k.Expires < 0 {
		return hub.Key{}, "", hub.Errorf(hub.CodeInvalid, "access.makeKey", "a key cannot expire in the past")
	}
	secret := newSecret()
	now := a.clock.Now()
	key := hub.Key{
		ID: hub.KeyID(string(k.Agent) + "/" + k.Label), Agent: k.Agent, Label: k.Label,
		Hash: hub.HashSecret(secret), Hint: secret[len(secret)-4:], CreatedAt: now,
	}
	if k.Expires > 0 {
		key.ExpiresAt = now.Add(k.Expires)
	}
	return key, secret, nil
}

// newSecret returns a secret of 256 random bits.
func newSecret() string {
	var raw [32]byte
	rand.Read(raw[:]) // never fails: the runtime ends the program instead
	return KeyPrefix + base64.RawURLEncoding.EncodeToString(raw[:])
}

func addKey(tx hub.Tx, actor hub.Caller, key hub.Key) error {
	if err := tx.AddKey(key); err != nil {
		return err
	}
	_, err := tx.Append(entry(key.CreatedAt, actor, hub.ActionKeyMinted, string(key.ID), map[string]any{"agent": key.Agent, "label": key.Label, "sha256": key.Digest()}))
	return err
}

// RevokeKeys revokes the keys of an agent, those with the given label or all,
// and returns how many there were. Only the operator may.
func (a *Access) RevokeKeys(ctx context.Context, actor hub.Caller, agent hub.AgentID, label string) (int, error) {
	const op = "access.RevokeKeys"
	if err := operatorOnly(op, actor); err != nil {
		return 0, err
	}
	if agent == hub.Operator {
		return 0, hub.Errorf(hub.CodeDenied, op, "the operator's key cannot be revoked").
			WithHint("stop the hub, remove operator.key from its home and start it again: it makes a new one")
	}
	n, now := 0, a.clock.Now()
	err := a.store.Update(ctx, hub.SurvivesPowerLoss, func(tx hub.Tx) error {
		_, err := tx.Agent(agent)
		if err != nil {
			return err
		}
		if n, err = tx.RevokeKeys(agent, label, now); err != nil {
			return err
		}
		if n == 0 {
			return hub.Errorf(hub.CodeNotFound, op, "%s has no such key that is still good", agent).
				WithHint("parley agent list --json shows the keys")
		}
		_, err = tx.Append(entry(now, actor, hub.ActionKeyRevoked, string(agent), map[string]any{"label": label, "count": n}))
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("access: revoke keys of %s: %w", agent, err)
	}
	a.forget()
	return n, nil
}

// SetState pauses or resumes an agent. A paused one can read but not send.
// Only the operator may.
func (a *Access) SetState(ctx context.Context, actor hub.Caller, agent hub.AgentID, s hub.AgentState) (hub.Agent, error) {
	const op = "access.SetState"
	if err := operatorOnly(op, actor); err != nil {
		return hub.Agent{}, err
	}
	if agent == hub.Operator {
		return hub.Agent{}, hub.Errorf(hub.CodeDenied, op, "the operator cannot be paused")
	}
	action := hub.ActionAgentPaused
	if s == hub.AgentActive {
		action = hub.ActionAgentResumed
	}
	var got hub.Agent
	err := a.store.Update(ctx, hub.SurvivesPowerLoss, func(tx hub.Tx) (err error) {
		if got, err = tx.Agent(agent); err != nil || got.State == s {
			return err
		}
		was := got.State
		got.State = s
		if err := tx.PutAgent(got, was); err != nil {
			return err
		}
		_, err = tx.Append(entry(a.clock.Now(), actor, action, string(agent), nil))
		return err
	})
	if err != nil {
		return hub.Agent{}, fmt.Errorf("access: %s: %w", action, err)
	}
	a.forget()
	return got, nil
}

// A Profile is an agent with its keys.
type Profile struct {
	hub.Agent
	Keys []hub.Key `json:"keys"`
}

// Agents returns every agent, the operator included, by name. Every caller may
// see the agents; only the operator sees keys, without those that runs have
// given back.
func (a *Access) Agents(ctx context.Context, actor hub.Caller) ([]Profile, error) {
	var out []Profile
	now := a.clock.Now()
	err := a.store.View(ctx, func(r hub.Reader) error {
		agents, err := r.Agents()
		if err != nil {
			return err
		}
		for _, g := range agents {
			p := Profile{Agent: g, Keys: []hub.Key{}}
			if actor.IsOperator() {
				if p.Keys, err = r.Keys(g.ID); err != nil {
					return err
				}
				p.Keys = slices.DeleteFunc(p.Keys, func(k hub.Key) bool { return k.Lent() && !k.Live(now) })
			}
			out = append(out, p)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("access: list agents: %w", err)
	}
	return out, nil
}

// EnsureOperator makes sure that the operator exists and holds the given
// secret. With secret "" it makes a new one, revokes the older ones, and
// returns it.
func (a *Access) EnsureOperator(ctx context.Context, secret string) (string, error) {
	self := hub.Caller{ID: hub.Self}
	if secret != "" {
		if actor, err := a.Authenticate(ctx, secret); err == nil && actor.IsOperator() {
			return secret, nil
		} else if err != nil && hub.CodeOf(err) != hub.CodeUnauthenticated {
			return "", err
		}
	}
	label := "operator " + a.clock.Now().String()
	var exists bool
	err := a.store.View(ctx, func(r hub.Reader) error {
		_, err := r.Agent(hub.Operator)
		exists = err == nil
		if hub.CodeOf(err) == hub.CodeNotFound {
			return nil
		}
		return err
	})
	if err != nil {
		return "", fmt.Errorf("access: look for the operator: %w", err)
	}
	if !exists {
		_, _, secret, err = a.add(ctx, self, hub.Agent{ID: hub.Operator, Role: hub.RoleCoordinator, Auditor: true}, NewKey{Label: label})
		return secret, err
	}
	key, secret, err := a.makeKey(NewKey{Agent: hub.Operator, Label: label})
	if err != nil {
		return "", err
	}
	err = a.store.Update(ctx, hub.SurvivesPowerLoss, func(tx hub.Tx) error {
		if _, err := tx.RevokeKeys(hub.Operator, "", key.CreatedAt); err != nil {
			return err
		}
		return addKey(tx, self, key)
	})
	if err != nil {
		return "", fmt.Errorf("access: new key for the operator: %w", err)
	}
	a.forget()
	return secret, nil
}

func operatorOnly(op string, actor hub.Caller) error {
	if actor.IsOperator() {
		return nil
	}
	return hub.Errorf(hub.CodeDenied, op, "only the operator may do this, and you are %s", actor.ID).
		WithHint("run it on a terminal without PARLEY_KEY, or with --as-operator")
}

func entry(at hub.Time, actor hub.Caller, action hub.Action, subject string, facts map[string]any) hub.Entry {
	e := hub.Entry{At: at, Actor: actor.ID, Action: action, Subject: subject, Outcome: hub.OutcomeOK}
	if facts != nil {
		e.Facts, _ = json.Marshal(facts) // strings, numbers and bools: cannot fail, keys are sorted
	}
	return e
}

func join[S ~string](list []S) string {
	var b strings.Builder
	for i, s := range list {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(string(s))
	}
	return b.String()
}
