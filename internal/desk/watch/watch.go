package watch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/ground/text/plaintext"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/operation/rpc"
	"github.com/parley-agents/parley/internal/service/attention"
)

const (
	feedGap    = 200 * time.Millisecond // between two reads of the feed
	stateGap   = time.Second            // between two reads of the rest
	refresh    = 10 * time.Second       // after which the rest is read without an event: some states follow from time alone
	retry      = 500 * time.Millisecond // between two attempts to reach the hub
	feedBegin  = 100                    // messages at the start
	taskLines  = 30                     // handoffs that are read
	answerTime = 30 * time.Second
)

// away is the problem of a hub that cannot be reached.
const away = "the hub is unreachable; trying again"

// Options are the parts that a watch works with.
type Options struct {
	Connect Connection
	URL     string // of the hub, for people
	In      io.Reader
	Out     io.Writer
	When    func(hub.Time) string // writes times in messages as the person reads them; nil for UTC
}

// Run shows the hub in the terminal until the person quits or ctx ends.
func Run(ctx context.Context, o Options) error {
	client, err := o.Connect()
	if err != nil {
		return err
	}
	if _, err := rpc.Call(ctx, client, api.Now, api.None{}); err != nil { // refused, or not there: said before the screen is taken
		return err
	}

	// An answer runs beside the screen, and makes the reader read again.
	ctx, cancel := context.WithCancel(ctx)
	r := newReader(o.Connect)
	s := screen{url: o.URL, when: o.When, answer: func(w api.Waiting, i attention.Item, yes bool) tea.Cmd {
		return func() tea.Msg {
			ctx, cancel := context.WithTimeout(ctx, answerTime)
			defer cancel()
			c, err := o.Connect()
			text := ""
			if err == nil {
				text, err = answer(ctx, c, w, i, yes)
			}
			r.hint()
			if err != nil {
				d := rpc.Describe(err, rpc.Commands)
				return outcome{text: d.Message + "; " + d.Hint, failed: true}
			}
			return outcome{text: text}
		}
	}}

	p := tea.NewProgram(s, tea.WithContext(ctx), tea.WithInput(o.In), tea.WithOutput(o.Out), tea.WithoutSignalHandler())
	done := make(chan error, 1)
	go func() {
		err := r.run(ctx, func(n reading) { p.Send(n) })
		if err != nil {
			p.Quit()
		}
		done <- err
	}()

	// The reader ends with the screen, and the screen ends with a reader that failed.
	_, err = p.Run()
	cancel()
	if failed := <-done; failed != nil && !errors.Is(failed, context.Canceled) { // a person may quit before the first read
		return failed
	}
	if errors.Is(err, tea.ErrProgramKilled) || errors.Is(err, tea.ErrInterrupted) {
		return nil // Ctrl-C is how this ends
	}
	return err
}

// A reader reads the hub after its events and sends readings. A burst of events is
// one read.
type reader struct {
	connect Connection
	feed    Feed
	dirty   chan struct{} // receives after an event
}

func newReader(connect Connection) *reader {
	return &reader{connect: connect, feed: Feed{Most: maxRows, Filter: api.QueryParams{Limit: feedBegin}}, dirty: make(chan struct{}, 1)}
}

// hint makes the reader read again.
func (r *reader) hint() {
	select {
	case r.dirty <- struct{}{}:
	default: // it reads anyway
	}
}

// run reads until ctx ends or the hub refuses.
func (r *reader) run(ctx context.Context, send func(reading)) error {
	client, err := r.connect()
	if err != nil {
		return err
	}
	seq, err := Head(ctx, client)
	if err != nil {
		return err
	}

	// Each event of the journal makes the loop below read again.
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	followed := make(chan error, 1)
	go func() {
		err := Follow(ctx, r.connect, seq, func() { wait(ctx, retry) }, func(*rpc.Client, hub.Entry) error {
			r.hint()
			return nil
		})
		cancel(err)
		followed <- err
	}()

	// The messages are read after each event, the state of the hub at most once in stateGap.
	var stateAt time.Time
	for stale := true; ctx.Err() == nil; {
		n, err := r.read(ctx, client, stale && time.Since(stateAt) >= stateGap)
		switch {
		case ctx.Err() != nil:
		case err == nil:
			if n.now != nil {
				stateAt, stale = time.Now(), false
			}
			send(n)
		case errors.Is(err, rpc.ErrUnreachable):
			send(reading{problem: away})
			if again, err := r.connect(); err == nil { // it may have come back under another address
				client = again
			}
		default:
			cancel(err)
		}

		// A stale state is read again as soon as stateGap allows, else after an event or refresh.
		wait(ctx, feedGap)
		rest := refresh
		if stale {
			rest = max(feedGap, stateGap-time.Since(stateAt))
		}
		timer := time.NewTimer(rest)
		select {
		case <-r.dirty:
			stale = true
		case <-timer.C:
			stale = true
		case <-ctx.Done():
		}
		timer.Stop()
	}

	// The cause is the error that ended the loop, or Canceled if the caller ended it.
	<-followed
	if err := context.Cause(ctx); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// read reads the new messages and, if whole is set, the state of the hub.
func (r *reader) read(ctx context.Context, client *rpc.Client, whole bool) (n reading, err error) {
	n.messages, err = r.feed.Next(ctx, client)
	n.short = r.feed.Short
	if err != nil || !whole {
		return n, err
	}
	got, err := rpc.Call(ctx, client, api.Now, api.None{})
	if err != nil {
		return n, err
	}
	list, err := rpc.Call(ctx, client, api.Handoff, api.HandoffParams{Action: "list", Limit: taskLines})
	if err != nil {
		return n, err
	}
	n.now, n.handoffs = &got, list.Listing.Handoffs
	return n, nil
}

func wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// Plain prints messages, and what begins and ends to wait for a person, a line each,
// until ctx ends.
func Plain(ctx context.Context, o Options) error {
	waits := map[string]attention.Item{}
	return newReader(o.Connect).run(ctx, func(n reading) {
		for _, e := range n.messages {
			fmt.Fprintf(o.Out, "%s %s  %s\n", e.CreatedAt.Local().Format("15:04"), Names(e), Text(e, n.short))
		}
		if n.now == nil {
			return
		}

		// Each item is printed when it begins to wait, and again when it no longer waits.
		open := map[string]bool{}
		for _, i := range n.now.Waiting.Items() {
			open[i.Key()] = true
			if _, known := waits[i.Key()]; known {
				continue
			}
			waits[i.Key()] = i
			text := ""
			if i.Title != "" {
				text = ": " + plaintext.Line(i.Title)
			}
			fmt.Fprintf(o.Out, "waits: %s: %s%s (%s)\n", i.Kind, plaintext.Line(i.Fact), text, plaintext.Line(i.Command))
		}

		for key, i := range waits {
			if !open[key] {
				fmt.Fprintf(o.Out, "no longer waits: %s: %s\n", i.Kind, plaintext.Line(i.Fact))
				delete(waits, key)
			}
		}
	})
}
