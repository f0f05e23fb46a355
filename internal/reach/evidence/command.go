package evidence

import (
	"context"
	"time"
)

// An Outcome is how a command ended.
type Outcome struct {
	Command      string `json:"command"`
	ExitCode     int    `json:"exit_code"`        // -1 if it did not end by itself
	Signal       string `json:"signal,omitempty"` // what ended it, if not itself
	DurationMS   int64  `json:"duration_ms"`
	TimedOut     bool   `json:"timed_out"`
	Cancelled    bool   `json:"cancelled,omitempty"`
	Failure      string `json:"failure,omitempty"` // why it could not be run at all
	OutputDigest string `json:"output_digest"`     // sha256:, of all it wrote
	OutputBytes  int64  `json:"output_bytes"`
	OutputHead   string `json:"output_head,omitempty"` // the beginning, if the tail does not reach it
	OutputTail   string `json:"output_tail"`
}

// Passed reports whether the command ended by itself and with zero.
func (o Outcome) Passed() bool { return o.Finished() && o.ExitCode == 0 }

// Finished reports whether the command ended by itself.
func (o Outcome) Finished() bool {
	return o.Failure == "" && !o.TimedOut && !o.Cancelled
}

// CommandOptions changes how a command is run. The zero value works.
type CommandOptions struct {
	Timeout   time.Duration // default 10 minutes
	MaxOutput int           // bytes kept of the beginning, and as many of the end; default 16 KiB
	Env       []string      // default that of this process

	// Track, if not nil, is told the process group when it runs and when it
	// has ended. Who writes this down can clean up after a crash.
	Track func(group int, running bool)
}

// Command runs a line in the shell, in dir. The line must come from the user of
// this machine, never from a message, a package or a report.
func Command(ctx context.Context, dir, line string, opts *CommandOptions) Outcome {
	return Outcome{Command: line, ExitCode: -1, Failure: "unsupported"}
}
