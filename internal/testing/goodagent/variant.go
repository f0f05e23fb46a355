package goodagent

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/parley-agents/parley/protocol/acp"
)

// Variant returns the good agent with another habit that breaks no rule, nil if there is no
// variant of that name:
//
//	chunks-N     text goes out in pieces of N bytes, or a few less
//	session-D    opening a session takes the duration D
//	start-D      the start takes the duration D
//	login        sessions need a login, which the method token is
//	echo         it repeats each prompt
//	refuse       it refuses each prompt politely, and quotes it
//	refusal      it refuses each prompt, with the stop reason for that
//	toolless     it does what directives say, but has no tools
//	english      it understands English, and no directives
//	words        it says the words that it is asked for in English, and does nothing else
//	careful      it asks for permission to work on each prompt, lists the files, and then cannot
//	wordless     it refuses each prompt with the stop reason alone
//	hasty        it counts quickly, and does nothing else that it is asked for
func Variant(name string) *Mutant {
	kind, value, _ := strings.Cut(name, "-")
	if understand := understandings[kind]; understand != nil {
		return &Mutant{Rule: name, Change: func(a *Agent) { a.Understand = understand }}
	}
	switch kind {
	case "chunks":
		if n, err := strconv.Atoi(value); err == nil && n > 0 {
			return &Mutant{Rule: name, Out: inPieces(n)}
		}
	case "session":
		if d, err := time.ParseDuration(value); err == nil {
			return &Mutant{Rule: name, Change: func(a *Agent) { slowSessions(a, int(d.Milliseconds())) }}
		}
	case "start":
		if d, err := time.ParseDuration(value); err == nil {
			return &Mutant{Rule: name, Begin: func(*Wire) { <-time.After(d) }}
		}
	case "login":
		return &Mutant{Rule: name, Change: loggedOut}
	}
	return nil
}

// loggedOut makes the agent start without a login.
func loggedOut(a *Agent) { a.setLogout(true) }

// inPieces takes the text of messages apart into pieces of at most n bytes, and never a
// character.
func inPieces(n int) filter {
	return func(_ *Wire, m Message) []Message {
		if !strings.HasSuffix(m.Tag(), "_message_chunk") && m.Tag() != "agent_thought_chunk" {
			return keep(m)
		}
		text, _ := child(m.Update(), "content")["text"].(string)
		var out []Message
		for len(text) > 0 {
			end := min(n, len(text))
			for end < len(text) && !utf8.RuneStart(text[end]) {
				end++
			}
			piece := m.Copy()
			child(piece.Update(), "content")["text"] = text[:end]
			out, text = append(out, piece), text[end:]
		}
		if out == nil {
			return keep(m)
		}
		return out
	}
}

// slowSessions makes opening a session take some milliseconds more.
func slowSessions(a *Agent, ms int) {
	open := a.NewSession
	load := a.LoadSession
	fork := a.ForkSession
	a.NewSession = func(ctx context.Context, s *acp.AgentSession) error {
		if err := pause(ctx, ms); err != nil {
			return fmt.Errorf("open a session: %w", err)
		}
		return open(ctx, s)
	}
	a.LoadSession = func(ctx context.Context, s *acp.AgentSession, replay bool) error {
		if err := pause(ctx, ms); err != nil {
			return fmt.Errorf("load a session: %w", err)
		}
		return load(ctx, s, replay)
	}
	a.ForkSession = func(ctx context.Context, from acp.SessionID, s *acp.AgentSession) error {
		if err := pause(ctx, ms); err != nil {
			return fmt.Errorf("fork a session: %w", err)
		}
		return fork(ctx, from, s)
	}
}
