package handoff

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/ground/shape"
	"github.com/parley-agents/parley/internal/ground/text/plaintext"
	"github.com/parley-agents/parley/internal/ground/text/shell"
)

// The subjects of checks.
const (
	checkPackage  = "package"
	checkApproval = "approval"
	checkState    = "worktree state"
	checkWork     = "work"
)

// prove checks all claims of a proposed handoff: that the package is the one that
// was proposed, and that the things it names exist.
func (s *Service) prove(ctx context.Context, h hub.Handoff) []hub.Check {
	ctx, cancel := context.WithTimeout(ctx, s.inspect)
	defer cancel()
	checks, pkg, ok := provePackage(h)
	if h.NeedsHuman {
		checks = append(checks, hub.Check{What: checkApproval, Kind: hub.CheckKindApproval, Result: hub.CheckVerified, Detail: "the operator approved it at " + h.ApprovedAt.String()})
	}
	if !ok {
		return checks
	}
	if path := pkg.WorkState.Worktree; path != "" {
		checks = append(checks, s.proveWorktree(ctx, h.ID, path, pkg.WorkState.Branch)...)
	} else if pkg.WorkState.Branch != "" {
		checks = append(checks, unverifiable(hub.CheckKindBranch, "branch "+pkg.WorkState.Branch, "the package names no worktree_path to look for it in"))
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
func provePackage(h hub.Handoff) ([]hub.Check, shape.Package, bool) {
	fail := func(reason hub.RejectReason, format string, args ...any) ([]hub.Check, shape.Package, bool) {
		return []hub.Check{{What: checkPackage, Kind: hub.CheckKindPackage, Result: hub.CheckFailed, Detail: fmt.Sprintf(format, args...), Reason: reason}}, shape.Package{}, false
	}
	if err := shape.CheckPackage(h.Package); err != nil {
		return fail(hub.RejectSchemaInvalid, "%v", err)
	}
	hash, err := shape.PackageHash(h.Package)
	if err != nil {
		return fail(hub.RejectSchemaInvalid, "%v", err)
	}
	pkg, err := shape.DecodePackage(h.Package)
	if err != nil {
		return fail(hub.RejectSchemaInvalid, "%v", err)
	}
	if !shape.SameHash(hash, h.Hash) || !shape.SameHash(hash, pkg.Verification.Hash) {
		return fail(hub.RejectHashMismatch, "its hash is %s, but it was %s when it was proposed", hash, h.Hash)
	}
	return []hub.Check{{What: checkPackage, Kind: hub.CheckKindPackage, Result: hub.CheckVerified, Detail: "it has the hash under which it was proposed, and satisfies the schema"}}, pkg, true
}

// proveWorktree checks the worktree and records its state.
func (s *Service) proveWorktree(ctx context.Context, id hub.HandoffID, path, branch string) []hub.Check {
	if s.inspector == nil {
		return []hub.Check{unverifiable(hub.CheckKindWorktree, "worktree "+path, noInspector)}
	}
	checks := s.inspector.Worktree(ctx, path, branch)
	state, err := s.inspector.State(ctx, path, id)
	if err != nil {
		return append(checks, unverifiable(hub.CheckKindWorktree, checkState, "the current files could not be read, so later changes cannot be proven"))
	}
	return append(checks, hub.Check{
		What: checkState, Kind: hub.CheckKindWorktree, Result: hub.CheckVerified, Detail: "the files are the tree " + state.Tree, State: &state,
	})
}

const noInspector = "this hub does not check files"

func unverifiable(kind hub.CheckKind, what, why string) hub.Check {
	return hub.Check{What: what, Kind: kind, Result: hub.CheckUnverifiable, Detail: why}
}

// proveArtifacts checks each artifact. A required one that cannot be verified
// fails; one that is not required does not fail because it is missing.
func (s *Service) proveArtifacts(ctx context.Context, refs []hub.ArtifactRef, worktree string) []hub.Check {
	var checks []hub.Check
	for _, ref := range refs {
		c := unverifiable(hub.CheckKind(ref.Type), ref.Type+" "+ref.Path, noInspector)
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

// checkRoots refuses a package that names a worktree or a file under no root, unless
// its sender declared it unproven: no claim about such a path could be checked. next is
// the part of the hint that follows the command of the operator.
func (s *Service) checkRoots(ctx context.Context, op string, raw []byte, pkg shape.Package, next string) error {
	if pkg.Unproven != "" && !s.requireProof {
		return nil
	}

	// The folder of a path is the root that the operator would have to add.
	var folders, paths []string
	name := func(folder, path string) {
		if path != "" {
			folders, paths = append(folders, folder), append(paths, path)
		}
	}

	name(pkg.WorkState.Worktree, pkg.WorkState.Worktree)
	for _, a := range pkg.Artifacts {
		if a.Ref.Type == "file" {
			name(filepath.Dir(a.Ref.Path), a.Ref.Path)
		}
	}
	runs, _ := shape.DecodeEvidence(raw) // of another form it names nothing
	for _, e := range runs {
		name(e.Worktree, e.Worktree)
	}

	for i, path := range paths {
		if s.inspector != nil {
			rooted, err := s.inspector.Rooted(ctx, path)
			if err != nil {
				return fmt.Errorf("handoff: read the roots: %w", err)
			}
			if rooted {
				continue
			}
		}
		return hub.Errorf(hub.CodeOutsideRoots, op, "%s is under no root, so the hub cannot check it", cut(path, 300)).
			WithHint("{root.add} %s; %s", shell.Word(plaintext.Line(folders[i])), next)
	}
	return nil
}

// A proven is the proof of a handoff with its reason and its qualifications.
type proven struct {
	Proof  hub.Proof
	Reason string          // why it is unproven or refused
	Note   string          // what qualifies it
	Change *hub.WorkChange // nil before the completion, and in those of earlier versions
}

// earlierRules qualifies the proof of a completion of an earlier version.
const earlierRules = "by the rules of then"

// proofOf decides how far the end of a handoff is proven. checks are those of the step
// that completed or rejected it. References that the hub never checks, such as a web
// address, do not count.
func proofOf(h hub.Handoff, checks []hub.Check) proven {
	switch bad, refused := failed(checks); {
	case h.Ending == hub.EndedRejected && refused:
		return proven{Proof: hub.ProofRefused, Reason: bad.What + ": " + bad.Detail}
	case h.Ending != hub.EndedDone:
		return proven{Proof: hub.ProofNone}
	case len(checks) == 0:
		return proven{Proof: hub.ProofUnproven, Reason: "no check is recorded", Note: earlierRules}
	}
	p := proven{Proof: hub.ProofVerified, Note: earlierRules}
	for _, c := range slices.Backward(checks) { // the work is the last check
		if c.Change != nil {
			p.Change, p.Note = c.Change, strings.Join(c.Change.Notes, ", ")
		}
		switch {
		case p.Proof != hub.ProofVerified:
		case c.Kind == hub.CheckKindWork && (c.Result != hub.CheckVerified || onlyDeclared(c)):
			p.Proof, p.Reason = hub.ProofUnproven, c.Detail
		case c.Result != hub.CheckVerified && (c.Kind == hub.CheckKindFile || c.Kind == hub.CheckKindBranch):
			p.Proof, p.Reason = hub.ProofUnproven, c.What+": "+c.Detail
		}
	}
	return p
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
