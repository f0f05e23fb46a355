package acp_test

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"strings"
	"testing"

	"github.com/parley-agents/parley/protocol/acp"
	"github.com/parley-agents/parley/protocol/acp/acpv2"
	"github.com/parley-agents/parley/protocol/sandbox"
)

// FuzzClient lets an agent write anything after the start of a turn. Whatever it
// is, the turn ends when the agent does.
func FuzzClient(f *testing.F) {
	f.Add(`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"hi"}}}}`, false)
	f.Add(`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1","update":{"sessionUpdate":"state_update","state":"idle","stopReason":"end_turn"}}}`, true)
	f.Add(`{"jsonrpc":"2.0","id":1,"method":"session/request_permission","params":{"sessionId":"s1","toolCall":{"toolCallId":"c"},"options":[{"optionId":"y","name":"Y","kind":"allow_once"}]}}`, false)
	f.Add(`{"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{"mode":"form","message":"m","sessionId":"s1","requestedSchema":{}}}`, false)
	f.Add(`{"jsonrpc":"2.0","id":1,"method":"fs/read_text_file","params":{"sessionId":"s1","path":"/x","line":0}}`, false)
	f.Add(`{"jsonrpc":"2.0","id":3,"result":{"stopReason":"end_turn"}}`, false)
	f.Fuzz(func(t *testing.T, text string, v2 bool) {
		opts := &acp.Options{V2: v2, Policy: sandbox.PolicyRead, Elicit: func(context.Context, *acpv2.CreateElicitationRequest) (*acpv2.CreateElicitationResponse, error) {
			return nil, nil
		}}
		c := played(t, opts, func(s *script) {
			if v2 {
				s.beginV2()
			} else {
				s.begin()
			}
			p := s.next()
			if v2 {
				s.answer(p, `{"messageId":"m"}`)
			}
			s.say("%s", text)
			s.leave()
		})
		turn := prompt(t, open(t, c), "go")
		for u := range turn.Updates() {
			u.Kind()
			u.Text()
			u.ToolCall()
			u.Plan()
			u.Usage()
		}
		turn.Wait()
		c.Close()
	})
}

// FuzzInitialize lets an agent answer initialize with anything.
func FuzzInitialize(f *testing.F) {
	f.Add(`{"protocolVersion":1,"authMethods":[{"type":"x","id":1},{"id":"a","name":"A"}]}`)
	f.Add(`{"protocolVersion":2,"info":{"name":"a","version":"1"},"capabilities":{"session":null},"authMethods":[{"type":"_x","methodId":"a","name":"A"}]}`)
	f.Fuzz(func(t *testing.T, result string) {
		if strings.ContainsAny(result, "\n\r") {
			return
		}
		c, err := play(t, &acp.Options{V2: true}, func(s *script) {
			s.answer(s.next(), result)
			s.leave()
		})
		if err == nil {
			c.Close()
		}
	})
}

// FuzzServe lets a client write anything.
func FuzzServe(f *testing.F) {
	f.Add([]byte(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}`+"\n"+
		`{"jsonrpc":"2.0","id":2,"method":"session/new","params":{"cwd":"/","mcpServers":[{"name":"a","command":"b","args":[],"env":[]}]}}`), true)
	f.Add([]byte(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":2,"info":{"name":"a","version":"1"}}}`+"\n"+
		`{"jsonrpc":"2.0","id":2,"method":"session/resume","params":{"sessionId":"x","cwd":"/","replayFrom":{"type":"start"}}}`+"\n"+
		`{"jsonrpc":"2.0","id":3,"method":"session/prompt","params":{"sessionId":"x","prompt":[{"type":"text","text":"hi"}]}}`+"\n"+
		`{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"x"}}`), true)
	f.Fuzz(func(t *testing.T, input []byte, v2 bool) {
		agent := &acp.Agent{V2: v2, Prompt: echo, LoadSession: func(context.Context, *acp.AgentSession, bool) error { return nil }}
		var out bytes.Buffer
		if err := acp.Serve(within(t), agent, bytes.NewReader(input), &out); err != nil {
			t.Fatal(err)
		}
		for lines := bufio.NewReader(&out); ; {
			line, err := lines.ReadString('\n')
			if err == io.EOF && line == "" {
				return
			}
			if err != nil || !strings.HasPrefix(line, "{") && !strings.HasPrefix(line, "[") {
				t.Fatalf("the agent wrote %q", line)
			}
		}
	})
}
