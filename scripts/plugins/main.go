// Command plugins writes the files with which agent CLIs and the registry of MCP servers install
// Parley: manifests of plugins for Claude Code, Codex and Gemini CLI, a skill, server.json, and the
// package.json of the package for npm.
//
//	go run ./scripts/plugins
//
// All of them say the same in the words of one CLI each. This command has the texts once; a test
// compares the files with it. Their version is 0.0.0 until a release fills it in.
package main

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"text/template"

	"github.com/parley-agents/parley/internal/ground/briefing"
)

// The texts.
const (
	name        = "parley"
	title       = "Parley"
	description = "A hub where coding agents exchange messages and hand work over, with proof that it is done"
	when        = "Read and answer messages of other coding agents, ask them, hand a task over, accept and complete tasks, with the Parley tools (acp_inbox, acp_send, acp_respond, acp_handoff). Use when other agents work beside you or a notice says that mail waits."
	author      = "Parley authors"
	license     = "Apache-2.0"
	repository  = "https://github.com/parley-agents/parley"
	category    = "productivity"
	registered  = "io.github.parley-agents/parley" // in the registry of MCP servers
	npmName     = "@parley-agents/parley"
	version     = "0.0.0" // a release fills in its own
)

// serverSchema is the schema of server.json.
const serverSchema = "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json"

// variables are the variables of the environment with which the tools find the hub and the agent.
// CLIs that pass on only some variables need their names.
var variables = []string{"PARLEY_KEY", "PARLEY_HOME", "PARLEY_URL", "PARLEY_LAUNCH", "PARLEY_SESSION"}

//go:embed skill.md
var skillText string

// object is a JSON object with sorted members.
type object = map[string]any

func main() {
	root := flag.String("root", ".", "the root of the repository")
	flag.Parse()
	files, err := files()
	if err != nil {
		fmt.Fprintln(os.Stderr, "plugins:", err)
		os.Exit(1)
	}
	for name, content := range files {
		path := filepath.Join(*root, filepath.FromSlash(name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, content, 0o644)); err != nil {
			fmt.Fprintln(os.Stderr, "plugins:", err)
			os.Exit(1)
		}
	}
}

// files returns the files by their path in the repository.
func files() (map[string][]byte, error) {
	skill, err := skill()
	if err != nil {
		return nil, err
	}
	out := map[string][]byte{"plugin/skills/parley/SKILL.md": skill}
	for path, value := range map[string]any{
		".claude-plugin/marketplace.json":   marketplace(),
		"plugin/.claude-plugin/plugin.json": claudePlugin(),
		"plugin/.codex-plugin/plugin.json":  codexPlugin(),
		"plugin/.mcp.json":                  object{"mcpServers": object{name: started(object{"env_vars": variables})}},
		"plugin/gemini-extension.json":      geminiExtension(),
		"server.json":                       server(),
		"contrib/npm/package.json":          npmPackage(),
	} {
		var b bytes.Buffer
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(false)
		enc.SetIndent("", "  ")
		if err := enc.Encode(value); err != nil {
			return nil, err
		}
		out[path] = b.Bytes()
	}
	return out, nil
}

// skill returns the skill: how an agent works with others through the hub.
func skill() ([]byte, error) {
	t, err := template.New("skill").Parse(skillText)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	err = t.Execute(&b, map[string]string{"Name": name, "When": when, "Rules": briefing.Rules})
	return b.Bytes(), err
}

// started returns the hub's tools as an MCP server that a CLI starts, with members of that CLI.
func started(more object) object {
	out := object{"command": name, "args": []string{"mcp"}}
	for member, value := range more {
		out[member] = value
	}
	return out
}

// marketplace returns the list of plugins that Claude Code and Codex read.
func marketplace() object {
	return object{
		"name": name, "owner": object{"name": author}, "metadata": object{"description": description},
		"plugins": []object{{
			"name": name, "source": "./plugin", "description": description, "category": category,
		}},
	}
}

// about returns the members that the manifests of Claude Code and Codex share.
func about() object {
	return object{
		"name": name, "version": version, "description": description, "author": object{"name": author},
		"homepage": repository, "repository": repository, "license": license, "keywords": []string{"agents", "mcp", "handoff", "coordination"},
	}
}

// claudePlugin returns the manifest for Claude Code. It finds the skill and .mcp.json by itself.
func claudePlugin() object { return about() }

// codexPlugin returns the manifest for Codex.
func codexPlugin() object {
	out := about()
	out["skills"] = "./skills/"
	out["mcpServers"] = "./.mcp.json"
	out["interface"] = object{
		"displayName": title, "shortDescription": "Coding agents that talk and hand work over", "longDescription": description,
		"developerName": author, "category": "Productivity", "capabilities": []string{"Read", "Write"}, "websiteURL": repository,
		"defaultPrompt": []string{"Read my Parley inbox and answer", "Hand this task over to another agent"},
	}
	return out
}

// geminiExtension returns the manifest for Gemini CLI, which passes on no variable whose name looks
// like that of a secret unless it is named.
func geminiExtension() object {
	env := object{}
	for _, v := range variables {
		env[v] = "$" + v
	}
	return object{
		"name": name, "version": version, "description": description,
		"mcpServers": object{name: started(object{"env": env})},
	}
}

// server returns the entry for the registry of MCP servers.
func server() object {
	return object{
		"$schema": serverSchema, "name": registered, "title": title, "description": description, "version": version, "websiteUrl": repository,
		"repository": object{"url": repository, "source": "github"},
		"packages": []object{{
			"registryType": "npm", "identifier": npmName, "version": version, "runtimeHint": "npx",
			"transport":        object{"type": "stdio"},
			"packageArguments": []object{{"type": "positional", "value": "mcp"}},
			"environmentVariables": []object{
				{"name": "PARLEY_KEY", "description": "Key of the agent for which the tools act; \"parley agent add NAME\" prints one", "isRequired": true, "isSecret": true},
				{"name": "PARLEY_URL", "description": "Address of the hub, if it is not in the home", "placeholder": "http://127.0.0.1:7420"},
				{"name": "PARLEY_HOME", "description": "Home of the hub (default ~/.parley)", "format": "filepath"},
			},
		}},
	}
}

// npmPackage returns the manifest of the package for npm. A release adds the programs.
func npmPackage() object {
	return object{
		"name": npmName, "version": version, "description": description, "license": license, "mcpName": registered,
		"bin": object{name: "parley.js"}, "files": []string{"parley.js"}, "engines": object{"node": ">=18"},
	}
}
