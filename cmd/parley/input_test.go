package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestInput is about where commands take their words, key and hub from.
func TestInput(t *testing.T) {
	h := newHouse(t)
	payload := `{"topic":"db","summary":"avatar is nullable","confidence":"high"}`
	push := []string{"send", "--to", "builder,tester", "--type", "knowledge.push", "--json", "--payload"}

	t.Run("a payload comes as it is, from a file, or from standard input", func(t *testing.T) {
		h.sent(h.as("planner", append(push, payload)...))
		h.sent(h.as("planner", append(push, "@"+write(t, "payload.json", payload+"\n"))...))
		h.sent(h.stdin("planner", "\n"+payload, append(push, "-")...))
		for _, who := range []string{"builder", "tester"} {
			var got listShape
			h.ok(h.as(who, "inbox", "--json"), &got)
			if len(got.Messages) != 3 {
				t.Fatalf("%s has %d messages, want 3", who, len(got.Messages))
			}
			for _, m := range got.Messages {
				if string(m.Payload) != payload || !slices.Equal(m.To, []string{"builder", "tester"}) {
					t.Errorf("%s got %s to %v", who, m.Payload, m.To)
				}
			}
		}
	})
	t.Run("a text comes from standard input", func(t *testing.T) {
		id := h.sent(h.stdin("builder", "first line\nsecond line\n", "send", "planner", "-", "--json"))
		h.ok(h.stdin("planner", "seen\n", "reply", id, "-"), nil)
		var got listShape
		h.ok(h.as("planner", "log", "--whole", "--thread", id, "--json"), &got)
		if p := string(got.Messages[1].Payload); p != `{"summary":"first line\nsecond line"}` {
			t.Errorf("payload %s", p)
		}
		if p := string(got.Messages[0].Payload); p != `{"summary":"seen"}` {
			t.Errorf("payload of the answer %s", p)
		}
	})
	t.Run("a long text is cut to a summary, kept whole, and shown once", func(t *testing.T) {
		long := strings.Repeat("word ", 100) + "end"
		h.sent(h.as("tester", "send", "planner", long, "--json"))
		got := h.as("planner", "inbox")
		contains(t, got.out, "> detail: "+long)
		if strings.Contains(got.out, "word…") {
			t.Errorf("got %s, want the text once", got.out)
		}
	})
	t.Run("empty standard input is nothing to send", func(t *testing.T) {
		refused(t, h.stdin("builder", "\n", "send", "planner", "-", "--json"), 2, "usage")
	})
	t.Run("input without end is refused", func(t *testing.T) {
		refused(t, h.stdin("builder", strings.Repeat("x", 2<<20), "send", "planner", "-", "--json"), 2, "payload_too_large")
	})

	t.Run("a key comes from a file, and before the environment", func(t *testing.T) {
		file := write(t, "key", h.keys["builder"]+"\n")
		for _, who := range []string{"", "mallory"} {
			var got listShape
			h.ok(h.as(who, "log", "--whole", "--agent", "tester", "--json", "--key-file", file), &got)
			if len(got.Messages) == 0 {
				t.Errorf("the key in the file was not used instead of %q", who)
			}
		}
		refused(t, h.as("builder", "inbox", "--json", "--key-file", "/nonexistent"), 2, "schema_invalid")
		refused(t, h.as("builder", "inbox", "--json", "--key-file", write(t, "empty", "\n")), 2, "schema_invalid")
	})
	t.Run("the operator's key is not used unless asked for", func(t *testing.T) {
		got := refused(t, h.as("nobody", "agent", "list", "--json"), 3, "unauthenticated")
		contains(t, got.Error.Hint, "PARLEY_KEY", "--key-file", "--as-operator")
		h.ok(h.operator("agent", "list"), nil)
		// An agent that runs as the operator's user still has to say so.
		h.ok(h.as("mallory", "agent", "list", "--as-operator"), nil)
	})
	t.Run("the operator's key is only in the hub's home", func(t *testing.T) {
		got := refused(t, h.as("", "agent", "list", "--json", "--as-operator", "--home", t.TempDir()), 3, "unauthenticated")
		contains(t, got.Error.Hint, "parley serve")
	})
	t.Run("the hub is found by PARLEY_URL, else by its home", func(t *testing.T) {
		byHome := []string{"PARLEY_HOME=" + h.home, "PARLEY_KEY=" + h.keys["builder"]}
		h.ok(do(t, parley(t, byHome, "inbox")), nil)
		h.ok(do(t, parley(t, byHome[1:], "inbox", "--home", h.home)), nil)
		elsewhere := []string{"PARLEY_HOME=" + t.TempDir(), "PARLEY_KEY=" + h.keys["builder"], "PARLEY_URL=" + strings.TrimPrefix(h.url, "http://") + "/"}
		h.ok(do(t, parley(t, elsewhere, "inbox")), nil)
	})
	t.Run("~/.parley is the home of last resort", func(t *testing.T) {
		dir := t.TempDir()
		if err := os.Symlink(h.home, filepath.Join(dir, ".parley")); err != nil {
			t.Fatal(err)
		}
		h.ok(do(t, parley(t, []string{"HOME=" + dir}, "agent", "list", "--as-operator")), nil)
	})
}
