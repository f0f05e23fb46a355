package comply

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/parley-agents/parley/acp/schema"
	"github.com/parley-agents/parley/sandbox"
)

// Extension is how the name of a test file ends.
const Extension = ".jsont"

// maxFile is how many bytes a test file may have.
const maxFile = 4 << 20

// A Severity says whether every agent must pass a test.
type Severity string

// The severities.
const (
	Required Severity = "required"
	Optional Severity = "optional"
)

// A Test is one test file.
type Test struct {
	ID          string   // the name of the file without its extension
	Path        string   // where the file is, for people
	Title       string   // for people
	Description string   // what is tested, for people
	Area        string   // what the overview calls it; the title if the file does not say
	Severity    Severity // whether a failure counts
	Docs        []string // links
	Rules       []string // ids of the rules that are tested, the main one first
	Protocols   []int    // the versions it is for; empty for all

	// Remarks say what is odd about the file, each with its line. They do not
	// keep it from being run.
	Remarks []string

	source []byte // the template
	conds  []precondition
	files  []file
	policy sandbox.Policy
	manual bool // the runner does not send initialize by itself
	lax    bool // conversations are checked for frames and ids only
	steps  []step
	patch  *node // what the test changes about the client's capabilities; may be nil
}

// A FileError says what is wrong with a test file, and where.
type FileError struct {
	Path string
	Line int
	Err  error
}

// Error returns path, line and what is wrong.
func (e *FileError) Error() string { return fmt.Sprintf("%s:%d: %v", e.Path, e.Line, e.Err) }

// Unwrap returns what is wrong.
func (e *FileError) Unwrap() error { return e.Err }

// A precondition must hold for a test to be run.
type precondition struct {
	client bool // it is about the client's capabilities, not the agent's
	path   string
	mustBe string // the wanted value as text
}

// A file is written to the workspace before the test.
type file struct {
	path string
	data []byte
}

// Parse reads a test. The path gives it its id, and is named in errors, which
// are of type *FileError.
func Parse(path string, source []byte) (*Test, error) {
	return parse(path, source, builtins(schema.V1, "/sandbox"))
}

// builtins returns the variables that every test has.
func builtins(version schema.Version, dir string) variables {
	return variables{varSandbox: quote(dir), varTemp: quote(filepath.Join(filepath.Dir(dir), tempName)), varVersion: encoded(int(version)), varCapabilities: defaultCapabilities(version)}
}

// defaultCapabilities are what the runner can do for an agent.
func defaultCapabilities(version schema.Version) json.RawMessage {
	if version == schema.V1 {
		return json.RawMessage(`{"fs":{"readTextFile":true,"writeTextFile":true},"terminal":true}`)
	}
	return json.RawMessage(`{}`)
}

// concerns reports whether the test is failed by what breaks a rule in its
// conversation: one that it is about, or one without which there is no
// conversation. All else is in the ledger alone, or what an agent does wrong in
// each of its messages would hide everything that it does right.
func (t *Test) concerns(rule string) bool {
	return slices.Contains(t.Rules, rule) || strings.HasPrefix(rule, "TRN-") || strings.HasPrefix(rule, "RPC-")
}

// parse reads a test as it is for the given variables. What the test says about
// the client's capabilities is in effect for the whole of it, so the template is
// filled twice if it says something.
func parse(path string, source []byte, vars variables) (*Test, error) {
	t, err := parseOnce(path, source, vars)
	if err != nil || t.patch == nil {
		return t, err
	}
	return parseOnce(path, source, vars.with(varCapabilities, t.capabilities(vars)))
}

// capabilities returns what the client tells the agent that it can do.
func (t *Test) capabilities(vars variables) json.RawMessage {
	base := vars[varCapabilities]
	if t.patch == nil {
		return base
	}
	changes, _ := decode(t.patch.encode(vars.expand))
	target, _ := decode(base)
	return encoded(merge(target, changes))
}

// merge changes target as a JSON merge patch says: objects are merged, null
// removes, anything else replaces.
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

func parseOnce(path string, source []byte, vars variables) (*Test, error) {
	t := &Test{ID: strings.TrimSuffix(filepath.Base(path), Extension), Path: path, source: source}
	err := t.read(vars)
	if err == nil {
		return t, nil
	}
	if at := (*lineError)(nil); errors.As(err, &at) {
		return nil, &FileError{path, at.line, at.err}
	}
	return nil, &FileError{path, 1, err}
}

func (t *Test) read(vars variables) error {
	if len(t.source) > maxFile {
		return linef(1, "a test file has at most %d bytes", maxFile)
	}
	text, err := vars.fill(t.source)
	if err != nil {
		return err
	}
	root, err := parseNode(text)
	if err != nil {
		return err
	}
	if root.kind != isObject {
		return linef(root.line, "a test is an object, not %s", root.kind)
	}
	p := &parser{test: t, vars: vars}
	p.head(root)
	for n := range p.each(root, "preconditions") {
		if c, ok := p.precondition(n); ok {
			t.conds = append(t.conds, c)
		}
	}
	for n := range p.each(p.object(root, "sandbox"), "files") {
		p.file(n)
	}
	p.init(p.object(root, "init"))
	if root.get("steps") == nil {
		p.fail(root, `a test needs the member "steps"`)
	}
	t.steps = p.steps(root, 0)
	t.manual = t.manual || slices.ContainsFunc(t.steps, sendsInitialize)
	return p.err
}

// A parser takes the nodes of a test apart. It keeps the first error and goes
// on, so that its methods need not return one.
type parser struct {
	test *Test
	vars variables
	err  error
}

func (p *parser) fail(n *node, format string, args ...any) {
	if p.err == nil {
		p.err = linef(n.line, format, args...)
	}
}

func (p *parser) remark(n *node, format string, args ...any) {
	p.test.Remarks = append(p.test.Remarks, fmt.Sprintf("line %d: ", n.line)+fmt.Sprintf(format, args...))
}

// typed returns a member of the given kind, nil if it is not there.
func (p *parser) typed(n *node, name string, want kind) *node {
	v := n.get(name)
	if v == nil || v.kind == want {
		return v
	}
	p.fail(v, "%q must be %s, not %s", name, want, v.kind)
	return nil
}

func (p *parser) object(n *node, name string) *node { return p.typed(n, name, isObject) }

func (p *parser) text(n *node, name string) string {
	if v := p.typed(n, name, isString); v != nil {
		return p.vars.expand(v.text)
	}
	return ""
}

func (p *parser) flag(n *node, name string) bool {
	v := p.typed(n, name, isBool)
	return v != nil && v.text == "true"
}

// each returns the elements of an array, none if it is not there.
func (p *parser) each(n *node, name string) func(yield func(*node) bool) {
	return func(yield func(*node) bool) {
		v := p.typed(n, name, isArray)
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

func (p *parser) texts(n *node, name string) (out []string) {
	for item := range p.each(n, name) {
		if item.kind != isString {
			p.fail(item, "%q must hold strings, not %s", name, item.kind)
			return nil
		}
		out = append(out, p.vars.expand(item.text))
	}
	return out
}

func (p *parser) head(root *node) {
	t := p.test
	t.Title, t.Description = p.text(root, "title"), p.text(root, "description")
	t.Docs, t.Rules = p.texts(root, "docs"), p.texts(root, "rules")
	if t.Area = p.text(root, "area"); t.Area == "" {
		t.Area = t.Title
	}
	if t.Title == "" {
		p.fail(root, `a test needs the member "title"`)
	}
	switch t.Severity = Severity(p.text(root, "severity")); t.Severity {
	case Required, Optional:
	case "":
		p.fail(root, `a test needs the member "severity": "required" or "optional"`)
	default:
		p.fail(root.get("severity"), `the severity is "required" or "optional", not %q`, t.Severity)
	}
	for _, name := range []string{"description", "docs", "sandbox"} {
		if root.get(name) == nil {
			p.remark(root, "there is no %q", name)
		}
	}
	t.lax = root.get("ledger") != nil && !p.flag(root, "ledger")
	for v := range p.each(root, "protocols") {
		switch v.text {
		case "1", "2":
			t.Protocols = append(t.Protocols, int(v.text[0]-'0'))
		default:
			p.fail(v, "there are the protocol versions 1 and 2, not %s", v.text)
		}
	}
}

func (p *parser) precondition(n *node) (c precondition, ok bool) {
	c.mustBe = "true"
	if v := n.get("mustBe"); v != nil {
		c.mustBe = string(v.encode(p.vars.expand))
		if v.kind == isString {
			c.mustBe = p.vars.expand(v.text)
		}
	}
	agent, either := p.text(n, "agentCap"), p.text(n, "cap")
	switch {
	case agent != "":
		c.path = agent
	case strings.HasPrefix(either, "client."):
		c.path, c.client = strings.TrimPrefix(either, "client."), true
	case strings.HasPrefix(either, "agent."):
		c.path = strings.TrimPrefix(either, "agent.")
	default:
		p.remark(n, `a precondition has "agentCap" or "cap" with client. or agent. before it; this one is ignored`)
		return c, false
	}
	return c, true
}

// unmet returns why a precondition does not hold, "" if it does. A capability
// that is absent or null is false, and one that is an object is true.
func (c precondition) unmet(agent, client any) string {
	who, caps := "the agent's", agent
	if c.client {
		who, caps = "the client's", client
	}
	v, ok := lookup(caps, c.path)
	got := stringify(v)
	if _, object := v.(map[string]any); object && (c.mustBe == "true" || c.mustBe == "false") {
		got = "true"
	}
	if !ok || v == nil {
		got = "false"
	}
	if got == c.mustBe {
		return ""
	}
	return fmt.Sprintf("%s capability %s is %s, and the test is for %s", who, c.path, cut(got, 100), c.mustBe)
}

func (p *parser) file(n *node) {
	f := file{path: p.text(n, "path")}
	text, encoded := p.typed(n, "text", isString), p.typed(n, "base64", isString)
	clean := path.Clean(f.path)
	switch {
	case f.path == "":
		p.fail(n, `a file needs the member "path"`)
	case !filepath.IsLocal(filepath.FromSlash(clean)) || clean == ".":
		p.fail(n, "the path %q leads out of the sandbox; give one relative to it", f.path)
	case text != nil && encoded != nil:
		p.fail(n, `a file has "text" or "base64", not both`)
	case text != nil:
		f.data = []byte(p.vars.expand(text.text))
	case encoded != nil:
		data, err := base64.StdEncoding.DecodeString(encoded.text)
		if err != nil {
			p.fail(encoded, "not base64: %v", err)
		}
		f.data = data
	}
	f.path = clean
	p.test.files = append(p.test.files, f)
}

func (p *parser) init(n *node) {
	t := p.test
	t.policy = sandbox.PolicyYolo
	t.patch = p.object(n, "clientCapabilities")
	t.manual = p.flag(n, "manual")
	if name := p.text(n, "permissionPolicy"); name != "" {
		policy, err := sandbox.ParsePolicy(name)
		if err != nil || policy == sandbox.PolicyAsk {
			p.fail(n.get("permissionPolicy"), "the permission policy is none, read, write or yolo, not %q", name)
		}
		t.policy = policy
	}
}
