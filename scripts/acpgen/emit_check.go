package main

import (
	"fmt"
	"strconv"
)

// check returns the statements that check src, "" if there is nothing to check.
func (t *typ) check(src string) string {
	w := &writer{}
	if t.minLength > 0 {
		w.f("c.Length(len(%s), %d)\n", src, t.minLength)
	}
	switch {
	case t.base == baseMeta:
		w.f("c.RawObject(%s)\n", src)
	case t.raw():
		w.f("c.Raw(%s)\n", src)
	case t.structural():
		w.f("%s.check(c)\n", src)
	case t.base == baseText:
		w.f("c.Text(%s)\n", src)
	case t.base == baseNumber:
		w.f("c.Range(%s, %q, %q)\n", src, t.min, t.max)
	case t.base == baseInt && (t.min != "" || t.max != ""):
		w.f("c.Range(json.Number(strconv.FormatInt(int64(%s), 10)), %q, %q)\n", src, t.min, t.max)
	case t.base == baseUint && (t.min != "" || t.max != ""):
		w.f("c.Range(json.Number(strconv.FormatUint(uint64(%s), 10)), %q, %q)\n", src, t.min, t.max)
	case t.base == baseList:
		if inner := t.elem.check(src + "[i]"); inner != "" {
			w.f("for i := range %s {\nc.Item(i)\n%sc.Leave()\n}\n", src, inner)
		}
	case t.base == baseMap:
		w.f("for i := range %s {\nc.Enter(%s[i].Name)\nc.Text(%s[i].Name)\n%sc.Leave()\n}\n", src, src, src, t.elem.check(src+"[i].Value"))
		w.f("c.Distinct(len(%s), func(i int) string { return %s[i].Name })\n", src, src)
	case t.base == baseNamed && t.def.shape == shapeText:
		w.f("c.Text(string(%s))\n", src)
	case t.base == baseNamed && t.def.shape == shapeEnum:
		w.f("c.Value(%q, string(%s), %s.Known(), %t)\n", t.def.goName, src, src, t.def.open)
	}
	return w.String()
}

// check writes the statements that check a member.
func (f *field) check(w *writer) {
	src := "x." + f.goName
	switch {
	case f.required:
		if inner := f.typ.check(src); inner != "" {
			w.f("c.Enter(%q)\n%sc.Leave()\n", f.name, inner)
		}
	case f.typ.raw():
		w.f("if %s != nil {\nc.Enter(%q)\n%sc.Leave()\n}\n", src, f.name, f.typ.check(src))
	default:
		inner := f.typ.check("v")
		null := ""
		if !f.typ.nullable {
			null = fmt.Sprintf("if %s.IsNull() {\nc.Enter(%q)\nc.Report(\"null\", \"must not be null\")\nc.Leave()\n}\n", src, f.name)
		}
		if inner != "" {
			w.f("if v, ok := %s.Get(); ok {\nc.Enter(%q)\n%sc.Leave()\n}\n", src, f.name, inner)
		}
		w.f("%s", null)
	}
	if f.when != "" {
		w.f("if reason, _ := x.StopReason.Get(); reason != %q && !%s.IsAbsent() {\nc.Enter(%q)\nc.Report(\"\", %q)\nc.Leave()\n}\n",
			f.when, src, f.name, "is only for the stop reason "+strconv.Quote(f.when))
	}
}

func (m *model) checkers(w *writer) {
	for _, d := range m.defs {
		if !d.structural() {
			continue
		}
		if d.fragment && !d.memberful() {
			continue
		}
		w.f("func (x *%s) check(c *wire.Checker) {\n", d.goName)
		for _, f := range d.fields {
			f.check(w)
		}
		if len(d.variants) > 0 {
			m.checkVariants(w, d)
		}
		if d.shape == shapeObject && !d.fragment {
			w.f("for _, m := range x.Extra {\nc.Extra(m.Name, m.Value, %s)\n}\n", d.known())
		}
		w.f("}\n\n")
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

func (m *model) checkVariants(w *writer, d *def) {
	w.f("c.Union(%q", d.goName)
	m.set(w, d)
	w.f(")\n")
	for _, v := range d.variants {
		inner := ""
		switch {
		case v.def != nil:
			if !v.def.fragment || v.def.memberful() {
				inner = fmt.Sprintf("x.%s.check(c)\n", v.goName)
			}
		case v.typ.base == baseNull:
		case d.shape == shapeKinds && !v.typ.raw() && v.typ.base != baseList:
			inner = v.typ.check("*x." + v.goName)
		default:
			inner = v.typ.check("x." + v.goName)
		}
		if inner != "" {
			w.f("if x.%s != nil {\n%s}\n", v.goName, inner)
		}
	}
	if d.tag != "" {
		w.f("if x.Unknown != nil {\nc.Unknown(%q, %q, x.Unknown.Tag, x.Unknown.Raw, %t, %s)\n}\n", d.goName, d.tag, d.open, d.tags())
	}
}
