package cli

import (
	"bytes"
	"encoding/json"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tailscale/hujson"

	"github.com/parley-agents/parley/hub"
)

// An Addition is a part of a CLI's own files beside its MCP servers and instructions:
// hooks among others in a JSON file, or a file of its own. It is for the user's files.
type Addition struct {
	Path string // in the folder of the CLI's configuration

	// Hooks are entries of the lists in the member hooks of the file, by event.
	Hooks map[string]json.RawMessage
	Text  string // of a file of its own; empty with Hooks
	Mark  string // a part of every entry and text, by which it is known again
}

// A file is a part of the user's files that connects every session of a CLI with the
// hub, as a Plan connects one.
type file struct {
	Path  string            // in the folder of the CLI's configuration
	Hooks map[string]object // entries of the hooks in a JSON file, by event; nil for a file of its own
	Text  string            // of a file of its own
	Mark  string            // a part of each entry and of the text, by which it is known again
}

// Permanent returns the additions to the CLI's files that connect every session, for a
// program with its flags.
func (c CLI) Permanent(program []string) ([]Addition, error) {
	if c.stay == nil {
		return nil, nil
	}
	var out []Addition
	for _, f := range c.stay(c, program) {
		a := Addition{Path: f.Path, Text: f.Text, Mark: f.Mark}
		for event, entry := range f.Hooks {
			raw, err := json.Marshal(entry)
			if err != nil {
				return nil, err
			}
			if a.Hooks == nil {
				a.Hooks = map[string]json.RawMessage{}
			}
			a.Hooks[event] = raw
		}
		out = append(out, a)
	}
	return out, nil
}

// hookFile returns a file with the hooks of the CLI among others. timeout is in the
// unit of the CLI.
func hookFile(path string, timeout int) func(CLI, []string) []file {
	return func(c CLI, program []string) []file {
		hooks := map[string]object{}
		for _, h := range c.hooks {
			hooks[h.Name] = c.hookEntry(program, h, timeout)
		}
		return []file{{Path: path, Hooks: hooks, Mark: " wake hook " + c.Name}}
	}
}

// Extend adds to a change the edits that put additions into the CLI's files, or, if on is false,
// takes them out again. A file that the change edits already is edited once. It writes
// nothing.
func Extend(cli CLI, c Change, additions []Addition, at Place, on bool) (Change, error) {
	const op = "cli.Extend"
	files, err := cli.files(op, at)
	if err != nil {
		return c, err
	}
	if at.Scope == ScopeProject {
		return c, hub.Errorf(hub.CodeInvalid, op, "hooks are added for the user, not for a project").WithHint("remove --scope")
	}

	p := editor{op: op, at: at, change: c}
	for _, a := range additions {
		path := filepath.Join(filepath.Dir(files.instruction.paths[0]), filepath.FromSlash(a.Path))
		before, err := p.read(path)
		if err != nil {
			return c, err
		}

		// Hooks share a file with others. A file of the hub goes only if it still has the mark.
		after := []byte(a.Text)
		what := "the file of the hub"
		text := a.Text
		switch {
		case a.Hooks != nil:
			if after, err = a.apply(before, on); err != nil {
				return c, p.refused(path, before, err)
			}
			what, text = "the hooks of the hub", a.show()
		case !on && bytes.Contains(before, []byte(a.Mark)):
			after = nil
		case !on: // it is not ours
			after = before
		}
		if !on {
			text = ""
		}
		p.merge(path, what, before, after, text)
	}

	return p.change, nil
}

// read returns the content of a file after the edits that are planned.
func (p *editor) read(path string) ([]byte, error) {
	for _, e := range p.change.Edits {
		if e.Path == path {
			return e.After, nil
		}
	}
	return readFile(p.op, path)
}

// merge adds an edit to the one of the same file, if there is one.
func (p *editor) merge(path, what string, before, after []byte, text string) {
	for i := range p.change.Edits {
		if e := &p.change.Edits[i]; e.Path == path && !bytes.Equal(before, after) {
			e.What += " and " + what
			e.After = after
			e.text += "\n" + text
			return
		}
	}
	p.add(path, what, before, after, text, false)
}

// show returns the entries for people.
func (a Addition) show() string {
	var b strings.Builder
	for _, event := range slices.Sorted(maps.Keys(a.Hooks)) {
		b.WriteString(event + ": " + string(a.Hooks[event]) + "\n")
	}
	return b.String()
}

// apply returns a JSON file with the entries, each once and up to date, or without
// them. Other entries keep their bytes; a list or object without a member goes.
func (a Addition) apply(doc []byte, on bool) (_ []byte, err error) {
	f := jsonFormat{comments: true}
	if len(bytes.TrimSpace(doc)) == 0 {
		if !on {
			return doc, nil
		}
		doc = []byte("{}\n")
	}

	// The entries of an earlier version go first, so that none is there twice.
	for _, event := range slices.Sorted(maps.Keys(a.Hooks)) {
		path := []string{"hooks", event}
		if doc, err = a.without(f, doc, path); err != nil {
			return nil, err
		}
		if !on {
			continue
		}

		d, found, _, err := f.open(doc, path)
		if err != nil {
			return nil, err
		}
		if len(found) < len(path) {
			doc, err = f.set(doc, path, raw("["+string(a.Hooks[event])+"]"))
		} else {
			list, ok := found[1].Value.Value.(*hujson.Array)
			if !ok {
				return nil, &flaw{found[1].Value.StartOffset, "the hooks of " + event + " are not a list"}
			}
			entry, parse := hujson.Parse(a.Hooks[event])
			if parse != nil {
				return nil, parse
			}
			list.Elements = append(list.Elements, entry)
			doc = d.pack()
		}
		if err != nil {
			return nil, err
		}
	}

	// A list of hooks that is empty now goes, and so does a file without another member.
	if d, err := f.parse(doc); err == nil && !on && d.root != nil {
		if hooks := d.root.Find("/hooks"); hooks != nil && len(hooks.Value.(*hujson.Object).Members) == 0 {
			if doc, err = f.cut(doc, []string{"hooks"}); err != nil {
				return nil, err
			}
		}
		if compact := bytes.Join(bytes.Fields(doc), nil); string(compact) == "{}" {
			return nil, nil // there is nothing else in it
		}
	}
	return doc, nil
}

// without takes the entries with the mark out of a list, and an empty list out of its
// object.
func (a Addition) without(f jsonFormat, doc []byte, path []string) ([]byte, error) {
	d, found, _, err := f.open(doc, path)
	if err != nil || len(found) < len(path) {
		return doc, err
	}
	list, ok := found[1].Value.Value.(*hujson.Array)
	if !ok {
		return doc, nil
	}
	kept := slices.DeleteFunc(slices.Clone(list.Elements), func(v hujson.Value) bool { return bytes.Contains(v.Pack(), []byte(a.Mark)) })
	switch {
	case len(kept) == len(list.Elements):
		return doc, nil
	case len(kept) == 0:
		return f.cut(doc, path)
	}
	list.Elements = kept
	return d.pack(), nil
}

// raw is a value that is JSON already.
type raw string
