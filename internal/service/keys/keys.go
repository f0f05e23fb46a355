// Package keys keeps the agents of a hub and their labelled keys. A key is shown
// once, when it is made; the store holds its hash. The operator is an agent whose
// one key is in the hub's home, and a run borrows a key for as long as it takes.
package keys

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
	"github.com/parley-agents/parley/hub/coord"
	"github.com/parley-agents/parley/internal/ground/text/pattern"
	"github.com/parley-agents/parley/internal/ground/text/plaintext"
	"github.com/parley-agents/parley/internal/ground/vault"
)

// maxKeys is the number of keys that an agent may have, revoked keys included and
// keys of runs excluded.
const maxKeys = 100

// Options changes how a Service works. The zero value works.
type Options struct {
	Clock hub.Clock // default time.Now
	Bus   hub.Bus   // gets a hint after every change; may be nil
	Self  coord.AID // of this hub, from which the AIDs of its agents are made

	Shared bool // other processes change the store, too: no right is cached, and the operator's key is theirs
}

// A Service keeps agents and keys in a store.
//
// It caches the keys and agents that it read. A change clears the caches before
// the method that made it returns, so that a revoked key is refused from then on,
// and increments epoch: a value that was read under an older epoch is not cached.
// Where other processes change the store, no key is cached: one that another process
// revoked is refused by all. Agents are cached for sharedAge then, for Keyed alone.
type Service struct {
	store  hub.Store
	clock  hub.Clock
	bus    hub.Bus
	self   coord.AID
	shared bool

	mu     sync.RWMutex // guards the rest
	keys   map[string]cachedKey
	agents map[hub.AgentID]cachedAgent
	byAID  map[coord.AID]hub.AgentID // agents whose names have a dot or an underscore; nil if they were not read
	epoch  int
	seen   map[hub.AgentID]*atomic.Int64 // milliseconds of the last call since the hub started; one for each agent that called
}

// A Leaving removes an agent without keys from where it takes part, inside the transaction
// in which the agent loses its last key. The function that it returns is called after the
// commit.
type Leaving func(tx hub.Tx, actor hub.Caller, agent hub.AgentID) (after func(), err error)

// A cachedKey is the caller that a key stands for.
type cachedKey struct {
	caller  hub.Caller
	expires hub.Time
	seen    *atomic.Int64 // of the agent
}

// A cachedAgent is an agent with its keys, or the fact that no agent has the name.
type cachedAgent struct {
	agent   hub.Agent
	keys    []hub.Key
	missing error
	until   hub.Time // of the cached value, on a shared store
}

// sharedAge is how long Keyed remembers an agent of a shared store.
const sharedAge = time.Second

// maxCached bounds each cache; a full cache is cleared.
const maxCached = 10_000

// New returns a Service over store. opts may be nil.
func New(store hub.Store, opts *Options) *Service {
	s := &Service{store: store, clock: time.Now, keys: map[string]cachedKey{}, agents: map[hub.AgentID]cachedAgent{}, seen: map[hub.AgentID]*atomic.Int64{}}
	if opts != nil {
		if opts.Clock != nil {
			s.clock = opts.Clock
		}
		s.bus = opts.Bus
		s.self = opts.Self
		s.shared = opts.Shared
	}
	return s
}

// remember caches a value that was read under an epoch.
func remember[K comparable, V any](s *Service, cache map[K]V, key K, value V, epoch int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.epoch != epoch {
		return
	}
	if len(cache) >= maxCached {
		clear(cache)
	}
	cache[key] = value
}

// Authenticate returns the caller that holds the secret. It reports
// CodeUnauthenticated for a secret that is unknown, expired or revoked.
func (s *Service) Authenticate(ctx context.Context, secret string) (hub.Caller, error) {
	const op = "keys.Authenticate"
	if secret == "" {
		return hub.Caller{}, hub.Errorf(hub.CodeUnauthenticated, op, "no key was given").
			WithHint("send the agent's key as a bearer token; with the command line set PARLEY_KEY or use --key-file")
	}
	if !strings.HasPrefix(secret, vault.KeyPrefix) {
		return hub.Caller{}, unknownKey(op)
	}
	return s.ByHash(ctx, hub.HashSecret(secret))
}

// ByHash returns the caller that holds the secret with a hash. It reports
// CodeUnauthenticated as Authenticate does.
func (s *Service) ByHash(ctx context.Context, hash string) (hub.Caller, error) {
	const op = "keys.Authenticate"
	now := s.clock.Now()
	s.mu.RLock()
	known, ok := s.keys[hash]
	epoch := s.epoch
	s.mu.RUnlock()
	if ok && (known.expires.IsZero() || now.Before(known.expires.Time)) {
		known.seen.Store(now.UnixMilli())
		return known.caller, nil
	}

	var key hub.Key
	var agent hub.Agent
	err := s.store.View(ctx, func(r hub.Reader) (err error) {
		if key, err = r.KeyByHash(hash); err != nil {
			return err
		}
		agent, err = r.Agent(key.Agent)
		return err
	})
	if hub.CodeOf(err) == hub.CodeNotFound {
		return hub.Caller{}, unknownKey(op)
	}
	if err != nil {
		return hub.Caller{}, fmt.Errorf("keys: authenticate: %w", err)
	}
	if !key.Live(now) {
		refusal := hub.Errorf(hub.CodeUnauthenticated, op, "the key %q of %s expired on %s", key.Label, key.Agent, key.ExpiresAt)
		if !key.RevokedAt.IsZero() {
			refusal = hub.Errorf(hub.CodeUnauthenticated, op, "the key %q of %s was revoked", key.Label, key.Agent)
		}
		if key.Window() {
			return hub.Caller{}, refusal.WithHint("ask the operator for a new one: parley agent window %s", key.Agent)
		}
		return hub.Caller{}, refusal.WithHint("ask the operator for a new one: parley agent key %s --label NAME", key.Agent)
	}

	// Hubs that share a store do not see the changes of each other, so they cache no keys.
	caller := s.caller(agent, key)
	seen := s.noteCall(agent.ID, now)
	if !s.shared {
		remember(s, s.keys, hash, cachedKey{caller, key.ExpiresAt, seen}, epoch)
	}
	return caller, nil
}

// noteCall records the time of a call of an agent.
func (s *Service) noteCall(agent hub.AgentID, now hub.Time) *atomic.Int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seen[agent] == nil {
		s.seen[agent] = new(atomic.Int64)
	}
	s.seen[agent].Store(now.UnixMilli())
	return s.seen[agent]
}

func unknownKey(op string) error {
	return hub.Errorf(hub.CodeUnauthenticated, op, "no agent of this hub has this key").
		WithHint("check that the key belongs to this hub; the operator makes one with: parley agent add NAME")
}

// caller returns the holder of a key as a caller.
func (s *Service) caller(agent hub.Agent, key hub.Key) hub.Caller {
	if key.Window() {
		return hub.WindowCaller(key)
	}
	kind := hub.CallerAgent
	switch {
	case agent.ID == hub.Operator:
		kind = hub.CallerOperator
	case key.Lent():
		kind = hub.CallerRun
	}
	return hub.Caller{
		Kind: kind, ID: agent.ID, AID: s.AID(agent.ID), Key: key.ID, Role: agent.Role, Auditor: agent.Auditor,
		Paused: agent.State == hub.AgentPaused, Access: coord.AccessFull,
	}
}

// Lookup returns an agent and whether it has a key that is valid now. It reports
// CodeNotFound for an unknown name.
func (s *Service) Lookup(ctx context.Context, id hub.AgentID) (hub.Agent, bool, error) {
	known, err := s.lookup(ctx, id, false)
	return known.agent, s.keyed(known), err
}

// Keyed reports whether an agent has a key that is valid now. On a shared store the
// answer may be sharedAge old: it tells of a delivery, and gives no right. It reports
// CodeNotFound for an unknown name.
func (s *Service) Keyed(ctx context.Context, id hub.AgentID) (bool, error) {
	known, err := s.lookup(ctx, id, true)
	return s.keyed(known), err
}

// lookup reads an agent, or takes it from the cache. aged allows a cached value of a
// shared store; that an agent is missing there is never cached.
func (s *Service) lookup(ctx context.Context, id hub.AgentID, aged bool) (cachedAgent, error) {
	s.mu.RLock()
	known, ok := s.agents[id]
	epoch := s.epoch
	s.mu.RUnlock()
	now := s.clock.Now()
	isFresh := !s.shared || (aged && now.Before(known.until.Time))
	if ok && isFresh {
		return known, known.missing
	}
	err := s.store.View(ctx, func(r hub.Reader) (err error) {
		known, err = read(r, id)
		return err
	})
	if err != nil {
		return cachedAgent{}, fmt.Errorf("keys: look up %s: %w", id, err)
	}
	if known.until = now.Add(sharedAge); !s.shared || known.missing == nil {
		remember(s, s.agents, id, known, epoch)
	}
	return known, known.missing
}

// HasKey reports whether an agent has a key that is valid now. It reads with r, for
// callers inside a transaction: a second one there could wait for a connection that
// the first one holds. The result is not remembered, because the snapshot of r may be
// older than the last change of a key.
func (s *Service) HasKey(r hub.Reader, id hub.AgentID) (bool, error) {
	s.mu.RLock()
	known, ok := s.agents[id]
	s.mu.RUnlock()
	if !ok || s.shared {
		var err error
		if known, err = read(r, id); err != nil {
			return false, fmt.Errorf("keys: look up %s: %w", id, err)
		}
	}
	return s.keyed(known), known.missing
}

// read reads an agent and its keys. That the agent is unknown is a part of the result.
func read(r hub.Reader, id hub.AgentID) (known cachedAgent, err error) {
	if known.agent, err = r.Agent(id); hub.CodeOf(err) == hub.CodeNotFound {
		return cachedAgent{missing: fmt.Errorf("keys: look up %s: %w", id, err)}, nil
	}
	if err == nil {
		known.keys, err = r.Keys(id)
	}
	return known, err
}

func (s *Service) keyed(known cachedAgent) bool {
	now := s.clock.Now()
	return hasLive(known.keys, now)
}

// hasLive reports whether one of an agent's own keys is valid. Those of windows are not its own.
func hasLive(keys []hub.Key, now hub.Time) bool {
	return slices.ContainsFunc(keys, func(k hub.Key) bool { return k.Live(now) && !k.Window() })
}

// update runs a transaction that changes agents or keys. what names the attempt in
// an error.
func (s *Service) update(ctx context.Context, what string, change func(hub.Tx) error) error {
	if err := s.store.Update(ctx, hub.SurvivesPowerLoss, change); err != nil {
		return fmt.Errorf("keys: %s: %w", what, err)
	}
	s.Changed()
	return nil
}

// Changed clears the caches and publishes a hint. Other services call it after a
// transaction with Lend, Withdraw or Enlist committed.
func (s *Service) Changed() {
	s.mu.Lock()
	clear(s.keys)
	clear(s.agents)
	s.byAID = nil
	s.epoch++
	s.mu.Unlock()
	if s.bus != nil {
		s.bus.Publish(hub.TopicJournal)
	}
}

// A NewKey describes a key to make.
type NewKey struct {
	Agent   hub.AgentID
	Label   string        // default "default"
	Expires time.Duration // from now; zero for never
}

// maxAbilities is the most abilities of an agent.
const maxAbilities = 16

// ability matches an ability: one word, which other agents read. A slash lets it be a
// topic, such as schema/users.
var ability = pattern.New(`^[A-Za-z0-9.+#_/-]{1,32}$`)

// AddAgent adds an agent with its first key and returns both. Only the
// operator may.
func (s *Service) AddAgent(ctx context.Context, actor hub.Caller, agent hub.Agent, k NewKey) (hub.Agent, hub.Key, string, error) {
	const op = "keys.AddAgent"
	if err := actor.OperatorOnly(op); err != nil {
		return hub.Agent{}, hub.Key{}, "", err
	}
	if err := complete(op, &agent); err != nil {
		return hub.Agent{}, hub.Key{}, "", err
	}

	k.Agent = agent.ID
	if err := notOfWindow(op, k); err != nil {
		return hub.Agent{}, hub.Key{}, "", err
	}
	key, secret, err := s.makeKey(k)
	if err != nil {
		return hub.Agent{}, hub.Key{}, "", err
	}
	agent.State, agent.CreatedAt = hub.AgentActive, key.CreatedAt

	// An agent id belongs to one agent or one peer.
	err = s.update(ctx, "add "+string(agent.ID), func(tx hub.Tx) error {
		switch p, err := tx.Peer(s.AID(agent.ID)); {
		case err != nil && hub.CodeOf(err) != hub.CodeNotFound:
			return err
		case err == nil && p.State != hub.PeerRemoved:
			return hub.Errorf(hub.CodeConflict, op, "peer %s already has the agent id of %s", p.AID, agent.ID).WithHint("choose another name")
		}
		if err := putAgent(tx, actor, agent); err != nil {
			return err
		}
		return addKey(tx, actor, key)
	})
	if err != nil {
		return hub.Agent{}, hub.Key{}, "", err
	}
	return agent, key, secret, nil
}

// complete checks a new agent and gives it the role of an executor if it has none.
func complete(op string, agent *hub.Agent) error {
	if !agent.ID.Valid() {
		return hub.Errorf(hub.CodeInvalid, op, "%q is not a valid agent name", agent.ID).
			WithHint("use 1 to 64 characters from a-z, 0-9, dot, dash and underscore, starting with a letter or digit")
	}
	if agent.ID == hub.Operator || agent.ID == hub.Self || agent.ID == hub.ReviewerOtherVendor {
		return hub.Errorf(hub.CodeConflict, op, "the name %q is reserved for the hub", agent.ID)
	}
	if agent.Role == "" {
		agent.Role = hub.RoleExecutor
	}
	if err := knownRole(op, agent.Role); err != nil {
		return err
	}
	if i := slices.IndexFunc(agent.Can, func(a string) bool { return !ability().MatchString(a) }); i >= 0 || len(agent.Can) > maxAbilities {
		return hub.Errorf(hub.CodeInvalid, op, "can: an agent can have at most %d abilities, each of 1 to 32 letters, digits and . + # _ / -", maxAbilities)
	}
	return nil
}

// knownRole reports CodeInvalid for a role that does not exist.
func knownRole(op string, r hub.Role) error {
	if r.Known() {
		return nil
	}
	roles := strings.Trim(fmt.Sprint(hub.Roles), "[]")
	return hub.Errorf(hub.CodeInvalid, op, "unknown role %q", r).WithHint("the roles are %s", strings.ReplaceAll(roles, " ", ", "))
}

// putAgent stores a new agent with its journal entry. It reports CodeConflict if
// the name is taken.
func putAgent(tx hub.Tx, actor hub.Caller, agent hub.Agent) error {
	if err := tx.PutAgent(agent, ""); err != nil {
		return err
	}
	facts := map[string]any{"role": agent.Role, "auditor": agent.Auditor}
	if len(agent.Can) > 0 {
		facts["can"] = agent.Can
	}
	_, err := tx.Append(actor.Entry(agent.CreatedAt, actions.AgentAdded, string(agent.ID), facts))
	return err
}

// MintKey makes another key for an agent. Only the operator may.
func (s *Service) MintKey(ctx context.Context, actor hub.Caller, k NewKey) (hub.Key, string, error) {
	const op = "keys.MintKey"
	if err := actor.OperatorOnly(op); err != nil {
		return hub.Key{}, "", err
	}
	if k.Agent == hub.Operator {
		return hub.Key{}, "", hub.Errorf(hub.CodeDenied, op, "the operator has one key, in the hub's home").
			WithHint("to change it, stop the hub, remove operator.key and start it again")
	}
	if strings.HasPrefix(k.Label, hub.RunKeyLabel) {
		return hub.Key{}, "", hub.Errorf(hub.CodeInvalid, op, "labels that start with %q are reserved for run keys", hub.RunKeyLabel)
	}
	if err := notOfWindow(op, k); err != nil {
		return hub.Key{}, "", err
	}
	return s.mint(ctx, actor, k)
}

// mint makes another key for an agent.
func (s *Service) mint(ctx context.Context, actor hub.Caller, k NewKey) (hub.Key, string, error) {
	const op = "keys.MintKey"

	key, secret, err := s.makeKey(k)
	if err != nil {
		return hub.Key{}, "", err
	}

	err = s.update(ctx, "key for "+string(k.Agent), func(tx hub.Tx) error {
		have, err := tx.Keys(key.Agent)
		if err != nil {
			return err
		}
		// The keys that are lent to runs do not count.
		if len(slices.DeleteFunc(have, hub.Key.Lent)) >= maxKeys {
			return hub.Errorf(hub.CodeConflict, op, "%s already has %d keys", key.Agent, len(have))
		}
		return addKey(tx, actor, key)
	})
	if err != nil {
		return hub.Key{}, "", err
	}
	return key, secret, nil
}

func (s *Service) makeKey(k NewKey) (hub.Key, string, error) {
	if k.Label == "" {
		k.Label = "default"
	}
	if len(k.Label) > 64 || !utf8.ValidString(k.Label) || strings.ContainsFunc(k.Label, func(r rune) bool { return !plaintext.Visible(r) }) {
		return hub.Key{}, "", hub.Errorf(hub.CodeInvalid, "keys.makeKey", "a key's label must be one line of at most 64 bytes without hidden characters")
	}
	if k.Expires < 0 {
		return hub.Key{}, "", hub.Errorf(hub.CodeInvalid, "keys.makeKey", "a key cannot expire in the past")
	}
	secret := vault.NewSecret()
	switch {
	case k.Agent == hub.Operator:
		secret = vault.NewOperatorSecret()
	case strings.HasPrefix(k.Label, hub.WindowKeyLabel):
		secret = vault.NewWindowSecret()
	}
	now := s.clock.Now()
	key := hub.Key{
		ID: hub.KeyID(string(k.Agent) + "/" + k.Label), Agent: k.Agent, Label: k.Label,
		Hash: hub.HashSecret(secret), Hint: secret[len(secret)-4:], CreatedAt: now,
	}
	if k.Expires > 0 {
		key.ExpiresAt = now.Add(k.Expires)
	}
	return key, secret, nil
}

func addKey(tx hub.Tx, actor hub.Caller, key hub.Key) error {
	if err := tx.AddKey(key); err != nil {
		return err
	}
	_, err := tx.Append(actor.Entry(key.CreatedAt, actions.KeyMinted, string(key.ID), map[string]any{"agent": key.Agent, "label": key.Label, "sha256": key.Digest()}))
	return err
}

// RevokeKeys revokes the keys of an agent, those with the given label or all,
// and returns their number. With its last key the project tokens of the agent end, and it
// leaves by each of the functions in leave. Only the operator may.
func (s *Service) RevokeKeys(ctx context.Context, actor hub.Caller, agent hub.AgentID, label string, leave ...Leaving) (int, error) {
	const op = "keys.RevokeKeys"
	if err := actor.OperatorOnly(op); err != nil {
		return 0, err
	}
	if agent == hub.Operator {
		return 0, hub.Errorf(hub.CodeDenied, op, "the operator's key cannot be revoked").
			WithHint("to replace it, stop the hub, remove operator.key from its home and start the hub again")
	}

	n := 0
	now := s.clock.Now()
	var done []func()
	err := s.update(ctx, "revoke keys of "+string(agent), func(tx hub.Tx) error {
		done = nil
		_, err := tx.Agent(agent)
		if err != nil {
			return err
		}
		if n, err = revoke(tx, actor, agent, label, now); err == nil && n == 0 {
			return hub.Errorf(hub.CodeNotFound, op, "%s has no matching valid key", agent).
				WithHint("parley agent list --json shows the keys")
		}
		if err != nil {
			return err
		}
		keys, err := tx.Keys(agent)
		if err != nil || hasLive(keys, now) {
			return err
		}

		// The agent has no valid key any more.
		if err := hub.RevokeTokens(tx, actor, s.AID(agent), now); err != nil {
			return err
		}
		for _, l := range leave {
			after, err := l(tx, actor, agent)
			if err != nil {
				return err
			}
			done = append(done, after)
		}
		return nil
	})
	if err != nil {
		return n, err
	}
	for _, after := range done {
		after()
	}
	return n, nil
}

// revoke revokes the keys of an agent with a label, or all of them, and returns
// their number.
func revoke(tx hub.Tx, actor hub.Caller, agent hub.AgentID, label string, now hub.Time) (int, error) {
	n, err := tx.RevokeKeys(agent, label, now)
	if err != nil || n == 0 {
		return 0, err
	}
	_, err = tx.Append(actor.Entry(now, actions.KeyRevoked, string(agent), map[string]any{"label": label, "count": n}))
	return n, err
}

// SetState pauses or resumes an agent. A paused one can read but not send, and its
// project tokens end. Only the operator may.
func (s *Service) SetState(ctx context.Context, actor hub.Caller, agent hub.AgentID, state hub.AgentState) (hub.Agent, error) {
	const op = "keys.SetState"
	if err := actor.OperatorOnly(op); err != nil {
		return hub.Agent{}, err
	}
	if agent == hub.Operator {
		return hub.Agent{}, hub.Errorf(hub.CodeDenied, op, "the operator cannot be paused")
	}

	action := actions.AgentPaused
	if state == hub.AgentActive {
		action = actions.AgentResumed
	}

	var got hub.Agent
	err := s.update(ctx, string(action), func(tx hub.Tx) (err error) {
		if got, err = tx.Agent(agent); err != nil || got.State == state {
			return err
		}
		was := got.State
		got.State = state
		if err := tx.PutAgent(got, was); err != nil {
			return err
		}

		// A pause ends the project tokens of the agent; resuming it does not bring them back.
		now := s.clock.Now()
		if _, err = tx.Append(actor.Entry(now, action, string(agent), nil)); err != nil || state != hub.AgentPaused {
			return err
		}
		return hub.RevokeTokens(tx, actor, s.AID(agent), now)
	})
	return got, err
}

// SetRole changes the role of an agent. Only the operator may.
func (s *Service) SetRole(ctx context.Context, actor hub.Caller, agent hub.AgentID, role hub.Role) (hub.Agent, error) {
	const op = "keys.SetRole"
	if err := actor.OperatorOnly(op); err != nil {
		return hub.Agent{}, err
	}
	if agent == hub.Operator {
		return hub.Agent{}, hub.Errorf(hub.CodeDenied, op, "the operator's role cannot be changed")
	}
	if err := knownRole(op, role); err != nil {
		return hub.Agent{}, err
	}
	var got hub.Agent
	err := s.update(ctx, "role of "+string(agent), func(tx hub.Tx) (err error) {
		if got, err = tx.Agent(agent); err != nil || got.Role == role {
			return err
		}
		was := got.Role
		got.Role = role
		if err := tx.PutAgent(got, got.State); err != nil {
			return err
		}
		_, err = tx.Append(actor.Entry(s.clock.Now(), actions.AgentRole, string(agent), map[string]any{"role": role, "was": was}))
		return err
	})
	return got, err
}

// Seen returns the time of an agent's last call since the hub started, the zero time
// if there was none.
func (s *Service) Seen(agent hub.AgentID) hub.Time {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if at := s.seen[agent]; at != nil {
		return hub.AtMilli(at.Load())
	}
	return hub.Time{}
}

// A Profile is an agent with its keys.
type Profile struct {
	hub.Agent
	Keys []hub.Key `json:"keys"`
}

// Agents returns every agent, the operator included, by name. Every caller
// may list them; only the operator sees keys, without those that runs have given
// back.
func (s *Service) Agents(ctx context.Context, actor hub.Caller) ([]Profile, error) {
	var out []Profile
	now := s.clock.Now()
	err := s.store.View(ctx, func(r hub.Reader) error {
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
		return nil, fmt.Errorf("keys: list agents: %w", err)
	}
	return out, nil
}

// EnsureOperator returns the secret if it is that of the operator's key. Otherwise
// it makes the operator a new key, revokes the older ones, and returns the new
// secret. It adds the operator to a hub that has none.
//
// On a store that other hubs use it revokes nothing: it reports CodeConflict if they
// have another key. Hubs that start together with one secret make it the key.
func (s *Service) EnsureOperator(ctx context.Context, secret string) (string, error) {
	const op = "keys.EnsureOperator"
	if secret != "" {
		caller, err := s.Authenticate(ctx, secret)
		if err == nil && caller.IsOperator() {
			return secret, nil
		}
		if err != nil && hub.CodeOf(err) != hub.CodeUnauthenticated {
			return "", err
		}
	}

	self := hub.Caller{ID: hub.Self}
	key, made, err := s.makeKey(NewKey{Agent: hub.Operator, Label: hub.HomeKeyLabel + s.clock.Now().String()})
	if err != nil {
		return "", err
	}

	// Hubs that share a store start with one secret, which becomes the key.
	if s.shared && vault.IsOperatorSecret(secret) {
		made = secret
		key.Hash = hub.HashSecret(secret)
		key.Hint = secret[len(secret)-4:]
	}

	err = s.update(ctx, "new key for the operator", func(tx hub.Tx) error {
		_, err := tx.Agent(hub.Operator)
		if hub.CodeOf(err) == hub.CodeNotFound {
			err = putAgent(tx, self, hub.Agent{ID: hub.Operator, Role: hub.RoleCoordinator, Auditor: true, State: hub.AgentActive, CreatedAt: key.CreatedAt})
		} else if err == nil && s.shared {
			live, err := liveOperators(tx, key.CreatedAt)
			switch {
			case err != nil:
				return err
			case slices.ContainsFunc(live, func(k hub.Key) bool { return k.Hash == key.Hash }):
				return nil
			case len(live) > 0:
				return hub.Errorf(hub.CodeConflict, op, "another hub created this database, and its operator's key is not in this hub's home").
					WithHint("copy operator.key and secrets.key from that hub's home to this one")
			}
		} else if err == nil {
			err = revokeHomeKeys(tx, key.CreatedAt)
		}
		if err != nil {
			return err
		}
		return addKey(tx, self, key)
	})
	if err != nil {
		return "", err
	}
	return made, nil
}
