package server

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/parley-agents/parley/hub"
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

// checkHome returns the path of a home from the root, because parts of the hub start programs in
// other folders. It refuses a home that was used before and has no database now, and one whose
// database is another than the store asked for.
// A home with a key and without a database is refused because the disk may be the wrong
// one: a hub with an empty database would look as if its messages were gone.
func checkHome(given, store string) (home string, err error) {
	const op = "server.New"
	if given == "" {
		return "", hub.Errorf(hub.CodeInvalid, op, "a hub needs a home folder")
	}
	if home, err = filepath.Abs(given); err != nil {
		return "", hub.Errorf(hub.CodeInvalid, op, "find the home %s: %v", given, err)
	}
	_, keyErr := os.Stat(filepath.Join(home, OperatorKeyFile))
	_, dbErr := os.Stat(filepath.Join(home, "hub.db"))
	_, elsewhere := os.Stat(filepath.Join(home, StoreFile))
	switch {
	case store != "" && dbErr == nil:
		return "", hub.Errorf(hub.CodeConflict, op, "%s has its own database, hub.db, but --store names another", home).WithHint("use another --home, or omit --store")
	case store != "":
		return home, nil
	case elsewhere == nil:
		return "", hub.Errorf(hub.CodeConflict, op, "the hub in %s has its database on a PostgreSQL server", home).WithHint("set it with --store, or use another --home")
	}
	if keyErr == nil && errors.Is(dbErr, fs.ErrNotExist) {
		return "", hub.Errorf(hub.CodeDegraded, op, "%s was used by a hub, but its database hub.db is missing", home).
			WithHint("restore hub.db from a backup, or use another --home to start over")
	}
	return home, nil
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
