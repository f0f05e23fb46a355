package cli_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parley-agents/parley/internal/desk/cli"
	"github.com/parley-agents/parley/internal/testing/patience"
)

// TestInstalled connects real CLIs, each in a home of its own, and asks them
// what they have read. PARLEY_CATALOG_CLIS is a list of folders with their
// programs in it, separated as in PATH; without it there are none to ask. Last
// passed with claude 2.1.197, codex 0.166.0, copilot 1.0.102, gemini 0.61.0,
// opencode 1.18.33 and qwen 0.15.10, all from npm.
func TestInstalled(t *testing.T) {
	folders := os.Getenv("PARLEY_CATALOG_CLIS")
	if folders == "" {
		return
	}
	path := os.Getenv("PATH")
	t.Setenv("PATH", folders+string(os.PathListSeparator)+path)
	connects := map[string]bool{"claude": true, "gemini": true, "opencode": true, "qwen": true} // the others only list
	for _, found := range cli.Detect(t.Context(), "") {
		t.Logf("%s %s", found.Name, found.Version)
		list := func(t *testing.T, p cli.Place) string {
			t.Helper()
			ctx, cancel := context.WithTimeout(t.Context(), patience.For(time.Minute))
			defer cancel()
			cmd := exec.CommandContext(ctx, found.Path, "mcp", "list")
			cmd.Dir = p.Dir
			cmd.Env = []string{
				"PATH=" + os.Getenv("PATH"), "HOME=" + p.Home, "NO_COLOR=1", "LANG=C.UTF-8",
				"GEMINI_CLI_TRUST_WORKSPACE=true", "OPENCODE_DISABLE_AUTOUPDATE=1", "OPENCODE_DISABLE_MODELS_FETCH=1",
			}
			cmd.WaitDelay = time.Second
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("mcp list: %v\n%s", err, out)
			}
			return string(out)
		}
		t.Run(found.Name+" reads the entry for a program", func(t *testing.T) {
			self, err := os.Executable()
			if err != nil {
				t.Fatal(err)
			}
			p := at(t, "")
			key := write(t, filepath.Join(p.Home, "key"), "k")
			change, err := cli.PlanConnection(found.CLI, cli.Entry{Command: self, KeyFile: key}, p)
			if err != nil {
				t.Fatal(err)
			}
			apply(t, change)
			if out := list(t, p); !strings.Contains(out, "parley") {
				t.Errorf("listed: got %s, want parley", out)
			}
			if _, err := os.Stat(key + ".started"); connects[found.Name] && err != nil {
				t.Errorf("the program was not started: %v", err)
			}
			apply(t, undo(t, found.Name, p))
			if out := list(t, p); strings.Contains(out, "parley") {
				t.Errorf("listed after undo: got %s, want no parley", out)
			}
		})
		t.Run(found.Name+" reads the entry for an address", func(t *testing.T) {
			var asked atomic.Bool
			hub := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				frame, _ := io.ReadAll(io.LimitReader(r.Body, 1<<20))
				if r.URL.Path != "/mcp" || r.Header.Get("Authorization") != "Bearer cacp_sk_live_k" {
					w.WriteHeader(http.StatusUnauthorized)
					return
				}
				asked.Store(true)
				reply := mcpReply(frame)
				if r.Method != http.MethodPost {
					w.WriteHeader(http.StatusMethodNotAllowed)
				} else if reply == nil {
					w.WriteHeader(http.StatusAccepted)
				} else {
					w.Header().Set("Content-Type", "application/json")
					_, _ = w.Write(reply)
				}
			}))
			defer hub.Close()
			p := at(t, "")
			change, err := cli.PlanConnection(found.CLI, cli.Entry{Transport: cli.HTTP, URL: hub.URL, Key: "cacp_sk_live_k"}, p)
			if err != nil {
				t.Fatal(err)
			}
			apply(t, change)
			if out := list(t, p); !strings.Contains(out, "parley") {
				t.Errorf("listed: got %s, want parley", out)
			}
			if connects[found.Name] && !asked.Load() {
				t.Error("the address was not asked with the key")
			}
		})
	}
}
