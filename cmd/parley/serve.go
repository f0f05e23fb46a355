package main

import (
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/coord"
	"github.com/parley-agents/parley/server"
)

// headLine begins the line that serve prints when the hub answers.
const headLine = "journal head "

func (a *app) serveCommand() *cobra.Command {
	var flags config
	var lenient, noFiles, requireProof, strictUpdate, unsafe, forRuns bool
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Start the hub",
		Long: `Start the hub and answer until it is stopped (Ctrl-C or SIGTERM).

A setting comes from its flag, else from the environment, else from the
configuration file, else from the defaults. The environment has each flag as
PARLEY_ADDR, PARLEY_LOG_LEVEL and so on; the file is YAML, with the names of
the flags written with underscores, and it alone can tighten limits.`,
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
			if cmd.Flags().Changed("lenient-from") {
				flags.LenientFrom = &lenient
			}
			if cmd.Flags().Changed("no-inbox-files") {
				flags.NoInboxFiles = &noFiles
			}
			if cmd.Flags().Changed("require-proof") {
				flags.RequireProof = &requireProof
			}
			if cmd.Flags().Changed("strict-update") {
				flags.StrictUpdate = &strictUpdate
			}
			c.overlay(flags)
			var out io.Writer = a.err
			if c.LogFile != "" {
				l, err := openLog(c.LogFile)
				if err != nil {
					return err
				}
				debug.SetCrashOutput(l.file, debug.CrashOptions{}) // fails where the system cannot copy a file
				out = l
			}
			log, err := c.logger(out)
			if err != nil {
				return err
			}
			opts, err := c.options(home, log)
			if err != nil {
				return err
			}
			opts.Limits.Unsafe, opts.Traces = unsafe, a.err
			tuneMemory()
			s, err := server.New(cmd.Context(), opts)
			if err != nil {
				return err
			}
			started := filepath.Join(home, runURLFile)
			os.Remove(started) // of a hub before
			if forRuns {
				if err := os.WriteFile(started, []byte(s.URL()), 0o600); err != nil {
					s.Close()
					return err
				}
			}
			if unsafe {
				log.Warn("rate limits and the circuit breaker are off: --unsafe-limits is for measurements only")
			}
			fmt.Fprintf(a.err, "listening on %s\n", s.URL())
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
					"In the folder of a project, let the hub check the work of agents there:\n  %[1]s root add .\nCtrl-C here, or %[1]s stop, stops the hub.\n", typed)
			}
			return s.Serve(cmd.Context())
		},
	}
	f := cmd.Flags()
	f.StringVar(&flags.Addr, "addr", "", "address to listen on (default "+server.DefaultAddr+"; port 0 picks a free one)")
	f.StringVar(&flags.TLSCert, "tls-cert", "", "certificate file")
	f.StringVar(&flags.TLSKey, "tls-key", "", "file with the certificate's key")
	f.StringVar(&flags.NoTLSBecause, "no-tls-because", "", "why this hub may listen beyond loopback without TLS")
	f.StringVar(&flags.LogFormat, "log-format", "", "text or json (default text)")
	f.StringVar(&flags.LogLevel, "log-level", "", "debug, info, warn or error (default warn)")
	f.StringVar(&flags.LogFile, "log-file", "", "file for the log, at most 4 MiB and as much of the log before (default stderr)")
	f.StringVar(&flags.Durability, "durability", "", "normal or full: full survives power loss at every send (default normal)")
	f.StringVar(&flags.Store, "store", "", "address of a PostgreSQL database that hubs share, postgres://USER@HOST/NAME (default SQLite in the home)")
	f.StringVar(&flags.StorePasswordFile, "store-password-file", "", "file with the password of the database (default the variable PARLEY_STORE_PASSWORD)")
	f.StringVar(&flags.StoreNoTLSBecause, "store-no-tls-because", "", "why a database beyond loopback may be used without verified TLS")
	f.StringVar(&flags.Machine, "machine", "", "name of the machine whose folders this hub can read (default the name of the host)")
	f.StringArrayVar(&flags.Roots, "root", nil, "folder that becomes a root, as with parley root add (repeatable)")
	f.StringVar(&flags.SLA, "sla", "", "how long an accepted task may take before the coordinators are told (default 24h)")
	f.StringVar(&flags.ResponseTime, "response-time", "", "how long an offer or a position waits for an answer (default 24h, which is the most)")
	f.StringVar(&flags.Teamspaces, "teamspaces", "", "folder with the folders of teams (default _shared/teamspaces in the home, or in the workspace of $OPENCLAW_STATE_DIR)")
	f.StringVar(&flags.MergeSLA, "merge-sla", "", "how long two versions of a team's artifact wait to be merged before the coordinators are told (default 4h, which is the most)")
	f.Var((*hub.Count)(&flags.Limits.NegotiationRounds), "max-counters", "counters of a pair before an offer is escalated (default 3, which is the most)")
	f.StringSliceVar(&flags.Without, "without", nil, "parts of the protocol that are off: negotiation, disagreement, teamspaces")
	f.StringVar(&flags.Repo, "repo", "", "repository that the hub speaks for among other hubs")
	f.StringVar(&flags.Role, "role", "", "role of the repository: backend, frontend, mobile, shared or infra")
	f.StringVar(&flags.Language, "language", "", "language of the repository")
	f.StringVar(&flags.AID, "aid", "", "identity of the hub among other hubs: aid://domain/name@version (default from the machine's name)")
	f.StringVar(&flags.URL, "url", "", "where other hubs reach this one (default where it listens)")
	f.StringVar(&flags.Auth, "auth", "", "enforce, or open: callers need no key for coordination, on loopback only (default enforce)")
	f.StringSliceVar(&flags.PeerAllow, "peer-allow", nil, "networks in which peers may be though they are not public, as in 127.0.0.0/8,10.0.0.0/8")
	f.StringVar(&flags.Exchange, "exchange", "", "directory of agents; without one none is asked")
	f.BoolVar(&lenient, "lenient-from", false, "ignore a claimed sender with a warning in place of refusing it")
	f.BoolVar(&noFiles, "no-inbox-files", false, "do not render inboxes as Markdown files")
	f.BoolVar(&requireProof, "require-proof", false, "refuse handoffs and completions that the hub cannot check")
	f.BoolVar(&strictUpdate, "strict-update", false, "refuse the update of a contract for which no change was requested")
	f.BoolVar(&forRuns, "for-runs", false, "the hub was started by a run")
	f.MarkHidden("for-runs")
	f.BoolVar(&unsafe, "unsafe-limits", false, "lift rate limits, for measurements on loopback only")
	return cmd
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

func is(b *bool) bool { return b != nil && *b }

// ownProgram returns the path of this program, "" if the system does not tell.
func ownProgram() string {
	self, _ := os.Executable()
	return self
}

// options turns a configuration into the server's options.
func (c config) options(home string, log *slog.Logger) (server.Options, error) {
	o := server.Options{
		Home: home, Addr: c.Addr, Version: version(), TLSCert: c.TLSCert, TLSKey: c.TLSKey, NoTLSBecause: c.NoTLSBecause,
		Hosts: c.Hosts, Log: log, Lenient: is(c.LenientFrom), NoInboxFiles: is(c.NoInboxFiles), RequireProof: is(c.RequireProof),
		Bridge: ownProgram(), Kept: int(c.Kept),
		Store: c.Store, StorePasswordFile: c.StorePasswordFile, StoreNoTLSBecause: c.StoreNoTLSBecause, Machine: c.Machine,
		Wakes: server.WakeLimits{Gap: time.Duration(c.Wakes.Gap), PerHour: int(c.Wakes.PerHour), PairPerHour: int(c.Wakes.PairPerHour)},
		Limits: server.Limits{
			DirectPerMinute: int(c.Limits.DirectPerMinute), BroadcastPerHour: int(c.Limits.BroadcastPerHour), Recipients: int(c.Limits.Recipients),
			ThreadHops: int(c.Limits.ThreadHops), Repeats: int(c.Limits.Repeats), SameType: int(c.Limits.SameType), TripsPerDay: int(c.Limits.TripsPerDay),
			RepeatWindow: time.Duration(c.Limits.RepeatWindow), SuspendFor: time.Duration(c.Limits.SuspendFor), CauseWindow: time.Duration(c.Limits.CauseWindow),
		},
	}
	gateway, err := c.Gateway.options()
	if err != nil {
		return o, err
	}
	o.Gateway = gateway
	for _, n := range c.Notify {
		t, err := n.target()
		if err != nil {
			return o, err
		}
		o.Notify = append(o.Notify, t)
	}
	o.MaxCounters = int(c.Limits.NegotiationRounds)
	o.MaxChallenges = int(c.Limits.DisagreementRounds)
	for _, name := range c.Without {
		o.Without = append(o.Without, hub.Feature(name))
	}
	if o.Teamspaces = c.Teamspaces; o.Teamspaces == "" && os.Getenv("OPENCLAW_STATE_DIR") != "" {
		o.Teamspaces = filepath.Join(os.Getenv("OPENCLAW_STATE_DIR"), "workspace", "_shared", "teamspaces")
	}
	if o.Teamspaces != "" {
		if o.Teamspaces, err = filepath.Abs(o.Teamspaces); err != nil {
			return o, hub.Errorf(hub.CodeInvalid, "parley", "teamspaces: %v", err)
		}
	}
	for _, span := range []struct {
		name, text string
		into       *time.Duration
	}{{"response-time", c.ResponseTime, &o.ResponseTime}, {"merge-sla", c.MergeSLA, &o.MergeSLA}, {"sla", c.SLA, &o.SLA}} {
		if span.text == "" {
			continue
		}
		d, err := time.ParseDuration(span.text)
		if err != nil || d <= 0 {
			return o, hub.Errorf(hub.CodeInvalid, "parley", "%s: %q is not a span of time", span.name, span.text).WithHint("for example 2h or 90m")
		}
		*span.into = d
	}
	switch c.Durability {
	case "", "normal":
	case "full":
		o.FullSync = true
	default:
		return o, hub.Errorf(hub.CodeInvalid, "parley", "durability: %q is not normal or full", c.Durability)
	}
	for _, r := range c.Roots {
		dir, err := filepath.Abs(r)
		if err != nil {
			return o, hub.Errorf(hub.CodeInvalid, "parley", "root: %v", err)
		}
		o.Roots = append(o.Roots, dir)
	}
	o.Coordination = server.Coordination{
		AID: coord.AID(c.AID), Repo: c.Repo, Role: c.Role, Language: c.Language, URL: c.URL, Exchange: c.Exchange, StrictUpdate: is(c.StrictUpdate),
	}
	if c.Role != "" {
		if err := hub.CheckRepoRole("parley", c.Role); err != nil {
			return o, err
		}
	}
	switch c.Auth {
	case "", "enforce":
	case "open":
		o.Coordination.Open = true
	default:
		return o, hub.Errorf(hub.CodeInvalid, "parley", "auth: %q is not enforce or open", c.Auth)
	}
	for _, n := range c.PeerAllow {
		p, err := netip.ParsePrefix(n)
		if err != nil {
			return o, hub.Errorf(hub.CodeInvalid, "parley", "peer-allow: %q is not a network", n).WithHint("for example 127.0.0.0/8 or 10.0.0.0/8")
		}
		o.Coordination.Allow = append(o.Coordination.Allow, p)
	}
	return o, nil
}
