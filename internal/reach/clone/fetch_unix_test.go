//go:build unix

package clone_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/parley-agents/parley/internal/reach/clone"
)

// TestFetchOutlivesItsCaller ends the call of a fetch that takes long. The call returns, the fetch goes
// on, and the next call finds what it brought.
func TestFetchOutlivesItsCaller(t *testing.T) {
	r := serialRepository(t)
	head := r.commit("a.txt", "one\n")
	c := r.copy()

	// Packing waits until the test writes to a pipe. A second one would wait for ever.
	bin := t.TempDir()
	pipe := filepath.Join(bin, "pipe")
	real, err := exec.LookPath("git")
	if err == nil {
		err = syscall.Mkfifo(pipe, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	script := fmt.Sprintf("#!/bin/sh\ncase \" $* \" in *\" pack-objects \"*) read go < %s;; esac\nexec %s \"$@\"\n", pipe, real)
	if err := os.WriteFile(filepath.Join(bin, "git"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))

	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := c.Fetch(ctx, "HEAD")
		ended <- err
	}()
	packing, err := os.OpenFile(pipe, os.O_WRONLY, 0) // returns when git packs
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := <-ended; !errors.Is(err, clone.ErrBusy) {
		t.Errorf("the first call ended with %v", err)
	}
	if _, err := r.copies.Of(ctx, r.dir); err == nil {
		t.Error("a call whose time is over got the copy")
	}

	packing.WriteString("\n")
	packing.Close()
	if got, err := c.Fetch(t.Context(), "HEAD"); err != nil || got.ID != head {
		t.Errorf("the next call: %+v, %v", got, err)
	}
	if err := r.copies.Close(); err != nil {
		t.Error(err)
	}
}
