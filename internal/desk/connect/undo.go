package connect

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/desk/cli"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/operation/rpc"
)

// PreviewUndo returns the changes of files that Undo would make.
func (c *Connection) PreviewUndo() (cli.Change, error) {
	change, err := cli.PlanRemoval(c.CLI, c.Entry.Name, c.Place)
	if err != nil {
		return change, err
	}
	return c.withoutAdditions(change)
}

// withoutAdditions adds to a change what takes out the permission to use the tools and the
// hooks.
func (c *Connection) withoutAdditions(change cli.Change) (cli.Change, error) {
	allowed, err := cli.Allow(c.CLI, c.Entry.Name, c.Place, false)
	if err != nil {
		return change, err
	}
	change.Edits = append(change.Edits, allowed.Edits...)
	if c.Place.Scope == cli.ScopeProject {
		return change, nil
	}
	return c.hooks(change, false)
}

// Undo takes the hub out of the CLI's files, removes the key's file and revokes
// the key. If the hub is away, the result names the steps that are left. A file that
// cannot be understood is an error, and the result then has the number of keys that were
// revoked nevertheless: a key that is left in the file must not work.
func (c *Connection) Undo(ctx context.Context) (Result, error) {
	out := Result{CLI: c.CLI.Name, Agent: c.Agent}
	change, err := cli.PlanRemoval(c.CLI, c.Entry.Name, c.Place)
	if err != nil {
		if c.Agent != "" {
			out.Revoked, _ = c.revokeOf(ctx, c.Agent) // the error of the file counts
		}
		return out, err
	}
	if out.Change, err = c.withoutAdditions(change); err != nil {
		return out, err
	}
	if out.Written, err = out.Change.Apply(time.Now(), filepath.Join(c.Home, BackupsDir)); err != nil {
		return out, err
	}

	here := c.Record()
	out.StillWakes = c.disallow(ctx, here)
	left := slices.DeleteFunc(Records(c.Home), here.samePlace)
	if err := save(c.Home, left); err != nil {
		return out, err
	}
	return out, c.removeKeys(ctx, left, &out)
}

// removeKeys removes the key files of the connection that no connection which is left
// uses, and revokes their keys.
func (c *Connection) removeKeys(ctx context.Context, left []Record, out *Result) (err error) {
	files := []string{c.keyFile()}
	if c.Agent == "" { // the agent's name is in the file
		if files, err = filepath.Glob(filepath.Join(filepath.Dir(c.keyFile()), c.CLI.Name+".*.key")); err != nil {
			return err
		}
	}
	for _, file := range files {
		agent := hub.AgentID(strings.TrimSuffix(strings.TrimPrefix(filepath.Base(file), c.CLI.Name+"."), ".key"))
		if slices.ContainsFunc(left, func(r Record) bool { return r.CLI == c.CLI.Name && r.Agent == agent }) {
			continue // another connection of this CLI uses the key
		}

		if err := os.Remove(file); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		n, err := c.revokeOf(ctx, agent)
		if err != nil {
			out.Unrevoked = append(out.Unrevoked, agent)
		}
		out.Revoked += n
	}
	return nil
}

// disallow takes back that mail may start turns of the agents that --wake connected here.
func (c *Connection) disallow(ctx context.Context, here Record) error {
	for _, r := range Records(c.Home) {
		if !r.Wake || !r.samePlace(here) {
			continue
		}
		client, err := c.Client()
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
func (c *Connection) revokeOf(ctx context.Context, agent hub.AgentID) (int, error) {
	client, err := c.Client()
	if err != nil {
		return 0, err
	}
	labels, _, err := c.keys(ctx, client, agent)
	if err != nil {
		return 0, err
	}
	return revoke(ctx, client, agent, labels)
}
