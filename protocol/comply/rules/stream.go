package rules

import (
	"maps"
	"slices"
	"strings"

	"github.com/parley-agents/parley/protocol/comply/jsont"
)

// A Chunk is a piece of text in an update: of a message, or of the output of a tool.
type Chunk struct {
	Text string
	key  string   // the message or the tool call, as far as the update names it
	path []string // of the text in the frame
	id   bool     // the update names it
}

// chunkPaths are the updates with pieces of text, the member that names what they are
// pieces of, and the path of the text.
var chunkPaths = map[string]struct {
	id   string
	path []string
}{
	"agent_message_chunk":     {"messageId", []string{"params", "update", "content", "text"}},
	"agent_thought_chunk":     {"messageId", []string{"params", "update", "content", "text"}},
	"user_message_chunk":      {"messageId", []string{"params", "update", "content", "text"}},
	"tool_call_content_chunk": {"toolCallId", []string{"params", "update", "content", "content", "text"}},
}

// besides are updates that may come in the middle of a message.
var besides = []string{"usage_update", "session_info_update", "available_commands_update", "config_option_update", "current_mode_update", "state_update"}

// Chunk returns the piece of text that an entry has, nil if it has none.
func (e *Entry) Chunk() *Chunk {
	if e.Method != "session/update" {
		return nil
	}
	o, _ := e.Value.(object)
	update := inner(inner(o, "params"), "update")
	tag := text(update, "sessionUpdate")
	p, ok := chunkPaths[tag]
	if !ok {
		return nil
	}
	v, _ := jsont.Lookup(e.Value, strings.Join(p.path, "."))
	piece, ok := v.(string)
	if !ok {
		return nil
	}
	id := text(update, p.id)
	return &Chunk{Text: piece, key: tag + "\n" + id, path: p.path, id: id != ""}
}

// Streams joins the pieces of text in the updates of a conversation. Pieces with the same
// message id belong together; pieces without one until another kind of update. All texts of a
// session end with its next prompt, and when it is opened again.
type Streams struct {
	texts map[string]map[string]*strings.Builder // by session and message
	last  map[string]string                      // the key of the last piece without an id, by session
}

// Join sets the joined value of an entry, and must be called with all entries of a
// conversation in their order.
func (s *Streams) Join(e *Entry) {
	o, _ := e.Value.(object)
	params := inner(o, "params")
	session := text(params, "sessionId")
	chunk := e.Chunk()

	if s.texts == nil {
		s.texts, s.last = map[string]map[string]*strings.Builder{}, map[string]string{}
	}

	switch {
	case e.Method == MethodPrompt || slices.Contains(Openers, e.Method):
		delete(s.texts, session)
		delete(s.last, session)
		return
	case chunk == nil:
		if e.Method == "session/update" && !slices.Contains(besides, text(inner(params, "update"), "sessionUpdate")) {
			s.end(session)
		}
		return
	}

	if s.last[session] != chunk.key && !chunk.id {
		s.end(session)
		s.last[session] = chunk.key
	}

	texts := s.texts[session]
	if texts == nil {
		texts = map[string]*strings.Builder{}
		s.texts[session] = texts
	}
	b := texts[chunk.key]
	first := b == nil
	if first {
		b = &strings.Builder{}
		texts[chunk.key] = b
	}

	b.WriteString(chunk.Text)
	if !first {
		// The string shares the memory of the builder, so a long message costs its length.
		e.joined, e.whole = with(e.Value, chunk.path, b.String()), chunk.id
	}
}

// end ends the text without a message id that a session is in.
func (s *Streams) end(session string) {
	if key, ok := s.last[session]; ok {
		delete(s.texts[session], key)
		delete(s.last, session)
	}
}

// with returns a copy of v in which the value at a path of members is another one.
// Only the objects along the path are copied.
func with(v any, path []string, value any) any {
	if len(path) == 0 {
		return value
	}
	o, _ := v.(object)
	out := maps.Clone(o)
	out[path[0]] = with(o[path[0]], path[1:], value)
	return out
}

// Views returns the values under which patterns look at an entry. A piece of a message has the text of the
// message up to its end. A piece without a message id may also be looked at alone.
func (e *Entry) Views() []any {
	switch {
	case e.joined == nil:
		return []any{e.Value}
	case e.whole:
		return []any{e.joined}
	}
	return []any{e.joined, e.Value}
}
