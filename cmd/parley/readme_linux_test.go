package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// readmeExits lists the commands of the README that end with another exit code than
// 0, as the README says beside them.
var readmeExits = map[string]int{
	"parley contract check --require implemented": 1,
}

// The parts of the output that later commands of the README name.
var (
	readmeSent  = regexp.MustCompile(`(?m)^sent (m[0-9]+)$`)
	readmeTask  = regexp.MustCompile(`(?m)^Handoff (h[0-9]+) is `)
	readmeKey   = regexp.MustCompile(`(?m)^key: (\S+)`)
	readmeAdded = regexp.MustCompile(`(?m)^added (\S+) `)
)

// readmeCommands returns the commands that a reader of the README types: the lines
// of its code blocks that begin with "$ ", with their continuations. Every block is
// checked: one without such a line must be JSON, or hold targets of make.
func readmeCommands(t *testing.T) []string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("..", "..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	var commands []string
	for i, part := range strings.Split(string(raw), "\n```") {
		if i%2 == 0 { // text between two blocks
			continue
		}
		language, block, _ := strings.Cut(part, "\n")
		before, more := len(commands), false
		for line := range strings.SplitSeq(block, "\n") {
			if command, typed := strings.CutPrefix(line, "$ "); typed {
				commands = append(commands, command)
			} else if more {
				commands[len(commands)-1] += "\n" + line
			}
			more = strings.HasSuffix(line, `\`)
		}
		switch {
		case len(commands) > before:
		case language == "json":
			if !json.Valid([]byte(block)) {
				t.Errorf("the README has JSON that is none:\n%s", block)
			}
		default:
			for line := range strings.SplitSeq(block, "\n") {
				target, isMake := strings.CutPrefix(line, "make ")
				if target, _, _ = strings.Cut(target, " "); !isMake || makes(t, target) == "" {
					t.Errorf("this line of the README is neither a command nor a target of make: %s", line)
				}
			}
		}
	}
	return commands
}

// makes returns the commands that make runs for a target.
func makes(t *testing.T, target string) string {
	t.Helper()
	cmd := exec.Command("make", "--no-print-directory", "-n", target)
	cmd.Dir = filepath.Join("..", "..")
	cmd.Env = slices.DeleteFunc(os.Environ(), func(e string) bool { // this test may run under make itself
		return strings.HasPrefix(e, "MAKEFLAGS=") || strings.HasPrefix(e, "MFLAGS=") || strings.HasPrefix(e, "MAKELEVEL=")
	})
	r := do(t, cmd)
	if r.code != 0 {
		t.Fatalf("make -n %s: %s", target, r.err)
	}
	return r.out
}

func TestVersionIsThatOfTheRepository(t *testing.T) {
	describe := exec.Command("git", "describe", "--tags", "--always", "--dirty")
	describe.Dir = filepath.Join("..", "..")
	want := "main.release=" + strings.TrimSpace(do(t, describe).out) + `"`
	if got := makes(t, "build"); !strings.Contains(got, want) {
		t.Errorf("make build runs %s, want %s in it", got, want)
	}
	if got := do(t, parley(t, nil, "--version")); got.code != 0 || got.out != "parley "+version()+"\n" {
		t.Errorf("--version: exit %d, %q", got.code, got.out)
	}
}

// TestReadme types every command of the README at a terminal, in order, in a folder
// that is a git repository, with one hub that runs as `make run` starts it. A line
// with parley serve stops that hub and starts another one on the same home.
func TestReadme(t *testing.T) {
	home, installed := t.TempDir(), t.TempDir()
	folder := filepath.Join(home, "app")
	bin := filepath.Join(folder, "bin") // where make build puts the program
	os.Chmod(home, 0o700)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(bin, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, script := range map[string]string{
		filepath.Join(bin, "parley"): fmt.Sprintf("#!/bin/sh\n%s=1 exec %q \"$@\"\n", asParley, self),
		// The agents do nothing here: connect only looks whether they are there.
		filepath.Join(installed, "claude"): "#!/bin/sh\n",
		filepath.Join(installed, "codex"):  "#!/bin/sh\n",
	} {
		if err := os.WriteFile(name, []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	env := []string{
		"HOME=" + home, "PATH=" + installed + ":" + os.Getenv("PATH"), "TERM=dumb", "GORACE=atexit_sleep_ms=0", "PARLEY_ADDR=127.0.0.1:0",
		"GIT_AUTHOR_NAME=t", "GIT_AUTHOR_EMAIL=t@example.com", "GIT_COMMITTER_NAME=t", "GIT_COMMITTER_EMAIL=t@example.com",
	}
	shell := func(command string) *exec.Cmd {
		cmd := exec.Command("bash", "-c", command)
		cmd.Dir, cmd.Env = folder, env
		return cmd
	}
	for name, text := range map[string]string{
		".gitignore":    "bin\n",
		"schema.sql":    "avatar text not null\n",
		"get-user.json": `{"method":"GET","path":"/users/{id}","responseBody":{"type":"object"}}`,
	} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if r := do(t, shell("git init -q -b main . && git add . && git commit -q -m first")); r.code != 0 {
		t.Fatalf("git: %s", r.err)
	}
	serve := func(command string) *process {
		p := spawn(t, shell("exec "+command))
		p.stderr.await(t, "listening on ")
		return p
	}

	lines := strings.Split(strings.TrimSpace(makes(t, "run")), "\n")
	hub := serve(lines[len(lines)-1]) // the lines before it build the program
	keys := map[string]string{}
	var sent, task string
	for _, typed := range readmeCommands(t) {
		command := typed
		for name, key := range keys {
			command = strings.ReplaceAll(command, "<"+name+"'s>", key)
		}
		if strings.HasPrefix(command, "export PATH=") {
			r := do(t, shell(command+`; printf %s "$PATH"`))
			env = append(env, "PATH="+r.out)
			continue
		}
		if strings.HasPrefix(command, "parley serve") {
			hub.signal(t, syscall.SIGTERM)
			hub = serve(command)
			continue
		}
		if strings.Contains(command, "parley handoff complete") { // the reader has done the work
			if r := do(t, shell("echo avatar text > schema.sql && git commit -q -a -m nullable")); r.code != 0 {
				t.Fatalf("git: %s", r.err)
			}
		}
		person := sit(t, shell(command))
		if strings.HasPrefix(command, "parley root add") {
			person.types(t, "[y/N] ", "y\n")
		}
		code, screen := person.leaves(t)
		screen = strings.ReplaceAll(screen, "\r\n", "\n")
		want := 0
		for prefix, exit := range readmeExits {
			if strings.HasPrefix(typed, prefix) {
				want = exit
			}
		}
		if code != want {
			t.Fatalf("%s\nexit code %d, want %d\n%s", typed, code, want, screen)
		}
		if m := readmeSent.FindStringSubmatch(screen); m != nil && sent == "" {
			sent = m[1]
		}
		if m := readmeTask.FindStringSubmatch(screen); m != nil && strings.Contains(command, "initiate") {
			task = m[1]
		}
		if name, key := readmeAdded.FindStringSubmatch(screen), readmeKey.FindStringSubmatch(screen); name != nil && key != nil {
			keys[name[1]] = key[1]
		}
	}
	if len(keys) != 2 || sent != "m1" || task != "h1" {
		t.Errorf("the README adds %d agents, sends %q and hands over %q", len(keys), sent, task)
	}
	hub.signal(t, syscall.SIGTERM)
}
