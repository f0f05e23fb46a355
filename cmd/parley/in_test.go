package main

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/parley-agents/parley/internal/operation/api"
)

// TestIn adds a source of events and a schedule by commands, as a person does.
func TestIn(t *testing.T) {
	t.Parallel()
	h := newHouse(t, "--in-addr", "127.0.0.1:0")
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	secret := write("secret", "0123456789abcdef0123\n")
	rules := write("rules.yaml", "rules:\n  - {kind: ci, state: success, quiet: true}\n  - {kind: issue, repository: acme/*, to: tester}\nmembers: [grace]\n")

	var added api.SourceAnswer
	h.ok(h.operator("events", "add", "gl", "--from", "gitlab", "--secret-file", secret, "--to", "builder", "--map", rules, "--json"), &added)
	if len(added.Source.Rules) != 2 || added.Source.Members[0] != "grace" || !strings.HasSuffix(added.URL, "/in/gl") {
		t.Fatalf("got %+v", added)
	}
	req, err := http.NewRequest(http.MethodPost, added.URL, strings.NewReader(`{"object_kind":"note","user":{"username":"grace"},"object_attributes":{"note":"rename it"},"issue":{"title":"Parser"},"project":{"path_with_namespace":"acme/shop"}}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Gitlab-Token", "0123456789abcdef0123")
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		t.Errorf("got status %d", answer.StatusCode)
	}
	contains(t, h.as("builder", "inbox").out, "Events from outside", "event.received from in:gl", "> text: rename it")
	contains(t, h.operator("events").out, "gl", "gitlab", "builder", "members")
	contains(t, h.operator("events", "show", "gl").out, "rule 1: kind ci, state success, wakes nobody", "rule 2: kind issue, repository acme/*: to tester", "members: grace", "stored: 1")

	for name, args := range map[string][]string{
		"an unknown member": {"events", "add", "x", "--from", "github", "--secret-file", secret, "--map", write("wrong.yaml", "rule: []\n")},
		"no file":           {"events", "add", "x", "--from", "github", "--secret-file", filepath.Join(dir, "nothing")},
		"no source":         {"events", "show", "x"},
	} {
		if got := h.operator(args...); got.code == 0 || got.err == "" {
			t.Errorf("%s: got %+v", name, got)
		}
	}
	contains(t, h.operator("events", "remove", "gl").out, "removed gl")

	// The schedule has the zone of the environment of the command.
	contains(t, h.operator("schedule", "add", "0 9 * * 1-5", "--to", "builder", "--zone", "Europe/Berlin", "plan the day").out, "e1 sends to builder every 0 9 * * 1-5; next at ")
	contains(t, h.operator("schedule").out, "e1", "0 9 * * 1-5", "Europe/Berlin", "builder", "plan the day")
	contains(t, h.operator("schedule", "run", "e1").out, "sent to builder")
	contains(t, h.as("builder", "inbox").out, "From your operator:", "event.due from operator", "> text: plan the day")
	contains(t, h.operator("schedule", "remove", "e1").out, "removed e1")
	contains(t, h.operator("schedule").out, "no schedules")
	if got := h.operator("schedule", "add", "soon", "--to", "builder", "x"); got.code != exitUsage {
		t.Errorf("a wrong span: got %+v", got)
	}
}

func TestLocalZone(t *testing.T) {
	for value, want := range map[string]string{"Europe/Berlin": "Europe/Berlin", ":Europe/Berlin": "Europe/Berlin", "": "UTC", ":/nothing/zoneinfo/here": ""} {
		t.Setenv("TZ", value)
		if got := localZone(); got != want {
			t.Errorf("TZ=%s: got %q, want %q", value, got, want)
		}
	}
	os.Unsetenv("TZ")
	if zone := localZone(); zone != "" {
		if _, err := time.LoadLocation(zone); err != nil {
			t.Errorf("the zone of the machine: %v", err)
		}
	}
}
