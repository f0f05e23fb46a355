package main

import "fmt"

// write writes the statements that encode src.
func (t *typ) write(w *writer, src string) {
	switch {
	case t.raw():
		w.f("e.Raw(%s)\n", src)
	case t.structural():
		w.f("%s.encode(e)\n", src)
	case t.base == baseText:
		w.f("e.String(%s)\n", src)
	case t.base == baseBool:
		w.f("e.Bool(%s)\n", src)
	case t.base == baseInt:
		w.f("e.Int(%s)\n", convert("int64", t.bits == 64, src))
	case t.base == baseUint:
		w.f("e.Uint(%s)\n", convert("uint64", t.bits == 64, src))
	case t.base == baseNumber:
		w.f("e.Number(%s)\n", src)
	case t.base == baseList:
		w.f("e.BeginArray()\nfor i := range %s {\ne.Item(i)\n", src)
		t.elem.write(w, src+"[i]")
		w.f("}\ne.CloseArray()\n")
	case t.base == baseMap:
		w.f("e.Begin()\nfor i := range %s {\ne.AnyName(%s[i].Name)\n", src, src)
		t.elem.write(w, src+"[i].Value")
		w.f("}\ne.Close()\n")
	case t.def.shape == shapeInteger || t.def.shape == shapeCodes:
		if t.def.typ.base == baseUint {
			w.f("e.Uint(uint64(%s))\n", src)
		} else {
			w.f("e.Int(int64(%s))\n", src)
		}
	default:
		w.f("e.String(string(%s))\n", src)
	}
}

func convert(to string, same bool, src string) string {
	if same {
		return src
	}
	return fmt.Sprintf("%s(%s)", to, src)
}

// write writes the statements that encode a member.
func (f *field) write(w *writer) {
	src := "x." + f.goName
	switch {
	case f.required && f.typ.raw():
		w.f("e.Name(%q)\n", f.name)
		f.typ.write(w, src)
	case f.typ.raw():
		w.f("if %s != nil {\ne.Name(%q)\n", src, f.name)
		f.typ.write(w, src)
		w.f("}\n")
	case f.required:
		w.f("e.Name(%q)\n", f.name)
		f.typ.write(w, src)
	default:
		w.f("if v, ok := %s.Get(); ok {\ne.Name(%q)\n", src, f.name)
		f.typ.write(w, "v")
		w.f("} else if %s.IsNull() {\ne.Name(%q)\ne.Null()\n}\n", src, f.name)
	}
}

func (m *model) encoders(w *writer) {
	for _, d := range m.defs {
		switch d.shape {
		case shapeObject:
			m.objectEncoder(w, d)
		case shapeUnion:
			m.unionEncoder(w, d)
		case shapeKeys, shapeLists, shapeKinds:
			w.f("func (x *%s) encode(e *wire.Encoder) {\ne.One(%q", d.goName, d.goName)
			m.set(w, d)
			w.f(")\nswitch {\n")
			for _, v := range d.variants {
				w.f("case %s:\n", v.isSet(d))
				switch {
				case v.def != nil:
					w.f("x.%s.encode(e)\n", v.goName)
				case v.typ.base == baseNull:
					w.f("e.Null()\n")
				case d.shape == shapeKinds && !v.typ.raw() && v.typ.base != baseList:
					v.typ.write(w, "*x."+v.goName)
				default:
					v.typ.write(w, "x."+v.goName)
				}
			}
			w.f("}\n}\n\n")
		}
	}
}

// isSet returns the condition under which a variant is set.
func (v *variant) isSet(d *def) string {
	if d.shape == shapeKinds && v.typ.base == baseNull {
		return "x." + v.goName
	}
	return "x." + v.goName + " != nil"
}

// set writes the conditions of all variants as arguments.
func (m *model) set(w *writer, d *def) {
	for _, v := range d.variants {
		w.f(", %s", v.isSet(d))
	}
	if d.tag != "" {
		w.f(", x.Unknown != nil")
	}
}

func (m *model) objectEncoder(w *writer, d *def) {
	if !d.fragment {
		w.f("func (x *%s) encode(e *wire.Encoder) {\ne.Begin()\nx.members(e)\ne.Close()\n}\n\n", d.goName)
	}
	if d.fragment && !d.memberful() {
		return
	}
	w.f("func (x *%s) members(e *wire.Encoder) {\n", d.goName)
	for _, f := range d.fields {
		f.write(w)
	}
	if d.flattened() {
		w.f("e.One(%q", d.goName)
		m.set(w, d)
		w.f(")\nswitch {\n")
		for _, v := range d.variants {
			w.f("case x.%s != nil:\n", v.goName)
			if v.tag != "" {
				w.f("e.Tag(%q, %q)\n", d.tag, v.tag)
			}
			if v.def.memberful() {
				w.f("x.%s.members(e)\n", v.goName)
			}
		}
		if d.tag != "" {
			w.f("case x.Unknown != nil:\ne.Unknown(%q, x.Unknown.Tag, x.Unknown.Raw, %s, %s)\n", d.tag, d.tags(), d.names())
		}
		w.f("}\n")
	}
	if !d.fragment {
		w.f("for _, m := range x.Extra {\ne.Extra(m.Name, m.Value, %s)\n}\n", d.known())
	}
	w.f("}\n\n")
	if d.flattened() && !d.fragment {
		m.namesMethod(w, d)
	}
}

// namesMethod writes the method that tells which members are defined, given the
// variant that is set.
func (m *model) namesMethod(w *writer, d *def) {
	w.f("func (x *%s) names() [][]string {\nnames := [][]string{%s}\nswitch {\n", d.goName, d.names())
	for _, v := range d.variants {
		if !v.def.memberful() {
			continue
		}
		w.f("case x.%s != nil:\nnames = append(names, %s)\n", v.goName, v.def.names())
		if len(v.def.variants) == 0 {
			continue
		}
		w.f("switch {\n")
		for _, inner := range v.def.variants {
			w.f("case x.%s.%s != nil:\nnames = append(names, %s)\n", v.goName, inner.goName, inner.def.names())
		}
		w.f("}\n")
	}
	w.f("}\nreturn names\n}\n\n")
}

// tags returns the variable with the known discriminators of a union.
func (d *def) tags() string { return lowerName(d.goName) + "Tags" }

func (m *model) unionEncoder(w *writer, d *def) {
	w.f("func (x *%s) encode(e *wire.Encoder) {\n", d.goName)
	w.f("if x.Unknown != nil {\ne.One(%q", d.goName)
	m.set(w, d)
	w.f(")\ne.Object(%q, x.Unknown.Tag, x.Unknown.Raw, %s)\nreturn\n}\n", d.tag, d.tags())
	w.f("e.Begin()\nx.members(e)\ne.Close()\n}\n\n")
	w.f("func (x *%s) members(e *wire.Encoder) {\ne.One(%q", d.goName, d.goName)
	m.set(w, d)
	w.f(")\nswitch {\n")
	for _, v := range d.variants {
		w.f("case x.%s != nil:\n", v.goName)
		if v.tag != "" {
			w.f("e.Tag(%q, %q)\n", d.tag, v.tag)
		}
		w.f("x.%s.members(e)\n", v.goName)
	}
	w.f("case x.Unknown != nil:\ne.Unknown(%q, x.Unknown.Tag, x.Unknown.Raw, %s)\n}\n}\n\n", d.tag, d.tags())
}
