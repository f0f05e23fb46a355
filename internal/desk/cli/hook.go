package cli

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/desk/quota"
	"github.com/parley-agents/parley/internal/ground/text/pattern"
	"github.com/parley-agents/parley/internal/ground/text/shell"
)

// An Event is a moment in a session that its hub is told of.
type Event string

// The events.
const (
	Start   Event = "start"    // the session began
	Prompt  Event = "prompt"   // a turn begins with a prompt
	Before  Event = "before"   // a tool call is about to run
	Tool    Event = "tool"     // a tool call ended
	After   Event = "after"    // a tool call ended, of which only the guard hears
	TurnEnd Event = "turn_end" // a turn ended
	Failed  Event = "failed"   // a turn ended with an error of the model; no TurnEnd follows
	Compact Event = "compact"  // the context is about to be shortened
	Waiting Event = "waiting"  // the CLI waits for a person
	End     Event = "end"      // the session ended
)

// A Hook is a moment at which the CLI runs a command.
type Hook struct {
	Name  string // as the CLI calls it
	Event Event
}

// Hook returns the hook of a name, as the CLI spells it.
func (c CLI) Hook(name string) (Hook, bool) {
	i := slices.IndexFunc(c.hooks, func(h Hook) bool { return h.Name == name })
	if i < 0 {
		return Hook{}, false
	}
	return c.hooks[i], true
}

// An Input is the part of a hook's input that Parley reads. Of a prompt it keeps the
// ids of wakes and nothing else.
type Input struct {
	Hook       string // the hook's name, if the CLI tells it
	Session    string
	Dir        string
	Wakes      []string
	StopActive bool // a hook made this turn go on already
	Transcript string
	Calls      []hub.ModelCall // that a plugin tells
	NoQuota    bool            // the turn ended because the account is out of quota
	Ending     quota.Ending    // the class of the error with which the turn ended

	// Goes says that a prompt hook came without a prompt: Qwen Code runs it again after
	// each tool call of a turn.
	Goes bool

	Compacted bool // a session goes on with a shorter context, in the middle of a turn
	Subagent  bool // Copilot CLI runs the hooks for its subagents, too, under sessions of their own

	// Reminds says that a notification asks no question: CLIs also send one when they
	// have been idle for a while.
	Reminds bool
}

var question = pattern.New(`(?i)permission|elicitation|approv`)

var wakeForm = pattern.New(`\bw_[0-9]{12}\b`)

// ReadInput reads the input of a hook. The CLIs differ in the case of the names.
func ReadInput(raw []byte) (Input, error) {
	var in struct {
		Hook         string `json:"hook_event_name"`
		Session      string `json:"session_id"`
		SessionCamel string `json:"sessionId"`
		Dir          string `json:"cwd"`
		Prompt       string `json:"prompt"`
		Transcript   string `json:"transcript_path"`
		Stop         bool   `json:"stop_hook_active"`
		StopCamel    bool   `json:"stopHookActive"`
		Kind         string `json:"notification_type"`
		KindCamel    string `json:"notificationType"`
		Message      string `json:"message"`

		Source          string          `json:"source"` // of the start of a session
		Parent          string          `json:"parentAgentId"`
		TranscriptCamel string          `json:"transcriptPath"`
		Usage           json.RawMessage `json:"usage"` // of our plugins

		Error   json.RawMessage `json:"error"` // a word, or an object with the words of the vendor
		Details string          `json:"error_details"`
		Last    string          `json:"last_assistant_message"` // beside an error: the CLI's words for it
	}
	if err := json.Unmarshal(raw, &in); err != nil {
		return Input{}, fmt.Errorf("cli: input of a hook: %w", err)
	}

	out := Input{Hook: in.Hook, Session: in.Session, Dir: in.Dir, Wakes: wakeForm().FindAllString(in.Prompt, -1), StopActive: in.Stop || in.StopCamel}
	if out.Session == "" {
		out.Session = in.SessionCamel
	}
	out.Transcript = cmp.Or(in.Transcript, in.TranscriptCamel)
	out.Calls = readCalls(in.Usage)
	out.NoQuota = quota.Spent(string(in.Error)) || quota.Spent(in.Details)
	if len(in.Error) > 0 || in.Details != "" {
		out.Ending = quota.Classify("", string(in.Error)+" "+in.Details+" "+in.Last, time.Now())
	}
	out.Goes = strings.TrimSpace(in.Prompt) == ""
	out.Compacted = in.Source == "compact"
	out.Subagent = in.Parent != ""

	// A notification without a kind is judged by its message.
	if said := cmp.Or(in.Kind, in.KindCamel, in.Message); said != "" {
		out.Reminds = !question().MatchString(said)
	}
	return out, nil
}

// Answer returns the output of a hook that shows a text to the model: as context, or
// at the end of a turn as the reason to go on. It is empty for an empty text, and for
// a hook that cannot show one.
func (c CLI) Answer(h Hook, text string) []byte { return c.AnswerAndSay(h, text, "") }

// AnswerAndSay is Answer with a sentence for the user of a CLI that can show one.
func (c CLI) AnswerAndSay(h Hook, text, screen string) []byte {
	cannotShow := c.answer == nil || slices.Contains([]Event{Before, Waiting, Failed, Compact, End}, h.Event)
	if !c.Says {
		screen = ""
	}
	if (text == "" && screen == "") || cannotShow {
		return nil
	}

	var answer any = struct{}{}
	if text != "" {
		answer = c.answer(h, text)
	}
	out, err := json.Marshal(answer)
	if err != nil {
		return nil
	}
	if screen != "" {
		var members map[string]any
		if json.Unmarshal(out, &members) != nil || members == nil {
			return nil
		}
		members["systemMessage"] = screen
		if out, err = json.Marshal(members); err != nil {
			return nil
		}
	}
	return append(out, '\n')
}

// claudeAnswer is the output that Claude Code defined and that Codex and Qwen took over.
func claudeAnswer(h Hook, text string) any {
	if h.Event == TurnEnd {
		return map[string]string{"decision": "block", "reason": text}
	}
	return map[string]any{"hookSpecificOutput": map[string]string{"hookEventName": h.Name, "additionalContext": text}}
}

// command returns the command line of a hook, for a shell. A CLI that asks its user to trust
// each hook has one line for all hooks: their input names the event.
func (c CLI) command(program []string, h Hook) string {
	call := append(slices.Clone(program), "wake", "hook", c.Name)
	if c.Trust == "" {
		call = append(call, h.Name)
	}
	words := make([]string, 0, len(call))
	for _, w := range call {
		words = append(words, shell.Word(w))
	}
	return strings.Join(words, " ")
}

// hookEntry returns the entry of one hook as Claude Code, Codex, Gemini and Qwen read it.
// timeout is in the unit of the CLI.
func (c CLI) hookEntry(program []string, h Hook, timeout int) object {
	entry := object{"hooks": []object{{"type": "command", "command": c.command(program, h), "timeout": timeout}}}
	if tools := c.matcher(h); tools != "" {
		entry["matcher"] = tools
	}
	return entry
}

// hookSettings returns the hooks as Claude Code, Codex, Gemini and Qwen read them.
// timeout is in the unit of the CLI.
func (c CLI) hookSettings(program []string, timeout int) object {
	out := object{}
	for _, h := range c.hooks {
		out[h.Name] = []object{c.hookEntry(program, h, timeout)}
	}
	return out
}

// hookSeconds is the limit that a CLI gives to a hook. The hook itself gives up earlier.
const hookSeconds = 5
