package strictjson

import (
	"encoding/json"
	"strconv"

	"github.com/parley-agents/parley/internal/ground/text/shorten"
)

// A Count is a number of at least 1 that a caller may leave out: a limit, a part, a
// size. The zero Count was not given and stands for a default. A written 0 is not a
// Count: it is refused in JSON, in YAML and as the value of a flag.
type Count int

// UnmarshalJSON reads a positive integer, or null for a Count that was not given.
func (c *Count) UnmarshalJSON(raw []byte) error {
	if string(raw) == "null" {
		*c = 0
		return nil
	}
	var n int
	if err := json.Unmarshal(raw, &n); err != nil {
		return &Error{Text: "must be an integer, not " + shorten.Quote(string(raw))}
	}
	return c.set(n)
}

// UnmarshalText reads a positive integer.
func (c *Count) UnmarshalText(text []byte) error { return c.Set(string(text)) }

// Set reads a positive integer from the value of a flag.
func (c *Count) Set(text string) error {
	n, err := strconv.Atoi(text)
	if err != nil {
		return &Error{Text: "must be an integer, not " + shorten.Quote(text)}
	}
	return c.set(n)
}

func (c *Count) set(n int) error {
	if n < 1 {
		return &Error{Text: "must be at least 1, not " + strconv.Itoa(n) + "; leave it out for the default"}
	}
	*c = Count(n)
	return nil
}

// String returns the number, "0" for a Count that was not given.
func (c *Count) String() string { return strconv.Itoa(int(*c)) }

// Type returns the word for the value in the help text of a flag.
func (*Count) Type() string { return "int" }
