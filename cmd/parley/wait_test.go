package main

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// waiting returns once an agent waits at its inbox, as seen by those who write
// to somebody else: the hub knows it before the message is sent.
func (h *house) waiting(who string) {
	h.t.Helper()
	for deadline := time.Now().Add(waitTime); time.Now().Before(deadline); {
		var got receiptShape
		h.ok(h.operator("send", who, fmt.Sprint("are you there? ", time.Now()), "--expires", "1h", "--json"), &got)
		if got.Deliveries[0].Reach == "now" {
			return
		}
	}
	h.t.Fatalf("%s does not wait at its inbox", who)
}

func TestWait(t *testing.T) {
	t.Run("a wait ends when mail comes", func(t *testing.T) {
		h := newHouse(t)
		p := spawn(t, parley(t, h.env("builder"), "inbox", "--wait", "10m"))
		h.ok(h.as("planner", "send", "builder", "wake up"), nil)
		if code := p.wait(t); code != 0 {
			t.Fatalf("exit %d: %s", code, p.stderr)
		}
		contains(t, p.stdout.String(), "> summary: wake up")
	})
	t.Run("whoever waits is reached now", func(t *testing.T) {
		h := newHouse(t, "--unsafe-limits")
		p := spawn(t, parley(t, h.env("builder"), "inbox", "--watch"))
		h.waiting("builder")
		p.signal(t, os.Interrupt)
	})
	t.Run("a wait for nothing ends in time", func(t *testing.T) {
		h := readersHouse(t)
		if got := h.as("builder", "inbox", "--wait", "1ms"); got.code != 0 || got.out != "No messages.\n" {
			t.Errorf("exit %d: %s%s", got.code, got.out, got.err)
		}
	})
	t.Run("a wait is ended by Ctrl-C", func(t *testing.T) {
		h := newHouse(t, "--unsafe-limits")
		p := spawn(t, parley(t, h.env("builder"), "inbox", "--watch", "--json"))
		h.waiting("builder")
		if code := p.signal(t, os.Interrupt); code != 0 {
			t.Errorf("exit %d, want 0: %s", code, p.stderr)
		}
	})
}

func TestWatch(t *testing.T) {
	for name, kill := range map[string]func(*testing.T, *house){
		"stopped": func(_ *testing.T, h *house) { h.stop() },
		"killed":  func(t *testing.T, h *house) { h.hub.signal(t, syscall.SIGKILL) },
	} {
		t.Run("a watch shows each message once, over a hub that is "+name+" and comes back elsewhere", func(t *testing.T) {
			h := newHouse(t)
			// No PARLEY_URL: the watch has to find the hub again by its home.
			env := []string{"PARLEY_HOME=" + h.home, "PARLEY_KEY=" + h.keys["builder"]}
			h.ok(h.as("planner", "send", "builder", "number 0"), nil)
			p := spawn(t, parley(t, env, "inbox", "--watch"))
			p.stdout.await(t, "number 0")
			for i := 1; i < 4; i++ {
				h.ok(h.as("planner", "send", "builder", fmt.Sprint("number ", i)), nil)
			}
			p.stdout.await(t, "number 3")
			kill(t, h)
			p.stderr.await(t, "the hub is unreachable")
			h.start()
			for i := 4; i < 7; i++ {
				h.ok(h.as("planner", "send", "builder", fmt.Sprint("number ", i)), nil)
			}
			p.stdout.await(t, "number 6")
			if code := p.signal(t, os.Interrupt); code != 0 {
				t.Errorf("exit %d after Ctrl-C, want 0: %s", code, p.stderr)
			}
			for i := range 7 {
				if n := strings.Count(p.stdout.String(), fmt.Sprint("number ", i)); n != 1 {
					t.Errorf("number %d was shown %d times, want once", i, n)
				}
			}
			if n := strings.Count(p.stderr.String(), "the hub is unreachable"); n != 1 {
				t.Errorf("one outage was told %d times", n)
			}
			contains(t, p.stderr.String(), "the hub is back")
		})
	}
	t.Run("a watch that acks leaves an empty inbox", func(t *testing.T) {
		h := newHouse(t)
		p := spawn(t, parley(t, h.env("builder"), "inbox", "--watch", "--ack", "--json"))
		h.ok(h.as("planner", "send", "builder", "deal with it"), nil)
		var got listShape
		strict(t, p.stdout.await(t, "deal with it"), &got)
		if len(got.Messages) != 1 || got.Messages[0].Status != "read" {
			t.Errorf("watched %+v", got.Messages)
		}
		p.signal(t, syscall.SIGTERM)
		if got := h.as("builder", "inbox"); got.out != "No messages.\n" {
			t.Errorf("the inbox still has %s", got.out)
		}
	})
	t.Run("a revoked key ends a watch", func(t *testing.T) {
		h := newHouse(t)
		h.ok(h.as("planner", "send", "builder", "hello"), nil)
		p := spawn(t, parley(t, h.env("builder"), "inbox", "--watch", "--json"))
		p.stdout.await(t, "hello")
		h.ok(h.operator("agent", "revoke", "builder"), nil)
		h.ok(h.as("planner", "send", "builder", "the last one"), nil) // wakes it
		if code := p.wait(t); code != 3 {
			t.Errorf("exit %d, want 3: %s", code, p.stderr)
		}
	})
}

func TestAsk(t *testing.T) {
	h := newHouse(t)
	h.ok(h.as("tester", "send", "planner", "something else"), nil)
	p := spawn(t, parley(t, h.env("planner"), "ask", "builder", "Can avatar be null?", "--wait", "2m"))
	var mail listShape
	h.ok(h.as("builder", "inbox", "--wait", "2m", "--json"), &mail)
	if len(mail.Messages) != 1 || mail.Messages[0].Type != "knowledge.query" {
		t.Fatalf("builder got %v, want one question", mail.Messages)
	}
	h.ok(h.as("builder", "reply", mail.Messages[0].ID, "Yes, old users have none."), nil)
	if code := p.wait(t); code != 0 {
		t.Fatalf("ask: exit %d: %s", code, p.stderr)
	}
	contains(t, p.stdout.String(), "knowledge.response from builder", "> answer: Yes, old users have none.")
	t.Run("the answer counts as read, and other mail stays new", func(t *testing.T) {
		var mail listShape
		h.ok(h.as("planner", "inbox", "--new", "--json"), &mail)
		if len(mail.Messages) != 1 || mail.Messages[0].From != "tester" {
			t.Errorf("planner has %v, want the message of tester alone", mail.Messages)
		}
	})
}
