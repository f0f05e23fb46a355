package confine_test

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"github.com/parley-agents/parley/internal/ground/process/confine"
	"github.com/parley-agents/parley/internal/testing/patience"
)

// Calls that package syscall does not have, with numbers that the tested machines share.
const (
	ipcRemove  = 0
	ipcCreate  = 0o1000
	setNice    = 0
	noFiles    = syscall.RLIMIT_NOFILE
	fileSize   = syscall.RLIMIT_FSIZE
	victimName = "victim"
)

// attack is what code under check does to another process of its user, by a word: the exit code is 0
// if it succeeded.
func attack(word string, pid, object int) int {
	var err error
	limit := func(which int) error {
		low := syscall.Rlimit{Cur: 8, Max: 8}
		_, _, errno := syscall.RawSyscall6(syscall.SYS_PRLIMIT64, uintptr(pid), uintptr(which), uintptr(unsafe.Pointer(&low)), 0, 0, 0)
		if errno != 0 {
			return errno
		}
		return nil
	}
	switch word {
	case "files":
		err = limit(noFiles)
	case "size":
		err = limit(fileSize)
	case "own":
		low := syscall.Rlimit{Cur: 64, Max: 64}
		_, _, errno := syscall.RawSyscall6(syscall.SYS_PRLIMIT64, 0, uintptr(noFiles), uintptr(unsafe.Pointer(&low)), 0, 0, 0)
		if errno != 0 {
			err = errno
		}
	case "kill":
		err = syscall.Kill(pid, syscall.SIGUSR1)
	case "kill all":
		err = syscall.Kill(-1, syscall.SIGUSR1)
	case "trace":
		err = syscall.PtraceAttach(pid)
	case "environment":
		_, err = os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	case "memory":
		_, err = os.OpenFile(fmt.Sprintf("/proc/%d/mem", pid), os.O_RDWR, 0)
	case "open files":
		_, err = os.Readlink(fmt.Sprintf("/proc/%d/fd/0", pid))
	case "priority":
		err = syscall.Setpriority(setNice, pid, 19)
	case "shared memory":
		_, _, errno := syscall.RawSyscall(syscall.SYS_SHMCTL, uintptr(object), ipcRemove, 0)
		if errno != 0 {
			err = errno
		}
	case "own shared memory":
		id, _, errno := syscall.RawSyscall(syscall.SYS_SHMGET, 0, 4096, ipcCreate|0o600)
		if errno == 0 {
			_, _, errno = syscall.RawSyscall(syscall.SYS_SHMCTL, id, ipcRemove, 0)
		}
		if errno != 0 {
			err = errno
		}
	default:
		err = fmt.Errorf("no attack %q", word)
	}
	if err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}

// beVictim waits until its standard input ends, and says each signal that it gets.
func beVictim() int {
	got := make(chan os.Signal, 100)
	signal.Notify(got, syscall.SIGUSR1)
	fmt.Println("here")
	go func() {
		for range got {
			fmt.Println("signal")
		}
	}()
	var one [1]byte
	os.Stdin.Read(one[:])
	return 0
}

// A victim is a process of the same user, as the hub is, with an object of System V.
type victim struct {
	*exec.Cmd
	object int
}

func newVictim(t *testing.T) victim {
	t.Helper()
	v := victim{Cmd: exec.Command(os.Args[0], victimName)}
	in, err := v.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := v.StdoutPipe()
	if err == nil {
		err = v.Start()
	}
	if err == nil {
		_, err = out.Read(make([]byte, 5))
	}
	if err != nil {
		t.Fatal(err)
	}
	id, _, errno := syscall.RawSyscall(syscall.SYS_SHMGET, 0, 4096, ipcCreate|0o600)
	if errno != 0 {
		t.Fatal(errno)
	}
	v.object = int(id)
	t.Cleanup(func() {
		syscall.RawSyscall(syscall.SYS_SHMCTL, id, ipcRemove, 0) // fails if a command removed it
		in.Close()
		v.Wait()
	})
	return v
}

// state returns what an attack could have changed about the victim.
func (v victim) state(t *testing.T) string {
	t.Helper()
	limits, err := os.ReadFile(fmt.Sprintf("/proc/%d/limits", v.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	objects, err := os.ReadFile("/proc/sysvipc/shm")
	if err != nil {
		t.Fatal(err)
	}
	has := slices.ContainsFunc(strings.Split(string(objects), "\n"), func(line string) bool {
		fields := strings.Fields(line)
		return len(fields) > 1 && fields[1] == strconv.Itoa(v.object)
	})
	return fmt.Sprintf("%s\nshared memory: %v", limits, has)
}

// levels returns the levels that this machine has, the best one first.
func levels(t *testing.T) (all []confine.Level) {
	t.Helper()
	best, err := confine.Probe("")
	if err != nil {
		missing(t, err.Error())
	}
	for l := best.Level; l <= confine.LevelFiles; l++ {
		all = append(all, l)
	}
	return all
}

// TestMachineOfACommand tries at each level that this machine has whatever code under check can do to
// another process of its user. A part that a level does not cover is named by it.
func TestMachineOfACommand(t *testing.T) {
	patience.NotUnderRace(t)
	supported(t)
	for _, level := range levels(t) {
		for _, tt := range []struct {
			word    string
			allowed bool   // honest programs do it
			part    string // the name of what a level must say that it does not cover, if the attack succeeds
		}{
			{"files", false, ""},
			{"size", false, ""},
			{"own", true, ""},
			{"trace", false, ""},
			{"environment", false, ""},
			{"memory", false, ""},
			{"open files", false, ""},
			{"kill", false, "signals"},
			{"priority", false, "priorities"},
			{"shared memory", false, "shared memory"},
			{"own shared memory", true, ""},
		} {
			t.Run(fmt.Sprintf("level %d: %s", level, tt.word), func(t *testing.T) {
				v := newVictim(t)
				before := v.state(t)
				r := newRoom(t)
				c := r.command("")
				c.Level = level
				c.Args = []string{os.Args[0], "attack", tt.word, strconv.Itoa(v.Process.Pid), strconv.Itoa(v.object)}
				report, out := r.run(c)
				if report.Coverage.Level != level || report.Error != "" {
					t.Fatalf("got %+v, want level %d", report, level)
				}

				succeeded := report.ExitCode == 0
				isNamed := slices.Contains(report.Coverage.Not, tt.part)
				mayNot := succeeded && !tt.allowed && !isNamed
				mustBe := tt.allowed && !succeeded
				if mayNot || mustBe {
					t.Errorf("succeeded: %v; %s; %s", succeeded, report.Coverage, out)
				}
				if after := v.state(t); !isNamed && after != before {
					t.Errorf("the other process was changed:\n%s\nbefore:\n%s", after, before)
				}
			})
		}
	}
}

// TestSignalToAll sends a signal to every process that a command may signal.
func TestSignalToAll(t *testing.T) {
	supported(t)
	for _, level := range levels(t) {
		if level == confine.LevelFiles {
			continue // it would reach every process of this user
		}
		r := newRoom(t)
		c := r.command("")
		c.Level = level
		c.Args = []string{os.Args[0], "attack", "kill all", "0", "0"}
		heard := make(chan os.Signal, 1)
		signal.Notify(heard, syscall.SIGUSR1)
		r.run(c)
		signal.Stop(heard)
		select {
		case <-heard:
			t.Errorf("level %d: the signal came here", level)
		default:
		}
	}
}

// At the best level, a command is not the first process of its namespace, which behaves in ways that
// programs do not know.
func TestFirstProcess(t *testing.T) {
	supported(t)
	if levels(t)[0] != confine.LevelNamespaces {
		missing(t, "this system makes no namespaces of processes")
	}
	r := newRoom(t)
	// A process whose own parent ended gets another parent, which takes its exit status.
	report, out := r.run(r.command(`test $$ -ne 1 && test $PPID -eq 1 && (sleep 0.01 &) && ls -d /proc/[0-9]* | wc -l && kill -TERM $$`))
	if report.ExitCode != 128+int(syscall.SIGTERM) {
		t.Errorf("got %+v, %s", report, out)
	}
	if n, err := strconv.Atoi(strings.TrimSpace(out)); err != nil || n > 8 {
		t.Errorf("the command sees %s processes", out)
	}
}

// The first process of a namespace passes signals on to the command.
func TestFirstProcessPassesSignalsOn(t *testing.T) {
	supported(t)
	if levels(t)[0] != confine.LevelNamespaces {
		missing(t, "this system makes no namespaces of processes")
	}
	r := newRoom(t)
	p, wait := r.start(r.command(`trap 'exit 9' TERM; echo > ready; while :; do sleep 0.05; done`))
	await(t, "the command did not start", func() bool {
		info, err := os.Stat(filepath.Join(r.work, "ready"))
		return err == nil && info.Size() > 0
	})
	lists, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", p.Pid()))
	if err != nil {
		t.Fatal(err)
	}
	for _, list := range lists {
		raw, _ := os.ReadFile(list) // empty for a thread without children
		for _, word := range strings.Fields(string(raw)) {
			if first, err := strconv.Atoi(word); err == nil {
				syscall.Kill(first, syscall.SIGTERM)
			}
		}
	}
	if report, out := wait(); report.ExitCode != 9 {
		t.Errorf("got %+v, %s", report, out)
	}
}

// The disk of a command is limited: one file, and all of its files together.
func TestDiskIsLimited(t *testing.T) {
	supported(t)
	r := newRoom(t)
	c := r.command(`exec head -c 2000000 /dev/zero > large`)
	c.Disk = 1 << 20
	report, _ := r.run(c)
	if info, err := os.Stat(filepath.Join(r.work, "large")); report.Limit != confine.LimitDisk || err != nil || info.Size() > c.Disk {
		t.Errorf("one file: got %+v, %v", report, err)
	}

	c = r.command(`for i in 1 2 3; do head -c 800000 /dev/zero > $i; done; exec sleep 1000`)
	c.Disk = 1 << 20
	if report, _ := r.run(c); report.Limit != confine.LimitDisk {
		t.Errorf("all files: got %+v", report)
	}
}
