package run

import "os"

// A Process identifies a process by its number and the instant that it began,
// because the system uses numbers again.
type Process struct {
	PID   int    `json:"pid"`
	Began string `json:"began,omitempty"` // as the system counts it; empty if that is not known
}

// self identifies this process.
func self() Process { return Process{PID: os.Getpid(), Began: began(os.Getpid())} }

// alive reports whether the process still runs.
func (p Process) alive() bool {
	if p.PID <= 0 {
		return false
	}
	if p.Began == "" {
		return exists(p.PID)
	}
	return began(p.PID) == p.Began
}
