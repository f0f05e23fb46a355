package rules

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/parley-agents/parley/acp/schema"

	"github.com/parley-agents/parley/comply/jsont"
)

// A shapeRule is a rule about the form of some messages.
type shapeRule struct {
	is   string // method, or tag of an update
	at   string // beginning of the place; "" for anywhere
	rule string
}

// shapeRules says which rule is broken by a message that does not have the shape
// that the schema gives it, by what it is and where the departure is. The first
// that fits counts. It is asked only if no check has found something: checks
// know better what is wrong.
var shapeRules = []shapeRule{
	{MethodInitialize, "agentCapabilities", "INIT-11"},
	{MethodInitialize, "capabilities", "INIT-11"},
	{MethodInitialize, "authMethods", "INIT-12"},
	{MethodInitialize, "protocolVersion", "INIT-02"},
	{MethodInitialize, "", "INIT-01"},
	{MethodNewSession, "modes", "SNEW-08"},
	{MethodNewSession, "configOptions", "SNEW-09"},
	{MethodNewSession, "", "SNEW-01"},
	{"session/load", "", "SLOAD-04"},
	{"session/resume", "", "SRES-03"},
	{"session/list", "sessions.", "SLIST-03"},
	{"session/list", "", "SLIST-01"},
	{"session/close", "", "SCLO-01"},
	{"session/delete", "", "SDEL-01"},
	{"session/fork", "", "SFRK-01"},
	{"session/set_mode", "", "MODE-02"},
	{"session/set_config_option", "", "CFG-04"},
	{"authenticate", "", "AUTH-03"},
	{"logout", "", "AUTH-07"},
	{MethodPrompt, "stopReason", "PRM-02"},
	{MethodPrompt, "", "PRM-19"},
	{"user_message_chunk", "", "UPD-02"},
	{"agent_message_chunk", "", "UPD-03"},
	{"agent_thought_chunk", "", "UPD-04"},
	{"tool_call", "", "UPD-05"},
	{"tool_call_update", "", "UPD-06"},
	{"plan", "", "UPD-07"},
	{"available_commands_update", "", "UPD-08"},
	{"current_mode_update", "", "UPD-09"},
	{"config_option_update", "", "UPD-10"},
	{"session_info_update", "", "UPD-11"},
	{"usage_update", "", "UPD-12"},
	{"notice", "", "UPD-15"},
	{"compaction_update", "", "UPD-16"},
	{"compaction_summary_chunk", "", "UPD-17"},
	{"session/update", "", "UPD-01"},
	{methodPermission, "options", "PERM-02"},
	{methodPermission, "toolCall.", "UPD-06"},
	{methodPermission, "", "PERM-01"},
	{methodReadFile, "", "FS-05"},
	{methodWriteFile, "", "FS-04"},
	{"terminal/create", "", "TERM-02"},
	{"terminal/", "", "TERM-13"},
	{methodElicit, "requestedSchema", "ELI-06"},
	{methodElicit, "", "ELI-03"},
	{"elicitation/complete", "", "ELI-14"},
	{"$/cancel_request", "", "CAN-17"},
}

// definition returns the definition that an event must meet, the value that must
// meet it, and where in the message that is. It is empty for what has none.
func (l *ledger) definition(e *event) (def string, value any, path []string) {
	version := l.state.version
	switch {
	case e.Class == jsont.Response && e.request != nil && e.succeeded:
		m, _ := version.Method(e.request.Method)
		return m.Result, e.object["result"], nil
	case e.Method != "":
		m, _ := version.Method(e.Method)
		return m.Params, e.object["params"], nil
	}
	return "", nil, nil
}

// shape notes that a message does not meet the schema.
func (l *ledger) shape(e *event) {
	def, value, _ := l.definition(e)
	if def == "" || value == nil || slices.Contains(draftTags, e.tag) {
		return // null is taken for an empty object
	}
	if variant := variants(l.state.version, "SessionUpdate", e.tag); variant != "" && e.sessionID() != "" {
		def, value = variant, e.update // the same, without trying all kinds of update
	}
	s, err := compiled(l.state.version, def)
	if err != nil {
		panic(fmt.Sprintf("comply: the schema of %s cannot be compiled: %v", def, err)) // a test would have shown
	}
	var bad *jsonschema.ValidationError
	if err := s.Validate(value); !errors.As(err, &bad) {
		return
	}
	leaf := deepest(bad)
	at := strings.Join(leaf.InstanceLocation, ".")
	is := e.Method
	if e.request != nil {
		is = e.request.Method
	}
	for _, r := range shapeRules {
		named := r.is == is || r.is == e.tag || strings.HasSuffix(r.is, "/") && strings.HasPrefix(is, r.is)
		if named && strings.HasPrefix(at, r.at) {
			l.note(r.rule, "", fmt.Sprintf("at %q the message is not as the schema wants it: %s", at, strings.TrimPrefix(leaf.Error(), "jsonschema validation failed ")), e.Entry)
			return
		}
	}
}

// deepest returns the cause that is furthest inside the message.
func deepest(e *jsonschema.ValidationError) *jsonschema.ValidationError {
	best := e
	for _, c := range e.Causes {
		if d := deepest(c); len(d.InstanceLocation) > len(best.InstanceLocation) || best == e {
			best = d
		}
	}
	return best
}

// schemas are compiled when they are first asked for.
var schemas = struct {
	sync.Mutex
	compilers map[schema.Version]*jsonschema.Compiler
	done      map[string]*jsonschema.Schema
}{compilers: map[schema.Version]*jsonschema.Compiler{}, done: map[string]*jsonschema.Schema{}}

// compiled returns the schema of a definition.
func compiled(version schema.Version, def string) (*jsonschema.Schema, error) {
	schemas.Lock()
	defer schemas.Unlock()
	name := fmt.Sprintf("acp:v%d", version)
	place := name + "#/$defs/" + def
	if s := schemas.done[place]; s != nil {
		return s, nil
	}
	c := schemas.compilers[version]
	if c == nil {
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(version.Document()))
		if err != nil {
			return nil, err
		}
		c = jsonschema.NewCompiler()
		c.UseLoader(jsonschema.SchemeURLLoader{})
		if err := c.AddResource(name, doc); err != nil {
			return nil, err
		}
		schemas.compilers[version] = c
	}
	s, err := c.Compile(place)
	if err != nil {
		return nil, err
	}
	schemas.done[place] = s
	return s, nil
}
