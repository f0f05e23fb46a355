package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/operation/coordination"
)

// TestFiles compares the files of the repository with the texts of this command.
func TestFiles(t *testing.T) {
	want, err := files()
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range want {
		got, err := os.ReadFile(filepath.Join("../..", filepath.FromSlash(name)))
		if err != nil || !bytes.Equal(got, content) {
			t.Errorf("%s differs from the texts in scripts/plugins (%v): run make plugins", name, err)
		}
	}
}

// TestServerSchema checks server.json with the published schema. testdata/README.md names its source.
func TestServerSchema(t *testing.T) {
	raw, err := os.ReadFile("testdata/server.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource(serverSchema, document); err != nil {
		t.Fatal(err)
	}
	schema, err := c.Compile(serverSchema)
	if err != nil {
		t.Fatal(err)
	}

	check := func(change func(entry map[string]any)) error {
		all, err := files()
		if err != nil {
			t.Fatal(err)
		}
		value, err := jsonschema.UnmarshalJSON(bytes.NewReader(all["server.json"]))
		if err != nil {
			t.Fatal(err)
		}
		change(value.(map[string]any))
		return schema.Validate(value)
	}
	if err := check(func(map[string]any) {}); err != nil {
		t.Error(err)
	}
	for name, change := range map[string]func(entry map[string]any){
		"a name without a domain":  func(e map[string]any) { e["name"] = "parley" },
		"a long description":       func(e map[string]any) { e["description"] = strings.Repeat("x", 101) },
		"no version":               func(e map[string]any) { delete(e, "version") },
		"a package without a name": func(e map[string]any) { delete(e["packages"].([]any)[0].(map[string]any), "identifier") },
		"the newest version":       func(e map[string]any) { e["packages"].([]any)[0].(map[string]any)["version"] = "latest" },
		"a transport that is unknown": func(e map[string]any) {
			e["packages"].([]any)[0].(map[string]any)["transport"] = map[string]any{"type": "pipe"}
		},
	} {
		if check(change) == nil {
			t.Errorf("the schema accepts %s", name)
		}
	}
}

// decode reads a file of the command.
func decode(t *testing.T, name string) map[string]any {
	t.Helper()
	all, err := files()
	if err != nil {
		t.Fatal(err)
	}
	var out map[string]any
	if err := json.Unmarshal(all[name], &out); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return out
}

// TestManifests checks the members that the documentation of each CLI names: their schemas are not
// published where these tests could get them. make test-real installs the plugins with the CLIs.
func TestManifests(t *testing.T) {
	kebab := regexp.MustCompile(`^[a-z][a-z0-9]*(-[a-z0-9]+)*$`)
	numbers := regexp.MustCompile(`^[0-9]+\.[0-9]+\.[0-9]+$`)
	for name, c := range map[string]struct{ required, optional []string }{
		".claude-plugin/marketplace.json":   {[]string{"name", "owner", "plugins"}, []string{"metadata"}},
		"plugin/.claude-plugin/plugin.json": {[]string{"name"}, []string{"version", "description", "author", "homepage", "repository", "license", "keywords"}},
		"plugin/.codex-plugin/plugin.json":  {[]string{"name", "version", "description"}, []string{"author", "homepage", "repository", "license", "keywords", "skills", "mcpServers", "interface"}},
		"plugin/gemini-extension.json":      {[]string{"name", "version"}, []string{"description", "mcpServers"}},
		"contrib/npm/package.json":          {[]string{"name", "version", "mcpName", "bin"}, []string{"description", "license", "files", "engines"}},
	} {
		got := decode(t, name)
		for _, member := range c.required {
			if got[member] == nil {
				t.Errorf("%s has no %s", name, member)
			}
		}
		for member := range got {
			if !slices.Contains(c.required, member) && !slices.Contains(c.optional, member) {
				t.Errorf("%s has the member %s, which no documentation names", name, member)
			}
		}
		if label, _ := got["name"].(string); !kebab.MatchString(label) && label != npmName {
			t.Errorf("%s: the name %q", name, label)
		}
		if version, ok := got["version"].(string); ok && !numbers.MatchString(version) {
			t.Errorf("%s: the version %q", name, version)
		}
	}

	t.Run("the list of plugins leads to the plugin", func(t *testing.T) {
		for _, p := range decode(t, ".claude-plugin/marketplace.json")["plugins"].([]any) {
			source := p.(map[string]any)["source"].(string)
			if !strings.HasPrefix(source, "./") || decode(t, strings.TrimPrefix(source, "./")+"/.claude-plugin/plugin.json")["name"] != p.(map[string]any)["name"] {
				t.Errorf("got %v", p)
			}
		}
	})
	t.Run("the package for npm is the one of the registry", func(t *testing.T) {
		entry := decode(t, "server.json")
		got := decode(t, "contrib/npm/package.json")
		if entry["name"] != got["mcpName"] || entry["packages"].([]any)[0].(map[string]any)["identifier"] != got["name"] {
			t.Errorf("got %v and %v", entry["name"], got["mcpName"])
		}
	})
}

// TestSkill checks that the skill is short, and names only tools, actions and arguments that exist.
func TestSkill(t *testing.T) {
	raw, err := skill()
	if err != nil {
		t.Fatal(err)
	}
	text := string(raw)
	if n := len(strings.Fields(text)); n > 600 {
		t.Errorf("the skill has %d words, want at most 600", n)
	}
	if !strings.HasPrefix(text, "---\nname: parley\ndescription: ") || len(when) > 1024 {
		t.Errorf("the skill begins with %.100q", text)
	}

	// The tools, with the names of their arguments and the words that an argument can be.
	tools := map[string]bool{}
	words := map[string]bool{}
	for _, o := range append(api.Operations.Bind(nil), coordination.Operations.Bind(nil)...) {
		if o.Tool == "" {
			continue
		}
		tools[o.Tool] = true
		schema, err := json.Marshal(o.Input)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`"([a-z_]+)"`).FindAllStringSubmatch(string(schema), -1) {
			words[m[1]] = true
		}
	}
	for _, m := range regexp.MustCompile(`\b(acp_[a-z]+)\b`).FindAllString(text, -1) {
		if !tools[m] {
			t.Errorf("there is no tool %s", m)
		}
	}
	for _, m := range regexp.MustCompile("`([a-z_]+)(: [^`]+)?`").FindAllStringSubmatch(text, -1) {
		word, value := m[1], strings.Trim(m[2], `: "`)
		isStage := slices.Contains([]string{"there", "passes", "reviewed", "landed"}, word)
		if !tools[word] && !words[word] && !isStage {
			t.Errorf("no tool has the argument %s", word)
		}
		isAction := word == "action" || word == "state"
		if isAction && value != "" && !words[value] {
			t.Errorf("no tool has the %s %s", word, value)
		}
	}
}
