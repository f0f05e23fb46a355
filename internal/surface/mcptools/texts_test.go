package mcptools_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/parley-agents/parley/channel"
	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/ground/briefing"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/surface/mcptools"
	"github.com/parley-agents/parley/internal/testing/tokentest"
	"github.com/parley-agents/parley/server"
)

var update = flag.Bool("update", false, "write the texts and their tokens into the documentation")

// A specimen is a text that a model reads, with the most tokens that it may have.
type specimen struct {
	group, name, text string
	most              int
}

// standIn is the folder of the task in the documentation.
const standIn = "/home/ana/shop"

// A reading collects the texts that the agents of a hub read.
type reading struct {
	t              *testing.T
	hub            *running
	folder         string
	specimens      []specimen
	alone, members []*mcp.Tool // the tools of an agent in no team and no project, and of one in both
}

func (r *reading) add(group, name string, most int, text string) {
	text = strings.TrimSuffix(strings.ReplaceAll(text, r.folder, standIn), "\n")
	r.specimens = append(r.specimens, specimen{group, name, text, most})
}

// call calls a tool and adds its answer.
func (r *reading) call(a *agent, name string, most int, tool string, args map[string]any) string {
	r.t.Helper()
	text := a.text(r.t, tool, args).text
	r.add("Answers", name, most, text)
	return text
}

// readAll lets two agents work together and returns what they read.
func readAll(t *testing.T) *reading {
	t.Helper()
	now := time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)
	h := start(t, server.Options{Clock: func() time.Time { return now }})
	r := &reading{t: t, hub: h, folder: repository(t)}
	h.do(t, h.operator, "parley/root/add", map[string]any{"path": r.folder})
	builderKey := h.add(t, "builder")
	planner, builder := h.overHTTP(t, h.add(t, "planner")), h.overHTTP(t, builderKey)

	r.instructions(builder)
	r.notices()
	r.alone = builder.tools(t)
	r.messages(planner, builder)
	r.task(planner, builder)
	r.errors(planner)
	h.join(t, builderKey)
	r.members = builder.tools(t)
	return r
}

// repository returns a repository with one commit.
func repository(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	git(t, dir, "init", "-q", "-b", "avatar")
	commit(t, dir, "users.sql", "create table users (avatar text not null);\n")
	return dir
}

// commit commits a file with a content.
func commit(t *testing.T, dir, file, content string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, file), []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	git(t, dir, "add", "-A")
	git(t, dir, "-c", "user.name=t", "-c", "user.email=t@example.org", "commit", "-q", "-m", "change "+file)
}

func git(t *testing.T, dir string, args ...string) {
	t.Helper()
	cmd := exec.Command("git", append([]string{"-C", dir}, args...)...)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
}

func (r *reading) instructions(builder *agent) {
	const group, most = "Instructions", 110
	r.add(group, "of an agent that `parley claude` and the like start", most, briefing.Instruction("claude-coral"))
	r.add(group, "of the tools, with the agents on the hub", most, builder.InitializeResult().Instructions)
	r.add(group, "of a CLI that `parley connect` changed", most, briefing.Connected)
	r.add(group, "of an agent without tools (pi)", 150, briefing.ShellInstruction("pi-jade", "parley"))
}

func (r *reading) notices() {
	const group, most = "Notices", 30
	message := hub.Envelope{Type: hub.TypeStatusUpdate, Priority: hub.PriorityNormal}
	handoff := hub.Envelope{Type: hub.TypeHandoffInitiate, Priority: hub.PriorityNormal}
	critical := hub.Envelope{Type: hub.TypeStatusBlocked, Priority: hub.PriorityCritical}
	for _, n := range []struct {
		name  string
		batch channel.Batch
	}{
		{"one handoff", channel.Batch{Messages: []hub.Envelope{handoff}}},
		{"several messages", channel.Batch{Messages: []hub.Envelope{message, handoff, message}}},
		{"one of them is critical", channel.Batch{Messages: []hub.Envelope{message, critical, handoff}}},
		{"the second and last one about the same mail", channel.Batch{Messages: []hub.Envelope{message}, Repeat: true}},
		{"`parley agent test`", channel.Batch{Probe: true}},
	} {
		n.batch.ID = channel.NewID(n.name)
		n.batch.Recipient = "claude-coral"
		r.add(group, n.name, most, n.batch.Notice("acp_inbox"))
	}
	order := channel.Batch{ID: channel.NewID("order"), Recipient: "claude-coral", Order: "Use Postgres 17.", OrderID: "m12"}
	r.add(group, "a message of the operator, after `parley agent wake NAME --on --with-text`", 60, order.Notice("acp_inbox"))
}

// messages lets planner ask and tell something, and counts one message from its notice
// to its answer.
func (r *reading) messages(planner, builder *agent) {
	builder.text(r.t, "acp_inbox", nil) // it meets the others
	r.call(builder, "`acp_inbox`: no mail", 10, "acp_inbox", nil)
	r.call(planner, "`acp_send`", 40, "acp_send", map[string]any{"to": []string{"builder"}, "text": "Is avatar nullable in the table users?"})
	inbox := r.call(builder, "`acp_inbox`: a question", 60, "acp_inbox", nil)
	answer := map[string]any{"reply_to": "m1", "text": "No: not null since migration 12."}
	sent := r.call(builder, "`acp_respond`", 40, "acp_respond", answer)
	r.call(planner, "`acp_inbox`: an answer, and the first look at the others", 80, "acp_inbox", nil)
	planner.text(r.t, "acp_inbox", map[string]any{"ack": true})

	notice := channel.Batch{ID: channel.NewID("cost"), Recipient: "builder", Messages: []hub.Envelope{{}}}.Notice("acp_inbox")
	r.add("Together", "one message: its notice, two calls, their answers", 200, strings.Join([]string{
		notice, written("acp_inbox", nil), inbox, written("acp_respond", answer), sent,
	}, "\n"))

	planner.text(r.t, "acp_send", map[string]any{"to": []string{"builder"}, "text": "The table users is frozen until Friday."})
	r.call(builder, "`acp_inbox`: plain text", 70, "acp_inbox", map[string]any{"ack": true})
	if _, err := r.hub.client(r.hub.operator).Raw(r.t.Context(), "acp/send", []byte(`{"to":["builder"],"text":"Use Postgres 17.\nAsk me before you drop a column."}`)); err != nil {
		r.t.Fatal(err)
	}
	r.call(builder, "`acp_inbox`: text of the operator", 70, "acp_inbox", map[string]any{"ack": true})
}

// written returns a call as a model writes it.
func written(tool string, args map[string]any) string {
	raw, err := json.Marshal(map[string]any{"name": tool, "arguments": args})
	if err != nil {
		panic(err) // maps of strings
	}
	return string(raw)
}

// task lets planner hand a task to builder, which does it.
func (r *reading) task(planner, builder *agent) {
	r.call(planner, "`acp_handoff` initiate", 60, "acp_handoff", map[string]any{
		"action": "initiate", "to": "builder", "task_id": "T-1", "title": "Make avatar nullable",
		"summary": "Old rows have no picture and fail to load.", "next_step": "Write the migration and run it.",
		"success_criteria": []string{"old rows load", "go test ./users passes"}, "worktree_path": r.folder, "branch": "avatar",
	})
	r.call(builder, "`acp_inbox`: a task", 120, "acp_inbox", nil)
	r.call(builder, "`acp_handoff` accept", 90, "acp_handoff", map[string]any{"action": "accept", "handoff_id": "h1"})
	complete := map[string]any{"action": "complete", "handoff_id": "h1", "summary": "Migration 13 makes avatar nullable; the tests pass."}
	r.call(builder, "`acp_handoff` complete, before the work is done", 80, "acp_handoff", complete)
	commit(r.t, r.folder, "users.sql", "create table users (avatar text);\n")
	r.call(builder, "`acp_handoff` complete", 60, "acp_handoff", complete)
	r.call(planner, "`acp_inbox`: the task is done", 180, "acp_inbox", map[string]any{"ack": true})

	long := []string{strings.Repeat("every old row loads and keeps its name, ", 20)}
	planner.text(r.t, "acp_handoff", map[string]any{
		"action": "initiate", "to": "builder", "task_id": "T-2", "title": "Load old rows", "summary": "They fail.", "next_step": "Fix the loader.",
		"success_criteria": long, "worktree_path": r.folder, "artifacts": []map[string]any{{"type": "file", "path": filepath.Join(r.folder, "users.sql")}},
	})
	r.call(builder, "`acp_handoff` accept, with long criteria", 90, "acp_handoff", map[string]any{"action": "accept", "handoff_id": "h2"})

	r.call(planner, "`acp_handoff` initiate, with an approval", 90, "acp_handoff", map[string]any{
		"action": "initiate", "to": "builder", "task_id": "T-3", "title": "Drop the table", "summary": "It is empty.", "next_step": "Drop it.",
		"success_criteria": []string{"it is gone"}, "worktree_path": r.folder, "requires_human_approval": true,
	})
	r.call(builder, "`acp_inbox`: a task that waits for an approval", 120, "acp_inbox", map[string]any{"ack": true})
	r.hub.do(r.t, r.hub.operator, "parley/approve", map[string]any{"id": "h3"})
	r.call(builder, "`acp_inbox`: the approval", 100, "acp_inbox", map[string]any{"ack": true})
}

func (r *reading) errors(planner *agent) {
	r.call(planner, "an error: an unknown name", 60, "acp_send", map[string]any{"to": []string{"bilder"}, "text": "hello"})
	r.call(planner, "an error: members are missing", 60, "acp_handoff", map[string]any{"action": "initiate", "to": "builder"})
	r.call(planner, "an error: members of a type are missing", 60, "acp_send", map[string]any{"to": []string{"builder"}, "type": "knowledge.push", "payload": map[string]any{}})
}

// definitions returns tools as a request has them.
func definitions(t *testing.T, tools []*mcp.Tool) string {
	t.Helper()
	raw, err := json.Marshal(tools)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// filesTool is listed to agents that work beside others in one working tree.
var filesTool = mcptools.Tool(api.Files.Spec)

func TestTokens(t *testing.T) {
	r := readAll(t)
	tools := []specimen{
		{"Tools", "of an agent in no team and no project, in every request", definitions(t, r.alone), 1999},
		{"Tools", "of a member of both", definitions(t, r.members), 3500},
		{"Tools", "acp_files, of an agent beside others in one working tree", definitions(t, []*mcp.Tool{filesTool}), 150},
	}
	var table strings.Builder
	table.WriteString("| text | tokens | at most |\n|---|---:|---:|\n")
	for _, s := range append(tools, r.specimens...) {
		n := tokentest.Count(t, s.text)
		fmt.Fprintf(&table, "| %s: %s | %d | %d |\n", s.group, s.name, n, s.most)
		if n > s.most {
			t.Errorf("%s: %s: got %d tokens, want at most %d:\n%s", s.group, s.name, n, s.most, s.text)
		}
	}
	t.Run("the table in docs/performance.md has the tokens of now", func(t *testing.T) {
		comparePart(t, "performance.md", "tokens", table.String())
	})
	t.Run("docs/for-agent-authors.md shows every text", func(t *testing.T) {
		comparePart(t, "for-agent-authors.md", "texts", r.page(t))
	})
}

// page returns the texts as Markdown.
func (r *reading) page(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	group := ""
	for _, s := range r.specimens {
		if s.group == "Together" {
			continue
		}
		if s.group != group {
			group = s.group
			fmt.Fprintf(&b, "### %s\n\n", group)
		}
		fmt.Fprintf(&b, "%s:\n\n```\n%s\n```\n\n", s.name, s.text)
	}
	b.WriteString("### Tools\n\n")
	everyone := map[string]bool{}
	for _, tool := range r.alone {
		everyone[tool.Name] = true
	}
	for _, tool := range append(slices.Clone(r.members), filesTool) {
		schema, err := json.Marshal(tool.InputSchema)
		if err != nil {
			t.Fatal(err)
		}
		whom := ""
		if !everyone[tool.Name] {
			whom = " (listed to members of a team or project)"
		}
		if tool == filesTool {
			whom = " (listed to agents beside others in one working tree)"
		}
		fmt.Fprintf(&b, "`%s`%s: %s\n\n```json\n%s\n```\n\n", tool.Name, whom, tool.Description, schema)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// comparePart compares the part of a page between two markers with the wanted text, or
// replaces it.
func comparePart(t *testing.T, page, marker, want string) {
	t.Helper()
	path := filepath.Join("..", "..", "..", "docs", page)
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	first, rest, begun := strings.Cut(string(raw), "<!-- "+marker+" -->\n")
	got, last, ended := strings.Cut(rest, "<!-- /"+marker+" -->\n")
	switch {
	case !begun || !ended:
		t.Fatalf("docs/%s has no part between the markers %s", page, marker)
	case *update:
		text := first + "<!-- " + marker + " -->\n" + want + "<!-- /" + marker + " -->\n" + last
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	case got != want:
		t.Errorf("docs/%s is not what the code says; go test ./internal/surface/mcptools -run TestTokens -update writes it, got\n%s\nwant\n%s", page, got, want)
	}
}
