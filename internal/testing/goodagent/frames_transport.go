package goodagent

import (
	"bytes"
	"encoding/json"
)

// transportFrameMutants is the part of the table of mutants that is about lines and ids.
func transportFrameMutants() []*Mutant {
	return []*Mutant{
		// The rules for lines.
		{Rule: "TRN-01", Does: "greets people on standard output", Out: asLine("session/new", func(line []byte) []byte {
			return append([]byte("Welcome!\n"), line...)
		})},
		{Rule: "TRN-02", Does: "spreads a message over several lines", Out: asLine("session/new", func(line []byte) []byte {
			return bytes.ReplaceAll(line, []byte(`,"`), []byte(",\n\""))
		})},
		{Rule: "TRN-02", Name: "same", Does: "writes two messages on one line", Out: asLine("session/list", func(line []byte) []byte {
			return append([]byte(`{"jsonrpc":"2.0","method":"_goodagent/same"} `), line...)
		})},
		{Rule: "TRN-03", Does: "writes a byte order mark", Out: asLine("session/new", func(line []byte) []byte {
			return append([]byte("\xef\xbb\xbf"), line...)
		})},
		{Rule: "TRN-03", Name: "latin", Does: "writes Latin-1", Out: asLine("session/list", func(line []byte) []byte {
			return append([]byte("{\"jsonrpc\":\"2.0\",\"method\":\"_goodagent/caf\xe9\"}\n"), line...)
		})},
		{Rule: "TRN-04", Does: "does not end its last message", Breaks: []string{"INIT-19"}, Out: func(w *Wire, m Message) []Message { return keep(m) }, End: func(w *Wire) {
			w.Send(Message{Raw: []byte(`{"jsonrpc":"2.0","method":"_goodagent/bye"}`)})
		}},
		{Rule: "TRN-13", Does: "puts a message into an array", Out: asLine("session/list", func(line []byte) []byte {
			return append(append([]byte("["), bytes.TrimSpace(line)...), "]\n"...)
		})},

		// The rules for JSON-RPC.
		{Rule: "RPC-01", Does: "leaves out jsonrpc", Out: onAnswer("session/list", unset("jsonrpc"))},
		{Rule: "RPC-03", Name: "twice", Does: "answers twice", Out: followed(answering("session/list"), func(_ *Wire, m Message) Message { return m.Copy() })},
		{Rule: "RPC-04", Does: "sends a result and an error", Out: onAnswer("session/list", set("error", object{"code": -32603, "message": "no"}))},
		{Rule: "RPC-05", Does: "sends an error without a message", Out: onError(unset("message"))},
		{Rule: "RPC-12", Does: "has fractions as ids", Out: func(w *Wire, m Message) []Message {
			if m.Method() == "terminal/output" {
				w.Note["id"] = m.Object["id"]
				m.Object["id"] = json.Number("0.5")
			}
			return keep(m)
		}, In: func(w *Wire, m Message) []Message {
			if m.Object["id"] == json.Number("0.5") {
				m.Object["id"] = w.Note["id"]
			}
			return keep(m)
		}},
		{Rule: "RPC-17", Does: "writes members in snake_case", Out: onUpdate("agent_message_chunk", func(u map[string]any) {
			u["message_id"] = u["messageId"]
			delete(u, "messageId")
		})},
		{Rule: "RPC-17", Name: "tag", Does: "writes discriminators in camelCase", Out: onUpdate("usage_update", set("sessionUpdate", "usageUpdate"))},
		{Rule: "RPC-20", Does: "sends params as a list", Out: func(_ *Wire, m Message) []Message {
			if m.Method() == "_goodagent/bye" {
				m.Object["params"] = []any{}
			}
			return keep(m)
		}},
	}
}
