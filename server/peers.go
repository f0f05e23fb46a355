package server

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/coord"
	"github.com/parley-agents/parley/internal/desk/home"
	"github.com/parley-agents/parley/internal/ground/federation"
	"github.com/parley-agents/parley/internal/ground/handshake"
	"github.com/parley-agents/parley/internal/ground/vault"
	"github.com/parley-agents/parley/internal/operation/coordination"
	"github.com/parley-agents/parley/internal/reach/peer"
	"github.com/parley-agents/parley/internal/service/callers"
	"github.com/parley-agents/parley/internal/service/contract"
	"github.com/parley-agents/parley/internal/service/keys"
	"github.com/parley-agents/parley/internal/service/peers"
)

// Coordination says how a hub works with other hubs. The zero value works: the hub
// keeps projects, and has no peers until it is told of one. Addresses of peers that
// are not public, such as those of a company's network, must be listed in Allow,
// because the hub calls addresses that others give it.
type Coordination struct {
	AID      coord.AID // of the hub; default one made of the machine's name and Repo
	Repo     string    // repository that the hub stands for
	Role     string
	Language string
	URL      string         // where other hubs reach this one; default where it listens
	Allow    []netip.Prefix // networks of peers that are not public
	Open     bool           // callers need no key; on loopback only
	Exchange string         // directory of agents; default none, and none is asked

	// StrictUpdate refuses the update of a contract for which no change was requested.
	StrictUpdate bool
}

// openIdentity reads the hub's own names and secrets, and builds the service of keys.
// The address for peers is the one that other hubs are given, and may be that of a
// proxy.
func (s *Server) openIdentity(ctx context.Context) error {
	c := s.opts.Coordination
	endpoint, err := federation.ParseEndpoint(cmp.Or(c.URL, s.url))
	if err != nil {
		return fmt.Errorf("server: the address for peers: %w", err)
	}
	s.self = peer.Self{
		AID: string(c.AID), URL: endpoint, Repo: c.Repo, Role: c.Role, Language: c.Language, Version: s.opts.Version,
		ContractTypes: words(coord.ContractTypes), ContextTypes: words(coord.PacketTypes),
	}
	if c.AID == "" {
		if s.self.AID, err = s.defaultAID(ctx); err != nil {
			return fmt.Errorf("server: the hub's agent id: %w", err)
		}
	} else if err := checkAID(s.self.AID); err != nil {
		return err
	}

	if s.vault, err = vault.Open(filepath.Join(s.opts.Home, home.SecretsFile)); err != nil {
		return fmt.Errorf("server: %w", err)
	}
	s.keys = keys.New(s.store, &keys.Options{Clock: s.clock, Bus: s.hints, Self: coord.AID(s.self.AID), Shared: s.postgres != nil})
	return nil
}

// checkAID refuses an agent id of the options that other hubs would refuse.
func checkAID(text string) error {
	aid, err := peer.ParseAID(text)
	if err != nil {
		return hub.Errorf(hub.CodeInvalid, "server.New", "%w", err)
	}
	if err := aid.Validate(); err != nil {
		return hub.Errorf(hub.CodeInvalid, "server.New", "the hub's agent id: %w", err)
	}
	return nil
}

// openClient builds the client that calls other hubs.
func (s *Server) openClient(context.Context) error {
	s.client = peer.NewClient(&peer.ClientOptions{Guard: peer.Guard{Allow: s.opts.Coordination.Allow}})
	return nil
}

// closeClient closes the connections to other hubs.
func (s *Server) closeClient() error {
	s.client.Close()
	return nil
}

// openCallers builds the services that know other hubs and identify callers.
// The guard of the client and that of the registered addresses are the same, so an
// address that may not be called cannot be registered either.
func (s *Server) openCallers(context.Context) (err error) {
	c := s.opts.Coordination
	self := coord.AID(s.self.AID)
	guard := peer.Guard{Allow: c.Allow}
	o := &peers.Options{
		Bus: s.hints, Vault: s.vault, Self: self, Home: s.self.URL, Repo: c.Repo, Open: c.Open, Taken: s.keys.Taken, Guard: guard.CheckEndpoint,
	}
	if c.Exchange != "" {
		if o.Directory, err = peer.NewExchange(s.client, c.Exchange); err != nil {
			return fmt.Errorf("server: the exchange: %w", err)
		}
	}
	s.peers = peers.New(s.store, o)

	s.login = handshake.NewHub(s.keys.OperatorHashes, s.clock)
	s.callers = callers.New(s.store, s.keys, &callers.Options{Vault: s.vault, Self: self, Login: s.login, Open: c.Open, BelowAgent: belowAgent})
	return nil
}

// openShared opens the folder of files that repositories share.
func (s *Server) openShared(context.Context) error {
	dir := filepath.Join(s.opts.Home, home.SharedDir)
	err := os.MkdirAll(dir, 0o700)
	if err == nil {
		s.shared, err = os.OpenRoot(dir)
	}
	if err != nil {
		return fmt.Errorf("server: the folder for shared files: %w", err)
	}
	return nil
}

// openContracts builds the service of projects of several repositories.
// With Unsafe the rates of contracts are off as those of messages are; the largest
// numbers are used that cannot overflow when a request is added.
func (s *Server) openContracts(ctx context.Context) error {
	var limits contract.Limits
	if s.opts.Limits.Unsafe {
		limits.Rate = contract.Rate{Projects: math.MaxInt32, Things: math.MaxInt32, Bytes: math.MaxInt64 / 2}
	}
	s.contracts = contract.New(s.store, &contract.Options{
		Log: s.log, Bus: s.hints, Self: coord.AID(s.self.AID), Repo: s.self.Repo, Endpoint: s.self.URL,
		Sender: s.mail, Local: s.keys.Local, Taken: s.keys.Taken, People: people{s.notifier}, Repositories: contract.NewRepositories(s.store, s.repos), Files: s.shared, Limits: limits, Strict: s.opts.Coordination.StrictUpdate,
	})

	// Environments of before they were declared: those that the operator or CI used are declared once.
	declared, others, err := s.contracts.DeclareDeployed(ctx)
	for project, names := range declared {
		for _, name := range names {
			s.log.Info("the environment of a deployment is declared now", "op", "server.openContracts", "project", project, "environment", name, "remove", "parley contract env remove "+name+" --anyway")
		}
	}
	for project, names := range others {
		s.log.Warn("deployments that only agents recorded count for nothing until their environments are declared", "op", "server.openContracts", "project", project, "environments", names)
	}
	return err
}

// openSyncer builds the part that sends changes of projects to other hubs.
func (s *Server) openSyncer(context.Context) error {
	s.syncer = peer.NewSyncer(s.store, s.contracts, s.client, s.peers, s.peers, coord.AID(s.self.AID), s.self.URL, &peer.Options{
		Bus: s.hints, Log: s.log, Repo: s.self.Repo,
	})
	return nil
}

// A network calls other hubs for the operations of coordination.
type network struct {
	*peer.Syncer
	client    *peer.Client
	directory string            // address of the configured exchange; may be empty
	self      peer.Self         // this hub
	signing   ed25519.PublicKey // by which others verify what this hub signs
}

// Redeem hands an invite in at another hub.
// A refusal of the other hub keeps its code, so the caller can act on it.
func (n network) Redeem(ctx context.Context, endpoint string, r federation.Redemption) (federation.Welcome, error) {
	w, err := n.client.Redeem(ctx, endpoint, r)
	var refusal *peer.Refusal
	if errors.As(err, &refusal) {
		err = hub.Errorf(cmp.Or(refusal.Reason, hub.CodeUnreachable), "peer.Redeem", "%s refused the invite: %s", endpoint, refusal.Message)
	}
	return w, err
}

// exchange returns the directory at an address, or the configured one.
func (n network) exchange(address string) (*peer.Exchange, error) {
	return peer.NewExchange(n.client, cmp.Or(address, n.directory))
}

// Discover asks an exchange for agents.
func (n network) Discover(ctx context.Context, q coordination.Search) ([]federation.Discovery, error) {
	x, err := n.exchange(q.Exchange)
	if err != nil {
		return nil, err
	}
	if q.Query != "" {
		return x.Search(ctx, peer.Search{Query: q.Query, Filters: peer.SearchFilters{Protocols: []string{"cacp"}}, Limit: int(q.Limit)})
	}
	return x.Discover(ctx, q.Role, q.Languages, int(q.Limit))
}

// Enlist tells an exchange about this hub.
func (n network) Enlist(ctx context.Context, exchange string) (federation.Registration, error) {
	x, err := n.exchange(exchange)
	if err != nil {
		return federation.Registration{}, err
	}
	m, err := n.self.Manifest(n.signing, hub.At(time.Now()), false)
	if err != nil {
		return federation.Registration{}, err
	}
	return x.Register(ctx, m)
}

// defaultAID returns the agent id of a hub that was given none. Hubs on one database are
// one to others: they have that of the first.
// The first hub on a database stores the id; all later ones read it.
func (s *Server) defaultAID(ctx context.Context) (aid string, err error) {
	own := machineAID(s.opts.Coordination.Repo)
	if s.postgres == nil {
		return own, nil
	}
	err = s.store.Update(ctx, hub.SurvivesPowerLoss, func(tx hub.Tx) (err error) {
		if aid, err = hub.ReadMeta[string](tx, "hub.aid"); err == nil && aid == "" {
			aid = own
			err = hub.WriteMeta(tx, "hub.aid", aid)
		}
		return err
	})
	return aid, err
}

// machineAID is good enough for a hub that meets no others.
// Other hubs need one that its domain can vouch for, which only the operator can
// give.
func machineAID(repo string) string {
	clean := func(s, or string) string {
		s = strings.Join(strings.FieldsFunc(strings.ToLower(s), func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') }), "-")
		if s == "" {
			return or
		}
		return s
	}
	host, err := os.Hostname()
	if err != nil {
		host = ""
	}
	return "aid://" + clean(host, "localhost") + "/" + clean(repo, "parley") + "@1.0.0"
}

// words returns the values of an enum as strings, for a description on the wire.
func words[S ~string](list []S) []string {
	out := make([]string, len(list))
	for i, w := range list {
		out[i] = string(w)
	}
	return out
}

// around has the part of what waits for a person that is outside of the hub's own
// operations.
type around struct {
	syncer *peer.Syncer
	store  hub.Store
	home   string
}

// Pending returns the peers that wait for the operator.
func (a around) Pending(ctx context.Context) ([]federation.PeerStatus, error) {
	return a.syncer.Pending(ctx)
}

// Free returns the free bytes on the disk of the home; negative if unknown.
func (a around) Free() int64 {
	_, free := diskUse(a.home)
	return free
}
