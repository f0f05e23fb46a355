package launch

import (
	"context"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/parley-agents/parley/internal/briefing"
	"github.com/parley-agents/parley/internal/process"
	"github.com/parley-agents/parley/internal/reach/cli"
	"github.com/parley-agents/parley/internal/reach/wake"
	"github.com/parley-agents/parley/internal/surface/api"
	"github.com/parley-agents/parley/internal/surface/rpc"
)

// maxInput is the size of the largest input of a hook in bytes; the results of tools are in
// it.
const maxInput = 64 << 20

// ReadInput reads the input of a hook. It returns early when ctx ends; the read then ends
// with the process.
func ReadInput(ctx context.Context, in io.Reader) (cli.Input, error) {
	type result struct {
		raw []byte
		err error
	}
	done := make(chan result, 1)
	go func() {
		raw, err := io.ReadAll(io.LimitReader(in, maxInput))
		done <- result{raw, err}
	}()
	select {
	case r := <-done:
		if r.err != nil {
			return cli.Input{}, r.err
		}
		return cli.ReadInput(r.raw)
	case <-ctx.Done():
		return cli.Input{}, ctx.Err()
	}
}

// Hook tells the hub of an event in the session of the waiter, as the hook of the CLI with
// a name reports it on in, and returns the output for the CLI. It starts the waiter of a
// CLI that cannot hold a request itself. It fails without a word: the output is empty then.
func (w *Waiter) Hook(ctx context.Context, name string, in io.Reader) []byte {
	h, ok := w.CLI.Hook(name)
	if !ok {
		return nil
	}
	input, err := ReadInput(ctx, in)
	isReminder := h.Event == cli.Waiting && input.Reminds
	if err != nil || input.Session == "" || isReminder {
		return nil
	}

	w.Session = input.Session
	w.Dir = input.Dir
	if w.CLI.Follows() {
		w.Transcript = input.Transcript
	}
	w.locate()

	// A CLI that cannot hold a request gets its waiter at the start of a session, or with a prompt.
	begins := h.Event == cli.Start || h.Event == cli.Prompt
	if w.CLI.Detached && begins {
		w.detach(os.LookupEnv)
	}

	// The text for the CLI is the instruction, at the start of a session, and the hub's notice.
	text := ""
	if h.Event == cli.Start && w.CLI.Tells && w.launch.Agent != "" {
		text = briefing.Instruction(w.launch.Agent)
	}
	if client, err := w.Client(); err == nil {
		if advice, err := rpc.Call(ctx, client, api.ReportWake, w.report(h, input)); err == nil {
			text = strings.TrimSpace(text + "\n" + advice.Notice)
		}
	}
	return w.CLI.Answer(h, text)
}

// maxWakes is the number of wakes that a report of one prompt names at most.
const maxWakes = 20

// report returns what the hub is told of an event.
func (w *Waiter) report(h cli.Hook, in cli.Input) wake.Report {
	attended := w.attended()
	begins := h.Event == cli.Start || h.Event == cli.Prompt
	return wake.Report{
		Key: w.key, Stamp: process.Stamp(w.key.Process), Cwd: w.Dir, Version: w.launch.Version,
		Event: reported(h, in), Wakes: in.Wakes[:min(len(in.Wakes), maxWakes)], StopActive: in.StopActive,
		Quiet:    slices.Contains([]cli.Event{cli.Waiting, cli.Failed, cli.End}, h.Event),
		Attended: &attended, Release: w.CLI.Detached, NoQuota: in.NoQuota, Only: w.CLI.Leaves && begins,
	}
}

// reported returns the event that the hub is told of. A turn that failed is over, and a
// prompt hook without a prompt stands in the middle of a turn.
func reported(h cli.Hook, in cli.Input) wake.Event {
	switch {
	case h.Event == cli.Failed:
		return wake.EventTurnEnd
	case h.Event == cli.Prompt && in.Goes:
		return wake.EventTool
	}
	return wake.Event(h.Event)
}
