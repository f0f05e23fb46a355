package demo

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/ground/git"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/operation/rpc"
	"github.com/parley-agents/parley/server"
)

// Home is the folder of the hub in the folder of a Task demo.
const Home = "home"

// Task shows two agents on one hub: they exchange messages, one hands a task to
// the other, a false "done" is refused, a true one is proven.
func Task(ctx context.Context, dir, version string, tell func(actor, text string)) error {
	d := &taskDemo{script: script{dir: dir, version: version, print: tell}, repo: filepath.Join(dir, "app")}
	return d.run(ctx, d.join, d.talk, d.handOver, d.cheat, d.work, d.check)
}

type taskDemo struct {
	script
	repo                       string // the git repository of the task
	operator, planner, builder *rpc.Client
}

func (d *taskDemo) join(ctx context.Context) {
	d.try(func() error { return os.Mkdir(d.repo, 0o700) })
	d.operator = d.node(ctx, Home, server.Options{Roots: []string{d.repo}}).client
	d.tell("", "A hub starts on this machine. Two agents get a key each.")
	d.planner = d.add(ctx, "planner", hub.RoleCoordinator)
	d.builder = d.add(ctx, "builder", hub.RoleExecutor)
}

// add adds an agent and returns a client that calls as it.
func (d *taskDemo) add(ctx context.Context, name hub.AgentID, role hub.Role) *rpc.Client {
	got := call(ctx, &d.script, d.operator, api.AddAgent, api.AgentParams{ID: name, Role: role})
	if d.err != nil {
		return nil
	}
	return d.operator.As(got.Key, string(name)+"-session")
}

func (d *taskDemo) talk(ctx context.Context) {
	const question, answer = "Can avatar be null in the new schema?", "Yes. Old users have none."
	sent := call(ctx, &d.script, d.planner, api.Send, api.SendParams{To: api.Recipients{"builder"}, Type: hub.TypeKnowledgeQuery, Text: question})
	d.tell("planner", "asks builder: %s", question)
	mail := call(ctx, &d.script, d.builder, api.Inbox, api.InboxParams{})
	if len(mail.Messages) != 1 || mail.Messages[0].ID != sent.ID {
		d.failf("the question did not arrive: %v", mail.Messages)
	}
	call(ctx, &d.script, d.builder, api.Respond, api.SendParams{ReplyTo: sent.ID, Text: answer})
	d.tell("builder", "answers: %s", answer)
	call(ctx, &d.script, d.planner, api.Inbox, api.InboxParams{Ack: api.AckSet{All: true}})
}

// handoff performs an action on a handoff.
func (d *taskDemo) handoff(ctx context.Context, c *rpc.Client, p api.HandoffParams) api.HandoffAnswer {
	return call(ctx, &d.script, c, api.Handoff, p)
}

// propose offers the task to builder, with a file and a repository as proof.
func (d *taskDemo) propose(ctx context.Context) {
	d.git(ctx, "init", "-q", "-b", "main")
	refs := d.commit(ctx, "schema", "CREATE TABLE users (id INTEGER, avatar TEXT NOT NULL);\n")
	d.handoff(ctx, d.planner, api.HandoffParams{
		Action: "initiate", To: "builder", TaskID: "T-1", Title: "Make avatar nullable", Summary: "The schema is frozen but for this.",
		NextStep: "drop NOT NULL from users.avatar", Criteria: []string{"old users load"}, Artifacts: refs, Worktree: d.repo, Branch: "main",
	})
	d.tell("planner", `hands over T-1, "Make avatar nullable": a summary, the next step, a criterion, a file with its hash, a repository`)
}

// handOver gives the task to builder.
func (d *taskDemo) handOver(ctx context.Context) {
	d.propose(ctx)
	got := d.handoff(ctx, d.builder, api.HandoffParams{Action: "accept", ID: d.task(ctx, hub.HandoffProposed)})
	if d.err != nil {
		return
	}
	if got.Report.Status != hub.HandoffActivated {
		d.failf("the handoff is %s: %s", got.Report.Status, got.Report.Notes)
	}
	d.tell("builder", "accepts. Before builder becomes the owner, the hub checks for itself:")
	for _, c := range got.Report.Claims { // the name of the folder differs each time
		d.tell("", "           %-8s  %s", c.Result, strings.ReplaceAll(c.What, d.dir+string(filepath.Separator), ""))
	}
}

// task returns builder's handoff in a state.
func (d *taskDemo) task(ctx context.Context, state hub.HandoffState) hub.HandoffID {
	got := d.handoff(ctx, d.builder, api.HandoffParams{Action: "list", Mine: true, State: state})
	if d.err != nil {
		return ""
	}
	if n := len(got.Listing.Handoffs); n != 1 {
		d.failf("builder has %d handoffs that are %s, not one", n, state)
		return ""
	}
	return got.Listing.Handoffs[0].ID
}

// cheat reports the task as done before any work.
func (d *taskDemo) cheat(ctx context.Context) {
	id := d.task(ctx, hub.HandoffActivated)
	d.tell("builder", "says: DONE. It has not edited anything.")
	d.try(func() error {
		_, err := rpc.Call(ctx, d.builder, api.Handoff, api.HandoffParams{Action: "complete", ID: id, Summary: "DONE"})
		if hub.CodeOf(err) == hub.CodeUnproven {
			return nil
		}
		return fmt.Errorf("done without work was not refused: %v", err)
	})
	d.tell("", "           refused   %s: nothing has changed since the task was accepted", hub.CodeUnproven)
}

func (d *taskDemo) work(ctx context.Context) {
	refs := d.commit(ctx, "avatar may be null", "CREATE TABLE users (id INTEGER, avatar TEXT);\n")
	got := d.handoff(ctx, d.builder, api.HandoffParams{Action: "complete", ID: d.task(ctx, hub.HandoffActivated), Summary: "avatar may be null", Artifacts: refs})
	if d.err == nil {
		d.tell("builder", "edits schema.sql, commits, and says done again. It is %s, with proof.", got.Report.Ending)
	}
}

// commit writes schema.sql, commits it and returns the reference to it.
func (d *taskDemo) commit(ctx context.Context, message, schema string) []hub.ArtifactRef {
	path := filepath.Join(d.repo, "schema.sql")
	size := int64(len(schema))
	sum := sha256.Sum256([]byte(schema))
	d.try(func() error { return os.WriteFile(path, []byte(schema), 0o600) })
	d.git(ctx, "add", "-A")
	d.git(ctx, "-c", "user.name=demo", "-c", "user.email=demo@example.com", "-c", "commit.gpgsign=false", "commit", "-q", "-m", message)
	return []hub.ArtifactRef{{Type: "file", Path: path, SHA256: hex.EncodeToString(sum[:]), SizeBytes: &size}}
}

// git runs git in the demo's repository, without the settings of the user.
func (d *taskDemo) git(ctx context.Context, args ...string) {
	d.try(func() error {
		if out, err := git.Alone(ctx, "git", d.repo, args...).CombinedOutput(); err != nil {
			return hub.Errorf(hub.CodeDegraded, "demo", "git %s: %v: %s", args[0], err, out).WithHint("install git and put it on the PATH")
		}
		return nil
	})
}

// check lets the hub compare its records with the journal.
func (d *taskDemo) check(ctx context.Context) {
	got := call(ctx, &d.script, d.operator, api.Verify, api.VerifyParams{})
	if !got.Clean() {
		d.failf("the records are inconsistent: %v", got.Findings)
	}
	d.tell("", "Everything is in a journal that cannot be changed unnoticed: %d entries, %d messages, %d handoff, all checked.", got.Entries, got.Messages, got.Handoffs)
}
