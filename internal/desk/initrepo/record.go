package initrepo

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/ground/durable"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/operation/rpc"
)

// recordName is the file in the hub's home that says what init added.
const recordName = "init.json"

// An entry is what init added for one repository.
type entry struct {
	Repository string   `json:"repository"` // its main working tree
	Root       bool     `json:"root,omitempty"`
	Checks     []string `json:"checks,omitempty"`
	Landing    string   `json:"landing,omitempty"` // branch
	Guard      bool     `json:"guard,omitempty"`
}

// readRecord returns the entries of a home. A home without the file has none.
func readRecord(home string) ([]entry, error) {
	file := filepath.Join(home, recordName)
	raw, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var all []entry
	if err := json.Unmarshal(raw, &all); err != nil {
		return nil, hub.Errorf(hub.CodeInvalid, "initrepo", "cannot read %s: %v", file, err)
	}
	return all, nil
}

// note adds an entry to the record of a home, joined with the one that is there.
func note(home string, e entry) error {
	all, err := readRecord(home)
	if err != nil {
		return err
	}
	if i := slices.IndexFunc(all, func(o entry) bool { return o.Repository == e.Repository }); i >= 0 {
		was := all[i]
		e.Root = e.Root || was.Root
		e.Guard = e.Guard || was.Guard
		e.Checks = append(slices.Clone(was.Checks), e.Checks...)
		if e.Landing == "" {
			e.Landing = was.Landing
		}
		all = slices.Delete(all, i, i+1)
	}
	slices.Sort(e.Checks)
	e.Checks = slices.Compact(e.Checks)
	return write(home, append(all, e))
}

func write(home string, all []entry) error {
	raw, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		return err
	}
	return durable.WriteFile(filepath.Join(home, recordName), append(raw, '\n'), 0o600)
}

// WasRun reports whether init set a repository up from a home.
func WasRun(home string, r Repository) bool {
	all, err := readRecord(home)
	return err == nil && slices.ContainsFunc(all, func(e entry) bool { return e.Repository == r.Path })
}

// An Undone says what Undo took back.
type Undone struct {
	Repository Repository `json:"repository"`
	Removed    []string   `json:"removed"` // in words
}

// Undo removes what init added for a repository. Checks, a policy and a folder that are gone
// already are left alone. It reports CodeNotFound if init did not set the repository up.
func Undo(ctx context.Context, c *rpc.Client, home string, r Repository, hook Hook) (Undone, error) {
	const op = "initrepo.Undo"
	out := Undone{Repository: r, Removed: []string{}}
	all, err := readRecord(home)
	if err != nil {
		return out, err
	}
	i := slices.IndexFunc(all, func(e entry) bool { return e.Repository == r.Path })
	if i < 0 {
		return out, hub.Errorf(hub.CodeNotFound, op, "init did not set up %s from this home", r.Path).WithHint("parley init --print shows the state")
	}

	e := all[i]
	removed := func(isMine bool, text string, remove func() error) {
		if !isMine || err != nil {
			return
		}
		switch failed := remove(); hub.CodeOf(failed) {
		case "":
			out.Removed = append(out.Removed, text)
		case hub.CodeNotFound:
		default:
			err = failed
		}
	}
	removed(e.Landing != "", "landing into "+e.Landing, func() error {
		_, err := rpc.Call(ctx, c, api.LandingOff, api.LandingParams{Repo: r.Path, Into: e.Landing})
		return err
	})
	for _, name := range e.Checks {
		removed(true, "check "+name, func() error {
			_, err := rpc.Call(ctx, c, api.RemoveCheck, api.CheckParams{RepositoryParams: api.RepositoryParams{Repository: r.Path}, Name: name})
			return err
		})
	}
	removed(e.Guard, "guard of commits", func() error {
		_, err := hook.Remove()
		return err
	})
	removed(e.Root, "folder "+r.Path, func() error {
		_, err := rpc.Call(ctx, c, api.RemoveRoot, api.RootParams{Path: r.Path})
		return err
	})
	if err != nil {
		return out, err
	}
	return out, write(home, slices.Delete(all, i, i+1))
}

// hintsName is the file in the hub's home with the days on which a person read that init exists.
const hintsName = "init-hints.json"

// TakeHint reports whether to mention init for a repository today: at most once a day, and never
// for one that init set up. A home that cannot be written has no hints.
func TakeHint(home string, r Repository, today string) bool {
	if WasRun(home, r) {
		return false
	}
	days := map[string]string{}
	file := filepath.Join(home, hintsName)
	if raw, err := os.ReadFile(file); err == nil && json.Unmarshal(raw, &days) != nil {
		return false
	}
	if days[r.Path] == today {
		return false
	}
	for path, day := range days {
		if day != today {
			delete(days, path) // yesterday's do not count
		}
	}
	days[r.Path] = today
	raw, err := json.MarshalIndent(days, "", "  ")
	return err == nil && durable.WriteFile(file, append(raw, '\n'), 0o600) == nil
}
