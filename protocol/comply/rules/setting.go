package rules

import (
	"slices"
	"strings"

	"github.com/parley-agents/parley/protocol/acp/schema"
)

// opensSession selects results of the requests that open a session.
var opensSession = resultOf(MethodNewSession, "session/load", "session/resume", "session/fork")

// aboutOptions selects the events that have options.
var aboutOptions selector = func(e *event) bool {
	return e.tag == "config_option_update" || opensSession(e) || resultOf("session/set_config_option")(e)
}

// optionHolder returns the object that has the options of an event.
func optionHolder(e *event) object {
	if e.update != nil {
		return e.update
	}
	return e.result
}

// options returns the options in an event; choices the values of one.
func options(e *event) []object { return objects(optionHolder(e), "configOptions") }

// optionSession returns the session whose options an event is about.
func (s *state) optionSession(e *event) *session {
	if e.update != nil {
		return s.session(e)
	}
	return s.sessions[s.event(e.request).sessionID()]
}

// choices returns the values of an option, those in groups included.
func choices(option object) (out []object) {
	for _, c := range objects(option, "options") {
		if _, grouped := c["options"]; grouped {
			out = append(out, objects(c, "options")...)
			continue
		}
		out = append(out, c)
	}
	return out
}

// categories are the categories of options that clients know.
var categories = []string{"mode", "model", "model_config", "thought_level"}

// settingChecks are about modes and options. Each message with options has all of them, so
// it is compared with the options before it: none may vanish, and their order stays.
var settingChecks = []check{
	// MODE-01: modes have unique ids and names, and the current mode is one of them
	{rule: "MODE-01", on: opensSession, in: schema.V1, flaw: func(_ *state, e *event) string {
		modes := inner(e.result, "modes")
		if modes == nil {
			return ""
		}
		seen := map[string]bool{}
		for _, m := range objects(modes, "availableModes") {
			id := text(m, "id")
			if seen[id] || text(m, "name") == "" {
				return whenIs(true, "a mode", m)
			}
			seen[id] = true
		}
		current := text(modes, "currentModeId") // the schema is about a missing one
		return when(current != "" && !seen[current], "currentModeId is %s, but there is no such mode", show(modes["currentModeId"]))
	}},
	// MODE-05: the agent changes to modes that it has offered
	{rule: "MODE-05", on: updates("current_mode_update"), in: schema.V1, flaw: func(s *state, e *event) string {
		x, id := s.session(e), text(e.update, "currentModeId")
		return when(x != nil && id != "" && !slices.Contains(x.modes, id), "the mode is %s, but there is no such mode", show(id))
	}},
	// CFG-02: an option has one of its values
	{rule: "CFG-02", on: aboutOptions, flaw: eachFlaw(options, func(_ *state, o object) string {
		offered := slices.ContainsFunc(choices(o), func(c object) bool { return text(c, "value") == text(o, "currentValue") })
		return when(text(o, "type") == "select" && !offered, "the option %s is %s, which is not one of its values", show(optionID(o)), show(o["currentValue"]))
	})},
	// CFG-03: boolean options are offered only to clients that support them
	{rule: "CFG-03", on: aboutOptions, in: schema.V1, flaw: eachFlaw(options, func(s *state, o object) string {
		unfit := text(o, "type") == "boolean" && !s.can("session.configOptions.boolean")
		return when(unfit, "the option %s is boolean, but the client does not support boolean options", show(optionID(o)))
	})},
	// CFG-09: an update of options has all of them
	{rule: "CFG-09", on: updates("config_option_update"), flaw: func(s *state, e *event) string {
		x, now := s.session(e), optionIDs(e.update)
		if x == nil || !isList(e.update["configOptions"]) {
			return ""
		}
		for _, id := range x.options {
			if !slices.Contains(now, id) {
				return when(true, "the option %s is missing", show(id))
			}
		}
		return ""
	}},
	// CFG-10: categories are those of the protocol or begin with _
	{rule: "CFG-10", on: aboutOptions, flaw: eachFlaw(options, func(_ *state, o object) string {
		category := o["category"]
		word, _ := category.(string)
		known := slices.Contains(categories, word) || strings.HasPrefix(word, "_") || caseVariant(word)
		return whenIs(category != nil && !known, "category", category)
	})},
	// CFG-12: options and their values have unique ids
	{rule: "CFG-12", on: aboutOptions, flaw: func(_ *state, e *event) string {
		if id, twice := repeated(options(e), optionID); twice {
			return when(true, "two options have the same id %s", show(id))
		}
		for _, o := range options(e) {
			if value, twice := repeated(choices(o), named("value")); twice {
				return when(true, "the option %s has the value %s twice", show(optionID(o)), show(value))
			}
		}
		return ""
	}},
	// CFG-15: options keep their order
	{rule: "CFG-15", on: aboutOptions, flaw: func(s *state, e *event) string {
		x := s.optionSession(e)
		if x == nil {
			return ""
		}
		now := slices.DeleteFunc(optionIDs(optionHolder(e)), func(id string) bool { return !slices.Contains(x.options, id) })
		was := slices.DeleteFunc(slices.Clone(x.options), func(id string) bool { return !slices.Contains(now, id) })
		moved := len(was) == len(now) && !slices.Equal(was, now)
		return when(moved, "the order was %s and is now %s", strings.Join(was, ", "), strings.Join(now, ", "))
	}},
	// CFG-16: groups of values have an id, a name and values
	{rule: "CFG-16", on: aboutOptions, flaw: eachFlaw(options, func(s *state, o object) string {
		id := "group"
		if s.version == schema.V2 {
			id = "groupId"
		}
		for _, c := range objects(o, "options") {
			isComplete := isWord(c[id]) && isText(c["name"]) && isList(c["options"])
			if _, grouped := c["options"]; grouped && !isComplete {
				return whenIs(true, "a group", c)
			}
		}
		return ""
	})},
}
