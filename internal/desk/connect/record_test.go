package connect

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/desk/cli"
)

func TestRecords(t *testing.T) {
	home := t.TempDir()
	if got := Records(home); got != nil {
		t.Errorf("a home without records: %v", got)
	}
	all := []Record{
		{CLI: "claude", Agent: "planner", Scope: cli.ScopeUser, Name: "parley"},
		{CLI: "claude", Agent: "reviewer", Scope: cli.ScopeProject, Dir: "/work/app", Name: "parley"},
		{CLI: "codex", Agent: "builder", Scope: cli.ScopeProject, Dir: "/work/app", Name: "parley"},
	}
	if err := save(home, all); err != nil {
		t.Fatal(err)
	}
	if got := Records(home); len(got) != len(all) || got[1] != all[1] {
		t.Errorf("got %v, want %v", got, all)
	}

	t.Run("a connection of the folder counts before that of the user", func(t *testing.T) {
		for _, tt := range []struct {
			dir, cli string
			want     hub.AgentID
		}{
			{"/work/app", "claude", "reviewer"},
			{"/elsewhere", "Claude", "planner"},
			{"/work/app", "codex", "builder"},
			{"/elsewhere", "codex", ""},
		} {
			if got := AgentOf(home, tt.dir, tt.cli); got != tt.want {
				t.Errorf("%s in %s: %q, want %q", tt.cli, tt.dir, got, tt.want)
			}
		}
	})

	t.Run("a file that cannot be read holds no records", func(t *testing.T) {
		if err := os.WriteFile(filepath.Join(home, KeysDir, "connections.json"), []byte("[{"), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := Records(home); got != nil {
			t.Errorf("got %v", got)
		}
	})
}

func TestRecordLines(t *testing.T) {
	user := Record{CLI: "claude", Agent: "planner", Scope: cli.ScopeUser, Name: cli.DefaultName}
	project := Record{CLI: "codex", Agent: "builder", Scope: cli.ScopeProject, Dir: "/a b", Name: "other"}
	for _, tt := range []struct{ got, want string }{
		{user.ConnectLine("parley"), "parley connect claude --agent planner"},
		{user.UndoLine("parley"), "parley connect claude --agent planner --undo"},
		{project.UndoLine("parley --home /h"), "cd '/a b' && parley --home /h connect codex --agent builder --scope project --name other --undo"},
	} {
		if tt.got != tt.want {
			t.Errorf("got %s, want %s", tt.got, tt.want)
		}
	}
}

func TestRecordOfConnection(t *testing.T) {
	known, err := cli.Lookup("claude")
	if err != nil {
		t.Fatal(err)
	}
	c := Connection{CLI: known, Agent: "planner", Place: cli.Place{Scope: cli.ScopeUser, Dir: "/work/app"}, Home: "/h"}
	r := c.Record()
	if r.Name != cli.DefaultName || r.Dir != "" {
		t.Errorf("got %+v, want the default name and no folder", r)
	}
	if got, want := filepath.ToSlash(r.KeyFile(c.Home)), "/h/keys/claude.planner.key"; got != want {
		t.Errorf("the key is in %s, want %s", got, want)
	}

	c.Place.Scope = cli.ScopeProject
	other := c.Record()
	if other.samePlace(r) || !other.samePlace(c.Record()) {
		t.Error("the entries of a user and of a project are different places")
	}
}

func TestNotes(t *testing.T) {
	r := Result{Unrevoked: []hub.AgentID{"planner", "planner", "builder"}}
	if got := r.Notes(); len(got) != 2 {
		t.Errorf("got %q, want a sentence for each agent", got)
	}
}
