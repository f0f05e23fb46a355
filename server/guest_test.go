package server_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/coord"
	"github.com/parley-agents/parley/internal/ground/federation"
	"github.com/parley-agents/parley/internal/reach/peer"
	"github.com/parley-agents/parley/server"
)

// A guest is a hub that was invited, as far as the host knows it: a name, a key, and
// an address that answers as a Parley hub with nothing in it. It records what the host
// sends.
type guest struct {
	at  *running
	aid coord.AID
	key string

	mu   *sync.Mutex
	got  *[]string // bodies of requests
	home *httptest.Server
}

// newGuest returns a guest that was not invited yet.
func newGuest(t *testing.T, r *running, aid coord.AID) *guest {
	t.Helper()
	g := &guest{at: r, aid: aid, mu: new(sync.Mutex), got: new([]string)}
	g.home = httptest.NewServer(http.HandlerFunc(g.serve))
	t.Cleanup(g.home.Close)
	return g
}

// serve answers the host: every copy is taken, and there is nothing to compare.
func (g *guest) serve(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case peer.HealthPath:
		json.NewEncoder(w).Encode(m{"status": "healthy", "agentId": g.aid})
		return
	case peer.CardPath:
		json.NewEncoder(w).Encode(peer.Self{AID: string(g.aid)}.Card())
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	g.mu.Lock()
	*g.got = append(*g.got, string(body))
	g.mu.Unlock()
	answer := func(q map[string]any) m {
		return m{"jsonrpc": "2.0", "id": q["id"], "result": m{"status": "created", "projects": []string{}, "contracts": []m{}, "buckets": []m{}, "packets": []string{}, "copies": []m{}}}
	}
	var many []map[string]any
	if json.Unmarshal(body, &many) == nil {
		answers := make([]m, len(many))
		for i, q := range many {
			answers[i] = answer(q)
		}
		json.NewEncoder(w).Encode(answers)
		return
	}
	var one map[string]any
	json.Unmarshal(body, &one)
	json.NewEncoder(w).Encode(answer(one))
}

// sent returns everything that the host has sent so far.
func (g *guest) sent() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return strings.Join(*g.got, "\n")
}

// invited lets a guest in at a hub, with an invite for a repository of a project.
func invited(t *testing.T, r *running, project, repo string, aid coord.AID, invite m) *guest {
	t.Helper()
	g := newGuest(t, r, aid)
	params := m{"projectId": project, "repoName": repo}
	for k, v := range invite {
		params[k] = v
	}
	text := ask[struct{ Invite string }](t, r, "cacp/invite/create", params).Invite
	var w struct{ Key string }
	redeem(t, r, text, aid, g.home.URL).wantOK(t, &w)
	g.key = w.Key
	eventually(t, "the host knows what the guest speaks", func() bool {
		return slices.ContainsFunc(ask[struct{ Peers []hub.Peer }](t, r, "parley/peer/list", m{}).Peers, func(p hub.Peer) bool { return p.AID == aid && p.Native })
	})
	return g
}

// redeem redeems an invite without a key.
func redeem(t *testing.T, r *running, invite string, aid coord.AID, home string, change ...func(*http.Request)) answer {
	t.Helper()
	return r.do(t, "POST", "/", "", strings.NewReader(object(t, m{"jsonrpc": "2.0", "id": 1, "method": "cacp/invite/redeem", "params": m{
		"invite": invite, "agentId": aid, "endpoint": home, "repoName": "x", "key": "cacp_sk_live_theirs",
	}})), append([]func(*http.Request){asJSON}, change...)...)
}

func (g *guest) call(t *testing.T, method string, params m) answer {
	t.Helper()
	return g.at.call(t, g.key, method, object(t, params))
}

// A hosted is a hub with a project of two repositories, a contract of its own in it,
// and an agent.
type hosted struct {
	*running
	project, contract string
	repos             map[string]string // ids, by name
}

func newHosted(t *testing.T, policy string, change ...func(*server.Options)) hosted {
	t.Helper()
	o := onLoopback("back", "backend-api", "backend")
	for _, f := range change {
		f(&o)
	}
	h := hosted{running: start(t, o), repos: map[string]string{}}
	h.add(t, "alice")
	h.project = ask[struct{ ProjectID string }](t, h.running, "cacp/project/create", m{"name": "n", "objective": "o", "agreementPolicy": policy, "repos": []m{
		{"name": "backend-api", "role": "backend", "language": "go"}, {"name": "frontend-app", "role": "frontend", "language": "ts"}, {"name": "mobile", "role": "mobile", "language": "kotlin"},
	}}).ProjectID
	h.contract = ask[struct{ ContractID string }](t, h.running, "cacp/contract/propose", m{"projectId": h.project, "type": "custom", "name": "c", "content": m{"a": 1}}).ContractID
	for _, r := range h.whole(t)["repos"].([]any) {
		r := r.(map[string]any)
		h.repos[r["name"].(string)] = r["repo_id"].(string)
	}
	return h
}

// whole returns the project with everything in it.
func (h hosted) whole(t *testing.T) m {
	t.Helper()
	return ask[m](t, h.running, "cacp/project/get", m{"projectId": h.project})
}

// contractCopy returns the contract as hubs exchange it, changed.
func (h hosted) contractCopy(t *testing.T, change m) m {
	t.Helper()
	c := ask[m](t, h.running, "cacp/contract/get", m{"projectId": h.project, "contractId": h.contract, "includeHistory": true})
	for k, v := range change {
		c[k] = v
	}
	return m{"projectId": h.project, "contract": c}
}

const (
	soon  = "2026-12-31T00:00:00Z" // later than everything that the hub wrote
	later = "2026-12-31T00:00:01Z"
)

func TestGuestWithoutPermissions(t *testing.T) {
	t.Parallel()
	h := newHosted(t, "all")
	g := invited(t, h.running, h.project, "frontend-app", "aid://front.example/hub@1.0.0", m{"permissions": []string{"project:read"}})
	front, back := h.repos["frontend-app"], h.repos["backend-api"]
	hash := coord.ContentHash(json.RawMessage(`{"a":1}`))
	agreement := func(repo, agent string) []m {
		return []m{{"repo_id": repo, "agent_id": agent, "version": 1, "content_sha256": hash, "at": soon}}
	}
	project := h.whole(t)
	changed := func(change m) m {
		p := m{"contracts": []m{}, "context_history": []m{}}
		for k, v := range project {
			if p[k] == nil {
				p[k] = v
			}
		}
		for k, v := range change {
			p[k] = v
		}
		return m{"project": p}
	}
	in, of := m{"projectId": h.project}, m{"projectId": h.project, "contractId": h.contract}
	with := func(base m, more m) m {
		out := m{}
		for _, part := range []m{base, more} {
			for k, v := range part {
				out[k] = v
			}
		}
		return out
	}
	calls := map[string][]m{
		"cacp/project/create":          {{"name": "x", "objective": "y"}},
		"cacp/project/join":            {with(in, m{"repoName": "mobile"}), with(in, m{"repoName": "backend-api"})},
		"cacp/project/updateStatus":    {with(in, m{"status": "complete"})},
		"cacp/project/setPolicy":       {with(in, m{"policy": "any"})},
		"cacp/project/addRepo":         {with(in, m{"name": "x", "role": "shared", "language": "l"})},
		"cacp/contract/propose":        {with(in, m{"type": "custom", "name": "x", "content": m{}})},
		"cacp/contract/respond":        {with(of, m{"action": "agree"}), with(of, m{"action": "reject"})},
		"cacp/contract/update":         {with(of, m{"content": m{"b": 1}})},
		"cacp/context/share":           {with(in, m{"type": "test_case", "content": m{"x": 1}})},
		"cacp/context/askQuestion":     {with(in, m{"question": "?"})},
		"cacp/context/recordDecision":  {with(in, m{"decision": "d", "chosen": "c", "rationale": "r"})},
		"cacp/implementation/start":    {of},
		"cacp/implementation/complete": {with(of, m{"files": []string{}})},
		"cacp/implementation/verify":   {with(of, m{"result": "success"})},
		"cacp/file/share":              {with(in, m{"file": m{"name": "f", "content": "eA=="}})},
		"cacp/file/request":            {with(in, m{"description": "d"})},
		"cacp/file/fulfillRequest":     {with(in, m{"requestId": "r", "file": m{"name": "f", "content": "eA=="}})},
		"cacp/project/sync":            {changed(m{"agreement_policy": "any", "updated_at": soon}), changed(m{"status": "complete", "updated_at": soon}), changed(m{"project_id": "other"}), changed(m{"created_at": "2020-01-01T00:00:00Z"})},
		"cacp/repo/sync":               {with(in, m{"repo": m{"repo_id": "r9", "name": "x", "role": "r", "language": "l", "updated_at": soon}}), with(in, m{"repo": m{"repo_id": h.repos["mobile"], "name": "mobile", "role": "mobile", "language": "kotlin", "agent_id": string(g.aid), "claimed_at": soon, "updated_at": soon}})},
		"cacp/contract/sync":           {with(in, m{"contract": m{"contract_id": "c9", "type": "custom", "name": "x", "version": 1, "status": "proposed", "content": m{}, "proposed_by": front, "created_at": soon, "updated_at": soon}}), h.contractCopy(t, m{"status": "agreed", "updated_at": soon, "agreements": agreement(front, string(g.aid))}), h.contractCopy(t, m{"status": "negotiating", "updated_at": soon, "reopened_at": soon}), h.contractCopy(t, m{"updated_at": soon}), h.contractCopy(t, m{"version": 2, "content": m{"b": 1}, "proposed_by": front, "updated_at": soon}), h.contractCopy(t, m{"status": "verified", "updated_at": soon}), h.contractCopy(t, m{"implementations": []m{{"repo_id": front, "agent_id": string(g.aid), "status": "complete", "files": []string{}, "notes": "", "started_at": soon, "completed_at": later, "contract_version": 1}}}), h.contractCopy(t, m{"name": "renamed", "updated_at": soon})},
		"cacp/context/sync":            {with(in, m{"packet": m{"packet_id": "p9", "from_repo": front, "from_agent": string(g.aid), "timestamp": soon, "type": "test_case", "content": m{"x": 1}}}), with(in, m{"packet": m{"packet_id": "p9", "from_repo": back, "from_agent": "aid://back.example/back@1.0.0", "timestamp": soon, "type": "decision", "content": m{"x": 1}, "related_contracts": []string{h.contract}}})},
	}
	before := h.whole(t)
	for method, list := range calls {
		t.Run("an invite to read does not permit "+method, func(t *testing.T) {
			for _, params := range list {
				g.call(t, method, params).wantError(t, -32000, hub.CodeDenied)
			}
			if got, want := object(t, h.whole(t)), object(t, before); got != want {
				t.Errorf("the project changed: got %s, want %s", got, want)
			}
		})
	}
	t.Run("an invite to read permits to read, to compare, and to send back what is there", func(t *testing.T) {
		g.call(t, "cacp/project/get", in).wantOK(t, nil)
		g.call(t, "cacp/contract/check", in).wantOK(t, nil)
		g.call(t, "cacp/sync/summary", in).wantOK(t, nil)
		g.call(t, "cacp/contract/sync", h.contractCopy(t, nil)).wantOK(t, nil)
		g.call(t, "cacp/project/sync", changed(nil)).wantOK(t, nil)
		g.call(t, "cacp/peer/announce", m{}).wantOK(t, nil)
	})
	t.Run("an invite to read permits to claim its repository", func(t *testing.T) {
		g.call(t, "cacp/project/join", with(in, m{"repoName": "frontend-app"})).wantOK(t, nil)
	})
}

// gate returns the verdict of the merge gate of a host.
func (h hosted) gate(t *testing.T) (v struct {
	Checked  int
	Failures []struct{ ContractID, Reason string }
}) {
	t.Helper()
	h.call(t, h.operator, "cacp/contract/check", object(t, m{"projectId": h.project})).wantOK(t, &v)
	return v
}

func TestGuestsAndTheMergeGate(t *testing.T) {
	t.Parallel()
	h := newHosted(t, "counterparty")
	front := h.repos["frontend-app"]
	fresh := func(id string, change m) m {
		c := m{"contract_id": id, "type": "custom", "name": "g-contract", "version": 1, "status": "proposed", "content": m{}, "proposed_by": front, "created_at": soon, "updated_at": soon}
		for k, v := range change {
			c[k] = v
		}
		return m{"projectId": h.project, "contract": c}
	}
	type standing struct {
		AgentID              coord.AID
		DeadLetters, Refused int
	}
	standingOf := func(t *testing.T, aid coord.AID) standing {
		t.Helper()
		peers := ask[struct{ Peers []standing }](t, h.running, "parley/peer/list", m{}).Peers
		return peers[slices.IndexFunc(peers, func(p standing) bool { return p.AgentID == aid })]
	}
	before := h.gate(t)

	t.Run("a guest that may only read cannot shut the gate", func(t *testing.T) {
		g := invited(t, h.running, h.project, "frontend-app", "aid://reader.example/hub@1.0.0", m{"permissions": []string{"project:read"}})
		g.call(t, "cacp/contract/sync", fresh("g-contract", nil)).wantError(t, -32000, hub.CodeDenied)
		g.call(t, "cacp/contract/sync", h.contractCopy(t, m{"name": "renamed", "updated_at": soon})).wantError(t, -32000, hub.CodeDenied)
		g.call(t, "cacp/contract/sync", h.contractCopy(t, m{"version": 200_001})).wantError(t, -32602, hub.CodeInvalid)
		if got := h.gate(t); !reflect.DeepEqual(got, before) {
			t.Errorf("got %+v, want %+v", got, before)
		}
		if got := standingOf(t, g.aid); got.DeadLetters+got.Refused > 0 {
			t.Errorf("the peer has refused changes: %+v", got)
		}
	})

	g := invited(t, h.running, h.project, "frontend-app", "aid://front.example/hub@1.0.0", nil)
	t.Run("a copy for which the guest has no permission does not count", func(t *testing.T) {
		g.call(t, "cacp/contract/sync", fresh("c9", m{"proposed_by": h.repos["mobile"]})).wantError(t, -32000, hub.CodeDenied)
		if got := h.gate(t); !reflect.DeepEqual(got, before) {
			t.Errorf("got %+v, want %+v", got, before)
		}
	})
	t.Run("a copy without a valid id does not count", func(t *testing.T) {
		g.call(t, "cacp/contract/sync", fresh("../../g", nil)).wantError(t, -32602, hub.CodeInvalid)
		if got := h.gate(t); !reflect.DeepEqual(got, before) {
			t.Errorf("got %+v, want %+v", got, before)
		}
	})
	t.Run("a contract that the host cannot take fails the check until both are compared, and the check says so", func(t *testing.T) {
		g.call(t, "cacp/contract/sync", fresh("far", m{"version": 200_001})).wantError(t, -32602, hub.CodeInvalid)
		got := h.gate(t)
		if got.Checked != before.Checked+1 || len(got.Failures) != len(before.Failures)+1 {
			t.Fatalf("got %+v", got)
		}
		reason := got.Failures[len(got.Failures)-1].Reason
		if !strings.HasPrefix(reason, "not accepted from "+string(g.aid)) || !strings.Contains(reason, "parley peer sync "+string(g.aid)) {
			t.Errorf("got %q", reason)
		}
		if got := standingOf(t, g.aid); got.Refused != 1 {
			t.Errorf("got %+v", got)
		}
		ask[m](t, h.running, "parley/peer/sync", m{"agentId": g.aid})
		eventually(t, "the comparison clears the gate", func() bool { return reflect.DeepEqual(h.gate(t), before) && standingOf(t, g.aid).Refused == 0 })
	})
}

func TestAnswersForTheRepositoryOfTheHub(t *testing.T) {
	t.Parallel()
	h := newHosted(t, "any")
	bob := h.add(t, "bob")[0]
	var lead struct{ Key string }
	h.call(t, h.operator, "parley/agent/add", `{"id":"lead","role":"coordinator"}`).wantOK(t, &lead)
	of := func(more m) string {
		params := m{"projectId": h.project, "contractId": h.contract}
		for k, v := range more {
			params[k] = v
		}
		return object(t, params)
	}
	before := object(t, h.whole(t))

	t.Run("an agent that claimed nothing does not answer", func(t *testing.T) {
		for _, action := range []string{"agree", "request_change", "reject"} {
			h.call(t, bob, "cacp/contract/respond", of(m{"action": action, "comment": "no"})).wantError(t, -32000, hub.CodeDenied)
		}
		a := h.call(t, bob, "cacp/contract/update", of(m{"content": m{"b": 1}}))
		a.wantError(t, -32000, hub.CodeDenied)
		if hint := a.Error.Data.Hint; !strings.Contains(hint, "coordinator") || !strings.Contains(hint, "cacp/project/join") {
			t.Errorf("got the hint %q", hint)
		}
		if got := object(t, h.whole(t)); got != before {
			t.Errorf("the project changed: got %s, want %s", got, before)
		}
	})
	t.Run("it cannot claim what the hub claimed, and is told who can", func(t *testing.T) {
		a := h.call(t, bob, "cacp/project/join", object(t, m{"projectId": h.project, "repoName": "backend-api"}))
		a.wantError(t, -32602, hub.CodeConflict)
		if !strings.Contains(a.Error.Data.Hint, "ask a coordinator of this hub to claim it") {
			t.Errorf("got the hint %q", a.Error.Data.Hint)
		}
	})
	t.Run("it proposes and shares", func(t *testing.T) {
		h.call(t, bob, "cacp/contract/propose", object(t, m{"projectId": h.project, "type": "custom", "name": "d", "content": m{}})).wantOK(t, nil)
		h.call(t, bob, "cacp/context/share", object(t, m{"projectId": h.project, "type": "test_case", "content": m{"x": 1}})).wantOK(t, nil)
	})
	t.Run("a coordinator answers, and so does the operator", func(t *testing.T) {
		h.call(t, lead.Key, "cacp/contract/respond", of(m{"action": "request_change", "comment": "more"})).wantOK(t, nil)
		h.call(t, h.operator, "cacp/contract/update", of(m{"content": m{"b": 1}})).wantOK(t, nil)
	})
	t.Run("a coordinator claims it from the hub, and the operator still answers", func(t *testing.T) {
		h.call(t, lead.Key, "cacp/project/join", object(t, m{"projectId": h.project, "repoName": "backend-api"})).wantOK(t, nil)
		h.call(t, h.operator, "cacp/contract/respond", of(m{"action": "request_change", "comment": "more"})).wantOK(t, nil)
		h.call(t, lead.Key, "cacp/contract/update", of(m{"content": m{"c": 1}})).wantOK(t, nil)
	})
	t.Run("an agent that claims what was given back answers", func(t *testing.T) {
		h.call(t, lead.Key, "cacp/project/leave", object(t, m{"projectId": h.project})).wantOK(t, nil)
		h.call(t, bob, "cacp/contract/respond", of(m{"action": "agree"})).wantError(t, -32000, hub.CodeDenied)
		h.call(t, bob, "cacp/project/join", object(t, m{"projectId": h.project, "repoName": "backend-api"})).wantOK(t, nil)
		h.call(t, bob, "cacp/contract/respond", of(m{"action": "agree"})).wantOK(t, nil)
	})
}

func TestAgreementsWithoutAVersion(t *testing.T) {
	t.Parallel()
	h := newHosted(t, "counterparty")
	const aid = "aid://front.example/hub@1.0.0"
	g := invited(t, h.running, h.project, "frontend-app", aid, nil)
	g.call(t, "cacp/project/join", m{"projectId": h.project, "repoName": "frontend-app"}).wantOK(t, nil)
	update := func(t *testing.T, content m) {
		t.Helper()
		ask[m](t, h.running, "cacp/contract/update", m{"projectId": h.project, "contractId": h.contract, "content": content})
	}
	agree := m{"projectId": h.project, "contractId": h.contract, "action": "agree"}
	t.Run("a peer agrees to the newest version that it was sent", func(t *testing.T) {
		update(t, m{"a": 2})
		eventually(t, "the guest has version 2", func() bool {
			return slices.ContainsFunc(ask[struct{ Peers []federation.PeerStatus }](t, h.running, "parley/peer/list", m{}).Peers, func(p federation.PeerStatus) bool {
				return p.AID == aid && p.Lag == 0 && !p.CatchUp
			})
		})
		g.call(t, "cacp/contract/respond", agree).wantOK(t, nil)
	})
	t.Run("its agreement is refused with the number if a newer one exists", func(t *testing.T) {
		g.home.Close()
		update(t, m{"a": 3})
		a := g.call(t, "cacp/contract/respond", agree)
		a.wantError(t, -32602, hub.CodeConflict)
		if text := string(a.body); !strings.Contains(text, "agrees to version 2") || !strings.Contains(text, "now at version 3") {
			t.Errorf("got %s", text)
		}
		if got := ask[struct{ Status string }](t, h.running, "cacp/contract/get", m{"projectId": h.project, "contractId": h.contract}).Status; got != "proposed" {
			t.Errorf("the contract is %s", got)
		}
	})
	t.Run("a version that it fetched was sent to it, too", func(t *testing.T) {
		g.call(t, "cacp/contract/get", m{"projectId": h.project, "contractId": h.contract}).wantOK(t, nil)
		g.call(t, "cacp/contract/respond", agree).wantOK(t, nil)
	})
}

func TestGuestOfOthers(t *testing.T) {
	t.Parallel()
	h := newHosted(t, "counterparty")
	g := invited(t, h.running, h.project, "frontend-app", "aid://front.example/hub@1.0.0", nil)
	evil := invited(t, h.running, h.project, "mobile", "aid://evil.example/hub@1.0.0", nil)
	front, mobile := h.repos["frontend-app"], h.repos["mobile"]
	g.call(t, "cacp/project/join", m{"projectId": h.project, "repoName": "frontend-app"}).wantOK(t, nil)
	evil.call(t, "cacp/project/join", m{"projectId": h.project, "repoName": "mobile"}).wantOK(t, nil)
	hash := coord.ContentHash(json.RawMessage(`{"a":1}`))
	agree := func(repo, agent string) m {
		return h.contractCopy(t, m{"status": "agreed", "updated_at": soon, "agreements": []m{{"repo_id": repo, "agent_id": agent, "version": 1, "content_sha256": hash, "at": soon}}})
	}
	packet := func(repo, agent string) m {
		return m{"projectId": h.project, "packet": m{"packet_id": "p-" + strings.ReplaceAll(repo+agent[6:], "/", "-")[:40], "from_repo": repo, "from_agent": agent, "timestamp": soon, "type": "test_case", "content": m{"x": 1}}}
	}
	for _, name := range []string{"aid://back.example/alice@1.0.0", "aid://back.example/back@1.0.0", "aid://front.example/hub@1.0.0", "aid://front.example/bob@1.0.0", "aid://third.example/x@1.0.0"} {
		for repo, id := range h.repos {
			t.Run(fmt.Sprintf("a guest does not act for %s in %s", name, repo), func(t *testing.T) {
				evil.call(t, "cacp/contract/sync", agree(id, name)).wantError(t, -32000, hub.CodeDenied)
				evil.call(t, "cacp/context/sync", packet(id, name)).wantError(t, -32000, hub.CodeDenied)
				evil.call(t, "cacp/repo/sync", m{"projectId": h.project, "repo": m{"repo_id": id, "name": repo, "role": "r", "language": "l", "agent_id": name, "claimed_at": "2020-01-01T00:00:00Z", "updated_at": soon}}).wantError(t, -32000, hub.CodeDenied)
			})
		}
	}
	t.Run("a guest does not act for the repository of another", func(t *testing.T) {
		evil.call(t, "cacp/contract/sync", agree(front, string(evil.aid))).wantError(t, -32000, hub.CodeDenied)
		evil.call(t, "cacp/context/sync", packet(front, string(evil.aid))).wantError(t, -32000, hub.CodeDenied)
	})
	t.Run("a guest does not write moves of another hub, and does not make them disappear", func(t *testing.T) {
		move := []m{{"member": "status", "value": "negotiating", "version": 1, "at": soon, "by": "aid://back.example/back@1.0.0"}}
		for _, stamps := range []m{{"writes": move, "seen": m{"aid://back.example/back@1.0.0": soon}}, {"writes": []m{}, "seen": m{"aid://back.example/back@1.0.0": soon}}} {
			evil.call(t, "cacp/contract/sync", h.contractCopy(t, m{"stamps": stamps})).wantError(t, -32000, hub.CodeDenied)
		}
	})
	t.Run("a guest does not send a contract as agreed that only its proposer agreed to", func(t *testing.T) {
		c := m{"contract_id": "own", "type": "custom", "name": "x", "version": 1, "status": "agreed", "content": m{"a": 1}, "proposed_by": mobile, "created_at": soon, "updated_at": soon,
			"agreements": []m{{"repo_id": mobile, "agent_id": string(evil.aid), "version": 1, "content_sha256": hash, "at": soon}}}
		evil.call(t, "cacp/contract/sync", m{"projectId": h.project, "contract": c}).wantError(t, -32000, hub.CodeDenied)
		c["status"], c["agreements"] = "proposed", []m{}
		evil.call(t, "cacp/contract/sync", m{"projectId": h.project, "contract": c}).wantOK(t, nil)
	})
	t.Run("a guest acts for its own agents, and for others that the operator names", func(t *testing.T) {
		evil.call(t, "cacp/context/sync", packet(mobile, "aid://evil.example/bob@1.0.0")).wantOK(t, nil)
		evil.call(t, "cacp/context/sync", packet(mobile, "aid://third.example/x@1.0.0")).wantError(t, -32000, hub.CodeDenied)
		ask[m](t, h.running, "parley/peer/approve", m{"agentId": evil.aid, "actsFor": []string{"aid://third.example/x@1.0.0"}})
		evil.call(t, "cacp/context/sync", packet(mobile, "aid://third.example/x@1.0.0")).wantOK(t, nil)
		g.call(t, "cacp/contract/sync", agree(front, string(g.aid))).wantOK(t, nil)
		if s, _ := contractStatus(t, h.running, h.project, h.contract); s != coord.ContractAgreed {
			t.Errorf("got %s, want agreed", s)
		}
	})
	t.Run("a guest cannot redeem in the name of an agent or of the hub", func(t *testing.T) {
		invite := ask[struct{ Invite string }](t, h.running, "cacp/invite/create", m{"projectId": h.project, "repoName": "mobile"}).Invite
		for _, aid := range []coord.AID{"aid://back.example/alice@1.0.0", "aid://back.example/back@9.0.0", "aid://front.example/other@1.0.0"} {
			redeem(t, h.running, invite, aid, "https://127.0.0.1:9").wantError(t, -32000, hub.CodeDenied)
		}
	})
}

func TestRedeemsWithMadeUpNames(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]bool{"a hub with keys": false, "an open hub": true} {
		t.Run(name+" writes a bounded number of journal rows about them", func(t *testing.T) {
			o := onLoopback("back", "backend-api", "backend")
			o.Coordination.Open = open
			r := start(t, o)
			head := r.journalHead(t)
			for i := range 300 {
				redeem(t, r, fmt.Sprintf("INV-f0ebc-guess%d-00", i), coord.AID(fmt.Sprintf("aid://a%d.example/x@1.0.0", i)), "https://127.0.0.1:9", func(q *http.Request) {
					q.Header.Set("X-Agent-ID", fmt.Sprintf("aid://b%d.example/x@1.0.0", i))
				})
			}
			if got := r.journalHead(t) - head; got > 5 {
				t.Errorf("got %d rows, want at most 5", got)
			}
		})
	}
}

func TestRatesOfPeers(t *testing.T) {
	t.Parallel()
	h := newHosted(t, "counterparty")
	const aid = "aid://busy.example/hub@1.0.0"
	key := ask[struct{ Key string }](t, h.running, "parley/peer/add", m{"agentId": aid, "endpoint": "https://127.0.0.1:9"}).Key
	// taken sends requests until one is refused, and returns how many were taken. A
	// minute may end meanwhile, so that up to twice the rate is taken.
	taken := func(t *testing.T, most int, request func(i int) (method string, params m)) int {
		t.Helper()
		for i := range 2*most + 1 {
			method, params := request(i)
			a := h.call(t, key, method, object(t, params))
			if a.Error == nil {
				continue
			}
			a.wantError(t, -32000, hub.CodeRateLimited)
			if wait := a.Error.Data.RetryAfterS; wait <= 0 || wait > 60 {
				t.Errorf("retry after %v seconds, want up to 60", wait)
			}
			return i
		}
		t.Fatalf("%d were taken, want at most %d", 2*most+1, 2*most)
		return 0
	}
	t.Run("a peer makes twenty projects in a minute", func(t *testing.T) {
		if n := taken(t, 20, func(i int) (string, m) { return "cacp/project/create", m{"name": fmt.Sprint(i), "objective": "o"} }); n < 20 {
			t.Errorf("only %d were taken", n)
		}
		taken(t, 20, func(i int) (string, m) {
			return "cacp/project/sync", m{"project": m{"project_id": fmt.Sprint("p", i), "name": "n", "objective": "o", "status": "planning", "repos": []m{}}}
		})
	})
	t.Run("a peer brings a thousand packets in a minute, and agents of the hub are not concerned", func(t *testing.T) {
		packet := func(i int) m {
			return m{"packet_id": fmt.Sprint("k", i), "from_repo": h.repos["mobile"], "from_agent": aid, "timestamp": soon, "type": "test_case", "content": m{"x": i}}
		}
		var refused, sent int
		for ; refused == 0 && sent < 3000; sent += 100 {
			batch := make([]m, 100)
			for i := range batch {
				batch[i] = m{"jsonrpc": "2.0", "id": i, "method": "cacp/context/sync", "params": m{"projectId": h.project, "packet": packet(sent + i)}}
			}
			var answers []answer
			if err := json.Unmarshal(h.post(t, key, object(t, batch)).body, &answers); err != nil {
				t.Fatal(err)
			}
			for _, a := range answers {
				if a.Error != nil {
					a.wantReason(t, -32000, hub.CodeRateLimited)
					refused++
				}
			}
		}
		if refused == 0 {
			t.Errorf("%d packets were taken", sent)
		}
		ask[m](t, h.running, "cacp/context/share", m{"projectId": h.project, "type": "test_case", "content": m{"x": 1}})
	})
}

func TestGuestsAreApart(t *testing.T) {
	t.Parallel()
	h := newHosted(t, "counterparty")
	secret := ask[struct{ ProjectID string }](t, h.running, "cacp/project/create", m{"name": "hidden-name", "objective": "hidden-objective", "repos": []m{
		{"name": "backend-api", "role": "backend", "language": "go"}, {"name": "hidden-repo", "role": "shared", "language": "l"},
	}}).ProjectID
	g := invited(t, h.running, h.project, "frontend-app", "aid://front.example/hub@1.0.0", nil)
	other := invited(t, h.running, secret, "hidden-repo", "aid://third.example/hub@1.0.0", nil)
	silent := invited(t, h.running, h.project, "mobile", "aid://silent.example/hub@1.0.0", m{"permissions": []string{"contract:propose"}})
	ask[m](t, h.running, "cacp/contract/propose", m{"projectId": secret, "type": "custom", "name": "hidden-contract", "content": m{"hidden": 1}})
	ask[m](t, h.running, "cacp/context/share", m{"projectId": secret, "type": "test_case", "content": m{"x": "hidden-packet"}})
	ask[m](t, h.running, "cacp/contract/propose", m{"projectId": h.project, "type": "custom", "name": "open-contract", "content": m{}})
	ask[m](t, h.running, "cacp/context/share", m{"projectId": h.project, "type": "test_case", "content": m{"x": "open-packet"}})
	for _, peer := range []*guest{g, other, silent} {
		ask[m](t, h.running, "parley/peer/sync", m{"agentId": peer.aid})
	}
	eventually(t, "each guest got what it was invited to", func() bool {
		return strings.Contains(g.sent(), "open-packet") && strings.Contains(g.sent(), "open-contract") && strings.Contains(other.sent(), "hidden-packet") && strings.Contains(other.sent(), "hidden-contract")
	})
	eventually(t, "the host has nothing left to send", func() bool {
		return !slices.ContainsFunc(ask[struct {
			Peers []struct {
				Lag     int64
				CatchUp bool
			}
		}](t, h.running, "parley/peer/list", m{}).Peers, func(p struct {
			Lag     int64
			CatchUp bool
		}) bool {
			return p.Lag > 0 || p.CatchUp
		})
	})
	for name, x := range map[string]struct {
		to     *guest
		hidden []string
	}{
		"a guest of one project":    {g, []string{secret, "hidden"}},
		"a guest of the other":      {other, []string{h.project, "open-"}},
		"a guest that may not read": {silent, []string{secret, h.project, "hidden", "open-"}},
	} {
		t.Run(name+" is sent nothing of other projects", func(t *testing.T) {
			for _, word := range x.hidden {
				if strings.Contains(x.to.sent(), word) {
					t.Errorf("the host sent %q:\n%s", word, x.to.sent())
				}
			}
		})
	}
	t.Run("a guest of one project reads nothing of the other", func(t *testing.T) {
		for _, method := range []string{"cacp/project/get", "cacp/project/export", "cacp/contract/list", "cacp/contract/check", "cacp/contract/conflicts", "cacp/context/list", "cacp/file/listRequests", "cacp/sync/summary", "cacp/sync/packets", "cacp/sync/copies"} {
			if a := g.call(t, method, m{"projectId": secret}); a.Error == nil || strings.Contains(string(a.body), "hidden") {
				t.Errorf("%s: got %s", method, a.body)
			}
		}
		for _, method := range []string{"cacp/project/list", "cacp/sync/projects"} {
			if a := g.call(t, method, m{}); a.Error != nil || strings.Contains(string(a.body), secret) || !strings.Contains(string(a.body), h.project) {
				t.Errorf("%s: got %s", method, a.body)
			}
		}
	})
}
