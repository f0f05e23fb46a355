package cli_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/parley-agents/parley/internal/desk/cli"
)

func lookup(t testing.TB, name string) cli.CLI {
	t.Helper()
	c, err := cli.Lookup(name)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

var (
	byStdio = cli.Entry{Command: "/usr/bin/parley", KeyFile: "/home/a b/key", URL: "http://127.0.0.1:7420"}
	byHTTP  = cli.Entry{Transport: cli.HTTP, URL: "http://127.0.0.1:7420", Key: "cacp_sk_live_secret"}
)

// roundTrip holds for every document that can be edited: what is added is
// there, adding it again changes nothing, and taking it out gives the document
// back, also after the entry was changed.
func roundTrip(t *testing.T, c cli.CLI, doc []byte) (added []byte, err error) {
	t.Helper()
	was := bytes.Clone(doc)
	had, err := cli.Has(c, doc, cli.DefaultName)
	if err != nil {
		if _, err := cli.Put(c, doc, byStdio); err == nil {
			t.Errorf("%s: a refused document was edited: %q", c.Name, doc)
		}
		if _, err := cli.Drop(c, doc, cli.DefaultName); err == nil {
			t.Errorf("%s: a refused document was edited: %q", c.Name, doc)
		}
		return nil, err
	}
	if had {
		dropped, err := cli.Drop(c, doc, cli.DefaultName)
		if err != nil {
			t.Fatalf("%s: drop from %q: %v", c.Name, doc, err)
		}
		if has, err := cli.Has(c, dropped, cli.DefaultName); has || err != nil {
			t.Errorf("%s: %q became %q: got an entry (%v)", c.Name, doc, dropped, err)
		}
		added, err := cli.Put(c, doc, byStdio)
		if err != nil {
			return nil, err // a member of the entry is there twice
		}
		if has, err := cli.Has(c, added, cli.DefaultName); !has || err != nil {
			t.Errorf("%s: %q became %q: got no entry (%v)", c.Name, doc, added, err)
		}
		return added, nil
	}
	added, err = cli.Put(c, doc, byStdio)
	if err != nil {
		t.Fatalf("%s: put into %q: %v", c.Name, doc, err)
	}
	if has, err := cli.Has(c, added, cli.DefaultName); !has || err != nil {
		t.Fatalf("%s: %q became %q: got no entry (%v)", c.Name, doc, added, err)
	}
	again, err := cli.Put(c, added, byStdio)
	if err != nil || !bytes.Equal(again, added) {
		t.Errorf("%s: put again into %q: got %q (%v)", c.Name, added, again, err)
	}
	changed, err := cli.Put(c, added, byHTTP)
	if err != nil || !bytes.Contains(changed, []byte(byHTTP.Key)) {
		t.Fatalf("%s: change in %q: got %q (%v)", c.Name, added, changed, err)
	}
	for _, from := range [][]byte{added, changed} {
		if got, err := cli.Drop(c, from, cli.DefaultName); err != nil || !bytes.Equal(got, doc) {
			t.Errorf("%s: taken out of %q: got %q (%v), want %q", c.Name, from, got, err, doc)
		}
	}
	if got, err := cli.Drop(c, doc, cli.DefaultName); err != nil || !bytes.Equal(got, doc) {
		t.Errorf("%s: taken out where it is not: got %q (%v), want %q", c.Name, got, err, doc)
	}
	if !bytes.Equal(doc, was) {
		t.Errorf("the document that was given changed: got %q, want %q", doc, was)
	}
	return added, nil
}

// jsonDocuments are files as people and programs write them.
var jsonDocuments = []string{
	"", " ", "\n", "\r", "\ufeff", "{}", "{ }", "{\n}\n", "\r\n{\r\n}\r\n", "{}\n\n", "\ufeff{}",
	`{"a":1}`, `{"a":1,"mcpServers":{}}`, `{"mcpServers":{"x":{}}}`, `{"mcp":{"x":{}},"b":[1,{"c":null}]}`,
	"{\n  \"a\": 1\n}\n", "{\n\t\"a\": {\n\t\t\"b\": []\n\t}\n}", "{\r\n    \"a\": true\r\n}\r\n",
	"{\n  \"mcpServers\": {},\n  \"mcp\": {}\n}", "{\n  \"mcpServers\": {\n  },\n  \"mcp\": {\n  }\n}\n",
	"{\n  \"mcpServers\": {\n    \"x\": {\"command\": \"y\"}\n  },\n  \"z\": -1.5e+3\n}\n",
	"// head\n", "// head", "/* a */ { /* b */ } // c", "{ // c\n}", "{\"a\":1 // c\n}", "{\"a\":1 /* c */}", "{\"a\":1, // c\n}",
	"{\n  \"a\": 1, // about a\n  // about b\n  \"b\": 2 // more\n  // last\n}\n", "{\n  // none\n  \"mcp\": { // none yet\n  },\n}\n",
	"{\n  \"mcp\": {\n    \"x\": {}, // x\n  }, // all\n}\n", "{\"a\":[1,],}", "{\"a\":[1,]}", "{\"a\" /*1*/ : /*2*/ 1 /*3*/ , /*4*/ }",
	`{"mcpServers":{"\u0078":1}}`, `{"mcpServers":1}`, `{"mcp":[]}`, `{"mcpServers":{},"mcpServers":{}}`, `{"mcp\u0053ervers":{}}`,
	"[]", "1", "null", `"x"`, "{", "}", `{"a"}`, `{"a":}`, `{"a":1`, `{"a":1,}`, `{,}`, `{"a":01}`, `{"a":tru}`, `{"a":"\x"}`, "{\"a\":\"\n\"}", "{} {}", "// a\r", "{//\r}", "\r//", "/*", "/", "{}/",
	`{"mcpServers":{"parley":{"command":"x","command":"y"}}}`, `{"mcpServers":{"parley":null}}`, `{"mcp":{"a":1,"parley":{/*c*/},},}`,
	"{\"mcpServers\": { // c\n \"parley\": {\"url\": 1} }, \"b\": 1}", "{\"mcp\": {\n // c\n \"parley\": {}, // d\n }}",
	"{\n  \"a\": 1}", "{\"a\": 1,\n\"b\": 2}", "{\n\n  \"a\": 1\n\n}\n\n",
}

func FuzzJSON(f *testing.F) {
	for _, doc := range jsonDocuments {
		f.Add([]byte(doc))
	}
	f.Fuzz(func(t *testing.T, doc []byte) {
		for _, name := range []string{"claude", "gemini", "opencode"} {
			added, err := roundTrip(t, lookup(t, name), doc)
			if name != "claude" {
				continue
			}
			// There the file is JSON and nothing else, about which the standard
			// library has the last word.
			blank := len(bytes.Trim(bytes.TrimPrefix(doc, []byte("\ufeff")), " \t\r\n")) == 0
			text := bytes.TrimPrefix(doc, []byte("\ufeff"))
			switch {
			case err == nil && !blank && !json.Valid(text):
				t.Errorf("%q is not JSON, but it was accepted", doc)
			case added != nil && !json.Valid(bytes.TrimPrefix(added, []byte("\ufeff"))):
				t.Errorf("%q became %q, which is not JSON", doc, added)
			case err != nil && json.Valid(text) && !isKnownRefusal(err):
				t.Errorf("%q is JSON: got %v", doc, err)
			}
		}
	})
}

// isKnownRefusal reports whether a document was refused for what it says, not
// for how it is written.
func isKnownRefusal(err error) bool {
	for _, text := range []string{"must be an object", "duplicate member", "nested too deep"} {
		if strings.Contains(err.Error(), text) {
			return true
		}
	}
	return false
}

var tomlDocuments = []string{
	"", "\n", "a = 1", "a = 1\n", "a = 1\r\n", "# c", "# c\n\n", "\ufeffa = 1\n", "[x]\n", "[ x . \"y z\" ]\na.b = 'c' # d\n",
	"model = \"gpt-5\"\n\n[mcp_servers.x]\ncommand = \"y\"\nargs = [\n  \"a\", # one\n  'b',\n]\n\n[mcp_servers.x.env]\nA = \"b\"\n",
	"t = 2026-01-02 03:04:05Z\nf = -1.5e+3\nn = nan\nh = 0xff_ff\nb = true\n", "s = \"\"\"\n[mcp_servers.parley]\n\"\"\"\"\n", "s = '''\n[a]\n''''\n",
	"i = { a = 1, b = { c = [] } }\n", "[[products]]\nname = 1\n[[products]]\n", "[mcp_servers]\nx = { command = \"y\" }\n", "  [x]\n  a = 1\n",
	"mcp_servers.x.command = \"y\"\n", "[mcp_servers.parley-two]\ncommand = \"y\"\n",
	"mcp_servers = {}\n", "[mcp_servers]\nparley = {}\n", "mcp_servers.parley.command = 1\n", "[[mcp_servers]]\n", "[mcp_servers.\"parley\"]\n", "[mcp_servers.parley.env]\nA='b'\n[mcp_servers.parley]\nurl='x'", "[mcp_servers.parley]\nx=1\n[y]\n[mcp_servers.parley.z]\n",
	"[[mcp_servers.parley]]\n",
	"a", "a =", "a = \"", "a = '\n'", "[a", "[[a]", "a = [1", "a = [1 2]", "a = {b}", "a = {b=1", "a = 1 2", "= 1", "a = \"\"\"", "a\r= 1", "# a\r", "\"a\\\"\" = 1\n", "\"\\q\" = 1\n",
}

func FuzzTOML(f *testing.F) {
	for _, doc := range tomlDocuments {
		f.Add([]byte(doc))
	}
	f.Fuzz(func(t *testing.T, doc []byte) {
		_, _ = roundTrip(t, lookup(t, "codex"), doc)
	})
}

func FuzzInstruction(f *testing.F) {
	for _, doc := range []string{
		"", "\n", "# Title", "# Title\n\ntext\n", "a\r\nb\r\n", "a\rb\r", "a\rb", "x\ny\r", "\r\n",
		"<!-- parley: other/parley -->\nx\n<!-- /parley -->\n", "<!-- parley: a -->", "<!-- /parley -->", "<!-- parley:  -->\n<!-- /parley -->", "<!-- parley: -->",
	} {
		f.Add([]byte(doc))
	}
	f.Fuzz(func(t *testing.T, doc []byte) {
		had, err := cli.HasNote(doc, "claude/parley")
		if had || err != nil {
			return
		}
		shared := bytes.Contains(doc, []byte("<!-- parley:")) // then the line in it is brought up to date
		added, err := cli.PutNote(doc, "claude/parley", "one")
		if err != nil {
			t.Fatal(err)
		}
		if has, err := cli.HasNote(added, "claude/parley"); !has || err != nil {
			t.Fatalf("%q became %q: got no instruction (%v)", doc, added, err)
		}
		if got, err := cli.PutNote(added, "claude/parley", "one"); err != nil || !bytes.Equal(got, added) {
			t.Errorf("put again into %q: got %q (%v)", added, got, err)
		}
		got, err := cli.DropNote(added, "claude/parley")
		if err != nil || !shared && !bytes.Equal(got, doc) {
			t.Errorf("taken out of %q: got %q (%v), want %q", added, got, err, doc)
		}
	})
}
