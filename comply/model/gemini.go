package model

import (
	"encoding/json"
	"strings"
)

// geminiAPI is Google's generateContent.
var geminiAPI = api{name: "gemini", fits: fitsGemini, read: readGemini, whole: wholeGemini, stream: streamGemini, failure: geminiFailure}

const (
	geminiWhole  = ":generateContent"
	geminiStream = ":streamGenerateContent"
	geminiCount  = ":countTokens"
)

func fitsGemini(path string) bool {
	return strings.HasSuffix(path, geminiWhole) || strings.HasSuffix(path, geminiStream)
}

// A geminiContent is a message.
type geminiContent struct {
	Role  string `json:"role"`
	Parts []struct {
		Text             string          `json:"text"`
		Thought          bool            `json:"thought"`
		FunctionCall     json.RawMessage `json:"functionCall"`
		FunctionResponse *struct {
			Response json.RawMessage `json:"response"`
		} `json:"functionResponse"`
		InlineData struct {
			MIMEType string `json:"mimeType"`
		} `json:"inlineData"`
		FileData struct {
			MIMEType string `json:"mimeType"`
		} `json:"fileData"`
	} `json:"parts"`
}

func readGemini(path string, body []byte) (*request, error) {
	var in struct {
		Contents          []geminiContent `json:"contents"`
		SystemInstruction geminiContent   `json:"systemInstruction"`
		Tools             []struct {
			FunctionDeclarations []struct {
				Name        string          `json:"name"`
				Description string          `json:"description"`
				Parameters  json.RawMessage `json:"parameters"`
				JSONSchema  json.RawMessage `json:"parametersJsonSchema"`
			} `json:"functionDeclarations"`
		} `json:"tools"`
		ToolConfig struct {
			FunctionCallingConfig struct {
				Mode                 string   `json:"mode"`
				AllowedFunctionNames []string `json:"allowedFunctionNames"`
			} `json:"functionCallingConfig"`
		} `json:"toolConfig"`
		GenerationConfig struct {
			MaxOutputTokens    int             `json:"maxOutputTokens"`
			ResponseMIMEType   string          `json:"responseMimeType"`
			ResponseSchema     json.RawMessage `json:"responseSchema"`
			ResponseJSONSchema json.RawMessage `json:"responseJsonSchema"`
		} `json:"generationConfig"`
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return nil, err
	}
	name := path[strings.LastIndex(path, "/")+1:]
	name, _, _ = strings.Cut(name, ":")
	r := &request{model: name, stream: strings.HasSuffix(path, geminiStream), tokens: in.GenerationConfig.MaxOutputTokens}
	r.format = formatOf(in.GenerationConfig.ResponseMIMEType, either(in.GenerationConfig.ResponseSchema, in.GenerationConfig.ResponseJSONSchema))
	if f := in.ToolConfig.FunctionCallingConfig; f.Mode == "ANY" && len(f.AllowedFunctionNames) > 0 {
		r.forced = f.AllowedFunctionNames[0]
	}
	for _, p := range in.SystemInstruction.Parts {
		r.system += p.Text + "\n"
	}
	for _, c := range in.Contents {
		r.addGemini(c)
	}
	for _, t := range in.Tools {
		for _, f := range t.FunctionDeclarations {
			r.tools = append(r.tools, tool{name: f.Name, description: f.Description, schema: schemaOf(either(f.JSONSchema, f.Parameters))})
		}
	}
	return r, nil
}

// either returns the first text that is not empty.
func either(a, b json.RawMessage) json.RawMessage {
	if len(a) > 0 {
		return a
	}
	return b
}

// addGemini adds a message to the conversation.
func (r *request) addGemini(c geminiContent) {
	words := item{role: user}
	if c.Role == "model" {
		words.role = assistant
	}
	for _, p := range c.Parts {
		mime := p.InlineData.MIMEType + p.FileData.MIMEType
		switch {
		case p.FunctionResponse != nil:
			r.items = append(r.items, item{role: result, blocks: []string{string(p.FunctionResponse.Response)}})
			words.aside = true
		case len(p.FunctionCall) > 0:
			words.calls++
		case strings.HasPrefix(mime, "image/"):
			words.kinds = append(words.kinds, kindImage)
		case strings.HasPrefix(mime, "audio/"):
			words.kinds = append(words.kinds, kindAudio)
		case mime != "":
			words.kinds = append(words.kinds, kindFile)
		case !p.Thought:
			words.blocks = append(words.blocks, p.Text)
		}
	}
	if words.role == assistant || len(words.blocks)+len(words.kinds) > 0 {
		r.items = append(r.items, words)
	}
}

var geminiStops = map[stop]string{stopEnd: "STOP", stopCalls: "STOP", stopLength: "MAX_TOKENS", stopRefusal: "SAFETY"}

func geminiPart(p part, text string) obj {
	switch p.kind {
	case thinkPart:
		return obj{"text": text, "thought": true}
	case callPart:
		return obj{"functionCall": obj{"id": p.id, "name": p.call.name, "args": input(p.call.args)}}
	}
	return obj{"text": text}
}

func geminiObject(r *request, a *answer, parts []any, finish string) obj {
	in, out := usage(r, a)
	candidate := obj{"index": 0, "content": obj{"role": "model", "parts": parts}}
	if finish != "" {
		candidate["finishReason"] = finish
	}
	return obj{
		"responseId": a.id, "modelVersion": r.model, "candidates": []any{candidate},
		"usageMetadata": obj{"promptTokenCount": in, "candidatesTokenCount": out, "totalTokenCount": in + out},
	}
}

func wholeGemini(r *request, a *answer) any {
	parts := []any{}
	for _, p := range a.parts {
		parts = append(parts, geminiPart(p, p.text))
	}
	return geminiObject(r, a, parts, geminiStops[a.stop])
}

// A geminiEvents sends an answer as whole responses with one piece each.
type geminiEvents struct{ exchange }

func streamGemini(x exchange) stream { return &geminiEvents{x} }

func (s *geminiEvents) begin()     {}
func (s *geminiEvents) close(part) {}
func (s *geminiEvents) open(p part) {
	if p.kind == callPart {
		s.out.data(geminiObject(s.r, s.a, []any{geminiPart(p, "")}, ""))
	}
}

func (s *geminiEvents) delta(p part, chunk string) {
	if p.kind != callPart {
		s.out.data(geminiObject(s.r, s.a, []any{geminiPart(p, chunk)}, ""))
	}
}

func (s *geminiEvents) end() {
	s.out.data(geminiObject(s.r, s.a, []any{obj{"text": ""}}, geminiStops[s.a.stop]))
}

func (s *geminiEvents) fail(status int, text string) { s.out.data(geminiFailure(status, text)) }

// geminiErrors are the names of errors by their status.
var geminiErrors = map[int]string{
	401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 404: "NOT_FOUND", 429: "RESOURCE_EXHAUSTED", 500: "INTERNAL", 503: "UNAVAILABLE", 504: "DEADLINE_EXCEEDED",
}

func geminiFailure(status int, text string) any {
	return obj{"error": obj{"code": status, "message": text, "status": failureName(status, geminiErrors, "INTERNAL", "INVALID_ARGUMENT")}}
}
