package cli

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/parley-agents/parley/hub"
)

// allowPath leads to the list of tools that Claude Code uses without asking.
var allowPath = []string{"permissions", "allow"}

// Refuses reports whether a CLI without a user in front of it refuses tools that are not in a
// list of its own: claude -p does.
func (c CLI) Refuses() bool { return c.allowFile != nil }

// Allow works out how to let a CLI use the tools of a server without asking, or, if
// allowed is false, how to take that back. It writes nothing. The Change is empty for
// a CLI that needs no such list, and when all is as it should be.
func Allow(cli CLI, name string, at Place, allowed bool) (Change, error) {
	const op = "cli.Allow"
	out := Change{CLI: cli.Name, Edits: []Edit{}}
	name, err := checkName(op, name)
	if err != nil || !cli.Refuses() {
		return out, err
	}

	files, err := cli.files(op, at)
	if err != nil {
		return out, err
	}
	path := cli.allowFile(files, at)
	doc, err := readFile(op, path)
	if err != nil {
		return out, err
	}

	var settings struct {
		Permissions struct {
			Allow []string `json:"allow"`
		} `json:"permissions"`
	}
	if doc != nil {
		if err := json.Unmarshal(doc, &settings); err != nil {
			return out, hub.Errorf(hub.CodeInvalid, op, "cannot parse %s: %v", path, err).WithHint("fix the file; nothing was written")
		}
	}

	rule := "mcp__" + name
	list := slices.DeleteFunc(slices.Clone(settings.Permissions.Allow), func(r string) bool { return r == rule })

	// Nothing changes if the rule is there exactly when it should be. An empty list is cut out.
	var after []byte
	switch f := (jsonFormat{}); {
	case allowed == (len(list) < len(settings.Permissions.Allow)):
		return out, nil
	case allowed && doc == nil:
		settings.Permissions.Allow = []string{rule}
		after, err = json.MarshalIndent(settings, "", "  ")
		after = append(after, '\n')
	case !allowed && len(list) == 0:
		after, err = f.cut(doc, allowPath)
	case allowed:
		after, err = f.set(doc, allowPath, append(list, rule))
	default:
		after, err = f.set(doc, allowPath, list)
	}
	if err != nil {
		return out, hub.Errorf(hub.CodeInvalid, op, "cannot edit %s: %v", path, err)
	}

	if !bytes.Equal(doc, after) {
		out.Edits = append(out.Edits, Edit{Path: path, What: "the permission to use the tools of " + name + " without asking", Before: doc, After: after, mode: 0o600, folder: 0o755})
	}
	return out, nil
}
