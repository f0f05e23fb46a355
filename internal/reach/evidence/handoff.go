package evidence

import (
	"context"

	"github.com/parley-agents/parley/hub"
)

// rejectFor says what a claim that does not hold rejects a handoff for.
var rejectFor = map[hub.Code]hub.RejectReason{
	hub.CodeInvalid:      hub.RejectSchemaInvalid,
	hub.CodeNotFound:     hub.RejectMissingArtifact,
	hub.CodeConflict:     hub.RejectMissingArtifact,
	hub.CodeHashMismatch: hub.RejectHashMismatch,
	hub.CodePolicy:       hub.RejectPolicyViolation,
	hub.CodeTooLarge:     hub.RejectMissingArtifact,
}

// inWords puts a finding into the words of a handoff.
func inWords(c Check, what string) hub.Check {
	out := hub.Check{What: what, Result: hub.Verdict(c.Result), Detail: c.Detail}
	if c.Result == Failed {
		out.Reason = rejectFor[c.Code]
	}
	return out
}

// Artifact looks at what a handoff refers to: a file by its path, a branch in
// the worktree that the handoff names. Nothing else can be looked at.
func (in *Inspector) Artifact(ctx context.Context, ref hub.ArtifactRef, worktree string) hub.Check {
	what := ref.Type + " " + ref.Path
	switch ref.Type {
	case "file":
		c := in.File(ctx, FileClaim{Path: ref.Path, SHA256: ref.SHA256, Size: ref.SizeBytes})
		if c.Code == hub.CodeTooLarge {
			c.Result = Failed // it is under a root, and was not shown to be what is claimed
		}
		return inWords(c, what)
	case "branch":
		if worktree == "" {
			return hub.Check{What: what, Result: hub.CheckUnverifiable, Detail: "no worktree_path says where to look for it"}
		}
		checks := in.Repository(ctx, RepositoryClaim{Path: worktree, Branch: ref.Path, Commit: ref.Version})
		for _, c := range checks {
			if c.Result != Verified {
				return inWords(c, what)
			}
		}
		return inWords(checks[len(checks)-1], what)
	}
	return inWords(Reference(ref.Type), what)
}

// Commit looks for a commit in the repository of a working tree.
func (in *Inspector) Commit(ctx context.Context, worktree, commit string) hub.Check {
	checks := in.Repository(ctx, RepositoryClaim{Path: worktree, Commit: commit})
	return inWords(checks[len(checks)-1], "commit "+commit)
}

// Worktree looks at a working tree and at the branch that it should have.
func (in *Inspector) Worktree(ctx context.Context, path, branch string) []hub.Check {
	var out []hub.Check
	for _, c := range in.Repository(ctx, RepositoryClaim{Worktree: path, Branch: branch}) {
		what := c.What + " " + path
		if c.What == WhatClean {
			what = "files in " + path // whether they differ from the commit is stated, not claimed
		}
		out = append(out, inWords(c, what))
	}
	return out
}
