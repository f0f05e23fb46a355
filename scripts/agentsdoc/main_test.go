package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestRun(t *testing.T) {
	dir := t.TempDir()
	put := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	list := put("known.json", `{"agents": [{"name": "a", "version": "agent 1.0", "licence": "MIT", "api": "chat"}, {"name": "b", "version": "2", "licence": "MIT", "api": ""}, {"name": "c", "version": "agent 3.0", "licence": "MIT", "api": ""}]}`)
	var out strings.Builder
	if err := run(list, dir, &out); err == nil {
		t.Error("a folder without reports is no error")
	}
	const head = `{"schema": "parley-comply-report/1", "started": "2026-01-02T03:04:05Z", "suite": "3 tests", `
	put("a-1.0.1.json", head+`"agents": [{"name": "a", "protocolVersion": 1, "tests": [
		{"id": "x", "severity": "required", "status": "FAIL", "findings": [
			{"rule": "PERM-12", "level": "MUST", "expected": "it waits", "actual": "it began", "context": [{"seq": 4, "direction": "out", "text": "{\"ask\":1}"}], "frames": [{"seq": 5, "direction": "in", "text": "{\"begin\":1}"}]},
			{"rule": "PERM-12", "level": "MUST"}]},
		{"id": "y", "severity": "optional", "status": "PASS", "findings": []},
		{"id": "z", "severity": "optional", "status": "PASS", "findings": []}
	], "ledger": [{"rule": "TOOL-02", "level": "SHOULD", "actual": "twice", "tests": ["y", "z"]}]}]}`)
	put("a-1.0.2.json", head+`"agents": [{"name": "a", "protocolVersion": 1, "tests": [
		{"id": "x", "severity": "required", "status": "FAIL", "findings": [{"rule": "PERM-12", "level": "MUST"}]},
		{"id": "y", "severity": "optional", "status": "PASS", "findings": []},
		{"id": "z", "severity": "optional", "status": "FAIL", "findings": [{"rule": "CAN-12", "level": "MUST"}]}
	], "ledger": []}]}`)
	put("a-0.9.1.json", "a report of another version")
	put("c-2.8.1.json", head+`"agents": [{"name": "c", "protocolVersion": 1, "tests": [], "ledger": []}]}`)
	put("c-2.9.1.json", strings.Replace(head, "2026-01-02", "2026-01-03", 1)+`"agents": [{"name": "c", "protocolVersion": 1, "tests": [], "ledger": [{"rule": "PERM-12", "level": "SHOULD", "tests": ["x"]}]}]}`)
	put("newest.txt", "2026-01-04\na 1.0\nc 3.0\n")
	put("remarks.txt", "a\tPERM-12\tit was in a hurry\n")
	put("others.txt", "d\tdee 4.0\tit needs an account\n")
	if err := run(list, dir, &out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"looked up on 2026-01-04;",
		"| a | agent 1.0 | 1.0 | MIT | chat | 1 | 2 | 2026-01-02 | 2 days | 1 | 0 | 0 | 1 | 0 | 0 | 1 |\n",
		"| b | 2 | not known | MIT | none | not tested | 0 | | | | | | | | | |\n",
		"| c | agent 2.9 | 3.0 | MIT | none | 1 | 1 | 2026-01-03 | 1 day | 0 | 0 | 0 | 0 | 0 | 0 | 0 |\n",
		"| d | dee 4.0 | it needs an account |\n",
		"| **x** | FAIL | - |\n| y | PASS | - |\n| z | FAIL/PASS | - |\n",
		"Run 1: [a-1.0.1.json](agents/a-1.0.1.json), 2026-01-02T03:04:05Z, 3 tests.\n",
		"Levels are those of the run; PERM-12 is MUST since 2026-11-19.\n",
		"| [CAN-12](rules/can.md#can-12) | MUST |", "| 1 of 2 runs, unstable | z |\n",
		"| [PERM-12](rules/perm.md#perm-12) | MUST |", "| 2 of 2 runs | x |\n",
		"| 1 of 2 runs, unstable | y, z |\n",
		"PERM-12. Expected: `it waits`. Came: `it began`.\nRemark: it was in a hurry.\n\n```\n      <- {\"ask\":1}\nagent -> {\"begin\":1}\n```\n",
		"## Checked in every frame and broken by none\n\n[ADIR-09]",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("there is no %q in\n%s", want, out.String())
		}
	}
	put("b-2.1.json", head+`"interrupted": true, "agents": [{"name": "b", "tests": [], "ledger": []}]}`)
	if err := run(list, dir, &out); err == nil {
		t.Error("a report of an interrupted run is no error")
	}
}
