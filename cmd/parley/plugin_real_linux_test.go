package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/parley-agents/parley/protocol/comply/model"
)

// A pluginStep is a command of a CLI, and a part of its output.
type pluginStep struct {
	args []string
	part string
}

// pluginCLIs are the CLIs that have plugins: the steps with which a person installs ours from the
// folder {root}, and the arguments for one prompt. They run in this order.
var pluginCLIs = map[string]struct {
	steps  []pluginStep
	prompt []string
}{
	"claude": {
		steps: []pluginStep{
			{[]string{"plugin", "validate", "{root}"}, "Validation passed"},
			{[]string{"plugin", "validate", "{root}/plugin"}, "Validation passed"},
			{[]string{"plugin", "marketplace", "add", "{root}"}, "added marketplace: parley"},
			{[]string{"plugin", "install", "parley@parley"}, "installed plugin: parley@parley"},
			{[]string{"mcp", "list"}, "plugin:parley:parley: parley mcp - ✔ Connected"},
		},
		prompt: []string{"--allowedTools", "mcp__plugin_parley_parley", "-p"},
	},
	"codex": {
		steps: []pluginStep{
			{[]string{"plugin", "marketplace", "add", "{root}"}, "Added marketplace `parley`"},
			{[]string{"plugin", "add", "parley@parley"}, "Added plugin `parley`"},
			{[]string{"plugin", "list"}, "installed, enabled"},
		},
		prompt: []string{"exec", "--skip-git-repo-check", "-s", "danger-full-access"},
	},
	"gemini": {
		steps: []pluginStep{
			{[]string{"extensions", "validate", "{root}/plugin"}, "successfully validated"},
			{[]string{"extensions", "install", "{root}/plugin", "--consent"}, `Extension "parley" installed successfully`},
			{[]string{"mcp", "list"}, "✓ parley (from parley): parley mcp (stdio) - Connected"},
		},
		prompt: []string{"--yolo", "-p"},
	},
}

// TestPluginsReal installs the plugin from its folder with each real CLI, and has an agent read a
// message with the plugin's tools. make test-real runs it.
func TestPluginsReal(t *testing.T) {
	onlyReal(t)
	for _, c := range realCLIs {
		if _, ok := pluginCLIs[c.name]; ok {
			t.Run(c.name, func(t *testing.T) { testPluginReal(t, c) })
		}
	}
}

func testPluginReal(t *testing.T, c realCLI) {
	d, start := c.prepare(t, quickWakes)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	if err := os.Symlink(self, filepath.Join(bin, "parley")); err != nil {
		t.Fatal(err)
	}
	path := start[slices.IndexFunc(start, func(word string) bool { return strings.HasPrefix(word, "PATH=") })]
	start = append(start, "PATH="+bin+":"+strings.TrimPrefix(path, "PATH="), "PARLEY_KEY="+d.keys[d.agent], c.name)
	run := func(args ...string) result {
		t.Helper()
		for i := range args {
			args[i] = strings.ReplaceAll(args[i], "{root}", root)
		}
		cmd := exec.Command(start[0], slices.Concat(start[1:], args)...)
		cmd.Dir = d.dir
		return doFor(t, slow, cmd)
	}

	for _, step := range pluginCLIs[c.name].steps {
		if r := run(slices.Clone(step.args)...); r.code != 0 || !strings.Contains(r.out+r.err, step.part) {
			t.Fatalf("%v: exit %d: %s%s", step.args, r.code, r.out, r.err)
		}
	}

	// The model sees the skill, and reads the message with a tool of the plugin.
	d.ok(d.as("planner", "send", d.agent, "the schema is frozen"), nil)
	script := model.Default()
	script.Rules = []model.Rule{{
		When: model.Condition{Prompt: regexp.MustCompile(`read your mail`)},
		Do:   []model.Step{{Do: model.MCP, Server: "parley", Name: "acp_inbox", Args: []byte("{}")}, {Do: model.Say, Text: "Read."}},
	}}
	d.model.Config.Handler = model.New(script)
	r := run(append(slices.Clone(pluginCLIs[c.name].prompt), "read your mail")...)
	if r.code != 0 {
		t.Errorf("exit %d: %s%s", r.code, r.out, r.err)
	}
	for _, part := range []string{"hand a task over, accept and complete tasks", "m1 from planner: the schema is frozen"} {
		isRead := slices.ContainsFunc(d.exchanges(), func(x model.Exchange) bool { return bytes.Contains(x.Body, []byte(part)) })
		if !isRead {
			t.Errorf("the model did not read %q:\n%s%s\n%s", part, r.out, r.err, strings.Join(d.summary(), "\n"))
		}
	}
}
