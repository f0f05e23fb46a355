//go:build unix

package comply_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/parley-agents/parley/internal/testing/goodagent"
	"github.com/parley-agents/parley/internal/testing/patience"
	"github.com/parley-agents/parley/protocol/comply"
)

// TestHostile gives the runner agents that mean harm. It must stay up, judge them
// rightly, and leave nothing behind, which playWith looks at.
func TestHostile(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "secret.txt")
	if err := os.WriteFile(outside, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	read := func(path string) string {
		return `call fs/read_text_file {"sessionId":"${sessionId}","path":"` + path + `"}`
	}
	write := func(path string) string {
		return `call fs/write_text_file {"sessionId":"${sessionId}","path":"` + path + `","content":"mine"}`
	}
	run := func(params string) string {
		return `call terminal/create {"sessionId":"${sessionId}",` + params + `}`
	}
	link := func(target, name string) []string {
		return []string{prompt(1, "link "+target+" ${sandbox}/"+name), expect(`{"response": {"id": 1}}`)}
	}
	refused := expect(chunk(`"error"`))
	for _, c := range []struct {
		name  string
		steps []string
		want  comply.Status
		rule  string // that must be found to be broken; "" for none
	}{
		{"R4-069 no link leads out to read", append(link(outside, "way"), prompt(2, read("${sandbox}/way")), refused), comply.Pass, ""},
		{"R4-069 no link leads out to write", append(link(outside, "way"), prompt(2, write("${sandbox}/way")), refused), comply.Pass, ""},
		{"R4-069 no linked folder leads out", append(link(filepath.Dir(outside), "folder"), prompt(2, read("${sandbox}/folder/secret.txt")), refused), comply.Pass, ""},
		{"R4-069 no linked folder leads out to a new file", append(link(filepath.Dir(outside), "folder"), prompt(2, write("${sandbox}/folder/new.txt")), refused), comply.Pass, ""},
		{"R4-069 no command starts in a linked folder", append(link(filepath.Dir(outside), "folder"), prompt(2, run(`"command":"pwd","cwd":"${sandbox}/folder"`)), refused), comply.Pass, ""},
		{"R4-069 a path with dots does not lead out", []string{prompt(2, read("${sandbox}/x/../../../etc/passwd")), refused}, comply.Pass, ""},
		{"R4-067 deep messages are read or refused", []string{prompt(2, "deep 9000"), prompt(3, "deep 200000"), expect(`{"response": {"id": 2}}`, `{"response": {"id": 3}}`)}, comply.Fail, "TRN-01"},
		{"R4-067 garbage is named", []string{prompt(2, "garbage"), expect(`{"response": {"id": 2}}`)}, comply.Fail, "TRN-01"},
		{"R4-067 complaints are not kept", []string{prompt(2, "complain 64"), expect(`{"response": {"id": 2}}`)}, comply.Pass, ""},
		{"R4-067 commands that nobody waits for are ended", []string{prompt(2, "ask 200"), expect(`{"response": {"id": 2}}`)}, comply.Pass, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got := playWith(t, agent(t, "none"), steps(c.steps...), &comply.Options{TimeoutScale: 20}) // it is the end that is awaited, not the time
			wantStatus(t, got, c.want)
			if c.rule != "" {
				wantFinding(t, got, c.rule)
			}
		})
	}
	t.Run("R4-069 what is outside stays as it was", func(t *testing.T) {
		entries, err := os.ReadDir(filepath.Dir(outside))
		if text, _ := os.ReadFile(outside); err != nil || string(text) != "secret" || len(entries) != 1 {
			t.Errorf("got %q in %v (%v)", text, entries, err)
		}
	})
	t.Run("R4-067 a process that escapes does not hold up the test", func(t *testing.T) {
		syscall.Kill(childOf(t, "escape"), syscall.SIGKILL) // it has ended, except where it is out of reach
	})
	t.Run("R4-067 a command of a terminal ends with the test", func(t *testing.T) {
		dir := t.TempDir()
		mark := filepath.Join(dir, "pid")
		got := play(t, "none", steps(prompt(1, run(`"command":"sh","args":["-c","echo $$ > `+mark+`; echo > ready; exec sleep 1000"]`)), expect(chunk("terminalId")), `{"file": {"path": "ready", "timeoutMs": 10000}}`))
		wantStatus(t, got, comply.Pass)
		text, err := os.ReadFile(mark)
		if err != nil {
			t.Fatal(err)
		}
		var pid int
		fmt.Sscan(string(text), &pid)
		awaitEnd(t, pid)
	})
	t.Run("R4-067 an answer for the wrong session is named", func(t *testing.T) {
		mean := &goodagent.Mutant{Rule: "none", Out: func(_ *goodagent.Wire, m goodagent.Message) []goodagent.Message {
			if m.Update() != nil {
				m.Params()["sessionId"] = "another"
			}
			return []goodagent.Message{m}
		}}
		text := strings.Replace(steps(prompt(1, "parley:say text=hello"), expect(`{"response": {"id": 1}}`)), `"ledger": false, `, `"rules": ["SNEW-10"], `, 1)
		got := playWith(t, goodAgent(mean), text, nil)
		wantStatus(t, got, comply.Fail)
		wantFinding(t, got, "SNEW-10", "another")
	})
}

// awaitEnd fails if a process does not end soon.
func awaitEnd(t *testing.T, pid int) {
	t.Helper()
	tick, late := time.NewTicker(10*time.Millisecond), time.After(patience.For(time.Minute))
	defer tick.Stop()
	for syscall.Kill(pid, 0) == nil && !zombie(pid) { // the kernel gives no sign
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("process %d still runs", pid)
		}
	}
}
