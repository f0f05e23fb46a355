package goodagent

import (
	"bytes"
	"encoding/json"
	"io"
	"os/exec"
	"os/signal"
	"slices"
	"syscall"
	"time"
	"unicode/utf8"
)

// oneFramePerRead takes the bytes of one read for one frame.
type oneFramePerRead struct {
	io.Reader
	rest []byte
}

func (r *oneFramePerRead) Read(b []byte) (int, error) {
	for len(r.rest) == 0 {
		buf := make([]byte, 1<<20)
		n, err := r.Reader.Read(buf)
		if err != nil {
			return 0, err
		}
		if line, _, whole := bytes.Cut(buf[:n], []byte("\n")); whole {
			r.rest = append(line, '\n')
		}
	}
	n := copy(b, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

// neverEnding does not notice the end.
type neverEnding struct{ io.Reader }

func (r neverEnding) Read(b []byte) (int, error) {
	n, err := r.Reader.Read(b)
	if err != nil {
		select {}
	}
	return n, nil
}

// transportMutants is the part of the table of mutants that is about streams of bytes and the life of the process.
func transportMutants() []*Mutant {
	return []*Mutant{
		// The rules for bytes and lines.
		{Rule: "TRN-05", Does: "writes other bytes than UTF-8 to standard error", Change: func(a *Agent) {
			a.Stderr.Write([]byte("caf\xe9\n")) // nothing depends on it
		}},
		{Rule: "TRN-06", Does: "takes what one read brings for one frame", Bytes: func(in io.Reader) io.Reader { return &oneFramePerRead{Reader: in} }},
		{Rule: "TRN-07", Does: "reads its input as ASCII", Bytes: lines(func(line []byte) ([]byte, bool) {
			return bytes.Map(func(c rune) rune {
				if c > 127 {
					return '?'
				}
				return c
			}, line), true
		})},
		{Rule: "TRN-08", Does: "reads no long lines", Bytes: lines(func(line []byte) ([]byte, bool) {
			if len(line) > 512<<10 {
				return nil, true
			}
			return line, true
		})},
		{Rule: "TRN-09", Does: "does not read lines that end in CR LF", Bytes: lines(func(line []byte) ([]byte, bool) {
			if bytes.HasSuffix(line, []byte("\r\n")) {
				return nil, true
			}
			return line, true
		})},
		{Rule: "TRN-10", Does: "swallows the line after a blank one", Bytes: func(in io.Reader) io.Reader {
			swallow := false
			return lines(func(line []byte) ([]byte, bool) {
				blank := len(bytes.TrimSpace(line)) == 0
				if swallow && !blank {
					swallow = false
					return nil, true
				}
				swallow = blank
				return line, true
			})(in)
		}},
		{Rule: "TRN-11", Does: "goes on when its input has ended", Process: true, Bytes: func(in io.Reader) io.Reader { return neverEnding{in} }},
		{Rule: "TRN-12", Does: "speaks first", Breaks: []string{"INIT-19", "EXT-03"}, Begin: func(w *Wire) {
			w.Send(Message{Object: object{"jsonrpc": "2.0", "method": "_goodagent/hello", "params": object{}}})
		}},
		{Rule: "TRN-15", Does: "passes on what an MCP server writes to standard error", Breaks: []string{"EXT-03"}, Out: func(_ *Wire, m Message) []Message {
			if m.Answers != nil && says(`"dead"`)(m.Answers.Params()) {
				return []Message{{Object: object{"jsonrpc": "2.0", "method": "noise"}}, m}
			}
			return keep(m)
		}},

		// The rules for the life of the process.
		{Rule: "LIFE-01", Does: "answers nothing but what is about sessions after a hundred of them", Breaks: []string{"RPC-03"}, Out: func(w *Wire, m Message) []Message {
			if m.Answers == nil {
				return keep(m)
			}
			count, _ := w.Note["count"].(int)
			if m.Answers.Method() == "session/new" {
				w.Note["count"] = count + 1
			} else if count >= 100 && m.Answers.Method() != "session/list" {
				return nil
			}
			return keep(m)
		}},
		{Rule: "LIFE-02", Does: "ignores the signal to end", Process: true, Change: func(*Agent) { signal.Ignore(syscall.SIGTERM) }},
		{Rule: "LIFE-03", Does: "leaves a process behind", Process: true, Change: func(*Agent) {
			exec.Command("sleep", "20").Start() // that it is left is the flaw
		}},
	}
}

// answerMutants is the part of the table of mutants that is about answers of JSON-RPC and lines that cannot be read.
func answerMutants() []*Mutant {
	return []*Mutant{
		// The rules for ids, methods and params.
		{Rule: "RPC-02", Does: "answers negative ids as texts", Out: func(_ *Wire, m Message) []Message {
			if id, ok := number(m.Object["id"]); ok && m.Answers != nil && id[0] == '-' {
				m.Object["id"] = id
			}
			return keep(m)
		}},
		{Rule: "RPC-02", Name: "missing", Does: "reports what it cannot read without an id", Out: func(_ *Wire, m Message) []Message {
			if id, has := m.Object["id"]; has && id == nil {
				delete(m.Object, "id")
			}
			return keep(m)
		}},
		{Rule: "RPC-06", Does: "answers notifications that it does not know", In: answersNotification(func(m Message) bool { return m.Method() == "no/such_notification" })},
		{Rule: "RPC-07", Does: "has a result for every method", Out: accept("parley/no_such_method", every, object{})},
		{Rule: "RPC-08", Does: "has another code for a session id that is a number", Out: refuse("session/prompt", func(p map[string]any) bool {
			_, ok := number(p["sessionId"])
			return ok
		}, -32603)},

		// Lines that cannot be read.
		{Rule: "RPC-09", Does: "says nothing about malformed JSON", Bytes: lines(func(line []byte) ([]byte, bool) {
			if !json.Valid(line) {
				return nil, true
			}
			return line, true
		})},
		{Rule: "RPC-10", Does: "says nothing about what is no request", Bytes: lines(func(line []byte) ([]byte, bool) {
			if json.Valid(line) && !bytes.Contains(line, []byte(`"method"`)) && !bytes.Contains(line, []byte(`"result"`)) && !bytes.Contains(line, []byte(`"error"`)) {
				return nil, true
			}
			return line, true
		})},
		{Rule: "RPC-11", Does: "ends at malformed JSON", Breaks: []string{"RPC-09"}, Bytes: lines(func(line []byte) ([]byte, bool) {
			if len(bytes.TrimSpace(line)) > 0 && !json.Valid(line) {
				return nil, false
			}
			return line, true
		})},
		{Rule: "RPC-11", Name: "text", Does: "is deaf after a line that is a text in quotes", Bytes: deafAfter(func(line []byte) bool { return line[0] == '"' })},
		{Rule: "RPC-11", Name: "utf-8", Does: "is deaf after a line that is not UTF-8", Breaks: []string{"RPC-09"}, Bytes: deafAfter(func(line []byte) bool { return !utf8.Valid(line) })},
	}
}

// exchangeMutants is the part of the table of mutants that is about requests of JSON-RPC that cross.
func exchangeMutants() []*Mutant {
	return []*Mutant{
		// Requests of both sides at the same time.
		{Rule: "RPC-13", Does: "makes no sessions while a turn runs", In: func(w *Wire, m Message) []Message {
			if m.Method() == "session/new" && w.Open("session/prompt") != nil {
				w.Note["late"] = m.Object["id"]
				return nil
			}
			return keep(m)
		}, Out: func(w *Wire, m Message) []Message {
			if id := w.Note["late"]; id != nil && m.Answers != nil && m.Answers.Method() == "session/prompt" {
				return []Message{m, {Object: object{"jsonrpc": "2.0", "id": id, "result": object{"sessionId": "late"}}}}
			}
			return keep(m)
		}},
		{Rule: "RPC-14", Does: "mixes up the answers to requests that it made at the same time", Out: func(w *Wire, m Message) []Message {
			if m.Method() == "fs/read_text_file" {
				ids, _ := w.Note["ids"].([]any)
				w.Note["ids"] = append(ids, m.Object["id"])
			}
			return keep(m)
		}, In: func(w *Wire, m Message) []Message {
			ids, _ := w.Note["ids"].([]any)
			if m.Answers == nil || m.Answers.Method() != "fs/read_text_file" || len(ids) == 0 {
				return keep(m)
			}
			i := 0
			if len(ids) > 1 && ids[0] == m.Object["id"] {
				i = 1
			}
			m.Object["id"] = ids[i]
			w.Note["ids"] = slices.Delete(ids, i, i+1)
			return keep(m)
		}},

		// Frames that an agent must survive.
		{Rule: "RPC-15", Does: "fails the turn when the client fails", In: replied("fs/", failed), Out: thenFails},
		{Rule: "RPC-16", Does: "is dead after a response to nothing", Breaks: []string{"RPC-03"}, In: func(w *Wire, m Message) []Message {
			if _, response := m.Object["result"]; response && m.Answers == nil {
				w.Note["dead"] = true
			}
			if w.Note["dead"] == true {
				return nil
			}
			return keep(m)
		}},
		{Rule: "RPC-18", Does: "ends at an array", Bytes: lines(func(line []byte) ([]byte, bool) {
			return line, !bytes.HasPrefix(line, []byte("["))
		})},
		{Rule: "RPC-19", Does: "takes a request for the answer to its own", Breaks: []string{"RPC-03"}, In: func(w *Wire, m Message) []Message {
			if m.Method() == "" || m.Object["id"] == nil {
				return keep(m)
			}
			if w.ask[string(encode(m.Object["id"]))] != nil {
				return nil
			}
			return keep(m)
		}},
	}
}

// questionMutants is the part of the table of mutants that is about extensions, errors and questions to the client.
func questionMutants() []*Mutant {
	return []*Mutant{
		{Rule: "EXT-01", Does: "has another code for extensions that it does not know", Out: refuse("_parley.test/no_such_method", every, -32603)},
		{Rule: "EXT-02", Does: "answers extensions that are notifications", In: answersNotification(func(m Message) bool { return m.Method() == "_parley.test/no_such_notification" })},
		{Rule: "EXT-04", Does: "fails the turn when the client does not know its extension", In: replied("_", failed), Out: thenFails},
		{Rule: "EXT-07", Does: "refuses _meta in session/new", Out: refuse("session/new", has("_meta"), -32602)},
		{Rule: "ERR-05", Does: "has the code for invalid requests for invalid params", Breaks: []string{"RPC-08", "SNEW-06", "PRM-11", "INIT-13", "ADIR-03", "ADIR-04"}, Out: onError(func(e map[string]any) {
			if code, _ := number(e["code"]); code == "-32602" {
				e["code"] = -32600
			}
		})},
		{Rule: "CAN-07", Does: "answers session/cancel for a session that does not exist", In: answersNotification(func(m Message) bool {
			return m.Method() == "session/cancel" && unknownSession(m.Params())
		})},
		{Rule: "CAN-15", Does: "answers $/cancel_request for a request that is not there", In: answersNotification(func(m Message) bool { return m.Method() == "$/cancel_request" })},
		{Rule: "CAN-20", Does: "answers unknown notifications of the protocol", In: answersNotification(func(m Message) bool { return m.Method() == "$/parley.test/no_such_notification" })},
		{Rule: "PERM-13", Does: "loses patience after a second", Out: func(w *Wire, m Message) []Message {
			if m.Method() == "session/request_permission" {
				w.Note["asked"] = time.Now()
			}
			return keep(m)
		}, In: func(w *Wire, m Message) []Message {
			if at, ok := w.Note["asked"].(time.Time); ok && m.Answers != nil && m.Answers.Method() == "session/request_permission" && time.Since(at) > time.Second {
				m.Object["result"] = outcome("no")
			}
			return keep(m)
		}},
	}
}

// outcome is the answer of a client that has chosen an option.
func outcome(option string) object {
	return object{"outcome": object{"outcome": "selected", "optionId": option}}
}

// deafAfter reads nothing of the client after a line that is chosen, and goes on living.
func deafAfter(chosen func(line []byte) bool) func(io.Reader) io.Reader {
	return func(in io.Reader) io.Reader {
		deaf := false
		return lines(func(line []byte) ([]byte, bool) {
			if deaf = deaf || (len(line) > 0 && chosen(line)); deaf {
				return nil, true
			}
			return line, true
		})(in)
	}
}
