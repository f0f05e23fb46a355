package bench_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
	"github.com/parley-agents/parley/internal/engine/sqlite"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/operation/rpc"
	"github.com/parley-agents/parley/server"
)

func init() { parts["landing"] = (*table).landing }

// landing measures the cost of checks and landing queues beside the work of git and of the command.
func (t *table) landing() {
	t.emptyCheck()
	t.landingQueues()
}

// operatorOf returns a client of the operator of a hub.
func (t *table) operatorOf(p *process) *rpc.Client {
	key, err := os.ReadFile(filepath.Join(p.home, server.OperatorKeyFile))
	must(t.b, err)
	return rpc.NewOperator("", p.url, strings.TrimSpace(string(key)), "")
}

// emptyCheck compares a check that does nothing, in a clean worktree of 10,000 files, with the two
// things that it needs at least: git worktree add, and a process. The
// hub also removes its worktree, which the baseline does not.
func (t *table) emptyCheck() {
	const files, runs = 10_000, 9
	b := t.b
	dir := t.benchRepository(files)
	p := t.start(b.TempDir(), "--root", dir)
	defer p.stop()
	operator := t.operatorOf(p)
	repo := api.RepositoryParams{Repository: dir}
	_, err := rpc.Call(b.Context(), operator, api.AddCheck, api.AddCheckParams{RepositoryParams: repo, Name: "nothing", Command: []string{"true"}})
	must(b, err)
	wait := 100
	check := func() float64 {
		began := time.Now()
		got, err := rpc.Call(b.Context(), operator, api.RunCheck, api.RunCheckParams{CheckParams: api.CheckParams{RepositoryParams: repo, Name: "nothing"}, Again: true, Wait: &wait})
		must(b, err)
		if got.Result.State != hub.ResultPassed || !got.Result.Confined {
			b.Fatalf("check: %+v", got.Result)
		}
		return float64(time.Since(began).Microseconds()) / 1000
	}
	plain := func(i int) float64 {
		folder := filepath.Join(b.TempDir(), fmt.Sprint("tree", i))
		began := time.Now()
		t.git(dir, "worktree", "add", "-q", "--detach", folder, "HEAD")
		cmd := exec.Command("true")
		cmd.Dir = folder
		must(b, cmd.Run())
		took := float64(time.Since(began).Microseconds()) / 1000
		t.git(dir, "worktree", "remove", "--force", folder)
		return took
	}

	check() // the first one brings the history to the hub's copy
	var ours, baseline []float64
	for i := range runs {
		baseline = append(baseline, plain(i))
		ours = append(ours, check())
	}
	t.ratio(fmt.Sprintf("a check that does nothing, confined, in a clean worktree of %d files / git worktree add and a process", files), median(ours), median(baseline), "ms", 3, false)
}

// A benchQueue is a hub with a landing queue that has a history.
type benchQueue struct {
	t        *table
	p        *process
	operator *rpc.Client
	dir      string
	round    int
}

// landingQueues compares a queue of 100 entries after 5,000 landings with the same after 100.
func (t *table) landingQueues() {
	const entries, few, many, rounds = 100, 100, 5_000, 3
	var times, memory [2][]float64
	queues := []*benchQueue{t.newBenchQueue(few), t.newBenchQueue(many)}
	for _, q := range queues {
		defer q.p.stop()
	}
	for range rounds {
		for i, q := range queues {
			times[i] = append(times[i], q.land(entries))
			memory[i] = append(memory[i], q.p.resident())
		}
	}
	what := fmt.Sprintf("a queue of %d entries after %d landings / after %d", entries, many, few)
	t.ratio(what+": time", median(times[1]), median(times[0]), "ms", 1.5, false)
	t.ratio(what+": memory of the hub", median(memory[1]), median(memory[0]), "MB", 1.5, false)
}

// newBenchQueue makes a repository in which so many changes landed, and a hub that knows them. All
// histories have the same files.
func (t *table) newBenchQueue(landings int) *benchQueue {
	b := t.b
	root, err := filepath.EvalSymlinks(b.TempDir())
	must(b, err)
	q := &benchQueue{t: t, dir: filepath.Join(root, "app")}
	must(b, os.Mkdir(q.dir, 0o700))
	t.git(q.dir, "init", "-q", "-b", "main")
	merges := q.history(landings)
	home := b.TempDir()
	q.record(home, merges)

	q.p = t.start(home, "--root", root)
	q.operator = t.operatorOf(q.p)
	_, err = rpc.Call(b.Context(), q.operator, api.AddCheck, api.AddCheckParams{RepositoryParams: api.RepositoryParams{Repository: q.dir}, Name: "test", Command: []string{"true"}})
	must(b, err)
	_, err = rpc.Call(b.Context(), q.operator, api.SetLanding, api.LandingParams{Repo: q.dir, Into: "main", Checks: []string{"test"}, Review: hub.ReviewerNone, By: hub.LandingAuto})
	must(b, err)
	q.keep(home, merges)
	return q
}

// importing runs git fast-import.
func (q *benchQueue) importing(script string) {
	cmd := exec.Command("git", "fast-import", "--quiet", "--force")
	cmd.Dir = q.dir
	cmd.Stdin = strings.NewReader(script)
	out, err := cmd.CombinedOutput()
	if err != nil {
		q.t.b.Fatalf("git fast-import: %v: %s", err, out)
	}
}

// history makes merge commits in main, as landings do, and returns their names.
func (q *benchQueue) history(landings int) []string {
	const files = 100
	var s strings.Builder
	commit := func(branch string, mark int, lines string) {
		fmt.Fprintf(&s, "commit refs/heads/%s\nmark :%d\ncommitter t <t@example.com> %d +0000\ndata 4\nwork\n%s\n", branch, mark, 1_700_000_000+mark, lines)
	}
	var first strings.Builder
	for i := range files {
		fmt.Fprintf(&first, "M 100644 inline f%d\ndata 2\n0\n\n", i)
	}
	commit("main", 1, first.String())
	for i := range landings {
		text := fmt.Sprint(i, "\n")
		change := fmt.Sprintf("M 100644 inline f%d\ndata %d\n%s\n", i%files, len(text), text)
		commit("past", 2*i+2, fmt.Sprintf("from :%d\n%s", 2*i+1, change))
		commit("main", 2*i+3, fmt.Sprintf("from :%d\nmerge :%d\n%s", 2*i+1, 2*i+2, change))
	}
	q.importing(s.String())
	q.t.git(q.dir, "branch", "-q", "-D", "past")
	q.t.git(q.dir, "reset", "-q", "--hard", "main")
	out, err := exec.Command("git", "-C", q.dir, "rev-list", "--first-parent", "--merges", "main").Output()
	must(q.t.b, err)
	return strings.Fields(string(out))
}

// record writes landings, with the results of their checks, into the store of a hub.
func (q *benchQueue) record(home string, merges []string) {
	const together = 500
	b := q.t.b
	store, err := sqlite.Open(home, nil)
	must(b, err)
	defer store.Close()
	now := hub.Clock(time.Now).Now()
	owner := hub.Caller{ID: benchAgent(0)}
	for len(merges) > 0 {
		part := merges[:min(together, len(merges))]
		merges = merges[len(part):]
		must(b, store.Update(b.Context(), hub.SurvivesKill, func(tx hub.Tx) error {
			for _, merge := range part {
				r := hub.CheckResult{Repository: hub.Repository{Path: q.dir}, Name: "test", Command: []string{"true"}, Digest: "d", Commit: merge, Tree: merge, State: hub.ResultPassed, QueuedAt: now, EndedAt: now}
				if _, err := tx.WriteChecks().PutResult(r, ""); err != nil {
					return err
				}
				e := hub.LandingEntry{
					Repository: q.dir, Into: "main", Ref: merge, Branch: merge, Commit: merge, Tree: merge, Owner: owner.ID, Priority: hub.PriorityNormal,
					State: hub.EntryLanded, LandedCommit: merge, QueuedAt: now, MovedAt: now, Tries: 1,
				}
				id, err := tx.WriteLandings().PutEntry(e)
				if err != nil {
					return err
				}
				for _, action := range []actions.Action{actions.LandingQueued, actions.LandingTried, actions.LandingLanded} {
					if _, err := tx.Append(owner.Entry(now, action, string(id), map[string]string{"commit": merge})); err != nil {
						return err
					}
				}
			}
			return nil
		}))
	}
}

// keep keeps the landings in the hub's copy by names, as their checks do.
func (q *benchQueue) keep(home string, merges []string) {
	b := q.t.b
	copies, err := filepath.Glob(filepath.Join(home, "repositories", "*.git"))
	must(b, err)
	if len(copies) != 1 {
		b.Fatalf("copies: %v", copies)
	}
	var s strings.Builder
	for _, merge := range merges {
		fmt.Fprintf(&s, "create refs/parley/checked/%s %[1]s\n", merge)
	}
	cmd := exec.Command("git", "--git-dir="+copies[0], "update-ref", "--stdin")
	cmd.Stdin = strings.NewReader(s.String())
	out, err := cmd.CombinedOutput()
	if err != nil {
		b.Fatalf("git update-ref: %v: %s", err, out)
	}
}

// land queues branches and returns the milliseconds until all have landed.
func (q *benchQueue) land(entries int) float64 {
	b := q.t.b
	q.round++
	var s strings.Builder
	base, err := exec.Command("git", "-C", q.dir, "rev-parse", "main").Output()
	must(b, err)
	for i := range entries {
		name := fmt.Sprintf("r%d-%d", q.round, i)
		fmt.Fprintf(&s, "commit refs/heads/%s\ncommitter t <t@example.com> 1800000000 +0000\ndata 4\nwork\nfrom %sM 100644 inline new-%[1]s\ndata 3\nok\n\n", name, base)
	}
	q.importing(s.String())

	began := time.Now()
	for i := range entries {
		_, err := rpc.Call(b.Context(), q.operator, api.Land, api.LandParams{Ref: fmt.Sprintf("r%d-%d", q.round, i), Repo: q.dir})
		must(b, err)
	}
	for {
		got, err := rpc.Call(b.Context(), q.operator, api.ListLandings, api.LandingsParams{Repo: q.dir, Limit: 500})
		must(b, err)
		open, landed := 0, 0
		for _, e := range got.Entries[:min(entries, len(got.Entries))] {
			switch {
			case e.State.Open():
				open++
			case e.State == hub.EntryLanded:
				landed++
			}
		}
		if landed == entries {
			return float64(time.Since(began).Milliseconds())
		}
		if open == 0 {
			b.Fatalf("landing: %d of %d landed", landed, entries)
		}
		_, err = rpc.Call(b.Context(), q.operator, api.Inbox, api.InboxParams{WaitS: 1, NewOnly: true})
		must(b, err)
	}
}
