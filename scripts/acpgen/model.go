package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// A model describes the Go types of one version.
type model struct {
	version int
	schema  object // the definitions
	defs    []*def
	byName  map[string]*def
	uses    map[*def][]string // the places where a definition is used
}

// A shape is the form that a definition has in Go.
type shape int

const (
	shapeText    shape = iota // a string type
	shapeInteger              // an integer type
	shapeEnum                 // a string type with constants
	shapeCodes                // an integer type with constants
	shapeObject               // a struct, perhaps with the variants of a union in it
	shapeUnion                // a struct with one pointer per variant, told apart by a discriminator
	shapeKeys                 // the same, told apart by which members are there
	shapeKinds                // the same, told apart by the kind of JSON value
	shapeLists                // the same for two arrays, told apart by their first item
	shapeAny                  // raw JSON
)

// A def is a definition of the schema, or a variant that the schema does not name.
type def struct {
	name     string // in the schema
	goName   string
	shape    shape
	typ      *typ // of a shapeInteger
	open     bool // enums and unions: unknown values are legal
	method   string
	side     string
	unstable bool

	// A fragment is written into the object of another definition and has no
	// object of its own.
	fragment bool

	// An alias is equal to the definition of that name in the version before.
	alias bool

	values []value // of enums

	fields []*field

	// Variants, if there are any.
	tag       string     // the discriminator
	variants  []*variant // in the order of the schema
	exclusive bool       // of shapeKeys: exactly one
	needText  []string   // members that an unknown variant needs, strings
	needAny   []string   // the same, of any kind
	scope     *def       // an unknown variant needs one of that definition's variants
}

type value struct {
	goName string
	text   string // as in Go source
}

type field struct {
	name     string // in JSON
	goName   string
	required bool
	typ      *typ
	when     string // the value that the enum before it must have for this member to be defined
}

type variant struct {
	tag    string // "" if the variant has none
	title  string // the name of a variant without tag
	goName string
	def    *def   // nil for a bare JSON kind
	typ    *typ   // of shapeKinds and shapeLists
	key    string // of shapeKeys and shapeLists: the member that only this one has
}

// base is the kind of a typ.
type base int

const (
	baseText base = iota
	baseBool
	baseInt
	baseUint
	baseNumber
	baseAny
	baseMeta
	baseNamed
	baseList
	baseMap
	baseNull
)

// A typ is the type of a member or item.
type typ struct {
	base        base
	bits        int
	def         *def
	elem        *typ
	nullable    bool
	nullDefault bool // null is read as the default
	min, max    string
	minLength   int
}

// frames are definitions that belong to JSON-RPC, and the extension points that
// are any JSON.
var frames = []string{
	"AgentRequest", "AgentResponse", "AgentNotification", "ClientRequest", "ClientResponse", "ClientNotification",
	"ExtRequest", "ExtResponse", "ExtNotification",
}

func newModel(version int, doc object) (*model, error) {
	m := &model{version: version, schema: doc.object("$defs"), byName: map[string]*def{}, uses: map[*def][]string{}}
	for _, d := range m.schema {
		if slices.Contains(frames, d.name) {
			continue
		}
		def := &def{name: d.name, goName: goName(d.name)}
		m.defs = append(m.defs, def)
		m.byName[d.name] = def
	}
	for _, d := range slices.Clone(m.defs) {
		if err := m.fill(d, m.schema.object(d.name)); err != nil {
			return nil, fmt.Errorf("%s: %w", d.name, err)
		}
	}
	for _, d := range m.defs {
		d.embed()
		m.note(d)
	}
	for _, d := range m.defs {
		if n := d.size(); n > 64 {
			return nil, fmt.Errorf("%s has %d members, but the set of those seen has room for 64", d.name, n)
		}
	}
	return m, nil
}

// fill reads the schema of a definition.
func (m *model) fill(d *def, s object) error {
	d.method, d.side = s.text("x-method"), s.text("x-side")
	d.unstable = s.get("x-unstable") == true
	branches := s.list("anyOf")
	if branches == nil {
		branches = s.list("oneOf")
	}
	var err error
	switch {
	case branches == nil && s.text("type") == "string":
		d.shape = shapeText
	case branches == nil && s.text("type") == "integer":
		d.shape = shapeInteger
		d.typ, err = m.typ(s)
	case branches == nil && s.text("type") == "object":
		d.shape = shapeObject
		d.fields, err = m.fields(s)
	case branches == nil:
		return fmt.Errorf("the schema has a form that acpgen does not support: %v", s)
	case s.has("properties"):
		d.shape = shapeObject
		if d.fields, err = m.fields(s); err == nil {
			err = m.flatten(d, s, branches)
		}
	default:
		err = m.union(d, branches)
	}
	return err
}

// fields returns the members of an object.
func (m *model) fields(s object) ([]*field, error) {
	var out []*field
	for _, p := range s.object("properties") {
		prop, _ := p.value.(object)
		t, err := m.typ(prop)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.name, err)
		}
		if p.name == "_meta" {
			t = &typ{base: baseMeta, nullable: true}
		}
		out = append(out, &field{
			name: p.name, goName: goName(p.name), typ: t,
			required: slices.Contains(s.list("required"), any(p.name)),
		})
	}
	return out, nil
}

// typ returns the type that a schema of a member or item describes.
func (m *model) typ(s object) (*typ, error) {
	if all := s.list("allOf"); len(all) == 1 {
		t, err := m.typ(all[0].(object))
		if err == nil {
			t.nullDefault = s.has("x-deserialize-default-on-null")
		}
		return t, err
	}
	if any := s.list("anyOf"); len(any) == 2 && any[1].(object).text("type") == "null" {
		t, err := m.typ(any[0].(object))
		if err == nil {
			t.nullable = true
		}
		return t, err
	}
	if ref, ok := strings.CutPrefix(s.text("$ref"), "#/$defs/"); ok {
		d := m.byName[ref]
		if d == nil {
			return nil, fmt.Errorf("no definition %s", ref)
		}
		return &typ{base: baseNamed, def: d}, nil
	}
	return m.plainTyp(s)
}

// plainTyp returns the type of a schema that refers to no definition.
func (m *model) plainTyp(s object) (*typ, error) {
	t := &typ{nullDefault: s.has("x-deserialize-default-on-null"), min: number(s, "minimum"), max: number(s, "maximum")}

	// A type is a name, or a list with a name and null.
	kind := s.text("type")
	for _, k := range s.list("type") {
		if k == "null" {
			t.nullable = true
		} else {
			kind = k.(string)
		}
	}

	var err error
	switch kind {
	case "":
		t.base = baseAny
	case "null":
		t.base = baseNull
	case "string":
		t.base = baseText
		t.minLength = int(integer(s, "minLength"))
	case "boolean":
		t.base = baseBool
	case "number":
		t.base = baseNumber
	case "integer":
		err = t.setInteger(s.text("format"))
	case "array":
		items, _ := s.get("items").(object)
		t.base = baseList
		t.minLength = int(integer(s, "minItems"))
		t.elem, err = m.typ(items)
	case "object":
		values, ok := s.get("additionalProperties").(object)
		if !ok {
			t.base = baseMeta
			break
		}
		t.base = baseMap
		t.elem, err = m.typ(values)
	default:
		err = fmt.Errorf("the type %q is not supported", kind)
	}
	if err != nil {
		return nil, err
	}
	return t, nil
}

// setInteger makes t a whole number of a format such as uint16. A bound that follows from
// the format is left out.
func (t *typ) setInteger(format string) error {
	t.base, t.bits = baseInt, 64
	name, unsigned := strings.CutPrefix(format, "u")
	if unsigned {
		t.base = baseUint
		if t.min == "0" {
			t.min = ""
		}
	}
	if bits, ok := strings.CutPrefix(name, "int"); ok && bits != "" {
		n, err := strconv.Atoi(bits)
		if err != nil {
			return fmt.Errorf("the format %q is not supported", format)
		}
		t.bits = n
	}
	if t.base == baseUint && t.max == strconv.FormatUint(1<<t.bits-1, 10) {
		t.max = ""
	}
	return nil
}

func number(s object, name string) string {
	n, _ := s.get(name).(json.Number)
	return strings.TrimSuffix(string(n), ".0")
}

func integer(s object, name string) int64 {
	n, _ := s.get(name).(json.Number)
	i, _ := n.Int64()
	return i
}

// note records where d uses other definitions.
func (m *model) note(d *def) {
	for _, f := range d.fields {
		m.noteType(f.typ, d.goName+"."+f.name)
	}
	for _, v := range d.variants {
		place := "the union " + d.goName
		if v.def != nil {
			m.uses[v.def] = appendNew(m.uses[v.def], place)
		}
		if v.typ != nil {
			m.noteType(v.typ, place)
		}
	}
	if d.scope != nil {
		m.noteType(&typ{base: baseNamed, def: d.scope}, d.goName)
	}
}

func (m *model) noteType(t *typ, place string) {
	if t.def != nil {
		m.uses[t.def] = appendNew(m.uses[t.def], place)
	}
	if t.elem != nil {
		m.noteType(t.elem, place)
	}
}

func appendNew(list []string, s string) []string {
	if slices.Contains(list, s) {
		return list
	}
	return append(list, s)
}
