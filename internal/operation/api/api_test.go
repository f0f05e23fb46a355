package api_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
	"github.com/parley-agents/parley/internal/engine/bus"
	"github.com/parley-agents/parley/internal/engine/sqlite"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/operation/rpc"
	"github.com/parley-agents/parley/internal/reach/evidence"
	"github.com/parley-agents/parley/internal/reach/notify"
	"github.com/parley-agents/parley/internal/reach/wake"
	"github.com/parley-agents/parley/internal/service/attention"
	"github.com/parley-agents/parley/internal/service/callers"
	"github.com/parley-agents/parley/internal/service/check"
	"github.com/parley-agents/parley/internal/service/continuation"
	"github.com/parley-agents/parley/internal/service/deliberation"
	"github.com/parley-agents/parley/internal/service/event"
	"github.com/parley-agents/parley/internal/service/handoff"
	"github.com/parley-agents/parley/internal/service/journal"
	"github.com/parley-agents/parley/internal/service/keys"
	"github.com/parley-agents/parley/internal/service/landing"
	"github.com/parley-agents/parley/internal/service/mailroom"
	"github.com/parley-agents/parley/internal/service/metrics"
	"github.com/parley-agents/parley/internal/service/proof"
	"github.com/parley-agents/parley/internal/service/records"
	"github.com/parley-agents/parley/internal/service/reservation"
	"github.com/parley-agents/parley/internal/service/roots"
	"github.com/parley-agents/parley/internal/service/run"
	"github.com/parley-agents/parley/internal/service/schedule"
	"github.com/parley-agents/parley/internal/service/signin"
	"github.com/parley-agents/parley/internal/service/usage"
	"github.com/parley-agents/parley/internal/work/keeper"
)

// A desk is everything that operations work on, over a real store, behind a
// door.
type desk struct {
	*api.Services
	*rpc.Door
	store    *sqlite.Store
	hints    *bus.Local
	now      time.Time // what access and the journal read
	operator string    // the operator's key
	log      *bytes.Buffer
}

func newDesk(t testing.TB) *desk {
	t.Helper()
	home := t.TempDir()
	store, err := sqlite.Open(home, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	d := &desk{store: store, hints: new(bus.Local), now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), log: new(bytes.Buffer)}
	clock := func() time.Time { return d.now }
	who := keys.New(store, &keys.Options{Bus: d.hints, Clock: clock})
	mail, err := mailroom.New(store, who, &mailroom.Options{Bus: d.hints})
	if err != nil {
		t.Fatal(err)
	}
	kept := journal.New(store, &journal.Options{Bus: d.hints, Clock: clock})
	folders, err := roots.New(store, home, nil)
	if err != nil {
		t.Fatal(err)
	}
	wakes, err := wake.New(store, nil, wake.Options{Clock: clock, Bus: d.hints})
	if err != nil {
		t.Fatal(err)
	}
	signIn, err := signin.New(t.Context(), store, signin.Options{Listen: &net.TCPAddr{}, Operator: who.ByHash})
	if err != nil {
		t.Fatal(err)
	}
	talks, err := deliberation.New(store, mail, nil)
	if err != nil {
		t.Fatal(err)
	}
	people, err := notify.New(store, nil, notify.Options{Clock: clock, Bus: d.hints})
	if err != nil {
		t.Fatal(err)
	}
	reader, err := evidence.New(nil, &evidence.Options{Roots: folders.Paths})
	if err != nil {
		t.Fatal(err)
	}
	files, err := reservation.New(store, evidence.NewTrees(reader, ""), wakes, mail, &reservation.Options{Clock: clock})
	if err != nil {
		t.Fatal(err)
	}
	d.Services = &api.Services{
		Files:  files,
		Usage:  usage.New(store, mail, &usage.Options{Clock: clock}),
		Events: event.New(store, mail, noVault{}, &event.Options{Clock: clock}),

		Schedules: schedule.New(store, mail, &schedule.Options{Clock: clock}),

		Onward:   continuation.New(store, continuation.Parts{Mail: mail}, &continuation.Options{Clock: clock}),
		Checks:   check.New(store, noRepositories{}, nil, d.hints, &check.Options{Clock: clock}),
		Landings: landing.New(store, noGit{}, nil, mail, &landing.Options{Clock: clock}),
		Metrics:  metrics.New(store, nil),
		Proofs:   proof.New(store, ed25519.NewKeyFromSeed(make([]byte, 32)), nil),
		Talks:    talks, Notify: people, Clock: clock,
		Store: store, Wakes: wakes, SignIn: signIn,
		Keeper: keeper.New(store, wakes, who, keeper.Options{Home: home, Clock: clock, Bus: d.hints, Log: slog.New(slog.DiscardHandler)}),
		Roots:  folders,
		Mail:   mail, Keys: who, Handoffs: handoff.New(store, mail, nil), Runs: run.New(store, who, mail, nil), Journal: kept,
		Records: noFiles{records.New(store, records.Folders{Archives: t.TempDir()}, &records.Options{Clock: clock})},
		Stop:    func() {},

		Attention: attention.New(store, mailroom.Headline),
	}
	d.Door = rpc.NewDoor(rpc.NewDispatcher(rpc.Recorder{Refused: kept.Refused, Log: slog.New(slog.NewTextHandler(d.log, nil))}, api.Operations.Bind(d.Services)), callers.New(store, who, nil), false)
	if d.operator, err = d.Keys.EnsureOperator(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	return d
}

// call performs a method by its name.
func (d *desk) call(ctx context.Context, c hub.Caller, method string, params []byte) (any, error) {
	for _, m := range d.Methods() {
		if m.Method == method {
			return d.Call(ctx, c, m, params)
		}
	}
	return nil, errors.New("no method " + method)
}

// serve answers on loopback.
func (d *desk) serve(t *testing.T) string {
	t.Helper()
	s := httptest.NewServer(d.Door)
	t.Cleanup(s.Close)
	return s.URL
}

// post returns status and body of one call.
func post(t *testing.T, url, key, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+key)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(raw)
}

func TestExpiredKey(t *testing.T) {
	d := newDesk(t)
	url := d.serve(t)
	c := rpc.NewClient(url, d.operator, "", nil)
	added, err := rpc.Call(t.Context(), c, api.AddAgent, api.AgentParams{ID: "temp", ExpiresS: 3600})
	if err != nil {
		t.Fatal(err)
	}
	const whoami = `{"jsonrpc":"2.0","id":1,"method":"parley/whoami"}`
	t.Run("a key is good until it expires", func(t *testing.T) {
		d.now = d.now.Add(time.Hour - time.Millisecond)
		if status, body := post(t, url, added.Key, whoami); status != http.StatusOK || !strings.Contains(body, `"id":"temp"`) {
			t.Errorf("answer: got %d %s, want temp", status, body)
		}
	})
	t.Run("an expired key is refused, though it was good before", func(t *testing.T) {
		d.now = d.now.Add(time.Millisecond)
		status, body := post(t, url, added.Key, whoami)
		if status != http.StatusUnauthorized || !strings.Contains(body, `"reason":"unauthenticated"`) || !strings.Contains(body, "expired") {
			t.Errorf("answer: got %d %s, want 401 unauthenticated", status, body)
		}
	})
	t.Run("a key cannot be made for longer than a century or for the past", func(t *testing.T) {
		for _, s := range []int64{-1, 1 << 62} {
			_, err := rpc.Call(t.Context(), c, api.AddKey, api.AgentParams{ID: "temp", Label: "x", ExpiresS: s})
			if got := hub.CodeOf(err); got != hub.CodeInvalid {
				t.Errorf("expires_s %d: got %v, want schema_invalid", s, err)
			}
		}
	})
}

func TestRefusalOfOneWhoLeft(t *testing.T) {
	d := newDesk(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	t.Run("R3-020 a refusal is recorded although the caller is gone", func(t *testing.T) {
		_, err := d.call(ctx, hub.Caller{Kind: hub.CallerAgent, ID: "mallory"}, "acp/send", []byte(`{"from":"operator","to":["x"],"text":"x"}`))
		if got := hub.CodeOf(err); got != hub.CodeTampering {
			t.Fatalf("error: got %v, want identity_tampering", err)
		}
		entries, _, err := d.Journal.Events(t.Context(), hub.Caller{ID: hub.Operator}, 0, 100)
		if err != nil {
			t.Fatal(err)
		}
		last := entries[len(entries)-1]
		if last.Actor != "mallory" || last.Action != actions.Refused {
			t.Errorf("last entry: got %s %s, want the refusal of mallory", last.Actor, last.Action)
		}
	})
}

func TestOperations(t *testing.T) {
	t.Run("every method is there once and every tool has a schema", func(t *testing.T) {
		seen := map[string]bool{}
		for _, o := range api.Operations.Bind(nil) {
			if seen[o.Method] || o.Doc == "" {
				t.Errorf("%s: it is there twice or says nothing", o.Method)
			}
			seen[o.Method] = true
			if (o.Tool == "") != (o.Input == nil) || o.Input != nil && !json.Valid(o.Input) {
				t.Errorf("%s: tool %q does not go with its schema", o.Method, o.Tool)
			}
		}
	})
	d := newDesk(t)
	for _, o := range api.Operations.Bind(nil) {
		if o.Tool == "" {
			continue
		}
		t.Run("every parameter that the schema of "+o.Tool+" names is known to it", func(t *testing.T) {
			var schema struct {
				Properties map[string]json.RawMessage `json:"properties"`
			}
			if err := json.Unmarshal(o.Input, &schema); err != nil {
				t.Fatal(err)
			}
			for name := range schema.Properties {
				// An object is right for no parameter but payload, policy and
				// context, and those want no such member.
				_, err := d.call(t.Context(), hub.Caller{Kind: hub.CallerOperator, ID: hub.Operator}, o.Method, []byte(`{"`+name+`":{"no_such_member":1}}`))
				if err == nil || strings.Contains(err.Error(), "no such parameter") && !strings.Contains(err.Error(), "no_such_member") || strings.Contains(err.Error(), "not known") {
					t.Errorf("%s: got %v, want that its value is wrong, not its name", name, err)
				}
			}
		})
	}
}

// FuzzParams gives any bytes to every operation. The caller is gone already, so
// that nothing waits and little is written: the way in is what is looked at.
func FuzzParams(f *testing.F) {
	for _, seed := range []string{
		``, `{}`, `[]`, `null`, `7`, `"x"`, `{`, `{"to":["bob"],"text":"hi"}`, `{"to":"bob","type":"status.update","payload":{"summary":"x"}}`,
		`{"to":["bob"],"text":"x","policy":{"human_gate":"required"},"context":{"artifacts":[{"type":"file","path":"/a"}]}}`,
		`{"to":["bob"],"From":"x","text":"x","extra":{"a":[1,2,{"b":null}]}}`, `{"reply_to":"01900000-0000-7000-8000-000000000000","text":"x"}`,
		`{"state":"blocked","summary":"x","blockers":["y"],"progress_pct":5}`, `{"wait_s":1,"ack":true,"limit":1,"cursor":"x","new_only":true}`,
		`{"ack":["01900000-0000-7000-8000-000000000000"],"peek":true}`, `{"agent":"bob","since":"2026-01-02T03:04:05Z","text":"a b","limit":200}`,
		`{"id":"bob","role":"reviewer","auditor":true,"label":"x","expires_s":1}`, `{"id":"x","reason":"y"}`, `{"sequence":1e400}`,
		"{\"to\":[\"\xff\"]}", `{"a":1,"A":2}`, `{"policy":null}`, `{"to":null,"text":"\ud800"}`, `{"expires_at":"9999-99-99"}`, " {}",
	} {
		f.Add([]byte(seed))
	}
	d := newDesk(f)
	actor := hub.Caller{Kind: hub.CallerOperator, ID: hub.Operator, Role: hub.RoleCoordinator, Auditor: true}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	f.Fuzz(func(t *testing.T, raw []byte) {
		for _, o := range d.Methods() {
			_, err := d.Call(ctx, actor, o, raw)
			if err == nil || errors.Is(err, context.Canceled) {
				continue
			}
			if code := hub.CodeOf(err); code == hub.CodeInternal {
				t.Errorf("%s(%q): got %v, want an error with a code", o.Method, raw, err)
			}
			if !json.Valid([]byte(`"` + strings.NewReplacer(`\`, ``, `"`, ``, "\n", ``, "\t", ``).Replace(rpc.Describe(err, rpc.Methods).Message) + `"`)) {
				t.Errorf("%s(%q): the message %q cannot be shown", o.Method, raw, err)
			}
		}
	})
}

// noGit is a machine without repositories.
type noGit struct{ landing.Git }

func (noGit) Repository(context.Context, string) (string, error) {
	return "", hub.Errorf(hub.CodeInvalid, "test", "no repository here")
}

// noRepositories is such a machine for checks.
type noRepositories struct{ check.Repositories }

func (noRepositories) Find(context.Context, string) (hub.Repository, error) {
	return hub.Repository{}, hub.Errorf(hub.CodeInvalid, "test", "no repository here")
}

func (noRepositories) Fetch(context.Context, string, string) (check.Commit, error) {
	return check.Commit{}, hub.Errorf(hub.CodeInvalid, "test", "no repository here")
}

// noFiles are the records of a store without files.
type noFiles struct{ *records.Records }

func (noFiles) RebuildTree(context.Context) (int64, error) { return 0, nil }
func (noFiles) Export(context.Context, string, bool) (records.Manifest, error) {
	return records.Manifest{}, hub.Errorf(hub.CodeNotEnabled, "test", "no files here")
}

func (noFiles) Backup(context.Context, string) error {
	return hub.Errorf(hub.CodeNotEnabled, "test", "no files here")
}

// noVault keeps secrets as they are.
type noVault struct{}

func (noVault) Seal(secret, _ string) string { return secret }

func (noVault) Open(sealed, _ string) (string, error) { return sealed, nil }
