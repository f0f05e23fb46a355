package compat_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/oasdiff/oasdiff/checker"
	"github.com/oasdiff/oasdiff/diff"
	"github.com/oasdiff/oasdiff/load"

	"github.com/parley-agents/parley/compat"
)

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
		if !strings.HasPrefix(p.file, "openapi") || slices.Contains(mistaken, p.Name) {
			continue
		}
		t.Run(p.Name, func(t *testing.T) {
			errors := secondOpinion(t, p)
			old, new := p.documents(t)
			v := compat.Compare(old, new, compat.Options{})
			if len(errors) > 0 && v.Verdict == compat.Compatible {
				t.Errorf("oasdiff finds %v, and the verdict is compatible\n%s", errors, findings(v))
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
