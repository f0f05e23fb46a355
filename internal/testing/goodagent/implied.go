package goodagent

import "slices"

// implied has, for each rule, the rules that an agent also breaks when it breaks it in any
// way. A rule that follows from one way only is in Breaks of the mutant.
var implied = map[string][]string{
	"ADIR-01":  {"SNEW-01"},                      // a session that is not opened has no id
	"ADIR-02":  {"SNEW-01"},                      // likewise
	"ADIR-10":  {"SNEW-01"},                      // likewise
	"AUTH-06":  {"AUTH-13"},                      // a login that is there is said to be missing
	"CFG-11":   {"MODE-05"},                      // modes that were not offered are changed to
	"CNT-02":   {"PRM-13"},                       // a block without text has no words
	"CNT-11":   {"PRM-13"},                       // likewise
	"ELI-01":   {"ELI-17"},                       // an agent that asks has no other way
	"INIT-01":  {"SLIST-12"},                     // a capability that was not advertised is used
	"INIT-10":  {"INIT-01"},                      // a client is refused
	"INIT-20":  {"AUTH-13"},                      // a login is wanted that no client could have made
	"MCP-10":   {"MCP-11"},                       // a call that is not reported is not shown
	"MODE-01":  {"CFG-11", "MODE-02", "SNEW-04"}, // no setting has that value, the client cannot change back to it, and a loaded session is in another
	"MODE-09":  {"MODE-05"},                      // modes that were not offered are changed to
	"PERM-05":  {"PERM-13"},                      // a permission that comes late is one, too
	"PRM-02":   {"STOP-01"},                      // a reason of its own is not end_turn
	"PRM-16":   {"SLOAD-08", "SRES-06"},          // text that is not kept until the next turn is not kept for later
	"SCLO-03":  {"CAN-05"},                       // the turn in the session was cancelled with it
	"SFRK-01":  {"SNEW-10"},                      // a session without an id cannot be known
	"SFRK-02":  {"SNEW-10", "SFRK-05"},           // nor one under the id of another, whose folders it has
	"SLIST-11": {"ADIR-06", "SCLO-07"},           // a session that is not listed is not listed with its folders, or when it is closed
	"SLOAD-01": {"ADIR-02", "SLOAD-09"},          // not with folders, nor after a restart
	"SLOAD-05": {"SLOAD-06"},                     // two messages become one
	"SLOAD-11": {"ADIR-09", "FS-11"},             // the old folder is outside
	"SNEW-01":  {"SNEW-10"},                      // a session without an id cannot be known
	"SNEW-02": { // two sessions become one
		"SCLO-06", "SLIST-04", "SLOAD-06", "SNEW-04", "SNEW-10", "UPD-22",
	},
	"SNEW-03": { // all that is done is done outside
		"ADIR-08", "ADIR-09", "FS-08", "FS-11", "PERM-05", "PERM-13", "SLOAD-11",
	},
	"STOP-05": {"STOP-01"}, // a turn without a cancel has come to its end
	"TERM-03": {"TERM-11"}, // nor are those of cancelled turns
	"TERM-06": {"TERM-11"}, // cancelling kills
	"TOOL-01": { // a call that is not reported has no state, and shows nothing
		"FS-10", "MCP-10", "MCP-11", "TERM-07", "TERM-09", "TOOL-08", "TOOL-09", "TOOL-17",
	},
	"TOOL-08": {"TERM-10", "UPD-17"},  // content that was due meanwhile is shown later
	"TOOL-10": {"MCP-11"},             // the shown content is not a block
	"TOOL-17": {"TOOL-02", "TOOL-09"}, // a call that was asked about is announced anew
	"TRN-06":  {"TRN-08"},             // a long line comes in several reads
	"UPD-02":  {"SLOAD-05"},           // a message that is repeated without its text is lost
	"UPD-03":  {"PRM-13"},             // likewise
	"UPD-07":  {"PLAN-01", "PLAN-04"}, // a plan that cannot be read is none
}

// Broken returns the rules that the mutant breaks, its own first.
func (m *Mutant) Broken() []string {
	return slices.Concat([]string{m.Rule}, m.Breaks, implied[m.Rule])
}
