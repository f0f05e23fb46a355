package run_test

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/parley-agents/parley/internal/work/run"
	"github.com/parley-agents/parley/protocol/acp"
	"github.com/parley-agents/parley/protocol/jsonrpc"
)

func TestExplain(t *testing.T) {
	noisy := strings.Repeat("loading\n", 50) + "\x1b[31mtoken sk-0123456789abcdefgh\x1b[0m\nno model\n\n"
	for _, tt := range []struct {
		name      string
		err       error
		text, not []string
		hint      string
		lines     int
	}{
		{"the data of an error is shown, a string without its quotes",
			fmt.Errorf("session/new: %w", &jsonrpc.Error{Code: -32603, Message: "Internal error", Data: json.RawMessage(`"the API key is wrong"`)}),
			[]string{"session/new: Internal error", "the agent adds: the API key is wrong"}, nil, "by hand", 2},
		{"an object is shown as it is", &jsonrpc.Error{Message: "no", Data: json.RawMessage(`{"details":"quota"}`)}, []string{`{"details":"quota"}`}, nil, "by hand", 2},
		{"long data is cut", &jsonrpc.Error{Message: "no", Data: json.RawMessage(`"` + strings.Repeat("x", 9000) + `"`)}, nil, []string{strings.Repeat("x", 600)}, "by hand", 2},
		{"the last lines of standard error, without secrets and escapes", &acp.StartError{Err: fmt.Errorf("it failed"), Stderr: []byte(noisy)},
			[]string{"it failed", "its standard error ends with:", "no model", "[redacted]"}, []string{"\x1b", "sk-0123456789"}, "", 12},
		{"one line that the error has already is not repeated", &acp.StartError{Err: fmt.Errorf("it says: no model"), Stderr: []byte("no model\n")}, []string{"it says: no model"}, []string{"ends with"}, "", 1},
		{"a program that is not there", fmt.Errorf("start: %w", exec.ErrNotFound), nil, nil, "install it", 1},
		{"an agent that needs a login", fmt.Errorf("x: %w", acp.ErrAuthRequired), nil, nil, "--auth", 1},
		{"an agent that is silent", &acp.Fault{Code: acp.FaultSilent, Text: "x"}, nil, nil, "--start-timeout", 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			text, hint := run.Explain(tt.err)
			for _, want := range tt.text {
				if !strings.Contains(text, want) {
					t.Errorf("%q is missing in %q", want, text)
				}
			}
			for _, never := range tt.not {
				if strings.Contains(text, never) {
					t.Errorf("%q is in %q", never, text)
				}
			}
			if !strings.Contains(hint, tt.hint) || (hint == "") != (tt.hint == "") {
				t.Errorf("hint: got %q, want %q", hint, tt.hint)
			}
			if got := strings.Count(text, "\n") + 1; got != tt.lines {
				t.Errorf("got %d lines, want %d:\n%s", got, tt.lines, text)
			}
		})
	}
}
