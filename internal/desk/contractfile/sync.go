package contractfile

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/parley-agents/parley/compat"
	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/coord"
	"github.com/parley-agents/parley/internal/operation/coordination"
	"github.com/parley-agents/parley/internal/operation/rpc"
	"github.com/parley-agents/parley/internal/service/contract"
)

// A Word is the state of a file compared with the hub.
type Word string

// The states.
const (
	Same     Word = "same"
	Ahead    Word = "ahead"     // the file was changed
	Behind   Word = "behind"    // the hub has a version that the file has not
	Conflict Word = "conflict"  // both
	Ended    Word = "withdrawn" // the contract was withdrawn on the hub
	New      Word = "new"       // the hub has no such contract, or the repository did not declare its use
)

// A State is a file compared with the hub.
type State struct {
	Name    string      `json:"name"`
	File    string      `json:"file"`
	State   Word        `json:"state"`
	Verdict compat.Word `json:"verdict,omitempty"` // of the file compared with the version in force; only for files that were changed
	Drift   []string    `json:"drift"`             // JSON pointers to values that differ
}

// States is the answer of the commands: the state of every file.
type States struct {
	Files []State `json:"files"`
}

// Same reports whether no file differs.
func (s States) Same() bool {
	return !slices.ContainsFunc(s.Files, func(f State) bool { return f.State != Same })
}

// An Entry is a contract of a folder: the file and the hub's version of it.
type Entry struct {
	State
	Diff     *contract.Diff // of the file compared with the version in force; nil if the file was not changed
	provided *Provided
	used     *Used
	format   compat.Format
	local    json.RawMessage // nil if there is no file
	remote   coordination.Contract
	onHub    bool
	declared bool // the hub knows the parts that the repository uses
}

// maxDrift is the number of pointers of a file.
const maxDrift = 100

// Compare compares the files of a folder with the contracts of a project.
func (f *Folder) Compare(ctx context.Context, c *rpc.Client, project coord.ProjectID) ([]Entry, error) {
	var out []Entry
	for i := range f.Provides {
		p := &f.Provides[i]
		e := Entry{State: State{Name: p.Name, File: p.File}, provided: p}
		if err := f.fill(ctx, c, project, &e); err != nil {
			return nil, err
		}
		out = append(out, e)
	}
	for i := range f.Uses {
		u := &f.Uses[i]
		e := Entry{State: State{Name: u.Name, File: u.File}, used: u}
		if err := f.fill(ctx, c, project, &e); err != nil {
			return nil, err
		}
		out = append(out, e)
	}
	return out, nil
}

// fill fills an entry: the content of its file, the contract of the hub, and the state.
func (f *Folder) fill(ctx context.Context, c *rpc.Client, project coord.ProjectID, e *Entry) (err error) {
	e.Drift = []string{}
	e.remote, err = rpc.Call(ctx, c, coordination.GetContract, coordination.GetParams{InContract: contract.Of(project, coord.ContractID(e.Name)), History: true})
	e.onHub = err == nil
	if err != nil && hub.CodeOf(err) != hub.CodeNotFound {
		return err
	}

	// The format that the hub knows decides about a file whose format is not named.
	format := compat.Format(e.remote.Shown.Format)
	kind := string(e.remote.Type)
	if e.provided != nil {
		format = cmp.Or(e.provided.Format, format)
		kind = cmp.Or(e.provided.Type, kind)
	}
	if e.File != "" {
		if e.local, e.format, err = f.content(e.File, format, kind); err != nil {
			return err
		}
	}
	if e.provided != nil && !e.onHub && e.local == nil {
		return hub.Errorf(hub.CodeNotFound, "contractfile.Compare", "there is no file %s of the contract %s", e.File, e.Name)
	}

	e.declared = e.used != nil && e.onHub && f.isDeclared(*e)
	e.State.State = f.stateOf(*e)
	return e.judge(ctx, c, project)
}

// isDeclared reports whether the hub knows the parts that the repository uses. Without the name
// of the repository any consumer with these parts counts.
func (f *Folder) isDeclared(e Entry) bool {
	wanted := slices.Sorted(slices.Values(e.used.Parts))
	return slices.ContainsFunc(e.remote.Shown.Uses, func(u coordination.ShownUse) bool {
		isOurs := f.Repository == "" || u.Repository == f.Repository
		return isOurs && slices.Equal(slices.Sorted(slices.Values(u.Parts)), wanted)
	})
}

// stateOf returns the state of an entry. The lock file has the version that the file was equal
// to: a side that is still at it did not change.
func (f *Folder) stateOf(e Entry) Word {
	if !e.onHub {
		return New
	}
	if e.remote.State() == coord.StateWithdrawn {
		return Ended
	}
	wanted, _ := e.wanted()
	local := coord.ContentHash(e.local)
	now := coord.ContentHash(wanted)
	lock, isLocked := f.locked(e.Name)

	switch {
	case e.File == "" && e.declared:
		return Same
	case e.File == "":
		return New
	case wanted == nil && e.local == nil: // nothing is agreed yet
		return Same
	case e.local == nil:
		return Behind
	case local == now && (e.used == nil || e.declared):
		return Same
	case local == now:
		return New
	case !isLocked:
		return Conflict
	case local == lock.Digest:
		return Behind
	case now == lock.Digest || now == lock.Base:
		return Ahead
	}
	return Conflict
}

// wanted returns the content of the hub that a file is compared with, and its version: the
// newest for a provider, the agreed one for a consumer. It is nil if nothing is agreed yet.
func (e Entry) wanted() (json.RawMessage, int) {
	if e.provided != nil {
		return e.remote.Content, e.remote.Version
	}
	return e.agreed()
}

// agreed returns the content and the version that is in force, or that was agreed.
func (e Entry) agreed() (json.RawMessage, int) {
	force := e.remote.Shown.InForce
	switch {
	case force == nil && e.remote.Status.Reaches(coord.ContractAgreed):
		return e.remote.Content, e.remote.Version
	case force == nil:
		return nil, 0
	case force.Version == e.remote.Version:
		return e.remote.Content, e.remote.Version
	}
	for _, v := range e.remote.History {
		if v.Version == force.Version {
			return v.Content, v.Version
		}
	}
	return nil, 0
}

// judge adds the pointers that differ, and for a changed file of a provider the verdict of the
// hub.
func (e *Entry) judge(ctx context.Context, c *rpc.Client, project coord.ProjectID) error {
	wanted, _ := e.wanted()
	if e.State.State == Same || e.local == nil || wanted == nil {
		return nil
	}
	e.Drift = drift("", decoded(wanted), decoded(e.local), []string{})
	isChanged := e.State.State == Ahead || e.State.State == Conflict
	if e.provided == nil || !isChanged {
		return nil
	}
	got, err := rpc.Call(ctx, c, coordination.DiffContract, contract.DiffQuery{InContract: contract.Of(project, e.remote.ID), Content: e.local})
	if err != nil {
		return err
	}
	e.Diff = &got
	e.Verdict = worst(got.Verdict)
	return nil
}

// worst returns the verdict for the consumer that is affected most, or for a consumer of
// everything if none is declared.
func worst(v compat.Verdict) compat.Word {
	if len(v.Consumers) == 0 {
		return v.Verdict
	}
	out := compat.Compatible
	for _, c := range v.Consumers {
		if c.Verdict == compat.Breaking || out == compat.Compatible {
			out = c.Verdict
		}
	}
	return out
}

// decoded returns the value of a JSON text, with json.Number for numbers.
func decoded(raw json.RawMessage) (out any) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	if dec.Decode(&out) != nil {
		return string(raw)
	}
	return out
}

// drift appends the pointers of the values that differ, at most maxDrift.
func drift(at string, old, new any, out []string) []string {
	if len(out) >= maxDrift {
		return out
	}
	a, isObject := old.(map[string]any)
	b, both := new.(map[string]any)
	if isObject && both {
		names := maps.Clone(a)
		maps.Copy(names, b)
		for _, name := range slices.Sorted(maps.Keys(names)) {
			out = drift(at+"/"+strings.NewReplacer("~", "~0", "/", "~1").Replace(name), memberOf(a, name), memberOf(b, name), out)
		}
		return out
	}
	list, isList := old.([]any)
	other, both := new.([]any)
	if isList && both && len(list) == len(other) {
		for i := range list {
			out = drift(at+"/"+strconv.Itoa(i), list[i], other[i], out)
		}
		return out
	}
	x, _ := json.Marshal(old)
	y, _ := json.Marshal(new)
	if coord.ContentHash(x) != coord.ContentHash(y) {
		out = append(out, at)
	}
	return out
}

// missing is the value of a member that is not there.
type missing struct{}

// MarshalJSON returns a text that no value has.
func (missing) MarshalJSON() ([]byte, error) { return []byte(`"\u0000missing"`), nil }

// memberOf returns a member of an object, or missing.
func memberOf(m map[string]any, name string) any {
	if v, ok := m[name]; ok {
		return v
	}
	return missing{}
}

// StatesOf returns the states of entries.
func StatesOf(entries []Entry) States {
	out := States{Files: []State{}}
	for _, e := range entries {
		out.Files = append(out.Files, e.State)
	}
	return out
}

// types are the types of new contracts by format.
var types = map[compat.Format]coord.ContractType{
	compat.FormatOpenAPI: coord.ContractAPI, compat.FormatShape: coord.ContractAPI, compat.FormatJSONSchema: coord.ContractModel, compat.FormatCustom: coord.ContractCustom,
}

// A Pushed is the hub's answer about one contract.
type Pushed struct {
	Name     string                 `json:"name"`
	Proposal *coordination.Proposed `json:"proposal,omitempty"` // of a provided contract
	Use      *contract.Used         `json:"use,omitempty"`
}

// Pushes reports whether Push would change the hub for an entry.
func (e Entry) Pushes(force bool) bool {
	switch e.State.State {
	case New:
		return true
	case Ahead:
		return e.provided != nil
	case Conflict:
		return e.provided != nil && force
	}
	return e.used != nil && e.onHub && !e.declared
}

// Push proposes the provided files that differ, declares the uses, and writes the lock file. A
// file that does not have the hub's newest version is CodeConflict before anything is changed,
// unless force is set.
func (f *Folder) Push(ctx context.Context, c *rpc.Client, project coord.ProjectID, entries []Entry, force bool) ([]Pushed, error) {
	const op = "contractfile.Push"
	for _, e := range entries {
		isOld := e.State.State == Behind || e.State.State == Conflict
		switch {
		case e.provided != nil && isOld && !force:
			return nil, hub.Errorf(hub.CodeConflict, op, "%s: the hub has version %d of %s, which the file does not contain", e.File, e.remote.Version, e.Name).
				WithHint(`run "parley contract pull" to take it, or "parley contract push --force" to replace it`)
		case e.used != nil && !e.onHub:
			return nil, hub.Errorf(hub.CodeNotFound, op, "no contract named %s in the project; its provider has to push it first", e.Name)
		}
	}

	out := []Pushed{}
	for _, e := range entries {
		if !e.Pushes(force) {
			f.keepLocked(e)
			continue
		}
		done, err := f.push(ctx, c, project, e)
		if err != nil {
			return out, errors.Join(fmt.Errorf("%s: %w", e.Name, err), f.writeLock())
		}
		out = append(out, done)
	}
	return out, f.writeLock()
}

// push changes the hub for one entry.
func (f *Folder) push(ctx context.Context, c *rpc.Client, project coord.ProjectID, e Entry) (Pushed, error) {
	as := contract.As{Repo: f.Repository}
	if e.used != nil {
		got, err := rpc.Call(ctx, c, coordination.Use, contract.Declaration{InContract: contract.Of(project, e.remote.ID), As: as, Parts: e.used.Parts, Source: Name})
		f.keepLocked(e)
		return Pushed{Name: e.Name, Use: &got.Use}, err
	}

	var got coordination.Proposed
	var err error
	if !e.onHub {
		kind := cmp.Or(coord.ContractType(e.provided.Type), types[e.format])
		got, err = rpc.Call(ctx, c, coordination.Propose, contract.Proposal{
			InProject: contract.In(project), As: as, Type: kind, Name: e.Name, Content: e.local,
			Direction: contract.Direction{Provider: cmp.Or(f.Repository, contract.OwnRepository), Format: string(e.format), Flow: string(e.provided.Direction)},
		})
	} else {
		got, err = rpc.Call(ctx, c, coordination.Update, contract.Revision{
			InContract: contract.Of(project, e.remote.ID), As: as, Content: e.local, Version: e.remote.Version,
		})
	}
	if err != nil {
		return Pushed{}, err
	}
	base, _ := e.agreed()
	l := Locked{Name: e.Name, Version: got.Version, Digest: coord.ContentHash(e.local)}
	if base != nil {
		l.Base = coord.ContentHash(base)
	}
	f.setLocked(l)
	return Pushed{Name: e.Name, Proposal: &got}, nil
}

// keepLocked writes the version of a file into the lock if the file has it.
func (f *Folder) keepLocked(e Entry) {
	wanted, version := e.wanted()
	if e.local == nil || wanted == nil || coord.ContentHash(e.local) != coord.ContentHash(wanted) {
		return
	}
	f.lockAt(e, wanted, version)
}

// lockAt writes a version of the hub into the lock.
func (f *Folder) lockAt(e Entry, content json.RawMessage, version int) {
	l := Locked{Name: e.Name, Version: version, Digest: coord.ContentHash(content)}
	if base, _ := e.agreed(); base != nil {
		l.Base = coord.ContentHash(base)
	}
	f.setLocked(l)
}

// Pull writes the agreed versions to the files that do not have them, and the lock file. A file
// that was changed is left alone unless force is set; then the error is CodeConflict and names
// the files, after the others were written. It returns the names of the files that it wrote.
func (f *Folder) Pull(entries []Entry, force bool) (written []string, err error) {
	const op = "contractfile.Pull"
	var kept []string
	for _, e := range entries {
		content, version := e.agreed()
		isChanged := e.State.State == Ahead || e.State.State == Conflict
		switch {
		case e.File == "" || content == nil:
			continue
		case e.local != nil && coord.ContentHash(e.local) == coord.ContentHash(content):
			f.lockAt(e, content, version)
			continue
		case isChanged && !force:
			kept = append(kept, e.File)
			continue
		case e.State.State == Same: // a provider's own version, which is not agreed yet
			continue
		}
		if err := f.write(e.File, content); err != nil {
			return written, hub.Errorf(hub.CodeInvalid, op, "%s: %w", e.File, err)
		}
		f.lockAt(e, content, version)
		written = append(written, e.File)
	}
	if err := f.writeLock(); err != nil {
		return written, hub.Errorf(hub.CodeInvalid, op, "%w", err)
	}
	if len(kept) > 0 {
		return written, hub.Errorf(hub.CodeConflict, op, "%s: changed here, and left as it is", strings.Join(kept, ", ")).
			WithHint(`run "parley contract pull --force" to replace it by the agreed version`)
	}
	return written, nil
}
