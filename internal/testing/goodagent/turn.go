package goodagent

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/parley-agents/parley/protocol/acp"
	"github.com/parley-agents/parley/protocol/acp/acpv2"
	"github.com/parley-agents/parley/protocol/comply/model"
	"github.com/parley-agents/parley/protocol/jsonrpc"
)

// maxAnswers is how often the agent asks its model in one turn.
const maxAnswers = 25

// contextSize is the context size that the agent reports, in tokens.
const contextSize = 200_000

// A turn is a prompt that the agent works on.
type turn struct {
	*acp.AgentTurn
	agent  *Agent
	c      *conversation
	id     string // of the messages in it
	calls  int
	answer strings.Builder // the text so far
	silent bool            // the last step was a tool call, and nothing was said since
}

// A stop ends a turn early.
type stop acp.StopReason

func (s stop) Error() string { return "the turn ends: " + string(s) }

var (
	directives = regexp.MustCompile(`(?m)(^|\s)parley:.*$`)
	slowWords  = regexp.MustCompile(`(?i)\bslowly\b|\bthink a bit\b`)
	command    = regexp.MustCompile(`^/([a-z]+)(?: (.*))?`)
)

func (a *Agent) prompt(ctx context.Context, at *acp.AgentTurn) (acp.StopReason, error) {
	if a.Traits.IgnoreCancel {
		ctx = context.WithoutCancel(ctx)
	}
	t := &turn{AgentTurn: at, agent: a, c: at.State.(*conversation), id: rand.Text()}
	text := t.hear()
	steps, err := t.steps(text)
	if err == nil {
		err = t.follow(ctx, steps)
	}
	reason := acpv2.StopReasonEndTurn
	if early := stop(""); errors.As(err, &early) {
		reason, err = acp.StopReason(early), nil
	}
	if ctx.Err() == nil && err == nil {
		err = t.finish(ctx)
	}
	t.remember()
	return reason, err
}

// hear takes in the prompt, and returns its text.
func (t *turn) hear() string {
	var texts, known []string
	for _, b := range t.Prompt {
		switch {
		case b.Text != nil:
			texts = append(texts, b.Text.Text)
		case b.ResourceLink != nil:
			known = append(known, b.ResourceLink.Name+" "+b.ResourceLink.URI)
		case b.Resource != nil && b.Resource.Resource.TextResourceContents != nil:
			known = append(known, b.Resource.Resource.TextResourceContents.Text)
		}
	}
	text := strings.Join(texts, "\n")
	t.c.mu.Lock()
	defer t.c.mu.Unlock()
	if t.agent.Traits.Forgetful {
		t.c.Said, t.c.Known = nil, nil
	}
	t.c.Said = append(t.c.Said, message{"user", t.id + "-prompt", text})
	t.c.Known = append(t.c.Known, known...)
	if t.c.Title == "" {
		t.c.Title = strings.TrimSpace(text[:min(len(text), 40)])
	}
	return text
}

// remember stores the messages of the turn.
func (t *turn) remember() {
	t.c.mu.Lock()
	defer t.c.mu.Unlock()
	if t.answer.Len() > 0 {
		t.c.Said = append(t.c.Said, message{"agent", t.id + "-answer", t.answer.String()})
	}
	t.agent.store.put(t.c.record) // a session that cannot be kept goes on all the same
}

// steps returns the steps in the prompt.
func (t *turn) steps(text string) ([]model.Step, error) {
	if m := command.FindStringSubmatch(text); m != nil {
		for _, c := range commands() {
			if c.Command.Name == m[1] {
				return []model.Step{{Do: model.Say, Text: fmt.Sprintf("command %s: %s", m[1], m[2])}}, nil
			}
		}
	}
	if understand := t.agent.Understand; understand != nil {
		return understand(text), nil
	}
	steps, err := model.Directives(text)
	switch {
	case err != nil:
		return []model.Step{{Do: model.Say, Text: "cannot do that: " + err.Error()}}, nil
	case len(steps) > 0:
		return steps, nil
	case slowWords.MatchString(text):
		return []model.Step{{Do: model.Slow}}, nil
	}
	return []model.Step{{Do: model.Say, Text: "OK."}}, nil
}

// follow does the steps.
func (t *turn) follow(ctx context.Context, steps []model.Step) error {
	answers := 1
	for len(steps) > 0 {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if t.silent {
			if answers++; answers > maxAnswers {
				return stop("max_turn_requests")
			}
		}
		n := 1
		for n < len(steps) && steps[n].Join {
			n++
		}
		if err := t.together(ctx, steps[:n]); err != nil {
			return err
		}
		steps = steps[n:]
	}
	if t.silent {
		return t.say(ctx, "Done.")
	}
	return nil
}

// together does the steps of one answer of the model: one, or several tool calls
// at the same time.
func (t *turn) together(ctx context.Context, steps []model.Step) error {
	if len(steps) == 1 {
		return t.do(ctx, steps[0])
	}
	t.silent = true
	errs := make([]error, len(steps))
	var work sync.WaitGroup
	for i, s := range steps {
		id := t.nextCall()
		work.Go(func() { errs[i] = t.call(ctx, id, s) })
	}
	work.Wait()
	return errors.Join(errs...)
}

// nextCall returns the id of the next tool call.
func (t *turn) nextCall() string {
	t.calls++
	return fmt.Sprintf("%s-%d", t.id, t.calls)
}

// do does one step.
func (t *turn) do(ctx context.Context, s model.Step) error {
	t.silent = false
	switch s.Do {
	case model.Say:
		return pieces(ctx, s.Text, s.Chunk, s.Delay, t.say)
	case model.Think:
		return pieces(ctx, s.Text, s.Chunk, s.Delay, t.think)
	case model.Slow:
		return t.slow(ctx, s)
	case model.Recall:
		return t.recall(ctx, s)
	case repeatResult, repeatCode:
		return t.repeat(ctx, s)
	case model.Tell:
		if t.knows(s.Text) {
			return t.say(ctx, s.Text)
		}
		return t.say(ctx, model.Unknown)

	case refuseSilently:
		return stop("refusal")
	case model.Refuse:
		if err := t.say(ctx, "I will not do that. "+s.Text); err != nil {
			return err
		}
		return stop("refusal")
	case model.Length:
		if err := t.say(ctx, s.Text+"..."); err != nil {
			return err
		}
		return stop("max_tokens")

	case model.Error, model.Fail:
		if s.Times > 0 {
			return nil // it asks again
		}
		return &jsonrpc.Error{Code: jsonrpc.CodeInternal, Message: fmt.Sprintf("the model failed: %d %s%s", s.Status, s.Text, s.How)}
	case model.Hang:
		<-ctx.Done()
		return ctx.Err()

	case model.Plan:
		t.silent = true
		return t.plan(ctx, s)
	}

	// Any other step is a tool call.
	t.silent = true
	return t.call(ctx, t.nextCall(), s)
}

// pieces says text in pieces of n characters, each after a pause.
func pieces(ctx context.Context, text string, n, delay int, say func(context.Context, string) error) error {
	runes := []rune(text)
	if n <= 0 {
		n = max(1, len(runes))
	}
	for piece := range slices.Chunk(runes, n) {
		if err := pause(ctx, delay); err != nil {
			return err
		}
		if err := say(ctx, string(piece)); err != nil {
			return err
		}
	}
	return nil
}

func pause(ctx context.Context, ms int) error {
	if ms == 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(time.Duration(ms) * time.Millisecond)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (t *turn) say(ctx context.Context, text string) error {
	t.answer.WriteString(text)
	return t.show(ctx, object{"type": "text", "text": text})
}

// show says a block of content.
func (t *turn) show(ctx context.Context, block object) error {
	u := object{"sessionUpdate": "agent_message_chunk", "messageId": t.id + "-answer", "content": block}
	return tell(ctx, t.AgentSession, u, u)
}

func (t *turn) think(ctx context.Context, text string) error {
	u := object{"sessionUpdate": "agent_thought_chunk", "messageId": t.id + "-thought", "content": object{"type": "text", "text": text}}
	return tell(ctx, t.AgentSession, u, u)
}

func (t *turn) slow(ctx context.Context, s model.Step) error {
	chunks, delay := s.Chunks, s.Delay
	if chunks == 0 {
		chunks = 100
	}
	if delay == 0 {
		delay = 50
	}
	for i := range chunks {
		if err := pause(ctx, delay); err != nil {
			return err
		}
		if err := t.say(ctx, strconv.Itoa(i+1)+" "); err != nil {
			return err
		}
	}
	return nil
}

func (t *turn) recall(ctx context.Context, s model.Step) error {
	word := "not recalled: "
	if s.Kind != "" {
		for _, b := range t.Prompt {
			blob := b.Resource != nil && b.Resource.Resource.BlobResourceContents != nil
			if (b.Image != nil && s.Kind == "image") || (b.Audio != nil && s.Kind == "audio") || (blob && s.Kind == "file") {
				word = "recalled: "
			}
		}
		return t.say(ctx, word+s.Kind)
	}
	if t.knows(s.Text) {
		word = "recalled: "
	}
	return t.say(ctx, word+s.Text)
}

// knows reports whether the conversation has a text outside of directives.
func (t *turn) knows(text string) bool {
	t.c.mu.Lock()
	known := slices.Clone(t.c.Known)
	for _, m := range t.c.Said {
		known = append(known, directives.ReplaceAllString(m.Text, ""))
	}
	t.c.mu.Unlock()
	known = append(known, t.answer.String())
	return slices.ContainsFunc(known, func(k string) bool { return strings.Contains(k, text) })
}

// learn remembers the result of a tool.
func (t *turn) learn(text string) {
	t.c.mu.Lock()
	defer t.c.mu.Unlock()
	t.c.Known = append(t.c.Known, text)
}

func (t *turn) plan(ctx context.Context, s model.Step) error {
	entries := []any{}
	for i, text := range s.Entries {
		status := "pending"
		switch {
		case i < s.Done:
			status = "completed"
		case i == s.Done:
			status = "in_progress"
		}
		entries = append(entries, object{"content": text, "priority": "medium", "status": status})
	}
	return tell(ctx, t.AgentSession, object{"sessionUpdate": "plan", "entries": entries},
		object{"sessionUpdate": "plan_update", "plan": object{"type": "items", "planId": "main", "entries": entries}})
}

// finish sends the updates at the end of a turn.
func (t *turn) finish(ctx context.Context) error {
	t.c.mu.Lock()
	used := 100
	for _, m := range t.c.Said {
		used += len(m.Text)
	}
	turns := len(t.c.Said)
	title := t.c.Title
	t.c.mu.Unlock()
	usage := object{
		"sessionUpdate": "usage_update", "used": min(used, contextSize), "size": contextSize,
		"cost": object{"amount": float64(turns) / 100, "currency": "USD"},
	}
	if err := tell(ctx, t.AgentSession, usage, usage); err != nil {
		return err
	}
	info := object{"sessionUpdate": "session_info_update", "title": title, "updatedAt": time.Now().UTC().Format(time.RFC3339)}
	return tell(ctx, t.AgentSession, info, info)
}

// path returns the absolute form of a path, and whether it is inside the folders of the
// session.
func (t *turn) path(name string) (string, bool) {
	dir := t.Dir
	if t.agent.Traits.IgnoreDir {
		dir, _ = filepath.Abs(".")
	}
	if !filepath.IsAbs(name) {
		name = filepath.Join(dir, name)
	}
	name = filepath.Clean(name)
	return name, t.agent.Traits.IgnoreDir || slices.ContainsFunc(append([]string{t.Dir}, t.Directories...), func(root string) bool {
		rel, err := filepath.Rel(root, name)
		return err == nil && filepath.IsLocal(rel)
	})
}
