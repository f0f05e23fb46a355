package main

import (
	"slices"
	"testing"
)

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
		h.ok(h.as(who, append([]string{"log", "--whole", "--json"}, args...)...), &got)
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
	for args := []string{"log", "--whole", "--json", "--limit", "2"}; ; args = []string{"log", "--whole", "--json", "--limit", "2", "--cursor", *page.Next} {
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
	contains(t, h.as("planner", "log", "--whole", "--limit", "1").out, "more: add --cursor ")

	for _, bad := range [][]string{
		{"--since", "yesterday"}, {"--until", "x"}, {"--status", "nice"}, {"--type", "gossip"}, {"--limit", "201"}, {"--limit", "-1"}, {"--cursor", "x"}, {"--agent", "A B"},
	} {
		if got := h.as("planner", append([]string{"log", "--whole", "--json"}, bad...)...); got.code != 2 || got.out != "" {
			t.Errorf("query %v: exit %d, want 2: %s%s", bad, got.code, got.out, got.err)
		}
	}
}
