package bench_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/desk/cli"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/operation/rpc"
	"github.com/parley-agents/parley/internal/service/reservation"
	"github.com/parley-agents/parley/internal/work/fleet"
	"github.com/parley-agents/parley/server"
)

func init() { parts["guard"] = (*table).guard }

// guard measures the answer of the guard to an edit, with the process that a hook starts, against
// the shortest command of the program: 20 questions a second, of four agents in turn, in one working tree.
// Each edit is of the agent's own files, so that every question reserves or renews.
func (t *table) guard() {
	const agents, rate, files = 4, 20, 400
	b := t.b
	dir := t.benchRepository(files)
	home := b.TempDir()
	p := t.start(home, "--root", dir)
	defer p.stop()
	key, err := os.ReadFile(filepath.Join(home, server.OperatorKeyFile))
	must(b, err)
	operator := rpc.NewOperator("", p.url, strings.TrimSpace(string(key)), "")

	// Each agent has the environment below a launch.
	var env [][]string
	for i := range agents {
		got, err := rpc.Call(b.Context(), operator, api.AddAgent, api.AgentParams{ID: benchAgent(i), Role: hub.RoleExecutor})
		must(b, err)
		folder := b.TempDir()
		must(b, os.WriteFile(filepath.Join(folder, cli.KeyFile), []byte(got.Key+"\n"), 0o600))
		env = append(env, append(os.Environ(), fleet.LaunchVariable+"="+folder, "PARLEY_HOME="+home, "PARLEY_URL="+p.url))
	}

	ask := func(n int) {
		w := n % agents
		file := w*(files/agents) + n/agents%(files/agents)
		name := filepath.Join(dir, "part0", fmt.Sprintf("d%d", file/100), fmt.Sprintf("f%d.go", file))
		input, err := json.Marshal(map[string]any{
			"session_id": fmt.Sprint("s", w), "cwd": dir, "hook_event_name": "PreToolUse", "tool_name": "Write", "tool_input": map[string]string{"file_path": name},
		})
		if err != nil {
			b.Error(err)
		}
		cmd := exec.Command(p.cmd.Path, "guard", "hook", "claude")
		cmd.Env, cmd.Dir = env[w], dir
		cmd.Stdin = bytes.NewReader(input)
		if out, err := cmd.CombinedOutput(); err != nil || bytes.Contains(out, []byte("deny")) {
			b.Errorf("guard: %v: %s", err, out)
		}
	}
	version := func(n int) {
		cmd := exec.Command(p.cmd.Path, "version")
		cmd.Env, cmd.Dir = env[n%agents], dir
		if out, err := cmd.CombinedOutput(); err != nil {
			b.Errorf("version: %v: %s", err, out)
		}
	}

	type pair struct{ guard, version time.Duration }
	var all []pair
	for range loads {
		base := steady(rate, loadTime(b)/loads, version)
		all = append(all, pair{steady(rate, loadTime(b)/loads, ask), base})
	}
	slices.SortFunc(all, func(x, y pair) int {
		return cmp.Compare(float64(x.guard)/float64(x.version), float64(y.guard)/float64(y.version))
	})
	for _, r := range all {
		b.Logf("guard: %v, version: %v", r.guard, r.version)
	}
	middle := all[loads/2]
	millis := func(d time.Duration) float64 { return d.Seconds() * 1000 }
	t.ratio("the 99th percentile of the guard's answer to an edit, 20 a second / parley version", millis(middle.guard), millis(middle.version), "ms", 2, false)
	t.most("the same", millis(middle.guard), 150, "ms")

	// Every question must have reached the hub.
	got, err := rpc.Call(b.Context(), operator, api.ListFiles, reservation.Filter{Tree: dir})
	must(b, err)
	if len(got.Reservations) == 0 {
		b.Error("guard: no file was reserved")
	}
}
