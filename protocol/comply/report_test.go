package comply_test

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/parley-agents/parley/internal/testing/goodagent"
	"github.com/parley-agents/parley/protocol/comply"
)

var update = flag.Bool("update", false, "write the golden files")

// sampleReport is the report of two agents with every status.
func sampleReport() *comply.Report {
	finding := comply.Finding{
		Rule: "FS-01", Level: comply.Must, Expected: "no call of fs/read_text_file", Actual: "the agent called fs/read_text_file",
		Frames: []comply.Frame{{Seq: 7, Direction: "in", Text: "{\"method\":\"fs/read_text_file\",\"params\":{\"path\":\"/tmp/`x`\x1b[31m\"}}"}},
		Docs:   []string{"https://agentclientprotocol.com/protocol/file-system"}, Fix: "look at clientCapabilities.fs first",
	}
	release := comply.Finding{
		Rule: "TERM-03", Level: comply.Must, Expected: "within 5s, a request like {method: /^terminal/release$/}", Actual: "no such message came",
		Frames: []comply.Frame{}, Docs: []string{"https://agentclientprotocol.com/protocol/terminals"}, Fix: "release every terminal",
	}
	warning := release
	warning.Rule, warning.Level, warning.Actual = "TRN-11", comply.Should, "it still runs"
	result := func(id, area string, severity comply.Severity, status comply.Status, reason string, found ...comply.Finding) comply.Result {
		return comply.Result{ID: id, Title: area + " works", Description: "What *is* tested.", Area: area, Severity: severity, Status: status, Reason: reason, Findings: append([]comply.Finding{}, found...), Docs: []string{"https://example.org/" + id}}
	}
	report := &comply.Report{Agents: []comply.AgentReport{
		{
			Name: "agent-one", ProtocolVersion: json.RawMessage("1"), AgentCapabilities: json.RawMessage(`{"loadSession":true,"mcpCapabilities":{"http":false}}`),
			Modes: []string{"architect", "code"}, Commands: []string{"plan"},
			Tests: []comply.Result{
				result("required.fs", "Capability Respect (FS disabled)", comply.Required, comply.Fail, finding.Actual, finding),
				result("required.end", "End", comply.Required, comply.Warn, warning.Actual, warning),
				result("optional.terminal", "Terminal Usage", comply.Optional, comply.Partial, release.Actual, release),
				result("optional.modes", "Modes", comply.Optional, comply.NA, "the agent's capability modes is false, but the test needs true"),
			},
			Ledger: []comply.Finding{},
		},
		{
			Name: "agent|two", ProtocolVersion: json.RawMessage("null"), AgentCapabilities: json.RawMessage("null"), Notes: []string{"it could not be started: no such file"},
			Tests: []comply.Result{
				result("required.fs", "Capability Respect (FS disabled)", comply.Required, comply.Pass, ""),
				result("required.end", "End", comply.Required, comply.Errored, "no such file"),
				result("optional.terminal", "Terminal Usage", comply.Optional, comply.Pass, ""),
				result("optional.modes", "Modes", comply.Optional, comply.Fail, release.Actual, release),
			},
			Ledger: []comply.Finding{},
		},
	}}
	for i := range report.Agents {
		report.Agents[i].Totals = map[comply.Status]int{}
		for _, r := range report.Agents[i].Tests {
			report.Agents[i].Totals[r.Status]++
		}
	}
	return report
}

// golden compares what write writes with a file.
func golden(t *testing.T, name string, write func(io.Writer) error) string {
	t.Helper()
	var b bytes.Buffer
	if err := write(&b); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join("testdata", "reports", name)
	if *update {
		if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v (run with -update to make it)", err)
	}
	if b.String() != string(want) {
		t.Errorf("%s has changed; read it and run with -update\ngot:\n%s\nwant:\n%s", name, b.String(), want)
	}
	return b.String()
}

func TestReports(t *testing.T) {
	r := sampleReport()
	t.Run("R4-030 Markdown has a header for each agent and a section for each test, and no table", func(t *testing.T) {
		text := golden(t, "report.md", func(w io.Writer) error { return r.Markdown(w, nil) })
		if strings.Contains(text, "|--") || strings.Count(text, "\n### ") != 8 || strings.Count(text, "\n## ") != 2 {
			t.Error("the shape is wrong")
		}
	})
	t.Run("R4-064 the overview has every status, with notes", func(t *testing.T) {
		text := golden(t, "summary.md", func(w io.Writer) error { return r.Markdown(w, &comply.MarkdownOptions{Summary: true}) })
		for _, part := range []string{"FAIL [1]", "WARN [2]", "PARTIAL [4]", "ERROR [3]", "| NA ", "\n[1] FS-01: expected", "(optional)"} {
			if !strings.Contains(text, part) {
				t.Errorf("%q is missing", part)
			}
		}
	})
	t.Run("R4-065 the summary has capabilities, modes, notes and links", func(t *testing.T) {
		text := golden(t, "summary.md", func(w io.Writer) error { return r.Markdown(w, &comply.MarkdownOptions{Summary: true}) })
		for _, part := range []string{"- Caps: loadSession:true, mcpCapabilities.http:false", "- Modes: architect, code", "- Modes: not advertised", "- Notes: Capability Respect", "- Links: <https://"} {
			if !strings.Contains(text, part) {
				t.Errorf("%q is missing", part)
			}
		}
	})
	t.Run("R4-030 what an agent says cannot break the report", func(t *testing.T) {
		if text := golden(t, "report.md", func(w io.Writer) error { return r.Markdown(w, nil) }); strings.Contains(text, "\x1b") || strings.Contains(text, "agent|two") {
			t.Error("it can")
		}
	})
	t.Run("JSON can be read back", func(t *testing.T) {
		text := golden(t, "report.json", r.JSON)
		var back comply.Report
		dec := json.NewDecoder(strings.NewReader(text))
		dec.DisallowUnknownFields()
		if err := dec.Decode(&back); err != nil || len(back.Agents) != 2 || back.Agents[0].Tests[0].Findings[0].Rule != "FS-01" {
			t.Errorf("got %+v (%v)", back, err)
		}
	})
	t.Run("JUnit fails what fails the run, and skips what did not run", func(t *testing.T) {
		text := golden(t, "report.xml", r.JUnit)
		var back struct {
			Suites []struct {
				Failures int `xml:"failures,attr"`
				Errors   int `xml:"errors,attr"`
				Skipped  int `xml:"skipped,attr"`
			} `xml:"testsuite"`
		}
		if err := xml.Unmarshal([]byte(text), &back); err != nil {
			t.Fatal(err)
		}
		if a, b := back.Suites[0], back.Suites[1]; a.Failures != 2 || a.Skipped != 1 || b.Errors != 1 || b.Failures != 1 || b.Skipped != 0 {
			t.Errorf("got %+v", back)
		}
	})
}

func TestBaseline(t *testing.T) {
	parse := func(text string) *comply.Baseline {
		t.Helper()
		b, err := comply.ParseBaseline("known", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	for _, c := range []struct {
		name, text string
		failed     bool
		stale      int
	}{
		{"a required failure fails the run", "", true, 0},
		{"an expected one does not", "# known\nrequired.fs agent-one # a\n\nrequired.end agent|two # b\nTERM-03 # c\n", false, 0},
		{"one expected of another agent does", "required.fs agent|two # a\nrequired.end # b\n", true, 1},
		{"a stale entry fails the run", "required.fs # a\nrequired.end # b\nTERM-03 # c\n", true, 1},
		{"a test that was not run is not stale", "required.fs agent-one # a\nrequired.end # b\nelsewhere # c\nTERM-03 # d\n", false, 0},
		{"a date in the future counts", "FS-01 agent-one until=2026-11-16 # a\nrequired.end agent|two # b\nTERM-03 # c\n", false, 0},
		{"a date in the past does not", "FS-01 agent-one until=2026-11-15 # a\nrequired.end agent|two # b\nTERM-03 # c\n", true, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := sampleReport()
			parse(c.text).Apply(r, time.Date(2026, 11, 16, 12, 0, 0, 0, time.UTC))
			stale := len(r.Agents[0].Stale) + len(r.Agents[1].Stale)
			if r.Failed() != c.failed || stale != c.stale {
				t.Errorf("got %v with %d stale, want %v with %d", r.Failed(), stale, c.failed, c.stale)
			}
		})
	}
	for _, text := range []string{"# x\n\na # b\na # c\n", "\n\n\na\n", "\n\n\na until=soon # b\n"} {
		if _, err := comply.ParseBaseline("known", []byte(text)); err == nil || !strings.HasPrefix(err.Error(), "known:4:") {
			t.Errorf("got %v for %q", err, text)
		}
	}
}

func TestOptionalShortfall(t *testing.T) {
	optional := func(text string) string { return strings.Replace(text, `"required"`, `"optional"`, 1) }
	t.Run("R4-064 an optional test that is met in part is PARTIAL", func(t *testing.T) {
		wantStatus(t, play(t, "none", optional(steps(`{"expect": {"timeoutMs": 1, "messages": [`+chunk("zzz")+`]}}`))), comply.Partial)
	})
	t.Run("R4-064 one of which nothing is met is FAIL", func(t *testing.T) {
		wantStatus(t, play(t, "none", optional(`{`+head+`, "steps": [{"expect": {"timeoutMs": 1, "messages": [`+chunk("zzz")+`]}}]}`)), comply.Fail)
	})
}

// The span that a finding names is that of the test, also where the runner waited a little longer.
func TestSpans(t *testing.T) {
	got := play(t, "none", steps(`{"expect": {"timeoutMs": 1040, "messages": [`+chunk("zzz")+`]}}`))
	if len(got.Findings) != 1 || !strings.HasPrefix(got.Findings[0].Expected, "within 1s, ") {
		t.Errorf("got %+v", got.Findings)
	}
}

// TestLedgerVerdict holds what an agent does wrong everywhere apart from what a
// test is about.
func TestLedgerVerdict(t *testing.T) {
	odd := &goodagent.Mutant{Rule: "none", Out: func(_ *goodagent.Wire, m goodagent.Message) []goodagent.Message {
		if u := m.Update(); u != nil {
			u["mood"] = "fine"
		}
		return []goodagent.Message{m}
	}}
	text := strings.Replace(steps(prompt(1, "parley:say text=hello"), expect(`{"response": {"id": 1}}`)), `"ledger": false, `, "", 1)
	tests := suite(t, map[string]string{"case": text})
	report, err := comply.Run(t.Context(), []comply.Agent{goodAgent(odd)}, tests, nil)
	if err != nil {
		t.Fatal(err)
	}
	a := &report.Agents[0]
	wantStatus(t, a.Tests[0], comply.Pass)
	if broken := a.Broken(); len(broken) != 1 || broken[0].Rule != "UPD-21" || !report.Failed() {
		t.Errorf("got %+v, failed: %v; want the run to fail by UPD-21 alone", broken, report.Failed())
	}
	var junit, page strings.Builder
	if err := report.JUnit(&junit); err != nil || !strings.Contains(junit.String(), `failures="1"`) {
		t.Errorf("got %v and %s, want one failure", err, junit.String())
	}
	if err := report.Markdown(&page, &comply.MarkdownOptions{Summary: true}); err != nil || !strings.Contains(page.String(), "| FAIL [1]") {
		t.Errorf("got %v and %s, want a row for every frame", err, page.String())
	}
	known, err := comply.ParseBaseline("b", []byte("UPD-21 # a\n"))
	if err != nil {
		t.Fatal(err)
	}
	if known.Apply(report, time.Now()); report.Failed() {
		t.Error("the run fails by what the baseline expects")
	}
	stale, err := comply.ParseBaseline("b", []byte("INIT-18 # a\n"))
	if err != nil {
		t.Fatal(err)
	}
	if stale.Apply(report, time.Now()); !report.Failed() || len(a.Stale) != 1 {
		t.Errorf("got stale %v, want the rule that is not broken", a.Stale)
	}
	about := strings.Replace(text, `"title"`, `"rules": ["UPD-21"], "title"`, 1)
	wantStatus(t, run(t, goodAgent(odd), suite(t, map[string]string{"case": about}), nil).Tests[0], comply.Fail)
}
