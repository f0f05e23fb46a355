package compat_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/parley-agents/parley/compat"
)

var update = flag.Bool("update", false, "write the pages of the rules")

const rulePages = "../docs/contract-rules"

// rulePage returns the page of a rule.
func rulePage(r compat.Rule) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\n", r.ID)
	fmt.Fprintf(&b, "Verdict: **%s**", r.Verdict)
	switch {
	case r.IfUsed:
		b.WriteString(" for a consumer that uses everything, **breaking** for one that declared the part, **compatible** for one that declared other parts")
	case r.Verdict == compat.Unknown && !strings.HasPrefix(r.ID, "BOTH-"):
		b.WriteString(", **breaking** if a document proves it")
	}
	b.WriteString(".\n\n")
	fmt.Fprintf(&b, "## What changed\n\n%s\n\n", r.Changed)
	title := "Why it breaks"
	switch r.Verdict {
	case compat.Compatible:
		title = "Why it does not break"
	case compat.Unknown:
		title = "Why it may break"
	}
	fmt.Fprintf(&b, "## %s\n\n%s\n\n", title, r.Why)
	if r.Verdict != compat.Compatible {
		fmt.Fprintf(&b, "## How to do it without breaking\n\n%s\n\n", r.How)
	} else if r.How != "There is nothing to do." {
		fmt.Fprintf(&b, "## What to check\n\n%s\n\n", r.How)
	}
	if len(r.Library) > 0 {
		fmt.Fprintf(&b, "In oasdiff: `%s`.\n\n", strings.Join(r.Library, "`, `"))
	}
	b.WriteString("[All rules](README.md)\n")
	return b.String()
}

// ruleIndex returns the page that lists the rules.
func ruleIndex() string {
	var b strings.Builder
	b.WriteString("# Rules of contracts\n\nEvery difference between two versions of a contract is explained by a rule, or the verdict is unknown. `parley contract compare` names the rule of each finding.\n")
	for _, group := range [][2]string{{"REQ-", "Requests"}, {"RES-", "Responses"}, {"BOTH-", "Both directions"}} {
		fmt.Fprintf(&b, "\n## %s\n\n| rule | verdict | what changed |\n|---|---|---|\n", group[1])
		for _, r := range compat.Rules {
			if strings.HasPrefix(r.ID, group[0]) {
				fmt.Fprintf(&b, "| [%s](%s.md) | %s | %s |\n", r.ID, r.ID, r.Verdict, r.Changed)
			}
		}
	}
	return b.String()
}

// TestRulePages compares the pages in docs with the table of rules.
func TestRulePages(t *testing.T) {
	want := map[string]string{"README.md": ruleIndex()}
	for _, r := range compat.Rules {
		want[r.ID+".md"] = rulePage(r)
	}
	if *update {
		if err := os.MkdirAll(rulePages, 0o755); err != nil {
			t.Fatal(err)
		}
		for name, text := range want {
			if err := os.WriteFile(filepath.Join(rulePages, name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	entries, err := os.ReadDir(rulePages)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if _, ok := want[e.Name()]; !ok {
			t.Errorf("%s is the page of no rule", e.Name())
		}
	}
	for name, text := range want {
		got, err := os.ReadFile(filepath.Join(rulePages, name))
		if err != nil || string(got) != text {
			t.Errorf("%s differs from the table (%v); run with -update", name, err)
		}
	}
}

// TestRules checks the table: every rule is whole, and known by its id alone.
func TestRules(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range compat.Rules {
		prefix, _, _ := strings.Cut(r.ID, "-")
		isWhole := r.Changed != "" && r.Why != "" && r.How != "" && r.Verdict != ""
		if seen[r.ID] || !isWhole || !slices.Contains([]string{"REQ", "RES", "BOTH"}, prefix) {
			t.Errorf("the rule %q is not whole, or there twice", r.ID)
		}
		seen[r.ID] = true
	}
	for _, p := range readCorpus(t) {
		if p.Rule != "" && !seen[p.Rule] {
			t.Errorf("%s: there is no rule %s", p.Name, p.Rule)
		}
		old, new := p.documents(t)
		for _, f := range compat.Compare(old, new, compat.Options{Direction: p.Direction}).Findings {
			if !seen[f.Rule] {
				t.Errorf("%s: a finding has the rule %q", p.Name, f.Rule)
			}
		}
	}
}
