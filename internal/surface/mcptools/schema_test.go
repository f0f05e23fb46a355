package mcptools_test

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/operation/coordination"
	"github.com/parley-agents/parley/internal/operation/rpc"
)

// A schemaMember is a member in the schema of a tool.
type schemaMember struct {
	Type  string         `json:"type"`
	Enum  []string       `json:"enum"`
	OneOf []schemaMember `json:"oneOf"`

	Properties map[string]schemaMember `json:"properties"`
	Items      *schemaMember           `json:"items"`
	Required   []string                `json:"required"`
}

// TestSchemasAgreeWithParameters compares the schema of each tool with the Go type of its
// parameters: a member must exist, and its type must be one that is read into it. The
// members of coordinate are those of its actions.
func TestSchemasAgreeWithParameters(t *testing.T) {
	methods := map[string]reflect.Type{}
	tools := map[string]rpc.Spec{}
	for _, o := range api.Operations {
		addParameters(o.Bind(nil).Spec, o, methods, tools)
	}
	for _, o := range coordination.Operations {
		addParameters(o.Bind(nil).Spec, o, methods, tools)
	}
	if len(tools) != 11 {
		t.Fatalf("%d tools were found, want 11", len(tools))
	}

	for name, spec := range tools {
		var schema schemaMember
		if err := json.Unmarshal(spec.Input, &schema); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		places := []reflect.Type{methods[spec.Method]}
		if name == coordination.Coordinate.Tool {
			for _, action := range schema.Properties["action"].Enum {
				of := methods["cacp/"+action]
				if of == nil { // the questions of agents
					of = methods["parley/contract/"+action]
				}
				if of == nil { // of this hub alone
					of = methods["parley/"+action]
				}
				if of == nil {
					t.Errorf("%s: there is no operation for the action %s", name, action)
					continue
				}
				places = append(places, of)
			}
		}
		compareMembers(t, name, schema, places)
	}
}

// addParameters notes the type of the parameters of an operation that is performed alone,
// and the operation if it is a tool.
func addParameters(spec rpc.Spec, operation any, methods map[string]reflect.Type, tools map[string]rpc.Spec) {
	if do := reflect.ValueOf(operation).FieldByName("Do"); !do.IsNil() {
		methods[spec.Method] = do.Type().In(3)
	}
	const ofStream = 5 // context, services, caller, parameters and writer
	if form := reflect.ValueOf(operation).FieldByName("Form"); !form.IsNil() && form.Elem().Type().NumIn() == ofStream {
		methods[spec.Method] = form.Elem().Type().In(3)
	}
	if spec.Tool != "" {
		tools[spec.Tool] = spec
	}
}

// compareMembers compares the members of a schema with those of the types of which one
// must have each.
func compareMembers(t *testing.T, place string, schema schemaMember, types []reflect.Type) {
	t.Helper()
	for _, name := range schema.Required {
		if _, ok := schema.Properties[name]; !ok {
			t.Errorf("%s: %s is required and has no description", place, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
		p := schema.Properties[name]
		found, reads := false, false
		for _, of := range types {
			member := memberOf(of, name)
			if member == nil {
				continue
			}
			found = true
			reads = reads || readsInto(p, member)
			if all := wordsOf[member]; len(p.Enum) > 0 && all != nil {
				compareWords(t, place+"."+name, p.Enum, all)
			}
			if inner := structOf(member); inner != nil && len(p.Properties) > 0 {
				compareMembers(t, place+"."+name, p, []reflect.Type{inner})
			}
			if inner := structOf(member); inner != nil && p.Items != nil && len(p.Items.Properties) > 0 {
				compareMembers(t, place+"."+name, *p.Items, []reflect.Type{inner})
			}
		}
		switch {
		case !found:
			t.Errorf("%s: no parameter is called %s", place, name)
		case !reads:
			t.Errorf("%s: %s is of type %q in the schema, and no parameter reads that", place, name, p.Type)
		}
	}
}

// wordsOf has the words of types whose values are words. A schema names all of them or has
// no enum.
var wordsOf = map[reflect.Type][]string{
	reflect.TypeFor[hub.Role]():      texts(hub.Roles),
	reflect.TypeFor[hub.Lifecycle](): texts(hub.Lifecycles),
	reflect.TypeFor[hub.TaskClass](): texts(hub.TaskClasses),
	reflect.TypeFor[hub.TaskState](): texts(hub.TaskStates),
	reflect.TypeFor[hub.Priority]():  texts(hub.Priorities),
}

func texts[S ~string](words []S) []string {
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = string(w)
	}
	return out
}

// compareWords compares the enum of a member with the words of its type.
func compareWords(t *testing.T, place string, enum, all []string) {
	t.Helper()
	if !slices.Equal(slices.Sorted(slices.Values(enum)), slices.Sorted(slices.Values(all))) {
		t.Errorf("%s: the schema has the words %q, and the type has %q", place, enum, all)
	}
}

// memberOf returns the type of a JSON member of a structure, nil if it has none. Names in
// camelCase and snake_case are the same.
func memberOf(of reflect.Type, name string) reflect.Type {
	plain := func(s string) string { return strings.ToLower(strings.ReplaceAll(s, "_", "")) }
	for i := range of.NumField() {
		f := of.Field(i)
		tag, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if tag != "" && plain(tag) == plain(name) {
			return f.Type
		}
		if tag == "" && f.Anonymous && f.Type.Kind() == reflect.Struct {
			if found := memberOf(f.Type, name); found != nil {
				return found
			}
		}
	}
	return nil
}

// structOf returns the structure in a type: the type itself, its element, or nil.
func structOf(of reflect.Type) reflect.Type {
	for of.Kind() == reflect.Pointer || of.Kind() == reflect.Slice {
		of = of.Elem()
	}
	if of.Kind() != reflect.Struct {
		return nil
	}
	return of
}

// readsInto reports whether a value that a schema describes is read into a Go type; of
// several kinds of values, whether each is.
func readsInto(p schemaMember, of reflect.Type) bool {
	if len(p.OneOf) > 0 {
		return !slices.ContainsFunc(p.OneOf, func(one schemaMember) bool { return !readsInto(one, of) })
	}
	return slices.ContainsFunc(samplesOf(p), func(sample string) bool {
		return json.Unmarshal([]byte(sample), reflect.New(of).Interface()) == nil
	})
}

// samplesOf returns values that a schema describes. A type need not read all of them: a
// time is a string, too.
func samplesOf(p schemaMember) []string {
	if len(p.Enum) > 0 {
		return []string{`"` + p.Enum[0] + `"`}
	}
	switch p.Type {
	case "string":
		return []string{`"x"`, `"2026-01-02T03:04:05Z"`}
	case "integer":
		return []string{`7`}
	case "boolean":
		return []string{`true`}
	case "array":
		return []string{`["x"]`, `[{}]`}
	case "object":
		return []string{`{}`}
	}
	return nil
}
