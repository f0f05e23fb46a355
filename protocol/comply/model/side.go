package model

import (
	"strings"

	"github.com/parley-agents/parley/internal/ground/text/pattern"
)

// sideTopic matches requests that agents make for themselves: titles, summaries, and
// whether a topic is new.
var sideTopic = pattern.New(`(?i)\b(title|summar(y|ize|ise)|topic|compact|slug|suggest(ion)?s?|classif(y|ier)|branch name|command prefix|next speaker)\b`)

// suggestion begins the prompt with which Claude Code asks for a suggestion of the next prompt,
// after a turn and with all of its tools.
const suggestion = "[SUGGESTION MODE:"

// side answers a request that is not part of the user's conversation, and reports whether
// the request is one. Such requests quote the conversation with its directives, but the
// script is not for them.
// A request with tools is never taken for one of these by its topic alone: the user
// may ask for a summary.
func (r *request) side() (answer, bool) {
	a := answer{id: r.key, stop: stopEnd}
	switch {
	// The agent demands a call: arguments that its schema allows are all that counts.
	case r.forced != "":
		for _, t := range r.tools {
			if t.name != r.forced {
				continue
			}
			args := string(encoded(sample(t.schema, 0)))
			a.parts = []part{{kind: callPart, call: call{name: t.name, args: args, free: t.free}, chunks: chunks(args, argsChunk), id: "call_" + r.key + "_1"}}
			a.stop = stopCalls
		}
	case r.format != nil:
		a.say(string(encoded(sample(r.format, 0))))
	// A request for one token asks only whether the key is good.
	case r.tokens == 1:
		a.say("OK")
	case r.isSuggestion(), len(r.tools) == 0 && r.isSide():
		a.say("Scripted conversation")
	default:
		return answer{}, false
	}
	return a, true
}

// isSuggestion reports whether the last text of the conversation asks for a suggestion of the next
// prompt.
func (r *request) isSuggestion() bool {
	if len(r.items) == 0 {
		return false
	}
	last := r.items[len(r.items)-1]
	return last.role == user && strings.HasPrefix(strings.TrimSpace(last.text()), suggestion)
}

// isSide reports whether the agent makes the request for itself.
func (r *request) isSide() bool {
	if sideTopic().MatchString(opening(r.system)) {
		return true
	}
	for _, it := range r.items {
		if it.role == user && sideTopic().MatchString(opening(withoutDirectives(it.text()))) {
			return true
		}
	}
	return false
}

// opening returns the beginning of a text, which names its topic.
// Later text may quote the user.
func opening(text string) string { return text[:min(len(text), 400)] }
