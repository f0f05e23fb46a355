package demo

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/ground/git"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/operation/rpc"
	"github.com/parley-agents/parley/internal/service/reservation"
	"github.com/parley-agents/parley/internal/work/keeper"
	"github.com/parley-agents/parley/protocol/acp"
	"github.com/parley-agents/parley/protocol/acp/acpv2"
	"github.com/parley-agents/parley/protocol/sandbox"
	"github.com/parley-agents/parley/server"
)

// Files shows two agents in one working tree that need the same file: the second is refused and
// waits, the first is told and commits, and the second is woken and does its work. ada is a process
// beside the hub, ben an agent that the hub keeps. editor is the command of both: a program that
// calls Editor.
func Files(editor ...string) Demo {
	return func(ctx context.Context, dir, version string, tell func(actor, text string)) error {
		d := &filesDemo{
			taskDemo: taskDemo{script: script{dir: dir, version: version, print: tell}, repo: filepath.Join(dir, "app")},
			command:  editor,
		}
		defer d.dismiss()
		return d.run(ctx, d.begin, d.collide, d.finish, d.compare)
	}
}

type filesDemo struct {
	taskDemo
	command []string
	ada     *exec.Cmd      // nil before it runs
	input   io.WriteCloser // of ada, which ends when it is closed
	read    int64          // the last line of ben's log that was read
}

// The tasks of the agents, which their script knows.
const (
	taskOfAda = "Make avatar nullable in schema.sql"
	taskOfBen = "Add a column email to schema.sql"
)

// The versions of the file.
const (
	schemaBefore = "CREATE TABLE users (\n  id INTEGER,\n  avatar TEXT NOT NULL\n);\n"
	schemaOfAda  = "CREATE TABLE users (\n  id INTEGER,\n  avatar TEXT\n);\n"
	schemaOfBoth = "CREATE TABLE users (\n  id INTEGER,\n  email TEXT,\n  avatar TEXT\n);\n"
)

const demoFile = "schema.sql"

// begin makes the repository, a hub and both agents.
func (d *filesDemo) begin(ctx context.Context) {
	d.try(func() error { return os.Mkdir(d.repo, 0o700) })
	d.git(ctx, "init", "-q", "-b", "main")
	d.commit(ctx, "schema", schemaBefore)
	node := d.node(ctx, Home, server.Options{Roots: []string{d.repo}})
	d.operator = node.client
	call(ctx, &d.script, d.operator, api.KeepAgent, api.KeepParams{
		Definition: keeper.Definition{Agent: "ben", Command: d.command, Dir: d.repo, Policy: sandbox.PolicyWrite},
	})
	got := call(ctx, &d.script, d.operator, api.AddAgent, api.AgentParams{ID: "ada", Role: hub.RoleExecutor})
	d.try(func() (err error) {
		d.ada = exec.CommandContext(ctx, d.command[0], d.command[1:]...)
		d.ada.Dir = d.repo
		d.ada.Env = append(os.Environ(), memberURL+"="+node.url, memberKey+"="+got.Key)
		if d.input, err = d.ada.StdinPipe(); err != nil {
			return err
		}
		return d.ada.Start()
	})
	d.tell("", "A hub starts. Two agents, ada and ben, work in one git repository.")
}

// dismiss ends ada.
func (d *filesDemo) dismiss() {
	if d.input != nil {
		d.input.Close()
		d.ada.Wait() // if it failed, its report is missing
	}
}

// collide gives each agent a task that needs the same file.
func (d *filesDemo) collide(ctx context.Context) {
	d.tell("you", "to ada: %s.", taskOfAda)
	call(ctx, &d.script, d.operator, api.Send, api.SendParams{To: api.Recipients{"ada"}, Type: hub.TypeStatusUpdate, Text: taskOfAda})
	d.hear(ctx)
	d.holds(ctx, "ada")
	d.tell("you", "to ben: %s.", taskOfBen)
	call(ctx, &d.script, d.operator, api.PromptAgent, api.PromptParams{Agent: "ben", Text: taskOfBen})
	d.watch(ctx)
}

// finish follows what the hub's messages lead to: ada commits, and ben is woken.
func (d *filesDemo) finish(ctx context.Context) {
	d.hear(ctx)
	d.tell("", "The file is free. The hub's message to ben starts a turn of ben.")
	d.watch(ctx)
	d.holds(ctx)
}

// hear lets ada read its mail, and tells its report.
func (d *filesDemo) hear(ctx context.Context) {
	d.try(func() error {
		_, err := io.WriteString(d.input, "\n")
		return err
	})
	for polls := 0; d.err == nil; polls++ {
		if polls == 10 { // some of them return at once, with notices
			d.failf("no report of ada")
		}
		mail := call(ctx, &d.script, d.operator, api.Inbox, api.InboxParams{WaitS: 10, Ack: api.AckSet{All: true}})
		for _, m := range mail.Messages {
			switch text := textOf(m); {
			case m.From != "ada":
			case strings.HasPrefix(text, "failed:"):
				d.failf("ada %s", text)
			default:
				d.report("ada", text)
				return
			}
		}
	}
}

// watch tells the report of ben's next turn, and waits for the end of the turn.
func (d *filesDemo) watch(ctx context.Context) {
	isTold := false
	for d.err == nil {
		got := call(ctx, &d.script, d.operator, api.LogAgent, api.KeptLogParams{Agent: "ben", After: d.read, WaitS: 5})
		for _, line := range got.Lines {
			d.read = line.N
			switch {
			case line.Kind == "text":
				isTold = true
				d.report("ben", line.Text)
			case line.Kind == "problem":
				d.failf("ben: %s", line.Text)
			case line.Kind == "state" && line.Text == string(keeper.Idle) && isTold:
				return
			}
		}
	}
}

// report tells the lines of an agent's report.
func (d *filesDemo) report(agent, text string) {
	for line := range strings.Lines(text) {
		d.tell(agent, "%s", strings.TrimSpace(line))
	}
}

// holds compares the holders of the file with those that the story has.
func (d *filesDemo) holds(ctx context.Context, want ...hub.AgentID) {
	got := call(ctx, &d.script, d.operator, api.ListFiles, reservation.Filter{Tree: d.repo})
	if d.err == nil && len(got.Reservations) != len(want) {
		d.failf("%d reservations, not %d", len(got.Reservations), len(want))
		return
	}
	for i, agent := range want {
		if d.err == nil && got.Reservations[i].Holder != agent {
			d.failf("%s holds the file, not %s", got.Reservations[i].Holder, agent)
		}
	}
}

// compare compares the file and the records with the story.
func (d *filesDemo) compare(ctx context.Context) {
	d.try(func() error {
		got, err := os.ReadFile(filepath.Join(d.repo, demoFile))
		if err == nil && string(got) != schemaOfBoth {
			err = fmt.Errorf("schema.sql has not both changes: %q", got)
		}
		return err
	})
	d.try(func() error {
		log, err := git.Alone(ctx, "git", d.repo, "log", "--format=%s").Output()
		if lines := strings.Count(string(log), "\n"); err == nil && lines != 3 {
			err = fmt.Errorf("%d commits, not 3", lines)
		}
		return err
	})
	d.tell("", "schema.sql has both changes, each in a commit of its own. Nothing was overwritten.")
	got := call(ctx, &d.script, d.operator, api.Verify, api.VerifyParams{})
	if !got.Clean() {
		d.failf("the records are inconsistent: %v", got.Findings)
	}
}

// An editor is one agent of the Files demo in its process. It asks the hub what the guard of a CLI
// asks: before and after each edit and each command.
type editor struct {
	taskDemo
	client *rpc.Client
}

func newEditor(url, key, repo string) *editor {
	return &editor{
		taskDemo: taskDemo{script: script{print: func(string, string) {}}, repo: repo},
		client:   rpc.NewClient(url, key, "", nil),
	}
}

// Editor is an agent of the Files demo. It follows a script, no model is asked. With the key of a
// hub in its environment it is ada, else it serves ACP as ben.
func Editor(ctx context.Context, in io.Reader, out io.Writer) error {
	if os.Getenv(memberURL) != "" {
		return editByMail(ctx, in)
	}
	agent := &acp.Agent{Name: "editor", Version: "1", Capabilities: []acp.Capability{acp.CanMCPHTTP}}
	agent.Prompt = func(ctx context.Context, t *acp.AgentTurn) (acp.StopReason, error) {
		if len(t.MCPServers) != 1 || t.MCPServers[0].HTTP == nil {
			return "", errors.New("demo: the hub gave no tools")
		}
		at := t.MCPServers[0].HTTP
		e := newEditor(strings.TrimSuffix(at.URL, "/mcp"), strings.TrimPrefix(at.Headers.Or(nil)[0].Value, "Bearer "), t.Dir)
		text := e.second(ctx, t.Text())
		if e.err != nil {
			return "", fmt.Errorf("demo: ben: %w", e.err)
		}
		return acpv2.StopReasonEndTurn, t.Say(ctx, text)
	}
	return acp.Serve(ctx, agent, in, out)
}

// editByMail is ada: it does its task, commits when another agent waits for the file, and reports
// both to the operator. It reads its mail after each line of its input, and ends with the input.
func editByMail(ctx context.Context, in io.Reader) error {
	repo, err := os.Getwd()
	if err != nil {
		return err
	}
	e := newEditor(os.Getenv(memberURL), os.Getenv(memberKey), repo)
	for steps := bufio.NewScanner(in); steps.Scan(); {
		mail := call(ctx, &e.script, e.client, api.Inbox, api.InboxParams{WaitS: 20, Ack: api.AckSet{All: true}})
		if e.err == nil && len(mail.Messages) != 1 {
			e.failf("%d messages, not one", len(mail.Messages))
		}
		report := ""
		if e.err == nil {
			report = e.first(ctx, textOf(mail.Messages[0]))
		}
		if e.err != nil {
			report = "failed: " + e.err.Error()
			e.err = nil
		}
		call(ctx, &e.script, e.client, api.Send, api.SendParams{To: api.Recipients{hub.Operator}, Type: hub.TypeStatusUpdate, Text: report})
	}
	return e.err
}

// first is the work of ada after a message.
func (e *editor) first(ctx context.Context, message string) string {
	if message == taskOfAda {
		e.edit(ctx, schemaOfAda)
		return "edits schema.sql. It was free: the edit reserves it."
	}
	e.commitFile(ctx, "avatar may be null")
	return "reads: " + message + ".\nfinishes and commits schema.sql."
}

// second is the work of ben after a prompt.
func (e *editor) second(ctx context.Context, prompt string) string {
	if strings.Contains(prompt, taskOfBen) {
		edit := e.refused(ctx, reservation.Question{Kind: reservation.Edit, Paths: []string{demoFile}})
		discard := e.refused(ctx, reservation.Question{Kind: reservation.Edit, Command: "git checkout ."})
		return "edits schema.sql. Refused: " + edit + "\nruns git checkout . instead. Refused: " + discard + "\nends its turn.\n"
	}

	// Mail of the hub started the turn.
	mail := call(ctx, &e.script, e.client, api.Inbox, api.InboxParams{Ack: api.AckSet{All: true}})
	if e.err == nil && len(mail.Messages) != 1 {
		e.failf("%d messages, not the one about the file", len(mail.Messages))
		return ""
	}
	e.ask(ctx, reservation.Question{Kind: reservation.Read, Paths: []string{demoFile}})
	e.edit(ctx, schemaOfBoth)
	e.commitFile(ctx, "email of a user")
	if e.err != nil {
		return ""
	}
	return "reads: " + textOf(mail.Messages[0]) + ".\nreads the file again, adds the column and commits.\n"
}

// ask asks the hub about files of the repository.
func (e *editor) ask(ctx context.Context, q reservation.Question) reservation.Answer {
	q.Tree = e.repo
	return call(ctx, &e.script, e.client, api.AskFiles, q)
}

// refused asks the hub and returns its reason for a denial.
func (e *editor) refused(ctx context.Context, q reservation.Question) string {
	got := e.ask(ctx, q)
	if e.err == nil && got.Decision != reservation.Deny {
		e.failf("the hub did not refuse %v", q)
	}
	return got.Text
}

// edit writes the file, if the hub allows it.
func (e *editor) edit(ctx context.Context, text string) {
	paths := []string{demoFile}
	if got := e.ask(ctx, reservation.Question{Kind: reservation.Edit, Paths: paths}); e.err == nil && got.Decision != reservation.Allow {
		e.failf("refused: %s", got.Text)
	}
	e.try(func() error { return os.WriteFile(filepath.Join(e.repo, demoFile), []byte(text), 0o600) })
	e.ask(ctx, reservation.Question{Kind: reservation.After, Paths: paths})
}

// commitFile commits the file by its name.
func (e *editor) commitFile(ctx context.Context, message string) {
	const command = "git commit -m message schema.sql"
	if got := e.ask(ctx, reservation.Question{Kind: reservation.Edit, Command: command}); e.err == nil && got.Decision != reservation.Allow {
		e.failf("refused: %s", got.Text)
	}
	e.git(ctx, "-c", "user.name=demo", "-c", "user.email=demo@example.com", "-c", "commit.gpgsign=false", "commit", "-q", "-m", message, demoFile)
	e.ask(ctx, reservation.Question{Kind: reservation.After, Command: command})
}
