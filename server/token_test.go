package server_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/parley-agents/parley/hub"
)

func TestTokens(t *testing.T) {
	t.Parallel()
	h := newHosted(t, "counterparty")
	other := ask[struct{ ProjectID string }](t, h.running, "cacp/project/create", m{"name": "secret", "objective": "o"}).ProjectID
	h.add(t, "ci", "dotted.name")
	type token struct{ Token, JTI string }
	mint := func(t *testing.T, agent string, permissions ...string) token {
		t.Helper()
		return ask[token](t, h.running, "parley/project/token", m{"projectId": h.project, "agent": agent, "permissions": permissions})
	}
	reads := func(t *testing.T, tk token) answer {
		t.Helper()
		return h.call(t, tk.Token, "cacp/project/get", object(t, m{"projectId": h.project}))
	}
	dead := func(t *testing.T, tk token) {
		t.Helper()
		if a := reads(t, tk); a.status != 401 {
			t.Errorf("got %d %s, want 401", a.status, a.body)
		}
		reads(t, tk).wantReason(t, -32000, hub.CodeUnauthenticated)
	}
	for _, agent := range []hub.AgentID{"ci", "dotted.name"} {
		t.Run("a token ends when "+string(agent)+" is paused, and does not come back", func(t *testing.T) {
			tk := mint(t, string(agent), "project:read")
			reads(t, tk).wantOK(t, nil)
			ask[m](t, h.running, "parley/agent/pause", m{"id": agent})
			dead(t, tk)
			dead(t, mint(t, string(agent), "project:read"))
			ask[m](t, h.running, "parley/agent/resume", m{"id": agent})
			dead(t, tk)
			reads(t, mint(t, string(agent), "project:read")).wantOK(t, nil)
		})
		t.Run("a token ends with the keys of "+string(agent), func(t *testing.T) {
			tk := mint(t, string(agent), "project:read")
			ask[m](t, h.running, "parley/agent/key", m{"id": agent, "label": "second"})
			ask[m](t, h.running, "parley/agent/revoke", m{"id": agent, "label": "second"})
			reads(t, tk).wantOK(t, nil) // it has another key
			ask[m](t, h.running, "parley/agent/revoke", m{"id": agent})
			dead(t, tk)
			ask[m](t, h.running, "parley/agent/key", m{"id": agent, "label": "third"})
			dead(t, tk)
		})
	}
	t.Run("a token ends with its peer", func(t *testing.T) {
		g := invited(t, h.running, h.project, "mobile", "aid://mobile.example/hub@1.0.0", nil)
		tk := mint(t, string(g.aid), "project:read")
		reads(t, tk).wantOK(t, nil)
		ask[m](t, h.running, "parley/peer/remove", m{"agentId": g.aid})
		dead(t, tk)
	})
	t.Run("a token is listed and revoked by its id", func(t *testing.T) {
		tk := mint(t, "aid://ci.example/build@1.0.0", "project:read")
		list := ask[struct{ Tokens []hub.Token }](t, h.running, "parley/token/list", m{"projectId": h.project}).Tokens
		if len(list) == 0 || list[0].ID != tk.JTI || list[0].Agent != "aid://ci.example/build@1.0.0" || !list[0].RevokedAt.IsZero() {
			t.Errorf("got %+v, want %s first", list, tk.JTI)
		}
		if list := ask[struct{ Tokens []hub.Token }](t, h.running, "parley/token/list", m{"projectId": other}).Tokens; len(list) != 0 {
			t.Errorf("of another project: got %+v", list)
		}
		ask[m](t, h.running, "parley/token/revoke", m{"jti": tk.JTI})
		dead(t, tk)
		h.call(t, h.operator, "parley/token/revoke", `{"jti":"none"}`).wantError(t, -32602, hub.CodeNotFound)
		key := h.add(t, "coder")[0]
		h.call(t, key, "parley/token/revoke", object(t, m{"jti": tk.JTI})).wantError(t, -32000, hub.CodeDenied)
		h.call(t, key, "parley/token/list", `{}`).wantError(t, -32000, hub.CodeDenied)
	})
	t.Run("the use of a token is journaled, and a flood of uses is one row", func(t *testing.T) {
		tk := mint(t, "aid://ci.example/build@1.0.0", "project:read")
		head := h.journalHead(t)
		for range 50 {
			reads(t, tk).wantOK(t, nil)
		}
		got := h.rows(t, `SELECT actor, facts_json FROM journal WHERE action = 'token.used' AND subject = '`+tk.JTI+`'`)
		if len(got) != 1 || !strings.Contains(got[0], "peer:aid://ci.example/build@1.0.0|") || !strings.Contains(got[0], "cacp/project/get") {
			t.Errorf("got %q after %d", got, head)
		}
	})
	t.Run("a token to read lists its project and no other", func(t *testing.T) {
		tk := mint(t, "aid://ci.example/build@1.0.0", "project:read")
		var got struct{ Projects []struct{ ProjectID string } }
		h.call(t, tk.Token, "cacp/project/list", `{"summary":true}`).wantOK(t, &got)
		if len(got.Projects) != 1 || got.Projects[0].ProjectID != h.project {
			t.Errorf("got %+v, want %s alone", got, h.project)
		}
		h.call(t, mint(t, "aid://ci.example/build@1.0.0", "context:share").Token, "cacp/project/list", `{}`).wantError(t, -32000, hub.CodeDenied)
	})
	t.Run("a token does not widen the permissions of its holder", func(t *testing.T) {
		g := invited(t, h.running, h.project, "mobile", "aid://reader.example/hub@1.0.0", m{"permissions": []string{"project:read"}})
		tk := mint(t, string(g.aid), "project:read", "contract:propose")
		call := func(method string, params m) answer {
			body := object(t, m{"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
			return h.do(t, "POST", "/", g.key, strings.NewReader(body), asJSON, func(r *http.Request) { r.Header.Set("X-Project-Token", tk.Token) })
		}
		tables := h.tables(t)
		call("cacp/contract/propose", m{"projectId": h.project, "type": "custom", "name": "more", "content": m{"a": 1}}).wantError(t, -32000, hub.CodeDenied)
		h.wantSame(t, tables)
		call("cacp/project/get", m{"projectId": h.project}).wantOK(t, nil)
	})
	t.Run("a token of one project makes no other project", func(t *testing.T) {
		tk := mint(t, "aid://ci.example/build@1.0.0", "project:read", "project:write")
		tables := h.tables(t)
		h.call(t, tk.Token, "cacp/project/create", object(t, m{"name": "another", "objective": "o"})).wantError(t, -32000, hub.CodeDenied)
		h.wantSame(t, tables)
	})
	t.Run("a token without a project in the call gets nothing", func(t *testing.T) {
		tk := mint(t, "aid://ci.example/build@1.0.0", "project:read", "project:write", "contract:propose", "contract:respond", "context:share", "implementation:update", "file:share")
		var methods struct{ Methods []string }
		if err := json.Unmarshal(h.do(t, "GET", "/methods", "", nil).body, &methods); err != nil || len(methods.Methods) < 60 {
			t.Fatalf("only %d methods", len(methods.Methods))
		}
		tables := h.tables(t)
		for _, method := range methods.Methods {
			if method == "cacp/project/list" || method == "cacp/invite/redeem" {
				continue // the one is filtered, the other needs an invite
			}
			for _, params := range []string{`{}`, `{"projectId":""}`, `{"projectId":null}`, object(t, m{"project_id": other, "projectId": other})} {
				a := h.call(t, tk.Token, method, params)
				if a.Error == nil || len(a.Result) > 0 && string(a.Result) != "null" {
					t.Errorf("%s %s: got %s", method, params, a.body)
				}
			}
		}
		h.wantSame(t, tables)
	})
}
