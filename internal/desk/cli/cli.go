// Package cli knows the agent CLIs that people have installed, one file for each: how to
// find it, start it over ACP and hold it to a policy; where it keeps MCP servers and
// instructions; how it is launched in a terminal, what its hooks send and expect, which of
// its tools change files, and how a notice starts a turn of an idle session.
//
// [PlanConnection], [PlanRemoval], [Allow] and [Extend] only read. They return a Change; its
// Apply writes. Files are edited in place: every other entry keeps its bytes, comments and
// order, and a file that cannot be understood is refused, never repaired. No record is kept
// of what was done: what PlanRemoval takes out it recognises by name and by marker, so it
// also works after the file was edited by hand or rewritten by the program it belongs to.
//
// A [Plan] prefers flags and variables: every CLI here can be started without a change to a
// file of the user, Gemini CLI by root only. The files of a plan are in a folder of the
// launch, which goes when the CLI ends.
//
// The package creates no keys, calls no hub, starts no agents, and asks no questions. Its
// tests hold that each CLI has all its parts; CLIs that are installed are tested here and
// in cmd/parley.
package cli

import (
	"context"
	"os/exec"
	"slices"
	"strings"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/desk/quota"
	"github.com/parley-agents/parley/internal/ground/text/nearest"
)

// A CLI is an agent program that people start on a command line.
type CLI struct {
	Name     string   `json:"name"`              // how people call it: claude
	Title    string   `json:"title"`             // how its makers call it: Claude Code
	Vendor   string   `json:"-"`                 // in a word; empty for one that works with models of many vendors
	Binaries []string `json:"binaries"`          // programs on the PATH, in order of preference
	ACP      []string `json:"acp"`               // program and arguments that speak ACP; nil if it does not
	Adapter  string   `json:"adapter,omitempty"` // npm package that ACP[0] comes from; empty if it is the CLI itself

	installs []string // where its own installer may put it, under the home folder
	modes    modes    // how it is held to a policy

	noReject bool // over ACP the guard of files does not refuse its requests for permission; see NoReject
	lastCall bool // over ACP it tells the tokens of the last call of a turn only; see TellsLastCall
	boxed    bool // over ACP its commands run in a sandbox of its own, without a question; see RunsBoxed
	levels   bool // over ACP it tells the tokens of each model call as the fill level of its context; see TellsLevels

	connecting
	launching
	guarding
	spending
}

// A connecting is how a CLI is connected: the files in which it finds a hub in every
// session.
type connecting struct {
	format  format // of the files with the MCP servers; nil for a CLI that has none
	user    layout // the user's own files
	project layout // the files of one project

	// allowFile returns the file with the list of tools that the CLI uses without asking,
	// beside the files of a layout; nil for a CLI that needs no such list.
	allowFile func(files layout, at Place) string

	stay func(CLI, []string) []file // the files with hooks; nil if there are none

	// Stays is a sentence for the user about sessions that these files connect.
	Stays string `json:"-"`
}

// A launching is how a CLI is started in a terminal, and how its session is seen and woken.
type launching struct {
	// Mechanism is the way in which a notice starts a turn of an idle session; ""
	// if there is none.
	Mechanism string `json:"-"`

	// Detached says that no part of the CLI can hold a request to the hub: the hook
	// at the start of a session starts a waiter that ends with the CLI.
	Detached bool `json:"-"`

	// Leaves says that a window of the CLI shows one session at a time and that no hook
	// tells when its user leaves one for another: a prompt in a session tells that the
	// others of the window are left.
	Leaves bool `json:"-"`

	// Tells says that the CLI has no flag for instructions: the hook at the start of a
	// session shows them.
	Tells bool `json:"-"`

	// Says says that the output of its hooks may have a systemMessage, which the CLI shows to its
	// user and not to the model.
	Says bool `json:"-"`

	// RootOnly says that the CLI reads the file of its plan only if root owns it. Other
	// users connect it with a file of their own.
	RootOnly bool `json:"-"`

	// ProcessVariable names the variable in which the CLI tells its hooks the number of its
	// process; "" if it does not.
	ProcessVariable string `json:"-"`

	// Variables are those that its waiter needs to find the CLI.
	Variables []string `json:"-"`

	// Parting is a sentence for the user at the end of a launch with a conversation, and
	// Forgotten one when launches are forgotten; "" for none.
	Parting   string `json:"-"`
	Forgotten string `json:"-"`

	login  string // the line with which a person gives it a login, if it has one
	hooks  []Hook
	plan   func(CLI, *planner)
	resume []string                                                       // arguments that take a conversation up again; its id follows them
	opened func(context.Context, Launch, map[string]bool) (Opened, error) // finds a session of a CLI before its first prompt; nil if a hook tells it
	turn   func(line []byte) (Turn, quota.Ending)                         // reads a line of the transcript; nil if hooks tell the end of every turn
	answer func(h Hook, text string) any                                  // output of a hook that shows a text
	hand   func(context.Context, Target, Notice) error                    // writes a notice; nil: a line on standard output
}

// clis is the table, in the order of the names. The entries in files were compared with
// those that these versions write or list themselves: claude 2.1.197, codex 0.166.0,
// copilot 1.0.102, gemini 0.61.0, opencode 1.18.33, qwen 0.15.10.
var clis = []CLI{claude, codex, copilot, gemini, opencode, pi, qwen}

// All returns the known CLIs in the order of their names. Each can be launched.
func All() []CLI { return slices.Clone(clis) }

// Agents returns the CLIs that can be started over ACP.
func Agents() []CLI { return slices.DeleteFunc(All(), func(c CLI) bool { return c.ACP == nil }) }

// Connectable returns the CLIs whose files can hold an entry for a hub.
func Connectable() []CLI {
	return slices.DeleteFunc(All(), func(c CLI) bool { return c.format == nil })
}

// Lookup returns the CLI of that name. It reports CodeNotFound when there is none,
// with the name that was probably meant as a hint.
func Lookup(name string) (CLI, error) { return lookup(name, clis) }

// LogIn returns the line with which a person gives a CLI a login again; "" if it is not known.
func LogIn(name string) string {
	c, err := Lookup(name)
	switch {
	case err != nil:
		return ""
	case c.login != "":
		return c.login
	}
	return c.Binaries[0] + ", which asks for it"
}

// LookupConnectable returns the CLI of that name, as Lookup does, among those that can be
// connected.
func LookupConnectable(name string) (CLI, error) { return lookup(name, Connectable()) }

// lookup returns the CLI of a name among some.
func lookup(name string, among []CLI) (CLI, error) {
	var names []string
	for _, c := range among {
		if strings.EqualFold(c.Name, name) {
			return c, nil
		}
		names = append(names, c.Name)
	}
	e := hub.Errorf(hub.CodeNotFound, "cli.Lookup", "unknown agent CLI %.64q", name)
	if near := nearestName(name, names); near != "" {
		return CLI{}, e.WithHint("did you mean %s?", near)
	}
	return CLI{}, e.WithHint("use one of %s", strings.Join(names, ", "))
}

// nearestName returns the name of the CLI that was probably meant, "" if none is
// near.
func nearestName(name string, names []string) string {
	name = strings.ToLower(name)
	for _, n := range names {
		if strings.HasPrefix(name, n+"-") { // claude-code, gemini-cli
			return n
		}
	}
	return nearest.Name(name, slices.Values(names))
}

// Command returns the command that starts a known agent over ACP. It reports CodeDegraded
// if the agent is not known, or its program is not on the PATH.
func Command(name string) ([]string, error) {
	c, err := lookup(name, Agents())
	if err != nil {
		return nil, hub.Errorf(hub.CodeDegraded, "cli.Command", "%w", err).
			WithHint("run \"parley agent clis\" to list the known CLIs; give any other one as a command after --")
	}
	if _, err := exec.LookPath(c.ACP[0]); err != nil {
		e := hub.Errorf(hub.CodeDegraded, "cli.Command", "%s is not installed: %s is not on the PATH", c.Title, c.ACP[0])
		if c.Adapter != "" {
			return nil, e.WithHint("install the npm package %s", c.Adapter)
		}
		return nil, e.WithHint("install it, or add it to the PATH")
	}
	return c.ACP, nil
}
