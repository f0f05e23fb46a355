package main

import (
	"os"
	"strings"
	"testing"
)

// An agent calls an option Reject that allows for ever. Every command shows the effect.
func TestOptionsShowTheirEffect(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	h.ok(h.as("", "agent", "keep", "asker", "--dir", t.TempDir(), "--policy", "ask", "--as-operator", "--", "env", asWorker+"=asking", self), nil)
	h.sent(h.as("planner", "send", "asker", "go on", "--json"))
	var listed string
	poll(t, "the question", func() bool {
		listed = h.operator("agent", "list", "--kept").out
		return strings.Contains(listed, "asks (q1)")
	})
	contains(t, listed,
		"parley reply q1 y  (allow once: Yes)", "parley reply q1 n  (reject once: No)", "parley reply q1 reject  (allow always: Reject)")
	contains(t, h.operator("inbox").out, "asker asks: Remove everything")
	answered := h.operator("reply", "q1", "reject")
	h.ok(answered, nil)
	contains(t, answered.out, "q1 of asker is answered: allow always: Reject")
	contains(t, h.operator("hub", "journal", "--action", "agent.answered", "--json").out, `"option":"reject"`, `"kind":"allow_always"`)
}
