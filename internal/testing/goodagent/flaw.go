package goodagent

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"slices"
	"strings"

	"github.com/parley-agents/parley/protocol/comply/model"
)

// The shapes of mutants that treat some requests in another way than others.

// A condition chooses requests by their params.
type condition func(params map[string]any) bool

// every chooses all.
func every(map[string]any) bool { return true }

// is chooses params with a member that has the value as text.
func is(name, value string) condition {
	return func(p map[string]any) bool { return p[name] == value }
}

// lacks chooses params without a member.
func lacks(name string) condition {
	return func(p map[string]any) bool { return p[name] == nil }
}

// has chooses params with a member.
func has(name string) condition {
	return func(p map[string]any) bool { return p[name] != nil }
}

// says chooses params whose JSON has the text.
func says(text string) condition {
	return func(p map[string]any) bool { return bytes.Contains(encode(p), []byte(text)) }
}

// unknownSession chooses params with an id of a session that never was.
var unknownSession = is("sessionId", "no-such-session")

// onRequest changes the responses to some requests for the method.
func onRequest(method string, c condition, change func(response map[string]any)) filter {
	return func(_ *Wire, m Message) []Message {
		if q := m.Answers; q != nil && q.Method() == method && c(q.Params()) {
			change(m.Object)
		}
		return keep(m)
	}
}

// refuse makes some requests for the method fail.
func refuse(method string, c condition, code int) filter {
	return onRequest(method, c, func(response map[string]any) { fail(response, code) })
}

// fail makes a response one with an error.
func fail(response map[string]any, code int) {
	delete(response, "result")
	response["error"] = object{"code": code, "message": "no"}
}

// accept makes some requests for the method succeed.
func accept(method string, c condition, result any) filter {
	return onRequest(method, c, func(response map[string]any) {
		delete(response, "error")
		response["result"] = result
	})
}

// results answers requests for the method with a value, unless they fail.
func results(method string, value any) filter {
	return onAnswer(method, func(response map[string]any) {
		if !failed(response) {
			response["result"] = value
		}
	})
}

// ignore never answers some requests for the method.
func ignore(method string, c condition) filter {
	return func(_ *Wire, m Message) []Message {
		if q := m.Answers; q != nil && q.Method() == method && c(q.Params()) {
			return nil
		}
		return keep(m)
	}
}

// asks changes the params of some requests and notifications of the client.
func asks(method string, c condition, change func(params map[string]any)) filter {
	return func(_ *Wire, m Message) []Message {
		if m.Method() == method && m.Params() != nil && c(m.Params()) {
			change(m.Params())
		}
		return keep(m)
	}
}

// both lets two filters see a message, one after the other.
func both(first, second filter) filter {
	return func(w *Wire, m Message) (out []Message) {
		for _, m := range first(w, m) {
			out = append(out, second(w, m)...)
		}
		return out
	}
}

// answersNotification answers a notification as if it were a request.
func answersNotification(c func(m Message) bool) filter {
	return func(w *Wire, m Message) []Message {
		if _, request := m.Object["id"]; !request && m.Method() != "" && c(m) {
			w.Send(Message{Object: object{"jsonrpc": "2.0", "id": nil, "error": object{"code": -32601, "message": "no"}}})
			return nil
		}
		return keep(m)
	}
}

// stops changes the stop reason of turns from one to another.
func stops(from, to string) filter {
	return onResult("session/prompt", func(r map[string]any) {
		if r["stopReason"] == from {
			r["stopReason"] = to
		}
	})
}

// misspeaks says something else than the agent wants to.
func misspeaks(from, to string) filter {
	return onUpdate("agent_message_chunk", within("content", func(c map[string]any) {
		if text, ok := c["text"].(string); ok {
			c["text"] = strings.ReplaceAll(text, from, to)
		}
	}))
}

// notesTold is a filter for In that notes the texts which a prompt asks the agent to tell, for
// forgets and knowsAll.
func notesTold(w *Wire, m Message) []Message {
	if m.Method() == "session/prompt" {
		var told []string
		steps, _ := model.Directives(promptText(m.Params()))
		for _, s := range steps {
			if s.Do == model.Tell {
				told = append(told, s.Text)
			}
		}
		w.Note["told"] = told
	}
	return keep(m)
}

// promptText returns the text blocks of a prompt.
func promptText(params map[string]any) string {
	var texts []string
	blocks, _ := params["prompt"].([]any)
	for _, b := range blocks {
		if block, ok := b.(map[string]any); ok {
			text, _ := block["text"].(string)
			texts = append(texts, text)
		}
	}
	return strings.Join(texts, "\n")
}

// forgets makes the agent not know what the prompt asks for. It needs notesTold.
func forgets(w *Wire, m Message) []Message {
	told, _ := w.Note["told"].([]string)
	for _, text := range told {
		misspeaks(text, model.Unknown)(w, m)
	}
	return keep(m)
}

// knowsAll makes the agent know what the prompt asks for, although nobody said it in this
// session. It needs notesTold.
func knowsAll(w *Wire, m Message) []Message {
	told, _ := w.Note["told"].([]string)
	if len(told) > 0 {
		misspeaks(model.Unknown, told[len(told)-1])(w, m)
	}
	return keep(m)
}

// looksElsewhere makes the agent tell the second text that the prompt asks for in place of the
// first. It needs notesTold.
func looksElsewhere(w *Wire, m Message) []Message {
	told, _ := w.Note["told"].([]string)
	if len(told) == 2 {
		misspeaks(told[0], told[1])(w, m)
	}
	return keep(m)
}

// notesSayings is a filter for In that notes the last text that the agent must say after it
// asked the user.
func notesSayings(w *Wire, m Message) []Message {
	if m.Method() != "session/prompt" {
		return keep(m)
	}
	steps, _ := model.Directives(promptText(m.Params()))
	asked := false
	for _, s := range steps {
		asked = asked || (s.Do == model.Tool && s.Name == "ask")
		if asked && s.Do == model.Say {
			w.Note["last"] = s.Text
		}
	}
	return keep(m)
}

// after returns a filter that works once a request for the method was answered.
func after(method string, f filter) filter {
	return func(w *Wire, m Message) []Message {
		if w.Note["after"] == true {
			return f(w, m)
		}
		if m.Answers != nil && m.Answers.Method() == method {
			w.Note["after"] = true
		}
		return keep(m)
	}
}

// notes returns a filter for In that notes that some request or notification of
// the client came, for noted.
func notes(method string, c condition) filter {
	return func(w *Wire, m Message) []Message {
		if m.Method() == method && c(m.Params()) {
			w.Note["noted"] = true
		}
		return keep(m)
	}
}

// noted returns a filter that works once something was noted.
func noted(f filter) filter {
	return func(w *Wire, m Message) []Message {
		if w.Note["noted"] == true {
			return f(w, m)
		}
		return keep(m)
	}
}

// unnoted returns a filter that works until something is noted.
func unnoted(f filter) filter {
	return func(w *Wire, m Message) []Message {
		if w.Note["noted"] == true {
			return keep(m)
		}
		return f(w, m)
	}
}

// replied returns a filter for In that notes an answer of the client to a request
// of the agent.
func replied(method string, c func(response map[string]any) bool) filter {
	return func(w *Wire, m Message) []Message {
		if q := m.Answers; q != nil && strings.HasPrefix(q.Method(), method) && c(m.Object) {
			w.Note["noted"] = true
		}
		return keep(m)
	}
}

// thenFails makes turns fail once something was noted.
var thenFails = noted(fails("session/prompt", -32603))

// failed reports whether a response is an error.
func failed(response map[string]any) bool { return response["error"] != nil }

// update returns an update of a session.
func update(session any, u object) Message {
	return Message{Object: object{"jsonrpc": "2.0", "method": "session/update", "params": object{"sessionId": session, "update": u}}}
}

// chunk is an update that says something.
func chunk(text string) object {
	return object{"sessionUpdate": "agent_message_chunk", "content": object{"type": "text", "text": text}}
}

// lines returns a reader of the lines that f makes of those of another. A line
// for which f returns nil is left out; when it reports false the input ends.
func lines(f func(line []byte) ([]byte, bool)) func(io.Reader) io.Reader {
	return func(in io.Reader) io.Reader {
		r, w := io.Pipe()
		go func() {
			defer w.Close()
			source := bufio.NewReader(in)
			for {
				line, err := source.ReadBytes('\n')
				line, ok := f(line)
				if _, failed := w.Write(line); failed != nil || err != nil || !ok {
					return
				}
			}
		}()
		return r
	}
}

// remove removes the elements of a list inside that are chosen.
func remove(name string, c condition) func(map[string]any) {
	return func(o map[string]any) {
		list, _ := o[name].([]any)
		o[name] = slices.DeleteFunc(list, func(item any) bool {
			element, _ := item.(map[string]any)
			return c(element)
		})
	}
}

// number returns an id as text if it is a number.
func number(id any) (string, bool) {
	n, ok := id.(json.Number)
	return n.String(), ok
}
