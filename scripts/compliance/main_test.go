package main

import (
	"bytes"
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/parley-agents/parley/protocol/comply"
)

var rewrite = flag.Bool("update", false, "rewrite docs/compliance.md")

func TestCompliance(t *testing.T) {
	const path = "../../docs/compliance.md"
	var b bytes.Buffer
	if err := write(&b); err != nil {
		t.Fatal(err)
	}
	if *rewrite {
		if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got := b.String(); got != string(want) {
		t.Errorf("docs/compliance.md is not what the rules, tests and mutants say; run go test ./scripts/compliance -update")
	}
	for _, r := range comply.Rules() {
		if !strings.Contains(string(want), "["+r.ID+"]") {
			t.Errorf("%s is not in the table", r.ID)
		}
	}
}
