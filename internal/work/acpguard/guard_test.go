package acpguard_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/service/reservation"
	"github.com/parley-agents/parley/internal/testing/goodagent"
	"github.com/parley-agents/parley/internal/testing/plainagent"
	"github.com/parley-agents/parley/internal/testing/storetest"
	"github.com/parley-agents/parley/internal/work/acpguard"
	"github.com/parley-agents/parley/protocol/acp"
	"github.com/parley-agents/parley/protocol/sandbox"
)

// A folder is a working tree on disk with the service of a hub over it. It is the Trees, the
// Sessions and the Mail of the service.
type folder struct {
	t       *testing.T
	dir     string
	service *reservation.Service

	during func() // called in a turn, when the agent has reported something; nil for nothing

	mu        sync.Mutex // guards what follows
	committed map[string]string
	messages  []string
}

// newFolder returns a folder with the committed file a.txt.
func newFolder(t *testing.T) *folder {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	f := &folder{t: t, dir: dir, committed: map[string]string{}}
	if f.service, err = reservation.New(storetest.Open(t, t.TempDir()), f, f, f, nil); err != nil {
		t.Fatal(err)
	}
	f.write("a.txt", "one\n")
	f.commit("a.txt")
	return f
}

func (f *folder) write(name, text string) {
	f.t.Helper()
	if err := os.WriteFile(filepath.Join(f.dir, name), []byte(text), 0o600); err != nil {
		f.t.Fatal(err)
	}
}

func (f *folder) read(name string) string {
	raw, err := os.ReadFile(filepath.Join(f.dir, name))
	if err != nil {
		return ""
	}
	return string(raw)
}

func (f *folder) commit(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.committed[name] = f.read(name)
}

func (f *folder) Tree(_ context.Context, path string) (hub.WorkingTree, error) {
	if path != f.dir && !strings.HasPrefix(path, f.dir+"/") {
		return hub.WorkingTree{}, hub.Errorf(hub.CodeOutsideRoots, "folder.Tree", "%s is under no root", path)
	}
	return hub.WorkingTree{Path: f.dir, Repository: f.dir + "/.git"}, nil
}

func (f *folder) Names(_ context.Context, t hub.WorkingTree, paths []string) (out []string, _ error) {
	for _, p := range paths {
		rel, err := filepath.Rel(t.Path, p)
		if err != nil || !filepath.IsLocal(rel) {
			return nil, hub.Errorf(hub.CodeInvalid, "folder.Names", "%s is outside of %s", p, t.Path)
		}
		out = append(out, filepath.ToSlash(rel))
	}
	return out, nil
}

func (f *folder) Files(_ context.Context, _ hub.WorkingTree, names []string) (map[string]reservation.File, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := map[string]reservation.File{}
	for _, name := range names {
		text := f.read(name)
		sum := sha256.Sum256([]byte(text))
		head, isTracked := f.committed[name]
		out[name] = reservation.File{Digest: hex.EncodeToString(sum[:]), Clean: isTracked && head == text, Tracked: isTracked}
	}
	return out, nil
}

func (f *folder) Count(context.Context, hub.WorkingTree, string, int) (int, error) { return 1, nil }
func (f *folder) Staged(context.Context, hub.WorkingTree) ([]string, error)        { return nil, nil }
func (f *folder) Differs(context.Context, hub.WorkingTree, string, []string) ([]string, error) {
	return nil, nil
}
func (f *folder) Difference(context.Context, hub.WorkingTree, string) (reservation.Difference, error) {
	return reservation.Difference{}, nil
}

func (f *folder) Life(hub.Reader, hub.AgentID, string) (reservation.Life, error) {
	return reservation.Life{}, nil
}

func (f *folder) Notify(_ hub.Tx, e hub.Envelope) (hub.Message, error) {
	var p struct{ Summary string }
	if err := json.Unmarshal(e.Payload, &p); err != nil {
		return hub.Message{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.messages = append(f.messages, fmt.Sprintf("%s: %s", e.To[0], p.Summary))
	return hub.Message{}, nil
}

func (f *folder) KeepText(string) (hub.ArtifactRef, error) { return hub.ArtifactRef{}, nil }
func (f *folder) Announce(...hub.Message)                  {}

// hears reports whether the hub wrote a message.
func (f *folder) hears(text string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.ContainsFunc(f.messages, func(m string) bool { return strings.Contains(m, text) })
}

// asker returns the function with which an agent asks.
func (f *folder) asker(name hub.AgentID) acpguard.Ask {
	return func(ctx context.Context, q reservation.Question) (reservation.Answer, error) {
		return f.service.Ask(ctx, hub.Caller{Kind: hub.CallerAgent, ID: name}, q)
	}
}

// holder reserves a.txt for planner, who changes it.
func (f *folder) holder() {
	f.t.Helper()
	g := acpguard.New(f.dir, f.asker("planner"), acpguard.Options{})
	change := acp.Change{Paths: []string{"a.txt"}, Dir: f.dir}
	if refusal := g.Before(f.t.Context(), change); refusal != "" {
		f.t.Fatal(refusal)
	}
	f.write("a.txt", "two\n")
	g.After(f.t.Context(), change)
}

// A program is an agent that is served on two streams.
type program func(ctx context.Context, in io.Reader, out io.Writer) error

// good returns the good agent with habits.
func good(t *testing.T, habits func(*goodagent.Traits)) program {
	env := []string{"HOME=" + t.TempDir(), "PATH=" + os.Getenv("PATH")}
	return func(ctx context.Context, in io.Reader, out io.Writer) error {
		return goodagent.Serve(ctx, &goodagent.Mutant{Change: func(a *goodagent.Agent) { habits(&a.Traits) }}, env, in, out, io.Discard)
	}
}

// A turnOf is a turn of an agent as its client saw it.
type turnOf struct {
	results string   // of the tool calls, and the words of the agent
	notices string   // for people
	unread  []string // sentences that the agent has not read
}

// turn gives an agent a prompt in the folder, as builder.
func (f *folder) turn(p program, o acp.Options, guarding acpguard.Options, prompt string) turnOf {
	f.t.Helper()
	var out turnOf
	var mu sync.Mutex
	guarding.Notice = func(text string) {
		mu.Lock()
		defer mu.Unlock()
		out.notices += text + "\n"
	}
	guard := acpguard.New(f.dir, f.asker("builder"), guarding)
	o.Guard = guard

	// The agent is served on pipes until the client closes them.
	fromClient, toAgent := io.Pipe()
	fromAgent, toClient := io.Pipe()
	ctx := f.t.Context()
	served := make(chan error, 1)
	go func() {
		err := p(ctx, fromClient, toClient)
		toClient.Close()
		served <- err
	}()
	client, err := acp.Connect(ctx, fromAgent, toAgent, &o)
	if err != nil {
		f.t.Fatal(err)
	}
	session, err := client.NewSession(ctx, f.dir, nil)
	if err != nil {
		f.t.Fatal(err)
	}

	guard.Begin(ctx)
	turn, err := session.Prompt(ctx, acp.Text(prompt))
	if err != nil {
		f.t.Fatal(err)
	}
	for u := range turn.Updates() {
		if call := u.ToolCall(); call != nil {
			out.results += call.Status + ": " + call.Text + "\n"
		}
		out.results += u.Text()
		if f.during != nil {
			f.during()
		}
		guard.Update(ctx, u)
	}
	if _, err := turn.Wait(); err != nil {
		f.t.Fatal(err)
	}
	guard.End(ctx)
	if err := client.Close(); err != nil {
		f.t.Error(err)
	}
	<-served
	out.unread = guard.Unread()
	return out
}

func TestRefusedEdits(t *testing.T) {
	polite := func(*goodagent.Traits) {}
	never := func(h *goodagent.Traits) { h.NeverAsk = true }
	for _, tt := range []struct {
		name     string
		agent    func(t *testing.T) program
		policy   sandbox.Policy
		guard    acpguard.Options
		prompt   string
		isRead   bool // the model reads the reason in the result of its tool
		isUnread bool
	}{
		{"a request for permission is rejected", func(t *testing.T) program { return good(t, polite) }, sandbox.PolicyWrite, acpguard.Options{}, "parley:write path=a.txt text=mine", false, true},
		{"that of another agent, too", func(*testing.T) program { return plainagent.Serve }, sandbox.PolicyWrite, acpguard.Options{}, "parley:write path=a.txt text=mine", false, true},
		{"an agent whose permissions are not rejected is refused the write", func(t *testing.T) program { return good(t, polite) }, sandbox.PolicyWrite, acpguard.Options{NoReject: true}, "parley:write path=a.txt text=mine", true, true},
		{"an agent that does not ask is refused the write", func(t *testing.T) program { return good(t, never) }, sandbox.PolicyWrite, acpguard.Options{}, "parley:write path=a.txt text=mine", true, false},
		{"a command in a terminal is refused", func(t *testing.T) program { return good(t, never) }, sandbox.PolicyYolo, acpguard.Options{}, "parley:shell command='echo mine > a.txt'", true, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFolder(t)
			f.holder()
			got := f.turn(tt.agent(t), acp.Options{Policy: tt.policy}, tt.guard, tt.prompt)
			if text := f.read("a.txt"); text != "two\n" {
				t.Errorf("a.txt has %q, want the text of its holder", text)
			}
			if isRead := strings.Contains(got.results, "planner"); isRead != tt.isRead {
				t.Errorf("the agent reads %q", got.results)
			}
			if isUnread := strings.Contains(strings.Join(got.unread, "\n"), "planner"); isUnread != tt.isUnread {
				t.Errorf("unread: %q", got.unread)
			}
			if !strings.Contains(got.notices, "planner") {
				t.Errorf("people are told %q", got.notices)
			}
			if !f.hears("planner: builder waits for a.txt") {
				t.Errorf("the hub wrote %q, want a message to the holder", f.messages)
			}

			// When the holder has committed the file, the agent that waits is told.
			f.commit("a.txt")
			if err := f.service.Sweep(t.Context()); err != nil {
				t.Fatal(err)
			}
			if !f.hears("builder: a.txt is free") {
				t.Errorf("the hub wrote %q, want a message that the file is free", f.messages)
			}
		})
	}
}

func TestAllowedEdits(t *testing.T) {
	for name, agent := range map[string]func(t *testing.T) program{
		"good agent":  func(t *testing.T) program { return good(t, func(*goodagent.Traits) {}) },
		"plain agent": func(*testing.T) program { return plainagent.Serve },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFolder(t)
			f.holder()
			got := f.turn(agent(t), acp.Options{Policy: sandbox.PolicyWrite}, acpguard.Options{}, "parley:write path=b.txt text=mine")
			if f.read("b.txt") != "mine" || len(got.unread) > 0 || got.notices != "" {
				t.Errorf("b.txt has %q; unread %q, notices %q", f.read("b.txt"), got.unread, got.notices)
			}

			// The edit has reserved the file.
			a, err := f.asker("planner")(t.Context(), reservation.Question{Tree: f.dir, Paths: []string{"b.txt"}, Kind: reservation.Edit})
			if err != nil || a.Decision != reservation.Deny || a.Denied[0].Holder != "builder" {
				t.Errorf("got %+v, %v, want a denial", a, err)
			}
		})
	}
}

// TestViolations has agents change a file of another agent without asking.
func TestViolations(t *testing.T) {
	never := func(h *goodagent.Traits) { h.NeverAsk = true }
	silent := func(h *goodagent.Traits) { h.NeverAsk, h.QuietTools = true, true }
	const hidden = `awk 'BEGIN { print "mine" > "a.txt" }'` // the text of the command does not show the file
	for _, tt := range []struct {
		name   string
		habits func(*goodagent.Traits)
		prompt string
	}{
		{"an edit that is reported afterwards", never, "parley:write path=a.txt text=mine"},
		{"a command that names the file", never, "parley:shell command='echo mine > a.txt'"},
		{"a command that does not name the file", never, fmt.Sprintf("parley:shell command=%q", hidden)},
		{"an edit that is not reported", silent, "parley:write path=a.txt text=mine"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFolder(t)
			f.holder()
			got := f.turn(good(t, tt.habits), acp.Options{}, acpguard.Options{}, tt.prompt)
			if !strings.HasPrefix(f.read("a.txt"), "mine") {
				t.Fatalf("a.txt has %q, want that of the agent; it reads %q", f.read("a.txt"), got.results)
			}
			told := slices.ContainsFunc(got.unread, func(text string) bool { return strings.Contains(text, "which planner holds") })
			if !told || !f.hears("operator: ") {
				t.Errorf("unread %q, the hub wrote %q; want a violation", got.unread, f.messages)
			}
			n := 0
			for _, m := range f.messages {
				if strings.Contains(m, "which planner holds") {
					n++
				}
			}
			if n != 1 {
				t.Errorf("the operator is told %d times: %q", n, f.messages)
			}

			// The holder is told when its next turn begins.
			g := acpguard.New(f.dir, f.asker("planner"), acpguard.Options{})
			g.Begin(t.Context())
			if unread := strings.Join(g.Unread(), "\n"); !strings.Contains(unread, "builder") || len(g.Unread()) > 0 {
				t.Errorf("the holder is told %q", unread)
			}
		})
	}
}

// TestPeopleAreNotBlamed has a person change a file that an agent holds while another agent
// works, and reports its work.
func TestPeopleAreNotBlamed(t *testing.T) {
	f := newFolder(t)
	f.holder()
	f.during = func() { f.write("a.txt", "of a person\n") }
	agent := good(t, func(h *goodagent.Traits) { h.NeverAsk = true })
	got := f.turn(agent, acp.Options{Policy: sandbox.PolicyWrite}, acpguard.Options{}, "parley:write path=b.txt text=mine")
	if len(got.unread) > 0 {
		t.Errorf("the agent is told %q", got.unread)
	}
}

func TestSilence(t *testing.T) {
	change := acp.Change{Paths: []string{"/w/a.txt"}, Dir: "/w"}
	never := func(ctx context.Context, _ reservation.Question) (reservation.Answer, error) {
		<-ctx.Done()
		return reservation.Answer{}, ctx.Err()
	}
	failing := func(code hub.Code) acpguard.Ask {
		return func(context.Context, reservation.Question) (reservation.Answer, error) {
			return reservation.Answer{}, hub.Errorf(code, "test", "no")
		}
	}
	for _, tt := range []struct {
		name   string
		ask    acpguard.Ask
		deny   bool
		denied bool
		told   int
	}{
		{"without an answer a change is allowed", never, false, false, 1},
		{"unless the repository denies it", never, true, true, 2},
		{"a hub that fails gives no answer", failing(hub.CodeOverloaded), true, true, 2},
		{"files that the hub does not guard are changed", failing(hub.CodeOutsideRoots), true, false, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				told := 0
				g := acpguard.New("/w", tt.ask, acpguard.Options{DenyUnanswered: tt.deny, Notice: func(string) { told++ }})
				refusal := g.Before(t.Context(), change)
				if (refusal != "") != tt.denied {
					t.Errorf("got %q, want a refusal: %v", refusal, tt.denied)
				}
				g.After(t.Context(), change)
				if told != tt.told {
					t.Errorf("people are told %d times, want %d", told, tt.told)
				}
			})
		})
	}
}

// TestQuestions has changes of files in several working trees.
func TestQuestions(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	work := filepath.Join(dir, "work")
	for _, folder := range []string{"work/.git", "work/sub", "work/linked", "other"} {
		if err := os.MkdirAll(filepath.Join(dir, folder), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(work, "linked", ".git"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(dir, "other"), filepath.Join(work, "away")); err != nil {
		t.Skip(err)
	}

	var asked []string
	g := acpguard.New(work, func(_ context.Context, q reservation.Question) (reservation.Answer, error) {
		for i, p := range q.Paths {
			q.Paths[i], _ = filepath.Rel(dir, p)
		}
		tree, _ := filepath.Rel(dir, q.Tree)
		asked = append(asked, fmt.Sprintf("%s in %s: %s%s", q.Kind, tree, strings.Join(q.Paths, " "), q.Command))
		return reservation.Answer{Decision: reservation.Allow}, nil
	}, acpguard.Options{})
	g.Before(t.Context(), acp.Change{Dir: work, Paths: []string{"a.go", filepath.Join(work, "sub/new/b.go"), "a.go", "linked/c.go", "../other/new/d.go", "away/e.go"}})
	g.After(t.Context(), acp.Change{Dir: "sub", Command: "make"})
	want := []string{
		"edit in work: work/a.go work/sub/new/b.go",
		"edit in work/linked: work/linked/c.go",
		"edit in other: other/new/d.go other/e.go",
		"after in work/sub: make",
	}
	if !slices.Equal(asked, want) {
		t.Errorf("got  %q\nwant %q", asked, want)
	}
}
