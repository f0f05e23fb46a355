package stray_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/parley-agents/parley/internal/ground/process/stray"
)

// leave starts a shell line that prints the number of a process, and returns that when the
// shell has ended.
func leave(t *testing.T, env []string, line string) int {
	t.Helper()
	cmd := exec.Command("sh", "-c", line)
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	text, err := bufio.NewReader(out).ReadString('\n')
	if err == nil {
		err = cmd.Wait()
	}
	pid := 0
	if _, scanned := fmt.Sscan(text, &pid); err != nil || scanned != nil {
		t.Fatalf("%q: %v, %v", text, err, scanned)
	}
	return pid
}

// alive reports whether a process has not ended.
func alive(pid int) bool {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	state := strings.Fields(string(raw[strings.LastIndexByte(string(raw), ')')+1:]))[0]
	return state != "Z" && state != "X"
}

// The lines start a process in a session of its own whose parent ends.
const (
	marked  = `setsid sh -c 'echo $$; exec sleep 1000 >/dev/null 2>&1' &`
	cleared = `env -i setsid sh -c 'echo $$; exec sleep 1000 >/dev/null 2>&1' &`
)

func TestKillFindsProcessesByTheirMark(t *testing.T) {
	mark := fmt.Sprintf("PARLEY_STRAY_TEST=%d", os.Getpid())
	ours, other := leave(t, []string{mark}, marked), leave(t, []string{mark + "0"}, marked)
	defer stray.Kill(mark + "0")
	if err := stray.Kill(mark); err != nil || alive(ours) {
		t.Errorf("the process is alive: %v, %v", alive(ours), err)
	}
	if !alive(other) {
		t.Error("a process with another mark was killed")
	}
}

func TestAPenHoldsProcessesThatClearedTheirMark(t *testing.T) {
	before := exec.Command("sleep", "1000")
	if err := before.Start(); err != nil {
		t.Fatal(err)
	}
	defer before.Wait()
	defer before.Process.Kill()
	pen := stray.NewPen()
	defer pen.Open()
	pid := leave(t, nil, cleared)
	if err := pen.Kill(); err != nil || alive(pid) {
		t.Errorf("the process is alive: %v, %v", alive(pid), err)
	}
	if _, err := os.Stat(fmt.Sprint("/proc/", pid)); err == nil {
		t.Error("the process was not buried")
	}
	if !alive(before.Process.Pid) {
		t.Error("a process that is older than the pen was killed")
	}
}
