package client

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/parley-agents/parley/protocol/acp/schema"
	"github.com/parley-agents/parley/protocol/comply/jsont"
	"github.com/parley-agents/parley/protocol/comply/rules"
	"github.com/parley-agents/parley/protocol/jsonrpc"
)

// ledgerRules are the rules that every frame of a client is checked for.
var ledgerRules = []string{
	"CL-TRN-01", "CL-TRN-02", "CL-TRN-03", "CL-RPC-01", "CL-RPC-02", "CL-RPC-03", "CL-RPC-04", "CL-RPC-05", "CL-RPC-06", "CL-RPC-07",
	"CL-INIT-01", "CL-INIT-02", "CL-INIT-03", "CL-INIT-07", "CL-INIT-08", "CL-INIT-10", "CL-CAP-01", "CL-CAP-02", "CL-CAP-03", "CL-CAP-04",
	"CL-SNEW-01", "CL-SNEW-02", "CL-SNEW-03", "CL-PRM-01", "CL-MODE-01", "CL-CFG-01", "CL-AUTH-01", "CL-CAN-01",
}

// inLedger reports whether every frame is checked for a rule.
func inLedger(rule string) bool { return slices.Contains(ledgerRules, rule) }

// InLedger reports whether every frame of a client is checked for the rule with that id.
// Other rules are checked by scenarios alone.
func InLedger(rule string) bool { return inLedger(rule) }

// A ledger goes through the log of a conversation and notes the rules that frames of the client
// break. It knows at each point what an agent could know.
type ledger struct {
	spoilt   bool           // the agent sent bytes that are no message
	version  schema.Version // that was agreed; 1 before
	findings []rules.Finding

	first       bool                    // the first message of the client has come
	open        map[string]*rules.Entry // requests of the client that wait, by the key of the id
	asked       map[string]*rules.Entry // requests of the agent that wait
	answered    map[string]bool         // ids of requests of the agent that were answered
	initialize  *rules.Entry            // the request
	agreed      object                  // the result of initialize; nil before
	sessions    map[string]bool         // sessions that the client may name
	modes       []string                // that the agent offered
	options     map[string][]string     // values that the agent offered, by option
	loginByName []string                // ids of login methods
}

// audit returns the findings in a log, in its order.
func audit(log []logged, spoilt bool) []rules.Finding {
	l := &ledger{
		spoilt: spoilt, version: schema.V1, open: map[string]*rules.Entry{}, asked: map[string]*rules.Entry{}, answered: map[string]bool{},
		sessions: map[string]bool{}, options: map[string][]string{},
	}
	for _, e := range log {
		if e.Direction == jsonrpc.In {
			l.fromAgent(e.Entry)
		} else {
			l.fromClient(e)
		}
	}
	return l.findings
}

// note notes a finding. A rule is noted once for a conversation.
func (l *ledger) note(rule, expected, actual string, proof ...*rules.Entry) {
	if slices.ContainsFunc(l.findings, func(f rules.Finding) bool { return f.Rule == rule }) {
		return
	}
	l.findings = append(l.findings, *rules.NewFinding(rules.Find(rule), &jsont.Test{}, expected, actual, proof...))
}

// fromAgent learns from a message of the agent.
func (l *ledger) fromAgent(e *rules.Entry) {
	switch e.Class {
	case jsont.ClientRequest:
		key := rules.IDKey(e.ID)
		l.asked[key] = e
		delete(l.answered, key)
	case jsont.Notification:
		update, _ := params(e)["update"].(object)
		l.learnOptions(update)
	case jsont.Response:
		key := rules.IDKey(e.ID)
		request := l.open[key]
		delete(l.open, key)
		if request != nil && e.Failure() == nil {
			l.learn(request, resultOf(e))
		}
	}
}

// learn learns from the answer to a request of the client.
func (l *ledger) learn(request *rules.Entry, result object) {
	switch request.Method {
	case "initialize":
		l.agreed = result
		if number(result["protocolVersion"]) == float64(schema.V2) {
			l.version = schema.V2
		}
		for _, m := range list(result, "authMethods") {
			l.loginByName = append(l.loginByName, text(m, "id")+text(m, "methodId")) // it has one of them
		}
	case "session/new", "session/fork":
		l.sessions[text(result, "sessionId")] = true
	}
	modes, _ := result["modes"].(object)
	for _, m := range list(modes, "availableModes") {
		l.modes = append(l.modes, text(m, "id"))
	}
	l.learnOptions(result)
}

// learnOptions learns the options that a message has.
func (l *ledger) learnOptions(o object) {
	for _, option := range list(o, "configOptions") {
		id := text(option, "id") + text(option, "configId") // it has one of them
		for _, v := range list(option, "options") {
			l.options[id] = append(l.options[id], text(v, "value"))
		}
	}
}

// list returns the objects in a member that is a list.
func list(o object, name string) (out []object) {
	items, _ := o[name].([]any)
	for _, item := range items {
		if m, ok := item.(object); ok {
			out = append(out, m)
		}
	}
	return out
}

// fromClient judges a message of the client.
func (l *ledger) fromClient(e logged) {
	if !l.line(e) {
		return
	}
	o, _ := e.Value.(object)
	if o["jsonrpc"] != jsonrpc.Version {
		l.note("CL-RPC-01", `"jsonrpc":"2.0"`, "jsonrpc is "+shown(o["jsonrpc"]), e.Entry)
	}
	switch e.Class {
	case jsont.ClientRequest:
		l.request(e.Entry)
	case jsont.Notification:
		l.order(e.Entry)
		l.method(e.Entry)
	default:
		l.response(e.Entry, o)
	}
}

// line judges the form of a line, and reports whether it is a message.
func (l *ledger) line(e logged) bool {
	for _, flaw := range e.flaws {
		switch flaw {
		case jsonrpc.FlawBOM:
			l.note("CL-TRN-03", "UTF-8 without a byte order mark", "the line begins with a byte order mark", e.Entry)
		case jsonrpc.FlawSeveralLines:
			l.note("CL-TRN-02", "a message on one line", "the message has several lines", e.Entry)
		case jsonrpc.FlawSameLine:
			l.note("CL-TRN-02", "one message on a line", "the line has several messages", e.Entry)
		}
	}
	if e.problem != nil {
		switch e.problem.Code {
		case jsonrpc.ProblemUTF8, jsonrpc.ProblemSurrogate:
			l.note("CL-TRN-03", "UTF-8", e.problem.Text, e.Entry)
		case jsonrpc.ProblemNotJSON, jsonrpc.ProblemTruncated:
			l.note("CL-TRN-01", "a message of the protocol", e.problem.Text, e.Entry)
		}
		return false
	}
	if _, ok := e.Value.(object); !ok {
		l.note("CL-TRN-01", "a message of the protocol", "the line is no JSON object", e.Entry)
		return false
	}
	return true
}

// order judges whether a message comes too early.
func (l *ledger) order(e *rules.Entry) {
	if !l.first && e.Method != "initialize" {
		l.note("CL-INIT-01", "initialize", "the first message is "+e.Method, e)
	}
	waits := l.initialize != nil && l.open[rules.IDKey(l.initialize.ID)] == l.initialize
	if waits && e.Method != "$/cancel_request" {
		l.note("CL-INIT-03", "the answer to initialize comes first", "the client sent "+e.Method+" before it", l.initialize, e)
	}
	l.first = true
}

// request judges a request of the client.
func (l *ledger) request(e *rules.Entry) {
	o, _ := e.Value.(object)
	key := rules.IDKey(e.ID)
	_, isText := o["id"].(string)
	n, isNumber := o["id"].(json.Number)
	isInteger := isNumber && !strings.ContainsAny(n.String(), ".eE")
	if !isText && !isInteger && o["id"] != nil {
		l.note("CL-RPC-02", "a string or an integer", "the id is "+shown(o["id"]), e)
	}
	if waiting := l.open[key]; waiting != nil {
		l.note("CL-RPC-03", "an id that no waiting request has", "a request with the id "+shown(o["id"])+" still waits", waiting, e)
	}
	l.order(e)
	l.open[key] = e
	l.method(e)
}

// response judges an answer of the client, and a message that is none of the three kinds.
func (l *ledger) response(e *rules.Entry, o object) {
	_, hasResult := o["result"]
	failure, hasError := o["error"].(object)
	code, isNumber := failure["code"].(json.Number)
	_, isText := failure["message"].(string)
	wellFormed := isNumber && isText && !strings.ContainsAny(code.String(), ".eE")
	_, errorGiven := o["error"]
	switch {
	case hasResult == errorGiven:
		l.note("CL-RPC-04", "either a result or an error", "the message is "+clipped(string(e.Raw)), e)
	case errorGiven && (!hasError || !wellFormed):
		l.note("CL-RPC-04", "an error with an integer code and a string message", "the error is "+shown(o["error"]), e)
	}

	key := rules.IDKey(e.ID)
	request := l.asked[key]
	switch {
	case request != nil:
		delete(l.asked, key)
		l.answered[key] = true
	case l.answered[key]:
		l.note("CL-RPC-06", "one answer to a request", "the request was answered before", e)
	case o["id"] == nil && !l.spoilt:
		l.note("CL-RPC-07", "no answer, because no request has the id null", "the client answered a notification", e)
	case o["id"] != nil:
		l.note("CL-RPC-05", "the id of a request of the agent, as it came", "the id is "+shown(o["id"])+", which no request has", e)
	}
}

// method judges the params of a request or notification.
func (l *ledger) method(e *rules.Entry) {
	p := params(e)
	l.offered(e)
	switch e.Method {
	case "initialize":
		l.initialize = e
		l.judgeInitialize(e, p)
	case "session/new", "session/load", "session/resume", "session/fork":
		l.judgeOpening(e, p)
	case "session/prompt":
		l.judgePrompt(e, p)
	case "session/set_mode":
		if id := text(p, "modeId"); !slices.Contains(l.modes, id) && len(l.modes) > 0 {
			l.note("CL-MODE-01", "one of the modes "+strings.Join(l.modes, ", "), "the mode is "+shown(p["modeId"]), e)
		}
	case "session/set_config_option":
		l.judgeOption(e, p)
	case "authenticate", "auth/login":
		if id := text(p, "methodId"); !slices.Contains(l.loginByName, id) {
			l.note("CL-AUTH-01", "one of the login methods of the agent", "the method is "+shown(p["methodId"]), e)
		}
	case "session/cancel":
		if e.ID != nil || text(p, "sessionId") == "" {
			l.note("CL-CAN-01", "a notification with the id of the session", "the message is "+clipped(string(e.Raw)), e)
		}
	}
	if id := text(p, "sessionId"); id != "" && !l.sessions[id] {
		l.note("CL-SNEW-03", "a session that the agent has opened", "the session is "+shown(id), e)
	}
}

// needed has the capability of the agent that a method needs, as a path, for each version.
var needed = map[schema.Version]map[string]string{
	schema.V1: {
		"session/list":   "sessionCapabilities.list",
		"session/delete": "sessionCapabilities.delete",
		"session/resume": "sessionCapabilities.resume",
		"session/close":  "sessionCapabilities.close",
		"session/fork":   "sessionCapabilities.fork",
		"logout":         "auth.logout",
	},
	schema.V2: {
		"session/delete": "session.delete",
		"session/fork":   "session.fork",
		"auth/logout":    "auth",
	},
}

// caps returns the capabilities that the agent announced.
func (l *ledger) caps() object {
	name := "agentCapabilities"
	if l.version == schema.V2 {
		name = "capabilities"
	}
	caps, _ := l.agreed[name].(object)
	return caps
}

// has reports whether the agent announced a capability, which has a path for each version: it
// is true in version 1, and an object in version 2.
func (l *ledger) has(v1, v2 string) bool {
	path := v1
	if l.version == schema.V2 {
		path = v2
	}
	value, _ := jsont.Lookup(any(l.caps()), path)
	_, isObject := value.(object)
	return value == true || (isObject && l.version == schema.V2)
}

// offered judges whether the agent offers the method.
func (l *ledger) offered(e *rules.Entry) {
	if l.agreed == nil {
		return
	}
	caps := l.caps()
	path, needs := needed[l.version][e.Method]
	value, _ := jsont.Lookup(any(caps), path)
	_, known := l.version.Method(e.Method)
	loads := l.version == schema.V1 && e.Method == "session/load"
	private := strings.HasPrefix(e.Method, "_") || strings.HasPrefix(e.Method, "$/")
	switch {
	case loads && caps["loadSession"] != true:
		l.note("CL-CAP-01", "no session/load, because the agent does not have loadSession", "the client sent session/load", l.initialize, e)
	case needs && (value == nil || value == false):
		l.note("CL-CAP-04", "no "+e.Method+", because the agent did not announce "+path, "the client sent "+e.Method, l.initialize, e)
	case e.Method == "session/set_mode" && len(l.modes) == 0, e.Method == "session/set_config_option" && len(l.options) == 0:
		l.note("CL-CAP-04", "no "+e.Method+", because the session offers nothing to set", "the client sent "+e.Method, e)
	case !known && !private:
		l.note("CL-CAP-04", "methods of the protocol", "the client sent "+e.Method, e)
	}
}

// judgeInitialize judges the params of initialize.
func (l *ledger) judgeInitialize(e *rules.Entry, p object) {
	n, isNumber := p["protocolVersion"].(json.Number)
	v, err := n.Int64()
	isVersion := isNumber && err == nil && v >= 0
	if !isVersion || v > 65535 {
		l.note("CL-INIT-02", "an integer", "protocolVersion is "+shown(p["protocolVersion"]), e)
	}
	for name, version := range map[string]schema.Version{"clientCapabilities": schema.V1, "capabilities": schema.V2} {
		if caps, ok := p[name]; ok && caps != nil {
			if path, bad := rules.Departure(version, "ClientCapabilities", withoutNull(caps)); bad != "" {
				l.note("CL-INIT-07", "capabilities as the schema has them", fmt.Sprintf("%s departs from the schema at %q: %s", name, path, bad), e)
			}
		}
	}

	// An offer of version 2 has the description of the client in another member, and must have it.
	rule, name := "CL-INIT-08", "clientInfo"
	if v >= int64(schema.V2) {
		rule, name = "CL-INIT-10", "info"
	}
	info, _ := p[name].(object)
	if text(info, "name") == "" || text(info, "version") == "" {
		l.note(rule, name+" with a name and a version", name+" is "+shown(p[name]), e)
	}
}

// withoutNull returns a value without the members that are null, which stand for absent ones.
func withoutNull(v any) any {
	o, ok := v.(object)
	if !ok {
		return v
	}
	out := object{}
	for name, inner := range o {
		if inner != nil {
			out[name] = withoutNull(inner)
		}
	}
	return out
}

// judgeOpening judges a request that opens a session.
func (l *ledger) judgeOpening(e *rules.Entry, p object) {
	if id := text(p, "sessionId"); id != "" {
		l.sessions[id] = true // of a session that was stored
	}
	cwd, isText := p["cwd"].(string)
	servers, isList := p["mcpServers"].([]any)
	switch {
	case !isText:
		l.note("CL-SNEW-02", "a folder", "cwd is "+shown(p["cwd"]), e)
	case !filepath.IsAbs(cwd):
		l.note("CL-SNEW-01", "an absolute path", "cwd is "+shown(cwd), e)
	}
	given, hasServers := p["mcpServers"]
	isNull := hasServers && given == nil
	leftOut := !hasServers && l.version == schema.V2
	if !isList && !isNull && !leftOut {
		l.note("CL-SNEW-02", "a list of MCP servers", "mcpServers is "+shown(p["mcpServers"]), e)
	}
	for _, s := range servers {
		server, _ := s.(object)
		kind := text(server, "type")
		needs := kind == "http" || kind == "sse" || l.version == schema.V2 // every agent of version 1 has stdio
		if needs && !l.has("mcpCapabilities."+kind, "session.mcp."+kind) {
			l.note("CL-CAP-03", "no server of the transport "+kind, "the server is "+shown(s), e)
		}
		if path, bad := rules.Departure(l.version, "McpServer", s); bad != "" {
			l.note("CL-SNEW-02", "MCP servers as the schema has them", fmt.Sprintf("a server departs from the schema at %q: %s", path, bad), e)
		}
	}
}

// contentNeeds has the prompt capability that a type of content needs.
var contentNeeds = map[string]string{"image": "image", "audio": "audio", "resource": "embeddedContext"}

// judgePrompt judges the params of session/prompt.
func (l *ledger) judgePrompt(e *rules.Entry, p object) {
	blocks, isList := p["prompt"].([]any)
	if !isList {
		l.note("CL-PRM-01", "a list of content blocks", "prompt is "+shown(p["prompt"]), e)
	}
	if text(p, "sessionId") == "" {
		l.note("CL-SNEW-03", "the id of a session", "sessionId is "+shown(p["sessionId"]), e)
	}
	for _, b := range blocks {
		block, _ := b.(object)
		if need := contentNeeds[text(block, "type")]; need != "" && !l.has("promptCapabilities."+need, "session.prompt."+need) {
			l.note("CL-CAP-02", "no content of the type "+text(block, "type")+", because the agent does not support it", "the block is "+clipped(shown(b)), e)
		}
		if path, bad := rules.Departure(l.version, "ContentBlock", withoutNull(b)); bad != "" {
			l.note("CL-PRM-01", "content blocks as the schema has them", fmt.Sprintf("a block departs from the schema at %q: %s", path, bad), e)
		}
	}
}

// judgeOption judges the params of session/set_config_option.
func (l *ledger) judgeOption(e *rules.Entry, p object) {
	id := text(p, "configId")
	values, known := l.options[id]
	if len(l.options) == 0 {
		return
	}
	if value := text(p, "value"); !known || !slices.Contains(values, value) {
		l.note("CL-CFG-01", "an option of the agent and one of its values", fmt.Sprintf("the option is %s and the value %s", shown(p["configId"]), shown(p["value"])), e)
	}
}
