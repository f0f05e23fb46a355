package main

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/parley-agents/parley/hub"
)

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
			var trial struct {
				Remaining int      `json:"remaining"`
				ResetsAt  hub.Time `json:"resets_at"`
			}
			h.ok(h.as("planner", "send", "--all", "--dry-run", "n", "--json"), &trial)
			if trial.Remaining != 5-i || trial.ResetsAt.IsZero() {
				t.Errorf("after %d: got %+v", i, trial)
			}
			contains(t, h.as("planner", "send", "--all", "--dry-run", "n").out, "resets at: ", trial.ResetsAt.Local().Format("15:04"))
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
		refused(t, h.as("mallory", "agent", "resume", "mallory", "--suspension", "--json"), 3, "forbidden")
		contains(t, h.operator("agent", "resume", "mallory", "--suspension").out, "mallory is no longer suspended")
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
		{"send", "planner", "x"}, {"inbox"}, {"inbox", "--watch"}, {"log", "--whole"}, {"show", "x"}, {"artifact", "get", "x"}, {"agent", "list"}, {"approve"},
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

// TestRefusalsSurviveAKill kills a hub after refusals that it has only counted.
func TestRefusalsSurviveAKill(t *testing.T) {
	h := newHouse(t)
	const n = 7
	for range n {
		refused(t, h.as("mallory", "hub", "operator", "add", "eve", "--json"), 3, "forbidden")
	}
	h.hub.signal(t, syscall.SIGKILL)
	h.hub.wait(t)
	h.start()
	var got struct {
		Entries []struct {
			Actor hub.AgentID
			Facts struct {
				Code  hub.Code
				Count int
			}
		}
	}
	h.ok(h.operator("hub", "journal", "--action", "call.refused", "--json"), &got)
	counted := 0
	for _, e := range got.Entries {
		if e.Actor == "mallory" && e.Facts.Code == hub.CodeDenied {
			counted += e.Facts.Count
		}
	}
	if counted != n {
		t.Errorf("the journal has %d refusals of mallory after a kill, want %d: %+v", counted, n, got.Entries)
	}
}
