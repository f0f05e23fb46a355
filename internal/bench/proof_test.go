package bench_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/engine/sqlite"
	"github.com/parley-agents/parley/internal/reach/evidence"
	"github.com/parley-agents/parley/internal/service/handoff"
	"github.com/parley-agents/parley/internal/service/keys"
	"github.com/parley-agents/parley/internal/service/mailroom"
)

// benchRepository makes a repository of so many files, 100 in a folder, with one commit.
func (t *table) benchRepository(files int) string {
	dir, err := filepath.EvalSymlinks(t.b.TempDir())
	must(t.b, err)
	for i := range files {
		name := filepath.Join(dir, fmt.Sprintf("part%d", i/1000), fmt.Sprintf("d%d", i/100), fmt.Sprintf("f%d.go", i))
		if i%100 == 0 {
			must(t.b, os.MkdirAll(filepath.Dir(name), 0o700))
		}
		must(t.b, os.WriteFile(name, fmt.Appendf(nil, "package d%d\n\n// F%d is number %d.\nfunc F%d() int { return %d }\n", i/100, i, i, i, i), 0o600))
	}
	t.git(dir, "init", "-q", "-b", "main")
	t.git(dir, "add", "-A")
	t.git(dir, "commit", "-q", "-m", "all")
	return dir
}

func (t *table) git(dir string, args ...string) {
	cmd := exec.Command("git", append([]string{"-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "gc.auto=0"}, args...)...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.b.Fatalf("git %v: %v: %s", args, err, out)
	}
}

// proof measures the completion of a task in a large repository against one walk over its
// files that hashes each: a completion needs at least that.
func (t *table) proof() {
	const files, tasks = 20_000, 9
	b, dir := t.b, t.benchRepository(files)
	store, err := sqlite.Open(b.TempDir(), nil)
	must(b, err)
	_, err = keys.New(store, nil).EnsureOperator(b.Context(), "")
	must(b, err)
	addAgents(b, store)
	mail, err := mailroom.New(store, keys.New(store, nil), &mailroom.Options{Limits: mailroom.Limits{Unsafe: true}})
	must(b, err)
	inspector, err := evidence.New([]string{dir}, &evidence.Options{Kept: b.TempDir()})
	must(b, err)
	tasksOf := handoff.New(store, mail, &handoff.Options{Inspector: inspector})
	from, to := hub.Caller{ID: benchAgent(0)}, hub.Caller{ID: benchAgent(1)}

	var walks, completions []float64
	for i := range tasks {
		raw, err := json.Marshal(map[string]any{
			"task":       map[string]any{"task_id": fmt.Sprint("T-", i), "title": "t", "objective": "o", "success_criteria": []string{"c"}},
			"context":    map[string]any{"summary": "s"},
			"work_state": map[string]any{"next_step": "n", "worktree_path": dir},
		})
		must(b, err)
		h, err := tasksOf.Initiate(b.Context(), from, handoff.Proposal{To: to.ID, Package: raw})
		must(b, err)
		_, err = tasksOf.Accept(b.Context(), to, h.ID, "")
		must(b, err)
		changed := filepath.Join(dir, "part0", "d0", fmt.Sprintf("f%d.go", i))
		must(b, os.WriteFile(changed, []byte("package d0\n\nfunc Changed() {}\n"), 0o600))
		if i%2 == 0 {
			t.git(dir, "commit", "-q", "-a", "-m", "change")
		}

		began := time.Now()
		for _, c := range inspector.Check(b.Context(), evidence.RepositoryClaim{Path: dir, Worktree: true}) {
			if c.Result != hub.CheckVerified {
				b.Fatalf("walk: %+v", c)
			}
		}
		walks = append(walks, float64(time.Since(began).Milliseconds()))

		began = time.Now()
		got, err := tasksOf.Complete(b.Context(), to, h.ID, handoff.Completion{Summary: "done"})
		must(b, err)
		completions = append(completions, float64(time.Since(began).Milliseconds()))
		if got.Proof != hub.ProofVerified {
			b.Fatalf("got %s (%s), want verified", got.Proof, got.ProofReason)
		}
	}
	median := func(all []float64) float64 { return slices.Sorted(slices.Values(all))[len(all)/2] }
	t.ratio("complete in a repository of 20000 files, ms / one walk that hashes them", median(completions), median(walks), "ms", 1.5, false)
	must(b, store.Close())
}
