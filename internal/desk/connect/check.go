package connect

import (
	"context"
	"os"
	"slices"
	"strings"

	"github.com/parley-agents/parley/internal/desk/cli"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/operation/rpc"
)

// Problem returns why a connection of a home does not work with the hub at url, "" if it
// does: the entry is to be as connect writes it today, and its key is to be accepted.
func (r Record) Problem(ctx context.Context, home, url string) string {
	known, err := cli.LookupConnectable(r.CLI)
	if err != nil {
		return err.Error()
	}
	user, err := os.UserHomeDir()
	if err != nil {
		return err.Error()
	}

	// The entry must still be in the CLI's file.
	place := cli.Place{Scope: r.Scope, Home: user, Dir: r.Dir}
	present, err := cli.PlanRemoval(known, r.Name, place)
	isEntry := func(e cli.Edit) bool { return e.What == "the MCP server "+r.Name }
	switch {
	case err != nil:
		return rpc.Describe(err, rpc.Commands).Message
	case !slices.ContainsFunc(present.Edits, isEntry):
		return "its entry is missing"
	case r.Transport == cli.HTTP:
		return "" // the key is in the entry
	}

	// The entry must name this program, this hub and the key file of the connection.
	self, err := os.Executable()
	if err != nil {
		return err.Error()
	}
	change, err := cli.PlanConnection(known, cli.Entry{Name: r.Name, URL: url, Command: self, KeyFile: r.KeyFile(home), Force: true}, place)
	if err != nil {
		return rpc.Describe(err, rpc.Commands).Message
	}
	if slices.ContainsFunc(change.Edits, isEntry) {
		return "its entry names a different program, key or hub"
	}

	// The hub must accept the key.
	raw, err := os.ReadFile(r.KeyFile(home))
	if err != nil {
		return err.Error()
	}
	if _, err := rpc.Call(ctx, rpc.NewClient(url, strings.TrimSpace(string(raw)), "", nil), api.Whoami, api.None{}); err != nil {
		return rpc.Describe(err, rpc.Commands).Message
	}
	return ""
}
