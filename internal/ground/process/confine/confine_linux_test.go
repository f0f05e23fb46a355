package confine_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/parley-agents/parley/internal/ground/process/confine"
	"github.com/parley-agents/parley/internal/testing/patience"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "confined" {
		os.Exit(confine.Main(os.Args[2:]))
	}
	if len(os.Args) > 1 && os.Args[1] == "dial" {
		os.Exit(dial(os.Args[2:]))
	}
	if len(os.Args) > 4 && os.Args[1] == "attack" {
		pid, _ := strconv.Atoi(os.Args[3])
		object, _ := strconv.Atoi(os.Args[4])
		os.Exit(attack(os.Args[2], pid, object))
	}
	if len(os.Args) > 1 && os.Args[1] == victimName {
		os.Exit(beVictim())
	}
	if len(os.Args) > 2 && os.Args[1] == "start" {
		os.Exit(startAndWait(os.Args[2]))
	}
	os.Exit(m.Run())
}

// dial connects to a socket, by default to one of its own, and returns the exit code.
func dial(socket []string) int {
	var err error
	if len(socket) > 0 {
		_, err = net.Dial("unix", socket[0])
	} else {
		var server net.Listener
		server, err = net.Listen("tcp", "127.0.0.1:0")
		if err == nil {
			_, err = net.Dial("tcp", server.Addr().String())
		}
	}
	if err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}

// startAndWait starts a command that does not end, and waits to be killed.
func startAndWait(dir string) int {
	p, err := confine.Start("", confine.Command{
		Args: []string{"sh", "-c", leave(os.Getpid()) + "; sleep 1000"}, Dir: dir, Env: []string{"PATH=" + os.Getenv("PATH")}, Rules: confine.Rules{Write: []string{dir}},
	}, os.Stderr)
	if err == nil {
		_, err = p.Wait()
	}
	fmt.Println(err)
	return 1
}

// missing skips a test on a system that lacks something, and fails it with CI=true.
func missing(t *testing.T, text string) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatal(text)
	}
	t.Skip(text)
}

// supported skips a test on a system that cannot confine, and fails it with CI=true.
func supported(t *testing.T) {
	t.Helper()
	if err := confine.Supported(); err != nil {
		missing(t, err.Error())
	}
}

// A room has the folders of a command.
type room struct {
	t                      *testing.T
	work, outside, private string
}

func newRoom(t *testing.T) room {
	t.Helper()
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	r := room{t: t, work: filepath.Join(top, "work"), outside: filepath.Join(top, "outside"), private: filepath.Join(top, "private")}
	for _, dir := range []string{r.work, r.outside, r.private} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	r.put(filepath.Join(r.private, "key"), "the secret")
	r.put(filepath.Join(r.outside, "file"), "text of others")
	return r
}

func (r room) put(path, text string) {
	r.t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		r.t.Fatal(err)
	}
}

// command returns a line of the shell in the room.
func (r room) command(line string) confine.Command {
	return confine.Command{
		Args:  []string{"sh", "-c", line},
		Dir:   r.work,
		Env:   []string{"PATH=" + os.Getenv("PATH"), "OUTSIDE=" + r.outside, "PRIVATE=" + r.private, "WORK=" + r.work},
		Rules: confine.Rules{Write: []string{r.work}, Hidden: []string{r.private}},
	}
}

// start starts a command and returns a function that waits for its end and returns its output.
func (r room) start(c confine.Command) (*confine.Process, func() (confine.Report, string)) {
	r.t.Helper()
	in, out, err := os.Pipe()
	if err != nil {
		r.t.Fatal(err)
	}
	p, err := confine.Start("", c, out)
	out.Close()
	if err != nil {
		r.t.Fatal(err)
	}
	return p, func() (confine.Report, string) {
		r.t.Helper()
		text, err := io.ReadAll(in)
		in.Close()
		report, waited := p.Wait()
		if err := errors.Join(err, waited); err != nil {
			r.t.Fatal(err)
		}
		return report, string(text)
	}
}

func (r room) run(c confine.Command) (confine.Report, string) {
	r.t.Helper()
	_, wait := r.start(c)
	return wait()
}

// refusal matches the errors of programs about files that they may not touch. A read-only mount is another
// refusal.
const refusal = "ermission denied"

// refused returns an output in which both refusals are the same.
func refused(out string) string { return strings.ReplaceAll(out, "Read-only file system", refusal) }

func TestHostileCommands(t *testing.T) {
	patience.NotUnderRace(t)
	supported(t)
	for _, tt := range []struct {
		name, line string
		code       int
		contains   string
	}{
		{"a command writes to its folder, and its output is read", `echo text > made && cat made && cat made >&2`, 0, "text\ntext\n"},
		{"its exit code is kept", `exit 7`, 7, ""},
		{"a signal is 128 and its number", `kill -9 $$`, 137, ""},
		{"it moves files between its folders", `mkdir a b && echo x > a/f && mv a/f b/f && cat b/f`, 0, "x\n"},
		{"it reads files of others that are not hidden", `cat $OUTSIDE/file`, 0, "text of others"},
		{"it does not write to them", `echo x >> $OUTSIDE/file`, 2, refusal},
		{"it does not make files beside them", `echo x > $OUTSIDE/new`, 2, refusal},
		{"it does not remove them", `rm -f $OUTSIDE/file`, 1, refusal},
		{"it does not empty them", `truncate -s 0 $OUTSIDE/file`, 1, refusal},
		{"it does not link to them", `ln $OUTSIDE/file mine`, 1, ""},
		{"it does not read a hidden file", `cat $PRIVATE/key`, 1, refusal},
		{"nor through a link", `ln -s $PRIVATE/key mine && cat mine`, 1, refusal},
		{"nor through the folder of a process", `cd / && cat /proc/self/root$PRIVATE/key`, 1, refusal},
		{"it does not list a hidden folder", `ls $PRIVATE`, 2, refusal},
		{"it does not list a folder with a hidden one in it", `ls $PRIVATE/..`, 2, refusal},
		{"it does not read devices", `head -c 1 /dev/vda /dev/sda /dev/nvme0n1 /dev/mem /dev/kmsg 2>/dev/null | wc -c`, 0, "0\n"},
		{"it uses the common devices", `echo x > /dev/null && head -c 3 /dev/zero | wc -c`, 0, "3\n"},
		{"it gains no privileges", `grep NoNewPrivs /proc/self/status`, 0, "1\n"},
		{"it does not read the environment of other processes", `cat /proc/` + strconv.Itoa(os.Getpid()) + `/environ`, 1, ""},
		{"nor their memory", `cat /proc/` + strconv.Itoa(os.Getpid()) + `/mem`, 1, ""},
		{"it reads nothing from its standard input", `cat`, 0, ""},
		{"it has no terminal", `echo x > /dev/tty`, 2, ""},
	} {
		for _, level := range levels(t) {
			t.Run(fmt.Sprintf("level %d: %s", level, tt.name), func(t *testing.T) {
				r := newRoom(t)
				c := r.command(tt.line)
				c.Level = level
				report, out := r.run(c)
				if os.Getenv(notSealed) != "" && report.Sealed {
					t.Error("the command was sealed")
				}
				isRun := report.Confined && report.Started && report.Coverage.Level == level
				if report.ExitCode != tt.code || !strings.Contains(refused(out), tt.contains) || strings.Contains(out, "the secret") || !isRun {
					t.Errorf("got %+v, %q", report, out)
				}
				if text, err := os.ReadFile(filepath.Join(r.outside, "file")); err != nil || string(text) != "text of others" {
					t.Errorf("the file outside: %q, %v", text, err)
				}
				if _, err := os.Stat(filepath.Join(r.outside, "new")); err == nil {
					t.Error("a file was made outside")
				}
			})
		}
	}
}

func TestReadInsideAHiddenFolder(t *testing.T) {
	supported(t)
	r := newRoom(t)
	allowed := filepath.Join(r.private, "copy")
	if err := os.Mkdir(allowed, 0o755); err != nil {
		t.Fatal(err)
	}
	r.put(filepath.Join(allowed, "file"), "public")
	c := r.command(`cat $PRIVATE/copy/file; cat $PRIVATE/key; echo x > $PRIVATE/copy/file`)
	c.Read = []string{allowed}
	if report, out := r.run(c); report.ExitCode == 0 || !strings.HasPrefix(out, "public") || strings.Contains(out, "the secret") || strings.Count(refused(out), refusal) != 2 {
		t.Errorf("got %+v, %q", report, out)
	}
}

// In mounts of its own, a command changes nothing about files of others, and finds no sockets of
// services.
func TestHostileCommandsSealed(t *testing.T) {
	patience.NotUnderRace(t)
	supported(t)
	r := newRoom(t)
	if report, _ := r.run(r.command("true")); !report.Sealed {
		missing(t, "this system makes no mounts of its own for a command")
	}
	for name, line := range map[string]string{
		"modes":      `chmod 777 $OUTSIDE/file`,
		"owners":     `chown $(id -u) $OUTSIDE/file`,
		"times":      `touch -d 2001-01-01 $OUTSIDE/file`,
		"attributes": `python3 -c 'import os; os.setxattr(os.environ["OUTSIDE"] + "/file", "user.x", b"x")'`,
		"a mount":    `mount -o remount,rw / || umount $WORK`,
	} {
		before, err := os.Stat(filepath.Join(r.outside, "file"))
		if err != nil {
			t.Fatal(err)
		}
		if report, out := r.run(r.command(line)); report.ExitCode == 0 || !report.Sealed {
			t.Errorf("%s: got %+v, %q", name, report, out)
		}
		after, err := os.Stat(filepath.Join(r.outside, "file"))
		if err != nil || after.Mode() != before.Mode() || after.ModTime() != before.ModTime() {
			t.Errorf("%s were changed: %v, %v", name, after, err)
		}
	}

	t.Chdir(r.private) // the name of a socket must be short
	socket, err := net.Listen("unix", "hub.sock")
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	c := r.command("")
	c.Args = []string{os.Args[0], "dial", filepath.Join(r.private, "hub.sock")}
	if report, out := r.run(c); report.ExitCode != 1 {
		t.Errorf("the socket: got %+v, %q", report, out)
	}
	c.Rules = confine.Rules{Unconfined: true}
	if report, out := r.run(c); report.ExitCode != 0 {
		t.Errorf("the socket, unconfined: got %+v, %q", report, out)
	}

	// A server that starts programs for its user, such as tmux.
	dir, err := os.MkdirTemp("/tmp", "tmux-test-*")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	service, err := net.Listen("unix", filepath.Join(dir, "default"))
	if err != nil {
		t.Fatal(err)
	}
	defer service.Close()
	c = r.command("")
	c.Args = []string{os.Args[0], "dial", filepath.Join(dir, "default")}
	if report, out := r.run(c); report.ExitCode != 1 {
		t.Errorf("the socket of a service: got %+v, %q", report, out)
	}

	git := filepath.Join(r.work, ".git")
	if err := os.Mkdir(git, 0o755); err != nil {
		t.Fatal(err)
	}
	c = r.command(`echo x > made && ! echo x > .git/hook && ! mv .git away`)
	c.Protected = []string{git}
	if report, out := r.run(c); report.ExitCode != 0 {
		t.Errorf("a protected folder: got %+v, %q", report, out)
	}
}

// A sealed command has its own /tmp and its own shared memory.
func TestSealedTemporaryFolder(t *testing.T) {
	supported(t)
	top, err := os.MkdirTemp("/var/tmp", "confine-test-*")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(top) })
	r := room{t: t, work: top}
	own := filepath.Join(top, "own")
	if err := os.Mkdir(own, 0o755); err != nil {
		t.Fatal(err)
	}
	c := r.command(`touch /tmp/mine /dev/shm/mine && ls /tmp own && mv /tmp/mine . && ls`)
	c.Base = top
	c.Write = append(c.Write, own)
	c.Temporary = own
	report, out := r.run(c)
	if !report.Sealed {
		missing(t, "this system makes no mounts of its own for a command")
	}
	if report.ExitCode != 0 || out != "/tmp:\nmine\n\nown:\nmine\nmine\nown\n" {
		t.Errorf("got %+v, %q", report, out)
	}
	if _, err := os.Stat("/dev/shm/mine"); err == nil {
		t.Error("the shared memory is that of all")
	}
}

// A command whose folders are in shared memory keeps them.
func TestSealedInSharedMemory(t *testing.T) {
	supported(t)
	top, err := os.MkdirTemp("/dev/shm", "confine-test-*")
	if err != nil {
		missing(t, err.Error())
	}
	t.Cleanup(func() { os.RemoveAll(top) })
	r := room{t: t, work: top}
	if report, out := r.run(r.command(`touch mine && ! touch ../mine`)); report.ExitCode != 0 {
		t.Errorf("got %+v, %q", report, out)
	}
}

// Files can be moved between the writable folders of a base.
func TestBase(t *testing.T) {
	supported(t)
	r := newRoom(t)
	for _, dir := range []string{"a", "b"} {
		if err := os.Mkdir(filepath.Join(r.work, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	c := r.command(`echo x > f && ln f ../b/g && mv f ../b/f && cat ../b/f && ! touch ../new && ! mv ../b ../c`)
	c.Dir = filepath.Join(r.work, "a")
	c.Write = []string{c.Dir, filepath.Join(r.work, "b")}
	c.Base = r.work
	if report, out := r.run(c); report.ExitCode != 0 {
		t.Errorf("got %+v, %q", report, out)
	}
}

// A hidden file that is named by a link is hidden where it is.
func TestHiddenLink(t *testing.T) {
	supported(t)
	r := newRoom(t)
	link := filepath.Join(r.outside, "link")
	if err := os.Symlink(r.private, link); err != nil {
		t.Fatal(err)
	}
	c := r.command(`cat $PRIVATE/key $OUTSIDE/link/key`)
	r.put(filepath.Join(r.private, "second"), "") // a hidden file in a hidden folder
	c.Hidden = []string{link, filepath.Join(r.outside, "absent"), filepath.Join(r.private, "second")}
	if report, out := r.run(c); report.ExitCode == 0 || strings.Contains(out, "the secret") {
		t.Errorf("got %+v, %q", report, out)
	}
}

func TestNotStarted(t *testing.T) {
	supported(t)
	r := newRoom(t)
	c := r.command("")
	c.Args = []string{"no-such-program"}
	if report, _ := r.run(c); report.Started || !strings.Contains(report.Error, "no-such-program") {
		t.Errorf("got %+v", report)
	}
	c = r.command("true")
	c.Write = append(c.Write, filepath.Join(r.outside, "absent"))
	if _, err := confine.Start("", c, os.Stderr); err == nil {
		t.Error("a folder that does not exist was allowed")
	}
}

func TestUnconfined(t *testing.T) {
	r := newRoom(t)
	c := r.command(`cat $PRIVATE/key`)
	c.Unconfined = true
	if report, out := r.run(c); report.Confined || report.ExitCode != 0 || out != "the secret" {
		t.Errorf("got %+v, %q", report, out)
	}
}

// leave returns a line that leaves a process in a session of its own whose parents have ended,
// without the variables by which it could be found. The process sleeps for a time that only it has.
func leave(seconds int) string {
	return `env -i PATH="$PATH" setsid sh -c 'setsid sh -c "echo > left; exec sleep 1` + strconv.Itoa(seconds) + ` >/dev/null 2>&1" & ' & while ! test -s left; do :; done`
}

// sleeps reports whether the process that leave left is alive. Its number in its own namespace says
// nothing here.
func sleeps(t *testing.T, seconds int) bool {
	t.Helper()
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range lines {
		raw, err := os.ReadFile(line)
		if err == nil && string(raw) == "sleep\x001"+strconv.Itoa(seconds)+"\x00" {
			return true
		}
	}
	return false
}

func TestProcessesLeftBehindAreEnded(t *testing.T) {
	supported(t)
	r := newRoom(t)
	report, out := r.run(r.command(leave(os.Getpid())))
	if report.ExitCode != 0 || report.Left == 0 {
		t.Errorf("got %+v, %q", report, out)
	}
	if sleeps(t, os.Getpid()) {
		t.Error("the process is alive")
	}
}

// await waits until ok reports true.
func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	late := time.After(patience.For(30 * time.Second))
	for !ok() {
		select {
		case <-late:
			t.Fatal(what)
		case <-tick.C:
		}
	}
}

func TestEnd(t *testing.T) {
	supported(t)
	r := newRoom(t)
	p, wait := r.start(r.command(leave(os.Getpid()) + `; trap '' TERM INT HUP; while :; do sleep 1000; done`))
	left := filepath.Join(r.work, "left")
	await(t, "the command did not start", func() bool { info, err := os.Stat(left); return err == nil && info.Size() > 0 })
	p.End()
	if report, _ := wait(); !report.Ended {
		t.Errorf("got %+v", report)
	}
	if sleeps(t, os.Getpid()) {
		t.Error("the process is alive")
	}
}

// TestTheProgramIsKilled kills the program that started a command, and the supervisor ends the
// command.
func TestTheProgramIsKilled(t *testing.T) {
	supported(t)
	r := newRoom(t)
	cmd := exec.Command(os.Args[0], "start", r.work)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	left := filepath.Join(r.work, "left")
	await(t, "the command did not start", func() bool { info, err := os.Stat(left); return err == nil && info.Size() > 0 })
	cmd.Process.Kill()
	cmd.Wait()
	await(t, "the process is alive", func() bool { return !sleeps(t, cmd.Process.Pid) })
}

// bomb makes processes until it cannot, at most 3,000. Each is in the same group.
const bomb = `i=0; while [ $i -lt 3000 ]; do sleep 1000 & i=$((i+1)); done; wait`

func TestTheNumberOfProcessesIsLimited(t *testing.T) {
	supported(t)
	r := newRoom(t)
	c := r.command(bomb)
	c.Processes = 60
	if report, _ := r.run(c); report.Limit != confine.LimitProcesses {
		t.Errorf("got %+v", report)
	}
}

// A command that ends before the supervisor looks at its processes has reached the limit, too.
func TestProcessesThatACommandLeavesAtOnceAreCounted(t *testing.T) {
	supported(t)
	r := newRoom(t)
	c := r.command(`for i in 1 2 3 4 5 6 7 8 9 10; do sleep 1000 & done`)
	c.Processes = 5
	if report, _ := r.run(c); report.Limit != confine.LimitProcesses {
		t.Errorf("got %+v", report)
	}
}

// Every process leaves its session at once and makes two more, at most 512 in all.
func TestProcessesThatMultiplyAreEnded(t *testing.T) {
	supported(t)
	r := newRoom(t)
	r.put(filepath.Join(r.work, "multiply"), `[ "$1" -gt 0 ] || exec sleep 1000
setsid sh multiply $(($1-1)) & setsid sh multiply $(($1-1)) & wait`)
	c := r.command(`exec sh multiply 9`)
	c.Processes = 40
	if report, _ := r.run(c); report.Limit != confine.LimitProcesses || report.Error != "" {
		t.Errorf("got %+v", report)
	}
}

func TestMemoryIsLimited(t *testing.T) {
	supported(t)
	r := newRoom(t)
	c := r.command(`exec tail /dev/zero`) // keeps the last line, which has no end
	c.Memory = 64 << 20
	if report, _ := r.run(c); report.Limit != confine.LimitMemory {
		t.Errorf("got %+v", report)
	}
}

func TestOffline(t *testing.T) {
	supported(t)
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	r := newRoom(t)
	_, port, _ := net.SplitHostPort(server.Addr().String())
	dial := func(offline bool) (confine.Report, string) {
		c := r.command(`exec bash -c 'echo > /dev/tcp/127.0.0.1/` + port + ` && echo connected'`)
		c.Offline = offline
		return r.run(c)
	}
	if report, out := dial(false); report.Network != "" || !strings.Contains(out, "connected") {
		t.Errorf("with the network: got %+v, %q", report, out)
	}
	report, out := dial(true)
	if report.Network == confine.NetworkOpen {
		missing(t, "this system cannot turn the network off")
	}
	if os.Getenv(notSealed) != "" && report.Network != confine.NetworkNoTCP {
		t.Errorf("without namespaces: got %+v", report)
	}
	if strings.Contains(out, "connected") {
		t.Errorf("without the network: got %+v, %q", report, out)
	}
}

// Loopback works in a network of its own.
func TestOfflineLoopback(t *testing.T) {
	supported(t)
	r := newRoom(t)
	c := r.command("")
	c.Args = []string{os.Args[0], "dial"}
	c.Offline = true
	report, out := r.run(c)
	if report.Network == confine.NetworkLoopback && report.ExitCode != 0 {
		t.Errorf("got %+v, %s", report, out)
	}
	if report.Network != confine.NetworkLoopback {
		t.Skipf("this system makes no network of its own for a command: %s", report.Network)
	}
}

// notSealed is the variable that tells these tests that the system allows no namespaces.
const notSealed = "CONFINE_TEST_NOT_SEALED"

// TestHostileCommandsWithoutNamespaces runs the hostile commands on a system that allows no namespaces.
func TestHostileCommandsWithoutNamespaces(t *testing.T) {
	patience.NotUnderRace(t)
	supported(t)
	cmd := exec.Command("sh", "-c", `echo 0 > /proc/sys/user/max_user_namespaces && exec "$0" "$@"`,
		os.Args[0], "-test.run=^(TestHostileCommands|TestMachineOfACommand|TestBase|TestReadInsideAHiddenFolder|TestProcesses.*|TestEnd|TestOffline)$")
	cmd.Env = append(os.Environ(), notSealed+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	out, err := cmd.CombinedOutput()
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.ENOSPC) {
		return // this is such a system, and the other tests ran on it
	}
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestHostileCommandsOfAUser runs the hostile commands as a user who is not root, if this one is.
func TestHostileCommandsOfAUser(t *testing.T) {
	patience.NotUnderRace(t)
	supported(t)
	if os.Getuid() != 0 {
		t.Skip("the other tests run as a user who is not root")
	}
	dir, err := os.MkdirTemp("", "confine-user-*")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	program := filepath.Join(dir, "confine.test")
	raw, err := os.ReadFile(os.Args[0])
	if err == nil {
		err = os.WriteFile(program, raw, 0o755)
	}
	if err == nil {
		err = os.Chmod(dir, 0o777)
	}
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "-test.run=^(TestHostileCommands|TestMachineOfACommand|TestHostileCommandsSealed|TestBase|TestProcesses.*|TestTheNumberOfProcessesIsLimited|TestEnd|TestOffline.*)$", "-test.v")
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "TMPDIR=" + dir, "HOME=" + dir}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	t.Logf("%s", out)
}
