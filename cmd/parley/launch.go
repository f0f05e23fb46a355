package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/durable"
	"github.com/parley-agents/parley/internal/process"
	"github.com/parley-agents/parley/internal/reach/catalog"
	"github.com/parley-agents/parley/internal/reach/fleet"
	"github.com/parley-agents/parley/internal/reach/terminal"
	"github.com/parley-agents/parley/internal/reach/wake"
	"github.com/parley-agents/parley/internal/surface/api"
	"github.com/parley-agents/parley/internal/surface/rpc"
)

// launchVariable names the folder of the launch in every process below the CLI. The
// key is in a file there: programs filter variables that look like keys, and print
// those that do not.
const launchVariable = fleet.LaunchVariable

// launchDir is the folder of a home with one record for each identity that launch has
// used and one folder for each launch that runs.
const launchDir = "launch"

// An identity is the record of an agent that launch has used. It outlives the CLI.
type identity struct {
	Agent   hub.AgentID `json:"agent"`
	CLI     string      `json:"cli"`
	Dir     string      `json:"dir"`
	Made    bool        `json:"made,omitempty"` // by launch, without --as: it is retired when it is not used
	Wake    *bool       `json:"wake,omitempty"` // the user's answer; nil before it was asked
	Last    hub.Time    `json:"last,omitzero"`  // the last start or end
	Process int         `json:"process"`        // of its last launch
	Program string      `json:"program"`        // the CLI's file in its last launch, see programOf
	Version string      `json:"version,omitempty"`

	Connected bool `json:"connected,omitempty"` // launch has written a permanent connection for it
}

func identityFile(home string, agent hub.AgentID) string {
	return filepath.Join(home, launchDir, string(agent)+".json")
}

func (i identity) save(home string) error {
	raw, err := json.MarshalIndent(i, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(home, launchDir), 0o700); err != nil {
		return err
	}
	return durable.WriteFile(identityFile(home, i.Agent), append(raw, '\n'), 0o600)
}

// identities returns the records of a home, the one used last first.
func identities(home string) []identity {
	files, err := filepath.Glob(filepath.Join(home, launchDir, "*.json"))
	if err != nil {
		return nil
	}
	var all []identity
	for _, file := range files {
		var i identity
		if raw, err := os.ReadFile(file); err == nil && json.Unmarshal(raw, &i) == nil && i.Agent.Valid() {
			all = append(all, i)
		}
	}
	slices.SortFunc(all, func(a, b identity) int { return b.Last.Compare(a.Last.Time) })
	return all
}

// A launching is one call of launch.
type launching struct {
	*app
	cli           terminal.CLI
	args          []string
	as            hub.AgentID
	role          string
	resume        bool
	wake, noWake  bool
	undo          bool
	home, dir     string
	client        *rpc.Client // of the operator
	agent         *rpc.Client // of the agent
	identity      identity
	folder, label string
	neighbours    []string // agents of other launches in this folder
}

func (a *app) launchCommand() *cobra.Command {
	var names []string
	for _, c := range terminal.All() {
		names = append(names, c.Name)
	}
	l := launching{app: a}
	cmd := &cobra.Command{
		Use:   "launch CLI [-- ARGS]",
		Short: "Start an agent CLI in this terminal as an agent of the hub",
		Long: `Start an agent CLI in this terminal as an agent of the hub: with the hub's tools,
with hooks that tell the hub what the session does, and with an identity of its own.
A hub is started if none runs. Two windows are two agents. Mail is announced in
the session; if you say yes once for this agent, it also starts a turn while the
session is idle, which spends tokens. ARGS are given to the CLI.

No file of the CLI is changed: the entries are passed by flags and variables. Only
Gemini CLI has none that work for users other than root; the file is named and you
are asked once. Known are ` + strings.Join(names, ", ") + `; each is a command, too: parley claude.`,
		Example: `  parley claude
  parley codex --as builder
  parley launch qwen --wake -- --approval-mode default`,
		Args:      cobra.MinimumNArgs(1),
		ValidArgs: names,
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if l.cli, err = terminal.Lookup(args[0]); err != nil {
				return err
			}
			return l.run(cmd.Context(), args[1:])
		},
	}
	l.flags(cmd)
	return cmd
}

// launchCommands returns a command for each CLI.
func (a *app) launchCommands() []*cobra.Command {
	out := []*cobra.Command{a.launchCommand()}
	for _, c := range terminal.All() {
		l := launching{app: a, cli: c}
		cmd := &cobra.Command{
			Use:   c.Name + " [-- ARGS]",
			Short: "Start " + c.Title + " as an agent of the hub",
			Long:  "Start " + c.Title + " as an agent of the hub: parley launch " + c.Name + ". parley launch --help says more.",
			RunE:  func(cmd *cobra.Command, args []string) error { return l.run(cmd.Context(), args) },
		}
		l.flags(cmd)
		out = append(out, cmd)
	}
	return out
}

func (l *launching) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar((*string)(&l.as), "as", "", "name of the agent on the hub (default a new one)")
	f.StringVar(&l.role, "role", "", "role of an agent that is new (default executor)")
	f.BoolVar(&l.resume, "resume", false, "be the agent that this CLI was in this folder the last time")
	f.BoolVar(&l.wake, "wake", false, "mail may start a turn while the session is idle; do not ask")
	f.BoolVar(&l.noWake, "no-wake", false, "mail never starts a turn while the session is idle; do not ask")
	f.BoolVar(&l.undo, "undo", false, "forget the identities and answers of launches of this CLI, and revoke their keys")
	cmd.MarkFlagsMutuallyExclusive("wake", "no-wake")
	cmd.MarkFlagsMutuallyExclusive("as", "resume")
}

func (l *launching) run(ctx context.Context, args []string) error {
	l.args = args
	if l.as != "" && !l.as.Valid() {
		return hub.Errorf(hub.CodeInvalid, "parley", "--as: %q cannot be an agent's name", l.as).
			WithHint("names are lower-case letters, digits, dots, dashes and underscores")
	}
	home, err := l.homeDir()
	if err != nil {
		return err
	}
	if l.home, err = filepath.Abs(home); err != nil {
		return err
	}
	if l.dir, err = os.Getwd(); err != nil {
		return err
	}
	if l.undo {
		return l.takeBack(ctx)
	}
	binary, err := l.binary()
	if err != nil {
		return err
	}
	c, err := l.loadConfig(l.home)
	if err != nil {
		return err
	}
	link, err := l.hubForRun(ctx, l.home, c)
	if err != nil {
		return err
	}
	l.client = link.Client
	if l.needsConnection() {
		return l.runConnected(ctx, binary)
	}
	l.clean(ctx)
	l.retire(ctx)
	key, err := l.identify(ctx)
	if err != nil {
		return err
	}
	l.agent = rpc.NewClient(link.url, key, "", nil)
	defer l.leave(context.WithoutCancel(ctx))
	if err := l.checkVersion(ctx, binary); err != nil {
		return err
	}
	if err := l.allow(ctx); err != nil {
		return err
	}
	if err := l.offerRoot(ctx, l.client, l.dir); err != nil {
		return err
	}
	plan, err := l.prepare(binary, key)
	if err != nil {
		return err
	}
	return l.execute(ctx, binary, plan)
}

// binary finds the program of the CLI.
func (l *launching) binary() (string, error) {
	if c, err := catalog.Lookup(l.cli.Name); err == nil {
		user, _ := os.UserHomeDir() // without one only the PATH is searched
		path, err := c.Find(user)
		if err != nil {
			return "", hub.Errorf(hub.CodeNotFound, "parley", "%w", err).WithHint("install it, or put it on the PATH")
		}
		return path, nil
	}
	path, err := exec.LookPath(l.cli.Name)
	if err != nil {
		return "", hub.Errorf(hub.CodeNotFound, "parley", "%s is not installed: no program %s on the PATH", l.cli.Title, l.cli.Name).WithHint("install it, or put it on the PATH")
	}
	return path, nil
}

// programOf names the file of a program and its state: another text means that the
// program was installed anew.
func programOf(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	info, err := os.Stat(path)
	if err != nil {
		return path
	}
	return fmt.Sprintf("%s %d %d", path, info.Size(), info.ModTime().UnixNano())
}

// checkVersion finds the version of the CLI. The CLI is asked only if its file is not
// the one of an earlier launch, because some need seconds for the answer. A version
// other than that of the last launch is told, with the command that tries a wake.
func (l *launching) checkVersion(ctx context.Context, binary string) error {
	program, last := programOf(binary), ""
	for _, i := range identities(l.home) {
		if i.CLI != l.cli.Name || i.Version == "" {
			continue
		}
		last = cmp.Or(last, i.Version)
		if i.Program == program {
			l.identity.Program, l.identity.Version = program, i.Version
			return l.identity.save(l.home)
		}
	}
	version, problem := catalog.Version(ctx, binary)
	switch {
	case problem != "":
		fmt.Fprintf(l.err, "%s %s: %s\n", l.paint(l.err, "33", "note:"), l.cli.Title, problem)
	case last != "" && last != version:
		fmt.Fprintf(l.err, "%s %s was changed from %s to %s; parley wake test %s shows whether mail still starts a turn\n", l.paint(l.err, "33", "note:"), l.cli.Title, last, version, l.identity.Agent)
	}
	l.identity.Program, l.identity.Version = program, version
	return l.identity.save(l.home)
}

// identify chooses the agent, adds it to the hub if it is new, and returns a key for
// this launch.
func (l *launching) identify(ctx context.Context) (string, error) {
	l.label = fmt.Sprintf("launch-%d-%d", now().UnixMilli(), os.Getpid())
	known := identities(l.home)
	l.identity = identity{CLI: l.cli.Name, Dir: l.dir, Agent: l.as}
	for _, i := range known {
		switch runs := !i.Connected && processAlive(i.Process); {
		case runs && i.Agent == l.as:
			fmt.Fprintf(l.err, "%s %s runs in another window, too; mail goes to whichever window takes it first\n", l.paint(l.err, "33", "note:"), i.Agent)
		case runs && i.Dir == l.dir:
			l.neighbours = append(l.neighbours, string(i.Agent))
		}
	}
	for _, i := range known {
		fits := i.Agent == l.as
		if l.resume {
			fits = i.CLI == l.cli.Name && i.Dir == l.dir && !processAlive(i.Process)
		}
		if fits {
			l.identity.Agent, l.identity.Made, l.identity.Wake, l.identity.Program, l.identity.Version = i.Agent, i.Made, i.Wake, i.Program, i.Version
			break
		}
	}
	if l.resume && l.identity.Agent == "" {
		return "", hub.Errorf(hub.CodeNotFound, "parley", "%s was not launched in %s before, or still runs", l.cli.Title, l.dir).WithHint("leave --resume out for a new agent")
	}
	params := api.AgentParams{ID: l.identity.Agent, Role: hub.Role(l.role), Label: l.label}
	var made api.AgentKey
	var err error
	for attempt := 0; ; attempt++ {
		if l.identity.Agent == "" {
			params.ID = hub.AgentID(l.cli.Name + "-" + names[rand.IntN(len(names))])
			if attempt > 4 {
				params.ID += hub.AgentID(fmt.Sprintf("-%d", rand.IntN(1000)))
			}
		}
		made, err = rpc.Call(ctx, l.client, api.AddAgent, params)
		if hub.CodeOf(err) != hub.CodeConflict || l.identity.Agent != "" || attempt > 20 {
			break
		}
	}
	switch hub.CodeOf(err) {
	case "":
		l.identity.Made = l.as == ""
	case hub.CodeConflict: // it is there
		made, err = rpc.Call(ctx, l.client, api.AddKey, api.AgentParams{ID: params.ID, Label: l.label})
	}
	if err != nil {
		return "", err
	}
	l.identity.Agent, l.identity.Process, l.identity.Last = params.ID, os.Getpid(), hub.At(now())
	return made.Key, l.identity.save(l.home)
}

// names are the second halves of the names of new agents.
var names = strings.Fields("alder amber aspen basil birch brook cedar cliff clover coral crane dune ember fern finch flint fjord glade hazel heron iris ivy jade juniper larch lark linden lotus maple marsh mesa moss oak olive opal otter pearl pine poppy quartz raven reed ridge robin rowan sage slate sorrel spruce stone swift tarn teal thorn thyme tulip vale wren yarrow")

// allow asks once for each agent whether mail may start turns, and tells the hub.
func (l *launching) allow(ctx context.Context) error {
	yes := l.wake
	switch {
	case l.wake || l.noWake:
	case l.cli.Mechanism == "":
	case l.identity.Wake != nil:
		yes = *l.identity.Wake
	case isTerminal(l.in):
		var err error
		if yes, err = l.askYes(ctx, fmt.Sprintf("May mail start a turn of %s while it is idle? It spends tokens.", l.identity.Agent)); err != nil {
			return err
		}
	default:
		return nil // asked when a person is there
	}
	l.identity.Wake = &yes
	if err := l.identity.save(l.home); err != nil {
		return err
	}
	_, err := rpc.Call(ctx, l.client, api.AllowWake, api.WakeAllowParams{Agent: l.identity.Agent, Allow: yes})
	return err
}

// prepare writes the folder of the launch and returns the plan.
func (l *launching) prepare(binary, key string) (terminal.Plan, error) {
	self, err := os.Executable()
	if err != nil {
		return terminal.Plan{}, err
	}
	l.folder = filepath.Join(l.home, launchDir, fmt.Sprintf("%s.%d", l.identity.Agent, os.Getpid()))
	env := []string{"PARLEY_HOME=" + l.home, launchVariable + "=" + l.folder}
	if url := os.Getenv("PARLEY_URL"); url != "" {
		env = append(env, "PARLEY_URL="+url)
	}
	plan, err := l.cli.Plan(terminal.Request{
		Program: []string{self}, Folder: l.folder, Env: env, Agent: l.identity.Agent, Binary: binary, Args: l.args,
		Wake: l.identity.Wake != nil && *l.identity.Wake, Getenv: os.Getenv, Read: os.ReadFile,
	})
	if err != nil {
		return plan, hub.Errorf(hub.CodeInvalid, "parley", "plan the start of %s: %w", l.cli.Title, err)
	}
	plan.Env = append(plan.Env, env...)
	plan.Launch.Process, plan.Launch.Label, plan.Launch.Attended, plan.Launch.Version = os.Getpid(), l.label, isTerminal(l.in), l.identity.Version
	record, err := json.Marshal(plan.Launch)
	if err != nil {
		return plan, err
	}
	plan.Files[terminal.KeyFile], plan.Files[terminal.RecordFile] = key+"\n", string(record)
	for name, content := range plan.Files {
		path := filepath.Join(l.folder, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return plan, err
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			return plan, err
		}
	}
	for _, note := range plan.Notes {
		fmt.Fprintf(l.err, "%s %s\n", l.paint(l.err, "33", "note:"), note)
	}
	return plan, nil
}

// An exitError ends a command with the exit code of a program that it ran.
type exitError int

func (e exitError) Error() string { return fmt.Sprintf("the program ended with exit code %d", int(e)) }

// execute runs the CLI in the foreground, with the server of its own beside it if it
// has one.
func (l *launching) execute(ctx context.Context, binary string, plan terminal.Plan) error {
	env := append(fleet.Environment(""), plan.Env...)
	if plan.Beside != nil {
		stop, err := l.beside(ctx, binary, plan, env)
		if err != nil {
			return err
		}
		defer stop()
	}
	if l.cli.Asks() && plan.Launch.Wake {
		opening, cancel := context.WithCancel(ctx)
		var asking sync.WaitGroup
		asking.Go(func() { l.awaitSessions(opening, plan.Launch, env) })
		defer asking.Wait()
		defer cancel()
	}
	return l.foreground(ctx, binary, plan.Args, env)
}

const (
	openingEvery = 300 * time.Millisecond // between two questions for the first session of a CLI
	leavingEvery = 3 * time.Second        // between two questions for a further one
	openingTime  = 10 * time.Second       // for one answer
)

// awaitSessions asks the CLI for its session until there is one, and starts the waiter of it:
// mail wakes the session before its first prompt, of which the hooks tell. Then it asks for
// sessions that the user begins in the same window: the hub is told that the window left the
// one before. Without an answer the hub knows a session after its first prompt.
func (l *launching) awaitSessions(ctx context.Context, launch terminal.Launch, env []string) {
	seen := map[string]bool{}
	for every := openingEvery; ctx.Err() == nil; {
		asking, cancel := context.WithTimeout(ctx, openingTime)
		got, err := l.cli.Opened(asking, launch, seen)
		cancel()
		if err == nil && got.Session != "" {
			if every == leavingEvery {
				left := wake.Report{Key: wake.Key{CLI: l.cli.Name, ID: got.Session, Process: launch.Process}, Stamp: process.Stamp(launch.Process), Event: wake.EventStart, Quiet: true, Only: true}
				rpc.Call(ctx, l.agent, api.ReportWake, left) // else the first prompt tells it
			}
			every = leavingEvery
			w := waiter{app: l.app, cli: l.cli, key: wake.Key{CLI: l.cli.Name, ID: got.Session, Process: launch.Process}, dir: l.dir, launch: launch, transcript: got.Transcript}
			w.detach(func(name string) (value string, ok bool) {
				for _, e := range env { // the last counts
					if v, found := strings.CutPrefix(e, name+"="); found {
						value, ok = v, true
					}
				}
				return value, ok
			})
		}
		pause(ctx, every)
	}
}

// foreground runs the CLI at the terminal of this process. Keys such as Ctrl-C belong
// to the CLI; other signals are passed on to it.
func (l *launching) foreground(ctx context.Context, binary string, args, env []string) error {
	cmd := exec.CommandContext(context.WithoutCancel(ctx), binary, args...)
	cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = env, l.in, l.out.raw, l.err.raw
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(signals)
	l.introduce()
	if err := cmd.Start(); err != nil {
		return hub.Errorf(hub.CodeDegraded, "parley", "start %s: %w", l.cli.Title, err)
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	for {
		select {
		case s := <-signals:
			if s != os.Interrupt { // the terminal sends it to the CLI, too
				cmd.Process.Signal(s) // fails if the CLI has ended
			}
		case err := <-done:
			if exit, ok := errors.AsType[*exec.ExitError](err); ok {
				return exitError(max(exit.ExitCode(), 1))
			}
			return err
		}
	}
}

// introduce tells the name of the agent, also as the title of the terminal, and the other agents
// in this folder.
func (l *launching) introduce() {
	fmt.Fprintf(l.err, "%s is %s on the hub\n", l.cli.Title, l.identity.Agent)
	if len(l.neighbours) > 0 {
		fmt.Fprintf(l.err, "also here: %s\n", strings.Join(l.neighbours, ", "))
	}
	if isTerminal(l.in) {
		fmt.Fprintf(l.err.raw, "\x1b]0;%s\x07", l.identity.Agent)
	}
}

// besideTime is the time that the server of a CLI has to listen.
const besideTime = time.Minute

// beside starts the server of the CLI's own and returns when it listens.
func (l *launching) beside(ctx context.Context, binary string, plan terminal.Plan, env []string) (stop func(), err error) {
	log, err := os.OpenFile(filepath.Join(l.folder, "server.log"), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close() // the server has its own copy
	cmd := exec.Command(binary, plan.Beside...)
	cmd.Env, cmd.Stdout, cmd.Stderr = env, log, log
	fleet.DieWithParent(cmd)
	if err := cmd.Start(); err != nil {
		return nil, hub.Errorf(hub.CodeDegraded, "parley", "start the server of %s: %w", l.cli.Title, err)
	}
	done := make(chan struct{})
	go func() {
		cmd.Wait() // its log says why it ended
		close(done)
	}()
	stop = func() {
		cmd.Process.Signal(syscall.SIGTERM) // fails if it has ended
		select {
		case <-done:
		case <-time.After(3 * time.Second):
			cmd.Process.Kill()
			<-done
		}
	}
	socket := strings.TrimPrefix(plan.Launch.Socket, "unix://")
	for giveUp := time.Now().Add(besideTime); ; {
		if _, err := os.Stat(socket); err == nil {
			return stop, nil
		}
		select {
		case <-done:
			raw, _ := os.ReadFile(log.Name()) // without it the message is shorter
			return nil, hub.Errorf(hub.CodeDegraded, "parley", "the server of %s ended: %s", l.cli.Title, lastLines(string(raw)))
		case <-ctx.Done():
			stop()
			return nil, ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
		if time.Now().After(giveUp) {
			stop()
			return nil, hub.Errorf(hub.CodeDegraded, "parley", "the server of %s did not listen within %s", l.cli.Title, besideTime)
		}
	}
}

func lastLines(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-3):], "; ")
}

// leave ends the launch: the hub is told that its sessions ended, its key is revoked
// and its folder is removed. A hub that is away is told by the next launch.
func (l *launching) leave(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	l.identity.Last = hub.At(now())
	if err := l.identity.save(l.home); err != nil {
		fmt.Fprintf(l.err, "%s %v\n", l.paint(l.err, "33", "note:"), err)
	}
	conversation := ""
	if list, err := rpc.Call(ctx, l.agent, api.ListSessions, api.AgentNameParams{}); err == nil {
		for _, wakes := range list.Agents {
			for _, s := range wakes.Sessions { // the newest first
				if s.Process != os.Getpid() {
					continue
				}
				if s.ID != wake.Opening {
					conversation = cmp.Or(conversation, s.ID)
				}
				if s.State != wake.SessionEnded {
					rpc.Call(ctx, l.agent, api.ReportWake, wake.Report{Key: s.Key, Event: wake.EventEnd, Quiet: true}) // else the hub finds out by itself
				}
			}
		}
	}
	unread := 0
	if in, err := rpc.Call(ctx, l.agent, api.Inbox, api.InboxParams{NewOnly: true, Peek: true}); err == nil {
		unread = in.Unread
	}
	if _, err := rpc.Call(ctx, l.client, api.RevokeKeys, api.AgentParams{ID: l.identity.Agent, Label: l.label}); err != nil && l.folder != "" {
		os.Remove(filepath.Join(l.folder, terminal.KeyFile)) // the rest stays for the next launch, which revokes the key
		return
	}
	if l.folder != "" {
		os.RemoveAll(l.folder)
	}
	l.part(conversation, unread)
}

// part tells how to take the agent and its conversation up again, and what stays.
func (l *launching) part(conversation string, unread int) {
	again := fmt.Sprintf("parley %s --as %s", l.cli.Name, l.identity.Agent)
	if args := l.cli.Resume(conversation); conversation != "" && args != nil {
		again += " -- " + strings.Join(args, " ")
	}
	if l.cli.Name == "codex" && conversation != "" {
		fmt.Fprintln(l.err, "a command of Codex that names a server does not work: the server ended with this window")
	}
	fmt.Fprintf(l.err, "%s is idle on the hub; take it up again with: %s\n", l.identity.Agent, again)
	if unread > 0 {
		fmt.Fprintf(l.err, "unread messages: %d\n", unread)
	}
	fmt.Fprintln(l.err, "the hub runs on; parley stop ends it")
}

// clean removes the folders of launches that were killed and revokes their keys.
func (l *launching) clean(ctx context.Context) {
	records, err := filepath.Glob(filepath.Join(l.home, launchDir, "*", terminal.RecordFile))
	if err != nil {
		return
	}
	waiters, err := filepath.Glob(filepath.Join(l.home, launchDir, "*.waiter"))
	if err != nil {
		return
	}
	for _, file := range waiters {
		if !heldByProcess(file) {
			os.Remove(file)
		}
	}
	for _, file := range records {
		var r terminal.Launch
		raw, err := os.ReadFile(file)
		if err != nil || json.Unmarshal(raw, &r) != nil || processAlive(r.Process) {
			continue
		}
		if _, err := rpc.Call(ctx, l.client, api.RevokeKeys, api.AgentParams{ID: r.Agent, Label: r.Label}); err == nil || hub.CodeOf(err) == hub.CodeNotFound {
			os.RemoveAll(filepath.Dir(file))
		}
	}
}

// retireAfter is the time without a launch after which an identity that launch made
// is retired.
const retireAfter = 14 * 24 * time.Hour

// retire pauses identities that launch made and that were not used for long, and
// revokes their keys, unless mail or a task waits for them. A failure is left to the
// next launch.
func (l *launching) retire(ctx context.Context) {
	var old []identity
	for _, i := range identities(l.home) {
		if i.Made && now().Sub(i.Last.Time) > retireAfter && !processAlive(i.Process) && i.Agent != l.as {
			old = append(old, i)
		}
	}
	if len(old) == 0 {
		return
	}
	list, err := rpc.Call(ctx, l.client, api.ListAgents, api.None{})
	if err != nil {
		return
	}
	for _, i := range old {
		if slices.ContainsFunc(list.Agents, func(p api.AgentProfile) bool { return p.ID == i.Agent && p.Unread > 0 }) || l.hasTask(ctx, i.Agent) {
			continue
		}
		_, revoked := rpc.Call(ctx, l.client, api.RevokeKeys, api.AgentParams{ID: i.Agent})
		_, paused := rpc.Call(ctx, l.client, api.PauseAgent, api.AgentParams{ID: i.Agent})
		_, denied := rpc.Call(ctx, l.client, api.AllowWake, api.WakeAllowParams{Agent: i.Agent})
		if errors.Join(revoked, paused, denied) == nil && os.Remove(identityFile(l.home, i.Agent)) == nil {
			fmt.Fprintf(l.err, "%s was not used for 14 days and is retired; parley agent resume %[1]s takes it back\n", i.Agent)
		}
	}
}

// hasTask reports whether a task that is not over waits for an agent or came from it.
// It reports true if the hub does not say.
func (l *launching) hasTask(ctx context.Context, agent hub.AgentID) bool {
	from, err := json.Marshal(agent)
	if err != nil {
		return true
	}
	for _, p := range []api.HandoffParams{{Action: "list", To: agent}, {Action: "list", From: from}} {
		got, err := rpc.Call(ctx, l.client, api.Handoff, p)
		if err != nil || got.Listing == nil {
			return true
		}
		for _, h := range got.Listing.Handoffs {
			if h.Status != hub.HandoffClosed && h.Status != hub.HandoffRejected {
				return true
			}
		}
	}
	return false
}

// takeBack forgets the launches of a CLI.
func (l *launching) takeBack(ctx context.Context) error {
	client, err := l.app.client()
	if err != nil {
		return err
	}
	l.client = client
	l.clean(ctx)
	out := undone{CLI: l.cli.Name, Agents: []hub.AgentID{}}
	for _, i := range identities(l.home) {
		if i.CLI != l.cli.Name {
			continue
		}
		if !i.Connected && processAlive(i.Process) {
			return hub.Errorf(hub.CodeConflict, "parley", "%s still runs as %s", l.cli.Title, i.Agent).WithHint("end it first")
		}
		if _, err := rpc.Call(ctx, client, api.AllowWake, api.WakeAllowParams{Agent: i.Agent, Allow: false}); err != nil && hub.CodeOf(err) != hub.CodeNotFound {
			return err
		}
		if i.Connected {
			if err := l.disconnect(ctx, i.Agent); err != nil {
				return err
			}
			out.Files = true
		}
		if err := os.Remove(identityFile(l.home, i.Agent)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		out.Agents = append(out.Agents, i.Agent)
	}
	return l.print(out, func(w io.Writer) {
		files := "launch has changed no file of " + l.cli.Title
		if out.Files {
			files = "the entries in files of " + l.cli.Title + " are removed"
		}
		fmt.Fprintf(w, "%s; %d identities forgotten, their wakes are off\n", files, len(out.Agents))
		if l.cli.Name == "codex" {
			fmt.Fprintln(w, "Codex keeps your trust in Parley's hooks in its config.toml, under hooks.state; it counts for nothing without launch")
		}
	})
}

// undone is the answer of launch --undo with --json.
type undone struct {
	CLI    string        `json:"cli"`
	Agents []hub.AgentID `json:"agents"`
	Files  bool          `json:"files,omitempty"` // entries in files of the CLI were removed
}
