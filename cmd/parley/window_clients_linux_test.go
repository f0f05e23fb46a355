package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/operation/rpc"
	"github.com/parley-agents/parley/internal/work/keeper"
	"github.com/parley-agents/parley/protocol/comply/client"
)

// TestClientsInWindow has each client of another project open a window on a kept agent, prompt
// it, and answer its question.
func TestClientsInWindow(t *testing.T) {
	if os.Getenv("PARLEY_REAL") == "" {
		t.Skip("set PARLEY_REAL=1 to use clients of other projects; scripts/clients fetches them")
	}
	pins, err := filepath.Glob("../../protocol/comply/clients/*")
	if err != nil || len(pins) == 0 {
		t.Fatalf("no pinned clients: %v", err)
	}
	dir := os.Getenv("PARLEY_CLIENTS")
	if dir == "" {
		dir = "../../.cache/clients"
	}
	for _, pin := range pins {
		t.Run(filepath.Base(pin), func(t *testing.T) {
			file := filepath.Join(dir, filepath.Base(pin), "client.json")
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			c, err := client.ParseClient(file, text)
			if err != nil {
				t.Fatal(err)
			}
			meetInWindow(t, c)
		})
	}
}

// meetInWindow has a client open a window on a kept agent that asks before it works.
func meetInWindow(t *testing.T, c client.Client) {
	t.Helper()
	h := newHouse(t)
	dir := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	h.ok(h.as("", "agent", "keep", "builder", "--dir", dir, "--policy", "ask", "--as-operator", "--", "env", asWorker+"=asking", self), nil)
	key := filepath.Join(h.home, "window.key")
	h.ok(h.operator("agent", "window", "builder", "--file", key), nil)

	// The client starts the window as its agent. It talks to the hub and reads no variable.
	serve := parley(t, nil)
	script := fmt.Sprintf("#!/bin/sh\n%s=1 HOME=/nonexistent exec %q --home %q --key-file %q acp serve builder\n", asParley, serve.Path, h.home, key)
	agent := filepath.Join(t.TempDir(), "window")
	if err := os.WriteFile(agent, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	const prompt = "remove it all"
	words := make([]string, len(c.Command))
	typed := true
	for i, w := range c.Command {
		typed = typed && !strings.Contains(w, "{prompt}")
		words[i] = strings.NewReplacer("{agent}", agent, "{prompt}", prompt, "{cwd}", dir).Replace(w)
	}
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir())
	for name, value := range c.Env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	keys, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	running := spawn(t, cmd)
	if typed {
		fmt.Fprintln(keys, prompt)
	}

	// The hub has the prompt of the window, the question, its answer and the end of the turn.
	var asked, decided bool
	operator, err := operatorKey(h.home)
	if err != nil {
		t.Fatal(err)
	}
	hubClient := clientAt(h.home, h.url, operator, "")
	for after, over := int64(0), false; !over; {
		got, err := rpc.Call(t.Context(), hubClient, api.FollowSession, api.SessionEventsParams{Agent: "builder", After: after, WaitS: 30})
		if err != nil || len(got.Events) == 0 {
			t.Fatalf("%v after event %d\n%s%s", err, after, running.stdout, running.stderr)
		}
		for _, e := range got.Events {
			after = e.N
			switch e.Kind {
			case keeper.EventPrompt:
				isOurs := e.Text == prompt || typed // the example of the Go SDK has a prompt of its own
				if !isOurs || e.By != "editor" {
					t.Errorf("got the prompt %q of %s", e.Text, e.By)
				}
			case keeper.EventAsk:
				asked = true
				if c.Answer != "" {
					fmt.Fprintln(keys, c.Answer)
				}
			case keeper.EventDecided:
				decided = true
			case keeper.EventEnd:
				over = true
				if e.Stop != "end_turn" || e.Problem != "" {
					t.Errorf("the turn ended with %q: %s", e.Stop, e.Problem)
				}
			}
		}
	}
	if !asked || !decided {
		t.Errorf("asked %v, decided %v", asked, decided)
	}
	if text, err := os.ReadFile(filepath.Join(dir, "hello.txt")); err != nil || len(text) == 0 {
		t.Errorf("the agent did not do its work: %v", err)
	}
	keys.Close()
	<-running.done
	contains(t, h.operator("hub", "journal", "--action", "agent.answered", "--json").out, "editor")
}
