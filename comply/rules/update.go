package rules

import (
	"fmt"
	"slices"
	"strings"

	"github.com/parley-agents/parley/acp/schema"

	"github.com/parley-agents/parley/comply/jsont"
)

// The kinds of update of version 1, and those that are drafts.
var (
	updateTags = []string{
		"user_message_chunk", "agent_message_chunk", "agent_thought_chunk", "tool_call", "tool_call_update", "plan", "available_commands_update",
		"current_mode_update", "config_option_update", "session_info_update", "usage_update", "notice", "compaction_update", "compaction_summary_chunk",
	}
	draftTags = []string{"plan_update", "plan_removed"}

	// oldTags are of version 1, and none of version 2.
	oldTags = []string{"plan", "tool_call", "current_mode_update"}
)

// wantedBy says which capability of the client an update needs in version 1.
var wantedBy = map[string]string{
	"notice": "session.notices", "compaction_update": "session.compaction", "compaction_summary_chunk": "session.compaction",
	"plan_update": "plan", "plan_removed": "plan",
}

// needs returns a flaw for updates in which a member is not as it must be.
func needs(name, what string, fits func(any) bool) func(*state, *event) string {
	return func(_ *state, e *event) string {
		if v := e.update[name]; !fits(v) {
			return fmt.Sprintf("%s is %s, not %s", name, jsont.Brief(v), what)
		}
		return ""
	}
}

func isText(v any) bool { _, ok := v.(string); return ok }
func isMap(v any) bool  { _, ok := v.(map[string]any); return ok }
func isList(v any) bool { _, ok := v.([]any); return ok }
func isWord(v any) bool { s, ok := v.(string); return ok && s != "" }

// oneBlock says that a piece of a message is not one block.
func oneBlock(s *state, e *event) string {
	if isList(e.update["content"]) {
		return "" // which is another rule
	}
	if v := e.update["messageId"]; v != nil && !isText(v) {
		return "messageId is " + jsont.Brief(v)
	}
	return needs("content", "a block of content", isMap)(s, e)
}

// unwanted says that the client has not asked for an update.
func unwanted(s *state, e *event) string {
	if path, ok := wantedBy[e.tag]; ok && !s.can(path) {
		return fmt.Sprintf("%s came, and the client has no capability %s", e.tag, path)
	}
	return ""
}

// firstFlaw returns the first flaw that is found.
func firstFlaw(flaws ...func(*state, *event) string) func(*state, *event) string {
	return func(s *state, e *event) string {
		for _, flaw := range flaws {
			if bad := flaw(s, e); bad != "" {
				return bad
			}
		}
		return ""
	}
}

var updateChecks = []check{
	{rule: "UPD-01", on: asks("session/update"), flaw: func(s *state, e *event) string {
		tag := e.update["sessionUpdate"]
		known := slices.Contains(updateTags, e.tag) || slices.Contains(draftTags, e.tag)
		if s.version == schema.V2 { // what is not known belongs to a later version
			known = isWord(tag) && !slices.Contains(oldTags, e.tag)
		}
		switch {
		case e.sessionID() == "":
			return "sessionId is " + jsont.Brief(e.params["sessionId"])
		case e.update == nil:
			return "update is " + jsont.Brief(e.params["update"])
		case !known && !caseVariant(e.tag):
			return "sessionUpdate is " + jsont.Brief(tag)
		}
		return ""
	}},
	{rule: "UPD-02", on: updates("user_message_chunk"), flaw: oneBlock},
	{rule: "UPD-03", on: updates("agent_message_chunk"), flaw: oneBlock},
	{rule: "UPD-04", on: updates("agent_thought_chunk"), flaw: oneBlock},
	{rule: "CNT-11", on: updates(messageTags...), flaw: func(_ *state, e *event) string {
		if isList(e.update["content"]) {
			return "content is a list"
		}
		return ""
	}},
	{rule: "UPD-05", on: updates("tool_call"), in: schema.V1, flaw: firstFlaw(needs("toolCallId", "a text", isWord), needs("title", "a text", isText), toolLists)},
	{rule: "UPD-06", on: updates("tool_call_update"), flaw: firstFlaw(needs("toolCallId", "a text", isWord), toolLists)},
	{rule: "UPD-07", on: updates("plan"), in: schema.V1, flaw: firstFlaw(needs("entries", "a list", isList), func(_ *state, e *event) string {
		for _, entry := range objects(e.update, "entries") {
			if !isText(entry["content"]) {
				return "an entry is " + jsont.Brief(entry)
			}
		}
		return ""
	})},
	{rule: "UPD-08", on: updates("available_commands_update"), flaw: needs("availableCommands", "a list", isList)},
	{rule: "UPD-09", on: updates("current_mode_update"), in: schema.V1, flaw: needs("currentModeId", "a text", isWord)},
	{rule: "UPD-10", on: updates("config_option_update"), flaw: needs("configOptions", "a list", isList)},
	{rule: "UPD-11", on: updates("session_info_update"), flaw: func(_ *state, e *event) string {
		for _, name := range []string{"sessionId", "cwd", "additionalDirectories"} {
			if _, ok := e.update[name]; ok {
				return "the update has the member " + name
			}
		}
		for _, name := range []string{"title", "updatedAt"} {
			if v := e.update[name]; v != nil && !isText(v) {
				return name + " is " + jsont.Brief(v)
			}
		}
		return ""
	}},
	{rule: "UPD-12", on: updates("usage_update"), flaw: func(_ *state, e *event) string {
		for _, name := range []string{"used", "size"} {
			if _, ok := e.update[name]; !ok {
				return name + " is missing"
			}
		}
		if v := e.update["cost"]; v != nil && !isMap(v) {
			return "cost is " + jsont.Brief(v)
		}
		return ""
	}},
	{rule: "UPD-13", on: updates("plan_update"), in: schema.V1, flaw: firstFlaw(unwanted, func(_ *state, e *event) string {
		if plan := inner(e.update, "plan"); !isWord(plan["planId"]) || !isWord(plan["type"]) {
			return "plan is " + jsont.Brief(e.update["plan"])
		}
		return ""
	})},
	{rule: "UPD-14", on: updates("plan_removed"), in: schema.V1, flaw: needs("planId", "a text", isWord)},
	{rule: "UPD-15", on: updates("notice"), flaw: firstFlaw(needs("severity", "a text", isWord), needs("title", "a text that is not empty", isWord))},
	{rule: "UPD-16", on: updates("compaction_update"), in: schema.V1, flaw: firstFlaw(unwanted, needs("compactionId", "a text", isWord), needs("status", "a text", isWord))},
	{rule: "UPD-17", on: updates("compaction_summary_chunk"), flaw: firstFlaw(needs("compactionId", "a text", isWord), needs("content", "a block of content", isMap), func(s *state, e *event) string {
		if x := s.session(e); x != nil && !x.compacting[text(e.update, "compactionId")] {
			return "no compaction with that id goes on"
		}
		return ""
	})},
	{rule: "UPD-18", on: updates(messageTags...), flaw: func(s *state, e *event) string {
		x, id := s.session(e), text(e.update, "messageId")
		if x != nil && id != "" && x.messages[id] != "" && x.messages[id] != e.tag {
			return fmt.Sprintf("the id %s of a %s was that of a %s", jsont.Brief(id), e.tag, x.messages[id])
		}
		return ""
	}},
	{rule: "UPD-19", on: asks("session/update"), flaw: func(_ *state, e *event) string {
		if e.Class == jsont.ClientRequest {
			return "session/update has the id " + string(e.ID)
		}
		return ""
	}},
	{rule: "UPD-20", on: updates(), in: schema.V1, flaw: unwanted},
	{rule: "CMD-02", on: updates("available_commands_update"), flaw: func(_ *state, e *event) string {
		for _, c := range objects(e.update, "availableCommands") {
			if !isWord(c["name"]) || !isText(c["description"]) {
				return "a command is " + jsont.Brief(c)
			}
		}
		return ""
	}},
	{rule: "CMD-03", on: updates("available_commands_update"), flaw: func(_ *state, e *event) string {
		for _, c := range objects(e.update, "availableCommands") {
			if input := c["input"]; input != nil && !isText(inner(c, "input")["hint"]) {
				return "input is " + jsont.Brief(input)
			}
		}
		return ""
	}},
	{rule: "CMD-04", on: updates("available_commands_update"), flaw: func(_ *state, e *event) string {
		seen := map[string]bool{}
		for _, c := range objects(e.update, "availableCommands") {
			name := text(c, "name")
			if strings.ContainsAny(name, "/ \t\n") || seen[name] {
				return "a command is called " + jsont.Brief(name)
			}
			seen[name] = true
		}
		return ""
	}},
	{rule: "USE-01", on: updates("usage_update"), flaw: func(_ *state, e *event) string {
		for _, name := range []string{"used", "size"} {
			if v, ok := e.update[name]; ok && !isCount(v) {
				return name + " is " + jsont.Brief(v)
			}
		}
		return ""
	}},
	{rule: "USE-02", on: updates("usage_update"), flaw: func(_ *state, e *event) string {
		cost := inner(e.update, "cost")
		if cost == nil {
			return ""
		}
		_, isNumber := number(cost["amount"])
		currency := text(cost, "currency")
		if !isNumber || len(currency) != 3 || strings.Trim(currency, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") != "" {
			return "cost is " + jsont.Brief(cost)
		}
		return ""
	}},
	{rule: "USE-03", on: updates("usage_update"), flaw: func(s *state, e *event) string {
		used, _ := number(e.update["used"])
		size, _ := number(e.update["size"])
		amount, priced := number(inner(e.update, "cost")["amount"])
		x := s.session(e)
		switch {
		case used > size && size > 0:
			return fmt.Sprintf("%v of %v are used", used, size)
		case x != nil && x.cost != nil && priced && amount < *x.cost:
			return fmt.Sprintf("the cost fell from %v to %v", *x.cost, amount)
		}
		return ""
	}},
	{rule: "USE-04", on: resultOf(MethodPrompt), in: schema.V1, flaw: func(_ *state, e *event) string {
		v, ok := e.result["usage"]
		usage := inner(e.result, "usage")
		if ok && v != nil && !(isCount(usage["totalTokens"]) && isCount(usage["inputTokens"]) && isCount(usage["outputTokens"])) {
			return "usage is " + jsont.Brief(v)
		}
		return ""
	}},
}

// toolLists says that a list of a tool call is none.
func toolLists(_ *state, e *event) string {
	for _, name := range []string{"content", "locations"} {
		if v := e.update[name]; v != nil && !isList(v) {
			return name + " is " + jsont.Brief(v)
		}
	}
	return ""
}
