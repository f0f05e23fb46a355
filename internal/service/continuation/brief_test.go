package continuation_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/service/continuation"
	"github.com/parley-agents/parley/internal/service/mailroom"
)

// reserve reserves a file in the working tree for an agent.
func (w *world) reserve(holder hub.AgentID, path string) {
	w.Helper()
	at := hub.At(w.now)
	r := hub.Reservation{ID: hub.ReservationID("r-" + path), Fence: 1, Tree: hub.WorkingTree{Path: "/src/app"}, Path: path, Holder: holder, State: hub.ReservationHeld, Since: at, Active: at}
	w.must(w.store.Update(w.ctx, hub.SurvivesKill, func(tx hub.Tx) error { return tx.WriteReservations().Put(r, "") }))
}

// report has an agent report a status of its task.
func (w *world) report(by hub.AgentID, text string) {
	w.Helper()
	_, err := w.mail.Send(w.ctx, agent(by), mailroom.Draft{To: []hub.AgentID{"planner"}, Type: hub.TypeStatusUpdate, Text: text})
	w.must(err)
}

func TestPackage(t *testing.T) {
	for _, scope := range [][]any{nil, {"parser.go"}} {
		w := newWorld(t)
		w.give("planner", "builder", func(m map[string]any) {
			if scope != nil {
				m["scope"] = scope
			}
		})
		w.reserve("builder", "lexer.go")
		w.stop("builder", hub.ContinueQuota, "tester")
		got, err := w.hands.Show(w.ctx, agent("tester"), w.last().Next)
		w.must(err)
		var p struct {
			Scope []any `json:"scope"`
		}
		w.must(json.Unmarshal(got.Package, &p))
		if !slices.Equal(p.Scope, scope) {
			t.Errorf("the scope of the next owner: got %v, want that of the sender, %v", p.Scope, scope)
		}
		text, err := w.Pending(w.ctx, "tester")
		w.must(err)
		if !strings.Contains(text, "Reserved files: lexer.go") || !strings.Contains(text, "accept the handoff h2 ") {
			t.Errorf("tester reads %s", text)
		}
	}
}

// TestWords compares the words that the next owner reads with those that the agents wrote.
func TestWords(t *testing.T) {
	const quoted = "Done so far, in its words: "
	for name, one := range map[string]struct {
		report string // of builder, on the hub
		plan   string // of builder, over ACP
		want   string // that is quoted
	}{
		"an agent that reported nothing is not quoted": {},
		"the last report is quoted":                    {report: "the lexer works", want: "the lexer works"},
		"a plan is quoted":                             {plan: "plan: write the lexer (done)", want: "plan: write the lexer (done)"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "reviewer")
			w.give("planner", "builder")
			if one.report != "" {
				w.report("builder", one.report)
			}
			w.crew.kept["builder"] = continuation.Kept{Folder: "/src/app", Or: []string{"tester"}}
			_, err := w.Stop(w.ctx, continuation.Cause{Agent: "builder", Reason: hub.ContinueQuota, Said: one.plan})
			w.must(err)
			first, err := w.Pending(w.ctx, "tester")
			w.must(err)

			// The second owner reports nothing: nothing of the first one is said to be its words.
			w.accept("tester", w.last().Next)
			w.now = w.now.Add(2 * patience)
			w.stop("tester", hub.ContinueLogin, "reviewer")
			second, err := w.Pending(w.ctx, "reviewer")
			w.must(err)

			_, said, isQuoted := strings.Cut(first, quoted)
			said, _, _ = strings.Cut(said, "\n")
			if said != one.want || isQuoted != (one.want != "") {
				t.Errorf("%q is quoted, want %q, in %s", said, one.want, first)
			}
			if !strings.Contains(first, "planner wrote at its beginning: the grammar is frozen") {
				t.Errorf("the sender's summary is not in %s", first)
			}
			if strings.Contains(second, quoted) || strings.Contains(second, "wrote at its beginning") {
				t.Errorf("somebody is quoted in %s", second)
			}
			for _, text := range []string{first, second} {
				if strings.Contains(text, string(w.last().Next)) {
					t.Errorf("a long id is in %s", text)
				}
			}
		})
	}
}
