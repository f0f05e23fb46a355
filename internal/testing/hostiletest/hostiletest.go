// Package hostiletest puts text that hides, reorders or moves a cursor into every place
// of a hub that takes text, through the hub's door, and finds such characters in what
// the hub's surfaces show. Only tests import it.
//
// It has no tests of its own: cmd/parley/hostile_test.go and server/attack_test.go fail
// where it finds a character.
package hostiletest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/parley-agents/parley/internal/ground/text/plaintext"
)

// Marker is a word of every hostile text. An answer that has it shows text of others.
const Marker = "seenword"

// Text returns a text with a character of every row of the table, and sequences that a
// terminal obeys. It has less than 200 bytes, which is room that titles have.
func Text() string {
	text := Marker + " \x1b[2J\x1b]0;t\x07\u009b31m"
	for _, row := range plaintext.Table() {
		text += string(row.First)
	}
	return text + "\u202egnp"
}

// File returns hostile text as the content of a file that programs take for text.
func File() string { return strings.ReplaceAll(Text(), "\x00", "") + "\n" }

// short is for names: they are short, and some must be on one line.
const short = Marker + "\u202e\u00ad\u2060\ufeff\u3164\U000e0041\U000e0100"

// zeroTime is how a time that was never set looks when it is written all the same.
const zeroTime = "0001-01-01"

// Find returns the first character of the table in a text with the text around it, or a
// time that was never set, "" if there is none.
func Find(text string) string {
	if i := strings.Index(text, zeroTime); i >= 0 {
		return fmt.Sprintf("a time that was never set in %.160q", text[max(0, i-80):])
	}
	for i, r := range text {
		if plaintext.Hidden(r) {
			return fmt.Sprintf("%U in %.120q", r, text[max(0, i-60):])
		}
	}
	return ""
}

// A Hub is a hub with the agents planner and builder. The fields after the keys are the
// ids of things with hostile text, which Fill sets.
type Hub struct {
	URL                        string
	Operator, Planner, Builder string // keys

	Message, Question, Held, Long string // messages to builder; Long has parts
	Offer, Position               string // first messages of deliberations
	Proposed, Done                string // handoffs to builder
	Run                           string
	Team, Task, Artifact          string // versions 2 and 3 of the artifact are in conflict
	Project, Contract, Packet     string
	Tree                          string // a working tree in which planner has reserved a.txt
}

// Call calls a method and returns its result. It fails the test if the hub refuses.
func (h *Hub) Call(t testing.TB, key, method string, params map[string]any) map[string]any {
	t.Helper()
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, h.URL+"/", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+key)
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	var answer struct {
		Result map[string]any  `json:"result"`
		Error  json.RawMessage `json:"error"`
	}
	if err := json.Unmarshal(raw, &answer); err != nil || answer.Error != nil {
		t.Fatalf("%s: %s", method, raw)
	}
	return answer.Result
}

// text returns a member of a result.
func text(result map[string]any, member string) string { return fmt.Sprint(result[member]) }

// fillTree reserves files of a working tree.
func (h *Hub) fillTree(t testing.TB) {
	t.Helper()
	tree, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	h.Tree = tree
	h.Call(t, h.Operator, "parley/root/add", map[string]any{"path": h.Tree})
	h.Call(t, h.Planner, "parley/reservations/reserve", map[string]any{"tree": h.Tree, "patterns": []string{"a*.txt", short}, "why": Text()})
}

// Fill puts hostile text into the hub.
func (h *Hub) Fill(t testing.TB) {
	t.Helper()
	h.fillTree(t)
	h.fillMail(t)
	h.fillDeliberations(t)
	h.fillHandoffs(t)
	h.fillRun(t)
	h.fillTeam(t)
	h.fillProject(t)
}

func (h *Hub) fillMail(t testing.TB) {
	t.Helper()
	evil := Text()
	send := func(params map[string]any) string {
		params["to"] = []string{"builder"}
		return text(h.Call(t, h.Planner, "acp/send", params), "id")
	}
	h.Message = send(map[string]any{
		"type": "status.update", "topic": short, "payload": map[string]any{"summary": evil, "detail": evil, "blockers": []string{evil}, evil: map[string]any{evil: evil}},
		"context": map[string]any{"external_refs": []any{map[string]any{"type": "other", "value": evil}}, "artifacts": []any{map[string]any{"type": "file", "path": "/tmp/" + evil}}},
	})
	h.Question = send(map[string]any{"type": "knowledge.query", "payload": map[string]any{"question": evil}})
	h.Held = send(map[string]any{"text": evil, "policy": map[string]any{"visibility": "private", "sensitivity": "low", "human_gate": "required"}})
	h.Long = send(map[string]any{"text": strings.Repeat(evil+"\n", 200)})
	h.Call(t, h.Builder, "acp/respond", map[string]any{"reply_to": h.Question, "text": evil})
	h.Call(t, h.Builder, "acp/status", map[string]any{"state": "blocked", "summary": evil, "blockers": []string{evil}, "to": []string{"operator", "planner"}})
	h.Call(t, h.Builder, "acp/subscribe", map[string]any{"action": "add", "filter": map[string]any{"topics": []string{short}}})
}

func (h *Hub) fillDeliberations(t testing.TB) {
	t.Helper()
	evil := Text()
	send := func(kind string, payload map[string]any) string {
		return text(h.Call(t, h.Planner, "acp/send", map[string]any{"to": []string{"builder"}, "type": kind, "payload": payload}), "id")
	}
	h.Offer = send("task.offer", map[string]any{"title": evil, "description": evil})
	h.Position = send("position.state", map[string]any{"topic": evil, "position": evil, "reasoning": evil, "confidence": "high", "open_to_revision": true})
	h.Call(t, h.Builder, "acp/respond", map[string]any{"reply_to": h.Offer, "type": "task.accept", "payload": map[string]any{"offer_id": h.Offer, "conditions": []string{evil}}})
	h.Call(t, h.Builder, "acp/respond", map[string]any{
		"reply_to": h.Position, "type": "position.challenge",
		"payload": map[string]any{"position_id": h.Position, "counter_position": evil, "reasoning": evil, "severity": "blocking"},
	})
}

func (h *Hub) fillHandoffs(t testing.TB) {
	t.Helper()
	evil := Text()
	initiate := func(task string) string {
		return text(h.Call(t, h.Planner, "acp/handoff", map[string]any{
			"action": "initiate", "to": "builder", "task_id": task, "title": evil, "objective": evil, "summary": evil + " and more words", "next_step": evil, "success_criteria": []string{evil}, "reason": evil,
		}), "handoff_id")
	}
	h.Proposed, h.Done = initiate("T-901"), initiate("T-902")
	h.Call(t, h.Builder, "acp/handoff", map[string]any{"action": "accept", "handoff_id": h.Done})
	h.Call(t, h.Builder, "acp/handoff", map[string]any{"action": "complete", "handoff_id": h.Done, "summary": evil, "no_changes": true})
	refused := initiate("T-903")
	h.Call(t, h.Builder, "acp/handoff", map[string]any{"action": "reject", "handoff_id": refused, "reason": "other", "detail": evil})
}

func (h *Hub) fillRun(t testing.TB) {
	t.Helper()
	evil := Text()
	h.Run = fmt.Sprintf("%012x-7000-8000-000000000001", time.Now().UnixMilli())
	h.Run = h.Run[:8] + "-" + h.Run[8:]
	h.Call(t, h.Operator, "parley/run/begin", map[string]any{"run_id": h.Run, "agent": "builder", "task": evil, "dir": "/tmp/" + short, "timeout_s": 60})
	h.Call(t, h.Operator, "parley/run/move", map[string]any{"run_id": h.Run, "state": "running", "session_id": short})
	h.Call(t, h.Operator, "parley/run/move", map[string]any{"run_id": h.Run, "state": "checking"})
	h.Call(t, h.Operator, "parley/run/end", map[string]any{
		"run_id": h.Run, "state": "done", "stop_reason": evil, "reason": evil, "verdict": "contradicted",
		"report":         map[string]any{"status": evil, "learned": evil, "files_created": []string{evil}, evil: evil},
		"contradictions": []any{map[string]any{"kind": evil, "claim": evil, "found": evil}},
		"evidence": map[string]any{
			"diff": map[string]any{"files": 1, "created": []string{evil}}, "verify": map[string]any{"command": evil, "output_head": evil, "output_tail": evil, "failure": evil},
			"unverified": []any{map[string]any{"kind": evil, "claim": evil, "found": evil}}, "notes": []any{map[string]any{"kind": evil, "claim": evil, "found": evil}},
		},
	})
}

func (h *Hub) fillTeam(t testing.TB) {
	t.Helper()
	evil := Text()
	h.Team, h.Artifact = "evil", "notes.md"
	act := func(key, action string, params map[string]any) map[string]any {
		params["action"], params["team"] = action, h.Team
		return h.Call(t, key, "acp/team", params)
	}
	act(h.Operator, "create", map[string]any{"name": short, "objective": evil, "members": []any{map[string]any{"agent": "planner", "role": "coordinator"}, map[string]any{"agent": "builder", "role": "executor"}}})
	act(h.Operator, "status", map[string]any{"lifecycle": "active"})
	h.Task = text(act(h.Planner, "task", map[string]any{"title": evil, "owner": "builder"})["task"].(map[string]any), "task_id")
	act(h.Builder, "task", map[string]any{"task": h.Task, "state": "in_progress"})
	act(h.Planner, "task", map[string]any{"task": h.Task, "state": "dropped", "reason": evil})
	act(h.Planner, "decide", map[string]any{"title": evil, "decision": evil, "rationale": evil})
	for i, key := range []string{h.Planner, h.Planner, h.Builder} {
		content := fmt.Sprintf("%sversion %d %s", File(), i, File())
		act(key, "artifact", map[string]any{"artifact": h.Artifact, "parent_version": min(i, 1), "content": content, "note": evil})
	}
}

func (h *Hub) fillProject(t testing.TB) {
	t.Helper()
	evil := Text()
	made := h.Call(t, h.Operator, "cacp/project/create", map[string]any{
		"name": short, "objective": evil, "repos": []any{map[string]any{"name": "api", "role": "backend", "language": "go"}, map[string]any{"name": "web", "role": "frontend", "language": "ts"}},
	})
	h.Project = text(made, "projectId")
	act := func(key, method string, params map[string]any) map[string]any {
		params["projectId"] = h.Project
		return h.Call(t, key, "cacp/"+method, params)
	}
	act(h.Planner, "project/join", map[string]any{"repoName": "api"})
	act(h.Builder, "project/join", map[string]any{"repoName": "web"})
	endpoint := map[string]any{"method": evil, "path": evil, evil: evil}
	h.Contract = text(act(h.Planner, "contract/propose", map[string]any{"type": "api_endpoint", "name": short, "content": endpoint}), "contractId")
	act(h.Planner, "contract/update", map[string]any{"contractId": h.Contract, "version": 1, "content": map[string]any{"method": evil + "2", "path": evil}, "changeNote": evil})
	act(h.Builder, "contract/respond", map[string]any{"contractId": h.Contract, "version": 2, "action": "agree", "comment": evil})
	h.Packet = text(act(h.Planner, "context/askQuestion", map[string]any{"question": evil, "options": []string{evil}}), "packetId")
	act(h.Builder, "context/share", map[string]any{"type": "code_snippet", "content": map[string]any{"language": evil, "file": evil, "snippet": evil}})
	act(h.Planner, "context/recordDecision", map[string]any{"decision": evil, "chosen": evil, "rationale": evil})
	act(h.Builder, "implementation/start", map[string]any{"contractId": h.Contract, "plan": evil})
	act(h.Builder, "implementation/complete", map[string]any{"contractId": h.Contract, "files": []string{evil}, "notes": evil})
}
