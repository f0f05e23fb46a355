package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/engine/bus"
	"github.com/parley-agents/parley/internal/engine/sqlite"
	"github.com/parley-agents/parley/internal/service/access"
	"github.com/parley-agents/parley/internal/service/handoff"
	"github.com/parley-agents/parley/internal/service/journal"
	"github.com/parley-agents/parley/internal/service/mailroom"
	"github.com/parley-agents/parley/internal/service/records"
	"github.com/parley-agents/parley/internal/service/run"
	"github.com/parley-agents/parley/internal/surface/api"
)

// A desk is everything that operations work on, over a real store.
type desk struct {
	*api.Services
	store    *sqlite.Store
	hints    *bus.Local
	now      time.Time // what access and the journal read
	operator string    // the operator's key
	log      *bytes.Buffer
}

func newDesk(t testing.TB) *desk {
	t.Helper()
	store, err := sqlite.Open(t.TempDir(), nil)
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
	who := access.New(store, &access.Options{Bus: d.hints, Clock: clock})
	mail, err := mailroom.New(store, who, &mailroom.Options{Bus: d.hints})
	if err != nil {
		t.Fatal(err)
	}
	d.Services = &api.Services{
		Mail: mail, Access: who, Handoffs: handoff.New(store, mail, nil), Runs: run.New(store, who, mail, nil), Records: noFiles{records.New(store, records.Folders{Archives: t.TempDir()}, &records.Options{Clock: clock})},
		Journal: journal.New(store, &journal.Options{Bus: d.hints, Clock: clock}), Log: slog.New(slog.NewTextHandler(d.log, nil)),
	}
	if d.operator, err = d.Access.EnsureOperator(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	return d
}

// serve answers on loopback.
func (d *desk) serve(t *testing.T) string {
	t.Helper()
	s := httptest.NewServer(api.NewHandler(d.Services, d.Log, nil))
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
	c := api.NewClient(url, d.operator, "", nil)
	added, err := c.AddAgent(t.Context(), api.AgentParams{ID: "temp", ExpiresS: 3600})
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
			_, err := c.MintKey(t.Context(), api.AgentParams{ID: "temp", Label: "x", ExpiresS: s})
			if got := hub.CodeOf(err); got != hub.CodeInvalid {
				t.Errorf("expires_s %d: got %v, want schema_invalid", s, err)
			}
		}
	})
}

func TestPanic(t *testing.T) {
	d := newDesk(t)
	url := d.serve(t)
	defer api.AddOperation("test/panic", func() (any, error) { panic("the cat is on the keyboard") })()
	defer api.AddOperation("test/broken", func() (any, error) { return nil, errors.New("a secret detail") })()
	defer api.AddOperation("test/unwritable", func() (any, error) { return func() {}, nil })()
	for _, method := range []string{"test/panic", "test/broken", "test/unwritable"} {
		t.Run("R3-114 what goes wrong inside "+method+" ends there, tells no detail and is logged", func(t *testing.T) {
			d.log.Reset()
			status, body := post(t, url, d.operator, `[{"jsonrpc":"2.0","id":1,"method":"`+method+`"},{"jsonrpc":"2.0","id":2,"method":"parley/whoami"}]`)
			if status != http.StatusOK || !strings.Contains(body, `"code":-32000`) || !strings.Contains(body, `"reason":"internal"`) {
				t.Errorf("answer: got %d %s, want -32000 internal", status, body)
			}
			if strings.Contains(body, "cat") || strings.Contains(body, "secret") {
				t.Errorf("answer: got %s, want nothing of the cause", body)
			}
			if !strings.Contains(body, `"id":2,"result"`) {
				t.Errorf("answer: got %s, want the second call performed", body)
			}
			if !strings.Contains(d.log.String(), method) {
				t.Errorf("log: got %q, want the failure of %s", d.log, method)
			}
		})
	}
}

func TestObserve(t *testing.T) {
	d := newDesk(t)
	seen := map[string]int{}
	d.Observe = func(method string, code hub.Code, took time.Duration) { seen[method+" "+string(code)]++ }
	c := api.NewClient(d.serve(t), d.operator, "", nil)
	if _, err := c.Whoami(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.Call(t.Context(), "acp/send", nil)
	c.Call(t.Context(), "no such method "+strings.Repeat("x", 100), nil)
	t.Run("every call is observed with its code, and names that callers invent are not", func(t *testing.T) {
		if len(seen) != 2 || seen["parley/whoami "] != 1 || seen["acp/send schema_invalid"] != 1 {
			t.Errorf("observed: got %v, want whoami and a refused send", seen)
		}
	})
}

func TestErrorsOnTheWire(t *testing.T) {
	d := newDesk(t)
	c := api.NewClient(d.serve(t), d.operator, "", nil)
	for code, rpc := range map[hub.Code]int{
		hub.CodeInvalid: -32602, hub.CodePayloadTooLarge: -32602, hub.CodeTooLarge: -32602, hub.CodeUnknownType: -32602,
		hub.CodeReservedType: -32602, hub.CodeUnknownRecipient: -32602, hub.CodeNotFound: -32602, hub.CodeConflict: -32602,
		hub.CodeSequence: -32602, hub.CodeNotEnabled: -32602,
		hub.CodeTampering: -32000, hub.CodeDenied: -32000, hub.CodePolicy: -32000, hub.CodeRateLimited: -32000,
		hub.CodeCircuitOpen: -32000, hub.CodeLoop: -32000, hub.CodeDegraded: -32000, hub.CodeInternal: -32000,
	} {
		t.Run(fmt.Sprintf("R3-019 %s goes out as %d and comes back as itself", code, rpc), func(t *testing.T) {
			defer api.AddOperation("test/fail", func() (any, error) {
				return nil, fmt.Errorf("wrapped: %w", hub.Errorf(code, "test", "the reason").WithHint("do this").WithRetry(1500*time.Millisecond))
			})()
			_, body := post(t, d.serve(t), d.operator, `{"jsonrpc":"2.0","id":1,"method":"test/fail"}`)
			var got struct {
				Error struct {
					Code int
					Data api.Reason
				}
			}
			if err := json.Unmarshal([]byte(body), &got); err != nil || got.Error.Code != rpc || got.Error.Data.Reason != code {
				t.Errorf("wire: got %s, want %d %s", body, rpc, code)
			}
			_, err := c.Call(t.Context(), "test/fail", nil)
			var e *hub.Error
			if !errors.As(err, &e) || e.Code != code {
				t.Fatalf("client: got %v, want %s", err, code)
			}
			if code != hub.CodeInternal && (e.Error() != "the reason" || e.Hint != "do this" || e.RetryAfter != 1500*time.Millisecond) {
				t.Errorf("client: got %q, hint %q, retry %s, want what the hub said", e, e.Hint, e.RetryAfter)
			}
		})
	}
}

func TestRefusalOfOneWhoLeft(t *testing.T) {
	d := newDesk(t)
	o, _ := api.Lookup("acp/send")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	t.Run("R3-020 a refusal is recorded although the caller is gone", func(t *testing.T) {
		_, err := d.Call(ctx, hub.Caller{ID: "mallory"}, o, []byte(`{"from":"operator","to":["x"],"text":"x"}`))
		if got := hub.CodeOf(err); got != hub.CodeTampering {
			t.Fatalf("error: got %v, want identity_tampering", err)
		}
		entries, _, err := d.Journal.Events(t.Context(), hub.Caller{ID: hub.Operator}, 0, 100)
		if err != nil {
			t.Fatal(err)
		}
		last := entries[len(entries)-1]
		if last.Actor != "mallory" || last.Action != hub.ActionRefused {
			t.Errorf("last entry: got %s %s, want the refusal of mallory", last.Actor, last.Action)
		}
	})
}

func TestClientWithoutHub(t *testing.T) {
	t.Run("a hub that is not there is degraded and says where it was looked for", func(t *testing.T) {
		s := httptest.NewServer(http.NotFoundHandler())
		url := s.URL
		s.Close()
		_, err := api.NewClient(url, "key", "", nil).Whoami(t.Context())
		if hub.CodeOf(err) != hub.CodeDegraded || !errors.Is(err, api.ErrUnreachable) || !strings.Contains(err.Error(), url) {
			t.Errorf("error: got %v, want degraded, unreachable, with %s", err, url)
		}
	})
	t.Run("what answers otherwise is not taken for a hub", func(t *testing.T) {
		s := httptest.NewServer(http.NotFoundHandler())
		defer s.Close()
		_, err := api.NewClient(s.URL, "key", "", nil).Whoami(t.Context())
		if hub.CodeOf(err) != hub.CodeDegraded || errors.Is(err, api.ErrUnreachable) {
			t.Errorf("error: got %v, want degraded", err)
		}
	})
	t.Run("the key is in no error", func(t *testing.T) {
		for _, url := range []string{"http://127.0.0.1:1", "http://%zz", "ftp://x", ""} {
			if _, err := api.NewClient(url, "top-secret", "", nil).Whoami(t.Context()); err == nil || strings.Contains(err.Error(), "top-secret") {
				t.Errorf("%s: got %v, want an error without the key", url, err)
			}
		}
	})
}

func TestSession(t *testing.T) {
	for _, tt := range []struct {
		name   string
		header http.Header
		want   string
	}{
		{"none", http.Header{}, ""},
		{"its own header", http.Header{"Parley-Session": {"a"}, "Mcp-Session-Id": {"b"}}, "a"},
		{"that of MCP", http.Header{"Mcp-Session-Id": {"b"}}, "b"},
		{"without what cannot be shown", http.Header{"Parley-Session": {"a b\tc\x7f\x1b[0m\u00e9"}}, "abc[0m"},
		{"cut to its length", http.Header{"Parley-Session": {strings.Repeat("x", 200)}}, strings.Repeat("x", 128)},
	} {
		t.Run("a session is read: "+tt.name, func(t *testing.T) {
			if got := api.Session(tt.header); got != tt.want {
				t.Errorf("session: got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestOperations(t *testing.T) {
	t.Run("every method is there once and every tool has a schema", func(t *testing.T) {
		seen := map[string]bool{}
		for _, o := range api.Operations {
			if seen[o.Method] || o.Doc == "" {
				t.Errorf("%s: it is there twice or says nothing", o.Method)
			}
			seen[o.Method] = true
			if got, ok := api.Lookup(o.Method); !ok || got.Method != o.Method {
				t.Errorf("%s cannot be looked up", o.Method)
			}
			if (o.Tool == "") != (o.Input == nil) || o.Input != nil && !json.Valid(o.Input) {
				t.Errorf("%s: tool %q does not go with its schema", o.Method, o.Tool)
			}
		}
	})
	d := newDesk(t)
	for _, o := range api.Operations {
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
				_, err := d.Call(t.Context(), hub.Caller{ID: hub.Operator}, o, []byte(`{"`+name+`":{"no_such_member":1}}`))
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
	actor := hub.Caller{ID: hub.Operator, Role: hub.RoleCoordinator, Auditor: true}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	f.Fuzz(func(t *testing.T, raw []byte) {
		for _, o := range api.Operations {
			_, err := d.Call(ctx, actor, o, raw)
			if err == nil || errors.Is(err, context.Canceled) {
				continue
			}
			if code := hub.CodeOf(err); code == hub.CodeInternal {
				t.Errorf("%s(%q): got %v, want an error with a code", o.Method, raw, err)
			}
			if !json.Valid([]byte(`"` + strings.NewReplacer(`\`, ``, `"`, ``, "\n", ``, "\t", ``).Replace(api.Describe(err).Message) + `"`)) {
				t.Errorf("%s(%q): the message %q cannot be shown", o.Method, raw, err)
			}
		}
	})
}

// noFiles are the records of a store without files.
type noFiles struct{ *records.Records }

func (noFiles) Export(context.Context, string, bool) (records.Manifest, error) {
	return records.Manifest{}, hub.Errorf(hub.CodeNotEnabled, "test", "no files here")
}

func (noFiles) Backup(context.Context, string) error {
	return hub.Errorf(hub.CodeNotEnabled, "test", "no files here")
}
