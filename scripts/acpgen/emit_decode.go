package main

import (
	"fmt"
	"strings"
)

// read writes the statements that set dst to the value that comes next.
func (t *typ) read(w *writer, dst string) { t.readAs(w, dst, "=") }

// declare is read for a dst that is a new variable.
func (t *typ) declare(w *writer, dst string) {
	if t.base != baseList && t.base != baseMap {
		w.f("var %s %s\n", dst, t.goType())
	}
	t.readAs(w, dst, ":=")
}

func (t *typ) readAs(w *writer, dst, assign string) {
	switch {
	case t.raw() && t.base == baseMeta:
		w.f("%s = s.RawObject()\n", dst)
	case t.raw():
		w.f("%s = s.Raw()\n", dst)
	case t.structural():
		w.f("%s.decode(s)\n", dst)
	case t.base == baseList:
		w.f("%s %s %s{}\n", dst, assign, t.goType())
		w.f("for a := s.Array(); a.Next(); {\n")
		if t.elem.simple() {
			w.f("%s = append(%s, %s)\n", dst, dst, t.elem.expr())
		} else {
			t.elem.declare(w, "item")
			w.f("%s = append(%s, item)\n", dst, dst)
		}
		w.f("}\n")
	case t.base == baseMap:
		w.f("%s %s %s{}\n", dst, assign, t.goType())
		w.f("s.Each(func(name string) {\n")
		if t.elem.simple() {
			w.f("value := %s\n", t.elem.expr())
		} else {
			t.elem.declare(w, "value")
		}
		w.f("%s = append(%s, Member[%s]{Name: name, Value: value})\n})\n", dst, dst, t.elem.goType())
	default:
		w.f("%s = %s\n", dst, t.expr())
	}
}

// simple reports whether a value is read by one expression.
func (t *typ) simple() bool {
	return !t.raw() && !t.structural() && t.base != baseList && t.base != baseMap
}

// expr returns the expression that reads a simple value.
func (t *typ) expr() string {
	switch t.base {
	case baseText:
		return "s.String()"
	case baseBool:
		return "s.Bool()"
	case baseInt, baseUint:
		call, same := "s.Int", 64
		if t.base == baseUint {
			call = "s.Uint"
		}
		if t.bits == same {
			return fmt.Sprintf("%s(%d)", call, t.bits)
		}
		return fmt.Sprintf("%s(%s(%d))", t.goType(), call, t.bits)
	case baseNumber:
		return "s.Number()"
	}
	d := t.def
	if d.shape == shapeInteger || d.shape == shapeCodes {
		call := "s.Int"
		if d.typ.base == baseUint {
			call = "s.Uint"
		}
		return fmt.Sprintf("%s(%s(%d))", d.goName, call, d.typ.bits)
	}
	return d.goName + "(s.String())"
}

// read writes the statements that read a member into its field.
func (f *field) read(w *writer) {
	dst := "x." + f.goName
	t := f.typ
	switch {
	case f.required && t.nullDefault:
		w.f("if !s.Null() {\n")
		t.read(w, dst)
		w.f("}\n")
	case f.required || t.raw():
		t.read(w, dst)
	default:
		if t.nullable || t.nullDefault {
			w.f("if s.Null() {\n%s = Null[%s]()\nbreak\n}\n", dst, t.goType())
		}
		if t.simple() {
			w.f("%s = Set(%s)\n", dst, t.expr())
			return
		}
		t.declare(w, "v")
		w.f("%s = Set(v)\n", dst)
	}
}

func (m *model) decoders(w *writer) {
	for _, d := range m.defs {
		switch d.shape {
		case shapeObject:
			m.objectDecoder(w, d)
		case shapeUnion:
			m.unionDecoder(w, d)
		case shapeKeys:
			w.f("func (x *%s) decode(s *wire.Scanner) {\n", d.goName)
			m.chooseKey(w, d, func(v *variant) {
				w.f("x.%s = new(%s)\nx.%s.decode(s)\n", v.goName, v.def.goName, v.goName)
			})
			w.f("}\n\n")
		case shapeKinds:
			m.kindsDecoder(w, d)
		case shapeLists:
			first, second := d.variants[0], d.variants[1]
			w.f("func (x *%s) decode(s *wire.Scanner) {\nif s.ItemHas(%q) {\n", d.goName, second.key)
			second.typ.read(w, "x."+second.goName)
			w.f("return\n}\n")
			first.typ.read(w, "x."+first.goName)
			w.f("}\n\n")
		}
	}
}

// names returns the variable with the names of a definition's members.
func (d *def) names() string { return lowerName(d.goName) + "Names" }

// objectDecoder writes the methods that read an object: member reads the value
// of one member, need checks that all required ones were there.
func (m *model) objectDecoder(w *writer, d *def) {
	w.f("var %s = []string{", d.names())
	for _, f := range d.fields {
		if f.when == "" {
			w.f("%q, ", f.name)
		}
	}
	w.f("}\n\n")
	m.memberDecoder(w, d)
	if !d.fragment {
		m.loop(w, d)
	}
}

func (m *model) memberDecoder(w *writer, d *def) {
	if len(d.fields) == 0 && len(d.variants) == 0 {
		return
	}
	w.f("func (x *%s) member(s *wire.Scanner, o *wire.Object) bool {\nswitch string(o.Name()) {\n", d.goName)
	for _, f := range d.fields {
		w.f("case %q:\n", f.name)
		if f.when != "" {
			w.f("if reason, _ := x.%s.Get(); reason != %q {\nreturn false\n}\n", goName(d.tag), f.when)
		}
		w.f("o.Once(%d)\n", d.base+f.number)
		f.read(w)
	}
	w.f("default:\n")
	var others []string
	if d.flattened() {
		for _, v := range d.variants {
			if v.def.memberful() {
				others = append(others, fmt.Sprintf("x.%s != nil && x.%s.member(s, o)", v.goName, v.goName))
			}
		}
	}
	if others == nil {
		others = []string{"false"}
	}
	w.f("return %s\n", strings.Join(others, " || "))
	w.f("}\nreturn true\n}\n\n")
	if !d.fragment || !d.needful() {
		return
	}
	w.f("func (x *%s) need(o *wire.Object) {\n", d.goName)
	m.need(w, d)
	w.f("}\n\n")
}

// memberful reports whether a definition has a member method.
func (d *def) memberful() bool { return len(d.fields) > 0 || len(d.variants) > 0 }

// needful reports whether a fragment has a need method.
func (d *def) needful() bool {
	for _, f := range d.fields {
		if f.required {
			return true
		}
	}
	for _, v := range d.variants {
		if v.def.needful() {
			return true
		}
	}
	return false
}

func (m *model) need(w *writer, d *def) {
	for _, f := range d.fields {
		if f.required {
			w.f("o.Need(%d, %q)\n", d.base+f.number, f.name)
		}
	}
	if !d.flattened() {
		return
	}
	for _, v := range d.variants {
		if v.def.needful() {
			w.f("if x.%s != nil {\nx.%s.need(o)\n}\n", v.goName, v.goName)
		}
	}
}

// loop writes the decode method of an object.
func (m *model) loop(w *writer, d *def) {
	w.f("func (x *%s) decode(s *wire.Scanner) {\n", d.goName)
	if d.flattened() {
		m.choose(w, d)
	}
	if d.tag != "" && !d.flattened() {
		w.f("if tag, ok := s.OptionalValue(%q); ok {\nx.%s = Set(%s(tag))\n}\n", d.tag, goName(d.tag), goName(d.tag))
	}
	w.f("object := s.Object()\no := &object\nfor o.Next() {\n")
	if d.memberful() {
		w.f("if x.member(s, o) {\ncontinue\n}\n")
	}
	if d.flattened() && d.tag != "" {
		w.f("if x.Unknown != nil {\no.Skip(%s)\ncontinue\n}\n", d.names())
	}
	w.f("if name, value, ok := o.Extra(%s); ok {\nx.Extra = append(x.Extra, Member[json.RawMessage]{Name: name, Value: value})\n}\n}\n", d.known())
	m.need(w, d)
	w.f("}\n\n")
}

// known returns the arguments that name the members which are defined. Those of
// a variant that is not set are not.
func (d *def) known() string {
	if d.flattened() {
		return "x.names()..."
	}
	return d.names()
}

// choose writes the code that sets the variant of a flattened union.
func (m *model) choose(w *writer, d *def) {
	if d.tag == "" {
		m.chooseKey(w, d, func(v *variant) { w.f("x.%s = new(%s)\n", v.goName, v.def.goName) })
		return
	}
	m.switchTag(w, d, func(v *variant) {
		w.f("x.%s = new(%s)\n", v.goName, v.def.goName)
		if outer := v; len(v.def.variants) > 0 {
			m.chooseKey(w, v.def, func(v *variant) { w.f("x.%s.%s = new(%s)\n", outer.goName, v.goName, v.def.goName) })
		}
	}, func() {
		for _, name := range d.needAny {
			w.f("s.Require(%q)\n", name)
		}
		if d.scope != nil {
			m.chooseKey(w, d.scope, func(v *variant) {
				for _, f := range v.def.fields {
					w.f("s.Inspect(%q, %t, func() { ", f.name, f.typ.nullable)
					if f.typ.simple() {
						w.f("_ = %s", f.typ.expr())
					} else {
						f.typ.declare(w, "v")
					}
					w.f(" })\n")
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

func (m *model) unionDecoder(w *writer, d *def) {
	w.f("func (x *%s) decode(s *wire.Scanner) {\n", d.goName)
	m.switchTag(w, d, func(v *variant) {
		w.f("x.%s = new(%s)\nx.%s.decode(s)\n", v.goName, v.def.goName, v.goName)
	}, func() {
		need := ""
		for _, name := range d.needText {
			need += fmt.Sprintf("%q, ", name)
		}
		w.f("x.Unknown = &Unknown{Tag: string(tag), Raw: s.Unknown(%s)}\n", strings.TrimSuffix(need, ", "))
	})
	w.f("}\n\n")
}

func (m *model) kindsDecoder(w *writer, d *def) {
	w.f("func (x *%s) decode(s *wire.Scanner) {\nswitch s.Kind() {\n", d.goName)
	var other *variant
	for _, v := range d.variants {
		if v.typ.raw() {
			other = v
		}
	}
	want := []string{}
	for _, v := range d.variants {
		switch v.typ.base {
		case baseText:
			w.f("case '\"':\nv := s.String()\nx.String = &v\n")
			want = append(want, "a string")
		case baseInt, baseNumber:
			w.f("case '0':\nv := %s\nx.Number = &v\n", v.typ.expr())
			want = append(want, "a number")
		case baseBool:
			w.f("case 't':\nv := s.Bool()\nx.Bool = &v\n")
			want = append(want, "a boolean")
		case baseNull:
			w.f("case 'n':\nx.Null = s.Null()\n")
			want = append(want, "null")
		case baseList:
			w.f("case '[':\n")
			want = append(want, "an array of strings")
			if other != nil {
				w.f("if !s.AllStrings() {\nx.Other = s.Raw()\nreturn\n}\n")
			}
			v.typ.read(w, "x."+v.goName)
		}
	}
	if other != nil {
		w.f("default:\nx.Other = s.Raw()\n")
	} else {
		w.f("default:\ns.Skip()\ns.Fail(%q)\n", "must be "+strings.Join(want, " or "))
	}
	w.f("}\n}\n\n")
}
