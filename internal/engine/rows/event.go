package rows

import "github.com/parley-agents/parley/hub"

var eventSources = newTable("event_sources", "event source", "name, vendor, revision, body_json", func(c *codec, s *hub.EventSource) {
	c.text(&s.Name)
	c.text((*string)(&s.Vendor))
	c.int64(&s.Revision)
	c.encoded(s, false)
})

// An eventDelivery is the id of an event that a source delivered.
type eventDelivery struct {
	source string
	id     string
	at     hub.Time
}

var eventDeliveries = newTable("event_deliveries", "delivery of an event", "source, id, at", func(c *codec, d *eventDelivery) {
	c.text(&d.source)
	c.text(&d.id)
	c.stamp(&d.at)
})

var schedules = newTable("schedules", "schedule", "n, agent, revision, body_json", func(c *codec, s *hub.Schedule) {
	n := s.ID.Number()
	c.int64(&n)
	c.text((*string)(&s.To))
	c.int64(&s.Revision)
	c.encoded(s, false)
})

var (
	eventSourceByName = eventSources.query(`WHERE name = ?1`)
	allEventSources   = eventSources.query(`ORDER BY name`)
	putEventSource    = eventSources.update(1, "vendor", ` AND revision = ?5`)
	removeEventSource = statement(`DELETE FROM event_sources WHERE name = ?1`)

	eventDeliveryByID     = eventDeliveries.query(`WHERE source = ?1 AND id = ?2`)
	dropEventDeliveries   = statement(`DELETE FROM event_deliveries WHERE at < ?1`)
	removeEventDeliveries = statement(`DELETE FROM event_deliveries WHERE source = ?1`)

	eventCounts       = statement(`SELECT outcome, n FROM event_counts WHERE source = ?1 ORDER BY outcome`)
	addEventCount     = statement(`INSERT INTO event_counts (source, outcome, n) VALUES (?1, ?2, ?3) ON CONFLICT (source, outcome) DO UPDATE SET n = event_counts.n + excluded.n`)
	removeEventCounts = statement(`DELETE FROM event_counts WHERE source = ?1`)

	scheduleByNumber = schedules.query(`WHERE n = ?1`)
	allSchedules     = schedules.query(`ORDER BY n`)
	putSchedule      = schedules.update(1, "agent", ` AND revision = ?5`)
	removeSchedule   = statement(`DELETE FROM schedules WHERE n = ?1`)
)

// scheduleKey is where the number of the newest schedule is stored: a number is not given again
// after its schedule was removed.
const scheduleKey = "schedule/last"

// An eventReader is the hub.EventReader of a reader.
type eventReader struct{ r *reader }

// An eventWriter is the hub.EventWriter of a transaction.
type eventWriter struct{ t *tx }

func (r *reader) Events() hub.EventReader { return eventReader{r} }

func (t *tx) WriteEvents() hub.EventWriter { return eventWriter{t} }

func (v eventReader) Source(name string) (hub.EventSource, error) {
	return eventSources.one(v.r, name, eventSourceByName, name)
}

func (v eventReader) Sources() ([]hub.EventSource, error) {
	return eventSources.all(v.r, allEventSources)
}

func (v eventReader) Delivered(source, id string) (bool, error) {
	found, err := eventDeliveries.all(v.r, eventDeliveryByID, source, id)
	return len(found) > 0, err
}

func (v eventReader) EventCounts(source string) (map[hub.EventOutcome]int64, error) {
	q := v.r.query(eventCounts)
	q.bind(source)
	out := map[hub.EventOutcome]int64{}
	for q.next() {
		out[hub.EventOutcome(q.s.ColumnText(0))] = q.s.ColumnInt64(1)
	}
	return out, engineError("store.Events.EventCounts", q.done())
}

func (v eventReader) Schedule(id hub.ScheduleID) (hub.Schedule, error) {
	return schedules.one(v.r, string(id), scheduleByNumber, id.Number())
}

func (v eventReader) Schedules() ([]hub.Schedule, error) { return schedules.all(v.r, allSchedules) }

func (w eventWriter) PutSource(s hub.EventSource) error {
	was := s.Revision
	s.Revision++
	if was != 0 {
		return eventSources.put(w.t, s.Name, putEventSource, &s, was)
	}
	return eventSources.add(w.t, s.Name, &s)
}

func (w eventWriter) RemoveSource(name string) error {
	n, err := w.t.run(eventSources.op(), removeEventSource, name)
	if err == nil && n == 0 {
		return notFound(eventSources.op(), eventSources.noun, name)
	}
	if err != nil {
		return err
	}
	if _, err := w.t.run(eventSources.op(), removeEventDeliveries, name); err != nil {
		return err
	}
	_, err = w.t.run(eventSources.op(), removeEventCounts, name)
	return err
}

func (w eventWriter) AddDelivered(source, id string, at hub.Time) (bool, error) {
	n, err := eventDeliveries.write(w.t, eventDeliveries.insert, &eventDelivery{source, id, at})
	return n > 0, err
}

func (w eventWriter) DropDelivered(before hub.Time) (int, error) {
	n, err := w.t.run(eventDeliveries.op(), dropEventDeliveries, before.String())
	return int(n), err
}

func (w eventWriter) CountEvents(source string, outcome hub.EventOutcome, n int64) error {
	_, err := w.t.run("store.Events.CountEvents", addEventCount, source, string(outcome), n)
	return err
}

func (w eventWriter) PutSchedule(s hub.Schedule) (hub.ScheduleID, error) {
	was := s.Revision
	s.Revision++
	if was != 0 {
		return s.ID, schedules.put(w.t, string(s.ID), putSchedule, &s, was)
	}
	last, err := hub.ReadMeta[int64](w.t, scheduleKey)
	if err != nil {
		return "", err
	}
	if err := hub.WriteMeta(w.t, scheduleKey, last+1); err != nil {
		return "", err
	}
	s.ID = hub.NewScheduleID(last + 1)
	return s.ID, schedules.add(w.t, string(s.ID), &s)
}

func (w eventWriter) RemoveSchedule(id hub.ScheduleID) error {
	n, err := w.t.run(schedules.op(), removeSchedule, id.Number())
	if err == nil && n == 0 {
		return notFound(schedules.op(), schedules.noun, string(id))
	}
	return err
}
