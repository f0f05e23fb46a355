package main

import (
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
	"github.com/parley-agents/parley/internal/errand"
	"github.com/parley-agents/parley/internal/surface/api"
	"github.com/parley-agents/parley/server"
)

// hubForRun returns the hub on which a run is recorded: the one that is named or
// runs in the home, else one that runs there until stop is called.
func (a *app) hubForRun(ctx context.Context, home string, c config) (_ *errand.Hub, stop func(), err error) {
	url := ""
	giveUp := time.Now().Add(startTime)
	for wait := soon; ; wait *= 2 {
		link, err := a.runningHub(ctx, home)
		if err != nil {
			return nil, nil, err
		}
		if link != nil {
			return link, inherit(ctx, home, c, link), nil
		}
		if url, stop, err = startHub(ctx, home, "127.0.0.1:0", c); err == nil {
			break
		}
		if hub.CodeOf(err) != hub.CodeConflict || ctx.Err() != nil || time.Now().After(giveUp) {
			return nil, nil, err
		}
		pause(ctx, wait) // somebody was faster, and his hub is not there yet
	}
	key, err := a.keyInHome(home)
	var link *errand.Hub
	if err == nil {
		link, err = bridged(home, url, key)
	}
	if err != nil {
		stop()
		return nil, nil, err
	}
	return link, stop, nil
}

const (
	soon      = 10 * time.Millisecond // until something is tried again
	startTime = 10 * time.Second      // that a hub may take until it answers
)

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// runningHub returns the hub that is named or runs in the home, nil if there is
// none.
func (a *app) runningHub(ctx context.Context, home string) (*errand.Hub, error) {
	_, err := os.Stat(filepath.Join(home, server.URLFile))
	named := strings.TrimSpace(os.Getenv("PARLEY_URL")) != ""
	if errors.Is(err, fs.ErrNotExist) && !named {
		return nil, nil
	}
	url, err := a.hubURL()
	if err != nil {
		return nil, err
	}
	probe := api.NewClient(url, "", "", nil)
	res, err := probe.Do(ctx, "GET", "/health", "", nil)
	if err != nil {
		if named || !errors.Is(err, api.ErrUnreachable) {
			return nil, err
		}
		return nil, nil // one that was killed left its address behind
	}
	res.Body.Close()
	key := a.key
	if onLoan(home, url) {
		key = func() (string, error) { return a.keyInHome(home) }
	}
	secret, err := key()
	if err != nil {
		return nil, err
	}
	return bridged(home, url, secret)
}

// loanFile is in the home while a run has a hub there, and holds its address.
const loanFile = "run.url"

// onLoan reports whether a hub in the home is there for the sake of a run.
func onLoan(home, url string) bool {
	loan, err := os.ReadFile(filepath.Join(home, loanFile))
	return err == nil && string(loan) == url
}

// bridged returns a hub with the program that gives its tools to agents that
// speak no HTTP.
func bridged(home, url, key string) (*errand.Hub, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	home, err = filepath.Abs(home)
	if err != nil {
		return nil, err
	}
	return &errand.Hub{
		Client: api.NewClient(url, key, os.Getenv("PARLEY_SESSION"), nil), URL: url,
		Bridge: []string{self, "mcp"}, BridgeEnv: []string{"PARLEY_HOME=" + home},
	}, nil
}

// keyInHome returns the key to call a hub with that runs for the sake of runs: the
// one that was given or, because whoever starts a hub operates it, the operator's.
func (a *app) keyInHome(home string) (string, error) {
	if a.keyFile != "" || os.Getenv("PARLEY_KEY") != "" {
		return a.key()
	}
	raw, err := os.ReadFile(filepath.Join(home, server.OperatorKeyFile))
	if err != nil {
		return "", hub.Errorf(hub.CodeUnauthenticated, "parley", "the operator's key cannot be read: %v", err)
	}
	return strings.TrimSpace(string(raw)), nil
}

// startHub starts a hub in the home, for this process and what it starts.
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
	loan := filepath.Join(home, loanFile)
	os.WriteFile(loan, []byte(s.URL()), 0o600) // if it fails, nobody takes over
	serving, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan error, 1)
	go func() { done <- s.Serve(serving) }()
	return s.URL(), func() {
		os.Remove(loan) // before another can write it
		cancel()
		<-done // what it could not finish is in the store
	}, nil
}

// inherit sees to it that a run keeps its hub. A hub that belongs to another run
// ends with it; then one is started in its place, under the same address. It lasts
// until stop is called.
func inherit(ctx context.Context, home string, c config, link *errand.Hub) (stop func()) {
	if !onLoan(home, link.URL) {
		return func() {} // somebody has started it to stay
	}
	link.Patience = startTime
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan func(), 1)
	go func() { ended <- succeed(ctx, home, c, link) }()
	return func() {
		cancel()
		(<-ended)()
	}
}

// succeed waits until the hub ends and starts another in its place. It returns
// what stops that one; nothing if ctx ended before.
func succeed(ctx context.Context, home string, c config, link *errand.Hub) (stop func()) {
	addr := strings.TrimPrefix(link.URL, "http://")
	for wait := soon; ; wait = min(2*wait, time.Second) {
		if res, err := link.Client.Do(ctx, http.MethodGet, "/events", "", nil); err == nil {
			io.Copy(io.Discard, res.Body) // until the hub ends
			res.Body.Close()
			if res.StatusCode == http.StatusOK {
				wait = soon
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
