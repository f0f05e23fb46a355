// Package model is a scripted language model: an HTTP server with the APIs that
// coding agents are configured with (OpenAI chat completions and responses,
// Anthropic messages, Gemini), which answers by a script. An agent that is
// configured to use it runs whole turns, with tool calls, without an account and
// with the same result each time.
//
//	l, err := model.Listen(ctx, "127.0.0.1:0")
//	...
//	err = model.New(nil).Serve(ctx, l) // configure the agent with http://ADDRESS/v1
//
// The script is a [Script], or directives in the prompt itself:
//
//	parley:write path=a.txt text="hello"
//	parley:say text="It is written."
//
// The server keeps no conversations. Each request of an agent has the whole
// conversation, and the number of tool results after the prompt tells which step is
// next. So one server serves any number of conversations at once, also those that
// an agent loads again after a restart. The same requests get the same bytes.
//
// A request walks through the files of this package in one direction: server.go
// finds the API by the path; read.go reads the body into a request; script.go finds
// the steps; answer.go turns the next steps into an answer, with tool.go for tool
// calls; send.go writes the answer, as the file of the API wants it.
//
// # Tools
//
// A step names the work, not the tool: read, write, edit, shell, plan. Each agent
// has tools of its own for it, whose names and schemas come with the request.
// tool.go chooses the tool by its name and fills its arguments by their names and
// types, so a script works with agents that did not exist when it was written. An
// agent that offers nothing usable gets a text that says so.
//
// # Limits
//
// The server understands nothing, counts tokens roughly, and does not check
// requests as strictly as the real services do. It asks for no key, so it listens
// on loopback only. The only state is a bounded log, which a test can read at
// /_log, and the number of times that an equal request came.
package model
