package acp_test

import (
	"context"
	"os/exec"
	"slices"
	"testing"

	"github.com/parley-agents/parley/internal/testing/acptest"
	"github.com/parley-agents/parley/protocol/acp"
	"github.com/parley-agents/parley/protocol/acp/acpv2"
	"github.com/parley-agents/parley/protocol/sandbox"
)

// start starts an agent that ends with the test.
func start(t *testing.T, cmd *exec.Cmd, opts *acp.Options) *acp.Client {
	t.Helper()
	c, err := acp.Start(within(t), cmd, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return c
}

// TestExampleAgents drives the example agents of two other SDKs, which play the
// same turn: they read, and ask before they edit a file that lies outside of the session's
// folder.
func TestExampleAgents(t *testing.T) {
	for name, peer := range map[string]acptest.Peer{"TypeScript": acptest.TypeScript, "Go": acptest.Go} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, v2 := range []bool{false, true} { // neither speaks it, both must answer the offer
				if got := start(t, peer.Command(t), &acp.Options{V2: v2}).Agent().Version; got != 1 {
					t.Errorf("offer of version 2 %v: got version %d, want 1", v2, got)
				}
			}
			for policy, want := range map[sandbox.Policy]string{
				sandbox.PolicyYolo:  " Perfect! I've successfully updated the configuration. The changes have been applied.",
				sandbox.PolicyWrite: " I understand you prefer not to make that change. I'll skip the configuration update.",
				sandbox.PolicyRead:  " I understand you prefer not to make that change. I'll skip the configuration update.",
			} {
				t.Run("a whole turn under "+string(policy), func(t *testing.T) {
					t.Parallel()
					turn := prompt(t, open(t, start(t, peer.Command(t), &acp.Options{Policy: policy})), "improve my project")
					var last string
					status := map[string]string{}
					for u := range turn.Updates() {
						if u.Kind() == acp.KindAgentMessage {
							last = u.Text()
						}
						if call := u.ToolCall(); call != nil && call.Status != "" {
							status[call.ID] = call.Status
						}
					}
					r, err := turn.Wait()
					if err != nil || r.StopReason != acpv2.StopReasonEndTurn || last != want {
						t.Errorf("got %q, %q, %v; want %q and end_turn", last, r.StopReason, err, want)
					}
					if done := status["call_2"] == "completed"; status["call_1"] != "completed" || done != (policy == sandbox.PolicyYolo) {
						t.Errorf("got the tool calls %v under %s", status, policy)
					}
				})
			}
			t.Run("cancelled at the first update", func(t *testing.T) {
				t.Parallel()
				s := open(t, start(t, peer.Command(t), nil))
				turn := prompt(t, s, "improve my project")
				for range turn.Updates() {
					if err := s.Cancel(within(t)); err != nil {
						t.Error(err)
					}
				}
				if r, err := turn.Wait(); err != nil || r.StopReason != acpv2.StopReasonCancelled {
					t.Errorf("got %q, %v; want cancelled", r.StopReason, err)
				}
			})
			t.Run("cancelled while it asks for permission", func(t *testing.T) {
				t.Parallel()
				asked := make(chan struct{})
				s := open(t, start(t, peer.Command(t), &acp.Options{Permissions: decide(func(ctx context.Context, r *acp.PermissionRequest) (sandbox.Decision, error) {
					close(asked)
					<-ctx.Done()
					return sandbox.Decision{}, nil
				})}))
				turn := prompt(t, s, "improve my project")
				go func() {
					<-asked
					s.Cancel(within(t))
				}()
				edited := false
				for u := range turn.Updates() {
					call := u.ToolCall()
					edited = edited || call != nil && call.ID == "call_2" && call.Status == "completed"
				}
				// They end such a turn as if nothing had happened.
				if r, err := turn.Wait(); err != nil || edited {
					t.Errorf("got %q, %v, edited %v; want an end without the edit", r.StopReason, err, edited)
				}
			})
		})
	}
}

// TestDualAgent drives the TypeScript SDK's agent that speaks both versions.
func TestDualAgent(t *testing.T) {
	for _, v2 := range []bool{false, true} {
		want := map[bool]string{false: "Hello from the v1 implementation.", true: "Hello from the v2 implementation."}[v2]
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			c := start(t, acptest.TypeScriptDual.Command(t), &acp.Options{V2: v2})
			s := open(t, c)
			text, r, err := prompt(t, s, "hi").Text()
			if err != nil || text != want || r.StopReason != acpv2.StopReasonEndTurn {
				t.Errorf("got %q, %q, %v; want %q and end_turn", text, r.StopReason, err, want)
			}
			if text, _, err := prompt(t, s, "again").Text(); err != nil || text != want {
				t.Errorf("a second turn: got %q, %v", text, err)
			}
		})
	}
	t.Run("a turn of version 2 is cancelled", func(t *testing.T) {
		t.Parallel()
		s := open(t, start(t, acptest.TypeScriptDual.Command(t), &acp.Options{V2: true}))
		turn := prompt(t, s, "hi")
		if err := s.Cancel(within(t)); err != nil {
			t.Fatal(err)
		}
		if r, err := turn.Wait(); err != nil || r.StopReason != acpv2.StopReasonCancelled {
			t.Errorf("got %q, %v; want cancelled", r.StopReason, err)
		}
		if text, _, err := prompt(t, s, "again").Text(); err != nil || text == "" {
			t.Errorf("the turn after it: got %q, %v", text, err)
		}
	})
	t.Run("a session of version 2 is listed, closed, and loaded with what was said", func(t *testing.T) {
		t.Parallel()
		said := make(chan string, 10)
		c := start(t, acptest.TypeScriptDual.Command(t), &acp.Options{V2: true, OnUpdate: func(u *acp.Update) {
			if u.Text() != "" {
				said <- u.Text()
			}
		}})
		s := open(t, c)
		if _, err := prompt(t, s, "hi").Wait(); err != nil {
			t.Fatal(err)
		}
		if err := s.Close(within(t)); err != nil {
			t.Fatal(err)
		}
		var ids []acp.SessionID
		for info, err := range c.Sessions(within(t), s.Dir) {
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, info.ID)
		}
		if want := []acp.SessionID{s.ID}; !slices.Equal(ids, want) {
			t.Errorf("got the sessions %v, want %v", ids, want)
		}
		if _, err := c.LoadSession(within(t), s.ID, s.Dir, nil); err != nil {
			t.Fatal(err)
		}
		if got := []string{<-said, <-said}; !slices.Equal(got, []string{"hi", "Hello from the v2 implementation."}) {
			t.Errorf("got %q, want both messages", got)
		}
	})
}
