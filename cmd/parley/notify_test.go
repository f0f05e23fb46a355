package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/parley-agents/parley/hub"
)

func TestNotify(t *testing.T) {
	bodies := newLines()
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		bodies.add(r.Header.Get("Webhook-Signature")+" "+string(body), false)
	}))
	defer receiver.Close()
	secret, url := write(t, "secret", "sixteen bytes or more\n"), write(t, "url", receiver.URL+"/hook\n")
	config := fmt.Sprintf("peer_allow: [127.0.0.0/8]\nnotify:\n- {name: ops, url_file: %q, secret_file: %q, batch: 1ms}\n- {name: local, url: 'http://169.254.169.254/x', template: slack, events: [held], batch: 1ms}\n", url, secret)
	h := newHouse(t, "--config", write(t, "config.yaml", config))
	row := func(id string) (out hub.Delivery) {
		t.Helper()
		var got struct{ Deliveries []hub.Delivery }
		h.ok(h.operator("show", id, "--json"), &got)
		for _, d := range got.Deliveries {
			if d.Channel == hub.ChannelNotify {
				out = d
			}
		}
		return out
	}

	t.Run("R3-083 a held message reaches a person without text of high sensitivity, and so does the answer", func(t *testing.T) {
		id := h.sent(h.as("planner", "send", "builder", "the password is 1234", "--human-gate", "required", "--sensitivity", "high", "--json"))
		body := bodies.await(t, "needs your approval")
		contains(t, body, "v1,", `"kind":"held"`, id, "parley approve m")
		h.ok(h.operator("approve", id), nil)
		bodies.await(t, `"ended":[{"kind":"held","id":"`+id)
		if strings.Contains(bodies.String(), "1234") {
			t.Errorf("text of high sensitivity left:\n%s", bodies)
		}
	})

	t.Run("R3-089 a critical message takes the channel, and the ledger says who took it", func(t *testing.T) {
		id := h.sent(h.as("planner", "send", "builder", "the database is gone", "--priority", "critical", "--json"))
		body := bodies.await(t, "messages are waiting for builder: 1 critical")
		if strings.Contains(body, "database") {
			t.Errorf("the channel carries text: %s", body)
		}
		poll(t, "the ledger", func() bool { return row(id).Status == hub.DeliveryAccepted })
		contains(t, row(id).Error, "notify", "accepted by ops")
		if got := row(h.sent(h.as("planner", "send", "builder", "lunch", "--json"))); got.Channel != "" {
			t.Errorf("a normal message takes the channel: %+v", got)
		}
	})

	t.Run("R3-088 a high message takes the channel of a hub that has one", func(t *testing.T) {
		id := h.sent(h.as("planner", "send", "builder", "schema changes", "--priority", "high", "--json"))
		poll(t, "the ledger", func() bool { return row(id).Status == hub.DeliveryAccepted })
	})

	t.Run("the guard of peers refuses a webhook, which is a dead letter", func(t *testing.T) {
		poll(t, "the dead letter", func() bool {
			return strings.Contains(h.operator("notify", "list").out, "local by slack: taken 0, waiting 0, dead 1")
		})
		r := h.operator("notify", "list")
		contains(t, r.out, "169.254.169.254 is never called", "ops by json")
		if strings.Contains(r.out, receiver.URL) {
			t.Errorf("the address of a webhook is a secret: %s", r.out)
		}
		d := h.operator("doctor")
		contains(t, d.out, "FAIL notify target local: failed 1 times since ", "169.254.169.254 is never called", "; 1 in dead letters since ", `run "parley notify replay local" to send them again`)
		if d.code != exitCheck || strings.Contains(d.out, "notify target ops") {
			t.Errorf("exit %d:\n%s", d.code, d.out)
		}
		contains(t, h.operator("notify", "replay", "local").out, "sent again: 1")
	})

	t.Run("a test tells which target works", func(t *testing.T) {
		r := h.operator("notify", "test")
		if r.code != exitCheck {
			t.Errorf("exit %d", r.code)
		}
		contains(t, r.out, "ops took it", "local did not take it: 169.254.169.254 is never called")
		bodies.await(t, `"test":true`)
		h.ok(h.operator("notify", "test", "ops"), nil)
		if r := h.operator("notify", "test", "nobody"); r.code != exitMissing {
			t.Errorf("exit %d: %s", r.code, r.err)
		}
		if r := h.as("mallory", "notify", "list"); r.code != exitRefused {
			t.Errorf("an agent lists targets: exit %d: %s%s", r.code, r.out, r.err)
		}
	})

	t.Run("the records fit", func(t *testing.T) {
		h.ok(h.operator("hub", "verify"), nil)
	})

	t.Run("a wrong target keeps the hub from starting", func(t *testing.T) {
		for text, part := range map[string]string{
			"notify: [{name: ops, command: [x], events: [hold]}]":  `unknown event "hold"`,
			"notify: [{name: ops, url: 'https://a.example'}]":      "signed webhook must have",
			"notify: [{name: ops, comand: [x]}]":                   "the members are name, command",
			"notify: [{name: ops, url_file: /nonexistent/parley}]": "url_file",
		} {
			r := do(t, parley(t, nil, "serve", "--home", t.TempDir(), "--addr", "127.0.0.1:0", "--config", write(t, "config.yaml", text+"\n")))
			if r.code != exitUsage || !strings.Contains(r.err, part) {
				t.Errorf("%s: exit %d: %s", text, r.code, r.err)
			}
		}
	})
}
