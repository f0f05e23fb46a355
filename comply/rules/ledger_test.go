package rules

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/parley-agents/parley/acp/schema"
	"github.com/parley-agents/parley/comply/jsont"
	"github.com/parley-agents/parley/jsonrpc"
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

// judged returns what the ledger finds in a conversation that is given as text.
func judged(version schema.Version, text []byte) []Finding {
	var log []*Entry
	var requests []*Call
	for line := range bytes.Lines(text) {
		line = bytes.TrimSpace(line)
		raw, out := bytes.CutPrefix(line, []byte(">"))
		dir := jsonrpc.In
		if out {
			dir = jsonrpc.Out
		}
		e := NewEntry(dir, raw)
		e.Seq = len(log) + 1
		log = append(log, e)
		switch {
		case out && e.Class == jsont.ClientRequest:
			requests = append(requests, &Call{Request: e})
		case !out && e.Class == jsont.Response:
			for _, q := range requests {
				if q.Answer == nil && IDKey(q.Request.ID) == IDKey(e.ID) {
					q.Answer = e
					break
				}
			}
		}
	}
	return Audit(&jsont.Test{ID: "fuzz"}, version, log, requests)
}
