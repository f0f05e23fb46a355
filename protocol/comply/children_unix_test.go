//go:build unix

package comply_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/parley-agents/parley/protocol/comply"
)

func TestChildren(t *testing.T) {
	t.Run("R4-067 children of the agent are killed", func(t *testing.T) {
		awaitEnd(t, childOf(t, "child"))
	})
	t.Run("children that left the group of the agent are killed, too", func(t *testing.T) {
		if runtime.GOOS != "linux" {
			t.Skip("only Linux shows the environment of another process")
		}
		awaitEnd(t, childOf(t, "escape"))
	})
}

// childOf runs a test in which an agent starts a process, and returns the id of that.
func childOf(t *testing.T, prompted string) (pid int) {
	t.Helper()
	dir := t.TempDir()
	got := playWith(t, agent(t, "none"), steps(prompt(1, prompted), expect(chunk("^[0-9]+$"))), &comply.Options{Record: dir})
	wantStatus(t, got, comply.Pass)
	raw, err := os.ReadFile(filepath.Join(dir, "none", "case.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(raw)) {
		if _, after, ok := strings.Cut(line, `agent_message_chunk`); ok {
			fmt.Sscanf(after[strings.Index(after, `"text":"`)+len(`"text":"`):], "%d", &pid)
		}
	}
	if pid == 0 {
		t.Fatalf("no process in %s", raw)
	}
	return pid
}

// zombie reports whether a process has ended but was not waited for.
func zombie(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err != nil || strings.Contains(string(stat), ") Z ")
}
