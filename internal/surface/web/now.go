package web

import (
	"cmp"
	"context"
	"slices"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/service/landing"
	"github.com/parley-agents/parley/internal/service/usage"
)

const recent = 200 // messages that the map and last words are made of

// nowData is the Now page.
type nowData struct {
	*waits
	Agents  []presence
	States  []stateCount // agents by state, in the order of the list
	Map     diagram
	Paused  bool // every agent, and wakes
	Landing []landing.Note
	Budgets []usage.BudgetRow // open for models without a price
}

func now(ctx context.Context, v *visit) (string, any, error) {
	w, err := v.waiting(ctx)
	if err != nil {
		return "", nil, err
	}
	overview, err := v.now(ctx)
	if err != nil {
		return "", nil, err
	}
	d := nowData{waits: w, Landing: overview.Landing, Budgets: overview.OpenBudgets}
	if d.Agents, _, err = v.presences(ctx); err != nil {
		return "", nil, err
	}

	talk, err := perform(ctx, v, api.Query, api.QueryParams{Limit: recent})
	if err != nil {
		return "", nil, err
	}

	// The map counts the recent messages of each pair; the newest message of an agent is shown with
	// it.
	names := []hub.AgentID{hub.Operator}
	for _, a := range d.Agents {
		names = append(names, a.ID)
	}
	d.Map = newDiagram(names)
	last := map[hub.AgentID]*message{}
	for _, e := range talk.Messages { // the newest first
		if last[e.From] == nil {
			m := v.message(e, talk.ShortIDs)
			last[e.From] = &m
		}
		d.Map.add(e)
	}
	d.Map.place()

	active := 0
	for i, a := range d.Agents {
		d.Agents[i].Last = last[a.ID]
		if a.State == hub.AgentActive {
			active++
		}
	}
	d.Paused = active == 0 && len(d.Agents) > 0

	// Agents with the same activity follow each other, so that one pass counts each activity.
	slices.SortStableFunc(d.Agents, func(a, b presence) int {
		return cmp.Or(cmp.Compare(slices.Index(api.Words, a.Word), slices.Index(api.Words, b.Word)), b.LastSeen.Compare(a.LastSeen.Time))
	})
	for _, a := range d.Agents {
		if n := len(d.States); n > 0 && d.States[n-1].State == a.Word {
			d.States[n-1].N++
			continue
		}
		d.States = append(d.States, stateCount{a.Word, 1})
	}
	return "Now", d, nil
}
