package run

import (
	"context"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/ground/process"
	"github.com/parley-agents/parley/internal/work/fleet"
)

var testIDs = hub.NewIDs(time.Now)

// sleeper starts a process that ends only if it is killed, in a process group, or in a
// group of its own if group is 0.
func sleeper(t *testing.T, group int, env ...string) (pid int, ended <-chan struct{}) {
	t.Helper()
	cmd := exec.Command("sleep", "1000")
	cmd.Env = append(os.Environ(), env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pgid: group}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		cmd.Wait() // a signal ends it
		close(done)
	}()
	t.Cleanup(func() {
		cmd.Process.Kill() // fails if it has ended
		<-done
	})
	return cmd.Process.Pid, done
}

// lost is the record of a run whose owner has ended.
func lost() Record {
	id := hub.RunID(testIDs.Next())
	return Record{
		Run:   hub.Run{ID: id, Agent: "a", State: hub.RunRunning, StartedAt: id.Time()},
		Owner: Process{PID: 1 << 22, Began: "long ago"},
	}
}

// An endHub answers the end of a run with err.
type endHub struct {
	Hub
	err error
}

func (h endHub) EndRun(_ context.Context, r hub.Run) (hub.Run, error) { return r, h.err }

func TestRecover(t *testing.T) {
	files := NewFiles(t.TempDir())
	leave := func(r Record) hub.RunID {
		t.Helper()
		a, err := files.Create(r)
		if err == nil {
			owner := r.Owner
			err = a.Update(func(kept *Record) { kept.Owner = owner })
		}
		if err != nil {
			t.Fatal(err)
		}
		return r.ID
	}
	r := lost()
	ours, oursEnded := sleeper(t, 0, fleet.RunVariable+"="+string(r.ID))
	_, clearedEnded := sleeper(t, ours) // in the group, without the run's id
	_, strayEnded := sleeper(t, 0, fleet.RunVariable+"="+string(r.ID))
	_, otherEnded := sleeper(t, 0, fleet.RunVariable+"="+string(testIDs.Next()))
	r.Hub = true
	id := leave(r)
	alive := lost()
	alive.Owner = self()
	aliveID := leave(alive)

	unreported, err := files.Recover(hub.At(time.Now()))
	if err != nil {
		t.Fatal(err)
	}
	<-oursEnded
	<-clearedEnded
	<-strayEnded
	select {
	case <-otherEnded:
		t.Error("a process of another run was killed")
	default:
	}
	if len(unreported) != 1 || unreported[0].ID != id || unreported[0].State != hub.RunInterrupted || unreported[0].Reason != hub.RunLost {
		t.Errorf("got %+v, want the run that was lost", unreported)
	}
	if got, err := files.Record(aliveID); err != nil || got.State != hub.RunRunning {
		t.Errorf("a run that somebody watches over is %s, %v", got.State, err)
	}
	if err := files.Report(t.Context(), endHub{err: hub.Errorf(hub.CodeDegraded, "test", "no answer")}, unreported); err == nil {
		t.Error("a hub that does not answer was told")
	}
	if err := files.Report(t.Context(), endHub{}, unreported); err != nil {
		t.Fatal(err)
	}
	if unreported, err = files.Recover(hub.At(time.Now())); err != nil || len(unreported) != 0 {
		t.Errorf("got %v, %v after the hub was told", unreported, err)
	}
}

func TestOwner(t *testing.T) {
	a, err := NewFiles(t.TempDir()).Create(lost())
	if err != nil {
		t.Fatal(err)
	}
	if got := a.Record().Owner; got.PID != os.Getpid() || !got.alive() {
		t.Errorf("the owner is %+v, and not this process", got)
	}
	pid, ended := sleeper(t, 0)
	p := Process{PID: pid, Began: process.Began(pid)}
	if reused := (Process{PID: pid, Began: "another boot/12345"}); !p.alive() || reused.alive() {
		t.Errorf("a process is alive: %v; one that had its number before: %v", p.alive(), reused.alive())
	}
	syscall.Kill(pid, syscall.SIGKILL)
	<-ended
	if p.alive() {
		t.Error("a process that was killed is alive")
	}
}
