// Package server builds a hub and serves it over HTTP. The parley command runs it,
// and other programs can embed a hub with it:
//
//	s, err := server.New(ctx, server.Options{Home: home, Addr: "127.0.0.1:0"})
//	...
//	fmt.Println("the hub listens on", s.URL())
//	err = s.Serve(ctx) // until ctx ends
//
// A server owns its home folder: a second one on the same home is refused. It
// answers only callers that hold a key, and binds to anything but loopback only
// with TLS. It sets no limits on the process it runs in.
//
// # Parts
//
// A hub is a list of parts in the order of their dependencies; see parts. New opens
// them one after the other, Serve runs the work that some of them do beside
// requests, and Close closes them in the opposite order. A failure to open a part
// closes those before it, so an error of New leaves nothing behind but files in the
// home.
//
// A request passes these layers, from the outside in: the bound on connections
// (boundedListener), the bound on unread answers (unread), the check of host and
// origin and the paths (package routes), and the door of package rpc, which identifies
// the caller and finds the operation. Services decide; nothing in this package does,
// and a test of the repository holds it.
//
// # Guarantees
//
//   - An answer is sent after its change is stored. A hub that is killed goes on from
//     the store when it starts again.
//   - Work beside requests that panics is logged and begins again after a pause; a
//     request that panics loses its connection, and no other.
//   - A caller that does not read its answers, or opens connections without end,
//     costs a bounded amount of memory and files.
//   - Serve waits up to ten seconds for calls under way, and then for the work beside
//     requests to end.
//
// # Beside a running hub
//
// [OpenRecords], [Import] and [CopyStore] of package home and [Diagnose] work on a home
// without serving it. The first three need the home for themselves; Diagnose also asks a
// hub that runs.
//
// The package reads no configuration file and no command line, and handles no
// signals. Its texts name flags of the parley command, because that is where people
// read them.
package server

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/parley-agents/parley/channel"
	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/desk/home"
	"github.com/parley-agents/parley/internal/engine/postgres"
	"github.com/parley-agents/parley/internal/engine/sqlite"
	"github.com/parley-agents/parley/internal/ground/handshake"
	"github.com/parley-agents/parley/internal/ground/spans"
	"github.com/parley-agents/parley/internal/ground/vault"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/operation/rpc"
	"github.com/parley-agents/parley/internal/reach/clone"
	"github.com/parley-agents/parley/internal/reach/evidence"
	"github.com/parley-agents/parley/internal/reach/gateway"
	"github.com/parley-agents/parley/internal/reach/notify"
	"github.com/parley-agents/parley/internal/reach/peer"
	"github.com/parley-agents/parley/internal/reach/wake"
	"github.com/parley-agents/parley/internal/reach/workshop"
	"github.com/parley-agents/parley/internal/service/callers"
	"github.com/parley-agents/parley/internal/service/check"
	"github.com/parley-agents/parley/internal/service/continuation"
	"github.com/parley-agents/parley/internal/service/contract"
	"github.com/parley-agents/parley/internal/service/deliberation"
	"github.com/parley-agents/parley/internal/service/event"
	"github.com/parley-agents/parley/internal/service/folder"
	"github.com/parley-agents/parley/internal/service/handoff"
	"github.com/parley-agents/parley/internal/service/journal"
	"github.com/parley-agents/parley/internal/service/keptwork"
	"github.com/parley-agents/parley/internal/service/keys"
	"github.com/parley-agents/parley/internal/service/landing"
	"github.com/parley-agents/parley/internal/service/mailroom"
	"github.com/parley-agents/parley/internal/service/metrics"
	"github.com/parley-agents/parley/internal/service/peers"
	"github.com/parley-agents/parley/internal/service/proof"
	"github.com/parley-agents/parley/internal/service/reservation"
	"github.com/parley-agents/parley/internal/service/roots"
	"github.com/parley-agents/parley/internal/service/run"
	"github.com/parley-agents/parley/internal/service/schedule"
	"github.com/parley-agents/parley/internal/service/signin"
	"github.com/parley-agents/parley/internal/service/team"
	"github.com/parley-agents/parley/internal/service/usage"
	"github.com/parley-agents/parley/internal/surface/intake"
	"github.com/parley-agents/parley/internal/surface/mcptools"
	"github.com/parley-agents/parley/internal/surface/routes"
	"github.com/parley-agents/parley/internal/surface/web"
	"github.com/parley-agents/parley/internal/work/keeper"
	runner "github.com/parley-agents/parley/internal/work/run"
)

// Limits bounds one sender and one conversation.
type Limits = mailroom.Limits

// WakeLimits bounds the turns that mail may start of one agent.
type WakeLimits = wake.Limits

// A NotifyTarget is a way to tell people of things that wait for them.
type NotifyTarget = notify.Target

// GatewayOptions says how a hub uses an OpenClaw gateway.
type GatewayOptions = gateway.Options

// Options says how a hub is put together. Only Home is required. The zero value of
// every other member works: a hub on SQLite, on loopback, without TLS, with the limits
// of the protocol and without peers. New copies the options; later changes to them
// have no effect.
type Options struct {
	// Home is the folder in which the hub keeps everything: database, keys, journal
	// files, artifacts. It is made if it does not exist, and belongs to one server at a
	// time.
	Home    string
	Addr    string // default DefaultAddr; port 0 picks a free one
	Version string // of the program, as /health and MCP report it

	// Keys of agents travel in requests, so a hub beyond loopback must use TLS, or its
	// operator must write down why not; the reason is for readers of the configuration.
	TLSCert, TLSKey string // files in PEM format; both or neither
	NoTLSBecause    string // lets a hub without TLS bind to more than loopback

	// Requests whose Host header is another name are refused, so that a page in a
	// browser cannot reach the hub under a name of its own.
	Hosts []string // names under which the hub is called besides its address

	// InAddr is where the hub listens for webhooks and nothing else; empty for nowhere. Beyond
	// loopback it needs TLS as Addr does, with the same files.
	InAddr string

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

	// Roots, SLA and RequireProof configure handoffs: where and how strictly the hub
	// checks the claims in them, and how long they may take.
	Roots        []string      // folders that become roots at start: the hub checks claims of handoffs in them
	SLA          time.Duration // how long an accepted task may take before it is escalated; default a day
	RequireProof bool          // refuse handoffs and completions that the hub cannot check
	Patience     time.Duration // without progress of a kept agent with successors, after which one continues its tasks; default 10 minutes
	NoInboxFiles bool          // do not render inboxes as files
	Without      []hub.Feature // parts of the protocol that are off; by default all are on

	// The members below configure teams, negotiations and disagreements. A limit can be
	// made smaller than its default, never larger.
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

	// Reservations are the rules about files that agents reserve, and Repositories those of
	// single repositories.
	Reservations Reservations
	Repositories []Repository

	Checks Checks // the commands that check commits

	Kept   int    // processes of agents that the hub runs at a time; default 8
	Bridge string // path of the parley program, for agents whose MCP client does not speak HTTP

	Clock hub.Clock // default the clock of the machine; the hub never lets it go back

	// Traces makes the hub obey the OTEL_* variables of the environment: spans of its
	// work go to a collector if they name one, or as lines to this writer if they say so.
	Traces io.Writer

	Coordination Coordination // with other hubs

	inRate  float64 // webhooks a second of one source and address; as many as the surface takes if zero
	inBurst int     // webhooks at once

	busy time.Duration // how long to wait for a lock on the database; as long as the store does if zero
}

// DefaultAddr is where a hub listens unless told otherwise.
const DefaultAddr = "127.0.0.1:7420"

// Files in a hub's home that commands and other programs read.
const (
	OperatorKeyFile = home.OperatorKeyFile // the operator's secret
	SocketFile      = home.SocketFile      // where the operator's key is accepted, while the hub runs
	URLFile         = home.URLFile         // where the hub listens, while it runs
	StoreFile       = home.StoreFile       // names the database of a hub that is not in its home
)

// A Server is a hub that listens. Serve makes it answer. The fields are set while
// the parts are opened and do not change afterwards, except opened, unread and the
// state inside of services, which guard their own.
type Server struct {
	opts     Options
	features []hub.Feature // that are on
	// opened is emptied by Close, so that a second Close does nothing.
	opened []part // in the order in which they were opened
	log    *slog.Logger
	url    string
	began  time.Time
	// stop has room for one value: a second wish to stop changes nothing. stopping
	// ends the calls that wait, such as long polls and streams of events; Serve
	// alone closes it.
	stop     chan struct{} // receives when the operator stops the hub
	stopping chan struct{} // closed when the server begins to stop
	tracer   *spans.Tracer // nil without one

	// The store and the things that parts share. Exactly one of sqlite and postgres
	// is set; store is that one, perhaps inside of a tracedStore.
	store       home.Engine
	sqlite      *sqlite.Store   // nil on PostgreSQL
	postgres    *postgres.Store // nil on SQLite
	home        io.Closer       // the lock of the home on PostgreSQL
	clock       hub.Clock       // steady
	shared      *os.Root        // files that repositories share
	content     home.Artifacts
	artifactDir string // holds the files of content
	hints       hub.Bus
	listener    net.Listener
	socket      net.Listener // in the home; nil where there can be none
	unread      unread       // answers under way
	tls         *tls.Config  // nil without a certificate
	cert        *x509.Certificate
	login       *handshake.Hub

	// The services. Each is set by the part that opens it.
	self      peer.Self // this hub, as others know it
	vault     *vault.Vault
	proofs    *proof.Log
	keys      *keys.Service
	peers     *peers.Service
	callers   *callers.Service
	signIn    *signin.Service
	journal   *journal.Journal
	records   *home.Records
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
	distant   *evidence.Distant // nil on SQLite
	files     *reservation.Service
	trees     reservation.Trees
	kept      *keptwork.Service
	checks    *check.Service
	shop      *workshop.Shop
	landings  *landing.Service
	copies    *clone.Copies // of repositories
	repos     *clone.Repositories
	usage     *usage.Service
	outside   *event.Service // events from outside
	schedules *schedule.Service
	polls     *intake.Poller

	continuations *continuation.Service
	runs          *run.Service
	keeper        *keeper.Keeper
	runFiles      *runner.Files
	repeater      *runner.Repeater
	roots         *roots.Service
	contracts     *contract.Service
	client        *peer.Client // calls other hubs
	syncer        *peer.Syncer

	// The surfaces in front of the services.
	head       hub.Head // of the journal when the server began
	meters     *routes.Meters
	dispatcher *rpc.Dispatcher
	tools      *mcptools.Handler
	site       *web.Handler
	http       *http.Server

	// Where webhooks come in; nil and empty without an address for them.
	inTLS      *tls.Config
	inListener net.Listener
	inHTTP     *http.Server
	inURL      string
}

// New opens the hub in opts.Home and begins to listen. The caller must call
// Serve or Close: both release the home. The parts of the hub are opened in the order of
// the list that parts returns.
// ctx limits the time of opening, not the life of the hub. An error that a user can
// repair is a hub.Error with a hint.
func New(ctx context.Context, opts Options) (*Server, error) {
	if opts.Addr == "" {
		opts.Addr = DefaultAddr
	}
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	if opts.Version == "" {
		opts.Version = "devel"
	}

	// Everything that can be refused without touching the home is checked first.
	secure, err := checkBind(opts)
	if err != nil {
		return nil, err
	}
	inSecure, err := checkIntake(opts, secure)
	if err != nil {
		return nil, err
	}
	if opts.Home, err = home.Check(opts.Home, opts.Store); err != nil {
		return nil, err
	}
	on, err := features(opts.Without)
	if err != nil {
		return nil, err
	}

	// After an error, open has closed the parts that it opened.
	s := &Server{
		opts: opts, log: opts.Log, tls: secure, inTLS: inSecure, features: on, began: time.Now(),
		stop: make(chan struct{}, 1), stopping: make(chan struct{}),
	}
	if err := s.open(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

// URL returns where the hub listens.
func (s *Server) URL() string { return s.url }

// Head returns number and hash of the newest journal entry when the server
// began. With a copy kept elsewhere, one can tell later whether the journal up
// to that entry is still the same.
func (s *Server) Head() (seq int64, hash string) { return s.head.Seq, s.head.Hash }

// askStop makes Serve return after it has answered the calls under way.
// It does not wait, because the operation that calls it is one of those calls.
func (s *Server) askStop() {
	select {
	case s.stop <- struct{}{}:
	default: // it stops already
	}
}

// Serve answers until ctx ends or the operator stops the hub, then stops in order: no new calls, waiting
// calls are answered, work under way is finished, the store is closed.
// It must be called once. The work of the parts outlives ctx: it ends after the
// last call was answered, because calls wait for it. After workTime Serve returns whatever
// still runs, with the store open: the caller must end the process then, and the next start
// recovers what was cut off.
func (s *Server) Serve(ctx context.Context) error {
	stopWork := s.run(s.tracer.Context(context.WithoutCancel(ctx)))
	var listening sync.WaitGroup
	end := func() {
		stopWork()
		listening.Wait()
	}
	closed := func() { s.Close() }

	// Room for both listeners: a goroutine whose error is not read must still end.
	failed := make(chan error, 2)
	listening.Go(func() { failed <- s.http.Serve(s.listener) })
	if s.socket != nil {
		listening.Go(func() { failed <- s.http.Serve(s.socket) })
	}

	select {
	case err := <-failed:
		close(s.stopping)
		s.http.Close()
		s.tools.Close()
		if endsWithin(workTime, end) {
			endsWithin(closeTime, closed)
		}
		return fmt.Errorf("server: %w", err)
	case <-s.stop:
	case <-ctx.Done():
	}

	// Waiting calls end when stopping closes, so that Shutdown waits only for those under way.
	close(s.stopping)
	s.log.Info("stopping")
	inOrder := endsWithin(workTime, func() {
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), graceTime)
		defer cancel()
		if err := s.http.Shutdown(grace); err != nil {
			s.log.Warn("some calls were cut off", "err", err)
			s.http.Close()
		}
		s.tools.Close()
		end()
	})
	switch {
	case !inOrder:
		s.log.Warn("some work did not end in time and is cut off", "after", workTime)
	case !endsWithin(closeTime, closed):
		s.log.Warn("the store was not closed in time; the next start checks it", "after", closeTime)
	}
	return nil
}

// EndTime is the time in which a hub that is asked to stop has ended, whatever runs. Whatever
// waits for its end or supervises it waits as long.
const EndTime = 10 * time.Second

// The calls under way have graceTime to end, they and all work together have workTime, and the store has
// closeTime after that. What is left of EndTime is for the end of the process.
const (
	graceTime = 5 * time.Second
	workTime  = 7 * time.Second
	closeTime = 2 * time.Second
)

// endsWithin runs f and reports whether it ended within a time.
func endsWithin(d time.Duration, f func()) bool {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		f()
	}()
	late := time.NewTimer(d)
	defer late.Stop()
	select {
	case <-ended:
		return true
	case <-late.C:
		return false
	}
}
