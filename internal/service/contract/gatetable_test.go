package contract_test

import (
	"flag"
	"fmt"
	"strings"
	"testing"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/coord"
	"github.com/parley-agents/parley/internal/service/contract"
	"github.com/parley-agents/parley/internal/testing/doctable"
)

var updateTable = flag.Bool("update", false, "write the tables in docs/contracts.md")

// A gateRow is one question of a gate of contracts, as the documents show it. pass reports whether
// a caller gets through: without opening anything, or by opening the gate.
type gateRow struct {
	gate, question, without string
	opens                   string // "" for a question that is always asked
	pass                    func(g *gatehouse, who hub.Caller, open bool) bool
}

// gateRows are the questions of the gates of contracts.
var gateRows = []gateRow{
	{"can-merge", "a contract of the repository is known", "no", "`--allow-none`, for one answer: the operator, a token with `deploy` or `evidence`", func(g *gatehouse, who hub.Caller, open bool) bool {
		got, err := g.CanMerge(g.Context(), who, contract.Candidate{InProject: contract.In(g.project.ID), Repo: "mobile-app", Commit: id("m1"), AllowNone: open})
		return err == nil && got.OK()
	}},
	{"can-merge", "a check is the test of the contract: a named one, else a required one", "no", "`contract test`: the operator, the owner of the project", func(g *gatehouse, who hub.Caller, open bool) bool {
		change := contract.TestChange{InContract: contract.Of(g.project.ID, g.c.ID), Repo: "frontend-app", Check: contractTests}
		if open {
			_, err := g.Test(g.Context(), who, change)
			return err == nil
		}
		change.Remove = true
		_, err := g.Test(g.Context(), operator, change)
		g.ok(err)
		g.ran("a1", nil)
		return g.passes(who, "frontend-app", "a1")
	}},
	{"can-merge", "that test passed on the commit, or on an equal tree, for the version in force", "no", "", func(g *gatehouse, who hub.Caller, _ bool) bool {
		g.ran("a2", nil)
		return g.passes(who, "frontend-app", "a1")
	}},
	{"can-merge", "after a breaking or unknown change: the consumers that it concerns passed at the head of their target branch", "no", "", func(g *gatehouse, who hub.Caller, _ bool) bool {
		g.break2()
		g.run("backend-api", "b2", contract.VerifySuccess, 2)
		return g.passes(who, "backend-api", "b2")
	}},
	{"can-deploy", "the environment is declared", "error, exit code 2", "`contract env add`: the operator, the owner of the project", func(g *gatehouse, who hub.Caller, open bool) bool {
		if open {
			_, err := g.AddEnvironment(g.Context(), who, contract.EnvironmentChange{InProject: contract.In(g.project.ID), Name: "prdo"})
			return err == nil
		}
		g.ran("a1", nil)
		got, err := g.CanDeploy(g.Context(), who, contract.Candidate{InProject: contract.In(g.project.ID), Repo: "frontend-app", Commit: id("a1"), Env: "prdo"})
		return err == nil && got.OK()
	}},
	{"can-deploy", "the other side of each contract runs there", "no", "`--first`, for one answer while it does not: the operator, a token with `deploy` or `evidence`", func(g *gatehouse, who hub.Caller, open bool) bool {
		g.ran("a1", nil)
		got, err := g.CanDeploy(g.Context(), who, contract.Candidate{InProject: contract.In(g.project.ID), Repo: "frontend-app", Commit: id("a1"), Env: "prod", First: open})
		return err == nil && got.OK()
	}},
	{"can-deploy", "the tested versions fit those of the commits that run there", "no", "", func(g *gatehouse, who hub.Caller, _ bool) bool {
		g.ran("a1", nil)
		g.deploy("frontend-app", "prod", "a1")
		g.break2()
		g.run("backend-api", "b2", contract.VerifySuccess, 2)
		got, err := g.CanDeploy(g.Context(), who, contract.Candidate{InProject: contract.In(g.project.ID), Repo: "backend-api", Commit: id("b2"), Env: "prod"})
		return err == nil && got.OK()
	}},
	{"deployed", "the operator says so, or a token with `deploy`", "refused", "`project token --permissions deploy`: the operator", func(g *gatehouse, who hub.Caller, open bool) bool {
		if !open {
			who = g.front
		}
		_, err := g.Deployed(g.Context(), who, contract.Release{InProject: contract.In(g.project.ID), As: contract.As{Repo: "frontend-app"}, Env: "prod", Commit: id("a1")})
		return err == nil
	}},
	{"update", "after a breaking or unknown change: each consumer that it concerns agrees", "the version before stays in force", "the operator, for a consumer that is missing", func(g *gatehouse, who hub.Caller, open bool) bool {
		if !open {
			got, err := g.update(userSchema("name"))
			g.ok(err)
			return got.Contract.Status == coord.ContractAgreed
		}
		got, err := g.Respond(g.Context(), who, contract.Response{InContract: contract.Of(g.project.ID, g.c.ID), As: contract.As{Repo: "frontend-app"}, Action: contract.ActionAgree, Version: 2})
		return err == nil && got.Contract.Status == coord.ContractAgreed
	}},
}

// passes reports whether a commit may be merged.
func (g *gatehouse) passes(who hub.Caller, repo, commit string) bool {
	g.Helper()
	got, err := g.CanMerge(g.Context(), who, contract.Candidate{InProject: contract.In(g.project.ID), Repo: repo, Commit: id(commit)})
	g.ok(err)
	return got.OK()
}

// The table of the documents says what the code does: every gate is closed, and only those opens it
// that the table names.
func TestGateTable(t *testing.T) {
	var text strings.Builder
	text.WriteString("| gate | question | without | who may open it |\n|---|---|---|---|\n")
	for _, row := range gateRows {
		opens := row.opens
		if opens == "" {
			opens = "no one"
		}
		fmt.Fprintf(&text, "| `%s` | %s | %s | %s |\n", row.gate, row.question, row.without, opens)
		t.Run(row.gate+": "+row.question, func(t *testing.T) {
			g := newGatehouse(t)
			g.use(g.front)
			if row.pass(g, operator, false) {
				t.Fatal("the gate is open")
			}
			if row.opens == "" {
				return
			}
			if row.pass(g, g.mobile, true) {
				t.Error("the agent of another repository opened it")
			}
			if !row.pass(g, operator, true) {
				t.Error("the operator cannot open it")
			}
		})
	}

	doctable.Check(t, contractsDoc, "gates", text.String(), *updateTable)
}

// contractsDoc is the document with the tables of the gates of contracts.
const contractsDoc = "../../../docs/contracts.md"
