package fleet_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/parley-agents/parley/internal/testing/hubtest"
	"github.com/parley-agents/parley/internal/work/fleet"
	"github.com/parley-agents/parley/protocol/acp"
	"github.com/parley-agents/parley/protocol/acp/acpv2"
	"github.com/parley-agents/parley/protocol/jsonrpc"
	"github.com/parley-agents/parley/protocol/report"
)

// asAgent in the environment makes the test binary be an agent.
const asAgent = "FLEET_TEST_AS_AGENT"

func TestMain(m *testing.M) {
	if os.Getenv(asAgent) != "" {
		beAgent()
	}
	os.Exit(m.Run())
}

// beAgent is an agent that reports on what it was given.
func beAgent() {
	var servers []acpv2.MCPServer
	turns := 0
	agent := &acp.Agent{
		V2: true,
		NewSession: func(_ context.Context, s *acp.AgentSession) error {
			servers = s.MCPServers
			return nil
		},
		Prompt: func(ctx context.Context, t *acp.AgentTurn) (acp.StopReason, error) {
			turns++
			switch {
			case strings.Contains(t.Text(), "TASK:tools"):
				text := "none"
				if len(servers) == 1 && servers[0].HTTP != nil {
					text = "http " + servers[0].HTTP.URL + " " + servers[0].HTTP.Headers.Or(nil)[0].Value
				} else if len(servers) == 1 {
					text = fmt.Sprint("stdio ", servers[0].Stdio.Command, servers[0].Stdio.Args.Or(nil))
					for _, e := range servers[0].Stdio.Env.Or(nil) {
						text += " " + e.Name + "=" + e.Value
					}
				}
				return acpv2.StopReasonEndTurn, t.Say(ctx, "STATUS:ok\nLEARNED:"+text)
			case strings.Contains(t.Text(), "TASK:environment"):
				_, key := os.LookupEnv("PARLEY_KEY")
				_, session := os.LookupEnv("PARLEY_SESSION")
				return acpv2.StopReasonEndTurn, t.Say(ctx, fmt.Sprintf("STATUS:ok\nLEARNED:run %s, key %v, session %v", os.Getenv(fleet.RunVariable), key, session))
			case strings.Contains(t.Text(), "TASK:refuse"):
				return acpv2.StopReasonRefusal, nil
			case strings.Contains(t.Text(), "TASK:count"):
				return acpv2.StopReasonEndTurn, t.Say(ctx, fmt.Sprint("STATUS:ok\nTESTS:pass:", turns))
			case strings.Contains(t.Text(), "TASK:wait"):
				t.Say(ctx, "waiting")
				<-ctx.Done()
				return acpv2.StopReasonEndTurn, nil
			case strings.Contains(t.Text(), "TASK:babble"):
				for range 64 {
					if err := t.Say(ctx, strings.Repeat("ü", 1<<15)); err != nil {
						return "", err
					}
				}
				return acpv2.StopReasonEndTurn, t.Say(ctx, "\nSTATUS:partial\n")
			}
			return acpv2.StopReasonEndTurn, t.Say(ctx, "never a report")
		},
	}
	if os.Getenv(asAgent) == "http" {
		agent.Capabilities = []acp.Capability{acp.CanMCPHTTP}
	}
	if err := acp.Serve(context.Background(), agent, os.Stdin, os.Stdout); err != nil {
		os.Exit(1)
	}
	os.Exit(0)
}

// launch starts the test binary as an agent of a kind.
func launch(t *testing.T, kind string, tools *fleet.Tools, opts *fleet.Options) *fleet.Agent {
	t.Helper()
	hubtest.NoGoroutinesLeft(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	a, err := fleet.Launch(t.Context(), context.Background(), fleet.Spec{
		Command: []string{"env", asAgent + "=" + kind, self}, Dir: t.TempDir(), Run: "01a1de72-8033-741c-8775-3c09bab7fecc", Tools: tools,
	}, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
	return a
}

// learned gives an agent a task and returns what it learned.
func learned(t *testing.T, a *fleet.Agent, task string) string {
	t.Helper()
	r, err := a.Work(t.Context(), report.Dispatch{Task: task})
	if err != nil || r.Report == nil {
		t.Fatalf("got %+v, %v", r, err)
	}
	return r.Report.Learned
}

func TestLaunch(t *testing.T) {
	t.Setenv("PARLEY_KEY", "the caller's")
	t.Setenv("PARLEY_SESSION", "the caller's")
	tools := &fleet.Tools{Name: "parley", URL: "http://hub", Key: "k", Bridge: []string{"/bin/parley", "mcp"}, BridgeEnv: []string{"A=b"}}
	t.Run("an agent that can gets the tools over HTTP", func(t *testing.T) {
		if got := learned(t, launch(t, "http", tools, nil), "tools"); got != "http http://hub/mcp Bearer k" {
			t.Errorf("got %q", got)
		}
	})
	t.Run("another one gets the program that bridges", func(t *testing.T) {
		if got := learned(t, launch(t, "stdio", tools, nil), "tools"); got != "stdio /bin/parley[mcp] A=b PARLEY_URL=http://hub PARLEY_KEY=k" {
			t.Errorf("got %q", got)
		}
	})
	t.Run("without a hub there are none", func(t *testing.T) {
		if got := learned(t, launch(t, "http", nil, nil), "tools"); got != "none" {
			t.Errorf("got %q", got)
		}
	})
	t.Run("an agent knows its run, and never the caller's key and session", func(t *testing.T) {
		if got := learned(t, launch(t, "http", nil, nil), "environment"); got != "run 01a1de72-8033-741c-8775-3c09bab7fecc, key false, session false" {
			t.Errorf("got %q", got)
		}
	})
	t.Run("it has a session, in the version that was agreed", func(t *testing.T) {
		a := launch(t, "http", nil, &fleet.Options{Options: acp.Options{V2: true}})
		if a.Profile().Version != 2 || a.Session() == "" {
			t.Errorf("got version %d, session %q", a.Profile().Version, a.Session())
		}
	})
	for name, command := range map[string][]string{"no command": nil, "no such program": {"/nowhere/agent"}, "no agent": {"true"}} {
		if _, err := fleet.Launch(t.Context(), t.Context(), fleet.Spec{Command: command, Dir: t.TempDir()}, nil); err == nil {
			t.Errorf("%s: it was launched", name)
		}
	}
}

func TestWork(t *testing.T) {
	a := launch(t, "http", nil, nil)
	for turn := range 2 { // one that is kept running takes one task after the other
		r, err := a.Work(t.Context(), report.Dispatch{Task: "count"})
		if err != nil || r.Report == nil || r.Repeated || string(r.Report.Tests) != fmt.Sprint("pass:", turn+1) {
			t.Errorf("got %+v, %v", r, err)
		}
	}
	if r, err := a.Work(t.Context(), report.Dispatch{Task: "babble"}); err != nil || r.Report == nil || r.Report.Status != report.StatusPartial || len(r.Text) > 4<<20 {
		t.Errorf("after much text: %v, %v", r.Report, err)
	}
	if r, err := a.Work(t.Context(), report.Dispatch{Task: "nothing"}); err != nil || r.Report != nil || !r.Repeated {
		t.Errorf("R0-030 an agent without a report is asked once: got %+v, %v", r, err)
	}
	if r, err := a.Work(t.Context(), report.Dispatch{Task: "refuse"}); err != nil || r.Report != nil || r.Repeated || r.StopReason != acpv2.StopReasonRefusal {
		t.Errorf("one that refuses is not asked: got %+v, %v", r, err)
	}
	if _, err := a.Work(t.Context(), report.Dispatch{}); err == nil {
		t.Error("a dispatch without a task was sent")
	}
	t.Run("R0-030 the prompts of the two phases are those of the package", func(t *testing.T) {
		var mu sync.Mutex
		var raw []byte
		b := launch(t, "http", nil, &fleet.Options{Options: acp.Options{Tap: func(_ jsonrpc.Direction, f jsonrpc.Frame) {
			mu.Lock()
			defer mu.Unlock()
			raw = append(raw, f.Raw...)
		}}})
		if _, err := b.Work(t.Context(), report.Dispatch{Task: "nothing"}); err != nil {
			t.Fatal(err)
		}
		mu.Lock()
		defer mu.Unlock()
		for _, part := range []string{"TASK:nothing", "answer with a report and nothing", "your tools are switched off"} {
			if n := strings.Count(string(raw), part); n != 1 {
				t.Errorf("%q was sent %d times, want once", part, n)
			}
		}
	})
	t.Run("a task that is cancelled ends", func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		why := errors.New("enough")
		b := launch(t, "http", nil, &fleet.Options{OnUpdate: func(*acp.Update) { cancel(why) }})
		if _, err := b.Work(ctx, report.Dispatch{Task: "wait"}); !errors.Is(err, why) {
			t.Errorf("got %v, want why it was cancelled", err)
		}
	})
}
