package web

import (
	"context"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/operation/api"
)

// eventData is the page of event sources and schedules.
type eventData struct {
	URL       string // where webhooks come in
	Sources   []sourceLine
	Schedules []hub.Schedule
}

// A sourceLine is a row of the table of sources.
type sourceLine struct {
	hub.EventSource
	Stored, Quiet, Repeated, Ignored, Forged, Other int64
}

func eventPage(ctx context.Context, v *visit) (string, any, error) {
	sources, err := perform(ctx, v, api.ListSources, api.None{})
	if err != nil {
		return "", nil, err
	}
	d := eventData{URL: sources.URL}
	for _, s := range sources.Sources {
		d.Sources = append(d.Sources, sourceLine{
			EventSource: s.EventSource,
			Stored:      s.Counts[hub.EventStored],
			Quiet:       s.Counts[hub.EventQuiet],
			Repeated:    s.Counts[hub.EventRepeated],
			Ignored:     s.Counts[hub.EventIgnored],
			Forged:      s.Counts[hub.EventForged],
			Other:       s.Counts[hub.EventTooLarge] + s.Counts[hub.EventTooMany] + s.Counts[hub.EventUnreadable],
		})
	}
	schedules, err := perform(ctx, v, api.ListSchedules, api.None{})
	d.Schedules = schedules.Schedules
	return "Events", d, err
}
