package handoff

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/ground/shape"
	"github.com/parley-agents/parley/internal/ground/strictjson"
)

// A packageBuilder completes the package of a proposal: it holds the members that
// the sender gave and adds those that the hub knows. Members that the protocol does
// not define stay as they are.
type packageBuilder struct {
	members map[string]any // decoded JSON, numbers as json.Number
	task    string
	chain   []hub.AgentID // the owners that the sender claims; nil if it claims none
}

// build reads the package of a proposal, refuses claims that contradict the hub,
// and adds everything but the chain of owners and the hash.
func (s *Service) build(op string, actor hub.Caller, raw json.RawMessage) (*packageBuilder, error) {
	if len(bytes.TrimSpace(raw)) == 0 {
		return nil, hub.Errorf(hub.CodeInvalid, op, "package is required").WithHint("{package}")
	}
	if len(raw) > 2*shape.MaxPackage {
		return nil, tooLarge(op, len(raw))
	}
	if _, err := strictjson.ParseObject(raw); err != nil {
		return nil, hub.Errorf(hub.CodeInvalid, op, "package: %v", err)
	}

	p := &packageBuilder{}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	if err := dec.Decode(&p.members); err != nil {
		return nil, hub.Errorf(hub.CodeInvalid, op, "package: %v", err)
	}
	if err := packageNames.check("package", p.members); err != nil {
		return nil, err
	}

	// The hash covers the package as the sender wrote it, so it is checked before members are
	// added.
	if err := p.checkHash(op, raw); err != nil {
		return nil, err
	}
	if why, given := p.members["unproven"]; given {
		text, _ := why.(string)
		if err := checkReason(op, "unproven", text); err != nil {
			return nil, err
		}
	}
	if err := p.checkExpect(op); err != nil {
		return nil, err
	}
	if err := p.checkScope(op); err != nil {
		return nil, err
	}
	if err := p.checkAsked(op); err != nil {
		return nil, err
	}

	// The hub fills in the members that the sender left out.
	fill(p.members, "protocol", hub.Protocol)
	fill(p.members, "version", hub.Version)
	fill(p.members, "handoff_id", s.ids.Next())
	fill(p.members, "thread_id", p.members["handoff_id"])
	fill(p.members, "artifacts", []any{})
	fill(p.members, "context", map[string]any{}) // the schema then names its missing members
	fill(p.object("task"), "priority", hub.PriorityNormal)
	fill(p.object("work_state"), "status", "in_progress")
	fill(p.object("policy"), "classification", "internal")
	fill(p.object("policy"), "requires_human_approval", false)

	if err := p.readTask(op); err != nil {
		return nil, err
	}
	return p, p.readProvenance(op, actor)
}

// Limits of the files that a package expects to change, and of those that it reserves.
const (
	maxExpected     = 100
	maxScope        = 64
	maxExpectedPath = 1000 // bytes
)

// checkExpect refuses an expectation of another form than shape.Expectation, and paths that
// are not in the worktree.
func (p *packageBuilder) checkExpect(op string) error {
	given, ok := p.members["expect"]
	if !ok {
		return nil
	}
	members, ok := given.(map[string]any)
	if !ok {
		return hub.Errorf(hub.CodeInvalid, op, "package.expect: must be an object with paths and merge")
	}

	for name, value := range members {
		paths, isList := value.([]any)
		_, isBool := value.(bool)
		switch {
		case name == "merge" && isBool:
		case name != "paths" || !isList || len(paths) > maxExpected:
			return hub.Errorf(hub.CodeInvalid, op, "package.expect.%s: expect takes paths (a list of at most %d) and merge (true or false)", name, maxExpected)
		}
		for _, entry := range paths {
			if err := checkPath(op, "expect.paths", entry); err != nil {
				return err
			}
		}
	}
	return p.checkWorktree(op, "expect")
}

// checkScope refuses a scope that is not a list of paths in the worktree.
func (p *packageBuilder) checkScope(op string) error {
	given, ok := p.members["scope"]
	if !ok {
		return nil
	}
	paths, isList := given.([]any)
	if !isList || len(paths) == 0 || len(paths) > maxScope {
		return hub.Errorf(hub.CodeInvalid, op, "package.scope: must be a list of 1 to %d paths", maxScope)
	}
	for _, entry := range paths {
		if err := checkPath(op, "scope", entry); err != nil {
			return err
		}
	}
	return p.checkWorktree(op, "scope")
}

// checkPath refuses a member of the package that is not a path in the worktree.
func checkPath(op, member string, entry any) error {
	path, _ := entry.(string)
	local := filepath.IsLocal(filepath.FromSlash(path)) && len(path) <= maxExpectedPath && !strings.ContainsFunc(path, invisible)
	if !local {
		return hub.Errorf(hub.CodeInvalid, op, "package.%s: %q is not a file path relative to the worktree", member, cut(path, 200))
	}
	return nil
}

// checkWorktree refuses a package whose member is about a worktree that it does not name.
func (p *packageBuilder) checkWorktree(op, member string) error {
	if worktree, _ := p.object("work_state")["worktree_path"].(string); worktree == "" {
		return hub.Errorf(hub.CodeInvalid, op, "package.%s: the package names no worktree", member).WithHint("name it in work_state.worktree_path")
	}
	return nil
}

func tooLarge(op string, n int) error {
	return hub.Errorf(hub.CodeTooLarge, op, "a package of %d bytes is too large: at most %d are allowed", n, shape.MaxPackage).
		WithHint("name large content as an artifact: {artifact.put}")
}

// fill sets a member that the sender left out. A nil object has no members.
func fill(object map[string]any, name string, value any) {
	if _, given := object[name]; !given && object != nil {
		object[name] = value
	}
}

// object returns an object in the package and adds it if it is missing. It returns
// nil for a member that is no object, which the schema refuses later.
func (p *packageBuilder) object(name string) map[string]any {
	fill(p.members, name, map[string]any{})
	o, _ := p.members[name].(map[string]any)
	return o
}

// encode writes decoded JSON.
func encode(v any) json.RawMessage {
	raw, err := strictjson.Encode(v)
	if err != nil {
		panic(fmt.Sprintf("handoff: %v", err)) // names, numbers and JSON that was decoded before
	}
	return raw
}

// readTask reads the id of the task. It refuses an id that looks like another one:
// with blanks around it, or with invisible characters.
func (p *packageBuilder) readTask(op string) error {
	id, given := p.object("task")["task_id"]
	if !given {
		return nil
	}
	var ok bool
	if p.task, ok = id.(string); !ok {
		return hub.Errorf(hub.CodeInvalid, op, "package.task.task_id: must be a string")
	}
	if strings.TrimSpace(p.task) != p.task || strings.ContainsFunc(p.task, invisible) {
		return hub.Errorf(hub.CodeInvalid, op, "package.task.task_id: %q has spaces around it, or invisible characters", p.task)
	}
	return nil
}

// readProvenance adds the session of the actor unless the package names one, which is
// kept as the sender's word, and reads the owners that the sender claims. It refuses
// the origin that the hub writes for another agent.
func (p *packageBuilder) readProvenance(op string, actor hub.Caller) error {
	provenance := p.object("provenance")
	if provenance == nil {
		return hub.Errorf(hub.CodeInvalid, op, "package.provenance: must be an object")
	}
	own := "agent/" + string(actor.ID)
	fill(provenance, "origin_session", cmp.Or(actor.Session, own))
	if claimed, _ := provenance["origin_session"].(string); strings.HasPrefix(claimed, "agent/") && claimed != own {
		return hub.Errorf(hub.CodeTampering, op, "package.provenance.origin_session: %q is another agent", claimed).
			WithHint("leave origin_session out: the hub adds it")
	}
	chain, given := provenance["handoff_chain"]
	if !given {
		return nil
	}
	p.chain = []hub.AgentID{}
	if json.Unmarshal(encode(chain), &p.chain) != nil || p.chain == nil {
		return hub.Errorf(hub.CodeInvalid, op, "package.provenance.handoff_chain: must be an array of names")
	}
	return nil
}

// checkHash compares the hash that the sender gives, if any, with the hash of raw.
func (p *packageBuilder) checkHash(op string, raw json.RawMessage) error {
	verification, _ := p.members["verification"].(map[string]any)
	claimed, given := verification["package_hash"]
	if !given {
		return nil
	}
	want, ok := claimed.(string)
	if !ok {
		return hub.Errorf(hub.CodeInvalid, op, "package.verification.package_hash: must be a string")
	}
	got, err := shape.PackageHash(raw)
	if err != nil {
		return err
	}
	if !shape.SameHash(got, want) {
		return hub.Errorf(hub.CodeHashMismatch, op, "package.verification.package_hash: the package has the hash %s", got).
			WithHint("leave package_hash out: the hub computes it (SHA-256 of the RFC 8785 form without package_hash)")
	}
	return nil
}

// checkChain refuses a claimed chain of owners other than the one that the hub
// knows. An empty claim is right for a task that had no owner before the sender.
func (p *packageBuilder) checkChain(op string, chain []hub.AgentID) error {
	first := len(p.chain) == 0 && len(chain) == 1
	if p.chain == nil || first || slices.Equal(p.chain, chain) {
		return nil
	}
	return hub.Errorf(hub.CodeOwnership, op, "package.provenance.handoff_chain: the owners of this task were %s", names(chain)).
		WithHint("leave handoff_chain out: the hub adds it")
}

// seal returns the complete package with its chain of owners and its hash.
func (p *packageBuilder) seal(chain []hub.AgentID) (json.RawMessage, shape.Package, error) {
	const op = "handoff.Initiate"
	fail := func(err error) (json.RawMessage, shape.Package, error) { return nil, shape.Package{}, err }
	p.object("provenance")["handoff_chain"] = append([]hub.AgentID{}, chain...)

	// The hash covers the package without the hash itself.
	if verification := p.object("verification"); verification != nil {
		fill(verification, "schema_version", hub.Version)
		delete(verification, "package_hash")
		hash, err := shape.PackageHash(encode(p.members))
		if err != nil {
			return fail(err)
		}
		verification["package_hash"] = hash
	}

	raw := encode(p.members)
	if len(raw) > shape.MaxPackage {
		return fail(tooLarge(op, len(raw)))
	}
	if err := shape.CheckPackage(raw); err != nil {
		return fail(err)
	}
	pkg, err := shape.DecodePackage(raw)
	if err != nil {
		return fail(err)
	}

	// A text of invisible characters tells the receiver nothing.
	for name, text := range map[string]string{"context.summary": pkg.Context.Summary, "work_state.next_step": pkg.WorkState.NextStep, "task.title": pkg.Task.Title} {
		if !strings.ContainsFunc(text, visibleRune) {
			return fail(hub.Errorf(hub.CodeInvalid, op, "package.%s must contain a visible character", name))
		}
	}
	return raw, pkg, nil
}
