package housetest_test

import (
	"bufio"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// TestMakeRun types the README's lines for a checkout: make run in one terminal, and in a
// second one, whose PATH does not have the program, the lines that follow. Then it stops
// the hub as a person does.
func TestMakeRun(t *testing.T) {
	make, err := exec.LookPath("make")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip("there is no make")
	}
	cmd := exec.Command(make, "run")
	cmd.Env = append(os.Environ(), "PARLEY_HOME="+t.TempDir(), "PARLEY_ADDR=127.0.0.1:0")
	for name := range strings.SplitSeq("PARLEY_KEY PARLEY_URL PARLEY_SESSION PARLEY_LAUNCH PARLEY_RUN", " ") {
		cmd.Env = slices.DeleteFunc(cmd.Env, func(e string) bool { return strings.HasPrefix(e, name+"=") })
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	var said strings.Builder
	listens := false
	for lines := bufio.NewScanner(out); lines.Scan(); {
		said.WriteString(lines.Text() + "\n")
		if strings.HasPrefix(lines.Text(), "journal head ") { // the hub answers
			listens = true
			typeAfterMakeRun(t, cmd.Env)
			syscall.Kill(-cmd.Process.Pid, syscall.SIGINT) // as Ctrl-C does to the whole group
		}
	}
	cmd.Wait() // make reports that the hub was interrupted
	if !listens || !strings.Contains(said.String(), "listening on http://127.0.0.1:") {
		t.Errorf("make run did not start a hub:\n%s", said.String())
	}
}

// typeAfterMakeRun types the lines of the README that follow on make run. The line that
// starts a hub is left out, as the README says.
func typeAfterMakeRun(t *testing.T, env []string) {
	t.Helper()
	raw, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, after, found := strings.Cut(string(raw), "\nmake run ")
	if !found || !strings.Contains(after, "skip `parley serve` if a hub is running already, as after `make run`") {
		t.Fatal("the README has no block with make run, or does not say that it started the hub")
	}
	typed := []string{"set -e"}
	for line := range strings.Lines(after) {
		command, prompted := strings.CutPrefix(line, "$ ")
		needsKey := strings.HasPrefix(command, "PARLEY_KEY=")
		switch {
		case strings.HasPrefix(line, "export "):
			typed = append(typed, line, "cd '"+t.TempDir()+"'") // later lines write files
		case strings.HasPrefix(command, "parley demo"):
			typed = append(typed, command)
		case prompted && !needsKey && !strings.HasPrefix(command, "parley serve") && !strings.HasPrefix(command, "parley open"):
			typed = append(typed, strings.Replace(command, "parley ", "parley --as-operator ", 1)) // nobody sits at a terminal here
		}
	}
	if len(typed) < 8 {
		t.Errorf("the README has few lines to type: %q", typed)
	}
	shell := exec.Command("bash", "-c", strings.Join(typed, "\n"))
	shell.Env = env
	if out, err := shell.CombinedOutput(); err != nil {
		t.Errorf("the lines of the README after make run: %v\n%s", err, out)
	}
}
