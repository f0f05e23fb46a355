package acp_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/parley-agents/parley/protocol/acp"
	"github.com/parley-agents/parley/protocol/acp/acpv1"
)

// chunk returns an update with a piece of the agent's text.
func chunk(t *testing.T, text string) *acp.Update {
	t.Helper()
	quoted, err := json.Marshal(text)
	if err != nil {
		t.Fatal(err)
	}
	u := &acp.Update{V1: &acpv1.SessionNotification{}}
	err = u.V1.UnmarshalJSON(fmt.Appendf(nil, `{"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":%s}}}`, quoted))
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func TestTranscriptLimit(t *testing.T) {
	const limit = 100
	text := acp.Transcript{Limit: limit}
	for range 1000 {
		text.Add(chunk(t, "ä234567"))
		if got := len(text.String()); got > 2*limit+8 {
			t.Fatalf("it holds %d bytes, want at most twice the limit of %d", got, limit)
		}
	}
	text.Add(chunk(t, "the end"))
	got := text.String()
	if !strings.HasSuffix(got, "ä234567the end") || len(got) < limit || strings.ContainsRune(got, '\uFFFD') {
		t.Errorf("got %q, want whole characters and the end of the text", got)
	}
}
