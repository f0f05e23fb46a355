package model

import (
	"encoding/json"
	"strings"
)

// An api is one way to talk to a model.
type api struct {
	name    string
	fits    func(path string) bool
	read    func(path string, body []byte) (*request, error)
	whole   func(r *request, a *answer) any
	stream  func(out *events, r *request, a *answer) stream
	failure func(status int, text string) any
}

// A stream sends an answer in pieces. For each part open is called, then delta
// for each piece, then close.
type stream interface {
	begin()
	open(p part)
	delta(p part, chunk string)
	close(p part)
	end()
	fail(status int, text string) // in the middle of the answer
}

var apis = []api{chatAPI, responsesAPI, messagesAPI, geminiAPI}

// apiFor returns the API of a path, nil if there is none. Only the end of the path
// matters, because agents are given any beginning.
func apiFor(path string) *api {
	for i := range apis {
		if apis[i].fits(path) {
			return &apis[i]
		}
	}
	return nil
}

func ending(suffix string) func(string) bool {
	return func(path string) bool { return strings.HasSuffix(path, suffix) }
}

// obj is a JSON object to be sent. Its members are sorted.
type obj = map[string]any

// epoch is the time that answers carry: the same answer has the same bytes.
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

// schemaOf reads a JSON Schema; what is none is an empty one.
func schemaOf(text json.RawMessage) map[string]any {
	schema := map[string]any{}
	if json.Unmarshal(text, &schema) != nil || schema == nil {
		return map[string]any{}
	}
	return schema
}

// formatOf returns the schema of an answer that shall be JSON.
func formatOf(kind string, schema json.RawMessage) any {
	switch {
	case len(schema) > 0:
		return schemaOf(schema)
	case kind == "json_object" || kind == "json_schema" || kind == "application/json":
		return map[string]any{"type": "object"}
	}
	return nil
}
