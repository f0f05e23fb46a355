package bench_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/desk/cli"
	"github.com/parley-agents/parley/internal/desk/transcript"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/operation/rpc"
	"github.com/parley-agents/parley/internal/work/fleet"
	"github.com/parley-agents/parley/server"
)

func init() { parts["spend"] = (*table).spend }

// spend measures what counting tokens costs: the processor time of the reads for ten busy sessions,
// and a transcript of 1 GB that is read from its cursor.
//
// A busy session writes a model call each three seconds, with 40 kB of text, and ends a turn each
// minute; that is more than the CLIs were seen to do.
func (t *table) spend() {
	t.spendOfSessions()
	t.spendOfLarge()
}

// spentCall returns the lines of a model call with the text before it.
func spentCall(id string) string {
	const text = 40 << 10
	return fmt.Sprintf(`{"type":"user","message":{"content":%q}}`+"\n", strings.Repeat("y", text)) +
		fmt.Sprintf(`{"type":"assistant","message":{"id":%q,"model":"m","usage":{"input_tokens":1,"output_tokens":2}}}`+"\n", id)
}

// spendOfSessions measures the hooks of a minute of ten sessions: each turn starts one process that
// reads and tells.
func (t *table) spendOfSessions() {
	const sessions, callsOfMinute = 10, 20
	b := t.b
	home := b.TempDir()
	p := t.start(home)
	defer p.stop()
	key, err := os.ReadFile(filepath.Join(home, server.OperatorKeyFile))
	must(b, err)
	operator := rpc.NewOperator("", p.url, strings.TrimSpace(string(key)), "")
	got, err := rpc.Call(b.Context(), operator, api.AddAgent, api.AgentParams{ID: "busy", Role: hub.RoleExecutor})
	must(b, err)
	folder := b.TempDir()
	must(b, os.WriteFile(filepath.Join(folder, cli.KeyFile), []byte(got.Key+"\n"), 0o600))
	env := append(os.Environ(), fleet.LaunchVariable+"="+folder, "PARLEY_HOME="+home, "PARLEY_URL="+p.url)
	hook := func(session, path, name string) time.Duration {
		input, err := json.Marshal(map[string]any{"session_id": session, "cwd": home, "hook_event_name": name, "transcript_path": path})
		must(b, err)
		cmd := exec.Command(p.cmd.Path, "wake", "hook", "claude", name)
		cmd.Env = env
		cmd.Stdin = bytes.NewReader(input)
		out, err := cmd.CombinedOutput()
		if err != nil {
			b.Errorf("hook: %v: %s", err, out)
		}
		return cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	}
	dir := b.TempDir()
	paths := make([]string, sessions)
	for i := range paths {
		paths[i] = filepath.Join(dir, fmt.Sprintf("s%d.jsonl", i))
		must(b, os.WriteFile(paths[i], nil, 0o600))
		hook(fmt.Sprint("s", i), paths[i], "SessionStart")
	}
	turn := func(minute int, writes bool) (used time.Duration) {
		for i, path := range paths {
			f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0o600)
			must(b, err)
			for n := range callsOfMinute {
				if writes {
					_, err = f.WriteString(spentCall(fmt.Sprintf("c%d-%d-%d", i, minute, n)))
					must(b, err)
				}
			}
			f.Close()
			used += hook(fmt.Sprint("s", i), path, "Stop")
		}
		return used
	}

	// The same hooks with nothing to read are the baseline: they run for wakes anyway.
	const minutes = 6
	var reading, idle time.Duration
	for m := range minutes {
		idle += turn(m, false)
		reading += turn(m, true)
	}
	share := max(float64(reading-idle), 0) / float64(minutes*time.Minute) * 100
	t.fact("ten busy sessions: processor time for reading transcripts", fmt.Sprintf("%.2f %% of a core (target ≤ 1 %%); with the hooks themselves %.2f %%", share, float64(reading)/float64(minutes*time.Minute)*100))
}

// spendOfLarge measures a transcript of 1 GB, from its cursor and whole.
func (t *table) spendOfLarge() {
	b := t.b
	claude, err := cli.Lookup("claude")
	must(b, err)
	count := func(line []byte, model *string) (hub.ModelCall, bool, bool) {
		c, ok := claude.Count(line, model)
		return c.ModelCall, c.Bad, ok
	}

	large := filepath.Join(b.TempDir(), "large.jsonl")
	f, err := os.Create(large)
	must(b, err)
	w := bufio.NewWriterSize(f, 1<<20)
	for size, n := 0, 0; size < 1<<30; n++ {
		text := spentCall(fmt.Sprint("l", n%1000))
		size += len(text)
		_, err := w.WriteString(text)
		must(b, err)
	}
	must(b, w.Flush())
	end, err := transcript.End(large)
	must(b, err)
	_, err = f.WriteString(spentCall("new"))
	must(b, err)
	must(b, f.Close())
	began := time.Now()
	last, err := transcript.Read(b.Context(), large, end, count)
	must(b, err)
	took := time.Since(began)
	if len(last.Calls) != 1 {
		b.Errorf("from the cursor: %d calls, want 1", len(last.Calls))
	}
	began = time.Now()
	var from transcript.Cursor
	for {
		part, err := transcript.Read(b.Context(), large, from, count)
		must(b, err)
		from = part.Cursor
		if !part.More {
			break
		}
	}
	t.fact("a transcript of 1 GB: the next call, read from the cursor", fmt.Sprintf("%.1f ms; the whole file %.1f s", took.Seconds()*1000, time.Since(began).Seconds()))
}
