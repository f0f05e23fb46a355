package acpv1_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/parley-agents/parley/protocol/acp/acpv1"
	"github.com/parley-agents/parley/protocol/acp/schema"
)

func TestOptional(t *testing.T) {
	tests := []struct {
		name           string
		member         acpv1.Optional[string]
		raw            string
		set, null, abs bool
	}{
		{"absent", acpv1.Optional[string]{}, `{"text":"x"}`, false, false, true},
		{"null", acpv1.Null[string](), `{"text":"x","mimeType":null}`, false, true, false},
		{"empty", acpv1.Set(""), `{"text":"x","mimeType":""}`, true, false, false},
		{"value", acpv1.Set("a/b"), `{"text":"x","mimeType":"a/b"}`, true, false, false},
	}
	for _, test := range tests {
		t.Run(test.name+" is a state of its own", func(t *testing.T) {
			raw := strings.Replace(test.raw, `"text":"x"`, `"text":"x","uri":"u"`, 1)
			var c acpv1.TextResourceContents
			if err := json.Unmarshal([]byte(raw), &c); err != nil {
				t.Fatal(err)
			}
			if c.MIMEType != test.member {
				t.Errorf("got %+v, want %+v", c.MIMEType, test.member)
			}
			if o := c.MIMEType; o.IsSet() != test.set || o.IsNull() != test.null || o.IsAbsent() != test.abs {
				t.Errorf("got %v %v %v, want %v %v %v", o.IsSet(), o.IsNull(), o.IsAbsent(), test.set, test.null, test.abs)
			}
			want := "other"
			if v, ok := test.member.Get(); ok {
				want = v
			}
			if got := c.MIMEType.Or("other"); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
	t.Run("null is refused where only a value may stand", func(t *testing.T) {
		var c acpv1.ToolCall
		if err := acpv1.Unmarshal([]byte(`{"toolCallId":"t","title":"T","content":null}`), &c); err == nil {
			t.Error("got no error")
		}
		c = acpv1.ToolCall{ToolCallID: "t", Title: "T", Content: acpv1.Null[[]acpv1.ToolCallContent]()}
		if err := acpv1.Check(&c, nil); err == nil {
			t.Error("got no error from Validate")
		}
	})
	t.Run("an empty list and none are two things", func(t *testing.T) {
		for _, raw := range []string{`{"toolCallId":"t","title":"T","content":[]}`, `{"toolCallId":"t","title":"T"}`} {
			var c acpv1.ToolCall
			if err := acpv1.Unmarshal([]byte(raw), &c); err != nil {
				t.Fatal(err)
			}
			if got, err := acpv1.Marshal(&c); err != nil || string(got) != raw {
				t.Errorf("got %s, %v, want %s", got, err, raw)
			}
		}
	})
	t.Run("a required list is never written as null", func(t *testing.T) {
		got, err := acpv1.NewSessionRequest{Cwd: "/"}.MarshalJSON()
		if want := `{"cwd":"/","mcpServers":[]}`; err != nil || string(got) != want {
			t.Errorf("got %s, %v, want %s", got, err, want)
		}
	})
}

func TestMembers(t *testing.T) {
	var m acpv1.Members[int]
	m.Set("b", 1)
	m.Set("a", 2)
	m.Set("b", 3)
	if v, ok := m.Get("b"); !ok || v != 3 {
		t.Errorf("got %d, %v, want 3", v, ok)
	}
	if _, ok := m.Get("c"); ok {
		t.Error("got a member that is not there")
	}
	if m[0].Name != "b" || m[1].Name != "a" {
		t.Errorf("got %v, want the order in which they were set", m)
	}
	t.Run("a map keeps its order and its twins", func(t *testing.T) {
		raw := `{"type":"terminal","id":"i","name":"n","env":{"Path":"1","PATH":"2","a/b":"3"}}`
		var a acpv1.AuthMethod
		if err := a.UnmarshalJSON([]byte(raw)); err != nil {
			t.Fatal(err)
		}
		if got, err := a.MarshalJSON(); err != nil || string(got) != raw {
			t.Errorf("got %s, %v, want %s", got, err, raw)
		}
	})
	t.Run("a name twice in a map is refused", func(t *testing.T) {
		var a acpv1.AuthMethod
		var p *acpv1.Problem
		err := a.UnmarshalJSON([]byte(`{"type":"terminal","id":"i","name":"n","env":{"A":"1","A":"2"}}`))
		if !errors.As(err, &p) || p.Path != "/env/A" {
			t.Errorf("got %v, want a problem at /env/A", err)
		}
	})
}

func TestUnknown(t *testing.T) {
	u, err := acpv1.NewUnknown("type", "_chart", acpv1.Members[json.RawMessage]{{Name: "data", Value: json.RawMessage("[1.0]")}})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := string(u.Raw), `{"type":"_chart","data":[1.0]}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if raw, ok := u.Member("data"); !ok || string(raw) != "[1.0]" {
		t.Errorf("got %s, %v", raw, ok)
	}
	if _, ok := u.Member("other"); ok {
		t.Error("got a member that is not there")
	}
	if _, ok := (&acpv1.Unknown{Raw: json.RawMessage("{")}).Member("a"); ok {
		t.Error("got a member of what is no object")
	}
	if _, err := acpv1.NewUnknown("type", "_chart", acpv1.Members[json.RawMessage]{{Name: "type", Value: json.RawMessage("1")}}); err == nil {
		t.Error("a second discriminator: got no error")
	}
	for name, b := range map[string]acpv1.ContentBlock{
		"another tag":   {Unknown: &acpv1.Unknown{Tag: "_a", Raw: json.RawMessage(`{"type":"_b"}`)}},
		"no tag":        {Unknown: &acpv1.Unknown{Tag: "_a", Raw: json.RawMessage(`{}`)}},
		"no object":     {Unknown: &acpv1.Unknown{Tag: "_a", Raw: json.RawMessage(`[]`)}},
		"no variant":    {},
		"two variants":  {Text: &acpv1.TextContent{}, Image: &acpv1.ImageContent{}},
		"a twin":        {Text: &acpv1.TextContent{Extra: acpv1.Members[json.RawMessage]{{Name: "Text", Value: json.RawMessage("1")}}}},
		"a second tag":  {Text: &acpv1.TextContent{Extra: acpv1.Members[json.RawMessage]{{Name: "type", Value: json.RawMessage("1")}}}},
		"invalid UTF-8": {Text: &acpv1.TextContent{Text: "\xff"}},
		"invalid _meta": {Text: &acpv1.TextContent{Meta: json.RawMessage("{")}},
	} {
		t.Run("a block with "+name+" is not written", func(t *testing.T) {
			if raw, err := b.MarshalJSON(); err == nil {
				t.Errorf("got %s", raw)
			}
		})
	}
	t.Run("a change beside an unknown variant is written", func(t *testing.T) {
		var o acpv1.SessionConfigOption
		if err := o.UnmarshalJSON([]byte(`{"id":"a","type":"_slider","name":"n","max":10}`)); err != nil {
			t.Fatal(err)
		}
		o.ID = "b"
		got, err := o.MarshalJSON()
		if want := `{"id":"b","name":"n","type":"_slider","max":10}`; err != nil || string(got) != want {
			t.Errorf("got %s, %v, want %s", got, err, want)
		}
	})
}

func TestVersionOne(t *testing.T) {
	// The rules of version 1 are as they were: what its schema does not know is
	// kept when it is read, and is not valid.
	tests := []struct {
		definition, raw string
		path            string // of the problem that Validate reports
	}{
		{"ToolCallUpdate", `{"toolCallId":"t","kind":"dream"}`, "/kind"},
		{"ToolCallUpdate", `{"toolCallId":"t","status":"cancelled"}`, "/status"},
		{"PromptResponse", `{"stopReason":"error"}`, "/stopReason"},
		{"Annotations", `{"audience":["user","robot"]}`, "/audience/1"},
		{"PermissionOption", `{"optionId":"o","name":"n","kind":"_maybe"}`, "/kind"},
		{"PlanEntry", `{"content":"c","priority":"high","status":"cancelled"}`, "/status"},
		{"StringPropertySchema", `{"format":"phone"}`, "/format"},
		{"SessionNotification", `{"sessionId":"s","update":{"sessionUpdate":"state_update","state":"running"}}`, "/update/sessionUpdate"},
		{"PromptRequest", `{"sessionId":"s","prompt":[{"type":"_video"}]}`, "/prompt/0/type"},
		{"RequestPermissionResponse", `{"outcome":{"outcome":"deferred"}}`, "/outcome/outcome"},
		{"AuthMethod", `{"type":"_sso","id":"i","name":"n"}`, "/type"},
		{"SessionConfigOption", `{"id":"a","name":"n","category":"_mine","type":"select","currentValue":"v","options":[]}`, ""},
		{"Notice", `{"severity":"later","title":"t"}`, ""},
		{"CreateElicitationResponse", `{"action":"later"}`, ""},
		{"AuthMethod", `{"id":"i","name":"n"}`, ""},
		{"AuthMethod", `{"type":"agent","id":"i","name":"n"}`, ""},
		{"McpServer", `{"type":"stdio","name":"n","command":"c","args":[],"env":[]}`, ""},
		{"McpServer", `{"name":"n","command":"c","args":[],"env":[]}`, ""},
		{"SetSessionConfigOptionRequest", `{"sessionId":"s","configId":"c","value":"v"}`, ""},
		{"RequestId", `null`, ""},
	}
	for _, test := range tests {
		t.Run("R2-022 "+test.definition+" "+test.raw, func(t *testing.T) {
			value, ok := acpv1.New(test.definition)
			if !ok {
				t.Fatal("no such definition")
			}
			if err := acpv1.Unmarshal([]byte(test.raw), value); err != nil {
				t.Fatal(err)
			}
			err := acpv1.Check(value, nil)
			var p *acpv1.Problem
			switch {
			case test.path == "" && err != nil:
				t.Errorf("got %v, want it to be valid", err)
			case test.path != "" && (!errors.As(err, &p) || p.Path != test.path || p.Value == ""):
				t.Errorf("got %v, want a problem at %s", err, test.path)
			}
			got, err := acpv1.Marshal(value)
			if err != nil {
				t.Fatal(err)
			}
			var a, b any
			if json.Unmarshal(got, &a) != nil || json.Unmarshal([]byte(test.raw), &b) != nil || fmt.Sprint(a) != fmt.Sprint(b) {
				t.Errorf("got %s, want %s", got, test.raw)
			}
		})
	}
	t.Run("the variant without discriminator is chosen without one", func(t *testing.T) {
		var m acpv1.MCPServer
		if err := m.UnmarshalJSON([]byte(`{"name":"n","command":"c","args":null,"env":[]}`)); err != nil {
			t.Fatal(err)
		}
		if m.Stdio == nil || m.Stdio.Command != "c" || m.Tag() != "" {
			t.Errorf("got %+v", m)
		}
	})
	t.Run("a known variant that is malformed does not pass for another", func(t *testing.T) {
		var m acpv1.MCPServer
		if err := m.UnmarshalJSON([]byte(`{"type":"http","name":"n","command":"c","args":[],"env":[]}`)); err == nil {
			t.Errorf("got %+v", m)
		}
	})
}

func TestMethods(t *testing.T) {
	want := schema.V1.Methods()
	got := acpv1.Methods()
	if len(got) != len(want) {
		t.Fatalf("got %d methods, want %d", len(got), len(want))
	}
	for i, m := range got {
		side := map[string]acpv1.Side{"agent": acpv1.SideAgent, "client": acpv1.SideClient, "protocol": acpv1.SideBoth}[want[i].Side]
		if m.Name != want[i].Name || m.Side != side || m.Notification() != (want[i].Result == "") || m.Unstable != want[i].Unstable {
			t.Errorf("got %+v, want %+v", m, want[i])
		}
		if got := m.NewParams().Method(); got != m.Name {
			t.Errorf("got params of %s, want of %s", got, m.Name)
		}
		if !m.Notification() && m.NewResult().Method() != m.Name {
			t.Errorf("got a result of %s, want of %s", m.NewResult().Method(), m.Name)
		}
		if found, ok := acpv1.LookupMethod(m.Name); !ok || found.Name != m.Name {
			t.Errorf("%s is not found", m.Name)
		}
	}
	if _, ok := acpv1.LookupMethod("_vendor/thing"); ok {
		t.Error("an extension is found")
	}
	if _, ok := acpv1.New("Nothing"); ok {
		t.Error("a definition that is not there is found")
	}
}

func TestApproves(t *testing.T) {
	offered := []acpv1.PermissionOption{{OptionID: "y", Kind: acpv1.PermissionOptionKindAllowAlways}, {OptionID: "n", Kind: "later"}}
	for id, want := range map[acpv1.PermissionOptionID]bool{"y": true, "n": false, "x": false} {
		o := acpv1.RequestPermissionOutcome{Selected: &acpv1.SelectedPermissionOutcome{OptionID: id}}
		if got := o.Approves(offered); got != want {
			t.Errorf("R2-032 %s: got %v, want %v", id, got, want)
		}
	}
	if (&acpv1.RequestPermissionOutcome{}).Approves(offered) || acpv1.StopReason("later").Success() || !acpv1.StopReasonEndTurn.Success() {
		t.Error("something unknown counts as a yes")
	}
}

func ExampleOptional() {
	rename := acpv1.SessionInfoUpdate{Title: acpv1.Set("Fix the parser")}
	clear := acpv1.SessionInfoUpdate{Title: acpv1.Null[string]()}
	for _, u := range []acpv1.SessionInfoUpdate{rename, clear, {}} {
		raw, _ := acpv1.Marshal(&u)
		fmt.Println(string(raw))
	}
	// Output:
	// {"title":"Fix the parser"}
	// {"title":null}
	// {}
}

func FuzzSessionNotification(f *testing.F) {
	for _, seed := range []string{
		`{"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"hi"}}}`,
		`{"sessionId":"s","update":{"sessionUpdate":"tool_call","toolCallId":"t","title":"T","content":[{"type":"diff","path":"/a","newText":""}]}}`,
		`{"sessionId":"s","update":{"sessionUpdate":"later","x":[1.0]},"_meta":null}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var n acpv1.SessionNotification
		if n.UnmarshalJSON(data) != nil {
			return
		}
		raw, err := n.MarshalJSON()
		if err != nil {
			t.Fatalf("%q decodes but does not encode: %v", data, err)
		}
		if !json.Valid(raw) || strings.ContainsAny(string(raw), "\r\n") {
			t.Fatalf("%q became %q", data, raw)
		}
		_ = n.Validate()
	})
}
