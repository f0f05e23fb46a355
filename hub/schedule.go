package hub

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"
	"time"
)

// A ScheduleID names a schedule: e and its number, such as e3.
type ScheduleID string

// NewScheduleID returns the id of the schedule with a number.
func NewScheduleID(n int64) ScheduleID { return ScheduleID("e" + strconv.FormatInt(n, 10)) }

// Number returns the number of a schedule; 0 for a text that is no id of one.
func (id ScheduleID) Number() int64 { return numbered("e", string(id)) }

// A Schedule is a message of the operator that is sent to an agent every span of time, or at the
// times of a calendar.
type Schedule struct {
	ID    ScheduleID `json:"id"`
	Every string     `json:"every"` // a span such as 1h, or five fields of cron such as 0 9 * * 1-5
	Zone  string     `json:"zone"`  // of the operator, such as Europe/Berlin; empty for the zone of the hub's machine
	To    AgentID    `json:"to"`
	Text  string     `json:"text"`
	SetAt Time       `json:"set_at,omitzero"`
	SetBy AgentID    `json:"set_by"`

	// The members below change with each run.
	Due      Time       `json:"due,omitzero"`      // of the next run, without its jitter
	Last     Time       `json:"last,omitzero"`     // when the last message was sent
	Message  EnvelopeID `json:"message,omitempty"` // the last one
	Runs     int64      `json:"runs"`              // messages that were sent
	Skipped  int64      `json:"skipped,omitempty"` // runs since the last message that its recipient had not read
	Missed   int64      `json:"missed,omitempty"`  // runs that no hub was there for, in all
	Revision int64      `json:"-"`                 // of the row; 0 for one that is not stored
}

// Digest returns the SHA-256, in hexadecimal, of the members that do not change with a run.
func (s Schedule) Digest() string {
	return wholeDigest("schedule", Schedule{ID: s.ID, Every: s.Every, Zone: s.Zone, To: s.To, Text: s.Text, SetAt: s.SetAt, SetBy: s.SetBy})
}

// Bounds of the span between two runs.
const (
	MinEvery = time.Minute
	MaxEvery = 366 * 24 * time.Hour
)

// Jitter returns how long after its due time a run is sent: at most a tenth of the span to the
// next run, and at most a minute. It is the same whenever it is asked for the same run, so that a
// hub that starts again sends no earlier, and schedules of the same time are sent apart.
func (s Schedule) Jitter(next Time) time.Duration {
	most := min(next.Sub(s.Due.Time)/10, time.Minute)
	if most <= 0 {
		return 0
	}
	h := fnv.New64a()
	fmt.Fprintf(h, "%s %s", s.ID, s.Due)
	return time.Duration(h.Sum64() % uint64(most)).Truncate(time.Millisecond)
}

// A Timetable says when a schedule is due.
type Timetable struct {
	span time.Duration // zero for a calendar
	zone *time.Location

	// The fields of cron, each a set of numbers as bits. A day matches if both days do; if the day
	// of the month and the day of the week are both restricted, one of them is enough.
	minutes, hours, days, months, weekdays uint64
	eitherDay                              bool
}

// Timetable returns the times of the schedule. It reports CodeInvalid for a text that is neither a
// span nor five fields of cron, and for an unknown zone.
func (s Schedule) Timetable() (Timetable, error) {
	const op = "hub.Timetable"
	zone, err := time.LoadLocation(cmp.Or(s.Zone, "Local"))
	if err != nil {
		return Timetable{}, Errorf(CodeInvalid, op, "unknown time zone %q", s.Zone).WithHint("use a name such as Europe/Berlin or UTC")
	}

	fields := strings.Fields(s.Every)
	if len(fields) == 1 && !strings.HasPrefix(s.Every, "@") {
		return spanTable(op, s.Every, zone)
	}
	if short, ok := cronNames[s.Every]; ok {
		fields = strings.Fields(short)
	}
	if len(fields) != 5 {
		return Timetable{}, Errorf(CodeInvalid, op, "%q is neither a span nor five fields of cron", s.Every).
			WithHint(`use a span such as 1h, or minute, hour, day, month and weekday such as "0 9 * * 1-5"`)
	}
	t := Timetable{zone: zone}
	for i, f := range cronFields {
		set, err := f.parse(op, fields[i])
		if err != nil {
			return Timetable{}, err
		}
		*f.set(&t) = set
	}
	t.weekdays |= t.weekdays >> 7 & 1 // 7 is Sunday, too
	t.eitherDay = fields[2] != "*" && fields[4] != "*"
	if t.Next(time.Unix(0, 0)).IsZero() {
		return Timetable{}, Errorf(CodeInvalid, op, "%q names a day that does not exist", s.Every)
	}
	return t, nil
}

// spanTable returns the times of a span such as 90m, 1h or 2d.
func spanTable(op, text string, zone *time.Location) (Timetable, error) {
	span, err := time.ParseDuration(text)
	if days, ok := strings.CutSuffix(text, "d"); ok && err != nil {
		n, parseErr := strconv.ParseInt(days, 10, 16) // more days would overflow the duration
		err = parseErr
		span = time.Duration(n) * 24 * time.Hour
	}
	isSpan := err == nil && span >= MinEvery && span <= MaxEvery
	if !isSpan {
		return Timetable{}, Errorf(CodeInvalid, op, "%q is no span from 1m to 366d", text).
			WithHint(`use a span such as 30m, 1h or 1d, or five fields of cron such as "0 9 * * 1-5"`)
	}
	return Timetable{span: span, zone: zone}, nil
}

// cronNames are the words that stand for five fields.
var cronNames = map[string]string{
	"@hourly": "0 * * * *", "@daily": "0 0 * * *", "@weekly": "0 0 * * 0", "@monthly": "0 0 1 * *", "@yearly": "0 0 1 1 *",
}

// A cronField is one of the five fields.
type cronField struct {
	name      string
	low, high int
	words     []string // that stand for numbers, beginning with low
	set       func(*Timetable) *uint64
}

// cronFields are the fields in their order.
var cronFields = []cronField{
	{"minute", 0, 59, nil, func(t *Timetable) *uint64 { return &t.minutes }},
	{"hour", 0, 23, nil, func(t *Timetable) *uint64 { return &t.hours }},
	{"day", 1, 31, nil, func(t *Timetable) *uint64 { return &t.days }},
	{"month", 1, 12, []string{"jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"}, func(t *Timetable) *uint64 { return &t.months }},
	{"weekday", 0, 7, []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}, func(t *Timetable) *uint64 { return &t.weekdays }},
}

// parse returns the numbers of a field: a list of *, N and N-M, each with /STEP or without.
func (f cronField) parse(op, text string) (set uint64, err error) {
	wrong := func() error {
		return Errorf(CodeInvalid, op, "the %s %q is not made of numbers from %d to %d", f.name, text, f.low, f.high).
			WithHint("use *, a number, a range such as 1-5, a step such as */15, or a list of them")
	}
	for part := range strings.SplitSeq(text, ",") {
		span, stepText, hasStep := strings.Cut(part, "/")
		step := 1
		if hasStep {
			step, err = strconv.Atoi(stepText)
			if isStep := err == nil && step >= 1 && step <= f.high-f.low+1; !isStep {
				return 0, wrong()
			}
		}
		low, high, ok := f.bounds(span, hasStep)
		if !ok {
			return 0, wrong()
		}
		for n := low; n <= high; n += step {
			set |= 1 << n
		}
	}
	return set, nil
}

// bounds returns the first and the last number of *, N or N-M. A number with a step goes on to the
// end of the field.
func (f cronField) bounds(span string, hasStep bool) (low, high int, ok bool) {
	if span == "*" {
		return f.low, min(f.high, f.last()), true
	}
	from, to, isRange := strings.Cut(span, "-")
	low, ok = f.number(from)
	if !ok {
		return 0, 0, false
	}
	switch {
	case isRange:
		high, ok = f.number(to)
	case hasStep:
		high = f.last()
	default:
		high = low
	}
	return low, high, ok && low <= high
}

// last returns the last number of the field, without the second one for Sunday.
func (f cronField) last() int {
	if f.name == "weekday" {
		return 6
	}
	return f.high
}

// number returns the number that a text stands for.
func (f cronField) number(text string) (int, bool) {
	for i, word := range f.words {
		if strings.EqualFold(word, text) {
			return f.low + i, true
		}
	}
	n, err := strconv.Atoi(text)
	return n, err == nil && n >= f.low && n <= f.high && text[0] != '+'
}

// maxCronDays is how far the next day of a calendar is searched for: a leap day comes again within
// eight years.
const maxCronDays = 8*366 + 1

// Next returns the first time after another at which the schedule is due; the zero time if there
// is none. A time that a change to summer time leaves out is an hour off, and one that comes twice
// in the night of the change back counts once.
func (t Timetable) Next(after time.Time) Time {
	if t.span > 0 {
		return At(after.Add(t.span))
	}
	local := after.In(t.zone)
	year, month, day := local.Date()
	for i := range maxCronDays {
		date := time.Date(year, month, day+i, 12, 0, 0, 0, t.zone)
		if !t.onDay(date) {
			continue
		}
		for hour := range 24 {
			if t.hours>>hour&1 == 0 {
				continue
			}
			for minute := range 60 {
				if t.minutes>>minute&1 == 0 {
					continue
				}
				at := time.Date(date.Year(), date.Month(), date.Day(), hour, minute, 0, 0, t.zone)
				if at.After(after) {
					return At(at)
				}
			}
		}
	}
	return Time{}
}

// onDay reports whether the calendar has a day.
func (t Timetable) onDay(date time.Time) bool {
	inMonth := t.months>>int(date.Month())&1 == 1
	onDate := t.days>>date.Day()&1 == 1
	onWeekday := t.weekdays>>int(date.Weekday())&1 == 1
	if t.eitherDay {
		return inMonth && (onDate || onWeekday)
	}
	return inMonth && onDate && onWeekday
}
