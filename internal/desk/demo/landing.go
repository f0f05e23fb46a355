package demo

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/operation/rpc"
	"github.com/parley-agents/parley/server"
)

// Landing shows three agents whose branches land in main through a queue: one conflicts, one is a
// lie, and two pass alone and break together. Main passes its check after every landing.
func Landing(ctx context.Context, dir, version string, tell func(actor, text string)) error {
	d := &landingDemo{
		taskDemo: taskDemo{script: script{dir: dir, version: version, print: tell}, repo: filepath.Join(dir, "app")},
		agents:   map[string]*rpc.Client{}, entries: map[string]hub.LandingID{}, notices: map[hub.LandingID]landingNotice{},
	}
	return d.run(ctx, d.begin, d.work, d.land, d.repair, d.resolve, d.compare)
}

type landingDemo struct {
	taskDemo
	agents  map[string]*rpc.Client
	entries map[string]hub.LandingID        // by branch
	notices map[hub.LandingID]landingNotice // that agents got, and that were not told yet
}

// A landingNotice is the message to the owner of an entry that landed or came back.
type landingNotice struct {
	Landing hub.LandingID `json:"landing"`
	Landed  string        `json:"landed_commit"` // "" if it came back
	Reason  string        `json:"reason"`
	Output  string        `json:"output"` // the end of the output of the check that failed
	Next    string        `json:"next_step"`
}

// memoryCheck is the operator's check: the features of the app may use 10 MB together.
const memoryCheck = `cat memory/* | awk '{ s += $1 } END { print s " MB of 10 MB"; exit s > 10 }'`

// A demoBranch is the work of an agent in the demo: a branch with one changed file.
type demoBranch struct {
	agent, name, file, text, says string
}

var demoBranches = []demoBranch{
	{"ada", "login", "memory/login", "6\n", "it uses 6 MB"},
	{"ben", "search", "memory/search", "6\n", "it uses 6 MB. Each of the two passes; together they are too much"},
	{"cleo", "speed", "memory/speed", "99\n", `"tested, all green". It uses 99 MB`},
	{"ada", "title", "title.txt", "Ada's app\n", "it changes title.txt"},
	{"ben", "name", "title.txt", "Ben's app\n", "it changes the same line of title.txt"},
}

// begin makes the repository with a check and a landing policy.
func (d *landingDemo) begin(ctx context.Context) {
	d.try(func() error { return os.MkdirAll(filepath.Join(d.repo, "memory"), 0o700) })
	d.git(ctx, "init", "-q", "-b", "main")
	d.write("title.txt", "The app\n")
	d.write("memory/base", "2\n")
	d.save(ctx, "demo", "begin")
	d.operator = d.node(ctx, Home, server.Options{Roots: []string{d.repo}}).client
	call(ctx, &d.script, d.operator, api.AddCheck, api.AddCheckParams{
		RepositoryParams: api.RepositoryParams{Repository: d.repo}, Name: "memory", Command: []string{"sh", "-c", memoryCheck}, Unconfined: true,
	})
	call(ctx, &d.script, d.operator, api.SetLanding, api.LandingParams{Repo: d.repo, Into: "main", Checks: []string{"memory"}, Review: hub.ReviewerNone, By: hub.LandingAuto})
	d.tell("", "A hub starts beside the repository of an app that uses 2 MB. You allow one check, memory, which fails above 10 MB,")
	d.tell("", "and let changes land when it passes: parley land policy set --into main --check memory --no-review --by auto")
	for _, name := range []string{"ada", "ben", "cleo"} {
		d.agents[name] = d.add(ctx, hub.AgentID(name), hub.RoleExecutor)
	}
}

// write writes a file of the repository.
func (d *landingDemo) write(name, text string) {
	d.try(func() error { return os.WriteFile(filepath.Join(d.repo, name), []byte(text), 0o600) })
}

// save commits all files.
func (d *landingDemo) save(ctx context.Context, author, message string) {
	d.git(ctx, "add", "-A")
	d.git(ctx, "-c", "user.name="+author, "-c", "user.email="+author+"@example.com", "-c", "commit.gpgsign=false", "commit", "-q", "-m", message)
}

// work lets the agents commit on branches from the same main.
func (d *landingDemo) work(ctx context.Context) {
	d.tell("", "Three agents have branches of the same main, and each says that its work is done:")
	for _, b := range demoBranches {
		d.git(ctx, "switch", "-q", "-c", b.name, "main")
		d.write(b.file, b.text)
		d.save(ctx, b.agent, b.name)
		d.tell(b.agent, "lands %s: %s", b.name, b.says)
	}
	d.git(ctx, "switch", "-q", "main")
}

// land queues the branches and tells their outcomes.
func (d *landingDemo) land(ctx context.Context) {
	for _, b := range demoBranches {
		d.enter(ctx, b.agent, b.name)
	}
	d.tell("", "The hub merges them onto main in a copy of its own, runs the check on the result, and moves main only if it passes:")
	for _, b := range demoBranches {
		hasLanded := b.name == "login" || b.name == "title"
		d.outcome(ctx, b.agent, b.name, hasLanded)
	}
}

// enter queues the branch of an agent.
func (d *landingDemo) enter(ctx context.Context, agent, branch string) {
	got := call(ctx, &d.script, d.agents[agent], api.Land, api.LandParams{Ref: branch, Repo: d.repo})
	if d.err == nil {
		d.entries[branch] = got.Entries[0].ID
	}
}

// outcome waits for the message about a branch, tells it, and returns it.
func (d *landingDemo) outcome(ctx context.Context, agent, branch string, wantLanded bool) landingNotice {
	got := d.receive(ctx, agent, d.entries[branch])
	if d.err != nil {
		return got
	}
	if hasLanded := got.Landed != ""; hasLanded != wantLanded {
		d.failf("%s of %s: landed is %t, want %t: %s %s", branch, agent, hasLanded, wantLanded, got.Reason, got.Output)
		return got
	}
	if got.Landed != "" {
		d.tell("", "           landed    %s", branch)
		return got
	}
	text := got.Reason // the owner also gets the next step, and the texts of a conflict
	if got.Output != "" {
		text += ": " + strings.TrimSpace(got.Output)
	}
	d.tell("", "           returned  %s: %s", branch, text)
	return got
}

// receive waits for the message about an entry in the inbox of its owner.
func (d *landingDemo) receive(ctx context.Context, agent string, id hub.LandingID) landingNotice {
	for rounds := 0; d.err == nil; rounds++ {
		if got, ok := d.notices[id]; ok {
			delete(d.notices, id)
			return got
		}
		if rounds > 10 {
			d.failf("%s got no message about %s", agent, id)
		}
		mail := call(ctx, &d.script, d.agents[agent], api.Inbox, api.InboxParams{WaitS: 10, Ack: api.AckSet{All: true}})
		for _, m := range mail.Messages {
			var n landingNotice
			d.try(func() error { return json.Unmarshal(m.Payload, &n) })
			d.notices[n.Landing] = n
		}
	}
	return landingNotice{}
}

// repair lets ben make the pair fit together.
func (d *landingDemo) repair(ctx context.Context) {
	d.git(ctx, "switch", "-q", "search")
	d.write("memory/search", "2\n")
	d.save(ctx, "ben", "search with less memory")
	d.git(ctx, "switch", "-q", "main")
	d.tell("ben", "reads why, and what to do next. It makes search use 2 MB, commits, and lands it again:")
	d.enter(ctx, "ben", "search")
	d.outcome(ctx, "ben", "search", true)
}

// resolve lets ben resolve the conflict.
func (d *landingDemo) resolve(ctx context.Context) {
	d.git(ctx, "switch", "-q", "name")
	d.git(ctx, "-c", "user.name=ben", "-c", "user.email=ben@example.com", "merge", "-q", "-s", "ours", "-m", "merge main", "main")
	d.git(ctx, "checkout", "-q", "main", "--", "memory")
	d.write("title.txt", "The app of Ada and Ben\n")
	d.save(ctx, "ben", "one title for both")
	d.git(ctx, "switch", "-q", "main")
	d.tell("ben", "got the three texts of title.txt. It merges main into name, and lands it again:")
	d.enter(ctx, "ben", "name")
	d.outcome(ctx, "ben", "name", true)
}

// compare runs the check on every commit that the queue moved main to.
func (d *landingDemo) compare(ctx context.Context) {
	got := call(ctx, &d.script, d.operator, api.ListLandings, api.LandingsParams{Repo: d.repo})
	heads := []string{"main"}
	for _, e := range got.Entries {
		if e.State == hub.EntryLanded {
			heads = append(heads, e.Head)
		}
	}
	last := ""
	for _, head := range heads {
		one := api.CheckParams{RepositoryParams: api.RepositoryParams{Repository: d.repo}, Name: "memory"}
		checked := call(ctx, &d.script, d.operator, api.RunCheck, api.RunCheckParams{CheckParams: one, Commit: head})
		if d.err == nil && checked.Result.State != hub.ResultPassed {
			d.failf("main fails its check at %s: %s", head, checked.Result.Output.Tail)
		}
		if last == "" {
			last = strings.TrimSpace(checked.Result.Output.Tail)
		}
	}
	d.try(func() error {
		_, err := os.Stat(filepath.Join(d.repo, "memory", "login")) // the checked-out files moved with main
		return err
	})
	d.tell("", "Main is green: %s, and it was green after every landing. The branch of cleo is not in it.", last)
}
