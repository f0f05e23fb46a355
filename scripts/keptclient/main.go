// Command keptclient is the keeper of the hub as a client of one agent, for the tests of clients:
// it starts a hub of its own, keeps the agent in the working folder, sends it mail, answers its
// questions with yes, and ends after the turn. SIGINT cancels the turn, SIGTERM ends the hub.
//
//	parley comply client -- keptclient {agent} {prompt}
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/operation/rpc"
	"github.com/parley-agents/parley/internal/work/keeper"
	"github.com/parley-agents/parley/protocol/sandbox"
	"github.com/parley-agents/parley/server"
)

// The agents of the hub: the one that is kept, and the one that writes to it.
const (
	kept   hub.AgentID = "kept"
	writer hub.AgentID = "writer"
)

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: keptclient AGENT [ARGUMENT...] PROMPT")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	err := run(ctx, os.Args[1:len(os.Args)-1], os.Args[len(os.Args)-1])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "keptclient:", err)
		os.Exit(1)
	}
}

// run starts a hub, has it keep the agent, and ends after the turn that a message starts.
func run(ctx context.Context, agent []string, prompt string) (err error) {
	dir, err := os.Getwd()
	if err != nil {
		return err
	}
	home, err := os.MkdirTemp("", "hub-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(home)
	self, err := os.Executable() // stands for the program that serves the hub's tools, which no test starts
	if err != nil {
		return err
	}
	running, err := server.New(ctx, server.Options{Home: home, Addr: "127.0.0.1:0", NoInboxFiles: true, Bridge: self})
	if err != nil {
		return err
	}
	serving, end := context.WithCancel(context.WithoutCancel(ctx))
	served := make(chan error, 1)
	go func() { served <- running.Serve(serving) }()
	defer func() {
		end()
		err = errors.Join(err, <-served)
	}()

	key, err := os.ReadFile(filepath.Join(home, server.OperatorKeyFile))
	if err != nil {
		return err
	}
	operator := rpc.NewOperator(filepath.Join(home, server.SocketFile), running.URL(), strings.TrimSpace(string(key)), "")
	added, err := rpc.Call(ctx, operator, api.AddAgent, api.AgentParams{ID: writer})
	if err != nil {
		return err
	}
	definition := keeper.Definition{Agent: kept, Command: agent, Path: os.Getenv("PATH"), Dir: dir, Policy: sandbox.PolicyAsk}
	if _, err := rpc.Call(ctx, operator, api.KeepAgent, api.KeepParams{Definition: definition}); err != nil {
		return err
	}
	if _, err := rpc.Call(ctx, rpc.NewClient(running.URL(), added.Key, "", nil), api.Send, api.SendParams{To: api.Recipients{kept}, Text: prompt}); err != nil {
		return err
	}
	return follow(ctx, operator)
}

// follow takes the events of the session until a turn has ended, or the agent cannot be started.
func follow(ctx context.Context, operator *rpc.Client) error {
	interrupts := make(chan os.Signal, 1)
	signal.Notify(interrupts, os.Interrupt)
	turns := make(chan string, 16)
	go cancelTurns(ctx, operator, interrupts, turns)

	for after := int64(0); ; {
		got, err := rpc.Call(ctx, operator, api.FollowSession, api.SessionEventsParams{Agent: kept, After: after, WaitS: 1})
		if err != nil {
			return err
		}
		for _, e := range got.Events {
			after = e.N
			switch e.Kind {
			case keeper.EventPrompt:
				turns <- e.Turn
			case keeper.EventAsk:
				allow(ctx, operator, e.Ask.Question)
			case keeper.EventEnd:
				if e.Problem != "" {
					return errors.New(e.Problem)
				}
				return nil
			}
		}
		if err := failing(ctx, operator); err != nil {
			return err
		}
	}
}

// cancelTurns cancels the turn under way at an interrupt.
func cancelTurns(ctx context.Context, operator *rpc.Client, interrupts <-chan os.Signal, turns <-chan string) {
	turn := ""
	for {
		select {
		case turn = <-turns:
		case <-interrupts:
			_, err := rpc.Call(ctx, operator, api.CancelTurn, api.SessionParams{Agent: kept, Turn: turn})
			if err != nil {
				fmt.Fprintln(os.Stderr, "keptclient: cancel:", err)
			}
		case <-ctx.Done():
			return
		}
	}
}

// allow answers a question of the agent with the first choice that allows it, or with its first.
func allow(ctx context.Context, operator *rpc.Client, q keeper.Question) {
	choice := ""
	for i, c := range q.Choices {
		if i == 0 || c.Kind == "allow_once" {
			choice = c.ID
		}
		if c.Kind == "allow_once" {
			break
		}
	}
	_, err := rpc.Call(ctx, operator, api.AnswerAgent, api.AnswerParams{Agent: kept, Question: q.ID, Choice: choice})
	if err != nil { // a question that was withdrawn needs no answer
		fmt.Fprintln(os.Stderr, "keptclient: answer:", err)
	}
}

// failing returns the problem of an agent that could not be started.
func failing(ctx context.Context, operator *rpc.Client) error {
	list, err := rpc.Call(ctx, operator, api.ListKept, api.None{})
	if err != nil {
		return err
	}
	for _, k := range list.Agents {
		if k.State == keeper.Failing || k.State == keeper.Stopped {
			return fmt.Errorf("the agent is %s: %s", k.State, k.Problem)
		}
	}
	return nil
}
