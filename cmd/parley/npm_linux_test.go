package main

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"testing"
)

// countsSignals is the variable that makes TestNPMSignals the program that npx starts.
const countsSignals = "PARLEY_TEST_COUNTS_SIGNALS"

// TestNPMSignals presses Ctrl-C for a program that npx started: the terminal sends the signal to
// every process in its window, and the program must get it once, because a second one ends a hub at
// once. Other signals reach the program through the script, which ends with the program's exit code.
func TestNPMSignals(t *testing.T) {
	if os.Getenv(countsSignals) != "" {
		countSignals()
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program := exec.Command(self, "-test.run=^TestNPMSignals$")
	program.Env = append(os.Environ(), countsSignals+"=1")
	cmd := underNPM(t, program)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p := spawn(t, cmd)
	t.Cleanup(func() { syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }) // fails if it has ended
	p.stdout.await(t, "ready")

	if err := syscall.Kill(-cmd.Process.Pid, syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	p.stdout.await(t, "interrupted")
	if err := syscall.Kill(cmd.Process.Pid, syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	p.stdout.await(t, "hung up")
	if code := p.signal(t, syscall.SIGTERM); code != 7 {
		t.Errorf("exit %d: %s", code, p.stderr)
	}
	p.stdout.await(t, "ends after 1 interrupts")
}

// countSignals prints the signals that it gets, and ends with exit code 7 after SIGTERM.
func countSignals() {
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGHUP, syscall.SIGTERM)
	fmt.Println("ready")
	interrupts := 0
	for s := range signals {
		switch s {
		case syscall.SIGINT:
			interrupts++
			fmt.Println("interrupted")
		case syscall.SIGHUP:
			fmt.Println("hung up")
		case syscall.SIGTERM:
			fmt.Printf("ends after %d interrupts\n", interrupts)
			os.Exit(7)
		}
	}
}

// TestNPMEnds has the script end as the program does, also when a signal ends the program. node
// ignores SIGPIPE, which therefore becomes an exit code.
func TestNPMEnds(t *testing.T) {
	for name, want := range map[string]string{"KILL": "signal: killed", "PIPE": "exit status 141"} {
		program := write(t, "program", "#!/bin/sh\nkill -"+name+" $$\n")
		if err := os.Chmod(program, 0o700); err != nil {
			t.Fatal(err)
		}
		err := underNPM(t, exec.Command(program)).Run()
		if err == nil || err.Error() != want {
			t.Errorf("%s: got %v, want %s", name, err, want)
		}
	}
}
