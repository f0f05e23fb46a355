package rules

import (
	"fmt"
	"slices"
	"strings"

	"github.com/parley-agents/parley/acp/schema"

	"github.com/parley-agents/parley/comply/jsont"
)

// opening are the requests that open a session.
var opening = resultOf(MethodNewSession, "session/load", "session/resume", "session/fork")

// aboutOptions selects what has options in it.
var aboutOptions selector = func(e *event) bool {
	return e.tag == "config_option_update" || opening(e) || resultOf("session/set_config_option")(e)
}

// optionList returns the options of an event.
func optionList(e *event) []map[string]any {
	if e.update != nil {
		return objects(e.update, "configOptions")
	}
	return objects(e.result, "configOptions")
}

// optionSession returns the session whose options an event is about.
func (s *state) optionSession(e *event) *session {
	if e.update != nil {
		return s.session(e)
	}
	return s.sessions[s.event(e.request).sessionID()]
}

// choices returns the values of an option, those in groups included.
func choices(option map[string]any) (out []map[string]any) {
	for _, c := range objects(option, "options") {
		if _, grouped := c["options"]; grouped {
			out = append(out, objects(c, "options")...)
			continue
		}
		out = append(out, c)
	}
	return out
}

var categories = []string{"mode", "model", "model_config", "thought_level"}

// eachOption returns the first flaw of an option.
func eachOption(flaw func(s *state, o map[string]any) string) func(*state, *event) string {
	return func(s *state, e *event) string {
		for _, o := range optionList(e) {
			if bad := flaw(s, o); bad != "" {
				return bad
			}
		}
		return ""
	}
}

var settingChecks = []check{
	{rule: "MODE-01", on: opening, in: schema.V1, flaw: func(_ *state, e *event) string {
		modes := inner(e.result, "modes")
		if modes == nil {
			return ""
		}
		seen := map[string]bool{}
		for _, m := range objects(modes, "availableModes") {
			id := text(m, "id")
			if seen[id] || text(m, "name") == "" {
				return "a mode is " + jsont.Brief(m)
			}
			seen[id] = true
		}
		if current := text(modes, "currentModeId"); !seen[current] {
			return fmt.Sprintf("currentModeId is %s, and there is no such mode", jsont.Brief(modes["currentModeId"]))
		}
		return ""
	}},
	{rule: "MODE-05", on: updates("current_mode_update"), in: schema.V1, flaw: func(s *state, e *event) string {
		if x, id := s.session(e), text(e.update, "currentModeId"); x != nil && id != "" && !slices.Contains(x.modes, id) {
			return fmt.Sprintf("the mode is %s, and there is no such mode", jsont.Brief(id))
		}
		return ""
	}},
	{rule: "CFG-01", on: aboutOptions, flaw: func(s *state, e *event) string {
		if e.update != nil {
			return badOptions(s, e.update["configOptions"])
		}
		return badOptions(s, e.result["configOptions"])
	}},
	{rule: "CFG-02", on: aboutOptions, flaw: eachOption(func(_ *state, o map[string]any) string {
		value := text(o, "currentValue")
		if text(o, "type") == "select" && !slices.ContainsFunc(choices(o), func(c map[string]any) bool { return text(c, "value") == value }) {
			return fmt.Sprintf("the option %s is %s, which is none of its values", jsont.Brief(optionID(o)), jsont.Brief(o["currentValue"]))
		}
		return ""
	})},
	{rule: "CFG-03", on: aboutOptions, in: schema.V1, flaw: eachOption(func(s *state, o map[string]any) string {
		if text(o, "type") == "boolean" && !s.can("session.configOptions.boolean") {
			return fmt.Sprintf("the option %s is boolean, and the client has not said that it can show such", jsont.Brief(optionID(o)))
		}
		return ""
	})},
	{rule: "CFG-09", on: updates("config_option_update"), flaw: func(s *state, e *event) string {
		x := s.session(e)
		if x == nil || len(x.options) == 0 {
			return ""
		}
		now := optionIDs(e.update)
		for _, id := range x.options {
			if !slices.Contains(now, id) {
				return fmt.Sprintf("the option %s is missing", jsont.Brief(id))
			}
		}
		return ""
	}},
	{rule: "CFG-10", on: aboutOptions, flaw: eachOption(func(s *state, o map[string]any) string {
		category, ok := o["category"]
		word, _ := category.(string)
		if ok && category != nil && !slices.Contains(categories, word) && !strings.HasPrefix(word, "_") && !caseVariant(word) {
			return "category is " + jsont.Brief(category)
		}
		return ""
	})},
	{rule: "CFG-12", on: aboutOptions, flaw: func(_ *state, e *event) string {
		seen := map[string]bool{}
		for _, o := range optionList(e) {
			if seen[optionID(o)] {
				return "two options have the id " + jsont.Brief(optionID(o))
			}
			seen[optionID(o)] = true
			values := map[string]bool{}
			for _, c := range choices(o) {
				if values[text(c, "value")] {
					return fmt.Sprintf("the option %s has the value %s twice", jsont.Brief(optionID(o)), jsont.Brief(c["value"]))
				}
				values[text(c, "value")] = true
			}
		}
		return ""
	}},
	{rule: "CFG-15", on: aboutOptions, flaw: func(s *state, e *event) string {
		x := s.optionSession(e)
		if x == nil {
			return ""
		}
		var now []string
		for _, o := range optionList(e) {
			if slices.Contains(x.options, optionID(o)) {
				now = append(now, optionID(o))
			}
		}
		was := slices.DeleteFunc(slices.Clone(x.options), func(id string) bool { return !slices.Contains(now, id) })
		if len(was) == len(now) && !slices.Equal(was, now) {
			return fmt.Sprintf("the order was %s, and is %s now", strings.Join(was, ", "), strings.Join(now, ", "))
		}
		return ""
	}},
	{rule: "CFG-16", on: aboutOptions, flaw: eachOption(func(s *state, o map[string]any) string {
		id := "group"
		if s.version == schema.V2 {
			id = "groupId"
		}
		for _, c := range objects(o, "options") {
			if _, grouped := c["options"]; grouped && (!isWord(c[id]) || !isText(c["name"]) || !isList(c["options"])) {
				return "a group is " + jsont.Brief(c)
			}
		}
		return ""
	})},
}
