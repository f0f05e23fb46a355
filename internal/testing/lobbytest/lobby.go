// Package lobbytest makes a hub that other hubs call, for tests of the services that
// admit them.
//
// It has no tests of its own: those of packages callers and peers stand on it.
package lobbytest

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/coord"
	"github.com/parley-agents/parley/internal/ground/vault"
	"github.com/parley-agents/parley/internal/service/callers"
	"github.com/parley-agents/parley/internal/service/keys"
	"github.com/parley-agents/parley/internal/service/peers"
	"github.com/parley-agents/parley/internal/testing/storetest"
)

// A Lobby is a hub that other hubs call, with a project in its store.
type Lobby struct {
	*callers.Service
	Keys  *keys.Service
	Peers *peers.Service
	Store hub.Store
	Now   time.Time
	Boss  hub.Caller
	Vault *vault.Vault
}

// A project of the lobby, and a peer that takes part in it.
const (
	Project  = coord.ProjectID("f0ebc7e6-3b58-4d02-abb1-b63e1e0ba7ac")
	Frontend = coord.AID("aid://example.com/frontend@1.0.0")
)

// New returns a lobby. change, if not nil, changes the options of its peers.
func New(t *testing.T, change func(*peers.Options)) *Lobby {
	t.Helper()
	home := t.TempDir()
	store := storetest.Open(t, home)
	l := &Lobby{Store: store, Now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Boss: hub.Caller{ID: hub.Operator}}
	var err error
	if l.Vault, err = vault.Open(filepath.Join(home, "secrets.key")); err != nil {
		t.Fatal(err)
	}
	o := &peers.Options{
		Clock: func() time.Time { return l.Now }, Vault: l.Vault, Self: "aid://hub.example/backend@1.0.0", Home: "https://hub.example", Repo: "backend-api",
	}
	if change != nil {
		change(o)
	}
	l.Connect(o)
	at := coord.InstantAt(l.Now)
	for _, id := range []coord.ProjectID{Project, "other"} {
		err = store.Update(t.Context(), hub.SurvivesKill, func(tx hub.Tx) error {
			return tx.WriteCoordination().PutProject(coord.Project{ID: id, Name: "n", Objective: "o", Status: coord.ProjectPlanning, Policy: coord.AgreeAny, CreatedAt: at, UpdatedAt: at, Repos: []coord.Repo{
				{ID: "r1", Name: "backend-api", Role: "backend", Language: "go"}, {ID: "r2", Name: "frontend-app", Role: "frontend", Language: "typescript"},
			}}, coord.Project{})
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return l
}

// Connect makes the services of a hub.
func (l *Lobby) Connect(o *peers.Options) {
	l.Keys = keys.New(l.Store, &keys.Options{Clock: o.Clock, Self: o.Self})
	o.Taken = l.Keys.Taken
	l.Peers = peers.New(l.Store, o)
	l.Service = callers.New(l.Store, l.Keys, &callers.Options{Clock: o.Clock, Vault: o.Vault, Self: o.Self, Open: o.Open})
}

// Add adds a peer and returns its key.
func (l *Lobby) Add(t *testing.T, aid coord.AID, from string) string {
	t.Helper()
	_, secret, err := l.Peers.AddPeer(t.Context(), l.Boss, peers.NewPeer{AID: aid, Endpoint: "https://f.example", Repo: "frontend-app", From: from})
	if err != nil {
		t.Fatal(err)
	}
	return secret
}
