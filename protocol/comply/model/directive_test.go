package model_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/parley-agents/parley/protocol/comply/model"
)

func TestDirectives(t *testing.T) {
	tests := []struct {
		name, prompt string
		want         []model.Step
	}{
		{"there may be none", "please write a file; see parley: it is good", nil},
		{"a word, a JSON string, single quotes", `parley:edit path=a.txt old="x\ny" new='say "z"'`, []model.Step{{Do: model.Edit, Path: "a.txt", Old: "x\ny", New: `say "z"`}}},
		{"text around them is ignored", "Hello.\n  parley:say text=hi and then\nparley:think text=hm\n", []model.Step{{Do: model.Say, Text: "hi"}, {Do: model.Think, Text: "hm"}}},
		{"tags around them are, too", "<user_query>parley:say text='hi'</user_query>", []model.Step{{Do: model.Say, Text: "hi"}}},
		{"a word that ends like one is none", "xparley:say text=hi", nil},
		{"a plus joins calls", "parley:read path=a parley:+read path=b", []model.Step{{Do: model.Read, Path: "a"}, {Do: model.Read, Path: "b", Join: true}}},
		{"numbers, lists and objects", `parley:plan entries='a;b c' done=1 parley:mcp name=echo server=s args='{"text":"x"}' parley:error status=429 retryAfter=2 times=3`, []model.Step{
			{Do: model.Plan, Entries: []string{"a", "b c"}, Done: 1}, {Do: model.MCP, Name: "echo", Server: "s", Args: json.RawMessage(`{"text":"x"}`)}, {Do: model.Error, Status: 429, RetryAfter: 2, Times: 3}}},
		{"text may be empty", `parley:write path=a text=""`, []model.Step{{Do: model.Write, Path: "a"}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := model.Directives(tt.prompt)
			if err != nil || !reflect.DeepEqual(got, tt.want) {
				t.Errorf("got %+v, %v, want %+v", got, err, tt.want)
			}
		})
	}
}

func TestWrongDirectives(t *testing.T) {
	for prompt, want := range map[string]string{
		"parley:fly to=moon":                      `fly`,
		"parley:write path=a":                     "write needs text",
		"parley:say text=a path=b":                "say has no path",
		"parley:say text=a text=b":                "appears twice",
		`parley:say text="a`:                      "not a JSON string",
		"parley:say text='a":                      "closing quote",
		"parley:slow delay=soon":                  "must be a number",
		"parley:slow delay=99999999":              "delay must be between 0 and",
		"parley:+say text=a":                      "cannot be joined",
		"parley:tool name=x args=[1]":             "JSON object",
		"parley:error status=200":                 "status must be between 400 and 599",
		"parley:fail how=well":                    "how must be one of json, sse, cut, empty",
		"parley:recall":                           "recall needs text or kind",
		"parley:recall kind=smell":                "kind must be one of",
		strings.Repeat("parley:hang\n", 1001):     "limit 1000",
		"parley:plan entries=a done=2":            "done must be between 0 and 1",
		"parley:say text=ok\nparley:shell cmd=ls": "shell",
	} {
		if steps, err := model.Directives(prompt); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s: got %v, %v, want an error with %q", prompt, steps, err, want)
		}
	}
}

func FuzzDirectives(f *testing.F) {
	for _, s := range []string{`parley:say text="hi"`, `parley:+read path=a`, `parley:mcp name=x args='{}'`, `parley:plan entries=a;b done=1`, "parley:say text='", `parley:say text="\u`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, prompt string) {
		steps, err := model.Directives(prompt)
		if err != nil {
			return
		}
		for _, s := range steps {
			text, err := json.Marshal(s)
			if err != nil {
				t.Fatalf("%+v cannot be encoded: %v", s, err)
			}
			var again model.Step
			// What is empty is left out, and some of it is needed.
			if err := json.Unmarshal(text, &again); err == nil && !reflect.DeepEqual(s, again) {
				t.Fatalf("got %+v, want %+v", again, s)
			}
		}
	})
}
