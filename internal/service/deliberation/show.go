package deliberation

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/coord"
	"github.com/parley-agents/parley/internal/ground/text/plaintext"
)

// A Report is a deliberation with its messages and the possible moves of the caller.
type Report struct {
	hub.Deliberation
	Turns    []hub.Envelope         `json:"turns"`
	Possible []hub.MessageType      `json:"possible"`
	ShortIDs map[string]hub.ShortID `json:"short_ids,omitempty"` // of the thread and of the messages that the turns name
	Decides  bool                   `json:"you_decide,omitempty"`

	// In the answers of tools.
	Unread       int              `json:"unread"`
	Capabilities hub.Capabilities `json:"capabilities,omitempty"`
	Warnings     []string         `json:"warnings,omitempty"`
}

// A Listing is a page of deliberations.
type Listing struct {
	Deliberations []hub.Deliberation     `json:"deliberations"`
	ShortIDs      map[string]hub.ShortID `json:"short_ids,omitempty"` // of the threads
	Next          string                 `json:"next"`                // cursor for the page after this one, or ""
}

// visible returns a deliberation that the actor may see. To others it reports the same
// error as for one that does not exist.
func visible(r hub.Reader, op string, actor hub.Caller, id string) (hub.Deliberation, error) {
	d, err := r.Deliberation(id)
	isHidden := err == nil && !d.Concerns(actor.ID) && !actor.Audits()
	if isHidden || hub.CodeOf(err) == hub.CodeNotFound {
		return hub.Deliberation{}, hub.Errorf(hub.CodeNotFound, op, "no negotiation or disagreement %q that you can see", id)
	}
	return d, err
}

// Resolve returns the thread of the message with an id or a short id, if the actor may
// see the deliberation there, else the thread of that very name.
func (s *Service) Resolve(ctx context.Context, actor hub.Caller, id string) (string, error) {
	thread, err := hub.Read(ctx, s.store, func(r hub.Reader) (_ string, err error) {
		long := id
		if hub.ShortID(id).Is(hub.ShortMessage) {
			if long, err = r.LongID(hub.ShortID(id)); err != nil {
				return "", err
			}
		}
		msg, err := r.Message(hub.EnvelopeID(long))
		if err != nil {
			return "", err
		}
		d, err := visible(r, "deliberation.Resolve", actor, msg.ThreadID)
		return d.ID, err
	})
	switch {
	case hub.CodeOf(err) == hub.CodeNotFound:
		return id, nil
	case err != nil:
		return "", fmt.Errorf("deliberation: resolve: %w", err)
	}
	return thread, nil
}

// Show returns a deliberation to those who take part, those who decide it, auditors
// and the operator.
func (s *Service) Show(ctx context.Context, actor hub.Caller, id string) (Report, error) {
	var out Report
	err := s.store.View(ctx, func(r hub.Reader) (err error) {
		if out.Deliberation, err = visible(r, "deliberation.Show", actor, id); err != nil {
			return err
		}
		turns, err := turnsOf(r, id)
		out.Turns = readable(turns, out.Deliberation, actor)
		out.Deliberation = out.Deliberation.For(actor)
		return err
	})
	if err != nil {
		return Report{}, fmt.Errorf("deliberation: show: %w", err)
	}

	d := out.Deliberation
	decides := actor.IsOperator() || slices.Contains(d.Deciders, actor.ID)
	out.Decides = d.State == hub.TalkEscalated && decides
	out.Possible = s.possible(d, actor)
	if !actor.Audits() && actor.ID != d.From { // turns of other pairs are private to them
		out.Pairs = []hub.Pair{d.Pair(actor.ID)}
	}
	if err := s.Seen(ctx, actor, out.Turns); err != nil {
		return Report{}, err
	}
	return out, nil
}

// readable returns the turns of a deliberation that the actor may read: all for auditors,
// its opener and its deciders, else those that the actor sent or got. Of a deliberation of high
// sensitivity, auditors get the turns without their text.
func readable(turns []hub.Envelope, d hub.Deliberation, actor hub.Caller) []hub.Envelope {
	out := []hub.Envelope{}
	whole := actor.Audits() || actor.ID == d.From || slices.Contains(d.Deciders, actor.ID)
	for _, e := range turns {
		own := e.From == actor.ID || e.Broadcast() || slices.Contains(e.To, actor.ID)
		switch {
		case d.WithheldFrom(actor):
			out = append(out, e.Withheld())
		case whole || own:
			out = append(out, e)
		}
	}
	return out
}

// possible returns the types of messages that the actor can send now in any of its pairs.
func (s *Service) possible(d hub.Deliberation, actor hub.Caller) []hub.MessageType {
	out := []hub.MessageType{}
	for _, id := range d.Asked {
		if actor.ID != d.From && actor.ID != id {
			continue
		}
		for _, t := range d.Possible(d.Pair(id), actor.ID, s.rounds[d.Kind]) {
			if !slices.Contains(out, t) {
				out = append(out, t)
			}
		}
	}
	return out
}

// List returns deliberations of a kind, newest first: all of them for those who audit,
// else those that concern the actor.
func (s *Service) List(ctx context.Context, actor hub.Caller, q hub.DeliberationQuery) (Listing, error) {
	if q.Limit == 0 {
		q.Limit = 50
	}
	if q.Limit < 1 || q.Limit > maxTurns {
		return Listing{}, hub.Errorf(hub.CodeInvalid, "deliberation.List", "limit must be between 1 and %d, got %d", maxTurns, q.Limit)
	}
	if !actor.Audits() {
		q.Viewer = actor.ID
	}
	all, err := hub.Read(ctx, s.store, func(r hub.Reader) ([]hub.Deliberation, error) { return r.Deliberations(q) })
	if err != nil {
		return Listing{}, fmt.Errorf("deliberation: list: %w", err)
	}
	out := Listing{Deliberations: append([]hub.Deliberation{}, all...)}
	for i, d := range out.Deliberations {
		if !actor.Audits() && actor.ID != d.From {
			out.Deliberations[i].Pairs = []hub.Pair{d.Pair(actor.ID)}
		}
		out.Deliberations[i] = out.Deliberations[i].For(actor)
	}
	if len(all) == q.Limit {
		out.Next = all[len(all)-1].ID
	}
	return out, nil
}

// Seen notes that messages were returned to an agent, so that the hub may fill in the
// sequence of its next message. It changes nothing for messages of other kinds.
func (s *Service) Seen(ctx context.Context, actor hub.Caller, messages []hub.Envelope) error {
	read := func(r hub.Reader) (map[string]hub.Deliberation, error) { return newlySeen(r, actor, messages) }
	changed, err := hub.Read(ctx, s.store, read)
	if err == nil && len(changed) > 0 {
		err = s.store.Update(ctx, hub.SurvivesKill, func(tx hub.Tx) error {
			changed, err := read(tx)
			for _, d := range changed {
				if err := tx.PutDeliberation(d); err != nil {
					return err
				}
			}
			return err
		})
	}
	if err != nil {
		return fmt.Errorf("deliberation: seen: %w", err)
	}
	return nil
}

// newlySeen returns the open deliberations, by id, whose messages the actor had not read
// before, with the sequences that it has read now.
func newlySeen(r hub.Reader, actor hub.Caller, messages []hub.Envelope) (map[string]hub.Deliberation, error) {
	changed := map[string]hub.Deliberation{}
	for _, e := range messages {
		if !e.Type.Negotiates() || e.From == actor.ID || e.Sequence == nil {
			continue
		}
		d, ok := changed[e.ThreadID]
		if !ok {
			var err error
			d, err = r.Deliberation(e.ThreadID)
			if hub.CodeOf(err) == hub.CodeNotFound {
				continue
			}
			if err != nil {
				return nil, err
			}
		}
		if d.Over() {
			continue
		}
		if p, unread := pairSeen(d, e, actor.ID); unread {
			changed[d.ID] = d.WithPair(p)
		}
	}
	return changed, nil
}

// pairSeen returns the pair of a message after its reader has read it. It reports false if
// the reader is not the other agent of the pair, or has read as much before.
func pairSeen(d hub.Deliberation, e hub.Envelope, reader hub.AgentID) (p hub.Pair, unread bool) {
	switch {
	case reader == d.From && slices.Contains(d.Asked, e.From):
		p = d.Pair(e.From)
		unread = p.OpenerRead < *e.Sequence
		p.OpenerRead = *e.Sequence
	case slices.Contains(d.Asked, reader) && e.From == d.From:
		p = d.Pair(reader)
		unread = p.AddressedRead < *e.Sequence
		p.AddressedRead = *e.Sequence
	}
	return p, unread
}

// Decisions returns decisions, newest first: all of them for those who audit, else
// those of deliberations that concern the actor and of its teams; and, unless a team is
// named, those that repositories recorded in projects.
func (s *Service) Decisions(ctx context.Context, actor hub.Caller, q hub.DecisionQuery) ([]hub.Decision, error) {
	if q.Limit == 0 {
		q.Limit = 50
	}
	if q.Limit < 1 || q.Limit > maxTurns {
		return nil, hub.Errorf(hub.CodeInvalid, "deliberation.Decisions", "limit must be between 1 and %d, got %d", maxTurns, q.Limit)
	}

	out := []hub.Decision{}
	err := s.store.View(ctx, func(r hub.Reader) error {
		all, err := r.Decisions(q)
		for _, d := range all {
			// An agent reads the decisions of its time in a team, and those of its own
			// deliberations.
			if !actor.Audits() {
				if d.Team != "" {
					was, err := r.Teamspaces().Members(hub.MemberQuery{Team: hub.TeamID(d.Team), Agent: actor.ID, Ended: true, Limit: maxTurns})
					if err != nil {
						return err
					}
					if slices.ContainsFunc(was, func(m hub.Member) bool { return m.Reads(d.At) }) {
						out = append(out, d)
						continue
					}
				}
				if _, err := visible(r, "deliberation.Decisions", actor, strings.Join(d.Refs, " ")); hub.CodeOf(err) == hub.CodeNotFound {
					continue
				} else if err != nil {
					return err
				}
			}
			isMember := false
			if actor.ReadsAsAuditor() && d.Team != "" {
				m, err := r.Teamspaces().Members(hub.MemberQuery{Team: hub.TeamID(d.Team), Agent: actor.ID, Limit: 1})
				if err != nil {
					return err
				}
				isMember = len(m) > 0
			}
			if !isMember {
				var err error
				if d, err = hub.DecisionFor(r, actor, d); err != nil {
					return err
				}
			}
			out = append(out, d)
		}

		if err != nil || q.Team != "" {
			return err
		}

		// Repositories of projects record decisions of their own.
		recorded, err := projectDecisions(r, q)
		out = append(out, recorded...)
		slices.SortStableFunc(out, func(a, b hub.Decision) int { return b.At.Compare(a.At.Time) })
		out = out[:min(len(out), q.Limit)]
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("deliberation: decisions: %w", err)
	}
	return out, nil
}

// projectDecisions returns the newest decisions that repositories recorded, at most
// q.Limit of each project.
func projectDecisions(r hub.Reader, q hub.DecisionQuery) ([]hub.Decision, error) {
	var out []hub.Decision
	for after := coord.ProjectID(""); ; {
		projects, err := r.Coordination().Projects(after, maxTurns)
		if err != nil || len(projects) == 0 {
			return out, err
		}
		for _, p := range projects {
			after = p.ID
			page, err := r.Coordination().Packets(coord.PacketQuery{Project: p.ID, Type: coord.ContextDecision, Newest: true, Limit: q.Limit})
			if err != nil {
				return nil, err
			}
			for _, packet := range page.Packets {
				var c struct{ Decision, Chosen, Rationale string }
				at := hub.At(packet.At.Time())
				older := q.Cursor == "" || (hub.EnvelopeID(q.Cursor).Valid() && at.Before(hub.EnvelopeID(q.Cursor).Time().Time))
				if json.Unmarshal(packet.Content, &c) != nil || c.Chosen == "" || !older {
					continue // an answer to a contract, or of another page
				}
				out = append(out, hub.Decision{
					ID: string(packet.ID), Title: c.Decision, Decision: c.Chosen, Rationale: c.Rationale, Deciders: []hub.AgentID{hub.AgentID(packet.FromAgent)}, Status: "decided",
					Refs: []string{"project/" + string(p.ID)}, At: at,
				})
			}
		}
	}
}

// Render returns a report as short text, without its messages.
func Render(r Report) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s is %s: %s, from %s to %s\n", r.Kind, cmp.Or(string(r.ShortIDs[r.ID]), r.ID), r.State, plaintext.Line(r.Title), r.From, names(r.Asked))
	if r.ClaimedBy != "" {
		fmt.Fprintf(&b, "claimed by %s at %s\n", r.ClaimedBy, r.ClaimedAt)
	}
	for _, c := range r.Conditions {
		fmt.Fprintf(&b, "> condition: %s\n", plaintext.Line(c))
	}

	if r.State == hub.TalkEscalated {
		fmt.Fprintf(&b, "escalated to %s\n> because: %s\n", names(r.Deciders), plaintext.Line(r.Reason))
	}
	if r.Outcome != "" {
		fmt.Fprintf(&b, "> outcome: %s\n", plaintext.Line(r.Outcome))
	}
	if r.DecidedBy != "" {
		fmt.Fprintf(&b, "decided by %s\n> because: %s\n", r.DecidedBy, plaintext.Line(r.Reason))
	}

	if !r.DueAt.IsZero() {
		fmt.Fprintf(&b, "until %s\n", r.DueAt)
	}
	if len(r.Possible) > 0 {
		words := make([]string, len(r.Possible))
		for i, t := range r.Possible {
			words[i] = string(t)
		}
		fmt.Fprintf(&b, "You may send: %s\n", strings.Join(words, ", "))
	}
	return b.String()
}
