package model

import (
	"maps"
	"strings"
)

// chatAPI is OpenAI's chat completions, which many other services have, too.
var chatAPI = api{name: "chat", fits: ending("/chat/completions"), whole: wholeChat, stream: streamChat, failure: openAIFailure}

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
