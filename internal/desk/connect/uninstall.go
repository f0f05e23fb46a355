package connect

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/desk/cli"
	"github.com/parley-agents/parley/internal/operation/rpc"
	"github.com/parley-agents/parley/server"
)

// A Service is the hub of the home as a service of the system.
type Service interface {
	// Installed reports CodeConflict if the service is that of another home.
	Installed() (bool, error)

	// Remove stops the service and removes its file.
	Remove(ctx context.Context) error
}

// Launches are the agent CLIs that were started in a terminal as agents of the home.
type Launches interface {
	// CLIs returns the name of each CLI once.
	CLIs() []string

	// Forget forgets the identities of a CLI and revokes their keys.
	Forget(ctx context.Context, cli string) error
}

// Guards are the hooks of git that call the guard of the home.
type Guards interface {
	// Folders returns the hooks folders of repositories.
	Folders() []string

	// Remove takes the guard out of the hook in a folder.
	Remove(folder string) error
}

// An Uninstaller removes Parley from a machine as far as one home is concerned.
type Uninstaller struct {
	Home        string  // absolute path
	Service     Service // nil on a system without services
	ServiceFile string
	Launches    Launches
	Guards      Guards

	// Client returns a client that calls the hub of the home as the operator.
	Client func() (*rpc.Client, error)

	// Stop stops the hub of the home and returns when it has ended.
	Stop func(ctx context.Context) error

	// Note tells the user of a step that is left to them.
	Note func(text string)
}

// A Removal has the things that an Uninstaller found and removed. It is the answer of
// uninstall with --json.
type Removal struct {
	Home        string   `json:"home"`
	Connections []Record `json:"connections"`       // entries in files of CLIs
	Launched    []string `json:"launched"`          // CLIs that were launched as agents
	Guarded     []string `json:"guarded"`           // hooks folders of repositories whose commits are checked
	Service     string   `json:"service,omitempty"` // the file of the service
	Running     bool     `json:"running"`           // a hub, before
	Worktrees   []string `json:"worktrees"`         // folders of kept agents, with their work
	Purged      bool     `json:"purged"`            // the home was removed
	Program     string   `json:"program"`           // this program; it stays
	Removed     bool     `json:"removed"`           // false: nothing was changed
	Left        []string `json:"left,omitempty"`    // sentences about the things that stay
	hub         bool     // the home is that of a hub
}

// Find finds the files and entries that Parley has made for this user and the home. It
// reports CodeNotFound if there is nothing.
func (u *Uninstaller) Find() (*Removal, error) {
	r := &Removal{Home: u.Home, Connections: Records(u.Home), Launched: u.Launches.CLIs(), Worktrees: []string{}, Running: server.Running(u.Home)}
	if r.Connections == nil {
		r.Connections = []Record{}
	}
	r.Guarded = append([]string{}, u.Guards.Folders()...)
	if u.Service != nil {
		switch installed, err := u.Service.Installed(); {
		case hub.CodeOf(err) == hub.CodeConflict: // the service of another home stays
		case err != nil:
			return nil, err
		case installed:
			r.Service = u.ServiceFile
		}
	}
	if found, err := filepath.Glob(filepath.Join(u.Home, "worktrees", "*")); err == nil && found != nil {
		r.Worktrees = found
	}

	_, err := os.Stat(filepath.Join(u.Home, server.OperatorKeyFile))
	r.hub = err == nil
	if !r.hub && r.Service == "" && len(r.Connections) == 0 {
		return nil, hub.Errorf(hub.CodeNotFound, "connect.Find", "no hub in %s, and no service for it", u.Home).WithHint("pass the hub's home with --home")
	}
	r.Program, err = os.Executable()
	return r, err
}

// WritePlan writes the steps of a removal.
func (r *Removal) WritePlan(w io.Writer, purge bool) {
	for _, c := range r.Connections {
		where := "your files"
		if c.Dir != "" {
			where = c.Dir
		}
		fmt.Fprintf(w, "remove the hub from the files of %s in %s (agent %s)\n", c.CLI, where, c.Agent)
	}
	for _, name := range r.Launched {
		fmt.Fprintf(w, "forget the launches of %s\n", name)
	}
	for _, folder := range r.Guarded {
		fmt.Fprintf(w, "remove the guard from the pre-commit hook in %s\n", folder)
	}
	if r.Service != "" {
		fmt.Fprintf(w, "remove the service %s\n", r.Service)
	}
	if r.Running {
		fmt.Fprintf(w, "stop the hub in %s\n", r.Home)
	}
	if purge {
		fmt.Fprintf(w, "remove the home %s\n", r.Home)
	}
}

// Remove performs a removal. The hub, if it runs, revokes keys first and is stopped
// then. A step that fails ends it; to run it again goes on with the rest. With purge the
// home is removed, too.
func (u *Uninstaller) Remove(ctx context.Context, r *Removal, purge bool) error {
	if purge && !r.hub {
		return hub.Errorf(hub.CodeNotFound, "connect.Remove", "%s is not a hub's home and was not removed", r.Home)
	}

	for _, c := range r.Connections {
		if err := u.disconnect(ctx, c); err != nil {
			return fmt.Errorf("cannot disconnect %s: %w", c.CLI, err)
		}
	}
	if r.Running {
		for _, name := range r.Launched {
			if err := u.Launches.Forget(ctx, name); err != nil {
				return fmt.Errorf("cannot forget the launches of %s: %w", name, err)
			}
		}
	}

	// A hook that cannot be changed lets commits pass when the program is gone.
	for _, folder := range r.Guarded {
		if err := u.Guards.Remove(folder); err != nil {
			u.Note(fmt.Sprintf("the guard stays in the pre-commit hook in %s: %v", folder, err))
		}
	}

	// The keys are revoked by now, so that the hub can stop.
	if r.Service != "" {
		if err := u.Service.Remove(ctx); err != nil {
			return err
		}
	}
	if server.Running(r.Home) { // the service has stopped its own
		if err := u.Stop(ctx); err != nil {
			return err
		}
	}
	r.Removed = true

	if purge {
		if err := os.RemoveAll(r.Home); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		r.Purged = true
	}
	r.nameLeft()
	return nil
}

// nameLeft adds the sentences about the things that stay.
func (r *Removal) nameLeft() {
	if r.Purged {
		if len(r.Worktrees) > 0 {
			r.Left = append(r.Left, `the branches parley/NAME of kept agents stay in your repositories; run "git worktree prune" there to forget their folders`)
		}
	} else {
		for _, w := range r.Worktrees {
			r.Left = append(r.Left, fmt.Sprintf(`a kept agent worked in %s; remove the folder with "git worktree remove"`, w))
		}
		r.Left = append(r.Left, fmt.Sprintf(`the hub's home %s stays, with messages, keys, records and backups of the CLIs' files in %s; "parley uninstall --purge" removes it`, r.Home, BackupsDir))
	}
	r.Left = append(r.Left, fmt.Sprintf("the program %s stays; remove it the way you installed it (docs/uninstall.md)", r.Program))
}

// disconnect takes out one connection. Of a folder that is gone nothing is left to do.
func (u *Uninstaller) disconnect(ctx context.Context, r Record) error {
	known, err := cli.LookupConnectable(r.CLI)
	if err != nil {
		return err
	}
	c := &Connection{
		CLI: known, Agent: r.Agent, Client: u.Client,
		Place: cli.Place{Scope: r.Scope}, Entry: cli.Entry{Name: r.Name, Transport: r.Transport},
	}
	if err := c.Locate(u.Home, ""); err != nil {
		return err
	}

	if r.Dir != "" {
		if _, err := os.Stat(r.Dir); errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		c.Place.Dir = r.Dir
	}

	// The notes name the steps that are done, also if Undo failed after them.
	done, err := c.Undo(ctx)
	if err != nil && done.Revoked > 0 {
		u.Note(fmt.Sprintf("%d keys revoked", done.Revoked))
	}
	if done.StillWakes != nil {
		u.Note(fmt.Sprintf("mail may still start turns: %v", done.StillWakes))
	}
	for _, note := range done.Notes() {
		u.Note(note)
	}
	return err
}
