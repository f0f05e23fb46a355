package comply

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/parley-agents/parley/protocol/acp/schema"
	"github.com/parley-agents/parley/protocol/comply/jsont"
	"github.com/parley-agents/parley/protocol/comply/rules"
	"github.com/parley-agents/parley/protocol/jsonrpc"
)

// do runs the action of the current step. It returns a finding if the agent did
// something wrong.
// An action that cannot be carried out for a reason that is not the agent's fault
// sets r.err, and one that proves the test pointless sets r.moot; both end the
// test.
func (r *testRun) do(ctx context.Context, a jsont.Action) *rules.Finding {
	switch a := a.(type) {
	case *jsont.NewSession:
		return r.newSession(ctx, a)
	case *jsont.Send:
		return r.send(ctx, a)
	case *jsont.SendRaw:
		return r.sendRaw(ctx, a)
	case *jsont.Expect:
		return r.expect(ctx, a)
	case *jsont.Forbid:
		return r.forbid(ctx, a)
	case jsont.Delay:
		return r.delay(ctx, time.Duration(a))
	case *jsont.Process:
		return r.process(ctx, a)
	case *jsont.Reply:
		return r.reply(ctx, a)
	case *jsont.Check:
		return r.check(a)
	case *jsont.FileCheck:
		return r.fileCheck(ctx, a)
	}
	return r.abort(fmt.Errorf("comply: no action %T", a))
}

// newSession opens a session and keeps its id in a variable. A failure is a finding under the
// rule about session/new, not under that of the test.
func (r *testRun) newSession(ctx context.Context, a *jsont.NewSession) *rules.Finding {
	vars := r.vars()
	params := map[string]any{"cwd": r.sandbox, "mcpServers": []any{}}
	if a.MCPServers != nil {
		params["mcpServers"] = mcpServers(r.version, a.MCPServers.Encode(vars.Expand))
	}
	for _, m := range a.Params.Members() {
		params[m.Name] = m.Value.Encode(vars.Expand)
	}

	if f := r.logIn(ctx, rules.MethodNewSession); f != nil || r.err != nil {
		return f
	}

	timeout := max(r.scaled(a.Timeout), r.allowed.session)
	r.mark()
	answer, err := r.c.call(ctx, rules.MethodNewSession, params, timeout)

	switch id, ok := sessionID(answer); {
	case ctx.Err() != nil:
		return r.abort(ctx.Err())
	// A capture comes before the count, so that the next step finds the variable.
	case ok && a.Capture != "":
		r.c.set(a.Capture, jsont.Encode(id))
		fallthrough
	case ok:
		r.met++
		return nil
	case answer == nil:
		return r.timed(r.setup(ruleNewSession, "an answer to session/new", r.endingText(err)))
	case r.wantsLogin(rules.MethodNewSession, answer):
		r.moot = needsLogin
		return nil
	case answer.Failure() != nil:
		return r.setup(ruleNewSession, "a session", "session/new failed: "+jsont.Brief(answer.Failure()), answer)
	}
	return r.setup(ruleNewSession, "a result with a sessionId that is a string and not empty", "the result has no session id", answer)
}

// mcpServers returns MCP servers in the form of a version. In version 2 a server that is started as
// a program has a type as well.
func mcpServers(version schema.Version, list json.RawMessage) any {
	servers, _ := jsont.Decode(list)
	items, ok := servers.([]any)
	if !ok || version == schema.V1 {
		return list
	}
	for _, item := range items {
		if server, ok := item.(map[string]any); ok && server["type"] == nil {
			server["type"] = "stdio"
		}
	}
	return items
}

// sessionID returns the id of the session in an answer, which may be nil.
func sessionID(answer *rules.Entry) (string, bool) {
	if answer == nil {
		return "", false
	}
	v, _ := jsont.Lookup(answer.Value, "result.sessionId")
	id, ok := v.(string)
	return id, ok && id != ""
}

// send sends one frame. If a request that it depends on has already been answered, the test
// is moot.
// The deadline of a request counts from here, and is checked when the answers are
// judged at the end of the test, so a slow answer does not hold up the steps after
// it.
func (r *testRun) send(ctx context.Context, a *jsont.Send) *rules.Finding {
	vars := r.vars()
	// A test about a running request proves nothing once that request was answered.
	if a.WhileWaiting != nil {
		id := a.WhileWaiting.Encode(vars.Expand)
		switch {
		case r.version == schema.V2 && !r.turnRuns(id):
			r.moot = fmt.Sprintf("the turn of request %s ended too soon to test anything", id)
			return nil
		case r.version == schema.V1 && !r.waits(id):
			r.moot = fmt.Sprintf("request %s was answered too soon to test anything", id)
			return nil
		}
	}
	frame := a.Frame.Encode(vars.Expand)
	method := rules.NewEntry(jsonrpc.Out, frame).Method
	if f := r.logIn(ctx, method); f != nil || r.err != nil {
		return f
	}
	r.mark()
	patience := r.allowed.forRequest(method, r.scaled(a.Timeout))
	return r.deliver(ctx, frame, &request{step: r.now.step, wantError: a.WantError, patience: patience, deadline: time.Now().Add(patience)})
}

// sendRaw sends bytes. The log has only their beginning.
func (r *testRun) sendRaw(ctx context.Context, a *jsont.SendRaw) *rules.Finding {
	data := a.Data
	if a.Text != nil {
		data = []byte(r.vars().Expand(a.Text.Text))
	}
	// Beyond the bound of the log nothing could be shown of it.
	if len(data)*a.Times > maxLog {
		return r.abort(fmt.Errorf("sendRaw: too many bytes (%d)", len(data)*a.Times))
	}
	data = bytes.Repeat(data, a.Times)
	r.mark()
	return r.deliverLine(ctx, bytes.TrimRight(data[:min(len(data), 64<<10)], "\r\n"), data, nil)
}

// reply answers a held request. A test that names one that is not held is broken.
func (r *testRun) reply(ctx context.Context, a *jsont.Reply) *rules.Finding {
	r.c.mu.Lock()
	e := r.c.held[a.To]
	delete(r.c.held, a.To)
	r.c.mu.Unlock()
	if e == nil {
		return r.abort(fmt.Errorf("reply: no held request named %q", a.To))
	}
	return r.deliver(ctx, answerLine(e.ID, a.Body.Encode(r.vars().Expand)), nil)
}

// deliver sends one frame. q is the request that it is; nil for other frames.
func (r *testRun) deliver(ctx context.Context, frame []byte, q *request) *rules.Finding {
	return r.deliverLine(ctx, frame, withLineEnd(frame), q)
}

// deliverLine logs frame and sends line. An agent that does not read its input
// fails.
func (r *testRun) deliverLine(ctx context.Context, frame, line []byte, q *request) *rules.Finding {
	limit := r.scaled(jsont.DefaultTimeout)
	limited, stop := context.WithTimeout(ctx, limit)
	defer stop()
	e, err := r.c.sendEntry(limited, frame, line, q)
	switch {
	case ctx.Err() != nil:
		return r.abort(ctx.Err())
	case err != nil:
		return r.timed(r.finding(r.now.step, "an agent that reads its input", fmt.Sprintf("it read nothing for %v", limit), e))
	}
	return nil
}

// graceAfterAnswer is how long forbidden frames are still watched for after all
// requests are answered.
const graceAfterAnswer = 250 * time.Millisecond

// forbid watches the frames since the last step that sent something. It ends at
// the first forbidden frame, at the until frame, when the time is over, or, unless
// the step says full, a moment after the last request was answered: an agent that
// has answered is not going to call any more.
func (r *testRun) forbid(ctx context.Context, a *jsont.Forbid) *rules.Finding {
	var found *rules.Entry
	from, until := r.since(), r.untilFrame(a.Until)
	var messages []openExpectation
	for _, m := range a.Messages {
		messages = append(messages, openExpectation{Expectation: m, local: r.now.local})
	}

	// A method is forbidden by its name alone, a message by its pattern.
	forbidden := func(e *rules.Entry) bool {
		if e.Direction == jsonrpc.In && e.Method != "" && slices.Contains(a.Methods, e.Method) {
			return true
		}
		for i := range messages {
			if messages[i].fits(e, r.c.vars) {
				return true
			}
		}
		return false
	}

	update := func() bool {
		// Each entry is compared once: from moves on with the log.
		for _, e := range r.c.log[from:] {
			if until.came() {
				break
			}
			if forbidden(e) {
				found = e
				return true
			}
			until.see(e, r.c.vars)
		}
		from = len(r.c.log)
		return until.came()
	}

	// A frame that would end the test without a verdict is not waited for longer than the test says:
	// the turn of a slow agent would be over.
	wait := r.patience(a.Timeout)
	if r.now.step.Moot != "" {
		wait = r.scaled(a.Timeout)
	}

	// The requests that are open now decide the end: later ones belong to later steps.
	began := time.Now()
	open := r.unanswered()
	err := r.c.wait(ctx, wait, func() bool {
		return update() || (!a.Full && len(open) > 0 && !slices.ContainsFunc(open, func(q *request) bool { return q.Answer == nil }))
	})
	if err == nil && found == nil && !until.came() {
		r.c.wait(ctx, min(wait-time.Since(began), r.scaled(graceAfterAnswer)), update) // only found matters
	}

	switch {
	case ctx.Err() != nil:
		return r.abort(ctx.Err())
	case found != nil:
		actual := "the agent sent one"
		if found.Method != "" {
			actual = "the agent called " + found.Method
		}
		return r.finding(r.now.step, "no "+forbidText(a), actual, found)
	}
	r.met++
	return nil
}

// forbidText describes the forbidden frames for people.
func forbidText(a *jsont.Forbid) string {
	var parts []string
	if len(a.Methods) > 0 {
		parts = append(parts, "call of "+strings.Join(a.Methods, ", "))
	}
	for _, m := range a.Messages {
		parts = append(parts, string(m.Class)+" like "+jsont.NewPattern(m.Body, nil).String())
	}
	return jsont.Shorten(strings.Join(parts, ", and no "), 500)
}

// delay waits, and counts the time as waiting.
func (r *testRun) delay(ctx context.Context, d time.Duration) *rules.Finding {
	defer r.c.clock.wait()()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return r.abort(ctx.Err())
	}
}

// check compares a value made of variables.
func (r *testRun) check(a *jsont.Check) *rules.Finding {
	value, _ := jsont.Decode(a.Value.Encode(r.vars().Expand))
	if expected, actual := compare("a value", value, a.Like, a.Unlike, r.vars()); expected != "" {
		return r.finding(r.now.step, expected, actual)
	}
	r.met++
	return nil
}

// compare returns the difference between v, called name, and a pattern that it
// must match and one that it must not; either may be nil. It returns "" if there is
// no difference.
func compare(name string, v any, like, unlike *jsont.Node, vars jsont.Variables) (expected, actual string) {
	if like != nil {
		if bad := jsont.NewPattern(like, vars).Match(v); bad != nil {
			return name + " like " + bad.Want, "it is " + bad.Got
		}
	}
	if unlike != nil {
		if p := jsont.NewPattern(unlike, vars); p.Match(v) == nil {
			return name + " unlike " + p.String(), "it is " + jsont.Brief(v)
		}
	}
	return "", ""
}

// filePause is the time between two reads of a file; nothing tells when a file
// changes.
const filePause = 20 * time.Millisecond

// maxChecked is how many bytes of a file are compared.
const maxChecked = 1 << 20

// fileCheck waits until the file is as the step wants it. A file that must be
// absent, or must not match, must still be so at the end of the time.
// There is no portable event for a change of a file, so it is read every filePause.
func (r *testRun) fileCheck(ctx context.Context, a *jsont.FileCheck) *rules.Finding {
	path := r.vars().Expand(a.Path)
	if !filepath.IsAbs(path) {
		path = filepath.Join(r.sandbox, path)
	}
	// The workspace has more folders than the sandbox, and tests may look into all of
	// them, but never outside.
	if path = filepath.Clean(path); !strings.HasPrefix(path, filepath.Dir(r.sandbox)+string(filepath.Separator)) {
		return r.abort(fmt.Errorf("file: %s is not in the workspace", path))
	}
	deadline := time.Now().Add(r.scaled(a.Timeout))
	// A match ends the wait at once; a file that must not match is read until the end.
	for {
		text, expected, actual := compareFile(a, path, r.vars())
		over := !time.Now().Before(deadline)
		switch {
		case expected == "" && (over || a.Like != nil):
			r.met++
			r.files = append(r.files, text)
			return nil
		case expected != "" && (over || a.Absent):
			r.files = append(r.files, text)
			f := r.finding(r.now.step, expected, actual)
			// On a busy machine the agent may have written the file before the step that forbids it.
			if (a.Like != nil || a.Absent) && a.Timeout > 0 {
				return r.timed(f)
			}
			return f
		}
		if r.delay(ctx, filePause); r.err != nil {
			return nil
		}
	}
}

// compareFile returns the text of a file, and its difference to the step, "" for none.
func compareFile(a *jsont.FileCheck, path string, vars jsont.Variables) (text, expected, actual string) {
	name := filepath.Base(path)
	if a.Is != "" {
		name += ", " + a.Is
	}
	text, err := readSome(path)
	switch {
	case a.Absent && err == nil:
		return text, "no file " + name, "it exists: " + jsont.Brief(text)
	case a.Absent:
		return "", "", ""
	case errors.Is(err, fs.ErrNotExist):
		return "", "the file " + name, "it does not exist"
	case err != nil:
		return "", "a file " + name + " that can be read", err.Error()
	}
	expected, actual = compare("the file "+name, text, a.Like, a.Unlike, vars)
	return text, expected, actual
}

// readSome returns the beginning of a regular file.
func readSome(path string) (string, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return "", err
	}
	// A pipe or device of the agent would block the reader.
	if !info.Mode().IsRegular() {
		return "", fmt.Errorf("%s is not a regular file", filepath.Base(path))
	}
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxChecked))
	return string(text), err
}
