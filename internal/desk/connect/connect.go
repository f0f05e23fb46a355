// Package connect gives agent CLIs of a user the tools of a hub, permanently: an entry in
// the files of the CLI, a key of an agent in the hub's home, and a record of the
// connection. It takes the same out again, finds connections that do not work any more,
// and removes Parley from a machine.
//
// Nothing is made before every change of a file was planned; a key that cannot be written
// is revoked; a connection that replaces another revokes the key of that one. Files are
// changed as package cli promises, and the former ones are kept in the home.
//
// The package prints nothing. Questions go through [Connection.Ask].
//
// Records are tested here; connecting and uninstalling are tested through the commands in
// cmd/parley, and the changes of files in internal/desk/cli.
package connect

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/desk/cli"
	"github.com/parley-agents/parley/internal/ground/durable"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/operation/rpc"
)

// BackupsDir is the folder of a home with the files of CLIs as they were before.
const BackupsDir = "backups"

// A Connection is one agent CLI and how it finds the hub.
type Connection struct {
	CLI   cli.CLI
	Agent hub.AgentID
	Role  string // of an agent that is new
	Entry cli.Entry
	Place cli.Place
	Home  string // of the hub; absolute path
	Allow bool   // let the CLI use the tools without asking
	Wake  bool   // hooks in every session, and mail may start turns

	// Client returns a client that calls the hub as the operator.
	Client func() (*rpc.Client, error)

	// Ask asks a person a question that yes or no answers; nil if no person is there.
	Ask func(ctx context.Context, question string) (bool, error)
}

// A Result is what connecting or disconnecting did. It is the answer of connect with
// --json.
type Result struct {
	CLI     string          `json:"cli"`
	Agent   hub.AgentID     `json:"agent,omitempty"`
	Added   bool            `json:"agent_added,omitempty"`
	KeyFile string          `json:"key_file,omitempty"`
	Change  cli.Change      `json:"change"`
	Written []cli.SavedFile `json:"written"`
	Revoked int             `json:"keys_revoked,omitempty"`

	Displaced hub.AgentID `json:"displaced,omitempty"` // the agent as which the CLI was connected before

	// After Undo: agents whose key could not be revoked, and why mail may still start
	// turns; nil if it does not.
	Unrevoked  []hub.AgentID `json:"-"`
	StillWakes error         `json:"-"`
}

// Notes returns a sentence for each step of Undo that is left to the user.
func (r Result) Notes() (out []string) {
	for _, agent := range slices.Compact(slices.Clone(r.Unrevoked)) {
		out = append(out, fmt.Sprintf(`the key of %s could not be revoked; find its label with "parley agent list", then run "parley agent revoke %s --label LABEL"`, agent, agent))
	}
	return out
}

// Locate fills the folders of the user and of this process, and the program and the
// address of the hub.
func (c *Connection) Locate(home, url string) (err error) {
	if c.Place.Home, err = os.UserHomeDir(); err != nil {
		return hub.Errorf(hub.CodeInvalid, "connect.Locate", "cannot find your home folder: %v", err)
	}
	if c.Place.Dir, err = os.Getwd(); err != nil {
		return err
	}
	if c.Home, err = filepath.Abs(home); err != nil {
		return err
	}
	c.Entry.URL = url
	c.Entry.Command, err = os.Executable()
	return err
}

// keyFile returns the file that holds the key for the CLI.
func (c *Connection) keyFile() string { return c.Record().KeyFile(c.Home) }

// anyKey stands for a key where only the rest matters.
const anyKey = "key"

// Preview returns the changes of files that Connect would make, with a stand-in for the
// key.
func (c *Connection) Preview() (cli.Change, error) { return c.plan(anyKey) }

// plan returns the changes of files for a key.
func (c *Connection) plan(key string) (cli.Change, error) {
	e := c.Entry
	if e.Transport == cli.HTTP {
		e.Key = key
	} else {
		e.KeyFile = c.keyFile()
	}
	change, err := cli.PlanConnection(c.CLI, e, c.Place)

	if err == nil && c.Allow {
		var allowed cli.Change
		allowed, err = cli.Allow(c.CLI, c.Entry.Name, c.Place, true)
		change.Edits = append(change.Edits, allowed.Edits...)
	}
	if err == nil && c.Wake {
		change, err = c.hooks(change, true)
	}
	if _, missing := errors.AsType[*cli.NotInstalledError](err); missing {
		return change, hub.Errorf(hub.CodeNotFound, "connect.Plan", "%w", err).WithHint("install it, add it to the PATH, or use --force")
	}
	return change, err
}

// hooks adds the hooks of every session to a change, or takes them out.
func (c *Connection) hooks(change cli.Change, on bool) (cli.Change, error) {
	additions, err := c.CLI.Permanent([]string{c.Entry.Command, "--home", c.Home, "--key-file", c.keyFile()})
	if err != nil {
		return change, err
	}
	if on && c.CLI.Stays != "" {
		change.Notes = append(change.Notes, c.CLI.Stays)
	}
	return cli.Extend(c.CLI, change, additions, c.Place, on)
}

// Connect gives the CLI a key of the agent, and the hub's tools.
func (c *Connection) Connect(ctx context.Context) (out Result, err error) {
	if _, err := c.Preview(); err != nil { // before anything is made
		return out, err
	}
	client, err := c.Client()
	if err != nil {
		return out, err
	}
	if err := c.askForTools(ctx); err != nil {
		return out, err
	}

	out = Result{CLI: c.CLI.Name, Agent: c.Agent}
	if out.Added, err = c.addAgent(ctx, client); err != nil {
		return out, err
	}
	if err := c.exchangeKeys(ctx, client, &out); err != nil {
		return out, err
	}
	if c.Wake {
		_, err = rpc.Call(ctx, client, api.AllowWake, api.WakeAllowParams{Agent: c.Agent, Allow: true})
	}
	return out, err
}

// askForTools asks a person whether a CLI that refuses unknown tools without a person may
// use those of the hub.
func (c *Connection) askForTools(ctx context.Context) (err error) {
	if c.CLI.Refuses() && !c.Allow && c.Ask != nil {
		c.Allow, err = c.Ask(ctx, fmt.Sprintf("Without a person present, %s refuses tools that are not allowed. Allow the hub's tools?", c.CLI.Title))
	}
	return err
}

// addAgent adds the agent to the hub, unless it is there. The first key of a new agent is
// revoked: no program has it.
func (c *Connection) addAgent(ctx context.Context, client *rpc.Client) (added bool, err error) {
	_, err = rpc.Call(ctx, client, api.AddAgent, api.AgentParams{ID: c.Agent, Role: hub.Role(c.Role), Label: "first"})
	switch hub.CodeOf(err) {
	case "":
		_, err = rpc.Call(ctx, client, api.RevokeKeys, api.AgentParams{ID: c.Agent, Label: "first"})
		return true, err
	case hub.CodeConflict: // it is there
		return false, nil
	}
	return false, err
}

// exchangeKeys makes a key, writes it for the CLI, and revokes those of earlier connections,
// which have no user any more. A key that cannot be written is revoked.
func (c *Connection) exchangeKeys(ctx context.Context, client *rpc.Client, out *Result) error {
	old, ever, err := c.keys(ctx, client, c.Agent)
	if err != nil {
		return err
	}
	made, err := rpc.Call(ctx, client, api.AddKey, api.AgentParams{ID: c.Agent, Label: fmt.Sprintf("%s-%d", c.label(), ever+1)})
	if err != nil {
		return err
	}
	if out.Change, out.Written, err = c.write(made.Key); err != nil {
		_, revoked := rpc.Call(ctx, client, api.RevokeKeys, api.AgentParams{ID: c.Agent, Label: made.Label})
		return errors.Join(err, revoked)
	}
	if c.Entry.Transport != cli.HTTP {
		out.KeyFile = c.keyFile()
	}

	if err := c.displace(ctx, client, out); err != nil {
		return err
	}
	out.Revoked, err = revoke(ctx, client, c.Agent, old)
	return err
}

// write keeps the key where the CLI finds it, then changes the CLI's files.
func (c *Connection) write(key string) (cli.Change, []cli.SavedFile, error) {
	change, err := c.plan(key)
	if err != nil {
		return change, nil, err
	}
	if c.Entry.Transport != cli.HTTP {
		if err := os.MkdirAll(filepath.Dir(c.keyFile()), 0o700); err != nil {
			return change, nil, err
		}
		if err := durable.WriteFile(c.keyFile(), []byte(key+"\n"), 0o600); err != nil {
			return change, nil, err
		}
	}
	written, err := change.Apply(time.Now(), filepath.Join(c.Home, BackupsDir))
	return change, append([]cli.SavedFile{}, written...), err
}

// displace records the connection in place of the one that the CLI had here. The key
// of an agent that has no connection with the CLI any more is revoked.
func (c *Connection) displace(ctx context.Context, client *rpc.Client, out *Result) error {
	here := c.Record()
	all := Records(c.Home)
	for _, r := range all {
		if r.samePlace(here) && r.Agent != here.Agent {
			out.Displaced = r.Agent
		}
	}
	all = append(slices.DeleteFunc(all, here.samePlace), here)
	if err := save(c.Home, all); err != nil {
		return err
	}

	old := out.Displaced
	if old == "" || slices.ContainsFunc(all, func(r Record) bool { return r.CLI == here.CLI && r.Agent == old }) {
		return nil
	}
	if err := os.Remove(Record{CLI: here.CLI, Agent: old}.KeyFile(c.Home)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	labels, _, err := c.keys(ctx, client, old)
	if err == nil {
		_, err = revoke(ctx, client, old, labels)
	}
	return err
}

// label marks the keys that connect makes for a CLI.
func (c *Connection) label() string { return "connect-" + c.CLI.Name }

// keys returns the labels of the live keys that connect has made for the CLI,
// and how many it has ever made.
func (c *Connection) keys(ctx context.Context, client *rpc.Client, agent hub.AgentID) (labels []string, ever int, err error) {
	list, err := rpc.Call(ctx, client, api.ListAgents, api.None{})
	if err != nil {
		return nil, 0, err
	}
	for _, p := range list.Agents {
		if p.ID != agent {
			continue
		}
		for _, k := range p.Keys {
			if !strings.HasPrefix(k.Label, c.label()+"-") {
				continue
			}
			ever++
			if k.RevokedAt.IsZero() {
				labels = append(labels, k.Label)
			}
		}
	}
	return labels, ever, nil
}

// revoke revokes the keys of an agent that have the labels, and returns their number.
func revoke(ctx context.Context, client *rpc.Client, agent hub.AgentID, labels []string) (int, error) {
	for _, label := range labels {
		if _, err := rpc.Call(ctx, client, api.RevokeKeys, api.AgentParams{ID: agent, Label: label}); err != nil {
			return 0, err
		}
	}
	return len(labels), nil
}
