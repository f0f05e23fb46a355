package acpv2_test

import (
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/parley-agents/parley/protocol/acp/acpv1"
	"github.com/parley-agents/parley/protocol/acp/acpv2"
	"github.com/parley-agents/parley/protocol/acp/schema"
)

func TestClassification(t *testing.T) {
	tests := []struct {
		name             string
		value            string
		known, extension bool
	}{
		{"R2-001 a value that begins with _ belongs to an implementation", "_x", false, true},
		{"R2-002 any other unknown value belongs to a future version", "newthing", false, false},
		{"R2-029 case matters", "Completed", false, false},
		{"R2-029 blanks matter", "completed ", false, false},
		{"R2-030 _ alone is an extension", "_", false, true},
		{"R2-030 two of them are too", "__x", false, true},
		{"R2-017 a known value is known", "completed", true, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			raw := `{"toolCallId":"t","status":` + quote(test.value) + `}`
			var u acpv2.ToolCallUpdate
			if err := acpv1.Unmarshal([]byte(raw), &u); err != nil {
				t.Fatal(err)
			}
			status, _ := u.Status.Get()
			if status.Known() != test.known || status.IsExtension() != test.extension {
				t.Errorf("got known %v, extension %v, want %v, %v", status.Known(), status.IsExtension(), test.known, test.extension)
			}
			tag := acpv2.Unknown{Tag: test.value}
			if tag.IsExtension() != test.extension {
				t.Errorf("as a tag: got extension %v, want %v", tag.IsExtension(), test.extension)
			}
			if err := acpv1.Check(&u, nil); err != nil {
				t.Errorf("got %v, want an unknown value to be valid", err)
			}
		})
	}
	t.Run("R2-003 what was kept as unknown reads the same once it is known", func(t *testing.T) {
		old := `{"toolCallId":"t","status":"paused"}` // version 1 does not know it, version 2 does
		var before acpv1.ToolCallUpdate
		if err := acpv1.Unmarshal([]byte(old), &before); err != nil {
			t.Fatal(err)
		}
		var after acpv2.ToolCallUpdate
		if err := acpv1.Unmarshal(encoded(t, &before), &after); err != nil {
			t.Fatal(err)
		}
		if got, want := after.Status.Or(""), acpv2.ToolCallStatusPaused; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})
	t.Run("R2-009 an unknown error code passes as a number", func(t *testing.T) {
		var e acpv2.Error
		if err := acpv1.Unmarshal([]byte(`{"code":-1234,"message":"m"}`), &e); err != nil {
			t.Fatal(err)
		}
		if e.Code != -1234 || e.Code.Known() || acpv1.Check(&e, nil) != nil {
			t.Errorf("got %d, known %v, %v", e.Code, e.Code.Known(), acpv1.Check(&e, nil))
		}
	})
}

func quote(s string) string {
	raw, _ := json.Marshal(s)
	return string(raw)
}

func TestExtensions(t *testing.T) {
	var ext acpv2.Extensions
	t.Run("R2-004 an extension without _ cannot be registered", func(t *testing.T) {
		if err := ext.Register("ToolKind", "_ours", "theirs"); err == nil {
			t.Error("got no error")
		}
		if ext.Registered("ToolKind", "_ours") {
			t.Error("a part of what was refused is registered")
		}
	})
	t.Run("R2-004 a variant without _ cannot be made", func(t *testing.T) {
		if _, err := acpv1.NewUnknown("type", "chart", nil); err == nil {
			t.Error("got no error")
		}
	})
	t.Run("R2-005 an unknown value without _ is never an extension", func(t *testing.T) {
		if ext.Registered("SessionUpdate", "later") || (&acpv2.Unknown{Tag: "later"}).IsExtension() {
			t.Error("got an extension")
		}
	})
	if err := ext.Register("ToolKind", "_ours"); err != nil {
		t.Fatal(err)
	}
	if err := ext.Register("SessionUpdate", "_beat"); err != nil {
		t.Fatal(err)
	}
	beat, err := acpv1.NewUnknown("sessionUpdate", "_beat", acpv2.Members[json.RawMessage]{{Name: "n", Value: json.RawMessage("1")}})
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name   string
		update acpv2.SessionUpdate
		ok     bool
	}{
		{"a known value", kindUpdate("read"), true},
		{"a registered value", kindUpdate("_ours"), true},
		{"a value that nobody registered", kindUpdate("_other"), false},
		{"a value that belongs to the protocol", kindUpdate("later"), false},
		{"a registered variant", acpv2.SessionUpdate{Unknown: beat}, true},
		{"a variant that belongs to the protocol", acpv2.SessionUpdate{Unknown: &acpv2.Unknown{Tag: "later", Raw: json.RawMessage(`{"sessionUpdate":"later"}`)}}, false},
		{"a value registered for another enum", acpv2.SessionUpdate{ToolCallUpdate: &acpv2.ToolCallUpdate{ToolCallID: "t", Status: acpv2.Set(acpv2.ToolCallStatus("_ours"))}}, false},
	}
	for _, test := range tests {
		t.Run("R2-027 what we make up ourselves: "+test.name, func(t *testing.T) {
			m := acpv2.UpdateSessionNotification{SessionID: "s", Update: test.update}
			err := m.Check(&acpv2.Rules{Own: true, Extensions: &ext})
			if (err == nil) != test.ok {
				t.Errorf("got %v, want ok %v", err, test.ok)
			}
			if strings.Contains(test.name, "belongs to the protocol") && !strings.Contains(err.Error(), "begin with _") {
				t.Errorf("got %v, want it to say whose the value is", err)
			}
			if err := m.Validate(); err != nil {
				t.Errorf("handed on it is valid, but got %v", err)
			}
		})
	}
	t.Run("R2-010 values that a user made up are data", func(t *testing.T) {
		raw := `{"type":"object","properties":{"a":{"type":"string","enum":["_x","y"]},"b":{"type":"string","oneOf":[{"const":"_x","title":"X"},{"const":"z","title":"Z"}]}}}`
		var s acpv2.ElicitationSchema
		if err := acpv1.Unmarshal([]byte(raw), &s); err != nil {
			t.Fatal(err)
		}
		if err := acpv1.Check(&s, &acpv2.Rules{Own: true}); err != nil {
			t.Error(err)
		}
	})
	t.Run("R2-012 an unknown format of a string is an annotation", func(t *testing.T) {
		var s acpv2.StringPropertySchema
		if err := acpv1.Unmarshal([]byte(`{"format":"phone"}`), &s); err != nil {
			t.Fatal(err)
		}
		if f, _ := s.Format.Get(); f != "phone" || acpv1.Check(&s, nil) != nil {
			t.Errorf("got %q, %v", f, acpv1.Check(&s, nil))
		}
		if got, _ := acpv2.FallbackFor("StringPropertySchema", "format"); got != acpv2.FallbackIgnore {
			t.Errorf("got %q, want ignore", got)
		}
	})
	t.Run("R2-016 what is core to a request can be treated as closed", func(t *testing.T) {
		var m acpv2.RequestPermissionResponse
		if err := m.UnmarshalJSON([]byte(`{"outcome":{"outcome":"deferred"}}`)); err != nil {
			t.Fatal(err)
		}
		var p *acpv2.Problem
		err := m.Check(&acpv2.Rules{Closed: []string{"RequestPermissionOutcome"}})
		if !errors.As(err, &p) || p.Path != "/outcome/outcome" || p.Value != `"deferred"` {
			t.Errorf("got %v, want a problem with the path and the value", err)
		}
	})
}

func kindUpdate(kind acpv2.ToolKind) acpv2.SessionUpdate {
	return acpv2.SessionUpdate{ToolCallUpdate: &acpv2.ToolCallUpdate{ToolCallID: "t", Kind: acpv2.Set(kind)}}
}

// tagged calls f for every union with a discriminator, with a valid instance of a
// definition that begins with it.
func tagged(t *testing.T, f func(v *version, c schema.Choice)) {
	t.Helper()
	for _, v := range versions(t) {
		for _, c := range v.Choices() {
			if c.Tag != "" && c.Name != "IdleStateUpdate" {
				f(v, c)
			}
		}
	}
}

// unknownOf returns an instance of a union whose tag is replaced.
func unknownOf(v *version, c schema.Choice, tag string) []byte {
	m := newMaker(v, 1)
	object := m.make(v.defs[c.Name], true).(map[string]any)
	object[c.Tag] = tag
	for _, need := range []string{"methodId", "planId", "name", "description", "sessionId", "configId", "message", "id"} {
		object[need] = "x"
	}
	delete(object, "requestId")
	object["value"] = "x"
	return m.encode(object)
}

func TestUnions(t *testing.T) {
	tagged(t, func(v *version, c schema.Choice) {
		for _, tag := range []string{"_vendor", "later"} {
			raw := unknownOf(v, c, tag)
			value, _ := v.newValue(c.Name)
			t.Run("R2-013 an unknown variant keeps its tag and its payload: "+c.Name, func(t *testing.T) {
				if err := acpv1.Unmarshal(raw, value); err != nil {
					t.Fatalf("version %d: %s: %v", v.Version, raw, err)
				}
				if !sameJSON(t, encoded(t, value), raw) {
					t.Errorf("version %d: got %s, want %s", v.Version, encoded(t, value), raw)
				}
			})
			unknown := reflect.ValueOf(value).Elem().FieldByName("Unknown")
			t.Run("R2-020 an unknown variant can be seen: "+c.Name, func(t *testing.T) {
				if !unknown.IsValid() || unknown.IsNil() {
					t.Fatalf("version %d: there is none", v.Version)
				}
				if got := unknown.Interface().(*acpv1.Unknown).Tag; got != tag {
					t.Errorf("version %d: got %q, want %q", v.Version, got, tag)
				}
			})
			t.Run("R2-014 the tag says whose it is: "+c.Name, func(t *testing.T) {
				if got, want := unknown.Interface().(*acpv1.Unknown).IsExtension(), tag[0] == '_'; got != want {
					t.Errorf("version %d: got %v, want %v", v.Version, got, want)
				}
			})
			id := "R2-025 an unknown variant of an open union is valid: "
			if !c.Open {
				id = "R2-022 an unknown variant of a closed union is kept but not valid: "
			}
			t.Run(id+c.Name, func(t *testing.T) {
				err := acpv1.Check(value, nil)
				if (err == nil) != c.Open {
					t.Fatalf("version %d: got %v, want open %v", v.Version, err, c.Open)
				}
				var p *acpv2.Problem
				if err != nil && (!errors.As(err, &p) || !strings.HasSuffix(p.Path, "/"+c.Tag) || p.Value != quote(tag)) {
					t.Errorf("version %d: got %v, want the path and the value", v.Version, err)
				}
			})
		}
		for _, bad := range []string{`{"%":null}`, `{"%":5}`, `{"%":""}`, `{"%":{}}`, `null`, `[]`, `"x"`, `{}`} {
			raw := strings.ReplaceAll(bad, "%", c.Tag)
			t.Run("R2-028 a discriminator that is no text is malformed: "+c.Name+" "+raw, func(t *testing.T) {
				value, _ := v.newValue(c.Name)
				if err := acpv1.Unmarshal([]byte(raw), value); err == nil {
					t.Errorf("version %d: got no error", v.Version)
				}
			})
		}
	})
	malformed := []struct{ definition, raw string }{
		{"SessionUpdate", `{"sessionUpdate":"tool_call_update"}`},
		{"SessionUpdate", `{"sessionUpdate":"agent_message_chunk","messageId":"m","content":{"type":"text"}}`},
		{"SessionUpdate", `{"sessionUpdate":"state_update","state":"idle","stopReason":5}`},
		{"ContentBlock", `{"type":"image","data":"aGk="}`},
		{"ToolCallContent", `{"type":"terminal","terminalId":5}`},
		{"SessionConfigOption", `{"configId":"c","name":"n","type":"boolean","currentValue":"yes"}`},
		{"CreateElicitationRequest", `{"mode":"url","message":"m","sessionId":"s"}`},
		{"RequestPermissionOutcome", `{"outcome":"selected"}`},
		{"PlanUpdateContent", `{"type":"items","planId":"p"}`},
		{"AuthMethod", `{"type":"_sso","name":"n"}`},
	}
	for _, test := range malformed {
		t.Run("R2-018 a malformed known variant is an error: "+test.raw, func(t *testing.T) {
			value, _ := acpv2.New(test.definition)
			if err := acpv1.Unmarshal([]byte(test.raw), value); err == nil {
				t.Error("got no error")
			}
		})
	}
	t.Run("R2-018 a known variant cannot be sent as an unknown one", func(t *testing.T) {
		b := acpv2.ContentBlock{Unknown: &acpv2.Unknown{Tag: "text", Raw: json.RawMessage(`{"type":"text"}`)}}
		if _, err := b.MarshalJSON(); err == nil || b.Validate() == nil {
			t.Errorf("got %v and %v, want errors", err, b.Validate())
		}
	})
	t.Run("R2-019 a union without discriminator has no fallback", func(t *testing.T) {
		for _, test := range []struct{ definition, raw string }{
			{"EmbeddedResourceResource", `{"uri":"file:///a","later":1}`},
			{"CreateElicitationRequest", `{"mode":"form","message":"m","requestedSchema":{"type":"object","properties":{}}}`},
			{"CreateElicitationRequest", `{"mode":"form","message":"m","sessionId":"s","requestId":1,"requestedSchema":{"type":"object","properties":{}}}`},
			{"RequestId", `null`},
			{"RequestId", `true`},
		} {
			value, _ := acpv2.New(test.definition)
			if err := acpv1.Unmarshal([]byte(test.raw), value); err == nil {
				t.Errorf("%s: got no error", test.raw)
			}
		}
	})
	t.Run("R2-031 an unknown variant comes out byte for byte", func(t *testing.T) {
		raw := `{"z":12345678901234567890123, "type" : "_odd","a":1.0,"a":{"B":1,"b":2} }`
		var b acpv2.ContentBlock
		if err := b.UnmarshalJSON([]byte(raw)); err != nil {
			t.Fatal(err)
		}
		if got := string(encoded(t, &b)); got != raw {
			t.Errorf("got  %s\nwant %s", got, raw)
		}
	})
	t.Run("R2-031 unknown members come out in their order with their digits", func(t *testing.T) {
		raw := `{"text":"x","zz":1e400,"aa":[1.0,{"k":1,"k":2}]}`
		var b acpv2.TextContent
		if err := acpv1.Unmarshal([]byte(raw), &b); err != nil {
			t.Fatal(err)
		}
		if got := string(encoded(t, &b)); got != raw {
			t.Errorf("got  %s\nwant %s", got, raw)
		}
	})
}

func TestSafety(t *testing.T) {
	offered := []acpv2.PermissionOption{
		{OptionID: "yes", Kind: acpv2.PermissionOptionKindAllowOnce},
		{OptionID: "no", Kind: acpv2.PermissionOptionKindRejectOnce},
		{OptionID: "new", Kind: "allow_session"},
		{OptionID: "ours", Kind: "_allow"},
		{OptionID: "both", Kind: acpv2.PermissionOptionKindAllowOnce},
		{OptionID: "both", Kind: acpv2.PermissionOptionKindRejectOnce},
	}
	for raw, want := range map[string]bool{
		`{"outcome":"selected","optionId":"yes"}`:     true,
		`{"outcome":"selected","optionId":"no"}`:      false,
		`{"outcome":"selected","optionId":"new"}`:     false,
		`{"outcome":"selected","optionId":"ours"}`:    false,
		`{"outcome":"selected","optionId":"both"}`:    false,
		`{"outcome":"selected","optionId":"missing"}`: false,
		`{"outcome":"cancelled"}`:                     false,
		`{"outcome":"approved","optionId":"yes"}`:     false,
		`{"outcome":"_selected","optionId":"yes"}`:    false,
	} {
		t.Run("R2-032 only a known outcome with a known kind approves: "+raw, func(t *testing.T) {
			var o acpv2.RequestPermissionOutcome
			if err := o.UnmarshalJSON([]byte(raw)); err != nil {
				t.Fatal(err)
			}
			if got := o.Approves(offered); got != want {
				t.Errorf("got %v, want %v", got, want)
			}
		})
	}
	for reason, want := range map[acpv2.StopReason]bool{"end_turn": true, "done": false, "_done": false, "End_turn": false, "error": false, "": false} {
		t.Run("R2-032 an unknown stop reason is no success: "+string(reason), func(t *testing.T) {
			if got := reason.Success(); got != want {
				t.Errorf("got %v, want %v", got, want)
			}
		})
	}
}

// sources parses the generated files of a package.
func sources(t *testing.T, dir string) []*ast.File {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*_gen.go"))
	if err != nil || len(names) == 0 {
		t.Fatal("no generated files", err)
	}
	var out []*ast.File
	for _, name := range names {
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, f)
	}
	return out
}

func TestGeneratedTypes(t *testing.T) {
	for dir, v := range map[string]schema.Version{"../acpv1": schema.V1, ".": schema.V2} {
		docs, methods := map[string]string{}, map[string][]string{}
		for _, f := range sources(t, dir) {
			for _, d := range f.Decls {
				switch d := d.(type) {
				case *ast.GenDecl:
					if spec, ok := d.Specs[0].(*ast.TypeSpec); ok {
						docs[strings.ToLower(spec.Name.Name)] = strings.Join(strings.Fields(d.Doc.Text()), " ")
					}
				case *ast.FuncDecl:
					if d.Recv != nil {
						if name, ok := d.Recv.List[0].Type.(*ast.Ident); ok {
							methods[strings.ToLower(name.Name)] = append(methods[strings.ToLower(name.Name)], d.Name.Name)
						}
					}
				}
			}
		}
		for _, c := range v.Choices() {
			name := strings.ToLower(c.Name)
			enum := c.Tag == "" && slices.Contains(methods[name], "Known")
			if enum && c.Name != "ErrorCode" {
				t.Run("R2-017 an enum says what is known and what is an extension: "+c.Name, func(t *testing.T) {
					if !slices.Contains(methods[name], "IsExtension") {
						t.Errorf("version %d: got methods %v", v, methods[name])
					}
				})
			}
			if c.Name == "IdleStateUpdate" {
				name = "stopreason" // the union is an enum in Go
			}
			if c.Open && (enum || c.Tag != "") && c.Name != "ErrorCode" {
				t.Run("R2-023 the comment states both halves of the rule: "+c.Name, func(t *testing.T) {
					for _, half := range []string{"begins with _ belongs to an implementation", "any other unknown value to a future version of the protocol"} {
						if !strings.Contains(docs[name], half) {
							t.Errorf("version %d: %q is not in %q", v, half, docs[name])
						}
					}
				})
			}
		}
	}
}
