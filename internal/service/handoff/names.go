package handoff

import (
	"encoding/json"
	"math"
	"math/big"
	"strconv"
	"strings"
	"unicode"

	"github.com/parley-agents/parley/hub"
)

// A shapeNames is what the objects of a package may call their members, as far
// as the protocol defines them. items is for the entries of an array.
type shapeNames struct {
	names   string // separated by blanks
	members map[string]*shapeNames
	items   *shapeNames
}

var refNames = &shapeNames{names: "type value path sha256 description version size_bytes required"}

// packageNames are the names of the handoff package.
var packageNames = &shapeNames{
	names: "protocol version handoff_id thread_id task context work_state artifacts provenance policy verification",
	members: map[string]*shapeNames{
		"task": {
			names:   "task_id title objective success_criteria deadline priority external_refs",
			members: map[string]*shapeNames{"external_refs": {items: refNames}},
		},
		"context":    {names: "summary constraints assumptions open_questions known_risks"},
		"work_state": {names: "status percent_complete completed_steps next_step branch worktree_path test_status"},
		"artifacts": {items: &shapeNames{
			names:   "artifact_id ref",
			members: map[string]*shapeNames{"ref": refNames},
		}},
		"provenance":   {names: "origin_session related_sessions decision_refs message_thread_refs handoff_chain"},
		"policy":       {names: "classification requires_human_approval export_restrictions"},
		"verification": {names: "schema_version package_hash"},
	},
}

// check refuses what two readers could take differently: a name that differs
// from one of the protocol's in case only, and a number that the canonical form
// of the package would change.
func (s *shapeNames) check(path string, v any) error {
	const op = "handoff.Initiate"
	switch v := v.(type) {
	case map[string]any:
		for name, inner := range v {
			below := path + "." + name
			var known *shapeNames
			if s != nil {
				for _, n := range strings.Fields(s.names) {
					if n != name && strings.EqualFold(n, name) {
						return hub.Errorf(hub.CodeInvalid, op, "%s: differs from %s in case only", below, n).WithHint("names are lower-case")
					}
				}
				known = s.members[name]
			}
			if err := known.check(below, inner); err != nil {
				return err
			}
		}
	case []any:
		var known *shapeNames
		if s != nil {
			known = s.items
		}
		for i, inner := range v {
			if err := known.check(path+"["+strconv.Itoa(i)+"]", inner); err != nil {
				return err
			}
		}
	case json.Number:
		if !exact(string(v)) {
			return hub.Errorf(hub.CodeInvalid, op, "%s: the number has more digits, or is greater or smaller, than every reader can keep", path).
				WithHint("write it as a string")
		}
	}
	return nil
}

// exact reports whether a number is the same after it was read as a double.
func exact(number string) bool {
	f, err := strconv.ParseFloat(number, 64)
	if err != nil || math.IsInf(f, 0) {
		return false
	}
	if f == 0 {
		mantissa, _, _ := strings.Cut(strings.ToLower(number), "e")
		return !strings.ContainsAny(mantissa, "123456789")
	}
	if len(number) > 400 { // no double needs that many
		return false
	}
	given, ok := new(big.Rat).SetString(number)
	kept, ok2 := new(big.Rat).SetString(strconv.FormatFloat(f, 'e', -1, 64))
	return ok && ok2 && given.Cmp(kept) == 0
}

// checkTaskID refuses names of tasks that look like others: blanks around them,
// or characters that cannot be seen.
func checkTaskID(op, id string) error {
	plain := strings.TrimSpace(id) == id
	for _, r := range id {
		plain = plain && unicode.IsPrint(r)
	}
	if !plain {
		return hub.Errorf(hub.CodeInvalid, op, "package.task.task_id: %q has blanks around it, or characters that cannot be seen", id)
	}
	return nil
}

// saysSomething reports whether a text has a character that can be seen.
func saysSomething(text string) bool {
	return strings.ContainsFunc(text, func(r rune) bool { return unicode.IsGraphic(r) && !unicode.IsSpace(r) })
}
