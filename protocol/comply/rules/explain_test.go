package rules

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/parley-agents/parley/protocol/acp/schema"
	"github.com/parley-agents/parley/protocol/jsonrpc"
)

// malformed has the rules whose examples need a line that is no message of JSON-RPC.
var malformed = []string{"TRN-01", "TRN-02", "TRN-03", "TRN-13", "TRN-15", "RPC-01", "RPC-04", "RPC-05", "RPC-09", "RPC-10", "RPC-18", "RPC-20"}

// aboutIDs has the rules whose examples differ in the ids of messages only.
var aboutIDs = []string{"RPC-02", "RPC-12", "UPD-19"}

// unseen has the rules of the ledger that it does not find in their bad examples, with the reason.
var unseen = map[string]string{
	"TRN-04":  "an example cannot leave out the end of its last line",
	"MODE-02": "the ledger judges the form of an answer only, and the example refuses a mode",
	"CFG-04":  "the ledger judges the form of an answer only, and the example leaves out an option",
}

// TestExamples checks that every rule has a good and a bad example, and that the ledger
// tells them apart.
func TestExamples(t *testing.T) {
	for id := range inOrder(examples()) {
		if !Known(id) {
			t.Errorf("there is an example of %q, which is no rule", id)
		}
	}
	byLedger := LedgerIDs()
	for _, r := range All() {
		t.Run(r.ID, func(t *testing.T) {
			x := ExampleOf(r.ID)
			if x.Good == "" {
				t.Error("no example keeps the rule")
			}
			if x.Bad == "" && Unbreakable(r.ID) == "" {
				t.Error("no example breaks the rule")
			}
			if !slices.Contains(aboutIDs, r.ID) && withoutIDs(x.Good) == withoutIDs(x.Bad) {
				t.Errorf("the examples differ in ids only: %s", x.Good)
			}
			for _, text := range []string{x.Good, x.Bad} {
				if len(text) > 900 {
					t.Errorf("an example has %d bytes, which is too much to read: %s", len(text), text)
				}
				checkLines(t, r.ID, text)
			}
			for _, f := range judgedExample(x.Good) {
				t.Errorf("the good example breaks %s: %s\n%s", f.Rule, f.Actual, x.Good)
			}
			if slices.Contains(byLedger, r.ID) && unseen[r.ID] == "" && x.Bad != "" {
				if !slices.ContainsFunc(judgedExample(x.Bad), func(f Finding) bool { return f.Rule == r.ID }) {
					t.Errorf("the ledger does not find that the bad example breaks the rule: %s", x.Bad)
				}
			}
		})
	}
}

// checkLines checks that each line is a message, or a remark in parentheses.
func checkLines(t *testing.T, rule, text string) {
	t.Helper()
	for line := range strings.SplitSeq(text, "\n") {
		if strings.HasPrefix(line, "(") && strings.HasSuffix(line, ")") || slices.Contains(malformed, rule) || text == "" {
			continue
		}
		if _, err := jsonrpc.ParseMessage([]byte(strings.TrimPrefix(line, "> "))); err != nil {
			t.Errorf("%v: %s", err, line)
		}
	}
}

// withoutIDs returns an example without the ids of its messages, and with members in one order.
func withoutIDs(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		var o object
		if json.Unmarshal([]byte(strings.TrimPrefix(line, "> ")), &o) == nil {
			delete(o, "id")
			raw, _ := json.Marshal(o)
			lines[i] = string(raw)
		}
	}
	return strings.Join(lines, "\n")
}

// The opening of a conversation that examples leave out.
const (
	exampleHello   = `> {"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1,"clientCapabilities":{"fs":{"readTextFile":true,"writeTextFile":true},"terminal":true,"plan":{},"elicitation":{"form":{},"url":{}},"session":{"notices":{},"compaction":{},"configOptions":{"boolean":{}}}}}}`
	exampleWelcome = `{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":1,"agentCapabilities":{"loadSession":true,"sessionCapabilities":{"list":{},"additionalDirectories":{}},"_meta":{"acme.dev":{}}},"authMethods":[{"id":"key","name":"API key"}]}}`
	exampleOpening = `> {"jsonrpc":"2.0","id":1,"method":"session/new","params":{"cwd":"/work/app","mcpServers":[]}}
{"jsonrpc":"2.0","id":1,"result":{"sessionId":"s1","modes":{"currentModeId":"ask","availableModes":[{"id":"ask","name":"Ask first"},{"id":"auto","name":"Go ahead"}]}}}`
	exampleSecond = `> {"jsonrpc":"2.0","id":100,"method":"session/new","params":{"cwd":"/work/lib","mcpServers":[]}}
{"jsonrpc":"2.0","id":100,"result":{"sessionId":"s2"}}`
	examplePrompt = `> {"jsonrpc":"2.0","id":2,"method":"session/prompt","params":{"sessionId":"s1","prompt":[{"type":"text","text":"Go"}]}}`
)

// judgedExample returns the findings of the ledger in an example, behind the parts of an opening
// that the example does not have.
func judgedExample(text string) []Finding {
	asks := func(method string) bool { return strings.Contains(text, `"method":"`+method+`"`) }
	lines := strings.Split(text, "\n")
	begin := []string{exampleHello, exampleWelcome}
	if at := slices.IndexFunc(lines, func(s string) bool { return strings.HasPrefix(s, ">") && strings.Contains(s, `"initialize"`) }); at >= 0 {
		answer := slices.IndexFunc(lines, func(s string) bool { return strings.HasPrefix(s, `{"jsonrpc":"2.0","id":0,`) })
		if answer < 0 {
			answer = at
		}
		begin, lines = slices.Clone(lines[:answer+1]), lines[answer+1:]
	}
	if !asks("session/new") && !asks("session/load") && !asks("session/resume") {
		begin = append(begin, exampleOpening)
		if strings.Contains(text, `"s2"`) && !asks("session/fork") {
			begin = append(begin, exampleSecond)
		}
	}
	if !asks("session/prompt") {
		begin = append(begin, examplePrompt)
	}
	return judged(schema.V1, []byte(strings.Join(slices.Concat(begin, lines), "\n")+"\n"))
}
