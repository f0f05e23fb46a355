package render

import (
	"encoding/xml"
	"fmt"
	"io"
	"strings"

	"github.com/parley-agents/parley/internal/ground/text/plaintext"
	"github.com/parley-agents/parley/protocol/comply/rules"
)

// The elements of a JUnit report, as build servers read them. There is no
// binding schema, so only members are used that build servers commonly read.
type junitSuites struct {
	XMLName xml.Name     `xml:"testsuites"`
	Suites  []junitSuite `xml:"testsuite"`
}

type junitSuite struct {
	Name     string      `xml:"name,attr"`
	Tests    int         `xml:"tests,attr"`
	Failures int         `xml:"failures,attr"`
	Errors   int         `xml:"errors,attr"`
	Skipped  int         `xml:"skipped,attr"`
	Cases    []junitCase `xml:"testcase"`
}

type junitCase struct {
	Name    string     `xml:"name,attr"`
	Class   string     `xml:"classname,attr"`
	Time    string     `xml:"time,attr,omitempty"` // in seconds
	Failure *junitNote `xml:"failure,omitempty"`
	Error   *junitNote `xml:"error,omitempty"`
	Skipped *junitNote `xml:"skipped,omitempty"`
	Output  string     `xml:"system-out,omitempty"`
}

type junitNote struct {
	Message string `xml:"message,attr"`
	Text    string `xml:",chardata"`
}

// JUnit writes the report for build servers. A test case fails if, and only if, it makes
// the run fail. A test that did not run is skipped, with the reason; findings that do not
// fail a run are output of a case that passes.
func (r *Report) JUnit(w io.Writer) error {
	doc := junitSuites{}
	for _, a := range r.Agents {
		s := junitSuite{Name: plaintext.Text(a.Name), Tests: len(a.Tests)}
		for i := range a.Tests {
			s.add(&a.Tests[i], a.Name)
		}

		// Findings in the ledger and stale entries of the baseline are cases of their own.
		for _, f := range a.Broken() {
			s.Tests++
			s.Failures++
			s.Cases = append(s.Cases, junitCase{Name: f.Rule, Class: plaintext.Text(a.Name) + ".ledger", Failure: &junitNote{
				Message: plaintext.Text(fmt.Sprintf("expected %s; %s", f.Expected, f.Actual)), Text: plaintext.Text(details([]rules.Finding{f})),
			}})
		}
		for _, id := range a.Stale {
			s.Tests++
			s.Failures++
			s.Cases = append(s.Cases, junitCase{Name: id, Class: plaintext.Text(a.Name) + ".baseline", Failure: &junitNote{Message: "the baseline is stale: this no longer fails"}})
		}

		doc.Suites = append(doc.Suites, s)
	}

	w = plaintext.NewWriter(w) // fields are plain before: the encoder writes U+FFFD for a control
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	enc := xml.NewEncoder(w)
	enc.Indent("", "  ")
	if err := enc.Encode(doc); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}

// add adds the case of a test, and counts it. Severity and baseline are decided
// before, by Result.Failed.
func (s *junitSuite) add(t *Result, agent string) {
	c := junitCase{Name: t.ID, Class: plaintext.Text(agent), Time: fmt.Sprintf("%.3f", float64(t.DurationMs)/1000)}
	note := &junitNote{Message: plaintext.Text(t.remark()), Text: plaintext.Text(details(t.Findings))}
	switch {
	case t.Failed() && t.Status == Errored:
		s.Errors++
		c.Error = note
	case t.Failed():
		s.Failures++
		c.Failure = note
	case t.Status == NA:
		s.Skipped++
		c.Skipped = note
	case t.Status != Pass:
		c.Output = note.Message + "\n" + note.Text
	}
	for _, part := range t.Ignored {
		c.Output += plaintext.Text("not performed: " + part + "\n")
	}
	s.Cases = append(s.Cases, c)
}

// details returns findings as text.
func details(findings []rules.Finding) string {
	var b strings.Builder
	for _, f := range findings {
		fmt.Fprintf(&b, "%s (%s)\nexpected: %s\ncame: %s\n", f.Rule, f.Level, f.Expected, f.Actual)
		for _, frame := range f.Frames {
			fmt.Fprintf(&b, "frame %d, %s: %s\n", frame.Seq, frame.Direction, frame.Text)
		}
		fmt.Fprintf(&b, "to do: %s\n", f.Fix)
	}
	return b.String()
}
