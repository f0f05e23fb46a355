package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parley-agents/parley/internal/desk/cli"
	"github.com/parley-agents/parley/internal/testing/acptest"
)

// TestPluginsFailOpen has the plugins of CLIs that wait for them without a limit, and that
// refuse a tool call if they fail: no error of Parley's may hold up or stop the agent.
func TestPluginsFailOpen(t *testing.T) {
	// Each script calls the handlers that the CLI waits for, with what they need and
	// with nothing.
	scripts := map[string]string{
		"opencode": `import { Parley } from PLUGIN
const hooks = await Parley({ client: {}, directory: "/" })
await hooks["tool.execute.after"]({ sessionID: "s" }, { output: "kept" })
await hooks["tool.execute.before"]({ sessionID: "s", tool: "write" }, { args: { filePath: "a" } })
for (const name of ["event", "chat.message", "tool.execute.before", "tool.execute.after", "experimental.chat.system.transform"]) await hooks[name](undefined, undefined)
console.log("went on")
process.exit(0)
`,
		"pi": `import plugin from PLUGIN
const hooks = {}
plugin({ on: (name, handler) => { hooks[name] = handler }, sendUserMessage: () => { throw new Error("no") } })
await hooks.session_start({}, { sessionManager: { getSessionId: () => "s" } })
await hooks.tool_result({ content: [] })
if (await hooks.tool_call({ toolName: "write", input: { path: "a" } })) throw new Error("refused")
for (const name of Object.keys(hooks)) await hooks[name](undefined, undefined)
console.log("went on")
process.exit(0)
`,
	}
	for known, script := range scripts {
		for name, program := range map[string]string{"hangs": "#!/bin/sh\nexec tail -f /dev/null\n", "is missing": "", "fails": "#!/bin/sh\necho no; exit 1\n"} {
			t.Run(fmt.Sprintf("%s goes on if parley %s", known, name), func(t *testing.T) {
				r := runPlugin(t, known, program, script)
				if r.code != 0 || !strings.Contains(r.out, "went on") {
					t.Errorf("exit %d: %s%s", r.code, r.out, r.err)
				}
			})
		}
	}
}

// TestPluginsRefuse has the plugins pass on denials and notes of the guard, and nothing else of
// the arguments than the guard needs.
func TestPluginsRefuse(t *testing.T) {
	const guard = `#!/bin/sh
case "$4" in
before) echo '{"deny":"planner holds it"}' ;;
*) echo "{\"notice\":\"$4\"}" ;;
esac
cat >> "$0.log"
`
	for known, script := range map[string]string{
		"opencode": `import { Parley } from PLUGIN
const hooks = await Parley({ client: {}, directory: "/" })
await hooks.event({ event: { type: "session.created", properties: { info: { id: "parent" } } } })
await hooks.event({ event: { type: "session.created", properties: { info: { id: "child", parentID: "parent" } } } })
const before = (tool, sessionID, args) => hooks["tool.execute.before"]({ tool, sessionID }, { args }).then(() => "goes on", (e) => e.message)
const after = async (tool, sessionID, args) => { const out = { output: "out" }; await hooks["tool.execute.after"]({ tool, sessionID, args }, out); return out.output }
console.log("write:", await before("write", "child", { filePath: "a", content: "SECRET" }))
console.log("read:", await before("read", "parent", { filePath: "a" }))
console.log("mcp:", await before("stub_echo", "parent", {}))
console.log("after:", await after("write", "child", { filePath: "a", content: "SECRET" }))
process.exit(0)
`,
		"pi": `import plugin from PLUGIN
const hooks = {}
plugin({ on: (name, handler) => { hooks[name] = handler } })
await hooks.session_start({}, { mode: "print", sessionManager: { getSessionId: () => "parent" } })
const before = async (toolName, input) => ((await hooks.tool_call({ toolName, input })) || { reason: "goes on" }).reason
console.log("write:", await before("write", { path: "a", content: "SECRET" }))
console.log("read:", await before("read", { path: "a" }))
console.log("mcp:", await before("other", {}))
console.log("after:", "out\n\n" + (await hooks.tool_result({ toolName: "write", input: { path: "a", content: "SECRET" }, content: [] })).content[0].text)
process.exit(0)
`,
	} {
		t.Run(known, func(t *testing.T) {
			r := runPlugin(t, known, guard, script)
			if want := "write: planner holds it\nread: goes on\nmcp: goes on\nafter: out\n\nafter\n"; r.out != want {
				t.Errorf("got %s%s\nwant %s", r.out, r.err, want)
			}
			log, err := os.ReadFile(r.log)
			if err != nil || strings.Contains(string(log), "SECRET") || strings.Contains(string(log), "child") {
				t.Errorf("the guard is told %s, %v", log, err)
			}
			contains(t, string(log), `"tool_name":"write"`, `"session_id":"parent"`)
		})
	}
}

// A pluginRun is the end of a script with a plugin, and the file that its parley may write.
type pluginRun struct {
	result
	log string
}

// runPlugin runs a script with the plugin of a CLI, whose parley is a program; "" for none.
func runPlugin(t *testing.T, known, program, script string) pluginRun {
	t.Helper()
	node, err := filepath.Glob(filepath.Join(acptest.CLIs(t), "node/node_modules/node-*/bin/node"))
	if err != nil || len(node) == 0 {
		acptest.Missing(t, "MISSING: a node that is new enough: run scripts/clis")
	}
	dir := t.TempDir()
	parley := filepath.Join(dir, "parley")
	if program != "" {
		if err := os.WriteFile(parley, []byte(program), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	c, err := cli.Lookup(known)
	if err != nil {
		t.Fatal(err)
	}
	plan, err := c.Plan(cli.Request{Program: []string{parley}, Folder: dir, Agent: "builder", Wake: true, Getenv: func(string) string { return "" }, Read: os.ReadFile})
	if err != nil {
		t.Fatal(err)
	}

	plugin := ""
	for file, text := range plan.Files {
		if strings.Contains(text, "// Parley in ") {
			plugin = filepath.Join(dir, strings.Replace(filepath.Base(file), ".js", ".mjs", 1))
			if err := os.WriteFile(plugin, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	main := filepath.Join(dir, "main.mjs")
	if err := os.WriteFile(main, []byte(strings.Replace(script, "PLUGIN", fmt.Sprintf("%q", plugin), 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), waitTime)
	defer cancel()
	return pluginRun{do(t, exec.CommandContext(ctx, node[0], main)), parley + ".log"}
}
