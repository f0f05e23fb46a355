package render_test

import (
	"encoding/json"
	"encoding/xml"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parley-agents/parley/protocol/comply/jsont"
	"github.com/parley-agents/parley/protocol/comply/render"
	"github.com/parley-agents/parley/protocol/comply/rules"
)

func finding(rule string, level jsont.Level, actual string) rules.Finding {
	return rules.Finding{Rule: rule, Level: level, Expected: "something else", Actual: actual, Fix: "change it"}
}

func TestJudge(t *testing.T) {
	for name, tt := range map[string]struct {
		severity jsont.Severity
		met      bool
		found    []rules.Finding
		want     render.Status
		reason   string
		fails    bool
	}{
		"nothing found":            {want: render.Pass},
		"a SHOULD":                 {found: []rules.Finding{finding("X-01", jsont.Should, "soft")}, want: render.Warn, reason: "soft"},
		"the worst is the reason":  {found: []rules.Finding{finding("X-02", jsont.Must, "hard"), finding("X-01", jsont.Should, "soft")}, want: render.Fail, reason: "hard", fails: true},
		"optional, partly met":     {severity: jsont.Optional, met: true, found: []rules.Finding{finding("X-02", jsont.Must, "hard")}, want: render.Partial, reason: "hard", fails: true},
		"optional, without a rule": {severity: jsont.Optional, found: []rules.Finding{finding("mine", jsont.OfTest, "hard")}, want: render.Fail, reason: "hard"},
		"optional, nothing met":    {severity: jsont.Optional, found: []rules.Finding{finding("X-02", jsont.Must, "hard")}, want: render.Fail, reason: "hard", fails: true},
	} {
		r := render.Result{Severity: tt.severity, Findings: tt.found}
		r.Judge(tt.met)
		if r.Status != tt.want || r.Reason != tt.reason || r.Failed() != tt.fails {
			t.Errorf("%s: got %s %q, failed %t", name, r.Status, r.Reason, r.Failed())
		}
	}
}

// sample is a report of an agent that breaks a MUST and a SHOULD, each in two tests, and
// whose words are hostile.
func sample() *render.Report {
	hard, soft := finding("X-02", jsont.Must, "it said <b>|\x1b[2J"), finding("X-01", jsont.Should, "slow")
	a := render.AgentReport{Name: "agent <x>", Tests: []render.Result{
		{ID: "one", Title: "One", Status: render.Fail, Findings: []rules.Finding{hard}, Reason: hard.Actual, Docs: []string{}},
		{ID: "two", Title: "Two", Status: render.Fail, Findings: []rules.Finding{hard, soft}, Reason: hard.Actual, Docs: []string{}},
		{ID: "three", Title: "Three", Status: render.Pass, Findings: []rules.Finding{}, Docs: []string{}},
		{ID: "four", Title: "Four", Status: render.NA, Reason: "it cannot load sessions", Findings: []rules.Finding{}, Docs: []string{}},
	}}
	a.Count()
	return &render.Report{Schema: render.ReportSchema, Agents: []render.AgentReport{a}}
}

func TestIndex(t *testing.T) {
	got := sample().Index()
	if len(got) != 2 || got[0].ID != "F1" || !slices.Equal(got[0].Tests, []string{"one", "two"}) || got[1].ID != "F2" || !slices.Equal(got[1].Tests, []string{"two"}) {
		t.Errorf("got %+v", got)
	}
}

func TestLedger(t *testing.T) {
	var a render.AgentReport
	first, again, other := finding("X-02", jsont.Must, "a"), finding("X-02", jsont.Must, "b"), finding("X-02", jsont.Should, "c")
	first.Test, again.Test, other.Test = "one", "two", "two"
	a.AddLedger([]rules.Finding{first, again, again, other})
	if len(a.Ledger) != 2 || a.Ledger[0].Actual != "a" || !slices.Equal(a.Ledger[0].Tests, []string{"one", "two"}) {
		t.Errorf("got %+v", a.Ledger)
	}
}

func TestFormats(t *testing.T) {
	r := sample()
	written := map[string]string{}
	for name, write := range map[string]func(*strings.Builder) error{
		"junit":        func(b *strings.Builder) error { return r.JUnit(b) },
		"markdown":     func(b *strings.Builder) error { return r.Markdown(b, nil) },
		"pull request": func(b *strings.Builder) error { return r.PullRequest(b) },
		"sarif":        func(b *strings.Builder) error { return r.SARIF(b) },
	} {
		var b strings.Builder
		if err := write(&b); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		written[name] = b.String()
		if strings.Contains(b.String(), "\x1b") {
			t.Errorf("%s: the agent moves the cursor:\n%s", name, b.String())
		}
	}

	var junit struct {
		Suites []struct {
			Tests    int `xml:"tests,attr"`
			Failures int `xml:"failures,attr"`
			Skipped  int `xml:"skipped,attr"`
		} `xml:"testsuite"`
	}
	if err := xml.Unmarshal([]byte(written["junit"]), &junit); err != nil {
		t.Fatal(err)
	}
	if s := junit.Suites[0]; s.Tests != 4 || s.Failures != 2 || s.Skipped != 1 {
		t.Errorf("junit: got %+v", s)
	}

	var sarif struct {
		Runs []struct {
			Results []struct{ RuleID, Level string }
		}
	}
	if err := json.Unmarshal([]byte(written["sarif"]), &sarif); err != nil {
		t.Fatal(err)
	}
	if got := sarif.Runs[0].Results; len(got) != 2 || got[0].Level != "error" || got[1].Level != "warning" {
		t.Errorf("sarif: got %+v", got)
	}

	for _, name := range []string{"markdown", "pull request"} {
		if text := written[name]; strings.Contains(text, "<b>") && !strings.Contains(text, "`it said <b>") || strings.Contains(text, "agent <x>") {
			t.Errorf("%s: words of the agent are markup:\n%s", name, text)
		}
	}
	if text := written["pull request"]; !strings.Contains(text, "**failed**") || !strings.Contains(text, "1 findings that do not fail the run") {
		t.Errorf("pull request: got\n%s", text)
	}
}

func TestBaseline(t *testing.T) {
	now := time.Date(2027, 1, 15, 0, 0, 0, 0, time.UTC)
	for line, want := range map[string]struct {
		fails bool
		stale []string
		notes int
	}{
		"one # known\ntwo # known": {},
		"one # known":              {fails: true},
		"one other # of another agent\ntwo other # likewise":    {fails: true},
		"one until=2027-01-15 # today is the last day\ntwo # x": {},
		"one until=2027-01-14 # it was yesterday\ntwo # x":      {fails: true, notes: 1},
		"one # x\ntwo # x\nthree # it passes":                   {fails: true, stale: []string{"three"}},
	} {
		b, err := render.ParseBaseline("base", []byte(line))
		if err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		r := sample()
		b.Apply(r, now)
		a := r.Agents[0]
		if r.Failed() != want.fails || !slices.Equal(a.Stale, want.stale) || len(a.Notes) != want.notes {
			t.Errorf("%q: failed %t, stale %v, notes %v", line, r.Failed(), a.Stale, a.Notes)
		}
	}
	for _, line := range []string{"one", "one #", "one until=soon # x", "one # x\none # y"} {
		if _, err := render.ParseBaseline("base", []byte(line)); err == nil {
			t.Errorf("%q: taken", line)
		}
	}
}
