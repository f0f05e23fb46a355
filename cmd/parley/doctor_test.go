package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/parley-agents/parley/channel"
	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/engine/sqlite"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/operation/rpc"
	"github.com/parley-agents/parley/internal/reach/wake"
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
	neverCalled := "FAIL agent silent: it has never called the hub\n     run \"parley connect CLI --agent silent\" to give its CLI the tools\n"
	unread := "FAIL agent reader: it has 1 unread message, the oldest from "
	t.Run("an agent that never called and one with old mail are problems after an hour", func(t *testing.T) {
		t.Parallel()
		got := agedHouse(t, 61*time.Minute).operator("doctor")
		if got.code != exitCheck {
			t.Errorf("exit %d, want %d", got.code, exitCheck)
		}
		contains(t, got.out, neverCalled, unread, "     start it, or run \"parley inbox reader\" to read them\n")
		if strings.Contains(got.out, "agent writer") {
			t.Errorf("the agent that sent a message is a problem:\n%s", got.out)
		}
	})
	t.Run("an agent that repeats itself is suspended", func(t *testing.T) {
		t.Parallel()
		h := newHouse(t)
		for range 4 {
			h.as("mallory", "send", "tester", "the same words") // the last is refused
		}
		contains(t, h.operator("doctor").out, "FAIL agent mallory: it is suspended because it sent the same message too often\n     run \"parley log --whole --from mallory\" to see its messages, and \"parley agent resume mallory --suspension\" to let it send again\n")
	})
	t.Run("and not before", func(t *testing.T) {
		t.Parallel()
		got := agedHouse(t, 30*time.Minute).operator("doctor")
		if got.code != exitDone {
			t.Errorf("exit %d, want 0:\n%s", got.code, got.out)
		}
		contains(t, got.out, "ok   agents: 3, no problems\n")
	})
}

// A patient is an agent with a problem that doctor should name. Its CLI is the test.
type patient struct {
	*house
	name string
	key  wake.Key
}

// admit adds an agent that mail may wake.
func (h *house) admit(name string) patient {
	h.t.Helper()
	var got struct{ Key string }
	h.ok(h.operator("agent", "add", name, "--json"), &got)
	h.keys[name] = got.Key
	h.ok(h.operator("agent", "wake", name, "--on"), nil)
	return patient{h, name, wake.Key{CLI: "claude", ID: "s-" + name, Process: os.Getpid()}}
}

// answered calls the hub as an agent.
func answered[P, R any](p patient, o rpc.Operation[*api.Services, P, R], params P) R {
	p.t.Helper()
	got, err := rpc.Call(p.t.Context(), rpc.NewClient(p.url, p.keys[p.name], "", nil), o, params)
	if err != nil {
		p.t.Fatalf("%s: %v", p.name, err)
	}
	return got
}

// wake returns the wake for a new message, which the agent's waiter gets.
func (p patient) wake() string {
	p.t.Helper()
	p.ok(p.as("tester", "send", p.name, "for "+p.name+" at "+fmt.Sprint(time.Now().UnixNano())), nil)
	got := answered(p, api.WaitWake, api.WakeWaitParams{Key: p.key, Mechanism: "monitor", Attended: true, Version: "1.0", Seconds: 60})
	if got.Wake == nil {
		p.t.Fatalf("%s: no wake came", p.name)
	}
	return got.Wake.ID
}

func (p patient) hook(name, more string) {
	p.t.Helper()
	p.ok(p.stdin(p.name, fmt.Sprintf(`{"session_id":%q,"cwd":"/d","prompt":"hello"%s}`, p.key.ID, more), "wake", "hook", "claude", name), nil)
}

// TestDoctorNamesAgents has agents get every problem that doctor knows, and reads its
// lines.
func TestDoctorNamesAgents(t *testing.T) {
	t.Parallel()
	h := newHouse(t, "--unsafe-limits", "--config", write(t, "config.yaml", "wakes:\n  gap: 1ms\n"))
	problems := map[string]string{} // the line of doctor, by its beginning

	h.admit("keyless")
	h.ok(h.operator("agent", "revoke", "keyless"), nil)
	problems["agent keyless"] = "it has no valid key\n     run \"parley agent key keyless --label NAME\" to create one"

	broke := h.admit("broke")
	broke.hook("UserPromptSubmit", "")
	broke.hook("StopFailure", `,"error":"billing_error","error_details":"the account of ana@example.org has no credit"`)
	problems["agent broke"] = "it ran out of quota in claude (now)\n     its turns fail and its mail waits"

	rich := h.admit("rich")
	rich.hook("StopFailure", `,"error":"rate_limit"`)
	rich.hook("Stop", "") // a turn that went well

	overloaded := h.admit("overloaded")
	overloaded.hook("StopFailure", `,"error":"server_error"`)

	ghost := h.admit("ghost")
	ghost.hook("SessionStart", "")
	problems["wakes of ghost"] = "it has a session, but no wake mechanism is armed\n     restart it with \"parley launch\""

	deaf := h.admit("deaf")
	for range 3 {
		answered(deaf, api.HandedWake, api.WakeHandedParams{Wake: deaf.wake(), Outcome: channel.Failed, Detail: "no turn"})
	}
	problems["wakes of deaf"] = "they are disarmed because 3 wakes in a row led to no message being read\n     run \"parley agent wake deaf --on\" to arm them"

	spent := h.admit("spent")
	h.ok(h.operator("agent", "wake", "spent", "--on", "--per-hour", "2"), nil)
	for range 2 {
		id := spent.wake()
		answered(spent, api.ReportWake, api.WakeReportParams{Key: spent.key, Event: wake.EventPrompt, Wakes: []string{id}})
		answered(spent, api.Inbox, api.InboxParams{Ack: api.AckSet{All: true}})
		answered(spent, api.ReportWake, api.WakeReportParams{Key: spent.key, Event: wake.EventTurnEnd})
	}
	problems["wakes of spent"] = "rate: 2 wakes within an hour, so it waits in the inbox\n     run \"parley agent wake spent --on --per-hour N\" to change the budget"

	changed := h.admit("changed")
	answered(changed, api.ReportWake, api.WakeReportParams{Key: changed.key, Event: wake.EventPrompt, Wakes: []string{changed.wake()}, Version: "1.0"})
	answered(changed, api.ReportWake, api.WakeReportParams{Key: changed.key, Event: wake.EventStart, Version: "1.1"})
	problems["wakes of changed"] = "mail has not started a turn since claude changed from 1.0 to 1.1\n     run \"parley agent test changed\" to test it"

	h.admit("absent")
	h.operator("agent", "test", "absent")
	problems["wakes of absent"] = "the last probe (now) did not start a turn: it has no live session in a terminal\n     run \"parley agent test absent\" to test again"

	ping, pong := h.admit("ping"), h.admit("pong")
	last := answered(ping, api.Send, api.SendParams{To: api.Recipients{"pong"}, Text: "ball"}).ID
	for i := range 9 {
		from, to := ping, hub.AgentID("pong")
		if i%2 == 0 {
			from, to = pong, "ping"
		}
		last = answered(from, api.Send, api.SendParams{To: api.Recipients{to}, ReplyTo: last, Text: fmt.Sprint("ball ", i)}).ID
	}
	problems["wakes of ping"] = "because agents answered each other too often\n     run \"parley inbox ping\" to read the mail, and \"parley agent wake ping --on\" to let it through"

	program, err := exec.LookPath("false")
	if err != nil {
		t.Fatal(err)
	}
	h.ok(h.as("", "agent", "keep", "builder", "--as-operator", "--dir", t.TempDir(), "--", program), nil)
	h.ok(h.as("tester", "send", "builder", "start"), nil)
	h.patient("the breakdown of a kept agent", func() bool {
		return strings.Contains(h.operator("doctor").out, "FAIL kept agent builder: it crashed and is being restarted\n     run \"parley agent logs builder\" to see why\n")
	})
	h.patient("the end of a kept agent", func() bool {
		return strings.Contains(h.operator("doctor").out, "run \"parley agent logs builder\" to see its turns, and \"parley agent restart builder\" to restart it\n")
	})

	got := h.operator("doctor")
	if got.code != exitCheck {
		t.Errorf("exit %d, want %d", got.code, exitCheck)
	}
	for name, line := range problems {
		_, rest, found := strings.Cut(got.out, "FAIL "+name+": ")
		if text, _, _ := strings.Cut(rest, "FAIL "); !found || !strings.Contains(text, line) {
			t.Errorf("%s: got %q, want %q", name, text, line)
		}
	}
	for _, well := range []string{"agent rich", "agent overloaded", "agent tester", "ana@example.org"} {
		if strings.Contains(got.out, well) {
			t.Errorf("doctor names %s:\n%s", well, got.out)
		}
	}
	if t.Failed() {
		t.Log(got.out)
	}
}

// TestDoctorNamesSharedTrees has agents work in one working tree, with and without a guard of its
// commits.
func TestDoctorNamesSharedTrees(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	tree, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	below := filepath.Join(tree, "src")
	hooks := filepath.Join(tree, ".githooks")
	for _, dir := range []string{below, hooks} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{{"init", "-q"}, {"config", "core.hooksPath", ".githooks"}} {
		if out, err := exec.Command("git", append([]string{"-C", tree}, args...)...).CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v %s", args, err, out)
		}
	}
	work := func(p patient, dir string) {
		t.Helper()
		answered(p, api.ReportWake, wake.Report{Key: p.key, Cwd: dir, Event: wake.EventStart})
	}

	first := h.admit("first")
	work(first, below)
	if got := h.operator("doctor").out; strings.Contains(got, "working tree") {
		t.Errorf("an agent alone is a problem:\n%s", got)
	}
	second := h.admit("second")
	work(second, tree)
	alone := h.admit("alone")
	work(alone, t.TempDir())
	got := h.operator("doctor")
	if got.code != exitCheck {
		t.Errorf("exit %d, want %d", got.code, exitCheck)
	}
	contains(t, got.out, "FAIL working tree "+tree+": first and second work in it, and their commits are not checked\n     run \"parley files guard on "+tree+"\" to check them; or give each agent a working tree of its own, with --worktree of")

	if done := h.operator("files", "guard", "on", tree); done.code != 0 {
		t.Fatalf("guard install: %s", done.err)
	}
	contains(t, h.operator("doctor").out, "ok   working trees: 1 tree with several agents, all checked\n")
	if done := h.operator("files", "guard", "off", tree); done.code != 0 {
		t.Fatalf("guard remove: %s", done.err)
	}
	off := fmt.Sprintf("repositories:\n  - path: %s\n    reservations:\n      guard: false\n", tree)
	if err := os.WriteFile(filepath.Join(h.home, "config.yaml"), []byte(off), 0o600); err != nil {
		t.Fatal(err)
	}
	contains(t, h.operator("doctor").out, "ok   working trees: 1 tree with several agents, all checked\n")
}
