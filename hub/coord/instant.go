package coord

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/parley-agents/parley/internal/ground/text/shorten"
)

// The forms of an Instant. Both have a fixed width, so that they sort as text.
const (
	zonedLayout = "2006-01-02T15:04:05.000000Z"
	naiveLayout = "2006-01-02T15:04:05.000000"
)

// latest bounds the instants that are taken from outside, so that there is
// always a later one that can be written with four digits for the year.
var latest = time.Date(9000, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro()

// An Instant is a point in time with microsecond precision, as coordination
// between hubs needs it. The zero value is no time at all.
type Instant struct {
	us    int64 // since 1970
	naive bool  // written without its zone
}

// InstantAt returns t cut to the microsecond.
func InstantAt(t time.Time) Instant { return Instant{us: t.UnixMicro()} }

// InstantMicro returns the Instant of a count of microseconds since 1970.
func InstantMicro(us int64) Instant { return Instant{us: us} }

// After returns the later of the clock's time and the microsecond after i: the
// time of a write to a thing that was last written at i, by any writer and
// by any clock.
func (i Instant) After(clock func() time.Time) Instant {
	return Instant{us: max(clock().UnixMicro(), i.us+1)}
}

// Micro returns the microseconds since 1970.
func (i Instant) Micro() int64 { return i.us }

// IsZero reports whether i is no time at all.
func (i Instant) IsZero() bool { return i.us == 0 }

// Compare returns -1, 0 or 1 as i is before, at or after j.
func (i Instant) Compare(j Instant) int {
	switch {
	case i.us < j.us:
		return -1
	case i.us > j.us:
		return 1
	}
	return 0
}

// Time returns i as a time in UTC.
func (i Instant) Time() time.Time { return time.UnixMicro(i.us).UTC() }

// Naive returns i as it is written for peers that know no zones.
func (i Instant) Naive() Instant {
	i.naive = true
	return i
}

// String returns i as it is stored and sent, or "" for no time.
func (i Instant) String() string {
	switch {
	case i.us == 0:
		return ""
	case i.naive:
		return i.Time().Format(naiveLayout)
	}
	return i.Time().Format(zonedLayout)
}

// ParseInstant reads an ISO 8601 time. One without a zone is in UTC; what is
// finer than a microsecond is cut off.
func ParseInstant(s string) (Instant, error) {
	t, err := time.Parse(time.RFC3339Nano, strings.Replace(s, " ", "T", 1))
	if err != nil {
		t, err = time.Parse("2006-01-02T15:04:05.999999999", strings.Replace(s, " ", "T", 1))
	}
	if err != nil {
		return Instant{}, fmt.Errorf("%s is not an ISO 8601 time", shorten.Quote(s))
	}
	i := InstantAt(t)
	if i.us <= 0 || i.us >= latest {
		return Instant{}, fmt.Errorf("%s is not between the years 1970 and 9000", shorten.Quote(s))
	}
	return i, nil
}

// MarshalJSON writes i as String does, or null.
func (i Instant) MarshalJSON() ([]byte, error) {
	if i.us == 0 {
		return []byte("null"), nil
	}
	return []byte(`"` + i.String() + `"`), nil
}

// UnmarshalJSON reads a text that ParseInstant accepts, or null.
func (i *Instant) UnmarshalJSON(b []byte) error {
	var s *string
	if err := json.Unmarshal(b, &s); err != nil {
		return fmt.Errorf("a time must be a string: %w", err)
	}
	*i = Instant{}
	if s == nil {
		return nil
	}
	v, err := ParseInstant(*s)
	if err != nil {
		return err
	}
	*i = v
	return nil
}
