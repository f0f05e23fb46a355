package fleet

import "os"

// A Process is a process that surely is the one that was meant, although numbers
// are used again: it is known by its number and when it began.
type Process struct {
	PID   int    `json:"pid"`
	Began string `json:"began,omitempty"` // as the system counts it; empty if that is not known
}

// self is this process.
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
