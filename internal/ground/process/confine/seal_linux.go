package confine

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"unsafe"
)

// Capabilities of capabilities(7).
const (
	capKill     = 5
	capNetAdmin = 12 // for the loopback addresses
	capSysAdmin = 21 // for mounts
)

// namespaces makes a process have namespaces of its own, such as users and mounts. Users keep their
// numbers.
func namespaces(attr *syscall.SysProcAttr, spaces uintptr) error {
	attr.Cloneflags = spaces
	if os.Getuid() != 0 {
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getuid(), HostID: os.Getuid(), Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getgid(), HostID: os.Getgid(), Size: 1}}
		attr.AmbientCaps = []uintptr{capNetAdmin, capSysAdmin} // until the process becomes the command
		return nil
	}

	var err error
	if attr.UidMappings, err = identity("/proc/self/uid_map"); err != nil {
		return err
	}
	attr.GidMappings, err = identity("/proc/self/gid_map")
	attr.GidMappingsEnableSetgroups = true
	return err
}

// identity returns a mapping of all numbers that a mapping of the kernel has to themselves.
func identity(path string) (all []syscall.SysProcIDMap, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		var inside, outside, size int
		if _, err := fmt.Sscan(lines.Text(), &inside, &outside, &size); err != nil {
			return nil, err
		}
		all = append(all, syscall.SysProcIDMap{ContainerID: inside, HostID: inside, Size: size})
	}
	return all, lines.Err()
}

// services are the sockets, and the folders of sockets, of programs that do for a user what the
// user asks, such as starting a process that nothing confines.
var services = []string{
	"/run/user", "/run/dbus", "/run/systemd/private", "/run/systemd/notify", "/run/systemd/io.systemd.*", "/run/snapd*.socket",
	"/run/docker.sock", "/run/docker", "/run/containerd", "/run/podman", "/run/crio", "/run/buildkit", "/run/libvirt", "/run/lxd.socket", "/var/lib/lxd/unix.socket", "/var/lib/incus/unix.socket", "/var/snap/lxd/common/lxd/unix.socket",
	"/run/screen", "/run/screens", "/run/tmux", "/tmp/tmux-*", "/tmp/screens", "/tmp/.X11-unix", "/tmp/.ICE-unix", "/tmp/ssh-*", "/tmp/emacs*", "/tmp/dbus-*", "/run/pcscd", "/run/keyring*", "/run/gnome-keyring*",
}

// Flags of mount_setattr(2), whose number is the same on all machines.
const (
	sysMountSetattr  = 442
	mountReadOnly    = 1
	atRecursive      = 0x8000
	atCurrentFolder  = -100
	tmpfsFlags       = syscall.MS_RDONLY | syscall.MS_NOSUID | syscall.MS_NODEV | syscall.MS_NOEXEC
	bindRecursive    = syscall.MS_BIND | syscall.MS_REC
	privateRecursive = syscall.MS_PRIVATE | syscall.MS_REC
)

// errSealed is the error about mounts that could be made, but not undone.
var errSealed = errors.New("the folders of the command stay read-only")

// Folders that a sealed command has for itself.
const (
	temporary        = "/tmp"
	sharedMemory     = "/dev/shm"
	sharedMemorySize = "size=512m,mode=1777"
)

// seal makes every file read-only for this process but those below the writable folders, without
// the protected ones, and puts empty files and folders in place of sockets. That includes modes,
// owners, times and attributes of files, about which Landlock says nothing. The process must have
// mounts of its own. seal returns the folders that the process has for itself. The error is
// errSealed if the process cannot go on.
func seal(rules Rules, program string) (own []string, err error) {
	if err := syscall.Mount("", "/", "", privateRecursive, ""); err != nil {
		return nil, err
	}
	writable := rules.Write
	if rules.Base != "" {
		inBase := func(path string) bool { return Covers(rules.Base, path) }
		writable = append(slices.DeleteFunc(slices.Clone(rules.Write), inBase), rules.Base)
	}
	for _, path := range slices.Concat(writable, rules.Protected) {
		if err := syscall.Mount(path, path, "", bindRecursive, ""); err != nil {
			return nil, err
		}
	}
	for _, path := range sockets(rules) {
		cover(path) // one that cannot be covered can be reached, as without mounts
	}

	// A folder in which the command needs something stays.
	if !rules.needs(sharedMemory, program) && syscall.Mount("tmpfs", sharedMemory, "tmpfs", syscall.MS_NOSUID|syscall.MS_NODEV, sharedMemorySize) == nil {
		own = append(own, sharedMemory)
	}
	mayReplace := rules.Temporary != "" && !rules.needs(temporary, program)
	if mayReplace && syscall.Mount(rules.Temporary, temporary, "", syscall.MS_BIND, "") == nil {
		own = append(own, temporary)
	}
	return own, readOnlyBut(slices.Concat(writable, own))
}

// needs reports whether a command needs something in a folder.
func (r Rules) needs(folder, program string) bool {
	paths := slices.Concat(r.Write, r.Read, []string{program})
	return slices.ContainsFunc(paths, func(path string) bool { return path != "" && Covers(folder, path) })
}

// readOnlyBut makes all mounts read-only but some.
func readOnlyBut(writable []string) error {
	if err := setReadOnly("/", atRecursive, true); err != nil {
		return err
	}
	for _, path := range writable {
		if err := setReadOnly(path, 0, false); err != nil {
			return fmt.Errorf("%w: %s: %v", errSealed, path, err)
		}
	}

	// The working folder is that of the mount before.
	dir, err := os.Getwd()
	if err == nil {
		err = os.Chdir(dir)
	}
	if err != nil {
		return fmt.Errorf("%w: %v", errSealed, err)
	}
	return nil
}

// sockets returns the sockets that a command must not reach: those of services, and those in
// hidden folders, such as the hub's.
func sockets(rules Rules) (paths []string) {
	for _, pattern := range services {
		found, _ := filepath.Glob(pattern) // the patterns are valid
		paths = append(paths, found...)
	}
	for _, folder := range rules.Hidden {
		entries, _ := os.ReadDir(folder) // none of a file
		for _, e := range entries {
			if e.Type()&os.ModeSocket != 0 {
				paths = append(paths, filepath.Join(folder, e.Name()))
			}
		}
	}
	return slices.DeleteFunc(paths, func(path string) bool { return rules.needs(path, "") })
}

// cover puts an empty folder or file in place of another.
func cover(path string) error {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return err
	case info.IsDir():
		return syscall.Mount("tmpfs", path, "tmpfs", tmpfsFlags, "size=4k")
	}
	return syscall.Mount(os.DevNull, path, "", syscall.MS_BIND, "")
}

// setReadOnly makes a mount read-only, or writable again.
func setReadOnly(path string, flags uintptr, readOnly bool) error {
	var attr struct{ set, clear, propagation, userns uint64 }
	if readOnly {
		attr.set = mountReadOnly
	} else {
		attr.clear = mountReadOnly
	}
	name, err := syscall.BytePtrFromString(path)
	if err != nil {
		return err
	}
	here := atCurrentFolder
	_, _, errno := syscall.Syscall6(sysMountSetattr, uintptr(here), uintptr(unsafe.Pointer(name)), flags, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr), 0)
	if errno != 0 {
		return errno
	}
	return nil
}
