package acpv2_test

import (
	"fmt"

	"github.com/parley-agents/parley/protocol/acp/acpv2"
)

func ExampleSessionUpdate() {
	lines := []string{
		`{"sessionUpdate":"agent_message_chunk","messageId":"m1","content":{"type":"text","text":"Done."}}`,
		`{"sessionUpdate":"_vendor_progress","percent":40}`,
		`{"sessionUpdate":"hologram"}`,
		`{"sessionUpdate":"agent_message_chunk"}`,
	}
	for _, line := range lines {
		var u acpv2.SessionUpdate
		if err := u.UnmarshalJSON([]byte(line)); err != nil {
			fmt.Println("malformed:", err)
			continue
		}
		switch {
		case u.AgentMessageChunk != nil && u.AgentMessageChunk.Content.Text != nil:
			fmt.Println("text:", u.AgentMessageChunk.Content.Text.Text)
		case u.Unknown != nil && u.Unknown.IsExtension():
			percent, _ := u.Unknown.Member("percent")
			fmt.Printf("extension: %s %s\n", u.Unknown.Tag, percent)
		case u.Unknown != nil:
			fmt.Println("from a later version:", u.Unknown.Tag)
		}
	}
	// Output:
	// text: Done.
	// extension: _vendor_progress 40
	// from a later version: hologram
	// malformed: acp: the required member "messageId" is missing
}

func ExampleToV1() {
	m := &acpv2.UpdateSessionNotification{SessionID: "s", Update: acpv2.SessionUpdate{
		ToolCallUpdate: &acpv2.ToolCallUpdate{ToolCallID: "t", Status: acpv2.Set(acpv2.ToolCallStatusCancelled)},
	}}
	_, err := acpv2.ToV1(m, nil)
	fmt.Println(err)
	c, _ := acpv2.ToV1(m, &acpv2.V1Options{Lossy: true})
	raw, _ := c.Message.MarshalJSON()
	fmt.Println(string(raw))
	// Output:
	// acp: /update/status: "cancelled" is a status unknown to version 1
	// {"sessionId":"s","update":{"sessionUpdate":"tool_call_update","toolCallId":"t","status":"failed"}}
}
