package client

import (
	"time"

	"github.com/parley-agents/parley/protocol/comply/rules"
)

// startScenarios are about initialize, versions, sessions and logins.
var startScenarios = []*Scenario{
	{
		ID: "client.turn", Title: "one prompt and its answer", Area: "Turn",
		Rules: []string{"CL-RPC-08", "CL-SHUT-01"},
		turn:  playTurn,
	},
	{
		ID: "client.initialize.slow", Title: "initialize is answered late", Area: "Initialize",
		Rules: []string{"CL-INIT-03"}, delay: 3 * lateAnswer,
		turn: func(c *conversation, _ *rules.Entry) { c.meet() },
	},
	{
		ID: "client.initialize.version-2", Title: "the agent answers with version 2", Area: "Initialize", Protocol: 1,
		Rules: []string{"CL-INIT-05"}, initialize: answerVersion(2), after: judgeVersion(2),
	},
	{
		ID: "client.initialize.version-3", Title: "the agent answers with version 3", Area: "Initialize",
		Rules: []string{"CL-INIT-05"}, initialize: answerVersion(3), after: judgeVersion(3),
	},
	{
		ID: "client.initialize.no-version", Title: "the agent answers without a version", Area: "Initialize",
		Rules:      []string{"CL-INIT-06"},
		initialize: func(*conversation) object { return object{} },
		after: func(c *conversation, e ending) {
			if e.hung {
				c.broke("CL-INIT-06", "the client gives up after an answer without a version", "the client did not end", c.called("initialize"))
			}
			c.meet()
		},
	},
	{
		ID: "client.initialize.error", Title: "the agent refuses initialize", Area: "Initialize",
		Rules:      []string{"CL-INIT-04"},
		initialize: func(*conversation) object { return nil },
		after: func(c *conversation, _ ending) {
			c.meet()
			if e := c.called("session/new", "session/load", "session/resume", "session/prompt"); e != nil {
				c.broke("CL-INIT-04", "no session after initialize was refused", "the client sent "+e.Method, e)
			}
		},
	},
	{
		ID: "client.initialize.minimal", Title: "the agent announces nothing but a version", Area: "Initialize",
		Rules: []string{"CL-INIT-09"}, reach: "CL-INIT-09",
		initialize: (*conversation).leastResult,
	},
	{
		ID: "client.initialize.future", Title: "the answers have members that the client does not know", Area: "Initialize",
		Rules: []string{"CL-EXT-01"}, reach: "CL-EXT-01",
		initialize: func(c *conversation) object {
			r := c.initializeResult()
			r["futureMember"] = object{"a": []any{1, "b", nil}}
			r["_meta"] = object{"parley.example/note": true}
			caps := r[c.capabilitiesMember()].(object)
			caps["futureCapability"] = object{"level": 3}
			caps["_meta"] = object{"parley.example/x": 1}
			return r
		},
		members: object{"futureMember": []any{1, 2}, "_meta": object{"parley.example/note": "hello"}},
		turn: func(c *conversation, _ *rules.Entry) {
			u := c.chunk("agent_message_chunk", object{"type": "text", "text": "hello", "futureMember": object{}})
			u["futureMember"] = 7
			u["_meta"] = object{"parley.example/x": nil}
			e := c.notify(u)
			c.alive("CL-EXT-01", "an update with unknown members", e)
		},
	},
	{
		ID: "client.auth.required", Title: "a session needs a login", Area: "Login",
		Rules: []string{"CL-AUTH-02"}, login: true, initialize: answerLogins,
		after: func(c *conversation, _ ending) {
			if n := is(c, func() int { return c.refused }); n > 0 {
				c.meet()
				if n > maxRefused {
					c.broke("CL-AUTH-02", "the client logs in, or tells the user", "the client asked for a session again and again without a login", c.called("session/new"))
				}
			}
		},
	},
	{
		ID: "client.auth.login", Title: "the client logs in", Area: "Login", Need: NeedLogin,
		Rules: []string{"CL-AUTH-01"}, login: true, initialize: answerLogins,
		Press: "log in with the method that the client shows, then send a prompt",
		turn: func(c *conversation, _ *rules.Entry) {
			if c.called("authenticate", "auth/login") != nil {
				c.meet()
			}
		},
	},
	{
		ID: "client.session.load", Title: "a stored session is replayed", Area: "Sessions", Need: NeedLoad,
		Rules: []string{"CL-LOAD-01"},
		Press: "open the stored session of the agent, then send a prompt",
		initialize: func(c *conversation) object {
			r := c.initializeResult()
			if !c.v2() {
				r["agentCapabilities"] = object{"loadSession": true, "sessionCapabilities": object{}}
			}
			return r
		},
		replay: replayStored,
		turn:   judgeLoad,
	},
}

// maxRefused is how often a client may ask for a session without a login.
const maxRefused = 5

// storedSession and loginMethod are the words that commands with a need are given.
const (
	storedSession = "parley-stored-session"
	loginMethod   = "parley-login"
)

// playTurn is the usual turn. It ends with a request that no client knows.
func playTurn(c *conversation, _ *rules.Entry) {
	c.say("Hello. ")
	c.say("This is a compliance test.")
	k := c.ask(pingMethod, object{})
	e := c.require("CL-RPC-08", "an error with the code -32601", k)
	c.meet()
	if e != nil && codeOf(e) != codeNoMethod {
		c.broke("CL-RPC-08", "an error with the code -32601", "the answer is "+clipped(string(e.Raw)), k.request, e)
	}
}

// answerVersion returns the answer to initialize with a version.
func answerVersion(n int) func(*conversation) object {
	return func(c *conversation) object {
		r := c.initializeResult()
		r["protocolVersion"] = n
		return r
	}
}

// judgeVersion judges what a client does after it got a version that it did not offer.
func judgeVersion(n int) func(*conversation, ending) {
	return func(c *conversation, _ ending) {
		offer := is(c, func() int { return c.offer })
		switch e := c.called("session/new", "session/load", "session/resume", "session/prompt"); {
		case c.called("initialize") == nil:
			c.skip("the client did not send initialize")
		case offer >= n:
			c.skip("the client offers version %d itself", offer)
		case e != nil:
			c.broke("CL-INIT-05", "the client closes the connection", "the client sent "+e.Method, c.called("initialize"), e)
		}
		c.meet()
	}
}

// answerLogins is the answer to initialize of an agent that has login methods.
func answerLogins(c *conversation) object {
	r := c.initializeResult()
	r["authMethods"] = c.loginMethods()
	return r
}

// replayStored sends the conversation of the stored session.
func replayStored(c *conversation) {
	c.notify(c.chunk("user_message_chunk", object{"type": "text", "text": "What is in this folder?"}))
	c.notify(c.toolCall("old-1", "List files", "search", "completed"))
	c.say("There is nothing in it.")
}

// judgeLoad judges a prompt that follows a loaded session.
func judgeLoad(c *conversation, prompt *rules.Entry) {
	load := c.called("session/load", "session/resume")
	if load == nil {
		return
	}
	c.meet()
	var answer *rules.Entry
	c.mu.Lock()
	for _, e := range c.log {
		if e.Direction == "in" && e.Method == "" && rules.IDKey(e.ID) == rules.IDKey(load.ID) {
			answer = e.Entry
		}
	}
	c.mu.Unlock()
	if answer == nil || answer.Seq > prompt.Seq {
		c.broke("CL-LOAD-01", "the client waits for the answer to "+load.Method, "the client sent a prompt before it", load, prompt)
		c.pause(2 * lateAnswer)
		return
	}
	c.alive("CL-LOAD-01", "the conversation of a stored session", load)
}

// settle is how long the client gets for something that it must not do.
const settle = 300 * time.Millisecond
