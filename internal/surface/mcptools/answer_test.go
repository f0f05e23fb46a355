package mcptools

import (
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// A bomb cannot be written.
type bomb struct{}

func (bomb) MarshalJSON() ([]byte, error) { panic("boom") }

func TestPanicInAnAnswer(t *testing.T) {
	t.Run("a panic while an answer is written does not end the hub", func(t *testing.T) {
		got := new(readers).present("alice", &toolCall{asJSON: true}, func([]byte) (any, error) { return bomb{}, nil })
		text, ok := got.Content[0].(*mcp.TextContent)
		if !got.IsError || !ok || text.Text != "internal: cannot write the answer: boom\n" {
			t.Errorf("got %+v", got)
		}
	})
}
