package goodagent

import "bytes"

// raw passes messages on as what f makes of their lines.
func raw(f func(line []byte) []byte) filter {
	return func(_ *Wire, m Message) []Message {
		return keep(Message{Raw: f(append(encode(m.Object), '\n'))})
	}
}

// once does so with the first message that answers the method.
func once(method string, f func(line []byte) []byte) filter {
	change := raw(f)
	return func(w *Wire, m Message) []Message {
		if w.Note["done"] == nil && m.Answers != nil && m.Answers.Method() == method {
			w.Note["done"] = true
			return change(w, m)
		}
		return keep(m)
	}
}

func init() {
	register(
		&Mutant{Rule: "TRN-01", Does: "greets people on standard output", Out: once("session/new", func(line []byte) []byte {
			return append([]byte("Welcome!\n"), line...)
		})},
		&Mutant{Rule: "TRN-02", Does: "spreads a message over several lines", Out: once("session/new", func(line []byte) []byte {
			return bytes.ReplaceAll(line, []byte(`,"`), []byte(",\n\""))
		})},
	)
}
