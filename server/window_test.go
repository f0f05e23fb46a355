package server_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/desk/window"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/operation/rpc"
	"github.com/parley-agents/parley/internal/work/fleet"
	"github.com/parley-agents/parley/protocol/acp"
	"github.com/parley-agents/parley/protocol/sandbox"
	"github.com/parley-agents/parley/server"
)

// An editor is a program that shows a kept agent through a window.
type editor struct {
	*acp.Client
	asked  chan *acp.PermissionRequest
	answer chan string // the option that its user chooses

	mu   sync.Mutex // guards seen
	seen []string   // the texts of updates, in their order
}

// Decide lets the test answer a permission request.
func (e *editor) Decide(ctx context.Context, r *acp.PermissionRequest) (sandbox.Decision, error) {
	e.asked <- r
	select {
	case id := <-e.answer:
		return sandbox.Decision{OptionID: id, Allowed: true}, nil
	case <-ctx.Done():
		return sandbox.Decision{}, ctx.Err()
	}
}

// note keeps the text of an update.
func (e *editor) note(u *acp.Update) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.seen = append(e.seen, string(u.Kind())+": "+u.Text())
}

// text returns the texts that the editor has shown.
func (e *editor) text() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return strings.Join(e.seen, "\n")
}

// socket returns a client that calls at the socket of the hub's home, as windows do.
func (w *wakeHub) socket(key string) *rpc.Client {
	return rpc.NewOperator(filepath.Join(w.opts.Home, server.SocketFile), "http://127.0.0.1:1", key, "")
}

// open opens an editor with a key.
func (w *wakeHub) open(key string, agent hub.AgentID) *editor {
	w.t.Helper()
	return w.openAs(key, agent, make(chan error, 1))
}

// openAs is open for a test that reads from served how the window ended.
func (w *wakeHub) openAs(key string, agent hub.AgentID, served chan error) *editor {
	w.t.Helper()
	e := &editor{asked: make(chan *acp.PermissionRequest, 4), answer: make(chan string, 4)}
	fromAgent, toClient := io.Pipe()
	fromClient, toAgent := io.Pipe()
	go func() {
		err := window.Serve(w.t.Context(), w.socket(key), window.Options{Agent: agent, Version: "test", Log: func(err error) { w.t.Log("window:", err) }}, fromClient, toClient)
		toClient.Close()
		served <- err
		close(served)
	}()
	client, err := acp.Connect(w.t.Context(), fromAgent, toAgent, &acp.Options{Permissions: e, OnUpdate: e.note})
	if err != nil {
		w.t.Fatalf("%v; served: %v", err, <-served)
	}
	w.t.Cleanup(func() {
		client.Close()
		<-served
	})
	e.Client = client
	return e
}

// key makes a window of an agent and returns its key.
func (w *wakeHub) key(agent hub.AgentID, name string) string {
	w.t.Helper()
	return mustCall(w.t, w.as(w.operator), api.AddWindow, api.WindowParams{Agent: agent, Name: name}).Key
}

// turn gives a prompt and returns the texts of the answer and the stop reason.
func (e *editor) turn(t *testing.T, s *acp.Session, prompt string) (string, acp.StopReason) {
	t.Helper()
	turn, err := s.Prompt(t.Context(), acp.Text(prompt))
	if err != nil {
		t.Fatal(err)
	}
	text, result, err := turn.Text()
	if err != nil {
		t.Fatal(err)
	}
	return text, result.StopReason
}

// TestWindows checks that editors show kept agents, and that the hub decides what they may do.
func TestWindows(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	begin := func(t *testing.T) (*wakeHub, string) {
		w := startWakes(t, server.Options{Wakes: server.WakeLimits{Gap: 1}}, "planner")
		return w, w.keepSelf("builder", func(p *api.KeepParams) { p.Policy = sandbox.PolicyAsk })
	}

	t.Run("an editor opens the kept session without its history and prompts it, and another loads it with the history", func(t *testing.T) {
		w, dir := begin(t)
		w.send("planner", api.SendParams{To: []hub.AgentID{"builder"}, Text: "first"})
		w.turns("builder", dir, 1)

		e := w.open(w.key("builder", ""), "builder")
		s, err := e.NewSession(t.Context(), dir, nil)
		if err != nil || s.ID != "builder" {
			t.Fatal(s, err)
		}
		if got, stop := e.turn(t, s, "do nothing"); !strings.Contains(got, "done") || stop != "end_turn" {
			t.Errorf("got %q, %s", got, stop)
		}
		if got := e.text(); strings.Contains(got, "_message: ") { // what its own turn said is in the answer
			t.Errorf("session/new shows turns of before: %s", got)
		}

		// Mail starts a turn beside it, which the editor shows.
		w.send("planner", api.SendParams{To: []hub.AgentID{"builder"}, Text: "second"})
		w.until("the turn of the mail is shown", func() bool {
			return strings.Count(e.text(), "user_message: ") == 1 && strings.Contains(e.text(), "agent_message: done")
		}, func() any { return e.text() })

		// Another editor loads the session and gets all of it.
		other := w.open(w.key("builder", "zed"), "builder")
		if _, err := other.LoadSession(t.Context(), "builder", dir, nil); err != nil {
			t.Fatal(err)
		}
		if got := other.text(); strings.Count(got, "user_message: ") != 3 || strings.Count(got, "agent_message: done") != 3 {
			t.Errorf("got %s", got)
		}
		if k := w.kept("builder"); len(k.Windows) != 2 || k.Windows[0].Name != "editor" || k.Windows[1].Name != "zed" {
			t.Errorf("got %+v", k.Windows)
		}
	})

	t.Run("two editors are asked, and the first answer counts and is journaled", func(t *testing.T) {
		w, dir := begin(t)
		one, two := w.open(w.key("builder", "one"), "builder"), w.open(w.key("builder", "two"), "builder")
		first, err := one.NewSession(t.Context(), dir, nil)
		if err != nil {
			t.Fatal(err)
		}
		second, err := two.LoadSession(t.Context(), "builder", dir, nil)
		if err != nil {
			t.Fatal(err)
		}
		turn, err := first.Prompt(t.Context(), acp.Text("do ask"))
		if err != nil {
			t.Fatal(err)
		}
		if r := <-one.asked; r.Title != "run make" || len(r.Options) != 3 {
			t.Errorf("asked %+v", r)
		}
		later, err := second.Prompt(t.Context(), acp.Text("do nothing"))
		if err != nil {
			t.Fatal(err)
		}
		<-two.asked
		two.answer <- "opt_allow"
		if _, _, err := turn.Text(); err != nil {
			t.Error(err)
		}
		if _, _, err := later.Text(); err != nil {
			t.Error(err)
		}
		raw, err := os.ReadFile(beside(dir, "answer"))
		if err != nil || !strings.Contains(string(raw), "opt_allow") {
			t.Errorf("got %s, %v", raw, err)
		}

		answers := mustCall(t, w.as(w.operator), api.Audit, api.AuditParams{Action: "agent.answered"}).Entries
		if len(answers) != 1 || answers[0].Actor != "window:builder" || !strings.Contains(string(answers[0].Facts), `"window":"two"`) {
			t.Errorf("got %+v", answers)
		}
	})

	t.Run("a cancelled turn ends as such, and the session goes on", func(t *testing.T) {
		w, dir := begin(t)
		e := w.open(w.key("builder", ""), "builder")
		s, err := e.NewSession(t.Context(), dir, nil)
		if err != nil {
			t.Fatal(err)
		}
		turn, err := s.Prompt(t.Context(), acp.Text("do slow"))
		if err != nil {
			t.Fatal(err)
		}
		for u := range turn.Updates() {
			if strings.Contains(u.Text(), "working") {
				s.Cancel(t.Context())
			}
		}
		if result, err := turn.Wait(); err != nil || result.StopReason != "cancelled" {
			t.Errorf("got %+v, %v", result, err)
		}
		if got, stop := e.turn(t, s, "do nothing"); !strings.Contains(got, "done") || stop != "end_turn" {
			t.Errorf("got %q, %s", got, stop)
		}
	})

	t.Run("a further session has its own folder and history", func(t *testing.T) {
		w, dir := begin(t)
		key := w.key("builder", "")
		e := w.open(key, "builder")
		elsewhere := filepath.Join(t.TempDir(), "elsewhere")
		if err := os.Mkdir(elsewhere, 0o700); err != nil {
			t.Fatal(err)
		}
		s, err := e.NewSession(t.Context(), elsewhere, nil)
		if err != nil || s.ID == "builder" {
			t.Fatal(s, err)
		}
		if got, stop := e.turn(t, s, "do nothing"); !strings.Contains(got, "done") || stop != "end_turn" {
			t.Errorf("got %q, %s", got, stop)
		}
		if raw, err := os.ReadFile(beside(dir, "turns.jsonl")); err == nil {
			t.Errorf("the kept session had a turn: %s", raw)
		}

		// It is listed, and another editor loads it.
		other := w.open(key, "")
		var listed []acp.SessionID
		for one, err := range other.Sessions(t.Context(), "") {
			if err != nil {
				t.Fatal(err)
			}
			listed = append(listed, one.ID)
		}
		if !slices.Equal(listed, []acp.SessionID{"builder", s.ID}) {
			t.Fatalf("got %v", listed)
		}
		if _, err := other.LoadSession(t.Context(), s.ID, elsewhere, nil); err != nil {
			t.Fatal(err)
		}
		if got := other.text(); !strings.Contains(got, "user_message: do nothing") || !strings.Contains(got, "agent_message: done") {
			t.Errorf("got %s", got)
		}
		if _, err := other.LoadSession(t.Context(), "builder/none", elsewhere, nil); err == nil {
			t.Error("a session that does not exist was loaded")
		}
		if _, err := other.NewSession(t.Context(), w.opts.Home, nil); err == nil {
			t.Error("a session in the hub's home was opened")
		}
	})

	t.Run("a key that is revoked ends the window with words in the editor and an error", func(t *testing.T) {
		w, dir := begin(t)
		served := make(chan error, 1)
		e := w.openAs(w.key("builder", "zed"), "builder", served)
		s, err := e.NewSession(t.Context(), dir, nil)
		if err != nil {
			t.Fatal(err)
		}
		mustCall(t, w.as(w.operator), api.RemoveWindow, api.WindowParams{Agent: "builder", Name: "zed"})
		turn, err := s.Prompt(t.Context(), acp.Text("do nothing"))
		if err != nil {
			t.Fatal(err)
		}
		said, _, err := turn.Text()
		if err == nil {
			t.Error("the prompt succeeded")
		}
		if err := <-served; hub.CodeOf(err) != hub.CodeUnauthenticated {
			t.Errorf("the window ended with %v", err)
		}
		has(t, said, "[parley] ", `the key "window zed" of builder was revoked`, "parley agent window builder")
		if strings.Contains(said, "parley agent key") {
			t.Errorf("advised to make a key with all rights: %s", said)
		}
	})

	t.Run("a question that was open before is named in a new session", func(t *testing.T) {
		w, dir := begin(t)
		one := w.open(w.key("builder", "one"), "builder")
		first, err := one.NewSession(t.Context(), dir, nil)
		if err != nil {
			t.Fatal(err)
		}
		turn, err := first.Prompt(t.Context(), acp.Text("do ask"))
		if err != nil {
			t.Fatal(err)
		}
		<-one.asked
		two := w.open(w.key("builder", "two"), "builder")
		if _, err := two.NewSession(t.Context(), dir, nil); err != nil {
			t.Fatal(err)
		}
		w.until("the question is named", func() bool { return strings.Contains(two.text(), "builder asks: ") }, func() any { return two.text() })
		one.answer <- "opt_allow"
		if _, _, err := turn.Text(); err != nil {
			t.Error(err)
		}
	})

	t.Run("the key of a window is good for its agent alone, at the socket, until it is revoked", func(t *testing.T) {
		w, _ := begin(t)
		w.keepSelf("tester", nil)
		key := w.key("builder", "zed")
		c := w.socket(key)
		if got := mustCall(t, c, api.ListShown, api.KeptSessionsParams{}); len(got.Sessions) != 1 || got.Sessions[0].Agent != "builder" {
			t.Errorf("got %+v", got)
		}
		refused := func(what string, err error, code hub.Code) {
			t.Helper()
			if hub.CodeOf(err) != code {
				t.Errorf("%s: got %v, want %s", what, err, code)
			}
		}
		_, err := rpc.Call(t.Context(), c, api.PromptSession, api.SessionPromptParams{Agent: "tester", Text: "hello"})
		refused("another agent", err, hub.CodeDenied)
		_, err = rpc.Call(t.Context(), c, api.AnswerAgent, api.AnswerParams{Agent: "tester", Question: 1})
		refused("a question of another agent", err, hub.CodeDenied)
		_, err = rpc.Call(t.Context(), c, api.Inbox, api.InboxParams{})
		refused("the inbox", err, hub.CodeDenied)
		_, err = rpc.Call(t.Context(), c, api.StopAgent, api.StopParams{Agent: "builder"})
		refused("stop", err, hub.CodeDenied)
		_, err = rpc.Call(t.Context(), w.as(key), api.ListShown, api.KeptSessionsParams{})
		refused("the port", err, hub.CodeUnauthenticated)
		_, err = rpc.Call(t.Context(), w.as(w.operator), api.AddKey, api.AgentParams{ID: "builder", Label: "window x"})
		refused("a key with the label of a window", err, hub.CodeInvalid)

		mustCall(t, w.as(w.operator), api.RemoveWindow, api.WindowParams{Agent: "builder", Name: "zed"})
		_, err = rpc.Call(t.Context(), c, api.ListShown, api.KeptSessionsParams{})
		refused("a key that was revoked", err, hub.CodeUnauthenticated)
		if k := w.kept("builder"); len(k.Windows) != 0 {
			t.Errorf("got %+v", k.Windows)
		}
	})
}

// askWindow in the environment makes the test binary call the hub in a home with the key of a
// window, and print the code of the refusal.
const askWindow = "SERVER_TEST_ASK_WINDOW"

// beWindow is a program that an agent may have started.
func beWindow(home, key string) {
	c := rpc.NewOperator(filepath.Join(home, server.SocketFile), "http://127.0.0.1:1", key, "")
	_, err := rpc.Call(context.Background(), c, api.ListShown, api.KeptSessionsParams{})
	fmt.Print(hub.CodeOf(err))
}

// A process below a launch or below the keeper is refused, also if it cleared its own
// environment.
func TestWindowsBelowAgents(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux tells the process at the other end of a socket")
	}
	w := startWakes(t, server.Options{}, "planner")
	w.keepSelf("builder", nil)
	key := w.key("builder", "")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		env  []string
		want hub.Code
	}{
		{"a person", nil, ""},
		{"a launch", []string{fleet.LaunchVariable + "=/tmp/launch"}, hub.CodeDenied},
		{"the keeper", []string{fleet.RunVariable + "=01"}, hub.CodeDenied},
	} {
		t.Run(c.name, func(t *testing.T) {
			cmd := exec.Command("sh", "-c", `env -u "$1" -u "$2" "$3"; true`, "sh", fleet.LaunchVariable, fleet.RunVariable, self)
			cmd.Env = append(os.Environ(), askWindow+"="+w.opts.Home+" "+key)
			cmd.Env = append(cmd.Env, c.env...)
			out, err := cmd.Output()
			if err != nil || string(out) != string(c.want) {
				t.Errorf("got %q, %v, want %q", out, err, c.want)
			}
		})
	}
}
