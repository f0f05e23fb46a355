package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/engine/sqlite"
	"github.com/parley-agents/parley/internal/service/keys"
	"github.com/parley-agents/parley/internal/service/mailroom"
)

// agedHouse returns a house in which writer sent reader a message some time ago, and
// silent did nothing. All three were added at that time.
func agedHouse(t *testing.T, age time.Duration) *house {
	t.Helper()
	h := &house{t: t, home: filepath.Join(t.TempDir(), "home"), keys: map[string]string{}}
	if err := os.Mkdir(h.home, 0o700); err != nil {
		t.Fatal(err)
	}
	store, err := sqlite.Open(h.home, nil)
	if err != nil {
		t.Fatal(err)
	}
	clock := func() time.Time { return time.Now().Add(-age) }
	agents := keys.New(store, &keys.Options{Clock: clock})
	secret, err := agents.EnsureOperator(t.Context(), "")
	if err == nil && secret != "" {
		err = os.WriteFile(filepath.Join(h.home, "operator.key"), []byte(secret), 0o600)
	}
	operator := hub.Caller{ID: hub.Operator, Role: hub.RoleCoordinator, Auditor: true}
	for _, id := range []hub.AgentID{"writer", "reader", "silent"} {
		if err == nil {
			_, _, _, err = agents.AddAgent(t.Context(), operator, hub.Agent{ID: id, Role: hub.RoleExecutor}, keys.NewKey{})
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	mail, err := mailroom.New(store, agents, &mailroom.Options{Clock: clock})
	if err == nil {
		_, err = mail.Send(t.Context(), hub.Caller{ID: "writer", Role: hub.RoleExecutor}, mailroom.Draft{To: []hub.AgentID{"reader"}, Type: hub.TypeStatusUpdate, Text: "are you there"})
	}
	if err == nil {
		err = store.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	h.start()
	return h
}

func TestDoctorOnAgents(t *testing.T) {
	t.Parallel()
	neverCalled := "FAIL agent silent: it has never called the hub\n     give its CLI the tools: parley connect CLI --agent silent\n"
	unread := "FAIL agent reader: it has 1 unread messages, the oldest from "
	t.Run("an agent that never called and one with old mail are problems after an hour", func(t *testing.T) {
		t.Parallel()
		got := agedHouse(t, 61*time.Minute).operator("doctor")
		if got.code != exitCheck {
			t.Errorf("exit %d, want %d", got.code, exitCheck)
		}
		contains(t, got.out, neverCalled, unread, "parley inbox reader shows them\n")
		if strings.Contains(got.out, "agent writer") {
			t.Errorf("the agent that sent a message is a problem:\n%s", got.out)
		}
	})
	t.Run("and not before", func(t *testing.T) {
		t.Parallel()
		got := agedHouse(t, 30*time.Minute).operator("doctor")
		if got.code != exitDone {
			t.Errorf("exit %d, want 0:\n%s", got.code, got.out)
		}
		contains(t, got.out, "ok   agents: 3, none with a problem\n")
	})
}
