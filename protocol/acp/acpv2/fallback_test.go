package acpv2_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/parley-agents/parley/protocol/acp/acpv2"
	"github.com/parley-agents/parley/protocol/acp/schema"
)

// openMembers returns the members that can hold an unknown value, as the schema
// has them.
func openMembers(t *testing.T) []string {
	t.Helper()
	v := versions(t)[1]
	var refs func(s any) []string
	refs = func(s any) []string {
		var out []string
		switch s := s.(type) {
		case map[string]any:
			if ref, ok := s["$ref"].(string); ok {
				out = append(out, strings.TrimPrefix(ref, "#/$defs/"))
			}
			for _, key := range []string{"allOf", "anyOf", "items", "additionalProperties"} {
				out = append(out, refs(s[key])...)
			}
		case []any:
			for _, item := range s {
				out = append(out, refs(item)...)
			}
		}
		return out
	}
	var rows []string
	add := func(definition, member, choice string) {
		if c, ok := v.Choice(choice); ok && c.Open {
			rows = append(rows, definition+" "+member+" "+choice)
		}
	}
	frames := []string{"AgentRequest", "AgentResponse", "AgentNotification", "ClientRequest", "ClientResponse", "ClientNotification"}
	for _, name := range v.Definitions() {
		if slices.Contains(frames, name) {
			continue
		}
		def := v.defs[name]
		props, _ := def["properties"].(map[string]any)
		for member, p := range props {
			for _, choice := range refs(p) {
				add(name, member, choice)
			}
		}
		if c, ok := v.Choice(name); ok && props != nil && c.Tag != "" {
			add(name, c.Tag, name)
		}
		for _, b := range append(list(def["anyOf"]), list(def["oneOf"])...) {
			branch := b.(map[string]any)
			if c, ok := v.Choice(name); ok && c.Tag != "" && props == nil {
				for _, choice := range refs(map[string]any{"allOf": branch["allOf"]}) {
					props, _ := branch["properties"].(map[string]any)
					property, _ := props[c.Tag].(map[string]any)
					tag, _ := property["const"].(string)
					add(name, tag, choice)
				}
			}
		}
	}
	slices.Sort(rows)
	return rows
}

func list(v any) []any { l, _ := v.([]any); return l }

func TestFallbacks(t *testing.T) {
	var got []string
	words := []acpv2.Fallback{acpv2.FallbackIgnore, acpv2.FallbackDisplay, acpv2.FallbackPreserve, acpv2.FallbackFail}
	for _, f := range acpv2.Fallbacks() {
		got = append(got, f.Definition+" "+f.Member+" "+f.Choice)
		if !slices.Contains(words, f.Fallback) || f.Meaning == "" {
			t.Errorf("%+v says nothing", f)
		}
	}
	want := openMembers(t)
	t.Run("R2-024 every member that can hold an unknown value has a fallback", func(t *testing.T) {
		if !slices.Equal(got, want) {
			for _, row := range want {
				if !slices.Contains(got, row) {
					t.Errorf("%s is missing", row)
				}
			}
			for _, row := range got {
				if !slices.Contains(want, row) {
					t.Errorf("%s is too much", row)
				}
			}
			t.Errorf("sorted: got %v, want true", slices.IsSorted(got))
		}
	})
	t.Run("R2-024 the documentation has the same table", func(t *testing.T) {
		doc, err := os.ReadFile("../../../docs/acp.md")
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range acpv2.Fallbacks() {
			row := "| `" + f.Definition + "." + f.Member + "` | `" + f.Choice + "` | " + string(f.Fallback) + " | " + f.Meaning + " |\n"
			if !strings.Contains(string(doc), row) {
				t.Errorf("there is no row %s", row)
			}
		}
		if got, want := strings.Count(string(doc), " | ignore | ")+strings.Count(string(doc), " | display | ")+strings.Count(string(doc), " | preserve | ")+strings.Count(string(doc), " | fail | "), len(acpv2.Fallbacks()); got != want {
			t.Errorf("got %d rows, want %d", got, want)
		}
	})
	t.Run("R2-011 the documentation says of every enum and union whether it is open", func(t *testing.T) {
		doc, err := os.ReadFile("../../../docs/acp.md")
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range choiceRows() {
			if !strings.Contains(string(doc), row) {
				t.Errorf("there is no row %s", row)
			}
		}
	})
	t.Run("R2-007 what cannot be acted on has a meaning", func(t *testing.T) {
		for _, test := range []struct {
			definition, member string
			want               acpv2.Fallback
		}{
			{"UpdateSessionNotification", "update", acpv2.FallbackIgnore},
			{"ToolCallUpdate", "status", acpv2.FallbackDisplay},
			{"Error", "code", acpv2.FallbackPreserve},
			{"RequestPermissionResponse", "outcome", acpv2.FallbackFail},
		} {
			if got, ok := acpv2.FallbackFor(test.definition, test.member); !ok || got != test.want {
				t.Errorf("%s.%s: got %q, want %q", test.definition, test.member, got, test.want)
			}
		}
		if _, ok := acpv2.FallbackFor("TextContent", "text"); ok {
			t.Error("a string has a fallback")
		}
	})
	t.Run("R2-015 what decides about a request is never ignored", func(t *testing.T) {
		for _, f := range acpv2.Fallbacks() {
			request := strings.HasSuffix(f.Definition, "Request") || f.Definition == "RequestPermissionResponse" || f.Definition == "CreateElicitationResponse"
			if request && (f.Fallback == acpv2.FallbackIgnore || f.Fallback == acpv2.FallbackPreserve) {
				t.Errorf("%s.%s: got %q", f.Definition, f.Member, f.Fallback)
			}
		}
	})
}

// choiceRows returns the rows of the table of enums and unions.
func choiceRows() []string {
	word := func(v schema.Version, name string) string {
		c, ok := v.Choice(name)
		switch {
		case !ok:
			return "-"
		case c.Open:
			return "open"
		}
		return "closed"
	}
	tag := func(name string) string {
		for _, v := range []schema.Version{schema.V1, schema.V2} {
			if c, _ := v.Choice(name); c.Tag != "" {
				return "`" + c.Tag + "`"
			}
		}
		return "-"
	}
	var names []string
	for _, v := range []schema.Version{schema.V1, schema.V2} {
		for _, c := range v.Choices() {
			if !slices.Contains(names, c.Name) {
				names = append(names, c.Name)
			}
		}
	}
	slices.Sort(names)
	var rows []string
	for _, name := range names {
		rows = append(rows, "| `"+name+"` | "+tag(name)+" | "+word(schema.V1, name)+" | "+word(schema.V2, name)+" |\n")
	}
	return rows
}
