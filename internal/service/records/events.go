package records

import (
	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
)

// recordEvent applies an entry about a source of events or a schedule.
func (v *verifier) recordEvent(e hub.Entry) {
	if v.Sources == nil || v.Schedules == nil { // a verification that an earlier version paused
		v.Sources = register[string]{}
		v.Schedules = register[string]{}
	}
	var f struct {
		Digest string `json:"sha256"`
	}
	switch e.Action {
	case actions.SourceAdded, actions.SourceChanged:
		if v.decodeFacts(e, &f) {
			v.Sources.put(e.Subject, f.Digest, e)
		}
	case actions.SourceRemoved:
		delete(v.Sources, e.Subject)
	case actions.ScheduleAdded:
		if v.decodeFacts(e, &f) {
			v.Schedules.put(e.Subject, f.Digest, e)
		}
	case actions.ScheduleRemoved:
		delete(v.Schedules, e.Subject)
	}
}

// checkEvents compares the sources of events and the schedules with the journal.
func (v *verifier) checkEvents(r hub.Reader) error {
	if !v.Complete {
		v.Out.Unchecked = append(v.Out.Unchecked, "event sources and schedules: their records in archives were not read")
		return nil
	}
	sources, err := r.Events().Sources()
	if err != nil {
		return err
	}
	for _, s := range sources {
		v.Sources.check(v, "event source", s.Name, func(want string, row int64) string { return unless(s.Digest() == want, differsFrom, row) })
	}
	v.Sources.missing(v, "event source")

	schedules, err := r.Events().Schedules()
	if err != nil {
		return err
	}
	for _, s := range schedules {
		v.Schedules.check(v, "schedule", string(s.ID), func(want string, row int64) string { return unless(s.Digest() == want, differsFrom, row) })
	}
	v.Schedules.missing(v, "schedule")
	return nil
}
