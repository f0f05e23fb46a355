package model

import (
	"cmp"
	"encoding/json"
	"fmt"
)

// responsesAPI is OpenAI's responses.
var responsesAPI = api{name: "responses", fits: ending("/responses"), whole: wholeResponses, stream: streamResponses, failure: openAIFailure}

// responseObject returns the response with the given output.
func responseObject(r *request, a *answer, status string, output []any) obj {
	o := obj{
		"id": "resp_" + a.id, "object": "response", "created_at": epoch, "status": status, "model": r.model, "output": output,
		"error": nil, "incomplete_details": nil, "parallel_tool_calls": true, "tools": []any{}, "usage": nil,
	}
	switch status {
	case "incomplete":
		o["incomplete_details"] = obj{"reason": "max_output_tokens"}
		fallthrough
	case "completed":
		c := usage(r, a)
		o["usage"] = obj{
			"input_tokens": c.input, "input_tokens_details": obj{"cached_tokens": c.cached},
			"output_tokens": c.output, "output_tokens_details": obj{"reasoning_tokens": c.reasoning}, "total_tokens": c.input + c.output,
		}
	}
	return o
}

// responseStatus returns the status of a finished answer.
func responseStatus(a *answer) string {
	if a.stop == stopLength {
		return "incomplete"
	}
	return "completed"
}

// responseOutput returns the n-th part of an answer as an output item with the given text.
// The id of an item follows from the answer and its number, so all events about it
// agree.
func responseOutput(a *answer, n int, p part, status, text string) obj {
	switch {
	case p.kind == thinkPart:
		summary := []any{}
		if text != "" {
			summary = append(summary, obj{"type": "summary_text", "text": text})
		}
		return obj{"id": fmt.Sprintf("rs_%s_%d", a.id, n), "type": "reasoning", "summary": summary}
	case p.kind == callPart && p.call.free:
		return obj{"id": fmt.Sprintf("ctc_%s_%d", a.id, n), "type": "custom_tool_call", "status": status, "call_id": p.id, "name": p.call.name, "input": text}
	case p.kind == callPart && p.call.find:
		return obj{
			"id": fmt.Sprintf("tsc_%s_%d", a.id, n), "type": "tool_search_call", "status": status, "call_id": p.id,
			"execution": "client", "arguments": json.RawMessage(cmp.Or(text, "{}")),
		}
	case p.kind == callPart:
		o := obj{"id": fmt.Sprintf("fc_%s_%d", a.id, n), "type": "function_call", "status": status, "call_id": p.id, "name": p.call.name, "arguments": text}
		if p.call.space != "" {
			o["namespace"] = p.call.space
		}
		return o
	}
	parts := []any{}
	if text != "" {
		parts = append(parts, responsePart(p, text))
	}
	return obj{"id": fmt.Sprintf("msg_%s_%d", a.id, n), "type": "message", "status": status, "role": "assistant", "content": parts}
}

// responsePart returns the content of a message.
func responsePart(p part, text string) obj {
	if p.kind == refusalPart {
		return obj{"type": "refusal", "refusal": text}
	}
	return obj{"type": "output_text", "text": text, "annotations": []any{}}
}

// whole returns the text of a part, or the arguments of its call.
func (p part) whole() string {
	if p.kind == callPart {
		return p.call.args
	}
	return p.text
}

// wholeResponses returns the answer as one response.
func wholeResponses(r *request, a *answer) any {
	output := []any{}
	for n, p := range a.parts {
		output = append(output, responseOutput(a, n, p, "completed", p.whole()))
	}
	return responseObject(r, a, responseStatus(a), output)
}

// A responsesStream sends an answer as numbered events about its output items.
// Every level is announced and closed: the response, the item, the part of the
// item.
type responsesStream struct {
	exchange
	seq    int   // the number of the next event
	n      int   // the index of the current part
	output []any // the parts that were closed
}

// streamResponses begins a stream. The output is a list from the beginning: null would be
// another type to clients.
func streamResponses(x exchange) stream { return &responsesStream{exchange: x, output: []any{}} }

// event sends an event with its type and number. Clients refuse a stream with a gap.
func (s *responsesStream) event(kind string, more obj) {
	more["type"], more["sequence_number"] = kind, s.seq
	s.seq++
	s.out.event(kind, more)
}

// about sends an event about the current part.
func (s *responsesStream) about(p part, kind string, more obj) {
	more["output_index"], more["item_id"] = s.n, responseOutput(s.a, s.n, p, "", "")["id"]
	if p.kind == textPart || p.kind == refusalPart {
		more["content_index"] = 0
	}
	if p.kind == thinkPart {
		more["summary_index"] = 0
	}
	s.event(kind, more)
}

// begin announces the response twice, as the real service does.
func (s *responsesStream) begin() {
	for _, kind := range []string{"response.created", "response.in_progress"} {
		s.event(kind, obj{"response": responseObject(s.r, s.a, "in_progress", []any{})})
	}
}

// open announces an item, and the part in it where there is one.
func (s *responsesStream) open(p part) {
	s.event("response.output_item.added", obj{"output_index": s.n, "item": responseOutput(s.a, s.n, p, "in_progress", "")})
	switch p.kind {
	case textPart, refusalPart:
		s.about(p, "response.content_part.added", obj{"part": responsePart(p, "")})
	case thinkPart:
		s.about(p, "response.reasoning_summary_part.added", obj{"part": obj{"type": "summary_text", "text": ""}})
	}
}

// responseDeltas has the event for the pieces of a part, and the member with the whole
// text in the last event.
var responseDeltas = map[partKind][2]string{
	textPart:    {"response.output_text", "text"},
	refusalPart: {"response.refusal", "refusal"},
	thinkPart:   {"response.reasoning_summary_text", "text"},
	callPart:    {"response.function_call_arguments", "arguments"},
}

// responseDelta returns the name of the events for a part. A tool whose argument is plain
// text has its own.
func responseDelta(p part) (event, member string) {
	if p.call.free {
		return "response.custom_tool_call_input", "input"
	}
	d := responseDeltas[p.kind]
	return d[0], d[1]
}

// delta sends a piece of a part. The arguments of a search for tools have no pieces.
func (s *responsesStream) delta(p part, chunk string) {
	if p.call.find {
		return
	}
	event, _ := responseDelta(p)
	s.about(p, event+".delta", obj{"delta": chunk})
}

// close sends the whole of each level that is open: the text, the part, the item.
func (s *responsesStream) close(p part) {
	if event, member := responseDelta(p); !p.call.find {
		s.about(p, event+".done", obj{member: p.whole()})
	}
	switch p.kind {
	case textPart, refusalPart:
		s.about(p, "response.content_part.done", obj{"part": responsePart(p, p.text)})
	case thinkPart:
		s.about(p, "response.reasoning_summary_part.done", obj{"part": obj{"type": "summary_text", "text": p.text}})
	}
	item := responseOutput(s.a, s.n, p, "completed", p.whole())
	s.event("response.output_item.done", obj{"output_index": s.n, "item": item})
	s.output = append(s.output, item)
	s.n++
}

// end sends the whole response, which clients read in place of all pieces.
func (s *responsesStream) end() {
	status := responseStatus(s.a)
	s.event("response."+status, obj{"response": responseObject(s.r, s.a, status, s.output)})
}

// fail ends the response as failed, with the output so far.
func (s *responsesStream) fail(status int, text string) {
	failed := responseObject(s.r, s.a, "failed", s.output)
	failed["error"] = openAIFailure(status, text).(obj)["error"]
	s.event("response.failed", obj{"response": failed})
}
