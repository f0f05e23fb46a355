package evidence

import (
	"context"
	"fmt"

	"github.com/parley-agents/parley/hub"
)

// What a Check can be about.
const (
	WhatFile       = "file"
	WhatReference  = "reference"
	WhatRepository = "repository"
	WhatBranch     = "branch"
	WhatCommit     = "commit"
	WhatWorktree   = "worktree"
	WhatClean      = "clean"
)

// A Check is the answer to one claim. Verified: the claim holds. Failed: the facts
// are others. Unverifiable: the facts could not be read; the claim may hold.
type Check struct {
	hub.Check
	Code hub.Code // why the claim is not verified; empty if it is
}

// A Claim is a statement about files: a FileClaim, a RepositoryClaim or a
// ReferenceClaim.
type Claim interface {
	// check answers each part of the claim with a Check, at least one.
	check(ctx context.Context, in *Inspector) []Check
	// refuted answers each part with the same reason.
	refuted(err error) []Check
}

// Check checks a claim. It waits for a free slot and ends when the time is over.
func (in *Inspector) Check(ctx context.Context, c Claim) []Check {
	ctx, end, err := in.begin(ctx)
	if err != nil {
		return c.refuted(err)
	}
	defer end()
	return c.check(ctx, in)
}

// results is the result for each reason. Any other reason is trouble of the hub's
// own, which proves nothing.
var results = map[hub.Code]hub.Verdict{
	hub.CodeInvalid:      hub.CheckFailed,       // the claim itself cannot be true
	hub.CodeHashMismatch: hub.CheckFailed,       // the content is another
	hub.CodeNotFound:     hub.CheckFailed,       // there is no such file
	hub.CodeConflict:     hub.CheckFailed,       // something else is there
	hub.CodePolicy:       hub.CheckFailed,       // a link under a root that leads out of it
	hub.CodeDenied:       hub.CheckUnverifiable, // not under a root
	hub.CodeTooLarge:     hub.CheckUnverifiable, // over a limit
	hub.CodeNotEnabled:   hub.CheckUnverifiable, // of a kind that is not checked
	hub.CodeDegraded:     hub.CheckUnverifiable, // cannot be read, or not in time
}

// rejectFor is the reason for which a failed check rejects a handoff.
var rejectFor = map[hub.Code]hub.RejectReason{
	hub.CodeInvalid:      hub.RejectSchemaInvalid,
	hub.CodeNotFound:     hub.RejectMissingArtifact,
	hub.CodeConflict:     hub.RejectMissingArtifact,
	hub.CodeHashMismatch: hub.RejectHashMismatch,
	hub.CodePolicy:       hub.RejectPolicyViolation,
	hub.CodeTooLarge:     hub.RejectMissingArtifact,
}

// verified returns the check of a claim that holds.
func verified(what, format string, args ...any) Check {
	return Check{Check: hub.Check{What: what, Result: hub.CheckVerified, Detail: fmt.Sprintf(format, args...)}}
}

// refuted returns the check of a claim that could not be verified because of err.
func refuted(what string, err error) Check {
	code := hub.CodeOf(err)
	result, ok := results[code]
	if !ok {
		code, result = hub.CodeDegraded, hub.CheckUnverifiable
	}
	c := Check{hub.Check{What: what, Result: result, Detail: err.Error()}, code}
	if result == hub.CheckFailed {
		c.Reason = rejectFor[code]
	}
	return c
}

// A ReferenceClaim is the type of a reference that is neither a path nor a branch: a
// web address, a pull request, a ticket. Nothing is fetched, so it is always
// unverifiable.
type ReferenceClaim string

func (c ReferenceClaim) check(context.Context, *Inspector) []Check {
	return c.refuted(hub.Errorf(hub.CodeNotEnabled, "evidence.Check",
		"a reference of type %s is not checked: only files and repositories on this machine are", show(string(c))))
}

func (c ReferenceClaim) refuted(err error) []Check { return []Check{refuted(WhatReference, err)} }

// Artifact checks an artifact of a handoff: a file by its path, a branch in the
// worktree that the handoff names. Any other artifact is unverifiable.
func (in *Inspector) Artifact(ctx context.Context, ref hub.ArtifactRef, worktree string) hub.Check {
	var c Check
	switch {
	case ref.Type == "file":
		c = in.Check(ctx, FileClaim{Path: ref.Path, SHA256: ref.SHA256, Size: ref.SizeBytes})[0]
		if c.Code == hub.CodeTooLarge { // it is under a root, and not shown to be the claimed one
			c.Result, c.Reason = hub.CheckFailed, rejectFor[c.Code]
		}
	case ref.Type == "branch" && worktree == "":
		c.Result, c.Detail = hub.CheckUnverifiable, "no worktree_path names the repository of the branch"
	case ref.Type == "branch":
		for _, c = range in.Check(ctx, RepositoryClaim{Path: worktree, Branch: ref.Path, Commit: ref.Version}) {
			if c.Result != hub.CheckVerified {
				break
			}
		}
	default:
		c = in.Check(ctx, ReferenceClaim(ref.Type))[0]
	}
	c.What = ref.Type + " " + ref.Path
	return c.Check
}

// Commit checks that the repository of a working tree has a commit.
func (in *Inspector) Commit(ctx context.Context, worktree, commit string) hub.Check {
	checks := in.Check(ctx, RepositoryClaim{Path: worktree, Commit: commit})
	c := checks[len(checks)-1].Check
	c.What = "commit " + commit
	return c
}

// Worktree checks a working tree and the branch that it should have.
func (in *Inspector) Worktree(ctx context.Context, path, branch string) []hub.Check {
	var out []hub.Check
	for _, c := range in.Check(ctx, RepositoryClaim{Worktree: path, Branch: branch}) {
		if c.What == WhatClean {
			c.What = "files in" // the difference from the commit is stated, not claimed
		}
		c.What += " " + path
		out = append(out, c.Check)
	}
	return out
}
