package evidence

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/ground/text/shorten"
	"github.com/parley-agents/parley/internal/ground/text/tail"
)

// An Outcome is the outcome of a command.
type Outcome struct {
	Command      string `json:"command"`
	ExitCode     int    `json:"exit_code"` // -1 if a signal ended it, or it could not be run
	DurationMS   int64  `json:"duration_ms"`
	TimedOut     bool   `json:"timed_out"`
	Cancelled    bool   `json:"cancelled,omitempty"`
	Failure      string `json:"failure,omitempty"` // why it could not be run
	OutputDigest string `json:"output_digest"`     // sha256: of all it wrote, to both outputs
	OutputBytes  int64  `json:"output_bytes"`
	OutputHead   string `json:"output_head,omitempty"` // the beginning, if it is not in the tail
	OutputTail   string `json:"output_tail"`

	InPlace bool     `json:"in_place,omitempty"` // it ran in the folder of the work, not on a commit
	Check   *Checked `json:"check,omitempty"`    // the check of the repository that it was; nil if it ran in place
}

// A Checked names the result of a check of a repository on a commit.
type Checked struct {
	Name   string            `json:"name"`
	Commit string            `json:"commit"`
	Result hub.CheckResultID `json:"result"`
	Kept   bool              `json:"kept"` // the result was known before
}

// Finished reports whether the command was run to its end, good or bad.
func (o Outcome) Finished() bool { return o.Failure == "" && !o.TimedOut && !o.Cancelled }

// Passed reports whether the command was run to its end and succeeded.
func (o Outcome) Passed() bool { return o.Finished() && o.ExitCode == 0 }

// String says how the command ended.
func (o Outcome) String() string {
	switch {
	case o.Failure != "":
		return "could not be run: " + shorten.Text(o.Failure, maxClaim)
	case o.TimedOut:
		return "timed out"
	case o.Cancelled:
		return "was cancelled"
	case o.ExitCode == 0:
		return "passes"
	case o.ExitCode < 0:
		return "was killed by a signal"
	}
	return fmt.Sprintf("fails with exit code %d", o.ExitCode)
}

// CommandOptions changes how a command is run. The zero value works.
type CommandOptions struct {
	Timeout   time.Duration // default 10 minutes
	MaxOutput int           // bytes kept of the end, and as many of the beginning; default 16 KiB
	Env       []string      // default that of this process
}

// Command runs a line in the shell, in dir, and returns its outcome. The line is the
// user's own, from this machine: one from a message, a package or a report must
// never get here.
//
// The command reads nothing and is the first of a process group of its own.
// When it ends, or ctx or the time does, the whole group is killed; a process
// that left the group lives on, but its output is no longer read. opts may be nil.
func Command(ctx context.Context, dir, line string, opts *CommandOptions) Outcome {
	var o CommandOptions
	if opts != nil {
		o = *opts
	}
	o.Timeout, o.MaxOutput = cmp.Or(o.Timeout, 10*time.Minute), cmp.Or(o.MaxOutput, 16<<10)
	parent := ctx
	ctx, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()

	out := newOutput(o.MaxOutput)
	began := time.Now()
	code, err := runShell(ctx, dir, line, out, o)
	result := Outcome{Command: line, InPlace: true, ExitCode: code, DurationMS: time.Since(began).Milliseconds()}
	result.OutputDigest, result.OutputBytes = "sha256:"+hex.EncodeToString(out.hash.Sum(nil)), out.size
	result.OutputHead, result.OutputTail = out.text()
	switch {
	case code == -1 && parent.Err() != nil:
		result.Cancelled = true
	case code == -1 && ctx.Err() != nil:
		result.TimedOut = true
	case err != nil:
		result.Failure = err.Error()
	}
	return result
}

// runShell runs the line until it or ctx ends.
func runShell(ctx context.Context, dir, line string, out io.Writer, o CommandOptions) (code int, err error) {
	if strings.TrimSpace(line) == "" {
		return -1, errors.New("the command is empty")
	}

	r, w, err := os.Pipe()
	if err != nil {
		return -1, err
	}
	defer r.Close()

	cmd := exec.CommandContext(ctx, "sh", "-c", line)
	cmd.Dir, cmd.Env = dir, o.Env
	cmd.Stdout, cmd.Stderr = w, w
	leash(cmd)
	err = cmd.Start()
	w.Close()
	if err != nil {
		return -1, err
	}

	// The output is complete when no process holds the pipe any more.
	read := make(chan struct{})
	go func() {
		defer close(read)
		io.Copy(out, r)
	}()

	cmd.Wait()   // the outcome is in cmd.ProcessState
	cmd.Cancel() // kills the rest of the group
	select {
	case <-read:
	case <-time.After(killDelay): // a process that left the group holds the pipe
		r.Close()
		<-read
	}
	return cmd.ProcessState.ExitCode(), nil
}

// An output is the output of a command: all of it hashed, its two ends kept.
type output struct {
	hash  hash.Hash
	size  int64
	limit int
	head  []byte // at most limit bytes
	tail  *tail.Buffer
}

func newOutput(limit int) *output {
	return &output{hash: sha256.New(), limit: limit, tail: tail.NewBuffer(limit)}
}

// Write takes in p. It never fails.
func (o *output) Write(p []byte) (int, error) {
	o.hash.Write(p)
	o.size += int64(len(p))
	o.head = append(o.head, p[:min(len(p), o.limit-len(o.head))]...)
	return o.tail.Write(p)
}

// text returns the two ends as valid UTF-8. The head is empty if the tail is
// everything.
func (o *output) text() (head, tail string) {
	last, _ := o.tail.Bytes()
	// A part that both ends hold is shown once.
	first := o.head[:min(int64(len(o.head)), o.size-int64(len(last)))]
	return strings.ToValidUTF8(string(first), "\uFFFD"), strings.ToValidUTF8(string(last), "\uFFFD")
}

// maxTail bounds the bytes of the end of an output that an outcome has.
const maxTail = 16 << 10

// OutcomeOf returns the result of a check of a repository as the outcome of a line that names it.
func OutcomeOf(line string, r hub.CheckResult) Outcome {
	tail := r.Output.Tail
	out := Outcome{
		Command: line, ExitCode: r.ExitCode, DurationMS: r.Millis, OutputDigest: "sha256:" + r.Output.SHA256, OutputBytes: r.Output.Bytes,
		OutputTail: strings.ToValidUTF8(tail[max(0, len(tail)-maxTail):], ""), Check: &Checked{Name: r.Name, Commit: r.Commit, Result: r.ID, Kept: r.Kept},
	}
	switch r.State {
	case hub.ResultPassed, hub.ResultFailed:
		return out
	case hub.ResultTimedOut:
		out.TimedOut = true
	case hub.ResultCancelled:
		out.Cancelled = true
	default:
		out.Failure = cmp.Or(r.Reason, "the check was not started")
	}
	out.ExitCode = -1
	return out
}
