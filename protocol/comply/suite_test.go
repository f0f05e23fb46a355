package comply_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/parley-agents/parley/internal/testing/goodagent"
	"github.com/parley-agents/parley/protocol/comply"
	"github.com/parley-agents/parley/protocol/comply/rules"
)

// builtIn returns the test of the suite with that id.
func builtIn(t *testing.T, id string) *comply.Test {
	t.Helper()
	tests, err := comply.Suite()
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(tests, func(x *comply.Test) bool { return x.ID == id })
	if i < 0 {
		t.Fatalf("there is no test %s", id)
	}
	return tests[i]
}

// TestAreas shows that the tests of the optional areas pass an agent that is
// right, and do not pass one that is not.
func TestAreas(t *testing.T) {
	t.Parallel()
	mutant := func(id string) *goodagent.Mutant {
		m := goodagent.Find(id)
		if m == nil {
			t.Fatalf("there is no mutant %s", id)
		}
		return m
	}
	trait := func(change func(*goodagent.Traits)) *goodagent.Mutant {
		return &goodagent.Mutant{Rule: "trait", Change: func(a *goodagent.Agent) { change(&a.Traits) }}
	}
	for _, c := range []struct {
		name, test string
		bad        *goodagent.Mutant
	}{
		{"R4-014 a session that is loaded must be replayed", "session.load", mutant("SLOAD-02")},
		{"R4-014 the replay must come before the answer", "session.load", mutant("SLOAD-03")},
		{"R4-015 links must be taken", "prompt.content", mutant("PRM-04")},
		{"R4-015 images must be taken if the agent says so", "prompt.content", mutant("PRM-05")},
		{"R4-015 embedded resources must be taken if the agent says so", "prompt.content", mutant("PRM-07")},
		{"R4-016 tool calls are reported", "tool.calls", trait(func(t *goodagent.Traits) { t.QuietTools = true })},
		{"R4-016 tool calls are brought up to date", "tool.calls", mutant("TOOL-08")},
		{"R4-017 what is allowed must be done", "permission.allow", mutant("PERM-05")},
		{"R4-017 what is refused must not be done", "permission.reject", mutant("PERM-06")},
		{"R4-017 a cancelled question is no permission", "permission.cancel", mutant("PERM-07")},
		{"R4-018 what the client reads must be used", "fs.read", mutant("FS-07")},
		{"R4-018 files must be written as a whole", "fs.write", mutant("FS-08")},
		{"R4-019 terminals must be released", "terminal.use", trait(func(t *goodagent.Traits) { t.KeepTerminals = true })},
		{"R4-019 a terminal that cannot be made must fail the call", "terminal.error", mutant("TERM-09")},
		{"R4-020 a mode must be set", "mode.set", mutant("MODE-02")},
		{"R4-021 a plan is shown", "plan", mutant("PLAN-01")},
		{"R4-022 a command must be run", "command", mutant("CMD-05")},
		{"R4-023 an MCP server must be started", "mcp.stdio", mutant("MCP-01")},
		{"R4-023 an MCP server must be started as it was given", "mcp.stdio", mutant("MCP-02")},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			one := []*comply.Test{builtIn(t, c.test)}
			wantStatus(t, run(t, goodAgent(nil), one, nil).Tests[0], comply.Pass)
			if got := run(t, goodAgent(c.bad), one, &comply.Options{TimeoutScale: 0.3}).Tests[0]; got.Status == comply.Pass || got.Status == comply.NA || len(got.Findings) == 0 {
				t.Errorf("the mutant %s got %s (%s)", c.bad.ID(), got.Status, got.Reason)
			}
		})
	}
}

// TestDirectives shows that an agent which does not do what prompts say is not
// held to what it might have done.
func TestDirectives(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"tool.calls", "permission.allow", "fs.read", "terminal.use", "plan", "elicitation", "extension", "session.load", "prompt.stop", "prompt.context", "mcp.tool", "rpc.replies"} {
		t.Run(id, func(t *testing.T) {
			t.Parallel()
			deaf := &goodagent.Mutant{Rule: "deaf", In: func(_ *goodagent.Wire, m goodagent.Message) []goodagent.Message {
				if m.Method() == "session/prompt" {
					m.Params()["prompt"] = []any{map[string]any{"type": "text", "text": "Hello."}}
				}
				return []goodagent.Message{m}
			}}
			wantStatus(t, run(t, goodAgent(deaf), []*comply.Test{builtIn(t, id)}, nil).Tests[0], comply.NA)
		})
	}
}

// frozen returns which tests there are for each rule in a version of the
// protocol.
func frozen(tests []*comply.Test, version int) map[string][]string {
	out := map[string][]string{}
	for _, x := range tests {
		if len(x.Protocols) > 0 && !slices.Contains(x.Protocols, version) {
			continue
		}
		for _, rule := range x.Rules {
			out[rule] = append(out[rule], x.ID)
		}
	}
	for _, ids := range out {
		slices.Sort(ids)
	}
	return out
}

// TestFrozen keeps tests from getting lost. What is new is taken up with
// -update.
func TestFrozen(t *testing.T) {
	t.Parallel()
	tests, err := comply.Suite()
	if err != nil {
		t.Fatal(err)
	}
	for version := 1; version <= 2; version++ {
		path := filepath.Join("testdata", "frozen", fmt.Sprintf("v%d.json", version))
		have := frozen(tests, version)
		if *update {
			text, err := json.MarshalIndent(have, "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, append(text, '\n'), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var want map[string][]string
		if err := json.Unmarshal(text, &want); err != nil {
			t.Fatal(err)
		}
		for rule, ids := range want {
			for _, id := range ids {
				if !slices.Contains(have[rule], id) {
					t.Errorf("version %d: the test %s of the rule %s is gone", version, id, rule)
				}
			}
		}
		for rule := range have {
			if want[rule] == nil {
				t.Errorf("version %d: the rule %s is not in %s; run with -update", version, rule, path)
			}
		}
	}
}

// untested are rules of tests that have none, and why.
var untested = map[string]string{
	"AUTH-11": "a login in a terminal takes a person",
	"CAN-19":  "nothing makes an agent cancel its own work",
	"MCP-14":  "no client offers MCP over the protocol yet",
}

func TestCoverage(t *testing.T) {
	t.Parallel()
	tests, err := comply.Suite()
	if err != nil {
		t.Fatal(err)
	}
	tested := frozen(tests, 1)
	for _, r := range comply.Rules() {
		switch r.Class {
		case rules.ByTest, rules.ByCapability, rules.ByModel, rules.ByFixture:
			if (len(tested[r.ID]) > 0) == (untested[r.ID] != "") {
				t.Errorf("the rule %s has %d tests, and the reason to have none is %q", r.ID, len(tested[r.ID]), untested[r.ID])
			}
		}
	}
}

func TestMCPServer(t *testing.T) {
	t.Parallel()
	t.Run("R4-008 the MCP server is for tests that name it", func(t *testing.T) {
		t.Parallel()
		opts := &comply.Options{MCPServer: filepath.Join(t.TempDir(), "no-such-program")}
		for id, want := range map[string]comply.Status{"session.load": comply.Pass, "mcp.stdio": comply.Partial} {
			wantStatus(t, run(t, goodAgent(nil), []*comply.Test{builtIn(t, id)}, opts).Tests[0], want)
		}
	})
}
