package model_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/parley-agents/parley/protocol/comply/model"
)

// text returns what an answer of the chat API says.
func text(t *testing.T, body string) string {
	t.Helper()
	var got struct {
		Choices []struct {
			Message struct {
				Content   string
				ToolCalls []struct {
					Function struct{ Name, Arguments string }
				} `json:"tool_calls"`
			}
		}
	}
	if err := json.Unmarshal([]byte(body), &got); err != nil || len(got.Choices) != 1 {
		t.Fatalf("%v: %s", err, body)
	}
	said := got.Choices[0].Message.Content
	for _, c := range got.Choices[0].Message.ToolCalls {
		said += "[" + c.Function.Name + " " + c.Function.Arguments + "]"
	}
	return said
}

// says asks over the chat API.
func says(t *testing.T, srv *httptest.Server, c chat) string {
	t.Helper()
	_, _, body := dialects[0].ask(t, srv.URL, c)
	return text(t, body)
}

func TestRuleForTextBesideResult(t *testing.T) {
	script, err := model.ParseScript([]byte(`{"rules": [
		{"when": {"prompt": "write", "result": "the hub commits"}, "do": [{"do": "say", "text": "then the hub"}]},
		{"when": {"prompt": "write"}, "do": [{"do": "shell", "command": "git commit"}, {"do": "say", "text": "a pity"}]}
	]}`))
	if err != nil {
		t.Fatal(err)
	}
	srv := serve(t, script)
	const messages = `{"model":"parley-model","tools":[{"type":"function","function":{"name":"bash","parameters":{"type":"object","properties":{"command":{"type":"string"}},"required":["command"]}}}],"messages":[{"role":"user","content":"write it"},
		{"role":"assistant","tool_calls":[{"id":"1","type":"function","function":{"name":"bash","arguments":"{}"}}]},
		{"role":"tool","tool_call_id":"1","content":"denied"}%s]}`
	for beside, want := range map[string]string{"": "a pity", `,{"role":"user","content":"[parley] the hub commits for you"}`: "then the hub"} {
		answer, err := http.Post(srv.URL+"/v1/chat/completions", "application/json", strings.NewReader(fmt.Sprintf(messages, beside)))
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		if err != nil || !strings.Contains(string(body), want) {
			t.Errorf("beside the result %q: got %s, %v, want %q", beside, body, err, want)
		}
	}
}

func TestScript(t *testing.T) {
	script, err := model.ParseScript([]byte(`{
		"models": ["one", "two"],
		"rules": [
			{"when": {"result": "denied"}, "do": [{"do": "say", "text": "a pity"}]},
			{"when": {"prompt": "(?i)WRITE"}, "do": [{"do": "write", "path": "a", "text": "b"}, {"do": "shell", "command": "ls"}, {"do": "say", "text": "written"}]},
			{"when": {"turn": 3}, "do": [{"do": "say", "text": "third"}]}
		],
		"turns": [[{"do": "say", "text": "first"}], [{"do": "say", "text": "second"}]],
		"otherwise": [{"do": "say", "text": "what?"}]
	}`))
	if err != nil {
		t.Fatal(err)
	}
	srv := serve(t, script)
	for _, tt := range []struct {
		name string
		chat chat
		want string
	}{
		{"turns come one after the other", chat{prompt: "a"}, "first"},
		{"the second turn is counted by prompts", chat{earlier: []string{"a"}, prompt: "b"}, "second"},
		{"a rule may be for a turn", chat{earlier: []string{"a", "b"}, prompt: "c"}, "third"},
		{"what is for nothing is for the rest", chat{earlier: []string{"a", "b", "c"}, prompt: "d"}, "what?"},
		{"a rule for the prompt comes first", chat{prompt: "write it"}, `[write_file {"content":"b","path":"a"}]`},
		{"the next step comes after the result", chat{prompt: "write it", results: []string{"ok"}}, `[run_shell_command {"command":"ls","why":"scripted"}]`},
		{"the last text ends the turn", chat{prompt: "write it", results: []string{"ok", "ok"}}, "written"},
		{"a result may change the course", chat{prompt: "write it", results: []string{"permission denied"}}, "a pity"},
		{"its steps begin after that result", chat{prompt: "write it", results: []string{"denied", "ok"}}, "Done."},
		{"directives come before rules", chat{prompt: "write it, or parley:say text=no"}, "no"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := says(t, srv, tt.chat); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
	t.Run("directives can be switched off", func(t *testing.T) {
		deaf, err := model.ParseScript([]byte(`{"directives": false}`))
		if err != nil {
			t.Fatal(err)
		}
		if got := says(t, serve(t, deaf), chat{prompt: "parley:say text=no"}); got != "OK." {
			t.Errorf("got %q", got)
		}
	})
}

func TestWrongScripts(t *testing.T) {
	for script, want := range map[string]string{
		"{\n\"rules\": 7}": "line 2",
		`{"rulez": []}`:    "rulez",
		`{"rules": [{"when": {"prompt": "("}, "do": []}]}`:   "missing closing )",
		`{"rules": [{"when": {"turn": -1}, "do": []}]}`:      "at least 1",
		`{"turns": [[{"do": "dance"}]]}`:                     `unknown action "dance"`,
		`{"otherwise": [{"do": "say"}]}`:                     "say needs text",
		`{"otherwise": [{"do": "say", "text": "", "x": 1}]}`: "x",
		`{"otherwise": ["say"]}`:                             "a step must be an object",
		`{} {}`:                                              "unexpected data after the script",
	} {
		if _, err := model.ParseScript([]byte(script)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want an error with %q", script, err, want)
		}
	}
}

func FuzzParseScript(f *testing.F) {
	f.Add([]byte(`{"rules": [{"when": {"prompt": "x"}, "do": [{"do": "say", "text": "y"}]}], "turns": [[]], "otherwise": []}`))
	f.Add([]byte(`{"otherwise": [{"do": "plan", "entries": ["a"], "done": 1}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		if s, err := model.ParseScript(text); (s == nil) != (err != nil) {
			t.Fatal("neither a script nor an error")
		}
	})
}
