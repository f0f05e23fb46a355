package run

import (
	"fmt"
	"os"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/ground/process"
	"github.com/parley-agents/parley/internal/ground/process/stray"
	"github.com/parley-agents/parley/internal/work/fleet"
)

// A Process identifies a process by its number and the instant that it began,
// because the system uses numbers again.
type Process struct {
	PID   int    `json:"pid"`
	Began string `json:"began,omitempty"` // as the system counts it; empty if that is not known
}

// self identifies this process.
func self() Process { return Process{PID: os.Getpid(), Began: process.Began(os.Getpid())} }

// alive reports whether the process still runs.
func (p Process) alive() bool {
	if p.PID <= 0 {
		return false
	}
	if p.Began == "" {
		return process.Exists(p.PID)
	}
	return process.Began(p.PID) == p.Began
}

// KillLeft kills the remaining processes of a run: every process with the run's id in its
// environment, and the process group that it is in. Every process of a run gets the id;
// one that clears its environment dies with its group.
func KillLeft(run hub.RunID) error {
	if err := stray.Kill(fleet.RunVariable + "=" + string(run)); err != nil {
		return fmt.Errorf("run: end the processes of run %s: %w", run, err)
	}
	return nil
}
