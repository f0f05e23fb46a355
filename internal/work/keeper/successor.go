package keeper

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/desk/cli"
	"github.com/parley-agents/parley/internal/reach/wake"
)

// Wakes is the part of the wake machine that knows the sessions of agents.
type Wakes interface {
	// List returns the sessions of an agent.
	List(r hub.Reader, agent hub.AgentID) ([]wake.Session, error)
	// Inherit gives an agent the permission to wake that another one has.
	Inherit(ctx context.Context, agent, from hub.AgentID) error
}

// Successors knows the agents that may take over a task, and runs them: those that the hub keeps, and those in
// terminals.
type Successors struct {
	*Keeper
	wakes Wakes
}

// Successors returns the agents that may take over tasks.
func (k *Keeper) Successors(wakes Wakes) Successors { return Successors{k, wakes} }

// Kept returns how the hub runs an agent, and whether it does.
func (a Successors) Kept(ctx context.Context, agent hub.AgentID) (hub.KeptAgent, bool, error) {
	d, ok, err := a.Keeper.Kept(ctx, agent)
	out := hub.KeptAgent{Folder: d.Dir, CLI: d.CLI}
	out.Until, out.Reason, out.Rests = a.Keeper.Rests(ctx, agent)
	for _, one := range d.Or {
		out.Or = append(out.Or, one.Name)
	}
	if err != nil {
		return out, ok, err
	}
	out.LogIn, err = a.logIn(ctx, agent, d.CLI)
	return out, ok, err
}

// logIn returns the line with which a person gives an agent a login again: that of the CLI with which
// it is kept or was seen last in a terminal.
func (a Successors) logIn(ctx context.Context, agent hub.AgentID, kept string) (string, error) {
	if kept != "" {
		return cli.LogIn(kept), nil
	}
	sessions, err := hub.Read(ctx, a.store, func(rd hub.Reader) ([]wake.Session, error) { return a.wakes.List(rd, agent) })
	if err != nil || len(sessions) == 0 {
		return "", err
	}
	last := slices.MaxFunc(sessions, func(a, b wake.Session) int { return a.Since.Compare(b.Since.Time) })
	return cli.LogIn(last.CLI), nil
}

// StandIn begins to keep an agent that works in the folder of a task for its owner.
func (a Successors) StandIn(ctx context.Context, of hub.AgentID, p hub.AgentProgram) error {
	name, err := a.Keeper.StandIn(ctx, of, Definition{CLI: p.CLI, Command: p.Command, Path: p.Path, Dir: p.Folder})
	if err != nil {
		return err
	}
	return a.wakes.Inherit(ctx, name, of)
}

// Dismiss stops an agent that got no task. An agent that has another task goes on with it.
func (a Successors) Dismiss(ctx context.Context, agent hub.AgentID) error {
	if a.o.OpenTasks != nil && a.o.OpenTasks(ctx, agent) {
		return nil
	}
	return a.Keeper.Dismiss(ctx, agent)
}

// Blocked returns why no turn of an agent may begin; "" if one may.
func (a Successors) Blocked(ctx context.Context, agent hub.AgentID) string {
	return a.blocked(ctx, agent)
}

// Off returns why an agent that is known takes no task: a person paused or stopped it; "" if it may take one.
func (a Successors) Off(ctx context.Context, agent hub.AgentID) string {
	known, err := hub.Read(ctx, a.store, func(rd hub.Reader) (hub.Agent, error) { return rd.Agent(agent) })
	isPaused := err == nil && known.State == hub.AgentPaused
	switch {
	case isPaused:
		return fmt.Sprintf("%s is paused", agent)
	case a.Keeper.IsStopped(ctx, agent):
		return fmt.Sprintf("%s is stopped", agent)
	}
	return ""
}

// Working reports whether a turn of an agent runs.
func (a Successors) Working(ctx context.Context, agent hub.AgentID) bool {
	if a.Keeper.Busy(agent) {
		return true
	}
	working, err := hub.Read(ctx, a.store, func(rd hub.Reader) (bool, error) {
		sessions, err := a.wakes.List(rd, agent)
		for _, one := range sessions {
			if one.State == wake.SessionWorking && one.ID != SessionID {
				return true, nil
			}
		}
		return false, err
	})
	return err == nil && working
}

// Closed reports whether an agent had sessions in terminals and all of them ended, and when the last one did.
func (a Successors) Closed(rd hub.Reader, agent hub.AgentID) (at hub.Time, closed bool, err error) {
	sessions, err := a.wakes.List(rd, agent)
	if err != nil || len(sessions) == 0 {
		return at, false, err
	}
	for _, one := range sessions {
		if one.State != wake.SessionEnded || one.ID == SessionID {
			return at, false, nil
		}
		if one.Since.After(at.Time) {
			at = one.Since
		}
	}
	return at, true, nil
}

// Vendor returns the vendors of an agent: by the CLI with which the hub keeps it, by those of its sessions, and
// else by the models that it was seen to use.
func (a Successors) Vendor(ctx context.Context, agent hub.AgentID) (out hub.AgentVendors, err error) {
	if agent == hub.Operator || agent == hub.Self {
		return out, nil
	}
	var programs []string
	kept, isKept, err := a.Keeper.Kept(ctx, agent)
	if err != nil {
		return out, err
	}
	if isKept {
		programs = append(programs, kept.CLI)
		_, _, rests := a.Keeper.Rests(ctx, agent)
		out.Awake = !rests && !a.Keeper.IsStopped(ctx, agent)
	}
	var models []hub.UsageSum
	err = a.store.View(ctx, func(r hub.Reader) error {
		sessions, err := a.wakes.List(r, agent)
		if err != nil {
			return err
		}
		for _, one := range sessions {
			if one.ID == SessionID { // of the kept agent
				continue
			}
			programs = append(programs, one.CLI)
			out.Awake = out.Awake || one.State != wake.SessionEnded
		}
		models, err = r.Usage().Sums(hub.UsageQuery{By: hub.ByModel, Agent: agent, Known: true})
		return err
	})
	if err != nil {
		return out, err
	}

	// A program that works with models of many vendors has that of the models that it used.
	isUnknown := len(programs) == 0
	for _, name := range programs {
		c, err := cli.Lookup(name)
		if err != nil || c.Vendor == "" {
			isUnknown = true
			continue
		}
		out.Names = append(out.Names, c.Vendor)
	}
	if isUnknown {
		for _, m := range models {
			vendor := a.o.VendorOf(m.Model)
			if vendor == "" {
				return hub.AgentVendors{Awake: out.Awake}, nil
			}
			out.Names = append(out.Names, vendor)
		}
		if len(models) == 0 {
			return hub.AgentVendors{Awake: out.Awake}, nil
		}
	}
	slices.Sort(out.Names)
	out.Names = slices.Compact(out.Names)
	return out, nil
}

// RunsIn reports whether the hub runs an agent in a folder.
func (k *Keeper) RunsIn(ctx context.Context, folder string) bool {
	kept, err := k.List(ctx)
	if err != nil {
		return false
	}
	real, err := filepath.EvalSymlinks(folder) // a link in it may lead anywhere
	if err != nil {
		return false
	}
	for _, one := range kept {
		if rel, err := filepath.Rel(one.Dir, real); err == nil && filepath.IsLocal(rel) {
			return true
		}
	}
	return false
}

// BudgetSpent cancels the running turns of kept agents when a hard budget is spent. Others are
// asked to stop at their next tool call.
func (k *Keeper) BudgetSpent(b hub.Budget, agents []hub.AgentID) {
	if !b.Hard {
		return
	}
	if agents == nil {
		agents = k.Names()
	}
	for _, agent := range agents {
		if k.mustEnd(agent) {
			k.Cancel(agent)
		}
	}
}

// mustEnd reports whether a budget ends the running turn of an agent. The last turn of a budget of
// turns may go on.
func (k *Keeper) mustEnd(agent hub.AgentID) bool {
	reason, err := hub.Read(context.Background(), k.store, func(rd hub.Reader) (string, error) { return k.o.Exceeded(rd, agent) })
	if err != nil {
		k.o.Log.Warn("the budgets of an agent cannot be read", "agent", agent, "err", err)
	}
	return reason != "" || err != nil
}

// Works reports whether the hub runs a turn of an agent, or a session of it lives.
func (a Successors) Works(rd hub.Reader, agent hub.AgentID) (bool, error) {
	if a.InTurn(agent) {
		return true, nil
	}
	sessions, err := a.wakes.List(rd, agent)
	return slices.ContainsFunc(sessions, func(one wake.Session) bool { return one.State != wake.SessionEnded }), err
}
