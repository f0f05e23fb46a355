package contract_test

import (
	"fmt"
	"testing"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/coord"
	"github.com/parley-agents/parley/internal/engine/sqlite"
	"github.com/parley-agents/parley/internal/service/contract"
)

// benchTeam returns a service with a project of 200 repositories, 2,000 contracts with ten
// consumers each, and 20,000 results.
func benchTeam(b *testing.B) (*contract.Service, coord.ProjectID) {
	b.Helper()
	store, err := sqlite.Open(b.TempDir(), nil)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { store.Close() })
	project := coord.Project{ID: "p", Name: "p", Status: coord.ProjectPlanning, Policy: coord.AgreeCounterparty, CreatedAt: coord.InstantMicro(1), UpdatedAt: coord.InstantMicro(1)}
	for i := range 200 {
		project.Repos = append(project.Repos, coord.Repo{ID: coord.RepoID(fmt.Sprintf("r%03d", i)), Name: fmt.Sprintf("repo%03d", i), Role: "backend", Language: "go"})
	}
	contents := [][]byte{userSchema("name", "avatar"), userSchema("name")}
	hash := coord.ContentHash(contents[1])
	must := func(err error) {
		if err != nil {
			b.Fatal(err)
		}
	}
	must(store.Update(b.Context(), hub.SurvivesKill, func(tx hub.Tx) error { return tx.WriteCoordination().PutProject(project, coord.Project{}) }))
	for i := range 2000 {
		at := coord.InstantMicro(int64(i + 2))
		c := coord.Contract{
			Project: "p", ID: coord.ContractID(fmt.Sprintf("c%05d", i)), Type: coord.ContractModel, Name: fmt.Sprintf("Contract %d", i), Version: 2, Status: coord.ContractAgreed,
			Content: contents[1], ProposedBy: project.Repos[i%200].ID, CreatedAt: at, UpdatedAt: at,
			History: []coord.ContractVersion{{Version: 1, Content: contents[0], ProposedBy: project.Repos[i%200].ID, At: at}},
		}
		c.Terms = coord.Terms{Provider: c.ProposedBy, Direction: "response", WrittenAt: at, InForce: &coord.InForce{Version: 2, Content: hash, Since: at, Before: 1}}
		must(store.Update(b.Context(), hub.SurvivesKill, func(tx hub.Tx) error {
			for n := range 10 {
				repo := project.Repos[(i+n+1)%200].ID
				c.Terms.Uses = append(c.Terms.Uses, coord.Use{Repo: repo, Parts: []string{"User.avatar"}, Declared: at, At: at})
				r := coord.ContractResult{Project: "p", Contract: c.ID, Repo: repo, Version: 2, Content: hash, Commit: "x", Kind: coord.ResultRun, Result: coord.ResultSuccess, At: at}
				if n%2 == 0 {
					r.Repo = c.ProposedBy
				}
				if _, err := tx.WriteCoordination().AddResult(r); err != nil {
					return err
				}
			}
			return tx.WriteCoordination().PutContract(c, coord.Contract{})
		}))
	}
	return contract.New(store, &contract.Options{Self: backAID}), "p"
}

// BenchmarkCanMerge measures the answer for one commit among 200 repositories, 2,000 contracts
// and 20,000 results.
func BenchmarkCanMerge(b *testing.B) {
	s, p := benchTeam(b)
	b.ReportAllocs()
	for b.Loop() {
		got, err := s.CanMerge(b.Context(), hub.Caller{}, contract.Candidate{InProject: contract.In(p), Repo: "repo007", Commit: "x"})
		if err != nil || got.Checked < 100 {
			b.Fatalf("got %+v (%v)", got, err)
		}
	}
}

// BenchmarkMatrix measures the first page of the matrix of the same project.
func BenchmarkMatrix(b *testing.B) {
	s, p := benchTeam(b)
	b.ReportAllocs()
	for b.Loop() {
		got, err := s.Matrix(b.Context(), hub.Caller{}, contract.MatrixQuery{InProject: contract.In(p)})
		if err != nil || len(got.Rows) < 1000 || got.Next == "" {
			b.Fatalf("got %d rows (%v)", len(got.Rows), err)
		}
	}
}
