package schema_test

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/parley-agents/parley/protocol/acp/schema"
)

var versions = []schema.Version{schema.V1, schema.V2}

// frames are the definitions of JSON-RPC messages, which are unions of methods.
var frames = []string{"AgentRequest", "AgentResponse", "AgentNotification", "ClientRequest", "ClientResponse", "ClientNotification"}

func TestChoices(t *testing.T) {
	for _, v := range versions {
		want := map[string]schema.Choice{}
		for _, name := range v.Definitions() {
			if slices.Contains(frames, name) {
				continue
			}
			raw, _ := v.Definition(name)
			if c, ok := choiceOf(t, name, raw); ok {
				want[name] = c
			}
		}
		t.Run("R2-011 the table says of every enum and union whether it is open, as the schema does", func(t *testing.T) {
			got := map[string]schema.Choice{}
			for _, c := range v.Choices() {
				got[c.Name] = c
			}
			for _, name := range slices.Sorted(maps.Keys(want)) {
				if got[name] != want[name] {
					t.Errorf("version %d: got %+v, want %+v", v, got[name], want[name])
				}
			}
			if len(got) != len(want) {
				t.Errorf("version %d: got %d rows, want %d", v, len(got), len(want))
			}
		})
	}
	t.Run("a choice is found by its name", func(t *testing.T) {
		if c, ok := schema.V1.Choice("SessionUpdate"); !ok || c.Open || c.Tag != "sessionUpdate" {
			t.Errorf("got %+v, %v, want a closed union", c, ok)
		}
		if _, ok := schema.V1.Choice("StateUpdate"); ok {
			t.Error("got a union that version 1 does not have")
		}
	})
}

// choiceOf reads off the schema what the table says.
func choiceOf(t *testing.T, name string, raw json.RawMessage) (schema.Choice, bool) {
	t.Helper()
	type branch struct {
		Const      json.RawMessage
		Not        json.RawMessage
		Type       json.RawMessage
		AllOf      json.RawMessage
		Properties map[string]struct{ Const json.RawMessage }
		Title      string
	}
	var def struct{ AnyOf, OneOf []branch }
	if err := json.Unmarshal(raw, &def); err != nil {
		t.Fatal(err)
	}
	branches := append(def.AnyOf, def.OneOf...)
	if len(branches) == 0 {
		return schema.Choice{}, false
	}
	c := schema.Choice{Name: name}
	consts := slices.ContainsFunc(branches, func(b branch) bool { return b.Const != nil })
	for _, b := range branches {
		anything := b.Type == nil && b.AllOf == nil && b.Const == nil
		if b.Not != nil || anything || consts && b.Const == nil {
			c.Open = true
		}
		for member, p := range b.Properties {
			if p.Const != nil {
				c.Tag = member
			}
		}
	}
	return c, true
}

func TestDocument(t *testing.T) {
	for _, v := range versions {
		doc := string(v.Document())
		t.Run("only the structure is kept", func(t *testing.T) {
			if strings.Contains(doc, `"description":"`) {
				t.Errorf("version %d has descriptions", v)
			}
		})
		t.Run("every reference can be followed", func(t *testing.T) {
			for _, part := range strings.Split(doc, `"$ref":"#/$defs/`)[1:] {
				name, _, _ := strings.Cut(part, `"`)
				if _, ok := v.Definition(name); !ok {
					t.Errorf("version %d has no %s", v, name)
				}
			}
		})
		t.Run("R2-008 the version of JSON-RPC is a constant", func(t *testing.T) {
			if got, want := strings.Count(doc, `"jsonrpc":{"type":"string","enum":["2.0"]}`), 3; got != want {
				t.Errorf("version %d: got %d, want %d", v, got, want)
			}
		})
	}
	t.Run("an unknown version has nothing", func(t *testing.T) {
		v := schema.Version(3)
		if v.Document() != nil || v.Definitions() != nil || v.Methods() != nil || v.Choices() != nil {
			t.Error("got something")
		}
	})
	t.Run("the source is pinned", func(t *testing.T) {
		p := schema.Source()
		if p.Name == "" || p.Version == "" || !strings.HasPrefix(p.Integrity, "sha512-") {
			t.Errorf("got %+v", p)
		}
	})
}

func TestMethods(t *testing.T) {
	tests := []struct {
		version              schema.Version
		total, agent, client int
		name, params, result string
		absent               string
	}{
		{schema.V1, 26, 14, 11, "session/load", "LoadSessionRequest", "LoadSessionResponse", "auth/login"},
		{schema.V2, 19, 14, 4, "tool_call/cancel", "CancelToolCallRequest", "CancelToolCallResponse", "session/load"},
	}
	for _, test := range tests {
		count := map[string]int{}
		for _, m := range test.version.Methods() {
			count[m.Side]++
			if m.Params == "" {
				t.Errorf("version %d: %s has no params", test.version, m.Name)
			}
			if got, want := m.Unstable, m.Name == "session/fork"; got != want {
				t.Errorf("version %d: %s is unstable: got %v, want %v", test.version, m.Name, got, want)
			}
		}
		if got := len(test.version.Methods()); got != test.total || count["agent"] != test.agent || count["client"] != test.client || count["protocol"] != 1 {
			t.Errorf("version %d: got %d methods, %v, want %d", test.version, got, count, test.total)
		}
		m, ok := test.version.Method(test.name)
		if !ok || m.Params != test.params || m.Result != test.result {
			t.Errorf("version %d: got %+v, want %s and %s", test.version, m, test.params, test.result)
		}
		if _, ok := test.version.Method(test.absent); ok {
			t.Errorf("version %d has %s", test.version, test.absent)
		}
		if m, _ := test.version.Method("session/cancel"); m.Result != "" {
			t.Errorf("version %d: session/cancel: got result %q, want none", test.version, m.Result)
		}
	}
}
