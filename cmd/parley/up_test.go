package main

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/parley-agents/parley/internal/desk/up"
)

func TestUp(t *testing.T) {
	h := newHouse(t)
	dir := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, up.Name)
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("agents:\n  helper: {command: ['" + self + "'], role: reviewer}\nteams:\n  auth: {goal: log in, members: {helper: reviewer, planner: coordinator}}\n")
	actions := func(t *testing.T, args ...string) (out string, applied bool) {
		t.Helper()
		var got struct {
			Steps   []struct{ Action string }
			Applied bool
		}
		h.ok(h.operator(append(args, file, "--json")...), &got)
		for _, s := range got.Steps {
			out += s.Action + " "
		}
		return out, got.Applied
	}

	t.Run("--dry-run shows the plan and changes nothing", func(t *testing.T) {
		for range 2 {
			if got, applied := actions(t, "up", "--dry-run"); got != "keep create " || applied {
				t.Errorf("got %s, applied %t", got, applied)
			}
		}
	})
	t.Run("no plan is carried out without a yes, no command without its own", func(t *testing.T) {
		refused(t, h.operator("up", file, "--json"), exitUsage, "usage")
		refused(t, h.operator("up", file, "--yes", "--json"), exitRefused, "forbidden")
	})
	t.Run("agents are kept, and a second call changes nothing", func(t *testing.T) {
		if got, applied := actions(t, "up", "--yes", "--allow-commands"); got != "keep create " || !applied {
			t.Errorf("got %s, applied %t", got, applied)
		}
		contains(t, h.operator("agent", "list", "--kept").out, "helper")
		if got, _ := actions(t, "up", "--yes"); got != "none none " {
			t.Errorf("got %s, want nothing to do", got)
		}
	})
	t.Run("down stops the agents, up restarts them, and --forget lets them go", func(t *testing.T) {
		for _, step := range []struct {
			args []string
			want string
		}{
			{[]string{"down"}, "stop "}, {[]string{"down"}, "none "}, {[]string{"up", "--yes"}, "restart none "}, {[]string{"down", "--forget"}, "forget "}, {[]string{"down"}, "none "},
		} {
			if got, _ := actions(t, step.args...); got != step.want {
				t.Errorf("%v: %s, want %s", step.args, got, step.want)
			}
		}
	})
	t.Run("version 2 of the protocol is offered by a line of the file and by a flag", func(t *testing.T) {
		offers := func() (names []string) {
			t.Helper()
			var got struct {
				Agents []struct {
					Agent string
					V2    bool
				}
			}
			h.ok(h.operator("agent", "list", "--kept", "--json"), &got)
			for _, k := range got.Agents {
				if k.V2 {
					names = append(names, k.Agent)
				}
			}
			return names
		}
		write("agents:\n  helper: {command: ['" + self + "'], role: reviewer}\n")
		actions(t, "up", "--yes", "--allow-commands")
		if got := offers(); len(got) != 0 {
			t.Errorf("without a word version 2 is offered to %v", got)
		}
		write("agents:\n  helper: {command: ['" + self + "'], role: reviewer, v2: true}\n")
		if got, _ := actions(t, "up", "--yes", "--allow-commands"); got != "change " {
			t.Errorf("got %s, want a change", got)
		}
		h.ok(h.as("", "agent", "keep", "planner", "--as-operator", "--dir", t.TempDir(), "--v2", "--", self), nil)
		if got := offers(); !slices.Equal(got, []string{"helper", "planner"}) {
			t.Errorf("version 2 is offered to %v", got)
		}
	})
	t.Run("a member of a team whom nobody knows is refused", func(t *testing.T) {
		write("agents:\n  helper: {command: ['" + self + "']}\nteams:\n  web: {goal: a page, members: {stranger: executor}}\n")
		refused(t, h.operator("up", file, "--yes", "--allow-commands", "--json"), exitMissing, "unknown_recipient")
	})
	t.Run("an example is written once", func(t *testing.T) {
		example := filepath.Join(dir, "example.yaml")
		h.contains(h.operator("up", "--example", example), "wrote "+example)
		refused(t, h.operator("up", "--example", example, "--json"), exitMissing, "conflict")
	})
}
