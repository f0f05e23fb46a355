package confine

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"os"
	"slices"
	"time"

	"github.com/parley-agents/parley/internal/stray"
)

// watchEvery is the time between two looks at the processes of a command.
const watchEvery = 200 * time.Millisecond

// stage is the first argument of the process that becomes the command.
const stage = "--stage"

// Main is the command "confined" of this program: the supervisor, or the process that confines
// itself and becomes the command. It returns the exit code.
func Main(args []string) int {
	if len(args) > 2 && args[0] == stage && args[1] == "--" {
		return become(args[2:])
	}
	if len(args) < 2 || args[0] != "--" {
		os.Stderr.WriteString("parley: the hub runs this command to start the checks of a repository\n")
		return 2
	}

	in := bufio.NewReader(os.Stdin)
	line, err := in.ReadBytes('\n')
	var rules Rules
	if err == nil {
		err = json.Unmarshal(line, &rules)
	}
	if err != nil {
		os.Stderr.WriteString("parley: the rules of the command cannot be read\n")
		return 2
	}
	released := make(chan struct{}) // closed when the program that started this one ended, or called End
	go func() {
		io.Copy(io.Discard, in)
		close(released)
	}()

	report := supervise(args[1:], rules, released)
	if json.NewEncoder(os.Stdout).Encode(report) != nil {
		return 1
	}
	return 0
}

// A child is the process of a command.
type child struct {
	pid      int
	confined bool
	sealed   bool
	network  string
	ended    chan int // gets the exit code
}

// supervise runs a command until it ends, reaches a limit or is released, and then ends every
// process that is left.
func supervise(args []string, rules Rules, released <-chan struct{}) Report {
	pen := stray.NewPen()
	c, err := start(args, rules)
	if err != nil {
		pen.Kill()
		return Report{Error: err.Error()}
	}
	report := Report{Started: true, Confined: c.confined, Sealed: c.sealed, Network: c.network, ExitCode: -1}

	watch := time.NewTicker(watchEvery)
	defer watch.Stop()
	over := false
	for !over {
		select {
		case report.ExitCode = <-c.ended:
			over = true
		case <-released:
			report.Ended = true
			over = true
		case <-watch.C:
			report.Limit = exceeded(pen.Processes(), rules)
			over = report.Limit != ""
		}
	}

	left := slices.DeleteFunc(pen.Processes(), func(pid int) bool { return pid == c.pid })
	report.Left = len(left)
	endGroups(append(left, c.pid))
	if err := pen.Kill(); err != nil {
		report.Error = err.Error()
	}
	return report
}

// exceeded returns the limit that the processes exceed.
func exceeded(pids []int, rules Rules) Limit {
	if rules.Processes > 0 && len(pids) > rules.Processes {
		return LimitProcesses
	}
	if rules.Memory == 0 {
		return ""
	}
	var used int64
	for _, pid := range pids {
		used += memory(pid)
	}
	if used > rules.Memory {
		return LimitMemory
	}
	return ""
}

// errNotStarted is the error about a command that its process could not become.
func errNotStarted(text string) error { return errors.New(text) }
