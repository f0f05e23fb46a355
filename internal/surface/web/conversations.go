package web

import (
	"context"
	"slices"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/service/mailroom"
)

const threadPage = 50 // messages of a thread on one page

// A thread is a conversation in a list.
type thread struct {
	ID     string
	First  message // the oldest that was looked at
	Newest message
	Count  int
	People []hub.AgentID
	Team   string // whose notices these are; "" for a thread
}

// Title returns the beginning of the thread.
func (t thread) Title() string {
	if t.Team != "" {
		return "Notices of the hub about the team " + t.Team
	}
	return t.First.Words()
}

type conversationsData struct {
	Query   api.QueryParams
	Agents  []hub.AgentID
	Threads []thread
	Found   []message // of a search
	Next    string
	Search  bool
}

// agentNames returns the agents that one can write to.
func (v *visit) agentNames(ctx context.Context) ([]hub.AgentID, error) {
	list, err := perform(ctx, v, api.ListAgents, api.None{})
	var out []hub.AgentID
	for _, a := range list.Agents {
		if a.ID != hub.Operator {
			out = append(out, a.ID)
		}
	}
	return out, err
}

func conversations(ctx context.Context, v *visit) (string, any, error) {
	q := v.r.URL.Query()
	d := conversationsData{Query: api.QueryParams{Text: q.Get("q"), Agent: hub.AgentID(q.Get("agent")), Team: q.Get("team"), Type: hub.MessageType(q.Get("type")), Cursor: q.Get("cursor"), Limit: 2 * threadPage}}
	d.Search = d.Query.Text != "" || d.Query.Type != ""
	if d.Search {
		d.Query.Limit = threadPage
	}

	var err error
	if d.Agents, err = v.agentNames(ctx); err != nil {
		return "", nil, err
	}
	got, err := perform(ctx, v, api.Query, d.Query)
	if err != nil {
		return "", nil, err
	}
	d.Next = got.Next

	// The messages are grouped into conversations; a search shows each message by itself.
	at := map[[2]string]int{}        // by team and thread
	for _, e := range got.Messages { // the newest first
		m := v.message(e, got.ShortIDs)
		if d.Search {
			if !m.Hidden { // a hit would tell a viewer what the text says
				d.Found = append(d.Found, m)
			}
			continue
		}

		of := thread{ID: e.ThreadID, Newest: m}
		if d.Query.Team == "" && e.From == hub.Self && e.ThreadID == string(e.ID) {
			of.Team = e.Team // a row for each notice would hide the conversations
		}
		key := [2]string{of.Team, e.ThreadID}
		if of.Team != "" {
			key[1] = ""
		}

		i, known := at[key]
		if !known {
			i = len(d.Threads)
			at[key] = i
			d.Threads = append(d.Threads, of)
		}

		t := &d.Threads[i]
		t.First, t.Count = m, t.Count+1
		for _, id := range append([]hub.AgentID{e.From}, e.To...) {
			if !slices.Contains(t.People, id) {
				t.People = append(t.People, id)
			}
		}
	}
	return "Conversations", d, nil
}

type threadData struct {
	ID       string
	Messages []message
	Older    string
	People   []hub.AgentID
	Reply    *message // to which an answer goes
	Here     string   // the address, for forms
}

func conversation(ctx context.Context, v *visit) (string, any, error) {
	d := threadData{ID: v.r.PathValue("id"), Here: v.r.URL.RequestURI()}
	got, err := perform(ctx, v, api.Query, api.QueryParams{Thread: d.ID, Limit: threadPage, Cursor: v.r.URL.Query().Get("cursor")})
	if err != nil {
		return "", nil, err
	}
	if len(got.Messages) == 0 {
		return "", nil, hub.Errorf(hub.CodeNotFound, "web", "no conversation with id %.80q", d.ID).WithHint("it may be archived: run \"parley hub journal\"")
	}
	d.Older = got.Next

	// The oldest message on the page gives the title; the newest one of an agent is the one to
	// reply to.
	title := "Conversation"
	for _, e := range slices.Backward(got.Messages) {
		m, err := v.traced(ctx, e, got.ShortIDs)
		if err != nil {
			return "", nil, err
		}
		if len(d.Messages) == 0 {
			title = m.words(60)
		}
		d.Messages = append(d.Messages, m)
		for _, id := range append([]hub.AgentID{e.From}, e.To...) {
			if !slices.Contains(d.People, id) {
				d.People = append(d.People, id)
			}
		}
		if e.From != hub.Operator && e.From != hub.Self {
			d.Reply = &m
		}
	}
	return title, d, nil
}

// traced returns a message with its ledger.
func (v *visit) traced(ctx context.Context, e hub.Envelope, short mailroom.ShortIDs) (message, error) {
	m := v.message(e, short)
	got, err := perform(ctx, v, api.Trace, api.IDParams{ID: e.ID})
	m.Ledger = got.Deliveries
	return m, err
}

type messageData struct {
	message
	Trace mailroom.Trace
	Here  string
	Gone  bool // the text was removed
}

func oneMessage(ctx context.Context, v *visit) (string, any, error) {
	got, err := perform(ctx, v, api.Trace, api.IDParams{ID: hub.EnvelopeID(v.r.PathValue("id"))})
	if err != nil {
		return "", nil, err
	}
	d := messageData{message: v.message(got.Message, nil), Trace: got, Here: v.r.URL.RequestURI(), Gone: got.Message.IsForgotten()}
	d.Ledger = got.Deliveries
	return "Message from " + string(got.Message.From), d, nil
}
