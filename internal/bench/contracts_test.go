package bench_test

import (
	"fmt"
	"strings"
	"time"

	"github.com/parley-agents/parley/compat"
	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/coord"
	"github.com/parley-agents/parley/internal/engine/sqlite"
	"github.com/parley-agents/parley/internal/operation/coordination"
	"github.com/parley-agents/parley/internal/operation/rpc"
	"github.com/parley-agents/parley/internal/service/contract"
)

func init() { parts["contracts"] = (*table).contracts }

const (
	gateRepos     = 200
	gateContracts = 2000
	gateCommit    = "0123456789abcdef0123456789abcdef01234567"
	gateUses      = 10 // consumers of each contract, and results
)

// contracts measures the questions of a large project through a hub: may a commit be merged, and
// the first page of the matrix.
func (t *table) contracts() {
	const asked = 15
	b := t.b
	home := b.TempDir()
	t.fillProject(home)
	p := t.start(home)
	defer p.stop()
	operator := t.operatorOf(p)
	page := p.reader()

	candidate := contract.Candidate{InProject: contract.In("p"), Repo: "repo007", Commit: gateCommit}
	canMerge := func() {
		got, err := rpc.Call(b.Context(), operator, coordination.CanMerge, coordination.ReadyParams{Candidate: candidate})
		must(b, err)
		if got.Checked < 100 {
			b.Fatalf("can-merge: %+v", got)
		}
	}
	of := fmt.Sprintf("among %d repositories, %d contracts and %d results", gateRepos, gateContracts, gateContracts*gateUses)
	t.most("can-merge "+of, medianOf(asked, canMerge), 200, "ms")
	t.most("page of the matrix "+of, medianOf(asked, func() { page.get("/contracts/p") }), 200, "ms")
	t.removed()
}

// removed measures how long the comparer takes to find the one alternative that a new version lacks.
func (t *table) removed() {
	b := t.b
	const asked = 5
	for _, row := range []struct {
		what  string
		union string
		n     int
		one   string // an alternative, with the places of its number
		most  float64
	}{
		{"a union of 200 kinds told apart by a constant, one removed", "oneOf", 200, `{"type":"object","properties":{"kind":{"const":"k%[1]d"},"v%[1]d":{"type":"string"}},"required":["kind","v%[1]d"]}`, 50},
		{"anyOf of 1,000 constants, one removed", "anyOf", 1000, `{"const":"value%[1]d"}`, 1000},
	} {
		document := func(skip int) compat.Document {
			var all []string
			for i := range row.n {
				if i != skip {
					all = append(all, fmt.Sprintf(row.one, i))
				}
			}
			d, err := compat.Read([]byte(fmt.Sprintf(`{"$schema":"https://json-schema.org/draft/2020-12/schema","%s":[%s]}`, row.union, strings.Join(all, ","))), nil)
			must(b, err)
			return d
		}
		older, newer := document(-1), document(row.n*3/4)
		t.most(row.what, medianOf(asked, func() {
			if v := compat.Compare(older, newer, compat.Options{}); v.Verdict != compat.Breaking {
				b.Fatalf("%s: the verdict is %s", row.what, v.Verdict)
			}
		}), row.most, "ms")
	}
}

// medianOf returns the median time of a call in milliseconds, after one that is not counted.
func medianOf(n int, call func()) float64 {
	call()
	var all []float64
	for range n {
		began := time.Now()
		call()
		all = append(all, float64(time.Since(began).Microseconds())/1000)
	}
	return median(all)
}

// fillProject makes a project in which each repository provides ten contracts, and each contract
// has ten consumers and ten results.
func (t *table) fillProject(home string) {
	b := t.b
	store, err := sqlite.Open(home, nil)
	must(b, err)
	defer store.Close()
	project := coord.Project{ID: "p", Name: "p", Status: coord.ProjectPlanning, Policy: coord.AgreeCounterparty, CreatedAt: coord.InstantMicro(1), UpdatedAt: coord.InstantMicro(1)}
	for i := range gateRepos {
		project.Repos = append(project.Repos, coord.Repo{ID: coord.RepoID(fmt.Sprintf("r%03d", i)), Name: fmt.Sprintf("repo%03d", i), Role: "backend", Language: "go"})
	}
	must(b, store.Update(b.Context(), hub.SurvivesKill, func(tx hub.Tx) error { return tx.WriteCoordination().PutProject(project, coord.Project{}) }))

	const schema = `{"$schema":"https://json-schema.org/draft/2020-12/schema","title":"User","type":"object","properties":{"name":{"type":"string"}%s},"required":["name"]}`
	older := []byte(fmt.Sprintf(schema, `,"avatar":{"type":"string"}`))
	newer := []byte(fmt.Sprintf(schema, ""))
	hash := coord.ContentHash(newer)
	for i := range gateContracts {
		at := coord.InstantMicro(int64(i + 2))
		c := coord.Contract{
			Project: "p", ID: coord.ContractID(fmt.Sprintf("c%05d", i)), Type: coord.ContractModel, Name: fmt.Sprintf("Contract %d", i), Version: 2, Status: coord.ContractAgreed,
			Content: newer, ProposedBy: project.Repos[i%gateRepos].ID, CreatedAt: at, UpdatedAt: at,
			History: []coord.ContractVersion{{Version: 1, Content: older, ProposedBy: project.Repos[i%gateRepos].ID, At: at}},
		}
		c.Terms = coord.Terms{Provider: c.ProposedBy, Direction: "response", WrittenAt: at, InForce: &coord.InForce{Version: 2, Content: hash, Since: at, Before: 1}}
		must(b, store.Update(b.Context(), hub.SurvivesKill, func(tx hub.Tx) error { return addGated(tx, c, project, hash, i) }))
	}
}

// addGated stores a contract with its consumers, and with results of them and of its provider in
// turn.
func addGated(tx hub.Tx, c coord.Contract, p coord.Project, hash string, i int) error {
	for n := range gateUses {
		repo := p.Repos[(i+n+1)%gateRepos].ID
		c.Terms.Tests = append(c.Terms.Tests, coord.ContractTest{Repo: repo, Check: "contract-tests", At: c.CreatedAt})
		c.Terms.Uses = append(c.Terms.Uses, coord.Use{Repo: repo, Parts: []string{"User.avatar"}, Declared: c.CreatedAt, At: c.CreatedAt})
		if n%2 == 0 {
			repo = c.ProposedBy
		}
		r := coord.ContractResult{Project: p.ID, Contract: c.ID, Repo: repo, Version: 2, Content: hash, Commit: gateCommit, Check: "contract-tests", Kind: coord.ResultRun, Result: coord.ResultSuccess, At: c.CreatedAt, Source: coord.SourceCI, Target: true}
		if _, err := tx.WriteCoordination().AddResult(r); err != nil {
			return err
		}
	}
	return tx.WriteCoordination().PutContract(c, coord.Contract{})
}
