package hub_test

import (
	"testing"
	"time"

	"github.com/parley-agents/parley/hub"
)

func TestTimetable(t *testing.T) {
	for _, c := range []struct {
		every, zone, after string
		want               []string // the next times, in UTC
	}{
		{"1h", "UTC", "2026-03-02T10:20:30Z", []string{"2026-03-02T11:20:30Z", "2026-03-02T12:20:30Z"}},
		{"2d", "Europe/Berlin", "2026-03-28T10:00:00Z", []string{"2026-03-30T10:00:00Z"}},
		{"0 9 * * 1-5", "UTC", "2026-03-06T09:00:00Z", []string{"2026-03-09T09:00:00Z", "2026-03-10T09:00:00Z"}},
		{"0 9 * * 1-5", "Europe/Berlin", "2026-03-27T12:00:00Z", []string{"2026-03-30T07:00:00Z"}}, // summer time begins on the 29th
		{"*/15 8-9 * * *", "UTC", "2026-03-06T08:44:59Z", []string{"2026-03-06T08:45:00Z", "2026-03-06T09:00:00Z"}},
		{"5,35 * * * *", "UTC", "2026-03-06T23:40:00Z", []string{"2026-03-07T00:05:00Z", "2026-03-07T00:35:00Z"}},
		{"0 0 29 2 *", "UTC", "2026-03-06T00:00:00Z", []string{"2028-02-29T00:00:00Z", "2032-02-29T00:00:00Z"}},
		{"0 0 13 * 5", "UTC", "2026-03-06T00:00:00Z", []string{"2026-03-13T00:00:00Z", "2026-03-20T00:00:00Z"}}, // one of both days is enough
		{"0 0 * * 7", "UTC", "2026-03-06T00:00:00Z", []string{"2026-03-08T00:00:00Z"}},
		{"0 0 * jan-feb mon", "UTC", "2026-03-06T00:00:00Z", []string{"2027-01-04T00:00:00Z"}},
		{"10/20 0 1 * *", "UTC", "2026-03-06T00:00:00Z", []string{"2026-04-01T00:10:00Z", "2026-04-01T00:30:00Z", "2026-04-01T00:50:00Z"}},
		{"@daily", "UTC", "2026-03-06T00:00:00Z", []string{"2026-03-07T00:00:00Z"}},
	} {
		table, err := hub.Schedule{Every: c.every, Zone: c.zone}.Timetable()
		if err != nil {
			t.Errorf("%s: %v", c.every, err)
			continue
		}
		at, err := time.Parse(time.RFC3339, c.after)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range c.want {
			at = table.Next(at).Time
			if got := at.Format(time.RFC3339); got != want {
				t.Errorf("%s in %s: got %s, want %s", c.every, c.zone, got, want)
			}
		}
	}

	// A time that summer time leaves out is moved, not lost.
	table, err := hub.Schedule{Every: "30 2 * * *", Zone: "Europe/Berlin"}.Timetable()
	if err != nil {
		t.Fatal(err)
	}
	before := time.Date(2026, 3, 28, 12, 0, 0, 0, time.UTC)
	if got := table.Next(before); got.Sub(before) > 15*time.Hour {
		t.Errorf("the run of the night of the change is at %s", got)
	}

	// One that comes twice in the night of the change back counts once.
	first := table.Next(time.Date(2026, 10, 24, 22, 0, 0, 0, time.UTC))
	second := table.Next(first.Time)
	if first.Day() != 25 || second.Format(time.RFC3339) != "2026-10-26T01:30:00Z" {
		t.Errorf("in the night of the change back: got %s and %s", first, second)
	}

	for _, every := range []string{"", "soon", "30s", "400d", "-1h", "* * * *", "60 * * * *", "* 24 * * *", "* * 0 * *", "* * * 13 *", "* * * * 8", "5-1 * * * *", "*/0 * * * *", "a * * * *", "1,, * * * *", "+1 * * * *", "0 0 31 2 *", "@often",
		"213504d", "999999999999999999999d", "*/90 * * * *", "* * */9223372036854775807 * *", "1-5/9223372036854775807 * * * *"} {
		if _, err := (hub.Schedule{Every: every}).Timetable(); hub.CodeOf(err) != hub.CodeInvalid {
			t.Errorf("%q: got %v", every, err)
		}
	}
	if _, err := (hub.Schedule{Every: "1h", Zone: "Mars/Base"}).Timetable(); hub.CodeOf(err) != hub.CodeInvalid {
		t.Errorf("an unknown zone: %v", err)
	}
}

func TestJitter(t *testing.T) {
	at := hub.At(time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC))
	seen := map[time.Duration]bool{}
	for n := range int64(20) {
		s := hub.Schedule{ID: hub.NewScheduleID(n + 1), Due: at}
		got := s.Jitter(at.Add(24 * time.Hour))
		if got < 0 || got >= time.Minute || got != s.Jitter(at.Add(24*time.Hour)) {
			t.Errorf("%s: got %s", s.ID, got)
		}
		seen[got] = true
		if short := s.Jitter(at.Add(time.Minute)); short >= 6*time.Second {
			t.Errorf("%s: got %s of a minute", s.ID, short)
		}
	}
	if len(seen) < 10 {
		t.Errorf("20 schedules of one time have %d times", len(seen))
	}
}

func TestEventRules(t *testing.T) {
	e := hub.Event{Kind: hub.EventCI, State: "failure", Repository: "acme/shop", Branch: "release/1", Actor: "ada"}
	for i, c := range []struct {
		rule hub.EventRule
		want bool
	}{
		{hub.EventRule{}, true}, {hub.EventRule{Kind: hub.EventCI}, true}, {hub.EventRule{Kind: hub.EventPush}, false}, {hub.EventRule{State: "success"}, false},
		{hub.EventRule{Repository: "acme/*"}, true}, {hub.EventRule{Repository: "*/shop"}, true}, {hub.EventRule{Repository: "a*e/s*p"}, true}, {hub.EventRule{Repository: "acme"}, false}, {hub.EventRule{Repository: "acme/shop*shop"}, false},
		{hub.EventRule{Branch: "release/*"}, true}, {hub.EventRule{Branch: "*"}, true}, {hub.EventRule{Branch: "main"}, false}, {hub.EventRule{Actor: "eve"}, false},
	} {
		if got := c.rule.Matches(e); got != c.want {
			t.Errorf("rule %d %+v: got %v", i, c.rule, got)
		}
	}
	for id, want := range map[hub.AgentID]string{"in:github": "github", "in:": "", "in:A": "", "github": "", "in:a:b": ""} {
		got, ok := id.Source()
		if ok != (want != "") || (ok && got != want) {
			t.Errorf("%s: got %q, %v", id, got, ok)
		}
	}
}
