package demo

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/surface/api"
	"github.com/parley-agents/parley/internal/surface/rpc"
	"github.com/parley-agents/parley/server"
)

// Landing shows three agents whose branches land in main through a queue: one conflicts, one is a
// lie, and two pass alone and break together. Main passes its check after every landing.
func Landing(ctx context.Context, dir, version string, tell func(actor, text string)) error {
	d := &landingDemo{taskDemo: taskDemo{script: script{dir: dir, version: version, print: tell}, repo: filepath.Join(dir, "app")}, agents: map[string]*rpc.Client{}}
	return d.run(ctx, d.begin, d.queue, d.watch, d.repair, d.check)
}

type landingDemo struct {
	taskDemo
	agents map[string]*rpc.Client
	told   map[hub.LandingID]hub.LandingState
}

// memoryCheck is the operator's check: the features together may use 10 MB.
const memoryCheck = `cat memory/* | awk '{ s += $1 } END { print "memory: " s " MB of 10"; exit s > 10 }'`

// A piece of work of an agent in the demo: a branch with one changed file.
type demoBranch struct {
	agent, name, file, text, says string
}

var demoBranches = []demoBranch{
	{"ada", "login", "memory/login", "6\n", "login, 6 MB"},
	{"ben", "search", "memory/search", "6\n", "search, 6 MB; with 2 MB of main it fits, too"},
	{"cleo", "fast", "memory/fast", "99\n", `"it is fast, and all tests pass"`},
	{"ada", "title", "title.txt", "The app of ada\n", "a new title"},
	{"ben", "name", "title.txt", "The app of ben\n", "another title, on the same line"},
}

// begin makes the repository with a check and a landing policy.
func (d *landingDemo) begin(ctx context.Context) {
	d.told = map[hub.LandingID]hub.LandingState{}
	d.try(func() error { return os.MkdirAll(filepath.Join(d.repo, "memory"), 0o700) })
	d.operator = d.node(ctx, Home, server.Options{Roots: []string{d.repo}}).client
	d.git(ctx, "init", "-q", "-b", "main")
	d.write("title.txt", "The app\n")
	d.write("memory/base", "2\n")
	d.save(ctx, "demo", "begin")
	call(ctx, &d.script, d.operator, api.AddCheck, api.AddCheckParams{
		RepositoryParams: api.RepositoryParams{Repository: d.repo}, Name: "memory", Command: []string{"sh", "-c", memoryCheck}, Unconfined: true,
	})
	call(ctx, &d.script, d.operator, api.SetLanding, api.LandingParams{Repo: d.repo, Into: "main", Checks: []string{"memory"}, By: hub.LandingAuto})
	d.tell("", "A hub starts. You allow one check, and let changes land in main when it passes: parley landing set --into main --check memory --by auto")
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

// queue lets the agents commit on branches from the same main, and land them.
func (d *landingDemo) queue(ctx context.Context) {
	for _, b := range demoBranches {
		d.git(ctx, "switch", "-q", "-c", b.name, "main")
		d.write(b.file, b.text)
		d.save(ctx, b.agent, b.says)
		d.tell(b.agent, "lands the branch %s: %s", b.name, b.says)
	}
	d.git(ctx, "switch", "-q", "main")
	for _, b := range demoBranches {
		call(ctx, &d.script, d.agents[b.agent], api.Land, api.LandParams{Ref: b.name, Repo: d.repo})
	}
	d.tell("", "The queue merges them onto main in a copy of its own, runs the check on the result, and moves main only when it passes:")
}

// watch tells the outcome of each entry, until none is open.
func (d *landingDemo) watch(ctx context.Context) {
	for isOpen := true; isOpen && d.err == nil; {
		isOpen = false
		got := call(ctx, &d.script, d.operator, api.ListLandings, api.LandingsParams{Repo: d.repo})
		for i := len(got.Entries) - 1; i >= 0; i-- {
			e := got.Entries[i]
			isOpen = isOpen || e.State.Open()
			if e.State.Open() || d.told[e.ID] == e.State {
				continue
			}
			d.told[e.ID] = e.State
			text := fmt.Sprintf("           %-8s  %s of %s", e.State, e.Ref, e.Owner)
			if e.Reason != "" {
				text += ": " + e.Reason
			}
			d.tell("", "%s", text)
		}
		if isOpen { // a message to an agent tells that something has moved
			call(ctx, &d.script, d.agents["ben"], api.Inbox, api.InboxParams{WaitS: 1, NewOnly: true})
		}
	}
}

// repair lets the owner of the pair that broke commit again.
func (d *landingDemo) repair(ctx context.Context) {
	got := call(ctx, &d.script, d.operator, api.ListLandings, api.LandingsParams{Repo: d.repo, State: hub.EntryReturned})
	for _, e := range got.Entries {
		isPair := e.Ref == "search" || e.Ref == "login"
		if !isPair {
			continue
		}
		d.tell(string(e.Owner), "reads why %s came back, needs less memory now, and lands it again", e.Ref)
		d.git(ctx, "switch", "-q", e.Ref)
		d.write("memory/"+e.Ref, "2\n")
		d.save(ctx, string(e.Owner), "less memory")
		d.git(ctx, "switch", "-q", "main")
		call(ctx, &d.script, d.agents[string(e.Owner)], api.Land, api.LandParams{Ref: e.Ref, Repo: d.repo})
	}
	d.watch(ctx)
}

// check compares main with the story.
func (d *landingDemo) check(ctx context.Context) {
	got := call(ctx, &d.script, d.operator, api.ListLandings, api.LandingsParams{Repo: d.repo})
	states := map[hub.LandingState]int{}
	for _, e := range got.Entries {
		states[e.State]++
	}
	if d.err == nil && (states[hub.EntryLanded] != 3 || states[hub.EntryReturned] != 2) {
		d.failf("%d entries landed and %d came back, want 3 and 2", states[hub.EntryLanded], states[hub.EntryReturned])
	}
	checked := call(ctx, &d.script, d.operator, api.RunCheck, api.RunCheckParams{CheckParams: api.CheckParams{RepositoryParams: api.RepositoryParams{Repository: d.repo}, Name: "memory"}, Commit: "main"})
	if d.err != nil {
		return
	}
	if checked.Result.State != hub.ResultPassed {
		d.failf("main fails its check: %s", checked.Result.Output.Tail)
	}
	d.try(func() error {
		_, err := os.Stat(filepath.Join(d.repo, "memory", "login"))
		return err
	})
	d.tell("", "Main passes: %s. The files of the checked-out main came along, and its history has one merge for each change.", strings.TrimSpace(checked.Result.Output.Tail))
}
