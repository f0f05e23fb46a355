package mcptools_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/operation/rpc"
	"github.com/parley-agents/parley/internal/surface/mcptools"
	"github.com/parley-agents/parley/server"
)

func TestManySessions(t *testing.T) {
	t.Run("an agent has a bounded number of sessions, and the oldest gives way", func(t *testing.T) {
		const most = 32
		r := start(t, server.Options{})
		aliceKey, bobKey := r.add(t, "alice"), r.add(t, "bob")
		bobs := r.begin(t, bobKey)
		var all []*raw
		for range most + 3 {
			all = append(all, r.begin(t, aliceKey))
		}
		lives := func(c *raw) bool {
			first, _, _ := c.do("POST", call("1", "acp_query", "{}")) // the whole way
			again, _, _ := c.do("POST", call("1", "acp_query", "{}")) // the shortcut
			if first != again {
				t.Errorf("the whole way answers %d, the shortcut %d", first, again)
			}
			return again == http.StatusOK
		}
		if !lives(bobs) || !lives(all[len(all)-1]) {
			t.Error("the newest session, or that of another agent, was ended")
		}
		n := 0
		for _, c := range all {
			if lives(c) {
				n++
			}
		}
		if n != most {
			t.Errorf("got %d sessions, want %d", n, most)
		}
	})
}

func TestSilentSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := mcptools.NewHandler("test", rpc.NewDispatcher(rpc.Recorder{Refused: func(context.Context, hub.AgentID, string, hub.Code) {}}, api.Operations.Bind(nil)), nil, nil)
		defer h.Close()
		post := func(session, body string) *http.Response {
			t.Helper()
			r := httptest.NewRequestWithContext(t.Context(), "POST", "/mcp", strings.NewReader(body))
			r.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}, "Authorization": {"Bearer key"}}
			if session != "" {
				r.Header.Set("Mcp-Session-Id", session)
			}
			w := httptest.NewRecorder()
			if err := h.Serve(w, r, hub.Caller{ID: "alice", Kind: hub.CallerAgent}); err != nil {
				t.Fatal(err)
			}
			return w.Result()
		}
		begin := func() string {
			return post("", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`).Header.Get("Mcp-Session-Id")
		}
		const ping = `{"jsonrpc":"2.0","id":2,"method":"ping"}`
		calling := begin()
		refused := call("2", "acp_query", `{"colour":"blue"}`) // before the operation
		for range 20 {
			<-time.After(8 * time.Minute)
			if got := post(calling, refused).StatusCode; got != http.StatusOK {
				t.Fatalf("a call in a session that is used: got %d", got)
			}
		}
		if got := post(calling, ping).StatusCode; got != http.StatusOK {
			t.Errorf("a session in which plain calls alone came for 160 minutes: got %d", got)
		}
		silent, used := begin(), begin()
		for range 3 {
			<-time.After(25 * time.Minute) // by the clock of the bubble
			if got := post(used, ping).StatusCode; got != http.StatusOK {
				t.Fatalf("a session that is used: got %d", got)
			}
		}
		if got := post(silent, ping).StatusCode; got != http.StatusNotFound {
			t.Errorf("a session that was silent for 75 minutes: got %d, want 404", got)
		}
	})
}
