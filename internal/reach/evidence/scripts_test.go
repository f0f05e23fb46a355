package evidence

import (
	"fmt"
	"strings"
	"testing"
)

// scriptsIn returns the names of the scripts of a command in a tree of files, of which
// those with an arrow are links. Names that the tree does not have are left out.
func scriptsIn(files map[string]string, dir, line string) string {
	s := newScriptSearch("/repo", func(name string) []byte {
		if text, ok := files[name]; ok {
			return []byte(text)
		}
		return nil
	}, func(name string) string {
		target, _ := strings.CutPrefix(files[name], "-> ")
		if target == files[name] {
			return ""
		}
		return target
	})
	s.text(dir, line)
	var names []string
	for _, x := range s.all() {
		if _, ok := files[x.name]; ok {
			names = append(names, x.name)
		}
	}
	return strings.Join(names, " ")
}

func TestScriptsOfACommand(t *testing.T) {
	files := map[string]string{
		"Makefile":           "include rules.mk\nX := $(shell ./version.sh)\ntest: all ; ./one.sh\nall:\n\t@$(PYTHON) gen.py \\\n\t  --fast\n\t-$(MAKE) -C sub check\n",
		"rules.mk":           "lint:\n\tbash lint.sh\n",
		"sub/Makefile":       "check:\n\tcd deep && sh ./deep.sh\n",
		"sub/deep/deep.sh":   "#!/bin/bash\nsource ../env.sh\n",
		"sub/env.sh":         "",
		"one.sh":             "exec python3 -u tools/two.py data.py\n",
		"tools/two.py":       "import os\nos.system('./three.sh')\n",
		"three.sh":           "",
		"version.sh":         "",
		"gen.py":             "",
		"lint.sh":            "",
		"data.py":            "",
		"main.c":             "",
		"go":                 "a file with the name of a program",
		"package.json":       `{"scripts":{"test":"npm run unit && node e2e.js","unit":"sh unit.sh","pretest":"./pre.sh"}}`,
		"e2e.js":             "",
		"unit.sh":            "",
		"pre.sh":             "",
		"web/app.js":         "",
		"pyproject.toml":     "",
		"link":               "-> tools/real.sh",
		"tools/real.sh":      "./three.sh",
		"loop.sh":            "cd x && sh /repo/loop.sh; ./loop.sh",
		"binary":             "\x7fELF\x00 ./three.sh",
		"justfile":           "test: build\n    ./one.sh\n",
		"-> x":               "",
		".cargo/config.toml": "",
	}
	for _, test := range []struct{ dir, line, want string }{
		{".", "make test", "Makefile gen.py lint.sh one.sh rules.mk sub/Makefile sub/deep/deep.sh sub/env.sh tools/two.py version.sh"},
		{".", "make -f rules.mk -j4", "lint.sh rules.mk"},
		{".", "make -Csub --makefile=Makefile", "sub/Makefile sub/deep/deep.sh sub/env.sh"},
		{".", "cd sub && make", "sub/Makefile sub/deep/deep.sh sub/env.sh"},
		{"sub", "../one.sh | tee out", "one.sh"}, // which runs sub/tools/two.py,
		{".", "go test ./... && go vet", ""},
		{".", "cc main.c -o main && ./main", ""},
		{".", "test -f main.c; grep -q x gen.py", ""},
		{".", "timeout 60s env -i A=1 bash -euo pipefail ./lint.sh", "lint.sh"},
		{".", "sh -ec 'cd tools; python two.py'", "tools/two.py"},
		{".", "python -m tools.two", "tools/two.py"},
		{".", "/repo/one.sh", "one.sh tools/two.py"},
		{".", "/usr/bin/env ../one.sh", ""},
		{".", "npm test", "e2e.js package.json package.json pre.sh unit.sh"},
		{"web", "yarn unit", "package.json unit.sh"},
		{".", "pnpm exec node web/app.js", "web/app.js"},
		{".", "poetry run pytest -q", "pyproject.toml"},
		{".", "./link", "link three.sh tools/real.sh"},
		{".", "sh loop.sh", "loop.sh"},
		{".", "./binary", "binary"},
		{".", "just test", "justfile one.sh tools/two.py"},
		{"sub", "cargo test", ".cargo/config.toml"},
	} {
		if got := scriptsIn(files, test.dir, test.line); got != test.want {
			t.Errorf("%s: got %q, want %q", test.line, got, test.want)
		}
	}
}

func TestTestFiles(t *testing.T) {
	for name, want := range map[string]bool{
		"a_test.go": true, "pkg/test_x.py": true, "src/App.test.tsx": true, "spec/user_spec.rb": true, "src/test/java/A.java": true, "UserTest.java": true, "conftest.py": true,
		"testdata/golden.json": true, "__snapshots__/x.snap": true, "jest.config.js": true,
		"main.go": false, "docs/testing.md": false, "contest.py": false, "latest.go": false, "src/attest/key.go": false, "testing.go": false, "docs/spec/wire.md": false,
	} {
		if got := isTest(name); got != want {
			t.Errorf("%s: got %v, want %v", name, got, want)
		}
	}
}

func TestTheSearchForScriptsIsBounded(t *testing.T) {
	many := strings.Repeat("cd x; ./../a; make; npm test\n", 8000)
	read := 0
	s := newScriptSearch("/repo", func(name string) []byte {
		read++
		return []byte(many)
	}, func(string) string { return "" })
	s.text(".", "sh a")
	if len(s.found) > maxScripts || read > maxTexts/len(many)+1 {
		t.Errorf("got %d scripts and %d reads", len(s.found), read)
	}
}

func FuzzScripts(f *testing.F) {
	f.Add("make -C x test", "cd x && ./a")
	f.Add("npm run a", `{"scripts":{"a":"npm run a"}}`)
	f.Fuzz(func(t *testing.T, line, content string) {
		files := map[string]string{"a": content, "Makefile": content, "package.json": content, "x/a": content}
		if got, again := scriptsIn(files, ".", line), scriptsIn(files, ".", line); fmt.Sprint(got) != again {
			t.Errorf("got %s and then %s", got, again)
		}
	})
}
