package mcptools_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/server"
)

// A cast is a hub with agents that have nothing but the texts of their tools.
type cast struct {
	t      *testing.T
	hub    *running
	agents map[string]*agent
}

// newCast returns a hub with a team auth that is active: ana coordinates, bo and dan
// execute, rex reviews, ivo integrates.
func newCast(t *testing.T, o server.Options) *cast {
	t.Helper()
	c := &cast{t: t, hub: start(t, o), agents: map[string]*agent{}}
	for _, name := range []string{"ana", "bo", "dan", "rex", "ivo"} {
		c.agents[name] = c.hub.overHTTP(t, c.hub.add(t, hub.AgentID(name)))
	}
	c.hub.do(t, c.hub.operator, "acp/team", map[string]any{"action": "create", "team": "auth", "objective": "log in without a password", "members": []map[string]any{
		{"agent": "ana", "role": "coordinator"}, {"agent": "bo", "role": "executor"}, {"agent": "dan", "role": "executor"},
		{"agent": "rex", "role": "reviewer"}, {"agent": "ivo", "role": "integrator"},
	}})
	c.hub.do(t, c.hub.operator, "acp/team", map[string]any{"action": "status", "team": "auth", "lifecycle": "active"})
	for _, a := range c.agents {
		a.text(t, "acp_inbox", map[string]any{"ack": true})
	}
	return c
}

// call calls a tool as a model does, which must succeed, and returns its text.
func (c *cast) call(name, tool string, args map[string]any) string {
	c.t.Helper()
	got := c.agents[name].text(c.t, tool, args)
	if got.isError {
		c.t.Fatalf("%s: %s %v: got the error %q", name, tool, args, got.text)
	}
	c.readable(name, tool, got.text)
	return got.text
}

// refused calls a tool that must refuse, and returns the text.
func (c *cast) refused(name, tool string, args map[string]any) string {
	c.t.Helper()
	got := c.agents[name].text(c.t, tool, args)
	if !got.isError {
		c.t.Errorf("%s: %s %v: got %q, want an error", name, tool, args, got.text)
	}
	c.readable(name, tool, got.text)
	return got.text
}

var (
	longID = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-`)
	goList = regexp.MustCompile(`\[[a-z0-9]+( [a-z0-9]+)+\]`)
)

// readable fails the test if a text has an id that is not short, or a list as Go prints it.
func (c *cast) readable(name, tool, text string) {
	c.t.Helper()
	if longID.MatchString(text) {
		c.t.Errorf("%s: %s: got %q, want short ids alone", name, tool, text)
	}
	if goList.MatchString(text) {
		c.t.Errorf("%s: %s: got %q, want no list with blanks alone between its parts", name, tool, text)
	}
}

// find returns the first group of a pattern in a text.
func (c *cast) find(text, pattern string) string {
	c.t.Helper()
	m := regexp.MustCompile(pattern).FindStringSubmatch(text)
	if m == nil {
		c.t.Fatalf("got %q, want %q in it", text, pattern)
	}
	return m[len(m)-1]
}

// has fails the test if a text lacks one of some parts.
func (c *cast) has(text string, parts ...string) {
	c.t.Helper()
	for _, p := range parts {
		if !strings.Contains(text, p) {
			c.t.Errorf("got %q, want %q in it", text, p)
		}
	}
}

func TestAnswersInThreads(t *testing.T) {
	c := newCast(t, server.Options{})

	t.Run("an offer is declined with a reason", func(t *testing.T) {
		c.t = t
		c.call("bo", "acp_send", map[string]any{"to": []string{"dan"}, "type": "task.offer", "text": "Rotate the keys"})
		offer := c.find(c.call("dan", "acp_inbox", nil), `(m\d+) task.offer from bo`)
		c.call("dan", "acp_respond", map[string]any{"reply_to": offer, "type": "task.decline", "payload": map[string]any{"reason": "at_capacity", "detail": "until Friday"}})
		c.has(c.call("bo", "acp_query", map[string]any{"negotiation": offer}), "negotiation "+offer+" is declined", "> reason: at_capacity")
	})
	t.Run("an offer is declined by its short id in the payload", func(t *testing.T) {
		c.t = t
		c.call("bo", "acp_send", map[string]any{"to": []string{"dan"}, "type": "task.offer", "text": "Rotate the logs"})
		offer := c.find(c.call("dan", "acp_inbox", nil), `(m\d+) task.offer from bo`)
		c.call("dan", "acp_send", map[string]any{"to": []string{"bo"}, "type": "task.decline", "payload": map[string]any{"offer_id": offer, "reason": "out_of_scope"}})
		c.has(c.call("bo", "acp_query", map[string]any{"negotiation": offer}), "is declined", "> offer_id: "+offer)
	})
	t.Run("a position is challenged, answered, challenged again and conceded", func(t *testing.T) {
		c.t = t
		c.call("bo", "acp_send", map[string]any{"to": []string{"dan"}, "type": "position.state", "payload": map[string]any{
			"topic": "store", "position": "SQLite", "reasoning": "one file", "confidence": "high", "open_to_revision": true,
		}})
		first := c.find(c.call("dan", "acp_inbox", nil), `(m\d+) position.state from bo`)
		c.has(c.refused("dan", "acp_respond", map[string]any{"reply_to": first, "type": "position.challenge", "text": "Postgres"}), "counter_position, reasoning and severity")
		challenge := map[string]any{"counter_position": "Postgres", "reasoning": "two writers", "severity": "minor"}
		c.call("dan", "acp_respond", map[string]any{"reply_to": first, "type": "position.challenge", "payload": challenge})
		second := c.find(c.call("bo", "acp_inbox", nil), `(m\d+) position.challenge from dan`)
		c.call("bo", "acp_respond", map[string]any{"reply_to": second, "type": "position.state", "payload": map[string]any{
			"topic": "store", "position": "SQLite still", "reasoning": "one writer is enough", "confidence": "high", "open_to_revision": true,
		}})
		third := c.find(c.call("dan", "acp_inbox", nil), `(m\d+) position.state from bo`)
		c.call("dan", "acp_respond", map[string]any{"reply_to": third, "type": "position.concede", "payload": map[string]any{"what_changed_mind": "there is one writer"}})
		c.has(c.call("bo", "acp_query", map[string]any{"disagreement": first}), "disagreement "+first+" is conceded", "there is one writer")
	})
}

func TestNegotiationIsDecided(t *testing.T) {
	c := newCast(t, server.Options{})
	c.call("ana", "acp_send", map[string]any{"to": []string{"bo"}, "team": "auth", "type": "task.offer", "text": "Rotate the keys"})
	offer := c.find(c.call("bo", "acp_inbox", nil), `(m\d+) task.offer from ana`)
	next, from, to := offer, "bo", "ana"
	answer := ""
	for _, terms := range []string{"in two days", "today", "tomorrow", "tonight"} {
		answer = c.call(from, "acp_respond", map[string]any{"reply_to": next, "type": "task.counter", "text": terms})
		next = c.find(answer, `Sent (m\d+)`)
		c.call(to, "acp_inbox", nil)
		from, to = to, from
	}
	// The only coordinator of the team takes part, so that the operator decides.
	c.has(answer, "the negotiation "+offer+" is escalated because the limit on counters is reached; it waits for a decision by operator")
	c.has(c.call("bo", "acp_query", map[string]any{"negotiation": offer}), "escalated to operator")
	c.has(c.refused("bo", "acp_respond", map[string]any{"reply_to": next, "decision": "accept", "text": "mine"}), "forbidden", "it was escalated to operator")

	t.Run("the agent that must decide is told the words of both sides, and decides", func(t *testing.T) {
		c.t = t
		boss := c.hub.overHTTP(t, c.hub.add(t, "boss"))
		c.agents["boss"] = boss
		c.hub.do(t, c.hub.operator, "acp/team", map[string]any{"action": "add", "team": "auth", "agent": "boss", "role": "coordinator"})
		boss.text(t, "acp_inbox", map[string]any{"ack": true})

		c.call("ana", "acp_send", map[string]any{"to": []string{"bo"}, "team": "auth", "type": "task.offer", "text": "Rotate the logs"})
		offer := c.find(c.call("bo", "acp_inbox", nil), `(m\d+) task.offer from ana`)
		next, from, to := offer, "bo", "ana"
		for _, terms := range []string{"in two days", "today", "tomorrow", "tonight"} {
			next = c.find(c.call(from, "acp_respond", map[string]any{"reply_to": next, "type": "task.counter", "text": terms}), `Sent (m\d+)`)
			c.call(to, "acp_inbox", nil)
			from, to = to, from
		}
		inbox := c.call("boss", "acp_inbox", nil)
		c.has(inbox, `decide the negotiation about "Rotate the logs" between ana and bo`, "ana: tonight", "bo: tomorrow",
			"accept: bo gets the task on the terms of the last counter, by ana. decline: the offer ends without an owner.")
		asked := c.find(inbox, `→ acp_respond (m\d+), decision: accept or decline, text: why`)
		c.has(c.refused("boss", "acp_respond", map[string]any{"reply_to": asked, "decision": "yes", "text": "fine"}), "accept or decline", "with bo as owner")
		c.has(c.call("boss", "acp_query", map[string]any{"negotiation": asked}), "negotiation "+offer+" is escalated", "tomorrow", "→ acp_respond "+offer+", decision: accept or decline, text: why")
		task := c.find(c.call("boss", "acp_respond", map[string]any{"reply_to": asked, "decision": "accept", "text": "tonight is possible"}), `The negotiation `+offer+` is accepted, as the task (T-\d+) of the team auth`)
		if got := c.call("boss", "acp_inbox", nil); strings.Contains(got, "decide the") {
			t.Errorf("inbox: got %q, want that the question is dealt with", got)
		}
		c.has(c.call("bo", "acp_inbox", nil), `the negotiation "Rotate the logs" is accepted`, "decided by boss", "tonight is possible")
		c.has(c.call("bo", "acp_team", map[string]any{"action": "task", "task": task}), task+" assigned, bo")
		c.has(c.call("rex", "acp_team", map[string]any{"action": "decisions", "team": "auth"}), "decided by boss, about Rotate the logs: accept (because: tonight is possible)")
	})
}

func TestLongArtifacts(t *testing.T) {
	c := newCast(t, server.Options{})
	var long strings.Builder
	for i := range 3000 {
		fmt.Fprintf(&long, "line %d of the plan, as bo wrote it\n", i)
	}
	c.call("bo", "acp_team", map[string]any{"action": "artifact", "team": "auth", "artifact": "plan.md", "parent_version": 0, "content": long.String()})
	read := map[string]any{"action": "artifact", "team": "auth", "artifact": "plan.md"}

	t.Run("a text of more than 32 KiB is read in parts", func(t *testing.T) {
		c.t = t
		got, digest := "", ""
		for part := 1; digest == ""; part++ {
			read["part"] = part
			text := c.call("dan", "acp_team", read)
			for line := range strings.Lines(text) {
				if rest, quoted := strings.CutPrefix(line, "> "); quoted {
					got += rest
				}
			}
			if last := fmt.Sprintf("Part %d of 4.", part); part < 4 {
				c.has(text, last, fmt.Sprintf("version 1, part %d", part+1))
				if strings.Contains(text, "digest") {
					t.Errorf("part %d: got %q, want no digest before the last part", part, text)
				}
			} else {
				digest = c.find(text, `digest ([0-9a-f]+)`)
			}
		}
		if got != long.String() {
			t.Errorf("parts: got %d bytes, want the %d of the whole", len(got), long.Len())
		}
		delete(read, "part")
		c.has(c.call("dan", "acp_team", read), "Part 1 of 4.", "part 2")

		put := map[string]any{"action": "artifact", "team": "auth", "artifact": "plan.md", "parent_version": 1, "content": "line 0\n"}
		c.has(c.refused("dan", "acp_team", put), "of is required: version 1 has "+fmt.Sprint(long.Len())+" bytes and is read in 4 parts")
		put["of"] = "0123456789ab"
		c.has(c.refused("dan", "acp_team", put), "of must be the digest of version 1, got 0123456789ab")
		put["of"] = digest
		c.has(c.call("dan", "acp_team", put), "version 2")
	})
	t.Run("a short text needs no digest", func(t *testing.T) {
		c.t = t
		c.call("dan", "acp_team", map[string]any{"action": "artifact", "team": "auth", "artifact": "plan.md", "parent_version": 2, "content": "line 0\nline 1\n"})
	})
	t.Run("characters that are not shown are said, and a put needs the digest", func(t *testing.T) {
		c.t = t
		c.call("bo", "acp_team", map[string]any{"action": "artifact", "team": "auth", "artifact": "odd.md", "parent_version": 0, "content": "a\u202eb\n"})
		text := c.call("dan", "acp_team", map[string]any{"action": "artifact", "team": "auth", "artifact": "odd.md"})
		c.has(text, "Not as it is: characters that cannot be seen are left out (1). Read it with format json to change it.")
		if strings.Contains(text, "digest") {
			t.Errorf("got %q, want no digest of a text that is not shown as it is", text)
		}
		put := map[string]any{"action": "artifact", "team": "auth", "artifact": "odd.md", "parent_version": 1, "content": "ab\n"}
		c.has(c.refused("dan", "acp_team", put), "has hidden characters")
		exact := c.agents["dan"].ok(t, "acp_team", map[string]any{"action": "artifact", "team": "auth", "artifact": "odd.md"})
		put["of"] = exact.data["version"].(map[string]any)["content_hash"]
		c.call("dan", "acp_team", put)
	})
	t.Run("bytes that are no text are said", func(t *testing.T) {
		c.t = t
		c.call("bo", "acp_team", map[string]any{"action": "artifact", "team": "auth", "artifact": "logo.png", "parent_version": 0, "content": "iVBORw0KGgo=", "encoding": "base64"})
		c.has(c.call("dan", "acp_team", map[string]any{"action": "artifact", "team": "auth", "artifact": "logo.png"}), "It is no text: 8 bytes.")
	})
}

func TestDisagreementIsDecided(t *testing.T) {
	c := newCast(t, server.Options{})
	c.call("bo", "acp_send", map[string]any{"to": []string{"dan"}, "team": "auth", "type": "position.state", "payload": map[string]any{
		"topic": "store", "position": "SQLite", "reasoning": "one file", "confidence": "high", "open_to_revision": true,
	}})
	first := c.find(c.call("dan", "acp_inbox", nil), `→ acp_respond (m\d+), type position.challenge, payload: counter_position, reasoning, severity`)
	answer := c.call("dan", "acp_respond", map[string]any{"reply_to": first, "type": "position.challenge", "payload": map[string]any{
		"counter_position": "Postgres", "reasoning": "two writers", "severity": "blocking",
	}})
	c.has(answer, "the disagreement "+first+" is escalated because the challenge is blocking; it waits for a decision by ana")
	c.has(c.call("bo", "acp_inbox", nil), `the disagreement "store" is escalated, to be decided by ana (the challenge is blocking)`)

	inbox := c.call("ana", "acp_inbox", nil)
	c.has(inbox, `decide the disagreement about "store" between bo and dan`, "bo: SQLite, because: one file", "dan: Postgres, because: two writers", "Decide in your own words")
	asked := c.find(inbox, `→ acp_respond (m\d+), decision: your decision, text: why`)
	c.has(c.refused("ana", "acp_respond", map[string]any{"reply_to": asked, "decision": "SQLite stays"}), "the reason in text")
	c.has(c.call("ana", "acp_respond", map[string]any{"reply_to": asked, "decision": "SQLite stays", "text": "one writer is enough"}), "The disagreement "+first+" is decided.")

	for _, member := range []string{"bo", "dan", "rex", "ivo"} {
		c.has(c.call(member, "acp_inbox", nil), `The disagreement about "store" is decided: SQLite stays`, "one writer is enough")
		c.has(c.call(member, "acp_team", map[string]any{"action": "decisions", "team": "auth"}), "decided by ana, about store: SQLite stays (because: one writer is enough)")
		c.has(c.call(member, "acp_team", map[string]any{"action": "show", "team": "auth"}), "decided by ana, about store: SQLite stays")
	}
	c.has(c.call("dan", "acp_query", map[string]any{"disagreement": first}), "is decided", "> outcome: SQLite stays", "decided by ana", "> because: one writer is enough")
	c.has(c.refused("ana", "acp_respond", map[string]any{"reply_to": asked, "decision": "Postgres", "text": "after all"}), "conflict", "decided, not escalated")
}

func TestConflictIsMergedAndSigned(t *testing.T) {
	c := newCast(t, server.Options{})
	put := func(name string, parent int, content string, more ...string) string {
		args := map[string]any{"action": "artifact", "team": "auth", "artifact": "keys.md", "parent_version": parent, "content": content}
		if len(more) > 0 {
			args["sensitivity"] = more[0]
		}
		return c.call(name, "acp_team", args)
	}
	put("bo", 0, "keys = 1\n", "high")
	c.has(c.call("dan", "acp_inbox", nil), "version 1 of keys.md in team auth, by bo")
	put("dan", 1, "keys = 2\n")
	c.has(put("bo", 1, "keys = 3\n"), "your version 3 was made from 1, and the newest version is 2; ivo merges both")

	inbox := c.call("ivo", "acp_inbox", nil)
	c.has(inbox, "version 3 of keys.md and the newest, 2, must be merged by ivo",
		"→ acp_team artifact, team auth, artifact keys.md, version 2 and version 3; then acp_team merge with the merged content")
	for version, want := range map[int]string{2: "> keys = 2", 3: "> keys = 3"} {
		c.has(c.call("ivo", "acp_team", map[string]any{"action": "artifact", "team": "auth", "artifact": "keys.md", "version": version}), want)
	}
	merge := map[string]any{"action": "merge", "team": "auth", "artifact": "keys.md", "content": "keys = 5\n"}
	c.has(c.refused("ana", "acp_team", merge), "forbidden", "integrator")
	c.has(c.call("ivo", "acp_team", merge), "the conflict ends when rex signs the merge")
	c.has(c.call("ana", "acp_team", map[string]any{"action": "show", "team": "auth"}), "to sign: version 4 of keys.md, the merge of version 3, by ivo")

	c.has(c.call("rex", "acp_inbox", nil), "version 4 of keys.md, a merge by ivo, waits for the signature of rex", "→ acp_team artifact, team auth, artifact keys.md; then acp_team merge with sign_off true")
	c.has(c.call("rex", "acp_team", map[string]any{"action": "artifact", "team": "auth", "artifact": "keys.md"}), "> keys = 5")
	c.has(c.call("rex", "acp_team", map[string]any{"action": "merge", "team": "auth", "artifact": "keys.md", "sign_off": true}), "keys.md version 4", "resolved")
	if got := c.call("ana", "acp_team", map[string]any{"action": "show", "team": "auth"}); strings.Contains(got, "to sign") || strings.Contains(got, "to merge") {
		t.Errorf("show: got %q, want no conflict after the signature", got)
	}
}

func TestHandoffIntoTeamIsApproved(t *testing.T) {
	c := newCast(t, server.Options{})
	task := c.find(c.call("ana", "acp_team", map[string]any{"action": "task", "team": "auth", "title": "rotate the keys", "owner": "bo"}), `(T-\d+) assigned, bo`)
	offered := c.call("bo", "acp_handoff", map[string]any{
		"action": "initiate", "to": "dan", "team": "auth", "task_id": task, "title": "Rotate the keys", "summary": "half is done", "next_step": "do the rest", "success_criteria": []string{"all keys are new"},
	})
	handoff := c.find(offered, `(h\d+)`)
	c.has(offered, "ana")
	early := c.refused("dan", "acp_handoff", map[string]any{"action": "accept", "handoff_id": handoff})
	c.has(early, "approv")
	c.refused("bo", "acp_handoff", map[string]any{"action": "approve", "handoff_id": handoff})

	inbox := c.call("ana", "acp_inbox", nil)
	c.has(inbox, "handoff "+handoff+" of "+task+" from bo to dan waits for your approval: rotate the keys")
	if got := c.find(inbox, `→ acp_handoff approve (h\d+)`); got != handoff {
		t.Errorf("next step: got %s, want %s", got, handoff)
	}
	c.call("ana", "acp_handoff", map[string]any{"action": "approve", "handoff_id": handoff})
	c.has(c.call("dan", "acp_inbox", nil), "dan may accept it", "→ acp_handoff accept "+handoff)
	c.has(c.call("dan", "acp_handoff", map[string]any{"action": "accept", "handoff_id": handoff}), handoff+" is yours until")
	c.has(c.call("ana", "acp_team", map[string]any{"action": "show", "team": "auth"}), task+" in_progress, dan")
	c.call("dan", "acp_handoff", map[string]any{"action": "complete", "handoff_id": handoff, "summary": "all keys are new"})
	c.has(c.call("rex", "acp_inbox", nil), task+" is in_review: rotate the keys")
	c.call("rex", "acp_team", map[string]any{"action": "task", "task": task, "state": "done"})
	c.has(c.call("dan", "acp_inbox", nil), task+" is done: rotate the keys")
}
