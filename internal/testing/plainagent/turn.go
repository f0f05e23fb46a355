package plainagent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/parley-agents/parley/protocol/comply/model"
)

// maxAsked is how often the agent asks its model in one turn.
const maxAsked = 20

// directives matches the directives in a prompt, which are not remembered.
var directives = regexp.MustCompile(`(?m)(^|\s)parley:.*$`)

// A turn is a prompt that the agent works on.
type turn struct {
	*agent
	*session
	calls  int
	asked  int
	silent bool // nothing was said since the last tool call
	said   strings.Builder
}

// A stopReason ends a turn early.
type stopReason string

func (s stopReason) Error() string { return string(s) }

// run does what a prompt says, and returns the answer to it.
func (t *turn) run(ctx context.Context, prompt string) (object, error) {
	t.known = append(t.known, directives.ReplaceAllString(prompt, ""))
	steps, err := model.Directives(prompt)
	switch {
	case err != nil:
		steps = []model.Step{{Do: model.Say, Text: "cannot do that: " + err.Error()}}
	case len(steps) == 0 && strings.Contains(strings.ToLower(prompt), "slowly"):
		steps = []model.Step{{Do: model.Slow}}
	case len(steps) == 0:
		steps = []model.Step{{Do: model.Say, Text: "Fine."}}
	}
	err = t.follow(ctx, steps)
	t.known = append(t.known, t.said.String())
	var early stopReason
	switch {
	case ctx.Err() != nil:
		return object{"stopReason": "cancelled"}, nil
	case errors.As(err, &early):
		return object{"stopReason": string(early)}, nil
	case err != nil:
		return nil, err
	}
	return object{"stopReason": "end_turn"}, nil
}

func (t *turn) follow(ctx context.Context, steps []model.Step) error {
	for _, s := range steps {
		if t.silent && !s.Join {
			if t.asked++; t.asked > maxAsked {
				return stopReason("max_turn_requests")
			}
		}
		if err := t.do(ctx, s); err != nil {
			return err
		}
	}
	if t.silent {
		t.say("Finished.")
	}
	return ctx.Err()
}

// do does one step.
func (t *turn) do(ctx context.Context, s model.Step) error {
	if err := ctx.Err(); err != nil {
		return err
	}

	t.silent = false
	switch s.Do {
	case model.Say:
		return t.stream(ctx, s, t.say)
	case model.Think:
		return t.stream(ctx, s, func(text string) {
			t.update(object{"sessionUpdate": "agent_thought_chunk", "content": object{"type": "text", "text": text}})
		})

	case model.Slow:
		for i := range max(s.Chunks, 100) {
			if s.Chunks > 0 && i >= s.Chunks {
				break
			}
			if err := wait(ctx, max(s.Delay, 20)); err != nil {
				return err
			}
			t.say(fmt.Sprintf("%d ", i+1))
		}
		return nil

	case model.Recall:
		word := "not recalled: "
		if s.Kind == "" && t.knows(s.Text) {
			word = "recalled: "
		}
		t.say(word + s.Text + s.Kind)
		return nil
	case model.Tell:
		if t.knows(s.Text) {
			t.say(s.Text)
		} else {
			t.say(model.Unknown)
		}
		return nil

	case model.Refuse:
		t.say("No. " + s.Text)
		return stopReason("refusal")
	case model.Length:
		t.say(s.Text + " and")
		return stopReason("max_tokens")
	case model.Error, model.Fail:
		if s.Times > 0 {
			return nil
		}
		return fail(internalError, "the model failed: %d %s%s", s.Status, s.Text, s.How)
	case model.Hang:
		<-ctx.Done()
		return ctx.Err()

	case model.Plan:
		t.silent = true
		entries := []any{}
		for i, e := range s.Entries {
			status := []string{"completed", "in_progress", "pending"}[min(2, max(0, i-s.Done+1))]
			entries = append(entries, object{"content": e, "priority": "low", "status": status})
		}
		t.update(object{"sessionUpdate": "plan", "entries": entries})
		return nil
	}

	// Any other step is a tool call.
	t.silent = true
	return t.tool(ctx, s)
}

// knows reports whether the conversation has a text.
func (t *turn) knows(text string) bool {
	return slices.ContainsFunc(append(t.known, t.said.String()), func(k string) bool { return strings.Contains(k, text) })
}

// stream says text in the pieces that a step wants.
func (t *turn) stream(ctx context.Context, s model.Step, say func(string)) error {
	runes := []rune(s.Text)
	size := s.Chunk
	if size <= 0 {
		size = max(1, len(runes))
	}
	for piece := range slices.Chunk(runes, size) {
		if err := wait(ctx, s.Delay); err != nil {
			return err
		}
		say(string(piece))
	}
	return nil
}

func wait(ctx context.Context, ms int) error {
	timer := time.NewTimer(time.Duration(ms) * time.Millisecond)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (t *turn) say(text string) {
	t.said.WriteString(text)
	t.update(object{"sessionUpdate": "agent_message_chunk", "content": object{"type": "text", "text": text}})
}

func (t *turn) update(u object) {
	t.send(object{"method": "session/update", "params": object{"sessionId": t.session.id, "update": u}})
}

// tool does a step that is a tool call. The client hears of it before the user is asked, and
// when it is over.
func (t *turn) tool(ctx context.Context, s model.Step) error {
	t.calls++
	id := fmt.Sprintf("%s/%d/%d", t.session.id, len(t.known), t.calls)

	path := s.Path
	if path != "" && !filepath.IsAbs(path) {
		path = filepath.Join(t.dir, path)
	}

	title := "open_file " + s.Path
	kind := "read"
	asks := false
	var work func() (string, error)
	switch s.Do {
	case model.Read:
		work = func() (string, error) { return t.read(ctx, path) }
	case model.Write:
		title = "put_file " + s.Path
		kind = "edit"
		asks = true
		work = func() (string, error) { return "stored", t.write(ctx, path, s.Text) }
	case model.Edit:
		title = "patch_file " + s.Path
		kind = "edit"
		asks = true
		work = func() (string, error) {
			old, err := t.read(ctx, path)
			if err != nil {
				return "", err
			}
			return "patched", t.write(ctx, path, strings.Replace(old, s.Old, s.New, 1))
		}
	case model.Shell:
		title = "bash " + s.Command
		kind = "execute"
		asks = true
		work = func() (string, error) { return run(ctx, t.dir, s.Command) }
	case model.MCP:
		title, kind = "remote "+s.Name, "other"
		work = func() (string, error) { return t.remote(ctx, s) }
	default:
		t.silent = false
		t.say("cannot tool: there is no tool " + s.Name)
		return nil
	}

	call := object{"sessionUpdate": "tool_call", "toolCallId": id, "title": title, "kind": kind, "status": "pending"}
	if path != "" {
		call["locations"] = []any{object{"path": path}}
	}
	t.update(call)

	// A path outside of the session fails the call before the user is asked.
	status, result := "completed", ""
	err := t.inside(path)
	if err == nil && asks {
		err = t.ask(ctx, id, title, kind)
	}
	if err == nil {
		t.update(object{"sessionUpdate": "tool_call_update", "toolCallId": id, "status": "in_progress"})
		result, err = work()
	}
	if err != nil {
		status, result = "failed", err.Error()
	}

	t.known = append(t.known, result)
	t.update(object{"sessionUpdate": "tool_call_update", "toolCallId": id, "status": status, "content": []any{
		object{"type": "content", "content": object{"type": "text", "text": result}},
	}})
	return ctx.Err()
}

// inside refuses a path outside of the folder of the session.
func (t *turn) inside(path string) error {
	if path == "" {
		return nil
	}
	if rel, err := filepath.Rel(t.dir, path); err != nil || !filepath.IsLocal(rel) {
		return fmt.Errorf("%s is not in the folder of the session", path)
	}
	return nil
}

// ask asks the user for permission.
func (t *turn) ask(ctx context.Context, id, title, kind string) error {
	if t.always {
		return nil
	}
	result, err := t.call(ctx, "session/request_permission", object{
		"sessionId": t.session.id, "toolCall": object{"toolCallId": id, "title": title, "kind": kind},
		"options": []any{
			object{"optionId": "deny", "name": "No", "kind": "reject_once"},
			object{"optionId": "yes", "name": "Yes", "kind": "allow_once"},
			object{"optionId": "all", "name": "Yes to all", "kind": "allow_always"},
		},
	})
	outcome, _ := result["outcome"].(object)
	switch option := text(outcome, "optionId"); {
	case err != nil:
		return err
	case text(outcome, "outcome") == "cancelled":
		return errors.New("the question was cancelled")
	case text(outcome, "outcome") != "selected" || (option != "yes" && option != "all"):
		return errors.New("the user said no")
	case option == "all":
		t.always = true
	}
	return nil
}

// read reads a file through the client if it can, else from the disk.
func (t *turn) read(ctx context.Context, path string) (string, error) {
	if !t.canRead {
		raw, err := os.ReadFile(path)
		return string(raw), err
	}
	result, err := t.call(ctx, "fs/read_text_file", object{"sessionId": t.session.id, "path": path})
	return text(result, "content"), err
}

func (t *turn) write(ctx context.Context, path, content string) error {
	if !t.canWrite {
		return os.WriteFile(path, []byte(content), 0o600)
	}
	_, err := t.call(ctx, "fs/write_text_file", object{"sessionId": t.session.id, "path": path, "content": content})
	return err
}

// run runs a command, and ends what it started with it.
func run(ctx context.Context, dir, command string) (string, error) {
	cmd := exec.CommandContext(ctx, "sh", "-c", command)
	cmd.Dir = dir
	leash(cmd)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return string(out), nil
}
