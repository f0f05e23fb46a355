package main

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/service/usage"
)

// A session of Claude Code at a hub: its hooks run, and it writes a transcript.
type claudeSession struct {
	*house
	id, agent, path string
}

// newSession begins a session of an agent with an empty transcript.
func newSession(h *house, agent, id string) *claudeSession {
	h.t.Helper()
	s := &claudeSession{h, id, agent, filepath.Join(h.t.TempDir(), id+".jsonl")}
	s.hook("SessionStart")
	return s
}

// hook runs a hook of the session.
func (s *claudeSession) hook(name string) string {
	s.t.Helper()
	return s.run(name, fmt.Sprintf(`"prompt":%q`, plantedWord))
}

// start runs the hook at the start of a session with its source.
func (s *claudeSession) start(source string) {
	s.t.Helper()
	s.run("SessionStart", fmt.Sprintf(`"source":%q`, source))
}

// run runs a hook of the session with more members.
func (s *claudeSession) run(name, more string) string {
	s.t.Helper()
	input := fmt.Sprintf(`{"session_id":%q,"cwd":"/d","transcript_path":%q,"hook_event_name":%q,"message":"it is idle",%s}`, s.id, s.path, name, more)
	r := s.stdin(s.agent, input, "wake", "hook", "claude", name)
	if r.code != 0 || r.err != "" {
		s.t.Fatalf("%s: exit %d: %s", name, r.code, r.err)
	}
	return r.out
}

// plantedWord is in prompts and answers, and must not come into the hub.
const plantedWord = "xylophonist"

// answers writes model calls into the transcript, each on two lines.
func (s *claudeSession) answers(ids ...string) {
	s.t.Helper()
	for _, id := range ids {
		s.write(s.call(id))
	}
}

// call returns the lines of a model call that is made now.
func (s *claudeSession) call(id string) string {
	line := fmt.Sprintf(`{"type":"assistant","timestamp":%q,"message":{"id":%q,"model":"claude-sonnet-4-5","content":[{"type":"text","text":%q}],"usage":{"input_tokens":1000,"cache_creation_input_tokens":200,"cache_read_input_tokens":3000,"output_tokens":400}}}`+"\n", hub.At(time.Now()), id, plantedWord)
	return line + line
}

// write adds lines to the transcript.
func (s *claudeSession) write(lines string) {
	s.t.Helper()
	f, err := os.OpenFile(s.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = f.WriteString(lines)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	f.Close()
}

// spend returns the sums that a caller sees.
func (h *house) spend(who string, args ...string) (out usage.Spend) {
	h.t.Helper()
	args = append([]string{"spend", "--json"}, args...)
	if who == "" {
		args = append(args, "--as-operator")
	}
	h.ok(h.as(who, args...), &out)
	return out
}

// TestSpend has a session of a CLI leave its counts, and reads them as every user can.
func TestSpend(t *testing.T) {
	h := newHouse(t)
	s := newSession(h, "builder", "s1")
	s.answers("msg_1", "msg_2")
	s.hook("Stop")

	one := hub.Tokens{Input: 1000, Output: 400, CachedRead: 3000, CachedWrite: 200}
	two := one.Plus(one)
	got := h.spend("")
	want := usage.Row{Key: "builder", Turns: 1, Tokens: two, Cost: []usage.Cost{{Currency: "USD", Estimated: 0.0213}}}
	if !reflect.DeepEqual(got.Rows, []usage.Row{want}) || got.Total.Tokens != two {
		t.Fatalf("got %+v, want %+v", got, want)
	}
	contains(t, h.operator("spend", "--since", "7d").out, "AGENT", "builder", "2,000", "6,000", "~0.02 USD", "total")

	t.Run("no line is counted twice", func(t *testing.T) {
		s.hook("SessionEnd")
		again := newSession(h, "builder", "s2") // a copy of the transcript, in another session
		raw, err := os.ReadFile(s.path)
		if err == nil {
			err = os.WriteFile(again.path, raw, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		again.hook("Stop")
		s.hook("SessionStart") // taken up again
		s.answers("msg_3")
		s.hook("Stop")
		if got := h.spend("").Total; got.Tokens != two.Plus(one) || got.Turns != 3 {
			t.Errorf("got %+v, want %+v in 3 turns", got, two.Plus(one))
		}
	})
	t.Run("a session from before is not counted", func(t *testing.T) {
		old := &claudeSession{h, "s3", "builder", filepath.Join(t.TempDir(), "s3.jsonl")}
		old.answers("old_1", "old_2")
		old.hook("SessionStart")
		old.answers("new_1")
		old.hook("Stop")
		if got := h.spend("", "--by", "day").Total.Tokens; got.Output != 4*one.Output {
			t.Errorf("got %+v, want 4 calls", got)
		}
	})
	t.Run("while the hub is away the counts wait, with the ends of the turns", func(t *testing.T) {
		h.stop()
		s.answers("msg_4")
		s.hook("Stop")
		s.hook("UserPromptSubmit")
		s.answers("msg_5")
		s.hook("Stop")
		h.start()
		s.hook("UserPromptSubmit")
		if got := h.spend("").Total; got.Output != 6*one.Output || got.Turns != 6 {
			t.Errorf("got %+v, want 6 calls in 6 turns", got)
		}
	})
	t.Run("a call that is written after the end of its turn belongs to that turn", func(t *testing.T) {
		late := s.call("msg_7")
		s.hook("Stop") // before the transcript has any call of the turn
		s.write(late)
		s.hook("Notification") // the CLI is idle
		if got := h.spend("").Total; got.Output != 7*one.Output || got.Turns != 7 {
			t.Errorf("got %+v, want 7 calls in 7 turns", got)
		}
		s.hook("UserPromptSubmit")
		s.answers("msg_8")
		late = s.call("msg_9")
		s.hook("Stop")
		s.write(late)
		s.hook("UserPromptSubmit") // the next turn, which a person interrupts
		s.answers("msg_10")
		s.hook("UserPromptSubmit")
		if got := h.spend("").Total; got.Output != 10*one.Output || got.Turns != 9 {
			t.Errorf("got %+v, want 10 calls in 9 turns", got)
		}
	})
	t.Run("a turn whose context is shortened in the middle stays one", func(t *testing.T) {
		s.answers("msg_11")
		s.start("compact")
		s.answers("msg_12")
		s.hook("StopFailure") // after which some CLIs try again
		s.answers("msg_13")
		s.hook("Stop")
		if got := h.spend("").Total; got.Output != 13*one.Output || got.Turns != 10 {
			t.Errorf("got %+v, want 13 calls in 10 turns", got)
		}
	})
	t.Run("subagents count for their session", func(t *testing.T) {
		sub := &claudeSession{h, "s1", "builder", filepath.Join(filepath.Dir(s.path), "s1", "subagents", "agent-1.jsonl")}
		if err := os.MkdirAll(filepath.Dir(sub.path), 0o700); err != nil {
			t.Fatal(err)
		}
		sub.answers("sub_1")
		s.hook("Stop")
		if got := h.spend("").Total.Tokens; got.Output != 14*one.Output {
			t.Errorf("got %+v, want 14 calls", got)
		}
	})
	t.Run("an agent sees its own usage only", func(t *testing.T) {
		if got := h.spend("planner"); len(got.Rows) != 0 {
			t.Errorf("planner sees %+v", got.Rows)
		}
		if r := h.as("planner", "spend", "--agent", "builder"); r.code == 0 {
			t.Errorf("planner sees %s", r.out)
		}
		if got := h.spend("builder"); len(got.Rows) != 1 {
			t.Errorf("builder sees %+v", got.Rows)
		}
	})
	t.Run("CSV and every kind of sum", func(t *testing.T) {
		contains(t, h.operator("spend", "--by", "model", "--csv").out, "model,turns,input,output,cached_read,cached_write,reasoning,currency,stated,estimated\n", "claude-sonnet-4-5,", ",USD,0,")
		for _, by := range []string{"agent", "task", "handoff", "team", "model", "day", "run"} {
			if got := h.spend("", "--by", by); len(got.Rows) != 1 || string(got.By) != by {
				t.Errorf("by %s: %+v", by, got)
			}
		}
		if r := h.operator("spend", "--by", "mood"); r.code == 0 || !strings.Contains(r.err, "agent, task") {
			t.Errorf("by mood: %d %s", r.code, r.err)
		}
	})
	t.Run("no text of a prompt or an answer comes into the store, the journal or the logs", func(t *testing.T) {
		h.stop() // everything is in files
		noFileHas(t, h.home, plantedWord)
		if logged := h.hub.stderr.String(); strings.Contains(logged, plantedWord) {
			t.Errorf("the log has the planted word: %s", logged)
		}
		h.start()

		// The search finds a word that the hub does store.
		const stored = "glockenspiel"
		h.ok(h.as("planner", "send", "builder", stored), nil)
		h.stop()
		if len(filesWith(t, h.home, stored)) == 0 {
			t.Error("the text of a message was not found: the search finds nothing at all")
		}
		h.start()
	})
	t.Run("the journal has the sums of each turn, and verify compares them", func(t *testing.T) {
		contains(t, h.operator("hub", "journal", "--json").out, `"usage.recorded"`)
		h.ok(h.operator("hub", "verify"), nil)
	})
}

// noFileHas fails if a file below a folder has a word.
func noFileHas(t *testing.T, folder, word string) {
	t.Helper()
	for _, path := range filesWith(t, folder, word) {
		t.Errorf("%s has the planted word", path)
	}
}

// filesWith returns the files below a folder that have a word.
func filesWith(t *testing.T, folder, word string) (out []string) {
	t.Helper()
	err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		raw, err := os.ReadFile(path)
		if strings.Contains(string(raw), word) {
			out = append(out, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestSpendBetweenTurns has a CLI write the last call of a turn after the hook at its end. The waiter of
// the session reads it, without another hook.
func TestSpendBetweenTurns(t *testing.T) {
	h := newHouse(t)
	s := newSession(h, "builder", "s1")
	waiter := parley(t, append(h.env("builder"), "CLAUDE_CODE_ENTRYPOINT=cli"), "wake", "arm", "claude")
	waiter.Stdin = strings.NewReader(`{"session_id":"s1","cwd":"/d"}`)
	if err := waiter.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		waiter.Process.Kill()
		waiter.Wait()
	})

	late := s.call("late")
	s.hook("Stop")
	s.write(late)
	tick, timeout := time.NewTicker(100*time.Millisecond), time.After(waitTime)
	defer tick.Stop()
	for h.spend("").Total.Output == 0 {
		select {
		case <-tick.C:
		case <-timeout:
			t.Fatal("the call was not read")
		}
	}
	if got := h.spend("").Total; got.Output != 400 || got.Turns != 1 {
		t.Errorf("got %+v, want one call in one turn", got)
	}
}

// TestSpendOfCoordination has an agent read texts of the hub in every way, and reads what they cost.
func TestSpendOfCoordination(t *testing.T) {
	h := newHouse(t)
	s := newSession(h, "builder", "s1")
	for _, r := range h.spend("", "--coordination").Rows {
		if r.Input != 0 {
			t.Errorf("before anything was read: %+v", r)
		}
	}

	// A tool is listed and called, and a notice of mail comes with the next prompt.
	tools := dial(t, t.Context(), h.env("builder"))
	if _, err := tools.ListTools(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	h.ok(h.as("planner", "send", "builder", "hello"), nil)
	notice := s.hook("UserPromptSubmit")
	text, _ := callTool(t, t.Context(), tools, "acp_inbox", map[string]any{}, nil)
	tools.Close()
	s.answers("msg_1", "msg_2", "msg_3")
	s.hook("Stop")

	got := map[string]usage.Row{}
	all := h.spend("", "--coordination")
	for _, r := range all.Rows {
		got[r.Key] = r
	}
	if r := got["tool definitions"]; r.Turns != 3 || r.Input < 3*500 {
		t.Errorf("the definitions count for each of 3 calls: got %+v", r)
	}
	if r := got["tool answers"]; r.Turns != 1 || r.Input < int64(len(text))/5 || r.Input > int64(len(text))/3 {
		t.Errorf("an answer of %d bytes: got %+v", len(text), r)
	}
	if r := got["notices"]; notice == "" || r.Turns == 0 || r.Input == 0 {
		t.Errorf("the notice %q: got %+v", notice, r)
	}
	sum := int64(0)
	for _, r := range all.Rows {
		sum += r.Input
	}
	if all.Total.Input != sum || all.Total.Turns != 1 {
		t.Errorf("got the total %+v, want %d in 1 turn", all.Total, sum)
	}
	contains(t, h.operator("spend", "--coordination").out, "TEXT", "tool definitions", "total ~", "in 1 turn,")
	if other := h.spend("tester", "--coordination"); other.Total.Input != 0 {
		t.Errorf("another agent sees %+v", other)
	}
}

// TestHostileUsage has an agent tell counts that no model has, and those of others.
func TestHostileUsage(t *testing.T) {
	h := readersHouse(t)
	for name, call := range map[string]string{
		"negative":        `{"id":"a","input":-1,"output":1,"cached_read":0,"cached_write":0,"reasoning":0}`,
		"absurd":          `{"id":"a","input":1,"output":99999999999,"cached_read":0,"cached_write":0,"reasoning":0}`,
		"more reasoning":  `{"id":"a","input":1,"output":1,"cached_read":0,"cached_write":0,"reasoning":2}`,
		"text as an id":   `{"id":"a b\nc","input":1,"output":1,"cached_read":0,"cached_write":0,"reasoning":0}`,
		"text as a model": `{"id":"a","model":"please\nread this","input":1,"output":1,"cached_read":0,"cached_write":0,"reasoning":0}`,
		"negative money":  `{"id":"a","input":1,"output":1,"cached_read":0,"cached_write":0,"reasoning":0,"cost":-5,"currency":"USD"}`,
	} {
		var params any
		text := `{"source":"plugin","cli":"pi","ended":true,"calls":[` + call + `]}`
		if err := json.Unmarshal([]byte(text), &params); err != nil {
			t.Fatal(err)
		}
		if got := h.post(h.keys["builder"], "parley/spend/record", params); got != nil {
			t.Errorf("%s: %v", name, got)
		}
	}
	if got := h.post(h.keys["builder"], "parley/spend/record", map[string]any{"agent": "planner", "source": "plugin", "cli": "pi", "ended": true, "calls": []any{}}); got != nil {
		t.Errorf("usage of another agent: %v", got)
	}
	if got := h.spend(""); len(got.Rows) != 0 {
		t.Errorf("got %+v", got.Rows)
	}
}

// TestPrices has the operator add prices, and make mistakes in them.
func TestPrices(t *testing.T) {
	h := newHouse(t)
	s := newSession(h, "builder", "s1")
	s.answers("msg_1")
	s.hook("Stop")
	contains(t, h.operator("spend", "prices").out, "claude-sonnet-4-5", "3.75", "USD")
	file := filepath.Join(h.home, "prices.json")
	put := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}

	put(`{"as_of":"2026-11-01","currency":"EUR","models":{"claude-sonnet-4-5":{"input":1000,"output":0,"cached_read":0,"cached_write":0}}}`)
	if got := h.spend("").Total.Cost; !reflect.DeepEqual(got, []usage.Cost{{Currency: "EUR", Estimated: 1}}) {
		t.Errorf("by the operator's prices: %+v", got)
	}
	for name, text := range map[string]string{
		"no JSON":                    `{`,
		"unknown member":             `{"as_of":"2026-11-01","currency":"EUR","models":{},"more":1}`,
		"negative":                   `{"as_of":"2026-11-01","currency":"EUR","models":{"m":{"input":-1,"output":0,"cached_read":0,"cached_write":0}}}`,
		"no date":                    `{"as_of":"soon","currency":"EUR","models":{}}`,
		"one model in two spellings": `{"as_of":"2026-11-01","currency":"EUR","models":{"m":{"input":1,"output":0,"cached_read":0,"cached_write":0},"M":{"input":2,"output":0,"cached_read":0,"cached_write":0}}}`,
		"no currency":                `{"as_of":"2026-11-01","currency":"euro","models":{}}`,
	} {
		put(text)
		contains(t, h.operator("spend", "prices").out, "problem:", "prices.json")
		if got := h.spend(""); len(got.Total.Cost) != 0 || got.Total.Input == 0 || !strings.Contains(got.Problem, "prices.json") {
			t.Errorf("%s: a wrong sum: %+v", name, got)
		}
		contains(t, h.operator("spend").out, "problem:", "there are no estimates")
	}

	// A budget of money whose use is not known lets no turn begin, and says so.
	if r := h.operator("spend", "budget", "set", "builder", "--money", "5usd"); r.code == 0 || !strings.Contains(r.err, "prices.json") {
		t.Errorf("a budget without prices: exit %d: %s", r.code, r.err)
	}
	put(`{"as_of":"2026-11-01","currency":"USD","models":{}}`)
	h.ok(h.operator("spend", "budget", "set", "builder", "--money", "5usd", "--per", "day"), nil)
	put("{")
	contains(t, h.operator("spend", "budget").out, "not known", "problem:", "prices.json")
	put(`{"as_of":"2026-11-01","currency":"USD","models":{}}`)
	contains(t, h.operator("spend", "budget").out, "~0.01 USD")

	// A model without a price is named with the line that prices it, and is free if a budget was opened for it.
	s.write(strings.ReplaceAll(s.call("msg_2"), "claude-sonnet-4-5", "gpt-unheard-of"))
	s.hook("Stop")
	set := h.operator("spend", "budget", "set", "hub", "--money", "5usd").out
	contains(t, set, "gpt-unheard-of has no price, and counts at the highest price of its vendor", "parley spend prices set gpt-unheard-of=0usd")
	if strings.Contains(set, "could not read itself") {
		t.Errorf("the hub did not read the transcript: %s", set)
	}
	contains(t, h.operator("spend").out, "gpt-unheard-of has no price")
	contains(t, h.operator("spend", "budget", "set", "hub", "--money", "5usd", "--unpriced", "allow").out, "counts for nothing", "--unpriced allow: operator")
	contains(t, h.operator("doctor").out, "models without a price are free for budget b2 of hub: operator")
	contains(t, h.operator("spend", "prices", "set", "gpt-unheard-of=0usd", "llama=1/2/0.1/1.5usd").out, "gpt-unheard-of", "llama", "0.1")
	if list := h.operator("spend", "budget").out; strings.Contains(list, "gpt-unheard-of") {
		t.Errorf("a model with a price is named: %s", list)
	}
	for _, bad := range []string{"llama=", "llama=cheap", "=0usd", "llama=1/2/3usd", "llama=-1usd"} {
		if r := h.operator("spend", "prices", "set", bad); r.code != 2 {
			t.Errorf("%s: exit %d: %s", bad, r.code, r.err)
		}
	}

	// One in a currency in which nothing costs anything would never be spent.
	if r := h.operator("spend", "budget", "set", "builder", "--money", "5chf"); r.code == 0 || !strings.Contains(r.err, "CHF") {
		t.Errorf("a budget in francs: exit %d: %s", r.code, r.err)
	}
}
