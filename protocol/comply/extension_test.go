package comply_test

import (
	"strings"
	"testing"

	"github.com/parley-agents/parley/protocol/comply"
)

func TestExtensions(t *testing.T) {
	t.Parallel()
	const (
		ended    = `{"response": {"id": 2}}`
		called   = `{"clientRequest": {"method": "^made/up$"}, "hold": "q"}`
		listing  = `{"send": {"jsonrpc": "2.0", "id": 7, "method": "test/echo", "params": {"list": [{"type": "a", "id": "x"}, {"type": "b", "id": "y"}, {"type": "b", "id": "z"}], "now": "y"}}}`
		captured = `{"expect": {"messages": [{"response": {"id": 7}, "captures": [{"path": "result.now", "var": "now"}, {"path": "result.list.{type=b,id!=${now}}.id", "var": "other"}, {"path": "result.list.*.id", "var": "all"}]}]}}`
	)
	until := func(body string) string {
		return `{"expect": {"timeoutMs": 9000, "until": ` + ended + `, ` + body + `}}`
	}
	moot := func(step string) string { return strings.Replace(step, "{", `{"moot": "it was not so", `, 1) }
	pass, fail, na := comply.Pass, comply.Fail, comply.NA
	for _, c := range []struct {
		name, flaw, text string
		want             comply.Status
	}{
		{"a window ends with its limit", "none", steps(prompt(2, "notify 1"), until(`"messages": [`+chunk("chunk 2")+`]`)), fail},
		{"what comes before the limit counts", "none", steps(prompt(2, "notify 3"), until(`"messages": [`+chunk("chunk 2")+`]`)), pass},
		{"what comes after the limit does not", "none", steps(prompt(2, "later"), `{"delayMs": 100}`, until(`"messages": [`+chunk("late")+`]`)), fail},
		{"a moot step makes the test say nothing", "none", steps(prompt(2, "notify 1"), moot(until(`"messages": [`+chunk("chunk 2")+`]`))), na},
		{"a moot step that is met does not", "none", steps(prompt(2, "notify 2"), moot(until(`"messages": [`+chunk("chunk 2")+`]`))), pass},
		{"a crash is not moot", "none", steps(prompt(2, "exit 3"), moot(until(`"messages": [`+chunk("chunk 2")+`]`))), fail},
		{"a turn that never ends is not moot", "none", steps(strings.Replace(prompt(2, "never"), `{"send"`, `{"timeoutMs": 100, "send"`, 1), moot(`{"expect": {"timeoutMs": 50, "messages": [`+chunk("x")+`]}}`)), fail},
		{"a request that need not be answered makes the test say nothing", "none", steps(moot(strings.Replace(prompt(2, "never"), `{"send"`, `{"timeoutMs": 50, "send"`, 1))), na},
		{"a message may be one of several", "none", steps(prompt(2, "notify 1"), `{"expect": {"messages": [{"response": {"id": 2}, "anyOf": [{"error": {}}, {"result": {"stopReason": "^end"}}]}]}}`), pass},
		{"a message that is none of them does not do", "none", steps(prompt(2, "notify 1"), `{"expect": {"messages": [{"response": {"id": 2}, "anyOf": [{"error": {}}, {"result": {"stopReason": "^max"}}]}]}}`), fail},
		{"a message may be forbidden", "none", steps(prompt(2, "notify 2"), `{"forbid": {"timeoutMs": 500, "messages": [`+chunk("chunk 2")+`]}}`), fail},
		{"other messages are not", "none", steps(prompt(2, "notify 2"), `{"forbid": {"timeoutMs": 500, "messages": [`+chunk("chunk 3")+`]}}`), pass},
		{"a message may be forbidden up to a limit", "none", steps(prompt(2, "later"), `{"forbid": {"timeoutMs": 500, "full": true, "until": `+ended+`, "messages": [`+chunk("late")+`]}}`), pass},
		{"a request may wait for its reply", "none", steps(prompt(2, "call made/up {}"), expect(called), `{"reply": {"to": "q", "result": {"x": "late reply"}}}`, expect(chunk("late reply"))), pass},
		{"a reply may be an error", "none", steps(prompt(2, "call made/up {}"), expect(called), `{"reply": {"to": "q", "error": {"code": -32055, "message": "no"}}}`, expect(chunk("-32055"))), pass},
		{"a reply needs a request", "none", steps(`{"reply": {"to": "q", "result": {}}}`), comply.Errored},
		{"an element is found by what it is", "none", steps(listing, captured, `{"check": {"value": "${other}", "like": "^z$"}}`), pass},
		{"all elements can be taken", "none", steps(listing, captured, `{"check": {"value": "${all}", "like": "^\\[\"x\",\"y\",\"z\"\\]$"}}`), pass},
		{"a value must be like its pattern", "none", steps(listing, captured, `{"check": {"value": {"now": "${now}"}, "like": {"now": "^x$"}}}`), fail},
		{"a value must be unlike its other pattern", "none", steps(listing, captured, `{"check": {"value": "${now}", "unlike": "y"}}`), fail},
		{"a file must be there", "none", steps(`{"file": {"path": "a.txt", "text": "x"}}`), fail},
		{"a file must not be there", "none", steps(`{"file": {"path": "a.txt", "absent": true}}`), pass},
		{"a file is waited for", "none", steps(prompt(2, `call fs/write_text_file {"sessionId":"${sessionId}","path":"${sandbox}/a.txt","content":"written"}`), `{"file": {"path": "a.txt", "text": "^written$", "unlike": "other", "timeoutMs": 9000}}`), pass},
		{"a file outside cannot be looked at", "none", steps(`{"file": {"path": "/etc/passwd", "text": "x"}}`), comply.Errored},
		{"an agent can be started again", "none", steps(prompt(2, "notify 1"), expect(ended), `{"process": {"restart": true}}`, `{"newSession": {"capture": "sessionId"}}`, prompt(3, "notify 1"), expect(`{"response": {"id": 3}}`)), pass},
		{"what was asked before must be answered", "none", steps(strings.Replace(prompt(2, "never"), `{"send"`, `{"timeoutMs": 50, "send"`, 1), `{"process": {"restart": true}}`), fail},
		{"an agent that is told to end does", "none", steps(`{"process": {"terminate": true, "exitsWithinMs": 5000}}`), pass},
		{"a process that outlives its agent is seen", "none", steps(prompt(2, "child"), expect(ended), `{"process": {"closeInput": true, "exitsWithinMs": 5000, "alone": true}}`), fail},
		{"an agent that leaves nothing is alone", "none", steps(`{"process": {"closeInput": true, "exitsWithinMs": 5000, "alone": true, "readableStderr": true}}`), pass},
		{"a step is for agents with a capability", "none", steps(`{"when": [{"agentCap": "loadSession"}], "check": {"value": 1, "like": 2}}`), pass},
		{"a step is for agents without a capability", "none", steps(`{"when": [{"agentCap": "loadSession", "mustBe": false}], "check": {"value": 1, "like": 2}}`), fail},
		{"an answer to raw text may come after the wait for it", "none", strings.Replace(steps(`{"sendRaw": {"text": "{\"jsonrpc\":\"2.0\",\"id\":9,\"method\":\"test/fail\"}\n"}}`, `{"level": "ADV", "expect": {"timeoutMs": 1, "messages": [{"response": {"id": 9, "error": {}}}]}}`, prompt(2, "notify 1"), expect(ended)), `"ledger": false`, `"ledger": true`, 1), pass},
		{"an answer that a weak expectation was about is judged", "none", steps(`{"send": {"jsonrpc": "2.0", "id": 1, "method": "test/fail"}}`, `{"level": "ADV", "expect": {"messages": [{"response": {"id": 1, "error": {"code": 7}}}]}}`), pass},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			wantStatus(t, play(t, c.flaw, c.text), c.want)
		})
	}
}

// An honest agent on a busy machine may have written a file before the turn was cancelled: the finding
// is one that a second run, alone, must confirm.
func TestForbiddenFileRestsOnTime(t *testing.T) {
	write := prompt(2, `call fs/write_text_file {"sessionId":"${sessionId}","path":"${sandbox}/a.txt","content":"written"}`)
	got := play(t, "none", steps(write, expect(`{"response": {"id": 2}}`), `{"file": {"path": "a.txt", "absent": true, "timeoutMs": 50}}`))
	wantStatus(t, got, comply.Fail)
	if len(got.Findings) != 1 || !got.Findings[0].Timed {
		t.Errorf("the finding does not rest on time: %+v", got.Findings)
	}
}
