package goodagent

import "slices"

// implied says which rules nobody can keep who breaks another, whatever way it is
// broken in. What follows from one way only stands with the mutant.
var implied = map[string][]string{
	"ADIR-01":  {"SNEW-01"},             // a session that is not opened has no id
	"ADIR-02":  {"SNEW-01"},             // likewise
	"ADIR-10":  {"SNEW-01"},             // likewise
	"AUTH-06":  {"AUTH-13"},             // a login that is there is said to be missing
	"CFG-11":   {"MODE-05"},             // modes that were not offered are changed to
	"CNT-02":   {"PRM-13"},              // what is no text says nothing
	"CNT-11":   {"PRM-13"},              // likewise
	"ELI-01":   {"ELI-17"},              // who asks has no other way
	"INIT-01":  {"SLIST-12"},            // what was not advertised is used
	"INIT-10":  {"INIT-01"},             // a client is refused
	"INIT-20":  {"AUTH-13"},             // a login is wanted that no client could have made
	"MCP-10":   {"MCP-11"},              // what is not told is not shown
	"MODE-01":  {"CFG-11", "MODE-02"},   // no setting has that value, and nobody can change back to it
	"MODE-09":  {"MODE-05"},             // modes that were not offered are changed to
	"PERM-05":  {"PERM-13"},             // a permission that comes late is one, too
	"PRM-02":   {"STOP-01"},             // a reason of its own is not end_turn
	"PRM-16":   {"SLOAD-08", "SRES-06"}, // what is not kept until the next turn is not kept for later
	"SCLO-03":  {"CAN-05"},              // the turn in the session was cancelled with it
	"SFRK-01":  {"SNEW-10"},             // a session without an id cannot be known
	"SFRK-02":  {"SNEW-10", "SFRK-05"},  // nor one under the id of another, whose folders it has
	"SLIST-11": {"ADIR-06", "SCLO-07"},  // what is not listed is not listed with its folders, or when it is closed
	"SLOAD-01": {"ADIR-02", "SLOAD-09"}, // not with folders, nor after a restart
	"SLOAD-05": {"SLOAD-06"},            // two messages become one
	"SLOAD-11": {"ADIR-09", "FS-11"},    // the old folder is outside
	"SNEW-01":  {"SNEW-10"},             // a session without an id cannot be known
	"SNEW-02": { // two sessions become one
		"SCLO-06", "SLIST-04", "SLOAD-06", "SNEW-04", "SNEW-10",
	},
	"SNEW-03": { // all that is done is done outside
		"ADIR-08", "ADIR-09", "FS-08", "FS-11", "PERM-05", "PERM-13", "SLOAD-11",
	},
	"STOP-05": {"STOP-01"}, // a turn that nobody cancelled has come to its end
	"TERM-03": {"TERM-11"}, // nor are those of cancelled turns
	"TERM-06": {"TERM-11"}, // cancelling kills
	"TOOL-01": { // what is not told has no state, and shows nothing
		"FS-10", "MCP-10", "MCP-11", "TERM-09", "TOOL-08", "TOOL-09", "TOOL-17",
	},
	"TOOL-08": {"TERM-10", "UPD-17"},  // what was shown meanwhile is shown later
	"TOOL-10": {"MCP-11"},             // what is shown is no block of content
	"TOOL-17": {"TOOL-02", "TOOL-09"}, // a call that was asked about is announced anew
	"TRN-06":  {"TRN-08"},             // what is long comes in several reads
	"UPD-02":  {"SLOAD-05"},           // what is said again without words is not said
	"UPD-03":  {"PRM-13"},             // likewise
	"UPD-07":  {"PLAN-01", "PLAN-04"}, // a plan that cannot be read is none
}

// Broken returns the rules that the mutant breaks, its own first.
func (m *Mutant) Broken() []string {
	return slices.Concat([]string{m.Rule}, m.Breaks, implied[m.Rule])
}
