package api

import (
	"cmp"
	"context"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/reach/forge"
	"github.com/parley-agents/parley/internal/service/event"
	"github.com/parley-agents/parley/internal/service/schedule"
)

// A SourceAnswer is a source of events, with the address for its webhook.
type SourceAnswer struct {
	Source event.Source `json:"source"`
	URL    string       `json:"url,omitempty"` // empty if the hub does not listen for webhooks
}

// sourceAnswer returns a source with its address.
func (s *Services) sourceAnswer(src event.Source, err error) (SourceAnswer, error) {
	out := SourceAnswer{Source: src}
	if s.InURL != "" {
		out.URL = s.InURL + "/in/" + src.Name
	}
	return out, err
}

func sourceAdd(ctx context.Context, s *Services, a hub.Caller, p event.Setting) (SourceAnswer, error) {
	if err := forge.CheckFields(p.Fields); err != nil {
		return SourceAnswer{}, err
	}
	if err := forge.CheckSecret(p.Vendor, p.Secret); err != nil {
		return SourceAnswer{}, err
	}
	return s.sourceAnswer(s.Events.Add(ctx, a, p))
}

// SourceList lists sources of events.
type SourceList struct {
	Sources []event.Source `json:"sources"`
	URL     string         `json:"url,omitempty"` // where webhooks come in; empty if nowhere
}

func sourceList(ctx context.Context, s *Services, a hub.Caller, _ None) (SourceList, error) {
	all, err := s.Events.List(ctx)
	if !a.Audits() {
		for i, src := range all { // rules and members are the operator's
			all[i].EventSource = hub.EventSource{Name: src.Name, Vendor: src.Vendor, To: src.To, Actors: src.Actors}
		}
	}
	return SourceList{Sources: all, URL: s.InURL}, err
}

// SourceParams name a source of events.
type SourceParams struct {
	Name string `json:"name"`
}

func sourceShow(ctx context.Context, s *Services, a hub.Caller, p SourceParams) (SourceAnswer, error) {
	return s.sourceAnswer(s.Events.Show(ctx, a, p.Name))
}

func sourceRemove(ctx context.Context, s *Services, a hub.Caller, p SourceParams) (None, error) {
	return None{}, s.Events.Remove(ctx, a, p.Name)
}

func sourcePoll(ctx context.Context, s *Services, a hub.Caller, p event.PollSetting) (SourceAnswer, error) {
	const op = "parley/in/poll"
	src, err := s.Events.Show(ctx, a, p.Name)
	if err != nil {
		return SourceAnswer{}, err
	}
	p.API = cmp.Or(p.API, forge.DefaultAPI(src.Vendor))
	switch {
	case p.Stop, src.Vendor == hub.VendorGeneric: // SetPoll refuses the second
	case p.API == "":
		return SourceAnswer{}, hub.Errorf(hub.CodeInvalid, op, "api is required: the address of the API of this %s", src.Vendor).WithHint("such as https://git.example.com/api/v1")
	case p.Seconds != 0 && (p.Seconds < int64(forge.MinPoll/time.Second) || p.Seconds > int64(forge.MaxPoll/time.Second)):
		return SourceAnswer{}, hub.Errorf(hub.CodeInvalid, op, "the time between two requests must be from %s to %s", forge.MinPoll, forge.MaxPoll)
	default:
		if err := forge.CheckAPI(p.API); err != nil {
			return SourceAnswer{}, err
		}
	}
	return s.sourceAnswer(s.Events.SetPoll(ctx, a, p))
}

// A ScheduleAnswer is a schedule.
type ScheduleAnswer struct {
	Schedule hub.Schedule `json:"schedule"`
}

func scheduleAdd(ctx context.Context, s *Services, a hub.Caller, p schedule.Setting) (ScheduleAnswer, error) {
	got, err := s.Schedules.Add(ctx, a, p)
	return ScheduleAnswer{got}, err
}

// ScheduleList lists schedules.
type ScheduleList struct {
	Schedules []hub.Schedule `json:"schedules"`
}

func scheduleList(ctx context.Context, s *Services, a hub.Caller, _ None) (ScheduleList, error) {
	all, err := s.Schedules.List(ctx, a)
	return ScheduleList{all}, err
}

// ScheduleParams name a schedule.
type ScheduleParams struct {
	ID hub.ScheduleID `json:"id"`
}

func scheduleRemove(ctx context.Context, s *Services, a hub.Caller, p ScheduleParams) (None, error) {
	return None{}, s.Schedules.Remove(ctx, a, p.ID)
}

func scheduleRun(ctx context.Context, s *Services, a hub.Caller, p ScheduleParams) (ScheduleAnswer, error) {
	got, err := s.Schedules.RunNow(ctx, a, p.ID)
	return ScheduleAnswer{got}, err
}
