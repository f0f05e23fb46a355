package model_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/parley-agents/parley/protocol/comply/model"
)

// answerTo sends a prompt to one API of a scripted model and returns the status and the body.
func answerTo(t *testing.T, url, path, body string) (int, http.Header, string) {
	t.Helper()
	resp, err := http.Post(url+path, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, resp.Header, string(raw)
}

// requests has the body of a request with a prompt for each API, by the path.
func requests(prompt string) map[string]string {
	text, _ := json.Marshal(prompt) // a string: cannot fail
	quoted := string(text)
	return map[string]string{
		"/v1/messages":                     `{"model":"m","messages":[{"role":"user","content":` + quoted + `}]}`,
		"/v1/chat/completions":             `{"model":"m","messages":[{"role":"user","content":` + quoted + `}]}`,
		"/v1/responses":                    `{"model":"m","input":[{"role":"user","content":` + quoted + `}]}`,
		"/v1beta/models/m:generateContent": `{"contents":[{"role":"user","parts":[{"text":` + quoted + `}]}]}`,
	}
}

func TestVendorErrors(t *testing.T) {
	server := httptest.NewServer(model.New(nil))
	defer server.Close()
	for _, tt := range []struct {
		how, path string
		status    int
		has       string
	}{
		{"quota", "/v1/messages", 429, `"rate_limit_error"`},
		{"quota", "/v1/chat/completions", 429, `"insufficient_quota"`},
		{"quota", "/v1/responses", 429, `"insufficient_quota"`},
		{"quota", "/v1beta/models/m:generateContent", 429, `PerDay`},
		{"rate", "/v1/chat/completions", 429, `"rate_limit_exceeded"`},
		{"login", "/v1/messages", 401, `"authentication_error"`},
		{"login", "/v1beta/models/m:generateContent", 401, `UNAUTHENTICATED`},
		{"context", "/v1/messages", 400, `prompt is too long`},
		{"context", "/v1/responses", 400, `context_length_exceeded`},
		{"overload", "/v1/messages", 529, `overloaded_error`},
		{"overload", "/v1/chat/completions", 503, `overloaded`},
	} {
		status, header, body := answerTo(t, server.URL, tt.path, requests("parley:error how=" + tt.how)[tt.path])
		if status != tt.status || !strings.Contains(body, tt.has) {
			t.Errorf("%s at %s: got %d %s, want %d with %s", tt.how, tt.path, status, body, tt.status, tt.has)
		}
		if tt.how == "quota" && tt.path == "/v1/messages" && header.Get("x-should-retry") != "false" {
			t.Errorf("the headers of a spent quota: %v", header)
		}
	}
	if _, err := model.Directives("parley:error how=boredom"); err == nil {
		t.Error("an unknown cause was accepted")
	}
}

func TestUsage(t *testing.T) {
	server := httptest.NewServer(model.New(nil))
	defer server.Close()
	for path, want := range map[string][]string{
		"/v1/messages":                     {`"input_tokens":933`, `"cache_read_input_tokens":301`, `"cache_creation_input_tokens":77`, `"output_tokens":567`},
		"/v1/chat/completions":             {`"prompt_tokens":1234`, `"cached_tokens":301`, `"completion_tokens":567`, `"reasoning_tokens":33`},
		"/v1/responses":                    {`"input_tokens":1234`, `"cached_tokens":301`, `"output_tokens":567`, `"reasoning_tokens":33`},
		"/v1beta/models/m:generateContent": {`"promptTokenCount":1234`, `"cachedContentTokenCount":301`, `"candidatesTokenCount":534`, `"thoughtsTokenCount":33`},
	} {
		status, _, body := answerTo(t, server.URL, path, requests("parley:usage input=1234 cached=301 written=77 output=567 reasoning=33\nparley:say text=hi")[path])
		for _, member := range want {
			if status != 200 || !strings.Contains(body, member) {
				t.Errorf("%s: got %d %s, want %s", path, status, body, member)
			}
		}
	}
}
