package guard_test

import (
	"fmt"
	"testing"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/desk/guard"
	"github.com/parley-agents/parley/internal/service/reservation"
)

// TestHeldBy has the holders of files by a list of reservations.
func TestHeldBy(t *testing.T) {
	dir := tree(t)
	held := func(path string, holder hub.AgentID) reservation.Row {
		return reservation.Row{Tree: dir, Path: path, Holder: holder, State: hub.ReservationHeld}
	}
	pattern := held("docs/**", "writer")
	pattern.Pattern = true
	orphan := held("left.txt", "gone")
	orphan.State = hub.ReservationOrphan
	elsewhere := held("b.txt", "planner")
	elsewhere.Tree = dir + "/linked"
	list := []reservation.Row{held("src/a.go", "planner"), pattern, orphan, elsewhere}

	// The second of two agents with one pattern waits; of two that overlap, each may go on until
	// the other edits.
	next := pattern
	next.Holder, next.State = "reader", hub.ReservationWaiting
	wider := pattern
	wider.Path, wider.Holder = "docs/deep/**", "editor"
	list = append(list, next, wider, held("docs/deep/y.md", "editor"))

	for _, test := range []struct {
		file   string
		except hub.AgentID
		want   string
	}{
		{"src/a.go", "builder", "[planner]"},
		{dir + "/src/a.go", "", "[planner]"},
		{"link.txt", "builder", "[planner]"}, // leads to src/a.go
		{"src/a.go", "planner", "[]"},
		{"docs/deep/x.md", "builder", "[writer]"},
		{"docs/x.md", "reader", "[writer]"},
		{"docs/x.md", "writer", "[]"},
		{"docs/deep/x.md", "writer", "[]"},
		{"docs/deep/x.md", "editor", "[]"},
		{"docs/deep/y.md", "writer", "[editor]"},
		{"docs/deep/y.md", "editor", "[]"},
		{"left.txt", "builder", "[]"},
		{"b.txt", "builder", "[]"}, // of another working tree
		{"linked/b.txt", "builder", "[planner]"},
	} {
		var got []hub.AgentID
		for _, h := range guard.HeldBy(dir, []string{test.file}, list, test.except) {
			got = append(got, h.Holder)
		}
		if fmt.Sprint(got) != test.want {
			t.Errorf("%s, except %q: got %v, want %s", test.file, test.except, got, test.want)
		}
	}
	if got := guard.Tree(dir, "linked/b.txt"); got != dir+"/linked" {
		t.Errorf("got %s", got)
	}
}
