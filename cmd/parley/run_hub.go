package main

import (
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/reach/fleet"
	"github.com/parley-agents/parley/internal/surface/api"
	"github.com/parley-agents/parley/internal/surface/rpc"
	"github.com/parley-agents/parley/server"
)

// A runHub is the hub that records runs. It implements run.Hub.
type runHub struct {
	*rpc.Client
	url, home string

	// patience is the time that the hub may be unreachable before a call fails:
	// another run may be taking it over.
	patience time.Duration
}

// call calls the hub until it answers or the patience is over.
func (h *runHub) call(ctx context.Context, fn func() error) error {
	giveUp := time.Now().Add(h.patience)
	for wait := firstWait; ; wait *= 2 {
		err := fn()
		if !errors.Is(err, rpc.ErrUnreachable) || !time.Now().Before(giveUp) || ctx.Err() != nil {
			return err
		}
		pause(ctx, wait)
	}
}

func (h *runHub) BeginRun(ctx context.Context, r hub.Run, timeout time.Duration) (hub.Run, string, error) {
	var begun api.RunKey
	err := h.call(ctx, func() (err error) {
		begun, err = rpc.Call(ctx, h.Client, api.BeginRun, api.RunParams{
			ID: r.ID, Agent: r.Agent, Task: r.Task, Dir: r.Dir, Handoff: r.Handoff, TimeoutS: int(timeout / time.Second),
		})

		return err
	})
	return begun.Run, begun.Key, err
}

func (h *runHub) MoveRun(ctx context.Context, id hub.RunID, next hub.RunState, session string) error {
	return h.call(ctx, func() error {
		_, err := rpc.Call(ctx, h.Client, api.MoveRun, api.RunMoveParams{ID: id, State: next, Session: session})
		return err
	})
}

func (h *runHub) EndRun(ctx context.Context, r hub.Run) (ended hub.Run, err error) {
	err = h.call(ctx, func() (err error) {
		ended, err = rpc.Call(ctx, h.Client, api.EndRun, api.RunEndParams{ID: r.ID, RunEnding: api.RunEnding{
			State: r.State, StopReason: r.StopReason, Reason: r.Reason, Report: r.Report, Verdict: r.Verdict,
			Contradictions: r.Contradictions, Evidence: r.Evidence,
		}})
		return err
	})
	return ended, err
}

// Tools returns the hub's tools, with this program as the bridge for agents that
// do not speak HTTP.
func (h *runHub) Tools(key string) *fleet.Tools {
	t := &fleet.Tools{Name: "parley", URL: h.url, Key: key, BridgeEnv: []string{"PARLEY_HOME=" + h.home}}
	if self, err := os.Executable(); err == nil {
		t.Bridge = []string{self, "mcp"}
	}
	return t
}

func newRunHub(home, url, key string) (*runHub, error) {
	home, err := filepath.Abs(home)
	return &runHub{Client: rpc.NewClient(url, key, os.Getenv("PARLEY_SESSION"), nil), url: url, home: home}, err
}

// hubForRun returns the hub that records a run: the hub that PARLEY_URL names or
// that runs in the home, else one that runs there until stop is called.
func (a *app) hubForRun(ctx context.Context, home string, c config) (_ *runHub, stop func(), err error) {
	url := ""
	giveUp := time.Now().Add(startTime)
	for wait := firstWait; ; wait *= 2 {
		h, err := a.runningHub(ctx, home)
		if err != nil {
			return nil, nil, err
		}
		if h != nil {
			return h, takeOver(ctx, home, c, h), nil
		}
		if url, stop, err = startHub(ctx, home, "127.0.0.1:0", c); err == nil {
			break
		}
		if hub.CodeOf(err) != hub.CodeConflict || ctx.Err() != nil || time.Now().After(giveUp) {
			return nil, nil, err
		}
		pause(ctx, wait) // another run starts a hub right now
	}
	key, err := a.keyInHome(home)
	var h *runHub
	if err == nil {
		h, err = newRunHub(home, url, key)
	}
	if err != nil {
		stop()
		return nil, nil, err
	}
	return h, stop, nil
}

const (
	firstWait = 10 * time.Millisecond // before a second attempt; doubled for each further one
	startTime = 10 * time.Second      // for a hub to start and to answer
)

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// runningHub returns the hub that PARLEY_URL names or that runs in the home, nil if
// there is none.
func (a *app) runningHub(ctx context.Context, home string) (*runHub, error) {
	_, err := os.Stat(filepath.Join(home, server.URLFile))
	named := strings.TrimSpace(os.Getenv("PARLEY_URL")) != ""
	if errors.Is(err, fs.ErrNotExist) && !named {
		return nil, nil
	}
	url, err := a.hubURL()
	if err != nil {
		return nil, err
	}
	res, err := rpc.NewClient(url, "", "", nil).Do(ctx, "GET", "/health", "", nil)
	if err != nil {
		if named || !errors.Is(err, rpc.ErrUnreachable) {
			return nil, err
		}
		return nil, nil // a hub that was killed leaves its address
	}
	res.Body.Close()
	key := a.key
	if startedForRuns(home, url) {
		key = func() (string, error) { return a.keyInHome(home) }
	}
	secret, err := key()
	if err != nil {
		return nil, err
	}
	return newRunHub(home, url, secret)
}

// runURLFile is in the home while a run keeps a hub there, and holds its address.
const runURLFile = "run.url"

// startedForRuns reports whether the hub in the home was started by a run.
func startedForRuns(home, url string) bool {
	started, err := os.ReadFile(filepath.Join(home, runURLFile))
	return err == nil && string(started) == url
}

// keyInHome returns the key for a hub that a run started: the given one or, because
// the user who starts a hub operates it, the operator's.
func (a *app) keyInHome(home string) (string, error) {
	if cmp.Or(a.keyFile, os.Getenv("PARLEY_KEY")) != "" {
		return a.key()
	}
	return operatorKey(home)
}

// startHub starts a hub in the home, in this process.
func startHub(ctx context.Context, home, addr string, c config) (url string, stop func(), err error) {
	opts, err := c.options(home, slog.New(slog.DiscardHandler))
	if err != nil {
		return "", nil, err
	}
	opts.Addr, opts.TLSCert, opts.TLSKey, opts.NoTLSBecause = addr, "", "", ""
	s, err := server.New(ctx, opts)
	if err != nil {
		return "", nil, err
	}
	started := filepath.Join(home, runURLFile)
	os.WriteFile(started, []byte(s.URL()), 0o600) // without it no other run takes over
	serving, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan error, 1)
	go func() { done <- s.Serve(serving) }()
	return s.URL(), func() {
		os.Remove(started) // before another run writes it
		cancel()
		<-done // unfinished work is in the store
	}, nil
}

// takeOver keeps a hub for a run. A hub that another run started ends with that
// run; then takeOver starts one in its place, under the same address, until stop is
// called.
func takeOver(ctx context.Context, home string, c config, h *runHub) (stop func()) {
	if !startedForRuns(home, h.url) {
		return func() {}
	}
	h.patience = startTime
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan func(), 1)
	go func() { ended <- replaceHub(ctx, home, c, h) }()
	return func() {
		cancel()
		(<-ended)()
	}
}

// replaceHub waits until the hub ends and starts another in its place. It returns
// a function that stops that one, and that does nothing if ctx ended before.
func replaceHub(ctx context.Context, home string, c config, h *runHub) (stop func()) {
	addr := strings.TrimPrefix(h.url, "http://")
	for wait := firstWait; ; wait = min(2*wait, time.Second) {
		if res, err := h.Do(ctx, http.MethodGet, "/events", "", nil); err == nil {
			io.Copy(io.Discard, res.Body) // until the hub ends
			res.Body.Close()
			if res.StatusCode == http.StatusOK {
				wait = firstWait
			}
		}
		if ctx.Err() != nil {
			return func() {}
		}
		if _, stop, err := startHub(ctx, home, addr, c); err == nil {
			return stop
		}
		pause(ctx, wait) // it is still ending, or another run has started one
	}
}
