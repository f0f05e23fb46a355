package render

import (
	"encoding/json"
	"io"

	"github.com/parley-agents/parley/internal/ground/text/plaintext"
	"github.com/parley-agents/parley/protocol/comply/jsont"
	"github.com/parley-agents/parley/protocol/comply/rules"
)

// SARIF writes the findings in the Static Analysis Results Interchange Format 2.1.0. The place of
// a finding is the test that found it first; an agent has no lines. A MUST that fails the
// run is an error, a SHOULD a warning, all else a note, also an expectation of an optional test,
// which says so; what the baseline accepts is suppressed.
// The fingerprint leaves out the test, so a viewer recognizes a finding that
// another test sees first in the next run.
func (r *Report) SARIF(w io.Writer) error {
	type object = map[string]any
	results := []any{}
	broken := []any{}
	seen := map[string]bool{}
	for _, f := range r.Index() {
		level, optional := "note", ""
		switch {
		case f.Fails():
			level = "error"
		case f.Level == jsont.Must || f.Level == jsont.Should:
			level = "warning"
		case f.Level == jsont.OfTest:
			optional = " (optional)"
		}

		test := ProbeID
		if len(f.Tests) > 0 {
			test = f.Tests[0]
		}

		result := object{
			"ruleId": f.Rule, "level": level,
			"message": object{"text": plaintext.Text(f.Agent + optional + ": expected " + f.Expected + "; " + f.Actual + "\nTo do: " + f.Fix)},
			"locations": []any{object{
				"physicalLocation": object{"artifactLocation": object{"uri": test + jsont.Extension}, "region": object{"startLine": 1}},
				"logicalLocations": []any{object{"name": plaintext.Text(f.Agent), "kind": "module"}},
			}},
			"partialFingerprints": object{"finding/v1": plaintext.Text(f.Agent + " " + f.Rule + " " + f.Actual)},
		}
		if f.Known {
			result["suppressions"] = []any{object{"kind": "external", "justification": plaintext.Text(f.Reason)}}
		}
		results = append(results, result)

		// A rule is described once, however many findings it has.
		if rule := rules.Find(f.Rule); !seen[f.Rule] {
			seen[f.Rule] = true
			about := object{"id": f.Rule, "shortDescription": object{"text": rule.Text}, "help": object{"text": rule.Harm + " " + rule.Fix}}
			if rule.Text == "" {
				about = object{"id": f.Rule}
			} else if rule.Docs != "" {
				about["helpUri"] = rule.Docs
			}
			broken = append(broken, about)
		}
	}

	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(object{
		"$schema": "https://json.schemastore.org/sarif-2.1.0.json", "version": "2.1.0",
		"runs": []any{object{
			"tool":    object{"driver": object{"name": "parley comply", "version": r.Tool, "rules": broken}},
			"results": results,
		}},
	})
}
