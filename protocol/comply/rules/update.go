package rules

import (
	"slices"
	"strings"

	"github.com/parley-agents/parley/protocol/acp/schema"
)

// The tags of updates in version 1, and those of drafts.
var (
	updateTags = []string{
		"user_message_chunk", "agent_message_chunk", "agent_thought_chunk", "tool_call", "tool_call_update", "plan", "available_commands_update",
		"current_mode_update", "config_option_update", "session_info_update", "usage_update", "notice", "compaction_update", "compaction_summary_chunk",
	}
	draftTags = []string{"plan_update", "plan_removed"}

	// oldTags are of version 1, and none of version 2.
	oldTags = []string{"plan", "tool_call", "current_mode_update"}
)

// wantedBy has the capability of the client that an update needs in version 1.
var wantedBy = map[string]string{
	"notice": "session.notices", "compaction_update": "session.compaction", "compaction_summary_chunk": "session.compaction",
	"plan_update": "plan", "plan_removed": "plan",
}

// needs returns the flaw that a member of an update is not as it must be.
// The text names the value and what it should have been.
func needs(name, what string, fits func(any) bool) flaw {
	return func(_ *state, e *event) string {
		v := e.update[name]
		return when(!fits(v), "%s is %s, not %s", name, show(v), what)
	}
}

// unwanted returns the flaw that the client has not asked for an update.
func unwanted(s *state, e *event) string {
	path, ok := wantedBy[e.tag]
	return s.lacks(e, when(ok && !s.can(path), "%s came, but the client has no capability %s", e.tag, path))
}

var commands = listOf("availableCommands")

// updateChecks are about the form of each kind of update, about commands and about usage. An
// update that needs a capability of the client must not come without it.
var updateChecks = []check{
	// UPD-01: an update names its session and is of a known kind
	{rule: "UPD-01", on: asks("session/update"), flaw: func(s *state, e *event) string {
		tag := e.update["sessionUpdate"]
		known := slices.Contains(updateTags, e.tag) || slices.Contains(draftTags, e.tag)
		if s.version == schema.V2 { // an unknown tag belongs to a later version
			known = isWord(tag) && !slices.Contains(oldTags, e.tag)
		}
		switch {
		case e.sessionID() == "":
			return whenIs(true, "sessionId", e.params["sessionId"])
		case e.update == nil:
			return whenIs(true, "update", e.params["update"])
		}
		return whenIs(!known && !caseVariant(e.tag), "sessionUpdate", tag)
	}},
	// CNT-11: a piece of a message has one block, not a list
	{rule: "CNT-11", on: updates(messageTags...), flaw: func(_ *state, e *event) string {
		return when(isList(e.update["content"]), "content is a list")
	}},
	// UPD-11: an update of a session has a title or a time, and nothing else
	{rule: "UPD-11", on: updates("session_info_update"), flaw: func(_ *state, e *event) string {
		for _, name := range sessionFacts {
			if _, ok := e.update[name]; ok {
				return "the update has the member " + name
			}
		}
		return ""
	}},
	// UPD-13: an update of a plan with an id is sent only to clients that want it
	{rule: "UPD-13", on: updates("plan_update"), in: schema.V1, flaw: firstOf(unwanted, member(updateOf, "plan", func(v any) bool {
		plan, _ := v.(object)
		return isWord(plan["planId"]) && isWord(plan["type"])
	}))},
	// UPD-14: the removal of a plan names its id
	{rule: "UPD-14", on: updates("plan_removed"), in: schema.V1, flaw: needs("planId", "a text", isWord)},
	// UPD-15: a notice has a severity and a title
	{rule: "UPD-15", on: updates("notice"), flaw: needs("title", "a text that is not empty", isWord)},
	// UPD-16: a compaction has an id and a status, and is sent only to clients that want it
	{rule: "UPD-16", on: updates("compaction_update"), in: schema.V1, flaw: unwanted},
	// UPD-17: pieces of a summary come while the compaction goes on
	{rule: "UPD-17", on: updates("compaction_summary_chunk"), flaw: func(s *state, e *event) string {
		x := s.session(e)
		return when(x != nil && !x.compacting[text(e.update, "compactionId")], "no compaction with that id is in progress")
	}},
	// UPD-18: a message id belongs to one message of one role
	{rule: "UPD-18", on: updates(messageTags...), flaw: func(s *state, e *event) string {
		x, id := s.session(e), text(e.update, "messageId")
		if x == nil || id == "" {
			return ""
		}
		was := x.messages[id]
		return when(was != "" && was != e.tag, "the id %s of a %s belongs to a %s", show(id), e.tag, was)
	}},
	// UPD-19: an update is a notification
	{rule: "UPD-19", on: asks("session/update"), flaw: func(_ *state, e *event) string {
		return when(requests(e), "session/update has the id %s", e.ID)
	}},
	// UPD-20: updates that a client must ask for are not sent to others
	{rule: "UPD-20", on: updates(), in: schema.V1, flaw: unwanted},
	// CMD-04: command names are unique and have no slash or blank
	{rule: "CMD-04", on: updates("available_commands_update"), flaw: func(_ *state, e *event) string {
		for _, c := range commands(e) {
			if name := text(c, "name"); strings.ContainsAny(name, "/ \t\n") {
				return "a command has the name " + show(name).String()
			}
		}
		name, twice := repeated(commands(e), named("name"))
		return when(twice, "two commands have the name %s", show(name))
	}},
	// USE-02: a cost has an amount and a currency of three letters
	{rule: "USE-02", on: updates("usage_update"), flaw: func(_ *state, e *event) string {
		cost := inner(e.update, "cost")
		currency := text(cost, "currency")
		letters := len(currency) == 3 && strings.Trim(currency, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") == ""
		return whenIs(cost != nil && (!isNumber(cost["amount"]) || !letters), "cost", cost)
	}},
	// USE-03: the cost never falls, and used does not exceed size
	{rule: "USE-03", on: updates("usage_update"), flaw: func(s *state, e *event) string {
		used, _ := number(e.update["used"])
		size, _ := number(e.update["size"])
		amount, priced := number(inner(e.update, "cost")["amount"])
		if used > size && size > 0 {
			return when(true, "%v of %v are used", used, size)
		}
		if x := s.session(e); x != nil && x.cost != nil && priced {
			return when(amount < *x.cost, "the cost fell from %v to %v", *x.cost, amount)
		}
		return ""
	}},
	// USE-04: the usage of a turn has totals
	{rule: "USE-04", on: resultOf(MethodPrompt), in: schema.V1, flaw: func(_ *state, e *event) string {
		usage := inner(e.result, "usage")
		counted := isCount(usage["totalTokens"]) && isCount(usage["inputTokens"]) && isCount(usage["outputTokens"])
		return whenIs(e.result["usage"] != nil && !counted, "usage", e.result["usage"])
	}},
}

// sessionFacts are the members of a session that an update cannot change.
var sessionFacts = []string{"sessionId", "cwd", "additionalDirectories"}
