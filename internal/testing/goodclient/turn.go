package goodclient

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// capabilities returns the capabilities of the client.
func (c *client) capabilities() object {
	caps := object{
		"fs":       object{"readTextFile": true, "writeTextFile": true},
		"terminal": true, "elicitation": object{"form": object{}},
	}
	if c.breaks("CL-INIT-07") {
		caps["terminal"] = "yes"
	}
	return caps
}

// open initializes the conversation and opens a session.
func (c *client) open() error {
	if err := c.greet(); err != nil {
		return err
	}
	if c.login != "" {
		method := c.login
		if c.breaks("CL-AUTH-01") {
			method = "Log in to Parley"
		}
		name := "authenticate"
		if c.version == 2 {
			name = "auth/login"
		}
		if _, err := c.call(name, object{"methodId": method}); err != nil {
			return err
		}
	}
	return c.enter(c.newSession())
}

// newSession returns the params of session/new. Version 2 does not need a list of servers.
func (c *client) newSession() object {
	newSession := object{"cwd": c.cwd, "mcpServers": []any{}}
	switch {
	case c.version == 2:
		delete(newSession, "mcpServers")
	case c.breaks("CL-SNEW-01"):
		newSession["cwd"] = "."
	case c.breaks("CL-SNEW-02"):
		delete(newSession, "mcpServers")
	case c.breaks("CL-CAP-03"):
		newSession["mcpServers"] = []any{object{"type": "http", "name": "docs", "url": "http://127.0.0.1:1", "headers": []any{}}}
	}
	return newSession
}

// greet initializes the conversation. An offer of version 2 has the members of both versions.
func (c *client) greet() error {
	if c.breaks("CL-INIT-01") {
		c.call("session/new", c.newSession())
	}
	info := object{"name": "goodclient", "title": "The good client", "version": "1.0.0"}
	greeting := object{"protocolVersion": c.offer, "clientCapabilities": c.capabilities(), "clientInfo": info}
	if c.offer == 2 {
		greeting["capabilities"] = object{"elicitation": object{"form": object{}}}
		greeting["info"] = info
	}
	if c.breaks("CL-INIT-02") {
		greeting["protocolVersion"] = "1.0"
	}
	if c.breaks("CL-INIT-08") {
		delete(greeting, "clientInfo")
	}
	if c.breaks("CL-INIT-10") {
		delete(greeting, "info")
	}

	initialized := c.begin("initialize", greeting)
	if c.breaks("CL-INIT-03") {
		c.begin("session/new", c.newSession())
	}
	agent, err := c.wait(initialized)
	return c.judge(agent, err)
}

// judge decides whether the client can work with the agent.
func (c *client) judge(agent object, err error) error {
	if err != nil && !c.breaks("CL-INIT-04") {
		return err
	}
	version, ok := agent["protocolVersion"].(float64)
	if !ok && c.breaks("CL-INIT-06") {
		c.hang()
	}
	c.version = int(version)
	spoken := c.version == 1 || c.version == c.offer
	if !spoken && !c.breaks("CL-INIT-05") && !c.breaks("CL-INIT-04") {
		return fmt.Errorf("the agent speaks version %v", agent["protocolVersion"])
	}
	if c.breaks("CL-INIT-11") {
		c.version = c.offer
	}
	_, hasCaps := agent["agentCapabilities"]
	_, future := agent["futureMember"]
	if (!hasCaps && c.breaks("CL-INIT-09")) || (future && c.breaks("CL-EXT-01")) {
		c.die()
	}
	return nil
}

// enter opens or loads the session and sets what was asked for.
func (c *client) enter(newSession object) error {
	if c.load != "" || c.breaks("CL-CAP-01") {
		id := c.load
		if id == "" {
			id = "stored"
		}
		c.setSession(id)
		loaded := c.beginLoad(id)
		if c.breaks("CL-LOAD-01") {
			return nil
		}
		if _, err := c.wait(loaded); err == nil {
			return nil
		}
		c.setSession("")
	}
	session, err := c.call("session/new", newSession)
	for n := 0; err != nil && n < 20 && c.breaks("CL-AUTH-02"); n++ {
		session, err = c.call("session/new", newSession)
	}
	if err != nil {
		return err
	}
	id, _ := session["sessionId"].(string)
	c.setSession(id)
	return c.set(id, session)
}

// beginLoad asks for a stored session with its conversation.
func (c *client) beginLoad(id string) chan message {
	if c.version == 2 {
		return c.begin("session/resume", object{"sessionId": id, "cwd": c.cwd, "replayFrom": object{"type": "start"}})
	}
	return c.begin("session/load", object{"sessionId": id, "cwd": c.cwd, "mcpServers": []any{}})
}

func (c *client) setSession(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.session = id
}

// set sets the mode and the option.
func (c *client) set(id string, session object) error {
	if c.breaks("CL-CFG-02") && strings.Contains(fmt.Sprint(session["configOptions"]), "_parley_tone") {
		c.die()
	}
	if c.mode != "" {
		mode := c.mode
		if c.breaks("CL-MODE-01") {
			mode = "Write code"
		}
		if _, err := c.call("session/set_mode", object{"sessionId": id, "modeId": mode}); err != nil {
			return err
		}
	}
	if c.option != "" {
		value := c.value
		if c.breaks("CL-CFG-01") {
			value = "Deep thinker"
		}
		params := object{"sessionId": id, "configId": c.option, "value": value}
		if c.version == 2 {
			params["type"] = "id"
		}
		if _, err := c.call("session/set_config_option", params); err != nil {
			return err
		}
	}
	return nil
}

// sendPrompt sends the prompt and waits for the end of the turn.
func (c *client) sendPrompt(text string) error {
	c.mu.Lock()
	id := c.session
	c.mu.Unlock()
	params := object{"sessionId": id, "prompt": []any{object{"type": "text", "text": text}}}
	switch {
	case c.breaks("CL-SNEW-03"):
		params["sessionId"] = "mine"
	case c.breaks("CL-PRM-01"):
		params["prompt"] = text
	case c.breaks("CL-CAP-02"):
		params["prompt"] = []any{object{"type": "image", "mimeType": "image/png", "data": "aaaa"}}
	case c.breaks("CL-PRM-03"):
		time.AfterFunc(time.Second, c.die)
	}

	result, err := c.call("session/prompt", params)
	if err != nil {
		if failed := (*failure)(nil); errors.As(err, &failed) && c.breaks("CL-PRM-02") {
			c.hang()
		}
		return err
	}
	reason, err := c.awaitEnd(result)
	if err != nil {
		return err
	}
	if c.breaks("CL-PRM-04") && reason != "end_turn" && reason != "cancelled" {
		c.hang()
	}
	if c.breaks("CL-CAP-04") {
		c.call("session/close", object{"sessionId": id})
	}
	if reason != "end_turn" {
		return fmt.Errorf("the turn ended with %s", reason)
	}
	return nil
}

// awaitEnd returns the reason with which the turn ended. In version 2 the answer to the prompt is
// not its end.
func (c *client) awaitEnd(answer object) (string, error) {
	if c.version != 2 || c.breaks("CL-TURN-01") {
		reason, _ := answer["stopReason"].(string)
		return reason, nil
	}
	select {
	case reason := <-c.idle:
		return reason, nil
	case <-c.ended:
		return "", errors.New("the agent closed the connection")
	}
}
