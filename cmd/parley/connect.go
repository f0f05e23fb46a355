package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/briefing"
	"github.com/parley-agents/parley/internal/durable"
	"github.com/parley-agents/parley/internal/reach/catalog"
	"github.com/parley-agents/parley/internal/reach/terminal"
	"github.com/parley-agents/parley/internal/surface/api"
	"github.com/parley-agents/parley/internal/surface/rpc"
)

// A connection is one agent CLI and how it is told about the hub.
type connection struct {
	*app
	cli     catalog.CLI
	agent   hub.AgentID
	role    string
	entry   catalog.Entry
	place   catalog.Place
	home    string // of the hub
	keyFile string // where the key is kept for the CLI
	allow   bool   // let the CLI use the tools without asking
	wake    bool   // hooks in every session, and mail may start turns
}

// connected is the answer of connect with --json.
type connected struct {
	CLI     string              `json:"cli"`
	Agent   hub.AgentID         `json:"agent,omitempty"`
	Added   bool                `json:"agent_added,omitempty"`
	KeyFile string              `json:"key_file,omitempty"`
	Change  catalog.Change      `json:"change"`
	Written []catalog.SavedFile `json:"written"`
	Revoked int                 `json:"keys_revoked,omitempty"`

	Displaced hub.AgentID `json:"displaced,omitempty"` // the agent as which the CLI was connected before
}

func (a *app) connectCommand() *cobra.Command {
	c := connection{app: a}
	var names []string
	for _, cli := range catalog.All() {
		names = append(names, cli.Name)
	}
	var http, printOnly, undo, noInstruction bool
	cmd := &cobra.Command{
		Use:   "connect CLI --agent NAME",
		Short: "Give an installed agent CLI the hub's tools, under an identity of its own",
		Long: `Give an installed agent CLI the hub's tools: write its MCP entry with a key of its
own, and one line of instruction that makes the agent look at its inbox. The
agent is added to the hub if there is none with that name. A backup of
each changed file is kept in the hub's home. claude -p refuses tools that it was
not allowed to use; on a terminal you are asked, scripts say --allow-tools. With
--wake every session of the CLI also tells the hub what it does and is told of mail,
and mail may start a turn while it is idle, which spends tokens; parley launch does
the same for one session without a change to a file. Known are
` + strings.Join(names, ", ") + `.`,
		Example: `  parley connect claude --agent planner
  parley connect codex --agent builder --print
  parley connect claude --agent planner --wake
  parley connect claude --agent planner --undo`,
		Args:      cobra.ExactArgs(1),
		ValidArgs: names,
		RunE: func(cmd *cobra.Command, args []string) error {
			var err error
			if c.cli, err = catalog.Lookup(args[0]); err != nil {
				return err
			}
			if c.agent != "" && !c.agent.Valid() {
				return hub.Errorf(hub.CodeInvalid, "parley", "--agent: %q cannot be an agent's name", c.agent).
					WithHint("names are lower-case letters, digits, dots, dashes and underscores")
			}
			if http {
				c.entry.Transport = catalog.HTTP
			}
			if !noInstruction {
				c.entry.Instruction = briefing.Connected
			}
			if err := c.locate(); err != nil {
				return err
			}
			switch {
			case c.wake && http:
				return usagef("--wake needs a key in a file, which hooks can read").WithHint("leave --http out")
			case undo:
				return c.undo(cmd.Context(), printOnly)
			case c.agent == "":
				return usagef("connect needs the name of the agent").WithHint("name it with --agent; it is added if it is new")
			case printOnly:
				return c.show()
			}
			return c.connect(cmd.Context())
		},
	}
	f := cmd.Flags()
	f.StringVar((*string)(&c.agent), "agent", "", "name of the agent on the hub")
	f.StringVar(&c.role, "role", "", "role of an agent that is new (default executor)")
	f.StringVar((*string)(&c.place.Scope), "scope", "user", "user: wherever you start the CLI; project: in the current folder")
	f.StringVar(&c.entry.Name, "name", "", "name of the hub among the CLI's MCP servers (default "+catalog.DefaultName+")")
	f.BoolVar(&http, "http", false, "let the CLI call the hub over HTTP, with the key in its configuration")
	f.BoolVar(&c.allow, "allow-tools", false, "let the CLI use the hub's tools without asking, where it would refuse them")
	f.BoolVar(&c.wake, "wake", false, "add hooks, and let mail start a turn of an idle session where the CLI can do it")
	f.BoolVar(&noInstruction, "no-instruction", false, "leave the CLI's instruction file alone")
	f.BoolVar(&c.entry.Force, "force", false, "also for a CLI that is not found on this machine")
	f.BoolVar(&printOnly, "print", false, "print the changes of files, and write nothing")
	f.BoolVar(&undo, "undo", false, "remove the entries from the files, and revoke the key")
	choices(cmd, "scope", "user", "project")
	return cmd
}

// locate finds the folders and the hub.
func (c *connection) locate() error {
	var err error
	if c.place.Home, err = os.UserHomeDir(); err != nil {
		return hub.Errorf(hub.CodeInvalid, "parley", "find your home folder: %v", err)
	}
	if c.place.Dir, err = os.Getwd(); err != nil {
		return err
	}
	home, err := c.homeDir()
	if err != nil {
		return err
	}
	if home, err = filepath.Abs(home); err != nil {
		return err
	}
	c.home = home
	c.keyFile = c.record().keyFile(home)
	if c.entry.Command, err = os.Executable(); err != nil {
		return err
	}
	c.entry.URL, err = c.hubURL()
	return err
}

// show prints the change with a stand-in for the key.
func (c *connection) show() error {
	change, err := c.plan(anyKey)
	if err != nil {
		return err
	}
	return c.preview(change)
}

// preview prints a change that is not made.
func (c *connection) preview(change catalog.Change) error {
	return c.print(connected{CLI: c.cli.Name, Agent: c.agent, Change: change, Written: []catalog.SavedFile{}}, func(w io.Writer) {
		io.WriteString(w, change.String())
		fmt.Fprintln(c.err, "nothing was written")
	})
}

// anyKey stands for a key where only the rest matters.
const anyKey = "key"

// plan returns the changes of files for a key.
func (c *connection) plan(key string) (catalog.Change, error) {
	e := c.entry
	if e.Transport == catalog.HTTP {
		e.Key = key
	} else {
		e.KeyFile = c.keyFile
	}
	change, err := catalog.Plan(c.cli, e, c.place)
	if err == nil && c.allow {
		var allowed catalog.Change
		allowed, err = catalog.Allow(c.cli, c.entry.Name, c.place, true)
		change.Edits = append(change.Edits, allowed.Edits...)
	}
	if err == nil && c.wake {
		change, err = c.hooks(change, true)
	}
	if _, missing := errors.AsType[*catalog.NotInstalledError](err); missing {
		return change, hub.Errorf(hub.CodeNotFound, "parley", "%w", err).WithHint("install it, put it on the PATH, or use --force")
	}
	return change, err
}

// hooks adds the hooks of every session to a change, or takes them out.
func (c *connection) hooks(change catalog.Change, on bool) (catalog.Change, error) {
	known, err := terminal.Lookup(c.cli.Name)
	if err != nil {
		return change, err
	}
	var additions []catalog.Addition
	for _, f := range known.Permanent([]string{c.entry.Command, "--home", c.home, "--key-file", c.keyFile}) {
		a := catalog.Addition{Path: f.Path, Text: f.Text, Mark: f.Mark}
		for event, entry := range f.Hooks {
			raw, err := json.Marshal(entry)
			if err != nil {
				return change, err
			}
			if a.Hooks == nil {
				a.Hooks = map[string]json.RawMessage{}
			}
			a.Hooks[event] = raw
		}
		additions = append(additions, a)
	}
	if on && known.Stays != "" {
		change.Notes = append(change.Notes, known.Stays)
	}
	return catalog.Extend(c.cli, change, additions, c.place, on)
}

// label marks the keys that connect makes for a CLI.
func (c *connection) label() string { return "connect-" + c.cli.Name }

// connect gives a CLI a key of an agent, and the hub's tools.
func (c *connection) connect(ctx context.Context) error {
	if _, err := c.plan(anyKey); err != nil { // before anything is made
		return err
	}
	client, err := c.client()
	if err != nil {
		return err
	}
	if err := c.askForTools(ctx); err != nil {
		return err
	}

	out := connected{CLI: c.cli.Name, Agent: c.agent}
	if out.Added, err = c.addAgent(ctx, client); err != nil {
		return err
	}
	if err := c.exchangeKeys(ctx, client, &out); err != nil {
		return err
	}
	if c.wake {
		if _, err := rpc.Call(ctx, client, api.AllowWake, api.WakeAllowParams{Agent: c.agent, Allow: true}); err != nil {
			return err
		}
	}

	err = c.print(out, func(w io.Writer) { c.report(w, out) })
	if err != nil || c.place.Scope != catalog.ScopeProject {
		return err
	}
	return c.offerRoot(ctx, client, c.place.Dir)
}

// askForTools asks a person at a terminal whether a CLI that refuses unknown tools without a
// person may use those of the hub.
func (c *connection) askForTools(ctx context.Context) (err error) {
	undecided := c.cli.Refuses() && !c.allow && !c.asOperator
	if undecided && isTerminal(c.in) {
		c.allow, err = c.askYes(ctx, fmt.Sprintf("Without you, %s refuses tools that it was not allowed to use. Allow it the hub's tools?", c.cli.Title))
	}
	return err
}

// addAgent adds the agent to the hub, unless it is there. The first key of a new agent is
// revoked: no program has it.
func (c *connection) addAgent(ctx context.Context, client *rpc.Client) (added bool, err error) {
	_, err = rpc.Call(ctx, client, api.AddAgent, api.AgentParams{ID: c.agent, Role: hub.Role(c.role), Label: "first"})
	switch hub.CodeOf(err) {
	case "":
		_, err = rpc.Call(ctx, client, api.RevokeKeys, api.AgentParams{ID: c.agent, Label: "first"})
		return true, err
	case hub.CodeConflict: // it is there
		return false, nil
	}
	return false, err
}

// exchangeKeys makes a key, writes it for the CLI, and revokes those of earlier connections,
// which have no user any more. A key that cannot be written is revoked.
func (c *connection) exchangeKeys(ctx context.Context, client *rpc.Client, out *connected) error {
	old, ever, err := c.keys(ctx, client, c.agent)
	if err != nil {
		return err
	}
	made, err := rpc.Call(ctx, client, api.AddKey, api.AgentParams{ID: c.agent, Label: fmt.Sprintf("%s-%d", c.label(), ever+1)})
	if err != nil {
		return err
	}
	if out.Change, out.Written, err = c.write(made.Key); err != nil {
		_, revoked := rpc.Call(ctx, client, api.RevokeKeys, api.AgentParams{ID: c.agent, Label: made.Label})
		return errors.Join(err, revoked)
	}
	if c.entry.Transport != catalog.HTTP {
		out.KeyFile = c.keyFile
	}

	if err := c.displace(ctx, client, out); err != nil {
		return err
	}
	out.Revoked, err = revoke(ctx, client, c.agent, old)
	return err
}

// report prints the changes, the command that takes them back, and notes.
func (c *connection) report(w io.Writer, out connected) {
	if out.Added {
		fmt.Fprintf(w, "added %s to the hub\n", c.agent)
	}
	io.WriteString(w, out.Change.String())
	if out.KeyFile != "" {
		fmt.Fprintf(w, "the key is in %s\n", out.KeyFile)
	}
	writeBackups(w, out.Written)
	if out.Displaced != "" {
		fmt.Fprintf(w, "%s was connected as %s here; it is %s now, and the key of that connection does not work any more\n", c.cli.Title, out.Displaced, c.agent)
	}
	fmt.Fprintf(w, "%s is connected as %s; restart it to see the tools. To take it back: %s\n", c.cli.Title, c.agent, c.undoLine())

	if c.cli.Refuses() && !c.allow {
		fmt.Fprintf(w, "note: %s -p refuses the hub's tools; connect again with --allow-tools to allow them\n", c.cli.Name)
	}
	if c.place.Scope != catalog.ScopeProject {
		return
	}
	for _, e := range out.Change.Edits {
		if e.What == "the MCP server "+c.record().Name {
			fmt.Fprintf(w, "note: keep %s out of version control: it names a program and a key of this machine\n", e.Path)
		}
	}
}

// write keeps the key where the CLI finds it, then changes the CLI's files.
func (c *connection) write(key string) (catalog.Change, []catalog.SavedFile, error) {
	change, err := c.plan(key)
	if err != nil {
		return change, nil, err
	}
	if c.entry.Transport != catalog.HTTP {
		if err := os.MkdirAll(filepath.Dir(c.keyFile), 0o700); err != nil {
			return change, nil, err
		}
		if err := durable.WriteFile(c.keyFile, []byte(key+"\n"), 0o600); err != nil {
			return change, nil, err
		}
	}
	written, err := change.Apply(now(), filepath.Join(c.home, backupsDir))
	return change, append([]catalog.SavedFile{}, written...), err
}

// backupsDir is the folder of a home with the files of CLIs as they were before.
const backupsDir = "backups"

// displace records the connection in place of the one that the CLI had here. The key
// of an agent that has no connection with the CLI any more is revoked.
func (c *connection) displace(ctx context.Context, client *rpc.Client, out *connected) error {
	here := c.record()
	all := connections(c.home)
	for _, r := range all {
		if r.samePlace(here) && r.Agent != here.Agent {
			out.Displaced = r.Agent
		}
	}
	all = append(slices.DeleteFunc(all, here.samePlace), here)
	if err := saveConnections(c.home, all); err != nil {
		return err
	}
	old := out.Displaced
	if old == "" || slices.ContainsFunc(all, func(r connectionRecord) bool { return r.CLI == here.CLI && r.Agent == old }) {
		return nil
	}
	if err := os.Remove(connectionRecord{CLI: here.CLI, Agent: old}.keyFile(c.home)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	labels, _, err := c.keys(ctx, client, old)
	if err == nil {
		_, err = revoke(ctx, client, old, labels)
	}
	return err
}

// keys returns the labels of the live keys that connect has made for the CLI,
// and how many it has ever made.
func (c *connection) keys(ctx context.Context, client *rpc.Client, agent hub.AgentID) (labels []string, ever int, err error) {
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

func revoke(ctx context.Context, client *rpc.Client, agent hub.AgentID, labels []string) (int, error) {
	for _, label := range labels {
		if _, err := rpc.Call(ctx, client, api.RevokeKeys, api.AgentParams{ID: agent, Label: label}); err != nil {
			return 0, err
		}
	}
	return len(labels), nil
}

func writeBackups(w io.Writer, written []catalog.SavedFile) {
	for _, f := range written {
		if f.Backup != "" {
			fmt.Fprintf(w, "the former %s is kept as %s\n", f.Path, f.Backup)
		}
	}
}

// undo takes the hub out of the CLI's files, removes the key's file and revokes
// the key. If the hub is away, it prints the steps that are left.
func (c *connection) undo(ctx context.Context, printOnly bool) error {
	change, err := catalog.Undo(c.cli, c.entry.Name, c.place)
	if err != nil {
		if !printOnly && c.agent != "" { // a key that is left in the file must not work
			if n, revoked := c.revokeOf(ctx, c.agent); revoked == nil && n > 0 {
				fmt.Fprintf(c.err, "%d keys revoked\n", n)
			}
		}
		return err
	}
	allowed, err := catalog.Allow(c.cli, c.entry.Name, c.place, false)
	if err != nil {
		return err
	}
	change.Edits = append(change.Edits, allowed.Edits...)
	if c.place.Scope != catalog.ScopeProject {
		if change, err = c.hooks(change, false); err != nil {
			return err
		}
	}
	if printOnly {
		return c.preview(change)
	}
	out := connected{CLI: c.cli.Name, Agent: c.agent, Change: change}
	if out.Written, err = change.Apply(now(), filepath.Join(c.home, backupsDir)); err != nil {
		return err
	}
	here := c.record()
	if err := c.disallow(ctx, here); err != nil {
		fmt.Fprintf(c.err, "%s mail may still start turns: %v\n", c.paint(c.err, "33", "note:"), err)
	}
	left := slices.DeleteFunc(connections(c.home), here.samePlace)
	if err := saveConnections(c.home, left); err != nil {
		return err
	}
	files := []string{c.keyFile}
	if c.agent == "" { // the agent's name is in the file
		if files, err = filepath.Glob(filepath.Join(filepath.Dir(c.keyFile), c.cli.Name+".*.key")); err != nil {
			return err
		}
	}
	var unrevoked []hub.AgentID
	for _, file := range files {
		agent := hub.AgentID(strings.TrimSuffix(strings.TrimPrefix(filepath.Base(file), c.cli.Name+"."), ".key"))
		if slices.ContainsFunc(left, func(r connectionRecord) bool { return r.CLI == here.CLI && r.Agent == agent }) {
			continue // another connection of this CLI uses the key
		}
		if err := os.Remove(file); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		n, err := c.revokeOf(ctx, agent)
		if err != nil {
			unrevoked = append(unrevoked, agent)
		}
		out.Revoked += n
	}
	return c.print(out, func(w io.Writer) {
		io.WriteString(w, change.String())
		writeBackups(w, out.Written)
		fmt.Fprintf(w, "%d keys revoked\n", out.Revoked)
		for _, agent := range slices.Compact(unrevoked) {
			fmt.Fprintf(c.err, "%s the key of %s could not be revoked: parley agent list, then parley agent revoke %s --label LABEL\n", c.paint(c.err, "33", "note:"), agent, agent)
		}
	})
}

// disallow takes back that mail may start turns of the agents that --wake connected here.
func (c *connection) disallow(ctx context.Context, here connectionRecord) error {
	for _, r := range connections(c.home) {
		if !r.Wake || !r.samePlace(here) {
			continue
		}
		client, err := c.client()
		if err == nil {
			_, err = rpc.Call(ctx, client, api.AllowWake, api.WakeAllowParams{Agent: r.Agent})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// revokeOf revokes the keys that connect made for an agent.
func (c *connection) revokeOf(ctx context.Context, agent hub.AgentID) (int, error) {
	client, err := c.client()
	if err != nil {
		return 0, err
	}
	labels, _, err := c.keys(ctx, client, agent)
	if err != nil {
		return 0, err
	}
	return revoke(ctx, client, agent, labels)
}
