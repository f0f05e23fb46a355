package comply_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parley-agents/parley/protocol/comply"
)

// TestOptionalTests shows that an expectation of an optional test of the user fails a run only if a
// MUST rule is behind it. A broken MUST fails the run in any test.
func TestOptionalTests(t *testing.T) {
	t.Parallel()
	failing := steps(prompt(2, "notify 1"), expect(`{"response": {"id": 2, "result": {"stopReason": "^refusal$"}}}`))
	badFrame := strings.Replace(steps(prompt(2, `raw {"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s.1","update":{"sessionUpdate":"plan"}}}`), expect(`{"response": {"id": 2}}`)), `"ledger": false`, `"ledger": true`, 1)
	broken := steps(`{"reply": {"to": "q", "result": {}}}`)

	rule := func(id string) string {
		return strings.Replace(failing, `"steps"`, `"rules": ["`+id+`"], "steps"`, 1)
	}
	for _, tt := range []struct {
		name, text string
		optional   bool // an optional test fails the run, too
	}{
		{"an expectation", failing, false}, {"a test that cannot run", broken, false},
		{"an expectation of a MUST rule", rule("SNEW-01"), true}, {"a frame that breaks a MUST", badFrame, true},
	} {
		name, text := tt.name, tt.text
		for severity, want := range map[string]bool{"optional": tt.optional, "required": true} {
			t.Run(name+" in a test that is "+severity, func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir()
				own := text
				for _, old := range []string{"required", "optional"} {
					own = strings.Replace(own, `"severity": "`+old+`"`, `"severity": "`+severity+`"`, 1)
				}
				if err := os.WriteFile(filepath.Join(dir, "mine.jsont"), []byte(own), 0o600); err != nil {
					t.Fatal(err)
				}
				tests, err := comply.Load(dir)
				if err != nil {
					t.Fatal(err)
				}
				report, err := comply.Run(t.Context(), []comply.Agent{agent(t, "none")}, tests, &comply.Options{Once: true})
				if err != nil {
					t.Fatal(err)
				}
				if report.Failed() != want {
					t.Errorf("the run failed: %v, want %v: %+v", report.Failed(), want, report.Agents[0])
				}
			})
		}
	}
}

// TestCopiedSuite shows that a copy of a built-in test is as strict as the test.
func TestCopiedSuite(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "suite")
	if _, err := comply.WriteSuite(dir); err != nil {
		t.Fatal(err)
	}
	changed := filepath.Join(dir, "plan.jsont")
	text, err := os.ReadFile(changed)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(changed, append(text, '\n'), 0o600); err != nil {
		t.Fatal(err)
	}
	tests, err := comply.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range tests {
		if x.Own != (x.ID == "plan") {
			t.Errorf("%s: the user's own is %v", x.ID, x.Own)
		}
	}
}
