package rules

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"unicode"

	"github.com/parley-agents/parley/acp/schema"

	"github.com/parley-agents/parley/comply/jsont"
)

// A schemaNode is a JSON schema as far as it names members and values.
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

// shapes returns the definitions of a version.
var shapes = map[schema.Version]func() map[string]*schemaNode{
	schema.V1: sync.OnceValue(func() map[string]*schemaNode { return readShapes(schema.V1) }),
	schema.V2: sync.OnceValue(func() map[string]*schemaNode { return readShapes(schema.V2) }),
}

func readShapes(v schema.Version) map[string]*schemaNode {
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

// variants returns the definition of the variant of a union that a tag names, ""
// if there is none.
func variants(version schema.Version, union, tag string) string {
	defs := shapes[version]()
	u := defs[union]
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

// memberSet are the members that an object may have. Several schemas can apply to
// one object, and to one member.
type memberSet struct {
	members map[string][]*schemaNode
	items   []*schemaNode
	open    bool // any other member is fine, too
}

// collect adds what a schema allows a value to have.
func (a *memberSet) collect(defs map[string]*schemaNode, s *schemaNode, v any, depth int) {
	if s == nil || depth > 30 {
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
	if len(s.More) > 0 && string(s.More) != "false" || len(s.Rest) > 0 && string(s.Rest) != "false" {
		a.open = true
		if !slices.Contains([]string{"true", "{}"}, string(s.More)) && len(s.More) > 0 {
			a.values(s.More, v)
		}
	}
	for _, list := range [][]*schemaNode{s.AllOf, s.AnyOf, s.OneOf} {
		for _, branch := range list {
			if branch.fits(defs, v, depth) {
				a.collect(defs, branch, v, depth+1)
			}
		}
	}
}

// values takes the schema of members whose names are free.
func (a *memberSet) values(raw json.RawMessage, v any) {
	inner := &schemaNode{}
	object, _ := v.(map[string]any)
	if json.Unmarshal(raw, inner) != nil {
		return
	}
	for name := range object {
		a.members[name] = append(a.members[name], inner)
	}
}

// fits reports whether a branch of a union can be meant: no member that tells
// the branches apart has another value.
func (s *schemaNode) fits(defs map[string]*schemaNode, v any, depth int) bool {
	object, ok := v.(map[string]any)
	if !ok {
		return true
	}
	for name, p := range s.Properties {
		if got, ok := object[name]; ok && p.Const != nil && p.Const != got {
			return false
		}
	}
	return true
}

// lint notes members that no type of the protocol has.
func (l *ledger) lint(e *event) {
	def, value, path := l.definition(e)
	if def == "" {
		return
	}
	defs := shapes[l.state.version]()
	l.lintValue(e, defs, []*schemaNode{defs[def]}, value, path)
}

// maxLint is how deep members are looked at.
const maxLint = 12

func (l *ledger) lintValue(e *event, defs map[string]*schemaNode, schemas []*schemaNode, v any, path []string) {
	if len(path) > maxLint {
		return
	}
	a := &memberSet{members: map[string][]*schemaNode{}}
	for _, s := range schemas {
		a.collect(defs, s, v, 0)
	}
	switch v := v.(type) {
	case []any:
		for _, item := range v {
			if len(a.items) > 0 {
				l.lintValue(e, defs, a.items, item, append(path, "*"))
			}
		}
	case map[string]any:
		l.lintTags(e, v)
		if len(a.members) == 0 {
			return // nothing is known about it
		}
		for name, inner := range inOrder(v) {
			at := append(slices.Clone(path), name)
			switch known, ok := a.members[name]; {
			case slices.Contains(freeForm, name) && ok, name == "_meta":
			case ok:
				l.lintValue(e, defs, known, inner, at)
			case !a.open && !tolerated(e, name):
				l.unknownMember(e, a, at)
			}
		}
	}
}

// draftMembers are members of results that are known from a draft, by method.
var draftMembers = map[string]string{MethodInitialize: "providers", MethodPrompt: "usage"}

// tolerated reports whether a member is known from a draft.
func tolerated(e *event, name string) bool {
	if e.request == nil {
		return slices.Contains(draftTags, e.tag)
	}
	return draftMembers[e.request.Method] == name
}

// unknownMember notes a member that is not known, under the rule that fits.
func (l *ledger) unknownMember(e *event, a *memberSet, path []string) {
	name := path[len(path)-1]
	actual := "there is a member " + strings.Join(path, ".")
	for known := range inOrder(a.members) {
		if known != name && folded(known) == folded(name) {
			l.note(ruleCase, "", fmt.Sprintf("%s, which is written %s", actual, known), e.Entry)
			return
		}
	}
	rule := ruleOwnMember
	switch {
	case e.tag == "session_info_update" && slices.Contains([]string{"sessionId", "cwd", "additionalDirectories"}, name):
		return // which is another rule
	case e.request != nil && e.request.Method == MethodInitialize && (path[0] == "agentCapabilities" || path[0] == "capabilities") && len(path) > 1:
		rule = ruleOwnCapability
	case e.request != nil && e.request.Method == MethodInitialize && slices.Contains(wrongMembers[l.state.version], name):
		return // which is another rule
	case e.update != nil:
		rule = ruleOwnUpdateMember
	}
	l.note(rule, "", actual, e.Entry)
}

// tagNames are the members whose values are words of the protocol.
var tagNames = []string{"sessionUpdate", "type", "kind", "status", "stopReason", "outcome", "priority", "category", "state"}

// lintTags notes values that are those of the protocol in other letters.
func (l *ledger) lintTags(e *event, v map[string]any) {
	for _, name := range tagNames {
		if word, ok := v[name].(string); ok && caseVariant(word) {
			l.note(ruleCase, "", fmt.Sprintf("%s is %s, which is written in snake_case", name, jsont.Brief(word)), e.Entry)
		}
	}
}

// folded returns a name without what tells camelCase from snake_case.
func folded(s string) string {
	return strings.ToLower(strings.NewReplacer("_", "", "-", "").Replace(s))
}

// tagWords are the discriminators and values of the protocol, by how they are
// folded.
var tagWords = sync.OnceValue(func() map[string]string {
	out := map[string]string{}
	for _, v := range []schema.Version{schema.V1, schema.V2} {
		var add func(s *schemaNode)
		add = func(s *schemaNode) {
			if s == nil {
				return
			}
			for _, w := range append(slices.Clone(s.Enum), s.Const) {
				if word, ok := w.(string); ok && strings.Contains(word, "_") {
					out[folded(word)] = word
				}
			}
			for _, p := range s.Properties {
				add(p)
			}
			for _, list := range [][]*schemaNode{s.AllOf, s.AnyOf, s.OneOf} {
				for _, b := range list {
					add(b)
				}
			}
		}
		for _, s := range shapes[v]() {
			add(s)
		}
	}
	return out
})

// caseVariant reports whether a word is one of the protocol in other letters.
func caseVariant(word string) bool {
	known, ok := tagWords()[folded(word)]
	return ok && known != word && strings.IndexFunc(word, unicode.IsUpper) >= 0
}
