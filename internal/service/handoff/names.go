package handoff

import (
	"encoding/json"
	"math"
	"math/big"
	"strconv"
	"strings"
	"unicode"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/ground/strictjson"
	"github.com/parley-agents/parley/internal/ground/text/plaintext"
)

// A nameTree holds the names that the protocol defines for the members of an
// object and of the objects in it. items is for the entries of an array.
type nameTree struct {
	names   string // separated by blanks
	members map[string]*nameTree
	items   *nameTree
}

var refNames = &nameTree{names: "type value path sha256 description version size_bytes required"}

// packageNames are the names of the handoff package.
var packageNames = &nameTree{
	names: "protocol version handoff_id thread_id task context work_state artifacts provenance policy verification unproven expect scope checks review continuation",
	members: map[string]*nameTree{
		"task": {
			names:   "task_id title objective success_criteria deadline priority external_refs",
			members: map[string]*nameTree{"external_refs": {items: refNames}},
		},
		"context":    {names: "summary constraints assumptions open_questions known_risks"},
		"work_state": {names: "status percent_complete completed_steps next_step branch worktree_path test_status"},
		"artifacts": {items: &nameTree{
			names:   "artifact_id ref",
			members: map[string]*nameTree{"ref": refNames},
		}},
		"provenance":   {names: "origin_session related_sessions decision_refs message_thread_refs handoff_chain"},
		"policy":       {names: "classification requires_human_approval export_restrictions"},
		"verification": {names: "schema_version package_hash"},
		"expect":       {names: "paths merge"},
	},
}

// check refuses input that two readers could take for different things: in the
// objects that the protocol defines, a name that differs from another in case only;
// anywhere, a number that the canonical form of the package would change.
func (s *nameTree) check(path string, v any) error {
	const op = "handoff.Initiate"
	switch v := v.(type) {
	case map[string]any:
		var seen strictjson.Names
		if s != nil {
			for _, name := range strings.Fields(s.names) {
				seen.Add(name)
			}
		}

		// A member that the protocol does not define has no tree: its names are not compared.
		for name, inner := range v {
			below := path + "." + name
			var known *nameTree
			if s != nil {
				if twin, found := seen.Add(name); found && twin != name {
					return hub.Errorf(hub.CodeInvalid, op, "%s differs from %s only in case", below, twin).WithHint("names are lower-case")
				}
				known = s.members[name]
			}
			if err := known.check(below, inner); err != nil {
				return err
			}
		}

	case []any:
		var known *nameTree
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
			return hub.Errorf(hub.CodeInvalid, op, "%s: the number has more digits, or a greater exponent, than a double can hold", path).
				WithHint("write it as a string")
		}
	}
	return nil
}

// exact reports whether a number keeps its value as a double.
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

// invisible reports whether a character cannot be seen, other than a blank.
func invisible(r rune) bool { return !plaintext.Visible(r) }

// visibleRune reports whether a character can be seen.
func visibleRune(r rune) bool {
	return !plaintext.Hidden(r) && unicode.IsGraphic(r) && !unicode.IsSpace(r)
}
