package model_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/parley-agents/parley/protocol/comply/model"
)

// A chat is a conversation, whatever the API.
type chat struct {
	system  string
	earlier []string // prompts that were answered with "fine"
	prompt  string
	results []string // of tool calls since the prompt
	image   bool     // the prompt has one
	stream  bool
	bare    bool   // no tools are offered
	format  bool   // the answer shall be JSON
	force   string // a tool that must be called
}

// A dialect is how an API writes a conversation.
type dialect struct {
	name string
	path func(c chat) string
	body func(c chat) map[string]any
}

type (
	m = map[string]any
	l = []any
)

// offered is what the agent of the tests can do.
var offered = []struct {
	name, about string
	schema      m
}{
	{"read_file", "Reads a file.", m{"type": "object", "properties": m{"absolute_path": m{"type": "string", "description": "The absolute path."}}, "required": l{"absolute_path"}}},
	{"write_file", "Writes a file.", m{"type": "object", "properties": m{"path": m{"type": "string"}, "content": m{"type": "string"}}, "required": l{"path", "content"}}},
	{"run_shell_command", "Runs a command.", m{"type": "object", "properties": m{"command": m{"type": "string"}, "why": m{"type": "string"}}, "required": l{"command", "why"}}},
	{"fixture__echo", "Repeats.", m{"type": "object", "properties": m{"text": m{"type": "string"}}}},
}

var dialects = []dialect{
	{"chat", fixedPath("/v1/chat/completions"), chatBody},
	{"responses", fixedPath("/v1/responses"), responsesBody},
	{"messages", fixedPath("/v1/messages"), messagesBody},
	{"gemini", geminiPath, geminiBody},
}

func fixedPath(path string) func(chat) string { return func(chat) string { return path } }

func chatBody(c chat) m {
	messages := l{m{"role": "system", "content": c.system}}
	for _, text := range c.earlier {
		messages = append(messages, m{"role": "user", "content": text}, m{"role": "assistant", "content": "fine"})
	}
	content := l{m{"type": "text", "text": c.prompt}}
	if c.image {
		content = append(content, m{"type": "image_url", "image_url": m{"url": "data:image/png;base64,AA=="}})
	}
	messages = append(messages, m{"role": "user", "content": content})
	for _, text := range c.results {
		messages = append(messages, m{"role": "assistant", "content": nil, "tool_calls": l{m{"id": "c"}}}, m{"role": "tool", "tool_call_id": "c", "content": text})
	}
	body := m{"model": "any", "stream": c.stream, "stream_options": m{"include_usage": true}, "messages": messages}
	if !c.bare {
		tools := l{}
		for _, t := range offered {
			tools = append(tools, m{"type": "function", "function": m{"name": t.name, "description": t.about, "parameters": t.schema}})
		}
		body["tools"] = tools
	}
	if c.format {
		body["response_format"] = m{"type": "json_schema", "json_schema": m{"schema": wanted}}
	}
	if c.force != "" {
		body["tool_choice"] = m{"type": "function", "function": m{"name": c.force}}
	}
	return body
}

// wanted is the form of answers that shall be JSON.
var wanted = m{"type": "object", "properties": m{"title": m{"type": "string"}, "next": m{"type": "string", "enum": l{"user", "model"}}, "n": m{"type": "integer"}}, "required": l{"title", "next"}}

func responsesBody(c chat) m {
	said := func(role, kind, text string) m {
		return m{"type": "message", "role": role, "content": l{m{"type": kind, "text": text}}}
	}
	var input l
	for _, text := range c.earlier {
		input = append(input, said("user", "input_text", text), said("assistant", "output_text", "fine"))
	}
	prompt := said("user", "input_text", c.prompt)
	if c.image {
		prompt["content"] = append(prompt["content"].(l), m{"type": "input_image", "image_url": "data:image/png;base64,AA=="})
	}
	input = append(input, prompt)
	for _, text := range c.results {
		input = append(input, m{"type": "function_call", "call_id": "c", "name": "x", "arguments": "{}"}, m{"type": "function_call_output", "call_id": "c", "output": text})
	}
	body := m{"model": "any", "stream": c.stream, "instructions": c.system, "input": input}
	if !c.bare {
		tools := l{m{"type": "web_search"}}
		for _, t := range offered {
			tools = append(tools, m{"type": "function", "name": t.name, "description": t.about, "parameters": t.schema})
		}
		body["tools"] = tools
	}
	if c.format {
		body["text"] = m{"format": m{"type": "json_schema", "schema": wanted}}
	}
	if c.force != "" {
		body["tool_choice"] = m{"type": "function", "name": c.force}
	}
	return body
}

func messagesBody(c chat) m {
	var messages l
	for _, text := range c.earlier {
		messages = append(messages, m{"role": "user", "content": text}, m{"role": "assistant", "content": l{m{"type": "text", "text": "fine"}}})
	}
	content := l{m{"type": "text", "text": c.prompt}}
	if c.image {
		content = append(content, m{"type": "image", "source": m{"type": "base64", "media_type": "image/png", "data": "AA=="}})
	}
	messages = append(messages, m{"role": "user", "content": content})
	for _, text := range c.results {
		messages = append(messages,
			m{"role": "assistant", "content": l{m{"type": "tool_use", "id": "c", "name": "x", "input": m{}}}},
			m{"role": "user", "content": l{m{"type": "tool_result", "tool_use_id": "c", "content": l{m{"type": "text", "text": text}}}, m{"type": "text", "text": "<reminder>be good</reminder>"}}})
	}
	body := m{"model": "any", "max_tokens": 1000, "stream": c.stream, "system": l{m{"type": "text", "text": c.system}}, "messages": messages}
	if !c.bare {
		tools := l{}
		for _, t := range offered {
			tools = append(tools, m{"name": t.name, "description": t.about, "input_schema": t.schema})
		}
		body["tools"] = tools
	}
	if c.format {
		body["output_format"] = m{"type": "json_schema", "schema": wanted}
	}
	if c.force != "" {
		body["tool_choice"] = m{"type": "tool", "name": c.force}
	}
	return body
}

func geminiPath(c chat) string {
	if c.stream {
		return "/v1beta/models/any:streamGenerateContent"
	}
	return "/v1beta/models/any:generateContent"
}

func geminiBody(c chat) m {
	var contents l
	for _, text := range c.earlier {
		contents = append(contents, m{"role": "user", "parts": l{m{"text": text}}}, m{"role": "model", "parts": l{m{"text": "fine"}}})
	}
	parts := l{m{"text": c.prompt}}
	if c.image {
		parts = append(parts, m{"inlineData": m{"mimeType": "image/png", "data": "AA=="}})
	}
	contents = append(contents, m{"role": "user", "parts": parts})
	for _, text := range c.results {
		contents = append(contents,
			m{"role": "model", "parts": l{m{"functionCall": m{"name": "x", "args": m{}}}}},
			m{"role": "user", "parts": l{m{"functionResponse": m{"name": "x", "response": m{"output": text}}}}})
	}
	body := m{"contents": contents, "systemInstruction": m{"parts": l{m{"text": c.system}}}}
	if !c.bare {
		functions := l{}
		for _, t := range offered {
			functions = append(functions, m{"name": t.name, "description": t.about, "parametersJsonSchema": t.schema})
		}
		body["tools"] = l{m{"functionDeclarations": functions}}
	}
	if c.format {
		body["generationConfig"] = m{"responseMimeType": "application/json", "responseJsonSchema": wanted}
	}
	if c.force != "" {
		body["toolConfig"] = m{"functionCallingConfig": m{"mode": "ANY", "allowedFunctionNames": l{c.force}}}
	}
	return body
}

// serve starts a model. A nil script is the default one.
func serve(t testing.TB, script *model.Script) *httptest.Server {
	t.Helper()
	srv := httptest.NewServer(model.New(script))
	t.Cleanup(srv.Close) // waits for the requests
	return srv
}

// post sends a body and returns the response, unread.
func post(ctx context.Context, t testing.TB, url string, body any) (*http.Response, error) {
	t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	return http.DefaultClient.Do(req)
}

// ask sends a conversation and returns what came of it.
func (d dialect) ask(t testing.TB, url string, c chat) (status int, header http.Header, body string) {
	t.Helper()
	resp, err := post(t.Context(), t, url+d.path(c), d.body(c))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, resp.Header, string(text)
}

// get reads a path and decodes what is there.
func get(t testing.TB, url string, into any) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(into); err != nil {
		t.Fatal(err)
	}
}

// contains fails unless all words are in the text.
func contains(t testing.TB, text string, words ...string) {
	t.Helper()
	for _, w := range words {
		if !strings.Contains(text, w) {
			t.Errorf("there is no %q in %s", w, text)
		}
	}
}
