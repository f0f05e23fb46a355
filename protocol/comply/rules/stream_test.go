package rules

import (
	"strings"
	"testing"

	"github.com/parley-agents/parley/protocol/comply/jsont"
	"github.com/parley-agents/parley/protocol/jsonrpc"
)

// TestStreams checks which pieces of text are joined: a line "id text" is a piece of a message,
// "- text" one without an id, and all others are methods of the client, or kinds of updates.
func TestStreams(t *testing.T) {
	for _, c := range []struct{ name, lines, want string }{
		{"pieces of one message are joined", "a he\na llo", "hello"},
		{"messages with ids may take turns", "a he\nb wor\na llo", "hello"},
		{"pieces without an id are joined", "- he\n- llo", "hello"},
		{"a tool call ends text without an id", "- he\ntool_call\n- llo", "llo"},
		{"the use of tokens does not", "- he\nusage_update\n- llo", "hello"},
		{"a tool call does not end a message", "a he\ntool_call\na llo", "hello"},
		{"a prompt ends text without an id", "- he\nsession/prompt\n- llo", "llo"},
		{"a prompt ends all messages", "a he\nsession/prompt\na llo", "llo"},
		{"a session that is loaded begins anew", "a he\nsession/load\na hello", "hello"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var s Streams
			got := ""
			for line := range strings.SplitSeq(c.lines, "\n") {
				id, piece, chunk := strings.Cut(line, " ")
				update := `{"sessionUpdate":"` + line + `"}`
				if chunk {
					update = `{"sessionUpdate":"agent_message_chunk","messageId":"` + strings.Trim(id, "-") + `","content":{"type":"text","text":"` + piece + `"}}`
				}
				e := NewEntry(jsonrpc.In, []byte(`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":`+update+`}}`))
				if strings.HasPrefix(line, "session/") {
					e = NewEntry(jsonrpc.Out, []byte(`{"jsonrpc":"2.0","id":1,"method":"`+line+`","params":{"sessionId":"s"}}`))
				}
				s.Join(e)
				v, _ := jsont.Lookup(e.Views()[0], "params.update.content.text")
				got, _ = v.(string)
			}
			if got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}
