// Package hub is the domain of Parley: its nouns, their state machines, the
// errors that cross package boundaries, and the interfaces of storage (Store)
// and of hints between consumers (Bus).
//
// The nouns, in the order in which a reader meets them:
//
//   - An [Agent] is a program with an identity on this hub; a [Caller] is the
//     authenticated party behind one request.
//   - An [Envelope] is one message; a [Delivery] is one attempt to bring it to
//     one recipient over one [Channel].
//   - A [Handoff] is a task that changes its owner; a [Run] is one task given to
//     one agent process.
//   - A [coord.Project] is several repositories that agree on contracts ([coord.Contract])
//     and share context ([coord.Packet]); a [Peer] is another hub that takes part.
//   - An [Entry] of the journal records each change, chained to the one before.
//
// A state machine is one table and one pure method (Advance, CanBecome, After);
// the store repeats the table, so that no writer can leave it. The package
// decides nothing and stores nothing: services decide, engines store, and both
// use the words of docs/glossary.md.
//
// Other programs may import it: no type of a third-party module appears in an
// exported name.
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

// String returns t as it is stored and sent, "" if it was never set. It inserts the milliseconds into a
// layout that package time has a fast path for, which takes a third of the time
// of timeLayout; every stored row has several times.
func (t Time) String() string {
	if t.IsZero() {
		return ""
	}
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

// MarshalJSON writes t as it is stored. A time that was never set is null; members with
// the option omitzero leave it out.
func (t Time) MarshalJSON() ([]byte, error) {
	if t.IsZero() {
		return []byte("null"), nil
	}
	return []byte(`"` + t.String() + `"`), nil
}

// UnmarshalJSON reads an ISO 8601 time with a zone.
func (t *Time) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		*t = Time{}
		return nil
	}
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

// A Clock returns the current time. It is passed in wherever time is needed, so
// that tests choose the time.
type Clock func() time.Time

// Now returns the clock's time with the precision that is stored.
func (c Clock) Now() Time { return At(c()) }

// AtMilli returns the Time of a count of milliseconds since 1970.
func AtMilli(ms int64) Time { return At(time.UnixMilli(ms)) }
