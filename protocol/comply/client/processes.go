package client

import (
	"strconv"
	"time"

	"github.com/parley-agents/parley/protocol/comply/rules"
)

// processScenarios are about the process of the agent: it ends, hangs, or writes where it should
// not.
var processScenarios = []*Scenario{
	{
		ID: "client.agent.exit", Title: "the agent exits in a turn", Area: "Processes",
		Rules: []string{"CL-PROC-01"}, silent: true,
		turn: func(c *conversation, _ *rules.Entry) {
			c.say("I have to")
			c.meet()
			c.link.exit(3)
			<-c.link.gone
		},
		after: judgeHang("CL-PROC-01", "the end of the agent"),
	},
	{
		ID: "client.agent.hang", Title: "the client is ended while the agent hangs", Area: "Processes",
		Rules: []string{"CL-PROC-02"}, silent: true,
		Press: "close the window of the client",
		turn: func(c *conversation, prompt *rules.Entry) {
			if c.hooks.terminate == nil || c.hooks.terminate() != nil {
				c.skip("the client cannot be sent a signal")
				return
			}
			c.meet()
			if !c.wait(c.limit, func() bool { return c.done }) && !c.over() {
				c.missing("CL-PROC-02", "the client ends when it is asked to, and with it the agent", prompt)
			}
		},
	},
	{
		ID: "client.agent.garbage", Title: "the agent prints lines that are no messages", Area: "Processes",
		Rules: []string{"CL-PROC-03"}, silent: true,
		turn: func(c *conversation, prompt *rules.Entry) {
			c.meet()
			for _, line := range []string{"Loading the model ...", `{"jsonrpc": "2.0", "method": `, "", "[1,2"} {
				c.garble(line)
			}
			// A client may go on or give up; both are seen at its end.
			k := c.ask(pingMethod, object{})
			c.answer(k)
			c.endTurn(prompt, "end_turn")
		},
		after: judgeHang("CL-PROC-03", "lines that are no messages"),
	},
	{
		ID: "client.agent.stderr", Title: "the agent writes 100 MB to standard error", Area: "Processes",
		Rules: []string{"CL-PROC-04"},
		turn: func(c *conversation, prompt *rules.Entry) {
			c.meet()
			c.link.send(partNoise, []byte(strconv.Itoa(100<<20)))
			timer := time.NewTimer(2 * c.limit)
			defer timer.Stop()
			select {
			case <-c.link.noise:
			case <-c.link.gone:
				c.broke("CL-PROC-04", "the client reads the standard error of the agent", "the client ended the agent", prompt)
				return
			case <-timer.C:
				c.missing("CL-PROC-04", "the client reads the standard error of the agent", prompt)
				return
			}
			c.alive("CL-PROC-04", "100 MB on standard error", prompt)
		},
	},
	{
		ID: "client.agent.stdout", Title: "the agent closes its output in a turn", Area: "Processes",
		Rules: []string{"CL-PROC-05"}, silent: true,
		turn: func(c *conversation, _ *rules.Entry) {
			c.say("I have to")
			c.meet()
			c.link.send(partClose, nil)
		},
		after: judgeHang("CL-PROC-05", "the end of the agent's output"),
	},
	{
		ID: "client.agent.stubborn", Title: "the agent ignores the end of its input and signals", Area: "Processes",
		Rules: []string{"CL-SHUT-02"}, stubborn: true,
		turn: func(c *conversation, _ *rules.Entry) {
			c.meet()
			c.link.send(partHold, nil)
			c.say("I stay.")
			c.alive("CL-SHUT-02", "an update")
		},
	},
}
