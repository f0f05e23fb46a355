package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/parley-agents/parley/protocol/acp"
	"github.com/parley-agents/parley/protocol/acp/acpv2"
)

// asWorker in the environment makes the test binary be an agent that is given a
// task, before it can be anything else.
const asWorker = "PARLEY_TEST_AS_WORKER"

// The work and the report of a scripted worker.
const (
	workerScript = "PARLEY_TEST_SCRIPT"
	workerReport = "PARLEY_TEST_REPORT"
)

func init() {
	mode := os.Getenv(asWorker)
	if mode == "" {
		return
	}
	behave, ok := workers[mode]
	if !ok {
		fmt.Fprintln(os.Stderr, "no such worker")
		os.Exit(7)
	}
	turns := 0
	agent := &acp.Agent{
		Name: "worker", Version: "1",
		Prompt: func(ctx context.Context, t *acp.AgentTurn) (acp.StopReason, error) {
			turns++
			return acpv2.StopReasonEndTurn, behave(ctx, t, turns)
		},
	}
	if mode != "bridged" {
		agent.Capabilities = []acp.Capability{acp.CanMCPHTTP}
	}
	if err := acp.Serve(context.Background(), agent, os.Stdin, os.Stdout); err != nil {
		os.Exit(1)
	}
	os.Exit(0)
}

// good is a report that is true of an agent that has made hello.txt.
const good = "STATUS:ok\nFILES_CREATED:hello.txt\n"

// greet makes hello.txt where the agent works.
func greet(t *acp.AgentTurn) error {
	return os.WriteFile(filepath.Join(t.Dir, "hello.txt"), []byte("hello\n"), 0o644)
}

// workers are the ways in which an agent can deal with a task.
var workers = map[string]func(ctx context.Context, t *acp.AgentTurn, turn int) error{
	"polite": func(ctx context.Context, t *acp.AgentTurn, _ int) error {
		return errors.Join(t.Think(ctx, "let me see"), greet(t), t.Say(ctx, good))
	},
	"dispatch": func(ctx context.Context, t *acp.AgentTurn, _ int) error { // what was it given?
		return errors.Join(os.WriteFile(filepath.Join(t.Dir, "dispatch.txt"), []byte(t.Prompt[0].Text.Text), 0o644), t.Say(ctx, "STATUS:ok\nFILES_CREATED:dispatch.txt"))
	},
	"busy": func(ctx context.Context, t *acp.AgentTurn, _ int) error { // tells of each step, and of its tokens
		var errs []error
		for _, id := range []string{"first", "second"} {
			for _, status := range []acpv2.ToolCallStatus{"pending", "in_progress", "completed"} {
				errs = append(errs, t.ToolCall(ctx, acpv2.ToolCallUpdate{ToolCallID: acpv2.ToolCallID(id), Title: acpv2.Set("the " + id + " call"), Status: acpv2.Set(status)}))
			}
		}
		used := acpv2.UsageUpdate{Used: 1200, Size: 200000}
		return errors.Join(errors.Join(errs...), greet(t), t.Update(ctx, acpv2.SessionUpdate{UsageUpdate: &used}), t.Say(ctx, good))
	},
	"scripted": func(ctx context.Context, t *acp.AgentTurn, _ int) error { // does and says what its environment holds
		cmd := exec.Command("sh", "-c", os.Getenv(workerScript))
		cmd.Dir = t.Dir
		out, err := cmd.CombinedOutput()
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return t.Say(ctx, os.Getenv(workerReport))
	},
	"idle":   func(ctx context.Context, t *acp.AgentTurn, _ int) error { return t.Say(ctx, "STATUS:no_changes") },
	"silent": func(context.Context, *acp.AgentTurn, int) error { return nil },
	"prose": func(ctx context.Context, t *acp.AgentTurn, _ int) error {
		return errors.Join(greet(t), t.Say(ctx, "I have made the file and everything works. The status is fine!"))
	},
	"looking first": func(ctx context.Context, t *acp.AgentTurn, _ int) error { // two messages with a tool call between them
		call := acpv2.ToolCallUpdate{ToolCallID: "look", Title: acpv2.Set("look"), Status: acpv2.Set[acpv2.ToolCallStatus]("completed")}
		return errors.Join(greet(t), t.Say(ctx, "I will look first."), t.ToolCall(ctx, call), t.Say(ctx, good))
	},
	"late": func(ctx context.Context, t *acp.AgentTurn, turn int) error {
		if turn == 1 {
			return errors.Join(greet(t), t.Say(ctx, "All done."))
		}
		return t.Say(ctx, good)
	},
	"decorated": func(ctx context.Context, t *acp.AgentTurn, _ int) error {
		return errors.Join(greet(t), t.Say(ctx, "Here you are:\n\n```\n**STATUS:** ok ✅\n- FILES_CREATED: `hello.txt`\n```\nAnything else?"))
	},
	"wordy": func(ctx context.Context, t *acp.AgentTurn, _ int) error { // more than can be kept, and all of it wrong
		long := strings.Repeat("very-long-name-", 12)
		for i := range 1500 {
			if err := os.WriteFile(filepath.Join(t.Dir, fmt.Sprint(long, i)), nil, 0o644); err != nil {
				return err
			}
		}
		var names []string
		for i := range 5000 {
			names = append(names, fmt.Sprint("ghosts/", long, i))
		}
		return t.Say(ctx, "STATUS:ok\nFILES_CREATED:"+strings.Join(names, ",")+"\n")
	},
	"crashing": func(ctx context.Context, t *acp.AgentTurn, _ int) error {
		t.Say(ctx, "now it comes\n")
		fmt.Fprintln(os.Stderr, "out of tokens")
		os.Exit(9)
		return nil
	},
	"lying about files": func(ctx context.Context, t *acp.AgentTurn, _ int) error {
		return t.Say(ctx, "STATUS:ok\nFILES_CREATED:ghost.txt\nFILES_MODIFIED:README.md")
	},
	"lying about tests": func(ctx context.Context, t *acp.AgentTurn, _ int) error {
		return errors.Join(greet(t), t.Say(ctx, good+"TESTS:pass:12\nBUILD:pass\n"))
	},
	"secretive": func(ctx context.Context, t *acp.AgentTurn, _ int) error { // touches more than it says
		return errors.Join(greet(t), os.WriteFile(filepath.Join(t.Dir, "backdoor.txt"), []byte("x"), 0o644), t.Say(ctx, good))
	},
	"committing": func(ctx context.Context, t *acp.AgentTurn, _ int) error {
		err := greet(t)
		for _, args := range [][]string{{"add", "hello.txt"}, {"-c", "user.name=w", "-c", "user.email=w@example.org", "commit", "-qm", "hello"}} {
			cmd := exec.Command("git", args...)
			cmd.Dir = t.Dir
			err = errors.Join(err, cmd.Run())
		}
		return errors.Join(err, t.Say(ctx, good))
	},
	"undecided": func(ctx context.Context, t *acp.AgentTurn, _ int) error {
		return t.Say(ctx, "STATUS:needs_decision\nERROR:which database?")
	},
	"endless": func(ctx context.Context, t *acp.AgentTurn, _ int) error {
		err := t.Say(ctx, "working\n")
		<-ctx.Done()
		return err
	},
	"stubborn": func(ctx context.Context, t *acp.AgentTurn, _ int) error { // and so are its children
		child := exec.Command("sleep", "1000")
		if err := child.Start(); err != nil {
			return err
		}
		if err := t.Say(ctx, fmt.Sprintf("working %d %d\n", os.Getpid(), child.Process.Pid)); err != nil {
			return err
		}
		<-ctx.Done()
		if err := t.Say(context.WithoutCancel(ctx), "no\n"); err != nil {
			return err
		}
		select {}
	},
	"patient": func(ctx context.Context, t *acp.AgentTurn, _ int) error { // until somebody makes a file
		sign := filepath.Join(t.Dir, ".git", "sign")
		if err := t.Say(ctx, "waiting for "+sign+"\n"); err != nil {
			return err
		}
		for {
			if _, err := os.Stat(sign); err == nil {
				return errors.Join(greet(t), t.Say(ctx, good))
			}
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(10 * time.Millisecond):
			}
		}
	},
	"echoing": func(ctx context.Context, t *acp.AgentTurn, _ int) error { // until somebody makes a file
		word := strings.Fields(t.Text())[0]
		if err := t.Say(ctx, "begins "+word+"\n"); err != nil {
			return err
		}
		for {
			if _, err := os.Stat(filepath.Join(t.Dir, "go")); err == nil {
				return t.Say(ctx, "ends "+word+"\n")
			}
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(10 * time.Millisecond):
			}
		}
	},
	"asking": func(ctx context.Context, t *acp.AgentTurn, _ int) error {
		answer, err := ask(ctx, t)
		if err != nil || answer.Selected == nil || answer.Selected.OptionID != "y" {
			return errors.Join(err, t.Say(ctx, "STATUS:rejected\nERROR:not allowed"))
		}
		return errors.Join(greet(t), t.Say(ctx, good))
	},
	"bridged": func(ctx context.Context, t *acp.AgentTurn, _ int) error { // starts the program that offers the tools
		s := t.MCPServers[0].Stdio
		if s == nil {
			return t.Say(ctx, "STATUS:fail\nERROR:no program was offered")
		}
		cmd := exec.CommandContext(ctx, string(s.Command), s.Args.Or(nil)...)
		cmd.Env = append(os.Environ(), asParley+"=1", asWorker+"=")
		for _, e := range s.Env.Or(nil) {
			cmd.Env = append(cmd.Env, e.Name+"="+e.Value)
		}
		in, err := cmd.StdinPipe()
		if err != nil {
			return err
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			return err
		}
		if err := cmd.Start(); err != nil {
			return err
		}
		io.WriteString(in, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`+"\n"+
			`{"jsonrpc":"2.0","method":"notifications/initialized"}`+"\n"+
			`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"acp_send","arguments":{"to":["planner"],"text":"over the bridge"}}}`+"\n")
		last := ""
		for answers := bufio.NewScanner(out); !strings.Contains(last, `"id":2`) && answers.Scan(); {
			last = answers.Text()
		}
		in.Close()
		if err := cmd.Wait(); err != nil || !strings.Contains(last, "Sent ") {
			return t.Say(ctx, fmt.Sprintf("STATUS:fail\nERROR:%v %s", err, last))
		}
		return errors.Join(greet(t), t.Say(ctx, good))
	},
	"flooding": func(ctx context.Context, t *acp.AgentTurn, _ int) error {
		noise := strings.Repeat("x", 4000) + "\n"
		for range 1000 {
			if err := t.Say(ctx, noise); err != nil {
				return err
			}
		}
		return errors.Join(greet(t), t.Say(ctx, good))
	},
	"nagging": func(ctx context.Context, t *acp.AgentTurn, _ int) error {
		for ctx.Err() == nil {
			if _, err := ask(ctx, t); err != nil && ctx.Err() == nil {
				return err
			}
		}
		return nil
	},
	"careful": func(ctx context.Context, t *acp.AgentTurn, _ int) error { // writes through the client
		files := t.Files()
		if files == nil {
			return t.Say(ctx, "STATUS:fail\nERROR:no files")
		}
		if err := files.Write(ctx, filepath.Join(t.Dir, "hello.txt"), "hello\n"); err != nil {
			return t.Say(ctx, "STATUS:fail\nERROR:refused")
		}
		return t.Say(ctx, good)
	},
	"talkative": func(ctx context.Context, t *acp.AgentTurn, _ int) error { // uses the hub, under its own key
		server := t.MCPServers[0].HTTP
		req, err := http.NewRequestWithContext(ctx, "POST", strings.TrimSuffix(server.URL, "mcp"), strings.NewReader(
			`{"jsonrpc":"2.0","id":1,"method":"acp/send","params":{"to":["planner"],"text":"half way through"}}`))
		if err != nil {
			return err
		}
		key := server.Headers.Or(nil)[0].Value
		req.Header.Set("Authorization", key)
		req.Header.Set("Content-Type", "application/json")
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		res.Body.Close()
		return errors.Join(greet(t), t.Say(ctx, "my key is "+key+"\n\n"+good))
	},
}

// ask asks whether it may do something.
func ask(ctx context.Context, t *acp.AgentTurn) (*acpv2.RequestPermissionOutcome, error) {
	return t.AskPermission(ctx, &acpv2.RequestPermissionRequest{
		Title: "Remove everything", Options: []acpv2.PermissionOption{{OptionID: "y", Name: "Yes", Kind: "allow_once"}, {OptionID: "n", Name: "No", Kind: "reject_once"},
			{OptionID: "reject", Name: "Reject", Kind: "allow_always"}},
		Subject: acpv2.Set(acpv2.RequestPermissionSubject{ToolCall: &acpv2.ToolCallPermissionSubject{
			ToolCall: acpv2.ToolCallUpdate{ToolCallID: "c", Title: acpv2.Set("Remove everything"), Kind: acpv2.Set(acpv2.ToolKindExecute)},
		}}),
	})
}
