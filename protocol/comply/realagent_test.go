package comply_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parley-agents/parley/internal/testing/acptest"
	"github.com/parley-agents/parley/internal/testing/patience"
	"github.com/parley-agents/parley/protocol/comply"
	"github.com/parley-agents/parley/protocol/comply/model"
)

// slow stretches the timeouts of agents that keep to the protocol, however slow the
// machine is.
var slow = patience.For(4 * time.Second).Seconds()

// peer returns an agent of another project, as it was fetched for tests.
func peer(t *testing.T, name string, p acptest.Peer) comply.Agent {
	t.Helper()
	cmd := p.Command(t)
	return comply.Agent{Name: name, Command: cmd.Path, Args: cmd.Args[1:]}
}

// TestRealAgents compares what the suite finds in agents of other projects with
// golden files: for each test the verdict, and the rules that were broken. These
// agents follow no directives, so that tests with some say nothing about them,
// and what comes of a test that acts at a certain moment depends on the moment.
// Those tests, and more agents, are for make agents.
func TestRealAgents(t *testing.T) {
	tests, err := comply.Suite()
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name     string
		peer     acptest.Peer
		protocol int
		only     string // beginnings of ids
	}{
		{"ts-sdk-example", acptest.TypeScript, 1, "required. initialize. session."},
		{"ts-sdk-dual", acptest.TypeScriptDual, 1, "required. initialize."},
		{"ts-sdk-dual-v2", acptest.TypeScriptDual, 2, "required. initialize."},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.name != "ts-sdk-example" && os.Getenv("PARLEY_REAL") == "" {
				t.Skip("make test-real runs every agent: one is enough here")
			}
			t.Parallel()
			chosen := slices.DeleteFunc(slices.Clone(tests), func(x *comply.Test) bool {
				begins := func(prefix string) bool { return strings.HasPrefix(x.ID, prefix) }
				return len(x.Protocols) > 0 && !slices.Contains(x.Protocols, tt.protocol) ||
					!slices.ContainsFunc(strings.Fields(tt.only), begins) || !steady(t, x)
			})
			// The examples mostly sleep, so that many can do so at once.
			report := run(t, peer(t, tt.name, tt.peer), chosen, &comply.Options{Protocol: tt.protocol, Jobs: 8, TimeoutScale: slow})
			golden(t, "../golden/"+tt.name+".txt", func(w io.Writer) error {
				_, err := io.WriteString(w, verdicts(report))
				return err
			})
		})
	}
}

// steady reports whether a test comes to the same verdict each time: it tells no
// model what to do, and has no moment at which it acts.
func steady(t *testing.T, x *comply.Test) bool {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("suite", x.Path))
	if err != nil {
		t.Fatal(err)
	}
	return !slices.ContainsFunc([]string{"parley:", `"delayMs"`, `"whileWaiting"`, "session/cancel"}, func(s string) bool { return strings.Contains(string(text), s) })
}

// timed are rules about how long something takes.
var timed = []string{"INIT-20", "CAN-03"}

// verdicts returns a line per test, without what may differ from run to run.
func verdicts(r comply.AgentReport) string {
	var lines []string
	for _, x := range r.Tests {
		rules := []string{}
		for _, f := range x.Findings {
			if rule := fmt.Sprintf(" %s(%s)", f.Rule, f.Level); !slices.Contains(rules, rule) && !slices.Contains(timed, f.Rule) {
				rules = append(rules, rule)
			}
		}
		slices.Sort(rules)
		lines = append(lines, fmt.Sprintf("%-7s %s%s\n", x.Status, x.ID, strings.Join(rules, "")))
	}
	slices.Sort(lines)
	return strings.Join(lines, "")
}

// scripted starts the scripted model and returns its address.
func scripted(t *testing.T) string {
	t.Helper()
	listener, err := model.Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- model.New(nil).Serve(ctx, listener) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return "http://" + listener.Addr().String()
}

// qwen returns Qwen Code as it is shipped, in the version that tests fetch.
func qwen(t *testing.T) comply.Agent {
	t.Helper()
	fetched := peer(t, "qwen-code", acptest.Qwen)
	known, err := comply.KnownAgents(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(known, func(k comply.KnownAgent) bool { return k.Name == "qwen-code" })
	a := known[at].Agent
	a.Command, a.Args = fetched.Command, fetched.Args
	return a
}

func TestScriptedModel(t *testing.T) {
	if os.Getenv("PARLEY_REAL") == "" {
		t.Skip("make test-real runs it")
	}
	t.Run("a coding agent writes a file through the client because the model wants it", func(t *testing.T) {
		t.Parallel()
		text := steps(
			prompt(2, "parley:write path=a.txt text='hello there'\nparley:recall text='hello there'"),
			`{"expect": {"timeoutMs": 30000, "messages": [
				{"clientRequest": {"method": "session/request_permission"}},
				{"clientRequest": {"method": "fs/write_text_file", "params": {"path": "^${sandbox}/a\\.txt$", "content": "^hello there$"}}},
				{"notification": {"params": {"update": {"sessionUpdate": "tool_call_update", "status": "completed"}}}},
				{"notification": {"params": {"update": {"sessionUpdate": "agent_message_chunk", "content": {"text": "recalled: hello there"}}}}},
				{"response": {"id": 2, "result": {"stopReason": "^end_turn$"}}}
			]}}`,
		)
		got := playWith(t, qwen(t), text, &comply.Options{ModelURL: scripted(t), TimeoutScale: slow})
		for _, f := range got.Findings {
			if f.Rule == "case" { // others are the agent's own, and no matter here
				t.Errorf("expected %s, got %s", f.Expected, f.Actual)
			}
		}
		if got.Status == comply.Errored || got.Status == comply.NA {
			t.Errorf("got %s: %s", got.Status, got.Reason)
		}
	})
}
