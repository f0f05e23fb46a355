//go:build unix

package sandbox_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/parley-agents/parley/protocol/sandbox"
)

func terminals(t *testing.T, opts *sandbox.TerminalOptions, dirs ...string) *sandbox.Terminals {
	t.Helper()
	if len(dirs) == 0 {
		dirs = []string{folder(t)}
	}
	terms := sandbox.NewTerminals(open(t, dirs...), opts)
	t.Cleanup(func() { must(t, terms.Close()) })
	return terms
}

func create(t *testing.T, terms *sandbox.Terminals, c sandbox.Command) string {
	t.Helper()
	id, err := terms.Create(t.Context(), c)
	must(t, err)
	return id
}

// run runs c to its end.
func run(t *testing.T, terms *sandbox.Terminals, c sandbox.Command) sandbox.Output {
	t.Helper()
	id := create(t, terms, c)
	exit, err := terms.Wait(t.Context(), id)
	must(t, err)
	out, err := terms.Output(t.Context(), id)
	must(t, err)
	if out.Exit == nil || *out.Exit != exit {
		t.Errorf("exit in the output: got %v, want %v", out.Exit, exit)
	}
	must(t, terms.Release(t.Context(), id))
	return out
}

func TestCommands(t *testing.T) {
	root, second, outside := maze(t)
	put(t, root+"/sub/tool", "#!/bin/sh\necho tool \"$@\"\n")
	must(t, os.Chmod(root+"/sub/tool", 0o755))
	put(t, root+"/sub/with space", "#!/bin/sh\necho spaced\n")
	must(t, os.Chmod(root+"/sub/with space", 0o755))
	t.Setenv("SOME_API_KEY", "hush")
	terms := terminals(t, nil, root, second)
	for _, tt := range []struct {
		name string
		c    sandbox.Command
		want string
		exit sandbox.Exit
	}{
		{"a program with arguments", sandbox.Command{Name: "printf", Args: []string{"%s-", "a b", "$HOME", "*"}}, "a b-$HOME-*-", sandbox.Exit{}},
		{"a program without arguments", sandbox.Command{Name: "pwd"}, root + "\n", sandbox.Exit{}},
		{"a program by its path", sandbox.Command{Name: root + "/sub/tool", Args: []string{"x"}}, "tool x\n", sandbox.Exit{}},
		{"a program relative to its folder", sandbox.Command{Name: "./tool", Dir: root + "/sub"}, "tool\n", sandbox.Exit{}},
		{"a program in a PATH of its own", sandbox.Command{Name: "tool", Env: map[string]string{"PATH": root + "/sub:/usr/bin:/bin"}}, "tool\n", sandbox.Exit{}},
		{"a program with a space in its name", sandbox.Command{Name: root + "/sub/with space"}, "spaced\n", sandbox.Exit{}},
		{"a shell line", sandbox.Command{Name: "echo one two"}, "one two\n", sandbox.Exit{}},
		{"a shell line with everything", sandbox.Command{Name: `X="a  b"; for i in 1 2; do echo "$X" | tr a-z A-Z; done && exit 7`}, "A  B\nA  B\n", sandbox.Exit{Code: 7}},
		{"a shell line with a line end", sandbox.Command{Name: "echo one\necho two"}, "one\ntwo\n", sandbox.Exit{}},
		{"a shell line that is wrong", sandbox.Command{Name: "exit 3 # 'x"}, "", sandbox.Exit{Code: 3}},
		{"a long shell line", sandbox.Command{Name: "printf " + strings.Repeat("x", 100_000)}, strings.Repeat("x", 100_000), sandbox.Exit{}},
		{"both outputs in order", sandbox.Command{Name: "echo 1; echo 2 >&2; echo 3"}, "1\n2\n3\n", sandbox.Exit{}},
		{"there is no input", sandbox.Command{Name: "cat; echo end"}, "end\n", sandbox.Exit{}},
		{"a variable is added", sandbox.Command{Name: "echo $A; test -n \"$PATH\"", Env: map[string]string{"A": "x=y z"}}, "x=y z\n", sandbox.Exit{}},
		{"R4-069 other variables of this process are not there", sandbox.Command{Name: "echo [$SOME_API_KEY]"}, "[]\n", sandbox.Exit{}},
		{"R4-069 a command starts in the first root", sandbox.Command{Name: "echo $PWD; pwd -P"}, root + "\n" + root + "\n", sandbox.Exit{}},
		{"a command starts in the folder given", sandbox.Command{Name: "pwd -P", Dir: second}, second + "\n", sandbox.Exit{}},
		{"a linked folder is followed", sandbox.Command{Name: "pwd", Dir: root + "/link-folder"}, root + "/sub\n", sandbox.Exit{}},
		{"a signal", sandbox.Command{Name: "kill -SEGV $$"}, "", sandbox.Exit{Signal: "SIGSEGV"}},
		{"output that is not text", sandbox.Command{Name: `printf 'a\377b'`}, "a\uFFFDb", sandbox.Exit{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			out := run(t, terms, tt.c)
			if out.Text != tt.want || *out.Exit != tt.exit || out.Truncated {
				t.Errorf("output: got %q, %+v, truncated %t, want %q, %+v", out.Text, *out.Exit, out.Truncated, tt.want, tt.exit)
			}
		})
	}
	for _, tt := range []struct {
		name string
		c    sandbox.Command
		want sandbox.Code
	}{
		{"no command", sandbox.Command{Name: " "}, sandbox.CodeInvalid},
		{"a program that is not there", sandbox.Command{Name: "no-such-program"}, sandbox.CodeNotFound},
		{"a path that is not there", sandbox.Command{Name: "./none"}, sandbox.CodeNotFound},
		{"a shell line with arguments", sandbox.Command{Name: "echo one", Args: []string{"two"}}, sandbox.CodeNotFound},
		{"a folder", sandbox.Command{Name: root}, sandbox.CodeNotFound},
		{"a file that is not a program", sandbox.Command{Name: root + "/a.txt"}, sandbox.CodePermission},
		{"an argument with a zero byte", sandbox.Command{Name: "echo", Args: []string{"\x00"}}, sandbox.CodeInvalid},
		{"a variable without a name", sandbox.Command{Name: "echo", Env: map[string]string{"": "x"}}, sandbox.CodeInvalid},
		{"a variable with a bad name", sandbox.Command{Name: "echo", Env: map[string]string{"A=B": "x"}}, sandbox.CodeInvalid},
		{"a variable with a zero byte", sandbox.Command{Name: "echo", Env: map[string]string{"A": "\x00"}}, sandbox.CodeInvalid},
		{"a negative limit", sandbox.Command{Name: "echo", OutputLimit: new(-1)}, sandbox.CodeInvalid},
		{"too much to pass on", sandbox.Command{Name: "echo", Args: slices.Repeat([]string{strings.Repeat("x", 100_000)}, 11)}, sandbox.CodeTooLarge},
		{"an argument that is too long", sandbox.Command{Name: "echo", Args: []string{strings.Repeat("x", 8<<20)}}, sandbox.CodeTooLarge},
		{"a line too long for the shell", sandbox.Command{Name: "echo " + strings.Repeat("x", 8<<20)}, sandbox.CodeTooLarge},
		{"R4-069 a folder outside", sandbox.Command{Name: "pwd", Dir: outside}, sandbox.CodeOutside},
		{"R4-069 a link to a folder outside", sandbox.Command{Name: "pwd", Dir: root + "/out-folder"}, sandbox.CodeOutside},
		{"R4-069 a relative folder", sandbox.Command{Name: "pwd", Dir: "sub"}, sandbox.CodeInvalid},
		{"a file in place of a folder", sandbox.Command{Name: "pwd", Dir: root + "/a.txt"}, sandbox.CodeInvalid},
		{"a folder that is not there", sandbox.Command{Name: "pwd", Dir: root + "/none"}, sandbox.CodeNotFound},
	} {
		t.Run(tt.name+" is refused", func(t *testing.T) {
			id, err := terms.Create(t.Context(), tt.c)
			wantCode(t, err, tt.want)
			if id != "" {
				t.Errorf("terminal: got %q, want none", id)
			}
			if err != nil && len(err.Error()) > 4<<10 {
				t.Errorf("message: got %d bytes, want that it is bounded", len(err.Error()))
			}
		})
	}
	t.Run("a command whose context has ended is not started", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := terms.Create(ctx, sandbox.Command{Name: "touch started"})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("error: got %v, want %v", err, context.Canceled)
		}
	})
	t.Run("the variables that every command gets can be set", func(t *testing.T) {
		terms := terminals(t, &sandbox.TerminalOptions{Env: []string{"PATH=/usr/bin:/bin", "A=a", "B=b"}})
		out := run(t, terms, sandbox.Command{Name: "echo $A$B$HOME", Env: map[string]string{"B": "c"}})
		if want := "ac\n"; out.Text != want {
			t.Errorf("output: got %q, want %q", out.Text, want)
		}
	})
}

func TestOutputLimit(t *testing.T) {
	terms := terminals(t, &sandbox.TerminalOptions{MaxOutput: 8})
	for _, tt := range []struct {
		name      string
		limit     *int
		line      string
		want      string
		truncated bool
	}{
		{"the end is kept", new(4), "printf abcdef", "cdef", true},
		{"what fits is whole", new(6), "printf abcdef", "abcdef", false},
		{"the cut is between characters", new(4), "printf aéö1", "ö1", true},
		{"nothing is kept under a limit of 0", new(0), "printf a", "", true},
		{"without a limit the most is kept", nil, "printf 0123456789", "23456789", true},
		{"a limit above the most is the most", new(100), "printf 0123456789", "23456789", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			out := run(t, terms, sandbox.Command{Name: tt.line, OutputLimit: tt.limit})
			if out.Text != tt.want || out.Truncated != tt.truncated {
				t.Errorf("output: got %q, truncated %t, want %q, %t", out.Text, out.Truncated, tt.want, tt.truncated)
			}
		})
	}
}

func TestFlood(t *testing.T) {
	const limit = 1<<20 - 1 // cuts a character
	terms := terminals(t, nil)
	c := newWitness(t).command(t, "flood")
	c.OutputLimit = new(limit)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	out := run(t, terms, c)
	runtime.ReadMemStats(&after)
	if !strings.HasSuffix(out.Text, "é.\nthe end") || len(out.Text) > limit || len(out.Text) < limit-utf8.UTFMax || !utf8.ValidString(out.Text) || !out.Truncated {
		t.Errorf("output: got %d bytes, truncated %t, want the last %d of %d", len(out.Text), out.Truncated, limit, flooded)
	}
	if got, want := after.TotalAlloc-before.TotalAlloc, uint64(16<<20); got > want {
		t.Errorf("memory taken for %d bytes of output: got %d, want at most %d", flooded, got, want)
	}
}

func TestKillKeepsTheTerminal(t *testing.T) {
	for role, want := range map[string]string{"stay": "SIGTERM", "stubborn": "SIGKILL", "crowd": "SIGTERM"} {
		t.Run(role+" ends with "+want, func(t *testing.T) {
			processes := 1
			if role == "crowd" {
				processes = 2
			}
			terms := terminals(t, &sandbox.TerminalOptions{Grace: 50 * time.Millisecond})
			if want == "SIGTERM" {
				terms = terminals(t, &sandbox.TerminalOptions{Grace: time.Hour})
			}
			w := newWitness(t)
			id := create(t, terms, w.command(t, role))
			w.here(t, processes)
			out, err := terms.Output(t.Context(), id)
			if err != nil || out.Exit != nil {
				t.Errorf("exit while it runs: got %v (%v), want none", out.Exit, err)
			}
			must(t, terms.Kill(t.Context(), id))
			w.gone(t)
			must(t, terms.Kill(t.Context(), id)) // again is fine
			exit, err := terms.Wait(t.Context(), id)
			if err != nil || exit != (sandbox.Exit{Signal: want}) {
				t.Errorf("exit: got %+v (%v), want %s", exit, err, want)
			}
			out, err = terms.Output(t.Context(), id)
			if err != nil || out.Exit == nil || *out.Exit != exit {
				t.Errorf("exit in the output: got %v (%v), want %v", out.Exit, err, exit)
			}
			must(t, terms.Release(t.Context(), id))
		})
	}
	t.Run("a command that has ended keeps its exit", func(t *testing.T) {
		terms := terminals(t, nil)
		id := create(t, terms, sandbox.Command{Name: "exit 5"})
		want, err := terms.Wait(t.Context(), id)
		must(t, err)
		must(t, terms.Kill(t.Context(), id))
		if got, err := terms.Wait(t.Context(), id); err != nil || got != want || got.Code != 5 {
			t.Errorf("exit: got %+v (%v), want code 5", got, err)
		}
	})
}

func TestRelease(t *testing.T) {
	terms := terminals(t, nil)
	w := newWitness(t)
	id := create(t, terms, w.command(t, "crowd"))
	w.here(t, 2)
	type result struct {
		exit sandbox.Exit
		err  error
	}
	waiting, waited := make(chan struct{}), make(chan result)
	go func() {
		close(waiting)
		exit, err := terms.Wait(context.Background(), id)
		waited <- result{exit, err}
	}()
	<-waiting
	must(t, terms.Release(t.Context(), id))
	t.Run("what runs is ended", func(t *testing.T) { w.gone(t) })
	t.Run("who waits is told", func(t *testing.T) {
		// The wait may also have begun after the release.
		if got := <-waited; got.exit.Signal != "SIGTERM" && sandbox.CodeOf(got.err) != sandbox.CodeNotFound {
			t.Errorf("wait: got %+v, want SIGTERM", got)
		}
	})
	for name, call := range calls(terms) {
		t.Run("the id means nothing to "+name, func(t *testing.T) {
			wantCode(t, call(t.Context(), id), sandbox.CodeNotFound)
			wantCode(t, call(t.Context(), strings.Repeat("x", 1<<20)), sandbox.CodeNotFound)
		})
	}
}

// calls returns what can be done with a terminal.
func calls(terms *sandbox.Terminals) map[string]func(ctx context.Context, id string) error {
	return map[string]func(ctx context.Context, id string) error{
		"Output":  func(ctx context.Context, id string) error { _, err := terms.Output(ctx, id); return err },
		"Wait":    func(ctx context.Context, id string) error { _, err := terms.Wait(ctx, id); return err },
		"Kill":    terms.Kill,
		"Release": terms.Release,
	}
}

func TestCallsEndWithTheirContext(t *testing.T) {
	terms := terminals(t, &sandbox.TerminalOptions{Grace: 50 * time.Millisecond})
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for name, call := range calls(terms) {
		t.Run(name, func(t *testing.T) {
			w := newWitness(t)
			id := create(t, terms, w.command(t, "stubborn"))
			w.here(t, 1)
			if err := call(ended, id); !errors.Is(err, context.Canceled) {
				t.Errorf("error: got %v, want %v", err, context.Canceled)
			}
			if name == "Kill" || name == "Release" {
				w.gone(t) // what was begun is done
			}
		})
	}
}

func TestWhatACommandLeavesBehind(t *testing.T) {
	t.Run("ends with it", func(t *testing.T) {
		terms := terminals(t, &sandbox.TerminalOptions{Grace: time.Hour})
		w := newWitness(t)
		id := create(t, terms, w.command(t, "leave behind"))
		w.here(t, 1)
		exit, err := terms.Wait(t.Context(), id)
		if err != nil || exit != (sandbox.Exit{}) {
			t.Errorf("exit: got %+v (%v), want code 0", exit, err)
		}
		w.gone(t)
		if out, err := terms.Output(t.Context(), id); err != nil || out.Text != "left" {
			t.Errorf("output: got %q (%v), want %q", out.Text, err, "left")
		}
	})
	t.Run("cannot keep the terminal by holding its output", func(t *testing.T) {
		terms := terminals(t, &sandbox.TerminalOptions{Grace: 500 * time.Millisecond})
		w := newWitness(t)
		id := create(t, terms, w.command(t, "escape"))
		w.here(t, 1)
		exit, err := terms.Wait(t.Context(), id)
		if err != nil || exit != (sandbox.Exit{}) {
			t.Errorf("exit: got %+v (%v), want code 0", exit, err)
		}
		if out, err := terms.Output(t.Context(), id); err != nil || out.Text != "escaped" {
			t.Errorf("output: got %q (%v), want %q", out.Text, err, "escaped")
		}
		must(t, terms.Close())
		must(t, w.leash.Close())
		w.gone(t)
	})
}

func TestMaxTerminals(t *testing.T) {
	terms := terminals(t, &sandbox.TerminalOptions{MaxTerminals: 2})
	sleep := sandbox.Command{Name: "sleep", Args: []string{"1000"}}
	first := create(t, terms, sleep)
	second := create(t, terms, sandbox.Command{Name: "true"})
	_, err := terms.Wait(t.Context(), second)
	must(t, err)
	t.Run("one more is refused", func(t *testing.T) {
		_, err := terms.Create(t.Context(), sleep)
		wantCode(t, err, sandbox.CodeLimit)
	})
	t.Run("a killed one still counts", func(t *testing.T) {
		must(t, terms.Kill(t.Context(), first))
		_, err := terms.Create(t.Context(), sleep)
		wantCode(t, err, sandbox.CodeLimit)
	})
	t.Run("a released one does not, time and again", func(t *testing.T) {
		must(t, terms.Release(t.Context(), first))
		must(t, terms.Release(t.Context(), second))
		for range 20 {
			must(t, terms.Release(t.Context(), create(t, terms, sleep)))
		}
	})
	t.Run("what did not start does not count", func(t *testing.T) {
		dir := folder(t)
		terms := terminals(t, &sandbox.TerminalOptions{MaxTerminals: 2}, dir)
		put(t, dir+"/broken", "this is neither a script nor a program")
		must(t, os.Chmod(dir+"/broken", 0o755))
		for range 5 {
			_, err := terms.Create(t.Context(), sandbox.Command{Name: "./broken"})
			wantCode(t, err, sandbox.CodeFailed)
		}
		create(t, terms, sleep)
		create(t, terms, sleep)
	})
}

func TestClose(t *testing.T) {
	roots := open(t, folder(t))
	terms := sandbox.NewTerminals(roots, &sandbox.TerminalOptions{Grace: 50 * time.Millisecond})
	w := newWitness(t)
	var id string
	for _, role := range []string{"stay", "stubborn", "crowd", "crowd"} {
		id = create(t, terms, w.command(t, role))
	}
	w.here(t, 6)
	must(t, terms.Close())
	t.Run("no process is left", func(t *testing.T) { w.gone(t) })
	t.Run("no goroutine is left", noGoroutine)
	t.Run("nothing can be created", func(t *testing.T) {
		_, err := terms.Create(t.Context(), sandbox.Command{Name: "true"})
		wantCode(t, err, sandbox.CodeClosed)
	})
	for name, call := range calls(terms) {
		t.Run("nothing can be done: "+name, func(t *testing.T) { wantCode(t, call(t.Context(), id), sandbox.CodeClosed) })
	}
	t.Run("closing again is fine", func(t *testing.T) { must(t, terms.Close()) })
}

// noGoroutine waits until the package runs none. Close returns when they have
// nothing left to do, which is a moment before they are gone. If one stays, the
// test ends by its time limit and shows where that one is.
func noGoroutine(*testing.T) {
	stack := make([]byte, 1<<20)
	for {
		all := string(stack[:runtime.Stack(stack, true)])
		if !strings.Contains(all, "sandbox.(*terminal)") && !strings.Contains(all, "sandbox.(*Terminals)") {
			return
		}
		runtime.Gosched()
	}
}

func TestCloseWhileCreating(t *testing.T) {
	for range 10 {
		terms := terminals(t, nil)
		var creators, created sync.WaitGroup
		for range 4 {
			created.Add(1)
			first := sync.OnceFunc(created.Done)
			creators.Go(func() {
				defer first()
				for {
					id, err := terms.Create(context.Background(), sandbox.Command{Name: "sleep", Args: []string{"1000"}})
					if code := sandbox.CodeOf(err); code == sandbox.CodeClosed {
						return
					} else if err != nil {
						t.Errorf("create: got %v, want a terminal or %s", err, sandbox.CodeClosed)
						return
					}
					first()
					terms.Release(context.Background(), id)
				}
			})
		}
		created.Wait()
		must(t, terms.Close())
		creators.Wait()
		must(t, terms.Close())
	}
	noGoroutine(t)
}

func TestOutputWhileItRuns(t *testing.T) {
	dir := folder(t)
	terms := terminals(t, nil, dir)
	go1, go2 := filepath.Join(dir, "go1"), filepath.Join(dir, "go2")
	must(t, syscall.Mkfifo(go1, 0o600))
	must(t, syscall.Mkfifo(go2, 0o600))
	// The line writes half a character, says so, and waits to write the rest.
	id := create(t, terms, sandbox.Command{Name: `printf 'a\303'; echo > go1; read x < go2; printf '\251'`})
	_, err := os.ReadFile(go1)
	must(t, err)
	for {
		out, err := terms.Output(t.Context(), id)
		must(t, err)
		if out.Exit != nil || out.Text != "" && out.Text != "a" {
			t.Fatalf("output: got %+v, want only whole characters of a running command", out)
		}
		if out.Text == "a" {
			break
		}
		runtime.Gosched()
	}
	must(t, os.WriteFile(go2, []byte("\n"), 0))
	_, err = terms.Wait(t.Context(), id)
	must(t, err)
	if out, err := terms.Output(t.Context(), id); err != nil || out.Text != "aé" {
		t.Errorf("output: got %q (%v), want %q", out.Text, err, "aé")
	}
}
