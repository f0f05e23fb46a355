package acp_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/parley-agents/parley/protocol/acp"
	"github.com/parley-agents/parley/protocol/acp/acpv1"
	"github.com/parley-agents/parley/protocol/acp/acpv2"
)

// exchange sends lines to an agent, ends its input and returns what it wrote.
func exchange(t *testing.T, agent *acp.Agent, lines ...string) []frame {
	t.Helper()
	var out strings.Builder
	if err := acp.Serve(within(t), agent, strings.NewReader(strings.Join(lines, "\n")+"\n"), &out); err != nil {
		t.Fatal(err)
	}
	var frames []frame
	for line := range strings.Lines(out.String()) {
		var f frame
		if err := json.Unmarshal([]byte(line), &f); err != nil {
			t.Fatalf("the agent wrote %q: %v", line, err)
		}
		frames = append(frames, f)
	}
	return frames
}

func TestServe(t *testing.T) {
	initialize := func(version string) string {
		return `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":` + version + `,"info":{"name":"c","version":"1"}}}`
	}
	for _, test := range []struct {
		name, request, want string
		v2                  bool
	}{
		{"version 1 is answered with version 1", initialize("1"), `"protocolVersion":1`, true},
		{"a later version is answered with the latest", initialize("65535"), `"protocolVersion":2`, true},
		{"an earlier version is answered with the latest", initialize("0"), `"protocolVersion":2`, true},
		{"an agent of version 1 answers so", initialize("2"), `"protocolVersion":1`, false},
		{"a version that is no integer is invalid", initialize(`"1"`), `-32602`, false},
		{"a missing version is invalid", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}`, `-32602`, false},
		{"initialize comes first", `{"jsonrpc":"2.0","id":1,"method":"session/new","params":{"cwd":"/","mcpServers":[]}}`, `-32600`, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := exchange(t, &acp.Agent{V2: test.v2, Prompt: echo}, test.request)
			if got := string(f[0].Result) + string(f[0].Error); !strings.Contains(got, test.want) {
				t.Errorf("got %s, want it to contain %s", got, test.want)
			}
		})
	}
	for _, test := range []struct{ name, request, want string }{
		{"a repeated initialize is answered", `"method":"initialize","params":{"protocolVersion":1}`, "-32600"},
		{"an unknown method is not found", `"method":"session/dance"`, "-32601"},
		{"an extension without a handler is not found", `"method":"_dance"`, "-32601"},
		{"a method that is not offered is not found", `"method":"session/list","params":{}`, "-32601"},
		{"a method of the other version is not found", `"method":"auth/login","params":{"methodId":"x"}`, "-32601"},
		{"a method of clients is not found", `"method":"fs/read_text_file","params":{"sessionId":"x","path":"/x"}`, "-32601"},
		{"malformed params are invalid", `"method":"session/new","params":{"cwd":7}`, "-32602"},
		{"a relative folder is invalid", `"method":"session/new","params":{"cwd":"here","mcpServers":[]}`, "-32602"},
		{"a prompt for an unknown session is refused", `"method":"session/prompt","params":{"sessionId":"none","prompt":[]}`, "-32002"},
		{"closing an unknown session is refused", `"method":"session/close","params":{"sessionId":"none"}`, "-32002"},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := exchange(t, &acp.Agent{Prompt: echo}, initialize("1"), `{"jsonrpc":"2.0","id":2,`+test.request+`}`)
			for _, f := range f {
				if string(f.ID) == "2" && strings.Contains(string(f.Error), test.want) {
					return
				}
			}
			t.Errorf("got %+v, want the error %s", f, test.want)
		})
	}
	t.Run("an initialize that cannot be read does not hold up what follows", func(t *testing.T) {
		for _, bad := range []string{
			`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1,"protocolVersion":1}}`,
			`{"jsonrpc":"2.0","id":1,"id":2,"method":"initialize","params":{"protocolVersion":1}}`,
			`{"jsonrpc":"2.0","id":{},"method":"initialize","params":{"protocolVersion":1}}`,
			`{"jsonrpc":"1.0","id":1,"method":"initialize","params":{"protocolVersion":1}}`,
		} {
			f := exchange(t, &acp.Agent{Prompt: echo}, bad, `{"jsonrpc":"2.0","id":3,"method":"session/new","params":{"cwd":"/","mcpServers":[]}}`)
			if last := f[len(f)-1]; string(last.ID) != "3" || last.Error == nil {
				t.Errorf("%s: got %+v, want an error for the second", bad, f)
			}
		}
	})
	t.Run("an agent without Prompt cannot serve", func(t *testing.T) {
		if err := acp.Serve(within(t), &acp.Agent{}, strings.NewReader(""), io.Discard); err == nil {
			t.Error("it served")
		}
	})
	t.Run("the end of the context ends it, and its turns", func(t *testing.T) {
		both(t, func(t *testing.T, v2 bool) {
			r, w := io.Pipe()
			out, agentOut := io.Pipe()
			ctx, cancel := context.WithCancel(within(t))
			began, ended := make(chan struct{}), make(chan error, 1)
			go func() {
				ended <- acp.Serve(ctx, &acp.Agent{V2: true, Prompt: func(ctx context.Context, t *acp.AgentTurn) (acp.StopReason, error) {
					close(began)
					<-ctx.Done()
					return "", ctx.Err()
				}}, r, agentOut)
				agentOut.Close()
			}()
			c, err := acp.Connect(ctx, out, w, &acp.Options{V2: v2})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			turn := prompt(t, open(t, c), "go")
			<-began
			cancel()
			if err := <-ended; !errors.Is(err, context.Canceled) {
				t.Errorf("got %v, want the end of the context", err)
			}
			turn.Wait()
		})
	})
	t.Run("a second prompt in a turn is refused, and the end of its input ends the turn", func(t *testing.T) {
		both(t, func(t *testing.T, v2 bool) {
			r, w := io.Pipe()
			out, agentOut := io.Pipe()
			ended := make(chan error, 1)
			go func() {
				ended <- acp.Serve(within(t), &acp.Agent{V2: true, Prompt: untilCancelled}, r, agentOut)
				agentOut.Close()
			}()
			lines := bufio.NewScanner(out)
			say := func(format string, args ...any) { fmt.Fprintf(w, format+"\n", args...) }
			version := 1
			if v2 {
				version = 2
			}
			say(initialize(fmt.Sprint(version)))
			lines.Scan()
			say(`{"jsonrpc":"2.0","id":2,"method":"session/new","params":{"cwd":"/","mcpServers":[]}}`)
			lines.Scan()
			var answer struct{ Result struct{ SessionID string } }
			if err := json.Unmarshal(lines.Bytes(), &answer); err != nil {
				t.Fatal(err)
			}
			say(`{"jsonrpc":"2.0","id":3,"method":"session/prompt","params":{"sessionId":%q,"prompt":[{"type":"text","text":"go"}]}}`, answer.Result.SessionID)
			say(`{"jsonrpc":"2.0","id":4,"method":"session/prompt","params":{"sessionId":%q,"prompt":[{"type":"text","text":"more"}]}}`, answer.Result.SessionID)
			refused := 0
			for lines.Scan() {
				if strings.Contains(lines.Text(), "already works on a prompt") {
					refused++
					w.Close()
				}
			}
			if err := <-ended; err != nil || refused != 1 {
				t.Errorf("got %v, %d prompts refused; want a good end and one", err, refused)
			}
		})
	})
}

func TestSpeakToVersion1(t *testing.T) {
	diff := acpv2.ToolCallUpdate{ToolCallID: "c", Title: acpv2.Set("edit"), Status: acpv2.Set(acpv2.ToolCallStatusCancelled)}
	t.Run("R2-021 what version 1 cannot say is an error for the agent", func(t *testing.T) {
		failed := make(chan error, 1)
		c := connect(t, &acp.Agent{Prompt: func(ctx context.Context, t *acp.AgentTurn) (acp.StopReason, error) {
			failed <- t.ToolCall(ctx, diff)
			return acpv2.StopReasonEndTurn, nil
		}}, nil)
		prompt(t, open(t, c), "go").Wait()
		var problem *acpv2.Problem
		if err := <-failed; !errors.As(err, &problem) || problem.Path != "/update/status" {
			t.Errorf("got %v, want the path of what cannot be said", err)
		}
	})
	t.Run("a lossy agent says what is nearest", func(t *testing.T) {
		c := connect(t, &acp.Agent{Lossy: true, Prompt: func(ctx context.Context, t *acp.AgentTurn) (acp.StopReason, error) {
			return acpv2.StopReasonEndTurn, t.ToolCall(ctx, diff)
		}}, nil)
		for u := range prompt(t, open(t, c), "go").Updates() {
			if got := u.ToolCall(); got.Status != "failed" || u.Tag() != "tool_call" {
				t.Errorf("got %s %+v, want a new call that failed", u.Tag(), got)
			}
		}
	})
	t.Run("an update of version 1 goes to clients of version 1 only", func(t *testing.T) {
		both(t, func(t *testing.T, v2 bool) {
			c := connect(t, &acp.Agent{V2: true, Prompt: func(ctx context.Context, t *acp.AgentTurn) (acp.StopReason, error) {
				return acpv2.StopReasonEndTurn, t.UpdateV1(ctx, acpv1.SessionUpdate{CurrentModeUpdate: &acpv1.CurrentModeUpdate{CurrentModeID: "code"}})
			}}, &acp.Options{V2: v2})
			s := open(t, c)
			if _, err := prompt(t, s, "go").Wait(); (err != nil) != v2 || !v2 && s.Settings().Mode != "code" {
				t.Errorf("got %v and the mode %q", err, s.Settings().Mode)
			}
		})
	})
}
