// Package server puts a hub together and serves it over HTTP. It is what the
// parley command runs, and other programs can embed a hub with it.
//
// A server owns its home folder: a second one on the same home is refused. It
// answers only callers that hold a key, and binds to anything but loopback only
// with TLS. It sets no limits on the process it runs in.
package server

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/schema"
	"github.com/parley-agents/parley/internal/engine/blobs"
	"github.com/parley-agents/parley/internal/engine/bus"
	"github.com/parley-agents/parley/internal/engine/sqlite"
	"github.com/parley-agents/parley/internal/reach/evidence"
	"github.com/parley-agents/parley/internal/service/access"
	"github.com/parley-agents/parley/internal/service/handoff"
	"github.com/parley-agents/parley/internal/service/journal"
	"github.com/parley-agents/parley/internal/service/mailroom"
	"github.com/parley-agents/parley/internal/service/records"
	"github.com/parley-agents/parley/internal/service/run"
	"github.com/parley-agents/parley/internal/surface/api"
	"github.com/parley-agents/parley/internal/surface/coordination"
	"github.com/parley-agents/parley/internal/surface/mcptools"
)

// Limits bounds what one sender and one conversation may do.
type Limits = mailroom.Limits

// Options says how a hub is put together. Only Home is required.
type Options struct {
	Home    string
	Addr    string // default DefaultAddr; port 0 picks a free one
	Version string // of the program, for those who ask

	TLSCert, TLSKey string   // files; both or neither
	NoTLSBecause    string   // lets a hub without TLS bind to more than loopback
	Hosts           []string // names under which the hub is called besides its address

	Log          *slog.Logger  // default silent
	Limits       Limits        // zero members mean the default
	Features     []hub.Feature // default none
	Channels     []hub.Channel // switched on; default none besides the inbox
	Lenient      bool          // ignore a claimed sender in place of refusing it
	FullSync     bool          // every change survives power loss
	Roots        []string      // folders in which handoffs are checked against what is there
	SLA          time.Duration // how long an accepted task may take before it is escalated; default a day
	NoInboxFiles bool          // do not render inboxes as files

	Coordination Coordination // with other hubs
}

// DefaultAddr is where a hub listens unless told otherwise.
const DefaultAddr = "127.0.0.1:7420"

// Files in a hub's home.
const (
	OperatorKeyFile = "operator.key" // the operator's secret
	URLFile         = "url"          // where the hub listens, while it runs
	inboxDir        = "inbox"
	artifactDir     = "artifacts"
)

// A Server is a hub that listens. Serve makes it answer.
type Server struct {
	opts     Options
	log      *slog.Logger
	store    *sqlite.Store
	mail     *mailroom.Mailroom
	handoffs *handoff.Service
	runs     *run.Service
	journal  *journal.Journal
	records  *Records
	head     hub.Head // of the journal when the server began
	listener net.Listener
	http     *http.Server
	tools    *mcptools.Handler
	peers    *peers
	url      string
	began    time.Time
	stopping chan struct{} // closed when the server begins to stop
}

// New opens the hub in opts.Home and begins to listen. Whoever gets a server
// must call Serve, which closes what New opened, or Close.
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
	if err := checkOpen(opts); err != nil {
		return nil, err
	}
	if err := checkHome(opts.Home); err != nil {
		return nil, err
	}
	s := &Server{opts: opts, log: opts.Log, began: time.Now(), stopping: make(chan struct{})}
	if s.store, err = sqlite.Open(opts.Home, &sqlite.Options{Full: opts.FullSync, Log: opts.Log}); err != nil {
		return nil, fmt.Errorf("server: open %s: %w", opts.Home, err)
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

	hints := new(bus.Local)
	mailOptions := &mailroom.Options{
		Bus: hints, Log: opts.Log, Limits: opts.Limits, Features: opts.Features, Enabled: opts.Channels,
		Lenient: opts.Lenient, Stopping: s.stopping,
	}
	if !opts.NoInboxFiles {
		mailOptions.InboxDir = filepath.Join(opts.Home, inboxDir)
	}
	if s.peers, err = newPeers(s, hints); err != nil {
		return nil, err
	}
	who := s.peers.access
	if s.mail, err = mailroom.New(s.store, who, mailOptions); err != nil {
		return nil, err
	}
	s.records = newRecords(s.store, opts.Home, records.Options{Bus: hints, Log: opts.Log, Consumers: s.mail.Consumers()})
	s.journal = journal.New(s.store, &journal.Options{Bus: hints, Log: opts.Log})
	artifacts, err := blobs.Open(filepath.Join(opts.Home, artifactDir), nil)
	if err != nil {
		return nil, fmt.Errorf("server: %w", err)
	}
	stored, err := filepath.Abs(filepath.Join(opts.Home, artifactDir))
	if err == nil {
		err = os.MkdirAll(stored, 0o700) // it is a root, so it must be there
	}
	if err != nil {
		return nil, fmt.Errorf("server: %w", err)
	}
	look, err := evidence.New(append(slices.Clone(opts.Roots), stored), nil)
	if err != nil {
		return nil, fmt.Errorf("server: roots: %w", err)
	}
	s.handoffs = handoff.New(s.store, s.mail, &handoff.Options{Log: opts.Log, Inspector: look, SLA: opts.SLA})
	s.runs = run.New(s.store, who, s.mail, &run.Options{Log: opts.Log})
	if err := s.mail.Probe(ctx); err != nil {
		return nil, fmt.Errorf("server: %w", err)
	}
	if err := ensureOperator(ctx, who, filepath.Join(opts.Home, OperatorKeyFile)); err != nil {
		return nil, fmt.Errorf("server: the operator's key: %w", err)
	}

	if err := s.peers.connect(s, hints); err != nil {
		return nil, err
	}
	if err := s.journal.Started(ctx, opts.Version); err != nil {
		return nil, fmt.Errorf("server: %w", err)
	}
	if s.head, err = s.journal.Head(ctx); err != nil {
		return nil, fmt.Errorf("server: %w", err)
	}
	if tlsConfig != nil {
		s.listener = tls.NewListener(s.listener, tlsConfig)
	}
	if err := os.WriteFile(filepath.Join(opts.Home, URLFile), []byte(s.url+"\n"), 0o600); err != nil {
		return nil, fmt.Errorf("server: say where the hub is: %w", err)
	}
	meters := newMeters(s.store)
	services := &api.Services{Mail: s.mail, Handoffs: s.handoffs, Runs: s.runs, Access: who, Journal: s.journal, Records: s.records, Log: opts.Log, Observe: meters.observe}
	projects := &coordination.Services{
		Contracts: s.peers.contracts, Access: who, Journal: s.journal, Network: network{s.peers.syncer, s.peers, opts.Coordination}, Bus: hints,
		Self: hub.AID(s.peers.self.AID), Repo: s.peers.self.Repo, Done: s.stopping, Log: opts.Log, Observe: meters.observe,
	}
	services.Coordinator = projects
	s.http = &http.Server{
		Handler:           s.guard(tidy(s.routes(services, projects, hints, artifacts, meters))),
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       30 * time.Second, // for what nobody reads, too; an upload gets longer
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    32 << 10,
		ErrorLog:          slog.NewLogLogger(opts.Log.Handler(), slog.LevelDebug),
	}
	return s, nil
}

// URL returns where the hub listens.
func (s *Server) URL() string { return s.url }

// Head returns number and hash of the newest journal entry when the server
// began. Whoever keeps it elsewhere can later tell whether the journal up to it
// is still the same.
func (s *Server) Head() (seq int64, hash string) { return s.head.Seq, s.head.Hash }

// Serve answers until ctx ends, then stops in order: no new calls, waiting
// ones are answered, what is under way is finished, the store is closed.
func (s *Server) Serve(ctx context.Context) error {
	defer s.Close()
	work, stopWork := context.WithCancel(context.WithoutCancel(ctx))
	var background sync.WaitGroup
	background.Go(func() { s.mail.Run(work) })
	background.Go(func() { s.handoffs.Run(work) })
	background.Go(func() { s.runs.Run(work) })
	background.Go(func() { s.journal.Run(work) })
	background.Go(func() { s.records.Run(work) })
	background.Go(func() { s.peers.run(work) })
	defer background.Wait()
	defer stopWork()

	failed := make(chan error, 1)
	background.Go(func() { failed <- s.http.Serve(s.listener) })
	select {
	case err := <-failed:
		close(s.stopping)
		s.http.Close()
		s.tools.Close()
		return fmt.Errorf("server: %w", err)
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

// Close releases what New opened. Serve does so by itself.
func (s *Server) Close() error {
	if s.listener != nil {
		s.listener.Close()                             // closed already if the server was serving
		os.Remove(filepath.Join(s.opts.Home, URLFile)) // nobody is there any more
	}
	if s.peers != nil {
		s.peers.close()
	}
	return s.store.Close()
}

// checkBind refuses to listen where others could listen in.
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

// checkHome refuses to begin anew in a home whose database is gone.
func checkHome(home string) error {
	const op = "server.New"
	if home == "" {
		return hub.Errorf(hub.CodeInvalid, op, "a hub needs a home folder")
	}
	_, keyErr := os.Stat(filepath.Join(home, OperatorKeyFile))
	_, dbErr := os.Stat(filepath.Join(home, "hub.db"))
	if keyErr == nil && errors.Is(dbErr, fs.ErrNotExist) {
		return hub.Errorf(hub.CodeDegraded, op, "%s was used by a hub, but its database hub.db is gone", home).
			WithHint("put hub.db back from a backup, or use another --home to begin anew")
	}
	return nil
}

// ensureOperator keeps the operator's secret in a file that only the owner of
// the home can read.
func ensureOperator(ctx context.Context, a *access.Access, path string) error {
	old, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	secret, err := a.EnsureOperator(ctx, strings.TrimSpace(string(old)))
	if err != nil || secret == strings.TrimSpace(string(old)) {
		return err
	}
	return os.WriteFile(path, []byte(secret+"\n"), 0o600)
}

func listenError(addr string, err error) error {
	return hub.Errorf(hub.CodeConflict, "server.New", "cannot listen on %s: %v", addr, errors.Unwrap(err)).
		WithHint("another program may use that port; choose one with --addr 127.0.0.1:0")
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

// routes is every path of the hub.
func (s *Server) routes(services *api.Services, projects *coordination.Services, hints hub.Bus, artifacts *blobs.Store, meters *meters) http.Handler {
	rpc := api.NewHandler(services, s.log, s.stopping)
	s.tools = mcptools.NewHandler(s.opts.Version, services, rpc, s.log, s.stopping)
	mux := http.NewServeMux()
	s.coordinates(mux, projects, rpc)
	mux.Handle("GET /events", rpc.Events(hints))
	mux.HandleFunc("/mcp", func(w http.ResponseWriter, r *http.Request) {
		if _, ok := rpc.Admit(w, r); ok {
			s.tools.ServeHTTP(w, r)
		}
	})
	mux.Handle("POST /artifacts", rpc.PutArtifact(artifacts))
	mux.Handle("GET /artifacts/{sha256}", rpc.Artifact(artifacts))
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, r *http.Request) {
		if host, _, _ := net.SplitHostPort(s.opts.Addr); !isLoopback(host) {
			if _, ok := rpc.Admit(w, r); !ok {
				return
			}
		}
		meters.ServeHTTP(w, r)
	})
	mux.HandleFunc("GET /schema/{name...}", func(w http.ResponseWriter, r *http.Request) {
		text, err := schema.Text(r.PathValue("name"))
		if err != nil {
			api.WriteError(w, http.StatusNotFound, err)
			return
		}
		w.Header().Set("Content-Type", "application/schema+json")
		w.Write(text)
	})
	return mux
}

// guard turns away requests that a page in a browser could have been tricked
// into making: those for another host, and those from another origin.
func (s *Server) guard(next http.Handler) http.Handler {
	allowed := map[string]bool{}
	for _, h := range append([]string{"localhost", "127.0.0.1", "::1"}, s.opts.Hosts...) {
		allowed[strings.ToLower(h)] = true
	}
	if host, _, err := net.SplitHostPort(s.opts.Addr); err == nil && host != "" {
		allowed[strings.ToLower(host)] = true
	}
	if u, err := url.Parse(s.peers.self.URL); err == nil {
		allowed[strings.ToLower(u.Hostname())] = true
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := r.Host
		if h, _, err := net.SplitHostPort(host); err == nil {
			host = h
		}
		host = strings.ToLower(strings.Trim(host, "[]"))
		if !allowed[host] {
			api.WriteError(w, http.StatusForbidden, hub.Errorf(hub.CodeDenied, "http", "this hub is not called %q", host).
				WithHint("use the address that the hub prints when it starts, or add the name under hosts in its configuration"))
			return
		}
		if origin := r.Header.Get("Origin"); origin != "" && !strings.EqualFold(origin, s.origin(r)) {
			api.WriteError(w, http.StatusForbidden, hub.Errorf(hub.CodeDenied, "http", "calls from other web pages are refused"))
			return
		}
		next.ServeHTTP(w, r)
	})
}

// origin is what a browser sends for a page of the hub itself.
func (s *Server) origin(r *http.Request) string {
	if r.TLS != nil {
		return "https://" + r.Host
	}
	return "http://" + r.Host
}

// healthy is the status of a hub that can work.
const healthy = "healthy"

// health says whether the hub can work, and who it is.
func (s *Server) health(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), 5*time.Second)
	defer cancel()
	status, code := healthy, http.StatusOK
	head, err := s.journal.Head(ctx)
	peers := 0
	if err == nil {
		peers, err = s.peerCount(ctx)
	}
	if err == nil {
		err = s.store.Fault(ctx)
	}
	if err != nil {
		status, code = "degraded", http.StatusServiceUnavailable
	}
	writeJSON(w, code, map[string]any{
		"status": status, "agentId": s.peers.self.AID, "repo": s.peers.self.Repo, "peerCount": peers, "version": s.opts.Version, "journal": head.Seq, "uptime_s": int(time.Since(s.began).Seconds()),
	})
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(v) // a caller that is gone needs no answer
}
