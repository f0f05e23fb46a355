package main

import (
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/testing/acptest"
	"github.com/parley-agents/parley/protocol/comply"
	"github.com/parley-agents/parley/protocol/comply/model"
)

// peerCommand returns the command of a known agent of another project in a home of
// its own, pointed at the scripted model.
func peerCommand(t *testing.T, name string, peer acptest.Peer) []string {
	t.Helper()
	fetched := peer.Command(t)
	server := httptest.NewServer(model.New(nil))
	t.Cleanup(server.Close)
	known, err := comply.KnownAgents(acptest.Dir(t))
	if err != nil {
		t.Fatal(err)
	}
	a := known[slices.IndexFunc(known, func(k comply.KnownAgent) bool { return k.Name == name })]
	home := t.TempDir()
	fill := strings.NewReplacer("${modelURL}", server.URL, "${home}", home)
	for name, text := range a.Files {
		path := filepath.Join(home, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(fill.Replace(text)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	command := []string{"env", "HOME=" + home}
	for name, value := range a.Env {
		command = append(command, name+"="+fill.Replace(value))
	}
	return append(command, fetched.Args...)
}

// TestRunPeers has coding agents of other projects do a whole task: they edit a
// file, ask for permission, write to another agent on the hub, and report.
func TestRunPeers(t *testing.T) {
	onlyReal(t)
	t.Parallel()
	for _, test := range []struct {
		name string
		peer acptest.Peer
		load string // what makes the agent offer the hub's tools to its model
	}{
		{"qwen-code", acptest.Qwen, `parley:tool name=tool_search args='{"query":"select:mcp__parley__acp_send"}'`},
		{"claude-agent-acp", acptest.Claude, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			command := peerCommand(t, test.name, test.peer)
			h := newHouse(t)
			dir := newRepository(t)
			work := strings.Join([]string{
				"This is what the model shall do:", "parley:write path=hello.txt text=hello", test.load,
				`parley:mcp name=acp_send args='{"to":["planner"],"text":"half way through"}'`,
				`parley:say text="STATUS:ok\nFILES_CREATED:hello.txt\nTESTS:pass"`,
			}, "\n")
			args := []string{"run", "--json", "--as-operator", "--repo", dir, "--name", "worker", "--policy", "yolo", "--timeout", "100s",
				"--scope", "hello.txt", "--verify", "grep hello hello.txt", "--task", "say hello", "--context", work, "--"}
			r := doFor(t, 4*waitTime, parley(t, h.env(""), append(args, command...)...))
			got := outcome(t, r)
			if r.code != exitDone || got.Verdict != hub.RunConfirmed || !slices.Equal(got.Evidence.Diff.Created, []string{"hello.txt"}) || got.Evidence.Verify == nil {
				t.Fatalf("exit %d, %s %s %q, %+v\n%s\n%s", r.code, got.State, got.Verdict, got.Reason, got.Contradictions, got.Error, r.err)
			}
			contains(t, r.out, `"session/request_permission"`)
			var inbox struct{ Messages []struct{ From string } }
			h.ok(h.as("planner", "inbox", "--json"), &inbox)
			if len(inbox.Messages) != 1 || inbox.Messages[0].From != "worker" {
				t.Errorf("planner got %+v, want one message from worker", inbox.Messages)
			}
			contains(t, h.operator("show", string(got.RunID)).out, "done, confirmed")
			if strings.Contains(r.out, "cacp_sk_live_") {
				t.Error("a key is in the output")
			}
		})
	}
}
