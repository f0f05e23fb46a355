package cli

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/ground/text/pattern"
)

// An Installation is a CLI found on this machine.
type Installation struct {
	CLI
	Path    string `json:"path"`
	Version string `json:"version,omitempty"` // empty if it did not say
	Problem string `json:"problem,omitempty"` // why it did not
}

// Find returns where the CLI is installed: on the PATH, or where its own
// installer puts it under the home folder. It reports a NotInstalledError,
// which is CodeNotFound, when it is nowhere.
func (c CLI) Find(home string) (string, error) {
	for _, name := range c.Binaries {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	for _, name := range c.installs {
		if home == "" {
			break
		}
		if path, err := exec.LookPath(filepath.Join(home, filepath.FromSlash(name))); err == nil {
			return path, nil
		}
	}
	e := &hub.Error{Code: hub.CodeNotFound, Op: "cli.Find", Err: &NotInstalledError{CLI: c.Title, Binaries: c.Binaries}}
	return "", e.WithHint("install it, add it to the PATH, or use --force")
}

// Detect returns the CLIs that are installed, in the order of their names. Each
// is started once, to ask for its version.
func Detect(ctx context.Context, home string) []Installation {
	var found []Installation
	for _, c := range Agents() {
		if path, err := c.Find(home); err == nil {
			found = append(found, Installation{CLI: c, Path: path})
		}
	}
	var all sync.WaitGroup
	for i := range found {
		all.Go(func() { found[i].Version, found[i].Problem = Version(ctx, found[i].Path) })
	}
	all.Wait()
	return found
}

const (
	versionTimeout = 20 * time.Second // some take seconds to load
	versionOutput  = 64 << 10         // bytes that are looked at
)

var versionForm = pattern.New(`\d+(\.\d+)+([-+][0-9A-Za-z.+-]*[0-9A-Za-z])?`)

// Version starts a program to ask for its version. If it names none, problem says why.
func Version(ctx context.Context, path string) (version, problem string) {
	ctx, cancel := context.WithTimeout(ctx, versionTimeout)
	defer cancel()
	var out head
	cmd := exec.CommandContext(ctx, path, "--version")
	cmd.Env = append(os.Environ(), "NO_COLOR=1")
	cmd.Stdout = &out
	cmd.WaitDelay = time.Second
	ownGroup(cmd)
	err := cmd.Run()
	switch found := versionForm().Find(out.text); {
	case ctx.Err() != nil:
		return "", "its version command timed out"
	case found != nil:
		return string(found), ""
	case err != nil:
		return "", "its version command failed: " + err.Error()
	}
	return "", "its version command printed no version"
}

// A head is a writer that keeps the first bytes.
type head struct{ text []byte }

func (h *head) Write(p []byte) (int, error) {
	h.text = append(h.text, p[:min(len(p), versionOutput-len(h.text))]...)
	return len(p), nil
}
