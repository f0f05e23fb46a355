package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/operation/rpc"
	"github.com/parley-agents/parley/internal/testing/patience"
	"github.com/parley-agents/parley/internal/testing/storetest"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// asParley in the environment makes the test binary be the parley command.
const asParley = "PARLEY_TEST_AS_COMMAND"

// verifyByPage in the environment makes parley hub verify report after each page.
const verifyByPage = "PARLEY_TEST_VERIFY_BY_PAGE"

// patientHook in the environment makes a hook wait for the hub as long as a test does.
const patientHook = "PARLEY_TEST_PATIENT_HOOK"

func TestMain(m *testing.M) {
	// A command starts its own program for a hub, and the hub for checks; a CLI, git and a client under
	// test start it, too.
	ownCommands := []string{"serve", "wake", "guard", "mcp", "demo", "confined", "client-agent"}
	isOwn := slices.ContainsFunc(os.Args[1:], func(arg string) bool { return slices.Contains(ownCommands, arg) })
	release = stampOfTest()
	if os.Getenv(asParley) != "" || isOwn || release != "" {
		os.Unsetenv(asParley)
		if os.Getenv(verifyByPage) != "" {
			verifyPart = time.Millisecond
		}
		if os.Getenv(patientHook) != "" {
			hookTime = waitTime
		}
		main()
	}
	code := m.Run()
	endReaders()
	os.Exit(code)
}

// waitTime is how long anything that has to happen may take.
var waitTime = patience.For(2 * time.Minute)

// onlyReal leaves a test to make test-real, which has programs of other projects.
func onlyReal(t *testing.T) {
	t.Helper()
	if os.Getenv("PARLEY_REAL") == "" {
		t.Skip("make test-real runs it")
	}
}

// parley returns the command as a process with a clean environment: no key, no
// hub, and a home of its own.
func parley(t *testing.T, env []string, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, args...)
	cmd.Env = append([]string{asParley + "=1", "PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "TERM=xterm-256color", "GORACE=atexit_sleep_ms=0"}, env...)
	return cmd
}

// A result is what a command left behind.
type result struct {
	out, err string
	code     int
}

// do runs a command to its end.
func do(t *testing.T, cmd *exec.Cmd) result {
	t.Helper()
	return doFor(t, waitTime, cmd)
}

// doFor runs a command that may take its time.
func doFor(t *testing.T, waitTime time.Duration, cmd *exec.Cmd) result {
	t.Helper()
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stop := time.AfterFunc(waitTime, func() { cmd.Process.Kill() })
	defer stop.Stop()
	err := cmd.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("%v: %v", cmd.Args[1:], err)
	}
	return result{out.String(), errOut.String(), cmd.ProcessState.ExitCode()}
}

// A house is a hub that runs as a process, with agents in it.
type house struct {
	t    *testing.T
	home string
	url  string
	keys map[string]string
	hub  *job
}

// cast is who lives in a house: a coordinator, two who work, and one who means
// no good.
var cast = map[string]string{"planner": "coordinator", "builder": "executor", "tester": "reviewer", "mallory": "executor"}

// newHouse starts a hub in a new home and adds the cast to it.
func newHouse(t *testing.T, flags ...string) *house {
	t.Helper()
	home := t.TempDir()
	storetest.Prepare(t, home)
	return newHouseIn(t, home, flags...)
}

// newHouseIn is newHouse for a home that the test has made.
func newHouseIn(t *testing.T, home string, flags ...string) *house {
	t.Helper()
	h := &house{t: t, home: home, keys: map[string]string{}}
	os.Chmod(h.home, 0o700)
	h.start(flags...)
	h.admitCast()
	return h
}

// admitCast adds the cast to the hub.
func (h *house) admitCast() {
	h.t.Helper()
	key, err := operatorKey(h.home)
	if err != nil {
		h.t.Fatal(err)
	}
	client := clientAt(h.home, h.url, key, "")
	for name, role := range cast {
		got, err := rpc.Call(h.t.Context(), client, api.AddAgent, api.AgentParams{ID: hub.AgentID(name), Role: hub.Role(role)})
		if err != nil {
			h.t.Fatal(err)
		}
		h.keys[name] = got.Key
	}
}

// readers is the house of the tests that only read. TestMain ends it.
var readers struct {
	once  sync.Once
	house *house
}

// readersHouse is one house for all tests that only read: nobody has sent, reserved or added anything
// in it, and its hub goes on.
func readersHouse(t *testing.T) *house {
	t.Helper()
	readers.once.Do(func() {
		home, err := os.MkdirTemp("", "parley-readers-")
		if err != nil {
			t.Fatal(err)
		}
		h := &house{t: t, home: home, keys: map[string]string{}}
		readers.house = h
		storetest.Prepare(t, home)
		h.hub, err = begin(h.serve())
		if err != nil {
			t.Fatal(err)
		}
		h.await()
		h.admitCast()
	})
	if len(readers.house.keys) < len(cast) {
		t.Fatal("the house of the readers did not start")
	}
	h := *readers.house
	h.t = t
	return &h
}

// endReaders ends the house of the readers, if a test used it.
func endReaders() {
	h := readers.house
	if h == nil {
		return
	}
	if h.hub != nil {
		h.hub.end()
	}
	os.RemoveAll(h.home)
}

// start starts the hub and waits until it says that it is ready.
func (h *house) start(flags ...string) {
	h.t.Helper()
	h.hub = spawn(h.t, h.serve(flags...))
	h.await()
}

// serve is the command that starts the hub.
func (h *house) serve(flags ...string) *exec.Cmd {
	h.t.Helper()
	args := append([]string{"serve", "--home", h.home}, flags...)
	if !strings.Contains(strings.Join(flags, " "), "--addr") {
		args = append(args, "--addr", "127.0.0.1:0")
	}
	return parley(h.t, nil, args...)
}

// await waits until the hub says where it listens.
func (h *house) await() {
	h.t.Helper()
	line := h.hub.stderr.await(h.t, "listening on ")
	h.url = strings.TrimSpace(strings.TrimPrefix(line, "listening on "))
}

// stop ends the hub in order.
func (h *house) stop() {
	h.t.Helper()
	if code := h.hub.signal(h.t, syscall.SIGTERM); code != 0 {
		h.t.Errorf("serve ended with %d after SIGTERM: %s", code, h.hub.stderr)
	}
}

// env is the environment in which a persona calls. A nobody has no key.
func (h *house) env(who string) []string {
	env := []string{"PARLEY_HOME=" + h.home, "PARLEY_URL=" + h.url}
	if key := h.keys[who]; key != "" {
		env = append(env, "PARLEY_KEY="+key)
	}
	return env
}

// as runs a command as a persona.
func (h *house) as(who string, args ...string) result {
	h.t.Helper()
	return do(h.t, parley(h.t, h.env(who), args...))
}

// operator runs a command as the operator does in a script.
func (h *house) operator(args ...string) result {
	h.t.Helper()
	return h.as("", append(args, "--as-operator")...)
}

// stdin runs a command as a persona with something on its standard input.
func (h *house) stdin(who, input string, args ...string) result {
	h.t.Helper()
	cmd := parley(h.t, h.env(who), args...)
	cmd.Stdin = strings.NewReader(input)
	return do(h.t, cmd)
}

// ok checks that a command succeeded, and reads its JSON if into is not nil.
func (h *house) ok(r result, into any) {
	h.t.Helper()
	if r.code != 0 {
		h.t.Fatalf("exit %d, want 0\nstdout: %s\nstderr: %s", r.code, r.out, r.err)
	}
	if into == nil {
		return
	}
	if err := json.Unmarshal([]byte(r.out), into); err != nil {
		h.t.Fatalf("%v in %s", err, r.out)
	}
}

// sent is the id of a message that was sent.
func (h *house) sent(r result) string {
	h.t.Helper()
	var got struct{ ID string }
	h.ok(r, &got)
	if !hub.EnvelopeID(got.ID).Valid() {
		h.t.Fatalf("%q is not a message id", got.ID)
	}
	return got.ID
}

// A refusal is what a command that failed says with --json.
type refusal struct {
	Error struct {
		Code        string  `json:"code"`
		Message     string  `json:"message"`
		Hint        string  `json:"hint"`
		RetryAfterS float64 `json:"retry_after_s"`

		Capabilities any `json:"capabilities"` // in JSON-RPC errors
	} `json:"error"`
}

// refused checks that a command with --json failed as it should: nothing on
// stdout, one strict object on stderr.
func refused(t *testing.T, r result, exit int, code string) refusal {
	t.Helper()
	if r.code != exit {
		t.Errorf("exit %d, want %d: %s%s", r.code, exit, r.out, r.err)
	}
	if r.out != "" {
		t.Errorf("a failed command wrote to stdout: %s", r.out)
	}
	var got refusal
	strict(t, r.err, &got)
	if got.Error.Code != code {
		t.Errorf("code %q, want %q (%s)", got.Error.Code, code, got.Error.Message)
	}
	if got.Error.Message == "" {
		t.Error("the error has no message")
	}
	return got
}

// strict reads one JSON value that has no members but those of into.
func strict(t *testing.T, text string, into any) {
	t.Helper()
	dec := json.NewDecoder(strings.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	if dec.More() {
		t.Fatalf("more than one value in %s", text)
	}
}

// A job is a command that runs while the test goes on.
type job struct {
	cmd            *exec.Cmd
	stdout, stderr *lines
	done           chan struct{} // closed when it has ended
}

// spawn starts a command and ends it with the test.
func spawn(t *testing.T, cmd *exec.Cmd) *job {
	t.Helper()
	p, err := begin(cmd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.end)
	return p
}

// begin starts a command.
func begin(cmd *exec.Cmd) (*job, error) {
	p := &job{cmd: cmd, stdout: newLines(), stderr: newLines(), done: make(chan struct{})}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	errOut, err := cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	var reading sync.WaitGroup
	reading.Go(func() { p.stdout.read(out) })
	reading.Go(func() { p.stderr.read(errOut) })
	go func() {
		reading.Wait()
		cmd.Wait() // the exit code is looked at by whoever cares
		close(p.done)
	}()
	return p, nil
}

// end kills a command, if it has not ended, as most have.
func (p *job) end() {
	p.cmd.Process.Kill()
	<-p.done
}

// signal sends a signal, waits for the end and returns the exit code.
func (p *job) signal(t *testing.T, s os.Signal) int {
	t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
	return p.wait(t)
}

func (p *job) wait(t *testing.T) int {
	t.Helper()
	select {
	case <-p.done:
	case <-time.After(waitTime):
		t.Fatalf("%v did not end\n%s%s", p.cmd.Args[1:], p.stdout, p.stderr)
	}
	return p.cmd.ProcessState.ExitCode()
}

// lines are what a process has written so far.
type lines struct {
	mu    sync.Mutex // guards the rest
	all   []string
	more  chan struct{} // closed and replaced at each line
	ended bool
}

func newLines() *lines { return &lines{more: make(chan struct{})} }

func (l *lines) read(r io.Reader) {
	s := bufio.NewScanner(r)
	s.Buffer(nil, 4<<20)
	for s.Scan() {
		l.add(s.Text(), false)
	}
	l.add("", true)
}

func (l *lines) add(line string, ended bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if ended {
		l.ended = true
	} else {
		l.all = append(l.all, line)
	}
	close(l.more)
	l.more = make(chan struct{})
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.all, "\n")
}

// await returns the first line that contains part, when it comes.
func (l *lines) await(t *testing.T, part string) string {
	t.Helper()
	timeout := time.After(waitTime)
	for {
		l.mu.Lock()
		for _, line := range l.all {
			if strings.Contains(line, part) {
				l.mu.Unlock()
				return line
			}
		}
		more, ended := l.more, l.ended
		l.mu.Unlock()
		if ended {
			t.Fatalf("the process ended without saying %q:\n%s", part, l)
		}
		select {
		case <-more:
		case <-timeout:
			t.Fatalf("the process does not say %q:\n%s", part, l)
		}
	}
}

// write makes a file in a folder of the test.
func write(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// contains reports each part that a text lacks.
func contains(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if !strings.Contains(text, p) {
			t.Errorf("%q is missing in:\n%s", p, text)
		}
	}
}

// poll waits for what gives no sign when it happens.
func poll(t *testing.T, what string, happened func() bool) {
	t.Helper()
	tick, timeout := time.NewTicker(10*time.Millisecond), time.After(waitTime)
	defer tick.Stop()
	for !happened() {
		select {
		case <-tick.C:
		case <-timeout:
			t.Fatalf("%s did not come", what)
		}
	}
}

// patient waits for something that gives no sign when it happens.
func (h *house) patient(what string, happened func() bool) {
	h.t.Helper()
	tick, timeout := time.NewTicker(50*time.Millisecond), time.After(waitTime)
	defer tick.Stop()
	for !happened() {
		select {
		case <-tick.C:
		case <-timeout:
			h.t.Fatalf("%s did not come", what)
		}
	}
}

// running returns the processes of this program that have a run of arguments, on a system that shows them.
func running(args ...string) (found []int) {
	self, err := os.Executable()
	if err != nil {
		return nil
	}
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return nil
	}
	wanted := strings.Join(append(append([]string{""}, args...), ""), "\x00")
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil || !strings.HasPrefix(string(raw), self+"\x00") || !strings.Contains(string(raw), wanted) {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file))); err == nil {
			found = append(found, pid)
		}
	}
	return found
}

// runs reports whether a process of this program has a run of arguments.
func runs(args ...string) bool { return len(running(args...)) > 0 }

// endRunning kills the processes of this program that have a run of arguments, and waits for their end.
func (h *house) endRunning(args ...string) {
	h.t.Helper()
	for _, pid := range running(args...) {
		if p, err := os.FindProcess(pid); err == nil {
			p.Kill()
		}
	}
	h.patient("the end of "+strings.Join(args, " "), func() bool { return !runs(args...) })
}
