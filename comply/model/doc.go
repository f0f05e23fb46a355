// Package model is a language model that does what it is told: an HTTP server
// that speaks the APIs which coding agents are configured with (OpenAI chat
// completions and responses, Anthropic messages, Gemini) and answers by a script.
// An agent that is pointed at it runs whole turns, with tool calls, without an
// account and with the same result each time.
//
// What it shall do stands in a [Script], or in the prompt itself as directives:
//
//	parley:write path=a.txt text="hello"
//	parley:say text="It is written."
//
// Where a conversation stands is read from the request alone, by the tool
// results after the prompt. So one server serves any number of conversations
// at once, also those that an agent loads again after a restart. The same
// requests get the same bytes.
//
// It is not a model: it understands nothing, counts tokens roughly, and does not
// check requests as strictly as the real services do.
package model
