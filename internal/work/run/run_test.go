package run_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/testing/hubtest"
	"github.com/parley-agents/parley/internal/work/fleet"
	"github.com/parley-agents/parley/internal/work/run"
	"github.com/parley-agents/parley/protocol/acp"
	"github.com/parley-agents/parley/protocol/acp/acpv2"
	"github.com/parley-agents/parley/protocol/report"
	"github.com/parley-agents/parley/protocol/sandbox"
)

// asAgent in the environment makes the test binary an agent; its value says how
// the agent behaves.
const asAgent = "RUN_TEST_AS_AGENT"

func TestMain(m *testing.M) {
	if mode := os.Getenv(asAgent); mode != "" {
		serveAgent(mode)
	}
	os.Exit(m.Run())
}

func serveAgent(mode string) {
	agent := &acp.Agent{Prompt: func(ctx context.Context, t *acp.AgentTurn) (acp.StopReason, error) {
		switch mode {
		case "writes":
			if err := os.WriteFile("hello.txt", []byte("hello\n"), 0o644); err != nil {
				return "", err
			}
			return acpv2.StopReasonEndTurn, t.Say(ctx, "my token is cacp_sk_live_0123456789\nSTATUS:ok\nFILES_CREATED:hello.txt")
		case "lies":
			return acpv2.StopReasonEndTurn, t.Say(ctx, "STATUS:ok\nFILES_CREATED:hello.txt")
		case "waits":
			if err := t.Say(ctx, "waiting"); err != nil {
				return "", err
			}
			<-ctx.Done()
			return acpv2.StopReasonEndTurn, nil
		case "breaks":
			os.Exit(3)
		case "asks": // and writes whatever the answer is
			_, err := t.AskPermission(ctx, &acpv2.RequestPermissionRequest{
				Title: "write hello.txt", Options: []acpv2.PermissionOption{{OptionID: "yes", Name: "Yes", Kind: acpv2.PermissionOptionKindAllowOnce}, {OptionID: "no", Name: "No", Kind: acpv2.PermissionOptionKindRejectOnce}},
				Subject: acpv2.Set(acpv2.RequestPermissionSubject{ToolCall: &acpv2.ToolCallPermissionSubject{ToolCall: acpv2.ToolCallUpdate{
					ToolCallID: "1", Kind: acpv2.Set(acpv2.ToolKindEdit), Locations: acpv2.Set([]acpv2.ToolCallLocation{{Path: acpv2.AbsolutePath(filepath.Join(t.Dir, "hello.txt"))}}),
				}}}),
			})
			return acpv2.StopReasonEndTurn, errors.Join(err, os.WriteFile("hello.txt", []byte("hello\n"), 0o644), t.Say(ctx, "STATUS:ok\nFILES_CREATED:hello.txt"))
		case "edits": // through its client, and reports the answer
			text := "written"
			if err := t.Files().Write(ctx, filepath.Join(t.Dir, "hello.txt"), "hello\n"); err != nil {
				text = err.Error()
			}
			return acpv2.StopReasonEndTurn, t.Say(ctx, "STATUS:ok\nLEARNED:"+text)
		case "reports": // an edit that it has made without asking
			err := os.WriteFile("hello.txt", []byte("hello\n"), 0o644)
			return acpv2.StopReasonEndTurn, errors.Join(err, t.ToolCall(ctx, acpv2.ToolCallUpdate{
				ToolCallID: "1", Title: acpv2.Set("write hello.txt"), Kind: acpv2.Set(acpv2.ToolKindEdit), Status: acpv2.Set(acpv2.ToolCallStatusCompleted),
				Locations: acpv2.Set([]acpv2.ToolCallLocation{{Path: acpv2.AbsolutePath(filepath.Join(t.Dir, "hello.txt"))}}),
			}), t.Say(ctx, "STATUS:ok\nFILES_CREATED:hello.txt"))
		case "tells": // how it was started
			return acpv2.StopReasonEndTurn, t.Say(ctx, "STATUS:ok\nLEARNED:"+strings.Join(append(os.Args[1:], os.Getenv("INITIAL_AGENT_MODE"), string(t.Options[0].Select.CurrentValue)), " "))
		}
		return acpv2.StopReasonEndTurn, t.Say(ctx, "no report")
	}}
	if mode == "tells" {
		agent.NewSession = func(_ context.Context, s *acp.AgentSession) error {
			s.Options = []acpv2.SessionConfigOption{{ConfigID: "mode", Name: "Mode", Category: acpv2.Set(acpv2.SessionConfigOptionCategoryMode), Select: &acpv2.SessionConfigSelect{
				CurrentValue: "loose", Options: acpv2.SessionConfigSelectOptions{Ungrouped: []acpv2.SessionConfigSelectOption{{Value: "loose", Name: "Loose"}, {Value: "default", Name: "Default"}}},
			}}}
			return nil
		}
		agent.SetOption = func(_ context.Context, s *acp.AgentSession, _ string, value any) error {
			s.Options[0].Select.CurrentValue = acpv2.SessionConfigValueID(value.(string))
			return nil
		}
	}
	if err := acp.Serve(context.Background(), agent, os.Stdin, os.Stdout); err != nil {
		os.Exit(1)
	}
	os.Exit(0)
}

// spec returns a run of the test binary in an agent's mode.
func spec(t *testing.T, mode string) run.Spec {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return run.Spec{
		Agent: "worker", Command: []string{"env", asAgent + "=" + mode, self}, Dir: t.TempDir(),
		Dispatch: report.Dispatch{Task: "say hello"}, Timeout: time.Minute,
	}
}

// A fakeHub records what it is told.
type fakeHub struct {
	beginErr, endErr error

	mu     sync.Mutex // guards what follows
	states []hub.RunState
	ended  []hub.Run
}

func (h *fakeHub) BeginRun(_ context.Context, r hub.Run, _ time.Duration) (hub.Run, string, error) {
	r.By, r.ThreadID = "operator", string(r.ID)
	return r, "the key of the run", h.beginErr
}

func (h *fakeHub) MoveRun(_ context.Context, _ hub.RunID, next hub.RunState, _ string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.states = append(h.states, next)
	return nil
}

func (h *fakeHub) EndRun(_ context.Context, r hub.Run) (hub.Run, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ended = append(h.ended, r)
	r.Message = "01a1de72-8033-741c-8775-3c09bab7fecc"
	return r, h.endErr
}

func (h *fakeHub) Tools(key string) *fleet.Tools {
	return &fleet.Tools{Name: "parley", URL: "http://127.0.0.1:1", Key: key, Bridge: []string{"/bin/false"}}
}

func TestExecute(t *testing.T) {
	for _, tt := range []struct {
		name, mode string
		change     func(*run.Spec)
		state      hub.RunState
		reason     string
		verdict    hub.RunVerdict
		ok         bool
	}{
		{"a true report is confirmed", "writes", func(s *run.Spec) { s.Verify, s.Build = "test -f hello.txt", "true" }, hub.RunDone, "", hub.RunConfirmed, true},
		{"a failing command contradicts success", "writes", func(s *run.Spec) { s.Verify = "exit 3" }, hub.RunDone, "", hub.RunContradicted, false},
		{"a file that is not there contradicts the report", "lies", nil, hub.RunDone, "", hub.RunContradicted, false},
		{"an agent without a report has failed", "silent", nil, hub.RunFailed, hub.RunNoReport, hub.RunUnverified, false},
		{"an agent that exits has failed", "breaks", nil, hub.RunFailed, hub.RunBroke, hub.RunUnverified, false},
		{"an agent that exceeds its time has failed", "waits", func(s *run.Spec) { s.Timeout = 50 * time.Millisecond }, hub.RunFailed, hub.RunTimeout, hub.RunUnverified, false},
		{"a program that does not exist cannot be started", "", func(s *run.Spec) { s.Command = []string{"/nowhere/agent"} }, hub.RunFailed, hub.RunNotStarted, hub.RunUnverified, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			hubtest.NoGoroutinesLeft(t)
			s, home, h := spec(t, tt.mode), t.TempDir(), &fakeHub{}
			if tt.change != nil {
				tt.change(&s)
			}
			r, err := run.Execute(t.Context(), home, s, &run.Options{Hub: h})
			if err != nil {
				t.Fatal(err)
			}
			if r.State != tt.state || r.Reason != tt.reason || r.Verdict != tt.verdict || r.OK() != tt.ok {
				t.Errorf("got %s, reason %q, %s, ok %v: %v %v", r.State, r.Reason, r.Verdict, r.OK(), r.Contradictions, r.Err)
			}
			kept, err := run.NewFiles(home).Record(r.ID)
			if err != nil || kept.State != tt.state || kept.Verdict != tt.verdict || !kept.Told {
				t.Errorf("the record is %+v, %v", kept, err)
			}
			if len(h.ended) != 1 || h.ended[0].State != tt.state || h.ended[0].Verdict != tt.verdict {
				t.Errorf("the hub was told %+v", h.ended)
			}
			if tt.reason != hub.RunNotStarted && !slices.Equal(h.states, []hub.RunState{hub.RunRunning, hub.RunChecking}) {
				t.Errorf("the hub saw the states %v", h.states)
			}
		})
	}
}

func withPolicy(p sandbox.Policy) fleet.Options {
	return fleet.Options{Options: acp.Options{Policy: p}}
}

// TestBreach has an agent write a file without asking, or after a no.
func TestBreach(t *testing.T) {
	answer := func(id string) sandbox.Asker {
		return func(context.Context, sandbox.Request) (string, error) { return id, nil }
	}
	for _, tt := range []struct {
		name, mode string
		policy     sandbox.Policy
		ask        sandbox.Asker
		want       bool
	}{
		{"no policy is none", "writes", "", nil, true},
		{"none", "writes", sandbox.PolicyNone, nil, true},
		{"read", "writes", sandbox.PolicyRead, nil, true},
		{"read, of an agent that writes after a no", "asks", sandbox.PolicyRead, nil, true},
		{"read, without a change", "silent", sandbox.PolicyRead, nil, false},
		{"write", "writes", sandbox.PolicyWrite, nil, false},
		{"ask, without a question", "writes", sandbox.PolicyAsk, answer("yes"), true},
		{"ask, after a yes", "asks", sandbox.PolicyAsk, answer("yes"), false},
		{"ask, after a no", "asks", sandbox.PolicyAsk, answer("no"), true},
		{"yolo", "writes", sandbox.PolicyYolo, nil, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			home, h := t.TempDir(), &fakeHub{}
			opts := withPolicy(tt.policy)
			opts.Ask = tt.ask
			var problems []string
			r, err := run.Execute(t.Context(), home, spec(t, tt.mode), &run.Options{Hub: h, Agent: opts, On: run.Events{Problem: func(err error) { problems = append(problems, err.Error()) }}})
			if err != nil {
				t.Fatal(err)
			}
			kept, err := run.NewFiles(home).Record(r.ID)
			if err != nil {
				t.Fatal(err)
			}
			told := strings.Contains(strings.Join(problems, " "), "hello.txt")
			proven := strings.Contains(string(h.ended[0].Evidence), "policy_breach")
			if (r.Breach != nil) != tt.want || (kept.Breach != nil) != tt.want || told != tt.want || proven != tt.want {
				t.Fatalf("got the breach %+v, recorded %+v, told %v, in the evidence %v; want %v", r.Breach, kept.Breach, problems, proven, tt.want)
			}
			if tt.want && (!slices.Equal(r.Breach.Files, []string{"hello.txt"}) || r.Breach.Policy == "") {
				t.Errorf("got %+v, want hello.txt", r.Breach)
			}
		})
	}
	t.Run("changes elsewhere in the repository are not the agent's", func(t *testing.T) {
		s := spec(t, "writes")
		if out, err := exec.Command("git", "-C", s.Dir, "init", "-q").CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		top := s.Dir
		s.Dir = filepath.Join(top, "sub")
		if err := os.Mkdir(s.Dir, 0o755); err != nil {
			t.Fatal(err)
		}
		s.Command = append([]string{"sh", "-c", `echo x > ../other.txt; exec "$@"`, "sh"}, s.Command...)
		r, err := run.Execute(t.Context(), t.TempDir(), s, &run.Options{Agent: withPolicy(sandbox.PolicyRead)})
		if err != nil || r.Breach == nil || !slices.Equal(r.Breach.Files, []string{"hello.txt"}) {
			t.Errorf("got %+v, %v, want hello.txt alone", r.Breach, err)
		}
	})
}

// TestMode starts an agent under the names of known ones.
func TestMode(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		program string
		policy  sandbox.Policy
		want    string
	}{
		{"codex-acp", sandbox.PolicyRead, "read-only loose"},
		{"codex-acp", sandbox.PolicyAsk, "read-only loose"},
		{"codex-acp", sandbox.PolicyYolo, " loose"},
		{"gemini", sandbox.PolicyRead, "--approval-mode default  loose"},
		{"claude-agent-acp", sandbox.PolicyWrite, " default"},
		{"other-agent", sandbox.PolicyRead, " loose"},
	} {
		t.Run(tt.program+" "+string(tt.policy), func(t *testing.T) {
			t.Setenv(asAgent, "tells")
			s := spec(t, "tells")
			program := filepath.Join(t.TempDir(), tt.program)
			if err := os.Symlink(self, program); err != nil {
				t.Fatal(err)
			}
			s.Command = []string{program}
			r, err := run.Execute(t.Context(), t.TempDir(), s, &run.Options{Agent: withPolicy(tt.policy)})
			var got struct{ Learned string }
			if err != nil || json.Unmarshal(r.Report, &got) != nil || strings.TrimSpace(got.Learned) != strings.TrimSpace(tt.want) {
				t.Errorf("got %q, %v, %v; want %q", got.Learned, err, r.Err, tt.want)
			}
		})
	}
	t.Run("an agent whose mode cannot be set is not started", func(t *testing.T) {
		t.Setenv(asAgent, "writes")
		s := spec(t, "writes")
		program := filepath.Join(t.TempDir(), "claude-agent-acp")
		if err := os.Symlink(self, program); err != nil {
			t.Fatal(err)
		}
		s.Command = []string{program}
		r, err := run.Execute(t.Context(), t.TempDir(), s, &run.Options{Agent: withPolicy(sandbox.PolicyRead)})
		if err != nil || r.Reason != hub.RunNotStarted || !strings.Contains(r.Problem, "mode") {
			t.Errorf("got %s %q %q, %v", r.State, r.Reason, r.Problem, err)
		}
	})
}

func TestExecuteKeepsSecretsOut(t *testing.T) {
	home := t.TempDir()
	var mu sync.Mutex
	var copied []byte
	r, err := run.Execute(t.Context(), home, spec(t, "writes"), &run.Options{Hub: &fakeHub{}, On: run.Events{Frame: func(line []byte) {
		mu.Lock()
		defer mu.Unlock()
		copied = append(copied, line...)
	}}})
	if err != nil {
		t.Fatal(err)
	}
	frames, err := os.ReadFile(run.NewFiles(home).Frames(r.ID))
	if err != nil {
		t.Fatal(err)
	}
	record, err := json.Marshal(r.Record)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"recording": string(frames), "copies": string(copied), "record": string(record)} {
		if strings.Contains(text, "the key of the run") || strings.Contains(text, "cacp_sk_live_") {
			t.Errorf("a secret is in the %s", name)
		}
	}
	if !strings.Contains(string(frames), "my token is [redacted]") || string(copied) != string(frames) {
		t.Errorf("the recording is %s", frames)
	}
}

func TestExecuteInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s, h := spec(t, "waits"), &fakeHub{}
	s.Verify = "exit 1"
	r, err := run.Execute(ctx, t.TempDir(), s, &run.Options{
		Hub: h, Agent: fleet.Options{OnUpdate: func(*acp.Update) { cancel() }},
		On: run.Events{Command: func(string, string) { t.Error("a command was run after the interruption") }},
	})
	if err != nil || r.State != hub.RunInterrupted || r.Reason != hub.RunCancelled || r.Verdict != hub.RunUnverified {
		t.Errorf("got %s, %q, %s, %v", r.State, r.Reason, r.Verdict, err)
	}
	if r.Evidence == nil || len(h.ended) != 1 || h.ended[0].State != hub.RunInterrupted {
		t.Errorf("evidence %s, the hub was told %+v", r.Evidence, h.ended)
	}
}

func TestExecuteWithAHubThatFails(t *testing.T) {
	noAnswer := hub.Errorf(hub.CodeDegraded, "test", "no answer")
	refusal := hub.Errorf(hub.CodeDenied, "test", "refused")
	t.Run("a refusal is the error, and the hub is not told of an end", func(t *testing.T) {
		home, h := t.TempDir(), &fakeHub{beginErr: refusal}
		if _, err := run.Execute(t.Context(), home, spec(t, "writes"), &run.Options{Hub: h}); !errors.Is(err, refusal) || len(h.ended) != 0 {
			t.Errorf("got %v, %d ends", err, len(h.ended))
		}
	})
	t.Run("a begin without an answer may have taken effect", func(t *testing.T) {
		home, h := t.TempDir(), &fakeHub{beginErr: noAnswer}
		if _, err := run.Execute(t.Context(), home, spec(t, "writes"), &run.Options{Hub: h}); !errors.Is(err, noAnswer) || len(h.ended) != 1 {
			t.Errorf("got %v, %d ends", err, len(h.ended))
		}
	})
	t.Run("an end without an answer is told later", func(t *testing.T) {
		home, h := t.TempDir(), &fakeHub{endErr: noAnswer}
		var problems int
		r, err := run.Execute(t.Context(), home, spec(t, "writes"), &run.Options{Hub: h, Agent: withPolicy(sandbox.PolicyWrite), On: run.Events{Problem: func(error) { problems++ }}})
		if err != nil || r.Told || !r.OK() || problems != 1 {
			t.Fatalf("got told %v, ok %v, %d problems, %v", r.Told, r.OK(), problems, err)
		}
		h.endErr = nil
		if _, err := run.Execute(t.Context(), home, spec(t, "writes"), &run.Options{Hub: h}); err != nil {
			t.Fatal(err)
		}
		if kept, err := run.NewFiles(home).Record(r.ID); err != nil || !kept.Told {
			t.Errorf("the next run did not tell the hub: %+v, %v", kept, err)
		}
	})
	t.Run("a run that the hub never knew stays in files", func(t *testing.T) {
		r, err := run.Execute(t.Context(), t.TempDir(), spec(t, "writes"), &run.Options{Hub: &fakeHub{endErr: hub.Errorf(hub.CodeNotFound, "test", "unknown")}})
		if err != nil || r.Hub || r.Told {
			t.Errorf("got %+v, %v", r.Record, err)
		}
	})
}

func TestExecuteInAWorktree(t *testing.T) {
	s, home := spec(t, "writes"), t.TempDir()
	s.Worktree = true
	if _, err := run.Execute(t.Context(), home, s, nil); hub.CodeOf(err) != hub.CodeInvalid {
		t.Errorf("outside a repository: got %v", err)
	}
	mark := filepath.Join(t.TempDir(), "mark")
	for _, args := range [][]string{{"init", "-q", "-b", "main"}, {"-c", "user.name=t", "-c", "user.email=t@example.org", "commit", "-q", "--allow-empty", "-m", "first"}} {
		if out, err := exec.Command("git", append([]string{"-C", s.Dir}, args...)...).CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	hook := filepath.Join(s.Dir, ".git", "hooks", "post-checkout")
	if err := os.MkdirAll(filepath.Dir(hook), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(hook, []byte("#!/bin/sh\ntouch '"+mark+"'\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	r, err := run.Execute(t.Context(), home, s, nil)
	if err != nil || !r.OK() || r.Branch != "parley/"+string(r.ID) {
		t.Fatalf("got %+v, %v", r.Record, err)
	}
	if _, err := os.Stat(filepath.Join(r.Worktree, "hello.txt")); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(s.Dir, "hello.txt")); err == nil {
		t.Error("the agent worked in the user's own folder")
	}
	if _, err := os.Stat(mark); err == nil {
		t.Error("a hook of the repository was run")
	}
}
