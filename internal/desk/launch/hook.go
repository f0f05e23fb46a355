package launch

import (
	"cmp"
	"context"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/desk/cli"
	"github.com/parley-agents/parley/internal/desk/guard"
	"github.com/parley-agents/parley/internal/desk/quota"
	"github.com/parley-agents/parley/internal/ground/briefing"
	"github.com/parley-agents/parley/internal/ground/process"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/operation/rpc"
	"github.com/parley-agents/parley/internal/reach/wake"
	"github.com/parley-agents/parley/internal/service/reservation"
)

// maxInput is the size of the largest input of a hook in bytes; the results of tools are in
// it.
const maxInput = 64 << 20

// ReadInput reads the input of a hook. It returns early when ctx ends; the read then ends
// with the process.
func ReadInput(ctx context.Context, in io.Reader) (cli.Input, error) {
	raw, err := ReadBytes(ctx, in)
	if err != nil {
		return cli.Input{}, err
	}
	return cli.ReadInput(raw)
}

// ReadBytes returns the input of a hook as it came, as ReadInput does.
func ReadBytes(ctx context.Context, in io.Reader) ([]byte, error) {
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
		return r.raw, r.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Hook tells the hub of an event in the session of the waiter, as the hook of the CLI with
// a name reports it on in, and returns the output for the CLI. Without a name the input tells
// it. Before and after tools that change files it asks the guard. It starts the waiter of a
// CLI that cannot hold a request itself. It fails without a word: the output is empty then.
func (w *Waiter) Hook(ctx context.Context, name string, in io.Reader) []byte {
	raw, err := ReadBytes(ctx, in)
	if err != nil {
		return nil
	}
	input, err := cli.ReadInput(raw)
	if err != nil {
		return nil
	}
	h, ok := w.CLI.Hook(cmp.Or(name, input.Hook))
	if !ok {
		return nil
	}
	if h.Event == cli.Before || h.Event == cli.After { // of which only the guard hears
		if h.Event == cli.Before && !w.Unguarded {
			w.spendBefore(ctx, h, input, raw)
		}
		return w.Guard(ctx, h, raw)
	}

	if h.Event == cli.Compact {
		w.compact(ctx)
		return nil
	}
	isReminder := h.Event == cli.Waiting && input.Reminds
	if input.Session == "" {
		return nil
	}
	if isReminder { // the CLI has been idle for a while, and its files are complete
		w.spend(ctx, h.Event, input)
		return nil
	}
	text, screen := w.tell(ctx, h, input, raw)
	return w.CLI.AnswerAndSay(h, text, screen)
}

// Guard asks the guard about a tool call and returns the output for the CLI.
func (w *Waiter) Guard(ctx context.Context, h cli.Hook, raw []byte) []byte {
	if w.Unguarded {
		return nil
	}
	g := w.guard()
	return g.Output(h, g.Judge(ctx, h, raw))
}

// guard returns the guard of the session.
func (w *Waiter) guard() *guard.Guard {
	return &guard.Guard{
		CLI: w.CLI, Notes: guard.Notes(filepath.Join(w.Home, guard.Dir)), Closed: w.Closed,
		Ask: func(ctx context.Context, q reservation.Question) (reservation.Answer, error) {
			client, err := w.Client()
			if err != nil {
				return reservation.Answer{}, err
			}
			return rpc.Call(ctx, client, api.AskFiles, q)
		},
	}
}

// tell tells the hub of an event and returns the text for the model, and the sentence for the
// person at the session.
func (w *Waiter) tell(ctx context.Context, h cli.Hook, input cli.Input, raw []byte) (text, screen string) {
	w.Session = input.Session
	w.Dir = input.Dir
	if w.CLI.Follows() {
		w.Transcript = input.Transcript
	}
	w.locate()

	// The guard compares files while the hub is told of the event.
	notes := make(chan string, 1)
	go func() {
		text := ""
		defer func() {
			recover() // a panic would end with exit code 2, by which a CLI complains to the model
			notes <- text
		}()
		if h.Event == cli.Tool && !w.Unguarded {
			text = w.guard().Judge(ctx, h, raw).Text
		}
	}()
	if h.Event == cli.End {
		w.guard().Notes.Drop(w.CLI.Name, input.Session)
	}

	// Usage comes before the end of the turn, while the hub knows the wake that started it.
	isMiddle := (h.Event == cli.Prompt && input.Goes) || (h.Event == cli.Start && input.Compacted)
	if slices.Contains(spendEvents, h.Event) && !isMiddle {
		w.spend(ctx, h.Event, input)
	}

	// The text for the CLI is the instruction, at the start of a session, the hub's notice, and
	// the notes of the guard.
	if h.Event == cli.Start && w.CLI.Tells && w.launch.Agent != "" {
		text = briefing.Instruction(w.launch.Agent)
	}
	client, err := w.Client()
	if err == nil {
		if advice, err := rpc.Call(ctx, client, api.ReportWake, w.report(h, input)); err == nil {
			text += "\n" + advice.Notice
			screen = advice.Screen
		}
	}

	// A CLI that cannot hold a request gets its waiter at the start of a session, or with a prompt.
	// It starts after the report: before it, the waiter could take the mail that this hook shows.
	// Without a key there is no hub to wait for.
	begins := h.Event == cli.Start || h.Event == cli.Prompt
	if w.CLI.Detached && begins && err == nil {
		w.detach(os.LookupEnv)
	}
	return strings.TrimSpace(text + "\n" + <-notes), screen
}

// spendEvents are the events at which the usage since the event before is told.
var spendEvents = []cli.Event{cli.Start, cli.Prompt, cli.TurnEnd, cli.Failed, cli.End}

// maxWakes is the number of wakes that a report of one prompt names at most.
const maxWakes = 20

// report returns what the hub is told of an event.
func (w *Waiter) report(h cli.Hook, in cli.Input) wake.Report {
	attended := w.attended()
	begins := h.Event == cli.Start || h.Event == cli.Prompt
	reason, until := failure(h, in)
	return wake.Report{
		Key: w.key, Stamp: process.Stamp(w.key.Process), Cwd: w.Dir, Version: w.launch.Version,
		Event: reported(h, in), Wakes: in.Wakes[:min(len(in.Wakes), maxWakes)], StopActive: in.StopActive,
		Quiet:    slices.Contains([]cli.Event{cli.Waiting, cli.Failed, cli.End}, h.Event),
		Attended: &attended, Release: w.CLI.Detached, NoQuota: in.NoQuota, Only: w.CLI.Leaves && begins,
		Reason: reason, Until: until,
	}
}

// failure returns why the agent cannot go on after a turn that failed, and until when, if it is
// known. Our plugins tell an error with the end of the turn.
func failure(h cli.Hook, in cli.Input) (reason hub.ContinuationReason, until hub.Time) {
	if h.Event != cli.Failed && h.Event != cli.TurnEnd {
		return "", hub.Time{}
	}
	ending := in.Ending
	isKnown := ending.Class == quota.FullInput || ending.Class == quota.Login
	if in.NoQuota && !isKnown {
		ending.Class = quota.OutOfQuota
	}
	return cannot(ending)
}

// cannot returns why an agent cannot go on after an error, and until when, if it is known. An agent
// that is limited for a moment, or whose vendor is busy, can.
func cannot(ending quota.Ending) (reason hub.ContinuationReason, until hub.Time) {
	switch ending.Class {
	case quota.FullInput:
		reason = hub.ContinueContext
	case quota.Login:
		reason = hub.ContinueLogin
	case quota.OutOfQuota:
		reason = hub.ContinueQuota
	default:
		return "", hub.Time{}
	}
	if !ending.Until.IsZero() {
		until = hub.At(ending.Until)
	}
	return reason, until
}

// compact has the hub keep a text about the open tasks of the agent, which the hook after the
// compaction shows. It fails without a word.
func (w *Waiter) compact(ctx context.Context) {
	if client, err := w.Client(); err == nil {
		rpc.Call(ctx, client, api.Compacting, api.None{}) // without it the context is only shorter
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
