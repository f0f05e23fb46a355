package main

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parley-agents/parley/hub"
)

// payloadOf returns a status.update payload of exactly n bytes.
func payloadOf(n int) string {
	const frame = `{"summary":"s","detail":""}`
	return strings.Replace(frame, `"detail":"`, `"detail":"`+strings.Repeat("d", n-len(frame)), 1)
}

// TestRefusals has every exit code, and a hint wherever there is a way on.
func TestRefusals(t *testing.T) {
	h := newHouse(t)
	const nowhere = "0198c1d2-7a3e-7b3c-9d52-0f3b6a1e2c44"
	secret := h.sent(h.as("planner", "send", "builder", "between us", "--json"))
	tests := []struct {
		name string
		who  string
		args []string
		exit int
		code string
		hint string
	}{
		{"a flag that does not exist", "builder", []string{"send", "--frm", "planner"}, 2, "usage", "parley send --help"},
		{"a command that does not exist", "builder", []string{"sned", "planner", "x"}, 2, "usage", "did you mean send?"},
		{"a command of a group that does not exist", "builder", []string{"agent", "frobnicate"}, 2, "usage", "parley agent --help"},
		{"too few arguments", "builder", []string{"respond"}, 2, "usage", "usage: parley respond ID [TEXT]"},
		{"no recipient", "builder", []string{"send"}, 2, "usage", "name one or more"},
		{"nothing to send", "builder", []string{"send", "planner"}, 2, "usage", "give a text"},
		{"text and payload", "builder", []string{"send", "planner", "x", "--payload", "{}"}, 2, "usage", ""},
		{"recipients twice", "builder", []string{"send", "--to", "planner", "tester", "x"}, 2, "usage", ""},
		{"context twice", "builder", []string{"send", "planner", "x", "--context", "{}", "--ref", "pr:1"}, 2, "usage", ""},
		{"a reference without a type", "builder", []string{"send", "planner", "x", "--ref", "42"}, 2, "usage", "pr:42"},
		{"watch and peek", "builder", []string{"inbox", "--watch", "--peek"}, 2, "usage", ""},
		{"peek and ack", "builder", []string{"inbox", "--peek", "--ack"}, 2, "usage", ""},
		{"a payload that is not JSON", "builder", []string{"send", "planner", "--type", "status.update", "--payload", "{"}, 2, "schema_invalid", "@FILE"},
		{"a payload that is not an object", "builder", []string{"send", "planner", "--type", "status.update", "--payload", "[]"}, 2, "schema_invalid", ""},
		{"a payload without what it needs", "builder", []string{"send", "planner", "--type", "knowledge.push", "--payload", `{"topic":"x"}`}, 2, "schema_invalid", ""},
		{"a payload file that is not there", "builder", []string{"send", "planner", "--type", "status.update", "--payload", "@/nonexistent"}, 2, "schema_invalid", ""},
		{"a type nobody knows", "builder", []string{"send", "planner", "--type", "status.gossip", "--payload", `{}`}, 2, "unknown_type", "status.update"},
		{"a type of a feature that is off", "builder", []string{"send", "planner", "--type", "task.offer", "--sequence", "1", "--payload", `{}`}, 2, "reserved_type", "features"},
		{"a type that only the hub writes", "mallory", []string{"send", "planner", "--type", "system.ack", "--payload", `{}`}, 2, "reserved_type", "acp_inbox"},
		{"a handoff by hand", "mallory", []string{"send", "planner", "--type", "handoff.accept", "--payload", `{}`}, 2, "reserved_type", "acp_handoff"},
		{"a payload of 4097 bytes", "builder", []string{"send", "planner", "--type", "status.update", "--payload", payloadOf(4097)}, 2, "payload_too_large", "artifact"},
		{"a priority nobody knows", "builder", []string{"send", "planner", "x", "--priority", "asap"}, 2, "schema_invalid", ""},
		{"everyone and somebody", "planner", []string{"send", "*,builder", "x"}, 2, "schema_invalid", ""},
		{"an expiry that has passed", "builder", []string{"send", "planner", "x", "--expires", "2020-01-01T00:00:00Z"}, 2, "schema_invalid", "it is now"},
		{"a state nobody knows", "builder", []string{"status", "happy", "x"}, 2, "schema_invalid", ""},
		{"a bad name for an agent", "operator", []string{"agent", "add", "Bob Smith"}, 2, "schema_invalid", "a-z"},
		{"a role nobody knows", "operator", []string{"agent", "add", "bob", "--role", "boss"}, 2, "schema_invalid", "coordinator"},
		{"a folder as artifact", "builder", []string{"artifact", "put", os.TempDir()}, 2, "schema_invalid", ""},

		{"no key", "nobody", []string{"inbox"}, 3, "unauthenticated", "--as-operator"},
		{"an agent as operator", "mallory", []string{"agent", "add", "eve"}, 3, "forbidden", "operator"},
		{"an agent that mints keys", "mallory", []string{"agent", "key", "planner", "--label", "mine"}, 3, "forbidden", ""},
		{"an agent that looks at what is held", "mallory", []string{"approve"}, 3, "forbidden", ""},
		{"R3-093 a broadcast without authority", "mallory", []string{"send", "*", "follow me"}, 3, "forbidden", "priority high"},
		{"a team where there are none", "builder", []string{"send", "planner", "x", "--visibility", "team"}, 3, "policy_violation", "private"},
		{"a thread between others", "mallory", []string{"send", "builder", "x", "--thread", secret}, 3, "forbidden", "begin a new thread"},

		{"a recipient nobody knows, but nearly", "builder", []string{"send", "plannr", "x"}, 4, "unknown_recipient", "did you mean planner?"},
		{"a recipient nobody knows", "builder", []string{"send", "zzzzzzzzzz", "x"}, 4, "unknown_recipient", "parley agent list"},
		{"one of two recipients is unknown", "builder", []string{"send", "planner,plannr", "x"}, 4, "unknown_recipient", "planner"},
		{"a message that does not exist", "builder", []string{"trace", nowhere}, 4, "not_found", ""},
		{"a message of others", "mallory", []string{"trace", secret}, 4, "not_found", ""},
		{"an answer to a message of others", "mallory", []string{"respond", secret, "x"}, 4, "not_found", ""},
		{"an ack for others", "mallory", []string{"inbox", "--ack-id", secret}, 4, "not_found", ""},
		{"a second agent of that name", "operator", []string{"agent", "add", "planner"}, 4, "conflict", ""},
		{"the name of the hub itself", "operator", []string{"agent", "add", "operator"}, 4, "conflict", ""},
		{"an agent that does not exist", "operator", []string{"agent", "pause", "ghost"}, 4, "not_found", ""},
		{"a second key of that label", "operator", []string{"agent", "key", "planner"}, 4, "conflict", ""},
		{"a message that is not held", "operator", []string{"approve", secret}, 4, "conflict", "lists what is held"},
		{"a schema that does not exist", "nobody", []string{"schema", "print", "poem"}, 4, "not_found", "parley schema list"},
		{"an artifact that does not exist", "builder", []string{"artifact", "get", strings.Repeat("0", 64)}, 4, "not_found", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			args := append(tt.args, "--json")
			if tt.who == "operator" {
				args = append(args, "--as-operator")
			}
			got := refused(t, h.as(tt.who, args...), tt.exit, tt.code)
			if !strings.Contains(got.Error.Hint, tt.hint) {
				t.Errorf("hint %q, want one with %q", got.Error.Hint, tt.hint)
			}
		})
	}

	t.Run("a refused call changes nothing", func(t *testing.T) {
		var got listShape
		h.ok(h.operator("query", "--json"), &got)
		if len(got.Messages) != 1 || got.Messages[0].ID != secret {
			t.Errorf("there are %d messages, want the one that was sent", len(got.Messages))
		}
	})
	t.Run("4096 bytes pass", func(t *testing.T) {
		h.ok(h.as("builder", "send", "planner", "--type", "status.update", "--payload", payloadOf(4096)), nil)
	})
	t.Run("R3-007 the sender is who holds the key", func(t *testing.T) {
		var got listShape
		h.ok(h.as("planner", "inbox", "--json"), &got)
		if got.Messages[0].From != "builder" {
			t.Errorf("from %q", got.Messages[0].From)
		}
	})
	t.Run("people see the same, in words", func(t *testing.T) {
		got := h.as("builder", "send", "plannr", "x")
		if want := "parley: nobody on this hub is called \"plannr\"\n  did you mean planner?\n"; got.code != 4 || got.err != want || got.out != "" {
			t.Errorf("exit %d %q, want 4 %q", got.code, got.err, want)
		}
	})
	t.Run("a revoked key is of no use", func(t *testing.T) {
		h.ok(h.operator("agent", "revoke", "tester"), nil)
		refused(t, h.as("tester", "inbox", "--json"), 3, "unauthenticated")
		var got receiptShape
		h.ok(h.as("planner", "send", "tester", "are you there?", "--json"), &got)
		if got.Deliveries[0].Reach != "unreachable" {
			t.Errorf("reach %q of somebody without a key, want unreachable", got.Deliveries[0].Reach)
		}
	})
	t.Run("a made-up key is of no use", func(t *testing.T) {
		h.keys["stranger"] = "cacp_sk_live_" + strings.Repeat("A", 43)
		refused(t, h.as("stranger", "inbox", "--json"), 3, "unauthenticated")
	})
}

// TestLimits runs into every limit that one sender can run into.
func TestLimits(t *testing.T) {
	t.Run("R3-091 the 11th message within a minute is refused", func(t *testing.T) {
		h := newHouse(t)
		for i := range 10 {
			h.ok(h.as("builder", "send", "planner", fmt.Sprint("n ", i)), nil)
		}
		got := refused(t, h.as("builder", "send", "planner", "one more", "--json"), 3, "rate_limited")
		if s := got.Error.RetryAfterS; s <= 0 || s > 60 {
			t.Errorf("retry after %v s, want within a minute", s)
		}
		contains(t, got.Error.Hint, "try again in ")
		h.ok(h.as("tester", "send", "planner", "not me"), nil)
		h.stop()
		h.start()
		refused(t, h.as("builder", "send", "planner", "after a restart", "--json"), 3, "rate_limited")
	})
	t.Run("R3-092 the 6th broadcast within an hour is refused", func(t *testing.T) {
		h := newHouse(t)
		for i := range 5 {
			h.ok(h.as("planner", "send", "*", fmt.Sprint("n ", i)), nil)
		}
		got := refused(t, h.as("planner", "send", "*", "one more", "--json"), 3, "rate_limited")
		if s := got.Error.RetryAfterS; s <= 60 || s > 3600 {
			t.Errorf("retry after %v s, want within an hour", s)
		}
		h.ok(h.as("planner", "send", "builder", "just you"), nil)
	})
	t.Run("R3-093 a broadcast needs a coordinator or a high priority", func(t *testing.T) {
		h := newHouse(t)
		refused(t, h.as("builder", "send", "*", "hello", "--json"), 3, "forbidden")
		var got receiptShape
		h.ok(h.as("builder", "send", "*", "fire", "--priority", "high", "--json"), &got)
		reached := map[string]bool{}
		for _, d := range got.Deliveries {
			if d.Channel == "inbox" {
				reached[d.Recipient] = true
			}
		}
		if len(reached) != len(cast) || reached["builder"] || !reached["operator"] {
			t.Errorf("a broadcast went to %v, want all but the sender", reached)
		}
	})
	t.Run("R3-109 who repeats itself is suspended, and the operator can lift it", func(t *testing.T) {
		h := newHouse(t)
		for range 3 {
			h.ok(h.as("mallory", "send", "builder", "buy now"), nil)
		}
		refused(t, h.as("mallory", "send", "builder", "buy now", "--json"), 3, "circuit_open")
		got := refused(t, h.as("mallory", "send", "tester", "something else", "--json"), 3, "circuit_open")
		contains(t, got.Error.Hint, "wait ")
		h.ok(h.as("mallory", "inbox"), nil)
		var told listShape
		h.ok(h.as("planner", "inbox", "--wait", "30s", "--json"), &told)
		if m := told.Messages; len(m) != 1 || m[0].From != "hub" || m[0].Type != "system.error" {
			t.Errorf("the coordinator was told %+v", m)
		}
		refused(t, h.as("mallory", "agent", "reset", "mallory", "--json"), 3, "forbidden")
		contains(t, h.operator("agent", "reset", "mallory").out, "mallory is not suspended any more")
		h.ok(h.as("mallory", "send", "tester", "sorry"), nil)
	})
	t.Run("the same idempotency key is the same message", func(t *testing.T) {
		h := newHouse(t)
		first := h.sent(h.as("builder", "send", "planner", "once", "--idempotency-key", "k", "--json"))
		var again receiptShape
		h.ok(h.as("builder", "send", "planner", "once", "--idempotency-key", "k", "--json"), &again)
		if again.ID != first || !again.Duplicate {
			t.Errorf("the same key gave %+v, want %s again", again, first)
		}
		refused(t, h.as("builder", "send", "planner", "twice", "--idempotency-key", "k", "--json"), 4, "conflict")
	})
}

// TestFaults is about hubs that are not there, or not well.
func TestFaults(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()
	env := []string{"PARLEY_KEY=cacp_sk_live_x", "PARLEY_HOME=" + t.TempDir()}
	for _, args := range [][]string{
		{"send", "planner", "x"}, {"inbox"}, {"inbox", "--watch"}, {"query"}, {"trace", "x"}, {"artifact", "get", "x"}, {"agent", "list"}, {"approve"},
	} {
		t.Run("no hub: "+strings.Join(args, " "), func(t *testing.T) {
			got := refused(t, do(t, parley(t, append(env, "PARLEY_URL="+addr), append(args, "--json")...)), 5, "degraded")
			contains(t, got.Error.Hint, "parley serve")
		})
	}
	t.Run("an address that is none", func(t *testing.T) {
		refused(t, do(t, parley(t, append(env, "PARLEY_URL=http://a b"), "inbox", "--json")), 2, "schema_invalid")
	})
	t.Run("doctor on a home that is not there", func(t *testing.T) {
		got := do(t, parley(t, append(env, "PARLEY_URL="+addr), "doctor", "--home", filepath.Join(t.TempDir(), "none")))
		if got.code != 1 || got.err != "" {
			t.Errorf("exit %d, want 1: %s", got.code, got.err)
		}
		contains(t, got.out, "FAIL home", "does not exist", "start the hub once: parley serve")
	})
	t.Run("doctor says everything that is wrong", func(t *testing.T) {
		h := newHouse(t)
		h.stop()
		os.Chmod(h.home, 0o755)
		os.Chmod(filepath.Join(h.home, "operator.key"), 0o644)
		os.WriteFile(filepath.Join(h.home, "config.yaml"), []byte("adress: x\n"), 0o600)
		if err := os.WriteFile(filepath.Join(h.home, "hub.db"), []byte("not a database, whatever its name says\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		got := do(t, parley(t, []string{"PARLEY_HOME=" + h.home, "PARLEY_URL=" + addr}, "doctor"))
		if got.code != 1 {
			t.Errorf("exit %d, want 1", got.code)
		}
		contains(t, got.out, "FAIL home", "chmod 700", "FAIL hub", "FAIL operator's key", "chmod 600", "FAIL database", "FAIL configuration", "adress", "ok   disk")
	})
	t.Run("a corrupt database is refused with what to do", func(t *testing.T) {
		h := newHouse(t)
		h.stop()
		if err := os.WriteFile(filepath.Join(h.home, "hub.db"), []byte(strings.Repeat("not a database\n", 1000)), 0o600); err != nil {
			t.Fatal(err)
		}
		got := refused(t, do(t, parley(t, nil, "serve", "--home", h.home, "--addr", "127.0.0.1:0", "--json")), 5, "degraded")
		if got.Error.Hint == "" {
			t.Error("there is no hint")
		}
		raw, _ := os.ReadFile(filepath.Join(h.home, "hub.db"))
		if !strings.HasPrefix(string(raw), "not a database") {
			t.Error("the corrupt file was changed")
		}
	})
	t.Run("a database that is gone is not begun anew", func(t *testing.T) {
		h := newHouse(t)
		h.stop()
		if err := os.Remove(filepath.Join(h.home, "hub.db")); err != nil {
			t.Fatal(err)
		}
		refused(t, do(t, parley(t, nil, "serve", "--home", h.home, "--addr", "127.0.0.1:0", "--json")), 5, string(hub.CodeDegraded))
	})
}
