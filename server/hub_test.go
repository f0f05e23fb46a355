package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ncruces/go-sqlite3"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/operation/rpc"
	"github.com/parley-agents/parley/internal/testing/storetest"
	"github.com/parley-agents/parley/server"
)

// A running is a hub that answers over HTTP on a free port of loopback.
type running struct {
	home     string
	url      string
	in       string // where webhooks come in; "" if nowhere
	server   *server.Server
	secret   string // the operator's key
	operator string // a token for it
	http     *http.Client
	db       *sqlite3.Conn // beside the hub, read-only; nil until it is needed
	stop     func()        // ends the hub and waits until it is gone; may be called again
	renew    func()        // gets another token
}

// start starts a hub. Home and Addr are filled in where they are empty.
func start(t *testing.T, o server.Options) *running {
	t.Helper()
	return startAs(t, o, func(*server.Server) {})
}

// startBroken is start for a hub a part of which panics.
func startBroken(t *testing.T, o server.Options) *running {
	t.Helper()
	return startAs(t, o, (*server.Server).Break)
}

func startAs(t *testing.T, o server.Options, change func(*server.Server)) *running {
	t.Helper()
	if o.Home == "" {
		o.Home = newHome(t, o)
	}
	if o.Addr == "" {
		o.Addr = "127.0.0.1:0"
	}
	s, err := server.New(t.Context(), o)
	if err != nil {
		t.Fatalf("start a hub: %v", err)
	}
	change(s)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx) }()
	transport := &http.Transport{}
	stopped := false
	r := &running{home: o.Home, url: s.URL(), in: s.InURL(), server: s, http: &http.Client{Transport: transport}}
	r.stop = func() {
		if stopped {
			return
		}
		stopped = true
		if r.db != nil {
			r.db.Close()
			r.db = nil
		}
		cancel()
		if err := <-done; err != nil {
			t.Errorf("serve: got %v, want nil", err)
		}
		transport.CloseIdleConnections()
	}
	t.Cleanup(r.stop)
	key, err := os.ReadFile(filepath.Join(o.Home, server.OperatorKeyFile))
	if err != nil {
		t.Fatal(err)
	}
	r.secret = strings.TrimSpace(string(key))
	r.renew = func() { r.operator = s.TokenFor(t, r.secret) }
	r.renew()
	return r
}

// newHome makes a home with an empty database, unless the options name another store. TestStart has
// hubs that make their own.
func newHome(t *testing.T, o server.Options) string {
	t.Helper()
	home := t.TempDir()
	if o.Store != "" {
		return home
	}
	storetest.Prepare(t, home)
	return home
}

// quiet is a hub without what tests mostly do not look at.
func quiet() server.Options { return server.Options{NoInboxFiles: true} }

// unlimited is a hub that takes as much as a test sends.
func unlimited() server.Options {
	o := quiet()
	o.Limits.Unsafe = true
	return o
}

// as returns a client that calls with the given key.
func (r *running) as(key string) *rpc.Client { return rpc.NewClient(r.url, key, "", r.http) }

// add adds agents and returns their keys.
func (r *running) add(t *testing.T, names ...hub.AgentID) []string {
	t.Helper()
	keys := make([]string, len(names))
	for i, n := range names {
		k, err := rpc.Call(t.Context(), r.as(r.operator), api.AddAgent, api.AgentParams{ID: n})
		if err != nil {
			t.Fatalf("add %s: %v", n, err)
		}
		keys[i] = k.Key
	}
	return keys
}

// An answer is what came back over HTTP.
type answer struct {
	status int
	header http.Header
	body   []byte

	ID     json.RawMessage `json:"id"`
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Code    int        `json:"code"`
		Message string     `json:"message"`
		Data    rpc.Reason `json:"data"`
	} `json:"error"`
}

// do sends any request. A key of "" sends none.
func (r *running) do(t *testing.T, method, path, key string, body io.Reader, change ...func(*http.Request)) answer {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, r.url+path, body)
	if err != nil {
		t.Fatal(err)
	}
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	for _, f := range change {
		f(req)
	}
	res, err := r.http.Do(req)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	defer res.Body.Close()
	a := answer{status: res.StatusCode, header: res.Header}
	if a.body, err = io.ReadAll(res.Body); err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	json.Unmarshal(a.body, &a) // what is not JSON-RPC has neither result nor error
	return a
}

// post sends a body to the JSON-RPC endpoint.
func (r *running) post(t *testing.T, key, body string) answer {
	t.Helper()
	return r.do(t, http.MethodPost, "/", key, strings.NewReader(body))
}

// call makes one JSON-RPC call.
func (r *running) call(t *testing.T, key, method, params string) answer {
	t.Helper()
	return r.post(t, key, fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":%s}`, method, params))
}

// wantError fails unless a is a JSON-RPC error of an admitted caller.
func (a answer) wantError(t *testing.T, rpc int, reason hub.Code) {
	t.Helper()
	if a.status != http.StatusOK {
		t.Errorf("HTTP status: got %d, want 200 for an admitted caller", a.status)
	}
	a.wantReason(t, rpc, reason)
}

func (a answer) wantReason(t *testing.T, rpc int, reason hub.Code) {
	t.Helper()
	switch {
	case a.Error == nil:
		t.Fatalf("answer: got %.300s, want the error %s", a.body, reason)
	case a.Error.Code != rpc || a.Error.Data.Reason != reason:
		t.Errorf("error: got %d %s (%s), want %d %s", a.Error.Code, a.Error.Data.Reason, a.Error.Message, rpc, reason)
	case a.Error.Message == "":
		t.Errorf("error %s has no message", reason)
	}
}

// wantOK fails unless a has a result, which it reads into v if v is not nil.
func (a answer) wantOK(t *testing.T, v any) {
	t.Helper()
	if a.status != http.StatusOK || a.Error != nil || a.Result == nil {
		t.Fatalf("answer: got status %d %.300s, want a result", a.status, a.body)
	}
	if v != nil {
		if err := json.Unmarshal(a.Result, v); err != nil {
			t.Fatal(err)
		}
	}
}

// wantCode fails unless err has the code.
func wantCode(t *testing.T, err error, want hub.Code) {
	t.Helper()
	if got := hub.CodeOf(err); got != want {
		t.Errorf("error: got %q (%v), want %q", got, err, want)
	}
}

// must fails the test on an error and returns the value.
func must[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// openDB opens the hub's database beside the hub, and waits while the hub writes.
func openDB(t *testing.T, home string, flags sqlite3.OpenFlag) *sqlite3.Conn {
	t.Helper()
	db, err := sqlite3.OpenFlags(filepath.Join(home, "hub.db"), flags)
	if err == nil {
		err = db.BusyTimeout(time.Minute)
	}
	if err != nil {
		t.Fatal(err)
	}
	return db
}

// rows returns what a query finds in the hub's database, a line per row.
func (r *running) rows(t *testing.T, query string) []string {
	t.Helper()
	if r.db == nil {
		r.db = openDB(t, r.home, sqlite3.OPEN_READONLY)
	}
	st, _, err := r.db.Prepare(query)
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	var out []string
	for st.Step() {
		var cells []string
		for i := range st.ColumnCount() {
			cells = append(cells, st.ColumnText(i))
		}
		out = append(out, strings.Join(cells, "|"))
	}
	if err := st.Err(); err != nil {
		t.Fatal(err)
	}
	return out
}

// tables returns the content of every table that a refused call must leave
// alone: all but the journal and the marks of those who read it.
func (r *running) tables(t *testing.T) map[string][]string {
	t.Helper()
	// Who searches makes the hub index what it has put off. One that cannot write
	// answers with an error, and will not index by itself either.
	_, _ = rpc.Call(t.Context(), r.as(r.operator), api.Query, api.QueryParams{Text: "anything"})
	out := map[string][]string{}
	for _, name := range r.rows(t, `SELECT name FROM sqlite_schema WHERE type = 'table' AND sql NOT LIKE 'CREATE VIRTUAL%'`) {
		if name == "journal" || name == "cursors" || name == "leases" || strings.HasPrefix(name, "message_text_") || strings.HasPrefix(name, "tree_") {
			continue // marks, leases that a restart raises, what the engine keeps by itself, and the tree over the journal
		}
		out[name] = r.rows(t, `SELECT * FROM "`+name+`"`)
		switch name {
		case "delivery_log": // about the other channels the router decides by itself, after the call
			out[name] = r.rows(t, `SELECT * FROM delivery_log WHERE channel = 'inbox'`)
		case "acp_meta":
			out[name] = r.rows(t, `SELECT * FROM acp_meta WHERE key <> 'journal.files' AND key <> 'proof/log' AND key NOT LIKE 'metrics%' AND key NOT LIKE 'team folder %' AND value <> '{}'`) // marks of consumers, and that the router has visited an agent
		}
		slices.Sort(out[name])
	}
	if len(out["agents"]) == 0 {
		t.Fatal("the snapshot is empty: it does not look at the hub's database")
	}
	return out
}

// wantSame fails if a table differs, and returns the tables.
func (r *running) wantSame(t *testing.T, before map[string][]string) (after map[string][]string) {
	t.Helper()
	after = r.tables(t)
	for name := range after {
		if !slices.Equal(before[name], after[name]) {
			t.Errorf("table %s was changed:\nbefore %q\nafter  %q", name, before[name], after[name])
		}
	}
	return after
}

// journal returns the entries after a number, as actor|action|outcome|facts.
func (r *running) journal(t *testing.T, after int) []string {
	t.Helper()
	return r.rows(t, fmt.Sprintf(`SELECT actor, action, outcome, facts_json FROM journal WHERE seq > %d ORDER BY seq`, after))
}

func (r *running) journalHead(t *testing.T) int {
	t.Helper()
	n, err := strconv.Atoi(r.rows(t, `SELECT coalesce(max(seq), 0) FROM journal`)[0])
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// send sends plain text and fails the test if it is refused.
func (r *running) send(t *testing.T, key string, to hub.AgentID, text string) hub.EnvelopeID {
	t.Helper()
	return must(rpc.Call(t.Context(), r.as(key), api.Send, api.SendParams{To: api.Recipients{to}, Text: text}))(t).ID
}

// object writes v as JSON.
func object(t *testing.T, v any) string {
	t.Helper()
	var b bytes.Buffer
	if err := json.NewEncoder(&b).Encode(v); err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(b.String())
}
