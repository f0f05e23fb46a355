package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"github.com/parley-agents/parley/internal/testing/hostiletest"
)

// openPTY returns both ends of a new terminal.
func openPTY(t *testing.T) (person, terminal *os.File) {
	t.Helper()
	person, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { person.Close() })
	var number, locked int32
	for _, call := range []struct {
		request uintptr
		value   *int32
	}{{0x40045431, &locked}, {0x80045430, &number}} { // TIOCSPTLCK, TIOCGPTN
		conn, err := person.SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		var errno syscall.Errno
		conn.Control(func(fd uintptr) {
			_, _, errno = syscall.Syscall(syscall.SYS_IOCTL, fd, call.request, uintptr(unsafe.Pointer(call.value)))
		})
		if errno != 0 {
			t.Fatal(errno)
		}
	}
	terminal, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { terminal.Close() })
	return person, terminal
}

// A seat is a command that somebody runs at a terminal.
type seat struct {
	cmd    *exec.Cmd
	person *os.File
	screen *lines
}

// sit starts a command at a terminal of its own.
func sit(t *testing.T, cmd *exec.Cmd) *seat {
	t.Helper()
	person, terminal := openPTY(t)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = terminal, terminal, terminal
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = new(syscall.SysProcAttr)
	}
	cmd.SysProcAttr.Setsid, cmd.SysProcAttr.Setctty = true, true
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	terminal.Close()
	s := &seat{cmd: cmd, person: person, screen: newLines()}
	go func() {
		// Not by lines: a question has no end of line.
		buf := make([]byte, 4096)
		for {
			n, err := person.Read(buf)
			if n > 0 {
				s.screen.add(string(buf[:n]), false)
			}
			if err != nil {
				s.screen.add("", true)
				return
			}
		}
	}()
	t.Cleanup(func() { cmd.Process.Kill() }) // fails if it has ended, as it should have
	return s
}

// types waits for a question and answers it.
func (s *seat) types(t *testing.T, question, answer string) {
	t.Helper()
	s.screen.await(t, question)
	if _, err := s.person.WriteString(answer); err != nil {
		t.Fatal(err)
	}
}

// leaves waits for the end and returns the exit code and the whole screen.
func (s *seat) leaves(t *testing.T) (int, string) {
	t.Helper()
	s.cmd.Wait() // the exit code is looked at by the caller
	poll(t, "the end of the output", func() bool {
		s.screen.mu.Lock()
		defer s.screen.mu.Unlock()
		return s.screen.ended
	})
	s.screen.mu.Lock()
	defer s.screen.mu.Unlock()
	return s.cmd.ProcessState.ExitCode(), strings.Join(s.screen.all, "")
}

func TestTerminal(t *testing.T) {
	t.Run("a hub that starts at a terminal says what to type next", func(t *testing.T) {
		home := t.TempDir()
		s := sit(t, parley(t, nil, "serve", "--addr", "127.0.0.1:0", "--home", home))
		s.screen.await(t, "to stop the hub.")
		if r := do(t, parley(t, nil, "stop", "--home", home, "--as-operator")); r.code != 0 {
			t.Errorf("stop: exit %d: %s", r.code, r.err)
		}
		code, screen := s.leaves(t)
		if code != 0 {
			t.Errorf("the hub ended with %d", code)
		}
		contains(t, screen, " --home "+home+" connect claude --agent planner", " --home "+home+" agent add builder", " --home "+home+" root add .", " --home "+home+" stop")
	})
	t.Run("R3-121 the operator is asked before a gate opens or closes", func(t *testing.T) {
		h := newHouse(t)
		for _, verb := range []string{"approve", "deny"} {
			id := h.sent(h.as("builder", "send", "tester", "please "+verb, "--human-gate", "required", "--json"))
			isHeld := func() bool {
				var got listShape
				h.ok(h.operator("approve", "--json"), &got)
				return len(got.Messages) == 1 && got.Messages[0].ID == id
			}
			for _, answer := range []string{"n\n", "\n", "maybe\n", "\x04"} {
				s := sit(t, parley(t, h.env(""), verb, id))
				s.types(t, "[y/N] ", answer)
				code, screen := s.leaves(t)
				if code != 0 || !isHeld() {
					t.Fatalf("%s answered with %q: exit %d, held %v\n%s", verb, answer, code, isHeld(), screen)
				}
				contains(t, screen, "please "+verb, "from builder", "nothing was changed")
			}
			s := sit(t, parley(t, h.env(""), verb, id))
			s.types(t, "[y/N] ", "\x03")
			if code, screen := s.leaves(t); code != 130 || !isHeld() {
				t.Fatalf("%s answered with Ctrl-C: exit %d, held %v\n%s", verb, code, isHeld(), screen)
			}
			s = sit(t, parley(t, h.env(""), verb, id))
			s.types(t, "[y/N] ", "Yes\n")
			if code, screen := s.leaves(t); code != 0 || isHeld() {
				t.Fatalf("%s answered with yes: exit %d, held %v\n%s", verb, code, isHeld(), screen)
			}
		}
		got := h.as("tester", "inbox")
		contains(t, got.out, "please approve")
		if strings.Contains(got.out, "please deny") {
			t.Error("what was denied came through")
		}
	})
	t.Run("R3-121 --yes does not ask", func(t *testing.T) {
		h := newHouse(t)
		id := h.sent(h.as("builder", "send", "tester", "quick", "--human-gate", "required", "--json"))
		code, screen := sit(t, parley(t, h.env(""), "approve", id, "--yes")).leaves(t)
		if code != 0 || strings.Contains(screen, "[y/N]") {
			t.Errorf("exit %d: %s", code, screen)
		}
	})
	t.Run("R3-121 no gate is opened by an agent at a terminal", func(t *testing.T) {
		h := newHouse(t)
		id := h.sent(h.as("mallory", "send", "tester", "let me in", "--human-gate", "required", "--json"))
		s := sit(t, parley(t, h.env("mallory"), "approve", id))
		s.types(t, "[y/N] ", "y\n")
		if code, screen := s.leaves(t); code != 3 {
			t.Errorf("exit %d, want 3: %s", code, screen)
		}
		if got := h.as("tester", "inbox"); got.out != "No messages.\n" {
			t.Errorf("it came through: %s", got.out)
		}
	})
	t.Run("on a terminal the operator needs no flag, and there is colour", func(t *testing.T) {
		h := readersHouse(t)
		if code, screen := sit(t, parley(t, h.env(""), "agent", "list")).leaves(t); code != 0 {
			t.Errorf("exit %d: %s", code, screen)
		}
		code, screen := sit(t, parley(t, h.env(""), "show", "nothing")).leaves(t)
		if code != 4 || !strings.Contains(screen, "\x1b[31mparley:\x1b[0m") {
			t.Errorf("exit %d: %q", code, screen)
		}
		_, screen = sit(t, parley(t, append(h.env(""), "NO_COLOR=1"), "show", "nothing")).leaves(t)
		if strings.Contains(screen, "\x1b") {
			t.Errorf("NO_COLOR is ignored: %q", screen)
		}
	})
	t.Run("on a terminal text of others has no colour, and a file is plain text", func(t *testing.T) {
		h := newHouse(t, "--unsafe-limits")
		on := h.fill()
		h.ok(h.stdin("planner", "\x1b[31mred\x1b[0m", "send", "builder", "-"), nil)
		for _, args := range [][]string{{"log"}, {"team", "document", "get", on.Team, on.Artifact}} {
			code, screen := sit(t, parley(t, h.env(""), args...)).leaves(t)
			if code != 0 || !strings.Contains(screen, hostiletest.Marker) {
				t.Errorf("parley %q: exit %d: %q", args, code, screen)
			}
			own := strings.NewReplacer("\x1b[2m", "", "\x1b[1m", "", "\x1b[0m", "", "\r\n", "\n")
			if found := hostiletest.Find(own.Replace(screen)); found != "" {
				t.Errorf("parley %q: %s", args, found)
			}
			if args[0] == "log" && (!strings.Contains(screen, "\x1b[1mplanner → builder\x1b[0m") || !strings.Contains(screen, "[31mred[0m")) {
				t.Errorf("the log lacks a colour of its own, or a text: %q", screen)
			}
		}
	})
	t.Run("states have colours on a terminal, unless NO_COLOR is set, and columns stay aligned", func(t *testing.T) {
		h := newHouse(t)
		h.ok(h.as("planner", "handoff", "new", "--to", "builder", "--task", "T-1", "--title", "one", "--summary", "s", "--next", "n", "--criterion", "c"), nil)
		_, screen := sit(t, parley(t, h.env(""), "handoff", "list")).leaves(t)
		contains(t, screen, "ID  STATE     STAGE  PROOF", "h1  \x1b[33mproposed\x1b[0m  -")
		_, screen = sit(t, parley(t, append(h.env(""), "NO_COLOR=1"), "handoff", "list")).leaves(t)
		contains(t, screen, "h1  proposed  -")
		_, screen = sit(t, parley(t, h.env(""), "show", "h1")).leaves(t)
		contains(t, screen, "h1 \x1b[33mproposed\x1b[0m: \"one\" by builder for planner")
	})
	t.Run("text from the keyboard can be broken off", func(t *testing.T) {
		h := readersHouse(t)
		s := sit(t, parley(t, h.env("builder"), "send", "tester", "-"))
		s.types(t, "to finish\r\n", "?")
		s.types(t, "?", "\x03")
		if code, screen := s.leaves(t); code != 130 {
			t.Errorf("exit %d, want 130: %s", code, screen)
		}
	})
}
