package evidence_test

import (
	"strings"
	"testing"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/reach/evidence"
)

// TestJudging holds which changes touch what judges them, and which of those need a word.
func TestJudging(t *testing.T) {
	t.Parallel()
	before := map[string]string{
		"Makefile": "test:\n\tsh scripts/test.sh\n", "scripts/test.sh": "#!/bin/sh\n. ./lib.sh\n", "lib.sh": "x=1\n", "setup.sh": "#!/bin/sh\n", "other.sh": "#!/bin/sh\n",
		"rules.mk": "ci:\n\tpython3 ci/run.py\n\tnode ci/run.js\n", "ci/run.py": "import os, helper as h\nfrom .more import (one, two)\nimport json\n", "ci/helper.py": "ok = 1\n", "ci/more/one.py": "1\n",
		"ci/run.js": "const a = require('./lib');\nimport b from \"../src/app.js\";\n", "ci/lib.js": "0\n", "src/app.js": "0\n", "check.py": "import shop\n", "shop.py": "", "tests/run.py": "import data\n", "tests/data.py": "0\n",
		"package.json": `{"name":"a","scripts":{"test":"jest"},"version":"1"}`, "parley.yaml": "checks: []\n", ".parley/keys/a.pub": "a", "src/a_test.go": "package a // one\n", "src/a.go": "package a\n", "big.txt": "x",
	}
	for _, tt := range []struct {
		name    string
		line    string
		counted bool
		change  map[string]string // "" deletes
		want    string            // the findings; those that need a word begin with !
	}{
		{"the makefile", "make test", false, map[string]string{"Makefile": "test:\n"}, "!Makefile was modified, and a check depends on it"},
		{"one that stands in for it", "make test", false, map[string]string{"GNUmakefile": "test:\n"}, "!GNUmakefile was created, and a check uses it instead of Makefile"},
		{"a script that the makefile runs", "make test", false, map[string]string{"scripts/test.sh": "exit 0\n"}, "!scripts/test.sh was modified, and a check depends on it"},
		{"a script that another includes", "make test", false, map[string]string{"lib.sh": ""}, "!lib.sh was deleted, and a check depends on it"},
		{"a script that the command names", "sh scripts/test.sh", false, map[string]string{"scripts/test.sh": "exit 0\n"}, "!scripts/test.sh was modified, and a check depends on it"},
		{"the setup", "make test\nsh setup.sh", false, map[string]string{"setup.sh": "exit 0\n"}, "!setup.sh was modified, and a check depends on it"},
		{"the script of a package", "npm test", false, map[string]string{"package.json": `{"name":"a","scripts":{"test":"true"},"version":"1"}`}, "!package.json was modified, and a check depends on it"},
		{"the proposal of checks", "make test", false, map[string]string{"parley.yaml": "checks: [a]\n"}, "!parley.yaml was modified, and proposes the checks"},
		{"a trusted key", "make test", false, map[string]string{".parley/keys/b.pub": "b"}, "!.parley/keys/b.pub was created, and says which keys are trusted"},
		{"a test is deleted", "make test", false, map[string]string{"src/a_test.go": ""}, "!src/a_test.go was deleted, and is a test"},
		{"a test is deleted where the check counts", "make test", true, map[string]string{"src/a_test.go": ""}, "src/a_test.go was deleted, and is a test"},
		{"a test is moved out of the tests", "make test", false, map[string]string{"src/a_test.go": "", "src/a_off.go": "package a // one\n"}, "!src/a_test.go was deleted, and is a test"},

		{"a test is moved to where it does not run", "make test", false, map[string]string{"src/a_test.go": "", "src/testdata/a_test.go": "package a // one\n"}, "!src/a_test.go was moved to src/testdata/a_test.go, where it does not run, and is a test"},
		{"a test is moved to the data of tests", "make test", false, map[string]string{"src/a_test.go": "", "tests/a.go": "package a // one\n"}, "!src/a_test.go was moved to tests/a.go, where it does not run, and is a test"},
		{"a test is moved to a folder that is left out", "make test", false, map[string]string{"src/a_test.go": "", "_old/a_test.go": "package a // one\n"}, "!src/a_test.go was moved to _old/a_test.go, where it does not run, and is a test"},
		{"a test gets another ending", "make test", false, map[string]string{"src/a_test.go": "", "src/a_test.go.off": "package a // one\n"}, "!src/a_test.go was moved to src/a_test.go.off, where it does not run, and is a test"},
		{"a test is moved to where it does not run, and the check counts", "make test", true, map[string]string{"src/a_test.go": "", "testdata/a_test.go": "package a // one\n"}, "src/a_test.go was moved to testdata/a_test.go, where it does not run, and is a test"},
		{"a file that a script of Python imports", "make -f rules.mk ci", false, map[string]string{"ci/helper.py": "ok = 2\n"}, "!ci/helper.py was modified, and a check depends on it"},
		{"a file in a folder that it imports from", "make -f rules.mk ci", false, map[string]string{"ci/more/one.py": "ok = 2\n"}, "!ci/more/one.py was modified, and a check depends on it"},
		{"a file that takes the place of a module", "make -f rules.mk ci", false, map[string]string{"ci/json.py": "ok = 2\n"}, "!ci/json.py was created, and ci/run.py, on which a check depends, imports it"},
		{"a file that a script of Node imports", "make -f rules.mk ci", false, map[string]string{"ci/lib.js": "1\n"}, "!ci/lib.js was modified, and a check depends on it"},

		{"the work that a script of the check imports", "make -f rules.mk ci", false, map[string]string{"src/app.js": "1\n"}, ""},
		{"the work that a script at the top imports", "python3 check.py", false, map[string]string{"shop.py": "1\n"}, ""},
		{"data that a test imports", "python3 tests/run.py", false, map[string]string{"tests/data.py": "1\n"}, "tests/data.py was modified, and is a test"},
		{"a test is moved into another package", "make test", false, map[string]string{"src/a_test.go": "", "other/a_test.go": "package a // one\n"}, "src/a_test.go was moved to other/a_test.go as it is"},
		{"a test is edited", "make test", false, map[string]string{"src/a_test.go": "package a // two\n"}, "src/a_test.go was modified, and is a test"},
		{"a test is added", "make test", false, map[string]string{"src/b_test.go": "package a\n"}, "src/b_test.go was added, and is a test"},
		{"a test is renamed", "make test", false, map[string]string{"src/a_test.go": "", "src/c_test.go": "package a // one\n"}, "src/a_test.go was moved to src/c_test.go as it is"},
		{"the work alone", "make test", false, map[string]string{"src/a.go": "package a // two\n", "README.md": "words\n"}, ""},
		{"a script that no check runs", "make test", false, map[string]string{"other.sh": "exit 0\n"}, ""},
		{"another part of a package", "npm test", false, map[string]string{"package.json": `{"name":"a","scripts":{"test":"jest"},"version":"2"}`}, ""},
		{"a makefile where the check does not use one", "go test ./...", false, map[string]string{"Makefile": "all:\n", "GNUmakefile": "all:\n"}, ""},
		{"the first makefile", "just test", false, map[string]string{"justfile": "test:\n"}, "justfile was created, and a check depends on it"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			j := evidence.JudgedChange{Lines: strings.Split(tt.line, "\n"), Counted: tt.counted}
			at := func(isAfter bool) func(string) []byte {
				return func(name string) []byte {
					text, ok := before[name]
					if now, isChanged := tt.change[name]; isChanged && isAfter {
						text, ok = now, now != ""
					}
					if !ok {
						return nil
					}
					return []byte(text)
				}
			}
			j.Before, j.After = at(false), at(true)
			for name, now := range tt.change {
				j.Files = append(j.Files, hub.CommitChange{Path: name, Was: before[name], Is: now})
			}
			var got []string
			for _, f := range evidence.Judging(j) {
				mark := ""
				if f.Word {
					mark = "!"
				}
				got = append(got, mark+f.Found)
			}
			if text := strings.ReplaceAll(strings.Join(got, "; "), `"`, ""); text != tt.want {
				t.Errorf("got %q, want %q", text, tt.want)
			}
		})
	}
}
