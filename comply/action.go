package comply

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/parley-agents/parley/jsonrpc"
)

// An action is what a step does. It returns what is wrong with the agent, nil if
// nothing is.
type action interface {
	play(ctx context.Context, s *stage) *Finding
}

// A newSession step makes a session in the workspace.
type newSession struct {
	servers *node         // the MCP servers; nil for none
	extra   *node         // more params; may be nil
	name    string        // of the variable that gets the session's id; may be empty
	timeout time.Duration // zero for what an agent may need to start
}

func (x *newSession) play(ctx context.Context, s *stage) *Finding {
	vars := s.vars()
	params := map[string]any{"cwd": s.dir, "mcpServers": []any{}}
	if x.servers != nil {
		params["mcpServers"] = x.servers.encode(vars.expand)
	}
	if x.extra != nil {
		for _, m := range x.extra.members {
			params[m.name] = m.value.encode(vars.expand)
		}
	}
	timeout := s.patience
	if x.timeout > 0 {
		timeout = s.scaled(x.timeout)
	}
	s.mark()
	answer, err := s.c.call(ctx, methodNewSession, params, timeout)
	switch id, ok := sessionID(answer); {
	case ctx.Err() != nil:
		return s.abort(ctx.Err())
	case ok && x.name != "":
		s.c.set(x.name, quote(id))
		fallthrough
	case ok:
		s.met++
		return nil
	case answer == nil:
		return s.setup(ruleNewSession, "an answer to session/new", s.endingText(err))
	case answer.failure() != nil:
		return s.setup(ruleNewSession, "a session", "session/new failed: "+brief(answer.failure()), answer)
	}
	return s.setup(ruleNewSession, "a result with a sessionId that is a string and not empty", "the result has none", answer)
}

// sessionID returns the id of the session that an answer speaks of.
func sessionID(answer *entry) (string, bool) {
	if answer == nil {
		return "", false
	}
	v, _ := lookup(answer.value, "result.sessionId")
	id, ok := v.(string)
	return id, ok && id != ""
}

// A send step sends one frame. It does not wait for the answer.
type send struct {
	frame     *node
	waiting   *node // the id of a request that must still wait for its answer; may be nil
	wantError bool
	timeout   time.Duration // for the answer
}

func (x *send) play(ctx context.Context, s *stage) *Finding {
	vars := s.vars()
	if x.waiting != nil && !s.waits(x.waiting.encode(vars.expand)) {
		s.moot = fmt.Sprintf("request %s was answered too soon, so there was nothing left to test", x.waiting.encode(vars.expand))
		return nil
	}
	raw := x.frame.encode(vars.expand)
	q := &asked{step: s.now.step, wantError: x.wantError, deadline: time.Now().Add(s.scaled(x.timeout))}
	s.mark()
	return s.deliver(ctx, raw, append(raw[:len(raw):len(raw)], '\n'), q)
}

// A sendRaw step sends bytes as they are, whatever they are.
type sendRaw struct {
	text  *node
	data  []byte
	times int
}

func (x *sendRaw) play(ctx context.Context, s *stage) *Finding {
	data := x.data
	if x.text != nil {
		data = []byte(s.vars().expand(x.text.text))
	}
	if len(data)*x.times > maxLog {
		return s.abort(fmt.Errorf("sendRaw: %d bytes are too many to send", len(data)*x.times))
	}
	data = bytes.Repeat(data, x.times)
	s.mark()
	return s.deliver(ctx, bytes.TrimRight(data[:min(len(data), 64<<10)], "\r\n"), data, nil)
}

// deliver hands a line to the agent. An agent that reads nothing for long
// fails.
func (s *stage) deliver(ctx context.Context, raw, line []byte, q *asked) *Finding {
	limited, stop := context.WithTimeout(ctx, s.scaled(defaultTimeout))
	defer stop()
	e, err := s.c.sendEntry(limited, raw, line, q)
	switch {
	case ctx.Err() != nil:
		return s.abort(ctx.Err())
	case err != nil:
		return s.finding(s.now.step, "an agent that reads its input", fmt.Sprintf("it read nothing for %v", s.scaled(defaultTimeout)), e)
	}
	return nil
}

// A forbid step watches that some methods are not called.
type forbid struct {
	timeout  time.Duration
	methods  []string
	messages []*envelope // messages that must not come
	full     bool        // also when everything that was asked is answered
	until    *envelope   // what comes after it is allowed; may be nil
}

// graceAfterAnswer is how long forbidden methods are still watched for after
// everything that was asked is answered.
const graceAfterAnswer = 250 * time.Millisecond

func (x *forbid) play(ctx context.Context, s *stage) *Finding {
	var found *entry
	from := s.since()
	until := s.limit(x.until)
	unwanted := func(e *entry) bool {
		if e.dir != jsonrpc.In {
			return false
		}
		return e.method != "" && slices.Contains(x.methods, e.method) || slices.ContainsFunc(x.messages, func(m *envelope) bool {
			return m.class == e.class && (&awaited{envelope: m, local: s.now.local}).try(e, s.c.vars) == nil
		})
	}
	look := func() bool {
		for _, e := range s.c.log[from:] {
			if until.passed() {
				break
			}
			if unwanted(e) {
				found = e
				return true
			}
			until.see(e, s.c.vars)
		}
		from = len(s.c.log)
		return until.passed()
	}
	wait := s.scaled(x.timeout)
	began := time.Now()
	busy := s.unanswered()
	err := s.c.wait(ctx, wait, func() bool {
		return look() || !x.full && len(busy) > 0 && !slices.ContainsFunc(busy, func(q *asked) bool { return q.answer == nil })
	})
	if err == nil && found == nil && !until.passed() {
		rest := min(wait-time.Since(began), s.scaled(graceAfterAnswer))
		s.c.wait(ctx, rest, look) // found or not is all that matters
	}
	switch {
	case ctx.Err() != nil:
		return s.abort(ctx.Err())
	case found != nil:
		actual := "one came"
		if found.method != "" {
			actual = "the agent called " + found.method
		}
		return s.finding(s.now.step, "no "+x.String(), actual, found)
	}
	s.met++
	return nil
}

// String says for people what is forbidden.
func (x *forbid) String() string {
	var parts []string
	if len(x.methods) > 0 {
		parts = append(parts, "call of "+strings.Join(x.methods, ", "))
	}
	for _, m := range x.messages {
		parts = append(parts, string(m.class)+" like "+newPattern(m.body, nil).String())
	}
	return cut(strings.Join(parts, ", and no "), 500)
}

// A delay step waits.
type delay time.Duration

func (x delay) play(ctx context.Context, s *stage) *Finding {
	defer s.c.clock.wait()()
	timer := time.NewTimer(time.Duration(x))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return s.abort(ctx.Err())
	}
}
