package main

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/parley-agents/parley/protocol/report"
)

// reportShape is what report parse --json answers, every member named.
type reportShape struct {
	Status        *string  `json:"status"`
	FilesCreated  []string `json:"files_created"`
	FilesModified []string `json:"files_modified"`
	Tests         *string  `json:"tests"`
	Build         *string  `json:"build"`
	Error         *string  `json:"error"`
	Learned       *string  `json:"learned"`
	StatusKnown   bool     `json:"status_known"`
	TestsCount    *int     `json:"tests_count"`
	Extra         []struct {
		Name  string `json:"name"`
		Value string `json:"value"`
	} `json:"extra"`
	Diagnostics []struct {
		Code    string `json:"code"`
		Line    int    `json:"line"`
		Message string `json:"message"`
	} `json:"diagnostics"`
}

// codes are the codes of the diagnostics in their order.
func (r reportShape) codes() (out []string) {
	for _, d := range r.Diagnostics {
		out = append(out, d.Code)
	}
	return out
}

// reports runs a report command with something on its standard input.
func reports(t *testing.T, input string, args ...string) result {
	t.Helper()
	cmd := parley(t, nil, append([]string{"report"}, args...)...)
	cmd.Stdin = strings.NewReader(input)
	return do(t, cmd)
}

const chatty = "All done!\n\n**Status:** ok\nFILES_CREATED: a.go, b.go\nTESTS: pass:12\nNOTE: see log\n"

func TestReportParse(t *testing.T) {
	t.Run("R0-028 a report comes out in JSON with what was noticed", func(t *testing.T) {
		var got reportShape
		r := reports(t, chatty, "parse", "--json")
		if strict(t, r.out, &got); r.code != 0 || r.err != "" {
			t.Fatalf("exit %d: %s", r.code, r.err)
		}
		if *got.Status != "ok" || !got.StatusKnown || !slices.Equal(got.FilesCreated, []string{"a.go", "b.go"}) || *got.Tests != "pass:12" || *got.TestsCount != 12 {
			t.Errorf("got %s", r.out)
		}
		if got.FilesModified == nil || got.Build != nil || got.Error != nil || got.Learned != nil {
			t.Errorf("what is absent: %s", r.out)
		}
		if len(got.Extra) != 1 || got.Extra[0].Name != "NOTE" || got.Extra[0].Value != "see log" {
			t.Errorf("extra: %s", r.out)
		}
		if want := []string{"prose_before", "decorated", "unknown_field"}; !slices.Equal(got.codes(), want) || got.Diagnostics[1].Line != 3 {
			t.Errorf("got %v, want %v", got.codes(), want)
		}
	})
	t.Run("R0-024 what is no report is a failed check", func(t *testing.T) {
		var got reportShape
		r := reports(t, "hello\n", "parse", "--json")
		if strict(t, r.out, &got); r.code != exitCheck || got.Status != nil || got.StatusKnown || !slices.Equal(got.codes(), []string{"not_a_report"}) {
			t.Errorf("exit %d: %s%s", r.code, r.out, r.err)
		}
		r = reports(t, "hello\n", "parse")
		if r.code != exitCheck || r.out != "" {
			t.Errorf("exit %d: %s", r.code, r.out)
		}
		contains(t, r.err, "standard input: error:", "(not_a_report)")
	})
	t.Run("for people it is canonical, with the rest on stderr", func(t *testing.T) {
		r := reports(t, chatty, "parse")
		if want := "STATUS:ok\nFILES_CREATED:a.go,b.go\nTESTS:pass:12\nNOTE:see log\n"; r.out != want || r.code != 0 {
			t.Errorf("exit %d, got\n%swant\n%s", r.code, r.out, want)
		}
		contains(t, r.err, "standard input:3: note:")
	})
	t.Run("in reference mode it is read as the public parser reads it", func(t *testing.T) {
		if r := reports(t, chatty, "parse", "--mode", "reference"); r.code != exitCheck {
			t.Errorf("a decorated status: exit %d", r.code)
		}
		if r := reports(t, `{"status":"ok"}`, "parse", "--mode", "reference"); r.code != exitCheck {
			t.Errorf("JSON as text: exit %d", r.code)
		}
		if r := reports(t, `{"status":"ok"}`, "parse", "--mode", "reference", "--form", "json"); r.code != 0 || r.out != "STATUS:ok\n" {
			t.Errorf("JSON as JSON: exit %d: %s", r.code, r.out)
		}
		if r := reports(t, `{"status":"ok"}`, "parse", "--form", "text"); r.code != exitCheck {
			t.Errorf("JSON as text: exit %d", r.code)
		}
	})
	t.Run("several files give an answer each", func(t *testing.T) {
		good, bad := write(t, "good", "STATUS:ok\n"), write(t, "bad", "hello\n")
		r := do(t, parley(t, nil, "report", "parse", "--json", good, bad, good))
		if r.code != exitCheck || strings.Count(r.out, "\n") != 3 {
			t.Errorf("exit %d: %s", r.code, r.out)
		}
		if r := do(t, parley(t, nil, "report", "parse", good, good)); r.code != 0 || r.out != "STATUS:ok\nSTATUS:ok\n" {
			t.Errorf("exit %d: %s", r.code, r.out)
		}
	})
	t.Run("a dispatch is read when asked for", func(t *testing.T) {
		var got struct {
			Task, Context, Rules, Done         *string
			Acceptance, Scope, Verify, Unknown []string
			Extra, Diagnostics                 []json.RawMessage
		}
		r := reports(t, "TASK: limit\nACCEPTANCE: 1. a 2. b\nSCOPE: x\n", "parse", "--dispatch", "--json")
		if strict(t, r.out, &got); r.code != 0 || *got.Task != "limit" || !slices.Equal(got.Acceptance, []string{"a", "b"}) || got.Verify == nil {
			t.Errorf("exit %d: %s%s", r.code, r.out, r.err)
		}
		if r := reports(t, "STATUS:ok\n", "parse", "--dispatch", "--json"); r.code != exitCheck {
			t.Errorf("a report: exit %d", r.code)
		}
		contains(t, reports(t, "TASK: limit\nSCOPE: x\n", "parse").err, "looks_like_dispatch")
	})
	t.Run("nothing in a report reaches the terminal as a command", func(t *testing.T) {
		r := reports(t, "STATUS:ok\nLEARNED:\x1b[2Jgone\nTESTS:\x1b]0;x\x07\n", "parse")
		if strings.ContainsAny(r.out+r.err, "\x1b\x07") {
			t.Errorf("got %q %q", r.out, r.err)
		}
	})
	t.Run("a wrong call is a usage error", func(t *testing.T) {
		refused(t, reports(t, "", "parse", "--mode", "lax", "--json"), exitUsage, "usage")
		refused(t, reports(t, "", "parse", "--form", "xml", "--json"), exitUsage, "usage")
		refused(t, reports(t, "", "parse", "/nonexistent/file", "--json"), exitUsage, "schema_invalid")
	})
}

func TestReportLint(t *testing.T) {
	var got struct {
		OK       bool `json:"ok"`
		Findings []struct {
			Code     string `json:"code"`
			Severity string `json:"severity"`
			Line     int    `json:"line"`
			Message  string `json:"message"`
		} `json:"findings"`
	}
	for _, c := range []struct {
		name, text string
		args       []string
		exit       int
		code       string // of the first finding; "" for none
	}{
		{"a clean report passes", "STATUS:ok\n", nil, 0, ""},
		{"an oddity passes", "STATUS: ok\n", nil, 0, "not_canonical"},
		{"no report fails", "hello\n", nil, exitCheck, "not_a_report"},
		{"a contradiction fails", "STATUS:ok\nTESTS:fail:1\n", nil, exitCheck, "contradiction"},
		{"a path that climbs fails", "STATUS:ok\nFILES_CREATED:../x\n", nil, exitCheck, "parent_path"},
		{"a path in the scope passes", "STATUS:ok\nFILES_CREATED:a/x\n", []string{"--scope", "b,a"}, 0, ""},
		{"a path outside the scope fails", "STATUS:ok\nFILES_CREATED:c/x\n", []string{"--scope", "b,a"}, exitCheck, "outside_scope"},
		{"a dispatch is checked when asked for", "TASK:x\n", []string{"--dispatch"}, 0, "missing_field"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := reports(t, c.text, append([]string{"lint", "--json"}, c.args...)...)
			strict(t, r.out, &got)
			first := ""
			if len(got.Findings) > 0 {
				first = got.Findings[0].Code
			}
			if r.code != c.exit || got.OK != (c.exit == 0) || first != c.code {
				t.Errorf("exit %d, want %d: %s", r.code, c.exit, r.out)
			}
			plain := reports(t, c.text, append([]string{"lint"}, c.args...)...)
			if plain.code != c.exit || !strings.Contains(plain.out, c.code) {
				t.Errorf("for people: exit %d, want %d: %s", plain.code, c.exit, plain.out)
			}
		})
	}
}

func TestReportLintPrompt(t *testing.T) {
	r := reports(t, "Write\n\nTESTS:pass\nSTATUS:wonky\n", "lint", "--prompt")
	if n := strings.Count(r.out, "unknown_status"); r.code != exitCheck || n != 1 {
		t.Errorf("exit %d, the error is said %d times: %s", r.code, n, r.out)
	}
	contains(t, r.out, ":4: ")
}

func TestReportEmit(t *testing.T) {
	t.Run("R0-001 JSON becomes canonical text", func(t *testing.T) {
		r := reports(t, `{"status":"OK","files_created":["a,b","c"],"tests":"pass:3","error":" x\ny "}`, "emit")
		if want := "STATUS:ok\nFILES_CREATED:\"a,b\",c\nTESTS:pass:3\nERROR:x / y\n"; r.out != want || r.code != 0 {
			t.Errorf("exit %d, got\n%swant\n%s", r.code, r.out, want)
		}
	})
	t.Run("R0-028 what parse answers can be emitted", func(t *testing.T) {
		r := reports(t, reports(t, chatty, "parse", "--json").out, "emit")
		if want := reports(t, chatty, "parse").out; r.out != want || r.code != 0 {
			t.Errorf("exit %d, got\n%swant\n%s", r.code, r.out, want)
		}
		r = reports(t, r.out, "emit", "--json")
		var got report.Report
		if err := json.Unmarshal([]byte(r.out), &got); err != nil || got.Tests != "pass:12" || len(got.Extra) != 1 {
			t.Errorf("%v: %s", err, r.out)
		}
	})
	t.Run("a dispatch is written when asked for", func(t *testing.T) {
		if r := reports(t, `{"task":"x","verify":["a","b"]}`, "emit", "--dispatch"); r.out != "TASK:x\nVERIFY:\n  - a\n  - b\n" || r.code != 0 {
			t.Errorf("exit %d: %s", r.code, r.out)
		}
	})
	t.Run("a status of no protocol is written only if it is asked for", func(t *testing.T) {
		for _, input := range []string{`{"status":"okay"}`, "STATUS: okay\n"} {
			r := reports(t, input, "emit")
			if r.code != exitCheck || r.out != "" {
				t.Errorf("%s: exit %d: %s", input, r.code, r.out)
			}
			contains(t, r.err, `standard input: "okay" is not a status of the protocol`, "--any-status", "no_changes, ok")
			if r := reports(t, input, "emit", "--any-status"); r.code != 0 || r.out != "STATUS:okay\n" {
				t.Errorf("%s: exit %d: %s%s", input, r.code, r.out, r.err)
			}
		}
	})
	t.Run("a member that no report can hold is refused, not dropped", func(t *testing.T) {
		for input, want := range map[string]string{
			`{"status":"ok","tests_count":5}`:                              "tests_count 5",
			`{"status":"ok","tests":"pass:12","tests_count":5}`:            "tests_count 5",
			`{"status":"ok","tests_count":"many"}`:                         "tests_count",
			`{"status":"ok","tests":"perhaps"}`:                            "perhaps",
			`{"status":"ok","a b":"c"}`:                                    "a b",
			`{"status":"ok","extra":[{"name":"no capitals","value":"x"}]}`: "no capitals",
		} {
			r := reports(t, input, "emit")
			if r.code != exitCheck || r.out != "" {
				t.Errorf("%s: exit %d: %s", input, r.code, r.out)
			}
			contains(t, r.err, "dropped", want)
		}
		if r := reports(t, `{"status":"ok","tests":"pass:12","tests_count":12}`, "emit"); r.code != 0 || r.out != "STATUS:ok\nTESTS:pass:12\n" {
			t.Errorf("the count of tests: exit %d: %s%s", r.code, r.out, r.err)
		}
	})
	t.Run("what is no message is a failed check", func(t *testing.T) {
		for _, args := range [][]string{{"emit"}, {"emit", "--json"}, {"emit", "--dispatch"}} {
			if r := reports(t, "hello", args...); r.code != exitCheck || r.out != "" || r.err == "" {
				t.Errorf("%v: exit %d: %s%s", args, r.code, r.out, r.err)
			}
		}
		if r := reports(t, `{"task":"x","extra":[{"name":"a b","value":""}]}`, "emit", "--dispatch"); r.code != exitCheck || r.out != "" || r.err == "" {
			t.Errorf("exit %d: %s%s", r.code, r.out, r.err)
		}
	})
}

func TestReportVectors(t *testing.T) {
	t.Run("the vectors are JSON for other parsers, and the parser agrees with them", func(t *testing.T) {
		var v struct {
			About string
			Texts []struct {
				Name, Text string
				Tolerant   *struct{ Status string }
			}
		}
		r := reports(t, "", "vectors")
		if err := json.Unmarshal([]byte(r.out), &v); err != nil || r.code != 0 || v.About == "" || len(v.Texts) == 0 {
			t.Fatalf("exit %d, %v, %d texts", r.code, err, len(v.Texts))
		}
		for _, c := range v.Texts {
			got, err := report.Parse(c.Text, nil)
			if (err == nil) != (c.Tolerant != nil) || (err == nil && string(got.Status) != c.Tolerant.Status) {
				t.Errorf("%s: got %q, %v", c.Name, got.Status, err)
			}
		}
	})
}

func TestReportPrompt(t *testing.T) {
	t.Run("R0-023 what the prompts teach can be parsed", func(t *testing.T) {
		for _, name := range []string{"system", "closure", "json"} {
			var p struct {
				Name  string `json:"name"`
				Text  string `json:"text"`
				Tools bool   `json:"tools"`
			}
			strict(t, reports(t, "", "prompt", name, "--json").out, &p)
			r := reports(t, "", "prompt", name)
			if p.Name != name || p.Text != r.out || p.Tools != (name != "closure") {
				t.Errorf("%s: got %+v", name, p)
			}
			if r := reports(t, r.out, "parse"); r.code != 0 {
				t.Errorf("%s: exit %d: %s", name, r.code, r.err)
			}
		}
		if got, want := reports(t, "", "prompt").out, reports(t, "", "prompt", "system").out; got != want {
			t.Errorf("without a name: %s", got)
		}
		refused(t, reports(t, "", "prompt", "nope", "--json"), exitMissing, "not_found")
	})
	t.Run("R0-030 the schemas are printed", func(t *testing.T) {
		for _, args := range [][]string{{"schema"}, {"schema", "--dispatch"}} {
			var schema map[string]any
			if r := reports(t, "", args...); json.Unmarshal([]byte(r.out), &schema) != nil || schema["$schema"] == nil {
				t.Errorf("%v: %s", args, r.out)
			}
		}
	})
	contains(t, do(t, parley(t, nil, "__complete", "report", "parse", "--mode", "")).out, "reference")
	contains(t, do(t, parley(t, nil, "__complete", "report", "prompt", "")).out, "closure")
}
