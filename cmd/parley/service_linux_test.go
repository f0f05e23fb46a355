package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parley-agents/parley/internal/desk/connect"
	"github.com/parley-agents/parley/internal/desk/osservice"
)

// A desktop is a user with a systemctl that records its calls and starts nothing.
type desktop struct {
	house
	user, calls string
}

func newDesktop(t *testing.T) *desktop {
	t.Helper()
	d := &desktop{user: t.TempDir()}
	d.house = house{t: t, home: filepath.Join(d.user, "a home with %h $HOME"), keys: map[string]string{}}
	d.calls = filepath.Join(d.user, "calls")
	d.systemctl(`case "$2" in is-active) echo active;; esac`)
	return d
}

// systemctl replaces the program: each call is recorded, then script runs.
func (d *desktop) systemctl(script string) {
	d.t.Helper()
	if err := os.WriteFile(filepath.Join(d.user, "systemctl"), []byte("#!/bin/sh\necho \"$@\" >> "+d.calls+"\n"+script+"\n"), 0o755); err != nil {
		d.t.Fatal(err)
	}
}

func (d *desktop) does(args ...string) result {
	return do(d.t, parley(d.t, []string{"HOME=" + d.user, "PARLEY_HOME=" + d.home, "PATH=" + d.user + ":" + os.Getenv("PATH")}, args...))
}

// refused expects an exit code and a part of the error.
func (d *desktop) refused(r result, code int, part string) {
	d.t.Helper()
	if r.code != code || !strings.Contains(r.err, part) {
		d.t.Errorf("exit %d: %s%s; want exit %d and %q", r.code, r.out, r.err, code, part)
	}
}

// called returns the calls of systemctl since the last time.
func (d *desktop) called() string {
	raw, err := os.ReadFile(d.calls)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		d.t.Fatal(err)
	}
	os.Remove(d.calls)
	return string(raw)
}

func TestService(t *testing.T) {
	d := newDesktop(t)
	file := filepath.Join(d.user, ".config", "systemd", "user", osservice.UnitName)
	t.Run("without a service there is nothing to remove or to show", func(t *testing.T) {
		d.refused(d.does("hub", "service", "uninstall"), exitMissing, "no service is installed")
		d.refused(d.does("hub", "service"), exitMissing, "no service is installed")
	})
	t.Run("a manager that does not answer leaves no file", func(t *testing.T) {
		d.systemctl("echo Failed to connect to bus; exit 1")
		d.refused(d.does("hub", "service", "install"), exitDegraded, "Failed to connect to bus")
		if _, err := os.Stat(file); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the file is there: %v", err)
		}
		d.systemctl(`case "$2" in is-active) echo active;; esac`)
		d.called()
	})
	t.Run("install writes the unit and starts it", func(t *testing.T) {
		d.contains(d.does("hub", "service", "install"), "wrote "+file, "enable-linger")
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		contains(t, string(raw), `"serve" "--home" "`+d.user+`/a home with %%h $$HOME"`, "WantedBy=default.target")
		if got, want := d.called(), "--user daemon-reload\n--user enable --now parley.service\n"; got != want {
			t.Errorf("systemctl was called with %q, want %q", got, want)
		}
		d.contains(d.does("hub", "service", "install"), "installed already")
		if got := d.called(); got != "" {
			t.Errorf("to install it again called systemctl with %q", got)
		}
	})
	t.Run("status tells a service from a hub that answers", func(t *testing.T) {
		r := d.does("hub", "service")
		if r.code != exitCheck {
			t.Errorf("exit %d, want %d: no hub runs", r.code, exitCheck)
		}
		contains(t, r.out, "does not run", "active")
		h := &house{t: t, home: d.home, keys: map[string]string{}}
		h.start()
		d.contains(d.does("hub", "service"), " runs\n")
		h.stop()
		d.called()
	})
	t.Run("the service of another home is left alone", func(t *testing.T) {
		other := filepath.Join(d.user, "other")
		for _, command := range []string{"install", "uninstall", "status"} {
			d.refused(d.does("hub", "service", command, "--home", other), exitMissing, "in a home other than")
		}
		if got := d.called(); got != "" {
			t.Errorf("systemctl was called with %q", got)
		}
	})
	t.Run("a service that runs another program is replaced", func(t *testing.T) {
		d.contains(d.does("hub", "service", "install", "--config", filepath.Join(d.user, "c.yaml")), "wrote ")
		contains(t, d.called(), "--user disable --now parley.service\n", "--user enable --now parley.service\n")
	})
	t.Run("uninstall stops the service and removes the unit", func(t *testing.T) {
		d.contains(d.does("hub", "service", "uninstall"), "removed "+file)
		if got, want := d.called(), "--user disable --now parley.service\n--user daemon-reload\n"; got != want {
			t.Errorf("systemctl was called with %q, want %q", got, want)
		}
		if _, err := os.Stat(file); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the file is there: %v", err)
		}
	})
	t.Run("a hub that runs already is not disturbed", func(t *testing.T) {
		h := &house{t: t, home: d.home, keys: map[string]string{}}
		h.start()
		d.refused(d.does("hub", "service", "install"), exitMissing, "a hub is already running in")
		if got := d.called(); got != "" {
			t.Errorf("systemctl was called with %q", got)
		}
		h.stop()
	})
}

func TestUninstall(t *testing.T) {
	d := newDesktop(t)
	d.refused(d.does("uninstall", "--yes"), exitMissing, "no hub in")
	d.start()
	for _, args := range [][]string{
		{"connect", "claude", "--agent", "planner", "--force", "--as-operator"},
		{"connect", "codex", "--agent", "builder", "--force", "--as-operator"},
	} {
		d.ok(d.does(args...), nil)
	}
	claude, codex := filepath.Join(d.user, ".claude.json"), filepath.Join(d.user, ".codex", "config.toml")
	entries := func() (n int) {
		for _, file := range []string{claude, codex} {
			if raw, err := os.ReadFile(file); err == nil && strings.Contains(string(raw), "parley") {
				n++
			}
		}
		return n
	}
	if entries() != 2 {
		t.Fatal("the CLIs are not connected")
	}
	t.Run("nothing happens without a yes", func(t *testing.T) {
		d.refused(d.does("uninstall"), exitUsage, "confirm")
		d.contains(d.does("uninstall", "--print"), "the files of claude", "the files of codex", "stop the hub")
		if entries() != 2 {
			t.Error("a file was changed")
		}
	})
	t.Run("connections, keys and the hub go; the home stays", func(t *testing.T) {
		d.contains(d.does("uninstall", "--yes"), d.home+" stays", "the program ")
		if entries() != 0 {
			t.Error("an entry is left in a file of a CLI")
		}
		if keys, err := filepath.Glob(filepath.Join(d.home, connect.KeysDir, "*.key")); err != nil || len(keys) != 0 {
			t.Errorf("keys are left: %v (%v)", keys, err)
		}
	})
	t.Run("a folder that is no home is not purged", func(t *testing.T) {
		folder := t.TempDir()
		d.refused(d.does("uninstall", "--yes", "--purge", "--home", folder), exitMissing, "no hub in")
		if _, err := os.Stat(folder); err != nil {
			t.Error(err)
		}
	})
	t.Run("the service and, with --purge, the home go", func(t *testing.T) {
		d.ok(d.does("hub", "service", "install"), nil)
		d.called()
		d.contains(d.does("uninstall", "--yes", "--purge"), "the program ")
		contains(t, d.called(), "--user disable --now parley.service")
		if _, err := os.Stat(d.home); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the home is there: %v", err)
		}
	})
}
