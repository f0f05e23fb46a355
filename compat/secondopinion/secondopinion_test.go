// Package secondopinion compares the verdicts of compat with those of oasdiff, which reads
// OpenAPI documents with kin-openapi. It is a module of its own, so that programs which import
// Parley's packages do not get these two modules into their graph.
package secondopinion_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/oasdiff/oasdiff/checker"
	"github.com/oasdiff/oasdiff/diff"
	"github.com/oasdiff/oasdiff/load"

	"github.com/parley-agents/parley/compat"
)

// A corpusPair is one line of compat's corpus: two versions of a document.
type corpusPair struct {
	Name     string
	Old, New json.RawMessage
}

// readCorpus returns the pairs of OpenAPI documents in compat's corpus.
func readCorpus(t *testing.T) (pairs []corpusPair) {
	t.Helper()
	files, err := filepath.Glob("../testdata/corpus/openapi*.jsonl")
	if err != nil || len(files) == 0 {
		t.Fatalf("no corpus: %v", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(bytes.NewReader(text))
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			var p corpusPair
			if err := json.Unmarshal(lines.Bytes(), &p); err != nil {
				t.Fatalf("%s: %v: %s", file, err, lines.Text())
			}
			pairs = append(pairs, p)
		}
	}
	return pairs
}

// secondOpinion returns the differences that oasdiff calls errors.
func secondOpinion(t *testing.T, p corpusPair) []string {
	t.Helper()
	specs := make([]*load.SpecInfo, 2)
	for i, text := range [][]byte{p.Old, p.New} {
		spec, err := openapi3.NewLoader().LoadFromData(text)
		if err != nil {
			t.Skipf("it does not load this document: %v", err)
		}
		specs[i] = &load.SpecInfo{Spec: spec, Url: []string{"old", "new"}[i]}
	}
	report, sources, err := diff.GetWithOperationsSourcesMap(diff.NewConfig(), specs[0], specs[1])
	if err != nil {
		t.Skipf("it does not compare these documents: %v", err)
	}
	var out []string
	for _, change := range checker.CheckBackwardCompatibility(checker.NewConfig(checker.GetAllChecks()), report, sources) {
		if change.GetLevel() == checker.ERR {
			out = append(out, change.GetId())
		}
	}
	return out
}

// read reads one version of a pair.
func read(t *testing.T, text []byte) compat.Document {
	t.Helper()
	doc, err := compat.Read(text, nil)
	if err != nil {
		t.Fatalf("the document is refused: %v", err)
	}
	return doc
}

// mistaken lists pairs about which oasdiff is wrong: the same parameter in another place, null
// in the words of 3.1, a range that takes the old media type, another name for the same
// security scheme, the body of a webhook, which the provider sends, and a constant as a list.
var mistaken = []string{
	"parameters move from the path to its operation", "3.0 becomes 3.1 with the same meaning", "3.0 nullable becomes an alternative of 3.1",
	"a media type becomes a range in a request", "a scheme is renamed", "the body of a webhook is narrowed", "3.1: const becomes enum",
}

// TestSecondOpinion checks that no OpenAPI pair is compatible that oasdiff calls breaking,
// and that the ids of oasdiff in the table of rules exist.
func TestSecondOpinion(t *testing.T) {
	for _, p := range readCorpus(t) {
		if slices.Contains(mistaken, p.Name) {
			continue
		}
		t.Run(p.Name, func(t *testing.T) {
			errors := secondOpinion(t, p)
			v := compat.Compare(read(t, p.Old), read(t, p.New), compat.Options{})
			if len(errors) > 0 && v.Verdict == compat.Compatible {
				t.Errorf("oasdiff finds %v, and the verdict is compatible: %+v", errors, v.Findings)
			}
		})
	}
	ids := checker.GetAllRuleIds()
	for _, r := range compat.Rules {
		for _, id := range r.Library {
			if !slices.Contains(ids, id) {
				t.Errorf("%s: oasdiff has no rule %s", r.ID, id)
			}
		}
	}
}
