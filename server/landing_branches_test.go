package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
	"github.com/parley-agents/parley/internal/ground/process/confine"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/operation/rpc"
	"github.com/parley-agents/parley/internal/testing/patience"
	"github.com/parley-agents/parley/server"
)

// branchCheck is the operator's check: every module says ok, no pair is complete, and the test is
// there.
const branchCheck = `
for f in mod/*; do read -r line < "$f"; [ "$line" = ok ] || { echo "FAIL $f is broken"; exit 1; }; done
for a in pair/*.a; do [ -e "$a" ] || continue; [ -e "${a%.a}.b" ] && { echo "FAIL $a breaks with its twin"; exit 1; }; done
[ -e tests/one ] || { echo "FAIL a test was deleted"; exit 1; }
echo passed`

// A plantedBranch is a branch of a scripted agent, with the outcome that it must have.
type plantedBranch struct {
	name   string
	files  map[string]string // a file with the text "" is removed
	bad    bool
	reason string // a part of the reason with which a bad one is returned
	output string // a part of the output of the check that failed
}

// plantBranches returns n branches in random order, of which nine of ten are good: the others
// conflict with main, lie about their tests, or break together with another one.
func plantBranches(n int, random *rand.Rand) (out []plantedBranch) {
	const red = "with it, main fails the check test"
	for i := range n / 10 {
		name := fmt.Sprint("bad", i)
		switch i % 3 {
		case 0:
			out = append(out, plantedBranch{name: name, files: map[string]string{"shared.txt": "one\n" + name + "\nthree\n"}, bad: true, reason: "it conflicts with main in shared.txt"})
		case 1:
			files := map[string]string{"mod/" + name: "ok\n", "tests/one": "", "parley.yaml": "checks:\n  - name: test\n    command: \"true\"\n"}
			out = append(out, plantedBranch{name: name, files: files, bad: true, reason: red, output: "a test was deleted"})
		case 2:
			out = append(out, plantedBranch{name: name + "-a", files: map[string]string{"pair/" + name + ".a": "x\n"}})
			out = append(out, plantedBranch{name: name + "-b", files: map[string]string{"pair/" + name + ".b": "x\n"}})
		}
	}
	for i := len(out); i < n; i++ {
		name := fmt.Sprint("good", i)
		out = append(out, plantedBranch{name: name, files: map[string]string{"mod/" + name: "ok\n", "src/" + name + ".go": "package " + name + "\n"}})
	}
	random.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })

	// Of a pair, the branch that comes later is the bad one.
	seen := map[string]bool{}
	for i, b := range out {
		pair := strings.TrimRight(b.name, "ab")
		if !strings.HasSuffix(pair, "-") {
			continue
		}
		if seen[pair] {
			out[i].bad = true
			out[i].reason = red
			out[i].output = "breaks with its twin"
		}
		seen[pair] = true
	}
	return out
}

// plant commits branches from main, without checking them out.
func (r *landingRepo) plant(branches []plantedBranch) {
	r.t.Helper()
	base := r.git("rev-parse", "main")
	var b strings.Builder
	for _, p := range branches {
		fmt.Fprintf(&b, "commit refs/heads/%s\ncommitter agent <agent@example.com> 1700000000 +0000\ndata 4\nwork\nfrom %s\n", p.name, base)
		for path, text := range p.files {
			if text == "" {
				fmt.Fprintf(&b, "D %s\n", path)
				continue
			}
			fmt.Fprintf(&b, "M 100644 inline %s\ndata %d\n%s\n", path, len(text), text)
		}
	}
	cmd := exec.Command("git", "fast-import", "--quiet")
	cmd.Dir = r.dir
	cmd.Stdin = strings.NewReader(b.String())
	if out, err := cmd.CombinedOutput(); err != nil {
		r.t.Fatalf("git fast-import: %v: %s", err, out)
	}
}

// heads returns the heads that the queue gave to main, the oldest first. It fails if main was moved
// otherwise since the last commit of the test.
func (r *landingRepo) heads(commits int) (out []string) {
	r.t.Helper()
	lines := strings.Split(r.git("reflog", "show", "--format=%H %gs", "main"), "\n")
	for i, line := range lines {
		id, by, _ := strings.Cut(line, " ")
		isOurs := by == "parley: landed"
		if isOurs {
			out = append([]string{id}, out...)
		}
		if isOurs != (i < len(lines)-commits) {
			r.t.Errorf("main was moved by %q", by)
		}
	}
	return out
}

// check runs a check on the files of a commit, without any part of the hub.
func (r *landingRepo) check(commit, line string) (output string, passed bool) {
	r.t.Helper()
	dir := r.t.TempDir()
	tree := filepath.Join(dir, "tree")
	if err := os.Mkdir(tree, 0o755); err != nil {
		r.t.Fatal(err)
	}
	for _, args := range [][]string{{"read-tree", commit}, {"checkout-index", "--all", "--prefix=" + tree + "/"}} {
		cmd := exec.Command("git", args...)
		cmd.Dir = r.dir
		cmd.Env = append(os.Environ(), "GIT_INDEX_FILE="+filepath.Join(dir, "index"))
		if out, err := cmd.CombinedOutput(); err != nil {
			r.t.Fatalf("git %s: %v: %s", args[0], err, out)
		}
	}
	cmd := exec.Command("sh", "-c", line)
	cmd.Dir = tree
	out, err := cmd.CombinedOutput()
	return string(out), err == nil
}

// queueRuns returns the number of runs of checks on the hub.
func queueRuns(ctx context.Context, t *testing.T, operator *rpc.Client) (n int) {
	t.Helper()
	for cursor := hub.CheckResultID(""); ; {
		page := must(rpc.Call(ctx, operator, api.ListResults, api.ResultsParams{Cursor: cursor, Limit: 200}))(t)
		n += len(page.Results)
		if cursor = page.Next; cursor == "" {
			return n
		}
	}
}

// TestLandingBranches lets scripted agents land many branches at once, with planted conflicts, lies
// and pairs that pass alone and break together: main passes the check at every head that the queue
// gave it, every planted break is returned with its reason, and everything else lands.
//
// PARLEY_LANDING_BRANCHES is the number of branches (30), PARLEY_CHAOS_SEED repeats a run.
func TestLandingBranches(t *testing.T) {
	n := fromEnv(t, "PARLEY_LANDING_BRANCHES", 30)
	patience.Random(t, uint64(fromEnv(t, "PARLEY_CHAOS_SEED", 0)), 1, func(random *rand.Rand) { landBranches(t, n, random) })
}

// landBranches lands n random branches, and checks what became of each.
func landBranches(t *testing.T, n int, random *rand.Rand) {
	t.Helper()
	branches := plantBranches(n, random)
	ctx, cancel := context.WithTimeout(t.Context(), patience.For(2*time.Minute+time.Duration(n)*2*time.Second))
	defer cancel()
	r := newLandingRepo(t)
	r.write("tests/one", "1\n")
	r.write("shared.txt", "one\ntwo\nthree\n")
	r.commit("base")
	r.plant(branches)
	r.write("shared.txt", "one\nMAIN\nthree\n")
	r.commit("main goes on")
	commits := 3

	o := unlimited()
	o.Roots = []string{filepath.Dir(r.dir)}
	o.Checks = server.Checks{Program: program(t)}
	h := start(t, o)
	operator := h.as(h.operator)
	names := []hub.AgentID{"ada", "bob", "rex"}
	keys := h.add(t, names...)
	must(rpc.Call(ctx, operator, api.AddCheck, api.AddCheckParams{
		RepositoryParams: api.RepositoryParams{Repository: r.dir}, Name: "test", Command: []string{"sh", "-c", branchCheck}, Unconfined: confine.Supported() != nil,
	}))(t)
	must(rpc.Call(ctx, operator, api.SetLanding, api.LandingParams{Repo: r.dir, Into: "main", Checks: []string{"test"}, Review: hub.ReviewerNone, By: hub.LandingAuto}))(t)
	entries := map[string]hub.LandingID{}
	for i, b := range branches {
		got := must(rpc.Call(ctx, h.as(keys[i%len(keys)]), api.Land, api.LandParams{Ref: b.name, Repo: r.dir}))(t)
		entries[b.name] = got.Entries[0].ID
	}
	all := r.settle(ctx, operator)

	// A branch that changes what judges it has to wait for a word, which is no yes.
	for _, e := range all {
		if e.State == hub.EntryWaiting {
			must(rpc.Call(ctx, operator, api.GiveReview, api.ReviewParams{ID: string(e.ID), Verdict: hub.VerdictApprove}))(t)
		}
		isLie := slices.ContainsFunc(branches, func(b plantedBranch) bool { return b.name == e.Ref && b.files["parley.yaml"] != "" })
		if isLie != (e.State == hub.EntryWaiting) {
			t.Errorf("%s is %s (%s); does it change what judges it? %v", e.Ref, e.State, e.Reason, isLie)
		}
	}
	r.settle(ctx, operator)

	// Each agent got the reason of each of its entries that were returned.
	told := map[string]string{}
	for _, key := range keys {
		for {
			page := must(rpc.Call(ctx, h.as(key), api.Inbox, api.InboxParams{NewOnly: true, Limit: 100}))(t)
			for _, m := range page.Messages {
				told[string(m.Payload)] = string(m.Priority)
			}
			if len(page.Messages) == 0 {
				break
			}
		}
	}
	good := 0
	for _, b := range branches {
		e := must(rpc.Call(ctx, operator, api.ShowEntry, api.EntryParams{ID: entries[b.name]}))(t).Entries[0]
		if !b.bad {
			good++
			if e.State != hub.EntryLanded {
				t.Errorf("%s is %s (%s), want it landed", b.name, e.State, e.Reason)
				continue
			}
			r.git("merge-base", "--is-ancestor", e.LandedCommit, "main")
			continue
		}
		if e.State != hub.EntryReturned || !strings.Contains(e.Reason, b.reason) {
			t.Errorf("%s is %s (%s), want it returned: %s", b.name, e.State, e.Reason, b.reason)
		}
		if !isTold(told, e, b) {
			t.Errorf("the owner of %s was not told: %s, %s", b.name, b.reason, b.output)
		}
	}

	// Nothing that the hub says counts here: the check runs again on every head.
	heads := r.heads(commits)
	for _, head := range heads {
		if out, passed := r.check(head, branchCheck); !passed {
			t.Errorf("the queue gave main the head %s, which fails: %s", head, out)
		}
	}
	if got := r.git("rev-list", "--merges", "--count", "main"); got != fmt.Sprint(good) {
		t.Errorf("main has %s merge commits, want %d", got, good)
	}
	if got := r.git("status", "--porcelain"); got != "" {
		t.Errorf("the checked-out main is not clean: %s", got)
	}
	runs := queueRuns(ctx, t, operator)
	perGood := float64(runs) / float64(good)
	t.Logf("%d good branches, %d heads, %d runs of the queue, %.2f for each good one", good, len(heads), runs, perGood)
	if perGood > 0.9 {
		t.Errorf("%.2f runs for each good entry, want at most 0.9", perGood)
	}

	// A person lets one red change land, and opens the checks of another branch, both by name.
	ada := h.as(keys[0])
	r.branch("hotfix", "mod/hotfix", "broken\n")
	comes := func(id hub.LandingID, want hub.LandingState) {
		t.Helper()
		for {
			e := must(rpc.Call(ctx, operator, api.ShowEntry, api.EntryParams{ID: id}))(t).Entries[0]
			if isBusy := e.State == hub.EntryQueued || e.State == hub.EntryTrying; !isBusy {
				if e.State != want {
					t.Errorf("%s is %s: %s", e.Ref, e.State, e.Reason)
				}
				return
			}
			must(rpc.Call(ctx, operator, api.Inbox, api.InboxParams{WaitS: 1, NewOnly: true}))(t)
		}
	}
	hotfix := must(rpc.Call(ctx, ada, api.Land, api.LandParams{Ref: "hotfix", Repo: r.dir, Into: "main"}))(t).Entries[0].ID
	comes(hotfix, hub.EntryReturned)
	must(rpc.Call(ctx, operator, api.ApproveEntry, api.WaiveParams{ID: hotfix, Without: "test", Because: "the shop is down"}))(t)
	r.git("branch", "wild", "main")
	isOpen := true
	must(rpc.Call(ctx, operator, api.SetLanding, api.LandingParams{Repo: r.dir, Into: "wild", NoChecks: &isOpen, Review: hub.ReviewerNone, By: hub.LandingAuto}))(t)
	r.branch("unchecked", "mod/unchecked", "broken\n")
	unchecked := must(rpc.Call(ctx, ada, api.Land, api.LandParams{Ref: "unchecked", Repo: r.dir, Into: "wild"}))(t).Entries[0].ID
	comes(hotfix, hub.EntryLanded)
	comes(unchecked, hub.EntryLanded)

	// The journal explains each head, by evidence or by what a person opened by name; without its evidence
	// it explains none.
	journal := landingJournal(ctx, t, operator)
	last := []string{r.git("rev-parse", "main"), r.git("rev-parse", "wild")}
	for _, head := range unexplained(t, journal, slices.Concat(heads, last)) {
		t.Errorf("the journal does not explain the head %s", head)
	}
	for member, explains := range map[string]string{"asked": heads[0], "without": last[0], "open": last[1]} {
		if !slices.Contains(unexplained(t, stripped(t, journal, member), slices.Concat(heads, last)), explains) {
			t.Errorf("without the member %s, the head %s is still explained", member, explains)
		}
	}
	if got := must(rpc.Call(ctx, operator, api.Verify, api.VerifyParams{}))(t); len(got.Findings) > 0 {
		t.Errorf("audit: %v", got.Findings)
	}
}

// landingJournal returns the entries of the journal about policies and landings, oldest first.
func landingJournal(ctx context.Context, t *testing.T, operator *rpc.Client) (out []hub.Entry) {
	t.Helper()
	for after := int64(0); ; {
		page := must(rpc.Call(ctx, operator, api.Audit, api.AuditParams{After: after, Limit: 1000}))(t)
		for _, e := range page.Entries {
			after = e.Seq
			if e.Action == actions.LandingSet || e.Action == actions.LandingLanded {
				out = append(out, e)
			}
		}
		if len(page.Entries) == 0 {
			return out
		}
	}
}

// stripped returns entries without one member of their facts.
func stripped(t *testing.T, journal []hub.Entry, member string) (out []hub.Entry) {
	t.Helper()
	for _, e := range journal {
		facts := map[string]json.RawMessage{}
		if err := json.Unmarshal(e.Facts, &facts); err != nil {
			t.Fatal(err)
		}
		delete(facts, member)
		e.Facts, _ = json.Marshal(facts) // what was read can be written
		out = append(out, e)
	}
	return out
}

// unexplained returns those of some heads of target branches that the journal does not explain: by the
// policy in force, of which each check passed on that head, or whose checks a person opened, or by the word
// of a person for each check that is missing.
func unexplained(t *testing.T, journal []hub.Entry, heads []string) []string {
	t.Helper()
	type policy struct {
		Checks, Open []string
	}
	policies := map[string]policy{} // by branch
	explained := map[string]bool{}
	refused := map[string]bool{}
	for _, e := range journal {
		var f struct {
			policy
			Into, Commit, Head string
			Asked              []hub.GateEvidence
			Without            []hub.Waiver
		}
		if err := json.Unmarshal(e.Facts, &f); err != nil {
			t.Fatal(err)
		}
		if e.Action == actions.LandingSet {
			policies[f.Into] = f.policy
			continue
		}
		in := policies[f.Into]
		isGood := len(in.Checks) > 0 || slices.Contains(in.Open, hub.GateChecks)
		for _, name := range in.Checks {
			passed := func(v hub.GateEvidence) bool {
				return v.What == "check "+name && v.Of == f.Head && v.By == hub.Self && strings.Contains(v.Evidence, " passed")
			}
			allowed := func(v hub.Waiver) bool {
				return (v.What == name || v.What == hub.GateChecks) && v.Commit == f.Commit && v.By == hub.Operator && v.Because != ""
			}
			isGood = isGood && (slices.ContainsFunc(f.Asked, passed) || slices.ContainsFunc(f.Without, allowed))
		}
		explained[f.Head] = true
		refused[f.Head] = refused[f.Head] || !isGood
	}
	return slices.DeleteFunc(slices.Clone(heads), func(head string) bool { return explained[head] && !refused[head] })
}

// isTold reports whether one of the messages, which have their priorities, gives the reason of a
// returned entry.
func isTold(messages map[string]string, e hub.LandingEntry, b plantedBranch) bool {
	for text, priority := range messages {
		isOfEntry := strings.Contains(text, fmt.Sprintf("%q:%q", "landing", e.ID))
		if isOfEntry && priority == string(hub.PriorityHigh) && strings.Contains(text, b.reason) && strings.Contains(text, b.output) {
			return true
		}
	}
	return false
}
