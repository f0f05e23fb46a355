package hub

import "strconv"

// A ShortID names a message (m17) or a handoff (h3) on one hub, for readers that pay
// for every character. It is given in order of arrival and never again. It stays on
// its hub: no peer gets it, and no hash covers it. Where an id is read, a short id
// is read too.
type ShortID string

// The kinds of short ids, which are their first letters.
const (
	ShortMessage = "m"
	ShortHandoff = "h"
)

// Split returns the kind and the number of s; ok is false if s has not the form of
// a short id.
func (s ShortID) Split() (kind string, n int64, ok bool) {
	hasForm := len(s) >= 2 && len(s) <= 19 && s[1] >= '1' && s[1] <= '9'
	if !hasForm {
		return "", 0, false
	}
	kind = string(s[:1])
	n, err := strconv.ParseInt(string(s[1:]), 10, 64)
	return kind, n, err == nil && (kind == ShortMessage || kind == ShortHandoff)
}

// Is reports whether s has the form of a short id of a kind.
func (s ShortID) Is(kind string) bool {
	got, _, ok := s.Split()
	return ok && got == kind
}
