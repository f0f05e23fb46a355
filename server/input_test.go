package server_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/operation/rpc"
	"github.com/parley-agents/parley/internal/testing/hubtest"
	"github.com/parley-agents/parley/internal/testing/patience"
	"github.com/parley-agents/parley/protocol/jsonrpc"
)

func TestBadInput(t *testing.T) {
	patience.NotUnderRace(t)
	hubtest.NoGoroutinesLeft(t)
	r := start(t, quiet())
	keys := r.add(t, "alice", "bob")
	alice := keys[0]
	r.send(t, keys[1], "alice", "something to read") // so that there are rows to change

	const parse, request, params, server, method = jsonrpc.CodeParse, jsonrpc.CodeInvalidRequest, jsonrpc.CodeInvalidParams, jsonrpc.CodeServer, jsonrpc.CodeMethodNotFound
	call := func(method, params string) string {
		return `{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":` + params + `}`
	}
	send := func(params string) string { return call("acp/send", params) }
	tests := []struct {
		name string
		body string
		rpc  int
		code hub.Code
		hint bool // the caller is told what to do
	}{
		{"an empty body", ``, parse, hub.CodeInvalid, true},
		{"half a request", `{"jsonrpc":"2.0","id":1,`, parse, hub.CodeInvalid, true},
		{"something after the request", call("parley/whoami", "{}") + "{}", parse, hub.CodeInvalid, true},
		{"a request that is a string", `"acp/send"`, request, hub.CodeInvalid, true},
		{"another version of JSON-RPC", `{"jsonrpc":"1.0","id":1,"method":"parley/whoami"}`, request, hub.CodeInvalid, true},
		{"no method", `{"jsonrpc":"2.0","id":1}`, request, hub.CodeInvalid, true},
		{"a method that is a number", `{"jsonrpc":"2.0","id":1,"method":7}`, request, hub.CodeInvalid, true},
		{"an id that is an object", `{"jsonrpc":"2.0","id":{},"method":"parley/whoami"}`, request, hub.CodeInvalid, true},
		{"the method twice", `{"jsonrpc":"2.0","id":1,"method":"parley/whoami","method":"acp/send"}`, request, hub.CodeInvalid, true},
		{"the method and its twin", `{"jsonrpc":"2.0","id":1,"method":"parley/whoami","Method":"acp/send"}`, request, hub.CodeInvalid, true},
		{"a method that does not exist", call("acp/nothing", "{}"), method, hub.CodeNotFound, true},
		{"an empty batch", `[]`, request, hub.CodeInvalid, true},
		{"half a batch", `[` + call("parley/whoami", "{}"), parse, hub.CodeInvalid, true},
		{"params that are an array", send(`["bob"]`), params, hub.CodeInvalid, false},
		{"params that are a string", send(`"bob"`), request, hub.CodeInvalid, true},
		{"invalid UTF-8", send("{\"to\":[\"bob\"],\"text\":\"\xff\"}"), parse, hub.CodeInvalid, true},
		{"half a surrogate pair", send(`{"to":["bob"],"text":"\ud800"}`), parse, hub.CodeInvalid, true},

		{"an unknown member that is too large", send(`{"to":["bob"],"text":"x","colour":"` + strings.Repeat("b", 65<<10) + `"}`), params, hub.CodeTooLarge, true},
		{"too many references", send(`{"to":["bob"],"text":"x","context":{"external_refs":[` + strings.Repeat(`{"type":"ticket","value":"1"},`, 3000) + `{"type":"ticket","value":"1"}]}}`), params, hub.CodeTooLarge, true},

		{"a text that is a number", send(`{"to":["bob"],"text":7}`), params, hub.CodeInvalid, false},
		{"recipients that are a number", send(`{"to":7,"text":"x"}`), params, hub.CodeInvalid, false},
		{"a recipient that is a number", send(`{"to":[7],"text":"x"}`), params, hub.CodeInvalid, false},
		{"a time that is no time", send(`{"to":["bob"],"text":"x","expires_at":"tomorrow"}`), params, hub.CodeInvalid, false},
		{"a sequence with a fraction", send(`{"to":["bob"],"text":"x","sequence":1.5}`), params, hub.CodeInvalid, false},
		{"a payload that is a string", send(`{"to":["bob"],"type":"status.update","payload":"x"}`), params, hub.CodeInvalid, false},
		{"a policy that is a string", send(`{"to":["bob"],"text":"x","policy":"private"}`), params, hub.CodeInvalid, false},
		{"a policy that is null", send(`{"to":["bob"],"text":"x","policy":null}`), params, hub.CodeInvalid, false},
		{"a context that is an array", send(`{"to":["bob"],"text":"x","context":[]}`), params, hub.CodeInvalid, false},
		{"a member twice", send(`{"to":["bob"],"to":["alice"],"text":"x"}`), request, hub.CodeInvalid, true},
		{"a member and its twin", send(`{"to":["bob"],"To":["alice"],"text":"x"}`), params, hub.CodeInvalid, false},
		{"two twins nobody knows", send(`{"to":["bob"],"text":"x","new":1,"New":2}`), params, hub.CodeInvalid, false},
		{"the twin of a known member alone", send(`{"to":["bob"],"text":"x","Priority":"high"}`), params, hub.CodeInvalid, false},
		{"a member of the policy twice", send(`{"to":["bob"],"text":"x","policy":{"human_gate":"none","human_gate":"required"}}`), request, hub.CodeInvalid, true},
		{"a member of the policy and its twin", send(`{"to":["bob"],"text":"x","policy":{"human_gate":"none","Human_Gate":"required"}}`), params, hub.CodeInvalid, false},
		{"a twin in the policy alone", send(`{"to":["bob"],"text":"x","policy":{"Human_Gate":"required"}}`), params, hub.CodeInvalid, false},
		{"a member of the context twice", send(`{"to":["bob"],"text":"x","context":{"artifacts":[],"artifacts":[]}}`), request, hub.CodeInvalid, true},
		{"a member of the context and its twin", send(`{"to":["bob"],"text":"x","context":{"artifacts":[],"Artifacts":[]}}`), params, hub.CodeInvalid, false},
		{"a member of an artifact and its twin", send(`{"to":["bob"],"text":"x","context":{"artifacts":[{"type":"file","path":"/a","Path":"/b"}]}}`), params, hub.CodeInvalid, false},
		{"a policy nobody knows", send(`{"to":["bob"],"text":"x","policy":{"visibility":"public"}}`), params, hub.CodeInvalid, false},
		{"what the hub fills in", send(`{"to":["bob"],"text":"x","id":"0"}`), params, hub.CodeInvalid, false},
		{"another protocol", send(`{"to":["bob"],"text":"x","protocol":"smtp"}`), params, hub.CodeInvalid, false},
		{"another major version", send(`{"to":["bob"],"text":"x","version":"2.0.0"}`), params, hub.CodeInvalid, false},

		{"no recipients", send(`{"to":[],"text":"x"}`), params, hub.CodeInvalid, false},
		{"no recipients at all", send(`{"text":"x"}`), params, hub.CodeInvalid, false},
		{"everyone and somebody", send(`{"to":["*","bob"],"text":"x"}`), params, hub.CodeInvalid, false},
		{"a recipient nobody knows", send(`{"to":["bobb"],"text":"x"}`), params, hub.CodeUnknownRecipient, true},
		{"a type nobody knows", send(`{"to":["bob"],"type":"gossip","payload":{}}`), params, hub.CodeUnknownType, true},
		{"a reserved type", send(`{"to":["bob"],"type":"team.join","payload":{}}`), params, hub.CodeReservedType, true},
		{"a type of the hub", send(`{"to":["bob"],"type":"system.ack","payload":{}}`), params, hub.CodeReservedType, true},
		{"a payload that breaks its schema", send(`{"to":["bob"],"type":"knowledge.query","payload":{"x":1}}`), params, hub.CodeInvalid, false},
		{"a payload of 4097 bytes", send(`{"to":["bob"],"type":"status.update","payload":{"summary":"x","detail":"` + strings.Repeat("y", 4097-len(`{"summary":"x","detail":""}`)) + `"}}`), params, hub.CodePayloadTooLarge, true},
		{"text and payload", send(`{"to":["bob"],"text":"x","payload":{"summary":"x"}}`), params, hub.CodeInvalid, false},
		{"a broadcast without authority", send(`{"to":["*"],"text":"x"}`), server, hub.CodeDenied, true},

		{"a parameter that inbox does not have", call("acp/inbox", `{"all":true}`), params, hub.CodeInvalid, false},
		{"a wait that is too long", call("acp/inbox", `{"wait_s":301}`), params, hub.CodeInvalid, true},
		{"a wait that is text", call("acp/inbox", `{"wait_s":"1"}`), params, hub.CodeInvalid, false},
		{"an ack that is a number", call("acp/inbox", `{"ack":7}`), params, hub.CodeInvalid, false},
		{"an ack of what is not there", call("acp/inbox", `{"ack":["01900000-0000-7000-8000-000000000000"]}`), params, hub.CodeNotFound, false},
		{"a page that is too long", call("acp/inbox", `{"limit":201}`), params, hub.CodeInvalid, false},
		{"a parameter that query does not have", call("acp/query", `{"sender":"bob"}`), params, hub.CodeInvalid, false},
		{"a cursor nobody gave", call("acp/query", `{"cursor":"garbage"}`), params, hub.CodeInvalid, false},
		{"a response to nothing", call("acp/respond", `{"text":"x"}`), params, hub.CodeInvalid, true},
		{"a response to what is not there", call("acp/respond", `{"reply_to":"01900000-0000-7000-8000-000000000000","text":"x"}`), params, hub.CodeNotFound, true},
		{"a state nobody knows", call("acp/status", `{"state":"bored","summary":"x"}`), params, hub.CodeInvalid, false},
		{"a status without a summary", call("acp/status", `{"state":"update"}`), params, hub.CodeInvalid, true},
		{"a parameter for what has none", call("parley/whoami", `{"x":1}`), params, hub.CodeInvalid, false},
	}
	before := r.tables(t)
	for _, tt := range tests {
		t.Run("R3-018 R3-019 "+tt.name+" is refused with a code and changes nothing", func(t *testing.T) {
			a := r.post(t, alice, tt.body)
			a.wantError(t, tt.rpc, tt.code)
			if tt.hint && a.Error.Data.Hint == "" {
				t.Errorf("%s: there is no hint", a.Error.Message)
			}
			if len(a.Error.Message) > 500 || strings.ContainsAny(a.Error.Message, "\x00\x1b\n") {
				t.Errorf("message: got %q, want a short line", a.Error.Message)
			}
			before = r.wantSame(t, before)
		})
	}
	t.Run("R3-020 every kind of refusal is recorded, and a flood is not", func(t *testing.T) {
		seen := map[string]int{}
		for _, e := range r.journal(t, 0) {
			actor, rest, _ := strings.Cut(e, "|call.refused|refused|")
			var facts struct {
				Code string `json:"code"`
			}
			if rest != "" && actor == "alice" && json.Unmarshal([]byte(rest), &facts) == nil {
				seen[facts.Code]++
			}
		}
		for _, tt := range tests {
			if n := seen[string(tt.code)]; n != 1 {
				t.Errorf("entries for %s: got %d, want 1", tt.code, n)
			}
		}
	})
	t.Run("R3-018 a batch answers each request by itself and notifications not at all", func(t *testing.T) {
		body := `[` + strings.Join([]string{
			`{"jsonrpc":"2.0","id":"a","method":"parley/whoami"}`,
			`{"jsonrpc":"2.0","method":"parley/whoami"}`,
			`7`,
			`{"jsonrpc":"2.0","id":"b","method":"nothing"}`,
		}, ",") + `]`
		a := r.post(t, alice, body)
		var got []struct {
			ID     json.RawMessage
			Result json.RawMessage
			Error  *jsonrpc.Error
		}
		if err := json.Unmarshal(a.body, &got); err != nil || len(got) != 3 {
			t.Fatalf("answer: got %s (%v), want three", a.body, err)
		}
		if string(got[0].ID) != `"a"` || got[0].Result == nil {
			t.Errorf("first: got %+v, want a result for a", got[0])
		}
		if string(got[1].ID) != `null` || got[1].Error == nil || got[1].Error.Code != request {
			t.Errorf("second: got %+v, want %d without an id", got[1], request)
		}
		if string(got[2].ID) != `"b"` || got[2].Error == nil || got[2].Error.Code != method {
			t.Errorf("third: got %+v, want %d for b", got[2], method)
		}
	})
	t.Run("a notification is performed and not answered", func(t *testing.T) {
		before := len(r.rows(t, `SELECT id FROM messages`))
		a := r.post(t, alice, `{"jsonrpc":"2.0","method":"acp/send","params":{"to":["bob"],"text":"by the way"}}`)
		if a.status != http.StatusNoContent || len(a.body) != 0 {
			t.Errorf("answer: got %d %q, want 204 and nothing", a.status, a.body)
		}
		if after := len(r.rows(t, `SELECT id FROM messages`)); after != before+1 {
			t.Errorf("messages: got %d, want %d", after, before+1)
		}
	})
	t.Run("an id comes back as it was", func(t *testing.T) {
		for _, id := range []string{`"x"`, `1.50`, `123456789012345678901234567890`, `null`, `"\u0041"`} {
			if a := r.post(t, alice, `{"jsonrpc":"2.0","id":`+id+`,"method":"parley/whoami"}`); string(a.ID) != id {
				t.Errorf("id: got %s, want %s", a.ID, id)
			}
		}
	})
	for _, declared := range []bool{true, false} {
		t.Run(map[bool]string{true: "a body of 10 MiB is refused", false: "a body of 10 MiB is refused that does not say how long it is"}[declared], func(t *testing.T) {
			before := r.tables(t)
			var body io.Reader = strings.NewReader(send(`{"to":["bob"],"text":"` + strings.Repeat("x", 10<<20) + `"}`))
			if !declared {
				body = io.MultiReader(body) // hides its length
			}
			a := r.do(t, http.MethodPost, "/", alice, body)
			a.wantError(t, params, hub.CodeTooLarge)
			if a.Error != nil && a.Error.Data.Hint == "" {
				t.Error("there is no hint")
			}
			r.wantSame(t, before)
			must(rpc.Call(t.Context(), r.as(alice), api.Whoami, api.None{}))(t) // the hub is alive
		})
	}
	t.Run("a body of 10 MiB is refused at the tools too", func(t *testing.T) {
		before := r.tables(t)
		a := r.do(t, http.MethodPost, "/mcp", alice, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"`+strings.Repeat("x", 10<<20)+`"}`),
			func(req *http.Request) {
				req.Header.Set("Content-Type", "application/json")
				req.Header.Set("Accept", "application/json, text/event-stream")
			})
		if a.status < 400 || a.status >= 500 {
			t.Errorf("status: got %d, want a refusal", a.status)
		}
		r.wantSame(t, before)
		must(rpc.Call(t.Context(), r.as(alice), api.Whoami, api.None{}))(t)
	})
	t.Run("R3-170 R3-173 bad subscriptions and broadcasts are refused and change nothing", func(t *testing.T) {
		for _, c := range []struct{ method, params string }{
			{"acp/subscribe", `{}`}, {"acp/subscribe", `{"action":"watch"}`}, {"acp/subscribe", `{"action":"add"}`}, {"acp/subscribe", `{"action":"add","filter":{}}`},
			{"acp/subscribe", `{"action":"add","filter":{"topic":["x"]}}`}, {"acp/subscribe", `{"action":"add","filter":{"topics":"x"}}`},
			{"acp/subscribe", `{"action":"add","filter":{"types":["handoff.initiate"]}}`}, {"acp/subscribe", `{"action":"remove"}`},
			{"acp/broadcast", `{}`}, {"acp/broadcast", `{"dry_run":true}`}, {"acp/broadcast", `{"text":"x","to":["alice"]}`}, {"acp/broadcast", `{"text":"x","dry_run":"yes"}`},
		} {
			before := r.tables(t)
			r.call(t, alice, c.method, c.params).wantError(t, params, hub.CodeInvalid)
			r.wantSame(t, before)
		}
	})
	t.Run("R3-077 members and the end of a team are for coordinators", func(t *testing.T) {
		boss := must(rpc.Call(t.Context(), r.as(r.operator), api.AddAgent, api.AgentParams{ID: "boss", Role: hub.RoleCoordinator}))(t).Key
		r.call(t, alice, "acp/team", `{"action":"create","team":"x","objective":"o"}`).wantError(t, server, hub.CodeDenied)
		r.call(t, boss, "acp/team", `{"action":"create","team":"x","objective":"o","members":[{"agent":"alice","role":"executor"}]}`).wantOK(t, nil)
		for _, action := range []string{"add", "remove", "close", "archive"} {
			r.call(t, alice, "acp/team", `{"action":"`+action+`","team":"x","agent":"boss"}`).wantError(t, server, hub.CodeDenied)
		}
		r.call(t, alice, "parley/agent/add", `{"id":"mate"}`).wantError(t, server, hub.CodeDenied)
		r.call(t, alice, "parley/agent/revoke", `{"id":"boss"}`).wantError(t, server, hub.CodeDenied)
	})
	t.Run("what is meant for the operator is denied to agents", func(t *testing.T) {
		r.call(t, alice, "parley/held", `{}`).wantError(t, server, hub.CodeDenied)
		list := must(rpc.Call(t.Context(), r.as(alice), api.ListAgents, api.None{}))(t)
		for _, p := range list.Agents {
			if len(p.Keys) != 0 {
				t.Errorf("%s sees keys of %s", "alice", p.ID)
			}
		}
	})
}

func TestHeldStaysHidden(t *testing.T) {
	r := start(t, quiet())
	keys := r.add(t, "alice", "bob", "carol")
	receipt := must(rpc.Call(t.Context(), r.as(keys[0]), api.Send, api.SendParams{
		To: api.Recipients{"bob"}, Text: "delete the bucket", Policy: []byte(`{"human_gate":"required"}`), Priority: hub.PriorityHigh,
	}))(t)
	t.Run("R3-119 a gated message is recorded as held", func(t *testing.T) {
		found := false
		for _, e := range r.journal(t, 0) {
			found = found || strings.HasPrefix(e, "alice|message.held|ok|")
		}
		if !found {
			t.Errorf("journal: got %q, want alice's message.held", r.journal(t, 0))
		}
	})
	look := func(t *testing.T, key string) map[string]bool {
		t.Helper()
		id := string(receipt.ID)
		seen := map[string]bool{}
		for name, a := range map[string]answer{
			"inbox":   r.call(t, key, "acp/inbox", `{"peek":true}`),
			"query":   r.call(t, key, "acp/query", `{}`),
			"search":  r.call(t, key, "acp/query", `{"text":"bucket"}`),
			"trace":   r.call(t, key, "parley/trace", `{"id":"`+id+`"}`),
			"respond": r.call(t, key, "acp/respond", `{"reply_to":"`+id+`","text":"on it"}`),
		} {
			seen[name] = a.Error == nil && (strings.Contains(string(a.body), id) || name == "respond")
		}
		return seen
	}
	t.Run("R3-018 its recipient cannot see it anywhere before approval", func(t *testing.T) {
		for name, yes := range look(t, keys[1]) {
			if yes {
				t.Errorf("%s: the recipient sees a message that is held", name)
			}
		}
	})
	t.Run("a third party never sees it", func(t *testing.T) {
		must(rpc.Call(t.Context(), r.as(r.operator), api.Approve, api.IDParams{ID: receipt.ID}))(t)
		for name, yes := range look(t, keys[2]) {
			if yes {
				t.Errorf("%s: a stranger sees the message", name)
			}
		}
	})
	t.Run("its recipient sees it after approval", func(t *testing.T) {
		for name, yes := range look(t, keys[1]) {
			if !yes && name != "inbox" { // answering may have come first, and takes it out
				t.Errorf("%s: the recipient does not see the message", name)
			}
		}
	})
}
