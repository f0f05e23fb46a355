//go:build unix

package evidence_test

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/parley-agents/parley/internal/reach/evidence"
	"github.com/parley-agents/parley/internal/testing/hubtest"
)

func TestCommand(t *testing.T) {
	hubtest.NoGoroutinesLeft(t)
	dir := folder(t)
	run := func(line string, opts *evidence.CommandOptions) evidence.Outcome {
		return evidence.Command(t.Context(), dir, line, opts)
	}
	t.Run("it says how a command ended and what it wrote", func(t *testing.T) {
		for _, tt := range []struct {
			line     string
			code     int
			finished bool
			output   string
		}{
			{"echo out; echo err >&2", 0, true, "out\nerr\n"},
			{"pwd; exit 3", 3, true, dir + "\n"},
			{"kill -9 $$", -1, true, ""},
			{"cat", 0, true, ""}, // there is nothing to read
			{"no-such-program 2>/dev/null", 127, true, ""},
			{"", -1, false, ""},
			{"printf '\\377'", 0, true, "\xff"},
		} {
			got := run(tt.line, nil)
			if got.ExitCode != tt.code || got.Finished() != tt.finished || got.Passed() != (tt.code == 0) || got.Command != tt.line {
				t.Errorf("%q: got %+v, want exit code %d", tt.line, got, tt.code)
			}
			if got.OutputDigest != "sha256:"+sum(tt.output) || got.OutputBytes != int64(len(tt.output)) || got.OutputTail != strings.ToValidUTF8(tt.output, "\uFFFD") || got.OutputHead != "" {
				t.Errorf("%q: got %+v, want output %q", tt.line, got, tt.output)
			}
		}
		if got := evidence.Command(t.Context(), filepath.Join(dir, "none"), "true", nil); got.Failure == "" || got.Passed() {
			t.Errorf("in no folder: got %+v, want a failure", got)
		}
	})
	t.Run("the environment can be set", func(t *testing.T) {
		if got := run("echo $WORD", &evidence.CommandOptions{Env: []string{"WORD=here"}}); got.OutputTail != "here\n" {
			t.Errorf("got %q", got.OutputTail)
		}
	})
	t.Run("of a flood both ends are kept and everything is hashed", func(t *testing.T) {
		all := strings.Repeat("0123456789", 100_000)
		write(t, filepath.Join(dir, "flood"), all)
		for _, limit := range []int{1, 7, 100, 600_000, 999_999} {
			got := run("cat flood", &evidence.CommandOptions{MaxOutput: limit})
			head := all[:min(limit, len(all)-limit)]
			if got.OutputHead != head || got.OutputTail != all[len(all)-limit:] || got.OutputBytes != int64(len(all)) || got.OutputDigest != "sha256:"+sum(all) {
				t.Errorf("limit %d: got %d and %d of %d bytes, %s", limit, len(got.OutputHead), len(got.OutputTail), got.OutputBytes, got.OutputDigest)
			}
		}
	})
	t.Run("what a command leaves running is killed", func(t *testing.T) {
		ended := pipes(t, dir)
		got := run("(exec 3>alive; echo x >&3; cat never) & read x <alive", nil)
		if !got.Passed() {
			t.Errorf("got %+v, want it to pass", got)
		}
		ended()
	})
	t.Run("a command that takes too long is killed with its children", func(t *testing.T) {
		ended := pipes(t, dir)
		got := run("(exec 3>alive; cat never) & cat never", &evidence.CommandOptions{Timeout: 200 * time.Millisecond})
		if !got.TimedOut || got.Cancelled || got.Finished() || got.ExitCode != -1 {
			t.Errorf("got %+v, want it to be out of time", got)
		}
		ended()
	})
	t.Run("a command can be cancelled", func(t *testing.T) {
		ended := pipes(t, dir)
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			defer cancel()
			os.ReadFile(filepath.Join(dir, "alive")) // until the command has closed it
		}()
		got := evidence.Command(ctx, dir, "echo x >alive; cat never", nil)
		if !got.Cancelled || got.TimedOut || got.Finished() {
			t.Errorf("got %+v, want it to be cancelled", got)
		}
		if got := evidence.Command(ctx, dir, "true", nil); !got.Cancelled {
			t.Errorf("after that: got %+v, want it to be cancelled", got)
		}
		ended()
	})
}

// pipes makes a pipe that nothing is ever written to, and one that shows who is
// alive. The function that it returns waits until nobody is.
func pipes(t *testing.T, dir string) (ended func()) {
	t.Helper()
	for _, name := range []string{"alive", "never"} {
		path := filepath.Join(dir, name)
		os.Remove(path)
		if err := syscall.Mkfifo(path, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return func() {
		t.Helper()
		alive, err := os.OpenFile(filepath.Join(dir, "alive"), os.O_RDONLY|syscall.O_NONBLOCK, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer alive.Close()
		if err := alive.SetReadDeadline(time.Now().Add(30 * time.Second)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadAll(alive); err != nil {
			t.Errorf("a process is left: %v", err)
		}
	}
}
