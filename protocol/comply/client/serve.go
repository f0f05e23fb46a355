package client

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/parley-agents/parley/protocol/acp/schema"
	"github.com/parley-agents/parley/protocol/comply/rules"
)

// The codes of errors that the agent answers with.
const (
	codeNoMethod = -32601
	codeLogin    = -32000
)

// current returns the scenario that is played.
func (c *conversation) current() *Scenario { return is(c, func() *Scenario { return c.scenario }) }

// serve answers a request of the client.
func (c *conversation) serve(e *rules.Entry) {
	s := c.current()
	switch e.Method {
	case "initialize":
		c.serveInitialize(e, s)
	case "authenticate", "auth/login":
		c.update(func() { c.logins++ })
		c.reply(e, object{})
	case "session/new":
		c.serveNew(e, s)
	case "session/load", "session/resume":
		c.serveLoad(e, s)
	case "session/prompt":
		c.update(func() { c.prompts = append(c.prompts, e) })
	case "session/set_mode":
		c.serveSetting(e, s.modes != nil, object{})
	case "session/set_config_option":
		c.serveSetting(e, s.options, object{"configOptions": c.modelOption(wantedValue)})
	default:
		c.refuse(e, codeNoMethod, "method not found: "+e.Method)
	}
}

// serveSetting answers a request about a setting, which the agent may not have.
func (c *conversation) serveSetting(e *rules.Entry, offered bool, result object) {
	if !offered {
		c.refuse(e, codeNoMethod, "method not found: "+e.Method)
		return
	}
	c.reply(e, result)
}

// serveInitialize answers initialize, later if the scenario wants it. The delay must not keep
// the reader from the frames that come meanwhile.
func (c *conversation) serveInitialize(e *rules.Entry, s *Scenario) {
	p := params(e)
	c.update(func() {
		n, _ := p["protocolVersion"].(json.Number)
		c.offer, _ = strconv.Atoi(n.String())
		c.most = max(c.most, c.offer)
		c.agree()
		c.caps = p["clientCapabilities"]
		c.info = p["clientInfo"]
		if c.version == schema.V2 {
			c.caps = p["capabilities"]
			c.info = p["info"]
		}
		if s.old {
			c.version = schema.V1
		}
	})
	result := c.initializeResult()
	if s.initialize != nil {
		result = s.initialize(c)
	}
	answer := func() {
		if result == nil {
			c.refuse(e, -32603, "internal error")
			return
		}
		c.reply(e, result)
	}
	if s.delay > 0 {
		time.AfterFunc(s.delay, answer)
		return
	}
	answer()
}

// open notes a session of the client.
func (c *conversation) open(e *rules.Entry, id string) {
	c.update(func() {
		c.session = id
		c.cwd = text(params(e), "cwd")
		c.opened = append(c.opened, e.Method)
	})
}

// serveNew answers session/new.
func (c *conversation) serveNew(e *rules.Entry, s *Scenario) {
	if s.login && is(c, func() bool { return c.logins == 0 }) {
		c.update(func() { c.refused++ })
		c.refuse(e, codeLogin, "authentication required")
		return
	}
	id := fmt.Sprintf("parley-%d", is(c, func() int { return len(c.opened) })+1)
	c.open(e, id)
	if s.early != nil {
		s.early(c)
	}
	result := object{"sessionId": id}
	if s.modes != nil {
		result["modes"] = s.modes
	}
	if s.options {
		result["configOptions"] = c.modelOption("fast")
	}
	for name, value := range s.members {
		result[name] = value
	}
	c.reply(e, result)
}

// serveLoad answers a request to open the stored session again, after its conversation if the
// client wants that.
func (c *conversation) serveLoad(e *rules.Entry, s *Scenario) {
	if s.replay == nil {
		c.refuse(e, codeNoMethod, "method not found: "+e.Method)
		return
	}
	c.open(e, text(params(e), "sessionId"))
	if e.Method == "session/load" || params(e)["replayFrom"] != nil {
		s.replay(c)
	}
	// The answer comes late enough for a client that does not wait for it to show.
	time.AfterFunc(lateAnswer, func() { c.reply(e, object{}) })
}

// lateAnswer is how long an answer is held back to see whether the client waits for it.
const lateAnswer = 200 * time.Millisecond

// play answers the prompts of the client until the conversation ends. The hook chooses the
// scenario of each prompt; later prompts of a played scenario get a short answer.
func (c *conversation) play() {
	defer c.helpers.Wait()
	for n := 0; ; n++ {
		if !c.wait(time.Hour, func() bool { return len(c.prompts) > n }) {
			return
		}
		prompt := is(c, func() *rules.Entry { return c.prompts[n] })
		s, record := c.hooks.pick(c)
		if s == nil || !s.refuses {
			c.accept(prompt)
		}
		if s == nil {
			c.say("This agent plays no further test. Start the agent anew, or open a new thread, to go on.")
			c.endTurn(prompt, "end_turn")
			continue
		}
		c.update(func() {
			c.scenario = s
			c.verdict = &verdict{}
			c.cancel = nil
		})
		if c.hooks.limit != nil {
			c.limit = c.hooks.limit(s)
		}
		c.say("Compliance test " + s.ID + ": " + s.Title + ".\n")
		c.meetPrompt(s, prompt)
		record(is(c, func() verdict { return *c.verdict }))
	}
}

// meetPrompt plays the turn of a scenario. The turn decides itself how it ends if it is silent.
func (c *conversation) meetPrompt(s *Scenario, prompt *rules.Entry) {
	if s.turn == nil {
		c.meet()
	} else {
		s.turn(c, prompt)
	}
	if !s.silent {
		reason := "end_turn"
		if is(c, func() bool { return c.cancel != nil }) {
			reason = "cancelled"
		}
		c.endTurn(prompt, reason)
	}
}

// called reports whether the client sent a message with one of the methods.
func (c *conversation) called(methods ...string) *rules.Entry {
	return is(c, func() *rules.Entry {
		for _, e := range c.log {
			if e.Direction == "out" && slices.Contains(methods, e.Method) {
				return e.Entry
			}
		}
		return nil
	})
}
