package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/ground/strictjson"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/operation/rpc"
	"github.com/parley-agents/parley/internal/service/team"
	"github.com/parley-agents/parley/server"
)

// Team shows three ways of working in a team: research, a draft and its review; three
// hypotheses at once; work in packets with a merge that conflicts. Every member is a
// process of its own, started with the given command: a program that calls Member.
func Team(command ...string) Demo {
	return func(ctx context.Context, dir, version string, tell func(actor, text string)) error {
		d := &teamDemo{taskDemo: taskDemo{script: script{dir: dir, version: version, print: tell}}, command: command}
		defer d.dismiss()
		return d.run(ctx, d.form, d.review, d.search, d.split, d.close)
	}
}

type teamDemo struct {
	taskDemo
	command []string
	members []*exec.Cmd
	inputs  []io.Closer // of the members, which end when theirs is closed
}

const demoTeam = "auth"

// The members. The coordinator is the demo itself.
var demoSeats = []team.Seat{
	{Agent: "rita", Role: hub.RoleResearcher}, {Agent: "dan", Role: hub.RoleExecutor}, {Agent: "ben", Role: hub.RoleExecutor}, {Agent: "cleo", Role: hub.RoleExecutor},
	{Agent: "eva", Role: hub.RoleReviewer}, {Agent: "ivo", Role: hub.RoleIntegrator},
}

// The variables by which a member learns the hub and its key.
const (
	memberURL = "PARLEY_DEMO_URL"
	memberKey = "PARLEY_DEMO_KEY"
)

func (d *teamDemo) form(ctx context.Context) {
	node := d.node(ctx, Home, server.Options{Limits: server.Limits{Unsafe: true}}) // ana writes more than ten messages a minute
	d.operator = node.client
	d.planner = d.add(ctx, "ana", hub.RoleCoordinator)
	for _, seat := range demoSeats {
		got := call(ctx, &d.script, d.operator, api.AddAgent, api.AgentParams{ID: seat.Agent, Role: hub.RoleExecutor})
		d.try(func() error {
			cmd := exec.CommandContext(ctx, d.command[0], d.command[1:]...)
			cmd.Env = append(os.Environ(), memberURL+"="+node.url, memberKey+"="+got.Key)
			in, err := cmd.StdinPipe()
			if err != nil {
				return err
			}
			d.members, d.inputs = append(d.members, cmd), append(d.inputs, in)
			return cmd.Start()
		})
	}
	d.team(ctx, api.TeamParams{Action: "create", Objective: "log in without a password", Members: demoSeats})
	d.team(ctx, api.TeamParams{Action: "status", Lifecycle: hub.TeamActive})
	d.tell("", "A hub starts. ana coordinates the team auth; its six members are separate processes.")
}

// dismiss ends the members.
func (d *teamDemo) dismiss() {
	for i, in := range d.inputs {
		in.Close()
		d.members[i].Wait() // one that failed has said so in its answer
	}
}

// team performs a request of ana.
func (d *teamDemo) team(ctx context.Context, r api.TeamParams) team.Answer {
	r.Team = demoTeam
	return call(ctx, &d.script, d.planner, api.Team, r)
}

// ask has members take steps, all at once, and tells their answers, in the order of
// the names.
func (d *teamDemo) ask(ctx context.Context, step string, names ...hub.AgentID) {
	waiting, answers := map[hub.EnvelopeID]hub.AgentID{}, map[hub.AgentID]string{}
	for _, name := range names {
		got := call(ctx, &d.script, d.planner, api.Send, api.SendParams{To: api.Recipients{name}, Team: demoTeam, Type: hub.TypeKnowledgeQuery, Topic: step, Text: "Your turn: " + step})
		waiting[got.ID] = name
	}
	for polls := 0; d.err == nil && len(answers) < len(names); polls++ {
		if polls == 100 { // most of them return at once, with notices
			d.failf("no answer about %s", step)
		}
		mail := call(ctx, &d.script, d.planner, api.Inbox, api.InboxParams{WaitS: 10, Ack: api.AckSet{All: true}})
		for _, m := range mail.Messages {
			if name, ok := waiting[m.ReplyTo]; ok && m.From == name {
				answers[name] = textOf(m)
			}
		}
	}
	for _, name := range names {
		if text := answers[name]; strings.HasPrefix(text, "failed:") {
			d.failf("%s %s", name, text)
		} else {
			d.tell(string(name), "%s", text)
		}
	}
}

// textOf returns the text of a message.
func textOf(e hub.Envelope) string {
	var p struct{ Summary, Answer string }
	if json.Unmarshal(e.Payload, &p); p.Summary == "" {
		return p.Answer
	}
	return p.Summary
}

// review is the first way: research, a draft, a review with one rework.
func (d *teamDemo) review(ctx context.Context) {
	d.tell("", "\n1. Research, draft, review")
	d.team(ctx, api.TeamParams{Action: "task", Title: "Draft the login page", Owner: "dan", Reviewer: "eva"})
	d.ask(ctx, "research", "rita")
	d.ask(ctx, "draft", "dan")
	d.ask(ctx, "review", "eva")
	d.ask(ctx, "draft", "dan")
	d.ask(ctx, "review", "eva")
	if got := d.team(ctx, api.TeamParams{Action: "task", Task: "T-1"}); d.err == nil && got.Task.State != hub.TaskDone {
		d.failf("T-1 is %s", got.Task.State)
	}
}

// search is the second way: three hypotheses at once, and one root cause.
func (d *teamDemo) search(ctx context.Context) {
	d.tell("", "\n2. Three hypotheses in parallel")
	d.team(ctx, api.TeamParams{Action: "status", Lifecycle: hub.TeamIncident})
	d.tell("ana", "declares an incident: logins fail.")
	d.ask(ctx, "hypothesis", "dan", "ben", "cleo")
	for _, name := range []string{"dan", "ben", "cleo"} {
		got := d.team(ctx, api.TeamParams{Action: "artifact", Artifact: "hypotheses/" + name + ".md"})
		if d.err == nil && strings.Contains(*got.Content, "confirmed") {
			d.team(ctx, api.TeamParams{Action: "decide", Title: "Root cause", Decision: "The server's clock is wrong.", Rationale: "the hypothesis of " + name + " is confirmed, the others are refuted"})
			d.tell("ana", "reads all three and decides: the server's clock is wrong, as %s found.", name)
		}
	}
	d.team(ctx, api.TeamParams{Action: "status", Lifecycle: hub.TeamActive})
}

// split is the third way: packets of work on one file, and a merge that conflicts.
func (d *teamDemo) split(ctx context.Context) {
	d.tell("", "\n3. Work packets on one file")
	text := "keys = 1\n\nsessions = 30\n\nlimit = 5\n"
	d.team(ctx, api.TeamParams{Action: "artifact", Artifact: "login.conf", ParentVersion: new(int64), Content: &text})
	d.ask(ctx, "keys", "dan")
	d.ask(ctx, "limit", "ben")
	d.ask(ctx, "sessions", "dan")
	d.ask(ctx, "sessions", "ben")
	if got := d.team(ctx, api.TeamParams{Action: "artifact", Artifact: "login.conf"}); d.err == nil && got.Artifact.State != hub.MergeManual {
		d.failf("login.conf is %s", got.Artifact.State)
	}
	d.ask(ctx, "merge", "ivo")
}

// close closes the team and compares the records.
func (d *teamDemo) close(ctx context.Context) {
	d.tell("", "")
	d.team(ctx, api.TeamParams{Action: "close"})
	dir := filepath.Join(d.dir, Home, "_shared", "teamspaces", demoTeam)
	d.try(func() error {
		for {
			if all, err := filepath.Glob(filepath.Join(dir, "snapshots", "*.json")); err != nil || len(all) > 0 {
				return err
			}
			if _, err := rpc.Call(ctx, d.planner, api.Inbox, api.InboxParams{WaitS: 1, NewOnly: true}); err != nil {
				return err
			}
		}
	})
	d.tell("ana", "closes the team. Its folder has members, tasks, decisions, files with all versions, and a snapshot.")
	d.check(ctx)
}

// A member is one agent of the Team demo in its process.
type member struct {
	script
	client *rpc.Client
	name   hub.AgentID
}

// Member is an agent of the Team demo. It follows a script, no model is asked: it waits
// for mail, takes the step that a message asks for, and answers. It ends with its input.
func Member(ctx context.Context, in io.Reader) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		io.Copy(io.Discard, in)
		cancel()
	}()

	m := &member{script: script{print: func(string, string) {}}, client: rpc.NewClient(os.Getenv(memberURL), os.Getenv(memberKey), "", nil)}
	for {
		mail, err := rpc.Call(ctx, m.client, api.Inbox, api.InboxParams{WaitS: 20, Ack: api.AckSet{All: true}})
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("demo: member: %w", err)
		}
		m.name = mail.You

		// Mail without a step in the script gets no answer.
		for _, msg := range mail.Messages {
			step, ok := steps[msg.Topic]
			if !ok {
				continue
			}
			m.err = nil
			text := step(ctx, m)
			if m.err != nil {
				text = "failed: " + m.err.Error()
			}
			if _, err := rpc.Call(ctx, m.client, api.Respond, api.SendParams{ReplyTo: msg.ID, Text: text}); err != nil {
				return fmt.Errorf("demo: member: %w", err)
			}
		}
	}
}

func (m *member) team(ctx context.Context, r api.TeamParams) team.Answer {
	r.Team = demoTeam
	return call(ctx, &m.script, m.client, api.Team, r)
}

// move moves the task of the draft.
func (m *member) move(ctx context.Context, state hub.TaskState, reason string) {
	m.team(ctx, api.TeamParams{Action: "task", Task: "T-1", State: state, Reason: reason})
}

// read returns the newest version of an artifact with its text, 0 if there is none.
func (m *member) read(ctx context.Context, name string) (int64, string) {
	if m.err != nil {
		return 0, ""
	}
	got, err := rpc.Call(ctx, m.client, api.Team, api.TeamParams{Action: "artifact", Team: demoTeam, Artifact: name})
	if err != nil {
		if hub.CodeOf(err) != hub.CodeNotFound {
			m.err = err
		}
		return 0, ""
	}
	return got.Version.Version, *got.Content
}

func (m *member) put(ctx context.Context, name string, parent int64, text string) team.Answer {
	return m.team(ctx, api.TeamParams{Action: "artifact", Artifact: name, ParentVersion: &parent, Content: &text})
}

// change replaces a line of the first version of login.conf.
func (m *member) change(ctx context.Context, parent int64, from, to string) string {
	got := m.team(ctx, api.TeamParams{Action: "artifact", Artifact: "login.conf", Version: strictjson.Count(parent)})
	if m.err != nil {
		return ""
	}
	got = m.put(ctx, "login.conf", parent, strings.Replace(*got.Content, from, to, 1))
	if m.err != nil {
		return ""
	}
	text := fmt.Sprintf("changes %q to %q in version %d", from, to, parent)
	switch {
	case got.Artifact.State == hub.MergeManual:
		return fmt.Sprintf("%s. That line has changed since: version %d is kept beside the newest, %d.", text, got.Version.Version, got.Artifact.Version)
	case got.Artifact.Version != got.Version.Version:
		return fmt.Sprintf("%s. The hub merges it with version %d into version %d.", text, got.Version.Version-1, got.Artifact.Version)
	}
	return fmt.Sprintf("%s: version %d.", text, got.Version.Version)
}

// steps are the actions of members, by the topic of the message that asks for one.
var steps = map[string]func(context.Context, *member) string{
	"research": func(ctx context.Context, m *member) string {
		m.put(ctx, "notes.md", 0, "A passkey is bound to one site.\nSource: the standard.\n")
		return "writes notes.md."
	},
	"draft": func(ctx context.Context, m *member) string {
		m.move(ctx, hub.TaskInProgress, "")
		_, notes := m.read(ctx, "notes.md")
		version, _ := m.read(ctx, "draft.md")
		text, said := strings.Replace(notes, "Source: the standard.\n", "", 1), "reads notes.md, writes draft.md and submits T-1."
		if version > 0 {
			text, said = notes, "writes version 2 with its source and submits T-1 again."
		}
		m.put(ctx, "draft.md", version, text)
		m.move(ctx, hub.TaskInReview, "")
		return said
	},
	"review": func(ctx context.Context, m *member) string {
		if _, text := m.read(ctx, "draft.md"); !strings.Contains(text, "Source:") {
			m.move(ctx, hub.TaskRework, "it names no source")
			return "reads the draft and asks for more: it names no source."
		}
		m.move(ctx, hub.TaskDone, "")
		return "reads the draft. T-1 is done."
	},
	"hypothesis": func(ctx context.Context, m *member) string {
		finding := map[hub.AgentID]string{"dan": "The database is slow: refuted.", "ben": "The clock is wrong: confirmed.", "cleo": "The certificate has expired: refuted."}[m.name]
		m.put(ctx, "hypotheses/"+string(m.name)+".md", 0, finding+"\n")
		return "finds: " + finding
	},
	"keys":  func(ctx context.Context, m *member) string { return m.change(ctx, 1, "keys = 1", "keys = 2") },
	"limit": func(ctx context.Context, m *member) string { return m.change(ctx, 1, "limit = 5", "limit = 3") },
	"sessions": func(ctx context.Context, m *member) string {
		return m.change(ctx, 4, "sessions = 30", map[hub.AgentID]string{"dan": "sessions = 7", "ben": "sessions = 14"}[m.name])
	},
	"merge": func(ctx context.Context, m *member) string {
		version, text := m.read(ctx, "login.conf")
		merged := strings.Replace(text, "sessions = 7", "sessions = 10", 1)
		if got := m.team(ctx, api.TeamParams{Action: "merge", Artifact: "login.conf", Content: &merged, Note: "between both"}); m.err == nil && got.Artifact.State != hub.MergeResolved {
			m.err = errors.New("the conflict is open")
		}
		return fmt.Sprintf("merges versions %d and %d: sessions = 10. No version was overwritten.", version, version+1)
	},
}
