package guard_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/desk/cli"
	"github.com/parley-agents/parley/internal/desk/guard"
	"github.com/parley-agents/parley/internal/service/reservation"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// An event is one file of testdata/events: an input of a hook as the CLI sends it, with the
// questions that it becomes and the outputs for two answers. <folder> stands for a working
// tree, and <folder>/linked for another one.
type event struct {
	CLI       string                 `json:"cli"`
	Input     json.RawMessage        `json:"input"`
	Questions []reservation.Question `json:"questions"`
	Denied    json.RawMessage        `json:"denied"` // the output if the hub denies
	Noted     json.RawMessage        `json:"noted"`  // the output if the hub allows and has a note
}

// tree makes a working tree of git, as far as the guard looks, with another one inside.
func tree(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, folder := range []string{".git", "src", "linked"} {
		if err := os.Mkdir(filepath.Join(dir, folder), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	write(t, filepath.Join(dir, "linked", ".git"), "gitdir: elsewhere\n")
	write(t, filepath.Join(dir, "src", "a.go"), "package a\n")
	if err := os.Symlink("src/a.go", filepath.Join(dir, "link.txt")); err != nil {
		t.Fatal(err)
	}
	return dir
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// answering returns a guard of a CLI whose hub gives one answer, and the questions that it gets.
func answering(c cli.CLI, answer reservation.Answer) (*guard.Guard, *[]reservation.Question) {
	asked := []reservation.Question{}
	return &guard.Guard{CLI: c, Ask: func(_ context.Context, q reservation.Question) (reservation.Answer, error) {
		asked = append(asked, q)
		return answer, nil
	}}, &asked
}

// TestEvents compares the questions and outputs of each event with its file.
func TestEvents(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("testdata", "events", "*.json"))
	if err != nil || len(files) < 50 {
		t.Fatalf("%d events, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".json"), func(t *testing.T) {
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var want event
			if err := json.Unmarshal(raw, &want); err != nil {
				t.Fatal(err)
			}
			got := play(t, want.CLI, want.Input)
			out := encoded(t, got)
			if *update {
				write(t, file, string(out))
				return
			}
			if !bytes.Equal(raw, out) {
				t.Errorf("got\n%s\nwant\n%s", out, raw)
			}
		})
	}
}

// play returns an event with its questions and outputs.
func play(t *testing.T, name string, input json.RawMessage) event {
	t.Helper()
	c, err := cli.Lookup(name)
	if err != nil {
		t.Fatal(err)
	}
	dir := tree(t)
	raw := bytes.ReplaceAll(input, []byte("<folder>"), []byte(dir))
	h, ok := c.HookOf(raw)
	if !ok {
		t.Fatalf("the input comes from no hook: %s", raw)
	}

	denies, asked := answering(c, reservation.Answer{Decision: reservation.Deny, Reason: reservation.ReasonHeld, Text: "REASON", Notes: []reservation.Note{}})
	denied := denies.Output(h, denies.Judge(t.Context(), h, raw))
	notes, _ := answering(c, reservation.Answer{Decision: reservation.Allow, Reason: reservation.ReasonFree, Notes: []reservation.Note{{Kind: reservation.NoteOrphan, Text: "NOTE"}}})
	noted := notes.Output(h, notes.Judge(t.Context(), h, raw))

	all := encoded(t, event{CLI: name, Input: input, Questions: *asked, Denied: orNull(denied), Noted: orNull(noted)})
	var out event
	if err := json.Unmarshal(bytes.ReplaceAll(all, []byte(dir), []byte("<folder>")), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// encoded returns an event as its file has it.
func encoded(t *testing.T, e event) []byte {
	t.Helper()
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(e); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// orNull returns an output as JSON.
func orNull(out []byte) json.RawMessage {
	if len(out) == 0 {
		return json.RawMessage("null")
	}
	return out
}

// edit is an event before an edit.
func edit(dir string) []byte {
	return fmt.Appendf(nil, `{"session_id":"s","cwd":%q,"hook_event_name":"PreToolUse","tool_name":"Write","tool_input":{"file_path":"a.txt"}}`, dir)
}

// run is an event before a command.
func run(dir, command string) []byte {
	return fmt.Appendf(nil, `{"session_id":"s","cwd":%q,"hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":%q}}`, dir, command)
}

// claude returns Claude Code and the hook of an input.
func claude(t *testing.T, input []byte) (cli.CLI, cli.Hook) {
	t.Helper()
	c, err := cli.Lookup("claude")
	if err != nil {
		t.Fatal(err)
	}
	h, ok := c.HookOf(input)
	if !ok {
		t.Fatalf("no hook: %s", input)
	}
	return c, h
}

// TestHubsThatDoNotAnswer has hubs that are away, hang, fail or panic: the call goes on, unless
// the operator wants edits to wait.
func TestHubsThatDoNotAnswer(t *testing.T) {
	dir := tree(t)
	forever := make(chan struct{})
	for name, test := range map[string]struct {
		ask     guard.Asker
		decides bool // the error is a decision of the hub
	}{
		"is away":      {ask: fails(hub.Errorf(hub.CodeDegraded, "", "hub unreachable"))},
		"is overrun":   {ask: fails(hub.Errorf(hub.CodeOverloaded, "", "too many calls"))},
		"breaks off":   {ask: fails(errors.New("unexpected EOF"))},
		"ends the ctx": {ask: fails(context.DeadlineExceeded)},
		"panics":       {ask: func(context.Context, reservation.Question) (reservation.Answer, error) { panic("no") }},
		"hangs": {ask: func(context.Context, reservation.Question) (reservation.Answer, error) {
			<-forever
			return reservation.Answer{}, nil
		}},
		"may not read the folder": {ask: fails(hub.Errorf(hub.CodeOutsideRoots, "", "under no root")), decides: true},
		"does not know the agent": {ask: fails(hub.Errorf(hub.CodeUnauthenticated, "", "no such key")), decides: true},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		if name == "hangs" {
			cancel() // as the end of Patience does
		}
		defer cancel()
		for _, input := range [][]byte{edit(dir), run(dir, "rm a.txt"), run(dir, "git add -A"), run(dir, "ls -l"), run(dir, "make")} {
			c, h := claude(t, input)
			open := guard.Guard{CLI: c, Ask: test.ask}
			if v := open.Judge(ctx, h, input); v.Denied || len(open.Output(h, v)) > 0 {
				t.Errorf("a hub that %s: %s: got %+v, want an edit that goes on", name, input, v)
			}
			closed := guard.Guard{CLI: c, Ask: test.ask, Closed: func(folder string) bool { return folder == dir }}
			changes := !bytes.Contains(input, []byte("ls -l")) && !bytes.Contains(input, []byte("make"))
			v := closed.Judge(ctx, h, input)
			if want := changes && !test.decides; v.Denied != want {
				t.Errorf("a hub that %s, where edits wait: %s: got %+v, want denied %v", name, input, v, want)
			}
			if v.Denied && (v.Reason != guard.ReasonUnreachable || len(v.Text) > 400 || !bytes.Contains(closed.Output(h, v), []byte(`"deny"`))) {
				t.Errorf("got %+v", v)
			}
		}
	}
}

func fails(err error) guard.Asker {
	return func(context.Context, reservation.Question) (reservation.Answer, error) {
		return reservation.Answer{}, err
	}
}

// TestPatience has a hub that never answers: the guard returns when its time is over.
func TestPatience(t *testing.T) {
	dir := tree(t)
	input := edit(dir)
	c, h := claude(t, input)
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		g := guard.Guard{CLI: c, Ask: func(ctx context.Context, _ reservation.Question) (reservation.Answer, error) {
			<-ctx.Done()
			return reservation.Answer{}, ctx.Err()
		}}
		if v := g.Judge(t.Context(), h, input); v.Denied {
			t.Errorf("got %+v", v)
		}
		if got := time.Since(began); got != guard.Patience { // of a virtual clock
			t.Errorf("the answer came after %s, want %s", got, guard.Patience)
		}
	})
}

// TestInputsThatAreNotKnown has inputs of no form: the guard asks nothing and says nothing.
func TestInputsThatAreNotKnown(t *testing.T) {
	for _, c := range cli.All() {
		g, asked := answering(c, reservation.Answer{Decision: reservation.Deny, Text: "no"})
		for _, input := range []string{"", "{", "null", "[]", `"x"`, `{}`, `{"hook_event_name":"New"}`, `{"hook_event_name":1}`, `{"tool_name":"Write","tool_input":[]}`, `{"toolName":"create","toolArgs":"{"}`, `{"toolName":"create","cwd":"relative","toolArgs":{"path":"a"}}`} {
			if h, ok := c.HookOf([]byte(input)); ok {
				if v := g.Judge(t.Context(), h, []byte(input)); v.Denied {
					t.Errorf("%s: %s: got %+v", c.Name, input, v)
				}
			}
		}
		if len(*asked) > 0 {
			t.Errorf("%s: asked %+v", c.Name, *asked)
		}
	}
}

// TestNotesWait has a note in the answer before a call: the model reads it after the call, once.
func TestNotesWait(t *testing.T) {
	dir := tree(t)
	before := edit(dir)
	after := bytes.Replace(before, []byte("PreToolUse"), []byte("PostToolUse"), 1)
	c, first := claude(t, before)
	_, last := claude(t, after)

	g, _ := answering(c, reservation.Answer{Decision: reservation.Allow, Notes: []reservation.Note{{Text: "builder left changes"}}})
	g.Notes = guard.Notes(t.TempDir())
	if v := g.Judge(t.Context(), first, before); v.Text != "" {
		t.Errorf("before the call: got %+v", v)
	}
	quiet, _ := answering(c, reservation.Answer{Decision: reservation.Allow})
	quiet.Notes = g.Notes
	if v := quiet.Judge(t.Context(), last, after); v.Text != "builder left changes" {
		t.Errorf("after the call: got %+v", v)
	}
	if v := quiet.Judge(t.Context(), last, after); v.Text != "" {
		t.Errorf("the second time: got %+v", v)
	}

	g.Judge(t.Context(), first, before)
	g.Notes.Drop("claude", "s")
	if v := quiet.Judge(t.Context(), last, after); v.Text != "" {
		t.Errorf("after the end of the session: got %+v", v)
	}
}

// FuzzJudge has inputs of any form: no panic, and a question has absolute paths.
func FuzzJudge(f *testing.F) {
	files, err := filepath.Glob(filepath.Join("testdata", "events", "*.json"))
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		var e event
		if err := json.Unmarshal(raw, &e); err != nil {
			f.Fatal(err)
		}
		f.Add(e.CLI, []byte(strings.ReplaceAll(string(e.Input), "<folder>", "/tree")))
	}
	f.Fuzz(func(t *testing.T, name string, input []byte) {
		c, err := cli.Lookup(name)
		if err != nil {
			return
		}
		h, ok := c.HookOf(input)
		if !ok {
			return
		}
		use, ok := c.ReadUse(h, input)
		if !ok {
			return
		}
		for _, q := range guard.Questions(use) {
			if !filepath.IsAbs(q.Tree) || q.Kind == "" {
				t.Errorf("got %+v", q)
			}
			for _, p := range q.Paths {
				if !filepath.IsAbs(p) {
					t.Errorf("%s is not absolute", p)
				}
			}
		}
	})
}
