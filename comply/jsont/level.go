package jsont

import "strings"

// A Level says how binding a rule is.
type Level string

// The levels. Only what breaks a MUST fails a test.
const (
	Must     Level = "MUST"
	Should   Level = "SHOULD"
	May      Level = "MAY"
	Advisory Level = "ADV" // the protocol is silent; reported, never held against an agent
)

func parseLevel(s string) (Level, bool) {
	switch l := Level(strings.ToUpper(s)); l {
	case Must, Should, May, Advisory:
		return l, true
	}
	return "", false
}
