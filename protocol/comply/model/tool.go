package model

import (
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/parley-agents/parley/internal/ground/text/pattern"
)

// A tool is a tool that an agent offers to its model. schema is JSON Schema as the
// agent sent it; nil has no arguments that could be filled.
type tool struct {
	name, description string
	schema            map[string]any // of the arguments
	free              bool           // the argument is plain text
	space             string         // the namespace that the name is in; "" for none
	finder            bool           // it is the API's own search for tools, not a function
}

// A call is a tool call that the model makes.
type call struct {
	name  string
	args  string // JSON, or plain text
	free  bool
	space string // of the tool
	find  bool   // of the API's own search for tools
}

// A family describes the tools of different agents that do the same work, such as reading a
// file: their names, and the arguments that they need.
type family struct {
	names []string        // lower case, letters only, the best first
	like  pattern.Pattern // matches other names that may be of the family
	slots []string        // the values that its arguments must have room for
	modes []string        // names of the mode, for tools that can do several things
}

// families has the tools of the agents in protocol/comply/agents, and names that others are likely to
// use. An agent needs an entry here only if its names are unlike all of these.
var families = map[Action]family{
	Read:  {[]string{"readfile", "read", "readtextfile", "fsread", "viewfile", "view", "openfile", "catfile"}, pattern.New(`read.*file|texteditor|strreplace`), []string{"path"}, []string{"view", "read"}},
	Write: {[]string{"writefile", "write", "createfile", "create", "writetextfile", "fswrite", "savefile"}, pattern.New(`(write|create|save).*file|texteditor|strreplace`), []string{"path", "text"}, []string{"create", "write"}},
	Edit:  {[]string{"edit", "editfile", "replace", "strreplace", "replaceinfile", "searchreplace"}, pattern.New(`edit|replace`), []string{"path", "old", "new"}, []string{"strreplace", "replace", "edit"}},
	Shell: {[]string{"bash", "shell", "runshellcommand", "shellcommand", "execcommand", "runcommand", "runterminalcommand", "terminal", "execute", "exec"}, pattern.New(`shell|bash|terminal|exec|command`), []string{"command"}, nil},
	Plan:  {[]string{"updateplan", "todowrite", "writetodos", "todo", "plan"}, pattern.New(`todo|plan`), []string{"entries"}, nil},
}

// slotNames has the names of arguments for each value, lower case, letters only, the best
// first.
var slotNames = map[string][]string{
	"path":    {"absolutepath", "filepath", "path", "targetfile", "file", "filename", "uri"},
	"text":    {"content", "contents", "filetext", "text", "newcontent", "data"},
	"old":     {"oldstring", "oldstr", "oldtext", "search", "old"},
	"new":     {"newstring", "newstr", "newtext", "replace", "replacement", "new"},
	"command": {"command", "cmd", "script", "code"},
	"entries": {"todos", "plan", "entries", "items", "tasks", "steps"},
	"content": {"content", "step", "description", "text", "title", "task"},
	"status":  {"status", "state"},
}

// call returns the tool call for a step, made for the tools that this agent offers: the best
// tool of the family, else a patch, else a shell command. The error tells why there is
// none.
// The choice depends on the request alone, so a repeated request gets the same
// call.
func (r *request) call(s Step) (call, error) {
	switch s.Do {
	case Tool:
		for _, t := range r.tools {
			if t.name == s.Name {
				return t.with(s.Args), nil
			}
		}
		return call{}, fmt.Errorf("the agent offers no tool %q", s.Name)

	case MCP:
		if t, ok := bestMCP(r.tools, s.Server, s.Name); ok {
			return t.with(s.Args), nil
		}
		if c, ok := r.callDeferred(s); ok {
			return c, nil
		}
		return call{}, fmt.Errorf("the agent offers no MCP tool %q", s.Name)
	}

	// Any other step uses its own family of tools, then a patch, then the shell.
	if c, ok := r.callFamily(s); ok {
		return c, nil
	}
	if c, ok := r.patch(s); ok {
		return c, nil
	}
	if command := inShell(s); command != "" {
		if c, ok := r.callFamily(Step{Do: Shell, Command: command}); ok {
			return c, nil
		}
	}
	return call{}, fmt.Errorf("the agent offers no suitable tool")
}

// callFamily returns a call of the best tool of the step's family that has room for its values.
func (r *request) callFamily(s Step) (call, bool) {
	f := families[s.Do]
	// A tool of the family may still lack room for a value; then the next one is tried.
	for _, t := range r.ranked(f) {
		if c, ok := t.fill(s, f, r.folder()); ok {
			return c, true
		}
	}
	return call{}, false
}

// ranked returns the tools that may be of a family, the best first. Tools of MCP servers
// are not among them.
func (r *request) ranked(f family) []tool {
	var out []tool
	// Known names come first, in their order; a name that only looks like one is a guess.
	for _, name := range f.names {
		for _, t := range r.tools {
			if plain(t.name) == name && !t.free && t.space == "" {
				out = append(out, t)
			}
		}
	}
	for _, t := range r.tools {
		isGuess := f.like().MatchString(plain(t.name)) && !slices.Contains(f.names, plain(t.name))
		ofServer := t.space != "" || strings.HasPrefix(t.name, "mcp")
		if isGuess && !ofServer && !t.free {
			out = append(out, t)
		}
	}
	return out
}

// deferredName matches the names of tools of MCP servers in the text that an agent sends
// to its model.
var deferredName = pattern.New(`mcp__[A-Za-z0-9_-]+`)

// The tools with which agents keep the definitions of other tools out of a request.
const (
	searchTool = "toolsearch" // returns definitions; then the tools can be called
	bridgeTool = "toolcall"   // calls a tool by its name

	ownSearch = `"max_results":1` // in the arguments of a search that no script asked for
)

// callDeferred returns a call on the way to a tool that the agent names in its text and
// does not define: through the bridge, or of the tool itself once the search has found
// it, or of the search. The search of the API itself is made for tools that no text names,
// once for each: its answer defines those that it found.
func (r *request) callDeferred(s Step) (call, bool) {
	if search, ok := r.offered(searchTool); ok && search.finder {
		query := strings.TrimSpace(s.Server + " " + s.Name)
		again := slices.ContainsFunc(r.lookups, func(args string) bool { return strings.Contains(args, string(encoded(query))) })
		return search.with(encoded(obj{"query": query})), !again
	}

	// Names in the text are the only trace of a tool that is not defined yet.
	var named []tool
	texts := []string{r.system}
	for _, it := range r.items {
		if it.role == user {
			texts = append(texts, withoutDirectives(it.text()))
		}
	}
	for _, text := range texts {
		for _, name := range deferredName().FindAllString(text, -1) {
			named = append(named, tool{name: name})
		}
	}

	t, ok := bestMCP(named, s.Server, s.Name)
	if !ok {
		return call{}, false
	}

	c := t.with(s.Args)
	if bridge, ok := r.offered(bridgeTool); ok {
		return bridge.with(encoded(obj{"name": t.name, "arguments": json.RawMessage(c.args)})), true
	}
	if slices.ContainsFunc(r.lookups, func(args string) bool { return strings.Contains(args, t.name) }) {
		return c, true
	}

	search, ok := r.offered(searchTool)
	return search.with(encoded(obj{"query": "select:" + t.name, "max_results": 1})), ok
}

// offered returns the tool with a plain name.
func (r *request) offered(name string) (tool, bool) {
	i := slices.IndexFunc(r.tools, func(t tool) bool { return plain(t.name) == name && t.space == "" })
	if i < 0 {
		return tool{}, false
	}
	return r.tools[i], true
}

// bestMCP finds a tool of an MCP server. Agents join the names of server and tool in
// different ways, or put the server's name into a namespace, so the closest name wins.
// Of two tools with the same score the first one wins.
func bestMCP(tools []tool, server, name string) (tool, bool) {
	best, found := tool{}, 0
	for _, t := range tools {
		score := 0
		switch whole, end := plain(t.space+t.name), plain(name); {
		// The better the match, the higher the score; a tool without one is not meant.
		case server != "" && whole == plain(server)+end, server != "" && whole == "mcp"+plain(server)+end:
			score = 4
		case t.name == name:
			score = 3
		case strings.HasSuffix(whole, end) && server != "" && strings.Contains(whole, plain(server)):
			score = 2
		case strings.HasSuffix(t.name, "_"+name) && server == "":
			score = 1
		}
		if score > found {
			best, found = t, score
		}
	}
	return best, found > 0
}

// with returns a call of the tool with the given arguments.
func (t tool) with(args json.RawMessage) call {
	if args == nil {
		args = json.RawMessage("{}")
	}
	c := call{t.name, string(args), t.free, t.space, t.finder}
	var input struct{ Input *string }
	if t.free && json.Unmarshal(args, &input) == nil && input.Input != nil {
		c.args = *input.Input
	}
	return c
}

// fill returns a call with arguments that match the tool's schema. It reports false if the
// tool has no room for a value of the step. Required arguments that the step has no value
// for get a sample.
// All values of the step must find room, or the tool is not used: a call without
// the text of a file would write an empty one.
func (t tool) fill(s Step, f family, folder string) (call, bool) {
	args := map[string]any{}
	properties, _ := t.schema["properties"].(map[string]any)

	for _, slot := range f.slots {
		name, ok := find(properties, slotNames[slot])
		if !ok {
			return call{}, false
		}
		property, _ := properties[name].(map[string]any)
		value, ok := slotValue(s, slot, property, folder, t.description)
		if !ok {
			return call{}, false
		}
		args[name] = value
	}

	// A tool that can do several things has an argument that says which.
	if mode, ok := find(properties, []string{"command", "mode", "action", "operation"}); ok && args[mode] == nil {
		for _, option := range choices(properties[mode]) {
			if name, _ := option.(string); slices.Contains(f.modes, plain(name)) && args[mode] == nil {
				args[mode] = option
			}
		}
	}

	required, _ := t.schema["required"].([]any)
	for _, name := range required {
		if name, ok := name.(string); ok && args[name] == nil {
			args[name] = sample(properties[name], 0)
		}
	}
	return call{name: t.name, args: string(encoded(args))}, true
}

// slotValue returns the value of a step for an argument, and whether its type fits.
// about is the description of the tool, which may ask for absolute paths.
func slotValue(s Step, slot string, property map[string]any, folder, about string) (any, bool) {
	kind := typeOf(property)
	switch slot {
	case "path":
		said, _ := property["description"].(string)
		p := s.Path
		// Only a tool that says so gets an absolute path: others would show it in reports.
		if folder != "" && !path.IsAbs(p) && (strings.Contains(strings.ToLower(said+about), "absolute")) {
			p = path.Join(folder, p)
		}
		if kind == "array" {
			return []any{p}, true
		}
		return p, kind == "string"
	case "command":
		if kind == "array" {
			return []any{"bash", "-c", s.Command}, true
		}
		return s.Command, kind == "string" && len(choices(property)) == 0
	case "entries":
		return planEntries(s, property)
	case "text":
		return s.Text, kind == "string"
	case "old":
		return s.Old, kind == "string"
	}
	return s.New, kind == "string"
}

// planEntries returns the entries of a plan in the form of the tool's schema.
func planEntries(s Step, property map[string]any) (any, bool) {
	item, _ := property["items"].(map[string]any)
	properties, _ := item["properties"].(map[string]any)
	content, ok := find(properties, slotNames["content"])
	if typeOf(property) != "array" || !ok {
		return nil, false
	}

	required, _ := item["required"].([]any)
	entries := []any{}
	for i, text := range s.Entries {
		entry := map[string]any{content: text}

		// One entry is in progress, those before it are completed, those behind it pending.
		if status, ok := find(properties, slotNames["status"]); ok {
			want := "pending"
			switch {
			case i < s.Done:
				want = "completed"
			case i == s.Done:
				want = "in_progress"
			}
			entry[status] = want
			for _, option := range choices(properties[status]) {
				if name, _ := option.(string); plain(name) == plain(want) {
					entry[status] = option
				}
			}
		}

		for _, name := range required {
			name, ok := name.(string)
			switch {
			case !ok || entry[name] != nil:
			case plain(name) == "id":
				entry[name] = fmt.Sprint(i + 1)
			case plain(name) == "activeform":
				entry[name] = text
			case plain(name) == "priority" && choices(properties[name]) == nil:
				entry[name] = "medium"
			default:
				entry[name] = sample(properties[name], 0)
			}
		}

		entries = append(entries, entry)
	}
	return entries, true
}

// patch returns a call that writes or edits a file with a tool for patches.
// A patch replaces whole lines, so old and new text of an edit are taken for lines.
func (r *request) patch(s Step) (call, bool) {
	if s.Do != Write && s.Do != Edit {
		return call{}, false
	}
	at := slices.IndexFunc(r.tools, func(t tool) bool { return plain(t.name) == "applypatch" })
	if at < 0 {
		return call{}, false
	}
	t := r.tools[at]
	prefixed := func(prefix, text string) string {
		return prefix + strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "\n", "\n"+prefix) + "\n"
	}
	// The format is that of Codex.
	text := "*** Begin Patch\n*** Add File: " + s.Path + "\n" + prefixed("+", s.Text) + "*** End Patch\n"
	if s.Do == Edit {
		text = "*** Begin Patch\n*** Update File: " + s.Path + "\n@@\n" + prefixed("-", s.Old) + prefixed("+", s.New) + "*** End Patch\n"
	}
	if t.free {
		return call{name: t.name, args: text, free: true}, true
	}
	properties, _ := t.schema["properties"].(map[string]any)
	name, ok := find(properties, []string{"input", "patch"})
	if !ok {
		return call{}, false
	}
	return call{name: t.name, args: string(encoded(obj{name: text}))}, true
}

// inShell returns a shell command for a step, for agents without file tools; "" if there is
// none.
// There is none for an edit: no command replaces text safely on all systems.
func inShell(s Step) string {
	quoted := func(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }
	switch s.Do {
	case Read:
		return "cat " + quoted(s.Path)
	case Write:
		return "printf %s " + quoted(s.Text) + " > " + quoted(s.Path)
	}
	return ""
}

// plain returns a name in lower case, letters and digits only.
func plain(name string) string {
	return strings.Map(func(c rune) rune {
		switch {
		case c >= 'A' && c <= 'Z':
			return c + 'a' - 'A'
		case (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'):
			return c
		}
		return -1
	}, name)
}

// find returns the property that has one of the names, the best first.
// Names are compared without case and punctuation, as plain has them.
func find(properties map[string]any, names []string) (string, bool) {
	all := slices.Sorted(maps.Keys(properties))
	for _, want := range names {
		for _, name := range all {
			if plain(name) == want {
				return name, true
			}
		}
	}
	return "", false
}
