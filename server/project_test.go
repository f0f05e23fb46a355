package server_test

import (
	"strings"
	"testing"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/coord"
)

func TestProjectAuthority(t *testing.T) {
	t.Parallel()
	h := newHosted(t, "")
	keys := h.add(t, "executor", "build.bot_2")
	in := func(more m) string {
		more["projectId"] = h.project
		return object(t, more)
	}
	t.Run("an executor sets neither status nor policy; a coordinator and the operator do", func(t *testing.T) {
		before := h.tables(t)
		h.call(t, keys[0], "cacp/project/setPolicy", in(m{"policy": "any"})).wantError(t, -32000, hub.CodeDenied)
		h.call(t, keys[0], "cacp/project/updateStatus", in(m{"status": "complete"})).wantError(t, -32000, hub.CodeDenied)
		h.wantSame(t, before)
		ask[m](t, h.running, "parley/agent/role", m{"id": "executor", "role": "coordinator"})
		h.call(t, keys[0], "cacp/project/setPolicy", in(m{"policy": "all"})).wantOK(t, nil)
		h.call(t, h.operator, "cacp/project/setPolicy", in(m{"policy": "counterparty"})).wantOK(t, nil)
	})
	t.Run("a proposer agrees alone only where the owner chose that", func(t *testing.T) {
		agree := in(m{"contractId": h.contract, "action": "agree"})
		h.call(t, h.operator, "cacp/contract/respond", agree).wantError(t, -32000, hub.CodePolicy)
		ask[m](t, h.running, "cacp/project/setPolicy", m{"projectId": h.project, "policy": "any"})
		h.call(t, h.operator, "cacp/contract/respond", agree).wantOK(t, nil)
	})
	t.Run("an agent whose name has a dot or an underscore claims a repository, and hears of it in its inbox", func(t *testing.T) {
		h.call(t, keys[1], "cacp/project/join", in(m{"repoName": "mobile"})).wantOK(t, nil)
		var claimed string
		for _, r := range h.whole(t)["repos"].([]any) {
			if r := r.(map[string]any); r["name"] == "mobile" {
				claimed = r["agent_id"].(string)
			}
		}
		if !strings.HasPrefix(claimed, "aid://back.example/build-bot-2-") || !strings.HasSuffix(claimed, "@1.0.0") {
			t.Errorf("claimed by %s", claimed)
		}
		ask[m](t, h.running, "cacp/contract/propose", m{"projectId": h.project, "type": "custom", "name": "for the bot", "content": m{}})
		h.call(t, keys[1], "cacp/context/share", in(m{"type": "test_case", "content": m{"x": 1}})).wantOK(t, nil)
		if a := h.call(t, keys[1], "acp/inbox", `{}`); !strings.Contains(string(a.Result), "for the bot") {
			t.Errorf("inbox: got %s", a.body)
		}
	})
	t.Run("an agent with two repositories names one, and gives one back", func(t *testing.T) {
		h.call(t, keys[1], "cacp/project/join", in(m{"repoName": "frontend-app"})).wantOK(t, nil)
		for _, x := range []struct {
			method string
			params m
		}{
			{"cacp/contract/propose", m{"type": "custom", "name": "x", "content": m{}}},
			{"cacp/context/share", m{"type": "test_case", "content": m{"x": 1}}},
			{"cacp/context/askQuestion", m{"question": "?"}},
			{"cacp/context/recordDecision", m{"decision": "d", "chosen": "c", "rationale": "r"}},
			{"cacp/context/shareCode", m{"language": "go", "file": "f", "snippet": "s"}},
			{"cacp/context/shareTypes", m{"language": "go", "definitions": "d"}},
			{"cacp/implementation/start", m{"contractId": h.contract}},
			{"cacp/implementation/complete", m{"contractId": h.contract, "files": []string{}}},
			{"cacp/contract/respond", m{"contractId": h.contract, "action": "request_change", "comment": "more"}},
			{"cacp/contract/update", m{"contractId": h.contract, "content": m{"b": 1}}},
			{"cacp/file/share", m{"file": m{"name": "f", "content": "eA=="}}},
			{"cacp/file/request", m{"description": "d"}},
			{"cacp/project/addRepo", m{"name": "new", "role": "shared", "language": "l"}},
		} {
			h.call(t, keys[1], x.method, in(x.params)).wantError(t, -32602, hub.CodeInvalid)
			x.params["repoName"] = "backend-api"
			h.call(t, keys[1], x.method, in(x.params)).wantError(t, -32000, hub.CodeDenied)
			x.params["repoName"] = "mobile"
			h.call(t, keys[1], x.method, in(x.params)).wantOK(t, nil)
		}
		h.call(t, keys[1], "cacp/project/leave", in(m{})).wantError(t, -32602, hub.CodeInvalid)
		h.call(t, keys[1], "cacp/project/leave", in(m{"repoName": "mobile"})).wantOK(t, nil)
		h.call(t, keys[1], "cacp/contract/propose", in(m{"type": "custom", "name": "x", "content": m{}})).wantOK(t, nil)
		h.call(t, keys[0], "cacp/project/join", in(m{"repoName": "mobile"})).wantOK(t, nil)
	})
	t.Run("a check of no contracts fails unless that is allowed", func(t *testing.T) {
		empty := ask[struct{ ProjectID string }](t, h.running, "cacp/project/create", m{"name": "e", "objective": "o"}).ProjectID
		for allow, want := range map[bool]bool{false: false, true: true} {
			if got := ask[struct{ OK bool }](t, h.running, "cacp/contract/check", m{"projectId": empty, "allowNone": allow}); got.OK != want {
				t.Errorf("allowNone %v: got %v, want %v", allow, got.OK, want)
			}
		}
	})
}

func TestGuestHub(t *testing.T) {
	t.Parallel()
	a := start(t, onLoopback("back", "backend-api", "backend"))
	b := start(t, onLoopback("front", "frontend-app", "frontend"))
	project := ask[struct{ ProjectID string }](t, a, "cacp/project/create", m{"name": "login", "objective": "log in", "repos": []m{
		{"name": "backend-api", "role": "backend", "language": "go"}, {"name": "frontend-app", "role": "frontend", "language": "typescript"},
	}}).ProjectID
	invite := ask[struct{ Invite string }](t, a, "cacp/invite/create", m{"projectId": project, "repoName": "frontend-app", "permissions": []string{"project:read", "contract:respond"}}).Invite
	ask[m](t, b, "parley/peer/join", m{"invite": invite, "hub": a.url})
	eventually(t, "the project is there, and claimed", func() bool {
		return b.call(t, b.operator, "cacp/project/join", object(t, m{"projectId": project, "repoName": "frontend-app"})).Error == nil
	})
	t.Run("a hub that was invited refuses what the host would refuse, so that both stay the same", func(t *testing.T) {
		for method, params := range map[string]m{
			"cacp/contract/propose": {"type": "custom", "name": "x", "content": m{}}, "cacp/context/share": {"type": "test_case", "content": m{"x": 1}},
			"cacp/project/setPolicy": {"policy": "any"}, "cacp/project/updateStatus": {"status": "complete"}, "cacp/project/addRepo": {"name": "n", "role": "shared", "language": "l"},
		} {
			params["projectId"] = project
			b.call(t, b.operator, method, object(t, params)).wantError(t, -32000, hub.CodeDenied)
		}
	})
	t.Run("what it was invited to do reaches the host", func(t *testing.T) {
		id := ask[struct{ ContractID string }](t, a, "cacp/contract/propose", m{"projectId": project, "type": "custom", "name": "c", "content": m{}}).ContractID
		eventually(t, "the contract is there", func() bool { s, _ := contractStatus(t, b, project, id); return s == coord.ContractProposed })
		ask[m](t, b, "cacp/contract/respond", m{"projectId": project, "contractId": id, "action": "agree", "comment": "yes"})
		eventually(t, "the agreement is at the host", func() bool { s, _ := contractStatus(t, a, project, id); return s == coord.ContractAgreed })
		eventually(t, "the comment is at the host", func() bool {
			return strings.Contains(string(a.call(t, a.operator, "cacp/context/list", object(t, m{"projectId": project})).Result), `"comment":"yes"`)
		})
		ask[m](t, b, "cacp/project/leave", m{"projectId": project})
		eventually(t, "the host knows that the claim was given back", func() bool {
			return !strings.Contains(string(a.call(t, a.operator, "cacp/project/get", object(t, m{"projectId": project})).Result), `"assigned_agent":"aid://front.example`)
		})
	})
}
