package acp

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/parley-agents/parley/protocol/acp/acpv1"
	"github.com/parley-agents/parley/protocol/jsonrpc"
)

// A FaultCode is the kind of a Fault.
// Codes are stored and compared by callers; they do not change.
type FaultCode string

// The codes.
const (
	FaultExit      FaultCode = "exited"    // the agent ended during a call or a turn
	FaultSilent    FaultCode = "silent"    // it did not answer in time
	FaultProse     FaultCode = "prose"     // it did not answer, and wrote prose to its standard output
	FaultFlood     FaultCode = "flood"     // it sent more updates than can be queued
	FaultMalformed FaultCode = "malformed" // its answer cannot be decoded
	FaultVersion   FaultCode = "version"   // it chose a version that was not offered, or refused version 1 as the only one
)

// A Fault is a mistake of the agent that ends a call, a turn or the connection. The
// code is a contract, the text is for people.
type Fault struct {
	Code FaultCode
	Text string // the behaviour of the agent, and a check for its author
	Err  error  // the cause; may be nil
}

// Error returns the text and the cause.
func (f *Fault) Error() string {
	if f.Err == nil {
		return "acp: " + f.Text
	}
	return fmt.Sprintf("acp: %s: %v", f.Text, f.Err)
}

// Unwrap returns the cause.
func (f *Fault) Unwrap() error { return f.Err }

// A StartError is the failure to start an agent or to open a session with it.
type StartError struct {
	Err    error
	Stderr []byte // the end of the agent's standard error, which often says why
}

// Error returns the text of the cause.
func (e *StartError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *StartError) Unwrap() error { return e.Err }

// ErrAuthRequired is the error of a call that the agent refuses before
// [Client.Authenticate].
var ErrAuthRequired = errors.New("the agent requires authentication")

// ErrNoVersion2 is the cause of a [FaultVersion] of an agent that seems to speak version 2 alone,
// which was not offered.
var ErrNoVersion2 = errors.New("version 2 of the protocol was not offered")

// ErrUnsupported is the error of a call for which the agent lacks the capability.
var ErrUnsupported = errors.New("not supported by the agent")

// maxProblems is how many problems a Client keeps: the first ones.
const maxProblems = 8

// reportProblem keeps an error that the connection survives, and reports it.
// The first problems are kept because they name the cause most often; see prose.
func (c *Client) reportProblem(err error) {
	c.mu.Lock()
	if len(c.problems) < maxProblems {
		c.problems = append(c.problems, err)
	}
	c.mu.Unlock()
	if c.opts.OnProblem != nil {
		c.opts.OnProblem(err)
	}
}

// prose returns the first problem with output that is not JSON, nil if there is
// none.
func (c *Client) prose() *jsonrpc.Problem {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, err := range c.problems {
		var p *jsonrpc.Problem
		if errors.As(err, &p) && p.Code == jsonrpc.ProblemNotJSON {
			return p
		}
	}
	return nil
}

// silent returns the fault of an agent that did not answer in time.
// An agent that was started without its protocol flag usually prints a greeting or
// a prompt, so the text quotes that output, or else the last line of standard
// error.
func (c *Client) silent(what string, err error) *Fault {
	if p := c.prose(); p != nil {
		return &Fault{Code: FaultProse, Err: err, Text: fmt.Sprintf(
			"%s: the agent does not answer, and its standard output is not JSON: %q; check whether it needs a flag to speak the protocol, and send logs to standard error",
			what, firstLine(p.Excerpt))}
	}
	text := what + ": the agent is running but does not answer"
	if line := c.lastStderrLine(); line != "" {
		text += fmt.Sprintf("; the last line of its standard error: %q", line)
	}
	return &Fault{Code: FaultSilent, Text: text, Err: err}
}

// explain turns the error of a call into one about the agent.
// An error response keeps its *jsonrpc.Error in the chain. An end of the connection
// and a deadline become a Fault.
func (c *Client) explain(method string, err error) error {
	var answer *jsonrpc.Error
	var problem *jsonrpc.Problem
	switch {
	case errors.As(err, &answer):
		if answer.Code == int(acpv1.ErrorCodeAuthenticationRequired) {
			return fmt.Errorf("acp: %w: %w", err, ErrAuthRequired)
		}
		return fmt.Errorf("acp: %w (code %d)", err, answer.Code)
	case errors.As(err, &problem):
		return &Fault{Code: FaultMalformed, Text: "cannot read the agent's answer", Err: err}
	case errors.Is(err, jsonrpc.ErrClosed):
		return c.ended(method, err)
	case errors.Is(err, context.DeadlineExceeded):
		return c.silent(method, err)
	}
	return fmt.Errorf("acp: %w", err)
}

// ended returns the fault of an agent that ended, or ErrClosed after Close.
func (c *Client) ended(what string, err error) error {
	if c.closing.Load() {
		return fmt.Errorf("acp: %s: %w", what, jsonrpc.ErrClosed)
	}
	text := what + ": the agent has ended"
	if p := c.prose(); p != nil {
		text += fmt.Sprintf("; its standard output was not JSON: %q", firstLine(p.Excerpt))
	}
	return &Fault{Code: FaultExit, Text: text, Err: err}
}

// lastStderrLine returns the last line of the agent's standard error.
func (c *Client) lastStderrLine() string {
	if c.process == nil {
		return ""
	}
	lines := strings.Split(strings.TrimSpace(string(c.process.Stderr())), "\n")
	return firstLine([]byte(lines[len(lines)-1]))
}

// firstLine returns the first line of b, at most 200 bytes of it.
// The cut may split a character; the broken end is replaced.
func firstLine(b []byte) string {
	line, _, _ := strings.Cut(strings.TrimSpace(string(b)), "\n")
	return strings.ToValidUTF8(line[:min(len(line), 200)], "\uFFFD")
}
