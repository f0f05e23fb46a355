package cli

import (
	"encoding/json"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/parley-agents/parley/internal/ground/effects"
)

// A guarding is how a CLI asks before a tool runs, and how the call is refused.
type guarding struct {
	tools map[string]tool // by the CLI's name of the tool; those without files are left out

	// deny returns the output of the hook before a tool call that refuses the call. The model
	// reads the reason after words of the CLI.
	deny func(reason string) any

	// Trust is the state of the guard of a CLI that runs a hook only after its user has trusted
	// it, and asks again when the hook changes; "" for the others.
	Trust string `json:"-"`
}

// A ToolKind says what a tool does with files.
type ToolKind string

// The kinds of tools.
const (
	EditTool  ToolKind = "edit"  // changes files that its arguments name
	ReadTool  ToolKind = "read"  // reads such files
	ShellTool ToolKind = "shell" // runs a command
)

// A tool says where the arguments of a tool of a CLI name files. Members that a call lacks
// are skipped: some CLIs have renamed them.
type tool struct {
	kind    ToolKind
	paths   []string // members with a path
	patch   string   // member with a patch in the form of apply_patch; "" for none
	command string   // member with a shell command; "" for none
	dir     string   // member with the folder of the command; "" if there is none
}

// members returns the members of the arguments that a tool is judged by.
func (t tool) members() []string {
	all := append(slices.Clone(t.paths), t.patch, t.command, t.dir)
	return slices.DeleteFunc(all, func(name string) bool { return name == "" })
}

// A ToolUse is a call of a tool that reads or changes files, as a hook reports it.
type ToolUse struct {
	Kind    ToolKind
	Ended   bool     // the call is over
	Failed  bool     // it ended with an error
	Session string   // of the parent, for a subagent; "" if it is not known
	Dir     string   // the folder in which relative paths begin, and in which a command runs
	Paths   []string // as the model wrote them
	Command string   // of a shell tool
}

// A toolInput is the part of a hook's input that describes a call. The CLIs differ in the
// case of the names.
type toolInput struct {
	Event        string          `json:"hook_event_name"`
	Session      string          `json:"session_id"`
	SessionCamel string          `json:"sessionId"`
	Dir          string          `json:"cwd"`
	Tool         string          `json:"tool_name"`
	ToolCamel    string          `json:"toolName"`
	Args         json.RawMessage `json:"tool_input"`
	ArgsCamel    json.RawMessage `json:"toolArgs"`
	Subagent     string          `json:"agentId"` // its sessionId is then that of a subagent
	Error        json.RawMessage `json:"error"`
	Failed       bool            `json:"failed"` // from our own plugins
	Response     json.RawMessage `json:"tool_response"`
	Result       *struct {
		Type string `json:"resultType"`
	} `json:"toolResult"`
}

// failed reports whether the input says that the call ended with an error.
func (in toolInput) failed() bool {
	hasError := len(in.Error) > 0 && string(in.Error) != "null" && string(in.Error) != `""`
	if in.Failed || hasError {
		return true
	}
	if in.Result != nil {
		return in.Result.Type != "success"
	}

	var response struct {
		Error json.RawMessage `json:"error"`
	}
	isObject := json.Unmarshal(in.Response, &response) == nil
	return isObject && len(response.Error) > 0 && string(response.Error) != "null"
}

// arguments returns the arguments of the call. Some versions send them as a string of JSON.
func (in toolInput) arguments() map[string]json.RawMessage {
	raw := in.Args
	if len(raw) == 0 {
		raw = in.ArgsCamel
	}
	var text string
	if json.Unmarshal(raw, &text) == nil {
		raw = json.RawMessage(text)
	}
	var args map[string]json.RawMessage
	if json.Unmarshal(raw, &args) != nil {
		return nil
	}
	return args
}

// HookOf returns the hook that an input comes from. The input of most CLIs names it; the hooks
// of Copilot about tools are told apart by the result of the call.
func (c CLI) HookOf(raw []byte) (Hook, bool) {
	var in toolInput
	if json.Unmarshal(raw, &in) != nil {
		return Hook{}, false
	}
	switch {
	case in.Event != "":
		return c.Hook(in.Event)
	case in.ToolCamel == "":
		return Hook{}, false
	case in.Result != nil:
		return c.hookAt(Tool)
	}
	return c.hookAt(Before)
}

// hookAt returns the first hook for an event.
func (c CLI) hookAt(event Event) (Hook, bool) {
	i := slices.IndexFunc(c.hooks, func(h Hook) bool { return h.Event == event })
	if i < 0 {
		return Hook{}, false
	}
	return c.hooks[i], true
}

// ReadUse reads the call of a tool from the input of a hook. ok is false for an input about
// no tool, and for tools that neither read nor change files.
func (c CLI) ReadUse(h Hook, raw []byte) (use ToolUse, ok bool) {
	isAboutTool := h.Event == Before || h.Event == Tool || h.Event == After
	var in toolInput
	if !isAboutTool || json.Unmarshal(raw, &in) != nil {
		return ToolUse{}, false
	}
	t, ok := c.tools[in.Tool+in.ToolCamel]
	if !ok {
		return ToolUse{}, false
	}

	use = ToolUse{Kind: t.kind, Ended: h.Event != Before, Session: in.Session, Dir: in.Dir}
	use.Failed = use.Ended && in.failed()
	if use.Session == "" && in.Subagent == "" {
		use.Session = in.SessionCamel
	}

	args := in.arguments()
	member := func(name string) (text string) {
		if raw, ok := args[name]; ok && json.Unmarshal(raw, &text) != nil {
			return ""
		}
		return text
	}
	for _, name := range t.paths {
		if path := member(name); path != "" {
			use.Paths = append(use.Paths, path)
		}
	}
	if t.patch != "" {
		use.Paths = append(use.Paths, effects.PatchPaths(member(t.patch))...)
	}
	if t.command != "" {
		use.Command = member(t.command)
	}
	if dir := member(t.dir); dir != "" {
		use.Dir = joined(use.Dir, dir)
	}
	return use, len(use.Paths) > 0 || use.Command != ""
}

// joined returns a path that begins in a folder.
func joined(folder, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(folder, path)
}

// Deny returns the output of a hook that refuses the call of a tool, with a reason for the
// model. It is empty for a hook that cannot refuse.
func (c CLI) Deny(h Hook, reason string) []byte {
	if h.Event != Before || c.deny == nil || strings.TrimSpace(reason) == "" {
		return nil
	}
	out, err := json.Marshal(c.deny(reason))
	if err != nil {
		return nil
	}
	return append(out, '\n')
}

// claudeDenial is the output that Claude Code defined and that Codex and Qwen took over.
func claudeDenial(reason string) any {
	return map[string]any{"hookSpecificOutput": map[string]string{"hookEventName": "PreToolUse", "permissionDecision": "deny", "permissionDecisionReason": reason}}
}

// pluginDenial is the output that our own plugins read.
func pluginDenial(reason string) any { return map[string]string{"deny": reason} }

// Guards reports whether the CLI can be kept from an edit by its hooks.
func (c CLI) Guards() bool { return c.deny != nil }

// matcher returns the tools for which a hook runs, as CLIs with matchers take them; "" for
// all tools. A call that failed is of interest only if it ran a command.
func (c CLI) matcher(h Hook) string {
	kinds := map[Event][]ToolKind{Before: {EditTool, ShellTool}, After: {ShellTool}}[h.Event]
	if kinds == nil {
		return ""
	}
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(c.tools)), func(name string) bool { return !slices.Contains(kinds, c.tools[name].kind) })
	return strings.Join(names, "|")
}

// watchedMembers returns the members of arguments by which tools are judged, by tool, for the
// plugins: they pass on no others.
func (c CLI) watchedMembers() map[string][]string {
	out := map[string][]string{}
	for name, t := range c.tools {
		out[name] = t.members()
	}
	return out
}

// askedTools returns the tools about which plugins ask before a call.
func (c CLI) askedTools() []string {
	return strings.Split(c.matcher(Hook{Event: Before}), "|")
}
