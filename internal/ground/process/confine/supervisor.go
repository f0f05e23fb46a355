package confine

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/parley-agents/parley/internal/ground/process/stray"
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
	coverage Coverage
	ended    chan int // gets the exit code

	first bool       // it is the first process of a namespace, which started the command
	left  func() int // processes that the command of a namespace left; valid after its end
}

// processes returns the processes of the command.
func (c child) processes(pen *stray.Pen) []int {
	all := pen.Processes()
	if c.first {
		all = slices.DeleteFunc(all, func(pid int) bool { return pid == c.pid })
	}
	return all
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
	report := Report{Started: true, Confined: c.confined, Sealed: c.sealed, Coverage: c.coverage, Network: c.network, ExitCode: -1}

	watch := time.NewTicker(watchEvery)
	defer watch.Stop()
	count := time.NewTicker(countEvery)
	defer count.Stop()
	full := make(chan bool, 1)
	over := false
	hasEnded := false
	for !over {
		select {
		case report.ExitCode = <-c.ended:
			hasEnded = true
			over = true
		case <-released:
			report.Ended = true
			over = true
		case <-watch.C:
			report.Limit = exceeded(c.processes(pen), rules)
		case <-count.C:
			if rules.Disk > 0 {
				count.Stop()
				go func() { full <- rules.used() > rules.Disk }()
			}
		case isFull := <-full:
			if isFull {
				report.Limit = LimitDisk
			}
			count.Reset(countEvery)
		}
		over = over || report.Limit != ""
	}

	left := slices.DeleteFunc(pen.Processes(), func(pid int) bool { return pid == c.pid })
	report.Left = len(left)
	if report.Limit == "" && !report.Ended { // a command that made them since the last look
		report.Limit = exceeded(left, rules)
	}
	endGroups(append(left, c.pid))
	if c.first && !hasEnded { // the kernel takes its status when every process of the namespace has ended
		select {
		case <-c.ended:
		case <-time.After(endTime):
		}
	}
	if err := pen.Kill(); err != nil {
		report.Error = err.Error()
	}

	// The kernel has ended what the command of a namespace left.
	if c.left != nil {
		report.Left = max(report.Left, c.left())
		hasMany := rules.Processes > 0 && report.Left > rules.Processes
		if report.Limit == "" && !report.Ended && hasMany {
			report.Limit = LimitProcesses
		}
	}
	if report.Limit == "" && rules.Disk > 0 && report.ExitCode == tooLargeFile {
		report.Limit = LimitDisk
	}
	return report
}

// endTime is the time in which a namespace must be gone after a kill.
const endTime = 5 * time.Second

// countEvery is the time between two counts of the bytes that a command has on disk.
const countEvery = 10 * time.Second

// tooLargeFile is the exit code of a command that was ended by the kernel because it wrote a file
// beyond its limit: 128 and the number of SIGXFSZ.
const tooLargeFile = 128 + 25

// used returns the bytes that the files of a command have on disk.
func (r Rules) used() (bytes int64) {
	folders := r.Write
	if r.Base != "" {
		folders = []string{r.Base}
	}
	for _, folder := range folders {
		filepath.WalkDir(folder, func(_ string, d fs.DirEntry, err error) error {
			if err != nil {
				return nil // it was removed meanwhile
			}
			if info, err := d.Info(); err == nil {
				bytes += onDisk(info)
			}
			return nil
		})
	}
	return bytes
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
