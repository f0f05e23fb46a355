package model

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
)

// readRequest reads the request of an agent in any of the APIs. They have the same
// parts under different names, and no name means two things, so that one reader knows
// all of them: it takes the first of the places at which a part can be. Parts that it
// does not know are ignored, because agents send many that mean nothing to a script.
func readRequest(path string, body []byte) (*request, error) {
	var in obj
	if err := json.Unmarshal(body, &in); err != nil {
		return nil, err
	}
	r := &request{model: text(in, "model"), stream: at(in, "stream") == true, usage: at(in, "stream_options.include_usage") == true}
	if base, action, ok := strings.Cut(path[strings.LastIndex(path, "/")+1:], ":"); ok { // Gemini has them in the path
		r.model, r.stream = base, ":"+action == geminiStream
	}
	tokens, _ := at(in, "max_tokens", "max_output_tokens", "generationConfig.maxOutputTokens").(float64)
	r.tokens = int(tokens)
	r.system = readBlocks(at(in, "system", "instructions", "systemInstruction.parts")).text()
	r.forced = text(in, "tool_choice.function.name", "tool_choice.name")
	if names, _ := at(in, "toolConfig.functionCallingConfig.allowedFunctionNames").([]any); len(names) > 0 && text(in, "toolConfig.functionCallingConfig.mode") == "ANY" {
		r.forced, _ = names[0].(string)
	}
	r.format = at(in, "response_format.json_schema.schema", "text.format.schema", "output_format.schema", "generationConfig.responseSchema", "generationConfig.responseJsonSchema")
	switch text(in, "response_format.type", "text.format.type", "output_format.type", "generationConfig.responseMimeType") {
	case "json_object", "json_schema", "application/json":
		r.format = cmp.Or[any](r.format, obj{"type": "object"})
	}
	r.addTools(at(in, "tools"), "")
	return r, r.addMessages(at(in, "messages", "input", "contents"))
}

// at returns the value at the first of the paths where there is one, nil if there is
// none. The parts of a path are joined by dots.
func at(v any, paths ...string) any {
	for _, path := range paths {
		found := v
		for name := range strings.SplitSeq(path, ".") {
			object, _ := found.(obj)
			found = object[name]
		}
		if found != nil {
			return found
		}
	}
	return nil
}

// text returns the string at the first of the paths where there is a value.
func text(v any, paths ...string) string {
	s, _ := at(v, paths...).(string)
	return s
}

// addTools adds the tools that the agent offers. A tool without a schema runs at the
// service, and is none of the agent's. space is the namespace that the tools are in.
func (r *request) addTools(tools any, space string) {
	list, _ := tools.([]any)
	for _, t := range list {
		if inner := at(t, "functionDeclarations"); inner != nil {
			r.addTools(inner, space)
			continue
		}
		if text(t, "type") == "namespace" {
			r.addTools(at(t, "tools"), text(t, "name"))
			continue
		}
		if inner := at(t, "function"); inner != nil {
			t = inner
		}
		if text(t, "type") == "tool_search" && text(t, "execution") == "client" {
			r.tools = append(r.tools, tool{name: "tool_search", finder: true})
			continue
		}
		schema, isFunction := at(t, "parameters", "input_schema", "parametersJsonSchema").(obj)
		free := text(t, "type") == "custom"
		isCallable := isFunction || free || text(t, "type") == "function"
		if name := text(t, "name"); name != "" && isCallable {
			r.tools = append(r.tools, tool{name: name, description: text(t, "description"), schema: schema, free: free, space: space})
		}
	}
}

// addMessages adds the messages of a conversation. A text alone is a prompt.
// Results are added before the text of their message: an agent may send both
// together, and the text is then an aside.
func (r *request) addMessages(messages any) error {
	list, ok := messages.([]any)
	if prompt, isText := messages.(string); isText {
		list = []any{obj{"role": "user", "content": prompt}}
		ok = true
	}
	if !ok && messages != nil {
		return fmt.Errorf("messages must be a list or a string")
	}

	searches := map[string]string{} // arguments of the tool search, by the ids of its calls
	for _, m := range list {
		it := readMessage(m)
		for _, c := range it.made {
			if plain(c.name) == searchTool {
				searches[c.id] = c.args
			}
		}
		for _, result := range it.results {
			r.addResult(result, searches)
		}
		if err := r.addMessage(m, it, searches); err != nil {
			return err
		}
	}
	return nil
}

// readMessage reads the content of a message and the tool calls beside it or, if the
// message is a tool call itself, that one.
func readMessage(m any) message {
	it := readBlocks(at(m, "content", "parts", "output"))
	calls, _ := at(m, "tool_calls").([]any)
	it.calls += len(calls)
	for _, c := range calls {
		it.made = append(it.made, madeCall{text(c, "id"), text(c, "function.name"), text(c, "function.arguments")})
	}

	kind := text(m, "type")
	switch {
	case kind == "tool_search_call": // its arguments are an object
		it.made = append(it.made, madeCall{text(m, "call_id"), searchTool, string(encoded(at(m, "arguments")))})
	case isCall(kind):
		it.made = append(it.made, madeCall{text(m, "call_id"), text(m, "name"), text(m, "arguments")})
	}
	return it
}

// isCall reports whether a message of a type is a tool call.
func isCall(kind string) bool { return strings.HasSuffix(kind, "_call") }

// addMessage adds one message of a conversation, whose content is it, by its type and its
// role.
// Roles that no API has are an error; a message without a role and type is ignored.
func (r *request) addMessage(m any, it message, searches map[string]string) error {
	kind := text(m, "type")
	role := text(m, "role")
	switch {
	case kind == "tool_search_output":
		r.addTools(at(m, "tools"), "")
		r.addResult(item{of: text(m, "call_id")}, searches)
	case role == "system", role == "developer":
		r.system += "\n" + it.text()
	case role == "assistant", role == "model":
		it.role = assistant
		r.items = append(r.items, it.item)
	case isCall(kind):
		r.items = append(r.items, item{role: assistant, calls: 1})
	case role == "tool", role == "function" && len(it.results) == 0, strings.HasSuffix(kind, "_call_output"):
		it.of = text(m, "tool_call_id", "call_id")
		r.addResult(it.item, searches)
	case role == "user", role == "function", role == "" && at(m, "parts") != nil:
		r.addPrompt(it)
	case role != "":
		return fmt.Errorf("messages: unknown role %q", role)
	}
	return nil
}

// addPrompt adds a message of the user, unless it has nothing but results of tools. One
// that follows a result came together with it: it is an aside of the agent.
func (r *request) addPrompt(it message) {
	it.role = user
	if n := len(r.items); n > 0 {
		last := r.items[n-1].role
		it.aside = last == result || last == lookup
	}
	if len(it.blocks)+len(it.kinds) > 0 {
		r.items = append(r.items, it.item)
	}
}

// addResult adds the result of a tool call. That of a search for tools which the model
// made by itself is a lookup: the script knows nothing of it. A search that the script
// made counts as a step of it.
func (r *request) addResult(it item, searches map[string]string) {
	it.role = result
	if args, ok := searches[it.of]; ok && it.of != "" {
		if search, ok := r.offered(searchTool); (ok && search.finder) || strings.Contains(args, ownSearch) {
			it.role = lookup
		}
		r.lookups = append(r.lookups, args)
	}
	r.items = append(r.items, it)
}

// A message is the content of a message, with the tool calls that it makes, and the tool
// results in it, which become items of their own.
type message struct {
	item
	made    []madeCall
	results []item
}

// A madeCall is a tool call in a conversation.
type madeCall struct{ id, name, args string }

// readBlocks reads the content of a message: a text, a list of blocks, or the result of a
// tool in any form.
func readBlocks(content any) (m message) {
	switch content := content.(type) {
	case nil:
	case string:
		m.blocks = []string{content}
	case []any:
		for _, b := range content {
			m.addBlock(b)
		}
	default:
		m.blocks = []string{string(encoded(content))}
	}
	return m
}

// blockKinds has the kind of content for the type of a block, and for the first part of
// a media type.
var blockKinds = map[string]string{
	"image": kindImage, "image_url": kindImage, "input_image": kindImage,
	"audio": kindAudio, "input_audio": kindAudio,
	"document": kindFile, "file": kindFile, "input_file": kindFile,
}

// addBlock adds one block of content.
// Reasoning of the model comes back in requests and is ignored: it is no text of
// the conversation.
func (m *message) addBlock(b any) {
	kind := blockKinds[text(b, "type")]
	if media := text(b, "inlineData.mimeType", "fileData.mimeType"); media != "" {
		group, _, _ := strings.Cut(media, "/")
		kind = cmp.Or(blockKinds[group], kindFile)
	}
	switch {
	case text(b, "type") == "tool_use", at(b, "functionCall") != nil:
		m.calls++
		m.made = append(m.made, madeCall{text(b, "id"), text(b, "name"), string(encoded(at(b, "input")))})
	case text(b, "type") == "tool_result", at(b, "functionResponse") != nil:
		inner := readBlocks(at(b, "content", "functionResponse.response"))
		inner.of = text(b, "tool_use_id")
		m.results = append(m.results, inner.item)
	case kind != "":
		m.kinds = append(m.kinds, kind)
	case text(b, "text") != "" && at(b, "thought") != true:
		m.blocks = append(m.blocks, text(b, "text"))
	}
}
