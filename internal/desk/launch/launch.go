// Package launch starts agent CLIs in a terminal as agents of a hub, with the hub's tools
// and hooks, and runs the waiters and hooks beside them.
//
// A [Launch] gives the CLI an identity and a key for one session, by flags and variables:
// no file of the CLI is changed, except for a CLI that has no other way, after a yes. Its
// key is revoked and its folder is removed when the CLI ends; after a kill the next launch
// does that. An identity is used again with its name, and retired when it was not used for
// two weeks and nothing waits for it.
//
// A [Waiter] holds one long request to the hub beside a session and writes notices into it.
// A session has at most one waiter, which ends with the CLI. A hook makes one call and
// never fails a turn: without a hub it shows nothing.
//
// What is particular to one CLI is in internal/desk/cli. The package prints to the
// writers of its [Host] alone.
//
// Identities, waiters' files and transcripts are tested here; launches, wakes and hooks
// through the commands in cmd/parley, with real CLIs where they are installed.
package launch

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/desk/cli"
	"github.com/parley-agents/parley/internal/desk/connect"
	"github.com/parley-agents/parley/internal/ground/process"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/operation/rpc"
	"github.com/parley-agents/parley/internal/work/fleet"
)

// Variable names the folder of the launch in every process below the CLI. The
// key is in a file there: programs filter variables that look like keys, and print
// those that do not.
const Variable = fleet.LaunchVariable

// An ExitError ends a program with the exit code of another one that it ran.
type ExitError int

// Error returns the text for people.
func (e ExitError) Error() string { return fmt.Sprintf("the program ended with exit code %d", int(e)) }

// A Host is the terminal, the hub and the person around a launch.
type Host struct {
	Stdin          io.Reader // of the CLI, as Stdout and Stderr are
	Stdout, Stderr io.Writer
	Text           io.Writer // lines for the user, on standard error
	Note           func(text string)

	// Attended says that a person is at the terminal. Ask asks that person; it is nil
	// without one.
	Attended bool
	Ask      func(ctx context.Context, question string) (bool, error)

	// Client returns a client that calls the hub with the caller's key.
	Client func() (*rpc.Client, error)

	// StartHub returns a client that calls the hub as the operator, and the address of
	// the hub. It starts a hub if none runs.
	StartHub func(ctx context.Context) (*rpc.Client, string, error)

	// OfferRoot offers the person to let the hub check handoffs in a folder.
	OfferRoot func(ctx context.Context, c *rpc.Client, dir string) error

	// Connected tells the person of a connection that was made.
	Connected func(c *connect.Connection, done connect.Result) error

	// Flags are the flags with which this program was told the hub and the key.
	Flags []string
}

// A Launch starts one CLI in this terminal.
type Launch struct {
	Host
	CLI          cli.CLI
	Args         []string    // for the CLI
	As           hub.AgentID // name of the agent; "" for a new one
	Role         string      // of an agent that is new
	Resume       bool        // be the agent that the CLI was in this folder the last time
	Wake, NoWake bool        // mail may start turns, or may not; the user is asked without both
	Home, Dir    string      // absolute paths of the hub's home and of the working folder

	client     *rpc.Client // of the operator
	agent      *rpc.Client // of the agent
	url        string      // of the hub
	identity   Identity
	folder     string   // of this launch
	label      string   // of its key
	neighbours []string // agents of other launches in this folder
}

// Run starts the CLI and returns when it has ended: nil or an ExitError.
func (l *Launch) Run(ctx context.Context) error {
	binary, err := l.binary()
	if err != nil {
		return err
	}
	if l.client, l.url, err = l.StartHub(ctx); err != nil {
		return err
	}
	if l.needsConnection() {
		return l.runConnected(ctx, binary)
	}

	// Launches that were killed and agents that were unused for long are cleaned up first.
	l.clean(ctx)
	l.retire(ctx)
	key, err := l.identify(ctx)
	if err != nil {
		return err
	}
	l.agent = rpc.NewClient(l.url, key, "", nil)
	defer l.leave(context.WithoutCancel(ctx))

	// Questions to the person come before the CLI takes the terminal.
	if err := l.checkVersion(ctx, binary); err != nil {
		return err
	}
	if err := l.allow(ctx); err != nil {
		return err
	}
	if err := l.OfferRoot(ctx, l.client, l.Dir); err != nil {
		return err
	}

	plan, err := l.prepare(binary, key)
	if err != nil {
		return err
	}
	err = l.execute(ctx, binary, plan)
	l.spendRest(context.WithoutCancel(ctx))
	return err
}

// binary finds the program of the CLI.
func (l *Launch) binary() (string, error) {
	user, _ := os.UserHomeDir() // without one only the PATH is searched
	path, err := l.CLI.Find(user)
	if err != nil {
		return "", hub.Errorf(hub.CodeNotFound, "launch.Run", "%w", err).WithHint("install it, or put it on the PATH")
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
func (l *Launch) checkVersion(ctx context.Context, binary string) error {
	program, last := programOf(binary), ""
	for _, i := range Identities(l.Home) {
		if i.CLI != l.CLI.Name || i.Version == "" {
			continue
		}
		last = cmp.Or(last, i.Version)
		if i.Program == program {
			l.identity.Program = program
			l.identity.Version = i.Version
			return l.identity.Save(l.Home)
		}
	}

	version, problem := cli.Version(ctx, binary)
	switch {
	case problem != "":
		l.Note(fmt.Sprintf("%s: %s", l.CLI.Title, problem))
	case last != "" && last != version:
		l.Note(fmt.Sprintf(`%s changed from %s to %s; run "parley agent test %s" to check that mail still starts a turn`, l.CLI.Title, last, version, l.identity.Agent))
	}
	l.identity.Program = program
	l.identity.Version = version
	return l.identity.Save(l.Home)
}

// identify chooses the agent, adds it to the hub if it is new, and returns a key for
// this launch.
func (l *Launch) identify(ctx context.Context) (string, error) {
	l.label = fmt.Sprintf("launch-%d-%d", time.Now().UnixMilli(), os.Getpid())
	l.identity = Identity{CLI: l.CLI.Name, Dir: l.Dir, Agent: l.As}
	known := Identities(l.Home)
	l.meet(known)
	l.recall(known)
	if l.Resume && l.identity.Agent == "" {
		return "", hub.Errorf(hub.CodeNotFound, "launch.Run", "%s was not launched in %s before, or is still running", l.CLI.Title, l.Dir).WithHint("leave out --resume to start a new agent")
	}

	made, err := l.addAgent(ctx)
	switch hub.CodeOf(err) {
	case "":
		l.identity.Made = l.As == ""
	case hub.CodeConflict: // it is there
		made, err = rpc.Call(ctx, l.client, api.AddKey, api.AgentParams{ID: l.identity.Agent, Label: l.label})
	}
	if err != nil {
		return "", err
	}
	l.identity.Process = os.Getpid()
	l.identity.Last = hub.At(time.Now())
	return made.Key, l.identity.Save(l.Home)
}

// meet tells of another window of the same agent, and notes the agents of other windows in
// this folder.
func (l *Launch) meet(known []Identity) {
	for _, i := range known {
		switch runs := !i.Connected && process.Alive(i.Process); {
		case runs && i.Agent == l.As:
			l.Note(fmt.Sprintf("%s is also running in another window; mail goes to the first window that takes it", i.Agent))
		case runs && i.Dir == l.Dir:
			l.neighbours = append(l.neighbours, string(i.Agent))
		}
	}
}

// recall takes the agent and the user's answer from the identity that this launch uses
// again, if there is one.
func (l *Launch) recall(known []Identity) {
	for _, i := range known {
		fits := i.Agent == l.As
		if l.Resume {
			fits = i.CLI == l.CLI.Name && i.Dir == l.Dir && !process.Alive(i.Process)
		}
		if fits {
			l.identity.Agent = i.Agent
			l.identity.Made = i.Made
			l.identity.Wake = i.Wake
			l.identity.Program = i.Program
			l.identity.Version = i.Version
			return
		}
	}
}

// addAgent adds the agent of the launch to the hub, and chooses a name if it has none. It
// reports CodeConflict for an agent that is there.
func (l *Launch) addAgent(ctx context.Context) (made api.AgentKey, err error) {
	params := api.AgentParams{ID: l.identity.Agent, Role: hub.Role(l.Role), Label: l.label}
	for attempt := 0; ; attempt++ {
		if l.identity.Agent == "" {
			params.ID = hub.AgentID(l.CLI.Name + "-" + names[rand.IntN(len(names))])
			if attempt > 4 {
				params.ID += hub.AgentID(fmt.Sprintf("-%d", rand.IntN(1000)))
			}
		}
		made, err = rpc.Call(ctx, l.client, api.AddAgent, params)
		if hub.CodeOf(err) != hub.CodeConflict || l.identity.Agent != "" || attempt > 20 {
			l.identity.Agent = params.ID
			return made, err
		}
	}
}

// names are the second halves of the names of new agents.
var names = strings.Fields("alder amber aspen basil birch brook cedar cliff clover coral crane dune ember fern finch flint fjord glade hazel heron iris ivy jade juniper larch lark linden lotus maple marsh mesa moss oak olive opal otter pearl pine poppy quartz raven reed ridge robin rowan sage slate sorrel spruce stone swift tarn teal thorn thyme tulip vale wren yarrow")

// allow asks once for each agent whether mail may start turns, and tells the hub.
func (l *Launch) allow(ctx context.Context) error {
	yes := l.Wake
	switch {
	case l.Wake || l.NoWake:
	case l.CLI.Mechanism == "":
	case l.identity.Wake != nil:
		yes = *l.identity.Wake
	case l.Ask != nil:
		var err error
		if yes, err = l.Ask(ctx, fmt.Sprintf("May mail start a turn of %s while it is idle? This spends tokens.", l.identity.Agent)); err != nil {
			return err
		}
	default:
		return nil // asked when a person is there
	}
	l.identity.Wake = &yes
	if err := l.identity.Save(l.Home); err != nil {
		return err
	}
	_, err := rpc.Call(ctx, l.client, api.AllowWake, api.WakeAllowParams{Agent: l.identity.Agent, Allow: yes})
	return err
}

// prepare writes the folder of the launch and returns the plan.
func (l *Launch) prepare(binary, key string) (cli.Plan, error) {
	self, err := os.Executable()
	if err != nil {
		return cli.Plan{}, err
	}

	l.folder = filepath.Join(l.Home, Dir, fmt.Sprintf("%s.%d", l.identity.Agent, os.Getpid()))
	env := []string{"PARLEY_HOME=" + l.Home, Variable + "=" + l.folder}
	if url := os.Getenv("PARLEY_URL"); url != "" {
		env = append(env, "PARLEY_URL="+url)
	}
	plan, err := l.CLI.Plan(cli.Request{
		Program: []string{self}, Folder: l.folder, Env: env, Agent: l.identity.Agent, Binary: binary, Args: l.Args,
		Wake: l.identity.Wake != nil && *l.identity.Wake, Getenv: os.Getenv, Read: os.ReadFile,
	})
	if err != nil {
		return plan, hub.Errorf(hub.CodeInvalid, "launch.Run", "cannot prepare the start of %s: %w", l.CLI.Title, err)
	}

	// Hooks and waiters of the CLI find the launch by its record, and call with its key.
	plan.Env = append(plan.Env, env...)
	plan.Launch.Process = os.Getpid()
	plan.Launch.Label = l.label
	plan.Launch.Attended = l.Attended
	plan.Launch.Version = l.identity.Version
	record, err := json.Marshal(plan.Launch)
	if err != nil {
		return plan, err
	}
	plan.Files[cli.KeyFile] = key + "\n"
	plan.Files[cli.RecordFile] = string(record)
	if err := l.write(plan.Files); err != nil {
		return plan, err
	}

	for _, note := range plan.Notes {
		l.Note(note)
	}
	return plan, nil
}

// write writes files, by their paths in the folder of the launch.
func (l *Launch) write(files map[string]string) error {
	for name, content := range files {
		path := filepath.Join(l.folder, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			return err
		}
	}
	return nil
}
