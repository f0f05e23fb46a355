package compat

import (
	"encoding/json"
	"maps"
	"slices"
)

// search returns a value that sub takes and sup refuses.
func (g *generator) search(sub, sup conjunction) (any, bool) {
	for _, v := range g.values(sub, sup, 0) {
		if !takes(sup, v) {
			return v, true
		}
	}
	return nil, false
}

// example returns a value of the compared root that shows a gap: sub takes it and sup refuses
// it. It first searches at the place of the gap and puts what it finds into a value of the
// root; then it searches the root.
func (g *generator) example(root, rootSup conjunction, found *gap) (any, bool) {
	g.reset()
	if local, ok := g.search(found.sub, found.sup); ok {
		for _, v := range g.embed(root, rootSup, found.at.path, local) {
			if takes(root, v) && !takes(rootSup, v) {
				return v, true
			}
		}
	}
	g.reset()
	return g.search(root, rootSup)
}

// maxBases is the number of values that a found value is put into, and of places in an array.
const maxBases = 6

// embed returns values of a schema that have a given value at the end of a path.
func (g *generator) embed(sub, sup conjunction, path []string, local any) []any {
	if len(path) == 0 {
		return []any{local}
	}
	n := normalise(sub)
	h := normalise(sup)
	step := path[0]
	var inner []any
	switch step {
	case itemStep:
		inner = g.embed(n.item(-1), h.item(-1), path[1:], local)
	case "*":
		step = "extra"
		fallthrough
	default:
		inner = g.embed(n.property(step), h.property(step), path[1:], local)
	}

	var out []any
	bases := g.bases(sub, sup)
	if len(bases) == 0 && step != itemStep {
		bases = []any{g.around(n, h, step)}
	}
	for _, base := range bases {
		for _, v := range inner {
			if len(out) > maxValues {
				break
			}
			switch b := base.(type) {
			case map[string]any:
				if step != itemStep {
					object := maps.Clone(b)
					object[step] = v
					out = append(out, object)
				}
			case []any:
				if step == itemStep {
					out = append(out, []any{v}, append(slices.Clone(b), v))
					for i := range min(len(b), maxBases) {
						array := slices.Clone(b)
						array[i] = v
						out = append(out, array)
					}
				}
			}
		}
	}
	if step == itemStep {
		for _, v := range inner {
			out = append(out, []any{v})
		}
	}
	if len(out) > maxValues {
		out = out[:maxValues]
	}
	return out
}

// around returns an object with the required properties of a schema apart from one. A value of
// that one may lie too deep to be made, although it was found.
func (g *generator) around(n, h *normal, step string) map[string]any {
	out := map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(n.required)) {
		if name == step {
			continue
		}
		if values := g.values(n.property(name), h.property(name), 1); len(values) > 0 {
			out[name] = usual(h, name, values)
		}
	}
	return out
}

// bases returns a few values of sub, those first that sup takes as well.
func (g *generator) bases(sub, sup conjunction) []any {
	var good, other []any
	for _, v := range g.values(sub, sup, 0) {
		t := typeOfValue(v)
		switch {
		case t != isObject && t != isArray:
		case takes(sup, v):
			good = append(good, v)
		default:
			other = append(other, v)
		}
	}
	all := append(good[:min(len(good), maxBases)], other[:min(len(other), maxBases)]...)
	return all
}

// rawOf returns the text of a value.
func rawOf(v any) json.RawMessage {
	text, err := json.Marshal(v)
	if err != nil {
		return json.RawMessage("null")
	}
	return text
}
