package model_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/parley-agents/parley/protocol/comply/model"
)

var update = flag.Bool("update", false, "write golden files anew")

// TestAnswers compares whole answers, byte for byte.
func TestAnswers(t *testing.T) {
	cases := []struct {
		name string
		chat chat
	}{
		{"text", chat{prompt: `parley:think text="let me see" parley:say text="hello there" chunk=6`}},
		{"call", chat{prompt: `parley:say text=on parley:write path=a.txt text="hello there, all of you"`}},
		{"calls", chat{prompt: `parley:write path=a.txt text=x parley:+shell command=ls`}},
		{"done", chat{prompt: `parley:write path=a.txt text=x`, results: []string{"ok"}}},
		{"refuse", chat{prompt: `parley:refuse text="not that"`}},
		{"length", chat{prompt: `parley:length`}},
		{"empty", chat{prompt: `parley:fail how=empty`}},
	}
	srv := serve(t, nil)
	for _, d := range dialects {
		for _, c := range cases {
			for _, stream := range []bool{false, true} {
				name := d.name + "-" + c.name
				if stream {
					name += "-stream"
				}
				t.Run(name, func(t *testing.T) {
					c.chat.stream = stream
					status, header, got := d.ask(t, srv.URL, c.chat)
					if want := map[bool]string{false: "application/json", true: "text/event-stream"}[stream]; status != http.StatusOK || header.Get("Content-Type") != want {
						t.Errorf("got %d %s, want 200 %s", status, header.Get("Content-Type"), want)
					}
					if stream {
						checkEvents(t, got)
					}
					golden(t, name, got)
				})
			}
		}
	}
}

// checkEvents fails unless each event has one line of data that is JSON.
func checkEvents(t *testing.T, text string) {
	t.Helper()
	for _, e := range strings.Split(strings.TrimSuffix(text, "\n\n"), "\n\n") {
		_, data, ok := strings.Cut("\n"+e, "\ndata: ")
		if !ok || data != "[DONE]" && !json.Valid([]byte(data)) {
			t.Errorf("no event: %q", e)
		}
	}
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", "golden", name+".txt")
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v (run with -update to make it)", err)
	}
	if got != string(want) {
		t.Errorf("%s has changed; read it and run with -update\ngot:\n%s\nwant:\n%s", path, got, want)
	}
}

func TestMisbehaviour(t *testing.T) {
	for _, d := range dialects {
		t.Run(d.name, func(t *testing.T) {
			srv := serve(t, nil)
			t.Run("an error has its status and its text", func(t *testing.T) {
				status, _, body := d.ask(t, srv.URL, chat{prompt: `parley:error status=503 text="try later"`, stream: true})
				if status != http.StatusServiceUnavailable {
					t.Errorf("got %d, want 503", status)
				}
				contains(t, body, `"error":{`, `"message":"try later"`)
			})
			t.Run("a rate limit says when to try again, and ends when it was told to", func(t *testing.T) {
				limited := chat{prompt: `parley:error status=429 retryAfter=1 times=2 parley:say text=finally`}
				for range 2 {
					if status, header, _ := d.ask(t, srv.URL, limited); status != http.StatusTooManyRequests || header.Get("Retry-After") != "1" {
						t.Errorf("got %d, Retry-After %q", status, header.Get("Retry-After"))
					}
				}
				status, _, body := d.ask(t, srv.URL, limited)
				if status != http.StatusOK {
					t.Errorf("got %d, want 200 after two failures", status)
				}
				contains(t, body, "finally")
			})
			t.Run("a stream may fail in the middle", func(t *testing.T) {
				status, _, body := d.ask(t, srv.URL, chat{prompt: `parley:say text=well parley:error text=oops`, stream: true})
				if status != http.StatusOK {
					t.Errorf("got %d, want 200", status)
				}
				contains(t, body, "well", `"message":"oops"`)
			})
			t.Run("an event may be no JSON", func(t *testing.T) {
				_, _, body := d.ask(t, srv.URL, chat{prompt: `parley:fail how=sse`, stream: true})
				contains(t, body, "data: {\"broken\": \n\n")
				if _, _, body := d.ask(t, srv.URL, chat{prompt: `parley:fail how=sse`}); json.Valid([]byte(body)) {
					t.Errorf("got JSON: %s", body)
				}
			})
			t.Run("arguments may be no JSON", func(t *testing.T) {
				_, _, body := d.ask(t, srv.URL, chat{prompt: `parley:fail how=json parley:say text=after`})
				contains(t, body, `{\"path\": \"broken.txt\", \"te`)
				_, _, body = d.ask(t, srv.URL, chat{prompt: `parley:fail how=json parley:say text=after`, results: []string{"what?"}})
				contains(t, body, "after")
			})
			for _, stream := range []bool{false, true} {
				t.Run("a connection may end in the middle", func(t *testing.T) {
					c := chat{prompt: `parley:fail how=cut`, stream: stream}
					resp, err := post(t.Context(), t, srv.URL+d.path(c), d.body(c))
					if err != nil {
						t.Fatal(err)
					}
					defer resp.Body.Close()
					if _, err := io.ReadAll(resp.Body); !errors.Is(err, io.ErrUnexpectedEOF) {
						t.Errorf("got %v, want an end in the middle", err)
					}
				})
				t.Run("nothing may come until the agent gives up", func(t *testing.T) {
					ctx, cancel := context.WithCancel(t.Context())
					c := chat{prompt: `parley:hang`, stream: stream}
					time.AfterFunc(20*time.Millisecond, cancel)
					if resp, err := post(ctx, t, srv.URL+d.path(c), d.body(c)); !errors.Is(err, context.Canceled) {
						t.Errorf("got %v, %v", resp, err)
					}
				})
			}
			t.Run("a slow answer comes in pieces, and ends with the one who asked", func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				c := chat{prompt: `parley:slow chunks=10000 delay=5`, stream: true}
				resp, err := post(ctx, t, srv.URL+d.path(c), d.body(c))
				if err != nil {
					t.Fatal(err)
				}
				defer resp.Body.Close()
				lines := bufio.NewScanner(resp.Body)
				for lines.Scan() && !strings.Contains(lines.Text(), `"2 "`) {
				}
				contains(t, lines.Text(), `"2 "`)
			})
		})
	}
}

func TestServer(t *testing.T) {
	srv := serve(t, nil)
	t.Run("models are listed as each API does", func(t *testing.T) {
		var list struct {
			Object string
			Data   []struct{ ID, Object, Type string }
		}
		get(t, srv.URL+"/v1/models", &list)
		if list.Object != "list" || len(list.Data) != 1 || list.Data[0].ID != model.DefaultModel || list.Data[0].Object != "model" || list.Data[0].Type != "model" {
			t.Errorf("got %+v", list)
		}
		var gemini struct{ Models []struct{ Name string } }
		get(t, srv.URL+"/v1beta/models", &gemini)
		if len(gemini.Models) != 1 || gemini.Models[0].Name != "models/"+model.DefaultModel {
			t.Errorf("got %+v", gemini)
		}
		var one struct{ ID string }
		if get(t, srv.URL+"/v1/models/some", &one); one.ID != "some" {
			t.Errorf("got %+v", one)
		}
	})
	t.Run("tokens are counted", func(t *testing.T) {
		for path, member := range map[string]string{"/v1/messages/count_tokens": "input_tokens", "/v1beta/models/any:countTokens": "totalTokens"} {
			resp, err := post(t.Context(), t, srv.URL+path, m{"messages": l{}})
			if err != nil {
				t.Fatal(err)
			}
			var got map[string]int
			if err := json.NewDecoder(resp.Body).Decode(&got); err != nil || got[member] == 0 {
				t.Errorf("%s: got %v, %v", path, got, err)
			}
			resp.Body.Close()
		}
	})
	t.Run("the log tells what was asked, and can be emptied", func(t *testing.T) {
		srv := serve(t, nil)
		dialects[0].ask(t, srv.URL, chat{prompt: "parley:write path=a.txt text=x", stream: true})
		dialects[2].ask(t, srv.URL, chat{system: "You are a title generator.", prompt: "hello", bare: true})
		var log struct{ Requests []model.Exchange }
		get(t, srv.URL+"/_log", &log)
		if len(log.Requests) != 2 {
			t.Fatalf("got %+v", log)
		}
		first, second := log.Requests[0], log.Requests[1]
		if first.API != "chat" || !first.Stream || first.Side || first.Prompt != "parley:write path=a.txt text=x" || first.Answer != "call write_file, calls" || len(first.Tools) != len(offered) || !json.Valid(first.Body) {
			t.Errorf("got %+v", first)
		}
		if second.API != "messages" || !second.Side || second.Seq != 2 {
			t.Errorf("got %+v", second)
		}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodDelete, srv.URL+"/_log", nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if get(t, srv.URL+"/_log", &log); len(log.Requests) != 0 {
			t.Errorf("got %+v", log)
		}
	})
	t.Run("what is no request of an API is refused", func(t *testing.T) {
		for path, want := range map[string]int{"/v1/nothing": 404, "/v1/chat/completions": 400, "/v1/messages": 400, "/v1/responses": 400, "/v1beta/models/x:generateContent": 400} {
			resp, err := post(t.Context(), t, srv.URL+path, "no object")
			if err != nil {
				t.Fatal(err)
			}
			if resp.Body.Close(); resp.StatusCode != want {
				t.Errorf("%s: got %d, want %d", path, resp.StatusCode, want)
			}
		}
	})
	t.Run("equal requests get equal answers, save for the ids of calls", func(t *testing.T) {
		c := chat{prompt: "parley:write path=a.txt text=x"}
		one, two := serve(t, nil), serve(t, nil)
		_, _, first := dialects[0].ask(t, one.URL, c)
		_, _, same := dialects[0].ask(t, two.URL, c)
		if first != same {
			t.Errorf("got %s\nand %s", first, same)
		}
		if _, _, again := dialects[0].ask(t, one.URL, c); again == first {
			t.Errorf("a call has the id of an earlier one: %s", again)
		}
	})
	t.Run("only this machine can reach it", func(t *testing.T) {
		for _, addr := range []string{"0.0.0.0:0", ":0", "example.org:80", "nonsense"} {
			if l, err := model.Listen(t.Context(), addr); err == nil {
				l.Close()
				t.Errorf("%s: it listens", addr)
			}
		}
	})
	t.Run("it ends with its context, also in the middle of an answer", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		listener, err := model.Listen(ctx, "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- model.New(nil).Serve(ctx, listener) }()
		c := chat{prompt: "parley:slow delay=60000", stream: true}
		resp, err := post(t.Context(), t, "http://"+listener.Addr().String()+dialects[0].path(c), dialects[0].body(c))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
