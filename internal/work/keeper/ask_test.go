package keeper

import (
	"testing"

	"github.com/parley-agents/parley/protocol/acp"
	"github.com/parley-agents/parley/protocol/sandbox"
)

func TestHubTools(t *testing.T) {
	options := []sandbox.Option{{ID: "always", Name: "Always Allow in project: acp_inbox", Kind: sandbox.AllowAlways}, {ID: "once", Name: "Allow", Kind: sandbox.AllowOnce}, {ID: "no", Name: "Reject", Kind: sandbox.RejectOnce}}
	for name, c := range map[string]struct {
		request sandbox.Request
		want    string // the option that is chosen
	}{
		"Claude Code":       {sandbox.Request{Kind: sandbox.KindOther, Title: "mcp__parley__acp_inbox", Options: options[1:]}, "once"},
		"Gemini CLI":        {sandbox.Request{Kind: sandbox.KindOther, Title: "acp_inbox (parley MCP Server)", Options: options[1:]}, "once"},
		"Copilot":           {sandbox.Request{Kind: sandbox.KindOther, Title: "Read the inbox, wait for messages", Options: options[1:]}, "once"},
		"Qwen Code":         {sandbox.Request{Kind: sandbox.KindOther, Title: `{"ack":true}`, Options: options}, "once"},
		"another tool":      {sandbox.Request{Kind: sandbox.KindOther, Title: "mcp__github__push", Options: options[1:]}, "no"},
		"words of a model":  {sandbox.Request{Kind: sandbox.KindOther, Title: `{"query":"mcp__parley__acp_inbox"}`, Options: options[1:]}, "no"},
		"a command":         {sandbox.Request{Kind: sandbox.KindExecute, Title: "acp_inbox", Options: options}, "no"},
		"a change of files": {sandbox.Request{Kind: sandbox.KindOther, Title: "acp_inbox", Paths: []string{"a.go"}, Options: options}, "no"},
	} {
		k := &Keeper{o: Options{Tools: map[string]string{"acp_inbox": "Read the inbox, wait for messages"}}}
		a := &agent{Keeper: k, log: newLines()}
		got, err := permissions{a, sandbox.PolicyRead, nil, ""}.Decide(t.Context(), &acp.PermissionRequest{Request: c.request})
		if err != nil || got.OptionID != c.want {
			t.Errorf("%s: got %+v, %v, want %s", name, got, err, c.want)
		}
		if lines, _ := a.log.after(0); (len(lines) == 1) != (c.want == "no") {
			t.Errorf("%s: got the log %v", name, lines)
		}
	}
}
