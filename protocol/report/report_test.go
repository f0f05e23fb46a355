package report_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/parley-agents/parley/protocol/report"
)

var reference = &report.Options{Mode: report.Reference}

// parsed reads a text that must be a report.
func parsed(t *testing.T, text string, opts *report.Options) report.Result {
	t.Helper()
	r, err := report.Parse(text, opts)
	if err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	return r
}

func TestSeparators(t *testing.T) {
	for _, c := range []struct{ name, sep string }{
		{"R0-002 nothing may follow the colon", ""},
		{"R0-003 one space may follow the colon", " "},
		{"R0-004 two spaces may follow the colon", "  "},
		{"R0-004 three spaces may follow the colon", "   "},
		{"R0-004 seventeen spaces may follow the colon", strings.Repeat(" ", 17)},
		{"R0-005 a tab may follow the colon", "\t"},
		{"R0-005 blanks and tabs may be mixed", " \t "},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, opts := range []*report.Options{nil, reference} {
				r := parsed(t, "STATUS:"+c.sep+"ok\nTESTS:"+c.sep+"pass:3\nERROR:"+c.sep+"x\n", opts)
				if r.Status != "ok" || r.Tests != "pass:3" || r.Error != "x" || len(r.Diagnostics) > 0 {
					t.Errorf("got %+v", r)
				}
			}
		})
	}
}

func TestNames(t *testing.T) {
	t.Run("R0-008 every mix of cases is the same field", func(t *testing.T) {
		rng := rand.New(rand.NewPCG(1, 2))
		mixed := func(s string) string {
			return strings.Map(func(r rune) rune {
				if rng.IntN(2) == 0 {
					return unicode.ToLower(r)
				}
				return r
			}, s)
		}
		const text = "STATUS:ok\nFILES_CREATED:a\nFILES_MODIFIED:b\nTESTS:pass:3\nBUILD:fail\nERROR:x\nLEARNED:y\n"
		want := parsed(t, text, nil).Report
		for range 200 {
			in := mixed(text)
			for _, opts := range []*report.Options{nil, reference} {
				r := parsed(t, in, opts)
				if len(r.Diagnostics) > 0 {
					t.Errorf("%q: %v", in, r.Diagnostics)
				}
				r.FilesCreated[0], r.FilesModified[0] = strings.ToLower(r.FilesCreated[0]), strings.ToLower(r.FilesModified[0])
				r.Error, r.Learned = strings.ToLower(r.Error), strings.ToLower(r.Learned)
				same(t, in, r.Report, want)
			}
		}
	})
}

// full has every field, and values that are easy to get wrong.
var full = report.Report{
	Status:        report.StatusPartial,
	FilesCreated:  []string{"a.go", "app/(auth)/[id].tsx"},
	FilesModified: []string{`C:\x\b.go`, "go.mod"},
	Tests:         "pass:12",
	Build:         report.Fail,
	Error:         "jwt.go:42: undefined: x",
	Learned:       "`make` before **test**",
	Extra:         []report.Field{{Name: "COMPLEXITY_TIER", Value: "crud"}, {Name: "NOTE", Value: ""}},
}

func TestText(t *testing.T) {
	t.Run("R0-001 a report is written in canonical form", func(t *testing.T) {
		got, err := full.Text()
		if err != nil {
			t.Fatal(err)
		}
		want := "STATUS:partial\nFILES_CREATED:a.go,app/(auth)/[id].tsx\nFILES_MODIFIED:C:\\x\\b.go,go.mod\nTESTS:pass:12\nBUILD:fail\n" +
			"ERROR:jwt.go:42: undefined: x\nLEARNED:`make` before **test**\nCOMPLEXITY_TIER:crud\nNOTE:\n"
		if got != want {
			t.Errorf("got\n%swant\n%s", got, want)
		}
	})
	for _, c := range []struct {
		name string
		in   report.Report
		want string // "" for an error
	}{
		{"what is absent is left out", report.Report{Status: "ok"}, "STATUS:ok\n"},
		{"a line end becomes a slash", report.Report{Status: "fail", Error: " one\r\n\n two\u2028three\rfour\n"}, "STATUS:fail\nERROR:one / two / three / four\n"},
		{"an item with a comma is quoted", report.Report{Status: "ok", FilesCreated: []string{"a,b", "c"}}, "STATUS:ok\nFILES_CREATED:\"a,b\",c\n"},
		{"an item in quotes is quoted", report.Report{Status: "ok", FilesCreated: []string{`"a"`}}, "STATUS:ok\nFILES_CREATED:\"\"\"a\"\"\"\n"},
		{"a quote inside an item needs none", report.Report{Status: "ok", FilesCreated: []string{`a"b`}}, "STATUS:ok\nFILES_CREATED:a\"b\n"},
		{"an item named none is no empty list", report.Report{Status: "ok", FilesCreated: []string{"none"}}, "STATUS:ok\nFILES_CREATED:none,\n"},
		{"an item with a line end makes the list JSON", report.Report{Status: "ok", FilesCreated: []string{"a\nb", "c"}}, "STATUS:ok\nFILES_CREATED:[\"a\\nb\",\"c\"]\n"},
		{"a status that nobody knows is written as it is", report.Report{Status: "blocked"}, "STATUS:blocked\n"},
		{"a report has a status", report.Report{}, ""},
		{"a status is one word", report.Report{Status: "all done"}, ""},
		{"a status is in lower case", report.Report{Status: "OK"}, ""},
		{"a status has no other spelling", report.Report{Status: "no-changes"}, ""},
		{"a status is on one line", report.Report{Status: "ok\nTESTS:pass"}, ""},
		{"tests are of the vocabulary", report.Report{Status: "ok", Tests: "running"}, ""},
		{"tests are canonical", report.Report{Status: "ok", Tests: "pass 12"}, ""},
		{"a build has no count", report.Report{Status: "ok", Build: "pass:3"}, ""},
		{"an extra field is in capitals", report.Report{Status: "ok", Extra: []report.Field{{Name: "note"}}}, ""},
		{"an extra field is not one of the protocol", report.Report{Status: "ok", Extra: []report.Field{{Name: "TESTS", Value: "pass"}}}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := c.in.Text()
			if got != c.want || (err == nil) != (c.want != "") {
				t.Errorf("got %q, %v, want %q", got, err, c.want)
			}
		})
	}
}

func TestSymmetry(t *testing.T) {
	t.Run("R0-028 text to JSON to text is the same", func(t *testing.T) {
		for _, c := range load(t).Texts {
			r, err := report.Parse(c.Text, nil)
			if err != nil {
				continue
			}
			raw, err := json.Marshal(r)
			if err != nil {
				t.Fatal(err)
			}
			back, err := report.ParseJSON(raw, nil)
			if err != nil {
				t.Fatalf("%s: %v", c.Name, err)
			}
			got, gotErr := back.Text()
			want, wantErr := r.Text()
			if err := errors.Join(gotErr, wantErr); err != nil || got != want {
				t.Errorf("%s: %v\ngot\n%swant\n%s", c.Name, err, got, want)
			}
			same(t, c.Name, found(t, back, nil), found(t, r, nil))
		}
	})
	t.Run("a report can be a member of other JSON", func(t *testing.T) {
		var got struct{ Report report.Report }
		raw, err := json.Marshal(map[string]any{"report": full})
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(raw, &got); err != nil {
			t.Fatal(err)
		}
		same(t, "report", got.Report, full)
		if err := json.Unmarshal([]byte(`{"report":{}}`), &got); !errors.Is(err, report.ErrNotReport) {
			t.Errorf("got %v, want %v", err, report.ErrNotReport)
		}
	})
}

func TestResult(t *testing.T) {
	const text = "Example:\nSTATUS:ok\n\nReal:\n\n  **STATUS:** fail - sorry TESTS: 2 passed, 1 failed\n  Error: x\n    y\nNOTE:z\n"
	r := parsed(t, text, nil)
	if r.StatusDetail != "- sorry" || r.TestsDetail != "2 passed, 1 failed" || r.Tests != "fail:1" {
		t.Errorf("got status detail %q, tests %q, detail %q", r.StatusDetail, r.Tests, r.TestsDetail)
	}
	want := []report.TextField{
		{Name: "STATUS", RawName: "STATUS", Value: "fail - sorry", Line: 6, Col: 5},
		{Name: "TESTS", RawName: "TESTS", Value: "2 passed, 1 failed", Line: 6, Col: 28},
		{Name: "ERROR", RawName: "Error", Value: "x\ny", Line: 7, Col: 3},
		{Name: "NOTE", RawName: "NOTE", Value: "z", Line: 9, Col: 1},
	}
	same(t, "fields", r.Fields, want)
	for _, f := range r.Fields {
		line := strings.Split(text, "\n")[f.Line-1]
		if !strings.HasPrefix(line[f.Col-1:], f.RawName) {
			t.Errorf("%s is not at %d:%d", f.RawName, f.Line, f.Col)
		}
	}
	if len(r.Blocks) != 2 || !r.Conflict || r.Blocks[0].Status != "ok" || r.Blocks[0].Chosen || !r.Blocks[1].Chosen || r.Blocks[1].First != 6 || r.Blocks[1].Last != 9 {
		t.Errorf("got blocks %+v, conflict %v", r.Blocks, r.Conflict)
	}
	if b := r.Blocks[0]; b.Text != "STATUS:ok" {
		t.Errorf("got block %q", b.Text)
	}
	if n, ok := r.Tests.Count(); n != 1 || !ok || r.Tests.State() != report.Fail {
		t.Errorf("got %d, %v, %s", n, ok, r.Tests.State())
	}
	if _, ok := report.Tests("pass:" + strings.Repeat("9", 40)).Count(); ok {
		t.Error("a count that no int can hold was given")
	}
}

func TestOK(t *testing.T) {
	for _, s := range append(report.Statuses(), "done", "") {
		want := s == report.StatusOK || s == report.StatusNoChanges
		if got := (report.Report{Status: s}).OK(); got != want {
			t.Errorf("%q is a success: got %v, want %v", s, got, want)
		}
		if known := slices.Contains(report.Statuses(), s); s.Known() != known {
			t.Errorf("%q is known: got %v, want %v", s, s.Known(), known)
		}
	}
}

func TestNotAReport(t *testing.T) {
	t.Run("R0-024 no status is told from a mistake in the call", func(t *testing.T) {
		for _, parse := range []func(string, *report.Options) (report.Result, error){
			report.Parse, report.ParseAny,
			func(s string, o *report.Options) (report.Result, error) { return report.ParseJSON([]byte(s), o) },
		} {
			if _, err := parse("hello", nil); !errors.Is(err, report.ErrNotReport) {
				t.Errorf("got %v, want %v", err, report.ErrNotReport)
			}
			if _, err := parse("STATUS:ok", &report.Options{Mode: "lax"}); err == nil || errors.Is(err, report.ErrNotReport) {
				t.Errorf("an unknown mode: got %v", err)
			}
		}
		for _, text := range []string{"TASK:x", `{"task":"x"}`} {
			if _, err := report.ParseAnyDispatch(text, &report.Options{Mode: "lax"}); err == nil || errors.Is(err, report.ErrNotDispatch) {
				t.Errorf("an unknown mode: got %v", err)
			}
		}
	})
}

func TestUnknownFieldsAreKept(t *testing.T) {
	t.Run("R0-029 unknown fields survive text and JSON", func(t *testing.T) {
		r := parsed(t, "STATUS:ok\nA1:x\nA1:y\n", nil)
		same(t, "extra", r.Extra, []report.Field{{Name: "A1", Value: "x"}, {Name: "A1", Value: "y"}})
		if text, err := r.Text(); text != "STATUS:ok\nA1:x\nA1:y\n" || err != nil {
			t.Errorf("got %q, %v", text, err)
		}
		back, err := report.ParseJSON([]byte(`{"status":"ok","extra":[{"name":"status","value":"fail"},{"name":"A B","value":"x"},{"name":"A1","value":"x"}]}`), nil)
		if err != nil || back.Status != "ok" {
			t.Errorf("got %+v, %v", back, err)
		}
		same(t, "extra", back.Extra, []report.Field{{Name: "A1", Value: "x"}})
	})
}

func TestLimits(t *testing.T) {
	long := strings.Repeat("x", 99) + "\n"
	for _, c := range []struct {
		name, text string
		opts       report.Options
		status     report.Status
		codes      []report.Code
		line       int // of the status
	}{
		{"R0-031 of a long text the end is read", "STATUS:ok\n" + strings.Repeat(long, 20) + "STATUS:fail\n", report.Options{MaxBytes: 500}, "fail", []report.Code{report.CodeProseBefore, report.CodeTruncated}, 22},
		{"R0-031 of many lines the last are read", "STATUS:ok\n" + strings.Repeat("\n", 20) + "STATUS:fail\n", report.Options{MaxLines: 10}, "fail", []report.Code{report.CodeTruncated}, 22},
		{"R0-031 the default limit is 1 MiB", "STATUS:ok\n" + strings.Repeat(long, 1<<20/100+1), report.Options{}, "", []report.Code{report.CodeNotReport, report.CodeTruncated}, 0},
		{"R0-031 the default limit is 20,000 lines", "STATUS:ok\n" + strings.Repeat("x\n", 20_000), report.Options{}, "", []report.Code{report.CodeNotReport, report.CodeTruncated}, 0},
		{"R0-031 at the limit all is read", "STATUS:ok\n" + strings.Repeat("x\n", 19_999), report.Options{}, "ok", []report.Code{report.CodeProseAfter}, 1},
		{"R0-031 a line is read as a whole or not at all", "NO_STATUS:ok\n", report.Options{MaxBytes: 10}, "", []report.Code{report.CodeNotReport, report.CodeTruncated}, 0},
		{"R0-031 a cut between lines loses none", "xx\nSTATUS:ok\n", report.Options{MaxBytes: 10}, "ok", []report.Code{report.CodeTruncated}, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, mode := range []report.Mode{report.Tolerant, report.Reference} {
				c.opts.Mode = mode
				r, err := report.Parse(c.text, &c.opts)
				if r.Status != c.status || (err == nil) != (c.status != "") {
					t.Errorf("%s: got %q, %v, want %q", mode, r.Status, err, c.status)
				}
				if c.line > 0 && r.Fields[0].Line != c.line {
					t.Errorf("%s: got line %d, want %d", mode, r.Fields[0].Line, c.line)
				}
				if mode == report.Tolerant {
					same(t, "diagnostics", codes(r.Diagnostics), c.codes)
				}
			}
		})
	}
	t.Run("R0-031 JSON over the limit is not read", func(t *testing.T) {
		r, err := report.ParseJSON([]byte(`{"status":"ok"}`), &report.Options{MaxBytes: 10})
		if !errors.Is(err, report.ErrNotReport) || !slices.Contains(codes(r.Diagnostics), report.CodeTruncated) {
			t.Errorf("got %+v, %v", r, err)
		}
	})
	t.Run("R0-031 the same is not said without end", func(t *testing.T) {
		r := parsed(t, "STATUS:ok\n"+strings.Repeat("NOTE:x\n", 1000), nil)
		if len(r.Diagnostics) != 8 || len(r.Extra) != 1000 {
			t.Errorf("got %d diagnostics and %d extra fields, want 8 and 1000", len(r.Diagnostics), len(r.Extra))
		}
	})
	t.Run("R0-031 hostile texts are read", func(t *testing.T) {
		for name, text := range hostile(1 << 18) {
			if _, err := report.ParseAny(text, &report.Options{MaxBytes: 1 << 21, MaxLines: 1 << 21}); err != nil && !errors.Is(err, report.ErrNotReport) {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

// hostile returns texts of about n bytes that are hard on a careless reader.
func hostile(n int) map[string]string {
	fill := func(head, part string) string { return head + strings.Repeat(part, n/len(part)) }
	return map[string]string{
		"one line":            fill("STATUS:ok\nERROR:", "x"),
		"lone CR":             fill("STATUS:ok\r", "x\r"),
		"blanks":              fill("STATUS:", " "),
		"line separators":     fill("STATUS:ok\u2028", "\u2028"),
		"fields":              fill("", "STATUS:ok\n"),
		"unknown fields":      fill("STATUS:ok\n", "AA:\n"),
		"inline fields":       fill("STATUS:ok", " TESTS:pass"),
		"colons":              fill("STATUS:ok ", ":"),
		"blocks":              fill("", "STATUS:ok\nx\n"),
		"quotes":              fill("STATUS:ok\nFILES_CREATED:", `"""b,""""c,`),
		"open quotes":         fill("STATUS:ok\nFILES_CREATED:", `"a,`),
		"parentheses":         fill("STATUS:ok\nFILES_CREATED:", `(a,`),
		"items":               fill("STATUS:ok\nFILES_CREATED:", `a,`),
		"a JSON list":         fill("STATUS:ok\nFILES_CREATED:[", `[`) + "]",
		"lists":               fill("STATUS:ok\n", "FILES_CREATED:a,b\n"),
		"items twice":         fill("STATUS:ok\nFILES_CREATED:a\nFILES_CREATED:", `a,b,`),
		"continued":           fill("STATUS:ok\nERROR:x\n", " y\n"),
		"bullets":             fill("STATUS:ok\nFILES_CREATED:\n", "- y\n"),
		"quote marks":         fill("", ">"),
		"nested bullets":      fill("", "- "),
		"marks":               fill("", "*_`"),
		"fences":              fill("", "```\n"),
		"table":               fill("| STATUS ", "| ok "),
		"numbers":             fill("STATUS:ok\nTESTS:", "1 "),
		"digits":              fill("STATUS:ok\nTESTS:pass:", "1"),
		"near misses":         fill("", "STATUS=ok\n"),
		"braces":              fill("", "{"),
		"nested objects":      fill("", `{"result":`),
		"members":             fill(`{"status":"ok"`, `,"a":1`) + "}",
		"a dispatch":          fill("TASK:x\nACCEPTANCE:1. a", " 2. b"),
		"zero width":          fill("", "\ufeff"),
		"invalid UTF-8":       fill("STATUS:ok\nERROR:", "\xff\xe2\x80"),
		"fenced JSON objects": fill("", "```\n{}\n```\n"),
	}
}

func TestLintPrompt(t *testing.T) {
	for name, tt := range map[string]struct {
		prompt string
		want   []string // code and line of each finding that is more than a note
	}{
		"R0-023 two examples with one empty line between":          {"Answer like this:\n\nSTATUS:ok\nTESTS:pass:3\n\nSTATUS:fail\nERROR:no disk\n", nil},
		"R0-023 the first of two examples contradicts itself":      {"STATUS:ok\nTESTS:fail\n\nSTATUS:fail\nERROR:no disk\n\nThat is all.\n", []string{"contradiction 1"}},
		"R0-023 examples without an empty line between":            {"STATUS:ok\nSTATUS:ok\nBUILD:fail\n", []string{"contradiction 2"}},
		"R0-023 an example in JSON after one in fields":            {"STATUS:ok\n\nor\n\n{\n \"status\": \"ok\", \"tests\": \"fail\"\n}\n", []string{"contradiction 5"}},
		"R0-023 an example that only a tolerant reader reads":      {"Write\n\n**STATUS:** ok\n", []string{"reference_reader 3"}},
		"R0-023 an unknown status is said once, and with its line": {"Write\n\nTESTS:pass\nSTATUS:wonky\n", []string{"unknown_status 4", "reference_reader 3"}},
		"R0-023 no example": {"STATUS is the first field. Write a report.\n", []string{"no_example 0"}},
		"R0-023 an object without status is not an example":    {"{\"a\": 1}\n\nSTATUS:ok\n", nil},
		"R0-023 odd line ends do not confuse the line numbers": {"a\rb\u2028\r\nSTATUS:no_changes\rFILES_CREATED:x\n", []string{"contradiction 4"}},
	} {
		t.Run(name, func(t *testing.T) {
			found, err := report.LintPrompt(tt.prompt, nil)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, d := range found {
				if d.Code.Severity() != report.SeverityNote {
					got = append(got, fmt.Sprintf("%s %d", d.Code, d.Line))
				}
			}
			same(t, "findings", got, tt.want)
		})
	}
	for _, p := range report.Prompts() {
		if found, err := report.LintPrompt(p.Text, nil); err != nil || report.HasError(found) {
			t.Errorf("the prompt %s: %v, %v", p.Name, found, err)
		}
	}
}

func TestPrompts(t *testing.T) {
	for _, p := range report.Prompts() {
		t.Run("R0-023 the example in the prompt "+p.Name+" can be read", func(t *testing.T) {
			r, err := report.ParseAny(p.Text, nil)
			if err != nil || !r.Status.Known() {
				t.Fatalf("got %+v, %v", r, err)
			}
			if p.Name == "json" {
				same(t, "diagnostics", codes(r.Diagnostics), []report.Code{report.CodeJSONForm})
				_, object, _ := strings.Cut(p.Text, "\n\n")
				for _, opts := range []*report.Options{nil, reference} {
					if r, err := report.ParseJSON([]byte(object), opts); err != nil || len(r.Diagnostics) > 0 {
						t.Errorf("the example alone: %v, %v", err, r.Diagnostics)
					}
				}
			} else {
				same(t, "diagnostics", codes(r.Diagnostics), []report.Code{report.CodeProseBefore})
				same(t, "reference", parsed(t, p.Text, reference).Report, r.Report)
				block := r.Blocks[0].Text + "\n"
				if got := parsed(t, block, nil); len(got.Diagnostics) > 0 {
					t.Errorf("the example alone: %v", got.Diagnostics)
				}
				if text, err := r.Text(); text != block || err != nil {
					t.Errorf("the example is not canonical: %v\ngot\n%swant\n%s", err, block, text)
				}
			}
			if found := r.Check(nil); len(found) > 0 {
				t.Errorf("the example is not one to follow: %v", found)
			}
			for _, s := range report.Statuses() {
				if p.Name != "closure" && !strings.Contains(p.Text, string(s)) {
					t.Errorf("%s is not mentioned", s)
				}
			}
		})
	}
	t.Run("R0-030 the closing turn has no tools and says what was wrong", func(t *testing.T) {
		got, err := report.Parse("I think STATUS is good.\nSTATUS=ok\n", nil)
		if !errors.Is(err, report.ErrNotReport) {
			t.Fatal(err)
		}
		turn := report.Closure(got.Diagnostics)
		if turn.Tools || !strings.Contains(turn.Text, "almost a field") {
			t.Errorf("got %+v", turn)
		}
		if r := parsed(t, turn.Text, nil); r.Status != report.StatusPartial {
			t.Errorf("the example in it reads as %+v", r)
		}
		if plain := report.Closure(nil); plain != report.Prompts()[1] {
			t.Errorf("got %+v", plain)
		}
	})
	t.Run("R0-030 drift from the canonical form is seen and does no harm", func(t *testing.T) {
		found, err := report.Lint("**Status:** ok\n", nil)
		if err != nil || report.HasError(found) || len(found) == 0 {
			t.Errorf("got %v, %v", found, err)
		}
	})
}

func TestSchemas(t *testing.T) {
	compile := func(text string) (*jsonschema.Schema, []any) {
		doc, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		c := jsonschema.NewCompiler()
		if err := c.AddResource("schema.json", doc); err != nil {
			t.Fatal(err)
		}
		s, err := c.Compile("schema.json")
		if err != nil {
			t.Fatal(err)
		}
		return s, doc.(map[string]any)["examples"].([]any)
	}
	valid := func(s *jsonschema.Schema, v any) error {
		raw, err := json.Marshal(v)
		if err != nil {
			return err
		}
		doc, err := jsonschema.UnmarshalJSON(strings.NewReader(string(raw)))
		if err != nil {
			return err
		}
		return s.Validate(doc)
	}
	s, examples := compile(report.Schema())
	t.Run("R0-030 every report in JSON fits the schema", func(t *testing.T) {
		for _, c := range load(t).Texts {
			r, err := report.Parse(c.Text, nil)
			if err != nil || !r.Status.Known() {
				continue
			}
			if err := valid(s, r.Report); err != nil {
				t.Errorf("%s: %v", c.Name, err)
			}
		}
		for _, status := range report.Statuses() {
			if err := valid(s, map[string]any{"status": status}); err != nil {
				t.Errorf("%s: %v", status, err)
			}
		}
		for _, bad := range []any{map[string]any{}, map[string]any{"status": "done"}, map[string]any{"status": "ok", "tests": "running"}, map[string]any{"status": "ok", "build": "pass:3"}, []string{}} {
			if valid(s, bad) == nil {
				t.Errorf("%v is valid", bad)
			}
		}
	})
	t.Run("R0-023 the examples in the schema can be read", func(t *testing.T) {
		for _, e := range examples {
			raw, err := json.Marshal(e)
			if err != nil {
				t.Fatal(err)
			}
			for _, opts := range []*report.Options{nil, reference} {
				r, err := report.ParseJSON(raw, opts)
				if err != nil || len(r.Diagnostics) > 0 {
					t.Errorf("%s: %v, %v", raw, err, r.Diagnostics)
				}
			}
			if err := valid(s, e); err != nil {
				t.Error(err)
			}
		}
	})
	t.Run("the examples in the schema of a dispatch can be read", func(t *testing.T) {
		s, examples := compile(report.DispatchSchema())
		for _, e := range examples {
			raw, err := json.Marshal(e)
			if err != nil {
				t.Fatal(err)
			}
			r, err := report.ParseDispatchJSON(raw, nil)
			if err != nil || len(r.Diagnostics) > 0 || len(r.Check()) > 0 {
				t.Errorf("%s: %v, %v", raw, err, r)
			}
			if err := errors.Join(valid(s, e), valid(s, r.Dispatch)); err != nil {
				t.Error(err)
			}
		}
	})
}

func TestCheck(t *testing.T) {
	for _, c := range []struct {
		name  string
		in    report.Report
		scope []string
		want  []report.Code
	}{
		{"a plain success", report.Report{Status: "ok", Tests: "pass:1", Build: "pass", FilesCreated: []string{"a/b.go"}}, nil, nil},
		{"a success with failed tests", report.Report{Status: "ok", Tests: "fail:1"}, nil, []report.Code{report.CodeContradiction}},
		{"a success with a broken build", report.Report{Status: "ok", Build: "fail"}, nil, []report.Code{report.CodeContradiction}},
		{"no changes with files", report.Report{Status: "no_changes", FilesModified: []string{"a"}}, nil, []report.Code{report.CodeContradiction}},
		{"a success with an error", report.Report{Status: "ok", Error: "x"}, nil, []report.Code{report.CodeUnexpectedError}},
		{"a failure without a reason", report.Report{Status: "fail"}, nil, []report.Code{report.CodeMissingReason}},
		{"a failure with a reason", report.Report{Status: "fail", Error: "x"}, nil, nil},
		{"an unknown status", report.Report{Status: "done"}, nil, []report.Code{report.CodeUnknown}},
		{"a file twice", report.Report{Status: "ok", FilesCreated: []string{"a"}, FilesModified: []string{"a"}}, nil, []report.Code{report.CodeListedTwice}},
		{"edge 27: absolute paths", report.Report{Status: "ok", FilesCreated: []string{"/etc/passwd", `C:\x`, `\\host\x`, "~/x"}}, nil, []report.Code{report.CodeAbsolutePath}},
		{"edge 27: paths that climb", report.Report{Status: "ok", FilesCreated: []string{"../x", "a/../../x", `a\..\b`}}, nil, []report.Code{report.CodeParentPath}},
		{"edge 27: dots in names are fine", report.Report{Status: "ok", FilesCreated: []string{"a..b", "...", ".x"}}, nil, nil},
		{"edge 27: within the scope", report.Report{Status: "ok", FilesCreated: []string{"src/a.go", "./src/b.go", "doc", `src\c.go`}}, []string{"src/", "doc"}, nil},
		{"edge 27: outside the scope", report.Report{Status: "ok", FilesCreated: []string{"src2/a.go"}}, []string{"src/", "doc"}, []report.Code{report.CodeOutsideScope}},
		{"edge 27: a scope may be a pattern for all below", report.Report{Status: "ok", FilesCreated: []string{"src/a/b.go"}}, []string{"src/**"}, nil},
		{"edge 27: a dot is everything", report.Report{Status: "ok", FilesCreated: []string{"a"}}, []string{"."}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := codes(c.in.Check(c.scope))
			if !slices.Equal(got, c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

func TestLint(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       []report.Code
		bad        bool
	}{
		{"a canonical report", "STATUS:ok\nTESTS:pass\n", []report.Code{}, false},
		{"a report that could be shorter", "STATUS: ok\n", []report.Code{report.CodeNotCanonical}, false},
		{"a decorated report", "**STATUS:** ok\n", []report.Code{report.CodeDecorated}, false},
		{"no report", "hello\n", []report.Code{report.CodeNotReport}, true},
		{"a contradiction", "STATUS:ok\nTESTS:fail:1\n", []report.Code{report.CodeContradiction}, true},
		{"a file outside the scope", "STATUS:ok\nFILES_CREATED:b/x\n", []report.Code{report.CodeOutsideScope}, true},
		{"reports that differ", "STATUS:ok\n\n\nSTATUS:fail\nERROR:x\n", []report.Code{report.CodeConflict, report.CodeBlocks}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := report.Lint(c.text, &report.LintOptions{Scope: []string{"a"}})
			if err != nil {
				t.Fatal(err)
			}
			same(t, "codes", codes(got), c.want)
			if report.HasError(got) != c.bad {
				t.Errorf("has an error: got %v, want %v", !c.bad, c.bad)
			}
		})
	}
	for _, c := range []struct {
		name, text string
		want       []report.Code
	}{
		{"a dispatch that leaves nothing open", "TASK:x\nACCEPTANCE:y\nSCOPE:a\nVERIFY:z\nDONE:report\n", []report.Code{}},
		{"a dispatch that leaves all open", "TASK:x\n", []report.Code{report.CodeMissingField}},
		{"a scope that is too wide", `{"task":"x","acceptance":"y","scope":"/","verify":"z","done":"report"}`, []report.Code{report.CodeAbsolutePath}},
		{"no dispatch", "STATUS:ok\n", []report.Code{report.CodeNotDispatch, report.CodeProseBefore}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := report.LintDispatch(c.text, nil)
			if err != nil {
				t.Fatal(err)
			}
			same(t, "codes", codes(got), c.want)
		})
	}
	for _, lint := range []func(string, *report.LintOptions) ([]report.Diagnostic, error){report.Lint, report.LintDispatch} {
		if _, err := lint("", &report.LintOptions{Parse: report.Options{Mode: "lax"}}); err == nil {
			t.Error("an unknown mode is accepted")
		}
	}
}

func TestDispatchText(t *testing.T) {
	for _, c := range []struct {
		name string
		in   report.Dispatch
		want string // "" for an error
	}{
		{"a task alone", report.Dispatch{Task: "x"}, "TASK:x\n"},
		{"no task", report.Dispatch{Scope: []string{"a"}}, ""},
		{"everything", report.Dispatch{
			Task: "x", Context: "one\ntwo\n\nthree", Acceptance: []string{"a", "b"}, Scope: []string{"s/", "t,u"},
			Rules: "r", Verify: []string{"go vet", "go test"}, Done: "report", Extra: []report.Field{{Name: "NOTE", Value: "n"}},
		}, "TASK:x\nCONTEXT:one\n  two\n\n  three\nACCEPTANCE:1. a 2. b\nSCOPE:s/,\"t,u\"\nRULES:r\nVERIFY:\n  - go vet\n  - go test\nDONE:report\nNOTE:n\n"},
		{"criteria with numbers in them", report.Dispatch{Task: "x", Acceptance: []string{"a 2. b", "c"}}, "TASK:x\nACCEPTANCE:\n  - a 2. b\n  - c\n"},
		{"one criterion", report.Dispatch{Task: "x", Acceptance: []string{"a"}}, "TASK:x\nACCEPTANCE:a\n"},
		{"a command that names a field", report.Dispatch{Task: "x", Verify: []string{"TASK: y", "SCOPE: z"}}, "TASK:x\nVERIFY:\n  - TASK: y\n  - SCOPE: z\n"},
		{"an extra field that is none", report.Dispatch{Task: "x", Extra: []report.Field{{Name: "SCOPE", Value: "n"}}}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := c.in.Text()
			if got != c.want || (err == nil) != (c.want != "") {
				t.Fatalf("got %q, %v, want %q", got, err, c.want)
			}
			if err != nil {
				return
			}
			back, err := report.ParseDispatch(got, nil)
			if err != nil {
				t.Fatal(err)
			}
			same(t, "read back", back.Dispatch, c.in)
			raw, err := json.Marshal(c.in)
			if err != nil {
				t.Fatal(err)
			}
			back, err = report.ParseAnyDispatch(string(raw), nil)
			if err != nil {
				t.Fatal(err)
			}
			same(t, "read back from JSON", back.Dispatch, c.in)
		})
	}
	t.Run("what is odd in a dispatch is said", func(t *testing.T) {
		r, err := report.ParseDispatch("TASK:x\nSCOPE:a\nSCOPE:\n- b, c\n- none\nVERIFY:\n\n- t\nNOTE:n\n", nil)
		if err != nil {
			t.Fatal(err)
		}
		same(t, "scope", r.Scope, []string{"a", "b", "c"})
		same(t, "verify", r.Verify, []string{"t"})
		same(t, "extra", r.Extra, []report.Field{{Name: "NOTE", Value: "n"}})
		same(t, "codes", codes(r.Diagnostics), []report.Code{report.CodeDuplicate, report.CodeUnknownField})
		r, err = report.ParseDispatchJSON([]byte(`{"TASK":"x","scope":"a, b","verify":7,"diagnostics":[],"more":1}`), nil)
		if err != nil {
			t.Fatal(err)
		}
		same(t, "scope", r.Scope, []string{"a", "b"})
		same(t, "codes", codes(r.Diagnostics), []report.Code{report.CodeDropped, report.CodeUnknownValue})
	})
	t.Run("a dispatch over the limit is cut at its beginning, in JSON not read", func(t *testing.T) {
		r, err := report.ParseDispatch("DONE:x\nTASK:y\n", &report.Options{MaxBytes: 8})
		if err != nil || r.Task != "y" || r.Done != "" || !slices.Equal(codes(r.Diagnostics), []report.Code{report.CodeTruncated}) {
			t.Errorf("got %+v, %v", r, err)
		}
		if r, err := report.ParseDispatchJSON([]byte(`{"task":"y"}`), &report.Options{MaxBytes: 8}); !errors.Is(err, report.ErrNotDispatch) || codes(r.Diagnostics)[1] != report.CodeTruncated {
			t.Errorf("got %+v, %v", r, err)
		}
	})
	t.Run("JSON that is no dispatch", func(t *testing.T) {
		for _, text := range []string{`{}`, `{"task":""}`, `{"task":3}`, `{"task":"x"`, `[]`} {
			if _, err := report.ParseDispatchJSON([]byte(text), nil); !errors.Is(err, report.ErrNotDispatch) {
				t.Errorf("%s: got %v", text, err)
			}
		}
	})
}

// TestDocs keeps the page about the protocol complete.
func TestDocs(t *testing.T) {
	page, err := os.ReadFile("../../docs/report.md")
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("diagnostic.go")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(source)) {
		_, rest, ok := strings.Cut(line, ` Code = "`)
		if !ok {
			continue
		}
		code, _, _ := strings.Cut(rest, `"`)
		if want := fmt.Sprintf("| `%s` | %s |", code, report.Code(code).Severity()); !strings.Contains(string(page), want) {
			t.Errorf("docs/report.md has no row that begins with %s", want)
		}
	}
}

func TestMarksBeforeAField(t *testing.T) {
	for name, line := range map[string]string{
		"none":            "STATUS:ok",
		"a deep quote":    strings.Repeat(">", 16) + "STATUS:ok",
		"a nested list":   "1. - > ## STATUS:ok",
		"zero-width ones": "\ufeff\u200bSTATUS:ok",
	} {
		if got, err := report.ParseAny(line, nil); err != nil || got.Report.Status != report.StatusOK {
			t.Errorf("%s: got %+v, %v", name, got, err)
		}
	}
	if got, err := report.ParseAny(strings.Repeat(">", 17)+"STATUS:ok", nil); err == nil && got.Report.Status == report.StatusOK {
		t.Errorf("seventeen marks: got %+v", got.Report)
	}
}
