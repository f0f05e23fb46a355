package main

import (
	"regexp"
	"strings"
	"syscall"
	"testing"
)

func TestLog(t *testing.T) {
	h := newHouse(t)
	h.ok(h.as("planner", "send", "builder", "schema is frozen"), nil)
	h.ok(h.as("builder", "status", "blocked", "no avatar service\nsince noon"), nil)
	h.ok(h.as("tester", "send", "planner", "all green", "--topic", "ci"), nil)
	lines := func(r result) (out []string) {
		t.Helper()
		h.ok(r, nil)
		for line := range strings.Lines(r.out) {
			if at := regexp.MustCompile(`^\d\d:\d\d `).FindString(line); at != "" { // others name the day
				out = append(out, strings.TrimSuffix(strings.TrimPrefix(line, at), "\n"))
			}
		}
		return out
	}
	wantLines := func(r result, want ...string) {
		t.Helper()
		if got := lines(r); strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
	frozen, blocked, green := "planner → builder  schema is frozen", "builder → planner  status.blocked: no avatar service since noon", "tester → planner  all green"
	wantLines(h.as("planner", "log"), frozen, blocked, green)
	wantLines(h.as("mallory", "log"))
	wantLines(h.operator("log", "--since", "1h"), frozen, blocked, green)
	wantLines(h.operator("log", "--limit", "1"), green)
	wantLines(h.operator("log", "--from", "builder", "--to", "planner", "--type", "status.blocked"), blocked)
	wantLines(h.operator("log", "--topic", "ci"), green)
	if got := strings.Count(h.operator("log", "--json").out, "\n"); got != 3 {
		t.Errorf("--json: got %d lines, want one for each message", got)
	}

	t.Run("--follow prints each new message once, in order", func(t *testing.T) {
		watch := spawn(t, parley(t, h.env(""), "log", "--follow", "--as-operator", "--limit", "1"))
		watch.stdout.await(t, green)
		for _, text := range []string{"one", "two", "three"} {
			h.ok(h.as("planner", "send", "builder", text), nil)
		}
		watch.stdout.await(t, "planner → builder  three")
		if code := watch.signal(t, syscall.SIGINT); code != 0 && code != exitSignal {
			t.Errorf("exit %d", code)
		}
		got := watch.stdout.String()
		for _, text := range []string{green, "builder  one", "builder  two", "builder  three"} {
			if strings.Count(got, text) != 1 {
				t.Errorf("%q is not there once:\n%s", text, got)
			}
		}
	})
}
