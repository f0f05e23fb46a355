// Package hub is the domain of Parley: its nouns, their state machines, the
// errors that cross package boundaries, and what a hub stands on (Store, Bus).
//
// It decides nothing and keeps nothing. Services decide, engines keep; both
// speak in the words of this package. It imports nothing but the standard
// library and, for reading JSON strictly, go-json-experiment, none of whose
// types it exports; so other programs can import it lightly.
package hub

import (
	"encoding/json"
	"fmt"
	"time"
)

// Protocol and Version mark every envelope that this hub writes.
const (
	Protocol = "acp"
	Version  = "1.0.0"
)

// timeLayout has a fixed width, so that stored times sort as text.
const timeLayout = "2006-01-02T15:04:05.000Z"

// A Time is an instant in UTC with millisecond precision. It is stored and
// sent as YYYY-MM-DDTHH:MM:SS.mmmZ.
type Time struct{ time.Time }

// At returns t as a Time, cut to the millisecond.
func At(t time.Time) Time { return Time{t.UTC().Truncate(time.Millisecond)} }

// String returns t as it is stored and sent. A layout that package time knows by
// heart, with the milliseconds put in, takes a third of what timeLayout takes.
func (t Time) String() string {
	b := t.UTC().AppendFormat(make([]byte, 0, len(timeLayout)), time.RFC3339)
	ms := t.Nanosecond() / int(time.Millisecond)
	b = append(b[:len(b)-len("Z")], '.', byte('0'+ms/100), byte('0'+ms/10%10), byte('0'+ms%10), 'Z')
	return string(b)
}

// Add returns t moved by d.
func (t Time) Add(d time.Duration) Time { return At(t.Time.Add(d)) }

// ParseTime reads an ISO 8601 time with a zone, as any RFC 3339 time is.
func ParseTime(s string) (Time, error) {
	v, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		return Time{}, fmt.Errorf("%q is not an ISO 8601 time with a zone", s)
	}
	return At(v), nil
}

// MarshalJSON writes t as it is stored.
func (t Time) MarshalJSON() ([]byte, error) { return []byte(`"` + t.String() + `"`), nil }

// UnmarshalJSON reads an ISO 8601 time with a zone.
func (t *Time) UnmarshalJSON(b []byte) error {
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return fmt.Errorf("a time must be a string: %w", err)
	}
	v, err := ParseTime(s)
	if err != nil {
		return err
	}
	*t = v
	return nil
}

// A Clock tells the time. Everything that needs it gets one passed in.
type Clock func() time.Time

// Now returns the clock's time as it would be stored.
func (c Clock) Now() Time { return At(c()) }

// AtMilli returns the Time of a count of milliseconds since 1970.
func AtMilli(ms int64) Time { return At(time.UnixMilli(ms)) }
