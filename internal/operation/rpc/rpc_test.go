package rpc_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/engine/sqlite"
	"github.com/parley-agents/parley/internal/operation/rpc"
	"github.com/parley-agents/parley/internal/service/callers"
	"github.com/parley-agents/parley/internal/service/keys"
)

// A bench is a table of test operations behind a door.
type bench struct {
	url, operator string
	client        *rpc.Client
	door          *rpc.Door

	mu       sync.Mutex // guards what follows
	log      bytes.Buffer
	refused  []string
	observed map[string]int
}

type echoParams struct {
	Text string `json:"text,omitempty"`
}

// define defines an operation of the test's table.
func define[P, R any](method string, callers []hub.CallerKind, d rpc.Dialect, do func(context.Context, *bench, hub.Caller, P) (R, error)) rpc.Operation[*bench, P, R] {
	return rpc.Operation[*bench, P, R]{Spec: rpc.Spec{Method: method, Doc: "for a test", Callers: callers, Dialect: d}, Do: do}
}

func echo(_ context.Context, _ *bench, c hub.Caller, p echoParams) (string, error) {
	return string(c.Kind) + " " + c.Session + " " + p.Text, nil
}

var (
	strict   = define("test/strict", rpc.Local, rpc.Strict, echo)
	tolerant = define("cacp/test/tolerant", rpc.Identified, rpc.Tolerant, echo)
	open     = define("cacp/test/open", rpc.Everybody, rpc.Tolerant, echo)
	together = rpc.Operation[*bench, echoParams, int]{
		Spec: rpc.Spec{Method: "test/together", Doc: "for a test", Callers: rpc.Local, Dialect: rpc.Strict, Group: "g", MaxBody: 4 << 20},
		Form: rpc.Together(func(_ context.Context, _ *bench, _ hub.Caller, requests []rpc.Request[echoParams]) []rpc.Answer[int] {
			answers := make([]rpc.Answer[int], len(requests))
			for i, r := range requests {
				answers[i].Result = len(requests)
				if r.Params.Text == "bad" {
					answers[i].Err = hub.Errorf(hub.CodeConflict, "test", "bad")
				}
			}
			return answers
		}),
	}
	streamed = rpc.Operation[*bench, echoParams, []string]{
		Spec: rpc.Spec{Method: "test/streamed", Doc: "for a test", Callers: rpc.Local, Dialect: rpc.Strict},
		Form: rpc.Stream(func(_ context.Context, _ *bench, _ hub.Caller, p echoParams, w io.Writer) error {
			if p.Text == "early" {
				return hub.Errorf(hub.CodeNotFound, "test", "nothing there")
			}
			if _, err := io.WriteString(w, `["a",`); err != nil {
				return err
			}
			if p.Text == "late" {
				return errors.New("broken")
			}
			_, err := io.WriteString(w, `"b"]`)
			return err
		}),
	}
)

func newBench(t *testing.T, more ...interface{ Bind(*bench) *rpc.Method }) *bench {
	t.Helper()
	store, err := sqlite.Open(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	who := keys.New(store, nil)
	b := &bench{observed: map[string]int{}}
	if b.operator, err = who.EnsureOperator(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	table := append(rpc.Table[*bench]{strict, tolerant, open, together, streamed}, more...)
	d := rpc.NewDispatcher(rpc.Recorder{
		Log: slog.New(slog.NewTextHandler(&b.log, nil)),
		Refused: func(_ context.Context, who hub.AgentID, op string, code hub.Code) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.refused = append(b.refused, fmt.Sprintf("%s %s %s", who, op, code))
		},
		Observe: func(method string, code hub.Code, _ time.Duration) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.observed[method+" "+string(code)]++
		},
	}, table.Bind(b))
	b.door = rpc.NewDoor(d, callers.New(store, who, nil), false)
	s := httptest.NewServer(b.door)
	t.Cleanup(s.Close)
	b.url, b.client = s.URL, rpc.NewClient(s.URL, b.operator, "s1", nil)
	return b
}

// post returns status and body of one request; zeros if the connection breaks.
func (b *bench) post(t *testing.T, key, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, b.url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, ""
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(raw)
}

func request(id int, method, params string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`, id, method, params)
}

func TestDoor(t *testing.T) {
	b := newBench(t)
	for _, tt := range []struct {
		name, key, body string
		status          int
		want            string
	}{
		{"a caller is identified, with its session", b.operator, request(1, "test/strict", `{"text":"x"}`), 200, `"result":"operator  x"`},
		{"a strict operation refuses unknown members", b.operator, request(1, "test/strict", `{"txt":"x"}`), 200, `txt: unknown member`},
		{"a tolerant operation leaves unknown members alone and reads either spelling", b.operator, request(1, "cacp/test/tolerant", `{"TEXT":"x","more":1}`), 200, `"result":"operator  x"`},
		{"a tolerant operation refuses members that differ in case only, too", b.operator, request(1, "cacp/test/tolerant", `{"text":"x","Text":"y"}`), 200, `"message":"Invalid params: `},
		{"a request without a key is refused", "", request(1, "test/strict", `{}`), 401, `"reason":"unauthenticated"`},
		{"a batch without a key is refused", "", "[" + request(1, "cacp/test/open", `{}`) + "]", 401, `"reason":"unauthenticated"`},
		{"an operation that is open to guests needs no key", "", request(1, "cacp/test/open", `{"text":"x"}`), 200, `"result":"guest  x"`},
		{"an unknown method is said to be unknown", b.operator, request(1, "test/none", `{}`), 200, `"code":-32601`},
		{"a request that is too large for its operation is refused", b.operator, request(1, "test/strict", `{"text":"`+strings.Repeat("x", rpc.DefaultBody)+`"}`), 200, `"reason":"too_large"`},
		{"requests of one group are performed together, and fail alone", b.operator, "[" + request(1, "test/together", `{}`) + "," + request(2, "test/together", `{"text":"bad"}`) + "," + request(3, "test/together", `{"no":1}`) + "]", 200,
			`[{"jsonrpc":"2.0","id":1,"result":2},{"jsonrpc":"2.0","id":2,"error":{"code":-32602,"message":"bad"`},
		{"an operation may allow larger requests", b.operator, request(1, "test/together", `{"text":"`+strings.Repeat("x", rpc.DefaultBody)+`"}`), 200, `"result":1`},
		{"a streamed result is one response", b.operator, request(7, "test/streamed", `{}`), 200, `{"jsonrpc":"2.0","id":7,"result":["a","b"]}`},
		{"a streamed result fits into a batch", b.operator, "[" + request(7, "test/streamed", `{}`) + "]", 200, `[{"jsonrpc":"2.0","id":7,"result":["a","b"]}]`},
		{"a stream that fails before its first byte is an error", b.operator, request(7, "test/streamed", `{"text":"early"}`), 200, `"reason":"not_found"`},
		{"a stream that fails later is cut off", b.operator, request(7, "test/streamed", `{"text":"late"}`), 0, ``},
		{"a notification gets no answer", b.operator, `{"jsonrpc":"2.0","method":"test/strict"}`, 204, ``},
	} {
		t.Run(tt.name, func(t *testing.T) {
			status, body := b.post(t, tt.key, tt.body)
			if status != tt.status || !strings.Contains(body, tt.want) || tt.want == "" && body != "" {
				t.Errorf("got %d %.300s, want %d %s", status, body, tt.status, tt.want)
			}
		})
	}
}

func TestRecorder(t *testing.T) {
	b := newBench(t)
	t.Run("a refusal is journaled once, and every performed call is observed", func(t *testing.T) {
		b.client.Raw(t.Context(), "test/strict", []byte(`{"no":1}`))
		b.client.Raw(t.Context(), "no such method "+strings.Repeat("x", 100), nil)
		b.post(t, "wrong", request(1, "test/strict", `{}`))
		if _, err := rpc.Call(t.Context(), b.client, strict, echoParams{}); err != nil {
			t.Fatal(err)
		}
		if got, want := fmt.Sprint(b.refused), "[operator test/strict schema_invalid operator unknown method not_found  authenticate unauthenticated]"; got != want {
			t.Errorf("refused: got %s, want %s", got, want)
		}
		if len(b.observed) != 2 || b.observed["test/strict "] != 1 || b.observed["test/strict schema_invalid"] != 1 {
			t.Errorf("observed: got %v, want no names that callers invent", b.observed)
		}
	})
}

func TestPanic(t *testing.T) {
	b := newBench(t,
		define("test/panic", rpc.Local, rpc.Strict, func(context.Context, *bench, hub.Caller, echoParams) (any, error) {
			panic("the cat is on the keyboard")
		}),
		define("test/broken", rpc.Local, rpc.Strict, func(context.Context, *bench, hub.Caller, echoParams) (any, error) {
			return nil, errors.New("a secret detail")
		}),
		define("test/unwritable", rpc.Local, rpc.Strict, func(context.Context, *bench, hub.Caller, echoParams) (any, error) { return func() {}, nil }),
	)
	for _, method := range []string{"test/panic", "test/broken", "test/unwritable"} {
		t.Run("R3-114 what goes wrong inside "+method+" ends there, tells no detail and is logged", func(t *testing.T) {
			b.log.Reset()
			status, body := b.post(t, b.operator, `[{"jsonrpc":"2.0","id":1,"method":"`+method+`"},{"jsonrpc":"2.0","id":2,"method":"test/strict"}]`)
			if status != http.StatusOK || !strings.Contains(body, `"code":-32000`) || !strings.Contains(body, `"reason":"internal"`) {
				t.Errorf("answer: got %d %s, want -32000 internal", status, body)
			}
			if strings.Contains(body, "cat") || strings.Contains(body, "secret") {
				t.Errorf("answer: got %s, want nothing of the cause", body)
			}
			if !strings.Contains(body, `"id":2,"result"`) {
				t.Errorf("answer: got %s, want the second call performed", body)
			}
			if !strings.Contains(b.log.String(), method) {
				t.Errorf("log: got %q, want the failure of %s", b.log.String(), method)
			}
		})
	}
}

func TestErrorsOnTheWire(t *testing.T) {
	for code, number := range map[hub.Code]int{
		hub.CodeInvalid: -32602, hub.CodePayloadTooLarge: -32602, hub.CodeTooLarge: -32602, hub.CodeUnknownType: -32602,
		hub.CodeReservedType: -32602, hub.CodeUnknownRecipient: -32602, hub.CodeNotFound: -32602, hub.CodeConflict: -32602,
		hub.CodeSequence: -32602, hub.CodeNotEnabled: -32602,
		hub.CodeTampering: -32000, hub.CodeDenied: -32000, hub.CodePolicy: -32000, hub.CodeRateLimited: -32000,
		hub.CodeCircuitOpen: -32000, hub.CodeLoop: -32000, hub.CodeDegraded: -32000, hub.CodeInternal: -32000,
	} {
		t.Run(fmt.Sprintf("R3-019 %s goes out as %d and comes back as itself", code, number), func(t *testing.T) {
			b := newBench(t, define("test/fail", rpc.Local, rpc.Strict, func(context.Context, *bench, hub.Caller, echoParams) (any, error) {
				return nil, fmt.Errorf("wrapped: %w", hub.Errorf(code, "test", "the reason").WithHint("do this").WithRetry(1500*time.Millisecond))
			}))
			_, body := b.post(t, b.operator, `{"jsonrpc":"2.0","id":1,"method":"test/fail"}`)
			var got struct {
				Error struct {
					Code int
					Data rpc.Reason
				}
			}
			if err := json.Unmarshal([]byte(body), &got); err != nil || got.Error.Code != number || got.Error.Data.Reason != code {
				t.Errorf("wire: got %s, want %d %s", body, number, code)
			}
			_, err := b.client.Raw(t.Context(), "test/fail", nil)
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

func TestClientWithoutHub(t *testing.T) {
	t.Run("a hub that is not there is degraded and says where it was looked for", func(t *testing.T) {
		s := httptest.NewServer(http.NotFoundHandler())
		url := s.URL
		s.Close()
		_, err := rpc.Call(t.Context(), rpc.NewClient(url, "key", "", nil), strict, echoParams{})
		if hub.CodeOf(err) != hub.CodeDegraded || !errors.Is(err, rpc.ErrUnreachable) || !strings.Contains(err.Error(), url) {
			t.Errorf("error: got %v, want degraded, unreachable, with %s", err, url)
		}
	})
	t.Run("what answers otherwise is not taken for a hub", func(t *testing.T) {
		s := httptest.NewServer(http.NotFoundHandler())
		defer s.Close()
		_, err := rpc.Call(t.Context(), rpc.NewClient(s.URL, "key", "", nil), strict, echoParams{})
		if hub.CodeOf(err) != hub.CodeDegraded || errors.Is(err, rpc.ErrUnreachable) {
			t.Errorf("error: got %v, want degraded", err)
		}
	})
	t.Run("the key is in no error", func(t *testing.T) {
		for _, url := range []string{"http://127.0.0.1:1", "http://%zz", "ftp://x", ""} {
			if _, err := rpc.Call(t.Context(), rpc.NewClient(url, "top-secret", "", nil), strict, echoParams{}); err == nil || strings.Contains(err.Error(), "top-secret") {
				t.Errorf("%s: got %v, want an error without the key", url, err)
			}
		}
	})
}

func TestSession(t *testing.T) {
	b := newBench(t)
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
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, b.url, strings.NewReader(request(1, "test/strict", `{}`)))
			if err != nil {
				t.Fatal(err)
			}
			maps.Copy(req.Header, tt.header)
			req.Header.Set("Authorization", "Bearer "+b.operator)
			w := httptest.NewRecorder()
			b.door.ServeHTTP(w, req)
			if want := `"result":"operator ` + tt.want + ` "`; !strings.Contains(w.Body.String(), want) {
				t.Errorf("got %s, want %s", w.Body, want)
			}
		})
	}
}

// TestDeadline performs operations that wait for the end of their context: at their deadline they
// end as overloaded, and before it when their caller goes away.
func TestDeadline(t *testing.T) {
	began := make(chan struct{}, 1)
	wait := func(ctx context.Context, _ *bench, _ hub.Caller, _ echoParams) (string, error) {
		began <- struct{}{}
		<-ctx.Done()
		return "", ctx.Err()
	}
	short := rpc.Within(time.Millisecond, define("test/short", rpc.Local, rpc.Strict, wait))
	long := rpc.Within(time.Hour, define("test/long", rpc.Local, rpc.Strict, wait))
	d := rpc.NewDispatcher(rpc.Recorder{Refused: func(context.Context, hub.AgentID, string, hub.Code) {}}, rpc.Table[*bench]{short, long}.Bind(&bench{}))
	operator := hub.Caller{Kind: hub.CallerOperator, ID: hub.Operator}

	_, err := rpc.Perform(t.Context(), d, operator, short, echoParams{})
	if hub.CodeOf(err) != hub.CodeOverloaded || !strings.Contains(err.Error(), "1ms, its deadline") {
		t.Errorf("at its deadline: got %v", err)
	}
	<-began

	ctx, leave := context.WithCancel(t.Context())
	go func() {
		<-began
		leave()
	}()
	if _, err := rpc.Perform(ctx, d, operator, long, echoParams{}); !errors.Is(err, context.Canceled) || hub.CodeOf(err) == hub.CodeOverloaded {
		t.Errorf("without its caller: got %v", err)
	}
}
