package proof

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/parley-agents/parley/internal/ground/text/shorten"
)

// Leaves lists what strangers read in a file, beside ids, times, numbers and hashes.
type Leaves struct {
	Folders  []string `json:"folders"`
	Machines []string `json:"machines"`
	Names    []string `json:"names"`
	Texts    []string `json:"texts"` // each shortened
}

// Members of records and facts by what they hold.
var (
	folderMembers  = []string{"repository", "path", "dir", "worktree", "folder", "file"}
	machineMembers = []string{"machine", "hub"}
	nameMembers    = []string{"owner", "from", "to", "by", "agent", "actor", "reviewer", "for", "authors", "asked", "reviewers", "approved_by", "deciders", "verdict_by", "fetched", "into", "branch", "ref", "name", "checks", "repo", "repo_id", "agent_id", "proposed_by", "project_id"}
)

// shownText is the number of bytes of a text that are shown before it leaves.
const shownText = 120

// A leaving gathers what leaves in a file.
type leaving struct{ folders, machines, names, texts map[string]bool }

// leavesOf lists what strangers read in a file.
func leavesOf(g *gathering) Leaves {
	l := leaving{map[string]bool{}, map[string]bool{}, map[string]bool{}, map[string]bool{}}
	for _, p := range g.parts {
		l.add("", p.record)
	}
	for _, row := range g.rows {
		l.names[row.Actor] = true
		l.add("", []byte(row.Facts))
	}
	list := func(found map[string]bool) []string { return append([]string{}, slices.Sorted(maps.Keys(found))...) }
	return Leaves{list(l.folders), list(l.machines), list(l.names), list(l.texts)}
}

// add adds the texts in a value; member is the name of the member that has it.
func (l leaving) add(member string, raw []byte) {
	var members map[string]json.RawMessage
	if json.Unmarshal(raw, &members) == nil {
		for name, value := range members {
			if member == "fetched" {
				l.names[name] = true
			}
			l.add(name, value)
		}
		return
	}
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) == nil {
		for _, value := range list {
			l.add(member, value)
		}
		return
	}
	var text string
	if json.Unmarshal(raw, &text) != nil || text == "" {
		return
	}
	l.put(member, text)
}

// put adds one text. A text of a member that is known to hold something else is one for people if it
// has a blank.
func (l leaving) put(member, text string) {
	isPath := strings.HasPrefix(text, "/") || strings.Contains(text, `:\`)
	switch {
	case slices.Contains(machineMembers, member):
		l.machines[text] = true
	case slices.Contains(folderMembers, member) || (isPath && !strings.Contains(text, " ")):
		l.folders[text] = true
	case strings.ContainsAny(text, " \t\n"):
		l.texts[shorten.Bytes(strings.ToValidUTF8(text, ""), shownText)] = true
	case slices.Contains(nameMembers, member):
		l.names[text] = true
	case member == "title" || member == "note" || member == "because" || member == "reason" || member == "text" || member == "decision" || member == "content":
		l.texts[text] = true
	}
}
