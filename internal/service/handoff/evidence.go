package handoff

import (
	"context"
	"fmt"
	"path"
	"path/filepath"
	"strings"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/shape"
)

// maxEvidence is the most runs whose evidence is checked again, maxEvidenceFiles
// the most files of each.
const (
	maxEvidence      = 20
	maxEvidenceFiles = 1000
)

// proveEvidence checks the files and commits in the evidence of runs that a package
// carries. It never runs the commands in it: their outcome stays unverified.
func (s *Service) proveEvidence(ctx context.Context, raw []byte, worktree string) []hub.Check {
	const what = "evidence"
	all, err := shape.DecodeEvidence(raw)
	switch {
	case err != nil:
		return []hub.Check{unverifiable(what, "it does not have the form that runs record: "+err.Error())}
	case len(all) > maxEvidence:
		return []hub.Check{unverifiable(what, fmt.Sprintf("it is of %d runs, and at most %d are checked", len(all), maxEvidence))}
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

// proveFiles checks that the files that a run created or modified exist, and that
// those it deleted do not.
func (s *Service) proveFiles(ctx context.Context, what string, e shape.RunEvidence) hub.Check {
	present := append(append([]string{}, e.Diff.Created...), e.Diff.Modified...)
	if n := len(present) + len(e.Diff.Deleted); n > maxEvidenceFiles {
		return unverifiable(what, fmt.Sprintf("it names %d files, and at most %d are checked", n, maxEvidenceFiles))
	}
	fail := func(reason hub.RejectReason, format string, args ...any) hub.Check {
		return hub.Check{What: what, Result: hub.CheckFailed, Reason: reason, Detail: fmt.Sprintf(format, args...)}
	}
	inspect := func(name string) (hub.Check, bool) {
		if !filepath.IsLocal(filepath.FromSlash(name)) || path.Clean(name) != strings.TrimSuffix(name, "/") {
			return fail(hub.RejectSchemaInvalid, "%q is not a path in the worktree", cut(name, 200)), false
		}
		return s.inspector.Artifact(ctx, hub.ArtifactRef{Type: "file", Path: filepath.Join(e.Worktree, filepath.FromSlash(name))}, e.Worktree), true
	}
	for _, name := range present {
		c, ok := inspect(name)
		switch {
		case !ok:
			return c
		case c.Result == hub.CheckFailed:
			return fail(c.Reason, "%q was created or modified, but does not exist: %s", cut(name, 200), c.Detail)
		case c.Result == hub.CheckUnverifiable:
			return unverifiable(what, c.Detail)
		}
	}
	for _, name := range e.Diff.Deleted {
		c, ok := inspect(name)
		switch {
		case !ok:
			return c
		case c.Result == hub.CheckVerified:
			return fail(hub.RejectOther, "%q was deleted, but exists", cut(name, 200))
		case c.Result == hub.CheckUnverifiable:
			return unverifiable(what, c.Detail)
		}
	}
	return hub.Check{What: what, Result: hub.CheckVerified, Detail: fmt.Sprintf("%d exist, %d do not, as recorded; commands were not run", len(present), len(e.Diff.Deleted))}
}
