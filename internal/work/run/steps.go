package run

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/parley-agents/parley/internal/ground/text/shorten"
	"github.com/parley-agents/parley/protocol/acp"
	"github.com/parley-agents/parley/protocol/jsonrpc"
	"github.com/parley-agents/parley/protocol/sandbox"
)

// A RecordedStep is one thing that an agent was told, said or did, as people read it.
type RecordedStep struct {
	At     time.Time `json:"at,omitzero"`
	Kind   string    `json:"kind"`             // prompt, text, thought, tool, plan, command, file, permission
	Text   string    `json:"text"`             // at most 8 KiB
	Status string    `json:"status,omitempty"` // of a tool call, a command or a permission
	Output string    `json:"output,omitempty"` // of a tool call or a command, at most 8 KiB
}

const maxStepText = 8 << 10

// errEnough ends a replay.
var errEnough = errors.New("run: enough steps")

// Steps reads a recording as steps, at most limit; more reports that there are further
// ones. Chunks of one text are one step, and so are the updates of one tool call.
func Steps(r io.Reader, limit int) (steps []RecordedStep, more bool, err error) {
	s := &stepReader{calls: map[string]int{}, terminals: map[string]int{}, requests: map[string]request{}}
	err = Replay(r, func(f RecordedFrame, u *acp.Update) error {
		if u != nil {
			s.update(f.Time, u)
		} else {
			s.frame(f)
		}
		if len(s.steps) > limit {
			return errEnough
		}
		return nil
	})
	if errors.Is(err, errEnough) {
		s.steps = s.steps[:limit]
		more = true
		err = nil
	}
	for i := range s.steps {
		s.steps[i].Text, s.steps[i].Output = shorten.Text(s.steps[i].Text, maxStepText), shorten.Text(s.steps[i].Output, maxStepText)
	}
	return s.steps, more, err
}

// A stepReader turns frames into steps.
type stepReader struct {
	steps     []RecordedStep
	message   string             // id of the message that the last step is of
	calls     map[string]int     // the steps of tool calls, by id
	terminals map[string]int     // the steps of commands, by the terminal's id
	requests  map[string]request // of the agent that have no answer yet, by id
}

// A request is one of the agent.
type request struct {
	method   string
	step     int // that it made; -1 for none
	terminal string
	options  map[string]string // the labels of those that it offers, by their ids
}

func (s *stepReader) add(at time.Time, kind, text string) int {
	s.steps = append(s.steps, RecordedStep{At: at, Kind: kind, Text: text})
	return len(s.steps) - 1
}

// update adds an update of a turn.
func (s *stepReader) update(at time.Time, u *acp.Update) {
	kind := map[acp.UpdateKind]string{acp.KindAgentMessage: "text", acp.KindThought: "thought"}[u.Kind()]
	switch {
	case kind != "":
		id, whole := u.Message()
		last := len(s.steps) - 1
		continues := last >= 0 && !whole && s.steps[last].Kind == kind && s.message == id
		if continues {
			s.steps[last].Text += u.Text()
			return
		}
		s.message = id
		s.add(at, kind, u.Text())
	case u.Kind() == acp.KindPlan:
		var b strings.Builder
		for _, e := range u.Plan() {
			fmt.Fprintf(&b, "%s: %s\n", e.Status, e.Content)
		}
		s.add(at, "plan", b.String())
	}

	// All updates of one tool call belong to one step.
	call := u.ToolCall()
	if call == nil {
		return
	}
	i, known := s.calls[call.ID]
	if !known {
		i = s.add(at, "tool", call.Title)
		s.calls[call.ID] = i
	}
	step := &s.steps[i]
	if call.Title != "" {
		step.Text = call.Title
	}
	if call.Status != "" {
		step.Status = call.Status
	}
	for _, d := range call.Diffs {
		if !strings.Contains(step.Text, d.Path) {
			step.Text += "\n" + d.Path
		}
	}
	if call.Text != "" {
		step.Output = call.Text
	}
}

// frame adds the subject of a request or an answer.
func (s *stepReader) frame(f RecordedFrame) {
	var m struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
		Params struct {
			Prompt []struct {
				Text string `json:"text"`
			} `json:"prompt"`
			Command  string   `json:"command"`
			Args     []string `json:"args"`
			Path     string   `json:"path"`
			Terminal string   `json:"terminalId"`
			ToolCall struct {
				Title string `json:"title"`
			} `json:"toolCall"`
			Options []struct {
				ID   string             `json:"optionId"`
				Name string             `json:"name"`
				Kind sandbox.OptionKind `json:"kind"`
			} `json:"options"`
		} `json:"params"`
		Result struct {
			Terminal string `json:"terminalId"`
			Output   string `json:"output"`
			Exit     *struct {
				Code *int `json:"exitCode"`
			} `json:"exitStatus"`
			Code    *int `json:"exitCode"`
			Outcome struct {
				Outcome string `json:"outcome"`
				Option  string `json:"optionId"`
			} `json:"outcome"`
		} `json:"result"`
	}

	if json.Unmarshal(f.Frame, &m) != nil {
		return // a member of another type is none of these
	}

	// An answer to the agent completes the step of its request.
	id, p := string(m.ID), m.Params
	if f.Direction == jsonrpc.Out && m.Method == "" {
		asked := s.requests[id]
		chosen := m.Result.Outcome.Option
		if label, ok := asked.options[chosen]; ok {
			chosen = label
		}
		s.answer(asked, m.Result.Terminal, m.Result.Output, strings.TrimSpace(m.Result.Outcome.Outcome+" "+chosen))
		code := m.Result.Code
		if m.Result.Exit != nil {
			code = m.Result.Exit.Code
		}
		if i, ok := s.terminals[s.requests[id].terminal]; ok && code != nil {
			s.steps[i].Status = fmt.Sprintf("exit %d", *code)
		}
		delete(s.requests, id)
		return
	}

	// Prompts to the agent, and some of its requests, begin a step.
	step := -1
	switch {
	case f.Direction == jsonrpc.Out && m.Method == "session/prompt":
		var words []string
		for _, block := range p.Prompt {
			words = append(words, block.Text)
		}
		s.add(f.Time, "prompt", strings.Join(words, "\n"))
	case f.Direction == jsonrpc.Out:
		return
	case m.Method == "terminal/create":
		step = s.add(f.Time, "command", strings.Join(append([]string{p.Command}, p.Args...), " "))
	case m.Method == "session/request_permission":
		step = s.add(f.Time, "permission", p.ToolCall.Title)
	case m.Method == "fs/write_text_file":
		s.add(f.Time, "file", "wrote "+p.Path)
	case m.Method == "fs/read_text_file":
		s.add(f.Time, "file", "read "+p.Path)
	}

	// The request is remembered until its answer comes.
	if id != "" && f.Direction == jsonrpc.In {
		asked := request{method: m.Method, step: step, terminal: p.Terminal, options: map[string]string{}}
		for _, o := range p.Options {
			asked.options[o.ID] = shorten.Text(sandbox.Option(o).Label(), 120)
		}
		s.requests[id] = asked
	}
}

// answer notes the answer to a request.
func (s *stepReader) answer(r request, terminal, output, outcome string) {
	switch r.method {
	case "terminal/create":
		s.terminals[terminal] = r.step
	case "terminal/output":
		if i, ok := s.terminals[r.terminal]; ok {
			s.steps[i].Output = output
		}
	case "session/request_permission":
		s.steps[r.step].Status = outcome
	}
}
