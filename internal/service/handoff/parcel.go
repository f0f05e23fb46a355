package handoff

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/strictjson"
)

// A parcel is a package on its way from what the sender gave to what is kept.
// Members that the hub does not know stay as they are.
type parcel struct {
	members    map[string]json.RawMessage
	provenance map[string]json.RawMessage
	task       string
	chain      []hub.AgentID // that the sender claims; nil if it claims none
}

// unpack reads what the sender gave, refuses what contradicts the hub, and
// fills in what the hub knows, except the chain of owners and the hash.
func (s *Service) unpack(op string, actor hub.Caller, raw json.RawMessage) (*parcel, error) {
	if len(bytes.TrimSpace(raw)) == 0 {
		return nil, hub.Errorf(hub.CodeInvalid, op, "package: missing").WithHint("parley schema print handoff-package says what is asked for")
	}
	if len(raw) > 2*hub.MaxPackage {
		return nil, tooLarge(op, len(raw))
	}
	members, err := strictMembers("package", raw)
	if err != nil {
		return nil, err
	}
	var whole any
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	if err := dec.Decode(&whole); err != nil {
		return nil, hub.Errorf(hub.CodeInvalid, op, "package: %v", err)
	}
	if err := packageNames.check("package", whole); err != nil {
		return nil, err
	}
	p := &parcel{members: members}
	if err := p.checkHash(op, raw); err != nil {
		return nil, err
	}
	id := hub.HandoffID(s.ids.Next())
	p.fill("protocol", hub.Protocol)
	p.fill("version", hub.Version)
	p.fill("handoff_id", id)
	p.fill("thread_id", p.members["handoff_id"])
	p.fill("artifacts", []any{})
	p.fill("context", map[string]any{}) // what is missing in it is then named
	task, err := p.inner("task")
	if err != nil {
		return nil, err
	}
	if task["task_id"] != nil {
		if json.Unmarshal(task["task_id"], &p.task) != nil {
			return nil, hub.Errorf(hub.CodeInvalid, op, "package.task.task_id: must be a string")
		}
		if err := checkTaskID(op, p.task); err != nil {
			return nil, err
		}
	}
	if err := p.defaults("task", map[string]any{"priority": hub.PriorityNormal}); err != nil {
		return nil, err
	}
	if err := p.defaults("context", nil); err != nil { // for its names alone
		return nil, err
	}
	if err := p.defaults("work_state", map[string]any{"status": "in_progress"}); err != nil {
		return nil, err
	}
	if err := p.defaults("policy", map[string]any{"classification": "internal", "requires_human_approval": false}); err != nil {
		return nil, err
	}
	return p, p.origin(op, actor)
}

func tooLarge(op string, n int) error {
	return hub.Errorf(hub.CodeTooLarge, op, "a package of %d bytes is too large: at most %d are allowed", n, hub.MaxPackage).
		WithHint("store large content with parley artifact put and name it as an artifact")
}

// strictMembers reads an object in which no name is there twice, not even in
// another case.
func strictMembers(what string, raw json.RawMessage) (map[string]json.RawMessage, error) {
	if _, err := strictjson.ParseObject(raw); err != nil {
		return nil, hub.Errorf(hub.CodeInvalid, "handoff.Initiate", "%s: %v", what, err)
	}
	members := map[string]json.RawMessage{}
	if err := json.Unmarshal(raw, &members); err != nil {
		return nil, hub.Errorf(hub.CodeInvalid, "handoff.Initiate", "%s: %v", what, err)
	}
	return members, nil
}

// fill sets a member that the sender left out.
func (p *parcel) fill(name string, value any) {
	if _, ok := p.members[name]; ok {
		return
	}
	p.members[name] = encode(value)
}

// encode writes what is known to be JSON.
func encode(v any) json.RawMessage {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(fmt.Sprintf("handoff: %v", err)) // names, numbers and raw JSON that was read before
	}
	return bytes.TrimSpace(b.Bytes())
}

// inner returns the members of an object in the package. What is no object is
// left for the schema to refuse.
func (p *parcel) inner(name string) (map[string]json.RawMessage, error) {
	raw, ok := p.members[name]
	if !ok || len(raw) == 0 || raw[0] != '{' {
		return map[string]json.RawMessage{}, nil
	}
	return strictMembers("package."+name, raw)
}

// defaults fills in members of an object in the package, and the object itself
// if it is missing and there are any.
func (p *parcel) defaults(name string, values map[string]any) error {
	raw, given := p.members[name]
	if given && (len(raw) == 0 || raw[0] != '{') || !given && len(values) == 0 {
		return nil
	}
	members, err := p.inner(name)
	if err != nil {
		return err
	}
	for k, v := range values {
		if _, ok := members[k]; !ok {
			members[k] = encode(v)
		}
	}
	p.members[name] = encode(members)
	return nil
}

// origin fills in where the package comes from. A session that the hub knows
// better is refused.
func (p *parcel) origin(op string, actor hub.Caller) error {
	raw, given := p.members["provenance"]
	if given && (len(raw) == 0 || raw[0] != '{') {
		return hub.Errorf(hub.CodeInvalid, op, "package.provenance: must be an object")
	}
	var err error
	if p.provenance, err = p.inner("provenance"); err != nil {
		return err
	}
	session := actor.Session
	if session == "" {
		session = "agent/" + string(actor.ID)
	}
	if claimed, ok := p.provenance["origin_session"]; !ok {
		p.provenance["origin_session"] = encode(session)
	} else if known := actor.Session != "" || bytes.HasPrefix(claimed, []byte(`"agent/`)); known && !bytes.Equal(claimed, encode(session)) {
		return hub.Errorf(hub.CodeTampering, op, "package.provenance.origin_session: this call came from the session %q", session).
			WithHint("leave origin_session out: the hub fills it in")
	}
	if claimed, ok := p.provenance["handoff_chain"]; ok {
		p.chain = []hub.AgentID{}
		if json.Unmarshal(claimed, &p.chain) != nil || p.chain == nil {
			return hub.Errorf(hub.CodeInvalid, op, "package.provenance.handoff_chain: must be an array of names")
		}
	}
	return nil
}

// checkHash compares a hash that the sender gives with what it gave.
func (p *parcel) checkHash(op string, raw json.RawMessage) error {
	verification, err := p.inner("verification")
	if err != nil {
		return err
	}
	claimed, ok := verification["package_hash"]
	if !ok {
		return nil
	}
	var want string
	if json.Unmarshal(claimed, &want) != nil {
		return hub.Errorf(hub.CodeInvalid, op, "package.verification.package_hash: must be a string")
	}
	got, err := hub.PackageHash(raw)
	if err != nil {
		return err
	}
	if !hub.SameHash(got, want) {
		return hub.Errorf(hub.CodeHashMismatch, op, "package.verification.package_hash: the package has the hash %s", got).
			WithHint("leave package_hash out: the hub computes it (SHA-256 of the RFC 8785 form without package_hash)")
	}
	return nil
}

// agrees refuses a chain of owners other than the one that the hub knows.
func (p *parcel) agrees(op string, chain []hub.AgentID) error {
	begins := len(p.chain) == 0 && len(chain) == 1 // nobody but the sender has owned it
	if p.chain == nil || begins || slices.Equal(p.chain, chain) {
		return nil
	}
	return hub.Errorf(hub.CodeOwnership, op, "package.provenance.handoff_chain: the owners of this task were %s", names(chain)).
		WithHint("leave handoff_chain out: the hub fills it in")
}

// seal returns the complete package with its hash.
func (p *parcel) seal(chain []hub.AgentID) (json.RawMessage, hub.Package, error) {
	const op = "handoff.Initiate"
	fail := func(err error) (json.RawMessage, hub.Package, error) { return nil, hub.Package{}, err }
	p.provenance["handoff_chain"] = encode(append([]hub.AgentID{}, chain...))
	p.members["provenance"] = encode(p.provenance)
	verification, err := p.inner("verification")
	if err != nil {
		return fail(err)
	}
	if _, ok := verification["schema_version"]; !ok {
		verification["schema_version"] = encode(hub.Version)
	}
	delete(verification, "package_hash")
	p.members["verification"] = encode(verification)
	hash, err := hub.PackageHash(encode(p.members))
	if err != nil {
		return fail(err)
	}
	verification["package_hash"] = encode(hash)
	p.members["verification"] = encode(verification)
	raw := encode(p.members)
	if len(raw) > hub.MaxPackage {
		return fail(tooLarge(op, len(raw)))
	}
	if err := checkShape(raw); err != nil {
		return fail(err)
	}
	pkg, err := hub.DecodePackage(raw)
	if err != nil {
		return fail(err)
	}
	for name, text := range map[string]string{"context.summary": pkg.Context.Summary, "work_state.next_step": pkg.WorkState.NextStep, "task.title": pkg.Task.Title} {
		if !saysSomething(text) {
			return fail(hub.Errorf(hub.CodeInvalid, op, "package.%s: has nothing in it that can be seen", name))
		}
	}
	return raw, pkg, nil
}
