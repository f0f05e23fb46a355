package goodagent

import (
	"context"
	"crypto/rand"
	"path/filepath"

	"github.com/parley-agents/parley/protocol/acp"
)

// during returns a filter for messages that pass while a request of the client
// for the method is open.
func during(method string, f filter) filter {
	return func(w *Wire, m Message) []Message {
		if w.Open(method) != nil {
			return f(w, m)
		}
		return keep(m)
	}
}

// without drops updates with the tag.
func without(tag string) filter {
	return func(_ *Wire, m Message) []Message {
		if m.Tag() == tag {
			return nil
		}
		return keep(m)
	}
}

// loadMutants is the part of the table of mutants that is about sessions that are loaded and resumed.
func loadMutants() []*Mutant {
	const (
		load   = "session/load"
		resume = "session/resume"
	)

	return []*Mutant{
		// The rules for session/load.
		{Rule: "SLOAD-01", Does: "cannot load", Out: fails(load, -32603)},
		{Rule: "SLOAD-02", Does: "replays only what the user said", Breaks: []string{"SLOAD-03"}, Out: during(load, without("agent_message_chunk"))},
		{Rule: "SLOAD-03", Does: "replays after the answer", Breaks: []string{"PRM-14"}, Out: func(w *Wire, m Message) []Message {
			held, _ := w.Note["held"].([]Message)
			if m.Tag() == "agent_message_chunk" && w.Open(load) != nil {
				w.Note["held"] = append(held, m)
				return nil
			}
			if m.Answers != nil && m.Answers.Method() == load {
				return append([]Message{m}, held...)
			}
			return keep(m)
		}},
		{Rule: "SLOAD-05", Does: "replays the user's words as its own", Breaks: []string{"UPD-18"}, Out: during(load, onUpdate("user_message_chunk", set("sessionUpdate", "agent_message_chunk")))},
		{Rule: "SLOAD-07", Does: "loads what never was", Out: accept(load, unknownSession, object{})},
		{Rule: "SLOAD-08", Does: "forgets what it replays", In: notesTold, Out: after(load, forgets)},
		{Rule: "SLOAD-09", Does: "keeps sessions in memory only", Change: func(a *Agent) { a.store = newStore(filepath.Join(a.store.dir, rand.Text())) }},
		{Rule: "SLOAD-10", Does: "reads files while it replays", Out: during(load, func(w *Wire, m Message) []Message {
			if m.Tag() == "user_message_chunk" {
				params := object{"sessionId": m.Params()["sessionId"], "path": w.Open(load).Params()["cwd"]}
				return []Message{{Object: object{"jsonrpc": "2.0", "id": "again", "method": "fs/read_text_file", "params": params}}, m}
			}
			return keep(m)
		}), In: func(_ *Wire, m Message) []Message {
			if m.Object["id"] == "again" {
				return nil
			}
			return keep(m)
		}},
		{Rule: "SLOAD-11", Does: "stays in the old folder", In: asks(load, every, func(p map[string]any) {
			if dir, _ := p["cwd"].(string); filepath.Base(dir) == "a" {
				p["cwd"] = filepath.Dir(dir)
			}
		})},

		// The rules for session/resume.
		{Rule: "SRES-01", Does: "answers session/resume with null", Out: accept(resume, has("mcpServers"), nil)},
		{Rule: "SRES-02", Does: "replays when it resumes", Breaks: []string{"PRM-14"}, Out: func(_ *Wire, m Message) []Message {
			if m.Answers != nil && m.Answers.Method() == resume && m.Result() != nil {
				return []Message{update(m.Answers.Params()["sessionId"], chunk("as I said")), m}
			}
			return keep(m)
		}},
		{Rule: "SRES-04", Does: "resumes what never was", Breaks: []string{"SNEW-10"}, Out: accept(resume, unknownSession, object{})},
		{Rule: "SRES-05", Does: "wants mcpServers", Out: refuse(resume, lacks("mcpServers"), -32602)},
		{Rule: "SRES-06", Does: "forgets what it resumes", In: notesTold, Out: after(resume, forgets)},
	}
}

// listMutants is the part of the table of mutants that is about sessions that are listed and closed.
func listMutants() []*Mutant {
	const (
		list = "session/list"
		shut = "session/close"
	)

	return []*Mutant{
		// The rules for session/list.
		{Rule: "SLIST-01", Does: "lists sessions by id", Out: onResult(list, set("sessions", object{}))},
		{Rule: "SLIST-02", Does: "wants to know which sessions to list", Out: refuse(list, lacks("cwd"), -32602)},
		{Rule: "SLIST-04", Does: "lists the sessions of all folders", In: asks(list, says(`/a"`), unset("cwd"))},
		{Rule: "SLIST-05", Does: "fails when there is nothing to list", Out: refuse(list, says("/no/such/folder"), -32002)},
		{Rule: "SLIST-06", Does: "has only one page", In: asks(list, has("cursor"), func(p map[string]any) {
			if p["cursor"] != "no-such-cursor" {
				delete(p, "cursor")
			}
		})},
		{Rule: "SLIST-07", Does: "starts again for any cursor", Out: accept(list, is("cursor", "no-such-cursor"), object{"sessions": []any{}})},
		{Rule: "SLIST-08", Does: "lists everything at once", Change: func(a *Agent) {
			page := a.ListSessions
			a.ListSessions = func(ctx context.Context, dir, cursor string) (all []acp.SessionInfo, _ string, _ error) {
				for {
					some, next, err := page(ctx, dir, cursor)
					if all = append(all, some...); err != nil || next == "" {
						return all, "", err
					}
					cursor = next
				}
			}
		}},
		{Rule: "SLIST-10", Does: "forgets a session when it lists them", Out: func(w *Wire, m Message) []Message {
			if m.Answers != nil && m.Answers.Method() == list && lacks("cwd")(m.Answers.Params()) && m.Result() != nil {
				if all, _ := m.Result()["sessions"].([]any); w.Note["listed"] == true && len(all) > 0 {
					m.Result()["sessions"] = all[1:]
				}
				w.Note["listed"] = true
			}
			return keep(m)
		}},
		{Rule: "SLIST-11", Does: "does not list new sessions", Out: onResult(list, func(r map[string]any) {
			r["sessions"] = []any{}
			delete(r, "nextCursor")
		})},
		{Rule: "SLIST-13", Does: "accepts a relative folder", Out: accept(list, is("cwd", "some/folder"), object{"sessions": []any{}})},

		// The rules for session/close.
		{Rule: "SCLO-01", Does: "answers session/close with null", Out: accept(shut, every, nil)},
		{Rule: "SCLO-02", Does: "ends the turn of a closed session as if nothing had been", In: notes(shut, every), Out: noted(stops("cancelled", "end_turn"))},
		{Rule: "SCLO-03", Does: "speaks in a session that was closed", Breaks: []string{"SNEW-10", "PRM-14"}, Out: func(w *Wire, m Message) []Message {
			if m.Answers == nil {
				return keep(m)
			}
			if m.Answers.Method() == shut {
				w.Note["closed"] = m.Answers.Params()["sessionId"]
			} else if id := w.Note["closed"]; id != nil {
				return []Message{update(id, chunk("one more thing")), m}
			}
			return keep(m)
		}},
		{Rule: "SCLO-04", Does: "does not answer for a session that never was", Breaks: []string{"INIT-16", "RPC-03"}, Out: ignore(shut, unknownSession)},
		{Rule: "SCLO-05", Does: "takes prompts in a closed session", Out: after(shut, func(_ *Wire, m Message) []Message {
			if m.Answers != nil && m.Answers.Method() == "session/prompt" && failed(m.Object) {
				delete(m.Object, "error")
				m.Object["result"] = object{"stopReason": "end_turn"}
			}
			return keep(m)
		})},
		{Rule: "SCLO-06", Does: "closes all sessions", Out: after(shut, fails("session/prompt", -32603))},
		{Rule: "SCLO-07", Does: "does not list closed sessions", Out: after(shut, onResult(list, set("sessions", []any{})))},
	}
}

// forkMutants is the part of the table of mutants that is about sessions that are deleted and forked.
func forkMutants() []*Mutant {
	const (
		list = "session/list"
		fork = "session/fork"
	)
	return []*Mutant{
		{Rule: "SDEL-01", Does: "answers session/delete with null", Out: accept("session/delete", every, nil)},
		{Rule: "SDEL-02", Does: "does not delete", In: func(w *Wire, m Message) []Message {
			if m.Method() == "session/delete" {
				w.Send(Message{Object: object{"jsonrpc": "2.0", "id": m.Object["id"], "result": object{}}})
				return nil
			}
			return keep(m)
		}},
		{Rule: "SDEL-03", Does: "cannot delete what is not there", Out: refuse("session/delete", unknownSession, -32002)},

		{Rule: "SFRK-01", Does: "forks without an id", Breaks: []string{"SFRK-02"}, Out: onResult(fork, set("sessionId", ""))},
		{Rule: "SFRK-02", Does: "forks into the same session", Out: func(_ *Wire, m Message) []Message {
			if m.Answers != nil && m.Answers.Method() == fork && m.Result() != nil {
				m.Result()["sessionId"] = m.Answers.Params()["sessionId"]
			}
			return keep(m)
		}},
		{Rule: "SFRK-03", Does: "tells the first session what was said in its fork", In: notesTold, Out: knowsAll},
		{Rule: "SFRK-04", Does: "does not answer for a fork in another folder", Breaks: []string{"RPC-03"}, In: notes("session/new", says(`/a"`)), Out: unnoted(ignore(fork, says(`/a"`)))},
		{Rule: "SFRK-05", Does: "gives a fork the folders of the first session", Out: after(fork, onResult(list, each("sessions", set("additionalDirectories", []any{"/inherited"}))))},
	}
}
