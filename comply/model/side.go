package model

import "regexp"

// errand finds what agents ask models besides doing what the user wants: titles,
// summaries, and whether a topic is new.
var errand = regexp.MustCompile(`(?i)\b(title|summar(y|ize|ise)|topic|compact|slug|suggest(ion)?s?|classif(y|ier)|branch name|command prefix|next speaker)\b`)

// side answers a request that is no part of the user's conversation. Such requests
// quote the conversation, directives and all; the script is not for them.
func (r *request) side() (answer, bool) {
	a := answer{id: r.key, stop: stopEnd}
	switch {
	case r.forced != "":
		for _, t := range r.tools {
			if t.name != r.forced {
				continue
			}
			args := string(encoded(sample(t.schema, 0)))
			a.parts = []part{{kind: callPart, call: call{name: t.name, args: args, free: t.free}, chunks: chunks(args, defaultChunk), id: "call_" + r.key + "_1"}}
			a.stop = stopCalls
		}
	case r.format != nil:
		a.say(string(encoded(sample(r.format, 0))))
	case r.tokens == 1:
		a.say("OK")
	case len(r.tools) == 0 && r.errand():
		a.say("Scripted conversation")
	default:
		return answer{}, false
	}
	return a, true
}

// errand reports whether the request is one of the agent's own.
func (r *request) errand() bool {
	if errand.MatchString(r.system) {
		return true
	}
	for _, it := range r.items {
		if it.role == user && errand.MatchString(withoutDirectives(it.text())) {
			return true
		}
	}
	return false
}
