package goodagent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/parley-agents/parley/protocol/acp"
	"github.com/parley-agents/parley/protocol/acp/acpv2"
	"github.com/parley-agents/parley/protocol/comply/model"
	"github.com/parley-agents/parley/protocol/sandbox"
)

// A toolCall is one that the client hears of.
type toolCall struct {
	t           *turn
	id          string
	title, kind string
	path        string // of a file; "" if it is not about one
	content     []any  // as version 1 has it
	contentV2   []any
}

// call does a step that is a tool call, and reports it.
func (t *turn) call(ctx context.Context, id string, s model.Step) error {
	c := &toolCall{t: t, id: id}
	work := c.work(s)
	if err := c.begin(ctx, s); err != nil {
		return err
	}
	result, err := work(ctx)
	if ctx.Err() != nil {
		c.update(context.WithoutCancel(ctx), "failed", nil) // the turn is over, and why is told in its answer
		return ctx.Err()
	}
	status := "completed"
	if err != nil {
		status, result = "failed", err.Error()
		c.say(result)
	}
	t.learn(result)
	return c.update(ctx, status, object{"result": result})
}

// work returns the work of a step, and describes the tool call.
func (c *toolCall) work(s model.Step) func(context.Context) (string, error) {
	inside := true
	if s.Path != "" {
		c.path, inside = c.t.path(s.Path)
	}
	outside := func(context.Context) (string, error) { return "", fmt.Errorf("%s is outside of the session", c.path) }

	switch s.Do {
	case model.Read:
		c.title, c.kind = "Read "+s.Path, "read"
		if !inside {
			return outside
		}
		return c.read

	case model.Write, model.Edit:
		c.title, c.kind = "Write "+s.Path, "edit"
		if !inside {
			return outside
		}
		if s.Do == model.Edit {
			return c.asked(func(ctx context.Context) (string, error) { return c.edit(ctx, s.Old, s.New) })
		}
		return c.asked(func(ctx context.Context) (string, error) { return c.write(ctx, s.Text) })

	case model.Shell:
		c.title, c.kind = "Run "+s.Command, "execute"
		return c.asked(func(ctx context.Context) (string, error) { return c.shell(ctx, s.Command) })
	case model.MCP:
		c.title, c.kind = "Use "+s.Name, "other"
		return func(ctx context.Context) (string, error) { return c.use(ctx, s) }
	}

	// Any other step names a tool of the agent itself.
	c.title, c.kind = "Use "+s.Name, "other"
	tool := Tools[s.Name]
	return func(ctx context.Context) (string, error) {
		if tool == nil {
			return "", fmt.Errorf("cannot %s: there is no such tool", s.Name)
		}
		return "", tool(ctx, c, s.Args)
	}
}

// begin announces the call.
func (c *toolCall) begin(ctx context.Context, s model.Step) error {
	call := object{"sessionUpdate": "tool_call", "toolCallId": c.id, "title": c.title, "kind": c.kind, "status": "pending", "rawInput": c.input(s)}
	if c.path != "" {
		call["locations"] = []any{object{"path": c.path, "line": 1}}
	}
	v2 := clone(call)
	v2["sessionUpdate"] = "tool_call_update"
	if c.t.agent.Traits.QuietTools {
		return nil
	}
	if err := tell(ctx, c.t.AgentSession, call, v2); err != nil {
		return err
	}
	asks := s.Name == "permission"
	if c.kind == "read" || c.kind == "other" && !asks { // the others begin after they were allowed
		return c.update(ctx, "in_progress", nil)
	}
	return nil
}

func (c *toolCall) input(s model.Step) object {
	in := object{"tool": s.Do}
	for name, value := range map[string]string{"path": c.path, "command": s.Command, "name": s.Name} {
		if value != "" {
			in[name] = value
		}
	}
	return in
}

func clone(o object) object {
	out := object{}
	for name, value := range o {
		out[name] = value
	}
	return out
}

// update tells how far the call is.
func (c *toolCall) update(ctx context.Context, status string, output object) error {
	if c.t.agent.Traits.QuietTools {
		return nil
	}
	v1 := object{"sessionUpdate": "tool_call_update", "toolCallId": c.id, "status": status}
	if output != nil {
		v1["rawOutput"] = output
	}
	v2 := clone(v1)
	if c.content != nil {
		v1["content"] = c.content
	}
	if c.contentV2 != nil {
		v2["content"] = c.contentV2
	}
	return tell(ctx, c.t.AgentSession, v1, v2)
}

// say adds text to the content of the call.
func (c *toolCall) say(text string) { c.block(object{"type": "text", "text": text}) }

// block adds a block to the content of the call.
func (c *toolCall) block(b any) {
	item := object{"type": "content", "content": b}
	c.content, c.contentV2 = append(c.content, item), append(c.contentV2, item)
}

// The options of every question.
var permissionOptions = []acpv2.PermissionOption{
	{OptionID: "once", Name: "Do it", Kind: acpv2.PermissionOptionKindAllowOnce},
	{OptionID: "always", Name: "Do it, and do not ask again", Kind: acpv2.PermissionOptionKindAllowAlways},
	{OptionID: "no", Name: "Do not do it", Kind: acpv2.PermissionOptionKindRejectOnce},
	{OptionID: "never", Name: "Do not do it, and do not ask again", Kind: acpv2.PermissionOptionKindRejectAlways},
}

// asked returns work that is done only with permission.
func (c *toolCall) asked(work func(context.Context) (string, error)) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		if err := c.permitted(ctx); err != nil {
			return "", err
		}
		if err := c.update(ctx, "in_progress", nil); err != nil {
			return "", err
		}
		return work(ctx)
	}
}

var errRefused = errors.New("it was not allowed")

// permitted returns nil if the call may go on.
func (c *toolCall) permitted(ctx context.Context) error {
	t := c.t
	t.c.mu.Lock()
	auto := t.c.Mode == modeAuto || slices.Contains(t.c.Allowed, c.kind)
	never := slices.Contains(t.c.Refused, c.kind)
	t.c.mu.Unlock()

	switch {
	case t.agent.Traits.NeverAsk || auto:
		return nil
	case never:
		return errRefused
	}

	// The session requires action for as long as the user is asked.
	if err := tell(ctx, t.AgentSession, nil, object{"sessionUpdate": "state_update", "state": "requires_action"}); err != nil {
		return err
	}
	outcome, err := t.AskPermission(ctx, &acpv2.RequestPermissionRequest{
		Title: c.title, Options: permissionOptions,
		Subject: acpv2.Set(acpv2.RequestPermissionSubject{ToolCall: &acpv2.ToolCallPermissionSubject{ToolCall: acpv2.ToolCallUpdate{
			ToolCallID: acpv2.ToolCallID(c.id), Title: acpv2.Set(c.title), Kind: acpv2.Set(acpv2.ToolKind(c.kind)), Status: acpv2.Set(acpv2.ToolCallStatusPending),
		}}}),
	})
	if err := tell(ctx, t.AgentSession, nil, object{"sessionUpdate": "state_update", "state": "running"}); err != nil {
		return err
	}

	switch {
	case t.agent.Traits.TakeAnyAnswer:
		return nil
	case err != nil:
		return fmt.Errorf("%w: %w", errRefused, err)
	}

	// An answer for always or never holds for later calls of the same kind.
	if s := outcome.Selected; s != nil {
		t.c.mu.Lock()
		switch s.OptionID {
		case "always":
			t.c.Allowed = append(t.c.Allowed, c.kind)
		case "never":
			t.c.Refused = append(t.c.Refused, c.kind)
		}
		t.c.mu.Unlock()
	}

	if !outcome.Approves(permissionOptions) {
		return errRefused
	}
	return nil
}

func (c *toolCall) read(ctx context.Context) (string, error) {
	text, err := c.load(ctx)
	if err == nil {
		c.say(text)
	}
	return text, err
}

// load reads the file, through the client if it can.
func (c *toolCall) load(ctx context.Context) (string, error) {
	if !c.t.Client().ReadFiles || c.t.agent.Traits.FixedReads {
		raw, err := os.ReadFile(c.path)
		return string(raw), err
	}
	return c.t.Files().Read(ctx, c.path, 1, sandbox.AllLines)
}

// write writes the file, through the client if it can.
func (c *toolCall) write(ctx context.Context, text string) (string, error) {
	old := any(nil)
	operation := "add"
	before, err := os.ReadFile(c.path)
	if err == nil {
		old, operation = string(before), "modify"
	}
	if c.t.Client().WriteFiles {
		if err := c.t.Files().Write(ctx, c.path, text); err != nil {
			return "", err
		}
	} else if err := os.WriteFile(c.path, []byte(text), 0o600); err != nil {
		return "", err
	}
	c.content = append(c.content, object{"type": "diff", "path": c.path, "oldText": old, "newText": text})
	patch := gitPatch(c.t.Dir, c.path, string(before), text)
	c.contentV2 = append(c.contentV2, object{
		"type": "diff", "changes": []any{object{"operation": operation, "path": c.path}}, "patch": object{"format": "git_patch", "text": patch},
	})
	return "written", nil
}

// gitPatch returns the change of a file in the folder dir as git writes it, with all lines in one
// hunk. A file that was not there before is written like an empty one.
func gitPatch(dir, path, before, after string) string {
	name, err := filepath.Rel(dir, path)
	if err != nil {
		name = filepath.Base(path)
	}
	name = filepath.ToSlash(name)
	removed, gone := patchLines("-", before)
	added, come := patchLines("+", after)
	return fmt.Sprintf("diff --git a/%[1]s b/%[1]s\n--- a/%[1]s\n+++ b/%[1]s\n@@ -%[2]s +%[3]s @@\n%[4]s%[5]s", name, lineRange(gone), lineRange(come), removed, added)
}

// patchLines returns the lines of a text with a mark before each, and their number.
func patchLines(mark, text string) (marked string, n int) {
	for line := range strings.Lines(text) {
		n++
		marked += mark + line
		if !strings.HasSuffix(line, "\n") {
			marked += "\n\\ No newline at end of file\n"
		}
	}
	return marked, n
}

// lineRange returns the place of n lines at the beginning of a file, as a hunk has it.
func lineRange(n int) string {
	if n == 0 {
		return "0,0"
	}
	return fmt.Sprintf("1,%d", n)
}

func (c *toolCall) edit(ctx context.Context, old, now string) (string, error) {
	text, err := c.load(ctx)
	if err != nil {
		return "", err
	}
	if !strings.Contains(text, old) {
		return "", fmt.Errorf("there is no %q in %s", old, c.path)
	}
	return c.write(ctx, strings.Replace(text, old, now, 1))
}

// shell runs a command, in a terminal of the client if it has such.
func (c *toolCall) shell(ctx context.Context, command string) (string, error) {
	if terminals := c.t.Terminals(); terminals != nil {
		return c.terminal(ctx, terminals, command)
	}
	life, left := ctx, (<-chan struct{})(nil)
	if c.t.agent.Traits.KeepCommands {
		life, left = context.WithoutCancel(ctx), ctx.Done()
	}
	cmd := exec.CommandContext(life, "sh", "-c", command)
	cmd.Dir, cmd.Env = c.t.Dir, c.t.agent.env
	type ending struct {
		out []byte
		err error
	}
	ended := make(chan ending, 1)
	go func() {
		out, err := cmd.CombinedOutput()
		ended <- ending{out, err}
	}()
	select {
	case e := <-ended:
		c.say(string(e.out))
		return string(e.out), e.err
	case <-left:
		return "", ctx.Err()
	}
}

// outputLimit is how many bytes of a command's output are wanted.
const outputLimit = 1 << 20

func (c *toolCall) terminal(ctx context.Context, terminals acp.Terminals, command string) (_ string, err error) {
	limit := outputLimit
	late := context.WithoutCancel(ctx) // for the work that a cancelled turn must still do
	id, err := terminals.Create(late, sandbox.Command{Name: "sh", Args: []string{"-c", command}, Dir: c.t.Dir, OutputLimit: &limit})
	if err != nil {
		return "", err
	}

	// The command of a cancelled turn is killed, and every terminal is released.
	defer func() {
		if ctx.Err() != nil { // it still runs
			err = errors.Join(err, terminals.Kill(late, id))
		}
		if traits := c.t.agent.Traits; !traits.KeepTerminals && !(traits.KeepKilled && ctx.Err() != nil) {
			err = errors.Join(err, terminals.Release(late, id))
		}
	}()

	c.content = append(c.content, object{"type": "terminal", "terminalId": id})
	if err := c.update(ctx, "in_progress", nil); err != nil {
		return "", err
	}

	exit, err := terminals.Wait(ctx, id)
	if err != nil {
		return "", err
	}
	out, err := terminals.Output(ctx, id)
	if err != nil {
		return "", err
	}

	if exit.Code != 0 || exit.Signal != "" {
		return "", fmt.Errorf("the command failed: %s", out.Text)
	}
	return out.Text, nil
}

// use calls a tool of an MCP server.
func (c *toolCall) use(ctx context.Context, s model.Step) (string, error) {
	blocks, failed, err := c.t.c.use(ctx, s.Server, s.Name, s.Args)
	if err != nil {
		return "", err
	}
	var texts []string
	for _, b := range blocks {
		c.block(b)
		if o, ok := b.(object); ok {
			text, _ := o["text"].(string)
			texts = append(texts, text)
		}
	}
	text := strings.Join(texts, "\n")
	if failed {
		return "", errors.New(text)
	}
	return text, nil
}

// arguments reads the arguments of a tool.
func arguments(raw json.RawMessage) (args struct{ Kind, Text string }) {
	json.Unmarshal(raw, &args) // missing members have defaults
	return args
}
