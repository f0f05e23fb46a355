package contract_test

import (
	"encoding/json"
	"fmt"
	"io"
	"testing"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/coord"
	"github.com/parley-agents/parley/internal/engine/sqlite"
	"github.com/parley-agents/parley/internal/ground/federation"
	"github.com/parley-agents/parley/internal/service/contract"
)

func benchService(b *testing.B) *contract.Service {
	b.Helper()
	store, err := sqlite.Open(b.TempDir(), nil)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { store.Close() })
	return contract.New(store, &contract.Options{Self: backAID, Repo: "backend-api", Limits: contract.Limits{Contracts: 1 << 30, Bytes: 1 << 60}})
}

// BenchmarkPropose measures what a durable proposal costs, many at a time.
func BenchmarkPropose(b *testing.B) {
	s := benchService(b)
	p, err := s.CreateProject(b.Context(), hub.Caller{}, contract.NewProject{Name: "x", Repos: []coord.Repo{
		{Name: "backend-api", Role: "backend", Language: "go"}, {Name: "frontend-app", Role: "frontend", Language: "go"},
	}})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	b.SetParallelism(64)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := s.Propose(b.Context(), hub.Caller{}, contract.Proposal{InProject: contract.In(p.ID), Type: coord.ContractAPI, Name: "Get User Profile", Content: json.RawMessage(profile)}); err != nil {
				b.Error(err)
			}
		}
	})
}

// BenchmarkWriteProject measures what a whole project costs that has 1,000
// contracts and 10,000 packets.
func BenchmarkWriteProject(b *testing.B) {
	s, copies := benchDesk(b, 1000)
	for i := range 10_000 {
		copies = append(copies, federation.Copy{Project: copies[0].Project, Packet: &coord.Packet{
			ID: coord.PacketID(fmt.Sprintf("k%09d", i)), FromRepo: "r", At: coord.InstantMicro(int64(i + 1)), Type: coord.ContextCode, Content: json.RawMessage(profile),
		}})
	}
	if _, err := s.Sync(b.Context(), peer, true, copies); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if err := s.WriteProject(b.Context(), hub.Caller{}, copies[0].Project, io.Discard, nil); err != nil {
			b.Fatal(err)
		}
	}
}
