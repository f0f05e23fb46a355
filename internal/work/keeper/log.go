package keeper

import (
	"context"
	"sync"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
	"github.com/parley-agents/parley/internal/ground/text/shorten"
	"github.com/parley-agents/parley/protocol/acp"
)

// A Line is something that a kept agent did or said.
type Line struct {
	N    int64     `json:"n"`
	At   time.Time `json:"at,omitzero"`
	Kind string    `json:"kind"` // text, thought, tool, state, start, stop, problem, denied, refused, breach, prompt, ask
	Text string    `json:"text"`
}

const (
	maxLines = 1000
	maxLine  = 4 << 10 // bytes
)

// lines are the last lines of an agent. They are in memory alone: the recordings of
// its turns have everything.
type lines struct {
	mu      sync.Mutex // guards what follows
	all     []Line
	last    int64
	changed chan struct{} // closed when a line is added
}

func newLines() *lines { return &lines{changed: make(chan struct{})} }

func (l *lines) add(kind, text string) {
	if text == "" {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last++
	l.all = append(l.all, Line{l.last, time.Now().UTC(), kind, shorten.Text(text, maxLine)})
	if len(l.all) > maxLines {
		l.all = append([]Line(nil), l.all[len(l.all)-maxLines:]...)
	}
	close(l.changed)
	l.changed = make(chan struct{})
}

// update adds an update of a turn.
func (l *lines) update(u *acp.Update) {
	switch u.Kind() {
	case acp.KindAgentMessage:
		l.add("text", u.Text())
	case acp.KindThought:
		l.add("thought", u.Text())
	case acp.KindToolCall:
		if call := u.ToolCall(); call != nil {
			l.add("tool", call.Title)
		}
	}
}

// after returns the lines after a number, and a channel that is closed when there are
// more.
func (l *lines) after(n int64) ([]Line, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := len(l.all)
	for i > 0 && l.all[i-1].N > n {
		i--
	}
	return append([]Line(nil), l.all[i:]...), l.changed
}

// Log returns the lines of a kept agent after a number. If there are none it waits for
// one, for at most wait.
func (k *Keeper) Log(ctx context.Context, actor hub.Caller, name hub.AgentID, after int64, wait time.Duration) ([]Line, error) {
	const op = "keeper.Log"
	if err := actor.OperatorOnly(op); err != nil {
		return nil, err
	}
	if _, err := k.own(ctx, op, name); err != nil {
		return nil, err
	}

	k.mu.Lock()
	a := k.agents[name]
	k.mu.Unlock()
	if a == nil {
		return []Line{}, nil
	}

	timeout := time.NewTimer(wait)
	defer timeout.Stop()
	for {
		got, more := a.log.after(after)
		if len(got) > 0 {
			return got, nil
		}
		select {
		case <-more:
		case <-timeout.C:
			return []Line{}, nil
		case <-a.done:
			return []Line{}, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// Prompt gives a kept agent words of the operator: a turn of their own, after the one
// that runs. It returns the id of the turn.
func (k *Keeper) Prompt(ctx context.Context, actor hub.Caller, name hub.AgentID, text string) (turn string, err error) {
	const op = "keeper.Prompt"
	if err := actor.OperatorOf(op, name); err != nil {
		return "", err
	}
	if err := checkPrompt(op, text); err != nil {
		return "", err
	}
	a, err := k.serving(ctx, op, name)
	if err != nil {
		return "", err
	}
	if reason := k.halted(ctx, name); reason != "" {
		return "", hub.Errorf(hub.CodeRateLimited, op, "%s", reason)
	}

	_, window := actor.Window()
	next := prompt{Text: text, Turn: string(hub.NewIDs(k.o.Clock).Next()), By: window}
	err = k.change(ctx, actor, name, actions.AgentPrompted, func(_ hub.Tx, r *record) error {
		if len(r.Prompts) == maxPrompts {
			return hub.Errorf(hub.CodeRateLimited, op, "%d prompts are already waiting for %s", maxPrompts, name)
		}
		r.Prompts = append(r.Prompts, next)
		return nil
	})
	if err != nil {
		return "", err
	}
	a.log.add("prompt", text)
	select {
	case a.prompts <- struct{}{}:
	default: // it will look
	}
	return next.Turn, nil
}

// checkPrompt refuses a prompt that is empty or too long.
func checkPrompt(op, text string) error {
	if text == "" || len(text) > maxPrompt {
		return hub.Errorf(hub.CodeInvalid, op, "text must have between 1 byte and 64 KiB")
	}
	return nil
}

// maxPrompt is the number of bytes of a prompt.
const maxPrompt = 64 << 10

// blocked returns why no turn of an agent may begin; "" if one may.
func (k *Keeper) blocked(ctx context.Context, name hub.AgentID) string {
	if k.o.Blocked == nil {
		return ""
	}
	return k.o.Blocked(ctx, name)
}
