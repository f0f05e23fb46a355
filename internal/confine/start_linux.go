package confine

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"unsafe"

	"github.com/landlock-lsm/go-landlock/landlock"
	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"
)

// needABI is the first version of Landlock that restricts the truncation of files: without it a
// command could empty every file of the user. Linux has it since 6.2.
const needABI = 3

// tcpABI is the first version that restricts TCP. Linux has it since 6.7.
const tcpABI = 4

// Supported returns nil if this system can confine a command, and else an error that wraps
// ErrUnsupported.
func Supported() error {
	version, err := ll.LandlockGetABIVersion()
	if err != nil {
		return fmt.Errorf("%w: Landlock is not part of this kernel, or it is not enabled", ErrUnsupported)
	}
	if version < needABI {
		return fmt.Errorf("%w: it needs Linux 6.2 or later (Landlock %d; this kernel has %d)", ErrUnsupported, needABI, version)
	}
	return nil
}

// alone makes cmd, before its start, the leader of a session without a terminal.
func alone(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }

// killGroup kills a process and its group.
func killGroup(p *os.Process) {
	syscall.Kill(-p.Pid, syscall.SIGKILL) // fails if it has ended
	p.Kill()
}

// endGroups kills the process groups of processes. The kernel kills a group at once, even one
// that makes processes faster than they can be listed.
func endGroups(pids []int) {
	killed := map[int]bool{0: true, 1: true, syscall.Getpgrp(): true}
	for _, pid := range pids {
		group, err := syscall.Getpgid(pid)
		if err == nil && !killed[group] {
			killed[group] = true
			syscall.Kill(-group, syscall.SIGKILL)
		}
	}
}

// memory returns the bytes of memory that a process alone has; 0 for one that has ended.
func memory(pid int) int64 {
	raw, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/statm")
	if err != nil {
		return 0
	}
	var size, resident, shared int64
	fmt.Sscan(string(raw), &size, &resident, &shared) // zeros for a process that has ended
	return (resident - shared) * int64(os.Getpagesize())
}

// A stageRequest is what the process that becomes the command reads from its standard input.
type stageRequest struct {
	Rules
	Network string `json:"network,omitempty"` // as the supervisor made it
	Own     bool   `json:"own,omitempty"`     // it has users and mounts of its own
}

// A stageAnswer is what that process says before it becomes the command, or why it cannot.
type stageAnswer struct {
	Confined bool   `json:"confined,omitempty"`
	Sealed   bool   `json:"sealed,omitempty"`
	Network  string `json:"network,omitempty"`
	Error    string `json:"error,omitempty"`
}

// start starts the process that becomes the command.
func start(args []string, rules Rules) (child, error) {
	runtime.LockOSThread() // the command is killed when the thread that started it ends

	pid := 0
	var answer stageAnswer
	var err error
	separate := rules.Offline || !rules.Unconfined
	if separate {
		pid, answer, err = startStage(args, rules, true)
	}
	if !separate || errors.Is(err, errNoNamespace) {
		pid, answer, err = startStage(args, rules, false)
	}
	if err != nil {
		return child{}, err
	}

	c := child{pid: pid, confined: answer.Confined, sealed: answer.Sealed, network: answer.Network, ended: make(chan int, 1)}
	go c.reap()
	if answer.Error != "" {
		return child{}, errNotStarted(answer.Error)
	}
	return c, nil
}

// reap takes the exit status of the command, and of every other child of this process: it is
// the parent of processes whose own parent ended.
func (c child) reap() {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case err == syscall.EINTR:
		case err != nil:
			return // no child is left
		case pid == c.pid && status.Signaled():
			c.ended <- 128 + int(status.Signal())
		case pid == c.pid:
			c.ended <- status.ExitStatus()
		}
	}
}

// errNoNamespace is the error about a system that makes no namespaces for this user.
var errNoNamespace = errors.New("no namespace")

// startStage starts this program again with the argument that makes it become the command, and
// returns its answer. With separate, the process is in namespaces of its own.
func startStage(args []string, rules Rules, separate bool) (pid int, answer stageAnswer, err error) {
	requestIn, requestOut, err := os.Pipe()
	if err != nil {
		return 0, answer, err
	}
	defer requestIn.Close()
	defer requestOut.Close()
	answerIn, answerOut, err := os.Pipe()
	if err != nil {
		return 0, answer, err
	}
	defer answerIn.Close()
	defer answerOut.Close()

	request := stageRequest{Rules: rules}
	attr := &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if separate {
		request.Own = true
		if rules.Offline {
			request.Network = NetworkNone
		}
		if err := namespaces(attr, rules.Offline); err != nil {
			return 0, answer, errNoNamespace
		}
	}
	raw, err := json.Marshal(request)
	if err != nil {
		return 0, answer, err
	}

	p, err := os.StartProcess(self(), append([]string{"parley", "confined", stage, "--"}, args...), &os.ProcAttr{
		Env: os.Environ(), Files: []*os.File{requestIn, os.Stderr, os.Stderr, answerOut}, Sys: attr,
	})
	if err != nil {
		if separate {
			err = errNoNamespace
		}
		return 0, answer, err
	}
	pid = p.Pid
	p.Release()
	answerOut.Close()
	requestIn.Close()
	_, err = requestOut.Write(raw)
	requestOut.Close()
	if err != nil {
		answer.Error = "the process of the command ended at once"
	}

	// The process closes its end when it becomes the command, or ends.
	dec := json.NewDecoder(answerIn)
	for dec.Decode(&answer) == nil {
	}
	return pid, answer, nil
}

// become confines this process and then becomes the command. It returns only on failure.
func become(args []string) int {
	runtime.LockOSThread() // some limits are those of a thread, and the command gets them from this one
	answers := os.NewFile(3, "answers")
	syscall.CloseOnExec(3)
	say := json.NewEncoder(answers)
	err := limitAndExec(args, say)
	say.Encode(stageAnswer{Error: err.Error()})
	return 127
}

// limitAndExec reads the rules, obeys them and executes the command.
func limitAndExec(args []string, say *json.Encoder) error {
	var request stageRequest
	if err := json.NewDecoder(os.Stdin).Decode(&request); err != nil {
		return fmt.Errorf("read the rules of the command: %w", err)
	}
	program, err := exec.LookPath(args[0])
	if err != nil {
		return err
	}

	if request.Network == NetworkNone && loopback() == nil {
		request.Network = NetworkLoopback
	}
	sealed := false
	if request.Own && !request.Unconfined {
		own, err := seal(request.Rules, program)
		if errors.Is(err, errSealed) {
			return err
		}
		sealed = err == nil
		if sealed {
			request.Write = append(request.Write, own...)
		}
	}
	if err := limit(request); err != nil {
		return err
	}
	if err := dropCapabilities(); err != nil {
		return err
	}
	if request.Offline && request.Network == "" {
		request.Network = NetworkOpen
	}
	if !request.Unconfined {
		if err := restrict(&request); err != nil {
			return err
		}
	}

	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err == nil {
		err = syscall.Dup3(int(null.Fd()), 0, 0)
	}
	if err != nil {
		return err
	}
	if err := say.Encode(stageAnswer{Confined: !request.Unconfined, Sealed: sealed, Network: request.Network}); err != nil {
		return err
	}
	return fmt.Errorf("%s: %w", program, syscall.Exec(program, args, os.Environ()))
}

// Numbers of the kernel that package syscall does not have.
const (
	rlimitNproc         = 6
	prCapAmbient        = 47
	prCapAmbientClear   = 4
	prSetNoNewPrivs     = 38
	prCapBsetDrop       = 24
	keyctlJoinSession   = 1
	lastCapability      = 63
	tasksOfProcess      = 8     // the kernel counts threads, too
	outOfMemoryPriority = "800" // if the machine has no memory left, the command is ended first
)

// limit sets the limits that the kernel enforces.
func limit(request stageRequest) error {
	none := syscall.Rlimit{}
	if err := syscall.Setrlimit(syscall.RLIMIT_CORE, &none); err != nil {
		return err
	}
	if request.Processes > 0 && os.Getuid() != 0 { // the kernel does not limit root
		tasks := uint64(request.Processes) * tasksOfProcess
		if !request.Own {
			tasks += tasksOfUser() // the kernel counts all processes of the user
		}
		var now syscall.Rlimit
		if err := syscall.Getrlimit(rlimitNproc, &now); err != nil {
			return err
		}
		now.Max = min(now.Max, tasks)
		now.Cur = now.Max
		if err := syscall.Setrlimit(rlimitNproc, &now); err != nil {
			return err
		}
	}

	// Not all systems let a process have these. A key ring of its own has no keys.
	syscall.RawSyscall(syscall.SYS_KEYCTL, keyctlJoinSession, 0, 0)
	os.WriteFile("/proc/self/oom_score_adj", []byte(outOfMemoryPriority), 0)
	_, _, errno := syscall.RawSyscall6(syscall.SYS_PRCTL, prSetNoNewPrivs, 1, 0, 0, 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// tasksOfUser returns the number of threads of all processes of this user.
func tasksOfUser() uint64 {
	var n uint64
	dirs, _ := filepath.Glob("/proc/[0-9]*/task")
	for _, dir := range dirs {
		info, err := os.Stat(dir)
		if err != nil {
			continue
		}
		if stat, ok := info.Sys().(*syscall.Stat_t); ok && int(stat.Uid) == os.Getuid() {
			n += uint64(max(stat.Nlink, 3) - 2)
		}
	}
	return n
}

// keptCapabilities are those of root over files and users. The others, such as that of raw
// disks, devices, modules and mounts, would lead around the confinement.
var keptCapabilities = map[uintptr]bool{
	0:  true, // CAP_CHOWN
	1:  true, // CAP_DAC_OVERRIDE
	3:  true, // CAP_FOWNER
	4:  true, // CAP_FSETID
	5:  true, // CAP_KILL
	6:  true, // CAP_SETGID
	7:  true, // CAP_SETUID
	8:  true, // CAP_SETPCAP
	10: true, // CAP_NET_BIND_SERVICE
}

// dropCapabilities makes the command have no more capabilities than a user has, or as root those
// over files and users.
func dropCapabilities() error {
	_, _, errno := syscall.RawSyscall6(syscall.SYS_PRCTL, prCapAmbient, prCapAmbientClear, 0, 0, 0, 0)
	if errno != 0 {
		return fmt.Errorf("drop capabilities: %w", errno)
	}
	if os.Getuid() != 0 {
		return nil // the kernel takes them away when the process becomes the command
	}
	for capability := range uintptr(lastCapability + 1) {
		if keptCapabilities[capability] {
			continue
		}
		_, _, errno := syscall.RawSyscall(syscall.SYS_PRCTL, prCapBsetDrop, capability, 0)
		if errno != 0 && errno != syscall.EINVAL && errno != syscall.EPERM { // one that this kernel does not have, or that root does not have here
			return fmt.Errorf("drop capability %d: %w", capability, errno)
		}
	}
	return nil
}

// An interfaceRequest is struct ifreq of netdevice(7), with flags.
type interfaceRequest struct {
	name  [syscall.IFNAMSIZ]byte
	flags uint16
	_     [22]byte
}

// loopback gives the network of this process its loopback addresses.
func loopback() error {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_DGRAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer syscall.Close(fd)
	request := interfaceRequest{flags: syscall.IFF_UP | syscall.IFF_RUNNING}
	copy(request.name[:], "lo")
	_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, uintptr(fd), syscall.SIOCSIFFLAGS, uintptr(unsafe.Pointer(&request)))
	if errno != 0 {
		return errno
	}
	return nil
}

// devices are those that a confined command may use.
var devices = []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty", "/dev/ptmx"}

// terminals is the folder of the terminals that processes make for themselves.
const terminals = "/dev/pts"

// restrict confines this process with Landlock.
func restrict(request *stageRequest) error {
	version, err := ll.LandlockGetABIVersion()
	if err != nil {
		return err
	}
	config := landlock.V11.BestEffort()
	if request.Offline && request.Network == NetworkOpen && version >= tcpABI {
		request.Network = NetworkNoTCP
	} else {
		config.HandledAccessNet = 0
	}

	folders, files := readable(append(request.Hidden, "/dev"))
	for _, path := range request.Read {
		info, err := os.Stat(path)
		switch {
		case err != nil:
			return err
		case info.IsDir():
			folders = append(folders, path)
		default:
			files = append(files, path)
		}
	}
	err = config.Restrict(
		landlock.RODirs(folders...).IgnoreIfMissing(),
		landlock.ROFiles(files...).IgnoreIfMissing(),
		landlock.RWFiles(devices...).WithIoctlDev().IgnoreIfMissing(),
		landlock.RWDirs(terminals).WithIoctlDev().IgnoreIfMissing(),
		landlock.RWDirs(request.Write...).WithRefer(),
	)
	if err != nil {
		return fmt.Errorf("confine the command: %w", err)
	}
	return nil
}

// readable returns the folders and files that together have everything but the hidden ones.
// Landlock allows a folder with all that is in it, so a folder above a hidden file is not
// returned itself: what is in it is. Links are not returned: a rule would be one for their
// target.
func readable(hidden []string) (folders, files []string) {
	hide := map[string]bool{}
	above := map[string]bool{}
	for _, path := range hidden {
		path, err := filepath.EvalSymlinks(path)
		if err != nil {
			continue // there is no such file
		}
		hide[path] = true
		for up := filepath.Dir(path); !above[up]; up = filepath.Dir(up) {
			above[up] = true
		}
	}
	if len(above) == 0 {
		return []string{"/"}, nil
	}

	for dir := range above {
		if inside(dir, hide) {
			continue
		}
		entries, _ := os.ReadDir(dir) // none of a folder that this user cannot list
		for _, e := range entries {
			path := filepath.Join(dir, e.Name())
			switch {
			case hide[path] || above[path] || e.Type()&os.ModeSymlink != 0:
			case e.IsDir():
				folders = append(folders, path)
			default:
				files = append(files, path)
			}
		}
	}
	return folders, files
}

// inside reports whether a path, or a folder that it is in, is in a set.
func inside(path string, set map[string]bool) bool {
	for ; path != "/"; path = filepath.Dir(path) {
		if set[path] {
			return true
		}
	}
	return set["/"]
}
