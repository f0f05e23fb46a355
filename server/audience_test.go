package server_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/desk/cli"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/reach/wake"
	"github.com/parley-agents/parley/internal/testing/patience"
	"github.com/parley-agents/parley/internal/work/keeper"
	"github.com/parley-agents/parley/server"
)

// vendorEndings are the causes for which an agent stops, with the way in which the CLI of each vendor
// shows them: an error of the turn, its last message, or the end of its program. In a terminal a hook
// names the cause; the end of a program is the end of the session there.
var vendorEndings = []struct {
	reason hub.ContinuationReason
	shown  map[string]string // by CLI; see stopBy
}{
	{hub.ContinueQuota, map[string]string{"claude": "error Claude AI usage limit reached", "codex": `error {"codexErrorInfo":"usageLimitExceeded"}`, "opencode": `error {"type":"usage_limit_reached"}`}},
	{hub.ContinueRate, map[string]string{"claude": "error it has exceeded your per-minute rate limit", "codex": "say exceeded retry limit, last status: 429 Too Many Requests, request id: r", "opencode": "error 429 too many requests"}},
	{hub.ContinueLogin, map[string]string{"claude": "error Authentication required: the agent requires authentication", "codex": "say exceeded retry limit, last status: 401 Unauthorized, request id: r", "opencode": "error invalid_api_key"}},
	{hub.ContinueContext, map[string]string{"claude": "error Prompt is too long", "codex": `error {"codexErrorInfo":"contextWindowExceeded"}`, "opencode": "error context_length_exceeded"}},
	{hub.ContinueOverload, map[string]string{"claude": "error 529 Overloaded", "codex": "error Selected model is at capacity", "opencode": "error 503: overloaded"}},
	{hub.ContinueCrash, map[string]string{"claude": "crash", "codex": "crash", "opencode": "crash"}},
}

// TestAudienceOfEachCLI compares the messages about a task of builder, which stops for each cause in each
// CLI, with the table in docs/continue.md. Kept, it has a successor; in a terminal a person continues
// the task.
func TestAudienceOfEachCLI(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/continue.md")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, ending := range vendorEndings {
		for _, name := range []string{"claude", "codex", "opencode"} {
			for _, where := range []string{"kept", "in a terminal"} {
				title := fmt.Sprintf("%s %s: %s", name, where, ending.reason)
				if n++; !patience.Chosen(n, title) {
					continue
				}
				t.Run(title, func(t *testing.T) {
					t.Parallel()
					h := &audience{cli: name, reason: ending.reason}
					rows := []string{"a successor is asked", "it accepts", "it completes the task"}
					if where == "kept" {
						h.stopKept(t, ending.shown[name])
					} else {
						rows = []string{"no successor is named", "a person continues it with tester", "it accepts", "it completes the task"}
						h.stopInTerminal(t)
					}
					h.finish()
					h.compare(string(page), rows, where == "kept")
				})
			}
		}
	}
}

// An audience is a hub with a task of builder, which cannot go on with it.
type audience struct {
	*wakeHub
	cli    string
	reason hub.ContinuationReason
	dir    string
}

// stopKept has the hub keep builder, which accepts the task and stops.
func (h *audience) stopKept(t *testing.T, shown string) {
	t.Helper()
	h.wakeHub = startWakes(t, server.Options{Wakes: server.WakeLimits{Gap: time.Nanosecond}}, "planner", "tester")
	h.dir = h.keepSelf("builder", func(p *api.KeepParams) {
		p.CLI = h.cli
		p.Or = []keeper.Successor{{Name: "tester"}}
	})
	if err := os.WriteFile(beside(h.dir, "cause"), []byte(shown), 0o600); err != nil {
		t.Fatal(err)
	}
	h.giveTask(h.dir)
	h.until("tester is asked", h.isContinued(hub.ContinuationOffered, "tester"), h.story)
}

// stopInTerminal has builder accept the task in a terminal and stop, and a person continue it.
func (h *audience) stopInTerminal(t *testing.T) {
	t.Helper()
	h.wakeHub = startWakes(t, server.Options{}, "planner", "builder", "tester")
	h.dir = t.TempDir()
	report := func(e wake.Event, reason hub.ContinuationReason) {
		t.Helper()
		mustCall(t, h.as(h.keys["builder"]), api.ReportWake, wake.Report{Key: wake.Key{CLI: h.cli, ID: "s-builder", Process: os.Getpid()}, Event: e, Reason: reason})
	}
	report(wake.EventStart, "")
	mustCall(t, h.as(h.keys["builder"]), api.Handoff, api.HandoffParams{Action: "accept", ID: h.giveTask(h.dir)})
	if err := os.WriteFile(filepath.Join(h.dir, "draft.txt"), []byte("half of it\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if h.reason == hub.ContinueCrash {
		h.reason = hub.ContinueClosed
		report(wake.EventEnd, "")
	} else {
		report(wake.EventTurnEnd, h.reason)
	}
	h.until("the task waits", h.isContinued(hub.ContinuationWaiting, ""), func() any { return h.continuations() })
	mustCall(t, h.as(h.operator), api.ContinueTask, api.ContinueParams{Handoff: h.continuations()[0].Handoff, With: "tester"})
}

// finish has tester accept the task and end it.
func (h *audience) finish() {
	h.t.Helper()
	c := h.continuations()[0]
	if c.Reason != h.reason {
		h.t.Fatalf("the reason is %s, want %s", c.Reason, h.reason)
	}
	mustCall(h.t, h.as(h.keys["tester"]), api.Handoff, api.HandoffParams{Action: "accept", ID: c.Next})
	if err := os.WriteFile(filepath.Join(h.dir, "continued.txt"), []byte("the other half\n"), 0o600); err != nil {
		h.t.Fatal(err)
	}
	mustCall(h.t, h.as(h.keys["tester"]), api.Handoff, api.HandoffParams{Action: "complete", ID: c.Next, Summary: "all tests pass"})
}

// compare compares what each agent hears with the rows of the table. Of an agent that the hub keeps the
// operator reads besides why its turn ended.
func (h *audience) compare(page string, rows []string, isKept bool) {
	h.t.Helper()
	short := map[hub.HandoffID]string{}
	for _, r := range mustCall(h.t, h.as(h.operator), api.Handoff, api.HandoffParams{Action: "list", TaskID: "T-1"}).Listing.Handoffs {
		short[r.ID] = string(r.ShortID)
	}
	builder := h.keys["builder"]
	if isKept {
		builder = mustCall(h.t, h.as(h.operator), api.AddKey, api.AgentParams{ID: "builder", Label: "reader"}).Key
	}
	for column, key := range []string{h.keys["planner"], h.operator, builder} {
		var want []string
		for _, row := range rows {
			for line := range strings.Lines(page) {
				if cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), " | "); len(cells) == 4 && strings.TrimSpace(cells[0]) == row {
					want = append(want, strings.Split(strings.TrimSpace(cells[column+1]), "<br>")...)
				}
			}
		}
		want = slices.DeleteFunc(want, func(text string) bool { return text == "-" })
		got, ends := h.heard(key, short)
		if !slices.Equal(got, want) {
			h.t.Errorf("column %d: got\n%s\nwant\n%s", column+1, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		if hasEnd := isKept && key == h.operator; (len(ends) == 1) != hasEnd {
			h.t.Errorf("column %d: the end of the turn: %q", column+1, ends)
		}
	}
}

// heard returns the messages about the continued task in the words of the table, the oldest first, and
// those about the end of a turn alone.
func (h *audience) heard(key string, short map[hub.HandoffID]string) (about, ends []string) {
	h.t.Helper()
	logIn := " (log in with: " + cli.LogIn(h.cli) + ")"
	words := strings.NewReplacer(
		`builder `+h.reason.Text()+`; its task "write the parser" (k1) is not done; its uncommitted work is kept as s1 (1 file, +1 -0)`, "*stopped*",
		h.reason.Text(), "*cannot go on*",
	)
	messages := mustCall(h.t, h.as(key), api.Query, api.QueryParams{Limit: 100}).Messages
	slices.Reverse(messages) // the newest come first
	for _, m := range messages {
		var p struct {
			Message string        `json:"message"`
			Summary string        `json:"summary"`
			Detail  string        `json:"detail"`
			Handoff hub.HandoffID `json:"handoff_id"`
		}
		if err := json.Unmarshal(m.Payload, &p); err != nil {
			h.t.Fatal(err)
		}
		kind, isHandoff := strings.CutPrefix(string(m.Type), "handoff.")
		isOwn := !slices.Contains(m.To, h.nameOf(key))
		switch {
		case isOwn, kind == "initiate", kind == "accept" && m.From == "builder":
		case isHandoff:
			text := fmt.Sprintf("%s %s of %s: %s", kind, short[p.Handoff], m.From, p.Summary+p.Detail)
			about = append(about, strings.TrimSuffix(words.Replace(strings.ReplaceAll(text, logIn, "")), ": "))
		case strings.HasPrefix(p.Message, "builder "+h.reason.Text()) && !strings.Contains(p.Message, "its task"):
			ends = append(ends, p.Message)
		default:
			about = append(about, words.Replace(strings.ReplaceAll(p.Message, logIn, "")))
		}
	}
	return about, ends
}

// nameOf returns the agent of a key.
func (h *audience) nameOf(key string) hub.AgentID {
	for name, k := range h.keys {
		if k == key {
			return name
		}
	}
	if key == h.operator {
		return hub.Operator
	}
	return "builder"
}
