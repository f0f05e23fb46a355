package server

import (
	"context"
	"slices"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/desk/cli"
	"github.com/parley-agents/parley/internal/reach/wake"
	"github.com/parley-agents/parley/internal/service/landing"
	"github.com/parley-agents/parley/internal/service/usage"
	"github.com/parley-agents/parley/internal/work/keeper"
)

// agentVendors knows the vendors of agents: by the CLI with which the hub keeps an agent, by those of its
// sessions, and else by the models that it was seen to use.
type agentVendors struct{ s *Server }

// Vendor implements landing.Vendors.
func (a agentVendors) Vendor(ctx context.Context, agent hub.AgentID) (out landing.Vendor, err error) {
	if agent == hub.Operator || agent == hub.Self {
		return out, nil
	}
	var programs []string
	kept, isKept, err := a.s.keeper.Kept(ctx, agent)
	if err != nil {
		return out, err
	}
	if isKept {
		programs = append(programs, kept.CLI)
		_, _, rests := a.s.keeper.Rests(ctx, agent)
		out.Awake = !rests && !a.s.keeper.IsStopped(ctx, agent)
	}
	var models []hub.UsageSum
	err = a.s.store.View(ctx, func(r hub.Reader) error {
		sessions, err := a.s.wakes.List(r, agent)
		if err != nil {
			return err
		}
		for _, one := range sessions {
			if one.ID == keeper.SessionID { // of the kept agent
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
			vendor := usage.VendorOf(m.Model)
			if vendor == "" {
				return landing.Vendor{Awake: out.Awake}, nil
			}
			out.Names = append(out.Names, vendor)
		}
		if len(models) == 0 {
			return landing.Vendor{Awake: out.Awake}, nil
		}
	}
	slices.Sort(out.Names)
	out.Names = slices.Compact(out.Names)
	return out, nil
}
