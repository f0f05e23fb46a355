package mcptools_test

import (
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/parley-agents/parley/server"
)

// A raw client speaks MCP over HTTP by itself, so that the very answers can be
// compared.
type raw struct {
	t       *testing.T
	url     string
	key     string
	session string
}

func (c *raw) do(method, body string, change ...func(http.Header)) (int, string, http.Header) {
	c.t.Helper()
	res := c.send(method, body, change...)
	defer res.Body.Close()
	out, err := io.ReadAll(res.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return res.StatusCode, string(out), res.Header
}

// send returns the answer to a request before its body came.
func (c *raw) send(method, body string, change ...func(http.Header)) *http.Response {
	c.t.Helper()
	req, err := http.NewRequestWithContext(c.t.Context(), method, c.url+"/mcp", strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+c.key)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	if c.session != "" {
		req.Header.Set("Mcp-Session-Id", c.session)
		req.Header.Set("Mcp-Protocol-Version", "2025-06-18")
	}
	for _, f := range change {
		f(req.Header)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		c.t.Fatal(err)
	}
	return res
}

// begin opens a session in which nothing was called yet.
func (r *running) begin(t *testing.T, key string) *raw {
	t.Helper()
	c := &raw{t: t, url: r.url, key: key}
	_, _, h := c.do("POST", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`)
	if c.session = h.Get("Mcp-Session-Id"); c.session == "" {
		t.Fatal("there is no session")
	}
	c.do("POST", `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return c
}

func call(id, tool, args string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":%q,"arguments":%s}}`, id, tool, args)
}

// toldBefore returns an answer without the capabilities, which the first answer of a
// session has.
func toldBefore(answer string) string {
	return regexp.MustCompile(`capabilities: [^"]*\\n`).ReplaceAllString(answer, "")
}

func TestShortcut(t *testing.T) {
	r := start(t, server.Options{})
	aliceKey, bobKey := r.add(t, "alice"), r.add(t, "bob")
	for _, tt := range []struct{ name, tool, args string }{
		{"a result", "acp_query", `{"limit":1}`},
		{"an empty list of arguments", "acp_handoff", `{"action":"list"}`},
		{"a refusal", "acp_send", `{"to":["nobody"],"text":"x"}`},
		{"arguments that are no object", "acp_send", `[]`},
		{"arguments that are null", "acp_query", `null`},
		{"an unknown argument", "acp_query", `{"colour":"blue"}`},
	} {
		t.Run(tt.name+" is the same on the whole way and on the shortcut", func(t *testing.T) {
			c := r.begin(t, aliceKey)
			status1, first, h1 := c.do("POST", call(`"x"`, tt.tool, tt.args)) // the first call of a session goes the whole way
			first = toldBefore(first)
			status2, second, h2 := c.do("POST", call(`"x"`, tt.tool, tt.args))
			if first != second || status1 != status2 {
				t.Errorf("got %d %s, then %d %s", status1, first, status2, second)
			}
			for _, name := range []string{"Content-Type", "Mcp-Session-Id", "Cache-Control"} {
				if h1.Get(name) != h2.Get(name) {
					t.Errorf("%s: got %q, then %q", name, h1.Get(name), h2.Get(name))
				}
			}
		})
	}
	t.Run("ids of every kind come back as they were", func(t *testing.T) {
		c := r.begin(t, aliceKey)
		c.do("POST", call("1", "acp_query", "{}"))
		for _, id := range []string{"7", `"seven"`, "9007199254740993"} {
			if _, got, _ := c.do("POST", call(id, "acp_query", "{}")); !strings.Contains(got, `"id":`+id+`,`) {
				t.Errorf("got %s, want the id %s", got, id)
			}
		}
	})
	t.Run("R3-007 somebody else's session is of no use, however often it was used", func(t *testing.T) {
		c := r.begin(t, aliceKey)
		for range 3 {
			c.do("POST", call("1", "acp_query", "{}"))
		}
		thief := &raw{t: t, url: c.url, key: bobKey, session: c.session}
		if status, got, _ := thief.do("POST", call("1", "acp_send", `{"to":["bob"],"text":"as alice"}`)); status < 400 {
			t.Errorf("got %d %s, want a refusal", status, got)
		}
		nobody := &raw{t: t, url: c.url, key: "cacp_sk_live_wrong", session: c.session}
		if status, _, _ := nobody.do("POST", call("1", "acp_query", "{}")); status != http.StatusUnauthorized {
			t.Errorf("without a key: got %d, want 401", status)
		}
	})
	t.Run("what is not plainly a call is answered as before the shortcut", func(t *testing.T) {
		for name, body := range map[string]string{
			"a tool that there is not": call("1", "acp_dance", "{}"),
			"no params":                `{"jsonrpc":"2.0","id":1,"method":"tools/call"}`,
			"a name that is a number":  `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":1}}`,
			"another method":           `{"jsonrpc":"2.0","id":1,"method":"ping"}`,
			"more than it needs":       `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"acp_query","arguments":{},"_meta":{"progressToken":1}}}`,
			"a _meta that is none":     `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"acp_query","arguments":{},"_meta":3}}`,
			"no JSON":                  `{"jsonrpc":`,
			"too much":                 call("1", "acp_send", `{"text":"`+strings.Repeat("x", 2<<20)+`"}`),
		} {
			fresh, used := r.begin(t, aliceKey), r.begin(t, aliceKey)
			used.do("POST", call("1", "acp_query", "{}"))
			status1, first, _ := fresh.do("POST", body)
			status2, second, _ := used.do("POST", body)
			first, second = toldBefore(first), toldBefore(second)
			if status1 != status2 || first != second {
				t.Errorf("%s: got %d %s without, %d %s with the shortcut", name, status1, first, status2, second)
			}
		}
		c := r.begin(t, aliceKey)
		c.do("POST", call("1", "acp_query", "{}"))
		if status, got, _ := c.do("POST", call("1", "acp_query", "{}"), func(h http.Header) { h.Set("Accept", "application/json") }); status != http.StatusBadRequest {
			t.Errorf("without text/event-stream: got %d %s, want 400", status, got)
		}
		if status, got, _ := c.do("POST", call("1", "acp_query", "{}"), func(h http.Header) { h.Set("Mcp-Protocol-Version", "1999-01-01") }); status != http.StatusBadRequest {
			t.Errorf("another version: got %d %s, want 400", status, got)
		}
	})
	t.Run("a session that was ended takes no shortcut", func(t *testing.T) {
		c := r.begin(t, aliceKey)
		for range 2 {
			c.do("POST", call("1", "acp_query", "{}"))
		}
		c.do("DELETE", "")
		if status, got, _ := c.do("POST", call("1", "acp_query", "{}")); status != http.StatusNotFound {
			t.Errorf("got %d %s, want 404", status, got)
		}
	})
}
