package keeper_test

import (
	"context"
	"log/slog"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/engine/bus"
	"github.com/parley-agents/parley/internal/reach/wake"
	"github.com/parley-agents/parley/internal/service/keys"
	"github.com/parley-agents/parley/internal/testing/storetest"
	"github.com/parley-agents/parley/internal/work/keeper"
	"github.com/parley-agents/parley/protocol/sandbox"
)

var operator = hub.Caller{Kind: hub.CallerOperator, ID: hub.Operator, Role: hub.RoleCoordinator, Auditor: true}

// A crew is a hub with the agents ada and ben, whose keeper does not run: it keeps definitions alone.
type crew struct {
	*testing.T
	now   time.Time
	store storetest.Store
	wakes *wake.Machine
	busy  map[hub.AgentID]bool // agents with a task
	keeper.Successors
}

func newCrew(t *testing.T) *crew {
	t.Helper()
	c := &crew{T: t, now: time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC), busy: map[hub.AgentID]bool{}}
	c.store = storetest.Open(t, t.TempDir())
	clock := func() time.Time { return c.now }
	who := keys.New(c.store, &keys.Options{Clock: clock})
	_, err := who.EnsureOperator(t.Context(), "")
	c.must(err)
	for _, name := range []hub.AgentID{"ada", "ben"} {
		_, _, _, err := who.AddAgent(t.Context(), operator, hub.Agent{ID: name, Role: hub.RoleExecutor}, keys.NewKey{})
		c.must(err)
	}
	c.wakes, err = wake.New(c.store, nil, wake.Options{Clock: clock, Bus: new(bus.Local), Log: slog.New(slog.DiscardHandler)})
	c.must(err)
	k := keeper.New(c.store, c.wakes, who, keeper.Options{
		Home: t.TempDir(), Clock: clock, Bus: new(bus.Local), Log: slog.New(slog.DiscardHandler), Blocked: func(context.Context, hub.AgentID) string { return "its budget is spent" },
		OpenTasks: func(_ context.Context, agent hub.AgentID) bool { return c.busy[agent] },
		VendorOf: func(model string) string {
			return map[string]string{"claude-sonnet": "anthropic", "gpt-5": "openai"}[model]
		},
	})
	c.Successors = k.Successors(c.wakes)
	return c
}

func (c *crew) must(err error) {
	c.Helper()
	if err != nil {
		c.Fatal(err)
	}
}

// keep keeps an agent with the program of a CLI, and returns its folder.
func (c *crew) keep(name hub.AgentID, cli string, change ...func(*keeper.Definition)) string {
	c.Helper()
	folder, err := filepath.EvalSymlinks(c.TempDir())
	c.must(err)
	d := keeper.Definition{Agent: name, CLI: cli, Command: []string{"/bin/false"}, Dir: folder, Policy: sandbox.PolicyRead}
	for _, do := range change {
		do(&d)
	}
	_, err = c.Keep(c.Context(), operator, d, hub.Agent{Role: hub.RoleExecutor}, false)
	c.must(err)
	return folder
}

// open reports a session of an agent in a terminal.
func (c *crew) open(name hub.AgentID, cli, id string, event wake.Event) {
	c.Helper()
	c.now = c.now.Add(time.Second)
	_, err := c.wakes.Report(c.Context(), hub.Caller{Kind: hub.CallerAgent, ID: name}, wake.Report{Key: wake.Key{CLI: cli, ID: id}, Event: event})
	c.must(err)
}

// closed asks whether all sessions of an agent in terminals ended.
func (c *crew) closed(name hub.AgentID) (at hub.Time, closed bool) {
	c.Helper()
	c.must(c.store.View(c.Context(), func(r hub.Reader) (err error) {
		at, closed, err = c.Closed(r, name)
		return err
	}))
	return at, closed
}

func TestKept(t *testing.T) {
	t.Run("an agent that the hub runs has a folder, a CLI, successors and a line to log in", func(t *testing.T) {
		c := newCrew(t)
		folder := c.keep("ada", "claude", func(d *keeper.Definition) {
			d.Or = []keeper.Successor{{Name: "codex", Command: []string{"/bin/false"}}, {Name: keeper.Self}}
		})
		got, ok, err := c.Successors.Kept(t.Context(), "ada")
		if err != nil || !ok || got.Folder != folder || got.CLI != "claude" || !slices.Equal(got.Or, []string{"codex", "self"}) || got.LogIn == "" || got.Rests {
			t.Errorf("got %+v, %v, %v", got, ok, err)
		}
	})
	t.Run("an agent in a terminal has the line of the CLI of its last session", func(t *testing.T) {
		c := newCrew(t)
		got, ok, err := c.Successors.Kept(t.Context(), "ben")
		if err != nil || ok || got.LogIn != "" || got.Folder != "" {
			t.Errorf("before a session: got %+v, %v, %v", got, ok, err)
		}
		c.open("ben", "codex", "s1", wake.EventStart)
		c.open("ben", "claude", "s2", wake.EventStart)
		after, ok, err := c.Successors.Kept(t.Context(), "ben")
		if err != nil || ok || after.LogIn == "" {
			t.Fatalf("got %+v, %v, %v", after, ok, err)
		}
		c.keep("ada", "claude")
		if kept, _, _ := c.Successors.Kept(t.Context(), "ada"); after.LogIn != kept.LogIn {
			t.Errorf("got %q, want that of claude, %q", after.LogIn, kept.LogIn)
		}
	})
}

func TestOff(t *testing.T) {
	c := newCrew(t)
	c.keep("ada", "claude")
	if got := c.Off(t.Context(), "ada") + c.Off(t.Context(), "ben") + c.Off(t.Context(), "ghost"); got != "" {
		t.Errorf("got %q", got)
	}
	if got := c.Blocked(t.Context(), "ada"); got != "its budget is spent" {
		t.Errorf("got %q", got)
	}
	c.must(c.Stop(t.Context(), operator, "ada", false))
	if got := c.Off(t.Context(), "ada"); got != "ada is stopped" {
		t.Errorf("a stopped agent: got %q", got)
	}
	c.must(c.store.Update(t.Context(), hub.SurvivesKill, func(tx hub.Tx) error {
		a, err := tx.Agent("ben")
		if err != nil {
			return err
		}
		was := a.State
		a.State = hub.AgentPaused
		return tx.PutAgent(a, was)
	}))
	if got := c.Off(t.Context(), "ben"); got != "ben is paused" {
		t.Errorf("a paused agent: got %q", got)
	}
}

func TestSessionsInTerminals(t *testing.T) {
	c := newCrew(t)
	if _, closed := c.closed("ben"); closed {
		t.Error("an agent without sessions was closed")
	}
	c.open("ben", "claude", "s1", wake.EventStart)
	c.open("ben", "claude", "s2", wake.EventStart)
	c.open("ben", "claude", "s2", wake.EventPrompt)
	if !c.Working(t.Context(), "ben") || c.Working(t.Context(), "ada") {
		t.Errorf("working: ben %v, ada %v", c.Working(t.Context(), "ben"), c.Working(t.Context(), "ada"))
	}
	works := func() (works bool) {
		c.must(c.store.View(t.Context(), func(r hub.Reader) (err error) {
			works, err = c.Works(r, "ben")
			return err
		}))
		return works
	}
	c.open("ben", "claude", "s2", wake.EventEnd)
	if _, closed := c.closed("ben"); closed || !works() {
		t.Error("one of two sessions ended, and the agent is said to be closed")
	}
	c.open("ben", "claude", "s1", wake.EventEnd)
	if at, closed := c.closed("ben"); !closed || !at.Equal(c.now) || works() {
		t.Errorf("got %s, %v, %v, want the end at %s", at, closed, works(), c.now)
	}
}

func TestVendor(t *testing.T) {
	vendor := func(c *crew, name hub.AgentID) hub.AgentVendors {
		c.Helper()
		got, err := c.Vendor(c.Context(), name)
		c.must(err)
		return got
	}
	t.Run("a kept agent has the vendor of its CLI, and is awake until it is stopped", func(t *testing.T) {
		c := newCrew(t)
		c.keep("ada", "claude")
		got := vendor(c, "ada")
		if len(got.Names) != 1 || !got.Awake {
			t.Errorf("got %+v", got)
		}
		c.must(c.Stop(t.Context(), operator, "ada", false))
		if after := vendor(c, "ada"); after.Awake || !slices.Equal(after.Names, got.Names) {
			t.Errorf("stopped: got %+v", after)
		}
	})
	t.Run("an agent in terminals has the vendors of all of its sessions", func(t *testing.T) {
		c := newCrew(t)
		c.open("ben", "claude", "s1", wake.EventStart)
		c.open("ben", "codex", "s2", wake.EventStart)
		if got := vendor(c, "ben"); len(got.Names) != 2 || !got.Awake {
			t.Errorf("got %+v", got)
		}
	})
	t.Run("a program of many vendors has those of the models that it used, and none if one is unknown", func(t *testing.T) {
		c := newCrew(t)
		use := func(id, model string) {
			c.must(c.store.Update(t.Context(), hub.SurvivesKill, func(tx hub.Tx) error {
				last, err := tx.Usage().LastRecord()
				if err != nil {
					return err
				}
				_, err = tx.WriteUsage().Add(hub.Usage{ModelCall: hub.ModelCall{ID: id, Model: model, At: hub.At(c.now), Tokens: hub.Tokens{Input: 1}}, Record: last + 1, Source: hub.UsageACP, Agent: "ada", CLI: "acp", Known: true})
				return err
			}))
		}
		c.keep("ada", "")
		if got := vendor(c, "ada"); len(got.Names) != 0 {
			t.Errorf("without calls: got %+v", got)
		}
		use("a", "gpt-5")
		use("b", "claude-sonnet")
		if got := vendor(c, "ada"); !slices.Equal(got.Names, []string{"anthropic", "openai"}) {
			t.Errorf("got %+v", got)
		}
		use("c", "home-made")
		if got := vendor(c, "ada"); len(got.Names) != 0 || !got.Awake {
			t.Errorf("an unknown model: got %+v", got)
		}
	})
	t.Run("the operator and the hub have none", func(t *testing.T) {
		c := newCrew(t)
		for _, name := range []hub.AgentID{hub.Operator, hub.Self} {
			if got := vendor(c, name); len(got.Names) != 0 || got.Awake {
				t.Errorf("%s: got %+v", name, got)
			}
		}
	})
}

func TestRunsIn(t *testing.T) {
	c := newCrew(t)
	folder := c.keep("ada", "claude")
	for dir, want := range map[string]bool{folder: true, filepath.Dir(folder): false, folder + "-other": false, filepath.Join(folder, "gone"): false, t.TempDir(): false} {
		if got := c.RunsIn(t.Context(), dir); got != want {
			t.Errorf("%s: got %v", dir, got)
		}
	}
}

func TestStandIns(t *testing.T) {
	c := newCrew(t)
	folder := c.keep("ada", "claude", func(d *keeper.Definition) {
		d.Or = []keeper.Successor{{Name: "codex", Command: []string{"/bin/false"}}}
	})
	name, err := c.StandInName(t.Context(), "ada", "codex")
	c.must(err)
	c.must(c.Successors.StandIn(t.Context(), "ada", hub.AgentProgram{CLI: "codex", Folder: folder}))
	got, ok, err := c.Successors.Kept(t.Context(), name)
	if err != nil || !ok || got.Folder != folder || got.CLI != "codex" {
		t.Errorf("%s: got %+v, %v, %v", name, got, ok, err)
	}
	c.busy[name] = true
	c.must(c.Successors.Dismiss(t.Context(), name))
	if got := c.Off(t.Context(), name); got != "" {
		t.Errorf("a stand-in with a task: got %q", got)
	}
	c.busy[name] = false
	c.must(c.Successors.Dismiss(t.Context(), name))
	if got := c.Off(t.Context(), name); got == "" {
		t.Error("a stand-in without a task goes on")
	}
}
