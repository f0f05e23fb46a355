package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// TestHelp compares the help of every command with its golden file.
func TestHelp(t *testing.T) {
	dir := filepath.Join("testdata", "help")
	stale := map[string]bool{}
	old, err := filepath.Glob(filepath.Join(dir, "*.txt"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range old {
		stale[path] = true
	}
	var visit func(cmd *cobra.Command, words []string)
	visit = func(cmd *cobra.Command, words []string) {
		path := filepath.Join(dir, strings.Join(append([]string{"parley"}, words...), "-")+".txt")
		delete(stale, path)
		got := inProcess(t, append(words, "--help")...)
		if got.code != 0 || got.err != "" {
			t.Errorf("%v --help: exit %d: %s", words, got.code, got.err)
		}
		for line := range strings.Lines(got.out) {
			if strings.HasSuffix(line, " \n") {
				t.Errorf("%v --help: a line ends in a space: %q", words, line)
			}
		}
		if *update {
			if err := os.WriteFile(path, []byte(got.out), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatalf("%v (run with -update to make it)", err)
		}
		if !bytes.Equal(want, []byte(got.out)) {
			t.Errorf("the help of %v has changed; read it and run with -update\ngot:\n%s\nwant:\n%s", words, got.out, want)
		}
		for _, sub := range cmd.Commands() {
			visit(sub, append(words[:len(words):len(words)], sub.Name()))
		}
	}
	visit(new(app).root(), nil)
	if alone, here := do(t, parley(t, nil, "--help")), inProcess(t, "--help"); alone != here {
		t.Errorf("a process of its own: got %+v, want %+v", alone, here)
	}
	for path := range stale {
		if *update {
			os.Remove(path)
			continue
		}
		t.Errorf("%s belongs to no command", path)
	}
}

// inProcess runs a command that needs no process of its own: there are some 200 pages of help.
func inProcess(t *testing.T, args ...string) result {
	t.Helper()
	var out, errOut strings.Builder
	code := execute(t.Context(), args, strings.NewReader(""), &out, &errOut)
	return result{out: out.String(), err: errOut.String(), code: code}
}

func TestCompletion(t *testing.T) {
	for shell, part := range map[string]string{"bash": "__start_parley", "zsh": "#compdef parley", "fish": "complete -c parley", "powershell": "Register-ArgumentCompleter"} {
		got := do(t, parley(t, nil, "completion", shell))
		if got.code != 0 || got.err != "" {
			t.Errorf("completion %s: exit %d: %s", shell, got.code, got.err)
		}
		contains(t, got.out, part)
	}
	contains(t, do(t, parley(t, nil, "__complete", "send", "--priority", "")).out, "critical")
	contains(t, do(t, parley(t, nil, "__complete", "agent", "add", "x", "--role", "")).out, "integrator")
	contains(t, do(t, parley(t, nil, "__complete", "status", "")).out, "blocked")
	contains(t, do(t, parley(t, nil, "__complete", "schema", "print", "")).out, "envelope")
}

// TestHubCompletion completes words that only a hub knows.
func TestHubCompletion(t *testing.T) {
	complete := func(h *house, who string, args ...string) string {
		t.Helper()
		got := h.as(who, append([]string{"__complete"}, args...)...)
		if got.code != 0 || strings.Contains(got.err, "error") {
			t.Errorf("%v: exit %d: %s", args, got.code, got.err)
		}
		return got.out
	}
	h := newHouse(t)
	h.ok(h.as("planner", handoffFlags("T-1")...), nil)
	h.ok(h.as("planner", "send", "builder", "held", "--human-gate", "required"), nil)
	h.ok(h.as("planner", "team", "new", "auth", "--goal", "log in", "--members", "planner:coordinator"), nil)
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"send", ""}, "tester\treviewer"},
		{[]string{"send", "--type", ""}, "status.blocked"},
		{[]string{"log", "--whole", "--from", ""}, "builder"},
		{[]string{"show", ""}, "h1\tproposed: Nullable avatar"},
		{[]string{"reply", ""}, "m1\t"},
		{[]string{"team", "show", ""}, "auth\tlog in"},
		{[]string{"team", "add", "auth", ""}, "mallory"},
		{[]string{"agent", "role", "builder", ""}, "integrator"},
	} {
		contains(t, complete(h, "planner", c.args...), c.want)
	}
	contains(t, complete(h, "", "--as-operator", "approve", ""), "status.update from planner")
	if got := complete(h, "mallory", "reply", ""); strings.Contains(got, "m1") {
		t.Errorf("an agent completes messages of others: %s", got)
	}
	h.stop()
	if got := complete(h, "planner", "send", ""); strings.Contains(got, "builder") {
		t.Errorf("without a hub: %s", got)
	}
	for path := range argumentSources { // a command that was renamed
		if cmd, _, err := new(app).root().Find(strings.Fields(path)); err != nil || cmd.CommandPath() != "parley "+path {
			t.Errorf("there is no command %q", path)
		}
	}
}
