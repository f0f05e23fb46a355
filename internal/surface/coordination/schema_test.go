package coordination

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// The schema of the tool coordinate names actions and members. Each action must be an
// operation, and each member a parameter of the tool or of one of the actions that the
// schema names.
func TestCoordinateSchema(t *testing.T) {
	var schema struct {
		Properties map[string]struct {
			Enum []string `json:"enum"`
		} `json:"properties"`
	}
	if err := json.Unmarshal(Coordinate.Input, &schema); err != nil {
		t.Fatal(err)
	}

	known := memberNames(reflect.TypeFor[CoordinateParams]())
	for _, action := range schema.Properties["action"].Enum {
		o := actions["cacp/"+action]
		if o == nil {
			t.Errorf("action %s: there is no such operation", action)
			continue
		}
		known = append(known, memberNames(paramsOf(t, o))...)
	}
	for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
		if !slices.Contains(known, plain(name)) {
			t.Errorf("member %s: no action has such a parameter", name)
		}
	}
}

// paramsOf returns the type of the parameters of an operation.
func paramsOf(t *testing.T, operation any) reflect.Type {
	t.Helper()
	for _, field := range []string{"Do", "Stream"} {
		if do := reflect.ValueOf(operation).FieldByName(field); !do.IsNil() {
			return do.Type().In(3)
		}
	}
	t.Fatalf("%T is no operation that is performed alone", operation)
	return nil
}

// memberNames returns the names of the JSON members of t, in plain spelling.
func memberNames(t reflect.Type) []string {
	var names []string
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name != "":
			names = append(names, plain(name))
		case f.Anonymous:
			names = append(names, memberNames(f.Type)...)
		}
	}
	return names
}

// plain returns a name without the difference between camelCase and snake_case.
func plain(name string) string { return strings.ToLower(strings.ReplaceAll(name, "_", "")) }
