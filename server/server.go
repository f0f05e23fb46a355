// Package server builds a hub and serves it over HTTP. The parley command runs
// it, and other programs can embed a hub with it.
//
// A server owns its home folder: a second one on the same home is refused. It
// answers only callers that hold a key, and binds to anything but loopback only
// with TLS. It sets no limits on the process it runs in.
package server

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/parley-agents/parley/channel"
	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/coord"
	"github.com/parley-agents/parley/internal/engine/postgres"
	"github.com/parley-agents/parley/internal/engine/sqlite"
	"github.com/parley-agents/parley/internal/handshake"
	"github.com/parley-agents/parley/internal/keeper"
	"github.com/parley-agents/parley/internal/process"
	"github.com/parley-agents/parley/internal/reach/evidence"
	"github.com/parley-agents/parley/internal/reach/gateway"
	"github.com/parley-agents/parley/internal/reach/notify"
	"github.com/parley-agents/parley/internal/reach/peer"
	"github.com/parley-agents/parley/internal/reach/wake"
	runner "github.com/parley-agents/parley/internal/run"
	"github.com/parley-agents/parley/internal/service/callers"
	"github.com/parley-agents/parley/internal/service/contract"
	"github.com/parley-agents/parley/internal/service/deliberation"
	"github.com/parley-agents/parley/internal/service/folder"
	"github.com/parley-agents/parley/internal/service/handoff"
	"github.com/parley-agents/parley/internal/service/journal"
	"github.com/parley-agents/parley/internal/service/keys"
	"github.com/parley-agents/parley/internal/service/mailroom"
	"github.com/parley-agents/parley/internal/service/metrics"
	"github.com/parley-agents/parley/internal/service/peers"
	"github.com/parley-agents/parley/internal/service/records"
	"github.com/parley-agents/parley/internal/service/roots"
	"github.com/parley-agents/parley/internal/service/run"
	"github.com/parley-agents/parley/internal/service/signin"
	"github.com/parley-agents/parley/internal/service/team"
	"github.com/parley-agents/parley/internal/spans"
	"github.com/parley-agents/parley/internal/surface/api"
	"github.com/parley-agents/parley/internal/surface/coordination"
	"github.com/parley-agents/parley/internal/surface/mcptools"
	"github.com/parley-agents/parley/internal/surface/rpc"
	"github.com/parley-agents/parley/internal/surface/web"
	"github.com/parley-agents/parley/internal/vault"
)

// Limits bounds one sender and one conversation.
type Limits = mailroom.Limits

// WakeLimits bounds the turns that mail may start of one agent.
type WakeLimits = wake.Limits

// A NotifyTarget is a way to tell people of things that wait for them.
type NotifyTarget = notify.Target

// GatewayOptions says how a hub uses an OpenClaw gateway.
type GatewayOptions = gateway.Options

// Options says how a hub is put together. Only Home is required.
type Options struct {
	Home    string
	Addr    string // default DefaultAddr; port 0 picks a free one
	Version string // of the program, as /health and MCP report it

	TLSCert, TLSKey string   // files; both or neither
	NoTLSBecause    string   // lets a hub without TLS bind to more than loopback
	Hosts           []string // names under which the hub is called besides its address

	Log      *slog.Logger // default silent
	Limits   Limits       // zero members mean the default
	Lenient  bool         // ignore a claimed sender in place of refusing it
	FullSync bool         // every change survives power loss; on PostgreSQL it always does

	// Store is the address of a PostgreSQL database, postgres://USER@HOST/NAME, which any
	// number of hubs may share; SQLite in the home if empty.
	Store             string
	StorePasswordFile string // holds the password of the database; default the environment
	StoreNoTLSBecause string // lets a database beyond loopback be used without verified TLS
	Machine           string // whose folders this hub can read; default the name of the host

	Roots        []string      // folders that become roots at start: the hub checks claims of handoffs in them
	SLA          time.Duration // how long an accepted task may take before it is escalated; default a day
	RequireProof bool          // refuse handoffs and completions that the hub cannot check
	NoInboxFiles bool          // do not render inboxes as files
	Without      []hub.Feature // parts of the protocol that are off; by default all are on

	Teamspaces    string        // folder with the folders of teams; default _shared/teamspaces in Home
	MergeSLA      time.Duration // the time until a conflict of two versions is escalated; default and most four hours
	ResponseTime  time.Duration // the time for an answer to an offer or a position; default and most a day
	MaxCounters   int           // of one pair about an offer; default and most 3
	MaxChallenges int           // of one pair about a position; default and most 2

	// Channels are further ways to announce messages to agents and people. The hub
	// has channels of its own for agents in terminals; those of the same kind are
	// tried after them.
	Channels []channel.Channel
	Wakes    WakeLimits // bounds the turns that mail may start; zero members mean the default

	Notify []NotifyTarget // ways to tell people what waits for them

	Gateway *GatewayOptions // an OpenClaw gateway that the hub uses; may be nil

	Kept   int    // processes of agents that the hub runs at a time; default 8
	Bridge string // path of the parley program, for agents whose MCP client does not speak HTTP

	Clock hub.Clock // default the clock of the machine; the hub never lets it go back

	// Traces makes the hub obey the OTEL_* variables of the environment: spans of its
	// work go to a collector if they name one, or as lines to this writer if they say so.
	Traces io.Writer

	Coordination Coordination // with other hubs

	busy time.Duration // how long to wait for a lock on the database; as long as the store does if zero
}

// DefaultAddr is where a hub listens unless told otherwise.
const DefaultAddr = "127.0.0.1:7420"

// Files in a hub's home.
const (
	OperatorKeyFile = "operator.key" // the operator's secret
	SocketFile      = "hub.sock"     // where the operator's key is accepted, while the hub runs
	URLFile         = "url"          // where the hub listens, while it runs
	countsFile      = "counted"      // calls that are counted for the journal, with the ending .0 or .1
	inboxDir        = "inbox"
	artifactDir     = "artifacts"
	teamspaceDir    = "_shared/teamspaces"
	worksDir        = "works" // the states of worktrees, by repository and handoff
)

// A Server is a hub that listens. Serve makes it answer.
type Server struct {
	opts     Options
	log      *slog.Logger
	url      string
	began    time.Time
	stop     chan struct{} // receives when the operator stops the hub
	stopping chan struct{} // closed when the server begins to stop
	tracer   *spans.Tracer // nil without one

	store    engine
	sqlite   *sqlite.Store   // nil on PostgreSQL
	postgres *postgres.Store // nil on SQLite
	home     io.Closer       // the lock of the home on PostgreSQL
	clock    hub.Clock       // steady
	shared   *os.Root        // files that repositories share
	hints    hub.Bus
	listener net.Listener
	socket   net.Listener // in the home; nil where there can be none
	unread   unread       // answers under way
	cert     *x509.Certificate
	login    *handshake.Hub

	self      peer.Self // this hub, as others know it
	vault     *vault.Vault
	keys      *keys.Service
	peers     *peers.Service
	callers   *callers.Service
	signIn    *signin.Service
	journal   *journal.Journal
	records   *Records
	mail      *mailroom.Mailroom
	wakes     *wake.Machine
	gateway   *gateway.Client // nil without one
	notifier  *notify.Notifier
	services  *api.Services // of the table of the hub's own operations
	handoffs  *handoff.Service
	talks     *deliberation.Service
	metrics   *metrics.Service
	teams     *team.Service   // nil if teamspaces are off
	folders   *folder.Folders // nil with teams
	inspector *evidence.Inspector
	distant   *distantInspector // nil on SQLite
	runs      *run.Service
	keeper    *keeper.Keeper
	runFiles  *runner.Files
	repeater  *runner.Repeater
	roots     *roots.Service
	contracts *contract.Service
	client    *peer.Client // calls other hubs
	syncer    *peer.Syncer

	head  hub.Head // of the journal when the server began
	tools *mcptools.Handler
	site  *web.Handler
	http  *http.Server
}

// New opens the hub in opts.Home and begins to listen. The caller must call
// Serve or Close: both release the home.
//
// It builds from the ground up: store, listener and clock, the hub's own identity, the
// services, the tables of operations over them, and the door in front.
func New(ctx context.Context, opts Options) (_ *Server, err error) {
	if opts.Addr == "" {
		opts.Addr = DefaultAddr
	}
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	if opts.Version == "" {
		opts.Version = "devel"
	}
	tlsConfig, err := checkBind(opts)
	if err != nil {
		return nil, err
	}
	if err := checkHome(opts.Home, opts.Store); err != nil {
		return nil, err
	}
	s := &Server{opts: opts, log: opts.Log, began: time.Now(), stop: make(chan struct{}, 1), stopping: make(chan struct{})}
	if opts.Traces != nil {
		if s.tracer, err = spans.FromEnv(opts.Version, opts.Traces, s.log); err != nil {
			s.log.Warn("no spans are recorded", "err", err) // these variables are often meant for other programs
		}
	}
	if err := s.openStore(ctx); err != nil {
		s.tracer.Close()
		return nil, err
	}
	defer func() {
		if err != nil {
			s.Close()
		}
	}()
	if s.listener, err = net.Listen("tcp", opts.Addr); err != nil {
		return nil, listenError(opts.Addr, err)
	}
	s.url = baseURL(s.listener.Addr(), tlsConfig != nil)
	s.listener = &boundedListener{Listener: s.listener, most: maxConnections(), secure: tlsConfig != nil, log: s.log}
	s.listenInHome()
	if tlsConfig != nil {
		s.cert = tlsConfig.Certificates[0].Leaf
		s.listener = tls.NewListener(s.listener, tlsConfig)
	}
	for _, open := range []func(context.Context) error{s.openClock, s.openIdentity, s.openMessages, s.openProjects, s.begin, s.openDoor} {
		if err := open(ctx); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// listenInHome listens on a socket in the home, which only the owner of the home can
// reach. Where that is not possible, say because the path is too long, operators prove
// their key over the port.
func (s *Server) listenInHome() {
	path := filepath.Join(s.opts.Home, SocketFile)
	os.Remove(path) // of a hub that was killed: this one holds the home's lock
	l, err := net.Listen("unix", path)
	if err == nil {
		if err = os.Chmod(path, 0o600); err != nil {
			l.Close()
		}
	}
	if err != nil {
		s.log.Info("no socket in the home, operators use the port", "err", err)
		return
	}
	s.socket = &boundedListener{Listener: l, most: socketConnections, log: s.log}
}

// openMessages builds the services about messages, handoffs, runs and records.
func (s *Server) openMessages(ctx context.Context) (err error) {
	home := s.opts.Home
	if err := s.openGateway(); err != nil {
		return err
	}
	if err := s.openNotifier(); err != nil {
		return err
	}
	if err := s.openWakes(ctx); err != nil {
		return err
	}
	features, err := s.features()
	if err != nil {
		return err
	}
	mail := &mailroom.Options{
		Features: features,
		Clock:    s.clock, Bus: s.hints, Log: s.log, Limits: s.opts.Limits, Router: s.wakes,
		Lenient: s.opts.Lenient, Stopping: s.stopping,
	}
	tasks := &handoff.Options{Clock: s.clock, Log: s.log, SLA: s.opts.SLA, RequireProof: s.opts.RequireProof}
	if s.gateway != nil {
		mail.Capabilities = map[string]func() hub.Capability{"gateway": s.gateway.State, "workq": s.gateway.QueueState}
		if s.opts.Gateway.Workq {
			tasks.Queue = s.gateway
		}
	}
	stored, err := filepath.Abs(filepath.Join(home, artifactDir))
	if err == nil {
		err = os.MkdirAll(stored, 0o700) // evidence has it as a root, so it must exist
	}
	var content artifacts
	if err == nil {
		content, err = s.artifacts(stored)
		mail.Artifacts = content
	}
	if err != nil {
		return fmt.Errorf("server: %w", err)
	}
	if !s.opts.NoInboxFiles {
		mail.InboxDir = filepath.Join(home, inboxDir)
	}
	if s.postgres != nil {
		mail.WaitsElsewhere = s.postgres.WaitsElsewhere
	}
	if s.mail, err = mailroom.New(s.store, s.keys, mail); err != nil {
		return err
	}
	if s.postgres != nil {
		s.postgres.AnnounceWaiting(s.mail.Waiting)
	}
	talks := &deliberation.Options{
		Clock: s.clock, Log: s.log, ResponseTime: s.opts.ResponseTime, Counters: s.opts.MaxCounters, Challenges: s.opts.MaxChallenges,
	}
	consumers := slices.Concat(s.mail.Consumers(), []string{wake.Cursor, metrics.Cursor}, s.notifier.Cursors())
	if slices.Contains(features, hub.FeatureTeamspaces) {
		board := &team.Options{Clock: s.clock, Log: s.log, Artifacts: content, MergeSLA: s.opts.MergeSLA, Bus: s.hints}
		if tasks.Queue != nil {
			board.Queue = s.gateway
		}
		if s.teams, err = team.New(s.store, s.mail, board); err != nil {
			return err
		}
		talks.Board, tasks.Board = s.teams, s.teams
		root := s.opts.Teamspaces
		if root == "" {
			root = filepath.Join(home, teamspaceDir)
		}
		s.folders = folder.New(s.store, content, root, &folder.Options{Clock: s.clock, Bus: s.hints, Log: s.log})
		consumers = append(consumers, folder.Cursor)
		s.keys.OnRevoked(func(tx hub.Tx, actor hub.Caller, agent hub.AgentID) (func(), error) {
			posted, err := s.teams.Revoked(tx, actor, agent)
			return func() { s.mail.Announce(posted...) }, err
		})
	}
	if s.talks, err = deliberation.New(s.store, s.mail, talks); err != nil {
		return err
	}
	s.mail.Moderate(s.talks)
	s.journal = journal.New(s.store, &journal.Options{Clock: s.clock, Bus: s.hints, Log: s.log, Slate: filepath.Join(home, countsFile)})
	if err := s.openRoots(ctx); err != nil {
		return err
	}
	s.records = newRecords(s.store, s.sqlite, home, s.trailName(), records.Options{Clock: s.clock, Bus: s.hints, Log: s.log, Consumers: consumers, Artifacts: content})
	s.inspector, err = evidence.New([]string{stored}, &evidence.Options{Roots: s.roots.Paths, Kept: filepath.Join(home, worksDir)})
	if err != nil {
		return fmt.Errorf("server: %w", err)
	}
	tasks.Inspector = s.inspector
	if s.postgres != nil {
		s.distant = &distantInspector{s.inspector, s.postgres}
		tasks.Inspector = s.distant
	}
	s.handoffs = handoff.New(s.store, s.mail, tasks)
	s.metrics = metrics.New(s.store, &metrics.Options{Clock: s.clock, Log: s.log})
	s.runs = run.New(s.store, s.keys, s.mail, &run.Options{Clock: s.clock, Log: s.log})
	if err := s.openRepeater(); err != nil {
		return fmt.Errorf("server: %w", err)
	}
	return s.openKeeper()
}

// features returns the features that are on.
func (s *Server) features() ([]hub.Feature, error) {
	on := slices.Clone(Features)
	for _, f := range s.opts.Without {
		if !slices.Contains(Features, f) {
			return nil, hub.Errorf(hub.CodeInvalid, "server.New", "without: %q is not one of %v", f, Features)
		}
		on = slices.DeleteFunc(on, func(x hub.Feature) bool { return x == f })
	}
	return on, nil
}

// Features are the parts of the protocol that a hub may be without.
var Features = slices.Clone(hub.Features)

// openWakes builds the wake machine over the sessions of agents and the channels of the
// options.
func (s *Server) openWakes(ctx context.Context) (err error) {
	others := slices.Clone(s.opts.Channels)
	if people := s.notifier.Channel(); people != nil {
		others = append(others, people)
	}
	if s.gateway != nil {
		others = append(others, s.gateway.Channels()...)
	}

	o := wake.Options{Clock: s.clock, Bus: s.hints, Log: s.log, Limits: s.opts.Wakes, Stopping: s.stopping, Ended: process.Ended}
	if s.postgres != nil {
		o.Machine, o.Away = s.postgres.Machine(), s.postgres.Away
	}
	if s.wakes, err = wake.New(s.store, others, o); err != nil {
		return err
	}
	return s.wakes.Check(ctx)
}

// openNotifier builds the targets that tell people. The wake machine and the operations, which
// it asks when it works, are built after it.
func (s *Server) openNotifier() (err error) {
	kinds := make([]string, len(api.WaitKinds))
	for i, k := range api.WaitKinds {
		kinds[i] = string(k)
	}
	s.notifier, err = notify.New(s.store, s.opts.Notify, notify.Options{
		Clock: s.clock, Bus: s.hints, Log: s.log, Kinds: kinds, HTTP: s.client,
		Waiting: func(ctx context.Context) (notify.Waiting, error) { return s.services.WaitingItems(ctx) },
		Record: func(tx hub.Tx, agent hub.AgentID, id string, o channel.Outcome) error {
			return s.wakes.Record(tx, agent, id, o)
		},
	})
	return err
}

// openGateway prepares the connection to the gateway of the options. The wake machine, which
// it tells of a new connection, is built after it.
func (s *Server) openGateway() (err error) {
	if s.opts.Gateway == nil {
		return nil
	}
	o := *s.opts.Gateway
	o.Device, o.Version, o.Log = s.vault.DeviceKey(), s.opts.Version, s.log
	o.Up = func() { s.wakes.Recheck() }
	s.gateway, err = gateway.New(o)
	return err
}

// openRoots opens the service of roots and adds those of the options. The operator
// who starts the hub chose them, so that a path of them may lead through a link.
func (s *Server) openRoots(ctx context.Context) (err error) {
	if s.roots, err = roots.New(s.store, s.opts.Home, &roots.Options{Clock: s.clock, Bus: s.hints}); err != nil {
		return fmt.Errorf("server: %w", err)
	}
	for _, path := range s.opts.Roots {
		if real, err := filepath.EvalSymlinks(path); err == nil {
			path = real
		}
		if _, err := s.roots.Add(ctx, hub.Caller{Kind: hub.CallerOperator, ID: hub.Operator}, path); err != nil {
			return fmt.Errorf("server: %w", err)
		}
	}
	return nil
}

// begin makes the operator's key if there is none, and records that the hub
// began and where it listens.
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
		return fmt.Errorf("server: say where the hub is: %w", err)
	}
	return nil
}

// openDoor binds the tables of operations to the services and puts the door, the
// tools and the pages in front of them.
func (s *Server) openDoor(ctx context.Context) (err error) {
	s.signIn, err = signin.New(ctx, s.store, signin.Options{
		Clock: s.clock, Bus: s.hints, Listen: s.listener.Addr(), Secure: s.cert != nil, Operator: s.keys.ByHash,
	})
	if err != nil {
		return fmt.Errorf("server: %w", err)
	}
	meters := newMeters(s.store, s.metrics)
	s.services = &api.Services{
		Mail: s.mail, Handoffs: s.handoffs, Runs: s.runs, Roots: s.roots, Keys: s.keys, Journal: s.journal, Records: s.records, Stop: s.askStop,
		Store: s.store, Wakes: s.wakes, Keeper: s.keeper, Talks: s.talks, Metrics: s.metrics, Teams: s.teams, Without: s.opts.Without, SignIn: s.signIn, RunFiles: s.runFiles, Repeater: s.repeater, Gateway: s.gateway, Notify: s.notifier, Clock: s.clock, Projects: s.contracts, Around: around{s},
	}
	dispatcher := rpc.NewDispatcher(
		rpc.Recorder{Refused: s.journal.Refused, Used: s.journal.Used, Log: s.log, Observe: meters.observe, Capabilities: s.mail.Capabilities},
		api.Operations.Bind(s.services),
		coordination.Operations.Bind(&coordination.Services{
			Contracts: s.contracts, Keys: s.keys, Peers: s.peers, Callers: s.callers, Network: network{s.syncer, s}, Bus: s.hints,
			Self: coord.AID(s.self.AID), Repo: s.self.Repo, Done: s.stopping,
		}),
	)
	s.tools = mcptools.NewHandler(s.opts.Version, dispatcher, s.log, s.stopping)
	door := rpc.NewDoor(dispatcher, s.callers, s.opts.Coordination.Open)
	s.site, err = web.NewHandler(web.Options{
		Operations: dispatcher, SignIn: s.signIn, Head: s.journal.Head, Bus: s.hints, Log: s.log, Stopping: s.stopping, Version: s.opts.Version, Limits: s.mail.Limits(), Teams: s.teams != nil,
		Figures: func() web.Figures {
			f := meters.figures()
			f.Disk, f.Free = diskUse(s.opts.Home)
			return f
		},
	})
	if err != nil {
		return fmt.Errorf("server: %w", err)
	}
	s.unread.most = maxUnread
	s.http = &http.Server{
		Handler:           s.tracer.Handler(s.unread.bound(s.guard(cleanPaths(s.routes(door, meters)), s.site))),
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       30 * time.Second, // for bodies that no handler reads, too; an upload gets longer
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    32 << 10,
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
	return nil
}

// URL returns where the hub listens.
func (s *Server) URL() string { return s.url }

// Head returns number and hash of the newest journal entry when the server
// began. With a copy kept elsewhere, one can tell later whether the journal up
// to that entry is still the same.
func (s *Server) Head() (seq int64, hash string) { return s.head.Seq, s.head.Hash }

// askStop makes Serve return after it has answered the calls under way.
func (s *Server) askStop() {
	select {
	case s.stop <- struct{}{}:
	default: // it stops already
	}
}

// Running reports whether a hub runs in a home now. A hub that was killed leaves its
// address behind, where another program may listen by now.
func Running(home string) bool { return sqlite.Locked(home) }

// Serve answers until ctx ends or the operator stops the hub, then stops in order: no new calls, waiting
// calls are answered, work under way is finished, the store is closed.
func (s *Server) Serve(ctx context.Context) error {
	defer s.Close()
	work, stopWork := context.WithCancel(s.tracer.Context(context.WithoutCancel(ctx)))
	var background sync.WaitGroup
	for name, run := range map[string]func(context.Context){
		"messages": s.mail.Run, "channels": func(ctx context.Context) { s.wakes.Run(ctx, s.mail) }, "handoffs": s.handoffs.Run, "states of worktrees": s.inspector.Run, "deliberations": s.talks.Run, "metrics": s.metrics.Run, "runs": s.runs.Run, "kept agents": s.keeper.Run, "notices": s.notifier.Run, "runs again": s.repeater.Run, "journal": s.journal.Run, "records": s.records.Run,
		"contracts": func(ctx context.Context) { s.contracts.Run(ctx) }, "peers": s.syncer.Run, "page": s.site.Run,
		"teams": func(ctx context.Context) {
			if s.teams != nil {
				s.teams.Run(ctx)
			}
		},
		"folders of teams": func(ctx context.Context) {
			if s.folders != nil {
				s.folders.Run(ctx)
			}
		},
		"gateway": func(ctx context.Context) {
			if s.gateway != nil {
				s.gateway.Run(ctx)
			}
		},
		"questions of other machines": func(ctx context.Context) {
			if s.distant != nil {
				s.distant.Answer(ctx)
			}
		},
		"check of the database": func(ctx context.Context) {
			if s.sqlite != nil { // PostgreSQL checks its own pages
				s.sqlite.CheckBeside(ctx)
			}
		},
	} {
		background.Go(func() { s.keepRunning(work, name, run) })
	}
	defer background.Wait()
	defer stopWork()

	failed := make(chan error, 2)
	background.Go(func() { failed <- s.http.Serve(s.listener) })
	if s.socket != nil {
		background.Go(func() { failed <- s.http.Serve(s.socket) })
	}
	select {
	case err := <-failed:
		close(s.stopping)
		s.http.Close()
		s.tools.Close()
		return fmt.Errorf("server: %w", err)
	case <-s.stop:
	case <-ctx.Done():
	}
	close(s.stopping)
	s.log.Info("stopping")
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	if err := s.http.Shutdown(grace); err != nil {
		s.log.Warn("some calls were cut off", "err", err)
		s.http.Close()
	}
	s.tools.Close()
	return nil
}

// keepRunning runs work that goes on beside requests until ctx ends. After a panic it
// begins again, after a pause: it goes on from what is stored.
func (s *Server) keepRunning(ctx context.Context, name string, run func(context.Context)) {
	for {
		err := hub.Contain(name, func() error {
			run(ctx)
			return nil
		})
		if err == nil {
			return
		}
		s.log.Error("work beside requests failed, it begins again", "op", name, "err", err)
		select {
		case <-time.After(panicPause):
		case <-ctx.Done():
			return
		}
	}
}

// panicPause is the time until work that panicked begins again.
const panicPause = time.Second

// Close releases the home and the listener. Serve does so by itself.
func (s *Server) Close() error {
	if s.listener != nil {
		s.listener.Close()                             // closed already if the server was serving
		os.Remove(filepath.Join(s.opts.Home, URLFile)) // the hub is not there any more
	}
	if s.socket != nil {
		s.socket.Close() // removes the file
	}
	if s.client != nil {
		s.client.Close()
	}
	if s.gateway != nil {
		s.gateway.Close()
	}
	if s.shared != nil {
		s.shared.Close()
	}
	err := s.store.Close()
	s.tracer.Close()
	if s.home != nil {
		err = errors.Join(err, s.home.Close())
	}
	return err
}

// checkBind refuses an address on which keys could be overheard.
func checkBind(o Options) (*tls.Config, error) {
	const op = "server.New"
	host, _, err := net.SplitHostPort(o.Addr)
	if err != nil {
		return nil, hub.Errorf(hub.CodeInvalid, op, "%q is not an address", o.Addr).WithHint("use HOST:PORT, for example %s", DefaultAddr)
	}
	local := isLoopback(host)
	if (o.TLSCert == "") != (o.TLSKey == "") {
		return nil, hub.Errorf(hub.CodeInvalid, op, "a certificate and its key go together").WithHint("give both --tls-cert and --tls-key")
	}
	if !local && o.TLSCert == "" && o.NoTLSBecause == "" {
		return nil, hub.Errorf(hub.CodePolicy, op, "a hub that listens on %s must use TLS, or keys could be read on the way", o.Addr).
			WithHint("give --tls-cert and --tls-key, listen on %s, or say why not with --no-tls-because", DefaultAddr)
	}
	if !local && o.Limits.Unsafe {
		return nil, hub.Errorf(hub.CodePolicy, op, "--unsafe-limits is for loopback only").
			WithHint("listen on %s, or leave --unsafe-limits out", DefaultAddr)
	}
	if !local && o.Coordination.Open {
		return nil, hub.Errorf(hub.CodePolicy, op, "--auth open is for loopback only").
			WithHint("listen on %s, or leave --auth open out", DefaultAddr)
	}
	if o.TLSCert == "" {
		return nil, nil
	}
	cert, err := tls.LoadX509KeyPair(o.TLSCert, o.TLSKey)
	if err != nil {
		return nil, hub.Errorf(hub.CodeInvalid, op, "the certificate cannot be used: %v", err)
	}
	return &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}, nil
}

func isLoopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

// checkHome refuses a home that was used before and has no database now, and one whose
// database is another than the store asked for.
func checkHome(home, store string) error {
	const op = "server.New"
	if home == "" {
		return hub.Errorf(hub.CodeInvalid, op, "a hub needs a home folder")
	}
	_, keyErr := os.Stat(filepath.Join(home, OperatorKeyFile))
	_, dbErr := os.Stat(filepath.Join(home, "hub.db"))
	_, elsewhere := os.Stat(filepath.Join(home, StoreFile))
	switch {
	case store != "" && dbErr == nil:
		return hub.Errorf(hub.CodeConflict, op, "%s has a database of its own, hub.db, and --store names another", home).WithHint("use another --home, or leave --store out")
	case store != "":
		return nil
	case elsewhere == nil:
		return hub.Errorf(hub.CodeConflict, op, "the hub in %s has its database on a PostgreSQL server", home).WithHint("name it with --store, or use another --home")
	}
	if keyErr == nil && errors.Is(dbErr, fs.ErrNotExist) {
		return hub.Errorf(hub.CodeDegraded, op, "%s was used by a hub, but its database hub.db is gone", home).
			WithHint("put hub.db back from a backup, or use another --home to begin anew")
	}
	return nil
}

// ensureOperator keeps the operator's secret in a file that only the owner of
// the home can read.
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

func listenError(addr string, err error) error {
	return hub.Errorf(hub.CodeConflict, "server.New", "cannot listen on %s: %v", addr, errors.Unwrap(err)).
		WithHint("another program may use that port, such as another hub; choose a port with --addr 127.0.0.1:0")
}

func baseURL(addr net.Addr, secure bool) string {
	scheme := "http"
	if secure {
		scheme = "https"
	}
	host, port, _ := net.SplitHostPort(addr.String())
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return scheme + "://" + net.JoinHostPort(host, port)
}
