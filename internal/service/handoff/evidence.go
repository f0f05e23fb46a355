package handoff

import (
	"context"
	"fmt"
	"path"
	"path/filepath"
	"strings"

	"github.com/parley-agents/parley/hub"
)

// maxEvidence is how many runs' evidence, and how many files of each, are looked
// at again.
const (
	maxEvidence      = 20
	maxEvidenceFiles = 1000
)

// proveEvidence looks again at what the evidence of runs that a package carries
// says about files and commits. Its commands are never run: whether they would
// end as recorded is not known.
func (s *Service) proveEvidence(ctx context.Context, raw []byte, worktree string) []hub.Check {
	const what = "evidence"
	all, err := hub.DecodeEvidence(raw)
	switch {
	case err != nil:
		return []hub.Check{unverifiable(what, "it is not written as runs record it: "+err.Error())}
	case len(all) > maxEvidence:
		return []hub.Check{unverifiable(what, fmt.Sprintf("it is of %d runs, and no more than %d are looked at", len(all), maxEvidence))}
	}
	var checks []hub.Check
	for i, e := range all {
		name := fmt.Sprintf("%s %d", what, i+1)
		if e.RunID != "" {
			name = what + " of run " + string(e.RunID)
		}
		if e.Worktree == "" {
			e.Worktree = worktree
		}
		switch {
		case s.inspector == nil:
			checks = append(checks, unverifiable(name, noInspector))
		case e.Worktree == "":
			checks = append(checks, unverifiable(name, "the package names no worktree_path to look for it in"))
		default:
			checks = append(checks, s.proveFiles(ctx, name+": files", e))
			if e.After.Commit != "" {
				c := s.inspector.Commit(ctx, e.Worktree, e.After.Commit)
				c.What = name + ": " + c.What
				checks = append(checks, c)
			}
		}
	}
	return checks
}

// proveFiles looks whether the files are there that a run made or changed, and
// those are not that it removed.
func (s *Service) proveFiles(ctx context.Context, what string, e hub.RunEvidence) hub.Check {
	present := append(append([]string{}, e.Diff.Created...), e.Diff.Modified...)
	if n := len(present) + len(e.Diff.Deleted); n > maxEvidenceFiles {
		return unverifiable(what, fmt.Sprintf("it names %d files, and no more than %d are looked at", n, maxEvidenceFiles))
	}
	fail := func(reason hub.RejectReason, format string, args ...any) hub.Check {
		return hub.Check{What: what, Result: hub.CheckFailed, Reason: reason, Detail: fmt.Sprintf(format, args...)}
	}
	look := func(name string) (hub.Check, bool) {
		if !filepath.IsLocal(filepath.FromSlash(name)) || path.Clean(name) != strings.TrimSuffix(name, "/") {
			return fail(hub.RejectSchemaInvalid, "%q is not a path in the worktree", cut(name, 200)), false
		}
		return s.inspector.Artifact(ctx, hub.ArtifactRef{Type: "file", Path: filepath.Join(e.Worktree, filepath.FromSlash(name))}, e.Worktree), true
	}
	for _, name := range present {
		c, ok := look(name)
		switch {
		case !ok:
			return c
		case c.Result == hub.CheckFailed:
			return fail(c.Reason, "%q was made or changed, and is not there: %s", cut(name, 200), c.Detail)
		case c.Result == hub.CheckUnverifiable:
			return unverifiable(what, c.Detail)
		}
	}
	for _, name := range e.Diff.Deleted {
		c, ok := look(name)
		switch {
		case !ok:
			return c
		case c.Result == hub.CheckVerified:
			return fail(hub.RejectOther, "%q was removed, and is there", cut(name, 200))
		case c.Result == hub.CheckUnverifiable:
			return unverifiable(what, c.Detail)
		}
	}
	return hub.Check{What: what, Result: hub.CheckVerified, Detail: fmt.Sprintf("%d are there, %d are not, as recorded; commands were not run", len(present), len(e.Diff.Deleted))}
}
