package main

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/parley-agents/parley/internal/testing/acptest"
)

// typedExit is the exit code that a page announces behind a command.
var typedExit = regexp.MustCompile(`# exit code ([0-9]+)`)

// The parts of the output that count: what later commands name, and the aim of a page.
var (
	typedKey   = regexp.MustCompile(`(?m)^key: (\S+)`)
	typedName  = regexp.MustCompile(`(?m)^added (\S+) `)
	typedProof = regexp.MustCompile(`(?m)verified +T-1|^h1 verified: `)
)

// typedCommands returns the commands that a reader of a page types: the lines
// of its code blocks that begin with "$ ", with their continuations. Every block is
// checked: one without such a line must be JSON, or hold targets of make and the path of the program that they build.
func typedCommands(t *testing.T, page string) []string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("..", "..", filepath.FromSlash(page)))
	if err != nil {
		t.Fatal(err)
	}
	var commands []string
	for i, part := range strings.Split(string(raw), "\n```") {
		if i%2 == 0 { // text between two blocks
			continue
		}
		language, block, _ := strings.Cut(part, "\n")
		before, more := len(commands), false
		for line := range strings.SplitSeq(block, "\n") {
			if command, typed := strings.CutPrefix(line, "$ "); typed {
				commands = append(commands, command)
			} else if more {
				commands[len(commands)-1] += "\n" + line
			}
			more = strings.HasSuffix(line, `\`)
		}
		switch {
		case len(commands) > before:
		case language == "json":
			if !json.Valid([]byte(block)) {
				t.Errorf("%s has JSON that is none:\n%s", page, block)
			}
		default:
			for line := range strings.SplitSeq(block, "\n") {
				if strings.HasPrefix(line, `export PATH="$PWD/bin:$PATH"`) { // TestMakeRun types it
					continue
				}
				target, isMake := strings.CutPrefix(line, "make ")
				if target, _, _ = strings.Cut(target, " "); !isMake || makes(t, target) == "" {
					t.Errorf("this line of %s is neither a command nor a target of make: %s", page, line)
				}
			}
		}
	}
	return commands
}

// makes returns the commands that make runs for a target.
func makes(t *testing.T, target string) string {
	t.Helper()
	cmd := exec.Command("make", "--no-print-directory", "-n", target)
	cmd.Dir = filepath.Join("..", "..")
	cmd.Env = slices.DeleteFunc(os.Environ(), func(e string) bool { // this test may run under make itself
		return strings.HasPrefix(e, "MAKEFLAGS=") || strings.HasPrefix(e, "MFLAGS=") || strings.HasPrefix(e, "MAKELEVEL=")
	})
	r := do(t, cmd)
	if r.code != 0 {
		t.Fatalf("make -n %s: %s", target, r.err)
	}
	return r.out
}

func TestVersionIsThatOfTheRepository(t *testing.T) {
	describe := exec.Command("git", "describe", "--tags", "--always", "--dirty")
	describe.Dir = filepath.Join("..", "..")
	want := "main.release=" + strings.TrimSpace(do(t, describe).out) + `"`
	if got := makes(t, "build"); !strings.Contains(got, want) {
		t.Errorf("make build runs %s, want %s in it", got, want)
	}
	if got := do(t, parley(t, nil, "--version")); got.code != 0 || got.out != "parley "+version()+"\n" {
		t.Errorf("--version: exit %d, %q", got.code, got.out)
	}
}

// TestPages types every command of the pages for newcomers at a terminal, in order, as a person who has installed the program. A line with parley serve starts
// a hub, which is stopped before the next one.
func TestPages(t *testing.T) {
	for page, want := range map[string]struct {
		agents int
		proven bool
	}{
		"README.md":                     {agents: 2, proven: true},
		"docs/first-hour.md":            {agents: 2, proven: true},
		"docs/for-two-agents.md":        {},
		"docs/for-team-leads.md":        {agents: 2},
		"docs/for-many-repositories.md": {},
	} {
		t.Run(page, func(t *testing.T) {
			if agents, proven := typePage(t, page); agents != want.agents || proven != want.proven {
				t.Errorf("it adds %d agents, and leads to a proven handoff: %t; want %+v", agents, proven, want)
			}
		})
	}
}

// typePage returns how many agents the page adds, and whether a handoff is proven.
func typePage(t *testing.T, page string) (agents int, proven bool) {
	t.Helper()
	home, installed := t.TempDir(), t.TempDir()
	folder := filepath.Join(home, "work")
	os.Chmod(home, 0o700)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, script := range map[string]string{
		"parley": fmt.Sprintf("#!/bin/sh\n%s=1 exec %q \"$@\"\n", asParley, self),
		// The agents do nothing here: connect only looks whether they are there.
		"claude": "#!/bin/sh\n",
		"codex":  "#!/bin/sh\n",
	} {
		if err := os.WriteFile(filepath.Join(installed, name), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	commands := typedCommands(t, page)
	env := []string{"HOME=" + home, "PATH=" + installed + ":" + os.Getenv("PATH"), "TERM=dumb", "NO_COLOR=1", "GORACE=atexit_sleep_ms=0", "PARLEY_ADDR=127.0.0.1:0"}
	shell := func(command string) *exec.Cmd {
		cmd := exec.Command("bash", "-c", command)
		cmd.Dir, cmd.Env = folder, env
		return cmd
	}
	var hub *job
	defer func() {
		if hub != nil {
			hub.signal(t, syscall.SIGTERM)
		}
	}()
	keys := map[string]string{}
	film := &recording{home: home}
	if slices.ContainsFunc(commands, func(c string) bool { return strings.Contains(c, "$DOWNLOAD") }) {
		env = append(env, "DOWNLOAD="+newInstallerMirror(t).url)
	}
	for _, typed := range commands {
		command := strings.TrimSuffix(typed, " &")
		film.types(typed)
		for name, key := range keys {
			command = strings.ReplaceAll(command, "<"+name+"'s key>", key)
		}
		if strings.HasPrefix(command, "export ") {
			env = strings.Split(strings.TrimSpace(do(t, shell(command+"; env")).out), "\n")
			continue
		}
		command, dir, changes := cutFolder(command)
		if changes && command == "" {
			folder = filepath.Join(folder, dir)
			continue
		}
		if strings.HasPrefix(command, "parley serve") {
			hub = spawn(t, shell("exec "+command))
			film.prints(hub.stderr.await(t, "listening on ") + "\n")
			continue
		}
		person := sit(t, shell(command))
		asks := strings.HasPrefix(command, "parley hub folder add") && !strings.Contains(command, "--yes")
		if asks {
			person.types(t, "[y/N] ", "y\n")
		}
		code, screen := person.leaves(t)
		screen = strings.ReplaceAll(screen, "\r\n", "\n")
		film.prints(screen)
		want := "0"
		if m := typedExit.FindStringSubmatch(typed); m != nil {
			want = m[1]
		}
		if fmt.Sprint(code) != want {
			t.Fatalf("%s\nexit code %d, want %s\n%s", typed, code, want, screen)
		}
		if name, key := typedName.FindStringSubmatch(screen), typedKey.FindStringSubmatch(screen); name != nil && key != nil {
			keys[name[1]] = key[1]
		}
		folder = filepath.Join(folder, dir)
		proven = proven || typedProof.MatchString(screen)
		if command == "parley stop" {
			hub.wait(t)
			hub = nil
		}
	}
	if file := os.Getenv("PARLEY_RECORDING"); file != "" && page == "docs/first-hour.md" {
		if err := os.WriteFile(file, film.bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return len(keys), proven
}

// cutFolder splits a command into the part before "cd DIR", with which it ends, and DIR.
func cutFolder(command string) (before, dir string, found bool) {
	if dir, found = strings.CutPrefix(command, "cd "); found {
		return "", dir, true
	}
	before, dir, found = strings.Cut(command, " && cd ")
	return before, dir, found
}

// newInstallerMirror returns a mirror with one release of this program and its installer.
func newInstallerMirror(t *testing.T) *mirror {
	t.Helper()
	if _, err := exec.LookPath("curl"); err != nil {
		acptest.Missing(t, "MISSING: curl")
	}
	script, err := os.ReadFile(filepath.Join("..", "..", "packaging", "install.sh"))
	if err != nil {
		t.Fatal(err)
	}
	m := newMirror(t, "v1.0.0")
	m.write("v1.0.0", "install.sh", strings.ReplaceAll(string(script), "@DOWNLOAD@", m.url))
	return m
}

// A recording is one of a terminal, in the format asciicast 2. Its times are those of
// a reader, not of the machine: each character that is typed and each line that is printed
// takes the same time.
type recording struct {
	home   string // shown as /home/you
	at     float64
	events []byte
}

// The parts of the output that differ each time.
var (
	castKey  = regexp.MustCompile(`(cacp_sk_live_[\w-]{6})[\w-]+`)
	castPort = regexp.MustCompile(`(127\.0\.0\.1|localhost):[0-9]+`)
)

func (c *recording) add(pause float64, text string) {
	c.at += pause
	text = strings.ReplaceAll(text, c.home, "/home/you")
	text = castPort.ReplaceAllString(castKey.ReplaceAllString(text, "$1..."), "$1:7420")
	event, err := json.Marshal([]any{math.Round(c.at*1000) / 1000, "o", strings.ReplaceAll(text, "\n", "\r\n")})
	if err != nil {
		panic(err) // a number and two strings
	}
	c.events = append(append(c.events, event...), '\n')
}

func (c *recording) types(command string) {
	c.add(1, "$ ")
	for _, r := range command {
		c.add(0.03, string(r))
	}
	c.add(0.3, "\n")
}

func (c *recording) prints(screen string) {
	for line := range strings.Lines(screen) {
		c.add(0.15, line)
	}
}

func (c *recording) bytes() []byte {
	return append([]byte(`{"version":2,"width":132,"height":32,"title":"Parley: the first hour"}`+"\n"), c.events...)
}
