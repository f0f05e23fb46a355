package comply

import (
	"context"
	"fmt"
)

// A reply step answers a request of the agent that an expectation holds.
type reply struct {
	to   string
	body *node // a result, or an object with a result or an error
}

func (p *parser) reply(n *node) action {
	v := p.object(n, "reply")
	x := &reply{to: p.text(v, "to"), body: v.without("to")}
	if x.to == "" || v.get("result") == nil && v.get("error") == nil {
		p.fail(v, `a reply has "to", the name of a held request, and a "result" or an "error"`)
	}
	return x
}

func (x *reply) play(ctx context.Context, s *stage) *Finding {
	s.c.mu.Lock()
	e := s.c.held[x.to]
	delete(s.c.held, x.to)
	s.c.mu.Unlock()
	if e == nil {
		return s.abort(fmt.Errorf("reply: no request is held as %q", x.to))
	}
	line := answerLine(e.id, x.body.encode(s.vars().expand))
	return s.deliver(ctx, line, append(line[:len(line):len(line)], '\n'), nil)
}
