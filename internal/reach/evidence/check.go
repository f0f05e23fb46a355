package evidence

import (
	"cmp"
	"context"
	"fmt"

	"github.com/parley-agents/parley/hub"
)

// The parts of claims, as What in a Check.
const (
	WhatFile       = "file"
	WhatRepository = "repository"
	WhatBranch     = "branch"
	WhatCommit     = "commit"
	WhatWorktree   = "worktree"
	WhatClean      = "clean"
)

// A Check is the answer to one part of a claim. Verified: it holds. Failed: the facts
// are others. Unverifiable: the facts could not be read; it may hold.
type Check struct {
	hub.Check
	Code hub.Code // why the claim is not verified; empty if it is
}

// A Claim is a statement about files: a FileClaim or a RepositoryClaim.
type Claim interface {
	// parts returns the parts of the claim in the order of their checks, and a
	// function that closes the things that the checks opened.
	parts(in *Inspector) (parts []part, end func())
}

// A part is one fact of a claim. check returns the fact in words, or why the claim
// does not hold.
type part struct {
	what  string
	check func(context.Context) (found string, err error)

	// compared returns the comparison that check made; nil if the part compares no files.
	compared func() hub.ComparedFiles
}

// Check checks a claim and answers each part of it. The first part is the thing that
// the others are about: if that fails, they fail for the same reason. Check waits for a
// free slot and ends when the time is over.
func (in *Inspector) Check(ctx context.Context, c Claim) []Check {
	ctx, release, failed := in.begin(ctx)
	defer release()
	in, err := in.current(ctx)
	failed = cmp.Or(failed, err)
	parts, end := c.parts(in)
	defer end()
	var checks []Check
	for i, p := range parts {
		found, err := "", failed
		if err == nil {
			found, err = p.check(ctx)
			err = in.late(ctx, err)
		}
		if i == 0 {
			failed = err
		}
		if err != nil {
			checks = append(checks, refuted(p.what, err))
			continue
		}
		holds := hub.Check{What: p.what, Kind: kindOf(p.what), Result: hub.CheckVerified, Detail: found}
		if p.compared != nil {
			holds.Compared = p.compared()
		}
		checks = append(checks, Check{Check: holds})
	}
	return checks
}

// kindOf returns the kind of the thing that a part of a claim is about.
func kindOf(what string) hub.CheckKind {
	if what == WhatClean {
		return hub.CheckKindFiles
	}
	return hub.CheckKind(what)
}

// refusals is the result for each reason that a claim is not verified and, if that is
// a failure, the reason for which it rejects a handoff. Any other reason is trouble of
// the hub's own, which proves nothing.
var refusals = map[hub.Code]struct {
	result hub.Verdict
	reject hub.RejectReason
}{
	hub.CodeInvalid:      {hub.CheckFailed, hub.RejectSchemaInvalid},   // the claim itself cannot be true
	hub.CodeHashMismatch: {hub.CheckFailed, hub.RejectHashMismatch},    // the content is another
	hub.CodeNotFound:     {hub.CheckFailed, hub.RejectMissingArtifact}, // there is no such file
	hub.CodeConflict:     {hub.CheckFailed, hub.RejectMissingArtifact}, // something else is there
	hub.CodePolicy:       {hub.CheckFailed, hub.RejectPolicyViolation}, // a link under a root that leads out of it
	hub.CodeDenied:       {hub.CheckUnverifiable, ""},                  // not under a root
	hub.CodeTooLarge:     {hub.CheckUnverifiable, ""},                  // over a limit
	hub.CodeNotEnabled:   {hub.CheckUnverifiable, ""},                  // of a kind that is not checked
	hub.CodeDegraded:     {hub.CheckUnverifiable, ""},                  // cannot be read, or not in time
}

// refuted returns the check of a part that could not be verified because of err.
func refuted(what string, err error) Check {
	code := hub.CodeOf(err)
	if _, ok := refusals[code]; !ok {
		code = hub.CodeDegraded
	}
	r := refusals[code]
	return Check{hub.Check{What: what, Kind: kindOf(what), Result: r.result, Reason: r.reject, Detail: err.Error()}, code}
}

// Artifact checks an artifact of a handoff: a file by its path, a branch in the
// worktree that the handoff names. Any other artifact, such as a web address or a
// ticket, is unverifiable, because nothing is fetched.
func (in *Inspector) Artifact(ctx context.Context, ref hub.ArtifactRef, worktree string) hub.Check {
	c := Check{Check: hub.Check{Result: hub.CheckUnverifiable}}
	switch {
	case ref.Type == "file":
		c = in.Check(ctx, FileClaim{Path: ref.Path, SHA256: ref.SHA256, Size: ref.SizeBytes})[0]
		if c.Code == hub.CodeTooLarge { // it is under a root, and not shown to be the claimed one
			c.Result, c.Reason = hub.CheckFailed, hub.RejectMissingArtifact
		}
	case ref.Type == "branch" && worktree == "":
		c.Detail = "no worktree_path names the repository of the branch"
	case ref.Type == "branch":
		for _, c = range in.Check(ctx, RepositoryClaim{Path: worktree, Branch: ref.Path, Commit: ref.Version}) {
			if c.Result != hub.CheckVerified {
				break
			}
		}
	default:
		c.Detail = fmt.Sprintf("a reference of type %s is not checked: only files and repositories on this machine are", show(ref.Type))
	}
	c.What, c.Kind = ref.Type+" "+ref.Path, hub.CheckKind(ref.Type)
	return c.Check
}

// Commit checks that the repository of a working tree has a commit.
func (in *Inspector) Commit(ctx context.Context, worktree, commit string) hub.Check {
	checks := in.Check(ctx, RepositoryClaim{Path: worktree, Commit: commit})
	c := checks[len(checks)-1].Check
	c.What, c.Kind = "commit "+commit, hub.CheckKindCommit
	return c
}

// Worktree checks a working tree and the branch that it should have.
func (in *Inspector) Worktree(ctx context.Context, path, branch string) []hub.Check {
	var out []hub.Check
	for _, c := range in.Check(ctx, RepositoryClaim{Path: path, Branch: branch, Worktree: true}) {
		if c.What == WhatClean {
			c.What = "files in" // the difference from the commit is stated, not claimed
		}
		c.What += " " + path
		out = append(out, c.Check)
	}
	return out
}
