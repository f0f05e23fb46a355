// Package demo holds the demos: programs that start hubs of their own and use
// them as every program can, through the server and the typed client. A demo
// checks each answer, so it fails where a hub does not keep its promises.
//
// It is tested by cmd/parley/demo_test.go, which runs each demo.
package demo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/parley-agents/parley/internal/operation/rpc"
	"github.com/parley-agents/parley/server"
)

// A Demo runs in an empty folder and prints its lines with tell. The actor of a
// line is empty if the line is about no agent.
type Demo func(ctx context.Context, dir, version string, tell func(actor, text string)) error

// A script calls hubs and tells the reader about it. After the first error its
// calls do nothing, so that a scene reads as a list of steps; the error ends the
// demo.
type script struct {
	dir, version string
	print        func(actor, text string)
	hubs         []*node
	err          error
}

// run performs the scenes in their order, then stops the hubs.
func (s *script) run(ctx context.Context, scenes ...func(context.Context)) error {
	for _, scene := range scenes {
		if s.err == nil {
			scene(ctx)
		}
	}
	for _, n := range s.hubs {
		if n.stop != nil {
			s.err = errors.Join(s.err, n.stop())
		}
	}
	return s.err
}

// try calls f unless the script has failed.
func (s *script) try(f func() error) {
	if s.err == nil {
		s.err = f()
	}
}

func (s *script) failf(format string, args ...any) {
	if s.err == nil {
		s.err = fmt.Errorf(format, args...)
	}
}

// tell prints one line about an actor; without an actor the line stands alone.
func (s *script) tell(actor, format string, args ...any) {
	if s.err == nil {
		s.print(actor, fmt.Sprintf(format, args...))
	}
}

// call calls an operation unless the script has failed.
func call[S, P, R any](ctx context.Context, s *script, c *rpc.Client, o rpc.Operation[S, P, R], params P) (got R) {
	if s.err == nil {
		got, s.err = rpc.Call(ctx, c, o, params)
	}
	return got
}

// A node is one hub of a demo.
type node struct {
	opts   server.Options
	url    string
	client *rpc.Client  // calls as the operator
	stop   func() error // nil while the hub is not running
}

// node starts a hub in a folder of the demo.
func (s *script) node(ctx context.Context, name string, opts server.Options) *node {
	opts.Home = filepath.Join(s.dir, name)
	opts.Addr = "127.0.0.1:0"
	opts.Version = s.version
	n := &node{opts: opts}
	s.hubs = append(s.hubs, n)
	s.open(ctx, n)
	return n
}

// open starts a hub. A hub that ran before gets the same address.
func (s *script) open(ctx context.Context, n *node) {
	if s.err != nil {
		return
	}
	running, err := server.New(ctx, n.opts)
	if err != nil {
		s.err = err
		return
	}
	n.url = running.URL()
	n.opts.Addr = strings.TrimPrefix(n.url, "http://")
	serving, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan error, 1)
	go func() { done <- running.Serve(serving) }()
	n.stop = func() error {
		cancel()
		n.stop = nil
		return <-done
	}
	key, err := os.ReadFile(filepath.Join(n.opts.Home, server.OperatorKeyFile))
	s.err = errors.Join(s.err, err)
	n.client = rpc.NewOperator(filepath.Join(n.opts.Home, server.SocketFile), n.url, strings.TrimSpace(string(key)), "demo")
}
