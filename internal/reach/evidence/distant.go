package evidence

import (
	"context"
	"encoding/json"
	"errors"
	"path/filepath"

	"github.com/parley-agents/parley/hub"
)

// Machines are the machines whose hubs share a store.
type Machines interface {
	// MachineRoots returns the roots of all machines.
	MachineRoots(ctx context.Context) ([]hub.MachineRoot, error)
	// Away reports whether no hub runs on a machine.
	Away(machine string) bool
	// Ask asks the hub of a machine, and Answer answers such questions until ctx ends.
	Ask(ctx context.Context, machine, inquiry string) (answer string, err error)
	Answer(ctx context.Context, answer func(ctx context.Context, inquiry string) string)
}

// NewDistant returns an inspector that asks the hubs of other machines about their folders.
func NewDistant(in *Inspector, m Machines) *Distant { return &Distant{in, m} }

// Trees returns the working trees of this machine, which name the machine of another tree.
func (d *Distant) Trees(t *Trees) DistantTrees { return DistantTrees{t, d} }

// Repositories returns the repositories of all machines.
func (d *Distant) Repositories(here Repositories) DistantRepositories {
	return DistantRepositories{here, d}
}

// A Distant checks claims about folders of several machines. A path under a root
// of this machine is checked here; one under a root of another machine by a hub there.
// While no hub runs there, the claim is unverifiable, and the check names the machine.
type Distant struct {
	*Inspector
	machines Machines
}

// An inspection is an inquiry to the hub of another machine: a method of the
// inspector with its arguments. It travels as JSON through the database, perhaps
// between hubs of different versions: a method is never renamed, and members are
// only added.
type inspection struct {
	Method string          `json:"method"`
	Path   string          `json:"path"` // or the worktree
	Other  string          `json:"other,omitempty"`
	Ref    hub.ArtifactRef `json:"ref,omitzero"`

	Handoff    hub.HandoffID  `json:"handoff,omitempty"`
	Comparison hub.Comparison `json:"comparison,omitzero"`
	NewCommit  hub.NewCommit  `json:"new_commit,omitzero"`
	Change     hub.WorkChange `json:"change,omitzero"`
	Names      []string       `json:"names,omitempty"` // of revisions and files; see repositoryFacts
}

// findings are the answer to an inspection.
// An error travels as its code and text. Members that a method does not produce are
// absent.
type findings struct {
	Checks []hub.Check `json:"checks,omitempty"`
	Text   string      `json:"text,omitempty"`
	Commit string      `json:"commit,omitempty"`
	More   int         `json:"more,omitempty"`

	State  *hub.WorkState  `json:"state,omitempty"`
	Change *hub.WorkChange `json:"change,omitempty"`
	Since  hub.Time        `json:"since,omitzero"`

	Repository *repositoryFacts `json:"repository,omitempty"`

	Code  hub.Code `json:"code,omitempty"` // of an error
	Error string   `json:"error,omitempty"`
}

// fail puts an error into the answer; nil leaves it as it is.
func (f *findings) fail(err error) {
	if err != nil {
		f.Code, f.Error = hub.CodeOf(err), err.Error()
	}
}

// err returns the error of the other hub.
func (f findings) err() error {
	if f.Error == "" {
		return nil
	}
	return &hub.Error{Code: f.Code, Err: errors.New(f.Error)}
}

// here performs an inspection on this machine.
// A method that this version does not know is refused with a code, so the other hub
// can say that the machine runs an older version.
func (d *Distant) here(ctx context.Context, repos Repositories, q inspection) (f findings) {
	var err error
	switch q.Method {
	case "artifact":
		f.Checks = []hub.Check{d.Inspector.Artifact(ctx, q.Ref, q.Path)}
	case "commit":
		f.Checks = []hub.Check{d.Inspector.Commit(ctx, q.Path, q.Other)}
	case "worktree":
		f.Checks = d.Inspector.Worktree(ctx, q.Path, q.Other)

	case "record":
		var state hub.WorkState
		state, err = d.Inspector.State(ctx, q.Path, q.Handoff)
		f.State = &state
	case "compare":
		var change hub.WorkChange
		change, err = d.Inspector.Compare(ctx, q.Comparison)
		f.Change = &change

	case "make_commit":
		f.Commit, err = d.Inspector.MakeCommit(ctx, q.NewCommit)
	case "missing":
		f.Since, err = d.Inspector.Missing(ctx, q.Change)
	case "diff":
		var p hub.Patch
		p, err = d.Inspector.Diff(ctx, q.Path, q.Other)
		f.Text = p.Text
		f.Commit = p.Commit
		f.More = p.More
	case "repository":
		f.Repository, err = factsOf(ctx, repos, q.Other, q.Path, q.Names)
	default:
		err = hub.Errorf(hub.CodeNotEnabled, "evidence.inspect", "unknown inspection %q: the other hub is a newer version", q.Method)
	}

	f.fail(err)
	return f
}

// Answer answers the inspections of hubs on other machines until ctx ends. repos are those of this machine.
func (d *Distant) Answer(ctx context.Context, repos Repositories) {
	d.machines.Answer(ctx, func(ctx context.Context, inquiry string) string {
		var q inspection
		var f findings
		err := json.Unmarshal([]byte(inquiry), &q)
		if err == nil {
			f = d.here(ctx, repos, q)
		}
		f.fail(err)
		raw, _ := json.Marshal(f) // of strings: cannot fail
		return string(raw)
	})
}

// machine returns the machine whose root holds a path; "" for this one, and for a path
// under no root. Of several machines it is one with a hub that runs.
func (d *Distant) machine(ctx context.Context, path string) (found string, err error) {
	if rooted, err := d.Inspector.Rooted(ctx, path); err != nil || rooted {
		return "", err
	}
	all, err := d.machines.MachineRoots(ctx)
	for _, r := range all {
		inside, err := filepath.Rel(r.Path, path)
		if err != nil || !filepath.IsLocal(inside) {
			continue
		}
		if found == "" || d.machines.Away(found) {
			found = r.Machine
		}
	}
	return found, err
}

// inspect performs an inspection on the machine of a path. If that cannot be asked, the
// answer is an error and an unverifiable check.
// path decides about the machine; what names the claim in a check that says that
// the machine could not be asked.
func (d *Distant) inspect(ctx context.Context, path, what string, q inspection) findings {
	machine, err := d.machine(ctx, path)
	if err == nil && machine == "" {
		return d.here(ctx, nil, q)
	}
	var f findings
	if err == nil {
		var raw []byte
		var answer string
		if raw, err = json.Marshal(q); err == nil {
			answer, err = d.machines.Ask(ctx, machine, string(raw))
		}
		if err == nil {
			err = json.Unmarshal([]byte(answer), &f)
		}
	}
	if err == nil && f.Checks == nil {
		err = f.err()
	}
	if err != nil {
		f = findings{Checks: []hub.Check{{What: what, Result: hub.CheckUnverifiable, Detail: err.Error()}}}
		f.fail(err)
	}
	return f
}

// Artifact checks a reference to a file, on the machine that has it.
func (d *Distant) Artifact(ctx context.Context, ref hub.ArtifactRef, worktree string) hub.Check {
	path := ref.Path
	if ref.Type == "branch" {
		path = worktree
	}
	c := d.inspect(ctx, path, ref.Type+" "+ref.Path, inspection{Method: "artifact", Path: worktree, Ref: ref}).Checks[0]
	c.Kind = hub.CheckKind(ref.Type)
	return c
}

// Commit checks that a worktree has a commit, on the machine that has it.
func (d *Distant) Commit(ctx context.Context, worktree, commit string) hub.Check {
	c := d.inspect(ctx, worktree, "commit "+commit, inspection{Method: "commit", Path: worktree, Other: commit}).Checks[0]
	c.Kind = hub.CheckKindCommit
	return c
}

// Worktree checks that a worktree has a branch, on the machine that has it.
func (d *Distant) Worktree(ctx context.Context, path, branch string) []hub.Check {
	checks := d.inspect(ctx, path, "worktree "+path, inspection{Method: "worktree", Path: path, Other: branch}).Checks
	if len(checks) == 1 && checks[0].Kind == "" { // the machine could not be asked
		checks[0].Kind = hub.CheckKindWorktree
	}
	return checks
}

// Rooted reports whether a path is under a root of any machine.
// A path under a root of another machine counts as rooted, whether a hub runs there
// now or not.
func (d *Distant) Rooted(ctx context.Context, path string) (bool, error) {
	machine, err := d.machine(ctx, path)
	if err != nil || machine != "" {
		return err == nil, err
	}
	return d.Inspector.Rooted(ctx, path)
}

// State records the state of a worktree on the machine that has it.
func (d *Distant) State(ctx context.Context, path string, id hub.HandoffID) (hub.WorkState, error) {
	f := d.inspect(ctx, path, "", inspection{Method: "record", Path: path, Handoff: id})
	return valueOf(f.State, f.err())
}

// Compare compares a worktree with a recorded state on the machine that has it.
func (d *Distant) Compare(ctx context.Context, q hub.Comparison) (hub.WorkChange, error) {
	f := d.inspect(ctx, q.Path, "", inspection{Method: "compare", Path: q.Path, Comparison: q})
	return valueOf(f.Change, f.err())
}

// MakeCommit makes a commit of a recorded state on the machine that has the worktree.
func (d *Distant) MakeCommit(ctx context.Context, c hub.NewCommit) (string, error) {
	f := d.inspect(ctx, c.Path, "", inspection{Method: "make_commit", Path: c.Path, NewCommit: c})
	return f.Commit, f.err()
}

// Missing returns since when the work of a change is missing in its repository.
func (d *Distant) Missing(ctx context.Context, c hub.WorkChange) (hub.Time, error) {
	f := d.inspect(ctx, c.Now.Path, "", inspection{Method: "missing", Path: c.Now.Path, Change: c})
	return f.Since, f.err()
}

// valueOf returns the value of an answer. A hub that has no such method answers without one.
func valueOf[T any](v *T, err error) (T, error) {
	var none T
	switch {
	case err != nil:
		return none, err
	case v == nil:
		return none, hub.Errorf(hub.CodeNotEnabled, "evidence.inspect", "the hub on that machine is an older version")
	}
	return *v, nil
}

// Diff returns the difference of a worktree from a commit.
func (d *Distant) Diff(ctx context.Context, path, from string) (hub.Patch, error) {
	f := d.inspect(ctx, path, "", inspection{Method: "diff", Path: path, Other: from})
	return hub.Patch{Commit: f.Commit, Text: f.Text, More: f.More}, f.err()
}

// A DistantTrees reads working trees where hubs of several machines share a store. Only the hub
// of its machine answers for a tree.
type DistantTrees struct {
	*Trees
	distant *Distant
}

// Tree returns the working tree of a path. It reports CodeUnreachable for one on another machine.
func (d DistantTrees) Tree(ctx context.Context, path string) (hub.WorkingTree, error) {
	t, err := d.Trees.Tree(ctx, path)
	if hub.CodeOf(err) != hub.CodeOutsideRoots {
		return t, err
	}
	machine, findErr := d.distant.machine(ctx, path)
	if findErr == nil && machine != "" {
		return t, hub.Errorf(hub.CodeUnreachable, "evidence.Tree", "%s is on %s: only the hub of that machine answers for it", path, machine)
	}
	return t, err
}
