package goodagent

import (
	"slices"
	"strings"
)

// v2Mutants is the part of the table of mutants that is about version 2 of the protocol.
func v2Mutants() (out []*Mutant) {
	const initialize = "initialize"

	// ends changes the update that ends a turn.
	ends := func(change func(update map[string]any)) filter {
		return onUpdate("state_update", func(u map[string]any) {
			if u["stopReason"] != nil {
				change(u)
			}
		})
	}

	// reason changes the reason for which a turn ends.
	reason := func(from, to string) filter {
		return ends(func(u map[string]any) {
			if u["stopReason"] == from {
				u["stopReason"] = to
			}
		})
	}

	// state drops a state.
	state := func(name string) filter {
		return func(_ *Wire, m Message) []Message {
			if m.Tag() == "state_update" && m.Update()["state"] == name {
				return nil
			}
			return keep(m)
		}
	}

	out = []*Mutant{
		{Rule: "INIT-01", Does: "says nothing about its capabilities", Breaks: []string{"INIT-06", "INIT-11", "SNEW-10"}, Out: onResult(initialize, unset("capabilities"))},
		{Rule: "INIT-04", Does: "refuses versions from the future", Out: refuse(initialize, version("65535"), -32602)},
		{Rule: "INIT-05", Does: "refuses version 0", Out: refuse(initialize, version("0"), -32602)},
		{Rule: "SNEW-01", Does: "makes sessions without an id", Breaks: []string{"SNEW-02"}, Out: onResult("session/new", set("sessionId", ""))},
		{Rule: "SRES-01", Does: "answers session/resume with null", Out: accept("session/resume", func(p map[string]any) bool { return lacks("replayFrom")(p) && !unknownSession(p) }, nil)},
		{Rule: "SRES-02", Does: "replays when it was not asked to", Breaks: []string{"PRM-14", "UPD-18"}, Out: func(_ *Wire, m Message) []Message {
			if m.Answers != nil && m.Answers.Method() == "session/resume" && m.Result() != nil && lacks("replayFrom")(m.Answers.Params()) {
				again := chunk("as I said")
				again["messageId"] = "again"
				return []Message{update(m.Answers.Params()["sessionId"], again), m}
			}
			return keep(m)
		}},
		{Rule: "SRES-04", Does: "resumes what never was", Breaks: []string{"SNEW-10"}, Out: accept("session/resume", unknownSession, object{})},
		{Rule: "SLOAD-02", Does: "does not replay", Breaks: []string{"SLOAD-03"}, Out: during("session/resume", without("agent_message_chunk"))},
		{Rule: "SLIST-01", Does: "lists sessions by id", Out: onResult("session/list", set("sessions", object{}))},
		{Rule: "SCLO-01", Does: "answers session/close with null", Out: accept("session/close", every, nil)},
		{Rule: "SDEL-01", Does: "answers session/delete with null", Out: accept("session/delete", every, nil)},
		{Rule: "SDEL-02", Does: "does not delete", In: func(w *Wire, m Message) []Message {
			if m.Method() == "session/delete" {
				w.Send(Message{Object: object{"jsonrpc": "2.0", "id": m.Object["id"], "result": object{}}})
				return nil
			}
			return keep(m)
		}},
		{Rule: "PRM-01", Does: "does not say that it works", Out: state("running")},
		{Rule: "PRM-10", Does: "takes prompts for a session that never was", Out: accept("session/prompt", unknownSession, object{"messageId": "never"})},
		{Rule: "PRM-13", Does: "keeps what the model says to itself", Out: without("agent_message_chunk")},
		{Rule: "PRM-14", Does: "says that it works when it does not", Out: func(w *Wire, m Message) []Message {
			if m.Tag() != "" {
				w.Note["session"] = m.Params()["sessionId"]
			}
			if m.Answers != nil && m.Answers.Method() == "_parley.test/no_such_method" && w.Note["session"] != nil {
				return []Message{update(w.Note["session"], object{"sessionUpdate": "state_update", "state": "running"}), m}
			}
			return keep(m)
		}},
		{Rule: "PRM-16", Does: "forgets the turn before", Change: func(a *Agent) { a.Traits.Forgetful = true }},
		{Rule: "STOP-01", Does: "always says that it ran out of tokens", Out: reason("end_turn", "max_tokens")},
		{Rule: "CAN-01", Does: "ends a cancelled turn as if nothing had been", Breaks: []string{"CAN-12"}, Out: reason("cancelled", "end_turn")},
		{Rule: "CAN-09", Does: "never ends a turn that was cancelled before it has said or asked something", Out: func(w *Wire, m Message) []Message {
			noteActive(w, m)
			if m.Update()["stopReason"] == "cancelled" && w.Note[active(m)] == nil {
				return nil
			}
			return keep(m)
		}},
		{Rule: "CAN-11", Does: "stays cancelled", Breaks: []string{"STOP-05"}, Out: func(w *Wire, m Message) []Message {
			if m.Update()["stopReason"] != nil {
				if w.Note["stopped"] == true {
					m.Update()["stopReason"] = "cancelled"
				}
				w.Note["stopped"] = m.Update()["stopReason"] == "cancelled"
			}
			return keep(m)
		}},
		{Rule: "CAN-12", Does: "ends a turn that was cancelled at a question as if nothing had been", Breaks: []string{"CAN-01"}, Out: func(w *Wire, m Message) []Message {
			if m.Method() == "session/request_permission" {
				w.Note["noted"] = true
			}
			return noted(reason("cancelled", "end_turn"))(w, m)
		}},
		{Rule: "PERM-05", Does: "does not do what was allowed", In: hears(selected("once"), "no")},
		{Rule: "PERM-06", Does: "does what was refused", In: hears(selected("no"), "once")},
		{Rule: "PERM-07", Does: "takes a cancelled question for permission", In: takesCancelled, Out: noted(reason("end_turn", "cancelled"))},
		{Rule: "PERM-10", Does: "takes an unknown outcome for permission", In: hears(outcomeIs("_parley_test_postponed"), "once")},
	}
	return inV2(out)
}

// inV2 makes mutants those of version 2. Their names begin with v2.
func inV2(list []*Mutant) []*Mutant {
	for _, m := range list {
		m.V2 = true
		m.Name = strings.TrimSuffix("v2-"+m.Name, "-")
	}
	return list
}

// alsoInV2 returns mutants of version 2 with the flaws of mutants of version 1 that have these ids.
func alsoInV2(v1 []*Mutant, ids ...string) (out []*Mutant) {
	for _, id := range ids {
		i := slices.IndexFunc(v1, func(m *Mutant) bool { return m.ID() == id })
		if i < 0 {
			panic("goodagent: there is no mutant " + id) // only a mistake in a table
		}
		same := *v1[i]
		out = append(out, &same)
	}
	return inV2(out)
}
