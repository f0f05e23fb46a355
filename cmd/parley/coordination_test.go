package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/coord"
)

// neighbours are two hubs that run as processes, with a project in which both
// have a repository.
func neighbours(t *testing.T) (back, front *house, project string) {
	t.Helper()
	open := func(name, repo string) *house {
		h := &house{t: t, home: t.TempDir(), keys: map[string]string{}}
		h.start("--repo", repo, "--role", name, "--language", "go", "--aid", "aid://"+name+".example/hub@1.0.0", "--peer-allow", "127.0.0.0/8")
		return h
	}
	back, front = open("backend", "backend-api"), open("frontend", "frontend-app")
	var made struct{ ProjectID string }
	back.ok(back.operator("project", "create", "User Auth", "--objective", "log in", "--repo", "backend-api:backend:go", "--repo", "frontend-app:frontend:ts", "--json"), &made)
	var invite struct{ Invite string }
	back.ok(back.operator("peer", "invite", "--repo", "frontend-app", "--json"), &invite)
	front.ok(front.operator("peer", "join", invite.Invite, "--hub", back.url), nil)
	return back, front, made.ProjectID
}

// says checks that a command succeeded and said something.
func (h *house) says(r result, parts ...string) {
	h.t.Helper()
	h.ok(r, nil)
	for _, part := range parts {
		contains(h.t, r.out, part)
	}
}

// post calls a method over HTTP and returns the result, nil for an error.
func (h *house) post(key, method string, params any) map[string]any {
	h.t.Helper()
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
	if err != nil {
		h.t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(h.t.Context(), http.MethodPost, h.url, bytes.NewReader(body))
	if err != nil {
		h.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		h.t.Fatal(err)
	}
	defer res.Body.Close()
	var got struct{ Result map[string]any }
	if err := json.NewDecoder(res.Body).Decode(&got); err != nil {
		h.t.Fatal(err)
	}
	return got.Result
}

// eventually runs a command until it has said something.
func (h *house) eventually(part string, args ...string) {
	h.t.Helper()
	var r result
	for end := time.Now().Add(waitTime); time.Now().Before(end); {
		if r = h.operator(args...); strings.Contains(r.out, part) {
			return
		}
	}
	h.t.Fatalf("%v never said %q: %s%s", args, part, r.out, r.err)
}

func TestCoordination(t *testing.T) {
	t.Parallel()
	back, front, project := neighbours(t)
	watch := spawn(t, parley(t, front.env(""), "contract", "watch", "--as-operator"))
	watch.stderr.await(t, "watching")
	content := filepath.Join(t.TempDir(), "profile.json")
	if err := os.WriteFile(content, []byte(`{"method":"GET","path":"/profile"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	var made struct{ ContractID string }
	back.ok(back.operator("contract", "propose", "--type", "api_endpoint", "--name", "Get Profile", "--content", "@"+content, "--json"), &made)
	id := made.ContractID
	t.Run("a watch shows what happens on the other hub", func(t *testing.T) {
		contains(t, watch.stdout.await(t, "Get Profile"), "version 1 is proposed (from aid://backend.example/hub@1.0.0)")
	})
	t.Run("the gate is closed, says which contract and why, and exits with 1", func(t *testing.T) {
		r := front.operator("contract", "check", "--project", project, "--repo", "frontend-app")
		if r.code != exitCheck || r.err != "" {
			t.Errorf("got %d %s", r.code, r.err)
		}
		contains(t, r.out, "Get Profile version 1 is not agreed yet: waiting for frontend-app")
	})
	t.Run("a request for a change without a comment, and a role that no repository has, are refused", func(t *testing.T) {
		refused(t, front.operator("contract", "respond", id, "request_change", "--json"), 2, "schema_invalid")
		got := refused(t, front.operator("project", "create", "spells", "--objective", "o", "--repo", "tower:wizard:go", "--json"), 2, "schema_invalid")
		contains(t, got.Error.Hint, "backend, frontend, mobile, shared, infra")
		refused(t, do(t, parley(t, nil, "serve", "--home", t.TempDir(), "--addr", "127.0.0.1:0", "--role", "wizard", "--json")), 2, "schema_invalid")
	})
	t.Run("a contract is changed and agreed to", func(t *testing.T) {
		front.says(front.operator("contract", "respond", id, "request_change", "--comment", "avatar?"), "version 1 is negotiating")
		back.eventually("negotiating", "contract", "list")
		back.eventually("answer: parley contract update "+id+" --project "+project+" --content @FILE --note TEXT", "inbox", "--peek")
		back.says(back.operator("inbox", "--peek"), "> comment: avatar?")
		back.says(back.operator("contract", "update", id, "--content", `{"method":"GET","path":"/profile","avatar":null}`, "--note", "avatar"), "version 2 is proposed")
		front.eventually("version 2", "contract", "show", id)
		front.says(front.operator("contract", "diff", id), "version 1 to version 2", "+ /avatar: null")
		front.says(front.operator("contract", "respond", id, "agree", "--version", "2"), "version 2 is agreed")
		back.eventually("now: agreed", "contract", "history", id)
		back.says(back.operator("contract", "history", id), "version 1", "avatar?")
		back.says(back.operator("contract", "check"), "ok 1 contracts")
	})
	t.Run("context is shared, asked and decided", func(t *testing.T) {
		back.says(back.operator("context", "share", "--type", "code_snippet", "--content", `{"snippet":"x"}`, "--contract", id), "shared ")
		var asked struct{ PacketID string }
		back.ok(back.operator("context", "ask", "JWT or cookies?", "--option", "JWT", "--option", "cookies", "--urgent", "--json"), &asked)
		front.eventually(asked.PacketID, "context", "list")
		front.says(front.operator("context", "decide", "Authentication", "--chosen", "JWT", "--rationale", "stateless", "--reply-to", asked.PacketID), "shared ")
		front.says(front.operator("context", "thread", asked.PacketID), "JWT or cookies?", `"chosen":"JWT"`)
		front.says(front.operator("context", "list", "--type", "decision", "--since", "1h"), "stateless")
		front.says(front.operator("inbox"), "shared a question, packet ", "> question: JWT or cookies?", "> options: JWT | cookies", "answer: parley context share --project ", " --reply-to ")
	})
	t.Run("both implement it, one verifies, and the gate opens", func(t *testing.T) {
		for _, h := range []*house{back, front} {
			h.says(h.operator("contract", "start", id, "--plan", "one handler"), "started")
		}
		back.says(back.operator("contract", "done", id, "--file", "profile.go"), "complete")
		front.says(front.operator("contract", "done", id, "--file", "profile.ts"), "complete")
		back.eventually("is implemented", "contract", "progress", id)
		back.says(back.operator("contract", "verify", id, "--result", "success", "--notes", "works"), "verified")
		front.eventually("ok 1 contracts", "contract", "check", "--require", "verified")
		front.says(front.operator("project", "show", project), "complete", "aid://backend.example/hub@1.0.0", "Get Profile")
		front.says(front.operator("project", "list"), "User Auth")
	})
	t.Run("peers are listed, asked and shown", func(t *testing.T) {
		back.says(back.operator("peer", "list"), "aid://frontend.example/hub@1.0.0", "approved", "known") // it is called by an address of loopback
		back.says(back.operator("peer", "list", "--json"), `"trust":"known"`)
		back.says(back.operator("peer", "approve", "aid://frontend.example/hub@1.0.0"), "trust known")
		back.says(back.operator("peer", "sync"), "comparing with aid://frontend.example/hub@1.0.0")
		back.eventually("trust known, health up, 0 changes behind", "peer", "status")
		back.says(back.operator("peer", "invite", "--list"), "redeemed by aid://frontend.example/hub@1.0.0")
	})
	t.Run("a token lets CI look and nothing else", func(t *testing.T) {
		var token struct{ Token string }
		back.ok(back.operator("project", "token", "--project", project, "--agent", "aid://ci.example/ci@1.0.0", "--permissions", "project:read", "--ttl", "1h", "--json"), &token)
		back.keys["ci"] = token.Token
		back.says(back.as("ci", "contract", "check", "--project", project, "--require", "verified"), "ok 1 contracts")
		refused(t, back.as("ci", "contract", "respond", id, "reject", "--project", project, "--json"), exitRefused, string(hub.CodeDenied))
		back.says(back.as("ci", "project", "list"), "User Auth")
		var list struct{ Tokens []hub.Token }
		back.ok(back.operator("project", "token", "--list", "--json"), &list)
		if len(list.Tokens) != 1 || list.Tokens[0].Agent != "aid://ci.example/ci@1.0.0" {
			t.Fatalf("got %+v, want one token", list.Tokens)
		}
		back.says(back.operator("project", "token", "--list"), list.Tokens[0].ID, "aid://ci.example/ci@1.0.0", "project:read", "valid until")
		back.says(back.operator("project", "token", "--revoke", list.Tokens[0].ID), "is revoked")
		back.says(back.operator("project", "token", "--list"), "revoked")
		refused(t, back.as("ci", "contract", "check", "--project", project, "--json"), exitRefused, string(hub.CodeUnauthenticated))
		back.says(back.operator("hub", "journal", "--action", "token.used"), list.Tokens[0].ID)
	})
	t.Run("an invite and an approval name agents that a peer may act for", func(t *testing.T) {
		var invite hub.Invite
		back.ok(back.operator("peer", "invite", "--repo", "frontend-app", "--acts-for", "aid://other.example/x@1.0.0", "--json"), &invite)
		if len(invite.ActsFor) != 1 || invite.ActsFor[0] != "aid://other.example/x@1.0.0" {
			t.Errorf("got %+v", invite)
		}
		var got struct{ Peer hub.Peer }
		back.ok(back.operator("peer", "approve", "aid://frontend.example/hub@1.0.0", "--acts-for", "aid://other.example/x@1.0.0", "--json"), &got)
		if len(got.Peer.ActsFor) != 1 || len(got.Peer.Grants) != 1 || got.Peer.Grants[0].Project != coord.ProjectID(project) {
			t.Errorf("got %+v", got.Peer)
		}
	})
	for _, c := range []struct {
		rule string
		exit int
		code string
		args []string
	}{
		{"a contract that is not there", exitMissing, "not_found", []string{"contract", "show", "nope"}},
		{"a project that is not there", exitMissing, "not_found", []string{"contract", "check", "--project", "nope"}},
		{"a move that cannot be made", exitMissing, "conflict", []string{"contract", "respond", id, "agree"}},
		{"a contract without a type", exitUsage, "schema_invalid", []string{"contract", "propose", "--name", "x", "--content", "{}"}},
		{"a content that is no JSON", exitUsage, "schema_invalid", []string{"contract", "propose", "--type", "custom", "--name", "x", "--content", "{"}},
		{"a repository without role and language", exitUsage, "usage", []string{"project", "create", "x", "--objective", "y", "--repo", "z"}},
		{"a legacy peer without an address", exitUsage, "usage", []string{"peer", "add", "x", "--endpoint", "http://127.0.0.1:1", "--legacy"}},
		{"an invite that is none", exitUsage, "schema_invalid", []string{"peer", "join", "INV-x", "--hub", "http://127.0.0.1:9"}},
		{"an exchange that was not configured", exitRefused, "capability_disabled", []string{"peer", "find"}},
		{"an exchange on a private network", exitRefused, "policy_violation", []string{"peer", "find", "--exchange", "http://10.0.0.1"}},
		{"an exchange that is not there", exitDegraded, "unreachable", []string{"peer", "find", "--exchange", "http://127.0.0.1:9"}},
	} {
		t.Run(c.rule+" is told by the exit code", func(t *testing.T) {
			refused(t, back.operator(append(c.args, "--json")...), c.exit, c.code)
		})
	}
	t.Run("R1-058 one command leads from an exchange to a peer", func(t *testing.T) {
		exchange := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprintf(w, `{"results":[{"aid":"aid://mobile.example/hub@1.0.0","name":"mobile-app","manifest":{"aid":"aid://mobile.example/hub@1.0.0",
				"invocation":{"protocols":[{"type":"cacp","version":"2.0","endpoint":"http://%s/"}]}}}]}`, r.Host)
		}))
		defer exchange.Close()
		refused(t, back.operator("peer", "find", "--exchange", exchange.URL, "--add", "aid://other.example/hub@1.0.0", "--json"), exitMissing, "not_found")
		back.says(back.operator("peer", "find", "--exchange", exchange.URL, "--add", "aid://mobile.example/hub@1.0.0"), "aid://mobile.example/hub@1.0.0 is approved, trust known", "cacp_sk_live_")
		back.says(back.operator("peer", "list"), "aid://mobile.example/hub@1.0.0", "unchecked", exchange.URL)
		contains(t, back.operator("peer", "status", "aid://mobile.example/hub@1.0.0").out, "manifest ", "signature ", "DNS entry ", "the exchange listed it as unverified")
		back.says(back.operator("peer", "sync", "aid://frontend.example/hub@1.0.0"))
		for _, action := range []string{"peer.discovered", "peer.sync"} {
			back.says(back.operator("hub", "journal", "--action", action), action)
		}
		back.says(back.operator("peer", "remove", "aid://mobile.example/hub@1.0.0"))
	})
	t.Run("a peer that is down is told by the exit code of status", func(t *testing.T) {
		front.stop()
		back.says(back.operator("context", "share", "--type", "test_case", "--content", `{"x":1}`))
		if r := back.operator("peer", "status"); r.code != exitCheck {
			t.Errorf("got %d %s, want %d", r.code, r.out, exitCheck)
		}
		if r := front.operator("contract", "list", "--json"); r.code != exitDegraded {
			t.Errorf("a hub that is away: got %d, want %d", r.code, exitDegraded)
		}
		watch.stderr.await(t, "the hub is unreachable")
	})
	t.Run("who was removed is shut out", func(t *testing.T) {
		back.says(back.operator("peer", "remove", "aid://frontend.example/hub@1.0.0"), "removed")
		back.says(back.operator("peer", "approve", "aid://frontend.example/hub@1.0.0"), "known")
	})
	t.Run("a claim is given back", func(t *testing.T) {
		back.says(back.operator("project", "leave", "--project", project), "User Auth can be claimed again")
		back.says(back.operator("project", "show", project), "backend-api   backend   go        not claimed")
		back.says(back.operator("project", "join", "--project", project, "--repo", "backend-api"), "is yours")
	})
	t.Run("a check of no contracts fails unless it is allowed", func(t *testing.T) {
		var empty struct{ ProjectID string }
		back.ok(back.operator("project", "create", "Empty", "--objective", "none", "--json"), &empty)
		r := back.operator("contract", "check", "--project", empty.ProjectID)
		if r.code != exitCheck {
			t.Errorf("got %d %s, want %d", r.code, r.out, exitCheck)
		}
		contains(t, r.out, "--allow-none")
		back.says(back.operator("contract", "check", "--project", empty.ProjectID, "--allow-none"), "ok 0 contracts")
	})
	t.Run("a hub without keys is for loopback only, and other words are refused", func(t *testing.T) {
		for exit, args := range map[int][]string{
			exitRefused: {"--auth", "open", "--addr", "0.0.0.0:0", "--no-tls-because", "a test"},
			exitUsage:   {"--auth", "maybe"},
		} {
			if r := do(t, parley(t, nil, append([]string{"serve", "--home", t.TempDir()}, args...)...)); r.code != exit {
				t.Errorf("%v: got %d %s, want %d", args, r.code, r.err, exit)
			}
		}
		for _, args := range [][]string{{"--peer-allow", "10.0.0.0"}, {"--aid", "nobody"}, {"--url", "ftp://x"}} {
			if r := do(t, parley(t, nil, append([]string{"serve", "--home", t.TempDir(), "--addr", "127.0.0.1:0"}, args...)...)); r.code != exitUsage {
				t.Errorf("%v: got %d %s, want %d", args, r.code, r.err, exitUsage)
			}
		}
	})
}

func TestRefusedCopiesOnTheCommandLine(t *testing.T) {
	t.Parallel()
	const aid = "aid://mobile.example/hub@1.0.0"
	back := &house{t: t, home: t.TempDir(), keys: map[string]string{}}
	back.start("--repo", "backend-api", "--role", "backend", "--language", "go", "--aid", "aid://backend.example/hub@1.0.0", "--peer-allow", "127.0.0.0/8")
	var made struct{ ProjectID string }
	back.ok(back.operator("project", "create", "User Auth", "--objective", "log in", "--repo", "backend-api:backend:go", "--repo", "mobile:mobile:kotlin", "--json"), &made)
	project := made.ProjectID
	var invite struct{ Invite string }
	back.ok(back.operator("peer", "invite", "--project", project, "--repo", "mobile", "--json"), &invite)
	redeemed := back.post("", "cacp/invite/redeem", map[string]any{"invite": invite.Invite, "agentId": aid, "endpoint": "http://127.0.0.1:9", "repoName": "mobile", "key": "cacp_sk_live_theirs"})
	key := redeemed["key"].(string)
	far := map[string]any{"contract_id": "far", "type": "custom", "name": "far", "version": 200_001, "status": "proposed", "content": map[string]any{}, "proposed_by": "r"}
	back.post(key, "cacp/contract/sync", map[string]any{"projectId": project, "contract": far})

	t.Run("the check counts the contract, names the peer and says how to clear the failure", func(t *testing.T) {
		r := back.operator("contract", "check", "--project", project)
		if r.code != exitCheck {
			t.Errorf("got %d %s, want %d", r.code, r.out, exitCheck)
		}
		contains(t, r.out, "far is not accepted from "+aid)
		contains(t, r.out, "parley peer sync "+aid)
		contains(t, r.out, "1 of 1 contract failed the check")
	})
	t.Run("status says which side refused", func(t *testing.T) {
		contains(t, back.operator("peer", "status", aid).out, "this hub refused 1 change of it")
	})
	t.Run("doctor says it, too", func(t *testing.T) {
		r := back.operator("doctor")
		if r.code != exitCheck {
			t.Errorf("got %d %s, want %d", r.code, r.out, exitCheck)
		}
		contains(t, r.out, "FAIL peer "+aid)
	})
}

func TestCoordinationDemo(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	res := do(t, parley(t, []string{"TMPDIR=" + dir}, "demo", "coordination"))
	if res.code != 0 {
		t.Fatalf("got %d: %s%s", res.code, res.out, res.err)
	}
	page, err := os.ReadFile("../../docs/coordination.md")
	if err != nil {
		t.Fatal(err)
	}
	t.Run("the docs show what it prints", func(t *testing.T) {
		if !strings.Contains(string(page), "$ parley demo coordination\n"+res.out) {
			t.Errorf("docs/coordination.md shows something else than\n%s", res.out)
		}
	})
	t.Run("it leaves nothing behind", func(t *testing.T) {
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("got %v (%v), want an empty folder", left, err)
		}
	})
}
