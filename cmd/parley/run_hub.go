package main

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/errand"
	"github.com/parley-agents/parley/internal/surface/api"
	"github.com/parley-agents/parley/server"
)

// hubForRun returns the hub on which a run is recorded: the one that is named or
// runs in the home, else one that runs there until stop is called.
func (a *app) hubForRun(ctx context.Context, home string, c config) (_ *errand.Hub, stop func(), err error) {
	link, err := a.runningHub(ctx, home)
	if err != nil || link != nil {
		return link, func() {}, err
	}
	url, stop, err := startHub(ctx, home, c)
	if hub.CodeOf(err) == hub.CodeConflict { // somebody was faster
		if link, again := a.runningHub(ctx, home); again == nil && link != nil {
			return link, func() {}, nil
		}
	}
	if err != nil {
		return nil, nil, err
	}
	key, err := a.keyInHome(home)
	if err == nil {
		link, err = bridged(home, url, key)
	}
	if err != nil {
		stop()
		return nil, nil, err
	}
	return link, stop, nil
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
	key, err := a.key()
	if err != nil {
		return nil, err
	}
	return bridged(home, url, key)
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

// keyInHome returns the key to call a hub with that this process has started: the
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
func startHub(ctx context.Context, home string, c config) (url string, stop func(), err error) {
	opts, err := c.options(home, slog.New(slog.DiscardHandler))
	if err != nil {
		return "", nil, err
	}
	opts.Addr, opts.TLSCert, opts.TLSKey, opts.NoTLSBecause = "127.0.0.1:0", "", "", ""
	s, err := server.New(ctx, opts)
	if err != nil {
		return "", nil, err
	}
	serving, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan error, 1)
	go func() { done <- s.Serve(serving) }()
	return s.URL(), func() {
		cancel()
		<-done // what it could not finish is in the store
	}, nil
}
