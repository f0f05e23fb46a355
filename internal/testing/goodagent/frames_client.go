package goodagent

import "path/filepath"

// ofFile returns a change that is made only to params with the path of a file of
// that name: others must be read as they should, or it shows elsewhere.
func ofFile(name string, change func(map[string]any)) func(map[string]any) {
	return func(params map[string]any) {
		if path, _ := params["path"].(string); filepath.Base(path) == name {
			change(params)
		}
	}
}

// clientFrameMutants is the part of the table of mutants that is about requests of the agent to the client.
func clientFrameMutants() []*Mutant {
	files := func(name string) func(map[string]any) {
		return func(caps map[string]any) {
			fs := child(caps, "fs")
			if fs == nil {
				fs = object{}
				caps["fs"] = fs
			}
			fs[name] = true
		}
	}

	return []*Mutant{
		// The rules for files.
		{Rule: "FS-01", Does: "reads files through every client", Breaks: []string{"FS-03"}, In: pretend(files("readTextFile"))},
		{Rule: "FS-02", Does: "writes files through every client", Breaks: []string{"FS-03", "PERM-05", "PERM-13"}, In: pretend(files("writeTextFile"))},
		{Rule: "FS-03", Does: "takes who can read for one who can write", Breaks: []string{"FS-01", "FS-02"}, In: pretend(within("fs", func(fs map[string]any) {
			if fs["readTextFile"] == true || fs["writeTextFile"] == true {
				fs["readTextFile"], fs["writeTextFile"] = true, true
			}
		}))},
		{Rule: "FS-04", Does: "reads relative paths", Out: onCall("fs/read_text_file", ofFile("a.txt", set("path", "a.txt")))},
		{Rule: "FS-05", Does: "counts lines from 0", Out: onCall("fs/read_text_file", set("line", 0))},
		{Rule: "FS-06", Does: "reads files for another session", Out: onCall("fs/read_text_file", set("sessionId", "somebody-else"))},
		{Rule: "FS-11", Does: "reads files outside of the session", Breaks: []string{"ADIR-09"}, Out: onCall("fs/read_text_file", ofFile("a.txt", set("path", "/etc/hosts")))},

		// The rules for terminals.
		{Rule: "TERM-01", Does: "uses terminals of every client", In: pretend(set("terminal", true))},
		{Rule: "TERM-02", Does: "has numbers as arguments", Out: onceCall("terminal/create", set("args", []any{1}))},
		{Rule: "TERM-03", Does: "does not release terminals", Breaks: []string{"TERM-06"}, Change: func(a *Agent) { a.Traits.KeepTerminals = true }},
		{Rule: "TERM-06", Does: "does not release terminals that it has killed", Change: func(a *Agent) { a.Traits.KeepKilled = true }},
		{Rule: "TERM-04", Does: "reads terminals that it has released", In: func(w *Wire, m Message) []Message {
			if m.Answers != nil && m.Answers.Method() == "terminal/release" {
				late := notification("terminal/output", m.Answers.Params())
				late.Object["id"] = stray + "output"
				w.Send(late)
			}
			return dropStray(w, m)
		}},
		{Rule: "TERM-05", Does: "reads terminals that do not exist", Out: onceCall("terminal/output", set("terminalId", "nowhere"))},
		{Rule: "TERM-13", Does: "reads terminals of no session", Out: onCall("terminal/output", unset("sessionId"))},

		// The rules for questions to the user.
		{Rule: "ELI-01", Does: "asks the user of every client", In: pretend(func(caps map[string]any) {
			if caps["elicitation"] == nil {
				caps["elicitation"] = object{"form": object{}, "url": object{}}
			}
		})},
		{Rule: "ELI-02", Does: "takes a client with forms for one with pages", In: pretend(within("elicitation", set("url", object{})))},
		{Rule: "ELI-03", Does: "asks the user without a message", Out: onCall("elicitation/create", unset("message"))},
		{Rule: "ELI-04", Does: "names a tool call and no session", Out: onCall("elicitation/create", unset("sessionId"))},
		{Rule: "ELI-05", Does: "has forms that are no objects", Out: onCall("elicitation/create", within("requestedSchema", unset("type")))},
		{Rule: "ELI-06", Does: "has objects as fields", Out: onCall("elicitation/create", within("requestedSchema", within("properties", set("count", object{"type": "object"}))))},
		{Rule: "ELI-07", Does: "demands fields that it does not have", Out: onCall("elicitation/create", within("requestedSchema", set("required", []any{"address"})))},
		{Rule: "ELI-08", Does: "has pages without encryption", Out: onCall("elicitation/create", when("mode", "url", set("url", "http://example.com/login")))},
		{Rule: "ELI-09", Does: "has tokens in addresses", Out: onCall("elicitation/create", when("mode", "url", set("url", "https://example.com/login?token=abc")))},
		{Rule: "ELI-10", Does: "has the same id for two pages", In: dropStray, Out: func(_ *Wire, m Message) []Message {
			if m.Method() != "elicitation/create" || m.Params()["mode"] != "url" {
				return keep(m)
			}
			before := m.Copy()
			before.Object["id"] = stray + "page"
			return []Message{before, m}
		}},
		{Rule: "ELI-11", Does: "asks about a request that nobody made", Out: onCall("elicitation/create", func(p map[string]any) {
			delete(p, "sessionId")
			delete(p, "toolCallId")
			p["requestId"] = 4711
		})},
		{Rule: "ELI-14", Does: "completes pages that it has not asked for", Out: onCall("elicitation/complete", set("elicitationId", "another"))},
		{Rule: "ELI-15", Does: "asks for a password in a form", Out: onCall("elicitation/create", within("requestedSchema", within("properties", set("password", object{"type": "string"}))))},
		{Rule: "ELI-16", Does: "has links in a form", Out: onCall("elicitation/create", within("requestedSchema", within("properties", within("name", set("description", "See https://example.com/names")))))},
	}
}
