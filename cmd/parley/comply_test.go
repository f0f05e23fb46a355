package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/parley-agents/parley/internal/testing/acptest"
	"github.com/parley-agents/parley/protocol/comply"
)

// complyAgent writes a small agent, as a script for the shell, and returns its
// path. It answers an unknown method with the given code.
func complyAgent(t *testing.T, code string) string {
	t.Helper()
	return write(t, "agent.sh", `
while read -r line; do
	id=$(printf %s "$line" | sed -n 's/.*"id":\("[^"]*"\|[0-9]*\).*/\1/p')
	case "$line" in
	*'"method":"initialize"'*) body='"result":{"protocolVersion":1,"agentCapabilities":{"loadSession":false}}' ;;
	*'"method":"session/new"'*) n=$((n+1)); body='"result":{"sessionId":"s'$n'"}' ;;
	*'"method":"session/prompt"'*'Count'*) prompt=$id; continue ;;
	*'"method":"session/prompt"'*) body='"result":{"stopReason":"end_turn"}' ;;
	*'"method":"session/cancel"'*) id=$prompt; body='"result":{"stopReason":"cancelled"}' ;;
	*) body='"error":{"code":`+code+`,"message":"no such method"}' ;;
	esac
	printf '{"jsonrpc":"2.0","id":%s,%s}\n' "$id" "$body"
done
`)
}

// complyShape is what comply --format json answers, every member named.
type complyShape struct {
	Agents []struct {
		Name              string         `json:"name"`
		ProtocolVersion   int            `json:"protocolVersion"`
		AgentCapabilities map[string]any `json:"agentCapabilities"`
		Tests             []struct {
			ID          string         `json:"id"`
			Title       string         `json:"title"`
			Description string         `json:"description"`
			Area        string         `json:"area"`
			Severity    string         `json:"severity"`
			Status      string         `json:"status"`
			Reason      string         `json:"reason"`
			Findings    []complyNotice `json:"findings"`
			Docs        []string       `json:"docs"`
			DurationMs  int64          `json:"durationMs"`
			Known       bool           `json:"known"`
			Advisory    bool           `json:"advisory"`
			Ignored     []string       `json:"ignored"`
		} `json:"tests"`
		Offered map[string]any `json:"offered"`
		Ledger  []complyNotice `json:"ledger"`
		Totals  map[string]int `json:"totals"`
	} `json:"agents"`
	Schema      string `json:"schema"`
	Tool        string `json:"tool"`
	Suite       string `json:"suite"`
	Protocol    int    `json:"protocol"`
	Started     string `json:"started"`
	DurationMs  int64  `json:"durationMs"`
	Interrupted bool   `json:"interrupted"`
	Selected    bool   `json:"selected"`
}

type complyNotice struct {
	Rule     string            `json:"rule"`
	Level    string            `json:"level"`
	Expected string            `json:"expected"`
	Actual   string            `json:"actual"`
	Frames   []json.RawMessage `json:"frames"`
	Context  []json.RawMessage `json:"context"`
	Docs     []string          `json:"docs"`
	Fix      string            `json:"fix"`
	Test     string            `json:"test"`
	Tests    []string          `json:"tests"`
	Timed    bool              `json:"timed"`
	Known    bool              `json:"known"`
	Reason   string            `json:"reason"`
	Unasked  bool              `json:"unasked"`
}

func TestComply(t *testing.T) {
	good, bad := complyAgent(t, "-32601"), complyAgent(t, "-32050")
	unknown := "required.error.unknown-method"
	t.Run("R4-068 an agent that passes is exit 0, with the report on stdout and progress on stderr", func(t *testing.T) {
		r := do(t, parley(t, nil, "comply", "--test", "required.session.new", "--test", unknown, "--", "sh", good))
		if r.code != exitDone {
			t.Fatalf("exit %d: %s%s", r.code, r.out, r.err)
		}
		contains(t, r.out, "# ACP Compliance Report", "## sh\n", "### PASS: ", unknown)
		contains(t, r.err, "PASS    sh: required.session.new ")
	})
	t.Run("R4-068 an agent that fails a required test is exit 1, in JSON with rule and proof", func(t *testing.T) {
		r := do(t, parley(t, nil, "comply", "--format", "json", "--rule", "RPC-07", "--", "sh", bad))
		var got complyShape
		if strict(t, r.out, &got); r.code != exitCheck || len(got.Agents) != 1 || len(got.Agents[0].Tests) != 1 {
			t.Fatalf("exit %d: %s%s", r.code, r.out, r.err)
		}
		test := got.Agents[0].Tests[0]
		if test.ID != unknown || test.Status != "FAIL" || len(test.Findings) != 1 || got.Agents[0].Totals["FAIL"] != 1 || got.Agents[0].ProtocolVersion != 1 {
			t.Fatalf("got %+v", test)
		}
		if f := test.Findings[0]; f.Rule != "RPC-07" || f.Level != "MUST" || len(f.Frames) != 2 || len(f.Docs) == 0 || f.Fix == "" || !strings.Contains(f.Actual, "-32050") {
			t.Errorf("got %+v", f)
		}
	})
	t.Run("R4-068 a MUST that the requirements leave out, and one that another rule is about, fail nothing", func(t *testing.T) {
		asked := write(t, "asked", "# what we promise\nSNEW-01\n")
		for _, args := range [][]string{{"--requirements", asked}, {"--rule", "SNEW-01"}} {
			args = append(append([]string{"comply", "--test", unknown, "--test", "required.session.new"}, args...), "--", "sh", bad)
			if r := do(t, parley(t, nil, args...)); r.code != exitDone {
				t.Errorf("%v: exit %d: %s%s", args, r.code, r.out, r.err)
			}
		}
		if r := do(t, parley(t, nil, "comply", "--test", unknown, "--requirements", "v1", "--", "sh", bad)); r.code != exitCheck {
			t.Errorf("exit %d: %s%s", r.code, r.out, r.err)
		}
	})
	own := func(rule string) string {
		dir := t.TempDir()
		text := `{"title": "A title of my own", "description": "d", "docs": [], "area": "Mine", "severity": "optional",` + rule + ` "steps": [
			{"teleport": {}},
			{"expectError": true, "send": {"jsonrpc": "2.0", "id": 9, "method": "made/up", "params": {}}},
			{"expect": {"timeoutMs": 500, "messages": [{"response": {"id": 9, "error": {"code": "^-32601$"}}}]}}]}`
		if err := os.WriteFile(filepath.Join(dir, "mine.jsont"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	t.Run("R4-040 people read the title of a test in the list and in every report", func(t *testing.T) {
		dir := own("")
		for _, args := range [][]string{{"--list-tests"}, {"--format", "md"}, {"--format", "html"}} {
			r := do(t, parley(t, nil, append(append([]string{"comply", "--tests", dir}, args...), "--", "sh", good)...))
			contains(t, r.out, "A title of my own")
		}
		var report complyShape
		r := do(t, parley(t, nil, "comply", "--tests", dir, "--format", "json", "--", "sh", good))
		if err := json.Unmarshal([]byte(r.out), &report); err != nil {
			t.Fatal(err)
		}
		if got := report.Agents[0].Tests; len(got) != 1 || got[0].Title != "A title of my own" || got[0].Area != "Mine" {
			t.Errorf("the report as JSON has the tests %+v", got)
		}
	})
	t.Run("R4-042 an expectation of an optional test without a rule is optional in every report, and fails nothing", func(t *testing.T) {
		dir := own("")
		saved := do(t, parley(t, nil, "comply", "--tests", dir, "--format", "json", "--", "sh", bad))
		var sarif struct {
			Runs []struct {
				Results []struct {
					Level   string
					Message struct{ Text string }
				}
			}
		}
		r := do(t, parley(t, nil, "comply", "render", "--format", "sarif", write(t, "report.json", saved.out)))
		if err := json.Unmarshal([]byte(r.out), &sarif); err != nil || len(sarif.Runs[0].Results) == 0 {
			t.Fatalf("%v: %s", err, r.out)
		}
		if got := sarif.Runs[0].Results[0]; got.Level != "note" || !strings.Contains(got.Message.Text, " (optional): expected ") {
			t.Errorf("sarif: got %+v", got)
		}
		for _, format := range []string{"md", "junit", "html", "pr"} {
			r := do(t, parley(t, nil, "comply", "--tests", dir, "--format", format, "--", "sh", bad))
			if r.code != exitDone || strings.Contains(r.out, "MUST)") || strings.Contains(r.out, ">MUST<") || !strings.Contains(r.out, "optional") {
				t.Errorf("%s: exit %d: %s", format, r.code, r.out)
			}
		}
	})
	t.Run("R4-042 a broken MUST rule fails the run in an optional test, too", func(t *testing.T) {
		r := do(t, parley(t, nil, "comply", "--tests", own(` "rules": ["RPC-07"],`), "--", "sh", bad))
		if r.code != exitCheck {
			t.Errorf("exit %d: %s", r.code, r.out)
		}
		contains(t, r.out, "**RPC-07** (MUST)")
	})
	t.Run("R4-030 a step that this version does not know is in the report", func(t *testing.T) {
		dir := own("")
		for _, args := range [][]string{{"--format", "md"}, {"--format", "md", "--summary"}, {"--format", "junit"}, {"--format", "json"}, {"--format", "html"}} {
			r := do(t, parley(t, nil, append(append([]string{"comply", "--tests", dir}, args...), "--", "sh", good)...))
			contains(t, r.out, "line 2: the step has no known action and is ignored")
		}
	})
	t.Run("R4-065 the line of capabilities has files and terminals, as the document's sample", func(t *testing.T) {
		r := do(t, parley(t, nil, "comply", "--summary", "--test", "required.session.new", "--", "sh", good))
		contains(t, r.out, "- Caps: fs(read:true, write:true), terminal:true; loadSession:false")
	})
	t.Run("R4-001 the built-in tests can be written to a folder and run from there", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "suite")
		if r := do(t, parley(t, nil, "comply", "--write-suite", dir)); r.code != exitDone {
			t.Fatalf("exit %d: %s%s", r.code, r.out, r.err)
		}
		if r := do(t, parley(t, nil, "comply", "--write-suite", dir)); r.code != exitUsage {
			t.Errorf("files that are there were written again: exit %d: %s", r.code, r.err)
		}
		if r := do(t, parley(t, nil, "comply", "--tests", dir, "--test", unknown, "--", "sh", bad)); r.code != exitCheck {
			t.Errorf("exit %d: %s%s", r.code, r.out, r.err)
		}
	})
	t.Run("R4-068 a report in JSON satisfies its schema, which names every member", func(t *testing.T) {
		r := do(t, parley(t, nil, "comply", "--format", "json", "--test", unknown, "--", "sh", bad))
		check := parley(t, nil, "schema", "check", "--schema", "comply-report", "-")
		check.Stdin = strings.NewReader(r.out)
		if got := do(t, check); got.code != exitDone {
			t.Errorf("exit %d: %s%s", got.code, got.out, got.err)
		}
		check = parley(t, nil, "schema", "check", "--schema", "comply-report", "-")
		check.Stdin = strings.NewReader(strings.Replace(r.out, `"level": "MUST"`, `"level": "OUGHT"`, 1))
		if got := do(t, check); got.code != exitCheck {
			t.Errorf("a level that there is not: exit %d: %s%s", got.code, got.out, got.err)
		}
		type shape struct {
			Properties map[string]any
			Defs       map[string]shape `json:"$defs"`
		}
		var published shape
		if err := json.Unmarshal([]byte(do(t, parley(t, nil, "schema", "print", "comply-report")).out), &published); err != nil {
			t.Fatal(err)
		}
		for name, v := range map[string]any{"": comply.Report{}, "agentReport": comply.AgentReport{}, "testResult": comply.Result{}, "finding": comply.Finding{}} {
			has := published.Properties
			if name != "" {
				has = published.Defs[name].Properties
			}
			for i := range reflect.TypeOf(v).NumField() {
				if member, _, _ := strings.Cut(reflect.TypeOf(v).Field(i).Tag.Get("json"), ","); has[member] == nil {
					t.Errorf("the schema of %T has no %s", v, member)
				}
			}
		}
	})
	t.Run("R4-068 a report is a summary for a pull request, and SARIF", func(t *testing.T) {
		r := do(t, parley(t, nil, "comply", "--format", "pr", "--test", unknown, "--", "sh", bad))
		if r.code != exitCheck {
			t.Errorf("exit %d: %s", r.code, r.err)
		}
		contains(t, r.out, "### ACP compliance: **failed**", "- **RPC-07** (MUST) sh: ")
		report := do(t, parley(t, nil, "comply", "--format", "json", "--test", unknown, "--", "sh", bad))
		r = do(t, parley(t, nil, "comply", "render", "--format", "sarif", write(t, "report.json", report.out)))
		var got struct {
			Version string
			Runs    []struct {
				Tool struct {
					Driver struct{ Rules []struct{ ID string } }
				}
				Results []struct{ RuleID, Level string }
			}
		}
		if err := json.Unmarshal([]byte(r.out), &got); err != nil || got.Version != "2.1.0" || len(got.Runs) != 1 || len(got.Runs[0].Results) == 0 ||
			got.Runs[0].Results[0].RuleID != "RPC-07" || got.Runs[0].Results[0].Level != "error" || got.Runs[0].Tool.Driver.Rules[0].ID != "RPC-07" {
			t.Errorf("%v: %s", err, r.out)
		}
	})
	t.Run("R4-068 a run is resumed: results of the earlier report are not made again", func(t *testing.T) {
		first := do(t, parley(t, nil, "comply", "--format", "json", "--test", "required.session.new", "--test", unknown, "--", "sh", bad))
		// As if the run had been interrupted before the second test; the agent is good by now.
		half := strings.Replace(first.out, `"status": "PASS"`, `"status": "ERROR"`, 1)
		r := do(t, parley(t, nil, "comply", "--resume", write(t, "half.json", half), "--test", "required.session.new", "--test", unknown, "--", "sh", good))
		if r.code != exitCheck || strings.Contains(r.err, unknown) || !strings.Contains(r.err, "PASS    sh: required.session.new ") {
			t.Errorf("exit %d: %s", r.code, r.err)
		}
		contains(t, r.out, "RPC-07")
		if r := do(t, parley(t, nil, "comply", "--resume", write(t, "half.json", half), "--test", unknown, "--", "sh", good)); r.code == exitDone {
			t.Errorf("a report about other tests was taken: %s", r.err)
		}
	})
	t.Run("R4-068 a report is explained and compared, and is a page and a badge", func(t *testing.T) {
		file := func(agent string, args ...string) string {
			r := do(t, parley(t, nil, append(append([]string{"comply", "--test", unknown}, args...), "--", "sh", agent)...))
			return write(t, "report", r.out)
		}
		before, after := file(good, "--format", "json"), file(bad, "--format", "json")
		contains(t, do(t, parley(t, nil, "comply", "explain", after)).out, "F1    sh RPC-07   MUST")
		contains(t, do(t, parley(t, nil, "comply", "explain", after+"#F1")).out, "The rule:   a request for a method that does not exist", "client -> agent", "-32050", "What breaks: ", "To do: ", "An agent that keeps the rule", "\n  > {\"jsonrpc\"", "\n  {\"jsonrpc\"")
		if r := do(t, parley(t, nil, "comply", "explain", after+"#F99")); r.code != exitUsage {
			t.Errorf("exit %d: %s", r.code, r.err)
		}
		r := do(t, parley(t, nil, "comply", "compare", before, after))
		if contains(t, r.out, "sh: "+unknown+": PASS -> FAIL", "sh: RPC-07: nothing -> MUST"); r.code != exitCheck {
			t.Errorf("exit %d", r.code)
		}
		if r := do(t, parley(t, nil, "comply", "compare", after, before)); r.code != exitDone {
			t.Errorf("exit %d: %s", r.code, r.out)
		}
		page, err := os.ReadFile(file(bad, "--format", "html"))
		if err != nil {
			t.Fatal(err)
		}
		contains(t, string(page), "<!DOCTYPE html>", "RPC-07", "What breaks:", "An agent that keeps the rule", "<pre>&gt; {", `class="FAIL">failed`)
		badge, err := os.ReadFile(file(good, "--format", "badge"))
		if err != nil {
			t.Fatal(err)
		}
		contains(t, string(badge), "<svg", "1 of 1 passed")
	})
	t.Run("R4-068 a command that cannot be started is exit 2 at once", func(t *testing.T) {
		r := do(t, parley(t, nil, "comply", "--", "/nonexistent/agent"))
		if r.code != exitUsage || r.out != "" || !strings.Contains(r.err, "/nonexistent/agent") {
			t.Errorf("exit %d: %s%s", r.code, r.out, r.err)
		}
	})
	t.Run("R4-068 a rule is explained", func(t *testing.T) {
		contains(t, do(t, parley(t, nil, "comply", "rules", "can-01")).out, "## CAN-01", "What breaks:", "To do:", "Since version 1", "Keeps it:")
	})
	t.Run("R4-068 a profile chooses tests", func(t *testing.T) {
		all, core := do(t, parley(t, nil, "comply", "--list-tests")).out, do(t, parley(t, nil, "comply", "--list-tests", "--profile", "core")).out
		if !strings.Contains(all, "fs.read") || strings.Contains(core, "fs.read") || !strings.Contains(core, unknown) {
			t.Errorf("got %s", core)
		}
	})
	t.Run("R4-068 a failure that the baseline expects is exit 0, a stale entry is exit 1", func(t *testing.T) {
		known := write(t, "known", unknown+" # being fixed\n")
		args := []string{"comply", "--baseline", known, "--test", unknown, "--", "sh"}
		if r := do(t, parley(t, nil, append(args, bad)...)); r.code != exitDone {
			t.Errorf("exit %d: %s%s", r.code, r.out, r.err)
		}
		r := do(t, parley(t, nil, append(args, good)...))
		if r.code != exitCheck {
			t.Errorf("exit %d: %s%s", r.code, r.out, r.err)
		}
		contains(t, r.out, "The baseline is stale: "+unknown)
	})
	t.Run("R4-068 several agents from a file, as a table, and one of them", func(t *testing.T) {
		raw, err := json.Marshal(map[string]any{"agent_servers": map[string]any{
			"good one": map[string]any{"command": "sh", "args": []string{good}},
			"other":    map[string]any{"command": "sh", "args": []string{bad}},
		}})
		if err != nil {
			t.Fatal(err)
		}
		file := write(t, "agents.json", string(raw))
		r := do(t, parley(t, nil, "comply", "--agents", file, "--summary", "--test", unknown))
		if r.code != exitCheck {
			t.Errorf("exit %d: %s%s", r.code, r.out, r.err)
		}
		contains(t, r.out, "| Compliance Area      | good one | other    |", "| PASS     | FAIL [1] |", "\n[1] RPC-07")
		if r := do(t, parley(t, nil, "comply", "--agents", file, "--agent", "good one", "--test", unknown, "--format", "junit")); r.code != exitDone || !strings.Contains(r.out, `<testsuite name="good one" tests="1" failures="0"`) {
			t.Errorf("exit %d: %s%s", r.code, r.out, r.err)
		}
	})
	t.Run("R4-068 tests and rules are listed", func(t *testing.T) {
		r := do(t, parley(t, nil, "comply", "--list-tests"))
		if r.code != exitDone || strings.Contains(r.out, ".v2") {
			t.Errorf("exit %d: %s%s", r.code, r.out, r.err)
		}
		contains(t, r.out, unknown, "required ")
		contains(t, do(t, parley(t, nil, "comply", "--list-tests", "--protocol", "2")).out, "required.initialize.v2")
		contains(t, do(t, parley(t, nil, "comply", "--list-rules")).out, "CAN-01   MUST   ", "[required.prompt.cancel]")
		var rules struct {
			Rules []struct {
				ID, Level, Class, Text, Docs, Fix string
				Harm                              string
				Implied, Unstable                 bool
				Tests                             []string
			}
		}
		strict(t, do(t, parley(t, nil, "comply", "--list-rules", "--json")).out, &rules)
		if len(rules.Rules) == 0 || rules.Rules[0].Tests == nil {
			t.Errorf("got %+v", rules)
		}
	})
	t.Run("R4-068 frames are shown when asked for, and written down", func(t *testing.T) {
		dir := t.TempDir()
		r := do(t, parley(t, nil, "comply", "--verbose", "--record", dir, "--test", unknown, "--", "sh", good))
		contains(t, r.err, `sh `+unknown+` out: {"jsonrpc":"2.0","id":99,`, `sh `+unknown+` in: {`, "percent), the rest was spent waiting for agents")
		raw, err := os.ReadFile(filepath.Join(dir, "sh", unknown+".jsonl"))
		if err != nil || !strings.Contains(string(raw), `"id":99`) {
			t.Errorf("got %s (%v)", raw, err)
		}
	})
	t.Run("R4-068 a broken test file is exit 2, named with path and line", func(t *testing.T) {
		path := write(t, "x.jsont", "{\n\"title\": oops}")
		r := do(t, parley(t, nil, "comply", "--tests", filepath.Dir(path), "--", "sh", good))
		if r.code != exitUsage || r.out != "" {
			t.Errorf("exit %d: %s", r.code, r.out)
		}
		contains(t, r.err, path+":2: ")
	})
	t.Run("R4-001 tests of others are run", func(t *testing.T) {
		path := write(t, "mine.jsont", `{"title": "mine", "severity": "required", "steps": [{"newSession": {}}]}`)
		r := do(t, parley(t, nil, "comply", "--tests", filepath.Dir(path), "--", "sh", good))
		if r.code != exitDone {
			t.Errorf("exit %d: %s%s", r.code, r.out, r.err)
		}
		contains(t, r.out, "### PASS: mine")
		contains(t, r.err, `the test has no "description"`)
	})
	t.Run("R4-069 a variable is passed on only when asked for", func(t *testing.T) {
		secretive := write(t, "agent.sh", `[ -z "$COMPLY_SECRET" ] && exec sh `+good+"\necho it is set >&2\nexit 9\n")
		run := func(args ...string) result {
			args = append([]string{"comply", "--test", unknown}, append(args, "--", "sh", secretive)...)
			return do(t, parley(t, []string{"COMPLY_SECRET=x"}, args...))
		}
		if r := run(); r.code != exitDone {
			t.Errorf("exit %d: %s%s", r.code, r.out, r.err)
		}
		// A program that fails without a word to the client is no agent that can be tested.
		if r := run("--env", "COMPLY_SECRET"); r.code != exitUsage || !strings.Contains(r.err, "exit status 9") || !strings.Contains(r.err, "it is set") {
			t.Errorf("exit %d: %s%s", r.code, r.out, r.err)
		}
	})
	for name, args := range map[string][]string{
		"no agent":             {"comply"},
		"agents twice":         {"comply", "--agents", "x", "--", "y"},
		"an unknown test":      {"comply", "--test", "nope", "--", "sh"},
		"an unknown rule":      {"comply", "--rule", "NOPE-1", "--", "sh"},
		"an unknown format":    {"comply", "--format", "xls", "--", "sh"},
		"an unknown version":   {"comply", "--protocol", "3", "--", "sh"},
		"a scale of nothing":   {"comply", "--timeout-scale", "0", "--", "sh"},
		"a missing file":       {"comply", "--agents", "/nonexistent/agents.json"},
		"a missing folder":     {"comply", "--tests", "/nonexistent", "--", "sh"},
		"an unknown agent":     {"comply", "--agents", write(t, "a.json", `{"agent_servers": {"x": {"command": "y"}}}`), "--agent", "z"},
		"a missing baseline":   {"comply", "--baseline", "/nonexistent/known", "--", "sh"},
		"an unknown profile":   {"comply", "--profile", "tiny", "--", "sh"},
		"missing requirements": {"comply", "--requirements", "/nonexistent/list", "--", "sh"},
		"a rule that is none":  {"comply", "--requirements", write(t, "list", "# mine\nNOPE-1\n"), "--", "sh"},
		"a doubtful baseline":  {"comply", "--baseline", write(t, "known", "a # x\na # y\n"), "--", "sh"},
	} {
		t.Run("R4-068 "+name+" is exit 2", func(t *testing.T) {
			r := do(t, parley(t, nil, args...))
			if r.code != exitUsage || r.out != "" || r.err == "" {
				t.Errorf("exit %d: %s%s", r.code, r.out, r.err)
			}
			if slices.Contains(args, "--rule") && !strings.Contains(r.err, `no rule with id "NOPE-1"`) {
				t.Errorf("got %s, want that the rule is named", r.err)
			}
		})
	}
}

// underNPM makes a command start the program as npx does, by the script of the package.
func underNPM(t *testing.T, cmd *exec.Cmd) *exec.Cmd {
	t.Helper()
	node, err := exec.LookPath("node")
	if err != nil {
		acptest.Missing(t, "MISSING: node")
	}
	script, err := os.ReadFile("../../contrib/npm/parley.js")
	if err != nil {
		t.Fatal(err)
	}
	starter := write(t, "parley.js", string(script))
	for _, name := range []string{"linux-x64", "linux-arm64", "darwin-x64", "darwin-arm64"} {
		dir := filepath.Join(filepath.Dir(starter), "node_modules", "@parley-agents", "parley-"+name, "bin")
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(cmd.Path, filepath.Join(dir, "parley")); err != nil {
			t.Fatal(err)
		}
	}
	cmd.Path = node
	cmd.Args = append([]string{node, starter}, cmd.Args[1:]...)
	return cmd
}

// TestNPM starts the program that the npm package carries as npx does.
func TestNPM(t *testing.T) {
	run := func(args ...string) result { return do(t, underNPM(t, parley(t, nil, args...))) }
	if r := run("comply", "--test", "required.session.new", "--", "sh", complyAgent(t, "-32601")); r.code != exitDone || !strings.Contains(r.out, "# ACP Compliance Report") {
		t.Errorf("exit %d: %s%s", r.code, r.out, r.err)
	}
	if r := run("comply", "--format", "nothing", "--", "sh"); r.code != exitUsage {
		t.Errorf("the exit code is lost: %d", r.code)
	}
}

func TestComplyAgentsAdd(t *testing.T) {
	home, agent := t.TempDir(), complyAgent(t, "-32601")
	file := filepath.Join(home, "agents", "mine", "agent.json")
	add := func(args ...string) result {
		t.Helper()
		return do(t, parley(t, nil, append([]string{"comply", "agents", "add", "--home", home, "--json"}, args...)...))
	}
	t.Run("the file is written, and the features are named that the model could drive", func(t *testing.T) {
		r := add("mine", "--env", "MODEL=${modelURL}/v1", "--", "sh", agent)
		var got struct {
			File     string         `json:"file"`
			Model    bool           `json:"model"`
			Features []triedFeature `json:"features"`
		}
		if strict(t, r.out, &got); r.code != exitDone || got.File != file || !got.Model || len(got.Features) != len(features) {
			t.Fatalf("exit %d: %s%s", r.code, r.out, r.err)
		}
		for _, f := range got.Features {
			if driven := f.Test == "required.session.new" || f.Test == "prompt.text"; f.Driven != driven || !driven && f.Reason == "" {
				t.Errorf("got %+v", f)
			}
		}
		r = do(t, parley(t, nil, "comply", "--home", home, "--agent", "mine", "--test", "required.session.new"))
		if r.code != exitDone {
			t.Errorf("exit %d: %s%s", r.code, r.out, r.err)
		}
		contains(t, do(t, parley(t, nil, "comply", "--home", home, "--list-agents")).out, "mine               installed", "opencode           not installed")
	})
	t.Run("bad names, names that are taken and commands that do not start add nothing", func(t *testing.T) {
		for _, c := range []struct {
			args []string
			code string
			exit int
		}{
			{[]string{"../mine", "--", "sh", agent}, "usage", exitUsage},
			{[]string{"mine", "sh", agent}, "usage", exitUsage},
			{[]string{"mine", "--", "sh", agent}, "conflict", exitMissing},
			{[]string{"opencode", "--", "sh", agent}, "conflict", exitMissing},
			{[]string{"other", "--", filepath.Join(home, "none")}, "schema_invalid", exitUsage},
			{[]string{"other", "--", "sh", "-c", "echo no model >&2; exit 3"}, "schema_invalid", exitUsage},
		} {
			r := add(c.args...)
			if r.code != c.exit || !strings.Contains(r.err, `"code":"`+c.code+`"`) {
				t.Errorf("%v: exit %d: %s%s", c.args, r.code, r.out, r.err)
			}
		}
		if _, err := os.Stat(filepath.Join(home, "agents", "other")); !os.IsNotExist(err) {
			t.Errorf("a folder is left: %v", err)
		}
	})
}
