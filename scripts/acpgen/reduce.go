package main

import (
	"encoding/json"
	"fmt"
	"strings"
)

// dropped are the keywords that say nothing about structure.
var dropped = map[string]bool{"description": true, "x-docs-ignore": true}

// unstable are the definitions taken from the unstable schema, all for
// session/fork. They are marked in the copy.
var unstable = []string{"SessionForkCapabilities", "ForkSessionRequest", "ForkSessionResponse"}

// reduce returns the structure of a stable schema with session/fork added, one
// definition per line.
func reduce(stableRaw, unstableRaw []byte) ([]byte, error) {
	doc, err := parse(stableRaw)
	if err != nil {
		return nil, err
	}
	more, err := parse(unstableRaw)
	if err != nil {
		return nil, err
	}

	doc, more = structure(doc), structure(more)
	defs, moreDefs := doc.object("$defs"), more.object("$defs")
	for _, name := range unstable {
		def := moreDefs.object(name)
		if def == nil {
			return nil, fmt.Errorf("the unstable schema has no %s", name)
		}
		if defs.has(name) {
			return nil, fmt.Errorf("%s is stable now: take it off the list", name)
		}
		defs = append(defs, member{name, def.set("x-unstable", true)})
	}

	for _, name := range unstable {
		def := defs.object(name)
		defs.set(name, def.set("properties", resolvable(def.object("properties"), defs)))
	}

	capabilities := defs.object("SessionCapabilities")
	fork := moreDefs.object("SessionCapabilities").object("properties").object("fork")
	if fork == nil {
		return nil, fmt.Errorf("the unstable schema has no SessionCapabilities.fork")
	}
	defs.set("SessionCapabilities", capabilities.set("properties", beforeMeta(capabilities.object("properties"), member{"fork", fork})))

	addAlternative(defs.object("ClientRequest").object("properties").object("params").list("anyOf")[0].(object), "ForkSessionRequest")
	addAlternative(defs.object("AgentResponse").list("anyOf")[0].(object).object("properties").object("result"), "ForkSessionResponse")
	return lines(doc.set("$defs", defs))
}

// structure returns a schema without the members that do not concern structure.
func structure(schema object) object {
	out := object{}
	for _, m := range schema {
		if dropped[m.name] || (m.name == "title" && m.value == "Agent Client Protocol") {
			continue
		}

		switch v := m.value.(type) {
		case object:
			switch m.name {
			// The names in these objects are data: a property may have the name of a keyword.
			case "properties", "$defs":
				named := object{}
				for _, p := range v {
					if s, ok := p.value.(object); ok {
						p.value = structure(s)
					}
					named = append(named, p)
				}
				m.value = named
			case "default":
			default:
				m.value = structure(v)
			}

		case []any:
			list := make([]any, len(v))
			for i, item := range v {
				if s, ok := item.(object); ok {
					item = structure(s)
				}
				list[i] = item
			}
			m.value = list
		}

		out = append(out, m)
	}
	return out
}

// resolvable returns the properties whose definitions are all there: an unstable
// message may refer to others that are not taken over.
func resolvable(props, defs object) object {
	out := object{}
	for _, p := range props {
		raw, err := json.Marshal(p.value)
		if err != nil {
			continue
		}
		ok := true
		for _, ref := range strings.Split(string(raw), `"$ref":"#/$defs/`)[1:] {
			name, _, _ := strings.Cut(ref, `"`)
			ok = ok && defs.has(name)
		}
		if ok {
			out = append(out, p)
		}
	}
	return out
}

func beforeMeta(props object, m member) object {
	out := object{}
	for _, p := range props {
		if p.name == "_meta" {
			out = append(out, m)
		}
		out = append(out, p)
	}
	return out
}

// addAlternative adds a definition to an anyOf, before the extension method that
// is always last.
func addAlternative(schema object, name string) {
	list := schema.list("anyOf")
	ref := object{{"title", name}, {"allOf", []any{object{{"$ref", "#/$defs/" + name}}}}}
	last := len(list) - 1
	schema.set("anyOf", append(append(append([]any{}, list[:last]...), ref), list[last]))
}

// lines writes a schema with one definition per line.
func lines(doc object) ([]byte, error) {
	var b strings.Builder
	b.WriteString("{\n")
	for _, m := range doc {
		if m.name == "$defs" {
			continue
		}
		raw, err := json.Marshal(m.value)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&b, "%q:%s,\n", m.name, raw)
	}
	b.WriteString("\"$defs\":{\n")
	defs := doc.object("$defs")
	for i, m := range defs {
		raw, err := json.Marshal(m.value)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&b, "%q:%s", m.name, raw)
		if i < len(defs)-1 {
			b.WriteString(",")
		}
		b.WriteString("\n")
	}
	b.WriteString("}}\n")
	return []byte(b.String()), nil
}
