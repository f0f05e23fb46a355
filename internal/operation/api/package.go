package api

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/ground/shape"
	"github.com/parley-agents/parley/internal/ground/strictjson"
)

// The packageParts are a package and the members of it that were given beside it.
type packageParts struct {
	Package json.RawMessage // as it was given; empty if it was not

	TaskID    string
	Title     string
	Objective string
	Criteria  Criteria
	Priority  hub.Priority
	Deadline  hub.Time

	Summary        string
	NextStep       string
	Worktree       string
	Branch         string
	NeedsHuman     bool
	Classification string

	Artifacts []hub.ArtifactRef
	Expect    shape.Expectation
	Scope     []string
	Checks    []string
	Review    string
	ThreadID  string
	Unproven  string
}

// assemble returns the package with the members that were given beside it. A member must
// not be given twice.
func (p packageParts) assemble() (json.RawMessage, error) {
	if p.plain() {
		return p.Package, nil // as it came, so that a hash in it holds
	}
	members, err := p.packageMembers()
	if err != nil {
		return nil, err
	}

	b := packageBuilder{members: members}
	p.addTask(&b)

	b.addTo("context", "summary", p.Summary, p.Summary != "")
	b.addTo("work_state", "next_step", p.NextStep, p.NextStep != "")
	b.addTo("work_state", "worktree_path", p.Worktree, p.Worktree != "")
	b.addTo("work_state", "branch", p.Branch, p.Branch != "")
	b.addTo("policy", "requires_human_approval", true, p.NeedsHuman)
	b.addTo("policy", "classification", p.Classification, p.Classification != "")

	if len(p.Artifacts) > 0 {
		list := make([]shape.PackageArtifact, len(p.Artifacts))
		for i, ref := range p.Artifacts {
			list[i] = shape.PackageArtifact{ID: artifactID(ref, i), Ref: ref}
		}
		b.add("artifacts", list, "artifacts are already in the package", "give them once")
	}
	if p.expects() {
		b.add("expect", p.Expect, "expect is already in the package", "give it once")
	}
	if len(p.Scope) > 0 {
		b.add("scope", p.Scope, "scope is already in the package", "give it once")
	}

	if len(p.Checks) > 0 {
		b.add("checks", p.Checks, "checks are already in the package", "give them once")
	}
	if p.Review != "" {
		b.add("review", p.Review, "review is already in the package", "give it once")
	}

	// A given thread_id or unproven replaces the member of the package.
	b.replace("thread_id", p.ThreadID)
	b.replace("unproven", p.Unproven)
	if b.err != nil {
		return nil, b.err
	}
	return json.Marshal(b.members)
}

// packageMembers returns the members of the package as it was given; none if it was not.
func (p packageParts) packageMembers() (map[string]json.RawMessage, error) {
	const op = "acp/handoff"
	members := map[string]json.RawMessage{}
	if len(p.Package) == 0 {
		return members, nil
	}
	if p.Package[0] != '{' {
		return nil, hub.Errorf(hub.CodeInvalid, op, "package must be an object")
	}
	if _, err := strictjson.ParseObject(p.Package); err != nil {
		return nil, hub.Errorf(hub.CodeInvalid, op, "package: %v", err)
	}
	if err := json.Unmarshal(p.Package, &members); err != nil {
		return nil, hub.Errorf(hub.CodeInvalid, op, "package: %v", err)
	}
	return members, nil
}

// addTask adds the members of the task. Without a package, its title is its objective as
// well.
func (p packageParts) addTask(b *packageBuilder) {
	objective := p.Objective
	if objective == "" && len(b.members) == 0 {
		objective = p.Title
	}
	b.addTo("task", "task_id", p.TaskID, p.TaskID != "")
	b.addTo("task", "title", p.Title, p.Title != "")
	b.addTo("task", "objective", objective, objective != "")
	b.addTo("task", "success_criteria", p.Criteria, len(p.Criteria) > 0)
	b.addTo("task", "priority", p.Priority, p.Priority != "")
	b.addTo("task", "deadline", p.Deadline, !p.Deadline.IsZero())
}

// A packageBuilder adds members to a package until the first error.
type packageBuilder struct {
	members map[string]json.RawMessage
	err     error
}

// addTo adds a member to an object of the package, if it was given.
func (b *packageBuilder) addTo(object, name string, value any, given bool) {
	const op = "acp/handoff"
	if !given || b.err != nil {
		return
	}
	inner := map[string]json.RawMessage{}
	if raw, ok := b.members[object]; ok && json.Unmarshal(raw, &inner) != nil {
		b.err = hub.Errorf(hub.CodeInvalid, op, "package.%s must be an object", object)
		return
	}
	if _, twice := inner[name]; twice {
		b.err = hub.Errorf(hub.CodeInvalid, op, "%s is already in the package", name).WithHint("give it once")
		return
	}
	if inner[name], b.err = json.Marshal(value); b.err == nil {
		b.members[object], b.err = json.Marshal(inner)
	}
}

// add adds a member to the package, which must not have it already.
func (b *packageBuilder) add(name string, value any, twice, hint string) {
	if b.err != nil {
		return
	}
	if _, has := b.members[name]; has {
		b.err = hub.Errorf(hub.CodeInvalid, "acp/handoff", "%s", twice).WithHint("%s", hint)
		return
	}
	b.members[name], b.err = json.Marshal(value)
}

// replace sets a member of the package to a text, if that was given.
func (b *packageBuilder) replace(name, text string) {
	if text != "" && b.err == nil {
		b.members[name], b.err = json.Marshal(text)
	}
}

// plain reports whether no member was given beside the package.
func (p packageParts) plain() bool {
	return p.TaskID == "" && p.Title == "" && p.Objective == "" && len(p.Criteria) == 0 && p.Priority == "" && p.Deadline.IsZero() &&
		p.Summary == "" && p.NextStep == "" && p.Worktree == "" && p.Branch == "" && !p.NeedsHuman && p.Classification == "" &&
		len(p.Artifacts) == 0 && p.ThreadID == "" && p.Unproven == "" && !p.expects() && len(p.Scope) == 0 &&
		len(p.Checks) == 0 && p.Review == ""
}

// expects reports whether an expectation was given beside the package.
func (p packageParts) expects() bool { return len(p.Expect.Paths) > 0 || p.Expect.Merge }

// artifactID names an artifact after its place in the list and the last part
// of its path.
func artifactID(ref hub.ArtifactRef, i int) string {
	name := ref.Path[strings.LastIndexAny(ref.Path, `/\`)+1:]
	if name == "" || len(name) > 100 {
		name = ref.Type
	}
	return fmt.Sprintf("%d-%s", i+1, name)
}
