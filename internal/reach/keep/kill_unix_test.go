//go:build unix

package keep_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/reach/keep"
)

// killAt names the write before which the process of the test is killed, with the store and the tree.
const killAt = "PARLEY_TEST_KEEP_KILL"

func TestMain(m *testing.M) {
	if spec := os.Getenv(killAt); spec != "" {
		keepUntilKilled(strings.Split(spec, "|"))
		return
	}
	os.Exit(m.Run())
}

// keepUntilKilled keeps a tree and kills its own process before a write.
func keepUntilKilled(spec []string) {
	n, err := strconv.Atoi(spec[0])
	if err != nil {
		panic(err)
	}
	s, err := keep.Open(spec[1])
	if err != nil {
		panic(err)
	}
	s.SetPause(func(string) {
		if n--; n == 0 {
			syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	})
	if _, err := s.Keep(context.Background(), hub.WorkingTree{Path: spec[2], Repository: spec[3]}, keep.Options{}); err != nil {
		panic(err)
	}
	fmt.Print("kept")
}

func TestKilledKeepings(t *testing.T) {
	self := must(os.Executable())(t)
	for n := 1; n < 40; n++ {
		w := newWorld(t)
		for i := range 5 {
			w.write(fmt.Sprintf("new%d.txt", i), strings.Repeat("x", i+1))
		}
		cmd := exec.Command(self)
		cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d|%s|%s|%s", killAt, n, w.home, w.tree.Path, w.tree.Repository))
		out, err := cmd.CombinedOutput()
		if err == nil && string(out) == "kept" {
			if n < 5 {
				t.Errorf("the keeping has %d writes", n)
			}
			return
		}
		if !strings.Contains(err.Error(), "killed") {
			t.Fatalf("the process at write %d: %v: %s", n, err, out)
		}

		w.store = must(keep.Open(w.home))(t)
		drafts, _ := filepath.Glob(filepath.Join(w.home, "*", "*", "tmp-*"))
		if len(drafts) > 0 {
			t.Errorf("drafts after a kill at write %d: %q", n, drafts)
		}
		got := w.keep()
		if missing := must(w.store.Check(t.Context(), w.tree, got.ID))(t); len(missing) > 0 || got.Files != 5 {
			t.Errorf("a kill at write %d: got %+v, missing %q", n, got, missing)
		}
	}
	t.Error("the keeping never ends")
}
