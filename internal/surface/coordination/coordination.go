// Package coordination is how others come in to agree on contracts: the methods
// of the coordination protocol with what Parley adds to them, over JSON-RPC on
// the endpoint of the hub, and the few pages that agents look for.
//
// It finds out who is asking and what of the protocol is meant, in either
// spelling, and answers with the members of both the protocol's document and
// its reference implementation. What is decided, the services decide.
package coordination

import (
	"context"
	"encoding/json"
	"log/slog"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/service/access"
	"github.com/parley-agents/parley/internal/service/contract"
	"github.com/parley-agents/parley/internal/service/journal"
)

// Services is what the methods work on.
type Services struct {
	Contracts *contract.Service
	Access    *access.Access
	Journal   *journal.Journal
	Network   Network
	Bus       hub.Bus // whose hints end a wait for changes

	Self hub.AID // this hub
	Repo string  // that it speaks for

	// Done is closed when the hub stops: nobody waits any longer then.
	Done <-chan struct{}

	// Log is told of failures that are not the caller's; may be nil.
	Log *slog.Logger

	// Observe is told of every call that was answered; may be nil.
	Observe func(method string, code hub.Code, took time.Duration)
}

// Network is what the methods ask of whoever calls other hubs.
type Network interface {
	// Answer answers what hubs ask each other to stay in step. It reports
	// whether the method is one of those.
	Answer(ctx context.Context, from hub.AID, method string, params json.RawMessage) (result any, ok bool, err error)
	// Receive merges copies that a peer sent, each with its own status.
	Receive(ctx context.Context, from hub.AID, native bool, copies []hub.Copy) ([]hub.Synced, error)
	// Compare compares everything with a peer soon.
	Compare(peer hub.AID) error
	// Standings returns how far every peer is behind.
	Standings(ctx context.Context) ([]hub.Standing, error)
	// Redeem hands an invite in at another hub.
	Redeem(ctx context.Context, endpoint string, r hub.Redemption) (hub.Welcome, error)
	// Discover asks an exchange for agents.
	Discover(ctx context.Context, s Search) ([]hub.Found, error)
	// Enlist tells an exchange about this hub.
	Enlist(ctx context.Context, exchange string) (hub.Registration, error)
}

// A Search says which agents to look for in an exchange.
type Search struct {
	Exchange  string   `json:"exchange"` // its address; "" for the one that is configured
	Query     string   `json:"query"`
	Role      string   `json:"role"`
	Languages []string `json:"languages"`
	Limit     int      `json:"limit"`
}
