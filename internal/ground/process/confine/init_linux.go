package confine

import (
	"bytes"
	"encoding/json"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
)

// passed are the signals that the first process of a namespace passes on to the command.
var passed = []os.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGCONT, syscall.SIGWINCH}

// runFirst is the first process of a namespace of processes. It makes the mounts of the command,
// starts the process that becomes the command, passes signals on to it, and is the parent of every
// process whose own parent ended. It returns the exit code of the command; with its end, the kernel
// ends every process that is left.
//
// The command cannot trace this process or signal it, which is outside of its domain of Landlock.
func runFirst(request stageRequest, args []string, program string, say *json.Encoder) int {
	if request.Network == NetworkNone && loopback() == nil {
		request.Network = NetworkLoopback
	}
	own, err := seal(request.Rules, program)
	if err == nil {
		err = syscall.Mount("proc", "/proc", "proc", syscall.MS_NOSUID|syscall.MS_NODEV|syscall.MS_NOEXEC, "")
	}
	if err != nil { // such as in a container that masks files of /proc
		say.Encode(stageAnswer{Unable: true, Error: err.Error()})
		return 127
	}
	request.First = false
	request.Sealed = true
	request.Write = append(request.Write, own...)

	signals := make(chan os.Signal, 16)
	signal.Notify(signals, passed...)
	pid, answers, err := startProcess(request, args, &syscall.SysProcAttr{Setpgid: true})
	if err != nil {
		say.Encode(stageAnswer{Error: err.Error()})
		return 127
	}
	answer := answers.last()
	answers.Close()
	say.Encode(answer)
	go func() {
		for s := range signals {
			if number, ok := s.(syscall.Signal); ok {
				syscall.Kill(pid, number)
			}
		}
	}()

	code := awaitFirst(pid)
	say.Encode(stageAnswer{Left: othersAlive()})
	return code
}

// awaitFirst takes the exit status of every child until the command has ended.
func awaitFirst(pid int) int {
	for {
		var status syscall.WaitStatus
		ended, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case err == syscall.EINTR:
		case err != nil:
			return 127
		case ended == pid && status.Signaled():
			return 128 + int(status.Signal())
		case ended == pid:
			return status.ExitStatus()
		}
	}
}

// othersAlive counts the processes of this namespace that have not ended, without this one.
func othersAlive() (n int) {
	states, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range states {
		raw, err := os.ReadFile(path)
		own := filepath.Base(filepath.Dir(path)) == strconv.Itoa(os.Getpid())
		_, rest, found := bytes.Cut(raw, []byte(") "))
		hasEnded := err != nil || !found || bytes.HasPrefix(rest, []byte("Z")) || bytes.HasPrefix(rest, []byte("X"))
		if !own && !hasEnded {
			n++
		}
	}
	return n
}
