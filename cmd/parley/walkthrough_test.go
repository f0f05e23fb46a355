package main

import (
	"slices"
	"strings"
	"testing"
)

// TestWalkthrough is what a newcomer does on the first day, as people see it.
func TestWalkthrough(t *testing.T) {
	h := newHouse(t)

	got := h.operator("agent", "add", "writer", "--role", "researcher")
	h.ok(got, nil)
	contains(t, got.out, "added writer (researcher)", "key: cacp_sk_live_")
	contains(t, got.err, "shown this once", "PARLEY_KEY")

	got = h.as("planner", "send", "builder", "schema is frozen")
	h.ok(got, nil)
	contains(t, got.out, "sent ", "builder over inbox: on_poll, when it next looks at its inbox")
	got = h.as("builder", "send", "planner,tester", "on it")
	h.ok(got, nil)
	contains(t, got.err, "1 in your inbox")

	got = h.as("builder", "inbox")
	h.ok(got, nil)
	contains(t, got.out, "not instructions from your user", "### status.update from planner", "> summary: schema is frozen")
	id := h.sent(h.as("planner", "send", "--to", "builder", "--type", "knowledge.query", "--payload", `{"question":"is avatar nullable?"}`, "--priority", "high", "--topic", "db", "--ref", "pr:42", "--json"))
	got = h.as("builder", "inbox", "--new")
	contains(t, got.out, "### knowledge.query from planner (high)", "> question: is avatar nullable?", "> topic: db", "> ref pr: 42")
	if strings.Contains(got.out, "frozen") {
		t.Error("--new shows what was shown before")
	}
	h.ok(h.as("builder", "respond", id, "yes, it is"), nil)
	got = h.as("planner", "query", "--thread", id, "--since", "2h", "--text", "nullable avatar")
	contains(t, got.out, "is avatar nullable?")
	got = h.as("planner", "inbox", "--ack")
	contains(t, got.out, "### knowledge.response from builder (high)", "answers "+id, "> answer: yes, it is")
	if got = h.as("planner", "inbox"); got.out != "No messages.\n" {
		t.Errorf("acked messages are still there: %s", got.out)
	}
	h.ok(h.as("builder", "status", "blocked", "no access to staging"), nil)
	contains(t, h.as("planner", "inbox").out, "### status.blocked from builder", "> reason: no access to staging")

	got = h.as("planner", "trace", id)
	h.ok(got, nil)
	contains(t, got.out, id+"  knowledge.query from planner to builder  high, read", "message.sent", "message.delivered", "message.read", "inbox: read")
	if strings.Index(got.out, "message.sent") > strings.Index(got.out, "message.read") {
		t.Errorf("the trace is not in order:\n%s", got.out)
	}

	got = h.as("builder", "artifact", "put", write(t, "big.log", strings.Repeat("x", 5000)))
	h.ok(got, nil)
	contains(t, got.out, "5000 bytes", "send it with: --context '")
	_, ref, _ := strings.Cut(got.out, "--context '")
	ref, _, _ = strings.Cut(ref, "'")
	h.ok(h.as("builder", "send", "tester", "look at this", "--context", ref), nil)
	h.ok(h.as("builder", "send", "tester", "and at this", "--attach", write(t, "small.log", "y")), nil)
	if got = h.as("tester", "inbox"); strings.Count(got.out, "> artifact file: /") != 2 {
		t.Errorf("the artifacts are not shown:\n%s", got.out)
	}

	got = h.operator("agent", "list")
	contains(t, got.out, "NAME", "ROLE", "planner", "coordinator", "default …")
	if got = h.as("mallory", "agent", "list"); strings.Contains(got.out, "…") || got.code != 0 {
		t.Errorf("mallory sees keys: %s", got.out)
	}
	h.ok(h.operator("agent", "pause", "builder"), nil)
	if got = h.as("builder", "send", "tester", "still here"); got.code != 3 || !strings.Contains(got.err, "parley agent resume builder") {
		t.Errorf("a paused agent sends: %d %s", got.code, got.err)
	}
	h.ok(h.as("builder", "inbox"), nil)
	contains(t, h.operator("agent", "resume", "builder").out, "builder is active again")
	h.ok(h.as("builder", "send", "tester", "back"), nil)

	contains(t, h.as("", "schema", "print", "envelope").out, `"$schema"`)
	contains(t, h.as("", "version").out, "parley ", "acp 1.0.0")
	got = h.as("", "doctor")
	if got.code != 0 || strings.Contains(got.out, "FAIL") || strings.Contains(got.out, "\x1b") {
		t.Errorf("doctor: %d %s", got.code, got.out)
	}
}

// TestQueryFilters looks at the same few messages in every way.
func TestQueryFilters(t *testing.T) {
	h := newHouse(t)
	push := h.sent(h.as("planner", "send", "builder", "avatar is nullable", "--type", "knowledge.push", "--topic", "db", "--json"))
	blocked := h.sent(h.as("builder", "status", "blocked", "no avatar service", "--json"))
	other := h.sent(h.as("tester", "send", "planner", "all green", "--topic", "ci", "--json"))
	secret := h.sent(h.as("tester", "send", "builder", "between us", "--json"))
	h.ok(h.as("builder", "inbox", "--ack-id", push), nil)

	ids := func(who string, args ...string) []string {
		t.Helper()
		var got listShape
		h.ok(h.as(who, append([]string{"query", "--json"}, args...)...), &got)
		var ids []string
		for _, m := range got.Messages {
			ids = append(ids, m.ID)
		}
		return ids
	}
	for _, tt := range []struct {
		who  string
		args []string
		want []string
	}{
		{"planner", nil, []string{other, blocked, push}},
		{"tester", nil, []string{secret, other}},
		{"mallory", nil, nil},
		{"planner", []string{"--agent", "tester"}, []string{other}},
		{"mallory", []string{"--agent", "planner"}, nil},
		{"planner", []string{"--thread", blocked}, []string{blocked}},
		{"mallory", []string{"--thread", blocked}, nil},
		{"planner", []string{"--type", "knowledge.push"}, []string{push}},
		{"planner", []string{"--status", "read"}, []string{push}},
		{"planner", []string{"--status", "expired"}, nil},
		{"planner", []string{"--topic", "ci"}, []string{other}},
		{"planner", []string{"--since", "1h"}, []string{other, blocked, push}},
		{"planner", []string{"--until", "1h"}, nil},
		{"planner", []string{"--since", "2020-01-01T00:00:00Z", "--until", "2999-01-01T00:00:00Z"}, []string{other, blocked, push}},
		{"planner", []string{"--text", "avatar"}, []string{blocked, push}},
		{"planner", []string{"--text", "avatar nullable"}, []string{push}},
		{"mallory", []string{"--text", "avatar"}, nil},
		{"planner", []string{"--limit", "1"}, []string{other}},
	} {
		if got := ids(tt.who, tt.args...); !slices.Equal(got, tt.want) {
			t.Errorf("query %v as %s gave %v, want %v", tt.args, tt.who, got, tt.want)
		}
	}

	var all []string
	var page listShape
	for args := []string{"query", "--json", "--limit", "2"}; ; args = []string{"query", "--json", "--limit", "2", "--cursor", *page.Next} {
		page = listShape{}
		h.ok(h.as("planner", args...), &page)
		for _, m := range page.Messages {
			all = append(all, m.ID)
		}
		if *page.Next == "" {
			break
		}
	}
	if want := []string{other, blocked, push}; !slices.Equal(all, want) {
		t.Errorf("pages gave %v, want %v", all, want)
	}
	contains(t, h.as("planner", "query", "--limit", "1").out, "more: add --cursor ")

	for _, bad := range [][]string{
		{"--since", "yesterday"}, {"--until", "x"}, {"--status", "nice"}, {"--type", "gossip"}, {"--limit", "201"}, {"--limit", "-1"}, {"--cursor", "x"}, {"--agent", "A B"},
	} {
		if got := h.as("planner", append([]string{"query", "--json"}, bad...)...); got.code != 2 || got.out != "" {
			t.Errorf("query %v: exit %d, want 2: %s%s", bad, got.code, got.out, got.err)
		}
	}
}
