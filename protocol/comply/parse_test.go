package comply_test

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/parley-agents/parley/protocol/acp/schema"
	"github.com/parley-agents/parley/protocol/comply"
)

func TestParse(t *testing.T) {
	t.Run("R4-024 the id is the name of the file", func(t *testing.T) {
		got, err := comply.Parse("some/where/required.x.jsont", []byte(`{`+head+`, "steps": []}`))
		if err != nil || got.ID != "required.x" {
			t.Errorf("got %+v (%v)", got, err)
		}
	})
	t.Run("R4-003 what is said about a test comes from the file", func(t *testing.T) {
		got, err := comply.Parse("x.jsont", []byte(`{"title": "A title", "description": "What for", "severity": "optional", "docs": ["a", "b"], "rules": ["R-1"], "area": "Somewhere", "steps": []}`))
		if err != nil || got.Title != "A title" || got.Description != "What for" || got.Severity != comply.Optional || !slices.Equal(got.Docs, []string{"a", "b"}) || !slices.Equal(got.Rules, []string{"R-1"}) || got.Area != "Somewhere" {
			t.Errorf("got %+v (%v)", got, err)
		}
	})
	t.Run("R4-041 a description may be missing, and is remarked", func(t *testing.T) {
		got, err := comply.Parse("x.jsont", []byte(`{"title": "t", "severity": "required", "steps": []}`))
		if err != nil || !slices.ContainsFunc(got.Remarks, func(s string) bool { return strings.Contains(s, `"description"`) }) {
			t.Errorf("got %+v (%v)", got, err)
		}
	})
	t.Run("R4-032 what is no regular expression is remarked", func(t *testing.T) {
		got, err := comply.Parse("x.jsont", []byte("{"+head+`, "steps": [{"expect": {"messages": [`+"\n"+`{"response": {"id": "(?!x)"}}]}}]}`))
		if err != nil || len(got.Remarks) != 1 || !strings.HasPrefix(got.Remarks[0], "line 2: ") {
			t.Errorf("got %+v (%v)", got, err)
		}
	})
	step := func(s string) string { return "{" + head + ",\n\"steps\": [\n" + s + "\n]}" }
	for _, c := range []struct {
		name, text string
		line       int
		part       string
	}{
		{"what is no JSON", "{\n\"title\": \"t\",\n oops}", 3, "not JSON"},
		{"R4-026 an unknown variable outside of a string", "{\n\"title\": ${nope}\n}", 2, "${nope}"},
		{"a member that is there twice", "{\n\"title\": \"t\",\n\"title\": \"u\"}", 3, "twice"},
		{"bytes that are no UTF-8", "{\n\"\xff\": 1}", 2, "UTF-8"},
		{"more than one value", "{}\n{}", 2, "not JSON"},
		{"an array", "[]", 1, "object"},
		{"R4-040 no title", `{"severity": "required", "steps": []}`, 1, "title"},
		{"R4-042 no severity", `{"title": "t", "steps": []}`, 1, "severity"},
		{"R4-042 a wrong severity", "{\"title\": \"t\",\n\"severity\": \"fatal\", \"steps\": []}", 2, "fatal"},
		{"R4-043 docs that are no list", "{\"title\": \"t\", \"severity\": \"required\",\n\"docs\": \"x\", \"steps\": []}", 2, "docs"},
		{"R4-044 preconditions that are no list", "{" + head + ",\n\"preconditions\": {}, \"steps\": []}", 2, "preconditions"},
		{"R4-045 a file that leads up", "{\"title\": \"t\", \"severity\": \"required\", \"sandbox\": {\"files\": [\n{\"path\": \"../x\"}]}, \"steps\": []}", 2, "sandbox"},
		{"R4-025 a file with an absolute path", "{\"title\": \"t\", \"severity\": \"required\", \"sandbox\": {\"files\": [\n{\"path\": \"/etc/x\"}]}, \"steps\": []}", 2, "sandbox"},
		{"R4-045 a file without a path", "{\"title\": \"t\", \"severity\": \"required\", \"sandbox\": {\"files\": [\n{}]}, \"steps\": []}", 2, "path"},
		{"R4-045 a file in no base64", "{\"title\": \"t\", \"severity\": \"required\", \"sandbox\": {\"files\": [\n{\"path\": \"x\", \"base64\": \"!\"}]}, \"steps\": []}", 2, "base64"},
		{"R4-046 no steps", `{"title": "t", "severity": "required"}`, 1, "steps"},
		{"R4-046 a wrong policy", "{" + head + ", \"init\": {\n\"permissionPolicy\": \"ask\"}, \"steps\": []}", 2, "yolo"},
		{"R4-046 a step that is no object", step(`1`), 3, "object"},
		{"R4-046 a step that does two things", step(`{"delayMs": 1, "forbid": {}}`), 3, "one action"},
		{"R4-046 a send that is no object", step(`{"send": "x"}`), 3, "send"},
		{"R4-056 a timeout that is no number", step(`{"expect": {"timeoutMs": "1"}}`), 3, "timeoutMs"},
		{"R4-056 a timeout without end", step(`{"expect": {"timeoutMs": 1e12}}`), 3, "timeoutMs"},
		{"R4-057 a message that is nothing", step("{\"expect\": {\"messages\": [\n{}]}}"), 4, "clientRequest"},
		{"R4-057 a message that is two things", step("{\"expect\": {\"messages\": [\n{\"response\": {}, \"notification\": {}}]}}"), 4, "one of"},
		{"R4-058 methods that are no texts", step("{\"forbid\": {\"methods\": [\n1]}}"), 4, "methods"},
		{"R4-059 a negative delay", step(`{"delayMs": -1}`), 3, "delayMs"},
		{"too many steps", step(`{"repeat": {"times": 10000, "steps": [{"repeat": {"times": 10000, "steps": [{"delayMs": 1}]}}]}}`), 1, "at most"},
		{"a level that does not exist", step(`{"level": "WILL", "delayMs": 1}`), 3, "MUST"},
	} {
		t.Run(c.name+" is refused with path and line", func(t *testing.T) {
			_, err := comply.Parse("dir/x.jsont", []byte(c.text))
			var bad *comply.FileError
			if !errors.As(err, &bad) || bad.Path != "dir/x.jsont" || bad.Line != c.line || !strings.Contains(err.Error(), c.part) {
				t.Errorf("got %v, want line %d with %q", err, c.line, c.part)
			}
		})
	}
}

func TestLoad(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"b.jsont":     `{"title": "b", "severity": "optional", "steps": []}`,
		"sub/a.jsont": `{"title": "a", "severity": "required", "steps": []}`,
		"notes.json":  `nothing`,
	} {
		path := filepath.Join(dir, name)
		os.MkdirAll(filepath.Dir(path), 0o700)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	tests, err := comply.Load(dir)
	if err != nil || len(tests) != 2 || tests[0].ID != "a" || tests[1].ID != "b" {
		t.Fatalf("got %v (%v), want a and b", tests, err)
	}
	t.Run("all broken files are named", func(t *testing.T) {
		for _, name := range []string{"x.jsont", "y.jsont", "sub/b.jsont"} {
			text := "oops"
			if name == "sub/b.jsont" {
				text = `{"title": "b", "severity": "optional", "steps": []}`
			}
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		_, err := comply.Load(dir)
		for _, part := range []string{"x.jsont:1", "y.jsont:1", "b.jsont:1: the id"} {
			if err == nil || !strings.Contains(err.Error(), part) {
				t.Errorf("%q is missing in %v", part, err)
			}
		}
	})
	t.Run("a folder without tests is an error", func(t *testing.T) {
		if _, err := comply.Load(t.TempDir()); err == nil {
			t.Error("no error")
		}
	})
}

func TestParseAgents(t *testing.T) {
	got, err := comply.ParseAgents("a.json", []byte(`{"theme": "x", "agent_servers": {"Zed": {"command": "z", "args": ["--acp"], "env": {"K": "v"}}, "Abc": {"command": "a"}}}`))
	if err != nil || len(got) != 2 || got[0].Name != "Zed" || got[0].Args[0] != "--acp" || got[0].Env["K"] != "v" || got[1].Command != "a" {
		t.Errorf("got %+v (%v)", got, err)
	}
	for text, want := range map[string]string{
		"{\n}": "a.json:1", "{\"agent_servers\":\n{}}": "a.json:2", "{\"agent_servers\": {\n\"x\": {}}}": "a.json:2",
		"{\"agent_servers\": {\n\"x\": {\"command\": \"x\",\n\"env\": {\"a\": 1}}}}": "a.json:3", "oops": "a.json:1", "{\"agent_servers\":\n1}": "a.json:2",
	} {
		if _, err := comply.ParseAgents("a.json", []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", text, err, want)
		}
	}
}

// TestMethodAgnostic searches the runner and the language of tests for names of
// methods. Only the services for agents may have any; the language knows the one
// that opens a conversation.
func TestMethodAgnostic(t *testing.T) {
	t.Run("R4-002 no step knows a method", func(t *testing.T) {
		files, err := filepath.Glob("*.go")
		if err != nil || len(files) == 0 {
			t.Fatal(files, err)
		}
		language, err := filepath.Glob("jsont/*.go")
		if err != nil || len(language) == 0 {
			t.Fatal(language, err)
		}
		files = append(files, language...)
		for _, name := range files {
			if name == "services.go" || strings.HasSuffix(name, "_test.go") {
				continue
			}
			f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(f, func(n ast.Node) bool {
				if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
					text, _ := strconv.Unquote(lit.Value)
					if _, ok := schema.V1.Method(text); ok && text != "initialize" {
						t.Errorf("%s knows the method %s", name, text)
					}
				}
				return true
			})
		}
	})
}

func FuzzParse(f *testing.F) {
	for _, pattern := range []string{"suite/*.jsont", "testdata/samples/*.jsont"} {
		files, _ := filepath.Glob(pattern)
		for _, name := range files {
			raw, err := os.ReadFile(name)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(raw)
		}
	}
	f.Add([]byte(`{` + head + `, "steps": [{"repeat": {"times": 2, "steps": [{"sendRaw": {"base64": "aGk="}}]}}, {"process": {"closeInput": true}}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		got, err := comply.Parse("x.jsont", text)
		var bad *comply.FileError
		switch {
		case err == nil && (got.Title == "" || got.ID != "x"):
			t.Errorf("got %+v", got)
		case err != nil && (!errors.As(err, &bad) || bad.Line < 1):
			t.Errorf("got %v", err)
		}
	})
}
