package server_test

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/coord"
	"github.com/parley-agents/parley/internal/engine/sqlite"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/operation/coordination"
	"github.com/parley-agents/parley/internal/operation/rpc"
	"github.com/parley-agents/parley/internal/service/contract"
)

// A home of the version before environments were declared: those that the operator or CI deployed to
// are declared, those of agents stay unknown, and the operator reads once how to take each back.
func TestEnvironmentsOfBefore(t *testing.T) {
	ctx := t.Context()
	o := unlimited()
	o.Home = newHome(t, o)
	h := start(t, o)
	operator := h.as(h.operator)
	project := must(rpc.Call(ctx, operator, coordination.CreateProject, coordination.NewProject{
		Name: "shop", Objective: "sell", Repos: []coordination.NewRepo{{Name: "api", Role: "backend", Language: "go"}},
	}))(t).Project
	h.stop()

	// The rows as that version wrote them.
	store, err := sqlite.Open(o.Home, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = store.Update(ctx, hub.SurvivesKill, func(tx hub.Tx) error {
		p, err := tx.Coordination().Project(project)
		if err != nil {
			return err
		}
		for _, d := range []struct{ env, by string }{{"prod", "peer:aid://ci.example/ci@1.0.0"}, {"staging", string(hub.Operator)}, {"prdo", "bob"}} {
			row := coord.Deployment{Project: project, Repo: p.Repos[0].ID, Env: d.env, Commit: strings.Repeat("a", 40), By: d.by, At: coord.InstantAt(time.Date(2026, 11, 1, 10, 0, 0, 0, time.UTC))}
			if _, err := tx.WriteCoordination().AddDeployment(row); err != nil {
				return err
			}
		}
		return hub.WriteMeta(tx, "contract.environments", false)
	})
	if err == nil {
		err = store.Close()
	}
	if err != nil {
		t.Fatal(err)
	}

	for _, name := range []string{"first", "second"} { // start
		h = start(t, o)
		operator = h.as(h.operator)
		var lines []string
		for _, m := range must(rpc.Call(ctx, operator, api.Inbox, api.InboxParams{}))(t).Messages {
			var p struct {
				Event  string
				Events []string
			}
			if json.Unmarshal(m.Payload, &p) == nil && p.Event == "environments declared" {
				lines = append(lines, p.Events...)
			}
		}
		id := string(project)
		want := []string{
			"prod is declared now; if it is misspelt: parley contract env remove prod --project " + id + " --anyway",
			"staging is declared now; if it is misspelt: parley contract env remove staging --project " + id + " --anyway",
			"prdo was recorded by agents only and stays unknown; if it is one: parley contract env add prdo --project " + id,
		}
		if !slices.Equal(lines, want) {
			t.Errorf("after the %s start the operator reads %q", name, lines)
		}

		in := coordination.InProject{Project: project}
		ask := func(env string) error {
			_, err := rpc.Call(ctx, operator, coordination.CanDeploy, coordination.ReadyParams{Candidate: contract.Candidate{InProject: in, Repo: "api", Commit: strings.Repeat("a", 40), Env: env}})
			return err
		}
		if err := ask("prod"); err != nil {
			t.Errorf("prod: %v", err)
		}
		if err := ask("prdo"); err == nil || !strings.Contains(err.Error(), "no environment named") {
			t.Errorf("prdo: %v", err)
		}
		h.stop()
	}
}

// The answer to a token for results of a check names the hub's checks if that is none of them.
func TestTokenForUnknownCheck(t *testing.T) {
	d := newDesk(t)
	repo := filepath.Base(d.dir)
	project := must(rpc.Call(d.ctx, d.operator, coordination.CreateProject, coordination.NewProject{
		Name: "shop", Objective: "sell", Repos: []coordination.NewRepo{{Name: repo, Role: "backend", Language: "go"}},
	}))(t).Project
	mint := func(check string) string {
		t.Helper()
		return must(rpc.Call(d.ctx, d.operator, coordination.MintToken, coordination.TokenParams{
			InProject: coordination.InProject{Project: project}, Agent: "aid://ci.example/ci@1.0.0", Permissions: []coord.Permission{coord.PermitRead, coord.PermitEvidence}, Repo: repo, Checks: []string{check},
		}))(t).Note
	}
	if note := mint("tst"); note != "" {
		t.Errorf("a repository without checks here: %q", note)
	}
	d.allow(d.ctx, d.operator, api.LandingParams{Review: "operator"}) // for the check test
	if note := mint("tst"); note != "tst is no check of "+repo+" on this hub, whose checks are test: right if CI alone runs it" {
		t.Errorf("a misspelt check: %q", note)
	}
	if note := mint("test"); note != "" {
		t.Errorf("a check of the hub: %q", note)
	}
}
