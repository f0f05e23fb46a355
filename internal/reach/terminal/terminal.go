// Package terminal knows the agent CLIs that people run in a terminal: how each is
// started with the hub's tools, hooks and instructions, what its hooks send and
// expect, and how a notice starts a turn of an idle session.
//
// There is one file for each CLI. A [Plan] prefers flags and variables: every CLI
// here can be started without a change to a file of the user, Gemini CLI by root only.
// The files of a plan are in a folder of the launch, which goes when the CLI ends.
//
// The package calls no hub, asks no questions and starts no CLI.
package terminal

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/nearest"
	"github.com/parley-agents/parley/internal/quota"
	"github.com/parley-agents/parley/internal/shell"
)

// An Event is a moment in a session that its hub is told of.
type Event string

// The events.
const (
	Start   Event = "start"    // the session began
	Prompt  Event = "prompt"   // a turn begins with a prompt
	Tool    Event = "tool"     // a tool call ended
	TurnEnd Event = "turn_end" // a turn ended
	Failed  Event = "failed"   // a turn ended with an error of the model; no TurnEnd follows
	Waiting Event = "waiting"  // the CLI waits for a person
	End     Event = "end"      // the session ended
)

// A CLI is an agent program in a terminal.
type CLI struct {
	Name  string // as people type it: claude
	Title string // as its makers call it: Claude Code

	// Mechanism is the way in which a notice starts a turn of an idle session; ""
	// if there is none.
	Mechanism string

	// Detached says that no part of the CLI can hold a request to the hub: the hook
	// at the start of a session starts a waiter that ends with the CLI.
	Detached bool

	// Leaves says that a window of the CLI shows one session at a time and that no hook
	// tells when its user leaves one for another: a prompt in a session tells that the
	// others of the window are left.
	Leaves bool

	// Tells says that the CLI has no flag for instructions: the hook at the start of a
	// session shows them.
	Tells bool

	// RootOnly says that the CLI reads the file of its plan only if root owns it. Other
	// users connect it with a file of their own.
	RootOnly bool

	// ProcessVariable names the variable in which the CLI tells its hooks the number of its
	// process; "" if it does not.
	ProcessVariable string

	// Parting is a sentence for the user at the end of a launch with a conversation, and
	// Forgotten one when launches are forgotten; "" for none.
	Parting, Forgotten string

	hooks []Hook
	plan  func(CLI, *planner)
	stay  func(CLI, []string) []File // the files that connect every session; nil if there are none

	resume []string // arguments that take a conversation up again; its id follows them

	// Stays is a sentence for the user about sessions that these files connect.
	Stays string

	opened func(context.Context, Launch, map[string]bool) (Opened, error) // finds a session of a CLI before its first prompt; nil if a hook tells it
	turn   func(line []byte) Turn                                         // reads a line of the transcript; nil if hooks tell the end of every turn
	answer func(h Hook, text string) any                                  // output of a hook that shows a text
	hand   func(context.Context, Target, Notice) error                    // writes a notice; nil: a line on standard output
}

// A Hook is a moment at which the CLI runs a command.
type Hook struct {
	Name  string // as the CLI calls it
	Event Event
}

// A Notice is the text that starts a turn. Wake is its id, which stands in the text.
type Notice struct{ Wake, Text string }

// Line returns the notice on one line.
func (n Notice) Line() string { return strings.Join(strings.Fields(n.Text), " ") }

var clis = []CLI{claude, codex, copilot, gemini, opencode, pi, qwen}

// All returns the CLIs in the order of their names.
func All() []CLI { return slices.Clone(clis) }

// Lookup returns the CLI of a name. It reports CodeNotFound if there is none.
func Lookup(name string) (CLI, error) {
	names := make([]string, len(clis))
	for i, c := range clis {
		if names[i] = c.Name; strings.EqualFold(c.Name, name) {
			return c, nil
		}
	}
	e := hub.Errorf(hub.CodeNotFound, "terminal.Lookup", "no agent CLI named %.64q is known", name)
	if near := nearest.Name(strings.ToLower(name), slices.Values(names)); near != "" {
		return CLI{}, e.WithHint("did you mean %s?", near)
	}
	return CLI{}, e.WithHint("known are: %s", strings.Join(names, ", "))
}

// Hook returns the hook of a name, as the CLI spells it.
func (c CLI) Hook(name string) (Hook, bool) {
	i := slices.IndexFunc(c.hooks, func(h Hook) bool { return h.Name == name })
	if i < 0 {
		return Hook{}, false
	}
	return c.hooks[i], true
}

// An Input is the part of a hook's input that Parley reads. Of a prompt it keeps the
// ids of wakes and nothing else.
type Input struct {
	Session    string
	Dir        string
	Wakes      []string
	StopActive bool // a hook made this turn go on already
	Transcript string
	NoQuota    bool // the turn ended because the account is out of quota

	// Goes says that a prompt hook came without a prompt: Qwen Code runs it again after
	// each tool call of a turn.
	Goes bool

	// Reminds says that a notification asks no question: CLIs also send one when they
	// have been idle for a while.
	Reminds bool
}

var question = regexp.MustCompile(`(?i)permission|elicitation|approv`)

var wakeForm = regexp.MustCompile(`\bw_[0-9]{12}\b`)

// ReadInput reads the input of a hook. The CLIs differ in the case of the names.
func ReadInput(raw []byte) (Input, error) {
	var in struct {
		Session      string `json:"session_id"`
		SessionCamel string `json:"sessionId"`
		Dir          string `json:"cwd"`
		Prompt       string `json:"prompt"`
		Transcript   string `json:"transcript_path"`
		Stop         bool   `json:"stop_hook_active"`
		StopCamel    bool   `json:"stopHookActive"`
		Kind         string `json:"notification_type"`
		KindCamel    string `json:"notificationType"`
		Message      string `json:"message"`

		Error   json.RawMessage `json:"error"` // a word, or an object with the words of the vendor
		Details string          `json:"error_details"`
	}
	if err := json.Unmarshal(raw, &in); err != nil {
		return Input{}, fmt.Errorf("terminal: input of a hook: %w", err)
	}
	out := Input{Session: in.Session, Dir: in.Dir, Wakes: wakeForm.FindAllString(in.Prompt, -1), StopActive: in.Stop || in.StopCamel}
	if out.Session == "" {
		out.Session = in.SessionCamel
	}
	out.Transcript = in.Transcript
	out.NoQuota = quota.Spent(string(in.Error)) || quota.Spent(in.Details)
	out.Goes = strings.TrimSpace(in.Prompt) == ""
	if said := cmp.Or(in.Kind, in.KindCamel, in.Message); said != "" {
		out.Reminds = !question.MatchString(said)
	}
	return out, nil
}

// Answer returns the output of a hook that shows a text to the model: as context, or
// at the end of a turn as the reason to go on. It is empty for an empty text, and for
// a hook that cannot show one.
func (c CLI) Answer(h Hook, text string) []byte {
	if text == "" || c.answer == nil || h.Event == Waiting || h.Event == Failed || h.Event == End {
		return nil
	}
	out, err := json.Marshal(c.answer(h, text))
	if err != nil {
		return nil
	}
	return append(out, '\n')
}

// claudeAnswer is the output that Claude Code defined and that Codex and Qwen took over.
func claudeAnswer(h Hook, text string) any {
	if h.Event == TurnEnd {
		return map[string]string{"decision": "block", "reason": text}
	}
	return map[string]any{"hookSpecificOutput": map[string]string{"hookEventName": h.Name, "additionalContext": text}}
}

// A Turn is the news of a line of a session's transcript about its turn; "" if it has none.
type Turn string

// The news.
const (
	TurnRuns  Turn = "runs"  // it runs, or a hook tells its end
	TurnBroke Turn = "broke" // it ended without a hook: with an error, or by its user
	TurnSpent Turn = "spent" // the same, because the account is out of quota
)

// Follows reports whether the transcript of a session has to be read to learn that a turn
// is over.
func (c CLI) Follows() bool { return c.turn != nil }

// Turn returns the last news among lines of a session's transcript.
func (c CLI) Turn(lines [][]byte) Turn {
	for _, line := range slices.Backward(lines) {
		if news := c.turn(line); news != "" {
			return news
		}
	}
	return ""
}

// Resume returns the arguments that take a conversation up again; nil if the CLI has none.
func (c CLI) Resume(session string) []string {
	if c.resume == nil {
		return nil
	}
	return append(slices.Clone(c.resume), session)
}

// An Opened is a session that a CLI has opened.
type Opened struct {
	Session    string // "" if there is none yet
	Transcript string // path of its file, which may come into being later
}

// Asks reports whether Opened finds the session of a CLI before its first prompt, of which
// no hook tells.
func (c CLI) Asks() bool { return c.opened != nil }

// Opened asks the CLI for a session that it has opened and that is not in seen, and adds it
// to seen. The session is the one that the window shows now: its user has begun it.
func (c CLI) Opened(ctx context.Context, l Launch, seen map[string]bool) (Opened, error) {
	return c.opened(ctx, l, seen)
}

// A Target is the session that a notice is written to.
type Target struct {
	Session string
	Launch  Launch // empty for a session that launch did not start
}

// Hands reports whether Hand writes a notice. Without it a waiter writes the notice
// as a line on its standard output, where a part of the CLI reads it.
func (c CLI) Hands() bool { return c.hand != nil }

// Hand writes a notice so that it starts a turn, or is queued behind the turn that
// runs. Success proves that it was written, not that a turn began.
func (c CLI) Hand(ctx context.Context, t Target, n Notice) error { return c.hand(ctx, t, n) }

// A Launch is the record of a CLI that launch started, in the folder of the launch.
type Launch struct {
	CLI     string      `json:"cli"`
	Agent   hub.AgentID `json:"agent"`
	Process int         `json:"process"`        // of launch, which lives as long as the CLI
	Label   string      `json:"label"`          // of the key
	Wake    bool        `json:"wake,omitempty"` // notices may start turns
	Binary  string      `json:"binary"`         // of the CLI
	Version string      `json:"version,omitempty"`
	Socket  string      `json:"socket,omitempty"` // of the CLI's own server, for codex
	Input   string      `json:"input,omitempty"`  // file whose lines are prompts, for qwen

	Attended bool `json:"attended,omitempty"` // a person has it in a terminal
}

// Names of files in the folder of a launch.
const (
	KeyFile    = "key"         // the agent's key, mode 0600
	RecordFile = "launch.json" // the Launch
)

// A Request describes a launch to plan.
type Request struct {
	Program []string // parley and its flags, as hooks and MCP entries call it
	Folder  string   // absolute path of the launch's folder
	Env     []string // variables that parley needs where the CLI passes none on: NAME=value
	Agent   hub.AgentID
	Binary  string
	Args    []string // given by the user
	Wake    bool     // notices may start turns
	Getenv  func(string) string
	Read    func(path string) ([]byte, error) // of files that a plan adds to
}

// A Plan is how a CLI is started.
type Plan struct {
	Args   []string          // of the CLI, the user's included
	Env    []string          // to add: NAME=value
	Files  map[string]string // by path in the folder of the launch
	Beside []string          // arguments of the CLI's own server, which runs as long as the CLI; nil for none
	Notes  []string          // for the user
	Launch Launch
}

// A File is a part of the user's files that connects every session of a CLI with the
// hub, as a Plan connects one.
type File struct {
	Path  string            // in the folder of the CLI's configuration
	Hooks map[string]object // entries of the hooks in a JSON file, by event; nil for a file of its own
	Text  string            // of a file of its own
	Mark  string            // a part of each entry and of the text, by which it is known again
}

// Permanent returns the files that connect every session, for a program with its
// flags.
func (c CLI) Permanent(program []string) []File {
	if c.stay == nil {
		return nil
	}
	return c.stay(c, program)
}

// hookFile returns a file with the hooks of the CLI among others. timeout is in the
// unit of the CLI.
func hookFile(path string, timeout int) func(CLI, []string) []File {
	return func(c CLI, program []string) []File {
		hooks := map[string]object{}
		for _, h := range c.hooks {
			hooks[h.Name] = object{"hooks": []object{{"type": "command", "command": c.command(program, h), "timeout": timeout}}}
		}
		return []File{{Path: path, Hooks: hooks, Mark: " wake hook " + c.Name}}
	}
}

type planner struct {
	Request
	plan Plan
	err  error
}

// Plan returns how to start the CLI.
func (c CLI) Plan(r Request) (Plan, error) {
	p := planner{Request: r, plan: Plan{Files: map[string]string{}, Launch: Launch{CLI: c.Name, Agent: r.Agent, Binary: r.Binary, Wake: r.Wake}}}
	c.plan(c, &p)
	p.plan.Args = append(p.plan.Args, r.Args...)
	return p.plan, p.err
}

// file adds a file to the folder of the launch and returns its path.
func (p *planner) file(name, content string) string {
	p.plan.Files[name] = content
	return filepath.Join(p.Folder, filepath.FromSlash(name))
}

// json adds a file with a value.
func (p *planner) json(name string, value any) string {
	return p.file(name, p.encode(value))
}

func (p *planner) encode(value any) string {
	raw, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		p.err = err
	}
	return string(raw) + "\n"
}

// given reports whether the user gave a flag.
func (p *planner) given(flag string) bool {
	return slices.ContainsFunc(p.Args, func(a string) bool { return a == flag || strings.HasPrefix(a, flag+"=") })
}

// object is a JSON object.
type object = map[string]any

// server returns the hub's tools as an MCP server that the CLI starts.
func (p *planner) server() object {
	env := map[string]string{}
	for _, e := range p.Env {
		name, value, _ := strings.Cut(e, "=")
		env[name] = value
	}
	return object{"command": p.Program[0], "args": append(slices.Clone(p.Program[1:]), "mcp"), "env": env}
}

// servers returns the file with the MCP servers for the flag of CLIs that have one.
func (p *planner) servers(more object) string {
	s := p.server()
	for name, value := range more {
		s[name] = value
	}
	return p.json("mcp.json", object{"mcpServers": object{"parley": s}})
}

// command returns the command line of a hook, for a shell.
func (c CLI) command(program []string, h Hook) string {
	words := make([]string, 0, len(program)+4)
	for _, w := range append(slices.Clone(program), "wake", "hook", c.Name, h.Name) {
		words = append(words, shell.Word(w))
	}
	return strings.Join(words, " ")
}

// hookSettings returns the hooks as Claude Code, Codex, Gemini and Qwen read them.
// timeout is in the unit of the CLI.
func (c CLI) hookSettings(program []string, timeout int) object {
	out := object{}
	for _, h := range c.hooks {
		out[h.Name] = []object{{"hooks": []object{{"type": "command", "command": c.command(program, h), "timeout": timeout}}}}
	}
	return out
}

// hookSeconds is the limit that a CLI gives to a hook. The hook itself gives up earlier.
const hookSeconds = 5
