package handoff

import (
	"context"
	"fmt"
	"path"
	"path/filepath"
	"strings"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/ground/shape"
)

// maxEvidence is the most runs whose evidence is checked again, maxEvidenceFiles
// the most files of each.
const (
	maxEvidence      = 20
	maxEvidenceFiles = 1000
)

// proveEvidence looks up the runs whose evidence a package carries, and checks the files
// and commits in it. It never runs the commands in it: their outcome stays unverified.
// Evidence of a run that the hub does not know or did not check verifies nothing.
func (s *Service) proveEvidence(ctx context.Context, raw []byte, worktree string) []hub.Check {
	const what = "evidence"
	all, err := shape.DecodeEvidence(raw)
	switch {
	case err != nil:
		return []hub.Check{unverifiable(hub.CheckKindEvidence, what, "it is not in the form that runs record: "+err.Error())}
	case len(all) > maxEvidence:
		return []hub.Check{unverifiable(hub.CheckKindEvidence, what, fmt.Sprintf("it covers %d runs; at most %d are checked", len(all), maxEvidence))}
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

		// Files and commits prove nothing if the run itself is not verified.
		run := s.proveRun(ctx, name, e)
		checks = append(checks, run)
		for _, c := range s.proveTraces(ctx, name, e) {
			if run.Result != hub.CheckVerified && c.Result == hub.CheckVerified {
				c = unverifiable(c.Kind, c.What, c.Detail+"; the run does not prove that this is its work")
			}
			checks = append(checks, c)
		}
	}
	return checks
}

// proveRun looks up the run that evidence is of: the hub has its record, checked it, and
// the evidence is part of that record.
func (s *Service) proveRun(ctx context.Context, what string, e shape.RunEvidence) hub.Check {
	if e.RunID == "" {
		return unverifiable(hub.CheckKindEvidence, what, "it names no run to look up")
	}

	var run hub.Run
	err := s.store.View(ctx, func(r hub.Reader) (err error) {
		run, err = r.Run(e.RunID)
		return err
	})
	switch {
	case hub.CodeOf(err) == hub.CodeNotFound:
		return unverifiable(hub.CheckKindEvidence, what, "this hub has no such run")
	case err != nil:
		return unverifiable(hub.CheckKindEvidence, what, "the run could not be looked up: "+err.Error())
	case !run.State.Over():
		return unverifiable(hub.CheckKindEvidence, what, fmt.Sprintf("the run of %s is not over", run.Agent))
	case !run.Checked() || run.Verdict != hub.RunConfirmed:
		return unverifiable(hub.CheckKindEvidence, what, fmt.Sprintf("the run of %s is %s", run.Agent, run.VerdictText()))
	}

	// A sender cannot add to the evidence that the run recorded.
	recorded, err := shape.DecodeRecordedEvidence(run.Evidence)
	if err != nil {
		return unverifiable(hub.CheckKindEvidence, what, "the run recorded no evidence")
	}
	if missing := e.Beyond(recorded); missing != "" {
		return hub.Check{What: what, Kind: hub.CheckKindEvidence, Result: hub.CheckFailed, Reason: hub.RejectHashMismatch,
			Detail: fmt.Sprintf("the run of %s did not record %s", run.Agent, cut(missing, 200))}
	}
	return hub.Check{What: what, Kind: hub.CheckKindEvidence, Result: hub.CheckVerified, Detail: fmt.Sprintf("the run of %s is %s", run.Agent, run.VerdictText())}
}

// proveTraces checks the files and the commit in the evidence of a run.
func (s *Service) proveTraces(ctx context.Context, name string, e shape.RunEvidence) []hub.Check {
	switch {
	case s.inspector == nil:
		return []hub.Check{unverifiable(hub.CheckKindEvidence, name+": files", noInspector)}
	case e.Worktree == "":
		return []hub.Check{unverifiable(hub.CheckKindEvidence, name+": files", "the package names no worktree_path to look for it in")}
	}
	checks := []hub.Check{s.proveFiles(ctx, name+": files", e)}
	if e.After.Commit != "" {
		c := s.inspector.Commit(ctx, e.Worktree, e.After.Commit)
		c.What, c.Kind = name+": "+c.What, hub.CheckKindEvidence
		checks = append(checks, c)
	}
	return checks
}

// proveFiles checks that the files that a run created or modified exist, and that
// those it deleted do not.
func (s *Service) proveFiles(ctx context.Context, what string, e shape.RunEvidence) hub.Check {
	present := append(append([]string{}, e.Diff.Created...), e.Diff.Modified...)
	if n := len(present) + len(e.Diff.Deleted); n > maxEvidenceFiles {
		return unverifiable(hub.CheckKindEvidence, what, fmt.Sprintf("it names %d files; at most %d are checked", n, maxEvidenceFiles))
	}

	fail := func(reason hub.RejectReason, format string, args ...any) hub.Check {
		return hub.Check{What: what, Kind: hub.CheckKindEvidence, Result: hub.CheckFailed, Reason: reason, Detail: fmt.Sprintf(format, args...)}
	}
	inspect := func(name string) (hub.Check, bool) {
		if !filepath.IsLocal(filepath.FromSlash(name)) || path.Clean(name) != strings.TrimSuffix(name, "/") {
			return fail(hub.RejectSchemaInvalid, "%q is not a path in the worktree", cut(name, 200)), false
		}
		return s.inspector.Artifact(ctx, hub.ArtifactRef{Type: "file", Path: filepath.Join(e.Worktree, filepath.FromSlash(name))}, e.Worktree), true
	}

	// A file that the hub cannot inspect makes the evidence unverifiable, not wrong.
	for _, name := range present {
		c, ok := inspect(name)
		switch {
		case !ok:
			return c
		case c.Result == hub.CheckFailed:
			return fail(c.Reason, "%q was created or modified, but does not exist: %s", cut(name, 200), c.Detail)
		case c.Result == hub.CheckUnverifiable:
			return unverifiable(hub.CheckKindEvidence, what, c.Detail)
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
			return unverifiable(hub.CheckKindEvidence, what, c.Detail)
		}
	}

	return hub.Check{What: what, Kind: hub.CheckKindEvidence, Result: hub.CheckVerified, Detail: fmt.Sprintf("%d exist, %d do not, as recorded; commands were not run", len(present), len(e.Diff.Deleted))}
}
