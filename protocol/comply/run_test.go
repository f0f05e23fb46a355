package comply_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parley-agents/parley/internal/testing/goodagent"
	"github.com/parley-agents/parley/protocol/comply"
)

// head is what a test needs besides its steps.
const head = `"title": "t", "description": "d", "severity": "required", "docs": ["https://example.org/rule"], "ledger": false, "sandbox": {"files": []}`

// suite writes tests to a folder and loads it.
func suite(t *testing.T, files map[string]string) []*comply.Test {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name+comply.Extension), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	tests, err := comply.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	return tests
}

// run runs tests against an agent.
func run(t *testing.T, a comply.Agent, tests []*comply.Test, opts *comply.Options) comply.AgentReport {
	t.Helper()
	o := comply.Options{}
	if opts != nil {
		o = *opts
	}
	o.Once = true // tests of second runs call Run themselves
	report, err := comply.Run(t.Context(), []comply.Agent{a}, tests, &o)
	if err != nil {
		t.Fatal(err)
	}
	return report.Agents[0]
}

// play runs one test, given as JSON, against an agent with a flaw. All files of
// the run must be gone afterwards.
func play(t *testing.T, flaw, text string) comply.Result {
	t.Helper()
	return playWith(t, agent(t, flaw), text, nil)
}

func playWith(t *testing.T, a comply.Agent, text string, opts *comply.Options) comply.Result {
	t.Helper()
	o := comply.Options{}
	if opts != nil {
		o = *opts
	}
	o.Temp = t.TempDir()
	got := run(t, a, suite(t, map[string]string{"case": text}), &o).Tests[0]
	left, err := os.ReadDir(o.Temp)
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v (%v)", left, err)
	}
	return got
}

// steps returns a test with the given steps after a new session.
func steps(list ...string) string {
	all := append([]string{`{"newSession": {"capture": "sessionId"}}`}, list...)
	return `{` + head + `, "steps": [` + strings.Join(all, ",\n") + `]}`
}

// prompt returns the step that sends a prompt.
func prompt(id any, text string) string {
	raw, _ := json.Marshal(text)
	return fmt.Sprintf(`{"send": {"jsonrpc": "2.0", "id": %v, "method": "session/prompt", "params": {"sessionId": "${sessionId}", "prompt": [{"type": "text", "text": %s}]}}}`, id, raw)
}

// chunk returns the expected notification with a text.
func chunk(pattern string) string {
	raw, _ := json.Marshal(pattern)
	return fmt.Sprintf(`{"notification": {"method": "^session/update$", "params": {"update": {"content": {"text": %s}}}}}`, raw)
}

func expect(messages ...string) string {
	return `{"expect": {"timeoutMs": 2000, "messages": [` + strings.Join(messages, ",") + `]}}`
}

func wantStatus(t *testing.T, got comply.Result, want comply.Status) {
	t.Helper()
	if got.Status != want {
		t.Errorf("got %s (%s) %+v, want %s", got.Status, got.Reason, got.Findings, want)
	}
}

// wantFinding reports if no finding is under the rule with all the parts in what
// came.
func wantFinding(t *testing.T, got comply.Result, rule string, parts ...string) {
	t.Helper()
	for _, f := range got.Findings {
		if f.Rule != rule {
			continue
		}
		for _, p := range parts {
			if !strings.Contains(f.Actual, p) && !strings.Contains(f.Expected, p) {
				t.Errorf("%q is missing in %+v", p, f)
			}
		}
		if f.Fix == "" || len(f.Docs) == 0 || f.Expected == "" || f.Actual == "" {
			t.Errorf("a finding is incomplete: %+v", f)
		}
		return
	}
	t.Errorf("no finding under %s: %+v", rule, got.Findings)
}

func TestSamples(t *testing.T) {
	tests, err := comply.Load("testdata/samples")
	if err != nil {
		t.Fatal(err)
	}
	results := func(flaw string) map[string]comply.Result {
		out := map[string]comply.Result{}
		for _, r := range run(t, agent(t, flaw), tests, nil).Tests {
			out[r.ID] = r
		}
		return out
	}
	t.Run("R4-066 a polite agent passes the samples as they are", func(t *testing.T) {
		got := results("none")
		if len(got) != 4 {
			t.Fatalf("got %d results, want 4", len(got))
		}
		for _, r := range got {
			wantStatus(t, r, comply.Pass)
		}
	})
	for flaw, bad := range map[string]string{
		"no-cancel":    "required.prompt.cancel",
		"ignores-caps": "required.capabilities.respect-fs-disabled",
		"unknown-ok":   "required.error.method-not-found",
	} {
		t.Run("R4-066 the flaw "+flaw+" fails one sample", func(t *testing.T) {
			for id, r := range results(flaw) {
				want := comply.Pass
				if id == bad {
					want = comply.Fail
				}
				wantStatus(t, r, want)
			}
		})
	}
}

func TestSuite(t *testing.T) {
	tests, err := comply.Suite()
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range tests {
		if len(test.Remarks) > 0 {
			t.Errorf("%s: %v", test.ID, test.Remarks)
		}
		for _, id := range test.Rules {
			if !slices.ContainsFunc(comply.Rules(), func(r comply.Rule) bool { return r.ID == id }) {
				t.Errorf("%s: there is no rule %s", test.ID, id)
			}
		}
	}
	for _, c := range []struct{ name, test, rule string }{
		{"R4-009 initialize must echo the version", "required.initialize", "INIT-03"},
		{"R4-010 session/new must give an id", "required.session.new", "SNEW-01"},
		{"R4-010 session ids must differ", "required.session.new", "SNEW-02"},
		{"R4-011 a cancelled prompt must say so", "required.prompt.cancel", "CAN-01"},
		{"R4-011 a cancelled prompt must not fail", "required.prompt.cancel", "CAN-02"},
		{"R4-012 files that are off must not be used", "required.capabilities.fs-off", "FS-01"},
		{"R4-012 terminals that are off must not be used", "required.capabilities.terminal-off", "TERM-01"},
		{"R4-013 an unknown method must be refused", "required.error.unknown-method", "RPC-07"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			one := slices.DeleteFunc(slices.Clone(tests), func(x *comply.Test) bool { return x.ID != c.test })
			if len(one) != 1 {
				t.Fatalf("there is no test %s", c.test)
			}
			wantStatus(t, run(t, goodAgent(nil), one, nil).Tests[0], comply.Pass)
			got := run(t, goodAgent(goodagent.Find(c.rule)), one, nil).Tests[0]
			wantStatus(t, got, comply.Fail)
			wantFinding(t, got, c.rule)
			for _, f := range got.Findings {
				if len(f.Frames) == 0 {
					t.Errorf("there is no proof: %+v", f)
				}
			}
		})
	}
}

func TestSteps(t *testing.T) {
	echo := `{"send": {"jsonrpc": "2.0", "id": 7, "method": "test/echo", "params": {"a": 1, "list": [1, "two", {"three": 3}], "yes": true, "no": null, "f": 1.0, "big": 12345678901234567890, "dir": "${sandbox}"}}}`
	echoed := func(pattern string) string {
		return `{` + head + `, "steps": [` + echo + `, {"expect": {"timeoutMs": 2000, "messages": [{"response": {"id": 7, "result": ` + pattern + `}}]}}]}`
	}
	pass, fail := comply.Pass, comply.Fail
	for _, c := range []struct {
		name, flaw, text string
		want             comply.Status
	}{
		{"R4-001 a new file needs no new code", "none", `{` + head + `, "steps": [{"send": {"jsonrpc": "2.0", "id": "q", "method": "test/echo", "params": {"novel": true}}}, {"expect": {"messages": [{"response": {"id": "^q$", "result": {"novel": true}}}]}}]}`, pass},
		{"R4-002 an invented method is sent like any other", "none", `{` + head + `, "steps": [{"send": {"jsonrpc": "2.0", "id": 1, "method": "made/up", "params": {}}}, {"expect": {"messages": [{"response": {"id": 1, "error": {"code": -32601}}}]}}]}`, pass},
		{"R4-004 unknown members are ignored everywhere", "none", `{` + head + `, "foo": 1, "preconditions": [{"cap": "client.terminal", "mustBe": true, "foo": 1}, {"foo": 1}], "init": {"foo": 1}, "steps": [{"foo": 1}, {"newSession": {"foo": 1, "capture": "s"}, "foo": 1}, {"forbid": {"timeoutMs": 1, "methods": ["x"], "foo": 1}}, {"delayMs": 1, "foo": 1}, {"expect": {"timeoutMs": 1, "messages": [], "foo": 1}}]}`, pass},
		{"R4-028 steps follow each other, and the sandbox is the session's folder", "none", `{` + head + `, "steps": [{"send": {"jsonrpc": "2.0", "id": 1, "method": "session/new", "params": {"cwd": "${sandbox}", "mcpServers": []}}}, {"expect": {"messages": [{"response": {"id": 1, "result": {"_meta": {"params": {"cwd": "^${sandbox}$"}}}}}]}}]}`, pass},
		{"R4-029 responses, notifications and requests are seen", "none", steps(prompt(2, `call fs/read_text_file {"path":"/x"}`), expect(`{"clientRequest": {"method": "^fs/read_text_file$"}}`, chunk("error"), `{"response": {"id": 2, "result": {"stopReason": "end_turn"}}}`)), pass},
		{"R4-031 only the given members are compared", "none", echoed(`{"a": 1}`), pass},
		{"R4-031 a member that is missing does not match", "none", echoed(`{"b": 1}`), fail},
		{"R4-032 a string is a regular expression on the text of the value", "none", echoed(`{"a": "^\\d+$", "yes": "^(true|false)$", "list": "two"}`), pass},
		{"R4-032 a regular expression that is not found does not match", "none", echoed(`{"a": "^\\d{2}$"}`), fail},
		{"R4-033 an empty object matches any object", "none", echoed(`{}`), pass},
		{"R4-034 an array needs an element for each expected one, in any order", "none", echoed(`{"list": [{"three": 3}, 1]}`), pass},
		{"R4-034 an array without an element like that does not match", "none", echoed(`{"list": ["^three$"]}`), fail},
		{"R4-035 several messages share a window, and others are ignored", "none", steps(prompt(2, "notify 5"), expect(chunk("^chunk 4$"), chunk("^chunk 2$"), `{"response": {"id": 2}}`)), pass},
		{"R4-036 variables stand in expectations, captures too", "none", `{` + head + `, "steps": [` + echo + `, {"expect": {"messages": [{"response": {"id": 7, "result": {"dir": "^${sandbox}$"}}}], "captures": [{"path": "result.list.2.three", "var": "third"}]}}, {"send": {"jsonrpc": "2.0", "id": 8, "method": "test/echo", "params": {"v": "${third}"}}}, {"expect": {"messages": [{"response": {"id": 8, "result": {"v": "^3$"}}}]}}]}`, pass},
		{"R4-036 a capture that finds nothing fails nothing", "none", `{` + head + `, "steps": [` + echo + `, {"expect": {"messages": [{"response": {"id": 7}, "captures": [{"path": "result.yyy", "var": "y"}]}], "captures": [{"path": "result.zzz", "var": "x"}]}}]}`, pass},
		{"R4-036 a capture that finds nothing fails a step with a rule", "none", `{` + head + `, "steps": [` + echo + `, {"rule": "SNEW-01", "expect": {"messages": [{"response": {"id": 7}}], "captures": [{"path": "result.zzz", "var": "x"}]}}]}`, fail},
		{"R4-037 other leaves are compared as text", "none", echoed(`{"a": 1, "yes": true, "no": null, "f": 1, "big": 12345678901234567890}`), pass},
		{"R4-037 a number is not found in a longer one", "none", echoed(`{"big": 123}`), fail},
		{"R4-038 a reply of the test is what the agent gets", "none", steps(prompt(2, `call fs/read_text_file {"path":"/x"}`), expect(`{"clientRequest": {"method": "fs/read"}, "reply": {"content": "from ${sandbox}"}}`, chunk("from /"))), pass},
		{"R4-038 a reply may stand inside the request", "none", steps(prompt(2, `call fs/read_text_file {"path":"/x"}`), expect(`{"clientRequest": {"method": "fs/read", "reply": {"content": "inside"}}}`, chunk("inside"))), pass},
		{"R4-038 a reply may be an error", "none", steps(prompt(2, `call fs/read_text_file {"path":"/x"}`), expect(`{"clientRequest": {"method": "fs/read"}, "reply": {"error": {"code": -32055, "message": "no"}}}`, chunk("-32055"))), pass},
		{"R4-038 a reply is given also before its step is reached", "none", steps(prompt(2, `call made/up {"x":1}`), expect(chunk("early")), expect(`{"clientRequest": {"method": "made/up", "params": {"x": 1}}, "reply": {"result": {"early": true}}}`)), pass},
		{"R4-038 without a reply the files are read", "none", strings.Replace(steps(prompt(2, `call fs/read_text_file {"path":"DIR/a.txt"}`), expect(`{"clientRequest": {"method": "fs/read"}}`, chunk("real text"))), `"files": []`, `"files": [{"path": "a.txt", "text": "real text"}]`, 1), pass},
		{"R4-039 a forbidden call fails", "none", steps(prompt(2, `call made/up {}`), `{"forbid": {"timeoutMs": 5000, "methods": ["other", "made/up"]}}`), fail},
		{"R4-039 another call does not", "none", steps(prompt(2, `call made/up {}`), `{"forbid": {"timeoutMs": 5000, "methods": ["made/u"]}}`), pass},
		{"R4-054 a request must be answered", "none", steps(strings.Replace(prompt(2, "never"), `{"send"`, `{"timeoutMs": 50, "send"`, 1)), fail},
		{"R4-054 a notification need not be", "none", steps(`{"send": {"jsonrpc": "2.0", "method": "made/up"}}`), pass},
		{"R4-054 sending does not wait for the answer", "none", steps(prompt(2, "slow"), `{"send": {"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": "${sessionId}"}}}`, expect(`{"response": {"id": 2, "result": {"stopReason": "^cancelled$"}}}`)), pass},
		{"R4-054 an id of any kind is used on the wire", "none", steps(prompt(`"a-${sessionId}"`, "notify 1"), expect(`{"response": {"id": "^a-${sessionId}$"}}`)), pass},
		{"R4-055 an error that nobody expected fails", "none", `{` + head + `, "steps": [{"send": {"jsonrpc": "2.0", "id": 1, "method": "test/fail"}}]}`, fail},
		{"R4-055 an error that was expected does not", "none", `{` + head + `, "steps": [{"send": {"jsonrpc": "2.0", "id": 1, "method": "test/fail", "expectError": true}}]}`, pass},
		{"R4-055 an error that an expectation met does not", "none", `{` + head + `, "steps": [{"send": {"jsonrpc": "2.0", "id": 1, "method": "test/fail"}}, {"expect": {"messages": [{"response": {"id": 1, "error": {}}}]}}]}`, pass},
		{"R4-055 success where an error was expected fails", "none", `{` + head + `, "steps": [{"expectError": true, "send": {"jsonrpc": "2.0", "id": 1, "method": "test/echo", "params": {}}}]}`, fail},
		{"R4-057 a response is no notification", "none", `{` + head + `, "steps": [` + echo + `, {"expect": {"timeoutMs": 50, "messages": [{"notification": {"result": {}}}]}}]}`, fail},
		{"R4-058 a call between the last send and the step counts", "none", steps(prompt(2, `call made/up {}`), expect(`{"response": {"id": 2}}`), `{"forbid": {"timeoutMs": 1, "methods": ["made/up"]}}`), fail},
		{"R4-058 a call in a turn that still runs counts", "none", steps(prompt(2, "linger made/up"), expect(`{"clientRequest": {"method": "made/up"}}`), echo, expect(`{"response": {"id": 7}}`), `{"forbid": {"timeoutMs": 1, "methods": ["made/up"]}}`, `{"send": {"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": "${sessionId}"}}}`), fail},
		{"R4-058 a call before the last send does not", "none", steps(prompt(2, `call made/up {}`), expect(`{"response": {"id": 2}}`), prompt(3, "notify 1"), `{"forbid": {"timeoutMs": 1000, "methods": ["made/up"]}}`), pass},
		{"R4-059 a delay lets messages come", "none", steps(prompt(2, "later"), expect(`{"response": {"id": 2}}`), `{"delayMs": 500}`, `{"expect": {"timeoutMs": 0, "messages": [`+chunk("^late$")+`]}}`), pass},
		{"R4-060 the sandbox is a variable", "none", echoed(`{"dir": "^/.*comply-.*/sandbox$"}`), pass},
		{"R4-026 R4-061 the version stands unquoted", "none", `{` + head + `, "steps": [{"send": {"jsonrpc": "2.0", "id": 1, "method": "test/echo", "params": {"v": ${protocolVersionDefault}, "s": "v${protocolVersionDefault}"}}}, {"expect": {"messages": [{"response": {"id": 1, "result": {"v": 1, "s": "^v1$"}}}]}}]}`, pass},
		{"R4-026 R4-062 the capabilities stand unquoted", "none", `{` + head + `, "steps": [{"send": {"jsonrpc": "2.0", "id": 1, "method": "test/echo", "params": {"c": ${clientCapabilitiesDefault}}}}, {"expect": {"messages": [{"response": {"id": 1, "result": {"c": {"fs": {"readTextFile": true, "writeTextFile": true}, "terminal": true}}}}]}}]}`, pass},
		{"R4-062 the capabilities are those of the test", "none", `{` + head + `, "init": {"clientCapabilities": {"terminal": false}}, "steps": [{"send": {"jsonrpc": "2.0", "id": 1, "method": "test/echo", "params": {"c": ${clientCapabilitiesDefault}}}}, {"expect": {"messages": [{"response": {"id": 1, "result": {"c": {"fs": {"readTextFile": true}, "terminal": false}}}}]}}]}`, pass},
		{"R4-063 the session id is a variable, and literal in a pattern", "none", steps(prompt(2, "notify 1"), expect(`{"notification": {"params": {"sessionId": "^${sessionId}$", "update": {"content": {}}}}}`)), pass},
		{"R4-048 the client's capabilities reach initialize", "none", `{` + head + `, "init": {"clientCapabilities": {"fs": {"readTextFile": false}}}, "steps": [` + prompt(1, `call fs/read_text_file {"path":"/x"}`) + `, {"expect": {"messages": [` + chunk("-32601") + `]}}]}`, pass},
		{"an expectation takes the frame that met it", "none", steps(prompt(2, "notify 1"), expect(chunk("chunk")), `{"expect": {"timeoutMs": 100, "messages": [`+chunk("chunk")+`]}}`), fail},
		{"unless it says otherwise", "none", steps(prompt(2, "notify 1"), expect(strings.Replace(chunk("chunk"), "{", `{"consume": false, `, 1)), expect(chunk("chunk"))), pass},
		{"frames are shared out so that all expectations are met", "none", steps(prompt(2, "notify 2"), expect(chunk("chunk"), chunk("chunk 1"))), pass},
		{"messages in order", "none", steps(prompt(2, "notify 3"), `{"expect": {"ordered": true, "messages": [`+chunk("chunk 1")+`,`+chunk("chunk 3")+`]}}`), pass},
		{"messages out of order", "none", steps(prompt(2, "notify 3"), `{"expect": {"ordered": true, "timeoutMs": 100, "messages": [`+chunk("chunk 3")+`,`+chunk("chunk 1")+`]}}`), fail},
		{"a member that must not be there", "none", `{` + head + `, "steps": [` + echo + `, {"expect": {"timeoutMs": 100, "messages": [{"response": {"id": 7}, "absent": ["result.b", "result.a"]}]}}]}`, fail},
		{"steps can be repeated", "none", steps(`{"repeat": {"times": 3, "steps": [` + prompt(`"p${n}"`, "notify ${n}") + `, ` + expect(`{"response": {"id": "^p${n}$"}}`, chunk("^chunk ${n}$")) + `]}}`), pass},
		{"bytes are sent as they are", "none", `{` + head + `, "steps": [{"sendRaw": {"text": "{\"jsonrpc\": \"2.0\", \"id\": 5, "}}, {"sendRaw": {"text": "\"method\": \"made/up\"}\n{oops\n"}}, {"expect": {"messages": [{"response": {"id": 5, "error": {}}}, {"response": {"id": null, "error": {"code": -32700}}}]}}]}`, pass},
		{"an agent that ends with its input", "none", steps(`{"process": {"closeInput": true, "exitsWithinMs": 5000, "exitCode": 0}}`), pass},
		{"an agent that stays after its input has ended", "stays", steps(`{"rule": "TRN-11", "process": {"closeInput": true, "exitsWithinMs": 50}}`), comply.Warn},
		{"what is only advice does not count", "none", steps(`{"level": "ADV", "expect": {"timeoutMs": 1, "messages": [` + chunk("zzz") + `]}}`), pass},
		{"a test that comes too late says nothing", "none", steps(prompt(2, "notify 1"), expect(`{"response": {"id": 2}}`), `{"whileWaiting": 2, "send": {"jsonrpc": "2.0", "method": "session/cancel"}}`, expect(chunk("zzz"))), comply.NA},
		{"a test that comes in time does", "none", steps(prompt(2, "slow"), `{"whileWaiting": 2, "send": {"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": "${sessionId}"}}}`), pass},
		{"an answer twice", "twice", steps(), fail},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			text := strings.ReplaceAll(c.text, "DIR", "${sandbox}")
			wantStatus(t, play(t, c.flaw, text), c.want)
		})
	}
}

func TestIDs(t *testing.T) {
	t.Run("an answer with an id of another type is no answer", func(t *testing.T) {
		text := `{` + head + `, "steps": [{"timeoutMs": 9000, "send": {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {}}}]}`
		got := playWith(t, agent(t, "string-ids"), text, &comply.Options{Startup: 100 * time.Millisecond})
		wantStatus(t, got, comply.Fail)
		wantFinding(t, got, "RPC-02", `"1"`)
	})
}

func TestFiles(t *testing.T) {
	text := `{"title": "t", "ledger": false, "severity": "required", "sandbox": {"files": [{"path": "a/b/c.txt", "text": "nested in ${sandbox}"}, {"path": "d.txt", "base64": "aGk="}, {"path": "e"}]}, "steps": [
		{"newSession": {"capture": "sessionId"}},
		` + prompt(1, `call fs/read_text_file {"path":"${sandbox}/a/b/c.txt"}`) + `, ` + expect(chunk("nested in /")) + `,
		` + prompt(2, `call fs/read_text_file {"path":"${sandbox}/d.txt"}`) + `, ` + expect(chunk(`"hi"`)) + `,
		` + prompt(3, `call fs/read_text_file {"path":"${sandbox}/e"}`) + `, ` + expect(chunk(`"content":""`)) + `]}`
	t.Run("R4-025 declared files are there, in folders and from base64", func(t *testing.T) {
		wantStatus(t, play(t, "none", text), comply.Pass)
	})
	t.Run("a finding about a file says what it is", func(t *testing.T) {
		got := play(t, "none", steps(`{"rule": "MCP-01", "file": {"path": "f", "is": "which the server writes", "text": "x"}}`))
		if len(got.Findings) != 1 || got.Findings[0].Expected != "the file f, which the server writes" {
			t.Errorf("got %+v", got.Findings)
		}
	})
}

func TestPolicies(t *testing.T) {
	asks := map[string]string{
		"read":    `call fs/read_text_file {"path":"${sandbox}/a.txt"}`,
		"write":   `call fs/write_text_file {"path":"${sandbox}/b.txt","content":"x"}`,
		"execute": `call terminal/create {"command":"echo"}`,
	}
	for _, c := range []struct {
		id, policy string
		allowed    []string
	}{
		{"R4-049", "none", nil},
		{"R4-050", "read", []string{"read"}},
		{"R4-051", "write", []string{"read", "write"}},
		{"R4-052", "yolo", []string{"read", "write", "execute"}},
		{"R4-052", "", []string{"read", "write", "execute"}},
	} {
		t.Run(fmt.Sprintf("%s policy %q allows %v", c.id, c.policy, c.allowed), func(t *testing.T) {
			t.Parallel()
			var list []string
			id := 1
			for kind, call := range asks {
				want, option := `"error"`, "no"
				if slices.Contains(c.allowed, kind) {
					want, option = `"result"`, "yes"
				}
				toolKind := map[string]string{"read": "read", "write": "edit", "execute": "execute"}[kind]
				permission := `call session/request_permission {"sessionId":"${sessionId}","toolCall":{"toolCallId":"t","kind":"` + toolKind + `"},"options":[{"optionId":"always","name":"a","kind":"allow_always"},{"optionId":"yes","name":"y","kind":"allow_once"},{"optionId":"no","name":"n","kind":"reject_once"}]}`
				list = append(list, prompt(id, call), expect(chunk(want)), prompt(id+1, permission), expect(chunk(`"optionId":"`+option+`"`)))
				id += 2
			}
			text := strings.Replace(steps(list...), `"files": []`, `"files": [{"path": "a.txt"}]`, 1)
			if c.policy != "" {
				text = strings.Replace(text, `"steps"`, `"init": {"permissionPolicy": "`+c.policy+`"}, "steps"`, 1)
			}
			wantStatus(t, play(t, "none", text), comply.Pass)
		})
	}
	t.Run("R4-007 each test has its own policy", func(t *testing.T) {
		ask := prompt(1, `call session/request_permission {"sessionId":"${sessionId}","toolCall":{"toolCallId":"t","kind":"read"},"options":[{"optionId":"yes","name":"y","kind":"allow_once"},{"optionId":"no","name":"n","kind":"reject_once"}]}`)
		for policy, option := range map[string]string{"none": "no", "read": "yes", "yolo": "yes"} {
			text := strings.Replace(steps(ask, expect(chunk(`"optionId":"`+option+`"`))), `"steps"`, `"init": {"permissionPolicy": "`+policy+`"}, "steps"`, 1)
			wantStatus(t, play(t, "none", text), comply.Pass)
		}
	})
	t.Run("R4-017 after a cancel the answer to a question is cancelled", func(t *testing.T) {
		wantStatus(t, play(t, "none", steps(
			`{"send": {"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": "other"}}}`,
			prompt(1, `call session/request_permission {"sessionId":"other","options":[{"optionId":"yes","name":"y","kind":"allow_once"}]}`),
			expect(chunk(`"outcome":"cancelled"`)),
		)), comply.Pass)
	})
}

func TestPreconditions(t *testing.T) {
	for _, c := range []struct {
		cond string
		want comply.Status
	}{
		{`{"agentCap": "mcpCapabilities.http", "mustBe": true}`, comply.Pass},
		{`{"agentCap": "mcpCapabilities.http", "mustBe": false}`, comply.NA},
		{`{"agentCap": "loadSession"}`, comply.NA},
		{`{"agentCap": "sessionCapabilities.list", "mustBe": true}`, comply.Pass},
		{`{"agentCap": "sessionCapabilities.fork", "mustBe": true}`, comply.NA},
		{`{"agentCap": "sessionCapabilities.fork", "mustBe": false}`, comply.Pass},
		{`{"cap": "client.fs.readTextFile", "mustBe": true}`, comply.Pass},
		{`{"cap": "client.terminal", "mustBe": true}`, comply.NA},
	} {
		t.Run("R4-047 "+c.cond, func(t *testing.T) {
			t.Parallel()
			got := play(t, "none", `{`+head+`, "init": {"clientCapabilities": {"terminal": false}}, "preconditions": [`+c.cond+`], "steps": []}`)
			wantStatus(t, got, c.want)
			if c.want == comply.NA && !strings.Contains(got.Reason, "capability") {
				t.Errorf("the reason is %q", got.Reason)
			}
		})
	}
}

func TestProbe(t *testing.T) {
	a := agent(t, "none")
	count := filepath.Join(t.TempDir(), "count")
	a.Env[countFile] = count
	tests := suite(t, map[string]string{"a": `{` + head + `, "init": {"manual": true}, "steps": []}`, "b": `{` + head + `, "init": {"manual": true}, "steps": []}`})
	got := run(t, a, tests, nil)
	t.Run("R4-027 the agent is initialized once for the header", func(t *testing.T) {
		lines, err := os.ReadFile(count)
		if err != nil || string(lines) != "initialize\n" {
			t.Errorf("got %q (%v)", lines, err)
		}
		if string(got.ProtocolVersion) != "1" || !strings.Contains(string(got.AgentCapabilities), `"http":true`) {
			t.Errorf("got %s %s", got.ProtocolVersion, got.AgentCapabilities)
		}
		if !slices.Equal(got.Modes, []string{"ask", "code"}) || !slices.Equal(got.Commands, []string{"plan"}) {
			t.Errorf("got modes %v and commands %v", got.Modes, got.Commands)
		}
	})
	t.Run("R4-027 each test has a process of its own", func(t *testing.T) {
		os.Remove(count)
		run(t, a, suite(t, map[string]string{"a": steps(), "b": steps()}), nil)
		if lines, _ := os.ReadFile(count); strings.Count(string(lines), "\n") != 3 {
			t.Errorf("got %q", lines)
		}
	})
	t.Run("an agent that cannot be started ends the run at once", func(t *testing.T) {
		_, err := comply.Run(t.Context(), []comply.Agent{{Name: "x", Command: "/nonexistent/agent"}}, tests, nil)
		if err == nil || !strings.Contains(err.Error(), "/nonexistent/agent") {
			t.Errorf("got %v, want an error that names the program", err)
		}
	})
}

func TestNewSession(t *testing.T) {
	recorded := t.TempDir()
	play := func(t *testing.T, step string) string {
		got := playWith(t, agent(t, "none"), `{`+head+`, "steps": [`+step+`]}`, &comply.Options{Record: recorded})
		wantStatus(t, got, comply.Pass)
		raw, err := os.ReadFile(filepath.Join(recorded, "none", "case.jsonl"))
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	t.Run("R4-053 servers are passed through, with variables", func(t *testing.T) {
		log := play(t, `{"newSession": {"mcpServers": [{"name": "m", "command": "${sandbox}/m", "args": [], "env": []}]}}`)
		if !strings.Contains(log, `"mcpServers":[{"name":"m","command":"/`) || !strings.Contains(log, `/sandbox/m"`) {
			t.Error(log)
		}
	})
	t.Run("R4-008 a test without MCP servers has none", func(t *testing.T) {
		if log := play(t, `{"newSession": {}}`); !strings.Contains(log, `"mcpServers":[]`) || strings.Contains(log, "command\":") {
			t.Error(log)
		}
	})
	t.Run("R4-053 several sessions have a variable each", func(t *testing.T) {
		play(t, `{"newSession": {"capture": "one"}}, {"newSession": {"capture": "two"}}, {"send": {"jsonrpc": "2.0", "id": 1, "method": "test/echo", "params": {"x": "${one} ${two}"}}}, {"expect": {"messages": [{"response": {"id": 1, "result": {"x": "^s.1 s.2$"}}}]}}`)
	})
	t.Run("R4-005 each frame stands on a line", func(t *testing.T) {
		log := play(t, `{"send": {"jsonrpc": "2.0", "id": 1, "method": "test/echo", "params": {"x": "a\nb"}}}, {"expect": {"messages": [{"response": {"id": 1}}]}}`)
		if !strings.Contains(log, `{"direction":"out","frame":{"jsonrpc":"2.0","id":1,"method":"test/echo","params":{"x":"a\nb"}},"seq":`) {
			t.Error(log)
		}
	})
	t.Run("an agent that gives no session fails, under the rule for that", func(t *testing.T) {
		got := playWith(t, agent(t, "no-session"), steps(), nil)
		wantStatus(t, got, comply.Fail)
		wantFinding(t, got, "SNEW-01", "-32000")
	})
}

func TestRobust(t *testing.T) {
	good := steps(prompt(1, "notify 1"), expect(chunk("chunk")))
	for _, c := range []struct {
		name, flaw, text, rule, part string
	}{
		{"R4-067 a crash", "none", steps(prompt(1, "exit 3"), expect(chunk("x"))), "case", "exit status 3"},
		{"R4-067 a crash after everything was met", "none", steps(prompt(1, "exit 3")), "RPC-11", "exit status 3"},
		{"R4-067 a line that is no message", "none", steps(prompt(1, "raw hello"), expect(`{"response": {"id": 1}}`)), "TRN-01", "not JSON"},
		{"R4-067 a banner", "banner", good, "TRN-01", "not JSON"},
		{"R4-067 a flood", "flood", good, "INIT-01", "more than"},
		{"R4-067 a line without end", "huge", good, "TRN-01", "bytes"},
		{"R4-067 a message that is no JSON-RPC", "none", steps(prompt(1, `raw {"x":1}`), expect(`{"response": {"id": 1}}`)), "RPC-01", "null"},
		{"R4-067 a response with result and error", "none", steps(prompt(1, `raw {"jsonrpc":"2.0","id":55,"result":1,"error":{}}`), expect(`{"response": {"id": 1}}`)), "RPC-04", "both"},
		{"R4-067 messages in an array", "none", steps(prompt(1, `raw [{"jsonrpc":"2.0","method":"x"}]`), expect(`{"response": {"id": 1}}`, `{"notification": {"method": "x"}}`)), "TRN-13", "array"},
	} {
		t.Run(c.name+" fails its test", func(t *testing.T) {
			t.Parallel()
			got := playWith(t, agent(t, c.flaw), c.text, &comply.Options{TimeoutScale: 20}) // it is the end that is awaited, not the time
			wantStatus(t, got, comply.Fail)
			wantFinding(t, got, c.rule, c.part)
		})
	}
	t.Run("an agent that says much for each of many requests does not flood", func(t *testing.T) {
		t.Parallel()
		lines := "raw " + strings.Repeat(`{"jsonrpc":"2.0","method":"_x"}`+"\n", 500)
		var all []string
		for id := range 50 {
			all = append(all, prompt(id+1, lines), expect(fmt.Sprintf(`{"response": {"id": %d}}`, id+1)))
		}
		got := playWith(t, agent(t, "none"), steps(all...), &comply.Options{TimeoutScale: 20})
		wantStatus(t, got, comply.Pass)
	})
	t.Run("a program that fails without a word was not started, and the error has its last line", func(t *testing.T) {
		_, err := comply.Run(t.Context(), []comply.Agent{agent(t, "crash")}, suite(t, map[string]string{"case": good}), nil)
		if unstarted := (*comply.StartError)(nil); !errors.As(err, &unstarted) || !strings.Contains(err.Error(), "out of cheese") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("R4-067 one test that crashes leaves the others alone", func(t *testing.T) {
		got := run(t, agent(t, "none"), suite(t, map[string]string{"bad": steps(prompt(1, "exit 3")), "good": good}), nil)
		wantStatus(t, got.Tests[0], comply.Fail)
		wantStatus(t, got.Tests[1], comply.Pass)
	})
	for _, flaw := range []string{"hang", "deaf"} {
		t.Run("R4-067 an agent that is "+flaw+" fails in time", func(t *testing.T) {
			t.Parallel()
			got := playWith(t, agent(t, flaw), good, &comply.Options{Startup: 100 * time.Millisecond})
			wantStatus(t, got, comply.Fail)
			wantFinding(t, got, "INIT-01", "not answered")
		})
	}
	t.Run("R4-006 nothing is left when the run is interrupted", func(t *testing.T) {
		temp := t.TempDir()
		ctx, cancel := context.WithCancel(t.Context())
		opts := &comply.Options{Temp: temp, Trace: func(_, test string, f comply.Frame) {
			if strings.Contains(f.Text, `"never"`) {
				cancel()
			}
		}}
		report, err := comply.Run(ctx, []comply.Agent{agent(t, "none")}, suite(t, map[string]string{"case": steps(prompt(1, "never"), expect(chunk("x")))}), opts)
		if err == nil || report.Agents[0].Tests[0].Status != comply.Errored {
			t.Errorf("got %v, %+v", err, report)
		}
		if left, _ := os.ReadDir(temp); len(left) > 0 {
			t.Errorf("left behind: %v", left)
		}
	})
}

func TestConfined(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "secret.txt")
	if err := os.WriteFile(outside, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("COMPLY_SECRET_KEY", "hunter2")
	for name, c := range map[string]struct{ prompt, want string }{
		"R4-069 no file outside is read":            {`call fs/read_text_file {"path":"` + outside + `"}`, `"error"`},
		"R4-069 no way leads up":                    {`call fs/read_text_file {"path":"${sandbox}/../../secret.txt"}`, `"error"`},
		"R4-069 no file outside is written":         {`call fs/write_text_file {"path":"` + outside + `","content":"x"}`, `"error"`},
		"R4-069 no relative path is taken":          {`call fs/read_text_file {"path":"a.txt"}`, `-32602`},
		"R4-069 no terminal starts outside":         {`call terminal/create {"command":"pwd","cwd":"/"}`, `"error"`},
		"R4-069 a terminal starts in the workspace": {`call terminal/create {"command":"pwd"}`, `terminalId`},
		"R4-069 an agent starts outside of it":      {`where`, `/comply$`},
		"R4-069 the home is an empty one":           {`env`, `(?m)^HOME=/.*comply-.*/home$`},
	} {
		t.Run(name, func(t *testing.T) {
			wantStatus(t, play(t, "none", steps(prompt(1, c.prompt), expect(chunk(c.want)))), comply.Pass)
		})
	}
	t.Run("R4-069 the agent does not get variables of the caller", func(t *testing.T) {
		wantStatus(t, play(t, "none", steps(prompt(1, "env"), `{"expect": {"timeoutMs": 200, "messages": [`+chunk("hunter2")+`]}}`)), comply.Fail)
	})
	t.Run("R4-019 a terminal can be waited for, read and released", func(t *testing.T) {
		wantStatus(t, play(t, "none", steps(
			prompt(1, `terminal {"command":"sh","args":["-c","echo $WORD; exit 4"],"env":[{"name":"WORD","value":"hi there"}]}`),
			`{"expect": {"ordered": true, "messages": [`+strings.Join([]string{chunk(`"exitCode":4`), chunk("hi there"), chunk(`"result":\{\}`), chunk(`"result":\{\}`), chunk("-32002")}, ",")+`]}}`,
		)), comply.Pass)
	})
}
