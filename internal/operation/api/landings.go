package api

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/ground/strictjson"
	"github.com/parley-agents/parley/internal/service/landing"
)

// LandingParams are the parameters of parley/landing/*. To set: members that are absent leave the
// policy as it is, and null is the default.
type LandingParams struct {
	Repo   string           `json:"repo"`             // folder in the repository
	Into   string           `json:"into,omitempty"`   // the target branch; to set: required unless there is one policy
	Checks []string         `json:"checks,omitempty"` // names
	Review string           `json:"review,omitempty"` // an agent, role:ROLE, @ABILITY, other-vendor, operator or none
	By     hub.LandingBy    `json:"by,omitempty"`     // auto or operator
	Batch  strictjson.Count `json:"batch,omitzero"`

	NoChecks         *bool `json:"no_checks,omitempty"`         // changes may land unchecked
	Repeat           *int  `json:"repeat,omitempty"`            // times that a failed check is run again
	UnconcernedLands *bool `json:"unconcerned_lands,omitempty"` // a change that concerns no check lands
	NoContracts      *bool `json:"no_contracts,omitempty"`      // contracts are not asked
	Reset            bool  `json:"reset,omitempty"`             // begin with the defaults

	defaults []string // members that were null
}

// UnmarshalJSON reads the parameters and notes the members that are null.
func (p *LandingParams) UnmarshalJSON(raw []byte) error {
	type plain LandingParams
	if err := strictjson.Decode(raw, (*plain)(p)); err != nil {
		return err
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(raw, &members); err != nil {
		return err
	}
	for name, value := range members {
		if string(value) == "null" {
			p.defaults = append(p.defaults, name)
		}
	}
	slices.Sort(p.defaults)
	return nil
}

// A LandingAnswer is a landing policy, and what a call changed in it.
type LandingAnswer struct {
	Landing landing.View `json:"landing"`
	Changed []string     `json:"changed,omitempty"` // members
}

func landingSet(ctx context.Context, s *Services, a hub.Caller, p LandingParams) (LandingAnswer, error) {
	got, changed, err := s.Landings.Set(ctx, a, landing.Setting{
		Folder: p.Repo, Into: p.Into, Checks: p.Checks, NoChecks: p.NoChecks, Review: p.Review, By: p.By, Batch: int(p.Batch), Repeat: p.Repeat,
		UnconcernedLands: p.UnconcernedLands, NoContracts: p.NoContracts, Reset: p.Reset, Default: p.defaults,
	})
	return LandingAnswer{got, changed}, err
}

func landingShow(ctx context.Context, s *Services, _ hub.Caller, p LandingParams) (LandingAnswer, error) {
	got, err := s.Landings.View(ctx, p.Repo, p.Into)
	return LandingAnswer{Landing: got}, err
}

// LandingPolicies are all landing policies of this machine.
type LandingPolicies struct {
	Landings []landing.View `json:"landings"`
}

func landingPolicies(ctx context.Context, s *Services, _ hub.Caller, _ None) (LandingPolicies, error) {
	got, err := s.Landings.Views(ctx)
	return LandingPolicies{got}, err
}

func landingOff(ctx context.Context, s *Services, a hub.Caller, p LandingParams) (LandingAnswer, error) {
	got, err := s.Landings.Off(ctx, a, p.Repo, p.Into)
	return LandingAnswer{Landing: landing.View{LandingPolicy: got, Required: []string{}, Open: []hub.OpenGate{}}}, err
}

// LandParams are the parameters of parley/landings/land.
type LandParams struct {
	Ref      string       `json:"ref"`                // a handoff, a task of a team, a branch or a commit
	Repo     string       `json:"repo,omitempty"`     // folder in the repository; not needed for a handoff and a task
	Into     string       `json:"into,omitempty"`     // the target branch, if several have a queue
	Priority hub.Priority `json:"priority,omitempty"` // of the operator alone
}

func land(ctx context.Context, s *Services, a hub.Caller, p LandParams) (landing.Listing, error) {
	const op = "parley/landings/land"
	q := landing.Request{Ref: p.Ref, Folder: p.Repo, Into: p.Into, Priority: p.Priority}
	isHandoff := hub.ShortID(p.Ref).Is(hub.ShortHandoff) || hub.HandoffID(p.Ref).Valid()
	if isHandoff {
		id, err := s.Handoffs.Resolve(ctx, op, a, hub.HandoffID(p.Ref))
		if err != nil {
			return landing.Listing{}, err
		}
		q.Handoff = id
	}
	isTask := hub.TaskID(p.Ref).Valid()
	if isTask {
		q.Task = hub.TaskID(p.Ref)
	}
	if !isHandoff && !isTask && p.Repo == "" {
		folder, err := s.folderOf(ctx, op, a.ID)
		if err != nil {
			return landing.Listing{}, hub.Errorf(hub.CodeInvalid, op, "a folder of the repository is required").WithHint("name it: {repo}")
		}
		q.Folder = folder
	}
	e, err := s.Landings.Land(ctx, a, q)
	return s.oneEntry(ctx, e, err)
}

// oneEntry returns an entry as a listing, with the head of its target.
func (s *Services) oneEntry(ctx context.Context, e hub.LandingEntry, err error) (landing.Listing, error) {
	if err != nil {
		return landing.Listing{Entries: []hub.LandingEntry{}}, err
	}
	return landing.Listing{Entries: []hub.LandingEntry{e}, Head: s.Landings.Head(ctx, e)}, nil
}

// LandingsParams are the parameters of parley/landings/list.
type LandingsParams struct {
	Repo   string           `json:"repo,omitempty"`
	Into   string           `json:"into,omitempty"`
	State  hub.LandingState `json:"state,omitempty"`
	Owner  hub.AgentID      `json:"owner,omitempty"`
	Cursor hub.LandingID    `json:"cursor,omitempty"`
	Limit  strictjson.Count `json:"limit,omitzero"`
}

func landingList(ctx context.Context, s *Services, _ hub.Caller, p LandingsParams) (landing.Listing, error) {
	return s.Landings.List(ctx, landing.Filter{Folder: p.Repo, Into: p.Into, State: p.State, Owner: p.Owner, Cursor: p.Cursor, Limit: int(p.Limit)})
}

// EntryParams name an entry of a landing queue.
type EntryParams struct {
	ID     hub.LandingID `json:"id"`
	Reason string        `json:"reason,omitempty"` // to cancel and to undo
}

func landingEntry(ctx context.Context, s *Services, a hub.Caller, p EntryParams) (landing.Detail, error) {
	return s.Landings.Show(ctx, a, p.ID)
}

// WaiveParams are the parameters of parley/landings/approve.
type WaiveParams struct {
	ID      hub.LandingID `json:"id"`
	Without string        `json:"without"` // the name of a check, checks, review or contracts
	Because string        `json:"because"`
}

func landingApprove(ctx context.Context, s *Services, a hub.Caller, p WaiveParams) (landing.Listing, error) {
	e, err := s.Landings.Waive(ctx, a, p.ID, p.Without, p.Because)
	return s.oneEntry(ctx, e, err)
}

func landingCancel(ctx context.Context, s *Services, a hub.Caller, p EntryParams) (landing.Listing, error) {
	e, err := s.Landings.Cancel(ctx, a, p.ID, p.Reason)
	return s.oneEntry(ctx, e, err)
}

func landingRetry(ctx context.Context, s *Services, a hub.Caller, p EntryParams) (landing.Listing, error) {
	e, err := s.Landings.Retry(ctx, a, p.ID)
	return s.oneEntry(ctx, e, err)
}

func landingUndo(ctx context.Context, s *Services, a hub.Caller, p EntryParams) (landing.Listing, error) {
	e, err := s.Landings.Undo(ctx, a, p.ID, p.Reason)
	return s.oneEntry(ctx, e, err)
}

// ReviewParams are the parameters of parley/landings/review.
type ReviewParams struct {
	ID       string              `json:"id"` // of a handoff, an entry or a review
	Verdict  string              `json:"verdict"`
	Findings []hub.ReviewFinding `json:"findings,omitempty"`
}

// A ReviewAnswer is a review.
type ReviewAnswer struct {
	Review hub.Review `json:"review"`
}

func reviewGive(ctx context.Context, s *Services, a hub.Caller, p ReviewParams) (ReviewAnswer, error) {
	if hub.ShortID(p.ID).Is(hub.ShortHandoff) {
		// A reviewer need not be a party of the handoff, so that the short id is read as it is.
		long, err := hub.Read(ctx, s.Store, func(r hub.Reader) (string, error) { return r.LongID(hub.ShortID(p.ID)) })
		switch {
		case err == nil:
			p.ID = long
		case hub.CodeOf(err) != hub.CodeNotFound: // the service refuses an id that is not known
			return ReviewAnswer{}, err
		}
	}
	got, err := s.Landings.Give(ctx, a, p.ID, landing.Answer{Verdict: p.Verdict, Findings: p.Findings})
	return ReviewAnswer{got}, err
}

// ReviewsParams are the parameters of parley/landings/reviews.
type ReviewsParams struct {
	All   bool             `json:"all,omitempty"` // also those that were answered
	Limit strictjson.Count `json:"limit,omitzero"`
}

// A ReviewList lists reviews, the newest first.
type ReviewList struct {
	Reviews []hub.Review `json:"reviews"`
}

func reviewList(ctx context.Context, s *Services, _ hub.Caller, p ReviewsParams) (ReviewList, error) {
	got, err := s.Landings.Reviews(ctx, p.All, int(p.Limit))
	return ReviewList{append([]hub.Review{}, got...)}, err
}
