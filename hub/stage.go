package hub

import "encoding/json"

// A ChecksWord sums up the checks of a handoff or task.
type ChecksWord string

// The words. ChecksFailed means that the work went back to its owner.
const (
	ChecksNone    ChecksWord = "none"
	ChecksRunning ChecksWord = "running"
	ChecksPassed  ChecksWord = "passed"
	ChecksFailed  ChecksWord = "failed"
)

// A ReviewWord sums up the review of a handoff or task.
type ReviewWord string

// The words.
const (
	ReviewNone     ReviewWord = "none"
	ReviewWaiting  ReviewWord = "waiting"
	ReviewApproved ReviewWord = "approved"
	ReviewChanges  ReviewWord = "changes" // the reviewer wants some; the work went back to its owner
)

// A LandingWord sums up the way of a commit into its target branch.
type LandingWord string

// The words.
const (
	LandingNone     LandingWord = "none"
	LandingQueued   LandingWord = "queued"
	LandingTrying   LandingWord = "trying"
	LandingLanded   LandingWord = "landed"
	LandingReturned LandingWord = "returned" // the work went back to its owner
)

// A Stage is how far work has come, in one word for people.
type Stage string

// The stages.
const (
	StageClaimed  Stage = "claimed"  // the owner says that it is done
	StageThere    Stage = "there"    // the hub verified that the work is there
	StagePasses   Stage = "passes"   // and the checks passed on its commit
	StageReviewed Stage = "reviewed" // and a reviewer approved it
	StageLanded   Stage = "landed"   // it is in the target branch
)

// StageOf returns the stage of work. Work that is in the target branch has landed, whatever else is
// known about it. Before that, work that is not proven is only claimed, and failed or running
// checks keep a reviewed commit from being more than there.
func StageOf(p Proof, c ChecksWord, r ReviewWord, l LandingWord) Stage {
	switch {
	case l == LandingLanded:
		return StageLanded
	case p != ProofVerified:
		return StageClaimed
	case c == ChecksFailed || c == ChecksRunning:
		return StageThere
	case r == ReviewApproved:
		return StageReviewed
	case c == ChecksPassed:
		return StagePasses
	}
	return StageThere
}

// A Progress is how far the commit of a handoff or of a task of a team has come: its checks, its
// review and its landing. It begins with a claim of the owner.
type Progress struct {
	Subject string `json:"subject"` // the id of the handoff or the task
	Repository
	Worktree string `json:"worktree,omitempty"`
	Commit   string `json:"commit,omitempty"`
	Tree     string `json:"tree,omitempty"`
	Base     string `json:"base,omitempty"` // the commit that was checked out when the task was accepted
	Proof    Proof  `json:"proof"`          // of the claim

	Checks  ChecksWord      `json:"checks"`
	Names   []string        `json:"names,omitempty"`   // of the checks that were asked for
	Results []CheckResultID `json:"results,omitempty"` // one for each, in the same order
	Review  ReviewWord      `json:"review"`
	Landing LandingWord     `json:"landing"`
	Landed  string          `json:"landed,omitempty"` // the commit by which it came into the target branch

	Reason    string          `json:"reason,omitempty"`    // why the work went back to its owner
	RefusedAt Time            `json:"refused_at,omitzero"` // when a completion was refused for Reason; unset again by the next one that is not
	Actor     AgentID         `json:"actor,omitempty"`     // the author of the claim
	Claim     json.RawMessage `json:"claim,omitempty"`     // what the service stores when the checks pass; of a claim whose checks run
	UpdatedAt Time            `json:"updated_at,omitzero"`
	Revision  int64           `json:"-"` // of the row; 0 for one that is not stored
}

// NewProgress returns the progress of a subject without checks, review and landing.
func NewProgress(subject string) Progress {
	return Progress{Subject: subject, Proof: ProofNone, Checks: ChecksNone, Review: ReviewNone, Landing: LandingNone}
}

// At returns p for the commit of a plan. Reviews and landings of another commit do not count.
func (p Progress) At(plan CheckPlan) Progress {
	if p.Commit != plan.Commit {
		p.Review = ReviewNone
		p.Landing = LandingNone
		p.Landed = ""
	}
	p.Repository = plan.Repository
	p.Worktree = plan.Worktree
	p.Commit = plan.Commit
	p.Tree = plan.Tree
	p.Base = plan.Base
	return p
}

// Refuse notes that a completion was refused.
func (p *Progress) Refuse(reason string, now Time) {
	p.Reason = reason
	p.RefusedAt = now
	p.UpdatedAt = now
}

// Admit notes that a completion was not refused.
func (p *Progress) Admit(now Time) {
	p.Reason = ""
	p.RefusedAt = Time{}
	p.UpdatedAt = now
}

// Stage returns the stage of a commit whose work has a proof.
func (p Progress) Stage(proof Proof) Stage { return StageOf(proof, p.Checks, p.Review, p.Landing) }

// LandingText returns the word of the landing, with the commit of one that landed.
func (p Progress) LandingText() string {
	if p.Landing == LandingLanded && p.Landed != "" {
		return string(p.Landing) + " " + p.Landed
	}
	return string(p.Landing)
}
