package model

import "encoding/json"

// messagesAPI is Anthropic's messages.
var messagesAPI = api{name: "messages", fits: ending("/messages"), whole: wholeMessages, stream: streamMessages, failure: messagesFailure}

// messagesStops has the stop_reason for each end of an answer.
var messagesStops = map[stop]string{stopEnd: "end_turn", stopCalls: "tool_use", stopLength: "max_tokens", stopRefusal: "refusal"}

// messageObject returns a message. At the beginning of a stream it has no blocks and no
// reason yet.
func messageObject(r *request, a *answer, blocks []any, stop any, out int) obj {
	c := usage(r, a)
	return obj{
		"id": "msg_" + a.id, "type": "message", "role": "assistant", "model": r.model, "content": blocks, "stop_reason": stop, "stop_sequence": nil,
		"usage": obj{"input_tokens": c.input - c.cached, "output_tokens": out, "cache_creation_input_tokens": c.written, "cache_read_input_tokens": c.cached},
	}
}

// signature is in the place of the proof that reasoning came from the model.
const signature = "c2NyaXB0ZWQ="

// wholeMessages returns the answer as one message. A refusal is text with its own reason
// to stop.
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
	return messageObject(r, a, blocks, messagesStops[a.stop], usage(r, a).output)
}

// input returns arguments as JSON. Broken arguments become a string, which no tool accepts.
func input(args string) any {
	if json.Valid([]byte(args)) {
		return json.RawMessage(args)
	}
	return args
}

// A messagesStream sends an answer as events about its blocks. Each part of the
// answer is one block, in the same order.
type messagesStream struct {
	exchange
	n int // the index of the current block
}

func streamMessages(x exchange) stream { return &messagesStream{exchange: x} }

// event sends an event whose name is also its type, as clients of this API expect.
func (s *messagesStream) event(kind string, more obj) {
	more["type"] = kind
	s.out.event(kind, more)
}

// begin sends the message without content, and the ping that the real service sends.
func (s *messagesStream) begin() {
	s.event("message_start", obj{"message": messageObject(s.r, s.a, []any{}, nil, 1)})
	s.event("ping", obj{})
}

// open begins a block.
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

// delta sends a piece of the block.
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

// block sends a change of the current block.
func (s *messagesStream) block(delta obj) {
	s.event("content_block_delta", obj{"index": s.n, "delta": delta})
}

// close ends the block. Reasoning is signed before.
func (s *messagesStream) close(p part) {
	if p.kind == thinkPart {
		s.block(obj{"type": "signature_delta", "signature": signature})
	}
	s.event("content_block_stop", obj{"index": s.n})
	s.n++
}

// end sends the reason and the count of tokens.
func (s *messagesStream) end() {
	out := usage(s.r, s.a).output
	s.event("message_delta", obj{"delta": obj{"stop_reason": messagesStops[s.a.stop], "stop_sequence": nil}, "usage": obj{"output_tokens": out}})
	s.event("message_stop", obj{})
}

// fail sends an error in place of the next event.
func (s *messagesStream) fail(status int, text string) {
	s.out.event("error", messagesFailure(status, text))
}

// messagesErrors are the names of errors by their status.
var messagesErrors = map[int]string{
	401: "authentication_error", 403: "permission_error", 404: "not_found_error", 413: "request_too_large", 429: "rate_limit_error", 529: "overloaded_error",
}

// messagesFailure returns an error in the form of Anthropic.
func messagesFailure(status int, text string) any {
	kind := failureName(status, messagesErrors, "api_error", "invalid_request_error")
	return obj{"type": "error", "error": obj{"type": kind, "message": text}}
}
