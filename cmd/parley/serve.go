package main

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"

	"github.com/spf13/cobra"

	"github.com/parley-agents/parley/internal/ground/process/confine"
	"github.com/parley-agents/parley/server"
)

// headLine begins the line that serve prints when the hub answers.
const headLine = "journal head "

func (a *app) serveCommand() *cobra.Command {
	var overlay func(config)
	var forRuns bool
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Start the hub",
		Long: `Start the hub and serve requests until it is stopped (Ctrl-C or SIGTERM).

A setting comes from its flag, the environment, the configuration file or the defaults,
in this order. In the environment each flag is a variable, such as PARLEY_ADDR or
PARLEY_LOG_LEVEL. The file is YAML, with the names of the flags written with
underscores; limits can be tightened only there.`,
		Example: `  parley serve
  parley serve --addr 127.0.0.1:0 --home /tmp/try
  parley serve --store 'postgres://parley@db.example.com/parley?sslmode=verify-full' --store-password-file /run/secrets/parley
  parley serve --addr 0.0.0.0:7420 --tls-cert hub.pem --tls-key hub.key
  parley serve --repo backend-api --role backend --language go --aid aid://example.com/backend@1.0.0`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			home, err := a.homeDir()
			if err != nil {
				return err
			}
			c, err := a.loadConfig(home)
			if err != nil {
				return err
			}

			// Flags win over the environment and the file.
			overlay(c)
			settings, err := c.settings()
			if err != nil {
				return err
			}
			return a.serve(cmd.Context(), home, settings, forRuns)
		},
	}

	overlay = addSettingFlags(cmd)
	cmd.Flags().BoolVar(&forRuns, "for-runs", false, "the hub was started by a run")
	cmd.Flags().MarkHidden("for-runs")
	return cmd
}

// serve starts a hub and returns when it has stopped. forRuns says that a run started it.
func (a *app) serve(ctx context.Context, home string, settings hubSettings, forRuns bool) error {
	log, err := a.hubLog(settings)
	if err != nil {
		return err
	}

	opts := settings.Options
	opts.Home = home
	opts.Version = version()
	opts.Log = log
	opts.Bridge = ownProgram()
	opts.Traces = a.err
	tuneMemory()
	opts.Checks.Program = confine.Self()
	s, err := server.New(ctx, opts)
	if err != nil {
		return err
	}

	// The file lets later runs know that a run started this hub.
	started := filepath.Join(home, runURLFile)
	os.Remove(started) // of a hub before
	if forRuns {
		if err := os.WriteFile(started, []byte(s.URL()), 0o600); err != nil {
			s.Close()
			return err
		}
	}

	if opts.Limits.Unsafe {
		log.Warn("rate limits and the circuit breaker are off: --unsafe-limits is for measurements only")
	}
	a.printStart(s, home)
	return s.Serve(ctx)
}

// hubLog opens the log of the hub.
func (a *app) hubLog(settings hubSettings) (*slog.Logger, error) {
	if settings.LogFile == "" {
		return settings.logger(a.err)
	}
	l, err := openLog(settings.LogFile)
	if err != nil {
		return nil, err
	}
	debug.SetCrashOutput(l.file, debug.CrashOptions{}) // fails where the system cannot copy a file
	return settings.logger(l)
}

// printStart prints where a hub listens, the head of its journal and, on a terminal, what
// to do next.
func (a *app) printStart(s *server.Server, home string) {
	fmt.Fprintf(a.err, "listening on %s\n", s.URL())
	if url := s.InURL(); url != "" {
		fmt.Fprintf(a.err, "webhooks on %s%s\n", url, "/in/")
	}
	seq, hash := s.Head()
	fmt.Fprintf(a.err, "%s%d %s\n", headLine, seq, hash)
	off := s.FailedChannels()
	for _, name := range slices.Sorted(maps.Keys(off)) {
		fmt.Fprintf(a.err, "channel %s is off until a check succeeds: %s\n", name, off[name])
	}
	if isTerminal(a.err) {
		typed := a.typed(home)
		fmt.Fprintf(a.err, "\nNow, in a second terminal, give an installed agent CLI the hub's tools:\n  %s connect claude --agent planner\n"+
			"or add an agent by hand:\n  %[1]s agent add builder\n"+
			"In a project folder, let the hub check the agents' work there:\n  %[1]s root add .\nPress Ctrl-C here, or run %[1]s stop, to stop the hub.\n", typed)
	}
}

// tuneMemory trades memory for fewer collections: the MCP library leaves a
// large buffer behind with every message. Both stay open to the environment.
func tuneMemory() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400)
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(1 << 30)
	}
}

// ownProgram returns the path of this program, "" if the system does not tell.
func ownProgram() string {
	self, _ := os.Executable()
	return self
}
