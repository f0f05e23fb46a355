package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestRun(t *testing.T) {
	list := filepath.Join(t.TempDir(), "known.json")
	if err := os.WriteFile(list, []byte(`{"agents": [{"name": "a", "version": "1", "licence": "MIT", "api": "chat"}, {"name": "b", "version": "2", "licence": "MIT", "api": ""}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	report := `{"agents": [{"name": "a", "protocolVersion": 1, "tests": [
		{"id": "x", "severity": "required", "status": "FAIL", "findings": [{"rule": "R-1", "level": "MUST", "docs": ["https://example.org"], "actual": "/tmp/123"}, {"rule": "R-1", "level": "MUST"}]},
		{"id": "y", "severity": "optional", "status": "PASS", "findings": []},
		{"id": "z", "severity": "optional", "status": "PASS", "findings": []}
	]}]}
	{"agents": [{"name": "a", "tests": [
		{"id": "x", "severity": "required", "status": "FAIL", "findings": []},
		{"id": "z", "severity": "optional", "status": "FAIL", "findings": [{"rule": "R-2", "level": "MUST"}]}
	]}]}`
	var out strings.Builder
	if err := run(list, strings.NewReader(report), &out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"| a | 1 | MIT | chat | 1 | 1 | 0 | 0 | 1 | 0 | 0 | 1 |\n",
		"| b | 2 | MIT | none | not installed | | | | | | | |\n",
		"| **x** | 2 | FAIL |\n| y | 1 | PASS |\n| z | 2 | FAIL/PASS |\n",
		"### a\n\n- [R-1 (MUST)](https://example.org): x\n- R-2 (MUST): z\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("there is no %q in\n%s", want, out.String())
		}
	}
	if strings.Contains(out.String(), "/tmp/") {
		t.Errorf("there is what differs from run to run in\n%s", out.String())
	}
	if err := run(list, strings.NewReader(`{"agents": []}`), &out); err == nil {
		t.Error("a report without agents is no error")
	}
}
