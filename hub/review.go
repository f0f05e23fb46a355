package hub

import (
	"slices"
	"strconv"
	"strings"
)

// A ReviewState says how far a review has come.
type ReviewState string

// The states of a review.
const (
	ReviewStateWaiting  ReviewState = "waiting" // for the reviewer
	ReviewStateApproved ReviewState = "approved"
	ReviewStateChanges  ReviewState = "changes"  // are wanted
	ReviewStateReplaced ReviewState = "replaced" // by the review of a later commit, or its change does not land
)

// reviewNext is the whole state machine. A state without an entry is final.
var reviewNext = map[ReviewState][]ReviewState{
	ReviewStateWaiting:  {ReviewStateWaiting, ReviewStateApproved, ReviewStateChanges, ReviewStateReplaced},
	ReviewStateApproved: {ReviewStateReplaced},
	ReviewStateChanges:  {ReviewStateReplaced},
}

// Over reports whether a review in the state does not wait any more.
func (s ReviewState) Over() bool { return s != ReviewStateWaiting }

// The answers of a reviewer.
const (
	VerdictApprove = "approve"
	VerdictChanges = "changes"
)

// Words for reviewers beside the names of agents.
const (
	ReviewerNone          = "none"
	ReviewerOtherVendor   = "other-vendor" // an agent whose CLI is of another vendor than that of each author
	ReviewerRolePrefix    = "role:"        // agents with a role, such as role:reviewer
	ReviewerAbilityPrefix = "@"            // agents with an ability, such as @security
)

// ValidReviewer reports whether who names a reviewer: an agent, role:ROLE, @ABILITY, other-vendor,
// operator, or none.
func ValidReviewer(who string) bool {
	if ability, ok := strings.CutPrefix(who, ReviewerAbilityPrefix); ok {
		return ability != "" && len(ability) <= 64
	}
	if role, ok := strings.CutPrefix(who, ReviewerRolePrefix); ok {
		return Role(role).Known()
	}
	return AgentID(who).Valid()
}

// A ReviewID names a review: v and its number, such as v4.
type ReviewID string

// NewReviewID returns the id of the review with a number.
func NewReviewID(n int64) ReviewID { return ReviewID("v" + strconv.FormatInt(n, 10)) }

// Number returns the number of a review; 0 for a text that is no id of one.
func (id ReviewID) Number() int64 { return numbered("v", string(id)) }

// A ReviewFinding is one remark of a reviewer about a line of the change.
type ReviewFinding struct {
	Path string `json:"path"`
	Line int    `json:"line"` // in the new text; 0 for the whole file
	Text string `json:"text"`
}

// A Review is the question whether one commit is good enough to land, and its answer.
type Review struct {
	ID         ReviewID  `json:"id"` // given by the store
	Handoff    HandoffID `json:"handoff,omitempty"`
	Entry      LandingID `json:"entry,omitempty"` // of a change that no handoff has
	Machine    string    `json:"machine,omitempty"`
	Repository string    `json:"repository"`
	Commit     string    `json:"commit"`
	Base       string    `json:"base,omitempty"`     // the difference begins here
	Approved   string    `json:"approved,omitempty"` // the commit that was approved before; then Base is that commit
	Authors    []AgentID `json:"authors"`            // agents that made a part of the change, and may not review it

	Reviewer string          `json:"reviewer"`        // an agent, role:ROLE, @ABILITY, other-vendor or operator
	For      string          `json:"for,omitempty"`   // the reviewer that was wanted, if the operator is asked instead
	Asked    []AgentID       `json:"asked,omitempty"` // the agents that got the question
	State    ReviewState     `json:"state"`
	Verdict  string          `json:"verdict"` // "" while it waits
	By       AgentID         `json:"by,omitempty"`
	Findings []ReviewFinding `json:"findings"`

	Criteria []string `json:"criteria,omitempty"` // of the package, for a reviewer who gets no other word about the work

	TakesBack string `json:"takes_back,omitempty"` // the files of others that the change takes back; an approval is the word for that

	Judged []JudgeFinding `json:"judged,omitempty"` // what the change does to the things that judge it; an approval is the word for that

	// Difference is the SHA-256 of the artifact with the unified diff; Parts are those of further
	// artifacts, of a difference that does not fit into one. Size is their length in bytes.
	Difference string   `json:"difference,omitempty"`
	Parts      []string `json:"parts,omitempty"`
	Size       int64    `json:"size_bytes,omitempty"`

	// Fetched has the parts that each agent fetched whole. An agent approves what it fetched.
	Fetched map[AgentID][]string `json:"fetched,omitempty"`
	Note    string               `json:"note,omitempty"` // what the reviewer should know, such as the results of checks

	AskedAt    Time  `json:"asked_at,omitzero"`
	RemindedAt Time  `json:"reminded_at,omitzero"`
	ToldAt     Time  `json:"told_at,omitzero"` // when the operator heard of the silence
	GivenAt    Time  `json:"given_at,omitzero"`
	Revision   int64 `json:"-"` // of the row; 0 for one that is not stored
}

// Digest returns the SHA-256, in hexadecimal, of everything in r but its revision.
func (r Review) Digest() string { return wholeDigest("review", r) }

// Advance returns r in another state. It reports CodeConflict when the state machine has no such
// move, and then returns r unchanged.
func (r Review) Advance(next ReviewState) (Review, error) {
	if !slices.Contains(reviewNext[r.State], next) {
		return r, Errorf(CodeConflict, "hub.Review", "review %s is %s and cannot become %s", r.ID, r.State, next)
	}
	r.State = next
	return r, nil
}

// Answers reports whether the review is the one that a reviewer was wanted for. The operator's word
// counts for every reviewer.
func (r Review) Answers(who string) bool {
	return r.Reviewer == who || r.For == who || r.By == Operator
}

// Unfetched returns the parts of the difference that an agent did not fetch whole.
func (r Review) Unfetched(agent AgentID) (out []string) {
	for _, part := range append([]string{r.Difference}, r.Parts...) {
		if part != "" && !slices.Contains(r.Fetched[agent], part) {
			out = append(out, part)
		}
	}
	return out
}

// Subject names the change that the review is about: the handoff or the entry.
func (r Review) Subject() string {
	if r.Handoff != "" {
		return string(r.Handoff)
	}
	return string(r.Entry)
}

// A ReviewQuery chooses reviews. Empty members do not restrict.
type ReviewQuery struct {
	Handoff HandoffID
	Entry   LandingID
	States  []ReviewState
	Cursor  ReviewID // the last one of the page before
	Limit   int      // how many at most; positive
}
