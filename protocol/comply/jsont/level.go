package jsont

import "strings"

// A Level tells how binding a rule is.
type Level string

// The levels. Only a broken MUST fails a test.
const (
	Must     Level = "MUST"
	Should   Level = "SHOULD"
	May      Level = "MAY"
	Advisory Level = "ADV" // advice where the protocol is silent; reported, never a failure

	// OfTest is the level of an expectation of an optional test that belongs to no rule. It
	// decides the status of its test, and never fails a run. No file names it.
	OfTest Level = "optional"
)

// parseLevel reads a level in any case.
func parseLevel(s string) (Level, bool) {
	switch l := Level(strings.ToUpper(s)); l {
	case Must, Should, May, Advisory:
		return l, true
	}
	return "", false
}
