package model

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
)

// chatAPI is OpenAI's chat completions, which many other services have, too.
var chatAPI = api{name: "chat", fits: ending("/chat/completions"), read: readChat, whole: wholeChat, stream: streamChat, failure: openAIFailure}

func readChat(_ string, body []byte) (*request, error) {
	var in struct {
		Model         string `json:"model"`
		Stream        bool   `json:"stream"`
		StreamOptions struct {
			IncludeUsage bool `json:"include_usage"`
		} `json:"stream_options"`
		MaxTokens int `json:"max_tokens"`
		Messages  []struct {
			Role      string            `json:"role"`
			Content   content           `json:"content"`
			ToolCalls []json.RawMessage `json:"tool_calls"`
		} `json:"messages"`
		Tools []struct {
			Function struct {
				Name        string          `json:"name"`
				Description string          `json:"description"`
				Parameters  json.RawMessage `json:"parameters"`
			} `json:"function"`
		} `json:"tools"`
		ToolChoice     json.RawMessage `json:"tool_choice"`
		ResponseFormat struct {
			Type       string `json:"type"`
			JSONSchema struct {
				Schema json.RawMessage `json:"schema"`
			} `json:"json_schema"`
		} `json:"response_format"`
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return nil, err
	}
	r := &request{model: in.Model, stream: in.Stream, usage: in.StreamOptions.IncludeUsage, tokens: in.MaxTokens}
	r.format = formatOf(in.ResponseFormat.Type, in.ResponseFormat.JSONSchema.Schema)
	for i, m := range in.Messages {
		it := item{blocks: m.Content.texts(), kinds: m.Content.kinds(), calls: len(m.ToolCalls)}
		switch m.Role {
		case "system", "developer":
			r.system += it.text() + "\n"
			continue
		case "user":
			it.role, it.aside = user, i > 0 && in.Messages[i-1].Role == "tool"
		case "assistant":
			it.role = assistant
		case "tool", "function":
			it.role = result
		default:
			return nil, fmt.Errorf("messages: no role %q", m.Role)
		}
		r.items = append(r.items, it)
	}
	for _, t := range in.Tools {
		r.tools = append(r.tools, tool{name: t.Function.Name, description: t.Function.Description, schema: schemaOf(t.Function.Parameters)})
	}
	var choice struct{ Function struct{ Name string } }
	if json.Unmarshal(in.ToolChoice, &choice) == nil {
		r.forced = choice.Function.Name
	}
	return r, nil
}

var chatStops = map[stop]string{stopEnd: "stop", stopCalls: "tool_calls", stopLength: "length", stopRefusal: "content_filter"}

func wholeChat(r *request, a *answer) any {
	message := obj{"role": "assistant", "content": nil}
	var said, thought, refused strings.Builder
	calls := []any{}
	for _, p := range a.parts {
		switch p.kind {
		case textPart:
			said.WriteString(p.text)
		case thinkPart:
			thought.WriteString(p.text)
		case refusalPart:
			refused.WriteString(p.text)
		case callPart:
			calls = append(calls, obj{"id": p.id, "type": "function", "function": obj{"name": p.call.name, "arguments": p.call.args}})
		}
	}
	for name, text := range map[string]string{"content": said.String(), "reasoning_content": thought.String(), "refusal": refused.String()} {
		if text != "" {
			message[name] = text
		}
	}
	if len(calls) > 0 {
		message["tool_calls"] = calls
	}
	return obj{
		"id": "chatcmpl-" + a.id, "object": "chat.completion", "created": epoch, "model": r.model,
		"choices": []any{obj{"index": 0, "message": message, "logprobs": nil, "finish_reason": chatStops[a.stop]}},
		"usage":   chatUsage(r, a),
	}
}

func chatUsage(r *request, a *answer) obj {
	in, out := usage(r, a)
	return obj{"prompt_tokens": in, "completion_tokens": out, "total_tokens": in + out}
}

// A chatStream sends an answer as chunks of a completion.
type chatStream struct {
	exchange
	calls int // that were sent
}

func streamChat(x exchange) stream { return &chatStream{exchange: x} }

func (s *chatStream) chunk(choices []any, more obj) {
	c := obj{"id": "chatcmpl-" + s.a.id, "object": "chat.completion.chunk", "created": epoch, "model": s.r.model, "choices": choices}
	maps.Copy(c, more)
	s.out.data(c)
}

func (s *chatStream) choice(delta obj, finish any) {
	s.chunk([]any{obj{"index": 0, "delta": delta, "finish_reason": finish}}, nil)
}

func (s *chatStream) begin() { s.choice(obj{"role": "assistant", "content": ""}, nil) }

func (s *chatStream) open(p part) {
	if p.kind == callPart {
		s.choice(obj{"tool_calls": []any{obj{"index": s.calls, "id": p.id, "type": "function", "function": obj{"name": p.call.name, "arguments": ""}}}}, nil)
	}
}

func (s *chatStream) delta(p part, chunk string) {
	switch p.kind {
	case textPart:
		s.choice(obj{"content": chunk}, nil)
	case thinkPart:
		s.choice(obj{"reasoning_content": chunk}, nil)
	case refusalPart:
		s.choice(obj{"refusal": chunk}, nil)
	case callPart:
		s.choice(obj{"tool_calls": []any{obj{"index": s.calls, "function": obj{"arguments": chunk}}}}, nil)
	}
}

func (s *chatStream) close(p part) {
	if p.kind == callPart {
		s.calls++
	}
}

func (s *chatStream) end() {
	s.choice(obj{}, chatStops[s.a.stop])
	if s.r.usage {
		s.chunk([]any{}, obj{"usage": chatUsage(s.r, s.a)})
	}
	s.out.raw("data: [DONE]\n\n")
}

func (s *chatStream) fail(status int, text string) { s.out.data(openAIFailure(status, text)) }

// openAIFailure returns an error in the form of OpenAI.
func openAIFailure(status int, text string) any {
	kind := failureName(status, map[int]string{429: "rate_limit_exceeded"}, "server_error", "invalid_request_error")
	return obj{"error": obj{"message": text, "type": kind, "param": nil, "code": kind}}
}
