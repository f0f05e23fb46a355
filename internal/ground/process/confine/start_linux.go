package confine

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
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

// scopesABI is the first version that keeps a process from signalling others. Linux has it since 6.12.
const scopesABI = 6

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
	Network string `json:"network,omitempty"` // as the process before made it
	Own     bool   `json:"own,omitempty"`     // it has users and mounts of its own
	First   bool   `json:"first,omitempty"`   // it is the first process of a namespace, and starts the command
	Sealed  bool   `json:"sealed,omitempty"`  // its mounts were made by the first process
}

// A stageAnswer is what that process says before it becomes the command, or why it cannot.
type stageAnswer struct {
	Confined bool   `json:"confined,omitempty"`
	Sealed   bool   `json:"sealed,omitempty"`
	Network  string `json:"network,omitempty"`
	Error    string `json:"error,omitempty"`
	Unable   bool   `json:"unable,omitempty"` // the system does not let it make what the level needs
	Left     int    `json:"left,omitempty"`   // processes that the command left, said by the first one at its end
}

// An attempt is a way to start a command, which not every system has.
type attempt struct {
	level  Level
	spaces uintptr // flags of clone(2) for the namespaces of the process
}

// attempts returns the ways to start a command, the best one first.
func (r Rules) attempts() []attempt {
	const own = syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS
	if r.Unconfined {
		if r.Offline {
			return []attempt{{spaces: own}, {}}
		}
		return []attempt{{}}
	}
	weak := LevelScopes
	if version, err := ll.LandlockGetABIVersion(); err != nil || version < scopesABI {
		weak = LevelFiles
	}
	if r.Level > LevelNamespaces {
		return []attempt{{level: max(weak, r.Level)}}
	}
	return []attempt{
		{LevelNamespaces, own | syscall.CLONE_NEWPID | syscall.CLONE_NEWIPC},
		{weak, own | syscall.CLONE_NEWIPC},
		{level: weak},
	}
}

// start starts the process that becomes the command.
func start(args []string, rules Rules) (child, error) {
	runtime.LockOSThread() // the command is killed when the thread that started it ends

	for _, try := range rules.attempts() {
		c, err := startStage(args, rules, try)
		if errors.Is(err, errUnable) {
			continue
		}
		if err == nil {
			go c.reap()
		}
		return c, err
	}
	return child{}, fmt.Errorf("%w: it makes no process that is confined", ErrUnsupported)
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

// errUnable is the error about a system that does not have a way to start a command.
var errUnable = errors.New("this system makes no such process")

// startStage starts the process that becomes the command, or the first one of a namespace, which
// starts that, and waits until it is the command.
func startStage(args []string, rules Rules, try attempt) (child, error) {
	rules.Level = try.level
	request := stageRequest{Rules: rules, First: try.spaces&syscall.CLONE_NEWPID != 0}
	attr := &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if try.spaces != 0 {
		request.Own = true
		if rules.Offline {
			request.Network = NetworkNone
			try.spaces |= syscall.CLONE_NEWNET
		}
		if err := namespaces(attr, try.spaces); err != nil {
			return child{}, errUnable
		}
	}

	pid, answers, err := startProcess(request, args, attr)
	if err != nil {
		if try.spaces != 0 {
			err = errUnable
		}
		return child{}, err
	}
	read := answers.last
	if request.First { // it says its last answer when the command has ended
		read = answers.first
	}
	answer := read()
	if answer.Unable {
		answers.Close()
		for {
			if _, err := syscall.Wait4(pid, nil, 0, nil); err != syscall.EINTR {
				return child{}, errUnable
			}
		}
	}
	if answer.Error != "" {
		answers.Close()
		go child{pid: pid, ended: make(chan int, 1)}.reap()
		return child{}, errNotStarted(answer.Error)
	}

	c := child{pid: pid, confined: answer.Confined, sealed: answer.Sealed, network: answer.Network, ended: make(chan int, 1)}
	c.coverage = coverage(try.level, answer.Sealed)
	if request.First {
		c.first = true
		c.left = func() int { return answers.last().Left }
	}
	return c, nil
}

// startProcess starts this program again with the argument that makes it become the command, and
// gives it its request.
func startProcess(request stageRequest, args []string, attr *syscall.SysProcAttr) (pid int, answers *answerReader, err error) {
	raw, err := json.Marshal(request)
	if err != nil {
		return 0, nil, err
	}
	requestIn, requestOut, err := os.Pipe()
	if err != nil {
		return 0, nil, err
	}
	defer requestOut.Close()
	answerIn, answerOut, err := os.Pipe()
	if err != nil {
		requestIn.Close()
		return 0, nil, err
	}

	p, err := os.StartProcess(Self(), append([]string{"parley", "confined", stage, "--"}, args...), &os.ProcAttr{
		Env: os.Environ(), Files: []*os.File{requestIn, os.Stderr, os.Stderr, answerOut}, Sys: attr,
	})
	requestIn.Close()
	answerOut.Close()
	if err != nil {
		answerIn.Close()
		return 0, nil, err
	}
	pid = p.Pid
	p.Release()
	requestOut.Write(raw) // a process that ended at once gives no answer
	return pid, &answerReader{answerIn, json.NewDecoder(answerIn)}, nil
}

// An answerReader reads the answers of a process until it becomes the command, or ends.
type answerReader struct {
	io.Closer
	dec *json.Decoder
}

// first returns the next answer.
func (r *answerReader) first() (answer stageAnswer) {
	if r.dec.Decode(&answer) != nil {
		answer.Error = "the process of the command ended at once"
	}
	return answer
}

// last returns all answers until the process closes its end, as one.
func (r *answerReader) last() (answer stageAnswer) {
	n := 0
	for r.dec.Decode(&answer) == nil {
		n++
	}
	if n == 0 {
		answer.Error = "the process of the command ended at once"
	}
	return answer
}

// become confines this process and then becomes the command. It returns only on failure.
func become(args []string) int {
	runtime.LockOSThread() // some limits are those of a thread, and the command gets them from this one
	answers := os.NewFile(3, "answers")
	syscall.CloseOnExec(3)
	say := json.NewEncoder(answers)
	var request stageRequest
	if err := json.NewDecoder(os.Stdin).Decode(&request); err != nil {
		say.Encode(stageAnswer{Error: "read the rules of the command: " + err.Error()})
		return 127
	}
	program, err := exec.LookPath(args[0])
	if err == nil && request.First {
		return runFirst(request, args, program, say)
	}
	if err == nil {
		err = limitAndExec(request, args, program, say)
	}
	say.Encode(stageAnswer{Error: err.Error()})
	return 127
}

// limitAndExec obeys the rules and executes the command.
func limitAndExec(request stageRequest, args []string, program string, say *json.Encoder) error {
	if request.Network == NetworkNone && loopback() == nil {
		request.Network = NetworkLoopback
	}
	if request.Own && !request.Unconfined && !request.Sealed {
		own, err := seal(request.Rules, program)
		if errors.Is(err, errSealed) {
			return err
		}
		request.Sealed = err == nil
		if request.Sealed {
			request.Write = append(request.Write, own...)
		}
	}
	if err := limit(request); err != nil {
		return err
	}
	if err := dropCapabilities(request.Level); err != nil {
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
	if request.Level > LevelNamespaces {
		if err := filterCalls(); err != nil {
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
	if err := say.Encode(stageAnswer{Confined: !request.Unconfined, Sealed: request.Sealed, Network: request.Network}); err != nil {
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
	if err := lowerLimit(syscall.RLIMIT_CORE, 0); err != nil {
		return err
	}
	if request.Disk > 0 {
		if err := lowerLimit(syscall.RLIMIT_FSIZE, uint64(request.Disk)); err != nil {
			return err
		}
	}
	if request.Processes > 0 && os.Getuid() != 0 { // the kernel does not limit root
		tasks := uint64(request.Processes) * tasksOfProcess
		if !request.Own {
			tasks += tasksOfUser() // the kernel counts all processes of the user
		}
		if err := lowerLimit(rlimitNproc, tasks); err != nil {
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

// lowerLimit sets a limit of this process, unless it has a lower one.
func lowerLimit(resource int, most uint64) error {
	var now syscall.Rlimit
	if err := syscall.Getrlimit(resource, &now); err != nil {
		return err
	}
	now.Max = min(now.Max, most)
	now.Cur = now.Max
	return syscall.Setrlimit(resource, &now)
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
	0:       true, // CAP_CHOWN
	1:       true, // CAP_DAC_OVERRIDE
	3:       true, // CAP_FOWNER
	4:       true, // CAP_FSETID
	capKill: true,
	6:       true, // CAP_SETGID
	7:       true, // CAP_SETUID
	8:       true, // CAP_SETPCAP
	10:      true, // CAP_NET_BIND_SERVICE
}

// dropCapabilities makes the command have no more capabilities than a user has, or as root those
// over files and users. Without a namespace of processes, root cannot signal the processes of others.
func dropCapabilities(level Level) error {
	_, _, errno := syscall.RawSyscall6(syscall.SYS_PRCTL, prCapAmbient, prCapAmbientClear, 0, 0, 0, 0)
	if errno != 0 {
		return fmt.Errorf("drop capabilities: %w", errno)
	}
	if os.Getuid() != 0 {
		return nil // the kernel takes them away when the process becomes the command
	}
	for capability := range uintptr(lastCapability + 1) {
		isKept := keptCapabilities[capability] && (capability != capKill || level <= LevelNamespaces)
		if isKept {
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
	if request.Level == LevelFiles {
		config.Scoped = 0
	}
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
