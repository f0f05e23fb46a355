package rules

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"unicode"

	"github.com/parley-agents/parley/protocol/acp/schema"
	"github.com/parley-agents/parley/protocol/comply/jsont"
)

// A schemaNode is a JSON schema, as far as it names members and values. The
// validator accepts unknown members, as the protocol does; this walk finds them,
// because a member that no type has is mostly a misspelled one.
type schemaNode struct {
	Ref        string                 `json:"$ref"`
	Properties map[string]*schemaNode `json:"properties"`
	Items      *schemaNode            `json:"items"`
	AllOf      []*schemaNode          `json:"allOf"`
	AnyOf      []*schemaNode          `json:"anyOf"`
	OneOf      []*schemaNode          `json:"oneOf"`
	Const      any                    `json:"const"`
	Enum       []any                  `json:"enum"`
	More       json.RawMessage        `json:"additionalProperties"`
	Rest       json.RawMessage        `json:"unevaluatedProperties"`
}

// branches returns the schemas that apply together with s, or may.
func (s *schemaNode) branches() []*schemaNode { return slices.Concat(s.AllOf, s.AnyOf, s.OneOf) }

// definitions has the definitions of each version by name.
var definitions = map[schema.Version]func() map[string]*schemaNode{
	schema.V1: sync.OnceValue(func() map[string]*schemaNode { return readDefinitions(schema.V1) }),
	schema.V2: sync.OnceValue(func() map[string]*schemaNode { return readDefinitions(schema.V2) }),
}

func readDefinitions(v schema.Version) map[string]*schemaNode {
	out := map[string]*schemaNode{}
	for _, name := range v.Definitions() {
		raw, _ := v.Definition(name)
		s := &schemaNode{}
		if err := json.Unmarshal(raw, s); err != nil {
			panic(fmt.Sprintf("comply: the schema of %s cannot be read: %v", name, err)) // a test would have shown
		}
		out[name] = s
	}
	return out
}

// variantOf returns the definition of the variant of a union that a tag names, ""
// if there is none.
func variantOf(version schema.Version, union, tag string) string {
	u := definitions[version]()[union]
	if u == nil || tag == "" {
		return ""
	}
	for _, branch := range slices.Concat(u.OneOf, u.AnyOf) {
		for _, p := range branch.Properties {
			if p.Const == tag && len(branch.AllOf) == 1 {
				return strings.TrimPrefix(branch.AllOf[0].Ref, "#/$defs/")
			}
		}
	}
	return ""
}

// A memberSet has the members that an object may have. Several schemas can apply
// to one object, and to one member.
type memberSet struct {
	members map[string][]*schemaNode
	items   []*schemaNode
	open    bool // any other member is allowed, too
}

// maxSchemaDepth bounds references, which may lead in a circle.
const maxSchemaDepth = 30

// admitsMembers reports whether a keyword such as additionalProperties, which is a flag or
// a schema, admits members that have no schema of their own.
func admitsMembers(keyword json.RawMessage) bool {
	return len(keyword) > 0 && string(keyword) != "false"
}

// collect adds the members that a schema allows v to have.
// It is generous: a member is allowed if any branch that may be meant has it.
func (a *memberSet) collect(defs map[string]*schemaNode, s *schemaNode, v any, depth int) {
	if s == nil || depth > maxSchemaDepth {
		return
	}
	if name, ok := strings.CutPrefix(s.Ref, "#/$defs/"); ok {
		a.collect(defs, defs[name], v, depth+1)
	}
	for name, inner := range s.Properties {
		a.members[name] = append(a.members[name], inner)
	}
	if s.Items != nil {
		a.items = append(a.items, s.Items)
	}
	if admitsMembers(s.More) || admitsMembers(s.Rest) {
		a.open = true
	}
	if of := (&schemaNode{}); len(s.More) > 2 && json.Unmarshal(s.More, of) == nil { // a schema for all members, not {} or a flag
		o, _ := v.(object)
		for name := range o {
			a.members[name] = append(a.members[name], of)
		}
	}
	for _, branch := range s.branches() {
		if branch.fits(v) {
			a.collect(defs, branch, v, depth+1)
		}
	}
}

// fits reports whether a branch of a union may be meant: no member that tells the
// branches apart has another value.
func (s *schemaNode) fits(v any) bool {
	o, _ := v.(object)
	for name, p := range s.Properties {
		if got, ok := o[name]; ok && p.Const != nil && p.Const != got {
			return false
		}
	}
	return true
}

// checkMembers notes the members of a message that no type of the protocol has.
func (l *ledger) checkMembers(e *event) {
	if name, value := l.state.definition(e); name != "" {
		l.checkValue(e, []*schemaNode{definitions[l.state.version]()[name]}, value, nil)
	}
}

// maxPath is how deep members are checked.
const maxPath = 12

// checkValue notes the unknown members of v, which stands at path, and of the
// values in it.
func (l *ledger) checkValue(e *event, nodes []*schemaNode, v any, path []string) {
	if len(path) > maxPath {
		return
	}

	// A value may be described by several schemas; the members of all of them are allowed.
	a := &memberSet{members: map[string][]*schemaNode{}}
	for _, s := range nodes {
		a.collect(definitions[l.state.version](), s, v, 0)
	}

	switch v := v.(type) {
	case []any:
		for _, item := range v {
			if len(a.items) > 0 {
				l.checkValue(e, a.items, item, append(path, "*"))
			}
		}

	case object:
		l.checkWords(e, v)
		if len(a.members) == 0 {
			return // the schema does not define the object
		}

		for name, inner := range inOrder(v) {
			at := append(slices.Clone(path), name)
			switch known, ok := a.members[name]; {
			case slices.Contains(freeForm, name) && ok, name == "_meta":
			case ok:
				l.checkValue(e, known, inner, at)
			case !a.open && !isDraft(e, name):
				l.noteUnknown(e, a, at)
			}
		}
	}
}

// draftMembers are the members of results that a draft defines, by method.
var draftMembers = map[string]string{MethodInitialize: "providers", MethodPrompt: "usage"}

// isDraft reports whether a draft of the protocol defines a member.
func isDraft(e *event, name string) bool {
	if e.request == nil {
		return slices.Contains(draftTags, e.tag)
	}
	return draftMembers[e.request.Method] == name
}

// noteUnknown notes a member that the protocol does not define, under the rule
// that fits, unless a check of its own is about the member. Findings under the rules about
// custom members come last.
func (l *ledger) noteUnknown(e *event, a *memberSet, path []string) {
	name := path[len(path)-1]
	actual := "unknown member " + strings.Join(path, ".")
	for known := range inOrder(a.members) {
		if known != name && folded(known) == folded(name) {
			l.note(ruleCase, "", fmt.Sprintf("%s: write it as %s", actual, known), e.Entry)
			return
		}
	}
	rule, initialize := ruleOwnMember, e.request != nil && e.request.Method == MethodInitialize
	switch {
	case e.tag == "session_info_update" && slices.Contains(sessionFacts, name):
		return
	case initialize && (path[0] == "agentCapabilities" || path[0] == "capabilities") && len(path) > 1:
		rule = ruleOwnCapability
	case initialize && slices.Contains(wrongMembers[l.state.version], name):
		return
	case e.update != nil:
		rule = ruleOwnUpdateMember
	}
	if isUnstable(e, path) {
		l.unknown = append(l.unknown, unknownMember{rule, jsont.Advisory, actual + ", which an SDK of the protocol publishes as unstable"})
		return
	}
	l.unknown = append(l.unknown, unknownMember{rule: rule, text: actual})
}

// unstableMembers are the members that an SDK of the protocol has published as unstable,
// as paths, by the method of a result or the tag of an update. An agent that was built
// with such an SDK may send them: they are a note, not a broken MUST.
var unstableMembers = map[string][]string{
	MethodInitialize: {
		"agentCapabilities.providers", "agentCapabilities.mcpCapabilities.acp", "agentCapabilities.promptCapabilities.systemPrompt", "agentCapabilities.subagents",
		"agentCapabilities.sessionCapabilities.systemPrompt", "agentCapabilities.sessionCapabilities.subagents", "agentCapabilities.sessionCapabilities.cancel",
		"agentCapabilities.sessionCapabilities.models", "agentCapabilities.sessionCapabilities.title", "agentCapabilities.sessionCapabilities.status",
		"agentCapabilities.sessionCapabilities.archive", "agentCapabilities.auth.status",
		"capabilities.session.systemPrompt", "capabilities.session.title", "capabilities.session.status", "capabilities.session.archive", "capabilities.auth.status",
	},
	MethodNewSession:      {"models"},
	"session/load":        {"models"},
	"session/resume":      {"models"},
	"session/fork":        {"models"},
	"session/list":        {"sessions.*.archived"},
	MethodPrompt:          {"userMessageId"},
	"session_info_update": {"update.models"},
}

// isUnstable reports whether an SDK has published the member at a path as unstable.
func isUnstable(e *event, path []string) bool {
	message := e.tag
	if e.request != nil {
		message = e.request.Method
	}
	return slices.Contains(unstableMembers[message], strings.Join(path, "."))
}

// wordMembers are the members whose values are words of the protocol.
var wordMembers = []string{"sessionUpdate", "type", "kind", "status", "stopReason", "outcome", "priority", "category", "state"}

// checkWords notes values that are words of the protocol in other letters.
func (l *ledger) checkWords(e *event, v object) {
	for _, name := range wordMembers {
		if word := text(v, name); caseVariant(word) {
			l.note(ruleCase, "", fmt.Sprintf("%s is %s: write it in snake_case", name, show(word)), e.Entry)
		}
	}
}

// folded returns a name without the difference of camelCase and snake_case.
func folded(s string) string { return strings.ToLower(joined.Replace(s)) }

var joined = strings.NewReplacer("_", "", "-", "")

// protocolWords are the discriminators and values of the protocol that have an
// underscore, by their folded form.
var protocolWords = sync.OnceValue(func() map[string]string {
	out := map[string]string{}
	var add func(s *schemaNode)
	add = func(s *schemaNode) {
		for _, w := range append(slices.Clone(s.Enum), s.Const) {
			if word, ok := w.(string); ok && strings.Contains(word, "_") {
				out[folded(word)] = word
			}
		}
		for _, p := range s.Properties {
			add(p)
		}
		for _, b := range s.branches() {
			add(b)
		}
	}
	for _, read := range definitions {
		for _, s := range read() {
			add(s)
		}
	}
	return out
})

// caseVariant reports whether a word is one of the protocol in other letters.
// A word without a capital is never a variant: a misspelled word in lower case is
// an unknown one.
func caseVariant(word string) bool {
	if strings.IndexFunc(word, unicode.IsUpper) < 0 {
		return false
	}
	known, ok := protocolWords()[folded(word)]
	return ok && known != word
}
