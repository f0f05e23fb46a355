package hubtest

import (
	"encoding/json"
	"reflect"
	"time"

	"github.com/parley-agents/parley/hub"
)

// aRepository is the repository of the tests of checks.
var aRepository = hub.Repository{Machine: "desk", Path: "/src/shop"}

// aCheck returns a check whose every member is set.
func aCheck(name string) hub.RepositoryCheck {
	network := false
	c := hub.RepositoryCheck{
		Repository: aRepository, Name: name, Command: []string{"go", "test", "./..."}, Setup: []string{"sh", "-c", "npm ci"}, SetupKey: []string{"package-lock.json"},
		Keep: []string{"node_modules"}, Env: map[string]string{"CI": "1"}, Writable: []string{"/cache"}, Timeout: hub.Duration(10 * time.Minute), Network: &network,
		JUnit: "report.xml", Required: true, When: []string{"src"}, Unconfined: true, InPlace: true, Trusted: true, AddedBy: hub.Operator, AddedAt: epoch,
	}
	c.Digest = c.RunDigest()
	return c
}

// aCheckResult returns a result whose every stored member is set, but no id.
func aCheckResult(name, tree string, s hub.CheckState) hub.CheckResult {
	return hub.CheckResult{
		Repository: aRepository, Name: name, Command: []string{"go", "test", "./..."}, Digest: "d", Commit: "c", Tree: tree, State: s, ExitCode: 3, Millis: 1200,
		Confined: true, Level: 2, Not: []string{"priorities"}, InPlace: true, Before: "b", After: "a", Tests: &hub.TestCount{Total: 41, Failed: 2, Skipped: 1},
		Output: hub.CheckOutput{Bytes: 9, SHA256: "s", Tail: "the end", Artifact: "s"}, Reason: "r", Again: true, Fills: true, By: "builder", Handoff: "h", Worktree: "/src/shop",
		QueuedAt: epoch, StartedAt: epoch.Add(time.Second), EndedAt: epoch.Add(2 * time.Second),
	}
}

// putResult stores a new result and returns it with its id.
func (w *world) putResult(r hub.CheckResult) hub.CheckResult {
	w.update(func(tx hub.Tx) (err error) {
		r.ID, err = tx.WriteChecks().PutResult(r, "")
		return err
	})
	return r
}

// results returns the results that match a query.
func (w *world) results(q hub.CheckResultQuery) (out []hub.CheckResult) {
	q.Limit = 100
	w.view(func(r hub.Reader) (err error) {
		out, err = r.Checks().Results(q)
		return err
	})
	return out
}

var checkTests = []storeTest{
	{"checks are read as they were stored, by name, and apart for each repository", func(w *world) {
		test, build := aCheck("test"), aCheck("build")
		elsewhere := hub.RepositoryCheck{Repository: hub.Repository{Machine: "other", Path: aRepository.Path}, Name: "test", Command: []string{"make"}}
		w.update(func(tx hub.Tx) error {
			for _, c := range []hub.RepositoryCheck{test, elsewhere, build} {
				if err := tx.WriteChecks().PutCheck(c); err != nil {
					return err
				}
			}
			return nil
		})
		w.store = w.reopen()
		w.view(func(r hub.Reader) error {
			got, err := r.Checks().OfRepository(aRepository)
			if want := []hub.RepositoryCheck{build, test}; !reflect.DeepEqual(got, want) {
				w.Errorf("got %+v, want %+v", got, want)
			}
			all, _ := r.Checks().All()
			if len(all) != 3 || !reflect.DeepEqual(all[2], elsewhere) {
				w.Errorf("all: got %+v", all)
			}
			return err
		})
	}},
	{"a check is replaced by its name, and one that is removed is gone", func(w *world) {
		c := aCheck("test")
		w.update(func(tx hub.Tx) error { return tx.WriteChecks().PutCheck(c) })
		c.Command = []string{"make", "test"}
		w.update(func(tx hub.Tx) error { return tx.WriteChecks().PutCheck(c) })
		w.view(func(r hub.Reader) error {
			got, err := r.Checks().OfRepository(aRepository)
			if err == nil && !reflect.DeepEqual(got, []hub.RepositoryCheck{c}) {
				w.Errorf("got %+v, want %+v", got, c)
			}
			return err
		})
		w.update(func(tx hub.Tx) error { return tx.WriteChecks().RemoveCheck(aRepository, "test") })
		w.refuse(hub.CodeNotFound, func(tx hub.Tx) error { return tx.WriteChecks().RemoveCheck(aRepository, "test") })
	}},
	{"a repository has one policy, and the zero one before the operator made it", func(w *world) {
		p := hub.CheckPolicy{Repository: aRepository, Trusted: "d", Commit: "c", TrustedBy: hub.Operator, TrustedAt: epoch, Require: true}
		for _, want := range []hub.CheckPolicy{{Repository: aRepository}, p} {
			w.view(func(r hub.Reader) error {
				got, err := r.Checks().Policy(aRepository)
				if got != want {
					w.Errorf("got %+v, want %+v", got, want)
				}
				return err
			})
			w.update(func(tx hub.Tx) error { return tx.WriteChecks().PutPolicy(p) })
		}
	}},
	{"results get ids in order and are found by every member of a query, newest first", func(w *world) {
		first := w.putResult(aCheckResult("test", "t1", hub.ResultFailed))
		second := w.putResult(aCheckResult("build", "t1", hub.ResultPassed))
		other := aCheckResult("test", "t2", hub.ResultQueued)
		other.Commit, other.Digest, other.Handoff = "c2", "d2", ""
		third := w.putResult(other)
		if first.ID != "c1" || third.ID != "c3" {
			w.Errorf("ids: got %s and %s, want c1 and c3", first.ID, third.ID)
		}

		w.store = w.reopen()
		for _, r := range []*hub.CheckResult{&first, &second, &third} {
			r.Output.Tail = "" // lists are without it
		}
		for _, q := range []struct {
			query hub.CheckResultQuery
			want  []hub.CheckResult
		}{
			{hub.CheckResultQuery{}, []hub.CheckResult{third, second, first}},
			{hub.CheckResultQuery{Repository: aRepository, Name: "test"}, []hub.CheckResult{third, first}},
			{hub.CheckResultQuery{Repository: hub.Repository{Path: "/other"}}, nil},
			{hub.CheckResultQuery{Tree: "t1", Digest: "d"}, []hub.CheckResult{second, first}},
			{hub.CheckResultQuery{Commit: "c2"}, []hub.CheckResult{third}},
			{hub.CheckResultQuery{Handoff: "h"}, []hub.CheckResult{second, first}},
			{hub.CheckResultQuery{States: []hub.CheckState{hub.ResultQueued, hub.ResultFailed}}, []hub.CheckResult{third, first}},
			{hub.CheckResultQuery{Cursor: third.ID}, []hub.CheckResult{second, first}},
		} {
			if got := w.results(q.query); !reflect.DeepEqual(got, q.want) {
				w.Errorf("%+v: got %+v, want %+v", q.query, got, q.want)
			}
		}
	}},
	{"a result is moved by one caller, and keeps the end of its output", func(w *world) {
		queued := aCheckResult("test", "t", hub.ResultQueued)
		queued.Output = hub.CheckOutput{}
		r := w.putResult(queued)
		was := r.State
		r.State = hub.ResultRunning
		w.update(func(tx hub.Tx) error { _, err := tx.WriteChecks().PutResult(r, was); return err })
		w.refuse(hub.CodeConflict, func(tx hub.Tx) error { _, err := tx.WriteChecks().PutResult(r, was); return err })

		done := r
		done.State = hub.ResultPassed
		done.Output = hub.CheckOutput{Bytes: 3, SHA256: "s", Tail: "end", Artifact: "s"}
		w.update(func(tx hub.Tx) error { _, err := tx.WriteChecks().PutResult(done, hub.ResultRunning); return err })
		removed := done
		removed.Output.Artifact, removed.Output.Tail = "", ""
		w.update(func(tx hub.Tx) error { _, err := tx.WriteChecks().PutResult(removed, hub.ResultPassed); return err })
		w.view(func(rd hub.Reader) error {
			got, err := rd.Checks().Result(r.ID)
			if err == nil && !reflect.DeepEqual(got, removed) {
				w.Errorf("got %+v, want %+v", got, removed)
			}
			tail, _ := rd.Checks().Tail(r.ID)
			if tail != "end" {
				w.Errorf("the end of the output: got %q", tail)
			}
			if none, err := rd.Checks().Tail("c77"); none != "" || err != nil {
				w.Errorf("of no result: got %q, %v", none, err)
			}
			return err
		})
		w.view(func(rd hub.Reader) error {
			if _, err := rd.Checks().Result("c77"); hub.CodeOf(err) != hub.CodeNotFound {
				w.Errorf("no result: got %v", err)
			}
			return nil
		})
	}},
	{"the progress of a subject is moved by one caller, and subjects whose checks run are found", func(w *world) {
		fresh := hub.NewProgress("h")
		p := hub.Progress{
			Subject: "h", Repository: aRepository, Worktree: "/src/shop", Commit: "c", Tree: "t", Base: "b", Proof: hub.ProofVerified, Checks: hub.ChecksRunning,
			Names: []string{"test"}, Results: []hub.CheckResultID{"c1"}, Review: hub.ReviewApproved, Landing: hub.LandingLanded, Landed: "m",
			Reason: "r", Actor: "builder", Claim: json.RawMessage(`{"summary":"done"}`), UpdatedAt: epoch,
		}
		read := func(want hub.Progress) {
			w.view(func(r hub.Reader) error {
				got, err := r.Checks().Progress("h")
				if err == nil && !reflect.DeepEqual(got, want) {
					w.Errorf("got %+v, want %+v", got, want)
				}
				return err
			})
		}
		read(fresh)
		w.update(func(tx hub.Tx) error { return tx.WriteChecks().PutProgress(p) })
		w.update(func(tx hub.Tx) error { return tx.WriteChecks().PutProgress(hub.NewProgress("other")) })
		w.refuse(hub.CodeConflict, func(tx hub.Tx) error { return tx.WriteChecks().PutProgress(p) })
		p.Revision = 1
		read(p)
		w.view(func(r hub.Reader) error {
			got, err := r.Checks().Checking()
			if err == nil && !reflect.DeepEqual(got, []hub.Progress{p}) {
				w.Errorf("running: got %+v, want %+v", got, p)
			}
			return err
		})

		p.Checks, p.Claim = hub.ChecksPassed, nil
		w.update(func(tx hub.Tx) error { return tx.WriteChecks().PutProgress(p) })
		w.refuse(hub.CodeConflict, func(tx hub.Tx) error { return tx.WriteChecks().PutProgress(p) })
		p.Revision = 2
		w.store = w.reopen()
		read(p)
	}},
}
