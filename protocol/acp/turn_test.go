package acp_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-agents/parley/protocol/acp"
	"github.com/parley-agents/parley/protocol/acp/acpv2"
	"github.com/parley-agents/parley/protocol/jsonrpc"
	"github.com/parley-agents/parley/protocol/sandbox"
)

func TestTurn(t *testing.T) {
	t.Run("updates come in order and before the result", func(t *testing.T) {
		both(t, func(t *testing.T, v2 bool) {
			c := connect(t, &acp.Agent{V2: true, Prompt: echo}, &acp.Options{V2: v2})
			text, r, err := prompt(t, open(t, c), "one two three").Text()
			if err != nil || text != "one two three" || r.StopReason != acpv2.StopReasonEndTurn || !r.StopReason.Success() {
				t.Errorf("got %q, %+v, %v; want the prompt and end_turn", text, r, err)
			}
			if (r.V2 != nil) != v2 || (r.V1 != nil) == v2 {
				t.Errorf("got V1 %v, V2 %v; want the one of version 2 %v", r.V1, r.V2, v2)
			}
		})
	})
	t.Run("a session has one turn at a time, and another after it", func(t *testing.T) {
		c := connect(t, &acp.Agent{Prompt: untilCancelled}, nil)
		s := open(t, c)
		turn := prompt(t, s, "work")
		if _, err := s.Prompt(within(t), acp.Text("more")); !errors.Is(err, acp.ErrBusy) {
			t.Errorf("got %v, want ErrBusy", err)
		}
		if err := s.Cancel(within(t)); err != nil {
			t.Fatal(err)
		}
		turn.Wait()
		again := prompt(t, s, "again")
		s.Cancel(within(t))
		if r, err := again.Wait(); err != nil || r.StopReason != acpv2.StopReasonCancelled {
			t.Errorf("got %v, %v; want cancelled", r.StopReason, err)
		}
	})
	t.Run("who stops taking updates does not stop the turn", func(t *testing.T) {
		c := connect(t, &acp.Agent{Prompt: echo}, nil)
		turn := prompt(t, open(t, c), "one two three")
		for range turn.Updates() {
			break
		}
		if r, err := turn.Wait(); err != nil || !r.StopReason.Success() {
			t.Errorf("got %v, %v; want success", r.StopReason, err)
		}
	})
	t.Run("calls can be made while updates are taken, however many wait", func(t *testing.T) {
		text := strings.Repeat("x", 64<<10)
		agent := &acp.Agent{
			Prompt: func(ctx context.Context, t *acp.AgentTurn) (acp.StopReason, error) {
				for range 200 { // 12 MiB
					if err := t.Say(ctx, text); err != nil {
						return "", err
					}
				}
				return acpv2.StopReasonEndTurn, nil
			},
			Extension: func(context.Context, string, json.RawMessage) (any, error) { return map[string]int{}, nil },
		}
		c := connect(t, agent, nil)
		turn := prompt(t, open(t, c), "go")
		count := 0
		for range turn.Updates() {
			if count++; count == 1 {
				if _, err := c.Call(within(t), "_ping", nil); err != nil {
					t.Fatal(err)
				}
			}
		}
		if got, want := count, 200; got != want {
			t.Errorf("got %d updates, want %d", got, want)
		}
	})
	t.Run("an error of the agent is an error of the turn", func(t *testing.T) {
		both(t, func(t *testing.T, v2 bool) {
			c := connect(t, &acp.Agent{V2: true, Prompt: func(context.Context, *acp.AgentTurn) (acp.StopReason, error) {
				return "", errors.New("the model is overloaded")
			}}, &acp.Options{V2: v2})
			_, err := prompt(t, open(t, c), "go").Wait()
			var answer *jsonrpc.Error
			if !errors.As(err, &answer) || !strings.Contains(err.Error(), "the model is overloaded") {
				t.Errorf("got %v, want the agent's error", err)
			}
		})
	})
	t.Run("R2-032 an unknown stop reason is never a success", func(t *testing.T) {
		c := played(t, nil, func(s *script) {
			s.begin()
			s.answer(s.next(), `{"stopReason":"finished"}`)
		})
		r, err := prompt(t, open(t, c), "go").Wait()
		if err != nil || r.StopReason != "finished" || r.StopReason.Success() {
			t.Errorf("got %q, success %v, %v; want it kept and no success", r.StopReason, r.StopReason.Success(), err)
		}
	})
	t.Run("version 2: a turn ends only when the agent is idle after it has taken the prompt", func(t *testing.T) {
		c := played(t, &acp.Options{V2: true}, func(s *script) {
			s.beginV2()
			p := s.next()
			s.update(`{"sessionUpdate":"state_update","state":"idle","stopReason":"refusal"}`) // of something before
			s.update(`{"sessionUpdate":"state_update","state":"running"}`)
			s.answer(p, `{"messageId":"m1"}`)
			s.update(`{"sessionUpdate":"agent_message","messageId":"m2","content":[{"type":"text","text":"hello"}]}`)
			s.update(`{"sessionUpdate":"state_update","state":"requires_action"}`)
			s.update(`{"sessionUpdate":"state_update","state":"running"}`)
			s.update(`{"sessionUpdate":"state_update","state":"idle","stopReason":"max_tokens"}`)
		})
		text, r, err := prompt(t, open(t, c), "go").Text()
		if err != nil || text != "hello" || r.StopReason != acpv2.StopReasonMaxTokens {
			t.Errorf("got %q, %q, %v; want hello and max_tokens", text, r.StopReason, err)
		}
	})
	t.Run("version 2: a whole message replaces its chunks", func(t *testing.T) {
		c := played(t, &acp.Options{V2: true}, func(s *script) {
			s.beginV2()
			s.answer(s.next(), `{"messageId":"m1"}`)
			s.update(`{"sessionUpdate":"agent_message_chunk","messageId":"m2","content":{"type":"text","text":"hel"}}`)
			s.update(`{"sessionUpdate":"agent_message_chunk","messageId":"m3","content":{"type":"text","text":" world"}}`)
			s.update(`{"sessionUpdate":"agent_message","messageId":"m2","content":[{"type":"text","text":"hello"}]}`)
			s.update(`{"sessionUpdate":"state_update","state":"idle","stopReason":"end_turn"}`)
		})
		if text, _, err := prompt(t, open(t, c), "go").Text(); err != nil || text != "hello\n world" {
			t.Errorf("got %q, %v; want two lines, hello and world", text, err)
		}
	})
	t.Run("a new message begins after a tool call", func(t *testing.T) {
		c := played(t, nil, func(s *script) {
			s.begin()
			p := s.next()
			s.update(`{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"I will "}}`)
			s.update(`{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"look first."}}`)
			s.update(`{"sessionUpdate":"tool_call","toolCallId":"1","title":"read","status":"completed"}`)
			s.update(`{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"STATUS:ok"}}`)
			s.answer(p, `{"stopReason":"end_turn"}`)
		})
		if text, _, err := prompt(t, open(t, c), "go").Text(); err != nil || text != "I will look first.\nSTATUS:ok" {
			t.Errorf("got %q, %v; want two lines", text, err)
		}
	})
	t.Run("version 2: the answer to a prompt of an earlier draft is accepted", func(t *testing.T) {
		c := played(t, &acp.Options{V2: true}, func(s *script) {
			s.beginV2()
			s.answer(s.next(), `{}`)
			s.update(`{"sessionUpdate":"state_update","state":"idle","stopReason":"end_turn"}`)
		})
		if r, err := prompt(t, open(t, c), "go").Wait(); err != nil || !r.StopReason.Success() {
			t.Errorf("got %v, %v; want success", r.StopReason, err)
		}
	})
	t.Run("version 2: stopping without a reason is a fault", func(t *testing.T) {
		c := played(t, &acp.Options{V2: true}, func(s *script) {
			s.beginV2()
			s.answer(s.next(), `{"messageId":"m1"}`)
			s.update(`{"sessionUpdate":"state_update","state":"running"}`)
			s.update(`{"sessionUpdate":"state_update","state":"idle"}`)
		})
		_, err := prompt(t, open(t, c), "go").Wait()
		wantFault(t, err, acp.FaultMalformed, "without a stop reason")
	})
}

func TestCancel(t *testing.T) {
	t.Run("right after the prompt, at any distance", func(t *testing.T) {
		both(t, func(t *testing.T, v2 bool) {
			c := connect(t, &acp.Agent{V2: true, Prompt: untilCancelled}, &acp.Options{V2: v2})
			s := open(t, c)
			for range 200 {
				turn := prompt(t, s, "go")
				if err := s.Cancel(within(t)); err != nil {
					t.Fatal(err)
				}
				if r, err := turn.Wait(); err != nil || r.StopReason != acpv2.StopReasonCancelled {
					t.Fatalf("got %q, %v; want cancelled", r.StopReason, err)
				}
			}
		})
	})
	t.Run("the end of the context cancels the turn politely", func(t *testing.T) {
		both(t, func(t *testing.T, v2 bool) {
			c := connect(t, &acp.Agent{V2: true, Prompt: func(ctx context.Context, t *acp.AgentTurn) (acp.StopReason, error) {
				<-ctx.Done()
				return acpv2.StopReasonEndTurn, t.Say(context.WithoutCancel(ctx), "last words")
			}}, &acp.Options{V2: v2})
			ctx, cancel := context.WithCancel(within(t))
			turn, err := open(t, c).Prompt(ctx, acp.Text("go"))
			if err != nil {
				t.Fatal(err)
			}
			cancel()
			text, r, err := turn.Text()
			if err != nil || text != "last words" || r.StopReason != acpv2.StopReasonCancelled {
				t.Errorf("got %q, %q, %v; want the last words and cancelled", text, r.StopReason, err)
			}
		})
	})
	t.Run("without a turn, and twice, it does nothing", func(t *testing.T) {
		c := connect(t, &acp.Agent{Prompt: untilCancelled}, nil)
		s := open(t, c)
		if err := s.Cancel(within(t)); err != nil {
			t.Error(err)
		}
		turn := prompt(t, s, "go")
		if err := errors.Join(s.Cancel(within(t)), s.Cancel(within(t))); err != nil {
			t.Error(err)
		}
		if r, err := turn.Wait(); err != nil || r.StopReason != acpv2.StopReasonCancelled {
			t.Errorf("got %v, %v; want cancelled", r.StopReason, err)
		}
	})
	t.Run("the agent hears of it after the prompt", func(t *testing.T) {
		order := make(chan string, 2)
		c := played(t, nil, func(s *script) {
			s.begin()
			p := s.next()
			order <- p.Method
			order <- s.next().Method
			s.answer(p, `{"stopReason":"cancelled"}`)
		})
		s := open(t, c)
		turn := prompt(t, s, "go")
		s.Cancel(within(t))
		turn.Wait()
		if got := [2]string{<-order, <-order}; got != [2]string{"session/prompt", "session/cancel"} {
			t.Errorf("got %v, want the prompt first", got)
		}
	})
	t.Run("a permission that is pending is answered cancelled, and so is one that comes later", func(t *testing.T) {
		both(t, func(t *testing.T, v2 bool) {
			asked := make(chan struct{}, 2)
			outcomes := make(chan string, 2)
			ask := func(ctx context.Context, t *acp.AgentTurn) {
				outcome, err := t.AskPermission(context.WithoutCancel(ctx), &acpv2.RequestPermissionRequest{
					Title:   "write",
					Subject: acpv2.Set(acpv2.RequestPermissionSubject{ToolCall: &acpv2.ToolCallPermissionSubject{ToolCall: acpv2.ToolCallUpdate{ToolCallID: "c1", Title: acpv2.Set("write")}}}),
					Options: []acpv2.PermissionOption{{OptionID: "yes", Name: "Yes", Kind: acpv2.PermissionOptionKindAllowOnce}},
				})
				if err != nil {
					outcomes <- err.Error()
					return
				}
				outcomes <- outcome.Tag()
			}
			agent := &acp.Agent{V2: true, Prompt: func(ctx context.Context, t *acp.AgentTurn) (acp.StopReason, error) {
				ask(ctx, t)
				ask(ctx, t)
				return acpv2.StopReasonEndTurn, nil
			}}
			c := connect(t, agent, &acp.Options{V2: v2, Permissions: decide(func(ctx context.Context, r *acp.PermissionRequest) (sandbox.Decision, error) {
				asked <- struct{}{}
				<-ctx.Done()
				return sandbox.Decision{OptionID: "yes"}, nil // too late to count
			})})
			s := open(t, c)
			turn := prompt(t, s, "go")
			<-asked
			if err := s.Cancel(within(t)); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if got := <-outcomes; got != "cancelled" {
					t.Errorf("got the outcome %q, want cancelled", got)
				}
			}
			if r, err := turn.Wait(); err != nil || r.StopReason != acpv2.StopReasonCancelled {
				t.Errorf("got %v, %v; want cancelled", r.StopReason, err)
			}
			if len(asked) != 0 {
				t.Error("somebody was asked after the cancellation")
			}
		})
	})
	t.Run("an agent that does not stop is given up", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := played(t, &acp.Options{CancelGrace: time.Minute}, func(s *script) {
				s.begin()
				for s.next().Method != "" {
				}
			})
			s := open(t, c)
			turn, err := s.Prompt(context.Background(), acp.Text("go"))
			if err != nil {
				t.Fatal(err)
			}
			s.Cancel(context.Background())
			_, err = turn.Wait()
			wantFault(t, err, acp.FaultSilent, "did not end within 1m0s")
		})
	})
	t.Run("closing a session cancels its turn", func(t *testing.T) {
		both(t, func(t *testing.T, v2 bool) {
			began, stopped := make(chan struct{}), make(chan struct{})
			c := connect(t, &acp.Agent{V2: true, Prompt: func(ctx context.Context, t *acp.AgentTurn) (acp.StopReason, error) {
				close(began)
				<-ctx.Done()
				close(stopped)
				return "", ctx.Err()
			}}, &acp.Options{V2: v2})
			s := open(t, c)
			turn := prompt(t, s, "go")
			<-began
			if err := s.Close(within(t)); err != nil {
				t.Fatal(err)
			}
			<-stopped
			turn.Wait()
			if _, err := s.Prompt(within(t), acp.Text("more")); err == nil {
				t.Error("a closed session took a prompt")
			}
		})
	})
	t.Run("closing the client ends a turn whose updates nobody takes", func(t *testing.T) {
		c := connect(t, &acp.Agent{Prompt: func(ctx context.Context, t *acp.AgentTurn) (acp.StopReason, error) {
			for ctx.Err() == nil {
				if err := t.Say(ctx, strings.Repeat("x", 1<<16)); err != nil {
					return "", err
				}
			}
			return acpv2.StopReasonEndTurn, nil
		}}, nil)
		turn := prompt(t, open(t, c), "go")
		if err := c.Close(); err != nil && !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("Close: %v", err)
		}
		if _, err := turn.Wait(); !errors.Is(err, jsonrpc.ErrClosed) {
			t.Errorf("got %v, want ErrClosed", err)
		}
	})
}

// decide is a Permissions.
type decide func(ctx context.Context, r *acp.PermissionRequest) (sandbox.Decision, error)

func (f decide) Decide(ctx context.Context, r *acp.PermissionRequest) (sandbox.Decision, error) {
	return f(ctx, r)
}
