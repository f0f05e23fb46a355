package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/operation/rpc"
	"github.com/parley-agents/parley/internal/service/reservation"
)

// resize gives a terminal a size, and tells its programs.
func (s *seat) resize(t *testing.T, columns, rows uint16) {
	t.Helper()
	conn, err := s.person.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var errno syscall.Errno
	conn.Control(func(fd uintptr) {
		_, _, errno = syscall.Syscall(syscall.SYS_IOCTL, fd, syscall.TIOCSWINSZ, uintptr(unsafe.Pointer(&[4]uint16{rows, columns})))
	})
	if errno != 0 {
		t.Fatal(errno)
	}
}

// shows waits until everything that was written has a text; a read may end within it.
func (s *seat) shows(t *testing.T, text string) {
	t.Helper()
	poll(t, "the screen to show "+text, func() bool {
		s.screen.mu.Lock()
		defer s.screen.mu.Unlock()
		return strings.Contains(strings.Join(s.screen.all, ""), text)
	})
}

// press types at the terminal.
func (s *seat) press(t *testing.T, keys string) {
	t.Helper()
	if _, err := s.person.WriteString(keys); err != nil {
		t.Fatal(err)
	}
}

func TestWatchScreen(t *testing.T) {
	h := newHouse(t)
	isHeld := func() bool {
		var got listShape
		h.ok(h.operator("approve", "--json"), &got)
		return len(got.Messages) > 0
	}
	h.ok(h.as("planner", "send", "builder", "schema is frozen"), nil)

	t.Run("the screen shows the hub, takes an answer, and follows the size of the terminal", func(t *testing.T) {
		h.ok(h.as("planner", "send", "builder", "drop the table", "--human-gate", "required"), nil)
		s := sit(t, parley(t, append(h.env(""), "TERM=xterm-256color"), "watch"))
		s.resize(t, 120, 30)
		// Letters that are on the screen already are not written again: only new words are whole.
		for _, text := range []string{"approve", "planner → builder", "schema is frozen", "(1)", "drop the table", "Agents (", "Handoffs (0)", "q quit"} {
			s.shows(t, text)
		}
		s.press(t, "y")
		poll(t, "the yes", func() bool { return !isHeld() })
		s.resize(t, 40, 12)
		h.ok(h.as("builder", "send", "planner", "thanks"), nil)
		s.shows(t, "thanks")
		s.press(t, "q")
		if code, screen := s.leaves(t); code != 0 {
			t.Errorf("exit %d\n%s", code, screen)
		}
	})

	t.Run("parley without arguments watches a hub that runs, and Ctrl-C leaves it", func(t *testing.T) {
		s := sit(t, parley(t, append(h.env(""), "TERM=xterm-256color")))
		s.resize(t, 100, 30)
		s.shows(t, "Waiting for you")
		s.press(t, "\x03")
		if code, screen := s.leaves(t); code != 0 && code != exitSignal {
			t.Errorf("exit %d\n%s", code, screen)
		}
	})

	t.Run("--plain prints lines, and an answer that was given elsewhere", func(t *testing.T) {
		w := spawn(t, parley(t, h.env(""), "watch", "--plain", "--as-operator"))
		w.stdout.await(t, "planner → builder  schema is frozen")
		id := h.sent(h.as("planner", "send", "builder", "drop it again", "--human-gate", "required", "--json"))
		w.stdout.await(t, "waits: held: a message from planner to builder needs your approval: drop it again (parley approve ")
		h.ok(h.operator("deny", id), nil)
		w.stdout.await(t, "no longer waits: held: a message from planner to builder")
		if code := w.signal(t, syscall.SIGINT); code != 0 && code != exitSignal {
			t.Errorf("exit %d", code)
		}
		if strings.Contains(w.stdout.String(), "\x1b") {
			t.Error("a pipe gets escape sequences")
		}
	})

	t.Run("files that agents change, and a violation until it is read", func(t *testing.T) { watchFiles(t) })

	t.Run("an agent that may not see everything is refused", func(t *testing.T) {
		if r := h.as("mallory", "watch"); r.code != exitRefused {
			t.Errorf("exit %d: %s%s", r.code, r.out, r.err)
		}
	})
}

// watchFiles watches a hub on which an agent changes a file of another one.
func watchFiles(t *testing.T) {
	tree, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	h := newHouse(t, "--root", tree)
	ask := func(agent string, q reservation.Question) {
		t.Helper()
		q.Tree = tree
		got, err := rpc.Call(t.Context(), rpc.NewClient(h.url, h.keys[agent], "", nil), api.AskFiles, q)
		if err != nil || got.Decision != reservation.Allow {
			t.Fatalf("%s: got %+v, %v", agent, got, err)
		}
	}
	put := func(text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(tree, "a.txt"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}

	ask("builder", reservation.Question{Kind: reservation.Edit, Paths: []string{"a.txt"}})
	put("one")
	ask("builder", reservation.Question{Kind: reservation.After, Paths: []string{"a.txt"}})
	lines := spawn(t, parley(t, h.env(""), "watch", "--plain", "--as-operator"))
	s := sit(t, parley(t, append(h.env(""), "TERM=xterm-256color"), "watch"))
	s.resize(t, 120, 30)
	s.shows(t, "changes 1 file")

	ask("tester", reservation.Question{Kind: reservation.Edit, Command: "make"})
	put("made")
	ask("tester", reservation.Question{Kind: reservation.After, Command: "make"})
	lines.stdout.await(t, "waits: violation: an agent changed a file that another agent holds: a.txt, which builder holds, changed while a command of tester ran (parley inbox --as-operator)")
	s.shows(t, "mark as read")
	s.press(t, "y")
	lines.stdout.await(t, "no longer waits: violation: an agent changed a file that another agent holds")
	s.press(t, "q")
	if code, screen := s.leaves(t); code != 0 {
		t.Errorf("exit %d\n%s", code, screen)
	}
	lines.signal(t, syscall.SIGINT)
}
