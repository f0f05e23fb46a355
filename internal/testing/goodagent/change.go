package goodagent

// The shapes that most mutants have. Each returns a function for Mutant.Out (or
// Mutant.In) that changes some messages and passes on all.

type filter = func(*Wire, Message) []Message

// keep passes a message on.
func keep(m Message) []Message { return []Message{m} }

// onUpdate changes updates with the tag.
func onUpdate(tag string, change func(update map[string]any)) filter {
	return func(_ *Wire, m Message) []Message {
		if m.Tag() == tag {
			change(m.Update())
		}
		return keep(m)
	}
}

// onResult changes the results of requests for the method.
func onResult(method string, change func(result map[string]any)) filter {
	return func(_ *Wire, m Message) []Message {
		if m.Answers != nil && m.Answers.Method() == method && m.Result() != nil {
			change(m.Result())
		}
		return keep(m)
	}
}

// onResultWith is onResult for a change that needs the notes of the wire.
func onResultWith(method string, change func(w *Wire, result map[string]any)) filter {
	return func(w *Wire, m Message) []Message {
		return onResult(method, func(r map[string]any) { change(w, r) })(w, m)
	}
}

// onCall changes the params of the agent's requests and notifications with the
// method.
func onCall(method string, change func(params map[string]any)) filter {
	return func(_ *Wire, m Message) []Message {
		if m.Method() == method {
			change(m.Params())
		}
		return keep(m)
	}
}

// onAnswer changes whole responses to requests for the method.
func onAnswer(method string, change func(response map[string]any)) filter {
	return func(_ *Wire, m Message) []Message {
		if m.Answers != nil && m.Answers.Method() == method {
			change(m.Object)
		}
		return keep(m)
	}
}

// onError changes the errors of responses.
func onError(change func(failure map[string]any)) filter {
	return func(_ *Wire, m Message) []Message {
		if e := child(m.Object, "error"); e != nil {
			change(e)
		}
		return keep(m)
	}
}

// set returns a change that sets a member.
func set(name string, value any) func(map[string]any) {
	return func(o map[string]any) { o[name] = value }
}

// unset returns a change that removes a member.
func unset(name string) func(map[string]any) {
	return func(o map[string]any) { delete(o, name) }
}

// within returns a change that is made to an object inside.
func within(name string, change func(map[string]any)) func(map[string]any) {
	return func(o map[string]any) {
		if c := child(o, name); c != nil {
			change(c)
		}
	}
}

// each returns a change that is made to all objects of a list inside.
func each(name string, change func(map[string]any)) func(map[string]any) {
	return func(o map[string]any) {
		list, _ := o[name].([]any)
		for _, item := range list {
			if c, ok := item.(map[string]any); ok {
				change(c)
			}
		}
	}
}

// fails makes requests for the method fail with a code.
func fails(method string, code int) filter {
	return onAnswer(method, func(response map[string]any) {
		delete(response, "result")
		response["error"] = map[string]any{"code": code, "message": "no"}
	})
}
