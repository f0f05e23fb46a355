package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/parley-agents/parley/protocol/comply/jsont"
	"github.com/parley-agents/parley/protocol/comply/rules"
	"github.com/parley-agents/parley/protocol/jsonrpc"
)

// A trial is one start of a client for a scenario.
type trial struct {
	*runner
	scenario *Scenario
	place    *place
	began    time.Time
	process  *jsonrpc.Process
	typed    bool // the prompt is written to standard input

	stopped chan struct{} // closed when the test is over
	played  chan struct{} // closed when the turn of the scenario is over
	joined  chan struct{} // a value for each agent that was started
	over    sync.Once     // closes played
	typing  sync.Mutex    // held while a question waits for the answer that was typed

	mu    sync.Mutex
	talks []*conversation
	plays []verdict
	first time.Time // of the first prompt
}

// graces of a client after its turn. A client that stayed in the first conversation is not
// waited for again.
const (
	quitGrace   = 4 * time.Second
	signalGrace = 3 * time.Second
	orphanGrace = 3 * time.Second
	stayGrace   = 200 * time.Millisecond
)

// try starts the client and plays a scenario with it.
func (r *runner) try(ctx context.Context, s *Scenario) (*outcome, error) {
	p, err := newPlace(r.opts.Relay)
	if err != nil {
		return nil, err
	}
	defer p.remove()
	var listen net.ListenConfig
	listener, err := listen.Listen(ctx, "unix", p.socket)
	if err != nil {
		return nil, err
	}
	defer listener.Close()

	t := &trial{runner: r, scenario: s, place: p, began: time.Now(), stopped: make(chan struct{}), played: make(chan struct{}), joined: make(chan struct{}, 64)}
	if err := t.launch(); err != nil {
		return nil, err
	}
	go io.Copy(io.Discard, t.process) // ends with the process
	var wg sync.WaitGroup
	wg.Go(func() { t.accept(listener, &wg) })

	t.follow(ctx)
	o := t.finish()
	close(t.stopped)
	listener.Close()
	t.each(func(c *conversation) { c.link.close() })
	wg.Wait()
	t.judge(o)
	o.wall = time.Since(t.began)
	return o, nil
}

// launch starts the client.
func (t *trial) launch() error {
	command := t.client.Command
	if special := t.client.When[t.scenario.Need]; len(special) > 0 {
		command = special
	}
	prompt := "Parley compliance test " + t.scenario.ID
	words := t.place.words(command, prompt)
	path, err := exec.LookPath(words[0])
	if err == nil {
		path, err = filepath.Abs(path)
	}
	if err != nil {
		return &StartError{fmt.Sprintf("start %s: %v", words[0], err)}
	}

	cmd := exec.Command(path, words[1:]...)
	cmd.Dir = t.place.dir
	cmd.Env = t.place.environ(t.client, t.opts.Home)
	quit := t.scaled(quitGrace)
	if t.facts.stays {
		quit = stayGrace
	}
	t.process, err = jsonrpc.Start(cmd, &jsonrpc.ProcessOptions{InputGrace: quit, SignalGrace: t.scaled(signalGrace), OrphanGrace: t.scaled(orphanGrace)})
	if err != nil {
		return &StartError{err.Error()}
	}
	t.typed = !takesPrompt(command)
	switch {
	case t.typed:
		io.WriteString(t.process, prompt+"\n") // a client that does not read is seen later
	case t.client.Answer == "":
		t.process.CloseInput()
	}
	return nil
}

// accept plays an agent for every process that the client starts as one.
func (t *trial) accept(listener net.Listener, wg *sync.WaitGroup) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		l := newLink(conn)
		if l == nil {
			continue
		}
		c := newConversation(l, t.scenario, t.scaled(answerLimit), t.facts, t.hooks(), t.stopped)
		c.wanted = t.opts.versionOf()
		t.mu.Lock()
		t.talks = append(t.talks, c)
		t.mu.Unlock()
		select {
		case t.joined <- struct{}{}:
		default:
		}
		wg.Go(c.read)
		wg.Go(c.play)
		wg.Go(func() { t.leave(c) })
	}
}

// leave ends the process of the agent when its input has ended, as an agent does.
func (t *trial) leave(c *conversation) {
	select {
	case <-c.link.ended:
		if !t.scenario.stubborn {
			c.link.exit(0)
		}
	case <-c.link.gone:
	case <-t.stopped:
	}
}

// each calls f for every conversation.
func (t *trial) each(f func(c *conversation)) {
	t.mu.Lock()
	talks := append([]*conversation(nil), t.talks...)
	t.mu.Unlock()
	for _, c := range talks {
		f(c)
	}
}

// hooks returns the hooks of a conversation of this trial.
func (t *trial) hooks() hooks {
	signal := func(s os.Signal) func() error {
		return func() error {
			p, err := os.FindProcess(t.process.Pid())
			if err != nil {
				return err
			}
			return p.Signal(s)
		}
	}
	h := hooks{interrupt: signal(os.Interrupt), terminate: signal(syscall.SIGTERM), trace: t.opts.Trace, pick: t.pick}
	if t.client.Answer != "" {
		h.asked = t.answer
	}
	return h
}

// answer types the answer to a question, as a person does: one question after the other.
func (t *trial) answer(k *call, c *conversation) {
	t.typing.Lock()
	defer t.typing.Unlock()
	if t.scenario.patient {
		c.wait(2*c.limit, func() bool { return c.mayAnswer })
	}
	io.WriteString(t.process, t.client.Answer+"\n") // a client that is gone does not read
	c.wait(c.limit, func() bool { return len(k.answers) > 0 })
}

// pick gives the first prompt to the scenario.
func (t *trial) pick(*conversation) (*Scenario, func(verdict)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.first.IsZero() {
		return nil, nil
	}
	t.first = time.Now()
	return t.scenario, func(v verdict) {
		t.mu.Lock()
		t.plays = append(t.plays, v)
		t.mu.Unlock()
		t.over.Do(func() { close(t.played) })
	}
}

// follow waits until the scenario is over: its turn was played, the client has ended, or
// nothing more is to be expected.
func (t *trial) follow(ctx context.Context) {
	limit := t.scaled(startLimit)
	if t.facts.known {
		limit = t.scaled(answerLimit) + 4*t.start
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-t.played:
	case <-t.process.Done():
		return
	case <-ctx.Done():
		return
	case <-timer.C:
		t.mu.Lock()
		prompted := !t.first.IsZero()
		t.mu.Unlock()
		if !prompted {
			return
		}
	}
	// A turn that has begun bounds its own waits.
	select {
	case <-t.played:
	case <-ctx.Done():
	}
}

// finish ends the client and returns the outcome of its end.
func (t *trial) finish() *outcome {
	o := &outcome{}
	select {
	case <-t.process.Done():
	default:
		// A client that takes its prompt as an argument gets the time to end by itself.
		err := t.process.Close()
		var exit *jsonrpc.ExitError
		if errors.As(err, &exit) {
			o.forced = exit.Step == jsonrpc.StepSignal || exit.Step == jsonrpc.StepKill
		}
	}
	if err := t.process.Wait(); err != nil {
		o.exit = err.Error()
	} else {
		o.exit = "it ended with status 0"
	}
	t.process.Close()
	o.stderr = string(t.process.Stderr())
	t.awaitAgents(o, time.Now())
	return o
}

// awaitAgents judges whether the agents ended with the client, which is gone. If the client left
// processes, they were killed just now, and with them whatever held the input of an agent.
func (t *trial) awaitAgents(o *outcome, now time.Time) {
	by := now.Add(t.scaled(orphanGrace))
	if t.process.HadOrphans() {
		by = now.Add(-t.scaled(orphanGrace) / 2)
	}
	end := time.NewTimer(t.scaled(orphanGrace))
	defer end.Stop()
	t.each(func(c *conversation) {
		select {
		case <-c.link.gone:
		case <-end.C:
			end.Reset(0)
		}
		left := !closed(c.link.gone) || t.process.HadOrphans()
		switch {
		case !left || o.forced:
		case t.scenario.stubborn && c.link.sawEnd(by):
			c.lateFinding(o, "CL-SHUT-02", "the agent is ended by force", "the agent outlived the client")
		case !t.scenario.stubborn && !c.link.sawEnd(by):
			c.lateFinding(o, "CL-SHUT-01", "the input of the agent ends", "the client has ended, but the input of the agent stays open")
		}
	})
}

// lateFinding adds a finding about the end of the processes.
func (c *conversation) lateFinding(o *outcome, rule, expected, actual string) {
	f := c.finding(rule, expected, actual)
	f.Timed = true
	o.rest.findings = append(o.rest.findings, *f)
}

// judge completes the outcome when nothing changes any more.
func (t *trial) judge(o *outcome) {
	o.conversations = len(t.talks)
	o.plays = t.plays
	if !t.first.IsZero() {
		o.prompted = t.first.Sub(t.began)
	}
	e := ending{hung: o.forced && !t.facts.stays && t.facts.known}
	for i, c := range t.talks {
		c.verdict = &o.rest
		if t.scenario.after != nil {
			t.scenario.after(c, e)
		}
		if t.scenario.reach != "" && t.first.IsZero() && t.facts.prompts {
			var proof []*rules.Entry
			if n := len(c.log); n > 0 {
				proof = append(proof, c.log[n-1].Entry)
			}
			c.broke(t.scenario.reach, "the client goes on to the prompt", "no prompt came: "+o.about(), proof...)
		}
		o.frames = append(o.frames, audit(c.log, c.spoilt)...)
		for _, k := range c.calls {
			o.pinged = o.pinged || (k.request != nil && k.request.Method == pingMethod && len(k.answers) > 0)
		}
		if c.most > 0 && c.most < int(c.wanted) {
			o.unoffered(c)
		}
		if i == 0 {
			o.offer = c.offer
			o.caps = jsont.Encode(c.caps)
			o.info = jsont.Encode(c.info)
		}
	}
}
