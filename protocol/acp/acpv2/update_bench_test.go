package acpv2_test

import (
	"encoding/json"
	"testing"

	"github.com/parley-agents/parley/protocol/acp/acpv2"
)

// chunk is the params of the message that agents send most.
const chunk = `{"sessionId":"sess_0123456789abcdef","update":{"sessionUpdate":"agent_message_chunk","messageId":"msg_42","content":{"type":"text","text":"The function returns early when the list is empty, so the \"caller\" never sees it.\n"}}}`

func BenchmarkDecodeUpdate(b *testing.B) {
	b.Run("acpv2", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			var n acpv2.UpdateSessionNotification
			if err := n.UnmarshalJSON([]byte(chunk)); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("plain struct", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			var n struct {
				SessionID string `json:"sessionId"`
				Update    struct {
					SessionUpdate string `json:"sessionUpdate"`
					MessageID     string `json:"messageId"`
					Content       struct {
						Type string `json:"type"`
						Text string `json:"text"`
					} `json:"content"`
				} `json:"update"`
			}
			if err := json.Unmarshal([]byte(chunk), &n); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkEncodeUpdate(b *testing.B) {
	var n acpv2.UpdateSessionNotification
	if err := n.UnmarshalJSON([]byte(chunk)); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := n.MarshalJSON(); err != nil {
			b.Fatal(err)
		}
	}
}
