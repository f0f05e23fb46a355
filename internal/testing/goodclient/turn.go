package goodclient

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// protocolVersion is the version that the client speaks.
const protocolVersion = 1

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
	newSession := object{"cwd": c.cwd, "mcpServers": []any{}}
	switch {
	case c.breaks("CL-SNEW-01"):
		newSession["cwd"] = "."
	case c.breaks("CL-SNEW-02"):
		delete(newSession, "mcpServers")
	case c.breaks("CL-CAP-03"):
		newSession["mcpServers"] = []any{object{"type": "http", "name": "docs", "url": "http://127.0.0.1:1", "headers": []any{}}}
	}
	if c.breaks("CL-INIT-01") {
		c.call("session/new", newSession)
	}

	greeting := object{
		"protocolVersion": protocolVersion, "clientCapabilities": c.capabilities(),
		"clientInfo": object{"name": "goodclient", "title": "The good client", "version": "1.0.0"},
	}
	if c.breaks("CL-INIT-02") {
		greeting["protocolVersion"] = "1.0"
	}
	if c.breaks("CL-INIT-08") {
		delete(greeting, "clientInfo")
	}
	initialized := c.begin("initialize", greeting)
	if c.breaks("CL-INIT-03") {
		c.begin("session/new", newSession)
	}
	agent, err := c.wait(initialized)
	if err = c.judge(agent, err); err != nil {
		return err
	}

	if c.login != "" {
		method := c.login
		if c.breaks("CL-AUTH-01") {
			method = "Log in to Parley"
		}
		if _, err := c.call("authenticate", object{"methodId": method}); err != nil {
			return err
		}
	}
	return c.enter(newSession)
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
	if int(version) != protocolVersion && !c.breaks("CL-INIT-05") && !c.breaks("CL-INIT-04") {
		return fmt.Errorf("the agent speaks version %v", agent["protocolVersion"])
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
		loaded := c.begin("session/load", object{"sessionId": id, "cwd": c.cwd, "mcpServers": []any{}})
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
		if _, err := c.call("session/set_config_option", object{"sessionId": id, "configId": c.option, "value": value}); err != nil {
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
	reason, _ := result["stopReason"].(string)
	if c.breaks("CL-PRM-04") && reason == "max_turn_requests" {
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
