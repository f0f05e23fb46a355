package cli_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/parley-agents/parley/internal/desk/cli"
	"github.com/parley-agents/parley/protocol/sandbox"
)

func TestModeOf(t *testing.T) {
	for _, c := range cli.Agents() {
		for _, p := range sandbox.Policies() {
			m, ok := cli.ModeOf(append([]string{"/opt/bin/" + c.ACP[0]}, c.ACP[1:]...), p)
			set := len(m.Args)+len(m.Env) > 0 || m.Session != ""
			if want := p != sandbox.PolicyYolo; !ok || set != want {
				t.Errorf("%s under %s: got %+v, want a mode %v", c.Name, p, m, want)
			}
			for _, v := range m.Env {
				if _, value, ok := strings.Cut(v, "="); !ok || strings.HasPrefix(value, "{") && !json.Valid([]byte(value)) {
					t.Errorf("%s under %s: %s is no variable", c.Name, p, v)
				}
			}
			if m.Meta != nil && !json.Valid(m.Meta) {
				t.Errorf("%s under %s: %s is not JSON", c.Name, p, m.Meta)
			}
		}
	}
	for _, command := range [][]string{nil, {"my-agent"}, {"node", "codex-acp"}} {
		if m, ok := cli.ModeOf(command, sandbox.PolicyRead); ok {
			t.Errorf("%v: got %+v, want none", command, m)
		}
	}
	if _, ok := cli.ModeOf([]string{"Codex-ACP.exe"}, sandbox.PolicyRead); !ok {
		t.Error("the name of a program on Windows is not known")
	}
}

func TestNoReject(t *testing.T) {
	want := map[string]bool{"codex": true, "copilot": true, "opencode": true, "qwen": true}
	for _, c := range cli.Agents() {
		if got := cli.NoReject([]string{"/opt/bin/" + c.ACP[0]}); got != want[c.Name] {
			t.Errorf("%s: got %v, want %v", c.Name, got, want[c.Name])
		}
	}
	if cli.NoReject(nil) || cli.NoReject([]string{"my-agent"}) {
		t.Error("an unknown agent: got true, want false")
	}
}
