package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// A branch is one alternative of an anyOf or oneOf.
type branch struct {
	schema   object
	title    string
	ref      string // the definition it refers to
	tag      string // the discriminator that it fixes
	value    string // to this value
	fallback bool   // it stands for unknown values of the discriminator
}

func newBranch(s object) branch {
	b := branch{schema: s, title: s.text("title"), fallback: s.has("not")}
	if all := s.list("allOf"); len(all) == 1 {
		b.ref = strings.TrimPrefix(all[0].(object).text("$ref"), "#/$defs/")
	}
	for _, p := range s.object("properties") {
		if prop, ok := p.value.(object); ok && prop.has("const") {
			b.tag, b.value = p.name, prop.text("const")
		}
	}
	return b
}

// union reads a definition without members of its own: an enum or a union.
func (m *model) union(d *def, list []any) error {
	branches := make([]branch, len(list))
	var tag string
	objects := 0
	arrays := 0
	consts := 0

	for i, item := range list {
		branches[i] = newBranch(item.(object))
		s := branches[i].schema
		switch {
		case s.has("const"):
			consts++
		case branches[i].ref != "" || s.text("type") == "object":
			objects++
		case s.text("type") == "array":
			arrays++
		}
		if branches[i].tag != "" {
			tag = branches[i].tag
		}
	}

	// The forms of the branches decide the shape of the union.
	switch {
	case consts > 0:
		return m.enum(d, branches)
	case tag != "":
		d.shape = shapeUnion
		return m.tagged(d, tag, branches)
	case arrays == len(list):
		d.shape = shapeLists
		return m.lists(d, branches)
	case objects == len(list):
		d.shape = shapeKeys
		return m.keyed(d, branches)
	case objects == 0:
		d.shape = shapeKinds
		return m.kinds(d, branches)
	case slices.ContainsFunc(branches, func(b branch) bool { return len(b.schema) == 1 && b.title != "" }):
		d.shape, d.open = shapeAny, true // one of the branches takes anything
		return nil
	}
	return errors.New("the union has a form that acpgen does not support")
}

// enum reads the values of an enum. It is open if a branch takes any value.
func (m *model) enum(d *def, branches []branch) error {
	for _, b := range branches {
		switch c := b.schema.get("const").(type) {
		case string:
			d.shape = shapeEnum
			d.values = append(d.values, value{d.goName + goName(c), fmt.Sprintf("%q", c)})
		case json.Number:
			d.shape = shapeCodes
			d.values = append(d.values, value{d.goName + goName(b.title), c.String()})
			d.typ = &typ{base: baseInt, bits: 32}
		case nil:
			d.open = true
		}
	}
	return nil
}

// tagged reads the variants of a union that has a discriminator.
func (m *model) tagged(d *def, tag string, branches []branch) error {
	d.tag = tag
	for _, b := range branches {
		if b.fallback {
			d.open = true
			if err := m.fallback(d, b); err != nil {
				return err
			}
			continue
		}

		v := &variant{tag: b.value, title: b.title}
		name := b.value
		if b.tag == "" {
			name = b.title
		}
		v.goName = goName(name)

		// A variant without a definition gets its own, under a name from inlineNames.
		switch {
		case b.ref != "":
			v.def = m.byName[b.ref]
		default:
			s := append(without(b.schema, "properties"), member{"properties", without(b.schema.object("properties"), tag)})
			inline := inlineNames[d.name+"/"+name]
			if inline == "" {
				return fmt.Errorf("variant %q has no name", name)
			}
			v.def = &def{name: inline, goName: inline, shape: shapeObject}
			fields, err := m.fields(s)
			if err != nil {
				return err
			}
			v.def.fields = fields
			m.defs = append(m.defs, v.def)
		}

		d.variants = append(d.variants, v)
	}
	return nil
}

// fallback reads the members that an unknown variant must have.
func (m *model) fallback(d *def, b branch) error {
	for _, r := range b.schema.list("required") {
		name := r.(string)
		if name == d.tag {
			continue
		}
		t, err := m.typ(b.schema.object("properties").object(name))
		if err != nil {
			return err
		}
		switch {
		case t.base == baseAny:
			d.needAny = append(d.needAny, name)
		case t.base == baseText || t.base == baseNamed:
			d.needText = append(d.needText, name)
		default:
			return fmt.Errorf("an unknown variant needs %s of a type that is not provided for", name)
		}
	}
	if b.schema.has("anyOf") || b.schema.has("oneOf") {
		d.scope = m.byName[d.variants[0].def.name]
	}
	return nil
}

// flatten reads a union whose variants are written into the object of d.
func (m *model) flatten(d *def, s object, list []any) error {
	branches := make([]branch, len(list))
	tag := ""
	for i, item := range list {
		branches[i] = newBranch(item.(object))
		if branches[i].tag != "" {
			tag = branches[i].tag
		}
	}
	switch {
	case tag == "":
		d.exclusive = s.has("oneOf")
		return m.keyed(d, branches)
	case s.object("properties").has(tag):
		return m.reasons(d, tag, branches)
	}
	return m.tagged(d, tag, branches)
}

// size returns how many members an object of d can have.
func (d *def) size() int {
	most := 0
	if d.flattened() {
		for _, v := range d.variants {
			most = max(most, v.def.size())
		}
	}
	return len(d.fields) + most
}

// embed makes the variants of a flattened union fragments of its object.
func (d *def) embed() {
	if !d.flattened() {
		return
	}
	for _, v := range d.variants {
		v.def.fragment = true
		v.def.embed()
	}
}

// reasons reads a union whose discriminator may be absent, and of which most
// variants are nothing but it: it becomes an enum, beside the members that some
// variants have.
func (m *model) reasons(d *def, tag string, branches []branch) error {
	e := &def{name: goName(tag), goName: goName(tag), shape: shapeEnum}

	for _, b := range branches {
		switch {
		case b.fallback:
			e.open = true
		case b.value != "":
			e.values = append(e.values, value{e.goName + goName(b.value), fmt.Sprintf("%q", b.value)})
		}

		// The members of a variant become members of the object, and its definition is removed.
		if b.ref == "" {
			continue
		}
		part, err := m.fields(m.schema.object(b.ref))
		if err != nil {
			return err
		}
		for _, f := range part {
			f.when = b.value
			d.fields = append(d.fields, f)
		}
		m.defs = slices.DeleteFunc(m.defs, func(d *def) bool { return d.name == b.ref })
	}

	for _, f := range d.fields {
		if f.name == tag {
			f.typ = &typ{base: baseNamed, def: e, nullable: true}
			d.tag = tag
		}
	}

	m.defs = append(m.defs, e)
	return nil
}

// keyed reads variants that are told apart by a required member that no variant
// before has.
func (m *model) keyed(d *def, branches []branch) error {
	for i, b := range branches {
		target := m.schema.object(b.ref)
		if target == nil {
			return errors.New("a variant that is no definition")
		}
		v := &variant{goName: goName(b.title), title: b.title, def: m.byName[b.ref]}
		for _, r := range target.list("required") {
			name := r.(string)
			unique := !slices.ContainsFunc(branches, func(o branch) bool {
				return o.ref != b.ref && m.schema.object(o.ref).object("properties").has(name)
			})
			if unique && v.key == "" {
				v.key = name
			}
		}
		if v.key == "" {
			return fmt.Errorf("nothing tells variant %d apart", i)
		}
		d.variants = append(d.variants, v)
	}
	return nil
}

// lists reads a union of arrays, told apart by a member of their items.
func (m *model) lists(d *def, branches []branch) error {
	for _, b := range branches {
		t, err := m.typ(b.schema)
		if err != nil {
			return err
		}
		v := &variant{goName: goName(b.title), title: b.title, typ: t}
		for _, r := range m.schema.object(t.elem.def.name).list("required") {
			name := r.(string)
			if !slices.ContainsFunc(branches, func(o branch) bool {
				ot, err := m.typ(o.schema)
				return err == nil && ot.elem.def != t.elem.def && m.schema.object(ot.elem.def.name).object("properties").has(name)
			}) && v.key == "" {
				v.key = name
			}
		}
		d.variants = append(d.variants, v)
	}
	if len(d.variants) != 2 || d.variants[1].key == "" {
		return errors.New("nothing tells the arrays apart")
	}
	return nil
}

// kinds reads a union of JSON kinds. Of integers and numbers only the numbers
// are kept, which hold both.
func (m *model) kinds(d *def, branches []branch) error {
	numbers := slices.ContainsFunc(branches, func(b branch) bool { return b.schema.text("type") == "number" })

	for _, b := range branches {
		if numbers && b.schema.text("type") == "integer" {
			continue
		}
		t, err := m.typ(without(b.schema, "title"))
		if err != nil {
			return err
		}

		v := &variant{title: b.title, typ: t}
		switch t.base {
		case baseText:
			v.goName = "String"
		case baseInt, baseNumber:
			v.goName = "Number"
		case baseBool:
			v.goName = "Bool"
		case baseList:
			v.goName = "Strings"
		case baseNull:
			v.goName = "Null"
		case baseAny:
			v.goName, d.open = "Other", true
		default:
			return fmt.Errorf("variant %q is of a kind that is not provided for", b.title)
		}

		d.variants = append(d.variants, v)
	}
	return nil
}

func without(o object, name string) object {
	out := object{}
	for _, m := range o {
		if m.name != name {
			out = append(out, m)
		}
	}
	return out
}
