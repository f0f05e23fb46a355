package server

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/parley-agents/parley/internal/engine/sqlite"
	"github.com/parley-agents/parley/internal/ground/spans"
	"github.com/parley-agents/parley/internal/service/keys"
)

// openHome takes the lock of the home. SQLite takes it by itself.
// On PostgreSQL several hubs share a database, and each has a home of its own for
// its key files and caches.
func (s *Server) openHome(context.Context) error {
	lock, err := sqlite.LockHome(s.opts.Home)
	if err != nil {
		return fmt.Errorf("server: open %s: %w", s.opts.Home, err)
	}
	s.home = lock
	return nil
}

// openTracer reads the variables of OpenTelemetry. They are often meant for other
// programs, so that an error in them is no reason not to start.
func (s *Server) openTracer(context.Context) error {
	tracer, err := spans.FromEnv(s.opts.Version, s.opts.Traces, s.log)
	if err != nil {
		s.log.Warn("no spans are recorded", "err", err)
	}
	s.tracer = tracer
	return nil
}

// closeTracer sends the spans that were not sent yet.
func (s *Server) closeTracer() error {
	s.tracer.Close()
	return nil
}

// ensureOperator keeps the operator's secret in a file that only the owner of
// the home can read.
// The file is written only if the secret is new; the store has its hash.
func ensureOperator(ctx context.Context, k *keys.Service, path string) error {
	old, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	secret, err := k.EnsureOperator(ctx, strings.TrimSpace(string(old)))
	if err != nil || secret == strings.TrimSpace(string(old)) {
		return err
	}
	return os.WriteFile(path, []byte(secret+"\n"), 0o600)
}

// begin makes the operator's key if there is none, and records that the hub
// began and where it listens.
// The address is written last, so a program that finds it can call the hub.
func (s *Server) begin(ctx context.Context) (err error) {
	if err := ensureOperator(ctx, s.keys, filepath.Join(s.opts.Home, OperatorKeyFile)); err != nil {
		return fmt.Errorf("server: the operator's key: %w", err)
	}
	if err := s.journal.Recover(ctx); err != nil {
		return fmt.Errorf("server: %w", err)
	}
	if err := s.journal.Started(ctx, s.opts.Version); err != nil {
		return fmt.Errorf("server: %w", err)
	}
	if s.head, err = s.journal.Head(ctx); err != nil {
		return fmt.Errorf("server: %w", err)
	}
	if err := os.WriteFile(filepath.Join(s.opts.Home, URLFile), []byte(s.url+"\n"), 0o600); err != nil {
		return fmt.Errorf("server: publish the hub's address: %w", err)
	}
	return nil
}
