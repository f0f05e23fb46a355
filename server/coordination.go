package server

import (
	"cmp"
	"context"
	"errors"
	"net"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/reach/peer"
	"github.com/parley-agents/parley/internal/surface/api"
	"github.com/parley-agents/parley/internal/surface/coordination"
)

// checkOpen refuses a hub without keys where others can reach it.
func checkOpen(o Options) error {
	if host, _, err := net.SplitHostPort(o.Addr); err == nil && o.Coordination.Open && !isLoopback(host) {
		return hub.Errorf(hub.CodePolicy, "server.New", "a hub that needs no keys is for loopback only").
			WithHint("listen on %s, or leave --auth open out", DefaultAddr)
	}
	return nil
}

// A network is what the methods of coordination ask of the part of a hub that
// calls others.
type network struct {
	*peer.Syncer
	*peers
	Coordination
}

// Redeem hands an invite in at another hub.
func (n network) Redeem(ctx context.Context, endpoint string, r hub.Redemption) (hub.Welcome, error) {
	w, err := n.client.Redeem(ctx, endpoint, r)
	var refusal *peer.Refusal
	if errors.As(err, &refusal) {
		err = hub.Errorf(cmp.Or(refusal.Reason, hub.CodeUnreachable), "peer.Redeem", "%s did not take the invite: %s", endpoint, refusal.Message)
	}
	return w, err
}

// exchange returns the directory at an address, or the one that is configured.
func (n network) exchange(address string) (*peer.Exchange, error) {
	return peer.NewExchange(n.client, cmp.Or(address, n.Exchange))
}

// Discover asks an exchange for agents.
func (n network) Discover(ctx context.Context, s coordination.Search) ([]hub.Found, error) {
	x, err := n.exchange(s.Exchange)
	if err != nil {
		return nil, err
	}
	if s.Query != "" {
		return x.Search(ctx, peer.Search{Query: s.Query, Filters: peer.SearchFilters{Protocols: []string{"cacp"}}, Limit: s.Limit})
	}
	return x.Discover(ctx, s.Role, s.Languages, s.Limit)
}

// Enlist tells an exchange about this hub.
func (n network) Enlist(ctx context.Context, exchange string) (hub.Registration, error) {
	x, err := n.exchange(exchange)
	if err != nil {
		return hub.Registration{}, err
	}
	m, err := n.self.Manifest(n.vault.SigningKey(), hub.At(time.Now()), nil)
	if err != nil {
		return hub.Registration{}, err
	}
	return x.Register(ctx, m)
}

// coordinates adds the pages of coordination to those of the hub. Others may
// know the hub under a path of its own; they find the same there.
func (s *Server) coordinates(mux *http.ServeMux, services *coordination.Services, rpc *api.Handler) {
	h := coordination.NewHandler(services, rpc, s.opts.Coordination.Open)
	bases := []string{""}
	if u, err := url.Parse(s.peers.self.URL); err == nil {
		if base := strings.TrimRight(u.Path, "/"); base != "" {
			bases = append(bases, base)
			mux.Handle("POST "+base, h)
		}
	}
	card := s.peers.self.Card()
	for _, base := range bases {
		mux.Handle("POST "+base+"/{$}", h)
		for _, name := range []string{peer.CardPath, "/.well-known/agent-card.json"} {
			mux.HandleFunc("GET "+base+name, func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, http.StatusOK, card) })
		}
		mux.HandleFunc("GET "+base+peer.HealthPath, s.health)
		mux.HandleFunc("GET "+base+"/methods", methods)
		mux.HandleFunc("GET "+base+"/peers", h.Peers)
		mux.HandleFunc("POST "+base+peer.RegisterPath, h.Register)
	}
}

// methods lists what can be called: the names, and more on the hub's own.
func methods(w http.ResponseWriter, _ *http.Request) {
	var names []string
	for _, m := range coordination.Methods {
		names = append(names, m.Name)
	}
	for _, o := range api.Operations {
		names = append(names, o.Method)
	}
	slices.Sort(names)
	writeJSON(w, http.StatusOK, map[string]any{"methods": names, "operations": api.Methods()})
}

// tidy makes sure that no path is answered with a redirect: agents do not
// follow one.
func tidy(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		clean := path.Clean("/" + r.URL.Path)
		if r.URL.RawPath != "" {
			clean = r.URL.Path // what is escaped is a name, not a path
		}
		if clean != "/" && clean != r.URL.Path && strings.HasSuffix(r.URL.Path, "/") {
			clean += "/"
		}
		if clean != r.URL.Path {
			r = r.Clone(r.Context())
			r.URL.Path, r.URL.RawPath = clean, ""
		}
		next.ServeHTTP(w, r)
	})
}

// peerCount returns how many peers are kept in step.
func (s *Server) peerCount(ctx context.Context) (int, error) {
	n := 0
	err := s.store.View(ctx, func(r hub.Reader) error {
		peers, err := r.Peers()
		for _, p := range peers {
			if p.State == hub.PeerApproved {
				n++
			}
		}
		return err
	})
	return n, err
}
