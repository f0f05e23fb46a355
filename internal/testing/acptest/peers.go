// Package acptest finds the agents of other projects that tests talk to. Only
// tests import it.
//
// It has no tests of its own: acp/peers_test.go talks to each agent that it finds.
package acptest

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// A Peer is an agent of another project, pinned in scripts/peers.
type Peer struct {
	runtime string // the program that runs it; empty if it runs by itself
	path    string // in the folder of the peers
	args    []string
}

// The peers.
var (
	// TypeScript is the example agent of the TypeScript SDK, version 1 only.
	TypeScript = Peer{"node", "node_modules/@agentclientprotocol/sdk/dist/examples/agent.js", nil}

	// TypeScriptDual is its example of an agent that speaks both versions.
	TypeScriptDual = Peer{"node", "node_modules/@agentclientprotocol/sdk/dist/examples/dual-version-agent.js", nil}

	// Go is the example agent of the Go SDK of Coder, version 1 only.
	Go = Peer{"", "bin/acp-go-sdk-agent-v0.13.0", nil}

	// Qwen is Qwen Code, a coding agent that needs a model.
	Qwen = Peer{"node", "node_modules/@qwen-code/qwen-code/cli.js", []string{"--acp"}}

	// Claude is the adapter for Claude Code, which needs a model, too.
	Claude = Peer{"node", "agents/claude-agent-acp/node_modules/.bin/claude-agent-acp", nil}
)

// Command returns the command that starts a peer. Where it is missing the test is
// skipped, and fails with CI=true.
func (p Peer) Command(t testing.TB) *exec.Cmd {
	t.Helper()
	path := filepath.Join(Dir(t), p.path)
	if _, err := os.Stat(path); err != nil {
		Missing(t, "MISSING: %s: run scripts/peers", path)
	}
	if p.runtime == "" {
		return exec.Command(path, p.args...)
	}
	runtime, err := exec.LookPath(p.runtime)
	if err != nil {
		Missing(t, "MISSING: %s, which runs %s", p.runtime, path)
	}
	return exec.Command(runtime, append([]string{path}, p.args...)...)
}

// Dir returns the folder that scripts/peers fills.
func Dir(t testing.TB) string { return folder(t, "PARLEY_PEERS", "peers") }

// CLIs returns the folder that scripts/clis fills.
func CLIs(t testing.TB) string { return folder(t, "PARLEY_CLIS", "clis") }

// folder returns the folder in a variable, else one in the cache of the repository.
func folder(t testing.TB, variable, name string) string {
	t.Helper()
	if dir := os.Getenv(variable); dir != "" {
		return dir
	}
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return filepath.Join(dir, ".cache", name)
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			t.Fatal("there is no go.mod above the test")
		}
		dir = parent
	}
}

// Missing skips a test whose parts are not there. With CI=true it fails the test.
func Missing(t testing.TB, format string, args ...any) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatalf(format, args...)
	}
	t.Skipf(format, args...)
}
