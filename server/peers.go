package server

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/reach/peer"
	"github.com/parley-agents/parley/internal/service/access"
	"github.com/parley-agents/parley/internal/service/contract"
)

// Coordination says how a hub works with other hubs. The zero value works: the
// hub keeps projects, and has no peers until it is told of one.
type Coordination struct {
	AID      hub.AID // of the hub; default one made of the machine's name and Repo
	Repo     string  // repository that the hub stands for
	Role     string
	Language string
	URL      string         // where other hubs reach this one; default where it listens
	Allow    []netip.Prefix // networks of peers that are not public
	Open     bool           // everybody may do everything; on loopback only
	Exchange string         // directory of agents; default none, and none is asked
}

// Places in a hub's home that coordination needs.
const (
	secretsFile = "secrets.key" // from which the hub's own secrets follow
	sharedDir   = "shared"      // files that repositories share
)

// peers is what a hub does with other hubs.
type peers struct {
	self      peer.Self
	vault     *access.Vault
	access    *access.Access
	contracts *contract.Service
	client    *peer.Client
	syncer    *peer.Syncer
	exchange  *peer.Exchange // nil if none is configured
	shared    *os.Root
}

// newPeers makes what must be there before the hub's other parts.
func newPeers(s *Server, hints hub.Bus) (*peers, error) {
	c := s.opts.Coordination
	if c.URL == "" {
		c.URL = s.url
	}
	home, err := hub.ParseEndpoint(c.URL)
	if err != nil {
		return nil, fmt.Errorf("server: where peers reach the hub: %w", err)
	}
	p := &peers{client: peer.NewClient(&peer.ClientOptions{Guard: peer.Guard{Allow: c.Allow}})}
	p.self = peer.Self{
		AID: string(c.AID), URL: home, Repo: c.Repo, Role: c.Role, Language: c.Language, Version: s.opts.Version,
		ContractTypes: words(hub.ContractTypes), ContextTypes: words(hub.PacketTypes),
	}
	if c.AID == "" {
		p.self.AID = defaultAID(c.Repo)
	} else if aid, err := peer.ParseAID(p.self.AID); err != nil {
		return nil, hub.Errorf(hub.CodeInvalid, "server.New", "%w", err)
	} else if err := aid.Validate(); err != nil {
		return nil, hub.Errorf(hub.CodeInvalid, "server.New", "the hub's agent id: %w", err)
	}
	if p.vault, err = access.OpenVault(filepath.Join(s.opts.Home, secretsFile)); err != nil {
		return nil, fmt.Errorf("server: %w", err)
	}
	options := &access.Options{
		Bus: hints, Vault: p.vault, Self: hub.AID(p.self.AID), Home: home, Repo: c.Repo, Open: c.Open,
	}
	if c.Exchange != "" {
		if p.exchange, err = peer.NewExchange(p.client, c.Exchange); err != nil {
			return nil, fmt.Errorf("server: the exchange: %w", err)
		}
		options.Directory = p.exchange
	}
	p.access = access.New(s.store, options)
	return p, nil
}

// connect makes what works on top of the hub's other parts.
func (p *peers) connect(s *Server, hints hub.Bus) error {
	dir := filepath.Join(s.opts.Home, sharedDir)
	err := os.MkdirAll(dir, 0o700)
	if err == nil {
		p.shared, err = os.OpenRoot(dir)
	}
	if err != nil {
		return fmt.Errorf("server: the folder for shared files: %w", err)
	}
	self := hub.AID(p.self.AID)
	p.contracts = contract.New(s.store, &contract.Options{
		Log: s.log, Bus: hints, Self: self, Repo: p.self.Repo, Endpoint: p.self.URL, Sender: s.mail, Local: p.access.Local, Files: p.shared,
	})
	p.syncer = peer.NewSyncer(s.store, p.contracts, p.client, p.access, p.access, self, p.self.URL, &peer.Options{Bus: hints, Log: s.log, Repo: p.self.Repo})
	return nil
}

// run works until ctx ends.
func (p *peers) run(ctx context.Context) {
	var both sync.WaitGroup
	both.Go(func() { p.contracts.Run(ctx) })
	both.Go(func() { p.syncer.Run(ctx) })
	both.Wait()
}

func (p *peers) close() {
	p.client.Close()
	if p.shared != nil {
		p.shared.Close()
	}
}

// defaultAID is good enough for a hub that meets no others.
func defaultAID(repo string) string {
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

func words[S ~string](list []S) []string {
	out := make([]string, len(list))
	for i, w := range list {
		out[i] = string(w)
	}
	return out
}
