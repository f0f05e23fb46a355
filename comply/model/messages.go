package model

import (
	"encoding/json"
	"fmt"
)

// messagesAPI is Anthropic's messages.
var messagesAPI = api{name: "messages", fits: ending("/messages"), read: readMessages, whole: wholeMessages, stream: streamMessages, failure: messagesFailure}

func readMessages(_ string, body []byte) (*request, error) {
	var in struct {
		Model     string  `json:"model"`
		Stream    bool    `json:"stream"`
		MaxTokens int     `json:"max_tokens"`
		System    content `json:"system"`
		Messages  []struct {
			Role    string  `json:"role"`
			Content content `json:"content"`
		} `json:"messages"`
		Tools []struct {
			Name        string          `json:"name"`
			Description string          `json:"description"`
			Schema      json.RawMessage `json:"input_schema"`
		} `json:"tools"`
		ToolChoice struct {
			Name string `json:"name"`
		} `json:"tool_choice"`
		OutputFormat struct {
			Type   string          `json:"type"`
			Schema json.RawMessage `json:"schema"`
		} `json:"output_format"`
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return nil, err
	}
	r := &request{model: in.Model, stream: in.Stream, tokens: in.MaxTokens, forced: in.ToolChoice.Name}
	r.format = formatOf(in.OutputFormat.Type, in.OutputFormat.Schema)
	r.system = item{blocks: in.System.texts()}.text()
	for _, m := range in.Messages {
		switch m.Role {
		case "assistant":
			it := item{role: assistant, blocks: m.Content.texts()}
			for _, b := range m.Content {
				if b.Type == "tool_use" {
					it.calls++
				}
			}
			r.items = append(r.items, it)
		case "user":
			r.addUserMessage(m.Content)
		case "system":
			r.system += "\n" + item{blocks: m.Content.texts()}.text()
		default:
			return nil, fmt.Errorf("messages: no role %q", m.Role)
		}
	}
	for _, t := range in.Tools {
		if len(t.Schema) > 0 { // a tool without a schema runs at the service
			r.tools = append(r.tools, tool{name: t.Name, description: t.Description, schema: schemaOf(t.Schema)})
		}
	}
	return r, nil
}

// addUserMessage adds a message of the user. Tool results in it become items of their own.
func (r *request) addUserMessage(c content) {
	var words content
	results := false
	for _, b := range c {
		if b.Type == "tool_result" {
			r.items = append(r.items, item{role: result, blocks: b.Content.texts(), kinds: b.Content.kinds()})
			results = true
			continue
		}
		words = append(words, b)
	}
	if len(words) > 0 {
		r.items = append(r.items, item{role: user, blocks: words.texts(), kinds: words.kinds(), aside: results})
	}
}

var messagesStops = map[stop]string{stopEnd: "end_turn", stopCalls: "tool_use", stopLength: "max_tokens", stopRefusal: "refusal"}

func messageObject(r *request, a *answer, blocks []any, stop any, out int) obj {
	in, _ := usage(r, a)
	return obj{
		"id": "msg_" + a.id, "type": "message", "role": "assistant", "model": r.model, "content": blocks, "stop_reason": stop, "stop_sequence": nil,
		"usage": obj{"input_tokens": in, "output_tokens": out, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0},
	}
}

// signature is in the place of the proof that reasoning came from the model.
const signature = "c2NyaXB0ZWQ="

func wholeMessages(r *request, a *answer) any {
	blocks := []any{}
	for _, p := range a.parts {
		switch p.kind {
		case thinkPart:
			blocks = append(blocks, obj{"type": "thinking", "thinking": p.text, "signature": signature})
		case callPart:
			blocks = append(blocks, obj{"type": "tool_use", "id": p.id, "name": p.call.name, "input": input(p.call.args)})
		default:
			blocks = append(blocks, obj{"type": "text", "text": p.text})
		}
	}
	_, out := usage(r, a)
	return messageObject(r, a, blocks, messagesStops[a.stop], out)
}

// input returns arguments as JSON. Broken arguments become a string, which no tool accepts.
func input(args string) any {
	if json.Valid([]byte(args)) {
		return json.RawMessage(args)
	}
	return args
}

// A messagesStream sends an answer as events about its blocks.
type messagesStream struct {
	exchange
	n int // the index of the current block
}

func streamMessages(x exchange) stream { return &messagesStream{exchange: x} }

func (s *messagesStream) event(kind string, more obj) {
	more["type"] = kind
	s.out.event(kind, more)
}

func (s *messagesStream) begin() {
	s.event("message_start", obj{"message": messageObject(s.r, s.a, []any{}, nil, 1)})
	s.event("ping", obj{})
}

func (s *messagesStream) open(p part) {
	start := obj{"type": "text", "text": ""}
	switch p.kind {
	case thinkPart:
		start = obj{"type": "thinking", "thinking": "", "signature": ""}
	case callPart:
		start = obj{"type": "tool_use", "id": p.id, "name": p.call.name, "input": obj{}}
	}
	s.event("content_block_start", obj{"index": s.n, "content_block": start})
}

func (s *messagesStream) delta(p part, chunk string) {
	switch p.kind {
	case thinkPart:
		s.block(obj{"type": "thinking_delta", "thinking": chunk})
	case callPart:
		s.block(obj{"type": "input_json_delta", "partial_json": chunk})
	default:
		s.block(obj{"type": "text_delta", "text": chunk})
	}
}

func (s *messagesStream) block(delta obj) {
	s.event("content_block_delta", obj{"index": s.n, "delta": delta})
}

func (s *messagesStream) close(p part) {
	if p.kind == thinkPart {
		s.block(obj{"type": "signature_delta", "signature": signature})
	}
	s.event("content_block_stop", obj{"index": s.n})
	s.n++
}

func (s *messagesStream) end() {
	_, out := usage(s.r, s.a)
	s.event("message_delta", obj{"delta": obj{"stop_reason": messagesStops[s.a.stop], "stop_sequence": nil}, "usage": obj{"output_tokens": out}})
	s.event("message_stop", obj{})
}

func (s *messagesStream) fail(status int, text string) {
	s.out.event("error", messagesFailure(status, text))
}

// messagesErrors are the names of errors by their status.
var messagesErrors = map[int]string{
	401: "authentication_error", 403: "permission_error", 404: "not_found_error", 413: "request_too_large", 429: "rate_limit_error", 529: "overloaded_error",
}

func messagesFailure(status int, text string) any {
	kind := failureName(status, messagesErrors, "api_error", "invalid_request_error")
	return obj{"type": "error", "error": obj{"type": kind, "message": text}}
}
