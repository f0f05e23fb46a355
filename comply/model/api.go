package model

import (
	"encoding/json"
	"strings"
)

// An api is one wire format for talking to a model. Everything that differs between the
// formats is behind these functions.
type api struct {
	name    string
	fits    func(path string) bool
	read    func(path string, body []byte) (*request, error)
	whole   func(r *request, a *answer) any // the body of an answer that is not streamed
	stream  func(exchange) stream
	failure func(status int, text string) any // the body of an error
}

// An exchange is a request, its answer, and the events in which the answer is sent.
type exchange struct {
	out *events
	r   *request
	a   *answer
}

// A stream sends an answer in pieces: begin, then for each part open, delta for each piece
// and close, then end.
type stream interface {
	begin()
	open(p part)
	delta(p part, chunk string)
	close(p part)
	end()
	fail(status int, text string) // in the middle of the answer
}

var apis = []api{chatAPI, responsesAPI, messagesAPI, geminiAPI}

// apiFor returns the API of a path, nil if there is none. Only the end of the path counts:
// users configure any base address.
func apiFor(path string) *api {
	for i := range apis {
		if apis[i].fits(path) {
			return &apis[i]
		}
	}
	return nil
}

// ending returns the condition that a path has a suffix.
func ending(suffix string) func(string) bool {
	return func(path string) bool { return strings.HasSuffix(path, suffix) }
}

// obj is a JSON object to be sent. Its members are sorted.
type obj = map[string]any

// epoch is the time in all answers, so that the same answer has the same bytes.
const epoch = 1767225600

// A content is text, or a list of blocks.
type content []block

// A block is a part of a message, with the members that the APIs have.
type block struct {
	Type    string  `json:"type"`
	Text    string  `json:"text"`
	Content content `json:"content"` // of a tool result
}

// UnmarshalJSON reads both forms.
func (c *content) UnmarshalJSON(text []byte) error {
	var s string
	if json.Unmarshal(text, &s) == nil {
		*c = content{{Type: "text", Text: s}}
		return nil
	}
	var blocks []block
	if err := json.Unmarshal(text, &blocks); err != nil {
		return err
	}
	*c = blocks
	return nil
}

// texts returns the blocks of text.
func (c content) texts() (out []string) {
	for _, b := range c {
		if b.Text != "" {
			out = append(out, b.Text)
		}
	}
	return out
}

// kinds returns the kinds of the blocks that are no text.
func (c content) kinds() (out []string) {
	for _, b := range c {
		switch b.Type {
		case "image", "image_url", "input_image":
			out = append(out, kindImage)
		case "input_audio", "audio":
			out = append(out, kindAudio)
		case "document", "file", "input_file":
			out = append(out, kindFile)
		}
	}
	return out
}

// failureName returns the name of an error: by its status, else the name for failures of
// the server or of the request.
func failureName(status int, names map[int]string, server, request string) string {
	if name, ok := names[status]; ok {
		return name
	}
	if status >= 500 {
		return server
	}
	return request
}

// schemaOf reads a JSON Schema. Text that is none gives an empty one.
func schemaOf(text json.RawMessage) map[string]any {
	schema := map[string]any{}
	if json.Unmarshal(text, &schema) != nil || schema == nil {
		return map[string]any{}
	}
	return schema
}

// formatOf returns the schema of an answer that must be JSON, nil for plain text.
func formatOf(kind string, schema json.RawMessage) any {
	switch {
	case len(schema) > 0:
		return schemaOf(schema)
	case kind == "json_object" || kind == "json_schema" || kind == "application/json":
		return map[string]any{"type": "object"}
	}
	return nil
}
