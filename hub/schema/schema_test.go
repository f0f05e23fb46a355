package schema_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/schema"
)

// parse returns a published schema as a JSON value.
func parse(t *testing.T, name string) map[string]any {
	t.Helper()
	text, err := schema.Text(name)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return doc.(map[string]any)
}

// compile returns a published schema, with formats as annotations only. It
// cannot reach anything but that schema.
func compile(t *testing.T, name string) *jsonschema.Schema {
	t.Helper()
	doc := parse(t, name)
	id, _ := doc["$id"].(string)
	c := jsonschema.NewCompiler()
	c.UseLoader(jsonschema.SchemeURLLoader{})
	if err := c.AddResource(id, doc); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	s, err := c.Compile(id)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return s
}

func TestNames(t *testing.T) {
	want := []string{"comply-report", "envelope", "handoff-package", "proof-file", "teamspace"}
	for _, noun := range []string{"contract", "decision", "file", "handoff", "landing", "message", "review", "run"} {
		want = append(want, "attestation/"+noun)
	}
	for _, kind := range hub.MessageTypes {
		want = append(want, "payload/"+string(kind))
	}
	slices.Sort(want)
	if got := schema.Names(); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	for _, name := range []string{"", "nothing", "payload/task.nothing", "../schema", "envelope.schema.json"} {
		if text, err := schema.Text(name); err == nil {
			t.Errorf("%q: got %s, want an error", name, text)
		}
	}
}

func TestSchemas(t *testing.T) {
	defs := map[string]any{}
	for _, name := range schema.Names() {
		t.Run(name, func(t *testing.T) {
			compile(t, name)
			doc := parse(t, name)
			if got, want := doc["$schema"], "https://json-schema.org/draft/2020-12/schema"; got != want {
				t.Errorf("got dialect %v, want %s", got, want)
			}
			if got, want := doc["$id"], "urn:parley:schema:"+strings.ReplaceAll(name, "/", ":")+":1.0.0"; got != want {
				t.Errorf("got id %v, want %s", got, want)
			}
			for _, member := range []string{"title", "description"} {
				if s, _ := doc[member].(string); s == "" {
					t.Errorf("%s is missing", member)
				}
			}
			text, _ := schema.Text(name)
			for _, keyword := range []string{`"format"`, `"additionalProperties"`, `"unevaluatedProperties"`} {
				if bytes.Contains(text, []byte(keyword)) {
					t.Errorf("%s is used: formats are not asserted, and unknown members must pass", keyword)
				}
			}
			// Each schema is complete in itself, so some definitions are in
			// several; they must not drift apart.
			shared, _ := doc["$defs"].(map[string]any)
			for def, s := range shared {
				if first, ok := defs[def]; ok && !reflect.DeepEqual(first, s) {
					t.Errorf("$defs/%s differs from that of another schema", def)
				}
				defs[def] = s
				if !bytes.Contains(text, []byte(`"#/$defs/`+def+`"`)) {
					t.Errorf("$defs/%s is not used", def)
				}
			}
		})
	}
}

// Each file in testdata is named after a schema and has a document on each line.
func TestGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/*.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	count := map[string]int{}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".jsonl")
		s := compile(t, name)
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(bytes.NewReader(b))
		for lines.Scan() {
			var c struct {
				Name     string          `json:"name"`
				Verdict  string          `json:"verdict"`
				Document json.RawMessage `json:"document"`
			}
			if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
				t.Fatalf("%s: %v: %s", file, err, lines.Text())
			}
			count[name+" "+c.Verdict]++
			// The requirement stays in front.
			id, rule := "", c.Name
			if strings.HasPrefix(rule, "R3-") {
				id, rule, _ = strings.Cut(rule, " ")
				id += " "
			} else if name == "handoff-package" {
				id = "R3-050 "
			}
			t.Run(id+name+": "+rule, func(t *testing.T) {
				v, err := jsonschema.UnmarshalJSON(bytes.NewReader(c.Document))
				if err != nil {
					t.Fatal(err)
				}
				if err := s.Validate(v); (err == nil) != (c.Verdict == "valid") {
					t.Errorf("got %v, want %s", err, c.Verdict)
				}
			})
		}
		if err := lines.Err(); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
	}
	t.Run("R3-124 handoff packages and manifests are tested with good and bad documents", func(t *testing.T) {
		for kind, atLeast := range map[string]int{
			"handoff-package valid": 5, "handoff-package invalid": 15, "teamspace valid": 3, "teamspace invalid": 9,
		} {
			if count[kind] < atLeast {
				t.Errorf("%s: got %d documents, want %d or more", kind, count[kind], atLeast)
			}
		}
	})
}

func TestSchemasListWhatTheCodeLists(t *testing.T) {
	for _, tt := range []struct {
		schema, path string
		want         []string
	}{
		{"handoff-package", "$defs/priority/enum", texts(hub.Priorities)},
		{"handoff-package", "$defs/artifactRef/properties/type/enum", hub.ArtifactRefTypes},
		{"handoff-package", "$defs/externalRef/properties/type/enum", hub.ExternalRefTypes},
		{"teamspace", "properties/policy/properties/default_visibility/enum", texts(hub.Visibilities)},
		{"teamspace", "properties/members/items/properties/role/enum", texts(hub.Roles)},
	} {
		var at any = parse(t, tt.schema)
		for name := range strings.SplitSeq(tt.path, "/") {
			at = at.(map[string]any)[name]
		}
		var got []string
		for _, v := range at.([]any) {
			got = append(got, v.(string))
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: %s: got %v, want %v", tt.schema, tt.path, got, tt.want)
		}
	}
}

func texts[S ~string](all []S) []string {
	var out []string
	for _, s := range all {
		out = append(out, string(s))
	}
	return out
}
