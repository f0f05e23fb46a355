package server_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/operation/rpc"
	"github.com/parley-agents/parley/internal/service/usage"
)

// money has an agent report usage with its own key, to spend what belongs to others or to hide what they
// spent. The hub's budget may count nothing of it, and the usage of alice stays.
func (s *scene) money() {
	s.renew()
	operator := s.as(s.operator)
	if _, err := rpc.Call(s.t.Context(), operator, api.SetBudget, usage.Limit{Of: "hub", Money: 1, Per: hub.PerTotal}); err != nil {
		s.t.Fatal(err)
	}
	if _, err := rpc.Call(s.t.Context(), operator, api.RecordUsage, usage.Report{
		Agent: "alice", Source: hub.UsageACP, CLI: "claude", Calls: []hub.ModelCall{{ID: "msg_true", Model: "claude-sonnet-4-5", Tokens: hub.Tokens{Input: 1000}}},
	}); err != nil {
		s.t.Fatal(err)
	}
	runs := hub.NewIDs(time.Now)
	run := hub.RunID(runs.Next())
	s.call(s.t, s.alice, "parley/run/begin", fmt.Sprintf(`{"run_id":%q,"agent":"alice","task":"the work","timeout_s":60}`, run))

	// Files that are no transcripts of the CLI, or hold no such call.
	dir := s.t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			s.t.Fatal(err)
		}
		return path
	}
	line := `{"type":"assistant","message":{"id":"msg_x","model":"claude-opus-5","usage":{"input_tokens":900000000,"output_tokens":900000000}}}` + "\n"
	link := filepath.Join(dir, "link.jsonl")
	if err := os.Symlink(write("real.txt", line), link); err != nil {
		s.t.Fatal(err)
	}
	files := []string{"", write("t.txt", line), link, write("other.jsonl", "{}\n"), filepath.Join(dir, "none.jsonl"), "t.jsonl", dir, "/dev/zero"}

	spent := func() float64 {
		list, err := rpc.Call(s.t.Context(), operator, api.ListBudgets, api.None{})
		if err != nil || len(list.Budgets) == 0 {
			s.t.Fatalf("the budgets: %+v, %v", list, err)
		}
		return list.Budgets[0].Used
	}
	alice := func() hub.Tokens {
		got, err := rpc.Call(s.t.Context(), operator, api.ShowSpend, usage.Query{Agent: "alice"})
		if err != nil {
			s.t.Fatal(err)
		}
		return got.Total.Tokens
	}
	before, hers := spent(), alice()
	for i, source := range hub.UsageSources {
		for j, path := range files {
			for k, id := range []string{"msg_x", "msg_true", fmt.Sprintf("msg_%d_%d", i, j)} {
				for _, more := range []string{``, `,"agent":"alice"`, `,"record":"u1"`, fmt.Sprintf(`,"run":%q`, run), fmt.Sprintf(`,"run":%q`, runs.Next())} {
					part, err := json.Marshal([]usage.TranscriptPart{{Path: path}})
					if err != nil {
						s.t.Fatal(err)
					}
					s.call(s.t, s.mallory, "parley/spend/record", fmt.Sprintf(
						`{"source":%q,"cli":"claude","ended":true,"turn":"t-%d-%d-%d","files":%s,"calls":[{"id":%q,"model":"claude-opus-5","input":900000000,"output":900000000,"cached_read":0,"cached_write":0,"reasoning":0,"cost":99999000000,"currency":"USD"}]%s}`,
						source, i, j, k, part, id, more))
					s.try(spent() != before || alice() != hers, "source %s, file %q, call %s%s: the hub's budget counts %v (%v before), alice has %+v", source, path, id, more, spent(), before, alice())
				}
			}
		}
	}

	// Prices and budgets are the operator's.
	for _, call := range [][2]string{
		{"parley/spend/prices/set", `{"models":{"claude-sonnet-4-5":{"input":0,"output":0,"cached_read":0,"cached_write":0}}}`},
		{"parley/budget/set", `{"of":"mallory","money":1000,"per":"day","unpriced":"allow"}`}, {"parley/budget/remove", `{"id":"b1"}`},
	} {
		s.try(s.call(s.t, s.mallory, call[0], call[1]).Error == nil, "%s %s was taken", call[0], call[1])
	}
	if _, err := rpc.Call(s.t.Context(), operator, api.RemoveBudget, api.BudgetParams{ID: "b1"}); err != nil {
		s.t.Error(err)
	}
}
