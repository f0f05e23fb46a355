package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestComplyClient checks the command that tests clients: its exit codes, and the commands that
// read its report.
func TestComplyClient(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	hasty := write(t, "hasty.sh", `printf '%s\n' '{"jsonrpc":"2.0","id":0,"method":"session/new","params":{"cwd":"/tmp","mcpServers":[]}}' | "$1"`)
	own := []string{"--env", asParley + "=1", "--", self, "acp", "exec", "--policy", "yolo", "--", "{agent}", "{prompt}"}

	t.Run("our own client passes", func(t *testing.T) {
		r := do(t, parley(t, nil, append([]string{"comply", "client", "--summary", "--test", "client.turn", "--test", "client.permission.kinds", "--test", "client.terminal.run"}, own...)...))
		if r.code != 0 || strings.Count(r.out, "| PASS ") != 4 {
			t.Errorf("got code %d and\n%s%s", r.code, r.out, r.err)
		}
	})

	t.Run("a broken MUST fails the run and is explained", func(t *testing.T) {
		r := do(t, parley(t, nil, "comply", "client", "--format", "json", "--test", "client.turn", "--", "sh", hasty, "{agent}"))
		if r.code != 1 || !strings.Contains(r.out, `"subject": "client"`) {
			t.Fatalf("got code %d and\n%s%s", r.code, r.out, r.err)
		}
		file := filepath.Join(t.TempDir(), "report.json")
		if err := os.WriteFile(file, []byte(r.out), 0o600); err != nil {
			t.Fatal(err)
		}
		if r := do(t, parley(t, nil, "comply", "explain", file)); r.code != 0 || !strings.Contains(r.out, "CL-INIT-01") {
			t.Errorf("explain: got code %d and\n%s%s", r.code, r.out, r.err)
		}
		if r := do(t, parley(t, nil, "comply", "render", "--format", "junit", file)); !strings.Contains(r.out, "CL-INIT-01") {
			t.Errorf("render: got code %d and\n%s%s", r.code, r.out, r.err)
		}
	})

	t.Run("the baseline accepts what it names", func(t *testing.T) {
		known := write(t, "known.txt", "CL-INIT-01 # the client is old\nCL-INIT-03 # the client is old\n")
		r := do(t, parley(t, nil, "comply", "client", "--test", "client.turn", "--baseline", known, "--", "sh", hasty, "{agent}"))
		if r.code != 0 {
			t.Errorf("got code %d and\n%s%s", r.code, r.out, r.err)
		}
	})

	t.Run("mistakes on the command line", func(t *testing.T) {
		for _, args := range [][]string{
			{},
			{"--test", "nothing", "--", "true"},
			{"--rule", "TRN-01", "--", "true"},
			{"--when", "sleep=true", "--", "true"},
			{"--", "sh", "-c", "exit 3"},
		} {
			if r := do(t, parley(t, nil, append([]string{"comply", "client"}, args...)...)); r.code != 2 {
				t.Errorf("%v: got code %d, want 2\n%s", args, r.code, r.err)
			}
		}
	})

	t.Run("rules and tests are listed", func(t *testing.T) {
		if r := do(t, parley(t, nil, "comply", "client", "--list-rules")); r.code != 0 || !strings.Contains(r.out, "CL-PERM-05") {
			t.Errorf("got code %d and\n%s%s", r.code, r.out, r.err)
		}
		if r := do(t, parley(t, nil, "comply", "client", "--list-tests")); r.code != 0 || !strings.Contains(r.out, "client.permission.cancel") {
			t.Errorf("got code %d and\n%s%s", r.code, r.out, r.err)
		}
		if r := do(t, parley(t, nil, "comply", "rules", "CL-PERM-05")); r.code != 0 || !strings.Contains(r.out, "cancelled") {
			t.Errorf("got code %d and\n%s%s", r.code, r.out, r.err)
		}
	})
}
