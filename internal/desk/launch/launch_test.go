package launch

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/desk/cli"
	"github.com/parley-agents/parley/internal/reach/wake"
)

// noProcess is the number of a process that does not run.
const noProcess = 1 << 30

func TestIdentities(t *testing.T) {
	home := t.TempDir()
	yes := true
	for i, one := range []Identity{
		{Agent: "claude-coral", CLI: "claude", Dir: "/a"},
		{Agent: "codex-fern", CLI: "codex", Dir: "/a", Made: true, Wake: &yes},
		{Agent: "claude-teal", CLI: "claude", Dir: "/b"},
	} {
		one.Last = hub.At(time.Unix(int64(i), 0))
		if err := one.Save(home); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(home, Dir, "broken.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}

	var got []string
	for _, i := range Identities(home) {
		got = append(got, string(i.Agent))
	}
	if want := []string{"claude-teal", "codex-fern", "claude-coral"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want the one used last first: %v", got, want)
	}
	if got, want := CLIs(home), []string{"claude", "codex"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := CLIs(t.TempDir()); got == nil || len(got) != 0 {
		t.Errorf("a home without launches: %v, want an empty list", got)
	}
}

func TestRecall(t *testing.T) {
	yes := true
	known := []Identity{
		{Agent: "runs", CLI: "claude", Dir: "/a", Process: os.Getpid()},
		{Agent: "ended", CLI: "claude", Dir: "/a", Process: noProcess, Made: true, Wake: &yes},
	}
	claude := cli.CLI{Name: "claude"}
	for _, tt := range []struct {
		name   string
		launch Launch
		want   hub.AgentID
	}{
		{"a new agent", Launch{CLI: claude, Dir: "/a"}, ""},
		{"the name of an agent", Launch{CLI: claude, Dir: "/a", As: "runs"}, "runs"},
		{"the last agent of the folder that does not run", Launch{CLI: claude, Dir: "/a", Resume: true}, "ended"},
		{"no agent of another folder", Launch{CLI: claude, Dir: "/b", Resume: true}, ""},
		{"no agent of another CLI", Launch{CLI: cli.CLI{Name: "codex"}, Dir: "/a", Resume: true}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := tt.launch
			l.identity.Agent = l.As
			l.recall(known)
			if l.identity.Agent != tt.want {
				t.Errorf("got %q, want %q", l.identity.Agent, tt.want)
			}
			if answered := l.identity.Wake != nil; answered != (tt.want == "ended") {
				t.Errorf("the answer of the user is taken over: %t", answered)
			}
		})
	}
}

func TestMeet(t *testing.T) {
	var notes []string
	l := Launch{Host: Host{Note: func(text string) { notes = append(notes, text) }}, As: "twin", Dir: "/a"}
	l.meet([]Identity{
		{Agent: "twin", Dir: "/a", Process: os.Getpid()},
		{Agent: "neighbour", Dir: "/a", Process: os.Getpid()},
		{Agent: "elsewhere", Dir: "/b", Process: os.Getpid()},
		{Agent: "ended", Dir: "/a", Process: noProcess},
		{Agent: "connected", Dir: "/a", Process: os.Getpid(), Connected: true},
	})
	if len(notes) != 1 || !strings.Contains(notes[0], "twin is also running in another window") {
		t.Errorf("got the notes %q", notes)
	}
	if !slices.Equal(l.neighbours, []string{"neighbour"}) {
		t.Errorf("got the neighbours %v", l.neighbours)
	}
}

func TestProgramOf(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cli")
	if got := programOf(path); got != path {
		t.Errorf("a program that is not there: %s", got)
	}
	if err := os.WriteFile(path, []byte("one"), 0o700); err != nil {
		t.Fatal(err)
	}
	before := programOf(path)
	if before != programOf(path) {
		t.Error("the same program has two names")
	}
	if err := os.WriteFile(path, []byte("another"), 0o700); err != nil {
		t.Fatal(err)
	}
	if programOf(path) == before {
		t.Error("a program that was installed anew has the name of the one before")
	}
}

func TestOneWaiter(t *testing.T) {
	w := &Waiter{Home: t.TempDir(), key: wake.Key{CLI: "claude", ID: "s1", Process: 7}}
	if w.waits() || Waits(w.Home) {
		t.Error("a session without a waiter has one")
	}
	unlock, ok := w.lock()
	if !ok {
		t.Fatal("the first waiter did not get the session")
	}
	if _, again := w.lock(); again || !w.waits() || !Waits(w.Home) {
		t.Error("a second waiter got the session")
	}
	other := &Waiter{Home: w.Home, key: wake.Key{CLI: "claude", ID: "s2", Process: 7}}
	if other.waits() {
		t.Error("the waiter of one session counts for another")
	}
	unlock()

	if err := os.WriteFile(w.lockFile(), []byte(strconv.Itoa(noProcess)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if unlock, ok = w.lock(); !ok {
		t.Fatal("the file of a waiter that ended was not replaced")
	}
	unlock()
}

func TestLinesAfter(t *testing.T) {
	path := filepath.Join(t.TempDir(), "transcript")
	if lines, next := linesAfter(path, 5); lines != nil || next != 5 {
		t.Errorf("a file that is not there: %q, %d", lines, next)
	}
	if err := os.WriteFile(path, []byte("one\ntwo\nthr"), 0o600); err != nil {
		t.Fatal(err)
	}
	lines, next := linesAfter(path, 4)
	if len(lines) != 2 || string(lines[0]) != "two" || next != 8 {
		t.Errorf("got %q, %d, want the whole line and the place behind it", lines, next)
	}
	if sizeOf(path) != 11 || sizeOf(path+"x") != 0 {
		t.Error("the size is wrong")
	}
}

func TestReported(t *testing.T) {
	for _, tt := range []struct {
		event cli.Event
		in    cli.Input
		want  wake.Event
	}{
		{cli.Start, cli.Input{}, wake.EventStart},
		{cli.Prompt, cli.Input{}, wake.EventPrompt},
		{cli.Prompt, cli.Input{Goes: true}, wake.EventTool},
		{cli.Failed, cli.Input{}, wake.EventTurnEnd},
	} {
		if got := reported(cli.Hook{Event: tt.event}, tt.in); got != tt.want {
			t.Errorf("%s %+v: %s, want %s", tt.event, tt.in, got, tt.want)
		}
	}
}

func TestReport(t *testing.T) {
	w := &Waiter{CLI: cli.CLI{Name: "x"}, launch: cli.Launch{Process: 7, Attended: true}}
	w.CLI.Leaves = true
	in := cli.Input{Wakes: slices.Repeat([]string{"w_000000000001"}, 30)}
	got := w.report(cli.Hook{Event: cli.Prompt}, in)
	if len(got.Wakes) != maxWakes || !got.Only || got.Quiet || !*got.Attended {
		t.Errorf("got %+v", got)
	}
	if got := w.report(cli.Hook{Event: cli.End}, in); got.Only || !got.Quiet {
		t.Errorf("got %+v", got)
	}
}

func TestHookWithoutHub(t *testing.T) {
	t.Setenv(Variable, "")
	w := &Waiter{CLI: cli.CLI{Name: "x"}}
	if out := w.Hook(t.Context(), "NoSuchHook", strings.NewReader("{}")); out != nil {
		t.Errorf("a hook that is not known: %s", out)
	}
	claude, err := cli.Lookup("claude")
	if err != nil {
		t.Fatal(err)
	}
	w = &Waiter{CLI: claude, Process: 7, Home: t.TempDir()}
	for _, input := range []string{"", "no JSON", "{}"} {
		if out := w.Hook(t.Context(), "SessionStart", strings.NewReader(input)); out != nil {
			t.Errorf("%q: %s", input, out)
		}
	}
}

func TestReadInputEndsWithItsContext(t *testing.T) {
	in, held := io.Pipe()
	defer held.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := ReadInput(ctx, in); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want the end of the context", err)
	}
}

func TestLastLines(t *testing.T) {
	if got := lastLines("one\ntwo\nthree\nfour\n\n"); got != "two; three; four" {
		t.Errorf("got %s", got)
	}
}
