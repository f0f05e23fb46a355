package server_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/operation/rpc"
	"github.com/parley-agents/parley/internal/testing/patience"
	"github.com/parley-agents/parley/internal/work/fleet"
	"github.com/parley-agents/parley/internal/work/keeper"
	"github.com/parley-agents/parley/server"
)

// Bounds of what a kept agent may take, and what is left of it.
func TestKeptBounds(t *testing.T) {
	t.Parallel()
	begin := func(t *testing.T, change func(*api.KeepParams)) (*wakeHub, string) {
		t.Parallel()
		w := startWakes(t, server.Options{Wakes: server.WakeLimits{Gap: time.Nanosecond}}, "planner")
		return w, w.keepSelf("builder", change)
	}
	mail := func(w *wakeHub, to hub.AgentID, text string) {
		w.send("planner", api.SendParams{To: api.Recipients{to}, Text: text})
	}
	mark := func(t *testing.T, dir, name string) {
		t.Helper()
		if err := os.WriteFile(beside(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	told := func(w *wakeHub, words string) bool {
		page := mustCall(w.t, w.as(w.operator), api.Inbox, api.InboxParams{Peek: true, Limit: 50})
		text, _ := json.Marshal(page)
		return strings.Contains(string(text), words)
	}
	valid := func(w *wakeHub, key string) bool {
		_, err := rpc.Call(w.t.Context(), w.as(key), api.Whoami, api.None{})
		return err == nil
	}

	t.Run("a turn that breaks off each time is given four times, and the operator is told", func(t *testing.T) {
		w, dir := begin(t, nil)
		mark(t, dir, "doomed")
		mail(w, "builder", "x")
		w.until("the operator is told", func() bool { return told(w, "was interrupted") }, func() any { return w.logOf("builder") })
		w.turns("builder", dir, 4)
	})
	t.Run("a report that stays false is refused three times in a row, and then at the next turn", func(t *testing.T) {
		w, dir := begin(t, nil)
		mark(t, dir, "stubborn")
		mail(w, "builder", "x")
		w.turns("builder", dir, 3)
		if err := os.Remove(beside(dir, "stubborn")); err != nil {
			t.Fatal(err)
		}
		mail(w, "builder", "y")
		if last := w.turns("builder", dir, 4)[3]; !strings.Contains(last.Prompt, "was refused") || !strings.Contains(last.Prompt, "[parley wake w_") {
			t.Errorf("got the prompt %q", last.Prompt)
		}
	})
	t.Run("a turn that is done is not given again after a restart of the hub", func(t *testing.T) {
		w, dir := begin(t, nil)
		mail(w, "builder", "one")
		w.turns("builder", dir, 1)
		w.restart()
		mail(w, "builder", "two")
		if second := w.turns("builder", dir, 2)[1]; strings.Contains(second.Prompt, "was interrupted") || !strings.Contains(second.Texts, "two") {
			t.Errorf("got %+v", second)
		}
	})
	t.Run("processes of a hub that was killed are ended at the next start", func(t *testing.T) {
		w, dir := begin(t, nil)
		mail(w, "builder", "one")
		run := w.turns("builder", dir, 1)[0].Run
		w.running.stop()
		left := exec.Command("sleep", "600") // what a hub without its end leaves behind
		left.Env = append(os.Environ(), fleet.RunVariable+"="+run)
		left.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if err := left.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- left.Wait() }()
		w.restart()
		select {
		case <-ended:
		case <-time.After(patience.For(90 * time.Second)):
			left.Process.Kill()
			<-ended
			t.Error("the process lives on")
		}
	})
	t.Run("a turn whose processes take too much memory is ended", func(t *testing.T) {
		w, _ := begin(t, func(p *api.KeepParams) { p.Memory = 1 })
		mail(w, "builder", "slow")
		w.until("it is ended", func() bool { return strings.Contains(w.logOf("builder"), "too much memory") }, func() any { return w.logOf("builder") })
	})
	t.Run("starts that fail leave room for other agents", func(t *testing.T) {
		w, dir := begin(t, nil)
		program, err := exec.LookPath("false")
		if err != nil {
			t.Fatal(err)
		}
		broken := []hub.AgentID{"one", "two"} // with five starts each: more than the hub runs at a time
		for _, name := range broken {
			w.keepSelf(name, func(p *api.KeepParams) { p.Command = []string{program} })
			mail(w, name, "x")
		}
		for _, name := range broken {
			w.until("it is stopped", func() bool { return w.kept(name).State == keeper.Stopped }, func() any { return w.kept(name) })
		}
		mail(w, "builder", "x")
		w.turns("builder", dir, 1)
	})
	t.Run("an agent that is kept in another folder begins a new session", func(t *testing.T) {
		w, dir := begin(t, nil)
		mail(w, "builder", "one")
		first := w.turns("builder", dir, 1)[0]
		dir = w.keepSelf("builder", nil)
		mail(w, "builder", "two")
		if second := w.turns("builder", dir, 1)[0]; second.Resumed || second.Session == first.Session {
			t.Errorf("got %+v after %+v", second, first)
		}
	})
	t.Run("each start has a key of its own, and the key of an agent that is forgotten ends", func(t *testing.T) {
		w, dir := begin(t, func(p *api.KeepParams) { p.Idle = 1 })
		mail(w, "builder", "one")
		first := w.turns("builder", dir, 1)[0]
		w.until("it sleeps", func() bool { return w.kept("builder").State == keeper.Sleeping }, func() any { return w.kept("builder") })
		mail(w, "builder", "two")
		second := w.turns("builder", dir, 2)[1]
		if valid(w, first.Key) || !valid(w, second.Key) {
			t.Error("only the key of the second start must be valid")
		}
		mustCall(t, w.as(w.operator), api.StopAgent, api.StopParams{Agent: "builder", Forget: true})
		if valid(w, second.Key) {
			t.Error("the key of a forgotten agent is valid")
		}
	})
}
