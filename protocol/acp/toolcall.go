package acp

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"github.com/parley-agents/parley/internal/ground/text/shell"
	"github.com/parley-agents/parley/protocol/acp/acpv1"
	"github.com/parley-agents/parley/protocol/acp/acpv2"
	"github.com/parley-agents/parley/protocol/sandbox"
)

// A ToolCall is the change of a tool call that an update reports. An empty field
// leaves the earlier value as it is.
type ToolCall struct {
	ID     string
	Title  string // the action, for people
	Kind   string // the effect, such as read or execute; see sandbox.Kind
	Status string // pending, in_progress, completed, failed, or one of a later version
	Text   string // the text part of its output
	Diffs  []Diff // changes to files; version 2 has patches in their place

	Locations []string // paths of the files that it reads or changes
	Changed   []string // paths of the files whose changes it describes, in both versions
	Command   string   // that it runs in a shell, if its arguments say so
	Dir       string   // the folder of the command; empty for that of the session
}

// A Diff is a change to a file, as the agent describes it.
type Diff struct {
	Path string
	Old  string // empty if the file is new or the agent does not say
	New  string
}

// ToolCall returns the tool call of the update, nil if it has none.
// The two versions differ in the content of a change: version 1 has the texts
// before and after, which become Diffs, version 2 has patches, which are in V2
// only.
func (u *Update) ToolCall() *ToolCall {
	if u.V1 != nil {
		m := &u.V1.Update
		t := m.ToolCallUpdate
		// An announcement has the members of a change, all of them set.
		if c := m.ToolCall; c != nil {
			t = &acpv1.ToolCallUpdate{
				ToolCallID: c.ToolCallID, Title: acpv1.Set(c.Title), Kind: c.Kind, Status: c.Status, Content: c.Content,
				Locations: c.Locations, RawInput: c.RawInput,
			}
		}
		if t == nil {
			return nil
		}
		return callV1(t)
	}

	switch m := &u.V2.Update; {
	case m.ToolCallUpdate != nil:
		return callV2(m.ToolCallUpdate)
	case m.ToolCallContentChunk != nil:
		call := &ToolCall{ID: string(m.ToolCallContentChunk.ToolCallID)}
		call.addContent([]acpv2.ToolCallContent{m.ToolCallContentChunk.Content})
		return call
	}
	return nil
}

// callV1 returns a tool call of version 1.
func callV1(t *acpv1.ToolCallUpdate) *ToolCall {
	call := &ToolCall{ID: string(t.ToolCallID), Title: t.Title.Or(""), Kind: string(t.Kind.Or("")), Status: string(t.Status.Or(""))}
	var text strings.Builder
	for _, c := range t.Content.Or(nil) {
		switch {
		case c.Content != nil:
			text.WriteString(textV1(&c.Content.Content))
		case c.Diff != nil:
			call.Diffs = append(call.Diffs, Diff{Path: c.Diff.Path, Old: c.Diff.OldText.Or(""), New: c.Diff.NewText})
			call.Changed = append(call.Changed, c.Diff.Path)
		}
	}
	call.Text = text.String()
	for _, l := range t.Locations.Or(nil) {
		call.Locations = append(call.Locations, l.Path)
	}
	call.readInput(t.RawInput)
	return call
}

// callV2 returns a tool call of version 2.
func callV2(t *acpv2.ToolCallUpdate) *ToolCall {
	call := &ToolCall{ID: string(t.ToolCallID), Title: t.Title.Or(""), Kind: string(t.Kind.Or("")), Status: string(t.Status.Or(""))}
	call.addContent(t.Content.Or(nil))
	for _, l := range t.Locations.Or(nil) {
		call.Locations = append(call.Locations, string(l.Path))
	}
	call.readInput(t.RawInput)
	return call
}

// addContent adds content of version 2 to the call.
func (t *ToolCall) addContent(content []acpv2.ToolCallContent) {
	var blocks []acpv2.ContentBlock
	for _, c := range content {
		switch {
		case c.Content != nil:
			blocks = append(blocks, c.Content.Content)
		case c.Diff != nil:
			t.Changed = append(t.Changed, changedPaths(c.Diff)...)
		}
	}
	t.Text = textV2(blocks...)
}

// readInput takes the command from the arguments of the tool. The protocol does not define
// them; agents have the command in the member command, as a line or as a list of words.
func (t *ToolCall) readInput(raw json.RawMessage) {
	if !bytes.Contains(raw, []byte(`"command"`)) { // the arguments of an edit may be long
		return
	}
	var input struct {
		Command   json.RawMessage `json:"command"`
		Cwd       string          `json:"cwd"`
		Workdir   string          `json:"workdir"`
		Directory string          `json:"directory"`
	}
	if json.Unmarshal(raw, &input) != nil {
		return
	}
	var words []string
	switch {
	case json.Unmarshal(input.Command, &t.Command) == nil:
	case json.Unmarshal(input.Command, &words) == nil:
		for i, w := range words {
			words[i] = shell.Word(w)
		}
		t.Command = strings.Join(words, " ")
	}
	for _, dir := range []string{input.Cwd, input.Workdir, input.Directory} {
		if t.Dir == "" {
			t.Dir = dir
		}
	}
}

// with returns the call after a change, without the texts of outputs and diffs.
func (t ToolCall) with(next *ToolCall) ToolCall {
	for _, field := range []struct {
		value *string
		next  string
	}{{&t.ID, next.ID}, {&t.Title, next.Title}, {&t.Kind, next.Kind}, {&t.Status, next.Status}, {&t.Command, next.Command}, {&t.Dir, next.Dir}} {
		if field.next != "" {
			*field.value = field.next
		}
	}
	if len(next.Locations) > 0 {
		t.Locations = next.Locations
	}
	for _, path := range next.Changed {
		if !slices.Contains(t.Changed, path) {
			t.Changed = append(slices.Clip(t.Changed), path)
		}
	}
	t.Text, t.Diffs = "", nil
	return t
}

// Change returns what the call does to files, as far as the agent describes it. dir is the
// folder of the session. A call that only reads has an empty one.
func (t ToolCall) Change(dir string) Change {
	c := Change{Call: t.ID, Dir: dir, Paths: slices.Clone(t.Changed)}
	switch sandbox.Kind(t.Kind) {
	case sandbox.KindEdit, sandbox.KindMove, sandbox.KindDelete:
		for _, path := range t.Locations {
			if !slices.Contains(c.Paths, path) {
				c.Paths = append(c.Paths, path)
			}
		}
	case sandbox.KindExecute:
		c.Command = t.Command
		if t.Dir != "" {
			c.Dir = t.Dir
		}
	}
	return c
}

// maxCalls is the number of tool calls that ToolCalls keeps.
const maxCalls = 1024

// ToolCalls collects the tool calls of a turn: the description of each, and not the texts of
// outputs and diffs. Of more than 1,024 calls it forgets the earlier ones. The zero value works.
// It is not safe for concurrent use.
type ToolCalls struct{ calls map[string]ToolCall }

// Add applies an update, and returns the tool call that it is about as far as it is known, and
// false if it is about none.
func (c *ToolCalls) Add(u *Update) (ToolCall, bool) {
	next := u.ToolCall()
	if next == nil {
		return ToolCall{}, false
	}
	if c.calls == nil || len(c.calls) >= maxCalls {
		was, known := c.calls[next.ID]
		c.calls = map[string]ToolCall{}
		if known {
			c.calls[next.ID] = was
		}
	}
	call := c.calls[next.ID].with(next)
	c.calls[next.ID] = call
	return call, true
}

// Get returns the tool call with an id, as far as it is known.
func (c *ToolCalls) Get(id string) ToolCall { return c.calls[id] }
