package server_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/parley-agents/parley/internal/ground/process/confine"
	"github.com/parley-agents/parley/internal/testing/patience"
	"github.com/parley-agents/parley/server"
)

// TestConfinementIsProbedAtTheStart starts a hub without a check. It tries how this machine confines
// one before code under check can change that.
func TestConfinementIsProbedAtTheStart(t *testing.T) {
	if err := confine.Supported(); err != nil {
		t.Skip(err)
	}
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	program := filepath.Join(dir, "program")
	script := fmt.Sprintf("#!/bin/sh\necho \"$*\" > %s\n", pipe)
	if err := errors.Join(syscall.Mkfifo(pipe, 0o600), os.WriteFile(program, []byte(script), 0o700)); err != nil {
		t.Fatal(err)
	}
	o := quiet()
	o.Checks = server.Checks{Program: program}
	start(t, o)

	said := make(chan string, 1)
	go func() {
		text, err := os.ReadFile(pipe)
		said <- fmt.Sprint(string(text), err)
	}()
	select {
	case text := <-said:
		if !strings.HasPrefix(text, "confined -- ") {
			t.Errorf("the hub called its program with %q", text)
		}
	case <-time.After(patience.For(30 * time.Second)):
		t.Error("the hub did not try how this machine confines a check")
	}
}
