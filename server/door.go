package server

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/parley-agents/parley/hub/coord"
	"github.com/parley-agents/parley/internal/ground/process"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/operation/coordination"
	"github.com/parley-agents/parley/internal/operation/rpc"
	"github.com/parley-agents/parley/internal/reach/peer"
	"github.com/parley-agents/parley/internal/service/attention"
	"github.com/parley-agents/parley/internal/service/mailroom"
	"github.com/parley-agents/parley/internal/service/signin"
	"github.com/parley-agents/parley/internal/surface/mcptools"
	"github.com/parley-agents/parley/internal/surface/routes"
	"github.com/parley-agents/parley/internal/surface/web"
	"github.com/parley-agents/parley/internal/work/fleet"
)

// openSignIn builds the service of browsers that are signed in.
func (s *Server) openSignIn(ctx context.Context) (err error) {
	s.signIn, err = signin.New(ctx, s.store, signin.Options{
		Clock: s.clock, Bus: s.hints, Listen: s.listener.Addr(), Secure: s.cert != nil, Operator: s.keys.ByHash,
	})
	if err != nil {
		return fmt.Errorf("server: %w", err)
	}
	return nil
}

// openOperations binds the two tables of operations to the services.
// A table is a list of operations without services; Bind gives them theirs.
func (s *Server) openOperations(context.Context) error {
	s.services = &api.Services{
		Store:     s.store,
		Clock:     s.clock,
		Without:   s.opts.Without,
		Mail:      s.mail,
		Talks:     s.talks,
		Teams:     s.teams,
		Handoffs:  s.handoffs,
		Runs:      s.runs,
		RunFiles:  s.runFiles,
		Repeater:  s.repeater,
		Keeper:    s.keeper,
		Roots:     s.roots,
		Files:     s.files,
		Checks:    s.checks,
		Landings:  s.landings,
		Usage:     s.usage,
		Onward:    s.continuations,
		Kept:      s.kept,
		Events:    s.outside,
		InURL:     s.inURL,
		Schedules: s.schedules,
		Keys:      s.keys,
		SignIn:    s.signIn,
		Journal:   s.journal,
		Records:   s.records,
		Proofs:    s.proofs,
		Metrics:   s.metrics,
		Wakes:     s.wakes,
		Gateway:   s.gateway,
		Notify:    s.notifier,
		Projects:  s.contracts,
		Attention: attention.New(s.store, mailroom.Headline),
		Around:    around{syncer: s.syncer, store: s.store, home: s.opts.Home},
		Stop:      s.askStop,
	}

	// The operations between hubs have services of their own.
	between := &coordination.Services{
		Contracts: s.contracts,
		Keys:      s.keys,
		Peers:     s.peers,
		Callers:   s.callers,
		Network: network{
			Syncer: s.syncer, client: s.client, directory: s.opts.Coordination.Exchange, self: s.self, signing: s.vault.SigningKey(),
		},
		Runner: s.checks,
		Bus:    s.hints,
		Self:   coord.AID(s.self.AID),
		Repo:   s.self.Repo,
		Done:   s.stopping,
	}

	s.meters = routes.NewMeters(s.store, s.metrics)
	s.dispatcher = rpc.NewDispatcher(
		rpc.Recorder{Refused: s.journal.Refused, Used: s.journal.Used, Log: s.log, Observe: s.meters.Observe, Capabilities: s.mail.Capabilities, Called: s.files.Active},
		api.Operations.Bind(s.services),
		coordination.Operations.Bind(between),
	)
	return nil
}

// openSite builds the hub's page.
func (s *Server) openSite(context.Context) error {
	s.site = web.NewHandler(web.Options{
		Operations: s.dispatcher, SignIn: s.signIn, Head: s.journal.Head, Bus: s.hints, Log: s.log, Stopping: s.stopping,
		Version: s.opts.Version, Limits: s.mail.Limits(), Teams: s.teams != nil,
		Figures: func() web.Figures {
			f := s.meters.Figures()
			f.Disk, f.Free = diskUse(s.opts.Home)
			return f
		},
	})
	return nil
}

// openDoor puts the door and the tools in front of the operations.
// The handlers are nested so that the cheapest checks come first, and so that every
// answer counts against the bound on unread answers, also a refusal.
func (s *Server) openDoor(context.Context) error {
	s.tools = mcptools.NewHandler(s.opts.Version, s.dispatcher, s.log, s.stopping)
	s.tools.Read = s.countText
	door := rpc.NewDoor(s.dispatcher, s.callers, s.opts.Coordination.Open)
	s.unread.most = maxUnread
	s.http = &http.Server{
		Handler:           s.tracer.Handler(s.unread.bound(s.routes(door))),
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       30 * time.Second, // for bodies that no handler reads, too; an upload gets longer
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    32 << 10,
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
		ConnContext:       withPeer,
	}
	return nil
}

// routes returns the handler of every path of the hub.
func (s *Server) routes(door *rpc.Door) http.Handler {
	host, _, _ := net.SplitHostPort(s.opts.Addr)
	return routes.New(routes.Options{
		Store: s.store, Self: s.self, Vault: s.vault, Tools: s.tools, Journal: s.journal, Peers: s.peers, Syncer: func() *peer.Syncer { return s.syncer },
		Mail: s.mail, Landings: s.landings, Proofs: s.proofs, Login: s.login, Gateway: s.gateway, Bus: s.hints, Log: s.log,
		Addr: s.opts.Addr, Local: isLoopback(host), Hosts: s.opts.Hosts, Cert: s.cert, Version: s.opts.Version, Without: s.opts.Without, Began: s.began, Stopping: s.stopping,
	}, door, s.meters, s.site)
}

// FailedChannels returns the channels that are off because their last check or attempt failed, with the reason
// of each.
func (s *Server) FailedChannels() map[string]string { return routes.FailedChannels(s.mail) }

// withPeer notes the process at the other end of the socket in the home.
func withPeer(ctx context.Context, conn net.Conn) context.Context {
	if conn.LocalAddr().Network() != "unix" {
		return ctx
	}
	if bounded, ok := conn.(*deadlineConn); ok {
		conn = bounded.Conn
	}
	return rpc.WithProcess(ctx, process.Peer(conn))
}

// belowAgent reports whether a process was started by an agent of a launch or of the keeper,
// directly or not.
func belowAgent(pid int) bool {
	return process.Below(pid, fleet.LaunchVariable, fleet.RunVariable)
}
