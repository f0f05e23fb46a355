package goodagent

import "encoding/json"

// The shapes of mutants that are caught by single frames. They are in the files
// whose names begin with frames.

// asLines returns a change that passes messages through f as lines.
func asLines(m Message, f func(line []byte) []byte) []Message {
	return keep(Message{Raw: f(append(encode(m.Object), '\n'))})
}

// once applies f to the first chosen message only.
func once(chosen func(m Message) bool, f filter) filter {
	return func(w *Wire, m Message) []Message {
		if w.Note["once"] != nil || !chosen(m) {
			return keep(m)
		}
		w.Note["once"] = true
		return f(w, m)
	}
}

// answering chooses responses to requests for the method.
func answering(method string) func(Message) bool {
	return func(m Message) bool { return m.Answers != nil && m.Answers.Method() == method }
}

// calling chooses requests and notifications with the method.
func calling(method string) func(Message) bool {
	return func(m Message) bool { return m.Method() == method }
}

// asLine changes the line of the first response to the method.
func asLine(method string, f func(line []byte) []byte) filter {
	return once(answering(method), func(_ *Wire, m Message) []Message { return asLines(m, f) })
}

// onceCall changes the params of the first request with the method.
func onceCall(method string, change func(params map[string]any)) filter {
	return once(calling(method), onCall(method, change))
}

// followed adds a message behind those that are chosen.
func followed(chosen func(m Message) bool, by func(w *Wire, m Message) Message) filter {
	return func(w *Wire, m Message) []Message {
		if !chosen(m) {
			return keep(m)
		}
		return []Message{m, by(w, m)}
	}
}

// tagged chooses updates with the tag.
func tagged(tag string) func(Message) bool { return func(m Message) bool { return m.Tag() == tag } }

// drop leaves out the messages that are chosen.
func drop(chosen func(m Message) bool) filter {
	return func(_ *Wire, m Message) []Message {
		if chosen(m) {
			return nil
		}
		return keep(m)
	}
}

// notification returns one.
func notification(method string, params map[string]any) Message {
	return Message{Object: object{"jsonrpc": "2.0", "method": method, "params": params}}
}

// session returns the session that a message, or the request it answers, names.
func (m Message) session() any {
	if m.Answers != nil {
		return m.Answers.Params()["sessionId"]
	}
	return m.Params()["sessionId"]
}

// when returns a change that is made only to objects with a member of that value.
func when(name string, value any, change func(map[string]any)) func(map[string]any) {
	return func(o map[string]any) {
		if o[name] == value {
			change(o)
		}
	}
}

// pretend changes the capabilities of the client before the agent reads them.
func pretend(change func(caps map[string]any)) filter {
	return func(_ *Wire, m Message) []Message {
		if m.Method() == "initialize" {
			if caps := child(m.Params(), "clientCapabilities"); caps != nil {
				change(caps)
			}
		}
		return keep(m)
	}
}

// stray drops answers of the client to requests that a mutant has invented, whose
// ids begin so.
const stray = "stray-"

func dropStray(_ *Wire, m Message) []Message {
	if id, _ := m.Object["id"].(string); m.Method() == "" && len(id) > len(stray) && id[:len(stray)] == stray {
		return nil
	}
	return keep(m)
}

// block changes blocks of content of a type in messages of the agent.
func block(kind string, change func(map[string]any)) filter {
	return onUpdate("agent_message_chunk", within("content", when("type", kind, change)))
}

// first returns a change of the first object of a list.
func first(name string, change func(map[string]any)) func(map[string]any) {
	return func(o map[string]any) {
		if list, _ := o[name].([]any); len(list) > 0 {
			if item, ok := list[0].(map[string]any); ok {
				change(item)
			}
		}
	}
}

// options returns a change of the list of options in an object.
func optionList(change func(list []any) []any) func(map[string]any) {
	return func(o map[string]any) {
		if list, ok := o["configOptions"].([]any); ok && len(list) > 0 {
			o["configOptions"] = change(list)
		}
	}
}

// ends chooses responses to prompts with the stop reason.
func ends(reason string) func(Message) bool {
	return func(m Message) bool { return answering("session/prompt")(m) && m.Result()["stopReason"] == reason }
}

// saidBye chooses responses to prompts that were to end so: a frame after them does
// not come between the steps of another test.
func saidBye(m Message) bool { return ends("end_turn")(m) && says("Bye.")(m.Answers.Params()) }

// code chooses errors with the code.
func code(n string, change func(map[string]any)) filter {
	return onError(func(e map[string]any) {
		if e["code"] == json.Number(n) {
			change(e)
		}
	})
}
