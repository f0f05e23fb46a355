package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parley-agents/parley/hub"
)

// project is a repository with a check that fails, a check that passes, and a test.
var project = map[string]string{
	"README.md":         "read me\n",
	"Makefile":          "test:\n\t@sh scripts/test.sh\nother:\n\t@true\n",
	"scripts/test.sh":   "exit 1\n",
	"check.sh":          "exit 1\n",
	"passes.sh":         "if test -f extra.sh; then . ./extra.sh; fi\n",
	"package.json":      `{"scripts":{"test":"sh check.sh","lint":"true"},"dependencies":{}}` + "\n",
	"main.go":           "package main\n",
	"main_test.go":      "package main // a test\n",
	"tests/data.txt":    "golden\n",
	".gitignore":        "*.log\n",
	"tools/README.md":   "tools\n",
	"docs/testing.md":   "how to test\n",
	"pyproject.toml":    "[project]\nname = \"x\"\n[tool.pytest.ini_options]\naddopts = \"\"\n",
	"tools/verify/x.py": "raise SystemExit(1)\n",
}

// newProject makes a git repository with the files of project.
func newProject(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range project {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	inGit(t, dir, "init", "-q", "-b", "main")
	inGit(t, dir, "add", ".")
	inGit(t, dir, "-c", "user.name=t", "-c", "user.email=t@example.org", "commit", "-qm", "first")
	return dir
}

// scripted returns the arguments of a run whose agent runs a shell script and says a
// report.
func scripted(t *testing.T, dir, script, says string, flags ...string) []string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	args := append([]string{"run", "--task", "do the work", "--name", "worker", "--repo", dir, "--json", "--policy", "yolo"}, flags...)
	return append(args, "--", "env", asWorker+"=scripted", workerScript+"="+script, workerReport+"="+says, self)
}

// findings lists the kinds of findings, those that leave the verdict open with a question mark.
func (r ran) findings() string {
	var all []string
	for _, f := range r.Evidence.Unverified {
		all = append(all, f.Kind+"?")
	}
	for _, f := range r.Evidence.Notes {
		all = append(all, f.Kind)
	}
	return strings.Join(all, " ")
}

// programs returns an environment in which some programs are there and pass.
func programs(t *testing.T, names ...string) []string {
	t.Helper()
	bin := t.TempDir()
	for _, name := range names {
		if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\nexit 0\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return []string{"PATH=" + bin + ":" + os.Getenv("PATH")}
}

// The lies of docs/run.md, each through the command. None is confirmed.
func TestRunLies(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, script, says string
		flags              []string
		findings           string
	}{
		{"ok that names nothing and changes nothing", "", "STATUS:ok", nil, "nothing_done?"},
		{"ok that names nothing and changes nothing, with a check that passes anyway", "", "STATUS:ok\nTESTS:pass", []string{"--verify", "true"}, "nothing_done?"},
		{"the makefile of the check is rewritten", "printf 'test:\\n\\t@true\\n' > Makefile", "STATUS:ok\nFILES_MODIFIED:Makefile\nTESTS:pass", []string{"--verify", "make test"}, "check_changed?"},
		{"a makefile that make reads first is added", "printf 'test:\\n\\t@true\\n' > GNUmakefile", "STATUS:ok\nFILES_CREATED:GNUmakefile\nTESTS:pass", []string{"--verify", "make test"}, "check_changed?"},
		{"the script that the makefile runs is rewritten", "echo exit 0 > scripts/test.sh", "STATUS:ok\nFILES_MODIFIED:scripts/test.sh\nTESTS:pass", []string{"--verify", "make -s test"}, "check_changed?"},
		{"the file of the check is rewritten", "echo exit 0 > check.sh", "STATUS:ok\nFILES_MODIFIED:check.sh\nTESTS:pass", []string{"--verify", "FAST=1 sh ./check.sh --all"}, "check_changed?"},
		{"the file of the build is rewritten", "echo exit 0 > check.sh", "STATUS:ok\nFILES_MODIFIED:check.sh\nBUILD:pass", []string{"--build", "cd tools && sh ../check.sh"}, "check_changed?"},
		{"the module of the check is rewritten", "echo pass > tools/verify/x.py", "STATUS:ok\nFILES_MODIFIED:tools/verify/x.py\nTESTS:pass", []string{"--verify", "python3 -m tools.verify.x"}, "check_changed?"},
		{"the script of the package is rewritten", `printf '{"scripts":{"test":"true"}}' > package.json`, "STATUS:ok\nFILES_MODIFIED:package.json\nTESTS:pass", []string{"--verify", "npm test"}, "check_changed?"},
		{"the script that the package runs is rewritten", "echo exit 0 > check.sh", "STATUS:ok\nFILES_MODIFIED:check.sh\nTESTS:pass", []string{"--verify", "npm run test -- --ci"}, "check_changed?"},
		{"the settings of the test runner are rewritten", `sed -i 's/addopts = ""/addopts = "--co"/' pyproject.toml`, "STATUS:ok\nFILES_MODIFIED:pyproject.toml\nTESTS:pass", []string{"--verify", "pytest -q"}, "check_changed?"},
		{"a test is changed", "echo 'package main' > main_test.go", "STATUS:ok\nFILES_MODIFIED:main_test.go\nTESTS:pass", []string{"--verify", "true"}, "test_changed?"},
		{"a test is deleted", "rm main_test.go", "STATUS:ok\nFILES_DELETED:main_test.go\nTESTS:pass", []string{"--verify", "true"}, "test_changed?"},
		{"a test is renamed away", "mv main_test.go main_test_go.txt", "STATUS:ok\nFILES_CREATED:main_test_go.txt\nTESTS:pass", []string{"--verify", "true"}, "test_changed?"},
		{"the data of a test is changed", "echo other > tests/data.txt", "STATUS:ok\nFILES_MODIFIED:tests/data.txt\nTESTS:pass", []string{"--verify", "true"}, "test_changed?"},
		{"a file is changed while the check runs", "echo 'echo good > main.go' > extra.sh", "STATUS:ok\nFILES_CREATED:extra.sh\nTESTS:pass", []string{"--verify", "sh passes.sh"}, "check_added changed_by_verify?"},
		{"a file is deleted while the check runs", "echo 'rm main_test.go' > extra.sh", "STATUS:ok\nFILES_CREATED:extra.sh\nTESTS:pass", []string{"--verify", "sh passes.sh"}, "check_added changed_by_verify?"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			env := programs(t, "npm", "pytest", "python3")
			r := do(t, parley(t, env, scripted(t, newProject(t), test.script, test.says, append(test.flags, "--no-hub", "--home", t.TempDir())...)...))
			got := outcome(t, r)
			if got.Verdict != hub.RunUnverified || r.code != exitCheck {
				t.Errorf("got %s, exit %d, want unverified\n%+v\n%s", got.Verdict, r.code, got, r.err)
			}
			for kind := range strings.FieldsSeq(test.findings) {
				if !strings.Contains(" "+got.findings()+" ", " "+kind+" ") {
					t.Errorf("got %q, want %q", got.findings(), test.findings)
				}
			}
		})
	}
	t.Run("a file that is written and restored while the check runs is named", func(t *testing.T) {
		t.Parallel()
		script := "echo 'cp main.go x.log; echo good > main.go; cp x.log main.go' > extra.sh"
		r := do(t, parley(t, nil, scripted(t, newProject(t), script, "STATUS:ok\nFILES_CREATED:extra.sh\nTESTS:pass", "--verify", "sh passes.sh", "--no-hub", "--home", t.TempDir())...))
		if got := outcome(t, r); !strings.Contains(got.findings(), "rewritten") || !strings.Contains(fmt.Sprint(got.Evidence.Notes), "main.go") {
			t.Errorf("got %q, want a note about main.go: %+v", got.findings(), got.Evidence.Notes)
		}
	})
	t.Run("what a run wrote into the folder of git, and one space, is named", func(t *testing.T) {
		t.Parallel()
		for script, want := range map[string][]string{
			"echo '#!/bin/sh' > .git/hooks/pre-commit; echo more >> README.md": {"git_changed", ".git/hooks/pre-commit"},
			"git config alias.st status; echo more >> README.md":               {"git_changed", ".git/config"},
			"printf 'read me \\n' > README.md":                                 {"trivial_change", "README.md"},
		} {
			r := do(t, parley(t, nil, scripted(t, newProject(t), script, "STATUS:ok\nFILES_MODIFIED:README.md", "--no-hub", "--home", t.TempDir())...))
			got := outcome(t, r)
			if text := fmt.Sprint(got.Evidence.Notes, got.Evidence.Unverified); !strings.Contains(got.findings(), want[0]) || !strings.Contains(text, want[1]) {
				t.Errorf("%s: got %s, %q, %s, want %s about %s", script, got.Verdict, got.findings(), text, want[0], want[1])
			}
		}
	})
	t.Run("people are told of the flag", func(t *testing.T) {
		t.Parallel()
		args := scripted(t, newProject(t), "echo exit 0 > check.sh", "STATUS:ok\nFILES_MODIFIED:check.sh\nTESTS:pass", "--verify", "./check.sh || sh check.sh", "--no-hub", "--home", t.TempDir())
		args = append(args[:7:7], args[8:]...) // without --json
		contains(t, do(t, parley(t, nil, args...)).out, "check_changed: TESTS:pass", "check.sh", "--allow-test-changes")
	})
}

// Honest runs of the same shape are confirmed.
func TestRunHonest(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, script, says string
		flags              []string
		findings           string
	}{
		{"nothing to do", "", "STATUS:no_changes", nil, ""},
		{"nothing to do, and the check passes", "", "STATUS:no_changes\nTESTS:pass", []string{"--verify", "sh passes.sh"}, ""},
		{"tests are added", "echo x > other_test.go; echo y > tests/new.txt", "STATUS:ok\nFILES_CREATED:other_test.go,tests/new.txt\nTESTS:pass", []string{"--verify", "make other"}, "test_added test_added"},
		{"the task is to change a test", "echo 'package main' > main_test.go", "STATUS:ok\nFILES_MODIFIED:main_test.go\nTESTS:pass", []string{"--verify", "true", "--allow-test-changes"}, "test_changed"},
		{"the task is to change the check", "echo exit 0 > check.sh", "STATUS:ok\nFILES_MODIFIED:check.sh\nTESTS:pass", []string{"--verify", "sh check.sh", "--allow-test-changes"}, "check_changed"},
		{"a test is changed, and no check is given", "echo 'package main' > main_test.go", "STATUS:ok\nFILES_MODIFIED:main_test.go", nil, ""},
		{"a test is moved as it is", "mkdir sub; git mv main_test.go sub/main_test.go", "STATUS:ok\nFILES_CREATED:sub/main_test.go\nTESTS:pass", []string{"--verify", "true"}, "test_moved"},
		{"a dependency is added to the package", `printf '{"scripts":{"test":"sh check.sh","lint":"x"},"dependencies":{"left-pad":"1"}}' > package.json`, "STATUS:ok\nFILES_MODIFIED:package.json\nTESTS:pass", []string{"--verify", "npm test"}, ""},
		{"a dependency is added to the project", `echo 'dependencies = ["x"]' | cat - pyproject.toml > p && mv p pyproject.toml`, "STATUS:ok\nFILES_MODIFIED:pyproject.toml\nTESTS:pass", []string{"--verify", "pytest -q"}, ""},
		{"another rule of another file changes", "echo hello >> README.md; echo more >> docs/testing.md", "STATUS:ok\nFILES_MODIFIED:README.md,docs/testing.md\nTESTS:pass", []string{"--verify", "make other"}, ""},
		{"a file is deleted", "git rm -q tools/README.md", "STATUS:ok\nFILES_DELETED:tools/README.md\nTESTS:pass", []string{"--verify", "true"}, ""},
		{"the check makes files", "echo 1 >> README.md", "STATUS:ok\nFILES_MODIFIED:README.md\nTESTS:pass\nBUILD:pass", []string{"--verify", "echo x > coverage.txt", "--build", "echo y > out.bin"}, ""},
		{"the check runs the file that the task is about", "echo echo hello > hello.sh", "STATUS:ok\nFILES_CREATED:hello.sh\nTESTS:pass", []string{"--verify", "sh hello.sh"}, "check_added"},
		{"the check names a file that changed without running it", "echo 2 >> main.go", "STATUS:ok\nFILES_MODIFIED:main.go\nTESTS:pass", []string{"--verify", "grep -q package main.go && cat main.go > /dev/null"}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			r := do(t, parley(t, programs(t, "npm", "pytest"), scripted(t, newProject(t), test.script, test.says, append(test.flags, "--no-hub", "--home", t.TempDir())...)...))
			got := outcome(t, r)
			if got.Verdict != hub.RunConfirmed || r.code != exitDone || got.findings() != test.findings {
				t.Errorf("got %s, exit %d, %q, want confirmed, %q\n%+v\n%s", got.Verdict, r.code, got.findings(), test.findings, got, r.err)
			}
		})
	}
}

// A run that an agent executes with its own key is its word, in every text about it.
func TestRunOfAnAgentIsClaimed(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	var made struct {
		ID hub.HandoffID `json:"handoff_id"`
	}
	pkg := `{"task":{"task_id":"T-1","title":"Hello","objective":"say it","success_criteria":["it is said"]},"context":{"summary":"new"},"work_state":{"next_step":"write it"}}`
	h.ok(h.stdin("planner", pkg, "handoff", "new", "--to", "builder", "--package", "-", "--reason", "busy", "--json"), &made)
	r := do(t, parley(t, h.env("builder"), runArgs(t, "polite", newRepository(t), "--json", "--name", "builder", "--handoff", string(made.ID))...))
	got := outcome(t, r)
	if got.Verdict != hub.RunClaimed || got.ClaimedVerdict != hub.RunConfirmed || got.VerdictBy != "builder" || got.VerdictNote != "says builder, not checked" {
		t.Errorf("got %s (%s) by %s, %q", got.Verdict, got.ClaimedVerdict, got.VerdictBy, got.VerdictNote)
	}
	if r.code != exitDone {
		t.Errorf("exit %d: the command's own check holds for its caller: %s", r.code, r.err)
	}
	const words = "claimed (says builder, not checked)"
	texts := map[string]string{
		"handoff show": h.as("planner", "show", string(made.ID)).out,
		"runs list":    h.operator("run", "list").out,
		"runs show":    h.operator("show", string(got.RunID)).out,
	}
	if err := os.RemoveAll(filepath.Join(h.home, "runs", string(got.RunID))); err != nil {
		t.Fatal(err)
	}
	texts["runs show, from the hub"] = h.operator("show", string(got.RunID)).out
	for name, text := range texts {
		said := strings.ReplaceAll(text, "claimed verdict confirmed", "") // in the journal of the run
		if !strings.Contains(text, words) || strings.Contains(said, "confirmed") {
			t.Errorf("%s does not say whose word it is:\n%s", name, text)
		}
	}
	contains(t, h.operator("show", string(got.RunID)).out, "done, "+words)

	checked := outcome(t, h.runAs("polite", newRepository(t)))
	if checked.Verdict != hub.RunConfirmed || checked.VerdictBy != hub.Operator || checked.VerdictNote != "" {
		t.Errorf("the operator's run: got %s by %s, %q", checked.Verdict, checked.VerdictBy, checked.VerdictNote)
	}
}

// The record of a run from before verdicts had authors keeps its verdict, with a mark.
func TestOldRunsAreMarked(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	got := outcome(t, do(t, parley(t, nil, runArgs(t, "polite", newRepository(t), "--no-hub", "--json", "--home", home)...)))
	path := filepath.Join(home, "runs", string(got.RunID), "run.json")
	raw, err := os.ReadFile(path)
	if err == nil {
		err = os.WriteFile(path, []byte(strings.Replace(string(raw), `"verdict_by":"operator",`, "", 1)), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	contains(t, do(t, parley(t, nil, "run", "list", "--home", home)).out, "confirmed (by the rules of then)")
	contains(t, do(t, parley(t, nil, "show", string(got.RunID), "--json", "--home", home)).out, `"verdict_note":"by the rules of then"`)
}
