package keys_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/engine/bus"
	"github.com/parley-agents/parley/internal/ground/vault"
	"github.com/parley-agents/parley/internal/service/keys"
	"github.com/parley-agents/parley/internal/testing/storetest"
)

// A desk is a Service over a real store, with a clock that stands still.
type desk struct {
	*keys.Service
	store hub.Store
	hints *bus.Local
	now   time.Time
	boss  hub.Caller
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	store := storetest.Open(t, t.TempDir())
	d := &desk{store: store, hints: new(bus.Local), now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), boss: hub.Caller{ID: hub.Operator}}
	d.Service = keys.New(store, &keys.Options{Bus: d.hints, Clock: func() time.Time { return d.now }})
	if _, err := d.EnsureOperator(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	return d
}

// add adds an agent and returns its secret.
func (d *desk) add(t *testing.T, id hub.AgentID) string {
	t.Helper()
	_, _, secret, err := d.AddAgent(t.Context(), d.boss, hub.Agent{ID: id}, keys.NewKey{})
	if err != nil {
		t.Fatal(err)
	}
	return secret
}

// actions returns the journal after a number, as actor|action|subject.
func (d *desk) actions(t *testing.T, after int64) (out []string) {
	t.Helper()
	err := d.store.View(t.Context(), func(r hub.Reader) error {
		entries, err := r.Journal(hub.JournalQuery{After: after, Limit: 1000})
		for _, e := range entries {
			out = append(out, fmt.Sprintf("%s|%s|%s", e.Actor, e.Action, e.Subject))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func wantCode(t *testing.T, err error, want hub.Code) {
	t.Helper()
	if got := hub.CodeOf(err); got != want {
		t.Errorf("error: got %q (%v), want %q", got, err, want)
	}
}

func TestAddAgent(t *testing.T) {
	d := newDesk(t)
	for _, tt := range []struct {
		name string
		id   hub.AgentID
		want hub.Code
	}{
		{"a plain name is taken", "builder", ""},
		{"digits, dots, dashes and underscores are taken", "0-a.b_c", ""},
		{"64 bytes are taken", hub.AgentID(strings.Repeat("a", 64)), ""},
		{"65 bytes are refused", hub.AgentID(strings.Repeat("a", 65)), hub.CodeInvalid},
		{"no name is refused", "", hub.CodeInvalid},
		{"capitals are refused", "Builder", hub.CodeInvalid},
		{"a name that begins with a dot is refused", ".hidden", hub.CodeInvalid},
		{"a path is refused", "../etc", hub.CodeInvalid},
		{"a slash is refused", "a/b", hub.CodeInvalid},
		{"a blank is refused", "a b", hub.CodeInvalid},
		{"letters beyond ASCII are refused", "bäcker", hub.CodeInvalid},
		{"everyone is no name", hub.Everyone, hub.CodeInvalid},
		{"the operator's name is taken", hub.Operator, hub.CodeConflict},
		{"the hub's name is taken", hub.Self, hub.CodeConflict},
		{"a name is given once", "builder", hub.CodeConflict},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before := len(d.actions(t, 0))
			agent, key, secret, err := d.AddAgent(t.Context(), d.boss, hub.Agent{ID: tt.id}, keys.NewKey{})
			wantCode(t, err, tt.want)
			if err != nil {
				if secret != "" || len(d.actions(t, 0)) != before {
					t.Error("a refused agent left something behind")
				}
				return
			}
			if agent.Role != hub.RoleExecutor || agent.Auditor || agent.State != hub.AgentActive || agent.CreatedAt != hub.At(d.now) {
				t.Errorf("agent: got %+v, want an active executor from now", agent)
			}
			if key.Label != "default" || key.Agent != tt.id || !strings.HasPrefix(secret, vault.KeyPrefix) || len(secret) < len(vault.KeyPrefix)+43 {
				t.Errorf("key: got %+v and %q, want a default key", key, secret)
			}
			if key.Hash != hub.HashSecret(secret) || strings.Contains(fmt.Sprintf("%+v", key), secret) || !strings.HasSuffix(secret, key.Hint) || len(key.Hint) != 4 {
				t.Errorf("key: got %+v, want the hash and four characters of the secret and no more", key)
			}
			got, err := d.Authenticate(t.Context(), secret)
			if err != nil || got.ID != tt.id {
				t.Errorf("authenticate: got %+v (%v), want %s", got, err, tt.id)
			}
		})
	}
	for _, role := range hub.Roles {
		t.Run("the role "+string(role)+" is kept", func(t *testing.T) {
			_, _, secret, err := d.AddAgent(t.Context(), d.boss, hub.Agent{ID: hub.AgentID(role), Role: role, Auditor: true}, keys.NewKey{})
			if err != nil {
				t.Fatal(err)
			}
			if got, err := d.Authenticate(t.Context(), secret); err != nil || got.Role != role || !got.Audits() {
				t.Errorf("actor: got %+v (%v), want the role and the right to audit", got, err)
			}
		})
	}
	t.Run("another role is refused", func(t *testing.T) {
		_, _, _, err := d.AddAgent(t.Context(), d.boss, hub.Agent{ID: "x", Role: "king"}, keys.NewKey{})
		wantCode(t, err, hub.CodeInvalid)
	})
	t.Run("R3-120 who added whom is recorded, in one step with the key", func(t *testing.T) {
		head := int64(len(d.actions(t, 0)))
		d.add(t, "late")
		want := []string{"operator|agent.added|late", "operator|key.minted|late/default"}
		if got := d.actions(t, head); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("journal: got %q, want %q", got, want)
		}
	})
}

func TestAuthority(t *testing.T) {
	d := newDesk(t)
	d.add(t, "alice")
	alice := hub.Caller{ID: "alice", Role: hub.RoleCoordinator, Auditor: true}
	for name, call := range map[string]func() error{
		"add agents": func() error {
			_, _, _, err := d.AddAgent(t.Context(), alice, hub.Agent{ID: "x"}, keys.NewKey{})
			return err
		},
		"make keys":     func() error { _, _, err := d.MintKey(t.Context(), alice, keys.NewKey{Agent: "alice"}); return err },
		"revoke keys":   func() error { _, err := d.RevokeKeys(t.Context(), alice, "alice", ""); return err },
		"pause agents":  func() error { _, err := d.SetState(t.Context(), alice, "alice", hub.AgentPaused); return err },
		"resume agents": func() error { _, err := d.SetState(t.Context(), alice, "alice", hub.AgentActive); return err },
	} {
		t.Run("R3-009 only the operator may "+name, func(t *testing.T) {
			before := len(d.actions(t, 0))
			wantCode(t, call(), hub.CodeDenied)
			if after := len(d.actions(t, 0)); after != before {
				t.Errorf("journal: got %d entries, want %d", after, before)
			}
		})
	}
	t.Run("everybody sees who is there and only the operator sees keys", func(t *testing.T) {
		for _, actor := range []hub.Caller{alice, d.boss} {
			list, err := d.Agents(t.Context(), actor)
			if err != nil || len(list) != 2 || list[0].ID != "alice" || list[1].ID != hub.Operator {
				t.Fatalf("agents: got %+v (%v), want alice and the operator", list, err)
			}
			if got := len(list[0].Keys) > 0; got != actor.IsOperator() {
				t.Errorf("%s sees keys: %v", actor.ID, got)
			}
		}
	})
	t.Run("the operator can be neither paused nor locked out", func(t *testing.T) {
		_, err := d.SetState(t.Context(), d.boss, hub.Operator, hub.AgentPaused)
		wantCode(t, err, hub.CodeDenied)
		_, err = d.RevokeKeys(t.Context(), d.boss, hub.Operator, "")
		wantCode(t, err, hub.CodeDenied)
	})
}

func TestKeys(t *testing.T) {
	d := newDesk(t)
	first := d.add(t, "alice")
	key, second, err := d.MintKey(t.Context(), d.boss, keys.NewKey{Agent: "alice", Label: "laptop", Expires: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	t.Run("an agent has several keys", func(t *testing.T) {
		if first == second || key.ExpiresAt != hub.At(d.now.Add(time.Hour)) {
			t.Errorf("key: got %+v, want another one that expires in an hour", key)
		}
		for _, s := range []string{first, second} {
			if got, err := d.Authenticate(t.Context(), s); err != nil || got.ID != "alice" {
				t.Errorf("authenticate: got %+v (%v), want alice", got, err)
			}
		}
	})
	for _, tt := range []struct {
		name string
		key  keys.NewKey
		want hub.Code
	}{
		{"a label is used once", keys.NewKey{Agent: "alice", Label: "laptop"}, hub.CodeConflict},
		{"a label of two lines is refused", keys.NewKey{Agent: "alice", Label: "a\nb"}, hub.CodeInvalid},
		{"a label that moves the cursor is refused", keys.NewKey{Agent: "alice", Label: "a\x1b[2J"}, hub.CodeInvalid},
		{"a label of 65 bytes is refused", keys.NewKey{Agent: "alice", Label: strings.Repeat("x", 65)}, hub.CodeInvalid},
		{"a label that is not text is refused", keys.NewKey{Agent: "alice", Label: "a\xff"}, hub.CodeInvalid},
		{"a label that turns the direction of writing is refused", keys.NewKey{Agent: "alice", Label: "a\u202eb"}, hub.CodeInvalid},
		{"a key that expired before it was made is refused", keys.NewKey{Agent: "alice", Label: "x", Expires: -1}, hub.CodeInvalid},
		{"a key for nobody is refused", keys.NewKey{Agent: "nobody", Label: "x"}, hub.CodeNotFound},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, secret, err := d.MintKey(t.Context(), d.boss, tt.key)
			wantCode(t, err, tt.want)
			if secret != "" {
				t.Error("a refused key was given out")
			}
		})
	}
	t.Run("a key is refused from the instant it expires, though it was known", func(t *testing.T) {
		defer func(was time.Time) { d.now = was }(d.now)
		d.now = d.now.Add(time.Hour - time.Millisecond)
		if _, err := d.Authenticate(t.Context(), second); err != nil {
			t.Errorf("just before: got %v, want nil", err)
		}
		d.now = d.now.Add(time.Millisecond)
		_, err := d.Authenticate(t.Context(), second)
		wantCode(t, err, hub.CodeUnauthenticated)
	})
	t.Run("a revoked key is refused at once, though it was known, and stays so", func(t *testing.T) {
		n, err := d.RevokeKeys(t.Context(), d.boss, "alice", "laptop")
		if err != nil || n != 1 {
			t.Fatalf("revoke: got %d (%v), want 1", n, err)
		}
		for range 2 {
			_, err := d.Authenticate(t.Context(), second)
			wantCode(t, err, hub.CodeUnauthenticated)
			var e *hub.Error
			if !errors.As(err, &e) || !strings.Contains(e.Error(), "revoked") || e.Hint == "" {
				t.Errorf("error: got %v, want that it was revoked and a hint", err)
			}
		}
		if _, err := d.Authenticate(t.Context(), first); err != nil {
			t.Errorf("the other key: got %v, want nil", err)
		}
	})
	t.Run("what is revoked cannot be revoked again", func(t *testing.T) {
		_, err := d.RevokeKeys(t.Context(), d.boss, "alice", "laptop")
		wantCode(t, err, hub.CodeNotFound)
		_, err = d.RevokeKeys(t.Context(), d.boss, "nobody", "")
		wantCode(t, err, hub.CodeNotFound)
	})
	t.Run("without a label all keys are revoked", func(t *testing.T) {
		third := must(d.MintKey(t.Context(), d.boss, keys.NewKey{Agent: "alice", Label: "third"}))(t)
		if n, err := d.RevokeKeys(t.Context(), d.boss, "alice", ""); err != nil || n != 2 {
			t.Errorf("revoke: got %d (%v), want 2", n, err)
		}
		for _, s := range []string{first, third} {
			_, err := d.Authenticate(t.Context(), s)
			wantCode(t, err, hub.CodeUnauthenticated)
		}
	})
	t.Run("an agent has at most 100 keys, revoked ones included", func(t *testing.T) {
		d.add(t, "hoarder")
		for i := range 99 {
			must(d.MintKey(t.Context(), d.boss, keys.NewKey{Agent: "hoarder", Label: fmt.Sprint(i)}))(t)
		}
		_, _, err := d.MintKey(t.Context(), d.boss, keys.NewKey{Agent: "hoarder", Label: "one more"})
		wantCode(t, err, hub.CodeConflict)
	})
	t.Run("keys that runs borrow do not count among the 100", func(t *testing.T) {
		d.add(t, "runner")
		err := d.store.Update(t.Context(), hub.SurvivesKill, func(tx hub.Tx) error {
			for i := range 100 {
				if _, _, err := d.Lend(tx, d.boss, "runner", hub.RunKeyLabel+fmt.Sprint(i), hub.At(d.now.Add(time.Hour))); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		d.Changed()
		must(d.MintKey(t.Context(), d.boss, keys.NewKey{Agent: "runner", Label: "one more"}))(t)
	})
}

// must returns the secret.
func must(_ hub.Key, secret string, err error) func(*testing.T) string {
	return func(t *testing.T) string {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return secret
	}
}

func TestAuthenticate(t *testing.T) {
	d := newDesk(t)
	secret := d.add(t, "alice")
	for _, tt := range []struct{ name, secret string }{
		{"no secret", ""}, {"another kind of secret", "sk-" + secret}, {"the beginning of a secret", secret[:len(secret)-1]},
		{"a secret and more", secret + "x"}, {"the bare prefix", vault.KeyPrefix}, {"a hash of the secret", vault.KeyPrefix + hub.HashSecret(secret)},
	} {
		t.Run(tt.name+" is refused with a hint", func(t *testing.T) {
			_, err := d.Authenticate(t.Context(), tt.secret)
			wantCode(t, err, hub.CodeUnauthenticated)
			var e *hub.Error
			if errors.As(err, &e) && e.Hint == "" {
				t.Error("there is no hint")
			}
			if tt.secret != "" && strings.Contains(err.Error(), tt.secret) {
				t.Errorf("error: got %v, want it without the secret", err)
			}
		})
	}
	t.Run("an agent that is paused is known as such at once, and again when it is resumed", func(t *testing.T) {
		for _, s := range []hub.AgentState{hub.AgentPaused, hub.AgentActive} {
			if _, err := d.Authenticate(t.Context(), secret); err != nil {
				t.Fatal(err)
			}
			got, err := d.SetState(t.Context(), d.boss, "alice", s)
			if err != nil || got.State != s {
				t.Fatalf("set state: got %+v (%v), want %s", got, err, s)
			}
			if actor, err := d.Authenticate(t.Context(), secret); err != nil || actor.Paused != (s == hub.AgentPaused) {
				t.Errorf("actor: got %+v (%v), want paused: %v", actor, err, s == hub.AgentPaused)
			}
		}
	})
	t.Run("pausing twice is recorded once", func(t *testing.T) {
		head := int64(len(d.actions(t, 0)))
		for range 2 {
			if _, err := d.SetState(t.Context(), d.boss, "alice", hub.AgentPaused); err != nil {
				t.Fatal(err)
			}
		}
		if got := d.actions(t, head); fmt.Sprint(got) != "[operator|agent.paused|alice]" {
			t.Errorf("journal: got %q, want one entry", got)
		}
	})
	t.Run("nobody who is not there can be paused", func(t *testing.T) {
		_, err := d.SetState(t.Context(), d.boss, "nobody", hub.AgentPaused)
		wantCode(t, err, hub.CodeNotFound)
	})
	t.Run("every change gives a hint to those who watch", func(t *testing.T) {
		hints, cancel := d.hints.Subscribe(hub.TopicJournal)
		defer cancel()
		for name, change := range map[string]func() error{
			"state": func() error { _, err := d.SetState(t.Context(), d.boss, "alice", hub.AgentActive); return err },
			"key": func() error {
				_, _, err := d.MintKey(t.Context(), d.boss, keys.NewKey{Agent: "alice", Label: "new"})
				return err
			},
			"revoke": func() error { _, err := d.RevokeKeys(t.Context(), d.boss, "alice", "default"); return err },
		} {
			if err := change(); err != nil {
				t.Fatal(err)
			}
			select {
			case <-hints:
			default:
				t.Errorf("%s: no hint came", name)
			}
		}
	})
	t.Run("known keys are served although the store is gone, unknown ones get no false answer", func(t *testing.T) {
		other := newDesk(t)
		known, unknown := other.add(t, "known"), other.add(t, "unknown")
		if _, err := other.Authenticate(t.Context(), known); err != nil {
			t.Fatal(err)
		}
		other.store.Close()
		if got, err := other.Authenticate(t.Context(), known); err != nil || got.ID != "known" {
			t.Errorf("known key: got %+v (%v), want it served", got, err)
		}
		_, err := other.Authenticate(t.Context(), unknown)
		wantCode(t, err, hub.CodeDegraded)
	})
}

func TestRevocationBetween(t *testing.T) {
	d := newDesk(t)
	secret := d.add(t, "alice")
	t.Run("an answer that was read before a revocation is not remembered after it", func(t *testing.T) {
		slow := &slowStore{Store: d.store}
		a := keys.New(slow, nil)
		slow.after = func() { // the key was read, and then revoked
			slow.after = nil
			if _, err := a.RevokeKeys(t.Context(), d.boss, "alice", ""); err != nil {
				t.Error(err)
			}
		}
		if _, err := a.Authenticate(t.Context(), secret); err != nil {
			t.Errorf("the call under way: got %v, want nil", err)
		}
		_, err := a.Authenticate(t.Context(), secret)
		wantCode(t, err, hub.CodeUnauthenticated)
	})
}

func TestSharedStore(t *testing.T) {
	d := newDesk(t) // another process of the same store
	a := keys.New(d.store, &keys.Options{Shared: true, Clock: func() time.Time { return d.now }})
	keyed := func(want bool) {
		t.Helper()
		if got, err := a.Keyed(t.Context(), "alice"); err != nil || got != want {
			t.Errorf("alice has a key: got %v (%v), want %v", got, err, want)
		}
	}
	t.Run("an agent that was missing is found as soon as another process adds it", func(t *testing.T) {
		_, err := a.Keyed(t.Context(), "alice")
		wantCode(t, err, hub.CodeNotFound)
		secret := d.add(t, "alice")
		keyed(true)
		if _, err := a.Authenticate(t.Context(), secret); err != nil {
			t.Error(err)
		}
	})
	t.Run("a key that another process revokes gives no right from then on", func(t *testing.T) {
		keyed(true)
		_, secret, err := d.MintKey(t.Context(), d.boss, keys.NewKey{Agent: "alice", Label: "second"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := a.Authenticate(t.Context(), secret); err != nil {
			t.Fatal(err)
		}
		if _, err := d.RevokeKeys(t.Context(), d.boss, "alice", ""); err != nil {
			t.Fatal(err)
		}
		_, err = a.Authenticate(t.Context(), secret)
		wantCode(t, err, hub.CodeUnauthenticated)
		keyed(true) // a forecast may be a moment old
		d.now = d.now.Add(time.Second)
		keyed(false)
	})
}

// A slowStore is a real store that lets something happen after a look.
type slowStore struct {
	hub.Store
	after func()
}

func (s *slowStore) View(ctx context.Context, fn func(hub.Reader) error) error {
	err := s.Store.View(ctx, fn)
	if s.after != nil {
		s.after()
	}
	return err
}

func TestOperator(t *testing.T) {
	store := storetest.Open(t, t.TempDir())
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	a := keys.New(store, &keys.Options{Clock: func() time.Time { now = now.Add(time.Second); return now }})
	ensure := func(t *testing.T, secret string) string {
		t.Helper()
		got, err := a.EnsureOperator(t.Context(), secret)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	first := ensure(t, "")
	t.Run("the operator coordinates and audits", func(t *testing.T) {
		if got, err := a.Authenticate(t.Context(), first); err != nil || !got.IsOperator() || !got.Coordinates() || !got.Audits() {
			t.Errorf("actor: got %+v (%v), want the operator", got, err)
		}
	})
	t.Run("a good key is kept", func(t *testing.T) {
		if got := ensure(t, first); got != first {
			t.Error("got another key, want the same")
		}
	})
	second := first
	for _, tt := range []struct{ name, secret string }{{"a lost key", ""}, {"a key nobody has", vault.KeyPrefix + "x"}, {"something else", "hello"}} {
		t.Run(tt.name+" is replaced, and the one before is refused", func(t *testing.T) {
			next := ensure(t, tt.secret)
			if next == second {
				t.Fatal("got the same key, want another")
			}
			_, err := a.Authenticate(t.Context(), second)
			wantCode(t, err, hub.CodeUnauthenticated)
			if got, err := a.Authenticate(t.Context(), next); err != nil || !got.IsOperator() {
				t.Errorf("the new key: got %+v (%v), want the operator", got, err)
			}
			second = next
		})
	}
	t.Run("the key of an agent is not taken for the operator's", func(t *testing.T) {
		_, _, agents, err := a.AddAgent(t.Context(), hub.Caller{ID: hub.Operator}, hub.Agent{ID: "alice"}, keys.NewKey{})
		if err != nil {
			t.Fatal(err)
		}
		if got := ensure(t, agents); got == agents {
			t.Error("an agent's key became the operator's")
		}
	})
}
