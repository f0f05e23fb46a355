package handoff

import (
	"context"
	"fmt"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/shape"
)

// The subjects of checks.
const (
	checkPackage  = "package"
	checkApproval = "approval"
	checkState    = "worktree state" // its detail is a digest, to compare two points in time
	checkWork     = "work"
)

// prove checks all claims of a proposed handoff: that the package is the one that
// was proposed, and that the things it names exist.
func (s *Service) prove(ctx context.Context, h hub.Handoff) []hub.Check {
	ctx, cancel := context.WithTimeout(ctx, s.inspect)
	defer cancel()
	checks, pkg, ok := provePackage(h)
	if h.NeedsHuman {
		checks = append(checks, hub.Check{What: checkApproval, Result: hub.CheckVerified, Detail: "the operator approved it at " + h.ApprovedAt.String()})
	}
	if !ok {
		return checks
	}
	if path := pkg.WorkState.Worktree; path != "" {
		checks = append(checks, s.proveWorktree(ctx, path, pkg.WorkState.Branch)...)
	} else if pkg.WorkState.Branch != "" {
		checks = append(checks, unverifiable("branch "+pkg.WorkState.Branch, "the package names no worktree_path to look for it in"))
	}
	refs := make([]hub.ArtifactRef, len(pkg.Artifacts))
	for i, a := range pkg.Artifacts {
		refs[i] = a.Ref
	}
	checks = append(checks, s.proveArtifacts(ctx, refs, pkg.WorkState.Worktree)...)
	return append(checks, s.proveEvidence(ctx, h.Package, pkg.WorkState.Worktree)...)
}

// provePackage compares the package with the hash that was recorded when it
// was proposed, and with the schema.
func provePackage(h hub.Handoff) ([]hub.Check, hub.Package, bool) {
	fail := func(reason hub.RejectReason, format string, args ...any) ([]hub.Check, hub.Package, bool) {
		return []hub.Check{{What: checkPackage, Result: hub.CheckFailed, Detail: fmt.Sprintf(format, args...), Reason: reason}}, hub.Package{}, false
	}
	if err := shape.CheckPackage(h.Package); err != nil {
		return fail(hub.RejectSchemaInvalid, "%v", err)
	}
	hash, err := hub.PackageHash(h.Package)
	if err != nil {
		return fail(hub.RejectSchemaInvalid, "%v", err)
	}
	pkg, err := hub.DecodePackage(h.Package)
	if err != nil {
		return fail(hub.RejectSchemaInvalid, "%v", err)
	}
	if !hub.SameHash(hash, h.Hash) || !hub.SameHash(hash, pkg.Verification.Hash) {
		return fail(hub.RejectHashMismatch, "its hash is %s, but it was %s when it was proposed", hash, h.Hash)
	}
	return []hub.Check{{What: checkPackage, Result: hub.CheckVerified, Detail: "it has the hash under which it was proposed, and satisfies the schema"}}, pkg, true
}

// proveWorktree checks the worktree and records a digest of its current files.
func (s *Service) proveWorktree(ctx context.Context, path, branch string) []hub.Check {
	if s.inspector == nil {
		return []hub.Check{unverifiable("worktree "+path, noInspector)}
	}
	checks := s.inspector.Worktree(ctx, path, branch)
	if digest, ok := s.inspector.State(ctx, path); ok {
		return append(checks, hub.Check{What: checkState, Result: hub.CheckVerified, Detail: digest})
	}
	return append(checks, unverifiable(checkState, "the current files could not be read, so that later changes cannot be proven"))
}

const noInspector = "this hub does not check files"

func unverifiable(what, why string) hub.Check {
	return hub.Check{What: what, Result: hub.CheckUnverifiable, Detail: why}
}

// proveArtifacts checks each artifact. A required one that cannot be verified
// fails; one that is not required does not fail because it is missing.
func (s *Service) proveArtifacts(ctx context.Context, refs []hub.ArtifactRef, worktree string) []hub.Check {
	var checks []hub.Check
	for _, ref := range refs {
		c := unverifiable(ref.Type+" "+ref.Path, noInspector)
		if s.inspector != nil {
			c = s.inspector.Artifact(ctx, ref, worktree)
		}
		switch {
		case ref.Required == nil:
		case *ref.Required && c.Result == hub.CheckUnverifiable:
			c.Result, c.Reason = hub.CheckFailed, hub.RejectMissingArtifact
			c.Detail += "; it is required, so it must be verified"
		case !*ref.Required && c.Result == hub.CheckFailed && c.Reason == hub.RejectMissingArtifact:
			c.Result, c.Reason = hub.CheckUnverifiable, ""
			c.Detail += "; it is not required"
		}
		checks = append(checks, c)
	}
	return checks
}

// failed returns the first check that failed.
func failed(checks []hub.Check) (hub.Check, bool) {
	for _, c := range checks {
		if c.Result == hub.CheckFailed {
			return c, true
		}
	}
	return hub.Check{}, false
}
