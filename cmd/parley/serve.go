package main

import (
	"fmt"
	"log/slog"
	"os"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/server"
)

func (a *app) serveCommand() *cobra.Command {
	var flags config
	var unsafe bool
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Start the hub",
		Long: `Start the hub and answer until it is stopped (Ctrl-C or SIGTERM).

What a flag does not say is taken from the environment, then from the
configuration file, then from the defaults.`,
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
			c.overlay(flags)
			log, err := c.logger(a.err)
			if err != nil {
				return err
			}
			opts, err := c.options(home, log)
			if err != nil {
				return err
			}
			opts.Limits.Unsafe = unsafe
			if unsafe {
				log.Warn("rate limits and the circuit breaker are off: --unsafe-limits is for measurements only")
			}
			tuneMemory()
			s, err := server.New(cmd.Context(), opts)
			if err != nil {
				return err
			}
			fmt.Fprintf(a.err, "listening on %s\n", s.URL())
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
	f.StringSliceVar(&flags.Features, "feature", nil, "switch on negotiation, disagreement or teamspaces")
	f.StringSliceVar(&flags.Channels, "channel", nil, "switch on a delivery channel: session, channel or wake")
	f.StringVar(&flags.Durability, "durability", "", "normal or full: full survives power loss at every send (default normal)")
	f.BoolVar(&flags.LenientFrom, "lenient-from", false, "ignore a claimed sender with a warning in place of refusing it")
	f.BoolVar(&flags.NoInboxFiles, "no-inbox-files", false, "do not render inboxes as Markdown files")
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

// options turns a configuration into what the server wants.
func (c config) options(home string, log *slog.Logger) (server.Options, error) {
	o := server.Options{
		Home: home, Addr: c.Addr, Version: version(), TLSCert: c.TLSCert, TLSKey: c.TLSKey, NoTLSBecause: c.NoTLSBecause,
		Hosts: c.Hosts, Log: log, Lenient: c.LenientFrom, NoInboxFiles: c.NoInboxFiles,
		Limits: server.Limits{
			DirectPerMinute: c.Limits.DirectPerMinute, BroadcastPerHour: c.Limits.BroadcastPerHour, Recipients: c.Limits.Recipients,
			ThreadHops: c.Limits.ThreadHops, NegotiationRound: c.Limits.NegotiationRounds, DisagreeRound: c.Limits.DisagreementRounds,
			Repeats: c.Limits.Repeats, SameType: c.Limits.SameType, TripsPerDay: c.Limits.TripsPerDay,
			RepeatWindow: c.Limits.RepeatWindow, SuspendFor: c.Limits.SuspendFor, CauseWindow: c.Limits.CauseWindow,
		},
	}
	switch c.Durability {
	case "", "normal":
	case "full":
		o.FullSync = true
	default:
		return o, hub.Errorf(hub.CodeInvalid, "parley", "durability: %q is not normal or full", c.Durability)
	}
	for _, f := range c.Features {
		o.Features = append(o.Features, hub.Feature(f))
	}
	for _, ch := range c.Channels {
		o.Channels = append(o.Channels, hub.Channel(ch))
	}
	return o, nil
}
