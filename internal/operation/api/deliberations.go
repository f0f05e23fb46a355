package api

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/ground/strictjson"
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
	id, err := s.Talks.Resolve(ctx, a, id)
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
	r.ShortIDs, err = s.Mail.ShortIDs(ctx, r.Turns, r.ID)
	return QueryAnswer{Talk: &r}, err
}

// TalkListParams choose negotiations or disagreements.
type TalkListParams struct {
	Kind   hub.DeliberationKind `json:"kind,omitempty"`
	Open   bool                 `json:"open,omitempty"`
	Cursor string               `json:"cursor,omitempty"`
	Limit  strictjson.Count     `json:"limit,omitzero"`
}

func talkList(ctx context.Context, s *Services, a hub.Caller, p TalkListParams) (deliberation.Listing, error) {
	cursor, err := s.Talks.Resolve(ctx, a, p.Cursor)
	if err != nil {
		return deliberation.Listing{}, err
	}
	out, err := s.Talks.List(ctx, a, hub.DeliberationQuery{Kind: p.Kind, Open: p.Open, Cursor: cursor, Limit: int(p.Limit)})
	if err != nil {
		return out, err
	}
	var ids []string
	for _, d := range out.Deliberations {
		ids = append(ids, d.ID)
	}
	out.ShortIDs, err = s.Mail.ShortIDs(ctx, nil, ids...)
	return out, err
}

// DecideParams are a decision about a thread.
type DecideParams struct {
	Thread   string `json:"thread_id"`
	Decision string `json:"decision"` // accept or decline for a negotiation, else the words of the decision
	Because  string `json:"because"`
}

func decideTalk(ctx context.Context, s *Services, a hub.Caller, p DecideParams) (deliberation.Report, error) {
	thread, err := s.Talks.Resolve(ctx, a, p.Thread)
	if err != nil {
		return deliberation.Report{}, err
	}
	r, err := s.Talks.Decide(ctx, a, thread, p.Decision, p.Because)
	if err == nil {
		r.ShortIDs, err = s.Mail.ShortIDs(ctx, r.Turns, r.ID)
	}
	return r, err
}

// decideAnswer decides the thread of the message that an agent answers. The text of the
// answer is the reason.
func (s *Services) decideAnswer(ctx context.Context, a hub.Caller, p SendParams) (mailroom.Receipt, error) {
	const op = "acp/respond"
	if p.ReplyTo == "" {
		return mailroom.Receipt{}, hub.Errorf(hub.CodeInvalid, op, "reply_to is required").WithHint("give the id of the message that asks you to decide")
	}
	if p.Type != "" || len(p.Payload) > 0 || p.Text == "" {
		return mailroom.Receipt{}, hub.Errorf(hub.CodeInvalid, op, "a decision needs decision and text, without type or payload").WithHint("give the reason in text")
	}
	r, err := decideTalk(ctx, s, a, DecideParams{Thread: string(p.ReplyTo), Decision: p.Decision, Because: p.Text})
	if err != nil {
		return mailroom.Receipt{}, err
	}
	out := mailroom.Receipt{Type: hub.TypeSystemAck, Status: hub.MessageStatus(r.State), ThreadID: r.ID, Deliveries: []mailroom.Forecast{}}
	out.Decided = fmt.Sprintf("The %s %s is %s", r.Kind, mailroom.ShortIDs(r.ShortIDs).Of(r.ID), r.State)
	if r.Task != "" {
		out.Decided += fmt.Sprintf(", as the task %s of the team %s", r.Task, r.Team)
	}
	out.Unread, out.Capabilities, out.Warnings = s.standing(ctx, a)
	return out, nil
}

// DecisionListParams choose decisions.
type DecisionListParams struct {
	Team   string           `json:"team,omitempty"`
	Cursor string           `json:"cursor,omitempty"`
	Limit  strictjson.Count `json:"limit,omitzero"`
}

// A DecisionList is a page of decisions, newest first.
type DecisionList struct {
	Decisions []hub.Decision `json:"decisions"`
}

func decisionList(ctx context.Context, s *Services, a hub.Caller, p DecisionListParams) (DecisionList, error) {
	all, err := s.Talks.Decisions(ctx, a, hub.DecisionQuery{Team: p.Team, Cursor: p.Cursor, Limit: int(p.Limit)})
	return DecisionList{all}, err
}
