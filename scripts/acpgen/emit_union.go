package main

import (
	"fmt"
	"strings"
)

// The codec of a plain object follows from the tags of its fields; package wire
// has it. This file writes the functions of all others, here called unions: one
// of several variants is set, and decode finds out which.

// union reports whether a definition has generated codec functions.
func (d *def) union() bool {
	return d.structural() && (d.shape != shapeObject || d.flattened() || d.conditional())
}

// conditional reports whether a member is defined for one value of an enum only.
func (d *def) conditional() bool {
	for _, f := range d.fields {
		if f.when != "" {
			return true
		}
	}
	return false
}

// codecs writes the functions of all unions and registers them.
func (m *model) codecs(w *writer) {
	// An alias is registered by the package that defines the type.
	w.f("func init() {\n")
	for _, d := range m.defs {
		switch {
		case d.alias:
		case d.shape == shapeEnum:
			w.f("wire.RegisterEnum(%t, %s.Known)\n", d.open, d.goName)
		case d.union() && !d.fragment:
			w.f("wire.RegisterUnion((*%s).decode, (*%s).encode, (*%s).check)\n", d.goName, d.goName, d.goName)
		}
	}
	w.f("}\n\n")

	for _, d := range m.defs {
		if d.alias || !d.union() || d.fragment {
			continue
		}
		switch {
		case d.conditional():
			m.conditionalCodec(w, d)
		case d.shape == shapeObject:
			m.flattenedCodec(w, d)
		case d.shape == shapeUnion:
			m.taggedCodec(w, d)
		default:
			m.plainUnionCodec(w, d)
		}

		if d.tag != "" && len(d.variants) > 0 {
			w.f("var %s = []string{", d.tags())
			for _, v := range d.variants {
				if v.tag != "" {
					w.f("%q, ", v.tag)
				}
			}
			w.f("}\n\n")
		}
	}
}

// tags returns the variable with the known discriminators of a union.
func (d *def) tags() string { return lowerName(d.goName) + "Tags" }

// isSet returns the condition under which a variant is set.
func (v *variant) isSet(d *def, x string) string {
	if d.shape == shapeKinds && v.typ.base == baseNull {
		return x + "." + v.goName
	}
	return x + "." + v.goName + " != nil"
}

// oneOf writes the call that checks that one variant of x is set.
func (m *model) oneOf(w *writer, call string, d *def, x string) {
	w.f("%s(%q", call, d.goName)
	for _, v := range d.variants {
		w.f(", %s", v.isSet(d, x))
	}
	if d.tag != "" {
		w.f(", %s.Unknown != nil", x)
	}
	w.f(")\n")
}

// taggedCodec writes the functions of a union with a discriminator.
func (m *model) taggedCodec(w *writer, d *def) {
	w.f("func (x *%s) decode(s *wire.Scanner) {\n", d.goName)
	m.switchTag(w, d, func(v *variant) {
		w.f("wire.Decode(s, wire.New(&x.%s))\n", v.goName)
	}, func() {
		need := ""
		for _, name := range d.needText {
			need += fmt.Sprintf("%q, ", name)
		}
		w.f("x.Unknown = &Unknown{Tag: string(tag), Raw: s.Unknown(%s)}\n", strings.TrimSuffix(need, ", "))
	})
	w.f("}\n\n")

	w.f("func (x *%s) encode(e *wire.Encoder) {\n", d.goName)
	w.f("if x.Unknown != nil {\n")
	m.oneOf(w, "e.One", d, "x")
	w.f("e.Object(%q, x.Unknown.Tag, x.Unknown.Raw, %s)\nreturn\n}\n", d.tag, d.tags())
	w.f("e.Begin()\nx.members(e)\ne.Close()\n}\n\n")

	w.f("func (x *%s) members(e *wire.Encoder) {\n", d.goName)
	m.oneOf(w, "e.One", d, "x")
	w.f("switch {\n")
	for _, v := range d.variants {
		w.f("case x.%s != nil:\n", v.goName)
		if v.tag != "" {
			w.f("e.Tag(%q, %q)\n", d.tag, v.tag)
		}
		if v.def.union() {
			w.f("x.%s.members(e)\n", v.goName)
		} else {
			w.f("wire.EncodeMembers(e, x.%s)\n", v.goName)
		}
	}
	w.f("case x.Unknown != nil:\ne.Unknown(%q, x.Unknown.Tag, x.Unknown.Raw, %s)\n}\n}\n\n", d.tag, d.tags())

	w.f("func (x *%s) check(c *wire.Checker) {\n", d.goName)
	m.oneOf(w, "c.Union", d, "x")
	w.f("wire.CheckVariants(c, x.%s)\n", strings.Join(d.variantNames(), ", x."))
	m.checkUnknown(w, d)
	w.f("}\n\n")
}

func (m *model) checkUnknown(w *writer, d *def) {
	w.f("if x.Unknown != nil {\nc.Unknown(%q, %q, x.Unknown.Tag, x.Unknown.Raw, %t, %s)\n}\n", d.goName, d.tag, d.open, d.tags())
}

// flattenedCodec writes the functions of an object that has the members of a
// variant among its own.
func (m *model) flattenedCodec(w *writer, d *def) {
	unknown := "false"
	if d.tag != "" {
		unknown = "x.Unknown != nil"
	}
	w.f("func (x *%s) decode(s *wire.Scanner) {\n", d.goName)
	m.choose(w, d)
	w.f("wire.DecodeObject(s, %s, x, x.fragments()...)\n}\n\n", unknown)

	w.f("func (x *%s) encode(e *wire.Encoder) {\ne.Begin()\n", d.goName)
	m.encodeFragment(w, d, "x")
	w.f("wire.EncodeExtra(e, x, x.fragments()...)\ne.Close()\n}\n\n")

	w.f("func (x *%s) check(c *wire.Checker) {\n", d.goName)
	m.checkFragment(w, d, "x")
	if d.tag != "" {
		m.checkUnknown(w, d)
	}
	w.f("wire.CheckExtra(c, x, x.fragments()...)\n}\n\n")

	w.f("// fragments returns the structs whose members stand in the object of x.\n")
	w.f("func (x *%s) fragments() []any {\nswitch {\n", d.goName)
	for _, v := range d.variants {
		for _, inner := range v.def.variants {
			w.f("case x.%s != nil && x.%s.%s != nil:\nreturn []any{x.%s, x.%s.%s}\n", v.goName, v.goName, inner.goName, v.goName, v.goName, inner.goName)
		}
		w.f("case x.%s != nil:\nreturn []any{x.%s}\n", v.goName, v.goName)
	}
	w.f("}\nreturn nil\n}\n\n")
}

func (m *model) encodeFragment(w *writer, d *def, x string) {
	if len(d.fields) > 0 {
		w.f("wire.EncodeFields(e, %s)\n", x)
	}
	if !d.flattened() {
		return
	}
	m.oneOf(w, "e.One", d, x)
	w.f("switch {\n")
	for _, v := range d.variants {
		w.f("case %s.%s != nil:\n", x, v.goName)
		if v.tag != "" {
			w.f("e.Tag(%q, %q)\n", d.tag, v.tag)
		}
		m.encodeFragment(w, v.def, x+"."+v.goName)
	}
	if d.tag != "" {
		w.f("case %s.Unknown != nil:\ne.Unknown(%q, %s.Unknown.Tag, %s.Unknown.Raw, %s, wire.Names(%s))\n", x, d.tag, x, x, d.tags(), x)
	}
	w.f("}\n")
}

func (m *model) checkFragment(w *writer, d *def, x string) {
	if len(d.fields) > 0 {
		w.f("wire.CheckFields(c, %s)\n", x)
	}
	if !d.flattened() {
		return
	}
	m.oneOf(w, "c.Union", d, x)
	for _, v := range d.variants {
		if len(v.def.fields)+len(v.def.variants) > 0 {
			w.f("if %s.%s != nil {\n", x, v.goName)
			m.checkFragment(w, v.def, x+"."+v.goName)
			w.f("}\n")
		}
	}
}

// choose writes the code that sets the variant of a flattened union.
func (m *model) choose(w *writer, d *def) {
	if d.tag == "" {
		m.chooseKey(w, d, func(v *variant) { w.f("wire.New(&x.%s)\n", v.goName) })
		return
	}
	m.switchTag(w, d, func(v *variant) {
		w.f("wire.New(&x.%s)\n", v.goName)
		if outer := v; len(v.def.variants) > 0 {
			m.chooseKey(w, v.def, func(v *variant) { w.f("wire.New(&x.%s.%s)\n", outer.goName, v.goName) })
		}
	}, func() {
		for _, name := range d.needAny {
			w.f("s.Require(%q)\n", name)
		}
		if d.scope != nil {
			m.chooseKey(w, d.scope, func(v *variant) {
				for _, f := range v.def.fields {
					w.f("s.Inspect(%q, %t, new(%s))\n", f.name, f.typ.nullable, f.typ.goType())
				}
			})
		}
		w.f("x.Unknown = &Unknown{Tag: string(tag), Raw: s.Peek()}\n")
	})
}

// chooseKey writes the switch over the members that tell variants apart.
func (m *model) chooseKey(w *writer, d *def, set func(*variant)) {
	w.f("switch s.Choose(%t", d.exclusive)
	for _, v := range d.variants {
		w.f(", %q", v.key)
	}
	w.f(") {\n")
	for _, v := range d.variants {
		w.f("case %q:\n", v.key)
		set(v)
	}
	w.f("}\n")
}

// switchTag writes the switch over the discriminator.
func (m *model) switchTag(w *writer, d *def, set func(*variant), unknown func()) {
	var def *variant
	for _, v := range d.variants {
		if v.tag == "" {
			def = v
		}
	}
	if def == nil {
		w.f("tag := s.Tag(%q)\nif s.Failed() {\nreturn\n}\nswitch string(tag) {\n", d.tag)
	} else {
		w.f("tag, ok := s.OptionalTag(%q)\nif s.Failed() {\nreturn\n}\nswitch {\n", d.tag)
	}
	for _, v := range d.variants {
		switch {
		case def == nil:
			w.f("case %q:\n", v.tag)
		case v == def && m.namesDefault(d, v):
			w.f("case !ok, string(tag) == %q:\nif ok {\ns.Untag()\n}\n", v.title)
		case v == def:
			w.f("case !ok:\n")
		default:
			w.f("case string(tag) == %q:\n", v.tag)
		}
		set(v)
	}
	w.f("default:\n")
	unknown()
	w.f("}\n")
}

// namesDefault reports whether the variant without discriminator may also have
// its title there: in a closed union readers ignore it, and so writers write it.
func (m *model) namesDefault(d *def, v *variant) bool { return !d.open && v.title != "" }

// plainUnionCodec writes the functions of a union without discriminator.
func (m *model) plainUnionCodec(w *writer, d *def) {
	w.f("func (x *%s) decode(s *wire.Scanner) {\n", d.goName)
	switch d.shape {
	case shapeKeys:
		m.chooseKey(w, d, func(v *variant) { w.f("wire.Decode(s, wire.New(&x.%s))\n", v.goName) })
	case shapeLists:
		w.f("if s.ItemHas(%q) {\nwire.Decode(s, &x.%s)\nreturn\n}\n", d.variants[1].key, d.variants[1].goName)
		w.f("wire.Decode(s, &x.%s)\n", d.variants[0].goName)
	case shapeKinds:
		m.switchKind(w, d)
	}
	w.f("}\n\n")

	w.f("func (x *%s) encode(e *wire.Encoder) {\n", d.goName)
	m.oneOf(w, "e.One", d, "x")
	w.f("switch {\n")
	for _, v := range d.variants {
		w.f("case %s:\n", v.isSet(d, "x"))
		if v.def == nil && v.typ.base == baseNull {
			w.f("e.Null()\n")
		} else {
			w.f("wire.Encode(e, %s)\n", v.pointer(d))
		}
	}
	w.f("}\n}\n\n")

	w.f("func (x *%s) check(c *wire.Checker) {\n", d.goName)
	m.oneOf(w, "c.Union", d, "x")
	for _, v := range d.variants {
		if v.def != nil || v.typ.base != baseNull {
			w.f("if %s {\nwire.Check(c, %s)\n}\n", v.isSet(d, "x"), v.pointer(d))
		}
	}
	w.f("}\n\n")
}

// pointer returns a pointer to the value of a variant.
func (v *variant) pointer(d *def) string {
	if v.def == nil && v.inline(d) {
		return "&x." + v.goName
	}
	return "x." + v.goName
}

// inline reports whether a variant without definition is no pointer in Go: nil
// says already that it is not set.
func (v *variant) inline(d *def) bool {
	return d.shape == shapeLists || v.typ.raw() || v.typ.base == baseList
}

// switchKind writes the switch over the kind of a JSON value.
func (m *model) switchKind(w *writer, d *def) {
	kinds := map[base][2]string{
		baseText: {`'"'`, "a string"}, baseInt: {"'0'", "a number"}, baseNumber: {"'0'", "a number"}, baseBool: {"'t'", "a boolean"},
		baseNull: {"'n'", "null"}, baseList: {"'['", "an array of strings"},
	}

	w.f("switch s.Kind() {\n")
	var want []string
	other := false

	for _, v := range d.variants {
		kind, ok := kinds[v.typ.base]
		if !ok {
			other = true
			continue
		}
		w.f("case %s:\n", kind[0])
		want = append(want, kind[1])
		switch {
		case v.typ.base == baseNull:
			w.f("x.Null = s.Null()\n")
		case v.inline(d):
			if d.open {
				w.f("if !s.AllStrings() {\nx.Other = s.Raw()\nreturn\n}\n")
			}
			w.f("wire.Decode(s, &x.%s)\n", v.goName)
		default:
			w.f("wire.Decode(s, wire.New(&x.%s))\n", v.goName)
		}
	}

	// Without a variant for other values, a value of any other kind is a fault.
	if other {
		w.f("default:\nx.Other = s.Raw()\n")
	} else {
		w.f("default:\ns.Skip()\ns.Fail(%q)\n", "must be "+strings.Join(want, " or "))
	}
	w.f("}\n")
}

// conditionalCodec writes the functions of an object in which some members are
// defined only if an enum, d.tag, has one value. They are read and written
// through a fragment; with any other value a member of that name is an extra.
func (m *model) conditionalCodec(w *writer, d *def) {
	fragment := lowerName(d.goName) + "Fragment"
	when, enum := "", goName(d.tag)
	var set, get []string
	w.f("// %s has the members of %s that one value of %s defines.\ntype %s struct {\n", fragment, d.goName, enum, fragment)
	for _, f := range d.fields {
		if f.when != "" {
			when = f.when
			w.f("%s %s %s\n", f.goName, f.goType(), f.tag())
			set = append(set, "x."+f.goName)
			get = append(get, "f."+f.goName)
		}
	}
	w.f("}\n\n")
	w.f("func (x *%s) decode(s *wire.Scanner) {\n", d.goName)
	w.f("if value, _ := s.OptionalValue(%q); value != %q {\nwire.DecodeObject(s, false, x)\nreturn\n}\n", d.tag, when)
	w.f("var f %s\nwire.DecodeObject(s, false, x, &f)\n%s = %s\n}\n\n", fragment, strings.Join(set, ", "), strings.Join(get, ", "))

	w.f("func (x *%s) encode(e *wire.Encoder) {\ne.Begin()\nx.members(e)\ne.Close()\n}\n\n", d.goName)
	w.f("func (x *%s) members(e *wire.Encoder) {\n", d.goName)
	w.f("wire.EncodeFields(e, x)\nwire.EncodeFields(e, &%s{%s})\nwire.EncodeExtra(e, x)\n}\n\n", fragment, strings.Join(set, ", "))

	w.f("func (x *%s) check(c *wire.Checker) {\n", d.goName)
	w.f("wire.CheckFields(c, x)\nwire.CheckFields(c, &%s{%s})\n", fragment, strings.Join(set, ", "))
	for _, f := range d.fields {
		if f.when == "" {
			continue
		}
		w.f("if reason, _ := x.%s.Get(); reason != %q && !x.%s.IsAbsent() {\nc.Enter(%q)\nc.Report(\"\", %q)\nc.Leave()\n}\n",
			enum, f.when, f.goName, f.name, fmt.Sprintf("is only for the stop reason %q", f.when))
	}
	w.f("wire.CheckExtra(c, x)\n}\n\n")
}
