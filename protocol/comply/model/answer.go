package model

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// An answer is the reply of the model to one request, independent of the API. The
// parts are sent in their order, then the fault happens if there is one, else stop
// is sent.
type answer struct {
	id    string
	parts []part
	stop  stop
	fault *Step // the failure after the parts; nil for none
	said  *Step // the tokens that the script wants the answer to cost; nil for a rough count
}

// A part is a piece of an answer.
type part struct {
	kind   partKind
	text   string
	chunks []string // the text, or the arguments of the call
	delay  time.Duration
	call   call
	id     string // of the call
}

// A partKind is the sort of a part. Each API has a form of its own for each.
type partKind string

const (
	textPart    partKind = "text"
	thinkPart   partKind = "think"
	callPart    partKind = "call"
	refusalPart partKind = "refusal" // text to the reader, but its own sort of block in some APIs
)

// A stop is the reason why an answer ends.
type stop string

const (
	// Each API has words of its own for these; see the maps that end in Stops.
	stopEnd     stop = "end"
	stopCalls   stop = "calls"
	stopLength  stop = "length"
	stopRefusal stop = "refusal"
)

const (
	// The defaults are small numbers that an agent must cope with: arguments come in
	// several pieces, and a slow answer takes five seconds.
	argsChunk     = 24 // characters of arguments
	defaultChunks = 100
	defaultDelay  = 50 // milliseconds
	done          = "Done."
)

// Unknown is the answer to [Tell] if the conversation does not have the text.
const Unknown = "I do not know."

// maxAnswers is how many requests more than the script has steps are answered for one
// prompt. Then the model ends the turn: an agent that ignores tool calls would loop.
const maxAnswers = 40

// answer returns the answer with the next steps of the script: all up to and including the
// next tool call, with the calls that are joined to it. Then the agent must send results.
// Steps before the next one are not repeated: the conversation in the request has
// their effects already.
func (at position) answer(r *request) answer {
	// The id follows from the request, so that the same request gets the same bytes.
	a := answer{id: r.key, stop: stopEnd}

	if at.wrong != nil {
		a.say(fmt.Sprintf("cannot %v", at.wrong))
		return a
	}
	if r.answers() > len(at.steps)+maxAnswers {
		a.say("I was asked too often.")
		return a
	}

	for i, s := range at.steps {
		if s.Do == Usage {
			a.said = &at.steps[i]
		}
	}

	steps := at.next(r)
	for i, s := range steps {
		// A step that fails a few times is over when the agent has tried often enough.
		if s.Times > 0 && r.nth > s.Times {
			continue
		}
		if over := a.do(s, r); over {
			break
		}
		if a.stop == stopCalls && !(i+1 < len(steps) && steps[i+1].Join) {
			break
		}
	}

	// An answer without anything would be a fault of its own; see failEmpty.
	if len(a.parts) == 0 && a.fault == nil && a.stop == stopEnd {
		a.say(done)
	}
	return a
}

// next returns the steps that are not done yet. Each tool result since the prompt stands
// for one step with a tool call, so the first step after that many calls is next. A call
// that the agent has no tool for was never made, and does not count.
// The result is the same for the same conversation, however often the agent asks.
// The cost is one search for a tool per step.
func (at position) next(r *request) []Step {
	calls := 0
	for i, s := range at.steps {
		if calls >= at.results && !s.Join {
			return at.steps[i:]
		}
		if s.asks() {
			if _, err := r.call(s.orRead()); err == nil {
				calls++
			}
		}
	}
	return nil
}

// asks reports whether a step makes a tool call, be it a broken one.
func (s Step) asks() bool { return s.calls() || (s.Do == Fail && s.How == failJSON) }

// orRead returns the step itself, and for a broken tool call the one that is broken.
func (s Step) orRead() Step {
	if s.Do == Fail {
		return Step{Do: Read, Path: "broken.txt"}
	}
	return s
}

// do adds a step to the answer, and reports whether the step ends it.
func (a *answer) do(s Step, r *request) (over bool) {
	switch {
	case s.asks():
		a.ask(s, r)
	case s.Do == Usage: // holds for all answers to the prompt

	case s.Do == Say, s.Do == Think:
		kind := textPart
		if s.Do == Think {
			kind = thinkPart
		}
		a.parts = append(a.parts, part{kind: kind, text: s.Text, chunks: chunks(s.Text, s.Chunk), delay: milliseconds(s.Delay)})

	// The numbers come one by one, so that a test can cancel between two of them.
	case s.Do == Slow:
		var numbers []string
		for i := range cmp.Or(s.Chunks, defaultChunks) {
			numbers = append(numbers, strconv.Itoa(i+1)+" ")
		}
		a.parts = append(a.parts, part{kind: textPart, text: strings.Join(numbers, ""), chunks: numbers, delay: milliseconds(cmp.Or(s.Delay, defaultDelay))})

	case s.Do == Recall:
		a.recall(s, r)
	case s.Do == Tell && r.contains(s.Text):
		a.say(s.Text)
	case s.Do == Tell:
		a.say(Unknown)

	case s.Do == Refuse:
		text := cmp.Or(s.Text, "I will not do that.")
		a.parts = append(a.parts, part{kind: refusalPart, text: text, chunks: chunks(text, 0)})
		a.stop = stopRefusal
		return true
	case s.Do == Length:
		a.say(cmp.Or(s.Text, "This answer gets too"))
		a.stop = stopLength
		return true

	// The sender acts on the fault, after the parts before it.
	default: // Error, Hang, and the other ways to fail
		a.fault = &s
		return true
	}
	return false
}

// ask adds a tool call, or the reason why there is none.
func (a *answer) ask(s Step, r *request) {
	c, err := r.call(s.orRead())
	if err != nil {
		a.say(fmt.Sprintf("cannot %s: %v", s.Do, err))
		return
	}
	// The text ends in the middle of a name: it is no JSON, and never becomes one.
	if s.Do == Fail {
		c.args = `{"path": "broken.txt", "te`
	}
	calls := 0
	for _, p := range a.parts {
		if p.kind == callPart {
			calls++
		}
	}
	// Ids of calls are unique in a conversation, because the key of each request is.
	id := fmt.Sprintf("call_%s_%d", a.id, calls+1)
	a.parts = append(a.parts, part{kind: callPart, call: c, chunks: chunks(c.args, argsChunk), id: id})
	a.stop = stopCalls
}

// recall says whether the conversation has a text, or the prompt a kind of content. The
// step itself does not count, although it has the text in it.
// Tests use it to see whether an agent passed a text or an image on to its model.
func (a *answer) recall(s Step, r *request) {
	word, what := "not recalled: ", s.Text
	switch {
	case s.Kind != "":
		if what = s.Kind; slices.Contains(r.prompt(true).kinds, s.Kind) {
			word = "recalled: "
		}
	case r.contains(s.Text):
		word = "recalled: "
	}
	a.say(word + what)
}

// say adds text in one piece.
func (a *answer) say(text string) {
	a.parts = append(a.parts, part{kind: textPart, text: text, chunks: chunks(text, 0)})
}

// summary describes the answer for the log.
// Tests compare it, so the words are those of the kinds and stops.
func (a *answer) summary() string {
	var words []string
	for _, p := range a.parts {
		if p.kind == callPart {
			words = append(words, "call "+p.call.name)
		} else {
			words = append(words, string(p.kind))
		}
	}
	if a.fault != nil {
		return strings.Join(append(words, string(a.fault.Do)), ", ")
	}
	return strings.Join(append(words, string(a.stop)), ", ")
}

// chunks cuts text into pieces of n characters; 0 means one piece.
// A piece never splits a character, because agents decode each one by itself.
func chunks(text string, n int) []string {
	var out []string
	start, end := 0, 0
	count := 0
	for end < len(text) {
		_, size := utf8.DecodeRuneInString(text[end:])
		end += size
		if count++; count == n || end == len(text) {
			out = append(out, text[start:end])
			start, count = end, 0
		}
	}
	return out
}

// milliseconds returns the pause that a step asks for.
func milliseconds(n int) time.Duration { return time.Duration(n) * time.Millisecond }

// tokens is a rough count of tokens.
// Four bytes for a token are about right for English; no test depends on the
// number.
func tokens(text string) int { return (len(text) + 3) / 4 }

// encoded returns JSON for a value that has only strings, numbers, lists and objects.
func encoded(v any) []byte {
	text, _ := json.Marshal(v)
	return text
}
