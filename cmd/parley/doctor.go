package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/coord"
	"github.com/parley-agents/parley/internal/desk/connect"
	"github.com/parley-agents/parley/internal/desk/guard"
	"github.com/parley-agents/parley/internal/desk/launch"
	"github.com/parley-agents/parley/internal/ground/durable"
	"github.com/parley-agents/parley/internal/ground/process/confine"
	"github.com/parley-agents/parley/internal/ground/text/plaintext"
	"github.com/parley-agents/parley/internal/ground/text/shell"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/operation/coordination"
	"github.com/parley-agents/parley/internal/operation/rpc"
	"github.com/parley-agents/parley/internal/reach/wake"
	"github.com/parley-agents/parley/internal/service/contract"
	"github.com/parley-agents/parley/internal/service/usage"
	"github.com/parley-agents/parley/internal/work/keeper"
	"github.com/parley-agents/parley/server"
)

// now is the clock of the commands.
func now() time.Time { return time.Now() }

func (a *app) doctorCommand() *cobra.Command {
	var isGateway bool
	var dir string
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Say what is wrong, and what to type",
		Long: `Check the hub, its home and its agents, and print a remedy for each problem. The exit
code is 1 if there is a problem.

With --gateway, test every way in which the hub uses its OpenClaw gateway instead: add a
line to the transcript of a session created and deleted for the test, request a wake at
the next heartbeat, and claim and release an item of the queue. No agent turn begins. The
report is stored with its date (operator).`,
		Example: `  parley doctor
  parley doctor --gateway --write docs/spikes`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if isGateway {
				return a.testGateway(cmd.Context(), dir)
			}
			if dir != "" {
				return usagef("--write needs --gateway")
			}
			return a.diagnose(cmd.Context())
		},
	}
	cmd.Flags().BoolVar(&isGateway, "gateway", false, "test the OpenClaw gateway")
	cmd.Flags().StringVar(&dir, "write", "", "with --gateway: folder with the spike pages to update with the report: session-injection.md, wake.md and workq.md")
	return cmd
}

// diagnose checks the hub, its home and its agents.
func (a *app) diagnose(ctx context.Context) error {
	home, err := a.homeDir()
	if err != nil {
		return err
	}
	url, err := a.hubURL()
	if err != nil {
		return err
	}

	checks := server.Diagnose(ctx, home, url)
	checks = append(checks, checkDisk(home), checkConfinement())

	// Agents and connections are checked if the hub answers and takes the key.
	if key, err := operatorKey(home); err == nil && !slices.ContainsFunc(checks, func(c server.Check) bool { return !c.OK && (c.What == "hub" || c.What == "operator's key") }) {
		client := clientAt(home, url, key, "")
		checks = append(checks, checkHub(ctx, client)...)
		checks = append(checks, checkTrees(ctx, client, a.guardOf)...)
		checks = append(checks, a.checkConnections(ctx, home, url)...)
		checks = append(checks, checkSpend(home)...)
		checks = append(checks, checkBudgets(ctx, client)...)
	}

	config := server.Check{What: "configuration", OK: true}
	if _, err := a.loadConfig(home); err != nil {
		d := rpc.Describe(err, rpc.Commands)
		config.OK = false
		config.Detail = d.Message
		config.Hint = d.Hint
	}
	checks = append(checks, config)

	healthy := !slices.ContainsFunc(checks, func(c server.Check) bool { return !c.OK })
	return a.check(healthy, map[string]any{"ok": healthy, "checks": checks}, func(w io.Writer) {
		for _, c := range checks {
			mark := a.paint(w, "32", "ok  ")
			if !c.OK {
				mark = a.paint(w, "31", "FAIL")
			}
			fmt.Fprintf(w, "%s %s", mark, c.What)
			if c.Detail != "" {
				fmt.Fprintf(w, ": %s", c.Detail)
			}
			fmt.Fprintln(w)
			if !c.OK && c.Hint != "" {
				fmt.Fprintf(w, "     %s\n", c.Hint)
			}
		}
	})
}

const (
	longUnread = time.Hour // after which an unread message is a problem
	longSilent = time.Hour // after which an agent that never called is one
	lowDisk    = 512 << 20 // free bytes below which a hub may soon be unable to write
)

// checkDisk looks at the size of a home and the space that is left for it.
func checkDisk(home string) server.Check {
	var size int64
	filepath.WalkDir(home, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			if info, err := d.Info(); err == nil {
				size += info.Size()
			}
		}
		return nil // a file that cannot be read is not counted
	})
	free, known := durable.Free(home)
	c := server.Check{What: "space", OK: !known || free >= lowDisk, Detail: fmt.Sprintf("the home uses %d MiB", size>>20)}
	if known {
		c.Detail += fmt.Sprintf(", %d MiB are free", free>>20)
	}
	if !c.OK {
		c.Hint = `free some space, or run "parley hub archive" to move old records into files`
	}
	return c
}

// checkConfinement tries how this machine confines the checks of repositories.
func checkConfinement() server.Check {
	const what = "checks of repositories"
	got, err := confine.Probe("")
	switch {
	case errors.Is(err, confine.ErrUnsupported):
		return server.Check{What: what, OK: true, Detail: fmt.Sprintf("%v; only checks that were added with --unconfined run", err)}
	case err != nil:
		return server.Check{What: what, Detail: err.Error(), Hint: "docs/security.md explains what a check needs to be confined"}
	}
	return server.Check{What: what, OK: true, Detail: "confined at " + got.String()}
}

// checkHub looks at the agents, roots and channels of a hub that answers.
func checkHub(ctx context.Context, c *rpc.Client) (out []server.Check) {
	agents, err := rpc.Call(ctx, c, api.ListAgents, api.None{})
	if err != nil {
		d := rpc.Describe(err, rpc.Commands)
		return []server.Check{{What: "agents", Detail: d.Message, Hint: d.Hint}}
	}
	n := len(agents.Agents) - 1 // the operator is one of them
	for _, p := range agents.Agents {
		if p.ID != hub.Operator {
			out = append(out, checkAgent(p)...)
		}
	}
	if len(out) == 0 {
		out = append(out, server.Check{What: "agents", OK: true, Detail: fmt.Sprintf("%d, no problems", n)})
	}
	out = append(out, append(checkRoots(ctx, c), checkChannels(ctx, c)...)...)
	out = append(out, checkPeers(ctx, c)...)
	out = append(out, checkGates(ctx, c)...)
	out = append(out, checkLanding(ctx, c)...)
	out = append(append(out, checkTargets(ctx, c)...), checkWakes(ctx, c)...)
	return append(out, checkKept(ctx, c)...)
}

// checkLanding names the gates of landing policies that are open, policies under which nothing lands, and
// targets that are red.
func checkLanding(ctx context.Context, c *rpc.Client) (out []server.Check) {
	got, err := rpc.Call(ctx, c, api.LandingList, api.None{})
	if err != nil {
		d := rpc.Describe(err, rpc.Commands)
		return []server.Check{{What: "landing", Detail: d.Message, Hint: d.Hint}}
	}
	for _, v := range got.Landings {
		for _, n := range v.Notes() {
			detail := plaintext.Line(n.Text)
			if !n.At.IsZero() {
				detail += ", since " + ago(n.At)
			}
			out = append(out, server.Check{What: "landing", OK: !n.Bad, Detail: detail, Hint: n.Next})
		}
	}
	return out
}

// checkKept looks at the agents that the hub runs.
func checkKept(ctx context.Context, c *rpc.Client) (out []server.Check) {
	got, err := rpc.Call(ctx, c, api.ListKept, api.None{})
	if err != nil {
		return []server.Check{{What: "kept agents", Detail: rpc.Describe(err, rpc.Commands).Message}}
	}
	for _, k := range got.Agents {
		switch {
		case k.Problem != "":
			out = append(out, server.Check{What: "kept agent " + string(k.Agent), Detail: k.Problem, Hint: fmt.Sprintf(`run "parley agent logs %[1]s" to see its turns, and "parley agent restart %[1]s" to restart it`, k.Agent)})
		case k.State == keeper.Failing:
			out = append(out, server.Check{What: "kept agent " + string(k.Agent), Detail: "it crashed and is being restarted", Hint: fmt.Sprintf(`run "parley agent logs %s" to see why`, k.Agent)})
		}
	}
	if len(out) == 0 && len(got.Agents) > 0 {
		out = append(out, server.Check{What: "kept agents", OK: true, Detail: fmt.Sprintf("%d, no problems", len(got.Agents))})
	}
	return out
}

// A treeGuard is a working tree of git, and whether its commits are checked.
type treeGuard struct {
	tree    string // its top
	guarded bool
}

// checkTrees names the working trees in which several agents work and no guard checks commits.
// find returns the working tree of a folder, with an error if the folder is in none.
func checkTrees(ctx context.Context, c *rpc.Client, find func(ctx context.Context, folder string) (treeGuard, error)) (out []server.Check) {
	folders, err := agentFolders(ctx, c)
	if err != nil {
		return []server.Check{{What: "working trees", Detail: rpc.Describe(err, rpc.Commands).Message}}
	}

	trees := map[string]treeGuard{}
	agents := map[string][]string{} // by the top of their working tree
	for _, f := range folders {
		found, err := find(ctx, f.folder)
		if err != nil { // no repository, or of another machine
			continue
		}
		trees[found.tree] = found
		if !slices.Contains(agents[found.tree], string(f.agent)) {
			agents[found.tree] = append(agents[found.tree], string(f.agent))
		}
	}

	shared := 0
	for _, tree := range slices.Sorted(maps.Keys(trees)) {
		if len(agents[tree]) < 2 {
			continue
		}
		shared++
		if !trees[tree].guarded {
			slices.Sort(agents[tree])
			out = append(out, server.Check{
				What:   "working tree " + tree,
				Detail: fmt.Sprintf("%s work in it, and their commits are not checked", strings.Join(agents[tree], " and ")),
				Hint: fmt.Sprintf(`run "parley files guard on %s" to check them; or give each agent a working tree of its own, with --worktree of "parley agent keep" and "parley run"`,
					shell.Word(tree)),
			})
		}
	}
	if len(out) == 0 && shared > 0 {
		out = append(out, server.Check{What: "working trees", OK: true, Detail: counted(shared, "tree") + " with several agents, all checked"})
	}
	return out
}

// guardOf returns the working tree of a folder, and whether its commits are checked. Where the
// operator has switched reservations off, nothing needs a check.
func (a *app) guardOf(ctx context.Context, folder string) (treeGuard, error) {
	hook, err := a.gitHook(ctx, []string{folder})
	if err != nil {
		return treeGuard{}, err
	}
	rules, err := a.reservationsIn(hook.Tree)
	isOff := err == nil && !rules.Guarded()
	return treeGuard{tree: hook.Tree, guarded: isOff || hook.State == guard.HookInstalled}, nil
}

// An agentFolder is a folder in which a live agent works.
type agentFolder struct {
	agent  hub.AgentID
	folder string
}

// agentFolders returns the folders of sessions that are open, and of agents that the hub runs.
func agentFolders(ctx context.Context, c *rpc.Client) (out []agentFolder, err error) {
	open, err := rpc.Call(ctx, c, api.ListSessions, api.AgentNameParams{})
	if err != nil {
		return nil, err
	}
	for _, w := range open.Agents {
		for _, s := range w.Sessions {
			if s.State != wake.SessionEnded && filepath.IsAbs(s.Cwd) {
				out = append(out, agentFolder{w.Agent, s.Cwd})
			}
		}
	}

	kept, err := rpc.Call(ctx, c, api.ListKept, api.None{})
	if err != nil {
		return nil, err
	}
	for _, k := range kept.Agents {
		isHere := k.State != keeper.Stopped && k.State != keeper.Elsewhere && k.State != keeper.Away
		if isHere {
			out = append(out, agentFolder{k.Agent, k.Dir})
		}
	}
	return out, nil
}

// checkPeers looks for changes that a peer and this hub did not take from each other.
func checkPeers(ctx context.Context, c *rpc.Client) (out []server.Check) {
	got, err := rpc.Call(ctx, c, coordination.ListPeers, coordination.None{})
	if err != nil {
		return []server.Check{{What: "peers", Detail: rpc.Describe(err, rpc.Commands).Message}}
	}
	for _, p := range got.Peers {
		if p.State == hub.PeerApproved && p.DeadLetters+p.Refused > 0 {
			out = append(out, server.Check{
				What:   "peer " + string(p.AID),
				Detail: fmt.Sprintf("it refused %s from this hub, and this hub refused %d from it", counted(p.DeadLetters, "change"), p.Refused),
				Hint:   fmt.Sprintf(`run "parley contract check" to list the contracts, and "parley peer sync %s" to compare again`, p.AID),
			})
		}
	}
	if len(out) == 0 && len(got.Peers) > 0 {
		out = append(out, server.Check{What: "peers", OK: true, Detail: counted(len(got.Peers), "peer") + ", nothing refused"})
	}
	return out
}

// checkGates looks for tokens of CI whose results count for nothing because they are bound to no
// repository, and for environments that deployments name and no project declares.
func checkGates(ctx context.Context, c *rpc.Client) (out []server.Check) {
	tokens, err := rpc.Call(ctx, c, coordination.ListTokens, coordination.TokensParams{})
	if err != nil {
		return []server.Check{{What: "tokens", Detail: rpc.Describe(err, rpc.Commands).Message}}
	}
	for _, t := range tokens.Tokens {
		if t.RevokedAt.IsZero() && t.Evidence == nil && slices.Contains(t.Permissions, coord.PermitEvidence) {
			out = append(out, server.Check{
				What: "token " + t.ID, Detail: fmt.Sprintf("it sends results of %s and is bound to no repository: they count as said", t.Agent),
				Hint: fmt.Sprintf("parley project token --project %s --agent %s --permissions project:read,evidence --repo REPO --check NAME", t.Project, t.Agent),
			})
		}
	}
	projects, err := rpc.Call(ctx, c, coordination.ListProjects, coordination.ListParams{Summary: true})
	if err != nil {
		return append(out, server.Check{What: "projects", Detail: rpc.Describe(err, rpc.Commands).Message})
	}
	for _, p := range projects.Projects {
		got, err := rpc.Call(ctx, c, coordination.ListEnvironments, coordination.ProjectParams{InProject: contract.In(p.ID)})
		for _, e := range got.Environments {
			if err == nil && !e.Declared {
				out = append(out, server.Check{
					What: "environment " + e.Name, Detail: fmt.Sprintf("deployments of project %s name it, and it is not declared: can-deploy does not know it", p.Name),
					Hint: fmt.Sprintf("parley contract env add %s --project %s", e.Name, p.ID),
				})
			}
		}
	}
	return out
}

// checkTargets looks at the targets that tell people.
func checkTargets(ctx context.Context, c *rpc.Client) (out []server.Check) {
	got, err := rpc.Call(ctx, c, api.ListTargets, api.None{})
	if err != nil {
		return []server.Check{{What: "notify", Detail: rpc.Describe(err, rpc.Commands).Message}}
	}
	for _, t := range got.Targets {
		if trouble := t.Trouble(); trouble != "" {
			hint := fmt.Sprintf(`run "parley notify test %s" to check it; notices wait until it works`, t.Name)
			if t.Dead > 0 {
				hint = fmt.Sprintf(`when "parley notify test %[1]s" succeeds, run "parley notify replay %[1]s" to send them again`, t.Name)
			}
			out = append(out, server.Check{What: "notify target " + t.Name, Detail: trouble, Hint: hint})
		}
	}
	if len(out) == 0 && len(got.Targets) > 0 {
		out = append(out, server.Check{What: "notify", OK: true, Detail: fmt.Sprintf("%d targets, no problems", len(got.Targets))})
	}
	return out
}

// checkAgent returns the problems of an agent.
func checkAgent(p api.AgentProfile) (out []server.Check) {
	problem := func(detail, hint string) {
		out = append(out, server.Check{What: "agent " + string(p.ID), Detail: detail, Hint: fmt.Sprintf(hint, p.ID)})
	}
	if p.Suspended {
		problem("it is suspended because it sent the same message too often", `run "parley log --whole --from %[1]s" to see its messages, and "parley agent resume %[1]s --suspension" to let it send again`)
	}
	if !slices.ContainsFunc(p.Keys, func(k hub.Key) bool { return k.Live(hub.At(now())) }) {
		problem("it has no valid key", `run "parley agent key %s --label NAME" to create one`)
	} else if p.LastSeen.IsZero() && now().Sub(p.CreatedAt.Time) > longSilent {
		problem("it has never called the hub", `run "parley connect CLI --agent %s" to give its CLI the tools`)
	}
	if !p.Oldest.IsZero() && now().Sub(p.Oldest.Time) > longUnread {
		problem(fmt.Sprintf("it has %s, the oldest from %s", counted(p.Unread, "unread message"), ago(p.Oldest)), `start it, or run "parley inbox %s" to read them`)
	}
	return out
}

func checkRoots(ctx context.Context, c *rpc.Client) (out []server.Check) {
	got, err := rpc.Call(ctx, c, api.ListRoots, api.None{})
	if err != nil {
		return []server.Check{{What: "roots", Detail: rpc.Describe(err, rpc.Commands).Message}}
	}
	for _, r := range got.Roots {
		if info, err := os.Stat(r.Path); err != nil || !info.IsDir() {
			out = append(out, server.Check{What: "root " + r.Path, Detail: "it is no longer a folder", Hint: fmt.Sprintf(`run "parley hub folder remove %s"`, shell.Word(r.Path))})
		}
	}
	if len(out) > 0 {
		return out
	}
	detail := fmt.Sprintf("%d", len(got.Roots))
	if len(got.Roots) == 0 {
		detail = `none, so the hub cannot check the files of handoffs; run "parley hub folder add DIR" to add one`
	}
	return []server.Check{{What: "roots", OK: true, Detail: detail}}
}

// checkChannels looks at the channels that are switched on, and lists all with their state.
func checkChannels(ctx context.Context, c *rpc.Client) (out []server.Check) {
	me, err := rpc.Call(ctx, c, api.Whoami, api.None{})
	if err != nil {
		return []server.Check{{What: "channels", Detail: rpc.Describe(err, rpc.Commands).Message}}
	}
	var all []string
	for _, name := range slices.Sorted(maps.Keys(me.Capabilities)) {
		capability := me.Capabilities[name]
		if capability.State == hub.Failed {
			out = append(out, server.Check{What: "channel " + name, Detail: capability.Detail, Hint: "messages stay in the inbox meanwhile; see the hub's log for the cause"})
		}
		state := "off"
		if capability.Enabled {
			state = "on"
		}
		all = append(all, fmt.Sprintf("%s %s (%s)", name, state, capability.State))
	}
	return append(out, server.Check{What: "channels", OK: true, Detail: strings.Join(all, ", ")})
}

// checkSpend names the sessions of which tokens are not counted, because their transcripts, or lines of
// them, cannot be read, and a list of prices that is old.
func checkSpend(home string) (out []server.Check) {
	for _, p := range launch.SpendProblems(home) {
		out = append(out, server.Check{What: fmt.Sprintf("usage of %s", p.CLI), Detail: fmt.Sprintf("session %s: %s", p.Session, p.Problem), Hint: "tokens that could not be read are not counted"})
	}
	if old := usage.ListProblem(filepath.Join(home, server.PricesFile), now()); old != "" {
		out = append(out, server.Check{What: "prices", OK: true, Detail: old + "; upgrade parley, or load a list with parley spend prices set FILE"})
	}
	return out
}

// checkBudgets names the budgets of money for which models without a price are free.
func checkBudgets(ctx context.Context, c *rpc.Client) (out []server.Check) {
	got, err := rpc.Call(ctx, c, api.ListBudgets, api.None{})
	if err != nil {
		d := rpc.Describe(err, rpc.Commands)
		return []server.Check{{What: "budgets", Detail: d.Message, Hint: d.Hint}}
	}
	for _, b := range got.Budgets {
		if open := b.OpenText(); open != "" {
			out = append(out, server.Check{What: "budgets", OK: true, Detail: open + ", " + when(b.SetAt)})
		}
	}
	return out
}

// checkConnections looks whether the entries that connect wrote still work: the entry
// is as connect writes it today, and its key is accepted.
func (a *app) checkConnections(ctx context.Context, home, url string) (out []server.Check) {
	all := connect.Records(home)
	for _, r := range all {
		if problem := r.Problem(ctx, home, url); problem != "" {
			again := r.ConnectLine(a.typed(home))
			out = append(out, server.Check{What: fmt.Sprintf("%s as %s", r.CLI, r.Agent), Detail: problem, Hint: "connect it again: " + again + "; add --undo to remove it"})
		}
	}
	if len(out) == 0 && len(all) > 0 {
		out = append(out, server.Check{What: "connections", OK: true, Detail: fmt.Sprintf("%d, all with a working entry and key", len(all))})
	}
	return out
}
