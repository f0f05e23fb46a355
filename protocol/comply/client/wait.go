package client

import (
	"context"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/parley-agents/parley/protocol/comply/jsont"
	"github.com/parley-agents/parley/protocol/comply/render"
	"github.com/parley-agents/parley/protocol/comply/rules"
)

// A Notice tells the person at a client with a window what happens and what to do next.
type Notice struct {
	Agent   []string       // the command to enter in the client; set in the first notice alone
	Servers string         // the agent_servers file, beside Agent
	Played  *render.Result // a scenario that was played; nil if none was
	Next    *Scenario      // the scenario of the next prompt; nil when all were played
	Restart bool           // the next scenario needs a new agent: a new thread, or a restart
}

// personLimit is how long a person may take for something that a scenario needs.
const personLimit = 2 * time.Minute

// Wait plays scenarios with a client that a person uses, until all were played or ctx ends. The
// person enters the command of the agent in the client and sends prompts; each prompt
// plays a scenario. Scenarios that were not played are NA. tell is told what to show, one
// notice at a time.
func Wait(ctx context.Context, name string, scenarios []*Scenario, opts *Options, tell func(Notice)) (*render.Report, error) {
	p, err := newPlace(opts.Relay)
	if err != nil {
		return nil, err
	}
	defer p.remove()
	var listen net.ListenConfig
	listener, err := listen.Listen(ctx, "unix", p.socket)
	if err != nil {
		return nil, err
	}

	d := &desk{scenarios: scenarios, opts: *opts, tell: tell, outcomes: map[*Scenario]*outcome{}, stopped: make(chan struct{}), finished: make(chan struct{})}
	report := newReport(name, scenarios, opts, time.Now())
	next, restart := d.next()
	tell(Notice{Agent: p.agent, Servers: p.file, Next: next, Restart: restart})

	var wg sync.WaitGroup
	wg.Go(func() { d.accept(listener, &wg) })
	select {
	case <-ctx.Done():
	case <-d.finished:
	}
	listener.Close()
	close(d.stopped)
	d.each(func(c *conversation) { c.link.close() })
	wg.Wait()
	d.report(report)
	return report, nil
}

// A desk is a run with a person.
type desk struct {
	scenarios []*Scenario
	opts      Options
	stopped   chan struct{}
	finished  chan struct{} // closed when all scenarios were played

	telling sync.Mutex // one notice at a time
	tell    func(Notice)

	mu       sync.Mutex // guards the rest
	talks    []*conversation
	taken    []*Scenario
	outcomes map[*Scenario]*outcome
}

// attended reports whether a scenario can be judged while a person uses the client: not one that
// is judged by the end of the client.
func (s *Scenario) attended() bool { return !s.silent && !s.stubborn }

// next returns the scenario to play next, those that need no new agent first.
func (d *desk) next() (_ *Scenario, restart bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, alone := range []bool{false, true} {
		for _, s := range d.scenarios {
			if s.attended() && s.alone() == alone && !slices.Contains(d.taken, s) {
				return s, alone
			}
		}
	}
	return nil, false
}

// accept plays an agent for every process that the client starts as one.
func (d *desk) accept(listener net.Listener, wg *sync.WaitGroup) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		l := newLink(conn)
		if l == nil {
			continue
		}
		s, alone := d.next()
		if s == nil || !alone {
			s = Scenarios()[0]
		}
		c := newConversation(l, s, d.limit(s), facts{}, hooks{}, d.stopped)
		c.hooks = hooks{trace: d.opts.Trace, pick: d.pick, limit: d.limit}
		c.wanted = d.opts.versionOf()
		d.mu.Lock()
		d.talks = append(d.talks, c)
		d.mu.Unlock()
		wg.Go(c.read)
		wg.Go(c.play)
		wg.Go(func() { d.leave(c, s, alone) })
	}
}

// limit returns how long a scenario waits for an answer.
func (d *desk) limit(s *Scenario) time.Duration {
	if s.Press != "" {
		return personLimit
	}
	return 2 * answerLimit
}

// leave ends an agent with its input, and judges a scenario that ends without a prompt.
func (d *desk) leave(c *conversation, s *Scenario, alone bool) {
	select {
	case <-c.link.ended:
		c.link.exit(0)
	case <-c.link.gone:
	case <-d.stopped:
		return
	}
	if alone && s.after != nil {
		c.update(func() { c.verdict = &verdict{} })
		s.after(c, ending{})
		d.record(s, is(c, func() verdict { return *c.verdict }))
	}
}

// pick chooses the scenario of a prompt. A scenario that needs an agent of its own is played
// only by one that began with it.
func (d *desk) pick(c *conversation) (*Scenario, func(verdict)) {
	s, alone := d.next()
	if s == nil || (alone && c.current() != s) {
		return nil, nil
	}
	d.mu.Lock()
	d.taken = append(d.taken, s)
	d.mu.Unlock()
	return s, func(v verdict) { d.record(s, v) }
}

// record keeps the outcome of a scenario and tells the person what comes next.
func (d *desk) record(s *Scenario, v verdict) {
	d.telling.Lock()
	defer d.telling.Unlock()
	d.mu.Lock()
	o := d.outcomes[s]
	if o == nil {
		o = &outcome{conversations: 1}
		d.outcomes[s] = o
	}
	o.plays = append(o.plays, v)
	if !slices.Contains(d.taken, s) {
		d.taken = append(d.taken, s)
	}
	result := o.result(s, false)
	d.mu.Unlock()

	next, restart := d.next()
	d.tell(Notice{Played: &result, Next: next, Restart: restart})
	if next == nil && !closed(d.finished) {
		close(d.finished)
	}
}

// each calls f for every conversation.
func (d *desk) each(f func(c *conversation)) {
	d.mu.Lock()
	talks := slices.Clone(d.talks)
	d.mu.Unlock()
	for _, c := range talks {
		f(c)
	}
}

// report completes the report when nothing changes any more.
func (d *desk) report(report *render.Report) {
	about := &report.Agents[0]
	for _, s := range d.scenarios {
		o := d.outcomes[s]
		if o == nil {
			o = &outcome{rest: verdict{reason: "the test was not played"}}
			if !s.attended() {
				o.rest.reason = "the test needs a client that ends by itself; run it without --wait"
			}
		}
		about.Tests = append(about.Tests, o.result(s, false))
	}
	for i, c := range d.talks {
		found := audit(c.log, c.spoilt)
		for j := range found {
			found[j].Test = c.scenario.ID
		}
		about.AddLedger(found)
		if i == 0 {
			about.ProtocolVersion = jsont.Encode(c.offer)
			about.ClientCapabilities = jsont.Encode(c.caps)
			about.ClientInfo = jsont.Encode(c.info)
		}
	}
	about.Count()
}

// CommandLine returns the command of the agent as one line for a shell.
func (n Notice) CommandLine() string { return quoted(n.Agent) }

// Task returns what the person does for a scenario.
func (s *Scenario) Task() string {
	task := "send any prompt"
	if s.Press != "" {
		task += " and " + s.Press
	}
	if s.Need != "" {
		task = s.Press
	}
	var levels []string
	for _, id := range s.Rules {
		levels = append(levels, id+" "+string(rules.Find(id).Level))
	}
	return task + " (" + strings.Join(levels, ", ") + ")"
}
