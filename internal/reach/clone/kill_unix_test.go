//go:build unix

package clone_test

import (
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// ownGroup lets a command lead a process group.
func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// killGroup ends this process and the others of its group.
func killGroup() { syscall.Kill(0, syscall.SIGKILL) }

// The process and those of git are killed at random moments, also while git writes. PARLEY_LANDING_KILLS
// says how often (10).
func TestRecoverAfterKillsAtRandomMoments(t *testing.T) {
	kills, err := strconv.Atoi(os.Getenv("PARLEY_LANDING_KILLS"))
	if err != nil {
		kills = 10
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	k := newKillable(t)
	whole := time.Now()
	k.runChild(k.dir, 0) // takes all the time that it needs
	longest := time.Since(whole)
	k.landed(k.dir, status)
	for n := range kills {
		k.reset()
		cmd := exec.Command(program)
		cmd.Env = append(os.Environ(), childCopies+"="+filepath.Dir(k.copy().Folder()), childFolder+"="+k.dir, childMove+"="+k.old.ID+" "+k.new.ID)
		ownGroup(cmd)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		after := rand.N(longest)
		<-time.After(after)
		syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // it may be over
		cmd.Wait()

		k.whole()
		k.recover()
		head := k.git("rev-parse", "main")
		for _, dir := range []string{k.dir, k.linked} {
			if got := k.gitIn(dir, "status", "--porcelain"); got != status {
				t.Errorf("the status of %s is %q", dir, got)
			}
		}
		if head != k.old.ID && head != k.new.ID {
			t.Errorf("main is at %s", head)
		}
		k.noTraces()
		if t.Failed() {
			t.Fatalf("kill %d, after %v", n, after)
		}
	}
}
