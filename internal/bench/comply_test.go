//go:build unix

package bench_test

import (
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/parley-agents/parley/internal/testing/proof"
	"github.com/parley-agents/parley/protocol/comply"
)

func init() { parts["comply"] = (*table).suite }

// suite measures the whole suite of version 1 with the good agent, and the processor time of the
// runner, which is this process. The agents are processes of their own.
func (t *table) suite() {
	dir := t.b.TempDir()
	for _, name := range []string{"cmd/parley", "scripts/goodagent"} {
		out, err := exec.Command("go", "build", "-o", filepath.Join(dir, filepath.Base(name)), "./"+name).CombinedOutput()
		if err != nil {
			t.b.Fatalf("build %s: %v: %s", name, err, out)
		}
	}
	all, err := comply.Suite()
	must(t.b, err)
	began, used := time.Now(), processorTime()
	report, err := comply.Run(t.b.Context(), []comply.Agent{{Name: "goodagent", Command: filepath.Join(dir, "goodagent")}}, proof.Applicable(all, 1), &comply.Options{Jobs: 4, MCPServer: filepath.Join(dir, "parley")})
	must(t.b, err)
	wall, own := time.Since(began), processorTime()-used
	if report.Failed() {
		t.b.Errorf("the good agent failed: %v", report.Agents[0].Totals)
	}
	t.ratio("comply: the suite of version 1, 4 jobs; the baseline is 15 s", wall.Seconds()*1000, 15000, "ms", 1, false)
	var tests int64
	for _, r := range report.Agents[0].Tests {
		tests += r.DurationMs
	}
	t.ratio("processor time of its runner; the baseline is the time of its tests, added up", own.Seconds()*1000, float64(tests), "ms", 0.05, false)
}

// processorTime returns the processor time of this process, without its children.
func processorTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
