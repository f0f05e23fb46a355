package compat_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/parley-agents/parley/compat"
)

// A corpusPair is one line of a file of the corpus: two versions with the wanted verdicts.
type corpusPair struct {
	Name      string           `json:"name"`
	Verdict   compat.Word      `json:"verdict"` // for a consumer that uses everything
	Reason    string           `json:"reason"`
	Rule      string           `json:"rule"`    // one of the findings; any if empty
	Example   *bool            `json:"example"` // false: no document can show it
	Type      string           `json:"type"`
	Direction compat.Direction `json:"direction"`
	Consumers []struct {
		Parts   []string    `json:"parts"`
		Verdict compat.Word `json:"verdict"`
		Reason  string      `json:"reason"`
	} `json:"consumers"`
	Old json.RawMessage `json:"old"`
	New json.RawMessage `json:"new"`

	file string
}

// readCorpus returns every pair of the corpus.
func readCorpus(t testing.TB) []corpusPair {
	t.Helper()
	files, err := filepath.Glob("testdata/corpus/*.jsonl")
	if err != nil || len(files) == 0 {
		t.Fatalf("no corpus: %v", err)
	}
	var pairs []corpusPair
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(bytes.NewReader(text))
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			var p corpusPair
			dec := json.NewDecoder(bytes.NewReader(lines.Bytes()))
			dec.DisallowUnknownFields()
			if err := dec.Decode(&p); err != nil || p.Reason == "" {
				t.Fatalf("%s: %v: %s", file, err, lines.Text())
			}
			p.file = strings.TrimSuffix(filepath.Base(file), ".jsonl")
			pairs = append(pairs, p)
		}
	}
	return pairs
}

// isSchemaOrAPI reports whether a breaking pair must have an example.
func (p corpusPair) isSchemaOrAPI() bool {
	return strings.HasPrefix(p.file, "openapi") || strings.HasPrefix(p.file, "json-schema")
}

// documents reads both versions of a pair.
func (p corpusPair) documents(t testing.TB) (old, new compat.Document) {
	t.Helper()
	opts := &compat.ReadOptions{Type: p.Type}
	old, err := compat.Read(p.Old, opts)
	if err != nil {
		t.Fatalf("the old version is refused: %v", err)
	}
	new, err = compat.Read(p.New, opts)
	if err != nil {
		t.Fatalf("the new version is refused: %v", err)
	}
	return old, new
}

// TestCorpus compares the verdicts for all pairs with the wanted ones. A verdict that is
// better than the wanted one is the mistake that must never happen.
func TestCorpus(t *testing.T) {
	pairs := readCorpus(t)
	if len(pairs) < 120 {
		t.Errorf("the corpus has %d pairs, want 120 or more", len(pairs))
	}
	breaking, shown := 0, 0
	for _, p := range pairs {
		t.Run(p.file+"/"+p.Name, func(t *testing.T) {
			old, new := p.documents(t)
			v := compat.Compare(old, new, compat.Options{Direction: p.Direction})
			if v.Verdict != p.Verdict {
				t.Errorf("verdict: got %s, want %s (%s)\n%s", v.Verdict, p.Verdict, p.Reason, findings(v))
			}
			if p.Rule != "" && !slices.ContainsFunc(v.Findings, func(f compat.Finding) bool { return f.Rule == p.Rule }) {
				t.Errorf("no finding by %s\n%s", p.Rule, findings(v))
			}
			for _, c := range p.Consumers {
				if got := v.For(c.Parts); got.Verdict != c.Verdict {
					t.Errorf("for %v: got %s, want %s (%s)\n%s", c.Parts, got.Verdict, c.Verdict, c.Reason, findings(v))
				}
			}
			if p.Verdict != compat.Breaking || !p.isSchemaOrAPI() {
				return
			}
			breaking++
			has := slices.ContainsFunc(v.Findings, func(f compat.Finding) bool { return f.Example != nil })
			if has {
				shown++
			} else if p.Example == nil || *p.Example {
				t.Errorf("there is no example\n%s", findings(v))
			}
		})
	}
	if shown*100 < breaking*95 {
		t.Errorf("%d of %d breaking pairs have an example, want 95%%", shown, breaking)
	}
	t.Logf("%d pairs, %d breaking schemas and APIs, %d with an example", len(pairs), breaking, shown)
}

// findings returns the findings of a verdict, one on a line.
func findings(v compat.Verdict) string {
	var b strings.Builder
	for _, f := range v.Findings {
		b.WriteString(string(f.Verdict) + " " + f.Rule + " " + f.Pointer + ": " + f.Text + " " + strings.Join(f.Parts, ", "))
		if f.Example != nil {
			b.WriteString(" e.g. " + string(f.Example.Document) + ": " + f.Example.Reason)
		}
		b.WriteByte('\n')
	}
	return b.String()
}
