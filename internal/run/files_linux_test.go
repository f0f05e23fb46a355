package run

import (
	"context"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/reach/fleet"
)

var testIDs = hub.NewIDs(time.Now)

// sleeper starts a process that ends only if somebody ends it, in a group of its
// own.
func sleeper(t *testing.T, env ...string) (Process, <-chan struct{}) {
	t.Helper()
	cmd := exec.Command("sleep", "1000")
	cmd.Env = append(os.Environ(), env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		cmd.Wait() // a signal ends it
		close(ended)
	}()
	t.Cleanup(func() {
		cmd.Process.Kill() // fails if it has ended
		<-ended
	})
	return Process{PID: cmd.Process.Pid, Began: began(cmd.Process.Pid)}, ended
}

// lost is the record of a run whose owner is gone.
func lost(groups ...Process) Record {
	id := hub.RunID(testIDs.Next())
	return Record{
		Run:   hub.Run{ID: id, Agent: "a", State: hub.RunRunning, StartedAt: id.Time()},
		Owner: Process{PID: 1 << 22, Began: "long ago"}, Groups: groups,
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
	ours, oursEnded := sleeper(t)
	reused, reusedEnded := sleeper(t)
	reused.Began = "another boot/12345" // the number went to somebody else
	r := lost(ours, reused)
	_, strayEnded := sleeper(t, fleet.RunVariable+"="+string(r.ID)) // left the group
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
	<-strayEnded
	select {
	case <-reusedEnded:
		t.Error("a process was killed that only has the number of one of ours")
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

func TestTrack(t *testing.T) {
	files := NewFiles(t.TempDir())
	a, err := files.Create(lost())
	if err != nil {
		t.Fatal(err)
	}
	p, _ := sleeper(t)
	for _, running := range []bool{true, false} {
		if err := a.Track(p.PID, running); err != nil {
			t.Fatal(err)
		}
		kept, err := files.Record(a.Record().ID)
		if err != nil || (len(kept.Groups) == 1) != running {
			t.Fatalf("running %v: got %v, %v", running, kept.Groups, err)
		}
		if running && kept.Groups[0] != p {
			t.Errorf("got %+v, want %+v", kept.Groups[0], p)
		}
	}
	if got := a.Record().Owner; got.PID != os.Getpid() || !got.alive() {
		t.Errorf("the owner is %+v, and not this process", got)
	}
}
