package rules

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/parley-agents/parley/internal/ground/text/pattern"
	"github.com/parley-agents/parley/protocol/acp/schema"
)

// A schemaRule names the rule for departures of a message from its schema.
type schemaRule struct {
	message string // the method, or the tag of an update; a prefix if it ends in a slash
	at      string // the beginning of the path to the departure, with * for an index; "" for any
	rule    string
}

// schemaRules has the rule for a message that does not match its schema. The first
// entry that fits counts.
var schemaRules = []schemaRule{
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
	{"session/list", "sessions.*", "SLIST-03"},
	{"session/list", "", "SLIST-01"},
	{"session/close", "", "SCLO-01"},
	{"session/delete", "", "SDEL-01"},
	{"session/fork", "", "SFRK-01"},
	{"session/set_mode", "", "MODE-02"},
	{"session/set_config_option", "configOptions.*", "CFG-01"},
	{"session/set_config_option", "", "CFG-04"},
	{MethodLogin1, "", "AUTH-03"},
	{MethodLogin2, "", "AUTH-03"},
	{"logout", "", "AUTH-07"},
	{"auth/logout", "", "AUTH-07"},
	{MethodPrompt, "stopReason", "PRM-02"},
	{MethodPrompt, "", "PRM-19"},
	{"user_message_chunk", "", "UPD-02"},
	{"agent_message_chunk", "", "UPD-03"},
	{"agent_thought_chunk", "", "UPD-04"},
	{"tool_call", "", "UPD-05"},
	{"tool_call_update", "", "UPD-06"},
	{"plan", "entries.*", "PLAN-02"},
	{"plan", "", "UPD-07"},
	{"plan_update", "plan.entries.*", "PLAN-02"},
	{"available_commands_update", "availableCommands.*.input", "CMD-03"},
	{"available_commands_update", "availableCommands.*", "CMD-02"},
	{"available_commands_update", "", "UPD-08"},
	{"current_mode_update", "", "UPD-09"},
	{"config_option_update", "configOptions.*", "CFG-01"},
	{"config_option_update", "", "UPD-10"},
	{"session_info_update", "", "UPD-11"},
	{"usage_update", "used", "USE-01"},
	{"usage_update", "size", "USE-01"},
	{"usage_update", "", "UPD-12"},
	{"notice", "", "UPD-15"},
	{"compaction_update", "", "UPD-16"},
	{"compaction_summary_chunk", "", "UPD-17"},
	{"session/update", "", "UPD-01"},
	{MethodPermission, "options", "PERM-02"},
	{MethodPermission, "toolCall.", "UPD-06"},
	{MethodPermission, "", "PERM-01"},
	{MethodReadFile, "", "FS-05"},
	{MethodWriteFile, "", "FS-04"},
	{"terminal/create", "", "TERM-02"},
	{"terminal/", "", "TERM-13"},
	{MethodElicit, "requestedSchema", "ELI-06"},
	{MethodElicit, "", "ELI-03"},
	{"elicitation/complete", "", "ELI-14"},
	{"$/cancel_request", "", "CAN-17"},
}

// definition returns the definition in the schema that an event must match, and
// the value that must match it. The name is empty for a message that has none.
func (s *state) definition(e *event) (name string, value any) {
	switch {
	case results(e):
		m, _ := s.version.Method(e.request.Method)
		return m.Result, e.object["result"]
	case e.Method != "":
		m, _ := s.version.Method(e.Method)
		return m.Params, e.object["params"]
	}
	return "", nil
}

// checkSchema notes that a message does not match the schema.
// The most specific entry of schemaRules stands first in its group. A departure
// that none names is no finding: the message belongs to no rule.
func (l *ledger) checkSchema(e *event) {
	name, value := l.state.definition(e)
	if name == "" || value == nil || slices.Contains(draftTags, e.tag) {
		return // null is taken for an empty object
	}
	if variant := variantOf(l.state.version, "SessionUpdate", e.tag); variant != "" && e.sessionID() != "" {
		name, value = variant, e.update // the same, without a trial of all kinds of update
	}
	var bad *jsonschema.ValidationError
	if err := compiled(l.state.version, name).Validate(value); !errors.As(err, &bad) {
		return
	}
	leaf := deepest(bad)
	message := e.Method
	if e.request != nil {
		message = e.request.Method
	}
	path := strings.Join(leaf.InstanceLocation, ".")
	at := index().ReplaceAllString(path, "$1*")
	for _, r := range schemaRules {
		named := r.message == message || r.message == e.tag || (strings.HasSuffix(r.message, "/") && strings.HasPrefix(message, r.message))
		if named && strings.HasPrefix(at, r.at) {
			l.note(r.rule, "", fmt.Sprintf("the message does not match the schema at %q: %s", path, strings.TrimPrefix(leaf.Error(), "jsonschema validation failed ")), e.Entry)
			return
		}
	}
}

// index matches the index of an item in a path.
var index = pattern.New(`(^|\.)[0-9]+\b`)

// deepest returns the cause that is furthest inside the message.
// A union fails in all its branches; the branch that came furthest is the one that
// was meant.
func deepest(e *jsonschema.ValidationError) *jsonschema.ValidationError {
	best := e
	for _, c := range e.Causes {
		if d := deepest(c); len(d.InstanceLocation) > len(best.InstanceLocation) || best == e {
			best = d
		}
	}
	return best
}

// schemas caches compilers and compiled definitions.
var schemas = struct {
	sync.Mutex
	compilers map[schema.Version]*jsonschema.Compiler
	compiled  map[string]*jsonschema.Schema
}{compilers: map[schema.Version]*jsonschema.Compiler{}, compiled: map[string]*jsonschema.Schema{}}

// compiled returns a definition of the built-in schema, compiled at its first use.
// It panics if the schema is broken, which a test would have shown.
func compiled(version schema.Version, name string) *jsonschema.Schema {
	schemas.Lock()
	defer schemas.Unlock()
	document := fmt.Sprintf("acp:v%d", version)
	place := document + "#/$defs/" + name
	if s := schemas.compiled[place]; s != nil {
		return s
	}
	c := schemas.compilers[version]
	if c == nil {
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(version.Document()))
		if err != nil {
			panic(fmt.Sprintf("comply: read the schema of version %d: %v", version, err))
		}
		c = jsonschema.NewCompiler()
		c.UseLoader(jsonschema.SchemeURLLoader{})
		if err := c.AddResource(document, doc); err != nil {
			panic(fmt.Sprintf("comply: add the schema of version %d: %v", version, err))
		}
		schemas.compilers[version] = c
	}
	s := c.MustCompile(place)
	schemas.compiled[place] = s
	return s
}
