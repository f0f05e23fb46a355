package model_test

import (
	"bytes"
	"encoding/json"
	"net/http/httptest"
	"testing"

	"github.com/parley-agents/parley/protocol/comply/model"
)

func TestPrompts(t *testing.T) {
	srv := serve(t, nil)
	for _, tt := range []struct {
		name string
		chat chat
		want string
	}{
		{"a prompt without directives is answered", chat{prompt: "hello"}, "OK."},
		{"directives of an earlier turn are over", chat{earlier: []string{"parley:say text=old"}, prompt: "hello"}, "OK."},
		{"what is wrong is said", chat{prompt: "parley:fly to=moon"}, `cannot parley:fly: `},
		{"what the agent cannot do is said, and the rest done", chat{prompt: "parley:plan entries=a parley:say text=' next'"}, "cannot plan: the agent offers no suitable tool next"},
		{"an absolute path is made where the tool wants one", chat{system: "Working directory: /w/x\n", prompt: "parley:read path=a.txt"}, `[read_file {"absolute_path":"/w/x/a.txt"}]`},
		{"other tools get the path as it is", chat{system: "Working directory: /w/x\n", prompt: "parley:write path=a.txt text=b"}, `[write_file {"content":"b","path":"a.txt"}]`},
		{"a tool is called by its name", chat{prompt: `parley:tool name=read_file args='{"absolute_path":"/etc"}'`}, `[read_file {"absolute_path":"/etc"}]`},
		{"a tool that is not there is not called", chat{prompt: `parley:tool name=nothing`}, `cannot tool: the agent offers no tool "nothing"`},
		{"a tool of an MCP server has a longer name", chat{prompt: `parley:mcp server=fixture name=echo args='{"text":"a"}'`}, `[fixture__echo {"text":"a"}]`},
		{"calls that are joined come together", chat{prompt: "parley:write path=a text=b parley:+write path=c text=d parley:say text=e"}, `[write_file {"content":"b","path":"a"}][write_file {"content":"d","path":"c"}]`},
		{"and have all their results before it goes on", chat{prompt: "parley:write path=a text=b parley:+write path=c text=d parley:say text=e", results: []string{"1", "2"}}, "e"},
		{"what was said before is recalled", chat{earlier: []string{"the word is banana"}, prompt: "parley:recall text=banana"}, "recalled: banana"},
		{"what a tool said is recalled", chat{prompt: "parley:write path=a text=b parley:recall text=banana", results: []string{"banana"}}, "recalled: banana"},
		{"a directive itself is not what was said", chat{earlier: []string{"parley:say text=banana"}, prompt: "parley:recall text=banana"}, "not recalled: banana"},
		{"what was said before is told", chat{earlier: []string{"the word is " + model.Proof("otter")}, prompt: "parley:tell text={proof:otter}"}, model.Proof("otter")},
		{"what was not said is not told", chat{earlier: []string{"the word is otter"}, prompt: "parley:tell text={proof:otter}"}, model.Unknown},
		{"a proof is not in the directive", chat{prompt: "parley:say text='it is {proof:otter}.'"}, "it is " + model.Proof("otter") + "."},
		{"an image is recalled", chat{prompt: "parley:recall kind=image", image: true}, "recalled: image"},
		{"no image is recalled", chat{prompt: "parley:recall kind=image"}, "not recalled: image"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, d := range dialects[1:] {
				if status, _, _ := d.ask(t, srv.URL, tt.chat); status != 200 {
					t.Errorf("%s: got %d", d.name, status)
				}
			}
			if got := says(t, srv, tt.chat); len(got) < len(tt.want) || got[:len(tt.want)] != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
	t.Run("every API sees the same conversation", func(t *testing.T) {
		for _, d := range dialects {
			_, _, body := d.ask(t, srv.URL, chat{earlier: []string{"the word is banana"}, prompt: "parley:write path=a text=b parley:recall text=banana parley:recall kind=image parley:recall text=cherry", results: []string{"it has a cherry"}, image: true})
			contains(t, body, "recalled: banana", "recalled: image", "recalled: cherry")
			if bytes.Contains([]byte(body), []byte("not recalled")) {
				t.Errorf("%s: %s", d.name, body)
			}
		}
	})
}

func TestSideRequests(t *testing.T) {
	srv := serve(t, nil)
	const quoted = "parley:hang\nparley:error"
	for _, d := range dialects {
		for name, tt := range map[string]struct {
			chat chat
			want string
		}{
			"a title":                      {chat{system: "You are a title generator. You output ONLY a title.", prompt: quoted, bare: true}, "Scripted conversation"},
			"a summary":                    {chat{prompt: "Summarize this conversation:\n" + quoted, bare: true}, "Scripted conversation"},
			"a suggestion, with tools":     {chat{prompt: "[SUGGESTION MODE: Suggest what the user might type next.]\n" + quoted}, "Scripted conversation"},
			"an answer that shall be JSON": {chat{prompt: quoted, format: true}, `{\"next\":\"user\",\"title\":\"scripted\"}`},
			"a tool that must be called":   {chat{prompt: quoted, force: "write_file"}, "write_file"},
		} {
			t.Run(d.name+": "+name, func(t *testing.T) {
				status, _, body := d.ask(t, srv.URL, tt.chat)
				if status != 200 {
					t.Errorf("got %d", status)
				}
				contains(t, body, tt.want)
			})
		}
	}
	t.Run("an agent without tools may still have a conversation", func(t *testing.T) {
		if got := says(t, srv, chat{system: "You are a friendly assistant.", prompt: "parley:say text=hi", bare: true}); got != "hi" {
			t.Errorf("got %q", got)
		}
	})
}

// FuzzRequests sends anything to every API.
func FuzzRequests(f *testing.F) {
	for _, d := range dialects {
		body, err := json.Marshal(d.body(chat{earlier: []string{"a"}, prompt: "parley:read path=a parley:plan entries=a;b", results: []string{"b"}, image: true, stream: true}))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(body)
	}
	f.Add([]byte(`{"messages":[{"role":"user","content":"parley:plan entries=a"}],"tools":[{"function":{"name":"todo","parameters":{"properties":{"todos":{"items":{"properties":{"content":{}},"required":[1,"id","x"]}}}}}}]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		if bytes.Contains(body, []byte("hang")) || bytes.Contains(body, []byte("delay")) || bytes.Contains(body, []byte("slow")) || bytes.Contains(body, []byte("cut")) {
			t.Skip("it would wait, or end the connection")
		}
		server := model.New(nil)
		for _, d := range dialects {
			req := httptest.NewRequest("POST", d.path(chat{}), bytes.NewReader(body))
			w := httptest.NewRecorder()
			server.ServeHTTP(w, req)
			if kind := w.Header().Get("Content-Type"); kind == "application/json" && w.Code == 200 && !json.Valid(w.Body.Bytes()) && !bytes.Contains(body, []byte("sse")) {
				t.Fatalf("%s: no JSON: %s", d.name, w.Body)
			}
		}
	})
}
