package goodagent

import "slices"

// implied says which rules nobody can keep who breaks another, whatever way it is
// broken in. What follows from one way only stands with the mutant.
var implied = map[string][]string{
	"ADIR-01":  {"SNEW-01"},             // a session that is not opened has no id
	"ADIR-10":  {"SNEW-01"},             // likewise
	"AUTH-06":  {"AUTH-13"},             // a login that is there is said to be missing
	"CFG-11":   {"MODE-05"},             // modes that were not offered are changed to
	"INIT-01":  {"SLIST-12"},            // what was not advertised is used
	"INIT-10":  {"INIT-01"},             // a client is refused
	"INIT-20":  {"AUTH-13"},             // a login is wanted that no client could have made
	"MCP-10":   {"MCP-11"},              // what is not told is not shown
	"MODE-09":  {"MODE-05"},             // modes that were not offered are changed to
	"SCLO-03":  {"CAN-05"},              // the turn in the session was cancelled with it
	"SFRK-01":  {"SNEW-10"},             // a session without an id cannot be known
	"SFRK-02":  {"SNEW-10"},             // nor one under the id of another
	"SLOAD-05": {"SLOAD-06"},            // two messages become one
	"SLOAD-11": {"ADIR-09", "FS-11"},    // the old folder is outside
	"SNEW-01":  {"SNEW-10"},             // a session without an id cannot be known
	"SNEW-02":  {"SNEW-10", "SLOAD-06"}, // two sessions become one
	"SNEW-03":  {"ADIR-09", "FS-11"},    // the folder of the process is outside
	"TOOL-01":  {"TOOL-08"},             // what is not told is not in progress
	"TOOL-08":  {"TERM-10", "UPD-17"},   // what was shown meanwhile is shown later
	"TOOL-17":  {"TOOL-02", "TOOL-09"},  // a call that was asked about is announced anew
}

// Broken returns the rules that the mutant breaks, its own first.
func (m *Mutant) Broken() []string {
	return slices.Concat([]string{m.Rule}, m.Breaks, implied[m.Rule])
}
