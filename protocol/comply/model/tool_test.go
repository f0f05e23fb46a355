package model

import (
	"encoding/json"
	"testing"
)

// TestCalls offers tools as well-known agents do.
func TestCalls(t *testing.T) {
	text, list := obj{"type": "string"}, obj{"type": "array", "items": obj{"type": "string"}}
	absolute := obj{"type": "string", "description": "Absolute path of the file."}
	offer := func(name string, required []any, properties obj) tool {
		return tool{name: name, schema: obj{"type": "object", "properties": properties, "required": required}}
	}
	todos := obj{"type": "array", "items": obj{"type": "object", "required": []any{"content", "status", "priority", "id", "activeForm"}, "properties": obj{
		"content": text, "priority": text, "id": text, "activeForm": text, "status": obj{"type": "string", "enum": []any{"pending", "in_progress", "completed"}},
	}}}
	editor := offer("text_editor", []any{"command", "path"}, obj{"command": obj{"enum": []any{"view", "write", "str_replace"}}, "path": text, "file_text": text, "old_str": text, "new_str": text})
	for _, tt := range []struct {
		name  string
		tools []tool
		step  Step
		want  string // name and arguments
	}{
		{"file_path", []tool{offer("Read", nil, obj{"file_path": absolute, "limit": obj{"type": "number"}})}, Step{Do: Read, Path: "a"}, `Read {"file_path":"/w/a"}`},
		{"filePath", []tool{offer("edit", nil, obj{"filePath": text, "oldString": text, "newString": text})}, Step{Do: Edit, Path: "a", Old: "x", New: "y"}, `edit {"filePath":"a","newString":"y","oldString":"x"}`},
		{"several files", []tool{offer("read_files", nil, obj{"path": list})}, Step{Do: Read, Path: "a"}, `read_files {"path":["a"]}`},
		{"an image is no file to read", []tool{offer("view_image", nil, obj{"path": text}), offer("bash", nil, obj{"command": text})}, Step{Do: Read, Path: "it's"}, `bash {"command":"cat 'it'\\''s'"}`},
		{"what else is required is made up", []tool{offer("Bash", []any{"command", "description", "background"}, obj{"command": text, "description": text, "background": obj{"type": "boolean"}})}, Step{Do: Shell, Command: "ls"}, `Bash {"background":false,"command":"ls","description":"scripted"}`},
		{"a command as a list", []tool{offer("shell", nil, obj{"command": list})}, Step{Do: Shell, Command: "ls"}, `shell {"command":["bash","-c","ls"]}`},
		{"one tool for all", []tool{editor}, Step{Do: Write, Path: "a", Text: "b"}, `text_editor {"command":"write","file_text":"b","path":"a"}`},
		{"one tool for all, to read", []tool{editor}, Step{Do: Read, Path: "a"}, `text_editor {"command":"view","path":"a"}`},
		{"one tool for all, to edit", []tool{editor}, Step{Do: Edit, Path: "a", Old: "x", New: "y"}, `text_editor {"command":"str_replace","new_str":"y","old_str":"x","path":"a"}`},
		{"one tool for all is no shell", []tool{editor}, Step{Do: Shell, Command: "ls"}, ""},
		{"a plan", []tool{offer("TodoWrite", nil, obj{"todos": todos})}, Step{Do: Plan, Entries: []string{"x", "y", "z"}, Done: 1}, `TodoWrite {"todos":[` +
			`{"activeForm":"x","content":"x","id":"1","priority":"medium","status":"completed"},` +
			`{"activeForm":"y","content":"y","id":"2","priority":"medium","status":"in_progress"},` +
			`{"activeForm":"z","content":"z","id":"3","priority":"medium","status":"pending"}]}`},
		{"a patch", []tool{{name: "apply_patch", free: true}}, Step{Do: Write, Path: "a", Text: "b\nc\n"}, "apply_patch *** Begin Patch\n*** Add File: a\n+b\n+c\n*** End Patch\n"},
		{"a patch that edits", []tool{offer("apply_patch", nil, obj{"input": text})}, Step{Do: Edit, Path: "a", Old: "x", New: "y"}, `apply_patch {"input":"*** Begin Patch\n*** Update File: a\n@@\n-x\n+y\n*** End Patch\n"}`},
		{"free text for a tool", []tool{{name: "exec", free: true}}, Step{Do: Tool, Name: "exec", Args: json.RawMessage(`{"input":"go()"}`)}, "exec go()"},
		{"an MCP tool with a prefix", []tool{{name: "mcp__fix_ture__echo"}}, Step{Do: MCP, Server: "fix-ture", Name: "echo"}, "mcp__fix_ture__echo {}"},
		{"an MCP tool by its own name", []tool{{name: "echo"}}, Step{Do: MCP, Name: "echo"}, "echo {}"},
		{"the MCP tool of the right server", []tool{{name: "other_echo"}, {name: "fixture_echo"}}, Step{Do: MCP, Server: "fixture", Name: "echo"}, "fixture_echo {}"},
		{"an MCP tool is none of the agent's", []tool{offer("mcp__files__read_file", nil, obj{"path": text})}, Step{Do: Read, Path: "a"}, ""},
		{"nothing that fits", []tool{offer("read_file", nil, obj{"handle": obj{"type": "integer"}})}, Step{Do: Read, Path: "a"}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := &request{system: "<cwd>/w</cwd>", tools: tt.tools}
			got, err := r.call(tt.step)
			if text := got.name + " " + got.args; err == nil && text != tt.want || (err == nil) != (tt.want != "") {
				t.Errorf("got %s, %v, want %s", text, err, tt.want)
			}
		})
	}
}

func TestFolders(t *testing.T) {
	for text, want := range map[string]string{
		"<env>\n  Working directory: /a/b c\n  Is git: no":      "/a/b c",
		"Primary working directory: /a/b\n":                     "/a/b",
		"I'm currently working in the directory: /a/b\nfolders": "/a/b",
		"<cwd>/a/b</cwd>":                                                "/a/b",
		"- **Workspace Directories:**\n  - /a/b":                         "/a/b",
		"your current working directory is `/a/b`.":                      "/a/b",
		"Working directory: /a\nWorking directory: /a/b (was /a)\n":      "/a/b",
		"Working directory: /a/b\n  Workspace root folder: /\n":          "/a/b",
		"nothing about it, but a path: /usr/bin, and 1/2 of a directory": "",
	} {
		if got := (&request{system: text}).folder(); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}
