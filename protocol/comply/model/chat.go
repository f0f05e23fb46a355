package model

import (
	"maps"
	"strings"
)

// chatAPI is OpenAI's chat completions, which many other services have, too.
var chatAPI = api{name: "chat", fits: ending("/chat/completions"), whole: wholeChat, stream: streamChat, failure: openAIFailure}

// chatStops has the finish_reason for each end of an answer.
var chatStops = map[stop]string{stopEnd: "stop", stopCalls: "tool_calls", stopLength: "length", stopRefusal: "content_filter"}

// wholeChat returns the answer as one completion. Parts of the same sort are joined: a
// message of this API has one text, whatever order the parts came in.
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

	// Members without text stay out, as the real service leaves them out.
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

// chatUsage returns the counts of tokens.
func chatUsage(r *request, a *answer) obj {
	c := usage(r, a)
	o := obj{"prompt_tokens": c.input, "completion_tokens": c.output, "total_tokens": c.input + c.output}
	if c.cached+c.reasoning > 0 {
		o["prompt_tokens_details"] = obj{"cached_tokens": c.cached}
		o["completion_tokens_details"] = obj{"reasoning_tokens": c.reasoning}
	}
	return o
}

// A chatStream sends an answer as chunks of a completion. calls is also the index
// of the call that is being sent.
type chatStream struct {
	exchange
	calls int // that were sent
}

func streamChat(x exchange) stream { return &chatStream{exchange: x} }

// chunk sends one event. The last one, with the usage, has no choices.
func (s *chatStream) chunk(choices []any, more obj) {
	c := obj{"id": "chatcmpl-" + s.a.id, "object": "chat.completion.chunk", "created": epoch, "model": s.r.model, "choices": choices}
	maps.Copy(c, more)
	s.out.data(c)
}

// choice sends a piece of the message.
func (s *chatStream) choice(delta obj, finish any) {
	s.chunk([]any{obj{"index": 0, "delta": delta, "finish_reason": finish}}, nil)
}

// begin announces the role before any content.
func (s *chatStream) begin() { s.choice(obj{"role": "assistant", "content": ""}, nil) }

// open announces a tool call. Text needs no announcement.
func (s *chatStream) open(p part) {
	if p.kind == callPart {
		s.choice(obj{"tool_calls": []any{obj{"index": s.calls, "id": p.id, "type": "function", "function": obj{"name": p.call.name, "arguments": ""}}}}, nil)
	}
}

// delta sends a piece of a part. Pieces of a tool call are told apart by its index.
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

// close counts a tool call, so that the next one gets the next index.
func (s *chatStream) close(p part) {
	if p.kind == callPart {
		s.calls++
	}
}

// end sends the reason, the usage if the agent asked for it, and the mark after which
// clients of this API stop reading.
func (s *chatStream) end() {
	s.choice(obj{}, chatStops[s.a.stop])
	if s.r.usage {
		s.chunk([]any{}, obj{"usage": chatUsage(s.r, s.a)})
	}
	s.out.raw("data: [DONE]\n\n")
}

// fail sends an error in place of the next piece.
func (s *chatStream) fail(status int, text string) { s.out.data(openAIFailure(status, text)) }

// openAIFailure returns an error in the form of OpenAI.
func openAIFailure(status int, text string) any {
	kind := failureName(status, map[int]string{429: "rate_limit_exceeded"}, "server_error", "invalid_request_error")
	return obj{"error": obj{"message": text, "type": kind, "param": nil, "code": kind}}
}
