package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/parley-agents/parley/hub"
)

// A format edits one kind of configuration file. It returns a new document, and
// refuses with a flaw where an edit would be a guess.
type format interface {
	// has reports whether there is a server of that name.
	has(doc []byte, name string) (bool, error)
	// put adds a server, or brings the one of that name up to date.
	put(doc []byte, name string, s server) ([]byte, error)
	// drop removes a server, and the object that put made to hold it.
	drop(doc []byte, name string) ([]byte, error)
	// show returns the text of a server, for people.
	show(name string, s server) string
}

// A Change is the set of edits that connect a CLI, or that undo it.
type Change struct {
	CLI   string   `json:"cli"`
	Edits []Edit   `json:"edits"` // empty when all is as it should be
	Notes []string `json:"notes,omitempty"`
}

// An Edit is a change to one file.
type Edit struct {
	Path   string `json:"path"`
	What   string `json:"what"` // the changed thing, for people
	Before []byte `json:"-"`    // nil if there is no file
	After  []byte `json:"-"`    // nil if the file goes

	text   string      // the added text, without the key
	mode   fs.FileMode // of a new file
	folder fs.FileMode // of a new folder
}

// maxFile is how many bytes a file may have to be edited.
const maxFile = 32 << 20

// PlanConnection works out how to add the hub to a CLI, or how to bring an entry that is
// there up to date. It writes nothing.
func PlanConnection(cli CLI, e Entry, at Place) (Change, error) {
	const op = "cli.PlanConnection"
	e, err := e.check(op)
	if err != nil {
		return Change{}, err
	}
	if !e.Force {
		if _, err := cli.Find(at.Home); err != nil {
			return Change{}, err
		}
	}

	files, err := cli.files(op, at)
	if err != nil {
		return Change{}, err
	}

	// The server goes into the file that has it already, else into the first that exists.
	p := editor{op: op, at: at, change: Change{CLI: cli.Name, Edits: []Edit{}}}
	path, doc, err := p.choose(files.config, func(doc []byte) (bool, error) { return cli.format.has(doc, e.Name) })
	if err != nil {
		return Change{}, err
	}
	after, err := cli.format.put(doc, e.Name, e.server())
	if err != nil {
		return Change{}, p.refused(path, doc, err)
	}

	// The preview of the change shows no key.
	shown := e
	if e.Key != "" {
		shown.Key = "<key>"
		p.warn(path)
	}
	p.add(path, "the MCP server "+e.Name, doc, after, cli.format.show(e.Name, shown.server()), e.Key != "")
	if files.note != "" {
		p.change.Notes = append(p.change.Notes, files.note)
	}

	if e.Instruction == "" {
		return p.change, nil
	}

	// The instruction for the model goes into another file.
	user := noteUser(cli, e.Name)
	path, doc, err = p.choose(files.instruction, func(doc []byte) (bool, error) { return hasNote(doc, user) })
	if err != nil {
		return Change{}, err
	}
	if after, err = putNote(doc, user, e.Instruction); err != nil {
		return Change{}, p.refused(path, doc, err)
	}
	p.add(path, "the instruction for "+e.Name, doc, after, e.Instruction, false)
	return p.change, nil
}

// PlanRemoval works out how to take a hub out of a CLI again, by the name it has among
// the MCP servers, which may be empty for DefaultName. It writes nothing. If
// there is nothing to take out, the Change is empty.
func PlanRemoval(cli CLI, name string, at Place) (Change, error) {
	const op = "cli.PlanRemoval"
	name, err := checkName(op, name)
	if err != nil {
		return Change{}, err
	}
	files, err := cli.files(op, at)
	if err != nil {
		return Change{}, err
	}
	p := editor{op: op, at: at, change: Change{CLI: cli.Name, Edits: []Edit{}}}
	err = p.each(files.config, "the MCP server "+name, func(doc []byte) ([]byte, error) { return cli.format.drop(doc, name) })
	if err != nil {
		return Change{}, err
	}
	err = p.each(files.instruction, "the instruction for "+name, func(doc []byte) ([]byte, error) { return dropNote(doc, noteUser(cli, name)) })
	if err != nil {
		return Change{}, err
	}
	return p.change, nil
}

// noteUser returns how an entry is listed at the instruction.
func noteUser(cli CLI, name string) string { return cli.Name + "/" + name }

// An editor collects edits.
type editor struct {
	op     string
	at     Place
	change Change
}

// choose returns the file to edit: the first that has the entry, else the first
// that exists, else the one to make.
func (p *editor) choose(c choice, has func([]byte) (bool, error)) (path string, doc []byte, err error) {
	for _, candidate := range c.paths {
		text, err := readFile(p.op, candidate)
		if err != nil {
			return "", nil, err
		}
		if text == nil {
			continue
		}
		found, err := has(text)
		if err != nil {
			return "", nil, p.refused(candidate, text, err)
		}
		if found || path == "" {
			path, doc = candidate, text
		}
		if found {
			return path, doc, nil
		}
	}
	if path == "" {
		path = c.paths[c.made]
		if isLink(path) {
			return "", nil, hub.Errorf(hub.CodeInvalid, p.op, "%s is a link to a file that does not exist", path).
				WithHint("create that file, or remove the link")
		}
	}
	return path, doc, nil
}

// each takes something out of every file that exists.
func (p *editor) each(c choice, what string, drop func([]byte) ([]byte, error)) error {
	seen := map[string]bool{} // links may lead to one file
	for _, path := range c.paths {
		doc, err := readFile(p.op, path)
		if err != nil {
			return err
		}
		target, err := filepath.EvalSymlinks(path)
		if doc == nil || err != nil || seen[target] {
			continue
		}
		seen[target] = true
		after, err := drop(doc)
		if err != nil {
			return p.refused(path, doc, err)
		}
		if len(after) == 0 && !isLink(path) {
			after = nil // there was nothing else in it
		}
		p.add(path, what, doc, after, "", false)
	}
	return nil
}

func (p *editor) refused(path string, doc []byte, err error) error {
	if f, ok := errors.AsType[*flaw](err); ok {
		return malformed(p.op, path, doc, f)
	}
	return err
}

// add records an edit, unless it changes nothing. secret says that the key is in it.
func (p *editor) add(path, what string, before, after []byte, text string, secret bool) {
	if bytes.Equal(before, after) {
		return
	}
	edit := Edit{Path: path, What: what, Before: before, After: after, text: text, mode: 0o600, folder: 0o700}
	if p.at.Scope == ScopeProject {
		edit.folder = 0o755
		if !secret {
			edit.mode = 0o644
		}
	}
	if target, err := filepath.EvalSymlinks(path); err == nil && isLink(path) {
		p.change.Notes = append(p.change.Notes, fmt.Sprintf("%s is a link: the change is made in %s", path, target))
	}
	p.change.Edits = append(p.change.Edits, edit)
}

// warn adds a note about other readers of a key in that file.
func (p *editor) warn(path string) {
	if p.at.Scope == ScopeProject {
		p.change.Notes = append(p.change.Notes, "the key is stored in "+path+": keep that file out of version control, or use a key file")
	}
	if info, err := os.Stat(path); err == nil && info.Mode().Perm()&0o077 != 0 {
		p.change.Notes = append(p.change.Notes, "other users of this machine can read the key in "+path+": restrict its permissions, or use a key file")
	}
}

// readFile returns the content of a file, or nil if there is none.
func readFile(op, path string) ([]byte, error) {
	info, err := os.Stat(path) // before it is opened: a pipe would wait for a writer
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, unreadable(op, err)
	case !info.Mode().IsRegular():
		return nil, hub.Errorf(hub.CodeInvalid, op, "%s is not a file", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, unreadable(op, err)
	}
	defer f.Close()
	doc, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	switch {
	case err != nil:
		return nil, unreadable(op, err)
	case len(doc) > maxFile:
		return nil, hub.Errorf(hub.CodeTooLarge, op, "%s is larger than %d bytes", path, maxFile)
	}
	return doc, nil
}

func unreadable(op string, err error) error {
	return hub.Errorf(hub.CodeInvalid, op, "cannot read a configuration file: %w", err)
}

func isLink(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.Mode()&fs.ModeSymlink != 0
}

// String returns the change for people, without the key.
func (c Change) String() string {
	var b strings.Builder
	if len(c.Edits) == 0 {
		fmt.Fprintf(&b, "%s: nothing to change\n", c.CLI)
	}
	for _, e := range c.Edits {
		fmt.Fprintf(&b, "%s %s: %s\n", e.verb(), e.Path, e.What)
		for line := range strings.Lines(e.text) {
			fmt.Fprintf(&b, "    %s\n", strings.TrimRight(line, "\n"))
		}
	}
	for _, n := range c.Notes {
		fmt.Fprintf(&b, "note: %s\n", n)
	}
	return b.String()
}

// verb returns create, remove or change.
func (e Edit) verb() string {
	switch {
	case e.Before == nil:
		return "create"
	case e.After == nil:
		return "remove"
	}
	return "change"
}

// String returns the edit for people, without the key.
func (e Edit) String() string { return e.verb() + " " + e.Path + ": " + e.What }
