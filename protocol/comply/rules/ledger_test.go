package rules

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/parley-agents/parley/protocol/acp/schema"
	"github.com/parley-agents/parley/protocol/comply/jsont"
	"github.com/parley-agents/parley/protocol/jsonrpc"
)

// FuzzLedger lets a conversation pass the ledger, a line for each message, those
// of the client behind a ">". Nothing may make it panic, and the same
// conversation always leads to the same findings.
func FuzzLedger(f *testing.F) {
	for _, seed := range []string{
		`>{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}` + "\n" + `{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1,"authMethods":[{}]}}`,
		`>{"jsonrpc":"2.0","id":2,"method":"session/new","params":{"cwd":"/a"}}` + "\n" + `{"jsonrpc":"2.0","id":2,"result":{"sessionId":"s","modes":[],"configOptions":[{"options":[{"options":[]}]}]}}` + "\n" +
			`>{"jsonrpc":"2.0","id":3,"method":"session/prompt","params":{"sessionId":"s"}}` + "\n" + `{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"plan","entries":[1,{}]}}}`,
		`{"jsonrpc":"2.0","id":null,"method":"elicitation/create","params":{"mode":"url","url":"::"}}`,
		`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"x","update":{"sessionUpdate":"state_update","state":"idle","stopReason":"cancelled"}}}`,
		"[1]\n{}\nnull\n\"x\"\n\xff",
	} {
		f.Add([]byte(seed))
	}
	files, err := filepath.Glob("../testdata/samples/*" + jsont.Extension)
	if err != nil {
		f.Fatal(err)
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, version := range []schema.Version{schema.V1, schema.V2} {
			got, again := judged(version, text), judged(version, text)
			if !bytes.Equal(jsont.Encode(got), jsont.Encode(again)) {
				t.Errorf("got %s, and then %s", jsont.Encode(got), jsont.Encode(again))
			}
		}
	})
}

// judged returns the findings of the ledger in a conversation that is given as text. Lines in
// parentheses are no messages.
func judged(version schema.Version, text []byte) []Finding {
	var log []*Entry
	var requests []*Call
	add := func(e *Entry) {
		e.Seq = len(log) + 1
		log = append(log, e)
		switch {
		case e.Direction == jsonrpc.Out && e.Class == jsont.ClientRequest:
			requests = append(requests, &Call{Request: e})
		case e.Direction == jsonrpc.In && e.Class == jsont.Response:
			for _, q := range requests {
				if q.Answer == nil && IDKey(q.Request.ID) == IDKey(e.ID) {
					q.Answer = e
					break
				}
			}
		}
	}
	var output bytes.Buffer // of the agent, since the last message of the client
	read := func() {
		for r := jsonrpc.NewReader(&output, 0); ; {
			f, err := r.Next()
			var problem *jsonrpc.Problem
			if err != nil && !errors.As(err, &problem) {
				return
			}
			for _, e := range Entries(f, problem) {
				add(e)
			}
		}
	}
	for line := range bytes.Lines(text) {
		raw, out := bytes.CutPrefix(line, []byte(">"))
		switch {
		case out:
			read()
			add(NewEntry(jsonrpc.Out, bytes.TrimSpace(raw)))
		case !bytes.HasPrefix(line, []byte("(")):
			output.Write(line)
		}
	}
	read()
	return Audit(&jsont.Test{ID: "fuzz"}, version, log, requests)
}

// TestLedgerIsFair lets conversations of real agents pass the ledger, shortened. Each has a
// twin in which the agent breaks the rule.
func TestLedgerIsFair(t *testing.T) {
	const (
		hello   = `>{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1}}`
		welcome = `{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":1,"agentCapabilities":{},"authMethods":[]}}`
		open    = `>{"jsonrpc":"2.0","id":1,"method":"session/new","params":{"cwd":"/a","mcpServers":[]}}`
		opened  = `{"jsonrpc":"2.0","id":1,"result":{"sessionId":"s"}}`
		update  = `{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"available_commands_update","availableCommands":[]}}}`
		first   = `>{"jsonrpc":"2.0","id":2,"method":"session/prompt","params":{"sessionId":"s","prompt":[{"type":"text","text":"a"}]}}`
		second  = `>{"jsonrpc":"2.0","id":3,"method":"session/prompt","params":{"sessionId":"s","prompt":[{"type":"text","text":"b"}]}}`
		stopped = `{"jsonrpc":"2.0","id":2,"result":{"stopReason":"cancelled"}}`
		ended   = `{"jsonrpc":"2.0","id":3,"result":{"stopReason":"end_turn"}}`
		called  = `{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"tool_call","toolCallId":"c","title":"t"}}}`
		changed = `{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"tool_call_update","toolCallId":"c","title":"t"}}}`
	)
	for _, c := range []struct {
		name, rule string
		broken     bool
		lines      []string
	}{
		{"an update before initialize", "INIT-19", true, []string{hello, update, welcome}},
		{"an update of a session that the client asked for before initialize", "INIT-19", false, []string{open, update, opened, hello, welcome}},
		{"a turn that stops as cancelled by itself", "STOP-05", true, []string{hello, welcome, open, opened, first, stopped}},
		{"a turn that stops as cancelled, then the next", "STOP-05", true, []string{hello, welcome, open, opened, first, stopped, second, ended}},
		{"two tool calls with one id", "TOOL-02", true, []string{hello, welcome, open, opened, first, called, called}},
		{"a tool call that is updated first and announced then", "TOOL-02", false, []string{hello, welcome, open, opened, first, changed, called}},
		{"a tool call that is updated first", "TOOL-03", true, []string{hello, welcome, open, opened, first, changed, called}},
		{"a turn that a second prompt ends", "STOP-05", false, []string{hello, welcome, open, opened, first, second, stopped, ended}},
	} {
		t.Run(c.name, func(t *testing.T) {
			found := slices.ContainsFunc(judged(schema.V1, []byte(strings.Join(c.lines, "\n"))), func(f Finding) bool { return f.Rule == c.rule })
			if found != c.broken {
				t.Errorf("%s is broken: got %v, want %v", c.rule, found, c.broken)
			}
		})
	}
}

// A check describes a flaw better than the schema: a message with one flaw has one finding, also
// the second message with the same flaw.
func TestOneFlawIsOneFinding(t *testing.T) {
	const begin = `>{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1}}
{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":1,"agentCapabilities":{},"authMethods":[]}}
>{"jsonrpc":"2.0","id":1,"method":"session/new","params":{"cwd":"/a","mcpServers":[]}}
{"jsonrpc":"2.0","id":1,"result":{"sessionId":"s"}}
>{"jsonrpc":"2.0","id":2,"method":"session/prompt","params":{"sessionId":"s","prompt":[{"type":"text","text":"a"}]}}
`
	for flaw, want := range map[string]string{
		`{"sessionUpdate":"tool_call","toolCallId":"c","title":"t","kind":"dance","status":"pending"}`: "TOOL-05", // a check and the schema
		`{"sessionUpdate":"agent_message_chunk","content":{"type":"text"}}`:                            "CNT-02",  // likewise
		`{"sessionUpdate":"plan","entries":[{"content":"x","priority":"urgent","status":"pending"}]}`:  "PLAN-02", // the schema alone
	} {
		update := `{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":` + flaw + "}}\n"
		var got []string
		for _, f := range judged(schema.V1, []byte(begin+update+strings.Replace(update, `"toolCallId":"c"`, `"toolCallId":"d"`, 1))) {
			got = append(got, f.Rule)
		}
		if !slices.Equal(got, []string{want}) {
			t.Errorf("%s: got %v, want %s alone", flaw, got, want)
		}
	}
}
