package goodclient

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// updates are the kinds of updates that the client knows.
var updates = []string{
	"user_message_chunk", "agent_message_chunk", "agent_thought_chunk", "tool_call", "tool_call_update", "plan",
	"available_commands_update", "current_mode_update", "config_option_update", "session_info_update", "usage_update", "state_update",
}

// states are the states of a session that the client knows.
var states = []string{"running", "idle", "requires_action"}

// notice takes a notification of the agent. The good client ignores what it does not know.
func (c *client) notice(m message) {
	var p struct {
		SessionID string
		RequestID json.RawMessage
		Update    struct {
			SessionUpdate     string
			State, StopReason string
			Content           json.RawMessage
		}
	}
	json.Unmarshal(m.Params, &p) // what does not fit stays empty
	c.mu.Lock()
	session := c.session
	c.mu.Unlock()
	kind := p.Update.SessionUpdate
	switch m.Method {
	case "session/update":
		harmful := (c.breaks("CL-UPD-01") && !slices.Contains(updates, kind)) ||
			(c.breaks("CL-UPD-02") && kind == "plan") ||
			(c.breaks("CL-UPD-03") && session != "" && p.SessionID != session) ||
			(c.breaks("CL-UPD-04") && session == "")
		unread := c.breaks("CL-UPD-05") && bytes.Contains(p.Update.Content, []byte("_parley_chart"))
		future := c.breaks("CL-EXT-01") && bytes.Contains(m.Params, []byte("futureMember"))
		unknownState := kind == "state_update" && !slices.Contains(states, p.Update.State) && c.breaks("CL-TURN-02")
		if harmful || unread || future || unknownState {
			c.die()
		}
		if kind == "state_update" && p.Update.State == "idle" {
			c.idle <- p.Update.StopReason
		}
	case "$/cancel_request":
		c.mu.Lock()
		c.withdrawn[string(p.RequestID)] = true
		c.mu.Unlock()
	default:
		if c.breaks("CL-EXT-02") {
			c.die()
		}
		if c.breaks("CL-RPC-07") {
			c.send(object{"id": nil, "error": object{"code": -32601, "message": "method not found"}})
		}
	}
}

// params are the params of all requests of agents.
type params struct {
	SessionID       string
	Path            *string
	Content         string
	Line, Limit     *int
	ToolCall        struct{ ToolCallID string }
	Subject         struct{ Type string }
	Options         []struct{ OptionID, Name, Kind string }
	Command         string
	Args            []string
	Env             []struct{ Name, Value string }
	Cwd             string
	OutputByteLimit *int
	TerminalID      string
}

// serve answers a request of the agent.
func (c *client) serve(m message) {
	var p params
	err := error(nil)
	if len(m.Params) > 0 {
		err = json.Unmarshal(m.Params, &p)
	}
	var result any
	failed := &failure{-32602, "invalid params"}
	if err == nil {
		result, failed = c.answer(m, p)
	}
	if result == nil && failed == nil {
		return // a mutant stays silent
	}

	id := m.ID
	if c.breaks("CL-RPC-05") && len(id) > 2 && id[0] == '"' {
		id = json.RawMessage("17")
	}
	reply := object{"id": id, "result": result}
	if failed != nil {
		reply = object{"id": id, "error": object{"code": failed.Code, "message": failed.Message}}
		if c.breaks("CL-RPC-04") {
			reply["error"] = failed.Message
		}
	}
	c.send(reply)
	if c.breaks("CL-RPC-06") {
		c.send(reply)
	}
}

// missing are the methods that a mutant announces and does not have.
var missing = map[string]string{"fs/read_text_file": "CL-CAP-05", "fs/write_text_file": "CL-CAP-06", "terminal/kill": "CL-CAP-07", "elicitation/create": "CL-CAP-08"}

// answer returns the answer to a request; two nils for none.
func (c *client) answer(m message, p params) (any, *failure) {
	if rule := missing[m.Method]; rule != "" && c.breaks(rule) {
		return nil, &failure{-32601, "method not found"}
	}
	switch m.Method {
	case "session/request_permission":
		return c.permit(m, p)
	case "fs/read_text_file":
		return c.readFile(p)
	case "fs/write_text_file":
		return c.writeFile(p)
	case "elicitation/create":
		return c.elicit(), nil
	case "terminal/create":
		return c.createTerminal(p)
	case "terminal/output", "terminal/wait_for_exit", "terminal/kill", "terminal/release":
		return c.useTerminal(m.Method, p)
	}
	c.mu.Lock()
	c.unknown++
	n := c.unknown
	c.mu.Unlock()
	if c.breaks("CL-RPC-10") && n > 2 {
		return nil, nil
	}
	if c.breaks("CL-RPC-08") {
		return object{}, nil
	}
	return nil, &failure{-32601, "method not found: " + m.Method}
}

// permit answers a permission request: it allows once if it can.
func (c *client) permit(m message, p params) (any, *failure) {
	c.mu.Lock()
	c.permissions++
	others := c.permissions - 1
	known := p.SessionID == c.session
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		c.permissions--
		c.mu.Unlock()
	}()
	if (c.breaks("CL-PERM-04") && others > 0) || (c.breaks("CL-PERM-06") && !known) {
		return nil, nil
	}
	odd := slices.ContainsFunc(p.Options, func(o struct{ OptionID, Name, Kind string }) bool { return strings.HasPrefix(o.Kind, "_") })
	strange := c.version == 2 && p.Subject.Type != "tool_call" && p.Subject.Type != "command"
	if (odd && c.breaks("CL-PERM-03")) || (strange && c.breaks("CL-PERM-08")) {
		return nil, nil
	}
	if len(p.Options) == 0 {
		return nil, &failure{-32602, "there are no options"}
	}

	time.Sleep(50 * time.Millisecond) // as a fast user
	c.mu.Lock()
	cancelled := c.cancelled
	withdrawn := c.withdrawn[string(m.ID)]
	c.mu.Unlock()
	switch {
	case withdrawn && c.breaks("CL-CAN-03"):
		return nil, nil
	case cancelled && !c.breaks("CL-PERM-05"):
		return object{"outcome": object{"outcome": "cancelled"}}, nil
	case c.breaks("CL-PERM-01"):
		return object{"outcome": "selected"}, nil
	}
	chosen := p.Options[0]
	for _, o := range p.Options {
		if o.Kind == "allow_once" {
			chosen = o
			break
		}
	}
	id := chosen.OptionID
	if c.breaks("CL-PERM-02") {
		id = chosen.Kind
	}
	return object{"outcome": object{"outcome": "selected", "optionId": id}}, nil
}

// elicit fills in the form of the tests.
func (c *client) elicit() any {
	values := object{"title": "Report", "pages": 3, "draft": true, "colour": "red"}
	if c.breaks("CL-ELI-02") {
		values["pages"] = "many"
	}
	answer := object{"action": "accept", "content": values}
	if c.breaks("CL-ELI-01") {
		delete(answer, "action")
	}
	return answer
}

// maxFile is the largest file that a mutant survives.
const maxFile = 10 << 20

// readFile answers fs/read_text_file.
func (c *client) readFile(p params) (any, *failure) {
	if p.Path == nil {
		if c.breaks("CL-RPC-13") {
			return object{"content": ""}, nil
		}
		return nil, &failure{-32602, "path is missing"}
	}
	silent := c.breaks("CL-FS-05")
	if !filepath.IsAbs(*p.Path) {
		return nil, &failure{-32602, "path is not absolute"}
	}
	raw, err := os.ReadFile(*p.Path)
	switch {
	case err != nil && silent:
		return nil, nil
	case os.IsNotExist(err) && c.breaks("CL-FS-03"):
		return object{"content": ""}, nil
	case err != nil:
		return nil, &failure{-32002, "the file cannot be read"}
	case !utf8.Valid(raw):
		return nil, &failure{-32603, "the file is not UTF-8"}
	case len(raw) > maxFile && c.breaks("CL-FS-06"):
		c.die()
	}
	text := string(raw)
	if p.Line != nil || p.Limit != nil {
		text = c.lines(text, p)
	}
	if c.breaks("CL-FS-01") {
		text = strings.TrimSuffix(text, "\n")
	}
	return object{"content": text}, nil
}

// lines returns some lines of a text.
func (c *client) lines(text string, p params) string {
	lines := strings.SplitAfter(text, "\n")
	from := 0
	if p.Line != nil {
		from = max(*p.Line-1, 0)
		if c.breaks("CL-FS-02") {
			from = *p.Line
		}
	}
	lines = lines[min(from, len(lines)):]
	if p.Limit != nil {
		lines = lines[:min(*p.Limit, len(lines))]
	}
	return strings.Join(lines, "")
}

// writeFile answers fs/write_text_file.
func (c *client) writeFile(p params) (any, *failure) {
	if p.Path == nil || !filepath.IsAbs(*p.Path) {
		return nil, &failure{-32602, "path is not absolute"}
	}
	if c.breaks("CL-FS-04") {
		return object{}, nil
	}
	if os.WriteFile(*p.Path, []byte(p.Content), 0o600) != nil {
		return nil, &failure{-32603, "the file cannot be written"}
	}
	return object{}, nil
}
