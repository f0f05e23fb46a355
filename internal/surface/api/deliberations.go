package api

import (
	"context"
	"encoding/json"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/service/deliberation"
	"github.com/parley-agents/parley/internal/service/mailroom"
)

// A QueryAnswer is a page of messages, or one negotiation or disagreement.
type QueryAnswer struct {
	*mailroom.Listing
	Talk *deliberation.Report
}

// MarshalJSON writes whichever is there.
func (q QueryAnswer) MarshalJSON() ([]byte, error) {
	if q.Talk != nil {
		return json.Marshal(q.Talk)
	}
	return json.Marshal(q.Listing)
}

// UnmarshalJSON reads either.
func (q *QueryAnswer) UnmarshalJSON(b []byte) error {
	var talk struct {
		Turns json.RawMessage `json:"turns"`
	}
	if err := json.Unmarshal(b, &talk); err != nil {
		return err
	}
	if talk.Turns != nil {
		q.Talk = new(deliberation.Report)
		return json.Unmarshal(b, q.Talk)
	}
	q.Listing = new(mailroom.Listing)
	return json.Unmarshal(b, q.Listing)
}

// talk shows the negotiation or disagreement with an id, which must be of that kind.
func (s *Services) talk(ctx context.Context, a hub.Caller, kind hub.DeliberationKind, id string) (QueryAnswer, error) {
	id, err := s.Mail.ResolveThread(ctx, "acp/query", a, id)
	if err != nil {
		return QueryAnswer{}, err
	}
	r, err := s.Talks.Show(ctx, a, id)
	if err != nil {
		return QueryAnswer{}, err
	}
	if r.Kind != kind {
		return QueryAnswer{}, hub.Errorf(hub.CodeNotFound, "acp/query", "%s is a %s, not a %s", id, r.Kind, kind)
	}
	r.Unread, r.Capabilities, r.Warnings = s.standing(ctx, a)
	return QueryAnswer{Talk: &r}, nil
}

// TalkListParams choose negotiations or disagreements.
type TalkListParams struct {
	Kind   hub.DeliberationKind `json:"kind,omitempty"`
	Open   bool                 `json:"open,omitempty"`
	Cursor string               `json:"cursor,omitempty"`
	Limit  hub.Count            `json:"limit,omitzero"`
}

func talkList(ctx context.Context, s *Services, a hub.Caller, p TalkListParams) (deliberation.Listing, error) {
	return s.Talks.List(ctx, a, hub.DeliberationQuery{Kind: p.Kind, Open: p.Open, Cursor: p.Cursor, Limit: int(p.Limit)})
}

// DecideParams are a decision about a thread.
type DecideParams struct {
	Thread   string `json:"thread_id"`
	Decision string `json:"decision"` // accept or decline for a negotiation, else the words of the decision
	Because  string `json:"because"`
}

func decideTalk(ctx context.Context, s *Services, a hub.Caller, p DecideParams) (deliberation.Report, error) {
	thread, err := s.Mail.ResolveThread(ctx, "parley/decide", a, p.Thread)
	if err != nil {
		return deliberation.Report{}, err
	}
	return s.Talks.Decide(ctx, a, thread, p.Decision, p.Because)
}

// DecisionListParams choose decisions.
type DecisionListParams struct {
	Team   string    `json:"team,omitempty"`
	Cursor string    `json:"cursor,omitempty"`
	Limit  hub.Count `json:"limit,omitzero"`
}

// A DecisionList is a page of decisions, newest first.
type DecisionList struct {
	Decisions []hub.Decision `json:"decisions"`
}

func decisionList(ctx context.Context, s *Services, a hub.Caller, p DecisionListParams) (DecisionList, error) {
	all, err := s.Talks.Decisions(ctx, a, hub.DecisionQuery{Team: p.Team, Cursor: p.Cursor, Limit: int(p.Limit)})
	return DecisionList{all}, err
}
