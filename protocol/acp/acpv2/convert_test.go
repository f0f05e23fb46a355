package acpv2_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/parley-agents/parley/protocol/acp/acpv1"
	"github.com/parley-agents/parley/protocol/acp/acpv2"
	"github.com/parley-agents/parley/protocol/acp/schema"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// A conversionCase is one row of the conversion tables.
type conversionCase struct {
	Name       string          `json:"name"`
	Definition string          `json:"definition"`
	Options    *goldenOptions  `json:"options,omitempty"`
	Input      json.RawMessage `json:"input"`

	// What comes of it.
	Method string            `json:"method,omitempty"`
	Output json.RawMessage   `json:"output,omitempty"`
	Then   []json.RawMessage `json:"then,omitempty"`
	Notes  []string          `json:"notes,omitempty"`
	Errors []string          `json:"errors,omitempty"`
}

type goldenOptions struct {
	Client    *acpv1.ClientCapabilities `json:"client,omitempty"`
	Agent     *acpv1.AgentCapabilities  `json:"agent,omitempty"`
	SessionID acpv2.SessionID           `json:"sessionId,omitempty"`
	Replayed  bool                      `json:"replayed,omitempty"`
	Lossy     bool                      `json:"lossy,omitempty"`
}

func (o *goldenOptions) options() *acpv2.V1Options {
	if o == nil {
		return nil
	}
	return &acpv2.V1Options{Client: o.Client, Agent: o.Agent, SessionID: o.SessionID, Replayed: o.Replayed, Lossy: o.Lossy}
}

// problems lists the problems of an error, one per line.
func problems(err error) []string {
	if err == nil {
		return nil
	}
	return strings.Split(err.Error(), "\n")
}

func encoded(t *testing.T, x any) json.RawMessage {
	t.Helper()
	raw, err := acpv1.Marshal(x)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// run converts the input and returns the case with what came of it.
func (c conversionCase) run(t *testing.T) conversionCase {
	t.Helper()
	value, ok := acpv2.New(c.Definition)
	if !ok {
		t.Fatalf("no definition %s", c.Definition)
	}
	if err := acpv1.Unmarshal(c.Input, value); err != nil {
		t.Fatal(err)
	}
	got := conversionCase{Name: c.Name, Definition: c.Definition, Options: c.Options, Input: c.Input}
	conversion, err := acpv2.ToV1(value.(acpv2.Message), c.Options.options())
	if err != nil {
		for _, line := range problems(err) {
			if !strings.HasPrefix(line, "acp: /") && !strings.Contains(line, "method of version 1") && !strings.Contains(line, "the agent's capabilities") {
				t.Errorf("error %q does not begin with a path", line)
			}
		}
		got.Errors = problems(err)
		return got
	}
	if conversion.Message != nil {
		got.Method, got.Output = conversion.Message.Method(), encoded(t, conversion.Message)
	}
	for _, m := range conversion.Then {
		got.Then = append(got.Then, encoded(t, m))
	}
	for _, n := range conversion.Notes {
		got.Notes = append(got.Notes, n.Error())
	}
	return got
}

func TestToV1(t *testing.T) {
	files, err := filepath.Glob("testdata/tov1/*.json")
	if err != nil || len(files) == 0 {
		t.Fatal("no golden files", err)
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var cases []conversionCase
		dec := json.NewDecoder(bytes.NewReader(raw))
		dec.DisallowUnknownFields()
		if err := dec.Decode(&cases); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		results := make([]conversionCase, len(cases))
		for i, want := range cases {
			t.Run("R2-021 "+filepath.Base(file)+" "+want.Name, func(t *testing.T) {
				results[i] = want.run(t)
				if *update {
					return
				}
				got, err := json.Marshal(results[i])
				if err != nil {
					t.Fatal(err)
				}
				wantRaw, err := json.Marshal(want)
				if err != nil {
					t.Fatal(err)
				}
				if !sameJSON(t, got, wantRaw) {
					t.Errorf("got  %s\nwant %s", got, wantRaw)
				}
			})
		}
		if *update {
			var b bytes.Buffer
			enc := json.NewEncoder(&b)
			enc.SetEscapeHTML(false)
			enc.SetIndent("", " ")
			if err := enc.Encode(results); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, b.Bytes(), 0o666); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestToV1Everything converts made-up instances of every message: whatever comes
// out must be valid in version 1, and a failure must name a path.
func TestToV1Everything(t *testing.T) {
	all := versions(t)
	v1, v2 := all[0], all[1]
	converted := map[string]int{}
	for _, method := range acpv2.Methods() {
		news := []func() acpv2.Message{method.NewParams}
		if !method.Notification() {
			news = append(news, method.NewResult)
		}
		for _, newMessage := range news {
			name := definitionName(t, newMessage())
			for seed := range uint64(200) {
				m := newMaker(v2, seed)
				raw := m.instance(name)
				message := newMessage()
				if err := message.UnmarshalJSON(raw); err != nil {
					t.Fatal(err)
				}
				for _, lossy := range []bool{false, true} {
					got, err := acpv2.ToV1(message, &acpv2.V1Options{Lossy: lossy, SessionID: "s"})
					var p *acpv2.Problem
					if err != nil && !errors.As(err, &p) {
						t.Fatalf("%s: %v is not a *Problem", name, err)
					}
					if err != nil || got.Message == nil {
						continue
					}
					converted[name]++
					out := encoded(t, got.Message)
					if err := v1.valid(t, definitionName(t, got.Message), out); err != nil {
						t.Fatalf("%s became %s: %v", raw, out, err)
					}
				}
			}
			if after := roundTripped(t, newMessage, v2, name); !after {
				t.Errorf("%s: converting changed the message", name)
			}
		}
	}
	never := []string{"PromptResponse", "CancelToolCallRequest", "CancelToolCallResponse", "CancelTerminalRequest", "CancelTerminalResponse"}
	for _, method := range v2.Methods() {
		for _, name := range []string{method.Params, method.Result} {
			if name == "" {
				continue
			}
			if got, want := converted[name] > 0, !slices.Contains(never, name); got != want {
				t.Errorf("%s can be converted: got %v, want %v", name, got, want)
			}
		}
	}
}

// roundTripped reports whether a message is the same after it was converted.
func roundTripped(t *testing.T, newMessage func() acpv2.Message, v *version, name string) bool {
	t.Helper()
	for seed := range uint64(20) {
		raw := newMaker(v, seed).instance(name)
		message := newMessage()
		if err := message.UnmarshalJSON(raw); err != nil {
			t.Fatal(err)
		}
		before := encoded(t, message)
		_, _ = acpv2.ToV1(message, &acpv2.V1Options{Lossy: true})
		if !bytes.Equal(before, encoded(t, message)) {
			return false
		}
	}
	return true
}

// definitionName returns the name of a message's type, which is that of its
// definition: no message has an initialism in its name.
func definitionName(t *testing.T, m acpv1.Message) string {
	t.Helper()
	for _, v := range []schema.Version{schema.V1, schema.V2} {
		for _, name := range v.Definitions() {
			if typeName(m) == name {
				return name
			}
		}
	}
	t.Fatalf("%T is no definition", m)
	return ""
}

func typeName(v any) string {
	return reflect.TypeOf(v).Elem().Name()
}

func TestVerbatimDefinitions(t *testing.T) {
	// What is converted as it stands must have no member in version 1 that is
	// unknown in version 2: an extension would become that member.
	v1, v2 := versions(t)[0], versions(t)[1]
	for name2, name1 := range map[string]string{
		"Implementation": "", "ElicitationCapabilities": "", "SessionDeleteCapabilities": "", "SessionAdditionalDirectoriesCapabilities": "",
		"SessionForkCapabilities": "", "ListSessionsRequest": "", "ListSessionsResponse": "", "SessionInfo": "", "DeleteSessionRequest": "",
		"DeleteSessionResponse": "", "CloseSessionRequest": "", "CloseSessionResponse": "", "CancelSessionNotification": "CancelNotification",
		"CancelRequestNotification": "", "RequestPermissionResponse": "", "SelectedPermissionOutcome": "", "CompleteElicitationNotification": "",
		"CreateElicitationRequest": "", "CreateElicitationResponse": "", "ElicitationSchema": "", "StringPropertySchema": "", "NumberPropertySchema": "",
		"IntegerPropertySchema": "", "BooleanPropertySchema": "", "MultiSelectPropertySchema": "", "EnumOption": "", "SessionInfoUpdate": "",
		"UsageUpdate": "", "Cost": "", "Notice": "", "TextContent": "", "ImageContent": "", "AudioContent": "", "ResourceLink": "", "EmbeddedResource": "",
		"TextResourceContents": "", "BlobResourceContents": "", "Annotations": "", "PlanEntry": "", "ToolCallLocation": "", "PermissionOption": "",
		"SessionConfigSelectOption": "",
	} {
		if name1 == "" {
			name1 = name2
		}
		known, _ := v2.defs[name2]["properties"].(map[string]any)
		members, _ := v1.defs[name1]["properties"].(map[string]any)
		for member := range members {
			if _, ok := known[member]; !ok {
				t.Errorf("%s has a member %q in version 1 only", name1, member)
			}
		}
	}
}
