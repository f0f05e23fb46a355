package jsont

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/parley-agents/parley/protocol/acp/schema"
	"github.com/parley-agents/parley/protocol/sandbox"
)

// Extension ends the name of a test file.
const Extension = ".jsont"

// maxFile is the largest size of a test file in bytes.
const maxFile = 4 << 20

// A Severity tells whether every agent must pass a test.
type Severity string

// The severities.
const (
	Required Severity = "required"
	Optional Severity = "optional"
)

// A Test is one test file.
type Test struct {
	ID          string   // the name of the file without its extension
	Path        string   // of the file, for people
	Title       string   // for people
	Description string   // for people
	Area        string   // the row in the overview; the title if the file has no area
	Severity    Severity // whether a failure counts
	Docs        []string // links
	Rules       []string // ids of the rules that the test is about, the main one first
	Protocols   []int    // the versions of the protocol that the test is for; empty for all

	// Own says that the user wrote the test. A run does not fail because an optional one could not
	// be run.
	Own bool

	// Remarks are for the author of the test, each with its line. They do not keep the
	// test from running.
	Remarks []string

	// Ignored are those of the remarks that are about parts which are not performed.
	Ignored []string

	// source is read again for each run, because the folders of a run are variables
	// that may stand outside of strings.
	source        []byte // the template
	Preconditions []Precondition
	Files         []File
	Policy        sandbox.Policy
	Manual        bool // the runner does not send initialize by itself
	Lax           bool // conversations are checked for frames and ids only
	Steps         []Step
	patch         *Node // a merge patch for the client's capabilities; may be nil
}

// A FileError is an error in a file that the user wrote, with its line. Line counts
// from 1 and is 1 for an error about the file as a whole.
type FileError struct {
	Path string
	Line int
	Err  error
}

// Error returns the path, the line and the error, as editors can follow it.
func (e *FileError) Error() string { return fmt.Sprintf("%s:%d: %v", e.Path, e.Line, e.Err) }

// Unwrap returns the error without its place.
func (e *FileError) Unwrap() error { return e.Err }

// A Precondition is a capability that a test or a step depends on.
// mustBe is compared with the text of the value, so true, "true" and an object that
// is there are alike.
type Precondition struct {
	client bool // a capability of the client, not of the agent
	path   string
	mustBe string // the wanted value as text
}

// A File is written to the workspace before the test.
type File struct {
	Path string
	Data []byte
}

// Parse reads a test. Its id is the base name of path without the extension. Errors
// are of type *FileError and name the path.
// The variables have stand-in values here; Fill reads the test again with the real
// ones.
func Parse(path string, source []byte) (*Test, error) {
	return parse(path, source, Builtins(schema.V1, "/sandbox", "/tmp"))
}

// Builtins returns the variables that every test has. sandbox and temp are folders.
func Builtins(version schema.Version, sandbox, temp string) Variables {
	toolCall := "tool_call"
	if version == schema.V2 {
		toolCall = "tool_call_update"
	}
	return Variables{
		varSandbox: Encode(sandbox), varTemp: Encode(temp), varVersion: Encode(int(version)), varToolCall: Encode(toolCall),
		VarCapabilities: defaultCapabilities(version),
	}
}

// defaultCapabilities returns the capabilities of the runner as a client.
func defaultCapabilities(version schema.Version) json.RawMessage {
	if version == schema.V1 {
		return json.RawMessage(`{"fs":{"readTextFile":true,"writeTextFile":true},"terminal":true}`)
	}
	return json.RawMessage(`{}`)
}

// Fill returns the test read again with the given variables.
func (t *Test) Fill(vars Variables) (*Test, error) { return parse(t.Path, t.source, vars) }

// Source returns the text of the file.
func (t *Test) Source() []byte { return t.source }

// Uses reports whether the file names a variable.
func (t *Test) Uses(name string) bool { return bytes.Contains(t.source, []byte("${"+name+"}")) }

// parse reads a test with the given variables. A test may change the capabilities of
// the client, which are themselves a variable of the template: such a test is read
// twice, the second time with the changed capabilities.
func parse(path string, source []byte, vars Variables) (*Test, error) {
	t, err := parseOnce(path, source, vars)
	if err != nil || t.patch == nil {
		return t, err
	}
	return parseOnce(path, source, vars.With(VarCapabilities, t.Capabilities(vars)))
}

// Capabilities returns the capabilities that the client tells the agent.
func (t *Test) Capabilities(vars Variables) json.RawMessage {
	base := vars[VarCapabilities]
	if t.patch == nil {
		return base
	}
	changes, _ := Decode(t.patch.Encode(vars.Expand))
	target, _ := Decode(base)
	if object, ok := changes.(map[string]any); ok && string(vars[varVersion]) == "2" {
		// A client of version 2 has no files and terminals for the agent.
		delete(object, "fs")
		delete(object, "terminal")
	}
	return Encode(merge(target, changes))
}

// merge applies a JSON merge patch (RFC 7396) to target: objects are merged, null
// removes, any other value replaces.
// target is changed in place; callers pass a value that they have just decoded.
func merge(target, patch any) any {
	changes, ok := patch.(map[string]any)
	if !ok {
		return patch
	}
	object, ok := target.(map[string]any)
	if !ok {
		object = map[string]any{}
	}
	for name, change := range changes {
		if change == nil {
			delete(object, name)
			continue
		}
		object[name] = merge(object[name], change)
	}
	return object
}

func parseOnce(path string, source []byte, vars Variables) (*Test, error) {
	t := &Test{ID: strings.TrimSuffix(filepath.Base(path), Extension), Path: path, source: source}
	err := t.read(vars)
	if err == nil {
		return t, nil
	}
	return nil, InFile(path, err)
}

// InFile returns err as a *FileError for path, on the line that err names, or 1. It
// returns nil for nil.
func InFile(path string, err error) error {
	if at := (*lineError)(nil); errors.As(err, &at) {
		return &FileError{path, at.line, at.err}
	}
	if err == nil {
		return nil
	}
	return &FileError{path, 1, err}
}

// read sets the members of t from its source.
func (t *Test) read(vars Variables) error {
	if len(t.source) > maxFile {
		return linef(1, "a test file can have at most %d bytes", maxFile)
	}

	text, err := vars.fill(t.source)
	if err != nil {
		return err
	}
	root, err := ParseNode(text)
	if err != nil {
		return err
	}
	if root.Kind != Object {
		return linef(root.line, "a test must be an object, not %s", root.Kind)
	}

	// The reader keeps its first error, so the members are read without a check in between.
	p := &Reader{vars: vars}
	p.head(root, t)
	for n := range p.each(root, "preconditions") {
		if c, ok := p.precondition(n); ok {
			t.Preconditions = append(t.Preconditions, c)
		}
	}
	for n := range p.each(p.Object(root, "sandbox"), "files") {
		t.Files = append(t.Files, p.file(n))
	}
	p.init(p.Object(root, "init"), t)

	if root.Get("steps") == nil {
		p.Fail(root, `a test needs the member "steps"`)
	}
	t.Steps = p.steps(root, 0)
	t.Manual = t.Manual || slices.ContainsFunc(t.Steps, sendsInitialize)
	t.Remarks = p.remarks
	t.Ignored = p.ignored
	return p.Err
}

// A Reader reads members of nodes. It keeps the first error and goes on with zero
// values, so that its methods need not return an error; Err has it in the end.
type Reader struct {
	vars    Variables // for the strings
	remarks []string
	ignored []string // those of the remarks that are about parts which are not performed
	Err     error
}

// Fail records an error at the line of n, unless there is an earlier one.
func (p *Reader) Fail(n *Node, format string, args ...any) {
	if p.Err == nil {
		p.Err = linef(n.line, format, args...)
	}
}

// ignore adds a remark about a part that is not performed.
func (p *Reader) ignore(n *Node, format string, args ...any) {
	p.remark(n, format, args...)
	p.ignored = append(p.ignored, p.remarks[len(p.remarks)-1])
}

// remark adds a remark for the author of the test, with the line of n.
func (p *Reader) remark(n *Node, format string, args ...any) {
	p.remarks = append(p.remarks, fmt.Sprintf("line %d: ", n.line)+fmt.Sprintf(format, args...))
}

// typed returns a member of the given kind, nil if there is none. A member of another
// kind is an error.
func (p *Reader) typed(n *Node, name string, want Kind) *Node {
	v := n.Get(name)
	if v == nil || v.Kind == want {
		return v
	}
	p.Fail(v, "%q must be %s, not %s", name, want, v.Kind)
	return nil
}

// Object returns a member that is an object, nil if there is none.
func (p *Reader) Object(n *Node, name string) *Node { return p.typed(n, name, Object) }

// Text returns a member that is a string with its variables replaced, "" if there is
// none.
func (p *Reader) Text(n *Node, name string) string {
	if v := p.typed(n, name, String); v != nil {
		return p.vars.Expand(v.Text)
	}
	return ""
}

// flag returns a member that is true or false, and false if there is none.
func (p *Reader) flag(n *Node, name string) bool {
	v := p.typed(n, name, Bool)
	return v != nil && v.Text == "true"
}

// each iterates over the elements of a member that is an array.
func (p *Reader) each(n *Node, name string) func(yield func(*Node) bool) {
	return func(yield func(*Node) bool) {
		v := p.typed(n, name, Array)
		if v == nil {
			return
		}
		for _, item := range v.items {
			if !yield(item) {
				return
			}
		}
	}
}

// Texts returns a member that is a list of strings, with their variables replaced.
func (p *Reader) Texts(n *Node, name string) (out []string) {
	for item := range p.each(n, name) {
		if item.Kind != String {
			p.Fail(item, "%q must contain strings, not %s", name, item.Kind)
			return nil
		}
		out = append(out, p.vars.Expand(item.Text))
	}
	return out
}

// head reads the members that describe the test.
func (p *Reader) head(root *Node, t *Test) {
	t.Title, t.Description = p.Text(root, "title"), p.Text(root, "description")
	t.Docs, t.Rules = p.Texts(root, "docs"), p.Texts(root, "rules")
	if t.Area = p.Text(root, "area"); t.Area == "" {
		t.Area = t.Title
	}

	if t.Title == "" {
		p.Fail(root, `a test needs the member "title"`)
	}

	switch t.Severity = Severity(p.Text(root, "severity")); t.Severity {
	case Required, Optional:
	case "":
		p.Fail(root, `a test needs the member "severity": "required" or "optional"`)
	default:
		p.Fail(root.Get("severity"), `unknown severity %q: use "required" or "optional"`, t.Severity)
	}

	// These members are expected, but a test without them can run.
	for _, name := range []string{"description", "docs", "sandbox"} {
		if root.Get(name) == nil {
			p.remark(root, "the test has no %q", name)
		}
	}

	t.Lax = root.Get("ledger") != nil && !p.flag(root, "ledger")
	for v := range p.each(root, "protocols") {
		switch v.Text {
		case "1", "2":
			t.Protocols = append(t.Protocols, int(v.Text[0]-'0'))
		default:
			p.Fail(v, "unknown protocol version %s: use 1 or 2", v.Text)
		}
	}
}

// precondition reads a precondition. ok is false for one that it cannot understand,
// which is a remark: the file may be for a later version of the runner.
func (p *Reader) precondition(n *Node) (c Precondition, ok bool) {
	c.mustBe = "true"
	if v := n.Get("mustBe"); v != nil {
		c.mustBe = string(v.Encode(p.vars.Expand))
		if v.Kind == String {
			c.mustBe = p.vars.Expand(v.Text)
		}
	}
	agent, either := p.Text(n, "agentCap"), p.Text(n, "cap")
	if v2 := p.Text(n, "agentCapV2"); v2 != "" && string(p.vars[varVersion]) == "2" {
		agent = v2
	}
	switch {
	case agent != "":
		c.path = agent
	case strings.HasPrefix(either, "client."):
		c.path, c.client = strings.TrimPrefix(either, "client."), true
	case strings.HasPrefix(either, "agent."):
		c.path = strings.TrimPrefix(either, "agent.")
	default:
		p.ignore(n, `a precondition needs "agentCap", or "cap" beginning with client. or agent.; this one is ignored`)
		return c, false
	}
	return c, true
}

// Unmet returns the reason why a precondition does not hold, "" if it does. A
// capability that is absent or null counts as false, an object as true.
func (c Precondition) Unmet(agent, client any) string {
	who, caps := "the agent's", agent
	if c.client {
		who, caps = "the client's", client
	}
	v, ok := Lookup(caps, c.path)
	got := Stringify(v)
	if _, object := v.(map[string]any); object && (c.mustBe == "true" || c.mustBe == "false") {
		got = "true"
	}
	if !ok || v == nil {
		got = "false"
	}
	if got == c.mustBe {
		return ""
	}
	return fmt.Sprintf("%s capability %s is %s, but the test needs %s", who, c.path, Shorten(got, 100), c.mustBe)
}

// file reads a file of the sandbox. Its path must not lead out of it.
// The file is written through a root of the sandbox, so a link cannot lead out of
// it either.
func (p *Reader) file(n *Node) File {
	f := File{Path: p.Text(n, "path")}
	text, encoded := p.typed(n, "text", String), p.typed(n, "base64", String)
	clean := path.Clean(f.Path)
	switch {
	case f.Path == "":
		p.Fail(n, `a file needs the member "path"`)
	case !filepath.IsLocal(filepath.FromSlash(clean)) || clean == ".":
		p.Fail(n, "the path %q leads outside the sandbox; use a path relative to it", f.Path)
	case text != nil && encoded != nil:
		p.Fail(n, `a file can have "text" or "base64", not both`)
	case text != nil:
		f.Data = []byte(p.vars.Expand(text.Text))
	case encoded != nil:
		data, err := base64.StdEncoding.DecodeString(encoded.Text)
		if err != nil {
			p.Fail(encoded, "not base64: %v", err)
		}
		f.Data = data
	}
	f.Path = clean
	return f
}

// init reads how the conversation begins.
// Without a policy everything is allowed: most tests are about something else.
func (p *Reader) init(n *Node, t *Test) {
	t.Policy = sandbox.PolicyYolo
	t.patch = p.Object(n, "clientCapabilities")
	t.Manual = p.flag(n, "manual")
	if name := p.Text(n, "permissionPolicy"); name != "" {
		policy, err := sandbox.ParsePolicy(name)
		if err != nil || policy == sandbox.PolicyAsk {
			p.Fail(n.Get("permissionPolicy"), "unknown permission policy %q: use none, read, write or yolo", name)
		}
		t.Policy = policy
	}
}
