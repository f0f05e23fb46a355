package model

import "strings"

// geminiAPI is Google's generateContent.
var geminiAPI = api{name: "gemini", fits: fitsGemini, whole: wholeGemini, stream: streamGemini, failure: geminiFailure}

const (
	// The action is the end of the path, behind the name of the model.
	geminiWhole  = ":generateContent"
	geminiStream = ":streamGenerateContent"
	geminiCount  = ":countTokens"
)

// fitsGemini accepts both actions that generate.
func fitsGemini(path string) bool {
	return strings.HasSuffix(path, geminiWhole) || strings.HasSuffix(path, geminiStream)
}

// geminiStops has the finishReason for each end of an answer. Tool calls are an end like
// any other here.
var geminiStops = map[stop]string{stopEnd: "STOP", stopCalls: "STOP", stopLength: "MAX_TOKENS", stopRefusal: "SAFETY"}

// geminiPart returns a part with the given text. A tool call is always whole: this API
// has no pieces of one.
func geminiPart(p part, text string) obj {
	switch p.kind {
	case thinkPart:
		return obj{"text": text, "thought": true}
	case callPart:
		return obj{"functionCall": obj{"id": p.id, "name": p.call.name, "args": input(p.call.args)}}
	}
	return obj{"text": text}
}

// geminiObject returns a response. All but the last of a stream have no reason to end.
func geminiObject(r *request, a *answer, parts []any, finish string) obj {
	c := usage(r, a)
	count := obj{"promptTokenCount": c.input, "candidatesTokenCount": c.output - c.reasoning, "totalTokenCount": c.input + c.output}
	if c.cached+c.reasoning > 0 {
		count["cachedContentTokenCount"] = c.cached
		count["thoughtsTokenCount"] = c.reasoning
	}
	candidate := obj{"index": 0, "content": obj{"role": "model", "parts": parts}}
	if finish != "" {
		candidate["finishReason"] = finish
	}
	return obj{
		"responseId": a.id, "modelVersion": r.model, "candidates": []any{candidate},
		"usageMetadata": count,
	}
}

// wholeGemini returns the answer as one response.
func wholeGemini(r *request, a *answer) any {
	parts := []any{}
	for _, p := range a.parts {
		parts = append(parts, geminiPart(p, p.text))
	}
	return geminiObject(r, a, parts, geminiStops[a.stop])
}

// A geminiEvents sends an answer as whole responses with one piece each. The usage
// in all of them is that of the complete answer.
type geminiEvents struct{ exchange }

func streamGemini(x exchange) stream { return &geminiEvents{x} }

// Responses are independent of each other, so that nothing opens or closes a part.
func (s *geminiEvents) begin()     {}
func (s *geminiEvents) close(part) {}

// open sends a tool call, whole.
func (s *geminiEvents) open(p part) {
	if p.kind == callPart {
		s.out.data(geminiObject(s.r, s.a, []any{geminiPart(p, "")}, ""))
	}
}

// delta sends a piece of text.
func (s *geminiEvents) delta(p part, chunk string) {
	if p.kind != callPart {
		s.out.data(geminiObject(s.r, s.a, []any{geminiPart(p, chunk)}, ""))
	}
}

// end sends the reason, with an empty text: clients want a part in every response.
func (s *geminiEvents) end() {
	s.out.data(geminiObject(s.r, s.a, []any{obj{"text": ""}}, geminiStops[s.a.stop]))
}

// fail sends an error in place of the next response.
func (s *geminiEvents) fail(status int, text string) { s.out.data(geminiFailure(status, text)) }

// geminiErrors are the names of errors by their status.
var geminiErrors = map[int]string{
	401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 404: "NOT_FOUND", 429: "RESOURCE_EXHAUSTED", 500: "INTERNAL", 503: "UNAVAILABLE", 504: "DEADLINE_EXCEEDED",
}

// geminiFailure returns an error in the form of Google.
func geminiFailure(status int, text string) any {
	return obj{"error": obj{"code": status, "message": text, "status": failureName(status, geminiErrors, "INTERNAL", "INVALID_ARGUMENT")}}
}
