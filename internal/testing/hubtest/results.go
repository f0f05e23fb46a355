package hubtest

import (
	"fmt"
	"reflect"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/coord"
)

// aResult returns the result of a test whose every member is set.
func aResult(contract coord.ContractID, repo coord.RepoID, commit string) coord.ContractResult {
	return coord.ContractResult{
		Project: "p", Contract: contract, Repo: repo, Version: 2, Content: "h", Commit: commit, Tree: "tree of " + commit, Branch: "main", Build: "https://ci/1",
		Check: "test", Kind: coord.ResultRun, Result: coord.ResultSuccess, By: "ci", At: at(3),
	}
}

var resultTests = []storeTest{
	{"results are numbered, and found by contract, repository, commit and tree", func(w *world) {
		plain := coord.ContractResult{Project: "p", Contract: "c2", Repo: "r1", Version: 1, Commit: "x", Kind: coord.ResultSaid, Result: "failure", At: at(4)}
		all := []coord.ContractResult{aResult("c1", "r1", "x"), aResult("c1", "r2", "y"), aResult("c1", "r1", "z"), plain}
		w.update(func(tx hub.Tx) error {
			for i := range all {
				var err error
				if all[i], err = tx.WriteCoordination().AddResult(all[i]); err != nil {
					return err
				}
			}
			return nil
		})
		for _, c := range []struct {
			q    coord.ResultQuery
			want []coord.ContractResult
		}{
			{coord.ResultQuery{Limit: 10}, []coord.ContractResult{all[3], all[2], all[1], all[0]}},
			{coord.ResultQuery{Before: 3, Limit: 1}, all[1:2]},
			{coord.ResultQuery{Contract: "c1", Repo: "r1", Limit: 10}, []coord.ContractResult{all[2], all[0]}},
			{coord.ResultQuery{Repo: "r1", Commit: "x", Limit: 10}, []coord.ContractResult{all[3], all[0]}},
			{coord.ResultQuery{Repo: "r1", Tree: "tree of z", Limit: 10}, all[2:3]},
			{coord.ResultQuery{Version: 1, Limit: 10}, all[3:]},
			{coord.ResultQuery{Kind: coord.ResultSaid, Limit: 10}, all[3:]},
		} {
			c.q.Project = "p"
			w.view(func(r hub.Reader) error {
				got, err := r.Coordination().Results(c.q)
				if err == nil && !reflect.DeepEqual(got, c.want) {
					err = fmt.Errorf("%+v: got %+v, want %+v", c.q, got, c.want)
				}
				return err
			})
		}
		w.view(func(r hub.Reader) error {
			got, err := r.Coordination().NewestResults("p", "", "c1")
			if want := []coord.ContractResult{all[2], all[1]}; err == nil && !reflect.DeepEqual(got, want) {
				err = fmt.Errorf("newest: got %+v, want %+v", got, want)
			}
			return err
		})
	}},
	{"the newest deployment of each repository in an environment is found", func(w *world) {
		all := []coord.Deployment{
			{Project: "p", Repo: "r1", Env: "prod", Commit: "x", Tree: "t", By: "ci", At: at(1)}, {Project: "p", Repo: "r1", Env: "prod", Commit: "y", At: at(2)},
			{Project: "p", Repo: "r2", Env: "prod", Commit: "z", At: at(3)}, {Project: "p", Repo: "r1", Env: "test", Commit: "w", At: at(4)},
		}
		w.update(func(tx hub.Tx) error {
			for i := range all {
				var err error
				if all[i], err = tx.WriteCoordination().AddDeployment(all[i]); err != nil {
					return err
				}
			}
			return nil
		})
		w.view(func(r hub.Reader) error {
			got, err := r.Coordination().NewestDeployments("p", "prod")
			if err == nil && !reflect.DeepEqual(got, all[1:3]) {
				err = fmt.Errorf("newest: got %+v, want %+v", got, all[1:3])
			}
			return err
		})
		w.view(func(r hub.Reader) error {
			got, err := r.Coordination().Deployments(coord.DeploymentQuery{Project: "p", Repo: "r1", Limit: 2})
			if want := []coord.Deployment{all[3], all[1]}; err == nil && !reflect.DeepEqual(got, want) {
				err = fmt.Errorf("got %+v, want %+v", got, want)
			}
			return err
		})
	}},
	{"a verdict is stored and replaced", func(w *world) {
		v := coord.StoredVerdict{Project: "p", Contract: "c", Pair: "x", Rules: 1, Body: "{}"}
		w.refuse(hub.CodeNotFound, func(tx hub.Tx) error { _, err := tx.Coordination().Verdict("p", "c", "x"); return err })
		for range 2 {
			v.Rules++
			w.update(func(tx hub.Tx) error { return tx.WriteCoordination().PutVerdict(v) })
			w.view(func(r hub.Reader) error {
				got, err := r.Coordination().Verdict("p", "c", "x")
				if err == nil && got != v {
					err = fmt.Errorf("got %+v, want %+v", got, v)
				}
				return err
			})
		}
	}},
}
