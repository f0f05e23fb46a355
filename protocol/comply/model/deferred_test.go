package model

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// The requests are those of Codex 0.166.0, Claude Code 2.1.325 and Qwen Code 0.24.4 with an
// MCP server that has the tool echo, cut to the parts that a script depends on.
func TestToolsThatAreNotInTheList(t *testing.T) {
	const (
		ask       = `parley:mcp server=parley name=echo args={\"text\":\"hi\"} parley:say text=\"It said hi.\"`
		namespace = `{"type":"function","name":"exec_command","parameters":{"type":"object","properties":{"cmd":{"type":"string"}}}},
			{"type":"namespace","name":"multi_agent_v1","tools":[{"type":"function","name":"echo_agent","parameters":{"type":"object","properties":{}}}]},
			{"type":"namespace","name":"mcp__parley","tools":[{"type":"function","name":"add","parameters":{"type":"object","properties":{}}},
			{"type":"function","name":"echo","parameters":{"type":"object","properties":{"text":{"type":"string"}}}}]}`
		finder   = `{"type":"tool_search","execution":"client","description":"Searches.","parameters":{"type":"object","properties":{"query":{"type":"string"}}}}`
		searched = `{"type":"tool_search_call","call_id":"s","execution":"client","status":"completed","arguments":{"query":"parley echo"}},
			{"type":"tool_search_output","call_id":"s","execution":"client","status":"completed",`
		deferred = `The following deferred tools are now available via ToolSearch:\nWebFetch\nmcp__parley__add\nmcp__parley__echo`
		search   = `{"name":"ToolSearch","input_schema":{"type":"object","properties":{"query":{"type":"string"},"max_results":{"type":"number"}}}}`
		bridge   = `{"type":"function","function":{"name":"tool_search","parameters":{"type":"object","properties":{"query":{"type":"string"}}}}},
			{"type":"function","function":{"name":"tool_call","parameters":{"type":"object","properties":{"name":{"type":"string"},"arguments":{"type":"object"}}}}}`
		reminder = `<system-reminder>\nThe following MCP tools are reachable through tool_search and tool_call.\n- \"mcp__parley__echo\": \"Returns its text.\"\n</system-reminder>`
	)
	for _, tt := range []struct{ name, path, body, want string }{
		{"a tool in a namespace is called with the namespace", "/v1/responses",
			`{"tools":[` + namespace + `],"input":[{"role":"user","content":"` + ask + `"}]}`,
			`"arguments":"{\"text\":\"hi\"}","call_id":"CALL","id":"FC","name":"echo","namespace":"mcp__parley"`},
		{"the result of a tool in a namespace is one of the script", "/v1/responses",
			`{"tools":[` + namespace + `],"input":[{"role":"user","content":"` + ask + `"},
			{"type":"function_call","call_id":"c","name":"echo","namespace":"mcp__parley","arguments":"{}"},{"type":"function_call_output","call_id":"c","output":"hi"}]}`,
			`"text":"It said hi."`},
		{"a tool that the API's own search finds is searched for first", "/v1/responses",
			`{"tools":[` + finder + `],"input":[{"role":"user","content":"` + ask + `"}]}`,
			`"arguments":{"query":"parley echo"},"call_id":"CALL","execution":"client"`},
		{"the search is streamed as one item", "/v1/responses",
			`{"stream":true,"tools":[` + finder + `],"input":[{"role":"user","content":"` + ask + `"}]}`,
			`"status":"completed","type":"tool_search_call"},"output_index":0,"sequence_number":3,`},
		{"a tool that the API's own search has found is called", "/v1/responses",
			`{"tools":[` + finder + `],"input":[{"role":"user","content":"` + ask + `"},` + searched + `"tools":[` + namespace + `]}]}`,
			`"arguments":"{\"text\":\"hi\"}","call_id":"CALL","id":"FC","name":"echo","namespace":"mcp__parley"`},
		{"the API's own search counts as no result of the script", "/v1/responses",
			`{"tools":[` + finder + `],"input":[{"role":"user","content":"` + ask + `"},` + searched + `"tools":[` + namespace + `]},
			{"type":"function_call","call_id":"c","name":"echo","namespace":"mcp__parley","arguments":"{}"},{"type":"function_call_output","call_id":"c","output":"hi"}]}`,
			`"text":"It said hi."`},
		{"a tool that the API's own search has not found is not there", "/v1/responses",
			`{"tools":[` + finder + `],"input":[{"role":"user","content":"` + ask + `"},` + searched + `"tools":[]}]}`,
			`the agent offers no MCP tool`},
		{"a tool that is named in the text is searched for first", "/v1/messages",
			`{"tools":[` + search + `],"system":"` + deferred + `","messages":[{"role":"user","content":"` + ask + `"}]}`,
			`"input":{"max_results":1,"query":"select:mcp__parley__echo"},"name":"ToolSearch"`},
		{"a tool that the search has found is called", "/v1/messages",
			`{"tools":[` + search + `],"system":"` + deferred + `","messages":[{"role":"user","content":"` + ask + `"},
			{"role":"assistant","content":[{"type":"tool_use","id":"s","name":"ToolSearch","input":{"query":"select:mcp__parley__echo","max_results":1}}]},
			{"role":"user","content":[{"type":"tool_result","tool_use_id":"s","content":[{"type":"tool_reference","tool_name":"mcp__parley__echo"}]}]}]}`,
			`"input":{"text":"hi"},"name":"mcp__parley__echo"`},
		{"the search counts as no result of the script", "/v1/messages",
			`{"tools":[` + search + `],"system":"` + deferred + `","messages":[{"role":"user","content":"` + ask + `"},
			{"role":"assistant","content":[{"type":"tool_use","id":"s","name":"ToolSearch","input":{"query":"select:mcp__parley__echo","max_results":1}}]},
			{"role":"user","content":[{"type":"tool_result","tool_use_id":"s","content":"found"}]},
			{"role":"assistant","content":[{"type":"tool_use","id":"e","name":"mcp__parley__echo","input":{"text":"hi"}}]},
			{"role":"user","content":[{"type":"tool_result","tool_use_id":"e","content":"hi"}]}]}`,
			`"text":"It said hi."`},
		{"a search that the script asks for is a step of the script", "/v1/messages",
			`{"tools":[` + search + `],"system":"` + deferred + `","messages":[{"role":"user","content":"parley:tool name=ToolSearch args={\"query\":\"echo\"} parley:say text=found"},
			{"role":"assistant","content":[{"type":"tool_use","id":"s","name":"ToolSearch","input":{"query":"echo"}}]},
			{"role":"user","content":[{"type":"tool_result","tool_use_id":"s","content":"a tool"}]}]}`,
			`"text":"found"`},
		{"a bridge calls the tool by its name", "/v1/chat/completions",
			`{"tools":[` + bridge + `],"messages":[{"role":"user","content":[{"type":"text","text":"` + reminder + `"},{"type":"text","text":"` + ask + `"}]}]}`,
			`"arguments":"{\"arguments\":{\"text\":\"hi\"},\"name\":\"mcp__parley__echo\"}","name":"tool_call"`},
		{"a tool that no text names is not there", "/v1/chat/completions",
			`{"tools":[` + bridge + `],"messages":[{"role":"user","content":"` + ask + `"}]}`,
			`the agent offers no MCP tool`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := httptest.NewRecorder()
			New(nil).ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, tt.path, strings.NewReader(tt.body)))
			raw, err := io.ReadAll(w.Result().Body)
			if err != nil {
				t.Fatal(err)
			}
			got := string(raw)
			for _, id := range [][2]string{{`"call_id":"`, "CALL"}, {`"id":"fc_`, "FC"}} { // made from the request
				if head, rest, ok := strings.Cut(got, id[0]); ok {
					_, rest, _ = strings.Cut(rest, `"`)
					got = head + strings.TrimSuffix(id[0], "fc_") + id[1] + `"` + rest
				}
			}
			if !strings.Contains(got, tt.want) {
				t.Errorf("got %s\nwant %s in it", got, tt.want)
			}
		})
	}
}
