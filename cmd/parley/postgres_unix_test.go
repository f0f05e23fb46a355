//go:build unix

package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/parley-agents/parley/internal/testing/pgtest"
)

func TestHubOnPostgreSQL(t *testing.T) {
	t.Parallel()
	database := pgtest.Own(t, "fsync=off")
	h := newHouseIn(t, t.TempDir(), "--store", database.URL)
	alone := func(args ...string) result { // without PARLEY_URL
		return do(t, parley(t, []string{"PARLEY_HOME=" + h.home}, append(args, "--as-operator")...))
	}
	t.Run("audit verify and export ask the hub that runs", func(t *testing.T) {
		h.contains(alone("hub", "verify"), "ok the journal holds")
		dir := filepath.Join(t.TempDir(), "out")
		h.ok(alone("hub", "export", "--jsonl", dir), nil)
		if _, err := os.Stat(dir); err != nil {
			t.Error(err)
		}
	})
	t.Run("while no hub runs there, they say where the database is", func(t *testing.T) {
		h.stop()
		got := alone("hub", "verify", "--json")
		refused(t, got, exitRefused, "capability_disabled")
		contains(t, got.out+got.err, "PostgreSQL")
	})
}

func TestStoreBeyondLoopback(t *testing.T) {
	t.Parallel()
	const far = "postgres://u@0.0.0.0:1/d" // no address of loopback, and nothing listens there
	// dials expects that the database was called, which did not answer.
	dials := func(t *testing.T, env []string, args ...string) {
		t.Helper()
		got := do(t, parley(t, env, args...))
		if got.code != exitDegraded {
			t.Errorf("exit %d, want %d: %s", got.code, exitDegraded, got.err)
		}
	}
	for name, command := range map[string]func(t *testing.T) []string{
		"serve": func(*testing.T) []string { return []string{"serve", "--addr", "127.0.0.1:0", "--store", far} },
		"store copy to": func(t *testing.T) []string {
			return []string{"hub", "move", "--from", "sqlite:" + usedHome(t), "--to", far}
		},
		"store copy from": func(t *testing.T) []string {
			return []string{"hub", "move", "--from", far, "--to", "sqlite:" + filepath.Join(t.TempDir(), "new")}
		},
	} {
		t.Run(name+" refuses a database without verified TLS", func(t *testing.T) {
			t.Parallel()
			got := refused(t, do(t, parley(t, nil, append(command(t), "--home", t.TempDir(), "--json")...)), exitRefused, "policy_violation")
			contains(t, got.Error.Hint, "sslmode=verify-full", "--store-no-tls-because")
		})
		t.Run(name+" uses it for a reason", func(t *testing.T) {
			t.Parallel()
			dials(t, nil, append(command(t), "--home", t.TempDir(), "--store-no-tls-because", "a tunnel")...)
		})
	}
	t.Run("the reason comes from the environment", func(t *testing.T) {
		t.Parallel()
		dials(t, []string{"PARLEY_STORE=" + far, "PARLEY_STORE_NO_TLS_BECAUSE=a tunnel"}, "serve", "--addr", "127.0.0.1:0", "--home", t.TempDir())
	})
	t.Run("the reason comes from the configuration file", func(t *testing.T) {
		t.Parallel()
		home := t.TempDir()
		if err := os.WriteFile(filepath.Join(home, "config.yaml"), []byte("store: "+far+"\nstore_no_tls_because: a tunnel\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		dials(t, nil, "serve", "--addr", "127.0.0.1:0", "--home", home)
	})
}

// usedHome returns a home that a hub on SQLite has used.
func usedHome(t *testing.T) string {
	t.Helper()
	h := newHouse(t)
	h.stop()
	return h.home
}
