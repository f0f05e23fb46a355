package parley_test

import (
	"bufio"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// TestMakeRun starts the README's first command and stops it as a person does.
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
			syscall.Kill(-cmd.Process.Pid, syscall.SIGINT) // as Ctrl-C does to the whole group
		}
	}
	cmd.Wait() // make reports that the hub was interrupted
	if !listens || !strings.Contains(said.String(), "listening on http://127.0.0.1:") {
		t.Errorf("make run did not start a hub:\n%s", said.String())
	}
}
