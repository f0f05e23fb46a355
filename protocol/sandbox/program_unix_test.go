//go:build unix

package sandbox_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/parley-agents/parley/protocol/sandbox"
)

// roles are the programs that the tests run in terminals: the test binary
// started again, with the role's name in a variable.
var roles = map[string]func(){
	"flood":        flood,
	"stay":         stay,
	"stubborn":     func() { signal.Ignore(syscall.SIGTERM); stay() },
	"crowd":        func() { leave(false); stay() },
	"leave behind": func() { leave(false); fmt.Print("left") },
	"escape":       func() { leave(true); fmt.Print("escaped") },
}

const (
	roleVar    = "SANDBOX_TEST_ROLE"
	witnessVar = "SANDBOX_TEST_WITNESS"
	readyVar   = "SANDBOX_TEST_READY"
)

func TestMain(m *testing.M) {
	if run, ok := roles[os.Getenv(roleVar)]; ok {
		run()
		return
	}
	os.Exit(m.Run())
}

// flooded is how many bytes flood writes before its last words.
const flooded = 100_000_000

func flood() {
	line := []byte(strings.Repeat("é", 499) + ".\n")
	out := bufio.NewWriterSize(os.Stdout, 64<<10)
	for range flooded / len(line) {
		out.Write(line)
	}
	out.WriteString("the end")
	out.Flush()
}

// A witness sees processes come and go: each holds a named pipe open. The
// leash is another, on which they wait for the end of the test.
type witness struct {
	path  string
	pipe  *os.File
	leash *os.File
}

func newWitness(t *testing.T) *witness {
	t.Helper()
	w := &witness{path: filepath.Join(folder(t), "witness")}
	must(t, syscall.Mkfifo(w.path, 0o600))
	must(t, syscall.Mkfifo(w.path+".leash", 0o600))
	leash, err := os.OpenFile(w.path+".leash", os.O_RDWR, 0)
	must(t, err)
	w.leash = leash
	t.Cleanup(func() { w.leash.Close() })
	return w
}

// command returns the one that runs a role.
func (w *witness) command(t *testing.T, role string) sandbox.Command {
	t.Helper()
	self, err := os.Executable()
	must(t, err)
	return sandbox.Command{Name: self, Env: map[string]string{
		roleVar: role, witnessVar: w.path, "GOCOVERDIR": filepath.Dir(w.path),
	}}
}

// here waits until n processes have come.
func (w *witness) here(t *testing.T, n int) {
	t.Helper()
	pipe, err := os.Open(w.path)
	must(t, err)
	t.Cleanup(func() { pipe.Close() })
	_, err = io.ReadFull(pipe, make([]byte, n))
	must(t, err)
	w.pipe = pipe
}

// gone waits until all have gone.
func (w *witness) gone(t *testing.T) {
	t.Helper()
	_, err := io.Copy(io.Discard, w.pipe)
	must(t, err)
}

// stay shows itself to the witness and ends with the leash.
func stay() {
	path := os.Getenv(witnessVar)
	leash, err := os.Open(path + ".leash")
	if err != nil {
		os.Exit(3)
	}
	pipe, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		os.Exit(3)
	}
	pipe.WriteString(".")
	if os.Getenv(readyVar) != "" {
		os.NewFile(3, "ready").Close()
	}
	io.Copy(io.Discard, leash)
}

// leave starts another process that stays, and returns when it is there.
func leave(ownSession bool) {
	self, err := os.Executable()
	if err != nil {
		os.Exit(3)
	}
	ready, theirs, err := os.Pipe()
	if err != nil {
		os.Exit(3)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), roleVar+"=stay", readyVar+"=yes")
	cmd.Stdout = os.Stdout
	cmd.ExtraFiles = []*os.File{theirs}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: ownSession}
	if cmd.Start() != nil {
		os.Exit(3)
	}
	theirs.Close()
	io.Copy(io.Discard, ready)
}
