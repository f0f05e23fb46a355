package main

import (
	"cmp"
	"encoding/xml"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/parley-agents/parley/compat"
	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/service/contract"
)

// A junitSuite is the result of a command about contracts as CI reads it.
type junitSuite struct {
	XMLName  xml.Name    `xml:"testsuite"`
	Name     string      `xml:"name,attr"`
	Tests    int         `xml:"tests,attr"`
	Failures int         `xml:"failures,attr"`
	Cases    []junitCase `xml:"testcase"`
}

// A junitCase is one contract or consumer.
type junitCase struct {
	Class   string        `xml:"classname,attr"`
	Name    string        `xml:"name,attr"`
	Failure *junitFailure `xml:"failure,omitempty"`
	Output  string        `xml:"system-out,omitempty"`
}

// A junitFailure is the reason of a case that failed.
type junitFailure struct {
	Message string `xml:"message,attr"`
	Text    string `xml:",chardata"`
}

// junitFlag adds the flag for the file to which the result is written as JUnit.
func junitFlag(cmd *cobra.Command, into *string) {
	cmd.Flags().StringVar(into, "junit", "", "also write the result to this file as JUnit XML")
}

// writeJUnit writes cases to a file; "" writes nothing.
func writeJUnit(path, suite string, cases []junitCase) error {
	if path == "" {
		return nil
	}
	s := junitSuite{Name: "parley " + suite, Tests: len(cases), Cases: cases}
	for i, c := range cases {
		s.Cases[i].Class = s.Name
		if c.Failure != nil {
			s.Failures++
		}
	}
	text, err := xml.MarshalIndent(s, "", "  ")
	if err == nil {
		err = os.WriteFile(path, append([]byte(xml.Header), append(text, '\n')...), 0o644)
	}
	if err != nil {
		return hub.Errorf(hub.CodeInvalid, "parley", "--junit: %w", err)
	}
	return nil
}

// gateCases returns a case for each contract that is not ready, or one for all.
func gateCases(v contract.Verdict) (out []junitCase) {
	for _, f := range v.Failures {
		out = append(out, junitCase{Name: f.Name, Failure: &junitFailure{Message: fmt.Sprintf("version %d is %s", f.Version, f.Reason)}})
	}
	if len(out) == 0 {
		out = []junitCase{{Name: "contracts", Output: counted(v.Checked, "contract") + " checked"}}
		if !v.OK {
			out[0].Failure = &junitFailure{Message: "there is no contract to check"}
		}
	}
	return out
}

// readyCases returns a case for each reason against a commit, or one for the yes, and one for
// each note.
func readyCases(got contract.Readiness, repo string) (out []junitCase) {
	for _, r := range got.Reasons {
		out = append(out, junitCase{Name: cmp.Or(r.Contract, "contracts"), Failure: &junitFailure{Message: r.Reason, Text: r.Who + ": " + r.Next}})
	}
	if got.OK() {
		out = append(out, junitCase{Name: repo, Output: counted(got.Checked, "contract") + " checked"})
	}
	for _, r := range got.Notes {
		out = append(out, junitCase{Name: r.Contract + " (note)", Output: r.Reason})
	}
	return out
}

// diffCases returns a case for each consumer, or one for a consumer of everything.
func diffCases(d contract.Diff) (out []junitCase) {
	texts := func(indexes []int) string {
		var b strings.Builder
		for _, i := range indexes {
			f := d.Findings[i]
			fmt.Fprintf(&b, "%s at %s: %s\n", f.Rule, f.Pointer, f.Text)
		}
		return b.String()
	}
	for _, c := range d.Consumers {
		one := junitCase{Name: c.Repository}
		if c.Verdict != compat.Compatible {
			one.Failure = &junitFailure{Message: string(c.Verdict), Text: texts(c.Findings)}
		}
		out = append(out, one)
	}
	if len(out) > 0 {
		return out
	}
	all := junitCase{Name: "every consumer"}
	if d.Verdict.Verdict != compat.Compatible {
		indexes := make([]int, len(d.Findings))
		for i := range indexes {
			indexes[i] = i
		}
		all.Failure = &junitFailure{Message: string(d.Verdict.Verdict), Text: texts(indexes)}
	}
	return []junitCase{all}
}
