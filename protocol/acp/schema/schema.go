// Package schema holds the JSON schemas of the Agent Client Protocol, reduced to
// their structure, and tables of their methods, enums and unions.
//
// The schemas are those of the npm package that [Source] names, in both versions:
// the stable definitions, and those of session/fork, which carry "x-unstable".
// Descriptions are left out. Beyond JSON Schema a definition may have "x-method"
// and "x-side", the method it belongs to and the side that handles it.
//
// The package does not validate messages: packages acpv1 and acpv2 do, and any JSON
// Schema validator can with [Version.Document].
package schema

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// A Version is a version of the protocol.
type Version int

// The versions that the package has schemas of.
const (
	V1 Version = 1
	V2 Version = 2
)

var (
	//go:embed v1.json
	v1 []byte
	//go:embed v2.json
	v2 []byte
	//go:embed pin.json
	pin []byte
)

// A Package is a package of the npm registry, pinned by its integrity value.
type Package struct {
	Name      string `json:"package"`
	Version   string `json:"version"`
	Integrity string `json:"integrity"` // sha512-... of the tarball, in base64
}

// Source returns the package that the schemas were taken from.
func Source() Package {
	var p Package
	must(json.Unmarshal(pin, &p))
	return p
}

// A Method is a request or, if it has no result, a notification.
type Method struct {
	Name     string // on the wire, such as session/prompt
	Side     string // the side that handles it: "agent", "client" or "protocol" for both
	Params   string // the name of the definition of its params
	Result   string // the name of the definition of its result, "" for a notification
	Unstable bool   // it may change without notice
}

// Document returns a copy of the schema of a whole message, with all definitions,
// or nil for an unknown version.
func (v Version) Document() json.RawMessage { return bytes.Clone(v.raw()) }

func (v Version) raw() []byte {
	switch v {
	case V1:
		return v1
	case V2:
		return v2
	}
	return nil
}

// Definitions returns the names of all definitions in the order of the schema.
func (v Version) Definitions() []string { return slices.Clone(v.index().names) }

// Definition returns the schema of the definition with that name. It refers to
// others as "#/$defs/NAME".
func (v Version) Definition(name string) (json.RawMessage, bool) {
	raw, ok := v.index().defs[name]
	return bytes.Clone(raw), ok
}

// Methods returns all methods, sorted by name.
func (v Version) Methods() []Method { return slices.Clone(v.index().methods) }

// Method returns the method with that name.
func (v Version) Method(name string) (Method, bool) {
	methods := v.index().methods
	i, ok := slices.BinarySearchFunc(methods, name, func(m Method, name string) int { return strings.Compare(m.Name, name) })
	if !ok {
		return Method{}, false
	}
	return methods[i], true
}

// An index is a parsed schema. It is built once per version and never changes.
type index struct {
	names   []string                   // of the definitions, in the order of the schema
	defs    map[string]json.RawMessage // by name
	methods []Method                   // sorted by name
}

var indexes = map[Version]func() *index{
	V1: sync.OnceValue(func() *index { return newIndex(v1) }),
	V2: sync.OnceValue(func() *index { return newIndex(v2) }),
}

func (v Version) index() *index {
	if f, ok := indexes[v]; ok {
		return f()
	}
	return &index{}
}

func newIndex(raw []byte) *index {
	var doc struct {
		Defs json.RawMessage `json:"$defs"`
	}
	must(json.Unmarshal(raw, &doc))
	x := &index{defs: map[string]json.RawMessage{}}
	must(json.Unmarshal(doc.Defs, &x.defs))

	dec := json.NewDecoder(bytes.NewReader(doc.Defs))
	_, err := dec.Token()
	must(err)
	for dec.More() {
		name, err := dec.Token()
		must(err)
		var skipped json.RawMessage
		must(dec.Decode(&skipped))
		x.names = append(x.names, name.(string))
	}
	for _, name := range x.names {
		x.addMethod(name)
	}
	slices.SortFunc(x.methods, func(a, b Method) int { return strings.Compare(a.Name, b.Name) })
	return x
}

// addMethod adds a definition to the method that it names, if any. A definition
// whose name ends in Response is the result, any other the params.
func (x *index) addMethod(name string) {
	var def struct {
		Method   string `json:"x-method"`
		Side     string `json:"x-side"`
		Unstable bool   `json:"x-unstable"`
	}
	must(json.Unmarshal(x.defs[name], &def))
	if def.Method == "" {
		return
	}
	i := slices.IndexFunc(x.methods, func(m Method) bool { return m.Name == def.Method })
	if i < 0 {
		x.methods = append(x.methods, Method{Name: def.Method, Side: def.Side, Unstable: def.Unstable})
		i = len(x.methods) - 1
	}
	if strings.HasSuffix(name, "Response") {
		x.methods[i].Result = name
	} else {
		x.methods[i].Params = name
	}
}

// must panics if an embedded file cannot be read. The tests of this package read
// all of them.
func must(err error) {
	if err != nil {
		panic(fmt.Sprintf("schema: embedded file: %v", err))
	}
}
