package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"sync"

	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/work/keeper"
	"github.com/parley-agents/parley/protocol/acp"
	"github.com/parley-agents/parley/protocol/acp/acpv2"
	"github.com/parley-agents/parley/protocol/sandbox"
)

// A forgery is a file that an agent tries to write in its folder.
type forgery struct{ Path, Text string }

// forge writes each group of files of forge.json at once, and asks for the permission to
// edit each file itself. It leaves the paths that it was permitted in approved.json.
func forge(ctx context.Context, t *acp.AgentTurn) error {
	raw, err := os.ReadFile(beside(t.Dir, "forge.json"))
	if err != nil {
		return err
	}
	var groups [][]forgery
	if err := json.Unmarshal(raw, &groups); err != nil {
		return err
	}
	approved := []string{}
	options := []acpv2.PermissionOption{{OptionID: "yes", Name: "Allow", Kind: acpv2.PermissionOptionKindAllowOnce}, {OptionID: "no", Name: "Reject", Kind: acpv2.PermissionOptionKindRejectOnce}}
	for _, group := range groups {
		var wg sync.WaitGroup
		for _, f := range group {
			wg.Go(func() { t.Files().Write(ctx, filepath.Join(t.Dir, f.Path), f.Text) }) // the test looks at the folder
		}
		wg.Wait()
		for _, f := range group {
			out, err := t.AskPermission(ctx, &acpv2.RequestPermissionRequest{
				Title: "edit " + f.Path, Options: options,
				Subject: acpv2.Set(acpv2.RequestPermissionSubject{ToolCall: &acpv2.ToolCallPermissionSubject{ToolCall: acpv2.ToolCallUpdate{
					ToolCallID: "1", Kind: acpv2.Set(acpv2.ToolKindEdit), Locations: acpv2.Set([]acpv2.ToolCallLocation{{Path: acpv2.AbsolutePath(filepath.Join(t.Dir, f.Path))}}),
				}}}),
			})
			if err != nil {
				return err
			}
			if out.Approves(options) {
				approved = append(approved, f.Path)
			}
		}
	}
	list, err := json.Marshal(approved)
	return errors.Join(err, os.WriteFile(beside(t.Dir, "approved.json"), list, 0o600), t.Say(ctx, "forged"))
}

// runningFiles has an agent that the hub keeps under policy write make files that a
// program runs or obeys, over ACP, and parts of a git repository at the same time.
func (s *scene) runningFiles() {
	dir := filepath.Join(s.t.TempDir(), "work")
	marks := s.t.TempDir()
	self, err := os.Executable()
	if err != nil {
		s.t.Fatal(err)
	}
	env, err := exec.LookPath("env")
	if err != nil {
		s.t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "shipped", "refs"), 0o700); err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "shipped", "HEAD"), []byte("ref: refs/heads/main\n"), 0o600); err != nil { // as a repository of others may hold it
		s.t.Fatal(err)
	}

	// Each file would run the command, by itself or with those beside it.
	command := "touch " + marks + "/ran"
	repository := func(folder string) []forgery {
		return []forgery{
			{folder + "/HEAD", "ref: refs/heads/main\n"}, {folder + "/objects/a", ""}, {folder + "/refs/a", ""},
			{folder + "/config", "[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tworktree = " + dir + "\n\tfsmonitor = " + command + "\n"},
		}
	}
	var groups [][]forgery
	var folders []string
	for _, name := range []string{"docs1", "docs2", "docs3", "docs4", "docs5", "docs6", "docs7", "docs8", "shipped"} {
		groups = append(groups, repository(name))
		folders = append(folders, name)
	}
	single := []string{
		".git/config", ".GIT/config", "git~1/config", ".git", ".gitattributes", ".gitmodules", ".githooks/pre-commit", ".husky/pre-commit", "lefthook.yml", "HEAD",
		".envrc", ".bashrc", "mise.toml", "mise.local.toml", ".mise.toml", ".config/mise/config.toml", ".tool-versions", "sub/.tool-versions",
		".vscode/tasks.json", "app.code-workspace", ".idea/workspace.xml", ".exrc", ".gdbinit", "sitecustomize.py", ".yarnrc.yml", ".yarn/plugins/a.cjs",
		"opencode.json", "opencode.jsonc", "OPENCODE.JSON", "crush.json", ".claude.json", ".claude/settings.json", ".mcp.json", ".codex/config.toml",
		".roo/mcp.json", ".kilocode/mcp.json", ".goose/config.yaml", ".amp/settings.json", ".continue/config.yaml", ".windsurf/mcp.json",
		"CLAUDE.md", "sub/agents.md", ".new-agent/settings.json", "../outside.txt",
	}
	for _, path := range single {
		groups = append(groups, []forgery{{path, command}})
	}
	list, err := json.Marshal(groups)
	if err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(beside(dir, "forge.json"), list, 0o600); err != nil {
		s.t.Fatal(err)
	}

	// The agent tries them in one turn, and no person answers its questions.
	operator := s.as(s.operator)
	mustCall(s.t, operator, api.KeepAgent, api.KeepParams{Definition: keeper.Definition{
		Agent: "forger", Command: []string{env, asKeptAgent + "=1", self}, Dir: dir, Policy: sandbox.PolicyWrite, Question: 1,
	}})
	mustCall(s.t, operator, api.PromptAgent, api.PromptParams{Agent: "forger", Text: "do forge"})
	var after int64
	for done := false; !done; {
		for _, l := range mustCall(s.t, operator, api.LogAgent, api.KeptLogParams{Agent: "forger", After: after, WaitS: 30}).Lines {
			after = l.N
			done = done || (l.Kind == "text" && l.Text == "forged")
			if l.Kind == "problem" {
				s.t.Fatalf("the agent failed: %s", l.Text)
			}
		}
	}
	mustCall(s.t, operator, api.StopAgent, api.StopParams{Agent: "forger", Forget: true})

	// No folder is a repository that runs the command, no file is there, nothing was permitted.
	for _, folder := range folders {
		cmd := exec.Command("git", "-C", filepath.Join(dir, folder), "status")
		cmd.Env = append(os.Environ(), "GIT_CEILING_DIRECTORIES="+filepath.Dir(dir))
		cmd.Run() // it fails: there is no repository
		_, err := os.Stat(filepath.Join(marks, "ran"))
		s.try(err == nil, "git ran a command of the folder %s", folder)
	}
	for _, path := range single {
		_, err := os.Lstat(filepath.Join(dir, path))
		s.try(err == nil, "%s was written", path)
	}
	raw, err := os.ReadFile(beside(dir, "approved.json"))
	if err != nil {
		s.t.Fatal(err)
	}
	var approved []string
	if err := json.Unmarshal(raw, &approved); err != nil {
		s.t.Fatal(err)
	}
	for _, path := range single {
		got := false
		for _, a := range approved {
			got = got || a == path
		}
		s.try(got, "the agent may edit %s", path)
	}
}
