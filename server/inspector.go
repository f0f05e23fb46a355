package server

import (
	"context"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/reach/evidence"
)

// An inspector lets handoffs ask what lies on this machine.
type inspector struct{ *evidence.Inspector }

// rejectFor says what a claim that does not hold rejects a handoff for.
var rejectFor = map[hub.Code]hub.RejectReason{
	hub.CodeNotFound: hub.RejectMissingArtifact,
	hub.CodeConflict: hub.RejectHashMismatch,
	hub.CodeInvalid:  hub.RejectSchemaInvalid,
}

// checkOf puts a finding into the words of a handoff.
func checkOf(c evidence.Check, what string) hub.Check {
	out := hub.Check{What: what, Result: hub.Verdict(c.Result), Detail: c.Detail}
	if c.Result == evidence.Failed {
		out.Reason = rejectFor[c.Code]
	}
	return out
}

// Artifact looks at a file by its path, and at a branch in the worktree.
func (in inspector) Artifact(ctx context.Context, ref hub.ArtifactRef, worktree string) hub.Check {
	what := ref.Type + " " + ref.Path
	switch ref.Type {
	case "file":
		return checkOf(in.File(ctx, evidence.FileClaim{Path: ref.Path, SHA256: ref.SHA256, Size: ref.SizeBytes}), what)
	case "branch":
		if worktree == "" {
			return hub.Check{What: what, Result: hub.CheckUnverifiable, Detail: "the package names no worktree_path to look for it in"}
		}
		checks := in.Repository(ctx, evidence.RepositoryClaim{Path: worktree, Branch: ref.Path, Commit: ref.Version})
		for _, c := range checks {
			if c.Result != evidence.Verified {
				return checkOf(c, what)
			}
		}
		return checkOf(checks[len(checks)-1], what)
	}
	return checkOf(evidence.Reference(ref.Type), what)
}

// Worktree looks at a working tree and at the branch it should have.
func (in inspector) Worktree(ctx context.Context, path, branch string) []hub.Check {
	var out []hub.Check
	for _, c := range in.Repository(ctx, evidence.RepositoryClaim{Worktree: path, Branch: branch}) {
		out = append(out, checkOf(c, c.What+" "+path))
	}
	return out
}

// State is not known yet.
func (in inspector) State(context.Context, string) (string, bool) { return "", false }
