package process_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/parley-agents/parley/internal/ground/process"
)

func TestEnded(t *testing.T) {
	cmd := exec.Command("sleep", "600")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pid, stamp := cmd.Process.Pid, process.Stamp(cmd.Process.Pid)
	t.Cleanup(func() {
		cmd.Process.Kill() // fails if the test has ended it
		cmd.Wait()
	})
	switch {
	case stamp == "":
		t.Fatal("a process that runs has no stamp")
	case process.Ended(pid, stamp):
		t.Error("a process that runs counts as ended")
	case process.Ended(pid, "") || process.Ended(pid, "another-boot/pid:[1]/5"):
		t.Error("a process of which nothing is known here counts as ended")
	case !process.Ended(os.Getppid(), stamp): // this process may have begun in the same tick as the child
		t.Error("a number that another process has now counts as the process of before")
	}

	cmd.Process.Kill()
	cmd.Wait()
	if !process.Ended(pid, stamp) || process.Stamp(pid) != "" {
		t.Error("a killed process does not count as ended")
	}
	if began := process.Began(os.Getpid()); strings.Count(began, "/") != 1 {
		t.Errorf("Began: got %q", began)
	}
}
