package launch

import (
	"bytes"
	"context"
	"io"
	"os"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/desk/cli"
	"github.com/parley-agents/parley/internal/desk/quota"
	"github.com/parley-agents/parley/internal/ground/process"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/operation/rpc"
	"github.com/parley-agents/parley/internal/reach/wake"
)

// transcriptTail is the part of a transcript, in bytes, that a waiter reads when it starts: the
// turn that started it may be over.
const transcriptTail = 256 << 10

// follow reads the transcript, and tells the hub that a turn is over when the last news of it
// is that it broke off.
func (w *Waiter) follow(ctx context.Context) {
	tick := time.NewTicker(parentCheck)
	defer tick.Stop()
	for at := sizeOf(w.Transcript) - transcriptTail; ; {
		lines, next := linesAfter(w.Transcript, max(at, 0))
		at = next
		news, ending := w.CLI.Turn(lines)
		if news == cli.TurnBroke || news == cli.TurnSpent {
			w.tellBroken(ctx, news, ending)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// tellBroken tells the hub of a turn that ended without a hook, and of its usage.
func (w *Waiter) tellBroken(ctx context.Context, news cli.Turn, ending quota.Ending) {
	w.spend(ctx, cli.Failed, cli.Input{Session: w.Session, Transcript: w.Transcript})
	client, err := w.Client()
	if err != nil {
		return
	}
	reason, until := cannot(ending)
	switch ending.Class { // it tried again until it gave up
	case quota.Rate:
		reason = hub.ContinueRate
	case quota.Overload:
		reason = hub.ContinueOverload
	}
	if !ending.Until.IsZero() {
		until = hub.At(ending.Until)
	}
	report := wake.Report{
		Key: w.key, Stamp: process.Stamp(w.key.Process), Event: wake.EventTurnEnd, Quiet: true, NoQuota: news == cli.TurnSpent,
		Reason: reason, Until: until,
	}
	rpc.Call(ctx, client, api.ReportWake, report) // else the hub finds out by the silence
}

// sizeOf returns the size of a file; 0 if it is not there.
func sizeOf(path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return info.Size()
}

// linesAfter returns the whole lines of a file after a place, and the place behind them. The
// first may lack its beginning.
func linesAfter(path string, at int64) (lines [][]byte, next int64) {
	f, err := os.Open(path)
	if err != nil {
		return nil, at // not written yet
	}
	defer f.Close()
	raw, err := io.ReadAll(io.NewSectionReader(f, at, maxInput))
	if err != nil {
		return nil, at
	}
	raw = raw[:bytes.LastIndexByte(raw, '\n')+1]
	return bytes.Split(raw, []byte("\n")), at + int64(len(raw))
}
